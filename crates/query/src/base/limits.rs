//! The limits of a query, its progress, and what it did.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

#[cfg(doc)]
use super::RunError;

/// Rows between two checks of the time limit and of cancellation.
pub const CHECK_ROWS: usize = 4_096;

/// Counts what a query did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Rows sent.
    pub rows: u64,
    /// Lines read.
    pub lines_scanned: u64,
    /// Units that were skipped because they hold none of the words that the filter needs.
    pub units_skipped: u64,
    /// Units that retention deleted while the query ran.
    pub units_gone: u64,
    /// The client stopped the query.
    pub stopped: bool,
}

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
}
