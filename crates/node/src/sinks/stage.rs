//! The sinks that run: each reads the store on a thread of its own and hands documents to the
//! thread that delivers them. After a panic of either thread the sink begins anew behind what was
//! acknowledged.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use platform::Clock;
use platform::pauses::PANIC_PAUSE;
use platform::placement::Role;
use sinks::{Batch, Destination, Fault, FileRejects, NotTaken, Phase, Runner, RunnerParts, State};
use text::terminal::escaped;

use super::config::{Of, SinkOptions};
use super::cursor_file::CursorFile;
use super::feed::Feed;
use super::lines::LineFeed;
use super::queries::{Queried, QueryFeed};
use super::rejected::{RejectedDocuments, SharedRejects, documents};
use super::rows::RowFeed;
use crate::data_dir::Documents;
use crate::process::lasting::{Lasting, News};
use crate::process::stages::{StageThread, Stages, lock};
use crate::programs::stage::ProgramStage;
use crate::storage::arrivals::Arrivals;

/// How often a sink looks for new documents, and whether it has to end.
const TICK: Duration = Duration::from_millis(250);
/// Rejected documents that are delivered again in one batch.
const REDELIVERED_MAX: usize = 500;
/// How often the cursor is written.
const CURSOR_INTERVAL: Duration = Duration::from_secs(1);
/// The pause after an error of reading, or of making the destination.
const ERROR_PAUSE: Duration = Duration::from_secs(5);

/// What sinks read.
#[derive(Clone)]
pub struct SinkSources {
    /// New lines, for one sink.
    pub arrivals: Arc<dyn Fn() -> Arc<dyn Arrivals> + Send + Sync>,
    /// Programs, for their rows.
    pub programs: Arc<ProgramStage>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Keeps the cursors.
    pub cursors: Arc<dyn Documents>,
    /// Keeps the documents that destinations reject.
    pub rejected: Arc<RejectedDocuments>,
    /// Signals of all stages.
    pub stages: Arc<Stages>,
}

/// All sinks.
pub struct SinkStage {
    sinks: Vec<(Arc<RunningSink>, StageThread)>,
}

/// A sink that runs.
struct RunningSink {
    options: SinkOptions,
    makers: Makers,
    /// Keeps the cursors.
    cursors: Arc<dyn Documents>,
    /// Keeps the documents that the destination rejects.
    rejects: Arc<Mutex<FileRejects>>,
    clock: Arc<dyn Clock>,
    stages: Arc<Stages>,
    stopped: Arc<AtomicBool>,
    /// What the thread begins with; `None` once it has it, or if it could not be opened yet.
    begun: Mutex<Option<Begun>>,
    /// `None` while the destination cannot be made, and after the end.
    runner: Mutex<Option<Runner>>,
    seen: Mutex<Seen>,
    /// The cursor of the last batch that was delivered as a whole.
    acknowledged: Arc<Mutex<Option<String>>>,
    /// Whether the rejected documents are to be delivered again.
    redelivers: AtomicBool,
}

type MakeFeed = dyn Fn(Option<&str>) -> Result<Box<dyn Feed>, String> + Send + Sync;
type MakeDestination = dyn Fn() -> Result<Box<dyn Destination>, Fault> + Send + Sync;

/// Make what a sink has anew whenever it begins.
struct Makers {
    /// A feed behind a cursor.
    feed: Box<MakeFeed>,
    destination: Box<MakeDestination>,
}

/// What a sink begins with.
struct Begun {
    file: CursorFile,
    /// The cursor of the file.
    written: String,
    feed: Box<dyn Feed>,
    /// The cursor behind which the feed begins.
    cursor: String,
}

/// What the thread of a sink knows while it reads.
struct Progress {
    file: CursorFile,
    /// The cursor of the file.
    written: String,
    /// When writing it was tried last.
    tried: Instant,
    /// What the log said of the destination.
    delivering: Lasting,
    /// What the log said of the file.
    writing: Lasting,
}

/// Why a sink reads no further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    /// It was told to.
    Stopped,
    /// A bug ended the thread that delivers. What that had is to be read again.
    ByBug,
}

/// What a sink tells besides what its runner does.
#[derive(Clone, Debug, Default)]
struct Seen {
    /// Frames that were not read yet, about.
    frames_left: u64,
    /// Whether it has read all that there was at some time.
    has_caught_up: bool,
    /// Why the sink cannot read, or cannot begin.
    error: Option<String>,
    /// Why its cursor cannot be written.
    cursor_error: Option<String>,
    /// What the runners that have ended counted, and the state of the last one.
    last: State,
}

/// What a sink is doing.
pub struct Told {
    /// Its name.
    pub name: String,
    /// The kind of destination.
    pub kind: &'static str,
    /// What goes there: `rows`, `lines` or `query`.
    pub of: &'static str,
    /// A word for it.
    pub state: &'static str,
    /// What the runner tells.
    pub runner: State,
    /// Frames that were not read yet, about.
    pub frames_left: u64,
    /// Why the sink cannot read, cannot begin, or cannot write its cursor.
    pub error: Option<String>,
}

impl SinkStage {
    /// Starts all sinks.
    pub fn start(options: &[SinkOptions], sources: &SinkSources) -> anyhow::Result<SinkStage> {
        let mut stage = SinkStage { sinks: Vec::new() };
        for options in options {
            let stopped = Arc::<AtomicBool>::default();
            let makers = Makers::of(options, sources, &stopped);
            let sink = Arc::new(RunningSink::new(options, sources.keeping(), makers, stopped));
            match sink.begin() {
                Ok(begun) => *lock(&sink.begun) = Some(begun),
                Err(error) => sink.note_error(Some(error)),
            }
            let run = Arc::clone(&sink);
            let name = format!("feed-{}", options.sink.name);
            let stages = Arc::clone(&sources.stages);
            let thread = StageThread::start_as(Role::Query, &name.clone(), move || {
                stages.run(&name, || run.run())
            });
            stage.sinks.push((sink, thread?));
        }
        Ok(stage)
    }

    /// What all sinks are doing, in the order of the configuration.
    pub fn told(&self) -> Vec<Told> {
        self.sinks.iter().map(|(sink, _)| sink.told()).collect()
    }

    /// Has the rejected documents of a sink delivered again, as soon as it takes some; false if
    /// there is no such sink.
    pub fn redeliver(&self, name: &str) -> bool {
        let sink = self.sinks.iter().find(|(sink, _)| sink.options.sink.name == name);
        sink.map(|(sink, _)| sink.redelivers.store(true, Relaxed)).is_some()
    }

    /// Ends all sinks after the requests that are under way. What was not delivered is delivered
    /// after the next start.
    pub fn close(&self) {
        for (sink, _) in &self.sinks {
            sink.stopped.store(true, Relaxed);
        }
        for (_, thread) in &self.sinks {
            thread.join();
        }
    }
}

impl SinkSources {
    fn keeping(&self) -> Keeping<'_> {
        let SinkSources { cursors, rejected, clock, stages, .. } = self;
        Keeping { cursors, rejected, clock, stages }
    }
}

/// What a sink needs besides its makers.
struct Keeping<'a> {
    cursors: &'a Arc<dyn Documents>,
    rejected: &'a RejectedDocuments,
    clock: &'a Arc<dyn Clock>,
    stages: &'a Arc<Stages>,
}

impl Makers {
    fn of(options: &SinkOptions, sources: &SinkSources, stopped: &Arc<AtomicBool>) -> Makers {
        let SinkSources { arrivals, programs, clock, .. } = sources.clone();
        let (of, beginning) = (options.of.clone(), options.from_beginning);
        let stopped = Arc::clone(stopped);
        let feed = move |cursor: Option<&str>| -> Result<Box<dyn Feed>, String> {
            let stopped = Arc::clone(&stopped);
            Ok(match &of {
                Of::Lines(filter) => {
                    Box::new(LineFeed::new(arrivals(), filter, cursor, beginning)?)
                }
                Of::Rows(names) => {
                    let programs = Arc::clone(&programs);
                    Box::new(RowFeed::new(arrivals(), programs, names, cursor, beginning, stopped)?)
                }
                Of::Query { query, every, delay } => {
                    let queried: Arc<dyn Queried> = Arc::clone(programs.engine()) as _;
                    let from = (queried, Arc::clone(&clock));
                    Box::new(QueryFeed::new(from, query, (*every, *delay), cursor, stopped)?)
                }
            })
        };
        let sink = options.sink.clone();
        Makers { feed: Box::new(feed), destination: Box::new(move || sink.destination()) }
    }
}

impl RunningSink {
    fn new(
        options: &SinkOptions,
        keeping: Keeping<'_>,
        makers: Makers,
        stopped: Arc<AtomicBool>,
    ) -> RunningSink {
        let rejects = keeping.rejected.of(&options.sink.name);
        RunningSink {
            options: options.clone(),
            makers,
            cursors: Arc::clone(keeping.cursors),
            rejects: Arc::clone(rejects.expect("each sink has a place there")),
            clock: Arc::clone(keeping.clock),
            stages: Arc::clone(keeping.stages),
            stopped,
            begun: Mutex::default(),
            runner: Mutex::default(),
            seen: Mutex::default(),
            acknowledged: Arc::default(),
            redelivers: AtomicBool::new(false),
        }
    }

    fn told(&self) -> Told {
        let seen = lock(&self.seen).clone();
        let runner = lock(&self.runner).as_ref().map(Runner::state);
        let error = seen.error.or(seen.cursor_error);
        let state = match (&runner, &error) {
            (_, Some(_)) => "failing",
            (None, None) => "stopped",
            (Some(state), None) => match state.phase {
                Phase::Idle if seen.has_caught_up => "idle",
                Phase::Idle => "delivering",
                Phase::Sending if state.failures_in_a_row == 0 => "delivering",
                Phase::Sending | Phase::Waiting { .. } => "retrying",
                Phase::Ended => "stopped",
            },
        };
        Told {
            name: self.options.sink.name.clone(),
            kind: self.options.kind,
            of: self.options.of.name(),
            state,
            runner: match runner {
                Some(state) => summed(state, &seen.last),
                None => seen.last,
            },
            frames_left: seen.frames_left,
            error,
        }
    }

    /// Opens the cursor. A sink that is new gets one at once, so that lines that come from here on
    /// are delivered, also after a crash before the first delivery. After a panic the sink begins
    /// behind what was acknowledged, which may not be written.
    fn begin(&self) -> Result<Begun, String> {
        let file = CursorFile::new(&self.cursors, &self.options.sink.name);
        let written = file.read().map_err(|error| {
            format!("{} cannot be read: {error}; remove it to begin anew", file.place())
        })?;
        let cursor = lock(&self.acknowledged).clone().or_else(|| written.clone());
        let feed = (self.makers.feed)(cursor.as_deref())?;
        let cursor = cursor.unwrap_or_else(|| feed.cursor());
        let written = match written {
            Some(written) => written,
            None => {
                file.write(&cursor)
                    .map_err(|error| format!("its cursor cannot be written: {error}"))?;
                cursor.clone()
            }
        };
        Ok(Begun { file, written, feed, cursor })
    }

    /// Reads and hands on until the sink is stopped. If a bug ends the thread that delivers, the
    /// sink begins anew after a pause, as a stage that panicked does.
    fn run(&self) {
        while self.run_once() == Ended::ByBug {
            self.stages.note_panic();
            let pause_s = PANIC_PAUSE.as_secs();
            self.note_error(Some(format!(
                "a bug ended the thread that delivers, see the log; the sink begins anew in \
                 {pause_s} s behind what was delivered"
            )));
            self.sleep(PANIC_PAUSE);
        }
    }

    fn run_once(&self) -> Ended {
        // A panic of this thread left it; what it has is read again.
        self.end_runner();
        lock(&self.seen).has_caught_up = false;
        let begun = lock(&self.begun).take();
        let Some(begun) = begun.or_else(|| self.until_ok(|| self.begin())) else {
            return Ended::Stopped;
        };
        if self.until_ok(|| self.start_runner()).is_none() {
            return Ended::Stopped;
        }
        let Begun { file, written, mut feed, cursor } = begun;
        let mut progress = Progress {
            file,
            written,
            tried: Instant::now(),
            delivering: Lasting::default(),
            writing: Lasting::default(),
        };
        let ended = self.read_on(&mut *feed, cursor, &mut progress);
        self.end_runner();
        self.write_cursor(&mut progress, Duration::ZERO);
        ended
    }

    /// Reads and hands on. `taken` is the cursor of the last batch that the runner took.
    fn read_on(&self, feed: &mut dyn Feed, mut taken: String, progress: &mut Progress) -> Ended {
        while !self.stopped.load(Relaxed) {
            // It may end while there is nothing to hand on.
            if let Err(ended) = self.runner_state() {
                return ended;
            }
            if self.redelivers.swap(false, Relaxed)
                && let Err(ended) = self.redeliver(&taken, progress)
            {
                if ended == Ended::ByBug {
                    let name = &self.options.sink.name;
                    tracing::error!(
                        "sink {name}: not all rejected documents were delivered again; ask for it \
                         once more"
                    );
                }
                return ended;
            }
            let next = feed.next();
            lock(&self.seen).frames_left = feed.frames_left();
            match next {
                Ok(Some(documents)) => {
                    self.note_error(None);
                    let cursor = documents.cursor.clone();
                    if let Err(ended) = self.hand_on(documents, progress) {
                        return ended;
                    }
                    taken = cursor;
                }
                Ok(None) => {
                    self.note_error(None);
                    lock(&self.seen).has_caught_up = true;
                    std::thread::sleep(TICK);
                }
                Err(error) => {
                    self.note_error(Some(error));
                    self.sleep(ERROR_PAUSE);
                }
            }
            self.note_delivery(progress);
            self.write_cursor(progress, CURSOR_INTERVAL);
        }
        Ended::Stopped
    }

    /// The state of the runner; an error if it has ended, which a bug alone makes it do before it
    /// is told to.
    fn runner_state(&self) -> Result<State, Ended> {
        let state = lock(&self.runner).as_ref().map(Runner::state);
        state.filter(|state| state.phase != Phase::Ended).ok_or(Ended::ByBug)
    }

    /// Ends the runner, if there is one, and keeps what it counted.
    fn end_runner(&self) {
        let runner = lock(&self.runner).take();
        if let Some(runner) = runner {
            let last = runner.stop();
            let mut seen = lock(&self.seen);
            seen.last = summed(last, &seen.last);
        }
    }

    /// Delivers the documents that were rejected so far again, file by file. A file is removed once
    /// the destination has taken its documents, or has rejected them once more: then they are in a
    /// new file. After a crash before that, some are delivered twice. `cursor`: that of the last
    /// batch, since these documents change nothing about where reading resumes.
    fn redeliver(&self, cursor: &str, progress: &mut Progress) -> Result<(), Ended> {
        let name = &self.options.sink.name;
        let frozen = lock(&self.rejects).frozen(self.clock.now_ns());
        let files = match frozen {
            Ok(files) => files,
            Err(error) => {
                tracing::error!("sink {name}: rejected documents are not delivered again: {error}");
                return Ok(());
            }
        };
        for path in files {
            let documents = match documents(&path) {
                Ok(documents) => documents,
                Err(error) => {
                    tracing::error!("sink {name}: {error}");
                    continue;
                }
            };
            for some in documents.chunks(REDELIVERED_MAX) {
                let batch = Batch { documents: some.to_vec(), cursor: cursor.to_owned() };
                self.hand_on(batch, progress)?;
            }
            while self.runner_state()?.waiting_documents > 0 {
                if self.stopped.load(Relaxed) {
                    return Err(Ended::Stopped);
                }
                self.note_delivery(progress);
                self.write_cursor(progress, CURSOR_INTERVAL);
                std::thread::sleep(TICK / 5);
            }
            if let Err(error) = lock(&self.rejects).remove(&path) {
                tracing::error!("sink {name}: {} stays: {error}", path.display());
            }
        }
        Ok(())
    }

    /// Submits documents as soon as there is room. After an error the runner does not have them.
    fn hand_on(&self, documents: Batch, progress: &mut Progress) -> Result<(), Ended> {
        let mut waiting = documents;
        while !self.stopped.load(Relaxed) {
            let offered = match &*lock(&self.runner) {
                Some(runner) => runner.offer(waiting),
                None => return Err(Ended::ByBug),
            };
            waiting = match offered {
                Ok(()) => return Ok(()),
                Err(NotTaken::Full(documents)) => documents,
                Err(NotTaken::Closed(_)) => return Err(Ended::ByBug),
            };
            self.note_delivery(progress);
            self.write_cursor(progress, CURSOR_INTERVAL);
            std::thread::sleep(TICK / 5);
        }
        Err(Ended::Stopped)
    }

    fn start_runner(&self) -> Result<(), String> {
        let sink = &self.options.sink;
        let destination = (self.makers.destination)().map_err(|fault| fault.to_string())?;
        let path = lock(&self.rejects).path().to_owned();
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)
                .map_err(|error| format!("{} cannot be made: {error}", folder.display()))?;
        }
        if let Err(error) = platform::check_regular(&path)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            return Err(format!("{} cannot be written: {error}", path.display()));
        }
        let rejects = SharedRejects(Arc::clone(&self.rejects));
        let acknowledged = Arc::clone(&self.acknowledged);
        let parts = RunnerParts::new(destination, Box::new(rejects), move |cursor: &str| {
            *lock(&acknowledged) = Some(cursor.to_owned());
        });
        let runner = Runner::start(&sink.name, parts, sink.runner)
            .map_err(|error| format!("its thread cannot be started: {error}"))?;
        *lock(&self.runner) = Some(runner);
        Ok(())
    }

    fn write_cursor(&self, progress: &mut Progress, interval: Duration) {
        let acknowledged = lock(&self.acknowledged).clone();
        let Some(cursor) = acknowledged.filter(|cursor| *cursor != progress.written) else {
            return;
        };
        if progress.tried.elapsed() < interval {
            return;
        }
        progress.tried = Instant::now();
        let error = match progress.file.write(&cursor) {
            Ok(()) => {
                progress.written = cursor;
                None
            }
            Err(error) => Some(format!("its cursor cannot be written: {error}")),
        };
        let name = &self.options.sink.name;
        match progress.writing.note(error.clone()) {
            Some(News::Fails(reason)) => tracing::error!("sink {name}: {reason}"),
            Some(News::Works) => tracing::info!("sink {name}: its cursor is written again"),
            None => {}
        }
        lock(&self.seen).cursor_error = error;
    }

    /// Calls `attempt` until it succeeds or the sink is stopped.
    fn until_ok<T>(&self, mut attempt: impl FnMut() -> Result<T, String>) -> Option<T> {
        while !self.stopped.load(Relaxed) {
            match attempt() {
                Ok(value) => {
                    self.note_error(None);
                    return Some(value);
                }
                Err(error) => {
                    self.note_error(Some(error));
                    self.sleep(ERROR_PAUSE);
                }
            }
        }
        None
    }

    /// Says in the log why the destination takes nothing, once for each reason.
    fn note_delivery(&self, progress: &mut Progress) {
        let Some(state) = lock(&self.runner).as_ref().map(Runner::state) else { return };
        let is_failing = state.failures_in_a_row > 0;
        let last = state.last_error.filter(|_| is_failing);
        let name = &self.options.sink.name;
        match progress.delivering.note(last.map(|last| last.fault.to_string())) {
            Some(News::Fails(reason)) => {
                tracing::warn!("sink {name} cannot deliver: {}", escaped(&reason));
            }
            Some(News::Works) => tracing::info!("sink {name} delivers again"),
            None => {}
        }
    }

    fn note_error(&self, error: Option<String>) {
        let mut seen = lock(&self.seen);
        if let Some(error) = error.as_ref().filter(|error| seen.error.as_ref() != Some(*error)) {
            tracing::error!("sink {}: {error}", self.options.sink.name);
        }
        seen.error = error;
    }

    fn sleep(&self, pause: Duration) {
        let begun = Instant::now();
        while begun.elapsed() < pause && !self.stopped.load(Relaxed) {
            std::thread::sleep(TICK);
        }
    }
}

/// The state of a runner, with what the runners of the same sink before it counted.
fn summed(state: State, before: &State) -> State {
    State {
        batches: state.batches + before.batches,
        requests: state.requests + before.requests,
        accepted: state.accepted + before.accepted,
        accepted_bytes: state.accepted_bytes + before.accepted_bytes,
        ignored: state.ignored + before.ignored,
        rejected: state.rejected + before.rejected,
        // The store of rejected documents outlives runners.
        rejected_dropped: state.rejected_dropped.max(before.rejected_dropped),
        retries: state.retries + before.retries,
        last_error: state.last_error.or_else(|| before.last_error.clone()),
        cursor: state.cursor.or_else(|| before.cursor.clone()),
        ..state
    }
}

#[cfg(test)]
mod tests;
