//! What a program did since the start, for the page and for metrics.

use programs::sandbox::Applied;
use programs::{Rejected, RowError};

/// Numbers of one program since the start of the server, or since it was changed.
#[derive(Clone, Debug, Default)]
pub struct Status {
    /// Lines that it got; those of buckets that were computed again count again.
    pub lines: u64,
    /// Rows that were stored.
    pub rows: u64,
    /// Buckets whose rows were stored.
    pub buckets: u64,
    /// Buckets with late lines whose rows stayed, because other lines of them may be gone.
    pub stayed: u64,
    /// Attempts that failed.
    pub failures: u64,
    /// Lines of output that are no rows.
    pub rejected: u64,
    /// The first of those, of the last bucket that had any.
    pub last_rejected: Vec<RowError>,
    /// When rows were last stored, nanoseconds since 1970 UTC.
    pub last_run_ns: Option<i64>,
    /// The last failure.
    pub last_error: Option<LastError>,
    /// Failures without a success between them.
    pub failures_in_a_row: u32,
    /// What the sandbox applied to the last process.
    pub sandbox: Option<Applied>,
}

/// A failure.
#[derive(Clone, Debug)]
pub struct LastError {
    /// When, nanoseconds since 1970 UTC.
    pub time_ns: i64,
    /// Start of the bucket, nanoseconds since 1970 UTC.
    pub bucket_ns: i64,
    /// What happened, as a sentence.
    pub message: String,
    /// The end of what the program wrote to stderr.
    pub stderr: String,
}

impl Status {
    /// Counts lines of output that are no rows.
    pub fn note_rejected(&mut self, rejected: &Rejected) {
        self.rejected += rejected.lines;
        if !rejected.first.is_empty() {
            self.last_rejected.clone_from(&rejected.first);
        }
    }
}
