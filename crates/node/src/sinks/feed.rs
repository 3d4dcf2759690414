//! What reads the store for a sink and makes documents.

use std::sync::Arc;

use record::Batch;
use sinks::Batch as Documents;

use crate::storage::arrivals::Arrivals;

/// Bytes of lines that are read together; their documents are one batch.
pub const READ_BYTES: u64 = 2 << 20;

/// Makes batches in order.
pub trait Feed: Send {
    /// The documents behind those of the last call, with the cursor behind them; `None` if there
    /// are none yet. The first call begins at the cursor that the feed was made with. Errors are
    /// sentences; after one, the call is repeated.
    fn next(&mut self) -> Result<Option<Documents>, String>;

    /// The cursor behind the documents of the last call.
    fn cursor(&self) -> String;

    /// How far behind the newest line the documents of the last call are, in frames of lines.
    fn frames_left(&self) -> u64 {
        0
    }
}

/// Reads lines in the order of arrival.
pub struct ArrivalReader {
    arrivals: Arc<dyn Arrivals>,
    cursor: String,
}

impl ArrivalReader {
    /// A reader behind `cursor`; without one from now on, or from the first line.
    pub fn new(
        arrivals: Arc<dyn Arrivals>,
        cursor: Option<&str>,
        from_beginning: bool,
    ) -> Result<ArrivalReader, String> {
        let cursor = match (cursor, from_beginning) {
            (Some(cursor), _) => {
                arrivals.check(cursor)?;
                cursor.to_owned()
            }
            (None, true) => arrivals.first()?,
            (None, false) => arrivals.now()?,
        };
        Ok(ArrivalReader { arrivals, cursor })
    }

    /// The cursor behind what was read.
    pub fn cursor(&self) -> &str {
        &self.cursor
    }

    /// Reads some lines; `None` if there are none.
    pub fn read(&mut self) -> Result<Option<Vec<Arc<Batch>>>, String> {
        let Some(arrived) = self.arrivals.after(&self.cursor, READ_BYTES)? else { return Ok(None) };
        self.cursor = arrived.next;
        if let Some(skipped) = arrived.skipped.told(&self.cursor) {
            tracing::warn!("{skipped}");
        }
        Ok(Some(arrived.batches))
    }

    /// Reads again from a cursor, which [`cursor`](Self::cursor) gave.
    pub fn go_back(&mut self, cursor: String) {
        self.cursor = cursor;
    }

    /// Frames that were not read, about.
    pub fn frames_left(&self) -> u64 {
        self.arrivals.frames_left(&self.cursor)
    }
}
