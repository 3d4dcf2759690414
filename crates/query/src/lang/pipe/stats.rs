//! `stats [by (_time:5m, level, size:1KB)] count() [if (filter)] [as name], …`: computes numbers
//! about groups of rows.
//!
//! The word `stats` is optional. Without `by` there is one group, even if no row comes. Each
//! function has a file of its own, which documents its result, its exactness and how it runs
//! ([`aggregate`]); functions that differ only in a sign share a file.

mod aggregate;
mod any;
mod bucket;
mod call;
mod count;
mod count_uniq;
mod count_uniq_hash;
mod groups;
mod histogram;
mod json_values;
mod min_max;
mod quantile;
mod range;
mod row_any;
mod row_min_max;
mod running;
mod series;
mod sketch;
mod stddev;
mod sum;
mod sum_len;
mod uniq_values;
mod values;

use std::collections::HashSet;
use std::fmt;
use std::sync::LazyLock;

use text::quoted::quote;

use super::operator::{Documentation, Merges, Mode, Names, Operator, Processor, Registration, one};
use crate::base::FieldSet;
use crate::base::names::{NamePattern, TIME, is_stored};
use crate::lang::filter::{Filter, fields_of, parse_filter};
use crate::lang::pipe::{CountedBy, FunctionRead, VectorsRead};
use crate::lang::syntax::cursor::{Cursor, quote_name};
use crate::lang::syntax::error::ParseError;

pub use bucket::Bucket;
pub(crate) use bucket::time_bucket;
#[cfg(test)]
pub(crate) use call::FieldsCall;
pub use call::Function;
use call::Register;
use groups::Grouping;
#[cfg(test)]
pub(crate) use groups::write_step;
#[cfg(test)]
pub(crate) use json_values::JsonValuesCall;
#[cfg(test)]
pub(crate) use quantile::QuantileCall;
#[cfg(test)]
pub(crate) use row_min_max::{KeptOfRow, RowMinMaxCall};
pub(super) use running::{RUNNING_STATS, TOTAL_STATS};
pub use running::{RunningFunction, RunningKind, RunningStats, SeriesEnd};
pub use series::{Moving, SeriesFunction, Span};

/// The `stats` pipe.
#[derive(Clone, Debug, PartialEq)]
pub struct Stats {
    /// Fields that form groups.
    pub by: Vec<By>,
    /// Functions to compute for each group; at least one.
    pub functions: Vec<StatsFunction>,
}

/// A field that groups rows.
#[derive(Clone, Debug, PartialEq)]
pub struct By {
    /// Name of the field.
    pub name: String,
    /// How values are grouped into buckets; none: each value is its own group.
    pub bucket: Option<Bucket>,
}

/// A function of `stats`, with the name of its result.
#[derive(Clone, Debug, PartialEq)]
pub struct StatsFunction {
    /// The function.
    pub function: Function,
    /// Selects the rows that count; none: all rows of the group.
    pub filter: Option<Filter>,
    /// Name of the result field.
    pub name: String,
}

/// Most cases of a `switch`. The filter of the default holds those of all.
///
/// limits.md, Queries: cases of a `switch` in `stats` | {} | the query is refused
const SWITCH_CASES_MAX: usize = 32;

/// All functions, in the order in which messages name them.
static TABLE: &[&dyn Register] = &[
    &count::COUNT,
    &count::COUNT_EMPTY,
    &count_uniq::COUNT_UNIQ,
    &count_uniq_hash::COUNT_UNIQ_HASH,
    &sum::SUM,
    &sum_len::SUM_LEN,
    &sum::AVG,
    &stddev::STDDEV,
    &min_max::MIN,
    &min_max::MAX,
    &quantile::QUANTILE,
    &quantile::MEDIAN,
    &sketch::SKETCH,
    &sketch::SKETCH_QUANTILE,
    &histogram::HISTOGRAM,
    &range::RANGE,
    &count::RATE,
    &sum::RATE_SUM,
    &any::ANY,
    &values::VALUES,
    &uniq_values::UNIQ_VALUES,
    &row_any::ROW_ANY,
    &row_min_max::ROW_MIN,
    &row_min_max::ROW_MAX,
    &row_min_max::FIELD_MIN,
    &row_min_max::FIELD_MAX,
    &json_values::JSON_VALUES,
];

/// The names of all functions, for messages.
static NAMES: LazyLock<Vec<&str>> =
    LazyLock::new(|| TABLE.iter().map(|function| function.doc().name).collect());

/// The documentation of each function of `stats` for users.
pub fn function_documentation() -> impl Iterator<Item = &'static Documentation> {
    TABLE.iter().map(|function| function.doc())
}

/// Whether there is a function of this name, in lower case.
pub(super) fn is_function(name: &str) -> bool {
    NAMES.contains(&name)
}

pub(super) static STATS: Registration = Registration {
    doc: Documentation {
        name: "stats",
        aliases: &[],
        syntax: "stats [by (<field>[:<bucket>], …)] <function>(…) [if (<filter>)] [as <name>], … \
                 With switch(case (<filter>) as <name>, …, default as <name>) in place of [if …] [as …], a row counts for each case that selects it, or else for the default",
        summary: "computes numbers about groups of rows",
        example: "stats by (_time:5m, level) count() n, avg(took) if (took:*) mean",
    },
    parse: |cursor| parse(cursor).map(one),
};

impl Operator for Stats {
    fn mode(&self) -> Mode {
        Mode::Collecting
    }

    fn merges(&self) -> Merges {
        match self.functions.iter().all(|f| f.function.is_order_free()) {
            true => Merges::AnyOrder,
            false => Merges::InOrder,
        }
    }

    fn needed_fields(&self, _wanted: FieldSet) -> FieldSet {
        let mut needed = FieldSet::none();
        self.by.iter().for_each(|by| needed.add(&by.name));
        for StatsFunction { function, filter, .. } in &self.functions {
            function.add_needed(&mut needed);
            filter.iter().for_each(|filter| filter.add_fields(&mut needed));
        }
        needed
    }

    fn processor(&self, _carried: &[String]) -> Box<dyn Processor> {
        Box::new(Grouping::new(self))
    }

    fn filters(&self) -> Vec<&Filter> {
        self.functions.iter().filter_map(|f| f.filter.as_ref()).collect()
    }

    fn filters_mut(&mut self) -> Vec<&mut Filter> {
        self.functions.iter_mut().filter_map(|f| f.filter.as_mut()).collect()
    }

    fn names(&self) -> Names {
        let by = self.by.iter().map(|by| by.name.clone());
        Names::Are(by.chain(self.functions.iter().map(|f| f.name.clone())).collect())
    }

    fn value_field(&self) -> Names {
        self.names()
    }

    fn counted_by(&self) -> Option<CountedBy> {
        let mut fields: Vec<&str> = Vec::new();
        let mut bucket_ns = None;
        for by in &self.by {
            match (&*by.name, &by.bucket) {
                (TIME, Some(Bucket::Time { step_ns, offset_ns })) => {
                    bucket_ns = Some((*step_ns, *offset_ns));
                }
                (TIME, _) | (_, Some(_)) => return None,
                (name, None) => fields.push(name),
            }
        }
        let only_by = self.functions.iter().all(|f| f.function.counts_rows() && f.filter.is_none());
        for StatsFunction { function, filter, .. } in &self.functions {
            if !function.counts_rows() {
                fields.extend(function.distinct_fields()?);
            }
            filter.iter().try_for_each(|filter| fields_of(filter, &mut fields))?;
        }
        Some(CountedBy::new(fields, bucket_ns, !only_by))
    }

    fn vectors_read(&self) -> Option<VectorsRead<'_>> {
        let (mut by, mut bucket_ns) = (Vec::new(), None);
        for field in &self.by {
            match (&*field.name, &field.bucket) {
                (TIME, Some(Bucket::Time { step_ns, offset_ns })) => {
                    bucket_ns = Some((*step_ns, *offset_ns));
                }
                (name, _) if is_stored(name) => by.push(name),
                _ => return None,
            }
        }
        let functions = self.functions.iter().map(|called| {
            let field = match called.function.counts_rows() {
                true => None,
                false => Some(called.function.vector_field()?),
            };
            Some(FunctionRead { field, filter: called.filter.as_ref() })
        });
        Some(VectorsRead { by, bucket_ns, functions: functions.collect::<Option<_>>()? })
    }
}

/// Parses the text behind `stats`.
fn parse(cursor: &mut Cursor<'_>) -> Result<Stats, ParseError> {
    if cursor.eat_keyword("by") || cursor.peek() == Some('(') {
        return parse_grouped(cursor);
    }
    parse_functions(cursor, Vec::new())
}

/// Parses `(by, …) functions`.
pub(super) fn parse_grouped(cursor: &mut Cursor<'_>) -> Result<Stats, ParseError> {
    cursor.expect('(', "the fields to group by")?;
    let (mut by, mut names) = (Vec::new(), HashSet::new());
    while !cursor.eat(')') {
        let written = cursor.expect_string(false, "a field name")?;
        let name = written.text;
        if !names.insert(name.clone()) {
            let message = format!("rows are grouped by \"{name}\" twice");
            return Err(cursor.error_at(written.position, &["another field"], message));
        }
        let bucket = if cursor.eat(':') { Some(bucket::parse(cursor)?) } else { None };
        by.push(By { name, bucket });
        if !cursor.eat(',') {
            cursor.expect(')', "the fields to group by")?;
            break;
        }
    }
    parse_functions(cursor, by)
}

/// Parses the functions.
pub(super) fn parse_functions(cursor: &mut Cursor<'_>, by: Vec<By>) -> Result<Stats, ParseError> {
    let mut names: HashSet<String> = by.iter().map(|by| by.name.clone()).collect();
    let mut functions: Vec<StatsFunction> = Vec::new();
    loop {
        let position = cursor.position();
        for function in parse_function(cursor)? {
            if !names.insert(function.name.clone()) {
                let message = format!("the name \"{}\" is used twice", function.name);
                return Err(cursor.error_at(position, &["a name with \"as\""], message));
            }
            functions.push(function);
        }
        if !cursor.eat(',') {
            return Ok(Stats { by, functions });
        }
    }
}

/// Parses a function with what stands behind it. With `switch`, it is one function for each case.
fn parse_function(cursor: &mut Cursor<'_>) -> Result<Vec<StatsFunction>, ParseError> {
    let function = parse_call(cursor)?;
    let before = cursor.place();
    if cursor.eat_keyword("switch") && cursor.eat('(') {
        return parse_switch(cursor, &function);
    }
    cursor.go_back(before);
    let filter =
        if cursor.eat_keyword("if") { Some(parse_condition(cursor, "if (…)")?) } else { None };
    let named = cursor.eat_keyword("as");
    let word_follows =
        matches!(cursor.peek(), Some('"' | '\'' | '`')) || !cursor.peek_word(false).is_empty();
    let name = if named || word_follows {
        cursor.expect_string(false, "a name for the result")?.text
    } else {
        let condition = filter.as_ref().map_or(String::new(), |filter| format!(" if ({filter})"));
        format!("{function}{condition}")
    };
    Ok(vec![StatsFunction { function, filter, name }])
}

/// Parses `(filter)`.
fn parse_condition(cursor: &mut Cursor<'_>, what: &str) -> Result<Filter, ParseError> {
    cursor.expect('(', what)?;
    let filter = cursor.nested(parse_filter)?;
    cursor.expect(')', what)?;
    Ok(filter)
}

/// Parses `case (filter) as name, …, default as name)`. A row counts for each case whose filter
/// selects it, and for the default if none does.
fn parse_switch(
    cursor: &mut Cursor<'_>,
    function: &Function,
) -> Result<Vec<StatsFunction>, ParseError> {
    const WHAT: &str = "switch(case (…) as name, …)";
    let (mut cases, mut none) = (Vec::new(), Vec::new());
    let mut has_default = false;
    while !cursor.eat(')') {
        let position = cursor.position();
        if cases.len() == SWITCH_CASES_MAX {
            let message = format!("switch has more than {SWITCH_CASES_MAX} cases");
            return Err(cursor.error_at(position, &[], message));
        }
        let mut case = None;
        if cursor.eat_keyword("case") || cursor.eat_keyword("if") {
            let filter = parse_condition(cursor, "case (…)")?;
            none.push(Filter::Not(Box::new(filter.clone())));
            case = Some(filter);
        } else if !has_default && cursor.eat_keyword("default") {
            has_default = true;
        } else {
            let message =
                "there is no other word than \"case\", and one \"default\", inside switch(…)";
            return Err(cursor.error_at(position, &["\"case\"", "\"default\""], message));
        }
        cursor.eat_keyword("as");
        let name = cursor.expect_string(false, "a name for the result")?.text;
        cases.push((case, name));
        if !cursor.eat(',') {
            cursor.expect(')', WHAT)?;
            break;
        }
    }
    if cases.is_empty() {
        return Err(cursor.error(&["\"case\""], "switch(…) needs a case"));
    }
    // The default is for the rows of no case, wherever it stands.
    let default = (!none.is_empty()).then(|| Filter::and(none));
    let function = |(case, name): (Option<Filter>, String)| StatsFunction {
        function: function.clone(),
        filter: case.or_else(|| default.clone()),
        name,
    };
    Ok(cases.into_iter().map(function).collect())
}

/// Parses the call of a function, which begins here.
pub(super) fn parse_call(cursor: &mut Cursor<'_>) -> Result<Function, ParseError> {
    let position = cursor.position();
    let word = cursor.peek_word(false);
    let name = word.to_ascii_lowercase();
    let Some(registered) = TABLE.iter().find(|function| function.doc().name == name) else {
        let message = match cursor.found() {
            None => "the query ends where a stats function should be".to_owned(),
            Some(found) => format!("there is no stats function {found}"),
        };
        return Err(cursor.error_at(position, &NAMES, message));
    };
    cursor.eat_keyword(word);
    cursor.expect('(', &name)?;
    registered.parse(cursor, position)
}

/// Parses `a, "b", foo*)`; `*` means all fields.
fn parse_fields(cursor: &mut Cursor<'_>, function: &str) -> Result<Vec<NamePattern>, ParseError> {
    let mut fields = Vec::new();
    while !cursor.eat(')') {
        if cursor.eat('*') {
            fields.push(NamePattern { name: String::new(), prefix: true });
        } else {
            let name = cursor.expect_string(false, "a field name")?.text;
            fields.push(NamePattern { name, prefix: cursor.eat_adjacent('*') });
        }
        if !cursor.eat(',') {
            cursor.expect(')', &format!("{function}(…)"))?;
            break;
        }
    }
    Ok(fields)
}

fn write_field(field: &NamePattern) -> String {
    match (field.prefix, field.name.is_empty()) {
        (true, true) => "*".to_owned(),
        (true, false) => format!("{}*", quote(&field.name)),
        (false, _) => quote_name(&field.name),
    }
}

fn write_fields(fields: &[NamePattern]) -> String {
    fields.iter().map(write_field).collect::<Vec<_>>().join(", ")
}

impl fmt::Display for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("stats ")?;
        if !self.by.is_empty() {
            let by = |by: &By| match &by.bucket {
                None => quote_name(&by.name),
                Some(bucket) => format!("{}:{bucket}", quote_name(&by.name)),
            };
            let by: Vec<String> = self.by.iter().map(by).collect();
            write!(f, "by ({}) ", by.join(", "))?;
        }
        for (i, StatsFunction { function, filter, name }) in self.functions.iter().enumerate() {
            write!(f, "{}{function}", if i > 0 { ", " } else { "" })?;
            if let Some(filter) = filter {
                write!(f, " if ({filter})")?;
            }
            write!(f, " as {}", quote_name(name))?;
        }
        Ok(())
    }
}
