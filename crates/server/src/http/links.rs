//! `/api/v1/links`: short links to views of the page.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use axum::response::IntoResponse;
use serde_json::json;

use crate::http::App;
use crate::http::access::principal::Scope;
use crate::http::access::routes::Routes;
use crate::http::programs::hand_on::to_their_node;
use crate::http::wire::error::{ApiError, ApiResult};
use crate::http::wire::params::ParamsAndText;
use crate::saved_views::links::{LinkError, Links};

/// The routes of this file.
pub fn routes() -> Routes<Arc<App>> {
    Routes::new().within(to_their_node).post(Scope::Read, "/api/v1/links", save).get(
        Scope::Read,
        "/api/v1/links/{id}",
        one,
    )
}

/// Takes the address as the body.
async fn save(State(app): State<Arc<App>>, ParamsAndText(_, address): ParamsAndText) -> ApiResult {
    let id = with(&app, move |links| links.save(&address)).await?;
    Ok(Json(json!({ "id": id })).into_response())
}

async fn one(State(app): State<Arc<App>>, Path(id): Path<String>) -> ApiResult {
    let address = with(&app, move |links| links.get(&id)).await?;
    Ok(Json(json!({ "address": address })).into_response())
}

/// Reads or changes links on a thread that may block.
async fn with<T: Send + 'static>(
    app: &App,
    work: impl FnOnce(&Links) -> Result<T, LinkError> + Send + 'static,
) -> ApiResult<T> {
    let links = Arc::clone(&app.views()?.links);
    let done = tokio::task::spawn_blocking(move || work(&links)).await;
    done.map_err(|error| ApiError::internal(error.to_string()))?.map_err(|error| {
        let message = error.to_string();
        match error {
            LinkError::NotFound(_) => ApiError::not_found(message),
            LinkError::Invalid(_) => ApiError::bad_request(message),
            LinkError::Kept(_) => ApiError::internal(message),
        }
    })
}
