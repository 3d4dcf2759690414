//! Tables: the lines of one type of log, or all lines, and the rows of a query in LogsQL.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::datatypes::{Field as ArrowField, Schema, SchemaRef};
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::{Result, exec_datafusion_err, exec_err, internal_datafusion_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::stream::RecordBatchReceiverStream;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};

use crate::client::Client;
use crate::filter::filter;
use crate::kind::{Kind, quoted};
use crate::rows::{Batches, Field};

/// Batches that wait for DataFusion while the next one is read.
const BATCHES_AHEAD_MAX: usize = 2;

/// How tables are read.
#[derive(Debug)]
pub struct Access {
    /// The server with the lines.
    pub client: Client,
    /// Rows that one table of a statement may read. Beyond it, the statement fails.
    pub rows_max: usize,
    /// Whether filters and aggregates go to Loginson. Without, all rows are fetched and DataFusion
    /// computes everything, which tests take as the reference.
    pub pushes_down: bool,
}

/// The lines of a type of log, or all of them.
#[derive(Debug)]
pub struct LogTable {
    access: Arc<Access>,
    /// LogsQL for the lines of the table.
    selects: String,
    columns: Arc<Vec<Field>>,
    schema: SchemaRef,
    /// Only so many of the newest rows are wanted, or of the oldest.
    first: Option<First>,
}

/// The first rows in an order of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct First {
    /// From the newest row on.
    pub descending: bool,
    /// Number of rows.
    pub rows: usize,
}

impl LogTable {
    /// The lines that `selects` selects. `columns` has `_time` first.
    pub fn new(access: Arc<Access>, selects: String, columns: Vec<Field>) -> LogTable {
        let schema = schema_of(&columns);
        LogTable { access, selects, columns: Arc::new(columns), schema, first: None }
    }

    /// The same table, of which only the first rows are read.
    pub fn with_first(&self, first: First) -> LogTable {
        LogTable {
            access: Arc::clone(&self.access),
            selects: self.selects.clone(),
            columns: Arc::clone(&self.columns),
            schema: Arc::clone(&self.schema),
            first: Some(first),
        }
    }

    /// Whether only the first rows are read.
    pub fn first(&self) -> Option<First> {
        self.first
    }

    /// How the table is read.
    pub fn access(&self) -> &Arc<Access> {
        &self.access
    }

    /// The kind of a column.
    pub fn kind(&self, name: &str) -> Option<Kind> {
        self.columns.iter().find(|column| column.name == name).map(|column| column.kind)
    }

    /// LogsQL for a condition, if there is an exact one.
    pub fn filter(&self, condition: &Expr) -> Option<String> {
        filter(condition, &|name| self.kind(name))
    }

    /// LogsQL for the lines of the table of which all conditions are true.
    pub fn selecting(&self, conditions: &[Expr]) -> Option<String> {
        let mut query = self.selects.clone();
        for condition in conditions {
            query.push_str(" and ");
            query.push_str(&self.filter(condition)?);
        }
        Some(query)
    }
}

/// The schema with a column for each field. Only the time of a line is always there.
pub fn schema_of(columns: &[Field]) -> SchemaRef {
    let field = |column: &Field| {
        ArrowField::new(&column.name, column.kind.data_type(), column.name != "_time")
    };
    Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>()))
}

#[async_trait]
impl TableProvider for LogTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> Result<Vec<TableProviderFilterPushDown>> {
        let support = |condition: &&Expr| {
            if self.access.pushes_down && self.filter(condition).is_some() {
                TableProviderFilterPushDown::Exact
            } else {
                TableProviderFilterPushDown::Unsupported
            }
        };
        Ok(filters.iter().map(support).collect())
    }

    async fn scan(
        &self,
        _state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let mut query = self
            .selecting(filters)
            .ok_or_else(|| internal_datafusion_err!("a filter has no LogsQL: {filters:?}"))?;
        match (self.first, limit) {
            (Some(First { descending, rows }), _) => {
                let order = if descending { " desc" } else { "" };
                query.push_str(&format!(" | sort by (_time{order}) | limit {rows}"));
            }
            (None, Some(rows)) => query.push_str(&format!(" | limit {rows}")),
            (None, None) => {}
        }
        let columns: Vec<Field> = match projection {
            Some(places) => places.iter().map(|at| self.columns[*at].clone()).collect(),
            None => self.columns.to_vec(),
        };
        // A row without any of the fields would be left out, so each has its time.
        query.push_str(" | fields _time");
        for column in columns.iter().filter(|column| column.name != "_time") {
            query.push_str(&format!(", {}", quoted(&column.name)));
        }
        scan(QueryRows::new(&self.access, query, columns))
    }
}

/// A table with the rows of a query in LogsQL.
#[derive(Debug)]
pub struct QueryTable(QueryRows);

impl QueryTable {
    /// The rows of the query, of which these fields are the columns.
    pub fn new(access: &Arc<Access>, query: String, columns: Vec<Field>) -> QueryTable {
        QueryTable(QueryRows::new(access, query, columns))
    }
}

#[async_trait]
impl TableProvider for QueryTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.0.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Temporary
    }

    async fn scan(
        &self,
        _state: &dyn Session,
        projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        _limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let mut rows = self.0.clone();
        if let Some(places) = projection {
            rows.columns = places.iter().map(|at| self.0.columns[*at].clone()).collect();
            rows.schema = schema_of(&rows.columns);
        }
        scan(rows)
    }
}

fn scan(rows: QueryRows) -> Result<Arc<dyn ExecutionPlan>> {
    let schema = Arc::clone(&rows.schema);
    let partitions: Vec<Arc<dyn PartitionStream>> = vec![Arc::new(rows)];
    Ok(Arc::new(StreamingTableExec::try_new(schema, partitions, None, [], false, None)?))
}

/// Rows of a query, which is sent when the plan runs.
#[derive(Clone, Debug)]
struct QueryRows {
    access: Arc<Access>,
    query: String,
    columns: Vec<Field>,
    schema: SchemaRef,
}

impl QueryRows {
    fn new(access: &Arc<Access>, query: String, columns: Vec<Field>) -> QueryRows {
        let schema = schema_of(&columns);
        QueryRows { access: Arc::clone(access), query, columns, schema }
    }
}

impl PartitionStream for QueryRows {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _context: Arc<TaskContext>) -> SendableRecordBatchStream {
        let mut stream =
            RecordBatchReceiverStream::builder(Arc::clone(&self.schema), BATCHES_AHEAD_MAX);
        let batches = stream.tx();
        let rows = self.clone();
        // Reading waits for Loginson, and sending for DataFusion. When nobody wants further rows,
        // the connection is closed, which ends the query in Loginson.
        stream.spawn_blocking(move || {
            log::info!("LogsQL: {}", rows.query);
            let failed = |e: anyhow::Error| exec_datafusion_err!("{e:#}");
            let mut answer = rows.access.client.query(&rows.query, None).map_err(failed)?;
            let mut collected = Batches::new(Arc::clone(&rows.schema), rows.columns);
            let mut count = 0;
            while let Some(row) = answer.next_row().map_err(failed)? {
                count += 1;
                if count > rows.access.rows_max {
                    return exec_err!(
                        "the statement needs more than {} rows of Loginson; narrow it by WHERE \
                         _time >= now() - INTERVAL '1 hour', by other conditions that Loginson can \
                         check (see docs/sql.md), or raise --rows-max",
                        rows.access.rows_max
                    );
                }
                if let Some(batch) = collected.add(row)?
                    && batches.blocking_send(Ok(batch)).is_err()
                {
                    return Ok(());
                }
            }
            if !collected.is_empty() {
                let _ = batches.blocking_send(Ok(collected.finish()?));
            }
            Ok(())
        });
        stream.build()
    }
}
