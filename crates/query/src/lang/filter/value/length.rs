//! `len_range(5, 10)`: the number of characters of the value is in the range, both ends inside;
//! `inf` stands for no upper end.
//!
//! Characters are counted by their first bytes; every byte that cannot be a continuation of UTF-8
//! counts as one.

use super::{Matches, Test};
use crate::base::names::NamePattern;
use crate::base::number::parse_number;
use crate::lang::filter::Filter;
use crate::lang::syntax::cursor::Cursor;
use crate::lang::syntax::error::ParseError;

pub(in crate::lang::filter) fn parse(
    cursor: &mut Cursor<'_>,
    field: &NamePattern,
    _function: &str,
) -> Result<Filter, ParseError> {
    cursor.expect('(', "len_range(…)")?;
    let min = parse_length(cursor)?;
    cursor.expect(',', "len_range(…)")?;
    let max = parse_length(cursor)?;
    cursor.expect(')', "len_range(…)")?;
    Ok(field.filter(Test::Length { min, max }))
}

fn parse_length(cursor: &mut Cursor<'_>) -> Result<u64, ParseError> {
    let written = cursor.expect_string(false, "a number of characters")?;
    if written.text.eq_ignore_ascii_case("inf") {
        return Ok(u64::MAX);
    }
    match parse_number(written.text.as_bytes()) {
        Some(number) if number >= 0.0 => Ok(number as u64),
        _ => Err(cursor.error_at(
            written.position,
            &["a number of characters"],
            "this is not a length",
        )),
    }
}

pub(in crate::lang::filter) struct Matcher {
    pub min: u64,
    pub max: u64,
}

impl Matches for Matcher {
    fn cost(&self) -> u32 {
        4
    }

    #[inline]
    fn matches(&self, value: &[u8]) -> bool {
        let characters = value.iter().filter(|b| *b & 0xc0 != 0x80).count() as u64;
        (self.min..=self.max).contains(&characters)
    }
}

#[cfg(test)]
mod tests {
    use crate::lang::filter::tests::{check, check_fields};

    #[test]
    fn lengths() {
        check(
            "len_range(5, 10)",
            &["foobar", "foo bar", "ärgerärger"],
            &["foo", "foo bar baz abc"],
        );
        check("len_range(5, inf)", &["foobar"], &["foo"]);
        check("len_range(0b11, 0x4)", &["abc", "abcd"], &["ab", "abcde"]);
        check_fields("foo:len_range(1_0, 2_0)", &[("foo", "0123456789")], true);
        check_fields("foo:len_range(0, 0)", &[], true);
    }
}
