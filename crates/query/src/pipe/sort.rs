//! `sort by (a desc, b) [desc] [limit N] [offset N]`: rows in the order of values.
//!
//! Rows are copied, so that a few rows do not hold their batches in memory. With a limit at most twice that
//! many are held; without, all of them, up to the memory limit of queries. Equal rows stay in the order they
//! came in.

use std::cmp::Ordering;
use std::fmt;
use std::ops::ControlFlow;

use super::{Processor, limit::parse_count};
use crate::block::{BLOCK_ROWS_MAX, Block, Column, MadeRow, Scratch};
use crate::cursor::{Cursor, quote_name};
use crate::error::ParseError;
use crate::number::{Kind, compare_kinds};
use crate::run::{CHECK_ROWS, Meter, Next, RunError};

/// The `sort` pipe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sort {
    /// By what; first key first.
    pub keys: Vec<SortKey>,
    /// Rows that are left out at the beginning.
    pub offset: u64,
    /// Rows that are kept.
    pub limit: Option<u64>,
}

/// A field to sort by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SortKey {
    /// Its name.
    pub name: String,
    /// Whether big values come first.
    pub descending: bool,
}

pub(super) fn parse(cursor: &mut Cursor<'_>) -> Result<Sort, ParseError> {
    cursor.eat_keyword("by");
    let mut sort = Sort { keys: Vec::new(), offset: 0, limit: None };
    if cursor.eat('(') {
        while !cursor.eat(')') {
            let name = cursor.expect_string(false, "a field name")?.text;
            let descending = parse_direction(cursor);
            sort.keys.push(SortKey { name, descending });
            if !cursor.eat(',') {
                cursor.expect(')', "the fields to sort by")?;
                break;
            }
        }
    }
    if parse_direction(cursor) {
        sort.keys.iter_mut().for_each(|key| key.descending = !key.descending);
        if sort.keys.is_empty() {
            sort.keys.push(SortKey { name: "_time".to_owned(), descending: true });
        }
    }
    if sort.keys.is_empty() {
        sort.keys.push(SortKey { name: "_time".to_owned(), descending: false });
    }
    loop {
        if cursor.eat_keyword("limit") {
            sort.limit = Some(parse_count(cursor, None)?);
        } else if cursor.eat_keyword("offset") {
            sort.offset = parse_count(cursor, None)?;
        } else {
            return Ok(sort);
        }
    }
}

fn parse_direction(cursor: &mut Cursor<'_>) -> bool {
    let descending = cursor.eat_keyword("desc");
    if !descending {
        cursor.eat_keyword("asc");
    }
    descending
}

impl fmt::Display for Sort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = |k: &SortKey| {
            format!("{}{}", quote_name(&k.name), if k.descending { " desc" } else { "" })
        };
        let keys: Vec<String> = self.keys.iter().map(key).collect();
        write!(f, "sort by ({})", keys.join(", "))?;
        if self.offset > 0 {
            write!(f, " offset {}", self.offset)?;
        }
        self.limit.map_or(Ok(()), |limit| write!(f, " limit {limit}"))
    }
}

pub(super) struct Sorter {
    sort: Sort,
    carried: Vec<String>,
    entries: Vec<Entry>,
    arrived: u64,
    /// Entries from which on only the first ones are kept.
    entries_max: usize,
    /// Rows behind this one cannot get in any more.
    threshold: Option<Entry>,
    scratch: Scratch,
}

#[derive(Clone)]
struct Entry {
    keys: Vec<(Kind, Box<[u8]>)>,
    arrived: u64,
    row: MadeRow,
}

impl Entry {
    fn memory_bytes(&self) -> usize {
        let keys: usize =
            self.keys.iter().map(|(_, key)| key.len() + size_of::<(Kind, Box<[u8]>)>()).sum();
        keys + size_of::<Entry>() - size_of::<MadeRow>() + self.row.memory_bytes()
    }
}

/// Rows collected beside the limit before the last ones are thrown away.
const SPARE_ROWS: usize = 1_024;

impl Sorter {
    pub fn new(sort: &Sort, carried: &[String]) -> Sorter {
        let kept = sort.limit.map(|limit| limit.saturating_add(sort.offset));
        let kept = kept.map_or(usize::MAX, |kept| usize::try_from(kept).unwrap_or(usize::MAX));
        Sorter {
            sort: sort.clone(),
            carried: carried.to_vec(),
            entries: Vec::new(),
            arrived: 0,
            entries_max: kept.saturating_mul(2).saturating_add(SPARE_ROWS),
            threshold: None,
            scratch: Scratch::default(),
        }
    }

    fn kept(&self) -> usize {
        let limit = self.sort.limit.unwrap_or(u64::MAX);
        usize::try_from(limit.saturating_add(self.sort.offset)).unwrap_or(usize::MAX)
    }

    fn add(
        &mut self,
        block: &Block,
        row: usize,
        columns: &[Column<'_>],
        meter: &mut Meter,
    ) -> Result<(), RunError> {
        if let Some(threshold) = &self.threshold {
            let ordering =
                compare_row(&self.sort.keys, columns, block, row, threshold, &mut self.scratch);
            if ordering.is_ge() {
                return Ok(());
            }
        }
        let mut keys = Vec::with_capacity(columns.len());
        for &column in columns {
            let value = block.value(column, row, &mut self.scratch);
            keys.push((Kind::of(value), value.into()));
        }
        let row = block.copy_row(row, &self.carried, &mut self.scratch);
        let entry = Entry { keys, arrived: self.arrived, row };
        self.arrived += 1;
        meter.take(entry.memory_bytes())?;
        self.entries.push(entry);
        if self.entries.len() >= self.entries_max {
            self.trim(meter);
        }
        Ok(())
    }

    fn trim(&mut self, meter: &mut Meter) {
        let kept = self.kept();
        let keys = &self.sort.keys;
        self.entries.sort_unstable_by(|a, b| compare_entries(keys, a, b));
        let gone = self.entries.drain(kept.min(self.entries.len())..);
        meter.give_back(gone.map(|e| e.memory_bytes()).sum());
        self.threshold =
            self.entries.last().map(|last| Entry { row: MadeRow::default(), ..last.clone() });
    }
}

/// The order of a row of a block and a kept one; a new row comes behind equal ones.
fn compare_row(
    keys: &[SortKey],
    columns: &[Column<'_>],
    block: &Block,
    row: usize,
    kept: &Entry,
    scratch: &mut Scratch,
) -> Ordering {
    for ((key, &column), (kind, kept)) in keys.iter().zip(columns).zip(&kept.keys) {
        let value = block.value(column, row, scratch);
        let ordering = compare_kinds((Kind::of(value), value), (*kind, kept));
        if ordering.is_ne() {
            return if key.descending { ordering.reverse() } else { ordering };
        }
    }
    Ordering::Greater
}

fn compare_entries(keys: &[SortKey], a: &Entry, b: &Entry) -> Ordering {
    for (key, (a, b)) in keys.iter().zip(a.keys.iter().zip(&b.keys)) {
        let ordering = compare_kinds((a.0, &a.1), (b.0, &b.1));
        if ordering.is_ne() {
            return if key.descending { ordering.reverse() } else { ordering };
        }
    }
    a.arrived.cmp(&b.arrived)
}

impl Processor for Sorter {
    fn push(&mut self, block: Block, next: &mut Next<'_, '_>) -> Result<ControlFlow<()>, RunError> {
        if self.kept() == 0 {
            return Ok(ControlFlow::Break(()));
        }
        let keys = self.sort.keys.clone();
        let columns: Vec<Column<'_>> = keys.iter().map(|key| block.column(&key.name)).collect();
        for row in 0..block.len() {
            if row % CHECK_ROWS == CHECK_ROWS - 1 {
                next.check()?;
            }
            self.add(&block, row, &columns, next.meter())?;
        }
        Ok(ControlFlow::Continue(()))
    }

    fn finish(&mut self, next: &mut Next<'_, '_>) -> Result<(), RunError> {
        self.trim(next.meter());
        let entries = std::mem::take(&mut self.entries);
        let skipped = usize::try_from(self.sort.offset).unwrap_or(usize::MAX);
        let mut entries = entries.into_iter().skip(skipped).peekable();
        while entries.peek().is_some() {
            let (mut bytes, mut rows) = (0, Vec::new());
            for entry in entries.by_ref().take(BLOCK_ROWS_MAX) {
                bytes += entry.memory_bytes();
                rows.push(entry.row);
            }
            let flow = next.push(Block::Made(rows))?;
            next.meter().give_back(bytes);
            if flow.is_break() {
                break;
            }
        }
        Ok(())
    }
}
