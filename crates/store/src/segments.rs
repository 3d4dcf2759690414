//! The segments in memory: hot ones with all that is known of their frames, sealed ones with their
//! row.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, RwLock};

use platform::{Access, Disk, DiskFile};
use record::frame::FRAME_INTERNAL;
use segment::{FrameEntry, SegmentError, SegmentHeader};

use crate::catalog::{LOCAL, Own, RowState, SegmentRow};
use crate::sealed::SealedSegment;
use crate::shared::{lock, read};

/// Which segments there are: one list for both kinds, so that one lock lets a sealed segment take
/// the place of its sources at once.
#[derive(Clone, Default)]
pub(crate) struct Segments {
    /// By id, which is the order of their frames.
    pub(crate) hot: Vec<Arc<HotSegment>>,
    /// By id, which says nothing about the order of their lines.
    pub(crate) sealed: Vec<Arc<SealedSegment>>,
}

impl Segments {
    /// All of them, the oldest lines first.
    pub(crate) fn by_age(&self) -> Vec<AnySegment> {
        let hot = self.hot.iter().cloned().map(AnySegment::Hot);
        let mut all: Vec<AnySegment> =
            self.sealed.iter().cloned().map(AnySegment::Sealed).chain(hot).collect();
        all.sort_by_cached_key(|segment| {
            let newest_ns = segment.received_ns().map_or(i64::MIN, |(_, newest)| newest);
            (newest_ns, segment.sequence(), segment.id())
        });
        all
    }

    pub(crate) fn remove(&mut self, id: u64) {
        self.hot.retain(|s| s.id != id);
        self.sealed.retain(|s| s.id != id);
    }

    pub(crate) fn add_sealed(&mut self, segment: Arc<SealedSegment>) {
        let place = self.sealed.partition_point(|s| s.id < segment.id);
        self.sealed.insert(place, segment);
    }
}

/// A segment of either kind.
#[derive(Clone)]
pub(crate) enum AnySegment {
    Hot(Arc<HotSegment>),
    Sealed(Arc<SealedSegment>),
}

impl AnySegment {
    pub(crate) fn id(&self) -> u64 {
        match self {
            AnySegment::Hot(hot) => hot.id,
            AnySegment::Sealed(sealed) => sealed.id,
        }
    }

    pub(crate) fn path(&self) -> &Path {
        match self {
            AnySegment::Hot(hot) => &hot.path,
            AnySegment::Sealed(sealed) => &sealed.path,
        }
    }

    pub(crate) fn row(&self) -> SegmentRow {
        match self {
            AnySegment::Hot(hot) => hot.row(),
            AnySegment::Sealed(sealed) => sealed.row(),
        }
    }

    /// Earliest and latest arrival.
    pub(crate) fn received_ns(&self) -> Option<(i64, i64)> {
        match self {
            AnySegment::Hot(hot) => read(&hot.index).totals.received_ns,
            AnySegment::Sealed(sealed) => sealed.received_ns,
        }
    }

    /// Least and greatest sequence number.
    pub(crate) fn sequence(&self) -> Option<(u64, u64)> {
        match self {
            AnySegment::Hot(hot) => read(&hot.index).totals.sequence,
            AnySegment::Sealed(sealed) => sealed.sequence,
        }
    }

    pub(crate) fn file_bytes(&self) -> u64 {
        match self {
            AnySegment::Hot(hot) => read(&hot.index).file_bytes,
            AnySegment::Sealed(sealed) => sealed.bytes_disk,
        }
    }

    pub(crate) fn lines(&self) -> u64 {
        match self {
            AnySegment::Hot(hot) => read(&hot.index).totals.lines,
            AnySegment::Sealed(sealed) => sealed.lines,
        }
    }

    /// Whether nothing is written to it any more.
    pub(crate) fn is_closed(&self) -> bool {
        match self {
            AnySegment::Hot(hot) => hot.is_rolled(),
            AnySegment::Sealed(_) => true,
        }
    }

    /// A sequence number below which all may have been given, as far as this file tells.
    pub(crate) fn sequence_known(&self, node: u32) -> u64 {
        let (of, next) = match self {
            AnySegment::Hot(hot) => (hot.node, hot.sequence_next),
            AnySegment::Sealed(sealed) => (sealed.node, sealed.sequence_next),
        };
        let sequence = self.sequence();
        let own = sequence.filter(|_| of == node).map_or(0, |(_, last)| last.saturating_add(1));
        next.max(own)
    }

    pub(crate) fn is_listed(&self) -> bool {
        match self {
            AnySegment::Hot(hot) => hot.fate.is_listed(),
            AnySegment::Sealed(sealed) => sealed.fate.is_listed(),
        }
    }

    /// Whether its file may be gone, so that there is nothing wrong when it cannot be read.
    pub(crate) fn may_be_gone(&self) -> bool {
        match self {
            AnySegment::Hot(hot) => hot.fate.may_be_gone(),
            AnySegment::Sealed(sealed) => sealed.fate.may_be_gone(),
        }
    }

    pub(crate) fn mark(&self, fate: Fate) {
        match self {
            AnySegment::Hot(hot) => hot.fate.set(fate),
            AnySegment::Sealed(sealed) => sealed.fate.set(fate),
        }
    }
}

/// What became of a segment that handles may still refer to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It is there, and its file is.
    Listed = 0,
    /// Its lines stand in another segment now. Handles go on reading the old file, which is kept
    /// open for them.
    Replaced = 1,
    /// Its lines were deleted. Handles find nothing.
    Deleted = 2,
    /// Its file is being removed, which takes a while. What can be read still is; the disk may
    /// refuse, and it is there again.
    Deleting = 3,
}

/// A [`Fate`] that is decided once.
#[derive(Debug, Default)]
pub(crate) struct FateCell(AtomicU8);

impl FateCell {
    pub(crate) fn set(&self, fate: Fate) {
        self.0.store(fate as u8, Ordering::Release);
    }

    pub(crate) fn is_deleted(&self) -> bool {
        self.is_one_of([Fate::Deleted])
    }

    /// Whether its file may be gone, so that there is nothing wrong when it cannot be read.
    pub(crate) fn may_be_gone(&self) -> bool {
        self.is_one_of([Fate::Deleting, Fate::Deleted])
    }

    pub(crate) fn is_listed(&self) -> bool {
        self.is_one_of([Fate::Listed, Fate::Deleting])
    }

    fn is_one_of<const N: usize>(&self, fates: [Fate; N]) -> bool {
        let fate = self.0.load(Ordering::Acquire);
        fates.into_iter().any(|one| one as u8 == fate)
    }
}

/// Names a frame in this store: its segment, and its place there. Positions grow in the order in
/// which frames became durable.
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
    /// Of those, what Loginson made itself.
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
    /// Whether the file is closed and to end with an index, which it does not yet.
    pub(crate) closing: bool,
    /// Whether the catalog has no row of it yet.
    pub(crate) unlisted: bool,
}

/// One hot segment of the store.
pub(crate) struct HotSegment {
    pub(crate) id: u64,
    pub(crate) path: PathBuf,
    pub(crate) node: u32,
    pub(crate) created_ns: i64,
    /// As its header says.
    pub(crate) sequence_next: u64,
    pub(crate) fate: FateCell,
    pub(crate) index: RwLock<Index>,
    file: Mutex<Option<Arc<dyn DiskFile>>>,
}

impl HotSegment {
    pub(crate) fn new(path: PathBuf, header: &SegmentHeader, index: Index) -> Self {
        HotSegment {
            id: header.segment,
            path,
            node: header.node,
            created_ns: header.created_ns,
            sequence_next: header.sequence_next,
            fate: FateCell::default(),
            index: RwLock::new(index),
            file: Mutex::new(None),
        }
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
            blocks: 0,
            lines: index.totals.lines,
            bytes_raw: index.totals.bytes_raw,
            own: Some(index.totals.own),
            bytes_disk: index.file_bytes,
            data_end: index.data_end,
            sequence: index.totals.sequence,
            numbers: None,
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
        Index {
            frames,
            totals,
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

/// Name of a hot segment's file.
pub(crate) fn file_name(id: u64) -> String {
    format!("{id}.hot")
}

/// Name of a sealed segment's file.
pub(crate) fn sealed_name(id: u64) -> String {
    format!("{id}.sealed")
}

/// Name of a sealed segment's file while it is written.
pub(crate) fn sealing_name(id: u64) -> String {
    format!("{id}.sealing")
}

/// Files of the directory of segments, by kind and number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum FileKind {
    Hot,
    Sealed,
    /// A sealed segment that was not finished.
    Sealing,
}

/// What a file is by its name; None: none of ours.
pub(crate) fn file_kind(name: &str) -> Option<(FileKind, u64)> {
    let (id, extension) = name.split_once('.')?;
    let kind = match extension {
        "hot" => FileKind::Hot,
        "sealed" => FileKind::Sealed,
        "sealing" => FileKind::Sealing,
        _ => return None,
    };
    let number: u64 = id.parse().ok()?;
    (number > 0 && number.to_string() == id).then_some((kind, number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_that_we_give_are_ours() {
        for (name, expected) in [
            ("1.hot", Some((FileKind::Hot, 1))),
            ("12.sealed", Some((FileKind::Sealed, 12))),
            ("12.sealing", Some((FileKind::Sealing, 12))),
            ("0.hot", None),
            ("01.hot", None),
            ("+1.hot", None),
            ("1.hot.bak", None),
            ("1.cold", None),
            ("hot", None),
        ] {
            assert_eq!(file_kind(name), expected, "{name}");
        }
        assert_eq!(file_kind(&sealed_name(7)), Some((FileKind::Sealed, 7)));
        assert_eq!(file_kind(&sealing_name(7)), Some((FileKind::Sealing, 7)));
        assert_eq!(file_kind(&file_name(7)), Some((FileKind::Hot, 7)));
    }
}
