//! Changes of the states of alerts, as they were stored.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use serde_json::json;

use crate::access::params::Params;
use crate::access::principal::Caller;
use crate::app::App;
use crate::queries::run::{PendingQuery, answer};
use crate::wire::error::{ApiError, ApiResult};
use node::alerts::rows;

/// Changes without the parameter `limit`, and the most with it.
pub const CHANGES_DEFAULT: usize = 1_000;
/// limits.md, Alerts: changes of an answer | 1,000, with `limit` {} | older ones are left out
pub const CHANGES_MAX: usize = 10_000;
/// The range without `start`: the last week.
const RANGE_DEFAULT_NS: i64 = 7 * 86_400_000_000_000;

pub async fn list(State(app): State<Arc<App>>, caller: Caller, params: Params) -> ApiResult {
    let now_ns = crate::wire::clock::now_ns();
    let mut range = params.range(now_ns)?;
    if params.get("start").is_none() {
        range.start_ns = range.end_ns.min(now_ns).saturating_sub(RANGE_DEFAULT_NS);
    }
    let limit = params.limit("limit")?.unwrap_or(CHANGES_DEFAULT);
    if limit > CHANGES_MAX {
        return Err(ApiError::bad_request(format!("limit must be at most {CHANGES_MAX}")));
    }
    let rule = params.get("rule").map(str::to_owned);
    let text = rule.clone().unwrap_or_default();
    let mut pending = PendingQuery::new(&app, "alerts", &text, &caller)?;
    pending.context.range = range;
    pending.context.restriction = params.restriction(now_ns)?;
    let found = answer(pending, move |running| {
        rows::read(running.source(), &running.context, rule.as_deref(), limit)
    });
    Ok(Json(json!({ "changes": found.await? })).into_response())
}
