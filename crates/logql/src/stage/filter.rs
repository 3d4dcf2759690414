//! Tests of labels: `level="error"`, `size > 10KB`, `addr = ip("10.0.0.0/8")`, with `and`, `or` and
//! parentheses.
//!
//! As in Loki, a line with an error passes every test except those of text and those of numbers
//! whose label it lacks, so that errors stay visible until a filter on `__error__` removes them; and
//! a value that is not a number is an error instead of a mismatch.

use std::fmt;

use super::Item;
use super::ip::IpRange;
use crate::lex::quote;
use crate::matcher::Matcher;
use crate::units::{format_number, parse_bytes, parse_number, parse_value_duration_ns};

/// A test of labels.
#[derive(Clone, Debug, PartialEq)]
pub enum LabelTest {
    /// Compared as text.
    Text(Matcher),
    /// Compared as a number of some kind.
    Compare {
        /// The label.
        name: String,
        /// The comparison.
        comparison: Comparison,
        /// The value it is compared with.
        bound: Bound,
    },
    /// Compared as an address.
    Ip {
        /// The label.
        name: String,
        /// Passes outside the range.
        negated: bool,
        /// The addresses.
        range: IpRange,
    },
    /// All of these tests; at least two.
    All(Vec<LabelTest>),
    /// Any of these tests; at least two.
    Any(Vec<LabelTest>),
}

/// How numbers are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// `==`
    Equal,
    /// `!=`
    NotEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
}

impl Comparison {
    fn sign(self) -> &'static str {
        match self {
            Comparison::Equal => "==",
            Comparison::NotEqual => "!=",
            Comparison::Greater => ">",
            Comparison::GreaterOrEqual => ">=",
            Comparison::Less => "<",
            Comparison::LessOrEqual => "<=",
        }
    }

    fn holds(self, a: f64, b: f64) -> bool {
        match self {
            Comparison::Equal => a == b,
            Comparison::NotEqual => a != b,
            Comparison::Greater => a > b,
            Comparison::GreaterOrEqual => a >= b,
            Comparison::Less => a < b,
            Comparison::LessOrEqual => a <= b,
        }
    }
}

/// The value that a label is compared with; its kind determines how the label is parsed.
#[derive(Clone, Debug, PartialEq)]
pub enum Bound {
    /// A plain number.
    Number(f64),
    /// A duration as written, and in nanoseconds.
    Duration(String, i64),
    /// A size as written, and in bytes.
    Bytes(String, f64),
}

impl LabelTest {
    /// Whether it looks at a label.
    pub fn names(&self, label: &str) -> bool {
        match self {
            LabelTest::Text(matcher) => matcher.name == label,
            LabelTest::Compare { name, .. } | LabelTest::Ip { name, .. } => name == label,
            LabelTest::All(tests) | LabelTest::Any(tests) => {
                tests.iter().any(|test| test.names(label))
            }
        }
    }

    /// Whether a line passes; may set an error on it.
    pub fn passes(&self, item: &mut Item<'_>) -> bool {
        match self {
            LabelTest::Text(matcher) => {
                item.with_label(&matcher.name, |value| matcher.matches(value, item.pulse()))
            }
            LabelTest::Compare { name, comparison, bound } => {
                let read = |value: &str| match bound {
                    _ if value.is_empty() => None,
                    Bound::Number(_) => Some(parse_number(value)),
                    Bound::Duration(..) => Some(parse_value_duration_ns(value).map(|ns| ns as f64)),
                    Bound::Bytes(..) => Some(parse_bytes(value)),
                };
                let wanted = match bound {
                    Bound::Number(value) | Bound::Bytes(_, value) => *value,
                    Bound::Duration(_, ns) => *ns as f64,
                };
                match item.with_label(name, read) {
                    None => false,
                    Some(_) if item.has_error() => true,
                    Some(Some(value)) => comparison.holds(value, wanted),
                    Some(None) => {
                        item.set_error(
                            "LabelFilterErr",
                            format!("label {name} is not a number of the kind"),
                        );
                        true
                    }
                }
            }
            LabelTest::Ip { name, negated, range } => {
                if item.has_error() {
                    return true;
                }
                let inside = item.with_label(name, |value| match value.is_empty() {
                    true => None,
                    // Anywhere in the value, as in a line.
                    false => Some(range.is_in(value)),
                });
                inside.is_some_and(|inside| inside != *negated)
            }
            // Every test is evaluated, because each may set an error.
            LabelTest::All(tests) => tests.iter().fold(true, |all, test| test.passes(item) & all),
            LabelTest::Any(tests) => tests.iter().any(|test| test.passes(item)),
        }
    }
}

impl fmt::Display for LabelTest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // `and` binds more tightly, so parentheses are written only where they were parsed: the
        // nesting stays within its limit.
        let all = |test: &LabelTest| match test {
            LabelTest::All(_) | LabelTest::Any(_) => format!("({test})"),
            _ => test.to_string(),
        };
        let any = |test: &LabelTest| match test {
            LabelTest::Any(_) => format!("({test})"),
            _ => test.to_string(),
        };
        match self {
            LabelTest::Text(matcher) => write!(f, "{matcher}"),
            LabelTest::Compare { name, comparison, bound } => {
                write!(f, "{name} {} ", comparison.sign())?;
                match bound {
                    Bound::Number(value) => f.write_str(&format_number(*value)),
                    Bound::Duration(text, _) | Bound::Bytes(text, _) => f.write_str(text),
                }
            }
            LabelTest::Ip { name, negated, range } => {
                let sign = if *negated { "!=" } else { "=" };
                write!(f, "{name} {sign} ip({})", quote(range.text()))
            }
            LabelTest::All(tests) => {
                f.write_str(&tests.iter().map(all).collect::<Vec<_>>().join(" and "))
            }
            LabelTest::Any(tests) => {
                f.write_str(&tests.iter().map(any).collect::<Vec<_>>().join(" or "))
            }
        }
    }
}
