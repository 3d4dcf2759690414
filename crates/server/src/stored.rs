//! What queries read: a snapshot of the store's frames, parsed once and kept in memory, or parsed now.

use std::sync::{Arc, Mutex};

use query::source::{ScanUnit, Source, SourceError, TimeRange};
use record::{Batch, Frame, LineId, Parser};
use store::{FrameHandle, Store};

/// Parsers kept for the next query. More queries at a time make their own and drop them.
const PARSERS_KEPT: usize = 8;

/// Parsers for many threads: each parse has one of its own.
pub struct Parsers {
    pattern: Parser,
    idle: Mutex<Vec<Parser>>,
}

impl Parsers {
    /// Parsers that are all like `pattern`.
    pub fn new(pattern: Parser) -> Self {
        Parsers { pattern, idle: Mutex::default() }
    }

    /// The records of a frame.
    pub fn parse(&self, frame: Arc<Frame>) -> Batch {
        let idle = || self.idle.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let mut parser = idle().pop().unwrap_or_else(|| self.pattern.clone());
        let batch = parser.parse(frame);
        let mut idle = idle();
        if idle.len() < PARSERS_KEPT {
            idle.push(parser);
        }
        batch
    }

    /// The records of a stored frame: those in memory, or parsed now and kept. None when retention deleted it.
    pub fn load(&self, handle: &FrameHandle) -> Result<Option<Arc<Batch>>, store::StoreError> {
        if let Some(batch) = handle.cached() {
            return Ok(Some(batch));
        }
        let Some(frame) = handle.read_frame()? else { return Ok(None) };
        let batch = Arc::new(self.parse(frame));
        handle.put(Arc::clone(&batch));
        Ok(Some(batch))
    }
}

/// The frames of the store as a source of records.
pub struct StoredFrames {
    store: Arc<Store>,
    parsers: Arc<Parsers>,
}

impl StoredFrames {
    /// The frames of `store`.
    pub fn new(store: Arc<Store>, parsers: Arc<Parsers>) -> Self {
        StoredFrames { store, parsers }
    }
}

impl Source for StoredFrames {
    fn units(&self, range: TimeRange) -> Result<Vec<Box<dyn ScanUnit>>, SourceError> {
        if range.start_ns >= range.end_ns {
            return Ok(Vec::new());
        }
        let last_ns = if range.end_ns == i64::MAX { i64::MAX } else { range.end_ns - 1 };
        let handles = self.store.snapshot((range.start_ns, last_ns));
        let unit = |handle| {
            Box::new(Unit { handle, parsers: Arc::clone(&self.parsers) }) as Box<dyn ScanUnit>
        };
        Ok(handles.into_iter().map(unit).collect())
    }

    fn find(&self, id: LineId) -> Result<Option<Arc<Batch>>, SourceError> {
        match self.store.find_sequence(id.sequence) {
            Some(handle) => {
                self.parsers.load(&handle).map_err(|error| SourceError(error.to_string()))
            }
            None => Ok(None),
        }
    }
}

struct Unit {
    handle: FrameHandle,
    parsers: Arc<Parsers>,
}

impl ScanUnit for Unit {
    fn time_range_ns(&self) -> Option<(i64, i64)> {
        self.handle.time_range()
    }

    fn lines(&self) -> u64 {
        self.handle.lines()
    }

    fn bytes(&self) -> u64 {
        self.handle.payload_bytes()
    }

    fn load(&self) -> Result<Option<Arc<Batch>>, SourceError> {
        self.parsers.load(&self.handle).map_err(|error| SourceError(error.to_string()))
    }
}
