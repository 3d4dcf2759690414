//! `POST /api/v1/config/reload`: reads the settings again.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use serde_json::json;

use crate::access::audit;
use crate::access::principal::{Caller, Scope};
use crate::access::routes::Routes;
use crate::app::App;
use crate::wire::error::{ApiError, ApiResult};

/// The route of this file.
pub fn routes() -> Routes<Arc<App>> {
    Routes::new().post(Scope::Admin, "/api/v1/config/reload", reload)
}

async fn reload(State(app): State<Arc<App>>, caller: Caller) -> ApiResult {
    audit::note(&caller, "settings reloaded", "");
    let reloaded = tokio::task::spawn_blocking(move || app.reload()).await;
    let reloaded = reloaded.map_err(|error| ApiError::internal(error.to_string()))??;
    let answer = json!({ "changed": reloaded.changed, "needs_restart": reloaded.needs_restart });
    Ok(Json(answer).into_response())
}
