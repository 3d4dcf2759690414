//! Rows by series: groups of rows with equal values of some fields, each in the order of time.
//!
//! All rows are held in the query's memory. Groups come in the order of their values. Within a
//! group, rows come by `_time`, those without a time last, equal ones as their
//! lines arrived.

use std::collections::HashMap;

use super::sort::{Arrival, compare_groups};
use super::tuples;
use crate::base::{Buffer, CHECK_ROWS, RunError};
use crate::block::{BLOCK_ROWS_MAX, Block, Column, MadeRow, Scratch};
use crate::lang::pipe::Next;

/// The field that orders rows.
pub(super) const TIME: &str = "_time";

/// Bytes of rows that are handed on at a time, unless one row has more.
const BLOCK_BYTES_MAX: usize = 4 << 20;

/// A row with its time, nanoseconds since 1970 UTC.
pub(super) type TimedRow = (Option<i64>, MadeRow);

/// A row that is held, with its arrival.
type Held = (Arrival, TimedRow);

type Groups = HashMap<Box<[u8]>, Vec<Held>, foldhash::fast::RandomState>;

/// Rows that are collected by series.
pub(super) struct TimedRows {
    by: Vec<String>,
    carried: Vec<String>,
    groups: Groups,
    rows: u64,
    scratch: Scratch,
}

impl TimedRows {
    /// Collects rows by the values of `by`; `carried` are hidden fields that copies of rows keep.
    pub fn new(by: &[String], carried: &[String]) -> TimedRows {
        TimedRows {
            by: by.to_vec(),
            carried: carried.to_vec(),
            groups: Groups::default(),
            rows: 0,
            scratch: Scratch::default(),
        }
    }

    /// Collects the rows of a block.
    pub fn push(&mut self, block: &Block, next: &mut Next<'_>) -> Result<(), RunError> {
        let by: Vec<Column<'_>> = self.by.iter().map(|name| block.column(name)).collect();
        let time = block.column(TIME);
        let mut key = Buffer::default();
        for row in 0..block.len() {
            if row % CHECK_ROWS == CHECK_ROWS - 1 {
                next.check()?;
            }
            key.clear(next.meter());
            for &column in &by {
                let value = block.value(column, row, &mut self.scratch);
                tuples::put_part(value, &mut key, next.meter())?;
            }
            let time_ns = block.time_ns(time, row, &mut self.scratch);
            let arrived = Arrival::of(block, row, next.unit, self.rows);
            self.rows += 1;
            let row = block.copy_row(row, &self.carried, &mut self.scratch, next.meter())?;
            match self.groups.get_mut(key.bytes()) {
                Some(rows) => {
                    next.meter().take(size_of::<Held>())?;
                    rows.push((arrived, (time_ns, row)));
                }
                None => {
                    let key = key.bytes();
                    let bytes = size_of::<Held>() + key.len() + tuples::ENTRY_BYTES;
                    next.meter().take(bytes)?;
                    self.groups.insert(key.into(), vec![(arrived, (time_ns, row))]);
                }
            }
        }
        Ok(())
    }

    /// The greatest time of all rows.
    pub fn last_time_ns(&self) -> Option<i64> {
        self.groups.values().flatten().filter_map(|(_, (time_ns, _))| *time_ns).max()
    }

    /// Hands on all rows, one group after the other. Before, `change` gets the rows of each group
    /// in their order; it counts the memory that rows gain.
    pub fn finish(
        &mut self,
        next: &mut Next<'_>,
        mut change: impl FnMut(&mut Vec<TimedRow>, &mut Next<'_>) -> Result<(), RunError>,
    ) -> Result<(), RunError> {
        let mut groups = tuples::taken_out(&mut self.groups, next.meter())?;
        groups.sort_unstable_by(|a, b| compare_groups(&a.0, &b.0));
        let (mut out, mut held, mut held_now) = (Vec::new(), 0_usize, 0_usize);
        for (_, mut rows) in groups {
            next.check()?;
            rows.sort_unstable_by_key(|(arrived, (time_ns, _))| {
                (time_ns.is_none(), *time_ns, *arrived)
            });
            let mut rows: Vec<TimedRow> = rows.into_iter().map(|(_, row)| row).collect();
            change(&mut rows, next)?;
            for (_, row) in rows {
                held += row.memory_bytes() + size_of::<Held>();
                held_now = held_now.saturating_add(row.memory_bytes());
                out.push(row);
                if out.len() == BLOCK_ROWS_MAX || held_now > BLOCK_BYTES_MAX {
                    held_now = 0;
                    let flow = next.push(Block::Made(std::mem::take(&mut out)))?;
                    next.meter().give_back(std::mem::take(&mut held));
                    if flow.is_break() {
                        return Ok(());
                    }
                    next.check()?;
                }
            }
        }
        let _ = next.push(Block::Made(out))?;
        next.meter().give_back(held);
        Ok(())
    }
}
