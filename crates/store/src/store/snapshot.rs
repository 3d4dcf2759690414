//! Snapshots of the store: for queries, and for the parse stage.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use record::LineId;
use record::frame::FRAME_FORWARDED;
use segment::sealed::NodeNumbers;

use super::Store;
use crate::config::COMMITTED_FRAMES_MAX;
use crate::error::StoreError;
use crate::position::Position;
use crate::segments::damage::is_damage;
use crate::segments::hot::HotSegment;
use crate::segments::sealed::{SealedSegment, may_hold};
use crate::store_core::write_state::StoreState;
use crate::sync::read;
use crate::unit::frame::{CommittedFrame, FrameHandle};
use crate::unit::group::{FrameGroup, groups_of};
use crate::unit::{BlockHandle, Unit};

/// Numbers below the greatest durable one that are looked at for frames that are not there. It is
/// also the most open numbers that [`Committed`] lists: with more, it ends before the next one.
const OVERTAKEN_MAX: u64 = 1_024;

/// Which frames were durable at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Committed {
    /// The greatest number of a durable frame; a smaller one while more than 1,024 frames with
    /// smaller numbers are on their way. Frames behind it count as not durable.
    pub through: u64,
    /// Numbers below it that were not durable, in order: of frames that were on their way, or that
    /// no frame ever has.
    pub missing: Vec<u64>,
}

impl Store {
    /// The units that may hold event times from the first to the second instant, both inclusive,
    /// nanoseconds since 1970 UTC. Newest first by their latest event time; units of unknown times
    /// come before. Each line is in one of them, also while segments are being sealed or merged.
    ///
    /// Errors: a sealed segment cannot be read; the text names file and byte.
    pub fn snapshot(&self, range_ns: (i64, i64)) -> Result<Vec<Unit>, StoreError> {
        self.units_in(range_ns, None)
    }

    /// As [`snapshot`](Self::snapshot), with small frames in groups that may be read as one: each
    /// line is in one of the groups or units. A group may hold other event times as well.
    ///
    /// Errors: a sealed segment cannot be read; the text names file and byte.
    pub fn snapshot_in_groups(
        &self,
        range_ns: (i64, i64),
    ) -> Result<(Vec<FrameGroup>, Vec<Unit>), StoreError> {
        let mut groups = Vec::new();
        let units = self.units_in(range_ns, Some(&mut groups))?;
        Ok((groups, units))
    }

    fn units_in(
        &self,
        range_ns: (i64, i64),
        mut groups: Option<&mut Vec<FrameGroup>>,
    ) -> Result<Vec<Unit>, StoreError> {
        let segments = self.core.segments.list();
        let mut units = Vec::new();
        for segment in &segments.hot {
            self.frames_of(segment, range_ns, groups.as_deref_mut(), &mut units);
        }
        let inside = |s: &&Arc<SealedSegment>| overlaps(s.time_ns, range_ns);
        for segment in segments.sealed.iter().filter(inside) {
            let blocks =
                self.blocks_of(segment, |block| overlaps(Some(block.time_ns), range_ns))?;
            units.extend(blocks.into_iter().map(Unit::Block));
        }
        units.sort_by_cached_key(|unit| {
            let newest = unit.time_range().map_or(i64::MAX, |(_, max)| max);
            std::cmp::Reverse((unit.time_range().is_none(), newest, unit.position()))
        });
        Ok(units)
    }

    /// The frames that are durable now. A [`snapshot`](Self::snapshot) that is taken later holds
    /// all of them.
    pub fn durable_now(&self) -> Committed {
        // Taken before the list is copied: a frame that becomes durable meanwhile may count as
        // missing, and never as durable before it is.
        let open = self.core.numbers.open();
        let (segments, node) = (self.core.segments.list(), self.core.node);
        let sealed = segments.sealed.iter().filter(|segment| segment.node == node);
        let sealed = sealed.filter_map(|segment| segment.sequence);
        let sealed_through = sealed.map(|(_, last)| last).max().unwrap_or(0);
        let mut hot: Vec<u64> = Vec::new();
        for segment in segments.hot.iter().filter(|segment| segment.node == node) {
            hot.extend(read(&segment.index).frames.iter().map(|entry| entry.sequence));
        }
        hot.sort_unstable();
        committed_of(&open, &hot, sealed_through)
    }

    /// The units that may hold a line; at most one of them does.
    ///
    /// Errors: a sealed segment cannot be read; the text names file and byte.
    pub fn find(&self, id: LineId) -> Result<Vec<Unit>, StoreError> {
        let segments = self.core.segments.list();
        let hot = segments.hot.iter().rev();
        if let Some(frame) = hot.filter_map(|s| self.frame_of(s, id)).next() {
            return Ok(vec![Unit::Frame(frame)]);
        }
        let mut units = Vec::new();
        for segment in segments.sealed.iter().filter(|s| may_hold(&s.numbers, id)) {
            let blocks = self.blocks_of(segment, |block| may_hold(&block.numbers, id))?;
            units.extend(blocks.into_iter().map(Unit::Block));
        }
        Ok(units)
    }

    /// The units that may hold lines of frames that another node built, with the numbers from
    /// `first` to `last`.
    ///
    /// Errors: a sealed segment cannot be read; the text names file and byte.
    pub fn units_of_frames(
        &self,
        node: u32,
        (first, last): (u64, u64),
    ) -> Result<Vec<Unit>, StoreError> {
        let segments = self.core.segments.list();
        let mut units = Vec::new();
        for segment in &segments.hot {
            let index = read(&segment.index);
            let is_among = |entry: &segment::FrameEntry| {
                let is_of_node = entry.node == node && entry.flags & FRAME_FORWARDED != 0;
                is_of_node && (first..=last).contains(&entry.number)
            };
            let places = index.frames.iter().enumerate().filter(|(_, entry)| is_among(entry));
            let handles = places.map(|(place, entry)| self.handle(segment, place, *entry));
            units.extend(handles.map(Unit::Frame));
        }
        let overlap =
            |one: &NodeNumbers| one.node == node && one.first <= last && first <= one.last;
        for segment in segments.sealed.iter().filter(|s| s.numbers.iter().any(overlap)) {
            let blocks = self.blocks_of(segment, |block| block.numbers.iter().any(overlap))?;
            units.extend(blocks.into_iter().map(Unit::Block));
        }
        Ok(units)
    }

    /// The units that may hold lines of this node's frames with a number greater than `sequence`:
    /// frames in the order of their numbers, then blocks of sealed segments, which may hold other
    /// lines as well.
    ///
    /// Errors: a sealed segment cannot be read; the text names file and byte.
    pub fn since(&self, sequence: u64) -> Result<Vec<Unit>, StoreError> {
        let (segments, node) = (self.core.segments.list(), self.core.node);
        let mut frames = Vec::new();
        for segment in &segments.hot {
            let index = read(&segment.index);
            let later =
                |entry: &&segment::FrameEntry| entry.node == node && entry.sequence > sequence;
            let places = index.frames.iter().enumerate().filter(|(_, entry)| later(entry));
            frames.extend(places.map(|(place, entry)| self.handle(segment, place, *entry)));
        }
        frames.sort_by_key(FrameHandle::sequence);
        let mut units: Vec<Unit> = frames.into_iter().map(Unit::Frame).collect();
        let later = |s: &&Arc<SealedSegment>| {
            s.node == node && s.sequence.is_some_and(|(_, last)| last > sequence)
        };
        for segment in segments.sealed.iter().filter(later) {
            let blocks = self.blocks_of(segment, |block| block.sequence.1 > sequence)?;
            units.extend(blocks.into_iter().map(Unit::Block));
        }
        Ok(units)
    }

    /// The cursor just before the first frame of a hot segment whose event times are unknown: where
    /// the parse stage starts. Sealed lines are parsed.
    pub fn first_unparsed(&self) -> Position {
        let mut end = Position::START;
        for segment in &self.core.segments.hot() {
            let index = read(&segment.index);
            if index.times_unknown > 0 {
                let unknown = index.frames.iter().position(|e| e.time_range_ns().is_none());
                let frame = unknown.expect("it was counted") as u32;
                return Position { segment: segment.id, frame }.before();
            }
            if let Some(last) = index.frames.len().checked_sub(1) {
                end = Position { segment: segment.id, frame: last as u32 };
            }
        }
        end
    }

    /// Lines in the frames of hot segments behind a cursor.
    pub fn lines_after(&self, after: Position) -> u64 {
        let lines = |segment: &Arc<HotSegment>| {
            let index = read(&segment.index);
            if segment.id > after.segment {
                return index.totals.lines;
            }
            let from = (after.frame as usize).saturating_add(1).min(index.frames.len());
            index.frames[from..].iter().map(|entry| u64::from(entry.lines)).sum()
        };
        self.core
            .segments
            .hot()
            .iter()
            .filter(|segment| segment.id >= after.segment)
            .map(lines)
            .sum()
    }

    /// The frames of hot segments, in the order in which they became durable.
    pub fn hot_frames(&self) -> Vec<FrameHandle> {
        let mut frames = Vec::new();
        for segment in &self.core.segments.hot() {
            let index = read(&segment.index);
            let places = 0..index.frames.len();
            frames.extend(places.map(|place| self.handle(segment, place, index.frames[place])));
        }
        frames
    }

    /// The first frames behind a cursor, in the order in which they became durable, at most 64;
    /// frames of sealed segments are left out. Waits for one up to `timeout`. Returns none after
    /// that time, or at once when the store is closed and no frame is left, or `is_over`, which is
    /// asked again after [`Store::wake_waiters`].
    pub fn wait_committed(
        &self,
        after: Position,
        timeout: Duration,
        is_over: impl Fn() -> bool,
    ) -> Vec<CommittedFrame> {
        let frames = self.core.progress.wait_for(timeout, |over| {
            let frames = self.committed(after);
            let is_closed = self.core.write_state.is(&StoreState::Closed);
            (!frames.is_empty() || over || is_closed || is_over()).then_some(frames)
        });
        frames.unwrap_or_default()
    }

    /// Lets those who wait for frames ask whether they have to.
    pub fn wake_waiters(&self) {
        self.core.progress.note_change();
    }

    fn committed(&self, after: Position) -> Vec<CommittedFrame> {
        let mut frames = Vec::new();
        for segment in self.core.segments.hot().iter().filter(|s| s.id >= after.segment) {
            let index = read(&segment.index);
            let from = match segment.id == after.segment {
                true => (after.frame as usize).saturating_add(1),
                false => 0,
            };
            for place in from..index.frames.len() {
                let handle = self.handle(segment, place, index.frames[place]);
                let (position, sequence) = (handle.position(), handle.sequence());
                frames.push(CommittedFrame { position, sequence, handle });
                if frames.len() == COMMITTED_FRAMES_MAX {
                    return frames;
                }
            }
        }
        frames
    }

    fn frames_of(
        &self,
        segment: &Arc<HotSegment>,
        range_ns: (i64, i64),
        groups: Option<&mut Vec<FrameGroup>>,
        units: &mut Vec<Unit>,
    ) {
        let index = read(&segment.index);
        if index.times_unknown == 0 && !overlaps(index.totals.time_ns, range_ns) {
            return;
        }
        let mut add = |places: Range<usize>| {
            let entries = places.clone().zip(&index.frames[places]);
            let inside = entries.filter(|(_, entry)| {
                let times = entry.time_range_ns();
                times.is_none() || overlaps(times, range_ns)
            });
            units.extend(
                inside.map(|(place, entry)| Unit::Frame(self.handle(segment, place, *entry))),
            );
        };
        let mut from = 0;
        if let Some(groups) = groups {
            for group in groups_of(&self.core.segments, segment, &index, range_ns) {
                let places = group.places();
                add(from..places.start);
                from = places.end;
                groups.push(group);
            }
        }
        add(from..index.frames.len());
    }

    fn frame_of(&self, segment: &Arc<HotSegment>, id: LineId) -> Option<FrameHandle> {
        let index = read(&segment.index);
        let name = (id.node, id.sequence);
        let place = index.frames.iter().position(|entry| entry.name() == name)?;
        Some(self.handle(segment, place, index.frames[place]))
    }

    /// The wanted blocks of a sealed segment; none when it was deleted meanwhile.
    fn blocks_of(
        &self,
        segment: &Arc<SealedSegment>,
        wanted: impl Fn(&segment::sealed::BlockEntry) -> bool,
    ) -> Result<Vec<BlockHandle>, StoreError> {
        match self.core.segments.open_checked(segment) {
            Ok(file) => Ok(BlockHandle::of_segment(&self.core.segments, segment, &file, wanted)),
            Err(_) if segment.fate.may_be_gone() => Ok(Vec::new()),
            // Whoever reads it is told; the other segments can be read.
            Err(error) if is_damage(&error) => {
                Ok(vec![BlockHandle::of_damaged(&self.core.segments, segment)])
            }
            Err(error) => Err(error.into()),
        }
    }

    fn handle(
        &self,
        segment: &Arc<HotSegment>,
        place: usize,
        entry: segment::FrameEntry,
    ) -> FrameHandle {
        FrameHandle {
            segments: self.core.segments.clone(),
            segment: segment.clone(),
            frame: place as u32,
            entry,
        }
    }
}

fn overlaps(times: Option<(i64, i64)>, range: (i64, i64)) -> bool {
    times.is_some_and(|(min, max)| min <= range.1 && range.0 <= max)
}

/// Which frames are durable, by the numbers of frames that may be on their way, by those of hot
/// frames, both ascending, and by the greatest number of a sealed frame. While the disk is full,
/// rows of the summary overtake all frames that wait, and may be sealed before these are durable.
fn committed_of(open: &[u64], hot: &[u64], sealed_through: u64) -> Committed {
    let is_hot = |number: &u64| hot.binary_search(number).is_ok();
    let mut through = hot.last().copied().unwrap_or(0).max(sealed_through);
    let first = through.saturating_sub(OVERTAKEN_MAX).max(sealed_through) + 1;
    let overtaken = open.iter().copied().take_while(|number| *number < first);
    let mut missing: Vec<u64> = overtaken.filter(|number| !is_hot(number)).collect();
    match missing.get(OVERTAKEN_MAX as usize).copied() {
        Some(next) => {
            through = next - 1;
            missing.truncate(OVERTAKEN_MAX as usize);
        }
        None => missing.extend((first..through).filter(|number| !is_hot(number))),
    }
    Committed { through, missing }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_on_its_way_is_not_durable_however_many_overtake_it() {
        let check = |open: &[u64], hot: &[u64], sealed_through, through, missing: &[u64]| {
            let found = committed_of(open, hot, sealed_through);
            assert_eq!(found, Committed { through, missing: missing.to_vec() });
        };
        check(&[], &[], 0, 0, &[]);
        check(&[7, 8], &[4, 6], 3, 6, &[5]);
        check(&[5, 7], &[4, 6], 3, 6, &[5]);
        // A frame is open a little longer than it takes to become durable.
        check(&[4, 5], &[4, 6], 3, 6, &[5]);
        // Numbers that no frame has are not open; of sealed frames they are not known.
        check(&[], &[], 9, 9, &[]);
        check(&[3, 5], &[], 9, 9, &[3, 5]);
        check(&[3, 5], &[10, 12], 9, 12, &[3, 5, 11]);
        let far: Vec<u64> = std::iter::once(2).chain(3_977..5_000).collect();
        check(&[2], &[1, 5_000], 0, 5_000, &far[..]);
        let waiting: Vec<u64> = (101..=101 + OVERTAKEN_MAX).collect();
        let most = &waiting[..OVERTAKEN_MAX as usize];
        check(most, &[], 5_000, 5_000, most);
        check(&waiting[..], &[6_000], 5_000, 100 + OVERTAKEN_MAX, most);
    }
}
