//! Reads JSON objects so that nothing in them is ignored silently: a key that nobody asked for is
//! an error that names it, and the keys that there are.

use std::cell::RefCell;

use serde_json::{Map, Value};

use crate::error::Refused;

/// An object of a request.
pub struct Object<'v> {
    what: String,
    map: &'v Map<String, Value>,
    asked: RefCell<Vec<&'static str>>,
}

impl<'v> Object<'v> {
    /// The object `value`, which messages call `what`.
    pub fn new(value: &'v Value, what: &str) -> Result<Object<'v>, Refused> {
        match value {
            Value::Object(map) => {
                Ok(Object { what: what.to_owned(), map, asked: RefCell::default() })
            }
            other => {
                Err(Refused::parsing(format!("[{what}] takes an object, not {}", shown(other))))
            }
        }
    }

    /// The value of a key; null counts as missing.
    pub fn get(&self, name: &'static str) -> Option<&'v Value> {
        self.asked.borrow_mut().push(name);
        self.map.get(name).filter(|value| !value.is_null())
    }

    /// The value of a key that has to be there.
    pub fn required(&self, name: &'static str) -> Result<&'v Value, Refused> {
        self.get(name).ok_or_else(|| Refused::parsing(format!("[{}] needs [{name}]", self.what)))
    }

    /// A text. Numbers and booleans count as theirs.
    pub fn text(&self, name: &'static str) -> Result<Option<String>, Refused> {
        self.get(name).map(|value| self.scalar(name, value)).transpose()
    }

    fn scalar(&self, name: &str, value: &Value) -> Result<String, Refused> {
        text_of(value).ok_or_else(|| {
            Refused::parsing(format!("[{}] [{name}] takes a text, not {}", self.what, shown(value)))
        })
    }

    /// A whole number from 0, which may be written as a text, as Grafana does.
    pub fn whole(&self, name: &'static str) -> Result<Option<u64>, Refused> {
        let Some(value) = self.get(name) else { return Ok(None) };
        let number = value.as_u64().or_else(|| value.as_str()?.parse().ok());
        number.map(Some).ok_or_else(|| {
            Refused::parsing(format!(
                "[{}] [{name}] takes a whole number from 0, not {}",
                self.what,
                shown(value)
            ))
        })
    }

    /// A number.
    pub fn number(&self, name: &'static str) -> Result<Option<f64>, Refused> {
        let Some(value) = self.get(name) else { return Ok(None) };
        let number = value.as_f64().or_else(|| value.as_str()?.parse().ok());
        number.filter(|n: &f64| n.is_finite()).map(Some).ok_or_else(|| {
            Refused::parsing(format!(
                "[{}] [{name}] takes a number, not {}",
                self.what,
                shown(value)
            ))
        })
    }

    /// A switch.
    pub fn flag(&self, name: &'static str) -> Result<Option<bool>, Refused> {
        let Some(value) = self.get(name) else { return Ok(None) };
        match value {
            Value::Bool(on) => Ok(Some(*on)),
            Value::String(text) if text == "true" => Ok(Some(true)),
            Value::String(text) if text == "false" => Ok(Some(false)),
            other => Err(Refused::parsing(format!(
                "[{}] [{name}] takes true or false, not {}",
                self.what,
                shown(other)
            ))),
        }
    }

    /// Keys that change nothing here, for a reason that the documentation gives.
    pub fn without_effect(&self, names: &[&'static str]) {
        self.asked.borrow_mut().extend(names);
    }

    /// An error if there is a key that nobody asked for.
    pub fn finish(&self) -> Result<(), Refused> {
        let asked = self.asked.borrow();
        match self.map.keys().find(|key| !asked.contains(&key.as_str())) {
            None => Ok(()),
            Some(key) => Err(Refused::parsing(format!(
                "[{}] does not understand [{}] here; it understands: {}",
                self.what,
                cut(key),
                listed(&asked)
            ))),
        }
    }

    /// The only entry of an object such as `{"field": …}`.
    pub fn only(&self) -> Result<(&'v str, &'v Value), Refused> {
        let mut entries = self.map.iter();
        match (entries.next(), entries.next()) {
            (Some((name, value)), None) => Ok((name, value)),
            _ => Err(Refused::parsing(format!(
                "[{}] takes one name, not {}",
                self.what,
                self.map.len()
            ))),
        }
    }

    /// All entries.
    pub fn entries(&self) -> impl Iterator<Item = (&'v str, &'v Value)> {
        self.map.iter().map(|(name, value)| (name.as_str(), value))
    }
}

fn listed(names: &[&'static str]) -> String {
    let mut names = names.to_vec();
    names.sort_unstable();
    names.dedup();
    names.join(", ")
}

/// The beginning of a text that may be long.
pub fn cut(text: &str) -> String {
    text.chars().take(100).collect()
}

/// A value in a message.
pub fn shown(value: &Value) -> String {
    cut(&value.to_string())
}

/// A text, number or boolean as text.
pub fn text_of(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(on) => Some(on.to_string()),
        _ => None,
    }
}

/// One value, or a list of values.
pub fn list(value: &Value) -> Vec<&Value> {
    match value {
        Value::Array(values) => values.iter().collect(),
        value => vec![value],
    }
}
