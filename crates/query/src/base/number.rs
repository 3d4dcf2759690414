//! Numbers in field values and queries: integers, decimals, durations, byte sizes, IPv4 addresses;
//! and the order of values.
//!
//! Durations count as nanoseconds, sizes as bytes, addresses as their 32 bits, all in `f64`. Where
//! two whole numbers beyond 2^53 are the same `f64`, filters ([`Bound`]), `sort`, `min` and `max`
//! ([`compare_kinds`]) compare them digit by digit; other results of functions have the precision
//! of `f64`.

use std::cmp::Ordering;

use text::size;
use text::time::parse_timestamp;

use crate::base::time::parse_duration;

/// Longest text that is tried as a number; longer values are text.
const NUMBER_BYTES_MAX: usize = 64;

/// The number a value stands for, if the whole value is one: `12`, `-1.5e3`, `1_000`, `0xff`,
/// `1.5s`, `10KB`, `1.5MiB`, `10.0.0.1`, `inf`.
pub fn parse_number(value: &[u8]) -> Option<f64> {
    let first = *value.first()?;
    if value.len() > NUMBER_BYTES_MAX {
        return None;
    }
    if let Some(whole) = parse_integer(value) {
        return Some(whole);
    }
    let starts = first.is_ascii_digit() || matches!(first, b'-' | b'+' | b'.');
    if !starts && !first.eq_ignore_ascii_case(&b'i') {
        return None;
    }
    parse_other(std::str::from_utf8(value).ok()?)
}

/// The number that `sum`, `avg`, `quantile` and similar functions read from a value: as
/// [`parse_number`], but an address is not a number.
pub fn parse_quantity(value: &[u8]) -> Option<f64> {
    let number = parse_number(value)?;
    // An address has three points; no other number does.
    (memchr::memchr_iter(b'.', value).count() < 3).then_some(number)
}

/// The number that a value is compared as: as [`parse_number`], and full times as nanoseconds since
/// 1970.
pub fn parse_comparable(value: &[u8]) -> Option<f64> {
    parse_number(value).or_else(|| parse_timestamp(value).map(|ns| ns as f64))
}

/// From here on, neighbouring whole numbers may be the same `f64`.
const WHOLE_MAX: f64 = (1_u64 << 53) as f64;

/// A number that others are compared with, exactly.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Bound {
    number: f64,
    /// The number digit by digit, if it is a whole one that its neighbours may be taken for.
    whole: Option<i128>,
}

impl Bound {
    /// Less than every number.
    pub const LEAST: Bound = Bound { number: f64::NEG_INFINITY, whole: None };
    /// Greater than every number.
    pub const GREATEST: Bound = Bound { number: f64::INFINITY, whole: None };

    /// The number that a value is compared as, if it is one.
    pub fn parse(value: &[u8]) -> Option<Bound> {
        let number = parse_comparable(value)?;
        Some(Bound { number, whole: whole_beyond_double(value, number) })
    }

    /// How a value, and the number that it is compared as, is ordered beside the bound.
    #[inline]
    pub fn order(&self, value: &[u8], number: f64) -> Ordering {
        // No value is NaN.
        let ordering = number.total_cmp(&self.number);
        if ordering.is_eq() && number.abs() >= WHOLE_MAX {
            self.order_whole(value, number)
        } else if number == self.number {
            Ordering::Equal
        } else {
            ordering
        }
    }

    #[cold]
    fn order_whole(&self, value: &[u8], number: f64) -> Ordering {
        match (parse_whole(value, number), self.whole) {
            (Some(whole), Some(bound)) => whole.cmp(&bound),
            _ => Ordering::Equal,
        }
    }
}

/// The whole number that a value stands for, digit by digit, if others are the same `number`.
#[inline]
pub(crate) fn whole_beyond_double(value: &[u8], number: f64) -> Option<i128> {
    if number.abs() < WHOLE_MAX { None } else { parse_whole(value, number) }
}

/// The whole number that a value stands for, digit by digit; `number` is the same as `f64`. None
/// beyond 128 bits.
fn parse_whole(value: &[u8], number: f64) -> Option<i128> {
    let text = std::str::from_utf8(value).ok()?;
    let digits = text.replace('_', "");
    let unsigned = digits.trim_start_matches(['-', '+']);
    let hexadecimal = unsigned.strip_prefix("0x");
    let parsed = match hexadecimal {
        Some(digits) => i128::from_str_radix(digits, 16).ok(),
        None if !unsigned.bytes().all(|byte| byte.is_ascii_digit()) => None,
        None => unsigned.parse().ok(),
    };
    let parsed = parsed.map(|whole: i128| if text.starts_with('-') { -whole } else { whole });
    let time = || parse_timestamp(value).map(i128::from);
    let duration = || parse_duration(text).map(i128::from);
    // What is left is written with a fraction, an exponent or a unit of bytes.
    let other = || (number.abs() < 1e38).then_some(number as i128);
    parsed.or_else(time).or_else(duration).or_else(other)
}

/// Parses an integer of up to 15 digits, with or without a minus. Most numbers in logs are such.
#[inline]
fn parse_integer(value: &[u8]) -> Option<f64> {
    let (negative, digits) = match value {
        [b'-', rest @ ..] => (true, rest),
        _ => (false, value),
    };
    if digits.is_empty() || digits.len() > 15 {
        return None;
    }
    let mut number = 0i64;
    for &digit in digits {
        if !digit.is_ascii_digit() {
            return None;
        }
        number = number * 10 + i64::from(digit - b'0');
    }
    Some(if negative { -number } else { number } as f64)
}

fn parse_other(text: &str) -> Option<f64> {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    if unsigned.eq_ignore_ascii_case("inf") {
        return Some(if text.starts_with('-') { f64::NEG_INFINITY } else { f64::INFINITY });
    }
    if !unsigned.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
        return None;
    }
    if let Ok(number) = text.parse::<f64>() {
        return Some(number);
    }
    let sign = if text.starts_with('-') { -1.0 } else { 1.0 };
    let radix = |prefix: &str, radix: u32| {
        let digits = unsigned.strip_prefix(prefix).filter(|d| !d.starts_with(['+', '-']))?;
        u64::from_str_radix(&digits.replace('_', ""), radix).ok()
    };
    if let Some(number) = radix("0x", 16).or_else(|| radix("0b", 2)).or_else(|| radix("0o", 8)) {
        return Some(sign * number as f64);
    }
    if text.contains('_') {
        return parse_other(&text.replace('_', ""));
    }
    if let Ok(address) = text.parse::<std::net::Ipv4Addr>() {
        return Some(f64::from(address.to_bits()));
    }
    size::parse_bytes(text, size::LOGSQL).or_else(|| parse_duration(text).map(|ns| ns as f64))
}

/// Appends a number as text: whole numbers without a point, others with the fewest digits that
/// identify them.
pub fn write_number(number: f64, out: &mut Vec<u8>) {
    use std::io::Write;
    let result = if number.is_nan() {
        write!(out, "NaN")
    } else if number.is_infinite() {
        write!(out, "{}", if number > 0.0 { "+Inf" } else { "-Inf" })
    } else if number == 0.0 {
        write!(out, "0")
    } else {
        write!(out, "{number}")
    };
    result.expect("writing to memory");
}

/// How a value is ordered among others.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum SortKind {
    Empty,
    Number(f64),
    /// An RFC 3339 time, nanoseconds since 1970 UTC.
    Time(i64),
    Text,
}

impl SortKind {
    pub fn of(value: &[u8]) -> SortKind {
        if value.is_empty() {
            SortKind::Empty
        } else if let Some(number) = parse_number(value) {
            SortKind::Number(number)
        } else if let Some(ns) = parse_timestamp(value) {
            SortKind::Time(ns)
        } else {
            SortKind::Text
        }
    }
}

/// The order of values in `sort`, `min` and `max`: empty ones, then numbers by size, then times,
/// then text by bytes. The order is total: values of equal size are ordered by bytes. For few
/// values only; running pipes use [`compare_kinds`], which reads each value once.
#[cfg(test)]
pub(crate) fn compare_values(a: &[u8], b: &[u8]) -> Ordering {
    compare_kinds((SortKind::of(a), a), (SortKind::of(b), b))
}

/// The order of values in `sort`, `min` and `max`: empty ones, then numbers by size, then times,
/// then text by bytes. The order is total: values of equal size are ordered by bytes.
pub(crate) fn compare_kinds(a: (SortKind, &[u8]), b: (SortKind, &[u8])) -> Ordering {
    let class = |kind: SortKind| match kind {
        SortKind::Empty => 0,
        SortKind::Number(_) => 1,
        SortKind::Time(_) => 2,
        SortKind::Text => 3,
    };
    let by_size = match (a.0, b.0) {
        (SortKind::Number(x), SortKind::Number(y)) => x
            .total_cmp(&y)
            .then_with(|| whole_beyond_double(a.1, x).cmp(&whole_beyond_double(b.1, y))),
        (SortKind::Time(x), SortKind::Time(y)) => x.cmp(&y),
        (x, y) => class(x).cmp(&class(y)),
    };
    by_size.then_with(|| a.1.cmp(b.1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn numbers() {
        let check = |text: &str, expected: Option<f64>| {
            assert_eq!(parse_number(text.as_bytes()), expected, "{text}");
        };
        check("12", Some(12.0));
        check("-7", Some(-7.0));
        check("4.2", Some(4.2));
        check(".5", Some(0.5));
        check("1e3", Some(1000.0));
        check("1_000", Some(1000.0));
        check("1.234_567", Some(1.234_567));
        check("1_000KB", Some(1e6));
        check("1_0ms", Some(1e7));
        check("0xff", Some(255.0));
        check("0b101", Some(5.0));
        check("10KB", Some(10_000.0));
        check("1.5MiB", Some(1_572_864.0));
        check("10Ki", Some(10_240.0));
        check("1.5s", Some(1_500_000_000.0));
        check("1h30m", Some(5.4e12));
        check("5m", Some(3e11));
        check("0.0.1.0", Some(256.0));
        check("inf", Some(f64::INFINITY));
        check("-Inf", Some(f64::NEG_INFINITY));
        for text in
            ["", "-", "abc", "12a", "1.2.3", "the 4.2", "in", "+", "nan", "1 ", "0x", "12:30"]
        {
            check(text, None);
        }
    }

    #[test]
    fn addresses_and_times_are_numbers_to_compare_only() {
        for (text, quantity, comparable) in [
            ("1.5", Some(1.5), Some(1.5)),
            ("2s", Some(2e9), Some(2e9)),
            ("0.0.1.0", None, Some(256.0)),
            ("1970-01-01T00:00:01Z", None, Some(1e9)),
            ("x", None, None),
        ] {
            assert_eq!(parse_quantity(text.as_bytes()), quantity, "{text}");
            assert_eq!(parse_comparable(text.as_bytes()), comparable, "{text}");
        }
    }

    #[test]
    fn neighbours_beyond_doubles_are_told_apart() {
        let check = |value: &str, bound: &str, expected: Ordering| {
            let bytes = value.as_bytes();
            let number = parse_comparable(bytes).unwrap();
            let bound = Bound::parse(bound.as_bytes()).unwrap();
            assert_eq!(bound.order(bytes, number), expected, "{value} {bound:?}");
        };
        check("9007199254740993", "9007199254740992", Ordering::Greater);
        check("-9007199254740993", "-9007199254740992", Ordering::Less);
        check("18446744073709551614", "18_446_744_073_709_551_615", Ordering::Less);
        check("0x20000000000001", "9007199254740993", Ordering::Equal);
        check("9007199254740992.0", "9007199254740993", Ordering::Less);
        check("1e30", "1000000000000000000000000000000", Ordering::Greater);
        check("2026-01-31T12:00:00.000000001Z", "2026-01-31T12:00:00Z", Ordering::Greater);
        check("inf", "inf", Ordering::Equal);
        check("-0.0", "0", Ordering::Equal);
        check("0.1", "0.2", Ordering::Less);
    }

    #[test]
    fn numbers_are_written_short() {
        let check = |number: f64, expected: &str| {
            let mut out = Vec::new();
            write_number(number, &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        };
        check(3.0, "3");
        check(0.1, "0.1");
        check(-0.0, "0");
        check(f64::NAN, "NaN");
        check(1e15, "1000000000000000");
    }

    #[test]
    fn values_have_an_order() {
        let (later, earlier) = ("2026-01-31T12:00:00.5Z", "2026-01-31T12:00:00Z");
        let mut values = ["b", later, "10", "9", "", "a", earlier, "1KB", "2s", "10.0"];
        values.sort_by(|a, b| compare_values(a.as_bytes(), b.as_bytes()));
        assert_eq!(values, ["", "9", "10", "10.0", "1KB", "2s", earlier, later, "a", "b"]);
        let mut values = [
            "-9007199254740992",
            "9007199254740993",
            "-9007199254740993",
            "9007199254740992.0",
            "09007199254740994",
        ];
        values.sort_by(|a, b| compare_values(a.as_bytes(), b.as_bytes()));
        assert_eq!(
            values,
            [
                "-9007199254740993",
                "-9007199254740992",
                "9007199254740992.0",
                "9007199254740993",
                "09007199254740994"
            ]
        );
    }

    proptest! {
        #[test]
        fn the_order_is_total(
            a in "[-0-9.kKBsmi]{0,4}|-?900719925474099[0-9]", b in "[-0-9.kKBsmi]{0,4}|-?900719925474099[0-9]",
            c in "[-0-9.kKBsmi]{0,4}|-?900719925474099[0-9]",
        ) {
            let less = |x: &str, y: &str| compare_values(x.as_bytes(), y.as_bytes()).is_lt();
            prop_assert!(!(less(&a, &b) && less(&b, &a)));
            prop_assert!(!(less(&a, &b) && less(&b, &c)) || less(&a, &c));
        }
    }
}
