//! Reads the stored rows of the summary back: for charts, and to find where counting goes on after a start.
//!
//! Rows stand in frames of their own, few among many; the store's index says which, so that a chart of a day does
//! not read a day of lines.

use store::{FrameHandle, Position, Store, StoreError};
use summary::{SummaryRow, stored_rows};

use crate::stored::Parsers;

/// Calls `each` with the stored rows whose buckets begin between the two instants, both inclusive, and which count
/// no further than `settled_through`.
pub fn read(
    store: &Store,
    parsers: &Parsers,
    range_ns: (i64, i64),
    settled_through: Option<u64>,
    mut each: impl FnMut(SummaryRow),
) -> Result<(), StoreError> {
    for handle in store.snapshot(range_ns).iter().filter(|handle| handle.is_internal()) {
        let Some(batch) = parsers.load(handle)? else { continue };
        for row in stored_rows(&batch, settled_through) {
            if (range_ns.0..=range_ns.1).contains(&row.time_ns) {
                each(row);
            }
        }
    }
    Ok(())
}

/// The greatest place that stored rows count up to: that of the newest frame of rows.
pub fn settled_through(frames: &[FrameHandle]) -> Option<u64> {
    let mut ours: Vec<_> = frames.iter().filter(|handle| handle.is_internal()).collect();
    ours.sort_unstable_by_key(|handle| std::cmp::Reverse(handle.position()));
    ours.into_iter().find_map(|handle| match handle.read_frame() {
        Ok(frame) => {
            frame?.origins().iter().filter_map(|origin| origin.hints.summarised_through).max()
        }
        Err(error) => {
            tracing::error!("looking for the end of the summary: {error}");
            None
        }
    })
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
