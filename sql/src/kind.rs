//! The SQL type of a field, and how its values are told from texts in LogsQL.
//!
//! Values of Loginson are texts. A field whose values are all numbers becomes a column of numbers;
//! a value that is no number of that kind is NULL there, and so is an empty or missing one.
//! `is_value` is the LogsQL filter for exactly the values that are not NULL, so that a filter gives
//! the same answer whether Loginson or DataFusion applies it.

use datafusion::arrow::datatypes::{DataType, TimeUnit};

/// Digits of a number up to which a field with fractions becomes a column. A double keeps them.
const DOUBLE_DIGITS_MAX: usize = 15;

/// What the values of a column are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// The time of a line.
    Time,
    /// A whole number that is written as SQL prints it: without leading zeros or a `+`.
    Int,
    /// A decimal number without an exponent.
    Float,
    /// Anything.
    Text,
}

impl Kind {
    /// The type of the column.
    pub fn data_type(self) -> DataType {
        match self {
            Kind::Time => DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into())),
            Kind::Int => DataType::Int64,
            Kind::Float => DataType::Float64,
            Kind::Text => DataType::Utf8,
        }
    }

    /// The narrowest kind that has this value, which is not empty.
    pub fn of(value: &str) -> Kind {
        if int(value).is_some() {
            Kind::Int
        } else if value.len() <= DOUBLE_DIGITS_MAX && float(value).is_some() {
            Kind::Float
        } else {
            Kind::Text
        }
    }

    /// The LogsQL filter for values of the quoted field that are not NULL.
    pub fn is_value(self, field: &str) -> String {
        match self {
            Kind::Time => "*".to_owned(),
            Kind::Int => format!("{field}:value_type(int64)"),
            Kind::Float => format!("{field}:value_type(float64)"),
            Kind::Text => format!("{field}:*"),
        }
    }
}

/// A value as a whole number, where `value_type(int64)` selects it.
pub fn int(value: &str) -> Option<i64> {
    let number = value.parse::<i64>().ok()?;
    is_whole(value.strip_prefix('-').unwrap_or(value)).then_some(number).filter(|_| value != "-0")
}

/// A value as a decimal number, where `value_type(float64)` selects it.
pub fn float(value: &str) -> Option<f64> {
    let unsigned = value.strip_prefix('-').unwrap_or(value);
    let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, "0"));
    let digits = !fraction.is_empty() && fraction.bytes().all(|byte| byte.is_ascii_digit());
    if !(is_whole(whole) && digits && value != "-0") {
        return None;
    }
    // Adding zero makes `-0.0` zero, which SQL compares as unequal otherwise.
    value.parse::<f64>().ok().map(|number| number + 0.0)
}

fn is_whole(digits: &str) -> bool {
    !digits.is_empty()
        && digits.bytes().all(|byte| byte.is_ascii_digit())
        && (digits.len() == 1 || !digits.starts_with('0'))
}

/// A text as LogsQL quotes it. Nothing in it can end the quotes.
pub fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_of_values() {
        for (value, kind) in [
            ("0", Kind::Int),
            ("-7", Kind::Int),
            ("9223372036854775807", Kind::Int),
            ("9223372036854775808", Kind::Text),
            ("007", Kind::Text),
            ("+7", Kind::Text),
            ("-0", Kind::Text),
            ("1.5", Kind::Float),
            ("-0.0", Kind::Float),
            (".5", Kind::Text),
            ("5.", Kind::Text),
            ("1e5", Kind::Text),
            ("inf", Kind::Text),
            ("NaN", Kind::Text),
            ("10KB", Kind::Text),
            ("3.14159265358979323846", Kind::Text),
            ("-", Kind::Text),
            ("1.2.3.4", Kind::Text),
        ] {
            assert_eq!(Kind::of(value), kind, "{value}");
        }
        assert!(float("-0.0").unwrap().is_sign_positive());
    }

    #[test]
    fn quotes_hold_every_text() {
        assert_eq!(quoted("a"), r#""a""#);
        assert_eq!(quoted(r#"" or *"#), r#""\" or *""#);
        assert_eq!(quoted(r#"\" or *"#), r#""\\\" or *""#);
        assert_eq!(quoted("a\nb\0"), r#""a\u000ab\u0000""#);
        assert_eq!(quoted("é*|#"), r#""é*|#""#);
    }
}
