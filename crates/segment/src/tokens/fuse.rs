//! Binary fuse filters with three positions per key and 8-bit fingerprints.
//!
//! T. M. Graf, D. Lemire: "Binary Fuse Filters: Fast and Smaller Than Xor Filters", 2022. A key has
//! a position in each of three neighbouring segments of an array, and the xor of the three bytes
//! there is its fingerprint. Building repeatedly removes keys that are alone at a position, and
//! then assigns bytes in reverse order; if some keys cannot be removed, the next seed is tried.

use super::FilterError;
use crate::hash::fold;

pub(super) const HEADER_BYTES: usize = 8;
/// Version of the filter. A filter of another version is refused.
const VERSION: u8 = 2;
/// Seeds that are tried. Each fails for fewer than one set of keys in a hundred.
const SEEDS_MAX: u16 = 64;
const SEGMENT_LENGTH_LOG2_MAX: u8 = 18;

/// A filter. The default one holds no fingerprints and says yes to all.
#[derive(Default)]
pub(super) struct Fuse {
    segment_length_log2: u8,
    seed: u16,
    segments: u32,
    fingerprints: Vec<u8>,
}

/// The parameters that determine the positions of keys.
#[derive(Clone, Copy, Debug)]
struct Shape {
    segment_length_log2: u8,
    seed: u16,
    segments: u32,
}

impl Shape {
    #[inline]
    fn mix(self, key: u64) -> u64 {
        fold(
            key ^ (u64::from(self.seed) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15),
            0xbf58_476d_1ce4_e5b9,
        )
    }

    /// The three positions of a mixed key.
    #[inline]
    fn positions(self, mixed: u64) -> [usize; 3] {
        let length = 1usize << self.segment_length_log2;
        let mask = length - 1;
        let starts = u64::from(self.segments) << self.segment_length_log2;
        let first = ((u128::from(mixed) * u128::from(starts)) >> 64) as usize;
        let second = (first + length) ^ ((mixed >> 18) as usize & mask);
        let third = (first + 2 * length) ^ (mixed as usize & mask);
        [first, second, third]
    }
}

#[inline]
fn fingerprint(mixed: u64) -> u8 {
    (mixed ^ (mixed >> 32)) as u8
}

impl Fuse {
    /// The filter of distinct keys, or `None` if no seed works.
    pub fn build(keys: &[u64]) -> Option<Fuse> {
        let (segment_length_log2, segments) = dimensions(keys.len());
        (0..SEEDS_MAX).find_map(|seed| {
            let shape = Shape { segment_length_log2, seed, segments };
            let fingerprints = assign(keys, shape)?;
            Some(Fuse { segment_length_log2, seed, segments, fingerprints })
        })
    }

    pub fn write(&self) -> Vec<u8> {
        let mut bytes = vec![VERSION, self.segment_length_log2];
        bytes.extend_from_slice(&self.seed.to_le_bytes());
        bytes.extend_from_slice(&self.segments.to_le_bytes());
        bytes.extend_from_slice(&self.fingerprints);
        bytes
    }
}

/// Log2 of the segment length, and the number of segments for first positions: the paper's formulas
/// for three positions.
fn dimensions(keys: usize) -> (u8, u32) {
    let count = keys.max(2) as f64;
    let length_log2 = (count.ln() / 3.33f64.ln() + 2.25).floor() as u8;
    let length_log2 = length_log2.min(SEGMENT_LENGTH_LOG2_MAX);
    let factor = (0.875 + 0.25 * 1e6f64.ln() / count.ln()).max(1.125);
    let capacity = (count * factor) as u64;
    let segments = capacity.div_ceil(1 << length_log2).saturating_sub(2).max(1);
    (length_log2, segments as u32)
}

fn assign(keys: &[u64], shape: Shape) -> Option<Vec<u8>> {
    let size = (shape.segments as usize + 2) << shape.segment_length_log2;
    // How many keys have a position here, and their xor.
    let mut counts = vec![0u32; size];
    let mut mixes = vec![0u64; size];
    for &key in keys {
        let mixed = shape.mix(key);
        for position in shape.positions(mixed) {
            counts[position] += 1;
            mixes[position] ^= mixed;
        }
    }
    let mut alone: Vec<u32> = (0..size as u32).filter(|&at| counts[at as usize] == 1).collect();
    let mut taken = Vec::with_capacity(keys.len());
    while let Some(at) = alone.pop() {
        if counts[at as usize] != 1 {
            continue;
        }
        let mixed = mixes[at as usize];
        taken.push((mixed, at));
        for position in shape.positions(mixed) {
            counts[position] -= 1;
            mixes[position] ^= mixed;
            if counts[position] == 1 {
                alone.push(position as u32);
            }
        }
    }
    if taken.len() < keys.len() {
        return None;
    }
    let mut fingerprints = vec![0u8; size];
    for (mixed, at) in taken.into_iter().rev() {
        let [a, b, c] = shape.positions(mixed);
        fingerprints[at as usize] = 0;
        let others = fingerprints[a] ^ fingerprints[b] ^ fingerprints[c];
        fingerprints[at as usize] = fingerprint(mixed) ^ others;
    }
    Some(fingerprints)
}

/// An encoded filter.
#[derive(Clone, Copy, Debug)]
pub(super) struct FuseView<'a> {
    shape: Shape,
    fingerprints: &'a [u8],
}

impl<'a> FuseView<'a> {
    pub fn read(bytes: &'a [u8]) -> Result<Self, FilterError> {
        let damaged = |problem| FilterError { bytes: bytes.len(), problem };
        let Some((header, fingerprints)) = bytes.split_first_chunk::<HEADER_BYTES>() else {
            return Err(damaged("shorter than its header"));
        };
        let &[version, segment_length_log2, s0, s1, n0, n1, n2, n3] = header;
        if version != VERSION {
            return Err(damaged("another version"));
        }
        if segment_length_log2 > SEGMENT_LENGTH_LOG2_MAX {
            return Err(damaged("segments that are too long"));
        }
        let seed = u16::from_le_bytes([s0, s1]);
        let segments = u32::from_le_bytes([n0, n1, n2, n3]);
        let size = if segments == 0 { 0 } else { (u64::from(segments) + 2) << segment_length_log2 };
        if size != fingerprints.len() as u64 {
            return Err(damaged("another number of fingerprints than announced"));
        }
        let shape = Shape { segment_length_log2, seed, segments };
        Ok(FuseView { shape, fingerprints })
    }

    #[inline]
    pub fn may_contain(&self, key: u64) -> bool {
        if self.fingerprints.is_empty() {
            return true;
        }
        let mixed = self.shape.mix(key);
        let [a, b, c] = self.shape.positions(mixed).map(|position| self.fingerprints[position]);
        fingerprint(mixed) == a ^ b ^ c
    }
}
