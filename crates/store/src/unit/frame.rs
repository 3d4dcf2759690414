//! Handles of frames in the store, which do not hold their bytes.

use std::sync::Arc;

use platform::{DiskFile, ReadOnce};
use record::frame::FRAME_INTERNAL;
use record::{Batch, Frame};
use segment::tokens::{TokenFilter, TokenHash, TokenSet};
use segment::{FrameEntry, SegmentError, read_frame};

use crate::error::StoreError;
use crate::position::Position;
use crate::segments::cache::{Cache, FILTER, FrameWords};
use crate::segments::damage::{DamagedLines, is_damage};
use crate::segments::hot::HotSegment;
use crate::segments::table::SegmentTable;
use crate::sync::write;

/// Lines from which on a frame is worth a word filter: fewer are searched as quickly.
const FILTER_LINES_MIN: u64 = 64;

/// Queries after which a frame gets a word filter. Finding its words takes as long as searching its
/// lines a few times; a client that polls for new lines makes fewer queries than this before they
/// are sealed.
const FILTER_QUERIES: u32 = 16;

/// Refers to a durable frame. Cheap to clone. A handle does not protect the frame from deletion;
/// but the frame stays readable when its segment is sealed.
#[derive(Clone)]
pub struct FrameHandle {
    pub(crate) segments: Arc<SegmentTable>,
    pub(crate) segment: Arc<HotSegment>,
    pub(crate) frame: u32,
    pub(crate) entry: FrameEntry,
}

/// A frame for the parse stage.
#[derive(Clone)]
pub struct CommittedFrame {
    /// Its position; the cursor to resume behind it.
    pub position: Position,
    /// Its number on its node.
    pub sequence: u64,
    /// The handle by which it is read.
    pub handle: FrameHandle,
}

impl FrameHandle {
    /// Where the frame is.
    pub fn position(&self) -> Position {
        Position { segment: self.segment.id, frame: self.frame }
    }

    /// Its number on its node.
    pub fn sequence(&self) -> u64 {
        self.entry.sequence
    }

    /// Lines in it.
    pub fn lines(&self) -> u64 {
        u64::from(self.entry.lines)
    }

    /// Bytes of its lines with their newlines.
    pub fn payload_bytes(&self) -> u64 {
        u64::from(self.entry.payload_bytes)
    }

    /// Whether all its lines were made by Loginson itself.
    pub fn is_internal(&self) -> bool {
        self.entry.flags & FRAME_INTERNAL != 0
    }

    /// Earliest and latest event time, both inclusive, nanoseconds since 1970 UTC, as known when
    /// the handle was made; none before parsing.
    pub fn time_range(&self) -> Option<(i64, i64)> {
        self.entry.time_range_ns()
    }

    /// Records the event times of the frame, earliest and latest, both inclusive, nanoseconds since
    /// 1970 UTC. Whoever reads the frame next knows them without parsing it.
    pub fn set_times(&self, range_ns: (i64, i64)) {
        if self.entry.time_range_ns() != Some(range_ns) {
            write(&self.segment.index).set_times(self.frame, range_ns);
        }
    }

    /// Earliest and latest arrival, nanoseconds since 1970 UTC.
    pub fn received_range(&self) -> (i64, i64) {
        (self.entry.received_min_ns, self.entry.received_max_ns)
    }

    /// The parsed frame, if it is in memory.
    pub fn cached(&self) -> Option<Arc<Batch>> {
        if self.segment.fate.is_deleted() {
            return None;
        }
        self.segments.cache.batch(self.position())
    }

    /// Caches the parsed frame, as long as there is room and the segment is not sealed.
    pub fn put(&self, batch: Arc<Batch>) {
        self.keep(|cache| cache.put_batch(self.position(), batch));
    }

    fn keep<T>(&self, put: impl FnOnce(&Cache) -> T) -> Option<T> {
        self.segments.keep(self.segment.id, &self.segment.fate, put)
    }

    /// Returns for each set of words whether a line of the frame may contain all of them in values
    /// of its fields. None where this is not known without reading the lines.
    ///
    /// A frame in memory gets a word filter once enough queries wanted one: a client that looks up
    /// one key after the other then finds each without searching all unsealed lines.
    pub fn may_contain(&self, sets: &[Vec<TokenHash>]) -> Option<Vec<bool>> {
        let (position, lines) = (self.position(), self.lines());
        let (segments, segment) = (&self.segments, &self.segment);
        Words { segments, segment, position, number: FILTER, lines }
            .may_contain(sets, || self.cached())
    }

    /// The frame, from memory or from disk. None when retention deleted it meanwhile. A frame read
    /// from disk is not cached: its reader parses it and calls [`put`](Self::put).
    ///
    /// Errors: the file cannot be read or is damaged; the text names file and byte.
    pub fn read_frame(&self) -> Result<Option<Arc<Frame>>, StoreError> {
        self.read_from(|file| read_frame(file, &self.segment.path, &self.entry))
    }

    /// As [`read_frame`](Self::read_frame), for readers that read each frame once: what comes from
    /// disk bypasses the page cache.
    pub fn read_frame_once(&self) -> Result<Option<Arc<Frame>>, StoreError> {
        self.read_from(|file| read_frame(&ReadOnce(file), &self.segment.path, &self.entry))
    }

    fn read_from(
        &self,
        read: impl FnOnce(&dyn DiskFile) -> Result<Frame, SegmentError>,
    ) -> Result<Option<Arc<Frame>>, StoreError> {
        if self.segment.fate.is_deleted() {
            return Ok(None);
        }
        if let Some(frame) = self.segments.cache.frame(self.position()) {
            return Ok(Some(frame));
        }
        let file = self.segments.open_hot(&self.segment);
        let frame = file.and_then(|file| read(&*file));
        match frame {
            Ok(frame) => Ok(Some(Arc::new(frame))),
            Err(_) if self.segment.fate.may_be_gone() => Ok(None),
            Err(error) => {
                if is_damage(&error) {
                    self.note_damage();
                }
                Err(error.into())
            }
        }
    }

    /// What is damaged, if a read found that the frame cannot be read.
    pub fn damage(&self) -> Option<DamagedLines> {
        self.segment.damage.of(self.frame)
    }

    /// Reads the frame again, and notes that it is damaged if that fails, too.
    fn note_damage(&self) {
        let Ok(file) = self.segments.open_hot(&self.segment) else { return };
        if let Err(error) = read_frame(&*file, &self.segment.path, &self.entry)
            && is_damage(&error)
        {
            let (segment, unit, lines) = (self.segment.id, Some(self.frame), self.lines());
            let error = error.to_string();
            self.segment.damage.note(DamagedLines { segment, unit, lines, error });
        }
    }
}

/// The words of lines of a hot segment, in a frame or a group of frames.
pub(crate) struct Words<'a> {
    pub(crate) segments: &'a SegmentTable,
    pub(crate) segment: &'a HotSegment,
    pub(crate) position: Position,
    /// The cache key of their filter.
    pub(crate) number: u32,
    pub(crate) lines: u64,
}

impl Words<'_> {
    /// As [`FrameHandle::may_contain`]; `batch` returns the records, if they are in memory.
    pub(crate) fn may_contain(
        &self,
        sets: &[Vec<TokenHash>],
        batch: impl FnOnce() -> Option<Arc<Batch>>,
    ) -> Option<Vec<bool>> {
        if self.lines < FILTER_LINES_MIN {
            return None;
        }
        let (position, number) = (self.position, self.number);
        let filter = match self.keep(|cache| cache.words(position, number))? {
            FrameWords::Filter(filter) => filter,
            FrameWords::Queried(times) if times < FILTER_QUERIES => return None,
            FrameWords::Queried(_) => {
                let filter = Arc::new(filter_of(&*batch()?));
                self.keep(|cache| cache.put_chunk(position, number, filter.clone()));
                filter
            }
        };
        let filter = TokenFilter::open(&filter).expect("it was built here");
        Some(sets.iter().map(|words| filter.may_contain_all(words)).collect())
    }

    fn keep<T>(&self, put: impl FnOnce(&Cache) -> T) -> Option<T> {
        self.segments.keep(self.segment.id, &self.segment.fate, put)
    }
}

/// Builds the filter of the words in all values of fields.
fn filter_of(batch: &Batch) -> Vec<u8> {
    let mut words = TokenSet::default();
    batch.rows().for_each(|row| row.fields().for_each(|(_, value)| words.add(value)));
    words.build()
}
