//! The newest rows of a query, newest first: the meaning of `limit` for lines.
//!
//! Rows are ordered by event time, then by arrival (line id), so that the answer does not depend on
//! the order in which units are read. At most twice the limit of copied rows is held.

use std::cmp::Reverse;

use record::LineId;

use crate::base::{Meter, RowKey, RunError};
use crate::block::{Block, MadeRow, Scratch};

/// Collects the newest `limit` rows.
pub(crate) struct Newest {
    limit: usize,
    rows: Vec<Entry>,
    /// Once enough rows are held, only newer rows than this are taken.
    threshold: Option<(i64, LineId)>,
}

struct Entry {
    key: (i64, LineId),
    row: MadeRow,
}

/// Rows held beyond the limit before the oldest are dropped.
const SPARE_ROWS: usize = 1_024;

impl Newest {
    pub fn new(limit: usize) -> Newest {
        Newest { limit, rows: Vec::new(), threshold: None }
    }

    /// Rows older than this can no longer be taken.
    pub fn oldest_wanted_ns(&self) -> i64 {
        self.threshold.map_or(i64::MIN, |(time_ns, _)| time_ns)
    }

    /// Takes the rows of a block of lines that are new enough, with the hidden fields of `include`.
    pub fn add(
        &mut self,
        block: &Block,
        include: &[String],
        meter: &mut Meter,
        scratch: &mut Scratch,
    ) -> Result<(), RunError> {
        // Lines are mostly in order of time. Read backwards, few of them are copied and later
        // dropped.
        for row in (0..block.len()).rev() {
            let key = block.line_key(row).expect("row-wise pipes hand lines on as lines");
            if self.threshold.is_some_and(|threshold| key <= threshold) {
                continue;
            }
            let copy = block.copy_row(row, include, scratch, meter)?;
            self.rows.push(Entry { key, row: copy });
            if self.rows.len() >= self.limit.saturating_mul(2).saturating_add(SPARE_ROWS) {
                self.trim(meter);
            }
        }
        if self.rows.len() >= self.limit {
            self.trim(meter);
        }
        Ok(())
    }

    /// Keeps the newest `limit` rows. More than `limit` rows must be held.
    fn trim(&mut self, meter: &mut Meter) {
        if self.limit == 0 || self.rows.is_empty() {
            return;
        }
        let last = self.limit.min(self.rows.len()) - 1;
        self.rows.select_nth_unstable_by_key(last, |entry| Reverse(entry.key));
        let gone: usize = self.rows[last + 1..].iter().map(|e| e.row.memory_bytes()).sum();
        meter.give_back(gone);
        self.rows.truncate(last + 1);
        if self.rows.len() == self.limit {
            self.threshold = Some(self.rows[last].key);
        }
    }

    /// The rows with their keys, newest first.
    pub fn take(&mut self) -> (Vec<MadeRow>, Vec<RowKey>) {
        self.rows.sort_unstable_by_key(|entry| Reverse(entry.key));
        self.rows.truncate(self.limit);
        let key = |(time_ns, id)| RowKey { time_ns, id };
        let rows = std::mem::take(&mut self.rows).into_iter();
        rows.map(|entry| (entry.row, key(entry.key))).unzip()
    }
}
