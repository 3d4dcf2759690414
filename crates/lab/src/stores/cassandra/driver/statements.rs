//! The CQL of a table: the statements that create it, and those that use it.

use std::collections::HashMap;

use scylla::client::session::Session as Client;
use scylla::cluster::metadata::ColumnType;
use scylla::errors::PrepareError;
use scylla::serialize::SerializationError;
use scylla::serialize::value::SerializeValue;
use scylla::serialize::writers::{CellWriter, WrittenCellProof};
use scylla::statement::prepared::PreparedStatement;
use tokio::sync::Mutex;

use super::{Aggregation, ColumnKind, Function, Index, PAGE_ROWS, Schema, Value};

/// The column of the key. No column of a schema has this name, because they have no capitals.
const KEY: &str = "Key";

/// How tables are created.
pub(crate) struct Cql {
    pub index: Index,
    pub replicas: u64,
}

impl Cql {
    /// The keyspace of all tables.
    pub const KEYSPACE: &str = "lab";

    /// Statements that create the table again, empty, with its indexes.
    pub fn create(&self, schema: &Schema) -> Vec<String> {
        let (keyspace, table) = (Cql::KEYSPACE, table(schema));
        let replication = format!(
            "replication = {{'class': 'NetworkTopologyStrategy', 'replication_factor': {}}}",
            self.replicas
        );
        let cql_type = |kind: ColumnKind| match kind {
            ColumnKind::Integer => "bigint",
            ColumnKind::Text => "text",
        };
        let columns = schema.columns.iter().map(|c| (c.name.as_str(), c.kind));
        let columns: String = columns.map(|(n, k)| format!(", \"{n}\" {}", cql_type(k))).collect();
        let mut all = vec![
            format!("CREATE KEYSPACE IF NOT EXISTS {keyspace} WITH {replication}"),
            // The keyspace may exist with another number of copies.
            format!("ALTER KEYSPACE {keyspace} WITH {replication}"),
            format!("DROP TABLE IF EXISTS {table}"),
            format!(
                "CREATE TABLE {table} (\"{KEY}\" {} PRIMARY KEY{columns})",
                cql_type(schema.key)
            ),
        ];
        let using = match self.index {
            Index::Secondary => "",
            Index::StorageAttached => " USING 'sai'",
            Index::None => return all,
        };
        all.extend(self.indexed(schema).map(|column| {
            format!("CREATE INDEX \"{}\" ON {table} (\"{column}\"){using}", index(schema, column))
        }));
        all
    }

    /// Counts that use each index.
    pub fn probes(&self, schema: &Schema) -> Vec<String> {
        let columns = schema.columns.iter().filter(|c| c.indexed && self.index != Index::None);
        let probe = |name: &str, kind: ColumnKind| {
            let value = match kind {
                ColumnKind::Integer => "0",
                ColumnKind::Text => "'x'",
            };
            format!("SELECT COUNT(*) FROM {} WHERE \"{name}\" = {value}", table(schema))
        };
        columns.map(|c| probe(&c.name, c.kind)).collect()
    }

    /// Names of the table and of the tables of its indexes in nodetool.
    pub fn tables(&self, schema: &Schema) -> Vec<String> {
        let mut tables = vec![schema.table.clone()];
        if self.index == Index::Secondary {
            let indexes = self.indexed(schema).map(|column| index(schema, column));
            tables.extend(indexes.map(|index| format!("{}.{index}", schema.table)));
        }
        tables
    }

    fn indexed<'a>(&self, schema: &'a Schema) -> impl Iterator<Item = &'a str> + use<'a> {
        schema.columns.iter().filter(|c| c.indexed).map(|c| c.name.as_str())
    }
}

fn table(schema: &Schema) -> String {
    format!("{}.\"{}\"", Cql::KEYSPACE, schema.table)
}

fn index(schema: &Schema, column: &str) -> String {
    format!("{}__{column}", schema.table)
}

/// The prepared statements of one table, shared by all threads.
pub(crate) struct Statements {
    pub schema: Schema,
    pub insert: PreparedStatement,
    pub read: PreparedStatement,
    pub scan: PreparedStatement,
    pub delete: PreparedStatement,
    /// Updates by the set of columns.
    updates: Mutex<HashMap<Vec<usize>, PreparedStatement>>,
    /// Counts by the set of conditions.
    counts: Mutex<HashMap<Vec<usize>, PreparedStatement>>,
    /// Functions by what their text depends on.
    aggregates: Mutex<HashMap<Shape, PreparedStatement>>,
}

/// A function, its column, the columns with a value, and the one with a range.
type Shape = (Function, usize, Vec<usize>, Option<usize>);

impl Statements {
    /// Prepares the statements of every thread; updates and counts are prepared on first use of
    /// their columns.
    pub async fn prepare(client: &Client, schema: &Schema) -> Result<Statements, PrepareError> {
        let table = table(schema);
        let columns: String = schema.columns.iter().map(|c| format!(", \"{}\"", c.name)).collect();
        let marks = ", ?".repeat(schema.columns.len());
        let select = format!("SELECT \"{KEY}\"{columns} FROM {table} WHERE");
        let insert = format!("INSERT INTO {table} (\"{KEY}\"{columns}) VALUES (?{marks})");
        let read = format!("{select} \"{KEY}\" = ?");
        let scan = format!("{select} token(\"{KEY}\") >= token(?) LIMIT ?");
        let delete = format!("DELETE FROM {table} WHERE \"{KEY}\" = ?");
        Ok(Statements {
            schema: schema.clone(),
            insert: prepare(client, insert).await?,
            read: prepare(client, read).await?,
            scan: prepare(client, scan).await?,
            delete: prepare(client, delete).await?,
            updates: Mutex::default(),
            counts: Mutex::default(),
            aggregates: Mutex::default(),
        })
    }

    /// Sets these columns; the last parameter is the key.
    pub async fn update(
        &self,
        client: &Client,
        columns: &[usize],
    ) -> Result<PreparedStatement, PrepareError> {
        let text = || {
            let set = self.equalities(columns, ", ");
            format!("UPDATE {} SET {set} WHERE \"{KEY}\" = ?", table(&self.schema))
        };
        cached(&self.updates, client, columns.to_vec(), text).await
    }

    /// Counts by these columns.
    pub async fn count(
        &self,
        client: &Client,
        columns: &[usize],
    ) -> Result<PreparedStatement, PrepareError> {
        let text = || {
            let all = format!("SELECT COUNT(*) FROM {}", table(&self.schema));
            match self.equalities(columns, " AND ") {
                conditions if conditions.is_empty() => all,
                conditions => format!("{all} WHERE {conditions} ALLOW FILTERING"),
            }
        };
        cached(&self.counts, client, columns.to_vec(), text).await
    }

    /// Computes a function. The parameters are the values of the conditions and the ends of the
    /// range.
    pub async fn aggregate(
        &self,
        client: &Client,
        asked: &Aggregation,
    ) -> Result<PreparedStatement, PrepareError> {
        let columns: Vec<usize> = asked.conditions.iter().map(|(column, _)| *column).collect();
        let within = asked.within.map(|within| within.column);
        let name = |column: usize| format!("\"{}\"", self.schema.columns[column].name);
        let text = || {
            let function = match asked.function {
                Function::Max => "MAX",
                Function::Average => "SUM",
            };
            let (column, table) = (name(asked.column), table(&self.schema));
            let mut conditions: Vec<String> =
                columns.iter().map(|column| format!("{} = ?", name(*column))).collect();
            conditions.extend(within.map(|c| format!("{0} >= ? AND {0} < ?", name(c))));
            let all = format!("SELECT COUNT(*), {function}({column}) FROM {table}");
            match conditions.is_empty() {
                true => all,
                false => format!("{all} WHERE {} ALLOW FILTERING", conditions.join(" AND ")),
            }
        };
        let shape = (asked.function, asked.column, columns.clone(), within);
        cached(&self.aggregates, client, shape, text).await
    }

    fn equalities(&self, columns: &[usize], separator: &str) -> String {
        let name = |column: &usize| format!("\"{}\" = ?", self.schema.columns[*column].name);
        columns.iter().map(name).collect::<Vec<_>>().join(separator)
    }
}

async fn cached<K: Eq + std::hash::Hash>(
    statements: &Mutex<HashMap<K, PreparedStatement>>,
    client: &Client,
    shape: K,
    text: impl FnOnce() -> String,
) -> Result<PreparedStatement, PrepareError> {
    let mut statements = statements.lock().await;
    if let Some(statement) = statements.get(&shape) {
        return Ok(statement.clone());
    }
    let statement = prepare(client, text()).await?;
    statements.insert(shape, statement.clone());
    Ok(statement)
}

async fn prepare(client: &Client, text: String) -> Result<PreparedStatement, PrepareError> {
    let mut statement = client.prepare(text).await?;
    statement.set_page_size(PAGE_ROWS);
    // The table does not change while its statements exist, so responses need not describe their
    // columns.
    statement.set_use_cached_result_metadata(true);
    Ok(statement)
}

/// A value in the client's type.
pub(crate) struct Cell<'a>(pub &'a Value);

/// Values in the client's type.
pub(crate) fn cells<'a>(values: impl IntoIterator<Item = &'a Value>) -> Vec<Cell<'a>> {
    values.into_iter().map(Cell).collect()
}

impl SerializeValue for Cell<'_> {
    fn serialize<'b>(
        &self,
        kind: &ColumnType<'_>,
        writer: CellWriter<'b>,
    ) -> Result<WrittenCellProof<'b>, SerializationError> {
        match self.0 {
            Value::Integer(number) => number.serialize(kind, writer),
            Value::Text(text) => text.serialize(kind, writer),
        }
    }
}
