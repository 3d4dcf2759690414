//! Which log goes with a catalog, and by which numbers its messages are counted.
//!
//! A catalog keeps the id of the topic. A topic that was made anew has another one, and offsets
//! that begin again: read by the offsets of the earlier topic, its first messages would be passed
//! over in silence.

use std::time::Duration;

use tokio_postgres::Client;
use tokio_postgres::types::Type;

use super::pool::Failed;
use super::region::{BASES, mark, put, refused, text_of};
use super::{micros, unsigned};

/// The id of the topic.
const TOPIC: &str = "region/log-topic";

/// The id of the topic that the catalog goes with; none before the first store.
pub async fn topic(client: &Client) -> Result<Option<String>, Failed> {
    mark(client, TOPIC).await
}

/// Has the catalog go with a topic if it goes with none yet; returns the one that it goes with.
pub async fn adopt(client: &Client, topic: &str) -> Result<String, Failed> {
    client
        .query_typed(
            "INSERT INTO marks (name, body, written) VALUES ($1, $2, now())
             ON CONFLICT (name) DO NOTHING",
            &[(&TOPIC, Type::TEXT), (&topic.as_bytes(), Type::BYTEA)],
        )
        .await?;
    Ok(self::topic(client).await?.unwrap_or_default())
}

/// For each of the first partitions the offset behind all messages that the catalog knows of: those
/// that are published, and those that were there when a deletion began. A deletion covers no
/// message that is counted from there on.
pub async fn next(client: &Client, partitions: u32) -> Result<Vec<u64>, Failed> {
    let rows = client
        .query_typed(
            "SELECT GREATEST(
                (SELECT next_offset FROM partitions WHERE partition = number),
                (SELECT max(ends[number + 1]) FROM deletions), 0)
             FROM generate_series(0, $1::bigint - 1) AS number ORDER BY number",
            &[(&i64::from(partitions), Type::INT8)],
        )
        .await?;
    Ok(rows.iter().map(|row| unsigned(row.get(0))).collect())
}

/// Has the catalog go on with another log. `bases`: what is added to the offsets of each of its
/// partitions. `lease`: how long a node lives after its last sign.
///
/// Errors: a node runs that reads the log or plans queries by it.
pub async fn replace(
    client: &Client,
    topic: &str,
    bases: &[i64],
    lease: Duration,
) -> Result<(), Failed> {
    // Nobody takes a partition before this is done.
    client.batch_execute("LOCK TABLE leases, nodes IN SHARE ROW EXCLUSIVE MODE").await?;
    let live = client
        .query_typed(
            "SELECT name FROM nodes
             WHERE roles && ARRAY['store', 'query'] AND seen > now() - $1 * interval '1 microsecond'
             ORDER BY name",
            &[(&micros(lease), Type::INT8)],
        )
        .await?;
    let live: Vec<&str> = live.iter().map(|row| row.get(0)).collect();
    if !live.is_empty() {
        return refused(format!(
            "these nodes run: {}. Stop all stores, which publish what they have read, and all query nodes; try again after \
             cluster.lease. Collectors may go on",
            live.join(", ")
        ));
    }
    put(client, BASES, &text_of(bases)).await?;
    put(client, TOPIC, topic).await?;
    client
        .batch_execute("UPDATE leases SET owner = NULL, epoch = epoch + 1, expires = now()")
        .await
        .map_err(Failed::from)
}
