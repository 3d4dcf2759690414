//! Filters: which rows a query selects. This file has the filter tree and its text form; the
//! submodules parse and run it.
//!
//! Stream selectors `{a="b"}`, `contains_all()` and `contains_any()` are shorthands: they are
//! parsed into filters on fields and printed as these. Printing a filter and parsing the text again
//! gives the same tree.

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

use record::Tenant;
use record::batch::{AUDIT_TYPE, OWN_TYPES, TENANT};

pub(crate) use columns::{ColumnSelector, Fields};
pub use day_range::DayRange;
pub use fields::FieldComparison;
pub(crate) use parse::parse_filter;
pub(crate) use select::Selector;
pub use subquery::{Subquery, SubqueryTest};
pub(crate) use time::parse_duration_argument;
pub use value::{Comparison, Number, Pattern, PatternPlace, Test, ValueKind, network};
pub use week_range::WeekRange;
pub(crate) use word::word_before;

use text::quoted::quote;

use crate::base::names::{MSG, NamePattern, TIME, is_stored};
use crate::base::{FieldSet, TimeRange, Whose};
use crate::lang::syntax::cursor::quote_name;

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
    /// Rows in which a comparison of the values of two fields holds. A missing field counts as
    /// empty.
    Fields {
        /// Name of the field, stored or virtual.
        left: String,
        /// The comparison that must hold.
        comparison: FieldComparison,
        /// Name of the other field.
        right: String,
    },
    /// Rows whose field passes a test. A missing field counts as empty.
    Field {
        /// Name of the field, stored or virtual.
        name: String,
        /// The test that its value must pass.
        test: Test,
    },
    /// Rows in which any stored field whose name begins with `beginning` has a value that passes a
    /// test. Empty values do not count as values.
    AnyField {
        /// Prefix of the names; empty for all fields.
        beginning: String,
        /// The test that a value must pass.
        test: Test,
    },
    /// Rows whose field is tested against the values that another query returns.
    Subquery(Box<Subquery>),
}

/// A recurring range of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recurring {
    /// A range of every day.
    Day(DayRange),
    /// A range of every week.
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
    /// Whose lines a query with this filter reads. Loginson's own lines are included if a test of
    /// the filter that is not negated names one of their types as a word, a value or one of several
    /// values: `_type:summary`, `_type:=alert`, `_type:in(summary, json)`, `{_type="summary"}`. A
    /// query inside a filter decides this for itself.
    pub fn whose(&self) -> Whose {
        if self.names(&OWN_TYPES) { Whose::All } else { Whose::Sent }
    }

    /// Selects all lines but those of the audit log.
    pub fn without_audit() -> Filter {
        let test = Test::Exact(AUDIT_TYPE.to_owned());
        Filter::Not(Box::new(Filter::Field { name: "_type".into(), test }))
    }

    /// Selects all lines but Loginson's own.
    pub fn without_own() -> Filter {
        let test = Test::In(OWN_TYPES.map(str::to_owned).to_vec());
        Filter::Not(Box::new(Filter::Field { name: "_type".into(), test }))
    }

    /// Selects all lines but Loginson's own whose type this filter does not name, as
    /// [`Filter::whose`] tells it.
    pub fn without_unnamed_own(&self) -> Filter {
        let unnamed = OWN_TYPES.into_iter().filter(|own| !self.names(&[*own]));
        let unnamed: Vec<String> = unnamed.map(str::to_owned).collect();
        if unnamed.is_empty() {
            return Filter::All;
        }
        Filter::Not(Box::new(Filter::Field { name: "_type".into(), test: Test::In(unnamed) }))
    }

    /// Whether the filter leaves out lines of Loginson's own types, and no others.
    pub(crate) fn excludes_own(&self) -> bool {
        let is_own = |value: &String| OWN_TYPES.contains(&value.as_str());
        match self {
            Filter::Not(inner) => match &**inner {
                Filter::Field { name, test } if name == "_type" => match test {
                    Test::Exact(value) => is_own(value),
                    Test::In(values) => values.iter().all(is_own),
                    _ => false,
                },
                _ => false,
            },
            _ => false,
        }
    }

    /// Whether the filter names the type of rows of programs, as [`Filter::whose`] tells it.
    pub(crate) fn names_summary(&self) -> bool {
        self.names(&OWN_TYPES[..1])
    }

    /// Selects the lines of these tenants; no lines for none.
    pub fn of_tenants(tenants: &[Tenant]) -> Filter {
        let mut values: Vec<String> = tenants.iter().map(|tenant| tenant.field_value()).collect();
        let test = match values.len() {
            1 => Test::Exact(values.remove(0)),
            _ => Test::In(values),
        };
        Filter::field(TENANT, test)
    }

    /// The only tenants whose lines it selects, as far as it names them; none where it may select
    /// lines of any.
    pub fn tenants(&self) -> Option<Vec<Tenant>> {
        let of_value = |value: &String| match value.as_str() {
            "" => Some(Tenant::DEFAULT),
            value => value.parse().ok(),
        };
        match self {
            Filter::And(filters) => filters.iter().find_map(Filter::tenants),
            Filter::Field { name, test } if name == TENANT => match test {
                Test::Exact(value) => Some(of_value(value).into_iter().collect()),
                Test::In(values) => Some(values.iter().filter_map(of_value).collect()),
                _ => None,
            },
            _ => None,
        }
    }

    fn names(&self, types: &[&str]) -> bool {
        match self {
            Filter::And(filters) | Filter::Or(filters) => {
                filters.iter().any(|filter| filter.names(types))
            }
            Filter::Field { name, test } if name == "_type" => match test {
                Test::Phrase(value) | Test::Exact(value) => types.contains(&value.as_str()),
                Test::In(values) => values.iter().any(|value| types.contains(&value.as_str())),
                _ => false,
            },
            _ => false,
        }
    }

    /// Rows that all of `filters` select; nested `And`s are flattened.
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

    /// Rows that any of `filters` selects; nested `Or`s are flattened. `filters` must not be empty.
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

    /// The range of times outside of which this filter selects nothing, as far as it can be derived
    /// from the tree.
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

impl Filter {
    /// Adds the fields that the filter tests.
    pub(crate) fn add_fields(&self, to: &mut FieldSet) {
        match self {
            Filter::All => {}
            Filter::And(filters) | Filter::Or(filters) => {
                filters.iter().for_each(|filter| filter.add_fields(to));
            }
            Filter::Not(filter) => filter.add_fields(to),
            Filter::Time(_) | Filter::Recurring(_) => to.add(TIME),
            Filter::Fields { left, right, .. } => {
                to.add(left);
                to.add(right);
            }
            Filter::Field { name, .. } => to.add(name),
            Filter::AnyField { beginning, .. } => {
                to.add_pattern(&NamePattern { name: beginning.clone(), prefix: true });
            }
            Filter::Subquery(subquery) => to.add_pattern(&subquery.field),
        }
    }
}

/// The tests of stored fields in a filter, in the order of its text.
pub(crate) fn tests_of(filter: &Filter) -> Vec<&Test> {
    let test = |leaf| match leaf {
        &Filter::Field { ref test, .. } | &Filter::AnyField { ref test, .. } => Some(test),
        _ => None,
    };
    leaves_of(filter).into_iter().filter_map(test).collect()
}

/// The filters that hold the [tests](tests_of), with the names of their fields.
pub(crate) fn leaves_of(filter: &Filter) -> Vec<&Filter> {
    match filter {
        Filter::And(filters) | Filter::Or(filters) => filters.iter().flat_map(leaves_of).collect(),
        Filter::Not(filter) => leaves_of(filter),
        Filter::Field { name, .. } if is_stored(name) => vec![filter],
        Filter::AnyField { .. } => vec![filter],
        _ => Vec::new(),
    }
}

/// Adds the fields that a filter tests; none when it tests the time.
pub(crate) fn fields_of<'f>(filter: &'f Filter, out: &mut Vec<&'f str>) -> Option<()> {
    match filter {
        Filter::All => Some(()),
        Filter::And(filters) | Filter::Or(filters) => {
            filters.iter().try_for_each(|f| fields_of(f, out))
        }
        Filter::Not(filter) => fields_of(filter, out),
        Filter::Time(_) | Filter::Recurring(_) => None,
        Filter::AnyField { .. } | Filter::Subquery(_) => None,
        Filter::Fields { left, right, .. } => {
            out.extend([left.as_str(), right.as_str()]);
            Some(())
        }
        Filter::Field { name, .. } => {
            out.push(name);
            Some(())
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

    /// The text form of the pattern before a `:`.
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
