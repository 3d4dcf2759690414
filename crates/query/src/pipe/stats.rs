//! `stats [by (_time:5m, level, size:1KB)] count() [if (filter)] [as name], …`: numbers about groups of rows.
//!
//! The word `stats` may be left out. Without `by` there is one group, also when no row came.

mod bucket;
mod groups;
mod states;

use std::fmt;

use super::{parse_names, write_names};
use crate::cursor::{Cursor, quote_name};
use crate::error::ParseError;
use crate::fields::FieldSet;
use crate::filter::{Filter, parse_filter};
use crate::number::parse_number;

pub use bucket::Bucket;
pub(crate) use bucket::time_bucket;
pub(super) use groups::Grouping;

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

/// What can be computed of a group.
#[derive(Clone, Debug, PartialEq)]
pub enum Function {
    /// Rows; with fields, those that have a value in any of them.
    Count(Vec<String>),
    /// Rows that have no value in any of the fields.
    CountEmpty(Vec<String>),
    /// Different tuples of values, without the all empty one; counted up to the limit.
    CountUniq(Vec<String>, Option<u64>),
    /// Sum of the numbers in the fields.
    Sum(Vec<String>),
    /// Average of the numbers in the fields.
    Avg(Vec<String>),
    /// Least value in the fields.
    Min(Vec<String>),
    /// Greatest value in the fields.
    Max(Vec<String>),
    /// The number below which that share of the numbers in the fields is.
    Quantile(f64, Vec<String>),
    /// The quantile of 0.5.
    Median(Vec<String>),
}

impl Function {
    /// The names of all functions.
    pub fn names() -> &'static [&'static str] {
        &["count", "count_empty", "count_uniq", "sum", "avg", "min", "max", "quantile", "median"]
    }

    fn name(&self) -> &'static str {
        match self {
            Function::Count(_) => "count",
            Function::CountEmpty(_) => "count_empty",
            Function::CountUniq(..) => "count_uniq",
            Function::Sum(_) => "sum",
            Function::Avg(_) => "avg",
            Function::Min(_) => "min",
            Function::Max(_) => "max",
            Function::Quantile(..) => "quantile",
            Function::Median(_) => "median",
        }
    }

    fn fields(&self) -> &[String] {
        match self {
            Function::Count(fields)
            | Function::CountEmpty(fields)
            | Function::CountUniq(fields, _)
            | Function::Sum(fields)
            | Function::Avg(fields)
            | Function::Min(fields)
            | Function::Max(fields)
            | Function::Quantile(_, fields)
            | Function::Median(fields) => fields,
        }
    }
}

impl Stats {
    /// The fields that it looks at.
    pub(super) fn needed_fields(&self) -> FieldSet {
        let mut needed = FieldSet::none();
        self.by.iter().for_each(|by| needed.add(&by.name));
        for StatsFunction { function, filter, .. } in &self.functions {
            needed.add_all(function.fields());
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
    let mut share = 0.5;
    let fields = if cursor.peek() != Some('(') {
        cursor.expect('(', &name)?;
        Vec::new()
    } else if name == "quantile" {
        cursor.eat('(');
        let what = "a number from 0 to 1";
        let written = cursor.expect_string(false, what)?;
        share = parse_number(written.text.as_bytes())
            .filter(|share| (0.0..=1.0).contains(share))
            .ok_or_else(|| cursor.error_at(written.position, &[what], "not a share"))?;
        cursor.expect(',', "quantile(share, field)")?;
        let mut fields = vec![cursor.expect_string(false, "a field name")?.text];
        while cursor.eat(',') {
            fields.push(cursor.expect_string(false, "a field name")?.text);
        }
        cursor.expect(')', "quantile(share, field)")?;
        fields
    } else {
        parse_arguments(cursor, &name)?
    };
    if fields.is_empty() && name != "count" {
        return Err(cursor.error_at(
            position,
            &["a field name"],
            format!("{name}() needs a field"),
        ));
    }
    let function = match name.as_str() {
        "count" => Function::Count(fields),
        "count_empty" => Function::CountEmpty(fields),
        "count_uniq" => {
            let limited = cursor.eat_keyword("limit");
            let limit = if limited { Some(super::limit::parse_count(cursor, None)?) } else { None };
            Function::CountUniq(fields, limit.filter(|&limit| limit > 0))
        }
        "sum" => Function::Sum(fields),
        "avg" => Function::Avg(fields),
        "min" => Function::Min(fields),
        "max" => Function::Max(fields),
        "quantile" => Function::Quantile(share, fields),
        _ => Function::Median(fields),
    };
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

/// Reads `(a, b)`; `(*)` stands for no fields.
fn parse_arguments(cursor: &mut Cursor<'_>, name: &str) -> Result<Vec<String>, ParseError> {
    if name == "count" {
        // `count()` and `count(*)` are the same.
        cursor.eat('(');
        if cursor.eat('*') || cursor.peek() == Some(')') {
            cursor.expect(')', "count()")?;
            return Ok(Vec::new());
        }
        let mut fields = vec![cursor.expect_string(false, "a field name")?.text];
        while cursor.eat(',') {
            fields.push(cursor.expect_string(false, "a field name")?.text);
        }
        cursor.expect(')', "count()")?;
        return Ok(fields);
    }
    parse_names(cursor)
}

impl fmt::Display for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fields = write_names(self.fields());
        match self {
            Function::Count(fields) if fields.is_empty() => f.write_str("count(*)"),
            Function::Quantile(share, _) => write!(f, "quantile({share}, {fields})"),
            Function::CountUniq(_, Some(limit)) => write!(f, "count_uniq({fields}) limit {limit}"),
            _ => write!(f, "{}({fields})", self.name()),
        }
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
