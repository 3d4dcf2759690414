//! Deletions of lines.

use tokio_postgres::types::Type;
use tokio_postgres::{Client, Row};

use super::leases::hold;
use super::pool::Failed;
use super::{micros, signed, unsigned};
use crate::deletions::{
    DELETIONS_KEPT, DeletionRow, DeletionState, Deletions, DeletionsTaken, LATE, Tombstone,
};
use crate::error::CatalogError;
use crate::ids::Lease;

/// The columns of a deletion, and what is left of it.
const ROW: &str = "id, filter, state, (EXTRACT(epoch FROM created) * 1000000000)::bigint,
    (EXTRACT(epoch FROM finished) * 1000000000)::bigint, lines,
    CASE WHEN state = 'running' THEN
        (SELECT count(*) FROM segments WHERE retired IS NULL AND searched < id) ELSE 0 END,
    CASE WHEN state = 'running' THEN
        (SELECT COALESCE(sum(bytes), 0)::bigint FROM segments
         WHERE retired IS NULL AND searched < id) ELSE 0 END";

pub async fn add(client: &Client, filter: &str, ends: &[u64]) -> Result<DeletionRow, Failed> {
    // Of two at the same time, each sees the other: none begins beyond the limit.
    client.batch_execute("LOCK TABLE deletions IN SHARE ROW EXCLUSIVE MODE").await?;
    let rows = client
        .query_typed(
            "SELECT count(*) FILTER (WHERE state = 'running'), count(*),
                COALESCE(sum(octet_length(filter)), 0)::bigint
             FROM deletions WHERE state <> 'cancelled' AND filter <> ''",
            &[],
        )
        .await?;
    let number = |row: &Row, column: usize| usize::try_from(row.get::<_, i64>(column)).unwrap_or(0);
    let taken = rows.first().map(|row| DeletionsTaken {
        running: number(row, 0),
        in_force: number(row, 1),
        bytes: number(row, 2),
    });
    taken.unwrap_or_default().admit(filter).map_err(CatalogError::Refused)?;
    let ends = ends.iter().map(|end| signed(*end)).collect::<Result<Vec<i64>, _>>()?;
    let added = client
        .query_typed(
            "INSERT INTO deletions (filter, state, created, ends, lines)
             VALUES ($1, 'running', clock_timestamp(), $2, 0) RETURNING id",
            &[(&filter, Type::TEXT), (&ends, Type::INT8_ARRAY)],
        )
        .await?;
    let id: i64 = added.first().map_or(0, |row| row.get(0));
    let rows = client
        .query_typed(&format!("SELECT {ROW} FROM deletions WHERE id = $1"), &[(&id, Type::INT8)])
        .await?;
    let row = rows.first().and_then(deletion);
    row.ok_or_else(|| CatalogError::Refused("the deletion that was added is gone".into()).into())
}

pub async fn all(client: &Client) -> Result<Deletions, Failed> {
    let now =
        client.query_typed("SELECT (EXTRACT(epoch FROM now()) * 1000000000)::bigint", &[]).await?;
    let rows = client.query_typed(&format!("SELECT {ROW} FROM deletions ORDER BY id"), &[]).await?;
    // The newest one is never forgotten.
    let rows: Vec<DeletionRow> = rows.iter().filter_map(deletion).collect();
    Ok(Deletions {
        now_ns: now.first().map_or(0, |row| row.get(0)),
        last_id: rows.last().map_or(0, |row| row.tombstone.id),
        rows,
    })
}

/// The deletions that hide lines, by id.
pub async fn in_force(client: &Client) -> Result<Vec<Tombstone>, Failed> {
    let rows = client
        .query_typed(
            "SELECT id, filter, (EXTRACT(epoch FROM created) * 1000000000)::bigint FROM deletions
             WHERE state <> 'cancelled' AND filter <> '' ORDER BY id",
            &[],
        )
        .await?;
    let tombstone = |row: &Row| Tombstone {
        id: unsigned(row.get(0)),
        filter: row.get(1),
        created_ns: row.get(2),
    };
    Ok(rows.iter().map(tombstone).collect())
}

/// When the last deletion was requested.
pub async fn last_ns(client: &Client) -> Result<Option<i64>, Failed> {
    let rows = client
        .query_typed(
            "SELECT (EXTRACT(epoch FROM max(created)) * 1000000000)::bigint FROM deletions",
            &[],
        )
        .await?;
    Ok(rows.first().and_then(|row| row.get(0)))
}

pub async fn cancel(client: &Client, id: u64) -> Result<bool, Failed> {
    let Ok(id) = i64::try_from(id) else { return Ok(false) };
    let cancelled = client
        .query_typed(
            "UPDATE deletions SET filter = '',
                finished = CASE WHEN state = 'running' THEN now() ELSE finished END,
                state = CASE WHEN state = 'running' THEN 'cancelled' ELSE state END
             WHERE id = $1 AND state <> 'cancelled' AND filter <> '' RETURNING 1",
            &[(&id, Type::INT8)],
        )
        .await?;
    Ok(!cancelled.is_empty())
}

pub async fn end(client: &Client, lease: &Lease) -> Result<u64, Failed> {
    hold(client, lease).await?;
    let ended = client
        .query_typed(
            "UPDATE deletions SET state = 'done', finished = now()
             WHERE state = 'running'
                AND NOT EXISTS (SELECT 1 FROM segments WHERE retired IS NULL AND searched < id)
                AND NOT EXISTS (
                    SELECT 1 FROM unnest(ends) WITH ORDINALITY AS wanted (until, number)
                    LEFT JOIN partitions ON partition = number - 1
                    WHERE COALESCE(next_offset, 0) < until)
             RETURNING 1",
            &[],
        )
        .await?;
    client
        .query_typed(
            "UPDATE deletions SET filter = ''
             WHERE state = 'done' AND filter <> ''
                AND finished <= now() - $1 * interval '1 microsecond'",
            &[(&micros(LATE), Type::INT8)],
        )
        .await?;
    client
        .query_typed(
            "DELETE FROM deletions WHERE id IN (
                SELECT id FROM deletions WHERE state <> 'running' AND filter = ''
                ORDER BY id DESC OFFSET $1)",
            &[(&(DELETIONS_KEPT as i64), Type::INT8)],
        )
        .await?;
    Ok(ended.len() as u64)
}

pub async fn note_searched(
    client: &Client,
    lease: &Lease,
    names: &[String],
    searched: u64,
    rules: u64,
) -> Result<(), Failed> {
    hold(client, lease).await?;
    client
        .query_typed(
            "UPDATE segments SET searched = GREATEST(searched, $2), rules = $3
             WHERE name = ANY ($1) AND retired IS NULL",
            &[
                (&names, Type::TEXT_ARRAY),
                (&signed(searched)?, Type::INT8),
                (&signed(rules)?, Type::INT8),
            ],
        )
        .await?;
    Ok(())
}

/// Adds lines to the counts of deletions.
pub async fn count(client: &Client, deleted: &[(u64, u64)]) -> Result<(), Failed> {
    for (id, lines) in deleted {
        client
            .query_typed(
                "UPDATE deletions SET lines = lines + $2 WHERE id = $1",
                &[(&signed(*id)?, Type::INT8), (&signed(*lines)?, Type::INT8)],
            )
            .await?;
    }
    Ok(())
}

fn deletion(row: &Row) -> Option<DeletionRow> {
    Some(DeletionRow {
        tombstone: Tombstone {
            id: unsigned(row.get(0)),
            filter: row.get(1),
            created_ns: row.get(3),
        },
        state: DeletionState::of_name(row.get(2))?,
        finished_ns: row.get(4),
        lines: unsigned(row.get(5)),
        segments_left: unsigned(row.get(6)),
        bytes_left: unsigned(row.get(7)),
    })
}
