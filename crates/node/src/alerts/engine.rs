//! Evaluates expressions over the lines of the store, by the same code as `stats_query`.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use alerts::{Engine, Row, STATS_RESULT};
use platform::memory::{Budget, Purpose};
use query::source::{Source, TimeRange};
use query::{Account, Context, Query, StatsQuery};
use text::quoted::quote;

use crate::cluster::QueriedLines;

/// Bytes of a line that are read as the example of an alert; messages show fewer.
const LINE_BYTES_MAX: usize = 4 << 10;

/// Runs expressions on the lines of the store, within the limits of queries.
///
/// Evaluation does not enter the queue of queries: it is bounded by its own threads, and hundreds
/// of rules would fill the list of queries.
pub struct StoreEngine {
    lines: QueriedLines,
    memory: Arc<Budget>,
    limits: query::Limits,
    /// Ends the query that runs.
    cancelled: Arc<AtomicBool>,
}

impl StoreEngine {
    /// An engine over `lines`.
    pub fn new(
        lines: QueriedLines,
        memory: Arc<Budget>,
        limits: query::Limits,
        cancelled: Arc<AtomicBool>,
    ) -> StoreEngine {
        StoreEngine { lines, memory, limits, cancelled }
    }
}

impl Engine for StoreEngine {
    fn check(&self, expr: &str) -> Result<(), String> {
        check(expr)
    }

    fn rows(
        &self,
        expr: &str,
        time_ns: i64,
        interval: Duration,
        rows_max: usize,
    ) -> Result<Vec<Row>, String> {
        let source = self.lines.source(None);
        rows(&*source, self.context(), (expr, time_ns, interval), rows_max)
    }

    fn line(
        &self,
        expr: &str,
        time_ns: i64,
        interval: Duration,
        labels: &alerts::Labels,
    ) -> Option<String> {
        let query = lines_of(expr, time_ns, labels)?;
        let range = range(&query, time_ns, interval);
        // The newest rows are kept as copies, which have the line only if it is included.
        let include = vec!["_line".to_owned()];
        let context = Context { range, limit: Some(1), include, ..self.context() };
        let mut found = None;
        let run = query::run(&query, &*self.lines.source(None), &context, &mut |rows| {
            for index in 0..rows.len() {
                found = rows.raw(index).map(|raw| {
                    let start = &raw[..raw.len().min(LINE_BYTES_MAX)];
                    String::from_utf8_lossy(start).into_owned()
                });
            }
            ControlFlow::Continue(())
        });
        run.ok().and(found)
    }
}

impl StoreEngine {
    fn context(&self) -> Context {
        Context {
            limits: query::Limits { threads: 1, ..self.limits },
            account: Account::new(&self.memory, Purpose::Query),
            cancelled: Arc::clone(&self.cancelled),
            // Operators save rules, and may not read the audit log.
            restriction: Arc::new(query::Filter::without_audit()).into(),
            ..Context::default()
        }
    }
}

/// The query of the lines that an expression counts for the series with `labels`; none if its pipes
/// before `stats` leave other rows than lines.
fn lines_of(expr: &str, time_ns: i64, labels: &alerts::Labels) -> Option<Query> {
    let query = Query::parse(expr, time_ns).ok()?;
    let stats = StatsQuery::new(&query, None).ok()?;
    let is_stats = |pipe: &query::Pipe| pipe.get::<query::Stats>().is_some();
    let place = query.pipes().iter().position(is_stats)?;
    let mut pipes = query.pipes()[..place].to_vec();
    if !pipes.iter().all(query::Pipe::is_row_wise) {
        return None;
    }
    for name in stats.labels() {
        let value = labels.get(name).map_or("", String::as_str);
        let text = format!("* | filter {}:={}", quote(name), quote(value));
        pipes.extend_from_slice(Query::parse(&text, time_ns).ok()?.pipes());
    }
    // The options say which times and fields the expression sees.
    Some(Query::new(query.filter().clone(), pipes).with_options(query.options()))
}

/// The range of time of a query at `time_ns`: that of its own filter, or the last interval.
fn range(query: &Query, time_ns: i64, interval: Duration) -> TimeRange {
    let interval_ns = text::duration::ns(interval);
    match query.filter().time_range() == TimeRange::ALL {
        true => TimeRange { start_ns: time_ns.saturating_sub(interval_ns), end_ns: time_ns },
        false => TimeRange::ALL,
    }
}

/// Checks that an expression can be evaluated.
pub fn check(expr: &str) -> Result<(), String> {
    prepared(expr, 0).map(drop)
}

/// The query of an expression at `time_ns`.
fn prepared(expr: &str, time_ns: i64) -> Result<StatsQuery, String> {
    let query = Query::parse(expr, time_ns).map_err(|error| error.to_string())?;
    let stats = StatsQuery::new(&query, None).map_err(|error| error.to_string())?;
    match stats.labels().iter().any(|label| label == "_time") {
        true => Err("rows by `_time` would be a new series at each evaluation; leave `_time` out \
                     of `stats by`"
            .to_owned()),
        false => Ok(stats),
    }
}

/// The series of an expression. `context` has the limits of the run; its range is set here.
pub fn rows(
    source: &dyn Source,
    context: Context,
    (expr, time_ns, interval): (&str, i64, Duration),
    rows_max: usize,
) -> Result<Vec<Row>, String> {
    let query = prepared(expr, time_ns)?;
    let range = range(query.query(), time_ns, interval);
    let found =
        query.run(source, &Context { range, ..context }).map_err(|error| error.to_string())?;
    let mut rows = Vec::new();
    for row in &found {
        for (name, value) in &row.values {
            // A group without values of its own, such as `max` over none, is no series.
            if value.is_empty() {
                continue;
            }
            let number: f64 = value.parse().map_err(|_| {
                let shown: String = value.chars().take(50).collect();
                format!("'{name}' is '{shown}', which is no number; use a function of numbers")
            })?;
            let mut labels: alerts::Labels = row.labels.iter().cloned().collect();
            labels.insert(STATS_RESULT.to_owned(), name.clone());
            rows.push(Row { labels, value: number });
            if rows.len() > rows_max {
                return Err(format!(
                    "there are more than {rows_max} series; group by fewer fields, filter more, \
                     or raise `limit` of the group"
                ));
            }
        }
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documented_expressions_can_be_evaluated() {
        let page = include_str!("../../../../docs/alerts.md");
        let expressions: Vec<&str> = page
            .lines()
            .filter_map(|line| line.trim().strip_prefix("expr: '")?.strip_suffix('\''))
            .collect();
        assert_eq!(expressions.len(), 5);
        for expr in expressions {
            check(expr).unwrap_or_else(|error| panic!("{expr}: {error}"));
        }
    }

    #[test]
    fn the_lines_of_a_series_are_those_that_are_counted_for_it() {
        let labels: alerts::Labels = [("host", "a\"b"), ("severity", "page"), ("n", "1")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into();
        for (expr, expected) in [
            (
                "error | stats by (host) count() n | filter n:>3",
                Some("error | filter host:=\"a\\\"b\""),
            ),
            ("error | stats count() n", Some("error")),
            (
                "options(hide_fields=(user), time_offset=1h) error | stats count() n",
                Some("options(hide_fields=(user), time_offset=1h) error"),
            ),
            (
                "* | extract \"<host> \" | stats by (host, path) count() n",
                Some("* | extract \"<host> \" | filter host:=\"a\\\"b\" | filter path:=\"\""),
            ),
            (
                "* | stats by (host) count() n | stats by (host) max(n) m",
                Some("* | filter host:=\"a\\\"b\""),
            ),
            ("* | uniq by (host) | stats count() n", None),
        ] {
            let found = lines_of(expr, 0, &labels).map(|query| query.to_string());
            let expected = expected.map(|expected| Query::parse(expected, 0).unwrap().to_string());
            assert_eq!(found, expected, "{expr}");
        }
    }

    #[test]
    fn expressions_end_in_stats_and_group_by_no_time() {
        for (expr, part) in [
            ("* | stats by (host) count() n", ""),
            ("_time:5m error | stats count() n | filter n:>10", ""),
            ("error", "stats"),
            ("stats count(", "expected"),
            ("* | stats by (_time:1m) count() n", "leave `_time` out"),
        ] {
            match prepared(expr, 0) {
                Ok(_) => assert!(part.is_empty(), "{expr}"),
                Err(error) => assert!(!part.is_empty() && error.contains(part), "{expr}: {error}"),
            }
        }
    }
}
