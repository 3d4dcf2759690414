//! The sinks that run: each reads the store on a thread of its own and hands documents to the
//! thread that delivers them.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use platform::Clock;
use platform::placement::Role;
use sinks::{Batch, NotTaken, Phase, Runner, RunnerParts, State};
use text::terminal::escaped;

use super::config::{Of, SinkOptions};
use super::cursor_file::CursorFile;
use super::feed::Feed;
use super::lines::LineFeed;
use super::queries::QueryFeed;
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
pub struct RunningSink {
    options: SinkOptions,
    sources: SinkSources,
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

/// What a sink begins with.
struct Begun {
    file: CursorFile,
    feed: Box<dyn Feed>,
    cursor: String,
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
    /// The state at the end of the runner.
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
    /// Why the sink cannot read, or cannot begin.
    pub error: Option<String>,
}

impl SinkStage {
    /// Starts all sinks.
    pub fn start(options: &[SinkOptions], sources: &SinkSources) -> anyhow::Result<SinkStage> {
        let mut stage = SinkStage { sinks: Vec::new() };
        for options in options {
            let sink = Arc::new(RunningSink {
                options: options.clone(),
                sources: sources.clone(),
                stopped: Arc::default(),
                begun: Mutex::default(),
                runner: Mutex::default(),
                seen: Mutex::default(),
                acknowledged: Arc::default(),
                redelivers: AtomicBool::new(false),
            });
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

impl RunningSink {
    fn told(&self) -> Told {
        let seen = lock(&self.seen).clone();
        let runner = lock(&self.runner).as_ref().map(Runner::state);
        let state = match (&runner, &seen.error) {
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
            runner: runner.unwrap_or(seen.last),
            frames_left: seen.frames_left,
            error: seen.error,
        }
    }

    /// Opens the cursor. A sink that is new gets one at once, so that lines that come from here on
    /// are delivered, also after a crash before the first delivery.
    fn begin(&self) -> Result<Begun, String> {
        let name = &self.options.sink.name;
        let file = CursorFile::new(&self.sources.cursors, name);
        let written = file.read().map_err(|error| {
            format!("{} cannot be read: {error}; remove it to begin anew", file.place())
        })?;
        let feed = self.feed(written.as_deref())?;
        let cursor = match written {
            Some(cursor) => cursor,
            None => {
                let cursor = feed.cursor();
                file.write(&cursor)
                    .map_err(|error| format!("its cursor cannot be written: {error}"))?;
                cursor
            }
        };
        Ok(Begun { file, feed, cursor })
    }

    /// Reads and hands on until the sink is stopped.
    fn run(&self) {
        let begun = lock(&self.begun).take();
        let Some(Begun { file, mut feed, cursor }) =
            begun.or_else(|| self.until_ok(|| self.begin()))
        else {
            return;
        };
        if self.until_ok(|| self.start_runner()).is_none() {
            return;
        }
        // The cursor of the last batch that the runner took.
        let mut taken = cursor.clone();
        let mut written = (Some(cursor), Instant::now());
        let mut lasting = Lasting::default();
        while !self.stopped.load(Relaxed) {
            if self.redelivers.swap(false, Relaxed) {
                self.redeliver(&taken, &file, &mut written, &mut lasting);
            }
            let next = feed.next();
            lock(&self.seen).frames_left = feed.frames_left();
            match next {
                Ok(Some(documents)) => {
                    let cursor = documents.cursor.clone();
                    if self.hand_on(documents, &file, &mut written, &mut lasting) {
                        taken = cursor;
                    }
                }
                Ok(None) => {
                    lock(&self.seen).has_caught_up = true;
                    std::thread::sleep(TICK);
                }
                Err(error) => {
                    self.note_error(Some(error));
                    self.sleep(ERROR_PAUSE);
                    continue;
                }
            }
            self.note_error(None);
            self.note_delivery(&mut lasting);
            self.write_cursor(&file, &mut written, CURSOR_INTERVAL);
        }
        let runner = lock(&self.runner).take();
        if let Some(runner) = runner {
            lock(&self.seen).last = runner.stop();
        }
        self.write_cursor(&file, &mut written, Duration::ZERO);
    }

    /// Delivers the documents that were rejected so far again, file by file. A file is removed once
    /// the destination has taken its documents, or has rejected them once more: then they are in a
    /// new file. After a crash before that, some are delivered twice. `cursor`: that of the last
    /// batch, since these documents change nothing about where reading resumes.
    fn redeliver(
        &self,
        cursor: &str,
        file: &CursorFile,
        written: &mut (Option<String>, Instant),
        lasting: &mut Lasting,
    ) {
        let name = &self.options.sink.name;
        let rejects = self.sources.rejected.of(name).expect("each sink has a place there");
        let frozen = lock(rejects).frozen(self.sources.clock.now_ns());
        let files = match frozen {
            Ok(files) => files,
            Err(error) => {
                tracing::error!("sink {name}: rejected documents are not delivered again: {error}");
                return;
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
                if !self.hand_on(batch, file, written, lasting) {
                    return;
                }
            }
            // A runner that ended because of a bug leaves them waiting.
            while lock(&self.runner)
                .as_ref()
                .is_none_or(|runner| runner.state().waiting_documents > 0)
            {
                if self.stopped.load(Relaxed) {
                    return;
                }
                self.note_delivery(lasting);
                self.write_cursor(file, written, CURSOR_INTERVAL);
                std::thread::sleep(TICK / 5);
            }
            if let Err(error) = lock(rejects).remove(&path) {
                tracing::error!("sink {name}: {} stays: {error}", path.display());
            }
        }
    }

    /// Submits documents as soon as there is room; returns whether the runner has them.
    fn hand_on(
        &self,
        documents: Batch,
        file: &CursorFile,
        written: &mut (Option<String>, Instant),
        lasting: &mut Lasting,
    ) -> bool {
        let mut waiting = documents;
        while !self.stopped.load(Relaxed) {
            let offered = match &*lock(&self.runner) {
                Some(runner) => runner.offer(waiting),
                None => return false,
            };
            waiting = match offered {
                Ok(()) => return true,
                Err(NotTaken::Full(documents)) => documents,
                Err(NotTaken::Closed(_)) => {
                    // A bug ended the thread of the runner. What it had is read again.
                    self.note_error(Some("it ended because of a bug; see the log".to_owned()));
                    self.sleep(ERROR_PAUSE);
                    return false;
                }
            };
            self.note_delivery(lasting);
            self.write_cursor(file, written, CURSOR_INTERVAL);
            std::thread::sleep(TICK / 5);
        }
        false
    }

    fn feed(&self, cursor: Option<&str>) -> Result<Box<dyn Feed>, String> {
        let SinkSources { arrivals, programs, clock, .. } = &self.sources;
        let from = arrivals();
        let beginning = self.options.from_beginning;
        let stopped = Arc::clone(&self.stopped);
        Ok(match &self.options.of {
            Of::Lines(filter) => Box::new(LineFeed::new(from, filter, cursor, beginning)?),
            Of::Rows(names) => {
                let programs = Arc::clone(programs);
                Box::new(RowFeed::new(from, programs, names, cursor, beginning, stopped)?)
            }
            Of::Query { query, every, delay } => {
                let from = (Arc::clone(programs.engine()), Arc::clone(clock));
                Box::new(QueryFeed::new(from, query, (*every, *delay), cursor, stopped)?)
            }
        })
    }

    fn start_runner(&self) -> Result<(), String> {
        let sink = &self.options.sink;
        let destination = sink.destination().map_err(|fault| fault.to_string())?;
        let folder = self.sources.rejected.folder();
        std::fs::create_dir_all(folder)
            .map_err(|error| format!("{} cannot be made: {error}", folder.display()))?;
        let rejects = self.sources.rejected.of(&sink.name).expect("each sink has a place there");
        let path = lock(rejects).path().to_owned();
        if let Err(error) = platform::check_regular(&path)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            return Err(format!("{} cannot be written: {error}", path.display()));
        }
        let rejects = SharedRejects(Arc::clone(rejects));
        let acknowledged = Arc::clone(&self.acknowledged);
        let parts = RunnerParts::new(destination, Box::new(rejects), move |cursor: &str| {
            *lock(&acknowledged) = Some(cursor.to_owned());
        });
        let runner = Runner::start(&sink.name, parts, sink.runner)
            .map_err(|error| format!("its thread cannot be started: {error}"))?;
        *lock(&self.runner) = Some(runner);
        Ok(())
    }

    fn write_cursor(
        &self,
        file: &CursorFile,
        (written, at): &mut (Option<String>, Instant),
        interval: Duration,
    ) {
        let acknowledged = lock(&self.acknowledged).clone();
        if acknowledged.is_none() || acknowledged == *written || at.elapsed() < interval {
            return;
        }
        *at = Instant::now();
        match file.write(acknowledged.as_deref().unwrap_or_default()) {
            Ok(()) => *written = acknowledged,
            Err(error) => self.note_error(Some(format!("its cursor cannot be written: {error}"))),
        }
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
    fn note_delivery(&self, lasting: &mut Lasting) {
        let Some(state) = lock(&self.runner).as_ref().map(Runner::state) else { return };
        let is_failing = state.failures_in_a_row > 0;
        let last = state.last_error.filter(|_| is_failing);
        let name = &self.options.sink.name;
        match lasting.note(last.map(|last| last.fault.to_string())) {
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
