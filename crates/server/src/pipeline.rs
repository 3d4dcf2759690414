//! The way of a line and of a question, wired in order: the place to start reading.
//!
//! ```text
//! line → source → frame → deliver → hot segment (durable) → parse once → { cache, times, summary, tail }
//!        └── collector ──┘ Delivery  └── store ──────────┘  └── parse stage, here ─────────────────────┘
//!                                      behind a cursor of its own, hot or sealed: summary → rows → own intake → deliver → …
//!                                                 settled: parsed → sealed segment → merged, encoded again
//!                                                                   └── store, with Upkeep ────────────┘
//! question → http → queue of queries → snapshot of the store → frames or blocks, parsed once or now → rows → http
//!                   └── query ──────┘  └── Stored ─────────────────────────────────────────┘
//! ```
//!
//! Threads: one for each source (started in [`crate::ingest::sources`]) and each intake
//! (collector), one writer and two that seal in turn (store), the parse stage and the summary stage
//! (here), one for each running query (`http::select`).
//!
//! Invariants:
//! - The parse stage sees frames in the order of the store, each once; nobody waits for it: a query
//!   parses what it has not come to, and senders are acknowledged before it.
//! - Lines are counted once across crashes: the summary reads in the order of arrival, whatever is
//!   sealed meanwhile; a flush carries the mark of the frame up to which it counts, and after a
//!   start counting goes on behind the greatest such mark (see crate `summary`).
//! - At shutdown the order is that of the line: sources, then what is on its way, then the summary,
//!   then the store.
//! - What is sealed is settled, that is parsed. It waits for nobody who reads lines later, with a
//!   cursor.
//! - A stage that panics is told and counted, and goes on: without it nothing would be sealed until
//!   the next start. At shutdown it ends, and what it left is done after the next start.
//!
//! Left out: retention and sealing, which the store does by itself; [`Upkeep`] tells it what is in
//! a line.

mod unreadable;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use collector::node::{CollectorStatus, NodeListener};
use collector::{
    Accounting, Credentials, Deliver, DeliverError, FRAME_AGE_AWAITED_MS, FileSource, Intake,
    JournalSource, SourceKind,
};
use platform::memory::Budget;
use platform::placement::{self, Role};
use platform::{Clock, RealClock, RealDisk};
use query::source::Answers;
use query::{LineSet, Progress, RunError};
use record::{Batch, Parser, ParserConfig};
use store::{ArrivalCursor, Committed, CommittedFrame, FrameHandle, Position, Store, StoreError};
use summary::{Recount, Reruns, Summariser, SummaryConfig, SummaryRow};

use crate::config::Config;
use crate::ingest::delivery::Delivery;
use crate::ingest::http_lines::HttpLines;
use crate::ingest::sources::{Listener, Sources, Surroundings};
pub use crate::queries::tails::TailBatch;
use crate::queries::tails::{TailReader, Tails};
use crate::storage::stored::{ANSWERS_BYTES_MAX, Parsers, Stored};
use crate::storage::upkeep::Upkeep;
use crate::summaries::reruns::{self, KeptReruns, RerunError};
use crate::summaries::rows;
use unreadable::Unreadable;

/// How often the summary is asked whether rows are due, when nothing else happens.
const SUMMARY_TICK: Duration = Duration::from_secs(1);
/// The longest wait for a frame, after which the parse stage looks whether it is to end.
const PARSE_TICK: Duration = Duration::from_millis(200);
/// Frames that each parsing thread is given at a time: some milliseconds of work.
const PARSE_FRAMES: usize = 4;
/// Bytes of lines that are counted at a time, and how often before the parse stage looks for new
/// frames.
const COUNT_BYTES: u64 = 8 << 20;
const COUNTS_MAX: usize = 8;
/// Time at shutdown for parsing what has arrived. What is left then is parsed after the next start.
const DRAIN_TIME_MAX: Duration = Duration::from_secs(3);
/// The pause before a stage goes on that has panicked, so that one that does so again and again
/// fills no log.
const PANIC_PAUSE: Duration = Duration::from_secs(1);

/// A running Loginson, without its HTTP side.
pub struct Pipeline {
    shared: Arc<Shared>,
    http: Arc<HttpLines>,
    recovery: String,
    sources: Mutex<Sources>,
    parse_stage: Mutex<Option<JoinHandle<()>>>,
    summary_stage: Mutex<Option<JoinHandle<()>>>,
}

/// What the stages work on.
struct Shared {
    clock: Arc<dyn Clock>,
    store: Arc<Store>,
    delivery: Arc<Delivery>,
    parsers: Arc<Parsers>,
    answers: Arc<Answers>,
    /// Takes the rows of the summary.
    own: Intake,
    /// None until the parse stage has found where to go on.
    summary: Mutex<Option<Summariser>>,
    reruns: KeptReruns,
    tails: Arc<Tails>,
    memory: Arc<Budget>,
    lines_parsed: AtomicU64,
    /// Frames that the parser or the summary panicked over.
    parse_panics: AtomicU64,
    /// Panics of a stage over anything else.
    stage_panics: AtomicU64,
    /// Frames that could not be read to be parsed.
    parse_failures: AtomicU64,
    parse_threads: usize,
    /// Up to which sequence number lines were counted before this start, where the mark of that
    /// does not say it.
    counted_before: AtomicU64,
    /// The last frame that is parsed. None until the parse stage has found where to go on.
    parsed_through: Mutex<Option<Position>>,
    /// Where the summary goes on. None until that is found.
    counted: Mutex<Option<ArrivalCursor>>,
    /// Why counting does not go on at present.
    counting_error: Mutex<Option<String>>,
    /// Told to the parse stage: end when nothing is left, at the latest then.
    drain_until: Mutex<Option<Instant>>,
    stopped: AtomicBool,
}

impl Pipeline {
    /// Opens the store and starts every stage, in the order of a line's way backwards: whoever
    /// starts finds the next stage ready.
    ///
    /// `memory` is what queries and tails take theirs from; `asked` says whether queries run.
    pub fn start(
        config: &Config,
        accounting: Arc<Accounting>,
        memory: &Arc<Budget>,
        asked: Box<dyn Fn() -> bool + Send + Sync>,
    ) -> Result<Arc<Pipeline>> {
        let clock: Arc<dyn Clock> = Arc::new(RealClock::new());
        let parser = Parser::new(&ParserConfig {
            types: config.types.clone(),
            syslog_zone_offset_s: config.syslog_zone_s,
        })
        .context("[[types]] of the configuration")?;
        let disk = Arc::new(RealDisk);
        let (store, report) = Store::open(config.store.clone(), disk, Arc::clone(&clock))?;
        for warning in &report.warnings {
            tracing::warn!("{warning}");
        }
        tracing::info!("{report}");

        let reruns = KeptReruns::open(&config.data_dir)?;
        let delivery = Arc::new(Delivery::new(Arc::clone(&store)));
        let deliver: Arc<dyn Deliver> = Arc::clone(&delivery) as _;
        let own = Intake::start(
            SourceKind::Internal,
            FRAME_AGE_AWAITED_MS,
            Arc::clone(&deliver),
            Arc::clone(&accounting),
        );
        let shared = Arc::new(Shared {
            clock: Arc::clone(&clock),
            parsers: Arc::new(Parsers::new(parser)),
            answers: Arc::new(Answers::new(ANSWERS_BYTES_MAX)),
            own,
            summary: Mutex::new(None),
            reruns,
            tails: Tails::new(memory),
            memory: Arc::clone(memory),
            lines_parsed: AtomicU64::new(0),
            parse_panics: AtomicU64::new(0),
            stage_panics: AtomicU64::new(0),
            parse_failures: AtomicU64::new(0),
            parse_threads: config.placement.parse_threads,
            counted_before: AtomicU64::new(0),
            counted: Mutex::new(None),
            counting_error: Mutex::new(None),
            parsed_through: Mutex::new(None),
            drain_until: Mutex::new(None),
            stopped: AtomicBool::new(false),
            delivery,
            store,
        });
        let (observed, to_flush) = mpsc::sync_channel(1);
        let summary_config = config.summary.clone();
        let (parsing, parsed) = (Arc::clone(&shared), observed.clone());
        let at_start = shared.store.hot_frames();
        let parse_stage =
            thread("parse", move || parsing.parse_stage(&summary_config, at_start, &parsed))?;
        let flushing = Arc::clone(&shared);
        let flush = move || {
            // There is always one who could tell, so that waiting for it is waiting.
            let _observed = observed;
            flushing.go_on_after_panics("summary", || flushing.summary_stage(&to_flush));
        };
        let summary_stage = thread("summary", flush)?;

        let upkeep = Upkeep::new(Arc::clone(&shared.parsers), asked);
        shared.store.start_background(Arc::new(upkeep))?;
        let http = HttpLines::start(
            Arc::clone(&deliver),
            Arc::clone(&accounting),
            Arc::clone(&clock),
            Arc::clone(&shared.parsers),
        );
        let pipeline = Arc::new(Pipeline {
            http: Arc::new(http),
            recovery: report.to_string(),
            sources: Mutex::default(),
            parse_stage: Mutex::new(Some(parse_stage)),
            summary_stage: Mutex::new(Some(summary_stage)),
            shared,
        });
        let store = Arc::clone(&pipeline.shared.store);
        let nodes = Arc::clone(&pipeline.shared.delivery);
        let (store, nodes) = (Some(store), Some(nodes as _));
        let with = Surroundings { deliver, accounting, clock, store, nodes };
        // From here on the threads end by `stop`, also when a source cannot start.
        match Sources::start(config, &with) {
            Ok(sources) => *lock(&pipeline.sources) = sources,
            Err(error) => {
                pipeline.stop();
                return Err(error);
            }
        }
        Ok(pipeline)
    }

    /// Ends every stage in the order of a line's way. Nothing that was acknowledged is lost; what
    /// has arrived is kept.
    pub fn stop(&self) {
        let shared = &self.shared;
        *lock(&self.sources) = Sources::default();
        self.http.stop();
        *lock(&shared.drain_until) = Some(Instant::now() + DRAIN_TIME_MAX);
        join(&self.parse_stage);
        shared.stopped.store(true, Relaxed);
        join(&self.summary_stage);
        shared.tails.close();
        shared.own.stop();
        if let Err(error) = shared.store.close() {
            tracing::error!("closing the store: {error}");
        }
    }

    /// Takes lines of requests.
    pub fn http_lines(&self) -> &Arc<HttpLines> {
        &self.http
    }

    /// Why lines would be refused at present.
    pub fn refusal(&self) -> Option<DeliverError> {
        self.shared.delivery.refusal()
    }

    /// What queries read.
    pub fn source(&self) -> Stored {
        let Shared { store, parsers, answers, .. } = &*self.shared;
        Stored::new(Arc::clone(store), Arc::clone(parsers), Arc::clone(answers))
    }

    /// The lines that are durable now. What [`source`](Self::source) reads from now on holds all of
    /// them.
    pub fn lines_now(&self) -> LineSet {
        let Committed { through, missing } = self.shared.store.durable_now();
        LineSet { through, missing }
    }

    /// Batches from now on, each as soon as it is parsed; and the lines of all batches before.
    pub fn follow(&self) -> (TailReader, u64) {
        (self.shared.tails.follow(), self.shared.lines_parsed.load(Relaxed))
    }

    /// What queries take their memory from.
    pub fn memory(&self) -> &Arc<Budget> {
        &self.shared.memory
    }

    /// Calls `each` with the rows of the summary, of one type or all, whose buckets begin between
    /// the two instants (the second exclusive): open buckets first, then stored rows, so that each
    /// line is counted once. None while it is not known yet where to go on after a start.
    pub fn summary_rows(
        &self,
        log_type: Option<&str>,
        start_ns: i64,
        end_ns: i64,
        each: &mut dyn FnMut(&SummaryRow),
    ) -> Result<Option<()>, StoreError> {
        let shared = &self.shared;
        // Before the rows are read: those of a rerun that ends meanwhile do not count yet.
        let reruns = shared.reruns.list();
        let look = |summary: &Summariser| summary.snapshot(log_type, start_ns, end_ns);
        let Some(open) = lock(&shared.summary).as_ref().map(look) else { return Ok(None) };
        open.rows.iter().for_each(&mut *each);
        let last_ns = if end_ns == i64::MAX { end_ns } else { end_ns.saturating_sub(1) };
        let range_ns = (start_ns, last_ns);
        rows::read(&shared.store, &shared.parsers, range_ns, open.settled_through, |row| {
            if log_type.is_none_or(|log_type| log_type == row.summary_of) && reruns.counts(&row) {
                each(&row);
            }
        })?;
        Ok(Some(()))
    }

    /// The intervals that were summarised again.
    pub fn reruns(&self) -> Reruns {
        self.shared.reruns.list()
    }

    /// Summarises the lines of a type from `start_ns` to before `end_ns` again; blocks. `config` is
    /// that of the running summary.
    pub fn rerun(
        &self,
        config: &SummaryConfig,
        log_type: &str,
        (start_ns, end_ns): (i64, i64),
        check: &dyn Fn() -> Result<(), RunError>,
        progress: &Progress,
    ) -> Result<reruns::Done, RerunError> {
        let shared = &self.shared;
        if lock(&shared.summary).is_none() {
            return Err(RerunError::NotReady);
        }
        let last = shared.reruns.list().list().last().map_or(0, |rerun| rerun.id);
        let id = (shared.clock.now_ns().max(0) as u64).max(last + 1);
        let settled = |summary: &Summariser| {
            summary.snapshot(Some(log_type), i64::MAX, i64::MIN).settled_through
        };
        let settled_through = || {
            let through = lock(&shared.summary).as_ref().and_then(settled);
            let sequence = through.and_then(rows::sequence_of);
            (through, sequence.unwrap_or_else(|| shared.counted_before.load(Relaxed)))
        };
        let start =
            |through| Recount::new(config.clone(), id, log_type, (start_ns, end_ns), through);
        let whole = start(None);
        let with = reruns::Surroundings {
            store: &shared.store,
            parsers: &shared.parsers,
            kept: &shared.reruns,
            settled_through: &settled_through,
            write: &|lines| {
                let written =
                    shared.own.deliver_alone(&Recount::origin(), shared.clock.now_ns(), lines);
                written.wait().map_err(|error| RerunError::NotKept(error.to_string()))
            },
            check,
            progress,
        };
        reruns::run(&with, (whole.rerun().start_ns, whole.rerun().end_ns), start)
    }

    /// Lines that are durable but not parsed yet. Asked of the store, so that lines which are
    /// deleted before they are parsed are not waited for.
    pub fn parse_lag_lines(&self) -> u64 {
        let store = &self.shared.store;
        let through = *lock(&self.shared.parsed_through);
        store.lines_after(through.unwrap_or_else(|| store.first_unparsed()))
    }

    /// Frames that parsing or counting panicked over, since the start.
    pub fn parse_panics(&self) -> u64 {
        self.shared.parse_panics.load(Relaxed)
    }

    /// Panics of a stage over anything else, since the start.
    pub fn stage_panics(&self) -> u64 {
        self.shared.stage_panics.load(Relaxed)
    }

    /// Frames that could not be read to be parsed, since the start; those that retention deleted
    /// before are not among them.
    pub fn parse_failures(&self) -> u64 {
        self.shared.parse_failures.load(Relaxed)
    }

    /// The store.
    pub fn store(&self) -> &Store {
        &self.shared.store
    }

    /// What opening the store found, in one sentence.
    pub fn recovery(&self) -> &str {
        &self.recovery
    }

    /// What is told of files that are followed; none when none are.
    pub fn files<R>(&self, look: impl FnOnce(&FileSource) -> R) -> Option<R> {
        lock(&self.sources).files(look)
    }

    /// What is told of the journal; none when it is not read.
    pub fn journal<R>(&self, look: impl FnOnce(&JournalSource) -> R) -> Option<R> {
        lock(&self.sources).journal(look)
    }

    /// Where lines are listened for.
    pub fn listeners(&self) -> Vec<Listener> {
        lock(&self.sources).listeners()
    }

    /// The collectors that were here since the start of the listener.
    pub fn collectors(&self) -> Vec<CollectorStatus> {
        lock(&self.sources).nodes(NodeListener::collectors).unwrap_or_default()
    }

    /// The certificate of syslog over TLS; none when that is off.
    pub fn credentials(&self) -> Option<Arc<Credentials>> {
        lock(&self.sources).credentials()
    }

    /// Reads files anew that can change while we run: certificates. Blocks on the disk.
    pub fn reload(&self) {
        match self.credentials() {
            Some(credentials) => _ = credentials.reload(),
            None => tracing::info!("there is nothing to read anew: TLS is off"),
        }
    }
}

impl Shared {
    /// Calls `stage` until it returns.
    fn go_on_after_panics(&self, name: &str, stage: impl FnMut()) {
        let ends = || lock(&self.drain_until).is_some();
        go_on_after_panics(name, &self.stage_panics, ends, stage);
    }

    /// Each frame, once durable: parsed once, then handed to all who read it.
    fn parse_stage(
        &self,
        config: &SummaryConfig,
        mut at_start: Vec<FrameHandle>,
        observed: &mpsc::SyncSender<()>,
    ) {
        self.go_on_after_panics("parse", || {
            if lock(&self.parsed_through).is_none() {
                self.find_where_to_go_on(config, &at_start);
                at_start = Vec::new();
            }
            self.parse_frames(observed);
        });
    }

    fn find_where_to_go_on(&self, config: &SummaryConfig, at_start: &[FrameHandle]) {
        let mark = rows::settled_through(&self.store, at_start);
        let cursor = rows::cursor(&self.store, mark, at_start);
        self.counted_before.store(cursor.through, Relaxed);
        *lock(&self.counted) = Some(cursor);
        *lock(&self.summary) = Some(Summariser::new(config.clone(), mark));
        *lock(&self.parsed_through) = Some(self.store.first_unparsed());
    }

    fn parse_frames(&self, observed: &mpsc::SyncSender<()>) {
        let mut after = lock(&self.parsed_through).expect("found before");
        loop {
            // Looked at before the frames: what was in the queue then is among them.
            let last = self.drained();
            let frames =
                self.store.wait_committed(after, if last { Duration::ZERO } else { PARSE_TICK });
            if frames.is_empty() && last {
                self.count_arrivals();
                return;
            }
            let mut unreadable = Unreadable::default();
            for some in frames.chunks(self.parse_threads * PARSE_FRAMES) {
                for (committed, parsed) in some.iter().zip(self.parse_all(some)) {
                    after = committed.position;
                    let batch = parsed.unwrap_or_else(|error| {
                        unreadable.add(committed.handle.lines(), error);
                        None
                    });
                    self.hand_on(committed, batch);
                }
                self.count_arrivals();
                // When it is full the stage has been told already.
                let _ = observed.try_send(());
            }
            if frames.is_empty() {
                // What was on its way while frames with greater numbers came.
                self.count_arrivals();
            }
            self.parse_failures.fetch_add(unreadable.frames(), Relaxed);
            if let Some(message) = unreadable.message() {
                tracing::error!("{message}");
            }
            self.store.set_settled(after);
            if lock(&self.drain_until).is_some_and(|until| Instant::now() > until) {
                return;
            }
        }
    }

    /// Parses frames, several at a time where there are threads for it; in the order of the frames.
    fn parse_all(&self, frames: &[CommittedFrame]) -> Vec<Result<Option<Arc<Batch>>, StoreError>> {
        let parse_some = |some: &[CommittedFrame]| -> Vec<_> {
            some.iter().map(|committed| self.parse(&committed.handle)).collect()
        };
        let part = frames.len().div_ceil(self.parse_threads);
        let (own, others) = frames.split_at(part.min(frames.len()));
        std::thread::scope(|scope| {
            // They have the priority of this thread.
            let others: Vec<_> = others
                .chunks(part.max(1))
                .map(|some| scope.spawn(move || parse_some(some)))
                .collect();
            let mut batches = parse_some(own);
            for other in others {
                batches.extend(other.join().expect("panics are caught for each frame"));
            }
            batches
        })
    }

    /// The records of a frame. None: it was deleted by retention, or brings the parser down, which
    /// is a bug and must not end the parsing of others.
    fn parse(&self, handle: &FrameHandle) -> Result<Option<Arc<Batch>>, StoreError> {
        catch_unwind(AssertUnwindSafe(|| self.parsers.load_frame_once(handle))).unwrap_or_else(
            |_| {
                self.note_panic(handle.position());
                Ok(None)
            },
        )
    }

    /// Gives a parsed frame to all who wait for it.
    fn hand_on(&self, committed: &CommittedFrame, batch: Option<Arc<Batch>>) {
        let lines = committed.handle.lines();
        if let Some(batch) = batch {
            self.store.set_times(committed.position, batch.time_range_ns());
            let lines_total = self.lines_parsed.load(Relaxed) + lines;
            self.tails.send(TailBatch { batch, lines_total });
        }
        self.lines_parsed.fetch_add(lines, Relaxed);
        *lock(&self.parsed_through) = Some(committed.position);
    }

    fn note_panic(&self, position: Position) {
        self.parse_panics.fetch_add(1, Relaxed);
        tracing::error!(
            "a bug in parsing: the lines of frame {} of segment {} are kept, and cannot be read until it is fixed",
            position.frame,
            position.segment
        );
    }

    /// Counts the lines that arrived since the last time: hot ones that were just parsed mostly, or
    /// sealed ones after a start.
    fn count_arrivals(&self) {
        let mut counted = lock(&self.counted);
        let cursor = counted.as_mut().expect("found before");
        // New frames are to be parsed meanwhile; the rest is for the next time.
        for _ in 0..COUNTS_MAX {
            let load = |handle: &FrameHandle| self.load_to_count(handle);
            let (arrivals, next) = match self.store.read_after(*cursor, COUNT_BYTES, &load) {
                Ok(found) => found,
                Err(error) => {
                    // It is tried again several times a second, and told once.
                    let error = Some(error.to_string());
                    let mut told = lock(&self.counting_error);
                    if *told != error {
                        tracing::error!(
                            "lines are not counted yet: {}",
                            error.as_deref().unwrap_or_default()
                        );
                        *told = error;
                    }
                    return;
                }
            };
            *lock(&self.counting_error) = None;
            if next == *cursor {
                return;
            }
            *cursor = next;
            if arrivals.skipped > 0 || arrivals.unreadable > 0 {
                tracing::warn!(
                    "of the lines up to {next}, at most {} were deleted by retention before they were counted, and {} cannot be \
                     read",
                    arrivals.skipped,
                    arrivals.unreadable
                );
            }
            let observe = || {
                let mut summary = lock(&self.summary);
                let summary = summary.as_mut().expect("made before the first frame");
                let batches = arrivals.batches.iter().map(|batch| &**batch);
                summary.observe_all(batches, rows::mark(next), self.clock.now_ns());
            };
            if catch_unwind(AssertUnwindSafe(observe)).is_err() {
                self.parse_panics.fetch_add(1, Relaxed);
                tracing::error!("a bug in counting: lines up to {next} are not all in the summary");
            }
        }
    }

    /// The records of a frame to be counted; no records where the parse stage has said that it
    /// cannot be read or parsed.
    fn load_to_count(&self, handle: &FrameHandle) -> Result<Option<Arc<Batch>>, StoreError> {
        let load = || self.parsers.load_frame_once(handle);
        let loaded = catch_unwind(AssertUnwindSafe(load));
        Ok(loaded.unwrap_or(Ok(None)).unwrap_or(None).or_else(|| {
            let is_there = handle.is_there();
            is_there.then(|| Arc::new(Batch::merged(&[]).expect("nothing is too much")))
        }))
    }

    /// Whether the parse stage has come to the end of what arrived before the shutdown.
    fn drained(&self) -> bool {
        lock(&self.drain_until).is_some() && self.store.stats().queue_bytes == 0
    }

    /// Writes rows of the summary when they are due, and at the end.
    fn summary_stage(&self, observed: &mpsc::Receiver<()>) {
        loop {
            let _ = observed.recv_timeout(SUMMARY_TICK);
            let last = self.stopped.load(Relaxed);
            let now_ns = self.clock.now_ns();
            let flush =
                lock(&self.summary).as_mut().and_then(|summary| summary.flush(now_ns, last));
            if let Some(flush) = flush {
                match self.own.deliver_alone(&flush.origin(), now_ns, &flush.lines).wait() {
                    Ok(()) => {
                        let mut summary = lock(&self.summary);
                        summary.as_mut().expect("it gave the rows").settled(flush.through);
                    }
                    // The same rows come again with the next try.
                    Err(error) => tracing::warn!("rows of the summary were not kept: {error}"),
                }
            }
            if last {
                return;
            }
        }
    }
}

/// Calls `stage` until it returns, or panics while the pipeline `ends`: one that did so again and
/// again would never end.
fn go_on_after_panics(
    name: &str,
    panics: &AtomicU64,
    ends: impl Fn() -> bool,
    mut stage: impl FnMut(),
) {
    while catch_unwind(AssertUnwindSafe(&mut stage)).is_err() {
        panics.fetch_add(1, Relaxed);
        if ends() {
            tracing::error!(
                "a bug in the stage '{name}'; what it left is done after the next start"
            );
            return;
        }
        tracing::error!("a bug in the stage '{name}', which goes on in a second");
        std::thread::sleep(PANIC_PAUSE);
    }
}

/// Starts a stage, which gives way to those that take lines and keep them.
fn thread(name: &str, work: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>> {
    let placed = move || {
        placement::enter(Role::Parse);
        work();
    };
    std::thread::Builder::new().name(name.into()).spawn(placed).context("cannot start a thread")
}

fn join(handle: &Mutex<Option<JoinHandle<()>>>) {
    let handle = lock(handle).take();
    if handle.is_some_and(|handle| handle.join().is_err()) {
        tracing::error!(
            "a stage of the pipeline panicked; what it left is done after the next start"
        );
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stage_that_panics_at_the_end_ends() {
        let panics = AtomicU64::new(0);
        go_on_after_panics("a test", &panics, || true, || panic!("a test of what happens then"));
        assert_eq!(panics.load(Relaxed), 1);
        go_on_after_panics("a test", &panics, || panic!("it is not asked"), || {});
        assert_eq!(panics.load(Relaxed), 1);
    }
}
