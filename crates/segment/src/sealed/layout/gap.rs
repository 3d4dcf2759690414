//! The text between two fields: one of a few literals, or, once it varies, a column of its own.

use super::Sink;
use crate::short::same;

/// Number of different literals between two fields beyond which the text counts as varying.
const LITERALS_MAX: usize = 8;
/// A longer text between two fields is not a literal.
const LITERAL_BYTES_MAX: usize = 64;
/// A text between two fields with this many digits is not a literal: it is a time or a number.
const LITERAL_DIGITS_MAX: usize = 3;

/// The text is not a literal.
pub(super) const VARIES: u8 = u8::MAX;
/// There is no text.
pub(super) const NOTHING: u8 = u8::MAX - 1;

/// No row was split yet.
pub(super) const UNSEEN: u8 = u8::MAX - 2;

/// The texts seen between two fields.
pub(super) struct Gap {
    pub(super) column: u32,
    pub(super) literals: Vec<Box<[u8]>>,
    varies: bool,
}

/// Adds the text before a step. Returns whether it is another literal than in the previous row.
#[inline(always)]
pub(super) fn put(
    gaps: &mut [Gap],
    gap: u32,
    text: &[u8],
    literal: &mut u8,
    sink: &mut impl Sink,
) -> bool {
    let found = match text {
        [] => NOTHING,
        text => gaps[gap as usize].put(text, *literal, sink),
    };
    let changed = *literal != found;
    *literal = found;
    changed
}

impl Gap {
    pub(super) fn new(column: u32) -> Gap {
        Gap { column, literals: Vec::new(), varies: false }
    }

    /// Adds the text of a gap, which is not empty and mostly the literal of the previous row.
    /// Returns the number of the literal, or [`VARIES`] if the text was passed to the sink.
    #[inline]
    fn put(&mut self, text: &[u8], last: u8, sink: &mut impl Sink) -> u8 {
        if !self.varies {
            if self.literals.get(usize::from(last)).is_some_and(|literal| same(literal, text)) {
                return last;
            }
            if let Some(index) = self.literals.iter().position(|literal| same(literal, text)) {
                return index as u8;
            }
            return self.put_new(text, sink);
        }
        sink.gap(self.column, text);
        VARIES
    }

    #[cold]
    fn put_new(&mut self, text: &[u8], sink: &mut impl Sink) -> u8 {
        if !is_literal(text) || self.literals.len() >= LITERALS_MAX {
            self.varies = true;
            sink.gap(self.column, text);
            return VARIES;
        }
        self.literals.push(text.into());
        (self.literals.len() - 1) as u8
    }
}

/// Whether a text between two fields may become a literal.
pub(super) fn is_literal(text: &[u8]) -> bool {
    let digits = text.iter().filter(|b| b.is_ascii_digit()).count();
    digits <= LITERAL_DIGITS_MAX && text.len() <= LITERAL_BYTES_MAX
}
