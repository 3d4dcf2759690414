//! `/api/v1/lucene`: what a text in Lucene's syntax, as people type it, is in LogsQL.
//!
//! Nothing is run. The page shows the query that it became, and runs that if the user wants it.

use std::sync::Arc;

use axum::Json;
use axum::response::IntoResponse;
use elastic::lucene::to_logsql;
use serde_json::json;

use crate::access::params::Params;
use crate::access::routes::Routes;
use crate::app::App;
use crate::wire::error::{ApiError, ApiResult};

/// The route of this file.
pub fn routes() -> Routes<Arc<App>> {
    Routes::new().query("/api/v1/lucene", lucene)
}

async fn lucene(params: Params) -> ApiResult {
    let text = params.required("query")?;
    let filter = to_logsql(text, crate::wire::clock::now_ns()).map_err(|error| {
        ApiError::bad_request(error.to_string())
            .with("position", error.position)
            .with("expected", Vec::<&str>::new())
            .with("query", text)
    })?;
    Ok(Json(json!({ "logsql": filter })).into_response())
}
