//! Pipes: what a query does with the rows it selected. One pipe a file: what it is, how it is read and
//! written, and how it runs.

pub(crate) mod columns;
pub(crate) mod compute;
pub(crate) mod facets;
pub(crate) mod field_names;
pub(crate) mod limit;
pub(crate) mod sort;
pub(crate) mod stats;
#[cfg(test)]
mod tests;
pub(crate) mod top;
pub(crate) mod tuples;
pub(crate) mod uniq;
pub(crate) mod value;

use std::fmt;
use std::ops::ControlFlow;

use crate::block::{Block, Change, Scratch};
use crate::cursor::{Cursor, quote_name};
use crate::error::ParseError;
use crate::fields::FieldSet;
use crate::filter::{Filter, Selector, parse_filter};
use crate::rolled::Weighted;
use crate::run::{Next, RunError};

pub(crate) use compute::ComputeRows;
use compute::Computing;
pub use facets::Facets;
pub use sort::{Sort, SortKey};
pub(crate) use stats::time_bucket;
pub use stats::{Bucket, By, Function, Stats, StatsFunction};
pub use top::Top;
pub use uniq::Uniq;
pub use value::{Measure, ValueNumber};

/// One step behind a `|`.
#[derive(Clone, Debug, PartialEq)]
pub enum Pipe {
    /// `fields`, `delete`, `rename`, `copy`.
    Change(Change),
    /// `filter`: selects rows once more.
    Filter(Filter),
    /// `limit`: the first so many rows.
    Limit(u64),
    /// `offset`: leaves out the first so many rows.
    Offset(u64),
    /// `sort`.
    Sort(Sort),
    /// `uniq`: different values.
    Uniq(Uniq),
    /// `top`: most frequent values.
    Top(Top),
    /// `stats`: numbers about groups of rows.
    Stats(Stats),
    /// `field_names`: names with the number of rows that have them.
    FieldNames,
    /// `facets`: most frequent values of every field.
    Facets(Facets),
    /// `len`, `json_array_len`, `hash`: a number about a value.
    ValueNumber(ValueNumber),
}

/// The pipes there are, for messages.
const PIPES: &[&str] = &[
    "fields",
    "delete",
    "rename",
    "copy",
    "filter",
    "limit",
    "offset",
    "sort",
    "uniq",
    "top",
    "stats",
    "field_names",
    "field_values",
    "facets",
    "len",
    "json_array_len",
    "hash",
];

/// Reads a pipe, behind its `|`.
pub(crate) fn parse_pipe(cursor: &mut Cursor<'_>) -> Result<Pipe, ParseError> {
    let position = cursor.position();
    let name = cursor.peek_word(false).to_ascii_lowercase();
    if Function::names().contains(&name.as_str()) {
        return stats::parse_functions(cursor, Vec::new()).map(Pipe::Stats);
    }
    if !name.is_empty() {
        cursor.eat_keyword(&name);
    }
    match name.as_str() {
        "fields" | "keep" => columns::parse_keep(cursor),
        "delete" | "drop" | "del" | "rm" => columns::parse_drop(cursor),
        "rename" | "mv" => columns::parse_pairs(cursor).map(|p| Pipe::Change(Change::Rename(p))),
        "copy" | "cp" => columns::parse_pairs(cursor).map(|p| Pipe::Change(Change::Copy(p))),
        "filter" | "where" => parse_filter(cursor).map(Pipe::Filter),
        "limit" | "head" => limit::parse_count(cursor, Some(10)).map(Pipe::Limit),
        "offset" | "skip" => limit::parse_count(cursor, None).map(Pipe::Offset),
        "sort" | "order" => sort::parse(cursor).map(Pipe::Sort),
        "uniq" => uniq::parse(cursor).map(Pipe::Uniq),
        "top" => top::parse(cursor).map(Pipe::Top),
        "stats" => stats::parse(cursor).map(Pipe::Stats),
        // Grouping may come without the word `stats` too.
        "by" if cursor.peek() == Some('(') => stats::parse_grouped(cursor).map(Pipe::Stats),
        "field_names" => Ok(Pipe::FieldNames),
        "field_values" => uniq::parse_field_values(cursor).map(Pipe::Uniq),
        "facets" => facets::parse(cursor).map(Pipe::Facets),
        "len" => value::parse(cursor, Measure::Len).map(Pipe::ValueNumber),
        "json_array_len" => value::parse(cursor, Measure::JsonArrayLen).map(Pipe::ValueNumber),
        "hash" => value::parse(cursor, Measure::Hash).map(Pipe::ValueNumber),
        "" => Err(cursor.error_at(position, PIPES, "no pipe behind \"|\"")),
        _ => Err(cursor.error_at(position, PIPES, format!("there is no pipe \"{name}\""))),
    }
}

impl fmt::Display for Pipe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Pipe::Change(change) => columns::write(change, f),
            Pipe::Filter(filter) => write!(f, "filter {filter}"),
            Pipe::Limit(count) => write!(f, "limit {count}"),
            Pipe::Offset(count) => write!(f, "offset {count}"),
            Pipe::Sort(sort) => write!(f, "{sort}"),
            Pipe::Uniq(uniq) => write!(f, "{uniq}"),
            Pipe::Top(top) => write!(f, "{top}"),
            Pipe::Stats(stats) => write!(f, "{stats}"),
            Pipe::FieldNames => f.write_str("field_names"),
            Pipe::Facets(facets) => write!(f, "{facets}"),
            Pipe::ValueNumber(number) => write!(f, "{number}"),
        }
    }
}

impl Pipe {
    /// Whether it looks at each row by itself: what a live tail can do, and what leaves the order of time.
    pub fn is_row_wise(&self) -> bool {
        matches!(self, Pipe::Change(_) | Pipe::Filter(_)) || self.computing().is_some()
    }

    /// What it does to each row, when that is to compute fields.
    pub(crate) fn computing(&self) -> Option<ComputeRows> {
        Some(match self {
            Pipe::ValueNumber(number) => ComputeRows::new(Box::new(number.clone()), None),
            _ => return None,
        })
    }

    /// The fields that rows must have for it, when those that it hands on are to have `wanted`.
    pub(crate) fn needed_fields(&self, mut wanted: FieldSet) -> FieldSet {
        let only = |names: &[String]| {
            let mut needed = FieldSet::none();
            needed.add_all(names);
            needed
        };
        match self {
            Pipe::Change(change) => columns::needed_fields(change, &mut wanted),
            Pipe::Filter(filter) => wanted.add_filter(filter),
            Pipe::Limit(_) | Pipe::Offset(_) => {}
            Pipe::Sort(sort) => sort.keys.iter().for_each(|key| wanted.add(&key.name)),
            Pipe::Uniq(uniq) => return only(&uniq.by),
            Pipe::Top(top) => return only(&top.by),
            Pipe::Stats(stats) => return stats.needed_fields(),
            Pipe::FieldNames | Pipe::Facets(_) => return FieldSet::all(),
            Pipe::ValueNumber(number) => {
                if wanted.contains(&number.result) {
                    wanted.remove(&number.result);
                    wanted.add(&number.field);
                }
            }
        }
        wanted
    }

    /// What runs it; `carried` are hidden fields that copies of rows keep.
    pub(crate) fn processor(&self, carried: &[String]) -> Box<dyn Processor> {
        match self {
            Pipe::Change(change) => Box::new(columns::Changer { change: change.clone() }),
            Pipe::Filter(filter) => Box::new(FilterRows {
                selector: Selector::new(filter),
                scratch: Scratch::default(),
            }),
            Pipe::Limit(count) => Box::new(limit::LimitRows { left: *count }),
            Pipe::Offset(count) => Box::new(limit::OffsetRows { left: *count }),
            Pipe::Sort(sort) => Box::new(sort::Sorter::new(sort, carried)),
            Pipe::Uniq(uniq) => Box::new(uniq::UniqRows::new(uniq)),
            Pipe::Top(top) => Box::new(top::TopRows::new(top)),
            Pipe::Stats(stats) => Box::new(stats::Grouping::new(stats)),
            Pipe::FieldNames => Box::new(field_names::Names::default()),
            Pipe::Facets(facets) => Box::new(facets::FacetCounts::new(facets)),
            Pipe::ValueNumber(_) => {
                let rows = self.computing().expect("it computes");
                Box::new(Computing { rows, scratch: Scratch::default() })
            }
        }
    }
}

/// A pipe that runs.
pub(crate) trait Processor {
    /// Takes rows; hands on what it can. Break: it wants no more.
    fn push(&mut self, block: Block, next: &mut Next<'_, '_>) -> Result<ControlFlow<()>, RunError>;

    /// Takes rows that stand for many lines each; only for pipes that count rows.
    fn push_weighted(&mut self, _rows: Weighted, _next: &mut Next<'_, '_>) -> Result<(), RunError> {
        unreachable!("only stats and top count rows that it has not seen");
    }

    /// Hands on what it kept; no more rows come.
    fn finish(&mut self, _next: &mut Next<'_, '_>) -> Result<(), RunError> {
        Ok(())
    }
}

struct FilterRows {
    selector: Selector,
    scratch: Scratch,
}

impl Processor for FilterRows {
    fn push(
        &mut self,
        mut block: Block,
        next: &mut Next<'_, '_>,
    ) -> Result<ControlFlow<()>, RunError> {
        self.selector.select(&mut block, &mut self.scratch);
        next.push(block)
    }
}

/// Reads the fields that make tuples; one that is named twice counts once.
pub(crate) fn parse_by(cursor: &mut Cursor<'_>) -> Result<Vec<String>, ParseError> {
    let mut by: Vec<String> = Vec::new();
    for name in parse_names(cursor)? {
        if !by.contains(&name) {
            by.push(name);
        }
    }
    Ok(by)
}

/// Reads `(a, "b")`, or `a, "b"` without the parentheses.
pub(crate) fn parse_names(cursor: &mut Cursor<'_>) -> Result<Vec<String>, ParseError> {
    let mut names = Vec::new();
    let parentheses = cursor.eat('(');
    if parentheses && cursor.eat(')') {
        return Ok(names);
    }
    loop {
        names.push(cursor.expect_string(false, "a field name")?.text);
        if !cursor.eat(',') {
            break;
        }
    }
    if parentheses {
        cursor.expect(')', "the field names")?;
    }
    Ok(names)
}

pub(crate) fn write_names(names: &[String]) -> String {
    names.iter().map(|n| quote_name(n)).collect::<Vec<_>>().join(", ")
}
