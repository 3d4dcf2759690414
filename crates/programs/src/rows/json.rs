//! A JSON object to fields, in the order of the text; objects inside become names with dots.

use std::fmt;

use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};

use super::Value;
use super::parse::{Fields, RowProblem};

/// Objects in objects; a row with more is an error.
const DEPTH_MAX: usize = 4;

pub(super) fn parse(text: &str, fields: &mut Fields) -> Result<(), RowProblem> {
    let problem = |error: serde_json::Error| RowProblem::Json { message: error.to_string() };
    let mut parser = serde_json::Deserializer::from_str(text);
    Node { name: String::new(), depth: 0, fields }.deserialize(&mut parser).map_err(problem)?;
    parser.end().map_err(problem)
}

/// A value and the name that it has in the row; the whole row at depth 0.
struct Node<'a> {
    name: String,
    depth: usize,
    fields: &'a mut Fields,
}

impl Node<'_> {
    fn push<E: de::Error>(self, value: Value) -> Result<(), E> {
        self.fields.push(self.name, value).map_err(E::custom)
    }
}

impl<'de> DeserializeSeed<'de> for Node<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, parser: D) -> Result<(), D::Error> {
        parser.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Node<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of numbers, texts, true, false and null")
    }

    fn visit_unit<E: de::Error>(self) -> Result<(), E> {
        self.push(Value::Null)
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<(), E> {
        self.push(Value::Bool(value))
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<(), E> {
        self.push(Value::Integer(value))
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<(), E> {
        self.push(i64::try_from(value).map_or(Value::Float(value as f64), Value::Integer))
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<(), E> {
        self.push(Value::Float(value))
    }

    fn visit_str<E: de::Error>(self, value: &str) -> Result<(), E> {
        self.push(Value::Text(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, _: A) -> Result<(), A::Error> {
        let name = self.name;
        Err(de::Error::custom(format!("`{name}` is an array; print one row for each element")))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        if self.depth >= DEPTH_MAX {
            return Err(de::Error::custom(format!("objects nest deeper than {DEPTH_MAX} levels")));
        }
        while let Some(key) = map.next_key::<String>()? {
            let name = if self.depth == 0 { key } else { format!("{}.{key}", self.name) };
            map.next_value_seed(Node { name, depth: self.depth + 1, fields: self.fields })?;
        }
        Ok(())
    }
}
