//! Needles: a text that is searched in values, and how it can occur in values that consist of fixed
//! pieces with slots between them.
//!
//! Templates consist of such pieces, and so do layouts of lines: fixed texts, and between them
//! slots, each with the values of a column. If the needle occurs in a fixed piece, all values
//! contain it; if it fits only within a slot, the column of the slot is searched; if it may reach
//! across the border of a slot, values have to be assembled.

use memchr::memmem::Finder;
use record::columns::{Accept, Occurrences};

/// Bytes of the longest character in UTF-8.
const CHARACTER_BYTES: usize = 4;

/// The classes of a slot whose values may have any bytes.
pub(crate) const ANY_CLASSES: u8 = 255;

/// Classes of bytes, one bit each. They summarise the bytes that occur in a slot.
pub(crate) fn class_of(byte: u8) -> u8 {
    match byte {
        b'0'..=b'9' => 1,
        b'a'..=b'f' => 2,
        b'g'..=b'z' => 4,
        b'A'..=b'F' => 8,
        b'G'..=b'Z' => 16,
        b' ' => 32,
        0x21..=0x7e => 64,
        _ => 128,
    }
}

/// The text that is searched.
pub(crate) struct Needle<'n> {
    finder: Finder<'n>,
    /// Decides whether an occurrence counts; without it all count.
    accept: Option<Accept<'n>>,
    /// Whether a value contains it just if the outline of the value does.
    by_outline: bool,
    /// The class of each of its bytes.
    classes: Vec<u8>,
}

/// How a needle can occur in a value of pieces and slots.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Answer {
    /// It occurs in a fixed piece, so in all values.
    All,
    /// It may reach across the border of a slot, so any value must be examined.
    Across,
    /// It can only occur within a slot's value.
    Within,
    None,
}

/// How the needle occurs in a fixed text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Occurrence {
    /// It occurs, whatever surrounds the text.
    Yes,
    /// It occurs, and what surrounds the text decides whether it counts.
    Perhaps,
    No,
}

impl<'n> Needle<'n> {
    pub fn new(needle: &'n [u8], accept: Option<Accept<'n>>) -> Self {
        let classes = needle.iter().map(|&b| class_of(b)).collect();
        Needle { finder: Finder::new(needle), accept, by_outline: false, classes }
    }

    /// A needle of which these occurrences count.
    pub fn of(needle: &'n [u8], occurrences: Occurrences<'n>) -> Self {
        let words = matches!(occurrences, Occurrences::Words(_));
        let by_outline = words && !needle.iter().any(u8::is_ascii_digit);
        Needle { by_outline, ..Needle::new(needle, occurrences.accept()) }
    }

    /// Whether a value contains it just if the outline of the value does: only whole words count,
    /// and no digit is in them.
    pub fn is_by_outline(&self) -> bool {
        self.by_outline
    }

    /// A needle whose every occurrence counts.
    pub fn anywhere(&self) -> Needle<'_> {
        Needle {
            finder: self.finder.as_ref(),
            accept: None,
            by_outline: false,
            classes: self.classes.clone(),
        }
    }

    pub fn bytes(&self) -> &[u8] {
        self.finder.needle()
    }

    /// Whether all its bytes are of these classes.
    pub fn is_of(&self, classes: u8) -> bool {
        self.classes.iter().all(|class| class & classes != 0)
    }

    /// Its first occurrence at or behind `from`, whether that counts or not.
    pub fn find(&self, text: &[u8], from: usize) -> Option<usize> {
        Some(from + self.finder.find(text.get(from..)?)?)
    }

    pub fn is_in(&self, value: &[u8]) -> bool {
        let mut from = 0;
        while let Some(found) = self.find(value, from) {
            if self.accepts(value, found) {
                return true;
            }
            from = found + 1;
        }
        false
    }

    /// Whether an occurrence in a part of a value counts, whatever surrounds the part.
    pub fn accepts_inside(&self, part: &[u8], at: usize) -> bool {
        let behind = part.len() - at - self.bytes().len();
        at >= CHARACTER_BYTES && behind >= CHARACTER_BYTES && self.accepts(part, at)
    }

    fn accepts(&self, text: &[u8], at: usize) -> bool {
        self.accept.is_none_or(|accept| accept(text, at))
    }

    /// How it can occur in values of these pieces, which are one more than the slots between them,
    /// given the byte classes of the slots.
    pub fn answer(&self, pieces: &[&[u8]], slots: &[u8]) -> Answer {
        debug_assert_eq!(pieces.len(), slots.len() + 1);
        let last = pieces.len() - 1;
        let standing = |(at, piece): (usize, &&[u8])| self.standing(piece, at == 0, at == last);
        let standings: Vec<Occurrence> = pieces.iter().enumerate().map(standing).collect();
        if standings.contains(&Occurrence::Yes) {
            Answer::All
        } else if standings.contains(&Occurrence::Perhaps) || self.could_reach_across(pieces, slots)
        {
            Answer::Across
        } else if slots.is_empty() {
            Answer::None
        } else {
            Answer::Within
        }
    }

    /// How it occurs in a text. `first` and `last`: whether the value begins and ends with this
    /// text.
    fn standing(&self, piece: &[u8], first: bool, last: bool) -> Occurrence {
        let length = self.bytes().len();
        let mut standing = Occurrence::No;
        let mut from = 0;
        while let Some(at) = self.find(piece, from) {
            // An ASCII byte is a whole character; of others up to three more bytes may matter.
            let (before, behind) = (&piece[..at], &piece[at + length..]);
            let known_before =
                first || before.len() >= CHARACTER_BYTES || before.last().is_some_and(u8::is_ascii);
            let known_behind =
                last || behind.len() >= CHARACTER_BYTES || behind.first().is_some_and(u8::is_ascii);
            if self.accept.is_none() {
                return Occurrence::Yes;
            }
            match known_before && known_behind {
                true if self.accepts(piece, at) => return Occurrence::Yes,
                true => {}
                false => standing = Occurrence::Perhaps,
            }
            from = at + 1;
        }
        standing
    }

    /// Whether it can occur other than within one slot or one piece, as far as the bytes of the
    /// slots are known.
    ///
    /// A state is the number of its bytes that have matched before a position between the pieces.
    pub fn could_reach_across(&self, pieces: &[&[u8]], slots: &[u8]) -> bool {
        let bytes = self.bytes();
        let length = bytes.len();
        let mut open = vec![false; length + 1];
        let mut next = vec![false; length + 1];
        for (at, piece) in pieces.iter().enumerate() {
            // A match that has begun continues through the whole piece, or ends in it.
            next.fill(false);
            for begun in (1..length).filter(|&begun| open[begun]) {
                let rest = &bytes[begun..];
                let common = rest.len().min(piece.len());
                if rest[..common] == piece[..common] {
                    if common == rest.len() {
                        return true;
                    }
                    next[begun + common] = true;
                }
            }
            for begun in 1..length.min(piece.len() + 1) {
                next[begun] |= piece.ends_with(&bytes[..begun]);
            }
            std::mem::swap(&mut open, &mut next);
            let Some(&classes) = slots.get(at) else { break };
            // A slot contains any sequence of bytes of its classes, and may be empty.
            let fits = |at: usize| self.classes[at] & classes != 0;
            for begun in 1..length {
                if open[begun] && fits(begun) {
                    open[begun + 1] = true;
                }
            }
            if open[length] {
                return true;
            }
            for begun in (0..length.saturating_sub(1)).take_while(|&begun| fits(begun)) {
                open[begun + 1] = true;
            }
        }
        false
    }
}
