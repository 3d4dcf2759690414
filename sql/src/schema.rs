//! Finds the tables and their columns: one table for each type of log, and `logs` with all lines.
//!
//! Loginson has no schema. The newest lines of a type tell what its fields are and which of them
//! hold numbers only; the names of the fields of the last week are added as texts. This is read
//! again at intervals. A column stays once it is there, and one that is a text stays one, so a
//! dashboard does not change under its user.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use anyhow::{Context, Result};
use async_trait::async_trait;
use datafusion::catalog::{SchemaProvider, TableProvider};

use crate::kind::{Kind, quoted};
use crate::rows::Field;
use crate::table::{Access, LogTable};

/// The table with all lines.
pub const ALL: &str = "logs";
/// Lines of a type that are looked at for its fields.
const SAMPLE_LINES: usize = 2_000;
/// Columns of a table. Beyond it, further fields have no column, which the log tells.
const COLUMNS_MAX: usize = 1_000;
/// Types of logs that become tables. Beyond it, the rarest have none, which the log tells.
const TABLES_MAX: usize = 200;
/// How far back names of fields are looked up that the newest lines do not have.
const NAMES_OF: &str = "_time:7d";

/// Columns of the tables, by name of the table and of the column.
type Columns = BTreeMap<String, BTreeMap<String, Kind>>;

/// The schema `public`: the tables as they were found last.
#[derive(Debug)]
pub struct Tables {
    access: Arc<Access>,
    found: RwLock<Found>,
}

#[derive(Debug, Default)]
struct Found {
    columns: Columns,
    tables: BTreeMap<String, Arc<LogTable>>,
}

impl Tables {
    /// No tables yet; `refresh` finds them.
    pub fn new(access: Arc<Access>) -> Tables {
        Tables { access, found: RwLock::default() }
    }

    /// Looks for tables and columns. Blocks until Loginson has answered.
    pub fn refresh(&self) -> Result<()> {
        let client = &self.access.client;
        let limit = (TABLES_MAX + 1).to_string();
        let mut types = client
            .values(
                "field_values",
                &[("query", "*"), ("field", "_type"), ("limit", limit.as_str())],
            )
            .context("cannot look up the types of logs")?;
        if types.len() > TABLES_MAX {
            log::warn!("of more than {TABLES_MAX} types of logs, the rarest have no table");
            types.truncate(TABLES_MAX);
        }
        let mut columns = self.found.read().unwrap_or_else(PoisonError::into_inner).columns.clone();
        for name in types.iter().filter(|name| !name.is_empty()) {
            if name == ALL {
                log::warn!("the type of log `{ALL}` has no table of its own: see _type in `{ALL}`");
                continue;
            }
            let kinds = self.kinds(&of_type(name))?;
            merge(columns.entry(name.clone()).or_default(), kinds, name);
        }
        let mut all = columns.remove(ALL).unwrap_or_default();
        for kinds in columns.values() {
            merge(&mut all, kinds.iter().map(|(name, kind)| (name.clone(), *kind)), ALL);
        }
        columns.insert(ALL.to_owned(), all);
        let tables = columns.iter().map(|(name, kinds)| {
            let selects = if name == ALL { "*".to_owned() } else { of_type(name) };
            let table = LogTable::new(Arc::clone(&self.access), selects, fields(kinds));
            (name.clone(), Arc::new(table))
        });
        let tables = tables.collect();
        *self.found.write().unwrap_or_else(PoisonError::into_inner) = Found { columns, tables };
        Ok(())
    }

    /// Looks for tables at intervals, for ever.
    pub async fn keep_fresh(self: Arc<Self>, every: Duration) {
        loop {
            tokio::time::sleep(every).await;
            let tables = Arc::clone(&self);
            match tokio::task::spawn_blocking(move || tables.refresh()).await {
                Ok(Ok(())) => {}
                Ok(Err(e)) => log::warn!("the tables stay as they were: {e:#}"),
                Err(e) => log::error!("looking for tables failed: {e}"),
            }
        }
    }

    /// The fields of lines, with their kinds.
    fn kinds(&self, selects: &str) -> Result<BTreeMap<String, Kind>> {
        let client = &self.access.client;
        let mut kinds = BTreeMap::new();
        let mut rows = client.query(selects, Some(SAMPLE_LINES))?;
        while let Some(row) = rows.next_row()? {
            let row: BTreeMap<String, serde_json::Value> =
                serde_json::from_slice(row).context("a row of Loginson is no JSON")?;
            for (name, value) in row {
                let Some(value) = value.as_str().filter(|value| !value.is_empty()) else {
                    continue;
                };
                let kind = Kind::of(value);
                kinds
                    .entry(name)
                    .and_modify(|known: &mut Kind| *known = kind.max(*known))
                    .or_insert(kind);
            }
        }
        let query = format!("{selects} {NAMES_OF}");
        for name in client.values("field_names", &[("query", query.as_str())])? {
            kinds.entry(name).or_insert(Kind::Text);
        }
        Ok(kinds)
    }
}

/// LogsQL for the lines of a type.
fn of_type(name: &str) -> String {
    format!("_type:={}", quoted(name))
}

/// Adds columns to those that are known. A column of two kinds gets the wider one.
fn merge(
    known: &mut BTreeMap<String, Kind>,
    found: impl IntoIterator<Item = (String, Kind)>,
    table: &str,
) {
    for (name, kind) in found {
        // A `*` in a name stands for other names in LogsQL.
        if name.is_empty() || name.contains('*') {
            continue;
        }
        let kind = if name == "_time" { Kind::Time } else { kind };
        if known.len() >= COLUMNS_MAX && !known.contains_key(&name) {
            log::warn!("table {table} has {COLUMNS_MAX} columns; the field {name:?} has none");
            continue;
        }
        known.entry(name).and_modify(|known| *known = kind.max(*known)).or_insert(kind);
    }
}

/// The columns in their order: time and message, then all others by name.
fn fields(kinds: &BTreeMap<String, Kind>) -> Vec<Field> {
    let field = |name: &str, kind| Field { name: name.to_owned(), kind, is_sum: false };
    let mut fields = vec![field("_time", Kind::Time)];
    fields.extend(kinds.get("_msg").map(|kind| field("_msg", *kind)));
    let others = kinds.iter().filter(|(name, _)| !matches!(name.as_str(), "_time" | "_msg"));
    fields.extend(others.map(|(name, kind)| field(name, *kind)));
    fields
}

#[async_trait]
impl SchemaProvider for Tables {
    fn table_names(&self) -> Vec<String> {
        self.found.read().unwrap_or_else(PoisonError::into_inner).tables.keys().cloned().collect()
    }

    async fn table(
        &self,
        name: &str,
    ) -> datafusion::common::Result<Option<Arc<dyn TableProvider>>> {
        let found = self.found.read().unwrap_or_else(PoisonError::into_inner);
        Ok(found.tables.get(name).map(|table| Arc::clone(table) as Arc<dyn TableProvider>))
    }

    fn table_exist(&self, name: &str) -> bool {
        self.found.read().unwrap_or_else(PoisonError::into_inner).tables.contains_key(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_stay_and_only_widen() {
        let mut known = BTreeMap::new();
        let found = |kinds: &[(&str, Kind)]| {
            kinds.iter().map(|(name, kind)| ((*name).to_owned(), *kind)).collect::<Vec<_>>()
        };
        merge(
            &mut known,
            found(&[("n", Kind::Int), ("_time", Kind::Text), ("a*", Kind::Int)]),
            "t",
        );
        merge(&mut known, found(&[("n", Kind::Float), ("_msg", Kind::Text)]), "t");
        merge(&mut known, found(&[("n", Kind::Int), ("b", Kind::Int)]), "t");
        let columns: Vec<_> = fields(&known).into_iter().map(|f| (f.name, f.kind)).collect();
        let expected =
            [("_time", Kind::Time), ("_msg", Kind::Text), ("b", Kind::Int), ("n", Kind::Float)];
        assert_eq!(columns, expected.map(|(name, kind)| (name.to_owned(), kind)));
    }

    #[test]
    fn tables_have_a_bound_of_columns() {
        let mut known = BTreeMap::new();
        merge(&mut known, (0..COLUMNS_MAX + 5).map(|n| (format!("f{n}"), Kind::Int)), "t");
        assert_eq!(known.len(), COLUMNS_MAX);
    }
}
