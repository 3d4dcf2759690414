//! Reads hot segment files: the list of their frames, and single frames.

use std::path::Path;

use platform::{Access, BLOCK_BYTES, Disk, DiskFile};
use record::frame::{FrameHeader, HEADER_BYTES as FRAME_HEADER_BYTES};
use record::{Frame, FrameError};

use crate::error::SegmentError;
use crate::header::SegmentHeader;
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
    /// interrupted when the process or the machine stopped, or damage. No whole frame is in them.
    pub tail_bytes: u64,
    /// Whether those bytes begin as an index does: the file was being closed, and all its frames
    /// were written.
    pub tail_is_index: bool,
    /// Damaged places before the last valid frame: frames whose body is damaged, and bytes in which
    /// no frame begins. They were skipped.
    pub damaged_places: u64,
    /// Where the first of them begins.
    pub damaged_at: Option<u64>,
    /// Lines of damaged frames whose header is intact, so that their number is known.
    pub damaged_lines: u64,
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
    /// Bytes of the header, behind which the frames begin: as far as its first block tells, else
    /// those of one block.
    pub header_bytes: u64,
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
/// every frame, at most to `limit`. A damaged frame is skipped. Where its header is damaged, so
/// that its length is not known, the scan goes on at the next place at which a whole frame stands:
/// magic and both checksums are right. A line that holds the bytes of a whole frame is taken for
/// one there; nowhere else, since the header of an intact frame tells its length.
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
    let (header, header_bytes) = SegmentHeader::read(&*file, path, file_bytes)?;
    if let Err(error @ SegmentError::Version { .. }) = header {
        return Err(error);
    }
    let mut scan = Scan::default();
    match read_index(&*file, path, segment) {
        Ok(Some((data_end, frames))) => {
            let origin = Origin::Index;
            return Ok(Contents { header, header_bytes, frames, data_end, file_bytes, origin });
        }
        Ok(None) => {}
        Err(error @ (SegmentError::Io { .. } | SegmentError::Version { .. })) => return Err(error),
        Err(error) => scan.damages.push(error),
    }
    let end = limit.unwrap_or(file_bytes).min(file_bytes);
    let mut window = Window { file: &*file, path, end, start: 0, bytes: Vec::new() };
    let frames = scan_frames(&mut window, header_bytes, &mut scan)?;
    let data_end = frames.last().map_or(header_bytes, FrameEntry::end);
    if limit.is_none() {
        scan_tail(&mut window, data_end, &mut scan)?;
    }
    let origin = Origin::Scan(scan);
    Ok(Contents { header, header_bytes, frames, data_end, file_bytes, origin })
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

fn scan_frames(
    window: &mut Window<'_>,
    mut offset: u64,
    scan: &mut Scan,
) -> Result<Vec<FrameEntry>, SegmentError> {
    let mut frames = Vec::new();
    // Damage counts once a valid frame follows; without one it is the tail.
    let mut skipped = Skipped::default();
    loop {
        let bytes = window.at(offset, FRAME_HEADER_BYTES)?;
        if bytes.is_empty() || bytes.starts_with(&INDEX_MAGIC) {
            return Ok(frames);
        }
        let damage = match FrameHeader::decode(bytes) {
            Ok(header) => {
                let frame_bytes = header.frame_bytes();
                let bytes = window.at(offset, frame_bytes)?;
                if bytes.len() < frame_bytes {
                    let source = FrameError::Short { needed: frame_bytes, found: bytes.len() };
                    scan.damage(window.path, offset, source);
                    return Ok(frames);
                }
                let found = crc32c::crc32c(&bytes[FRAME_HEADER_BYTES..frame_bytes]);
                if found == header.body_crc {
                    scan.count(std::mem::take(&mut skipped));
                    frames.push(FrameEntry::new(offset, &header));
                } else {
                    let expected = header.body_crc;
                    let source = FrameError::Checksum { part: "body", expected, found };
                    scan.damage(window.path, offset, source);
                    skipped.add(offset, header.lines);
                }
                offset += frame_bytes as u64;
                continue;
            }
            // Its checksum is right, so it is no damage.
            Err(source @ FrameError::Version(_)) => {
                return Err(SegmentError::Frame { path: window.path.to_owned(), offset, source });
            }
            Err(source) => source,
        };
        let next = find_frame(window, offset + FRAME_ALIGN)?;
        // Zeros that nothing follows are space that was never written.
        if next.is_some() || damage != FrameError::Magic([0; 4]) {
            scan.damage(window.path, offset, damage);
        }
        let Some(next) = next else { return Ok(frames) };
        skipped.add(offset, 0);
        offset = next;
    }
}

/// Damaged places that no valid frame followed so far.
#[derive(Default)]
struct Skipped {
    places: u64,
    at: Option<u64>,
    lines: u64,
}

impl Skipped {
    fn add(&mut self, offset: u64, lines: u32) {
        self.places += 1;
        self.at.get_or_insert(offset);
        self.lines += u64::from(lines);
    }
}

/// Examines the tail behind the last valid frame.
fn scan_tail(window: &mut Window<'_>, data_end: u64, scan: &mut Scan) -> Result<(), SegmentError> {
    scan.tail_is_index = window.at(data_end, FRAME_HEADER_BYTES)?.starts_with(&INDEX_MAGIC);
    let mut offset = data_end;
    while !scan.tail_is_index {
        let bytes = window.at(offset, BLOCK_BYTES)?;
        if bytes.is_empty() {
            break;
        }
        let used = used_bytes(bytes) as u64;
        if used > 0 {
            scan.tail_bytes = offset + used - data_end;
        }
        offset += bytes.len() as u64;
    }
    Ok(())
}

/// The first place from `offset` on, a multiple of [`FRAME_ALIGN`], where a whole frame stands.
fn find_frame(window: &mut Window<'_>, mut offset: u64) -> Result<Option<u64>, SegmentError> {
    loop {
        let bytes = window.at(offset, FRAME_HEADER_BYTES)?;
        if bytes.is_empty() {
            return Ok(None);
        }
        let offsets = (0..used_bytes(bytes)).step_by(FRAME_ALIGN as usize);
        let headers = offsets.filter_map(|at| {
            let header = FrameHeader::decode(&bytes[at..]).ok()?;
            Some((offset + at as u64, header))
        });
        let headers: Vec<_> = headers.collect();
        // Windows overlap by slightly less than a header, so that no header is cut in two.
        let overlap = FRAME_HEADER_BYTES - FRAME_ALIGN as usize;
        let step = if bytes.len() > overlap { bytes.len() - overlap } else { bytes.len() };
        for (at, header) in headers {
            if is_whole(window, at, &header)? {
                return Ok(Some(at));
            }
        }
        offset += (step as u64).next_multiple_of(FRAME_ALIGN);
    }
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
    fn count(&mut self, skipped: Skipped) {
        self.damaged_places += skipped.places;
        self.damaged_at = self.damaged_at.or(skipped.at);
        self.damaged_lines += skipped.lines;
    }

    fn damage(&mut self, path: &Path, offset: u64, source: FrameError) {
        if self.damages.len() < DAMAGES_MAX {
            self.damages.push(SegmentError::Frame { path: path.to_owned(), offset, source });
        }
    }
}
