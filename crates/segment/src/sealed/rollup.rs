//! Rollups: counts that are stored with a segment, so that queries for them read no block. They
//! count lines by level, host, application, service and type, by the level as the line writes it,
//! by application and severity or level, by host and application or level, and by service and
//! level, per interval of event time. Rows of the summary are not counted.
//!
//! The length of an interval adapts: a segment has at most one interval per [`LINES_PER_INTERVAL`]
//! lines, one count per [`LINES_PER_COUNT`] lines, and [`COUNTS_MAX`] counts of a kind. A field
//! with more than [`VALUES_MAX`] values has no counts, nor has a pair of fields with more than
//! [`PAIRS_MAX`] pairs of values. Lines without a field count under the empty value.

use std::collections::HashMap;
use std::ops::Range;

use super::bytes::{Corrupt, Cursor, Read, put_piece, put_varint};
use super::ints;

/// The fields by which lines are counted.
pub const ROLLUP_FIELDS: [&str; 6] =
    ["_level", "hostname", "app_name", "_type", "level", "service"];
/// The pairs of fields by which lines are counted.
pub const ROLLUP_PAIRS: [[&str; 2]; 5] = [
    ["app_name", "severity"],
    ["app_name", "_level"],
    ["hostname", "app_name"],
    ["hostname", "_level"],
    ["service", "level"],
];
/// All the fields in these lists.
pub(crate) const COUNTED_FIELDS: [&str; 7] =
    ["_level", "hostname", "app_name", "_type", "severity", "level", "service"];
/// [`ROLLUP_FIELDS`] and [`ROLLUP_PAIRS`], as indexes in [`COUNTED_FIELDS`].
const COUNTED: [&[usize]; ROLLUP_FIELDS.len() + ROLLUP_PAIRS.len()] =
    [&[0], &[1], &[2], &[3], &[5], &[6], &[2, 4], &[2, 0], &[1, 2], &[1, 0], &[6, 5]];
/// Distinct values of a counted field. If there are more, queries read the blocks.
pub const VALUES_MAX: usize = 256;
/// Distinct pairs of values of two fields. If there are more, queries read the blocks.
pub const PAIRS_MAX: usize = 1_024;
/// Minimum number of lines per time interval, so that counts stay small compared with the lines.
pub const LINES_PER_INTERVAL: u64 = 32;
/// Minimum number of lines per count. Footers of many segments are in memory, with 8 bytes for each
/// count of eleven kinds, and 16 for each interval.
pub const LINES_PER_COUNT: u64 = 16;
/// Most counts of a kind in a segment. With more, they are kept by longer intervals, so that the
/// footer of a segment of many gigabytes can still be read for a query over a minute of it: counts
/// of eleven kinds take 12 MiB of memory at most.
pub const COUNTS_MAX: usize = 1 << 17;
/// A longer value excludes its field from counting.
const VALUE_BYTES_MAX: usize = 256;
/// Possible interval lengths, in seconds.
const INTERVALS_S: [i64; 7] = [1, 10, 60, 600, 3_600, 86_400, 864_000];

pub(super) const SECOND_NS: i64 = 1_000_000_000;

/// Called with an instant in an interval or bucket (nanoseconds since 1970 UTC), a value of each
/// field, and the number of lines.
pub type EachCount<'a> = &'a mut dyn FnMut(i64, &[&[u8]], u64);

/// An interval with its lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Interval {
    /// Number of the interval, counted from 1970.
    at: i64,
    /// Index of its first count.
    first: u32,
    /// Its lines: fewer than a segment has bytes.
    lines: u32,
}

/// The lines of an interval that have the same values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Count {
    /// Index of the values.
    value: u16,
    lines: u32,
}

/// Counts by one field, or by two.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rollup {
    /// The fields that are counted.
    pub fields: Vec<String>,
    /// The combinations of their values; an empty value stands for lines without the field.
    pub values: Vec<Vec<Vec<u8>>>,
    /// Length of an interval, in seconds. Intervals begin at multiples of it since 1970 UTC.
    pub interval_s: i64,
    /// In the order of time.
    intervals: Vec<Interval>,
    /// Ordered by interval, then by index of the values.
    counts: Vec<Count>,
    /// Lines with each combination of values.
    lines: Vec<u64>,
}

impl Rollup {
    fn new(
        fields: Vec<String>,
        values: Vec<Vec<Vec<u8>>>,
        interval_s: i64,
        of_intervals: impl ExactSizeIterator<Item = (i64, Count)>,
    ) -> Rollup {
        let mut lines = vec![0; values.len()];
        let mut intervals: Vec<Interval> = Vec::new();
        let mut counts = Vec::with_capacity(of_intervals.len());
        for (at, count) in of_intervals {
            lines[usize::from(count.value)] += u64::from(count.lines);
            match intervals.last_mut() {
                Some(last) if last.at == at => last.lines = last.lines.saturating_add(count.lines),
                _ => {
                    intervals.push(Interval { at, first: counts.len() as u32, lines: count.lines })
                }
            }
            counts.push(count);
        }
        intervals.shrink_to_fit();
        Rollup { fields, values, interval_s, intervals, counts, lines }
    }

    /// The number of its interval since 1970 with each count.
    fn each(&self) -> impl Iterator<Item = (i64, Count)> {
        let ends = self.intervals.iter().skip(1).map(|interval| interval.first as usize);
        let ends = ends.chain([self.counts.len()]);
        self.intervals.iter().zip(ends).flat_map(|(interval, end)| {
            self.counts[interval.first as usize..end].iter().map(|count| (interval.at, *count))
        })
    }

    /// The number of counts.
    pub(crate) fn len(&self) -> usize {
        self.counts.len()
    }

    /// Lines with each combination of values, in all intervals.
    pub fn totals(&self) -> Vec<(&[Vec<u8>], u64)> {
        self.values.iter().map(Vec::as_slice).zip(self.lines.iter().copied()).collect()
    }

    /// Memory held, in bytes, approximately.
    pub(crate) fn memory_bytes(&self) -> usize {
        let values = self.values.iter().flatten().map(|value| value.len() + size_of::<Vec<u8>>());
        size_of_val(&self.intervals[..]) + size_of_val(&self.counts[..]) + values.sum::<usize>()
    }

    /// Indexes of these fields among its own; `None` if one is missing.
    pub(crate) fn indexes_of(&self, fields: &[&str]) -> Option<Vec<usize>> {
        fields.iter().map(|field| self.fields.iter().position(|own| own == field)).collect()
    }

    /// Whether each interval is within one of these buckets (length and shift, in nanoseconds).
    pub(crate) fn tells_apart(&self, bucket_ns: Option<(i64, i64)>) -> bool {
        let interval_ns = self.interval_s * SECOND_NS;
        bucket_ns.is_none_or(|(step, offset)| step % interval_ns == 0 && offset % interval_ns == 0)
    }

    /// The intervals between two instants (inclusive start, exclusive end, in nanoseconds; `None`:
    /// unbounded); `None` if one of the instants is inside an interval.
    pub(crate) fn intervals(&self, from_ns: Option<i64>, to_ns: Option<i64>) -> Option<Range<i64>> {
        let interval_ns = self.interval_s * SECOND_NS;
        let edge = |ns: i64| (ns % interval_ns == 0).then_some(ns / interval_ns);
        let from = from_ns.map_or(Some(i64::MIN), edge)?;
        Some(from..to_ns.map_or(Some(i64::MAX), edge)?)
    }

    /// Calls `each` with the beginning of an interval, the values of the fields at `indexes`, and
    /// the number of lines; intervals of one bucket are added up.
    pub(crate) fn visit(
        &self,
        indexes: &[usize],
        bucket_ns: Option<(i64, i64)>,
        intervals: Range<i64>,
        each: EachCount<'_>,
    ) {
        let interval_ns = self.interval_s * SECOND_NS;
        // The distinct values of the requested fields, and for each stored combination the index of
        // its values.
        let mut apart: Vec<Vec<&[u8]>> = Vec::new();
        let mut numbers: HashMap<Vec<&[u8]>, usize> = HashMap::new();
        let mut of = Vec::with_capacity(self.values.len());
        for values in &self.values {
            let values: Vec<&[u8]> = indexes.iter().map(|&index| &values[index][..]).collect();
            let number = *numbers.entry(values).or_insert_with_key(|values| {
                apart.push(values.clone());
                apart.len() - 1
            });
            of.push(number);
        }
        let mut sums = vec![0; apart.len()];
        let mut met: Vec<usize> = Vec::new();
        let before = |at: i64| self.intervals.partition_point(|interval| interval.at < at);
        let (from, to) = (before(intervals.start), before(intervals.end));
        if bucket_ns.is_none() && (from, to) == (0, self.intervals.len()) {
            of.iter().zip(&self.lines).for_each(|(&values, lines)| sums[values] += lines);
            let at = self.intervals.first().map_or(0, |interval| interval.at);
            for (values, lines) in apart.iter().zip(sums).filter(|(_, lines)| *lines > 0) {
                each(at.saturating_mul(interval_ns), values, lines);
            }
            return;
        }
        // Intervals are ordered, so those of one bucket are adjacent.
        let end_of = |at: i64| {
            let Some((step, offset)) = bucket_ns else { return i64::MAX };
            let (step, offset) = (step / interval_ns, offset / interval_ns);
            let bucket = at.saturating_sub(offset).div_euclid(step);
            bucket.saturating_add(1).saturating_mul(step).saturating_add(offset)
        };
        let (mut from, to) = (from, to.max(from));
        while from < to {
            let first = self.intervals[from];
            let end = end_of(first.at);
            let in_bucket = |interval: &&Interval| interval.at < end;
            let length = self.intervals[from..to].iter().take_while(in_bucket).count().max(1);
            let bucket = &self.intervals[from..from + length];
            from += length;
            // If values are not distinguished, the counts need not be read.
            if let [values] = &apart[..] {
                let lines = bucket.iter().map(|interval| u64::from(interval.lines)).sum();
                if lines > 0 {
                    each(first.at.saturating_mul(interval_ns), values, lines);
                }
                continue;
            }
            let behind = self.intervals.get(from).map_or(self.counts.len(), |s| s.first as usize);
            for count in &self.counts[first.first as usize..behind] {
                let values = of[usize::from(count.value)];
                if sums[values] == 0 && count.lines > 0 {
                    met.push(values);
                }
                sums[values] += u64::from(count.lines);
            }
            for values in met.drain(..) {
                let lines = std::mem::take(&mut sums[values]);
                each(first.at.saturating_mul(interval_ns), &apart[values], lines);
            }
        }
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        self.fields.iter().for_each(|field| put_piece(out, field.as_bytes()));
        put_varint(out, self.interval_s as u64);
        put_varint(out, self.values.len() as u64);
        self.values.iter().flatten().for_each(|value| put_piece(out, value));
        put_varint(out, self.counts.len() as u64);
        let intervals = self.each().map(|(at, _)| at);
        let column =
            |get: &dyn Fn(&Count) -> i64| -> Vec<i64> { self.counts.iter().map(get).collect() };
        ints::encode(&intervals.collect::<Vec<_>>(), out);
        ints::encode(&column(&|count| i64::from(count.value)), out);
        ints::encode(&column(&|count| i64::from(count.lines)), out);
    }

    /// Reads counts by `fields` fields.
    pub(crate) fn decode(cursor: &mut Cursor<'_>, fields: usize, lines: u64) -> Read<Rollup> {
        let names =
            (0..fields).map(|_| cursor.text().map(str::to_owned)).collect::<Read<Vec<_>>>()?;
        let interval_s = cursor.varint()? as i64;
        if !INTERVALS_S.contains(&interval_s) {
            return Err(Corrupt("the interval of a rollup"));
        }
        let values = (0..cursor.count(values_max(fields))?)
            .map(|_| (0..fields).map(|_| cursor.piece().map(<[u8]>::to_vec)).collect())
            .collect::<Read<Vec<Vec<Vec<u8>>>>>()?;
        let count = cursor.count(lines as usize)?;
        let intervals = ints::decode(cursor, count)?;
        let indexes = ints::decode(cursor, count)?;
        let numbers = ints::decode(cursor, count)?;
        let counts =
            intervals.into_iter().zip(indexes).zip(numbers).map(|((at, index), number)| {
                let known = (0..values.len() as i64).contains(&index);
                let lines =
                    u32::try_from(number).ok().filter(|_| known).ok_or(Corrupt("a rollup"))?;
                Ok((at, Count { value: index as u16, lines }))
            });
        let counts = counts.collect::<Read<Vec<_>>>()?;
        Ok(Rollup::new(names, values, interval_s, counts.into_iter()))
    }
}

/// Limit on distinct values of this many fields.
fn values_max(fields: usize) -> usize {
    if fields == 1 { VALUES_MAX } else { PAIRS_MAX }
}

/// Counts lines as they arrive.
#[derive(Default)]
pub(crate) struct Counter {
    counted: [FieldsCounter; COUNTED.len()],
    /// Buffer for the values that are looked up, joined.
    joined: Vec<u8>,
}

/// The number of the values of each list in [`COUNTED`], issued by one [`Counter`].
pub(crate) type ValueNumbers = [u16; COUNTED.len()];

#[derive(Default)]
struct FieldsCounter {
    /// By joined values.
    numbers: HashMap<Box<[u8]>, u16, foldhash::fast::RandomState>,
    /// By number; empty once there were too many.
    values: Vec<ValueCounter>,
    overflowed: bool,
    /// The longest interval of the counts that were added, seconds: within it, the seconds of lines
    /// are not known.
    interval_s_min: i64,
}

#[derive(Default)]
struct ValueCounter {
    values: Vec<Vec<u8>>,
    /// Lines of the most recent second, not yet included in `counts`.
    second: i64,
    lines: u32,
    /// Number of lines by second.
    counts: HashMap<i64, u32, foldhash::fast::RandomState>,
}

impl Counter {
    /// The numbers of values in the order of [`COUNTED_FIELDS`]; a value is empty if a line has
    /// none.
    pub(crate) fn numbers(&mut self, values: [&[u8]; COUNTED_FIELDS.len()]) -> ValueNumbers {
        let mut numbers = [0; COUNTED.len()];
        for ((counter, fields), number) in self.counted.iter_mut().zip(COUNTED).zip(&mut numbers) {
            *number = counter.number(&values, fields, &mut self.joined);
        }
        numbers
    }

    /// Counts `lines` lines with an event time in this second.
    #[inline]
    pub(crate) fn add(&mut self, second: i64, lines: u32, values: &ValueNumbers) {
        for (counter, &value) in self.counted.iter_mut().zip(values) {
            // The list is empty if there were too many values.
            if let Some(value) = counter.values.get_mut(usize::from(value)) {
                value.add(second, lines);
            }
        }
    }

    /// Adds all counts of another segment. A field that is not counted there has too many values.
    pub(crate) fn add_counted<'r>(&mut self, rollups: impl Iterator<Item = &'r Rollup> + Clone) {
        for (counter, fields) in self.counted.iter_mut().zip(COUNTED) {
            let counts_these = |rollup: &&Rollup| {
                rollup.fields.iter().eq(fields.iter().map(|&field| COUNTED_FIELDS[field]))
            };
            match rollups.clone().find(counts_these) {
                Some(rollup) => counter.add_counted(rollup, &mut self.joined),
                None => counter.overflow(),
            }
        }
    }

    /// The counts by one field, and by two.
    pub(crate) fn finish(self, lines: u64) -> (Vec<Rollup>, Vec<Rollup>) {
        let counted = self.counted.into_iter().zip(COUNTED);
        let rollups = counted.filter_map(|(counter, fields)| {
            counter.finish(fields.iter().map(|&field| COUNTED_FIELDS[field].to_owned()), lines)
        });
        rollups.partition(|rollup| rollup.fields.len() == 1)
    }
}

impl ValueCounter {
    #[inline]
    fn add(&mut self, second: i64, lines: u32) {
        if self.second == second {
            self.lines = self.lines.saturating_add(lines);
        } else {
            self.settle();
            (self.second, self.lines) = (second, lines);
        }
    }

    fn settle(&mut self) {
        if self.lines > 0 {
            let lines = self.counts.entry(self.second).or_default();
            *lines = lines.saturating_add(self.lines);
            self.lines = 0;
        }
    }

    /// Joins the counts of all seconds of an interval of this length. All lines are settled.
    fn join_intervals(&mut self, interval_s: i64) {
        for (second, lines) in std::mem::take(&mut self.counts) {
            let start = second.div_euclid(interval_s).saturating_mul(interval_s);
            let joined = self.counts.entry(start).or_default();
            *joined = joined.saturating_add(lines);
        }
    }
}

impl FieldsCounter {
    /// The number of the values of these fields.
    fn number(&mut self, values: &[&[u8]], fields: &[usize], joined: &mut Vec<u8>) -> u16 {
        self.number_of(fields.iter().map(|&field| values[field]), joined)
    }

    /// The number of these values.
    fn number_of<'v>(
        &mut self,
        values: impl ExactSizeIterator<Item = &'v [u8]> + Clone,
        joined: &mut Vec<u8>,
    ) -> u16 {
        if self.overflowed {
            return u16::MAX;
        }
        joined.clear();
        values.clone().for_each(|value| put_piece(joined, value));
        if let Some(&number) = self.numbers.get(&joined[..]) {
            return number;
        }
        let is_long = values.clone().any(|value| value.len() > VALUE_BYTES_MAX);
        if self.values.len() >= values_max(values.len()) || is_long {
            self.overflow();
            return u16::MAX;
        }
        let number = self.values.len() as u16;
        let values = values.map(<[u8]>::to_vec).collect();
        self.values.push(ValueCounter { values, ..ValueCounter::default() });
        self.numbers.insert(joined[..].into(), number);
        number
    }

    /// Gives these fields up: they have too many values.
    fn overflow(&mut self) {
        *self = FieldsCounter { overflowed: true, ..FieldsCounter::default() };
    }

    fn add_counted(&mut self, rollup: &Rollup, joined: &mut Vec<u8>) {
        let numbers: Vec<u16> = (rollup.values.iter())
            .map(|values| self.number_of(values.iter().map(Vec::as_slice), joined))
            .collect();
        self.interval_s_min = self.interval_s_min.max(rollup.interval_s);
        for (at, count) in rollup.each() {
            let number = numbers[usize::from(count.value)];
            // Without values there were too many.
            if let Some(value) = self.values.get_mut(usize::from(number)) {
                value.add(at.saturating_mul(rollup.interval_s), count.lines);
            }
        }
        self.bound_counts();
    }

    /// Joins intervals until there are not too many counts: those of many segments are added one
    /// after the other, and only the sum is written.
    fn bound_counts(&mut self) {
        self.values.iter_mut().for_each(ValueCounter::settle);
        while self.values.iter().map(|value| value.counts.len()).sum::<usize>() > COUNTS_MAX {
            let longer_s = INTERVALS_S.into_iter().find(|&longer| longer > self.interval_s_min);
            let Some(longer_s) = longer_s else { return };
            self.interval_s_min = longer_s;
            self.values.iter_mut().for_each(|value| value.join_intervals(longer_s));
        }
    }

    fn finish(mut self, fields: impl Iterator<Item = String>, lines: u64) -> Option<Rollup> {
        if self.overflowed {
            return None;
        }
        self.values.iter_mut().for_each(ValueCounter::settle);
        let mut counts: Vec<(i64, u16, u32)> = Vec::new();
        for (value, counter) in (0..).zip(&self.values) {
            counts.extend(counter.counts.iter().map(|(&second, &lines)| (second, value, lines)));
        }
        // Longer intervals join what shorter ones distinguish.
        let mut interval_s = 1;
        for longer_s in INTERVALS_S {
            coarsen(&mut counts, longer_s / interval_s);
            interval_s = longer_s;
            let intervals = 1 + counts.windows(2).filter(|pair| pair[0].0 != pair[1].0).count();
            if interval_s >= self.interval_s_min
                && intervals as u64 * LINES_PER_INTERVAL <= lines.max(LINES_PER_INTERVAL)
                && counts.len() as u64 * LINES_PER_COUNT <= lines.max(LINES_PER_INTERVAL)
                && counts.len() <= COUNTS_MAX
            {
                break;
            }
        }
        let values = self.values.into_iter().map(|counter| counter.values).collect();
        let counts = counts.into_iter().map(|(at, value, lines)| (at, Count { value, lines }));
        Some(Rollup::new(fields.collect(), values, interval_s, counts))
    }
}

/// Joins counts to intervals that are `times` times as long.
fn coarsen(counts: &mut Vec<(i64, u16, u32)>, times: i64) {
    counts.iter_mut().for_each(|count| count.0 = count.0.div_euclid(times));
    counts.sort_unstable();
    counts.dedup_by(|next, kept| {
        let same = (next.0, next.1) == (kept.0, kept.1);
        kept.2 = kept.2.saturating_add(if same { next.2 } else { 0 });
        same
    });
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// Places of pairs among all rollups.
    const SEVERITY_OF_APP: usize = ROLLUP_FIELDS.len();
    const LEVEL_OF_APP: usize = ROLLUP_FIELDS.len() + 1;

    fn count(lines: &[(i64, &str)]) -> Vec<Rollup> {
        let mut counter = Counter::default();
        for (second, level) in lines {
            let values = counter.numbers([level.as_bytes(), b"", b"app", b"t", b"6", b"x", b"s"]);
            counter.add(*second, 1, &values);
        }
        let (rollups, pairs) = counter.finish(lines.len() as u64);
        rollups.into_iter().chain(pairs).collect()
    }

    fn totals(rollup: &Rollup) -> Vec<(String, u64)> {
        let shown = |values: &[Vec<u8>]| {
            let values = values.iter().map(|value| String::from_utf8_lossy(value));
            values.collect::<Vec<_>>().join(" ")
        };
        rollup.totals().into_iter().map(|(values, lines)| (shown(values), lines)).collect()
    }

    fn check_totals(rollup: &Rollup, expected: &[(&str, u64)]) {
        let expected: Vec<(String, u64)> =
            expected.iter().map(|(values, lines)| (values.to_string(), *lines)).collect();
        assert_eq!(totals(rollup), expected);
    }

    #[test]
    fn more_counts_than_are_kept_are_joined_to_longer_intervals() {
        // Each second has lines of two hosts, and many lines for each count.
        let of_seconds = |seconds: Range<i64>| {
            let mut counter = Counter::default();
            for host in ["h1", "h2"] {
                let values = counter.numbers([b"l", host.as_bytes(), b"", b"t", b"", b"", b""]);
                seconds.clone().for_each(|second| counter.add(second, 50, &values));
            }
            let (rollups, pairs) = counter.finish(seconds.count() as u64 * 100);
            rollups.into_iter().chain(pairs).collect::<Vec<_>>()
        };
        let seconds = COUNTS_MAX as i64 * 2 / 5;
        let parts: Vec<_> =
            (0..3).map(|part| of_seconds(part * seconds..(part + 1) * seconds)).collect();
        assert_eq!(parts[0][1].interval_s, 1);
        assert!(parts[0][1].counts.len() > COUNTS_MAX / 2);
        let mut counter = Counter::default();
        parts.iter().for_each(|part| counter.add_counted(part.iter()));
        // The sum of two was too much already.
        assert!(
            counter.counted[1].values.iter().map(|v| v.counts.len()).sum::<usize>() <= COUNTS_MAX
        );
        let (rollups, pairs) = counter.finish(3 * seconds as u64 * 100);
        for rollup in rollups.iter().chain(&pairs) {
            assert!(rollup.counts.len() <= COUNTS_MAX, "{:?}", rollup.fields);
            let lines: u64 = rollup.lines.iter().sum();
            assert_eq!(lines, 3 * seconds as u64 * 100, "{:?}", rollup.fields);
        }
        assert_eq!(rollups[1].interval_s, 10);
        check_totals(&rollups[1], &[("h1", 150 * seconds as u64), ("h2", 150 * seconds as u64)]);
        // Seconds before 1970 are in the interval that begins before them.
        let mut value = ValueCounter::default();
        value.counts.extend([(-1, 1), (-10, 2), (-11, 4), (0, 8)]);
        value.join_intervals(10);
        let joined: BTreeMap<i64, u32> = value.counts.into_iter().collect();
        assert_eq!(joined, BTreeMap::from([(-20, 4), (-10, 3), (0, 8)]));
    }

    #[test]
    fn counts_round_trip_and_agree_with_the_lines() {
        let lines: Vec<(i64, &str)> =
            (0..10_000).map(|i| (i / 100, if i % 10 == 0 { "error" } else { "info" })).collect();
        let rollups = count(&lines);
        assert_eq!(rollups.len(), ROLLUP_FIELDS.len() + ROLLUP_PAIRS.len());
        assert_eq!((rollups[0].interval_s, rollups[0].counts.len()), (1, 200));
        check_totals(&rollups[0], &[("error", 1000), ("info", 9000)]);
        check_totals(&rollups[1], &[("", 10_000)]);
        check_totals(&rollups[SEVERITY_OF_APP], &[("app 6", 10_000)]);
        check_totals(&rollups[LEVEL_OF_APP], &[("app error", 1000), ("app info", 9000)]);
        for rollup in rollups {
            let mut out = Vec::new();
            rollup.encode(&mut out);
            let mut cursor = Cursor::new(&out);
            let fields = rollup.fields.len();
            assert_eq!(Rollup::decode(&mut cursor, fields, 10_000).unwrap(), rollup);
            cursor.end().unwrap();
        }
    }

    #[test]
    fn counts_are_added_up_by_bucket() {
        let lines: Vec<(i64, &str)> =
            (-300..9_700).map(|i| (i / 100, if i % 10 == 0 { "error" } else { "info" })).collect();
        let rollups = count(&lines);
        let check = |rollup: &Rollup, by_value: bool, bucket_s: Option<(i64, i64)>| {
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
            let fields: &[&str] = if by_value { &["_level"] } else { &[] };
            let indexes = rollup.indexes_of(fields).unwrap();
            rollup.visit(&indexes, bucket_ns, i64::MIN..i64::MAX, &mut |time_ns, values, lines| {
                let key = (bucket(time_ns / SECOND_NS), values.concat());
                assert_eq!(found.insert(key, lines), None);
            });
            assert_eq!(found, expected, "{by_value} {bucket_s:?}");
        };
        for by_value in [false, true] {
            for bucket_s in [None, Some((1, 0)), Some((7, 0)), Some((7, 3)), Some((20, -6))] {
                check(&rollups[0], by_value, bucket_s);
                check(&rollups[LEVEL_OF_APP], by_value, bucket_s);
            }
        }
        let rollup = &rollups[0];
        assert_eq!(rollups[LEVEL_OF_APP].indexes_of(&["_level", "app_name"]), Some(vec![1, 0]));
        assert_eq!(rollups[LEVEL_OF_APP].indexes_of(&["_level", "hostname"]), None);
        assert!(!rollup.tells_apart(Some((SECOND_NS / 2, 0))));
        assert!(!rollup.tells_apart(Some((SECOND_NS, 5))));
    }

    #[test]
    fn a_range_of_whole_intervals_is_counted() {
        let lines: Vec<(i64, &str)> = (0..3_200).map(|i| (i % 100, "info")).collect();
        let rollup = &count(&lines)[0];
        assert_eq!(rollup.interval_s, 1);
        let check = |from_ns: Option<i64>, to_ns: Option<i64>, expected: Option<u64>| {
            let intervals = rollup.intervals(from_ns, to_ns);
            let counted = intervals.map(|intervals| {
                let mut sum = 0;
                rollup.visit(&[], None, intervals, &mut |_, _, lines| sum += lines);
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
    fn repeated_seconds_are_counted_together() {
        let lines: Vec<(i64, &str)> = (0..9_000).map(|i| (i % 100, "info")).collect();
        let rollups = count(&lines);
        assert_eq!((rollups[0].interval_s, rollups[0].counts.len()), (1, 100));
        assert!(rollups[0].counts.iter().all(|count| count.lines == 90));
    }

    #[test]
    fn intervals_grow_where_lines_are_rare() {
        let lines: Vec<(i64, &str)> = (0..100).map(|i| (i * 60, "info")).collect();
        let rollups = count(&lines);
        assert_eq!(rollups[0].interval_s, 3_600);
        check_totals(&rollups[0], &[("info", 100)]);
    }

    #[test]
    fn intervals_grow_where_values_are_many() {
        let values: Vec<String> = (0..20).map(|i| i.to_string()).collect();
        let lines: Vec<(i64, &str)> =
            (0..4_000).map(|i| (i / 40, values[i as usize % 20].as_str())).collect();
        let rollups = count(&lines);
        // Two lines per count with one-second intervals, twenty with ten-second intervals.
        assert_eq!((rollups[0].interval_s, rollups[0].counts.len()), (10, 200));
        assert_eq!((rollups[1].interval_s, rollups[1].counts.len()), (1, 100));
        assert_eq!(
            (rollups[LEVEL_OF_APP].interval_s, rollups[LEVEL_OF_APP].counts.len()),
            (10, 200)
        );
    }

    #[test]
    fn too_many_values_have_no_counts() {
        let values: Vec<String> = (0..=VALUES_MAX).map(|i| i.to_string()).collect();
        let lines: Vec<(i64, &str)> = values.iter().map(|v| (0, v.as_str())).collect();
        assert_eq!(count(&lines[1..])[0].values.len(), VALUES_MAX);
        let fields: Vec<String> =
            count(&lines).into_iter().map(|rollup| rollup.fields.join(" ")).collect();
        assert_eq!(
            fields,
            [
                "hostname",
                "app_name",
                "_type",
                "level",
                "service",
                "app_name severity",
                "app_name _level",
                "hostname app_name",
                "hostname _level",
                "service level"
            ]
        );
    }
}
