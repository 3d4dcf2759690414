//! `sample N`, `drop_empty_fields` and `blocks_count`: pipes that only look at how many rows there are, or whether they have
//! anything.
//!
//! `sample` keeps each row with a chance of one in N. Empty fields are never shown, so all that is left to do for
//! `drop_empty_fields` is to leave out rows without any other. A block, for `blocks_count`, is what comes through the pipes at
//! once: the lines that a unit of the store gave, or a part of them.

use std::ops::ControlFlow;

use super::Processor;
use crate::bitmap::Bitmap;
use crate::block::{Block, MadeRow, Scratch};
use crate::run::{Next, RunError};

pub(super) struct SampleRows {
    pub one_in: u64,
}

impl Processor for SampleRows {
    fn push(
        &mut self,
        mut block: Block,
        next: &mut Next<'_, '_>,
    ) -> Result<ControlFlow<()>, RunError> {
        sample(&mut block, self.one_in);
        next.push(block)
    }
}

/// Keeps each row with a chance of one in so many.
pub(crate) fn sample(block: &mut Block, one_in: u64) {
    let mut rows = Bitmap::full(block.len());
    rows.retain(|_| fastrand::u64(..one_in) == 0);
    block.retain(&rows);
}

#[derive(Default)]
pub(super) struct DropEmpty {
    pub scratch: Scratch,
}

impl Processor for DropEmpty {
    fn push(
        &mut self,
        mut block: Block,
        next: &mut Next<'_, '_>,
    ) -> Result<ControlFlow<()>, RunError> {
        drop_empty(&mut block, &mut self.scratch);
        next.push(block)
    }
}

/// Keeps the rows that have any field.
pub(crate) fn drop_empty(block: &mut Block, scratch: &mut Scratch) {
    let mut rows = Bitmap::full(block.len());
    rows.retain(|row| {
        let mut any = false;
        block.visit(row, &[], scratch, &mut |_, _, _| any = true);
        any
    });
    block.retain(&rows);
}

pub(super) struct CountBlocks {
    pub name: String,
    pub blocks: u64,
}

impl Processor for CountBlocks {
    fn push(
        &mut self,
        block: Block,
        _next: &mut Next<'_, '_>,
    ) -> Result<ControlFlow<()>, RunError> {
        self.blocks += u64::from(!block.is_empty());
        Ok(ControlFlow::Continue(()))
    }

    fn finish(&mut self, next: &mut Next<'_, '_>) -> Result<(), RunError> {
        let mut row = MadeRow::default();
        row.push(self.name.as_str().into(), self.blocks.to_string().as_bytes());
        next.push(Block::Made(vec![row])).map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Record, check_pipe, record};

    #[test]
    fn rows_by_number() {
        let records: Vec<Record> = (0..1_000).map(|i| record(i, &[("a", "x")])).collect();
        check_pipe(&records, "sample 1 | stats count() n", &["n=1000"]);
        // One in a hundred of a thousand; none, or more than a hundred, would be a wonder.
        check_pipe(
            &records,
            "sample 100 | stats count() n | filter n:range[1, 100] | fields none",
            &[""],
        );
        check_pipe(&records, "blocks_count", &["blocks_count=1"]);
        check_pipe(&records, "blocks_count as n", &["n=1"]);
        check_pipe(&records[..1], "fields b | drop_empty_fields", &[]);
        check_pipe(&records[..1], "fields a, b | drop_empty_fields", &["a=x"]);
    }
}
