//! Real servers that are killed and started again while documents are delivered.
//!
//! Kafka (feature `real-kafka`) is run by `scripts/servers`. For the others (feature
//! `real-servers`), `SINKS_TEST_STORES` names a folder with the scripts `elasticsearch.sh` and
//! `opensearch.sh`, which have the commands `start` and `wipe`, and obey `STORES_HOME`
//! and a variable for the port. Each fetches its server when it is started for the first time.

#[cfg(feature = "real-servers")]
mod elasticsearch;
mod kafka;

use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sinks::config::Sink;
use sinks::{Batch, Runner, RunnerParts};

/// A server in a process of its own.
struct Real {
    store: &'static str,
    home: PathBuf,
    port: u16,
    variables: Vec<(&'static str, String)>,
    _turn: MutexGuard<'static, ()>,
}

/// Servers share folders and the processors of the machine: there is one at a time.
static TURN: Mutex<()> = Mutex::new(());

impl Real {
    /// A server without data, not started. `variable` is the one that sets its port.
    fn new(store: &'static str, variable: &'static str, port: u16) -> Real {
        let home = Path::new(env!("CARGO_TARGET_TMPDIR")).join("stores");
        let variables = vec![(variable, port.to_string())];
        let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let real = Real { store, home, port, variables, _turn };
        real.run("wipe");
        real
    }

    fn command(&self, command: &[&str]) -> Command {
        let folder = match self.store {
            "kafka" => PathBuf::from("../../scripts/servers"),
            _ => {
                let folder = std::env::var_os("SINKS_TEST_STORES");
                folder.expect("SINKS_TEST_STORES must name the folder of the scripts").into()
            }
        };
        let mut run = Command::new(folder.join(format!("{}.sh", self.store)));
        run.args(command).env("STORES_HOME", &self.home).env("LOGINSON_SERVERS_DATA", &self.home);
        run.envs(self.variables.iter().map(|(name, value)| (name, value)));
        run
    }

    fn run(&self, command: &str) {
        let words: Vec<&str> = command.split(' ').collect();
        let done = self.command(&words).status().unwrap();
        assert!(done.success(), "{} {command}", self.store);
    }

    /// Kills one of the servers, counted from 0, without a warning.
    fn kill(&self, node: u16) {
        match self.store {
            "kafka" => self.run(&format!("kill {}", node + 1)),
            _ => self.kill_by_file(node),
        }
        // The port closes when the last thread has ended, after the process looks dead.
        while TcpStream::connect(("127.0.0.1", self.port + node)).is_ok() {
            std::thread::yield_now();
        }
    }

    fn kill_by_file(&self, node: u16) {
        let file = self.home.join(self.store).join(format!("run/node{}.pid", node + 1));
        let pid = std::fs::read_to_string(&file).unwrap();
        let pid = pid.split(' ').next().unwrap();
        assert!(Command::new("kill").args(["-KILL", pid]).status().unwrap().success());
        std::fs::remove_file(file).unwrap();
    }
}

impl Drop for Real {
    fn drop(&mut self) {
        if !self.command(&["wipe"]).status().is_ok_and(|status| status.success()) {
            eprintln!("{}.sh wipe failed", self.store);
        }
    }
}

/// Waits until this many batches are acknowledged.
fn wait_for(done: &AtomicU64, batches: u64) {
    while done.load(Ordering::SeqCst) < batches {
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Batches that wait when the server is killed.
const WAITING_BATCHES: u64 = 20;

/// Submits batches, and kills the server before some of them; it is started again when a delivery
/// has failed. Returns the state at the end; the cursors were acknowledged in order.
fn deliver_while_killing(
    real: &Real,
    sink: &Sink,
    folder: &Path,
    batches: Vec<Batch>,
    killed_before: &[u64],
) -> sinks::State {
    let done = Arc::new(AtomicU64::new(0));
    let cursors = Arc::new(Mutex::new(Vec::new()));
    let (counted, acknowledged) = (Arc::clone(&done), Arc::clone(&cursors));
    let parts = RunnerParts::new(
        sink.destination().unwrap(),
        Box::new(sink.reject_store(folder)),
        move |cursor| {
            acknowledged.lock().unwrap().push(cursor.to_owned());
            counted.fetch_add(1, Ordering::SeqCst);
        },
    );
    let runner = Runner::start("real", parts, sink.runner).unwrap();
    let expected: Vec<String> = batches.iter().map(|batch| batch.cursor.clone()).collect();
    for (number, batch) in (0..).zip(batches) {
        if killed_before.contains(&number) {
            // The batches between are under way or in the queue when the server dies.
            wait_for(&done, number - WAITING_BATCHES);
            real.kill(0);
            // A slow machine may have delivered all of them by now. This one finds no server.
            let retries = runner.state().retries;
            runner.submit(batch).unwrap();
            while runner.state().retries == retries {
                std::thread::sleep(Duration::from_millis(5));
            }
            real.run("start");
        } else {
            runner.submit(batch).unwrap();
        }
    }
    wait_for(&done, expected.len() as u64);
    let state = runner.state();
    eprintln!("{}: {state:?}", real.store);
    assert_eq!(*cursors.lock().unwrap(), expected);
    state
}
