//! The schema, which the first node creates.
//!
//! A catalog names two versions: its own, and the oldest one whose programs may still use it. A
//! release that changes the schema adds to it in a way that the release before can live with (a
//! column with a default, a table, an index), and brings an [`Upgrade`]. So the nodes of a cluster
//! are upgraded one after the other: the first one upgrades the catalog, and the others go on, also
//! after a restart.

use tokio_postgres::Client;

use super::pool::Failed;
use crate::error::CatalogError;

/// Version of the schema that this program creates and upgrades to.
const VERSION: i64 = 3;
/// What earlier schemas become: none that was released.
const UPGRADES: &[Upgrade] = &[];
/// Builds for tests pretend to be of the next version when this variable is there.
#[cfg(debug_assertions)]
const PRETENDED: &str = "LOGINSON_TEST_SCHEMA_NEXT";

/// Makes a schema one version newer.
#[cfg_attr(
    not(debug_assertions),
    allow(dead_code, reason = "no schema before this one was released")
)]
pub struct Upgrade {
    /// The version that it is for.
    pub from: i64,
    /// Adds what is new.
    pub sql: &'static str,
}

/// What a program knows of schemas.
pub struct Known<'k> {
    /// The version that it works with.
    pub version: i64,
    /// How it upgrades earlier ones.
    pub upgrades: &'k [Upgrade],
}

impl Known<'static> {
    /// What this program knows.
    pub fn here() -> Known<'static> {
        #[cfg(debug_assertions)]
        if std::env::var_os(PRETENDED).is_some() {
            return Known { version: VERSION + 1, upgrades: NEXT };
        }
        Known { version: VERSION, upgrades: UPGRADES }
    }
}

/// A change as a later release may make it, for tests.
#[cfg(debug_assertions)]
const NEXT: &[Upgrade] =
    &[Upgrade { from: VERSION, sql: "ALTER TABLE nodes ADD COLUMN next_release text" }];

/// Creates the tables of an empty database, upgrades those of an earlier version, or checks that
/// the existing ones can be used, within the caller's transaction. Nodes that start at the same
/// time wait for each other.
pub async fn prepare(client: &Client, known: &Known<'_>) -> Result<(), Failed> {
    // `IF NOT EXISTS` fails when another node creates the table at the same time. The lock lets one
    // wait for the other, and ends with the transaction; without it, one would fail and try again.
    client.batch_execute("SELECT pg_advisory_xact_lock(5139514)").await?;
    client
        .batch_execute(
            "CREATE TABLE IF NOT EXISTS schema_version (
                version bigint NOT NULL, usable_by bigint NOT NULL DEFAULT 0)",
        )
        .await?;
    let row = client.query_typed("SELECT max(version) FROM schema_version", &[]).await?;
    let found: Option<i64> = row.first().and_then(|row| row.get(0));
    let Some(found) = found else {
        // The statements are of the newest schema of this program's source.
        client.batch_execute(include_str!("schema.sql")).await?;
        note(client, VERSION, VERSION).await?;
        return upgrade(client, VERSION, known).await;
    };
    if found <= known.version {
        return upgrade(client, found, known).await;
    }
    let row = client.query_typed("SELECT max(usable_by) FROM schema_version", &[]).await?;
    let usable_by: i64 = row.first().map_or(found, |row| row.get(0));
    match usable_by <= known.version {
        true => Ok(()),
        false => refuse(
            found,
            known.version,
            &format!(
                ", and programs of schema version {usable_by} or later may use it: upgrade this node"
            ),
        ),
    }
}

/// Upgrades a schema step by step. The version before the last step can go on with it.
async fn upgrade(client: &Client, found: i64, known: &Known<'_>) -> Result<(), Failed> {
    for version in found..known.version {
        let Some(step) = known.upgrades.iter().find(|step| step.from == version) else {
            let what = ": use the release of Loginson that created it, or an empty database";
            return refuse(found, known.version, what);
        };
        client.batch_execute(step.sql).await?;
        note(client, version + 1, version).await?;
    }
    Ok(())
}

async fn note(client: &Client, version: i64, usable_by: i64) -> Result<(), Failed> {
    let record = format!("INSERT INTO schema_version VALUES ({version}, {usable_by})");
    Ok(client.batch_execute(&record).await?)
}

fn refuse(found: i64, known: i64, what: &str) -> Result<(), Failed> {
    let error = format!(
        "the catalog in PostgreSQL has schema version {found}, and this program works with version {known}{what}"
    );
    Err(CatalogError::Refused(error).into())
}
