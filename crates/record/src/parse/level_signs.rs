//! Finds the bytes of a text at which a sign of a level may begin.
//!
//! Sixteen bytes are examined at a time, whatever is in them: a bit for each says whether it may be
//! a sign. Only there is the text looked at.

use super::level_text::LEVEL_SEARCH_BYTES;

/// The places in a text where a sign of a level may begin: a capital at the beginning of a word,
/// `[`, `<`, `:`, `=`, and the escape of colours.
#[derive(Clone, Copy)]
pub(crate) struct Signs<'a> {
    text: &'a [u8],
    /// The first byte that is searched: what is before it is no part of a word.
    start: usize,
    /// Signs that were not visited, one bit each.
    found: u128,
    /// Whether the text begins in a way of its own, or has two blanks.
    is_odd: bool,
}

/// Bytes that are examined together.
const PART_BYTES: usize = 16;
/// A text of the longest length, and what is behind its last byte.
const PADDED_BYTES: usize = LEVEL_SEARCH_BYTES + PART_BYTES;
const _: () = assert!(LEVEL_SEARCH_BYTES <= 128 && LEVEL_SEARCH_BYTES.is_multiple_of(PART_BYTES));
/// Longest first word that is a level, and the colon behind it.
const FIRST_WORD_BYTES: u32 = 17;

/// Of sixteen bytes, which may be signs, which are blanks before blanks, and which are colons: a
/// bit each.
#[derive(Debug, PartialEq, Eq)]
struct Marks {
    signs: u16,
    blanks: u16,
    colons: u16,
}

impl Marks {
    /// `bytes`: the sixteen bytes and the one behind them.
    #[cfg(target_arch = "x86_64")]
    #[inline]
    fn of(bytes: &[u8; PART_BYTES + 1]) -> Marks {
        #[expect(unsafe_code, reason = "a function for SSE2 is called")]
        // SAFETY: every processor of this architecture has SSE2.
        unsafe {
            Marks::by_sse2(bytes)
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[inline]
    #[target_feature(enable = "sse2")]
    fn by_sse2(bytes: &[u8; PART_BYTES + 1]) -> Marks {
        use std::arch::x86_64::{
            __m128i, _mm_add_epi8, _mm_and_si128, _mm_cmpeq_epi8, _mm_cmplt_epi8,
            _mm_movemask_epi8, _mm_or_si128, _mm_set_epi64x, _mm_set1_epi8,
        };
        let load = |bytes: &[u8]| {
            let [low, high] = [0, 8]
                .map(|at| bytes[at..].first_chunk().map_or(0, |eight| i64::from_le_bytes(*eight)));
            _mm_set_epi64x(high, low)
        };
        let all = |byte: u8| _mm_set1_epi8(byte.cast_signed());
        let is = |bytes: __m128i, byte: u8| _mm_cmpeq_epi8(bytes, all(byte));
        // Moves the range to the least numbers, which one comparison finds.
        let within = |bytes: __m128i, first: u8, last: u8| {
            let moved = _mm_add_epi8(bytes, all(0x80 - first));
            _mm_cmplt_epi8(moved, all((last - first + 1) ^ 0x80))
        };
        let bits = |found: __m128i| _mm_movemask_epi8(found) as u16;
        let (these, next) = (load(&bytes[..PART_BYTES]), load(&bytes[1..]));
        let quotes = _mm_or_si128(is(next, b'"'), is(next, b'\''));
        let colons = is(these, b':');
        let capitals = _mm_and_si128(within(these, b'A', b'Z'), within(next, b'A', b'Z'));
        let brackets = _mm_or_si128(is(these, b'['), is(these, b'<'));
        let behind_colon = _mm_or_si128(_mm_or_si128(is(next, b' '), is(next, 0)), quotes);
        let letters = within(_mm_or_si128(next, all(0x20)), b'a', b'z');
        let behind_equals = _mm_or_si128(_mm_or_si128(letters, is(next, 0x1b)), quotes);
        let pairs = _mm_or_si128(
            _mm_and_si128(colons, behind_colon),
            _mm_and_si128(is(these, b'='), behind_equals),
        );
        let alone = _mm_or_si128(brackets, is(these, 0x1b));
        Marks {
            signs: bits(_mm_or_si128(_mm_or_si128(capitals, alone), pairs)),
            blanks: bits(_mm_and_si128(is(these, b' '), is(next, b' '))),
            colons: bits(colons),
        }
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn of(bytes: &[u8; PART_BYTES + 1]) -> Marks {
        Marks::of_each(bytes)
    }

    #[cfg(any(test, not(target_arch = "x86_64")))]
    fn of_each(bytes: &[u8; PART_BYTES + 1]) -> Marks {
        let bits = |found: &dyn Fn(u8, u8) -> bool| {
            let pairs = bytes.windows(2).rev();
            pairs.fold(0, |bits, pair| bits << 1 | u16::from(found(pair[0], pair[1])))
        };
        let is_sign = |byte: u8, next: u8| match byte {
            b'A'..=b'Z' => next.is_ascii_uppercase(),
            b'[' | b'<' | 0x1b => true,
            b':' => matches!(next, b' ' | b'"' | b'\'' | 0),
            b'=' => next.is_ascii_alphabetic() || matches!(next, b'"' | b'\'' | 0x1b),
            _ => false,
        };
        Marks {
            signs: bits(&is_sign),
            blanks: bits(&|byte, next| byte == b' ' && next == b' '),
            colons: bits(&|byte, _| byte == b':'),
        }
    }
}

impl<'a> Signs<'a> {
    /// The signs of a text of at most [`LEVEL_SEARCH_BYTES`] bytes.
    #[inline]
    pub fn of(text: &'a [u8]) -> Self {
        debug_assert!(text.len() <= LEVEL_SEARCH_BYTES);
        let mut padded = [0; PADDED_BYTES];
        padded[..text.len()].copy_from_slice(text);
        let (mut found, mut blanks, mut first_colons) = (0u128, 0, 0);
        for at in (0..text.len()).step_by(PART_BYTES) {
            let bytes = padded[at..].first_chunk().expect("there are bytes behind each text");
            let marks = Marks::of(bytes);
            found |= u128::from(marks.signs) << at;
            blanks |= marks.blanks;
            if at < FIRST_WORD_BYTES as usize {
                first_colons |= u32::from(marks.colons) << at;
            }
        }
        let is_odd = match text {
            [] => false,
            // Android's `E/Tag(12)`
            [first, b'/', ..] if first.is_ascii_uppercase() => true,
            [first, ..] => {
                !first.is_ascii_alphanumeric()
                    || blanks != 0
                    || first_colons.trailing_zeros() < FIRST_WORD_BYTES
            }
        };
        Signs { text, start: 0, found, is_odd }
    }

    /// Whether the text may name a level. Says so of more texts than do, but never leaves one out.
    #[inline]
    pub fn may_name_level(&self) -> bool {
        self.found != 0 || self.is_odd
    }

    /// The signs from `start` on, where the text begins.
    pub fn from(self, start: usize) -> Self {
        let mut signs = Signs { start, ..self };
        signs.skip_to(start);
        signs
    }

    /// Leaves out what is before `at`.
    pub fn skip_to(&mut self, at: usize) {
        self.found &= u128::MAX.checked_shl(at as u32).unwrap_or(0);
    }

    #[inline]
    pub fn next(&mut self) -> Option<usize> {
        while self.found != 0 {
            let at = self.found.trailing_zeros() as usize;
            self.found &= self.found - 1;
            // Capitals within a word are no sign, except behind a point or a slash: `local.ERROR:`,
            // `[main/ERROR]`.
            if self.text[at].is_ascii_uppercase()
                && at > self.start
                && !matches!(self.text[at - 1], b'.' | b'/')
                && is_word(self.text[at - 1])
            {
                continue;
            }
            return Some(at);
        }
        None
    }
}

/// Bytes that belong to a word, so that `ERROR_CODE` and `x.ERROR` are not levels.
#[inline]
pub(crate) fn is_word(byte: u8) -> bool {
    const WORD: [bool; 256] = {
        let mut word = [false; 256];
        let mut byte = 0;
        while byte < 256 {
            let b = byte as u8;
            word[byte] = b.is_ascii_alphanumeric()
                || matches!(b, b'_' | b'.' | b'-' | b'$' | b'/')
                || b >= 0x80;
            byte += 1;
        }
        word
    };
    WORD[byte as usize]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn sixteen_bytes_are_marked_as_each_is(
            bytes in prop::array::uniform17(prop_oneof![
                prop::sample::select(&b" :=[<\x1b\"'AZ@[az`{09/\0\x7f\x80\xff"[..]),
                any::<u8>(),
            ]),
        ) {
            prop_assert_eq!(Marks::of(&bytes), Marks::of_each(&bytes));
        }
    }
}
