//! `contains_all(foo, "bar baz")`: the value contains all of these words and phrases;
//! `contains_any(…)`: at least one of them.
//!
//! Both are shorthands: they are parsed into phrases joined by AND or OR, and printed as these.
//! With a `*` in the list they pass everything. Every value contains the empty text, as in
//! VictoriaLogs: `contains_all` leaves it out, and `contains_any` with it passes everything.

use super::{ListedValues, Test, parse_values_or_query};
use crate::base::names::NamePattern;
use crate::lang::filter::Filter;
use crate::lang::syntax::cursor::Cursor;
use crate::lang::syntax::error::ParseError;

pub(in crate::lang::filter) fn parse(
    cursor: &mut Cursor<'_>,
    field: &NamePattern,
    function: &str,
) -> Result<Filter, ParseError> {
    let values = match parse_values_or_query(cursor, field, function)? {
        ListedValues::Any => return Ok(Filter::All),
        ListedValues::Query(filter) => return Ok(filter),
        ListedValues::Values(values) => values,
    };
    let all = function == "contains_all";
    cursor.take_name(&field.name, values.len())?;
    cursor.shorthand(|_| Ok(contained(field, values, all)))
}

/// The filter for `contains_all`, or else for `contains_any`, with these values.
pub(in crate::lang::filter) fn contained(
    field: &NamePattern,
    values: impl IntoIterator<Item = String>,
    all: bool,
) -> Filter {
    let (empty, texts): (Vec<String>, Vec<String>) =
        values.into_iter().partition(|value| value.is_empty());
    let phrases = texts.into_iter().map(|value| field.filter(Test::Phrase(value))).collect();
    match (all, empty.is_empty()) {
        (true, _) => Filter::and(phrases),
        (false, false) => Filter::All,
        (false, true) if phrases.is_empty() => field.filter(Test::In(Vec::new())),
        (false, true) => Filter::or(phrases),
    }
}

#[cfg(test)]
mod tests {
    use crate::lang::filter::tests::{check, check_fields};

    #[test]
    fn several_words() {
        check("contains_all(foo, \"bar baz\")", &["bar baz foo"], &["foo bar", "bar baz"]);
        check("contains_any(foo, \"bar baz\")", &["foo bar", "bar baz"], &["bar"]);
        check("contains_any()", &[], &["a"]);
        check("contains_all()", &["a"], &[]);
        check("contains_all(\"\", a)", &["a", "b a"], &["b", ""]);
        check("contains_all(\"\")", &["a"], &[]);
        check("contains_any(\"\")", &["a"], &[]);
        check("contains_any(b, \"\")", &["a"], &[]);
        check_fields("x:contains_all(b, a)", &[("x", "a b")], true);
    }
}
