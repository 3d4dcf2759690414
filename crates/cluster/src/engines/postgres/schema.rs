//! The schema, which the first node creates.

use tokio_postgres::Client;

use super::pool::Failed;
use crate::error::CatalogError;

/// Version of the schema. A catalog of another version is refused.
const VERSION: i64 = 2;

/// Creates the tables of an empty database, or checks the version of the existing ones, within the
/// caller's transaction. Nodes that start at the same time wait for each other.
pub async fn prepare(client: &Client) -> Result<(), Failed> {
    // `IF NOT EXISTS` fails when another node creates the table at the same time. The lock lets one
    // wait for the other, and ends with the transaction; without it, one would fail and try again.
    client.batch_execute("SELECT pg_advisory_xact_lock(5139514)").await?;
    client
        .batch_execute("CREATE TABLE IF NOT EXISTS schema_version (version bigint NOT NULL)")
        .await?;
    let row = client.query_typed("SELECT max(version) FROM schema_version", &[]).await?;
    match row.first().and_then(|row| row.get(0)) {
        Some(VERSION) => Ok(()),
        Some::<i64>(found) => {
            let error = format!(
                "the catalog in PostgreSQL has schema version {found}, and this program reads version {VERSION}: \
                 use the release of Loginson that created it, or an empty database"
            );
            Err(CatalogError::Refused(error).into())
        }
        None => {
            client.batch_execute(include_str!("schema.sql")).await?;
            let record = format!("INSERT INTO schema_version VALUES ({VERSION})");
            Ok(client.batch_execute(&record).await?)
        }
    }
}
