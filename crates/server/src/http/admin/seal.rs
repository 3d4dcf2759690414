//! `POST /api/v1/seal`: closes the segment that is being written, so that it is sealed without waiting
//! until it is full or old.
//!
//! Sealing itself stays in the background: the answer says how many segments wait for it, and
//! `store.sealing.lag_segments` of `/api/v1/status` is 0 once all are sealed. Lines that arrive after
//! the call go into a new segment. Called often it makes many small segments, which are merged later.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::extract::{ConnectInfo, State};
use axum::http::StatusCode;
use axum::response::IntoResponse;
use axum::routing::post;
use axum::{Json, Router};
use serde_json::json;

use crate::http::App;
use crate::http::access::audit;
use crate::http::wire::error::{ApiError, ApiResult};
use crate::http::wire::params::Params;

/// The routes of this file.
pub fn routes() -> Router<Arc<App>> {
    Router::new().route("/api/v1/seal", post(seal))
}

async fn seal(
    State(app): State<Arc<App>>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    _: Params,
) -> ApiResult {
    let pipeline = app.pipeline()?;
    let work = move || {
        pipeline.store().roll();
        pipeline.store().stats().sealing.lag_segments
    };
    let waiting = tokio::task::spawn_blocking(work).await;
    let waiting = waiting.map_err(|error| ApiError::internal(error.to_string()))?;
    audit::note(peer, "the segment being written is closed", "");
    let body = Json(json!({ "lag_segments": waiting }));
    Ok((StatusCode::ACCEPTED, body).into_response())
}
