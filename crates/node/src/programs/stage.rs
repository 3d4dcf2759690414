//! The stage of programs: notes which buckets lines came of, in the order of arrival, and keeps the
//! notes on disk. The programs themselves run on threads of their own ([`super::runner`]).
//!
//! The parse stage makes it note lines after every few frames ([`ProgramStage::note_arrivals`]),
//! for all programs behind one cursor. It looks at their types and times alone; filters are applied
//! when buckets are computed. A thread of its own writes the notes to disk ([`ProgramStage::run`]).
//! In a cluster, where other nodes parse the lines, that thread notes them too.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use platform::Clock;
use platform::memory::Budget;
use programs::{Helper, Interpreter, Launcher, Limits, Loaded};
use query::source::TimeRange;
use query::{Context, RunError};
use record::Batch;

use super::checkpoint::{Checkpoint, Version};
use super::compiled::Compiled;
use super::compute::Engine;
use super::registry::{ChangeError, Registry};
use super::rows::{self, Completed, FoundRows};
use super::runner::{RowWriter, Runner};
use super::runs::{self, RunContext};
use super::summary::reruns::{KeptReruns, RerunError};
use super::trial;
use crate::cluster::QueriedLines;
use crate::data_dir::Documents;
use crate::data_dir::PROGRAM_RUNS_FILE;
use crate::process::stages::{StageThread, Stages, lock};
use crate::storage::arrivals::{Noted, Notes};
use crate::storage::row_store::RowStore;
use crate::storage::stored::Parsers;

/// The hidden subcommand that puts a process into its sandbox ([`programs::sandbox::main`]).
pub const SANDBOX_COMMAND: &str = "program-sandbox";
/// How often the thread looks whether it has to end.
const TICK: Duration = Duration::from_millis(250);
/// The same where others note what arrives.
const QUIET_TICK: Duration = Duration::from_secs(1);
/// How often some lines are looked at before the parse stage checks for new frames.
const NOTES_MAX: usize = 8;
/// How often a stage that looks for lines by itself does so.
const NOTE_INTERVAL: Duration = Duration::from_secs(1);
/// How often the notes are written to disk, if they have changed.
const CHECKPOINT_INTERVAL: Duration = Duration::from_secs(1);

/// Programs of the configuration, and how those in AWK run.
#[derive(Clone, Debug)]
pub struct ProgramOptions {
    /// Folder whose files are programs; it need not exist.
    pub folder: PathBuf,
    /// The programs of `[[programs]]`.
    pub configured: Vec<Loaded>,
    /// The AWK; `None` for the best one of the machine.
    pub interpreter: Option<PathBuf>,
    /// Limits of each process.
    pub limits: Limits,
}

impl ProgramOptions {
    /// The defaults, for the programs of a folder.
    pub fn in_folder(folder: PathBuf) -> ProgramOptions {
        ProgramOptions {
            folder,
            configured: Vec::new(),
            interpreter: None,
            // The lowest priority: a machine at full load takes lines first.
            limits: Limits { nice: 19, ..Limits::default() },
        }
    }
}

/// The stage of programs.
pub struct ProgramStage {
    stages: Arc<Stages>,
    notes: Arc<dyn Notes>,
    parsers: Arc<Parsers>,
    clock: Arc<dyn Clock>,
    keep: Arc<dyn Documents>,
    engine: Arc<Engine>,
    writer: Arc<RowWriter>,
    runs: KeptReruns,
    registry: Registry,
    noted: Mutex<Progress>,
}

/// Up to where lines were noted, and what of it is on disk.
struct Progress {
    cursor: Option<String>,
    /// When the last of these lines arrived, nanoseconds since 1970 UTC.
    received_ns: i64,
    written: Checkpoint,
    written_at: Option<Instant>,
    /// The last error of reading or writing, which is logged once.
    error: Option<String>,
}

/// What the stage is made of, besides the stores that programs read and write.
pub struct Parts<'a> {
    /// Signals of all stages.
    pub stages: &'a Arc<Stages>,
    /// The time.
    pub clock: &'a Arc<dyn Clock>,
    /// Parsers of frames.
    pub parsers: &'a Arc<Parsers>,
    /// The lines that programs read.
    pub lines: QueriedLines,
    /// Tells of new lines.
    pub notes: Arc<dyn Notes>,
    /// Receives the rows.
    pub rows: Arc<dyn RowStore>,
    /// The memory of queries.
    pub memory: &'a Arc<Budget>,
    /// Limits of queries.
    pub query_limits: query::Limits,
    /// Keeps what is pending, and the list of runs.
    pub keep: Arc<dyn Documents>,
    /// Keeps the programs that are saved over the API.
    pub folder: Arc<dyn Documents>,
    /// How long a bucket waits for lines that are a little late, seconds.
    pub delay_s: u64,
    /// `[awk]` and `[[programs]]`.
    pub options: &'a ProgramOptions,
}

impl ProgramStage {
    /// Opens the programs and starts those that are enabled.
    pub fn open(parts: Parts<'_>) -> Result<ProgramStage> {
        let checkpoint = Checkpoint::open(&*parts.keep)?;
        let runs = KeptReruns::open(Arc::clone(&parts.keep), PROGRAM_RUNS_FILE)?;
        let launcher = Launcher::new(Helper::own_binary(SANDBOX_COMMAND))
            .context("cannot start the thread that starts programs")?;
        let options = parts.options;
        let interpreter = match &options.interpreter {
            Some(path) => Interpreter::at(path),
            None => Interpreter::find(&Interpreter::system_folders()),
        };
        let engine = Arc::new(Engine::new(
            parts.lines,
            Arc::clone(parts.memory),
            launcher,
            interpreter,
            options.limits.clone(),
            parts.query_limits,
        ));
        let writer =
            Arc::new(RowWriter::new(parts.rows, Arc::clone(parts.clock), checkpoint.revision));
        // Lines that come from here on are noted, also after a crash before the first tick.
        let cursor = match checkpoint.cursor.clone() {
            Some(cursor) => cursor,
            None => parts.notes.now().map_err(anyhow::Error::msg)?,
        };
        let registry = Registry::open(
            (Arc::clone(&engine), Arc::clone(&writer), Arc::clone(parts.clock)),
            Arc::clone(parts.stages),
            parts.delay_s,
            parts.folder,
            options.configured.clone(),
            checkpoint.disabled.clone(),
            checkpoint.pending.clone(),
        );
        let noted = Progress {
            cursor: Some(cursor),
            received_ns: parts.clock.now_ns(),
            written: checkpoint,
            written_at: None,
            error: None,
        };
        let stage = ProgramStage {
            stages: Arc::clone(parts.stages),
            notes: parts.notes,
            parsers: Arc::clone(parts.parsers),
            clock: Arc::clone(parts.clock),
            keep: parts.keep,
            engine,
            writer,
            runs,
            registry,
            noted: Mutex::new(noted),
        };
        stage.write_checkpoint(Duration::ZERO);
        Ok(stage)
    }

    /// Changes the programs. Lines that come behind the change are noted, also after a crash.
    pub fn change<T>(
        &self,
        work: impl FnOnce(&Registry) -> Result<T, ChangeError>,
    ) -> Result<T, ChangeError> {
        if self.registry.runners().is_empty() {
            self.begin_now().map_err(|text| ChangeError::Folder(std::io::Error::other(text)))?;
        }
        let changed = work(&self.registry)?;
        self.write_checkpoint(Duration::ZERO);
        Ok(changed)
    }

    /// Sets the cursor behind all lines.
    fn begin_now(&self) -> Result<(), String> {
        let now = self.notes.now()?;
        lock(&self.noted).cursor = Some(now);
        Ok(())
    }

    /// Sets the cursor behind all lines, which no program gets; one that was made meanwhile began
    /// at a cursor of its own.
    fn pass_over(&self) -> Result<(), String> {
        let now = self.notes.now()?;
        let mut noted = lock(&self.noted);
        if noted.cursor.is_none() || self.registry.runners().is_empty() {
            noted.cursor = Some(now);
        }
        Ok(())
    }

    /// The programs.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Runs programs on lines of the store.
    pub fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// Writes the notes until the stages are stopped; also notes lines, if nobody else does.
    fn run(&self, notes_itself: bool) {
        self.stages.run("programs", || {
            let mut noted: Option<Instant> = None;
            while !self.stages.is_stopped() {
                if notes_itself && noted.is_none_or(|at| at.elapsed() >= NOTE_INTERVAL) {
                    noted = Some(Instant::now());
                    self.note_arrivals();
                }
                self.write_checkpoint(CHECKPOINT_INTERVAL);
                self.stages.sleep(if notes_itself { TICK } else { QUIET_TICK });
            }
        });
    }

    /// Ends the programs; what is pending is computed after the next start.
    pub fn close(&self) {
        self.registry.close();
        self.write_checkpoint(Duration::ZERO);
        self.writer.close();
    }

    /// Lines that have arrived and were not noted; an upper bound.
    pub fn lag_frames(&self) -> u64 {
        let cursor = lock(&self.noted).cursor.clone();
        cursor.map_or(0, |cursor| self.notes.frames_left(&cursor))
    }

    /// How long ago the lines arrived behind which nothing was noted, nanoseconds; 0 if all were.
    pub fn arrival_lag_ns(&self) -> i64 {
        match self.lag_frames() {
            0 => 0,
            _ => self.clock.now_ns().saturating_sub(lock(&self.noted).received_ns).max(0),
        }
    }

    /// Notes the lines that arrived since the last call: mostly hot ones that were just parsed, or
    /// sealed ones after a start.
    pub fn note_arrivals(&self) {
        // New frames wait to be parsed meanwhile, so the rest is left to the next call.
        for _ in 0..NOTES_MAX {
            if !self.note_some() {
                return;
            }
        }
    }

    /// Notes some lines; returns whether there were any.
    fn note_some(&self) -> bool {
        if !self.registry.is_read() {
            return false;
        }
        let runners = self.registry.runners();
        let cursor = lock(&self.noted).cursor.clone();
        // A program gets the lines that come after it was made.
        let Some(cursor) = cursor.filter(|_| !runners.is_empty()) else {
            let begun = self.pass_over();
            self.note_error(begun.err().map(|error| format!("programs: {error}")));
            return false;
        };
        let Noted { seconds, seconds_of_any, received_ns, next, skipped } =
            match self.notes.after(&cursor) {
                Ok(Some(noted)) => noted,
                Ok(None) => return false,
                Err(error) => {
                    self.note_error(Some(format!("programs: lines cannot be read: {error}")));
                    return false;
                }
            };
        if skipped > 0 {
            tracing::warn!(
                "programs: at most {skipped} lines up to {next} were deleted by retention before they were read"
            );
        }
        for (log_type, seconds) in seconds {
            for runner in runners.iter().filter(|r| r.compiled.wants_type(&log_type)) {
                runner.note(seconds.iter().copied());
            }
        }
        if !seconds_of_any.is_empty() {
            runners.iter().for_each(|runner| runner.note(seconds_of_any.iter().copied()));
        }
        // A program that was changed meanwhile has another runner. It took over what the one before
        // had noted then, which may not be these lines: they are read again.
        if !is_same(&runners, &self.registry.runners()) {
            return true;
        }
        let mut noted = lock(&self.noted);
        noted.cursor = Some(next);
        noted.received_ns = received_ns.unwrap_or(noted.received_ns);
        true
    }

    fn write_checkpoint(&self, interval: Duration) {
        // Before what is pending is looked at: what goes away meanwhile is computed once more.
        let mut noted = lock(&self.noted);
        if noted.written_at.is_some_and(|at| at.elapsed() < interval) {
            return;
        }
        // Programs that are not known yet have buckets to compute.
        if !self.registry.is_read() {
            return;
        }
        let runners = self.registry.runners();
        if runners.is_empty() && noted.written == Checkpoint::default() {
            return;
        }
        let pending =
            |runner: &Arc<Runner>| (runner.compiled.definition.name.clone(), runner.pending_ns());
        let checkpoint = Checkpoint {
            version: Version,
            cursor: noted.cursor.clone(),
            disabled: self.registry.disabled(),
            revision: self.writer.last_revision(),
            pending: runners.iter().map(pending).filter(|(_, ranges)| !ranges.is_empty()).collect(),
        };
        if checkpoint == noted.written {
            return;
        }
        noted.written_at = Some(Instant::now());
        match checkpoint.write(&*self.keep) {
            Ok(()) => noted.written = checkpoint,
            Err(error) => {
                let error = format!("programs: their state cannot be written: {error}");
                drop(noted);
                self.note_error(Some(error));
                return;
            }
        }
        drop(noted);
        self.note_error(None);
    }

    fn note_error(&self, error: Option<String>) {
        let mut noted = lock(&self.noted);
        if let Some(error) = error.as_ref().filter(|error| noted.error.as_ref() != Some(*error)) {
            tracing::error!("{error}");
        }
        noted.error = error;
    }

    /// Sample lines as records.
    pub fn parse_sample<'l>(
        &self,
        log_type: Option<&str>,
        lines: impl IntoIterator<Item = &'l [u8]>,
        now_ns: i64,
    ) -> Option<Arc<Batch>> {
        self.parsers.with(|parser| trial::parse(parser, log_type, lines, now_ns))
    }

    /// The rows of a program whose buckets begin in the range of `context`: those that count.
    pub fn rows(
        &self,
        name: &str,
        context: &Context,
        rows_max: usize,
    ) -> Result<FoundRows, RunError> {
        let completed = Completed::of(name, &self.runs.list());
        rows::read(&*self.engine.source(), context, (name, &completed), rows_max)
    }

    /// The completed runs over past intervals, of all programs.
    pub fn runs(&self) -> programs::summary::Reruns {
        self.runs.list()
    }

    /// Computes a past interval again; blocks.
    pub fn rerun(
        &self,
        compiled: &Compiled,
        range: TimeRange,
        context: &Context,
        check: &dyn Fn() -> Result<(), RunError>,
    ) -> Result<runs::Done, RerunError> {
        runs::run(&self.run_context(context, check), compiled, range)
    }

    /// The same without storing anything; blocks.
    pub fn try_rerun(
        &self,
        compiled: &Compiled,
        range: TimeRange,
        context: &Context,
        check: &dyn Fn() -> Result<(), RunError>,
        rows_max: usize,
    ) -> Result<runs::Tried, RerunError> {
        runs::try_out(&self.run_context(context, check), compiled, range, rows_max)
    }

    fn run_context<'a>(
        &'a self,
        context: &'a Context,
        check: &'a dyn Fn() -> Result<(), RunError>,
    ) -> RunContext<'a> {
        RunContext { engine: &self.engine, writer: &self.writer, kept: &self.runs, context, check }
    }
}

fn is_same(before: &[Arc<Runner>], now: &[Arc<Runner>]) -> bool {
    let mut pairs = before.iter().zip(now);
    before.len() == now.len() && pairs.all(|(before, now)| Arc::ptr_eq(before, now))
}

/// The thread of the stage. It notes lines itself where no stage is told of new ones.
pub fn start(stage: &Arc<ProgramStage>, notes_itself: bool) -> Result<StageThread> {
    let stage = Arc::clone(stage);
    StageThread::start("programs", move || stage.run(notes_itself))
}

#[cfg(test)]
mod tests;
