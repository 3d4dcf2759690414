//! Compresses and decompresses chunks with zstd, reusing its memory.

use zstd::bulk;
use zstd::zstd_safe::CParameter;

use super::bytes::{Corrupt, Read};

/// A chunk with more bytes was not written by this code.
pub(crate) const CHUNK_BYTES_MAX: usize = 512 << 20;

/// The window in which repetitions are searched: a block. Fast levels would search a quarter of it,
/// and find fewer for the same work.
const WINDOW_LOG_BYTES: u32 = 21;

/// Compresses; keeps the memory for one level.
#[derive(Default)]
pub(crate) struct Compressor {
    zstd: Option<(i32, bulk::Compressor<'static>)>,
    /// Output buffer.
    scratch: Vec<u8>,
}

impl Compressor {
    /// Appends the compressed bytes to `out`.
    pub(crate) fn compress(&mut self, bytes: &[u8], level: i32, out: &mut Vec<u8>) {
        if self.zstd.as_ref().is_none_or(|(have, _)| *have != level) {
            let mut zstd = bulk::Compressor::new(level).expect("zstd has that level");
            let window = CParameter::WindowLog(WINDOW_LOG_BYTES);
            zstd.set_parameter(window).expect("zstd has windows of that size");
            self.zstd = Some((level, zstd));
        }
        let (_, zstd) = self.zstd.as_mut().expect("just made");
        let bound = zstd::zstd_safe::compress_bound(bytes.len());
        if self.scratch.len() < bound {
            self.scratch.resize(bound, 0);
        }
        let length = zstd.compress_to_buffer(bytes, &mut self.scratch[..]).expect("there is room");
        out.extend_from_slice(&self.scratch[..length]);
    }
}

/// Decompresses, reusing memory.
#[derive(Default)]
pub(crate) struct Decompressor {
    zstd: Option<bulk::Decompressor<'static>>,
}

impl Decompressor {
    /// Decompresses `stored`, which must give `bytes` bytes.
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
