//! Filters: which rows a query selects. The tree, how it is written, and (in the parts) how it is
//! read and run.
//!
//! Stream selectors `{a="b"}`, `contains_all()` and `contains_any()` are shorthands: they are read
//! as filters on fields and written back so. Writing a filter and reading it again gives the same
//! tree.

mod automaton;
mod columns;
mod day_range;
mod fields;
mod lines;
mod parse;
mod select;
mod stream;
mod subquery;
#[cfg(test)]
mod tests;
mod time;
mod value;
mod week_range;
mod word;

use std::fmt;

use record::batch::OWN_TYPE;

pub(crate) use columns::{ColumnSelector, Fields, Pulse};
pub use day_range::DayRange;
pub use fields::FieldComparison;
pub(crate) use parse::parse_filter;
pub(crate) use select::Selector;
pub use subquery::{Subquery, SubqueryTest};
pub(crate) use time::parse_duration_argument;
pub use value::{Comparison, Number, Pattern, PatternPlace, Test, ValueKind, network};
pub use week_range::WeekRange;
pub(crate) use word::word_before;

use crate::block::NamePattern;
use crate::source::{TimeRange, Whose};
use crate::syntax::cursor::{quote, quote_name};

/// The field that a filter without field name looks at.
pub const MSG: &str = "_msg";

/// Which rows are selected.
#[derive(Clone, Debug, PartialEq)]
pub enum Filter {
    /// Every row.
    All,
    /// Rows that all of these select; two or more, none of them an `And`.
    And(Vec<Filter>),
    /// Rows that any of these selects; two or more, none of them an `Or`.
    Or(Vec<Filter>),
    /// Rows that this does not select.
    Not(Box<Filter>),
    /// Rows with an event time in the range.
    Time(TimeRange),
    /// Rows with an event time in a part of every day or week.
    Recurring(Recurring),
    /// Rows in which the values of two fields compare like this. A field that is not there counts
    /// as empty.
    Fields {
        /// Name of the field, stored or virtual.
        left: String,
        /// How its value compares.
        comparison: FieldComparison,
        /// Name of the other field.
        right: String,
    },
    /// Rows whose field passes a test. A field that is not there counts as empty.
    Field {
        /// Name of the field, stored or virtual.
        name: String,
        /// What its value must be like.
        test: Test,
    },
    /// Rows in which any stored field whose name begins so has a value that passes a test. Empty
    /// values are none.
    AnyField {
        /// How the names begin; empty for all.
        beginning: String,
        /// What a value must be like.
        test: Test,
    },
    /// Rows whose field has to do with the values that another query gives.
    Subquery(Box<Subquery>),
}

/// A part of time that comes again and again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recurring {
    /// Of every day.
    Day(DayRange),
    /// Of every week.
    Week(WeekRange),
}

impl Recurring {
    /// Whether an instant, in nanoseconds since 1970 UTC, is inside.
    #[inline]
    pub fn contains(&self, time_ns: i64) -> bool {
        match self {
            Recurring::Day(range) => range.contains(time_ns),
            Recurring::Week(range) => range.contains(time_ns),
        }
    }
}

impl Filter {
    /// Whose lines a query with this filter looks at. Loginson's own are seen where a test of the
    /// filter that is not negated names their type as a word, a value or one of several:
    /// `_type:summary`, `_type:=summary`, `_type:in(summary, json)`, `{_type="summary"}`. A query
    /// inside a filter says for itself which it looks at.
    pub fn whose(&self) -> Whose {
        if self.names_own() { Whose::All } else { Whose::Sent }
    }

    fn names_own(&self) -> bool {
        match self {
            Filter::And(filters) | Filter::Or(filters) => filters.iter().any(Filter::names_own),
            Filter::Field { name, test } if name == "_type" => match test {
                Test::Phrase(value) | Test::Exact(value) => value == OWN_TYPE,
                Test::In(values) => values.iter().any(|value| value == OWN_TYPE),
                _ => false,
            },
            _ => false,
        }
    }

    /// Rows that all of `filters` select; flat.
    pub fn and(filters: Vec<Filter>) -> Filter {
        let mut flat = Vec::with_capacity(filters.len());
        for filter in filters {
            match filter {
                Filter::And(inner) => flat.extend(inner),
                other => flat.push(other),
            }
        }
        if flat.len() == 1 {
            flat.remove(0)
        } else if flat.is_empty() {
            Filter::All
        } else {
            Filter::And(flat)
        }
    }

    /// Rows that any of `filters`, at least one, selects; flat.
    pub fn or(filters: Vec<Filter>) -> Filter {
        assert!(!filters.is_empty(), "an OR has alternatives");
        let mut flat = Vec::with_capacity(filters.len());
        for filter in filters {
            match filter {
                Filter::Or(inner) => flat.extend(inner),
                other => flat.push(other),
            }
        }
        if flat.len() == 1 { flat.remove(0) } else { Filter::Or(flat) }
    }

    /// Rows whose field `name` passes `test`.
    pub fn field(name: &str, test: Test) -> Filter {
        Filter::Field { name: name.to_owned(), test }
    }

    /// The times outside which this selects nothing, as far as the tree says so.
    pub fn time_range(&self) -> TimeRange {
        match self {
            Filter::Time(range) => *range,
            Filter::And(filters) => filters
                .iter()
                .fold(TimeRange::ALL, |range, filter| range.intersect(filter.time_range())),
            Filter::Or(filters) => {
                let mut ranges = filters.iter().map(Filter::time_range);
                let first = ranges.next().unwrap_or(TimeRange::ALL);
                ranges.fold(first, |a, b| TimeRange {
                    start_ns: a.start_ns.min(b.start_ns),
                    end_ns: a.end_ns.max(b.end_ns),
                })
            }
            _ => TimeRange::ALL,
        }
    }
}

impl NamePattern {
    /// Rows in which the field, or any of the fields, passes a test.
    fn filter(&self, test: Test) -> Filter {
        let name = self.name.clone();
        match self.prefix {
            true => Filter::AnyField { beginning: name, test },
            false => Filter::Field { name, test },
        }
    }

    /// As it is written before a `:`.
    fn shown(&self) -> String {
        if self.prefix { quote_pattern(&self.name) } else { quote_name(&self.name) }
    }
}

fn quote_pattern(beginning: &str) -> String {
    if beginning.is_empty() { "*".to_owned() } else { format!("{}*", quote_name(beginning)) }
}

impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Filter::All => f.write_str("*"),
            Filter::And(filters) => {
                for (i, filter) in filters.iter().enumerate() {
                    f.write_str(if i > 0 { " " } else { "" })?;
                    match filter {
                        Filter::Or(_) => write!(f, "({filter})")?,
                        _ => write!(f, "{filter}")?,
                    }
                }
                Ok(())
            }
            Filter::Or(filters) => {
                for (i, filter) in filters.iter().enumerate() {
                    write!(f, "{}{filter}", if i > 0 { " or " } else { "" })?;
                }
                Ok(())
            }
            Filter::Not(filter) => match &**filter {
                Filter::And(_) | Filter::Or(_) => write!(f, "!({filter})"),
                _ => write!(f, "!{filter}"),
            },
            Filter::Time(range) => time::write(*range, f),
            Filter::Recurring(Recurring::Day(range)) => write!(f, "{range}"),
            Filter::Recurring(Recurring::Week(range)) => write!(f, "{range}"),
            Filter::Fields { left, comparison, right } => {
                write!(f, "{}:{}({})", quote_name(left), comparison.function(), quote(right))
            }
            Filter::Field { name, test } => {
                let star_for_any = matches!(test, Test::Prefix(prefix) if prefix.is_empty());
                if name != MSG || star_for_any {
                    write!(f, "{}:", quote_name(name))?;
                }
                write!(f, "{test}")
            }
            Filter::AnyField { beginning, test } => {
                write!(f, "{}:{test}", quote_pattern(beginning))
            }
            Filter::Subquery(subquery) => write!(f, "{subquery}"),
        }
    }
}
