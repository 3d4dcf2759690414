//! Encoding for text that repeats earlier text with other numbers in it, as log messages do.
//!
//! Such text is split into *stretches* that are copied from earlier text and the *literals* between
//! them, before zstd sees it. Only a tenth is left for zstd, mostly digits; searching repetitions
//! in all of the text is most of the work of zstd at its fastest useful level. Two things make this
//! encoding fast: a stretch is searched only where a word ends (nothing else is hashed), and first
//! at the distance of the previous stretch, where the same line with another number continues.
//!
//! ```text
//! text      … Received block blk_39298 of size 91178⏎ … Received block blk_57124 of size 91178⏎
//! as        …                                              (copy 20) 57124 (copy 15, same distance)
//! ```
//!
//! Long runs of digits in the literals are extracted once more, see [`super::numerals`].
//!
//! There are four sections: *tokens*, *distances*, *literals*, *digits*, drawn in
//! `docs/format/sealed-segment.md`. Left out: distances beyond [`DISTANCE_MAX`], and choosing among
//! several positions to copy from: the last one seen is used.

use std::ops::Range;

use super::bytes::{Corrupt, Cursor, Read, put_piece, put_varint};
use super::numerals::{self, Parted};
use crate::tokens::{TokenSet, separates};

/// Tokens, distances, literals, digits.
pub(crate) const SECTIONS: usize = 4;

/// The shortest stretch.
const STRETCH_BYTES_MIN: usize = 8;
/// The greatest distance of a copy: distances have three bytes.
const DISTANCE_MAX: usize = (1 << 24) - 1;
/// Size of the hash table of positions; a later position overwrites an earlier one.
const POSITIONS_LOG: u32 = 14;
/// This many bytes at the end are always literals, so that eight bytes can be read anywhere before
/// them.
const TAIL_BYTES: usize = 16;
/// Output bytes that are reserved at first when decoding; the buffer grows beyond that.
const RESERVED_BYTES_MAX: usize = 32 << 20;
/// Bytes that are copied or compared at a time. Excess copied bytes are overwritten by the next
/// piece.
const WIDE: usize = 32;

/// Splits texts into stretches and literals; reuses its memory.
pub(crate) struct Repeats {
    /// By hash of eight bytes, where they occurred last.
    positions: Vec<u32>,
}

impl Default for Repeats {
    fn default() -> Self {
        Repeats { positions: vec![0; 1 << POSITIONS_LOG] }
    }
}

/// The output while a text is split.
#[derive(Default)]
struct Parts {
    tokens: Vec<u8>,
    distances: Vec<u8>,
    literals: Vec<u8>,
    /// Distance of the previous stretch.
    distance: usize,
}

impl Parts {
    /// Adds literals, and the stretch behind them.
    #[inline]
    fn put(&mut self, literals: &[u8], distance: usize, bytes: usize) {
        let is_new = distance != self.distance;
        put_varint(&mut self.tokens, (literals.len() as u64) << 1 | u64::from(is_new));
        put_varint(&mut self.tokens, (bytes - STRETCH_BYTES_MIN) as u64);
        self.literals.extend_from_slice(literals);
        if is_new {
            self.distances.extend_from_slice(&(distance as u32).to_le_bytes()[..3]);
            self.distance = distance;
        }
    }
}

impl Repeats {
    /// The sections of a text; `None` if it would hardly become smaller. `words` gets the words of
    /// the text in either case.
    pub(crate) fn encode(
        &mut self,
        text: &[u8],
        words: Option<&mut TokenSet>,
    ) -> Option<[Vec<u8>; SECTIONS]> {
        let mut words = words.map(|set| Words { set, done: 0 });
        let parts = self.take_apart(text, |stretch| {
            if let Some(words) = &mut words {
                words.pass(text, stretch);
            }
        });
        if let Some(words) = words {
            words.set.add(&text[words.done..]);
        }
        let Parts { tokens, distances, literals, .. } = parts?;
        let bytes = tokens.len() + distances.len() + literals.len();
        if bytes >= text.len() / 4 * 3 {
            return None;
        }
        let Parted { runs, rest, digits } = numerals::part(&literals);
        let mut head = Vec::with_capacity(runs.len() + tokens.len() + 16);
        put_varint(&mut head, text.len() as u64);
        put_piece(&mut head, &runs);
        head.extend_from_slice(&tokens);
        Some([head, distances, rest, digits])
    }

    /// Literals and stretches of a text; `None` if it is too short or too long. Calls `each` with
    /// every stretch.
    #[inline]
    fn take_apart(&mut self, text: &[u8], mut each: impl FnMut(Range<usize>)) -> Option<Parts> {
        let limit = text.len().checked_sub(TAIL_BYTES)?;
        u32::try_from(text.len()).ok()?;
        self.positions.fill(0);
        let mut parts = Parts {
            tokens: Vec::with_capacity(text.len() / 16),
            distances: Vec::with_capacity(text.len() / 32),
            literals: Vec::with_capacity(text.len() / 4),
            distance: 0,
        };
        // The end of the last stretch, and where the next one is searched from.
        let (mut done, mut at) = (0, 0);
        while let Some((from, source)) = self.find(text, at, limit, parts.distance) {
            let distance = from - source;
            let back = common_back(&text[done..from], &text[..source]);
            let behind = from + STRETCH_BYTES_MIN;
            let more = match text.get(behind..limit) {
                Some(rest) => common(rest, &text[behind - distance..]),
                None => 0,
            };
            let begin = from - back;
            at = behind + more;
            parts.put(&text[done..begin], distance, at - begin);
            each(begin..at);
            done = at;
        }
        parts.literals.extend_from_slice(&text[done..]);
        Some(parts)
    }

    /// The next position from `at` on, at the end of a word, whose eight bytes occurred before, and
    /// where.
    #[inline]
    fn find(
        &mut self,
        text: &[u8],
        mut at: usize,
        limit: usize,
        distance: usize,
    ) -> Option<(usize, usize)> {
        while at < limit {
            let eight = eight_at(text, at);
            let word_bytes = word_bytes(eight);
            if word_bytes > 0 {
                at += word_bytes;
                continue;
            }
            let position = &mut self.positions[hash(eight)];
            let known = *position as usize;
            *position = at as u32;
            if let Some(same) = at.checked_sub(distance)
                && distance > 0
                && eight_at(text, same) == eight
            {
                return Some((at, same));
            }
            if known < at && at - known <= DISTANCE_MAX && eight_at(text, known) == eight {
                return Some((at, known));
            }
            at += 1;
        }
        None
    }
}

/// Finds the words of a text while it is split. Text in a stretch between two separators occurred
/// before together with them, so its words are known. Only words that touch literals or the ends of
/// stretches are examined.
struct Words<'s> {
    set: &'s mut TokenSet,
    /// Words that end before this offset are known.
    done: usize,
}

impl Words<'_> {
    #[inline]
    fn pass(&mut self, text: &[u8], stretch: Range<usize>) {
        let copied = &text[stretch.clone()];
        let Some(first) = copied.iter().position(|&byte| separates(byte)) else { return };
        let last = copied.iter().rposition(|&byte| separates(byte)).expect("there is one");
        self.set.add(&text[self.done..stretch.start + first]);
        self.done = stretch.start + last;
    }
}

/// Decodes the text of these sections, which must have at most `bytes_max` bytes.
pub(crate) fn decode(sections: [&[u8]; SECTIONS], bytes_max: usize) -> Read<Vec<u8>> {
    const WRONG: Corrupt = Corrupt("the repeats of a column");
    let [tokens, distances, rest, digits] = sections;
    let mut tokens = Cursor::new(tokens);
    let bytes = tokens.count(bytes_max)?;
    let literals = numerals::join(tokens.piece()?, rest, digits, bytes)?;
    let mut literals = Cursor::new(&literals);
    let (distances, rest) = distances.as_chunks::<3>();
    let mut distances = distances.iter();
    let mut text = Text { bytes: vec![0; bytes.min(RESERVED_BYTES_MAX) + WIDE], length: 0 };
    let mut distance = 0;
    while tokens.left() > 0 {
        let first = tokens.varint()?;
        let stretch = tokens.count(bytes)? + STRETCH_BYTES_MIN;
        let count = usize::try_from(first >> 1).map_err(|_| WRONG)?;
        if count > literals.left() || text.length + count + stretch > bytes {
            return Err(WRONG);
        }
        text.make_room(count + stretch);
        text.put(literals.rest(), count);
        literals.take(count)?;
        if first & 1 == 1 {
            let &[a, b, c] = distances.next().ok_or(WRONG)?;
            distance = u32::from_le_bytes([a, b, c, 0]) as usize;
        }
        if distance == 0 || distance > text.length {
            return Err(WRONG);
        }
        text.repeat(distance, stretch);
    }
    let Text { bytes: mut text, length } = text;
    text.truncate(length);
    text.extend_from_slice(literals.rest());
    let whole = text.len() == bytes && rest.is_empty() && distances.len() == 0;
    if whole { Ok(text) } else { Err(WRONG) }
}

/// A growing text within preallocated bytes, followed by [`WIDE`] spare bytes that may be
/// overwritten.
struct Text {
    bytes: Vec<u8>,
    length: usize,
}

impl Text {
    #[inline]
    fn make_room(&mut self, more: usize) {
        let needed = self.length + more + WIDE;
        if needed > self.bytes.len() {
            self.bytes.resize(needed.max(self.bytes.len() * 2), 0);
        }
    }

    /// Appends the first `count` bytes of `from`; there must be room for them.
    #[inline]
    fn put(&mut self, from: &[u8], count: usize) {
        let to = &mut self.bytes[self.length..];
        if count <= WIDE
            && let (Some(from), Some(to)) = (from.first_chunk::<WIDE>(), to.first_chunk_mut())
        {
            *to = *from;
        } else {
            to[..count].copy_from_slice(&from[..count]);
        }
        self.length += count;
    }

    /// Appends `count` bytes that begin `distance` before the end, and may overlap what is
    /// appended; there must be room.
    #[inline]
    fn repeat(&mut self, distance: usize, count: usize) {
        let end = self.length + count;
        if distance >= WIDE {
            let mut at = self.length;
            while at < end {
                let part: [u8; WIDE] =
                    *self.bytes[at - distance..].first_chunk().expect("it is before the room");
                *self.bytes[at..].first_chunk_mut().expect("there is room for it") = part;
                at += WIDE;
            }
        } else {
            for at in self.length..end {
                self.bytes[at] = self.bytes[at - distance];
            }
        }
        self.length = end;
    }
}

#[inline]
fn eight_at(text: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(*text[at..].first_chunk().expect("there are eight bytes"))
}

#[inline]
fn hash(eight: u64) -> usize {
    (eight.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - POSITIONS_LOG)) as usize
}

/// How many of eight bytes belong to a word: those before the first that is below `0` (blanks, most
/// punctuation) or not ASCII.
#[inline]
fn word_bytes(eight: u64) -> usize {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = ONES << 7;
    // A borrow only falsifies bits behind the first such byte.
    let ends = (eight.wrapping_sub(ONES * u64::from(b'0')) | eight) & HIGH;
    (ends.trailing_zeros() / 8) as usize
}

/// Length of the common prefix; `b` is at least as long as `a`.
#[inline]
fn common(a: &[u8], b: &[u8]) -> usize {
    let b = &b[..a.len()];
    let mut bytes = 0;
    for (x, y) in a.as_chunks::<WIDE>().0.iter().zip(b.as_chunks::<WIDE>().0) {
        if x != y {
            break;
        }
        bytes += WIDE;
    }
    let (a, b) = (&a[bytes..], &b[bytes..]);
    for (x, y) in a.as_chunks::<8>().0.iter().zip(b.as_chunks::<8>().0) {
        let differ = u64::from_le_bytes(*x) ^ u64::from_le_bytes(*y);
        if differ != 0 {
            return bytes + (differ.trailing_zeros() / 8) as usize;
        }
        bytes += 8;
    }
    bytes
}

/// Length of the common suffix.
#[inline]
fn common_back(a: &[u8], b: &[u8]) -> usize {
    let mut bytes = 0;
    let (mut a, mut b) = (a, b);
    while let (Some((front_a, x)), Some((front_b, y))) =
        (a.split_last_chunk::<8>(), b.split_last_chunk::<8>())
    {
        let differ = u64::from_le_bytes(*x) ^ u64::from_le_bytes(*y);
        if differ != 0 {
            return bytes + (differ.leading_zeros() / 8) as usize;
        }
        bytes += 8;
        (a, b) = (front_a, front_b);
    }
    bytes + a.iter().rev().zip(b.iter().rev()).take_while(|(x, y)| x == y).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(text: &[u8]) -> Option<usize> {
        let sections = Repeats::default().encode(text, None)?;
        let parts = sections.each_ref().map(|section| &section[..]);
        assert_eq!(decode(parts, text.len()).unwrap(), text);
        assert!(text.is_empty() || decode(parts, text.len() - 1).is_err());
        Some(sections.iter().map(Vec::len).sum())
    }

    #[test]
    fn lines_with_other_numbers_become_small() {
        let line = |i: u64| {
            let id = i.wrapping_mul(0x9e37_79b9_7f4a_7c15) % 1_000_000_000;
            format!("INFO dfs.DataNode: Received block blk_{id} of size 67108864 from /10.0.0.1\n")
        };
        let text: String = (0..1000).map(line).collect();
        let bytes = check(text.as_bytes()).unwrap();
        assert!(bytes < 1000 * 16, "{bytes}");
    }

    #[test]
    fn a_copy_may_overlap_itself() {
        assert!(check(&b" ab".repeat(100)).unwrap() < 40);
        assert!(check(&[b' '; 500]).unwrap() < 40);
        assert_eq!(check(&[b'x'; 500]), None);
        for length in 0..TAIL_BYTES + STRETCH_BYTES_MIN + 2 {
            check(&vec![b' '; length]);
        }
    }

    #[test]
    fn invalid_input_is_an_error() {
        let text = b" one two 1234567890 three four five six seven".repeat(20);
        let sections = Repeats::default().encode(&text, None).unwrap();
        let refs = |s: &[Vec<u8>; SECTIONS]| decode([&s[0], &s[1], &s[2], &s[3]], text.len());
        for section in 0..SECTIONS {
            for length in 0..sections[section].len() {
                let mut cut = sections.clone();
                cut[section].truncate(length);
                assert!(refs(&cut).is_err(), "section {section} cut at {length}");
            }
            let mut longer = sections.clone();
            longer[section].push(0);
            assert!(refs(&longer).is_err(), "{section}");
            for at in 0..sections[section].len() {
                for bit in 0..8 {
                    let mut other = sections.clone();
                    other[section][at] ^= 1 << bit;
                    let _ = refs(&other);
                }
            }
        }
    }

    /// Compares with the words of the whole text.
    fn check_words(text: &[u8]) {
        let (mut all, mut found) = (TokenSet::default(), TokenSet::default());
        all.add(text);
        let _ = Repeats::default().encode(text, Some(&mut found));
        assert_eq!(found.hashes(), all.hashes(), "{}", text.escape_ascii());
    }

    #[test]
    fn words_are_those_of_the_whole_text() {
        let line = |i: u64| {
            let id = i.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let (a, b) = (i % 7, id % 253);
            format!(
                "Received blk_{id}.{a}: from 10.{a}.0.{b} port {b}\u{e9} x{a}.{a}.{a}.{a}.{b}\n"
            )
        };
        let text: String = (0..500).map(line).collect();
        check_words(text.as_bytes());
        check_words(b"");
    }

    #[test]
    fn common_prefixes_and_suffixes_are_counted() {
        let text: Vec<u8> = (0..100).collect();
        for same in 0..text.len() {
            let mut other = text.clone();
            other[same] ^= 1;
            assert_eq!(common(&text[..text.len() / 8 * 8], &other), same.min(96));
            assert_eq!(common_back(&text, &other), text.len() - same - 1);
            assert_eq!(common_back(&text[..same], &other[..same]), same);
        }
    }

    proptest! {
        #[test]
        fn any_text_comes_back(
            words in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..12), 1..6),
            order in prop::collection::vec(0..6usize, 0..200),
        ) {
            let text: Vec<u8> = order.iter().flat_map(|i| words[i % words.len()].clone()).collect();
            check(&text);
            check_words(&text);
        }

        #[test]
        fn words_of_any_text_are_found(
            parts in prop::collection::vec("[a1.2 ]{4,14}", 1..5),
            order in prop::collection::vec(0..5usize, 0..100),
        ) {
            let text: String = order.iter().map(|i| parts[i % parts.len()].as_str()).collect();
            check(text.as_bytes());
            check_words(text.as_bytes());
        }
    }
}
