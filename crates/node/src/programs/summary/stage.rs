//! The summary stage: counts lines in the order of arrival, each once, behind a cursor of its own;
//! and writes rows when they are due.
//!
//! The parse stage makes it count after every few frames ([`SummaryStage::count_arrivals`]); a
//! thread of its own writes the rows ([`SummaryStage::run`]). The cursor reads hot and sealed lines
//! alike, so no line waits for the summary before it is sealed.

use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use collector::Intake;
use platform::{Clock, KeepError};
use programs::summary::{Recount, Reruns, Summariser, SummaryConfig, SummaryRow};
use query::{Progress, RunError};
use store::{ArrivalCursor, FrameHandle, LoadFrame, Store, StoreError};

use super::reruns::{self, KeptReruns, RerunError};
use super::rows;
use crate::process::stages::{Stages, lock};
use crate::storage::stored::Parsers;

/// How often the stage checks whether rows are due, if nothing else happens.
const TICK: Duration = Duration::from_secs(1);
/// Bytes of lines that are counted at a time, and how often that is repeated before the parse stage
/// checks for new frames.
const COUNT_BYTES: u64 = 8 << 20;
const COUNTS_MAX: usize = 8;

/// The summary stage.
pub struct SummaryStage {
    stages: Arc<Stages>,
    clock: Arc<dyn Clock>,
    store: Arc<Store>,
    parsers: Arc<Parsers>,
    config: SummaryConfig,
    /// Receives the rows.
    own: Intake,
    reruns: KeptReruns,
    /// `None` until the point to resume at is found; `cursor` likewise.
    summariser: Mutex<Option<Summariser>>,
    cursor: Mutex<Option<ArrivalCursor>>,
    /// The sequence number up to which lines were counted before this start, if the watermark of
    /// the rows does not say.
    counted_before: AtomicU64,
    /// Why counting is blocked at present.
    error: Mutex<Option<String>>,
    /// Panics while lines were counted.
    panics: AtomicU64,
}

impl SummaryStage {
    /// Counts nothing before [`find_resume_point`](Self::find_resume_point). `own` receives the
    /// rows.
    pub fn new(
        stages: Arc<Stages>,
        clock: Arc<dyn Clock>,
        store: Arc<Store>,
        parsers: Arc<Parsers>,
        config: SummaryConfig,
        own: Intake,
        reruns: KeptReruns,
    ) -> SummaryStage {
        SummaryStage {
            stages,
            clock,
            store,
            parsers,
            config,
            own,
            reruns,
            summariser: Mutex::new(None),
            cursor: Mutex::new(None),
            counted_before: AtomicU64::new(0),
            error: Mutex::new(None),
            panics: AtomicU64::new(0),
        }
    }

    /// Finds the greatest watermark of the stored rows: counting resumes behind it.
    pub fn find_resume_point(&self, at_start: &[FrameHandle]) {
        let mark = rows::settled_through(&self.store, at_start);
        let cursor = rows::cursor(&self.store, mark);
        self.counted_before.store(cursor.through, Relaxed);
        *lock(&self.cursor) = Some(cursor);
        *lock(&self.summariser) = Some(Summariser::new(self.config.clone(), mark));
    }

    /// Counts the lines that arrived since the last call, in frames up to the number `last`: mostly
    /// hot ones that were just parsed, or sealed ones after a start. `load` gives the records of
    /// hot frames.
    pub fn count_arrivals(&self, last: u64, load: LoadFrame<'_>) {
        let mut counted = lock(&self.cursor);
        let cursor = counted.as_mut().expect("found before");
        // New frames wait to be parsed meanwhile, so the rest is left to the next call.
        for _ in 0..COUNTS_MAX {
            let read = self.store.read_through(*cursor, last, COUNT_BYTES, load);
            let (arrivals, next) = match read {
                Ok(found) => found,
                Err(error) => return self.note_error(&error),
            };
            *lock(&self.error) = None;
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
                let mut summariser = lock(&self.summariser);
                let summariser = summariser.as_mut().expect("made before the first frame");
                let batches = arrivals.batches.iter().map(|batch| &**batch);
                summariser.observe_all(batches, rows::mark(next), self.clock.now_ns());
            };
            if catch_unwind(AssertUnwindSafe(observe)).is_err() {
                self.panics.fetch_add(1, Relaxed);
                tracing::error!("a bug in counting: lines up to {next} are not all in the summary");
            }
        }
    }

    /// Counting is retried several times a second; an error is logged once.
    fn note_error(&self, error: &StoreError) {
        let error = error.to_string();
        let mut known = lock(&self.error);
        if known.as_ref() != Some(&error) {
            tracing::error!("lines are not counted yet: {error}");
            *known = Some(error);
        }
    }

    /// Writes rows when they are due, until the stages are stopped, and then once more. `parsed`
    /// receives a message when there are new lines.
    pub fn run(&self, parsed: &mpsc::Receiver<()>) {
        self.stages.run("summary", || {
            loop {
                let _ = parsed.recv_timeout(TICK);
                let is_last = self.stages.is_stopped();
                self.flush(is_last);
                if is_last {
                    return;
                }
            }
        });
    }

    fn flush(&self, is_last: bool) {
        let now_ns = self.clock.now_ns();
        let due = lock(&self.summariser).as_mut().and_then(|s| s.flush(now_ns, is_last));
        let Some(flush) = due else { return };
        match self.own.deliver_alone(&flush.origin(), now_ns, &flush.lines).wait() {
            Ok(()) => {
                let mut summariser = lock(&self.summariser);
                summariser.as_mut().expect("it gave the rows").settled(flush.through);
            }
            // The next attempt writes the same rows.
            Err(error) => tracing::warn!("rows of the summary were not kept: {error}"),
        }
    }

    /// Accepts no more rows.
    pub fn close(&self) {
        self.own.stop();
    }

    /// Panics while lines were counted, since the start.
    pub fn panics(&self) -> u64 {
        self.panics.load(Relaxed)
    }

    /// Calls `each` with the rows, of one type or all, whose buckets begin between the two instants
    /// (the second exclusive): open buckets first, then stored rows, so that each line is counted
    /// once; ends when `each` breaks. `None` while the point to resume at is not known yet after a
    /// start.
    pub fn rows(
        &self,
        log_type: Option<&str>,
        start_ns: i64,
        end_ns: i64,
        each: &mut dyn FnMut(&SummaryRow) -> ControlFlow<()>,
    ) -> Result<Option<()>, StoreError> {
        // Read before the rows: rows of a rerun that ends meanwhile do not count yet.
        let reruns = self.reruns.list();
        let look = |summariser: &Summariser| summariser.snapshot(log_type, start_ns, end_ns);
        let Some(open) = lock(&self.summariser).as_ref().map(look) else { return Ok(None) };
        if open.rows.iter().try_for_each(&mut *each).is_break() {
            return Ok(Some(()));
        }
        let last_ns = if end_ns == i64::MAX { end_ns } else { end_ns.saturating_sub(1) };
        let range_ns = (start_ns, last_ns);
        rows::read(&self.store, &self.parsers, range_ns, open.settled_through, |row| {
            let is_of_type = log_type.is_none_or(|log_type| log_type == row.summary_of);
            match is_of_type && reruns.counts(&row) {
                true => each(&row),
                false => ControlFlow::Continue(()),
            }
        })?;
        Ok(Some(()))
    }

    /// The intervals that were summarised again.
    pub fn reruns(&self) -> Reruns {
        self.reruns.list()
    }

    /// Summarises the lines of a type from `start_ns` to before `end_ns` again; blocks.
    pub fn rerun(
        &self,
        log_type: &str,
        (start_ns, end_ns): (i64, i64),
        check: &dyn Fn() -> Result<(), RunError>,
        progress: &Progress,
    ) -> Result<reruns::Done, RerunError> {
        if lock(&self.summariser).is_none() {
            return Err(RerunError::NotReady);
        }
        let last = self.reruns.list().list().last().map_or(0, |rerun| rerun.id);
        let id = (self.clock.now_ns().max(0) as u64).max(last + 1);
        let settled = |summariser: &Summariser| {
            summariser.snapshot(Some(log_type), i64::MAX, i64::MIN).settled_through
        };
        let settled_through = || {
            let through = lock(&self.summariser).as_ref().and_then(settled);
            let sequence = through.map(rows::sequence_of);
            (through, sequence.unwrap_or_else(|| self.counted_before.load(Relaxed)))
        };
        let range_ns = (start_ns, end_ns);
        let start = |through| Recount::new(self.config.clone(), id, log_type, range_ns, through);
        let whole = start(None);
        let with = reruns::RerunContext {
            store: &self.store,
            parsers: &self.parsers,
            kept: &self.reruns,
            settled_through: &settled_through,
            write: &|lines| {
                let written =
                    self.own.deliver_alone(&Recount::origin(), self.clock.now_ns(), lines);
                written.wait().map_err(|error| match error {
                    KeepError::DiskFull | KeepError::NoRoom => {
                        RerunError::NoRoom(error.to_string())
                    }
                    error => RerunError::NotKept(error.to_string()),
                })
            },
            check,
            progress,
        };
        reruns::run(&with, (whole.rerun().start_ns, whole.rerun().end_ns), start)
    }
}
