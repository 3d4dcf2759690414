//! All rows of a catalog, for a backup, and a catalog made of them.
//!
//! Rows are the JSON that PostgreSQL makes of them, and reads again. Left out: nodes, which say
//! themselves that they are there; retired segments, whose objects are deleted soon; holds. A dump
//! of an earlier release may lack columns, which get their defaults.

use tokio_postgres::Client;
use tokio_postgres::types::Type;

use super::pool::Failed;
use super::unsigned;
use crate::error::CatalogError;

/// The tables of a dump in the order in which they are filled, with the rows that are dumped.
const TABLES: [(&str, &str); 8] = [
    ("identity", "SELECT * FROM identity"),
    ("leases", "SELECT * FROM leases"),
    ("partitions", "SELECT * FROM partitions"),
    ("producers", "SELECT * FROM producers"),
    ("segments", "SELECT * FROM segments WHERE retired IS NULL"),
    ("frames", "SELECT frames.* FROM frames JOIN segments ON name = segment WHERE retired IS NULL"),
    ("deletions", "SELECT * FROM deletions"),
    // Which catalog is followed is said of this one alone.
    (
        "marks",
        "SELECT * FROM marks
         WHERE name NOT IN ('region/follows', 'region/missing', 'region/moved')",
    ),
];
/// Rows that are written with one statement.
pub const ROWS_MAX: usize = 1_000;

/// All rows of a catalog at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dump {
    /// The number of the cluster.
    pub cluster: u32,
    /// The moment, nanoseconds since 1970 UTC, by the catalog's clock.
    pub created_ns: i64,
    /// Live segments.
    pub segments: Vec<DumpedSegment>,
    /// The name of a table and a row of it as JSON, in the order in which they are restored.
    pub rows: Vec<(String, String)>,
}

/// A segment whose object belongs to a dump.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DumpedSegment {
    /// The name of its object.
    pub name: String,
    /// Bytes of the object.
    pub bytes: u64,
    /// Its lines.
    pub lines: u64,
}

pub async fn dump(client: &Client) -> Result<Dump, Failed> {
    let head = client
        .query_typed(
            "SELECT number, (EXTRACT(epoch FROM now()) * 1000000000)::bigint FROM identity",
            &[],
        )
        .await?;
    let head = head.first().map(|row| (row.get::<_, i64>(0) as u32, row.get(1)));
    let (cluster, created_ns) = head.unwrap_or_default();
    let segments = client
        .query_typed(
            "SELECT name, bytes, lines FROM segments WHERE retired IS NULL ORDER BY name",
            &[],
        )
        .await?;
    let segments = segments.iter().map(|row| DumpedSegment {
        name: row.get(0),
        bytes: unsigned(row.get(1)),
        lines: unsigned(row.get(2)),
    });
    let segments = segments.collect();
    let mut rows = Vec::new();
    for (table, select) in TABLES {
        let sql = format!("SELECT row_to_json(dumped)::text FROM ({select}) AS dumped");
        let found = client.query_typed(&sql, &[]).await?;
        rows.extend(found.iter().map(|row| (table.to_owned(), row.get(0))));
    }
    Ok(Dump { cluster, created_ns, segments, rows })
}

pub async fn is_new(client: &Client) -> Result<bool, Failed> {
    let rows = client
        .query_typed(
            "SELECT EXISTS (SELECT 1 FROM segments) OR EXISTS (SELECT 1 FROM partitions)
                OR EXISTS (SELECT 1 FROM nodes) OR EXISTS (SELECT 1 FROM marks)",
            &[],
        )
        .await?;
    Ok(rows.first().is_some_and(|row| !row.get::<_, bool>(0)))
}

pub async fn restore(client: &Client, rows: &[(String, String)]) -> Result<(), Failed> {
    let refused = |error: String| Err(Failed::from(CatalogError::Refused(error)));
    if !is_new(client).await? {
        return refused(
            "the database is not new: it has segments, nodes or programs of a cluster; restore into an empty database"
                .to_owned(),
        );
    }
    client.batch_execute("DELETE FROM identity").await?;
    for part in rows.chunk_by(|a, b| a.0 == b.0).flat_map(|table| table.chunks(ROWS_MAX)) {
        let Some((table, _)) = TABLES.iter().find(|(table, _)| *table == part[0].0) else {
            return refused(format!("'{}' is no table of a catalog", part[0].0.escape_default()));
        };
        let values: Vec<&str> = part.iter().map(|(_, row)| row.as_str()).collect();
        let json = format!("[{}]", values.join(","));
        let columns = columns_of(client, table, &json).await?;
        let sql = format!(
            "INSERT INTO {table} ({columns}) OVERRIDING SYSTEM VALUE
             SELECT {columns} FROM json_populate_recordset(NULL::{table}, $1::json)"
        );
        client.query_typed(&sql, &[(&json, Type::TEXT)]).await?;
    }
    // The counts may be those of a dump from before they were kept. Nobody has a lease, and nothing
    // can be published under one of before.
    client
        .batch_execute(
            "UPDATE partitions SET live_segments = counts.segments, live_bytes = counts.bytes
             FROM (SELECT partition, count(*) AS segments, sum(bytes)::bigint AS bytes
                FROM segments WHERE retired IS NULL GROUP BY partition) AS counts
             WHERE partitions.partition = counts.partition;
             UPDATE leases SET owner = NULL, epoch = epoch + 1, expires = now();
             SELECT setval(pg_get_serial_sequence('deletions', 'id'),
                COALESCE((SELECT max(id) FROM deletions), 0) + 1, false)",
        )
        .await?;
    Ok(())
}

/// The columns that rows of a dump have, as a list for SQL. Columns of the table that they lack,
/// since an earlier release made the dump, get their defaults.
pub async fn columns_of(client: &Client, table: &str, json: &str) -> Result<String, Failed> {
    let found = client
        .query_typed(
            "SELECT quote_ident(name), name, attnum IS NOT NULL
             FROM (SELECT DISTINCT json_object_keys(value) AS name
                FROM json_array_elements($1::json)) AS dumped
             LEFT JOIN pg_attribute ON attrelid = $2::text::regclass AND attname = name
                AND attnum > 0 AND NOT attisdropped
             ORDER BY name",
            &[(&json, Type::TEXT), (&table, Type::TEXT)],
        )
        .await?;
    let unknown = found.iter().find(|row| !row.get::<_, bool>(2));
    match unknown {
        Some(row) => {
            let column: String = row.get(1);
            let error = format!(
                "the backup has the column '{}' of {table}, which this program does not know: a later release made it; \
                 restore with that one",
                column.escape_default()
            );
            Err(CatalogError::Refused(error).into())
        }
        None => Ok(found.iter().map(|row| row.get::<_, String>(0)).collect::<Vec<_>>().join(", ")),
    }
}
