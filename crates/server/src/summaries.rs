//! Reads the stored rows of the summary back: for charts.
//!
//! Rows stand in frames of their own, few among many. Which frames those are is remembered once known (by the parse
//! stage for new ones, by the first chart that reads them for older ones), so that a chart of a day does not read a
//! day of lines. The memory for that is some 30 bytes a frame of the store.

use std::collections::HashMap;
use std::sync::Mutex;

use record::{Frame, Transport};
use store::{Position, Store, StoreError};
use summary::{SummaryRow, stored_rows};

use crate::stored::Parsers;

/// Knows the frames that hold rows of the summary.
#[derive(Default)]
pub struct Summaries {
    /// Whether the frame at a position is one.
    known: Mutex<HashMap<Position, bool>>,
}

impl Summaries {
    /// Takes note of a frame.
    pub fn saw(&self, position: Position, frame: &Frame) {
        let mut known = self.known.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        known.insert(position, is_own(frame));
    }

    /// Calls `each` with the stored rows whose buckets begin between the two instants, both inclusive, and which count
    /// no further than `settled_through`.
    pub fn read(
        &self,
        store: &Store,
        parsers: &Parsers,
        range_ns: (i64, i64),
        settled_through: Option<u64>,
        mut each: impl FnMut(SummaryRow),
    ) -> Result<(), StoreError> {
        for handle in store.snapshot(range_ns) {
            let position = handle.position();
            let known = self
                .known
                .lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner)
                .get(&position)
                .copied();
            if known == Some(false) {
                continue;
            }
            if known.is_none() {
                let Some(frame) = handle.read_frame()? else { continue };
                self.saw(position, &frame);
                if !is_own(&frame) {
                    continue;
                }
            }
            let Some(batch) = parsers.load(&handle)? else { continue };
            for row in stored_rows(&batch, settled_through) {
                if (range_ns.0..=range_ns.1).contains(&row.time_ns) {
                    each(row);
                }
            }
        }
        Ok(())
    }
}

fn is_own(frame: &Frame) -> bool {
    frame.origins().iter().any(|origin| origin.transport == Transport::Internal)
}
