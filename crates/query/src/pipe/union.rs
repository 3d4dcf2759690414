//! `union (query)`: the rows, and behind them those of another query, which is run then, within what is left of time and
//! memory. Its rows are not held. `union rows({"a":"b"}, …)`: the same with given rows.

use std::ops::ControlFlow;

use super::Processor;
use super::join::given_row;
use crate::block::Block;
use crate::query::Query;
use crate::run::{Next, RunError};

pub(super) struct UnionRows {
    pub query: Query,
    /// Nobody wants more.
    pub is_full: bool,
}

impl Processor for UnionRows {
    fn push(&mut self, block: Block, next: &mut Next<'_, '_>) -> Result<ControlFlow<()>, RunError> {
        let flow = next.push(block)?;
        self.is_full |= flow.is_break();
        Ok(flow)
    }

    fn finish(&mut self, next: &mut Next<'_, '_>) -> Result<(), RunError> {
        if self.is_full {
            return Ok(());
        }
        next.run_query(&self.query, &mut |block, next| next.push(block))
    }
}

/// The same with given rows.
pub(super) struct UnionGiven {
    pub rows: Vec<Vec<(String, String)>>,
    /// Nobody wants more.
    pub is_full: bool,
}

impl Processor for UnionGiven {
    fn push(&mut self, block: Block, next: &mut Next<'_, '_>) -> Result<ControlFlow<()>, RunError> {
        let flow = next.push(block)?;
        self.is_full |= flow.is_break();
        Ok(flow)
    }

    fn finish(&mut self, next: &mut Next<'_, '_>) -> Result<(), RunError> {
        if !self.is_full {
            let _ = next.push(Block::Made(self.rows.iter().map(|row| given_row(row)).collect()))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{check_pipe, record};

    #[test]
    fn rows_of_one_query_after_the_other() {
        let records =
            [record(1, &[("a", "x")]), record(2, &[("a", "y")]), record(3, &[("a", "z")])];
        check_pipe(&records, "filter a:y | union (a:x or a:z) | fields a", &["a=y", "a=x", "a=z"]);
        check_pipe(&records, "stats count() n | union (a:x | fields a)", &["n=3", "a=x"]);
        check_pipe(
            &records,
            "fields a | union (a:x | union (a:y) | fields a) | limit 5",
            &["a=x", "a=y", "a=z", "a=x", "a=y"],
        );
        check_pipe(
            &records,
            "fields a | limit 1 | union rows({\"a\":\"q\",\"b\":\"r\"}, {c=d})",
            &["a=x", "a=q b=r", "c=d"],
        );
        check_pipe(&records, "fields a | limit 2 | union (*) | limit 1", &["a=x"]);
        check_pipe(
            &records,
            "union (a:x) | stats by (a) count() n",
            &["a=x n=2", "a=y n=1", "a=z n=1"],
        );
    }
}
