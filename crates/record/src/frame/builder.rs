//! Builds frames; see the parent module for their format.

use std::collections::HashMap;
use std::sync::Arc;

use super::header::padded;
use super::memory::{Memory, Pool};
use super::{
    Doubt, FRAME_BYTES_MAX, FRAME_INTERNAL, Frame, FrameHeader, HEADER_BYTES, LINE_BYTES_MAX,
    ORIGINS_MAX, Origin, PAYLOAD_BYTES_TARGET, RUN_BYTES, RUN_CUT, RUN_LENGTHS, Run, Transport,
    encode_origin, put_run,
};

/// Memory a builder allocates at its first line; it grows as needed.
const MEMORY_BYTES_FIRST: usize = 16 << 10;
/// Memory of a full frame: header, payload, and room for about 2,000 runs and origins.
const MEMORY_BYTES_FULL: usize = PAYLOAD_BYTES_TARGET + (64 << 10);

/// Builds frames while lines arrive. One per collector thread; takes a lock only once per frame.
///
/// The memory of a full frame is reused once the frame is dropped, so that a stream of frames
/// touches no fresh memory.
pub struct FrameBuilder {
    /// Room for the header, then the payload, then remains of earlier content.
    memory: Vec<u8>,
    /// Bytes of `memory` in use; 0 before the first line.
    filled: usize,
    pool: Arc<Pool>,
    runs: Vec<Run>,
    origins: Vec<Origin>,
    origin_indexes: HashMap<Origin, u16, foldhash::fast::RandomState>,
    lines: u32,
}

impl Default for FrameBuilder {
    fn default() -> Self {
        Self::new()
    }
}

impl FrameBuilder {
    /// An empty frame. Allocates when the first line comes.
    pub fn new() -> Self {
        FrameBuilder {
            memory: Vec::new(),
            filled: 0,
            pool: Pool::new(MEMORY_BYTES_FULL),
            runs: Vec::new(),
            origins: Vec::new(),
            origin_indexes: HashMap::default(),
            lines: 0,
        }
    }

    /// Lines so far.
    pub fn lines(&self) -> u32 {
        self.lines
    }

    /// Whether it has no line.
    pub fn is_empty(&self) -> bool {
        self.lines == 0
    }

    /// Bytes of payload so far.
    pub fn payload_bytes(&self) -> usize {
        self.filled.saturating_sub(HEADER_BYTES)
    }

    /// Whether the frame should be finished before more is added: the payload has reached
    /// [`PAYLOAD_BYTES_TARGET`], or no further origin fits.
    pub fn is_full(&self) -> bool {
        self.payload_bytes() >= PAYLOAD_BYTES_TARGET || self.origins.len() >= ORIGINS_MAX
    }

    /// Adds whole lines that contain no newline except the one behind each; `bytes` must end with a
    /// newline. Copies all of them at once.
    ///
    /// # Panics
    /// If `bytes` does not end with a newline, or the frame would exceed [`FRAME_BYTES_MAX`].
    pub fn push_lines(&mut self, origin: &Origin, received_ns: i64, bytes: &[u8]) {
        assert_eq!(bytes.last(), Some(&b'\n'), "lines end in a newline");
        let lines = memchr::memchr_iter(b'\n', bytes).count() as u32;
        self.reserve(bytes.len());
        self.append(bytes);
        self.push_run(origin, received_ns, bytes.len(), lines, 0);
    }

    /// Adds one line that may contain anything, including newlines. `cut` means that its source cut
    /// it at [`LINE_BYTES_MAX`].
    ///
    /// # Panics
    /// If the line is longer than [`LINE_BYTES_MAX`], or the frame would exceed
    /// [`FRAME_BYTES_MAX`].
    pub fn push_line(&mut self, origin: &Origin, received_ns: i64, line: &[u8], cut: bool) {
        self.push_line_in_doubt(origin, received_ns, line, cut, None);
    }

    /// As [`push_line`](Self::push_line), for a line of which its source could not make out
    /// everything.
    ///
    /// # Panics
    /// As `push_line`.
    pub fn push_line_in_doubt(
        &mut self,
        origin: &Origin,
        received_ns: i64,
        line: &[u8],
        cut: bool,
        doubt: Option<Doubt>,
    ) {
        assert!(line.len() <= LINE_BYTES_MAX, "a source cuts lines that are too long");
        let mut flags = if cut { RUN_CUT } else { 0 };
        let of_doubt = Doubt::ALL.into_iter().find(|(known, _)| Some(*known) == doubt);
        flags |= of_doubt.map_or(0, |(_, flag)| flag);
        let mut bytes = line.len() + 1;
        self.reserve(bytes + 4);
        if memchr::memchr(b'\n', line).is_some() {
            flags |= RUN_LENGTHS;
            self.append(&(line.len() as u32).to_le_bytes());
            bytes += 4;
        }
        self.append(line);
        self.append(b"\n");
        self.push_run(origin, received_ns, bytes, 1, flags);
    }

    /// Room behind the payload, up to [`PAYLOAD_BYTES_TARGET`], for a source to read into;
    /// [`commit_lines`](Self::commit_lines) then takes the part that is lines. The other bytes are
    /// meaningless, and lost with the next call. Empty when the frame is full.
    pub fn spare(&mut self) -> &mut [u8] {
        let full = HEADER_BYTES + PAYLOAD_BYTES_TARGET;
        self.reserve(full.saturating_sub(self.filled.max(HEADER_BYTES)));
        &mut self.memory[self.filled..full.max(self.filled)]
    }

    /// Takes the first `bytes` of the [`spare`](Self::spare) room as `lines` whole lines: as
    /// [`push_lines`](Self::push_lines), without copying and counting.
    ///
    /// # Panics
    /// If they do not end with a newline, or were not in the spare room.
    pub fn commit_lines(&mut self, origin: &Origin, received_ns: i64, bytes: usize, lines: u32) {
        let spare = &self.memory[self.filled..];
        assert_eq!(spare[..bytes].last(), Some(&b'\n'), "lines end in a newline");
        debug_assert_eq!(memchr::memchr_iter(b'\n', &spare[..bytes]).count(), lines as usize);
        self.filled += bytes;
        self.push_run(origin, received_ns, bytes, lines, 0);
    }

    /// Closes the frame and empties the builder. `None` if there is no line.
    pub fn finish(&mut self, node: u32, sequence: u64) -> Option<Frame> {
        if self.lines == 0 {
            return None;
        }
        let runs = std::mem::take(&mut self.runs);
        let origins = std::mem::take(&mut self.origins);
        self.origin_indexes.clear();
        let payload_bytes = self.payload_bytes() as u32;
        self.pad();
        let mut tables = Vec::with_capacity(runs.len() * RUN_BYTES);
        runs.iter().for_each(|run| put_run(run, &mut tables));
        let runs_bytes = tables.len();
        for origin in &origins {
            encode_origin(origin, &mut tables);
        }
        let origins_bytes = (tables.len() - runs_bytes) as u32;
        self.append(&tables);
        self.pad();
        let internal = origins.iter().all(|origin| origin.transport == Transport::Internal);
        let header = FrameHeader {
            flags: if internal { FRAME_INTERNAL } else { 0 },
            node,
            number: 0,
            sequence,
            received_min_ns: runs.iter().map(|r| r.received_ns).min().expect("there are lines"),
            received_max_ns: runs.iter().map(|r| r.received_ns).max().expect("there are lines"),
            lines: std::mem::take(&mut self.lines),
            payload_bytes,
            runs: runs.len() as u32,
            origins_bytes,
            body_crc: crc32c::crc32c(&self.memory[HEADER_BYTES..self.filled]),
        };
        self.memory[..HEADER_BYTES].copy_from_slice(&header.encode());
        Some(Frame { header, bytes: Arc::new(self.take_bytes()), origins, runs })
    }

    /// The frame's bytes. The bytes of a small frame are copied, and the builder keeps its memory:
    /// a quiet system makes frames of few lines, and many of them are kept.
    fn take_bytes(&mut self) -> Memory {
        let bytes = std::mem::take(&mut self.filled);
        if bytes < self.memory.len() / 4 * 3 {
            return self.memory[..bytes].to_vec().into();
        }
        Memory::pooled(std::mem::take(&mut self.memory), bytes, Arc::clone(&self.pool))
    }

    /// Makes room for `bytes` more of the payload.
    fn reserve(&mut self, bytes: usize) {
        if self.memory.is_empty() {
            self.memory = self.pool.take().unwrap_or_default();
        }
        self.filled = self.filled.max(HEADER_BYTES);
        let needed = self.filled + bytes;
        assert!(needed <= FRAME_BYTES_MAX / 2, "a full frame is finished first");
        self.grow(needed);
    }

    fn grow(&mut self, needed: usize) {
        let have = self.memory.len();
        if needed <= have {
            return;
        }
        let bytes = match needed {
            _ if needed > MEMORY_BYTES_FULL => needed,
            _ if needed > MEMORY_BYTES_FULL / 2 => MEMORY_BYTES_FULL,
            _ => needed.max(2 * have).max(MEMORY_BYTES_FIRST),
        };
        if have == 0 {
            // Zeroed memory is not touched until it is used.
            self.memory = vec![0; bytes];
        } else {
            self.memory.reserve_exact(bytes - have);
            self.memory.resize(bytes, 0);
        }
    }

    fn append(&mut self, bytes: &[u8]) {
        let end = self.filled + bytes.len();
        self.grow(end);
        self.memory[self.filled..end].copy_from_slice(bytes);
        self.filled = end;
    }

    /// Pads with zeros to a multiple of 8 bytes.
    fn pad(&mut self) {
        self.append(&[0; 8][..padded(self.filled) - self.filled]);
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
        let index = self.origin_index(origin);
        if let Some(last) = self.runs.last_mut()
            && (last.origin, last.received_ns, last.flags, flags) == (index, received_ns, 0, 0)
        {
            last.bytes += bytes as u32;
            last.lines += lines;
            return;
        }
        self.runs.push(Run { received_ns, bytes: bytes as u32, lines, origin: index, flags });
    }

    fn origin_index(&mut self, origin: &Origin) -> u16 {
        // Nearly always the sender of the previous line.
        if let Some(last) = self.runs.last()
            && self.origins[last.origin as usize] == *origin
        {
            return last.origin;
        }
        if let Some(&index) = self.origin_indexes.get(origin) {
            return index;
        }
        assert!(self.origins.len() < ORIGINS_MAX, "a full frame is finished first");
        let index = self.origins.len() as u16;
        self.origins.push(origin.clone());
        self.origin_indexes.insert(origin.clone(), index);
        index
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Format;

    fn origin() -> Origin {
        Origin::new(Transport::SyslogTcp, Format::Syslog, None)
    }

    /// Reads these lines into the spare room, with other bytes behind them.
    fn read(builder: &mut FrameBuilder, lines: &[u8]) {
        let spare = builder.spare();
        spare[..lines.len()].copy_from_slice(lines);
        spare[lines.len()..].iter_mut().take(100).for_each(|byte| *byte = b'#');
        let count = lines.iter().filter(|&&byte| byte == b'\n').count();
        builder.commit_lines(&origin(), 1, lines.len(), count as u32);
    }

    #[test]
    fn lines_read_in_place_are_as_lines_pushed() {
        let (mut in_place, mut pushed) = (FrameBuilder::new(), FrameBuilder::new());
        for sequence in 1..5 {
            for lines in ["one\ntwo\n", "\n", "three\r\n"] {
                read(&mut in_place, lines.as_bytes());
                pushed.push_lines(&origin(), 1, lines.as_bytes());
                in_place.push_line(&origin(), 2, b"a\nb", false);
                pushed.push_line(&origin(), 2, b"a\nb", false);
            }
            let frame = in_place.finish(1, sequence).unwrap();
            assert_eq!(Some(&frame), pushed.finish(1, sequence).as_ref());
            assert_eq!(Frame::decode(frame.bytes().to_vec()), Ok(frame));
        }
    }

    #[test]
    fn spare_room_ends_where_the_frame_is_full() {
        let mut builder = FrameBuilder::new();
        assert_eq!(builder.spare().len(), PAYLOAD_BYTES_TARGET);
        assert!(builder.is_empty() && builder.finish(1, 1).is_none());
        let line = |bytes: usize| [vec![b'x'; bytes - 1].as_slice(), b"\n"].concat();
        read(&mut builder, &line(PAYLOAD_BYTES_TARGET - 1));
        assert_eq!((builder.spare().len(), builder.is_full()), (1, false));
        read(&mut builder, b"\n");
        assert_eq!((builder.spare().len(), builder.is_full()), (0, true));
        builder.push_line(&origin(), 1, b"beyond", false);
        assert_eq!(builder.spare().len(), 0);
        assert_eq!(builder.finish(1, 1).unwrap().header().lines, 3);
        assert_eq!(builder.spare().len(), PAYLOAD_BYTES_TARGET);
    }

    #[test]
    fn memory_of_full_frames_is_reused_and_small_frames_hold_only_what_they_need() {
        let mut builder = FrameBuilder::new();
        let lines = [vec![b'x'; PAYLOAD_BYTES_TARGET - 1].as_slice(), b"\n"].concat();
        read(&mut builder, &lines);
        let full = builder.finish(1, 1).unwrap();
        let address = full.bytes().as_ptr();
        read(&mut builder, &lines);
        assert_ne!(builder.memory.as_ptr(), address, "in use");
        drop(full);
        drop(builder.finish(1, 2).unwrap());
        let buffers = [builder.pool.take().unwrap(), builder.pool.take().unwrap()];
        assert!(buffers.iter().any(|memory| memory.as_ptr() == address));
        read(&mut builder, b"little\n");
        let small = builder.finish(1, 3).unwrap();
        assert!(small.memory_bytes() < 1000, "{} bytes", small.memory_bytes());
        assert_eq!(builder.memory.len(), MEMORY_BYTES_FULL, "kept for the next frame");
    }

    #[test]
    fn frames_of_long_lines_and_of_many_runs_grow() {
        let mut builder = FrameBuilder::new();
        for bytes in [LINE_BYTES_MAX, MEMORY_BYTES_FULL, MEMORY_BYTES_FIRST, 1] {
            builder.push_line(&origin(), 1, &vec![b'x'; bytes], false);
            let frame = builder.finish(1, 1).unwrap();
            assert_eq!(frame.lines().next().unwrap().bytes.len(), bytes);
        }
        let runs = MEMORY_BYTES_FULL / RUN_BYTES;
        (0..runs).for_each(|run| builder.push_line(&origin(), run as i64, b"x", false));
        let frame = builder.finish(1, 1).unwrap();
        assert_eq!(frame.runs().len(), runs);
        assert_eq!(Frame::decode(frame.bytes().to_vec()), Ok(frame));
    }
}
