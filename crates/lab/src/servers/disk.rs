//! A disk for one node that forgets what was not synced: it finds stores that acknowledge a write
//! before they sync it, which a kill of the process alone does not.
//!
//! The directory of the node is a file system in user space (`disk.py`), which keeps beside each
//! file what the file had when it was last synced. A node that was killed finds that; one that was
//! stopped in order finds everything. Left out: a loss of names, and sectors that are half written.
//! The file system is slow and uses processor time that is nobody's: it finds lies, and measures no
//! rates.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::{Launch, Say, ServerError, Site, debian, home, io};

/// The file system.
const PROGRAM: &str = include_str!("disk.py");

/// The Python for which Debian's package is.
const PYTHON: &str = "/usr/bin/python3";

/// The package's file, by which it is found.
const LIBRARY: &str = "/usr/lib/python3/dist-packages/fusepy.py";

/// How long mounting and unmounting may take.
const WAIT_MAX: Duration = Duration::from_secs(60);

/// Time between two looks.
const LOOK: Duration = Duration::from_millis(50);

/// Lines of the log that an error quotes.
const TAIL_LINES: usize = 10;

/// The disk of a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Disk {
    /// The directory of the node.
    mount: PathBuf,
}

impl Disk {
    /// A disk at this directory, which need not exist.
    pub(super) fn at(mount: &Path) -> Disk {
        Disk { mount: mount.to_owned() }
    }

    /// Installs what the file system needs. Fast if it is installed already.
    pub(super) fn install(site: &Site, say: &Say) -> Result<(), ServerError> {
        match Path::new(LIBRARY).is_file() {
            true => Ok(()),
            false => debian::install(site, &["fuse", "python3-fusepy"], say),
        }
    }

    /// Mounts it; all that it has is durable. Blocks.
    pub(super) fn mount(&self, log: &Path) -> Result<(), ServerError> {
        self.release(false)?;
        let (live, durable) = (self.beside("live"), self.beside("durable"));
        for directory in [&self.mount, &live] {
            std::fs::create_dir_all(directory).map_err(io(directory))?;
        }
        remove(&durable)?;
        let words = ["-a".to_owned(), live.display().to_string(), durable.display().to_string()];
        Launch::new("cp", words).run(&log.with_extension("copy.log"), &live)?;
        let program = self.beside("py");
        std::fs::write(&program, PROGRAM).map_err(io(&program))?;
        let words = [&program, &live, &durable, &self.mount].map(|path| path.display().to_string());
        let process = Launch::new(PYTHON, words).start(log, &live)?;
        let begin = Instant::now();
        while !self.is_mounted()? {
            if !process.alive() || begin.elapsed() > WAIT_MAX {
                return Err(ServerError::Ended {
                    node: format!("the disk at {}", self.mount.display()),
                    log: log.display().to_string(),
                    tail: home::tail(log, TAIL_LINES),
                });
            }
            std::thread::sleep(LOOK);
        }
        Ok(())
    }

    /// Unmounts it, if it is mounted; after a loss of power it `forgets` what was not synced.
    /// Blocks.
    pub(super) fn release(&self, forgets: bool) -> Result<(), ServerError> {
        let begin = Instant::now();
        let was_mounted = self.is_mounted()?;
        while self.is_mounted()? {
            // Files of a killed process are closed a moment after it has ended.
            let output =
                Command::new("umount").arg(&self.mount).output().map_err(io(&self.mount))?;
            if !output.status.success() && begin.elapsed() > WAIT_MAX {
                let reason = String::from_utf8_lossy(&output.stderr).into_owned();
                return Err(io(&self.mount)(std::io::Error::other(reason)));
            }
            std::thread::sleep(LOOK);
        }
        let (live, durable) = (self.beside("live"), self.beside("durable"));
        if forgets && was_mounted {
            remove(&live)?;
            std::fs::rename(&durable, &live).map_err(io(&durable))?;
        }
        Ok(())
    }

    fn is_mounted(&self) -> Result<bool, ServerError> {
        let path = Path::new("/proc/self/mounts");
        let mounts = std::fs::read_to_string(path).map_err(io(path))?;
        // The kernel escapes spaces.
        let mount = self.mount.display().to_string().replace(' ', "\\040");
        Ok(mounts.lines().any(|line| line.split(' ').nth(1) == Some(&mount)))
    }

    /// A path beside the directory of the node.
    fn beside(&self, extension: &str) -> PathBuf {
        let mut path = self.mount.as_os_str().to_owned();
        path.push(format!(".{extension}"));
        PathBuf::from(path)
    }
}

fn remove(directory: &Path) -> Result<(), ServerError> {
    match std::fs::remove_dir_all(directory) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(io(directory)(e)),
        _ => Ok(()),
    }
}
