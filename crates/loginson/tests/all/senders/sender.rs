//! Sender programs: found, started with time in UTC, and stopped.

use std::path::{Path, PathBuf};
use std::process::{Child, Command};

/// Finds the program; fails with a message that says how to install it.
pub fn program(candidates: &[&str]) -> PathBuf {
    let found = candidates.iter().map(Path::new).find(|path| path.exists());
    found
        .unwrap_or_else(|| panic!("{} is missing; install it with: make test-deps", candidates[0]))
        .to_owned()
}

/// A sender that runs until it is dropped.
pub struct Daemon(Child);

impl Daemon {
    pub fn start(command: &mut Command) -> Daemon {
        // The zone of the machine would be written into times without a zone.
        Daemon(command.env("TZ", "UTC").spawn().unwrap_or_else(|e| panic!("{command:?}: {e}")))
    }

    /// Waits until it ends by itself.
    pub fn wait(mut self) {
        let status = self.0.wait().expect("can be waited for");
        assert!(status.success(), "the sender ended with {status}");
    }

    /// Asks it to stop, and waits until it has written everything.
    pub fn stop(mut self) {
        self.terminate();
    }

    fn terminate(&mut self) {
        if self.0.try_wait().expect("can be asked").is_none() {
            let pid = rustix::process::Pid::from_child(&self.0);
            rustix::process::kill_process(pid, rustix::process::Signal::TERM)
                .expect("is our child");
            self.0.wait().expect("can be waited for");
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.terminate();
    }
}
