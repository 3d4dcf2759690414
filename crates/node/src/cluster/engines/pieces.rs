//! The part of a query that one node answers: frames of its partitions, and segments.

use std::cmp::Reverse;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cluster::{HotError, ObjectName};
use query::source::{ScanUnit, Source, SourceError, TimeRange, Whose};
use record::{Batch, LineId};
use serde::{Deserialize, Serialize};

use super::Engines;
use super::partition::HotUnit;
use super::segments::ObjectBlock;

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
}

impl Pieces {
    /// The first name that no node of a cluster gives to a segment.
    pub fn wrong_name(&self) -> Option<&str> {
        let names = self.segments.iter().map(|SegmentPiece(name, _)| name.as_str());
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
);

/// Offsets of a partition that the node owns.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct HotPiece {
    /// The partition.
    pub partition: u32,
    /// The first offset.
    pub from: u64,
    /// The first offset that is not wanted.
    pub until: u64,
}

/// The pieces as a source.
pub struct PiecesSource {
    engines: Arc<Engines>,
    segments: Vec<SegmentPiece>,
    /// The frames of one partition after the other.
    frames: Vec<Arc<HotUnit>>,
}

impl PiecesSource {
    /// Takes the frames, and waits for those that the node has not read yet. Blocks.
    ///
    /// Errors: the node cannot answer for the offsets, and the query has to plan again.
    pub fn gather(engines: &Arc<Engines>, pieces: Pieces) -> Result<PiecesSource, HotError> {
        let until = Instant::now() + CATCH_UP_MAX;
        let mut frames = Vec::new();
        for piece in &pieces.hot {
            frames.extend(read_hot(engines, piece, until)?);
        }
        Ok(PiecesSource { engines: Arc::clone(engines), segments: pieces.segments, frames })
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

fn read_hot(
    engines: &Engines,
    piece: &HotPiece,
    until: Instant,
) -> Result<Vec<Arc<HotUnit>>, HotError> {
    loop {
        let partition = engines.owned(piece.partition).ok_or(HotError::NotOwner)?;
        let now_ns = engines.clock.monotonic_ns();
        match partition.hot.read(piece.from, piece.until, now_ns) {
            Ok(frames) => {
                let unit = |hot| Arc::new(HotUnit::new(&partition, hot));
                return Ok(frames.into_iter().map(unit).collect());
            }
            Err(HotError::Behind { .. }) if Instant::now() < until => {
                partition.hot.wait_for(piece.until, CATCH_UP_TICK);
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
                units.push(Box::new(SharedUnit(Arc::clone(frame))));
            }
        }
        if whose == Whose::All {
            for rows in self.summary_rows()? {
                units.push(Box::new(RowsUnit(rows)));
            }
        }
        for file in self.engines.segments.open_all(&self.segments)? {
            let blocks = ObjectBlock::of_file(&file, (range.start_ns, last_ns), whose);
            units.extend(blocks.map(|block| Box::new(block) as Box<dyn ScanUnit>));
        }
        // Newest first, after those whose times are not known yet.
        units.sort_by_key(|unit| Reverse(unit.time_range_ns().map_or(i64::MAX, |times| times.1)));
        Ok(units)
    }

    fn find(&self, id: LineId) -> Result<Option<Arc<Batch>>, SourceError> {
        if let Some(frame) = self.frames.iter().find(|frame| frame.has(id)) {
            return frame.load();
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
                    return Ok(Some(Arc::new(batch)));
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
}
