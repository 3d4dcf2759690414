//! Reads the stored rows of the summary back: for charts, and to find where counting goes on after
//! a start.
//!
//! Rows stand in frames of their own, and in blocks of their own once they are sealed; few among
//! many. The store's index and the footers of sealed segments say which, so that a chart of a day
//! does not read a day of lines.

use store::{ArrivalCursor, FrameHandle, Position, Store, StoreError};
use summary::{SummaryRow, stored_rows};

use crate::storage::stored::Parsers;

/// Calls `each` with the stored rows whose buckets begin between the two instants, both inclusive,
/// and which count no further than `settled_through`.
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

/// The greatest place that stored rows count up to: that of the newest hot frame of rows, or of all
/// that is sealed.
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

/// Set in marks that are sequence numbers. Those of earlier versions are places of frames in hot
/// segments: segment << 32 | frame; so all of today are greater.
const SEQUENCE_MARK: u64 = 1 << 62;

/// The mark of what is counted up to a frame.
pub fn mark(cursor: ArrivalCursor) -> u64 {
    SEQUENCE_MARK | cursor.through
}

/// The sequence number of the last frame that a mark counts; none of one of an earlier version.
pub fn sequence_of(mark: u64) -> Option<u64> {
    (mark & SEQUENCE_MARK != 0).then_some(mark & !SEQUENCE_MARK)
}

/// Where counting goes on behind the greatest mark. With one of an earlier version, all that is
/// sealed is counted, and of hot frames those up to its place.
pub fn cursor(store: &Store, greatest: Option<u64>, hot: &[FrameHandle]) -> ArrivalCursor {
    let first = store.first_arrival();
    let Some(greatest) = greatest else { return first };
    if let Some(through) = sequence_of(greatest) {
        return ArrivalCursor { through, ..first };
    }
    let place = Position { segment: greatest >> 32, frame: greatest as u32 };
    let left = hot.iter().filter(|handle| handle.position() > place).map(FrameHandle::sequence);
    let through = left.min().map_or_else(|| store.durable_now().through, |least| least - 1);
    ArrivalCursor { through, ..first }
}
