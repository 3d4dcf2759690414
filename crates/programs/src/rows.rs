//! A summary row as a value: names and values in the order in which the program printed them.

pub mod parse;
pub mod reader;

mod json;
mod pairs;

/// A longer name of a field is an error of its row.
pub const NAME_BYTES_MAX: usize = 256;

/// Fields that a stored row has besides those of its program.
const RESERVED: [&str; 7] =
    ["program", "bucket_s", "revision", "row", "run", "partial", "summary_of"];

/// Whether Loginson gives fields of this name itself, so that a program must not.
pub fn is_reserved(name: &str) -> bool {
    name.starts_with('_') || RESERVED.contains(&name)
}

/// The value of a field.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// No value: JSON `null`, or nothing behind the equals sign.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number without fraction and exponent.
    Integer(i64),
    /// Any other number; always finite.
    Float(f64),
    /// Text.
    Text(String),
}

/// One row: names are not empty and differ from each other.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Row {
    fields: Vec<(String, Value)>,
}

impl serde::Serialize for Value {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Value::Null => serializer.serialize_unit(),
            Value::Bool(value) => serializer.serialize_bool(*value),
            Value::Integer(value) => serializer.serialize_i64(*value),
            Value::Float(value) => serializer.serialize_f64(*value),
            Value::Text(value) => serializer.serialize_str(value),
        }
    }
}

/// An object with the fields in their order.
impl serde::Serialize for Row {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.fields.iter().map(|(name, value)| (name, value)))
    }
}

impl Row {
    /// The fields in the order of the output.
    pub fn fields(&self) -> &[(String, Value)] {
        &self.fields
    }

    /// The value of the field `name`.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.fields.iter().find(|(n, _)| n == name).map(|(_, value)| value)
    }

    /// Appends the row as a JSON object, without a newline.
    pub fn write_json(&self, out: &mut Vec<u8>) {
        serde_json::to_writer(out, self).expect("writing to memory");
    }
}
