//! A 64-bit hash of byte strings that never changes, since every later version must read files that
//! contain it.
//!
//! Folded multiplication: eight bytes at a time are mixed by a 64 × 64 → 128-bit product whose
//! halves are xored, as in wyhash. It resists accidents, not attackers: a sender who knows it can
//! make tokens collide, which causes false positives of word filters, and nothing worse.
//!
//! Left out: a seed. Filters of one file must be comparable with those of another.

pub(crate) const K0: u64 = 0x9e37_79b9_7f4a_7c15;
const K1: u64 = 0xd6e8_feb8_6659_fd93;
const K2: u64 = 0xa076_1d64_78bd_642f;

/// The hash of `bytes`. All 64 bits are usable. The empty string has a hash, too.
#[inline]
pub(crate) fn hash64(bytes: &[u8]) -> u64 {
    let length = bytes.len();
    let mut state = K0;
    let (a, b) = match length {
        0 => (0, 0),
        1..=3 => {
            let middle = bytes[length / 2];
            (u64::from(bytes[0]) << 16 | u64::from(middle) << 8 | u64::from(bytes[length - 1]), 0)
        }
        4..=7 => (read_u32(bytes, 0), read_u32(bytes, length - 4)),
        8..=16 => (read_u64(bytes, 0), read_u64(bytes, length - 8)),
        _ => {
            for pair in bytes[..length - 1].chunks_exact(16) {
                state = fold(read_u64(pair, 0) ^ K1, read_u64(pair, 8) ^ state);
            }
            (read_u64(bytes, length - 16), read_u64(bytes, length - 8))
        }
    };
    fold(fold(a ^ K1, b ^ state) ^ length as u64, K2)
}

#[inline]
pub(crate) fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

#[inline]
fn read_u64(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

#[inline]
fn read_u32(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes")))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn it_never_changes() {
        let check = |text: &str, hash| assert_eq!(hash64(text.as_bytes()), hash, "{text}");
        check("", 0x4b24_d35c_ba4a_63b0);
        check("a", 0xf956_d363_dcc6_4ef7);
        check("word", 0x31cd_9308_c248_9b42);
        check("password", 0x0601_3404_7631_0625);
        check("a word of more than sixteen bytes", 0x0b9e_46de_b315_c91c);
    }

    #[test]
    fn lengths_and_single_bits_change_it() {
        let text: Vec<u8> = (0..80).collect();
        let mut seen = HashSet::new();
        for length in 0..text.len() {
            assert!(seen.insert(hash64(&text[..length])), "{length}");
            for bit in 0..length * 8 {
                let mut other = text[..length].to_vec();
                other[bit / 8] ^= 1 << (bit % 8);
                assert!(seen.insert(hash64(&other)), "{length} {bit}");
            }
        }
    }
}
