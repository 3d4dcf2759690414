//! `explain`: the plan of a query, without running it.

use std::sync::Arc;

use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;

use crate::access::params::Params;
use crate::access::principal::Caller;
use crate::access::routes::Routes;
use crate::app::App;
use crate::queries::run::{PendingQuery, answer};
use crate::wire::error::{ApiError, ApiResult};

/// The route of this file.
pub fn routes() -> Routes<Arc<App>> {
    Routes::new().query("/select/logsql/explain", explain)
}

/// Takes the parameters of `query`, so that the plan is that of the same request; `format` is the
/// format of the plan. It waits in the queue like a query, because it lists the units of the store.
async fn explain(State(app): State<Arc<App>>, caller: Caller, params: Params) -> ApiResult {
    let now_ns = crate::wire::clock::now_ns();
    let query = params.query(params.query_time_ns(now_ns)?)?;
    let mut pending = PendingQuery::of_query(&app, "explain", &params, &caller, now_ns)?;
    pending.context.limit = params.limit("limit")?;
    pending.context.offset = params.number("offset")?.unwrap_or(0);
    pending.context.include = params.include()?;
    let is_json = match params.get("format") {
        None | Some("text") => false,
        Some("json") => true,
        Some(other) => {
            return Err(ApiError::bad_request(format!("format: '{other}' is not text or json")));
        }
    };
    let explanation =
        answer(pending, move |running| query::explain(&query, running.source(), &running.context));
    let explanation = explanation.await?;
    if !is_json {
        let text = ([(CONTENT_TYPE, "text/plain; charset=utf-8")], explanation.to_string());
        return Ok(text.into_response());
    }
    let mut json = Vec::new();
    explanation.write_json(&mut json);
    Ok(([(CONTENT_TYPE, "application/json")], json).into_response())
}
