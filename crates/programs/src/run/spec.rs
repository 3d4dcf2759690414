//! What a run is started with.

use std::ffi::OsString;
use std::time::Duration;

use crate::definition::Definition;
use crate::interpreter::{Interpreter, Variable};
use crate::limits::Limits;
use crate::sandbox::Spec;

/// A program, the AWK that runs it, and its limits.
#[derive(Clone, Debug)]
pub struct RunSpec {
    /// The AWK.
    pub interpreter: Interpreter,
    /// The program.
    pub definition: Definition,
    /// Its limits.
    pub limits: Limits,
    /// Variables of the program, for example the type and the start of the bucket.
    pub variables: Vec<Variable>,
}

impl RunSpec {
    /// How long a run may wait for its program.
    pub(crate) fn timeout(&self) -> Duration {
        self.definition.timeout.unwrap_or(self.limits.timeout)
    }

    pub(crate) fn arguments(&self) -> Vec<OsString> {
        self.interpreter.arguments(&self.definition, &self.variables)
    }

    /// The first argument of [`crate::sandbox::main`].
    pub(crate) fn sandbox_json(&self) -> String {
        let limits = &self.limits;
        let spec = Spec {
            parent: rustix::process::getpid().as_raw_pid(),
            interpreter: self.interpreter.path().to_owned(),
            memory_bytes_max: limits.memory_bytes_max,
            cpu_s_max: limits.cpu_s_max,
            open_files_max: limits.open_files_max,
            nice: limits.nice,
            read_paths: limits.read_paths.clone(),
        };
        serde_json::to_string(&spec).expect("paths are UTF-8, numbers are numbers")
    }
}
