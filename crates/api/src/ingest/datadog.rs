//! The intake of Datadog's logs: `/api/v2/logs` and its former path `/v1/input`; also below
//! `/insert/datadog`.
//!
//! Each log becomes an object (see [`collector::body::datadog`]) and from there on is a line like
//! any other; `status` is its level, or else what [`LEVEL_FIELDS`] has. The answer is sent when all
//! logs are durable.
//!
//! Left out: metrics, traces and events of Datadog, which have other paths.

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use collector::body::datadog::{Defaults, Logs, PARAMETERS, STREAM_FIELDS};
use serde_json::json;

use crate::access::principal::Scope;
use crate::access::routes::Routes;
use crate::ingest::{Inserting, Request, WholeBody, text_lines};
use crate::wire::error::{ApiError, ApiResult};

/// Limit of a body before and after decompression; Datadog's is 5 MB.
///
/// limits.md, Lines on their way in: a request of a Datadog sender | {} | it is refused with 413
/// before a log is kept
const BODY_BYTES_MAX: usize = 16 << 20;
/// The prefixes of the paths.
const PREFIXES: [&str; 2] = ["", "/insert/datadog"];
/// Keys of the level: Datadog's own, and those that it takes for it where that is missing.
const LEVEL_FIELDS: [&str; 7] =
    ["status", "severity", "level", "syslog.severity", "log.level", "levelname", "lvl"];

/// The routes of this file.
pub fn routes() -> Routes<Arc<Inserting>> {
    PREFIXES.into_iter().fold(Routes::new(), |router, prefix| {
        router
            .post(Scope::Ingest, &format!("{prefix}/api/v2/logs"), logs)
            .post(Scope::Ingest, &format!("{prefix}/v1/input"), logs)
            .get(Scope::Ingest, &format!("{prefix}/api/v1/validate"), validate)
    })
}

/// Says whether the key is valid, which the gate has decided.
async fn validate() -> Response {
    Json(json!({ "valid": true })).into_response()
}

async fn logs(State(to): State<Arc<Inserting>>, request: Request, body: Body) -> Response {
    match insert(&to, &request, body).await {
        Ok(()) => to.acknowledged((StatusCode::ACCEPTED, Json(json!({}))).into_response()),
        Err(error) => refusal(error),
    }
}

/// An error in Datadog's form, with the status and headers of ours.
fn refusal(error: ApiError) -> Response {
    let status = error.status();
    let title = status.canonical_reason().unwrap_or_default();
    let body = json!({ "errors": [{
        "status": status.as_str(), "title": title, "detail": error.to_string(),
    }] });
    error.in_form(body)
}

async fn insert(to: &Inserting, request: &Request, body: Body) -> ApiResult<()> {
    request.check_lengths(&PARAMETERS)?;
    let mut body = WholeBody::enter(to, request, body).await?;
    let taken = take(request, &mut body).await;
    body.end(taken).await.map(drop)
}

async fn take(request: &Request, body: &mut WholeBody<'_>) -> ApiResult<()> {
    body.default_fields(&STREAM_FIELDS, &LEVEL_FIELDS);
    let content = body.content(BODY_BYTES_MAX).await?;
    let defaults = Defaults::of(|name| request.params.get(name));
    if request.media_type() == "text/plain" {
        let mut lines = text_lines(&content);
        let write_next = |out: &mut Vec<u8>| {
            let line = lines.next();
            line.inspect(|line| defaults.write_raw(line, out)).is_some()
        };
        return body.take_lines(write_next).await;
    }
    let mut logs = Logs::of(&content);
    let taken = body.take_each(|out| logs.write_next(&defaults, out)).await?;
    taken.map_err(|error| ApiError::bad_request(error.to_string()))
}
