//! Runs queries, one after the other, and keeps their rows within the memory of the search.

use std::ops::ControlFlow;

use query::source::Source;
use query::{Context, Filter, Meter, Query, RunError, Scratch, TimeOrder};
use text::quoted::quote;

use crate::error::{Refused, SearchError};

/// Most queries that one search may need: one for each aggregation with buckets, and for each of
/// its filters and ranges.
///
/// limits.md, Queries: queries of one search of Elasticsearch's API | {} | the request is refused
/// (400)
const QUERIES_MAX: u32 = 500;
/// Memory of a row and of a value besides their texts.
const VALUE_BYTES: usize = 48;

/// A row: names and values.
pub type Row = Vec<(String, Vec<u8>)>;

/// A group of `stats`: its keys, its rows, and the results of functions as text.
pub struct Group {
    /// The values that it is grouped by.
    pub keys: Vec<String>,
    /// Number of rows.
    pub count: u64,
    /// The results.
    pub results: Vec<String>,
}

/// A field to group by: its name, and what stands behind it, such as `:5m`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct By {
    /// Name of the field.
    pub name: String,
    /// The bucket with its colon, or nothing.
    pub bucket: String,
}

/// Runs the queries of one search.
pub struct Runner<'r> {
    source: &'r dyn Source,
    context: &'r Context,
    meter: Meter,
    left: u32,
}

impl<'r> Runner<'r> {
    /// Queries over that source.
    pub fn new(source: &'r dyn Source, context: &'r Context) -> Runner<'r> {
        Runner { source, context, meter: context.meter(), left: QUERIES_MAX }
    }

    /// The source.
    pub fn source(&self) -> &'r dyn Source {
        self.source
    }

    /// The context.
    pub fn context(&self) -> &'r Context {
        self.context
    }

    fn run(
        &mut self,
        query: &Query,
        context: &Context,
        mut each: impl FnMut(&query::ResultRows, usize, &mut Scratch) -> usize,
    ) -> Result<(), SearchError> {
        self.left = self.left.checked_sub(1).ok_or_else(|| {
            Refused::argument(format!(
                "the search needs more than {QUERIES_MAX} queries; use fewer aggregations, filters, ranges and top_hits"
            ))
        })?;
        let mut failed: Option<RunError> = None;
        let mut scratch = Scratch::default();
        let meter = &mut self.meter;
        query::run(query, self.source, context, &mut |rows| {
            for index in 0..rows.len() {
                let bytes = each(&rows, index, &mut scratch);
                if let Err(error) = meter.take(bytes) {
                    failed = Some(error);
                    return ControlFlow::Break(());
                }
            }
            ControlFlow::Continue(())
        })?;
        match failed {
            Some(error) => Err(error.into()),
            None => Ok(()),
        }
    }

    /// The rows of a filter, with `pipes` such as `| sort by (a) | limit 5`.
    pub fn rows(
        &mut self,
        filter: &Filter,
        pipes: &str,
        order: Option<TimeOrder>,
        limit: Option<usize>,
        include: &[&str],
    ) -> Result<Vec<Row>, SearchError> {
        let query = Query::new(filter.clone(), pipes_of(pipes));
        let include = include.iter().map(|name| (*name).to_owned()).collect();
        let context = Context { order, limit, include, ..self.context.clone() };
        let mut found = Vec::new();
        self.run(&query, &context, |rows, index, scratch| {
            let mut row = Row::new();
            let mut bytes = VALUE_BYTES;
            rows.visit(index, scratch, |name, value| {
                bytes += name.len() + value.len() + 2 * VALUE_BYTES;
                row.push((name.to_owned(), value.to_vec()));
            });
            found.push(row);
            bytes
        })?;
        Ok(found)
    }

    /// The groups of a filter's rows, with functions such as `avg("took")`.
    pub fn groups(
        &mut self,
        filter: &Filter,
        by: &[By],
        functions: &[String],
    ) -> Result<Vec<Group>, SearchError> {
        // A field may be grouped by in two ways; the result has one of each name.
        let mut names: Vec<String> = Vec::new();
        let mut pipes = String::new();
        for (index, By { name, .. }) in by.iter().enumerate() {
            let copy = format!("\u{1}k{index}");
            match names.contains(name) {
                true => {
                    pipes.push_str(&format!(" | copy {} as {}", quote(name), quote(&copy)));
                    names.push(copy);
                }
                false => names.push(name.clone()),
            }
        }
        let keys: Vec<String> =
            names.iter().zip(by).map(|(name, by)| quote(name) + &by.bucket).collect();
        let results: Vec<String> =
            (0..functions.len()).map(|index| format!("\u{1}m{index}")).collect();
        let written = functions
            .iter()
            .zip(&results)
            .map(|(function, name)| format!(", {function} as {}", quote(name)));
        let written: String = written.collect();
        pipes.push_str(&format!(
            " | stats by ({}) count() as {}{written}",
            keys.join(", "),
            quote("\u{1}n")
        ));
        let query = Query::new(filter.clone(), pipes_of(&pipes));
        let mut found = Vec::new();
        let context = Context { limit: None, ..self.context.clone() };
        self.run(&query, &context, |rows, index, scratch| {
            let mut value =
                |name: &str| String::from_utf8_lossy(rows.get(index, name, scratch)).into_owned();
            let group = Group {
                keys: names.iter().map(|name| value(name)).collect(),
                count: value("\u{1}n").parse().unwrap_or(0),
                results: results.iter().map(|name| value(name)).collect(),
            };
            let bytes = group.keys.iter().chain(&group.results).map(|t| t.len() + VALUE_BYTES);
            let bytes = bytes.sum::<usize>() + VALUE_BYTES;
            found.push(group);
            bytes
        })?;
        Ok(found)
    }

    /// Number of rows of a filter; with a limit, no more are counted.
    pub fn count(&mut self, filter: &Filter, limit: Option<u64>) -> Result<u64, SearchError> {
        let pipes = match limit {
            Some(limit) => format!(" | limit {limit} | stats count() as n"),
            None => " | stats count() as n".to_owned(),
        };
        let query = Query::new(filter.clone(), pipes_of(&pipes));
        let context = Context { limit: None, ..self.context.clone() };
        let mut count = 0;
        self.run(&query, &context, |rows, index, scratch| {
            let value = String::from_utf8_lossy(rows.get(index, "n", scratch)).into_owned();
            count = value.parse().unwrap_or(0);
            0
        })?;
        Ok(count)
    }

    /// Counts memory of an answer.
    pub fn take(&mut self, bytes: usize) -> Result<(), SearchError> {
        Ok(self.meter.take(bytes)?)
    }
}

/// Pipes as they are written here, names in quotes.
fn pipes_of(text: &str) -> Vec<query::Pipe> {
    let text = format!("*{text}");
    let query = Query::parse(&text, 0);
    query.unwrap_or_else(|error| panic!("{text}: {error}")).pipes().to_vec()
}
