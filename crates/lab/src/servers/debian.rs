//! Software from the system's package manager, as on Debian: installed for all users, without
//! starting a service.

use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::process::is_root;
use super::{Launch, Say, ServerError, Site, io};

/// The script that invoke-rc.d(8) runs before it starts a service; status 101 forbids it.
const POLICY: &str = "/usr/sbin/policy-rc.d";

/// The path of a program on `PATH` or in the directories of system programs.
pub fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let system = ["/usr/sbin", "/sbin"].map(PathBuf::from);
    std::env::split_paths(&path).chain(system).map(|d| d.join(name)).find(|p| p.is_file())
}

/// Installs packages; without the permission, returns an error with the command to run.
pub fn install(site: &Site, packages: &[&str], say: &Say) -> Result<(), ServerError> {
    let command = format!("apt-get install --no-install-recommends {}", packages.join(" "));
    if !is_root() || program("apt-get").is_none() {
        return Err(ServerError::Missing {
            what: format!("not installed: {}", packages.join(", ")),
            remedy: format!("install it: sudo {command}"),
        });
    }
    say(&format!("installs {}", packages.join(", ")));
    let log = site.log.join("apt-get.log");
    let _policy = Policy::put()?;
    // Outdated package lists may suffice; if not, the installation fails with a message.
    let _ = apt(["update", "-qq"].map(str::to_owned).to_vec()).run(&log, &site.log);
    let mut arguments = vec!["install", "-y", "-qq", "--no-install-recommends"];
    arguments.extend(packages);
    apt(arguments.into_iter().map(str::to_owned).collect()).run(&log, &site.log)
}

fn apt(arguments: Vec<String>) -> Launch {
    Launch::new("apt-get", arguments).variable("DEBIAN_FRONTEND", "noninteractive")
}

/// Whether a package is installed.
pub fn installed(package: &str) -> bool {
    let mut command = Command::new("dpkg-query");
    let output = command.args(["-W", "-f", "${Status}", package]).output();
    output.is_ok_and(|o| String::from_utf8_lossy(&o.stdout).ends_with("ok installed"))
}

/// A policy that forbids starting services while packages are installed; an existing policy of the
/// administrator is left unchanged.
struct Policy {
    ours: bool,
}

impl Policy {
    fn put() -> Result<Policy, ServerError> {
        let mut options = std::fs::File::options();
        let file = options.write(true).create_new(true).mode(0o755).open(POLICY);
        match file {
            Ok(mut file) => {
                let policy = Policy { ours: true };
                std::io::Write::write_all(&mut file, b"#!/bin/sh\nexit 101\n")
                    .map_err(io(Path::new(POLICY)))?;
                Ok(policy)
            }
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => Ok(Policy { ours: false }),
            Err(e) => Err(io(Path::new(POLICY))(e)),
        }
    }
}

impl Drop for Policy {
    fn drop(&mut self) {
        if self.ours {
            let _ = std::fs::remove_file(POLICY);
        }
    }
}
