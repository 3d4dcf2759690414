//! Programs in VRL (Vector Remap Language): the event of each line becomes a row.
//!
//! ```text
//! NAME.vrl → VrlProgram ─┐
//! fields of a line ──────┴→ VrlRun → event → row
//! ```
//!
//! A [`VrlProgram`] is compiled once; a [`VrlRun`] runs it on the lines of one bucket, in the
//! thread of its caller.
//!
//! Invariants:
//!
//! - *No function reaches outside*: the crate is built without those for network, environment and
//!   system, and [`DENIED`] removes the others.
//! - *No line takes longer than the timeout* by more than one call of a function, and no bucket
//!   longer than its processor time.
//! - *The stack is bounded*: [`nesting`] refuses programs that nest deeply, because the compiler
//!   and the interpreter of the crate recurse.
//! - *Rows are bounded* in number and bytes.
//!
//! Left out: a bound for the memory of one line. A program that repeats a text a billion times
//! takes that memory from the process of the server. AWK runs in a process of its own and has a
//! bound.

mod event;
mod nesting;

use std::fmt;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ::vrl::compiler::runtime::{Runtime, Terminate};
use ::vrl::compiler::state::{ExternalEnv, RuntimeState};
use ::vrl::compiler::{
    CompileConfig, ExpressionError, Function, Program, TargetValueRef, TimeZone,
    compile_with_external,
};
use ::vrl::diagnostic::{Diagnostic, DiagnosticList};
use ::vrl::value::kind::{Collection, Kind};
use ::vrl::value::{Secrets, Value};

use crate::definition::{Definition, DefinitionError};
use crate::error::ProgramError;
use crate::limits::{Limits, OutputLimits};
use crate::rows::Row;
use crate::rows::parse::RowProblem;
use crate::rows::reader::{Rejected, RowError};
use event::Event;

/// Functions that programs do not have.
const DENIED: [&str; 18] = [
    // They reach network, environment, system or files. The features of the crate leave most of
    // them out; they stand here in case another crate of the build turns those features on.
    "dns_lookup",
    "encode_proto",
    "get_env_var",
    "get_hostname",
    "get_timezone_name",
    "http_request",
    "parse_etld",
    "parse_groks",
    "parse_proto",
    "reverse_dns",
    "validate_json_schema",
    // It writes into the log of the server.
    "log",
    // A short line can unpack to more memory than the machine has.
    "decode_gzip",
    "decode_lz4",
    "decode_snappy",
    "decode_zlib",
    "decode_zstd",
    // It recurses as deep as the line nests.
    "parse_ruby_hash",
];
/// Expressions between two looks at the clock.
const STEPS_PER_LOOK: u32 = 16;
/// Rejected lines that are kept with their text; further ones are counted alone.
const REJECTED_KEPT: usize = 10;
/// Characters of a rejected line that are kept.
const REJECTED_CHARS_MAX: usize = 200;

/// A program that is compiled. Clones share it.
#[derive(Clone)]
pub struct VrlProgram(Arc<Compiled>);

struct Compiled {
    program: Program,
    definition: Definition,
    warnings: Vec<String>,
}

impl VrlProgram {
    /// Compiles the program of a definition. Errors name their line in the file.
    pub fn compile(definition: &Definition) -> Result<Self, DefinitionError> {
        let text = &definition.text;
        let error =
            |line, problem| DefinitionError { name: definition.name.clone(), line, problem };
        nesting::check(text).map_err(|(line, problem)| error(line, problem))?;
        let mut functions = ::vrl::stdlib::all();
        functions.retain(|function| !DENIED.contains(&function.identifier()));
        let env = ExternalEnv::new_with_kind(
            Kind::object(Collection::any()),
            Kind::object(Collection::empty()),
        );
        let compiled =
            compile(text, &functions, &env).map_err(|(line, problem)| error(line, problem))?;
        Ok(Self(Arc::new(Compiled {
            program: compiled.0,
            definition: definition.clone(),
            warnings: compiled.1,
        })))
    }

    /// What is probably a mistake, though the program can run.
    pub fn warnings(&self) -> &[String] {
        &self.0.warnings
    }
}

impl fmt::Debug for VrlProgram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("VrlProgram").field(&self.0.definition.name).finish()
    }
}

/// The program and its warnings, or the line and the text of the first mistake.
fn compile(
    text: &str,
    functions: &[Box<dyn Function>],
    env: &ExternalEnv,
) -> Result<(Program, Vec<String>), (usize, String)> {
    let compile = || compile_with_external(text, functions, env, CompileConfig::default());
    let compiled = catch_unwind(AssertUnwindSafe(compile)).map_err(|panic| {
        (1, format!("the compiler of VRL failed ({}); write it in another way", words(&*panic)))
    })?;
    match compiled {
        Ok(done) => {
            let warning = |of: &Diagnostic| format!("line {}: {}", line_of(text, of), said(of));
            Ok((done.program, done.warnings.iter().map(warning).collect()))
        }
        Err(list) => Err(first_problem(text, &list)),
    }
}

fn first_problem(text: &str, list: &DiagnosticList) -> (usize, String) {
    let mut problems: Vec<&Diagnostic> = list.iter().filter(|one| one.is_problem()).collect();
    problems.sort_by_key(|one| line_of(text, one));
    let Some(first) = problems.first() else {
        return (1, "the compiler of VRL refuses the program without a reason".to_owned());
    };
    let mut problem = said(first);
    let place = first.labels.iter().find(|label| label.primary).map(|label| label.span);
    let name = place.and_then(|span| text.get(span.start()..span.end())).unwrap_or_default();
    if DENIED.contains(&name.trim_end_matches(['(', '!'])) {
        problem.push_str(
            "; programs have no functions that reach outside, unpack, or recurse without bound",
        );
    }
    if problems.len() > 1 {
        problem.push_str(&format!(" (and {} more mistakes)", problems.len() - 1));
    }
    (line_of(text, first), problem)
}

/// The words of a diagnostic and its labels.
fn said(diagnostic: &Diagnostic) -> String {
    let labels: Vec<&str> = diagnostic.labels.iter().map(|label| label.message.trim()).collect();
    match labels.is_empty() {
        true => diagnostic.message.clone(),
        false => format!("{}: {}", diagnostic.message, labels.join("; ")),
    }
}

fn line_of(text: &str, diagnostic: &Diagnostic) -> usize {
    let labels = || diagnostic.labels.iter();
    let label = labels().find(|label| label.primary).or_else(|| labels().next());
    label.map_or(1, |label| line_at(text, label.span.start()))
}

/// Number of the line at a position, from 1.
fn line_at(text: &str, position: usize) -> usize {
    let before = &text.as_bytes()[..position.min(text.len())];
    memchr::memchr_iter(b'\n', before).count() + 1
}

/// What a panic said.
fn words(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no words")
}

/// A program on the lines of one bucket.
pub struct VrlRun {
    program: VrlProgram,
    output: OutputLimits,
    timeout: Duration,
    time_max: Duration,
    zone: TimeZone,
    runtime: Runtime,
    event: Event,
    lines: u64,
    time: Duration,
    rows: Vec<Row>,
    bytes: u64,
    rejected: Rejected,
}

impl VrlRun {
    /// A run without lines.
    pub fn start(program: &VrlProgram, limits: &Limits) -> Self {
        Self {
            program: program.clone(),
            output: limits.output,
            timeout: program.0.definition.timeout.unwrap_or(limits.timeout),
            time_max: Duration::from_secs(limits.cpu_s_max),
            zone: TimeZone::parse(&limits.time_zone)
                .or_else(|| TimeZone::parse("UTC"))
                .unwrap_or_default(),
            runtime: Runtime::new(RuntimeState::default()),
            event: Event::default(),
            lines: 0,
            time: Duration::ZERO,
            rows: Vec::new(),
            bytes: 0,
            rejected: Rejected::default(),
        }
    }

    /// Appends a field to the line; `_line` is the raw line.
    pub fn push_field(&mut self, name: &str, value: &[u8]) {
        self.event.insert(name, value);
    }

    /// The line has all its fields: runs the program on it. After an error the run is over.
    pub fn end_line(&mut self) -> Result<(), ProgramError> {
        self.lines += 1;
        let mut event = std::mem::take(&mut self.event);
        let row = match self.resolve(&mut event)? {
            Some(Ok(())) => event.take_row(&self.output),
            Some(Err(message)) => Err(RowProblem::Event { message }),
            None => return Ok(()),
        };
        match row {
            Ok((row, _)) if row.fields().is_empty() => {}
            Ok((row, bytes)) => {
                self.bytes += bytes as u64;
                self.rows.push(row);
                let (rows_max, bytes_max) = (self.output.rows_max, self.output.bytes_max);
                if self.rows.len() as u64 > rows_max {
                    return Err(ProgramError::TooManyRows { limit: format!("{rows_max} rows") });
                }
                if self.bytes > bytes_max {
                    let limit = format!("{bytes_max} bytes of rows");
                    return Err(ProgramError::TooManyRows { limit });
                }
            }
            Err(problem) => self.reject(problem, &event),
        }
        Ok(())
    }

    /// The rows in the order of the lines, and the lines that gave none because of an error.
    pub fn finish(self) -> (Vec<Row>, Rejected) {
        (self.rows, self.rejected)
    }

    /// Runs the program. Nothing if the program aborts or leaves no object; else whether the event
    /// is complete, or what went wrong.
    fn resolve(&mut self, event: &mut Event) -> Result<Option<Result<(), String>>, ProgramError> {
        let start = Instant::now();
        let (deadline, mut steps) = (start + self.timeout, 0_u32);
        let mut control = || {
            steps = steps.wrapping_add(1);
            match steps % STEPS_PER_LOOK == 0 && Instant::now() >= deadline {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        };
        let (mut metadata, mut secrets) = (Value::Object(Default::default()), Secrets::default());
        let mut target =
            TargetValueRef { value: event.value(), metadata: &mut metadata, secrets: &mut secrets };
        let (runtime, program, zone) = (&mut self.runtime, &self.program.0.program, &self.zone);
        let resolved = catch_unwind(AssertUnwindSafe(|| {
            runtime.resolve_with_control(&mut target, program, zone, &mut control)
        }));
        self.runtime.clear();
        self.time += start.elapsed();
        let done = match resolved {
            Ok(Ok(_)) => event.is_object().then_some(Ok(())),
            Ok(Err(Terminate::Interrupted)) => {
                return Err(ProgramError::LineTimedOut { timeout: self.timeout });
            }
            Ok(Err(Terminate::Abort(ExpressionError::Abort { .. }))) => None,
            Ok(Err(Terminate::Abort(error) | Terminate::Error(error))) => {
                Some(Err(named_lines(&self.program.0.definition.text, &error.to_string())))
            }
            Err(panic) => {
                self.runtime = Runtime::new(RuntimeState::default());
                Some(Err(format!("a function of VRL failed: {}", words(&*panic))))
            }
        };
        if self.time > self.time_max {
            return Err(ProgramError::LinesTimedOut { time_max: self.time_max });
        }
        Ok(done)
    }

    fn reject(&mut self, problem: RowProblem, event: &Event) {
        self.rejected.lines += 1;
        if self.rejected.first.len() >= REJECTED_KEPT {
            return;
        }
        let message = match problem {
            RowProblem::Event { message } => message,
            problem => problem.to_string(),
        };
        self.rejected.first.push(RowError {
            line_number: self.lines,
            line: event.raw().chars().take(REJECTED_CHARS_MAX).collect(),
            problem: RowProblem::Event { message },
        });
    }
}

/// An error of a function names its place as ` at (START:END)`, in bytes of the program; puts the
/// number of the line there.
fn named_lines(text: &str, message: &str) -> String {
    let Some((before, place)) = message.split_once(" at (") else { return message.to_owned() };
    let found = place.split_once("): ").and_then(|(span, behind)| {
        let start: usize = span.split_once(':')?.0.parse().ok()?;
        Some(format!("{before} in line {} of the program: {behind}", line_at(text, start)))
    });
    found.unwrap_or_else(|| message.to_owned())
}

#[cfg(test)]
mod tests;
