//! `/api/v1/cluster`: the stores that this node answers for, or the nodes and partitions of a
//! cluster on engines.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use cluster::{NodeId, PartitionRow, Role};
use serde_json::{Value, json};

use crate::access::principal::Scope;
use crate::access::routes::Routes;
use crate::app::App;
use crate::wire::error::{ApiError, ApiResult};
use node::cluster::{Cluster, Copy, Engines, StoreLacks};

/// The route of this file.
pub fn routes() -> Routes<Arc<App>> {
    Routes::new().get(Scope::Read, "/api/v1/cluster", status)
}

async fn status(State(app): State<Arc<App>>) -> ApiResult {
    let Some(cluster) = app.cluster() else {
        return Err(ApiError::not_found(
            "this node answers for its own lines alone; [stores] in its configuration names others",
        ));
    };
    if let Some(engines) = cluster.engines().cloned() {
        let work = move || on_engines(&engines);
        let shown = tokio::task::spawn_blocking(work).await;
        let shown = shown.map_err(|error| ApiError::internal(error.to_string()))?;
        return Ok(Json(shown.map_err(ApiError::unavailable)?).into_response());
    }
    let work = move || {
        let lacks = cluster.lacks();
        let mut lacks = &lacks[..];
        let copy = |copy: &Copy| {
            let (of_copy, rest) = lacks.split_at(copy.nodes.len());
            lacks = rest;
            shown(copy, of_copy)
        };
        cluster.copies().iter().map(copy).collect::<Vec<Value>>()
    };
    let copies = tokio::task::spawn_blocking(work).await;
    let copies = copies.map_err(|error| ApiError::internal(error.to_string()))?;
    let whole = copies.iter().filter(|copy| copy["whole"] == true).count();
    Ok(Json(json!({ "copies": copies, "copies_whole": whole })).into_response())
}

/// The nodes and partitions of a cluster.
fn on_engines(engines: &Engines) -> Result<Value, String> {
    let status = engines.status()?;
    let view = engines.view();
    let lease = engines.config.lease;
    let owns = |node: NodeId| {
        let is_owned = |row: &&PartitionRow| row.owner.as_ref().is_some_and(|o| o.node == node);
        status.partitions.iter().filter(is_owned).count()
    };
    let nodes: Vec<Value> = view
        .nodes
        .iter()
        .map(|row| {
            let roles: Vec<&str> = row.info.roles.iter().copied().map(name).collect();
            json!({
                "node": row.info.node.to_string(),
                "name": row.info.name,
                "address": row.info.address,
                "roles": roles,
                "version": row.info.version,
                "state": if row.silent < lease { "ok" } else { "away" },
                "silent_s": row.silent.as_secs_f64(),
                "accepting": row.info.accepting,
                "partitions": owns(row.info.node),
            })
        })
        .collect();
    let partition = |(number, end): (u32, &u64)| {
        let row = status.partitions.iter().find(|row| row.partition == number);
        let owner = row.and_then(|row| row.owner.as_ref());
        let published = row.map_or(0, |row| row.offset);
        let name = owner.and_then(|owner| {
            view.nodes.iter().find(|row| row.info.node == owner.node).map(|row| &row.info.name)
        });
        json!({
            "partition": number,
            "owner": owner.map(|owner| owner.node.to_string()),
            "owner_name": name,
            "epoch": owner.map(|owner| owner.epoch),
            "published": published,
            "end": end,
            "unpublished": end.saturating_sub(published),
        })
    };
    let partitions: Vec<Value> = (0..).zip(&status.ends).map(partition).collect();
    let own: Vec<Value> = engines
        .all_owned()
        .iter()
        .map(|owned| {
            json!({
                "partition": owned.number,
                "read": owned.hot.position(),
                "memory_bytes": owned.hot.bytes_unpublished(),
                "duplicates": owned.duplicates(),
                "rejected": owned.rejected(),
                "trouble": owned.trouble(),
            })
        })
        .collect();
    let unowned = partitions.iter().filter(|partition| partition["owner"].is_null()).count();
    Ok(json!({
        "nodes": nodes,
        "partitions": partitions,
        "partitions_unowned": unowned,
        "own_partitions": own,
        "segments": status.totals.segments,
        "segments_bytes": status.totals.bytes,
        "cache": {
            "hits": status.cache.hits,
            "fetches": status.cache.fetches,
            "damaged": status.cache.damaged,
            "bytes": status.cache.bytes,
        },
    }))
}

fn name(role: Role) -> &'static str {
    match role {
        Role::Collector => "collector",
        Role::Store => "store",
        Role::Query => "query",
    }
}

/// A copy, with what each of its stores says about itself, and what it lacks of other copies.
fn shown(copy: &Copy, lacks: &[StoreLacks]) -> Value {
    let answers = Cluster::each(&copy.nodes, |node| node.call("GET", "/api/v1/status", &[]));
    let stores: Vec<Value> = answers
        .into_iter()
        .zip(&copy.nodes)
        .zip(lacks)
        .map(|((answer, node), lacks)| match answer {
            Ok(status) => json!({
                "store": node.name,
                "state": match status["ready"] == true {
                    false => "starting",
                    true if lacks.sentences.is_empty() => "ok",
                    true => "incomplete",
                },
                "version": status["version"],
                "lines": status["store"]["lines"],
                "bytes_raw": status["store"]["bytes_raw"],
                "bytes_disk": status["store"]["bytes_disk"],
                "disk_free_bytes": status["store"]["disk_free_bytes"],
                "oldest": status["store"]["oldest"],
                "newest": status["store"]["newest"],
                "parse_lag_lines": status["parse_lag_lines"],
                "sealing_lag_s": status["store"]["sealing"]["lag_s"],
                "lacks_frames": lacks.frames,
                "lacks": lacks.sentences,
            }),
            Err(error) => json!({
                "store": node.name,
                "state": if error.is_away { "away" } else { "error" },
                "error": error.message,
            }),
        })
        .collect();
    let is_whole = stores.iter().all(|store| store["state"] == "ok");
    json!({ "stores": stores, "whole": is_whole })
}
