//! Snappy in both of its formats: framed, chunk by chunk, and as one block, which is held until its
//! end.
//!
//! A framed body begins with the identifier of its stream; a block begins with the length of its
//! content. The first bytes tell them apart: as a length, the identifier would be more than a block
//! may have. Consecutive framed streams form one body.
//!
//! Invariant: at most one chunk is held of a framed body, and of a block what
//! [`BLOCK_BYTES_MAX`] allows.

use std::io;

/// The content of a block. It is held as a whole, so it is smaller than what other bodies may have.
///
/// limits.md, Lines on their way in: a body in the block format of Snappy, decompressed | {} | it
/// is refused with 413; the sender should send smaller batches, or use another compression
const BLOCK_BYTES_MAX: usize = 16 << 20;
/// The first bytes of a framed stream.
const IDENTIFIER: &[u8] = b"\xff\x06\x00\x00sNaPpY";
/// The content of a chunk of a framed stream.
const CHUNK_BYTES_MAX: usize = 64 << 10;
/// Type and length of a chunk.
const HEADER_BYTES: usize = 4;
/// The checksum in front of the content of a chunk.
const SUM_BYTES: usize = 4;

/// Decompresses one body.
#[derive(Default)]
pub(super) struct Snappy {
    form: Form,
    /// Of the body: the whole block so far, or the chunk so far.
    held: Vec<u8>,
    /// Bytes that are left of a chunk that is skipped.
    skipping: usize,
    /// Of a block: the length of its content, once known.
    announced: usize,
    piece: Vec<u8>,
}

#[derive(Clone, Copy, Default, PartialEq)]
enum Form {
    #[default]
    Unknown,
    Framed,
    Block,
}

impl Snappy {
    /// The next piece of the content; see [`Decoder::next`](super::Decoder::next).
    pub fn next(&mut self, input: &mut &[u8]) -> io::Result<Option<&[u8]>> {
        while self.form == Form::Unknown {
            if !IDENTIFIER.starts_with(&self.held) {
                self.form = Form::Block;
            } else if self.held.len() == IDENTIFIER.len() {
                (self.form, self.skipping) = (Form::Framed, 0);
                self.held.clear();
            } else {
                let Some((&byte, rest)) = input.split_first() else { return Ok(None) };
                self.held.push(byte);
                *input = rest;
            }
        }
        if self.form == Form::Block {
            self.hold_block(std::mem::take(input))?;
            return Ok(None);
        }
        while !input.is_empty() {
            if self.skipping > 0 {
                let skipped = self.skipping.min(input.len());
                self.skipping -= skipped;
                *input = &input[skipped..];
                continue;
            }
            let wanted = match self.held.first_chunk::<HEADER_BYTES>() {
                None => HEADER_BYTES,
                Some(&[_, a, b, c]) => HEADER_BYTES + u32::from_le_bytes([a, b, c, 0]) as usize,
            };
            let (more, rest) = input.split_at((wanted - self.held.len()).min(input.len()));
            self.held.extend_from_slice(more);
            *input = rest;
            if self.held.len() < wanted {
                continue;
            }
            if wanted == HEADER_BYTES && self.begin_chunk()? {
                continue;
            }
            let is_content = self.chunk()?;
            self.held.clear();
            if is_content && !self.piece.is_empty() {
                return Ok(Some(&self.piece));
            }
        }
        Ok(None)
    }

    /// Looks at the header of a chunk; returns whether the chunk has bytes that are wanted, or is
    /// skipped.
    fn begin_chunk(&mut self) -> io::Result<bool> {
        let [kind, a, b, c] = self.held[..] else { unreachable!("a header is held") };
        let bytes = u32::from_le_bytes([a, b, c, 0]) as usize;
        let bytes_max = SUM_BYTES + snap::raw::max_compress_len(CHUNK_BYTES_MAX);
        match kind {
            0 | 1 if (SUM_BYTES..=bytes_max).contains(&bytes) => Ok(true),
            0xff if bytes == IDENTIFIER.len() - HEADER_BYTES => Ok(true),
            0x80..=0xfe => {
                self.held.clear();
                self.skipping = bytes;
                Ok(true)
            }
            _ => Err(wrong("the snappy stream has a chunk that is not known")),
        }
    }

    /// Decompresses the held chunk; returns whether it has content.
    fn chunk(&mut self) -> io::Result<bool> {
        let (header, chunk) = self.held.split_at(HEADER_BYTES);
        self.piece.clear();
        if header[0] == 0xff {
            return match self.held == IDENTIFIER {
                true => Ok(false),
                false => Err(wrong("the snappy stream has a wrong identifier")),
            };
        }
        let (sum, content) = chunk.split_first_chunk::<SUM_BYTES>().expect("checked at its start");
        if header[0] == 1 {
            self.piece.extend_from_slice(content);
        } else {
            let bytes = snap::raw::decompress_len(content).map_err(invalid)?;
            if bytes > CHUNK_BYTES_MAX {
                return Err(wrong("the snappy stream has a chunk that is too long"));
            }
            self.piece.resize(bytes, 0);
            snap::raw::Decoder::new().decompress(content, &mut self.piece).map_err(invalid)?;
        }
        let found = crc32c::crc32c(&self.piece).rotate_right(15).wrapping_add(0xa282_ead8);
        if found != u32::from_le_bytes(*sum) {
            return Err(wrong("a chunk of the snappy stream has a wrong checksum"));
        }
        Ok(true)
    }

    fn hold_block(&mut self, input: &[u8]) -> io::Result<()> {
        const LENGTH_BYTES_MAX: usize = 5;
        let start = [&self.held[..], &input[..input.len().min(LENGTH_BYTES_MAX)]].concat();
        if self.announced == 0 && start.first().is_some_and(|byte| *byte != 0) {
            let is_whole = start.iter().take(LENGTH_BYTES_MAX).any(|byte| byte & 0x80 == 0);
            if is_whole || start.len() >= LENGTH_BYTES_MAX {
                self.announced = snap::raw::decompress_len(&start).map_err(invalid)?;
            }
        }
        let bytes_max = snap::raw::max_compress_len(BLOCK_BYTES_MAX);
        if self.announced > BLOCK_BYTES_MAX || self.held.len() + input.len() > bytes_max {
            return Err(io::Error::new(
                io::ErrorKind::FileTooLarge,
                format!(
                    "a body in the block format of snappy may have {BLOCK_BYTES_MAX} bytes when \
                     decompressed; send smaller batches, or compress with zstd or gzip"
                ),
            ));
        }
        self.held.extend_from_slice(input);
        Ok(())
    }

    /// Bytes of memory held, and needed to decompress a block.
    pub fn bytes_held(&self) -> usize {
        self.held.capacity() + self.piece.capacity().max(self.announced)
    }

    /// Ends the body: the content of a block.
    pub fn end(&mut self) -> io::Result<&[u8]> {
        match self.form {
            Form::Unknown if self.held.is_empty() => Ok(&[]),
            Form::Framed if self.held.is_empty() && self.skipping == 0 => Ok(&[]),
            Form::Framed => Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "the snappy stream is not complete",
            )),
            Form::Unknown | Form::Block => {
                self.piece =
                    snap::raw::Decoder::new().decompress_vec(&self.held).map_err(invalid)?;
                self.held = Vec::new();
                Ok(&self.piece)
            }
        }
    }
}

fn invalid(error: snap::Error) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

fn wrong(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

#[cfg(test)]
mod tests {
    use super::super::{Decoder, Encoding};
    use super::*;
    use proptest::prelude::*;
    use std::io::Write;

    fn decoded(body: &[u8], chunk_bytes: usize) -> io::Result<Vec<u8>> {
        let mut decoder = Decoder::new(Encoding::Snappy)?;
        let mut text = Vec::new();
        for mut chunk in body.chunks(chunk_bytes) {
            while let Some(piece) = decoder.next(&mut chunk)? {
                text.extend_from_slice(piece);
            }
            assert!(chunk.is_empty());
        }
        text.extend_from_slice(decoder.end()?);
        Ok(text)
    }

    fn block(text: &[u8]) -> Vec<u8> {
        snap::raw::Encoder::new().compress_vec(text).unwrap()
    }

    fn framed(text: &[u8]) -> Vec<u8> {
        let mut encoder = snap::write::FrameEncoder::new(Vec::new());
        encoder.write_all(text).unwrap();
        encoder.into_inner().unwrap()
    }

    #[test]
    fn both_formats_are_read_in_chunks_of_any_size() {
        let long = b"{\"a\":1}\n".repeat(50_000);
        for text in [&b""[..], b"a", b"{\"a\":1}\n", &long] {
            for chunk_bytes in [1, 3, 100, 1 << 20] {
                for body in [block(text), framed(text)] {
                    assert!(decoded(&body, chunk_bytes).unwrap() == text, "{}", text.len());
                }
            }
        }
        assert_eq!(decoded(b"", 1).unwrap(), b"");
        // A chunk that may be skipped, and one that may not.
        let text = framed(b"text");
        let with = |chunk: &[u8]| [&text[..], chunk, &text[IDENTIFIER.len()..]].concat();
        assert_eq!(decoded(&with(b"\xfe\x03\0\0abc"), 1).unwrap(), b"texttext");
        assert_eq!(decoded(&with(b"\x80\0\0\0"), 9).unwrap(), b"texttext");
        assert!(decoded(&with(b"\x02\x03\0\0abc"), 1).is_err());
    }

    #[test]
    fn damaged_bodies_and_bombs_are_errors() {
        let text: Vec<u8> = (0..100_000u32).flat_map(|n| n.wrapping_mul(n).to_le_bytes()).collect();
        for (body, is_framed) in [(block(&text), false), (framed(&text), true)] {
            for length in (1..40).chain((1..40).map(|less| body.len() - less)) {
                let found = decoded(&body[..length], 1000);
                // A framed stream may end behind each chunk.
                assert!(found.is_err() || (is_framed && length == IDENTIFIER.len()), "{length}");
            }
            let mut damaged = body.clone();
            damaged[body.len() / 2] ^= 1;
            assert!(decoded(&damaged, 1000).is_err() || !is_framed);
        }
        for (bytes, is_taken) in [(BLOCK_BYTES_MAX, true), (BLOCK_BYTES_MAX + 1, false)] {
            let body = block(&vec![b'x'; bytes]);
            let found = decoded(&body, 1000).map(|text| text.len());
            match is_taken {
                true => assert_eq!(found.unwrap(), bytes),
                false => assert_eq!(found.unwrap_err().kind(), io::ErrorKind::FileTooLarge),
            }
        }
        // The length alone is refused, before anything is held.
        let mut decoder = Decoder::new(Encoding::Snappy).unwrap();
        let error = decoder.next(&mut &b"\xff\xff\xff\xff\x0f"[..]).map(|_| ()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(
            body in prop::collection::vec(any::<u8>(), 0..200),
            is_framed: bool,
            chunk_bytes in 1usize..50,
        ) {
            let start = if is_framed { IDENTIFIER } else { b"" };
            let _ = decoded(&[start, &body].concat(), chunk_bytes);
        }
    }
}
