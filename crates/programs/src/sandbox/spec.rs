//! What the spawning process tells the process that applies the sandbox.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Travels as JSON in the first argument.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Spec {
    /// Process id of the spawning process.
    pub parent: i32,
    /// The interpreter; an absolute path without links.
    pub interpreter: PathBuf,
    /// See [`crate::Limits`].
    pub memory_bytes_max: u64,
    /// See [`crate::Limits`].
    pub cpu_s_max: u64,
    /// See [`crate::Limits`].
    pub open_files_max: u64,
    /// See [`crate::Limits`].
    pub nice: i32,
    /// See [`crate::Limits`].
    pub read_paths: Vec<PathBuf>,
}
