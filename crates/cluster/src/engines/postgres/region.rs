//! A catalog that follows another one: it becomes what the other was at one moment after the
//! other, until it is promoted.
//!
//! Rows of segments are read once, when they are new; of the small tables all rows are, each time.
//! Rows are the JSON that PostgreSQL makes of them, as in a dump. Marks below [`REGION`] are those
//! of each catalog itself.
//!
//! Invariant: a catalog that follows is never changed but by [`follow`] and [`promote`]; so it is
//! at each time what the other one was, and nothing of both has to be joined.

use std::collections::HashSet;

use tokio_postgres::Client;
use tokio_postgres::types::Type;

use super::backup::{ROWS_MAX, columns_of, is_new};
use super::pool::Failed;
use super::segments::retires;
use super::unsigned;
use crate::error::CatalogError;

/// The prefix of marks that are about the catalog of one region, and not copied.
pub const REGION: &str = "region/";
/// Says which catalog this one follows, and up to when.
const FOLLOWS: &str = "region/follows";
/// Names the live segments whose objects this region lacks, one in each line.
const MISSING: &str = "region/missing";
/// Says that another region goes on, so that no node starts here.
const MOVED: &str = "region/moved";
/// What is added to the offsets of each partition of the log.
pub(super) const BASES: &str = "region/log-bases";
/// The tables that are copied whole, in the order in which they are filled.
const SMALL: [(&str, &str); 6] = [
    ("identity", "SELECT * FROM identity"),
    ("leases", "SELECT * FROM leases"),
    ("partitions", "SELECT * FROM partitions"),
    ("producers", "SELECT * FROM producers"),
    ("deletions", "SELECT * FROM deletions"),
    ("marks", "SELECT * FROM marks WHERE NOT starts_with(name, 'region/')"),
];

/// A catalog at one moment, beside one that follows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Moment {
    /// The number of the cluster.
    pub cluster: u32,
    /// The moment, nanoseconds since 1970 UTC, by the clock of the catalog that is followed.
    pub at_ns: i64,
    /// The names of all live segments.
    pub live: Vec<String>,
    /// The segments that the follower does not have, with the bytes of their objects.
    pub new: Vec<(String, u64)>,
    /// The name of a table and a row of it as JSON, in the order in which they are written.
    rows: Vec<(String, String)>,
    /// What is added to offsets of the log.
    bases: Vec<i64>,
}

/// What a catalog follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Follows {
    /// The number of the cluster.
    pub cluster: u32,
    /// The moment of the other catalog that this one has, nanoseconds since 1970 UTC.
    pub at_ns: i64,
    /// Live segments whose objects this region lacks.
    pub missing: u64,
}

pub async fn live_names(client: &Client) -> Result<HashSet<String>, Failed> {
    let rows = client.query_typed("SELECT name FROM segments WHERE retired IS NULL", &[]).await?;
    Ok(rows.iter().map(|row| row.get(0)).collect())
}

/// What a catalog is now, for one that has the live segments `known`.
pub async fn moment(client: &Client, known: &HashSet<String>) -> Result<Moment, Failed> {
    let head = client
        .query_typed(
            "SELECT number, (EXTRACT(epoch FROM now()) * 1000000000)::bigint FROM identity",
            &[],
        )
        .await?;
    let (cluster, at_ns) =
        head.first().map(|row| (row.get::<_, i64>(0) as u32, row.get(1))).unwrap_or_default();
    let found =
        client.query_typed("SELECT name, bytes FROM segments WHERE retired IS NULL", &[]).await?;
    let live: Vec<String> = found.iter().map(|row| row.get(0)).collect();
    let all = found.iter().map(|row| (row.get::<_, String>(0), unsigned(row.get(1))));
    let new: Vec<(String, u64)> = all.filter(|(name, _)| !known.contains(name)).collect();
    let mut rows = Vec::new();
    for (table, select) in SMALL {
        let sql = format!("SELECT row_to_json(dumped)::text FROM ({select}) AS dumped");
        let found = client.query_typed(&sql, &[]).await?;
        rows.extend(found.iter().map(|row| (table.to_owned(), row.get(0))));
    }
    let names: Vec<&str> = new.iter().map(|(name, _)| name.as_str()).collect();
    for (table, key) in [("segments", "name"), ("frames", "segment")] {
        let sql = format!(
            "SELECT row_to_json(dumped)::text
             FROM (SELECT * FROM {table} WHERE {key} = ANY ($1)) AS dumped"
        );
        for some in names.chunks(ROWS_MAX) {
            let found = client.query_typed(&sql, &[(&some, Type::TEXT_ARRAY)]).await?;
            rows.extend(found.iter().map(|row| (table.to_owned(), row.get(0))));
        }
    }
    let bases = bases(client).await?;
    Ok(Moment { cluster, at_ns, live, new, rows, bases })
}

/// Makes this catalog what the other one was at a moment. The objects of its segments are there,
/// but for those of `missing`.
///
/// Errors: this one is a catalog of its own, or follows another cluster.
pub async fn follow(client: &Client, moment: &Moment, missing: &[String]) -> Result<(), Failed> {
    match follows(client).await? {
        Some(Follows { cluster, .. }) if cluster == moment.cluster => {}
        Some(Follows { cluster, .. }) => {
            return refused(format!(
                "this region follows the cluster {cluster:08x}, and not {:08x}: name its bucket and its database in \
                 cluster.follows",
                moment.cluster
            ));
        }
        None if is_new(client).await? => {}
        None => {
            return refused(
                "the database is one of a cluster of its own: a region that follows begins with an empty database and an \
                 empty bucket"
                    .to_owned(),
            );
        }
    }
    // Before any lock of a row, as whoever retires segments.
    retires(client).await?;
    for (table, select) in SMALL {
        let delete = select.replacen("SELECT *", "DELETE", 1);
        debug_assert!(delete.contains(table), "{delete}");
        client.batch_execute(&delete).await?;
    }
    // Segments that are known already, and were missing here, bring their frames again.
    let names: Vec<&str> = moment.new.iter().map(|(name, _)| name.as_str()).collect();
    for some in names.chunks(ROWS_MAX) {
        client
            .query_typed(
                "DELETE FROM frames WHERE segment = ANY ($1)",
                &[(&some, Type::TEXT_ARRAY)],
            )
            .await?;
    }
    for part in moment.rows.chunk_by(|a, b| a.0 == b.0).flat_map(|table| table.chunks(ROWS_MAX)) {
        let table = &part[0].0;
        let values: Vec<&str> = part.iter().map(|(_, row)| row.as_str()).collect();
        let json = format!("[{}]", values.join(","));
        let columns = columns_of(client, table, &json).await?;
        // A segment comes back where the other catalog was restored from a backup of before, and
        // where its object was missing.
        let known = match table.as_str() {
            "segments" => " ON CONFLICT (name) DO UPDATE SET retired = NULL, replaced_by = NULL",
            _ => "",
        };
        let sql = format!(
            "INSERT INTO {table} ({columns}) OVERRIDING SYSTEM VALUE
             SELECT {columns} FROM json_populate_recordset(NULL::{table}, $1::json){known}"
        );
        client.query_typed(&sql, &[(&json, Type::TEXT)]).await?;
    }
    // Their objects stay for a while.
    client
        .query_typed(
            "UPDATE segments SET retired = clock_timestamp()
             WHERE retired IS NULL AND NOT name = ANY ($1)",
            &[(&moment.live, Type::TEXT_ARRAY)],
        )
        .await?;
    client.batch_execute("UPDATE leases SET owner = NULL, expires = now()").await?;
    put(client, BASES, &text_of(&moment.bases)).await?;
    put(client, MISSING, &missing.join("\n")).await?;
    put(client, FOLLOWS, &format!("{} {}", moment.cluster, moment.at_ns)).await
}

/// What this catalog follows; none if it is one of its own.
pub async fn follows(client: &Client) -> Result<Option<Follows>, Failed> {
    let Some(text) = mark(client, FOLLOWS).await? else { return Ok(None) };
    let parsed = text
        .split_once(' ')
        .and_then(|(cluster, at)| Some((cluster.parse::<u32>().ok()?, at.parse::<i64>().ok()?)));
    let Some((cluster, at_ns)) = parsed else {
        return refused(format!("the mark {FOLLOWS} of the catalog is damaged"));
    };
    let missing = missing(client).await?.map_or(0, |names| names.len() as u64);
    Ok(Some(Follows { cluster, at_ns, missing }))
}

/// The live segments whose objects this region lacks; none if no round has noted any, because an
/// earlier release made the last one.
pub async fn missing(client: &Client) -> Result<Option<Vec<String>>, Failed> {
    let text = mark(client, MISSING).await?;
    Ok(text.map(|text| text.lines().map(str::to_owned).collect()))
}

/// Makes a catalog that follows one of its own. `bases`: what is added to the offsets of each
/// partition of its log from now on; none: the log is that of the other one.
///
/// Errors: it follows nothing.
pub async fn promote(client: &Client, bases: Option<&[i64]>) -> Result<(), Failed> {
    if follows(client).await?.is_none() {
        return refused("this region follows no other one, so there is nothing to promote".into());
    }
    if let Some(bases) = bases {
        put(client, BASES, &text_of(bases)).await?;
    }
    // Nothing can be published under a lease of before, also by nodes of the other region that
    // would be given this database.
    client
        .batch_execute(
            "UPDATE leases SET owner = NULL, epoch = epoch + 1, expires = now();
             DELETE FROM marks WHERE name IN ('region/follows', 'region/missing');
             SELECT setval(pg_get_serial_sequence('deletions', 'id'),
                COALESCE((SELECT max(id) FROM deletions), 0) + 1, false)",
        )
        .await?;
    Ok(())
}

/// Has no node start with this catalog any more.
pub async fn leave(client: &Client, why: &str) -> Result<(), Failed> {
    // Behind every acquisition that has not seen the mark.
    client.batch_execute("SELECT pg_advisory_xact_lock(5139515)").await?;
    client
        .batch_execute("UPDATE leases SET owner = NULL, epoch = epoch + 1, expires = now()")
        .await?;
    put(client, MOVED, why).await
}

/// Whether leases can be taken: not once another region goes on. Until the transaction ends, that
/// does not begin.
pub async fn is_held(client: &Client) -> Result<bool, Failed> {
    client.batch_execute("SELECT pg_advisory_xact_lock_shared(5139515)").await?;
    Ok(mark(client, MOVED).await?.is_none())
}

/// Why no node may start with this catalog; none if nodes may.
pub async fn left(client: &Client) -> Result<Option<String>, Failed> {
    mark(client, MOVED).await
}

/// What is added to the offsets of each partition of the log; nothing for those that are missing.
pub async fn bases(client: &Client) -> Result<Vec<i64>, Failed> {
    let text = mark(client, BASES).await?.unwrap_or_default();
    let parsed = text.split_whitespace().map(str::parse).collect::<Result<Vec<i64>, _>>();
    match parsed {
        Ok(bases) => Ok(bases),
        Err(_) => refused(format!("the mark {BASES} of the catalog is damaged")),
    }
}

pub(super) fn text_of(bases: &[i64]) -> String {
    bases.iter().map(i64::to_string).collect::<Vec<_>>().join(" ")
}

pub(super) async fn mark(client: &Client, name: &str) -> Result<Option<String>, Failed> {
    let rows = client
        .query_typed("SELECT body FROM marks WHERE name = $1", &[(&name, Type::TEXT)])
        .await?;
    let body = rows.first().map(|row| row.get::<_, Vec<u8>>(0));
    Ok(body.map(|body| String::from_utf8_lossy(&body).into_owned()))
}

pub(super) async fn put(client: &Client, name: &str, body: &str) -> Result<(), Failed> {
    client
        .query_typed(
            "INSERT INTO marks (name, body, written) VALUES ($1, $2, now())
             ON CONFLICT (name) DO UPDATE SET body = $2, written = now()",
            &[(&name, Type::TEXT), (&body.as_bytes(), Type::BYTEA)],
        )
        .await?;
    Ok(())
}

pub(super) fn refused<T>(error: String) -> Result<T, Failed> {
    Err(CatalogError::Refused(error).into())
}
