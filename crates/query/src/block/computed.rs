//! Columns that pipes compute: one buffer of bytes per column, and the span of each row's value.
//!
//! A pipe fills [`Computed`] row by row and adds it to the block ([`Computed::add_to`]). Rows
//! without a new value keep their old value of that name. Lines are not copied for this, and a
//! block that loses rows later keeps the buffers.
//!
//! Limits: a value has at most [`VALUE_BYTES_MAX`] bytes, and a block for which columns are
//! computed at most [`COMPUTED_ROWS_MAX`] rows. A column therefore stays below 4 GiB.

use std::collections::HashMap;
use std::sync::Arc;

use super::{Block, Column, Layout, Scratch};
use crate::base::{Meter, RunError};

/// Longest value that a pipe makes, in bytes. A query that makes a longer one fails: a pipe that
/// puts a field twice into itself would otherwise exhaust any memory in a few steps.
pub(crate) const VALUE_BYTES_MAX: usize = 16 << 20;

/// Most rows of a block for which columns are computed; larger blocks are split.
pub(crate) const COMPUTED_ROWS_MAX: usize = 128;
/// Bytes of new values in one column of a block. Beyond it the query fails as for a too long value.
const COLUMN_BYTES_MAX: usize = 2 << 30;

/// A pipe made a value longer than [`VALUE_BYTES_MAX`].
#[derive(Debug)]
pub(crate) struct TooLong;

/// The values of a column.
#[derive(Clone, Debug)]
pub(super) struct Values {
    bytes: Arc<Vec<u8>>,
    /// Begin and end in `bytes`, for each row.
    spans: Vec<Span>,
}

type Span = (u32, u32);

impl Values {
    #[inline]
    pub fn get(&self, row: usize) -> &[u8] {
        let (begin, end) = self.spans[row];
        &self.bytes[begin as usize..end as usize]
    }

    /// Copies the rows at `picks`, each as often as it occurs there.
    pub fn repeat(&self, picks: &[u32]) -> Values {
        let spans = picks.iter().map(|&row| self.spans[row as usize]).collect();
        Values { bytes: self.bytes.clone(), spans }
    }

    /// Keeps the rows at `picks`.
    pub fn pick(&mut self, picks: impl Iterator<Item = usize>) {
        self.spans = picks.map(|row| self.spans[row]).collect();
    }

    /// Keeps `count` rows from `from` on.
    pub fn slice(&mut self, from: usize, count: usize) {
        self.spans.truncate(from.saturating_add(count));
        self.spans.drain(..from.min(self.spans.len()));
    }

    /// Copies `count` rows from `from` on.
    pub fn part(&self, from: usize, count: usize) -> Values {
        Values { bytes: self.bytes.clone(), spans: self.spans[from..][..count].to_vec() }
    }

    /// Splits off the rows from `at` on.
    pub fn split_off(&mut self, at: usize) -> Values {
        Values { bytes: self.bytes.clone(), spans: self.spans.split_off(at) }
    }
}

/// Marks a row that has no value yet.
const UNSET: Span = (u32::MAX, u32::MAX);

/// Columns that are being computed for the rows of one block.
#[derive(Debug)]
pub(crate) struct Computed {
    rows: usize,
    columns: Vec<NewColumn>,
    memory_bytes: usize,
    places: HashMap<Arc<str>, usize, foldhash::fast::RandomState>,
}

#[derive(Debug)]
struct NewColumn {
    name: Arc<str>,
    bytes: Vec<u8>,
    spans: Vec<Span>,
}

impl Computed {
    /// Columns for `rows` rows.
    pub fn new(rows: usize) -> Computed {
        Computed { rows, columns: Vec::new(), memory_bytes: 0, places: HashMap::default() }
    }

    /// The index of the column called `name`, which is created if it is missing.
    pub fn column(&mut self, name: &str) -> usize {
        if let Some(&column) = self.places.get(name) {
            return column;
        }
        let name: Arc<str> = name.into();
        self.memory_bytes += size_of::<NewColumn>() + name.len() + self.rows * size_of::<Span>();
        self.places.insert(name.clone(), self.columns.len());
        self.columns.push(NewColumn { name, bytes: Vec::new(), spans: vec![UNSET; self.rows] });
        self.columns.len() - 1
    }

    /// Sets the value of a row to what `write` appends. A later value replaces an earlier one.
    pub fn set_with(
        &mut self,
        column: usize,
        row: usize,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> Result<(), TooLong> {
        let NewColumn { bytes, spans, .. } = &mut self.columns[column];
        let begin = bytes.len();
        write(bytes);
        if bytes.len() - begin > VALUE_BYTES_MAX || bytes.len() > COLUMN_BYTES_MAX {
            return Err(TooLong);
        }
        spans[row] = span(begin, bytes.len());
        self.memory_bytes += bytes.len() - begin;
        Ok(())
    }

    /// The new value of a row, if any.
    pub fn get(&self, column: usize, row: usize) -> Option<&[u8]> {
        let NewColumn { bytes, spans, .. } = &self.columns[column];
        let (begin, end) = spans[row];
        ((begin, end) != UNSET).then(|| &bytes[begin as usize..end as usize])
    }

    /// Memory held, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.memory_bytes
    }

    /// Number of columns.
    pub fn columns(&self) -> usize {
        self.columns.len()
    }

    /// Adds the columns to a block of as many rows; they replace columns of the same names. Returns
    /// the memory that was counted for this, besides [`Computed::memory_bytes`].
    pub fn add_to(
        mut self,
        block: &mut Block,
        scratch: &mut Scratch,
        meter: &mut Meter,
    ) -> Result<usize, RunError> {
        assert_eq!(block.len(), self.rows, "the columns are of this block");
        if self.columns.is_empty() {
            return Ok(0);
        }
        let mut more = match block {
            Block::Lines(_) => self.keep_old(block, scratch, meter)?,
            // The values are copied into the rows.
            Block::Made(_) => {
                let bytes = self.columns.iter().map(|column| column.bytes.len()).sum();
                meter.take(bytes)?;
                bytes
            }
        };
        match block {
            Block::Made(rows) => {
                for NewColumn { name, bytes, spans } in &self.columns {
                    for (row, &(begin, end)) in rows.iter_mut().zip(spans) {
                        if (begin, end) != UNSET {
                            row.set_within(name, &bytes[begin as usize..end as usize])?;
                        }
                    }
                }
            }
            Block::Lines(lines) => {
                let first = lines.values.len() as u32;
                let names = self.columns.iter().map(|column| column.name.clone());
                let last = first + self.columns.len() as u32;
                let added = names.zip((first..last).map(Column::Computed));
                let (layout, counted) = match &lines.layout {
                    None => Layout::of_batch(&lines.batch).with(added, meter)?,
                    Some(layout) => layout.with(added, meter)?,
                };
                more += counted;
                lines.layout = Some(Arc::new(layout));
                for NewColumn { bytes, mut spans, .. } in self.columns {
                    spans.iter_mut().filter(|span| **span == UNSET).for_each(|s| *s = (0, 0));
                    lines.values.push(Values { bytes: Arc::new(bytes), spans });
                }
            }
        }
        Ok(more)
    }

    /// Fills in the old values of lines that got no new value. Returns the memory counted for them.
    fn keep_old(
        &mut self,
        block: &Block,
        scratch: &mut Scratch,
        meter: &mut Meter,
    ) -> Result<usize, RunError> {
        let mut counted = 0;
        for NewColumn { name, bytes, spans } in &mut self.columns {
            let old = block.column(name);
            if old == Column::Absent {
                continue;
            }
            for (row, at) in spans.iter_mut().enumerate().filter(|(_, span)| **span == UNSET) {
                let value = block.value(old, row, scratch);
                if bytes.len() + value.len() > bytes.capacity() {
                    let capacity = bytes.len() + value.len() + bytes.capacity() / 2;
                    meter.take(capacity - bytes.capacity())?;
                    counted += capacity - bytes.capacity();
                    bytes.reserve_exact(capacity - bytes.len());
                }
                let begin = bytes.len();
                bytes.extend_from_slice(value);
                if bytes.len() > COLUMN_BYTES_MAX {
                    return Err(RunError::ValueLimit(VALUE_BYTES_MAX));
                }
                *at = span(begin, bytes.len());
            }
        }
        Ok(counted)
    }
}

fn span(begin: usize, end: usize) -> Span {
    // New values end within the limit of a column, and old values come from few rows.
    let place = |at: usize| u32::try_from(at).expect("the values of a column stay below 4 GiB");
    (place(begin), place(end))
}
