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

use serde::{Deserialize, Serialize};

mod builder;
mod header;
mod line_id;
mod memory;
mod origin;
pub(crate) mod pieces;
mod rewrite;
mod tenant;

use memory::Memory;

pub use builder::FrameBuilder;
pub use header::{
    APPEND_WINDOW, FORWARDED_NUMBER_MAX, FRAME_FORWARDED, FRAME_INTERNAL, FRAME_MAGIC,
    FRAME_VERSION, FrameHeader, HEADER_BYTES,
};
pub use line_id::LineId;
pub use origin::{UnknownField, decode_origins, encode_origin};
pub use rewrite::LineChange;
pub use tenant::{NoTenant, Tenant};

/// Bytes of one entry of the table of runs.
pub const RUN_BYTES: usize = 24;
/// The payload size at which a builder reports that it is full. A longer line makes a larger frame
/// of its own.
pub const PAYLOAD_BYTES_TARGET: usize = 1 << 20;
/// The longest line that is kept. Sources cut a longer line here, and count it as `oversized`.
///
/// limits.md, Lines on their way in: a line | {} | its first {} are kept with a `_note`; the rest
/// is dropped and counted as `oversized`
pub const LINE_BYTES_MAX: usize = 8 << 20;
/// The largest frame that is read. A larger claimed size means damage.
pub const FRAME_BYTES_MAX: usize = 64 << 20;
/// Origins of one frame. When more are needed, the frame is closed and the next one begun.
pub const ORIGINS_MAX: usize = u16::MAX as usize;
/// Run flag: the run begins with a table of line lengths.
pub const RUN_LENGTHS: u16 = 1;
/// Run flag: the last line of the run was cut at [`LINE_BYTES_MAX`].
pub const RUN_CUT: u16 = 2;
/// Run flag: [`Doubt::Framing`] of the last line of the run.
pub const RUN_DOUBT_FRAMING: u16 = 4;
/// Run flag: [`Doubt::Compression`] of the last line of the run.
pub const RUN_DOUBT_COMPRESSION: u16 = 8;
/// Run flag: [`Doubt::Decoding`] of the last line of the run.
pub const RUN_DOUBT_DECODING: u16 = 16;

/// What a source could not make out about a line. The line gets a `_note`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doubt {
    /// Where it begins or ends.
    Framing,
    /// Its text: it is compressed, and cannot be decompressed.
    Compression,
    /// What it says: it is not in the encoding that was configured for its source.
    Decoding,
}

impl Doubt {
    /// All, each with its run flag.
    const ALL: [(Doubt, u16); 3] = [
        (Doubt::Framing, RUN_DOUBT_FRAMING),
        (Doubt::Compression, RUN_DOUBT_COMPRESSION),
        (Doubt::Decoding, RUN_DOUBT_DECODING),
    ];

    /// The note that the line gets.
    pub fn note(self) -> &'static str {
        match self {
            Doubt::Framing => {
                "the octet count in front of it, or of the message before, is wrong: the sender may \
                 count characters instead of bytes"
            }
            Doubt::Compression => "compressed, and cannot be decompressed",
            Doubt::Decoding => "not in the encoding that is configured for its source",
        }
    }
}

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
    /// Fluent forward.
    Fluent = 7,
    /// Beats and Logstash (Lumberjack).
    Beats = 8,
    /// RELP.
    Relp = 9,
    /// Measurements of StatsD.
    Statsd = 12,
    /// A topic of Kafka.
    Kafka = 10,
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

/// How the message of a line is parsed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MessageFormat {
    /// Detected: an access line, a JSON object, pairs, or else text.
    #[default]
    Auto,
    /// Text, whatever it contains.
    Plain,
    /// A JSON object.
    Json,
    /// An access line of Apache or nginx.
    Access,
    /// Pairs of keys and values: `level=info msg="…"`.
    Logfmt,
}

/// Hints that came with the lines and are needed to parse them; stored in the origin, field by
/// field.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Hints {
    /// The type of the lines; rules are then not evaluated.
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
    /// rows up to here (see crate `programs`, module `summary`).
    pub summarised_through: Option<u64>,
    /// Fields from whose values ANSI escapes are removed; a name that ends in `*` means all names
    /// with that prefix.
    pub decolorize_fields: Vec<String>,
    /// Zone of times that name none, as [`Zone::parse`](crate::Zone::parse) reads it.
    pub zone: Option<String>,
    /// Whether lines arrived as they were written although they come from a file: they were
    /// appended while it was followed.
    pub live: bool,
    /// Whose lines they are. Only Loginson sets it, by who sent the lines or where they arrived,
    /// never by what they contain.
    pub tenant: Tenant,
    /// Fields of the origin that this program does not know, in the order of their tags; kept for
    /// programs that do.
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
        "frame version {0} is not known; this program reads version {FRAME_VERSION}: use the release of Loginson that wrote it"
    )]
    Version(u8),
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
    /// [`RUN_LENGTHS`], [`RUN_CUT`], [`RUN_DOUBT_FRAMING`], [`RUN_DOUBT_COMPRESSION`],
    /// [`RUN_DOUBT_DECODING`].
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
    /// What its source could not make out.
    pub doubt: Option<Doubt>,
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
        let origins = decode_origins(&bytes[header.origins_offset()..origins_end])?;
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
    /// most [`FORWARDED_NUMBER_MAX`], becomes its number on the other node.
    pub fn set_forwarded(&mut self, sequence: u64) {
        let number = self.header.sequence & FORWARDED_NUMBER_MAX;
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

    /// Gives the lines of those origins a tenant for which `tenant` names one.
    pub fn assign_tenants(&mut self, tenant: impl Fn(&Origin) -> Option<Tenant>) {
        let mut origins = self.origins.clone();
        let mut is_changed = false;
        for origin in &mut origins {
            let Some(tenant) = tenant(origin) else { continue };
            is_changed |= origin.hints.tenant != tenant;
            Arc::make_mut(&mut origin.hints).tenant = tenant;
        }
        if !is_changed {
            return;
        }
        let mut bytes = self.bytes[..self.header.origins_offset()].to_vec();
        origins.iter().for_each(|origin| encode_origin(origin, &mut bytes));
        let origins_bytes = (bytes.len() - self.header.origins_offset()) as u32;
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        let body_crc = crc32c::crc32c(&bytes[HEADER_BYTES..]);
        self.bytes = Arc::new(bytes.into());
        self.origins = origins;
        self.set_header(FrameHeader { origins_bytes, body_crc, ..self.header });
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
    pub fn lines(&self) -> FrameLines<'_> {
        FrameLines {
            frame: self,
            run: 0,
            left_in_run: 0,
            offset: HEADER_BYTES,
            run_end: HEADER_BYTES,
            lengths: None,
            index: 0,
        }
    }

    /// Some of the lines, by their indexes, which rise. Those between them are only counted.
    pub fn lines_at<'f>(&'f self, indexes: &'f [u32]) -> impl Iterator<Item = Line<'f>> {
        let mut lines = self.lines();
        indexes.iter().map_while(move |&index| {
            lines.skip_to(index);
            lines.next()
        })
    }

    /// The offset in the frame of each line, ascending.
    pub fn line_offsets(&self) -> Vec<u32> {
        let mut offsets = Vec::with_capacity(self.header.lines as usize);
        let mut lines = self.lines();
        while lines.begin_run() {
            if lines.lengths.is_some() {
                while lines.left_in_run > 0 {
                    offsets.extend(lines.next().map(|line| line.offset));
                }
                continue;
            }
            let (from, to) = (lines.offset, lines.run_end);
            let ends = memchr::memchr_iter(b'\n', &self.bytes[from..to]);
            offsets.push(from as u32);
            offsets.extend(ends.map(|end| (from + end + 1) as u32));
            // Behind the last newline of the run, another run begins.
            offsets.pop();
            lines.skip_to(lines.index + lines.left_in_run);
        }
        offsets
    }
}

/// Iterator over the lines of a frame; made by [`Frame::lines`].
pub struct FrameLines<'a> {
    frame: &'a Frame,
    run: usize,
    left_in_run: u32,
    offset: usize,
    run_end: usize,
    lengths: Option<usize>,
    index: u32,
}

impl FrameLines<'_> {
    /// Goes on to the next run that has lines, if this one has no more. False behind the last one.
    fn begin_run(&mut self) -> bool {
        while self.left_in_run == 0 {
            let Some(run) = self.frame.runs.get(self.run) else { return false };
            self.left_in_run = run.lines;
            self.run_end = self.offset + run.bytes as usize;
            self.lengths = None;
            if run.has_lengths() {
                self.lengths = Some(self.offset);
                self.offset += 4 * run.lines as usize;
            }
            self.run += 1;
        }
        true
    }

    /// Passes over the lines in front of that index.
    fn skip_to(&mut self, index: u32) {
        while self.index < index && self.begin_run() {
            let count = (index - self.index).min(self.left_in_run);
            let bytes = &self.frame.bytes;
            match &mut self.lengths {
                _ if count == self.left_in_run => self.offset = self.run_end,
                Some(at) => {
                    for _ in 0..count {
                        self.offset += u32::from_le_bytes(array(bytes, *at)) as usize + 1;
                        *at += 4;
                    }
                }
                None => {
                    let mut ends = memchr::memchr_iter(b'\n', &bytes[self.offset..self.run_end]);
                    let end = ends.nth(count as usize - 1).expect("checked by decode");
                    self.offset += end + 1;
                }
            }
            self.left_in_run -= count;
            self.index += count;
        }
    }
}

impl<'a> Iterator for FrameLines<'a> {
    type Item = Line<'a>;

    fn next(&mut self) -> Option<Line<'a>> {
        if !self.begin_run() {
            return None;
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
        let has = |flag: u16| run.flags & flag != 0 && self.left_in_run == 0;
        let line = Line {
            index: self.index,
            offset: self.offset as u32,
            bytes: &bytes[self.offset..self.offset + length],
            received_ns: run.received_ns,
            origin: &self.frame.origins[run.origin as usize],
            origin_index: run.origin,
            cut: has(RUN_CUT),
            doubt: Doubt::ALL.into_iter().find(|(_, flag)| has(*flag)).map(|(doubt, _)| doubt),
        };
        self.index += 1;
        self.offset += length + 1;
        Some(line)
    }
}

fn put_run(run: &Run, out: &mut Vec<u8>) {
    out.extend_from_slice(&run.received_ns.to_le_bytes());
    out.extend_from_slice(&run.bytes.to_le_bytes());
    out.extend_from_slice(&run.lines.to_le_bytes());
    out.extend_from_slice(&run.origin.to_le_bytes());
    out.extend_from_slice(&run.flags.to_le_bytes());
    out.extend_from_slice(&[0; 4]);
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

/// Checks that every line is where its run says, so that [`FrameLines`] cannot fail.
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

fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes[at..at + N].try_into().expect("the length is N")
}

#[cfg(test)]
mod tests;
