//! Writes a sealed segment from batches.
//!
//! Rows are collected to a chunk of some tens of MiB, grouped, and written as blocks of about 2
//! MiB; the chunk bounds the memory. The blocks of a chunk are independent, so several threads may
//! make them. Each block is read back from its own bytes and compared with its source before it is
//! written.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use platform::{Access, AlignedBuffer, BLOCK_BYTES, Disk, DiskFile, helpers};
use record::{Batch, Row};

use super::SealOptions;
use super::block::{BlockWriter, EncodedBlock, RowRef};
use super::compress::{Compressor, Decompressor};
use super::footer::{BlockEntry, Effort, Footer, SEALED_HEADER_BYTES, SealedHeader, malformed};
use super::gather::{Group, Pending, count};
use super::layout::{BatchShapes, Layouts};
use super::restore::restore;
use super::rollup::Counter;
use super::verify::{Compared, compare};
use crate::error::SegmentError;

/// Bytes collected for one write.
const STAGING_BYTES: usize = 1 << 20;
/// Rows collected for one chunk, whatever their size.
const CHUNK_ROWS_MAX: usize = 1 << 20;
/// Name of the threads that help to make blocks, and of those that read the source rows.
pub const HELPERS_NAME: &str = "seal-help";
/// Names and layouts that are kept from block to block; with more, all are dropped.
const LAYOUTS_KEPT_MAX: usize = 4_096;

/// Writes one file. If it is dropped before [`finish`](Self::finish), the file is incomplete, and
/// the caller must remove it.
pub struct SealedWriter {
    path: PathBuf,
    file: Arc<dyn DiskFile>,
    options: SealOptions,
    footer: Footer,
    counter: Counter,
    pending: Pending,
    /// One for each thread that makes blocks.
    makers: Vec<Maker>,
    staging: AlignedBuffer,
    staged: usize,
    /// Bytes written before the staged ones.
    written: u64,
}

impl SealedWriter {
    /// Creates a file, which must not exist, for the lines of the segments `replaces`.
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
            pending: Pending::default(),
            makers: vec![Maker::default()],
            staging: AlignedBuffer::new(STAGING_BYTES),
            staged: 0,
            written: 0,
        };
        writer.stage(&header.encode())?;
        debug_assert_eq!(writer.end(), SEALED_HEADER_BYTES as u64);
        Ok(writer)
    }

    /// Takes the rows of a batch for which `keep` returns true, or all. Batches must come in the
    /// order in which their lines arrived.
    pub fn push(
        &mut self,
        batch: Arc<Batch>,
        keep: Option<&dyn Fn(&Row<'_>) -> bool>,
    ) -> Result<(), SegmentError> {
        self.note_marks(&batch);
        self.pending.take(batch, keep, self.options.clustering, &mut self.counter);
        if self.pending.bytes >= self.options.chunk_bytes || self.pending.rows >= CHUNK_ROWS_MAX {
            self.write_chunk()?;
        }
        Ok(())
    }

    fn note_marks(&mut self, batch: &Batch) {
        let marks = batch.origins().iter().filter_map(|origin| origin.hints.summarised_through);
        self.footer.summarised_through = self.footer.summarised_through.max(marks.max());
    }

    /// Counts the lines of a file whose blocks are all [copied](Self::copy_block). The counts of
    /// the new file tell no shorter intervals of time apart than those of its sources.
    pub fn count_copied(&mut self, footer: &Footer) {
        let mark = footer.summarised_through;
        self.footer.summarised_through = self.footer.summarised_through.max(mark);
        if footer.lines() > footer.lines_internal() {
            self.counter.add_counted(footer.rollups.iter().chain(&footer.pairs));
        }
    }

    /// Counts the lines of a block that is [copied](Self::copy_block) while others of its file are
    /// not.
    pub fn count_block(&mut self, batch: &Batch) {
        self.note_marks(batch);
        count(batch, &mut self.counter);
    }

    /// Adds a block of another file, as
    /// [`SealedFile::stored_block`](super::SealedFile::stored_block) gave it, behind all rows so
    /// far.
    pub fn copy_block(&mut self, entry: &BlockEntry, stored: &[u8]) -> Result<(), SegmentError> {
        debug_assert_eq!(entry.bytes_disk(), stored.len() as u64);
        self.write_chunk()?;
        let entry = BlockEntry { offset: self.end(), ..entry.clone() };
        self.stage(stored)?;
        self.footer.blocks.push(entry);
        Ok(())
    }

    /// Writes the remaining rows and the footer, and makes the file durable.
    pub fn finish(mut self) -> Result<Footer, SegmentError> {
        self.write_chunk()?;
        let lines = self.footer.lines();
        (self.footer.rollups, self.footer.pairs) = std::mem::take(&mut self.counter).finish(lines);
        let tail = self.footer.encode(self.end());
        self.stage(&tail)?;
        let end = self.end();
        self.flush(true)?;
        self.file.truncate(end).map_err(SegmentError::io(&self.path, "truncate"))?;
        self.file.sync_data().map_err(SegmentError::io(&self.path, "sync"))?;
        self.footer.bytes_disk = end;
        Ok(self.footer)
    }

    /// Sets the number of threads that make blocks from now on, at least one, including the
    /// caller's; initially one. Whatever the number, blocks are written in the same order with the
    /// same lines, except if lines have thousands of layouts; the encoding of a block depends
    /// slightly on which blocks its thread made before.
    pub fn set_threads(&mut self, threads: usize) {
        self.makers.resize_with(threads.max(1), Maker::default);
    }

    fn write_chunk(&mut self) -> Result<(), SegmentError> {
        if self.pending.rows == 0 {
            return Ok(());
        }
        let mut pending = std::mem::take(&mut self.pending);
        let groups = pending.grouped(self.options.block_bytes);
        let chunk = Chunk { path: &self.path, offset: self.end(), options: self.options, pending };
        let mut rows_of_blocks: Vec<&[RowRef]> = Vec::new();
        for Group { rows, bytes, .. } in &groups {
            chunk.divide(rows, *bytes, |rows| rows_of_blocks.push(rows));
        }
        let make = |maker: &mut Maker, rows: &&[RowRef]| maker.make(&chunk, rows);
        let made = helpers::shared_out(HELPERS_NAME, &mut self.makers, &rows_of_blocks, make);
        self.makers.iter_mut().for_each(|maker| maker.shapes = Vec::new());
        for blocks in made {
            for EncodedBlock { bytes, mut entry } in blocks? {
                entry.offset = self.end();
                self.stage(&bytes)?;
                self.footer.blocks.push(entry);
            }
        }
        Ok(())
    }

    /// Bytes of the file so far, including staged ones.
    pub fn end(&self) -> u64 {
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

    /// Writes whole disk blocks; pads the last one with zeros, which the caller cuts off.
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

/// Rows that are grouped together.
struct Chunk<'a> {
    path: &'a Path,
    /// Offset of its first block.
    offset: u64,
    options: SealOptions,
    pending: Pending,
}

impl Chunk<'_> {
    /// Divides the rows of a group, which take `bytes` bytes, into blocks of equal size, so that
    /// the last one is not a small remainder.
    fn divide<'r>(&self, rows: &'r [RowRef], bytes: usize, mut each: impl FnMut(&'r [RowRef])) {
        let blocks = bytes.div_ceil(self.options.block_bytes);
        let (mut from, mut gathered) = (0, 0);
        for (index, at) in rows.iter().enumerate() {
            let batch = &self.pending.batches[at.batch as usize];
            gathered += batch.row(at.row as usize).raw_bytes() + 1;
            if gathered * blocks >= bytes {
                each(&rows[from..=index]);
                (from, gathered) = (index + 1, 0);
            }
        }
        if from < rows.len() {
            each(&rows[from..]);
        }
    }
}

/// The state of a thread that makes blocks, one after the other.
#[derive(Default)]
struct Maker {
    layouts: Layouts,
    blocks: BlockWriter,
    compressor: Compressor,
    decompressor: Decompressor,
    /// The shapes of each batch of the current chunk; empty before its first block.
    shapes: Vec<BatchShapes>,
}

impl Maker {
    /// Makes one block of the rows, or several if they have very many names or layouts.
    fn make(
        &mut self,
        chunk: &Chunk<'_>,
        mut rows: &[RowRef],
    ) -> Result<Vec<EncodedBlock>, SegmentError> {
        let batches = &chunk.pending.batches;
        let mut made = Vec::with_capacity(1);
        if self.shapes.is_empty() {
            self.shapes = chunk.pending.shapes();
        }
        while !rows.is_empty() {
            if self.layouts.len() > LAYOUTS_KEPT_MAX {
                self.layouts = Layouts::default();
                self.blocks.forget_columns();
                self.shapes.iter_mut().for_each(BatchShapes::forget);
            }
            let (mut block, taken) = self.blocks.encode(
                batches,
                &mut self.shapes,
                rows,
                &mut self.layouts,
                &chunk.options,
                &mut self.compressor,
            );
            block.entry.lines_crc = self.verify(&block, chunk, &rows[..taken])?;
            made.push(block);
            rows = &rows[taken..];
        }
        Ok(made)
    }

    /// Reads a block from its own bytes and compares it with its source; returns the checksum over
    /// its lines.
    fn verify(
        &mut self,
        block: &EncodedBlock,
        chunk: &Chunk<'_>,
        rows: &[RowRef],
    ) -> Result<u32, SegmentError> {
        let (at, batches) = (chunk.offset, &chunk.pending.batches);
        let corrupt = |corrupt| malformed(chunk.path, at, corrupt);
        let mut from = 0;
        let mut chunks = Vec::with_capacity(block.entry.chunks.len());
        for entry in &block.entry.chunks {
            let to = from + entry.bytes_disk as usize;
            let bytes = self.decompressor.decompress(&block.bytes[from..to], entry.bytes as usize);
            chunks.push(bytes.map_err(corrupt)?);
            from = to;
        }
        let index = match compare(&chunks, batches, rows).map_err(corrupt)? {
            Compared::Alike(crc) => return Ok(crc),
            Compared::Different(index) => index,
        };
        let restored = restore(&chunks, rows.len()).map_err(corrupt)?;
        let expected = batches[rows[index].batch as usize].row(rows[index].row as usize);
        Err(SegmentError::Damaged {
            path: chunk.path.to_owned(),
            offset: at,
            part: "a line, read back for verification,",
            expected: format!("{:?}", String::from_utf8_lossy(expected.raw())),
            found: format!("{:?}", String::from_utf8_lossy(restored.row(index).raw())),
        })
    }
}

impl Effort {
    /// Level of zstd.
    pub fn level(self) -> i32 {
        match self {
            Effort::Fast => 1,
            // Higher levels gain a few percent and take many times as long, see
            // [`crate::template`].
            Effort::Best => 9,
        }
    }

    /// A column of at least this many bytes is a chunk of its own: it can be read alone, and its
    /// bytes are similar. Smaller ones compress better together.
    pub(crate) fn own_chunk_bytes(self) -> usize {
        match self {
            Effort::Fast => 64 << 10,
            Effort::Best => 2 << 10,
        }
    }
}
