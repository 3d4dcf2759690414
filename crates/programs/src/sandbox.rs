//! The sandbox: our own binary, executed again, gives up rights and then becomes the interpreter.
//!
//! ```text
//! Launcher ── spawns ──→ sandbox::main ── applies, reports on stderr, exec ──→ awk
//! ```
//!
//! Everything is applied by the process to itself, so that no code runs between `fork` and `exec`
//! of the many-threaded server. In this order:
//!
//! 1. The kernel kills the process when our own process dies.
//! 2. Files that the server inherited and handed on are closed: gawk can name them (`/dev/fd/N`).
//! 3. Niceness, and the wish to be the first victim when memory runs out.
//! 4. No new privileges.
//! 5. Landlock: the interpreter and its loader may be executed; libraries and time zones may be
//!    read; nothing may be written, and no TCP port be used.
//! 6. Limits of processor time, files, open files, processes, locked memory.
//! 7. Seccomp: no new process, socket, mount, tracing, and so on; these calls fail with EPERM.
//! 8. The limit of address space, last: the binary itself may need more than the program may.
//!
//! What the kernel does not offer (landlock before Linux 5.13, for example) is left out with a note
//! in [`Applied`]; the program runs. What every kernel offers and yet fails ends the process.
//!
//! The environment is `LC_ALL`, `TZ` and what the table of interpreters names, the folder is `/`,
//! stdin, stdout and stderr are pipes: the spawning process sets these.

mod applied;
mod elf;
mod files;
mod rlimits;
mod spec;
mod syscalls;

use std::ffi::OsString;
use std::io::Write as _;
use std::os::fd::RawFd;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};

use rustix::process::{Signal, getppid, set_parent_process_death_signal};

pub use applied::{Applied, Part, Step};
pub(crate) use applied::{EXEC_PREFIX, REFUSED_PREFIX, STATUS_PREFIX};
pub(crate) use spec::Spec;

/// Exit code when the sandbox could not be applied.
pub(crate) const EXIT_REFUSED: u8 = 125;
/// Exit code when the interpreter could not be executed.
pub(crate) const EXIT_NO_EXEC: u8 = 126;

/// The hidden subcommand: `arguments` are those behind its name. It returns only if the program
/// could not be started; the reason is on stderr.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let mut arguments = arguments.into_iter();
    let refuse = |message: String| {
        // Nobody reads this if stderr is closed, and the exit code says the same.
        let _ = writeln!(std::io::stderr(), "{REFUSED_PREFIX}{message}");
        ExitCode::from(EXIT_REFUSED)
    };
    let spec = arguments.next().and_then(|text| text.into_string().ok());
    let Some(spec) = spec.and_then(|text| serde_json::from_str::<Spec>(&text).ok()) else {
        return refuse("this command is for Loginson itself, which starts programs with it".into());
    };
    let mut command = Command::new(&spec.interpreter);
    command.args(arguments);
    let mut applied = match apply(&spec) {
        Ok(applied) => applied,
        Err(message) => return refuse(message),
    };
    applied.add("memory", Part::Full, "");
    let status = format!("{STATUS_PREFIX}{}\n", applied.to_line());
    if let Err(message) = rlimits::limit_memory(&spec) {
        return refuse(message);
    }
    if std::io::stderr().write_all(status.as_bytes()).is_err() {
        return ExitCode::from(EXIT_REFUSED);
    }
    let error = command.exec();
    let path = spec.interpreter.display();
    let _ = writeln!(std::io::stderr(), "{EXEC_PREFIX}{path} cannot be executed: {error}");
    ExitCode::from(EXIT_NO_EXEC)
}

/// Applies all but the limit of memory.
fn apply(spec: &Spec) -> Result<Applied, String> {
    let mut applied = Applied::default();
    let failed = |what: &str, error: rustix::io::Errno| format!("{what}: {error}");
    set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(|e| failed("signal at the death of the parent", e))?;
    // The parent may have died before the line above.
    if getppid().map(|pid| pid.as_raw_pid()) != Some(spec.parent) {
        return Err("the server has ended meanwhile".to_owned());
    }
    applied.add_result("inherited files", close_inherited_files().map_err(|e| e.to_string()));
    let nice = rustix::process::nice(spec.nice).map(|_| ());
    applied.add_result("priority", nice.map_err(|e| e.to_string()));
    let victim = std::fs::write("/proc/self/oom_score_adj", "1000");
    applied.add_result("first victim of low memory", victim.map_err(|e| e.to_string()));
    rustix::thread::set_no_new_privs(true).map_err(|e| failed("no new privileges", e))?;
    applied.add("no new privileges", Part::Full, "");
    let (part, note) = files::restrict(spec);
    applied.add("files", part, &note);
    rlimits::apply(spec)?;
    applied.add("limits", Part::Full, "");
    applied.add_result("system calls", syscalls::restrict());
    Ok(applied)
}

/// Closes all files but stdin, stdout and stderr. Nothing in this process owns others: it has one
/// thread, which has opened none that it keeps.
fn close_inherited_files() -> std::io::Result<()> {
    let mut open: Vec<RawFd> = Vec::new();
    for entry in std::fs::read_dir("/proc/self/fd")? {
        open.extend(entry?.file_name().to_str().and_then(|name| name.parse::<RawFd>().ok()));
    }
    for fd in open.into_iter().filter(|fd| *fd > 2) {
        // The list holds the file of the list itself, which is closed by now.
        let _ = nix::unistd::close(fd);
    }
    Ok(())
}
