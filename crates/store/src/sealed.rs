//! Sealed segments in memory: their row, and nothing of what is in the file until a question needs it.
//!
//! Footers are read when they are needed and kept, with the open file, in a bounded cache: a store of ten thousand
//! segments opens without reading one, and stays far from the limit on open files.
//!
//! A segment whose lines were rewritten into another is *replaced*: it leaves the list, its file is removed, but is
//! kept open by the segment, so that whoever took a snapshot before reads on. The disk gives the space back when
//! the last handle is dropped; questions end after a minute, so this is bounded by what is rewritten in that time.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use platform::Disk;
use segment::SegmentError;
use segment::sealed::{BlockEntry, Effort, Footer, SealedFile};

use crate::catalog::{RowState, SegmentRow};
use crate::segments::{FateCell, sealed_name};
use crate::shared::lock;

/// Sealed files kept open with their footers.
const FILES_OPEN_MAX: usize = 256;
/// Bytes of the footers in memory: some hundred for each block, and 24 for each count, of which a segment of millions of
/// lines may have a million. Beyond either, what was used longest ago is closed, and read again when it is needed.
const FOOTER_BYTES_MAX: usize = 128 << 20;

/// One sealed segment of the store.
pub(crate) struct SealedSegment {
    pub(crate) id: u64,
    pub(crate) path: PathBuf,
    pub(crate) node: u32,
    pub(crate) created_ns: i64,
    pub(crate) blocks: u64,
    pub(crate) lines: u64,
    pub(crate) bytes_raw: u64,
    pub(crate) bytes_disk: u64,
    pub(crate) sequence: Option<(u64, u64)>,
    pub(crate) sequence_next: u64,
    pub(crate) received_ns: Option<(i64, i64)>,
    pub(crate) time_ns: Option<(i64, i64)>,
    pub(crate) effort: Effort,
    pub(crate) summarised_through: Option<u64>,
    pub(crate) deletions_through: AtomicU64,
    pub(crate) rules: AtomicU64,
    pub(crate) fate: FateCell,
    /// The file of a replaced segment.
    kept_open: OnceLock<Arc<SealedFile>>,
}

impl SealedSegment {
    pub(crate) fn from_row(row: &SegmentRow, dir: &std::path::Path) -> Self {
        SealedSegment {
            id: row.id,
            path: dir.join(&row.file),
            node: row.node,
            created_ns: row.created_ns,
            blocks: row.blocks,
            lines: row.lines,
            bytes_raw: row.bytes_raw,
            bytes_disk: row.bytes_disk,
            sequence: row.sequence,
            sequence_next: row.sequence_next,
            received_ns: row.received_ns,
            time_ns: row.time_ns,
            effort: row.effort.unwrap_or(Effort::Fast),
            summarised_through: row.summarised_through,
            deletions_through: AtomicU64::new(row.deletions_through),
            rules: AtomicU64::new(row.rules),
            fate: FateCell::default(),
            kept_open: OnceLock::new(),
        }
    }

    pub(crate) fn row(&self) -> SegmentRow {
        SegmentRow {
            id: self.id,
            file: sealed_name(self.id),
            state: RowState::Sealed,
            node: self.node,
            created_ns: self.created_ns,
            frames: 0,
            blocks: self.blocks,
            lines: self.lines,
            bytes_raw: self.bytes_raw,
            bytes_disk: self.bytes_disk,
            data_end: self.bytes_disk,
            sequence: self.sequence,
            sequence_next: self.sequence_next,
            received_ns: self.received_ns,
            time_ns: self.time_ns,
            effort: Some(self.effort),
            summarised_through: self.summarised_through,
            deletions_through: self.deletions_through(),
            rules: self.rules.load(Ordering::Acquire),
        }
    }

    /// The last deletion that this segment has behind it.
    pub(crate) fn deletions_through(&self) -> u64 {
        self.deletions_through.load(Ordering::Acquire)
    }

    /// Keeps the file open for those who refer to the segment, before it is removed.
    pub(crate) fn keep_open(&self, file: Arc<SealedFile>) {
        let _ = self.kept_open.set(file);
    }
}

/// The row of a file, from its footer.
pub(crate) fn row_of(footer: &Footer) -> SegmentRow {
    let header = &footer.header;
    SegmentRow {
        id: header.segment,
        file: sealed_name(header.segment),
        state: RowState::Sealed,
        node: header.node,
        created_ns: header.created_ns,
        frames: 0,
        blocks: footer.blocks.len() as u64,
        lines: footer.lines(),
        bytes_raw: footer.bytes_raw(),
        bytes_disk: footer.bytes_disk,
        data_end: footer.bytes_disk,
        sequence: footer.sequence(),
        sequence_next: header.sequence_next,
        received_ns: footer.received_ns(),
        time_ns: footer.time_ns(),
        effort: Some(footer.effort),
        summarised_through: footer.summarised_through,
        deletions_through: 0,
        rules: 0,
    }
}

/// Open sealed files, the one used last at the back.
#[derive(Default)]
pub(crate) struct SealedFiles {
    open: Mutex<OpenFiles>,
}

#[derive(Default)]
struct OpenFiles {
    files: VecDeque<(u64, Arc<SealedFile>)>,
    footer_bytes: usize,
}

impl SealedFiles {
    /// The file of a segment with its footer, from memory or opened now.
    pub(crate) fn get(
        &self,
        segment: &SealedSegment,
        disk: &dyn Disk,
    ) -> Result<Arc<SealedFile>, SegmentError> {
        if let Some(file) = segment.kept_open.get() {
            return Ok(file.clone());
        }
        {
            let mut open = lock(&self.open);
            if let Some(place) = open.files.iter().rposition(|(id, _)| *id == segment.id) {
                let entry = open.files.remove(place).expect("it was found");
                let file = entry.1.clone();
                open.files.push_back(entry);
                return Ok(file);
            }
        }
        // Read without the lock: others go on meanwhile, and at worst it is read twice.
        let file = match SealedFile::open(disk, &segment.path) {
            Ok(file) => Arc::new(file),
            // It was replaced just now.
            Err(error) => return segment.kept_open.get().cloned().ok_or(error),
        };
        self.put(segment.id, file.clone());
        Ok(file)
    }

    fn put(&self, id: u64, file: Arc<SealedFile>) {
        let mut open = lock(&self.open);
        if open.files.iter().any(|(other, _)| *other == id) {
            return;
        }
        open.footer_bytes += file.footer().memory_bytes();
        open.files.push_back((id, file));
        while open.files.len() > FILES_OPEN_MAX
            || (open.footer_bytes > FOOTER_BYTES_MAX && open.files.len() > 1)
        {
            let (_, oldest) = open.files.pop_front().expect("more than one");
            open.footer_bytes -= oldest.footer().memory_bytes();
        }
    }

    /// Closes a segment's file, unless a replaced segment keeps it open.
    pub(crate) fn forget(&self, id: u64) {
        let mut open = lock(&self.open);
        if let Some(place) = open.files.iter().position(|(other, _)| *other == id) {
            let (_, file) = open.files.remove(place).expect("it was found");
            open.footer_bytes -= file.footer().memory_bytes();
        }
    }
}

/// Whether a block may hold lines of a sequence number.
pub(crate) fn may_hold(block: &BlockEntry, sequence: u64) -> bool {
    (block.sequence.0..=block.sequence.1).contains(&sequence)
}
