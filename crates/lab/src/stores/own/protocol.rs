//! What the lab and a program of the user's own say to each other: a line of JSON for a request,
//! and one for its answer. `docs/lab/own-store.md` describes it for those who write such a program.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::driver::Settle;
use crate::driver::aggregate::{Aggregation, Function};
use crate::driver::search::{Match, Search, Wanted};
use crate::row::{Row, Schema, Value};

/// A request. Columns are given by name.
#[derive(Debug, Serialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub enum Request<'a> {
    /// For a client of the lab's: the store of all further requests on this connection.
    Connect {
        endpoints: &'a [String],
        timeout_s: u64,
        options: &'a BTreeMap<String, String>,
    },
    /// The version of the store: [`Reply::Text`].
    Version,
    /// The table of all further requests on this connection, and the options of the store. The
    /// table may not exist yet.
    Open {
        schema: &'a Schema,
        options: &'a BTreeMap<String, String>,
    },
    /// Creates the table again, empty.
    Create,
    /// Everything acknowledged has reached that state before the answer.
    Settle {
        until: Settle,
    },
    /// The size of the table on disk: [`Reply::Bytes`].
    Size,
    /// Adds rows, each as a list of its key and its values.
    Insert {
        rows: Vec<Vec<&'a Value>>,
    },
    /// The row with this key: [`Reply::Rows`].
    Read {
        key: &'a Value,
    },
    /// Replaces columns of a row; `done` is whether there is such a row.
    Update {
        key: &'a Value,
        changes: Pairs<'a>,
    },
    /// Rows from this key on: [`Reply::Rows`].
    Scan {
        from: &'a Value,
        rows_max: usize,
    },
    /// The number of rows with these values: [`Reply::Count`].
    Count {
        conditions: Pairs<'a>,
    },
    /// Removes a row, if there is one.
    Delete {
        key: &'a Value,
    },
    Search(Asked<'a>),
    Aggregate(Computed<'a>),
}

/// Columns, by name, and their values.
pub type Pairs<'a> = Vec<(&'a str, &'a Value)>;

/// A search: [`Reply::Count`], [`Reply::Rows`] or [`Reply::Groups`], as it wants.
#[derive(Debug, Serialize)]
pub struct Asked<'a> {
    /// What the text of a column must have.
    pub text: Option<Text<'a>>,
    /// The values that columns must have.
    pub conditions: Pairs<'a>,
    /// The column of the time: from the first, and before the second.
    pub time: Option<Range<'a>>,
    /// The result that is wanted of the matching rows.
    pub want: Want<'a>,
}

/// A condition on a text.
#[derive(Debug, Serialize)]
pub struct Text<'a> {
    column: &'a str,
    /// `word`, `phrase` or `regex`.
    kind: &'static str,
    value: &'a str,
}

/// The values of an integer column: from the first, and before the second.
#[derive(Debug, Serialize)]
pub struct Range<'a> {
    column: &'a str,
    from: i64,
    to: i64,
}

/// See [`Wanted`].
#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Want<'a> {
    Count,
    Latest { column: &'a str, rows_max: usize },
    CountBy { column: &'a str },
    CountOver { column: &'a str, step_ms: i64 },
}

/// A function over rows: [`Reply::Aggregate`].
#[derive(Debug, Serialize)]
pub struct Computed<'a> {
    /// `max`, or `sum`, of which the lab makes an average.
    function: &'static str,
    column: &'a str,
    conditions: Pairs<'a>,
    within: Option<Range<'a>>,
}

/// An answer.
#[derive(Debug, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    Done(bool),
    Text(String),
    Bytes(Option<u64>),
    /// Each a list of its key and its values.
    Rows(Vec<Vec<Value>>),
    Count(u64),
    Groups(Vec<(Value, u64)>),
    Aggregate {
        rows: u64,
        value: Option<i64>,
    },
    /// Why there is no answer.
    Error(String),
    /// Why the store cannot be reached.
    Unreachable(String),
}

/// Columns with their names.
pub fn pairs<'a>(schema: &'a Schema, of: &'a [(usize, Value)]) -> Pairs<'a> {
    of.iter().map(|(at, value)| (name(schema, *at), value)).collect()
}

/// A row as a list.
pub fn list(row: &Row) -> Vec<&Value> {
    std::iter::once(&row.key).chain(&row.values).collect()
}

/// The row of a list; what is wrong with it otherwise.
pub fn row(schema: &Schema, list: Vec<Value>) -> Result<Row, String> {
    let kinds = std::iter::once(schema.key).chain(schema.columns.iter().map(|c| c.kind));
    if list.len() != schema.columns.len() + 1 || !list.iter().map(Value::kind).eq(kinds) {
        let shape: Vec<&str> = schema.columns.iter().map(|column| &*column.name).collect();
        let text = serde_json::to_string(&list).unwrap_or_default();
        return Err(format!("the row {text} is not a key and {}", shape.join(", ")));
    }
    let mut values = list.into_iter();
    let key = values.next().ok_or("a row without a key")?;
    Ok(Row { key, values: values.collect() })
}

/// A search in names; `None` if it is by time, and the table has none.
pub fn asked<'a>(schema: &'a Schema, search: &'a Search) -> Option<Asked<'a>> {
    let time = || Some(name(schema, schema.time()?));
    Some(Asked {
        text: search.text.as_ref().map(|(at, text)| {
            let (kind, value) = match text {
                Match::Word(value) => ("word", value),
                Match::Phrase(value) => ("phrase", value),
                Match::Regex(value) => ("regex", value),
            };
            Text { column: name(schema, *at), kind, value }
        }),
        conditions: pairs(schema, &search.equals),
        time: match search.time {
            Some((from, to)) => Some(Range { column: time()?, from, to }),
            None => None,
        },
        want: match search.wanted {
            Wanted::Count => Want::Count,
            Wanted::Latest { rows_max } => Want::Latest { column: time()?, rows_max },
            Wanted::CountBy { column } => Want::CountBy { column: name(schema, column) },
            Wanted::CountOver { step_ms } => Want::CountOver { column: time()?, step_ms },
        },
    })
}

/// A function in names.
pub fn computed<'a>(schema: &'a Schema, asked: &'a Aggregation) -> Computed<'a> {
    Computed {
        function: match asked.function {
            Function::Max => "max",
            Function::Average => "sum",
        },
        column: name(schema, asked.column),
        conditions: pairs(schema, &asked.conditions),
        within: asked.within.map(|within| Range {
            column: name(schema, within.column),
            from: within.from,
            to: within.to,
        }),
    }
}

fn name(schema: &Schema, column: usize) -> &str {
    &schema.columns[column].name
}
