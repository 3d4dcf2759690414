//! `explain`: what a query would do, without running it.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::{ConnectInfo, State};
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use axum::routing::get;

use crate::http::App;
use crate::http::queries::ask::{Asked, answer};
use crate::http::wire::error::{ApiError, ApiResult};
use crate::http::wire::params::Params;

/// The route of this file.
pub fn routes() -> Router<Arc<App>> {
    Router::new().route("/select/logsql/explain", get(explain).post(explain))
}

/// Takes what `query` takes, so that the plan is that of the same request; `format` is that of the
/// plan. It waits in the queue like a query, as it lists the units of the store.
async fn explain(
    State(app): State<Arc<App>>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    params: Params,
) -> ApiResult {
    let now_ns = crate::http::now_ns();
    let query = params.query(params.query_time_ns(now_ns)?)?;
    let mut asked = Asked::of_query(&app, "explain", &params, peer, now_ns)?;
    asked.context.limit = params.limit("limit")?;
    asked.context.offset = params.number("offset")?.unwrap_or(0);
    asked.context.include = params.include()?;
    let is_json = match params.get("format") {
        None | Some("text") => false,
        Some("json") => true,
        Some(other) => {
            return Err(ApiError::bad_request(format!("format: '{other}' is not text or json")));
        }
    };
    let explanation =
        answer(asked, move |running| query::explain(&query, running.source(), &running.context));
    let explanation = explanation.await?;
    if !is_json {
        let text = ([(CONTENT_TYPE, "text/plain; charset=utf-8")], explanation.to_string());
        return Ok(text.into_response());
    }
    let mut json = Vec::new();
    explanation.write_json(&mut json);
    Ok(([(CONTENT_TYPE, "application/json")], json).into_response())
}
