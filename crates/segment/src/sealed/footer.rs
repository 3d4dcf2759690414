//! The footer of a sealed segment: where its blocks are, and what is in them.
//!
//! ```text
//! header 64 B | block | block | … | footer (zstd) | trailer 48 B
//! ```
//!
//! The trailer at the very end gives the position and checksum of the footer, so that an incomplete
//! file is recognised at once.

use std::path::Path;

use super::bytes::{Corrupt, Cursor, Read, put_signed, put_varint};
use super::compress::{Compressor, Decompressor};
use super::rollup::{EachCount, Rollup};
use crate::error::SegmentError;
use crate::header::array;
use record::Tenant;

/// Bytes at the start of the file.
pub const SEALED_HEADER_BYTES: usize = 64;
/// Bytes at the end of the file.
pub const SEALED_TRAILER_BYTES: usize = 48;
/// Version of the file. A file of another version is refused.
pub const SEALED_VERSION: u16 = 7;

const MAGIC: [u8; 8] = *b"LGNSEALD";
const TRAILER_MAGIC: [u8; 8] = *b"LGNSLEND";
/// Footers are compressed at a high but fast level: they are read often and written once.
const FOOTER_LEVEL: i32 = 9;
/// Limit on the blocks of a file, and on the chunks of a block.
const COUNT_MAX: usize = 1 << 24;

/// The header of a sealed segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SealedHeader {
    /// Id of the node that wrote the file.
    pub node: u32,
    /// Number of the segment on its node.
    pub segment: u64,
    /// When it was written, nanoseconds since 1970 UTC.
    pub created_ns: i64,
    /// The node's next sequence number at that time, as in a hot segment.
    pub sequence_next: u64,
}

impl SealedHeader {
    pub(crate) fn encode(&self) -> [u8; SEALED_HEADER_BYTES] {
        let mut out = [0; SEALED_HEADER_BYTES];
        out[..8].copy_from_slice(&MAGIC);
        out[8..10].copy_from_slice(&SEALED_VERSION.to_le_bytes());
        out[12..16].copy_from_slice(&self.node.to_le_bytes());
        out[16..24].copy_from_slice(&self.segment.to_le_bytes());
        out[24..32].copy_from_slice(&self.created_ns.to_le_bytes());
        out[32..40].copy_from_slice(&self.sequence_next.to_le_bytes());
        let crc = crc32c::crc32c(&out[..60]);
        out[60..].copy_from_slice(&crc.to_le_bytes());
        out
    }

    /// Reads and checks the first bytes of a file.
    pub fn decode(bytes: &[u8], path: &Path) -> Result<Self, SegmentError> {
        let damaged =
            |offset, expected, found| damage(path, offset, "the file header", expected, found);
        if bytes.len() < SEALED_HEADER_BYTES {
            let found = format!("{}", bytes.len());
            return Err(damaged(bytes.len() as u64, format!("{SEALED_HEADER_BYTES} bytes"), found));
        }
        if bytes[..8] != MAGIC {
            return Err(damaged(0, format!("{MAGIC:02x?}"), format!("{:02x?}", &bytes[..8])));
        }
        let (expected, found) =
            (u32::from_le_bytes(array(bytes, 60)), crc32c::crc32c(&bytes[..60]));
        if expected != found {
            return Err(damaged(60, format!("{expected:08x}"), format!("{found:08x}")));
        }
        let version = u16::from_le_bytes(array(bytes, 8));
        if version != SEALED_VERSION {
            let (path, expected) = (path.to_owned(), SEALED_VERSION);
            return Err(SegmentError::Version { path, part: "segment", expected, found: version });
        }
        Ok(SealedHeader {
            node: u32::from_le_bytes(array(bytes, 12)),
            segment: u64::from_le_bytes(array(bytes, 16)),
            created_ns: i64::from_le_bytes(array(bytes, 24)),
            sequence_next: u64::from_le_bytes(array(bytes, 32)),
        })
    }
}

/// A part of a block that is compressed on its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Chunk {
    /// Bytes in the file.
    pub bytes_disk: u32,
    /// Bytes before compression. If equal to `bytes_disk`, the chunk is not compressed.
    pub bytes: u32,
    /// CRC32C of the bytes in the file.
    pub crc: u32,
}

/// Position and content of a block.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlockEntry {
    /// Offset of its first byte in the file.
    pub offset: u64,
    /// Its chunks, back to back; the first is the pack.
    pub chunks: Vec<Chunk>,
    /// The word filter, uncompressed, behind the chunks: it records which words are in no value of
    /// the block's lines.
    pub filter: Option<Chunk>,
    /// Lines in it.
    pub lines: u32,
    /// How many of the lines were made by Loginson: rows of the summary. They are in blocks of
    /// their own, so that charts read only those.
    pub lines_internal: u32,
    /// Whose lines they are: a block has lines of one tenant only.
    pub tenant: Tenant,
    /// Bytes of its raw lines, each with a newline.
    pub bytes_raw: u64,
    /// Earliest and latest event time, both inclusive, nanoseconds since 1970 UTC.
    pub time_ns: (i64, i64),
    /// Earliest and latest arrival.
    pub received_ns: (i64, i64),
    /// Smallest and greatest sequence number of the frames its lines came in.
    pub sequence: (u64, u64),
    /// The frames that its lines came in, by node, with the node-wide numbers that are the same on
    /// every machine.
    pub numbers: Vec<NodeNumbers>,
    /// CRC32C over all lines with their times and ids, in order.
    pub lines_crc: u32,
}

/// Numbers of frames that a node built.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodeNumbers {
    /// The node.
    pub node: u32,
    /// The smallest number.
    pub first: u64,
    /// The greatest.
    pub last: u64,
}

impl NodeNumbers {
    /// Whether a frame may be among them.
    pub fn may_hold(&self, node: u32, number: u64) -> bool {
        self.node == node && (self.first..=self.last).contains(&number)
    }
}

/// The smallest ranges, by node, that contain all of these.
pub fn numbers_of(all: impl IntoIterator<Item = NodeNumbers>) -> Vec<NodeNumbers> {
    let mut numbers: Vec<NodeNumbers> = Vec::new();
    for one in all {
        match numbers.binary_search_by_key(&one.node, |known| known.node) {
            Ok(index) => {
                let known = &mut numbers[index];
                (known.first, known.last) = (known.first.min(one.first), known.last.max(one.last));
            }
            Err(index) => numbers.insert(index, one),
        }
    }
    numbers
}

impl BlockEntry {
    /// Bytes in the file.
    pub fn bytes_disk(&self) -> u64 {
        let chunks = self.chunks.iter().chain(&self.filter);
        chunks.map(|chunk| u64::from(chunk.bytes_disk)).sum()
    }

    /// Bytes of the chunks in the file.
    pub(crate) fn chunk_bytes_disk(&self) -> usize {
        self.chunks.iter().map(|chunk| chunk.bytes_disk as usize).sum()
    }
}

/// How much work went into a segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Effort {
    /// As fast as lines arrive.
    #[default]
    Fast = 0,
    /// As small as idle time allows.
    Best = 1,
}

/// Distinct values of a field in a segment, for choosing which segments to read; `None` when there
/// are more than [`crate::sealed::VALUES_MAX`].
pub type ValueSet = Option<Vec<(Vec<u8>, u64)>>;

/// Everything a reader knows about a sealed segment without reading its blocks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Footer {
    /// The header at the start of the file.
    pub header: SealedHeader,
    /// Segments whose lines are in this one, and which it replaces.
    pub replaces: Vec<u64>,
    /// With which effort it was written.
    pub effort: Effort,
    /// The greatest watermark of the summary in its lines: all lines up to it are counted.
    pub summarised_through: Option<u64>,
    /// Blocks, in their order in the file.
    pub blocks: Vec<BlockEntry>,
    /// Counts per time interval, by one field.
    pub rollups: Vec<Rollup>,
    /// Counts per time interval, by two fields.
    pub pairs: Vec<Rollup>,
    /// Length of the file.
    pub bytes_disk: u64,
}

impl Footer {
    /// Lines in all blocks.
    pub fn lines(&self) -> u64 {
        self.blocks.iter().map(|block| u64::from(block.lines)).sum()
    }

    /// How many of the lines Loginson made itself.
    pub fn lines_internal(&self) -> u64 {
        self.blocks.iter().map(|block| u64::from(block.lines_internal)).sum()
    }

    /// The frames that the lines of all blocks came in, by node.
    pub fn numbers(&self) -> Vec<NodeNumbers> {
        numbers_of(self.blocks.iter().flat_map(|block| block.numbers.iter().copied()))
    }

    /// Bytes of the raw lines, each with a newline.
    pub fn bytes_raw(&self) -> u64 {
        self.blocks.iter().map(|block| block.bytes_raw).sum()
    }

    /// Earliest and latest event time.
    pub fn time_ns(&self) -> Option<(i64, i64)> {
        span(self.blocks.iter().map(|block| block.time_ns))
    }

    /// Earliest and latest arrival.
    pub fn received_ns(&self) -> Option<(i64, i64)> {
        span(self.blocks.iter().map(|block| block.received_ns))
    }

    /// Smallest and greatest sequence number.
    pub fn sequence(&self) -> Option<(u64, u64)> {
        span(self.blocks.iter().map(|block| block.sequence))
    }

    /// Values of a field with their number of lines, if the field is counted; the empty value
    /// stands for lines without the field. Rows of the summary are not counted.
    pub fn values(&self, field: &str) -> ValueSet {
        let rollup = self.rollups.iter().find(|rollup| rollup.fields == [field])?;
        let totals = rollup.totals().into_iter();
        Some(totals.map(|(values, lines)| (values[0].clone(), lines)).collect())
    }

    /// Memory held, in bytes, approximately.
    pub fn memory_bytes(&self) -> usize {
        let block = |block: &BlockEntry| {
            size_of::<BlockEntry>()
                + size_of_val(&block.chunks[..])
                + size_of_val(&block.numbers[..])
        };
        let rollups = self.rollups.iter().chain(&self.pairs);
        let bytes = self.blocks.iter().map(block).sum::<usize>()
            + rollups.map(Rollup::memory_bytes).sum::<usize>();
        // The overhead of allocations: a hundred footers of 1.5 MiB enlarged a process by a quarter
        // more than their size.
        bytes + bytes / 4
    }

    /// Calls `each` with the counts of the lines, without those that Loginson made itself, in a
    /// time interval (inclusive start, exclusive end, nanoseconds since 1970 UTC; `None`:
    /// unbounded): an instant, a value of each field, and the number of lines. Counts are grouped
    /// by the values of `fields` and by buckets of time, given by length and shift in nanoseconds.
    /// Returns false, without a call, if the stored counts do not allow this grouping.
    pub fn visit_counts(
        &self,
        fields: &[&str],
        bucket_ns: Option<(i64, i64)>,
        (from_ns, to_ns): (Option<i64>, Option<i64>),
        each: EachCount<'_>,
    ) -> bool {
        // An end after all lines need not be the end of a rollup interval.
        let sent = self.blocks.iter().filter(|block| block.lines_internal < block.lines);
        let (oldest, newest) =
            span(sent.map(|block| block.time_ns)).unwrap_or((i64::MAX, i64::MIN));
        let (from_ns, to_ns) =
            (from_ns.filter(|&ns| ns > oldest), to_ns.filter(|&ns| ns <= newest));
        let lines = self.lines() - self.lines_internal();
        if lines == 0 {
            return true;
        }
        if fields.is_empty() && bucket_ns.is_none() && from_ns.is_none() && to_ns.is_none() {
            each(oldest, &[], lines);
            return true;
        }
        let fits = |rollup: &&Rollup| {
            rollup.indexes_of(fields).is_some()
                && rollup.tells_apart(bucket_ns)
                && rollup.intervals(from_ns, to_ns).is_some()
        };
        let fitting = self.rollups.iter().chain(&self.pairs).filter(fits);
        let Some(rollup) = fitting.min_by_key(|rollup| rollup.len()) else { return false };
        let intervals = rollup.intervals(from_ns, to_ns).expect("it fits");
        let indexes = rollup.indexes_of(fields).expect("it fits");
        rollup.visit(&indexes, bucket_ns, intervals, each);
        true
    }

    /// Encodes footer and trailer, to be written at `offset`.
    pub(crate) fn encode(&self, offset: u64) -> Vec<u8> {
        let mut body = Vec::new();
        put_varint(&mut body, self.replaces.len() as u64);
        self.replaces.iter().for_each(|&segment| put_varint(&mut body, segment));
        body.push(self.effort as u8);
        put_varint(&mut body, self.summarised_through.map_or(0, |mark| mark + 1));
        put_varint(&mut body, self.blocks.len() as u64);
        let mut at = SEALED_HEADER_BYTES as u64;
        for block in &self.blocks {
            assert_eq!(block.offset, at, "blocks lie back to back");
            at += block.bytes_disk();
            put_varint(&mut body, block.chunks.len() as u64);
            for chunk in &block.chunks {
                put_varint(&mut body, u64::from(chunk.bytes_disk));
                put_varint(&mut body, u64::from(chunk.bytes));
                body.extend_from_slice(&chunk.crc.to_le_bytes());
            }
            put_varint(&mut body, block.filter.map_or(0, |filter| u64::from(filter.bytes) + 1));
            if let Some(filter) = block.filter {
                body.extend_from_slice(&filter.crc.to_le_bytes());
            }
            put_varint(&mut body, u64::from(block.lines));
            put_varint(&mut body, u64::from(block.lines_internal));
            put_varint(&mut body, block.bytes_raw);
            for (min, max) in [block.time_ns, block.received_ns] {
                put_signed(&mut body, min);
                put_signed(&mut body, max.wrapping_sub(min));
            }
            put_varint(&mut body, block.sequence.0);
            put_varint(&mut body, block.sequence.1 - block.sequence.0);
            put_varint(&mut body, block.numbers.len() as u64);
            for numbers in &block.numbers {
                body.extend_from_slice(&numbers.node.to_le_bytes());
                put_varint(&mut body, numbers.first);
                put_varint(&mut body, numbers.last - numbers.first);
            }
            body.extend_from_slice(&block.lines_crc.to_le_bytes());
        }
        put_varint(&mut body, self.rollups.len() as u64);
        self.rollups.iter().for_each(|rollup| rollup.encode(&mut body));
        put_varint(&mut body, self.pairs.len() as u64);
        self.pairs.iter().for_each(|rollup| rollup.encode(&mut body));
        self.encode_tenants(&mut body);
        let mut out = Vec::new();
        Compressor::default().compress(&body, FOOTER_LEVEL, &mut out);
        if out.len() >= body.len() {
            out.clone_from(&body);
        }
        let mut trailer = [0; SEALED_TRAILER_BYTES];
        trailer[..8].copy_from_slice(&TRAILER_MAGIC);
        trailer[8..16].copy_from_slice(&self.header.segment.to_le_bytes());
        trailer[16..24].copy_from_slice(&offset.to_le_bytes());
        trailer[24..32].copy_from_slice(&(out.len() as u64).to_le_bytes());
        trailer[32..40].copy_from_slice(&(body.len() as u64).to_le_bytes());
        trailer[40..44].copy_from_slice(&crc32c::crc32c(&out).to_le_bytes());
        let crc = crc32c::crc32c(&trailer[..44]);
        trailer[44..].copy_from_slice(&crc.to_le_bytes());
        out.extend_from_slice(&trailer);
        out
    }

    /// The tenants of stretches of blocks; nothing where all lines are those of the default one.
    fn encode_tenants(&self, body: &mut Vec<u8>) {
        if self.blocks.iter().all(|block| block.tenant.is_default()) {
            return;
        }
        for blocks in self.blocks.chunk_by(|a, b| a.tenant == b.tenant) {
            put_varint(body, blocks.len() as u64);
            put_varint(body, u64::from(blocks[0].tenant.account));
            put_varint(body, u64::from(blocks[0].tenant.project));
        }
    }

    /// Parses the decompressed body.
    pub(crate) fn decode(header: SealedHeader, body: &[u8], bytes_disk: u64) -> Read<Footer> {
        let mut cursor = Cursor::new(body);
        let replaces =
            (0..cursor.count(body.len())?).map(|_| cursor.varint()).collect::<Read<Vec<_>>>()?;
        let effort = match cursor.u8()? {
            0 => Effort::Fast,
            1 => Effort::Best,
            _ => return Err(Corrupt("the effort")),
        };
        let summarised_through = cursor.varint()?.checked_sub(1);
        let count = cursor.count(COUNT_MAX.min(body.len()))?;
        let mut blocks = Vec::with_capacity(count);
        let mut offset = SEALED_HEADER_BYTES as u64;
        for _ in 0..count {
            let block = read_block(&mut cursor, offset)?;
            offset += block.bytes_disk();
            blocks.push(block);
        }
        let lines = blocks.iter().map(|block| u64::from(block.lines)).sum();
        let rollups = read_rollups(&mut cursor, 1, lines)?;
        let pairs = read_rollups(&mut cursor, 2, lines)?;
        read_tenants(&mut cursor, &mut blocks)?;
        cursor.end()?;
        Ok(Footer {
            header,
            replaces,
            effort,
            summarised_through,
            blocks,
            rollups,
            pairs,
            bytes_disk,
        })
    }
}

fn read_rollups(cursor: &mut Cursor<'_>, fields: usize, lines: u64) -> Read<Vec<Rollup>> {
    (0..cursor.count(cursor.left())?).map(|_| Rollup::decode(cursor, fields, lines)).collect()
}

fn read_tenants(cursor: &mut Cursor<'_>, mut blocks: &mut [BlockEntry]) -> Read<()> {
    let is_there = cursor.left() > 0;
    while cursor.left() > 0 {
        let of_one = cursor.count(blocks.len())?;
        let mut number = || u32::try_from(cursor.varint()?).map_err(|_| Corrupt("a tenant"));
        let tenant = Tenant { account: number()?, project: number()? };
        let (these, rest) = blocks.split_at_mut(of_one);
        these.iter_mut().for_each(|block| block.tenant = tenant);
        blocks = rest;
    }
    match is_there && !blocks.is_empty() {
        true => Err(Corrupt("the tenants of blocks")),
        false => Ok(()),
    }
}

fn read_block(cursor: &mut Cursor<'_>, offset: u64) -> Read<BlockEntry> {
    let small = |value: u64| u32::try_from(value).map_err(|_| Corrupt("a number"));
    let chunks = (0..cursor.count(cursor.left())?)
        .map(|_| {
            Ok(Chunk {
                bytes_disk: small(cursor.varint()?)?,
                bytes: small(cursor.varint()?)?,
                crc: u32::from_le_bytes(array(cursor.take(4)?, 0)),
            })
        })
        .collect::<Read<Vec<_>>>()?;
    // The first is the pack, which every reader begins with.
    if chunks.is_empty() {
        return Err(Corrupt("the chunks of a block"));
    }
    let filter = match small(cursor.varint()?)?.checked_sub(1) {
        Some(bytes) => {
            let crc = u32::from_le_bytes(array(cursor.take(4)?, 0));
            Some(Chunk { bytes_disk: bytes, bytes, crc })
        }
        None => None,
    };
    let lines = small(cursor.varint()?)?;
    let lines_internal = small(cursor.varint()?)?;
    let bytes_raw = cursor.varint()?;
    let mut range = || {
        let min = cursor.signed()?;
        Ok((min, min.wrapping_add(cursor.signed()?)))
    };
    let (time_ns, received_ns) = (range()?, range()?);
    let first = cursor.varint()?;
    let sequence = (first, first.saturating_add(cursor.varint()?));
    let numbers = (0..cursor.count(cursor.left())?)
        .map(|_| {
            let node = u32::from_le_bytes(array(cursor.take(4)?, 0));
            let first = cursor.varint()?;
            Ok(NodeNumbers { node, first, last: first.saturating_add(cursor.varint()?) })
        })
        .collect::<Read<Vec<_>>>()?;
    let lines_crc = u32::from_le_bytes(array(cursor.take(4)?, 0));
    Ok(BlockEntry {
        offset,
        chunks,
        filter,
        lines,
        lines_internal,
        tenant: Tenant::DEFAULT,
        bytes_raw,
        time_ns,
        received_ns,
        sequence,
        numbers,
        lines_crc,
    })
}

/// The position of the footer, from the last bytes of a file.
pub(crate) struct Trailer {
    pub(crate) segment: u64,
    pub(crate) offset: u64,
    pub(crate) stored: u64,
    pub(crate) bytes: u64,
    pub(crate) crc: u32,
}

impl Trailer {
    pub(crate) fn decode(bytes: &[u8], path: &Path, at: u64) -> Result<Self, SegmentError> {
        let damaged =
            |offset, expected, found| damage(path, offset, "the trailer", expected, found);
        if bytes[..8] != TRAILER_MAGIC {
            let found = format!("{:02x?}; the file was not finished, or cut", &bytes[..8]);
            return Err(damaged(at, format!("{TRAILER_MAGIC:02x?}"), found));
        }
        let (expected, found) =
            (u32::from_le_bytes(array(bytes, 44)), crc32c::crc32c(&bytes[..44]));
        if expected != found {
            return Err(damaged(at + 44, format!("{expected:08x}"), format!("{found:08x}")));
        }
        let u64_at = |at| u64::from_le_bytes(array(bytes, at));
        let (segment, offset) = (u64_at(8), u64_at(16));
        let (stored, bytes_all) = (u64_at(24), u64_at(32));
        if offset.checked_add(stored) != Some(at) {
            let found = format!("{stored} bytes from byte {offset}");
            return Err(damaged(at + 16, format!("a footer that ends at byte {at}"), found));
        }
        let crc = u32::from_le_bytes(array(bytes, 40));
        Ok(Trailer { segment, offset, stored, bytes: bytes_all, crc })
    }

    /// The body of the footer, verified and decompressed.
    pub(crate) fn body(&self, stored: &[u8], path: &Path) -> Result<Vec<u8>, SegmentError> {
        let found = crc32c::crc32c(stored);
        if found != self.crc {
            let expected = format!("checksum {:08x}", self.crc);
            return Err(damage(path, self.offset, "the footer", expected, format!("{found:08x}")));
        }
        let bytes = usize::try_from(self.bytes).unwrap_or(usize::MAX);
        Decompressor::default()
            .decompress(stored, bytes)
            .map_err(|corrupt| malformed(path, self.offset, corrupt))
    }
}

fn span<T: Ord + Copy>(ranges: impl Iterator<Item = (T, T)>) -> Option<(T, T)> {
    ranges.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))
}

pub(crate) fn damage(
    path: &Path,
    offset: u64,
    part: &'static str,
    expected: String,
    found: String,
) -> SegmentError {
    SegmentError::Damaged { path: path.to_owned(), offset, part, expected, found }
}

/// The error for invalid content with a valid checksum.
pub(crate) fn malformed(path: &Path, offset: u64, Corrupt(what): Corrupt) -> SegmentError {
    damage(path, offset, what, "valid content".into(), "invalid content".into())
}
