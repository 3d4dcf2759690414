//! The parse stage: each frame, once durable, is parsed once and handed to all its readers.
//!
//! It sees frames in the order of the store; nothing waits for it. It tells the store up to where
//! frames are parsed, because they may be sealed up to there.
//!
//! When more lines arrive than it can parse, it finds the event times of the frames that wait, by
//! their heads only: queries then know which frames are the newest, and count lines without parsing
//! them.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use platform::pressure;
use record::Batch;
use store::{CommittedFrame, FrameHandle, Position, Store, StoreError};

use super::unreadable::Unreadable;
use crate::cluster::engines::LogPlace;
use crate::process::stages::{Stages, lock};
use crate::programs::stage::ProgramStage;
use crate::programs::summary::stage::SummaryStage;
use crate::queries::tails::{TailBatch, TailReader, Tails};
use crate::storage::stored::Parsers;

/// The longest wait for a frame, after which the stage checks whether it has to end.
const TICK: Duration = Duration::from_millis(200);
/// The same once no frame has come for [`QUIET_TURNS`] turns: an idle machine is woken seldom.
const QUIET_TICK: Duration = Duration::from_secs(1);
const QUIET_TURNS: u32 = 10;
/// Frames per parsing thread and round: some milliseconds of work.
const FRAMES_PER_THREAD: usize = 4;
/// Waiting frames whose times are found for each frame that is parsed. Finding them takes about a
/// fifth of the time of parsing them, so the times soon catch up with the senders, and parsing goes
/// on meanwhile.
const TIMED_PER_PARSED: usize = 16;

/// Records of frames that were parsed a moment ago, by the position of the frame.
type JustParsed = HashMap<Position, Arc<Batch>>;

/// The parse stage.
pub struct ParseStage {
    stages: Arc<Stages>,
    store: Arc<Store>,
    parsers: Arc<Parsers>,
    summary: Arc<SummaryStage>,
    programs: Option<Arc<ProgramStage>>,
    tails: Arc<Tails>,
    threads: usize,
    lines: AtomicU64,
    /// Frames that made the parser panic.
    panics: AtomicU64,
    /// Frames that could not be read.
    failures: AtomicU64,
    /// The last parsed frame. `None` until the summary has found where to resume.
    through: Mutex<Option<Position>>,
}

impl ParseStage {
    /// Parses nothing before [`run`](Self::run). `threads` is how many parse in parallel.
    pub fn new(
        stages: Arc<Stages>,
        store: Arc<Store>,
        parsers: Arc<Parsers>,
        summary: Arc<SummaryStage>,
        programs: Option<Arc<ProgramStage>>,
        tails: Arc<Tails>,
        threads: usize,
    ) -> ParseStage {
        ParseStage {
            stages,
            store,
            parsers,
            summary,
            programs,
            tails,
            threads,
            lines: AtomicU64::new(0),
            panics: AtomicU64::new(0),
            failures: AtomicU64::new(0),
            through: Mutex::new(None),
        }
    }

    /// Runs until the shutdown. `at_start` are the hot frames that existed at the start; `parsed`
    /// gets a message when there are new lines to summarise.
    pub fn run(&self, mut at_start: Vec<FrameHandle>, parsed: &mpsc::SyncSender<()>) {
        self.stages.run("parse", || {
            if lock(&self.through).is_none() {
                self.summary.find_resume_point(&at_start);
                *lock(&self.through) = Some(self.store.first_unparsed());
                at_start = Vec::new();
            }
            self.parse_frames(parsed);
        });
    }

    /// A reader of batches from now on, and the number of lines in all batches before.
    pub fn follow(&self) -> (TailReader, u64) {
        (self.tails.follow(), self.lines.load(Relaxed))
    }

    /// Ends all tails.
    pub fn close_tails(&self) {
        self.tails.close();
    }

    /// Lines that are durable but not parsed yet. The store computes it, so that lines which are
    /// deleted before they are parsed do not count.
    pub fn lag_lines(&self) -> u64 {
        let through = *lock(&self.through);
        self.store.lines_after(through.unwrap_or_else(|| self.store.first_unparsed()))
    }

    /// Frames that made the parser panic, since the start.
    pub fn panics(&self) -> u64 {
        self.panics.load(Relaxed)
    }

    /// Frames that could not be read for parsing, since the start, without those that retention had
    /// deleted before.
    pub fn failures(&self) -> u64 {
        self.failures.load(Relaxed)
    }

    fn parse_frames(&self, parsed: &mpsc::SyncSender<()>) {
        let mut after = lock(&self.through).expect("found before");
        // The frames up to here have known times, or are parsed for them.
        let mut timed = after;
        let mut quiet_turns = 0_u32;
        loop {
            // Checked before the frames are taken: frames that were in the queue then are among
            // them.
            let is_draining = self.stages.is_draining();
            let is_last = is_draining && self.store.stats().queue_bytes == 0;
            let wait = match quiet_turns < QUIET_TURNS {
                _ if is_last => Duration::ZERO,
                true => TICK,
                false => QUIET_TICK,
            };
            let begins_to_drain = || !is_draining && self.stages.is_draining();
            let frames = self.store.wait_committed(after, wait, begins_to_drain);
            quiet_turns = if frames.is_empty() { quiet_turns.saturating_add(1) } else { 0 };
            if frames.is_empty() && is_last {
                self.read_arrivals(u64::MAX, &JustParsed::new());
                return;
            }
            let mut unreadable = Unreadable::default();
            let mut waiting = &frames[..];
            while !waiting.is_empty() {
                let count = waiting.len().min(self.threads * FRAMES_PER_THREAD);
                let (some, rest) = waiting.split_at(count);
                waiting = rest;
                if !rest.is_empty() {
                    timed = self.find_times(timed.max(some[some.len() - 1].position), some.len());
                }
                let mut just_parsed = JustParsed::new();
                for (committed, batch) in some.iter().zip(self.on_threads(some, Self::parse)) {
                    after = committed.position;
                    let batch = batch.unwrap_or_else(|error| {
                        unreadable.add(committed.handle.lines(), error);
                        None
                    });
                    just_parsed.extend(batch.clone().map(|batch| (committed.position, batch)));
                    self.hand_on(committed, batch);
                }
                // Frames behind these are counted once they are parsed: parsing them for the
                // summary would be done twice, on one thread, where the cache has no room for them.
                let last = some.iter().map(|committed| committed.sequence).max();
                self.read_arrivals(last.expect("there are some"), &just_parsed);
                // If the channel is full, the summary stage has a message already.
                let _ = parsed.try_send(());
            }
            if frames.is_empty() {
                // Frames that were still in flight when frames with greater numbers arrived.
                self.read_arrivals(u64::MAX, &JustParsed::new());
            }
            self.failures.fetch_add(unreadable.frames(), Relaxed);
            if let Some(message) = unreadable.message() {
                tracing::error!("{message}");
            }
            self.store.set_settled(after);
            if self.stages.is_drain_over() {
                return;
            }
        }
    }

    /// Lets the stages that read behind a cursor of their own read what was just parsed: frames up
    /// to the number `last`.
    fn read_arrivals(&self, last: u64, just_parsed: &JustParsed) {
        self.summary.count_arrivals(last, &|handle| match just_parsed.get(&handle.position()) {
            Some(batch) => Ok(Some(Arc::clone(batch))),
            None => self.parsers.load_arrival(handle),
        });
        let note = || self.programs.iter().for_each(|programs| programs.note_arrivals());
        if catch_unwind(AssertUnwindSafe(note)).is_err() {
            self.panics.fetch_add(1, Relaxed);
            tracing::error!("a bug in noting lines for programs; they are noted later");
        }
    }

    /// Finds the event times of frames behind a cursor, for `parsed` frames that are parsed next;
    /// returns the last of these frames, or the cursor. Frames whose times are found by parsing
    /// only, and those that cannot be read, are left to their parsing.
    fn find_times(&self, after: Position, parsed: usize) -> Position {
        let mut through = after;
        let mut left = parsed * TIMED_PER_PARSED;
        while left > 0 {
            let mut frames = self.store.wait_committed(through, Duration::ZERO, || true);
            frames.truncate(left);
            let Some(last) = frames.last() else { break };
            through = last.position;
            left -= frames.len();
            self.on_threads(&frames, |stage, handle| {
                pressure::give_way();
                // The parsing of the frame reports what is wrong with it.
                let _ = catch_unwind(AssertUnwindSafe(|| stage.parsers.learn_times(handle)));
            });
        }
        through
    }

    /// Does something with each frame, on several threads if there are some; returns the results in
    /// the order of the frames.
    fn on_threads<T: Send>(
        &self,
        frames: &[CommittedFrame],
        work: impl Fn(&Self, &FrameHandle) -> T + Copy + Send,
    ) -> Vec<T> {
        let work_on = move |some: &[CommittedFrame]| -> Vec<T> {
            some.iter().map(|committed| work(self, &committed.handle)).collect()
        };
        let part = frames.len().div_ceil(self.threads);
        let (own, others) = frames.split_at(part.min(frames.len()));
        std::thread::scope(|scope| {
            // They inherit the priority of this thread.
            let others: Vec<_> =
                others.chunks(part.max(1)).map(|some| scope.spawn(move || work_on(some))).collect();
            let mut results = work_on(own);
            for other in others {
                results.extend(other.join().expect("panics are caught for each frame"));
            }
            results
        })
    }

    /// The records of a frame. `None` if retention deleted the frame, or if the parser panics on
    /// it, which is a bug and must not stop the parsing of other frames.
    fn parse(&self, handle: &FrameHandle) -> Result<Option<Arc<Batch>>, StoreError> {
        pressure::give_way();
        catch_unwind(AssertUnwindSafe(|| self.parsers.load_frame_once(handle))).unwrap_or_else(
            |_| {
                self.note_panic(handle.position());
                Ok(None)
            },
        )
    }

    fn note_panic(&self, position: Position) {
        self.panics.fetch_add(1, Relaxed);
        tracing::error!(
            "a bug in parsing: the lines of frame {} of segment {} are kept, but cannot be read until it is fixed",
            position.frame,
            position.segment
        );
    }

    /// Hands the records of a frame of a cluster to live tails.
    pub fn tell_tails(&self, batch: Arc<Batch>, place: LogPlace) {
        let lines = batch.len() as u64;
        let lines_total = self.lines.fetch_add(lines, Relaxed) + lines;
        self.tails.send(TailBatch { batch, lines_total, place: Some(place) });
    }

    /// Hands a parsed frame to all its readers.
    fn hand_on(&self, committed: &CommittedFrame, batch: Option<Arc<Batch>>) {
        let lines = committed.handle.lines();
        if let Some(batch) = batch {
            self.store.set_times(committed.position, batch.time_range_ns());
            let lines_total = self.lines.load(Relaxed) + lines;
            self.tails.send(TailBatch { batch, lines_total, place: None });
        }
        self.lines.fetch_add(lines, Relaxed);
        *lock(&self.through) = Some(committed.position);
    }
}
