//! Writes rows in the order of their numbers: every thread takes the next batch.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{Expect, Opening, Request, Step, Steps};
use crate::driver::Operation;
use crate::row::Row;

/// The numbers of rows that are still to be written; clones share them.
#[derive(Debug, Clone)]
pub struct Numbers {
    next: Arc<AtomicU64>,
    end: u64,
    batch_rows: u64,
}

impl Numbers {
    /// From `first` to before `end`.
    pub fn new(first: u64, end: u64, batch_rows: u32) -> Numbers {
        let batch_rows = u64::from(batch_rows.max(1));
        Numbers { next: Arc::new(AtomicU64::new(first)), end, batch_rows }
    }

    /// This generator's part of 1 to `records`.
    pub fn share(records: u64, opening: &Opening) -> Numbers {
        let (first, end) = opening.share.range(records);
        Numbers::new(first + 1, end + 1, opening.batch_rows)
    }

    /// The next batch; `None` when there are no more.
    pub fn take(&self) -> Option<Range<u64>> {
        let from = self.next.fetch_add(self.batch_rows, Ordering::Relaxed);
        let to = self.end.min(from.saturating_add(self.batch_rows));
        (from < to).then_some(from..to)
    }

    /// A request that writes the rows of a batch.
    pub fn insert(&self, batch: Range<u64>, row: impl Fn(u64) -> Row) -> Request {
        let operation = match self.batch_rows {
            1 => Operation::Insert(row(batch.start)),
            _ => Operation::InsertMany(batch.map(row).collect()),
        };
        Request { label: super::insert_label(&operation), operation, expect: Expect::Done }
    }
}

/// The steps of one thread that writes rows.
pub struct Writing<F> {
    /// What is still to be written.
    pub numbers: Numbers,
    /// Makes the row of a number.
    pub row: F,
}

impl<F> Steps for Writing<F>
where
    F: Fn(u64) -> Row + Send,
{
    fn next(&mut self) -> Option<Step> {
        let batch = self.numbers.take()?;
        Some(Step::one(self.numbers.insert(batch, &self.row)))
    }
}
