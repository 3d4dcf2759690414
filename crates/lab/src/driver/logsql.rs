//! LogsQL, the query language that Loginson and VictoriaLogs share: searches here, tables in
//! [`table`], and their servers over HTTP in [`node`].

pub(crate) mod node;
pub(crate) mod table;

use std::collections::BTreeMap;
use std::ops::Range;

use jiff::{SignedDuration, Timestamp};

use super::Answer;
use super::search::{Match, Search, Wanted};
use crate::row::{ColumnKind, Row, Schema, Value};
use table::COUNT;

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

/// The query for a search among the lines that `table` selects. `field` names the field of a
/// column.
pub fn query<'a>(table: &str, field: impl Fn(usize) -> &'a str, search: &Search) -> String {
    let mut query = table.to_owned();
    if let Some((from, to)) = search.time.and_then(|(from, to)| Some((time(from)?, time(to)?))) {
        query += &format!(" _time:[{from}, {to})");
    }
    for (column, value) in &search.equals {
        query += &format!(" {}:={}", field(*column), quoted(&value.to_string()));
    }
    match &search.text {
        None => {}
        Some((column, Match::Word(text) | Match::Phrase(text))) => {
            query += &format!(" {}:{}", field(*column), quoted(text));
        }
        Some((column, Match::Regex(regex))) => {
            query += &format!(" {}:~{}", field(*column), quoted(regex));
        }
    }
    query += &match &search.wanted {
        Wanted::Count => format!(" | stats count() as {COUNT}"),
        Wanted::Latest { rows_max } => format!(" | sort by (_time desc) limit {rows_max}"),
        Wanted::CountBy { column } => {
            format!(" | stats by ({}) count() as {COUNT}", field(*column))
        }
        Wanted::CountOver { step_ms } => {
            format!(" | stats by (_time:{step_ms}ms) count() as {COUNT}")
        }
    };
    query
}

fn time(ms: i64) -> Option<Timestamp> {
    Timestamp::from_millisecond(ms).ok()
}

/// The answer in the lines of a response. `row` makes a row of a line.
pub fn answer<'a>(
    schema: &Schema,
    field: impl Fn(usize) -> &'a str,
    search: &Search,
    lines: &[Line],
    row: impl Fn(&Line) -> Result<Row, String>,
) -> Result<Answer, String> {
    let count = |line: &Line| {
        let count = line.get(COUNT).and_then(|count| count.parse().ok());
        count.ok_or_else(|| format!("a line without a count: {line:?}"))
    };
    let text = |line: &Line, name: &str| line.get(name).cloned().unwrap_or_default();
    let groups = |value: &dyn Fn(&Line) -> Result<Value, String>| {
        let groups = lines.iter().map(|line| Ok((value(line)?, count(line)?)));
        let mut groups = groups.collect::<Result<Vec<_>, String>>()?;
        groups.sort();
        Ok(Answer::Groups(groups))
    };
    match &search.wanted {
        Wanted::Count => match lines {
            [line] => Ok(Answer::Count(count(line)?)),
            _ => Err(format!("a count has {} lines", lines.len())),
        },
        Wanted::Latest { .. } => Ok(Answer::Rows(lines.iter().map(row).collect::<Result<_, _>>()?)),
        Wanted::CountBy { column } => {
            groups(&|line| value_of(&text(line, field(*column)), schema.columns[*column].kind))
        }
        Wanted::CountOver { .. } => groups(&|line| {
            let text = text(line, "_time");
            let time = text.parse::<Timestamp>().map_err(|_| format!("`{text}` is not a time"))?;
            Ok(Value::Integer(time.as_millisecond()))
        }),
    }
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

/// Builds a row from the fields of a line, in which `key` has its key; the error says what is wrong
/// with them. A missing field is empty, and a time that has no field of its own is that of the
/// line.
pub fn row<'a>(
    schema: &Schema,
    key: &str,
    time: Option<&TimeColumn>,
    field: impl Fn(usize) -> &'a str,
    fields: &Line,
) -> Result<Row, String> {
    let text = |name: &str| fields.get(name).map_or("", String::as_str);
    let columns = schema.columns.iter().enumerate();
    let values = columns.map(|(at, column)| {
        let named = text(field(at));
        match time {
            Some(time) if time.is(at) && named.is_empty() => {
                let text = text("_time");
                let found = text.parse().map_err(|_| format!("`{text}` is not a time"))?;
                Ok(time.value(found))
            }
            _ => value_of(named, column.kind),
        }
    });
    let values = values.collect::<Result<_, String>>()?;
    Ok(Row { key: value_of(text(key), schema.key)?, values })
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::lines::line;

    const FIELDS: [&str; 5] = ["_time", "host", "program", "severity", "_msg"];

    fn search(text: Option<Match>, wanted: Wanted) -> Search {
        let text = text.map(|text| (line::MESSAGE, text));
        Search { text, equals: Vec::new(), time: None, wanted }
    }

    #[test]
    fn searches_are_queries() {
        let host = (line::HOST, Value::Text("web\"1".to_owned()));
        let filtered = Search {
            equals: vec![host],
            time: Some((1_700_000_000_000, 1_700_000_000_250)),
            ..search(None, Wanted::CountBy { column: line::PROGRAM })
        };
        for (search, expected) in [
            (
                search(Some(Match::Word("failed".into())), Wanted::Count),
                "T _msg:\"failed\" | stats count() as n",
            ),
            (
                search(Some(Match::Regex("a\\.b".into())), Wanted::Count),
                "T _msg:~\"a\\\\.b\" | stats count() as n",
            ),
            (
                search(Some(Match::Phrase("a b".into())), Wanted::Latest { rows_max: 7 }),
                "T _msg:\"a b\" | sort by (_time desc) limit 7",
            ),
            (
                search(None, Wanted::CountOver { step_ms: 60_000 }),
                "T | stats by (_time:60000ms) count() as n",
            ),
            (
                filtered,
                "T _time:[2023-11-14T22:13:20Z, 2023-11-14T22:13:20.25Z) host:=\"web\\\"1\" | stats by (program) count() as n",
            ),
        ] {
            assert_eq!(query("T", |at| FIELDS[at], &search), expected);
        }
    }

    #[test]
    fn lines_are_answers() {
        let schema = line::schema("lines");
        let lines = |fields: &[&[(&str, &str)]]| -> Vec<Line> {
            let of = |line: &&[(&str, &str)]| {
                line.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
            };
            fields.iter().map(of).collect()
        };
        let found = |wanted: Wanted, fields: &[&[(&str, &str)]]| {
            let row = |_: &Line| Ok(line::line(1));
            answer(&schema, |at| FIELDS[at], &search(None, wanted), &lines(fields), row)
        };
        assert_eq!(found(Wanted::Count, &[&[("n", "12")]]), Ok(Answer::Count(12)));
        assert!(found(Wanted::Count, &[]).is_err());
        assert!(found(Wanted::Count, &[&[("n", "x")]]).is_err());
        let by = found(
            Wanted::CountBy { column: line::PROGRAM },
            &[&[("program", "sshd"), ("n", "2")], &[("program", "nova"), ("n", "1")]],
        );
        let text = |text: &str| Value::Text(text.to_owned());
        assert_eq!(by, Ok(Answer::Groups(vec![(text("nova"), 1), (text("sshd"), 2)])));
        let over = Wanted::CountOver { step_ms: 1000 };
        let bars = found(over.clone(), &[&[("_time", "2023-11-14T22:13:20Z"), ("n", "3")]]);
        assert_eq!(bars, Ok(Answer::Groups(vec![(Value::Integer(1_700_000_000_000), 3)])));
        assert!(found(over, &[&[("_time", "yesterday"), ("n", "3")]]).is_err());
    }
}
