//! Chunks through zstd, with its memory used again.

use zstd::bulk;

use super::bytes::{Corrupt, Read};

/// A chunk of more bytes was not written by us.
pub(crate) const CHUNK_BYTES_MAX: usize = 512 << 20;

/// Compresses; keeps the memory of one level.
#[derive(Default)]
pub(crate) struct Compressor {
    zstd: Option<(i32, bulk::Compressor<'static>)>,
}

impl Compressor {
    /// Appends the compressed bytes.
    pub(crate) fn compress(&mut self, bytes: &[u8], level: i32, out: &mut Vec<u8>) {
        if self.zstd.as_ref().is_none_or(|(have, _)| *have != level) {
            let zstd = bulk::Compressor::new(level).expect("zstd has that level");
            self.zstd = Some((level, zstd));
        }
        let (_, zstd) = self.zstd.as_mut().expect("just made");
        let at = out.len();
        let bound = zstd::zstd_safe::compress_bound(bytes.len());
        out.resize(at + bound, 0);
        let length = zstd.compress_to_buffer(bytes, &mut out[at..]).expect("there is room");
        out.truncate(at + length);
    }
}

/// Decompresses, with its memory used again.
#[derive(Default)]
pub(crate) struct Decompressor {
    zstd: Option<bulk::Decompressor<'static>>,
}

impl Decompressor {
    /// The bytes that were compressed to `stored`.
    pub(crate) fn decompress(&mut self, stored: &[u8], bytes: usize) -> Read<Vec<u8>> {
        if stored.len() == bytes {
            return Ok(stored.to_vec());
        }
        if bytes > CHUNK_BYTES_MAX {
            return Err(Corrupt("the length of a chunk"));
        }
        let zstd = self
            .zstd
            .get_or_insert_with(|| bulk::Decompressor::new().expect("there is memory for zstd"));
        let found = zstd.decompress(stored, bytes).map_err(|_| Corrupt("a compressed chunk"))?;
        if found.len() == bytes { Ok(found) } else { Err(Corrupt("the length of a chunk")) }
    }
}
