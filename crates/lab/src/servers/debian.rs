//! Software from the system's package manager, as on Debian: installed for all, without starting a
//! service of its own.

use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::process::is_root;
use super::{Launch, Say, ServerError, Site, io};

/// What invoke-rc.d(8) asks before it starts a service; 101 says no.
const POLICY: &str = "/usr/sbin/policy-rc.d";

/// The path of a program on `PATH` or where system programs are.
pub fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let system = ["/usr/sbin", "/sbin"].map(PathBuf::from);
    std::env::split_paths(&path).chain(system).map(|d| d.join(name)).find(|p| p.is_file())
}

/// Installs packages; where that is not ours to do, an error with the command that does it.
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
    // Old lists may do; if they do not, installing says so.
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

/// A policy that lets no service start, for as long as packages are installed; the administrator's
/// own is left as it is.
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
