//! Software from the system's package manager, as on Debian: installed for all users, without
//! starting a service.

use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::home::once;
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

/// Downloads a package and those that it needs and the system has not, and unpacks them into
/// `directory`, unless that exists. For packages that exclude others of the system. Blocks.
pub fn unpack_once(
    site: &Site,
    directory: &Path,
    package: &str,
    say: &Say,
) -> Result<(), ServerError> {
    let missing = |what: String| ServerError::Missing {
        what,
        remedy: "it is for Debian and its like; on others, leave this store out".to_owned(),
    };
    if program("apt-get").is_none() || program("dpkg").is_none() {
        return Err(missing(format!("{package} is unpacked by apt-get and dpkg")));
    }
    once(directory, |part| {
        say(&format!("fetches {package}"));
        let mut packages = needed(package);
        if packages.is_empty() && is_root() {
            let _ = apt(vec!["update".to_owned(), "-qq".to_owned()])
                .run(&site.log.join("apt-get.log"), &site.log);
            packages = needed(package);
        }
        if packages.is_empty() {
            return Err(ServerError::Missing {
                what: format!("apt knows no package {package}"),
                remedy: "refresh its lists: sudo apt-get update".to_owned(),
            });
        }
        let downloads = part.join("packages");
        std::fs::create_dir_all(&downloads).map_err(io(&downloads))?;
        // `apt-get download` writes into the current directory.
        let mut arguments = vec!["-C".to_owned(), downloads.display().to_string()];
        arguments.extend(["apt-get", "download", "-qq"].map(str::to_owned));
        if is_root() {
            // Another user could not enter the directory.
            arguments.extend(["-o", "APT::Sandbox::User=root"].map(str::to_owned));
        }
        arguments.extend(packages);
        Launch::new("env", arguments).run(&site.log.join("apt-get.log"), part)?;
        let entries = std::fs::read_dir(&downloads).map_err(io(&downloads))?;
        for entry in entries {
            let file = entry.map_err(io(&downloads))?.path();
            let unpack = [file.display().to_string(), part.display().to_string()];
            Launch::new("dpkg", ["-x".to_owned()].into_iter().chain(unpack))
                .run(&site.log.join("dpkg.log"), part)?;
        }
        std::fs::remove_dir_all(&downloads).map_err(io(&downloads))
    })
}

/// What apt would install for a package, itself included.
fn needed(package: &str) -> Vec<String> {
    let mut command = Command::new("apt-get");
    command.args(["install", "--simulate", "--no-install-recommends", package]);
    let Ok(output) = command.output() else { return Vec::new() };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let installs = text.lines().filter_map(|line| line.strip_prefix("Inst "));
    installs.filter_map(|rest| rest.split(' ').next()).map(str::to_owned).collect()
}

/// Whether a package is installed.
pub fn installed(package: &str) -> bool {
    let mut command = Command::new("dpkg-query");
    let output = command.args(["-W", "-f", "${Status}", package]).output();
    output.is_ok_and(|o| String::from_utf8_lossy(&o.stdout).ends_with("ok installed"))
}

/// Our policy. It says whose it is, so that one that a killed run left behind is known.
const FORBIDS: &str =
    "#!/bin/sh\n# loginson-lab put this here while it installed packages.\nexit 101\n";

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
                std::io::Write::write_all(&mut file, FORBIDS.as_bytes())
                    .map_err(io(Path::new(POLICY)))?;
                Ok(policy)
            }
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {
                let ours = std::fs::read_to_string(POLICY).is_ok_and(|text| text == FORBIDS);
                Ok(Policy { ours })
            }
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
