//! Queries that count lines by time and one or two fields: `level:error | stats by (_time:1m)
//! count()`, `top 10 by (hostname)`, `app_name:=nginx | stats by (level) count()`.
//!
//! Segments keep such counts ([`ScanUnit::count_segment`]). A segment is not opened if its counts
//! separate the lines in the time range from the others. Each count becomes a row that stands for
//! its lines. The row goes through the filter into the first pipe, which counts it as that many
//! lines. Without a field, a unit whose times all fall into one bucket is not opened either.
//!
//! A test that no line of a segment can pass, because its words are not there, is left out of the
//! filter for that segment. So `!"no such word" | stats by (level) count()` is answered from counts
//! too, although segments keep none of messages.
//!
//! Left out: queries by more fields, or by fields for which no counts are kept; these read columns
//! ([`crate::plan::counting`]).

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use record::columns::ValueCounts;

use crate::bitmap::Bitmap;
use crate::block::{BLOCK_ROWS_MAX, Block, MadeRow, Scratch};
use crate::exec::RunError;
use crate::filter::{ColumnSelector, Fields, Filter, Pulse, Selector};
use crate::pipe::time_bucket;
use crate::plan::counting::{CountedBy, TIME};
use crate::plan::needs::{Needs, is_stored, leaves_of, tests_of};
use crate::source::{Grouped, ScanUnit, TimeRange};
use crate::syntax::query::Query;
use crate::time::write_time;

/// Fields of such a query.
const FIELDS_MAX: usize = 2;
/// A test is ruled out by columns where words leave it open in one of so many units at most. A word
/// filter errs for one absent word of 256.
const OPEN_PARTS: usize = 8;
/// Room for an average value: a time, to the second. Values may be longer.
const VALUE_BYTES: usize = "2026-01-31T12:00:00Z".len();

/// A query that can be answered from the counts of segments.
pub(crate) struct Rolled {
    counted: CountedBy,
    /// Without tests of the time, which all rows pass.
    filter: Filter,
    /// How lines are counted by the whole filter; none where that looks at more fields.
    whole: Option<Counts>,
    /// The [tests](tests_of) of the filter, each by itself, none for those that need lines. Empty
    /// where ruling them out makes no difference.
    tests: Vec<Option<ColumnSelector>>,
}

/// How the lines of a segment are counted.
struct Counts {
    fields: Vec<String>,
    bucket_ns: Option<(i64, i64)>,
    /// The filter without tests of the time, which all rows pass.
    selector: Selector,
}

/// [`Counts`] by which tests are ruled out.
type CountsWithout = HashMap<Vec<bool>, Option<Counts>, foldhash::fast::RandomState>;

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

impl Rolled {
    /// None when the query needs more than such counts, whichever tests are ruled out.
    pub fn of(query: &Query) -> Option<Rolled> {
        let counted = CountedBy::of(query.pipes().first())?;
        let filter = without_time(query.filter());
        let whole = Counts::of(&counted, &filter);
        let least = without_tests(&filter, &mut std::iter::repeat(true));
        let is_gain = least != filter && least != nothing();
        let tests = match is_gain && Counts::of(&counted, &least).is_some() {
            true => leaves_of(&filter).into_iter().map(ColumnSelector::new).collect(),
            false => Vec::new(),
        };
        let is_possible = whole.is_some() || !tests.is_empty();
        is_possible.then_some(Rolled { counted, filter, whole, tests })
    }

    /// Whether counts may answer where the words of a segment rule tests out.
    pub fn rules_out(&self) -> bool {
        !self.tests.is_empty()
    }

    /// Calls `each` with the selected rows of every segment that can be counted. Removes the units
    /// of these segments from `units` and returns them.
    pub fn count_segments(
        &self,
        units: &mut Vec<Box<dyn ScanUnit>>,
        range: TimeRange,
        needs: &Needs,
        check: &dyn Fn() -> Result<(), RunError>,
        each: &mut dyn FnMut(Weighted) -> Result<(), RunError>,
    ) -> Result<Vec<Box<dyn ScanUnit>>, RunError> {
        // In the order of their first units.
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
        let mut counted = HashSet::<u64, foldhash::fast::RandomState>::default();
        for (segment, units) in segments {
            let mut is_counted = match &self.whole {
                Some(whole) => whole.count_segment(units[0], range, each)?,
                None => false,
            };
            if !is_counted
                && self.rules_out()
                && let Some(ruled_out) = self.ruled_out(&units, needs, check)?
            {
                let rest = without.entry(ruled_out);
                let rest = rest.or_insert_with_key(|tests| self.counts_without(tests));
                is_counted = match rest {
                    Some(counts) => counts.count_segment(units[0], range, each)?,
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

    /// For each [test](tests_of) of the filter, whether no line of a segment can pass it; none
    /// where that holds for no test. Where the words of a few units leave it open, their columns
    /// decide.
    fn ruled_out(
        &self,
        units: &[&dyn ScanUnit],
        needs: &Needs,
        check: &dyn Fn() -> Result<(), RunError>,
    ) -> Result<Option<Vec<bool>>, RunError> {
        check()?;
        let Some(open) = needs.open_units(units)? else { return Ok(None) };
        let mut ruled_out = Vec::with_capacity(open.len());
        for (test, open) in self.tests.iter().zip(&open) {
            let mut none_passes = open.len() * OPEN_PARTS <= units.len();
            for &unit in open {
                none_passes = none_passes && has_none(units[unit], test.as_ref(), check)?;
            }
            ruled_out.push(none_passes);
        }
        Ok(ruled_out.contains(&true).then_some(ruled_out))
    }

    /// How lines are counted where some tests are ruled out.
    fn counts_without(&self, ruled_out: &[bool]) -> Option<Counts> {
        let rest = without_tests(&self.filter, &mut ruled_out.iter().copied());
        Counts::of(&self.counted, &rest)
    }

    /// A row that stands for all lines of a unit. None if the query may distinguish these lines.
    pub fn count_unit(
        &self,
        unit: &dyn ScanUnit,
        range: TimeRange,
        scratch: &mut Scratch,
    ) -> Option<Weighted> {
        self.whole.as_ref()?.count_unit(unit, range, scratch)
    }
}

impl Counts {
    /// None where that takes more fields than segments count by.
    fn of(counted: &CountedBy, filter: &Filter) -> Option<Counts> {
        let mut fields: Vec<&str> = counted.fields.iter().map(String::as_str).collect();
        fields_of(filter, &mut fields)?;
        fields.sort_unstable();
        fields.dedup();
        if fields.len() > FIELDS_MAX || !fields.iter().all(|name| is_stored(name)) {
            return None;
        }
        let fields = fields.into_iter().map(str::to_owned).collect();
        Some(Counts { fields, bucket_ns: counted.bucket_ns, selector: Selector::new(filter) })
    }

    fn count_segment(
        &self,
        unit: &dyn ScanUnit,
        range: TimeRange,
        each: &mut dyn FnMut(Weighted) -> Result<(), RunError>,
    ) -> Result<bool, RunError> {
        let mut rows = Rows::new(self);
        let mut scratch = Scratch::default();
        let mut result = Ok(());
        let fields: Vec<&str> = self.fields.iter().map(String::as_str).collect();
        let grouped = Grouped { fields: &fields, bucket_ns: self.bucket_ns, range };
        let known = unit.count_segment(grouped, &mut |time_ns, values, lines| {
            rows.push(time_ns, values, lines);
            if rows.lines.len() >= BLOCK_ROWS_MAX && result.is_ok() {
                result = each(rows.take_selected(&mut scratch));
            }
        })?;
        result?;
        each(rows.take_selected(&mut scratch))?;
        Ok(known)
    }

    /// A row that stands for all lines of a unit. None if the query may distinguish these lines.
    fn count_unit(
        &self,
        unit: &dyn ScanUnit,
        range: TimeRange,
        scratch: &mut Scratch,
    ) -> Option<Weighted> {
        let (oldest, newest) = unit.time_range_ns()?;
        let one_bucket = self.bucket_ns.is_none_or(|(step_ns, offset_ns)| {
            time_bucket(oldest, step_ns, offset_ns) == time_bucket(newest, step_ns, offset_ns)
        });
        let alike = self.fields.is_empty() && one_bucket;
        if !alike || !is_inside(unit, range) || unit.lines() == 0 {
            return None;
        }
        let mut rows = Rows::new(self);
        rows.push(oldest, &[], unit.lines());
        Some(rows.take_selected(scratch))
    }
}

/// Whether all event times of the unit are known to be in the range.
fn is_inside(unit: &dyn ScanUnit, range: TimeRange) -> bool {
    let times = unit.time_range_ns();
    times.is_some_and(|(oldest, newest)| range.contains(oldest) && range.contains(newest))
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

    /// Memory held, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.block.memory_bytes()
            + self.lines.len() * size_of::<u64>()
            + self.times_ns.len() * size_of::<i64>()
            + size_of::<Self>()
    }
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
    unit.with_columns(&mut |columns| {
        let mut bits = Bitmap::full(columns.rows());
        is_none = test.narrow(&Fields::new(columns, &pulse, &[]), &mut bits)? && bits.is_empty();
        Ok(())
    })?;
    pulse.end()?;
    Ok(is_none)
}

/// Rows that are being built.
struct Rows<'r> {
    counts: &'r Counts,
    time: Option<Arc<str>>,
    fields: Vec<Arc<str>>,
    text: Vec<u8>,
    rows: Vec<MadeRow>,
    lines: Vec<u64>,
    times_ns: Vec<i64>,
}

impl<'r> Rows<'r> {
    fn new(counts: &'r Counts) -> Self {
        Rows {
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
    fn take_selected(&mut self, scratch: &mut Scratch) -> Weighted {
        let mut block = Block::Made(std::mem::take(&mut self.rows));
        let mut bits = Bitmap::full(block.len());
        self.counts.selector.narrow(&block, &mut bits, scratch);
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

/// The filter without the time ranges that every row must be in.
pub(crate) fn without_time(filter: &Filter) -> Filter {
    match filter {
        Filter::Time(_) => Filter::All,
        Filter::And(filters) => {
            let mut rest: Vec<Filter> =
                filters.iter().filter(|f| !matches!(f, Filter::Time(_))).cloned().collect();
            match rest.len() {
                0 => Filter::All,
                1 => rest.remove(0),
                _ => Filter::And(rest),
            }
        }
        other => other.clone(),
    }
}

/// The filter for lines that fail some of its [tests](tests_of). `ruled_out` gives for each test,
/// in the order of the tests, whether it is one of these.
fn without_tests(filter: &Filter, ruled_out: &mut impl Iterator<Item = bool>) -> Filter {
    match filter {
        Filter::And(filters) => {
            let mut rest: Vec<Filter> =
                filters.iter().map(|filter| without_tests(filter, ruled_out)).collect();
            if rest.contains(&nothing()) {
                return nothing();
            }
            rest.retain(|filter| *filter != Filter::All);
            Filter::and(rest)
        }
        Filter::Or(filters) => {
            let mut rest: Vec<Filter> =
                filters.iter().map(|filter| without_tests(filter, ruled_out)).collect();
            if rest.contains(&Filter::All) {
                return Filter::All;
            }
            rest.retain(|filter| *filter != nothing());
            if rest.is_empty() { nothing() } else { Filter::or(rest) }
        }
        Filter::Not(filter) => match without_tests(filter, ruled_out) {
            Filter::Not(inner) => *inner,
            rest => Filter::Not(rest.into()),
        },
        filter => {
            let tests = tests_of(filter).len();
            let mut is_ruled_out = false;
            ruled_out.take(tests).for_each(|out| is_ruled_out |= out);
            if is_ruled_out { nothing() } else { filter.clone() }
        }
    }
}

/// The filter that selects no line.
fn nothing() -> Filter {
    Filter::Not(Filter::All.into())
}

/// Adds the fields that a filter tests; none when it tests the time.
pub(crate) fn fields_of<'f>(filter: &'f Filter, out: &mut Vec<&'f str>) -> Option<()> {
    match filter {
        Filter::All => Some(()),
        Filter::And(filters) | Filter::Or(filters) => {
            filters.iter().try_for_each(|f| fields_of(f, out))
        }
        Filter::Not(filter) => fields_of(filter, out),
        Filter::Time(_) | Filter::Recurring(_) => None,
        Filter::AnyField { .. } | Filter::Subquery(_) => None,
        Filter::Fields { left, right, .. } => {
            out.extend([left.as_str(), right.as_str()]);
            Some(())
        }
        Filter::Field { name, .. } => {
            out.push(name);
            Some(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_that_none_passes_leave_the_filter() {
        let check = |text: &str, ruled_out: &[bool], expected: &str| {
            let query = Query::parse(text, 0).unwrap();
            assert_eq!(tests_of(query.filter()).len(), ruled_out.len(), "{text}");
            let rest = without_tests(query.filter(), &mut ruled_out.iter().copied());
            assert_eq!(rest.to_string(), expected, "{text} {ruled_out:?}");
        };
        check("!a", &[true], "*");
        check("!a", &[false], "!\"a\"");
        check("a", &[true], "!*");
        check("a level:b", &[true, false], "!*");
        check("!a level:b", &[true, false], "level:\"b\"");
        check("!a !c level:b", &[true, false, false], "!\"c\" level:\"b\"");
        check("a or level:b", &[true, false], "level:\"b\"");
        check("a or level:b", &[true, true], "!*");
        check("!(a level:b)", &[true, false], "*");
        check("!(a or level:b)", &[true, false], "!level:\"b\"");
        check("(a or b) (c or d)", &[false, true, true, false], "\"a\" \"d\"");
    }

    #[test]
    fn filters_that_words_may_decide_are_of_the_kind() {
        let kind = |text: &str| {
            let query = Query::parse(text, 0).unwrap();
            Rolled::of(&query).map(|rolled| (rolled.whole.is_some(), rolled.rules_out()))
        };
        assert_eq!(kind("* | stats by (level) count()"), Some((true, false)));
        assert_eq!(kind("!level:error | stats by (level) count()"), Some((true, true)));
        assert_eq!(kind("!x | stats by (level) count()"), Some((true, true)));
        assert_eq!(kind("!x | stats by (level, app_name) count()"), Some((false, true)));
        assert_eq!(kind("!x (a:y or !level:z) | stats by (level) count()"), Some((false, true)));
        // Where `x` is ruled out nothing is counted, which scanning finds as fast.
        assert_eq!(kind("x | stats by (level, app_name) count()"), None);
        assert_eq!(kind("!x | stats by (a, b, c) count()"), None);
    }

    #[test]
    fn only_counts_by_time_and_few_fields_are_of_the_kind() {
        let check = |text: &str, expected: Option<(&[&str], Option<i64>)>| {
            let query = Query::parse(text, 0).unwrap();
            let found = Rolled::of(&query);
            let found = found.as_ref().and_then(|rolled| rolled.whole.as_ref());
            let found = found.map(|c| (&c.fields[..], c.bucket_ns.map(|b| b.0)));
            let expected = expected.map(|(fields, bucket)| {
                (fields.iter().map(|field| field.to_string()).collect::<Vec<_>>(), bucket)
            });
            let expected = expected.as_ref().map(|(fields, bucket)| (&fields[..], *bucket));
            assert_eq!(found, expected, "{text}");
        };
        check("* | stats count()", Some((&[], None)));
        check("* | stats by (_time:1s) count() | limit 3", Some((&[], Some(1_000_000_000))));
        check("_time:5m level:error | stats count()", Some((&["level"], None)));
        check("level:error or level:warn | stats by (level) count()", Some((&["level"], None)));
        check("!level:error | top 3 by (level)", Some((&["level"], None)));
        check("* | stats count() a, count() if (level:error) b", Some((&["level"], None)));
        check("* | stats by (_time:1s, a) count()", Some((&["a"], Some(1_000_000_000))));
        // Segments keep no counts of these fields, but only the source can tell.
        check("error | stats by (level) count()", Some((&["_msg", "level"], None)));
        check("level:error | stats by (hostname) count()", Some((&["hostname", "level"], None)));
        check("* | stats by (level, hostname) count()", Some((&["hostname", "level"], None)));
        check("level:error b:x | stats by (hostname) count()", None);
        check("* | stats by (_stream) count()", None);
        check("* | stats by (_time) count()", None);
        check("* | stats by (size:10) count()", None);
        check("* | stats count(level)", None);
        check("* | stats count_uniq(level)", Some((&["level"], None)));
        check("_time:5m or level:error | stats count()", None);
        check("* | stats count() if (_time:5m)", None);
        check("* | fields level | stats count()", None);
        check("*", None);
    }
}
