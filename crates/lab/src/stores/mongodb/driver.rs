//! MongoDB's protocol, for MongoDB itself and for FerretDB, which answers it from SQLite or
//! PostgreSQL: a collection whose documents have the key as `_id`, and an index for each column
//! that counts filter by.
//!
//! The client is our own ([`wire`]): a thread of load has one connection with one command under
//! way, where the official client shares a pool and asks every server for its state in the
//! background. Several endpoints are independent servers, among which [`Ring`] distributes keys.
//! A sharded cluster of MongoDB has one endpoint, its router `mongos`. The next operation replaces
//! a connection that broke or timed out. Left out: logins, TLS, replica sets.

mod table;
mod wire;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bson::raw::RawDocumentBuf;
use bson::rawdoc;
use futures_util::future::try_join_all;

use self::table::Table;
use self::wire::{Connection, Failure, Reply, number};
use crate::driver::ring::Ring;
use crate::driver::sharded::{self, Sharded};
use crate::driver::{
    Ability, Driver, MAINTENANCE_TIMEOUT, OpenError, Session, Settle, StoreError, StoreSpec,
    TIMEOUT, within,
};
use crate::options::{Known, Options};
use crate::row::{Row, Schema, Value};

const DATABASE: Known = Known { name: "database", default: "lab", help: "database of the table" };

/// The options for MongoDB.
pub(crate) const OPTIONS: &[Known] = &[
    TIMEOUT,
    DATABASE,
    Known {
        name: "journal",
        default: "on",
        help: "off: a row is acknowledged before it is in the journal on disk",
    },
];

/// The options for FerretDB, whose storage decides when a row is on disk.
pub(crate) const FERRETDB_OPTIONS: &[Known] = &[TIMEOUT, DATABASE];

struct Mongodb {
    store: String,
    timeout: Duration,
    hosts: Vec<(String, u16)>,
    database: String,
    journal: Option<bool>,
    ring: Arc<Ring>,
}

/// The driver for MongoDB.
pub(crate) fn open(spec: &StoreSpec) -> Result<Arc<dyn Driver>, OpenError> {
    let options = crate::driver::options(spec, OPTIONS)?;
    let journal = options.choice("journal", &["on", "off"])? == "on";
    driver(spec, &options, Some(journal))
}

/// The driver for FerretDB.
pub(crate) fn open_ferretdb(spec: &StoreSpec) -> Result<Arc<dyn Driver>, OpenError> {
    driver(spec, &crate::driver::options(spec, FERRETDB_OPTIONS)?, None)
}

fn driver(
    spec: &StoreSpec,
    options: &Options,
    journal: Option<bool>,
) -> Result<Arc<dyn Driver>, OpenError> {
    let timeout = crate::driver::timeout(options)?;
    let hosts = crate::driver::hosts(spec)?;
    let ring = Arc::new(Ring::new(hosts.len()));
    let (store, database) = (spec.name.clone(), options.text(DATABASE.name).to_owned());
    Ok(Arc::new(Mongodb { store, timeout, hosts, database, journal, ring }))
}

#[async_trait]
impl Driver for Mongodb {
    fn abilities(&self) -> &'static [Ability] {
        Ability::ROWS
    }

    async fn version(&self) -> Result<String, StoreError> {
        let ask = |mut connection: Connection| async move {
            let info = rawdoc! { "buildInfo": 1_i32, "$db": "admin" };
            full_version(&connection.command(&info).await?)
        };
        let mut versions = self.on_all(self.timeout, ask).await?;
        versions.dedup();
        Ok(versions.join("; "))
    }

    fn versions_tested(&self) -> &'static [&'static str] {
        &["FerretDB v1.24."]
    }

    async fn create(&self, schema: &Schema) -> Result<(), StoreError> {
        let table = &self.table(schema)?;
        let make = |mut connection: Connection| async move {
            unless(wire::NAMESPACE_NOT_FOUND, connection.command(&table.drop()).await)?;
            for command in table.create() {
                connection.command(&command).await?;
            }
            Ok(())
        };
        self.on_all(MAINTENANCE_TIMEOUT, make).await.map(|_| ())
    }

    async fn settle(&self, schema: &Schema, settle: Settle) -> Result<(), StoreError> {
        let table = &self.table(schema)?;
        let merge = match settle {
            // An acknowledged write is visible.
            Settle::Visible => return Ok(()),
            Settle::Flushed => false,
            Settle::Compacted => true,
        };
        let settle = |mut connection: Connection| async move {
            if merge {
                connection.command(&table.compact()).await?;
            }
            // FerretDB has none: its storage writes out every commit.
            let flush = rawdoc! { "fsync": 1_i32, "$db": "admin" };
            unless(wire::COMMAND_NOT_FOUND, connection.command(&flush).await)
        };
        self.on_all(MAINTENANCE_TIMEOUT, settle).await.map(|_| ())
    }

    async fn table_bytes(&self, schema: &Schema) -> Result<Option<u64>, StoreError> {
        let table = &self.table(schema)?;
        let ask = |mut connection: Connection| async move {
            let reply = connection.command(&table.stats()).await?;
            let stats = reply.document()?;
            let bytes = |field: &str| number(stats, field).and_then(|n| u64::try_from(n).ok());
            Ok(bytes("storageSize").zip(bytes("totalIndexSize")).map(|(data, index)| data + index))
        };
        let bytes: Vec<Option<u64>> = self.on_all(MAINTENANCE_TIMEOUT, ask).await?;
        Ok(bytes.into_iter().sum())
    }

    async fn connect(&self, schema: &Schema) -> Result<Box<dyn Session>, StoreError> {
        let table = Arc::new(self.table(schema)?);
        let shard = |host: &(String, u16)| Shard {
            store: self.store.clone(),
            host: host.clone(),
            table: table.clone(),
            open: None,
        };
        let mut shards: Vec<Shard> = self.hosts.iter().map(shard).collect();
        let connect = try_join_all(shards.iter_mut().map(|shard| shard.connected()));
        within(&self.store, self.timeout, connect).await?;
        Ok(Box::new(Sharded::new(&self.store, self.timeout, &self.ring, schema, shards)))
    }
}

impl Mongodb {
    fn table(&self, schema: &Schema) -> Result<Table, StoreError> {
        let table = Table::new(&self.database, schema, self.journal);
        table.map_err(|reason| StoreError::Refused { store: self.store.clone(), reason })
    }

    /// See [`sharded::on_all`].
    async fn on_all<T, F>(
        &self,
        limit: Duration,
        work: impl Fn(Connection) -> F,
    ) -> Result<Vec<T>, StoreError>
    where
        F: Future<Output = Result<T, Failure>>,
    {
        let connecting = self.hosts.iter().map(|(host, port)| Connection::open(host, *port));
        sharded::on_all(&self.store, limit, connecting, work, |e| failed(&self.store, e)).await
    }
}

/// The version of FerretDB, or of MongoDB; FerretDB tells both, the second for the sake of clients.
fn full_version(info: &Reply) -> Result<String, Failure> {
    let info = info.document()?;
    let named = |name: &str, field: &str| Some(format!("{name} {}", info.get_str(field).ok()?));
    named("FerretDB", "ferretdbVersion")
        .or_else(|| named("MongoDB", "version"))
        .ok_or_else(|| Failure::Malformed("no version in buildInfo".to_owned()))
}

/// Takes the error with this code for success.
fn unless(code: i64, reply: Result<Reply, Failure>) -> Result<(), Failure> {
    match reply {
        Err(Failure::Refused { code: found, .. }) if found == code => Ok(()),
        other => other.map(|_| ()),
    }
}

/// One of the servers of a session.
struct Shard {
    store: String,
    host: (String, u16),
    table: Arc<Table>,
    open: Option<Connection>,
}

impl Shard {
    async fn connected(&mut self) -> Result<&mut Connection, StoreError> {
        match &mut self.open {
            Some(open) => Ok(open),
            none => {
                let (host, port) = &self.host;
                let open = Connection::open(host, *port).await;
                Ok(none.insert(open.map_err(|e| failed(&self.store, e))?))
            }
        }
    }

    async fn command(&mut self, command: &RawDocumentBuf) -> Result<Reply, StoreError> {
        let store = self.store.clone();
        let connection = self.connected().await?;
        connection.command(command).await.map_err(|e| failed(&store, e))
    }

    /// The rows of a reply, and the cursor for more of them; 0 if there are none.
    fn batch(&self, reply: &Reply, field: &str) -> Result<(Vec<Row>, i64), Failure> {
        let malformed = |e: bson::error::Error| Failure::Malformed(e.to_string());
        let cursor = reply.document()?.get_document("cursor").map_err(malformed)?;
        let mut rows = Vec::new();
        for document in cursor.get_array(field).map_err(malformed)? {
            let document = document.map_err(malformed)?;
            let document = document.as_document();
            let document =
                document.ok_or_else(|| Failure::Malformed("a row is no document".to_owned()))?;
            rows.push(self.table.row(document).map_err(Failure::Malformed)?);
        }
        let id = number(cursor, "id");
        Ok((rows, id.ok_or_else(|| Failure::Malformed("a cursor without id".to_owned()))?))
    }

    /// Sends a command whose reply has a number `n`.
    async fn counted(&mut self, command: &RawDocumentBuf) -> Result<u64, StoreError> {
        let reply = self.command(command).await?;
        let count = reply.document().map(|reply| number(reply, "n"));
        let count = count.map_err(|e| failed(&self.store, e))?;
        count.and_then(|n| u64::try_from(n).ok()).ok_or_else(|| {
            failed(&self.store, Failure::Malformed("a reply without a number `n`".to_owned()))
        })
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
        for command in self.table.inserts(rows.iter().copied()) {
            self.command(&command).await?;
        }
        Ok(())
    }

    async fn read(&mut self, key: &Value) -> Result<Option<Row>, StoreError> {
        let reply = self.command(&self.table.read(key)).await?;
        let (rows, _) = self.batch(&reply, "firstBatch").map_err(|e| failed(&self.store, e))?;
        Ok(rows.into_iter().next())
    }

    async fn update(
        &mut self,
        key: &Value,
        changes: &[(usize, Value)],
    ) -> Result<bool, StoreError> {
        Ok(self.counted(&self.table.update(key, changes)).await? > 0)
    }

    async fn scan(&mut self, from: &Value, rows_max: usize) -> Result<Vec<Row>, StoreError> {
        if rows_max == 0 {
            return Ok(Vec::new());
        }
        let limit = i64::try_from(rows_max).unwrap_or(i64::MAX);
        let (mut command, mut batch) = (self.table.scan(from, limit), "firstBatch");
        let mut rows = Vec::new();
        loop {
            let reply = self.command(&command).await?;
            let (more, cursor) = self.batch(&reply, batch).map_err(|e| failed(&self.store, e))?;
            rows.extend(more);
            if cursor == 0 {
                return Ok(rows);
            }
            (command, batch) = (self.table.more(cursor), "nextBatch");
        }
    }

    async fn count(&mut self, conditions: &[(usize, Value)]) -> Result<u64, StoreError> {
        self.counted(&self.table.count(conditions)).await
    }

    async fn delete(&mut self, key: &Value) -> Result<(), StoreError> {
        self.counted(&self.table.delete(key)).await.map(|_| ())
    }
}

fn failed(store: &str, failure: Failure) -> StoreError {
    let store = store.to_owned();
    match failure {
        Failure::Broken(reason) => StoreError::Unreachable { store, reason },
        Failure::Malformed(reason) => StoreError::Answer { store, reason },
        Failure::Refused { message, .. } => StoreError::Refused { store, reason: message },
    }
}
