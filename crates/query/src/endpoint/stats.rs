//! Numbers as Prometheus shows them: labels, time and values of a query that ends in `stats`.

use super::with_rows;
use crate::block::Change;
use crate::error::ParseError;
use crate::pipe::{Bucket, By, Pipe};
use crate::query::Query;
use crate::run::{Context, RunError};
use crate::source::Source;
use crate::time::parse_time;

/// A query that ends in `stats`, apart from sorting and selecting its rows.
#[derive(Clone, Debug)]
pub struct StatsQuery {
    query: Query,
    labels: Vec<String>,
    functions: Vec<String>,
    timed: bool,
}

/// A row of the answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatsRow {
    /// Names and values of what groups the rows, without empty values and without the time.
    pub labels: Vec<(String, String)>,
    /// Beginning of the bucket of time, nanoseconds since 1970 UTC, when rows are grouped by time.
    pub time_ns: Option<i64>,
    /// Names and values of the functions; a value is empty when there is none.
    pub values: Vec<(String, String)>,
}

impl StatsQuery {
    /// Takes a query apart. With `step`, (length, offset) in nanoseconds, rows are grouped by time too, unless
    /// the query does so itself.
    pub fn new(query: &Query, step: Option<(i64, i64)>) -> Result<StatsQuery, ParseError> {
        let mut query = query.clone();
        let refused = |query: &Query, message: String| {
            let text = query.to_string();
            let expected = vec!["a stats pipe, such as stats by (level) count()".to_owned()];
            Err(ParseError { position: text.len(), expected, message, query: text })
        };
        if let Some((step_ns, offset_ns)) = step {
            assert!(step_ns > 0, "the length of buckets is positive");
            for pipe in &mut query.pipes {
                if let Pipe::Stats(stats) = pipe
                    && !stats.by.iter().any(|by| by.name == "_time")
                {
                    let bucket = Some(Bucket::Time { step_ns, offset_ns });
                    stats.by.insert(0, By { name: "_time".to_owned(), bucket });
                }
            }
        }
        let is_stats = |pipe: &Pipe| matches!(pipe, Pipe::Stats(_));
        let Some(place) = query.pipes.iter().rposition(is_stats) else {
            return refused(&query, "the query has no stats pipe".to_owned());
        };
        for pipe in &query.pipes[place + 1..] {
            let keeps_rows = matches!(
                pipe,
                Pipe::Filter(_)
                    | Pipe::Limit(_)
                    | Pipe::Offset(_)
                    | Pipe::Sort(_)
                    | Pipe::Change(Change::Keep(_) | Change::Drop(_))
            );
            if !keeps_rows {
                let written = pipe.to_string();
                return refused(
                    &query,
                    format!("\"{written}\" may not follow the last stats pipe here"),
                );
            }
        }
        let Pipe::Stats(stats) = &query.pipes[place] else { unreachable!("found by its kind") };
        let timed = stats.by.iter().any(|by| by.name == "_time");
        let names = stats.by.iter().map(|by| by.name.clone());
        let labels = names.filter(|name| name != "_time").collect();
        let functions = stats.functions.iter().map(|f| f.name.clone()).collect();
        Ok(StatsQuery { query, labels, functions, timed })
    }

    /// The query that is run.
    pub fn query(&self) -> &Query {
        &self.query
    }

    /// Names of what groups the rows, without the time.
    pub fn labels(&self) -> &[String] {
        &self.labels
    }

    /// Names of the functions.
    pub fn functions(&self) -> &[String] {
        &self.functions
    }

    /// Runs the query.
    pub fn run(&self, source: &dyn Source, context: &Context) -> Result<Vec<StatsRow>, RunError> {
        let mut columns = vec!["_time"];
        columns.extend(self.labels.iter().chain(&self.functions).map(String::as_str));
        let mut found = Vec::new();
        with_rows(&self.query, source, context, &columns, |row| {
            let time_ns = parse_time(&row[0], 0).map(|t| t.start_ns).filter(|_| self.timed);
            let (labels, values) = row[1..].split_at(self.labels.len());
            let pairs = |names: &[String], values: &[String]| -> Vec<(String, String)> {
                names.iter().cloned().zip(values.iter().cloned()).collect()
            };
            let mut labels = pairs(&self.labels, labels);
            labels.retain(|(_, value)| !value.is_empty());
            found.push(StatsRow { labels, time_ns, values: pairs(&self.functions, values) });
        })?;
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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
            "* | count() | sort by (_time desc) | limit 2",
            Some((20, 0)),
            &[r#"[] Some(40) [("count(*)", "2")]"#, r#"[] Some(20) [("count(*)", "2")]"#],
        );
        check(
            "level:\"\" | stats by (_time:1h, level) count() n",
            Some((20, 0)),
            &[r#"[] Some(0) [("n", "2")]"#],
        );
    }

    #[test]
    fn other_queries_are_refused() {
        for text in
            ["*", "* | fields a", "* | count() | uniq by (a)", "* | count() n | rename n as m"]
        {
            assert!(StatsQuery::new(&Query::parse(text, 0).unwrap(), None).is_err(), "{text}");
        }
    }
}
