//! Pipes: what a query does with the rows it selected. One pipe a file: what it is, how it is read and
//! written, and how it runs.

pub(crate) mod byte_table;
pub(crate) mod coalesce;
pub(crate) mod columns;
pub(crate) mod compute;
mod encode;
pub(crate) mod extract;
pub(crate) mod facets;
pub(crate) mod field_names;
pub(crate) mod format;
mod generate_sequence;
pub(crate) mod join;
pub(crate) mod json_array;
pub(crate) mod json_array_concat;
pub(crate) mod limit;
pub(crate) mod math;
mod outgoing;
pub(crate) mod pack;
mod pattern;
pub(crate) mod rewrite;
mod rows;
pub(crate) mod set_stream_fields;
pub(crate) mod sort;
pub(crate) mod stats;
pub(crate) mod stream_context;
#[cfg(test)]
mod tests;
pub(crate) mod time_add;
pub(crate) mod top;
pub(crate) mod tuples;
mod union;
pub(crate) mod uniq;
pub(crate) mod unpack;
pub(crate) mod unroll;
pub(crate) mod value;

use std::any::Any;
use std::fmt;
use std::ops::ControlFlow;

use crate::block::{Block, Change, NamePattern, Scratch};
use crate::counting::Tally;
use crate::cursor::{Cursor, is_word_char, quote_name};
use crate::error::ParseError;
use crate::fields::FieldSet;
use crate::filter::{Filter, Selector, parse_filter};
use crate::query::{Query, parse_inner};
use crate::rolled::Weighted;
use crate::run::{Next, RunError};

pub use coalesce::Coalesce;
pub use compute::Overwrite;
pub(crate) use compute::{ComputePipe, ComputeRows};
use compute::{Computing, parse_field};
pub use extract::{Extract, ExtractPattern};
pub use facets::Facets;
pub use format::Format;
pub use join::{Join, JoinedWith};
pub use json_array::{JsonArray, Parts};
pub use json_array_concat::JsonArrayConcat;
pub use math::{Expression, Math, MathEntry};
pub use pack::Pack;
pub use record::parse::decolorize;
pub use rewrite::{Rewrite, TextChange};
pub(crate) use rows::{drop_empty, sample};
pub use set_stream_fields::SetStreamFields;
pub use sort::{Sort, SortKey};
pub(crate) use stats::time_bucket;
#[cfg(test)]
pub(crate) use stats::write_step;
pub use stats::{
    Bucket, By, Function, RunningFunction, RunningKind, RunningStats, Stats, StatsFunction,
};
pub use stream_context::StreamContext;
pub use time_add::TimeAdd;
pub use top::Top;
pub use uniq::Uniq;
pub use unpack::{PackedForm, Unpack};
pub use unroll::Unroll;
pub(crate) use value::xxh64;
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
    /// `sort`, `first`, `last`.
    Sort(Sort),
    /// `uniq`: different values.
    Uniq(Uniq),
    /// `top`: most frequent values.
    Top(Top),
    /// `stats`: numbers about groups of rows.
    Stats(Stats),
    /// `running_stats`, `total_stats`: numbers about the rows up to each, about all.
    RunningStats(RunningStats),
    /// `field_names`: names with the number of rows that have them.
    FieldNames,
    /// `facets`: most frequent values of every field.
    Facets(Facets),
    /// `len`, `json_array_len`, `hash`: a number about a value.
    ValueNumber(ValueNumber),
    /// `math`: numbers computed from fields.
    Math(Math),
    /// `extract`, `extract_regexp`: parts of a value.
    Extract(Extract),
    /// `unpack_json`, `unpack_logfmt`, `unpack_syslog`: the fields that a value holds.
    Unpack(Unpack),
    /// `split`, `unpack_words`: the parts of a value as a JSON array.
    JsonArray(JsonArray),
    /// `coalesce`: the first of some fields that has a value.
    Coalesce(Coalesce),
    /// `json_array_concat`: the items of a JSON array as a text.
    JsonArrayConcat(JsonArrayConcat),
    /// `format`: fields put together into a text.
    Format(Format),
    /// `replace`, `replace_regexp`, `collapse_nums`, `decolorize`: a value rewritten.
    Rewrite(Rewrite),
    /// `pack_json`, `pack_logfmt`: the fields of a row as a text.
    Pack(Pack),
    /// `time_add`: a time moved.
    TimeAdd(TimeAdd),
    /// `set_stream_fields`: another stream.
    SetStreamFields(SetStreamFields),
    /// `unroll`: a row for each item of arrays.
    Unroll(Unroll),
    /// `join`: rows with fields of another query's.
    Join(Box<Join>),
    /// `union`: behind the rows, those of another query.
    Union(Box<Query>),
    /// `union rows(…)`: behind the rows, those that are given, as names and values.
    UnionRows(Vec<Vec<(String, String)>>),
    /// `generate_sequence`: so many numbers from 0 on, in place of the rows.
    GenerateSequence(u64),
    /// `stream_context`: lines around those that were selected.
    StreamContext(StreamContext),
    /// `sample`: one row in so many.
    Sample(u64),
    /// `drop_empty_fields`: leaves out rows without any value.
    DropEmptyFields,
    /// `blocks_count`: the number of blocks, in a field of that name.
    BlocksCount(String),
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
    "first",
    "last",
    "uniq",
    "top",
    "stats",
    "running_stats",
    "total_stats",
    "field_names",
    "field_values",
    "facets",
    "extract",
    "extract_regexp",
    "unpack_json",
    "unpack_logfmt",
    "unpack_syslog",
    "unpack_words",
    "coalesce",
    "json_array_concat",
    "generate_sequence",
    "split",
    "unroll",
    "join",
    "union",
    "stream_context",
    "math",
    "format",
    "replace",
    "replace_regexp",
    "collapse_nums",
    "decolorize",
    "pack_json",
    "pack_logfmt",
    "len",
    "json_array_len",
    "hash",
    "time_add",
    "set_stream_fields",
    "sample",
    "drop_empty_fields",
    "blocks_count",
];

/// Reads what stands between two `|`: mostly one pipe.
pub(crate) fn parse_pipes(cursor: &mut Cursor<'_>) -> Result<Vec<Pipe>, ParseError> {
    if cursor.eat_keyword("uniq") {
        return uniq::parse(cursor).map(uniq::Written::pipes);
    }
    if cursor.eat_keyword("field_values") {
        return uniq::parse_field_values(cursor).map(uniq::Written::pipes);
    }
    if cursor.eat_keyword("field_names") {
        return field_names::parse(cursor);
    }
    Ok(vec![parse_pipe(cursor)?])
}

fn parse_pipe(cursor: &mut Cursor<'_>) -> Result<Pipe, ParseError> {
    let position = cursor.position();
    let name = cursor.peek_word(false).to_ascii_lowercase();
    let is_sign = name.starts_with(|c: char| !is_word_char(c));
    if is_sign || cursor.behind_word() == Some(':') && !PIPES.contains(&name.as_str()) {
        // The word `filter` may be left out.
        return parse_filter(cursor).map(Pipe::Filter);
    }
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
        "first" => sort::parse_ends(cursor, false).map(Pipe::Sort),
        "last" => sort::parse_ends(cursor, true).map(Pipe::Sort),
        "top" => top::parse(cursor).map(Pipe::Top),
        "stats" => stats::parse(cursor).map(Pipe::Stats),
        "running_stats" => stats::parse_running(cursor, false).map(Pipe::RunningStats),
        "total_stats" => stats::parse_running(cursor, true).map(Pipe::RunningStats),
        // Grouping may come without the word `stats` too.
        "by" if cursor.peek() == Some('(') => stats::parse_grouped(cursor).map(Pipe::Stats),
        "facets" => facets::parse(cursor).map(Pipe::Facets),
        "len" => value::parse(cursor, Measure::Len).map(Pipe::ValueNumber),
        "json_array_len" => value::parse(cursor, Measure::JsonArrayLen).map(Pipe::ValueNumber),
        "hash" => value::parse(cursor, Measure::Hash).map(Pipe::ValueNumber),
        "math" | "eval" => math::parse(cursor).map(Pipe::Math),
        "extract" => extract::parse(cursor, false).map(Pipe::Extract),
        "extract_regexp" => extract::parse(cursor, true).map(Pipe::Extract),
        "unpack_json" => unpack::parse(cursor, PackedForm::Json).map(Pipe::Unpack),
        "unpack_logfmt" => unpack::parse(cursor, PackedForm::Logfmt).map(Pipe::Unpack),
        "unpack_syslog" => {
            unpack::parse(cursor, PackedForm::Syslog { zone_offset_s: 0 }).map(Pipe::Unpack)
        }
        "unpack_words" => json_array::parse_words(cursor).map(Pipe::JsonArray),
        "split" => json_array::parse_split(cursor).map(Pipe::JsonArray),
        "unroll" => unroll::parse(cursor).map(Pipe::Unroll),
        "join" => join::parse(cursor).map(Box::new).map(Pipe::Join),
        "union" => {
            if cursor.eat_call("rows") {
                return join::parse_rows(cursor).map(Pipe::UnionRows);
            }
            cursor.expect('(', "union (query)")?;
            parse_inner(cursor, "union (query)").map(Box::new).map(Pipe::Union)
        }
        "stream_context" => stream_context::parse(cursor).map(Pipe::StreamContext),
        "coalesce" => coalesce::parse(cursor).map(Pipe::Coalesce),
        "json_array_concat" => json_array_concat::parse(cursor).map(Pipe::JsonArrayConcat),
        "generate_sequence" => generate_sequence::parse(cursor).map(Pipe::GenerateSequence),
        "format" => format::parse(cursor).map(Pipe::Format),
        "replace" => rewrite::parse_replace(cursor, false).map(Pipe::Rewrite),
        "replace_regexp" => rewrite::parse_replace(cursor, true).map(Pipe::Rewrite),
        "collapse_nums" => rewrite::parse_collapse_nums(cursor).map(Pipe::Rewrite),
        "decolorize" => rewrite::parse_decolorize(cursor).map(Pipe::Rewrite),
        "pack_json" => pack::parse(cursor, true).map(Pipe::Pack),
        "pack_logfmt" => pack::parse(cursor, false).map(Pipe::Pack),
        "time_add" => time_add::parse(cursor).map(Pipe::TimeAdd),
        "set_stream_fields" => set_stream_fields::parse(cursor).map(Pipe::SetStreamFields),
        "sample" => {
            let position = cursor.position();
            match limit::parse_count(cursor, None)? {
                0 => Err(cursor.error_at(position, &["a number from 1 on"], "not one row in 0")),
                one_in => Ok(Pipe::Sample(one_in)),
            }
        }
        "drop_empty_fields" => Ok(Pipe::DropEmptyFields),
        "blocks_count" => {
            let name = parse_field(cursor, "as")?.unwrap_or(BLOCKS_COUNT.to_owned());
            Ok(Pipe::BlocksCount(name))
        }
        "" if cursor.peek() == Some('(') => stats::parse_grouped(cursor).map(Pipe::Stats),
        "" if !matches!(cursor.peek(), None | Some('|' | ')')) => {
            parse_filter(cursor).map(Pipe::Filter)
        }
        "" => Err(cursor.error_at(position, PIPES, "no pipe behind \"|\"")),
        _ => Err(cursor.error_at(position, PIPES, format!("there is no pipe \"{name}\""))),
    }
}

/// Name of the field that `blocks_count` makes.
const BLOCKS_COUNT: &str = "blocks_count";

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
            Pipe::RunningStats(stats) => write!(f, "{stats}"),
            Pipe::FieldNames => f.write_str("field_names"),
            Pipe::Facets(facets) => write!(f, "{facets}"),
            Pipe::Unroll(unroll) => write!(f, "{unroll}"),
            Pipe::Join(join) => write!(f, "{join}"),
            Pipe::Union(query) => write!(f, "union ({query})"),
            Pipe::UnionRows(rows) => write!(f, "union {}", join::write_rows(rows)),
            Pipe::GenerateSequence(count) => write!(f, "generate_sequence {count}"),
            Pipe::StreamContext(context) => write!(f, "{context}"),
            Pipe::Sample(one_in) => write!(f, "sample {one_in}"),
            Pipe::DropEmptyFields => f.write_str("drop_empty_fields"),
            Pipe::BlocksCount(name) if name == BLOCKS_COUNT => f.write_str("blocks_count"),
            Pipe::BlocksCount(name) => write!(f, "blocks_count as {}", quote_name(name)),
            computing => write!(f, "{}", computing.compute().expect("the others compute fields")),
        }
    }
}

impl Pipe {
    /// Whether it looks at each row by itself, and leaves the order of time: what the newest rows of a query can go
    /// through.
    pub fn is_row_wise(&self) -> bool {
        let keeps_time = |pipe: &dyn ComputePipe| !pipe.results().contains(&"_time");
        matches!(self, Pipe::Change(_) | Pipe::Filter(_) | Pipe::Sample(_) | Pipe::DropEmptyFields)
            || self.compute().is_some_and(keeps_time)
    }

    /// Whether the rows behind it have the time of a line each, as far as names tell.
    pub(crate) fn keeps_time(&self) -> bool {
        let is_time = |pattern: &NamePattern| pattern.matches("_time");
        match self {
            Pipe::Change(Change::Keep(kept)) => kept.iter().any(is_time),
            Pipe::Change(Change::Drop(dropped)) => !dropped.iter().any(is_time),
            Pipe::Change(Change::Rename(pairs)) => {
                !pairs.iter().any(|(from, to)| is_time(from) || is_time(to))
            }
            Pipe::Change(Change::Copy(pairs)) => !pairs.iter().any(|(_, to)| is_time(to)),
            Pipe::Filter(_) | Pipe::DropEmptyFields | Pipe::Unroll(_) | Pipe::TimeAdd(_) => true,
            other => other.compute().is_some_and(|pipe| !pipe.results().contains(&"_time")),
        }
    }

    /// The pipe as one that computes fields of each row, if it is one.
    pub(crate) fn compute(&self) -> Option<&dyn ComputePipe> {
        Some(match self {
            Pipe::ValueNumber(pipe) => pipe,
            Pipe::Math(pipe) => pipe,
            Pipe::Extract(pipe) => pipe,
            Pipe::Unpack(pipe) => pipe,
            Pipe::JsonArray(pipe) => pipe,
            Pipe::Coalesce(pipe) => pipe,
            Pipe::JsonArrayConcat(pipe) => pipe,
            Pipe::Format(pipe) => pipe,
            Pipe::Rewrite(pipe) => pipe,
            Pipe::Pack(pipe) => pipe,
            Pipe::TimeAdd(pipe) => pipe,
            Pipe::SetStreamFields(pipe) => pipe,
            _ => return None,
        })
    }

    /// The filters in it.
    pub(crate) fn filters(&self) -> Vec<&Filter> {
        match self {
            Pipe::Filter(filter) => vec![filter],
            Pipe::Stats(stats) => {
                stats.functions.iter().filter_map(|f| f.filter.as_ref()).collect()
            }
            Pipe::Unroll(unroll) => unroll.condition.iter().collect(),
            other => other.compute().and_then(ComputePipe::condition).into_iter().collect(),
        }
    }

    /// The filters in it, to be changed.
    pub(crate) fn filters_mut(&mut self) -> Vec<&mut Filter> {
        match self {
            Pipe::Filter(filter) => vec![filter],
            Pipe::Stats(stats) => {
                stats.functions.iter_mut().filter_map(|f| f.filter.as_mut()).collect()
            }
            Pipe::Unroll(unroll) => unroll.condition.iter_mut().collect(),
            Pipe::Extract(pipe) => pipe.condition.iter_mut().collect(),
            Pipe::Unpack(pipe) => pipe.condition.iter_mut().collect(),
            Pipe::Format(pipe) => pipe.condition.iter_mut().collect(),
            Pipe::Rewrite(pipe) => pipe.condition.iter_mut().collect(),
            Pipe::SetStreamFields(pipe) => pipe.condition.iter_mut().collect(),
            other => {
                assert!(other.filters().is_empty(), "the others have no condition");
                Vec::new()
            }
        }
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
            Pipe::Limit(_) | Pipe::Offset(_) | Pipe::Sample(_) => {}
            Pipe::Sort(sort) => sort.needed_fields(&mut wanted),
            Pipe::RunningStats(stats) => stats.needed_fields(&mut wanted),
            Pipe::Uniq(uniq) => return only(&uniq.by),
            Pipe::Top(top) => return only(&top.by),
            Pipe::Stats(stats) => return stats.needed_fields(),
            Pipe::FieldNames | Pipe::Facets(_) => return FieldSet::all(),
            Pipe::Unroll(unroll) => {
                unroll.condition.iter().for_each(|filter| wanted.add_filter(filter));
                wanted.add_all(&unroll.fields);
            }
            Pipe::Join(join) => wanted.add_all(&join.by),
            Pipe::Union(_) | Pipe::UnionRows(_) => {}
            Pipe::GenerateSequence(_) => return FieldSet::none(),
            // Lines are selected by stream, and read again.
            Pipe::StreamContext(_) => wanted.add("_stream"),
            // Any field decides whether a row has one.
            Pipe::DropEmptyFields => wanted.add_pattern(&NamePattern::ANY),
            Pipe::BlocksCount(_) => return FieldSet::none(),
            computing => {
                let pipe = computing.compute().expect("the others compute fields");
                pipe.needed_fields(&mut wanted);
                pipe.condition().iter().for_each(|filter| wanted.add_filter(filter));
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
            Pipe::RunningStats(stats) => Box::new(stats::RunningRows::new(stats, carried)),
            Pipe::FieldNames => Box::new(field_names::Names::default()),
            Pipe::Facets(facets) => Box::new(facets::FacetCounts::new(facets)),
            Pipe::Unroll(unroll) => Box::new(unroll::UnrollRows::new(unroll)),
            Pipe::Join(join) => Box::new(join::JoinRows::new(join)),
            Pipe::Union(query) => {
                Box::new(union::UnionRows { query: (**query).clone(), is_full: false })
            }
            Pipe::UnionRows(rows) => {
                Box::new(union::UnionGiven { rows: rows.clone(), is_full: false })
            }
            Pipe::GenerateSequence(count) => {
                Box::new(generate_sequence::Sequence { count: *count })
            }
            Pipe::StreamContext(context) => {
                Box::new(stream_context::Surroundings::new(context, carried))
            }
            Pipe::Sample(one_in) => Box::new(rows::SampleRows { one_in: *one_in }),
            Pipe::DropEmptyFields => Box::new(rows::DropEmpty::default()),
            Pipe::BlocksCount(name) => {
                Box::new(rows::CountBlocks { name: name.clone(), blocks: 0 })
            }
            computing => {
                let pipe = computing.compute().expect("the others compute fields");
                Box::new(Computing { rows: ComputeRows::new(pipe), scratch: Scratch::default() })
            }
        }
    }
}

/// A pipe that runs.
pub(crate) trait Processor: Send {
    /// Takes rows; hands on what it can. Break: it wants no more.
    fn push(&mut self, block: Block, next: &mut Next<'_, '_>) -> Result<ControlFlow<()>, RunError>;

    /// Takes rows that stand for many lines each; only for pipes that count rows.
    fn push_weighted(
        &mut self,
        _rows: &Weighted,
        _next: &mut Next<'_, '_>,
    ) -> Result<(), RunError> {
        unreachable!("only stats, top and uniq count rows that they have not seen");
    }

    /// Takes how many lines have which values of its only field; only for pipes that count rows.
    fn push_tally(&mut self, _tally: &Tally, _next: &mut Next<'_, '_>) -> Result<(), RunError> {
        unreachable!("only stats, top and uniq count rows that they have not seen");
    }

    /// What it collected so far, if another one of the same pipe can take it over. Such a pipe collects rows in any order
    /// and hands nothing on before [`finish`](Self::finish).
    fn collected(&mut self) -> Option<&mut dyn Any> {
        None
    }

    /// Whether it hands on the very same for any order of the rows. Of rows with equal keys, `sort` gives the first first, and a
    /// sum may be rounded otherwise.
    fn takes_any_order(&self) -> bool {
        false
    }

    /// Takes over what another one collected.
    fn merge(
        &mut self,
        _collected: &mut dyn Any,
        _next: &mut Next<'_, '_>,
    ) -> Result<(), RunError> {
        unreachable!("only pipes that say what they collected are merged");
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
