//! Which slots share a column: those with the same texts and slots before them.
//!
//! So the time that all lines begin with is one column whatever the lines go on to say, in order of
//! the rows, and steady as it was in the log. Encoder and decoder number the columns by the same
//! rule and store nothing.

use std::collections::HashMap;

use foldhash::fast::FixedState;

/// Numbers columns by the way of pieces that leads to them.
#[derive(Default)]
pub(super) struct Trie {
    /// The column before, none at the beginning, and the text behind it.
    columns: HashMap<(Option<u32>, Vec<u8>), u32, FixedState>,
    parents: Vec<Option<u32>>,
}

impl Trie {
    /// The columns of a template's slots. Those that no template before had get the next numbers.
    pub fn columns<'p>(&mut self, pieces: impl ExactSizeIterator<Item = &'p [u8]>) -> Vec<u32> {
        let slots = pieces.len().saturating_sub(1);
        let mut before = None;
        let mut columns = Vec::with_capacity(slots);
        for piece in pieces.take(slots) {
            let next = self.parents.len() as u32;
            let column = *self.columns.entry((before, piece.to_vec())).or_insert(next);
            if column == next {
                self.parents.push(before);
            }
            columns.push(column);
            before = Some(column);
        }
        columns
    }

    /// How many columns there are.
    pub fn len(&self) -> usize {
        self.parents.len()
    }
}
