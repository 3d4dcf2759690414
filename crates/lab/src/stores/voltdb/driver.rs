//! VoltDB: a table in memory, spread over the partitions of a cluster by its key.
//!
//! Inserts, reads, changes and deletes are procedures of one partition, so that each is a
//! transaction of one thread of the server; scans and counts are read from all partitions. Each
//! session has one connection, to the nodes in turn, and a node passes on what belongs to another
//! partition. Many rows are inserted by calls that are sent together.
//!
//! In VoltDB the least 64-bit number *is* the NULL of its type, in memory and on the wire. Rows of
//! the lab have no NULL, so that a NULL stands for this number: columns may be NULL, and a count of
//! it asks for `is null`. As a key it is refused.
//!
//! A server that was restarted has no table any more: a session makes it again, empty, so that its
//! rows are found missing. Left out: users, TLS, and the choice of the node that has the key, which
//! VoltDB's own clients compute.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::Mutex;

use super::connection::Connection;
use super::statements::{self, Shape};
use super::wire::{Cell, Table};
use crate::driver::{
    Ability, Answer, Driver, MAINTENANCE_TIMEOUT, OpenError, Operation, Session, Settle,
    StoreError, StoreSpec, TIMEOUT, within,
};
use crate::options::Known;
use crate::row::{ColumnKind, Row, Schema, Value};

/// Procedure that runs statements sent as text.
const AD_HOC: &str = "@AdHoc";

/// Statistics are in units of 1024 bytes.
const STATISTICS_UNIT_BYTES: u64 = 1024;

/// Time between two looks at statistics, which the server renews every few seconds.
const STATISTICS_PAUSE: Duration = Duration::from_millis(250);

/// How long new statistics are waited for: several times the server's interval.
const STATISTICS_WAIT_MAX: Duration = Duration::from_secs(60);

/// Its options.
pub(crate) const OPTIONS: &[Known] = &[TIMEOUT];

struct VoltDb {
    store: String,
    timeout: Duration,
    nodes: Vec<(String, u16)>,
    /// Number of sessions so far: each takes the next node.
    sessions: AtomicUsize,
    /// Held while a table is looked for and made.
    defining: Mutex<()>,
}

pub(crate) fn open(spec: &StoreSpec) -> Result<Arc<dyn Driver>, OpenError> {
    let options = crate::driver::options(spec, OPTIONS)?;
    let timeout = crate::driver::timeout(&options)?;
    let nodes = crate::driver::hosts(spec)?;
    Ok(Arc::new(VoltDb {
        store: spec.name.clone(),
        timeout,
        nodes,
        sessions: AtomicUsize::new(0),
        defining: Mutex::new(()),
    }))
}

#[async_trait]
impl Driver for VoltDb {
    fn abilities(&self) -> &'static [Ability] {
        &[
            Ability::Insert,
            Ability::InsertMany,
            Ability::Read,
            Ability::Update,
            Ability::Scan,
            Ability::Count,
            Ability::Delete,
        ]
    }

    async fn version(&self) -> Result<String, StoreError> {
        let ask = self.connect_to(0);
        let build = within(&self.store, self.timeout, ask).await?.build;
        Ok(match build.split_once('_') {
            Some((version, build)) => format!("VoltDB {version} ({build})"),
            None => format!("VoltDB {build}"),
        })
    }

    fn versions_tested(&self) -> &'static [&'static str] {
        &["VoltDB 10.0 "]
    }

    async fn create(&self, schema: &Schema) -> Result<(), StoreError> {
        within(&self.store, MAINTENANCE_TIMEOUT, async {
            let mut connection = self.connect_to(0).await?;
            let procedures = catalog(&mut connection, "PROCEDURES", "PROCEDURE_NAME").await?;
            let drop = statements::drop(schema, procedures.iter().map(String::as_str));
            run(&mut connection, drop).await?;
            run(&mut connection, statements::create(schema)).await
        })
        .await
    }

    /// Acknowledged rows are visible, and there are no data files.
    async fn settle(&self, _: &Schema, _: Settle) -> Result<(), StoreError> {
        Ok(())
    }

    /// Memory of rows, texts and indexes in all partitions and copies, from statistics that the
    /// server made after this call.
    async fn table_bytes(&self, schema: &Schema) -> Result<Option<u64>, StoreError> {
        let limit = self.timeout.max(STATISTICS_WAIT_MAX);
        let bytes = within(&self.store, limit, async {
            let mut connection = self.connect_to(0).await?;
            let before = self.statistics(&mut connection, schema, "TABLE").await?;
            loop {
                tokio::time::sleep(STATISTICS_PAUSE).await;
                let table = self.statistics(&mut connection, schema, "TABLE").await?;
                if !before
                    .iter()
                    .all(|(part, old)| table.get(part).is_some_and(|new| new.made_ms > old.made_ms))
                {
                    continue;
                }
                let index = self.statistics(&mut connection, schema, "INDEX").await?;
                return Ok(table.values().chain(index.values()).map(|part| part.bytes).sum());
            }
        });
        bytes.await.map(Some)
    }

    async fn connect(&self, schema: &Schema) -> Result<Box<dyn Session>, StoreError> {
        let node = self.sessions.fetch_add(1, Ordering::Relaxed) % self.nodes.len();
        let connection = within(&self.store, self.timeout, async {
            let mut connection = self.connect_to(node).await?;
            self.make_if_missing(&mut connection, schema).await?;
            Ok(connection)
        });
        let connection = connection.await?;
        let own = |operation: &str| statements::own_procedure(schema, operation);
        Ok(Box::new(VoltDbSession {
            store: self.store.clone(),
            timeout: self.timeout,
            node: self.nodes[node].clone(),
            schema: schema.clone(),
            insert: own("insert"),
            read: own("select"),
            delete: own("delete"),
            open: Some(connection),
        }))
    }
}

/// Statistics of a part of a table.
struct Part {
    /// When the server made them, ms since 1970.
    made_ms: i64,
    bytes: u64,
}

impl VoltDb {
    async fn connect_to(&self, node: usize) -> Result<Connection, StoreError> {
        Connection::open(&self.store, &self.nodes[node], self.timeout).await
    }

    async fn make_if_missing(
        &self,
        connection: &mut Connection,
        schema: &Schema,
    ) -> Result<(), StoreError> {
        let _one_at_a_time = self.defining.lock().await;
        let tables = catalog(connection, "TABLES", "TABLE_NAME").await?;
        match tables.contains(&statements::catalog_name(schema)) {
            true => Ok(()),
            false => run(connection, statements::create(schema)).await,
        }
    }

    /// Statistics of the table (`TABLE`) or its indexes (`INDEX`), by node, site and index.
    async fn statistics(
        &self,
        connection: &mut Connection,
        schema: &Schema,
        kind: &str,
    ) -> Result<BTreeMap<(i64, i64, String), Part>, StoreError> {
        let kind = Value::Text(kind.to_owned());
        // Since the server began, rather than since the last call.
        let total = Value::Integer(0);
        let tables = connection.call("@Statistics", &[&kind, &total]).await?;
        let wrong = || answer(&self.store, "statistics lack a column");
        let table = tables.first().ok_or_else(wrong)?;
        let sizes: Vec<usize> = ["TUPLE_ALLOCATED_MEMORY", "STRING_DATA_MEMORY", "MEMORY_ESTIMATE"]
            .iter()
            .filter_map(|name| table.columns.iter().position(|column| column == name))
            .collect();
        let wanted = Cell::Text(statements::catalog_name(schema));
        let mut parts = BTreeMap::new();
        for row in &table.rows {
            let cell = |name: &str| {
                let column = table.columns.iter().position(|column| column == name);
                column.and_then(|column| row.get(column))
            };
            let integer = |name: &str| match cell(name) {
                Some(Cell::Integer(number)) => Ok(*number),
                _ => Err(wrong()),
            };
            if cell("TABLE_NAME") != Some(&wanted) {
                continue;
            }
            let index = match cell("INDEX_NAME") {
                Some(Cell::Text(name)) => name.clone(),
                _ => String::new(),
            };
            let size = |column: &usize| match row.get(*column) {
                Some(Cell::Integer(size)) => u64::try_from(*size).unwrap_or(0),
                _ => 0,
            };
            let units = sizes.iter().map(size).fold(0, u64::saturating_add);
            let bytes = units.saturating_mul(STATISTICS_UNIT_BYTES);
            let key = (integer("HOST_ID")?, integer("SITE_ID")?, index);
            parts.insert(key, Part { made_ms: integer("TIMESTAMP")?, bytes });
        }
        Ok(parts)
    }
}

/// Runs statements that define tables and procedures.
async fn run(connection: &mut Connection, sql: String) -> Result<(), StoreError> {
    connection.call(AD_HOC, &[&Value::Text(sql)]).await.map(|_| ())
}

/// The texts in a column of a table of the server's catalog.
async fn catalog(
    connection: &mut Connection,
    table: &str,
    column: &str,
) -> Result<Vec<String>, StoreError> {
    let tables = connection.call("@SystemCatalog", &[&Value::Text(table.to_owned())]).await?;
    let Some(table) = tables.into_iter().next() else { return Ok(Vec::new()) };
    let at = table.columns.iter().position(|name| name == column);
    let text = |row: Vec<Cell>| match row.into_iter().nth(at?) {
        Some(Cell::Text(text)) => Some(text),
        _ => None,
    };
    Ok(table.rows.into_iter().filter_map(text).collect())
}

struct VoltDbSession {
    store: String,
    timeout: Duration,
    node: (String, u16),
    schema: Schema,
    /// Names of procedures.
    insert: String,
    read: String,
    delete: String,
    open: Option<Connection>,
}

#[async_trait]
impl Session for VoltDbSession {
    async fn execute(&mut self, operation: &Operation) -> Result<Answer, StoreError> {
        let store = self.store.clone();
        let answer = within(&store, self.timeout, self.run(operation)).await;
        if !matches!(
            answer,
            Ok(_) | Err(StoreError::Refused { .. } | StoreError::NotSupported { .. })
        ) {
            // A late answer would be taken for the answer to the next call.
            self.open = None;
        }
        answer
    }
}

impl VoltDbSession {
    async fn run(&mut self, operation: &Operation) -> Result<Answer, StoreError> {
        match operation {
            Operation::Insert(row) => {
                let (procedure, values) = (self.insert.clone(), values(row));
                self.call(&procedure, &values).await?;
                Ok(Answer::Done)
            }
            Operation::InsertMany(rows) => {
                let procedure = self.insert.clone();
                self.connected().await?.call_each(&procedure, rows.iter().map(values)).await?;
                Ok(Answer::Done)
            }
            Operation::Read { key } => {
                let procedure = self.read.clone();
                let rows = self.rows(&procedure, &[key]).await?;
                Ok(Answer::Row(rows.into_iter().next()))
            }
            Operation::Update { key, changes } => {
                let mut changes: Vec<&(usize, Value)> = changes.iter().collect();
                changes.sort_by_key(|(column, _)| *column);
                let shape = Shape::Set(changes.iter().map(|(column, _)| *column).collect());
                let mut values: Vec<&Value> = changes.iter().map(|(_, value)| value).collect();
                values.push(key);
                match self.number(&shape, &values).await? {
                    0 => Err(crate::driver::no_row(&self.store, key)),
                    _ => Ok(Answer::Done),
                }
            }
            Operation::Scan { from, rows_max } => {
                let rows_max = i32::try_from(*rows_max).unwrap_or(i32::MAX);
                let limit = Value::Integer(i64::from(rows_max));
                let (procedure, text) = self.procedure(&Shape::Scan);
                let rows = self.rows(&procedure, &with(&text, &[from, &limit])).await?;
                Ok(Answer::Rows(rows))
            }
            Operation::Count { conditions } => self.count(conditions).await.map(Answer::Count),
            Operation::Delete { key } => {
                let procedure = self.delete.clone();
                self.call(&procedure, &[key]).await?;
                Ok(Answer::Done)
            }
            Operation::Search(_) | Operation::Aggregate(_) | Operation::Stream(_) => {
                let (store, ability) = (self.store.clone(), operation.ability());
                Err(StoreError::NotSupported { store, ability })
            }
        }
    }

    async fn connected(&mut self) -> Result<&mut Connection, StoreError> {
        match &mut self.open {
            Some(open) => Ok(open),
            none => Ok(none.insert(Connection::open(&self.store, &self.node, self.timeout).await?)),
        }
    }

    /// Calls a procedure that has one result.
    async fn call(&mut self, procedure: &str, values: &[&Value]) -> Result<Table, StoreError> {
        let tables = self.connected().await?.call(procedure, values).await?;
        let first = tables.into_iter().next();
        first.ok_or_else(|| answer(&self.store, "a procedure without a result"))
    }

    /// The procedure for a statement; if it has none, the one that runs text, with the text.
    fn procedure(&self, shape: &Shape) -> (String, Option<Value>) {
        match shape.procedure(&self.schema) {
            Some(procedure) => (procedure, None),
            None => (AD_HOC.to_owned(), Some(Value::Text(shape.sql(&self.schema)))),
        }
    }

    /// The one number that a count or a change returns.
    async fn number(&mut self, shape: &Shape, values: &[&Value]) -> Result<u64, StoreError> {
        let (procedure, text) = self.procedure(shape);
        let table = self.call(&procedure, &with(&text, values)).await?;
        only_number(&self.store, &table)
    }

    async fn count(&mut self, conditions: &[(usize, Value)]) -> Result<u64, StoreError> {
        let mut conditions: Vec<&(usize, Value)> = conditions.iter().collect();
        conditions.sort_by_key(|(column, _)| *column);
        let null = |value: &Value| *value == Value::Integer(i64::MIN);
        let values: Vec<&Value> =
            conditions.iter().map(|(_, value)| value).filter(|value| !null(value)).collect();
        if values.len() == conditions.len() {
            let columns = conditions.iter().map(|(column, _)| *column).collect();
            return self.number(&Shape::Count(columns), &values).await;
        }
        let conditions = conditions.iter().map(|(column, value)| {
            let is = if null(value) { "is null" } else { "= ?" };
            format!("{} {is}", statements::name(&self.schema, *column))
        });
        let text = Some(Value::Text(statements::counted(&self.schema, conditions)));
        let table = self.call(AD_HOC, &with(&text, &values)).await?;
        only_number(&self.store, &table)
    }

    async fn rows(&mut self, procedure: &str, values: &[&Value]) -> Result<Vec<Row>, StoreError> {
        let table = self.call(procedure, values).await?;
        let row = |cells| row(&self.schema, cells);
        let rows: Option<Vec<Row>> = table.rows.into_iter().map(row).collect();
        rows.ok_or_else(|| answer(&self.store, "a row does not have the columns of the table"))
    }
}

/// Parameters of a procedure; of the one that runs text, the text first.
fn with<'a>(text: &'a Option<Value>, values: &[&'a Value]) -> Vec<&'a Value> {
    text.iter().chain(values.iter().copied()).collect()
}

fn values(row: &Row) -> Vec<&Value> {
    std::iter::once(&row.key).chain(&row.values).collect()
}

fn row(schema: &Schema, cells: Vec<Cell>) -> Option<Row> {
    if cells.len() != 1 + schema.columns.len() {
        return None;
    }
    let kinds = std::iter::once(schema.key).chain(schema.columns.iter().map(|c| c.kind));
    let mut values = cells.into_iter().zip(kinds).map(|(cell, kind)| match (cell, kind) {
        (Cell::Integer(number), ColumnKind::Integer) => Some(Value::Integer(number)),
        (Cell::Text(text), ColumnKind::Text) => Some(Value::Text(text)),
        _ => None,
    });
    let key = values.next()??;
    Some(Row { key, values: values.collect::<Option<_>>()? })
}

fn only_number(store: &str, table: &Table) -> Result<u64, StoreError> {
    match table.rows.first().map(Vec::as_slice) {
        Some([Cell::Integer(number)]) if *number >= 0 => Ok(*number as u64),
        _ => Err(answer(store, "a count is one number")),
    }
}

fn answer(store: &str, reason: &str) -> StoreError {
    StoreError::Answer { store: store.to_owned(), reason: reason.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::Column;

    #[test]
    fn cells_become_a_row_only_if_they_fit_the_table() {
        let column = |name: &str, kind| Column::new(name, kind, false);
        let columns = vec![column("size", ColumnKind::Integer), column("text", ColumnKind::Text)];
        let schema = Schema { table: "t".to_owned(), key: ColumnKind::Text, columns };
        let text = |text: &str| Cell::Text(text.to_owned());
        let whole = vec![text("a"), Cell::Integer(i64::MIN), text("")];
        let expected = Row {
            key: Value::Text("a".to_owned()),
            values: vec![Value::Integer(i64::MIN), Value::Text(String::new())],
        };
        assert_eq!(row(&schema, whole.clone()), Some(expected));
        for (at, cell) in [(0, Cell::Null), (1, text("1")), (2, Cell::Other)] {
            let mut wrong = whole.clone();
            wrong[at] = cell;
            assert_eq!(row(&schema, wrong), None);
        }
        assert_eq!(row(&schema, whole[..2].to_vec()), None);
    }

    #[test]
    fn a_count_is_one_number() {
        let table = |row: Vec<Cell>| Table { columns: Vec::new(), rows: vec![row] };
        assert_eq!(only_number("s", &table(vec![Cell::Integer(3)])).ok(), Some(3));
        for row in [vec![], vec![Cell::Integer(-1)], vec![Cell::Null], vec![Cell::Integer(1); 2]] {
            assert!(only_number("s", &table(row)).is_err());
        }
        let empty = Table { columns: Vec::new(), rows: Vec::new() };
        assert!(only_number("s", &empty).is_err());
    }
}
