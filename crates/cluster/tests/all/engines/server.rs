//! Servers in processes of their own, by the scripts in `scripts/servers`.

use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Servers share the processors of the machine: there is one at a time.
static TURN: Mutex<()> = Mutex::new(());

/// A server without data. It is wiped when it is dropped.
pub struct Server {
    script: &'static str,
    variables: Vec<(&'static str, String)>,
    /// The first of its ports.
    pub port: u16,
    _turn: MutexGuard<'static, ()>,
}

impl Server {
    /// Brokers of Kafka, up to `nodes`.
    pub fn kafka(nodes: u16) -> Server {
        Server::new("kafka.sh", "KAFKA_PORT", nodes)
    }

    /// A server of S3. None where it cannot be built because Go is missing: the test is left out
    /// then, and says so.
    pub fn s3() -> Option<Server> {
        let server = Server::new("s3.sh", "S3_PORT", 1);
        let installed = server.script(&["install"]).output().unwrap();
        let why = String::from_utf8_lossy(&installed.stderr);
        if why.contains("the command go is missing") {
            eprintln!("LEFT OUT: {why}");
            return None;
        }
        assert!(installed.status.success(), "{why}");
        Some(server)
    }

    fn new(script: &'static str, port_variable: &'static str, ports: u16) -> Server {
        let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let port = free_ports(ports);
        let data = Path::new(env!("CARGO_TARGET_TMPDIR")).join("servers");
        let data = data.to_str().unwrap().to_owned();
        let variables = vec![(port_variable, port.to_string()), ("LOGINSON_SERVERS_DATA", data)];
        let server = Server { script, variables, port, _turn };
        server.run("wipe");
        server
    }

    /// Sets a variable for the script.
    pub fn set(&mut self, name: &'static str, value: &str) {
        self.variables.push((name, value.to_owned()));
    }

    /// Runs a command of the script.
    pub fn run(&self, command: &str) {
        let done = self.script(&command.split(' ').collect::<Vec<_>>()).status().unwrap();
        assert!(done.success(), "{} {command}", self.script);
    }

    /// Runs a tool of Kafka; returns what it prints.
    pub fn tool(&self, class: &str, arguments: &[&str]) -> String {
        let brokers = format!("127.0.0.1:{}", self.port);
        let command = [&["tool", class, "--bootstrap-server", &brokers], arguments].concat();
        let done = self.script(&command).output().unwrap();
        let text = String::from_utf8_lossy(&done.stdout) + String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{class} {arguments:?}: {text}");
        text.into_owned()
    }

    /// The address of a broker, counted from 0.
    pub fn broker(&self, node: u16) -> String {
        format!("127.0.0.1:{}", self.port + node)
    }

    fn script(&self, arguments: &[&str]) -> Command {
        let scripts = Path::new("../../scripts/servers");
        let mut script = Command::new(scripts.join(self.script));
        let variables = self.variables.iter().map(|(name, value)| (name, value));
        script.args(arguments).envs(variables);
        script
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if !self.script(&["wipe"]).status().is_ok_and(|status| status.success()) {
            eprintln!("{} wipe failed", self.script);
        }
    }
}

/// Ends threads that look at a flag, also when an assertion fails.
pub struct StopWhenDropped<'f>(pub &'f AtomicBool);

impl Drop for StopWhenDropped<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// The first of `count` ports that are free, and those 100 above them.
fn free_ports(count: u16) -> u16 {
    let is_free = |port: u16| TcpListener::bind(("127.0.0.1", port)).is_ok();
    (19_600..19_700)
        .step_by(usize::from(count))
        .find(|first| (*first..first + count).all(|port| is_free(port) && is_free(port + 100)))
        .expect("some ports are free")
}
