//! Fast path for rows that have the same structure as the previous row of their stem: they are
//! split with a few comparisons, without determining their shape.

use record::{Place, Row};

use super::gap::{Gap, VARIES};
use super::shape::Shape;
use super::steps::Step;
use super::{Part, Sink};
use crate::short::starts_with;

/// Rows of a folded stem that have the same layout, and every part at the same position in the
/// line; the last part extends to the end of the line. Most syslog rows resemble the previous row
/// like this, and need not be split from scratch.
pub(crate) struct Alike {
    /// The row's own parts, which are not in its stem.
    own: Vec<Part>,
    /// Index of the part that extends to the end of the line.
    last: usize,
    /// Positions and texts that the line must contain.
    texts: Vec<(u32, Vec<u8>)>,
    /// Gaps and values from left to right, each with its column; the value of part `last` is the
    /// final one.
    pieces: Vec<Piece>,
    pub(crate) layout: u32,
}

/// A part of a line that is stored in a column.
struct Piece {
    from: u32,
    to: u32,
    column: u32,
    is_gap: bool,
}

impl Alike {
    /// The template for rows like `row`, which was split by its shape; `bounds` are those of
    /// [`Shape::fits`]. `None` if the line does not end with one of the row's own values, or if
    /// values are kept apart.
    pub(super) fn of(
        row: &Row<'_>,
        shape: &Shape,
        bounds: &[(u32, u32)],
        gaps: &[Gap],
        layout: u32,
    ) -> Option<Alike> {
        let line = row.raw();
        let mut alike = Alike {
            own: row.own_places().collect(),
            last: 0,
            texts: Vec::new(),
            pieces: Vec::new(),
            layout,
        };
        let mut at = 0;
        let mut last = None;
        for ((stop, &literal), &(gap, length)) in
            shape.stops.iter().zip(&shape.literals).zip(bounds)
        {
            let (from, to) = (at + gap, at + gap + length);
            match literal {
                VARIES => {
                    let column = gaps[stop.gap as usize].column;
                    alike.pieces.push(Piece { from: at, to: from, column, is_gap: true });
                }
                _ => alike.put_text(line, at, from),
            }
            match &stop.step {
                Step::Value { part, column } => {
                    last = Some(usize::from(*part));
                    alike.pieces.push(Piece { from, to, column: *column, is_gap: false });
                }
                Step::Folded(_) => alike.put_text(line, from, to),
                Step::Open { .. } | Step::Close { .. } => {}
            }
            at = to;
        }
        let ends = alike.pieces.last().is_some_and(|p| !p.is_gap && p.to as usize == line.len());
        let own = |last: &usize| ends && shape.made.is_empty() && *last < alike.own.len();
        alike.last = last.filter(own)?;
        Some(alike)
    }

    fn put_text(&mut self, line: &[u8], from: u32, to: u32) {
        let text = &line[from as usize..to as usize];
        match self.texts.last_mut() {
            _ if text.is_empty() => {}
            Some((at, before)) if *at as usize + before.len() == from as usize => {
                before.extend_from_slice(text);
            }
            _ => self.texts.push((from, text.to_vec())),
        }
    }

    /// Whether a row of the stem has this structure.
    #[inline]
    pub(crate) fn holds(&self, row: &Row<'_>) -> bool {
        let (own, line) = (row.own_places(), row.raw());
        if own.len() != self.own.len() {
            return false;
        }
        for (index, (part, known)) in own.zip(&self.own).enumerate() {
            let (known_name, known_place, known_length) = *known;
            let (name, at, length) = part;
            let fits = match at {
                Place::Line(at) if index == self.last => {
                    (at + length) as usize == line.len() && length > 0
                }
                _ => length == known_length,
            };
            if name != known_name || at != known_place || !fits {
                return false;
            }
        }
        let stands = |(at, text): &(u32, Vec<u8>)| {
            line.get(*at as usize..).is_some_and(|rest| starts_with(rest, text))
        };
        self.texts.iter().all(stands)
    }

    /// Passes the gaps and values of a row with this structure to the sink.
    #[inline]
    pub(crate) fn split(&self, line: &[u8], sink: &mut impl Sink) {
        let Some((last, pieces)) = self.pieces.split_last() else { return };
        for piece in pieces {
            let text = &line[piece.from as usize..piece.to as usize];
            match piece.is_gap {
                true => sink.gap(piece.column, text),
                false => sink.value(piece.column, text),
            }
        }
        sink.value(last.column, &line[last.from as usize..]);
    }
}
