//! Rows of programs of a cluster: frames in the log, like those of collectors.

use std::sync::{Arc, Mutex, PoisonError};

use cluster::FrameLog;
use record::{FrameBuilder, Origin};

use super::Engines;
use crate::storage::row_store::RowStore;

/// Appends frames of rows, as a producer of its own.
pub struct LogRows {
    engines: Arc<Engines>,
    /// The producer. Each time that a node begins to run the programs it is another one, since its
    /// numbers begin anew, and numbers of a producer have to grow.
    node: u32,
    /// The number of the next frame, and whether rows are accepted.
    state: Mutex<(u64, bool)>,
}

impl LogRows {
    /// Appends nothing yet.
    pub fn new(engines: Arc<Engines>) -> LogRows {
        let now_ms = engines.clock.now_ns().max(0) as u64 / 1_000_000;
        // The time, in case that two producers draw the same number.
        LogRows { engines, node: fastrand::u32(1..), state: Mutex::new((now_ms, true)) }
    }
}

impl RowStore for LogRows {
    fn store(&self, origin: &Origin, lines: &[u8], now_ns: i64) -> Result<(), String> {
        // One at a time, so that the frames of a partition are in the order of their numbers.
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let (number, is_open) = *state;
        if !is_open {
            return Err("another node runs the programs now".to_owned());
        }
        let log = &*self.engines.log;
        let partitions = FrameLog::partitions(log).map_err(|error| error.to_string())?;
        let mut builder = FrameBuilder::new();
        builder.push_lines(origin, now_ns, lines);
        let Some(frame) = builder.finish(self.node, number) else { return Ok(()) };
        // A number is used once, also when it is not known whether the frame is in the log.
        state.0 += 1;
        let partition = (number % u64::from(partitions.max(1))) as u32;
        let appended = FrameLog::append(log, partition, &[frame.bytes()]);
        appended.map(drop).map_err(|error| error.to_string())
    }

    fn close(&self) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).1 = false;
    }
}
