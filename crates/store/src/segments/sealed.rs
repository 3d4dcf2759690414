//! Sealed segments in memory: their row, and nothing of the file until a query needs it.
//!
//! Footers are read on demand and kept, with the open file, in a bounded cache: a store of ten
//! thousand segments opens without reading one, and stays far from the limit on open files.
//!
//! A segment whose lines were rewritten into another is *replaced*: it leaves the list and its file
//! is removed, but the segment keeps the file open, so that older snapshots can still be read. The
//! disk gives the space back when the last handle is dropped. Queries end after a minute, so this
//! space is bounded by what is rewritten in that time.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use platform::Disk;
use record::LineId;
use segment::SegmentError;
use segment::sealed::{Effort, Footer, NodeNumbers, SealedFile};

use crate::catalog::{LOCAL, Own, RowState, SegmentRow};
use crate::segments::cache::Cache;
use crate::segments::damage::{DamagedLines, KnownDamage, is_damage};
use crate::segments::fate::FateCell;
use crate::segments::file_names::sealed_name;
use crate::sync::lock;

/// Sealed files kept open with their footers.
const FILES_OPEN_MAX: usize = 256;
/// Largest memory of footers, bytes: some hundred for each block, and 24 for each count, of which a
/// segment of millions of lines may have a million. Beyond either limit a random file is closed,
/// and opened again on demand. So a query over a larger store finds some files open; evicting by
/// last use, it would find none.
const FOOTER_BYTES_MAX: usize = 128 << 20;
/// Footers take at most this part of the cache, which [lends](crate::segments::cache::Cache::lend)
/// it.
const FOOTER_CACHE_PARTS: usize = 4;

/// One sealed segment of the store.
pub(crate) struct SealedSegment {
    pub(crate) id: u64,
    pub(crate) path: PathBuf,
    pub(crate) node: u32,
    pub(crate) created_ns: i64,
    pub(crate) blocks: u64,
    pub(crate) lines: u64,
    pub(crate) bytes_raw: u64,
    pub(crate) own: Own,
    pub(crate) bytes_disk: u64,
    pub(crate) sequence: Option<(u64, u64)>,
    /// The frames that its lines came in: ranges of sequence numbers, by node.
    pub(crate) numbers: Vec<NodeNumbers>,
    pub(crate) sequence_next: u64,
    pub(crate) received_ns: Option<(i64, i64)>,
    pub(crate) time_ns: Option<(i64, i64)>,
    pub(crate) effort: Effort,
    pub(crate) summarised_through: Option<u64>,
    pub(crate) deletions_through: AtomicU64,
    pub(crate) rules: AtomicU64,
    pub(crate) fate: FateCell,
    /// Blocks that cannot be read.
    pub(crate) damage: KnownDamage,
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
            own: row.own,
            bytes_disk: row.bytes_disk,
            sequence: row.sequence,
            numbers: row.numbers.clone(),
            sequence_next: row.sequence_next,
            received_ns: row.received_ns,
            time_ns: row.time_ns,
            effort: row.effort.unwrap_or(Effort::Fast),
            summarised_through: row.summarised_through,
            deletions_through: AtomicU64::new(row.deletions_through),
            rules: AtomicU64::new(row.rules),
            fate: FateCell::default(),
            damage: KnownDamage::default(),
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
            own: self.own,
            bytes_disk: self.bytes_disk,
            data_end: self.bytes_disk,
            sequence: self.sequence,
            numbers: self.numbers.clone(),
            location: LOCAL.to_owned(),
            sequence_next: self.sequence_next,
            received_ns: self.received_ns,
            time_ns: self.time_ns,
            effort: Some(self.effort),
            summarised_through: self.summarised_through,
            deletions_through: self.deletions_through(),
            rules: self.rules.load(Ordering::Acquire),
        }
    }

    /// The last deletion that this segment was searched for.
    pub(crate) fn deletions_through(&self) -> u64 {
        self.deletions_through.load(Ordering::Acquire)
    }

    /// Notes that nothing of the file can be read.
    pub(crate) fn note_all_damaged(&self, error: &SegmentError) {
        let (segment, lines, error) = (self.id, self.lines, error.to_string());
        self.damage.note(DamagedLines { segment, unit: None, lines, error });
    }

    /// Reads a block, compares it with its checksums, and notes the damage that it finds. Returns
    /// the bytes that it read.
    pub(crate) fn check_block(&self, file: &SealedFile, block: usize) -> u64 {
        let entry = &file.footer().blocks[block];
        let (segment, number) = (self.id, block as u32);
        let read = file.stored_block(block).and_then(|stored| file.block_of(block, &stored));
        match read {
            Err(error) if is_damage(&error) => match file.read_block(block) {
                Ok(_) => self.damage.note_filter(segment, number, &error),
                Err(error) => {
                    let (unit, lines) = (Some(number), u64::from(entry.lines));
                    self.damage.note(DamagedLines {
                        segment,
                        unit,
                        lines,
                        error: error.to_string(),
                    });
                }
            },
            _ => {}
        }
        entry.bytes_disk()
    }

    /// Keeps the file open for handles, before it is removed.
    pub(crate) fn keep_open(&self, file: Arc<SealedFile>) {
        let _ = self.kept_open.set(file);
    }
}

/// The lines of a file that Loginson made itself; they have blocks of their own.
fn own_of(footer: &Footer) -> Own {
    let blocks = footer.blocks.iter().filter(|block| block.lines_internal > 0);
    blocks.fold(Own::default(), |own, block| Own {
        lines: own.lines + u64::from(block.lines_internal),
        bytes: own.bytes + block.bytes_raw,
    })
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
        own: own_of(footer),
        bytes_disk: footer.bytes_disk,
        data_end: footer.bytes_disk,
        sequence: footer.sequence(),
        numbers: footer.numbers(),
        location: LOCAL.to_owned(),
        sequence_next: header.sequence_next,
        received_ns: footer.received_ns(),
        time_ns: footer.time_ns(),
        effort: Some(footer.effort),
        summarised_through: footer.summarised_through,
        deletions_through: 0,
        rules: 0,
    }
}

/// Open sealed files.
pub(crate) struct SealedFiles {
    footer_bytes_max: usize,
    open: Mutex<OpenFiles>,
}

#[derive(Default)]
struct OpenFiles {
    files: HashMap<u64, Arc<SealedFile>>,
    /// The keys of `files`, to choose a random one.
    ids: Vec<u64>,
    footer_bytes: usize,
}

impl SealedFiles {
    pub(crate) fn new(cache_bytes_max: usize) -> Self {
        let footer_bytes_max = FOOTER_BYTES_MAX.min(cache_bytes_max / FOOTER_CACHE_PARTS);
        SealedFiles { footer_bytes_max, open: Mutex::default() }
    }

    /// A segment's file with its footer, from memory or opened now. Sets the bytes that footers
    /// take out of the budget of `cache`.
    pub(crate) fn get(
        &self,
        segment: &SealedSegment,
        disk: &dyn Disk,
        cache: &Cache,
    ) -> Result<Arc<SealedFile>, SegmentError> {
        if let Some(file) = segment.kept_open.get() {
            return Ok(file.clone());
        }
        if let Some(file) = lock(&self.open).files.get(&segment.id) {
            return Ok(file.clone());
        }
        // Opened without the lock, so that others are not held up; at worst the footer is read
        // twice.
        let file = match SealedFile::open(disk, &segment.path) {
            Ok(file) => Arc::new(file),
            // The segment was replaced just now.
            Err(error) => return segment.kept_open.get().cloned().ok_or(error),
        };
        self.put(segment.id, file.clone(), cache);
        Ok(file)
    }

    fn put(&self, id: u64, file: Arc<SealedFile>, cache: &Cache) {
        let mut open = lock(&self.open);
        if open.files.contains_key(&id) {
            return;
        }
        let bytes = file.footer().memory_bytes();
        while !open.files.is_empty()
            && (open.files.len() >= FILES_OPEN_MAX
                || open.footer_bytes + bytes > self.footer_bytes_max)
        {
            let any = fastrand::usize(..open.ids.len());
            open.close(any);
        }
        open.footer_bytes += bytes;
        open.ids.push(id);
        open.files.insert(id, file);
        cache.lend(open.footer_bytes);
    }

    /// Closes a segment's file, unless a replaced segment keeps it open.
    pub(crate) fn forget(&self, id: u64, cache: &Cache) {
        let mut open = lock(&self.open);
        if let Some(place) = open.ids.iter().position(|other| *other == id) {
            open.close(place);
            cache.lend(open.footer_bytes);
        }
    }
}

impl OpenFiles {
    /// Closes the file at an index of `ids`.
    fn close(&mut self, place: usize) {
        let id = self.ids.swap_remove(place);
        let file = self.files.remove(&id).expect("what is listed is there");
        self.footer_bytes -= file.footer().memory_bytes();
    }
}

/// Whether a segment or block with frames of these numbers may hold a line.
pub(crate) fn may_hold(numbers: &[NodeNumbers], id: LineId) -> bool {
    numbers.iter().any(|numbers| numbers.may_hold(id.node, id.sequence))
}

#[cfg(test)]
mod tests {
    use platform::RealDisk;
    use record::{Format, FrameBuilder, Origin, Parser, ParserConfig, Transport};
    use segment::sealed::{SealOptions, SealedHeader, SealedWriter};

    use super::*;

    #[test]
    fn so_many_files_are_kept_open_and_their_footers_counted() {
        let dir = tempfile::tempdir().unwrap();
        let mut builder = FrameBuilder::new();
        let origin = Origin::new(Transport::SyslogTcp, Format::Auto, None);
        builder.push_line(&origin, 1_790_000_000_000_000_000, b"<13>one line", false);
        let frame = Arc::new(builder.finish(1, 1).unwrap());
        let batch = Arc::new(Parser::new(&ParserConfig::default()).unwrap().parse(frame));
        let sealed = |segment: u64| {
            let header = SealedHeader { node: 1, segment, created_ns: 0, sequence_next: 2 };
            let (path, options) =
                (dir.path().join(sealed_name(segment)), SealOptions::new(Effort::Fast));
            let mut writer = SealedWriter::create(&RealDisk, &path, &header, &[], options).unwrap();
            writer.push(batch.clone(), None).unwrap();
            SealedSegment::from_row(&row_of(&writer.finish().unwrap()), dir.path())
        };
        let segments: Vec<SealedSegment> = (1..=FILES_OPEN_MAX as u64 + 40).map(sealed).collect();
        let cache = Cache::new(512 << 20);
        let files = SealedFiles::new(512 << 20);
        let (mut footer_bytes, mut kept) = (0, Vec::new());
        for (place, segment) in segments.iter().enumerate() {
            footer_bytes = files.get(segment, &RealDisk, &cache).unwrap().footer().memory_bytes();
            kept.push(files.get(segment, &RealDisk, &cache).unwrap());
            assert_eq!(lock(&files.open).files.len(), (place + 1).min(FILES_OPEN_MAX));
            assert!(lock(&files.open).files.contains_key(&segment.id), "the newest is kept");
        }
        assert_eq!(lock(&files.open).footer_bytes, FILES_OPEN_MAX * footer_bytes);
        assert_eq!(cache.bytes(), FILES_OPEN_MAX * footer_bytes);
        // What is kept is found without the disk.
        segments.iter().for_each(|segment| std::fs::remove_file(&segment.path).unwrap());
        let found = segments.iter().filter(|segment| files.get(segment, &RealDisk, &cache).is_ok());
        assert_eq!(found.count(), FILES_OPEN_MAX);
        segments.iter().for_each(|segment| files.forget(segment.id, &cache));
        let open = lock(&files.open);
        assert_eq!((open.files.len(), open.ids.len(), open.footer_bytes), (0, 0, 0));
        assert_eq!(cache.bytes(), 0);
        drop(open);
        // A small cache lends a quarter of itself, and one file is open in any case.
        for (cache_bytes, open) in [(0, 1), (40 * footer_bytes, 10)] {
            let (cache, files) = (Cache::new(cache_bytes), SealedFiles::new(cache_bytes));
            for id in 1..=20 {
                files.put(id, kept[0].clone(), &cache);
            }
            assert_eq!(lock(&files.open).files.len(), open);
            assert!(cache.bytes() <= cache_bytes / 4);
        }
    }
}
