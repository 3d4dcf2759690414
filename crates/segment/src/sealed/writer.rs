//! Writes a sealed segment from batches.
//!
//! Rows are gathered to a chunk of some tens of MiB, grouped, and written as blocks of about 2 MiB; memory is bounded
//! by that. Each block is read again from its own bytes and compared with its source before the next one.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use platform::{Access, AlignedBuffer, BLOCK_BYTES, Disk, DiskFile};
use record::{Batch, Row};

use super::block::{BlockWriter, EncodedBlock, RowRef};
use super::compress::{Compressor, decompress};
use super::footer::{Effort, Footer, SEALED_HEADER_BYTES, SealedHeader, malformed};
use super::layout::Layouts;
use super::restore::restore;
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
    staging: AlignedBuffer,
    staged: usize,
    /// Bytes written before the staged ones.
    written: u64,
}

/// Rows that wait for their chunk to be full.
#[derive(Default)]
struct Pending {
    batches: Vec<Arc<Batch>>,
    rows: Vec<(u64, RowRef)>,
    bytes: usize,
}

/// Bit of a group: the event times of its lines are far from their arrival.
const DISPLACED: u64 = 1 << 63;
/// The lines of all groups that are too small for a block.
const REST: u64 = DISPLACED - 1;

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
                Clustering::Arrival => 1,
                Clustering::Application => group(&[values[3], values[2]]),
                Clustering::Stream => group(&[values[3], values[2], values[1]]),
            };
            let group = group | if displaced { DISPLACED } else { 0 };
            self.pending.rows.push((group, RowRef { batch: place, row: row.index() }));
            self.pending.bytes += row.raw().len() + 1;
        }
        if taken {
            self.pending.batches.push(batch);
        }
        if self.pending.bytes >= self.options.chunk_bytes
            || self.pending.rows.len() >= CHUNK_ROWS_MAX
        {
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
        self.footer.lines() + self.pending.rows.len() as u64
    }

    fn write_chunk(&mut self) -> Result<(), SegmentError> {
        let Pending { batches, mut rows, .. } = std::mem::take(&mut self.pending);
        let raw = |at: &RowRef| batches[at.batch as usize].row(at.row as usize).raw().len() + 1;
        // Groups too small for a block of their own go together, in the order of arrival.
        let mut bytes_of: std::collections::HashMap<u64, usize> = std::collections::HashMap::new();
        for (group, at) in &rows {
            *bytes_of.entry(*group).or_default() += raw(at);
        }
        let small = self.options.block_bytes / 8;
        for (group, _) in &mut rows {
            if bytes_of[group] < small {
                *group |= REST;
            }
        }
        rows.sort_by_key(|(group, at)| {
            let time_ns = match *group & DISPLACED {
                0 => 0,
                _ => batches[at.batch as usize].row(at.row as usize).time_ns(),
            };
            (*group, time_ns)
        });
        for of_group in rows.chunk_by(|a, b| a.0 == b.0) {
            let refs: Vec<RowRef> = of_group.iter().map(|(_, at)| *at).collect();
            let total: usize = refs.iter().map(raw).sum();
            let blocks = total.div_ceil(self.options.block_bytes);
            let (mut from, mut bytes) = (0, 0);
            for (place, at) in refs.iter().enumerate() {
                bytes += raw(at);
                if bytes * blocks >= total || place + 1 == refs.len() {
                    self.write_blocks(&batches, &refs[from..=place])?;
                    (from, bytes) = (place + 1, 0);
                }
            }
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
            }
            let (block, taken) = self.blocks.encode(
                batches,
                rows,
                &mut self.layouts,
                &self.options,
                &mut self.compressor,
            );
            self.verify(&block, batches, &rows[..taken])?;
            let EncodedBlock { bytes, mut entry } = block;
            entry.offset = self.end();
            self.stage(&bytes)?;
            self.footer.blocks.push(entry);
            rows = &rows[taken..];
        }
        Ok(())
    }

    /// Reads a block from its own bytes and compares it with its source.
    fn verify(
        &self,
        block: &EncodedBlock,
        batches: &[Arc<Batch>],
        rows: &[RowRef],
    ) -> Result<(), SegmentError> {
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
        for (found, at_row) in restored.rows().zip(rows) {
            let expected = batches[at_row.batch as usize].row(at_row.row as usize);
            if !alike(&found, &expected, &restored, &batches[at_row.batch as usize]) {
                return Err(SegmentError::Damaged {
                    path: self.path.clone(),
                    offset: at,
                    part: "a line, as it would be read again,",
                    expected: format!("{:?}", String::from_utf8_lossy(expected.raw())),
                    found: format!("{:?}", String::from_utf8_lossy(found.raw())),
                });
            }
        }
        Ok(())
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

/// Whether two rows are the same record.
#[inline]
fn alike(a: &Row<'_>, b: &Row<'_>, of_a: &Batch, of_b: &Batch) -> bool {
    let fields = a.fields().zip(b.fields());
    a.raw() == b.raw()
        && (a.id(), a.time_ns(), a.received_ns()) == (b.id(), b.time_ns(), b.received_ns())
        && of_a.origins()[usize::from(a.origin_index())]
            == of_b.origins()[usize::from(b.origin_index())]
        && a.places().len() == b.places().len()
        && fields.into_iter().all(|((name_a, value_a), (name_b, value_b))| {
            value_a == value_b && of_a.name(name_a) == of_b.name(name_b)
        })
}

/// A number for the values that lines are grouped by; below [`REST`].
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
}
