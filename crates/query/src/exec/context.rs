//! What the caller passes to a run besides the query, how far the run is, and why it may end early.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use platform::memory::Exhausted;

use super::meter::Account;
use crate::exec::ordered::TimeOrder;
use crate::exec::queue::{Hold, QueryInfo};
use crate::filter::Filter;
use crate::source::{SourceError, TimeRange};
#[cfg(doc)]
use crate::syntax::query::Query;

/// Resources that a query may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Time from start to end. Beyond it the query fails with [`RunError::TimeLimit`].
    pub run_time: Duration,
    /// Memory of groups, sorted rows and the like. Beyond it the query fails with
    /// [`RunError::MemoryLimit`].
    pub memory_bytes_max: u64,
    /// Rows sent to the client. Beyond it the query fails with [`RunError::RowLimit`].
    pub rows_max: u64,
    /// Threads that read and filter.
    pub threads: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            run_time: Duration::from_secs(60),
            memory_bytes_max: 512 << 20,
            rows_max: 10_000_000,
            threads: 1,
        }
    }
}

/// Progress of a query; shared with the list of queries.
#[derive(Debug, Default)]
pub struct Progress {
    /// Units left by the time range; 0 until they are listed.
    pub units_planned: AtomicU64,
    /// Units that were read or skipped.
    pub units_done: AtomicU64,
    /// Bytes of raw lines in the planned units.
    pub bytes_planned: AtomicU64,
    /// Bytes of raw lines read.
    pub bytes_scanned: AtomicU64,
    /// Lines read.
    pub lines_scanned: AtomicU64,
    /// Rows sent to the client.
    pub rows: AtomicU64,
    /// Memory held now by pipes and by the units being read, in bytes.
    pub memory_bytes: AtomicU64,
}

impl Progress {
    /// Share of the work that is done, from 0 to 1.
    pub fn share(&self) -> f64 {
        let (planned, done) = (self.bytes_planned.load(Relaxed), self.bytes_scanned.load(Relaxed));
        if planned == 0 { 0.0 } else { (done as f64 / planned as f64).min(1.0) }
    }

    /// Sets the numbers to those of a query that was listed before.
    pub(crate) fn restore(&self, info: &QueryInfo) {
        self.units_planned.store(info.blocks_planned, Relaxed);
        self.units_done.store(info.blocks_done, Relaxed);
        self.bytes_planned.store(info.bytes_planned, Relaxed);
        self.bytes_scanned.store(info.bytes_scanned, Relaxed);
        self.lines_scanned.store(info.lines_scanned, Relaxed);
        self.rows.store(info.rows, Relaxed);
    }
}

/// The arguments of a run besides the query.
#[derive(Clone, Debug)]
pub struct Context {
    /// Range of event times; the query's own `_time` narrows it further.
    pub range: TimeRange,
    /// Send only this many rows: the newest lines, or the first rows where a pipe makes the rows.
    pub limit: Option<usize>,
    /// Rows to skip before `limit` applies.
    pub offset: usize,
    /// Read the oldest units first. A limit then keeps the rows that are read first.
    pub oldest_first: bool,
    /// Send rows in order of time, the oldest first; a limit then keeps the oldest. Where a pipe
    /// makes rows of its own, this only makes the oldest units be read first.
    pub order: Option<TimeOrder>,
    /// Computed fields to add to rows that are lines: `_line_id`, `_line`, `_received`.
    pub include: Vec<String>,
    /// Filter for the lines that the query may see, whatever it selects. See [`Query::restricted`].
    pub restriction: Option<Arc<Filter>>,
    /// Resources that the query may use.
    pub limits: Limits,
    /// Counts the memory of the query and of whatever assembles its answer.
    pub account: Arc<Account>,
    /// Receives the progress.
    pub progress: Arc<Progress>,
    /// Set by others to cancel the query.
    pub cancelled: Arc<AtomicBool>,
    /// Lets others pause the query.
    pub hold: Hold,
}

impl Context {
    /// Checks that a query that began at `started` may continue: not cancelled, within its time
    /// limit. Blocks while the query is paused.
    pub fn check(&self, started: Instant) -> Result<(), RunError> {
        self.hold.pass(&self.cancelled);
        if self.cancelled.load(Relaxed) {
            return Err(RunError::Cancelled);
        }
        let (run_time, elapsed) = (self.limits.run_time, started.elapsed());
        // The pause time is read, under a lock, only once it can change the outcome.
        match elapsed > run_time && elapsed.saturating_sub(self.hold.held()) > run_time {
            true => Err(RunError::TimeLimit(run_time.as_secs_f64())),
            false => Ok(()),
        }
    }
}

impl Default for Context {
    fn default() -> Self {
        Context {
            range: TimeRange::ALL,
            limit: None,
            offset: 0,
            oldest_first: false,
            order: None,
            include: Vec::new(),
            restriction: None,
            limits: Limits::default(),
            account: Arc::default(),
            progress: Arc::default(),
            cancelled: Arc::default(),
            hold: Hold::default(),
        }
    }
}

/// Why a query ended early. The text is for the user.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The query was cancelled.
    #[error("the query was cancelled")]
    Cancelled,
    /// The query exceeded its time limit.
    #[error(
        "the query took longer than {0} s; narrow its time range or filter, or raise its timeout or \
         query.run_max"
    )]
    TimeLimit(f64),
    /// The query exceeded its memory limit.
    #[error(
        "the query needs more than {0} bytes of memory; narrow its time range, group by fewer values or add \
         a limit, or raise query.memory_bytes_max"
    )]
    MemoryLimit(u64),
    /// All queries, tails and inserts together exceeded the memory budget.
    #[error("{0}")]
    Budget(Exhausted),
    /// Pipes gave rows too many fields.
    #[error(
        "the pipes of the query give rows more than {0} fields; let them copy or unpack fewer fields"
    )]
    FieldLimit(usize),
    /// The query has too many result rows.
    #[error(
        "the query has more than {0} rows; narrow its time range or filter, add a limit, or raise query.rows_max"
    )]
    RowLimit(u64),
    /// A query inside a filter gives too many values.
    #[error(
        "a query inside contains_any() or contains_all() gives more than {0} different values; narrow it, or \
         compare whole values with in()"
    )]
    ValuesLimit(usize),
    /// A pipe made a value that is too long.
    #[error(
        "a pipe of the query makes a value longer than {0} bytes; let it put together fewer or shorter fields"
    )]
    ValueLimit(usize),
    /// Pipes gave a row values that are too long together.
    #[error(
        "a row of the query has more than {0} bytes; let its pipes copy or put together fewer or shorter fields"
    )]
    RowBytesLimit(usize),
    /// A partial state from another process cannot be used.
    #[error("a partial result cannot be used: {0}")]
    PartialState(&'static str),
    /// A side did not carry out its share. The text names it.
    #[error("{0}")]
    Side(String),
    /// A task that is not a query, but held a place in the queue, failed.
    #[error("{0}")]
    Failed(String),
    /// The store could not be read.
    #[error("cannot read the stored lines: {0}")]
    Source(#[from] SourceError),
}
