//! What can go wrong with servers of the lab; each message names the remedy.

use std::net::SocketAddr;
use std::path::Path;

use super::NODES_MAX;
use crate::options::OptionError;

/// Why a server could not be provided.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// There is no server with this name.
    #[error("there is no server `{name}`; there are: {known}")]
    Unknown {
        /// The requested name.
        name: String,
        /// The names of all servers.
        known: String,
    },
    /// An option that does not exist, or does not accept the value.
    #[error(transparent)]
    Option(#[from] OptionError),
    /// More nodes than [`NODES_MAX`], or zero.
    #[error(
        "{name} cannot have {nodes} nodes: give it 1 to {NODES_MAX} on one machine, with --nodes"
    )]
    Nodes {
        /// Name of the store.
        name: String,
        /// The requested number.
        nodes: u32,
    },
    /// An I/O error.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: String,
        /// The error.
        source: std::io::Error,
    },
    /// A prerequisite is missing.
    #[error("{what}; {remedy}")]
    Missing {
        /// The prerequisite.
        what: String,
        /// How to get it.
        remedy: String,
    },
    /// A program for installing or preparing failed.
    #[error("`{command}` failed; the end of {log}:\n{tail}")]
    Command {
        /// The command.
        command: String,
        /// The file with its output.
        log: String,
        /// The end of the output.
        tail: String,
    },
    /// Another process listens on the server's address.
    #[error(
        "another process listens on {address}: stop that process, or give another port with --set port=NUMBER ({source})"
    )]
    Port {
        /// The address.
        address: SocketAddr,
        /// The error of the system.
        source: std::io::Error,
    },
    /// The process ended by itself.
    #[error("{node} has ended; the end of {log}:\n{tail}")]
    Ended {
        /// Its name.
        node: String,
        /// Its log.
        log: String,
        /// The end of the log.
        tail: String,
    },
    /// The process runs and does not answer.
    #[error("{node} did not answer within {seconds} s ({said}); the end of {log}:\n{tail}")]
    Silent {
        /// Its name.
        node: String,
        /// The time limit.
        seconds: u64,
        /// What it returned instead of an answer.
        said: String,
        /// Its log.
        log: String,
        /// The end of the log.
        tail: String,
    },
    /// The server runs with other settings than requested.
    #[error(
        "{name} runs with other settings than requested; stop it first: loginson-lab stores stop {name}"
    )]
    Different {
        /// Name of the store.
        name: String,
    },
    /// A process survived being killed; an administrator has to find out why.
    #[error(
        "{node} (pid {pid}) is still there after it was killed: find out why as an administrator, or restart the machine"
    )]
    Immortal {
        /// Its name.
        node: String,
        /// Its process id.
        pid: u32,
    },
}

pub(crate) fn io(path: &Path) -> impl FnOnce(std::io::Error) -> ServerError {
    let path = path.display().to_string();
    move |source| ServerError::Io { path, source }
}
