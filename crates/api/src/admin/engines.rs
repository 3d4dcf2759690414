//! `/api/v1/cluster` of a cluster on engines: nodes and partitions, and how each node finds the
//! engines. Also what a node tells of itself for that, and the sealing of what is not published.
//!
//! What only the owner of a partition knows, and what only a node knows of its way to an engine, is
//! asked of each node. A node that does not answer is an entry with an error, and no reason to
//! show nothing.

use std::collections::HashMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use cluster::engines::Metered;
use cluster::{NodeId, NodeRow, Owner, PartitionRow, Role};
use serde_json::{Map, Value, json};

use crate::access::principal::Scope;
use crate::access::routes::Routes;
use crate::app::App;
use crate::wire::error::{ApiError, ApiResult};
use node::cluster::engines::OwnedPartition;
use node::cluster::{Cluster, Engines, Node, NodeError};

const OWN: &str = "/api/v1/cluster/own";
const SEAL: &str = "/api/v1/cluster/seal";

/// The routes by which nodes ask each other.
pub fn routes() -> Routes<Arc<App>> {
    Routes::new().get(Scope::ReadAll, OWN, own_state).post(Scope::Node, SEAL, seal_own)
}

async fn own_state(State(app): State<Arc<App>>) -> ApiResult {
    let engines = engines(&app)?;
    Ok(Json(own(&engines)).into_response())
}

async fn seal_own(State(app): State<Arc<App>>) -> ApiResult {
    let (partitions, frames) = engines(&app)?.publish_now();
    let body = Json(json!({ "partitions": partitions, "frames": frames }));
    Ok((StatusCode::ACCEPTED, body).into_response())
}

fn engines(app: &App) -> Result<Arc<Engines>, ApiError> {
    app.engines()
        .ok_or_else(|| ApiError::not_found("this node is not part of a cluster with Kafka"))
}

/// What a node knows itself.
fn own(engines: &Engines) -> Value {
    let now_ns = engines.monotonic_ns();
    let partitions: Vec<Value> =
        engines.all_owned().iter().map(|owned| own_partition(owned, now_ns)).collect();
    let [lines, index] = engines.cache_counts();
    let cache = |counts: cluster::engines::cache::Counts| {
        json!({
            "hits": counts.hits,
            "fetches": counts.fetches,
            "requests": counts.requests,
            "damaged": counts.damaged,
            "bytes": counts.bytes,
        })
    };
    json!({
        "node": engines.info.node.to_string(),
        "own_partitions": partitions,
        "engines": calls(engines),
        "refusal": engines.refusal(),
        "cache": cache(lines),
        "index_cache": cache(index),
    })
}

fn own_partition(owned: &OwnedPartition, now_ns: u64) -> Value {
    let lag = owned.hot.lag(now_ns);
    json!({
        "partition": owned.number,
        "end": owned.hot.end(),
        "read": owned.hot.position(),
        "published": owned.hot.committed(),
        "lag_messages": lag.messages,
        "lag_s": lag.age.as_secs_f64(),
        "unpublished_s": owned.hot.unpublished_age(now_ns).as_secs_f64(),
        "memory_bytes": owned.hot.bytes_unpublished(),
        "duplicates": owned.duplicates(),
        "rejected": owned.rejected(),
        "lost": owned.lost(),
        "trouble": owned.trouble(),
    })
}

/// The calls of this node to each engine.
fn calls(engines: &Engines) -> Value {
    let shown = |(name, metered): (&str, Metered)| {
        let calls = metered.calls.max(1) as f64;
        let shown = json!({
            "calls": metered.calls,
            "errors": metered.errors,
            "mean_ms": metered.time.as_secs_f64() * 1e3 / calls,
            "failing_s": metered.failing.map(|failing| failing.as_secs_f64()),
            "last_error": metered.error,
        });
        (name.to_owned(), shown)
    };
    engines.calls().into_iter().map(shown).collect::<Map<String, Value>>().into()
}

/// What each live node says of itself, by its id.
type Told = HashMap<NodeId, Result<Value, NodeError>>;

/// The nodes, partitions and engines. Blocks while other nodes answer.
pub fn status(engines: &Engines) -> Value {
    let status = engines.status();
    let view = engines.view();
    let told = ask_all(engines, &view.nodes);
    let rows = status.partitions.as_deref();
    let count = |rows: &[PartitionRow]| rows.last().map_or(0, |row| row.partition as usize + 1);
    // Without the catalog, nobody knows of owners: that is no reason to call all of them missing.
    let mut partitions: Vec<Value> = rows.map_or_else(Vec::new, |rows| {
        let ends = status.ends.as_deref();
        let partitions = ends.map_or(0, <[u64]>::len).max(count(rows));
        let of = |number: usize| {
            let found = rows.binary_search_by_key(&number, |row| row.partition as usize);
            let row = found.ok().map(|index| &rows[index]);
            let end = ends.and_then(|ends| ends.get(number)).copied();
            partition(number as u32, row, end, &told, &view.nodes)
        };
        (0..partitions).map(of).collect()
    });
    let follows = engines.follows();
    if follows.is_some() {
        // Nobody owns a partition in a region that follows, and nothing is wrong with that.
        partitions.iter_mut().for_each(|partition| partition["trouble"] = Value::Null);
    }
    let nodes: Vec<Value> =
        view.nodes.iter().map(|row| node_row(row, engines, rows, &told)).collect();
    let unowned = partitions.iter().filter(|partition| partition["owner"].is_null()).count();
    let unowned = if follows.is_some() { 0 } else { unowned };
    let troubled = partitions.iter().filter(|partition| !partition["trouble"].is_null()).count();
    let mut shown = own(engines);
    shown["nodes"] = nodes.into();
    shown["partitions"] = partitions.into();
    // Without the catalog these numbers are not known, and so not 0.
    shown["partitions_unowned"] = rows.map(|_| unowned).into();
    shown["partitions_troubled"] = rows.map(|_| troubled).into();
    shown["segments"] = json!(status.totals.map(|totals| totals.segments));
    shown["segments_bytes"] = json!(status.totals.map(|totals| totals.bytes));
    shown["follows"] = json!(follows.map(|follows| {
        json!({
            "cluster": format!("{:08x}", follows.cluster),
            "at_ns": follows.at_ns.to_string(),
            "lag_s": engines.follow_lag().unwrap_or_default().as_secs_f64(),
            "missing": follows.missing,
        })
    }));
    shown["errors"] = status.errors.into();
    shown
}

fn ask_all(engines: &Engines, rows: &[NodeRow]) -> Told {
    let own_id = engines.info.node;
    let live = rows.iter().filter(|row| row.info.node != own_id && is_live(row, engines));
    let (ids, others): (Vec<NodeId>, Vec<Arc<Node>>) =
        live.filter_map(|row| Some((row.info.node, engines.node(&row.info.address).ok()?))).unzip();
    let answers = Cluster::each(&others, |node| node.call("GET", OWN, &[]));
    let own = (own_id, Ok(own(engines)));
    ids.into_iter().zip(answers).chain([own]).collect()
}

fn is_live(row: &NodeRow, engines: &Engines) -> bool {
    row.silent < engines.config.lease
}

fn node_row(
    row: &NodeRow,
    engines: &Engines,
    partitions: Option<&[PartitionRow]>,
    told: &Told,
) -> Value {
    let roles: Vec<&str> = row.info.roles.iter().copied().map(name).collect();
    let owns = |owner: &Option<Owner>| owner.as_ref().is_some_and(|o| o.node == row.info.node);
    let told = told.get(&row.info.node);
    let answer = told.and_then(|told| told.as_ref().ok());
    json!({
        "node": row.info.node.to_string(),
        "name": row.info.name,
        "address": row.info.address,
        "roles": roles,
        "version": row.info.version,
        "state": if is_live(row, engines) { "ok" } else { "away" },
        "silent_s": row.silent.as_secs_f64(),
        "accepting": row.info.accepting,
        "refusal": answer.map(|answer| &answer["refusal"]),
        "partitions": partitions.map(|rows| rows.iter().filter(|row| owns(&row.owner)).count()),
        "engines": answer.map(|answer| &answer["engines"]),
        "error": told.and_then(|told| told.as_ref().err()).map(|error| &error.message),
    })
}

fn partition(
    number: u32,
    row: Option<&PartitionRow>,
    end: Option<u64>,
    told: &Told,
    nodes: &[NodeRow],
) -> Value {
    let owner = row.and_then(|row| row.owner.as_ref());
    let published = row.map_or(0, |row| row.offset);
    let name = owner.and_then(|owner| {
        nodes.iter().find(|row| row.info.node == owner.node).map(|row| &row.info.name)
    });
    let answer = owner.and_then(|owner| told.get(&owner.node));
    let known = answer.and_then(|answer| answer.as_ref().ok()).and_then(|answer| {
        answer["own_partitions"].as_array()?.iter().find(|own| own["partition"] == number)
    });
    let trouble = match (owner, answer, known) {
        (None, ..) => Some(format!(
            "partition {number}: no store owns it, so its newest lines are missing in answers; start a store"
        )),
        (_, Some(Err(error)), _) => Some(format!("partition {number}: {}", error.message)),
        (_, _, Some(known)) => known["trouble"].as_str().map(str::to_owned),
        // The owner begins, or its lease has just ended.
        (_, _, None) => None,
    };
    let of_owner = |key: &str| known.map(|known| known[key].clone());
    let read = known.and_then(|known| known["read"].as_u64());
    let lag = end.zip(read).map(|(end, read)| end.saturating_sub(read));
    json!({
        "partition": number,
        "owner": owner.map(|owner| owner.node.to_string()),
        "owner_name": name,
        "epoch": owner.map(|owner| owner.epoch),
        "end": end,
        "read": read,
        "published": published,
        "lag_messages": lag,
        // What the owner has not heard of is new.
        "lag_s": lag.and_then(|lag| if lag == 0 { Some(0.into()) } else { of_owner("lag_s") }),
        "unpublished": end.map(|end| end.saturating_sub(published)),
        "unpublished_s": of_owner("unpublished_s"),
        "lost": row.map_or(0, |row| row.lost),
        "trouble": trouble,
    })
}

fn name(role: Role) -> &'static str {
    match role {
        Role::Collector => "collector",
        Role::Store => "store",
        Role::Query => "query",
    }
}

/// Has everything published that stores have read. Blocks while they answer.
///
/// Errors: no store could be told.
pub fn seal(engines: &Engines) -> Result<Value, ApiError> {
    let stores = engines.live(Role::Store);
    let answers = Cluster::each(&stores, |node| node.call("POST", SEAL, &[]));
    let (told, failed): (Vec<_>, Vec<_>) = answers.into_iter().partition(Result::is_ok);
    let errors: Vec<String> =
        failed.into_iter().filter_map(Result::err).map(|error| error.message).collect();
    let told: Vec<Value> = told.into_iter().flatten().collect();
    if told.is_empty() {
        let why = errors.first().map_or("no store heartbeats at present", String::as_str);
        return Err(ApiError::unavailable(format!("nothing is sealed: {why}")));
    }
    let sum = |key: &str| told.iter().filter_map(|answer| answer[key].as_u64()).sum::<u64>();
    let partitions = sum("partitions");
    Ok(json!({
        // Each of them makes a segment, or several.
        "lag_segments": partitions,
        "partitions": partitions,
        "frames": sum("frames"),
        "stores": told.len(),
        "errors": errors,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_shows_what_its_owner_says_and_why_nobody_does() {
        let owner = |node| Owner { node: NodeId(node), address: String::new(), epoch: 3 };
        let row = |node: Option<u32>| PartitionRow {
            partition: 7,
            offset: 100,
            lost: 2,
            owner: node.map(owner),
        };
        let own = json!({ "own_partitions": [
            { "partition": 6, "read": 1 },
            { "partition": 7, "read": 130, "lag_s": 4.5, "unpublished_s": 9.0, "trouble": "slow" },
        ]});
        let away = NodeError::away("store b is away".to_owned());
        let told: Told = [(NodeId(1), Ok(own)), (NodeId(2), Err(away))].into();
        let shown = |row: Option<&PartitionRow>, end| partition(7, row, end, &told, &[]);

        let known = shown(Some(&row(Some(1))), Some(150));
        for (key, expected) in [
            ("owner", json!("00000001")),
            ("end", json!(150)),
            ("read", json!(130)),
            ("published", json!(100)),
            ("lag_messages", json!(20)),
            ("lag_s", json!(4.5)),
            ("unpublished", json!(50)),
            ("lost", json!(2)),
            ("trouble", json!("slow")),
        ] {
            assert_eq!(known[key], expected, "{key}");
        }
        // Nothing is left to read.
        assert_eq!(shown(Some(&row(Some(1))), Some(130))["lag_s"], 0);
        // The log is away.
        let unknown = shown(Some(&row(Some(1))), None);
        assert!(unknown["end"].is_null() && unknown["lag_messages"].is_null(), "{unknown}");
        // Its owner does not answer, has just taken it, or is none.
        let silent = shown(Some(&row(Some(2))), Some(150));
        assert_eq!(silent["trouble"], "partition 7: store b is away");
        let begins = shown(Some(&row(Some(3))), Some(150));
        assert!(begins["trouble"].is_null() && begins["read"].is_null(), "{begins}");
        for row in [Some(row(None)), None] {
            let unowned = shown(row.as_ref(), Some(150));
            assert!(unowned["owner"].is_null(), "{unowned}");
            assert!(unowned["trouble"].as_str().unwrap().contains("no store owns it"));
        }
    }
}
