//! A table's rows as JSON lines, and its queries in LogsQL, in the dialect of a store.
//!
//! Every value is a text, and an empty value is the same as none. The column `message` is the
//! message of the line, and the column of times its time.

use std::ops::Range;

use jiff::Timestamp;

use super::{Line, TimeColumn, end_line, push_field, quoted, value_of};
use crate::driver::Answer;
use crate::driver::aggregate::{Aggregation, Function, Within};
use crate::driver::search::{Match, Search, Wanted};
use crate::row::{ColumnKind, Row, Schema, Value};

/// The field of the key. No column has this name, because columns have no capitals.
const KEY: &str = "Key";

/// The field of a count's answer.
pub(super) const COUNT: &str = "n";

/// The field of the result of a function.
pub(super) const VALUE: &str = "v";

/// The column that is the message of a line if the schema has it.
const MESSAGE: &str = "message";

/// What differs between the stores that speak LogsQL.
#[derive(Debug)]
pub(crate) struct Dialect {
    /// The field with the name of a line's table, which is part of its stream; none where the table
    /// is the type of the line.
    pub table: Option<&'static str>,
    /// Seconds since 1970 that become times of lines. Other numbers are kept as fields.
    pub times: Range<i64>,
    /// The time of lines without a valid one: a second outside of `times`, so that no count by time
    /// includes them.
    pub no_time: &'static str,
    /// The type of the content of an insert.
    pub content: &'static str,
    /// Limit of one line, bytes.
    pub line_bytes_max: usize,
    /// Whether functions over columns of numbers are asked for.
    pub aggregates: bool,
}

/// The fields of a table's columns in lines.
pub(crate) struct Table {
    pub(super) schema: Schema,
    pub(super) dialect: &'static Dialect,
    time: Option<TimeColumn>,
    /// Columns that are part of the stream.
    stream: Vec<usize>,
    insert_path: String,
    /// The pipe that leaves the fields of the columns in an answer.
    fields: String,
}

impl Table {
    /// `time` is the name of a column of integers, `stream` has names of columns of texts; columns
    /// that the table does not have are passed over.
    pub fn new(dialect: &'static Dialect, schema: &Schema, time: &str, stream: &[String]) -> Table {
        let column = |name: &str, kind: ColumnKind| {
            schema.column(name).filter(|at| schema.columns[*at].kind == kind)
        };
        let mut table = Table {
            schema: schema.clone(),
            time: TimeColumn::of(schema, time, dialect.times.clone()),
            dialect,
            // The message of a line cannot be part of its stream.
            stream: stream
                .iter()
                .filter(|name| *name != MESSAGE)
                .filter_map(|name| column(name, ColumnKind::Text))
                .collect(),
            // Names that a store would use as the time are ordinary fields, except the time.
            insert_path: match dialect.table {
                Some(table) => format!("/insert/jsonline?_stream_fields={table}"),
                None => format!("/insert/jsonline?_type={}&_time_field=_time", schema.table),
            },
            fields: String::new(),
        };
        if dialect.table.is_none() {
            return table;
        }
        table.fields = format!(" | fields {KEY}, _time");
        for column in 0..schema.columns.len() {
            if table.stream.contains(&column) {
                table.insert_path.push(',');
                table.insert_path.push_str(&schema.columns[column].name);
            }
            let field = quoted(table.field(column));
            table.fields.push_str(", ");
            table.fields.push_str(&field);
        }
        table
    }

    /// The path of inserts.
    pub fn insert_path(&self) -> &str {
        &self.insert_path
    }

    /// The field of a column; a valid time is in `_time` instead.
    fn field(&self, column: usize) -> &str {
        match &self.schema.columns[column] {
            column if column.name == MESSAGE => "_msg",
            column => &column.name,
        }
    }

    /// Appends a row as a line.
    pub fn push_line(&self, out: &mut Vec<u8>, row: &Row) {
        if let Some(table) = self.dialect.table {
            push_field(out, table, &self.schema.table);
        }
        push_field(out, KEY, &row.key.to_string());
        let mut time = self.dialect.no_time.to_owned();
        for (column, value) in row.values.iter().enumerate() {
            match self.time_of(column, value) {
                Some(valid) => time = valid.to_string(),
                None => push_field(out, self.field(column), &value.to_string()),
            }
        }
        push_field(out, "_time", &time);
        end_line(out);
    }

    /// The time of a line with this value, if it is a valid time.
    fn time_of(&self, column: usize, value: &Value) -> Option<Timestamp> {
        self.time.as_ref().filter(|time| time.is(column))?.time(value)
    }

    /// All lines of the table.
    pub fn filter(&self) -> String {
        self.streams(&[])
    }

    /// The streams of the table whose columns have these values.
    fn streams(&self, conditions: &[(usize, &str)]) -> String {
        let name = quoted(&self.schema.table);
        let Some(table) = self.dialect.table else { return format!("_type:={name}") };
        let mut streams = format!("{{{table}={name}");
        for (column, value) in conditions {
            streams.push_str(&format!(",{}={}", self.field(*column), quoted(value)));
        }
        streams.push('}');
        streams
    }

    /// The query for the row of a key.
    pub fn read_query(&self, key: &Value) -> String {
        format!("{} {KEY}:={}{}", self.filter(), quoted(&key.to_string()), self.fields)
    }

    /// The query that counts lines.
    pub fn count_query(&self, conditions: &[(usize, Value)]) -> String {
        format!("{} | stats count() as {COUNT}", self.lines_with(conditions))
    }

    /// A query for the number of lines and the result of a function.
    pub fn aggregate_query(&self, asked: &Aggregation) -> String {
        let mut query = self.lines_with(&asked.conditions);
        if let Some(Within { column, from, to }) = asked.within {
            let time = |seconds| self.time_of(column, &Value::Integer(seconds));
            query += &match time(from).zip(time(to)) {
                Some((from, to)) => format!(" _time:[{from}, {to})"),
                None => format!(" {}:range[{from}, {to})", self.field(column)),
            };
        }
        let function = match asked.function {
            Function::Max => "max",
            Function::Average => "sum",
        };
        let column = self.field(asked.column);
        query + &format!(" | stats count() as {COUNT}, {function}({column}) as {VALUE}")
    }

    /// The filter for lines with these values.
    fn lines_with(&self, conditions: &[(usize, Value)]) -> String {
        let mut streams = Vec::new();
        let mut filters = String::new();
        for (column, value) in conditions {
            let time = self.time.as_ref().filter(|time| time.is(*column));
            match (time.and_then(|time| Some(time.filter(time.time(value)?))), value) {
                (Some(filter), _) => filters.push_str(&filter),
                (None, Value::Text(text)) if self.stream.contains(column) => {
                    streams.push((*column, text.as_str()));
                }
                (None, value) => {
                    let value = quoted(&value.to_string());
                    filters.push_str(&format!(" {}:={value}", quoted(self.field(*column))));
                }
            }
        }
        self.streams(&streams) + &filters
    }

    /// The query for a search. Columns of the stream choose streams, as in a count.
    pub fn search_query(&self, search: &Search) -> String {
        let (streams, others): (Vec<_>, Vec<_>) =
            search.equals.iter().partition(|(at, _)| self.stream.contains(at));
        let texts: Vec<(usize, String)> =
            streams.iter().map(|(at, value)| (*at, value.to_string())).collect();
        let streams: Vec<(usize, &str)> =
            texts.iter().map(|(at, text)| (*at, text.as_str())).collect();
        let mut query = self.streams(&streams);
        let time = |ms| Timestamp::from_millisecond(ms).ok();
        if let Some((from, to)) = search.time.and_then(|(from, to)| time(from).zip(time(to))) {
            query += &format!(" _time:[{from}, {to})");
        }
        for (column, value) in others {
            query += &format!(" {}:={}", self.field(*column), quoted(&value.to_string()));
        }
        match &search.text {
            None => {}
            Some((column, Match::Word(text) | Match::Phrase(text))) => {
                query += &format!(" {}:{}", self.field(*column), quoted(text));
            }
            Some((column, Match::Regex(regex))) => {
                query += &format!(" {}:~{}", self.field(*column), quoted(regex));
            }
        }
        query += &match &search.wanted {
            Wanted::Count => format!(" | stats count() as {COUNT}"),
            Wanted::Latest { rows_max } => {
                format!(" | sort by (_time desc) limit {rows_max}{}", self.fields)
            }
            Wanted::CountBy { column } => {
                format!(" | stats by ({}) count() as {COUNT}", self.field(*column))
            }
            Wanted::CountOver { step_ms } => {
                format!(" | stats by (_time:{step_ms}ms) count() as {COUNT}")
            }
        };
        query
    }

    /// The answer to a search, in the lines of a response.
    pub fn found(&self, search: &Search, lines: &[Line]) -> Result<Answer, String> {
        let count = |line: &Line| {
            let count = line.get(COUNT).and_then(|count| count.parse().ok());
            count.ok_or_else(|| format!("a line without a count: {line:?}"))
        };
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
            Wanted::Latest { .. } => {
                let rows = lines.iter().map(|line| self.row(line));
                Ok(Answer::Rows(rows.collect::<Result<_, _>>()?))
            }
            Wanted::CountBy { column } => {
                let kind = self.schema.columns[*column].kind;
                groups(&|line| value_of(text(line, self.field(*column)), kind))
            }
            Wanted::CountOver { .. } => {
                groups(&|line| Ok(Value::Integer(time(line)?.as_millisecond())))
            }
        }
    }

    /// The row of a line. A missing field is empty, and a time that has no field of its own is that
    /// of the line.
    pub fn row(&self, fields: &Line) -> Result<Row, String> {
        let columns = self.schema.columns.iter().enumerate();
        let values = columns.map(|(at, column)| {
            let named = text(fields, self.field(at));
            match &self.time {
                Some(own) if own.is(at) && named.is_empty() => Ok(own.value(time(fields)?)),
                _ => value_of(named, column.kind),
            }
        });
        let values = values.collect::<Result<_, String>>()?;
        Ok(Row { key: value_of(text(fields, KEY), self.schema.key)?, values })
    }
}

fn text<'a>(line: &'a Line, field: &str) -> &'a str {
    line.get(field).map_or("", String::as_str)
}

fn time(line: &Line) -> Result<Timestamp, String> {
    let text = text(line, "_time");
    text.parse().map_err(|_| format!("`{text}` is not a time"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::Column;
    use crate::workload::lines::line;

    const STREAMS: Dialect = Dialect {
        table: Some("Table"),
        times: 2..1_700_000_000,
        no_time: "1970-01-01T00:00:01Z",
        content: "",
        line_bytes_max: 1_000,
        aggregates: false,
    };
    const TYPES: Dialect = Dialect { table: None, ..STREAMS };

    fn table(dialect: &'static Dialect) -> Table {
        let column = |name: &str, kind| Column::new(name, kind, true);
        let columns = vec![
            column("timestamp", ColumnKind::Integer),
            column("machine", ColumnKind::Text),
            column("severity", ColumnKind::Integer),
            column("message", ColumnKind::Text),
        ];
        let schema = Schema { table: "logs".to_owned(), key: ColumnKind::Text, columns };
        // Of these columns one is text, one is a number, one the message, and one is not there.
        let stream = ["machine", "severity", "message", "service"].map(str::to_owned);
        let stream = if dialect.table.is_some() { &stream[..] } else { &[] };
        Table::new(dialect, &schema, "timestamp", stream)
    }

    fn text(text: &str) -> Value {
        Value::Text(text.to_owned())
    }

    fn row(seconds: i64) -> Row {
        let values =
            vec![Value::Integer(seconds), text("a \"b\""), Value::Integer(3), text("x\ny")];
        Row { key: text("k1"), values }
    }

    #[test]
    fn rows_are_lines_and_lines_are_rows() {
        let no_time =
            |number: i64| (format!("\"timestamp\":\"{number}\","), STREAMS.no_time.to_owned());
        for (seconds, (field, time)) in [
            (1_427_000_000, (String::new(), "2015-03-22T04:53:20Z".to_owned())),
            (2, (String::new(), "1970-01-01T00:00:02Z".to_owned())),
            (1, no_time(1)),
            (-1, no_time(-1)),
            (1_700_000_000, no_time(1_700_000_000)),
            (i64::MAX, no_time(i64::MAX)),
        ] {
            for (dialect, begin) in [(&STREAMS, "\"Table\":\"logs\","), (&TYPES, "")] {
                let mut line = Vec::new();
                table(dialect).push_line(&mut line, &row(seconds));
                let expected = format!(
                    "{{{begin}\"Key\":\"k1\",{field}\"machine\":\"a \\\"b\\\"\",\
                     \"severity\":\"3\",\"_msg\":\"x\\ny\",\"_time\":\"{time}\"}}\n"
                );
                assert_eq!(String::from_utf8(line.clone()).unwrap(), expected);
                let fields = serde_json::from_slice(&line).unwrap();
                assert_eq!(table(dialect).row(&fields), Ok(row(seconds)));
            }
        }
    }

    #[test]
    fn lines_of_others_are_errors() {
        for (line, reason) in [
            ("{}", "`` is not a time"),
            ("{\"_time\":\"today\"}", "`today` is not a time"),
            ("{\"timestamp\":\"12x\"}", "`12x` is not a number"),
            ("{\"timestamp\":\"1\",\"severity\":\"\"}", "`` is not a number"),
        ] {
            let fields = serde_json::from_str(line).unwrap();
            assert_eq!(table(&STREAMS).row(&fields), Err(reason.to_owned()), "{line}");
        }
    }

    #[test]
    fn inserts_name_the_fields_of_the_stream_or_the_type() {
        let path = "/insert/jsonline?_stream_fields=Table,machine";
        assert_eq!(table(&STREAMS).insert_path(), path);
        let path = "/insert/jsonline?_type=logs&_time_field=_time";
        assert_eq!(table(&TYPES).insert_path(), path);
    }

    #[test]
    fn queries_name_the_table_and_quote_values() {
        assert_eq!(
            table(&STREAMS).read_query(&text("a\"|b")),
            "{Table=\"logs\"} Key:=\"a\\\"|b\" | fields Key, _time, \"timestamp\", \"machine\", \"severity\", \"_msg\""
        );
        assert_eq!(table(&TYPES).read_query(&text("a\"|b")), "_type:=\"logs\" Key:=\"a\\\"|b\"");
        let second = "_time:[2015-03-22T04:53:20Z, 2015-03-22T04:53:21Z)";
        for (conditions, streams, types) in [
            (vec![], "{Table=\"logs\"}".to_owned(), String::new()),
            (
                vec![(0, Value::Integer(1_427_000_000)), (1, text("m\\")), (3, text("x"))],
                format!("{{Table=\"logs\",machine=\"m\\\\\"}} {second} \"_msg\":=\"x\""),
                format!(" {second} \"machine\":=\"m\\\\\" \"_msg\":=\"x\""),
            ),
            (
                vec![(0, Value::Integer(-5)), (2, Value::Integer(3)), (1, text(""))],
                "{Table=\"logs\",machine=\"\"} \"timestamp\":=\"-5\" \"severity\":=\"3\""
                    .to_owned(),
                " \"timestamp\":=\"-5\" \"severity\":=\"3\" \"machine\":=\"\"".to_owned(),
            ),
        ] {
            let count = " | stats count() as n";
            assert_eq!(table(&STREAMS).count_query(&conditions), streams + count);
            let types = format!("_type:=\"logs\"{types}{count}");
            assert_eq!(table(&TYPES).count_query(&conditions), types);
        }
    }

    #[test]
    fn functions_are_within_times_or_numbers() {
        let (from, to) = (1_427_000_000, 1_427_000_060);
        for (within, filter) in [
            (Within { column: 0, from, to }, "_time:[2015-03-22T04:53:20Z, 2015-03-22T04:54:20Z)"),
            (Within { column: 2, from: -1, to: 5 }, "severity:range[-1, 5)"),
        ] {
            let conditions = vec![(1, text("m"))];
            let (function, within) = (Function::Average, Some(within));
            let asked = Aggregation { function, column: 2, conditions, within };
            let expected = format!(
                "_type:=\"logs\" \"machine\":=\"m\" {filter} | stats count() as n, sum(severity) as v"
            );
            assert_eq!(table(&TYPES).aggregate_query(&asked), expected);
        }
    }

    fn search(text: Option<Match>, wanted: Wanted) -> Search {
        let text = text.map(|text| (line::MESSAGE, text));
        Search { text, equals: Vec::new(), time: None, wanted }
    }

    #[test]
    fn searches_are_queries() {
        let schema = line::schema("lines");
        let host = (line::HOST, Value::Text("web\"1".to_owned()));
        let filtered = Search {
            equals: vec![host],
            time: Some((1_700_000_000_000, 1_700_000_000_250)),
            ..search(None, Wanted::CountBy { column: line::PROGRAM })
        };
        for (search, expected) in [
            (
                search(Some(Match::Word("failed".into())), Wanted::Count),
                "_msg:\"failed\" | stats count() as n",
            ),
            (
                search(Some(Match::Regex("a\\.b".into())), Wanted::Count),
                "_msg:~\"a\\\\.b\" | stats count() as n",
            ),
            (
                search(Some(Match::Phrase("a b".into())), Wanted::Latest { rows_max: 7 }),
                "_msg:\"a b\" | sort by (_time desc) limit 7",
            ),
            (
                search(None, Wanted::CountOver { step_ms: 60_000 }),
                "| stats by (_time:60000ms) count() as n",
            ),
            (
                filtered,
                "_time:[2023-11-14T22:13:20Z, 2023-11-14T22:13:20.25Z) host:=\"web\\\"1\" | stats by (program) count() as n",
            ),
        ] {
            let expected = format!("_type:=\"lines\" {expected}");
            assert_eq!(Table::new(&TYPES, &schema, "", &[]).search_query(&search), expected);
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
            let table = Table::new(&TYPES, &schema, "", &[]);
            table.found(&search(None, wanted), &lines(fields))
        };
        assert_eq!(found(Wanted::Count, &[&[("n", "12")]]), Ok(Answer::Count(12)));
        assert!(found(Wanted::Count, &[]).is_err());
        assert!(found(Wanted::Count, &[&[("n", "x")]]).is_err());
        let by = found(
            Wanted::CountBy { column: line::PROGRAM },
            &[&[("program", "sshd"), ("n", "2")], &[("program", "nova"), ("n", "1")]],
        );
        assert_eq!(by, Ok(Answer::Groups(vec![(text("nova"), 1), (text("sshd"), 2)])));
        let over = Wanted::CountOver { step_ms: 1000 };
        let bars = found(over.clone(), &[&[("_time", "2023-11-14T22:13:20Z"), ("n", "3")]]);
        assert_eq!(bars, Ok(Answer::Groups(vec![(Value::Integer(1_700_000_000_000), 3)])));
        assert!(found(over, &[&[("_time", "yesterday"), ("n", "3")]]).is_err());
    }
}
