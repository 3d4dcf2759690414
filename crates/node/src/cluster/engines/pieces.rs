//! The part of a query that one node answers: frames of its partitions, and segments.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use cluster::{HotError, NodeId, ObjectName, SegmentRow};
use query::source::{Answers, Damages, ScanUnit, Source, SourceError, TimeRange, UnitKey, Whose};
use record::{Batch, LineId};
use segment::sealed::SealedFile;
use serde::{Deserialize, Serialize};

use super::Engines;
use super::hidden::{Covering, HiddenLines};
use super::partition::HotUnit;
use super::segments::{ObjectBlock, key as object_key};

/// How long an owner that is behind tries to catch up before it refuses.
///
/// limits.md, Nodes of a cluster: wait for an owner that has not read so far | {} | the query is
/// planned again
const CATCH_UP_MAX: Duration = Duration::from_secs(5);
/// How often it checks whether it still owns the partition.
const CATCH_UP_TICK: Duration = Duration::from_millis(200);

/// What a share is to be read from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pieces {
    /// Segments.
    pub segments: Vec<SegmentPiece>,
    /// Frames that are in no segment.
    pub hot: Vec<HotPiece>,
    /// Deletions whose lines are hidden: all of them in frames, and in a segment those that it was
    /// not searched for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hidden: Vec<HiddenLines>,
}

impl Pieces {
    /// The first name that no node of a cluster gives to a segment.
    pub fn wrong_name(&self) -> Option<&str> {
        let names = self.segments.iter().map(|SegmentPiece(name, ..)| name.as_str());
        names.into_iter().find(|name| name.parse::<ObjectName>().is_err())
    }
}

/// A segment in object storage.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SegmentPiece(
    /// The name of its object.
    pub String,
    /// Bytes of the object.
    pub u64,
    /// The last deletion that it was searched for.
    pub u64,
);

impl From<SegmentRow> for SegmentPiece {
    fn from(row: SegmentRow) -> SegmentPiece {
        SegmentPiece(row.name, row.bytes, row.searched)
    }
}

/// Offsets of a partition that the node owns.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct HotPiece {
    /// The partition.
    pub partition: u32,
    /// The first offset.
    pub from: u64,
    /// The first offset that is not wanted.
    pub until: u64,
    /// Whether all frames are wanted that the node has, behind `until` too, because nobody knows
    /// where the partition ends.
    #[serde(default, skip_serializing_if = "is_false")]
    pub open: bool,
}

/// With the id of the node, stands for the segments of blocks beyond those that it lists.
const OTHERS: &str = "others";

fn is_false(flag: &bool) -> bool {
    !flag
}

/// Something that a share was asked for and does not have. Only the answer to a query that may
/// leave it out goes on without it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LeftOut {
    /// Lines of a segment cannot be read.
    Segment {
        /// The name of its object.
        name: String,
        /// How many lines; none: all of it.
        lines: Option<u64>,
        /// Why.
        error: String,
    },
    /// The node has not read so many messages of those that the log told of a partition.
    Behind {
        /// The partition.
        partition: u32,
        /// The messages.
        messages: u64,
    },
}

/// The pieces as a source.
pub struct PiecesSource {
    engines: Arc<Engines>,
    segments: Vec<SegmentPiece>,
    /// The frames of one partition after the other.
    frames: Vec<Arc<HotUnit>>,
    /// Whether the answer may leave out what cannot be read.
    may_leave_out: bool,
    left_out: Mutex<Vec<LeftOut>>,
    covering: Arc<Covering>,
}

/// Why a node cannot answer for pieces.
#[derive(Debug, thiserror::Error)]
pub enum PiecesError {
    /// It does not have the offsets; the query has to plan again.
    #[error(transparent)]
    Hot(#[from] HotError),
    /// The filter of a deletion is not understood.
    #[error("{0}")]
    Filter(String),
}

impl PiecesSource {
    /// Takes the frames, and waits for those that the node has not read yet. Blocks.
    /// `may_leave_out`: segments that cannot be opened are noted, and the others are read.
    ///
    /// Errors: the node cannot answer for the offsets, and the query has to plan again; the filter
    /// of a deletion is not understood.
    pub fn gather(
        engines: &Arc<Engines>,
        pieces: Pieces,
        may_leave_out: bool,
    ) -> Result<PiecesSource, PiecesError> {
        let covering = engines.compiled.covering(pieces.hidden).map_err(PiecesError::Filter)?;
        let covering = Arc::new(covering);
        let until = Instant::now() + CATCH_UP_MAX;
        let (mut frames, mut left_out) = (Vec::new(), Vec::new());
        for piece in &pieces.hot {
            frames.extend(read_hot(engines, piece, until, &mut left_out)?);
        }
        let (engines, segments) = (Arc::clone(engines), pieces.segments);
        let left_out = Mutex::new(left_out);
        Ok(PiecesSource { engines, segments, frames, may_leave_out, left_out, covering })
    }

    /// What was left out so far. `damages`: the blocks that the query passed over.
    pub fn left_out(&self, damages: &Damages) -> Vec<LeftOut> {
        let mut all = self.left_out.lock().unwrap_or_else(PoisonError::into_inner).clone();
        all.extend(unreadable(damages, &self.segments, self.engines.info.node));
        all
    }

    /// The open files of the segments, each with the last deletion that it was searched for. Those
    /// that cannot be opened are left out where they may.
    fn open_segments(&self) -> Result<Vec<(Arc<SealedFile>, u64)>, SourceError> {
        let opened = self.engines.segments.open_each(&self.segments);
        let mut files = Vec::with_capacity(opened.len());
        for (file, SegmentPiece(name, _, searched)) in opened.into_iter().zip(&self.segments) {
            match file {
                Ok(file) => files.push((file, *searched)),
                Err(SourceError(error)) if self.may_leave_out => {
                    let left_out = LeftOut::Segment { name: name.clone(), lines: None, error };
                    let mut all = self.left_out.lock().unwrap_or_else(PoisonError::into_inner);
                    if !all.contains(&left_out) {
                        all.push(left_out);
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Ok(files)
    }

    /// The rows of the summary for the frames, which are in segments with them later.
    fn summary_rows(&self) -> Result<Vec<Arc<Batch>>, SourceError> {
        let mut all = Vec::new();
        let partitions = self.frames.chunk_by(|a, b| Arc::ptr_eq(&a.partition, &b.partition));
        for frames in partitions {
            let oldest = &frames[0];
            let mut batches = Vec::with_capacity(frames.len());
            for frame in frames {
                batches.extend(frame.load()?);
            }
            let Engines { info, summary, clock, .. } = &*self.engines;
            all.extend(oldest.partition.summary_rows(
                &batches,
                oldest.hot.offset,
                info.node.0,
                summary,
                clock.now_ns(),
            ));
        }
        Ok(all)
    }
}

/// The lines of segments that `node` could not read, as far as blocks of them are known.
fn unreadable(damages: &Damages, segments: &[SegmentPiece], node: NodeId) -> Vec<LeftOut> {
    let mut blocks: BTreeMap<u64, (u64, String)> = BTreeMap::new();
    for unit in damages.units() {
        let (lines, error) = blocks.entry(unit.segment).or_default();
        *lines += unit.lines;
        *error = unit.error;
    }
    let mut all = Vec::new();
    let listed: u64 = blocks.values().map(|(lines, _)| lines).sum();
    if let Some(lines) = damages.lines().checked_sub(listed).filter(|lines| *lines > 0) {
        // More blocks than are listed. Other nodes have others, which count beside these.
        let name = format!("{OTHERS}-{node}");
        let error = "see the segments beside it".to_owned();
        all.push(LeftOut::Segment { name, lines: Some(lines), error });
    }
    for SegmentPiece(name, ..) in segments {
        if let Some((lines, error)) = blocks.remove(&object_key(name)) {
            all.push(LeftOut::Segment { name: name.clone(), lines: Some(lines), error });
        }
    }
    all
}

fn read_hot(
    engines: &Engines,
    piece: &HotPiece,
    until: Instant,
    left_out: &mut Vec<LeftOut>,
) -> Result<Vec<Arc<HotUnit>>, HotError> {
    let HotPiece { partition: number, from, until: end, open } = *piece;
    loop {
        let partition = engines.held(number).ok_or(HotError::NotOwner)?;
        let now_ns = engines.clock.monotonic_ns();
        let read = match open {
            true => partition.hot.read_open(from, end, now_ns),
            false => partition.hot.read(from, end, now_ns),
        };
        let read = match read {
            // While the log is away, nothing more comes.
            Err(HotError::Behind { position }) if open && from <= position => {
                left_out.push(LeftOut::Behind { partition: number, messages: end - position });
                partition.hot.read_open(from, from, now_ns)
            }
            read => read,
        };
        match read {
            Ok(frames) => {
                let unit = |hot| Arc::new(HotUnit::new(&partition, hot));
                return Ok(frames.into_iter().map(unit).collect());
            }
            Err(HotError::Behind { .. }) if Instant::now() < until => {
                partition.hot.wait_for(end, CATCH_UP_TICK);
            }
            Err(error) => return Err(error),
        }
    }
}

impl Source for PiecesSource {
    fn units(&self, range: TimeRange, whose: Whose) -> Result<Vec<Box<dyn ScanUnit>>, SourceError> {
        if range.start_ns >= range.end_ns {
            return Ok(Vec::new());
        }
        let last_ns = if range.end_ns == i64::MAX { i64::MAX } else { range.end_ns - 1 };
        let mut units: Vec<Box<dyn ScanUnit>> = Vec::new();
        let is_wanted = |frame: &&Arc<HotUnit>| whose == Whose::All || !frame.is_internal();
        for frame in self.frames.iter().filter(is_wanted) {
            let times = frame.time_range_ns();
            if times.is_none_or(|(first, last)| range.overlaps(first, last)) {
                let unit = Box::new(SharedUnit(Arc::clone(frame)));
                let received_ns = frame.hot.frame.received_range_ns().map(|(first, _)| first);
                units.push(self.covering.hide(unit, 0, received_ns));
            }
        }
        if whose == Whose::All {
            for rows in self.summary_rows()? {
                units.push(Box::new(RowsUnit(rows)));
            }
        }
        for (file, searched) in self.open_segments()? {
            // The counts of a segment have the lines of all its blocks, so no block of it may be
            // counted by them where lines of another one are hidden.
            let is_whole = !self.covering.may_cover_any(searched, &file);
            let blocks = ObjectBlock::of_file(
                &self.engines.segments,
                &file,
                (range.start_ns, last_ns),
                whose,
                is_whole,
            );
            units.extend(blocks.map(|block| self.covering.hide(Box::new(block), searched, None)));
        }
        // Newest first, after those whose times are not known yet.
        units.sort_by_key(|unit| Reverse(unit.time_range_ns().map_or(i64::MAX, |times| times.1)));
        Ok(units)
    }

    fn answers(&self) -> Option<&Answers> {
        Some(&self.engines.answers)
    }

    fn find(&self, id: LineId) -> Result<Option<Arc<Batch>>, SourceError> {
        let shown = |batch: Arc<Batch>, searched| {
            (!self.covering.covers(&batch, searched, id)).then_some(batch)
        };
        if let Some(frame) = self.frames.iter().find(|frame| frame.has(id)) {
            return Ok(frame.load()?.and_then(|batch| shown(batch, 0)));
        }
        // A segment that cannot be read is no reason not to look for the line in the others.
        let mut failed = None;
        for segment in &self.segments {
            let file = match self.engines.segments.open(segment) {
                Ok(file) => file,
                Err(error) => {
                    failed = failed.or(Some(error));
                    continue;
                }
            };
            for (place, block) in file.footer().blocks.iter().enumerate() {
                if !block.numbers.iter().any(|numbers| numbers.may_hold(id.node, id.sequence)) {
                    continue;
                }
                let batch = file.read_block(place).map_err(|e| SourceError(e.to_string()))?;
                if batch.rows().any(|row| row.id() == id) {
                    return Ok(shown(Arc::new(batch), segment.2));
                }
            }
        }
        failed.map_or(Ok(None), Err)
    }
}

/// Rows of the summary.
struct RowsUnit(Arc<Batch>);

impl ScanUnit for RowsUnit {
    fn time_range_ns(&self) -> Option<(i64, i64)> {
        Some(self.0.time_range_ns())
    }

    fn lines(&self) -> u64 {
        self.0.len() as u64
    }

    fn bytes(&self) -> u64 {
        self.0.frame().map_or(0, |frame| frame.bytes().len() as u64)
    }

    fn load(&self) -> Result<Option<Arc<Batch>>, SourceError> {
        Ok(Some(Arc::clone(&self.0)))
    }
}

/// A frame that the source keeps.
struct SharedUnit(Arc<HotUnit>);

impl ScanUnit for SharedUnit {
    fn time_range_ns(&self) -> Option<(i64, i64)> {
        self.0.time_range_ns()
    }

    fn lines(&self) -> u64 {
        self.0.lines()
    }

    fn bytes(&self) -> u64 {
        self.0.bytes()
    }

    fn load(&self) -> Result<Option<Arc<Batch>>, SourceError> {
        self.0.load()
    }

    fn load_lines(
        &self,
        choose: query::source::ChooseLines<'_>,
    ) -> Result<Option<query::source::SomeLines>, SourceError> {
        self.0.load_lines(choose)
    }

    fn key(&self) -> Option<UnitKey> {
        self.0.key()
    }
}

#[cfg(test)]
mod tests {
    use query::source::DamagedUnit;

    use super::*;
    use crate::cluster::{Missing, MissingLines};

    /// While the storage is away, each node has more such blocks than it lists.
    #[test]
    fn lines_that_several_nodes_cannot_read_are_added_up() {
        const BLOCKS: u64 = 2_000;
        let missing = Missing::default();
        for node in 1..=2 {
            let name = format!("segments/partition-{node}/1-00000001-1");
            let damages = Damages::default();
            for block in 0..BLOCKS as u32 {
                let error = "the storage is away".to_owned();
                let segment = object_key(&name);
                damages.add(&DamagedUnit { segment, unit: Some(block), lines: 3, error });
            }
            for left_out in unreadable(&damages, &[SegmentPiece(name, 1, 0)], NodeId(node)) {
                let LeftOut::Segment { name, lines: Some(lines), error } = left_out else {
                    panic!("lines of segments alone");
                };
                let lines = MissingLines { lines, times_ns: (0, 9), error };
                missing.add_segment(&name, &lines).unwrap();
            }
        }
        let text = missing.notices().remove(0).text;
        assert!(text.starts_with(&format!("{} lines between", 2 * 3 * BLOCKS)), "{text}");
        assert!(unreadable(&Damages::default(), &[], NodeId(1)).is_empty());
    }
}
