//! Blanks in short texts: the words of heads and access lines are shorter than what a call to a search over whole
//! vectors is worth.

/// Bytes that are looked at eight by eight.
const NEAR_BYTES: usize = 40;

/// The highest bit of each byte of eight that is a blank, and no other bit.
#[inline]
pub(crate) fn blanks(eight: u64) -> u64 {
    const LOWS: u64 = 0x7f7f_7f7f_7f7f_7f7f;
    let other = eight ^ 0x2020_2020_2020_2020;
    !(((other & LOWS) + LOWS) | other | LOWS)
}

/// The eight bytes at `at` as a number, the first one lowest; none when there are fewer.
#[inline]
pub(crate) fn eight(text: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*text.get(at..)?.first_chunk()?))
}

/// Place of the first blank.
#[inline]
pub(crate) fn first(text: &[u8]) -> Option<usize> {
    let mut at = 0;
    while at < NEAR_BYTES
        && let Some(eight) = eight(text, at)
    {
        let found = blanks(eight);
        if found != 0 {
            return Some(at + found.trailing_zeros() as usize / 8);
        }
        at += 8;
    }
    let rest = &text[at..];
    let found = match rest.len() {
        0..8 => rest.iter().position(|b| *b == b' '),
        _ => memchr::memchr(b' ', rest),
    };
    Some(at + found?)
}

/// Whether `mark` stands behind the third or the fourth blank.
#[inline]
pub(crate) fn third_or_fourth_before(mark: u8, text: &[u8]) -> bool {
    let (mut seen, mut at) = (0, 0);
    while let Some(eight) = eight(text, at) {
        let mut found = blanks(eight);
        while found != 0 {
            seen += 1;
            let behind = at + found.trailing_zeros() as usize / 8 + 1;
            if seen >= 3 && text.get(behind) == Some(&mark) {
                return true;
            }
            if seen == 4 {
                return false;
            }
            found &= found - 1;
        }
        at += 8;
    }
    for (place, _) in text.iter().enumerate().skip(at).filter(|(_, b)| **b == b' ') {
        seen += 1;
        if (3..=4).contains(&seen) && text.get(place + 1) == Some(&mark) {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn as_byte_by_byte(text in prop::collection::vec(prop::sample::select(&b" [a\xa0\x00\x1f\x21"[..]), 0..80)) {
            let all: Vec<usize> = (0..text.len()).filter(|at| text[*at] == b' ').collect();
            prop_assert_eq!(first(&text), all.first().copied());
            let expected = all.iter().skip(2).take(2).any(|at| text.get(at + 1) == Some(&b'['));
            prop_assert_eq!(third_or_fourth_before(b'[', &text), expected);
        }

        #[test]
        fn a_late_blank_is_found(before in 0usize..100, behind in 0usize..20) {
            let text = [vec![b'x'; before], vec![b' '], vec![b'y'; behind]].concat();
            prop_assert_eq!(first(&text), Some(before));
            prop_assert_eq!(first(&text[before + 1..]), None);
        }
    }
}
