//! Collects the words of a block that is being written, for its filter, from its columns instead of
//! its lines.
//!
//! A value of a column is looked at once, however many lines have it, and of a long text only what
//! did not stand before ([`super::repeats`]). A field that stands around others (the message of an
//! access line is the whole line) has its words in literals and in the columns between, as long as
//! no word can reach from one into the next: where literals, or the text between two fields,
//! separate them. The lines of other layouts are looked at one by one.

use super::column::ColumnBuilder;
use super::layout::{ColumnKey, Element, FieldKind, Layout, Layouts};
use crate::tokens::{TokenSet, separates};

/// Collects the words of one block.
#[derive(Default)]
pub(super) struct Words {
    pub(super) set: TokenSet,
    /// Columns of the text between fields that stand in fields around them, by number in
    /// [`Layouts::columns`]; and whether all their values begin, and end, with what separates
    /// words.
    gaps: Vec<(u32, (bool, bool))>,
    /// By number of a layout in the block, whether its lines have to be looked at.
    by_line: Vec<bool>,
    /// Literals that stand together.
    text: Vec<u8>,
}

impl Words {
    /// Forgets the block before.
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

    /// Adds the words of a field that these put together, but for those of columns of fields. False
    /// when words may reach from one into the next.
    fn add_around(&mut self, elements: &[Element], columns: &[ColumnBuilder]) -> bool {
        self.text.clear();
        // Whether nothing goes on from what stands before the literals.
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

    /// Whether the values of the text between two fields begin, and end, with what separates words.
    fn gap(&mut self, column: u32, columns: &[ColumnBuilder]) -> (bool, bool) {
        if let Some((_, edges)) = self.gaps.iter().find(|(known, _)| *known == column) {
            return *edges;
        }
        let edges = columns[column as usize].are_separated();
        self.gaps.push((column, edges));
        edges
    }

    /// Where the words of a column go; none where it stands in no field.
    pub(super) fn of_column(&mut self, column: u32, key: ColumnKey) -> Option<&mut TokenSet> {
        let in_field =
            !matches!(key, ColumnKey::Gap(..)) || self.gaps.iter().any(|(gap, _)| *gap == column);
        in_field.then_some(&mut self.set)
    }

    /// Whether there are lines that have to be looked at, all in all and of one layout.
    pub(super) fn any_by_line(&self) -> bool {
        self.by_line.contains(&true)
    }

    pub(super) fn is_by_line(&self, layout: usize) -> bool {
        self.by_line[layout]
    }
}
