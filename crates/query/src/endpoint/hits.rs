//! Rows over time: the data of the histogram.

use std::collections::HashMap;

use super::{HITS, number, with_rows};
use crate::base::time::parse_time;
use crate::base::{Buffer, RunError, TimeRange};
use crate::lang::context::Context;
use crate::lang::pipe::tuples::put_part;
use crate::lang::pipe::{Bucket, By, Function, Stats, StatsFunction, time_bucket};
use crate::lang::source::Source;
use crate::lang::syntax::query::Query;

/// Points of all series up to which empty buckets are included. Beyond it they are left out,
/// because a short step over a long time would make an answer of zeros.
const POINTS_MAX: i128 = 100_000;
/// Approximate memory of a name and its value besides their bytes.
const VALUE_BYTES: usize = size_of::<(String, String)>() + 32;
/// Approximate memory of a series besides its values and buckets. Doubled, because the list and the
/// table of series may have reserved room for as many again.
const SERIES_BYTES: usize = 2 * (size_of::<HitsSeries>() + size_of::<(Box<[u8]>, usize)>()) + 96;
/// Approximate memory of a bucket of a series.
const BUCKET_BYTES: usize = 2 * (size_of::<i64>() + size_of::<u64>());

/// Parameters of the histogram.
#[derive(Clone, Debug)]
pub struct HitsRequest {
    /// Length of a bucket, nanoseconds; positive.
    pub step_ns: i64,
    /// Shift of the buckets, nanoseconds: the negative of the offset of a zone.
    pub offset_ns: i64,
    /// Each combination of values of these fields makes a series.
    pub fields: Vec<String>,
    /// Number of series that are returned, those with the most rows. The others are added up in one
    /// series without fields.
    pub fields_limit: Option<usize>,
    /// Whether empty buckets are included, as long as there are at most 100,000 points in total.
    pub empty_buckets: bool,
}

/// Rows over time of one combination of values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HitsSeries {
    /// Names and values; empty for the series that adds up those beyond
    /// [`HitsRequest::fields_limit`].
    pub fields: Vec<(String, String)>,
    /// Start times of the buckets, ascending, nanoseconds since 1970 UTC.
    pub timestamps_ns: Vec<i64>,
    /// Rows of each bucket.
    pub values: Vec<u64>,
    /// Rows of all buckets.
    pub total: u64,
}

/// Counts the rows of `query` over time. Series with most rows come first, the added-up rest last.
pub fn hits(
    query: &Query,
    source: &dyn Source,
    context: &Context,
    request: &HitsRequest,
) -> Result<Vec<HitsSeries>, RunError> {
    let HitsRequest { step_ns, offset_ns, fields, fields_limit, empty_buckets } = request;
    assert!(*step_ns > 0, "the length of buckets is positive");
    let bucket = Bucket::Time { step_ns: *step_ns, offset_ns: *offset_ns };
    // A repeated field and the time do not distinguish more series.
    let mut names: Vec<&str> = Vec::with_capacity(fields.len());
    for name in fields {
        if name != "_time" && !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    let mut by = vec![By { name: "_time".to_owned(), bucket: Some(bucket) }];
    by.extend(names.iter().map(|&name| By { name: name.to_owned(), bucket: None }));
    let function =
        StatsFunction { function: Function::count(), filter: None, name: HITS.to_owned() };
    let mut timed = query.clone();
    timed.keep_timed();
    let query = timed.with_pipe(Stats { by, functions: vec![function] }.into());
    let mut series: Vec<HitsSeries> = Vec::new();
    let mut places: HashMap<Box<[u8]>, usize, foldhash::fast::RandomState> = HashMap::default();
    let mut columns = vec!["_time", HITS];
    columns.extend(&names);
    let names_bytes: usize = names.iter().map(|name| name.len() + VALUE_BYTES).sum();
    let mut key = Buffer::default();
    with_rows(&query, source, context, &columns, |row, meter| {
        let (time_and_hits, values) = row.split_at(2);
        // Rows come in order of time; rows that a pipe made may have no time.
        let Some(time) = parse_time(&time_and_hits[0], 0) else { return Ok(()) };
        let hits = number(&time_and_hits[1]);
        key.clear(meter);
        for value in values {
            put_part(value.as_bytes(), &mut key, meter)?;
        }
        let place = match places.get(key.bytes()) {
            Some(&place) => place,
            None => {
                // The values are stored in the key and in the series.
                let bytes = 2 * key.bytes().len() + names_bytes + SERIES_BYTES;
                meter.take(bytes)?;
                let fields = names.iter().map(|&name| name.to_owned()).zip(values.iter().cloned());
                let fields = fields.collect();
                series.push(HitsSeries { fields, ..HitsSeries::default() });
                places.insert(key.bytes().into(), series.len() - 1);
                series.len() - 1
            }
        };
        if series[place].add(time.start_ns, hits) {
            meter.take(BUCKET_BYTES)?;
        }
        Ok(())
    })?;
    drop(places);
    series.sort_by(|a, b| b.total.cmp(&a.total).then_with(|| a.fields.cmp(&b.fields)));
    if let Some(limit) = fields_limit.filter(|&limit| limit < series.len() && !names.is_empty()) {
        let mut buckets: Vec<(i64, u64)> =
            series.drain(limit..).flat_map(|s| s.timestamps_ns.into_iter().zip(s.values)).collect();
        buckets.sort_unstable();
        let mut rest = HitsSeries::default();
        buckets.into_iter().for_each(|(time_ns, hits)| {
            let _ = rest.add(time_ns, hits);
        });
        series.push(rest);
    }
    let shown = bucket_starts(&series, context.range, *step_ns, *offset_ns);
    if let Some((first, last)) = shown.filter(|_| *empty_buckets) {
        series.iter_mut().for_each(|series| series.fill(first, last, *step_ns));
    }
    Ok(series)
}

/// The first and the last bucket of the time range; where the range has no bound, those of all
/// series. None where there would be more than [`POINTS_MAX`] points.
fn bucket_starts(
    series: &[HitsSeries],
    range: TimeRange,
    step_ns: i64,
    offset_ns: i64,
) -> Option<(i64, i64)> {
    let first = series.iter().filter_map(|s| s.timestamps_ns.first()).min()?;
    let last = series.iter().filter_map(|s| s.timestamps_ns.last()).max()?;
    let start = |time_ns| time_bucket(time_ns, step_ns, offset_ns);
    let first = if range.start_ns == i64::MIN { *first } else { start(range.start_ns) };
    let last = match range.end_ns {
        i64::MAX => *last,
        // The end is exclusive.
        end_ns => start(end_ns.saturating_sub(1)),
    };
    let buckets = (i128::from(last) - i128::from(first)) / i128::from(step_ns) + 1;
    (buckets * series.len() as i128 <= POINTS_MAX).then_some((first, last))
}

impl HitsSeries {
    /// Adds the empty buckets from `first_ns` to `last_ns`, both included.
    fn fill(&mut self, first_ns: i64, last_ns: i64, step_ns: i64) {
        let known: Vec<(i64, u64)> =
            self.timestamps_ns.drain(..).zip(self.values.drain(..)).collect();
        let mut known = known.into_iter().peekable();
        let mut next = Some(first_ns);
        while let Some(at) = next.filter(|&at| at <= last_ns) {
            // No line is before the first bucket, but the query may compute times itself.
            while let Some(before) = known.next_if(|(time_ns, _)| *time_ns < at) {
                self.push(before);
            }
            let hits = known.next_if(|(time_ns, _)| *time_ns == at).map_or(0, |(_, hits)| hits);
            self.push((at, hits));
            next = at.checked_add(step_ns);
        }
        known.for_each(|behind| self.push(behind));
    }

    fn push(&mut self, (time_ns, hits): (i64, u64)) {
        self.timestamps_ns.push(time_ns);
        self.values.push(hits);
    }

    /// Adds rows to a bucket, and returns whether the bucket is new. Buckets must come in order.
    fn add(&mut self, time_ns: i64, hits: u64) -> bool {
        self.total += hits;
        if self.timestamps_ns.last() == Some(&time_ns) {
            *self.values.last_mut().expect("as many as timestamps") += hits;
            return false;
        }
        self.timestamps_ns.push(time_ns);
        self.values.push(hits);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Memory, record};

    #[test]
    fn buckets_and_groups() {
        let levels = ["error", "info", "error", "warn", "debug", "info", "error"];
        let records: Vec<_> =
            levels.iter().zip(0..).map(|(l, i)| record(i * 10, &[("level", l)])).collect();
        let query = Query::parse("* | fields _time, level | limit 2", 0).unwrap();
        let check = |fields: &[&str], fields_limit, expected: &str| {
            let fields = fields.iter().map(|f| f.to_string()).collect();
            let request = HitsRequest {
                step_ns: 20,
                offset_ns: 0,
                fields,
                fields_limit,
                empty_buckets: true,
            };
            let found = hits(&query, &Memory::of(&records), &Context::default(), &request).unwrap();
            let show = |s: &HitsSeries| {
                let fields: Vec<&str> = s.fields.iter().map(|f| f.1.as_str()).collect();
                format!("{} {:?} {:?} {}", fields.join(","), s.timestamps_ns, s.values, s.total)
            };
            assert_eq!(found.iter().map(show).collect::<Vec<_>>().join("; "), expected);
        };
        check(&[], None, " [0, 20, 40, 60] [2, 2, 2, 1] 7");
        check(&[], Some(0), " [0, 20, 40, 60] [2, 2, 2, 1] 7");
        check(
            &["level"],
            Some(2),
            "error [0, 20, 40, 60] [1, 1, 0, 1] 3; info [0, 20, 40, 60] [1, 0, 1, 0] 2;  \
             [0, 20, 40, 60] [0, 1, 1, 0] 2",
        );
        check(
            &["level", "level", "_time", "level"],
            Some(4),
            "error [0, 20, 40, 60] [1, 1, 0, 1] 3; info [0, 20, 40, 60] [1, 0, 1, 0] 2; \
             debug [0, 20, 40, 60] [0, 0, 1, 0] 1; warn [0, 20, 40, 60] [0, 1, 0, 0] 1",
        );
    }

    #[test]
    fn buckets_without_rows_are_shown_up_to_a_limit() {
        let records = [record(25, &[]), record(61, &[])];
        let check = |range: (i64, i64), step_ns, expected: &str| {
            let request = HitsRequest {
                step_ns,
                offset_ns: 0,
                fields: Vec::new(),
                fields_limit: None,
                empty_buckets: true,
            };
            let range = TimeRange { start_ns: range.0, end_ns: range.1 };
            let context = Context { range, ..Context::default() };
            let query = Query::parse("*", 0).unwrap();
            let found = hits(&query, &Memory::of(&records), &context, &request).unwrap();
            let show = |s: &HitsSeries| format!("{:?} {:?}", s.timestamps_ns, s.values);
            assert_eq!(found.iter().map(show).collect::<String>(), expected);
        };
        check((5, 100), 20, "[0, 20, 40, 60, 80] [0, 1, 0, 1, 0]");
        check((5, 80), 20, "[0, 20, 40, 60] [0, 1, 0, 1]");
        check((i64::MIN, i64::MAX), 20, "[20, 40, 60] [1, 0, 1]");
        check((0, 200_000), 1, "[25, 61] [1, 1]");
        check((70, 100), 20, "");
    }
}
