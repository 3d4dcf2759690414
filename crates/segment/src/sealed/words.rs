//! Collects the words of a block for its filter from the block's columns instead of its lines.
//!
//! A value of a column is examined once, however many lines have it, and of a long text only the
//! parts that did not occur before ([`super::repeats`]). The words of a field that contains others
//! (the message of an access line is the whole line) are in literals and in the columns between
//! them, as long as no word can reach from one into the next because literals or gaps separate
//! them. Lines of other layouts are examined one by one.

use super::column::ColumnBuilder;
use super::layout::{ColumnKey, Element, FieldKind, Layout, Layouts};
use crate::tokens::{TokenSet, separates};

/// Collects the words of one block.
#[derive(Default)]
pub(super) struct Words {
    pub(super) set: TokenSet,
    /// Columns of gaps inside fields, by number in [`Layouts::columns`]; and whether all their
    /// values begin, and end, with a separator of words.
    gaps: Vec<(u32, (bool, bool))>,
    /// For each layout of the block, whether its lines have to be examined one by one.
    by_line: Vec<bool>,
    /// Adjacent literals, joined.
    text: Vec<u8>,
}

impl Words {
    /// Resets the state for the next block.
    pub(super) fn clear(&mut self) {
        self.set.clear();
        self.gaps.clear();
        self.by_line.clear();
    }

    /// Adds the words that all lines of the block's next layout have. `columns` are those of the
    /// block, by number in [`Layouts::columns`].
    pub(super) fn add_layout(
        &mut self,
        layout: &Layout,
        layouts: &Layouts,
        columns: &[ColumnBuilder],
    ) {
        for (_, kind) in &layout.fields {
            if let FieldKind::Shared(value) = kind {
                self.set.add(layouts.shared.get(*value));
            }
        }
        let mut all_known = true;
        for (at, element) in layout.elements.iter().enumerate() {
            let Element::Open(field) = element else { continue };
            let behind = &layout.elements[at + 1..];
            let end = behind.iter().position(|other| *other == Element::Close(*field));
            all_known &= end.is_some_and(|end| self.add_around(&behind[..end], columns));
        }
        self.by_line.push(!all_known);
    }

    /// Adds the words of a field that consists of these elements, except those in columns of
    /// fields. Returns false if words may reach from one element into the next.
    fn add_around(&mut self, elements: &[Element], columns: &[ColumnBuilder]) -> bool {
        self.text.clear();
        // Whether no word can continue from before the literals.
        let mut ended = true;
        for element in elements {
            let (starts, ends) = match element {
                Element::Literal(text) => {
                    self.text.extend_from_slice(text);
                    continue;
                }
                Element::Open(_) | Element::Close(_) => continue,
                Element::Value { .. } => (false, false),
                Element::Gap(column) => self.gap(*column, columns),
            };
            let separated = match &self.text[..] {
                [] => ended || starts,
                [first, .., last] => (ended || separates(*first)) && (separates(*last) || starts),
                [only] => separates(*only) || ended && starts,
            };
            if !separated {
                return false;
            }
            self.set.add(&self.text);
            self.text.clear();
            ended = ends;
        }
        self.set.add(&self.text);
        ended || self.text.first().is_none_or(|byte| separates(*byte))
    }

    /// Whether the values of a gap begin, and end, with a separator of words.
    fn gap(&mut self, column: u32, columns: &[ColumnBuilder]) -> (bool, bool) {
        if let Some((_, edges)) = self.gaps.iter().find(|(known, _)| *known == column) {
            return *edges;
        }
        let edges = columns[column as usize].are_separated();
        self.gaps.push((column, edges));
        edges
    }

    /// The set for the words of a column; `None` if the column is in no field.
    pub(super) fn of_column(&mut self, column: u32, key: ColumnKey) -> Option<&mut TokenSet> {
        let in_field =
            !matches!(key, ColumnKey::Gap(..)) || self.gaps.iter().any(|(gap, _)| *gap == column);
        in_field.then_some(&mut self.set)
    }

    /// Whether lines have to be examined one by one: of any layout, and of a given one.
    pub(super) fn any_by_line(&self) -> bool {
        self.by_line.contains(&true)
    }

    pub(super) fn is_by_line(&self, layout: usize) -> bool {
        self.by_line[layout]
    }
}
