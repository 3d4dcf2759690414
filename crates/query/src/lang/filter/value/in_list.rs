//! `level:in(error, "b c")`: the whole value is one of these; `in(*)` passes everything.
//!
//! The values are in a hash table: a long list costs no more than a short one.

use std::collections::HashSet;

use super::{ListedValues, Matches, Needed, Test, parse_values_or_query};
use crate::base::names::NamePattern;
use crate::lang::filter::Filter;
use crate::lang::syntax::cursor::Cursor;
use crate::lang::syntax::error::ParseError;

/// Values up to which a unit is checked for all of them before it is read. A longer list rules out
/// no unit.
const NEEDED_VALUES_MAX: usize = 32;

pub(in crate::lang::filter) fn parse(
    cursor: &mut Cursor<'_>,
    field: &NamePattern,
    function: &str,
) -> Result<Filter, ParseError> {
    Ok(match parse_values_or_query(cursor, field, function)? {
        ListedValues::Any => Filter::All,
        ListedValues::Query(filter) => filter,
        ListedValues::Values(values) => field.filter(Test::In(values)),
    })
}

pub(super) fn needed(values: &[String]) -> Needed {
    if values.len() > NEEDED_VALUES_MAX || values.iter().any(String::is_empty) {
        return Needed::default();
    }
    Needed::any_of(values.iter().map(|value| Needed::one(value, true, true)))
}

pub(in crate::lang::filter) struct Matcher(HashSet<Vec<u8>, foldhash::fast::RandomState>);

impl Matcher {
    pub fn new(values: &[String]) -> Matcher {
        Matcher(values.iter().map(|v| v.clone().into_bytes()).collect())
    }
}

impl Matches for Matcher {
    fn cost(&self) -> u32 {
        3
    }

    #[inline]
    fn matches(&self, value: &[u8]) -> bool {
        self.0.contains(value)
    }
}

#[cfg(test)]
mod tests {
    use crate::lang::filter::tests::{check, check_fields};

    #[test]
    fn lists_of_values() {
        check("in(a, \"b c\")", &["a", "b c"], &["b", "a b"]);
        check("in()", &[], &["a"]);
        let fields = [("log.level", "error")];
        check_fields("log.level:in(\"error\", \"fatal\")", &fields, true);
        check_fields("log.level:in(info, fatal)", &fields, false);
        check_fields("none:in(\"\", a)", &fields, true);
    }
}
