//! Plain files, searched with ripgrep and awk: the floor that every log store has to be above.
//!
//! A row is a line of fields with tabs between them, the key first, in the order of the schema. A
//! backslash, a tab and the ends of lines are written as in JSON. A line is acknowledged when the
//! system has it, and with `sync=each` when the disk has it. There is no index of any kind.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::try_join_all;

use super::protocol::{Find, Print, Reply, Request, Text};
use crate::driver::json_lines::Link;
use crate::driver::ring::Ring;
use crate::driver::search::{Match, Search, Wanted};
use crate::driver::sharded::{Shard, Sharded};
use crate::driver::{
    Ability, Answer, Driver, MAINTENANCE_TIMEOUT, OpenError, Session, Settle, StoreError,
    StoreSpec, TIMEOUT, within,
};
use crate::options::Known;
use crate::row::{ColumnKind, Row, Schema, Value};

/// Fields before the first column: the key.
const BEFORE: usize = 1;

/// Its options.
pub(crate) const OPTIONS: &[Known] = &[
    TIMEOUT,
    Known {
        name: "sync",
        default: "none",
        help: "when a line is on disk: none (when the system writes it) or each (before it is acknowledged)",
    },
];

struct Files {
    store: String,
    endpoints: Vec<String>,
    timeout: Duration,
    sync: bool,
    ring: Arc<Ring>,
}

pub(crate) fn open(spec: &StoreSpec) -> Result<Arc<dyn Driver>, OpenError> {
    let options = crate::driver::options(spec, OPTIONS)?;
    crate::driver::hosts(spec)?;
    Ok(Arc::new(Files {
        store: spec.name.clone(),
        endpoints: spec.endpoints.clone(),
        timeout: crate::driver::timeout(&options)?,
        sync: options.choice("sync", &["none", "each"])? == "each",
        ring: Arc::new(Ring::new(spec.endpoints.len())),
    }))
}

#[async_trait]
impl Driver for Files {
    fn abilities(&self) -> &'static [Ability] {
        &[
            Ability::Insert,
            Ability::InsertMany,
            Ability::Read,
            Ability::Count,
            Ability::Search,
            Ability::Regex,
        ]
    }

    async fn version(&self) -> Result<String, StoreError> {
        let mut versions = self.all(self.timeout, &Request::Version).await?;
        versions.dedup();
        Ok(versions.join("; ").trim().replace('\n', ", "))
    }

    fn versions_tested(&self) -> &'static [&'static str] {
        &["ripgrep 13."]
    }

    async fn create(&self, schema: &Schema) -> Result<(), StoreError> {
        let create = Request::Create { table: schema.table.clone() };
        self.all(MAINTENANCE_TIMEOUT, &create).await.map(|_| ())
    }

    async fn settle(&self, schema: &Schema, settle: Settle) -> Result<(), StoreError> {
        if settle == Settle::Visible {
            return Ok(());
        }
        let sync = Request::Sync { table: schema.table.clone() };
        self.all(MAINTENANCE_TIMEOUT, &sync).await.map(|_| ())
    }

    async fn table_bytes(&self, schema: &Schema) -> Result<Option<u64>, StoreError> {
        let sync = Request::Sync { table: schema.table.clone() };
        let sizes = self.all(MAINTENANCE_TIMEOUT, &sync).await?;
        let size = |text: &String| text.parse::<u64>().map_err(|e| answer(&self.store, e));
        sizes.iter().map(size).sum::<Result<u64, _>>().map(Some)
    }

    async fn connect(&self, schema: &Schema) -> Result<Box<dyn Session>, StoreError> {
        let schema = Arc::new(schema.clone());
        let node = |endpoint: &String| Node {
            link: Link::new(&self.store, endpoint),
            schema: schema.clone(),
            sync: self.sync,
        };
        let mut nodes: Vec<Node> = self.endpoints.iter().map(node).collect();
        let connect = try_join_all(nodes.iter_mut().map(|node| node.link.connect()));
        within(&self.store, self.timeout, connect).await?;
        Ok(Box::new(Sharded::new(&self.store, self.timeout, &self.ring, &schema, nodes)))
    }
}

impl Files {
    /// The answers of all nodes, on new connections.
    async fn all(&self, limit: Duration, request: &Request) -> Result<Vec<String>, StoreError> {
        let mut all = Vec::new();
        for endpoint in &self.endpoints {
            all.push(async { ask(&mut Link::new(&self.store, endpoint), request).await });
        }
        within(&self.store, limit, try_join_all(all)).await
    }
}

fn answer(store: &str, reason: impl ToString) -> StoreError {
    StoreError::Answer { store: store.to_owned(), reason: reason.to_string() }
}

/// What a node answers to a request.
async fn ask(link: &mut Link, request: &Request) -> Result<String, StoreError> {
    match link.ask(request).await? {
        Reply::Done(text) => Ok(text),
        Reply::Failed(reason) => Err(StoreError::Refused { store: link.store.clone(), reason }),
    }
}

/// One of the nodes of a session.
struct Node {
    link: Link,
    schema: Arc<Schema>,
    /// Whether a line is acknowledged when it is on disk.
    sync: bool,
}

#[async_trait]
impl Shard for Node {
    fn store(&self) -> &str {
        &self.link.store
    }

    fn disconnect(&mut self) {
        self.link.disconnect();
    }

    async fn insert_many(&mut self, rows: &[&Row]) -> Result<(), StoreError> {
        let text = rows.iter().map(|row| line(row)).collect();
        let append = Request::Append { table: self.schema.table.clone(), text, sync: self.sync };
        ask(&mut self.link, &append).await.map(|_| ())
    }

    async fn read(&mut self, key: &Value) -> Result<Option<Row>, StoreError> {
        let key_text = escaped(&key.to_string());
        let find = Find {
            table: self.schema.table.clone(),
            // An empty text is in every line.
            text: Some(Text::Fixed(key_text.clone())),
            equals: vec![(BEFORE, key_text)],
            range: None,
            print: Print::First,
        };
        let lines = ask(&mut self.link, &Request::Find(find)).await?;
        let row = lines.lines().next().map(|line| row(&self.schema, line)).transpose();
        row.map_err(|reason| answer(&self.link.store, reason))
    }

    async fn count(&mut self, conditions: &[(usize, Value)]) -> Result<u64, StoreError> {
        let (equals, wanted) = (conditions.to_vec(), Wanted::Count);
        match self.search(&Search { text: None, equals, time: None, wanted }).await? {
            Answer::Count(count) => Ok(count),
            other => Err(answer(&self.link.store, format!("a count is a number, not {other:?}"))),
        }
    }

    async fn search(&mut self, search: &Search) -> Result<Answer, StoreError> {
        let find = find(&self.schema, search);
        let find = find.ok_or_else(|| {
            answer(&self.link.store, "a search by time of a table without a time")
        })?;
        let text = ask(&mut self.link, &Request::Find(find)).await?;
        found(&self.schema, search, &text).map_err(|reason| answer(&self.link.store, reason))
    }
}

/// The request for a search; `None` if the table has no time and the search needs it.
fn find(schema: &Schema, search: &Search) -> Option<Find> {
    let field = |column: usize| column + BEFORE + 1;
    let time = || schema.time().map(field);
    Some(Find {
        table: schema.table.clone(),
        text: search.text.as_ref().map(|(_, text)| match text {
            Match::Word(text) => Text::Word(text.clone()),
            Match::Phrase(text) => Text::Fixed(text.clone()),
            Match::Regex(text) => Text::Regex(text.clone()),
        }),
        equals: search
            .equals
            .iter()
            .map(|(column, value)| (field(*column), escaped(&value.to_string())))
            .collect(),
        range: match search.time {
            Some((from, to)) => Some((time()?, from, to)),
            None => None,
        },
        print: match search.wanted {
            Wanted::Count => Print::Count,
            Wanted::Latest { rows_max } => Print::Highest(time()?, rows_max),
            Wanted::CountBy { column } => Print::CountBy(field(column)),
            Wanted::CountOver { step_ms } => Print::CountOver(time()?, step_ms),
        },
    })
}

/// Reads the answer from the output of the programs.
fn found(schema: &Schema, search: &Search, text: &str) -> Result<Answer, String> {
    let number = |text: &str| text.parse::<u64>().map_err(|_| format!("`{text}` is not a number"));
    let kind = match search.wanted {
        Wanted::Count => return Ok(Answer::Count(number(text.trim())?)),
        Wanted::Latest { .. } => {
            let rows = text.lines().map(|line| row(schema, line));
            return Ok(Answer::Rows(rows.collect::<Result<_, _>>()?));
        }
        Wanted::CountBy { column } => schema.columns[column].kind,
        Wanted::CountOver { .. } => ColumnKind::Integer,
    };
    let group = |line: &str| {
        let (text, count) = line.rsplit_once('\t').ok_or("a group without a number".to_owned())?;
        Ok::<_, String>((value(text, kind)?, number(count)?))
    };
    let mut groups = text.lines().map(group).collect::<Result<Vec<_>, _>>()?;
    groups.sort();
    Ok(Answer::Groups(groups))
}

/// A row as a line, with its end.
fn line(row: &Row) -> String {
    let values: Vec<String> = std::iter::once(&row.key)
        .chain(&row.values)
        .map(|value| escaped(&value.to_string()))
        .collect();
    values.join("\t") + "\n"
}

fn escaped(text: &str) -> String {
    if !text.contains(['\\', '\t', '\n', '\r']) {
        return text.to_owned();
    }
    text.replace('\\', "\\\\").replace('\t', "\\t").replace('\n', "\\n").replace('\r', "\\r")
}

fn unescaped(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        plain.push(match letter {
            '\\' => match letters.next() {
                Some('t') => '\t',
                Some('n') => '\n',
                Some('r') => '\r',
                Some(other) => other,
                None => '\\',
            },
            other => other,
        });
    }
    plain
}

fn value(text: &str, kind: ColumnKind) -> Result<Value, String> {
    match kind {
        ColumnKind::Text => Ok(Value::Text(unescaped(text))),
        ColumnKind::Integer => {
            text.parse().map(Value::Integer).map_err(|_| format!("`{text}` is not a number"))
        }
    }
}

fn row(schema: &Schema, line: &str) -> Result<Row, String> {
    let kinds = std::iter::once(schema.key).chain(schema.columns.iter().map(|c| c.kind));
    let fields: Vec<&str> = line.split('\t').collect();
    if fields.len() != schema.columns.len() + BEFORE {
        return Err(format!("a line has {} fields", fields.len()));
    }
    let values = fields.into_iter().zip(kinds).map(|(text, kind)| value(text, kind));
    let mut values = values.collect::<Result<Vec<_>, _>>()?;
    Ok(Row { key: values.remove(0), values })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::Column;

    #[test]
    fn rows_are_lines_and_lines_are_rows() {
        let schema = Schema {
            table: "t".to_owned(),
            key: ColumnKind::Text,
            columns: vec![
                Column::new("a", ColumnKind::Text, true),
                Column::new("n", ColumnKind::Integer, true),
            ],
        };
        for text in ["", "plain", "a\tb", "a\\tb", "two\r\nlines", "\\", "\\\\n"] {
            let row = Row {
                key: Value::Text(format!("k{text}")),
                values: vec![Value::Text(text.to_owned()), Value::Integer(i64::MIN)],
            };
            let written = line(&row);
            assert_eq!(written.matches('\n').count(), 1, "{text:?}");
            assert_eq!(super::row(&schema, written.trim_end_matches('\n')), Ok(row));
        }
        assert!(super::row(&schema, "one\ttwo").is_err());
        assert!(super::row(&schema, "k\ta\tb").is_err());
    }
}
