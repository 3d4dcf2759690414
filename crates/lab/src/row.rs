//! The data of all studies in one form: a table of rows, each with a key and columns that are
//! integers or texts.

use serde::{Deserialize, Serialize};

/// The type of a key or a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ColumnKind {
    /// A whole number of 64 bits.
    Integer,
    /// UTF-8 text.
    Text,
}

/// A key, or the value of a column.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Value {
    /// See [`ColumnKind::Integer`].
    Integer(i64),
    /// See [`ColumnKind::Text`].
    Text(String),
}

impl Value {
    /// The type of columns for this value.
    pub fn kind(&self) -> ColumnKind {
        match self {
            Value::Integer(_) => ColumnKind::Integer,
            Value::Text(_) => ColumnKind::Text,
        }
    }
}

impl std::fmt::Display for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Value::Integer(number) => number.fmt(f),
            Value::Text(text) => text.fmt(f),
        }
    }
}

/// A column of a table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Column {
    /// Lower-case letters, digits and `_`: a name that every store accepts unquoted.
    pub name: String,
    /// Its type.
    pub kind: ColumnKind,
    /// Whether counts filter by it: a store with secondary indexes creates one.
    #[serde(default)]
    pub indexed: bool,
    /// Whether it is the time of the row, in milliseconds since 1970.
    #[serde(default)]
    pub time: bool,
    /// Whether texts are searched by words: a store with a full-text index creates one.
    #[serde(default)]
    pub words: bool,
}

impl Column {
    /// A column that is neither the time nor searched by words.
    pub fn new(name: &str, kind: ColumnKind, indexed: bool) -> Column {
        Column { name: name.to_owned(), kind, indexed, time: false, words: false }
    }
}

/// A table of a study; drivers map it to their store's tables, mappings or key spaces.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Schema {
    /// Lower-case letters, digits and `_`.
    pub table: String,
    /// The type of keys.
    pub key: ColumnKind,
    /// In the order of [`Row::values`].
    pub columns: Vec<Column>,
}

impl Schema {
    /// The index of the column with this name.
    pub fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.name == name)
    }

    /// The index of the column with the time of the row.
    pub fn time(&self) -> Option<usize> {
        self.columns.iter().position(|column| column.time)
    }
}

/// One record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Row {
    /// Unique in its table.
    pub key: Value,
    /// One value for each column of the schema, in its order.
    pub values: Vec<Value>,
}

impl Row {
    /// Bytes of its values as a line of text, with a space between two and a line break: what
    /// figures per gigabyte refer to.
    pub fn text_bytes(&self) -> u64 {
        let value = |value: &Value| match value {
            Value::Integer(number) => {
                u64::from(number.unsigned_abs().checked_ilog10().unwrap_or(0)) + 1
            }
            Value::Text(text) => text.len() as u64,
        };
        self.values.iter().map(|each| value(each) + 1).sum()
    }
}
