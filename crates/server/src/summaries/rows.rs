//! Reads the stored rows of the summary back: for charts, and to find where counting goes on after a start.
//!
//! Rows stand in frames of their own, and in blocks of their own once they are sealed; few among many. The store's
//! index and the footers of sealed segments say which, so that a chart of a day does not read a day of lines.

use store::{FrameHandle, Position, Store, StoreError};
use summary::{SummaryRow, stored_rows};

use crate::storage::stored::Parsers;

/// Calls `each` with the stored rows whose buckets begin between the two instants, both inclusive, and which count
/// no further than `settled_through`.
pub fn read(
    store: &Store,
    parsers: &Parsers,
    range_ns: (i64, i64),
    settled_through: Option<u64>,
    mut each: impl FnMut(SummaryRow),
) -> Result<(), StoreError> {
    for unit in store.snapshot(range_ns)?.iter().filter(|unit| unit.is_internal()) {
        let Some(batch) = parsers.load(unit)? else { continue };
        for row in stored_rows(&batch, settled_through) {
            if (range_ns.0..=range_ns.1).contains(&row.time_ns) {
                each(row);
            }
        }
    }
    Ok(())
}

/// The greatest place that stored rows count up to: that of the newest hot frame of rows, or of all that is sealed.
pub fn settled_through(store: &Store, hot: &[FrameHandle]) -> Option<u64> {
    let newest = hot.iter().rev().filter(|handle| handle.is_internal());
    let mut marks = newest.filter_map(|handle| match handle.read_frame() {
        Ok(frame) => {
            frame?.origins().iter().filter_map(|origin| origin.hints.summarised_through).max()
        }
        Err(error) => {
            tracing::error!("looking for the end of the summary: {error}");
            None
        }
    });
    marks.next().max(store.summarised_through())
}

/// A position as one number that grows alike: what the summary calls a place. Segments hold far fewer frames than
/// 2³², and there are fewer than 2³² segments.
pub fn place(position: Position) -> u64 {
    position.segment << 32 | u64::from(position.frame)
}

/// The position of a place.
pub fn position(place: u64) -> Position {
    Position { segment: place >> 32, frame: place as u32 }
}
