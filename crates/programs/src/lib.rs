//! Programs make rows of the lines of each bucket of event time. Those that are built in count the
//! lines of every type, in our own process: module [`summary`]. Those of users are small programs
//! in AWK or LogsQL for the lines of one type or filter: the rest of this crate.
//!
//! ```text
//! NAME.awk → Definition ─┐
//! lines → InputBlock ────┤→ BucketRun → awk behind the sandbox → RowReader → rows
//! Interpreter, Launcher ─┘
//! ```
//!
//! A [`BucketRun`] is one process for one bucket and type: lines go in, the input ends, the program
//! prints its rows. Its caller drives it: no thread belongs to a run, every call has a bound in
//! time, and a program that hangs, floods or dies changes nothing but its own outcome.
//!
//! Invariants:
//!
//! - *No call waits longer than its limit*, whatever the program does.
//! - *No process survives its run.* A run that ends or is dropped kills the process group; if our
//!   own process dies, the kernel kills the program.
//! - *Memory is bounded*: bytes, rows and fields of the output, the tail of stderr, pending input.
//! - *A program starts behind the sandbox*, and the run reports which parts the kernel applied.
//!
//! Left out: the store and its threads; queries in LogsQL, which the caller runs; which lines a
//! program gets (types, filters, cursors); what becomes of its rows; retries of a bucket.

mod block;
mod builtin;
mod check;
mod definition;
mod error;
mod header;
mod interpreter;
mod limits;
mod process;
mod rows;
mod run;
pub mod sandbox;
pub mod summary;

pub use block::{INPUT_LINE_BYTES_MAX, Input, InputBlock};
pub use builtin::{BUILTIN, Builtin};
pub use check::{Fault, Report, test_program};
pub use definition::{
    Definition, DefinitionError, Language, Loaded, NoLanguage, PROGRAM_BYTES_MAX, load_files,
};
pub use error::{Exit, ProgramError};
pub use interpreter::{Interpreter, Kind, NoInterpreter, Variable};
pub use limits::{Limits, OutputLimits};
pub use process::launcher::{Helper, Launcher};
pub use rows::parse::{RowProblem, parse_row};
pub use rows::reader::{OutputError, Rejected, RowError, RowReader};
pub use rows::{NAME_BYTES_MAX, Row, Value, is_reserved};
pub use run::bucket::{BucketOutcome, BucketRun, Usage};
pub use run::spec::RunSpec;
