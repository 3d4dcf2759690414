//! The endpoints besides `query`: histograms, facets, names and values of fields, series of
//! numbers. Each takes one pass over the data. Answers are plain structures with values as text
//! (bytes that are not UTF-8 become U+FFFD). Their memory counts as memory of the query, in the
//! account of its context, which the caller keeps as long as the answer.
//!
//! All use the rows of the whole query, its pipes included. Only `hits` stops before the first pipe
//! whose rows no longer have the time of a line, as VictoriaLogs does.

mod hits;
mod stats;

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use text::quoted::{Dialect, unquote};

use crate::base::{Meter, RunError};
use crate::block::Scratch;
use crate::dist::run;
use crate::exec::ResultRows;
use crate::lang::context::Context;
use crate::lang::pipe::{Facets, FieldNames, Join, JoinedWith, Pipe, Top, Union, xxh64};
use crate::lang::source::Source;
use crate::lang::syntax::query::Query;

pub use hits::{HitsRequest, HitsSeries, hits};
pub use stats::{StatsQuery, StatsRow};

/// Name for the number of rows. It cannot be the name of a field, so that a field "hits" can be
/// grouped by.
const HITS: &str = "hits\0";

/// Bytes up to which the buffer for a row is kept for the next row.
const ROW_BYTES_KEPT: usize = 64 << 10;

/// A value with the number of rows that have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValueHits {
    /// The value, or the name of a field.
    pub value: String,
    /// Number of rows.
    pub hits: u64,
}

/// The most frequent values of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facet {
    /// Name of the field.
    pub field_name: String,
    /// Most frequent first.
    pub values: Vec<ValueHits>,
}

/// The most frequent values of every field in the rows of `query`; fields in the order of their
/// names.
pub fn facets(
    query: &Query,
    source: &dyn Source,
    context: &Context,
    facets: &Facets,
) -> Result<Vec<Facet>, RunError> {
    let mut found: Vec<Facet> = Vec::new();
    let columns = ["field_name", "field_value", "hits"];
    with_rows(&query.with_pipe(facets.clone().into()), source, context, &columns, |row, meter| {
        let [field_name, value, hits] = row else { unreachable!("as many as columns") };
        meter.take(text_bytes(value) + size_of::<ValueHits>())?;
        if found.last().is_none_or(|last| last.field_name != *field_name) {
            meter.take(text_bytes(field_name) + size_of::<Facet>())?;
            found.push(Facet { field_name: std::mem::take(field_name), values: Vec::new() });
        }
        let values = &mut found.last_mut().expect("just pushed").values;
        values.push(ValueHits { value: std::mem::take(value), hits: number(hits) });
        Ok(())
    })?;
    Ok(found)
}

/// The names of fields in the rows of `query`, most frequent first, those that contain `filter`.
pub fn field_names(
    query: &Query,
    source: &dyn Source,
    context: &Context,
    filter: &str,
) -> Result<Vec<ValueHits>, RunError> {
    let query = query.with_pipe(FieldNames.into());
    let mut names = value_hits(&query, source, context, ["name", "hits"], filter, None)?;
    // The names arrive sorted; a stable sort keeps that order for names with equal hits.
    names.sort_by_key(|name| std::cmp::Reverse(name.hits));
    Ok(names)
}

/// The values of `field` in the rows of `query` that contain `filter`, most frequent first, at most
/// `limit`.
pub fn field_values(
    query: &Query,
    source: &dyn Source,
    context: &Context,
    field: &str,
    filter: &str,
    limit: Option<usize>,
) -> Result<Vec<ValueHits>, RunError> {
    let (by, hits) = (vec![field.to_owned()], HITS.to_owned());
    let query = query.with_pipe(Top { limit: u64::MAX, by, hits, rank: None }.into());
    value_hits(&query, source, context, [field, HITS], filter, limit)
}

/// The streams of the rows of `query`, most frequent first, at most `limit`.
pub fn streams(
    query: &Query,
    source: &dyn Source,
    context: &Context,
    limit: Option<usize>,
) -> Result<Vec<ValueHits>, RunError> {
    field_values(query, source, context, "_stream", "", limit)
}

fn value_hits(
    query: &Query,
    source: &dyn Source,
    context: &Context,
    columns: [&str; 2],
    filter: &str,
    limit: Option<usize>,
) -> Result<Vec<ValueHits>, RunError> {
    let mut found = Vec::new();
    with_rows(query, source, context, &columns, |row, meter| {
        let [value, hits] = row else { unreachable!("as many as columns") };
        let wanted = !value.is_empty() && value.contains(filter);
        if wanted && limit.is_none_or(|limit| found.len() < limit) {
            meter.take(text_bytes(value) + size_of::<ValueHits>())?;
            found.push(ValueHits { value: std::mem::take(value), hits: number(hits) });
        }
        Ok(())
    })?;
    Ok(found)
}

/// Approximate memory of a text that is kept.
fn text_bytes(text: &String) -> usize {
    text.capacity() + TEXT_BYTES
}

/// Approximate memory of a text besides its bytes: the rounding of the allocator.
const TEXT_BYTES: usize = 16;

/// Runs `query` and calls `each` with the values of `columns` in every row, and with the meter.
fn with_rows(
    query: &Query,
    source: &dyn Source,
    context: &Context,
    columns: &[&str],
    mut each: impl FnMut(&mut [String], &mut Meter) -> Result<(), RunError>,
) -> Result<(), RunError> {
    let context = Context { limit: None, offset: 0, include: Vec::new(), ..context.clone() };
    let mut scratch = Scratch::default();
    let mut row = vec![String::new(); columns.len()];
    let mut meter = context.meter();
    let mut failed = None;
    let mut one = |rows: &ResultRows, index: usize| {
        // The row exists twice for a moment.
        let bytes = columns.iter().map(|name| rows.get(index, name, &mut scratch).len()).sum();
        meter.take(bytes)?;
        for (name, value) in columns.iter().zip(&mut row) {
            value.clear();
            value.push_str(&String::from_utf8_lossy(rows.get(index, name, &mut scratch)));
        }
        let result = each(&mut row, &mut meter);
        if bytes > ROW_BYTES_KEPT {
            row.iter_mut().for_each(|value| *value = String::new());
        }
        meter.give_back(bytes);
        result
    };
    run(query, source, &context, &mut |rows| match (0..rows.len())
        .try_for_each(|index| one(&rows, index))
    {
        Ok(()) => ControlFlow::Continue(()),
        Err(error) => {
            failed = Some(error);
            ControlFlow::Break(())
        }
    })?;
    failed.map_or(Ok(()), Err)
}

/// Parses a number that one of our pipes wrote.
fn number(text: &str) -> u64 {
    text.parse().expect("counts are written as digits")
}

impl Query {
    /// The query with one more pipe at its end.
    fn with_pipe(&self, pipe: Pipe) -> Query {
        let mut query = self.clone();
        query.pipes.push(pipe);
        query
    }

    /// Removes the first pipe whose rows lose the time of their line, and all pipes behind it.
    fn keep_timed(&mut self) {
        let timed = |pipe: &mut Pipe| {
            if let Some(union) = pipe.get_mut::<Union>() {
                if let JoinedWith::Query(query) = &mut union.with {
                    query.keep_timed();
                    return true;
                }
                return false;
            }
            pipe.get::<Join>().is_some() || pipe.keeps_time()
        };
        if let Some(place) = self.pipes.iter_mut().position(|pipe| !timed(pipe)) {
            self.pipes.truncate(place);
        }
    }
}

/// The id of a stream: 48 hexadecimal digits, the tenant 0 before 128 bits, as long as the ids of
/// VictoriaLogs. The bits are two hashes of the text of the stream, so they are the same on every
/// node.
pub fn stream_id(stream: &str) -> String {
    let first = xxh64(stream.as_bytes());
    let second = xxh64(format!("{first:016x}{stream}").as_bytes());
    format!("{:016x}{first:016x}{second:016x}", 0)
}

/// The names of the fields of streams that contain `filter`, most frequent first.
pub fn stream_field_names(
    query: &Query,
    source: &dyn Source,
    context: &Context,
    filter: &str,
) -> Result<Vec<ValueHits>, RunError> {
    let tags = stream_tags(query, source, context)?;
    Ok(sum_hits(tags.into_iter().map(|(name, _, hits)| (name, hits)), filter))
}

/// The values of one field of streams that contain `filter`, most frequent first, at most `limit`.
pub fn stream_field_values(
    query: &Query,
    source: &dyn Source,
    context: &Context,
    field: &str,
    filter: &str,
    limit: Option<usize>,
) -> Result<Vec<ValueHits>, RunError> {
    let tags = stream_tags(query, source, context)?.into_iter();
    let values = tags.filter(|(name, ..)| name == field).map(|(_, value, hits)| (value, hits));
    let mut found = sum_hits(values, filter);
    found.truncate(limit.unwrap_or(usize::MAX));
    Ok(found)
}

/// Name and value of a field of a stream, and the number of rows.
type Tag = (String, String, u64);

/// The fields of each stream.
fn stream_tags(
    query: &Query,
    source: &dyn Source,
    context: &Context,
) -> Result<Vec<Tag>, RunError> {
    let streams = streams(query, source, context, None)?;
    let mut meter = context.meter();
    let mut tags = Vec::new();
    for stream in streams {
        // Each field is in two lists for a moment, and its text exists twice.
        let count = stream.value.matches('=').count();
        meter.take(2 * (stream.value.len() + count * (size_of::<Tag>() + 2 * TEXT_BYTES)))?;
        let parsed = parse_stream(&stream.value).into_iter();
        tags.extend(parsed.map(|(name, value)| (name, value, stream.hits)));
    }
    Ok(tags)
}

/// Parses `{a="b",c="d"}`; stops at the first syntax error.
fn parse_stream(text: &str) -> Vec<(String, String)> {
    let mut tags = Vec::new();
    let mut rest = text.strip_prefix('{').unwrap_or_default();
    while let Some((name, behind)) = rest.split_once('=') {
        let mut value = Vec::new();
        let Ok(length) = unquote(behind.as_bytes(), Dialect::GoOrJson, &mut value) else {
            break;
        };
        tags.push((name.to_owned(), String::from_utf8_lossy(&value).into_owned()));
        rest = behind[length..].trim_start_matches(',');
    }
    tags
}

fn sum_hits(found: impl Iterator<Item = (String, u64)>, filter: &str) -> Vec<ValueHits> {
    let mut sums: BTreeMap<String, u64> = BTreeMap::new();
    for (value, hits) in found.filter(|(value, _)| value.contains(filter)) {
        *sums.entry(value).or_default() += hits;
    }
    let mut sums: Vec<ValueHits> =
        sums.into_iter().map(|(value, hits)| ValueHits { value, hits }).collect();
    // The values are sorted; a stable sort keeps that order for values with equal hits.
    sums.sort_by_key(|sum| std::cmp::Reverse(sum.hits));
    sums
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Memory, record};

    fn source() -> Memory {
        Memory::of(&[
            record(10, &[("_msg", "a"), ("level", "error"), ("host", "x"), ("hits", "7")]),
            record(20, &[("_msg", "b"), ("level", "info"), ("host", "x")]),
            record(30, &[("_msg", "c"), ("level", "error"), ("host", "x")]),
        ])
    }

    fn shown(values: &[ValueHits]) -> String {
        values.iter().map(|v| format!("{}={}", v.value, v.hits)).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn names_values_and_streams() {
        let (source, context) = (source(), Context::default());
        let query = |text: &str| Query::parse(text, 0).unwrap();
        assert_eq!(
            parse_stream(r#"{app="a\"b",host="x,y=z"}"#),
            [("app".to_owned(), "a\"b".to_owned()), ("host".to_owned(), "x,y=z".to_owned())]
        );
        assert_eq!(parse_stream("{}"), []);
        assert_eq!(parse_stream("x"), []);
        let counted = field_names(&query("* | stats by (level) count() n"), &source, &context, "");
        assert_eq!(shown(&counted.unwrap()), "level=2 n=2");
        let names = field_names(&query("* | sort by (a)"), &source, &context, "h").unwrap();
        assert_eq!(shown(&names), "host=3 hits=1");
        let values = field_values(&query("*"), &source, &context, "level", "", None).unwrap();
        assert_eq!(shown(&values), "error=2 info=1");
        let values = field_values(&query("*"), &source, &context, "level", "nf", Some(1)).unwrap();
        assert_eq!(shown(&values), "info=1");
        let values = field_values(&query("* | fields host"), &source, &context, "level", "", None);
        assert_eq!(shown(&values.unwrap()), "");
        let found = streams(&query("error OR level:error"), &source, &context, None).unwrap();
        assert_eq!(shown(&found), "{}=2");
    }

    #[test]
    fn a_field_named_hits_is_in_the_way_of_nothing() {
        let query = Query::parse("*", 0).unwrap();
        let values =
            field_values(&query, &source(), &Context::default(), "hits", "", None).unwrap();
        assert_eq!(shown(&values), "7=1");
    }

    #[test]
    fn facets_leave_constants_out() {
        let query = Query::parse("*", 0).unwrap();
        let mut wanted = Facets::default();
        let found = |wanted: &Facets| {
            let found = facets(&query, &source(), &Context::default(), wanted).unwrap();
            let show = |f: &Facet| format!("{}: {}", f.field_name, shown(&f.values));
            found.iter().map(show).collect::<Vec<_>>().join("; ")
        };
        assert_eq!(found(&wanted), "_msg: a=1 b=1 c=1; hits: 7=1; level: error=2 info=1");
        (wanted.keep_const_fields, wanted.values_max, wanted.limit) = (true, 2, 1);
        assert_eq!(found(&wanted), "hits: 7=1; host: x=3; level: error=2");
    }
}
