//! The first blocks of a segment file.
//!
//! The header is one block. The numbers held that do not fit there are in further blocks behind it,
//! each with a checksum of its own: a store of a few collectors has none of them.

use std::path::Path;

use platform::{BLOCK_BYTES, DiskFile};

use crate::error::SegmentError;
use crate::index::read_exact;

/// Bytes of the first block of the header. The first frame begins at a block boundary: here, unless
/// there are [further blocks](SegmentHeader::bytes).
pub const HEADER_BYTES: usize = BLOCK_BYTES;
/// Version of the layout of a header of one block.
pub const SEGMENT_VERSION: u16 = 1;
/// Version of the layout of a header with further blocks.
const VERSION_OF_BLOCKS: u16 = 2;

const MAGIC: [u8; 8] = *b"LGNHOTSG";
const CRC_AT: usize = HEADER_BYTES - 4;

/// Most ranges of numbers in a header. The caller decides which to leave out of more.
///
/// limits.md, Several machines: gaps in collectors' frame numbers, together with the collectors |
/// {} | the latest ranges are left out, counted and reported: their frames would be kept twice if
/// they came again
pub const HELD_MAX: usize = 32_768;

const HELD_COUNT_AT: usize = 40;
const HELD_AT: usize = 48;
const HELD_BYTES: usize = 24;
/// Ranges in the first block.
const HELD_FIRST: usize = (CRC_AT - HELD_AT) / HELD_BYTES;
/// Ranges in a further block.
const HELD_FURTHER: usize = CRC_AT / HELD_BYTES;

/// Frames of another node that were in the store when the segment was created: a range of their
/// numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// The node that built them.
    pub node: u32,
    /// The first number.
    pub first: u64,
    /// The last number, inclusive.
    pub last: u64,
}

impl Held {
    fn encode(&self, row: &mut [u8]) {
        row[0..4].copy_from_slice(&self.node.to_le_bytes());
        row[8..16].copy_from_slice(&self.first.to_le_bytes());
        row[16..24].copy_from_slice(&self.last.to_le_bytes());
    }

    fn decode(row: &[u8]) -> Held {
        Held {
            node: u32::from_le_bytes(array(row, 0)),
            first: u64::from_le_bytes(array(row, 8)),
            last: u64::from_le_bytes(array(row, 16)),
        }
    }
}

/// The header of a segment file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentHeader {
    /// The node that created the file.
    pub node: u32,
    /// Number of the segment on its node.
    pub segment: u64,
    /// When it was created, nanoseconds since 1970 UTC.
    pub created_ns: i64,
    /// The node's next sequence number at that time. All smaller numbers may have been issued
    /// before; recording this prevents a second use of numbers whose segments were deleted.
    pub sequence_next: u64,
    /// The frames of other nodes that the store had at that time. Recording them prevents keeping a
    /// frame twice whose segment was deleted. At most [`HELD_MAX`].
    pub held: Vec<Held>,
}

/// The blocks of a header with that many ranges.
fn blocks(ranges: usize) -> usize {
    1 + ranges.saturating_sub(HELD_FIRST).div_ceil(HELD_FURTHER)
}

impl SegmentHeader {
    /// Bytes of the header of a segment with that many ranges of numbers held.
    pub fn bytes_of(ranges: usize) -> u64 {
        (blocks(ranges) * BLOCK_BYTES) as u64
    }

    /// Bytes of the header in the file: a multiple of [`HEADER_BYTES`].
    pub fn bytes(&self) -> u64 {
        SegmentHeader::bytes_of(self.held.len())
    }

    /// Encodes all blocks.
    pub(crate) fn encode(&self, out: &mut [u8]) {
        assert!(self.held.len() <= HELD_MAX, "a header has room for {HELD_MAX} ranges");
        let (first, further) = out[..self.bytes() as usize].split_at_mut(HEADER_BYTES);
        let version = if further.is_empty() { SEGMENT_VERSION } else { VERSION_OF_BLOCKS };
        first.fill(0);
        first[0..8].copy_from_slice(&MAGIC);
        first[8..10].copy_from_slice(&version.to_le_bytes());
        first[12..16].copy_from_slice(&self.node.to_le_bytes());
        first[16..24].copy_from_slice(&self.segment.to_le_bytes());
        first[24..32].copy_from_slice(&self.created_ns.to_le_bytes());
        first[32..40].copy_from_slice(&self.sequence_next.to_le_bytes());
        first[HELD_COUNT_AT..HELD_COUNT_AT + 4]
            .copy_from_slice(&(self.held.len() as u32).to_le_bytes());
        let (own, rest) = self.held.split_at(self.held.len().min(HELD_FIRST));
        for (row, held) in first[HELD_AT..CRC_AT].chunks_exact_mut(HELD_BYTES).zip(own) {
            held.encode(row);
        }
        seal(first);
        let ranges = rest.chunks(HELD_FURTHER);
        for (block, ranges) in further.chunks_exact_mut(BLOCK_BYTES).zip(ranges) {
            block.fill(0);
            for (row, held) in block.chunks_exact_mut(HELD_BYTES).zip(ranges) {
                held.encode(row);
            }
            seal(block);
        }
    }

    /// Reads and checks the header of a file of `file_bytes`; `path` is for the error. Beside it,
    /// the bytes that the header takes, as far as its first block tells; else those of one block.
    ///
    /// Err: the file cannot be read.
    pub(crate) fn read(
        file: &dyn DiskFile,
        path: &Path,
        file_bytes: u64,
    ) -> Result<(Result<Self, SegmentError>, u64), SegmentError> {
        let first = read_exact(file, path, 0, file_bytes.min(HEADER_BYTES as u64) as usize)?;
        let (mut header, ranges) = match Self::decode(&first, path) {
            Ok(found) => found,
            Err(error) => return Ok((Err(error), HEADER_BYTES as u64)),
        };
        let bytes = SegmentHeader::bytes_of(ranges);
        for at in (HEADER_BYTES as u64..bytes).step_by(BLOCK_BYTES) {
            let length = file_bytes.saturating_sub(at).min(BLOCK_BYTES as u64) as usize;
            let block = read_exact(file, path, at, length)?;
            if let Err(error) = check(&block, at, path) {
                return Ok((Err(error), bytes));
            }
            let rows = block.chunks_exact(HELD_BYTES).take(HELD_FURTHER);
            let left = ranges - header.held.len();
            header.held.extend(rows.take(left).map(Held::decode));
        }
        Ok((Ok(header), bytes))
    }

    /// Decodes and checks the first block: the header with the ranges of that block, and the number
    /// of all ranges.
    pub(crate) fn decode(bytes: &[u8], path: &Path) -> Result<(Self, usize), SegmentError> {
        if bytes.len() >= HEADER_BYTES && bytes[..8] != MAGIC {
            let (expected, found) = (format!("{MAGIC:02x?}"), format!("{:02x?}", &bytes[..8]));
            return Err(damaged(path, 0, expected, found));
        }
        check(bytes, 0, path)?;
        let version = u16::from_le_bytes(array(bytes, 8));
        if ![SEGMENT_VERSION, VERSION_OF_BLOCKS].contains(&version) {
            return Err(SegmentError::Version {
                path: path.to_owned(),
                part: "segment",
                expected: VERSION_OF_BLOCKS,
                found: version,
            });
        }
        let ranges = u32::from_le_bytes(array(bytes, HELD_COUNT_AT)) as usize;
        let ranges_max = if version == SEGMENT_VERSION { HELD_FIRST } else { HELD_MAX };
        if ranges > ranges_max {
            let expected = format!("{ranges_max} ranges at most");
            return Err(damaged(path, HELD_COUNT_AT as u64, expected, format!("{ranges}")));
        }
        let rows = bytes[HELD_AT..CRC_AT].chunks_exact(HELD_BYTES).take(ranges);
        let header = SegmentHeader {
            held: rows.map(Held::decode).collect(),
            node: u32::from_le_bytes(array(bytes, 12)),
            segment: u64::from_le_bytes(array(bytes, 16)),
            created_ns: i64::from_le_bytes(array(bytes, 24)),
            sequence_next: u64::from_le_bytes(array(bytes, 32)),
        };
        Ok((header, ranges))
    }
}

/// Writes the checksum of a block into its last bytes.
fn seal(block: &mut [u8]) {
    let crc = crc32c::crc32c(&block[..CRC_AT]);
    block[CRC_AT..].copy_from_slice(&crc.to_le_bytes());
}

/// Checks the block at `offset`.
fn check(block: &[u8], offset: u64, path: &Path) -> Result<(), SegmentError> {
    if block.len() < BLOCK_BYTES {
        let length = block.len() as u64;
        let expected = format!("{BLOCK_BYTES} bytes");
        return Err(damaged(path, offset + length, expected, format!("{length}")));
    }
    let expected = u32::from_le_bytes(array(block, CRC_AT));
    let found = crc32c::crc32c(&block[..CRC_AT]);
    match expected == found {
        true => Ok(()),
        false => {
            let offset = offset + CRC_AT as u64;
            Err(damaged(path, offset, format!("{expected:08x}"), format!("{found:08x}")))
        }
    }
}

fn damaged(path: &Path, offset: u64, expected: String, found: String) -> SegmentError {
    SegmentError::Damaged {
        path: path.to_owned(),
        offset,
        part: "the file header",
        expected,
        found,
    }
}

pub(crate) fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes[at..at + N].try_into().expect("the length is N")
}

#[cfg(test)]
mod tests {
    use super::*;
    use platform::{Access, Disk, SimDisk};

    #[test]
    fn header_round_trips_and_each_flipped_byte_is_an_error() {
        let held =
            (1..=HELD_FIRST as u64).map(|i| Held { node: i as u32, first: i, last: u64::MAX - i });
        let held: Vec<Held> = held.collect();
        let ranges = held.len();
        let header =
            SegmentHeader { node: 7, segment: 9, created_ns: -3, sequence_next: 1 << 40, held };
        let mut bytes = vec![0xaa; HEADER_BYTES];
        header.encode(&mut bytes);
        let path = Path::new("s");
        assert_eq!(SegmentHeader::decode(&bytes, path).unwrap(), (header, ranges));
        for at in 0..HEADER_BYTES {
            bytes[at] ^= 1;
            assert!(SegmentHeader::decode(&bytes, path).is_err(), "byte {at}");
            bytes[at] ^= 1;
        }
        assert!(SegmentHeader::decode(&bytes[..HEADER_BYTES - 1], path).is_err());
    }

    #[test]
    fn ranges_that_do_not_fit_into_a_block_are_in_further_ones() {
        let path = Path::new("/d/7.hot");
        for ranges in [
            0,
            HELD_FIRST,
            HELD_FIRST + 1,
            HELD_FIRST + HELD_FURTHER,
            HELD_FIRST + HELD_FURTHER + 1,
            HELD_MAX,
        ] {
            let held = (0..ranges as u64).map(|i| Held { node: i as u32, first: i, last: 2 * i });
            let held = held.collect();
            let header =
                SegmentHeader { node: 7, segment: 9, created_ns: 1, sequence_next: 2, held };
            let mut bytes = vec![0xaa; header.bytes() as usize];
            header.encode(&mut bytes);
            let read = |bytes: &[u8]| {
                let file = SimDisk::new(1).open(path, Access::Create).unwrap();
                file.write_at(bytes, 0).unwrap();
                SegmentHeader::read(&*file, path, bytes.len() as u64).unwrap()
            };
            assert_eq!(read(&bytes).1, header.bytes(), "{ranges}");
            assert_eq!(read(&bytes).0.unwrap(), header, "{ranges}");
            // Each block has a checksum: an old block behind a new one is not taken for its own.
            for block in 0..bytes.len() / BLOCK_BYTES {
                let at = block * BLOCK_BYTES + 17;
                bytes[at] ^= 1;
                let (found, found_bytes) = read(&bytes);
                assert!(found.is_err(), "{ranges}: byte {at}");
                let expected = if block == 0 { HEADER_BYTES as u64 } else { header.bytes() };
                assert_eq!(found_bytes, expected, "{ranges}: byte {at}");
                bytes[at] ^= 1;
            }
            let (found, _) = read(&bytes[..bytes.len() - 1]);
            assert!(found.is_err(), "{ranges}: it is cut");
        }
    }

    #[test]
    fn another_version_is_named() {
        let header =
            SegmentHeader { node: 7, segment: 9, created_ns: 0, sequence_next: 1, held: vec![] };
        let mut bytes = vec![0; HEADER_BYTES];
        header.encode(&mut bytes);
        bytes[8] = 3;
        let crc = crc32c::crc32c(&bytes[..CRC_AT]);
        bytes[CRC_AT..].copy_from_slice(&crc.to_le_bytes());
        let error = SegmentHeader::decode(&bytes, Path::new("7.hot")).unwrap_err().to_string();
        assert!(error.starts_with("7.hot: segment version 3 is not known"), "{error}");
    }
}
