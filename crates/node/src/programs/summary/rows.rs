//! Reads the stored rows of the summary: for charts, and to find where counting resumes after a
//! start.
//!
//! Rows are in frames of their own, and once sealed in blocks of their own, few among many others.
//! The store's index and the footers of sealed segments say which, so that a chart of a day does
//! not read the lines of a day.

use std::ops::ControlFlow;

use programs::summary::{SummaryRow, stored_rows};
use store::{ArrivalCursor, FrameHandle, Store, StoreError};

use crate::storage::stored::Parsers;

/// Calls `each` with the stored rows whose buckets begin between the two instants, both inclusive,
/// and whose watermark is not above `settled_through`, until it breaks.
pub fn read(
    store: &Store,
    parsers: &Parsers,
    range_ns: (i64, i64),
    settled_through: Option<u64>,
    mut each: impl FnMut(SummaryRow) -> ControlFlow<()>,
) -> Result<(), StoreError> {
    for unit in store.snapshot(range_ns)?.iter().filter(|unit| unit.is_internal()) {
        let Some(batch) = parsers.load(unit)? else { continue };
        for row in stored_rows(&batch, settled_through) {
            if (range_ns.0..=range_ns.1).contains(&row.time_ns) && each(row).is_break() {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// The greatest watermark of stored rows: that of the newest hot frame of rows, or of all sealed
/// rows.
pub fn settled_through(store: &Store, hot: &[FrameHandle]) -> Option<u64> {
    let newest = hot.iter().rev().filter(|handle| handle.is_internal());
    let mut marks = newest.filter_map(|handle| match handle.read_frame() {
        Ok(frame) => {
            // Rows of another store, whose file is here, say nothing about this one.
            let own = frame.filter(|frame| frame.header().node == store.node())?;
            own.origins().iter().filter_map(|origin| origin.hints.summarised_through).max()
        }
        Err(error) => {
            tracing::error!("looking for the end of the summary: {error}");
            None
        }
    });
    marks.next().max(store.summarised_through())
}

/// A bit that is set in all watermarks; the others are a sequence number.
const SEQUENCE_MARK: u64 = 1 << 62;

/// The watermark for lines counted up to a frame.
pub fn mark(cursor: ArrivalCursor) -> u64 {
    SEQUENCE_MARK | cursor.through
}

/// The sequence number of the last frame that a watermark covers.
pub fn sequence_of(mark: u64) -> u64 {
    mark & !SEQUENCE_MARK
}

/// Where counting resumes behind the greatest watermark.
pub fn cursor(store: &Store, greatest: Option<u64>) -> ArrivalCursor {
    let first = store.first_arrival();
    greatest.map_or(first, |mark| ArrivalCursor { through: sequence_of(mark), ..first })
}
