//! The messages between a collector and a store, byte by byte (see the diagrams in
//! `docs/format/node-protocol.md`).
//!
//! ```text
//! collector                               store
//!   hello: who it is, a nonce        →
//!                                    ←     welcome: which store it is, a nonce
//!   start: its least number, a proof →
//!                                    ←     held: the numbers it has already, a proof
//!   frame, frame, …                  →
//!                                    ←     ack: so many of them are durable
//! ```
//!
//! No frame is taken before the start message: an unauthenticated peer only uses memory for a
//! greeting.
//!
//! Either side may end the connection at any time; a store sends the reason in a refusal. All
//! numbers are little-endian, all checksums CRC32C.

use record::frame::{FRAME_MAGIC, FrameHeader, HEADER_BYTES};
use record::{Frame, FrameError, NodeIdentity};

use super::secret::{NONCE_BYTES, Nonce, PROOF_BYTES, Proof};

/// Version of the protocol. Version 1 had no secret.
pub const NODE_PROTOCOL_VERSION: u16 = 2;
/// Bytes of hello and welcome.
pub const GREETING_BYTES: usize = 64;
/// Bytes of ack and keepalive.
pub const NOTE_BYTES: usize = 24;
/// Bytes of start and held.
pub const PROVEN_BYTES: usize = NOTE_BYTES + PROOF_BYTES;
/// The greatest number of a frame. A collector does not reach it in a thousand years.
pub const NUMBER_MAX: u64 = 1 << 48;
/// Upper limit on the starts of a collector: at one per second, this lasts 30,000 years.
pub const STARTS_MAX: u64 = 1 << 40;
/// The longest text of a refusal; a longer text is cut.
const REFUSAL_TEXT_MAX: usize = 1000;
const REFUSAL_BYTES: usize = 12;

const HELLO: [u8; 4] = *b"LGNH";
const WELCOME: [u8; 4] = *b"LGNW";
const START: [u8; 4] = *b"LGNS";
const HELD: [u8; 4] = *b"LGNT";
const ACK: [u8; 4] = *b"LGNA";
const KEEPALIVE: [u8; 4] = *b"LGNK";
const REFUSAL: [u8; 4] = *b"LGNR";

/// What a side states about its authentication.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Guarded {
    /// Whether it has a secret.
    pub has_secret: bool,
    /// Its nonce; meaningless without a secret.
    pub nonce: Nonce,
}

/// Whether a store takes lines at present.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum StoreHealth {
    /// It takes lines.
    Ok = 0,
    /// Its disk is full; frames wait.
    DiskFull = 1,
    /// It cannot write for another reason; frames wait.
    Failing = 2,
}

/// A message from a collector.
#[derive(Debug, PartialEq)]
pub enum ToStore {
    /// The collector's identity; the first message.
    Hello {
        /// The identity.
        identity: NodeIdentity,
        /// Whether the collector will prove that it knows the secret.
        guarded: Guarded,
    },
    /// The least number it may still send to this store; the second message.
    Start {
        /// The number.
        first: u64,
        /// Proof that the collector knows the secret.
        proof: Proof,
    },
    /// A frame; its header has the node and the number.
    Frame(Box<Frame>),
    /// A keep-alive message.
    Keepalive,
}

/// A message from a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToCollector {
    /// The store's identity.
    Welcome {
        /// Its node id.
        store: u32,
        /// Whether the store will prove that it knows the secret.
        guarded: Guarded,
    },
    /// The frames the store has already: all numbers from the one of the start through `through`,
    /// which is one less than the start's number if there are none.
    Held {
        /// The last number.
        through: u64,
        /// Proof that the store knows the secret.
        proof: Proof,
    },
    /// Acknowledges frames of this connection, counted from its beginning.
    Ack {
        /// How many frames are durable.
        frames: u64,
        /// Whether the store takes more frames.
        health: StoreHealth,
    },
    /// The store ends the connection.
    Refusal {
        /// The reason.
        text: String,
    },
}

/// Why bytes violate the protocol.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum WireError {
    /// The first bytes are those of another protocol.
    #[error("{0}")]
    WrongSpeaker(&'static str),
    /// Another version.
    #[error(
        "the other side speaks version {0} of the node protocol, this program version {NODE_PROTOCOL_VERSION}; \
         bring both to the same release"
    )]
    Version(u16),
    /// Bytes changed on the way.
    #[error("a message of the node protocol arrived damaged (checksum)")]
    Checksum,
    /// An invalid frame.
    #[error("a frame arrived damaged: {0}")]
    Frame(#[from] FrameError),
    /// An unexpected or unknown message.
    #[error("the other side violates the node protocol: {0}")]
    Order(&'static str),
    /// The collector has no secret, and the store has.
    #[error(
        "this store takes frames only from collectors that know its secret, and this collector has none; \
         give the collector the same \
         node_secret_file (or LOGINSON_NODE_SECRET) as the store"
    )]
    NoSecret,
    /// The collector has a secret, and the store has none.
    #[error(
        "the collector has a node secret, but this store has none and cannot prove that it is the \
         right one; give the store the same \
         node_secret_file (or LOGINSON_NODE_SECRET) as the collector"
    )]
    NoSecretOfStore,
    /// The secrets differ.
    #[error(
        "the secret of the collector is not that of this store; give both the same \
         node_secret_file (or LOGINSON_NODE_SECRET)"
    )]
    WrongSecret,
    /// The store does not know the secret.
    #[error(
        "the store does not know the node secret of this collector; give both the same \
         node_secret_file (or \
         LOGINSON_NODE_SECRET), or name another store"
    )]
    WrongSecretOfStore,
}

impl WireError {
    /// Whether authentication failed.
    pub fn is_of_secret(&self) -> bool {
        use WireError::*;
        matches!(self, NoSecret | NoSecretOfStore | WrongSecret | WrongSecretOfStore)
    }
}

const HAS_SECRET: u16 = 1;

fn greeting(
    magic: [u8; 4],
    node: u32,
    numbers: [u64; 3],
    guarded: &Guarded,
) -> [u8; GREETING_BYTES] {
    let mut out = [0; GREETING_BYTES];
    out[0..4].copy_from_slice(&magic);
    out[4..6].copy_from_slice(&NODE_PROTOCOL_VERSION.to_le_bytes());
    let flags = if guarded.has_secret { HAS_SECRET } else { 0 };
    out[6..8].copy_from_slice(&flags.to_le_bytes());
    out[40..40 + NONCE_BYTES].copy_from_slice(&guarded.nonce);
    out[8..12].copy_from_slice(&node.to_le_bytes());
    for (field, number) in out[16..40].chunks_exact_mut(8).zip(numbers) {
        field.copy_from_slice(&number.to_le_bytes());
    }
    let crc = crc32c::crc32c(&out[..60]);
    out[60..64].copy_from_slice(&crc.to_le_bytes());
    out
}

/// Node, numbers and the rest of a greeting.
fn read_greeting(bytes: &[u8]) -> Result<(u32, [u64; 3], Guarded), WireError> {
    // The version is checked first: another version may place its checksum elsewhere.
    let version = u16::from_le_bytes(array(bytes, 4));
    if version != NODE_PROTOCOL_VERSION {
        return Err(WireError::Version(version));
    }
    if crc32c::crc32c(&bytes[..60]).to_le_bytes() != bytes[60..64] {
        return Err(WireError::Checksum);
    }
    let number = |at| u64::from_le_bytes(array(bytes, at));
    let has_secret = u16::from_le_bytes(array(bytes, 6)) & HAS_SECRET != 0;
    let guarded = Guarded { has_secret, nonce: array(bytes, 40) };
    Ok((u32::from_le_bytes(array(bytes, 8)), [number(16), number(24), number(32)], guarded))
}

fn note(magic: [u8; 4], first: u64, second: u64) -> [u8; NOTE_BYTES] {
    let mut out = [0; NOTE_BYTES];
    out[0..4].copy_from_slice(&magic);
    out[8..16].copy_from_slice(&first.to_le_bytes());
    out[16..24].copy_from_slice(&second.to_le_bytes());
    let crc = crc32c::crc32c(&out[8..]);
    out[4..8].copy_from_slice(&crc.to_le_bytes());
    out
}

fn read_note(bytes: &[u8]) -> Result<(u64, u64), WireError> {
    if crc32c::crc32c(&bytes[8..NOTE_BYTES]).to_le_bytes() != bytes[4..8] {
        return Err(WireError::Checksum);
    }
    Ok((u64::from_le_bytes(array(bytes, 8)), u64::from_le_bytes(array(bytes, 16))))
}

/// A note with a proof.
fn proven(magic: [u8; 4], number: u64, proof: &Proof) -> [u8; PROVEN_BYTES] {
    let mut out = [0; PROVEN_BYTES];
    out[0..4].copy_from_slice(&magic);
    out[8..16].copy_from_slice(&number.to_le_bytes());
    out[NOTE_BYTES..].copy_from_slice(proof);
    let crc = crc32c::crc32c(&out[8..]);
    out[4..8].copy_from_slice(&crc.to_le_bytes());
    out
}

fn read_proven(bytes: &[u8]) -> Result<(u64, Proof), WireError> {
    if crc32c::crc32c(&bytes[8..PROVEN_BYTES]).to_le_bytes() != bytes[4..8] {
        return Err(WireError::Checksum);
    }
    Ok((u64::from_le_bytes(array(bytes, 8)), array(bytes, NOTE_BYTES)))
}

/// A hello.
pub fn hello(identity: &NodeIdentity, guarded: &Guarded) -> [u8; GREETING_BYTES] {
    greeting(HELLO, identity.node, [identity.key, identity.starts, identity.run], guarded)
}

/// A welcome.
pub fn welcome(store: u32, guarded: &Guarded) -> [u8; GREETING_BYTES] {
    greeting(WELCOME, store, [0; 3], guarded)
}

/// A start.
pub fn start(first: u64, proof: &Proof) -> [u8; PROVEN_BYTES] {
    proven(START, first, proof)
}

/// A keepalive.
pub fn keepalive() -> [u8; NOTE_BYTES] {
    note(KEEPALIVE, 0, 0)
}

impl ToCollector {
    /// The encoded message.
    pub fn encode(&self) -> Vec<u8> {
        match self {
            ToCollector::Welcome { store, guarded } => welcome(*store, guarded).to_vec(),
            ToCollector::Held { through, proof } => proven(HELD, *through, proof).to_vec(),
            ToCollector::Ack { frames, health } => note(ACK, *frames, *health as u64).to_vec(),
            ToCollector::Refusal { text } => {
                let end = text.floor_char_boundary(REFUSAL_TEXT_MAX);
                let text = &text.as_bytes()[..end];
                let mut out = REFUSAL.to_vec();
                out.extend_from_slice(&crc32c::crc32c(text).to_le_bytes());
                out.extend_from_slice(&(text.len() as u32).to_le_bytes());
                out.extend_from_slice(text);
                out
            }
        }
    }
}

/// Parses the stream from a collector. Bytes are read directly to where a frame stays: append at
/// most [`wanted`](Self::wanted) bytes to [`buffer`](Self::buffer), then call [`take`](Self::take).
#[derive(Debug, Default)]
pub struct StoreReader {
    buffer: Vec<u8>,
    /// Length of the message, as far as it is known; 0 before its first byte.
    target: usize,
    /// Whether the collector may send frames.
    takes_frames: bool,
}

impl StoreReader {
    /// The buffer to append bytes to.
    pub fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.buffer
    }

    /// From now on frames are accepted.
    pub fn take_frames(&mut self) {
        self.takes_frames = true;
    }

    /// Length of the frame that is being read, once its header is there; otherwise 0.
    pub fn frame_bytes(&self) -> usize {
        if self.target > HEADER_BYTES { self.target } else { 0 }
    }

    /// How many bytes may be appended now; at least one.
    pub fn wanted(&self) -> usize {
        self.target.max(NOTE_BYTES) - self.buffer.len()
    }

    /// The message, if it is complete now.
    pub fn take(&mut self) -> Result<Option<ToStore>, WireError> {
        if self.target == 0 {
            let Some(magic) = self.buffer.first_chunk() else { return Ok(None) };
            self.target = match *magic {
                FRAME_MAGIC if self.takes_frames => HEADER_BYTES,
                KEEPALIVE if self.takes_frames => NOTE_BYTES,
                HELLO if !self.takes_frames => GREETING_BYTES,
                START if !self.takes_frames => PROVEN_BYTES,
                FRAME_MAGIC | KEEPALIVE | HELLO | START => {
                    return Err(WireError::Order("a message came out of turn"));
                }
                _ => return Err(WireError::WrongSpeaker(guess_client(&self.buffer))),
            };
        }
        if self.buffer.len() < self.target {
            return Ok(None);
        }
        if self.buffer.starts_with(&FRAME_MAGIC) && self.target == HEADER_BYTES {
            self.target = FrameHeader::decode(&self.buffer)?.frame_bytes();
            if self.buffer.len() < self.target {
                self.buffer.reserve_exact(self.target - self.buffer.len());
                return Ok(None);
            }
        }
        let bytes = std::mem::take(&mut self.buffer);
        self.target = 0;
        let message = match array(&bytes, 0) {
            HELLO => {
                let (node, [key, starts, run], guarded) = read_greeting(&bytes)?;
                if starts > STARTS_MAX {
                    return Err(WireError::Order("more starts than a collector can have had"));
                }
                ToStore::Hello { identity: NodeIdentity { node, key, starts, run }, guarded }
            }
            START => {
                let (first, proof) = read_proven(&bytes)?;
                ToStore::Start { first, proof }
            }
            KEEPALIVE => {
                read_note(&bytes)?;
                ToStore::Keepalive
            }
            _ => ToStore::Frame(Box::new(Frame::decode(bytes)?)),
        };
        Ok(Some(message))
    }
}

/// Parses the stream from a store.
#[derive(Debug, Default)]
pub struct CollectorReader {
    buffer: Vec<u8>,
}

impl CollectorReader {
    /// Adds received bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// The next message, if it is complete.
    pub fn take(&mut self) -> Result<Option<ToCollector>, WireError> {
        let Some(magic) = self.buffer.first_chunk::<4>().copied() else { return Ok(None) };
        let bytes = match magic {
            WELCOME => GREETING_BYTES,
            HELD => PROVEN_BYTES,
            ACK => NOTE_BYTES,
            REFUSAL if self.buffer.len() < REFUSAL_BYTES => return Ok(None),
            REFUSAL => {
                let text = u32::from_le_bytes(array(&self.buffer, 8)) as usize;
                if text > REFUSAL_TEXT_MAX {
                    return Err(WireError::Order("a refusal is too long"));
                }
                REFUSAL_BYTES + text
            }
            _ => return Err(WireError::WrongSpeaker(guess_server(&self.buffer))),
        };
        if self.buffer.len() < bytes {
            return Ok(None);
        }
        let message: Vec<u8> = self.buffer.drain(..bytes).collect();
        let message = match magic {
            WELCOME => {
                let (store, _, guarded) = read_greeting(&message)?;
                ToCollector::Welcome { store, guarded }
            }
            HELD => {
                let (through, proof) = read_proven(&message)?;
                ToCollector::Held { through, proof }
            }
            ACK => {
                let (frames, health) = read_note(&message)?;
                let health = match health {
                    0 => StoreHealth::Ok,
                    1 => StoreHealth::DiskFull,
                    _ => StoreHealth::Failing,
                };
                ToCollector::Ack { frames, health }
            }
            _ => {
                let text = &message[REFUSAL_BYTES..];
                if crc32c::crc32c(text).to_le_bytes() != message[4..8] {
                    return Err(WireError::Checksum);
                }
                ToCollector::Refusal { text: String::from_utf8_lossy(text).into_owned() }
            }
        };
        Ok(Some(message))
    }
}

/// Whether these are the first bytes of an HTTP request.
pub fn is_http_request(bytes: &[u8]) -> bool {
    const METHODS: [&[u8]; 7] = [b"GET ", b"POST", b"PUT ", b"HEAD", b"OPTI", b"DELE", b"PRI "];
    METHODS.iter().any(|method| bytes.starts_with(method))
}

fn guess_client(bytes: &[u8]) -> &'static str {
    match bytes {
        [0x16, 3, ..] => {
            "a client speaks TLS to node_listen, which takes frames of `loginson collect` without TLS"
        }
        bytes if is_http_request(bytes) => {
            "a client speaks HTTP to node_listen, which takes frames of `loginson collect`; HTTP is at http_listen"
        }
        [b'<' | b'0'..=b'9' | b'{', ..] => {
            "a client sends log lines to node_listen, which takes frames of `loginson collect`; syslog is at syslog_tcp_listen"
        }
        _ => {
            "a client of another protocol connected to node_listen, which takes frames of `loginson collect`"
        }
    }
}

fn guess_server(bytes: &[u8]) -> &'static str {
    match bytes {
        [b'H', b'T', b'T', b'P', ..] => {
            "the peer is an HTTP server; configure the address of node_listen (port 9515), not that of http_listen"
        }
        _ => {
            "the peer is not a Loginson store; configure the address of a store's node_listen (port 9515)"
        }
    }
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes[at..at + N].try_into().expect("the length is N")
}

#[cfg(test)]
mod tests {
    use record::{Format, FrameBuilder, Origin, Transport};

    use super::*;

    fn frame(number: u64) -> Frame {
        let mut builder = FrameBuilder::new();
        let origin = Origin::new(Transport::SyslogTcp, Format::Syslog, None);
        builder.push_lines(&origin, 1, b"one\ntwo\n");
        builder.finish(7, number).unwrap()
    }

    const GUARDED: Guarded = Guarded { has_secret: true, nonce: [9; NONCE_BYTES] };

    fn read_all(mut bytes: &[u8], step: usize) -> Result<Vec<ToStore>, WireError> {
        let mut reader = StoreReader::default();
        let mut messages = Vec::new();
        if bytes.starts_with(&FRAME_MAGIC) {
            reader.take_frames();
        }
        while !bytes.is_empty() {
            let part = reader.wanted().min(step).min(bytes.len());
            reader.buffer().extend_from_slice(&bytes[..part]);
            bytes = &bytes[part..];
            messages.extend(reader.take()?);
            if matches!(messages.last(), Some(ToStore::Start { .. })) {
                reader.take_frames();
            }
        }
        Ok(messages)
    }

    #[test]
    fn messages_come_back_however_they_are_cut() {
        let identity = NodeIdentity { node: 7, key: u64::MAX, starts: 3, run: 9 };
        let mut bytes = hello(&identity, &GUARDED).to_vec();
        bytes.extend_from_slice(&start(5, &[3; PROOF_BYTES]));
        bytes.extend_from_slice(frame(5).bytes());
        bytes.extend_from_slice(&keepalive());
        bytes.extend_from_slice(frame(6).bytes());
        let expected = [
            ToStore::Hello { identity, guarded: GUARDED },
            ToStore::Start { first: 5, proof: [3; PROOF_BYTES] },
            ToStore::Frame(Box::new(frame(5))),
            ToStore::Keepalive,
            ToStore::Frame(Box::new(frame(6))),
        ];
        for step in [1, 3, 24, 1000] {
            assert_eq!(read_all(&bytes, step).unwrap(), expected, "{step}");
        }
        let replies = [
            ToCollector::Welcome { store: 3, guarded: GUARDED },
            ToCollector::Held { through: 4, proof: [5; PROOF_BYTES] },
            ToCollector::Ack { frames: 9, health: StoreHealth::DiskFull },
            ToCollector::Refusal { text: "ü".repeat(500) },
        ];
        let bytes: Vec<u8> = replies.iter().flat_map(ToCollector::encode).collect();
        for step in [1, 7, 10_000] {
            let mut reader = CollectorReader::default();
            let mut found = Vec::new();
            for part in bytes.chunks(step) {
                reader.push(part);
                while let Some(message) = reader.take().unwrap() {
                    found.push(message);
                }
            }
            assert_eq!(found, replies);
        }
        let long = ToCollector::Refusal { text: "ü".repeat(501) }.encode();
        assert_eq!(long.len(), REFUSAL_BYTES + REFUSAL_TEXT_MAX);
    }

    #[test]
    fn each_changed_byte_is_noticed() {
        let identity = NodeIdentity { node: 7, key: 1, starts: 3, run: 9 };
        let start = start(5, &[3; PROOF_BYTES]);
        for message in [&hello(&identity, &GUARDED)[..], &start, frame(5).bytes()] {
            let expected = || read_all(message, 1 << 20).unwrap();
            for at in 0..message.len() {
                let mut changed = message.to_vec();
                changed[at] ^= 0x20;
                // The checksum also covers a greeting's padding; a longer frame is not complete.
                assert_ne!(read_all(&changed, 1 << 20).ok(), Some(expected()), "{at}");
            }
        }
    }

    #[test]
    fn wrong_speakers_and_versions_are_named() {
        let check = |bytes: &[u8], expected: &str| {
            let error = read_all(bytes, 1 << 20).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        };
        check(b"GET / HTTP/1.1\r\n\r\n", "http_listen");
        check(b"<13>Oct 11 22:14:15 host app: hello\n", "syslog_tcp_listen");
        check(b"\x16\x03\x01\x02\x00\x01", "TLS");
        check(b"SSH-2.0-OpenSSH_9", "another protocol");
        let identity = NodeIdentity { node: 1, key: 1, starts: 1, run: 1 };
        let mut other = hello(&identity, &GUARDED);
        other[4] = 9;
        check(&other, "version 9");
        check(&hello(&NodeIdentity { starts: u64::MAX, ..identity }, &GUARDED), "more starts");
        let mut reader = CollectorReader::default();
        reader.push(b"HTTP/1.1 400 Bad Request\r\n");
        assert!(reader.take().unwrap_err().to_string().contains("node_listen (port 9515)"));
    }

    #[test]
    fn nothing_but_a_greeting_is_read_before_one() {
        for early in [frame(1).bytes(), &keepalive()] {
            let mut reader = StoreReader::default();
            reader.buffer().extend_from_slice(&early[..4]);
            let error = reader.take().unwrap_err();
            assert_eq!(error, WireError::Order("a message came out of turn"));
        }
        let mut reader = StoreReader::default();
        let mut hello = &hello(&NodeIdentity { node: 1, key: 1, starts: 1, run: 1 }, &GUARDED)[..];
        while reader.take().unwrap().is_none() {
            assert!(reader.wanted() <= GREETING_BYTES);
            let part;
            (part, hello) = hello.split_at(reader.wanted());
            reader.buffer().extend_from_slice(part);
        }
        assert_eq!((hello, reader.frame_bytes()), (&[][..], 0));
    }
}
