//! A frame: up to about 1 MiB of lines, with where and when they arrived, as one checksummed piece.
//!
//! The same bytes are appended to a hot segment, sent to another node, or kept in memory. Layout
//! (little-endian; `docs/format/frame.md` draws it):
//!
//! ```text
//! header 64 B | payload, padded to 8 B | runs, 24 B each | origins, padded to 8 B
//! ```
//!
//! The tables follow the payload, so that a receiver can read lines directly to their final
//! position, and collect origins meanwhile.
//!
//! A *run* is a sequence of lines that arrived together from one origin. Each of its lines is
//! followed by a newline. A run whose lines may contain newlines (octet-counted framing, datagrams)
//! has [`RUN_LENGTHS`] set and begins with a table of one `u32` length per line; a newline still
//! follows each line, so that a scan over the payload sees lines apart.
//!
//! An *origin* is what a run's lines have in common: transport, sender address, format, and hints
//! that came with them (a type, names of time and message fields, extra fields). It is stored once
//! per frame.
//!
//! Invariants: a decoded [`Frame`] has passed both checksums and every bounds check, so its
//! accessors cannot fail; lines round-trip byte for byte. Left out: compression, and parsing of the
//! lines (see [`crate::batch`]).

use std::hash::{Hash, Hasher};
use std::net::SocketAddr;
use std::sync::Arc;

use serde::Deserialize;

use crate::parse::MessageFormat;

mod builder;
mod memory;
mod origin;

use memory::Memory;

pub use builder::FrameBuilder;
pub use origin::{OriginForm, UnknownField, decode_origins, encode_origin};

/// First bytes of every frame.
pub const FRAME_MAGIC: [u8; 4] = *b"LGNF";
/// Version of the layout that this code writes. It reads versions from [`FRAME_VERSION_MIN`] on.
pub const FRAME_VERSION: u16 = 2;
/// The oldest version that can be read: its forwarded frames only store the low half of the number,
/// and its origins have another form ([`OriginForm::Fixed`]).
pub const FRAME_VERSION_MIN: u16 = 1;
/// The greatest number of a forwarded frame.
pub const FORWARDED_NUMBER_MAX: u64 = (1 << 48) - 1;
/// Bytes of the header.
pub const HEADER_BYTES: usize = 64;
/// Bytes of one entry of the table of runs.
pub const RUN_BYTES: usize = 24;
/// The payload size at which a builder reports that it is full. A longer line makes a larger frame
/// of its own.
pub const PAYLOAD_BYTES_TARGET: usize = 1 << 20;
/// The longest line that is kept. Sources cut a longer line here, and count it as `oversized`.
pub const LINE_BYTES_MAX: usize = 8 << 20;
/// The largest frame that is read. A larger claimed size means damage.
pub const FRAME_BYTES_MAX: usize = 64 << 20;
/// Origins of one frame. When more are needed, the frame is closed and the next one begun.
pub const ORIGINS_MAX: usize = u16::MAX as usize;
/// Frame flag: all lines were made by Loginson itself ([`Transport::Internal`]).
pub const FRAME_INTERNAL: u16 = 1;
/// Frame flag: another node built and sent the frame. `node` is that node, `number` the frame's
/// number there; `sequence` is the receiver's.
pub const FRAME_FORWARDED: u16 = 2;
/// Run flag: the run begins with a table of line lengths.
pub const RUN_LENGTHS: u16 = 1;
/// Run flag: the last line of the run was cut at [`LINE_BYTES_MAX`].
pub const RUN_CUT: u16 = 2;

/// How lines arrived. The numbers are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Transport {
    /// Made by Loginson itself: summary rows.
    Internal = 0,
    /// Syslog datagrams (RFC 5426).
    SyslogUdp = 1,
    /// Syslog over TCP (RFC 6587).
    SyslogTcp = 2,
    /// Syslog over TLS (RFC 5425).
    SyslogTls = 3,
    /// An HTTP request.
    Http = 4,
    /// A file read by `loginson import` or followed.
    File = 5,
    /// The journal of systemd.
    Journald = 6,
    /// A transport that only a newer program knows; its number is in [`Hints::unknown`]. Not
    /// stored.
    Other = 255,
}

/// What a source knows about the format of its lines. The numbers are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Format {
    /// Nothing: the parser detects the format of each line.
    Auto = 0,
    /// Syslog: RFC 5424, RFC 3164, or what devices make of them.
    Syslog = 1,
    /// JSON objects.
    Json = 2,
}

/// Hints that came with the lines and are needed to parse them; stored in the origin, field by
/// field. Frames of version 1 store them as JSON.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Hints {
    /// The type of the lines; rules are then not evaluated.
    #[serde(rename = "type")]
    pub log_type: Option<String>,
    /// Keys, of JSON or logfmt, that may hold the time, in order of preference.
    pub time_fields: Vec<String>,
    /// JSON keys that may hold the message, in order of preference.
    pub msg_fields: Vec<String>,
    /// JSON keys that may hold the level, in order of preference.
    pub level_fields: Vec<String>,
    /// How the lines are parsed, whatever their type is.
    pub format: Option<MessageFormat>,
    /// Fields that identify the stream of a line, instead of host and application.
    pub stream_fields: Vec<String>,
    /// JSON keys that do not become fields.
    pub ignore_fields: Vec<String>,
    /// Fields that each line gets in addition.
    pub extra_fields: Vec<(String, String)>,
    /// The file the lines were read from.
    pub file: Option<String>,
    /// Number of that file, if it is followed; a truncated file gets another number (see crate
    /// `collector`).
    pub file_id: Option<u64>,
    /// On summary rows: the watermark, the position of the last frame whose lines are counted in
    /// rows up to here (see crate `summary`).
    pub summarised_through: Option<u64>,
    /// Fields from whose values ANSI escapes are removed; a name that ends in `*` means all names
    /// with that prefix.
    pub decolorize_fields: Vec<String>,
    /// Fields of the origin that this program does not know, in the order of their tags; kept for
    /// programs that do.
    #[serde(skip)]
    pub unknown: Vec<UnknownField>,
}

/// What the lines of a run have in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// How they arrived.
    pub transport: Transport,
    /// What is known about their format.
    pub format: Format,
    /// Who sent them; `None` for files and Loginson's own lines.
    pub sender: Option<SocketAddr>,
    /// The hints that came with them; shared, because every run of a request has the same.
    pub hints: Arc<Hints>,
}

/// Leaves out the hints: the hash is computed for each datagram of another sender, and few origins
/// differ in their hints only.
impl Hash for Origin {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.transport as u8, self.format as u8, self.sender).hash(state);
    }
}

impl Origin {
    /// An origin without hints.
    pub fn new(transport: Transport, format: Format, sender: Option<SocketAddr>) -> Self {
        Origin { transport, format, sender, hints: Arc::default() }
    }
}

/// Identifies one line permanently, on every machine: the node that built its frame, the frame's
/// number there, and the index of the line in the frame. The id stays the same when the frame is
/// forwarded to another node, and when it is sealed.
///
/// Lines that were forwarded and sealed by a program before version 2 of frames have the node and
/// the sequence number of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LineId {
    /// The node that built the frame.
    pub node: u32,
    /// Number of the frame on that node.
    pub sequence: u64,
    /// Index of the line in the frame, from 0.
    pub line: u32,
}

impl std::fmt::Display for LineId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:08x}-{}-{}", self.node, self.sequence, self.line)
    }
}

impl std::str::FromStr for LineId {
    type Err = FrameError;
    fn from_str(s: &str) -> Result<Self, FrameError> {
        // Digits only: other accepted notations would give one id several texts.
        let decimal = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        let parse = || {
            let mut parts = s.split('-');
            let (node, sequence, line) = (parts.next()?, parts.next()?, parts.next()?);
            let is_node = node.len() == 8 && node.bytes().all(|byte| byte.is_ascii_hexdigit());
            if parts.next().is_some() || !is_node || !decimal(sequence) || !decimal(line) {
                return None;
            }
            Some(LineId {
                node: u32::from_str_radix(node, 16).ok()?,
                sequence: sequence.parse().ok()?,
                line: line.parse().ok()?,
            })
        };
        let is_old = || s.split_once('-').is_some_and(|(a, b)| decimal(a) && decimal(b));
        parse().ok_or_else(|| match is_old() {
            true => FrameError::OldLineId(s.to_owned()),
            false => FrameError::LineId(s.to_owned()),
        })
    }
}

/// Why bytes are not a valid frame.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum FrameError {
    /// Fewer bytes than the frame needs; `needed` is the size known so far.
    #[error("frame is cut off: {needed} bytes needed, {found} found")]
    Short {
        /// Bytes needed.
        needed: usize,
        /// Bytes found.
        found: usize,
    },
    /// The first bytes are not those of a frame.
    #[error("no frame here: expected magic {FRAME_MAGIC:02x?}, found {0:02x?}")]
    Magic([u8; 4]),
    /// Written by another version of Loginson.
    #[error(
        "frame version {0} is not known; this program reads versions {FRAME_VERSION_MIN} to {FRAME_VERSION}"
    )]
    Version(u16),
    /// The bytes differ from what was written.
    #[error("checksum of the frame's {part} is {found:08x}, expected {expected:08x}")]
    Checksum {
        /// Which part.
        part: &'static str,
        /// As stored.
        expected: u32,
        /// As computed.
        found: u32,
    },
    /// The checksums match but the content is invalid: a bug in the writer.
    #[error("frame is not well formed: {0}")]
    Malformed(&'static str),
    /// Not a valid line id.
    #[error("'{0}' is not a line id; expected NODE-SEQUENCE-LINE, for example 5f3a09c1-17-42")]
    LineId(String),
    /// A line id of earlier versions: without the node.
    #[error(
        "'{0}' is a line id of an earlier version; ids begin with the node now, as in 5f3a09c1-{0}: look for the line anew"
    )]
    OldLineId(String),
}

/// The fixed fields of a frame, as in its first 64 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHeader {
    /// Version of the layout.
    pub version: u16,
    /// [`FRAME_INTERNAL`], [`FRAME_FORWARDED`]; other bits are zero.
    pub flags: u16,
    /// Node that built the frame.
    pub node: u32,
    /// For a forwarded frame: its number on the node that sent it, at most
    /// [`FORWARDED_NUMBER_MAX`]; in version 1 the low 32 bits of it. Otherwise 0.
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
        let low = u64::from(u32::from_le_bytes(array(bytes, 12)));
        let upper = u16::from_le_bytes(array(bytes, 6));
        // From version 2 on, version and flags have one byte each, and the former upper bytes are
        // the upper bits of the number.
        let (version, flags, number) = match bytes[4..6] {
            [1, 0] => (1, upper, low),
            [2, flags] => (2, u16::from(flags), u64::from(upper) << 32 | low),
            [1, _] | [0, _] => {
                return Err(FrameError::Version(u16::from_le_bytes(array(bytes, 4))));
            }
            [version, ..] => return Err(FrameError::Version(version.into())),
            [] => unreachable!("there are two bytes"),
        };
        let header = FrameHeader {
            version,
            flags,
            node: u32::from_le_bytes(array(bytes, 8)),
            number,
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

    fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut out = [0u8; HEADER_BYTES];
        out[0..4].copy_from_slice(&FRAME_MAGIC);
        if self.version == 1 {
            out[4] = 1;
            out[6..8].copy_from_slice(&self.flags.to_le_bytes());
        } else {
            out[4..6].copy_from_slice(&[self.version as u8, self.flags as u8]);
            out[6..8].copy_from_slice(&((self.number >> 32) as u16).to_le_bytes());
        }
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

    fn runs_offset(&self) -> usize {
        HEADER_BYTES + padded(self.payload_bytes as usize)
    }

    fn origins_offset(&self) -> usize {
        self.runs_offset() + self.runs as usize * RUN_BYTES
    }
}

/// A sequence of lines that arrived together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Arrival, nanoseconds since 1970 UTC.
    pub received_ns: i64,
    /// Bytes of the payload that belong to it, with length table and newlines.
    pub bytes: u32,
    /// Lines in it.
    pub lines: u32,
    /// Index in [`Frame::origins`].
    pub origin: u16,
    /// [`RUN_LENGTHS`], [`RUN_CUT`].
    pub flags: u16,
}

impl Run {
    /// Whether its lines may contain newlines.
    pub fn has_lengths(&self) -> bool {
        self.flags & RUN_LENGTHS != 0
    }
}

/// A verified frame with decoded tables. Clones share its bytes, until one of them changes.
#[derive(Clone, Debug, PartialEq)]
pub struct Frame {
    header: FrameHeader,
    bytes: Arc<Memory>,
    origins: Vec<Origin>,
    runs: Vec<Run>,
}

/// One line and what is known about it before parsing.
#[derive(Clone, Copy, Debug)]
pub struct Line<'a> {
    /// Index in the frame, from 0.
    pub index: u32,
    /// Offset of the line in the frame.
    pub offset: u32,
    /// The line as it was sent, without the newline that ended it.
    pub bytes: &'a [u8],
    /// Arrival, nanoseconds since 1970 UTC.
    pub received_ns: i64,
    /// Its origin.
    pub origin: &'a Origin,
    /// Index of the origin in [`Frame::origins`].
    pub origin_index: u16,
    /// Whether it was cut at [`LINE_BYTES_MAX`].
    pub cut: bool,
}

impl Frame {
    /// Reads one frame from the start of `bytes` and takes ownership; `bytes` may be longer than
    /// the frame.
    pub fn decode(mut bytes: Vec<u8>) -> Result<Self, FrameError> {
        let header = FrameHeader::decode(&bytes)?;
        let needed = header.frame_bytes();
        if bytes.len() < needed {
            return Err(FrameError::Short { needed, found: bytes.len() });
        }
        bytes.truncate(needed);
        let found = crc32c::crc32c(&bytes[HEADER_BYTES..]);
        if found != header.body_crc {
            return Err(FrameError::Checksum { part: "body", expected: header.body_crc, found });
        }
        let origins_end = header.origins_offset() + header.origins_bytes as usize;
        let form = if header.version == 1 { OriginForm::Fixed } else { OriginForm::Tagged };
        let origins = decode_origins(&bytes[header.origins_offset()..origins_end], form)?;
        let payload = &bytes[HEADER_BYTES..HEADER_BYTES + header.payload_bytes as usize];
        let runs = decode_runs(&bytes[header.runs_offset()..header.origins_offset()]);
        check_runs(&runs, payload, origins.len(), header.lines)?;
        Ok(Frame { header, bytes: Arc::new(bytes.into()), origins, runs })
    }

    /// Changes the number of the frame. Only the header is rewritten; lines and their checksum
    /// stay.
    pub fn set_sequence(&mut self, sequence: u64) {
        self.set_header(FrameHeader { sequence, ..self.header });
    }

    /// Turns a frame received from another node into one of this store. Its previous sequence, at
    /// most [`FORWARDED_NUMBER_MAX`], becomes its number on the other node. In a frame of version
    /// 1, only the low half of that number is kept.
    pub fn set_forwarded(&mut self, sequence: u64) {
        let bits =
            if self.header.version == 1 { u64::from(u32::MAX) } else { FORWARDED_NUMBER_MAX };
        let number = self.header.sequence & bits;
        let flags = self.header.flags | FRAME_FORWARDED;
        self.set_header(FrameHeader { flags, number, sequence, ..self.header });
    }

    /// Sets arrival times outside `min_ns..=max_ns` to `to_ns`. Returns how many lines these are.
    pub fn clamp_received(&mut self, (min_ns, max_ns): (i64, i64), to_ns: i64) -> u64 {
        let are_inside = |range: (i64, i64)| range.0 >= min_ns && range.1 <= max_ns;
        if self.received_range_ns().is_none_or(are_inside) {
            return 0;
        }
        let mut lines = 0;
        let mut at = self.header.runs_offset();
        let bytes = Arc::make_mut(&mut self.bytes);
        for run in &mut self.runs {
            if !(min_ns..=max_ns).contains(&run.received_ns) {
                run.received_ns = to_ns;
                lines += u64::from(run.lines);
                bytes[at..at + 8].copy_from_slice(&to_ns.to_le_bytes());
            }
            at += RUN_BYTES;
        }
        let (received_min_ns, received_max_ns) = self.received_range_ns().expect("there are runs");
        let body_crc = crc32c::crc32c(&self.bytes[HEADER_BYTES..]);
        self.set_header(FrameHeader { received_min_ns, received_max_ns, body_crc, ..self.header });
        lines
    }

    /// The earliest and the latest arrival in the runs; `None` without runs.
    pub fn received_range_ns(&self) -> Option<(i64, i64)> {
        let received = || self.runs.iter().map(|run| run.received_ns);
        Some((received().min()?, received().max()?))
    }

    fn set_header(&mut self, header: FrameHeader) {
        if self.header == header {
            return;
        }
        self.header = header;
        let bytes = Arc::make_mut(&mut self.bytes);
        bytes[..HEADER_BYTES].copy_from_slice(&header.encode());
    }

    /// The fixed fields.
    pub fn header(&self) -> &FrameHeader {
        &self.header
    }

    /// The whole frame as it is stored and sent.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Memory held, in bytes.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>()
            + self.bytes.held_bytes()
            + self.runs.capacity() * size_of::<Run>()
            + self.origins.capacity() * size_of::<Origin>()
    }

    /// The lines with their newlines (and length tables of the runs that have one).
    pub fn payload(&self) -> &[u8] {
        &self.bytes[HEADER_BYTES..HEADER_BYTES + self.header.payload_bytes as usize]
    }

    /// The origins that runs refer to.
    pub fn origins(&self) -> &[Origin] {
        &self.origins
    }

    /// The runs, in order of the payload.
    pub fn runs(&self) -> &[Run] {
        &self.runs
    }

    /// Bytes of the lines, without newlines and length tables.
    pub fn line_bytes(&self) -> u64 {
        let besides = |run: &Run| {
            let a_line = if run.flags & RUN_LENGTHS != 0 { 1 + size_of::<u32>() } else { 1 };
            u64::from(run.lines) * a_line as u64
        };
        u64::from(self.header.payload_bytes) - self.runs.iter().map(besides).sum::<u64>()
    }

    /// The lines, in order.
    pub fn lines(&self) -> Lines<'_> {
        Lines { frame: self, run: 0, left_in_run: 0, offset: HEADER_BYTES, lengths: None, index: 0 }
    }
}

/// Iterator over the lines of a frame; made by [`Frame::lines`].
pub struct Lines<'a> {
    frame: &'a Frame,
    run: usize,
    left_in_run: u32,
    offset: usize,
    lengths: Option<usize>,
    index: u32,
}

impl<'a> Iterator for Lines<'a> {
    type Item = Line<'a>;

    fn next(&mut self) -> Option<Line<'a>> {
        while self.left_in_run == 0 {
            let run = self.frame.runs.get(self.run)?;
            self.left_in_run = run.lines;
            self.lengths = None;
            if run.flags & RUN_LENGTHS != 0 {
                self.lengths = Some(self.offset);
                self.offset += 4 * run.lines as usize;
            }
            self.run += 1;
        }
        let run = &self.frame.runs[self.run - 1];
        let bytes = &self.frame.bytes;
        let length = match &mut self.lengths {
            Some(at) => {
                let length = u32::from_le_bytes(array(bytes, *at)) as usize;
                *at += 4;
                length
            }
            None => memchr::memchr(b'\n', &bytes[self.offset..]).expect("checked by decode"),
        };
        self.left_in_run -= 1;
        let line = Line {
            index: self.index,
            offset: self.offset as u32,
            bytes: &bytes[self.offset..self.offset + length],
            received_ns: run.received_ns,
            origin: &self.frame.origins[run.origin as usize],
            origin_index: run.origin,
            cut: run.flags & RUN_CUT != 0 && self.left_in_run == 0,
        };
        self.index += 1;
        self.offset += length + 1;
        Some(line)
    }
}

fn decode_runs(bytes: &[u8]) -> Vec<Run> {
    let decode = |run: &[u8]| Run {
        received_ns: i64::from_le_bytes(array(run, 0)),
        bytes: u32::from_le_bytes(array(run, 8)),
        lines: u32::from_le_bytes(array(run, 12)),
        origin: u16::from_le_bytes(array(run, 16)),
        flags: u16::from_le_bytes(array(run, 18)),
    };
    bytes.chunks_exact(RUN_BYTES).map(decode).collect()
}

/// Checks that every line is where its run says, so that [`Lines`] cannot fail.
fn check_runs(runs: &[Run], payload: &[u8], origins: usize, lines: u32) -> Result<(), FrameError> {
    let mut rest = payload;
    let mut lines_found = 0u64;
    for run in runs {
        if run.origin as usize >= origins {
            return Err(FrameError::Malformed("a run refers to an origin that is not there"));
        }
        if rest.len() < run.bytes as usize {
            return Err(FrameError::Malformed("runs are longer than the payload"));
        }
        let (body, behind) = rest.split_at(run.bytes as usize);
        if run.flags & RUN_LENGTHS != 0 {
            check_lengths(body, run.lines as usize)?;
        } else if memchr::memchr_iter(b'\n', body).count() != run.lines as usize
            || body.last().is_some_and(|&b| b != b'\n')
        {
            return Err(FrameError::Malformed("a run has another number of lines than it says"));
        }
        lines_found += u64::from(run.lines);
        rest = behind;
    }
    if !rest.is_empty() || lines_found != u64::from(lines) {
        return Err(FrameError::Malformed("runs and payload do not agree"));
    }
    Ok(())
}

fn check_lengths(body: &[u8], lines: usize) -> Result<(), FrameError> {
    let error = FrameError::Malformed("a run's line lengths do not fit it");
    if body.len() / 4 < lines {
        return Err(error);
    }
    let mut offset = 4 * lines;
    for line in 0..lines {
        offset += u32::from_le_bytes(array(body, 4 * line)) as usize;
        if body.get(offset) != Some(&b'\n') {
            return Err(error);
        }
        offset += 1;
    }
    if offset != body.len() {
        return Err(error);
    }
    Ok(())
}

/// `bytes` rounded up to a multiple of 8.
const fn padded(bytes: usize) -> usize {
    bytes.div_ceil(8) * 8
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes[at..at + N].try_into().expect("the length is N")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn origin(port: u16) -> Origin {
        Origin::new(
            Transport::SyslogTcp,
            Format::Syslog,
            Some(SocketAddr::from(([10, 0, 0, 1], port))),
        )
    }

    fn lines_of(frame: &Frame) -> Vec<(Vec<u8>, i64, Origin, bool)> {
        frame.lines().map(|l| (l.bytes.to_vec(), l.received_ns, l.origin.clone(), l.cut)).collect()
    }

    fn sample() -> Frame {
        let mut builder = FrameBuilder::new();
        builder.push_lines(&origin(1), 10, b"one\n\nthree\r\n");
        builder.push_line(&origin(2), 11, b"four\nstill four", false);
        builder.push_line(&origin(2), 11, b"", true);
        let hints = Hints { log_type: Some("access".into()), ..Hints::default() };
        let http =
            Origin { hints: Arc::new(hints), ..Origin::new(Transport::Http, Format::Auto, None) };
        builder.push_lines(&http, 9, b"\xff\x00\n");
        builder.finish(3, 42).expect("has lines")
    }

    #[test]
    fn lines_come_back_as_they_were_sent() {
        let frame = sample();
        let line_bytes: usize = frame.lines().map(|line| line.bytes.len()).sum();
        assert_eq!(frame.line_bytes(), line_bytes as u64);
        let decoded = Frame::decode(frame.bytes().to_vec()).unwrap();
        assert_eq!(decoded, frame);
        let lines = lines_of(&decoded);
        let texts: Vec<&[u8]> = lines.iter().map(|l| l.0.as_slice()).collect();
        let expected: [&[u8]; 6] = [b"one", b"", b"three\r", b"four\nstill four", b"", b"\xff\x00"];
        assert_eq!(texts, expected);
        assert_eq!(lines.iter().map(|l| l.1).collect::<Vec<_>>(), [10, 10, 10, 11, 11, 9]);
        assert_eq!(
            lines.iter().map(|l| l.3).collect::<Vec<_>>(),
            [false, false, false, false, true, false]
        );
        assert_eq!(lines[5].2.hints.log_type.as_deref(), Some("access"));
        let header = decoded.header();
        assert_eq!((header.node, header.sequence, header.lines), (3, 42, 6));
        assert_eq!(header.flags, 0);
        assert_eq!((header.received_min_ns, header.received_max_ns), (9, 11));
    }

    #[test]
    fn each_flipped_byte_and_each_cut_is_an_error() {
        let bytes = sample().bytes().to_vec();
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x20;
            assert!(Frame::decode(damaged).is_err(), "byte {at} flipped");
            assert!(Frame::decode(bytes[..at].to_vec()).is_err(), "cut at {at}");
        }
    }

    #[test]
    fn a_frame_of_internal_lines_is_flagged() {
        let mut builder = FrameBuilder::new();
        let own = Origin::new(Transport::Internal, Format::Json, None);
        builder.push_lines(&own, 1, b"{}\n");
        let frame = Frame::decode(builder.finish(1, 1).unwrap().bytes().to_vec()).unwrap();
        assert_eq!(frame.header().flags, FRAME_INTERNAL);
        builder.push_lines(&own, 1, b"{}\n");
        builder.push_lines(&origin(1), 1, b"x\n");
        assert_eq!(builder.finish(1, 2).unwrap().header().flags, 0);
    }

    #[test]
    fn a_frame_keeps_its_name_when_it_is_forwarded() {
        let mut frame = sample();
        assert_eq!(frame.header().name(), (3, 42));
        frame.set_sequence(FORWARDED_NUMBER_MAX);
        frame.set_forwarded(7);
        let frame = Frame::decode(frame.bytes().to_vec()).unwrap();
        assert_eq!((frame.header().sequence, frame.header().flags), (7, FRAME_FORWARDED));
        assert_eq!(frame.header().name(), (3, FORWARDED_NUMBER_MAX));
    }

    #[test]
    fn clones_share_their_bytes_until_one_of_them_changes() {
        let mut frame = sample();
        let clone = frame.clone();
        frame.set_sequence(42);
        assert_eq!(frame.bytes().as_ptr(), clone.bytes().as_ptr(), "nothing changed");
        frame.set_sequence(43);
        assert_eq!((frame.header().sequence, clone.header().sequence), (43, 42));
        assert_eq!(Frame::decode(clone.bytes().to_vec()).unwrap(), sample());
    }

    #[test]
    fn line_ids_round_trip_as_text_and_old_ones_are_refused() {
        for id in [
            LineId { node: 0x5f3a_09c1, sequence: 17, line: 42 },
            LineId { node: 0, sequence: u64::MAX, line: u32::MAX },
        ] {
            assert_eq!(id.to_string().parse(), Ok(id));
        }
        for text in [
            "",
            "5f3a09c1",
            "5f3a09c1-17",
            "5f3a09c1-17-42-1",
            "f3a09c1-17-42",
            "5f3a09c1-+1-2",
            "x",
        ] {
            assert_eq!(text.parse::<LineId>(), Err(FrameError::LineId(text.to_owned())));
        }
        let error = "17-42".parse::<LineId>().unwrap_err();
        assert!(error.to_string().contains("of an earlier version"), "{error}");
    }

    #[test]
    fn other_versions_are_refused_by_name() {
        let refused = |version: [u8; 2]| {
            let mut bytes = sample().bytes().to_vec();
            bytes[4..6].copy_from_slice(&version);
            let crc = crc32c::crc32c(&bytes[..60]);
            bytes[60..64].copy_from_slice(&crc.to_le_bytes());
            Frame::decode(bytes).unwrap_err()
        };
        assert_eq!(refused([3, 1]), FrameError::Version(3));
        assert_eq!(refused([0, 0]), FrameError::Version(0));
        assert_eq!(refused([1, 1]), FrameError::Version(257));
    }

    #[test]
    fn runs_of_one_arrival_are_joined() {
        let mut builder = FrameBuilder::new();
        for _ in 0..3 {
            builder.push_line(&origin(1), 5, b"x", false);
        }
        let frame = builder.finish(0, 1).unwrap();
        assert_eq!(frame.runs().len(), 1);
        assert!(builder.finish(0, 2).is_none());
    }

    proptest! {
        #[test]
        fn any_lines_round_trip(
            lines in prop::collection::vec((prop::collection::vec(any::<u8>(), 0..40), 0u16..3, 0i64..3), 1..50),
        ) {
            let mut builder = FrameBuilder::new();
            for (line, port, received) in &lines {
                builder.push_line(&origin(*port), *received, line, false);
            }
            let frame = Frame::decode(builder.finish(1, 1).unwrap().bytes().to_vec()).unwrap();
            let found: Vec<_> = lines_of(&frame).into_iter().map(|l| (l.0, l.1, l.2)).collect();
            let expected: Vec<_> = lines.into_iter().map(|(l, p, r)| (l, r, origin(p))).collect();
            prop_assert_eq!(found, expected);
        }

        #[test]
        fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = Frame::decode(bytes);
        }
    }
}
