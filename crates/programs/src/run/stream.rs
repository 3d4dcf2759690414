//! One long-lived process: each line gives no, one or several rows, whenever the program prints.
//!
//! ```text
//! try_feed → pending block → pipe → program → rows → take_rows
//!                                      ↘ ends or stalls → down, until the back-off is over → started anew
//! ```
//!
//! The caller drives the run: nothing happens between its calls. Lines that a process did not read
//! before its end are lost, and counted; of lines that it read nobody knows whether their rows were
//! still to come. Who needs each line exactly once runs the program per bucket.
//!
//! A program that ends by itself, with whatever code, is started anew: its input has not ended.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::block::InputBlock;
use crate::clock::Clock;
use crate::error::ProgramError;
use crate::limits::OutputLimits;
use crate::process::Process;
use crate::process::launcher::Launcher;
use crate::rows::Row;
use crate::rows::reader::{Rejected, RowReader};
use crate::run::bucket::{StepError, check_exit};
use crate::run::pending::Pending;
use crate::run::spec::RunSpec;
use crate::sandbox::Applied;

/// Steps of one call, so that a program that prints without end does not hold its caller.
const STEPS_MAX: u32 = 64;

/// When a process that has ended is started anew.
#[derive(Clone, Copy, Debug)]
pub struct RestartPolicy {
    /// Pause after the first failure; it doubles with each further one.
    pub pause_min: Duration,
    /// The longest pause.
    pub pause_max: Duration,
    /// A process that ran for so long makes the next pause a first one.
    pub healthy_after: Duration,
}

impl Default for RestartPolicy {
    fn default() -> Self {
        Self {
            pause_min: Duration::from_secs(1),
            pause_max: Duration::from_secs(60),
            healthy_after: Duration::from_secs(60),
        }
    }
}

/// What became of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fed {
    /// The run has taken it.
    Taken,
    /// The program has not read earlier lines; try again later.
    Full,
    /// No process runs; the next is started after this time.
    Down {
        /// What is left of the pause.
        retry_in: Duration,
    },
}

/// Whether a process runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamState {
    /// It runs.
    Running,
    /// It has ended; the next is started after this time.
    Down {
        /// What is left of the pause.
        retry_in: Duration,
    },
}

/// Numbers of a run, for the page and for metrics.
#[derive(Clone, Debug)]
pub struct StreamStatus {
    /// Whether a process runs.
    pub state: StreamState,
    /// Processes that were started after the first.
    pub restarts: u64,
    /// Lines that were taken.
    pub lines: u64,
    /// Lines that no process read, because the one that had them in its pipe ended.
    pub lines_lost: u64,
    /// Lag: lines that were taken and that the process has not read.
    pub lines_waiting: u64,
    /// Bytes of these lines.
    pub bytes_waiting: u64,
    /// Rows.
    pub rows: u64,
    /// Lines of output that are no rows, of all processes; the first ones are those of the last
    /// process that had any.
    pub rejected: Rejected,
    /// Why the last process ended.
    pub error: Option<ProgramError>,
    /// What the sandbox applied to the last process.
    pub sandbox: Option<Applied>,
}

/// A run; see the module. Dropping it kills the process.
pub struct StreamRun {
    launcher: Arc<Launcher>,
    spec: RunSpec,
    clock: Arc<dyn Clock>,
    policy: RestartPolicy,
    live: Option<Live>,
    /// When the next process is started, if none runs.
    down_until: Duration,
    /// Failures without a healthy process between them.
    failures: u32,
    starts: u64,
    pending: Pending,
    rows: Vec<Row>,
    lines: u64,
    lines_lost: u64,
    rows_total: u64,
    rejected: Rejected,
    error: Option<ProgramError>,
    sandbox: Option<Applied>,
}

/// The process and what belongs to it alone.
struct Live {
    process: Process,
    reader: RowReader,
    started: Duration,
    header: InputBlock,
    /// Bytes that the pipe has taken.
    written: u64,
    /// Where lines end among these bytes; those that the process has read are removed. Bounded by
    /// the size of the pipe.
    line_ends: VecDeque<u64>,
    /// Bytes that the process has read, and when that number last grew.
    read: u64,
    progress: Duration,
}

impl StreamRun {
    /// Starts the first process. If that fails, the run is down and tries again like after any
    /// failure.
    pub fn start(
        launcher: &Arc<Launcher>,
        spec: RunSpec,
        policy: RestartPolicy,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let mut run = Self {
            launcher: Arc::clone(launcher),
            spec,
            down_until: clock.now(),
            clock,
            policy,
            live: None,
            failures: 0,
            starts: 0,
            pending: Pending::default(),
            rows: Vec::new(),
            lines: 0,
            lines_lost: 0,
            rows_total: 0,
            rejected: Rejected::default(),
            error: None,
            sandbox: None,
        };
        run.start_when_due();
        run
    }

    /// Gives the program a block of lines; waits at most `patience` for room in its pipe. A block
    /// is taken as a whole or not at all; the run keeps one block in memory besides the pipe.
    pub fn try_feed(&mut self, block: &mut InputBlock, patience: Duration) -> Fed {
        let started = Instant::now();
        loop {
            self.poll();
            if self.live.is_none() {
                return Fed::Down { retry_in: self.retry_in() };
            }
            if self.pending.is_empty() {
                break;
            }
            let left = patience.saturating_sub(started.elapsed());
            if left.is_zero() || self.is_full_of_rows() {
                return Fed::Full;
            }
            self.step(left);
        }
        self.lines += self.pending.fill(block);
        self.step(Duration::ZERO);
        Fed::Taken
    }

    /// Moves what can be moved without waiting, and starts a process if it is time.
    pub fn poll(&mut self) {
        self.start_when_due();
        for _ in 0..STEPS_MAX {
            if self.is_full_of_rows() || !self.step(Duration::ZERO) {
                break;
            }
        }
        self.check_progress();
    }

    /// Waits at most `patience` for output or for the end of the process, then polls.
    pub fn wait(&mut self, patience: Duration) {
        if self.live.is_some() && !self.is_full_of_rows() {
            self.step(patience);
        }
        self.poll();
    }

    /// The rows since the last call. While more than the limit of rows wait here, the run reads no
    /// further output, and the program in the end no input.
    pub fn take_rows(&mut self) -> Vec<Row> {
        std::mem::take(&mut self.rows)
    }

    /// State and numbers.
    pub fn status(&mut self) -> StreamStatus {
        self.note_reads();
        let live = self.live.as_ref();
        let (lines, bytes) =
            live.map_or((0, 0), |live| (live.line_ends.len() as u64, live.written - live.read));
        let mut rejected = live.map(|live| live.reader.rejected().clone()).unwrap_or_default();
        if rejected.first.is_empty() {
            rejected.first.clone_from(&self.rejected.first);
        }
        rejected.lines += self.rejected.lines;
        StreamStatus {
            state: match live {
                Some(_) => StreamState::Running,
                None => StreamState::Down { retry_in: self.retry_in() },
            },
            restarts: self.starts.saturating_sub(1),
            lines: self.lines,
            lines_lost: self.lines_lost,
            lines_waiting: lines + self.pending.lines(),
            bytes_waiting: bytes + self.pending.rest().len() as u64,
            rows: self.rows_total,
            rejected,
            error: self.error.clone(),
            sandbox: live.and_then(|l| l.process.applied()).or(self.sandbox.as_ref()).cloned(),
        }
    }

    /// Ends the input, waits at most the timeout of the program for its last rows, and returns them
    /// with the last status. A process that is down is not started for that.
    pub fn finish(mut self) -> (Vec<Row>, StreamStatus) {
        let started = Instant::now();
        let timeout = self.spec.timeout();
        let left = || timeout.saturating_sub(started.elapsed());
        while self.live.is_some() && !self.pending.is_empty() && !left().is_zero() {
            self.step(left());
        }
        if let Some(live) = &mut self.live {
            live.process.close_input();
        }
        while self.live.is_some() {
            if left().is_zero() {
                self.fail(ProgramError::TimedOut { timeout, is_input_ended: true });
            } else {
                self.step(left());
            }
        }
        if self.error == Some(ProgramError::Ended) {
            self.error = None;
        }
        (self.take_rows(), self.status())
    }

    fn is_full_of_rows(&self) -> bool {
        self.rows.len() as u64 >= self.spec.limits.output.rows_max
    }

    fn retry_in(&self) -> Duration {
        self.down_until.saturating_sub(self.clock.now())
    }

    fn start_when_due(&mut self) {
        let now = self.clock.now();
        if self.live.is_some() || now < self.down_until {
            return;
        }
        self.starts += 1;
        match self.launcher.launch(&self.spec) {
            Ok(process) => {
                // Bytes and rows have no end in a stream; lines, fields and garbage do.
                let limits = OutputLimits {
                    bytes_max: u64::MAX,
                    rows_max: u64::MAX,
                    ..self.spec.limits.output
                };
                let mut header = InputBlock::new();
                header.push_header(&self.spec.definition.input);
                self.live = Some(Live {
                    process,
                    reader: RowReader::new(limits),
                    started: now,
                    header,
                    written: 0,
                    line_ends: VecDeque::new(),
                    read: 0,
                    progress: now,
                });
            }
            Err(error) => self.go_down(error, now),
        }
    }

    /// One step of the process. Returns whether anything moved.
    fn step(&mut self, patience: Duration) -> bool {
        let Some(live) = &mut self.live else { return false };
        let is_header = !live.header.is_empty();
        let input = if is_header { live.header.rest() } else { self.pending.rest() };
        let Live { process, reader, .. } = live;
        let rows = &mut self.rows;
        let before = rows.len();
        let mut take = |bytes: &[u8]| reader.push(bytes, rows).map_err(StepError::from);
        let stepped = process.step(input, patience, &mut take);
        self.rows_total += (self.rows.len() - before) as u64;
        match stepped {
            Ok(stepped) => {
                if is_header {
                    live.header.advance(stepped.written);
                } else {
                    self.pending.advance(stepped.written, live.written, &mut live.line_ends);
                }
                live.written += stepped.written as u64;
                if let Some(exit) = live.process.exit() {
                    let error =
                        check_exit(&live.process, exit).err().unwrap_or(ProgramError::Ended);
                    self.fail(error);
                    return true;
                }
                stepped.written + stepped.read > 0
            }
            Err(error) => {
                self.fail(error.into());
                true
            }
        }
    }

    /// Looks at how far the process has read.
    fn note_reads(&mut self) {
        let now = self.clock.now();
        let Some(live) = &mut self.live else { return };
        let read = live.written - live.process.unread_bytes().min(live.written);
        if read > live.read {
            live.read = read;
            live.progress = now;
        }
        while live.line_ends.front().is_some_and(|end| *end <= live.read) {
            live.line_ends.pop_front();
        }
    }

    /// Kills a process that has lines and has not read for the timeout. Time in which the caller
    /// takes no rows is not the fault of the program.
    fn check_progress(&mut self) {
        self.note_reads();
        let now = self.clock.now();
        let timeout = self.spec.timeout();
        let is_full_of_rows = self.is_full_of_rows();
        let Some(live) = &mut self.live else { return };
        let has_input = live.written > live.read || !self.pending.is_empty();
        if !has_input || is_full_of_rows {
            live.progress = now;
        } else if now.saturating_sub(live.progress) > timeout {
            self.fail(ProgramError::TimedOut { timeout, is_input_ended: false });
        }
    }

    /// The process has ended, or has to.
    fn fail(&mut self, error: ProgramError) {
        self.note_reads();
        let now = self.clock.now();
        let Some(mut live) = self.live.take() else { return };
        live.process.kill();
        if error == ProgramError::Ended {
            // The program was done with its output: a last line without newline counts.
            let before = self.rows.len();
            let _ = live.reader.finish(&mut self.rows);
            self.rows_total += (self.rows.len() - before) as u64;
        }
        self.lines_lost += live.line_ends.len() as u64 + self.pending.drop_begun_line();
        let rejected = live.reader.rejected();
        self.rejected.lines += rejected.lines;
        if !rejected.first.is_empty() {
            self.rejected.first.clone_from(&rejected.first);
        }
        if let Some(applied) = live.process.applied() {
            self.sandbox = Some(applied.clone());
        }
        if now.saturating_sub(live.started) >= self.policy.healthy_after {
            self.failures = 0;
        }
        self.go_down(error, now);
    }

    fn go_down(&mut self, error: ProgramError, now: Duration) {
        let doubled = self.policy.pause_min.saturating_mul(1 << self.failures.min(16));
        self.failures = self.failures.saturating_add(1);
        self.down_until = now + doubled.min(self.policy.pause_max);
        self.error = Some(error);
    }
}
