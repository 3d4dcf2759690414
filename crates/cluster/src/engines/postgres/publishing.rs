//! Offsets, and the transactions that change which segments are live.

use tokio_postgres::Client;
use tokio_postgres::types::Type;

use super::leases::{hold, node_id, node_number};
use super::pool::Failed;
use super::segments::{ordered, retires};
use super::{micros, signed, unsigned};
use crate::catalog::{
    FrameRange, PRODUCER_FORGOTTEN_AFTER, PartitionState, Publication, SegmentRow,
};
use crate::duplicates::Seen;
use crate::error::CatalogError;
use crate::ids::Lease;

pub async fn partition(client: &Client, lease: &Lease) -> Result<PartitionState, Failed> {
    let partition = i64::from(lease.resource.partition()?);
    hold(client, lease).await?;
    client
        .query_typed(
            "INSERT INTO partitions (partition, next_offset, lost) VALUES ($1, 0, 0)
             ON CONFLICT (partition) DO NOTHING",
            &[(&partition, Type::INT8)],
        )
        .await?;
    let offset = client
        .query_typed(
            "SELECT next_offset FROM partitions WHERE partition = $1",
            &[(&partition, Type::INT8)],
        )
        .await?;
    let producers = client
        .query_typed(
            "SELECT node, sequence, seen_before FROM producers WHERE partition = $1 ORDER BY node",
            &[(&partition, Type::INT8)],
        )
        .await?;
    Ok(PartitionState {
        offset: offset.first().map_or(0, |row| unsigned(row.get(0))),
        producers: producers
            .iter()
            .map(|row| (node_id(row.get(0)), seen(row.get(1), row.get(2))))
            .collect(),
    })
}

pub async fn publish(
    client: &Client,
    lease: &Lease,
    publication: &Publication,
) -> Result<(), Failed> {
    hold(client, lease).await?;
    move_offset(client, lease, publication).await?;
    if !publication.producers.is_empty() {
        store_producers(client, lease, publication).await?;
    }
    match &publication.segment {
        Some(segment) => add(client, segment).await,
        None => Ok(()),
    }
}

async fn move_offset(
    client: &Client,
    lease: &Lease,
    publication: &Publication,
) -> Result<(), Failed> {
    let partition = lease.resource.partition()?;
    let moved = client
        .query_typed(
            "UPDATE partitions SET next_offset = $3, lost = lost + $4
             WHERE partition = $1 AND next_offset = $2 RETURNING 1",
            &[
                (&i64::from(partition), Type::INT8),
                (&signed(publication.offsets.start)?, Type::INT8),
                (&signed(publication.offsets.end)?, Type::INT8),
                (&signed(publication.lost)?, Type::INT8),
            ],
        )
        .await?;
    if !moved.is_empty() {
        return Ok(());
    }
    let found = client
        .query_typed(
            "SELECT next_offset FROM partitions WHERE partition = $1",
            &[(&i64::from(partition), Type::INT8)],
        )
        .await?;
    let found = found.first().map_or(0, |row| unsigned(row.get(0)));
    let expected = publication.offsets.start;
    Err(CatalogError::OffsetMoved { partition, expected, found }.into())
}

async fn store_producers(
    client: &Client,
    lease: &Lease,
    publication: &Publication,
) -> Result<(), Failed> {
    let partition = i64::from(lease.resource.partition()?);
    let nodes: Vec<i64> =
        publication.producers.iter().map(|(node, _)| node_number(*node)).collect();
    // Numbers of frames have all 64 bits. They are stored as they are, and not compared here.
    let all = || publication.producers.iter().map(|(_, seen)| seen);
    let last: Vec<i64> = all().map(|seen| seen.last as i64).collect();
    let before: Vec<i64> = all().map(|seen| seen.before as i64).collect();
    client
        .query_typed(
            "INSERT INTO producers (partition, node, sequence, seen_before, seen)
             SELECT $1, node, sequence, seen_before, now()
             FROM unnest($2, $3, $4) AS last (node, sequence, seen_before)
             ON CONFLICT (partition, node) DO UPDATE SET sequence = EXCLUDED.sequence,
                seen_before = EXCLUDED.seen_before, seen = EXCLUDED.seen",
            &[
                (&partition, Type::INT8),
                (&nodes, Type::INT8_ARRAY),
                (&last, Type::INT8_ARRAY),
                (&before, Type::INT8_ARRAY),
            ],
        )
        .await?;
    client
        .query_typed(
            "DELETE FROM producers
             WHERE partition = $1 AND seen < now() - $2 * interval '1 microsecond'",
            &[(&partition, Type::INT8), (&micros(PRODUCER_FORGOTTEN_AFTER), Type::INT8)],
        )
        .await?;
    Ok(())
}

fn seen(last: i64, before: i64) -> Seen {
    Seen { last: last as u64, before: before as u64 }
}

pub async fn replace(
    client: &Client,
    lease: &Lease,
    replaced: &[String],
    by: Option<&SegmentRow>,
) -> Result<(), Failed> {
    // Before any lock of a row, since others that have it may wait for such a row.
    retires(client).await?;
    hold(client, lease).await?;
    if let Some(by) = by {
        add(client, by).await?;
    }
    // The time is that of the statement: a query whose snapshot still has these segments began
    // before the commit, which follows. A segment does not replace itself.
    let retired = client
        .query_typed(
            "WITH gone AS (
                UPDATE segments SET retired = clock_timestamp(), replaced_by = $2
                WHERE name = ANY ($1) AND name IS DISTINCT FROM $2 AND retired IS NULL
                RETURNING partition, bytes),
             counts AS (
                SELECT partition, count(*) AS segments, sum(bytes)::bigint AS bytes
                FROM gone GROUP BY partition),
             counted AS (
                UPDATE partitions SET live_segments = live_segments - counts.segments,
                    live_bytes = live_bytes - counts.bytes
                FROM counts WHERE partitions.partition = counts.partition)
             SELECT count(*) FROM gone",
            &[(&replaced, Type::TEXT_ARRAY), (&by.map(|segment| &segment.name), Type::TEXT)],
        )
        .await?;
    let retired = retired.first().map_or(0, |row| unsigned(row.get(0)));
    match retired == replaced.len() as u64 {
        true => Ok(()),
        false => Err(CatalogError::SegmentGone.into()),
    }
}

async fn add(client: &Client, segment: &SegmentRow) -> Result<(), Failed> {
    let added = client
        .query_typed(
            "WITH added AS (
                INSERT INTO segments (name, partition, first_offset, end_offset, first_ns, last_ns,
                    received_last_ns, lines, bytes, searched, rules, published)
                VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, now())
                ON CONFLICT (name) DO NOTHING RETURNING partition, bytes),
             counted AS (
                UPDATE partitions SET live_segments = live_segments + 1,
                    live_bytes = live_bytes + added.bytes
                FROM added WHERE partitions.partition = added.partition)
             SELECT 1 FROM added",
            &[
                (&segment.name, Type::TEXT),
                (&i64::from(segment.partition), Type::INT8),
                (&signed(segment.offsets.start)?, Type::INT8),
                (&signed(segment.offsets.end)?, Type::INT8),
                (&segment.times.first_ns, Type::INT8),
                (&segment.times.last_ns, Type::INT8),
                (&segment.received_last_ns, Type::INT8),
                (&signed(segment.lines)?, Type::INT8),
                (&signed(segment.bytes)?, Type::INT8),
                (&signed(segment.searched)?, Type::INT8),
                (&signed(segment.rules)?, Type::INT8),
            ],
        )
        .await?;
    if added.is_empty() {
        return Err(CatalogError::NameTaken(segment.name.clone()).into());
    }
    if segment.frames.is_empty() {
        return Ok(());
    }
    let column = |of: fn(&FrameRange) -> i64| segment.frames.iter().map(of).collect::<Vec<i64>>();
    client
        .query_typed(
            "INSERT INTO frames (segment, node, first_number, last_number)
             SELECT $1, node, first, last FROM unnest($2, $3, $4) AS frame (node, first, last)",
            &[
                (&segment.name, Type::TEXT),
                (&column(|frames| node_number(frames.node)), Type::INT8_ARRAY),
                (&column(|frames| ordered(frames.first)), Type::INT8_ARRAY),
                (&column(|frames| ordered(frames.last)), Type::INT8_ARRAY),
            ],
        )
        .await?;
    Ok(())
}
