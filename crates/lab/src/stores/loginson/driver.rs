//! Loginson, over its HTTP API like any other store: a row is a JSON line whose type is the name of
//! the table.
//!
//! The key is the field [`KEY`] and is read with an exact filter; counts are queries in LogsQL. The
//! message (a column `message`) and the time (option `time`) are the message and the event time of
//! the line, as in any log store, so that the store can use its indexes for them. A column of times
//! holds whole seconds since 1970, or milliseconds if the schema says that it is the time; a number
//! outside of the times between then and 2255 is kept as a field. An insert is acknowledged when
//! its line is durable.
//!
//! A store of logs cannot change lines and has no order of keys: updates, scans and single deletes
//! are not supported. Creating a table deletes its earlier lines. With several endpoints each is a
//! shard ([`Ring`]).
//!
//! Streams come in over syslog, into the table [`stream::TABLE`] alone: a rule of the server gives
//! lines from this machine that type. Senders of syslog get no answer, so a line has arrived when
//! the store counts it as kept.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::try_join_all;
use jiff::Timestamp;
use reqwest::Method;
use serde::Deserialize;

use crate::driver::aggregate::{Aggregate, Aggregation, Function, Within};
use crate::driver::collector::Streaming;
use crate::driver::http::{Http, Reply, form, push_segment};
use crate::driver::logsql::{self, Line, TimeColumn, end_line, push_field, quoted};
use crate::driver::ring::Ring;
use crate::driver::search::Search;
use crate::driver::sender::{Sender, Unit};
use crate::driver::sharded::{Shard, Sharded};
use crate::driver::stream::{self, Sum};
use crate::driver::{
    Ability, Answer, Driver, MAINTENANCE_TIMEOUT, OpenError, Session, Settle, StoreError,
    StoreSpec, TIMEOUT, short_message, within,
};
use crate::options::Known;
use crate::row::{Row, Schema, Value};

/// The field of the key. No column has this name, because columns have no capitals.
const KEY: &str = "Key";

/// The column that is the message of a line if the schema has it.
const MESSAGE: &str = "message";

/// Seconds since 1970 that can be times of lines: Loginson stores nanoseconds in 64 bits, and
/// replaces invalid times by the arrival time.
const TIMES: std::ops::Range<i64> = 1..9_000_000_000;

/// The time of lines whose time column has no valid time: a second outside of [`TIMES`], so that no
/// count includes them.
const NO_TIME: &str = "1970-01-01T00:00:00Z";

/// Lines that are read by one query, about: an answer has a limit of ten million rows.
const WINDOW_LINES: i64 = 5_000_000;

/// Time between two polls of background work.
const LOOK: Duration = Duration::from_millis(20);

const FORM: &str = "application/x-www-form-urlencoded";
const LINES: &str = "application/x-ndjson";

/// The option for the addresses of syslog.
pub(super) const SYSLOG: &str = "syslog";

/// The source of these lines in the status.
const SYSLOG_TCP: &str = "syslog_tcp";

/// Its options.
pub(crate) const OPTIONS: &[Known] = &[
    TIMEOUT,
    Known {
        name: "time",
        default: "timestamp",
        help: "the integer column with the time of a line, s since 1970, if the table has it",
    },
    Known {
        name: SYSLOG,
        default: "",
        help: "HOST:PORT of each node for syslog over TCP, with a comma between; the lab's servers name it",
    },
    Known {
        name: "seal",
        default: "yes",
        help: "whether data that is flushed is sealed, as users have it; `no` measures it unsealed",
    },
];

struct Loginson {
    store: String,
    endpoints: Vec<String>,
    timeout: Duration,
    time: String,
    seal: bool,
    ring: Arc<Ring>,
    nodes: Vec<Http>,
    /// None without addresses for syslog.
    sender: Option<Sender>,
}

pub(crate) fn open(spec: &StoreSpec) -> Result<Arc<dyn Driver>, OpenError> {
    let options = crate::driver::options(spec, OPTIONS)?;
    let timeout = crate::driver::timeout(&options)?;
    let store = spec.name.clone();
    let endpoints = spec.endpoints.clone();
    let nodes = Http::each(&store, &endpoints, timeout);
    let ring = Arc::new(Ring::new(nodes.len()));
    let time = options.text("time").to_owned();
    let seal = options.choice("seal", &["yes", "no"])? == "yes";
    let sender = Sender::of(&store, options.text(SYSLOG), timeout, Unit::Lines);
    Ok(Arc::new(Loginson { store, endpoints, timeout, time, seal, ring, nodes, sender }))
}

/// The fields of `/api/v1/status` that are used.
#[derive(Deserialize)]
struct Status {
    version: String,
    store: StoreStatus,
    ingest: Vec<Source>,
    parse_lag_lines: u64,
}

#[derive(Deserialize)]
struct Source {
    source: String,
    lines_kept: u64,
}

#[derive(Deserialize)]
struct StoreStatus {
    bytes_disk: u64,
    sealing: Sealing,
}

#[derive(Deserialize)]
struct Sealing {
    lag_segments: u64,
}

/// The fields of an entry of `/api/v1/deletions` that are used.
#[derive(Deserialize)]
struct Deletion {
    id: String,
    state: String,
    note: Option<String>,
}

#[async_trait]
impl Driver for Loginson {
    fn abilities(&self) -> &'static [Ability] {
        &[
            Ability::Insert,
            Ability::InsertMany,
            Ability::Read,
            Ability::Count,
            Ability::Search,
            Ability::Regex,
            Ability::Aggregate,
            Ability::Stream,
        ]
    }

    async fn version(&self) -> Result<String, StoreError> {
        let all = try_join_all(self.nodes.iter().map(status)).await?;
        let mut versions: Vec<String> = all.into_iter().map(|s| s.version).collect();
        versions.dedup();
        Ok(versions.join("; "))
    }

    fn versions_tested(&self) -> &'static [&'static str] {
        &[env!("CARGO_PKG_VERSION")]
    }

    async fn create(&self, schema: &Schema) -> Result<(), StoreError> {
        let delete = try_join_all(self.nodes.iter().map(|node| delete(node, schema)));
        within(&self.store, MAINTENANCE_TIMEOUT, delete).await?;
        if let Some(sender) = self.sender.as_ref().filter(|_| schema.table == stream::TABLE) {
            sender.begin(self.kept().await?);
        }
        Ok(())
    }

    async fn settle(&self, _: &Schema, settle: Settle) -> Result<(), StoreError> {
        let all = async {
            if let Some(mut waiting) = self.sender.as_ref().and_then(Sender::waiting) {
                while !waiting.is_over(self.kept().await?).await? {}
            }
            // Queries see a line once it is durable: they parse by themselves what is not parsed.
            if settle != Settle::Visible {
                try_join_all(self.nodes.iter().map(|node| settled(node, self.seal))).await?;
            }
            Ok(())
        };
        within(&self.store, MAINTENANCE_TIMEOUT, all).await
    }

    /// Lines that come over syslog are durable first, and parsed and sealed later.
    async fn process(&self, schema: &Schema) -> Result<(), StoreError> {
        self.settle(schema, Settle::Flushed).await
    }

    /// The size of everything in the store, which has no tables.
    async fn table_bytes(&self, _: &Schema) -> Result<Option<u64>, StoreError> {
        let all = try_join_all(self.nodes.iter().map(status)).await?;
        Ok(Some(all.into_iter().map(|s| s.store.bytes_disk).sum()))
    }

    async fn connect(&self, schema: &Schema) -> Result<Box<dyn Session>, StoreError> {
        if let Some(sender) = self.sender.as_ref().filter(|_| schema.table == stream::TABLE) {
            let connection = sender.connect(self.kept().await?).await?;
            return Ok(Box::new(Streaming { store: self.store.clone(), connection }));
        }
        let nodes = Http::each(&self.store, &self.endpoints, self.timeout);
        let table = Arc::new(Table::new(&self.store, schema, &self.time));
        let nodes = nodes.into_iter().map(|http| Node { http, table: table.clone() }).collect();
        Ok(Box::new(Sharded::new(&self.store, self.timeout, &self.ring, schema, nodes)))
    }

    async fn arrived(&self, schema: &Schema) -> Result<Option<Sum>, StoreError> {
        let table = Table::new(&self.store, schema, &self.time);
        let mut all = Sum::default();
        for node in &self.nodes {
            // Parsing goes on behind the arrival; reading is faster after it.
            settled(node, false).await?;
            for times in windows(node, &table).await? {
                let query = form("format=raw&query", &format!("{}{times}", table.lines()));
                // An export would be sorted, for which it goes through such lines several times.
                let (path, limit) = ("/select/logsql/query", MAINTENANCE_TIMEOUT);
                let take = |line: &[u8]| all.add_line(line);
                node.lines(limit, Method::POST, path, FORM, query, take).await?;
            }
        }
        Ok(Some(all))
    }
}

impl Loginson {
    /// Lines that all nodes have kept of those that came over syslog, since they began.
    async fn kept(&self) -> Result<u64, StoreError> {
        let all = try_join_all(self.nodes.iter().map(status)).await?;
        let sources = all.iter().flat_map(|status| &status.ingest);
        let kept = sources.filter(|source| source.source == SYSLOG_TCP).map(|s| s.lines_kept);
        Ok(kept.sum())
    }
}

async fn status(node: &Http) -> Result<Status, StoreError> {
    let reply = node.send(Method::GET, "/api/v1/status", FORM, "").await?;
    parsed(node, reply)
}

/// Waits for background work of the store, until acknowledged lines are parsed. With `seal` the
/// active segment is closed first, and all lines are sealed, as they are for users after the first
/// minutes or hours.
async fn settled(node: &Http, seal: bool) -> Result<(), StoreError> {
    if seal {
        good(node, node.send(Method::POST, "/api/v1/seal", FORM, "").await?)?;
    }
    loop {
        let status = status(node).await?;
        let sealed = !seal || status.store.sealing.lag_segments == 0;
        if status.parse_lag_lines == 0 && sealed {
            return Ok(());
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Filters for the times of a table's lines, each for a part of them, and together for all.
async fn windows(node: &Http, table: &Table) -> Result<Vec<String>, StoreError> {
    let query = format!("{} | stats count() n, min(_time) first, max(_time) last", table.lines());
    // Over a hundred million lines, it takes longer than a query of a study may.
    let (path, query) = ("/select/logsql/query", form("query", &query));
    let reply = node.send_within(MAINTENANCE_TIMEOUT, Method::POST, path, FORM, query).await?;
    let line = lines_of(node, reply)?.into_iter().next().unwrap_or_default();
    let value = |name: &str| line.get(name).map_or("", String::as_str);
    let lines: i64 = value("n").parse().map_err(|_| node.answer("a count is a number".into()))?;
    if lines == 0 {
        return Ok(Vec::new());
    }
    let time = |name: &str| -> Result<Timestamp, StoreError> {
        let text = value(name);
        text.parse().map_err(|_| node.answer(format!("`{text}` is not a time")))
    };
    // The end of the last one is behind the last line.
    let (first, last) = (time("first")?.as_second(), time("last")?.as_second() + 1);
    let windows = (lines / WINDOW_LINES + 1).min(last - first).max(1);
    let at = |place: i64| Timestamp::from_second(first + (last - first) * place / windows);
    let filter = |place: i64| {
        let (from, to) = at(place).and_then(|from| Ok((from, at(place + 1)?))).ok()?;
        Some(format!(" _time:[{from}, {to})"))
    };
    Ok((0..windows).filter_map(filter).collect())
}

/// Deletes all lines of a table, and waits until they are gone.
async fn delete(node: &Http, schema: &Schema) -> Result<(), StoreError> {
    let filter = form("filter", &format!("_type:={}", quoted(&schema.table)));
    let reply = node.send(Method::POST, "/api/v1/deletions", FORM, filter).await?;
    let mut deletion: Deletion = parsed(node, reply)?;
    loop {
        match deletion.state.as_str() {
            "running" => {}
            "done" => return Ok(()),
            state => {
                let note = deletion.note.unwrap_or_default();
                return Err(node.refused(format!("the deletion of the table is {state}: {note}")));
            }
        }
        tokio::time::sleep(LOOK).await;
        let mut path = "/api/v1/deletions/".to_owned();
        push_segment(&mut path, &deletion.id);
        deletion = parsed(node, node.send(Method::GET, &path, FORM, "").await?)?;
    }
}

/// The JSON of a response, or the store's error message.
fn parsed<T>(node: &Http, reply: Reply) -> Result<T, StoreError>
where
    T: serde::de::DeserializeOwned,
{
    let reply = good(node, reply)?;
    serde_json::from_slice(&reply.body).map_err(|e| node.answer(e.to_string()))
}

fn good(node: &Http, reply: Reply) -> Result<Reply, StoreError> {
    #[derive(Deserialize)]
    struct Failure {
        error: String,
    }
    if (200..300).contains(&reply.status) {
        return Ok(reply);
    }
    let reason = match serde_json::from_slice::<Failure>(&reply.body) {
        Ok(failure) => failure.error,
        Err(_) => short_message(&String::from_utf8_lossy(&reply.body)),
    };
    Err(node.refused(format!("status {}: {reason}", reply.status)))
}

/// The fields of a table's columns in lines.
struct Table {
    store: String,
    schema: Schema,
    time: Option<TimeColumn>,
    /// Path of inserts.
    insert: String,
}

impl Table {
    fn new(store: &str, schema: &Schema, time: &str) -> Table {
        let time = TimeColumn::of(schema, time, TIMES);
        // Names that Loginson would use as the time are ordinary fields, except the configured one.
        let insert = format!("/insert/jsonline?_type={}&_time_field=_time", schema.table);
        Table { store: store.to_owned(), schema: schema.clone(), time, insert }
    }

    /// The field of a column; a time is in `_time`.
    fn field(&self, column: usize) -> &str {
        match &self.schema.columns[column] {
            column if column.name == MESSAGE => "_msg",
            column => &column.name,
        }
    }

    /// Appends a row as a line.
    fn push_line(&self, out: &mut Vec<u8>, row: &Row) {
        push_field(out, KEY, &row.key.to_string());
        for (column, value) in row.values.iter().enumerate() {
            match self.time_of(column, value) {
                Some(time) => push_field(out, "_time", &time.to_string()),
                None => push_field(out, self.field(column), &value.to_string()),
            }
            if self.is_time(column) && self.time_of(column, value).is_none() {
                push_field(out, "_time", NO_TIME);
            }
        }
        end_line(out);
    }

    /// The time of a line with this value, if it is a valid time.
    fn time_of(&self, column: usize, value: &Value) -> Option<Timestamp> {
        self.time.as_ref().filter(|time| time.is(column))?.time(value)
    }

    fn is_time(&self, column: usize) -> bool {
        self.time.as_ref().is_some_and(|time| time.is(column))
    }

    /// The filter for all lines of the table.
    fn lines(&self) -> String {
        format!("_type:={}", quoted(&self.schema.table))
    }

    fn read_query(&self, key: &Value) -> String {
        format!("{} {KEY}:={}", self.lines(), quoted(&key.to_string()))
    }

    fn count_query(&self, conditions: &[(usize, Value)]) -> String {
        self.filter(conditions) + " | stats count() as n"
    }

    /// Lines with these values.
    fn filter(&self, conditions: &[(usize, Value)]) -> String {
        let mut query = self.lines();
        for (column, value) in conditions {
            let time = self.time.as_ref().filter(|time| time.is(*column));
            match time.and_then(|time| Some(time.filter(time.time(value)?))) {
                Some(filter) => query.push_str(&filter),
                None => {
                    let value = quoted(&value.to_string());
                    query.push_str(&format!(" {}:={value}", self.field(*column)));
                }
            }
        }
        query
    }

    /// A query for the number of lines and the result of a function.
    fn aggregate_query(&self, asked: &Aggregation) -> String {
        let mut query = self.filter(&asked.conditions);
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
        query + &format!(" | stats count() as n, {function}({}) as v", self.field(asked.column))
    }

    /// The row of a line. A number that is not a valid time has its own field; the time of the line
    /// is a placeholder then.
    fn row(&self, fields: &Line) -> Result<Row, String> {
        logsql::row(&self.schema, KEY, self.time.as_ref(), |column| self.field(column), fields)
    }
}

/// One of the servers of a session.
struct Node {
    http: Http,
    table: Arc<Table>,
}

#[async_trait]
impl Shard for Node {
    fn store(&self) -> &str {
        &self.table.store
    }

    async fn insert_many(&mut self, rows: &[&Row]) -> Result<(), StoreError> {
        let mut body = Vec::new();
        for row in rows {
            self.table.push_line(&mut body, row);
        }
        let reply = self.http.send(Method::POST, &self.table.insert, LINES, body).await?;
        good(&self.http, reply).map(|_| ())
    }

    async fn read(&mut self, key: &Value) -> Result<Option<Row>, StoreError> {
        let line = first_line(&self.http, &self.table.read_query(key)).await?;
        let row = line.map(|line| self.table.row(&line)).transpose();
        row.map_err(|reason| self.http.answer(reason))
    }

    async fn count(&mut self, conditions: &[(usize, Value)]) -> Result<u64, StoreError> {
        let query = self.table.count_query(conditions);
        let line = first_line(&self.http, &query).await?.unwrap_or_default();
        let count = line.get("n").and_then(|n| n.parse().ok());
        count.ok_or_else(|| self.http.answer("a count is one number".to_owned()))
    }

    async fn search(&mut self, search: &Search) -> Result<Answer, StoreError> {
        let table = &self.table;
        let field = |column: usize| table.field(column);
        let query = logsql::query(&table.lines(), field, search);
        let lines = answer_lines(&self.http, &form("query", &query)).await?;
        logsql::answer(&table.schema, field, search, &lines, |line| table.row(line))
            .map_err(|reason| self.http.answer(reason))
    }

    async fn aggregate(&mut self, asked: &Aggregation) -> Result<Aggregate, StoreError> {
        let node = &self.http;
        let line = first_line(node, &self.table.aggregate_query(asked)).await?.unwrap_or_default();
        let rows = line.get("n").and_then(|n| n.parse().ok());
        let rows = rows.ok_or_else(|| node.answer("a count is one number".to_owned()))?;
        if rows == 0 {
            return Ok(Aggregate::default());
        }
        let value = line.get("v").and_then(|value| value.parse().ok());
        let told = || node.answer(format!("the result {:?} is no integer", line.get("v")));
        Ok(Aggregate { rows, value: Some(value.ok_or_else(told)?) })
    }

    fn no_stream(&self) -> StoreError {
        stream::elsewhere(&self.table.store, SYSLOG)
    }
}

/// The first line of an answer.
async fn first_line(node: &Http, query: &str) -> Result<Option<Line>, StoreError> {
    Ok(answer_lines(node, &form("limit=1&query", query)).await?.into_iter().next())
}

async fn answer_lines(node: &Http, body: &str) -> Result<Vec<Line>, StoreError> {
    let reply = node.send(Method::POST, "/select/logsql/query", FORM, body.to_owned()).await?;
    lines_of(node, reply)
}

/// The lines of an answer to a query.
fn lines_of(node: &Http, reply: Reply) -> Result<Vec<Line>, StoreError> {
    let reply = good(node, reply)?;
    let lines = reply.body.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let line = |line: &[u8]| {
        // Values of rows are strings; an error is an object.
        if line.starts_with(b"{\"_error\":{") {
            return Err(node.refused(short_message(&String::from_utf8_lossy(line))));
        }
        serde_json::from_slice(line).map_err(|e| node.answer(e.to_string()))
    };
    lines.map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::{Column, ColumnKind};

    fn table() -> Table {
        let column = |name: &str, kind| Column::new(name, kind, true);
        let columns = vec![
            column("timestamp", ColumnKind::Integer),
            column("machine", ColumnKind::Text),
            column("message", ColumnKind::Text),
        ];
        let schema = Schema { table: "logs".to_owned(), key: ColumnKind::Text, columns };
        Table::new("loginson", &schema, "timestamp")
    }

    fn row(seconds: i64) -> Row {
        let text = |text: &str| Value::Text(text.to_owned());
        let values = vec![Value::Integer(seconds), text("a \"b\""), text("x\ny")];
        Row { key: text("k1"), values }
    }

    #[test]
    fn rows_are_lines_and_lines_are_rows() {
        for (seconds, time) in [
            (1_427_000_000, "\"_time\":\"2015-03-22T04:53:20Z\""),
            (-1, "\"timestamp\":\"-1\",\"_time\":\"1970-01-01T00:00:00Z\""),
            (0, "\"timestamp\":\"0\",\"_time\":\"1970-01-01T00:00:00Z\""),
            (i64::MAX, "\"timestamp\":\"9223372036854775807\",\"_time\":\"1970-01-01T00:00:00Z\""),
        ] {
            let mut line = Vec::new();
            table().push_line(&mut line, &row(seconds));
            let expected = format!(
                "{{\"Key\":\"k1\",{time},\"machine\":\"a \\\"b\\\"\",\"_msg\":\"x\\ny\"}}\n"
            );
            assert_eq!(String::from_utf8(line.clone()).unwrap(), expected);
            let fields = serde_json::from_slice(&line).unwrap();
            assert_eq!(table().row(&fields), Ok(row(seconds)));
        }
    }

    #[test]
    fn queries_name_the_table_and_quote_values() {
        let text = |text: &str| Value::Text(text.to_owned());
        assert_eq!(table().read_query(&text("a\"|b")), "_type:=\"logs\" Key:=\"a\\\"|b\"");
        for (conditions, query) in [
            (vec![], "_type:=\"logs\" | stats count() as n"),
            (
                vec![(0, Value::Integer(1_427_000_000)), (2, text("m"))],
                "_type:=\"logs\" _time:[2015-03-22T04:53:20Z, 2015-03-22T04:53:21Z) _msg:=\"m\" | stats count() as n",
            ),
            (
                vec![(0, Value::Integer(-5))],
                "_type:=\"logs\" timestamp:=\"-5\" | stats count() as n",
            ),
        ] {
            assert_eq!(table().count_query(&conditions), query);
        }
        let asked = |within| Aggregation {
            function: Function::Average,
            column: 0,
            conditions: vec![(1, text("m"))],
            within: Some(within),
        };
        assert_eq!(
            table().aggregate_query(&asked(Within {
                column: 0,
                from: 1_427_000_000,
                to: 1_427_000_060
            })),
            "_type:=\"logs\" machine:=\"m\" _time:[2015-03-22T04:53:20Z, 2015-03-22T04:54:20Z) | stats count() as n, sum(timestamp) as v"
        );
        assert_eq!(
            table().aggregate_query(&asked(Within { column: 2, from: -1, to: 5 })),
            "_type:=\"logs\" machine:=\"m\" _msg:range[-1, 5) | stats count() as n, sum(timestamp) as v"
        );
    }
}
