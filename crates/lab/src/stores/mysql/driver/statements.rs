//! The statements for a table, and the split of many rows into statements.
//!
//! Keys and columns that counts filter by are `varbinary`: their order and their equality are those
//! of bytes. Collations of MySQL would ignore spaces at the end.

use crate::row::{ColumnKind, Row, Schema, Value};

/// The column of the key. No other column has this name, because they have no spaces.
const KEY: &str = "`row key`";

/// Limit of a key and of an indexed text, in bytes: the longest that an index of MySQL 5.5 takes.
/// The server refuses longer ones.
const INDEXED_BYTES_MAX: u32 = 767;

/// Limit of the rows of one statement. More rows become several statements.
const ROWS_MAX: usize = 512;

/// Limit of the parameters of one statement, which has 16 bits for their number.
const PARAMETERS_MAX: usize = u16::MAX as usize;

/// Upper bound of the bytes of a packet for each parameter, without those of a text: its type (2),
/// a number or the length of a text (9), and its bit among the nulls (1).
const PARAMETER_BYTES: usize = 12;

/// Upper bound of the bytes of a packet without its parameters.
const PACKET_BYTES: usize = 64;

/// Identifies a prepared statement of a connection by what its text depends on.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Shape {
    /// Of so many rows.
    Insert(usize),
    Read,
    Scan,
    Delete,
    /// Of these columns.
    Update(Vec<usize>),
    /// With a condition on each of these columns.
    Count(Vec<usize>),
}

impl Shape {
    /// The text, with a `?` for each parameter. An update has its key last.
    pub fn sql(&self, database: &str, schema: &Schema) -> String {
        let table = table(database, schema);
        let name = |column: &usize| quoted(&schema.columns[*column].name);
        let all = || -> Vec<String> {
            std::iter::once(KEY.to_owned())
                .chain((0..schema.columns.len()).map(|c| name(&c)))
                .collect()
        };
        let equal = |columns: &[usize]| -> Vec<String> {
            columns.iter().map(|column| format!("{} = ?", name(column))).collect()
        };
        match self {
            Shape::Insert(rows) => {
                let all = all();
                let row = format!("({})", vec!["?"; all.len()].join(", "));
                let rows = vec![row.as_str(); *rows].join(", ");
                format!("insert into {table} ({}) values {rows}", all.join(", "))
            }
            Shape::Read => format!("select {} from {table} where {KEY} = ?", all().join(", ")),
            Shape::Scan => {
                let all = all().join(", ");
                format!("select {all} from {table} where {KEY} >= ? order by {KEY} limit ?")
            }
            Shape::Delete => format!("delete from {table} where {KEY} = ?"),
            Shape::Update(columns) => {
                format!("update {table} set {} where {KEY} = ?", equal(columns).join(", "))
            }
            Shape::Count(columns) if columns.is_empty() => format!("select count(*) from {table}"),
            Shape::Count(columns) => {
                format!("select count(*) from {table} where {}", equal(columns).join(" and "))
            }
        }
    }
}

/// The statements that make the table again, empty; each is sent alone.
pub(super) fn create(database: &str, schema: &Schema) -> Vec<String> {
    let table = table(database, schema);
    let mut parts = vec![format!("{KEY} {} not null primary key", sql_type(schema.key, true))];
    for column in &schema.columns {
        let kind = sql_type(column.kind, column.indexed);
        parts.push(format!("{} {kind} not null", quoted(&column.name)));
    }
    for column in schema.columns.iter().filter(|column| column.indexed) {
        parts.push(format!("index ({})", quoted(&column.name)));
    }
    vec![
        format!("create database if not exists {}", quoted(database)),
        format!("drop table if exists {table}"),
        format!(
            "create table {table} ({}) engine = InnoDB default character set utf8mb4",
            parts.join(", ")
        ),
    ]
}

/// The name of the table, quoted, with its database.
pub(super) fn table(database: &str, schema: &Schema) -> String {
    format!("{}.{}", quoted(database), quoted(&schema.table))
}

fn sql_type(kind: ColumnKind, indexed: bool) -> String {
    match (kind, indexed) {
        (ColumnKind::Integer, _) => "bigint".to_owned(),
        (ColumnKind::Text, true) => format!("varbinary({INDEXED_BYTES_MAX})"),
        (ColumnKind::Text, false) => "longtext".to_owned(),
    }
}

fn quoted(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

/// Splits rows into those of each insert statement, in order. Their numbers are powers of two, so
/// that a connection prepares few statements. No statement is larger than a packet of
/// `packet_bytes_max`, unless a single row is.
pub(super) fn split<'a>(rows: &'a [&'a Row], packet_bytes_max: usize) -> Vec<&'a [&'a Row]> {
    let mut parts = Vec::new();
    let mut rest = rows;
    while let Some(first) = rest.first() {
        let parameters = first.values.len() + 1;
        let fit = rest.len().min(ROWS_MAX).min(PARAMETERS_MAX / parameters).max(1);
        let mut count = 1 << fit.ilog2();
        while count > 1 && packet_bytes(&rest[..count]) > packet_bytes_max {
            count /= 2;
        }
        let (part, after) = rest.split_at(count);
        parts.push(part);
        rest = after;
    }
    parts
}

/// Upper bound of the packet for these rows.
fn packet_bytes(rows: &[&Row]) -> usize {
    let value = |value: &Value| match value {
        Value::Integer(_) => PARAMETER_BYTES,
        Value::Text(text) => PARAMETER_BYTES + text.len(),
    };
    let values = rows.iter().flat_map(|row| std::iter::once(&row.key).chain(&row.values));
    PACKET_BYTES + values.map(value).sum::<usize>()
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
                column("key", ColumnKind::Text, true),
                column("text", ColumnKind::Text, false),
            ],
        }
    }

    #[test]
    fn a_table_has_the_indexes_of_the_study() {
        assert_eq!(
            create("lab", &schema()),
            [
                "create database if not exists `lab`",
                "drop table if exists `lab`.`logs`",
                "create table `lab`.`logs` (`row key` varbinary(767) not null primary key, \
                 `time` bigint not null, `key` varbinary(767) not null, `text` longtext not null, \
                 index (`time`), index (`key`)) engine = InnoDB default character set utf8mb4",
            ]
        );
        let numbered = Schema { key: ColumnKind::Integer, ..schema() };
        assert!(create("lab", &numbered)[2].contains("`row key` bigint not null primary key"));
        assert!(create("a`b", &schema())[1].ends_with("`a``b`.`logs`"));
    }

    #[test]
    fn statements_name_columns_and_take_values() {
        for (shape, sql) in [
            (
                Shape::Insert(2),
                "insert into `lab`.`logs` (`row key`, `time`, `key`, `text`) \
                 values (?, ?, ?, ?), (?, ?, ?, ?)",
            ),
            (
                Shape::Read,
                "select `row key`, `time`, `key`, `text` from `lab`.`logs` where `row key` = ?",
            ),
            (
                Shape::Scan,
                "select `row key`, `time`, `key`, `text` from `lab`.`logs` \
                 where `row key` >= ? order by `row key` limit ?",
            ),
            (Shape::Delete, "delete from `lab`.`logs` where `row key` = ?"),
            (
                Shape::Update(vec![1, 0]),
                "update `lab`.`logs` set `key` = ?, `time` = ? where `row key` = ?",
            ),
            (
                Shape::Count(vec![0, 1]),
                "select count(*) from `lab`.`logs` where `time` = ? and `key` = ?",
            ),
            (Shape::Count(vec![]), "select count(*) from `lab`.`logs`"),
        ] {
            assert_eq!(shape.sql("lab", &schema()), sql);
        }
    }

    /// The numbers of rows of the statements for `rows` rows with `columns` texts of `bytes` bytes.
    fn parts(rows: usize, columns: usize, bytes: usize, packet_bytes_max: usize) -> Vec<usize> {
        let row = |key: usize| Row {
            key: Value::Integer(key as i64),
            values: vec![Value::Text("x".repeat(bytes)); columns],
        };
        let rows: Vec<Row> = (0..rows).map(row).collect();
        let rows: Vec<&Row> = rows.iter().collect();
        let parts = split(&rows, packet_bytes_max);
        assert_eq!(parts.concat(), rows, "every row once, in order");
        parts.iter().map(|part| part.len()).collect()
    }

    #[test]
    fn many_rows_are_split_into_few_kinds_of_statements() {
        let wide = PARAMETERS_MAX / 4;
        for (rows, columns, expected) in [
            (0, 3, &[][..]),
            (1, 3, &[1]),
            (511, 3, &[256, 128, 64, 32, 16, 8, 4, 2, 1]),
            (ROWS_MAX, 3, &[512]),
            (ROWS_MAX + 1, 3, &[512, 1]),
            (4, wide - 1, &[4]),
            (4, wide, &[2, 2]),
            (2, PARAMETERS_MAX, &[1, 1]),
        ] {
            assert_eq!(parts(rows, columns, 0, usize::MAX), expected, "{rows} of {columns}");
        }
    }

    #[test]
    fn no_statement_is_larger_than_a_packet() {
        let row = PARAMETER_BYTES + PARAMETER_BYTES + 100;
        for (packet_bytes_max, expected) in [
            (PACKET_BYTES + 8 * row, &[8][..]),
            (PACKET_BYTES + 8 * row - 1, &[4, 4]),
            (PACKET_BYTES + 2 * row, &[2, 2, 2, 2]),
            (PACKET_BYTES + row - 1, &[1, 1, 1, 1, 1, 1, 1, 1]),
            (0, &[1, 1, 1, 1, 1, 1, 1, 1]),
        ] {
            assert_eq!(parts(8, 1, 100, packet_bytes_max), expected, "{packet_bytes_max} bytes");
        }
    }
}
