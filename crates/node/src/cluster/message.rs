//! What nodes say to each other for a query: the request for a share, and the messages that answer
//! it.
//!
//! The request is JSON. The answer is a sequence of messages, each a kind (one byte), a length
//! (four bytes, little-endian) and that many bytes. It begins with [`Message::Hello`] and ends with
//! [`Message::Done`], [`Message::Failed`] or [`Message::RelayFailed`]; an answer that ends
//! otherwise is incomplete. Messages come at least every [`HEARTBEAT`], so that both ends notice
//! soon when the other is gone.

use std::io::{self, Read};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use query::source::{TimeRange, Whose};
use query::{Outcome, Progress, RowKey, Share, SharePiece, Wanted};
use record::LineId;
use serde::{Deserialize, Serialize};

use super::engines::{HiddenLines, LeftOut, Pieces};
use super::trace::TracedRun;

/// The newest version of requests and messages that this program speaks.
const VERSION: u32 = 3;
/// The first version in which a node relays shares to others ([`Relayed`]).
pub const RELAYS_SINCE: u32 = 3;
/// The oldest one. A release speaks the version of the release before, so that nodes can be
/// upgraded one after the other.
const VERSION_MIN: u32 = 2;
/// Builds for tests pretend to speak the versions that this variable has: `3-4`.
#[cfg(debug_assertions)]
const PRETENDED: &str = "LOGINSON_TEST_SHARES";
/// The longest time between two messages.
pub const HEARTBEAT: Duration = Duration::from_millis(50);
/// The longest message that is read. A partial state may be as large as the memory of a query.
const MESSAGE_BYTES_MAX: usize = 1 << 30;
/// The most that the content of a compressed message may take.
const LINES_BYTES_MAX: usize = 256 << 20;
/// Bytes of a message from which on it is compressed.
const COMPRESSED_BYTES_MIN: usize = 512;

/// The versions of requests and messages that a program speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spoken {
    /// The oldest.
    pub min: u32,
    /// The newest.
    pub max: u32,
}

impl Spoken {
    /// The versions of this program.
    pub fn here() -> Spoken {
        #[cfg(debug_assertions)]
        if let Some(pretended) = std::env::var(PRETENDED).ok().and_then(|text| Spoken::parse(&text))
        {
            return pretended;
        }
        Spoken { min: VERSION_MIN, max: VERSION }
    }

    #[cfg(debug_assertions)]
    fn parse(text: &str) -> Option<Spoken> {
        let (min, max) = text.split_once('-')?;
        Some(Spoken { min: min.parse().ok()?, max: max.parse().ok()? })
    }

    /// Whether a version is among them.
    pub fn has(&self, version: u32) -> bool {
        (self.min..=self.max).contains(&version)
    }

    /// The newest version that both speak; none if they have none in common.
    pub fn common(&self, other: &Spoken) -> Option<u32> {
        let newest = self.max.min(other.max);
        (newest >= self.min.max(other.min)).then_some(newest)
    }
}

impl std::fmt::Display for Spoken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.min == self.max {
            true => write!(f, "version {}", self.max),
            false => write!(f, "versions {} to {}", self.min, self.max),
        }
    }
}

/// What is read of a request before its version is known.
#[derive(Deserialize)]
pub struct ShareHead {
    /// The version of the request.
    pub version: u32,
}

/// The request for a share.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShareRequest {
    /// The version of the request, and of the messages that answer it.
    pub version: u32,
    /// The query, or the id of a line, or numbers of frames.
    pub query: String,
    /// What is sent: `state`, `newest`, `ordered`, `lines`, `line` for the line of an id, or
    /// `frames` for all lines of some frames.
    pub wanted: String,
    /// Event times, nanoseconds since 1970 UTC.
    pub start_ns: i64,
    /// The first instant that is not read.
    pub end_ns: i64,
    /// Whether Loginson's own lines are read too.
    pub own: bool,
    /// Most rows.
    pub limit: Option<usize>,
    /// Whether the oldest units are read first.
    pub oldest_first: bool,
    /// The row behind which rows are wanted.
    pub after: Option<(i64, String)>,
    /// Hidden fields that rows carry.
    pub include: Vec<String>,
    /// How long the share may run.
    pub timeout_ms: u64,
    /// Whether the answer may be without lines that cannot be read; it then names them.
    #[serde(default)]
    pub may_leave_out: bool,
    /// What is read; none: the lines of the node's own store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pieces: Option<Pieces>,
    /// The shares that the node asks others for, in place of one of its own; it merges what they
    /// answer. Since [`RELAYS_SINCE`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub relayed: Option<Relayed>,
}

/// Shares that a node asks others for, on behalf of the node that answers the query.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Relayed {
    /// The shares.
    pub shares: Vec<RelayedShare>,
    /// The deletions of all of them, which their pieces do not have.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hidden: Vec<HiddenLines>,
}

/// A share that a node asks another one for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RelayedShare {
    /// The address of the other node, as the catalog has it.
    pub address: String,
    /// What it reads.
    pub pieces: Pieces,
}

/// What became of a share that a node asked another one for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RelayedRun {
    /// The address of the node that was asked first.
    pub address: String,
    /// What it took.
    pub run: TracedRun,
}

/// A node that did not do its share, as the node tells that asked it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RelayedFailure {
    /// Its address.
    pub address: String,
    /// See [`NodeError`](super::NodeError).
    pub is_away: bool,
    /// See [`NodeError`](super::NodeError).
    pub is_stale: bool,
    /// Why, as a sentence with its name.
    pub message: String,
}

/// The name of what a share sends.
fn name(wanted: Wanted) -> &'static str {
    match wanted {
        Wanted::State => "state",
        Wanted::NewestRows => "newest",
        Wanted::OrderedRows => "ordered",
        Wanted::Lines => "lines",
    }
}

impl ShareRequest {
    /// The request for a share.
    pub fn new(share: &Share, timeout: Duration) -> ShareRequest {
        ShareRequest {
            version: Spoken::here().max,
            query: share.query.clone(),
            wanted: name(share.wanted).to_owned(),
            start_ns: share.range.start_ns,
            end_ns: share.range.end_ns,
            own: share.whose == Whose::All,
            limit: share.limit,
            oldest_first: share.oldest_first,
            after: share.after.map(|key| (key.time_ns, key.id.to_string())),
            include: share.include.clone(),
            timeout_ms: u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX),
            may_leave_out: false,
            pieces: None,
            relayed: None,
        }
    }

    /// The request for one line.
    pub fn line(id: LineId, timeout: Duration) -> ShareRequest {
        let share = Share {
            query: id.to_string(),
            wanted: Wanted::Lines,
            range: TimeRange::ALL,
            whose: Whose::All,
            limit: None,
            oldest_first: false,
            after: None,
            include: Vec::new(),
        };
        ShareRequest { wanted: "line".to_owned(), ..ShareRequest::new(&share, timeout) }
    }

    /// The id of the line that is wanted; none where a share is wanted.
    pub fn line_id(&self) -> Option<Result<LineId, String>> {
        let id =
            || self.query.parse().map_err(|_| format!("'{}' is not the id of a line", self.query));
        (self.wanted == "line").then(id)
    }

    /// The request for all lines of a collector's frames with the numbers from `first` to `last`.
    pub fn frames(collector: u32, (first, last): (u64, u64), timeout: Duration) -> ShareRequest {
        let id = LineId { node: collector, sequence: first, line: 0 };
        ShareRequest {
            wanted: "frames".to_owned(),
            query: format!("{collector} {first} {last}"),
            ..ShareRequest::line(id, timeout)
        }
    }

    /// The frames that are wanted; none where a share is wanted.
    pub fn frames_wanted(&self) -> Option<Result<FramesWanted, String>> {
        let read = || {
            let mut numbers = self.query.split(' ');
            let mut next = || numbers.next()?.parse::<u64>().ok();
            let collector = u32::try_from(next()?).ok()?;
            Some(FramesWanted { collector, range: (next()?, next()?) })
        };
        let wrong = || format!("'{}' does not name frames", self.query);
        (self.wanted == "frames").then(|| read().ok_or_else(wrong))
    }

    /// Whether a partial state is wanted, which is there only once all is read.
    pub fn wants_state(&self) -> bool {
        self.wanted == name(Wanted::State)
    }

    /// How long the node that asks lets the share run.
    pub fn timeout(&self) -> Duration {
        Duration::from_millis(self.timeout_ms)
    }

    /// The share. An error says what is wrong.
    pub fn share(&self) -> Result<Share, String> {
        let all = [Wanted::State, Wanted::NewestRows, Wanted::OrderedRows, Wanted::Lines];
        let wanted = all.into_iter().find(|wanted| name(*wanted) == self.wanted);
        let after = self.after.as_ref().map(|(time_ns, id)| {
            let id = id.parse().map_err(|_| format!("'{id}' is not the id of a line"))?;
            Ok::<_, String>(RowKey { time_ns: *time_ns, id })
        });
        Ok(Share {
            query: self.query.clone(),
            wanted: wanted.ok_or_else(|| format!("'{}' cannot be sent", self.wanted))?,
            range: TimeRange { start_ns: self.start_ns, end_ns: self.end_ns },
            whose: if self.own { Whose::All } else { Whose::Sent },
            limit: self.limit,
            oldest_first: self.oldest_first,
            after: after.transpose()?,
            include: self.include.clone(),
        })
    }
}

/// Frames of a collector whose lines are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FramesWanted {
    /// The collector.
    pub collector: u32,
    /// Their first and last number.
    pub range: (u64, u64),
}

/// How far a share is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Bytes of raw lines that will be searched.
    pub bytes_planned: u64,
    /// Bytes of raw lines that were.
    pub bytes_scanned: u64,
    /// Lines read.
    pub lines_scanned: u64,
    /// Frames and blocks to read.
    pub units_planned: u64,
    /// Those that were read or skipped.
    pub units_done: u64,
}

impl Counts {
    /// How far a query is.
    pub fn of(progress: &Progress) -> Counts {
        Counts {
            bytes_planned: progress.bytes_planned.load(Relaxed),
            bytes_scanned: progress.bytes_scanned.load(Relaxed),
            lines_scanned: progress.lines_scanned.load(Relaxed),
            units_planned: progress.units_planned.load(Relaxed),
            units_done: progress.units_done.load(Relaxed),
        }
    }
}

/// A message of an answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Message {
    /// The version of the messages, and which node answers.
    Hello(u32, u32),
    /// How far it is.
    Progress(Counts),
    /// A piece.
    Piece(SharePiece),
    /// All that was left out so far. It comes before the first piece, and again when there is more.
    LeftOut(Vec<LeftOut>),
    /// The share is complete.
    Done(Outcome),
    /// The share failed: an HTTP status, and why.
    Failed(u16, String),
    /// The node relays so many shares. It comes before the first piece.
    Relays(u32),
    /// What became of the relayed shares. It comes before the end.
    Ran(Vec<RelayedRun>),
    /// One of the relayed shares failed, and so has all. In the place of [`Message::Failed`].
    RelayFailed(RelayedFailure),
}

impl Message {
    /// The bytes of the message.
    pub fn encode(&self) -> Vec<u8> {
        let numbers = |numbers: &[u64]| -> Vec<u8> {
            numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
        };
        let (kind, content) = match self {
            Message::Hello(version, node) => {
                (b'H', numbers(&[u64::from(*version), u64::from(*node)]))
            }
            // A node that knows fewer numbers reads the first ones.
            Message::Progress(counts) => (
                b'P',
                numbers(&[
                    counts.bytes_planned,
                    counts.bytes_scanned,
                    counts.lines_scanned,
                    counts.units_planned,
                    counts.units_done,
                ]),
            ),
            Message::Piece(SharePiece::State(state)) => (b'S', packed(&[], state)),
            Message::Piece(SharePiece::Rows(rows)) => (b'R', packed(&[], rows)),
            Message::Piece(SharePiece::Lines(lines, rest_ns)) => {
                let rest = numbers(&[u64::from(rest_ns.is_some()), rest_ns.unwrap_or(0) as u64]);
                (b'L', packed(&rest, lines))
            }
            Message::LeftOut(all) => (b'O', serde_json::to_vec(all).expect("it is plain data")),
            Message::Done(Outcome { lines_scanned, units_skipped, units_gone, .. }) => {
                (b'D', numbers(&[*lines_scanned, *units_skipped, *units_gone]))
            }
            Message::Failed(status, why) => {
                (b'F', [&status.to_le_bytes()[..], why.as_bytes()].concat())
            }
            Message::Relays(shares) => (b'G', numbers(&[u64::from(*shares)])),
            Message::Ran(runs) => (b'T', serde_json::to_vec(runs).expect("it is plain data")),
            Message::RelayFailed(failure) => {
                (b'X', serde_json::to_vec(failure).expect("it is plain data"))
            }
        };
        let mut out = Vec::with_capacity(content.len() + 5);
        out.push(kind);
        out.extend((content.len() as u32).to_le_bytes());
        out.extend(content);
        out
    }

    /// Reads a message.
    ///
    /// Errors: the connection fails or ends; these are not the bytes of a message.
    pub fn read(from: &mut impl Read) -> io::Result<Message> {
        let wrong = || io::Error::new(io::ErrorKind::InvalidData, "it sent something else");
        let mut head = [0; 5];
        from.read_exact(&mut head)?;
        let length = u32::from_le_bytes([head[1], head[2], head[3], head[4]]) as usize;
        if length > MESSAGE_BYTES_MAX {
            return Err(wrong());
        }
        let mut content = Vec::new();
        // The buffer grows as bytes arrive, so a wrong length takes no memory.
        from.take(length as u64).read_to_end(&mut content)?;
        if content.len() < length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Message::decode(head[0], &content).ok_or_else(wrong)
    }

    fn decode(kind: u8, content: &[u8]) -> Option<Message> {
        let number = |index: usize| {
            let bytes = content.get(index * 8..index * 8 + 8)?;
            Some(u64::from_le_bytes(bytes.try_into().expect("as many as taken")))
        };
        Some(match kind {
            b'H' => {
                let (version, node) = (u32::try_from(number(0)?), u32::try_from(number(1)?));
                Message::Hello(version.ok()?, node.ok()?)
            }
            b'P' => Message::Progress(Counts {
                bytes_planned: number(0)?,
                bytes_scanned: number(1)?,
                lines_scanned: number(2)?,
                units_planned: number(3).unwrap_or(0),
                units_done: number(4).unwrap_or(0),
            }),
            b'S' => Message::Piece(SharePiece::State(unpacked(content, MESSAGE_BYTES_MAX)?)),
            b'R' => Message::Piece(SharePiece::Rows(unpacked(content, LINES_BYTES_MAX)?)),
            b'L' => {
                let rest_ns = (number(0)? == 1).then_some(number(1)? as i64);
                let lines = unpacked(content.get(16..)?, LINES_BYTES_MAX)?;
                Message::Piece(SharePiece::Lines(lines, rest_ns))
            }
            b'O' => Message::LeftOut(serde_json::from_slice(content).ok()?),
            b'D' => Message::Done(Outcome {
                lines_scanned: number(0)?,
                units_skipped: number(1)?,
                units_gone: number(2)?,
                ..Outcome::default()
            }),
            b'F' => {
                let (status, why) = content.split_first_chunk::<2>()?;
                let why = String::from_utf8_lossy(why).into_owned();
                Message::Failed(u16::from_le_bytes(*status), why)
            }
            b'G' => Message::Relays(u32::try_from(number(0)?).ok()?),
            b'T' => Message::Ran(serde_json::from_slice(content).ok()?),
            b'X' => Message::RelayFailed(serde_json::from_slice(content).ok()?),
            _ => return None,
        })
    }
}

/// Content behind `head`: its size and whether it is compressed, and the bytes.
fn packed(head: &[u8], content: &[u8]) -> Vec<u8> {
    let compressed = (content.len() >= COMPRESSED_BYTES_MIN)
        .then(|| zstd::bulk::compress(content, 1).ok())
        .flatten()
        .filter(|compressed| compressed.len() < content.len());
    let size = (content.len() as u64) << 1 | u64::from(compressed.is_some());
    let content = compressed.as_deref().unwrap_or(content);
    [head, &size.to_le_bytes(), content].concat()
}

fn unpacked(packed: &[u8], bytes_max: usize) -> Option<Vec<u8>> {
    let (size, content) = packed.split_first_chunk::<8>()?;
    let size = u64::from_le_bytes(*size);
    let (bytes, is_compressed) = (usize::try_from(size >> 1).ok()?, size & 1 == 1);
    if bytes > bytes_max {
        return None;
    }
    let content = match is_compressed {
        true => zstd::bulk::decompress(content, bytes).ok()?,
        false => content.to_vec(),
    };
    (content.len() == bytes).then_some(content)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Vec<Message> {
        vec![
            Message::Hello(2, 0xdead_beef),
            Message::Progress(Counts {
                bytes_planned: 7,
                bytes_scanned: 5,
                lines_scanned: 3,
                units_planned: 2,
                units_done: 1,
            }),
            Message::Piece(SharePiece::State(vec![1; 4_000])),
            Message::Piece(SharePiece::Rows(b"rows".to_vec())),
            Message::Piece(SharePiece::Lines(Vec::new(), None)),
            Message::Piece(SharePiece::Lines(b"lines".to_vec(), Some(-9))),
            Message::LeftOut(vec![LeftOut::Behind { partition: 3, messages: 9 }]),
            Message::Done(Outcome { lines_scanned: 8, ..Outcome::default() }),
            Message::Failed(503, "it is closed".into()),
            Message::Relays(32),
            Message::Ran(vec![RelayedRun {
                address: "http://a:1".into(),
                run: TracedRun { complete: true, lines_scanned: 9, ..TracedRun::default() },
            }]),
            Message::RelayFailed(RelayedFailure {
                address: "http://a:1".into(),
                is_away: true,
                is_stale: false,
                message: "store a is away".into(),
            }),
        ]
    }

    #[test]
    fn messages_arrive_and_each_cut_is_an_error() {
        let bytes: Vec<u8> = all().iter().flat_map(Message::encode).collect();
        let mut rest = &bytes[..];
        for message in all() {
            assert_eq!(Message::read(&mut rest).unwrap(), message);
        }
        assert!(rest.is_empty());
        for message in all() {
            let bytes = message.encode();
            for length in 0..bytes.len() {
                assert!(Message::read(&mut &bytes[..length]).is_err());
            }
            for at in 0..bytes.len().min(40) {
                for bit in 0..8 {
                    let mut damaged = bytes.clone();
                    damaged[at] ^= 1 << bit;
                    // It may be another message, but nothing panics.
                    let _ = Message::read(&mut &damaged[..]);
                }
            }
        }
    }

    #[test]
    fn progress_of_a_node_that_tells_fewer_numbers_is_read() {
        let content: Vec<u8> = [7_u64, 5, 3].into_iter().flat_map(u64::to_le_bytes).collect();
        let counts =
            Counts { bytes_planned: 7, bytes_scanned: 5, lines_scanned: 3, ..Counts::default() };
        assert_eq!(Message::decode(b'P', &content), Some(Message::Progress(counts)));
    }

    #[test]
    fn nodes_speak_the_newest_version_that_both_know() {
        let spoken = |min, max| Spoken { min, max };
        for (a, b, expected) in [
            (spoken(2, 2), spoken(2, 2), Some(2)),
            (spoken(2, 3), spoken(3, 4), Some(3)),
            (spoken(2, 4), spoken(2, 3), Some(3)),
            (spoken(2, 2), spoken(3, 4), None),
        ] {
            assert_eq!((a.common(&b), b.common(&a)), (expected, expected), "{a} {b}");
        }
        assert_eq!(Spoken::parse("3-4"), Some(spoken(3, 4)));
        assert!(spoken(3, 4).has(3) && !spoken(3, 4).has(2) && !spoken(3, 4).has(5));
        assert_eq!(format!("{}, {}", spoken(2, 2), spoken(2, 3)), "version 2, versions 2 to 3");
    }

    #[test]
    fn shares_come_back_from_their_requests() {
        let id = LineId { node: 3, sequence: 4, line: 5 };
        let mut share = Share {
            query: "error | stats count()".into(),
            wanted: Wanted::State,
            range: TimeRange { start_ns: -1, end_ns: i64::MAX },
            whose: Whose::All,
            limit: Some(7),
            oldest_first: true,
            after: Some(RowKey { time_ns: 2, id }),
            include: vec!["_line".into()],
        };
        for wanted in [Wanted::State, Wanted::NewestRows, Wanted::OrderedRows, Wanted::Lines] {
            share.wanted = wanted;
            let request = ShareRequest::new(&share, Duration::from_secs(3));
            let json = serde_json::to_string(&request).unwrap();
            let request: ShareRequest = serde_json::from_str(&json).unwrap();
            assert_eq!(request.share().unwrap(), share);
            assert_eq!(request.line_id(), None);
        }
        let request = ShareRequest::line(id, Duration::from_secs(3));
        assert_eq!(request.line_id(), Some(Ok(id)));
        let request = ShareRequest::frames(u32::MAX, (7, 1 << 47), Duration::from_secs(3));
        let wanted = FramesWanted { collector: u32::MAX, range: (7, 1 << 47) };
        assert_eq!(request.frames_wanted(), Some(Ok(wanted)));
        assert_eq!(request.line_id(), None);
        let wrong = ShareRequest { wanted: "all".into(), ..request };
        assert!(wrong.share().unwrap_err().contains("cannot be sent"));
    }
}
