//! Documents that a node keeps for the next one that does its work.

use tokio_postgres::Client;
use tokio_postgres::types::Type;

use super::leases::hold;
use super::pool::Failed;
use crate::catalog::Mark;
use crate::ids::Lease;

pub async fn read(client: &Client, prefix: &str) -> Result<Vec<Mark>, Failed> {
    let rows = client
        .query_typed(
            "SELECT name, body FROM marks WHERE starts_with(name, $1) ORDER BY name",
            &[(&prefix, Type::TEXT)],
        )
        .await?;
    Ok(rows.iter().map(|row| (row.get(0), row.get(1))).collect())
}

pub async fn put(
    client: &Client,
    lease: &Lease,
    name: &str,
    body: Option<&[u8]>,
) -> Result<(), Failed> {
    hold(client, lease).await?;
    match body {
        Some(body) => {
            client
                .query_typed(
                    "INSERT INTO marks (name, body, written) VALUES ($1, $2, now())
                     ON CONFLICT (name) DO UPDATE SET body = $2, written = now()",
                    &[(&name, Type::TEXT), (&body, Type::BYTEA)],
                )
                .await?
        }
        None => {
            client.query_typed("DELETE FROM marks WHERE name = $1", &[(&name, Type::TEXT)]).await?
        }
    };
    Ok(())
}
