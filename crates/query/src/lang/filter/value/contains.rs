//! `contains_all(foo, "bar baz")`: the value contains all of these words and phrases;
//! `contains_any(…)`: at least one of them.
//!
//! Both are shorthands: they are parsed into phrases joined by AND or OR, and printed as these.
//! With a `*` in the list they pass everything. Every value contains the empty text, so
//! `contains_all` leaves it out, as VictoriaLogs does.

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
    let values: Vec<String> =
        values.into_iter().filter(|value| !all || !value.is_empty()).collect();
    if values.is_empty() && !all {
        return Ok(field.filter(Test::In(values)));
    }
    cursor.take_name(&field.name, values.len())?;
    cursor.shorthand(|_| {
        let phrases = values.into_iter().map(|v| field.filter(Test::Phrase(v))).collect();
        Ok(if all { Filter::and(phrases) } else { Filter::or(phrases) })
    })
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
        check_fields("x:contains_all(b, a)", &[("x", "a b")], true);
    }
}
