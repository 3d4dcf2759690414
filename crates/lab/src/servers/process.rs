//! Processes of servers: started in a session of their own, identified by their start time, and
//! signalled only if that matches.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

pub use rustix::process::Signal;
use rustix::process::{Pid, PidfdFlags, WaitOptions};
use serde::{Deserialize, Serialize};

use super::disk::Disk;
use super::isolation::Isolation;
use super::{ServerError, home, io};
use crate::proc::Stat;

/// The user for servers that refuse to run as root: the first regular user of Debian.
const USER: &str = "1000";

/// Lines of a command's output that are quoted in an error.
const TAIL_LINES: usize = 10;

/// A process that the lab started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// Its id, which another process may get after it has ended.
    pub pid: u32,
    /// Its start time, in clock ticks since the machine booted: a later process with the same id
    /// has another one.
    began_ticks: u64,
    /// The boot of the machine.
    boot: String,
}

impl Process {
    /// The process that has this id now.
    pub fn of(pid: u32) -> Option<Process> {
        let stat = Stat::of(pid)?;
        Some(Process { pid, began_ticks: stat.began_ticks, boot: boot() })
    }

    /// The descendants of the process that asks.
    pub fn below_this() -> Vec<Process> {
        let own = std::process::id();
        let all = crate::proc::trees(&[own]).into_iter().filter(|pid| *pid != own);
        all.filter_map(Process::of).collect()
    }

    /// Whether it runs. A zombie does not.
    pub fn alive(&self) -> bool {
        let Some(stat) = Stat::of(self.pid).filter(|s| s.began_ticks == self.began_ticks) else {
            return false;
        };
        if self.boot != boot() {
            return false;
        }
        if stat.state == 'Z' {
            // Reaped here if this process is the parent; otherwise this fails, and the parent does
            // it.
            if let Some(pid) = Pid::from_raw(self.pid as i32) {
                let _ = rustix::process::waitpid(Some(pid), WaitOptions::NOHANG);
            }
            return false;
        }
        true
    }

    /// Sends a signal to it, and never to a later process with its id. False if it is gone.
    pub fn signal(&self, signal: Signal) -> bool {
        let Some(pid) = Pid::from_raw(self.pid as i32) else { return false };
        // The handle is opened first: if the process is ours now, the handle refers to it for good.
        let Ok(handle) = rustix::process::pidfd_open(pid, PidfdFlags::empty()) else {
            return false;
        };
        self.alive() && rustix::process::pidfd_send_signal(&handle, signal).is_ok()
    }
}

fn boot() -> String {
    static BOOT: OnceLock<String> = OnceLock::new();
    let read = || std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    BOOT.get_or_init(|| read().trim().to_owned()).clone()
}

/// A program with its arguments.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Launch {
    /// A path, or a name that is searched in `PATH`.
    pub program: PathBuf,
    /// Passed unchanged: no shell is involved.
    pub arguments: Vec<String>,
    /// Added to the environment.
    pub environment: Vec<(String, String)>,
    /// The program refuses to run as root: if the lab is root, it gets another user.
    pub refuses_root: bool,
    /// The limits or the container in which [`Launch::start`] starts it.
    #[serde(default)]
    pub isolation: Option<Isolation>,
    /// The disk that is mounted at the directory of its data before it starts.
    #[serde(default)]
    pub disk: Option<Disk>,
}

impl Launch {
    /// A program that may run as any user.
    pub fn new<I, S>(program: impl Into<PathBuf>, arguments: I) -> Launch
    where
        I: IntoIterator<Item = S>,
        S: Into<String>,
    {
        let arguments = arguments.into_iter().map(Into::into).collect();
        let program = program.into();
        Launch {
            program,
            arguments,
            environment: Vec::new(),
            refuses_root: false,
            isolation: None,
            disk: None,
        }
    }

    /// A program that refuses to run as root.
    pub fn refuses_root(self) -> Launch {
        Launch { refuses_root: true, ..self }
    }

    /// Adds a variable to its environment.
    pub fn variable(mut self, name: &str, value: impl Into<String>) -> Launch {
        self.environment.push((name.to_owned(), value.into()));
        self
    }

    /// Starts it in a session of its own, so that Ctrl-C and the end of a terminal do not affect
    /// it, with output at the end of `log`, so that what an earlier process said stays. It gets
    /// write access to `data`.
    pub fn start(&self, log: &Path, data: &Path) -> Result<Process, ServerError> {
        let output = File::options().create(true).append(true).open(log).map_err(io(log))?;
        let errors = output.try_clone().map_err(io(log))?;
        let prefix = self.prefix(data)?;
        let words = match &self.isolation {
            Some(isolation) => isolation.prepare(self, self.words(&prefix))?,
            None => self.words(&prefix),
        };
        let mut command = self.command("setsid", &words);
        command.stdin(Stdio::null()).stdout(output).stderr(errors);
        // `setsid`, `unshare` and `setpriv` each exec the given program, and so does the shell that
        // enters a control group: the id stays the same. That of a container is its monitor's,
        // which ends with it.
        let child = command.spawn().map_err(io(&self.program))?;
        Process::of(child.id()).ok_or_else(|| ServerError::Ended {
            node: self.program.display().to_string(),
            log: log.display().to_string(),
            tail: home::tail(log, TAIL_LINES),
        })
    }

    /// Runs it to its end, with output to `log`; an error if it fails. It gets write access to
    /// `data`.
    pub fn run(&self, log: &Path, data: &Path) -> Result<(), ServerError> {
        if let Some(parent) = log.parent() {
            std::fs::create_dir_all(parent).map_err(io(parent))?;
        }
        let output = File::create(log).map_err(io(log))?;
        let errors = output.try_clone().map_err(io(log))?;
        let prefix = self.prefix(data)?;
        let words = self.words(&prefix);
        let (first, rest) = words.split_first().expect("the program at least");
        let mut command = self.command(first, rest);
        let status = command.stdin(Stdio::null()).stdout(output).stderr(errors).status();
        match status.map_err(io(&self.program))?.success() {
            true => Ok(()),
            false => Err(ServerError::Command {
                command: self.to_string(),
                log: log.display().to_string(),
                tail: home::tail(log, TAIL_LINES),
            }),
        }
    }

    /// `prefix`, the program and its arguments.
    fn words(&self, prefix: &[&str]) -> Vec<String> {
        let prefix = prefix.iter().map(|word| (*word).to_owned());
        let program = [self.program.display().to_string()];
        prefix.chain(program).chain(self.arguments.iter().cloned()).collect()
    }

    fn command(&self, first: &str, rest: &[String]) -> Command {
        let mut command = Command::new(first);
        command.args(rest).envs(self.environment.iter().map(|(k, v)| (k, v)));
        command
    }

    /// The command prefix that drops root.
    fn prefix(&self, data: &Path) -> Result<Vec<&'static str>, ServerError> {
        if !self.refuses_root || !is_root() {
            return Ok(Vec::new());
        }
        if namespaces() {
            return Ok(namespace_of_user().to_vec());
        }
        // Then the files have to belong to that user.
        let owner = format!("{USER}:{USER}");
        let chown =
            Command::new("chown").args(["-R", &owner]).arg(data).status().map_err(io(data))?;
        if !chown.success() {
            return Err(io(data)(std::io::Error::other(format!("chown to {owner} failed"))));
        }
        Ok(vec!["setpriv", "--reuid", USER, "--regid", USER, "--clear-groups", "--"])
    }
}

impl std::fmt::Display for Launch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.program.display())?;
        self.arguments.iter().try_for_each(|argument| write!(f, " {argument}"))
    }
}

/// Whether this process is privileged.
pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// A user namespace in which root is another user, so that files keep their owner.
fn namespace_of_user() -> &'static [&'static str] {
    &["unshare", "--user", "--map-user", USER, "--map-group", USER, "--"]
}

/// Whether the system permits user namespaces.
fn namespaces() -> bool {
    static ALLOWED: OnceLock<bool> = OnceLock::new();
    *ALLOWED.get_or_init(|| {
        let words = namespace_of_user();
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).arg("true").stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proc::trees;

    fn sleeper(directory: &Path, refuses_root: bool) -> Process {
        let launch = Launch { refuses_root, ..Launch::new("sleep", ["1000"]) };
        launch.start(&directory.join("log"), directory).unwrap()
    }

    fn wait_for_end(process: &Process) {
        while process.alive() {
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_process_is_known_by_its_beginning_and_ends_on_a_signal() {
        let directory = tempfile::tempdir().unwrap();
        for refuses_root in [false, true] {
            let process = sleeper(directory.path(), refuses_root);
            assert!(process.alive());
            assert_eq!(Process::of(process.pid).as_ref(), Some(&process));
            assert!(process.signal(Signal::TERM));
            wait_for_end(&process);
            assert!(!process.signal(Signal::TERM), "nothing is signalled that has ended");
        }
    }

    #[test]
    fn another_process_of_the_same_number_is_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        let process = sleeper(directory.path(), false);
        let later = Process { began_ticks: process.began_ticks + 1, ..process.clone() };
        let rebooted = Process { boot: "another".to_owned(), ..process.clone() };
        for other in [&later, &rebooted] {
            assert!(!other.alive());
            assert!(!other.signal(Signal::KILL));
        }
        assert!(process.alive());
        assert!(process.signal(Signal::KILL));
        wait_for_end(&process);
    }

    #[test]
    fn trees_hold_the_children_of_children() {
        let directory = tempfile::tempdir().unwrap();
        let launch = Launch::new("sh", ["-c", "(sleep 1000; true) & wait"]);
        let process = launch.start(&directory.path().join("log"), directory.path()).unwrap();
        let tree = loop {
            let tree = trees(&[process.pid]);
            if tree.len() == 3 {
                break tree;
            }
            std::thread::yield_now();
        };
        let all: Vec<Process> = tree.iter().filter_map(|pid| Process::of(*pid)).collect();
        all.iter().for_each(|p| assert!(p.signal(Signal::KILL)));
        wait_for_end(&process);
    }

    #[test]
    fn a_command_that_fails_shows_its_last_words() {
        let directory = tempfile::tempdir().unwrap();
        let log = directory.path().join("log");
        Launch::new("true", [""; 0]).run(&log, directory.path()).unwrap();
        let error = Launch::new("sh", ["-c", "echo so it is; exit 3"]).run(&log, directory.path());
        let text = error.unwrap_err().to_string();
        assert!(text.contains("so it is"), "{text}");
    }
}
