//! Reads a sealed segment.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use platform::{Access, Disk};
use record::Batch;

use super::bytes::Corrupt;
use super::column::Encoding;
use super::columns::{BlockColumns, ReadChunk};
use super::compress::Decompressor;
use super::footer::{
    BlockEntry, Chunk, Footer, SEALED_HEADER_BYTES, SEALED_TRAILER_BYTES, SealedHeader, Trailer,
    damage, malformed,
};
use super::pack::Listing;
use super::restore::{lines_crc, restore};
use crate::blob::{Blob, DiskBlob, read_exact, read_index_exact};
use crate::error::SegmentError;
use crate::header::{HEADER_BYTES, SegmentHeader};
use crate::tokens::{TokenFilter, TokenHash};

/// An open sealed segment. Cheap to clone; all methods may be called concurrently.
#[derive(Clone)]
pub struct SealedFile {
    path: PathBuf,
    blob: Arc<dyn Blob>,
    footer: Arc<Footer>,
}

/// Statistics of one column of a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnInfo {
    /// The field, or `a..b` for the text between two fields; `^` and `$` are the edges of the line.
    pub name: String,
    /// How it is stored.
    pub encoding: Encoding,
    /// The number of values.
    pub values: u64,
    /// Whether it has outlines of its values.
    pub outlines: bool,
    /// Bytes before compression.
    pub bytes: u64,
    /// Bytes in the file; for a column that shares a chunk, its part of the chunk.
    pub bytes_disk: u64,
}

impl SealedFile {
    /// Opens a file and reads its footer.
    ///
    /// Errors: the file cannot be read, is damaged or incomplete, or was written by another
    /// version.
    pub fn open(disk: &dyn Disk, path: &Path) -> Result<SealedFile, SegmentError> {
        let file = disk.open(path, Access::Read).map_err(SegmentError::io(path, "open"))?;
        SealedFile::of_blob(Arc::new(DiskBlob(file)), path)
    }

    /// As [`open`](Self::open), for bytes from any storage; `path` names them in errors.
    ///
    /// Errors: as [`open`](Self::open).
    pub fn of_blob(blob: Arc<dyn Blob>, path: &Path) -> Result<SealedFile, SegmentError> {
        let bytes_disk = blob.bytes().map_err(SegmentError::io(path, "get the length"))?;
        let start =
            read_index_exact(&*blob, path, 0, (bytes_disk as usize).min(SEALED_HEADER_BYTES))?;
        let header = SealedHeader::decode(&start, path)?;
        let least = (SEALED_HEADER_BYTES + SEALED_TRAILER_BYTES) as u64;
        if bytes_disk < least {
            let expected = format!("at least {least} bytes");
            return Err(damage(path, bytes_disk, "the file", expected, format!("{bytes_disk}")));
        }
        let trailer_at = bytes_disk - SEALED_TRAILER_BYTES as u64;
        let trailer = read_index_exact(&*blob, path, trailer_at, SEALED_TRAILER_BYTES)?;
        let trailer = Trailer::decode(&trailer, path, trailer_at)?;
        if trailer.segment != header.segment {
            let (expected, found) = (header.segment, trailer.segment);
            let (expected, found) = (format!("segment {expected}"), format!("segment {found}"));
            return Err(damage(path, trailer_at + 8, "the trailer", expected, found));
        }
        let stored = read_index_exact(&*blob, path, trailer.offset, trailer.stored as usize)?;
        let body = trailer.body(&stored, path)?;
        let footer = Footer::decode(header, &body, bytes_disk)
            .map_err(|corrupt| malformed(path, trailer.offset, corrupt))?;
        let end = footer.blocks.last().map(|block| block.offset + block.bytes_disk());
        let end = end.unwrap_or(SEALED_HEADER_BYTES as u64);
        if end != trailer.offset {
            let expected = format!("blocks up to byte {}", trailer.offset);
            return Err(damage(path, trailer.offset, "the footer", expected, format!("{end}")));
        }
        Ok(SealedFile { path: path.to_owned(), blob, footer: Arc::new(footer) })
    }

    /// The footer.
    pub fn footer(&self) -> &Arc<Footer> {
        &self.footer
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the file at `path`, which is that of segment `id`, can be one that this file was
    /// made of: it has a smaller number, and the same node made it, and not after this file. None
    /// if its header cannot be read.
    pub fn may_be_made_of(&self, disk: &dyn Disk, id: u64, path: &Path) -> Option<bool> {
        let header = &self.footer.header;
        let (node, created_ns) = made_by(disk, path)?;
        let is_earlier = id < header.segment && created_ns <= header.created_ns;
        Some(node == header.node && is_earlier)
    }

    /// The records of block number `block`, which must exist.
    ///
    /// Errors: the block cannot be read or is damaged; the text gives file and offset.
    pub fn read_block(&self, block: usize) -> Result<Batch, SegmentError> {
        let entry = &self.footer.blocks[block];
        self.restored(entry, &self.read_chunks(entry)?)
    }

    /// The records of block number `place` in its [stored bytes](Self::stored_block).
    ///
    /// Errors: the block is damaged; the text gives file and offset.
    pub fn block_of(&self, place: usize, stored: &[u8]) -> Result<Batch, SegmentError> {
        let entry = &self.footer.blocks[place];
        self.restored(entry, &self.open_chunks(entry, stored)?)
    }

    fn restored(&self, entry: &BlockEntry, chunks: &[Vec<u8>]) -> Result<Batch, SegmentError> {
        restore(chunks, entry.lines as usize)
            .map_err(|corrupt| malformed(&self.path, entry.offset, corrupt))
    }

    /// How many chunks block number `block` has.
    pub fn chunks(&self, block: usize) -> usize {
        self.footer.blocks[block].chunks.len()
    }

    /// One chunk of block number `block`, verified and decompressed.
    ///
    /// Errors: the chunk cannot be read or is damaged; the text gives file and offset.
    pub fn chunk(&self, block: usize, number: usize) -> Result<Vec<u8>, SegmentError> {
        self.read_chunk(&self.footer.blocks[block], number)
    }

    /// Calls `with` with the columns of block number `block`. `read` returns its chunks, from a
    /// cache or from [`Self::chunk`].
    ///
    /// Errors: the first chunk cannot be read or is damaged; the text gives file and offset.
    pub fn with_columns<T>(
        &self,
        block: usize,
        read: ReadChunk<'_>,
        with: impl FnOnce(&BlockColumns<'_>) -> T,
    ) -> Result<T, SegmentError> {
        let entry = &self.footer.blocks[block];
        let pack = read(0)?;
        let (chunks, lines) = (entry.chunks.len(), entry.lines as usize);
        let columns = BlockColumns::open(&pack, (chunks, lines), read, &self.path, entry.offset)
            .map_err(|corrupt| malformed(&self.path, entry.offset, corrupt))?;
        Ok(with(&columns))
    }

    /// For each set of words, whether block number `block` may have a line with all of them in
    /// values of its fields. `None` if this is not known without reading the lines.
    ///
    /// Errors: the filter cannot be read or is damaged; the text gives file and offset.
    pub fn may_contain(
        &self,
        block: usize,
        sets: &[Vec<TokenHash>],
    ) -> Result<Option<Vec<bool>>, SegmentError> {
        let Some(bytes) = self.filter(block)? else { return Ok(None) };
        self.may_contain_by(block, &bytes, sets).map(Some)
    }

    /// As [`Self::may_contain`], with the filter of the block that [`Self::filter`] returned.
    ///
    /// Errors: the bytes are not a filter.
    pub fn may_contain_by(
        &self,
        block: usize,
        filter: &[u8],
        sets: &[Vec<TokenHash>],
    ) -> Result<Vec<bool>, SegmentError> {
        let filter = TokenFilter::open(filter).map_err(|_| {
            let entry = &self.footer.blocks[block];
            let offset = entry.offset + entry.chunk_bytes_disk() as u64;
            malformed(&self.path, offset, Corrupt("the filter of a block"))
        })?;
        Ok(sets.iter().map(|words| filter.may_contain_all(words)).collect())
    }

    /// Whether block number `block` has a word filter.
    pub fn has_filter(&self, block: usize) -> bool {
        self.footer.blocks[block].filter.is_some()
    }

    /// The word filter of block number `block`, verified; `None` if it has none.
    ///
    /// Errors: the filter cannot be read or is damaged; the text gives file and offset.
    pub fn filter(&self, block: usize) -> Result<Option<Vec<u8>>, SegmentError> {
        let entry = &self.footer.blocks[block];
        let Some(filter) = entry.filter else { return Ok(None) };
        let offset = entry.offset + entry.chunk_bytes_disk() as u64;
        let bytes = read_index_exact(&*self.blob, &self.path, offset, filter.bytes as usize)?;
        let found = crc32c::crc32c(&bytes);
        if found != filter.crc {
            let expected = format!("checksum {:08x}", filter.crc);
            let part = "the filter of a block";
            return Err(damage(&self.path, offset, part, expected, format!("{found:08x}")));
        }
        Ok(Some(bytes))
    }

    /// The bytes of block `place` as they are in the file, with its filter; checked.
    ///
    /// Errors: they cannot be read or are damaged; the text names file and byte.
    pub fn stored_block(&self, place: usize) -> Result<Vec<u8>, SegmentError> {
        self.stored_blocks(place..place + 1)
    }

    /// The bytes of neighbouring blocks, read at once.
    ///
    /// Errors: as [`stored_block`](Self::stored_block).
    pub(super) fn stored_blocks(&self, places: Range<usize>) -> Result<Vec<u8>, SegmentError> {
        let entries = &self.footer.blocks[places];
        let begin = entries.first().map_or(0, |entry| entry.offset);
        let bytes: u64 = entries.iter().map(BlockEntry::bytes_disk).sum();
        let stored = read_exact(&*self.blob, &self.path, begin, bytes as usize)?;
        let mut from = 0;
        for chunk in entries.iter().flat_map(|entry| entry.chunks.iter().chain(&entry.filter)) {
            let to = from + chunk.bytes_disk as usize;
            self.check_chunk(chunk, &stored[from..to], begin + from as u64)?;
            from = to;
        }
        Ok(stored)
    }

    /// Reads block number `block` and compares its lines with their checksum.
    pub fn verify_block(&self, block: usize) -> Result<Batch, SegmentError> {
        let entry = &self.footer.blocks[block];
        self.may_contain(block, &[])?;
        let batch = self.read_block(block)?;
        let found = lines_crc(&batch);
        if found != entry.lines_crc {
            let expected = format!("checksum {:08x}", entry.lines_crc);
            let found = format!("{found:08x}");
            return Err(damage(&self.path, entry.offset, "the lines of a block", expected, found));
        }
        Ok(batch)
    }

    /// How the columns of block number `block` are stored; the fixed ones (times, line ids,
    /// layouts) are not listed.
    pub fn columns(&self, block: usize) -> Result<Vec<ColumnInfo>, SegmentError> {
        let entry = &self.footer.blocks[block];
        let chunks = self.read_chunks(entry)?;
        let corrupt = |corrupt| malformed(&self.path, entry.offset, corrupt);
        let listing = Listing::read(&chunks[0]).map_err(corrupt)?;
        let name = |number: usize, edge: &str| match number.checked_sub(1) {
            Some(index) => listing.names[index].to_owned(),
            None => edge.to_owned(),
        };
        let describe = |column: &super::pack::ColumnEntry| {
            let encoding = Encoding::of(column.encoding).map_err(corrupt)?;
            let (mut bytes, mut bytes_disk) = (0, 0);
            let outlines = (column.outlines > 0).then_some((column.outlines, 0));
            for (chunk, inside) in column.sections.iter().copied().chain(outlines) {
                let of = entry.chunks.get(chunk).copied().unwrap_or_default();
                let part = if chunk == 0 { inside as u64 } else { u64::from(of.bytes) };
                bytes += part;
                bytes_disk += part * u64::from(of.bytes_disk) / u64::from(of.bytes.max(1));
            }
            let outlines = column.outlines > 0;
            let name = match column.kind {
                2 => format!("{}..{}", name(column.first, "^"), name(column.second, "$")),
                _ => name(column.first, ""),
            };
            let values = column.values as u64;
            Ok(ColumnInfo { name, encoding, values, outlines, bytes, bytes_disk })
        };
        listing.columns.iter().map(describe).collect()
    }

    /// One chunk of a block, verified and decompressed.
    fn read_chunk(&self, entry: &BlockEntry, number: usize) -> Result<Vec<u8>, SegmentError> {
        let Some(chunk) = entry.chunks.get(number) else {
            let corrupt = Corrupt("the chunk of a column");
            return Err(malformed(&self.path, entry.offset, corrupt));
        };
        let before = entry.chunks[..number].iter().map(|chunk| u64::from(chunk.bytes_disk));
        let offset = entry.offset + before.sum::<u64>();
        let stored = read_exact(&*self.blob, &self.path, offset, chunk.bytes_disk as usize)?;
        self.open_chunk(chunk, &stored, offset, &mut Decompressor::default())
    }

    fn check_chunk(&self, chunk: &Chunk, stored: &[u8], offset: u64) -> Result<(), SegmentError> {
        let found = crc32c::crc32c(stored);
        if found == chunk.crc {
            return Ok(());
        }
        let expected = format!("checksum {:08x}", chunk.crc);
        Err(damage(&self.path, offset, "a block", expected, format!("{found:08x}")))
    }

    fn open_chunk(
        &self,
        chunk: &Chunk,
        stored: &[u8],
        offset: u64,
        decompressor: &mut Decompressor,
    ) -> Result<Vec<u8>, SegmentError> {
        self.check_chunk(chunk, stored, offset)?;
        decompressor
            .decompress(stored, chunk.bytes as usize)
            .map_err(|corrupt| malformed(&self.path, offset, corrupt))
    }

    /// All chunks of a block, verified and decompressed.
    fn read_chunks(&self, entry: &BlockEntry) -> Result<Vec<Vec<u8>>, SegmentError> {
        let stored = read_exact(&*self.blob, &self.path, entry.offset, entry.chunk_bytes_disk())?;
        self.open_chunks(entry, &stored)
    }

    /// The chunks of a block, verified and decompressed, of the bytes with which it begins.
    fn open_chunks(&self, entry: &BlockEntry, stored: &[u8]) -> Result<Vec<Vec<u8>>, SegmentError> {
        let mut from = 0;
        let mut chunks = Vec::with_capacity(entry.chunks.len());
        let mut decompressor = Decompressor::default();
        for chunk in &entry.chunks {
            let to = from + chunk.bytes_disk as usize;
            let offset = entry.offset + from as u64;
            chunks.push(self.open_chunk(chunk, &stored[from..to], offset, &mut decompressor)?);
            from = to;
        }
        Ok(chunks)
    }
}

/// The node that made the file of a segment, hot or sealed, and when, nanoseconds since 1970 UTC;
/// None if its header cannot be read.
fn made_by(disk: &dyn Disk, path: &Path) -> Option<(u32, i64)> {
    let file = disk.open(path, Access::Read).ok()?;
    let mut first = vec![0; HEADER_BYTES];
    let found = file.read_at(&mut first, 0).ok()?;
    first.truncate(found);
    if let Ok((header, _)) = SegmentHeader::decode(&first, path) {
        return Some((header.node, header.created_ns));
    }
    let header = SealedHeader::decode(&first, path).ok()?;
    Some((header.node, header.created_ns))
}
