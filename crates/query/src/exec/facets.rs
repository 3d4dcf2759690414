//! Counts the values of each field in the lines of a unit, from its columns, for `facets`.
//!
//! A field that the pipe leaves out, for the number or length of its values, is not read again in
//! later units. So what a unit gives depends on which units were read before, and is not cached.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use record::columns::{FieldColumn, NO_VALUE, Places};

use crate::base::SourceError;
use crate::base::bitmap::Bitmap;
use crate::block::{Block, MadeRow, Weighted};
use crate::lang::filter::Fields;
use crate::lang::pipe::Facets;

/// What all units share.
pub(crate) struct FacetReader<'q> {
    facets: &'q Facets,
    left_out: Mutex<HashSet<String>>,
}

/// Values with their lines; none if the field is left out.
type Counted = Option<Vec<(Vec<u8>, u64)>>;

impl<'q> FacetReader<'q> {
    pub fn new(facets: &'q Facets) -> FacetReader<'q> {
        FacetReader { facets, left_out: Mutex::default() }
    }

    /// One row without fields, which stands for the rows in `bits`, and a row for each value of
    /// each field. None where the lines must be read.
    pub fn read(
        &self,
        fields: &Fields<'_>,
        bits: &Bitmap,
    ) -> Result<Option<Weighted>, SourceError> {
        let columns = fields.columns();
        let (mut rows, mut lines) = (vec![MadeRow::default()], vec![bits.count() as u64]);
        for name in columns.names() {
            if self.is_left_out(name) {
                continue;
            }
            let known = match bits.is_full() {
                true => columns.value_counts(name)?,
                false => None,
            };
            let counted = match known {
                Some(counts) => self.fitting(counts.into_iter()),
                None => match fields.get(name)? {
                    Some(column) => self.count(&column, bits),
                    None => return Ok(None),
                },
            };
            if counted.is_none() {
                self.left_out().insert(name.to_owned());
            }
            let name: Arc<str> = name.into();
            // A value that stands for no line says that its field is left out.
            for (value, count) in counted.unwrap_or_else(|| vec![(b"*".to_vec(), 0)]) {
                let mut row = MadeRow::default();
                row.push(name.clone(), &value);
                rows.push(row);
                lines.push(count);
            }
        }
        Ok(Some(Weighted { block: Block::Made(rows), lines, times_ns: Vec::new() }))
    }

    fn left_out(&self) -> std::sync::MutexGuard<'_, HashSet<String>> {
        self.left_out.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_left_out(&self, name: &str) -> bool {
        self.left_out().contains(name)
    }

    /// The values without the empty one; none if they are too many, or one is too long.
    fn fitting(&self, counts: impl Iterator<Item = (Vec<u8>, u64)>) -> Counted {
        let mut fitting: HashMap<Vec<u8>, u64, foldhash::fast::RandomState> = HashMap::default();
        for (value, lines) in counts.filter(|(value, lines)| !value.is_empty() && *lines > 0) {
            if value.len() as u64 > self.facets.value_bytes_max {
                return None;
            }
            *fitting.entry(value).or_default() += lines;
            if fitting.len() as u64 > self.facets.values_max {
                return None;
            }
        }
        Some(fitting.into_iter().collect())
    }

    fn count(&self, column: &FieldColumn<'_>, bits: &Bitmap) -> Counted {
        if let Places::All(place) = column.places() {
            let value = if *place == NO_VALUE { &[][..] } else { column.value(*place) };
            return self.fitting(std::iter::once((value.to_vec(), bits.count() as u64)));
        }
        if matches!(column.places(), Places::Each) {
            return match column.numbers() {
                Some(numbers) => self.distinct(bits, |row| numbers[row], column),
                None => self.distinct(bits, |row| column.value(row as u32), column),
            };
        }
        // The last counter is for rows without a value.
        let none = column.values();
        let mut counts = vec![0u64; none + 1];
        bits.iter().for_each(|row| counts[(column.place(row) as usize).min(none)] += 1);
        let counts = counts[..none].iter().enumerate().filter(|(_, lines)| **lines > 0);
        self.fitting(counts.map(|(place, &lines)| (column.value(place as u32).to_vec(), lines)))
    }

    /// Of a column with a value for each row, which `key` tells apart.
    fn distinct<K: std::hash::Hash + Eq>(
        &self,
        bits: &Bitmap,
        key: impl Fn(usize) -> K,
        column: &FieldColumn<'_>,
    ) -> Counted {
        // For each value a row that has it, and how many do.
        let mut counts: HashMap<K, (u32, u64), foldhash::fast::RandomState> = HashMap::default();
        for row in bits.iter() {
            counts.entry(key(row)).or_insert((row as u32, 0)).1 += 1;
            // One of them may be empty.
            if counts.len() as u64 > self.facets.values_max.saturating_add(1) {
                return None;
            }
        }
        self.fitting(counts.into_values().map(|(row, lines)| (column.value(row).to_vec(), lines)))
    }
}

#[cfg(test)]
mod tests {
    use crate::Query;
    use crate::lang::context::Context;
    use crate::testing::{Memory, Record, batch, collect, record};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn columns_give_the_facets_that_lines_give(
            rows in prop::collection::vec((0i64..9, "|[ab]|[0-9]{1,4}", "|[0-9]", "|x|yy|zzz"), 1..60),
            columns in 0usize..22,
            per_batch in 1usize..30,
        ) {
            let record = |(time, a, n, m): &(i64, String, String, String)| {
                record(*time, &[("_msg", a), ("n", n), ("m", m), ("k", "same"), ("none", "")])
            };
            let records: Vec<Record> = rows.iter().map(record).collect();
            for text in [
                "* | facets",
                "n:* | facets 2",
                "* | facets 5 max_values_per_field 3 keep_const_fields",
                "m:x or n:3 | facets max_value_len 2 keep_const_fields",
                "* | facets max_values_per_field 0",
            ] {
                let query = Query::parse(text, 0).unwrap();
                let answer = |columns| {
                    let batches =
                        (1..).zip(records.chunks(per_batch)).map(|(at, rows)| batch(at, rows));
                    let source = Memory { columns, ..Memory::new(batches.collect()) };
                    collect(&query, &source, &Context::default()).0
                };
                prop_assert_eq!(answer(Some(columns)), answer(None), "{}", text);
            }
        }

        #[test]
        fn what_is_computed_from_columns_is_counted_as_in_lines(
            rows in prop::collection::vec((0i64..90, "|[ab]", "|[0-9]"), 1..40),
            columns in 0usize..22,
        ) {
            let record = |(time, a, n): &(i64, String, String)| {
                record(*time, &[("_msg", "m"), ("a", a), ("n", n)])
            };
            let records: Vec<Record> = rows.iter().map(record).collect();
            for text in [
                "* | format '<a>/<n>' as w | top 5 by (w)",
                "n:* | format if (a:a) '<n>' as w | stats by (w, _time:20ns) count() c | sort by (w, c)",
                "* | math n * 2 as d | stats by (d) count() c, max(n) m | sort by (d)",
                "* | extract '<x>' from a | replace ('a', 'b') at x | uniq by (x) with hits",
                "* | copy a as b | fields b | stats by (b) count() c | sort by (b)",
            ] {
                let query = Query::parse(text, 0).unwrap();
                let answer = |columns| {
                    let batches = (1..).zip(records.chunks(7)).map(|(at, rows)| batch(at, rows));
                    let source = Memory { columns, ..Memory::new(batches.collect()) };
                    let mut rows = collect(&query, &source, &Context::default()).0;
                    rows.sort();
                    rows
                };
                prop_assert_eq!(answer(Some(columns)), answer(None), "{}", text);
            }
        }
    }
}
