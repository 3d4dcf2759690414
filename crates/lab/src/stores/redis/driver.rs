//! Redis, as the 2012 study and YCSB's binding use it: a hash for each row, and a sorted set of all
//! keys for scans.
//!
//! All members of the sorted set have the same score, so that Redis sorts them by their bytes and a
//! scan is in the order of keys (YCSB orders by a hash of the key). With several endpoints each is
//! a shard, [`Ring`] distributes keys, and scans read all shards. A row and its entry for scans are
//! sent together, but not as a transaction, as in the binding.
//!
//! Redis has no index of values, and the studies built none: counts are not supported. The password
//! is read from `REDISCLI_AUTH`, as by Redis's own client. Left out: Redis Cluster, TLS, databases
//! other than 0.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::try_join_all;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, FromRedisValue, Pipeline, RedisError};

use crate::driver::ring::Ring;
use crate::driver::sharded::{self, Sharded};
use crate::driver::{
    Ability, Driver, MAINTENANCE_TIMEOUT, OpenError, Session, Settle, StoreError, StoreSpec,
    TIMEOUT, short_message, within,
};
use crate::options::{Known, known};
use crate::row::{ColumnKind, Row, Schema, Value};

/// Keys that are removed at a time when a table is emptied.
const EMPTY_KEYS: usize = 1000;

/// Its options.
pub(crate) const OPTIONS: &[Known] = &[
    TIMEOUT,
    known("scans", "on", "off: rows are not entered for scans, which then are not supported"),
];

struct Redis {
    store: String,
    timeout: Duration,
    clients: Vec<Client>,
    ring: Arc<Ring>,
    scans: bool,
}

pub(crate) fn open(spec: &StoreSpec) -> Result<Arc<dyn Driver>, OpenError> {
    let options = crate::driver::options(spec, OPTIONS)?;
    let timeout = crate::driver::timeout(&options)?;
    let scans = options.choice("scans", &["on", "off"])? == "on";
    let mut clients = Vec::new();
    for (host, port) in crate::driver::hosts(spec)? {
        let mut settings = redis::RedisConnectionInfo::default();
        if let Ok(password) = std::env::var("REDISCLI_AUTH") {
            settings = settings.set_password(password);
        }
        let address = redis::ConnectionAddr::Tcp(host, port);
        let info = redis::IntoConnectionInfo::into_connection_info(address)
            .map(|info| info.set_redis_settings(settings));
        let client = info
            .and_then(Client::open)
            .map_err(|e| OpenError::Endpoint { store: spec.name.clone(), reason: e.to_string() })?;
        clients.push(client);
    }
    let ring = Arc::new(Ring::new(clients.len()));
    Ok(Arc::new(Redis { store: spec.name.clone(), timeout, clients, ring, scans }))
}

#[async_trait]
impl Driver for Redis {
    fn abilities(&self) -> &'static [Ability] {
        const ALL: &[Ability] = &[
            Ability::Insert,
            Ability::InsertMany,
            Ability::Read,
            Ability::Update,
            Ability::Delete,
            Ability::Scan,
        ];
        if self.scans { ALL } else { &ALL[..ALL.len() - 1] }
    }

    async fn version(&self) -> Result<String, StoreError> {
        let mut versions = self.info("server", "redis_version").await?;
        versions.dedup();
        Ok(versions.join("; "))
    }

    fn versions_tested(&self) -> &'static [&'static str] {
        &["7.0."]
    }

    async fn create(&self, schema: &Schema) -> Result<(), StoreError> {
        let table = &schema.table;
        let empty = |mut connection: MultiplexedConnection| async move {
            let mut cursor = 0u64;
            loop {
                let (next, keys): (u64, Vec<Vec<u8>>) = redis::cmd("SCAN")
                    .arg(cursor)
                    .arg("MATCH")
                    .arg(format!("{table}:*"))
                    .arg("COUNT")
                    .arg(EMPTY_KEYS)
                    .query_async(&mut connection)
                    .await?;
                if !keys.is_empty() {
                    redis::cmd("UNLINK").arg(keys).query_async::<()>(&mut connection).await?;
                }
                if next == 0 {
                    break;
                }
                cursor = next;
            }
            redis::cmd("UNLINK").arg(table).query_async(&mut connection).await
        };
        self.on_all(MAINTENANCE_TIMEOUT, empty).await.map(|_: Vec<()>| ())
    }

    async fn settle(&self, _: &Schema, settle: Settle) -> Result<(), StoreError> {
        if settle == Settle::Visible {
            return Ok(());
        }
        // A store in memory: on request it writes its whole file, so there is nothing to merge.
        let save = |mut connection: MultiplexedConnection| async move {
            redis::cmd("SAVE").query_async(&mut connection).await
        };
        self.on_all(MAINTENANCE_TIMEOUT, save).await.map(|_: Vec<()>| ())
    }

    /// Memory of all data of the servers, because Redis has no tables.
    async fn table_bytes(&self, _: &Schema) -> Result<Option<u64>, StoreError> {
        let bytes = self.info("memory", "used_memory_dataset").await?;
        let number = |text: &String| {
            text.parse::<u64>().map_err(|_| StoreError::Answer {
                store: self.store.clone(),
                reason: format!("used_memory_dataset is `{text}`"),
            })
        };
        bytes.iter().map(number).sum::<Result<u64, _>>().map(Some)
    }

    async fn connect(&self, schema: &Schema) -> Result<Box<dyn Session>, StoreError> {
        let schema = Arc::new(schema.clone());
        let shard = |client: &Client| Shard {
            store: self.store.clone(),
            timeout: self.timeout,
            client: client.clone(),
            schema: schema.clone(),
            scans: self.scans,
            open: None,
        };
        let mut shards: Vec<Shard> = self.clients.iter().map(shard).collect();
        let connect = try_join_all(shards.iter_mut().map(Shard::connected));
        within(&self.store, self.timeout, connect).await?;
        Ok(Box::new(Sharded::new(&self.store, self.timeout, &self.ring, &schema, shards)))
    }
}

impl Redis {
    /// See [`sharded::on_all`].
    async fn on_all<T, F>(
        &self,
        limit: Duration,
        work: impl Fn(MultiplexedConnection) -> F,
    ) -> Result<Vec<T>, StoreError>
    where
        F: Future<Output = Result<T, RedisError>>,
    {
        let connecting = self.clients.iter().map(|client| connect(client, limit));
        sharded::on_all(&self.store, limit, connecting, work, |e| failed(&self.store, limit, &e))
            .await
    }

    /// A line of the servers' `INFO`.
    async fn info(&self, section: &str, name: &str) -> Result<Vec<String>, StoreError> {
        let ask = |mut connection: MultiplexedConnection| async move {
            redis::cmd("INFO").arg(section).query_async::<String>(&mut connection).await
        };
        let line = |text: String| {
            let found = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            found.map(str::to_owned).ok_or_else(|| StoreError::Answer {
                store: self.store.clone(),
                reason: format!("no `{name}` in INFO {section}"),
            })
        };
        self.on_all(self.timeout, ask).await?.into_iter().map(line).collect()
    }
}

async fn connect(client: &Client, limit: Duration) -> Result<MultiplexedConnection, RedisError> {
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(limit.min(Duration::from_secs(10))))
        .set_response_timeout(Some(limit));
    client.get_multiplexed_async_connection_with_config(&config).await
}

/// One of the servers of a session.
struct Shard {
    store: String,
    timeout: Duration,
    client: Client,
    schema: Arc<Schema>,
    scans: bool,
    open: Option<MultiplexedConnection>,
}

impl Shard {
    async fn connected(&mut self) -> Result<&mut MultiplexedConnection, StoreError> {
        match &mut self.open {
            Some(open) => Ok(open),
            none => {
                let open = connect(&self.client, self.timeout).await;
                Ok(none.insert(open.map_err(|e| failed(&self.store, self.timeout, &e))?))
            }
        }
    }

    /// Sends commands in one batch, and reads all answers.
    async fn send<T: FromRedisValue>(&mut self, pipeline: &Pipeline) -> Result<T, StoreError> {
        let (store, timeout) = (self.store.clone(), self.timeout);
        let connection = self.connected().await?;
        pipeline.query_async(connection).await.map_err(|e| failed(&store, timeout, &e))
    }

    async fn rows(&mut self, members: &[String]) -> Result<Vec<Option<Row>>, StoreError> {
        if members.is_empty() {
            return Ok(Vec::new());
        }
        let mut pipeline = Pipeline::new();
        for member in members {
            pipeline.cmd("HMGET").arg(self.key(member));
            for column in &self.schema.columns {
                pipeline.arg(&column.name);
            }
        }
        let found: Vec<Vec<Option<String>>> = self.send(&pipeline).await?;
        members.iter().zip(found).map(|(member, values)| self.row(member, values)).collect()
    }

    fn row(&self, member: &str, values: Vec<Option<String>>) -> Result<Option<Row>, StoreError> {
        // Redis has no empty hash: an existing row has values.
        if values.iter().all(Option::is_none) {
            return Ok(None);
        }
        let answer = |reason: String| StoreError::Answer { store: self.store.clone(), reason };
        let value = |text: Option<String>, kind: ColumnKind| {
            let text = text.ok_or_else(|| answer(format!("a row lacks a column: {member}")))?;
            match kind {
                ColumnKind::Text => Ok(Value::Text(text)),
                ColumnKind::Integer => {
                    let number =
                        text.parse().map_err(|_| answer(format!("`{text}` is not a number")));
                    number.map(Value::Integer)
                }
            }
        };
        let columns = self.schema.columns.iter();
        let values = values.into_iter().zip(columns).map(|(text, c)| value(text, c.kind));
        let key = key_of(member, self.schema.key);
        let key = key.ok_or_else(|| answer(format!("`{member}` is no key")))?;
        Ok(Some(Row { key, values: values.collect::<Result<_, _>>()? }))
    }

    async fn members(&mut self, from: &Value, rows_max: usize) -> Result<Vec<String>, StoreError> {
        let mut pipeline = Pipeline::new();
        pipeline
            .cmd("ZRANGEBYLEX")
            .arg(&self.schema.table)
            .arg(format!("[{}", member(from)))
            .arg("+")
            .arg("LIMIT")
            .arg(0)
            .arg(rows_max);
        let (members,): (Vec<String>,) = self.send(&pipeline).await?;
        Ok(members)
    }

    fn key(&self, member: &str) -> String {
        format!("{}:{member}", self.schema.table)
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

    async fn insert_many(&mut self, rows: &[&Row]) -> Result<(), StoreError> {
        let mut pipeline = Pipeline::new();
        for row in rows {
            let member = member(&row.key);
            pipeline.cmd("HSET").arg(self.key(&member));
            for (column, value) in self.schema.columns.iter().zip(&row.values) {
                pipeline.arg(&column.name).arg(text(value));
            }
            pipeline.ignore();
            if self.scans {
                pipeline.cmd("ZADD").arg(&self.schema.table).arg(0).arg(&member).ignore();
            }
        }
        self.send(&pipeline).await
    }

    async fn read(&mut self, key: &Value) -> Result<Option<Row>, StoreError> {
        Ok(self.rows(&[member(key)]).await?.into_iter().next().flatten())
    }

    /// Redis does not tell whether there was such a row.
    async fn update(
        &mut self,
        key: &Value,
        changes: &[(usize, Value)],
    ) -> Result<bool, StoreError> {
        let mut pipeline = Pipeline::new();
        pipeline.cmd("HSET").arg(self.key(&member(key)));
        for (column, value) in changes {
            pipeline.arg(&self.schema.columns[*column].name).arg(text(value));
        }
        pipeline.ignore();
        self.send::<()>(&pipeline).await?;
        Ok(true)
    }

    async fn scan(&mut self, from: &Value, rows_max: usize) -> Result<Vec<Row>, StoreError> {
        if !self.scans {
            return Err(self.lacks(Ability::Scan));
        }
        let members = self.members(from, rows_max).await?;
        // A row that was deleted meanwhile is left out.
        Ok(self.rows(&members).await?.into_iter().flatten().collect())
    }

    async fn delete(&mut self, key: &Value) -> Result<(), StoreError> {
        let member = member(key);
        let mut pipeline = Pipeline::new();
        pipeline.cmd("UNLINK").arg(self.key(&member)).ignore();
        if self.scans {
            pipeline.cmd("ZREM").arg(&self.schema.table).arg(&member).ignore();
        }
        self.send(&pipeline).await
    }
}

/// A key whose bytes sort like the key itself: integers are relative to the least, with all digits.
fn member(key: &Value) -> String {
    match key {
        Value::Text(text) => text.clone(),
        Value::Integer(number) => format!("{:020}", (*number as u64) ^ (1 << 63)),
    }
}

fn key_of(member: &str, kind: ColumnKind) -> Option<Value> {
    match kind {
        ColumnKind::Text => Some(Value::Text(member.to_owned())),
        ColumnKind::Integer => {
            let number: u64 = member.parse().ok()?;
            Some(Value::Integer((number ^ (1 << 63)) as i64))
        }
    }
}

fn text(value: &Value) -> String {
    value.to_string()
}

/// The message of an error. That of a batch names each command that failed, and is cut.
fn in_words(e: &RedisError) -> String {
    let words = short_message(&e.to_string());
    match words.contains("maxmemory") {
        true => format!("its memory is full, raise its option maxmemory: {words}"),
        false => words,
    }
}

fn failed(store: &str, limit: Duration, e: &RedisError) -> StoreError {
    use redis::ErrorKind::{AuthenticationFailed, Extension, Server};
    let store = store.to_owned();
    let reason = in_words(e);
    if e.is_timeout() && !e.is_connection_refusal() {
        StoreError::Timeout { store, seconds: limit.as_secs() }
    } else if e.is_io_error() || e.is_connection_dropped() || e.is_connection_refusal() {
        StoreError::Unreachable { store, reason }
    } else if matches!(e.kind(), Server(_) | Extension | AuthenticationFailed) {
        StoreError::Refused { store, reason }
    } else {
        StoreError::Answer { store, reason }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_in_the_order_of_keys_and_keys_again() {
        let numbers = [i64::MIN, -1000, -1, 0, 1, 9, 10, i64::MAX];
        let members: Vec<String> = numbers.iter().map(|n| member(&Value::Integer(*n))).collect();
        assert!(members.is_sorted());
        for (number, member) in numbers.iter().zip(&members) {
            assert_eq!(member.len(), 20);
            assert_eq!(key_of(member, ColumnKind::Integer), Some(Value::Integer(*number)));
        }
        assert_eq!(key_of("x", ColumnKind::Integer), None);
        assert_eq!(key_of("x", ColumnKind::Text), Some(Value::Text("x".to_owned())));
    }

    #[test]
    fn the_error_of_a_batch_is_short_and_names_the_remedy() {
        let full = (redis::ErrorKind::Extension, "OOM", "used memory > 'maxmemory'.".repeat(100));
        let words = in_words(&RedisError::from(full));
        assert!(words.starts_with("its memory is full, raise its option maxmemory: "), "{words}");
        assert!(words.len() < 600, "{words}");
        let other = in_words(&RedisError::from((redis::ErrorKind::Io, "broken pipe")));
        assert!(other.starts_with("broken pipe"), "{other}");
    }
}
