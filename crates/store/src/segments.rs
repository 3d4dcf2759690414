//! The segments in memory: which frames are in each, and what is known of them.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, RwLock};

use platform::{Access, Disk, DiskFile};
use segment::{FrameEntry, SegmentError};

use crate::catalog::{RowState, SegmentRow};
use crate::shared::{lock, read};

/// Names a frame in this store: its segment, and its place there. Positions grow in the order in which frames
/// became durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Position {
    /// Number of the segment, from 1.
    pub segment: u64,
    /// Place of the frame in the segment, from 0.
    pub frame: u32,
}

impl Position {
    /// Before every frame.
    pub const START: Position = Position { segment: 0, frame: 0 };

    /// The greatest position before this one.
    pub(crate) fn before(self) -> Position {
        match self.frame.checked_sub(1) {
            Some(frame) => Position { frame, ..self },
            None => Position { segment: self.segment - 1, frame: u32::MAX },
        }
    }
}

/// Sums over the frames of a segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    pub(crate) lines: u64,
    pub(crate) bytes_raw: u64,
    pub(crate) sequence: Option<(u64, u64)>,
    pub(crate) received_ns: Option<(i64, i64)>,
    pub(crate) time_ns: Option<(i64, i64)>,
}

impl Totals {
    pub(crate) fn add(&mut self, entry: &FrameEntry) {
        self.lines += u64::from(entry.lines);
        self.bytes_raw += u64::from(entry.payload_bytes);
        self.sequence = span(self.sequence, Some((entry.sequence, entry.sequence)));
        let received = (entry.received_min_ns, entry.received_max_ns);
        self.received_ns = span(self.received_ns, Some(received));
        self.time_ns = span(self.time_ns, entry.time_range_ns());
    }
}

/// The least range that holds both.
pub(crate) fn span<T: Ord + Copy>(a: Option<(T, T)>, b: Option<(T, T)>) -> Option<(T, T)> {
    match (a, b) {
        (Some(a), Some(b)) => Some((a.0.min(b.0), a.1.max(b.1))),
        (a, b) => a.or(b),
    }
}

/// What changes about a segment.
pub(crate) struct Index {
    pub(crate) frames: Vec<FrameEntry>,
    pub(crate) totals: Totals,
    pub(crate) state: RowState,
    /// First byte behind the frames.
    pub(crate) data_end: u64,
    /// Length of the file.
    pub(crate) file_bytes: u64,
    /// Frames whose event times are not known.
    pub(crate) times_unknown: usize,
    /// Whether the file's index lacks something that is known here, or is missing.
    pub(crate) unsaved: bool,
}

/// One segment of the store.
pub(crate) struct Segment {
    pub(crate) id: u64,
    pub(crate) path: PathBuf,
    pub(crate) node: u32,
    pub(crate) created_ns: i64,
    pub(crate) deleted: AtomicBool,
    pub(crate) index: RwLock<Index>,
    file: Mutex<Option<Arc<dyn DiskFile>>>,
}

impl Segment {
    pub(crate) fn new(id: u64, path: PathBuf, node: u32, created_ns: i64, index: Index) -> Self {
        Segment {
            id,
            path,
            node,
            created_ns,
            deleted: AtomicBool::new(false),
            index: RwLock::new(index),
            file: Mutex::new(None),
        }
    }

    pub(crate) fn is_deleted(&self) -> bool {
        self.deleted.load(Ordering::Acquire)
    }

    pub(crate) fn is_rolled(&self) -> bool {
        read(&self.index).state != RowState::Hot
    }

    /// The open file, and whether it was opened just now.
    pub(crate) fn open(&self, disk: &dyn Disk) -> Result<(Arc<dyn DiskFile>, bool), SegmentError> {
        let mut file = lock(&self.file);
        if let Some(file) = &*file {
            return Ok((file.clone(), false));
        }
        let opened =
            disk.open(&self.path, Access::Read).map_err(SegmentError::io(&self.path, "open"))?;
        *file = Some(opened.clone());
        Ok((opened, true))
    }

    /// Closes the file once nobody reads it any more.
    pub(crate) fn forget_file(&self) {
        *lock(&self.file) = None;
    }

    pub(crate) fn row(&self) -> SegmentRow {
        let index = read(&self.index);
        SegmentRow {
            id: self.id,
            file: file_name(self.id),
            state: index.state,
            node: self.node,
            created_ns: self.created_ns,
            frames: index.frames.len() as u64,
            lines: index.totals.lines,
            bytes_raw: index.totals.bytes_raw,
            bytes_disk: index.file_bytes,
            data_end: index.data_end,
            sequence: index.totals.sequence,
            received_ns: index.totals.received_ns,
            time_ns: index.totals.time_ns,
        }
    }
}

impl Index {
    pub(crate) fn new(
        state: RowState,
        frames: Vec<FrameEntry>,
        data_end: u64,
        file_bytes: u64,
    ) -> Self {
        let mut totals = Totals::default();
        frames.iter().for_each(|entry| totals.add(entry));
        let times_unknown = frames.iter().filter(|e| e.time_range_ns().is_none()).count();
        Index { frames, totals, state, data_end, file_bytes, times_unknown, unsaved: false }
    }

    /// Adds a frame that became durable.
    pub(crate) fn push(&mut self, entry: FrameEntry) {
        self.totals.add(&entry);
        self.times_unknown += usize::from(entry.time_range_ns().is_none());
        self.data_end = entry.end();
        self.frames.push(entry);
    }

    pub(crate) fn set_times(&mut self, frame: u32, range_ns: (i64, i64)) {
        let Some(entry) = self.frames.get_mut(frame as usize) else { return };
        let before = entry.time_range_ns();
        entry.set_time_range_ns(range_ns);
        let after = entry.time_range_ns();
        self.times_unknown += usize::from(after.is_none());
        self.times_unknown -= usize::from(before.is_none());
        self.totals.time_ns = span(self.totals.time_ns, after);
        self.unsaved |= before != after;
    }
}

/// Name of a segment's file.
pub(crate) fn file_name(id: u64) -> String {
    format!("{id}.hot")
}

/// The segment that a file name belongs to.
pub(crate) fn segment_of(file_name: &str) -> Option<u64> {
    let id = file_name.strip_suffix(".hot")?.parse().ok()?;
    (id > 0 && self::file_name(id) == file_name).then_some(id)
}
