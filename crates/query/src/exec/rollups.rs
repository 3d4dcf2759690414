//! Counts lines from the counts that segments keep ([`ScanUnit::count_segment`]), for queries that
//! these can answer ([`Rolled`]).
//!
//! A segment is not opened if its counts separate the lines in the time range from the others. Each
//! count becomes a row that stands for its lines. The row goes through the filter into the first
//! pipe, which counts it as that many lines. Without a field, a unit whose times all fall into one
//! bucket is not opened either.
//!
//! A segment with a damaged unit is not counted so: its lines are counted one unit after the other,
//! and those of the damaged one are missing, as in every other query.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use record::batch::OWN_TYPES;
use text::time::write_time;

use super::words::open_units;
use crate::base::bitmap::Bitmap;
use crate::base::names::TIME;
use crate::base::{Pulse, RunError, TimeRange};
use crate::block::{BLOCK_ROWS_MAX, Block, MadeRow, Scratch, Weighted};
#[cfg(doc)]
use crate::lang::filter::tests_of;
use crate::lang::filter::{ColumnSelector, Fields};
use crate::lang::pipe::time_bucket;
use crate::lang::source::{Grouped, ScanUnit};
use crate::plan::needs::Needs;
use crate::plan::rolled::{Counts, OfSegment, Rolled, SegmentCounts};

/// Where words leave a test open in at most one of this many units, the columns of these units are
/// read to rule it out. A word filter gives one false positive in 256 absent words.
const OPEN_PARTS: usize = 8;
/// Room for an average value: a time, to the second. Values may be longer.
const VALUE_BYTES: usize = "2026-01-31T12:00:00Z".len();

/// For each set of tests that are ruled out, how the lines of the segment are counted.
type CountsWithout = HashMap<Vec<bool>, Option<Counts>, foldhash::fast::RandomState>;

/// Calls `each` with the selected rows of every segment that can be counted. Removes the units
/// of these segments from `units` and returns them.
pub(crate) fn count_segments(
    rolled: &Rolled,
    units: &mut Vec<Box<dyn ScanUnit>>,
    range: TimeRange,
    needs: &Needs,
    check: &dyn Fn() -> Result<(), RunError>,
    each: &mut dyn FnMut(Weighted) -> Result<(), RunError>,
) -> Result<Vec<Box<dyn ScanUnit>>, RunError> {
    // Segments, in the order of their first units.
    let mut segments: Vec<(u64, Vec<&dyn ScanUnit>)> = Vec::new();
    let mut places: HashMap<u64, usize, foldhash::fast::RandomState> = HashMap::default();
    for unit in units.iter() {
        if let Some((segment, _)) = unit.segment() {
            let place = *places.entry(segment).or_insert(segments.len());
            if place == segments.len() {
                segments.push((segment, Vec::new()));
            }
            segments[place].1.push(&**unit);
        }
    }
    let mut without = CountsWithout::default();
    let mut known_counts: HashMap<OfSegment, Option<SegmentCounts>> = HashMap::new();
    let mut counted = HashSet::<u64, foldhash::fast::RandomState>::default();
    let is_damaged = |unit: &&dyn ScanUnit| unit.damage().is_some();
    for (segment, units) in segments {
        if units.iter().any(is_damaged) {
            continue;
        }
        let mut is_counted = match &rolled.whole {
            Some(whole) => count_segment(whole, units[0], range, check, each)?,
            None => false,
        };
        if !is_counted && rolled.asks_segments {
            let known = known_of(&units)?;
            let counts = known_counts.entry(known).or_insert_with(|| rolled.of_segment(known));
            is_counted = match counts {
                Some(SegmentCounts::Some(counts)) => {
                    count_segment(counts, units[0], range, check, each)?
                }
                Some(SegmentCounts::None) => true,
                None => false,
            };
        }
        if !is_counted
            && rolled.rules_out()
            && let Some(tests) = ruled_out(rolled, &units, needs, check)?
        {
            let rest = without.entry(tests);
            let rest = rest.or_insert_with_key(|tests| rolled.counts_without(tests));
            is_counted = match rest {
                Some(counts) => count_segment(counts, units[0], range, check, each)?,
                None => false,
            };
        }
        if is_counted {
            counted.insert(segment);
        }
    }
    let is_counted = |unit: &mut Box<dyn ScanUnit>| {
        unit.segment().is_some_and(|(segment, _)| counted.contains(&segment))
    };
    Ok(units.extract_if(.., is_counted).collect())
}

/// What is known of all lines of a segment, of which these are the units in the range.
fn known_of(units: &[&dyn ScanUnit]) -> Result<OfSegment, RunError> {
    let first = units[0];
    let tenant = first.tenant();
    let tenant = tenant.filter(|_| units.iter().all(|unit| unit.tenant() == tenant));
    let mut has_own = false;
    let range = TimeRange { start_ns: i64::MIN, end_ns: i64::MAX };
    let by_type = Grouped { fields: &["_type"], bucket_ns: None, range };
    let counted = first.count_segment(by_type, &mut |_, values, _| {
        has_own |= OWN_TYPES.iter().any(|own| own.as_bytes() == values[0]);
    });
    let is_known = match counted {
        Err(_) if first.damage().is_some() => false,
        counted => counted?,
    };
    Ok(OfSegment { tenant, has_own: has_own || !is_known })
}

/// For each [test](tests_of) of the filter, whether no line of a segment can pass it; none
/// where that holds for no test. Where the words of a few units leave it open, their columns
/// decide.
fn ruled_out(
    rolled: &Rolled,
    units: &[&dyn ScanUnit],
    needs: &Needs,
    check: &dyn Fn() -> Result<(), RunError>,
) -> Result<Option<Vec<bool>>, RunError> {
    check()?;
    let open = open_units(needs, units);
    if open.is_err() && units.iter().any(|unit| unit.damage().is_some()) {
        return Ok(None);
    }
    let Some(open) = open? else { return Ok(None) };
    let mut ruled_out = Vec::with_capacity(open.len());
    for (test, open) in rolled.tests.iter().zip(&open) {
        let mut none_passes = open.len() * OPEN_PARTS <= units.len();
        for &unit in open {
            none_passes = none_passes && has_none(units[unit], test.as_ref(), check)?;
        }
        ruled_out.push(none_passes);
    }
    Ok(ruled_out.contains(&true).then_some(ruled_out))
}

fn count_segment(
    counts: &Counts,
    unit: &dyn ScanUnit,
    range: TimeRange,
    check: &dyn Fn() -> Result<(), RunError>,
    each: &mut dyn FnMut(Weighted) -> Result<(), RunError>,
) -> Result<bool, RunError> {
    let pulse = Pulse::new(check);
    let mut rows = CountedRows::new(counts);
    let mut scratch = Scratch::default();
    let mut result = Ok(());
    let fields: Vec<&str> = counts.fields.iter().map(String::as_str).collect();
    let grouped = Grouped { fields: &fields, bucket_ns: counts.bucket_ns, range };
    let known = unit.count_segment(grouped, &mut |time_ns, values, lines| {
        rows.push(time_ns, values, lines);
        if rows.lines.len() >= BLOCK_ROWS_MAX && result.is_ok() {
            let selected = rows.take_selected(&mut scratch, &pulse);
            result = if pulse.is_over() { Ok(()) } else { each(selected) };
        }
    });
    result?;
    if known.is_err() && unit.damage().is_some() {
        return Ok(false);
    }
    let known = known?;
    let selected = rows.take_selected(&mut scratch, &pulse);
    pulse.end()?;
    each(selected)?;
    Ok(known)
}

/// A row that stands for all lines of a unit, whose event times go from the first to the second
/// instant. None if the query may distinguish these lines.
pub(crate) fn count_unit(
    counts: &Counts,
    unit: &dyn ScanUnit,
    known: Option<(i64, i64)>,
    range: TimeRange,
    scratch: &mut Scratch,
) -> Option<Weighted> {
    let (oldest, newest) = known?;
    let is_inside = range.contains(oldest) && range.contains(newest);
    let one_bucket = counts.bucket_ns.is_none_or(|(step_ns, offset_ns)| {
        time_bucket(oldest, step_ns, offset_ns) == time_bucket(newest, step_ns, offset_ns)
    });
    let alike = counts.fields.is_empty() && one_bucket;
    if !alike || !is_inside || unit.lines() == 0 || !unit.are_lines_exact() {
        return None;
    }
    let mut rows = CountedRows::new(counts);
    rows.push(oldest, &[], unit.lines());
    // It has no fields, so the filter tests no values.
    Some(rows.take_selected(scratch, &Pulse::endless()))
}

/// Rows that stand for lines with these event times, as far as they are in the range: one row for
/// each bucket. For queries that look at no field.
pub(crate) fn count_times(
    counts: &Counts,
    times_ns: &[i64],
    range: TimeRange,
    scratch: &mut Scratch,
) -> Weighted {
    // Lines are mostly in order of time: a bucket is looked up where it changes.
    let mut buckets: HashMap<i64, (i64, u64), foldhash::fast::RandomState> = HashMap::default();
    let (mut bucket, mut run) = (None, 0);
    let bucket_of = |time_ns| match counts.bucket_ns {
        Some((step_ns, offset_ns)) => time_bucket(time_ns, step_ns, offset_ns),
        None => 0,
    };
    let mut add = |bucket: Option<(i64, i64)>, lines| {
        if let Some((bucket, time_ns)) = bucket {
            buckets.entry(bucket).or_insert((time_ns, 0)).1 += lines;
        }
    };
    for &time_ns in times_ns.iter().filter(|time_ns| range.contains(**time_ns)) {
        let own = bucket_of(time_ns);
        if bucket.is_none_or(|(known, _)| known != own) {
            add(bucket, run);
            (bucket, run) = (Some((own, time_ns)), 0);
        }
        run += 1;
    }
    add(bucket, run);
    let mut rows = CountedRows::new(counts);
    buckets.into_values().for_each(|(time_ns, lines)| rows.push(time_ns, &[], lines));
    rows.take_selected(scratch, &Pulse::endless())
}

/// Whether the columns of a unit show that no line of it passes a test.
fn has_none(
    unit: &dyn ScanUnit,
    test: Option<&ColumnSelector>,
    check: &dyn Fn() -> Result<(), RunError>,
) -> Result<bool, RunError> {
    let Some(test) = test else { return Ok(false) };
    let pulse = Pulse::new(check);
    let mut is_none = false;
    let read = unit.with_columns(&mut |columns| {
        let mut bits = Bitmap::full(columns.rows());
        is_none = test.narrow(&Fields::new(columns, &pulse, &[]), &mut bits)? && bits.is_empty();
        Ok(())
    });
    if read.is_err() && unit.damage().is_some() {
        return Ok(false);
    }
    read?;
    pulse.end()?;
    Ok(is_none)
}

/// Rows that are being built.
struct CountedRows<'r> {
    counts: &'r Counts,
    time: Option<Arc<str>>,
    fields: Vec<Arc<str>>,
    text: Vec<u8>,
    rows: Vec<MadeRow>,
    lines: Vec<u64>,
    times_ns: Vec<i64>,
}

impl<'r> CountedRows<'r> {
    fn new(counts: &'r Counts) -> Self {
        CountedRows {
            counts,
            time: counts.bucket_ns.map(|_| TIME.into()),
            fields: counts.fields.iter().map(|name| name.as_str().into()).collect(),
            text: Vec::new(),
            rows: Vec::new(),
            lines: Vec::new(),
            times_ns: Vec::new(),
        }
    }

    fn push(&mut self, time_ns: i64, values: &[&[u8]], lines: u64) {
        let fields = self.fields.len() + usize::from(self.time.is_some());
        let mut row = MadeRow::default();
        row.reserve(fields, fields * VALUE_BYTES);
        if let Some(name) = &self.time {
            self.text.clear();
            write_time(time_ns, &mut self.text);
            row.push(name.clone(), &self.text);
            self.times_ns.push(time_ns);
        }
        for (name, value) in self.fields.iter().zip(values) {
            row.push(name.clone(), value);
        }
        self.rows.push(row);
        self.lines.push(lines);
    }

    /// Takes out the rows that the filter selects, and drops the others.
    fn take_selected(&mut self, scratch: &mut Scratch, pulse: &Pulse<'_>) -> Weighted {
        let mut block = Block::Made(std::mem::take(&mut self.rows));
        let mut bits = Bitmap::full(block.len());
        self.counts.selector.narrow_while(&block, &mut bits, scratch, pulse);
        block.retain(&bits);
        let lines = bits.iter().map(|row| self.lines[row]).collect();
        let times_ns = match self.times_ns.is_empty() {
            true => Vec::new(),
            false => bits.iter().map(|row| self.times_ns[row]).collect(),
        };
        self.lines.clear();
        self.times_ns.clear();
        Weighted { block, lines, times_ns }
    }
}
