//! `/api/v1/cluster`: the stores that this node answers for, or the nodes and partitions of a
//! cluster on engines ([`super::engines`]).

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use serde_json::{Value, json};

use crate::access::principal::Scope;
use crate::access::routes::Routes;
use crate::app::App;
use crate::wire::error::{ApiError, ApiResult};
use node::cluster::{Cluster, Copy, StoreLacks};

/// The route of this file.
pub fn routes() -> Routes<Arc<App>> {
    Routes::new().get(Scope::ReadAll, "/api/v1/cluster", status)
}

async fn status(State(app): State<Arc<App>>) -> ApiResult {
    let Some(cluster) = app.cluster() else {
        return Err(ApiError::not_found(
            "this node answers for its own lines alone; [stores] in its configuration names others",
        ));
    };
    if let Some(engines) = cluster.engines().cloned() {
        let shown = tokio::task::spawn_blocking(move || super::engines::status(&engines)).await;
        let shown = shown.map_err(|error| ApiError::internal(error.to_string()))?;
        return Ok(Json(shown).into_response());
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
