//! Decides which slots share a column: those with the same texts and slots before them.
//!
//! So the time at the beginning of all lines is one column whatever follows it, in the order of the
//! rows, and grows as steadily as in the log. Encoder and decoder number the columns by the same
//! rule, so nothing is stored for this.

use std::collections::HashMap;

use foldhash::fast::FixedState;

/// Numbers columns by the path of pieces that leads to them.
#[derive(Default)]
pub(super) struct Trie {
    /// Keyed by the previous column (`None` at the beginning) and the text behind it.
    columns: HashMap<(Option<u32>, Vec<u8>), u32, FixedState>,
    parents: Vec<Option<u32>>,
}

impl Trie {
    /// The columns of a template's slots. New columns get the next numbers.
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

    /// The number of columns.
    pub fn len(&self) -> usize {
        self.parents.len()
    }
}
