//! `user.name:string_range(A, C)`: the value is not less than the first text and less than the
//! second, byte by byte.
//!
//! A missing field counts as empty: `string_range("", x)` passes lines without it.

use super::{Matches, Test};
use crate::base::names::NamePattern;
use crate::lang::filter::Filter;
use crate::lang::syntax::cursor::Cursor;
use crate::lang::syntax::error::ParseError;

pub(in crate::lang::filter) fn parse(
    cursor: &mut Cursor<'_>,
    field: &NamePattern,
    _function: &str,
) -> Result<Filter, ParseError> {
    cursor.expect('(', "string_range(…)")?;
    let low = cursor.expect_string(true, "the first text inside")?.text;
    cursor.expect(',', "string_range(…)")?;
    let high = cursor.expect_string(true, "the first text behind")?.text;
    cursor.expect(')', "string_range(…)")?;
    Ok(field.filter(Test::StringRange { low, high }))
}

pub(in crate::lang::filter) struct Matcher {
    pub low: Vec<u8>,
    pub high: Vec<u8>,
}

impl Matches for Matcher {
    fn cost(&self) -> u32 {
        4
    }

    #[inline]
    fn matches(&self, value: &[u8]) -> bool {
        value >= self.low.as_slice() && value < self.high.as_slice()
    }
}

#[cfg(test)]
mod tests {
    use crate::lang::filter::tests::{check, check_fields};

    #[test]
    fn ranges_of_text() {
        check("string_range(A, C)", &["A", "Alice", "Bob"], &["C", "Charlie", "alice", "0"]);
        check("string_range(C, E)", &["Charlie", "Dave"], &["Eve", "Bob"]);
        check("string_range(b, a)", &[], &["a", "b"]);
        check_fields("user.name:string_range(A, C)", &[("user.name", "Bob")], true);
        check_fields("user.name:string_range(A, C)", &[], false);
        check_fields("user.name:string_range(\"\", C)", &[], true);
    }
}
