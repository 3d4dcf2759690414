//! Reads hot segment files: the list of their frames, and single frames.

use std::path::Path;

use platform::{Access, BLOCK_BYTES, Disk, DiskFile};
use record::frame::{FrameHeader, HEADER_BYTES as FRAME_HEADER_BYTES};
use record::{Frame, FrameError};

use crate::error::SegmentError;
use crate::header::{HEADER_BYTES, SegmentHeader};
use crate::index::{FrameEntry, INDEX_MAGIC, read_exact, read_index};

/// Bytes that a scan reads at once; more for larger frames.
const SCAN_BYTES: usize = 4 << 20;
/// Damaged frames that a scan describes. Further ones are only counted.
const DAMAGES_MAX: usize = 16;
const FRAME_ALIGN: u64 = 8;
static ZEROS: [u8; BLOCK_BYTES] = [0; BLOCK_BYTES];

/// What a scan found besides valid frames.
#[derive(Debug, Default)]
pub struct Scan {
    /// Bytes behind the last valid frame that are neither zeros nor an index: a write that was
    /// interrupted when the process or the machine stopped, or damage.
    pub tail_bytes: u64,
    /// Whether a whole frame is in that tail, so that more than a torn last write may be lost.
    pub tail_has_frames: bool,
    /// Damaged frames between valid ones; they were skipped.
    pub damaged_frames: u64,
    /// Descriptions of the first 16 of them, including why the scan stopped, if it did not stop at
    /// zeros.
    pub damages: Vec<SegmentError>,
}

/// How the frames of a file were found.
#[derive(Debug)]
pub enum Origin {
    /// By its index.
    Index,
    /// By reading every frame.
    Scan(Scan),
}

/// The content of a segment file.
#[derive(Debug)]
pub struct Contents {
    /// The header; an error when it is damaged, while frames may be intact.
    pub header: Result<SegmentHeader, SegmentError>,
    /// Its frames, in order.
    pub frames: Vec<FrameEntry>,
    /// First byte behind the frames.
    pub data_end: u64,
    /// Length of the file.
    pub file_bytes: u64,
    /// How the frames were found.
    pub origin: Origin,
}

/// Lists the frames of a file: from the index if it has a valid one, else by reading and checking
/// every frame, at most to `limit`. A frame whose body is damaged is skipped. At a damaged header
/// the scan stops, because the start of the next frame could only be guessed.
///
/// Errors: the file cannot be read, or another version of Loginson wrote it.
pub fn read_segment(
    disk: &dyn Disk,
    path: &Path,
    segment: u64,
    limit: Option<u64>,
) -> Result<Contents, SegmentError> {
    let file = disk.open(path, Access::Read).map_err(SegmentError::io(path, "open"))?;
    let file_bytes = file.bytes().map_err(SegmentError::io(path, "get the length"))?;
    let first = read_exact(&*file, path, 0, (file_bytes as usize).min(HEADER_BYTES))?;
    let header = SegmentHeader::decode(&first, path);
    if let Err(error @ SegmentError::Version { .. }) = header {
        return Err(error);
    }
    let mut scan = Scan::default();
    match read_index(&*file, path, segment) {
        Ok(Some((data_end, frames))) => {
            return Ok(Contents { header, frames, data_end, file_bytes, origin: Origin::Index });
        }
        Ok(None) => {}
        Err(error @ (SegmentError::Io { .. } | SegmentError::Version { .. })) => return Err(error),
        Err(error) => scan.damages.push(error),
    }
    let end = limit.unwrap_or(file_bytes).min(file_bytes);
    let mut window = Window { file: &*file, path, end, start: 0, bytes: Vec::new() };
    let frames = scan_frames(&mut window, &mut scan)?;
    let data_end = frames.last().map_or(HEADER_BYTES as u64, FrameEntry::end);
    if limit.is_none() {
        scan_tail(&mut window, data_end, &mut scan)?;
    }
    Ok(Contents { header, frames, data_end, file_bytes, origin: Origin::Scan(scan) })
}

/// Reads and checks one frame.
pub fn read_frame(
    file: &dyn DiskFile,
    path: &Path,
    entry: &FrameEntry,
) -> Result<Frame, SegmentError> {
    let bytes = read_exact(file, path, entry.offset, entry.frame_bytes as usize)?;
    let frame = Frame::decode(bytes).map_err(|source| SegmentError::Frame {
        path: path.to_owned(),
        offset: entry.offset,
        source,
    })?;
    if frame.header().sequence != entry.sequence {
        return Err(SegmentError::Damaged {
            path: path.to_owned(),
            offset: entry.offset,
            part: "a frame",
            expected: format!("sequence {}", entry.sequence),
            found: format!("sequence {}", frame.header().sequence),
        });
    }
    Ok(frame)
}

/// A window of the file in memory, moved along by a scan.
struct Window<'a> {
    file: &'a dyn DiskFile,
    path: &'a Path,
    end: u64,
    start: u64,
    bytes: Vec<u8>,
}

impl Window<'_> {
    /// The file's bytes from `offset`: at least `least`, fewer only at its end.
    fn at(&mut self, offset: u64, least: usize) -> Result<&[u8], SegmentError> {
        let inside =
            offset >= self.start && offset + least as u64 <= self.start + self.bytes.len() as u64;
        if !inside {
            let left = self.end.saturating_sub(offset);
            let bytes = left.min(least.max(SCAN_BYTES) as u64) as usize;
            self.bytes.resize(bytes, 0);
            let found = self
                .file
                .read_at(&mut self.bytes, offset)
                .map_err(SegmentError::io(self.path, "read"))?;
            self.bytes.truncate(found);
            self.start = offset;
        }
        Ok(&self.bytes[(offset - self.start) as usize..])
    }
}

fn scan_frames(window: &mut Window<'_>, scan: &mut Scan) -> Result<Vec<FrameEntry>, SegmentError> {
    let mut frames = Vec::new();
    let mut offset = HEADER_BYTES as u64;
    loop {
        let bytes = window.at(offset, FRAME_HEADER_BYTES)?;
        if bytes.is_empty() || bytes.starts_with(&INDEX_MAGIC) {
            return Ok(frames);
        }
        let header = match FrameHeader::decode(bytes) {
            Ok(header) => header,
            Err(FrameError::Magic([0, 0, 0, 0])) => return Ok(frames),
            // Its checksum is right, so it is no damage.
            Err(source @ FrameError::Version(_)) => {
                return Err(SegmentError::Frame { path: window.path.to_owned(), offset, source });
            }
            Err(source) => {
                scan.damage(window.path, offset, source);
                return Ok(frames);
            }
        };
        let frame_bytes = header.frame_bytes();
        let bytes = window.at(offset, frame_bytes)?;
        if bytes.len() < frame_bytes {
            let source = FrameError::Short { needed: frame_bytes, found: bytes.len() };
            scan.damage(window.path, offset, source);
            return Ok(frames);
        }
        let found = crc32c::crc32c(&bytes[FRAME_HEADER_BYTES..frame_bytes]);
        if found == header.body_crc {
            frames.push(FrameEntry::new(offset, &header));
        } else {
            scan.damaged_frames += 1;
            let expected = header.body_crc;
            let source = FrameError::Checksum { part: "body", expected, found };
            scan.damage(window.path, offset, source);
        }
        offset += frame_bytes as u64;
    }
}

/// Examines the tail behind the last valid frame.
fn scan_tail(window: &mut Window<'_>, data_end: u64, scan: &mut Scan) -> Result<(), SegmentError> {
    let mut offset = data_end;
    let mut last = data_end;
    loop {
        let bytes = window.at(offset, FRAME_HEADER_BYTES)?;
        if bytes.is_empty() || (offset == data_end && bytes.starts_with(&INDEX_MAGIC)) {
            break;
        }
        let mut headers = Vec::new();
        let used = used_bytes(bytes);
        if used > 0 {
            last = last.max(offset + used as u64);
            let offsets = (0..used).step_by(FRAME_ALIGN as usize);
            headers.extend(offsets.filter_map(|at| {
                let header = FrameHeader::decode(&bytes[at..]).ok()?;
                Some((offset + at as u64, header))
            }));
        }
        // Windows overlap by slightly less than a header, so that no header is cut in two.
        let overlap = FRAME_HEADER_BYTES - FRAME_ALIGN as usize;
        let step = if bytes.len() > overlap { bytes.len() - overlap } else { bytes.len() };
        for (at, header) in headers {
            scan.tail_has_frames = scan.tail_has_frames || is_whole(window, at, &header)?;
        }
        offset += (step as u64).next_multiple_of(FRAME_ALIGN);
    }
    scan.tail_bytes = last - data_end;
    Ok(())
}

/// Bytes up to the last one that is not zero. Whole blocks are compared first: preallocated space
/// is long.
fn used_bytes(bytes: &[u8]) -> usize {
    let blocks = bytes.chunks(BLOCK_BYTES);
    let zeros = blocks.rev().take_while(|block| **block == ZEROS[..block.len()]);
    let rest = &bytes[..bytes.len() - zeros.map(<[u8]>::len).sum::<usize>()];
    rest.iter().rposition(|&b| b != 0).map_or(0, |at| at + 1)
}

fn is_whole(window: &mut Window<'_>, at: u64, header: &FrameHeader) -> Result<bool, SegmentError> {
    let frame_bytes = header.frame_bytes();
    let bytes = window.at(at, frame_bytes)?;
    Ok(bytes.len() >= frame_bytes
        && crc32c::crc32c(&bytes[FRAME_HEADER_BYTES..frame_bytes]) == header.body_crc)
}

impl Scan {
    fn damage(&mut self, path: &Path, offset: u64, source: FrameError) {
        if self.damages.len() < DAMAGES_MAX {
            self.damages.push(SegmentError::Frame { path: path.to_owned(), offset, source });
        }
    }
}
