//! `/api/v1/export`: every row of a query, the oldest first, as lines, JSON or Parquet.
//!
//! An export is an entry of the queue like any query and can be cancelled there. It may take as long and give as many rows as it
//! needs; what its pipes hold in memory is limited as always.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{ConnectInfo, State};
use axum::http::HeaderValue;
use axum::http::header::CONTENT_DISPOSITION;
use axum::routing::get;
use query::Query;

use super::App;
use super::ask::{Asked, wrong_query};
use super::error::{ApiError, ApiResult};
use super::params::Params;
use super::stream::stream;
use crate::export::{self, Format};

/// The routes of this file.
pub fn routes() -> Router<Arc<App>> {
    Router::new().route("/api/v1/export", get(rows).post(rows))
}

async fn rows(
    State(app): State<Arc<App>>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    params: Params,
) -> ApiResult {
    let now_ns = super::now_ns();
    let text = params.get("query").unwrap_or("*");
    let query = Query::parse(text, now_ns).map_err(wrong_query)?;
    let format = params.required("format")?;
    let format = Format::named(format).ok_or_else(|| {
        ApiError::bad_request(format!("format: '{format}' is not raw, jsonl or parquet"))
    })?;
    let mut asked = Asked::new(&app, "export", text, peer)?;
    asked.context.range = params.range(now_ns)?;
    asked.context.oldest_first = true;
    asked.context.include = export::fields(format, params.include()?);
    asked.context.limits.run_time = Duration::MAX;
    asked.context.limits.rows_max = u64::MAX;
    let mut response = stream(asked, query, format).await?;
    let name = match format {
        Format::Raw => "attachment; filename=\"loginson.log\"",
        Format::Jsonl => "attachment; filename=\"loginson.jsonl\"",
        Format::Parquet => "attachment; filename=\"loginson.parquet\"",
    };
    response.headers_mut().insert(CONTENT_DISPOSITION, HeaderValue::from_static(name));
    Ok(response)
}
