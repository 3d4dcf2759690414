//! `took:range(4.2, Inf)`, `range[1, 10KB]`: the value is a number in the range; `(` and `)`
//! exclude an end.
//!
//! Full times are numbers of nanoseconds here. Values that are not wholly a number do not pass.

use record::columns::{DECIMAL_BYTES, decimal_of};

use super::{Matches, Test};
use crate::base::names::NamePattern;
use crate::base::number::{Bound, parse_comparable};
use crate::lang::filter::Filter;
use crate::lang::syntax::cursor::Cursor;
use crate::lang::syntax::error::ParseError;

/// A number with the text it was written as.
#[derive(Clone, Debug)]
pub struct Number {
    /// As written.
    pub text: String,
    /// Its value; durations in nanoseconds, sizes in bytes.
    pub value: f64,
}

impl Number {
    /// Parses a number as it is written in queries and field values.
    pub fn parse(text: &str) -> Option<Number> {
        Some(Number { text: text.to_owned(), value: parse_comparable(text.as_bytes())? })
    }
}

impl Number {
    /// The number as a bound of a range.
    pub(super) fn bound(&self) -> Bound {
        Bound::parse(self.text.as_bytes()).expect("it was parsed as a number before")
    }
}

impl PartialEq for Number {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

pub(in crate::lang::filter) fn parse(
    cursor: &mut Cursor<'_>,
    field: &NamePattern,
    _function: &str,
) -> Result<Filter, ParseError> {
    let low_inside = cursor.eat('[');
    if !low_inside {
        cursor.expect('(', "range(…)")?;
    }
    let low = parse_number_argument(cursor)?;
    cursor.expect(',', "range(…)")?;
    let high = parse_number_argument(cursor)?;
    let high_inside = cursor.eat(']');
    if !high_inside {
        cursor.expect(')', "range(…)")?;
    }
    Ok(field.filter(Test::Range { low, low_inside, high, high_inside }))
}

fn parse_number_argument(cursor: &mut Cursor<'_>) -> Result<Number, ParseError> {
    let what = "a number such as 10, 1.5KB or 250ms, or a time";
    let written = cursor.run(",()[]|", what)?;
    Number::parse(&written.text)
        .ok_or_else(|| cursor.error_at(written.position, &[what], "this is not a number"))
}

/// A range of numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::lang::filter) struct NumberRange {
    pub low: Bound,
    pub low_inside: bool,
    pub high: Bound,
    pub high_inside: bool,
}

impl NumberRange {
    /// As [`Matches::matches`], for the decimal of a number.
    #[inline]
    pub fn matches_whole(&self, number: i64) -> bool {
        match number.unsigned_abs() < 1 << f64::MANTISSA_DIGITS {
            // As such a number is exact, its text is not looked at.
            true => self.holds(b"", number as f64),
            false => self.matches(decimal_of(number, &mut [0; DECIMAL_BYTES])),
        }
    }

    /// Whether the number of a value is in the range.
    #[inline]
    fn holds(&self, value: &[u8], number: f64) -> bool {
        let (low, high) = (self.low.order(value, number), self.high.order(value, number));
        (low.is_gt() || self.low_inside && low.is_eq())
            && (high.is_lt() || self.high_inside && high.is_eq())
    }
}

impl Matches for NumberRange {
    fn cost(&self) -> u32 {
        4
    }

    #[inline]
    fn matches(&self, value: &[u8]) -> bool {
        parse_comparable(value).is_some_and(|number| self.holds(value, number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lang::filter::tests::check_fields as check;

    #[test]
    fn a_number_is_in_a_range_just_if_its_decimal_is() {
        let bounds =
            ["-inf", "0", "6.9", "7", "9007199254740992", "9007199254740993", "1e19", "inf"];
        let numbers = [0, 6, 7, 8, -7, (1 << 53) - 1, 1 << 53, (1 << 53) + 1, i64::MAX, i64::MIN];
        let bound = |text: &str| Bound::parse(text.as_bytes()).unwrap();
        for (low, high, inside) in bounds.iter().flat_map(|low| {
            bounds.iter().flat_map(move |high| [(low, high, true), (low, high, false)])
        }) {
            let range = NumberRange {
                low: bound(low),
                low_inside: inside,
                high: bound(high),
                high_inside: inside,
            };
            for number in numbers {
                let expected = range.matches(number.to_string().as_bytes());
                assert_eq!(range.matches_whole(number), expected, "{low} {number} {high} {inside}");
            }
        }
    }

    #[test]
    fn ranges_of_numbers() {
        let fields = [("size", "10KB"), ("request.duration", "4.3")];
        check("request.duration:range(4.2, Inf)", &fields, true);
        check("size:range(1, 10KB)", &fields, false);
        check("size:range(1, 10KB]", &fields, true);
        check("size:range[10_000, 11KB)", &fields, true);
        check("size:range(10_000, 11KB)", &fields, false);
        check("size:range[1, 10KB]", &fields, true);
        check("size:range(9, 1)", &fields, false);
        let big = [("id", "9007199254740993")];
        check("id:range[9007199254740993, 9007199254740993]", &big, true);
        check("id:range[9007199254740992, 9007199254740993)", &big, false);
        check("id:range(9007199254740992, 9007199254740994)", &big, true);
        let times = [("at", "2026-01-30T12:00:00.5Z")];
        check("at:range[2026-01-30T12:00:00.5Z, 2026-01-30T13:00:00+01:00)", &times, false);
        check("at:range[2026-01-30T12:00:00.5Z, 2026-01-30T14:00:00+01:00)", &times, true);
        check("at:range(2026-01-30T12:00:00.5Z, inf)", &times, false);
        check("range(1, 10)", &[("_msg", "the request took 4.2 seconds")], false);
        check("none:range(-inf, inf)", &fields, false);
    }
}
