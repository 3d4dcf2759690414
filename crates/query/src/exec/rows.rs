//! The rows that a run hands to its client.

use std::sync::Arc;

use record::Batch;

use crate::base::RowKey;
use crate::base::names::LINE;
use crate::block::{Block, Scratch};

/// Rows for the client: a small block of them.
#[derive(Debug)]
pub struct ResultRows {
    pub(super) block: Block,
    pub(super) include: Arc<[String]>,
    /// The key of each row, where rows come in the order of keys; else empty.
    pub(super) keys: Vec<RowKey>,
}

impl ResultRows {
    pub(crate) fn new(block: Block, include: Arc<[String]>) -> ResultRows {
        ResultRows { block, include, keys: Vec::new() }
    }

    /// Position of the last row in the order of time, to resume behind with
    /// [`crate::base::TimeOrder::after`]. None where rows do not come in that order.
    pub fn last_key(&self) -> Option<RowKey> {
        self.keys.last().copied()
    }

    pub(crate) fn block(&self) -> &Block {
        &self.block
    }

    pub(crate) fn into_block(self) -> Block {
        self.block
    }

    /// Position of row `index` in the order of time; none where rows come in another order.
    pub fn key(&self, index: usize) -> Option<RowKey> {
        self.keys.get(index).copied()
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.block.len()
    }

    /// Whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Calls `each` with the name and value of every field of row `index` that is not empty:
    /// `_time`, `_stream`, `_msg` and the line's other fields, or those that pipes made, in their
    /// order; then the computed fields of [`crate::lang::context::Context::include`].
    pub fn visit(&self, index: usize, scratch: &mut Scratch, mut each: impl FnMut(&str, &[u8])) {
        self.block.visit(index, &self.include, scratch, &mut |name, value, _| each(name, value));
    }

    /// Bytes to reserve for row `index` as a line of JSON; close to exact where that is large.
    pub fn text_bytes(&self, index: usize, scratch: &mut Scratch) -> usize {
        self.block.text_bytes(index, &self.include, scratch)
    }

    /// The line as it was sent. None for rows that pipes made, and for rows that had to be kept
    /// when [`crate::lang::context::Context::include`] does not name `_line`.
    pub fn raw(&self, index: usize) -> Option<&[u8]> {
        match &self.block {
            Block::Lines(lines) => Some(lines.batch.row(lines.rows[index] as usize).raw()),
            Block::Made(rows) => rows[index].stored(LINE),
        }
    }

    /// Calls `each` with the index of a row, the place of a name in `names`, and the value of that
    /// field, for the rows at `indexes` and all names, in their order. A value is empty when the
    /// row has none. The names are looked up once.
    pub fn visit_columns<'n>(
        &self,
        indexes: &[usize],
        names: impl IntoIterator<Item = &'n str>,
        scratch: &mut Scratch,
        mut each: impl FnMut(usize, usize, &[u8]),
    ) {
        let columns: Vec<_> = names.into_iter().map(|name| self.block.column(name)).collect();
        for &index in indexes {
            for (place, column) in columns.iter().enumerate() {
                each(index, place, self.block.value(*column, index, scratch));
            }
        }
    }

    /// The batch of a row that is still a line, and its index there.
    pub fn line(&self, index: usize) -> Option<(&Arc<Batch>, u32)> {
        match &self.block {
            Block::Lines(lines) => Some((&lines.batch, lines.rows[index])),
            Block::Made(_) => None,
        }
    }

    /// The value of the field `name` in row `index`; empty when the row has none. Looks the name up
    /// on each call, so use it for few rows only.
    pub fn get<'a>(&'a self, index: usize, name: &str, scratch: &'a mut Scratch) -> &'a [u8] {
        let column = self.block.column(name);
        self.block.value(column, index, scratch)
    }
}
