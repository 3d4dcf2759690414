//! Searches blanks in short texts, and compares them: words of heads and access lines, and keys,
//! are too short for a call of vectorised code to pay.

/// Texts up to this length are processed eight bytes at a time.
const NEAR_BYTES: usize = 40;

/// Sets the highest bit of each of eight bytes that is a blank, and no other bit.
#[inline]
pub(crate) fn blanks(eight: u64) -> u64 {
    const LOWS: u64 = 0x7f7f_7f7f_7f7f_7f7f;
    let other = eight ^ 0x2020_2020_2020_2020;
    !(((other & LOWS) + LOWS) | other | LOWS)
}

/// The eight bytes at `at` as a little-endian number; `None` if there are fewer.
#[inline]
pub(crate) fn eight(text: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*text.get(at..)?.first_chunk()?))
}

/// Whether two texts are equal.
#[inline]
pub(crate) fn same(a: &[u8], b: &[u8]) -> bool {
    if a.len() != b.len() {
        return false;
    }
    let Some(last) = a.len().checked_sub(8) else {
        // The bytes at the end are compared twice.
        let (Some(head_a), Some(head_b)) = (a.first_chunk::<4>(), b.first_chunk::<4>()) else {
            return a.iter().eq(b);
        };
        return head_a == head_b && a.last_chunk::<4>() == b.last_chunk::<4>();
    };
    let mut at = 0;
    while at < last {
        if eight(a, at) != eight(b, at) {
            return false;
        }
        at += 8;
    }
    eight(a, last) == eight(b, last)
}

/// Offset of the first blank.
#[inline]
pub(crate) fn first_blank(text: &[u8]) -> Option<usize> {
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

/// Offset of the first quote or backslash.
#[inline]
pub(crate) fn first_quote(text: &[u8]) -> Option<usize> {
    const ONES: u64 = 0x0101_0101_0101_0101;
    // The highest bit of each zero byte; bits behind the first zero byte may be wrong.
    let zeros = |eight: u64| eight.wrapping_sub(ONES) & !eight & (ONES << 7);
    let mut at = 0;
    while at < NEAR_BYTES / 2
        && let Some(eight) = eight(text, at)
    {
        let found =
            zeros(eight ^ (ONES * u64::from(b'"'))) | zeros(eight ^ (ONES * u64::from(b'\\')));
        if found != 0 {
            return Some(at + found.trailing_zeros() as usize / 8);
        }
        at += 8;
    }
    memchr::memchr2(b'"', b'\\', &text[at..]).map(|found| at + found)
}

/// Whether `mark` is directly behind the third or the fourth blank.
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
    for (index, _) in text.iter().enumerate().skip(at).filter(|(_, b)| **b == b' ') {
        seen += 1;
        if (3..=4).contains(&seen) && text.get(index + 1) == Some(&mark) {
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
            prop_assert_eq!(first_blank(&text), all.first().copied());
            let expected = all.iter().skip(2).take(2).any(|at| text.get(at + 1) == Some(&b'['));
            prop_assert_eq!(third_or_fourth_before(b'[', &text), expected);
        }

        #[test]
        fn the_first_quote(text in prop::collection::vec(prop::sample::select(&b"\"\\aaaaaaaaaaaaaaaa!#[]\xa2\xdc"[..]), 0..80)) {
            prop_assert_eq!(first_quote(&text), memchr::memchr2(b'"', b'\\', &text));
        }

        #[test]
        fn one_byte_makes_a_difference(text in prop::collection::vec(any::<u8>(), 0..40), at in any::<prop::sample::Index>()) {
            prop_assert!(same(&text, &text.clone()));
            prop_assert!(!same(&text, &[&text[..], b"x"].concat()));
            if !text.is_empty() {
                let mut other = text.clone();
                other[at.index(text.len())] ^= 1;
                prop_assert!(!same(&text, &other));
            }
        }

        #[test]
        fn a_late_blank_is_found(before in 0usize..100, behind in 0usize..20) {
            let text = [vec![b'x'; before], vec![b' '], vec![b'y'; behind]].concat();
            prop_assert_eq!(first_blank(&text), Some(before));
            prop_assert_eq!(first_blank(&text[before + 1..]), None);
        }
    }
}
