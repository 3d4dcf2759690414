//! Decompresses single messages: those of rsyslog with `ZipLevel` (`z` and a zlib stream), and GELF
//! over UDP (a zlib or gzip stream).
//!
//! Invariants: memory is bounded by [`UNPACKED_BYTES_MAX`]; of a message that cannot be
//! decompressed the bytes come back as they are. Compressed connections are those of
//! [`crate::stream`].

use flate2::{Decompress, FlushDecompress, Status};
use record::frame::Doubt;

/// A decompressed message. A message of 64 KiB could become 64 MiB.
///
/// limits.md, Lines on their way in: a compressed message of syslog or GELF, decompressed | {} |
/// its first {} are kept with a `_note`; it is counted as `oversized`
const UNPACKED_BYTES_MAX: usize = 1 << 20;
/// Memory that is kept for the next message.
const KEPT_BYTES_MAX: usize = 64 << 10;

/// Decompresses one message after the other.
#[derive(Default)]
pub(crate) struct Unpacker {
    /// Memory of the decompressor, once a message was compressed.
    inflate: Option<Box<Decompress>>,
    text: Vec<u8>,
}

/// A message as it is kept.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Unpacked<'a> {
    pub line: &'a [u8],
    /// Whether it is longer.
    pub cut: bool,
    pub doubt: Option<Doubt>,
}

impl Unpacker {
    /// The text of a message if that begins as a compressed one of rsyslog.
    pub fn unpack<'a>(&'a mut self, message: &'a [u8]) -> Option<Unpacked<'a>> {
        match message {
            [b'z', b'x', 0x01 | 0x5e | 0x9c | 0xda, ..] => Some(self.inflate(message, 1)),
            _ => None,
        }
    }

    /// The text of a datagram if that is compressed.
    pub fn unpack_datagram<'a>(&'a mut self, datagram: &'a [u8]) -> Option<Unpacked<'a>> {
        match datagram {
            [b'z', b'x', ..] => self.unpack(datagram),
            [b'x', 0x01 | 0x9c | 0xda, ..] => Some(self.inflate(datagram, 0)),
            [b'x', 0x5e, block, ..] if !block.is_ascii() || *block < b' ' => {
                Some(self.inflate(datagram, 0))
            }
            [0x1f, 0x8b, 8, ..] => Some(self.gunzip(datagram)),
            _ => None,
        }
    }

    fn inflate<'a>(&'a mut self, message: &'a [u8], from: usize) -> Unpacked<'a> {
        let inflate = self.inflate.get_or_insert_with(|| Box::new(Decompress::new(true)));
        inflate.reset(true);
        self.text.clear();
        self.text.shrink_to(KEPT_BYTES_MAX);
        let mut room = 4 * message.len();
        loop {
            // One byte more shows that the text is longer.
            self.text.reserve_exact(room.min(UNPACKED_BYTES_MAX + 1 - self.text.len()));
            let rest = &message[from + inflate.total_in() as usize..];
            let before = (inflate.total_in(), inflate.total_out());
            let status = inflate.decompress_vec(rest, &mut self.text, FlushDecompress::None);
            let is_stuck = before == (inflate.total_in(), inflate.total_out());
            match status {
                _ if self.text.len() > UNPACKED_BYTES_MAX => {
                    self.text.truncate(UNPACKED_BYTES_MAX);
                    return Unpacked { line: &self.text, cut: true, doubt: None };
                }
                Ok(Status::StreamEnd) => break,
                Ok(_) if !is_stuck || self.text.len() == self.text.capacity() => {}
                _ => return in_doubt(message),
            }
            room = self.text.len().max(1 << 10);
        }
        Unpacked { line: without_newline(&self.text), cut: false, doubt: None }
    }

    fn gunzip<'a>(&'a mut self, message: &'a [u8]) -> Unpacked<'a> {
        use std::io::Read;
        self.text.clear();
        self.text.shrink_to(KEPT_BYTES_MAX);
        let gunzip = flate2::bufread::GzDecoder::new(message);
        match gunzip.take(UNPACKED_BYTES_MAX as u64 + 1).read_to_end(&mut self.text) {
            Err(_) => in_doubt(message),
            Ok(bytes) => {
                self.text.truncate(UNPACKED_BYTES_MAX);
                let cut = bytes > UNPACKED_BYTES_MAX;
                Unpacked { line: without_newline(&self.text), cut, doubt: None }
            }
        }
    }
}

fn in_doubt(message: &[u8]) -> Unpacked<'_> {
    Unpacked { line: message, cut: false, doubt: Some(Doubt::Compression) }
}

fn without_newline(text: &[u8]) -> &[u8] {
    text.strip_suffix(b"\n").unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::{GzEncoder, ZlibEncoder};

    use super::*;

    fn zlib(text: &[u8], level: u32) -> Vec<u8> {
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::new(level));
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    fn gzip(text: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn compressed_messages_become_text() {
        let mut unpacker = Unpacker::default();
        let long = b"<13>Oct 11 22:14:15 host app: text ".repeat(1000);
        for text in [&b"<13>a\nb"[..], b"", &long, b"<13>again"] {
            for level in 1..=9 {
                let message = [b"z", &zlib(text, level)[..]].concat();
                let expected = Unpacked { line: text, cut: false, doubt: None };
                assert!(unpacker.unpack(&message) == Some(expected), "level {level}");
            }
            let expected = || Some(Unpacked { line: text, cut: false, doubt: None });
            assert_eq!(unpacker.unpack_datagram(&zlib(text, 9)), expected());
            assert_eq!(unpacker.unpack_datagram(&gzip(text)), expected());
        }
        let ended = [b"z", &zlib(b"<13>a\n", 9)[..]].concat();
        assert_eq!(unpacker.unpack(&ended).unwrap().line, b"<13>a");
    }

    #[test]
    fn what_is_not_compressed_or_damaged_stays_as_it_is() {
        let mut unpacker = Unpacker::default();
        for text in [&b"<13>a"[..], b"zx", b"zoo", b"x^2 + 1", b"xy", b""] {
            assert_eq!(unpacker.unpack(text), None);
            assert_eq!(unpacker.unpack_datagram(text), None);
        }
        let text = b"<13>Oct 11 22:14:15 host app: text ".repeat(10);
        let message = [b"z", &zlib(&text, 9)[..]].concat();
        for end in 3..message.len() {
            assert_eq!(unpacker.unpack(&message[..end]), Some(in_doubt(&message[..end])));
        }
        let message = gzip(&text);
        for end in 3..message.len() {
            assert_eq!(unpacker.unpack_datagram(&message[..end]), Some(in_doubt(&message[..end])));
        }
    }

    #[test]
    fn a_bomb_is_cut() {
        let mut unpacker = Unpacker::default();
        for (bytes, is_cut) in [
            (UNPACKED_BYTES_MAX - 1, false),
            (UNPACKED_BYTES_MAX, false),
            (UNPACKED_BYTES_MAX + 1, true),
            (64 << 20, true),
        ] {
            let text = vec![b'x'; bytes];
            let kept = bytes.min(UNPACKED_BYTES_MAX);
            for message in [[b"z", &zlib(&text, 9)[..]].concat(), gzip(&text)] {
                let found = unpacker.unpack_datagram(&message).unwrap();
                assert!(found.line == &text[..kept] && found.cut == is_cut, "{bytes}");
                assert!(found.doubt.is_none());
            }
        }
    }
}
