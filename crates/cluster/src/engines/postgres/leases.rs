//! Nodes and leases.

use std::time::Duration;

use tokio_postgres::Client;
use tokio_postgres::types::Type;

use super::pool::Failed;
use super::{micros, signed, unsigned};
use crate::catalog::{LeaseRow, NODE_FORGOTTEN_AFTER, NodeInfo, NodeRow, Role, View};
use crate::error::CatalogError;
use crate::ids::{Lease, NodeId, Resource};

pub async fn heartbeat(
    client: &Client,
    node: &NodeInfo,
    leases: &[Lease],
    ttl: Duration,
) -> Result<View, Failed> {
    let roles: Vec<&str> = node.roles.iter().map(|role| role_text(*role)).collect();
    client
        .query_typed(
            "INSERT INTO nodes (node, name, address, roles, version, accepting, seen)
             VALUES ($1, $2, $3, $4, $5, $6, now())
             ON CONFLICT (node) DO UPDATE SET
                name = $2, address = $3, roles = $4, version = $5, accepting = $6, seen = now()",
            &[
                (&node_number(node.node), Type::INT8),
                (&node.name, Type::TEXT),
                (&node.address, Type::TEXT),
                (&roles, Type::TEXT_ARRAY),
                (&node.version, Type::TEXT),
                (&node.accepting, Type::BOOL),
            ],
        )
        .await?;
    if !leases.is_empty() {
        let resources: Vec<String> =
            leases.iter().map(|lease| lease.resource.to_string()).collect();
        let epochs = leases.iter().map(|lease| signed(lease.epoch));
        let epochs = epochs.collect::<Result<Vec<i64>, _>>()?;
        client
            .query_typed(
                "UPDATE leases SET expires = now() + $4 * interval '1 microsecond'
                 FROM unnest($1, $2) AS held (resource, epoch)
                 WHERE leases.resource = held.resource AND leases.epoch = held.epoch
                    AND leases.owner = $3",
                &[
                    (&resources, Type::TEXT_ARRAY),
                    (&epochs, Type::INT8_ARRAY),
                    (&node_number(node.node), Type::INT8),
                    (&micros(ttl), Type::INT8),
                ],
            )
            .await?;
    }
    client
        .query_typed(
            "DELETE FROM nodes WHERE seen < now() - $1 * interval '1 microsecond'",
            &[(&micros(NODE_FORGOTTEN_AFTER), Type::INT8)],
        )
        .await?;
    view(client).await
}

async fn view(client: &Client) -> Result<View, Failed> {
    let nodes = client
        .query_typed(
            "SELECT node, name, address, roles, version, accepting,
                (EXTRACT(epoch FROM now() - seen) * 1000000)::bigint
             FROM nodes ORDER BY node",
            &[],
        )
        .await?;
    let leases = client
        .query_typed(
            "SELECT resource, owner, epoch, owner IS NOT NULL AND expires > now() FROM leases",
            &[],
        )
        .await?;
    let nodes = nodes.iter().map(|row| {
        let roles: Vec<&str> = row.get(3);
        NodeRow {
            info: NodeInfo {
                node: node_id(row.get(0)),
                name: row.get(1),
                address: row.get(2),
                // A newer program may have roles that this one does not know.
                roles: roles.into_iter().filter_map(role_of).collect(),
                version: row.get(4),
                accepting: row.get(5),
            },
            silent: Duration::from_micros(unsigned(row.get(6))),
        }
    });
    let leases = leases.iter().filter_map(|row| {
        let resource: &str = row.get(0);
        Some(LeaseRow {
            resource: resource.parse().ok()?,
            owner: row.get::<_, Option<i64>>(1).map(node_id),
            epoch: unsigned(row.get(2)),
            live: row.get(3),
        })
    });
    let deleted_ns = super::deletions::last_ns(client).await?;
    Ok(View { nodes: nodes.collect(), leases: leases.collect(), deleted_ns })
}

pub async fn acquire(
    client: &Client,
    resource: Resource,
    owner: NodeId,
    ttl: Duration,
) -> Result<Option<Lease>, Failed> {
    let rows = client
        .query_typed(
            "INSERT INTO leases (resource, owner, epoch, expires)
             VALUES ($1, $2, 1, now() + $3 * interval '1 microsecond')
             ON CONFLICT (resource) DO UPDATE SET
                owner = $2, epoch = leases.epoch + 1,
                expires = now() + $3 * interval '1 microsecond'
             WHERE leases.owner IS NULL OR leases.owner = $2 OR leases.expires <= now()
             RETURNING epoch",
            &[
                (&resource.to_string(), Type::TEXT),
                (&node_number(owner), Type::INT8),
                (&micros(ttl), Type::INT8),
            ],
        )
        .await?;
    Ok(rows.first().map(|row| Lease { resource, owner, epoch: unsigned(row.get(0)) }))
}

pub async fn release(client: &Client, lease: &Lease) -> Result<(), Failed> {
    client
        .query_typed(
            "UPDATE leases SET owner = NULL, epoch = epoch + 1, expires = now()
             WHERE resource = $1 AND owner = $2 AND epoch = $3",
            &[
                (&lease.resource.to_string(), Type::TEXT),
                (&node_number(lease.owner), Type::INT8),
                (&signed(lease.epoch)?, Type::INT8),
            ],
        )
        .await?;
    Ok(())
}

/// Locks a lease to the end of the transaction, if it is not over: until then, nobody acquires or
/// releases it.
pub async fn hold(client: &Client, lease: &Lease) -> Result<(), Failed> {
    let resource = lease.resource.to_string();
    let rows = client
        .query_typed(
            "SELECT 1 FROM leases WHERE resource = $1 AND owner = $2 AND epoch = $3 FOR SHARE",
            &[
                (&resource, Type::TEXT),
                (&node_number(lease.owner), Type::INT8),
                (&signed(lease.epoch)?, Type::INT8),
            ],
        )
        .await?;
    match rows.is_empty() {
        true => Err(CatalogError::LeaseOver { resource, epoch: lease.epoch }.into()),
        false => Ok(()),
    }
}

pub fn node_number(node: NodeId) -> i64 {
    i64::from(node.0)
}

pub fn node_id(number: i64) -> NodeId {
    NodeId(number as u32)
}

fn role_text(role: Role) -> &'static str {
    match role {
        Role::Collector => "collector",
        Role::Store => "store",
        Role::Query => "query",
    }
}

fn role_of(text: &str) -> Option<Role> {
    [Role::Collector, Role::Store, Role::Query].into_iter().find(|role| role_text(*role) == text)
}
