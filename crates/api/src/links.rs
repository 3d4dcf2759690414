//! `/api/v1/links`: short links to views of the page.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use axum::response::IntoResponse;
use serde_json::json;

use crate::access::params::ParamsAndText;
use crate::access::principal::{Caller, Scope};
use crate::access::routes::Routes;
use crate::app::App;
use crate::hand_on::to_their_node;
use crate::wire::error::ApiResult;

/// The routes of this file.
pub fn routes() -> Routes<Arc<App>> {
    Routes::new().within(to_their_node).post(Scope::Read, "/api/v1/links", save).get(
        Scope::Read,
        "/api/v1/links/{id}",
        one,
    )
}

/// Takes the address as the body.
async fn save(
    State(app): State<Arc<App>>,
    caller: Caller,
    ParamsAndText(_, address): ParamsAndText,
) -> ApiResult {
    let id = app.with_views(&caller, move |views| views.links.save(&address)).await?;
    Ok(Json(json!({ "id": id })).into_response())
}

async fn one(State(app): State<Arc<App>>, caller: Caller, Path(id): Path<String>) -> ApiResult {
    let address = app.with_views(&caller, move |views| views.links.get(&id)).await?;
    Ok(Json(json!({ "address": address })).into_response())
}
