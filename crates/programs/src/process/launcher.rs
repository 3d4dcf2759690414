//! The thread that starts all processes.
//!
//! The kernel kills a program when the *thread* that started it ends (`PR_SET_PDEATHSIG`). Runs may
//! be begun by threads that end early, so one thread starts them all and lives as long as any run.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::time::Duration;

use super::Process;
use crate::error::ProgramError;
use crate::run::spec::RunSpec;

/// How often the launcher looks at processes that were killed and have not ended.
const REAP_INTERVAL: Duration = Duration::from_secs(1);

/// The binary that applies the sandbox: our own, with a hidden subcommand.
#[derive(Clone, Debug)]
pub struct Helper {
    /// The binary.
    pub program: PathBuf,
    /// Arguments in front of those that [`crate::sandbox::main`] gets.
    pub arguments: Vec<OsString>,
}

impl Helper {
    /// The running binary with a hidden subcommand. It works also after an upgrade has replaced the
    /// file.
    pub fn own_binary(subcommand: &str) -> Self {
        Self { program: PathBuf::from("/proc/self/exe"), arguments: vec![subcommand.into()] }
    }
}

enum Order {
    Spawn(Box<Command>, SyncSender<std::io::Result<Child>>),
    Reap(Child),
}

/// Starts processes; see the module. Runs share it, and it ends with the last of them.
#[derive(Debug)]
pub struct Launcher {
    helper: Helper,
    orders: Sender<Order>,
}

impl Launcher {
    /// Starts the thread.
    pub fn new(helper: Helper) -> std::io::Result<Arc<Self>> {
        let (orders, received) = channel();
        std::thread::Builder::new()
            .name("program-launch".to_owned())
            .spawn(move || serve(&received))?;
        Ok(Arc::new(Self { helper, orders }))
    }

    /// Starts the process of a run.
    pub(crate) fn launch(self: &Arc<Self>, spec: &RunSpec) -> Result<Process, ProgramError> {
        let error = |message: String| ProgramError::Start { message };
        let mut command = Command::new(&self.helper.program);
        command
            .args(&self.helper.arguments)
            .arg(spec.sandbox_json())
            .args(spec.arguments())
            .env_clear()
            // Bytes are characters: lines may hold anything, and this is several times as fast.
            .env("LC_ALL", "C")
            .env("TZ", &spec.limits.time_zone)
            .envs(spec.interpreter.environment().iter().copied())
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        let (reply, answer) = sync_channel(1);
        let is_sent = self.orders.send(Order::Spawn(Box::new(command), reply)).is_ok();
        let child = match answer.recv() {
            Ok(child) if is_sent => child.map_err(|e| error(e.to_string()))?,
            _ => return Err(error("the thread that starts programs has ended".to_owned())),
        };
        Process::new(Arc::clone(self), child, spec.limits.stderr_bytes_max)
            .map_err(|e| error(e.to_string()))
    }

    /// Takes over a process that was killed and has not ended.
    pub(super) fn reap_later(&self, child: Child) {
        // The thread ends after its last sender: it is there.
        let _ = self.orders.send(Order::Reap(child));
    }
}

fn serve(orders: &Receiver<Order>) {
    let mut dying: Vec<Child> = Vec::new();
    loop {
        let order = if dying.is_empty() {
            orders.recv().map_err(|_| RecvTimeoutError::Disconnected)
        } else {
            orders.recv_timeout(REAP_INTERVAL)
        };
        match order {
            Ok(Order::Spawn(mut command, reply)) => {
                // The command holds nothing of the pipes once it is dropped.
                let child = command.spawn();
                drop(command);
                if let Err(std::sync::mpsc::SendError(Ok(mut child))) = reply.send(child) {
                    let _ = child.kill();
                    dying.push(child);
                }
            }
            Ok(Order::Reap(child)) => dying.push(child),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        dying.retain_mut(|child| matches!(child.try_wait(), Ok(None)));
    }
}
