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
//! The text is cut at ends of lines into *pieces* of about [`PIECE_BYTES`], and no stretch is
//! copied from another piece: whoever needs a few lines puts together their pieces only.
//!
//! There are four sections: *tokens*, *distances*, *literals*, *digits*, drawn in
//! `docs/format/sealed-segment.md`. Left out: distances beyond [`DISTANCE_MAX`], and choosing among
//! several positions to copy from: the last one seen is used.

use std::ops::Range;

use memchr::{memchr, memchr_iter};

use super::bytes::{Corrupt, Cursor, Read, put_piece, put_varint};
use super::numerals::{self, Parted};
use crate::tokens::{TokenSet, separates};

/// Tokens, distances, literals, digits.
pub(crate) const SECTIONS: usize = 4;

/// Bytes of a piece, about; at least half of it, unless the text is shorter. In smaller ones, more
/// of the text has nothing before it that it repeats.
pub(crate) const PIECE_BYTES: usize = 256 << 10;
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

    /// Appends the parts of a piece to the sections of its text; returns their bytes before digits
    /// are extracted.
    fn put_into(self, piece: &[u8], sections: &mut [Vec<u8>; SECTIONS]) -> usize {
        let Parts { tokens, distances, literals, .. } = self;
        let Parted { runs, rest, digits } = numerals::part(&literals);
        let [all_tokens, all_distances, all_literals, all_digits] = sections;
        put_varint(all_tokens, piece.len() as u64);
        put_varint(all_tokens, memchr_iter(b'\n', piece).count() as u64);
        put_varint(all_tokens, distances.len() as u64);
        put_varint(all_tokens, rest.len() as u64);
        put_varint(all_tokens, digits.len() as u64);
        put_piece(all_tokens, &runs);
        put_piece(all_tokens, &tokens);
        all_distances.extend_from_slice(&distances);
        all_literals.extend_from_slice(&rest);
        all_digits.extend_from_slice(&digits);
        tokens.len() + distances.len() + literals.len()
    }
}

/// The pieces of a text, in order.
fn pieces_of(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = text;
    let mut is_first = true;
    std::iter::from_fn(move || {
        if rest.is_empty() && !is_first {
            return None;
        }
        is_first = false;
        // What is left behind the piece is half a piece at least.
        let line = rest.get(PIECE_BYTES..).and_then(|behind| memchr(b'\n', behind));
        let end = line.map(|line| PIECE_BYTES + line + 1);
        let end = end.filter(|end| rest.len() - end >= PIECE_BYTES / 2).unwrap_or(rest.len());
        let (piece, behind) = rest.split_at(end);
        rest = behind;
        Some(piece)
    })
}

impl Repeats {
    /// The sections of a text; `None` if it would hardly become smaller. `words` gets the words of
    /// the text in either case.
    pub(crate) fn encode(
        &mut self,
        text: &[u8],
        mut words: Option<&mut TokenSet>,
    ) -> Option<[Vec<u8>; SECTIONS]> {
        let mut sections: [Vec<u8>; SECTIONS] = Default::default();
        put_varint(&mut sections[0], text.len() as u64);
        let mut bytes = Some(0);
        for piece in pieces_of(text) {
            let mut words = words.as_deref_mut().map(|set| Words { set, done: 0 });
            let parts = self.take_apart(piece, |stretch| {
                if let Some(words) = &mut words {
                    words.pass(piece, stretch);
                }
            });
            if let Some(words) = words {
                words.set.add(&piece[words.done..]);
            }
            bytes =
                bytes.zip(parts).map(|(bytes, parts)| bytes + parts.put_into(piece, &mut sections));
        }
        (bytes? < text.len() / 4 * 3).then_some(sections)
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

const WRONG: Corrupt = Corrupt("the repeats of a column");

/// Decodes the text of these sections, which must have at most `bytes_max` bytes.
pub(crate) fn decode(sections: [&[u8]; SECTIONS], bytes_max: usize) -> Read<Vec<u8>> {
    let bytes = Cursor::new(sections[0]).count(bytes_max)?;
    let mut text = Text::with_room(bytes.min(RESERVED_BYTES_MAX));
    decode_pieces(sections, bytes_max, |_, piece| piece.decode(&mut text))?;
    Ok(text.finish())
}

/// Calls `each` with every piece of the text of these sections, and the indexes of its lines.
pub(crate) fn decode_pieces(
    sections: [&[u8]; SECTIONS],
    bytes_max: usize,
    mut each: impl FnMut(Range<usize>, Piece<'_>) -> Read<()>,
) -> Read<()> {
    let [mut tokens, mut distances, mut literals, mut digits] = sections.map(Cursor::new);
    let bytes = tokens.count(bytes_max)?;
    // Bytes of the text, and its lines, before the next piece.
    let (mut before, mut lines) = (0, 0);
    while tokens.left() > 0 {
        let piece_bytes = tokens.count(bytes - before)?;
        let piece_lines = tokens.count(piece_bytes)?;
        let (copies, others, packed) =
            (tokens.count(bytes)?, tokens.count(bytes)?, tokens.count(bytes)?);
        let piece = Piece {
            bytes: piece_bytes,
            lines: piece_lines,
            runs: tokens.piece()?,
            tokens: tokens.piece()?,
            distances: distances.take(copies)?,
            literals: literals.take(others)?,
            digits: digits.take(packed)?,
        };
        each(lines..lines + piece_lines, piece)?;
        before += piece_bytes;
        lines += piece_lines;
    }
    let left = distances.left() + literals.left() + digits.left();
    if before == bytes && left == 0 { Ok(()) } else { Err(WRONG) }
}

/// The parts of one piece, as they are stored.
pub(crate) struct Piece<'a> {
    bytes: usize,
    lines: usize,
    runs: &'a [u8],
    tokens: &'a [u8],
    distances: &'a [u8],
    literals: &'a [u8],
    digits: &'a [u8],
}

impl Piece<'_> {
    /// The text of the piece.
    pub(crate) fn text(&self) -> Read<Vec<u8>> {
        let mut text = Text::with_room(self.bytes.min(RESERVED_BYTES_MAX));
        self.decode(&mut text)?;
        Ok(text.finish())
    }

    /// Appends the text of the piece.
    fn decode(&self, text: &mut Text) -> Read<()> {
        let Piece { bytes, lines, runs, tokens, distances, literals, digits } = *self;
        let literals = numerals::join(runs, literals, digits, bytes)?;
        let mut literals = Cursor::new(&literals);
        let mut tokens = Cursor::new(tokens);
        let (distances, rest) = distances.as_chunks::<3>();
        let mut distances = distances.iter();
        let (begin, end) = (text.length, text.length + bytes);
        let mut distance = 0;
        while tokens.left() > 0 {
            let first = tokens.varint()?;
            let stretch = tokens.count(bytes)? + STRETCH_BYTES_MIN;
            let count = usize::try_from(first >> 1).map_err(|_| WRONG)?;
            if count > literals.left() || text.length + count + stretch > end {
                return Err(WRONG);
            }
            text.make_room(count + stretch);
            text.put(literals.rest(), count);
            literals.take(count)?;
            if first & 1 == 1 {
                let &[a, b, c] = distances.next().ok_or(WRONG)?;
                distance = u32::from_le_bytes([a, b, c, 0]) as usize;
            }
            if distance == 0 || distance > text.length - begin {
                return Err(WRONG);
            }
            text.repeat(distance, stretch);
        }
        text.put_all(literals.rest());
        let found = memchr_iter(b'\n', &text.bytes[begin..text.length]).count();
        let whole = text.length == end && rest.is_empty() && distances.len() == 0;
        if whole && found == lines { Ok(()) } else { Err(WRONG) }
    }
}

/// A growing text within preallocated bytes, followed by [`WIDE`] spare bytes that may be
/// overwritten.
struct Text {
    bytes: Vec<u8>,
    length: usize,
}

impl Text {
    fn with_room(bytes: usize) -> Text {
        Text { bytes: vec![0; bytes + WIDE], length: 0 }
    }

    fn finish(self) -> Vec<u8> {
        let Text { mut bytes, length } = self;
        bytes.truncate(length);
        bytes
    }

    #[inline]
    fn make_room(&mut self, more: usize) {
        let needed = self.length + more + WIDE;
        if needed > self.bytes.len() {
            self.bytes.resize(needed.max(self.bytes.len() * 2), 0);
        }
    }

    fn put_all(&mut self, from: &[u8]) {
        self.make_room(from.len());
        self.put(from, from.len());
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
    fn pieces_end_at_lines_and_have_half_the_bytes_at_least() {
        let check = |text: &[u8], expected: &[usize]| {
            let pieces: Vec<&[u8]> = pieces_of(text).collect();
            assert_eq!(pieces.concat(), text);
            assert_eq!(pieces.iter().map(|piece| piece.len()).collect::<Vec<_>>(), expected);
        };
        let (piece, line) = (PIECE_BYTES, 64);
        let lines = |bytes: usize| [&[b'x'; 63][..], b"\n"].concat().repeat(bytes / line);
        check(b"", &[0]);
        check(&lines(piece), &[piece]);
        check(&lines(piece + line), &[piece + line]);
        check(&lines(piece + piece / 2), &[piece + piece / 2]);
        check(&lines(piece + line + piece / 2), &[piece + line, piece / 2]);
        check(&lines(3 * piece), &[piece + line, piece + line, piece - 2 * line]);
        let long = [&lines(line)[..], &vec![b'x'; 3 * piece], b"\n", &lines(piece)].concat();
        check(&long, &[3 * piece + line + 1, piece]);
    }

    #[test]
    fn each_piece_is_put_together_by_itself() {
        let line = |i: usize| format!("line {i} of a text with many lines of one kind\n");
        let text: String = (0..20_000).map(line).collect();
        let sections = Repeats::default().encode(text.as_bytes(), None).unwrap();
        let sections = sections.each_ref().map(|section| &section[..]);
        let mut next = 0;
        let mut pieces = 0;
        decode_pieces(sections, text.len(), |lines, piece| {
            assert_eq!(lines.start, next);
            next = lines.end;
            pieces += 1;
            let expected: String = lines.map(line).collect();
            assert_eq!(piece.text().unwrap(), expected.as_bytes());
            Ok(())
        })
        .unwrap();
        assert!(next == 20_000 && pieces > 2, "{pieces}");
        assert_eq!(decode(sections, text.len()).unwrap(), text.as_bytes());
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
