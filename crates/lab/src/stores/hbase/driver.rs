//! HBase, through its Thrift gateway: a table of one column family, as in YCSB's binding.
//!
//! Each session has one connection, to the gateways in turn. An insert or an update writes whether
//! the row is there or not. HBase has no index of values, and the studies made none: counts are not
//! supported.
//!
//! With the option `regions` the table is made with that many, and keys are spread over them by a
//! hash: see [`super::rows`]. Scans then ask one region after the other and merge the rows.
//!
//! The gateway has neither the version of HBase, nor flushing, merging or sizes. A table is flushed
//! by disabling and enabling it, because a region that closes writes its memory to files. Left out:
//! gateways with frames (which
//! split tables at wrong keys), authentication and TLS.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;

use super::gateway::{Gateway, Put, Wal};
use super::rows::{self, Keys};
use super::thrift::Struct;
use crate::driver::{
    Ability, Answer, Driver, MAINTENANCE_TIMEOUT, OpenError, Operation, Session, Settle,
    StoreError, StoreSpec, TIMEOUT, within,
};
use crate::options::Known;
use crate::row::{Row, Schema, Value};

/// The value of option `release` for servers that the lab did not start.
const UNKNOWN: &str = "unknown";

/// Its options.
pub(crate) const OPTIONS: &[Known] = &[
    Known {
        name: "regions",
        default: "1",
        help: "regions of a table: keys are spread over them by a hash, scans ask each of them",
    },
    Known {
        name: "wal",
        default: "sync",
        help: "when a write is in the log: sync (before it is acknowledged), async (within 1 s), skip (never)",
    },
    Known {
        name: "release",
        default: UNKNOWN,
        help: "version of the servers for the report: the gateway does not tell it",
    },
    TIMEOUT,
];

struct HBase {
    store: String,
    timeout: Duration,
    gateways: Vec<(String, u16)>,
    keys: Arc<Keys>,
    wal: Wal,
    release: String,
    /// Number of sessions so far: each takes the next gateway.
    sessions: AtomicUsize,
}

pub(crate) fn open(spec: &StoreSpec) -> Result<Arc<dyn Driver>, OpenError> {
    let options = crate::driver::options(spec, OPTIONS)?;
    let regions = options.number("regions", 1, u8::MAX)?;
    let wal = match options.choice("wal", &["sync", "async", "skip"])? {
        "sync" => Wal::Sync,
        "async" => Wal::Async,
        _ => Wal::Skip,
    };
    Ok(Arc::new(HBase {
        store: spec.name.clone(),
        timeout: crate::driver::timeout(&options)?,
        gateways: crate::driver::hosts(spec)?,
        keys: Arc::new(Keys::new(regions)),
        wal,
        release: options.text("release").to_owned(),
        sessions: AtomicUsize::new(0),
    }))
}

#[async_trait]
impl Driver for HBase {
    fn abilities(&self) -> &'static [Ability] {
        &[
            Ability::Insert,
            Ability::InsertMany,
            Ability::Read,
            Ability::Update,
            Ability::Scan,
            Ability::Delete,
        ]
    }

    /// The version of the option `release`, if a gateway answers.
    async fn version(&self) -> Result<String, StoreError> {
        within(&self.store, self.timeout, async {
            self.gateway(0).await?.table_exists("hbase:meta").await
        })
        .await?;
        Ok(format!("HBase {}", self.release))
    }

    fn versions_tested(&self) -> &'static [&'static str] {
        &["HBase 2.5."]
    }

    async fn create(&self, schema: &Schema) -> Result<(), StoreError> {
        let table = &schema.table;
        within(&self.store, MAINTENANCE_TIMEOUT, async {
            let mut gateway = self.gateway(0).await?;
            if gateway.table_exists(table).await? {
                if gateway.is_enabled(table).await? {
                    gateway.disable(table).await?;
                }
                gateway.delete_table(table).await?;
            }
            gateway.create_table(table, self.wal, &self.keys.splits()).await
        })
        .await
    }

    async fn settle(&self, schema: &Schema, settle: Settle) -> Result<(), StoreError> {
        if settle == Settle::Visible {
            // Acknowledged rows are visible.
            return Ok(());
        }
        within(&self.store, MAINTENANCE_TIMEOUT, async {
            let mut gateway = self.gateway(0).await?;
            gateway.disable(&schema.table).await?;
            gateway.enable(&schema.table).await
        })
        .await
    }

    async fn table_bytes(&self, _: &Schema) -> Result<Option<u64>, StoreError> {
        Ok(None)
    }

    async fn connect(&self, schema: &Schema) -> Result<Box<dyn Session>, StoreError> {
        let gateway = self.sessions.fetch_add(1, Ordering::Relaxed) % self.gateways.len();
        let open = within(&self.store, self.timeout, self.gateway(gateway)).await?;
        Ok(Box::new(HBaseSession {
            store: self.store.clone(),
            timeout: self.timeout,
            gateway: self.gateways[gateway].clone(),
            schema: Arc::new(schema.clone()),
            keys: self.keys.clone(),
            open: Some(open),
        }))
    }
}

impl HBase {
    async fn gateway(&self, at: usize) -> Result<Gateway, StoreError> {
        Gateway::open(&self.store, &self.gateways[at], self.timeout).await
    }
}

struct HBaseSession {
    store: String,
    timeout: Duration,
    gateway: (String, u16),
    schema: Arc<Schema>,
    keys: Arc<Keys>,
    open: Option<Gateway>,
}

#[async_trait]
impl Session for HBaseSession {
    async fn execute(&mut self, operation: &Operation) -> Result<Answer, StoreError> {
        let store = self.store.clone();
        let answer = within(&store, self.timeout, self.run(operation)).await;
        match answer {
            Ok(_) | Err(StoreError::Refused { .. } | StoreError::NotSupported { .. }) => {}
            // A late answer would be taken for the answer to the next call.
            Err(_) => self.open = None,
        }
        answer
    }
}

impl HBaseSession {
    async fn run(&mut self, operation: &Operation) -> Result<Answer, StoreError> {
        match operation {
            Operation::Insert(row) => {
                let put = self.put(row);
                self.write(&put).await
            }
            Operation::InsertMany(rows) => {
                let puts: Vec<Put> = rows.iter().map(|row| self.put(row)).collect();
                let schema = self.schema.clone();
                self.connected().await?.put_multiple(&schema.table, &puts).await?;
                Ok(Answer::Done)
            }
            Operation::Read { key } => {
                let (schema, keys) = (self.schema.clone(), self.keys.clone());
                let key = keys.encode(key);
                let row = |result: &Struct<'_>| keys.row(&schema, result);
                let row = self.connected().await?.get(&schema.table, &key, row).await?;
                Ok(Answer::Row(row))
            }
            Operation::Update { key, changes } => {
                let changes = changes.iter().map(|(column, value)| self.cell(*column, value));
                let put = Put { key: self.keys.encode(key), cells: changes.collect() };
                self.write(&put).await
            }
            Operation::Scan { from, rows_max } => {
                self.scan(from, *rows_max).await.map(Answer::Rows)
            }
            Operation::Delete { key } => {
                let (schema, key) = (self.schema.clone(), self.keys.encode(key));
                self.connected().await?.delete(&schema.table, &key).await?;
                Ok(Answer::Done)
            }
            _ => {
                let (store, ability) = (self.store.clone(), operation.ability());
                Err(StoreError::NotSupported { store, ability })
            }
        }
    }

    async fn connected(&mut self) -> Result<&mut Gateway, StoreError> {
        match &mut self.open {
            Some(open) => Ok(open),
            none => Ok(none.insert(Gateway::open(&self.store, &self.gateway, self.timeout).await?)),
        }
    }

    fn put(&self, row: &Row) -> Put {
        let cells = row.values.iter().enumerate().map(|(column, value)| self.cell(column, value));
        Put { key: self.keys.encode(&row.key), cells: cells.collect() }
    }

    fn cell(&self, column: usize, value: &Value) -> (String, Vec<u8>) {
        (self.schema.columns[column].name.clone(), rows::cell(value))
    }

    async fn write(&mut self, put: &Put) -> Result<Answer, StoreError> {
        let schema = self.schema.clone();
        self.connected().await?.put(&schema.table, put).await?;
        Ok(Answer::Done)
    }

    async fn scan(&mut self, from: &Value, rows_max: usize) -> Result<Vec<Row>, StoreError> {
        let limit = i32::try_from(rows_max).unwrap_or(i32::MAX);
        if limit == 0 {
            // The gateway takes 0 for no limit.
            return Ok(Vec::new());
        }
        let (schema, keys) = (self.schema.clone(), self.keys.clone());
        let gateway = self.connected().await?;
        let mut parts = Vec::new();
        for (from, end) in keys.ranges(from) {
            let range = (&from[..], end.as_deref());
            let row = |row: &Struct<'_>| keys.row(&schema, row)?.ok_or("a row without a key");
            parts.push(gateway.scan(&schema.table, range, limit, row).await?);
        }
        Ok(crate::driver::merged(parts, rows_max))
    }
}
