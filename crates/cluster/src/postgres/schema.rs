//! The schema, as numbered scripts that are run once each.

use tokio_postgres::Client;

use super::pool::Failed;
use crate::error::CatalogError;

/// All scripts, in order; the first is version 1. A script that was released is never changed.
const SCRIPTS: [&str; 2] = [include_str!("schema/0001.sql"), include_str!("schema/0002.sql")];

/// Runs the scripts that are missing, within the caller's transaction. Nodes that start at the same
/// time wait for each other.
pub async fn migrate(client: &Client) -> Result<(), Failed> {
    // A large table may take long to change, and other nodes wait meanwhile.
    client.batch_execute("SET LOCAL statement_timeout = 0").await?;
    // `IF NOT EXISTS` fails when another node creates the table at the same time. The lock lets one
    // wait for the other, and ends with the transaction; without it, one would fail and try again.
    client.batch_execute("SELECT pg_advisory_xact_lock(5139514)").await?;
    client
        .batch_execute("CREATE TABLE IF NOT EXISTS schema_version (version bigint NOT NULL)")
        .await?;
    let row = client.query_typed("SELECT max(version) FROM schema_version", &[]).await?;
    let version: Option<i64> = row.first().map(|row| row.get(0)).unwrap_or_default();
    let version = version.unwrap_or(0);
    let known = SCRIPTS.len() as i64;
    if version > known {
        let error = format!(
            "the catalog has schema version {version}, and this program knows {known}: update it"
        );
        return Err(CatalogError::Refused(error).into());
    }
    for (script, number) in SCRIPTS.iter().zip(1..).filter(|(_, number)| *number > version) {
        client.batch_execute(script).await?;
        let record = format!("INSERT INTO schema_version VALUES ({number})");
        client.batch_execute(&record).await?;
    }
    Ok(())
}
