//! Decompresses a body, one bounded piece at a time. Consecutive members (gzip) or frames (zstd)
//! form one body.

use std::io::{self, Write};

use flate2::write::MultiGzDecoder;
use zstd::stream::raw::{DParameter, InBuffer, Operation, OutBuffer};

/// The largest window that a zstd stream may request, as a power of two: 8 MiB, the limit of RFC
/// 9659 for HTTP. The window is held in memory; a stream that requests more is refused with an
/// error.
pub const ZSTD_WINDOW_LOG_MAX: u32 = 23;
/// Bytes that any compressed body may decompress to.
const DECODED_BYTES_MIN: u64 = 64 << 20;
/// Additional bytes per compressed byte that a body may decompress to. A body that exceeds this is
/// refused as a decompression bomb, since lines compress by ten to a hundred times.
const DECODED_PER_BYTE_MAX: u64 = 250;
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
        }
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
        }
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

    const ENCODINGS: [Encoding; 3] = [Encoding::Plain, Encoding::Gzip, Encoding::Zstd];

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
        for encoding in [Encoding::Gzip, Encoding::Zstd] {
            let body = compressed(encoding, &text);
            for length in (0..64).chain((0..64).map(|less| body.len() - 1 - less)) {
                assert!(decoded(encoding, &body[..length], 1000).is_err(), "{encoding:?} {length}");
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
        for encoding in [Encoding::Gzip, Encoding::Zstd] {
            let body = compressed(encoding, &text);
            assert!(body.len() < 1 << 20);
            assert_eq!(decoded(encoding, &body, body.len()).unwrap().len(), text.len());
        }
    }

    #[test]
    fn a_bomb_is_refused_at_the_limit() {
        for encoding in [Encoding::Gzip, Encoding::Zstd] {
            // Data that compresses well, but no better than lines do, may be of any length.
            let mut long = compressed(encoding, &vec![b'x'; DECODED_BYTES_MIN as usize + 1]);
            let kept = long.len() as u64 * DECODED_PER_BYTE_MAX;
            long.extend(compressed(encoding, &vec![b'y'; kept as usize - 1]));
            assert!(decoded(encoding, &long, 4096).is_ok(), "{encoding:?}");
            // The smallest input that each format can compress this to.
            let zeros = vec![b'x'; 256 << 20];
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
            for encoding in ENCODINGS {
                let body: Vec<u8> =
                    parts.iter().flat_map(|part| compressed(encoding, part)).collect();
                prop_assert_eq!(decoded(encoding, &body, chunk_bytes).unwrap(), parts.concat());
            }
        }
    }
}
