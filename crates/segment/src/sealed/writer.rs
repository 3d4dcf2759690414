//! Writes a sealed segment from batches.
//!
//! Rows are gathered to a chunk of some tens of MiB, grouped, and written as blocks of about 2 MiB; memory is bounded
//! by that. Each block is read again from its own bytes and compared with its source before the next one.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use platform::{Access, AlignedBuffer, BLOCK_BYTES, Disk, DiskFile};
use record::{Batch, FieldId, Place, Row, Transport};

use super::block::{BlockWriter, EncodedBlock, RowRef};
use super::column::ByHash;
use super::compress::{Compressor, decompress};
use super::footer::{Effort, Footer, SEALED_HEADER_BYTES, SealedHeader, malformed};
use super::layout::{BatchShapes, Layouts};
use super::restore::{lines_crc, restore};
use super::rollup::{Counter, ROLLUP_FIELDS};
use super::{Clustering, SealOptions};
use crate::error::SegmentError;

/// Bytes gathered for one write.
const STAGING_BYTES: usize = 1 << 20;
/// Rows gathered for one chunk, whatever their bytes.
const CHUNK_ROWS_MAX: usize = 1 << 20;
/// A line whose event time is so far from its arrival is one of another time: it came late, its clock is wrong, or it
/// was imported.
const DISPLACED_NS: i64 = 60_000_000_000;
/// A group smaller than this part of a block has none of its own.
const GROUP_PARTS: usize = 8;
/// Names and layouts that are kept from block to block.
const LAYOUTS_KEPT_MAX: usize = 4_096;

/// Writes one file. Dropped before [`finish`](Self::finish) it leaves a file that is none; whoever made it removes it.
pub struct SealedWriter {
    path: PathBuf,
    file: Arc<dyn DiskFile>,
    options: SealOptions,
    footer: Footer,
    counter: Counter,
    layouts: Layouts,
    blocks: BlockWriter,
    compressor: Compressor,
    pending: Pending,
    /// Of the batches of the chunk being written.
    shapes: Vec<BatchShapes>,
    staging: AlignedBuffer,
    staged: usize,
    /// Bytes written before the staged ones.
    written: u64,
}

/// Rows that wait for their chunk to be full.
#[derive(Default)]
struct Pending {
    batches: Vec<Arc<Batch>>,
    groups: Vec<Group>,
    /// By number of the group.
    places: ByHash<u32>,
    last: u32,
    rows: usize,
    bytes: usize,
}

/// Rows that go into blocks together.
#[derive(Default)]
struct Group {
    number: u64,
    rows: Vec<RowRef>,
    bytes: usize,
}

/// Bit of a group: the event times of its lines are far from their arrival.
const DISPLACED: u64 = 1 << 63;
/// Bit of a group: Loginson made the lines itself. However few they are, they stand in blocks of their own.
const INTERNAL: u64 = 1 << 62;

impl Pending {
    #[inline]
    fn push(&mut self, number: u64, row: RowRef, bytes: usize) {
        if self.groups.get(self.last as usize).is_none_or(|group| group.number != number) {
            self.last = *self.places.entry(number).or_insert_with(|| {
                self.groups.push(Group { number, ..Group::default() });
                self.groups.len() as u32 - 1
            });
        }
        let group = &mut self.groups[self.last as usize];
        group.rows.push(row);
        group.bytes += bytes;
        self.rows += 1;
        self.bytes += bytes;
    }

    /// The groups, those too small for a block together; each in the order of arrival, lines of other times in that of
    /// their times.
    fn grouped(&mut self, bytes_min: usize) -> Vec<Group> {
        let mut groups = Vec::new();
        let mut rests = [Group::default(), Group { number: DISPLACED, ..Group::default() }];
        for group in self.groups.drain(..) {
            if group.bytes >= bytes_min || group.number & INTERNAL != 0 {
                groups.push(group);
            } else {
                let rest = &mut rests[usize::from(group.number & DISPLACED != 0)];
                rest.rows.extend(group.rows);
                rest.bytes += group.bytes;
            }
        }
        for mut rest in rests {
            rest.rows.sort_unstable_by_key(|row| (row.batch, row.row));
            if !rest.rows.is_empty() {
                groups.push(rest);
            }
        }
        for group in groups.iter_mut().filter(|group| group.number & DISPLACED != 0) {
            let time_ns =
                |at: &RowRef| self.batches[at.batch as usize].row(at.row as usize).time_ns();
            group.rows.sort_by_key(time_ns);
        }
        groups
    }
}

impl SealedWriter {
    /// Makes a file, which must not be there, for the lines of the segments `replaces`.
    pub fn create(
        disk: &dyn Disk,
        path: &Path,
        header: &SealedHeader,
        replaces: &[u64],
        options: SealOptions,
    ) -> Result<Self, SegmentError> {
        let file = disk.open(path, Access::Create).map_err(SegmentError::io(path, "create"))?;
        let mut writer = SealedWriter {
            path: path.to_owned(),
            file,
            footer: Footer {
                header: *header,
                replaces: replaces.to_vec(),
                effort: options.effort,
                ..Footer::default()
            },
            options,
            counter: Counter::default(),
            layouts: Layouts::default(),
            blocks: BlockWriter::default(),
            compressor: Compressor::default(),
            pending: Pending::default(),
            shapes: Vec::new(),
            staging: AlignedBuffer::new(STAGING_BYTES),
            staged: 0,
            written: 0,
        };
        writer.stage(&header.encode())?;
        debug_assert_eq!(writer.end(), SEALED_HEADER_BYTES as u64);
        Ok(writer)
    }

    /// Takes the rows of a batch that `keep` holds for, or all. Batches come in the order in which their lines
    /// arrived.
    pub fn push(
        &mut self,
        batch: Arc<Batch>,
        keep: Option<&dyn Fn(&Row<'_>) -> bool>,
    ) -> Result<(), SegmentError> {
        let marks = batch.origins().iter().filter_map(|origin| origin.hints.summarised_through);
        self.footer.summarised_through = self.footer.summarised_through.max(marks.max());
        let ids = ROLLUP_FIELDS.map(|name| batch.field_id(name));
        let place = self.pending.batches.len() as u32;
        let mut taken = false;
        for row in batch.rows() {
            if keep.is_some_and(|keep| !keep(&row)) {
                continue;
            }
            taken = true;
            let value = |field: usize| ids[field].and_then(|id| row.get(id)).unwrap_or_default();
            let values = [value(0), value(1), value(2), value(3)];
            self.counter.add(row.time_ns(), values);
            let displaced = row.time_ns().abs_diff(row.received_ns()) > DISPLACED_NS as u64;
            let group = match self.options.clustering {
                _ if is_internal(&batch, row.origin_index()) => INTERNAL,
                Clustering::Arrival => 1,
                Clustering::Application => group(&[values[3], values[2]]),
                Clustering::Stream => group(&[values[3], values[2], values[1]]),
            };
            let group = group | if displaced { DISPLACED } else { 0 };
            let at = RowRef { batch: place, row: row.index() };
            self.pending.push(group, at, row.raw().len() + 1);
        }
        if taken {
            self.pending.batches.push(batch);
        }
        if self.pending.bytes >= self.options.chunk_bytes || self.pending.rows >= CHUNK_ROWS_MAX {
            self.write_chunk()?;
        }
        Ok(())
    }

    /// Writes what is left, the footer, and makes the file durable.
    pub fn finish(mut self) -> Result<Footer, SegmentError> {
        self.write_chunk()?;
        let lines = self.footer.lines();
        self.footer.rollups = std::mem::take(&mut self.counter).finish(lines);
        let tail = self.footer.encode(self.end());
        self.stage(&tail)?;
        let end = self.end();
        self.flush(true)?;
        self.file.truncate(end).map_err(SegmentError::io(&self.path, "truncate"))?;
        self.file.sync_data().map_err(SegmentError::io(&self.path, "sync"))?;
        self.footer.bytes_disk = end;
        Ok(self.footer)
    }

    /// Lines written or waiting.
    pub fn lines(&self) -> u64 {
        self.footer.lines() + self.pending.rows as u64
    }

    fn write_chunk(&mut self) -> Result<(), SegmentError> {
        let mut pending = std::mem::take(&mut self.pending);
        let groups = pending.grouped(self.options.block_bytes / GROUP_PARTS);
        let batches = pending.batches;
        self.shapes.clear();
        for Group { rows, bytes, .. } in groups {
            // Blocks of one size, none of them a small rest.
            let blocks = bytes.div_ceil(self.options.block_bytes);
            let (mut from, mut gathered) = (0, 0);
            for (place, at) in rows.iter().enumerate() {
                gathered += batches[at.batch as usize].row(at.row as usize).raw().len() + 1;
                if gathered * blocks >= bytes {
                    self.write_blocks(&batches, &rows[from..=place])?;
                    (from, gathered) = (place + 1, 0);
                }
            }
            self.write_blocks(&batches, &rows[from..])?;
        }
        Ok(())
    }

    /// Writes rows as one block, or as several when they have very many names or layouts.
    fn write_blocks(
        &mut self,
        batches: &[Arc<Batch>],
        mut rows: &[RowRef],
    ) -> Result<(), SegmentError> {
        while !rows.is_empty() {
            if self.layouts.len() > LAYOUTS_KEPT_MAX {
                self.layouts = Layouts::default();
                self.blocks.forget_columns();
                self.shapes.clear();
            }
            let (mut block, taken) = self.blocks.encode(
                batches,
                &mut self.shapes,
                rows,
                &mut self.layouts,
                &self.options,
                &mut self.compressor,
            );
            block.entry.lines_crc = self.verify(&block, batches, &rows[..taken])?;
            let EncodedBlock { bytes, mut entry } = block;
            entry.offset = self.end();
            let internal = rows[..taken].iter().filter(|at| {
                let batch = &batches[at.batch as usize];
                is_internal(batch, batch.row(at.row as usize).origin_index())
            });
            entry.lines_internal = internal.count() as u32;
            self.stage(&bytes)?;
            self.footer.blocks.push(entry);
            rows = &rows[taken..];
        }
        Ok(())
    }

    /// Reads a block from its own bytes and compares it with its source; returns the checksum over its lines.
    fn verify(
        &self,
        block: &EncodedBlock,
        batches: &[Arc<Batch>],
        rows: &[RowRef],
    ) -> Result<u32, SegmentError> {
        let at = self.end();
        let mut from = 0;
        let mut chunks = Vec::with_capacity(block.entry.chunks.len());
        for chunk in &block.entry.chunks {
            let to = from + chunk.bytes_disk as usize;
            let bytes = decompress(&block.bytes[from..to], chunk.bytes as usize);
            chunks.push(bytes.map_err(|corrupt| malformed(&self.path, at, corrupt))?);
            from = to;
        }
        let restored =
            restore(&chunks, rows.len()).map_err(|corrupt| malformed(&self.path, at, corrupt))?;
        let mut names = NameTable::default();
        for (found, at_row) in restored.rows().zip(rows) {
            let batch = &batches[at_row.batch as usize];
            let expected = batch.row(at_row.row as usize);
            names.of(at_row.batch, batch, &restored);
            if !alike(&found, &expected, &restored, batch, &names.table) {
                return Err(SegmentError::Damaged {
                    path: self.path.clone(),
                    offset: at,
                    part: "a line, as it would be read again,",
                    expected: format!("{:?}", String::from_utf8_lossy(expected.raw())),
                    found: format!("{:?}", String::from_utf8_lossy(found.raw())),
                });
            }
        }
        Ok(lines_crc(&restored))
    }

    fn end(&self) -> u64 {
        self.written + self.staged as u64
    }

    fn stage(&mut self, mut bytes: &[u8]) -> Result<(), SegmentError> {
        while !bytes.is_empty() {
            let part = bytes.len().min(STAGING_BYTES - self.staged);
            self.staging[self.staged..self.staged + part].copy_from_slice(&bytes[..part]);
            self.staged += part;
            bytes = &bytes[part..];
            if self.staged == STAGING_BYTES {
                self.flush(false)?;
            }
        }
        Ok(())
    }

    /// Writes whole disk blocks; the last one padded with zeros, which the caller cuts off.
    fn flush(&mut self, last: bool) -> Result<(), SegmentError> {
        let end = self.staged.next_multiple_of(BLOCK_BYTES);
        debug_assert!(last || end == self.staged);
        self.staging[self.staged..end].fill(0);
        self.file
            .write_at(&self.staging[..end], self.written)
            .map_err(SegmentError::io(&self.path, "write"))?;
        self.written += self.staged as u64;
        self.staged = 0;
        Ok(())
    }
}

/// Numbers of names in a source, by those in the restored block.
#[derive(Default)]
struct NameTable {
    of: Option<u32>,
    table: Vec<Option<FieldId>>,
}

impl NameTable {
    fn of(&mut self, place: u32, batch: &Batch, restored: &Batch) {
        if self.of != Some(place) {
            self.of = Some(place);
            self.table.clear();
            self.table.extend(restored.names().iter().map(|name| batch.field_id(name)));
        }
    }
}

/// Whether two rows are the same record: a restored one, and its source.
#[inline]
fn alike(a: &Row<'_>, b: &Row<'_>, of_a: &Batch, of_b: &Batch, names: &[Option<FieldId>]) -> bool {
    let same_field = |place: usize, (name_a, at_a, length_a), (name_b, at_b, length_b)| {
        let name_a: FieldId = name_a;
        let same_value = match (at_a, at_b) {
            (Place::Line(a), Place::Line(b)) => a == b || length_a == 0,
            _ => a.field_at(place) == b.field_at(place),
        };
        names[usize::from(name_a.0)] == Some(name_b) && length_a == length_b && same_value
    };
    a.raw() == b.raw()
        && (a.id(), a.time_ns(), a.received_ns()) == (b.id(), b.time_ns(), b.received_ns())
        && of_a.origins()[usize::from(a.origin_index())]
            == of_b.origins()[usize::from(b.origin_index())]
        && a.places().len() == b.places().len()
        && a.places().zip(b.places()).enumerate().all(|(i, (a, b))| same_field(i, a, b))
}

fn is_internal(batch: &Batch, origin: u16) -> bool {
    batch.origins()[usize::from(origin)].transport == Transport::Internal
}

/// A number for the values that lines are grouped by; below [`INTERNAL`].
fn group(values: &[&[u8]]) -> u64 {
    let mut crc = 0;
    for value in values {
        crc = crc32c::crc32c_append(crc32c::crc32c_append(crc, value), b"\0");
    }
    u64::from(crc) + 1
}

impl Effort {
    /// Level of zstd.
    pub(crate) fn level(self) -> i32 {
        match self {
            Effort::Fast => 1,
            Effort::Best => 12,
        }
    }

    /// A column of at least so many bytes is a chunk of its own: it can be read alone, and its bytes are alike. Smaller
    /// ones gain from lying together.
    pub(crate) fn own_chunk_bytes(self) -> usize {
        match self {
            Effort::Fast => 64 << 10,
            Effort::Best => 2 << 10,
        }
    }
}
