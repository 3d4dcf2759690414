//! Values in templates.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::time::Moment;

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
    /// A time, nanoseconds since 1970 UTC.
    Time(i64),
    /// What an object lacks, and null.
    Nothing,
    /// Values in a row.
    List(Arc<Vec<Value<'v>>>),
    /// Values by name.
    Object(Arc<BTreeMap<String, Value<'v>>>),
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
            Value::Time(time_ns) => Cow::Owned(time(*time_ns)),
            Value::Nothing => Cow::Borrowed("<no value>"),
            Value::List(values) => {
                let values: Vec<_> = values.iter().map(|value| value.shown(number)).collect();
                Cow::Owned(format!("[{}]", values.join(" ")))
            }
            Value::Object(values) => {
                let pairs: Vec<_> = values
                    .iter()
                    .map(|(name, value)| format!("{name}:{}", value.shown(number)))
                    .collect();
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
            Value::Time(_) => true,
            Value::Nothing => false,
            Value::List(values) => !values.is_empty(),
            Value::Object(values) => !values.is_empty(),
        }
    }

    /// The number that the value is, or that its text says.
    pub fn number(&self) -> Option<f64> {
        match self {
            Value::Text(text) => text.trim().parse().ok(),
            Value::Int(int) => Some(*int as f64),
            Value::Float(float) => Some(*float),
            Value::Bool(truth) => Some(f64::from(u8::from(*truth))),
            Value::Map(_) | Value::Time(_) | Value::Nothing | Value::List(_) | Value::Object(_) => {
                None
            }
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

impl<'v> Value<'v> {
    /// What an object has by a name, and within that by the next one; nothing if it lacks it.
    pub(super) fn at(&self, path: &[String]) -> Result<Value<'v>, String> {
        let Some((name, rest)) = path.split_first() else { return Ok(self.clone()) };
        let found = match self {
            Value::Object(values) => values.get(name).cloned(),
            Value::Map(map) => map.get(name).map(|text| Value::Text(Cow::Borrowed(text))),
            Value::Nothing => None,
            _ => return Err(format!("'.{name}' is asked of a value that is no object")),
        };
        found.unwrap_or(Value::Nothing).at(rest)
    }
}

/// A time as Go shows it.
fn time(time_ns: i64) -> String {
    let t = Moment::at(time_ns);
    let fraction = match t.nanosecond {
        0 => String::new(),
        nanosecond => format!(".{nanosecond:09}").trim_end_matches('0').to_owned(),
    };
    format!(
        "{:04}-{:02}-{:02} {:02}:{:02}:{:02}{fraction} +0000 UTC",
        t.year, t.month, t.day, t.hour, t.minute, t.second
    )
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
