//! The header of a frame: its fixed fields, with a checksum of their own.

use super::{FRAME_BYTES_MAX, FrameError, RUN_BYTES, array};

/// First bytes of every frame.
pub const FRAME_MAGIC: [u8; 4] = *b"LGNF";
/// Version of the layout. A frame of another version is refused.
pub const FRAME_VERSION: u8 = 2;
/// The greatest number of a forwarded frame.
pub const FORWARDED_NUMBER_MAX: u64 = (1 << 48) - 1;
/// How far the number of a frame may be above that of the oldest frame which the log of a cluster
/// has not acknowledged, within one partition. Collectors append nothing beyond it, and readers of
/// the log remember that many numbers below the last one of each collector.
pub const APPEND_WINDOW: u64 = 64;
/// Bytes of the header.
pub const HEADER_BYTES: usize = 64;
/// Frame flag: all lines were made by Loginson itself, see
/// [`Transport::Internal`](super::Transport::Internal).
pub const FRAME_INTERNAL: u16 = 1;
/// Frame flag: another node built and sent the frame. `node` is that node, `number` the frame's
/// number there; `sequence` is the receiver's.
pub const FRAME_FORWARDED: u16 = 2;

/// The fixed fields of a frame, as in its first 64 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHeader {
    /// [`FRAME_INTERNAL`], [`FRAME_FORWARDED`]; other bits are zero. Stored as one byte.
    pub flags: u16,
    /// Node that built the frame.
    pub node: u32,
    /// For a forwarded frame: its number on the node that sent it, at most
    /// [`FORWARDED_NUMBER_MAX`]. Otherwise 0.
    pub number: u64,
    /// Number of the frame in the store that keeps it; grows by one per frame.
    pub sequence: u64,
    /// Earliest arrival, nanoseconds since 1970 UTC.
    pub received_min_ns: i64,
    /// Latest arrival, nanoseconds since 1970 UTC.
    pub received_max_ns: i64,
    /// Lines in the frame.
    pub lines: u32,
    /// Bytes of the payload, without padding.
    pub payload_bytes: u32,
    /// Entries of the table of runs.
    pub runs: u32,
    /// Bytes of the table of origins, without padding.
    pub origins_bytes: u32,
    /// CRC32C of everything after the header.
    pub body_crc: u32,
}

impl FrameHeader {
    /// Reads and checks a header. Needs [`HEADER_BYTES`]; does not examine the body.
    pub fn decode(bytes: &[u8]) -> Result<Self, FrameError> {
        if bytes.len() < HEADER_BYTES {
            return Err(FrameError::Short { needed: HEADER_BYTES, found: bytes.len() });
        }
        let magic: [u8; 4] = array(bytes, 0);
        if magic != FRAME_MAGIC {
            return Err(FrameError::Magic(magic));
        }
        let expected = u32::from_le_bytes(array(bytes, 60));
        let found = crc32c::crc32c(&bytes[..60]);
        if expected != found {
            return Err(FrameError::Checksum { part: "header", expected, found });
        }
        if bytes[4] != FRAME_VERSION {
            return Err(FrameError::Version(bytes[4]));
        }
        let number_low = u64::from(u32::from_le_bytes(array(bytes, 12)));
        let number_high = u64::from(u16::from_le_bytes(array(bytes, 6)));
        let header = FrameHeader {
            flags: bytes[5].into(),
            node: u32::from_le_bytes(array(bytes, 8)),
            number: number_high << 32 | number_low,
            sequence: u64::from_le_bytes(array(bytes, 16)),
            received_min_ns: i64::from_le_bytes(array(bytes, 24)),
            received_max_ns: i64::from_le_bytes(array(bytes, 32)),
            lines: u32::from_le_bytes(array(bytes, 40)),
            payload_bytes: u32::from_le_bytes(array(bytes, 44)),
            runs: u32::from_le_bytes(array(bytes, 48)),
            origins_bytes: u32::from_le_bytes(array(bytes, 52)),
            body_crc: u32::from_le_bytes(array(bytes, 56)),
        };
        let body = u64::from(header.payload_bytes)
            + u64::from(header.runs) * RUN_BYTES as u64
            + u64::from(header.origins_bytes);
        if body > FRAME_BYTES_MAX as u64 {
            return Err(FrameError::Malformed("larger than a frame may be"));
        }
        Ok(header)
    }

    pub(super) fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut out = [0u8; HEADER_BYTES];
        out[0..4].copy_from_slice(&FRAME_MAGIC);
        out[4..6].copy_from_slice(&[FRAME_VERSION, self.flags as u8]);
        out[6..8].copy_from_slice(&((self.number >> 32) as u16).to_le_bytes());
        out[8..12].copy_from_slice(&self.node.to_le_bytes());
        out[12..16].copy_from_slice(&(self.number as u32).to_le_bytes());
        out[16..24].copy_from_slice(&self.sequence.to_le_bytes());
        out[24..32].copy_from_slice(&self.received_min_ns.to_le_bytes());
        out[32..40].copy_from_slice(&self.received_max_ns.to_le_bytes());
        out[40..44].copy_from_slice(&self.lines.to_le_bytes());
        out[44..48].copy_from_slice(&self.payload_bytes.to_le_bytes());
        out[48..52].copy_from_slice(&self.runs.to_le_bytes());
        out[52..56].copy_from_slice(&self.origins_bytes.to_le_bytes());
        out[56..60].copy_from_slice(&self.body_crc.to_le_bytes());
        let crc = crc32c::crc32c(&out[..60]);
        out[60..64].copy_from_slice(&crc.to_le_bytes());
        out
    }

    /// Identifies the frame on every machine: the node that built it, and its number there.
    pub fn name(&self) -> (u32, u64) {
        let is_forwarded = self.flags & FRAME_FORWARDED != 0;
        (self.node, if is_forwarded { self.number } else { self.sequence })
    }

    /// Bytes of the whole frame with header and padding; a multiple of 8.
    pub fn frame_bytes(&self) -> usize {
        self.origins_offset() + padded(self.origins_bytes as usize)
    }

    pub(super) fn runs_offset(&self) -> usize {
        HEADER_BYTES + padded(self.payload_bytes as usize)
    }

    pub(super) fn origins_offset(&self) -> usize {
        self.runs_offset() + self.runs as usize * RUN_BYTES
    }
}

/// `bytes` rounded up to a multiple of 8.
pub(super) const fn padded(bytes: usize) -> usize {
    bytes.div_ceil(8) * 8
}
