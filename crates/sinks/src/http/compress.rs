//! Compression of request bodies.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;

/// How bodies are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    /// Not at all.
    Plain,
    /// gzip, at a fast level.
    Gzip,
    /// zstd, at a fast level.
    Zstd,
}

impl Encoding {
    /// The value of the header `Content-Encoding`.
    pub fn header(self) -> Option<&'static str> {
        match self {
            Encoding::Plain => None,
            Encoding::Gzip => Some("gzip"),
            Encoding::Zstd => Some("zstd"),
        }
    }

    /// The compressed body.
    pub fn encode(self, body: Vec<u8>) -> Vec<u8> {
        const WRITES: &str = "memory takes all bytes";
        match self {
            Encoding::Plain => body,
            Encoding::Gzip => {
                let sink = Vec::with_capacity(body.len() / 4);
                let mut encoder = GzEncoder::new(sink, Compression::fast());
                encoder.write_all(&body).expect(WRITES);
                encoder.finish().expect(WRITES)
            }
            Encoding::Zstd => zstd::stream::encode_all(body.as_slice(), 1).expect(WRITES),
        }
    }
}
