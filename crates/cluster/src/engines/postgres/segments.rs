//! Reads of segments.

use std::time::Duration;

use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Row};

use super::leases::{node_id, node_number};
use super::pool::Failed;
use super::{micros, signed, unsigned};
use crate::catalog::{
    DueRules, Held, Owner, PartitionRow, SegmentRow, Snapshot, TimeRange, Totals, Unsearched,
};
use crate::error::CatalogError;
use crate::ids::{NodeId, ObjectName};
use crate::objects::ObjectInfo;

/// The largest time that a range in the index can have: one more has to exist.
const INDEXED_NS_MAX: i64 = i64::MAX - 1;

/// The advisory lock between holds and transactions that retire segments.
const RETIRING: i64 = 5_139_515;

pub async fn snapshot(
    client: &Client,
    times: TimeRange,
    segments_max: usize,
) -> Result<Snapshot, Failed> {
    let partitions = client
        .query_typed(
            "SELECT partition, next_offset, lost, node, address, epoch
             FROM partitions
             LEFT JOIN leases ON resource = 'partition-' || partition AND expires > now()
             LEFT JOIN nodes ON node = owner
             ORDER BY partition",
            &[],
        )
        .await?;
    let partitions = partitions.iter().map(|row| PartitionRow {
        partition: row.get::<_, i64>(0) as u32,
        offset: unsigned(row.get(1)),
        lost: unsigned(row.get(2)),
        owner: row.get::<_, Option<i64>>(3).map(|node| Owner {
            node: node_id(node),
            address: row.get(4),
            epoch: unsigned(row.get(5)),
        }),
    });
    let partitions = partitions.collect();
    let tombstones = super::deletions::in_force(client).await?;
    if times.first_ns > times.last_ns {
        return Ok(Snapshot { partitions, segments: Vec::new(), tombstones });
    }
    // The expression is the index's; the comparison behind it is exact at the end of time.
    let rows = client
        .query_typed(
            "SELECT name, partition, first_offset, end_offset, first_ns, last_ns,
                received_last_ns, lines, bytes, searched, rules
             FROM segments
             WHERE retired IS NULL
                AND int8range(LEAST(first_ns, 9223372036854775806),
                    LEAST(last_ns, 9223372036854775806), '[]') && int8range($1, $2, '[]')
                AND first_ns <= $4 AND last_ns >= $3
             LIMIT $5",
            &[
                (&times.first_ns.min(INDEXED_NS_MAX), Type::INT8),
                (&times.last_ns.min(INDEXED_NS_MAX), Type::INT8),
                (&times.first_ns, Type::INT8),
                (&times.last_ns, Type::INT8),
                (&limit(segments_max.saturating_add(1)), Type::INT8),
            ],
        )
        .await?;
    match rows.len() > segments_max {
        true => Err(CatalogError::TooMany { segments_max }.into()),
        false => {
            let segments = rows.iter().map(segment).collect();
            Ok(Snapshot { partitions, segments, tombstones })
        }
    }
}

pub async fn segments_of(
    client: &Client,
    partition: u32,
    from: u64,
    max: usize,
) -> Result<Vec<SegmentRow>, Failed> {
    let rows = client
        .query_typed(
            "SELECT name, partition, first_offset, end_offset, first_ns, last_ns,
                received_last_ns, lines, bytes, searched, rules
             FROM segments
             WHERE retired IS NULL AND partition = $1 AND end_offset > $2
             ORDER BY end_offset LIMIT $3",
            &[
                (&i64::from(partition), Type::INT8),
                (&signed(from)?, Type::INT8),
                (&limit(max), Type::INT8),
            ],
        )
        .await?;
    Ok(rows.iter().map(segment).collect())
}

/// Those that are to be searched. Without rules of retention, a partial index has the segments that
/// were not searched for a deletion; with rules, the server looks at all rows of the partition, and
/// sends those that are due.
pub async fn unsearched(
    client: &Client,
    partition: u32,
    wanted: &Unsearched,
    from: u64,
    max: usize,
) -> Result<Vec<SegmentRow>, Failed> {
    let due = match wanted.due.is_empty() {
        true => "",
        false => {
            "OR EXISTS (
                SELECT 1 FROM unnest($5, $6, $7) AS due (first_ns, until_ns, rules)
                WHERE received_last_ns >= due.first_ns AND received_last_ns < due.until_ns
                    AND segments.rules <> due.rules)"
        }
    };
    let sql = format!(
        "SELECT name, partition, first_offset, end_offset, first_ns, last_ns,
            received_last_ns, lines, bytes, searched, rules
         FROM segments
         WHERE retired IS NULL AND partition = $1 AND end_offset > $2 AND (searched < $3 {due})
         ORDER BY end_offset LIMIT $4"
    );
    let (partition, from, max) = (i64::from(partition), signed(from)?, limit(max));
    let below = signed(wanted.below)?;
    let column = |of: fn(&DueRules) -> i64| wanted.due.iter().map(of).collect::<Vec<i64>>();
    let (first, until) = (column(|due| due.received_ns.start), column(|due| due.received_ns.end));
    let rules = wanted.due.iter().map(|due| signed(due.rules)).collect::<Result<Vec<i64>, _>>()?;
    let mut values: Vec<(&(dyn ToSql + Sync), Type)> = vec![
        (&partition, Type::INT8),
        (&from, Type::INT8),
        (&below, Type::INT8),
        (&max, Type::INT8),
    ];
    if !wanted.due.is_empty() {
        values.extend([
            (&first as &(dyn ToSql + Sync), Type::INT8_ARRAY),
            (&until, Type::INT8_ARRAY),
            (&rules, Type::INT8_ARRAY),
        ]);
    }
    let rows = client.query_typed(&sql, &values).await?;
    Ok(rows.iter().map(segment).collect())
}

pub async fn holding(
    client: &Client,
    node: NodeId,
    sequence: u64,
    max: usize,
) -> Result<Vec<SegmentRow>, Failed> {
    let rows = client
        .query_typed(
            "SELECT name, partition, first_offset, end_offset, first_ns, last_ns,
                received_last_ns, lines, bytes, searched, rules
             FROM segments
             WHERE retired IS NULL AND name IN (
                SELECT segment FROM frames
                WHERE node = $1 AND last_number >= $2 AND first_number <= $2)
             ORDER BY name LIMIT $3",
            &[
                (&node_number(node), Type::INT8),
                (&ordered(sequence), Type::INT8),
                (&limit(max), Type::INT8),
            ],
        )
        .await?;
    Ok(rows.iter().map(segment).collect())
}

/// A number of all 64 bits as the database has it, in order.
pub fn ordered(number: u64) -> i64 {
    number as i64 ^ i64::MIN
}

/// The time of the server.
pub async fn now_ns(client: &Client) -> Result<i64, Failed> {
    let rows =
        client.query_typed("SELECT (EXTRACT(epoch FROM now()) * 1000000000)::bigint", &[]).await?;
    let now_ns = rows.first().map(|row| row.get(0));
    now_ns.ok_or_else(|| CatalogError::Refused("PostgreSQL answers without a time".into()).into())
}

pub async fn older_than(
    client: &Client,
    age: Duration,
    max: usize,
) -> Result<Vec<SegmentRow>, Failed> {
    let rows = client
        .query_typed(
            "SELECT name, partition, first_offset, end_offset, first_ns, last_ns,
                received_last_ns, lines, bytes, searched, rules
             FROM segments
             WHERE retired IS NULL AND ($1 = 0
                OR received_last_ns <= (EXTRACT(epoch FROM now()) * 1000000000)::bigint - $1)
             ORDER BY received_last_ns, name LIMIT $2",
            &[
                (&i64::try_from(age.as_nanos()).unwrap_or(i64::MAX), Type::INT8),
                (&limit(max), Type::INT8),
            ],
        )
        .await?;
    Ok(rows.iter().map(segment).collect())
}

pub async fn totals(client: &Client) -> Result<Totals, Failed> {
    let rows = client
        .query_typed(
            "SELECT COALESCE(sum(live_segments), 0)::bigint, COALESCE(sum(live_bytes), 0)::bigint
             FROM partitions",
            &[],
        )
        .await?;
    let totals = rows
        .first()
        .map(|row| Totals { segments: unsigned(row.get(0)), bytes: unsigned(row.get(1)) });
    Ok(totals.unwrap_or_default())
}

/// What all live segments hold. Reads each of their rows.
pub async fn held(client: &Client) -> Result<Held, Failed> {
    let rows = client
        .query_typed(
            "SELECT count(*)::bigint, COALESCE(sum(bytes), 0)::bigint,
                COALESCE(sum(lines), 0)::bigint, min(first_ns), max(last_ns)
             FROM segments WHERE retired IS NULL",
            &[],
        )
        .await?;
    let held = rows.first().map(|row| Held {
        segments: unsigned(row.get(0)),
        bytes: unsigned(row.get(1)),
        lines: unsigned(row.get(2)),
        times_ns: row.get::<_, Option<i64>>(3).zip(row.get(4)),
    });
    Ok(held.unwrap_or_default())
}

/// Begins or prolongs a hold. One that begins waits for the transactions that retire segments at
/// present: each segment that is live after it was then retired later than it began, by the same
/// clock.
pub async fn hold(client: &Client, holder: &str, ttl: Duration) -> Result<(), Failed> {
    client.query_typed("DELETE FROM holds WHERE expires <= now()", &[]).await?;
    let prolonged = client
        .query_typed(
            "UPDATE holds SET expires = now() + $2 * interval '1 microsecond'
             WHERE holder = $1 RETURNING 1",
            &[(&holder, Type::TEXT), (&micros(ttl), Type::INT8)],
        )
        .await?;
    if !prolonged.is_empty() {
        return Ok(());
    }
    client.batch_execute(&format!("SELECT pg_advisory_xact_lock({RETIRING})")).await?;
    client
        .query_typed(
            "INSERT INTO holds (holder, began, expires)
             VALUES ($1, clock_timestamp(), clock_timestamp() + $2 * interval '1 microsecond')
             ON CONFLICT (holder) DO UPDATE SET expires = EXCLUDED.expires",
            &[(&holder, Type::TEXT), (&micros(ttl), Type::INT8)],
        )
        .await?;
    Ok(())
}

/// Before a transaction retires segments: a hold that begins waits for its end, and it waits for a
/// hold that begins. Transactions that retire do not wait for each other. A lock of the table would
/// do the same, but would wait for a vacuum, and everything that publishes for it.
pub async fn retires(client: &Client) -> Result<(), Failed> {
    client.batch_execute(&format!("SELECT pg_advisory_xact_lock_shared({RETIRING})")).await?;
    Ok(())
}

pub async fn let_go(client: &Client, holder: &str) -> Result<(), Failed> {
    client.query_typed("DELETE FROM holds WHERE holder = $1", &[(&holder, Type::TEXT)]).await?;
    Ok(())
}

pub async fn retired(client: &Client, grace: Duration, max: usize) -> Result<Vec<String>, Failed> {
    let rows = client
        .query_typed(
            "SELECT name FROM segments
             WHERE retired <= now() - $1 * interval '1 microsecond'
                AND retired < COALESCE(
                    (SELECT min(began) FROM holds WHERE expires > now()), 'infinity')
             ORDER BY retired LIMIT $2",
            &[(&micros(grace), Type::INT8), (&limit(max), Type::INT8)],
        )
        .await?;
    Ok(rows.iter().map(|row| row.get(0)).collect())
}

pub async fn forget(client: &Client, names: &[String]) -> Result<(), Failed> {
    client
        .query_typed(
            "DELETE FROM segments WHERE name = ANY ($1) AND retired IS NOT NULL",
            &[(&names, Type::TEXT_ARRAY)],
        )
        .await?;
    Ok(())
}

pub async fn orphans(
    client: &Client,
    objects: &[ObjectInfo],
    grace: Duration,
) -> Result<Vec<String>, Failed> {
    let (mut names, mut resources, mut epochs, mut written) = (vec![], vec![], vec![], vec![]);
    for info in objects {
        if let Ok(ObjectName { lease, .. }) = info.name.parse() {
            names.push(info.name.as_str());
            resources.push(lease.resource.to_string());
            epochs.push(signed(lease.epoch)?);
            written.push(info.written_ns);
        }
    }
    let rows = client
        .query_typed(
            "SELECT object.name
             FROM unnest($1, $2, $3, $4) AS object (name, resource, epoch, written_ns)
             JOIN leases ON leases.resource = object.resource AND leases.epoch > object.epoch
             WHERE object.written_ns <= (EXTRACT(epoch FROM now()) * 1000000000)::bigint - $5
                AND NOT EXISTS (SELECT 1 FROM segments WHERE segments.name = object.name)",
            &[
                (&names, Type::TEXT_ARRAY),
                (&resources, Type::TEXT_ARRAY),
                (&epochs, Type::INT8_ARRAY),
                (&written, Type::INT8_ARRAY),
                (&i64::try_from(grace.as_nanos()).unwrap_or(i64::MAX), Type::INT8),
            ],
        )
        .await?;
    Ok(rows.iter().map(|row| row.get(0)).collect())
}

fn segment(row: &Row) -> SegmentRow {
    SegmentRow {
        name: row.get(0),
        partition: row.get::<_, i64>(1) as u32,
        offsets: unsigned(row.get(2))..unsigned(row.get(3)),
        times: TimeRange { first_ns: row.get(4), last_ns: row.get(5) },
        received_last_ns: row.get(6),
        lines: unsigned(row.get(7)),
        bytes: unsigned(row.get(8)),
        searched: unsigned(row.get(9)),
        rules: unsigned(row.get(10)),
        frames: Vec::new(),
    }
}

fn limit(max: usize) -> i64 {
    i64::try_from(max).unwrap_or(i64::MAX)
}
