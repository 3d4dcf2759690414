//! `/api/v1/dashboards`: the dashboards of the page.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::IntoResponse;
use serde_json::{Value, json};

use crate::http::App;
use crate::http::access::audit;
use crate::http::access::principal::{Caller, Scope};
use crate::http::access::routes::Routes;
use crate::http::programs::hand_on::to_their_node;
use crate::http::wire::error::{ApiError, ApiResult};
use crate::http::wire::params::ParamsAndText;
use crate::saved_views::dashboards::{DashboardError, Dashboards};

/// The routes of this file.
pub fn routes() -> Routes<Arc<App>> {
    Routes::new()
        .within(to_their_node)
        .get(Scope::Read, "/api/v1/dashboards", list)
        .get(Scope::Read, "/api/v1/dashboards/{id}", one)
        .put(Scope::Operate, "/api/v1/dashboards/{id}", save)
        .delete(Scope::Operate, "/api/v1/dashboards/{id}", delete)
}

async fn list(State(app): State<Arc<App>>) -> ApiResult {
    let documents = with(&app, Dashboards::list).await?;
    let shown = documents.iter().map(|document| {
        json!({
            "id": document.get("id"),
            "title": document.get("title"),
            "version": document.get("version"),
            "provided": document.get("provided").is_some(),
        })
    });
    Ok(Json(json!({ "dashboards": shown.collect::<Vec<Value>>() })).into_response())
}

async fn one(State(app): State<Arc<App>>, Path(id): Path<String>) -> ApiResult {
    Ok(Json(with(&app, move |dashboards| dashboards.get(&id)).await?).into_response())
}

async fn save(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(id): Path<String>,
    ParamsAndText(_, body): ParamsAndText,
) -> ApiResult {
    let of = id.clone();
    let saved = with(&app, move |dashboards| dashboards.save(&of, &body)).await?;
    audit::note(&caller, &format!("dashboard {id} saved"), "");
    Ok(Json(saved).into_response())
}

async fn delete(State(app): State<Arc<App>>, caller: Caller, Path(id): Path<String>) -> ApiResult {
    let of = id.clone();
    with(&app, move |dashboards| dashboards.delete(&of)).await?;
    audit::note(&caller, &format!("dashboard {id} deleted"), "");
    Ok(Json(json!({ "id": id })).into_response())
}

/// Reads or changes dashboards on a thread that may block.
async fn with<T: Send + 'static>(
    app: &App,
    work: impl FnOnce(&Dashboards) -> Result<T, DashboardError> + Send + 'static,
) -> ApiResult<T> {
    let dashboards = Arc::clone(&app.views()?.dashboards);
    let done = tokio::task::spawn_blocking(move || work(&dashboards)).await;
    done.map_err(|error| ApiError::internal(error.to_string()))?.map_err(|error| {
        let message = error.to_string();
        match error {
            DashboardError::NotFound(_) => ApiError::not_found(message),
            DashboardError::Invalid(_) => ApiError::bad_request(message),
            DashboardError::Changed { .. } | DashboardError::Full | DashboardError::Provided(_) => {
                ApiError::new(StatusCode::CONFLICT, message)
            }
            DashboardError::Kept(_) => ApiError::internal(message),
        }
    })
}
