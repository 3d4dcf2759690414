//! The first block of a segment file.

use std::path::Path;

use platform::BLOCK_BYTES;

use crate::error::SegmentError;

/// Bytes of the header: one block, so that the first frame begins at a block boundary.
pub const HEADER_BYTES: usize = BLOCK_BYTES;
/// Version of the layout that this code writes, and the only one it reads.
pub const SEGMENT_VERSION: u16 = 1;

const MAGIC: [u8; 8] = *b"LGNHOTSG";
const CRC_AT: usize = HEADER_BYTES - 4;

/// Ranges of numbers that fit into a header. The caller decides which to leave out of more.
///
/// limits.md, Several machines: gaps in collectors' frame numbers | those that fit into a segment's
/// header (`HELD_MAX`) | the latest ranges are left out, counted and reported: their frames would
/// be kept twice if they came again
pub const HELD_MAX: usize = (CRC_AT - HELD_AT) / HELD_BYTES;

const HELD_COUNT_AT: usize = 40;
const HELD_AT: usize = 48;
const HELD_BYTES: usize = 24;

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

impl SegmentHeader {
    /// Encodes the block.
    pub(crate) fn encode(&self, out: &mut [u8]) {
        out[..HEADER_BYTES].fill(0);
        out[0..8].copy_from_slice(&MAGIC);
        out[8..10].copy_from_slice(&SEGMENT_VERSION.to_le_bytes());
        out[12..16].copy_from_slice(&self.node.to_le_bytes());
        out[16..24].copy_from_slice(&self.segment.to_le_bytes());
        out[24..32].copy_from_slice(&self.created_ns.to_le_bytes());
        out[32..40].copy_from_slice(&self.sequence_next.to_le_bytes());
        assert!(self.held.len() <= HELD_MAX, "the header has room for {HELD_MAX} ranges");
        out[HELD_COUNT_AT..HELD_COUNT_AT + 4]
            .copy_from_slice(&(self.held.len() as u32).to_le_bytes());
        for (row, held) in out[HELD_AT..CRC_AT].chunks_exact_mut(HELD_BYTES).zip(&self.held) {
            row[0..4].copy_from_slice(&held.node.to_le_bytes());
            row[8..16].copy_from_slice(&held.first.to_le_bytes());
            row[16..24].copy_from_slice(&held.last.to_le_bytes());
        }
        let crc = crc32c::crc32c(&out[..CRC_AT]);
        out[CRC_AT..HEADER_BYTES].copy_from_slice(&crc.to_le_bytes());
    }

    /// Decodes and checks the block; `path` is for the error.
    pub(crate) fn decode(bytes: &[u8], path: &Path) -> Result<Self, SegmentError> {
        let damaged = |offset: u64, expected: String, found: String| SegmentError::Damaged {
            path: path.to_owned(),
            offset,
            part: "the file header",
            expected,
            found,
        };
        if bytes.len() < HEADER_BYTES {
            let length = bytes.len() as u64;
            return Err(damaged(length, format!("{HEADER_BYTES} bytes"), format!("{length}")));
        }
        if bytes[..8] != MAGIC {
            return Err(damaged(0, format!("{MAGIC:02x?}"), format!("{:02x?}", &bytes[..8])));
        }
        let expected = u32::from_le_bytes(array(bytes, CRC_AT));
        let found = crc32c::crc32c(&bytes[..CRC_AT]);
        if expected != found {
            let offset = CRC_AT as u64;
            return Err(damaged(offset, format!("{expected:08x}"), format!("{found:08x}")));
        }
        let version = u16::from_le_bytes(array(bytes, 8));
        if version != SEGMENT_VERSION {
            return Err(SegmentError::Version {
                path: path.to_owned(),
                part: "segment",
                expected: SEGMENT_VERSION,
                found: version,
            });
        }
        let rows = u32::from_le_bytes(array(bytes, HELD_COUNT_AT)) as usize;
        if rows > HELD_MAX {
            let expected = format!("{HELD_MAX} ranges at most");
            return Err(damaged(HELD_COUNT_AT as u64, expected, format!("{rows}")));
        }
        let held = bytes[HELD_AT..CRC_AT].chunks_exact(HELD_BYTES).take(rows).map(|row| Held {
            node: u32::from_le_bytes(array(row, 0)),
            first: u64::from_le_bytes(array(row, 8)),
            last: u64::from_le_bytes(array(row, 16)),
        });
        Ok(SegmentHeader {
            held: held.collect(),
            node: u32::from_le_bytes(array(bytes, 12)),
            segment: u64::from_le_bytes(array(bytes, 16)),
            created_ns: i64::from_le_bytes(array(bytes, 24)),
            sequence_next: u64::from_le_bytes(array(bytes, 32)),
        })
    }
}

pub(crate) fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes[at..at + N].try_into().expect("the length is N")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_round_trips_and_each_flipped_byte_is_an_error() {
        let held =
            (1..=HELD_MAX as u64).map(|i| Held { node: i as u32, first: i, last: u64::MAX - i });
        let held = held.collect();
        let header =
            SegmentHeader { node: 7, segment: 9, created_ns: -3, sequence_next: 1 << 40, held };
        let mut bytes = vec![0xaa; HEADER_BYTES];
        header.encode(&mut bytes);
        let path = Path::new("s");
        assert_eq!(SegmentHeader::decode(&bytes, path).unwrap(), header);
        for at in 0..HEADER_BYTES {
            bytes[at] ^= 1;
            assert!(SegmentHeader::decode(&bytes, path).is_err(), "byte {at}");
            bytes[at] ^= 1;
        }
        assert!(SegmentHeader::decode(&bytes[..HEADER_BYTES - 1], path).is_err());
    }

    #[test]
    fn another_version_is_named() {
        let header =
            SegmentHeader { node: 7, segment: 9, created_ns: 0, sequence_next: 1, held: vec![] };
        let mut bytes = vec![0; HEADER_BYTES];
        header.encode(&mut bytes);
        bytes[8] = 2;
        let crc = crc32c::crc32c(&bytes[..CRC_AT]);
        bytes[CRC_AT..].copy_from_slice(&crc.to_le_bytes());
        let error = SegmentHeader::decode(&bytes, Path::new("7.hot")).unwrap_err().to_string();
        assert!(error.starts_with("7.hot: segment version 2 is not known"), "{error}");
    }
}
