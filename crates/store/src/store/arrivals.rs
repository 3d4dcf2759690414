//! Reading in the order of arrival, with a durable cursor: how stages that lag behind, such as the
//! summary, programs and sinks, resume.
//!
//! The order is that of sequence numbers, which a line keeps when it is sealed, merged and
//! re-encoded. So a cursor is a number: all lines of frames up to it were read. It points to a
//! frame that was durable, and therefore is there after any crash, or was deleted.
//!
//! Invariants: a reader that resumes with the cursor of each answer reads each acknowledged line
//! once, unless the line was deleted before; lines come in the order of their frames, and of their
//! positions there. Lines that retention deleted before they were read are
//! [reported](Arrivals::skipped).
//!
//! Left out: lines that a deletion or a retention rule removed from a segment, since users want
//! them gone; and frames that were refused but are found after a crash that followed a failed
//! write, since readers may have passed their numbers.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use record::columns::{ColumnError, Columns};
use record::{Batch, Row};
use segment::SegmentError;
use segment::sealed::{BlockColumns, BlockEntry};

use super::Store;
use crate::error::StoreError;
use crate::segments::SegmentList;
use crate::segments::hot::HotSegment;
use crate::segments::sealed::SealedSegment;
use crate::store_core::write_state::StoreState;
use crate::sync::read;
use crate::unit::BlockHandle;
use crate::unit::frame::FrameHandle;

/// Most restarts of one read because retention deleted what it had just found.
const RETRIES_MAX: usize = 100;

/// Where reading resumes in one store: behind all lines of frames up to a number. Text:
/// `a1-NODE-NUMBER`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ArrivalCursor {
    /// The store's node: numbers mean nothing elsewhere.
    pub node: u32,
    /// The number of the last frame whose lines were read; 0 before the first.
    pub through: u64,
}

/// Not a cursor.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is no cursor of arrivals; expected a1-NODE-NUMBER, for example a1-5f3a09c1-1042")]
pub struct NoArrivalCursor(String);

impl fmt::Display for ArrivalCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a1-{:08x}-{}", self.node, self.through)
    }
}

impl FromStr for ArrivalCursor {
    type Err = NoArrivalCursor;

    fn from_str(text: &str) -> Result<Self, NoArrivalCursor> {
        let read = || {
            let (node, through) = text.strip_prefix("a1-")?.split_once('-')?;
            let is_node = node.len() == 8 && node.bytes().all(|byte| byte.is_ascii_hexdigit());
            let is_number = through.bytes().all(|byte| byte.is_ascii_digit());
            if !is_node || !is_number {
                return None;
            }
            let node = u32::from_str_radix(node, 16).ok()?;
            Some(ArrivalCursor { node, through: through.parse().ok()? })
        };
        read().ok_or_else(|| NoArrivalCursor(text.chars().take(100).collect()))
    }
}

/// What [`Store::read_after`] found.
#[derive(Clone, Debug, Default)]
pub struct Arrivals {
    /// Records. Each batch has only lines behind the old cursor and up to the new one.
    pub batches: Vec<Arc<Batch>>,
    /// An upper bound of the lines that retention deleted before they were read: of a segment that
    /// was read in part, all are counted.
    pub skipped: u64,
    /// An upper bound of the lines in damaged blocks or segments; the log names these.
    pub unreadable: u64,
    order: Vec<ArrivalKey>,
}

/// Sort key of a line: number of its frame, position there; and where it is: batch, row of the
/// batch.
type ArrivalKey = (u64, u32, u32, u32);

impl Arrivals {
    /// Number of lines.
    pub fn lines(&self) -> usize {
        self.order.len()
    }

    /// Whether there are no lines.
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// The lines in the order of arrival.
    pub fn rows(&self) -> impl Iterator<Item = Row<'_>> {
        let row = |&(_, _, batch, row): &ArrivalKey| self.batches[batch as usize].row(row as usize);
        self.order.iter().map(row)
    }

    fn add(&mut self, batch: Arc<Batch>) {
        let place = self.batches.len() as u32;
        let of = |row: Row<'_>| (row.sequence(), row.id().line, place, row.index());
        self.order.extend(batch.rows().map(of));
        self.batches.push(batch);
    }
}

/// Reads the records of a frame. None when it was deleted meanwhile.
pub type LoadFrame<'a> = &'a dyn Fn(&FrameHandle) -> Result<Option<Arc<Batch>>, StoreError>;

/// A frame that is not read yet, with its number.
struct HotFrame<'a> {
    sequence: u64,
    segment: &'a Arc<HotSegment>,
    place: usize,
}

/// A block with unread lines, and the first and last number that these may have.
struct UnreadBlock {
    first: u64,
    last: u64,
    block: BlockHandle,
}

impl Store {
    /// The cursor before the first line.
    pub fn first_arrival(&self) -> ArrivalCursor {
        ArrivalCursor { node: self.core.node, through: 0 }
    }

    /// Reads the lines behind a cursor, hot and sealed, in the order of arrival: those of at least
    /// one frame, and of further ones up to about `bytes_max` bytes. Also returns the cursor to
    /// resume with, which is unchanged when there is nothing yet. `load` reads and parses frames of
    /// hot segments.
    ///
    /// Errors: the cursor is of another store; a segment cannot be read, the text names file and
    /// byte. Then the cursor has not moved.
    pub fn read_after(
        &self,
        cursor: ArrivalCursor,
        bytes_max: u64,
        load: LoadFrame<'_>,
    ) -> Result<(Arrivals, ArrivalCursor), StoreError> {
        self.read_through(cursor, u64::MAX, bytes_max, load)
    }

    /// As [`read_after`](Self::read_after), but reads no frame with a number greater than `last`.
    pub fn read_through(
        &self,
        cursor: ArrivalCursor,
        last: u64,
        bytes_max: u64,
        load: LoadFrame<'_>,
    ) -> Result<(Arrivals, ArrivalCursor), StoreError> {
        let node = self.core.node;
        if cursor.node != node {
            let text = format!("the cursor {cursor} is of another store; this one is {node:08x}");
            return Err(StoreError::Refused(text));
        }
        for _ in 0..RETRIES_MAX {
            let found = self.try_read((cursor.through, last), bytes_max, load)?;
            if let Some((mut arrivals, through)) = found {
                arrivals.skipped = self.core.segments.departed_between(cursor.through, through);
                arrivals.order.sort_unstable();
                return Ok((arrivals, ArrivalCursor { node, through }));
            }
        }
        let text =
            format!("retention deletes lines behind the cursor {cursor} as fast as they are read");
        Err(StoreError::Refused(text))
    }

    /// Waits until there may be lines behind a cursor, at most for `timeout`; returns at once when
    /// the store is closed.
    pub fn wait_after(&self, cursor: ArrivalCursor, timeout: Duration) {
        let _ = self.core.progress.wait_for(timeout, |over| {
            let is_closed = self.core.write_state.is(&StoreState::Closed);
            let has_more = self.durable_now().through > cursor.through;
            (over || is_closed || has_more).then_some(())
        });
    }

    /// One attempt to read. Returns the lines and the number through which they go; None when a
    /// segment was deleted meanwhile, and the attempt must be repeated.
    fn try_read(
        &self,
        (after, last): (u64, u64),
        bytes_max: u64,
        load: LoadFrame<'_>,
    ) -> Result<Option<(Arrivals, u64)>, StoreError> {
        // Taken before the list is copied: frames that are decided by now are in the list, or
        // deleted.
        let decided = self.core.numbers.decided(self.core.clock.monotonic_ns());
        let before = decided.min(last.saturating_add(1));
        let segments = self.core.segments.list();
        let frames = self.frames_after(&segments, after, before);
        let mut damaged = Vec::new();
        let blocks = self.blocks_after(&segments, (after, before), &mut damaged)?;
        let Some(blocks) = blocks else { return Ok(None) };
        let first_frame = frames.first().map_or(u64::MAX, |frame| frame.sequence);
        let first_block = blocks.first().map_or(u64::MAX, |block| block.first);
        let found = if first_frame < first_block {
            let of_these = frames.iter().take_while(|frame| frame.sequence < first_block);
            self.read_frames(of_these, after, bytes_max, load)?
        } else if blocks.is_empty() {
            Some((Arrivals::default(), after))
        } else {
            read_blocks(&blocks, after, first_frame.min(before), bytes_max)?
        };
        let Some((mut arrivals, through)) = found else { return Ok(None) };
        for (last, lines, error) in damaged {
            if last <= through {
                tracing::error!("a damaged segment is passed over: {error}");
                arrivals.unreadable += lines;
            }
        }
        Ok(Some((arrivals, through)))
    }

    /// Frames of hot segments that this store numbered, behind a number and before another, in
    /// order.
    fn frames_after<'s>(
        &self,
        segments: &'s SegmentList,
        after: u64,
        before: u64,
    ) -> Vec<HotFrame<'s>> {
        let mut frames = Vec::new();
        for segment in segments.hot.iter().filter(|segment| segment.node == self.core.node) {
            let index = read(&segment.index);
            if index.totals.sequence.is_none_or(|(_, last)| last <= after) {
                continue;
            }
            for (place, entry) in index.frames.iter().enumerate() {
                if after < entry.sequence && entry.sequence < before {
                    frames.push(HotFrame { sequence: entry.sequence, segment, place });
                }
            }
        }
        frames.sort_unstable_by_key(|frame| frame.sequence);
        frames
    }

    /// Blocks with lines behind a number and before another, by the first number that those may
    /// have. None: a segment was deleted meanwhile. `damaged` gets, for each damaged segment, its
    /// last number, its lines, and the error.
    fn blocks_after(
        &self,
        segments: &SegmentList,
        (after, before): (u64, u64),
        damaged: &mut Vec<(u64, u64, SegmentError)>,
    ) -> Result<Option<Vec<UnreadBlock>>, StoreError> {
        let mut blocks = Vec::new();
        let has_more = |s: &&Arc<SealedSegment>| {
            s.node == self.core.node && s.sequence.is_some_and(|(_, last)| last > after)
        };
        for segment in segments.sealed.iter().filter(has_more) {
            let file = match self.core.segments.open_sealed(segment) {
                Ok(file) => file,
                Err(_) if segment.fate.may_be_gone() => return Ok(None),
                Err(error @ SegmentError::Io { .. }) => return Err(error.into()),
                Err(error) => {
                    let last = segment.sequence.map_or(0, |(_, last)| last);
                    damaged.push((last, segment.lines, error));
                    continue;
                }
            };
            let wanted = |entry: &BlockEntry| entry.sequence.1 > after && entry.sequence.0 < before;
            let found = BlockHandle::of_segment(&self.core.segments, segment, &file, wanted);
            blocks.extend(found.into_iter().map(|block| {
                let (first, last) = file.footer().blocks[block.block as usize].sequence;
                UnreadBlock { first: first.max(after + 1), last, block }
            }));
        }
        blocks.sort_by_key(|waiting| waiting.first);
        Ok(Some(blocks))
    }

    fn read_frames<'s>(
        &self,
        frames: impl Iterator<Item = &'s HotFrame<'s>>,
        after: u64,
        bytes_max: u64,
        load: LoadFrame<'_>,
    ) -> Result<Option<(Arrivals, u64)>, StoreError> {
        let (mut arrivals, mut through, mut bytes) = (Arrivals::default(), after, 0);
        for frame in frames {
            let entry = read(&frame.segment.index).frames[frame.place];
            bytes += u64::from(entry.payload_bytes);
            if bytes > bytes_max && through > after {
                break;
            }
            let handle = FrameHandle {
                segments: self.core.segments.clone(),
                segment: frame.segment.clone(),
                frame: frame.place as u32,
                entry,
            };
            match load(&handle) {
                Ok(Some(batch)) => arrivals.add(batch),
                Ok(None) => return Ok(None),
                // A reader that waited for this frame would wait for ever.
                Err(error) => match handle.damage() {
                    Some(damage) => arrivals.unreadable += damage.lines,
                    None => return Err(error),
                },
            }
            through = frame.sequence;
        }
        Ok(Some((arrivals, through)))
    }
}

/// Lines of the first blocks, of frames behind a number and before another.
fn read_blocks(
    blocks: &[UnreadBlock],
    after: u64,
    before: u64,
    bytes_max: u64,
) -> Result<Option<(Arrivals, u64)>, StoreError> {
    // Blocks of one stretch of arrival overlap. So all blocks that have lines of the first frame
    // are read, and as many more as there is room for. Then everything before the first unread
    // block is complete.
    let (mut taken, mut bytes) = (0, 0);
    for waiting in blocks {
        if taken > 0 && waiting.first > blocks[0].first && bytes >= bytes_max {
            break;
        }
        bytes += waiting.block.bytes_raw;
        taken += 1;
    }
    let before = blocks.get(taken).map_or(before, |next| next.first.min(before));
    let mut arrivals = Arrivals::default();
    let mut through = after;
    for waiting in blocks[..taken].iter().filter(|waiting| waiting.first < before) {
        through = through.max(waiting.last.min(before - 1));
        let rows_of = |columns: &BlockColumns<'_>| {
            let sequences = columns.sequences()?.iter().map(|&sequence| sequence as u64);
            let is_wanted = |sequence: u64| after < sequence && sequence < before;
            let rows = (0u32..).zip(sequences).filter(|&(_, sequence)| is_wanted(sequence));
            let rows: Vec<u32> = rows.map(|(row, _)| row).collect();
            if rows.is_empty() {
                return Ok(None);
            }
            columns.batch(&rows).map(Some)
        };
        let read = waiting.block.with_columns(rows_of).and_then(|read| {
            let store_error = |error: ColumnError| match error.downcast::<SegmentError>() {
                Ok(error) => StoreError::from(*error),
                Err(other) => unreachable!("columns of a segment have its errors: {other}"),
            };
            read.map(|batch| batch.map_err(store_error)).transpose()
        });
        match read {
            Ok(Some(batch)) => batch.into_iter().for_each(|batch| arrivals.add(Arc::new(batch))),
            Ok(None) => return Ok(None),
            // The damage is permanent: a reader that waited for this block would wait for ever.
            Err(StoreError::Segment(error)) if !matches!(error, SegmentError::Io { .. }) => {
                if waiting.last < before {
                    tracing::error!("a damaged block is passed over: {error}");
                    arrivals.unreadable += waiting.block.lines;
                }
            }
            Err(error) => return Err(error),
        }
    }
    Ok(Some((arrivals, through)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors_are_texts() {
        let cursor = ArrivalCursor { node: 0xfe, through: u64::MAX };
        assert_eq!(cursor.to_string(), "a1-000000fe-18446744073709551615");
        assert_eq!(cursor.to_string().parse(), Ok(cursor));
        for text in
            ["", "a1-fe-1", "a2-000000fe-1", "a1-000000fe-", "a1-000000fe-+1", "a1-000000fe-1-2"]
        {
            assert!(text.parse::<ArrivalCursor>().is_err(), "{text}");
        }
    }
}
