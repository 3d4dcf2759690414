//! Cassandra, over CQL: a table is a table with the key as partition key, and a row is a partition
//! of one row.
//!
//! As with the store's own clients, all threads of a process share one session with a few
//! connections to each node (`connections`); a request is sent directly to a node with its key.
//! Statements are prepared. Nothing is retried or sent speculatively: a failed request is an error
//! that counts.
//!
//! Each column that counts filter by gets a secondary index (`index = 2i`, as in the 2015 study;
//! `sai` are those of Cassandra 5; `none` reads everything). A count by several columns uses one
//! index and filters its results (`ALLOW FILTERING`). Keys are stored in the order of their hashes,
//! which is therefore the order of scans, as in YCSB's binding. An update of a missing row creates
//! it, as every write of Cassandra does.
//!
//! Flushing and merging are not in CQL: they are done by the command in the option `nodetool`, in
//! which `{host}` stands for each endpoint's host, as in `nodetool -h {host}` or `ssh {host}
//! nodetool`. Without it they are refused.
//!
//! Left out: authentication, TLS, several data centres.

mod statements;

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::stream::{FuturesUnordered, StreamExt};
use scylla::client::PoolSize;
use scylla::client::execution_profile::ExecutionProfile;
use scylla::client::session::Session as Client;
use scylla::client::session_builder::SessionBuilder;
use scylla::errors::{ExecutionError, NewSessionError, PrepareError, RequestAttemptError};
use scylla::policies::load_balancing::{NodeIdentifier, SingleTargetLoadBalancingPolicy};
use scylla::policies::retry::FallthroughRetryPolicy;
use scylla::response::PagingState;
use scylla::response::query_result::QueryRowsResult;
use scylla::serialize::row::SerializeRow;
use scylla::statement::Consistency;
use scylla::statement::prepared::PreparedStatement;
use scylla::statement::unprepared::Statement;
use scylla::value::CqlValue;
use tokio::sync::{Mutex, OnceCell};

use self::statements::{Cell, Cql, Statements, cells};
use crate::driver::aggregate::{Aggregate, Aggregation, Function};
use crate::driver::{
    Ability, Answer, Driver, OpenError, Operation, Scans, Session, Settle, StoreError, StoreSpec,
    TIMEOUT, too_large,
};
use crate::options::{Known, known};
use crate::row::{ColumnKind, Row, Schema, Value};

/// Time to make a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Rows that a node reads before it answers, because it holds them in memory. The usual page size
/// of CQL.
const PAGE_ROWS: i32 = 5000;

/// Concurrent single writes in one [`Operation::InsertMany`]. One batch of many keys would be
/// slower, because a node would have to split it.
const INSERTS_AT_ONCE: usize = 64;

/// Copies of a row; Cassandra refuses writes if there are more copies than nodes.
const REPLICAS_MAX: u64 = 100;

/// Connections to each node. One carries up to 32,768 concurrent requests.
const CONNECTIONS_MAX: NonZeroUsize = NonZeroUsize::new(128).expect("not 0");

/// Time limit for creating a table, flushing and merging.
const MAINTENANCE_TIMEOUT: Duration = Duration::from_secs(3600);

/// Time limit until every node knows that the indexes of a new, empty table are built.
const INDEX_TIMEOUT: Duration = Duration::from_secs(60);

/// Time between two checks of that.
const INDEX_POLL: Duration = Duration::from_millis(100);

/// How counts find rows by column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Index {
    /// Secondary indexes, a hidden table each.
    Secondary,
    /// Storage-attached indexes.
    StorageAttached,
    /// No index.
    None,
}

struct Cassandra {
    spec: StoreSpec,
    timeout: Duration,
    cql: Cql,
    consistency: Consistency,
    connections: NonZeroUsize,
    nodetool: Option<String>,
    client: OnceCell<Arc<Client>>,
    /// The statements of the table that was last connected to.
    statements: Mutex<Option<Arc<Statements>>>,
}

/// Its options.
pub(crate) const OPTIONS: &[Known] = &[
    Known { name: "consistency", default: "one", help: "copies that answer: one, quorum or all" },
    known("index", "2i", "index of columns that are counted by: 2i, sai or none"),
    Known { name: "replicas", default: "1", help: "copies of each row" },
    known("connections", "1", "connections to each node, shared by all threads"),
    Known {
        name: "nodetool",
        default: "",
        help: "command that flushes, merges and tells sizes, with {host} for the host of a node",
    },
    TIMEOUT,
];

pub(crate) fn open(spec: &StoreSpec) -> Result<Arc<dyn Driver>, OpenError> {
    let options = crate::driver::options(spec, OPTIONS)?;
    let consistency = match options.choice("consistency", &["one", "quorum", "all"])? {
        "all" => Consistency::All,
        "quorum" => Consistency::Quorum,
        _ => Consistency::One,
    };
    let index = match options.choice("index", &["2i", "sai", "none"])? {
        "none" => Index::None,
        "sai" => Index::StorageAttached,
        _ => Index::Secondary,
    };
    let replicas = options.number("replicas", 1, REPLICAS_MAX)?;
    let connections = options.number("connections", NonZeroUsize::MIN, CONNECTIONS_MAX)?;
    let nodetool = Some(options.text("nodetool").to_owned()).filter(|command| !command.is_empty());
    let timeout = crate::driver::timeout(&options)?;
    Ok(Arc::new(Cassandra {
        spec: spec.clone(),
        timeout,
        cql: Cql { index, replicas },
        consistency,
        connections,
        nodetool,
        client: OnceCell::new(),
        statements: Mutex::new(None),
    }))
}

#[async_trait]
impl Driver for Cassandra {
    fn abilities(&self) -> &'static [Ability] {
        Ability::ROWS_AND_AGGREGATE
    }

    /// In the order of the hashes of keys.
    fn scans(&self) -> Scans {
        Scans::Unordered
    }

    async fn version(&self) -> Result<String, StoreError> {
        let errors = self.errors();
        let query = "SELECT release_version FROM system.local";
        let result = self.client().await?.query_unpaged(query, ()).await;
        let rows = result.map_err(|e| errors.execution(e))?.into_rows_result();
        let rows = rows.map_err(|e| errors.answer(e))?;
        let (version,) = rows.single_row::<(String,)>().map_err(|e| errors.answer(e))?;
        Ok(format!("Cassandra {version}"))
    }

    fn versions_tested(&self) -> &'static [&'static str] {
        &["Cassandra 5.0."]
    }

    async fn create(&self, schema: &Schema) -> Result<(), StoreError> {
        *self.statements.lock().await = None;
        for cql in self.cql.create(schema) {
            self.maintain(cql, None).await?;
        }
        self.indexes_built(schema).await
    }

    /// A row is visible once it is acknowledged, for reads whose consistency overlaps with that of
    /// the write.
    async fn settle(&self, schema: &Schema, settle: Settle) -> Result<(), StoreError> {
        let table = &schema.table;
        if settle != Settle::Visible {
            self.nodetool(&["flush", Cql::KEYSPACE, table]).await?;
        }
        if settle == Settle::Compacted {
            let tables = self.cql.tables(schema);
            let mut arguments = vec!["compact", Cql::KEYSPACE];
            arguments.extend(tables.iter().map(String::as_str));
            self.nodetool(&arguments).await?;
        }
        Ok(())
    }

    /// The size of all copies on all nodes, as `nodetool tablestats` reports it for the table and
    /// its indexes.
    async fn table_bytes(&self, schema: &Schema) -> Result<Option<u64>, StoreError> {
        if self.nodetool.is_none() {
            return Ok(None);
        }
        let tables = self.cql.tables(schema);
        let named: Vec<String> =
            tables.iter().map(|table| format!("{}.{table}", Cql::KEYSPACE)).collect();
        let mut arguments = vec!["tablestats", "-F", "json"];
        arguments.extend(named.iter().map(String::as_str));
        let mut bytes = 0;
        for answer in self.nodetool(&arguments).await? {
            bytes += table_bytes(&answer, &tables).ok_or_else(|| {
                self.errors().answer(format!("tablestats without the table: {answer}"))
            })?;
        }
        Ok(Some(bytes))
    }

    async fn connect(&self, schema: &Schema) -> Result<Box<dyn Session>, StoreError> {
        let client = self.client().await?;
        let mut shared = self.statements.lock().await;
        let statements = match &*shared {
            Some(statements) if statements.schema == *schema => Arc::clone(statements),
            _ => {
                let prepared = Statements::prepare(&client, schema).await;
                let statements = Arc::new(prepared.map_err(|e| self.errors().prepare(e))?);
                Arc::clone(shared.insert(statements))
            }
        };
        Ok(Box::new(Connection { errors: self.errors(), client, statements }))
    }
}

impl Cassandra {
    fn errors(&self) -> Errors {
        Errors { store: self.spec.name.clone() }
    }

    async fn client(&self) -> Result<Arc<Client>, StoreError> {
        let connect = || async {
            let profile = ExecutionProfile::builder()
                .consistency(self.consistency)
                .request_timeout(Some(self.timeout))
                .retry_policy(Arc::new(FallthroughRetryPolicy::new()))
                .build();
            SessionBuilder::new()
                .known_nodes(&self.spec.endpoints)
                .default_execution_profile_handle(profile.into_handle())
                .pool_size(PoolSize::PerHost(self.connections))
                .connection_timeout(CONNECT_TIMEOUT.min(self.timeout))
                .keyspaces_to_fetch([Cql::KEYSPACE])
                .build()
                .await
                .map(Arc::new)
                .map_err(|e| self.errors().connection(e))
        };
        self.client.get_or_try_init(connect).await.cloned()
    }

    /// Runs a slow statement, optionally on one node.
    async fn maintain(&self, cql: String, node: Option<NodeIdentifier>) -> Result<(), StoreError> {
        let mut statement = Statement::new(cql);
        statement.set_request_timeout(Some(MAINTENANCE_TIMEOUT));
        let node = node.map(|node| SingleTargetLoadBalancingPolicy::new(node, None));
        statement.set_load_balancing_policy(node);
        let result = self.client().await?.query_unpaged(statement, ()).await;
        result.map(drop).map_err(|e| self.errors().execution(e))
    }

    /// Waits until every node can count with every index; before that some refuse.
    async fn indexes_built(&self, schema: &Schema) -> Result<(), StoreError> {
        let client = self.client().await?;
        let deadline = tokio::time::Instant::now() + INDEX_TIMEOUT;
        for node in client.get_cluster_state().get_nodes_info() {
            for cql in self.cql.probes(schema) {
                let node = NodeIdentifier::Node(Arc::clone(node));
                while let Err(e) = self.maintain(cql.clone(), Some(node.clone())).await {
                    if tokio::time::Instant::now() > deadline {
                        return Err(e);
                    }
                    tokio::time::sleep(INDEX_POLL).await;
                }
            }
        }
        Ok(())
    }

    /// Runs nodetool for each endpoint, one after another, and returns its output.
    async fn nodetool(&self, arguments: &[&str]) -> Result<Vec<String>, StoreError> {
        let errors = self.errors();
        let Some(command) = &self.nodetool else {
            return Err(errors.refused(format!(
                "`{}` is asked for with nodetool: give the option nodetool = \"nodetool -h {{host}}\"",
                arguments[0]
            )));
        };
        let mut answers = Vec::new();
        for endpoint in &self.spec.endpoints {
            let host = endpoint.rsplit_once(':').map_or(endpoint.as_str(), |(host, _)| host);
            let command = command.replace("{host}", host);
            let mut words = command.split_whitespace();
            let program = words.next().unwrap_or_default();
            let running = tokio::process::Command::new(program)
                .args(words)
                .args(arguments)
                .stdin(std::process::Stdio::null())
                .kill_on_drop(true)
                .output();
            let output = match tokio::time::timeout(MAINTENANCE_TIMEOUT, running).await {
                Ok(Ok(output)) => output,
                Ok(Err(e)) => return Err(errors.refused(format!("`{command}`: {e}"))),
                Err(_) => return Err(errors.timeout(MAINTENANCE_TIMEOUT)),
            };
            if !output.status.success() {
                let said = [output.stdout, output.stderr].concat();
                let said = String::from_utf8_lossy(&said);
                return Err(errors.refused(format!("`{command} {}`: {said}", arguments[0])));
            }
            answers.push(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        Ok(answers)
    }
}

/// Bytes of the tables in the JSON of `nodetool tablestats`; `None` if one is missing.
fn table_bytes(answer: &str, tables: &[String]) -> Option<u64> {
    let answer: serde_json::Value = serde_json::from_str(answer).ok()?;
    let stats = &answer[Cql::KEYSPACE]["tables"];
    let bytes =
        tables.iter().map(|table| stats[table]["space_used_total"].as_str()?.parse::<u64>().ok());
    bytes.sum()
}

struct Connection {
    errors: Errors,
    client: Arc<Client>,
    statements: Arc<Statements>,
}

#[async_trait]
impl Session for Connection {
    async fn execute(&mut self, operation: &Operation) -> Result<Answer, StoreError> {
        let statements = &*self.statements;
        match operation {
            Operation::Insert(row) => self.insert(row).await,
            Operation::InsertMany(rows) => self.insert_many(rows).await,
            Operation::Read { key } => {
                let mut rows = self.rows(&statements.read, (Cell(key),)).await?;
                Ok(Answer::Row(rows.pop()))
            }
            Operation::Update { key, changes } => {
                let columns: Vec<usize> = changes.iter().map(|(column, _)| *column).collect();
                let statement = statements.update(&self.client, &columns).await;
                let statement = statement.map_err(|e| self.errors.prepare(e))?;
                self.write(&statement, cells(changes.iter().map(|(_, v)| v).chain([key]))).await
            }
            Operation::Scan { from, rows_max } => {
                let limit = i32::try_from(*rows_max).unwrap_or(i32::MAX);
                if limit == 0 {
                    // CQL has no parameter for this limit.
                    return Ok(Answer::Rows(Vec::new()));
                }
                Ok(Answer::Rows(self.rows(&statements.scan, (Cell(from), limit)).await?))
            }
            Operation::Count { conditions } => self.count(conditions).await,
            Operation::Delete { key } => self.write(&statements.delete, (Cell(key),)).await,
            Operation::Search(_) | Operation::Stream(_) => {
                let (store, ability) = (self.errors.store.clone(), operation.ability());
                Err(StoreError::NotSupported { store, ability })
            }
            Operation::Aggregate(asked) => self.aggregate(asked).await,
        }
    }
}

impl Connection {
    async fn insert(&self, row: &Row) -> Result<Answer, StoreError> {
        let values = cells([&row.key].into_iter().chain(&row.values));
        self.write(&self.statements.insert, values).await
    }

    async fn insert_many(&self, rows: &[Row]) -> Result<Answer, StoreError> {
        let mut rows = rows.iter();
        let mut running: FuturesUnordered<_> =
            rows.by_ref().take(INSERTS_AT_ONCE).map(|row| self.insert(row)).collect();
        while let Some(result) = running.next().await {
            result?;
            running.extend(rows.next().map(|row| self.insert(row)));
        }
        Ok(Answer::Done)
    }

    async fn count(&self, conditions: &[(usize, Value)]) -> Result<Answer, StoreError> {
        let columns: Vec<usize> = conditions.iter().map(|(column, _)| *column).collect();
        let statement = self.statements.count(&self.client, &columns).await;
        let statement = statement.map_err(|e| self.errors.prepare(e))?;
        let mut count = 0;
        let values = cells(conditions.iter().map(|(_, value)| value));
        self.pages(&statement, values, |page| {
            for row in page.rows::<(i64,)>().map_err(|e| self.errors.answer(e))? {
                let (rows,) = row.map_err(|e| self.errors.answer(e))?;
                count += u64::try_from(rows).map_err(|e| self.errors.answer(e))?;
            }
            Ok(())
        })
        .await?;
        Ok(Answer::Count(count))
    }

    async fn aggregate(&self, asked: &Aggregation) -> Result<Answer, StoreError> {
        let statement = self.statements.aggregate(&self.client, asked).await;
        let statement = statement.map_err(|e| self.errors.prepare(e))?;
        let ends = asked.within.map(|within| [within.from, within.to].map(Value::Integer));
        let values = asked.conditions.iter().map(|(_, value)| value);
        let values = cells(values.chain(ends.iter().flatten()));
        let mut sum = Some(Aggregate::default());
        self.pages(&statement, values, |page| {
            for row in page.rows::<(i64, Option<i64>)>().map_err(|e| self.errors.answer(e))? {
                let (rows, value) = row.map_err(|e| self.errors.answer(e))?;
                let rows = u64::try_from(rows).map_err(|e| self.errors.answer(e))?;
                // The sum of no rows is 0 here.
                let part = Aggregate { rows, value: value.filter(|_| rows > 0) };
                sum = sum.and_then(|sum| asked.function.merge(sum, part));
            }
            Ok(())
        })
        .await?;
        sum.map(Answer::Aggregate).ok_or_else(|| too_large(&self.errors.store))
    }

    async fn write(
        &self,
        statement: &PreparedStatement,
        values: impl SerializeRow,
    ) -> Result<Answer, StoreError> {
        let result = self.client.execute_unpaged(statement, values).await;
        result.map_err(|e| self.errors.execution(e))?;
        Ok(Answer::Done)
    }

    async fn rows(
        &self,
        statement: &PreparedStatement,
        values: impl SerializeRow,
    ) -> Result<Vec<Row>, StoreError> {
        let mut rows = Vec::new();
        self.pages(statement, values, |page| {
            for row in page.rows::<scylla::value::Row>().map_err(|e| self.errors.answer(e))? {
                rows.push(self.row(row.map_err(|e| self.errors.answer(e))?)?);
            }
            Ok(())
        })
        .await?;
        Ok(rows)
    }

    /// Runs a query page by page.
    async fn pages(
        &self,
        statement: &PreparedStatement,
        values: impl SerializeRow,
        mut each: impl FnMut(QueryRowsResult) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let mut state = PagingState::start();
        loop {
            let page = self.client.execute_single_page(statement, &values, state).await;
            let (page, next) = page.map_err(|e| self.errors.execution(e))?;
            each(page.into_rows_result().map_err(|e| self.errors.answer(e))?)?;
            match next.into_paging_control_flow() {
                std::ops::ControlFlow::Break(()) => return Ok(()),
                std::ops::ControlFlow::Continue(next) => state = next,
            }
        }
    }

    /// A row as selected by the statements: the key, then the columns of the schema.
    fn row(&self, row: scylla::value::Row) -> Result<Row, StoreError> {
        let mut values = row.columns.into_iter().map(|value| match value {
            Some(CqlValue::BigInt(number)) => Ok(Value::Integer(number)),
            Some(CqlValue::Text(text)) => Ok(Value::Text(text)),
            other => Err(self.errors.answer(format!("a column holds {other:?}"))),
        });
        let key = values.next().unwrap_or_else(|| Err(self.errors.answer("a row of nothing")))?;
        Ok(Row { key, values: values.collect::<Result<_, _>>()? })
    }
}

/// Converts the client's errors to the lab's.
struct Errors {
    store: String,
}

impl Errors {
    fn connection(&self, e: NewSessionError) -> StoreError {
        self.unreachable(e)
    }

    fn prepare(&self, e: PrepareError) -> StoreError {
        match e {
            PrepareError::AllAttemptsFailed { first_attempt } => self.attempt(first_attempt),
            e => self.unreachable(e),
        }
    }

    fn execution(&self, e: ExecutionError) -> StoreError {
        match e {
            ExecutionError::RequestTimeout(after) => self.timeout(after),
            ExecutionError::LastAttemptError(e) => self.attempt(e),
            ExecutionError::PrepareError(e) => self.prepare(e),
            e @ (ExecutionError::ConnectionPoolError(_) | ExecutionError::EmptyPlan) => {
                self.unreachable(e)
            }
            e => self.refused(e.to_string()),
        }
    }

    fn attempt(&self, e: RequestAttemptError) -> StoreError {
        match e {
            RequestAttemptError::DbError(error, said) => self.refused(format!("{error}: {said}")),
            e @ RequestAttemptError::BrokenConnectionError(_) => self.unreachable(e),
            e => self.answer(e),
        }
    }

    fn unreachable(&self, reason: impl ToString) -> StoreError {
        StoreError::Unreachable { store: self.store.clone(), reason: reason.to_string() }
    }

    fn timeout(&self, after: Duration) -> StoreError {
        StoreError::Timeout { store: self.store.clone(), seconds: after.as_secs() }
    }

    fn refused(&self, reason: String) -> StoreError {
        StoreError::Refused { store: self.store.clone(), reason }
    }

    fn answer(&self, reason: impl ToString) -> StoreError {
        StoreError::Answer { store: self.store.clone(), reason: reason.to_string() }
    }
}
