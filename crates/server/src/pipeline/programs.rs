//! The stage of programs: notes which buckets lines came of, in the order of arrival, and keeps the
//! notes on disk. The programs themselves run on threads of their own
//! ([`crate::programs::runner`]).
//!
//! The parse stage makes it note lines after every few frames ([`ProgramStage::note_arrivals`]),
//! for all programs behind one cursor. It looks at their types and times alone; filters are applied
//! when buckets are computed. A thread of its own writes the notes to disk ([`ProgramStage::run`]).

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use collector::Intake;
use platform::Clock;
use platform::memory::Budget;
use programs::{Helper, Interpreter, Launcher};
use query::source::TimeRange;
use query::{Context, RunError};
use record::Batch;
use store::{ArrivalCursor, FrameHandle, Store};

use super::stage::{StageThread, Stages, lock};
use crate::config::programs::ProgramOptions;
use crate::programs::checkpoint::Checkpoint;
use crate::programs::compiled::Compiled;
use crate::programs::compute::Engine;
use crate::programs::registry::{ChangeError, Registry};
use crate::programs::rows::{self, Completed, Found};
use crate::programs::runner::{RowWriter, Runner};
use crate::programs::runs::{self, RunContext};
use crate::programs::trial;
use crate::storage::PROGRAM_RUNS_FILE;
use crate::storage::stored::{Parsers, Stored};
use crate::summaries::reruns::{KeptReruns, RerunError};

/// The hidden subcommand that puts a process into its sandbox ([`programs::sandbox::main`]).
pub const SANDBOX_COMMAND: &str = "program-sandbox";
/// How often the thread looks whether it has to end.
const TICK: Duration = Duration::from_millis(250);
/// Bytes of lines that are looked at together, and how often that is repeated before the parse
/// stage checks for new frames.
const NOTE_BYTES: u64 = 8 << 20;
const NOTES_MAX: usize = 8;
/// How often the notes are written to disk, if they have changed.
const CHECKPOINT_INTERVAL: Duration = Duration::from_secs(1);

/// The stage of programs.
pub struct ProgramStage {
    stages: Arc<Stages>,
    store: Arc<Store>,
    parsers: Arc<Parsers>,
    clock: Arc<dyn Clock>,
    data_dir: PathBuf,
    engine: Arc<Engine>,
    writer: Arc<RowWriter>,
    runs: KeptReruns,
    registry: Registry,
    noted: Mutex<Noted>,
}

/// Up to where lines were noted, and what of it is on disk.
struct Noted {
    cursor: Option<ArrivalCursor>,
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
    /// The lines of the store.
    pub stored: Stored,
    /// The memory of queries.
    pub memory: &'a Arc<Budget>,
    /// Limits of queries.
    pub query_limits: query::Limits,
    /// The data directory.
    pub data_dir: PathBuf,
    /// How long a bucket waits for lines that are a little late, seconds.
    pub delay_s: u64,
    /// `[awk]` and `[[programs]]`.
    pub options: &'a ProgramOptions,
}

impl ProgramStage {
    /// Opens the programs and starts those that are enabled. `own` receives their rows.
    pub fn open(parts: Parts<'_>, store: Arc<Store>, own: Intake) -> Result<ProgramStage> {
        let checkpoint = Checkpoint::open(&parts.data_dir)?;
        let runs = KeptReruns::open(&parts.data_dir, PROGRAM_RUNS_FILE)?;
        let launcher = Launcher::new(Helper::own_binary(SANDBOX_COMMAND))
            .context("cannot start the thread that starts programs")?;
        let options = parts.options;
        let interpreter = match &options.interpreter {
            Some(path) => Interpreter::at(path),
            None => Interpreter::find(&Interpreter::system_folders()),
        };
        let engine = Arc::new(Engine::new(
            parts.stored,
            Arc::clone(parts.memory),
            launcher,
            interpreter,
            options.limits.clone(),
            parts.query_limits,
        ));
        let writer = Arc::new(RowWriter::new(own, Arc::clone(parts.clock)));
        let registry = Registry::open(
            (Arc::clone(&engine), Arc::clone(&writer), Arc::clone(parts.clock)),
            Arc::clone(parts.stages),
            parts.delay_s,
            options.folder.clone(),
            options.configured.clone(),
            checkpoint.disabled.clone(),
            &checkpoint.pending,
        );
        let noted = Noted {
            cursor: checkpoint.cursor,
            received_ns: parts.clock.now_ns(),
            written: checkpoint,
            written_at: None,
            error: None,
        };
        let stage = ProgramStage {
            stages: Arc::clone(parts.stages),
            store,
            parsers: Arc::clone(parts.parsers),
            clock: Arc::clone(parts.clock),
            data_dir: parts.data_dir,
            engine,
            writer,
            runs,
            registry,
            noted: Mutex::new(noted),
        };
        // Lines that come from here on are noted, also after a crash before the first tick.
        stage.begin_cursor();
        stage.write_checkpoint(Duration::ZERO);
        Ok(stage)
    }

    /// Changes the programs. Lines that come behind the change are noted, also after a crash.
    pub fn change<T>(
        &self,
        work: impl FnOnce(&Registry) -> Result<T, ChangeError>,
    ) -> Result<T, ChangeError> {
        if self.registry.runners().is_empty() {
            lock(&self.noted).cursor = Some(self.now());
        }
        let changed = work(&self.registry)?;
        self.write_checkpoint(Duration::ZERO);
        Ok(changed)
    }

    /// Sets the cursor to the present where there is none.
    fn begin_cursor(&self) {
        lock(&self.noted).cursor.get_or_insert_with(|| self.now());
    }

    /// The cursor behind all lines.
    fn now(&self) -> ArrivalCursor {
        ArrivalCursor { through: self.store.durable_now().through, ..self.store.first_arrival() }
    }

    /// The programs.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Runs programs on lines of the store.
    pub fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// Writes the notes until the stages are stopped.
    pub fn run(&self) {
        self.stages.run("programs", || {
            while !self.stages.is_stopped() {
                self.write_checkpoint(CHECKPOINT_INTERVAL);
                std::thread::sleep(TICK);
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
        let through = self.store.durable_now().through;
        let noted = lock(&self.noted).cursor.map_or(through, |cursor| cursor.through);
        through.saturating_sub(noted)
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
        let runners = self.registry.runners();
        let cursor = lock(&self.noted).cursor;
        // A program gets the lines that come after it was made.
        let Some(cursor) = cursor.filter(|_| !runners.is_empty()) else {
            lock(&self.noted).cursor = Some(self.now());
            return false;
        };
        let load = |handle: &FrameHandle| self.parsers.load_arrival(handle);
        let (arrivals, next) = match self.store.read_after(cursor, NOTE_BYTES, &load) {
            Ok(read) => read,
            Err(error) => {
                let error = format!("programs: lines cannot be read: {error}");
                self.note_error(Some(error));
                return false;
            }
        };
        if next == cursor {
            return false;
        }
        if arrivals.skipped > 0 {
            tracing::warn!(
                "programs: at most {} lines up to {next} were deleted by retention before they were read",
                arrivals.skipped
            );
        }
        for (log_type, seconds) in seconds_of(&arrivals.batches) {
            for runner in runners.iter().filter(|r| r.compiled.wants_type(&log_type)) {
                runner.note(seconds.iter().copied());
            }
        }
        let received = arrivals.batches.iter().filter_map(|batch| batch.received_max_ns()).max();
        let mut noted = lock(&self.noted);
        noted.cursor = Some(next);
        noted.received_ns = received.unwrap_or(noted.received_ns);
        true
    }

    fn write_checkpoint(&self, interval: Duration) {
        // Before what is pending is looked at: what goes away meanwhile is computed once more.
        let mut noted = lock(&self.noted);
        if noted.written_at.is_some_and(|at| at.elapsed() < interval) {
            return;
        }
        let runners = self.registry.runners();
        if runners.is_empty() && noted.written == Checkpoint::default() {
            return;
        }
        let pending =
            |runner: &Arc<Runner>| (runner.compiled.definition.name.clone(), runner.pending_ns());
        let checkpoint = Checkpoint {
            cursor: noted.cursor,
            disabled: self.registry.disabled(),
            pending: runners.iter().map(pending).filter(|(_, ranges)| !ranges.is_empty()).collect(),
        };
        if checkpoint == noted.written {
            return;
        }
        noted.written_at = Some(Instant::now());
        match checkpoint.write(&self.data_dir) {
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
    pub fn rows(&self, name: &str, context: &Context, rows_max: usize) -> Result<Found, RunError> {
        let completed = Completed::of(name, &self.runs.list());
        rows::read(self.engine.stored(), context, (name, &completed), rows_max)
    }

    /// The completed runs over past intervals, of all programs.
    pub fn runs(&self) -> summary::Reruns {
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

/// Event times in whole seconds, by type, of lines that were sent.
fn seconds_of(batches: &[Arc<Batch>]) -> BTreeMap<Vec<u8>, BTreeSet<i64>> {
    let mut found: BTreeMap<Vec<u8>, BTreeSet<i64>> = BTreeMap::new();
    for batch in batches.iter().filter(|batch| !batch.is_internal()) {
        let Some(type_id) = batch.field_id("_type") else { continue };
        let mut last: Option<(&[u8], i64)> = None;
        for row in batch.rows() {
            let log_type = row.get(type_id).unwrap_or_default();
            let second = row.time_ns().div_euclid(1_000_000_000);
            if last.replace((log_type, second)) == Some((log_type, second)) {
                continue;
            }
            match found.get_mut(log_type) {
                Some(seconds) => {
                    seconds.insert(second);
                }
                None => {
                    found.insert(log_type.to_vec(), [second].into());
                }
            }
        }
    }
    found
}

/// The thread of the stage.
pub fn start(stage: &Arc<ProgramStage>) -> Result<StageThread> {
    let stage = Arc::clone(stage);
    StageThread::start("programs", move || stage.run())
}
