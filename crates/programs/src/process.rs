//! A process of a program with its three pipes, driven by the thread of its caller.
//!
//! The pipes do not block. [`Process::step`] waits in one `poll` for all of them and for the end of
//! the process, moves what can be moved, and returns: no thread stands behind a run, so a hundred
//! open buckets cost a hundred processes and nothing else.
//!
//! The process leads a process group. The group is killed before its leader is reaped, since the
//! number of a reaped process may be given to another.
//!
//! A program that stops reading gives an error of the write, not a signal: the runtime of Rust
//! ignores SIGPIPE, and the process that becomes the interpreter has its default again.

pub(crate) mod launcher;
mod stderr;

use std::fs::File;
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::fd::{AsFd, OwnedFd};
use std::process::Child;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};

use crate::error::Exit;
use crate::sandbox::Applied;
use launcher::Launcher;
pub(crate) use stderr::Stderr;

/// Size of the pipe to the program, so that it is woken less often. Smaller where a user's pipes
/// together are over the limit of the system.
const STDIN_PIPE_BYTES: usize = 256 << 10;
/// A full pipe has room for one page as soon as the program reads one, and a process that wakes for
/// each page costs more than the program (`crates/bench/src/program_speed.rs`). So a writer at a
/// full pipe first waits for so long, without looking at the room; the time adapts to the program.
const NAP_MIN: Duration = Duration::from_micros(100);
const NAP_MAX: Duration = Duration::from_millis(2);
/// Bytes of a read of output.
const READ_BYTES: usize = 64 << 10;
/// Waiting for a killed process; beyond, the launcher reaps it later. Only a process that waits in
/// the kernel, for a dead disk for example, takes so long.
const REAP_WAIT: Duration = Duration::from_secs(2);
/// Clock ticks in a second, as `/proc` counts processor time: part of the interface of Linux.
const TICKS_PER_S: u64 = 100;

/// What one step did.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Stepped {
    /// Bytes of the input that the pipe took.
    pub written: usize,
    /// How long the step waited.
    pub waited: Duration,
}

/// A started process.
#[derive(Debug)]
pub(crate) struct Process {
    launcher: Arc<Launcher>,
    /// None once it was reaped, or handed to the launcher.
    child: Option<Child>,
    pid: Pid,
    pidfd: OwnedFd,
    stdin: Option<File>,
    stdout: Option<File>,
    stderr_pipe: Option<File>,
    stderr: Stderr,
    exit: Option<Exit>,
    cpu: Duration,
    /// How long the next nap is, and whether it was taken since the pipe was last full.
    nap: Duration,
    has_napped: bool,
    /// Memory of reads, allocated once.
    buffer: Vec<u8>,
}

impl Process {
    /// Takes over a child that was spawned with three pipes and a process group of its own.
    fn new(
        launcher: Arc<Launcher>,
        mut child: Child,
        stderr_bytes_max: usize,
    ) -> std::io::Result<Self> {
        let pid = Pid::from_child(&child);
        let mut setup = || {
            let stdin = child.stdin.take().map(OwnedFd::from);
            let stdout = child.stdout.take().map(OwnedFd::from);
            let stderr = child.stderr.take().map(OwnedFd::from);
            for fd in [&stdin, &stdout, &stderr].into_iter().flatten() {
                fcntl_setfl(fd, fcntl_getfl(fd)? | OFlags::NONBLOCK)?;
            }
            if let Some(stdin) = &stdin {
                // The default size is correct too.
                let _ = rustix::pipe::fcntl_setpipe_size(stdin, STDIN_PIPE_BYTES);
            }
            let pidfd = pidfd_open(pid, PidfdFlags::empty())?;
            Ok::<_, rustix::io::Errno>((
                pidfd,
                [stdin, stdout, stderr].map(|fd| fd.map(File::from)),
            ))
        };
        let (pidfd, [stdin, stdout, stderr_pipe]) = match setup() {
            Ok(parts) => parts,
            Err(error) => {
                let _ = kill_process_group(pid, Signal::KILL);
                launcher.reap_later(child);
                return Err(error.into());
            }
        };
        Ok(Self {
            launcher,
            child: Some(child),
            pid,
            pidfd,
            stdin,
            stdout,
            stderr_pipe,
            stderr: Stderr::new(stderr_bytes_max),
            exit: None,
            cpu: Duration::ZERO,
            nap: NAP_MIN,
            has_napped: false,
            buffer: Vec::new(),
        })
    }

    /// The number of the process.
    pub(crate) fn id(&self) -> u32 {
        self.pid.as_raw_pid().unsigned_abs()
    }

    /// What the sandbox reported, once it did.
    pub(crate) fn applied(&self) -> Option<&Applied> {
        self.stderr.applied()
    }

    /// What the program wrote to stderr.
    pub(crate) fn stderr(&self) -> &Stderr {
        &self.stderr
    }

    /// How it ended, once it did.
    pub(crate) fn exit(&self) -> Option<Exit> {
        self.exit
    }

    /// Processor time, once it ended.
    pub(crate) fn cpu(&self) -> Duration {
        self.cpu
    }

    /// Whether the program can still read input.
    pub(crate) fn is_reading(&self) -> bool {
        self.stdin.is_some()
    }

    /// Ends the input.
    pub(crate) fn close_input(&mut self) {
        self.stdin = None;
    }

    /// Writes of `input` what the pipe takes and gives `output` what the program printed. Waits at
    /// most `patience` if nothing can be done at once. Once the process has ended, everything that
    /// it printed has been read.
    pub(crate) fn step<E: From<std::io::Error>>(
        &mut self,
        input: &[u8],
        patience: Duration,
        output: &mut impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<Stepped, E> {
        let mut stepped = Stepped { written: self.write(input)?, ..Stepped::default() };
        let is_waiting = stepped.written == 0;
        let wait = if is_waiting { patience } else { Duration::ZERO };
        // A write that succeeded means that the program reads: look at its output when the pipe is
        // full, or when there is nothing to write.
        if !is_waiting && stepped.written == input.len() {
            return Ok(stepped);
        }
        let (wants_write, wait) = self.plan_wait(input.len(), stepped.written, wait);
        let ready = self.wait(wants_write, wait, &mut stepped)?;
        if ready.stderr {
            self.read_stderr()?;
        }
        if ready.stdout {
            self.read_stdout(output)?;
        }
        if ready.exit {
            self.reap();
            // The group is dead: what the pipes hold is all that will come.
            while self.stdout.is_some() && self.read_stdout(output)? > 0 {}
            while self.stderr_pipe.is_some() && self.read_stderr()? > 0 {}
        }
        Ok(stepped)
    }

    /// Kills the process group and reaps the process.
    pub(crate) fn kill(&mut self) {
        self.stdin = None;
        if self.exit.is_some() || self.child.is_none() {
            return;
        }
        let _ = kill_process_group(self.pid, Signal::KILL);
        let started = Instant::now();
        loop {
            let left = REAP_WAIT.saturating_sub(started.elapsed());
            let mut fds = [PollFd::new(&self.pidfd, PollFlags::IN)];
            match poll(&mut fds, Some(&timespec(left))) {
                Ok(0) => break,
                Ok(_) => return self.reap(),
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => break,
            }
        }
        if let Some(child) = self.child.take() {
            self.launcher.reap_later(child);
        }
    }

    /// Writes as much as the pipe takes.
    fn write(&mut self, input: &[u8]) -> std::io::Result<usize> {
        let Some(stdin) = &mut self.stdin else { return Ok(0) };
        let mut written = 0;
        while written < input.len() {
            match stdin.write(&input[written..]) {
                Ok(bytes) => written += bytes,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                Err(e) if e.kind() == ErrorKind::BrokenPipe => {
                    self.stdin = None;
                    break;
                }
                Err(e) => return Err(e),
            }
        }
        Ok(written)
    }

    /// Whether to wait for room in the pipe, and how long to wait at most.
    fn plan_wait(&mut self, given: usize, written: usize, wait: Duration) -> (bool, Duration) {
        if written > 0 {
            if std::mem::take(&mut self.has_napped) {
                let is_short = written < STDIN_PIPE_BYTES / 4;
                let is_long = written > STDIN_PIPE_BYTES * 3 / 4;
                let nap = if is_short { self.nap * 2 } else { self.nap };
                self.nap = if is_long { nap / 2 } else { nap }.clamp(NAP_MIN, NAP_MAX);
            }
            return (false, wait);
        }
        if given == 0 || self.has_napped || wait.is_zero() {
            return (given > 0, wait);
        }
        self.has_napped = true;
        (false, wait.min(self.nap))
    }

    fn wait(
        &self,
        wants_write: bool,
        patience: Duration,
        stepped: &mut Stepped,
    ) -> std::io::Result<Ready> {
        let mut fds: Vec<PollFd<'_>> = Vec::with_capacity(4);
        let stdout = add(&mut fds, self.stdout.as_ref(), PollFlags::IN);
        let stderr = add(&mut fds, self.stderr_pipe.as_ref(), PollFlags::IN);
        add(&mut fds, self.stdin.as_ref().filter(|_| wants_write), PollFlags::OUT);
        let exit = add(&mut fds, self.child.as_ref().map(|_| &self.pidfd), PollFlags::IN);
        if fds.is_empty() {
            return Ok(Ready::default());
        }
        let started = (!patience.is_zero()).then(Instant::now);
        match poll(&mut fds, Some(&timespec(patience))) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        stepped.waited = started.map_or(Duration::ZERO, |started| started.elapsed());
        let is_ready = |i: Option<usize>| i.is_some_and(|i| !fds[i].revents().is_empty());
        Ok(Ready { stdout: is_ready(stdout), stderr: is_ready(stderr), exit: is_ready(exit) })
    }

    /// One read of stdout. Returns 0 if there was nothing, or nothing will come.
    fn read_stdout<E: From<std::io::Error>>(
        &mut self,
        output: &mut impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<usize, E> {
        let bytes = read(&mut self.stdout, &mut self.buffer)?;
        output(&self.buffer[..bytes])?;
        Ok(bytes)
    }

    fn read_stderr(&mut self) -> std::io::Result<usize> {
        let bytes = read(&mut self.stderr_pipe, &mut self.buffer)?;
        self.stderr.push(&self.buffer[..bytes]);
        Ok(bytes)
    }

    /// Reaps the process, which has ended, and kills what is left of its group.
    fn reap(&mut self) {
        let Some(mut child) = self.child.take() else { return };
        // It still holds its number, so that the group is surely that of the program.
        let _ = kill_process_group(self.pid, Signal::KILL);
        self.cpu = cpu_time(self.pid).unwrap_or_default();
        self.stdin = None;
        self.exit = Some(match child.try_wait() {
            Ok(Some(status)) => exit_of(status),
            // Something else reaped it, so its status is lost.
            Ok(None) | Err(_) => Exit::Signal(libc::SIGKILL),
        });
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Ready {
    stdout: bool,
    stderr: bool,
    exit: bool,
}

/// Appends a file to those that are waited for; returns its place.
fn add<'a>(
    fds: &mut Vec<PollFd<'a>>,
    fd: Option<&'a impl AsFd>,
    flags: PollFlags,
) -> Option<usize> {
    fds.push(PollFd::new(fd?, flags));
    Some(fds.len() - 1)
}

/// Reads once into `buffer`; closes the pipe at its end. Returns 0 if nothing is there.
fn read(pipe: &mut Option<File>, buffer: &mut Vec<u8>) -> std::io::Result<usize> {
    buffer.resize(READ_BYTES, 0);
    loop {
        let Some(file) = pipe else { return Ok(0) };
        match file.read(buffer) {
            Ok(0) => *pipe = None,
            Ok(bytes) => return Ok(bytes),
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(0),
            Err(e) => return Err(e),
        }
    }
}

fn exit_of(status: std::process::ExitStatus) -> Exit {
    use std::os::unix::process::ExitStatusExt as _;
    match (status.code(), status.signal()) {
        (Some(code), _) => Exit::Code(code),
        (None, signal) => Exit::Signal(signal.unwrap_or(libc::SIGKILL)),
    }
}

/// Processor time of a process that has ended and was not reaped.
fn cpu_time(pid: Pid) -> Option<Duration> {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_pid())).ok()?;
    // The name of the process stands in parentheses and may hold blanks.
    let behind = stat.rsplit_once(')')?.1;
    let mut numbers = behind.split_whitespace().skip(11).map(|n| n.parse::<u64>().ok());
    let ticks = numbers.next()?? + numbers.next()??;
    Some(Duration::from_millis(ticks * 1000 / TICKS_PER_S))
}

fn timespec(time: Duration) -> Timespec {
    Timespec { tv_sec: time.as_secs().min(1 << 30) as i64, tv_nsec: i64::from(time.subsec_nanos()) }
}
