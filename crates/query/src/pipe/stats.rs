//! `stats [by (_time:5m, level, size:1KB)] count() [if (filter)] [as name], …`: numbers about groups of rows.
//!
//! The word `stats` may be left out. Without `by` there is one group, also when no row came. One function a file, those
//! that differ by a sign together: what it gives, how exact it is, and how it runs ([`aggregate`]).

mod aggregate;
mod any;
mod bucket;
mod count;
mod count_uniq;
mod count_uniq_hash;
mod groups;
mod histogram;
mod json_values;
mod min_max;
mod quantile;
mod row_any;
mod row_min_max;
mod running;
mod stddev;
mod sum;
mod sum_len;
mod uniq_values;
mod values;

use std::fmt;

use super::{SortKey, sort};
use crate::block::NamePattern;
use crate::cursor::{Cursor, quote, quote_name};
use crate::error::ParseError;
use crate::fields::FieldSet;
use crate::filter::{Filter, parse_filter};
use crate::number::parse_number;
use crate::run::Buffer;

use aggregate::{PerGroup, States};
pub use bucket::Bucket;
pub(crate) use bucket::time_bucket;
pub(super) use groups::Grouping;
#[cfg(test)]
pub(crate) use groups::write_step;
use row_min_max::Kept;
pub use running::{RunningFunction, RunningKind, RunningStats};
pub(super) use running::{RunningRows, parse as parse_running};

/// The `stats` pipe.
#[derive(Clone, Debug, PartialEq)]
pub struct Stats {
    /// What makes a group.
    pub by: Vec<By>,
    /// What is computed of each; at least one.
    pub functions: Vec<StatsFunction>,
}

/// A field that groups rows.
#[derive(Clone, Debug, PartialEq)]
pub struct By {
    /// Its name.
    pub name: String,
    /// How values are put together; none: each value is its own group.
    pub bucket: Option<Bucket>,
}

/// A number about a group, with its name.
#[derive(Clone, Debug, PartialEq)]
pub struct StatsFunction {
    /// What is computed.
    pub function: Function,
    /// Rows that count; none: all of the group.
    pub filter: Option<Filter>,
    /// Name of the field in the answer.
    pub name: String,
}

/// What can be computed of a group. Fields are names, or beginnings of names.
#[derive(Clone, Debug, PartialEq)]
pub enum Function {
    /// Rows; with fields, those that have a value in any of them.
    Count(Vec<NamePattern>),
    /// Rows that have no value in any of the fields.
    CountEmpty(Vec<NamePattern>),
    /// Different tuples of values, without the all empty one; counted up to the limit.
    CountUniq(Vec<NamePattern>, Option<u64>),
    /// Different hashes of tuples of values, without the all empty one; counted up to the limit.
    CountUniqHash(Vec<NamePattern>, Option<u64>),
    /// Sum of the numbers in the fields.
    Sum(Vec<NamePattern>),
    /// Sum of the lengths of the values, in bytes.
    SumLen(Vec<NamePattern>),
    /// Average of the numbers in the fields.
    Avg(Vec<NamePattern>),
    /// Standard deviation of the numbers in the fields.
    Stddev(Vec<NamePattern>),
    /// Least value in the fields.
    Min(Vec<NamePattern>),
    /// Greatest value in the fields.
    Max(Vec<NamePattern>),
    /// The number below which that share of the numbers in the fields is.
    Quantile(f64, Vec<NamePattern>),
    /// The quantile of 0.5.
    Median(Vec<NamePattern>),
    /// Numbers in the fields by ranges.
    Histogram(Vec<NamePattern>),
    /// Rows a second.
    Rate,
    /// Sum of the numbers in the fields a second.
    RateSum(Vec<NamePattern>),
    /// A value of the fields.
    Any(Vec<NamePattern>),
    /// The values of the fields of all rows, up to the limit.
    Values(Vec<NamePattern>, Option<u64>),
    /// The different values of the fields, up to the limit.
    UniqValues(Vec<NamePattern>, Option<u64>),
    /// A row, with these fields or all.
    RowAny(Vec<NamePattern>),
    /// The row with the least value of a field, with these fields or all.
    RowMin(String, Vec<NamePattern>),
    /// The row with the greatest value of a field, with these fields or all.
    RowMax(String, Vec<NamePattern>),
    /// The value of the second field in the row with the least value of the first.
    FieldMin(String, String),
    /// The value of the second field in the row with the greatest value of the first.
    FieldMax(String, String),
    /// Rows, with these fields or all, in an order, up to the limit.
    JsonValues {
        /// Fields; all without any.
        fields: Vec<NamePattern>,
        /// Order; that of reading without any.
        keys: Vec<SortKey>,
        /// Most rows.
        limit: Option<u64>,
    },
}

impl Function {
    /// Whether it counts rows, whatever is in them: so also rows that stand for many lines.
    pub(crate) fn counts_rows(&self) -> bool {
        match self {
            Function::Count(fields) => fields.is_empty(),
            Function::Rate => true,
            _ => false,
        }
    }

    /// Whether it counts rows or values, to the last.
    fn only_counts(&self) -> bool {
        let is_count = matches!(self, Function::Count(_) | Function::CountEmpty(_));
        is_count || matches!(self, Function::CountUniq(_, None) | Function::Rate)
    }

    /// Whether the result is the same in whatever order rows come. The others take what comes first where several would
    /// do. The order of values is total: of equal numbers that are written differently, one is the least.
    fn is_order_free(&self) -> bool {
        match self {
            Function::Count(_)
            | Function::CountEmpty(_)
            | Function::CountUniq(..)
            | Function::CountUniqHash(..)
            | Function::Sum(_)
            | Function::SumLen(_)
            | Function::Avg(_)
            | Function::Stddev(_)
            | Function::Quantile(..)
            | Function::Median(_)
            | Function::Histogram(_)
            | Function::Min(_)
            | Function::Max(_)
            | Function::Rate
            | Function::RateSum(_) => true,
            Function::UniqValues(_, limit) => limit.is_none(),
            Function::Any(_)
            | Function::Values(..)
            | Function::RowAny(_)
            | Function::RowMin(..)
            | Function::RowMax(..)
            | Function::FieldMin(..)
            | Function::FieldMax(..)
            | Function::JsonValues { .. } => false,
        }
    }

    /// The names of all functions.
    pub fn names() -> &'static [&'static str] {
        &[
            "count",
            "count_empty",
            "count_uniq",
            "count_uniq_hash",
            "sum",
            "sum_len",
            "avg",
            "stddev",
            "min",
            "max",
            "quantile",
            "median",
            "histogram",
            "rate",
            "rate_sum",
            "any",
            "values",
            "uniq_values",
            "row_any",
            "row_min",
            "row_max",
            "field_min",
            "field_max",
            "json_values",
        ]
    }

    fn name(&self) -> &'static str {
        match self {
            Function::Count(_) => "count",
            Function::CountEmpty(_) => "count_empty",
            Function::CountUniq(..) => "count_uniq",
            Function::CountUniqHash(..) => "count_uniq_hash",
            Function::Sum(_) => "sum",
            Function::SumLen(_) => "sum_len",
            Function::Avg(_) => "avg",
            Function::Stddev(_) => "stddev",
            Function::Min(_) => "min",
            Function::Max(_) => "max",
            Function::Quantile(..) => "quantile",
            Function::Median(_) => "median",
            Function::Histogram(_) => "histogram",
            Function::Rate => "rate",
            Function::RateSum(_) => "rate_sum",
            Function::Any(_) => "any",
            Function::Values(..) => "values",
            Function::UniqValues(..) => "uniq_values",
            Function::RowAny(_) => "row_any",
            Function::RowMin(..) => "row_min",
            Function::RowMax(..) => "row_max",
            Function::FieldMin(..) => "field_min",
            Function::FieldMax(..) => "field_max",
            Function::JsonValues { .. } => "json_values",
        }
    }

    fn fields(&self) -> &[NamePattern] {
        match self {
            Function::Rate | Function::FieldMin(..) | Function::FieldMax(..) => &[],
            Function::Count(fields)
            | Function::CountEmpty(fields)
            | Function::CountUniq(fields, _)
            | Function::CountUniqHash(fields, _)
            | Function::Sum(fields)
            | Function::SumLen(fields)
            | Function::Avg(fields)
            | Function::Stddev(fields)
            | Function::Min(fields)
            | Function::Max(fields)
            | Function::Quantile(_, fields)
            | Function::Median(fields)
            | Function::Histogram(fields)
            | Function::RateSum(fields)
            | Function::Any(fields)
            | Function::Values(fields, _)
            | Function::UniqValues(fields, _)
            | Function::RowAny(fields)
            | Function::RowMin(_, fields)
            | Function::RowMax(_, fields)
            | Function::JsonValues { fields, .. } => fields,
        }
    }

    /// Fields beside those of [`Function::fields`].
    fn named_fields(&self) -> impl Iterator<Item = &String> {
        let (one, other, keys) = match self {
            Function::RowMin(by, _) | Function::RowMax(by, _) => (Some(by), None, &[][..]),
            Function::FieldMin(by, field) | Function::FieldMax(by, field) => {
                (Some(by), Some(field), &[][..])
            }
            Function::JsonValues { keys, .. } => (None, None, keys.as_slice()),
            _ => (None, None, &[][..]),
        };
        one.into_iter().chain(other).chain(keys.iter().map(|key| &key.name))
    }

    /// Whether it gives rows: with all fields when it names none.
    fn takes_rows(&self) -> bool {
        let row = matches!(self, Function::RowAny(_) | Function::RowMin(..) | Function::RowMax(..));
        row || matches!(self, Function::JsonValues { .. })
    }

    fn limit(&self) -> Option<u64> {
        match self {
            Function::CountUniq(_, limit)
            | Function::CountUniqHash(_, limit)
            | Function::Values(_, limit)
            | Function::UniqValues(_, limit)
            | Function::JsonValues { limit, .. } => *limit,
            _ => None,
        }
    }

    /// What runs it.
    fn states(&self) -> Box<dyn States> {
        let limit = self.limit().unwrap_or(u64::MAX);
        let once = once(self.fields());
        // A field that is named twice is looked at twice only where that changes the value.
        let fields = if self.takes_fields_as_often() { self.fields() } else { &once };
        let row = |by: &str, better, kept| {
            let (by, text) = (by.to_owned(), Buffer::default());
            PerGroup::boxed(row_min_max::RowMinMax { better, by, kept, text }, &[])
        };
        match self {
            Function::Count(fields) if fields.is_empty() => PerGroup::boxed(count::COUNT, &[]),
            Function::Count(_) => PerGroup::boxed(count::Count { empty: false }, fields),
            Function::CountEmpty(_) => PerGroup::boxed(count::Count { empty: true }, fields),
            Function::CountUniq(..) => {
                PerGroup::boxed(count_uniq::CountUniq { limit, key: Buffer::default() }, fields)
            }
            Function::CountUniqHash(..) => {
                let key = Buffer::default();
                PerGroup::boxed(count_uniq_hash::CountUniqHash { limit, key }, fields)
            }
            Function::Sum(_) => PerGroup::boxed(sum::SUM, fields),
            Function::SumLen(_) => PerGroup::boxed(sum_len::SumLen, fields),
            Function::Avg(_) => PerGroup::boxed(sum::AVG, fields),
            Function::Stddev(_) => PerGroup::boxed(stddev::Stddev, fields),
            Function::Min(_) => PerGroup::boxed(min_max::MIN, fields),
            Function::Max(_) => PerGroup::boxed(min_max::MAX, fields),
            Function::Quantile(share, _) => {
                PerGroup::boxed(quantile::Quantile { share: *share }, fields)
            }
            Function::Median(_) => PerGroup::boxed(quantile::Quantile { share: 0.5 }, fields),
            Function::Histogram(_) => PerGroup::boxed(histogram::Histogram, fields),
            Function::Rate => PerGroup::boxed(count::RATE, &[]),
            Function::RateSum(_) => PerGroup::boxed(sum::RATE_SUM, fields),
            Function::Any(_) => PerGroup::boxed(any::Any, fields),
            Function::Values(..) => {
                PerGroup::boxed(values::Values { limit, text: Buffer::default() }, fields)
            }
            Function::UniqValues(..) => PerGroup::boxed(uniq_values::UniqValues { limit }, fields),
            Function::RowAny(_) => {
                let text = Buffer::default();
                PerGroup::boxed(row_any::RowAny { fields: fields.to_vec(), text }, &[])
            }
            Function::RowMin(by, _) => row(by, min_max::MIN.better, Kept::Row(fields.to_vec())),
            Function::RowMax(by, _) => row(by, min_max::MAX.better, Kept::Row(fields.to_vec())),
            Function::FieldMin(by, field) => {
                row(by, min_max::MIN.better, Kept::Field(field.clone()))
            }
            Function::FieldMax(by, field) => {
                row(by, min_max::MAX.better, Kept::Field(field.clone()))
            }
            Function::JsonValues { keys, .. } => {
                let (fields, keys, text) = (fields.to_vec(), sort::once(keys), Buffer::default());
                PerGroup::boxed(json_values::JsonValues { fields, keys, limit, text }, &[])
            }
        }
    }

    /// Whether a field that is named twice counts twice.
    fn takes_fields_as_often(&self) -> bool {
        matches!(
            self,
            Function::Sum(_)
                | Function::SumLen(_)
                | Function::Avg(_)
                | Function::Stddev(_)
                | Function::Quantile(..)
                | Function::Median(_)
                | Function::RateSum(_)
                | Function::Values(..)
        )
    }
}

/// The patterns, each once.
fn once(fields: &[NamePattern]) -> Vec<NamePattern> {
    let mut once: Vec<NamePattern> = Vec::with_capacity(fields.len());
    for field in fields {
        if !once.contains(field) {
            once.push(field.clone());
        }
    }
    once
}

impl Stats {
    /// The fields that it looks at.
    pub(super) fn needed_fields(&self) -> FieldSet {
        let mut needed = FieldSet::none();
        self.by.iter().for_each(|by| needed.add(&by.name));
        for StatsFunction { function, filter, .. } in &self.functions {
            function.fields().iter().for_each(|field| needed.add_pattern(field));
            needed.add_all(function.named_fields());
            if function.takes_rows() && function.fields().is_empty() {
                needed.add_pattern(&NamePattern::ANY);
            }
            filter.iter().for_each(|filter| needed.add_filter(filter));
        }
        needed
    }
}

/// Reads what stands behind `stats`.
pub(super) fn parse(cursor: &mut Cursor<'_>) -> Result<Stats, ParseError> {
    if cursor.eat_keyword("by") || cursor.peek() == Some('(') {
        return parse_grouped(cursor);
    }
    parse_functions(cursor, Vec::new())
}

/// Reads `(by, …) functions`.
pub(super) fn parse_grouped(cursor: &mut Cursor<'_>) -> Result<Stats, ParseError> {
    cursor.expect('(', "the fields to group by")?;
    let mut by = Vec::new();
    while !cursor.eat(')') {
        let written = cursor.expect_string(false, "a field name")?;
        let name = written.text;
        if by.iter().any(|by: &By| by.name == name) {
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

/// Reads the functions.
pub(super) fn parse_functions(cursor: &mut Cursor<'_>, by: Vec<By>) -> Result<Stats, ParseError> {
    let mut functions: Vec<StatsFunction> = Vec::new();
    loop {
        let position = cursor.position();
        let function = parse_function(cursor)?;
        if functions.iter().any(|f| f.name == function.name)
            || by.iter().any(|b| b.name == function.name)
        {
            let message = format!("the name \"{}\" is used twice", function.name);
            return Err(cursor.error_at(position, &["a name with \"as\""], message));
        }
        functions.push(function);
        if !cursor.eat(',') {
            return Ok(Stats { by, functions });
        }
    }
}

fn parse_function(cursor: &mut Cursor<'_>) -> Result<StatsFunction, ParseError> {
    let position = cursor.position();
    let word = cursor.peek_word(false);
    let name = word.to_ascii_lowercase();
    if !Function::names().contains(&name.as_str()) {
        let message = match cursor.found() {
            None => "the query ends where a stats function should be".to_owned(),
            Some(found) => format!("there is no stats function {found}"),
        };
        return Err(cursor.error_at(position, Function::names(), message));
    }
    cursor.eat_keyword(word);
    let function = parse_arguments(cursor, &name, position)?;
    let mut filter = None;
    if cursor.eat_keyword("if") {
        cursor.expect('(', "if (…)")?;
        filter = Some(cursor.nested(parse_filter)?);
        cursor.expect(')', "if (…)")?;
    }
    let named = cursor.eat_keyword("as");
    let word_follows =
        matches!(cursor.peek(), Some('"' | '\'' | '`')) || !cursor.peek_word(false).is_empty();
    let name = if named || word_follows {
        cursor.expect_string(false, "a name for the result")?.text
    } else {
        let condition = filter.as_ref().map_or(String::new(), |filter| format!(" if ({filter})"));
        format!("{function}{condition}")
    };
    Ok(StatsFunction { function, filter, name })
}

/// Reads what stands behind the name of a function, up to its condition.
fn parse_arguments(
    cursor: &mut Cursor<'_>,
    name: &str,
    position: usize,
) -> Result<Function, ParseError> {
    cursor.expect('(', name)?;
    let share = if name == "quantile" { Some(parse_share(cursor)?) } else { None };
    let mut by = None;
    if matches!(name, "row_min" | "row_max" | "field_min" | "field_max") {
        by = Some(cursor.expect_string(false, "the field whose values are compared")?.text);
        if !cursor.eat(',') && name.starts_with("field") {
            return Err(cursor.error(&["\",\""], format!("{name}(field, other) needs two fields")));
        }
    }
    let mut fields = parse_fields(cursor, name)?;
    let wrong = |message: String| Err(cursor.error_at(position, &["a field name"], message));
    let optional =
        matches!(name, "count" | "rate" | "row_any" | "row_min" | "row_max" | "json_values");
    let one = matches!(name, "histogram" | "field_min" | "field_max");
    if fields.is_empty() && one {
        return wrong(format!("{name}() needs a field"));
    }
    if fields.is_empty() && !optional {
        fields.push(NamePattern::ANY);
    }
    if one && (fields.len() > 1 || fields[0].prefix) {
        return wrong(format!("{name}() takes one name here"));
    }
    if name == "rate" && !fields.is_empty() {
        return wrong("rate() takes no field; rate_sum(…) does".to_owned());
    }
    let mut keys = Vec::new();
    if name == "json_values" && cursor.eat_keyword("sort") {
        cursor.eat_keyword("by");
        keys = json_values::parse_keys(cursor)?;
    }
    let limited =
        matches!(name, "count_uniq" | "count_uniq_hash" | "values" | "uniq_values" | "json_values");
    let limit = match limited && cursor.eat_keyword("limit") {
        true => Some(super::limit::parse_count(cursor, None)?).filter(|&limit| limit > 0),
        false => None,
    };
    let by = by.unwrap_or_default();
    let field = |fields: Vec<NamePattern>| fields.into_iter().next().expect("there is one").name;
    Ok(match name {
        "count" => Function::Count(fields),
        "count_empty" => Function::CountEmpty(fields),
        "count_uniq" => Function::CountUniq(fields, limit),
        "count_uniq_hash" => Function::CountUniqHash(fields, limit),
        "sum" => Function::Sum(fields),
        "sum_len" => Function::SumLen(fields),
        "avg" => Function::Avg(fields),
        "stddev" => Function::Stddev(fields),
        "min" => Function::Min(fields),
        "max" => Function::Max(fields),
        "quantile" => Function::Quantile(share.expect("it was read"), fields),
        "median" => Function::Median(fields),
        "histogram" => Function::Histogram(fields),
        "rate" => Function::Rate,
        "rate_sum" => Function::RateSum(fields),
        "any" => Function::Any(fields),
        "values" => Function::Values(fields, limit),
        "uniq_values" => Function::UniqValues(fields, limit),
        "row_any" => Function::RowAny(fields),
        "row_min" => Function::RowMin(by, fields),
        "row_max" => Function::RowMax(by, fields),
        "field_min" => Function::FieldMin(by, field(fields)),
        "field_max" => Function::FieldMax(by, field(fields)),
        "json_values" => Function::JsonValues { fields, keys, limit },
        _ => unreachable!("it is one of the names"),
    })
}

/// Reads the share of `quantile(share, …)`, and its comma.
fn parse_share(cursor: &mut Cursor<'_>) -> Result<f64, ParseError> {
    let what = "a number from 0 to 1";
    let written = cursor.expect_string(false, what)?;
    let share = parse_number(written.text.as_bytes())
        .filter(|share| (0.0..=1.0).contains(share))
        .ok_or_else(|| cursor.error_at(written.position, &[what], "not a share"))?;
    cursor.expect(',', "quantile(share, field)")?;
    Ok(share)
}

/// Reads `a, "b", foo*)`. `count(*)` is the same as `count()`; elsewhere `*` stands for all fields.
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
    let all = |field: &NamePattern| field.prefix && field.name.is_empty();
    if matches!(function, "count" | "rate" | "row_any" | "json_values") && fields.iter().any(all) {
        fields.clear();
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

impl fmt::Display for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut arguments: Vec<String> = self.fields().iter().map(write_field).collect();
        match self {
            Function::Count(fields) if fields.is_empty() => arguments.push("*".to_owned()),
            Function::Quantile(share, _) => arguments.insert(0, share.to_string()),
            Function::RowMin(by, _) | Function::RowMax(by, _) => {
                arguments.insert(0, quote_name(by))
            }
            Function::FieldMin(by, field) | Function::FieldMax(by, field) => {
                arguments = vec![quote_name(by), quote_name(field)];
            }
            _ => {}
        }
        write!(f, "{}({})", self.name(), arguments.join(", "))?;
        if let Function::JsonValues { keys, .. } = self
            && !keys.is_empty()
        {
            let key = |key: &SortKey| {
                format!("{}{}", quote_name(&key.name), if key.descending { " desc" } else { "" })
            };
            write!(f, " sort by ({})", keys.iter().map(key).collect::<Vec<_>>().join(", "))?;
        }
        self.limit().map_or(Ok(()), |limit| write!(f, " limit {limit}"))
    }
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
