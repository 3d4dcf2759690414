//! Rows over time: what the histogram shows.

use std::collections::HashMap;

use super::{HITS, number, with_rows};
use crate::pipe::{Bucket, By, Function, Pipe, Stats, StatsFunction};
use crate::query::Query;
use crate::run::{Context, RunError};
use crate::source::Source;
use crate::time::parse_time;

/// What the histogram is to be like.
#[derive(Clone, Debug)]
pub struct HitsRequest {
    /// Length of a bucket, nanoseconds; positive.
    pub step_ns: i64,
    /// Shift of the buckets, nanoseconds.
    pub offset_ns: i64,
    /// One series for each tuple of values of these.
    pub fields: Vec<String>,
    /// Series kept, those with most hits; the others are added up in one without fields.
    pub fields_limit: Option<usize>,
}

/// Rows over time of one tuple of values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HitsSeries {
    /// Names and values; empty for the rest beyond [`HitsRequest::fields_limit`].
    pub fields: Vec<(String, String)>,
    /// Beginnings of the buckets that have rows, in order, nanoseconds since 1970 UTC.
    pub timestamps_ns: Vec<i64>,
    /// Rows of each bucket.
    pub values: Vec<u64>,
    /// Rows of all buckets.
    pub total: u64,
}

/// Rows of `query` over time; the series with most rows first, the rest last.
pub fn hits(
    query: &Query,
    source: &dyn Source,
    context: &Context,
    request: &HitsRequest,
) -> Result<Vec<HitsSeries>, RunError> {
    let HitsRequest { step_ns, offset_ns, fields, fields_limit } = request;
    assert!(*step_ns > 0, "the length of buckets is positive");
    let bucket = Bucket::Time { step_ns: *step_ns, offset_ns: *offset_ns };
    let mut by = vec![By { name: "_time".to_owned(), bucket: Some(bucket) }];
    by.extend(fields.iter().map(|name| By { name: name.clone(), bucket: None }));
    let function = StatsFunction {
        function: Function::Count(Vec::new()),
        filter: None,
        name: HITS.to_owned(),
    };
    let query = query.row_wise_with(Pipe::Stats(Stats { by, functions: vec![function] }));
    let mut series: Vec<HitsSeries> = Vec::new();
    let mut places: HashMap<Vec<String>, usize> = HashMap::new();
    let mut columns = vec!["_time", HITS];
    columns.extend(fields.iter().map(String::as_str));
    with_rows(&query, source, context, &columns, |row| {
        let (time_and_hits, values) = row.split_at(2);
        // Rows come in the order of time; made rows may have none.
        let Some(time) = parse_time(&time_and_hits[0], 0) else { return };
        let hits = number(&time_and_hits[1]);
        let place = *places.entry(values.to_vec()).or_insert_with(|| {
            let fields = fields.iter().cloned().zip(values.iter().cloned()).collect();
            series.push(HitsSeries { fields, ..HitsSeries::default() });
            series.len() - 1
        });
        series[place].add(time.start_ns, hits);
    })?;
    series.sort_by(|a, b| b.total.cmp(&a.total).then_with(|| a.fields.cmp(&b.fields)));
    if let Some(limit) = fields_limit.filter(|&limit| limit < series.len() && !fields.is_empty()) {
        let mut buckets: Vec<(i64, u64)> =
            series.drain(limit..).flat_map(|s| s.timestamps_ns.into_iter().zip(s.values)).collect();
        buckets.sort_unstable();
        let mut rest = HitsSeries::default();
        buckets.into_iter().for_each(|(time_ns, hits)| rest.add(time_ns, hits));
        series.push(rest);
    }
    Ok(series)
}

impl HitsSeries {
    /// Adds rows of a bucket; buckets come in order.
    fn add(&mut self, time_ns: i64, hits: u64) {
        self.total += hits;
        if self.timestamps_ns.last() == Some(&time_ns) {
            *self.values.last_mut().expect("as many as timestamps") += hits;
        } else {
            self.timestamps_ns.push(time_ns);
            self.values.push(hits);
        }
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
        let query = Query::parse("* | fields _time, level | sort by (level)", 0).unwrap();
        let check = |fields: &[&str], fields_limit, expected: &str| {
            let fields = fields.iter().map(|f| f.to_string()).collect();
            let request = HitsRequest { step_ns: 20, offset_ns: 0, fields, fields_limit };
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
            "error [0, 20, 60] [1, 1, 1] 3; info [0, 40] [1, 1] 2;  [20, 40] [1, 1] 2",
        );
        check(
            &["level"],
            Some(4),
            "error [0, 20, 60] [1, 1, 1] 3; info [0, 40] [1, 1] 2; debug [40] [1] 1; warn [20] [1] 1",
        );
    }
}
