//! Counts of distinct tuples of values, for `uniq` and `top`.
//!
//! A tuple of several values is stored as one byte string: each value behind its length. The tuple
//! of a single field is the value alone.

use std::cmp::Ordering;
use std::collections::HashMap;

use super::byte_table::{ByteTable, TOGETHER, hash_of};
use crate::base::partial_state::{Decoder, Encoder, wrong_state};
use crate::base::sorted::Sorted;
use crate::base::{Buffer, CHECK_ROWS, Meter, RunError};
use crate::block::{Block, Column, Scratch, Tally};
use crate::lang::pipe::Next;

/// Approximate memory of an entry of a standard hash table besides its bytes.
pub(crate) const ENTRY_BYTES: usize = 56;

/// An entry of a hash table: its key and its value.
pub(crate) type TupleEntry<V> = (Box<[u8]>, V);

/// Takes the entries out of a hash table, in no order, and frees the table. The memory of the list
/// is counted while both exist. Afterwards the bytes that were counted for the table cover the
/// list.
pub(crate) fn taken_out<V>(
    table: &mut HashMap<Box<[u8]>, V, foldhash::fast::RandomState>,
    meter: &mut Meter,
) -> Result<Vec<TupleEntry<V>>, RunError> {
    let bytes = table.len() * size_of::<TupleEntry<V>>();
    meter.take(bytes)?;
    let entries = std::mem::take(table).into_iter().collect();
    meter.give_back(bytes);
    Ok(entries)
}

/// Bytes of the length before a value.
const LENGTH_BYTES: usize = size_of::<u32>();

/// Distinct tuples, with the number of rows of each.
#[derive(Default)]
pub(crate) struct Tuples {
    hits: ByteTable,
    key: Buffer,
    scratch: Scratch,
}

/// A tuple with its hits.
pub(crate) type Hits<'t> = (&'t [u8], u64);

impl Tuples {
    pub fn len(&self) -> usize {
        self.hits.len()
    }

    /// Adds hits to the tuple of a row. With `only_known`, new tuples are ignored.
    pub fn count(
        &mut self,
        block: &Block,
        row: usize,
        columns: &[Column<'_>],
        added: u64,
        only_known: bool,
        meter: &mut Meter,
    ) -> Result<(), RunError> {
        let Tuples { hits, key, scratch } = self;
        let key: &[u8] = match columns {
            &[column] => block.value(column, row, scratch),
            _ => {
                key.clear(meter);
                for &column in columns {
                    put_part(block.value(column, row, scratch), key, meter)?;
                }
                key.bytes()
            }
        };
        let hash = hash_of(key);
        if only_known {
            if let Some(hits) = hits.get_mut(hash, key) {
                *hits += added;
            }
        } else {
            *hits.entry(hash, key, meter)?.0 += added;
        }
        Ok(())
    }

    /// Adds a tally of the only field.
    pub fn count_tally(&mut self, tally: &Tally, next: &mut Next<'_>) -> Result<(), RunError> {
        for from in (0..tally.len()).step_by(TOGETHER) {
            if from % CHECK_ROWS == 0 {
                next.check()?;
            }
            let places = from..tally.len().min(from + TOGETHER);
            let keys = places.clone().map(|place| tally.value(place));
            let mut lines = places.map(|place| tally.lines(place));
            self.hits.look_up(keys, next.meter(), |hits, _| {
                *hits += lines.next().expect("as many as keys");
            })?;
        }
        Ok(())
    }

    /// Adds the hits of other tuples of the same fields.
    pub fn merge(&mut self, mut other: Tuples, next: &mut Next<'_>) -> Result<(), RunError> {
        if self.hits.len() < other.hits.len() {
            std::mem::swap(&mut self.hits, &mut other.hits);
        }
        self.hits.merge_sums(other.hits, next)
    }

    /// Format: the number of tuples, then each with its hits.
    pub fn encode(&self, out: &mut Encoder<'_>) -> Result<(), RunError> {
        out.number(self.len() as u64)?;
        self.hits.iter().try_for_each(|(key, hits)| {
            out.bytes(key)?;
            out.number(hits)
        })
    }

    /// Decodes tuples of `fields` fields.
    pub fn decode(
        &mut self,
        fields: usize,
        from: &mut Decoder<'_>,
        meter: &mut Meter,
    ) -> Result<(), RunError> {
        for _ in 0..from.length(LENGTH_BYTES)? {
            let key = from.bytes()?;
            if !is_key(key, fields) {
                return Err(wrong_state("a tuple is not of these fields"));
            }
            let hits = from.count()?;
            let (known, is_new) = self.hits.entry(hash_of(key), key, meter)?;
            if !is_new {
                return Err(wrong_state("a tuple comes twice"));
            }
            *known = hits;
        }
        Ok(())
    }

    /// The first `count` tuples: most hits first, equal hits by the bytes of the values.
    pub fn first<'t>(
        &'t self,
        count: usize,
        is_one_field: bool,
        next: &mut Next<'_>,
    ) -> Result<impl Iterator<Item = Hits<'t>> + use<'t>, RunError> {
        let order = move |a: &Hits<'t>, b: &Hits<'t>| {
            let by_values = || match is_one_field {
                true => a.0.cmp(b.0),
                false => parts(a.0).cmp(parts(b.0)),
            };
            b.1.cmp(&a.1).then_with(by_values)
        };
        // Holds at most about twice `count` entries. Entries with fewer hits than the last of the
        // first `count` are skipped.
        let entries_max = count.saturating_mul(2).saturating_add(CHECK_ROWS).min(self.len());
        next.meter().take(entries_max * size_of::<Hits<'_>>())?;
        let mut entries: Vec<Hits<'_>> = Vec::with_capacity(entries_max);
        let mut hits_min = 0;
        for (number, entry) in self.hits.iter().enumerate() {
            if number % CHECK_ROWS == 0 {
                next.check()?;
            }
            if entry.1 < hits_min {
                continue;
            }
            if entries.len() == entries_max && count < entries_max {
                hits_min = keep_first(&mut entries, count, order);
            }
            entries.push(entry);
        }
        keep_first(&mut entries, count, order);
        Sorted::new(entries, order, || next.check())
    }
}

/// Keeps the first `count` entries, in any order, and returns their fewest hits; 0 if none was
/// dropped.
fn keep_first<'t>(
    entries: &mut Vec<Hits<'t>>,
    count: usize,
    order: impl Fn(&Hits<'t>, &Hits<'t>) -> Ordering,
) -> u64 {
    if count >= entries.len() {
        return 0;
    }
    let Some(last) = count.checked_sub(1) else {
        entries.clear();
        return u64::MAX;
    };
    entries.select_nth_unstable_by(last, order);
    entries.truncate(count);
    entries[last].1
}

/// Appends a value behind its length.
#[inline]
pub(crate) fn write_part(value: &[u8], key: &mut Vec<u8>) {
    key.extend_from_slice(&(value.len() as u32).to_le_bytes());
    key.extend_from_slice(value);
}

/// Appends a value behind its length to a buffer whose memory is counted.
#[inline]
pub(crate) fn put_part(value: &[u8], key: &mut Buffer, meter: &mut Meter) -> Result<(), RunError> {
    write_part(value, key.room(value.len() + LENGTH_BYTES, meter)?);
    Ok(())
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

/// Whether bytes are a valid key of `fields` fields: any bytes for a single field, else each value
/// behind its length.
pub(crate) fn is_key(key: &[u8], fields: usize) -> bool {
    fields == 1 || parts_fit(key, fields)
}

/// Whether bytes are exactly `fields` values, each behind its length.
pub(crate) fn parts_fit(mut key: &[u8], fields: usize) -> bool {
    for _ in 0..fields {
        let Some((length, rest)) = key.split_first_chunk::<LENGTH_BYTES>() else { return false };
        let Some(rest) = rest.get(u32::from_le_bytes(*length) as usize..) else { return false };
        key = rest;
    }
    key.is_empty()
}

/// The values of a key: those of a tuple, or the single value.
pub(crate) fn values_of(key: &[u8], is_one_field: bool) -> impl Iterator<Item = &[u8]> {
    let (one, many) = if is_one_field { (Some(key), &[][..]) } else { (None, key) };
    one.into_iter().chain(parts(many))
}
