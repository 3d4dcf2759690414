//! Hot segments in memory: the entries of their frames, and the state of their files.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, RwLock};

use platform::{Access, Disk, DiskFile};
use record::frame::{FRAME_FORWARDED, FRAME_INTERNAL};
use segment::{FrameEntry, SegmentError, SegmentHeader};

use crate::catalog::{LOCAL, Own, RowState, SegmentRow};
use crate::position::span;
use crate::segments::damage::KnownDamage;
use crate::segments::fate::FateCell;
use crate::segments::file_names::hot_name;
use crate::sync::{lock, read};

/// Sums over the frames of a segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    pub(crate) lines: u64,
    pub(crate) bytes_raw: u64,
    /// The part of them that Loginson made itself.
    pub(crate) own: Own,
    pub(crate) sequence: Option<(u64, u64)>,
    pub(crate) received_ns: Option<(i64, i64)>,
    pub(crate) time_ns: Option<(i64, i64)>,
}

impl Totals {
    pub(crate) fn add(&mut self, entry: &FrameEntry) {
        self.lines += u64::from(entry.lines);
        self.bytes_raw += u64::from(entry.payload_bytes);
        if entry.flags & FRAME_INTERNAL != 0 {
            self.own.lines += u64::from(entry.lines);
            self.own.bytes += u64::from(entry.payload_bytes);
        }
        self.sequence = span(self.sequence, Some((entry.sequence, entry.sequence)));
        let received = (entry.received_min_ns, entry.received_max_ns);
        self.received_ns = span(self.received_ns, Some(received));
        self.time_ns = span(self.time_ns, entry.time_range_ns());
    }
}

/// The state of a segment that changes.
pub(crate) struct HotIndex {
    pub(crate) frames: Vec<FrameEntry>,
    pub(crate) totals: Totals,
    /// The smallest and greatest number of the frames that other nodes built, by node.
    pub(crate) numbers: BTreeMap<u32, (u64, u64)>,
    pub(crate) state: RowState,
    /// First byte behind the frames.
    pub(crate) data_end: u64,
    /// Length of the file.
    pub(crate) file_bytes: u64,
    /// Frames whose event times are not known.
    pub(crate) times_unknown: usize,
    /// Whether the index in the file is missing, or older than this one.
    pub(crate) unsaved: bool,
    /// Whether the segment is closed and its file does not end with an index yet.
    pub(crate) closing: bool,
    /// Whether the catalog has no row for it yet.
    pub(crate) unlisted: bool,
}

/// One hot segment of the store.
pub(crate) struct HotSegment {
    pub(crate) id: u64,
    pub(crate) path: PathBuf,
    pub(crate) node: u32,
    pub(crate) created_ns: i64,
    /// The next sequence number of its node when the file was created, from its header.
    pub(crate) sequence_next: u64,
    pub(crate) fate: FateCell,
    pub(crate) index: RwLock<HotIndex>,
    /// Frames that are listed and cannot be read.
    pub(crate) damage: KnownDamage,
    /// Lines that are known to be missing, because the file is damaged.
    pub(crate) lines_missing: AtomicU64,
    file: Mutex<Option<Arc<dyn DiskFile>>>,
}

impl HotSegment {
    pub(crate) fn new(
        path: PathBuf,
        header: &SegmentHeader,
        index: HotIndex,
        lines_missing: u64,
    ) -> Self {
        HotSegment {
            id: header.segment,
            path,
            node: header.node,
            created_ns: header.created_ns,
            sequence_next: header.sequence_next,
            fate: FateCell::default(),
            index: RwLock::new(index),
            damage: KnownDamage::default(),
            lines_missing: lines_missing.into(),
            file: Mutex::new(None),
        }
    }

    pub(crate) fn is_rolled(&self) -> bool {
        read(&self.index).state != RowState::Hot
    }

    /// The open file, and whether this call opened it.
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

    /// Keeps an open file for handles, before its name is removed.
    pub(crate) fn keep_open(&self, opened: Arc<dyn DiskFile>) {
        lock(&self.file).get_or_insert(opened);
    }

    /// Closes the file as soon as no reader has it.
    pub(crate) fn forget_file(&self) {
        *lock(&self.file) = None;
    }

    pub(crate) fn row(&self) -> SegmentRow {
        let index = read(&self.index);
        SegmentRow {
            id: self.id,
            file: hot_name(self.id),
            state: index.state,
            node: self.node,
            created_ns: self.created_ns,
            frames: index.frames.len() as u64,
            blocks: 0,
            lines: index.totals.lines,
            bytes_raw: index.totals.bytes_raw,
            own: index.totals.own,
            bytes_disk: index.file_bytes,
            data_end: index.data_end,
            sequence: index.totals.sequence,
            numbers: Vec::new(),
            location: LOCAL.to_owned(),
            sequence_next: self.sequence_next,
            received_ns: index.totals.received_ns,
            time_ns: index.totals.time_ns,
            effort: None,
            summarised_through: None,
            deletions_through: 0,
            rules: 0,
        }
    }
}

impl HotIndex {
    pub(crate) fn new(
        state: RowState,
        frames: Vec<FrameEntry>,
        data_end: u64,
        file_bytes: u64,
    ) -> Self {
        let mut totals = Totals::default();
        let mut numbers = BTreeMap::new();
        for entry in &frames {
            totals.add(entry);
            add_number(&mut numbers, entry);
        }
        let times_unknown = frames.iter().filter(|e| e.time_range_ns().is_none()).count();
        HotIndex {
            frames,
            totals,
            numbers,
            state,
            data_end,
            file_bytes,
            times_unknown,
            unsaved: false,
            closing: false,
            unlisted: false,
        }
    }

    /// Adds a frame that became durable.
    pub(crate) fn push(&mut self, entry: FrameEntry) {
        self.totals.add(&entry);
        add_number(&mut self.numbers, &entry);
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

fn add_number(numbers: &mut BTreeMap<u32, (u64, u64)>, entry: &FrameEntry) {
    if entry.flags & FRAME_FORWARDED != 0 {
        let range = numbers.entry(entry.node).or_insert((entry.number, entry.number));
        *range = (range.0.min(entry.number), range.1.max(entry.number));
    }
}

#[cfg(test)]
mod tests {
    use platform::SimDisk;

    use super::*;

    #[test]
    fn a_file_that_is_kept_open_is_read_without_its_name() {
        let (disk, path) = (SimDisk::new(1), PathBuf::from("/data/1.hot"));
        drop(disk.open(&path, Access::Create).unwrap());
        let header =
            SegmentHeader { node: 1, segment: 1, created_ns: 0, sequence_next: 1, held: vec![] };
        let index = HotIndex::new(RowState::Rolled, Vec::new(), 0, 0);
        let segment = HotSegment::new(path.clone(), &header, index, 0);
        let (file, _) = segment.open(&disk).unwrap();
        // As one too many, by the reader of another segment.
        segment.forget_file();
        segment.keep_open(file);
        disk.remove(&path).unwrap();
        let (_, is_fresh) = segment.open(&disk).unwrap();
        assert!(!is_fresh);
        segment.forget_file();
        assert!(segment.open(&disk).is_err());
    }
}
