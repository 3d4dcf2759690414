//! Pipes: the steps of a query behind its filter. A pipe is an [`Operator`] with a file of its own,
//! which holds its arguments, its documentation for users, how it is parsed and written, which
//! fields it needs, and how it runs.
//!
//! A new pipe is a new file and its line in [`TABLE`]; see "A pipe" in CONTRIBUTING.md.

mod anomalies;
pub(crate) mod byte_table;
mod coalesce;
mod columns;
mod compute;
mod counted_by;
mod differences;
mod encode;
mod extract;
mod facets;
mod field_names;
mod format;
mod generate_sequence;
mod join;
mod json_array;
mod json_array_concat;
mod limit;
mod lookup;
mod math;
mod next;
mod operator;
mod outgoing;
mod pack;
#[cfg(test)]
mod partial_tests;
mod pattern;
mod patterns;
mod rewrite;
mod rows;
mod select;
mod set_stream_fields;
pub(crate) mod shown;
mod sort;
pub(crate) mod stats;
mod stream_context;
#[cfg(test)]
mod table_tests;
#[cfg(test)]
mod tests;
mod time_add;
mod timed_rows;
mod top;
pub(crate) mod tuples;
mod union;
mod uniq;
mod unpack;
mod unroll;
mod value;
mod vectors;

use std::any::Any;
use std::collections::HashSet;
use std::fmt;
use std::sync::LazyLock;

use crate::base::partial_state::{Decoder, Encoder};
use crate::base::{FieldSet, Meter, RunError};
use crate::lang::filter::{Filter, parse_filter};
use crate::lang::syntax::cursor::{Cursor, is_word_char, quote_name};
use crate::lang::syntax::error::ParseError;
use crate::lang::syntax::macros::{self, MacroForm};
use crate::lang::syntax::query::{Query, parse_pipe_list};

pub(crate) use counted_by::CountedBy;
pub(crate) use next::{EachInner, Next, RowReceiver, RunningQuery, Sharing};
pub(crate) use operator::{Merges, Mode, Names, Processor, RowWise, Work};
use operator::{Operator, Registration};

pub use self::patterns::Patterns;
pub use anomalies::Anomalies;
pub use coalesce::Coalesce;
pub(crate) use columns::write_patterns;
pub use compute::Overwrite;
pub use differences::Differences;
pub use extract::{Extract, ExtractPattern};
pub use facets::Facets;
pub use field_names::FieldNames;
pub use format::Format;
pub use generate_sequence::GenerateSequence;
pub use join::{Join, JoinedWith};
pub use json_array::{JsonArray, Parts};
pub use json_array_concat::JsonArrayConcat;
pub use limit::{Limit, Offset};
pub use lookup::Lookup;
pub use math::{Expression, Math, MathEntry};
pub use operator::Documentation;
pub use pack::Pack;
pub use record::parse::decolorize;
pub use rewrite::{Rewrite, TextChange};
pub use rows::{BlocksCount, DropEmptyFields, Sample};
pub use select::Select;
pub use set_stream_fields::SetStreamFields;
pub use sort::{Sort, SortKey};
pub(crate) use stats::time_bucket;
pub use stats::{
    Bucket, By, Function, Moving, RunningFunction, RunningKind, RunningStats, SeriesEnd,
    SeriesFunction, Span, Stats, StatsFunction, function_documentation,
};
#[cfg(test)]
pub(crate) use stats::{
    FieldsCall, JsonValuesCall, KeptOfRow, QuantileCall, RowMinMaxCall, write_step,
};
pub use stream_context::StreamContext;
pub use time_add::TimeAdd;
pub use top::Top;
pub use union::Union;
pub use uniq::Uniq;
pub use unpack::{PackedForm, Unpack};
pub use unroll::Unroll;
pub(crate) use value::xxh64;
pub use value::{Measure, ValueNumber};
pub(crate) use vectors::{ComputesNumbers, FunctionRead, VectorsRead};

/// All pipes, in the order in which messages name them.
static TABLE: &[&Registration] = &[
    &columns::FIELDS,
    &columns::DELETE,
    &columns::RENAME,
    &columns::COPY,
    &select::FILTER,
    &limit::LIMIT,
    &limit::OFFSET,
    &sort::SORT,
    &sort::FIRST,
    &sort::LAST,
    &sort::DEDUPLICATE,
    &uniq::UNIQ,
    &top::TOP,
    &stats::STATS,
    &stats::RUNNING_STATS,
    &stats::TOTAL_STATS,
    &anomalies::ANOMALIES,
    &field_names::FIELD_NAMES,
    &uniq::FIELD_VALUES,
    &facets::FACETS,
    &patterns::PATTERNS,
    &differences::DIFFERENCES,
    &extract::EXTRACT,
    &extract::EXTRACT_REGEXP,
    &unpack::UNPACK_JSON,
    &unpack::UNPACK_LOGFMT,
    &unpack::UNPACK_SYSLOG,
    &json_array::UNPACK_WORDS,
    &coalesce::COALESCE,
    &lookup::LOOKUP,
    &json_array_concat::JSON_ARRAY_CONCAT,
    &generate_sequence::GENERATE_SEQUENCE,
    &json_array::SPLIT,
    &unroll::UNROLL,
    &join::JOIN,
    &union::UNION,
    &stream_context::STREAM_CONTEXT,
    &math::MATH,
    &format::FORMAT,
    &rewrite::REPLACE,
    &rewrite::REPLACE_REGEXP,
    &rewrite::COLLAPSE_NUMS,
    &rewrite::DECOLORIZE,
    &pack::PACK_JSON,
    &pack::PACK_LOGFMT,
    &value::LEN,
    &value::JSON_ARRAY_LEN,
    &value::HASH,
    &time_add::TIME_ADD,
    &set_stream_fields::SET_STREAM_FIELDS,
    &rows::SAMPLE,
    &rows::DROP_EMPTY_FIELDS,
    &rows::BLOCKS_COUNT,
];

/// The names of all pipes, for messages.
static NAMES: LazyLock<Vec<&str>> =
    LazyLock::new(|| TABLE.iter().map(|entry| entry.doc.name).collect());

/// The documentation of each pipe for users.
pub fn pipe_documentation() -> impl Iterator<Item = &'static Documentation> {
    TABLE.iter().map(|entry| &entry.doc)
}

/// One step behind a `|`.
#[derive(Debug)]
pub struct Pipe(Box<dyn Operator>);

impl Clone for Pipe {
    fn clone(&self) -> Pipe {
        Pipe(self.0.boxed_clone())
    }
}

impl PartialEq for Pipe {
    fn eq(&self, other: &Pipe) -> bool {
        self.0.equals(&*other.0)
    }
}

impl fmt::Display for Pipe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl<O: Operator> From<O> for Pipe {
    fn from(operator: O) -> Pipe {
        Pipe::new(operator)
    }
}

impl Pipe {
    pub(crate) fn new(operator: impl Operator) -> Pipe {
        Pipe(Box::new(operator))
    }

    /// The pipe as the operator `T`, such as [`Stats`]; none if it is another operator.
    pub fn get<T: Any>(&self) -> Option<&T> {
        let operator: &dyn Any = &*self.0;
        operator.downcast_ref()
    }

    /// As [`Pipe::get`], mutable.
    pub fn get_mut<T: Any>(&mut self) -> Option<&mut T> {
        let operator: &mut dyn Any = &mut *self.0;
        operator.downcast_mut()
    }

    /// Whether the pipe handles each row by itself and keeps the order of time, so that the newest
    /// rows of a query can pass through it.
    pub fn is_row_wise(&self) -> bool {
        self.0.mode() == Mode::RowWise
    }

    pub(crate) fn mode(&self) -> Mode {
        self.0.mode()
    }

    pub(crate) fn merges(&self) -> Merges {
        self.0.merges()
    }

    /// The documentation of the pipe for users.
    pub fn documentation(&self) -> &'static Documentation {
        let written = self.to_string();
        let name = written.split(|c: char| !is_word_char(c)).next().unwrap_or_default();
        let entry = TABLE.iter().find(|entry| entry.doc.name == name);
        &entry.expect("each pipe is written with a name of the table").doc
    }

    /// Distinguishes the partial states of this pipe from those of other pipes.
    fn fingerprint(&self) -> u64 {
        xxh64(self.to_string().as_bytes())
    }

    /// Encodes the partial state of a stage of this pipe.
    pub(crate) fn encode(
        &self,
        stage: &dyn Processor,
        meter: &mut Meter,
    ) -> Result<Vec<u8>, RunError> {
        let mut encoder = Encoder::new(self.fingerprint(), meter)?;
        stage.encode(&mut encoder)?;
        Ok(encoder.finish())
    }

    /// Decodes a partial state of this pipe into a new stage.
    pub(crate) fn decode(
        &self,
        bytes: &[u8],
        carried: &[String],
        meter: &mut Meter,
    ) -> Result<Box<dyn Processor>, RunError> {
        let mut decoder = Decoder::new(bytes, self.fingerprint())?;
        let mut stage = self.processor(carried);
        stage.decode(&mut decoder, meter)?;
        decoder.finish()?;
        Ok(stage)
    }

    pub(crate) fn row_wise(&self) -> Option<Box<dyn RowWise>> {
        self.0.row_wise()
    }

    pub(crate) fn keeps_time(&self) -> bool {
        self.0.keeps_time()
    }

    /// As [`Operator::moves_time`].
    pub(crate) fn moves_time(&self) -> bool {
        self.0.moves_time()
    }

    pub(crate) fn keeps_rows(&self) -> bool {
        self.0.keeps_rows()
    }

    /// As [`Operator::only_adds_fields`].
    pub(crate) fn only_adds_fields(&self) -> bool {
        self.0.only_adds_fields()
    }

    pub(crate) fn filters(&self) -> Vec<&Filter> {
        self.0.filters()
    }

    pub(crate) fn filters_mut(&mut self) -> Vec<&mut Filter> {
        self.0.filters_mut()
    }

    pub(crate) fn queries_mut(&mut self) -> Vec<&mut Query> {
        self.0.queries_mut()
    }

    pub(crate) fn reads_other_lines(&self) -> bool {
        self.0.reads_other_lines()
    }

    pub(crate) fn first_because(&self) -> Option<&'static str> {
        self.0.first_because()
    }

    pub(crate) fn names(&self) -> Names {
        self.0.names()
    }

    pub(crate) fn value_field(&self) -> Names {
        self.0.value_field()
    }

    pub(crate) fn settle_order(&mut self, before: &dyn Fn() -> Option<Vec<String>>) {
        self.0.settle_order(before);
    }

    pub(crate) fn counted_by(&self) -> Option<CountedBy> {
        self.0.counted_by()
    }

    pub(crate) fn vectors_read(&self) -> Option<VectorsRead<'_>> {
        self.0.vectors_read()
    }

    pub(crate) fn computes_numbers(&self) -> Option<&dyn ComputesNumbers> {
        self.0.computes_numbers()
    }

    pub(crate) fn follow_names(
        &self,
        shown: &mut shown::Shown,
        is_range: bool,
    ) -> Result<(), String> {
        self.0.follow_names(shown, is_range)
    }

    /// The fields that rows need before the pipe, if the rows behind it must have `wanted`.
    pub(crate) fn needed_fields(&self, wanted: FieldSet) -> FieldSet {
        self.0.needed_fields(wanted)
    }

    /// The stage that runs the pipe; `carried` are hidden fields that copies of rows keep.
    pub(crate) fn processor(&self, carried: &[String]) -> Box<dyn Processor> {
        self.0.processor(carried)
    }
}

/// Parses the text between two `|`; usually one pipe.
pub(crate) fn parse_pipes(cursor: &mut Cursor<'_>) -> Result<Vec<Pipe>, ParseError> {
    let position = cursor.position();
    if let Some(called) = macros::called(cursor)?.filter(|m| m.form() == MacroForm::Pipes) {
        return macros::expand(cursor, called, |inner| {
            let mut pipes = Vec::new();
            parse_pipe_list(inner, &mut pipes)?;
            Ok(pipes)
        });
    }
    let name = cursor.peek_word(false).to_ascii_lowercase();
    let is_sign = name.starts_with(|c: char| !is_word_char(c));
    if is_sign
        || name == "not"
        || cursor.behind_word() == Some(':') && !NAMES.contains(&name.as_str())
    {
        // The word `filter` is optional.
        return (select::FILTER.parse)(cursor);
    }
    if stats::is_function(&name) {
        return (stats::STATS.parse)(cursor);
    }
    let named =
        |entry: &&&Registration| entry.doc.name == name || entry.doc.aliases.contains(&&*name);
    if let Some(entry) = TABLE.iter().find(named) {
        cursor.eat_keyword(&name);
        return (entry.parse)(cursor);
    }
    // The word `stats` is optional before a grouping too.
    if name.is_empty() && cursor.peek() == Some('(') {
        return (stats::STATS.parse)(cursor);
    }
    if cursor.eat_keyword("by") && cursor.peek() == Some('(') {
        return (stats::STATS.parse)(cursor);
    }
    if !name.is_empty() {
        return Err(cursor.error_at(position, &NAMES, format!("there is no pipe \"{name}\"")));
    }
    match cursor.peek() {
        None | Some('|' | ')') => {
            Err(cursor.error_at(position, &NAMES, "a pipe is missing behind \"|\""))
        }
        Some(_) => parse_filter(cursor).map(|filter| vec![Pipe::new(Select { filter })]),
    }
}

/// Parses the fields that form tuples; a repeated field counts once.
pub(crate) fn parse_by(cursor: &mut Cursor<'_>) -> Result<Vec<String>, ParseError> {
    let mut by = parse_names(cursor)?;
    let mut known = HashSet::with_capacity(by.len());
    by.retain(|name| known.insert(name.clone()));
    Ok(by)
}

/// Parses `(a, "b")`, or `a, "b"` without the parentheses.
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
