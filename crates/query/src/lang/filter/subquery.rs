//! `user:in(path:admin | fields user)`, `contains_any(…)`, `contains_all(…)`: tests against the
//! values that another query returns.
//!
//! The inner query runs before the outer one, within the same limits, and ends with one field: with
//! `fields a`, `uniq by (a)`, `field_values a` or a `stats` with one result; pipes that sort or
//! select rows may follow. Its distinct values replace it in the filter ([`Subquery::filled`]), so
//! that filters run over lists only. Values that are not UTF-8 are left out, as no list could name
//! them.

use std::collections::BTreeSet;
use std::fmt;

use super::value::contained;
use super::{Filter, Test};
use crate::base::names::{MSG, NamePattern};
use crate::lang::pipe::Names;
use crate::lang::syntax::cursor::Cursor;
use crate::lang::syntax::error::ParseError;
use crate::lang::syntax::query::{Query, parse_inner};

/// A test of a field against the values of a query.
#[derive(Clone, Debug, PartialEq)]
pub struct Subquery {
    /// The field that is tested, or the fields of which at least one must pass.
    pub field: NamePattern,
    /// How its value is compared with those of the query.
    pub test: SubqueryTest,
    /// The query that returns the values.
    pub query: Query,
}

/// How a value must relate to the values of the query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubqueryTest {
    /// It is one of them.
    In,
    /// It contains one of them as a phrase.
    ContainsAny,
    /// It contains all of them as phrases.
    ContainsAll,
}

impl SubqueryTest {
    fn name(self) -> &'static str {
        match self {
            SubqueryTest::In => "in",
            SubqueryTest::ContainsAny => "contains_any",
            SubqueryTest::ContainsAll => "contains_all",
        }
    }
}

/// Parses `(query)` behind the name of the function.
pub(super) fn parse(
    cursor: &mut Cursor<'_>,
    field: &NamePattern,
    function: &str,
) -> Result<Filter, ParseError> {
    let test = match function {
        "contains_any" => SubqueryTest::ContainsAny,
        "contains_all" => SubqueryTest::ContainsAll,
        _ => SubqueryTest::In,
    };
    let position = cursor.position();
    let query = parse_inner(cursor, &format!("{function}(…)"))?;
    if value_field(&query).is_none() {
        let message = format!("the query inside {function}(…) does not end with one field");
        return Err(cursor.error_at(
            position,
            &["a query that ends with one field: … | fields a"],
            message,
        ));
    }
    Ok(Filter::Subquery(Box::new(Subquery { field: field.clone(), test, query })))
}

/// The field whose values a query returns; none if it returns more than one field.
fn value_field(query: &Query) -> Option<String> {
    for pipe in query.pipes().iter().rev() {
        match pipe.value_field() {
            Names::Same => {}
            Names::Are(mut names) if names.len() == 1 => return names.pop(),
            Names::Are(_) | Names::Unknown => return None,
        }
    }
    None
}

impl fmt::Display for Subquery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.field != NamePattern::exact(MSG) {
            write!(f, "{}:", self.field.shown())?;
        }
        write!(f, "{}({})", self.test.name(), self.query)
    }
}

impl Subquery {
    /// The field that has the values in the rows of the query.
    pub(crate) fn value_field(&self) -> String {
        value_field(&self.query).expect("checked when it was read")
    }

    /// The filter with the values in place of the query.
    pub(crate) fn filled(&self, values: BTreeSet<String>) -> Filter {
        match self.test {
            SubqueryTest::ContainsAll => contained(&self.field, values, true),
            SubqueryTest::ContainsAny => contained(&self.field, values, false),
            SubqueryTest::In => self.field.filter(Test::In(values.into_iter().collect())),
        }
    }
}
