//! Agents on this machine, one process each (`--processes N`): for loads that a single process
//! cannot generate.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

/// Agents; dropping this stops them. They also end when this process does, however it ends: their
/// standard input ends with it.
pub struct Processes {
    children: Vec<Child>,
    addresses: Vec<String>,
}

impl Processes {
    /// Starts `count` agents, each `program` with the arguments of an agent on a free port and
    /// `arguments`, which prints its address in the first line of its output. Blocks until all
    /// have.
    pub fn start(
        program: &std::path::Path,
        count: u32,
        arguments: &[String],
    ) -> std::io::Result<Processes> {
        let mut processes = Processes { children: Vec::new(), addresses: Vec::new() };
        for _ in 0..count {
            let mut child = Command::new(program)
                .args(["agent", "--until-input-ends", "--listen", "127.0.0.1:0"])
                .args(arguments)
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()?;
            let stdout = child.stdout.take().expect("it is piped");
            processes.children.push(child);
            let mut line = String::new();
            BufReader::new(stdout).read_line(&mut line)?;
            let address: std::net::SocketAddr = line.trim().parse().map_err(|_| {
                std::io::Error::other(format!("an agent did not say its address but {line:?}"))
            })?;
            processes.addresses.push(address.to_string());
        }
        Ok(processes)
    }

    /// Their addresses.
    pub fn addresses(&self) -> &[String] {
        &self.addresses
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
