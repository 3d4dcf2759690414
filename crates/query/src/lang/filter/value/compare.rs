//! `took:>1.5s`, `size:<=10KiB`, `user:<"m"`: comparisons of the value; as numbers if the value in
//! the query is one (a full time is a number, too), else as text, byte by byte.
//!
//! A value that is not wholly a number passes no comparison with a number. A missing field counts
//! as the empty text, which is less than any other, as in VictoriaLogs.

use std::cmp::Ordering;

use super::range::NumberRange;
use super::{Matches, Test};
use crate::base::names::NamePattern;
use crate::base::number::Bound;
use crate::lang::filter::Filter;
use crate::lang::syntax::cursor::Cursor;
use crate::lang::syntax::error::ParseError;

/// How two values are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
}

impl Comparison {
    pub(super) fn sign(self) -> &'static str {
        match self {
            Comparison::Less => "<",
            Comparison::LessOrEqual => "<=",
            Comparison::Greater => ">",
            Comparison::GreaterOrEqual => ">=",
        }
    }

    pub(in crate::lang::filter) fn holds(self, ordering: Ordering) -> bool {
        match self {
            Comparison::Less => ordering.is_lt(),
            Comparison::LessOrEqual => ordering.is_le(),
            Comparison::Greater => ordering.is_gt(),
            Comparison::GreaterOrEqual => ordering.is_ge(),
        }
    }
}

/// Parses `<x`, `<=x`, `>x`, `>=x`.
pub(in crate::lang::filter) fn parse_sign(
    cursor: &mut Cursor<'_>,
    field: &NamePattern,
) -> Result<Filter, ParseError> {
    let less = cursor.eat('<');
    if !less {
        cursor.expect('>', "the comparison")?;
    }
    let comparison = match (less, cursor.eat_adjacent('=')) {
        (true, false) => Comparison::Less,
        (true, true) => Comparison::LessOrEqual,
        (false, false) => Comparison::Greater,
        (false, true) => Comparison::GreaterOrEqual,
    };
    let value = cursor.expect_string(true, "a number or text to compare with")?.text;
    Ok(field.filter(Test::Compare { comparison, value }))
}

/// The numbers that pass a comparison; none when `value` is text.
pub(super) fn numbers(comparison: Comparison, value: &str) -> Option<NumberRange> {
    let bound = Bound::parse(value.as_bytes())?;
    let inside = matches!(comparison, Comparison::LessOrEqual | Comparison::GreaterOrEqual);
    Some(match comparison {
        Comparison::Less | Comparison::LessOrEqual => {
            NumberRange { low: Bound::LEAST, low_inside: true, high: bound, high_inside: inside }
        }
        Comparison::Greater | Comparison::GreaterOrEqual => {
            NumberRange { low: bound, low_inside: inside, high: Bound::GREATEST, high_inside: true }
        }
    })
}

/// Compares with a text.
pub(in crate::lang::filter) struct Matcher {
    pub comparison: Comparison,
    pub value: Vec<u8>,
}

impl Matches for Matcher {
    fn cost(&self) -> u32 {
        4
    }

    #[inline]
    fn matches(&self, value: &[u8]) -> bool {
        self.comparison.holds(value.cmp(&self.value))
    }
}

#[cfg(test)]
mod tests {
    use crate::lang::filter::tests::check_fields as check;

    #[test]
    fn comparisons() {
        let fields = [("log.level", "error"), ("size", "10KB"), ("took", "1.5s")];
        check("size:>=10000 size:<10KiB", &fields, true);
        check("took:>1s took:<=1500ms", &fields, true);
        check("log.level:>10", &fields, false);
        check("log.level:<\"f\"", &fields, true);
        check("log.level:<=error log.level:>=error", &fields, true);
        check("log.level:>error", &fields, false);
        check("other:<\"f\"", &fields, true);
        check("other:>=\"f\"", &fields, false);
        check("other:<5", &fields, false);
        check("at:<2026-01-30T13:00:00+01:00", &[("at", "2026-01-30T11:59:59.9Z")], true);
        check("at:>2026-01-30T13:00:00+01:00", &[("at", "2026-01-30T11:59:59.9Z")], false);
        check("size:>-5", &fields, true);
        check("size:<-5", &fields, false);
        check("ip:>1.2.3.0 ip:<1.2.4.0", &[("ip", "1.2.3.4")], true);
        let big = |id| [("id", id)];
        check("id:>9007199254740992", &big("9007199254740993"), true);
        check("id:>9007199254740992", &big("9007199254740992"), false);
        check("id:<18446744073709551615", &big("18446744073709551614"), true);
        check("id:<=18446744073709551614", &big("18446744073709551615"), false);
        check("username:<\"John\"", &[("username", "Jane")], true);
    }
}
