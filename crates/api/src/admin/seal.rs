//! `POST /api/v1/seal`: closes the active segment, so that it is sealed before it is full or old.
//!
//! Sealing itself stays in the background: the response says how many segments wait for it, and
//! `store.sealing.lag_segments` of `/api/v1/status` is 0 once all are sealed. Lines that arrive
//! after the call go into a new segment. Frequent calls make many small segments, which are merged
//! later.
//!
//! In a cluster on engines all stores publish what they have read. The response says how many
//! partitions and frames wait for that; `unpublished` of `/api/v1/cluster` tells when it is done.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use serde_json::json;

use crate::access::audit;
use crate::access::params::Params;
use crate::access::principal::{Caller, Scope};
use crate::access::routes::Routes;
use crate::app::App;
use crate::wire::error::{ApiError, ApiResult};

/// The routes of this file.
pub fn routes() -> Routes<Arc<App>> {
    Routes::new().post(Scope::Operate, "/api/v1/seal", seal)
}

async fn seal(State(app): State<Arc<App>>, caller: Caller, _: Params) -> ApiResult {
    let pipeline = app.pipeline()?;
    if let Some(engines) = app.engines() {
        let sealed = tokio::task::spawn_blocking(move || super::engines::seal(&engines)).await;
        let sealed = sealed.map_err(|error| ApiError::internal(error.to_string()))??;
        audit::note(&caller, "publication of all partitions asked for", "");
        return Ok((StatusCode::ACCEPTED, Json(sealed)).into_response());
    }
    let work = move || {
        pipeline.store().roll();
        pipeline.store().stats().sealing.lag_segments
    };
    let waiting = tokio::task::spawn_blocking(work).await;
    let waiting = waiting.map_err(|error| ApiError::internal(error.to_string()))?;
    audit::note(&caller, "active segment closed", "");
    let body = Json(json!({ "lag_segments": waiting }));
    Ok((StatusCode::ACCEPTED, body).into_response())
}
