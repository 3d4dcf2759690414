//! Estimates the compressed size of data by compressing it at a fast level.

/// The compression level used for estimates. Higher levels nearly always lead to the same choice of
/// encoding.
const LEVEL: i32 = 1;
/// Below this size, the overhead of a compressed frame would dominate: the entropy of single bytes
/// is used instead.
const SMALL_BYTES: usize = 600;

/// Estimates sizes; keeps the compressor, so that it is set up once per block.
pub(super) struct Estimator {
    compressor: zstd::bulk::Compressor<'static>,
    buffer: Vec<u8>,
}

impl Estimator {
    pub fn new() -> Self {
        let compressor = zstd::bulk::Compressor::new(LEVEL).expect("level 1 is valid");
        Estimator { compressor, buffer: Vec::new() }
    }

    pub fn bytes(&mut self, bytes: &[u8]) -> u32 {
        let size = if bytes.len() < SMALL_BYTES {
            entropy_bytes(bytes) as usize
        } else {
            let room = zstd::zstd_safe::compress_bound(bytes.len());
            self.buffer.resize(room, 0);
            let written = self.compressor.compress_to_buffer(bytes, &mut self.buffer[..]);
            written.unwrap_or(bytes.len())
        };
        size.min(bytes.len()) as u32
    }
}

/// Entropy of order 0, plus a share for the table that describes it.
pub(super) fn entropy_bytes(bytes: &[u8]) -> u32 {
    let mut counts = [0u32; 256];
    for &byte in bytes {
        counts[usize::from(byte)] += 1;
    }
    let total = bytes.len() as f32;
    let bits: f32 = counts
        .iter()
        .filter(|&&c| c > 0)
        .map(|&c| 3.0 + c as f32 * (total / c as f32).log2())
        .sum();
    (bits / 8.0) as u32
}
