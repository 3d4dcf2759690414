//! The text that all values of a column begin and end with.

use super::view::{Kind, View};

/// Texts that all values begin and end with. They do not overlap in any value, and are not
/// necessarily the longest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Edges {
    /// Common beginning.
    pub begin: Vec<u8>,
    /// Common end.
    pub end: Vec<u8>,
}

impl Edges {
    fn new(begin: &[u8], end: &[u8]) -> Edges {
        Edges { begin: begin.to_vec(), end: end.to_vec() }
    }

    /// Shortens the edges to what values with other edges share.
    fn cut_to(&mut self, other: &Edges) {
        let alike = |(a, b): &(&u8, &u8)| a == b;
        let begin = self.begin.iter().zip(&other.begin).take_while(alike).count();
        self.begin.truncate(begin);
        let end = self.end.iter().rev().zip(other.end.iter().rev()).take_while(alike).count();
        self.end.drain(..self.end.len() - end);
    }
}

/// The edges of a column's values, as far as they are static text.
pub(super) fn edges(view: &View<'_>) -> Edges {
    match &view.kind {
        Kind::Same(value) => Edges::new(value, b""),
        Kind::Digits(digits) => {
            let begin = digits.fixed().next().unwrap_or_default();
            Edges::new(begin, digits.fixed().last().unwrap_or_default())
        }
        Kind::Dictionary { values, .. } => edges(values),
        Kind::Templates(templates) => {
            let of_template = |template| {
                let mut pieces = templates.pieces(template);
                let begin = pieces.next().unwrap_or_default();
                Edges::new(begin, pieces.last().unwrap_or_default())
            };
            let mut each = templates.templates.iter().map(of_template);
            let mut edges = each.next().unwrap_or_default();
            each.for_each(|other| edges.cut_to(&other));
            edges
        }
        Kind::Hex { .. } | Kind::Lines(_) | Kind::Lengths(..) => Edges::default(),
    }
}
