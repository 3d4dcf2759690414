//! The units that a query reads: a frame of a hot segment, or a block of a sealed one.

pub(crate) mod frame;
pub(crate) mod group;

use std::sync::Arc;

use record::columns::{ColumnError, Columns};
use record::{Batch, Tenant};
use segment::SegmentError;
use segment::sealed::{BlockColumns, SealedFile};
use segment::tokens::TokenHash;

use crate::error::StoreError;
use crate::position::Position;
use crate::segments::cache::{Cache, FILTER};
use crate::segments::damage::{DamagedLines, is_damage};
use crate::segments::sealed::SealedSegment;
use crate::segments::table::SegmentTable;
use crate::unit::frame::FrameHandle;

/// A piece of the store that is read as a whole. Each line is in one unit of a snapshot, whatever
/// is sealed, merged or rewritten while the snapshot is in use: a unit reads what was there when
/// the snapshot was taken, unless it was deleted.
#[derive(Clone)]
pub enum Unit {
    /// A frame of a hot segment; its reader parses it.
    Frame(FrameHandle),
    /// A block of a sealed segment.
    Block(BlockHandle),
}

impl Unit {
    /// Earliest and latest event time, both inclusive, nanoseconds since 1970 UTC; none before
    /// parsing.
    pub fn time_range(&self) -> Option<(i64, i64)> {
        match self {
            Unit::Frame(frame) => frame.time_range(),
            Unit::Block(block) => Some(block.time_ns),
        }
    }

    /// Lines in it.
    pub fn lines(&self) -> u64 {
        match self {
            Unit::Frame(frame) => frame.lines(),
            Unit::Block(block) => block.lines,
        }
    }

    /// Returns for each set of words whether a line of the unit may contain all of them in values
    /// of its fields. None where this is not known without reading the lines.
    ///
    /// Errors: a file cannot be read or is damaged; the text names file and byte.
    pub fn may_contain(&self, sets: &[Vec<TokenHash>]) -> Result<Option<Vec<bool>>, StoreError> {
        match self {
            Unit::Frame(frame) => Ok(frame.may_contain(sets)),
            Unit::Block(block) => block.may_contain(sets),
        }
    }

    /// What is damaged, if a read found that the unit cannot be read.
    pub fn damage(&self) -> Option<DamagedLines> {
        match self {
            Unit::Frame(frame) => frame.damage(),
            Unit::Block(block) => block.damage(),
        }
    }

    /// Bytes of its lines with their newlines.
    pub fn bytes_raw(&self) -> u64 {
        match self {
            Unit::Frame(frame) => frame.payload_bytes(),
            Unit::Block(block) => block.bytes_raw,
        }
    }

    /// Whether all its lines were made by Loginson itself: rows of the summary are in such units
    /// only.
    pub fn is_internal(&self) -> bool {
        match self {
            Unit::Frame(frame) => frame.is_internal(),
            Unit::Block(block) => block.is_internal,
        }
    }

    /// Whose lines it holds, where all are those of one tenant and that is known without reading
    /// them: that of a block.
    pub fn tenant(&self) -> Option<Tenant> {
        match self {
            Unit::Frame(_) => None,
            Unit::Block(block) => block.tenant,
        }
    }

    /// Bytes that a block takes on disk; none for a frame.
    pub fn bytes_disk(&self) -> u64 {
        match self {
            Unit::Frame(_) => 0,
            Unit::Block(block) => block.bytes_disk,
        }
    }

    /// Segment, and index there of the frame or block. Positions of segments of different kinds do
    /// not give the order of lines.
    pub fn position(&self) -> Position {
        match self {
            Unit::Frame(frame) => frame.position(),
            Unit::Block(block) => block.position(),
        }
    }
}

/// Refers to a block of a sealed segment. Cheap to clone. A handle does not protect the block from
/// deletion; but the block stays readable when its segment is rewritten.
#[derive(Clone)]
pub struct BlockHandle {
    pub(crate) segments: Arc<SegmentTable>,
    pub(crate) segment: Arc<SealedSegment>,
    /// [`WHOLE`] stands for all lines of a segment whose file cannot be opened.
    pub(crate) block: u32,
    pub(crate) blocks: u32,
    pub(crate) lines: u64,
    pub(crate) bytes_raw: u64,
    pub(crate) time_ns: (i64, i64),
    pub(crate) is_internal: bool,
    /// Unknown of a segment whose file cannot be opened.
    pub(crate) tenant: Option<Tenant>,
    pub(crate) bytes_disk: u64,
}

/// See [`BlockHandle::of_damaged`].
const WHOLE: u32 = u32::MAX;

impl BlockHandle {
    /// All lines of a segment of which nothing can be read. Reading it fails.
    pub(crate) fn of_damaged(
        segments: &Arc<SegmentTable>,
        segment: &Arc<SealedSegment>,
    ) -> BlockHandle {
        BlockHandle {
            segments: segments.clone(),
            segment: segment.clone(),
            block: WHOLE,
            blocks: 1,
            lines: segment.lines,
            bytes_raw: segment.bytes_raw,
            time_ns: segment.time_ns.unwrap_or((i64::MIN, i64::MAX)),
            is_internal: segment.lines > 0 && segment.own.lines == segment.lines,
            tenant: None,
            bytes_disk: segment.bytes_disk,
        }
    }

    /// What is damaged, if a read found that the block, or all of its segment, cannot be read.
    pub fn damage(&self) -> Option<DamagedLines> {
        self.segment.damage.of(self.block)
    }

    /// The blocks of a segment for which `wanted` holds.
    pub(crate) fn of_segment(
        segments: &Arc<SegmentTable>,
        segment: &Arc<SealedSegment>,
        file: &SealedFile,
        wanted: impl Fn(&segment::sealed::BlockEntry) -> bool,
    ) -> Vec<BlockHandle> {
        let blocks = file.footer().blocks.iter().enumerate().filter(|(_, entry)| wanted(entry));
        let handle = |(place, entry): (usize, &segment::sealed::BlockEntry)| BlockHandle {
            segments: segments.clone(),
            segment: segment.clone(),
            block: place as u32,
            blocks: file.footer().blocks.len() as u32,
            lines: u64::from(entry.lines),
            bytes_raw: entry.bytes_raw,
            time_ns: entry.time_ns,
            is_internal: entry.lines_internal == entry.lines && entry.lines > 0,
            tenant: Some(entry.tenant),
            bytes_disk: entry.bytes_disk(),
        };
        blocks.map(handle).collect()
    }

    /// Segment, and index of the block there.
    pub fn position(&self) -> Position {
        Position { segment: self.segment.id, frame: self.block }
    }

    /// Blocks of its segment.
    pub fn blocks_of_segment(&self) -> u32 {
        self.blocks
    }

    /// The segment's file with its footer. None when it was deleted meanwhile.
    ///
    /// Errors: the file cannot be read or is damaged; the text names file and byte.
    pub fn file(&self) -> Result<Option<Arc<SealedFile>>, StoreError> {
        if self.segment.fate.is_deleted() {
            return Ok(None);
        }
        if let Some(damage) = self.damage().filter(|_| self.block == WHOLE) {
            return Err(StoreError::Unreadable(damage.error));
        }
        match self.segments.open_checked(&self.segment) {
            Ok(file) => Ok(Some(file)),
            Err(_) if self.segment.fate.may_be_gone() => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Calls `with` with the columns of the block. Chunks that are read are cached as long as there
    /// is room. None when the block was deleted meanwhile.
    ///
    /// Errors: the file cannot be read or is damaged; the text names file and byte.
    pub fn with_columns<T>(
        &self,
        with: impl FnOnce(&BlockColumns<'_>) -> T,
    ) -> Result<Option<T>, StoreError> {
        let Some(file) = self.file()? else { return Ok(None) };
        let read = |number| self.chunk(&file, number);
        Ok(Some(file.with_columns(self.block as usize, &read, with)?))
    }

    /// Returns for each set of words whether a line of the block may contain all of them in values
    /// of its fields. None where this is not known without reading the lines, or the block was
    /// deleted meanwhile.
    ///
    /// Errors: the file cannot be read or is damaged; the text names file and byte.
    pub fn may_contain(&self, sets: &[Vec<TokenHash>]) -> Result<Option<Vec<bool>>, StoreError> {
        if self.damage().is_some() {
            return Ok(None);
        }
        let Some(file) = self.file()? else { return Ok(None) };
        let place = self.block as usize;
        if !file.has_filter(place) {
            return Ok(None);
        }
        let read = || Ok(file.filter(place)?.expect("it has one"));
        let filter = self.kept(FILTER, read);
        match filter.and_then(|filter| file.may_contain_by(place, &filter, sets)) {
            Ok(may_contain) => Ok(Some(may_contain)),
            Err(error) if is_damage(&error) => {
                // The lines themselves may be intact, and are read then.
                self.segment.check_block(&file, place);
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }

    fn chunk(&self, file: &SealedFile, number: usize) -> Result<Arc<Vec<u8>>, SegmentError> {
        let place = self.block as usize;
        let chunk = self.kept(number as u32, || file.chunk(place, number));
        if chunk.as_ref().is_err_and(is_damage) && !self.segment.fate.may_be_gone() {
            self.segment.check_block(file, place);
        }
        chunk
    }

    /// A part of the block, from the cache, or read now and cached as long as there is room.
    fn kept(
        &self,
        number: u32,
        read: impl FnOnce() -> Result<Vec<u8>, SegmentError>,
    ) -> Result<Arc<Vec<u8>>, SegmentError> {
        let position = self.position();
        if let Some(chunk) = self.segments.cache.chunk(position, number) {
            return Ok(chunk);
        }
        let chunk = Arc::new(read()?);
        let put = |cache: &Cache| cache.put_chunk(position, number, chunk.clone());
        self.segments.keep(self.segment.id, &self.segment.fate, put);
        Ok(chunk)
    }

    /// The records of the block. None when it was deleted meanwhile.
    ///
    /// Errors: the file cannot be read or is damaged; the text names file and byte.
    pub fn read(&self) -> Result<Option<Arc<Batch>>, StoreError> {
        let all: Vec<u32> = (0..self.lines as u32).collect();
        let batch = self.with_columns(|columns| columns.batch(&all))?;
        let damaged = |error: ColumnError| match error.downcast::<SegmentError>() {
            Ok(error) => StoreError::from(*error),
            Err(other) => unreachable!("columns of a segment have its errors: {other}"),
        };
        batch.transpose().map(|batch| batch.map(Arc::new)).map_err(damaged)
    }
}
