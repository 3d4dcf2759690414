//! Counts that are kept with a segment, so that a question for them opens no block: lines by level, host, application
//! and type, per stretch of event time.
//!
//! The stretch is as short as pays: a segment has at most one stretch for [`LINES_PER_STRETCH`] of its lines. A field
//! with more than [`VALUES_MAX`] values has no counts; one that lacks in some lines counts those under no name.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use super::bytes::{Corrupt, Cursor, Read, put_piece, put_varint};
use super::ints;

/// The fields that are counted.
pub const ROLLUP_FIELDS: [&str; 4] = ["level", "hostname", "app_name", "type"];
/// Different values of a field that is counted. With more, questions read the blocks.
pub const VALUES_MAX: usize = 256;
/// Lines for each stretch of time, at least, so that counts stay small beside lines.
pub const LINES_PER_STRETCH: u64 = 32;
/// A value of more bytes makes its field one without counts.
const VALUE_BYTES_MAX: usize = 256;
/// Lengths of a stretch, seconds.
const STRETCHES_S: [i64; 7] = [1, 10, 60, 600, 3_600, 86_400, 864_000];

pub(super) const SECOND_NS: i64 = 1_000_000_000;

/// Counts of one field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rollup {
    /// The field.
    pub field: String,
    /// Its values; the empty one stands for lines without it.
    pub values: Vec<Vec<u8>>,
    /// Length of a stretch, seconds. Stretches begin at whole multiples of it since 1970 UTC.
    pub stretch_s: i64,
    /// Stretch (since 1970), place of the value, lines; in order.
    pub counts: Vec<(i64, u32, u64)>,
}

impl Rollup {
    /// Lines with each value, in all stretches.
    pub fn totals(&self) -> Vec<(&[u8], u64)> {
        let mut totals: Vec<(&[u8], u64)> =
            self.values.iter().map(|value| (&value[..], 0)).collect();
        self.counts.iter().for_each(|&(_, value, lines)| totals[value as usize].1 += lines);
        totals
    }

    /// Whether each stretch lies in one of those buckets (length and shift, nanoseconds).
    pub(crate) fn tells_apart(&self, bucket_ns: Option<(i64, i64)>) -> bool {
        let stretch_ns = self.stretch_s * SECOND_NS;
        bucket_ns.is_none_or(|(step, offset)| step % stretch_ns == 0 && offset % stretch_ns == 0)
    }

    /// The stretches from one instant to before another one, nanoseconds, either of which may be open; none where one of
    /// them is within a stretch.
    pub(crate) fn stretches(&self, from_ns: Option<i64>, to_ns: Option<i64>) -> Option<Range<i64>> {
        let stretch_ns = self.stretch_s * SECOND_NS;
        let edge = |ns: i64| (ns % stretch_ns == 0).then_some(ns / stretch_ns);
        let from = from_ns.map_or(Some(i64::MIN), edge)?;
        Some(from..to_ns.map_or(Some(i64::MAX), edge)?)
    }

    /// Calls `each` with the beginning of one of those stretches, a value (empty unless `by_value`), and the lines of
    /// both; those of one bucket are added up.
    pub(crate) fn visit(
        &self,
        by_value: bool,
        bucket_ns: Option<(i64, i64)>,
        stretches: Range<i64>,
        each: &mut dyn FnMut(i64, &[u8], u64),
    ) {
        let stretch_ns = self.stretch_s * SECOND_NS;
        let mut sums = vec![0; if by_value { self.values.len() } else { 1 }];
        let mut flush = |at: i64, sums: &mut Vec<u64>| {
            for (place, lines) in sums.iter_mut().enumerate().filter(|(_, lines)| **lines > 0) {
                let value = if by_value { &self.values[place][..] } else { b"" };
                each(at.saturating_mul(stretch_ns), value, std::mem::take(lines));
            }
        };
        // Stretches come in order, so those of a bucket come together.
        let mut bucket = None;
        let mut last_at = 0;
        let before = |at: i64| self.counts.partition_point(|count| count.0 < at);
        let (from, to) = (before(stretches.start), before(stretches.end));
        for &(at, value, lines) in &self.counts[from..to.max(from)] {
            let of = bucket_ns
                .map(|(step, offset)| (at - offset / stretch_ns).div_euclid(step / stretch_ns));
            if of != bucket {
                flush(last_at, &mut sums);
                bucket = of;
            }
            last_at = at;
            sums[if by_value { value as usize } else { 0 }] += lines;
        }
        flush(last_at, &mut sums);
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_piece(out, self.field.as_bytes());
        put_varint(out, self.stretch_s as u64);
        put_varint(out, self.values.len() as u64);
        self.values.iter().for_each(|value| put_piece(out, value));
        put_varint(out, self.counts.len() as u64);
        let column = |get: &dyn Fn(&(i64, u32, u64)) -> i64| -> Vec<i64> {
            self.counts.iter().map(get).collect()
        };
        ints::encode(&column(&|c| c.0), out);
        ints::encode(&column(&|c| i64::from(c.1)), out);
        ints::encode(&column(&|c| c.2 as i64), out);
    }

    pub(crate) fn decode(cursor: &mut Cursor<'_>, lines: u64) -> Read<Rollup> {
        let field = cursor.text()?.to_owned();
        let stretch_s = cursor.varint()? as i64;
        if !STRETCHES_S.contains(&stretch_s) {
            return Err(Corrupt("the stretch of a rollup"));
        }
        let values = (0..cursor.count(VALUES_MAX)?)
            .map(|_| cursor.piece().map(<[u8]>::to_vec))
            .collect::<Read<Vec<_>>>()?;
        let count = cursor.count(lines as usize)?;
        let stretches = ints::decode(cursor, count)?;
        let places = ints::decode(cursor, count)?;
        let numbers = ints::decode(cursor, count)?;
        let counts = stretches.into_iter().zip(places).zip(numbers).map(|((at, place), number)| {
            let known = (0..values.len() as i64).contains(&place);
            known.then_some((at, place as u32, number as u64)).ok_or(Corrupt("a rollup"))
        });
        let counts = counts.collect::<Read<Vec<_>>>()?;
        Ok(Rollup { field, values, stretch_s, counts })
    }
}

/// Counts lines as they come.
#[derive(Default)]
pub(crate) struct Counter {
    fields: [FieldCounter; ROLLUP_FIELDS.len()],
}

/// A value for each of [`ROLLUP_FIELDS`], by its number in the [`Counter`] that gave it.
pub(crate) type ValueNumbers = [u16; ROLLUP_FIELDS.len()];

#[derive(Default)]
struct FieldCounter {
    numbers: HashMap<Vec<u8>, u16, foldhash::fast::RandomState>,
    /// By number; none once there were too many.
    values: Vec<ValueCounter>,
    overflowed: bool,
}

#[derive(Default)]
struct ValueCounter {
    /// Lines of the second met last, that are not among `counts` yet.
    second: i64,
    lines: u64,
    /// Seconds, with their lines.
    counts: HashMap<i64, u64, foldhash::fast::RandomState>,
}

impl Counter {
    /// The numbers of values in the order of [`ROLLUP_FIELDS`], empty where a line has none.
    pub(crate) fn numbers(&mut self, values: [&[u8]; ROLLUP_FIELDS.len()]) -> ValueNumbers {
        let mut numbers = [0; ROLLUP_FIELDS.len()];
        for ((field, value), number) in self.fields.iter_mut().zip(values).zip(&mut numbers) {
            *number = field.number(value);
        }
        numbers
    }

    /// Counts so many lines with an event time in this second.
    #[inline]
    pub(crate) fn add(&mut self, second: i64, lines: u64, values: &ValueNumbers) {
        for (field, &value) in self.fields.iter_mut().zip(values) {
            // Without values the field has had too many.
            if let Some(value) = field.values.get_mut(usize::from(value)) {
                value.add(second, lines);
            }
        }
    }

    pub(crate) fn finish(self, lines: u64) -> Vec<Rollup> {
        let counted = self.fields.into_iter().zip(ROLLUP_FIELDS);
        counted.filter_map(|(field, name)| field.finish(name, lines)).collect()
    }
}

impl ValueCounter {
    #[inline]
    fn add(&mut self, second: i64, lines: u64) {
        if self.second == second {
            self.lines += lines;
        } else {
            self.settle();
            (self.second, self.lines) = (second, lines);
        }
    }

    fn settle(&mut self) {
        if self.lines > 0 {
            *self.counts.entry(self.second).or_default() += self.lines;
        }
    }
}

impl FieldCounter {
    fn number(&mut self, value: &[u8]) -> u16 {
        if let Some(&number) = self.numbers.get(value) {
            return number;
        }
        if self.overflowed || self.values.len() >= VALUES_MAX || value.len() > VALUE_BYTES_MAX {
            *self = FieldCounter { overflowed: true, ..FieldCounter::default() };
            return u16::MAX;
        }
        let number = self.values.len() as u16;
        self.values.push(ValueCounter::default());
        self.numbers.insert(value.to_vec(), number);
        number
    }

    fn finish(mut self, name: &str, lines: u64) -> Option<Rollup> {
        if self.overflowed {
            return None;
        }
        self.values.iter_mut().for_each(ValueCounter::settle);
        let seconds = || self.values.iter().flat_map(|value| value.counts.keys().copied());
        let stretch_s = STRETCHES_S.into_iter().find(|stretch_s| {
            let stretches: std::collections::HashSet<i64, foldhash::fast::RandomState> =
                seconds().map(|second| second.div_euclid(*stretch_s)).collect();
            stretches.len() as u64 * LINES_PER_STRETCH <= lines.max(LINES_PER_STRETCH)
        });
        let stretch_s = stretch_s.unwrap_or(STRETCHES_S[STRETCHES_S.len() - 1]);
        let mut counts: BTreeMap<(i64, u32), u64> = BTreeMap::new();
        for (number, value) in self.values.iter().enumerate() {
            for (second, lines) in &value.counts {
                let stretch = second.div_euclid(stretch_s);
                *counts.entry((stretch, number as u32)).or_default() += lines;
            }
        }
        let counts = counts.into_iter().map(|((at, value), n)| (at, value, n)).collect();
        let mut values = vec![Vec::new(); self.values.len()];
        self.numbers.into_iter().for_each(|(value, number)| values[usize::from(number)] = value);
        Some(Rollup { field: name.to_owned(), values, stretch_s, counts })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(lines: &[(i64, &str)]) -> Vec<Rollup> {
        let mut counter = Counter::default();
        for (second, level) in lines {
            let values = counter.numbers([level.as_bytes(), b"", b"", b"t"]);
            counter.add(*second, 1, &values);
        }
        counter.finish(lines.len() as u64)
    }

    #[test]
    fn counts_come_back_and_agree_with_the_lines() {
        let lines: Vec<(i64, &str)> =
            (0..10_000).map(|i| (i / 100, if i % 10 == 0 { "error" } else { "info" })).collect();
        let rollups = count(&lines);
        assert_eq!(rollups.len(), ROLLUP_FIELDS.len());
        assert_eq!((rollups[0].stretch_s, rollups[0].counts.len()), (1, 200));
        assert_eq!(rollups[0].totals(), [(&b"error"[..], 1000), (&b"info"[..], 9000)]);
        assert_eq!(rollups[1].totals(), [(&b""[..], 10_000)]);
        for rollup in rollups {
            let mut out = Vec::new();
            rollup.encode(&mut out);
            let mut cursor = Cursor::new(&out);
            assert_eq!(Rollup::decode(&mut cursor, 10_000).unwrap(), rollup);
            cursor.end().unwrap();
        }
    }

    #[test]
    fn counts_are_added_up_by_bucket() {
        let lines: Vec<(i64, &str)> =
            (-300..9_700).map(|i| (i / 100, if i % 10 == 0 { "error" } else { "info" })).collect();
        let rollup = &count(&lines)[0];
        let check = |by_value: bool, bucket_s: Option<(i64, i64)>| {
            let bucket = |second: i64| {
                bucket_s.map(|(step, offset)| (second - offset).div_euclid(step) * step + offset)
            };
            let mut expected = BTreeMap::new();
            for (second, level) in &lines {
                let value = if by_value { level.as_bytes().to_vec() } else { Vec::new() };
                *expected.entry((bucket(*second), value)).or_insert(0) += 1;
            }
            let bucket_ns = bucket_s.map(|(step, offset)| (step * SECOND_NS, offset * SECOND_NS));
            assert!(rollup.tells_apart(bucket_ns));
            let mut found = BTreeMap::new();
            rollup.visit(by_value, bucket_ns, i64::MIN..i64::MAX, &mut |time_ns, value, lines| {
                let twice = found.insert((bucket(time_ns / SECOND_NS), value.to_vec()), lines);
                assert_eq!(twice, None);
            });
            assert_eq!(found, expected, "{by_value} {bucket_s:?}");
        };
        for by_value in [false, true] {
            for bucket_s in [None, Some((1, 0)), Some((7, 0)), Some((7, 3)), Some((20, -6))] {
                check(by_value, bucket_s);
            }
        }
        assert!(!rollup.tells_apart(Some((SECOND_NS / 2, 0))));
        assert!(!rollup.tells_apart(Some((SECOND_NS, 5))));
    }

    #[test]
    fn a_range_of_whole_stretches_is_counted() {
        let lines: Vec<(i64, &str)> = (0..3_200).map(|i| (i % 100, "info")).collect();
        let rollup = &count(&lines)[0];
        assert_eq!(rollup.stretch_s, 1);
        let check = |from_ns: Option<i64>, to_ns: Option<i64>, expected: Option<u64>| {
            let stretches = rollup.stretches(from_ns, to_ns);
            let counted = stretches.map(|stretches| {
                let mut sum = 0;
                rollup.visit(false, None, stretches, &mut |_, _, lines| sum += lines);
                sum
            });
            assert_eq!(counted, expected, "{from_ns:?} to {to_ns:?}");
        };
        check(None, None, Some(3_200));
        check(Some(10 * SECOND_NS), Some(12 * SECOND_NS), Some(64));
        check(Some(99 * SECOND_NS), None, Some(32));
        check(None, Some(SECOND_NS), Some(32));
        check(Some(-SECOND_NS), Some(0), Some(0));
        check(Some(5 * SECOND_NS), Some(3 * SECOND_NS), Some(0));
        check(Some(1), None, None);
        check(None, Some(SECOND_NS - 1), None);
    }

    #[test]
    fn seconds_that_come_back_are_one() {
        let lines: Vec<(i64, &str)> = (0..9_000).map(|i| (i % 100, "info")).collect();
        let rollups = count(&lines);
        assert_eq!((rollups[0].stretch_s, rollups[0].counts.len()), (1, 100));
        assert!(rollups[0].counts.iter().all(|count| count.2 == 90));
    }

    #[test]
    fn stretches_grow_where_lines_are_rare() {
        let lines: Vec<(i64, &str)> = (0..100).map(|i| (i * 60, "info")).collect();
        let rollups = count(&lines);
        assert_eq!(rollups[0].stretch_s, 3_600);
        assert_eq!(rollups[0].totals(), [(&b"info"[..], 100)]);
    }

    #[test]
    fn too_many_values_have_no_counts() {
        let values: Vec<String> = (0..=VALUES_MAX).map(|i| i.to_string()).collect();
        let lines: Vec<(i64, &str)> = values.iter().map(|v| (0, v.as_str())).collect();
        assert_eq!(count(&lines[1..])[0].values.len(), VALUES_MAX);
        let fields: Vec<String> = count(&lines).into_iter().map(|r| r.field).collect();
        assert_eq!(fields, ["hostname", "app_name", "type"]);
    }
}
