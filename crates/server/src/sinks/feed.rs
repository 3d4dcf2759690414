//! What reads the store for a sink and makes documents.

use std::sync::Arc;

use sinks::Batch as Documents;
use store::{ArrivalCursor, Arrivals, FrameHandle, Store, StoreError};

use crate::storage::stored::Parsers;

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
    store: Arc<Store>,
    parsers: Arc<Parsers>,
    cursor: ArrivalCursor,
}

impl ArrivalReader {
    /// A reader behind `cursor`; without one from now on, or from the first line.
    pub fn new(
        store: Arc<Store>,
        parsers: Arc<Parsers>,
        cursor: Option<ArrivalCursor>,
        from_beginning: bool,
    ) -> ArrivalReader {
        let first = store.first_arrival();
        let begin = || match from_beginning {
            true => first,
            false => ArrivalCursor { through: store.durable_now().through, ..first },
        };
        let cursor = cursor.unwrap_or_else(begin);
        ArrivalReader { store, parsers, cursor }
    }

    /// The cursor behind what was read.
    pub fn cursor(&self) -> ArrivalCursor {
        self.cursor
    }

    /// Reads some lines; `None` if there are none.
    pub fn read(&mut self) -> Result<Option<Arrivals>, StoreError> {
        let load = |handle: &FrameHandle| self.parsers.load_arrival(handle);
        let (arrivals, next) = self.store.read_after(self.cursor, READ_BYTES, &load)?;
        if next == self.cursor {
            return Ok(None);
        }
        self.cursor = next;
        if arrivals.skipped > 0 {
            tracing::warn!(
                "at most {} lines up to {next} were deleted by retention before a sink read them",
                arrivals.skipped
            );
        }
        Ok(Some(arrivals))
    }

    /// Frames that were not read, about.
    pub fn frames_left(&self) -> u64 {
        self.store.durable_now().through.saturating_sub(self.cursor.through)
    }
}
