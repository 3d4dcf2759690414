//! A table's rows as JSON lines, and its queries in LogsQL, in the dialect of a store.
//!
//! Every value is a text, and an empty value is the same as none. The column `message` is the
//! message of the line, and the column of times its time.

use std::ops::Range;

use jiff::Timestamp;

use super::{Line, TimeColumn, end_line, push_field, quoted};
use crate::driver::Answer;
use crate::driver::aggregate::{Aggregation, Function, Within};
use crate::driver::search::{Search, Wanted};
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
            search.equals.iter().cloned().partition(|(at, _)| self.stream.contains(at));
        let texts: Vec<(usize, String)> =
            streams.iter().map(|(at, value)| (*at, value.to_string())).collect();
        let streams: Vec<(usize, &str)> =
            texts.iter().map(|(at, text)| (*at, text.as_str())).collect();
        let rest = Search { equals: others, ..search.clone() };
        let query = super::query(&self.streams(&streams), |column| self.field(column), &rest);
        match search.wanted {
            Wanted::Latest { .. } => query + &self.fields,
            _ => query,
        }
    }

    /// The answer to a search, in the lines of a response.
    pub fn found(&self, search: &Search, lines: &[Line]) -> Result<Answer, String> {
        super::answer(
            &self.schema,
            |column| self.field(column),
            search,
            lines,
            |line| self.row(line),
        )
    }

    /// The row of a line.
    pub fn row(&self, fields: &Line) -> Result<Row, String> {
        super::row(&self.schema, KEY, self.time.as_ref(), |column| self.field(column), fields)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::Column;

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
}
