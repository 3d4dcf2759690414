//! Values in templates.

use std::borrow::Cow;
use std::collections::BTreeMap;

/// A value in a template.
#[derive(Clone, Debug, PartialEq)]
pub enum Value<'v> {
    /// A text.
    Text(Cow<'v, str>),
    /// A whole number.
    Int(i64),
    /// Another number.
    Float(f64),
    /// True or false.
    Bool(bool),
    /// Texts by name.
    Map(&'v BTreeMap<String, String>),
}

impl Value<'_> {
    /// The value as it is shown; `number` writes a number with a fraction.
    pub fn shown(&self, number: fn(f64) -> String) -> Cow<'_, str> {
        match self {
            Value::Text(text) => Cow::Borrowed(text),
            Value::Int(int) => Cow::Owned(int.to_string()),
            Value::Float(float) => Cow::Owned(number(*float)),
            Value::Bool(truth) => Cow::Borrowed(if *truth { "true" } else { "false" }),
            // As Go shows a map.
            Value::Map(map) => {
                let pairs: Vec<_> =
                    map.iter().map(|(name, text)| format!("{name}:{text}")).collect();
                Cow::Owned(format!("map[{}]", pairs.join(" ")))
            }
        }
    }

    /// Whether `if` treats the value as true.
    pub fn is_true(&self) -> bool {
        match self {
            Value::Text(text) => !text.is_empty(),
            Value::Int(int) => *int != 0,
            Value::Float(float) => *float != 0.0,
            Value::Bool(truth) => *truth,
            Value::Map(map) => !map.is_empty(),
        }
    }

    /// The number that the value is, or that its text says.
    pub fn number(&self) -> Option<f64> {
        match self {
            Value::Text(text) => text.trim().parse().ok(),
            Value::Int(int) => Some(*int as f64),
            Value::Float(float) => Some(*float),
            Value::Bool(truth) => Some(f64::from(u8::from(*truth))),
            Value::Map(_) => None,
        }
    }

    /// Bytes of a text.
    pub(super) fn text_bytes(&self) -> usize {
        match self {
            Value::Text(text) => text.len(),
            _ => 0,
        }
    }

    /// The same value, for as long as this one lives.
    pub(super) fn borrowed(&self) -> Value<'_> {
        match self {
            Value::Text(text) => Value::Text(Cow::Borrowed(text)),
            other => other.clone(),
        }
    }
}

impl From<String> for Value<'_> {
    fn from(text: String) -> Self {
        Value::Text(Cow::Owned(text))
    }
}

impl<'v> From<&'v str> for Value<'v> {
    fn from(text: &'v str) -> Self {
        Value::Text(Cow::Borrowed(text))
    }
}
