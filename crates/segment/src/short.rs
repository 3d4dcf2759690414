//! Comparisons of short byte strings, eight bytes at a time: the texts in and between the words of
//! a line are too short for a call of a vectorised function to pay.

/// The eight bytes at `at` as a little-endian number; 0 where bytes are missing.
#[inline]
fn word_at(text: &[u8], at: usize) -> u64 {
    match text.get(at..).and_then(<[u8]>::first_chunk) {
        Some(eight) => u64::from_le_bytes(*eight),
        None => 0,
    }
}

/// Whether `text` begins with `piece`.
#[inline]
pub(crate) fn starts_with(text: &[u8], piece: &[u8]) -> bool {
    /// For a longer piece the call pays off.
    const NEAR_BYTES: usize = 32;
    let Some(text) = text.get(..piece.len()) else { return false };
    if piece.len() > NEAR_BYTES {
        return text == piece;
    }
    let Some(last) = piece.len().checked_sub(8) else {
        // The bytes at the end of both are compared twice.
        let (Some(a), Some(b)) = (text.first_chunk::<4>(), piece.first_chunk::<4>()) else {
            return text.iter().eq(piece);
        };
        return a == b && text.last_chunk::<4>() == piece.last_chunk::<4>();
    };
    let mut at = 0;
    while at < last {
        if word_at(text, at) != word_at(piece, at) {
            return false;
        }
        at += 8;
    }
    word_at(text, last) == word_at(piece, last)
}

/// Whether two texts are equal.
#[inline]
pub(crate) fn same(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && starts_with(a, b)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_agrees_with_standard_comparison_at_every_length() {
        let text: Vec<u8> = (0..80).map(|i| b'a' + i % 23).collect();
        for length in 0..=text.len() {
            let piece = &text[..length];
            assert!(starts_with(&text, piece) && starts_with(piece, piece));
            for cut in 0..length {
                assert!(!starts_with(&text[..cut], piece));
                let mut other = piece.to_vec();
                other[cut] ^= 1;
                assert!(!starts_with(&text, &other), "{length} {cut}");
            }
        }
    }
}
