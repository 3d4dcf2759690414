//! `/api/v1/export`: every row of a query, in the order of time, as lines, JSON, CSV or Parquet.
//!
//! An export is an entry of the queue like any query and can be paused and cancelled there. It has
//! no limit of time or rows; its memory is limited like that of any query. With `cursors=1` the
//! response is split into pieces, each with a cursor to resume behind it ([`Pieces`]).

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::header::CONTENT_DISPOSITION;
use axum::http::{HeaderValue, StatusCode};
use query::{EXPORT, Limit, Query, Restriction};

use crate::access::params::Params;
use crate::access::principal::Caller;
use crate::access::routes::Routes;
use crate::app::App;
use crate::queries::run::PendingQuery;
use crate::queries::stream::{Pieces, stream};
use crate::wire::error::wrong_query;
use crate::wire::error::{ApiError, ApiResult};
use node::queries::export::{self, Cursor, Format};

/// The routes of this file.
pub fn routes() -> Routes<Arc<App>> {
    Routes::new().query("/api/v1/export", rows)
}

async fn rows(State(app): State<Arc<App>>, caller: Caller, params: Params) -> ApiResult {
    let now_ns = crate::wire::clock::now_ns();
    let format = params.required("format")?;
    let format = Format::named(format).ok_or_else(|| {
        ApiError::bad_request(format!("format: '{format}' is not raw, jsonl, csv or parquet"))
    })?;
    let cursor = params.get("cursor").map(str::parse::<Cursor>).transpose();
    let cursor = cursor.map_err(|error| ApiError::bad_request(format!("cursor: {error}")))?;
    let resumes = cursor.is_some();
    let mut cursor = cursor.unwrap_or_default();
    let now_ns = *cursor.now_ns.get_or_insert(now_ns);
    let text = params.get("query").unwrap_or("*");
    let query = params.parse_query(text, now_ns).map_err(wrong_query)?;
    let mut pending = PendingQuery::new(&app, EXPORT, text, &caller)?;
    let in_pieces = params.flag("cursors");
    if resumes || in_pieces {
        check_resumable(&query, format)?;
    }
    if cursor.order.within.is_none() {
        cursor.order.within = app.lines(pending.pipeline()).lines_now();
    }
    pending.context.range = params.range(now_ns)?;
    pending.context.restriction = params.restriction(now_ns)?;
    if format == Format::Raw {
        check_raw(&pending.context.restriction)?;
    }
    pending.allow_partial(&params, &caller);
    pending.context.order = Some(cursor.order.clone());
    pending.context.include = export::fields(format, params.include()?);
    let limits = &mut pending.context.limits;
    (limits.run_time, limits.rows_max) = (Duration::MAX, u64::MAX);
    // Those of the server are for queries that somebody waits for; those of a user are for all.
    caller.principal.limits.lower(limits);
    if let Some(timeout_ns) = params.duration_ns("timeout")? {
        limits.run_time = limits.run_time.min(Duration::from_nanos(timeout_ns as u64));
    }
    let pieces = Pieces { framed: in_pieces, cursor, resumes };
    let mut response = stream(pending, query, format, Some(pieces)).await?;
    if !in_pieces {
        let name = match format {
            Format::Raw => "attachment; filename=\"loginson.log\"",
            Format::Jsonl => "attachment; filename=\"loginson.jsonl\"",
            Format::Csv => "attachment; filename=\"loginson.csv\"",
            Format::Parquet => "attachment; filename=\"loginson.parquet\"",
        };
        response.headers_mut().insert(CONTENT_DISPOSITION, HeaderValue::from_static(name));
    }
    Ok(response)
}

/// Refuses lines as they were sent to callers that do not see all of their fields.
pub(crate) fn check_raw(restriction: &Restriction) -> ApiResult<()> {
    match restriction.hidden {
        None => Ok(()),
        Some(_) => Err(ApiError::new(
            StatusCode::FORBIDDEN,
            "lines as they were sent hold fields that are hidden from you; choose another format",
        )),
    }
}

/// Refuses exports that cannot be resumed.
fn check_resumable(query: &Query, format: Format) -> ApiResult<()> {
    if format == Format::Parquet {
        return Err(ApiError::bad_request(
            "a Parquet export cannot be resumed; use format raw, jsonl or csv, or leave cursor and cursors out",
        ));
    }
    match query.pipes().iter().find(|pipe| !pipe.is_row_wise()) {
        None => Ok(()),
        Some(pipe) if pipe.get::<Limit>().is_some() => Err(ApiError::bad_request(
            "an export with a limit cannot be resumed; leave the pipe limit out, or cursor and cursors",
        )),
        Some(pipe) => Err(ApiError::bad_request(format!(
            "the rows of \"{pipe}\" are not in the order of time, so the export cannot be resumed; leave cursor and \
             cursors out"
        ))),
    }
}
