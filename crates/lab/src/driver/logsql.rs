//! LogsQL, the query language that Loginson and VictoriaLogs share: tables and searches in
//! [`table`], and their servers over HTTP in [`node`].

pub(crate) mod node;
pub(crate) mod table;

use std::collections::BTreeMap;
use std::ops::Range;

use jiff::{SignedDuration, Timestamp};

use crate::row::{ColumnKind, Schema, Value};

/// A line of an answer: fields with their values.
pub type Line = BTreeMap<String, String>;

/// A string literal of LogsQL, which has the escapes of JSON.
pub fn quoted(text: &str) -> String {
    serde_json::to_string(text).expect("a text is JSON")
}

/// Appends a field to a line in JSON that [`end_line`] ends; the first field begins the line.
pub fn push_field(line: &mut Vec<u8>, name: &str, value: &str) {
    let begins = line.last().is_none_or(|byte| *byte == b'\n');
    line.push(if begins { b'{' } else { b',' });
    serde_json::to_writer(&mut *line, name).expect("a text is JSON");
    line.push(b':');
    serde_json::to_writer(&mut *line, value).expect("a text is JSON");
}

/// Ends a line in JSON.
pub fn end_line(line: &mut Vec<u8>) {
    line.extend(b"}\n");
}

/// The column of a table that is the time of its lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimeColumn {
    column: usize,
    /// Of the column in a second.
    units: i64,
    /// Seconds since 1970 that the store takes as times.
    valid: Range<i64>,
}

impl TimeColumn {
    /// The schema's own column of times, in milliseconds, or the integer column `named`, in
    /// seconds. A number outside of `valid` seconds is kept as a field.
    pub fn of(schema: &Schema, named: &str, valid: Range<i64>) -> Option<TimeColumn> {
        let is_integer = |at: &usize| schema.columns[*at].kind == ColumnKind::Integer;
        let named = || schema.column(named).filter(is_integer).map(|at| (at, 1));
        let (column, units) = schema.time().map(|at| (at, 1_000)).or_else(named)?;
        Some(TimeColumn { column, units, valid })
    }

    /// Whether it is this column.
    pub fn is(&self, column: usize) -> bool {
        self.column == column
    }

    /// The time of a line with this value, if it is a valid time.
    pub fn time(&self, value: &Value) -> Option<Timestamp> {
        match value {
            Value::Integer(time) if self.valid.contains(&(time / self.units)) => {
                Timestamp::from_millisecond(time * (1_000 / self.units)).ok()
            }
            _ => None,
        }
    }

    /// The filter for lines of one value of the column, whose time this is.
    pub fn filter(&self, time: Timestamp) -> String {
        let end = time + SignedDuration::from_millis(1_000 / self.units);
        format!(" _time:[{time}, {end})")
    }

    /// The value of the column in a line with this time.
    fn value(&self, time: Timestamp) -> Value {
        Value::Integer(time.as_millisecond() * self.units / 1_000)
    }
}

/// The value of a column in a field of a line.
pub fn value_of(text: &str, kind: ColumnKind) -> Result<Value, String> {
    match kind {
        ColumnKind::Text => Ok(Value::Text(text.to_owned())),
        ColumnKind::Integer => {
            text.parse().map(Value::Integer).map_err(|_| format!("`{text}` is not a number"))
        }
    }
}
