//! Decompresses a body, one bounded piece at a time. Consecutive members (gzip) or frames (zstd)
//! form one body. Only a body in the block format of Snappy is held as a whole, see
//! [`snappy`](super::snappy).

use std::io::{self, Write};

use flate2::write::MultiGzDecoder;
use flate2::{Decompress, FlushDecompress, Status};
use zstd::stream::raw::{DParameter, InBuffer, Operation, OutBuffer};

use super::snappy::Snappy;

/// The largest window that a zstd stream may request, as a power of two: 8 MiB, the limit of RFC
/// 9659 for HTTP. The window is held in memory; a stream that requests more is refused with an
/// error.
pub const ZSTD_WINDOW_LOG_MAX: u32 = 23;
/// Bytes that any compressed body may decompress to.
const DECODED_BYTES_MIN: u64 = 64 << 20;
/// Additional bytes per compressed byte that a body may decompress to. A body that exceeds this is
/// refused as a decompression bomb, since lines compress by ten to a hundred times.
const DECODED_PER_BYTE_MAX: u64 = 250;
/// Memory of a decoder of deflate: its window and tables.
const DEFLATE_BYTES: usize = 48 << 10;
/// Memory of a gzip decoder: its window and buffers.
const GZIP_BYTES: usize = 80 << 10;
/// Bytes of a decompressed piece; the size of a zstd block.
const PIECE_BYTES: usize = 128 << 10;

/// How a body is compressed: the supported values of `Content-Encoding`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// Not compressed.
    Plain,
    /// RFC 1952.
    Gzip,
    /// RFC 8878.
    Zstd,
    /// RFC 1950, as HTTP means it, or RFC 1951, as some clients do.
    Deflate,
    /// Both formats of Snappy: one block, and framed.
    Snappy,
}

/// Decompresses one body. See the module documentation.
pub struct Decoder {
    state: State,
    /// Bytes so far: of the body as sent, and decompressed.
    sent: u64,
    decoded: u64,
}

enum State {
    Plain,
    Gzip(Box<MultiGzDecoder<Vec<u8>>>),
    Zstd(Box<Zstd>),
    Deflate(Box<Deflate>),
    Snappy(Box<Snappy>),
}

struct Deflate {
    /// None until the first two bytes tell whether there is a header of zlib.
    inflate: Option<Decompress>,
    start: Vec<u8>,
    piece: Vec<u8>,
    /// The last piece was full: more output may be available without further input.
    more: bool,
    at_end: bool,
}

struct Zstd {
    decoder: zstd::stream::raw::Decoder<'static>,
    piece: Vec<u8>,
    /// The last piece was full: more output may be available without further input.
    more: bool,
    /// At the end of a frame, where the body may end.
    at_end: bool,
}

impl Decoder {
    /// A decoder at the start of a body.
    pub fn new(encoding: Encoding) -> io::Result<Decoder> {
        let state = match encoding {
            Encoding::Plain => State::Plain,
            Encoding::Gzip => State::Gzip(Box::new(MultiGzDecoder::new(Vec::new()))),
            Encoding::Zstd => {
                let mut decoder = zstd::stream::raw::Decoder::new()?;
                decoder.set_parameter(DParameter::WindowLogMax(ZSTD_WINDOW_LOG_MAX))?;
                let piece = vec![0; PIECE_BYTES];
                State::Zstd(Box::new(Zstd { decoder, piece, more: false, at_end: false }))
            }
            Encoding::Deflate => State::Deflate(Box::new(Deflate {
                inflate: None,
                start: Vec::with_capacity(2),
                piece: Vec::with_capacity(PIECE_BYTES),
                more: false,
                at_end: false,
            })),
            Encoding::Snappy => State::Snappy(Box::default()),
        };
        Ok(Decoder { state, sent: 0, decoded: 0 })
    }

    /// The next piece of the body, taken from the front of `input`; `None` when `input` is used up.
    /// A plain body is returned without a copy. [`io::ErrorKind::FileTooLarge`]: it decompresses to
    /// more than is allowed.
    pub fn next<'a, 'b: 'a>(&'a mut self, input: &mut &'b [u8]) -> io::Result<Option<&'a [u8]>> {
        let before = input.len();
        let piece = match &mut self.state {
            State::Plain => {
                let piece = std::mem::take(input);
                return Ok(Some(piece).filter(|piece| !piece.is_empty()));
            }
            State::Gzip(gzip) => {
                gzip.get_mut().clear();
                while !input.is_empty() && gzip.get_ref().is_empty() {
                    let used = gzip.write(input)?;
                    *input = &input[used..];
                }
                if gzip.get_ref().is_empty() {
                    // Output of the previous input that the decoder still holds.
                    gzip.flush()?;
                }
                let piece: &[u8] = gzip.get_ref();
                Some(piece).filter(|piece| !piece.is_empty())
            }
            State::Zstd(zstd) => zstd.next(input)?,
            State::Deflate(deflate) => deflate.next(input)?,
            State::Snappy(snappy) => snappy.next(input)?,
        };
        self.sent += (before - input.len()) as u64;
        self.decoded += piece.map_or(0, <[u8]>::len) as u64;
        if self.decoded > DECODED_BYTES_MIN + self.sent.saturating_mul(DECODED_PER_BYTE_MAX) {
            let message = format!(
                "{} compressed bytes decompress to more than {DECODED_BYTES_MIN} bytes and {DECODED_PER_BYTE_MAX} times their size; send such lines uncompressed",
                self.sent
            );
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
        }
        Ok(piece)
    }

    /// Bytes of memory held while waiting for more input.
    pub fn bytes_held(&self) -> usize {
        match &self.state {
            State::Plain => 0,
            State::Gzip(gzip) => GZIP_BYTES + gzip.get_ref().capacity(),
            // The window that a stream requested is not known here, so the largest is assumed.
            State::Zstd(_) => PIECE_BYTES + (1 << ZSTD_WINDOW_LOG_MAX),
            State::Deflate(_) => PIECE_BYTES + DEFLATE_BYTES,
            State::Snappy(snappy) => snappy.bytes_held(),
        }
    }

    /// Ends the body: returns the remaining output, or an error when the compressed data was cut
    /// off.
    pub fn end(&mut self) -> io::Result<&[u8]> {
        match &mut self.state {
            State::Plain => Ok(&[]),
            State::Gzip(gzip) => {
                gzip.get_mut().clear();
                gzip.try_finish()?;
                Ok(gzip.get_ref())
            }
            State::Zstd(zstd) if zstd.at_end => Ok(&[]),
            State::Zstd(_) => {
                Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the zstd frame is not complete"))
            }
            // Nothing at all is an empty body.
            State::Deflate(deflate) if deflate.at_end || deflate.is_untouched() => Ok(&[]),
            State::Deflate(_) => Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "the deflate stream is not complete",
            )),
            State::Snappy(snappy) => snappy.end(),
        }
    }
}

impl Deflate {
    fn is_untouched(&self) -> bool {
        self.inflate.is_none() && self.start.is_empty()
    }

    fn next(&mut self, input: &mut &[u8]) -> io::Result<Option<&[u8]>> {
        let wrong = |what: String| io::Error::new(io::ErrorKind::InvalidData, what);
        while self.inflate.is_none() {
            let Some((&byte, rest)) = input.split_first() else { return Ok(None) };
            self.start.push(byte);
            *input = rest;
            if let [first, second] = self.start[..] {
                let has_header =
                    first & 15 == 8 && u16::from_be_bytes([first, second]).is_multiple_of(31);
                self.inflate = Some(Decompress::new(has_header));
            }
        }
        let inflate = self.inflate.as_mut().expect("made above");
        while !self.start.is_empty() || !input.is_empty() || self.more {
            if self.at_end {
                return Err(wrong("something follows the deflate stream".to_owned()));
            }
            self.piece.clear();
            let is_start = !self.start.is_empty();
            let from = if is_start { &self.start[..] } else { *input };
            let before = inflate.total_in();
            let status = inflate
                .decompress_vec(from, &mut self.piece, FlushDecompress::None)
                .map_err(|error| wrong(error.to_string()))?;
            let used = (inflate.total_in() - before) as usize;
            match is_start {
                true => drop(self.start.drain(..used)),
                false => *input = &input[used..],
            }
            self.at_end = status == Status::StreamEnd;
            self.more = self.piece.len() == self.piece.capacity() && !self.at_end;
            if !self.piece.is_empty() {
                return Ok(Some(&self.piece));
            }
            if used == 0 && !self.at_end && !self.more && (is_start || !input.is_empty()) {
                return Err(wrong("the deflate stream makes no sense".to_owned()));
            }
        }
        Ok(None)
    }
}

impl Zstd {
    fn next(&mut self, input: &mut &[u8]) -> io::Result<Option<&[u8]>> {
        while !input.is_empty() || self.more {
            let mut from = InBuffer::around(input);
            let mut into = OutBuffer::around(&mut self.piece[..]);
            let missing = self.decoder.run(&mut from, &mut into)?;
            let (used, made) = (from.pos(), into.pos());
            *input = &input[used..];
            self.at_end = missing == 0;
            self.more = made == PIECE_BYTES && !self.at_end;
            if made > 0 {
                return Ok(Some(&self.piece[..made]));
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn gzip(text: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    fn compressed(encoding: Encoding, text: &[u8]) -> Vec<u8> {
        match encoding {
            Encoding::Plain => text.to_vec(),
            Encoding::Gzip => gzip(text),
            Encoding::Zstd => zstd::encode_all(text, 1).unwrap(),
            Encoding::Deflate => deflate(text, true),
            Encoding::Snappy => {
                let mut encoder = snap::write::FrameEncoder::new(Vec::new());
                encoder.write_all(text).unwrap();
                encoder.into_inner().unwrap()
            }
        }
    }

    fn deflate(text: &[u8], has_header: bool) -> Vec<u8> {
        let level = flate2::Compression::fast();
        if has_header {
            let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), level);
            encoder.write_all(text).unwrap();
            return encoder.finish().unwrap();
        }
        let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), level);
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn deflate_is_read_with_and_without_the_header_of_zlib() {
        let long: Vec<u8> = (0..200_000u32).flat_map(|n| n.wrapping_mul(n).to_le_bytes()).collect();
        let ones = vec![b'1'; 4 * PIECE_BYTES];
        for text in [&b""[..], b"a", b"{\"a\":1}\n", &long, &ones] {
            for has_header in [true, false] {
                let body = deflate(text, has_header);
                for chunk_bytes in [1, 2, 7, 1000, 1 << 20] {
                    if body.len() / chunk_bytes > 100_000 {
                        continue;
                    }
                    let found = decoded(Encoding::Deflate, &body, chunk_bytes).unwrap();
                    assert!(found == text, "{} bytes by {chunk_bytes}", text.len());
                }
            }
        }
        assert_eq!(decoded(Encoding::Deflate, b"", 1).unwrap(), b"");
    }

    /// All pieces of a body that arrives in chunks of `chunk_bytes` bytes.
    fn decoded(encoding: Encoding, body: &[u8], chunk_bytes: usize) -> io::Result<Vec<u8>> {
        let mut decoder = Decoder::new(encoding)?;
        let mut text = Vec::new();
        for mut chunk in body.chunks(chunk_bytes) {
            while let Some(piece) = decoder.next(&mut chunk)? {
                assert!(encoding == Encoding::Plain || piece.len() <= PIECE_BYTES);
                text.extend_from_slice(piece);
            }
            assert!(chunk.is_empty());
        }
        text.extend_from_slice(decoder.end()?);
        Ok(text)
    }

    const ENCODINGS: [Encoding; 4] =
        [Encoding::Plain, Encoding::Gzip, Encoding::Zstd, Encoding::Snappy];

    #[test]
    fn members_and_frames_are_one_body_in_chunks_of_any_size() {
        let parts: [&[u8]; 4] = [b"one\n", b"", b"two\nthree", &vec![b'x'; 3 * PIECE_BYTES]];
        for encoding in ENCODINGS {
            let body = parts.map(|part| compressed(encoding, part)).concat();
            for chunk_bytes in [1, 2, 3, 7, 64, 1 << 20] {
                let text = decoded(encoding, &body, chunk_bytes).unwrap();
                assert!(text == parts.concat(), "{encoding:?} in chunks of {chunk_bytes}");
            }
        }
    }

    #[test]
    fn truncated_or_broken_bodies_are_errors() {
        let text: Vec<u8> = (0..50_000u32).flat_map(|n| n.to_le_bytes()).collect();
        for encoding in [Encoding::Gzip, Encoding::Zstd, Encoding::Deflate] {
            let body = compressed(encoding, &text);
            for length in (0..64).chain((0..64).map(|less| body.len() - 1 - less)) {
                let is_empty = length == 0 && encoding == Encoding::Deflate;
                let found = decoded(encoding, &body[..length], 1000);
                assert!(found.is_err() || is_empty, "{encoding:?} {length}");
            }
            assert!(decoded(encoding, b"neither of them", 4).is_err());
            assert!(decoded(encoding, &[&body[..], b"and more"].concat(), 1000).is_err());
        }
        let mut wrong_sum = gzip(&text);
        let offset = wrong_sum.len() - 8;
        wrong_sum[offset] ^= 1;
        assert!(decoded(Encoding::Gzip, &wrong_sum, 1000).is_err());
    }

    #[test]
    fn a_bomb_comes_in_pieces() {
        let text = vec![0; 64 << 20];
        for encoding in [Encoding::Gzip, Encoding::Zstd, Encoding::Deflate] {
            let body = compressed(encoding, &text);
            assert!(body.len() < 1 << 20);
            assert_eq!(decoded(encoding, &body, body.len()).unwrap().len(), text.len());
        }
    }

    #[test]
    fn a_bomb_is_refused_at_the_limit() {
        let zeros = vec![b'x'; 256 << 20];
        let best = flate2::Compression::best();
        let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), best);
        encoder.write_all(&zeros).unwrap();
        let bomb = encoder.finish().unwrap();
        let error = decoded(Encoding::Deflate, &bomb, 4096).map(|text| text.len()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge, "{error}");
        for encoding in [Encoding::Gzip, Encoding::Zstd] {
            // Data that compresses well, but no better than lines do, may be of any length.
            let mut long = compressed(encoding, &vec![b'x'; DECODED_BYTES_MIN as usize + 1]);
            let kept = long.len() as u64 * DECODED_PER_BYTE_MAX;
            long.extend(compressed(encoding, &vec![b'y'; kept as usize - 1]));
            assert!(decoded(encoding, &long, 4096).is_ok(), "{encoding:?}");
            // The smallest input that each format can compress this to.
            let bomb = match encoding {
                Encoding::Gzip => {
                    let best = flate2::Compression::best();
                    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), best);
                    encoder.write_all(&zeros).unwrap();
                    encoder.finish().unwrap()
                }
                _ => compressed(encoding, &zeros),
            };
            let error = decoded(encoding, &bomb, 4096).map(|text| text.len()).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::FileTooLarge, "{encoding:?}: {error}");
        }
    }

    #[test]
    fn a_window_over_the_limit_is_refused() {
        for (window_log, taken) in [(ZSTD_WINDOW_LOG_MAX, true), (ZSTD_WINDOW_LOG_MAX + 1, false)] {
            let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 1).unwrap();
            encoder.long_distance_matching(true).unwrap();
            encoder.window_log(window_log).unwrap();
            encoder.write_all(&vec![b'x'; 32 << 20]).unwrap();
            let body = encoder.finish().unwrap();
            assert_eq!(decoded(Encoding::Zstd, &body, 1000).is_ok(), taken, "{window_log}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_round_trip(
            parts in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..5000), 1..4),
            chunk_bytes in 1usize..3000,
        ) {
            // A body in deflate has one stream.
            let whole = parts.concat();
            let body = compressed(Encoding::Deflate, &whole);
            prop_assert_eq!(decoded(Encoding::Deflate, &body, chunk_bytes).unwrap(), whole);
            for encoding in ENCODINGS {
                let body: Vec<u8> =
                    parts.iter().flat_map(|part| compressed(encoding, part)).collect();
                prop_assert_eq!(decoded(encoding, &body, chunk_bytes).unwrap(), parts.concat());
            }
        }
    }
}
