//! Text derived from a number: the same number always gives the same letters, so that a returned
//! row is checked in every column without storing it.

/// Mixes a number so that neighbours become unrelated (the finaliser of SplitMix64).
pub fn mix(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Appends `count` small letters derived from `from`.
pub fn push(text: &mut String, from: u64, count: usize) {
    // Five bits make a letter; each number yields twelve letters.
    const LETTERS_OF_A_NUMBER: usize = 12;
    let (mut left, mut state) = (count, from);
    while left > 0 {
        let mut bits = mix(state);
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        for _ in 0..left.min(LETTERS_OF_A_NUMBER) {
            text.push(char::from(b'a' + ((bits & 31) * 26 / 32) as u8));
            bits >>= 5;
        }
        left -= left.min(LETTERS_OF_A_NUMBER);
    }
}

/// Appends `digits` letters that represent `number` in base 26: distinct for distinct numbers below
/// `26^digits`.
pub fn push_number(text: &mut String, number: u64, digits: usize) {
    let mut rest = number;
    for _ in 0..digits {
        text.push(char::from(b'a' + (rest % 26) as u8));
        rest /= 26;
    }
}

/// A hash of a text (FNV-1a, 64 bits).
pub fn number_of(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_follow_from_their_number() {
        for count in [0, 1, 11, 12, 13, 255] {
            let (mut one, mut again, mut other) = (String::new(), String::new(), String::new());
            push(&mut one, 7, count);
            push(&mut again, 7, count);
            push(&mut other, 8, count);
            assert_eq!(one.len(), count);
            assert_eq!(one, again);
            assert!(count < 11 || one != other);
            assert!(one.bytes().all(|letter| letter.is_ascii_lowercase()));
        }
    }

    #[test]
    fn every_letter_comes() {
        let mut text = String::new();
        push(&mut text, 1, 10_000);
        for letter in 'a'..='z' {
            assert!(text.matches(letter).count() > 200, "{letter}");
        }
    }

    #[test]
    fn numbers_are_told_apart() {
        let mut seen = std::collections::BTreeSet::new();
        for number in 0..26 * 26 {
            let mut text = String::new();
            push_number(&mut text, number, 2);
            assert!(seen.insert(text));
        }
    }

    #[test]
    fn the_hash_is_the_published_one() {
        // From the test vectors of Fowler, Noll and Vo.
        assert_eq!(number_of(""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(number_of("a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(number_of("foobar"), 0x8594_4171_f739_67e8);
    }
}
