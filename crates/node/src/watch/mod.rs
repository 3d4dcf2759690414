//! What stands out, all the time: counts the lines of each minute by the values of fields with few
//! values, and keeps what is unusual about them.
//!
//! Each minute that is complete, and some time older for lines that come late, is counted by
//! queries ([`counts`]), a field at a time, and given to the [`Board`] of crate `analysis`, which
//! says what stands out. The first start learns from the lines of the past.
//!
//! Invariants: what is watched is bounded by a number of series; ingest waits for nothing here; the
//! minutes in which the server did not run, which are those that it did not receive, are neither
//! learnt nor judged.
//!
//! Left out: restrictions. Findings are about all lines, so their routes are for callers who see
//! all.

mod counts;
mod kept;
mod options;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use analysis::watch::MINUTE_NS;
pub use analysis::watch::{Board, FieldCounts, FieldView, Finding, Kind, News, Standing, What};
use anyhow::Result;
use platform::memory::Budget;
use platform::placement::Role;
use sinks::{Clock, Stop, SystemClock};

use crate::cluster::QueriedLines;
use crate::data_dir::Documents;
use crate::process::lasting::{self, Lasting};
use crate::process::stages::{StageThread, Stages, lock};
use crate::storage::row_store::RowStore;
use counts::{Fields, Reader};
use kept::Kept;
pub use options::WatchOptions;

/// A watch that is so far behind leaves minutes out.
const BEHIND_MAX_NS: i64 = 10 * MINUTE_NS;
/// A minute is waited for no longer than this and the delay, unless the clock was set back.
const AHEAD_MAX_NS: i64 = 3 * MINUTE_NS;
/// How often the fields are chosen anew. After a start it is a minute, and doubles up to this: the
/// store of a new server is empty, and its senders come one after the other.
const FIELDS_EVERY_NS: i64 = 60 * MINUTE_NS;
/// How often the board is kept for the next start. A crash loses what was learnt since.
const KEPT_EVERY_NS: i64 = 10 * MINUTE_NS;
/// How often what lasts is stored as a row again, so that rules of alerts see it.
const TOLD_EVERY_NS: i64 = 5 * MINUTE_NS;
/// A minute is counted again after so many, to know how many lines came too late.
const LATE_MINUTES: usize = 15;
/// Minutes of the past that one query counts.
const PAST_MINUTES: i64 = 60;
/// Lines of the past from which a first start learns.
///
/// limits.md, What stands out: lines of the past that a first start counts | {}, of
/// `watch.history` | it learns from a shorter past
const PAST_LINES_MAX: u64 = 20_000_000;

/// What the watch needs of the rest of the node.
pub struct Parts<'a> {
    /// What is watched.
    pub options: &'a WatchOptions,
    /// The lines that are counted.
    pub lines: QueriedLines,
    /// The memory that the queries share with all others.
    pub memory: &'a Arc<Budget>,
    /// Limits of one query.
    pub query_limits: query::Limits,
    /// Where findings are kept, as lines.
    pub rows: Arc<dyn RowStore>,
    /// Where the board is kept.
    pub state: Arc<dyn Documents>,
    /// Where the thread is registered.
    pub stages: &'a Arc<Stages>,
}

/// What the watch does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    /// It learns from the lines of the past.
    #[default]
    LearnsPast,
    /// It watches.
    Watches,
}

/// What the watch did since the start.
#[derive(Clone, Copy, Debug, Default)]
pub struct Totals {
    /// Minutes that were counted and judged.
    pub minutes: u64,
    /// Minutes that were left out because the watch was behind.
    pub missed: u64,
    /// Queries that failed.
    pub failures: u64,
    /// Lines that came after their minute was counted.
    pub late_lines: u64,
    /// Rows that could not be stored.
    pub rows_lost: u64,
    /// Time that counting and judging took.
    pub busy: Duration,
    /// The same of the last minute.
    pub last: Duration,
}

/// The state of the watch, for people.
#[derive(Clone, Debug)]
pub struct Told {
    /// What it does.
    pub phase: Phase,
    /// The first minute that it knows, in nanoseconds since 1970.
    pub since_ns: Option<i64>,
    /// The end of the last minute that was judged.
    pub until_ns: Option<i64>,
    /// What stands out, and what did so within the last day.
    pub findings: Vec<Finding>,
    /// The watched fields.
    pub fields: Vec<FieldView>,
    /// Fields that are not watched, each with the reason.
    pub fields_left_out: Vec<(String, String)>,
    /// Series that are watched.
    pub series: usize,
    /// Values of the last minute without a series.
    pub series_left_out: usize,
    /// New values, and findings, that were not said.
    pub unsaid: (u64, u64),
    /// What it did.
    pub totals: Totals,
    /// Why the last minute could not be counted whole.
    pub error: Option<String>,
}

/// A watch that runs, or is switched off.
pub struct WatchStage {
    watcher: Option<Arc<Watcher>>,
    thread: Option<StageThread>,
}

impl WatchStage {
    /// Starts to watch, if the options say so.
    ///
    /// Errors: the thread cannot be started.
    pub fn start(parts: Parts<'_>) -> Result<WatchStage> {
        if !parts.options.is_enabled {
            return Ok(WatchStage { watcher: None, thread: None });
        }
        let cancelled = Arc::<AtomicBool>::default();
        let reader = Reader {
            lines: parts.lines,
            memory: Arc::clone(parts.memory),
            limits: parts.query_limits,
            cancelled: Arc::clone(&cancelled),
        };
        let watcher = Arc::new(Watcher {
            options: parts.options.clone(),
            reader,
            kept: Kept { rows: parts.rows, state: parts.state },
            clock: Box::new(SystemClock),
            shared: Mutex::default(),
            stop: Stop::default(),
            cancelled,
        });
        let (stages, watch) = (Arc::clone(parts.stages), Arc::clone(&watcher));
        let thread = StageThread::start_as(Role::Query, "watch", move || {
            stages.run("watch", || watch.run());
        })?;
        Ok(WatchStage { watcher: Some(watcher), thread: Some(thread) })
    }

    /// The state; none if the watch is switched off.
    pub fn told(&self) -> Option<Told> {
        self.watcher.as_ref().map(|watcher| watcher.told())
    }

    /// Ends the watch, and keeps what it learnt.
    pub fn close(&self) {
        let (Some(watcher), Some(thread)) = (&self.watcher, &self.thread) else { return };
        watcher.cancelled.store(true, Relaxed);
        watcher.stop.request();
        thread.join();
    }
}

/// The thread's state.
struct Watcher {
    options: WatchOptions,
    reader: Reader,
    kept: Kept,
    clock: Box<dyn Clock>,
    shared: Mutex<Shared>,
    stop: Stop,
    cancelled: Arc<AtomicBool>,
}

#[derive(Default)]
struct Shared {
    board: Board,
    phase: Phase,
    left_out: Vec<(String, String)>,
    totals: Totals,
    error: Option<String>,
}

/// What the loop needs from one minute to the next.
#[derive(Default)]
struct Loop {
    fields: Fields,
    fields_at_ns: i64,
    /// When they are chosen anew, after that.
    fields_every_ns: i64,
    kept_at_ns: i64,
    told_at_ns: i64,
    /// The last minutes and their lines, as they were counted first.
    counted: VecDeque<(i64, f64)>,
    failing: Lasting,
}

impl Watcher {
    fn told(&self) -> Told {
        let shared = lock(&self.shared);
        let board = &shared.board;
        Told {
            phase: shared.phase,
            since_ns: board.since_ns(),
            until_ns: board.until_ns(),
            findings: board.findings(),
            fields: board.fields(),
            fields_left_out: shared.left_out.clone(),
            series: board.series(),
            series_left_out: board.left_out(),
            unsaid: board.unsaid(),
            totals: shared.totals,
            error: shared.error.clone(),
        }
    }

    fn run(&self) {
        while self.watch() {
            tracing::warn!("the clock was set back: what stands out is learnt anew");
            lock(&self.shared).phase = Phase::LearnsPast;
        }
    }

    /// Learns, and judges minutes until the end; true once the clock was set back, so that minutes
    /// come again that were judged.
    fn watch(&self) -> bool {
        // The minute in which the server started was not received whole.
        let mut next_ns = minute_of(self.clock.now_ns()) + MINUTE_NS;
        let mut at = Loop::default();
        if let Some(board) = self.kept.read(self.clock.now_ns()) {
            lock(&self.shared).board = board;
        } else {
            let board = self.past(next_ns - MINUTE_NS, &mut at);
            if self.stop.is_requested() {
                // The next start learns from the whole past.
                return false;
            }
            lock(&self.shared).board = board;
        }
        lock(&self.shared).phase = Phase::Watches;
        at.kept_at_ns = next_ns;
        while !self.stop.is_requested() {
            let now_ns = self.clock.now_ns();
            let delay_ns = text::duration::ns(self.options.delay);
            let due_ns = next_ns + MINUTE_NS + delay_ns;
            if due_ns - now_ns > AHEAD_MAX_NS + delay_ns {
                return true;
            }
            if now_ns < due_ns {
                self.clock.wait(Duration::from_nanos((due_ns - now_ns).unsigned_abs()), &self.stop);
                continue;
            }
            if now_ns - due_ns > BEHIND_MAX_NS {
                let missed = (now_ns - due_ns) / MINUTE_NS;
                lock(&self.shared).totals.missed += missed.unsigned_abs();
                next_ns += missed * MINUTE_NS;
                continue;
            }
            self.minute(next_ns, &mut at);
            next_ns += MINUTE_NS;
        }
        self.keep();
        false
    }

    /// Counts and judges the minute that begins at `minute_ns`.
    fn minute(&self, minute_ns: i64, at: &mut Loop) {
        let started = Instant::now();
        let mut errors = Vec::new();
        if minute_ns - at.fields_at_ns >= at.fields_every_ns {
            self.choose_fields(minute_ns + MINUTE_NS, at, &mut errors);
        }
        let end_ns = minute_ns + MINUTE_NS;
        let mut counted = Vec::new();
        for field in at.fields.names() {
            match self.reader.count(field, minute_ns, end_ns) {
                Ok(mut minutes) => counted.push(FieldCounts {
                    field: field.to_owned(),
                    values: minutes.remove(&minute_ns).unwrap_or_default(),
                }),
                Err(error) => errors.push(error),
            }
        }
        if self.stop.is_requested() {
            // What the end interrupted was not counted whole.
            return;
        }
        let late = self.late_lines(minute_ns, &counted, at);
        let news = {
            let mut shared = lock(&self.shared);
            shared.board.observe(minute_ns, &counted, self.options.series_max)
        };
        let now_ns = self.clock.now_ns();
        let lasts = match minute_ns - at.told_at_ns >= TOLD_EVERY_NS {
            true => {
                at.told_at_ns = minute_ns;
                let mut findings = lock(&self.shared).board.findings();
                findings.retain(|finding| finding.until_ns.is_none());
                findings
            }
            false => Vec::new(),
        };
        let lost = self.kept.store(now_ns, &news, &lasts);
        if !news.is_empty() || minute_ns - at.kept_at_ns >= KEPT_EVERY_NS {
            at.kept_at_ns = minute_ns;
            self.keep();
        }
        let failed = errors.len() as u64;
        let error = errors.into_iter().next();
        match at.failing.note(error.clone()) {
            Some(lasting::News::Fails(reason)) => {
                tracing::warn!("what stands out is not known of all fields: {reason}");
            }
            Some(lasting::News::Works) => tracing::info!("all fields are watched again"),
            None => {}
        }
        let took = started.elapsed();
        let mut shared = lock(&self.shared);
        shared.error = error;
        let totals = &mut shared.totals;
        totals.minutes += 1;
        totals.failures += failed;
        totals.late_lines += late;
        totals.rows_lost += lost;
        totals.busy += took;
        totals.last = took;
    }

    /// Lines that came after their minute was counted, some minutes ago.
    fn late_lines(&self, minute_ns: i64, counted: &[FieldCounts], at: &mut Loop) -> u64 {
        // A minute that could not be counted is not one without lines.
        if let Some(all) = counted.iter().find(|counts| counts.field.is_empty()) {
            let lines = all.values.iter().map(|(_, n)| n).sum();
            at.counted.push_back((minute_ns, lines));
        }
        if at.counted.len() <= LATE_MINUTES {
            return 0;
        }
        let Some((then_ns, lines)) = at.counted.pop_front() else { return 0 };
        let now = self.reader.total(then_ns, then_ns + MINUTE_NS).unwrap_or(0);
        now.saturating_sub(lines as u64)
    }

    fn choose_fields(&self, end_ns: i64, at: &mut Loop, errors: &mut Vec<String>) {
        match self.reader.fields(&self.options, end_ns) {
            Ok(fields) => {
                lock(&self.shared).left_out.clone_from(&fields.left_out);
                at.fields = fields;
                at.fields_at_ns = end_ns - MINUTE_NS;
                at.fields_every_ns = (at.fields_every_ns * 2).clamp(MINUTE_NS, FIELDS_EVERY_NS);
            }
            Err(error) => errors.push(error),
        }
    }

    /// A board that has learnt from the lines before `end_ns`.
    fn past(&self, end_ns: i64, at: &mut Loop) -> Board {
        let mut board = Board::new();
        let mut start_ns = end_ns - minute_of(text::duration::ns(self.options.history));
        loop {
            match self.reader.total(start_ns, end_ns) {
                Ok(lines) if lines > PAST_LINES_MAX => {
                    start_ns += minute_of((end_ns - start_ns) / 2).max(MINUTE_NS);
                }
                Ok(_) => break,
                Err(_) => return board,
            }
        }
        let mut errors = Vec::new();
        self.choose_fields(end_ns, at, &mut errors);
        while start_ns < end_ns && !self.stop.is_requested() && errors.is_empty() {
            let until_ns = (start_ns + PAST_MINUTES * MINUTE_NS).min(end_ns);
            let mut of_fields = Vec::new();
            for field in at.fields.names() {
                match self.reader.count(field, start_ns, until_ns) {
                    Ok(minutes) => of_fields.push((field.to_owned(), minutes)),
                    Err(error) => errors.push(error),
                }
            }
            while start_ns < until_ns {
                let counts: Vec<FieldCounts> = of_fields
                    .iter_mut()
                    .map(|(field, minutes)| FieldCounts {
                        field: field.clone(),
                        values: minutes.remove(&start_ns).unwrap_or_default(),
                    })
                    .collect();
                // Without any line, nobody knows whether the server ran.
                if counts.iter().any(|counts| !counts.values.is_empty()) {
                    board.observe(start_ns, &counts, self.options.series_max);
                }
                start_ns += MINUTE_NS;
            }
        }
        if let Some(error) = errors.first() {
            tracing::warn!("what stands out begins with a part of the past: {error}");
        }
        board
    }

    fn keep(&self) {
        let body = {
            let shared = lock(&self.shared);
            if shared.phase == Phase::LearnsPast {
                return;
            }
            serde_json::to_vec(&shared.board)
        };
        self.kept.keep(body.unwrap_or_default());
    }
}

/// The start of the minute of a time.
fn minute_of(time_ns: i64) -> i64 {
    time_ns - time_ns.rem_euclid(MINUTE_NS)
}

#[cfg(test)]
mod tests;
