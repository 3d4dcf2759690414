//! Stands for programs in VRL in builds without the feature `vrl`: none can be compiled, so that
//! callers need no condition of their own.

use crate::definition::{Definition, DefinitionError};
use crate::error::ProgramError;
use crate::limits::Limits;
use crate::rows::Row;
use crate::rows::reader::Rejected;

/// A program that is compiled; there is none in this build.
#[derive(Clone, Debug)]
pub enum VrlProgram {}

impl VrlProgram {
    /// Refuses the program.
    pub fn compile(definition: &Definition) -> Result<Self, DefinitionError> {
        let problem = crate::definition::NO_VRL.to_owned();
        Err(DefinitionError { name: definition.name.clone(), line: 1, problem })
    }

    /// What is probably a mistake, though the program can run.
    pub fn warnings(&self) -> &[String] {
        match *self {}
    }
}

/// A program on the lines of one bucket; there is none in this build.
pub enum VrlRun {}

impl VrlRun {
    /// A run without lines.
    pub fn start(program: &VrlProgram, _: &Limits) -> Self {
        match *program {}
    }

    /// Appends a field to the line.
    pub fn push_field(&mut self, _: &str, _: &[u8]) {
        match *self {}
    }

    /// The line has all its fields.
    pub fn end_line(&mut self) -> Result<(), ProgramError> {
        match *self {}
    }

    /// The rows, and the lines that gave none because of an error.
    pub fn finish(self) -> (Vec<Row>, Rejected) {
        match self {}
    }
}
