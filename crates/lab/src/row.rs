//! The data of all studies in one shape: a table of rows, each with a key and columns that are
//! integers or texts.

use serde::{Deserialize, Serialize};

/// What a key or a column holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A whole number of 64 bits.
    Integer,
    /// UTF-8 text.
    Text,
}

/// One key or one column of one row.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Value {
    /// See [`Kind::Integer`].
    Integer(i64),
    /// See [`Kind::Text`].
    Text(String),
}

impl Value {
    /// The kind of columns that take this value.
    pub fn kind(&self) -> Kind {
        match self {
            Value::Integer(_) => Kind::Integer,
            Value::Text(_) => Kind::Text,
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
    /// Lower-case letters, digits and `_`: a name that every store takes as it is.
    pub name: String,
    /// What it holds.
    pub kind: Kind,
    /// Whether counts ask for it: a store that has secondary indexes makes one.
    #[serde(default)]
    pub indexed: bool,
}

/// A table as a study wants it; every driver turns it into its store's own tables, mappings or key
/// spaces.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Schema {
    /// Lower-case letters, digits and `_`.
    pub table: String,
    /// What keys are.
    pub key: Kind,
    /// In the order of [`Row::values`].
    pub columns: Vec<Column>,
}

impl Schema {
    /// The place of the column with this name.
    pub fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.name == name)
    }
}

/// One record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Row {
    /// Unique in its table.
    pub key: Value,
    /// One for each column of the schema, in its order.
    pub values: Vec<Value>,
}
