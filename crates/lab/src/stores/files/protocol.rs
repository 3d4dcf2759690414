//! What driver and process of the store `files` say to each other: a line of JSON for a request,
//! and one for its answer.

use serde::{Deserialize, Serialize};

/// A request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    /// The versions of the programs that search.
    Version,
    /// Removes a table.
    Create {
        /// Its name.
        table: String,
    },
    /// Adds lines to a table.
    Append {
        /// Its name.
        table: String,
        /// The lines, each with its end.
        text: String,
        /// Whether they are on disk before the answer.
        sync: bool,
    },
    /// Writes a table to the disk; the answer is its size in bytes.
    Sync {
        /// Its name.
        table: String,
    },
    /// Searches a table; the answer is what the programs print.
    Find(Find),
}

/// A search. Fields of a line are counted from 1.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Find {
    /// The table.
    pub table: String,
    /// A text that a line must have.
    pub text: Option<Text>,
    /// Fields that must have these values.
    pub equals: Vec<(usize, String)>,
    /// A field that is a number: from the first, and before the second.
    pub range: Option<(usize, i64, i64)>,
    /// The result that is wanted of the matching lines.
    pub print: Print,
}

/// A text, in the words of `rg`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Text {
    /// `--word-regexp --fixed-strings`
    Word(String),
    /// `--fixed-strings`
    Fixed(String),
    /// A regular expression.
    Regex(String),
}

/// The output of a search.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Print {
    /// The number of lines.
    Count,
    /// The first line that is found.
    First,
    /// The lines with the highest numbers in a field, the highest first: the field, and their
    /// limit.
    Highest(usize, usize),
    /// Values of a field, each with its number of lines behind a tab.
    CountBy(usize),
    /// Multiples of a step in a field, each with its number of lines behind a tab.
    CountOver(usize, i64),
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    /// The answer to the request.
    Done(String),
    /// Why there is no answer.
    Failed(String),
}
