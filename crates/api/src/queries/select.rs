//! Everything under `/select/logsql/`: one file for each group of calls, `query` here.

mod counts;
mod explain;
mod several;
mod stats;
mod tail;

use std::sync::Arc;

use axum::extract::State;

use crate::access::params::Params;
use crate::access::principal::Caller;
use crate::access::routes::Routes;
use crate::app::App;
use crate::queries::export::check_raw;
use crate::queries::run::PendingQuery;
use crate::queries::stream::stream;
use crate::wire::error::{ApiError, ApiResult};
use node::queries::export::Format;

/// The routes below `/select/logsql/`.
pub fn routes() -> Routes<Arc<App>> {
    Routes::new()
        .query("/select/logsql/query", query)
        .merge(counts::routes())
        .merge(explain::routes())
        .merge(several::routes())
        .merge(stats::routes())
        .merge(tail::routes())
}

async fn query(State(app): State<Arc<App>>, caller: Caller, params: Params) -> ApiResult {
    let now_ns = crate::wire::clock::now_ns();
    let query = params.query(params.query_time_ns(now_ns)?)?;
    let mut pending = PendingQuery::of_query(&app, "query", &params, &caller, now_ns)?;
    pending.context.limit = params.limit("limit")?;
    pending.context.offset = params.number("offset")?.unwrap_or(0);
    pending.context.include = params.include()?;
    let format = match params.get("format") {
        None | Some("json") => Format::Jsonl,
        Some("raw") => Format::Raw,
        Some("csv") => Format::Csv,
        Some(other) => {
            return Err(ApiError::bad_request(format!(
                "format: '{other}' is not json, csv or raw"
            )));
        }
    };
    if format == Format::Raw {
        check_raw(&pending.context.restriction)?;
        pending.context.include = vec!["_line".into()];
    }
    stream(pending, query, format, None).await
}
