//! `size:value_type(uint64)`: the value could be stored as this type: `uint8`, `uint16`, `uint32`,
//! `uint64`, `int64`, `float64`, `ipv4`, `iso8601`, or only as a `string`.
//!
//! So every `uint8` passes for `uint64`, `int64` and `float64` too. A value is a number if its text
//! is reproduced when the number is printed: no leading zeros, no sign but `-`, no exponent, no
//! unit. An `iso8601` is a full time of RFC 3339. An empty value has no type.
//!
//! Left out: `const` and `dict`, which describe the number of values in a block, not the values.

use std::net::Ipv4Addr;

use text::time::parse_timestamp;

use super::{Matches, Test};
use crate::base::names::NamePattern;
use crate::lang::filter::Filter;
use crate::lang::syntax::cursor::Cursor;
use crate::lang::syntax::error::ParseError;

/// The type that a value could be stored as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueKind {
    /// None of the other types.
    Text,
    /// A whole number from 0 up to this.
    Unsigned(u64),
    /// A whole number of 64 bits.
    Int64,
    /// A decimal number.
    Float64,
    /// An IPv4 address.
    Ipv4,
    /// A time.
    Iso8601,
}

impl ValueKind {
    /// All kinds, with their names.
    pub const NAMES: [(&str, ValueKind); 9] = [
        ("string", ValueKind::Text),
        ("uint8", ValueKind::Unsigned(u8::MAX as u64)),
        ("uint16", ValueKind::Unsigned(u16::MAX as u64)),
        ("uint32", ValueKind::Unsigned(u32::MAX as u64)),
        ("uint64", ValueKind::Unsigned(u64::MAX)),
        ("int64", ValueKind::Int64),
        ("float64", ValueKind::Float64),
        ("ipv4", ValueKind::Ipv4),
        ("iso8601", ValueKind::Iso8601),
    ];

    /// The name of the kind in queries.
    pub fn name(self) -> &'static str {
        let named = ValueKind::NAMES.iter().find(|(_, kind)| *kind == self);
        named.expect("each has a name").0
    }

    fn holds(self, text: &str) -> bool {
        let whole = |digits: &str| {
            !digits.is_empty()
                && digits.bytes().all(|b| b.is_ascii_digit())
                && (digits.len() == 1 || !digits.starts_with('0'))
        };
        let unsigned = text.strip_prefix('-').unwrap_or(text);
        match self {
            ValueKind::Unsigned(max) => whole(text) && text.parse().is_ok_and(|n: u64| n <= max),
            ValueKind::Int64 => whole(unsigned) && text != "-0" && text.parse::<i64>().is_ok(),
            ValueKind::Float64 => {
                let (before, behind) = unsigned.split_once('.').unwrap_or((unsigned, "0"));
                let fraction = !behind.is_empty() && behind.bytes().all(|b| b.is_ascii_digit());
                whole(before) && fraction && text != "-0"
            }
            ValueKind::Ipv4 => text.parse::<Ipv4Addr>().is_ok(),
            ValueKind::Iso8601 => parse_timestamp(text.as_bytes()).is_some(),
            ValueKind::Text => {
                let others = [ValueKind::Float64, ValueKind::Ipv4, ValueKind::Iso8601];
                !others.iter().any(|kind| kind.holds(text))
            }
        }
    }
}

pub(in crate::lang::filter) fn parse(
    cursor: &mut Cursor<'_>,
    field: &NamePattern,
    function: &str,
) -> Result<Filter, ParseError> {
    cursor.expect('(', &format!("{function}(…)"))?;
    let written = cursor.expect_string(false, "a type of values")?;
    let name = written.text.to_ascii_lowercase();
    let Some((_, kind)) = ValueKind::NAMES.iter().find(|(known, _)| *known == name) else {
        let message = match name.as_str() {
            "const" | "dict" => format!("\"{name}\" is a way to keep values, not a type of them"),
            _ => format!("there is no type of values \"{}\"", written.text),
        };
        let names = ValueKind::NAMES.map(|(name, _)| name);
        return Err(cursor.error_at(written.position, &names, message));
    };
    cursor.expect(')', &format!("{function}(…)"))?;
    Ok(field.filter(Test::ValueType(*kind)))
}

impl Matches for ValueKind {
    fn cost(&self) -> u32 {
        4
    }

    fn matches(&self, value: &[u8]) -> bool {
        match std::str::from_utf8(value) {
            Ok("") => false,
            Ok(text) => self.holds(text),
            Err(_) => *self == ValueKind::Text,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lang::filter::tests::{check, check_fields};

    #[test]
    fn types_of_values() {
        for (value, expected) in [
            ("", ""),
            ("0", "uint8 uint16 uint32 uint64 int64 float64"),
            ("255", "uint8 uint16 uint32 uint64 int64 float64"),
            ("256", "uint16 uint32 uint64 int64 float64"),
            ("65536", "uint32 uint64 int64 float64"),
            ("4294967296", "uint64 int64 float64"),
            ("9223372036854775808", "uint64 float64"),
            ("18446744073709551616", "float64"),
            ("-1", "int64 float64"),
            ("-1.5", "float64"),
            ("0.25", "float64"),
            ("1.2.3.4", "ipv4"),
            ("2026-01-31T12:00:00Z", "iso8601"),
            ("007", "string"),
            ("-0", "string"),
            ("+1", "string"),
            ("1.", "string"),
            ("1e3", "string"),
            ("10KB", "string"),
            ("2026-01-31", "string"),
            ("error", "string"),
        ] {
            let of = |(name, kind): &(&'static str, ValueKind)| {
                kind.matches(value.as_bytes()).then_some(*name)
            };
            let found: Vec<&str> = ValueKind::NAMES.iter().filter_map(of).collect();
            assert_eq!(found.join(" "), expected, "{value}");
        }
        assert!(ValueKind::Text.matches(b"\xff"));
    }

    #[test]
    fn values_of_a_type_are_selected() {
        check("value_type(uint64)", &["12"], &["a", "-1"]);
        check_fields("user_id:value_type(uint64)", &[("user_id", "12")], true);
        check_fields("user_id:value_type(string)", &[], false);
        check_fields("context.*:value_type(ipv4)", &[("context.ip", "1.2.3.4")], true);
    }
}
