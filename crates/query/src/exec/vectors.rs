//! Reads the rows of a unit as vectors, from its columns: `stats by (host) sum(bytes), max(took)`,
//! `math bytes / took as r | stats avg(r)`.
//!
//! The values that form groups are read once for each combination of them; the combinations of all
//! rows are told apart by numbers ([`Combinations`]).

use std::collections::HashMap;
use std::hash::Hash;

use record::columns::{FieldColumn, NO_VALUE, Places};

use crate::base::SourceError;
use crate::base::bitmap::Bitmap;
use crate::base::names::TIME;
use crate::base::number::parse_comparable;
use crate::block::{Block, MadeRow, Selection, Vector, Vectors, as_read};
use crate::lang::filter::{ColumnSelector, Fields};
use crate::lang::pipe::time_bucket;
use crate::plan::vectors::VectorPlan;

/// Combinations are told apart by a table up to this many possible ones, else by a hash table.
const TABLE_MAX: usize = 1 << 16;

/// The combination of each row, a row for each combination, and the times of these rows.
type Grouped = (Combinations, Vec<MadeRow>, Vec<i64>);

/// Computed fields with the number of each row.
type Computed<'q> = Vec<(&'q str, Vec<f64>)>;

/// A plan with what is prepared once for all units.
pub(crate) struct VectorReader<'q> {
    plan: &'q VectorPlan<'q>,
    /// For each function, what selects its rows, if not all of them count.
    selectors: Vec<Option<ColumnSelector>>,
}

impl<'q> VectorReader<'q> {
    /// None where the condition of a function has to be run over lines.
    pub fn new(plan: &'q VectorPlan<'q>) -> Option<VectorReader<'q>> {
        let selector = |filter| ColumnSelector::new(filter).map(Some);
        let functions = plan.read.functions.iter();
        let selectors = functions.map(|function| function.filter.map_or(Some(None), selector));
        Some(VectorReader { plan, selectors: selectors.collect::<Option<_>>()? })
    }

    /// The rows in `bits`. None where rows must be read.
    pub fn read(&self, fields: &Fields<'_>, bits: &Bitmap) -> Result<Option<Vectors>, SourceError> {
        let columns = fields.columns();
        let count = columns.rows();
        let rows = (!bits.is_full()).then(|| rows_of(bits));
        let rows = rows.as_deref();
        let Some((combinations, groups, times_ns)) = self.group(fields, rows)? else {
            return Ok(None);
        };
        let Some(computed) = self.compute(fields, rows)? else { return Ok(None) };
        let all = Selection { rows: rows.map_or(count, <[u32]>::len), of_row: combinations.of_row };
        let mut selections = vec![all];
        let mut inputs = Vec::with_capacity(self.selectors.len());
        for (function, selector) in self.plan.read.functions.iter().zip(&self.selectors) {
            let mut selected = None;
            if let Some(selector) = selector {
                let mut bits = bits.clone();
                if !selector.narrow(&fields.of_other_filter(), &mut bits)? {
                    return Ok(None);
                }
                let chosen = rows_of(&bits);
                let place = |row: &u32| match rows {
                    None => *row,
                    Some(rows) => rows.binary_search(row).expect("it is one of them") as u32,
                };
                let places: Vec<u32> = chosen.iter().map(place).collect();
                let of_row = selections[0].of_row.as_ref();
                let of_row = of_row.map(|of_row| places.iter().map(|&at| of_row[at as usize]));
                selections
                    .push(Selection { rows: chosen.len(), of_row: of_row.map(Iterator::collect) });
                selected = Some((selections.len() - 1, chosen, places));
            }
            let selection = selected.as_ref().map_or(0, |(selection, ..)| *selection);
            let vector = match &function.field {
                None => None,
                Some(name) => {
                    let numbers = computed.iter().rfind(|(known, _)| known == name);
                    Some(match (numbers, &selected) {
                        (Some((_, numbers)), None) => Vector::of_computed(numbers.clone()),
                        (Some((_, numbers)), Some((_, _, places))) => Vector::of_computed(
                            places.iter().map(|&at| numbers[at as usize]).collect(),
                        ),
                        (None, _) => {
                            let Some(column) = fields.get(name)? else { return Ok(None) };
                            let chosen = selected.as_ref().map(|(_, chosen, _)| &chosen[..]);
                            Vector::of_column(&column, chosen.or(rows), count)
                        }
                    })
                }
            };
            inputs.push((selection, vector));
        }
        let groups = Block::Made(groups);
        Ok(Some(Vectors { place: self.plan.place, groups, times_ns, selections, inputs }))
    }

    /// The combination of each row, with a row for each combination and its time. None where a
    /// field cannot be read separately.
    fn group(
        &self,
        fields: &Fields<'_>,
        rows: Option<&[u32]>,
    ) -> Result<Option<Grouped>, SourceError> {
        let columns = fields.columns();
        let mut combinations = Combinations::new(rows, columns.rows());
        let read = &self.plan.read;
        let mut by = Vec::with_capacity(read.by.len());
        for &name in &read.by {
            let Some(column) = fields.get(name)? else { return Ok(None) };
            combinations.tell_apart(&column, rows);
            by.push((name.into(), column));
        }
        let mut times = None;
        if let Some(bucket_ns) = read.bucket_ns {
            let times_ns = columns.times_ns()?;
            combinations.tell_times_apart(times_ns, bucket_ns, rows);
            times = Some((TIME.into(), times_ns));
        }
        let (mut groups, mut group_times_ns) = (Vec::new(), Vec::new());
        for &row in &combinations.first {
            let mut group = MadeRow::default();
            for (name, column) in &by {
                group.push(std::sync::Arc::clone(name), column.get(row as usize));
            }
            if let Some((name, times_ns)) = &times {
                let (time_ns, mut text) = (times_ns[row as usize], Vec::new());
                text::time::write_time(time_ns, &mut text);
                group.push(std::sync::Arc::clone(name), &text);
                group_times_ns.push(time_ns);
            }
            groups.push(group);
        }
        Ok(Some((combinations, groups, group_times_ns)))
    }

    /// The numbers that pipes compute for the rows. None where a field cannot be read separately.
    fn compute(
        &self,
        fields: &Fields<'_>,
        rows: Option<&[u32]>,
    ) -> Result<Option<Computed<'q>>, SourceError> {
        let columns = fields.columns();
        let count = rows.map_or(columns.rows(), <[u32]>::len);
        let mut computed = Computed::new();
        for pipe in &self.plan.computing {
            let mut read: Vec<Vec<f64>> = Vec::new();
            for name in pipe.read() {
                let known = computed.iter().rfind(|(known, _)| *known == name);
                read.push(match (known, name) {
                    // The pipe would read the text of the number.
                    (Some((_, numbers)), _) => numbers.iter().map(|&n| as_read(n)).collect(),
                    (None, TIME) => {
                        let times_ns = columns.times_ns()?;
                        match rows {
                            None => times_ns.iter().map(|&ns| ns as f64).collect(),
                            Some(rows) => {
                                rows.iter().map(|&row| times_ns[row as usize] as f64).collect()
                            }
                        }
                    }
                    (None, name) => {
                        let Some(column) = fields.get(name)? else { return Ok(None) };
                        let vector = Vector::of_column(&column, rows, columns.rows());
                        vector.numbers(parse_comparable)
                    }
                });
            }
            let read: Vec<&[f64]> = read.iter().map(Vec::as_slice).collect();
            let numbers = pipe.compute(count, &read);
            computed.extend(pipe.computed().into_iter().zip(numbers));
        }
        Ok(Some(computed))
    }
}

/// The indexes of the rows.
pub(super) fn rows_of(bits: &Bitmap) -> Vec<u32> {
    bits.iter().map(|row| row as u32).collect()
}

/// Rows with the same combination of values have the same number. Different numbers may have equal
/// values.
pub(super) struct Combinations {
    /// The number of each row; none: all have the first.
    pub of_row: Option<Vec<u32>>,
    /// For each number, the first row that has it.
    pub first: Vec<u32>,
}

impl Combinations {
    /// All rows have the same combination; `rows`: as in [`Vector::of_column`].
    pub fn new(rows: Option<&[u32]>, count: usize) -> Combinations {
        let first = match rows {
            None => (count > 0).then_some(0),
            Some(rows) => rows.first().copied(),
        };
        Combinations { of_row: None, first: first.into_iter().collect() }
    }

    /// Rows with different values of a column get different numbers.
    pub fn tell_apart(&mut self, column: &FieldColumn<'_>, rows: Option<&[u32]>) {
        let values = column.values();
        // The number behind those of all values stands for no value.
        let code = |place: u32| if place == NO_VALUE { values as u32 } else { place };
        match (column.places(), column.numbers()) {
            (Places::All(_), _) => {}
            (Places::Each, Some(numbers)) => {
                let (codes, count) = numbered(numbers.iter());
                self.divide(|row| codes[row as usize], count, rows, values);
            }
            (Places::Each, None) => {
                let (codes, count) = numbered((0..values as u32).map(|at| column.value(at)));
                self.divide(|row| codes[row as usize], count, rows, values);
            }
            (Places::Listed(places), _) => {
                self.divide(|row| code(places[row as usize]), values + 1, rows, places.len());
            }
            (Places::Classes(classes, places), _) => {
                let codes: Vec<u32> = places.iter().map(|&place| code(place)).collect();
                let of_row = |row: u32| codes[classes[row as usize] as usize];
                self.divide(of_row, values + 1, rows, classes.len());
            }
        }
    }

    /// Rows in different buckets of time get different numbers.
    fn tell_times_apart(
        &mut self,
        times_ns: &[i64],
        (step_ns, offset_ns): (i64, i64),
        rows: Option<&[u32]>,
    ) {
        let mut known: HashMap<i64, u32, foldhash::fast::RandomState> = HashMap::default();
        let (mut from, mut to, mut code) = (i64::MAX, i64::MIN, 0);
        let mut code_of = |time_ns: i64| {
            if !(from <= time_ns && time_ns < to) {
                from = time_bucket(time_ns, step_ns, offset_ns);
                to = from.saturating_add(step_ns);
                let next = known.len() as u32;
                code = *known.entry(from).or_insert(next);
            }
            code
        };
        let codes: Vec<u32> = match rows {
            None => times_ns.iter().map(|&ns| code_of(ns)).collect(),
            Some(rows) => rows.iter().map(|&row| code_of(times_ns[row as usize])).collect(),
        };
        let count = known.len();
        if count <= 1 {
            return;
        }
        match rows {
            None => self.divide(|row| codes[row as usize], count, rows, times_ns.len()),
            Some(chosen) => {
                let mut next = codes.into_iter();
                let of_row = move |_| next.next().expect("one for each row");
                self.divide(of_row, count, Some(chosen), times_ns.len());
            }
        }
    }

    /// Rows with different codes, which are below `codes`, get different numbers. `code_of` is
    /// called with each row in turn.
    fn divide(
        &mut self,
        mut code_of: impl FnMut(u32) -> u32,
        codes: usize,
        rows: Option<&[u32]>,
        count: usize,
    ) {
        let before = self.of_row.take();
        let possible = self.first.len() as u64 * codes as u64;
        self.first.clear();
        let first = &mut self.first;
        let rows_count = rows.map_or(count, <[u32]>::len);
        let mut of_row = Vec::with_capacity(rows_count);
        let row_at = |at: usize| rows.map_or(at as u32, |rows| rows[at]);
        let mut pair_of = |at: usize| {
            let before = before.as_ref().map_or(0, |before| u64::from(before[at]));
            before * codes as u64 + u64::from(code_of(row_at(at)))
        };
        if possible <= TABLE_MAX as u64 {
            let mut table = vec![u32::MAX; possible as usize];
            for at in 0..rows_count {
                let number = &mut table[pair_of(at) as usize];
                if *number == u32::MAX {
                    *number = first.len() as u32;
                    first.push(row_at(at));
                }
                of_row.push(*number);
            }
        } else {
            let mut table: HashMap<u64, u32, foldhash::fast::RandomState> = HashMap::default();
            for at in 0..rows_count {
                let number = *table.entry(pair_of(at)).or_insert_with(|| {
                    first.push(row_at(at));
                    first.len() as u32 - 1
                });
                of_row.push(number);
            }
        }
        self.of_row = Some(of_row);
    }
}

/// A number for each value, equal ones for equal values; and how many there are.
fn numbered<V: Hash + Eq>(values: impl Iterator<Item = V>) -> (Vec<u32>, usize) {
    let mut known: HashMap<V, u32, foldhash::fast::RandomState> = HashMap::default();
    let number = |value| {
        let next = known.len() as u32;
        *known.entry(value).or_insert(next)
    };
    let numbers = values.map(number).collect();
    (numbers, known.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Query;
    use crate::lang::context::Context;
    use crate::testing::{Memory, Record, batch, collect, record};
    use proptest::prelude::*;

    /// Functions over numbers as they are spelled in logs, conditions, groups and computed numbers.
    const QUERIES: &[&str] = &[
        "* | stats sum(n) a, avg(n) b, min(n) c, max(n) d, median(n) e, stddev(n) f, range(n) g, \
         histogram(n) h, count(n) i, count_empty(n) j, count_uniq(n) k, sum_len(n) l, rate_sum(n) m, count() o",
        "g:x | stats by (g) sum(n) a, min(n) b, max(n) c, count_uniq(n) limit 2 d, count() e, rate() f",
        "n:* | stats by (g, _time:10ns, n) max(m) a, sum(m) if (g:y) b, count() if (n:>5) c",
        "* | stats by (_time:10ns offset 3ns) avg(n) a, quantile(0.9, m) b, count() if (g:x) c",
        "* | stats by (n:5) sum(m) a, count(g) b",
        "* | stats by (m) count_uniq(n) a, max(g) b, min(g) c",
        "* | math n / m as r | stats by (g) max(r) a, min(r) b, sum(r) c, count_uniq(r) d, sum_len(r) e",
        "g:y | math n ^ 200 as r, -r - m as s, max(r, s, 0) + _time as t | stats max(r) a, min(s) b, sum(t) c, \
         count(r) d, max(r) if (n:7) e",
        "* | math n % 3 default -1 as n, n & 1 as o | math n + o as p | stats sum(n) a, sum(p) b, max(o) c, avg(m) d",
        "* | math g + 1 as h | stats max(h) a, sum(h) b, median(h) c, histogram(h) d, range(h) e",
    ];

    fn check(text: &str, batches: &[Vec<Record>], columns: usize) {
        let query = Query::parse(text, 0).unwrap();
        let reads = VectorPlan::of(&query).is_some_and(|plan| VectorReader::new(&plan).is_some());
        assert!(reads, "{text}");
        let answer = |columns| {
            let batches = (1..).zip(batches).map(|(number, records)| batch(number, records));
            let source = Memory { columns, ..Memory::new(batches.collect()) };
            let (rows, outcome) = collect(&query, &source, &Context::default());
            outcome.unwrap();
            rows
        };
        assert_eq!(answer(Some(columns)), answer(None), "{text}");
    }

    proptest! {
        #[test]
        fn vectors_give_what_rows_give(
            batches in prop::collection::vec(
                prop::collection::vec(
                    (0i64..40, "[xy]?", "|[0-9]{1,2}|[1-9][0-9]{14,17}|007|1e3|0x1f|-?[0-9]\\.5|2KiB|5ms|1\\.2\\.3\\.4|z", "[0-9]?"),
                    1..12,
                ),
                1..3,
            ),
            decimals in any::<bool>(),
            columns in 0usize..22,
        ) {
            let row = |(at, (time, g, n, m)): (usize, &(i64, String, String, String))| {
                let decimal = (at * 7 % 23).to_string();
                let n = if decimals { &decimal } else { n };
                record(*time, &[("_msg", "a"), ("g", g), ("n", n), ("m", m)])
            };
            let batches: Vec<Vec<Record>> =
                batches.iter().map(|rows| rows.iter().enumerate().map(row).collect()).collect();
            QUERIES.iter().for_each(|text| check(text, &batches, columns));
        }
    }

    proptest! {
        /// Rows have the same number just if they have the same values.
        #[test]
        fn combinations_are_told_apart(
            values in prop::collection::vec((0u32..4, 0u32..300, 0i64..50), 1..40),
            step in 1usize..3,
        ) {
            let count = values.len();
            let chosen: Vec<u32> = (0..count as u32).step_by(step).collect();
            let rows = (step > 1).then_some(&chosen[..]);
            let few = |place: u32| if place == 3 { NO_VALUE } else { place };
            let listed = Places::Listed(values.iter().map(|(a, ..)| few(*a)).collect());
            let listed = FieldColumn::with_ends(b"abc"[..].into(), vec![1, 2, 3], 0, listed);
            let numbers = values.iter().map(|(_, b, _)| i64::from(*b)).collect();
            let each = FieldColumn::of_numbers(numbers, Places::Each);
            let times: Vec<i64> = values.iter().map(|(.., time)| *time).collect();
            let mut combinations = Combinations::new(rows, count);
            combinations.tell_apart(&listed, rows);
            combinations.tell_times_apart(&times, (10, 3), rows);
            combinations.tell_apart(&each, rows);
            let of_row = combinations.of_row.unwrap_or_else(|| vec![0; chosen.len()]);
            prop_assert_eq!(of_row.len(), chosen.len());
            let of = |row: u32| {
                let (a, b, time) = values[row as usize];
                (a, b, time_bucket(time, 10, 3))
            };
            for (at, &row) in chosen.iter().enumerate() {
                prop_assert_eq!(of(combinations.first[of_row[at] as usize]), of(row));
                for (other, &other_row) in chosen.iter().enumerate() {
                    prop_assert_eq!(of_row[at] == of_row[other], of(row) == of(other_row));
                }
            }
        }
    }
}
