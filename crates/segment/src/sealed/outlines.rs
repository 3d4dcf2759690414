//! Outlines of the values of a text column: most words are looked up in a few hundred outlines
//! instead of all values.
//!
//! The *outline* of a value is the value with `0` in place of each *number*: a maximal run of
//! ASCII letters, digits and `_` with a digit in it. Log messages of one kind have the same
//! outline.
//!
//! ```text
//! value       Received block blk_57124 of size 91178 from /10.251.31.5
//! outline     Received block 0 of size 0 from /0.0.0.0
//! ```
//!
//! A phrase without a digit stands at word boundaries in a value just if it does in the outline:
//! it cannot contain a number, and an end of it within a number would not be a word boundary. What
//! borders on a number borders on a word character in both.
//!
//! ```text
//! section    varint count of outlines | pieces | for each value the place of its outline:
//!            nothing when there is one, a byte up to 256, else two
//! ```
//!
//! Left out: columns whose values have many different outlines, and values with newlines. There the
//! values themselves are searched nearly as fast.

use super::bytes::{Corrupt, Cursor, Read, put_piece, put_varint};
use super::column::ByHash;
use crate::hash::hash64;

/// Outlines of one column.
const OUTLINES_MAX: usize = 4_096;
/// Values of a shorter text are searched fast enough.
pub(crate) const TEXT_BYTES_MIN: usize = 64 << 10;
/// After about so many bytes of values, it is seen whether outlines are worth it.
const PROOF_BYTES: usize = 64 << 10;
/// They are, if there is at most one for so many values then, and their text takes at most this
/// part of the values' text in the end.
const VALUES_PER_OUTLINE: usize = 4;
const TEXT_PARTS: usize = 16;
/// Bytes that are copied at a time. What is too much is overwritten.
const WIDE: usize = 32;

/// Finds the outlines of columns, one after the other; reuses its memory.
#[derive(Default)]
pub(crate) struct Outlines {
    indexes: ByHash<u16>,
    /// The different outlines, back to back, and where each ends.
    text: Vec<u8>,
    ends: Vec<u32>,
    codes: Vec<u16>,
    /// The outlines of some values.
    lines: Vec<u8>,
}

impl Outlines {
    /// The section of a column; none if outlines are not worth it. `text`: the values, each with a
    /// newline behind it.
    pub(crate) fn encode(&mut self, text: &[u8]) -> Option<Vec<u8>> {
        self.find_all(text)?;
        (self.text.len() <= text.len() / TEXT_PARTS).then(|| self.section())
    }

    /// None if there are too many outlines.
    fn find_all(&mut self, text: &[u8]) -> Option<()> {
        self.indexes.clear();
        self.text.clear();
        self.ends.clear();
        self.codes.clear();
        let mut from = 0;
        while from < text.len() {
            let near = text.len().min(from + PROOF_BYTES);
            let to = near + memchr::memchr(b'\n', &text[near - 1..])?;
            let length = write_outlines(&text[from..to], &mut self.lines);
            let lines = std::mem::take(&mut self.lines);
            let mut begin = 0;
            for end in memchr::memchr_iter(b'\n', &lines[..length]) {
                let code = self.code_of(&lines[begin..end])?;
                self.codes.push(code);
                begin = end + 1;
            }
            self.lines = lines;
            if self.ends.len() * VALUES_PER_OUTLINE > self.codes.len() {
                return None;
            }
            from = to;
        }
        Some(())
    }

    /// The place of an outline, which is added if it is new.
    #[inline]
    fn code_of(&mut self, outline: &[u8]) -> Option<u16> {
        let hash = hash64(outline);
        match self.indexes.get(&hash) {
            Some(&index) if self.get(index) == outline => return Some(index),
            // Two outlines with one hash cannot both be there.
            Some(_) => return None,
            None => {}
        }
        let index = self.ends.len();
        if index >= OUTLINES_MAX {
            return None;
        }
        self.text.extend_from_slice(outline);
        self.ends.push(self.text.len() as u32);
        self.indexes.insert(hash, index as u16);
        Some(index as u16)
    }

    fn section(&self) -> Vec<u8> {
        let (outlines, values) = (self.ends.len(), self.codes.len());
        let mut section = Vec::with_capacity(self.text.len() + 2 * (values + outlines));
        put_varint(&mut section, outlines as u64);
        (0..outlines).for_each(|index| put_piece(&mut section, self.get(index as u16)));
        match outlines {
            0 | 1 => {}
            2..=256 => section.extend(self.codes.iter().map(|&code| code as u8)),
            _ => self.codes.iter().for_each(|code| section.extend_from_slice(&code.to_le_bytes())),
        }
        section
    }

    fn get(&self, index: u16) -> &[u8] {
        let index = usize::from(index);
        let from = if index == 0 { 0 } else { self.ends[index - 1] as usize };
        &self.text[from..self.ends[index] as usize]
    }
}

/// Writes the outlines of all lines of a text to the front of `out`, each with its newline; returns
/// their length. `out` grows if need be, and has bytes without meaning behind them.
fn write_outlines(text: &[u8], out: &mut Vec<u8>) -> usize {
    if out.len() < text.len() + WIDE {
        out.resize(text.len() + WIDE, 0);
    }
    // Bytes of the text before `done` are in the outlines; `at`: where the next ones are looked at.
    let (mut length, mut done, mut at) = (0, 0, 0);
    // Where a word began that reaches to `at` without a digit so far.
    let mut open = None;
    let mut padded = [b'\n'; BLOCK_BYTES];
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        let block = rest.first_chunk().unwrap_or_else(|| {
            padded[..rest.len()].copy_from_slice(rest);
            &padded
        });
        let Marks { words, mut digits } = Marks::of(block);
        // A word that may go on is looked at again, from its first byte, unless it fills the block.
        let cut = words.leading_ones() as usize;
        let mut looked_at = if cut < BLOCK_BYTES { BLOCK_BYTES - cut } else { BLOCK_BYTES };
        if looked_at < BLOCK_BYTES {
            digits &= (1 << looked_at) - 1;
        }
        while digits != 0 {
            let digit = digits.trailing_zeros();
            let begin = digit + 1 - (words << (63 - digit)).leading_ones();
            let begin = open.take().filter(|_| begin == 0).unwrap_or(at + begin as usize);
            let mut end = (digit + (words >> digit).trailing_ones()) as usize;
            digits =
                digits.checked_shr(end as u32).unwrap_or(0).checked_shl(end as u32).unwrap_or(0);
            if end == BLOCK_BYTES {
                end += text[at + end..].iter().take_while(|byte| is_word(**byte)).count();
                looked_at = end;
            }
            let unchanged = &text[done..begin];
            match text[done..].first_chunk::<WIDE>() {
                Some(wide) if unchanged.len() <= WIDE => {
                    out[length..length + WIDE].copy_from_slice(wide);
                }
                _ => out[length..length + unchanged.len()].copy_from_slice(unchanged),
            }
            length += unchanged.len();
            out[length] = b'0';
            length += 1;
            done = at + end;
        }
        let is_open = cut == BLOCK_BYTES && looked_at == BLOCK_BYTES && done < at + BLOCK_BYTES;
        open = is_open.then_some(open.unwrap_or(at));
        at += looked_at;
    }
    let rest = &text[done..];
    out[length..length + rest.len()].copy_from_slice(rest);
    length + rest.len()
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Bytes that are looked at together.
const BLOCK_BYTES: usize = 64;

/// Which bytes of a block are of words, and which of those are digits: a bit each, the first byte
/// lowest.
#[derive(Debug, PartialEq, Eq)]
struct Marks {
    words: u64,
    digits: u64,
}

impl Marks {
    #[cfg(target_arch = "x86_64")]
    #[inline]
    fn of(block: &[u8; BLOCK_BYTES]) -> Marks {
        #[expect(unsafe_code, reason = "a function for SSE2 is called")]
        // SAFETY: every processor of this architecture has SSE2.
        unsafe {
            Marks::by_sse2(block)
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[inline]
    #[target_feature(enable = "sse2")]
    fn by_sse2(block: &[u8; BLOCK_BYTES]) -> Marks {
        use std::arch::x86_64::{
            __m128i, _mm_add_epi8, _mm_cmpeq_epi8, _mm_cmplt_epi8, _mm_movemask_epi8, _mm_or_si128,
            _mm_set_epi64x, _mm_set1_epi8,
        };
        let all = |byte: u8| _mm_set1_epi8(byte.cast_signed());
        // Moves the range to the least numbers, which one comparison finds.
        let within = |bytes: __m128i, first: u8, last: u8| {
            let moved = _mm_add_epi8(bytes, all(0x80 - first));
            _mm_cmplt_epi8(moved, all((last - first + 1) ^ 0x80))
        };
        let bits = |found: __m128i| u64::from(_mm_movemask_epi8(found).cast_unsigned());
        let mut marks = Marks { words: 0, digits: 0 };
        for (shift, part) in (0..).step_by(16).zip(block.as_chunks::<16>().0) {
            let part = u128::from_le_bytes(*part).cast_signed();
            let bytes = _mm_set_epi64x((part >> 64) as i64, part as i64);
            let digits = within(bytes, b'0', b'9');
            let letters = within(_mm_or_si128(bytes, all(0x20)), b'a', b'z');
            let words = _mm_or_si128(letters, _mm_cmpeq_epi8(bytes, all(b'_')));
            marks.digits |= bits(digits) << shift;
            marks.words |= bits(_mm_or_si128(digits, words)) << shift;
        }
        marks
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn of(block: &[u8; BLOCK_BYTES]) -> Marks {
        Marks::of_each(block)
    }

    #[cfg(any(test, not(target_arch = "x86_64")))]
    fn of_each(block: &[u8; BLOCK_BYTES]) -> Marks {
        let bits = |found: &dyn Fn(u8) -> bool| {
            let each = block.iter().rev();
            each.fold(0, |bits, &byte| bits << 1 | u64::from(found(byte)))
        };
        Marks { words: bits(&is_word), digits: bits(&|byte| byte.is_ascii_digit()) }
    }
}

/// The outlines of a column, as they are stored.
pub(crate) struct OutlineView<'a> {
    outlines: Vec<&'a [u8]>,
    codes: &'a [u8],
    values: usize,
}

impl<'a> OutlineView<'a> {
    /// Reads the section of a column with `values` values.
    pub(crate) fn read(section: &'a [u8], values: usize) -> Read<OutlineView<'a>> {
        const WRONG: Corrupt = Corrupt("the outlines of a column");
        let mut cursor = Cursor::new(section);
        let count = cursor.count(OUTLINES_MAX)?;
        let outlines = (0..count).map(|_| cursor.piece()).collect::<Read<Vec<_>>>()?;
        let codes = cursor.take(cursor.left())?;
        let (width, valid) = match count {
            0 => (0, values == 0),
            1 => (0, true),
            2..=256 => (1, codes.iter().all(|&code| usize::from(code) < count)),
            _ => (2, wide_codes(codes).all(|code| code < count)),
        };
        if !valid || codes.len() != width * values {
            return Err(WRONG);
        }
        Ok(OutlineView { outlines, codes, values })
    }

    /// For each value, whether its outline passes a test.
    pub(crate) fn passing(&self, test: impl Fn(&[u8]) -> bool) -> Vec<bool> {
        let passes: Vec<bool> = self.outlines.iter().map(|outline| test(outline)).collect();
        match passes.len() {
            0 | 1 => vec![passes.first() == Some(&true); self.values],
            2..=256 => self.codes.iter().map(|&code| passes[usize::from(code)]).collect(),
            _ => wide_codes(self.codes).map(|code| passes[code]).collect(),
        }
    }
}

fn wide_codes(codes: &[u8]) -> impl Iterator<Item = usize> + '_ {
    codes.as_chunks::<2>().0.iter().map(|&code| usize::from(u16::from_le_bytes(code)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn outline(value: &str) -> String {
        let (mut out, text) = (Vec::new(), format!("{value}\n"));
        let length = write_outlines(text.as_bytes(), &mut out);
        String::from_utf8(out[..length - 1].to_vec()).unwrap()
    }

    fn section_of<T: AsRef<str>>(values: &[T]) -> Option<Vec<u8>> {
        let text: String = values.iter().map(|value| format!("{}\n", value.as_ref())).collect();
        Outlines::default().encode(text.as_bytes())
    }

    /// The outline, written in another way.
    fn naive(value: &str) -> String {
        let is_word = |c: &char| c.is_ascii_alphanumeric() || *c == '_';
        let chars: Vec<char> = value.chars().collect();
        let runs = chars.chunk_by(|a, b| is_word(a) == is_word(b));
        let shorter = |run: &[char]| match run.iter().any(char::is_ascii_digit) {
            true => "0".to_owned(),
            false => run.iter().collect(),
        };
        runs.map(shorter).collect()
    }

    #[test]
    fn numbers_are_left_out() {
        let check = |value: &str, expected: &str| assert_eq!(outline(value), expected, "{value}");
        check("", "");
        check("no number, none", "no number, none");
        check("blk_57124 of 91178 from /10.251.31.5:80", "0 of 0 from /0.0.0.0:0");
        check("a1b", "0");
        check("a-1-b 3", "a-0-b 0");
        check("caf\u{e9}5 5\u{e9} 用户123登录", "caf\u{e9}0 0\u{e9} 用户0登录");
        check("7", "0");
        check(&"word ".repeat(40), &"word ".repeat(40));
        check(&format!("{}x9", "-".repeat(70)), &format!("{}0", "-".repeat(70)));
        for letters in [62, 63, 64, 65, 127, 128, 129, 200] {
            check(&format!("{}9", "x".repeat(letters)), "0");
            check(&format!("{} 9", "x".repeat(letters)), &format!("{} 0", "x".repeat(letters)));
            check(&format!("9{} a", "x".repeat(letters)), "0 a");
            check(&format!("-{}9{}.", "x".repeat(letters), "y".repeat(letters)), "-0.");
        }
    }

    #[test]
    fn each_byte_is_marked() {
        for byte in 0..=255u8 {
            for at in [0, 1, 15, 16, 40, 63] {
                let mut block = [b'/'; BLOCK_BYTES];
                block[at] = byte;
                assert_eq!(Marks::of(&block), Marks::of_each(&block), "{byte} at {at}");
            }
            let block = [byte; BLOCK_BYTES];
            assert_eq!(Marks::of(&block), Marks::of_each(&block), "{byte}");
        }
    }

    #[test]
    fn many_different_outlines_are_not_kept() {
        let word = |n: usize| {
            let letter = |n: usize| char::from(b'a' + (n % 26) as u8);
            format!("user {}{}{} logged in", letter(n), letter(n / 26), letter(n / 676))
        };
        assert_eq!(section_of(&(0..2_000).map(word).collect::<Vec<_>>()), None);
        let few = (0..2_000).map(|n| word(n % 20)).collect::<Vec<_>>();
        assert!(section_of(&few).is_some());
    }

    #[test]
    fn damaged_sections_are_errors() {
        let values: Vec<String> =
            (0..64).map(|n| format!("{} of {n}", ["a", "b"][n % 2])).collect();
        let section = section_of(&values).unwrap();
        assert!(OutlineView::read(&section, 64).is_ok());
        for values in [0, 63, 65] {
            assert!(OutlineView::read(&section, values).is_err(), "{values}");
        }
        for cut in 0..section.len() {
            assert!(OutlineView::read(&section[..cut], 64).is_err(), "{cut}");
        }
        for at in 0..section.len() {
            for bit in 0..8 {
                let mut other = section.clone();
                other[at] ^= 1 << bit;
                // It is an error, or it is read without a panic.
                if let Ok(view) = OutlineView::read(&other, 64) {
                    assert_eq!(view.passing(|outline| outline.contains(&b'a')).len(), 64);
                }
            }
        }
    }

    proptest! {
        #[test]
        fn lines_have_the_outlines_of_their_values(
            values in prop::collection::vec("([a-zA-Z_]{0,70}|[0-9]{0,70}|[ .:é→/-]{0,3}){0,6}", 1..40),
        ) {
            let text: String = values.iter().map(|value| format!("{value}\n")).collect();
            let mut out = vec![b'x'; 7];
            let length = write_outlines(text.as_bytes(), &mut out);
            let expected: String = values.iter().map(|value| format!("{}\n", naive(value))).collect();
            prop_assert_eq!(std::str::from_utf8(&out[..length]).unwrap(), expected);
        }

        #[test]
        fn values_are_decided_by_their_outlines(
            words in prop::collection::vec("[ab]{1,2}[ .]|[a0]{1,3}|[é→_-]", 1..6),
            picks in prop::collection::vec((0usize..6, 0usize..6, 0usize..6), 1..600),
            needle in "[ab]{1,2}( [ab])?",
        ) {
            let word = |index: usize| words[index % words.len()].as_str();
            let values: Vec<String> =
                picks.iter().map(|&(a, b, c)| format!("{}{}{}", word(a), word(b), word(c))).collect();
            let text: String = values.iter().map(|value| format!("{value}\n")).collect();
            let mut outlines = Outlines::default();
            // Whether it is worth it does not matter here.
            let _ = outlines.find_all(text.as_bytes());
            prop_assert_eq!(outlines.codes.len(), values.len());
            let section = outlines.section();
            let view = OutlineView::read(&section, values.len()).unwrap();
            let is_word = |c: char| c.is_alphanumeric() || c == '_';
            let stands_in = |value: &str| {
                value.match_indices(&needle).any(|(at, _)| {
                    let before = value[..at].chars().next_back().is_some_and(is_word);
                    let behind = value[at + needle.len()..].chars().next().is_some_and(is_word);
                    !before && !behind
                })
            };
            let expected: Vec<bool> = values.iter().map(|value| stands_in(value)).collect();
            let found = view.passing(|outline| stands_in(std::str::from_utf8(outline).unwrap()));
            prop_assert_eq!(found, expected);
        }
    }
}
