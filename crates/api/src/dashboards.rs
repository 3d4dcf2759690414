//! `/api/v1/dashboards`: the dashboards of the page, of all or of a tenant.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use axum::response::IntoResponse;
use serde_json::{Value, json};

use crate::access::audit;
use crate::access::params::ParamsAndText;
use crate::access::principal::{Caller, Scope};
use crate::access::routes::Routes;
use crate::app::App;
use crate::hand_on::to_their_node;
use crate::wire::error::ApiResult;

/// The routes of this file.
pub fn routes() -> Routes<Arc<App>> {
    Routes::new()
        .within(to_their_node)
        .get(Scope::Read, "/api/v1/dashboards", list)
        .get(Scope::Read, "/api/v1/dashboards/{id}", one)
        .put(Scope::Operate, "/api/v1/dashboards/{id}", save)
        .delete(Scope::Operate, "/api/v1/dashboards/{id}", delete)
}

async fn list(State(app): State<Arc<App>>, caller: Caller) -> ApiResult {
    let documents = app.with_views(&caller, |views| views.dashboards.list()).await?;
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

async fn one(State(app): State<Arc<App>>, caller: Caller, Path(id): Path<String>) -> ApiResult {
    Ok(Json(app.with_views(&caller, move |views| views.dashboards.get(&id)).await?).into_response())
}

async fn save(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(id): Path<String>,
    ParamsAndText(_, body): ParamsAndText,
) -> ApiResult {
    let of = id.clone();
    let saved = app.with_views(&caller, move |views| views.dashboards.save(&of, &body)).await?;
    audit::note(&caller, &format!("dashboard {id} saved"), "");
    Ok(Json(saved).into_response())
}

async fn delete(State(app): State<Arc<App>>, caller: Caller, Path(id): Path<String>) -> ApiResult {
    let of = id.clone();
    app.with_views(&caller, move |views| views.dashboards.delete(&of)).await?;
    audit::note(&caller, &format!("dashboard {id} deleted"), "");
    Ok(Json(json!({ "id": id })).into_response())
}
