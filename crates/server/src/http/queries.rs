//! `/api/v1/queries`: the queue, to look at and to cancel in.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use query::time::format_time;
use query::{Cancel, QueryInfo};
use serde_json::{Value, json};

use super::App;
use super::error::{ApiError, ApiResult};

/// The routes of this file.
pub fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/api/v1/queries", get(list))
        .route("/api/v1/queries/{id}", get(one).delete(cancel))
}

async fn list(State(app): State<Arc<App>>) -> Response {
    let queries: Vec<Value> = app.queue.list().iter().map(entry).collect();
    let limits = &app.config.query;
    let body = json!({
        "queries": queries,
        "limits": {
            "concurrent": limits.queue.concurrent_max,
            "waiting": limits.queue.waiting_max,
            "wait_s": limits.queue.wait_max.as_secs(),
            "tails": limits.queue.tails_max,
            "run_s": limits.limits.run_time.as_secs(),
            "memory_bytes": limits.limits.memory_bytes_max,
            "rows": limits.limits.rows_max,
        },
    });
    Json(body).into_response()
}

async fn one(State(app): State<Arc<App>>, Path(id): Path<String>) -> ApiResult {
    let found = number(&id).and_then(|number| app.queue.get(number));
    found.map(|info| Json(entry(&info)).into_response()).ok_or_else(|| unknown(&id))
}

async fn cancel(State(app): State<Arc<App>>, Path(id): Path<String>) -> ApiResult {
    let state = match number(&id).map(|number| app.queue.cancel(number)) {
        Some(Cancel::Cancelled) => "cancelled",
        Some(Cancel::Ended(state)) => state.name(),
        Some(Cancel::Unknown) | None => return Err(unknown(&id)),
    };
    Ok(Json(json!({ "id": id, "state": state })).into_response())
}

fn number(id: &str) -> Option<u64> {
    id.parse().ok()
}

fn unknown(id: &str) -> ApiError {
    ApiError::not_found(format!(
        "there is no query {id}; the list of those that run or ended lately is at /api/v1/queries"
    ))
}

fn entry(info: &QueryInfo) -> Value {
    let ms = |duration: Duration| duration.as_millis() as u64;
    let started = info.started.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    json!({
        "id": info.id.to_string(),
        "kind": info.kind,
        "query": info.query,
        "state": info.state.name(),
        "started": format_time((started.as_millis() as i64).saturating_mul(1_000_000)),
        "wait_ms": ms(info.wait),
        "run_ms": ms(info.run),
        "progress": (info.progress * 1000.0).round() / 1000.0,
        "bytes_scanned": info.bytes_scanned,
        "lines_scanned": info.lines_scanned,
        "rows": info.rows,
        "memory_bytes": info.memory_bytes,
        "error": info.error,
        "client": info.client,
    })
}
