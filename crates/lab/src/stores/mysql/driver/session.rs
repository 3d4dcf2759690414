//! The connection of one thread of load to one shard, with prepared statements.

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Error, Opts, Params, Statement};

use super::failed;
use super::statements::{self, Shape};
use crate::driver::{StoreError, sharded};
use crate::row::{ColumnKind, Row, Schema, Value};

/// A connection with its statements.
struct Open {
    conn: Conn,
    statements: HashMap<Shape, Statement>,
    /// The server's limit of one packet.
    packet_bytes_max: usize,
}

impl Open {
    async fn new(host: &Opts) -> Result<Open, Error> {
        let mut conn = Conn::new(host.clone()).await?;
        let limit: Option<usize> = conn.query_first("select @@max_allowed_packet").await?;
        let packet_bytes_max = limit.unwrap_or_default();
        Ok(Open { conn, statements: HashMap::new(), packet_bytes_max })
    }
}

/// One of the servers of a session.
pub(super) struct Shard {
    store: String,
    host: Opts,
    database: String,
    schema: Arc<Schema>,
    open: Option<Open>,
}

impl Shard {
    /// Connects when it is used.
    pub fn new(store: &str, host: Opts, database: &str, schema: Arc<Schema>) -> Shard {
        let (store, database) = (store.to_owned(), database.to_owned());
        Shard { store, host, database, schema, open: None }
    }

    /// Connects, and prepares the statements that every study needs.
    pub async fn prepare_common(&mut self) -> Result<(), StoreError> {
        for shape in [Shape::Insert(1), Shape::Read, Shape::Scan, Shape::Delete] {
            self.prepared(shape).await?;
        }
        Ok(())
    }

    /// This session's connection, opened if necessary.
    async fn opened(&mut self) -> Result<&mut Open, StoreError> {
        match &mut self.open {
            Some(open) => Ok(open),
            none => {
                let open = Open::new(&self.host).await.map_err(|e| failed(&self.store, e))?;
                Ok(none.insert(open))
            }
        }
    }

    /// The connection with the statement, prepared if necessary.
    async fn prepared(&mut self, shape: Shape) -> Result<(&mut Conn, Statement), StoreError> {
        let (store, database) = (self.store.clone(), self.database.clone());
        let schema = self.schema.clone();
        let open = self.opened().await?;
        let statement = match open.statements.get(&shape) {
            Some(statement) => statement.clone(),
            None => {
                let sql = shape.sql(&database, &schema);
                let statement = open.conn.prep(sql).await.map_err(|e| failed(&store, e))?;
                open.statements.insert(shape, statement.clone());
                statement
            }
        };
        Ok((&mut open.conn, statement))
    }

    /// Sends a statement that changes rows; returns how many it found.
    async fn change(&mut self, shape: Shape, values: Params) -> Result<u64, StoreError> {
        let store = self.store.clone();
        let (conn, statement) = self.prepared(shape).await?;
        let done = conn.exec_drop(&statement, values).await;
        done.map_err(|e| failed(&store, e))?;
        Ok(conn.affected_rows())
    }

    async fn ask(
        &mut self,
        shape: Shape,
        values: Params,
    ) -> Result<Vec<mysql_async::Row>, StoreError> {
        let store = self.store.clone();
        let (conn, statement) = self.prepared(shape).await?;
        conn.exec(&statement, values).await.map_err(|e| failed(&store, e))
    }

    async fn insert_in_transaction(&mut self, rows: &[&Row]) -> Result<(), StoreError> {
        let packet_bytes_max = self.opened().await?.packet_bytes_max;
        self.command("start transaction").await?;
        for part in statements::split(rows, packet_bytes_max) {
            let values = part.iter().flat_map(|row| std::iter::once(&row.key).chain(&row.values));
            self.change(Shape::Insert(part.len()), parameters(values)).await?;
        }
        self.command("commit").await
    }

    async fn command(&mut self, sql: &str) -> Result<(), StoreError> {
        let store = self.store.clone();
        let open = self.opened().await?;
        open.conn.query_drop(sql).await.map_err(|e| failed(&store, e))
    }

    fn row(&self, mut row: mysql_async::Row) -> Result<Row, StoreError> {
        let kinds =
            std::iter::once(self.schema.key).chain(self.schema.columns.iter().map(|c| c.kind));
        let mut value = |(at, kind): (usize, ColumnKind)| {
            let value = match kind {
                ColumnKind::Integer => row.take_opt(at).and_then(|v| v.ok().map(Value::Integer)),
                ColumnKind::Text => row.take_opt(at).and_then(|v| v.ok().map(Value::Text)),
            };
            value.ok_or_else(|| self.answer(&format!("column {at} of a row is no {kind:?}")))
        };
        let mut values = kinds.enumerate().map(&mut value);
        let key = values.next().expect("a row has a key")?;
        Ok(Row { key, values: values.collect::<Result<_, _>>()? })
    }

    fn answer(&self, reason: &str) -> StoreError {
        StoreError::Answer { store: self.store.clone(), reason: reason.to_owned() }
    }
}

#[async_trait]
impl sharded::Shard for Shard {
    fn store(&self) -> &str {
        &self.store
    }

    fn disconnect(&mut self) {
        self.open = None;
    }

    async fn insert(&mut self, row: &Row) -> Result<(), StoreError> {
        let values = parameters(std::iter::once(&row.key).chain(&row.values));
        self.change(Shape::Insert(1), values).await.map(|_| ())
    }

    /// Inserts rows in one transaction: all, or none.
    async fn insert_many(&mut self, rows: &[&Row]) -> Result<(), StoreError> {
        let inserted = self.insert_in_transaction(rows).await;
        if inserted.is_err() {
            // The server rolls back what a closed connection did not commit.
            self.open = None;
        }
        inserted
    }

    async fn read(&mut self, key: &Value) -> Result<Option<Row>, StoreError> {
        let rows = self.ask(Shape::Read, parameters([key])).await?;
        rows.into_iter().next().map(|row| self.row(row)).transpose()
    }

    async fn update(
        &mut self,
        key: &Value,
        changes: &[(usize, Value)],
    ) -> Result<bool, StoreError> {
        let columns = changes.iter().map(|(column, _)| *column).collect();
        let values = changes.iter().map(|(_, value)| value).chain([key]);
        Ok(self.change(Shape::Update(columns), parameters(values)).await? > 0)
    }

    async fn scan(&mut self, from: &Value, rows_max: usize) -> Result<Vec<Row>, StoreError> {
        let rows_max = Value::Integer(i64::try_from(rows_max).unwrap_or(i64::MAX));
        let rows = self.ask(Shape::Scan, parameters([from, &rows_max])).await?;
        rows.into_iter().map(|row| self.row(row)).collect()
    }

    async fn count(&mut self, conditions: &[(usize, Value)]) -> Result<u64, StoreError> {
        let columns = conditions.iter().map(|(column, _)| *column).collect();
        let values = parameters(conditions.iter().map(|(_, value)| value));
        let rows = self.ask(Shape::Count(columns), values).await?;
        let count = rows.into_iter().next().and_then(|mut row| row.take_opt::<u64, _>(0)?.ok());
        count.ok_or_else(|| self.answer("a count is one number"))
    }

    async fn delete(&mut self, key: &Value) -> Result<(), StoreError> {
        self.change(Shape::Delete, parameters([key])).await.map(|_| ())
    }
}

fn parameters<'a>(values: impl IntoIterator<Item = &'a Value>) -> Params {
    let value = |value: &Value| match value {
        Value::Integer(number) => mysql_async::Value::Int(*number),
        Value::Text(text) => mysql_async::Value::Bytes(text.as_bytes().to_vec()),
    };
    match values.into_iter().map(value).collect::<Vec<_>>() {
        none if none.is_empty() => Params::Empty,
        values => Params::Positional(values),
    }
}
