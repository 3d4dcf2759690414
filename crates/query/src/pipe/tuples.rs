//! Counts of different tuples of values: what `uniq` and `top` keep.
//!
//! A tuple is kept as one string of bytes: each value behind its length.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use crate::block::{Block, Column, Scratch};
use crate::run::{CHECK_ROWS, Meter, Next, RunError};

/// Memory of an entry beside its bytes, about.
pub(crate) const ENTRY_BYTES: usize = 56;

/// Different tuples with the number of rows that have them.
#[derive(Default)]
pub(crate) struct Tuples {
    hits: HashMap<Box<[u8]>, u64, foldhash::fast::RandomState>,
    key: Vec<u8>,
    scratch: Scratch,
}

impl Tuples {
    pub fn len(&self) -> usize {
        self.hits.len()
    }

    /// Adds hits to the tuple of a row. With `only_known`, one that is not there yet is left out.
    pub fn count(
        &mut self,
        block: &Block,
        row: usize,
        columns: &[Column<'_>],
        added: u64,
        only_known: bool,
        meter: &mut Meter,
    ) -> Result<(), RunError> {
        self.key.clear();
        for &column in columns {
            write_part(block.value(column, row, &mut self.scratch), &mut self.key);
        }
        if let Some(hits) = self.hits.get_mut(self.key.as_slice()) {
            *hits += added;
        } else if !only_known {
            meter.take(self.key.len() + ENTRY_BYTES)?;
            self.hits.insert(self.key.as_slice().into(), added);
        }
        Ok(())
    }

    /// Adds the hits of another one of the same fields.
    pub fn merge(&mut self, mut other: Tuples, next: &mut Next<'_, '_>) -> Result<(), RunError> {
        if self.hits.len() < other.hits.len() {
            std::mem::swap(&mut self.hits, &mut other.hits);
        }
        for (number, (tuple, hits)) in other.hits.into_iter().enumerate() {
            if number % CHECK_ROWS == CHECK_ROWS - 1 {
                next.check()?;
            }
            // What both have is held once from here on.
            let bytes = tuple.len() + ENTRY_BYTES;
            match self.hits.entry(tuple) {
                Entry::Occupied(mut known) => {
                    *known.get_mut() += hits;
                    next.meter().give_back(bytes);
                }
                Entry::Vacant(new) => {
                    new.insert(hits);
                }
            }
        }
        Ok(())
    }

    /// The tuples, most hits first, then by the bytes of their values.
    pub fn take(&mut self) -> Vec<(Box<[u8]>, u64)> {
        self.take_first(usize::MAX)
    }

    /// The first `count` of them.
    pub fn take_first(&mut self, count: usize) -> Vec<(Box<[u8]>, u64)> {
        let mut tuples: Vec<_> = std::mem::take(&mut self.hits).into_iter().collect();
        let order = |a: &(Box<[u8]>, u64), b: &(Box<[u8]>, u64)| {
            b.1.cmp(&a.1).then_with(|| parts(&a.0).cmp(parts(&b.0)))
        };
        if count == 0 {
            return Vec::new();
        }
        if count < tuples.len() {
            tuples.select_nth_unstable_by(count - 1, order);
            tuples.truncate(count);
        }
        tuples.sort_unstable_by(order);
        tuples
    }
}

/// Appends a value behind its length.
#[inline]
pub(crate) fn write_part(value: &[u8], key: &mut Vec<u8>) {
    key.extend_from_slice(&(value.len() as u32).to_le_bytes());
    key.extend_from_slice(value);
}

/// The values of a tuple.
pub(crate) fn parts(mut key: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (length, rest) = key.split_first_chunk::<4>()?;
        let (value, rest) = rest.split_at(u32::from_le_bytes(*length) as usize);
        key = rest;
        Some(value)
    })
}
