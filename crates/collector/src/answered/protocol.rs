//! What a protocol adds to [`answered`](super): how messages are taken apart, and what is answered.

use record::frame::LINE_BYTES_MAX;

/// Lines that are handed on at once. A protocol writes no more in one [`Step`], save for a single
/// longer line.
pub const PIECE_BYTES: usize = 256 << 10;

/// The receiver's side of a protocol, without I/O and clock. What it makes of a stream of bytes
/// does not depend on how the stream was split.
pub trait Protocol: Send {
    /// What is sent to a new connection before it says anything.
    fn greeting(&mut self) -> Vec<u8> {
        Vec::new()
    }

    /// Takes bytes from the front of `input`, and writes lines and answers. It writes lines up to
    /// about [`PIECE_BYTES`], and is then called again.
    ///
    /// Errors: the bytes are none of the protocol. The lines and answers written before count.
    fn step(&mut self, input: &mut Input, out: &mut Output) -> Result<Step, Wrong>;

    /// An answer that makes a sender go on waiting while its lines are not durable yet.
    fn still_waiting(&self) -> Option<Vec<u8>> {
        None
    }

    /// Whether the sender has begun to speak this protocol: what comes first may be another one.
    fn has_begun(&self) -> bool;
}

/// What comes after a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The input holds no further whole message.
    NeedsBytes,
    /// There may be more.
    More,
    /// The connection ends once all is answered.
    End,
}

/// Why a connection cannot go on: what its sender did, and the remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong(pub String);

impl Wrong {
    /// For a reason that is known beforehand.
    pub fn new(reason: &str) -> Wrong {
        Wrong(reason.to_owned())
    }
}

/// Bytes that arrived and were not taken.
#[derive(Default)]
pub struct Input {
    bytes: Vec<u8>,
    /// Those before were taken.
    from: usize,
}

impl Input {
    /// The bytes.
    pub fn rest(&self) -> &[u8] {
        &self.bytes[self.from..]
    }

    /// Takes bytes from the front.
    ///
    /// # Panics
    /// When there are fewer.
    pub fn consume(&mut self, bytes: usize) {
        self.from += bytes;
        assert!(self.from <= self.bytes.len(), "more was taken than there is");
        if self.from == self.bytes.len() {
            self.bytes.clear();
            self.from = 0;
        }
    }

    /// Takes bytes from the front, as a value of their own.
    pub fn take(&mut self, bytes: usize) -> Vec<u8> {
        if self.from == 0 && self.bytes.len() == bytes {
            return std::mem::take(&mut self.bytes);
        }
        let taken = self.rest()[..bytes].to_vec();
        self.consume(bytes);
        taken
    }

    /// Adds bytes at the end.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.from > self.bytes.len() / 2 {
            self.bytes.drain(..self.from);
            self.from = 0;
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// Returns memory that a long message needed.
    pub(super) fn shrink(&mut self) {
        if self.bytes.is_empty() {
            self.bytes = Vec::new();
        }
    }
}

/// What a protocol makes of its input.
#[derive(Debug, Default)]
pub struct Output {
    /// Whole lines, each with its newline.
    pub lines: Vec<u8>,
    /// A record behind these lines that contains newlines.
    pub record: Option<Vec<u8>>,
    /// Answers that are sent once all of that is durable, and all before.
    pub answers: Vec<u8>,
    /// Records that are not kept, and their bytes.
    pub rejected: (u64, u64),
}

impl Output {
    /// Whether it should be handed on before more is written.
    pub fn is_full(&self) -> bool {
        self.lines.len() >= PIECE_BYTES || self.record.is_some()
    }

    /// Adds a line, which may contain newlines. It is cut far behind the length at which its
    /// keeper cuts it.
    pub fn push(&mut self, line: &[u8]) {
        let line = &line[..line.len().min(2 * LINE_BYTES_MAX)];
        if memchr::memchr(b'\n', line).is_some() {
            self.record = Some(line.to_vec());
            return;
        }
        self.lines.extend_from_slice(line);
        self.lines.push(b'\n');
    }
}
