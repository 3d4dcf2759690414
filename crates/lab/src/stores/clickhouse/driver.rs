//! ClickHouse, over its HTTP interface: a table is a MergeTree sorted by the key. The same driver
//! reaches chDB, ClickHouse's engine in process, behind the lab's own HTTP server.
//!
//! An insert is acknowledged when its rows are a part of the table, which every query sees at once;
//! parts are merged in the background. The part is with the system, and on disk when the system
//! writes it, or before the acknowledgement (option `fsync`).
//!
//! Changes of rows (`ALTER TABLE … UPDATE`) rewrite parts and are not operations on rows: updates
//! and single deletes are not supported. With several endpoints each is a shard ([`Ring`]). Left
//! out: replicated and distributed tables, asynchronous inserts, and authentication.

mod statements;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::try_join_all;
use reqwest::Method;
use serde::Deserialize;

use self::statements::Statements;
use crate::driver::http::Http;
use crate::driver::ring::Ring;
use crate::driver::search::{Search, Wanted};
use crate::driver::sharded::{Shard, Sharded};
use crate::driver::{
    Ability, Answer, Driver, MAINTENANCE_TIMEOUT, OpenError, Session, Settle, StoreError,
    StoreSpec, TIMEOUT, short_message, within,
};
use crate::options::Known;
use crate::row::{ColumnKind, Row, Schema, Value};

/// The first release whose `DROP TABLE … SYNC` waits until data is gone.
const SYNC_RELEASE: u32 = 21;

/// The first release that searches for words by themselves (`hasToken`); before, by a regular
/// expression.
const TOKENS_RELEASE: u32 = 20;

/// Time between two attempts to merge all parts.
const LOOK: Duration = Duration::from_millis(100);

const TEXT: &str = "text/plain; charset=utf-8";

/// The whole result is made before the response begins, so that an error has a status of its own.
const PATH: &str = "/?wait_end_of_query=1";

/// Its options.
pub(crate) const OPTIONS: &[Known] = &[
    TIMEOUT,
    Known {
        name: "order",
        default: "",
        help: "columns that rows are sorted by before the key, those that the table has, as timestamp:machine",
    },
    Known {
        name: "fsync",
        default: "no",
        help: "yes: rows are on disk before they are acknowledged; needs release 20.10",
    },
    Known {
        name: "words",
        default: "no",
        help: "yes: texts that are searched have an index over their words; needs release 26.2",
    },
];

struct ClickHouse {
    store: String,
    /// What [`Driver::version`] begins with.
    product: &'static str,
    endpoints: Vec<String>,
    timeout: Duration,
    order: Vec<String>,
    fsync: bool,
    words: bool,
    ring: Arc<Ring>,
    nodes: Vec<Http>,
}

/// ClickHouse's own server.
pub(crate) fn open(spec: &StoreSpec) -> Result<Arc<dyn Driver>, OpenError> {
    open_product(spec, "ClickHouse")
}

/// The engine behind the lab's server.
pub(crate) fn open_chdb(spec: &StoreSpec) -> Result<Arc<dyn Driver>, OpenError> {
    open_product(spec, "chDB (one query at a time), engine ClickHouse")
}

fn open_product(spec: &StoreSpec, product: &'static str) -> Result<Arc<dyn Driver>, OpenError> {
    let options = crate::driver::options(spec, OPTIONS)?;
    let timeout = crate::driver::timeout(&options)?;
    let nodes = Http::each(&spec.name, &spec.endpoints, timeout);
    Ok(Arc::new(ClickHouse {
        store: spec.name.clone(),
        product,
        endpoints: spec.endpoints.clone(),
        timeout,
        order: options.text("order").split(':').map(str::to_owned).collect(),
        fsync: options.choice("fsync", &["no", "yes"])? == "yes",
        words: options.choice("words", &["no", "yes"])? == "yes",
        ring: Arc::new(Ring::new(nodes.len())),
        nodes,
    }))
}

#[async_trait]
impl Driver for ClickHouse {
    fn abilities(&self) -> &'static [Ability] {
        &[
            Ability::Insert,
            Ability::InsertMany,
            Ability::Read,
            Ability::Scan,
            Ability::Count,
            Ability::Search,
            Ability::Regex,
        ]
    }

    async fn version(&self) -> Result<String, StoreError> {
        let mut versions = try_join_all(self.nodes.iter().map(release)).await?;
        versions.dedup();
        Ok(format!("{} {}", self.product, versions.join("; ")))
    }

    fn versions_tested(&self) -> &'static [&'static str] {
        &["ClickHouse 18.16.", "chDB (one query at a time), engine ClickHouse 26.9."]
    }

    async fn create(&self, schema: &Schema) -> Result<(), StoreError> {
        let statements = Statements::new(schema);
        let create = statements.create(&self.order, self.fsync, self.words);
        for node in &self.nodes {
            let waits = year(node).await? >= SYNC_RELEASE;
            maintain(node, statements.drop(waits)).await?;
            maintain(node, create.clone()).await?;
        }
        Ok(())
    }

    /// Acknowledged rows are visible and in files: only merging is left to do.
    async fn settle(&self, schema: &Schema, settle: Settle) -> Result<(), StoreError> {
        if settle != Settle::Compacted {
            return Ok(());
        }
        let statements = Statements::new(schema);
        let merged = try_join_all(self.nodes.iter().map(|node| merged(node, &statements)));
        within(&self.store, MAINTENANCE_TIMEOUT, merged).await.map(|_| ())
    }

    /// The size of the parts that are in use; files of merged parts may stay for some minutes more.
    async fn table_bytes(&self, schema: &Schema) -> Result<Option<u64>, StoreError> {
        let query = Statements::new(schema).parts("sum(bytes_on_disk)");
        let bytes = self.nodes.iter().map(|node| number(node, query.clone()));
        Ok(Some(try_join_all(bytes).await?.into_iter().sum()))
    }

    async fn connect(&self, schema: &Schema) -> Result<Box<dyn Session>, StoreError> {
        let nodes = Http::each(&self.store, &self.endpoints, self.timeout);
        let (schema, statements) = (Arc::new(schema.clone()), Arc::new(Statements::new(schema)));
        try_join_all(nodes.iter().map(|node| ask(node, statements.nothing()))).await?;
        let years = try_join_all(nodes.iter().map(year)).await?;
        let node = |(http, year): (Http, u32)| Node {
            store: self.store.clone(),
            http,
            schema: schema.clone(),
            statements: statements.clone(),
            has_tokens: year >= TOKENS_RELEASE,
        };
        let nodes = nodes.into_iter().zip(years).map(node).collect();
        Ok(Box::new(Sharded::new(&self.store, self.timeout, &self.ring, &schema, nodes)))
    }
}

async fn release(node: &Http) -> Result<String, StoreError> {
    match one(node, "SELECT version() FORMAT JSONCompact", ColumnKind::Text).await? {
        Value::Text(release) => Ok(release),
        Value::Integer(release) => Ok(release.to_string()),
    }
}

/// The year of a release; 0 if it has none.
async fn year(node: &Http) -> Result<u32, StoreError> {
    let release = release(node).await?;
    Ok(release.split('.').next().and_then(|year| year.parse().ok()).unwrap_or(0))
}

/// Merges all parts of a table into one. The server may refuse silently while it merges already.
async fn merged(node: &Http, statements: &Statements) -> Result<(), StoreError> {
    while number(node, statements.parts("count()")).await? > 1 {
        maintain(node, statements.optimize()).await?;
        tokio::time::sleep(LOOK).await;
    }
    Ok(())
}

async fn number(node: &Http, query: String) -> Result<u64, StoreError> {
    let number = match one(node, query, ColumnKind::Integer).await? {
        Value::Integer(number) => u64::try_from(number).ok(),
        Value::Text(_) => None,
    };
    number.ok_or_else(|| node.answer("a count below 0".to_owned()))
}

/// The answer to a query that has one value.
async fn one(
    node: &Http,
    query: impl Into<reqwest::Body>,
    kind: ColumnKind,
) -> Result<Value, StoreError> {
    let rows = table(node, query, &[kind]).await?;
    let value = rows.into_iter().flatten().next();
    value.ok_or_else(|| node.answer("an answer without a value".to_owned()))
}

/// The answer to a query whose columns are of these kinds.
async fn table(
    node: &Http,
    query: impl Into<reqwest::Body>,
    kinds: &[ColumnKind],
) -> Result<Vec<Vec<Value>>, StoreError> {
    let answer = ask(node, query).await?;
    rows(&answer, kinds).map_err(|reason| node.answer(reason))
}

/// The rows of an answer in the format JSONCompact.
fn rows(answer: &[u8], kinds: &[ColumnKind]) -> Result<Vec<Vec<Value>>, String> {
    #[derive(Deserialize)]
    struct Answer {
        data: Vec<Vec<Value>>,
    }
    // Releases up to 2025 quote integers.
    let value = |(value, kind): (Value, &ColumnKind)| match (value, kind) {
        (Value::Text(text), ColumnKind::Integer) => match text.parse() {
            Ok(number) => Ok(Value::Integer(number)),
            Err(_) => Err(format!("`{text}` is not a number")),
        },
        (Value::Integer(number), ColumnKind::Text) => Err(format!("{number} is not a text")),
        (value, _) => Ok(value),
    };
    let row = |row: Vec<Value>| match row.len() == kinds.len() {
        true => row.into_iter().zip(kinds).map(value).collect(),
        false => Err(format!("a row has {} values, and not {}", row.len(), kinds.len())),
    };
    let answer: Answer = serde_json::from_slice(answer).map_err(|e| e.to_string())?;
    answer.data.into_iter().map(row).collect()
}

async fn ask(node: &Http, query: impl Into<reqwest::Body>) -> Result<Vec<u8>, StoreError> {
    let reply = node.send(Method::POST, PATH, TEXT, query).await?;
    match reply.status {
        200 => Ok(reply.body),
        status => Err(node.refused(refusal(status, &reply.body))),
    }
}

async fn maintain(node: &Http, statement: String) -> Result<(), StoreError> {
    let reply = node.send_within(MAINTENANCE_TIMEOUT, Method::POST, PATH, TEXT, statement).await?;
    match reply.status {
        200 => Ok(()),
        status => Err(node.refused(refusal(status, &reply.body))),
    }
}

/// The store's error message; for kinds with a remedy it begins with the remedy.
fn refusal(status: u16, body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    let words = format!("status {status}: {}", short_message(&text));
    let remedy = [
        ("Too many parts", "it merges more slowly than inserts arrive, insert more rows at once"),
        ("Memory limit", "raise the option memory_mb of the server"),
        ("Unknown setting fsync_after_insert", "fsync=yes needs release 20.10 or later"),
        ("No space left", "its disk is full, free some"),
    ];
    match remedy.iter().find(|(sign, _)| text.contains(sign)) {
        Some((_, remedy)) => format!("{remedy}: {words}"),
        None => words,
    }
}

/// One of the servers of a session.
struct Node {
    store: String,
    http: Http,
    schema: Arc<Schema>,
    statements: Arc<Statements>,
    /// Whether the server searches for words by itself.
    has_tokens: bool,
}

#[async_trait]
impl Shard for Node {
    fn store(&self) -> &str {
        &self.store
    }

    async fn insert_many(&mut self, rows: &[&Row]) -> Result<(), StoreError> {
        ask(&self.http, self.statements.insert(rows)).await.map(|_| ())
    }

    async fn read(&mut self, key: &Value) -> Result<Option<Row>, StoreError> {
        Ok(self.rows(self.statements.read(key)).await?.into_iter().next())
    }

    async fn scan(&mut self, from: &Value, rows_max: usize) -> Result<Vec<Row>, StoreError> {
        self.rows(self.statements.scan(from, rows_max)).await
    }

    async fn count(&mut self, conditions: &[(usize, Value)]) -> Result<u64, StoreError> {
        number(&self.http, self.statements.count(conditions)).await
    }

    async fn search(&mut self, search: &Search) -> Result<Answer, StoreError> {
        let query = self.statements.search(search, self.has_tokens);
        let query = query.ok_or_else(|| self.http.refused("the table has no time".to_owned()))?;
        let kind = match search.wanted {
            Wanted::Count => return number(&self.http, query).await.map(Answer::Count),
            Wanted::Latest { .. } => return self.rows(query).await.map(Answer::Rows),
            Wanted::CountBy { column } => self.schema.columns[column].kind,
            Wanted::CountOver { .. } => ColumnKind::Integer,
        };
        let mut groups = Vec::new();
        for row in table(&self.http, query, &[kind, ColumnKind::Integer]).await? {
            match <[Value; 2]>::try_from(row) {
                Ok([value, Value::Integer(count)]) => groups.push((value, count as u64)),
                _ => return Err(self.http.answer("a group without a number".to_owned())),
            }
        }
        groups.sort();
        Ok(Answer::Groups(groups))
    }
}

impl Node {
    async fn rows(&self, query: String) -> Result<Vec<Row>, StoreError> {
        let columns = self.schema.columns.iter().map(|column| column.kind);
        let kinds: Vec<ColumnKind> = std::iter::once(self.schema.key).chain(columns).collect();
        let row = |mut values: Vec<Value>| Row { key: values.remove(0), values };
        Ok(table(&self.http, query, &kinds).await?.into_iter().map(row).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_values_of_the_kinds_of_their_columns() {
        let kinds = [ColumnKind::Text, ColumnKind::Integer];
        let number = |number| vec![Value::Text("1".to_owned()), Value::Integer(number)];
        let read = |data: &str| rows(format!("{{\"meta\":[],\"data\":{data}}}").as_bytes(), &kinds);
        let (least, most) = (i64::MIN, i64::MAX);
        let both = read(&format!("[[\"1\",\"{least}\"],[\"1\",{most}]]"));
        assert_eq!(both, Ok(vec![number(least), number(most)]));
        assert_eq!(read("[]"), Ok(vec![]));
        for wrong in ["[[\"1\"]]", "[[1,1]]", "[[\"1\",\"x\"]]", "[[\"1\",null]]", "[["] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn errors_begin_with_their_remedy() {
        for (body, begin) in [
            (&b"Code: 252, Too many parts (300)."[..], "it merges more slowly"),
            (b"Memory limit (for query) exceeded", "raise the option memory_mb"),
            (b"Code: 60, no such table\n", "status 500: Code: 60, no such table"),
            (b"\xff", "status 500: \u{fffd}"),
        ] {
            let words = refusal(500, body);
            assert!(words.starts_with(begin), "{words}");
        }
        assert!(refusal(500, &[b'x'; 10_000]).len() < 600);
    }
}
