//! Numbers as Prometheus shows them: labels, time and values of a query that ends in `stats`.
//!
//! Behind the last `stats` stand pipes whose effect on names is known without rows: which fields are labels and which are
//! numbers, is settled before the query runs, as VictoriaLogs does it. With a step, rows are grouped by time in each `stats`,
//! in place of what the query says of `_time`, and sorted and selected within each step.

use super::with_rows;
use crate::block::{Change, NamePattern};
use crate::error::ParseError;
use crate::pipe::{Bucket, By, ComputePipe, Function, PackedForm, Pipe, StatsFunction};
use crate::query::Query;
use crate::run::{Context, RunError};
use crate::source::Source;
use crate::time::parse_time;

/// A query that ends in `stats`, apart from what computes, names, sorts and selects its rows.
#[derive(Clone, Debug)]
pub struct StatsQuery {
    query: Query,
    labels: Vec<String>,
    functions: Vec<String>,
    timed: bool,
}

/// Memory of a name and its value beside their bytes, about.
const PAIR_BYTES: usize = size_of::<(String, String)>() + 32;

/// A row of the answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatsRow {
    /// Names and values of what groups the rows, without empty values, and with a step without the time.
    pub labels: Vec<(String, String)>,
    /// Beginning of the step, nanoseconds since 1970 UTC, when there is one.
    pub time_ns: Option<i64>,
    /// Names and values of the numbers; a value is empty when there is none.
    pub values: Vec<(String, String)>,
}

/// Which fields of rows are labels, and which are numbers.
#[derive(Default)]
struct Shown {
    labels: Vec<String>,
    values: Vec<String>,
}

impl Shown {
    fn add_label(&mut self, name: &str) {
        self.values.retain(|known| known != name);
        if !self.labels.iter().any(|known| known == name) {
            self.labels.push(name.to_owned());
        }
    }

    fn add_value(&mut self, name: &str) {
        self.labels.retain(|known| known != name);
        if !self.values.iter().any(|known| known == name) {
            self.values.push(name.to_owned());
        }
    }

    fn retain(&mut self, wanted: impl Fn(&str) -> bool) {
        self.labels.retain(|name| wanted(name));
        self.values.retain(|name| wanted(name));
    }

    /// Follows what a pipe does to the names; the error says why it may not stand here.
    fn follow(&mut self, pipe: &Pipe, is_range: bool) -> Result<(), String> {
        match pipe {
            Pipe::Filter(_) => {}
            Pipe::Sort(sort) => sort.rank.iter().for_each(|name| self.add_value(name)),
            Pipe::Limit(_) | Pipe::Offset(_) if is_range => {
                return Err("cannot be applied to each step by itself".to_owned());
            }
            Pipe::Limit(_) | Pipe::Offset(_) => {}
            Pipe::RunningStats(stats) => {
                let labels = || self.labels.iter().filter(|name| *name != "_time");
                let known = stats.by.iter().all(|name| self.labels.contains(name));
                let complete = stats.is_total || labels().all(|name| stats.by.contains(name));
                if !known || !complete {
                    return Err("must be grouped by the fields of the stats pipe".to_owned());
                }
                stats.functions.iter().for_each(|function| self.add_value(&function.name));
            }
            Pipe::Math(math) => math.results().into_iter().for_each(|name| self.add_value(name)),
            Pipe::Change(Change::Keep(kept)) => {
                self.retain(|name| kept.iter().any(|pattern| pattern.matches(name)));
            }
            Pipe::Change(Change::Drop(dropped)) => {
                self.retain(|name| !dropped.iter().any(|pattern| pattern.matches(name)));
            }
            Pipe::Change(Change::Copy(pairs)) => {
                for (from, to) in pairs {
                    self.copy(from, to, false);
                }
            }
            Pipe::Change(Change::Rename(pairs)) => {
                for (from, to) in pairs {
                    self.copy(from, to, true);
                }
            }
            Pipe::Format(format) => self.add_label(&format.result),
            Pipe::Unpack(unpack) if unpack.form == PackedForm::Json => {
                if unpack.fields.is_empty() || unpack.fields.iter().any(|field| field.prefix) {
                    return Err("must name its fields here".to_owned());
                }
                for field in &unpack.fields {
                    self.add_label(&format!("{}{}", unpack.prefix, field.name));
                }
            }
            _ => return Err("may not follow the last stats pipe here".to_owned()),
        }
        Ok(())
    }

    fn copy(&mut self, from: &NamePattern, to: &NamePattern, moved: bool) {
        let matching = |names: &[String]| -> Vec<String> {
            names.iter().filter(|name| from.matches(name)).cloned().collect()
        };
        let (labels, values) = (matching(&self.labels), matching(&self.values));
        if moved {
            self.retain(|name| !from.matches(name));
        }
        labels.iter().for_each(|name| self.add_label(&from.replaced(name, to)));
        values.iter().for_each(|name| self.add_value(&from.replaced(name, to)));
    }
}

impl StatsQuery {
    /// Takes a query apart. With `step`, (length, shift) in nanoseconds, rows are grouped by time too.
    pub fn new(query: &Query, step: Option<(i64, i64)>) -> Result<StatsQuery, ParseError> {
        let mut query = query.clone();
        let text = query.to_string();
        let refused = |message: String| {
            let expected = vec!["a stats pipe, such as stats by (level) count()".to_owned()];
            Err(ParseError { position: text.len(), expected, message, query: text.clone() })
        };
        let is_stats = |pipe: &Pipe| matches!(pipe, Pipe::Stats(_));
        let Some(place) = query.pipes.iter().rposition(is_stats) else {
            return refused("the query has no stats pipe".to_owned());
        };
        if let Some((step_ns, offset_ns)) = step {
            assert!(step_ns > 0, "the length of buckets is positive");
            let before = &query.pipes[..place];
            if let Some(pipe) = before.iter().find(|p| !is_stats(p) && !p.keeps_time()) {
                return refused(format!("\"{pipe}\" before stats leaves rows without their _time"));
            }
            for pipe in &mut query.pipes {
                match pipe {
                    Pipe::Stats(stats) => {
                        stats.by.retain(|by| by.name != "_time");
                        let bucket = Some(Bucket::Time { step_ns, offset_ns });
                        stats.by.insert(0, By { name: "_time".to_owned(), bucket });
                    }
                    Pipe::Sort(sort) if !sort.partition.iter().any(|name| name == "_time") => {
                        sort.partition.push("_time".to_owned());
                    }
                    _ => {}
                }
            }
        }
        let Pipe::Stats(stats) = &query.pipes[place] else { unreachable!("found by its kind") };
        let mut shown = Shown::default();
        stats.by.iter().for_each(|by| shown.add_label(&by.name));
        for StatsFunction { function, name, .. } in &stats.functions {
            match function {
                Function::RowAny(_) | Function::RowMin(..) | Function::RowMax(..) => {
                    shown.add_label(name);
                }
                _ => shown.add_value(name),
            }
        }
        for pipe in &query.pipes[place + 1..] {
            if let Err(why) = shown.follow(pipe, step.is_some()) {
                return refused(format!("\"{pipe}\" {why}"));
            }
        }
        if shown.values.is_empty() {
            return refused("the rows of the query have no numbers".to_owned());
        }
        let Shown { mut labels, values } = shown;
        if step.is_some() {
            labels.retain(|name| name != "_time");
        }
        Ok(StatsQuery { query, labels, functions: values, timed: step.is_some() })
    }

    /// The query that is run.
    pub fn query(&self) -> &Query {
        &self.query
    }

    /// Names of what groups the rows, with a step without the time.
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
    use crate::run::Context;
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
        for text in ["* | count() | limit 1", "* | fields a | count()", "* | uniq by (a) | count()"]
        {
            check(text, Some((20, 0)));
        }
    }
}
