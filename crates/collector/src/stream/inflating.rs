//! A connection that may be compressed as a whole: rsyslog with `compression.mode="stream:always"`
//! sends one zlib stream, and pygelf with `compress` one for each message, with NULs between.
//!
//! Its first bytes tell. A connection that is not compressed is read as if this were not there.
//!
//! Invariants: a read returns at most what its buffer holds, whatever the ratio of compression, so
//! turns stay as long as those of other connections; lines do not depend on how the stream was cut.
//! Limits: [`COMPRESSED_MAX`] connections at a time, each with about 110 KiB.
//!
//! Left out: recognising a stream by a first read of one or two bytes, which no sender makes; such
//! a connection is refused with the remedy.

use std::fmt;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use flate2::{Decompress, FlushDecompress, Status};
use mio::Interest;
use mio::net::TcpStream;
use record::framing::foreign::{Foreign, Recognised, recognise};

use super::Stream;
use super::receiver::READ_BYTES_MIN;

/// Compressed connections of syslog at a time.
///
/// limits.md, Lines on their way in: compressed connections of syslog over TCP and TLS | {} | a
/// further one is refused, and the log names its sender and the setting that turns compression off
const COMPRESSED_MAX: usize = 256;

/// How many there are.
static COMPRESSED: AtomicUsize = AtomicUsize::new(0);

/// The compressed data of a connection cannot be read.
#[derive(Debug)]
pub(super) struct Damaged;

impl fmt::Display for Damaged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("its compressed data are damaged")
    }
}

impl std::error::Error for Damaged {}

impl Damaged {
    pub(super) fn is(error: &io::Error) -> bool {
        error.get_ref().is_some_and(|inner| inner.is::<Damaged>())
    }
}

fn damaged() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, Damaged)
}

/// A stream, decompressed if it is compressed.
pub(super) struct Inflating<S> {
    inner: S,
    state: State,
}

enum State {
    /// Nothing was read yet.
    Fresh,
    Plain,
    Compressed(Box<Inflater>),
}

impl<S: Stream> Inflating<S> {
    pub(super) fn new(inner: S) -> Inflating<S> {
        Inflating { inner, state: State::Fresh }
    }
}

impl<S: Stream> Stream for Inflating<S> {
    const HAS_HANDSHAKE: bool = S::HAS_HANDSHAKE;

    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if let State::Fresh = self.state {
            let bytes = self.inner.read(into)?;
            let inflater = is_compressed(&into[..bytes]).then(|| Inflater::new(&into[..bytes]));
            let Some(mut inflater) = inflater.flatten() else {
                self.state = State::Plain;
                return Ok(bytes);
            };
            inflater.has_more = self.inner.has_more(bytes, into.len());
            self.state = State::Compressed(Box::new(inflater));
        }
        match &mut self.state {
            State::Compressed(inflater) => inflater.fill(into, |input| {
                let bytes = self.inner.read(input)?;
                Ok((bytes, self.inner.has_more(bytes, input.len())))
            }),
            _ => self.inner.read(into),
        }
    }

    fn has_more(&self, bytes: usize, asked: usize) -> bool {
        match &self.state {
            // Damage behind the last bytes is told by the next read, whether more arrives or not.
            State::Compressed(inflater) => {
                bytes == asked || inflater.has_more || inflater.is_damaged
            }
            _ => self.inner.has_more(bytes, asked),
        }
    }

    fn socket(&mut self) -> &mut TcpStream {
        self.inner.socket()
    }

    fn interest(&self) -> Interest {
        self.inner.interest()
    }

    fn answer(&mut self, answer: &[u8]) {
        self.inner.answer(answer);
    }

    fn is_established(&self) -> bool {
        self.inner.is_established()
    }
}

/// Whether a connection that begins so is a zlib stream.
fn is_compressed(first: &[u8]) -> bool {
    // rsyslog puts a `z` before a single compressed message.
    first.starts_with(b"x") && recognise(first) == Recognised::Foreign(Foreign::Zlib)
}

/// The decompressor of a connection.
struct Inflater {
    inflate: Decompress,
    /// What was read; what is left of it begins at `at`.
    input: Vec<u8>,
    at: usize,
    /// Whether a stream has ended, and none has begun since.
    is_between: bool,
    /// Whether the connection may have more than was read.
    has_more: bool,
    /// What is left of the input cannot be read.
    is_damaged: bool,
}

impl Inflater {
    /// A decompressor that begins with these bytes; `None` beyond [`COMPRESSED_MAX`].
    fn new(first: &[u8]) -> Option<Inflater> {
        let take = |count| (count < COMPRESSED_MAX).then_some(count + 1);
        COMPRESSED.fetch_update(Relaxed, Relaxed, take).ok()?;
        Some(Inflater {
            inflate: Decompress::new(true),
            input: first.to_vec(),
            at: 0,
            is_between: false,
            has_more: false,
            is_damaged: false,
        })
    }

    /// Decompresses into `into`, and reads on when there is nothing left to decompress. `read` also
    /// tells whether there may be more. Returns as [`Stream::read`] does.
    fn fill(
        &mut self,
        into: &mut [u8],
        mut read: impl FnMut(&mut [u8]) -> io::Result<(usize, bool)>,
    ) -> io::Result<usize> {
        loop {
            let filled = self.inflate(into)?;
            if filled > 0 {
                return Ok(filled);
            }
            // The first read may have been a larger one.
            if self.input.len() != READ_BYTES_MIN {
                self.input = vec![0; READ_BYTES_MIN];
            }
            self.at = READ_BYTES_MIN;
            let (bytes, has_more) = read(&mut self.input)?;
            self.has_more = has_more;
            if bytes == 0 {
                return Ok(0);
            }
            self.input.copy_within(..bytes, READ_BYTES_MIN - bytes);
            self.at = READ_BYTES_MIN - bytes;
        }
    }

    /// Decompresses what was read, as far as `into` has room. Returns how many bytes that is. An
    /// error comes only once all bytes before the damage were returned.
    fn inflate(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        if self.is_damaged {
            return Err(damaged());
        }
        while filled < into.len() {
            let input = &self.input[self.at..];
            if self.is_between {
                match input {
                    [] => break,
                    // Ends a message of GELF.
                    [0, ..] => {
                        into[filled] = 0;
                        (filled, self.at) = (filled + 1, self.at + 1);
                    }
                    [b'x', ..] => {
                        self.inflate.reset(true);
                        self.is_between = false;
                    }
                    _ => {
                        self.is_damaged = true;
                        break;
                    }
                }
                continue;
            }
            let before = (self.inflate.total_in(), self.inflate.total_out());
            let status = self.inflate.decompress(input, &mut into[filled..], FlushDecompress::None);
            let took = self.inflate.total_in() - before.0;
            let made = self.inflate.total_out() - before.1;
            (filled, self.at) = (filled + made as usize, self.at + took as usize);
            match status {
                Err(_) => {
                    self.is_damaged = true;
                    break;
                }
                Ok(Status::StreamEnd) => self.is_between = true,
                _ if took == 0 && made == 0 => break,
                _ => {}
            }
        }
        match self.is_damaged && filled == 0 {
            true => Err(damaged()),
            false => Ok(filled),
        }
    }
}

impl Drop for Inflater {
    fn drop(&mut self) {
        COMPRESSED.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::ZlibEncoder;

    use super::*;

    fn zlib(pieces: &[&[u8]]) -> Vec<u8> {
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
        for piece in pieces {
            encoder.write_all(piece).unwrap();
            // As rsyslog does at the end of a transaction.
            encoder.flush().unwrap();
        }
        encoder.finish().unwrap()
    }

    /// Reads a connection that brings `sent` in pieces, with buffers of `room` bytes.
    fn inflated(sent: &[u8], first: usize, piece: usize, room: usize) -> io::Result<Vec<u8>> {
        let (begin, mut rest) = sent.split_at(first.min(sent.len()));
        assert!(is_compressed(begin));
        let mut inflater = Inflater::new(begin).unwrap();
        let (mut out, mut buffer) = (Vec::new(), vec![0; room]);
        loop {
            let bytes = inflater.fill(&mut buffer, |input| {
                let (next, later) = rest.split_at(piece.min(rest.len()).min(input.len()));
                input[..next.len()].copy_from_slice(next);
                rest = later;
                Ok((next.len(), !rest.is_empty()))
            })?;
            if bytes == 0 {
                return Ok(out);
            }
            out.extend_from_slice(&buffer[..bytes]);
        }
    }

    #[test]
    fn a_stream_is_the_same_in_pieces_of_any_size() {
        let long = b"<13>a line that repeats\n".repeat(20_000);
        let sent = zlib(&[b"<13>one\n", b"<13>two\n", &long]);
        let expected = [&b"<13>one\n<13>two\n"[..], &long].concat();
        for (first, piece, room) in
            [(3, 1, 64), (3, 1000, 7), (10, 100, 1 << 20), (1 << 20, 1, 999)]
        {
            assert_eq!(inflated(&sent, first, piece, room).unwrap(), expected);
        }
        // The sender is killed: what came is there.
        let cut = inflated(&sent[..sent.len() - 6], 10, 100, 1000).unwrap();
        assert_eq!(cut, expected);
    }

    #[test]
    fn messages_of_gelf_are_streams_of_their_own() {
        let message = |text: &[u8]| [&zlib(&[text])[..], b"\0"].concat();
        let sent = [message(b"{\"n\":1}"), message(b"{\"n\":2}")].concat();
        for piece in [1, 5, 1000] {
            assert_eq!(inflated(&sent, 4, piece, 50).unwrap(), b"{\"n\":1}\0{\"n\":2}\0");
        }
    }

    #[test]
    fn damage_is_an_error() {
        let sent = zlib(&[b"<13>one\n", &b"<13>two and three\n".repeat(100)]);
        let mut broken = sent.clone();
        broken[20..30].fill(0xff);
        assert!(Damaged::is(&inflated(&broken, 10, 100, 1000).unwrap_err()));
        let followed = [&sent[..], b"<13>plain\n"].concat();
        assert!(Damaged::is(&inflated(&followed, 10, 100, 1000).unwrap_err()));
        assert!(!Damaged::is(&io::ErrorKind::InvalidData.into()));
    }

    #[test]
    fn text_is_not_compressed() {
        for text in [&b"<13>a\n"[..], b"x^ is a text\n", b"xylophone\n", b"zx\x9c", b"x", b""] {
            assert!(!is_compressed(text), "{text:?}");
        }
    }
}
