//! PostgreSQL: a table with the key as primary key, and an index for each column that counts filter
//! by, as in the 2015 study.
//!
//! Statements are prepared once per connection: common ones when it is opened, those that depend on
//! the named columns (updates, counts) on first use. With several endpoints each is an independent
//! shard, as the studies did it with MySQL: [`Ring`] distributes keys, scans and counts read all
//! shards. The next operation replaces a connection that broke or timed out.
//!
//! The password is read from `PGPASSWORD`, as by PostgreSQL's own programs, because options are
//! written into results. Left out: TLS, connection poolers, partitions.

mod search;

use std::collections::HashMap;
use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::try_join_all;
use tokio::task::JoinHandle;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Config, NoTls, Statement};

use crate::driver::aggregate::{Aggregate, Aggregation, Function};
use crate::driver::ring::Ring;
use crate::driver::search::Search;
use crate::driver::sharded::{self, Sharded};
use crate::driver::{
    Ability, Answer, Driver, MAINTENANCE_TIMEOUT, OpenError, Session, Settle, StoreError,
    StoreSpec, TIMEOUT, within,
};
use crate::options::{Known, known};
use crate::row::{ColumnKind, Row, Schema, Value};

/// The column of the key. No other column has this name, because they have no capitals.
const KEY: &str = "\"Key\"";

/// Its options.
pub(crate) const OPTIONS: &[Known] = &[
    TIMEOUT,
    known("synchronous_commit", "on", "off: a row is acknowledged before it is on disk"),
    Known {
        name: "trigrams",
        default: "off",
        help: "on: texts that are searched have an index of trigrams, which regular expressions use",
    },
    Known {
        name: "time_index",
        default: "btree",
        help: "the index of the time of lines: btree, or brin, which is tiny and for lines that arrive in order",
    },
    Known { name: "user", default: "postgres", help: "role to log in as" },
    Known { name: "database", default: "postgres", help: "database of the table" },
];

struct Postgres {
    store: String,
    timeout: Duration,
    configs: Vec<Config>,
    indexes: Indexes,
    ring: Arc<Ring>,
}

/// The indexes of tables of lines.
#[derive(Debug, Clone, Copy, Default)]
struct Indexes {
    /// Whether texts have an index of trigrams.
    trigrams: bool,
    /// Whether the time has an index of ranges of blocks.
    brin: bool,
}

pub(crate) fn open(spec: &StoreSpec) -> Result<Arc<dyn Driver>, OpenError> {
    let options = crate::driver::options(spec, OPTIONS)?;
    let timeout = crate::driver::timeout(&options)?;
    let commit = options.choice("synchronous_commit", &["on", "off"])?;
    let indexes = Indexes {
        trigrams: options.choice("trigrams", &["off", "on"])? == "on",
        brin: options.choice("time_index", &["btree", "brin"])? == "brin",
    };
    let mut configs = Vec::new();
    for (host, port) in crate::driver::hosts(spec)? {
        let mut config = Config::new();
        config.host(&host).port(port).connect_timeout(timeout.min(Duration::from_secs(10)));
        config.user(options.text("user")).dbname(options.text("database"));
        config.application_name("loginson-lab");
        config.options(format!("-c synchronous_commit={commit}"));
        if let Ok(password) = std::env::var("PGPASSWORD") {
            config.password(password);
        }
        configs.push(config);
    }
    let ring = Arc::new(Ring::new(configs.len()));
    Ok(Arc::new(Postgres { store: spec.name.clone(), timeout, configs, indexes, ring }))
}

#[async_trait]
impl Driver for Postgres {
    fn abilities(&self) -> &'static [Ability] {
        Ability::ALL_OF_ROWS
    }

    async fn version(&self) -> Result<String, StoreError> {
        let ask = |open: Open| async move {
            let row = open.client.query_one("select version()", &[]).await?;
            row.try_get::<_, String>(0)
        };
        let mut versions = self.on_all(self.timeout, ask).await?;
        versions.dedup();
        Ok(versions.join("; "))
    }

    fn versions_tested(&self) -> &'static [&'static str] {
        &["PostgreSQL 15.", "PostgreSQL 18."]
    }

    async fn create(&self, schema: &Schema) -> Result<(), StoreError> {
        let sql = &create_sql(schema, self.indexes);
        let make = |open: Open| async move { open.client.batch_execute(sql).await };
        self.on_all(MAINTENANCE_TIMEOUT, make).await.map(|_| ())
    }

    async fn settle(&self, schema: &Schema, settle: Settle) -> Result<(), StoreError> {
        let vacuum = format!("vacuum (analyze) {}", quoted(&schema.table));
        let statements = &match settle {
            // Committed rows are visible.
            Settle::Visible => return Ok(()),
            Settle::Flushed => vec!["checkpoint"],
            Settle::Compacted => vec![vacuum.as_str(), "checkpoint"],
        };
        let settle = |open: Open| async move {
            // One at a time: `vacuum` cannot run in a transaction, and several statements in one
            // text are a transaction.
            for statement in statements {
                open.client.batch_execute(statement).await?;
            }
            Ok(())
        };
        self.on_all(MAINTENANCE_TIMEOUT, settle).await.map(|_| ())
    }

    async fn table_bytes(&self, schema: &Schema) -> Result<Option<u64>, StoreError> {
        let table = &quoted(&schema.table);
        let ask = |open: Open| async move {
            let sql = "select pg_total_relation_size($1::text::regclass)";
            open.client.query_one(sql, &[table]).await?.try_get::<_, i64>(0)
        };
        let bytes: Vec<i64> = self.on_all(self.timeout, ask).await?;
        Ok(Some(bytes.into_iter().map(|n| n.max(0) as u64).sum()))
    }

    async fn connect(&self, schema: &Schema) -> Result<Box<dyn Session>, StoreError> {
        let schema = Arc::new(schema.clone());
        let shard = |config: &Config| Shard {
            store: self.store.clone(),
            config: config.clone(),
            schema: schema.clone(),
            open: None,
        };
        let mut shards: Vec<Shard> = self.configs.iter().map(shard).collect();
        let prepare = try_join_all(shards.iter_mut().map(Shard::prepare_common));
        within(&self.store, self.timeout, prepare).await?;
        Ok(Box::new(Sharded::new(&self.store, self.timeout, &self.ring, &schema, shards)))
    }
}

impl Postgres {
    /// See [`sharded::on_all`].
    async fn on_all<T, F>(
        &self,
        limit: Duration,
        work: impl Fn(Open) -> F,
    ) -> Result<Vec<T>, StoreError>
    where
        F: Future<Output = Result<T, tokio_postgres::Error>>,
    {
        let connecting = self.configs.iter().map(Open::new);
        sharded::on_all(&self.store, limit, connecting, work, |e| failed(&self.store, &e)).await
    }
}

/// Identifies a prepared statement of a connection by what its text depends on.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Shape {
    Insert,
    InsertMany,
    Read,
    Scan,
    Delete,
    Update(Vec<usize>),
    Count(Vec<usize>),
    /// The function, its column, the columns with a value, and the one with a range.
    Aggregate(Function, usize, Vec<usize>, Option<usize>),
}

impl Shape {
    fn sql(&self, schema: &Schema) -> String {
        let table = quoted(&schema.table);
        let name = |column: &usize| quoted(&schema.columns[*column].name);
        let columns: Vec<String> = (0..schema.columns.len()).map(|c| name(&c)).collect();
        let all = std::iter::once(KEY.to_owned()).chain(columns).collect::<Vec<_>>().join(", ");
        let kinds = std::iter::once(schema.key).chain(schema.columns.iter().map(|c| c.kind));
        // `$1, $2, …`, each with what `form` adds.
        let numbered = |form: &dyn Fn(usize, ColumnKind) -> String| {
            kinds
                .clone()
                .enumerate()
                .map(|(i, kind)| form(i + 1, kind))
                .collect::<Vec<_>>()
                .join(", ")
        };
        match self {
            Shape::Insert => {
                let values = numbered(&|i, _| format!("${i}"));
                format!("insert into {table} ({all}) values ({values})")
            }
            Shape::InsertMany => {
                let arrays = numbered(&|i, kind| format!("${i}::{}[]", sql_type(kind)));
                format!("insert into {table} ({all}) select * from unnest({arrays})")
            }
            Shape::Read => format!("select {all} from {table} where {KEY} = $1"),
            Shape::Scan => {
                format!("select {all} from {table} where {KEY} >= $1 order by {KEY} limit $2")
            }
            Shape::Delete => format!("delete from {table} where {KEY} = $1"),
            Shape::Update(columns) => {
                let sets: Vec<String> =
                    columns.iter().zip(2..).map(|(c, i)| format!("{} = ${i}", name(c))).collect();
                format!("update {table} set {} where {KEY} = $1", sets.join(", "))
            }
            Shape::Count(columns) => {
                let equal = columns.iter().zip(1..).map(|(c, i)| format!("{} = ${i}", name(c)));
                format!("select count(*) from {table}{}", all_of(equal.collect()))
            }
            Shape::Aggregate(function, column, equal, within) => {
                let column = name(column);
                let function = match function {
                    Function::Max => format!("max({column})"),
                    // The sum of integers is a numeric.
                    Function::Average => format!("sum({column})::bigint"),
                };
                let next = equal.len() + 1;
                let equal = equal.iter().zip(1..).map(|(c, i)| format!("{} = ${i}", name(c)));
                let range = within
                    .iter()
                    .map(|column| format!("{0} >= ${next} and {0} < ${1}", name(column), next + 1));
                let conditions = all_of(equal.chain(range).collect());
                format!("select count(*), {function} from {table}{conditions}")
            }
        }
    }
}

/// A condition that all of these hold; empty for none.
fn all_of(conditions: Vec<String>) -> String {
    match conditions.is_empty() {
        true => String::new(),
        false => format!(" where {}", conditions.join(" and ")),
    }
}

fn create_sql(schema: &Schema, indexes: Indexes) -> String {
    let table = quoted(&schema.table);
    // Keys are in the order of their bytes, whatever the collation of the database.
    let collate = if schema.key == ColumnKind::Text { " collate \"C\"" } else { "" };
    let mut sql = format!(
        "drop table if exists {table}; create table {table} ({KEY} {}{collate} primary key",
        sql_type(schema.key)
    );
    for column in &schema.columns {
        write!(sql, ", {} {} not null", quoted(&column.name), sql_type(column.kind))
            .expect("a String takes all");
    }
    sql.push_str(");");
    for column in schema.columns.iter().filter(|column| column.indexed) {
        let kind = if column.time && indexes.brin { " using brin" } else { "" };
        write!(sql, " create index on {table}{kind} ({});", quoted(&column.name))
            .expect("a String takes all");
    }
    sql + &search::create_indexes(schema, indexes.trigrams)
}

fn sql_type(kind: ColumnKind) -> &'static str {
    match kind {
        ColumnKind::Integer => "bigint",
        ColumnKind::Text => "text",
    }
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A connection with its statements.
struct Open {
    client: Client,
    statements: HashMap<Shape, Statement>,
    task: JoinHandle<Result<(), tokio_postgres::Error>>,
}

impl Open {
    async fn new(config: &Config) -> Result<Open, tokio_postgres::Error> {
        let (client, connection) = config.connect(NoTls).await?;
        Ok(Open { client, statements: HashMap::new(), task: tokio::spawn(connection) })
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// One of the servers of a session.
struct Shard {
    store: String,
    config: Config,
    schema: Arc<Schema>,
    open: Option<Open>,
}

impl Shard {
    async fn prepare_common(&mut self) -> Result<(), StoreError> {
        for shape in [Shape::Insert, Shape::Read, Shape::Scan, Shape::Delete] {
            self.prepared(shape).await?;
        }
        Ok(())
    }

    /// The statement on this session's connection, prepared if necessary.
    async fn prepared(&mut self, shape: Shape) -> Result<(&Client, Statement), StoreError> {
        let store = self.store.clone();
        let failed = |e| failed(&store, &e);
        let schema = self.schema.clone();
        let open = self.open().await?;
        let statement = match open.statements.get(&shape) {
            Some(statement) => statement.clone(),
            None => {
                let sql = shape.sql(&schema);
                let statement = open.client.prepare(&sql).await.map_err(failed)?;
                open.statements.insert(shape, statement.clone());
                statement
            }
        };
        Ok((&open.client, statement))
    }

    /// The connection, made again if it broke.
    async fn open(&mut self) -> Result<&mut Open, StoreError> {
        let open = match self.open.take() {
            Some(open) => open,
            None => Open::new(&self.config).await.map_err(|e| failed(&self.store, &e))?,
        };
        Ok(self.open.insert(open))
    }

    async fn change(&mut self, shape: Shape, values: &[Parameter<'_>]) -> Result<u64, StoreError> {
        let store = self.store.clone();
        let (client, statement) = self.prepared(shape).await?;
        client.execute(&statement, values).await.map_err(|e| failed(&store, &e))
    }

    async fn ask(
        &mut self,
        shape: Shape,
        values: &[Parameter<'_>],
    ) -> Result<Vec<tokio_postgres::Row>, StoreError> {
        let store = self.store.clone();
        let (client, statement) = self.prepared(shape).await?;
        client.query(&statement, values).await.map_err(|e| failed(&store, &e))
    }

    fn row(&self, row: &tokio_postgres::Row) -> Result<Row, StoreError> {
        let value = |at: usize, kind: ColumnKind| {
            let value = match kind {
                ColumnKind::Integer => row.try_get(at).map(Value::Integer),
                ColumnKind::Text => row.try_get(at).map(Value::Text),
            };
            value.map_err(|e| self.answer(&e.to_string()))
        };
        let key = value(0, self.schema.key)?;
        let columns = self.schema.columns.iter().enumerate();
        let values =
            columns.map(|(at, column)| value(at + 1, column.kind)).collect::<Result<_, _>>()?;
        Ok(Row { key, values })
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
        let values: Vec<Parameter<'_>> =
            std::iter::once(&row.key).chain(&row.values).map(parameter).collect();
        self.change(Shape::Insert, &values).await.map(|_| ())
    }

    async fn insert_many(&mut self, rows: &[&Row]) -> Result<(), StoreError> {
        let kinds =
            std::iter::once(self.schema.key).chain(self.schema.columns.iter().map(|c| c.kind));
        let array = |(at, kind): (usize, ColumnKind)| {
            let values =
                rows.iter().map(|row| if at == 0 { &row.key } else { &row.values[at - 1] });
            match kind {
                ColumnKind::Integer => integers(values).map(|v| Box::new(v) as Array<'_>),
                ColumnKind::Text => texts(values).map(|v| Box::new(v) as Array<'_>),
            }
        };
        let arrays: Option<Vec<Array<'_>>> = kinds.enumerate().map(array).collect();
        let arrays = arrays.ok_or_else(|| StoreError::Refused {
            store: self.store.clone(),
            reason: "a value is of another kind than its column".to_owned(),
        })?;
        let values: Vec<Parameter<'_>> = arrays.iter().map(|a| &**a as Parameter<'_>).collect();
        self.change(Shape::InsertMany, &values).await.map(|_| ())
    }

    async fn scan(&mut self, from: &Value, rows_max: usize) -> Result<Vec<Row>, StoreError> {
        let rows_max = i64::try_from(rows_max).unwrap_or(i64::MAX);
        let rows = self.ask(Shape::Scan, &[parameter(from), &rows_max]).await?;
        rows.iter().map(|row| self.row(row)).collect()
    }

    async fn count(&mut self, conditions: &[(usize, Value)]) -> Result<u64, StoreError> {
        let columns = conditions.iter().map(|(column, _)| *column).collect();
        let values: Vec<Parameter<'_>> = conditions.iter().map(|(_, v)| parameter(v)).collect();
        let rows = self.ask(Shape::Count(columns), &values).await?;
        let count = rows.first().and_then(|row| row.try_get::<_, i64>(0).ok());
        let count = count.and_then(|count| u64::try_from(count).ok());
        count.ok_or_else(|| self.answer("a count is one number"))
    }

    async fn aggregate(&mut self, asked: &Aggregation) -> Result<Aggregate, StoreError> {
        let equal = asked.conditions.iter().map(|(column, _)| *column).collect();
        let within = asked.within.map(|within| within.column);
        let shape = Shape::Aggregate(asked.function, asked.column, equal, within);
        let ends = asked.within.map(|within| [within.from, within.to]);
        let values = asked.conditions.iter().map(|(_, value)| parameter(value));
        let ends = ends.iter().flatten().map(|end| end as Parameter<'_>);
        let values: Vec<Parameter<'_>> = values.chain(ends).collect();
        let rows = self.ask(shape, &values).await?;
        let numbers = rows.first().and_then(|row| {
            let count = u64::try_from(row.try_get::<_, i64>(0).ok()?).ok()?;
            Some(Aggregate { rows: count, value: row.try_get(1).ok()? })
        });
        numbers.ok_or_else(|| self.answer("an aggregate is a count and a number"))
    }

    async fn read(&mut self, key: &Value) -> Result<Option<Row>, StoreError> {
        let rows = self.ask(Shape::Read, &[parameter(key)]).await?;
        rows.first().map(|row| self.row(row)).transpose()
    }

    async fn update(
        &mut self,
        key: &Value,
        changes: &[(usize, Value)],
    ) -> Result<bool, StoreError> {
        let columns = changes.iter().map(|(column, _)| *column).collect();
        let values = std::iter::once(key).chain(changes.iter().map(|(_, value)| value));
        let values: Vec<Parameter<'_>> = values.map(parameter).collect();
        Ok(self.change(Shape::Update(columns), &values).await? > 0)
    }

    async fn delete(&mut self, key: &Value) -> Result<(), StoreError> {
        self.change(Shape::Delete, &[parameter(key)]).await.map(|_| ())
    }

    async fn search(&mut self, search: &Search) -> Result<Answer, StoreError> {
        self.run_search(search).await
    }
}

type Parameter<'a> = &'a (dyn ToSql + Sync);
type Array<'a> = Box<dyn ToSql + Sync + Send + 'a>;

fn parameter(value: &Value) -> Parameter<'_> {
    match value {
        Value::Integer(number) => number,
        Value::Text(text) => text,
    }
}

fn integers<'a>(values: impl Iterator<Item = &'a Value>) -> Option<Vec<i64>> {
    let integer = |value: &Value| match value {
        Value::Integer(number) => Some(*number),
        Value::Text(_) => None,
    };
    values.map(integer).collect()
}

fn texts<'a>(values: impl Iterator<Item = &'a Value>) -> Option<Vec<&'a str>> {
    let text = |value: &'a Value| match value {
        Value::Integer(_) => None,
        Value::Text(text) => Some(text.as_str()),
    };
    values.map(text).collect()
}

/// Errors of the server are its own; a server that shuts down reports that in one, and counts as
/// unreachable.
fn failed(store: &str, e: &tokio_postgres::Error) -> StoreError {
    let going = [SqlState::ADMIN_SHUTDOWN, SqlState::CRASH_SHUTDOWN, SqlState::CANNOT_CONNECT_NOW];
    let store = store.to_owned();
    match e.as_db_error() {
        Some(own) if going.contains(own.code()) => {
            StoreError::Unreachable { store, reason: own.message().to_owned() }
        }
        Some(own) => StoreError::Refused { store, reason: own.to_string() },
        None => {
            // The client's message describes what it was doing; its source has the reason.
            let cause = std::error::Error::source(e).map(|cause| format!(": {cause}"));
            let reason = format!("{e}{}", cause.unwrap_or_default());
            let broken = e.is_closed()
                || std::error::Error::source(e).is_some_and(|c| c.is::<std::io::Error>());
            match broken {
                true => StoreError::Unreachable { store, reason },
                false => StoreError::Answer { store, reason },
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::Column;

    fn schema() -> Schema {
        let column = |name: &str, kind, indexed| Column::new(name, kind, indexed);
        Schema {
            table: "logs".to_owned(),
            key: ColumnKind::Text,
            columns: vec![
                column("time", ColumnKind::Integer, true),
                column("user", ColumnKind::Text, false),
            ],
        }
    }

    #[test]
    fn a_table_has_the_indexes_of_the_study() {
        assert_eq!(
            create_sql(&schema(), Indexes::default()),
            "drop table if exists \"logs\"; create table \"logs\" (\"Key\" text collate \"C\" primary key, \
             \"time\" bigint not null, \"user\" text not null); create index on \"logs\" (\"time\");"
        );
    }

    #[test]
    fn statements_name_columns_and_take_values() {
        for (shape, sql) in [
            (
                Shape::Insert,
                "insert into \"logs\" (\"Key\", \"time\", \"user\") values ($1, $2, $3)",
            ),
            (
                Shape::InsertMany,
                "insert into \"logs\" (\"Key\", \"time\", \"user\") select * from unnest($1::text[], $2::bigint[], $3::text[])",
            ),
            (Shape::Read, "select \"Key\", \"time\", \"user\" from \"logs\" where \"Key\" = $1"),
            (
                Shape::Scan,
                "select \"Key\", \"time\", \"user\" from \"logs\" where \"Key\" >= $1 order by \"Key\" limit $2",
            ),
            (Shape::Delete, "delete from \"logs\" where \"Key\" = $1"),
            (
                Shape::Update(vec![1, 0]),
                "update \"logs\" set \"user\" = $2, \"time\" = $3 where \"Key\" = $1",
            ),
            (
                Shape::Count(vec![0, 1]),
                "select count(*) from \"logs\" where \"time\" = $1 and \"user\" = $2",
            ),
            (Shape::Count(vec![]), "select count(*) from \"logs\""),
            (
                Shape::Aggregate(Function::Average, 0, vec![1], Some(0)),
                "select count(*), sum(\"time\")::bigint from \"logs\" where \"user\" = $1 and \"time\" >= $2 and \"time\" < $3",
            ),
            (
                Shape::Aggregate(Function::Max, 0, vec![], None),
                "select count(*), max(\"time\") from \"logs\"",
            ),
        ] {
            assert_eq!(shape.sql(&schema()), sql);
        }
    }
}
