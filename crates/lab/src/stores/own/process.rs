//! The process behind a store of the user's own: for each connection it starts the user's program,
//! whose standard input and output are the connection.
//!
//! So nothing stands between the driver and the program, everything that the store does is in the
//! processes below this one, which are measured, limited and killed as those of any server.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::process::{Child, Command};
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;

use crate::servers::{Process, Signal};

/// The hidden command of `loginson-lab` that is this process.
pub(crate) const COMMAND: &str = "own-server";
/// What the program is called with for its description.
pub(crate) const DESCRIBE: &str = "describe";
/// What the program is called with for a connection.
const SERVE: &str = "serve";

/// How long programs may take to end after SIGTERM.
const END_MAX: Duration = Duration::from_secs(50);

/// Time between two looks whether they have ended.
const LOOK: Duration = Duration::from_millis(20);

/// Serves until SIGTERM.
pub async fn serve(listener: TcpListener, program: &Path, data: &Path) -> std::io::Result<()> {
    // A server that a program starts and leaves behind stays below this process: it is measured,
    // limited and killed as well.
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    let mut terminated = signal(SignalKind::terminate())?;
    let mut programs = JoinSet::new();
    let mut pids: Vec<u32> = Vec::new();
    loop {
        let stream = tokio::select! {
            accepted = listener.accept() => accepted?.0,
            ended = programs.join_next(), if !programs.is_empty() => {
                if let Some(Ok(ended)) = ended {
                    pids.retain(|pid| Some(*pid) != ended);
                }
                continue;
            }
            _ = terminated.recv() => break,
        };
        match start(stream, program, data) {
            Ok(mut child) => {
                let pid = child.id();
                pids.extend(pid);
                programs.spawn(async move {
                    let _ = child.wait().await;
                    pid
                });
            }
            // The driver sees that the connection is gone, and the log has the reason.
            Err(error) => eprintln!("{}: {error}", program.display()),
        }
    }
    pids.iter().filter_map(|pid| Process::of(*pid)).for_each(|program| {
        program.signal(Signal::TERM);
    });
    let ended = async {
        while programs.join_next().await.is_some() {}
        // What programs left behind.
        let others = Process::below_this();
        others.iter().for_each(|process| _ = process.signal(Signal::TERM));
        while others.iter().any(Process::alive) {
            tokio::time::sleep(LOOK).await;
        }
    };
    let _ = tokio::time::timeout(END_MAX, ended).await;
    Ok(())
}

fn start(stream: tokio::net::TcpStream, program: &Path, data: &Path) -> std::io::Result<Child> {
    stream.set_nodelay(true)?;
    let stream = stream.into_std()?;
    stream.set_nonblocking(false)?;
    let output = OwnedFd::from(stream.try_clone()?);
    let mut command = Command::new(program);
    command.arg(SERVE).current_dir(data).kill_on_drop(true);
    command.stdin(Stdio::from(OwnedFd::from(stream))).stdout(Stdio::from(output)).spawn()
}
