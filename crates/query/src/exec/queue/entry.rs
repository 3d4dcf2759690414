//! The entry of a query in the queue, and how the list shows it.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Condvar};
use std::time::{Duration, Instant, SystemTime};

use super::owners::Used;
use super::places::{Places, QueryState};
use crate::base::{Pauses, Progress, TimeRange};

/// Bytes of a query's text that are listed; the rest is cut off.
const LISTED_TEXT_BYTES_MAX: usize = 4_096;
/// Share of the work below which the remaining time cannot be estimated.
const PROGRESS_MIN: f64 = 0.005;

/// A query as it is listed.
#[derive(Clone, Debug, PartialEq)]
pub struct QueryInfo {
    /// Names the query; counts up from 1.
    pub id: u64,
    /// `query`, `hits`, `tail`, …
    pub kind: String,
    /// Its text, cut off when it is very long.
    pub query: String,
    /// The time range that the query reads; none where it has none, or none was reported.
    pub range: Option<TimeRange>,
    /// The present state.
    pub state: QueryState,
    /// Position in the line, from 1, while the query waits.
    pub position: Option<usize>,
    /// When the query arrived.
    pub started: SystemTime,
    /// How long it waited for a place.
    pub wait: Duration,
    /// How long it has run, or ran, without pauses.
    pub run: Duration,
    /// Estimated remaining time while the query runs, if the rest goes as fast as the work so far.
    pub left: Option<Duration>,
    /// Share of the work that is done, from 0 to 1.
    pub progress: f64,
    /// Blocks and frames to read; 0 until they are listed.
    pub blocks_planned: u64,
    /// Blocks and frames that were read or skipped.
    pub blocks_done: u64,
    /// Bytes of raw lines in the planned blocks and frames.
    pub bytes_planned: u64,
    /// Bytes of raw lines read.
    pub bytes_scanned: u64,
    /// Lines read.
    pub lines_scanned: u64,
    /// Rows sent.
    pub rows: u64,
    /// Memory held by its pipes now, in bytes.
    pub memory_bytes: u64,
    /// Why the query failed.
    pub error: Option<String>,
    /// The client that sent the query.
    pub client: String,
}

/// How a thread of a query sleeps in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sleep {
    /// Until it looks by itself whether somebody's turn is over.
    ToLook,
    /// Until it is woken, or has waited for too long.
    ToWait,
}

/// The entry of a query in the queue.
pub(super) struct QueueEntry {
    pub kind: String,
    pub query: String,
    pub client: String,
    pub range: Option<TimeRange>,
    pub started: SystemTime,
    pub came: Instant,
    pub ran_from: Option<Instant>,
    /// Since when the query has had its present turn; none while it has none.
    pub turn_from: Option<Instant>,
    /// How and when the query ended; none while it runs, waits, or is paused.
    pub ended: Option<(QueryState, Instant)>,
    /// Times that the query waited and ran before this entry: in an earlier process, or before it
    /// was resumed.
    pub before: (Duration, Duration),
    pub error: Option<String>,
    pub progress: Arc<Progress>,
    pub cancelled: Arc<AtomicBool>,
    pub pauses: Arc<Pauses>,
    /// How many of its threads sleep, by how they do.
    pub sleepers: [u32; 2],
    /// Wakes them. Each query has its own, so that a place that becomes free wakes the query that
    /// gets it, and not all that wait.
    pub woken: Arc<Condvar>,
}

/// The user, or the address where nobody logs in, of a client.
pub(super) fn owner_of(client: &str) -> &str {
    match client.split_once(' ') {
        Some((name, _)) => name,
        None => client.rsplit_once(':').map_or(client, |(address, _)| address),
    }
}

impl QueueEntry {
    /// The user, or the address where nobody logs in, that shares are counted for. `client` is an
    /// address with a port, behind a name and a space if there is one.
    pub fn owner(&self) -> &str {
        owner_of(&self.client)
    }

    pub fn new(kind: &str, query: &str, client: &str, started: SystemTime) -> QueueEntry {
        let cut = query.floor_char_boundary(LISTED_TEXT_BYTES_MAX);
        QueueEntry {
            kind: kind.to_owned(),
            query: query[..cut].to_owned(),
            client: client.to_owned(),
            range: None,
            started,
            came: Instant::now(),
            ran_from: None,
            turn_from: None,
            ended: None,
            before: (Duration::ZERO, Duration::ZERO),
            error: None,
            progress: Arc::default(),
            cancelled: Arc::default(),
            pauses: Arc::default(),
            sleepers: [0, 0],
            woken: Arc::default(),
        }
    }

    /// How long the query waited for its place, and how long it ran without pauses.
    pub fn times(&self) -> (Duration, Duration) {
        let end = self.ended.map_or_else(Instant::now, |(_, at)| at);
        let wait = self.ran_from.unwrap_or(end).saturating_duration_since(self.came);
        let since =
            self.ran_from.map_or(Duration::ZERO, |from| end.saturating_duration_since(from));
        let run = since.saturating_sub(self.pauses.time(end));
        (self.before.0 + wait, self.before.1 + run)
    }

    /// What the query took.
    pub fn used(&self) -> Used {
        Used {
            queries: 1,
            refused: 0,
            run: self.times().1,
            lines_scanned: self.progress.lines_scanned.load(Relaxed),
            bytes_scanned: self.progress.bytes_scanned.load(Relaxed),
            rows: self.progress.rows.load(Relaxed),
        }
    }

    /// Sets the progress to that of a query that was listed before.
    pub fn restore_progress(&self, info: &QueryInfo) {
        self.progress.units_planned.store(info.blocks_planned, Relaxed);
        self.progress.units_done.store(info.blocks_done, Relaxed);
        self.progress.bytes_planned.store(info.bytes_planned, Relaxed);
        self.progress.bytes_scanned.store(info.bytes_scanned, Relaxed);
        self.progress.lines_scanned.store(info.lines_scanned, Relaxed);
        self.progress.rows.store(info.rows, Relaxed);
    }

    pub fn info(&self, id: u64, places: &Places) -> QueryInfo {
        let progress = &self.progress;
        let live = || places.state(id).expect("it has not ended");
        let state = self.ended.map_or_else(live, |(state, _)| state);
        let share = if state == QueryState::Done { 1.0 } else { progress.share() };
        let (wait, run) = self.times();
        let left = (state == QueryState::Running && share >= PROGRESS_MIN)
            .then(|| (run - self.before.1).mul_f64((1.0 - share) / share));
        QueryInfo {
            id,
            kind: self.kind.clone(),
            query: self.query.clone(),
            range: self.range,
            state,
            position: places.position(id),
            started: self.started,
            wait,
            run,
            left,
            progress: share,
            blocks_planned: progress.units_planned.load(Relaxed),
            blocks_done: progress.units_done.load(Relaxed),
            bytes_planned: progress.bytes_planned.load(Relaxed),
            bytes_scanned: progress.bytes_scanned.load(Relaxed),
            lines_scanned: progress.lines_scanned.load(Relaxed),
            rows: progress.rows.load(Relaxed),
            memory_bytes: progress.memory_bytes.load(Relaxed),
            error: self.error.clone(),
            client: self.client.clone(),
        }
    }
}
