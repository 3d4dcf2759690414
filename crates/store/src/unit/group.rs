//! Groups of small neighbouring frames of a hot segment, which queries read as one. A client that
//! sends one line per request makes a frame of each, and a query over ten thousand such frames
//! would spend its time on the fixed cost of each frame.
//!
//! Groups depend on the frames alone, from the first of the segment on, and do not change when
//! frames are appended: the last frames, which later ones may join, are in no group. Once
//! [`GROUP_QUERIES`] queries have met a group, it is handed out; its reader merges the records and
//! caches them, in addition to those of the frames.
//!
//! Left out: groups across segments, and frames that are not parsed yet, with all frames behind
//! them.

use std::ops::Range;
use std::sync::Arc;

use record::Batch;
use record::frame::FRAME_INTERNAL;
use segment::FrameEntry;
use segment::tokens::TokenHash;

use crate::position::Position;
use crate::segments::cache::{GROUP_FILTER, GROUP_NEVER, GroupState};
use crate::segments::hot::{HotIndex, HotSegment};
use crate::segments::table::SegmentTable;
use crate::sync::read;
use crate::unit::frame::{FrameHandle, Words};

/// Frames per group. A larger group leaves more trailing frames ungrouped, up to twice as many.
const GROUP_FRAMES: usize = 128;
/// Most lines of a group, and of a frame in a group: the fixed cost of a larger one is small beside
/// its lines.
const GROUP_LINES_MAX: u64 = 4_096;
const FRAME_LINES_MAX: u32 = 512;
/// Most bytes of the lines of a group, for the same reason.
const GROUP_BYTES_MAX: u64 = 1 << 20;
/// Queries that must meet a group before it is made: merging its lines takes as long as searching
/// them a few times.
const GROUP_QUERIES: u32 = 4;

/// Frames of a hot segment that are read as one.
#[derive(Clone)]
pub struct FrameGroup {
    segments: Arc<SegmentTable>,
    segment: Arc<HotSegment>,
    frames: Range<u32>,
    lines: u64,
    bytes: u64,
    batch: Option<Arc<Batch>>,
}

impl FrameGroup {
    /// The records of all its frames, if they are in memory.
    pub fn batch(&self) -> Option<&Arc<Batch>> {
        self.batch.as_ref()
    }

    /// Lines in it.
    pub fn lines(&self) -> u64 {
        self.lines
    }

    /// Whether all its lines were made by Loginson itself.
    pub fn is_internal(&self) -> bool {
        let index = read(&self.segment.index);
        index.frames[self.frames.start as usize].flags & FRAME_INTERNAL != 0
    }

    /// Bytes of its lines with their newlines.
    pub fn payload_bytes(&self) -> u64 {
        self.bytes
    }

    /// Its frames, in their order.
    pub fn frames(&self) -> Vec<FrameHandle> {
        let index = read(&self.segment.index);
        let handle = |frame: u32| FrameHandle {
            segments: self.segments.clone(),
            segment: self.segment.clone(),
            frame,
            entry: index.frames[frame as usize],
        };
        self.frames.clone().map(handle).collect()
    }

    /// Caches the records of all its frames, as long as there is room; None: they cannot be merged.
    pub fn put(&mut self, batch: Option<Arc<Batch>>) {
        let position = self.position();
        self.segments.keep(self.segment.id, &self.segment.fate, |cache| {
            cache.put_group(position, batch.clone());
        });
        self.batch = batch;
    }

    /// Returns for each set of words whether a line of the group may contain all of them in values
    /// of its fields, as [`FrameHandle::may_contain`].
    pub fn may_contain(&self, sets: &[Vec<TokenHash>]) -> Option<Vec<bool>> {
        let (position, number) = (self.position(), GROUP_FILTER);
        let (segments, segment) = (&self.segments, &self.segment);
        Words { segments, segment, position, number, lines: self.lines }
            .may_contain(sets, || self.batch.clone())
    }

    /// The indexes of its frames in the segment.
    pub(crate) fn places(&self) -> Range<usize> {
        self.frames.start as usize..self.frames.end as usize
    }

    fn position(&self) -> Position {
        Position { segment: self.segment.id, frame: self.frames.start }
    }
}

/// The groups of a segment that hold event times from the first to the second instant, and that
/// enough queries have met. Ascending, as are their frames.
pub(crate) fn groups_of(
    segments: &Arc<SegmentTable>,
    segment: &Arc<HotSegment>,
    index: &HotIndex,
    range_ns: (i64, i64),
) -> Vec<FrameGroup> {
    let mut groups = Vec::new();
    each_group(&index.frames, |frames| {
        let entries = &index.frames[frames.clone()];
        let inside = |entry: &FrameEntry| {
            let times = entry.time_range_ns();
            times.is_some_and(|(min, max)| min <= range_ns.1 && range_ns.0 <= max)
        };
        if !entries.iter().any(inside) {
            return;
        }
        let frames = frames.start as u32..frames.end as u32;
        let position = Position { segment: segment.id, frame: frames.start };
        let state = segments.keep(segment.id, &segment.fate, |cache| cache.group(position));
        let batch = match state {
            Some(GroupState::Made(batch)) => Some(batch),
            Some(GroupState::Queried(times)) if (GROUP_QUERIES..GROUP_NEVER).contains(&times) => {
                None
            }
            Some(GroupState::Queried(_)) | None => return,
        };
        let lines = entries.iter().map(|entry| u64::from(entry.lines)).sum();
        let bytes = entries.iter().map(|entry| u64::from(entry.payload_bytes)).sum();
        let (segments, segment) = (segments.clone(), segment.clone());
        groups.push(FrameGroup { segments, segment, frames, lines, bytes, batch });
    });
    groups
}

/// Calls `each` with the indexes of the frames of each group.
fn each_group(entries: &[FrameEntry], mut each: impl FnMut(Range<usize>)) {
    let (mut from, mut lines, mut bytes) = (0, 0, 0);
    let is_internal = |entry: &FrameEntry| entry.flags & FRAME_INTERNAL != 0;
    for (place, entry) in entries.iter().enumerate() {
        let (own_lines, own_bytes) = (u64::from(entry.lines), u64::from(entry.payload_bytes));
        let is_large = entry.lines > FRAME_LINES_MAX || own_bytes > GROUP_BYTES_MAX;
        let is_unknown = entry.time_range_ns().is_none();
        let is_full = place - from == GROUP_FRAMES
            || lines + own_lines > GROUP_LINES_MAX
            || bytes + own_bytes > GROUP_BYTES_MAX;
        let is_other = place > from && is_internal(entry) != is_internal(&entries[place - 1]);
        if is_large || is_full || is_unknown || is_other {
            if place - from > 1 && !is_unknown {
                each(from..place);
            }
            if is_unknown {
                return;
            }
            from = if is_large { place + 1 } else { place };
            (lines, bytes) = (0, 0);
        }
        if !is_large {
            lines += own_lines;
            bytes += own_bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use record::{Format, FrameBuilder, Origin, Transport};

    use super::*;

    fn entry(lines: u32, is_parsed: bool) -> FrameEntry {
        let mut builder = FrameBuilder::new();
        let origin = Origin::new(Transport::SyslogTcp, Format::Syslog, None);
        (0..lines).for_each(|_| {
            builder.push_line(&origin, 1, b"x", false);
        });
        let frame = builder.finish(1, 1).expect("it has lines");
        let mut entry = FrameEntry::new(0, frame.header());
        if is_parsed {
            entry.set_time_range_ns((1, 2));
        }
        entry
    }

    fn groups(lines: &[u32], unknown: Option<usize>) -> Vec<(usize, usize)> {
        let entry = |(place, &lines): (usize, &u32)| entry(lines, unknown != Some(place));
        let entries: Vec<FrameEntry> = lines.iter().enumerate().map(entry).collect();
        let mut groups = Vec::new();
        each_group(&entries, |group| groups.push((group.start, group.end)));
        // Frames that are appended do not change earlier groups.
        for end in 0..entries.len() {
            let mut before = Vec::new();
            each_group(&entries[..end], |group| before.push((group.start, group.end)));
            assert!(groups.starts_with(&before), "{before:?} {groups:?}");
        }
        groups
    }

    #[test]
    fn what_is_a_group() {
        let ones = [1; 2 * GROUP_FRAMES];
        assert!(groups(&ones[..GROUP_FRAMES], None).is_empty());
        assert_eq!(groups(&ones[..GROUP_FRAMES + 1], None), [(0, GROUP_FRAMES)]);
        assert_eq!(groups(&ones, None), [(0, GROUP_FRAMES)]);
        // Large frames are in no group, and end the group before them.
        let large = FRAME_LINES_MAX + 1;
        assert_eq!(groups(&[1, 1, large, 1, large, large, 1, 1, 1, large], None), [(0, 2), (6, 9)]);
        assert_eq!(groups(&[FRAME_LINES_MAX; 10], None), [(0, 8)]);
        // No frame behind an unparsed frame is in a group.
        assert_eq!(groups(&[1, 1, large, 1, 1, large], Some(3)), [(0, 2)]);
        assert!(groups(&[], None).is_empty());
    }
}
