//! `="fatal error"`, `level:=info`, `exact(info)`: the whole value is this.
//!
//! `!=` and `field:!=` are its negation. A missing field counts as empty.

use super::{Matches, Needed, Test};
use crate::base::names::NamePattern;
use crate::lang::filter::Filter;
use crate::lang::syntax::cursor::Cursor;
use crate::lang::syntax::error::ParseError;

/// Parses the text behind `=`.
pub(in crate::lang::filter) fn parse_sign(
    cursor: &mut Cursor<'_>,
    field: &NamePattern,
) -> Result<Filter, ParseError> {
    let value = cursor.expect_string(true, "a value")?.text;
    let prefix = cursor.eat_adjacent('*');
    Ok(field.filter(if prefix { Test::ExactPrefix(value) } else { Test::Exact(value) }))
}

/// Parses `exact(value)` and `exact(prefix*)`.
pub(in crate::lang::filter) fn parse(
    cursor: &mut Cursor<'_>,
    field: &NamePattern,
    _function: &str,
) -> Result<Filter, ParseError> {
    cursor.expect('(', "exact(…)")?;
    let filter = parse_sign(cursor, field)?;
    cursor.expect(')', "exact(…)")?;
    Ok(filter)
}

pub(super) fn needed(text: &str) -> Needed {
    Needed::one(text, true, true)
}

pub(in crate::lang::filter) struct Matcher(pub Vec<u8>);

impl Matches for Matcher {
    fn cost(&self) -> u32 {
        3
    }

    #[inline]
    fn matches(&self, value: &[u8]) -> bool {
        value == self.0
    }
}

#[cfg(test)]
mod tests {
    use crate::lang::filter::tests::{check, check_fields};

    #[test]
    fn whole_values() {
        check(
            "=\"fatal error: cannot find /foo/bar\"",
            &["fatal error: cannot find /foo/bar"],
            &[
                "fatal error: cannot find /foo/bar/baz",
                "some-text fatal error: cannot find /foo/bar",
                "FATAL ERROR: cannot find /foo/bar",
            ],
        );
        check("!=a", &["b"], &["a"]);
        check("exact(a)", &["a"], &["a b"]);
        check_fields("log.level:=\"error\"", &[("log.level", "error")], true);
        check_fields("log.level:=err", &[("log.level", "error")], false);
        check_fields("log.დონე:=\"შეცდომა\"", &[("log.დონე", "შეცდომა")], true);
    }
}
