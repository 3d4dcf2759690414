//! `stats_query`, `stats_query_range`: results in the form of Prometheus.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use axum::extract::State;
use axum::response::IntoResponse;
use query::{Context, Meter, RunError, StatsQuery, StatsRow};
use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};

use crate::access::params::Params;
use crate::access::principal::Caller;
use crate::access::routes::Routes;
use crate::app::App;
use crate::queries::run::{PendingQuery, answer};
use crate::queries::select::counts::{shift_ns, step_ns};
use crate::wire::error::ApiResult;
use crate::wire::error::wrong_query;
use crate::wire::whole::WholeAnswer;

const SECOND_NS: i64 = 1_000_000_000;

/// The routes of this file.
pub fn routes() -> Routes<Arc<App>> {
    Routes::new()
        .query("/select/logsql/stats_query", at)
        .query("/select/logsql/stats_query_range", over)
}

async fn at(State(app): State<Arc<App>>, caller: Caller, params: Params) -> ApiResult {
    let now_ns = crate::wire::clock::now_ns();
    // Relative times in the query refer to the time that the request names.
    let query = params.query(params.query_time_ns(now_ns)?)?;
    let query = StatsQuery::new(&query, None).map_err(wrong_query)?;
    // The answer has the time that was asked for.
    let time_ns = match params.time("time", now_ns)? {
        Some(time_ns) => time_ns,
        None => params.query_time_ns(now_ns)?,
    };
    let pending = PendingQuery::of_query(&app, "stats", &params, &caller, now_ns)?;
    let body = answer(pending, move |running| {
        let rows = query.run(running.source(), &running.context)?;
        vector(&running.context, &rows, time_ns)
    });
    Ok(body.await?.into_response())
}

async fn over(State(app): State<Arc<App>>, caller: Caller, params: Params) -> ApiResult {
    let now_ns = crate::wire::clock::now_ns();
    let query_time_ns = params.query_time_ns(now_ns)?;
    let query = params.query(query_time_ns)?;
    let pending = PendingQuery::of_query(&app, "stats", &params, &caller, now_ns)?;
    let step = (step_ns(&params, &query, &pending)?, shift_ns(&params)?);
    let query = StatsQuery::new(&query, Some(step)).map_err(wrong_query)?;
    let body = answer(pending, move |running| {
        let mut rows = query.run(running.source(), &running.context)?;
        rows.sort_by_key(|row| row.time_ns);
        matrix(&running.context, &rows, query_time_ns)
    });
    Ok(body.await?.into_response())
}

/// The response with values at one time.
fn vector(context: &Context, rows: &[StatsRow], time_ns: i64) -> Result<WholeAnswer, RunError> {
    #[derive(Serialize)]
    struct One<'a> {
        metric: Metric<'a>,
        value: Point<'a>,
    }
    let mut meter = context.meter();
    let mut numbers: Vec<One<'_>> = Vec::new();
    each_number(rows, &mut meter, |_, metric, number, meter| {
        // The list may have grown to twice its length.
        meter.take(2 * size_of::<One<'_>>() + metric.own_bytes())?;
        numbers.push(One { metric, value: Point { time_ns, number } });
        Ok(())
    })?;
    WholeAnswer::json(context, Success::new("vector", numbers))
}

/// The response with values over time. Series are in the order of their first value. Rows without a
/// time are at `time_ns`.
fn matrix(context: &Context, rows: &[StatsRow], time_ns: i64) -> Result<WholeAnswer, RunError> {
    #[derive(Serialize)]
    struct Series<'a> {
        metric: Metric<'a>,
        values: Vec<Point<'a>>,
    }
    /// Memory of a series, about, with its entry in the list; lists may have grown to twice their
    /// length.
    const SERIES_BYTES: usize =
        2 * (size_of::<Series<'_>>() + size_of::<(Metric<'_>, usize)>()) + 64;
    let mut meter = context.meter();
    let mut indexes: HashMap<Metric<'_>, usize> = HashMap::new();
    let mut series: Vec<Series<'_>> = Vec::new();
    each_number(rows, &mut meter, |row, metric, number, meter| {
        let index = match indexes.get(&metric) {
            Some(&index) => index,
            None => {
                meter.take(SERIES_BYTES + 2 * metric.own_bytes())?;
                indexes.insert(metric.clone(), series.len());
                series.push(Series { metric, values: Vec::new() });
                series.len() - 1
            }
        };
        meter.take(2 * size_of::<Point<'_>>())?;
        series[index].values.push(Point { time_ns: row.time_ns.unwrap_or(time_ns), number });
        Ok(())
    })?;
    drop(indexes);
    WholeAnswer::json(context, Success::new("matrix", series))
}

/// What identifies a series: its name, and the values of the fields that rows are grouped by.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Metric<'a> {
    name: &'a str,
    labels: &'a [(String, String)],
    /// The range of a histogram bucket.
    range: Option<Cow<'a, str>>,
}

impl Metric<'_> {
    /// Bytes that this owns, rather than borrows from the row.
    fn own_bytes(&self) -> usize {
        match &self.range {
            Some(Cow::Owned(range)) => range.len(),
            _ => 0,
        }
    }
}

impl Serialize for Metric<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        const NAME: &str = "__name__";
        const RANGE: &str = "vmrange";
        let mut object = serializer.serialize_map(None)?;
        match &self.range {
            None => object.serialize_entry(NAME, self.name)?,
            Some(range) => {
                object.serialize_entry(NAME, &format_args!("{}_bucket", self.name))?;
                object.serialize_entry(RANGE, range)?;
            }
        }
        let is_taken = |name: &str| name == NAME || self.range.is_some() && name == RANGE;
        for (name, value) in self.labels.iter().filter(|(name, _)| !is_taken(name)) {
            object.serialize_entry(name, value)?;
        }
        object.end()
    }
}

/// A value: a number, or text from the row.
#[derive(Clone, Copy)]
enum Number<'a> {
    Written(&'a str),
    Hits(u64),
}

/// A value at a time.
struct Point<'a> {
    time_ns: i64,
    number: Number<'a>,
}

impl Serialize for Point<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let time = Seconds(self.time_ns);
        match self.number {
            Number::Written(text) => (time, text).serialize(serializer),
            Number::Hits(hits) => (time, format_args!("{hits}")).serialize(serializer),
        }
    }
}

/// Calls `each` with the values of each row. A histogram has one value per range, as in
/// VictoriaLogs.
fn each_number<'a>(
    rows: &'a [StatsRow],
    meter: &mut Meter,
    mut each: impl FnMut(&StatsRow, Metric<'a>, Number<'a>, &mut Meter) -> Result<(), RunError>,
) -> Result<(), RunError> {
    for row in rows {
        for (name, value) in &row.values {
            let metric = |range| Metric { name, labels: &row.labels, range };
            let Some(ranges) = ranges_of(value, meter)? else {
                each(row, metric(None), Number::Written(value), meter)?;
                continue;
            };
            for Range { vmrange, hits } in ranges {
                each(row, metric(Some(vmrange)), Number::Hits(hits), meter)?;
            }
            meter.give_back(ranges_bytes(value));
        }
    }
    Ok(())
}

/// One range of the result of the function `histogram`.
#[derive(Deserialize)]
struct Range<'a> {
    #[serde(borrow)]
    vmrange: Cow<'a, str>,
    hits: u64,
}

/// The ranges of a histogram, whose [`ranges_bytes`] are counted; `None` if the value is not a
/// histogram.
fn ranges_of<'a>(value: &'a str, meter: &mut Meter) -> Result<Option<Vec<Range<'a>>>, RunError> {
    if value != "[]" && !value.starts_with("[{\"vmrange\":\"") {
        return Ok(None);
    }
    meter.take(ranges_bytes(value))?;
    let ranges = serde_json::from_str(value).ok();
    if ranges.is_none() {
        meter.give_back(ranges_bytes(value));
    }
    Ok(ranges)
}

/// Memory of the ranges of a histogram: the text of each is longer than the range in memory, and
/// the list may have grown to twice its length.
fn ranges_bytes(value: &str) -> usize {
    4 * value.len()
}

/// Unix seconds, written without a fraction if there is none.
#[derive(Clone, Copy)]
struct Seconds(i64);

impl Serialize for Seconds {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Seconds(time_ns) = *self;
        match time_ns % SECOND_NS {
            0 => serializer.serialize_i64(time_ns / SECOND_NS),
            _ => serializer.serialize_f64(time_ns as f64 / SECOND_NS as f64),
        }
    }
}

/// The envelope of a result.
#[derive(Serialize)]
struct Success<T> {
    status: &'static str,
    data: Data<T>,
}

#[derive(Serialize)]
struct Data<T> {
    #[serde(rename = "resultType")]
    result_type: &'static str,
    result: T,
}

impl<T> Success<T> {
    fn new(result_type: &'static str, result: T) -> Success<T> {
        Success { status: "success", data: Data { result_type, result } }
    }
}

#[cfg(test)]
mod tests {
    use query::Limits;
    use serde_json::{Value, json};

    use super::*;

    fn row(time_ns: Option<i64>, labels: &[(&str, &str)], values: &[(&str, &str)]) -> StatsRow {
        let pairs = |pairs: &[(&str, &str)]| {
            pairs.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
        };
        StatsRow { labels: pairs(labels), time_ns, values: pairs(values) }
    }

    fn result(whole: Result<WholeAnswer, RunError>, result_type: &str) -> Value {
        let answer: Value = serde_json::from_slice(whole.unwrap().as_ref()).unwrap();
        assert_eq!(answer["status"], "success");
        assert_eq!(answer["data"]["resultType"], result_type);
        answer["data"]["result"].clone()
    }

    const HISTOGRAM: &str = r#"[{"vmrange":"1...2","hits":3},{"vmrange":"a\"b","hits":4}]"#;

    #[test]
    fn numbers_at_a_time() {
        let rows = [
            row(None, &[("level", "error"), ("__name__", "x")], &[("n", "1"), ("t", "")]),
            row(None, &[("vmrange", "x")], &[("h", HISTOGRAM), ("e", "[]"), ("w", "[{")]),
        ];
        let found = result(vector(&Context::default(), &rows, 1_500_000_000), "vector");
        let expected = json!([
            {"metric": {"__name__": "n", "level": "error"}, "value": [1.5, "1"]},
            {"metric": {"__name__": "t", "level": "error"}, "value": [1.5, ""]},
            {"metric": {"__name__": "h_bucket", "vmrange": "1...2"}, "value": [1.5, "3"]},
            {"metric": {"__name__": "h_bucket", "vmrange": "a\"b"}, "value": [1.5, "4"]},
            {"metric": {"__name__": "w", "vmrange": "x"}, "value": [1.5, "[{"]},
        ]);
        assert_eq!(found, expected);
    }

    #[test]
    fn numbers_over_time() {
        let rows = [
            row(Some(0), &[("a", "x")], &[("n", "1")]),
            row(Some(0), &[("a", "y")], &[("n", "2")]),
            row(Some(2_000_000_000), &[("a", "x")], &[("n", "3")]),
        ];
        let found = result(matrix(&Context::default(), &rows, 0), "matrix");
        let expected = json!([
            {"metric": {"__name__": "n", "a": "x"}, "values": [[0, "1"], [2, "3"]]},
            {"metric": {"__name__": "n", "a": "y"}, "values": [[0, "2"]]},
        ]);
        assert_eq!(found, expected);
    }

    #[test]
    fn memory_of_series_is_counted() {
        let rows: Vec<StatsRow> =
            (0..10_000).map(|i| row(Some(i), &[], &[("n", "1"), ("m", "2")])).collect();
        let limits = Limits { memory_bytes_max: 500_000, ..Limits::default() };
        let context = || Context { limits, ..Context::default() };
        for refused in [vector(&context(), &rows, 0), matrix(&context(), &rows, 0)] {
            assert!(matches!(refused.err(), Some(RunError::MemoryLimit(_))));
        }
    }
}
