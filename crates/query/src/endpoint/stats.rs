//! Numbers in the shape of Prometheus: labels, times and values of a query that ends in `stats`.
//!
//! Pipes may follow the last `stats` only if their effect on field names is known without rows.
//! Which fields are labels and which are numbers is therefore decided before the query runs, as in
//! VictoriaLogs. With a step, each `stats` groups rows by time, in place of its own grouping by
//! `_time`, and rows are sorted, limited and selected within each step.

use super::with_rows;
use crate::base::RunError;
use crate::base::time::parse_time;
use crate::lang::context::Context;
use crate::lang::pipe::shown::Shown;
use crate::lang::pipe::{Bucket, By, Limit, Offset, Pipe, Sort, SortKey, Stats, StatsFunction};
use crate::lang::source::Source;
use crate::lang::syntax::error::ParseError;
use crate::lang::syntax::query::Query;

/// A query that ends in `stats`, possibly followed by pipes that compute, rename, sort or select
/// rows.
#[derive(Clone, Debug)]
pub struct StatsQuery {
    query: Query,
    labels: Vec<String>,
    functions: Vec<String>,
    timed: bool,
}

/// The pipe that does within each step what a `limit` or `offset` does to all rows: it sorts by the
/// time of the step, so that all rows of a step are equal, and stay in their order.
fn limit_of_step(pipe: &Pipe) -> Option<Sort> {
    let (offset, limit) = match (pipe.get::<Limit>(), pipe.get::<Offset>()) {
        (Some(limit), _) => (0, Some(limit.count)),
        (_, Some(offset)) => (offset.count, None),
        _ => return None,
    };
    let keys = vec![SortKey { name: "_time".to_owned(), descending: false }];
    Some(Sort { keys, partition: vec!["_time".to_owned()], offset, limit, rank: None })
}

/// Approximate memory of a name and its value besides their bytes.
const PAIR_BYTES: usize = size_of::<(String, String)>() + 32;

/// A row of the answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatsRow {
    /// Names and values of the fields that group the rows. Empty values are left out; with a step,
    /// the time is left out too.
    pub labels: Vec<(String, String)>,
    /// Start of the step, nanoseconds since 1970 UTC; none without a step.
    pub time_ns: Option<i64>,
    /// Names and values of the numbers; a value is empty where the row has none.
    pub values: Vec<(String, String)>,
}

impl StatsQuery {
    /// Prepares a query. With `step`, (length, shift) in nanoseconds, rows are grouped by time too.
    /// An error where the query does not end in `stats`, or a pipe behind it is not supported.
    pub fn new(query: &Query, step: Option<(i64, i64)>) -> Result<StatsQuery, ParseError> {
        let mut query = query.clone();
        let text = query.to_string();
        let refused = |message: String| {
            let expected = vec!["a stats pipe, such as stats by (level) count()".to_owned()];
            Err(ParseError { position: text.len(), expected, message, query: text.clone() })
        };
        let is_stats = |pipe: &Pipe| pipe.get::<Stats>().is_some();
        let Some(place) = query.pipes.iter().rposition(is_stats) else {
            return refused("the query has no stats pipe".to_owned());
        };
        if let Some((step_ns, offset_ns)) = step {
            assert!(step_ns > 0, "the length of buckets is positive");
            let before = &query.pipes[..place];
            if let Some(pipe) = before.iter().find(|p| !is_stats(p) && !p.keeps_time()) {
                return refused(format!("\"{pipe}\" before stats leaves rows without their _time"));
            }
            for pipe in &mut query.pipes[place + 1..] {
                if let Some(sort) = limit_of_step(pipe) {
                    *pipe = sort.into();
                }
            }
            for pipe in &mut query.pipes {
                if let Some(stats) = pipe.get_mut::<Stats>() {
                    stats.by.retain(|by| by.name != "_time");
                    let bucket = Some(Bucket::Time { step_ns, offset_ns });
                    stats.by.insert(0, By { name: "_time".to_owned(), bucket });
                }
                if let Some(sort) = pipe.get_mut::<Sort>()
                    && !sort.partition.iter().any(|name| name == "_time")
                {
                    sort.partition.push("_time".to_owned());
                }
            }
        }
        let stats = query.pipes[place].get::<Stats>().expect("found by its kind");
        let mut shown = Shown::default();
        stats.by.iter().for_each(|by| shown.add_label(&by.name));
        for StatsFunction { function, name, .. } in &stats.functions {
            match function.gives_row() {
                true => shown.add_label(name),
                false => shown.add_value(name),
            }
        }
        for pipe in &query.pipes[place + 1..] {
            if let Err(why) = pipe.follow_names(&mut shown, step.is_some()) {
                return refused(format!("\"{pipe}\" {why}"));
            }
        }
        let functions = shown.values();
        if functions.is_empty() {
            return refused("the rows of the query have no numbers".to_owned());
        }
        let mut labels = shown.labels();
        if step.is_some() {
            labels.retain(|name| name != "_time");
        }
        Ok(StatsQuery { query, labels, functions, timed: step.is_some() })
    }

    /// The query that runs.
    pub fn query(&self) -> &Query {
        &self.query
    }

    /// Names of the fields that group the rows; with a step without the time.
    pub fn labels(&self) -> &[String] {
        &self.labels
    }

    /// Names of the numbers.
    pub fn functions(&self) -> &[String] {
        &self.functions
    }

    /// Runs the query.
    pub fn run(&self, source: &dyn Source, context: &Context) -> Result<Vec<StatsRow>, RunError> {
        let mut columns = vec!["_time"];
        columns.extend(self.labels.iter().chain(&self.functions).map(String::as_str));
        let mut found = Vec::new();
        with_rows(&self.query, source, context, &columns, |row, meter| {
            let names = self.labels.iter().chain(&self.functions);
            let bytes: usize = names.chain(&row[1..]).map(|text| text.len() + PAIR_BYTES / 2).sum();
            meter.take(bytes + 2 * size_of::<StatsRow>())?;
            let time_ns = parse_time(&row[0], 0).map(|t| t.start_ns).filter(|_| self.timed);
            let (labels, values) = row[1..].split_at(self.labels.len());
            let pairs = |names: &[String], values: &[String]| -> Vec<(String, String)> {
                names.iter().cloned().zip(values.iter().cloned()).collect()
            };
            let mut labels = pairs(&self.labels, labels);
            labels.retain(|(_, value)| !value.is_empty());
            found.push(StatsRow { labels, time_ns, values: pairs(&self.functions, values) });
            Ok(())
        })?;
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lang::context::Context;
    use crate::testing::{Memory, record};

    fn check(text: &str, step: Option<(i64, i64)>, expected: &[&str]) {
        let records: Vec<_> = (0..6i64)
            .map(|i| record(i * 10, &[("level", ["a", "", "b"][i as usize % 3])]))
            .collect();
        let query = StatsQuery::new(&Query::parse(text, 0).unwrap(), step).unwrap();
        let rows = query.run(&Memory::of(&records), &Context::default()).unwrap();
        let show = |row: &StatsRow| format!("{:?} {:?} {:?}", row.labels, row.time_ns, row.values);
        assert_eq!(rows.iter().map(show).collect::<Vec<_>>(), expected, "{text}");
    }

    #[test]
    fn labels_times_and_values() {
        check("* | stats count() n", None, &[r#"[] None [("n", "6")]"#]);
        check(
            "* | stats by (level) count() n, max(level) m | filter level:b",
            None,
            &[r#"[("level", "b")] None [("n", "2"), ("m", "b")]"#],
        );
        check(
            "* | count() | sort by (_time desc) | filter _time:*",
            Some((20, 0)),
            &[
                r#"[] Some(0) [("count(*)", "2")]"#,
                r#"[] Some(20) [("count(*)", "2")]"#,
                r#"[] Some(40) [("count(*)", "2")]"#,
            ],
        );
        check(
            "level:\"\" | stats by (_time:1h, level) count() n",
            Some((40, 0)),
            &[r#"[] Some(0) [("n", "1")]"#, r#"[] Some(40) [("n", "1")]"#],
        );
    }

    #[test]
    fn names_behind_stats() {
        check(
            "level:* | stats by (level) count() n | math n * 2 as m | rename n as total, level as l",
            None,
            &[
                r#"[("l", "a")] None [("m", "4"), ("total", "2")]"#,
                r#"[("l", "b")] None [("m", "4"), ("total", "2")]"#,
            ],
        );
        check(
            "level:a | stats by (level) count() n, max(level) m | copy n as k, level as o | \
             format '<level>!' as f | delete m, level",
            None,
            &[r#"[("o", "a"), ("f", "a!")] None [("n", "2"), ("k", "2")]"#],
        );
        check(
            "level:* | stats by (level) count() n | total_stats sum(n) t | fields level, t",
            None,
            &[r#"[("level", "a")] None [("t", "4")]"#, r#"[("level", "b")] None [("t", "4")]"#],
        );
    }

    #[test]
    fn each_step_is_sorted_by_itself() {
        check(
            "level:* | stats by (level) count() n | first 1 by (level desc)",
            Some((30, 0)),
            &[
                r#"[("level", "b")] Some(0) [("n", "1")]"#,
                r#"[("level", "b")] Some(30) [("n", "1")]"#,
            ],
        );
        check(
            "* | stats by (level) count() n | sort by (level desc) | offset 1 | limit 1",
            Some((30, 0)),
            &[
                r#"[("level", "a")] Some(0) [("n", "1")]"#,
                r#"[("level", "a")] Some(30) [("n", "1")]"#,
            ],
        );
        check(
            "* | stats by (level) count() n | limit 1",
            Some((30, 0)),
            &[r#"[] Some(0) [("n", "1")]"#, r#"[] Some(30) [("n", "1")]"#],
        );
    }

    #[test]
    fn other_queries_are_refused() {
        let check = |text: &str, step| {
            assert!(StatsQuery::new(&Query::parse(text, 0).unwrap(), step).is_err(), "{text}");
        };
        for text in [
            "*",
            "* | fields a",
            "* | count() | uniq by (a)",
            "* | count() n | delete n",
            "* | stats by (a) count() n | running_stats count() m",
            "* | count() n | unpack_json",
        ] {
            check(text, None);
        }
        for text in ["* | fields a | count()", "* | uniq by (a) | count()"] {
            check(text, Some((20, 0)));
        }
    }
}
