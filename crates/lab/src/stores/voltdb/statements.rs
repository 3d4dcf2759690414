//! The tables and procedures that the lab makes in VoltDB.
//!
//! A call of a procedure is planned once, when the procedure is made; a statement sent as text
//! (`@AdHoc`) is planned, or found among the last plans, each time. So every statement that a study
//! repeats has a procedure: the server's own for inserts, reads and deletes (`T_LOGS.insert`), and
//! one of [`prepared`] for the rest.
//!
//! VoltDB's names are of letters of one case, and some words are reserved: the table `logs` is
//! `t_logs`, its column `time` is `c_time`, and its key is `k`.

use std::fmt::Write;

use crate::row::{ColumnKind, Schema};

/// Indexed columns up to which counts by each set of them have a procedure; by more columns, counts
/// are sent as text.
const COUNTED_COLUMNS_MAX: usize = 5;

/// Declared length of a text, bytes; a longer one is refused. It reserves nothing.
const TEXT_BYTES_MAX: usize = 64 << 10;

/// Bytes of all declared texts of a row. The server accepts tables with rows of up to 2 MiB.
const ROW_TEXT_BYTES_MAX: usize = 2_000_000;

/// A statement for which the server has no procedure of its own. Columns are indexes in the schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Shape {
    /// Rows from a key; its parameters are the key and the limit of rows.
    Scan,
    /// Changes these columns of a row; its parameters are their values and the key.
    Set(Vec<usize>),
    /// Counts the rows in which these columns have the values; its parameters are the values.
    Count(Vec<usize>),
}

impl Shape {
    /// The statement.
    pub(super) fn sql(&self, schema: &Schema) -> String {
        let table = table(schema);
        match self {
            Shape::Scan => {
                let mut sql = String::from("select k");
                for column in 0..schema.columns.len() {
                    write!(sql, ", {}", name(schema, column)).expect("a String takes all");
                }
                write!(sql, " from {table} where k >= ? order by k limit ?")
                    .expect("a String takes all");
                sql
            }
            Shape::Set(columns) => {
                let sets = columns.iter().map(|column| format!("{} = ?", name(schema, *column)));
                let sets: Vec<String> = sets.collect();
                format!("update {table} set {} where k = ?", sets.join(", "))
            }
            Shape::Count(columns) => {
                let conditions =
                    columns.iter().map(|column| format!("{} = ?", name(schema, *column)));
                counted(schema, conditions)
            }
        }
    }

    /// Its procedure, if there is one.
    pub(super) fn procedure(&self, schema: &Schema) -> Option<String> {
        prepared(schema).any(|shape| shape == *self).then(|| self.procedure_name(schema))
    }

    fn procedure_name(&self, schema: &Schema) -> String {
        let (operation, columns) = match self {
            Shape::Scan => ("scan", &[][..]),
            Shape::Set(columns) => ("set", &columns[..]),
            Shape::Count(columns) => ("count", &columns[..]),
        };
        let mut name = operation.to_owned();
        for column in columns {
            write!(name, "_{column}").expect("a String takes all");
        }
        write!(name, "_{}", table(schema)).expect("a String takes all");
        name
    }
}

/// A count of the rows that fulfil all conditions.
pub(super) fn counted(schema: &Schema, conditions: impl Iterator<Item = String>) -> String {
    let mut sql = format!("select count(*) from {}", table(schema));
    for (at, condition) in conditions.enumerate() {
        let and = if at == 0 { "where" } else { "and" };
        write!(sql, " {and} {condition}").expect("a String takes all");
    }
    sql
}

/// The statements that have a procedure: scans, changes of one column and of all, and counts by
/// each set of indexed columns.
fn prepared(schema: &Schema) -> impl Iterator<Item = Shape> {
    let all: Vec<usize> = (0..schema.columns.len()).collect();
    let mut sets: Vec<Shape> = all.iter().map(|column| Shape::Set(vec![*column])).collect();
    if all.len() > 1 {
        sets.push(Shape::Set(all.clone()));
    }
    let indexed: Vec<usize> =
        all.into_iter().filter(|column| schema.columns[*column].indexed).collect();
    // One bit for each column.
    let subsets = if indexed.len() > COUNTED_COLUMNS_MAX { 1 } else { 1_usize << indexed.len() };
    let counts = (0..subsets).map(move |subset| {
        let chosen = indexed.iter().enumerate().filter(move |(bit, _)| subset >> bit & 1 == 1);
        Shape::Count(chosen.map(|(_, column)| *column).collect())
    });
    std::iter::once(Shape::Scan).chain(sets).chain(counts)
}

/// Makes the table, spread over the partitions by its key, with its indexes and procedures.
pub(super) fn create(schema: &Schema) -> String {
    let table = table(schema);
    let kinds = || std::iter::once(schema.key).chain(schema.columns.iter().map(|c| c.kind));
    let texts = kinds().filter(|kind| *kind == ColumnKind::Text).count();
    let length = TEXT_BYTES_MAX.min(ROW_TEXT_BYTES_MAX / texts.max(1));
    let sql_type = |kind: ColumnKind| match kind {
        ColumnKind::Integer => "bigint".to_owned(),
        ColumnKind::Text => format!("varchar({length} bytes)"),
    };
    let mut sql = format!("create table {table} (k {} not null", sql_type(schema.key));
    for (at, column) in schema.columns.iter().enumerate() {
        // A number may be NULL, which is the least of all: see the driver.
        let null = if column.kind == ColumnKind::Text { " not null" } else { "" };
        write!(sql, ", {} {}{null}", name(schema, at), sql_type(column.kind))
            .expect("a String takes all");
    }
    write!(sql, ", primary key (k)); partition table {table} on column k;")
        .expect("a String takes all");
    for (at, _) in schema.columns.iter().enumerate().filter(|(_, column)| column.indexed) {
        write!(sql, " create index i_{at}_{table} on {table} ({});", name(schema, at))
            .expect("a String takes all");
    }
    for shape in prepared(schema) {
        // A change is sent to the partition of its key alone.
        let partition = match &shape {
            Shape::Set(columns) => {
                format!(" partition on table {table} column k parameter {}", columns.len())
            }
            _ => String::new(),
        };
        let (procedure, text) = (shape.procedure_name(schema), shape.sql(schema));
        write!(sql, " create procedure {procedure}{partition} as {text};")
            .expect("a String takes all");
    }
    sql
}

/// Removes the table, and those of `procedures`, the names of all in the database, that use it.
pub(super) fn drop<'a>(schema: &Schema, procedures: impl Iterator<Item = &'a str>) -> String {
    let table = table(schema);
    let mut sql = String::new();
    for procedure in procedures.filter(|procedure| uses(procedure, schema)) {
        write!(sql, "drop procedure {procedure}; ").expect("a String takes all");
    }
    write!(sql, "drop table {table} if exists cascade;").expect("a String takes all");
    sql
}

/// Whether a procedure of this name is one of [`prepared`] for the table, also with other columns.
fn uses(procedure: &str, schema: &Schema) -> bool {
    let operation = ["scan_", "set_", "count_"].iter().any(|name| procedure.starts_with(name));
    // What stands before the table's name never contains it: only indexes of columns do.
    let found = procedure.split_once("_t_").map(|(_, table)| table);
    operation && found == Some(&schema.table)
}

/// The server's own procedure for `operation`: `insert`, `select` or `delete`. Its parameters are
/// the key and, for an insert, the columns.
pub(super) fn own_procedure(schema: &Schema, operation: &str) -> String {
    format!("{}.{operation}", catalog_name(schema))
}

/// The table's name in the server's catalog and statistics.
pub(super) fn catalog_name(schema: &Schema) -> String {
    table(schema).to_uppercase()
}

/// A column's name.
pub(super) fn name(schema: &Schema, column: usize) -> String {
    format!("c_{}", schema.columns[column].name)
}

fn table(schema: &Schema) -> String {
    format!("t_{}", schema.table)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::Column;

    fn schema(table: &str, indexed: &[bool]) -> Schema {
        let kinds = [ColumnKind::Integer, ColumnKind::Text].into_iter().cycle();
        let columns = kinds.zip(indexed).enumerate();
        let columns =
            columns.map(|(at, (kind, indexed))| Column::new(&format!("v{at}"), kind, *indexed));
        Schema { table: table.to_owned(), key: ColumnKind::Text, columns: columns.collect() }
    }

    #[test]
    fn a_table_is_spread_by_its_key_and_has_indexes_and_procedures() {
        let expected = "create table t_logs (k varchar(65536 bytes) not null, c_v0 bigint, \
             c_v1 varchar(65536 bytes) not null, primary key (k)); \
             partition table t_logs on column k; \
             create index i_0_t_logs on t_logs (c_v0); \
             create procedure scan_t_logs as select k, c_v0, c_v1 from t_logs where k >= ? order by k limit ?; \
             create procedure set_0_t_logs partition on table t_logs column k parameter 1 as \
             update t_logs set c_v0 = ? where k = ?; \
             create procedure set_1_t_logs partition on table t_logs column k parameter 1 as \
             update t_logs set c_v1 = ? where k = ?; \
             create procedure set_0_1_t_logs partition on table t_logs column k parameter 2 as \
             update t_logs set c_v0 = ?, c_v1 = ? where k = ?; \
             create procedure count_t_logs as select count(*) from t_logs; \
             create procedure count_0_t_logs as select count(*) from t_logs where c_v0 = ?;";
        assert_eq!(create(&schema("logs", &[true, false])), expected);
    }

    #[test]
    fn a_row_of_many_texts_fits() {
        let wide = create(&schema("wide", &[false; 100]));
        assert!(wide.contains(&format!("varchar({} bytes)", ROW_TEXT_BYTES_MAX / 51)));
    }

    #[test]
    fn counts_by_each_set_of_few_columns_have_a_procedure() {
        let logs = schema("logs", &[true, false, true, true]);
        let named = |columns: &[usize]| Shape::Count(columns.to_vec()).procedure(&logs);
        assert_eq!(named(&[0, 2, 3]), Some("count_0_2_3_t_logs".to_owned()));
        assert_eq!(named(&[]), Some("count_t_logs".to_owned()));
        assert_eq!(named(&[1]), None);
        assert_eq!(named(&[2, 0]), None);
        let many = schema("logs", &[true; COUNTED_COLUMNS_MAX + 1]);
        assert_eq!(Shape::Count(vec![0]).procedure(&many), None);
        assert!(Shape::Count(vec![]).procedure(&many).is_some());
    }

    #[test]
    fn the_procedures_of_a_table_are_dropped_with_it_and_no_others() {
        let procedures = [
            "scan_t_logs",
            "count_0_2_t_logs",
            "set_9_t_logs",
            "scan_t_logs_2",
            "scan_t_x_t_logs",
            "T_LOGS.insert",
            "report_t_logs",
        ];
        assert_eq!(
            drop(&schema("logs", &[]), procedures.into_iter()),
            "drop procedure scan_t_logs; drop procedure count_0_2_t_logs; \
             drop procedure set_9_t_logs; drop table t_logs if exists cascade;"
        );
    }
}
