//! One process for one bucket and type: lines in, end of input, rows out.
//!
//! What a program does, and what the run makes of it:
//!
//! | the program | the run |
//! |---|---|
//! | prints nothing and exits with 0 | succeeds without rows |
//! | prints before it reads | takes these rows like others |
//! | stops reading early, exits with 0 | succeeds; `is_input_left` says that lines were not read |
//! | ends its output in half a line, exits with 0 | takes the half line as a line |
//! | prints a few lines that are no rows | succeeds with the rows around them, and reports these lines |
//! | prints too much, or too many lines that are no rows | is killed, fails |
//! | exits with another code, or by a signal | fails; its rows are dropped |
//! | does not read, or does not end, for the timeout | is killed, fails |
//! | tries to start processes | is refused by the sandbox; mostly it then exits with an error |
//!
//! The timeout counts twice, each time from the start: while the caller waits for the program to
//! read, and from the end of the input. A bucket may be open for as long as its lines take to come.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::block::InputBlock;
use crate::error::{Exit, ProgramError};
use crate::process::Process;
use crate::process::launcher::Launcher;
use crate::rows::Row;
use crate::rows::reader::{OutputError, Rejected, RowReader};
use crate::run::spec::RunSpec;
use crate::sandbox::Applied;

/// What a run, or a query in its place, took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Lines that the program got: those that the pipe took, without a header.
    pub lines: u64,
    /// Bytes that the pipe took.
    pub bytes: u64,
    /// Lines that were given after the program had stopped reading.
    pub lines_left: u64,
    /// Processor time of the process.
    pub cpu: Duration,
    /// From the start to the end.
    pub wall: Duration,
}

impl Usage {
    /// Lines that were given to the program, whether it read them or not.
    pub fn lines_given(&self) -> u64 {
        self.lines + self.lines_left
    }
}

/// What became of a bucket: how its run ended, or the query that made its rows.
#[derive(Clone, Debug)]
pub struct BucketOutcome {
    /// The rows, or why there are none.
    pub result: Result<Vec<Row>, ProgramError>,
    /// Lines of the output that are no rows.
    pub rejected: Rejected,
    /// What it took.
    pub usage: Usage,
    /// Whether the program stopped reading before its input had ended, as far as the run noticed:
    /// lines that were in the pipe are not counted as left.
    pub is_input_left: bool,
    /// The end of what it wrote to stderr.
    pub stderr: String,
    /// What the sandbox applied, if it came so far.
    pub sandbox: Option<Applied>,
}

impl BucketOutcome {
    /// An outcome without a process.
    pub fn of(result: Result<Vec<Row>, ProgramError>) -> Self {
        Self {
            result,
            rejected: Rejected::default(),
            usage: Usage::default(),
            is_input_left: false,
            stderr: String::new(),
            sandbox: None,
        }
    }
}

/// A run; see the module. Dropping it kills the process.
#[derive(Debug)]
pub struct BucketRun {
    process: Process,
    reader: RowReader,
    rows: Vec<Row>,
    timeout: Duration,
    started: Instant,
    /// The header of the columns, until it is written.
    header: InputBlock,
    usage: Usage,
    /// How long the caller has waited for the program to read.
    waited: Duration,
    /// When the pipe was full, if it has taken nothing since.
    full_since: Option<Instant>,
    /// When the input ended.
    ended: Option<Instant>,
    is_input_left: bool,
    error: Option<ProgramError>,
}

impl BucketRun {
    /// Starts the process.
    pub fn start(launcher: &Arc<Launcher>, spec: &RunSpec) -> Result<Self, ProgramError> {
        let started = Instant::now();
        let mut header = InputBlock::new();
        header.push_header(&spec.definition.input);
        Ok(Self {
            process: launcher.launch(spec)?,
            reader: RowReader::new(spec.limits.output),
            rows: Vec::new(),
            timeout: spec.timeout(),
            started,
            header,
            usage: Usage::default(),
            waited: Duration::ZERO,
            full_since: None,
            ended: None,
            is_input_left: false,
            error: None,
        })
    }

    /// The number of the process, for logs.
    pub fn process_id(&self) -> u32 {
        self.process.id()
    }

    /// Feeds all lines of a block; waits for the program up to its timeout. After an error the run
    /// takes no more lines, and [`BucketRun::finish`] reports the same error.
    pub fn feed(&mut self, block: &mut InputBlock) -> Result<(), ProgramError> {
        while !self.try_feed(block, self.timeout)? {}
        Ok(())
    }

    /// Feeds what the pipe takes, waits at most `patience`. Returns whether the block was taken as
    /// a whole; otherwise the next call continues behind what was taken.
    pub fn try_feed(
        &mut self,
        block: &mut InputBlock,
        patience: Duration,
    ) -> Result<bool, ProgramError> {
        if let Some(error) = &self.error {
            return Err(error.clone());
        }
        assert!(self.ended.is_none(), "the caller has ended the input");
        let started = Instant::now();
        let mut header = std::mem::take(&mut self.header);
        let is_header_taken = self.feed_block(&mut header, started, patience, false);
        self.header = header;
        match is_header_taken {
            Ok(true) => self.feed_block(block, started, patience, true),
            other => other,
        }
        .map_err(|error| self.fail(error))
    }

    /// Ends the input. The program now has its timeout to print its rows.
    pub fn close_input(&mut self) {
        if self.ended.is_none() {
            self.process.close_input();
            self.ended = Some(Instant::now());
        }
    }

    /// Reads what the program printed, waits at most `patience` for its end. Returns whether the
    /// run is over, so that [`BucketRun::finish`] returns at once. One thread can drive many runs
    /// with it.
    pub fn poll(&mut self, patience: Duration) -> bool {
        let started = Instant::now();
        while self.error.is_none() && self.process.exit().is_none() {
            let left = patience.saturating_sub(started.elapsed());
            let until_timeout = match self.ended {
                Some(ended) => self.timeout.saturating_sub(ended.elapsed()),
                None => self.timeout,
            };
            if self.ended.is_some() && until_timeout.is_zero() {
                let error = ProgramError::TimedOut { timeout: self.timeout, is_input_ended: true };
                self.fail(error);
                break;
            }
            if let Err(error) = self.step(&[], left.min(until_timeout)) {
                self.fail(error);
            }
            if started.elapsed() >= patience {
                break;
            }
        }
        self.error.is_some() || self.process.exit().is_some()
    }

    /// Ends the input, waits for the rows, at most for the timeout, and reaps the process.
    pub fn finish(mut self) -> BucketOutcome {
        while self.error.is_none() && !self.header.is_empty() && self.process.is_reading() {
            // No line came: the program gets its header all the same.
            let _ = self.try_feed(&mut InputBlock::new(), self.timeout);
        }
        self.close_input();
        while !self.poll(self.timeout) {}
        let exit = self.process.exit();
        let result = match (self.error.take(), exit) {
            (Some(error), _) => Err(error),
            (None, Some(exit)) => self.rows_of(exit),
            (None, None) => unreachable!("a run that is over has an error or an exit"),
        };
        self.process.kill();
        self.usage.cpu = self.process.cpu();
        self.usage.wall = self.started.elapsed();
        BucketOutcome {
            result,
            rejected: self.reader.rejected().clone(),
            usage: self.usage,
            is_input_left: self.is_input_left || self.usage.lines_left > 0,
            stderr: self.process.stderr().text(),
            sandbox: self.process.applied().cloned(),
        }
    }

    fn rows_of(&mut self, exit: Exit) -> Result<Vec<Row>, ProgramError> {
        check_exit(&self.process, exit)?;
        self.reader.finish(&mut self.rows)?;
        Ok(std::mem::take(&mut self.rows))
    }

    fn feed_block(
        &mut self,
        block: &mut InputBlock,
        started: Instant,
        patience: Duration,
        is_counted: bool,
    ) -> Result<bool, ProgramError> {
        loop {
            if !self.process.is_reading() {
                let bytes = block.rest().len();
                let lines = block.advance(bytes);
                self.is_input_left |= bytes > 0;
                self.usage.lines_left += if is_counted { lines } else { 0 };
                return Ok(true);
            }
            if block.is_empty() {
                return Ok(true);
            }
            let timeout = self.timeout.saturating_sub(self.waited);
            let left = patience.saturating_sub(started.elapsed()).min(timeout);
            let written = self.step(block.rest(), left)?;
            let lines = block.advance(written);
            self.usage.lines += if is_counted { lines } else { 0 };
            self.usage.bytes += written as u64;
            if written > 0 {
                self.full_since = None;
                continue;
            }
            let now = Instant::now();
            let full_since = *self.full_since.get_or_insert(now);
            let is_stalled = now - full_since > self.timeout || self.waited >= self.timeout;
            if is_stalled && self.process.is_reading() && self.process.exit().is_none() {
                return Err(ProgramError::TimedOut {
                    timeout: self.timeout,
                    is_input_ended: false,
                });
            }
            if started.elapsed() >= patience {
                return Ok(false);
            }
        }
    }

    /// One step of the process; its output goes to the reader of rows.
    fn step(&mut self, input: &[u8], patience: Duration) -> Result<usize, ProgramError> {
        let Self { process, reader, rows, .. } = self;
        let mut take = |bytes: &[u8]| reader.push(bytes, rows).map_err(StepError::from);
        let stepped = process.step(input, patience, &mut take)?;
        if !input.is_empty() {
            self.waited += stepped.waited;
        }
        Ok(stepped.written)
    }

    fn fail(&mut self, error: ProgramError) -> ProgramError {
        self.process.kill();
        self.error.get_or_insert(error).clone()
    }
}

/// Whether a process that has ended did its work.
fn check_exit(process: &Process, exit: Exit) -> Result<(), ProgramError> {
    use crate::sandbox::{EXIT_NO_EXEC, EXIT_REFUSED};
    let stderr = process.stderr();
    match exit {
        Exit::Code(0) if stderr.applied().is_none() => Err(ProgramError::Sandbox {
            message: "the process ended without a report of its sandbox".to_owned(),
        }),
        Exit::Code(0) => Ok(()),
        Exit::Code(code) => {
            let is_ours = code == i32::from(EXIT_REFUSED) || code == i32::from(EXIT_NO_EXEC);
            match stderr.refusal().filter(|_| is_ours) {
                Some(message) => Err(ProgramError::Sandbox { message }),
                None => Err(ProgramError::Failed { code, stderr: stderr.text() }),
            }
        }
        Exit::Signal(signal) => Err(ProgramError::Killed { signal, stderr: stderr.text() }),
    }
}

/// What can go wrong in a step.
#[derive(Debug)]
enum StepError {
    Pipe(std::io::Error),
    Output(OutputError),
}

impl From<std::io::Error> for StepError {
    fn from(error: std::io::Error) -> Self {
        Self::Pipe(error)
    }
}

impl From<OutputError> for StepError {
    fn from(error: OutputError) -> Self {
        Self::Output(error)
    }
}

impl From<StepError> for ProgramError {
    fn from(error: StepError) -> Self {
        match error {
            StepError::Pipe(error) => Self::Pipe { message: error.to_string() },
            StepError::Output(error) => error.into(),
        }
    }
}
