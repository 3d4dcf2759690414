//! Rows that were counted without being read: each stands for many lines.

use std::collections::HashMap;
use std::sync::Arc;

use record::columns::{FieldColumn, Kind, ValueCounts};

use super::{Block, MadeRow};

/// Rows that stand for many lines each.
#[derive(Debug)]
pub(crate) struct Weighted {
    /// The rows.
    pub block: Block,
    /// Number of lines that each row stands for.
    pub lines: Vec<u64>,
    /// The time of each row, nanoseconds since 1970 UTC, equal to its time as text; empty where
    /// the times are not known.
    pub times_ns: Vec<i64>,
}

impl Weighted {
    /// A row without fields that stands for `lines` lines.
    pub fn of_lines(lines: u64) -> Weighted {
        let block = Block::Made(vec![MadeRow::default()]);
        Weighted { block, lines: vec![lines], times_ns: Vec::new() }
    }

    /// A row for each value of a field, which stands for the lines that have it.
    pub fn of_values(name: &str, counts: ValueCounts) -> Weighted {
        let name: Arc<str> = name.into();
        let (mut rows, mut lines) = (Vec::with_capacity(counts.len()), Vec::new());
        for (value, count) in counts {
            let mut row = MadeRow::default();
            row.push(name.clone(), &value);
            rows.push(row);
            lines.push(count);
        }
        Weighted { block: Block::Made(rows), lines, times_ns: Vec::new() }
    }

    /// A row for each kind of lines, which has a value of each field that these have. The values
    /// themselves are not known.
    pub fn of_kinds(kinds: Vec<Kind<'_>>) -> Weighted {
        let (mut rows, mut lines) = (Vec::with_capacity(kinds.len()), Vec::new());
        let mut names: HashMap<&str, Arc<str>> = HashMap::new();
        for (fields, count) in kinds {
            let mut row = MadeRow::default();
            for field in fields {
                let name = names.entry(field).or_insert_with(|| field.into());
                row.push(name.clone(), b"*");
            }
            rows.push(row);
            lines.push(count);
        }
        Weighted { block: Block::Made(rows), lines, times_ns: Vec::new() }
    }

    /// Memory held, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.block.memory_bytes()
            + self.lines.len() * size_of::<u64>()
            + self.times_ns.len() * size_of::<i64>()
            + size_of::<Self>()
    }
}

/// Values of a field, with the number of rows of each. A value may occur several times.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// The values, one behind the other, separated by `gap` bytes; `ends` has the end of each.
    text: Vec<u8>,
    gap: usize,
    ends: Vec<u32>,
    /// Rows that have each value; none: one row each.
    pub lines_of_each: Option<Vec<u32>>,
}

impl Tally {
    /// Number of values.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Memory held, in bytes.
    pub fn memory_bytes(&self) -> usize {
        let lines = self.lines_of_each.as_ref().map_or(0, |lines| lines.len() * size_of::<u32>());
        self.text.len() + self.ends.len() * size_of::<u32>() + lines
    }

    /// The value at index `place`.
    #[inline]
    pub fn value(&self, place: usize) -> &[u8] {
        let from = place.checked_sub(1).map_or(0, |before| self.ends[before] as usize + self.gap);
        &self.text[from..self.ends[place] as usize]
    }

    /// Rows that have the value at index `place`.
    #[inline]
    pub fn lines(&self, place: usize) -> u64 {
        self.lines_of_each.as_ref().map_or(1, |lines| u64::from(lines[place]))
    }

    /// The values of a column in which each row has its own.
    pub fn of_each(column: &FieldColumn<'_>) -> Tally {
        let (text, ends) = (column.text().to_vec(), column.ends().to_vec());
        Tally { text, gap: column.gap(), ends, lines_of_each: None }
    }

    /// Appends a value.
    pub fn push(&mut self, value: &[u8]) {
        self.text.extend_from_slice(value);
        self.ends.push(self.text.len() as u32);
    }
}
