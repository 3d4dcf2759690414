//! Extracts long runs of digits from a text and packs them: nineteen digits in 64 bits.
//!
//! When repetitions are gone, most of what is left of messages is identifiers: random digits. zstd
//! would need forty instructions per digit to find no repetition and to encode it in 3.4 bits;
//! packed, a digit takes 3.37 bits and two instructions.
//!
//! ```text
//! text    blk_39298495748989550 src 10.251
//! rest    blk_ src 10.251          digits  39298495748989550       runs  4 others, 17 digits
//! ```
//!
//! Left out: shorter runs. They are better left in their text, where zstd may find them repeated.

use super::bytes::{Corrupt, Cursor, Read, put_varint};

/// Digits of the shortest run that is extracted: as many as are examined at once.
const RUN_DIGITS_MIN: usize = 8;
/// Digits of a group, which is stored as a 64-bit number.
const GROUP_DIGITS: usize = 19;
/// Bytes of a group.
const GROUP_BYTES: usize = 8;

/// A text split in two parts.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Parted {
    /// For each run, as varints: how many other bytes precede it, and how many digits it has.
    pub(crate) runs: Vec<u8>,
    /// The text without the runs.
    pub(crate) rest: Vec<u8>,
    /// All digits back to back, packed in groups; the last group is padded with zeros.
    pub(crate) digits: Vec<u8>,
}

/// Extracts the runs from a text.
pub(crate) fn part(text: &[u8]) -> Parted {
    let mut parted = Parted { rest: Vec::with_capacity(text.len()), ..Parted::default() };
    let mut digits: Vec<u8> = Vec::with_capacity(text.len());
    let (mut done, mut at) = (0, 0);
    while let Some(eight) = text.get(at..).and_then(<[u8]>::first_chunk::<8>) {
        let others = others(u64::from_le_bytes(*eight));
        if others != 0 {
            // No run begins before the last non-digit of these bytes.
            at += RUN_DIGITS_MIN - others.leading_zeros() as usize / 8;
            continue;
        }
        let run = digits_at(&text[at..]);
        put_varint(&mut parted.runs, (at - done) as u64);
        put_varint(&mut parted.runs, run as u64);
        parted.rest.extend_from_slice(&text[done..at]);
        digits.extend_from_slice(&text[at..at + run]);
        at += run;
        done = at;
    }
    parted.rest.extend_from_slice(&text[done..]);
    digits.resize(digits.len().next_multiple_of(GROUP_DIGITS), b'0');
    parted.digits.reserve(digits.len() / GROUP_DIGITS * GROUP_BYTES);
    for group in digits.as_chunks::<GROUP_DIGITS>().0 {
        parted.digits.extend_from_slice(&pack(group).to_le_bytes());
    }
    parted
}

/// Reassembles the text from these parts; it must have at most `bytes_max` bytes.
pub(crate) fn join(runs: &[u8], rest: &[u8], digits: &[u8], bytes_max: usize) -> Read<Vec<u8>> {
    const WRONG: Corrupt = Corrupt("the numerals of a column");
    let (groups, left) = digits.as_chunks::<GROUP_BYTES>();
    let mut unpacked = Vec::with_capacity(groups.len() * GROUP_DIGITS);
    for group in groups {
        unpacked.extend_from_slice(&unpack(u64::from_le_bytes(*group)).ok_or(WRONG)?);
    }
    if !left.is_empty() || unpacked.len() + rest.len() > bytes_max + GROUP_DIGITS {
        return Err(WRONG);
    }
    let (mut runs, mut rest) = (Cursor::new(runs), Cursor::new(rest));
    let mut text = Vec::with_capacity(unpacked.len() + rest.left());
    let mut digits = Cursor::new(&unpacked);
    while runs.left() > 0 {
        text.extend_from_slice(rest.take(runs.count(bytes_max)?)?);
        text.extend_from_slice(digits.take(runs.count(bytes_max)?)?);
    }
    text.extend_from_slice(rest.take(rest.left())?);
    // The padding of the last group.
    let filled = digits.left();
    let zeros = digits.take(filled)?.iter().all(|digit| *digit == b'0');
    if filled < GROUP_DIGITS && zeros && text.len() <= bytes_max { Ok(text) } else { Err(WRONG) }
}

const ONES: u64 = 0x0101_0101_0101_0101;

/// Sets the high bit of each of eight bytes that is not a digit.
#[inline]
fn others(eight: u64) -> u64 {
    const HIGH: u64 = ONES << 7;
    // Bytes with their high bits cleared, so that no sum carries into the next byte.
    let low = eight & !HIGH;
    let at_least_0 = low + ONES * (0x80 - 0x30);
    let above_9 = low + ONES * (0x80 - 0x3a);
    (!at_least_0 | above_9 | eight) & HIGH
}

/// Number of digits at the beginning.
#[inline]
fn digits_at(text: &[u8]) -> usize {
    let mut digits = 0;
    for eight in text.as_chunks::<8>().0 {
        let others = others(u64::from_le_bytes(*eight));
        if others != 0 {
            return digits + others.trailing_zeros() as usize / 8;
        }
        digits += 8;
    }
    digits + text[digits..].iter().take_while(|byte| byte.is_ascii_digit()).count()
}

const EIGHT_DIGITS: u64 = 100_000_000;

#[inline]
fn pack(digits: &[u8; GROUP_DIGITS]) -> u64 {
    let [a, b, c, rest @ ..] = *digits;
    let (high, low) = rest.split_at(8);
    let eight = |digits: &[u8]| number_of_eight(*digits.first_chunk().expect("there are eight"));
    let first = [a, b, c].iter().fold(0, |sum, digit| sum * 10 + u64::from(digit - b'0'));
    (first * EIGHT_DIGITS + eight(high)) * EIGHT_DIGITS + eight(low)
}

/// `None` if the number has more digits than a group.
#[inline]
fn unpack(number: u64) -> Option<[u8; GROUP_DIGITS]> {
    let (first, rest) =
        (number / (EIGHT_DIGITS * EIGHT_DIGITS), number % (EIGHT_DIGITS * EIGHT_DIGITS));
    if first > 999 {
        return None;
    }
    let mut digits = [0; GROUP_DIGITS];
    digits[..3].copy_from_slice(&eight_of_number(first)[5..]);
    digits[3..11].copy_from_slice(&eight_of_number(rest / EIGHT_DIGITS));
    digits[11..].copy_from_slice(&eight_of_number(rest % EIGHT_DIGITS));
    Some(digits)
}

/// Adds up digits to pairs, then pairs of pairs, then all, within one word.
#[inline]
fn number_of_eight(digits: [u8; 8]) -> u64 {
    const LANES: u64 = 0x0000_00ff_0000_00ff;
    let values = u64::from_le_bytes(digits) - ONES * u64::from(b'0');
    let pairs = values * 10 + (values >> 8);
    let (even, odd) = (pairs & LANES, (pairs >> 16) & LANES);
    // The sum is in the upper half; its overflow is irrelevant.
    let even = even.wrapping_mul(100 + (1_000_000 << 32));
    even.wrapping_add(odd.wrapping_mul(1 + (10_000 << 32))) >> 32
}

/// The inverse of [`number_of_eight`].
#[inline]
fn eight_of_number(number: u64) -> [u8; 8] {
    debug_assert!(number < EIGHT_DIGITS);
    let fours = (number / 10_000) | ((number % 10_000) << 32);
    let hundreds = ((fours * 5_243) >> 19) & 0x0000_007f_0000_007f;
    let twos = hundreds | (fours - hundreds * 100) << 16;
    let tens = ((twos * 103) >> 10) & 0x000f_000f_000f_000f;
    let ones = tens | (twos - tens * 10) << 8;
    (ones + ONES * u64::from(b'0')).to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(text: &[u8]) -> Parted {
        let parted = part(text);
        let Parted { runs, rest, digits } = &parted;
        assert_eq!(join(runs, rest, digits, text.len()).unwrap(), text);
        if !text.is_empty() {
            assert!(join(runs, rest, digits, text.len() - 1).is_err());
        }
        parted
    }

    #[test]
    fn runs_of_the_minimum_length_are_extracted() {
        for (text, rest) in [
            ("", ""),
            ("blk_39298495748989550 src 10.251", "blk_ src 10.251"),
            ("1234567", "1234567"),
            ("12345678", ""),
            ("x1234567y12345678z123456789", "x1234567yz"),
            ("123456789012345678901234567890a", "a"),
        ] {
            assert_eq!(check(text.as_bytes()).rest, rest.as_bytes(), "{text}");
        }
    }

    #[test]
    fn every_byte_is_a_digit_or_not() {
        for byte in 0..=255u8 {
            for position in 0..8 {
                let mut text = *b"01234567";
                text[position] = byte;
                let expected = if byte.is_ascii_digit() { 0 } else { 0x80 << (position * 8) };
                assert_eq!(others(u64::from_le_bytes(text)), expected, "{byte} at {position}");
            }
        }
    }

    #[test]
    fn groups_come_back() {
        for digits in [b"0000000000000000000", b"9999999999999999999", b"1234567890123456789"] {
            assert_eq!(&unpack(pack(digits)).unwrap(), digits);
        }
        assert_eq!(unpack(9_999_999_999_999_999_999).unwrap(), [b'9'; GROUP_DIGITS]);
        assert_eq!(unpack(10_000_000_000_000_000_000), None);
        let mut number = 1;
        while number < EIGHT_DIGITS {
            for near in [number - 1, number, number + 1] {
                let text = eight_of_number(near);
                assert_eq!(text[..], *format!("{near:08}").as_bytes());
                assert_eq!(number_of_eight(text), near);
            }
            number = number * 7 / 3 + 1;
        }
    }

    #[test]
    fn invalid_input_is_an_error() {
        let text = b"a 123456789012 b 99999999 c 1234567890123456789";
        let Parted { runs, rest, digits } = part(text);
        for length in 0..runs.len() {
            assert!(join(&runs[..length], &rest, &digits, text.len()).is_err());
        }
        for length in 0..digits.len() {
            assert!(join(&runs, &rest, &digits[..length], text.len()).is_err());
        }
        assert!(join(&runs, &rest, &[&digits[..], &[0; 8]].concat(), text.len()).is_err());
        assert!(join(&runs, &[&rest[..], b"x"].concat(), &digits, text.len()).is_err());
    }

    proptest! {
        #[test]
        fn any_text_comes_back(text in prop::collection::vec(any::<u8>(), 0..100)) {
            check(&text);
        }

        #[test]
        fn any_digits_come_back(pieces in prop::collection::vec(("[0-9]{0,40}", "[a-z:/]{0,3}"), 0..20)) {
            let text: String = pieces.into_iter().flat_map(|(a, b)| [a, b]).collect();
            check(text.as_bytes());
        }
    }
}
