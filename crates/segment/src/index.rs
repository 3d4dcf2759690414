//! The index that ends a closed segment: one entry for each frame, and a trailer at the very end of
//! the file.
//!
//! With it, start-up reads a few kilobytes a segment instead of every frame. A scan of the frames
//! can rebuild it, except for the event times, which come from parsing.

use std::path::Path;

use platform::{Access, Disk, DiskFile};
use record::frame::{FRAME_FORWARDED, FrameHeader};

use crate::error::SegmentError;
use crate::header::{HEADER_BYTES, array};

/// Bytes of an entry.
pub const ENTRY_BYTES: usize = 72;
/// Bytes of the trailer.
pub const TRAILER_BYTES: usize = 40;

/// First bytes of the index. A frame never starts with them, so a scan sees where the frames end.
pub(crate) const INDEX_MAGIC: [u8; 8] = *b"LGNINDEX";
const TRAILER_MAGIC: [u8; 8] = *b"LGNIXEND";
/// Version of the index. An index of another version is refused.
const INDEX_VERSION: u16 = 2;
const INDEX_HEADER_BYTES: usize = 16;
/// Marks unknown event times: earliest after latest.
const UNKNOWN: (i64, i64) = (i64::MAX, i64::MIN);

/// The index entry of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameEntry {
    /// Offset of the frame in the file, bytes.
    pub offset: u64,
    /// Its number on its node.
    pub sequence: u64,
    /// Node that built it.
    pub node: u32,
    /// Flags of the frame's header.
    pub flags: u16,
    /// Of a forwarded frame: its number between its node and this store. Else 0.
    pub number: u64,
    /// Its bytes in the file.
    pub frame_bytes: u32,
    /// Lines in it.
    pub lines: u32,
    /// Bytes of its payload.
    pub payload_bytes: u32,
    /// Earliest arrival, nanoseconds since 1970 UTC.
    pub received_min_ns: i64,
    /// Latest arrival, nanoseconds since 1970 UTC.
    pub received_max_ns: i64,
    time_min_ns: i64,
    time_max_ns: i64,
}

impl FrameEntry {
    /// The entry of a frame that begins at `offset`; event times unknown.
    pub fn new(offset: u64, header: &FrameHeader) -> Self {
        FrameEntry {
            offset,
            sequence: header.sequence,
            node: header.node,
            flags: header.flags,
            number: header.number,
            frame_bytes: header.frame_bytes() as u32,
            lines: header.lines,
            payload_bytes: header.payload_bytes,
            received_min_ns: header.received_min_ns,
            received_max_ns: header.received_max_ns,
            time_min_ns: UNKNOWN.0,
            time_max_ns: UNKNOWN.1,
        }
    }

    /// Earliest and latest event time, both inclusive, nanoseconds since 1970 UTC; None before
    /// parsing.
    pub fn time_range_ns(&self) -> Option<(i64, i64)> {
        (self.time_min_ns <= self.time_max_ns).then_some((self.time_min_ns, self.time_max_ns))
    }

    /// Sets the event times; an inverted range makes them unknown.
    pub fn set_time_range_ns(&mut self, (min, max): (i64, i64)) {
        (self.time_min_ns, self.time_max_ns) = if min <= max { (min, max) } else { UNKNOWN };
    }

    /// The name of the frame, which is the same on every machine; see [`FrameHeader::name`].
    pub fn name(&self) -> (u32, u64) {
        let is_forwarded = self.flags & FRAME_FORWARDED != 0;
        (self.node, if is_forwarded { self.number } else { self.sequence })
    }

    /// Offset of the first byte behind the frame.
    pub fn end(&self) -> u64 {
        self.offset + u64::from(self.frame_bytes)
    }

    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.offset.to_le_bytes());
        out.extend_from_slice(&self.sequence.to_le_bytes());
        out.extend_from_slice(&self.node.to_le_bytes());
        out.extend_from_slice(&self.frame_bytes.to_le_bytes());
        out.extend_from_slice(&self.lines.to_le_bytes());
        out.extend_from_slice(&self.payload_bytes.to_le_bytes());
        out.extend_from_slice(&self.received_min_ns.to_le_bytes());
        out.extend_from_slice(&self.received_max_ns.to_le_bytes());
        out.extend_from_slice(&self.time_min_ns.to_le_bytes());
        out.extend_from_slice(&self.time_max_ns.to_le_bytes());
        out.extend_from_slice(&self.flags.to_le_bytes());
        out.extend_from_slice(&((self.number >> 32) as u16).to_le_bytes());
        out.extend_from_slice(&(self.number as u32).to_le_bytes());
    }

    fn decode(bytes: &[u8]) -> Self {
        let u32_at = |at| u32::from_le_bytes(array(bytes, at));
        let i64_at = |at| i64::from_le_bytes(array(bytes, at));
        FrameEntry {
            offset: u64::from_le_bytes(array(bytes, 0)),
            sequence: u64::from_le_bytes(array(bytes, 8)),
            node: u32_at(16),
            flags: u16::from_le_bytes(array(bytes, 64)),
            number: u64::from(u16::from_le_bytes(array(bytes, 66))) << 32 | u64::from(u32_at(68)),
            frame_bytes: u32_at(20),
            lines: u32_at(24),
            payload_bytes: u32_at(28),
            received_min_ns: i64_at(32),
            received_max_ns: i64_at(40),
            time_min_ns: i64_at(48),
            time_max_ns: i64_at(56),
        }
    }
}

/// Bytes of index and trailer for a number of frames.
pub fn index_bytes(frames: usize) -> u64 {
    (INDEX_HEADER_BYTES + frames * ENTRY_BYTES + TRAILER_BYTES) as u64
}

/// Encodes index and trailer, to be written at `data_end`.
pub(crate) fn encode_index(segment: u64, data_end: u64, entries: &[FrameEntry]) -> Vec<u8> {
    let mut out = Vec::with_capacity(index_bytes(entries.len()) as usize);
    out.extend_from_slice(&INDEX_MAGIC);
    out.extend_from_slice(&INDEX_VERSION.to_le_bytes());
    out.extend_from_slice(&[0; 6]);
    for entry in entries {
        entry.encode(&mut out);
    }
    let crc = crc32c::crc32c(&out);
    let trailer_at = out.len();
    out.extend_from_slice(&TRAILER_MAGIC);
    out.extend_from_slice(&segment.to_le_bytes());
    out.extend_from_slice(&data_end.to_le_bytes());
    out.extend_from_slice(&(entries.len() as u64).to_le_bytes());
    out.extend_from_slice(&crc.to_le_bytes());
    let crc = crc32c::crc32c(&out[trailer_at..]);
    out.extend_from_slice(&crc.to_le_bytes());
    out
}

/// Writes the index of a closed segment, for the first time or again, and makes it durable; returns
/// the length of the file. A power cut in between loses the index, not the frames: they are scanned
/// then.
pub fn write_index(
    disk: &dyn Disk,
    path: &Path,
    segment: u64,
    data_end: u64,
    entries: &[FrameEntry],
) -> Result<u64, SegmentError> {
    let index = encode_index(segment, data_end, entries);
    let end = data_end + index.len() as u64;
    let file = disk.open(path, Access::Write).map_err(SegmentError::io(path, "open"))?;
    file.write_at(&index, data_end).map_err(SegmentError::io(path, "write the index"))?;
    file.truncate(end).map_err(SegmentError::io(path, "truncate"))?;
    file.sync_data().map_err(SegmentError::io(path, "sync"))?;
    Ok(end)
}

/// Reads the index of a file, if the file ends in one.
///
/// Ok(None): the file has no index, so it was not closed, or not completely. An error other than
/// that of a wrong version: the index is damaged; the frames can still be scanned.
pub(crate) fn read_index(
    file: &dyn DiskFile,
    path: &Path,
    segment: u64,
) -> Result<Option<(u64, Vec<FrameEntry>)>, SegmentError> {
    let file_bytes = file.bytes().map_err(SegmentError::io(path, "get the length"))?;
    let least = HEADER_BYTES as u64 + index_bytes(0);
    if file_bytes < least {
        return Ok(None);
    }
    let trailer_at = file_bytes - TRAILER_BYTES as u64;
    let trailer = read_exact(file, path, trailer_at, TRAILER_BYTES)?;
    let damaged = |offset: u64, expected: String, found: String| SegmentError::Damaged {
        path: path.to_owned(),
        offset,
        part: "the index",
        expected,
        found,
    };
    let crc = crc32c::crc32c(&trailer[..36]);
    if trailer[..8] != TRAILER_MAGIC || crc.to_le_bytes() != trailer[36..40] {
        return Ok(None);
    }
    let u64_at = |at| u64::from_le_bytes(array(&trailer, at));
    let (of, data_end, frames) = (u64_at(8), u64_at(16), u64_at(24));
    if of != segment {
        return Err(damaged(trailer_at + 8, format!("segment {segment}"), format!("segment {of}")));
    }
    let bytes = trailer_at.saturating_sub(data_end);
    let entries_bytes = bytes.saturating_sub(INDEX_HEADER_BYTES as u64);
    if data_end < HEADER_BYTES as u64
        || Some(entries_bytes) != frames.checked_mul(ENTRY_BYTES as u64)
    {
        let expected = format!("{frames} entries behind byte {data_end}");
        return Err(damaged(trailer_at + 16, expected, format!("{bytes} bytes")));
    }
    let index = read_exact(file, path, data_end, bytes as usize)?;
    let expected = u32::from_le_bytes(array(&trailer, 32));
    let found = crc32c::crc32c(&index);
    if expected != found || index[..8] != INDEX_MAGIC {
        return Err(damaged(data_end, format!("checksum {expected:08x}"), format!("{found:08x}")));
    }
    let version = u16::from_le_bytes(array(&index, 8));
    if version != INDEX_VERSION {
        return Err(SegmentError::Version {
            path: path.to_owned(),
            part: "index",
            expected: INDEX_VERSION,
            found: version,
        });
    }
    let entries: Vec<FrameEntry> =
        index[INDEX_HEADER_BYTES..].chunks_exact(ENTRY_BYTES).map(FrameEntry::decode).collect();
    let mut free = HEADER_BYTES as u64;
    for (number, entry) in entries.iter().enumerate() {
        let end = entry.offset.checked_add(u64::from(entry.frame_bytes));
        if entry.offset < free || end.is_none_or(|end| end > data_end) {
            let at = data_end + (INDEX_HEADER_BYTES + number * ENTRY_BYTES) as u64;
            let expected = format!("a frame between byte {free} and byte {data_end}");
            let found = format!("one of {} bytes at byte {}", entry.frame_bytes, entry.offset);
            return Err(damaged(at, expected, found));
        }
        free = entry.end();
    }
    Ok(Some((data_end, entries)))
}

pub(crate) fn read_exact(
    file: &dyn DiskFile,
    path: &Path,
    offset: u64,
    bytes: usize,
) -> Result<Vec<u8>, SegmentError> {
    let mut buffer = vec![0; bytes];
    let found = file.read_at(&mut buffer, offset).map_err(SegmentError::io(path, "read"))?;
    if found < bytes {
        return Err(SegmentError::Damaged {
            path: path.to_owned(),
            offset: offset + found as u64,
            part: "the file",
            expected: format!("{bytes} bytes from byte {offset}"),
            found: format!("the end of the file after {found}"),
        });
    }
    Ok(buffer)
}
