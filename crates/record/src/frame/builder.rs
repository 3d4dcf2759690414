//! Builds frames; see the module above for what they are.

use std::collections::HashMap;
use std::net::IpAddr;

use super::{
    FRAME_BYTES_MAX, FRAME_INTERNAL, Frame, FrameHeader, HEADER_BYTES, Hints, LINE_BYTES_MAX,
    ORIGINS_MAX, Origin, PAYLOAD_BYTES_TARGET, RUN_CUT, RUN_LENGTHS, Run, Transport, padded,
};

/// Room that a frame is given at its first line; it grows with what comes.
const PAYLOAD_BYTES_FIRST: usize = 16 << 10;

/// Builds a frame while lines arrive. One a collector thread; no locks.
pub struct FrameBuilder {
    /// Room for the header, then the payload.
    buffer: Vec<u8>,
    runs: Vec<Run>,
    origins: Vec<Origin>,
    origin_places: HashMap<Origin, u16, foldhash::fast::RandomState>,
    lines: u32,
}

impl Default for FrameBuilder {
    fn default() -> Self {
        Self::new()
    }
}

impl FrameBuilder {
    /// An empty frame. Allocates once the first line comes.
    pub fn new() -> Self {
        FrameBuilder {
            buffer: Vec::new(),
            runs: Vec::new(),
            origins: Vec::new(),
            origin_places: HashMap::default(),
            lines: 0,
        }
    }

    /// Lines so far.
    pub fn lines(&self) -> u32 {
        self.lines
    }

    /// Whether no line is in it.
    pub fn is_empty(&self) -> bool {
        self.lines == 0
    }

    /// Bytes of payload so far.
    pub fn payload_bytes(&self) -> usize {
        self.buffer.len().saturating_sub(HEADER_BYTES)
    }

    /// Whether the frame should be finished before more is added: the payload has reached
    /// [`PAYLOAD_BYTES_TARGET`], or no further origin fits.
    pub fn is_full(&self) -> bool {
        self.payload_bytes() >= PAYLOAD_BYTES_TARGET || self.origins.len() >= ORIGINS_MAX
    }

    /// Adds whole lines that contain no newline but the one behind each; `bytes` ends in a newline.
    /// One copy for all of them.
    ///
    /// # Panics
    /// When `bytes` does not end in a newline, or the frame would pass [`FRAME_BYTES_MAX`].
    pub fn push_lines(&mut self, origin: &Origin, received_ns: i64, bytes: &[u8]) {
        assert_eq!(bytes.last(), Some(&b'\n'), "lines end in a newline");
        let lines = memchr::memchr_iter(b'\n', bytes).count() as u32;
        self.reserve(bytes.len());
        self.buffer.extend_from_slice(bytes);
        self.push_run(origin, received_ns, bytes.len(), lines, 0);
    }

    /// Adds one line that may contain anything, newlines included. `cut` says that its source cut it at
    /// [`LINE_BYTES_MAX`].
    ///
    /// # Panics
    /// When the line is longer than [`LINE_BYTES_MAX`], or the frame would pass [`FRAME_BYTES_MAX`].
    pub fn push_line(&mut self, origin: &Origin, received_ns: i64, line: &[u8], cut: bool) {
        assert!(line.len() <= LINE_BYTES_MAX, "a source cuts lines that are too long");
        let mut flags = if cut { RUN_CUT } else { 0 };
        let mut bytes = line.len() + 1;
        self.reserve(bytes + 4);
        if memchr::memchr(b'\n', line).is_some() {
            flags |= RUN_LENGTHS;
            self.buffer.extend_from_slice(&(line.len() as u32).to_le_bytes());
            bytes += 4;
        }
        self.buffer.extend_from_slice(line);
        self.buffer.push(b'\n');
        self.push_run(origin, received_ns, bytes, 1, flags);
    }

    /// Closes the frame and leaves the builder empty. None when no line came.
    pub fn finish(&mut self, node: u32, sequence: u64) -> Option<Frame> {
        if self.lines == 0 {
            return None;
        }
        let mut bytes = std::mem::take(&mut self.buffer);
        let runs = std::mem::take(&mut self.runs);
        let origins = std::mem::take(&mut self.origins);
        self.origin_places.clear();
        let payload_bytes = (bytes.len() - HEADER_BYTES) as u32;
        bytes.resize(HEADER_BYTES + padded(payload_bytes as usize), 0);
        for run in &runs {
            bytes.extend_from_slice(&run.received_ns.to_le_bytes());
            bytes.extend_from_slice(&run.bytes.to_le_bytes());
            bytes.extend_from_slice(&run.lines.to_le_bytes());
            bytes.extend_from_slice(&run.origin.to_le_bytes());
            bytes.extend_from_slice(&run.flags.to_le_bytes());
            bytes.extend_from_slice(&[0; 4]);
        }
        let origins_start = bytes.len();
        for origin in &origins {
            encode_origin(origin, &mut bytes);
        }
        let origins_bytes = (bytes.len() - origins_start) as u32;
        bytes.resize(origins_start + padded(origins_bytes as usize), 0);
        let internal = origins.iter().all(|origin| origin.transport == Transport::Internal);
        let header = FrameHeader {
            flags: if internal { FRAME_INTERNAL } else { 0 },
            node,
            sequence,
            received_min_ns: runs.iter().map(|r| r.received_ns).min().expect("there are lines"),
            received_max_ns: runs.iter().map(|r| r.received_ns).max().expect("there are lines"),
            lines: std::mem::take(&mut self.lines),
            payload_bytes,
            runs: runs.len() as u32,
            origins_bytes,
            body_crc: crc32c::crc32c(&bytes[HEADER_BYTES..]),
        };
        bytes[..HEADER_BYTES].copy_from_slice(&header.encode());
        // A quiet system makes frames of a few lines, and many of them are kept in memory.
        if bytes.capacity() > 2 * bytes.len() {
            bytes.shrink_to_fit();
        }
        Some(Frame { header, bytes, origins, runs })
    }

    fn reserve(&mut self, bytes: usize) {
        if self.buffer.is_empty() {
            self.buffer.reserve(HEADER_BYTES + PAYLOAD_BYTES_FIRST);
            self.buffer.resize(HEADER_BYTES, 0);
        }
        assert!(self.buffer.len() + bytes <= FRAME_BYTES_MAX / 2, "a full frame is finished first");
    }

    fn push_run(
        &mut self,
        origin: &Origin,
        received_ns: i64,
        bytes: usize,
        lines: u32,
        flags: u16,
    ) {
        self.lines += lines;
        let place = self.origin_place(origin);
        if let Some(last) = self.runs.last_mut()
            && (last.origin, last.received_ns, last.flags, flags) == (place, received_ns, 0, 0)
        {
            last.bytes += bytes as u32;
            last.lines += lines;
            return;
        }
        self.runs.push(Run { received_ns, bytes: bytes as u32, lines, origin: place, flags });
    }

    fn origin_place(&mut self, origin: &Origin) -> u16 {
        // Nearly always the sender of the line before.
        if let Some(last) = self.runs.last()
            && self.origins[last.origin as usize] == *origin
        {
            return last.origin;
        }
        if let Some(&place) = self.origin_places.get(origin) {
            return place;
        }
        assert!(self.origins.len() < ORIGINS_MAX, "a full frame is finished first");
        let place = self.origins.len() as u16;
        self.origins.push(origin.clone());
        self.origin_places.insert(origin.clone(), place);
        place
    }
}

/// Appends an origin as frames and sealed blocks store it; [`super::decode_origins`] reads it.
pub fn encode_origin(origin: &Origin, out: &mut Vec<u8>) {
    let (family, address, port) = match origin.sender {
        None => (0u8, [0; 16], 0),
        Some(sender) => match sender.ip() {
            IpAddr::V4(v4) => (4, v4.to_ipv6_mapped().octets(), sender.port()),
            IpAddr::V6(v6) => (6, v6.octets(), sender.port()),
        },
    };
    let hints = if *origin.hints == Hints::default() {
        Vec::new()
    } else {
        serde_json::to_vec(&*origin.hints).expect("strings and numbers only")
    };
    out.extend_from_slice(&[origin.transport as u8, origin.format as u8, family, 0]);
    out.extend_from_slice(&port.to_le_bytes());
    out.extend_from_slice(&address);
    out.extend_from_slice(&(hints.len() as u32).to_le_bytes());
    out.extend_from_slice(&hints);
}
