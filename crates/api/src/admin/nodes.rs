//! `/api/v1/nodes` of a server: the collectors that deliver to it, or, in a cluster, the partitions
//! that it delivers to.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use collector::node::{CollectorStatus, Forward};
use serde_json::{Value, json};

use crate::access::principal::Scope;
use crate::access::routes::Routes;
use crate::admin::forwarding::{self, id};
use crate::app::App;
use crate::wire::error::ApiResult;

/// The routes of this file.
pub fn routes() -> Routes<Arc<App>> {
    Routes::new().get(Scope::ReadAll, "/api/v1/nodes", nodes)
}

async fn nodes(State(app): State<Arc<App>>) -> ApiResult {
    let pipeline = app.pipeline()?;
    if let Some(forwarder) = &pipeline.forwarder {
        let status = forwarder.status();
        let stores: Vec<Value> = status.stores.iter().map(forwarding::store).collect();
        return Ok(Json(json!({
            "node": id(pipeline.store().node()),
            "collectors": [],
            "waiting_bytes": status.waiting_bytes,
            "spool": forwarding::spool(&status),
            "stores": stores,
        }))
        .into_response());
    }
    Ok(body(pipeline.store().node(), &pipeline.sources().collectors()))
}

fn body(node: u32, collectors: &[CollectorStatus]) -> Response {
    let collectors: Vec<Value> = collectors.iter().map(collector).collect();
    Json(json!({ "node": id(node), "collectors": collectors })).into_response()
}

fn collector(collector: &CollectorStatus) -> Value {
    json!({
        "node": id(collector.node),
        "address": collector.address.to_string(),
        "connections": collector.connections,
        "heard_s": collector.heard.elapsed().as_secs(),
        "frames": collector.frames,
        "lines": collector.lines,
        "bytes": collector.bytes,
        "duplicates": collector.duplicates,
    })
}
