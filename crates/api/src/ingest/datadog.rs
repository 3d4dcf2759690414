//! The intake of Datadog's logs: `/api/v2/logs` and its former path `/v1/input`; also below
//! `/insert/datadog`.
//!
//! Each log becomes an object (see [`collector::body::datadog`]) and from there on is a line like
//! any other; `status` is its level. The answer is sent when all logs are durable.
//!
//! Left out: metrics, traces and events of Datadog, which have other paths.

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use collector::body::datadog::{Defaults, Logs, NoLog, PARAMETERS, STREAM_FIELDS};
use serde_json::json;

use crate::access::principal::Scope;
use crate::access::routes::Routes;
use crate::ingest::{Inserting, Request, WholeBody};
use crate::wire::error::{ApiError, ApiResult};

/// Limit of a body before and after decompression; Datadog's is 5 MB.
///
/// limits.md, Lines on their way in: a request of a Datadog sender | {} | it is refused with 413
/// before a log is kept
const BODY_BYTES_MAX: usize = 16 << 20;
/// Limit of a parameter, which is written with each log.
const PARAMETER_BYTES_MAX: usize = 1024;
/// Bytes of lines that are handed on at once.
const PIECE_BYTES: usize = 256 << 10;
/// The prefixes of the paths.
const PREFIXES: [&str; 2] = ["", "/insert/datadog"];
/// The key of the level.
const LEVEL_FIELDS: [&str; 1] = ["status"];

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
    let mut response = error.into_response();
    *response.body_mut() = Json(body).into_response().into_body();
    response
}

async fn insert(to: &Inserting, request: &Request, body: Body) -> ApiResult<()> {
    for name in PARAMETERS {
        let bytes = request.params.get(name).map_or(0, str::len);
        if bytes > PARAMETER_BYTES_MAX {
            return Err(ApiError::bad_request(format!(
                "the parameter {name} has {bytes} bytes; the limit is {PARAMETER_BYTES_MAX}"
            )));
        }
    }
    let mut body = WholeBody::enter(to, request, body).await?;
    let taken = take(request, &mut body).await;
    body.end(taken).await.map(drop)
}

async fn take(request: &Request, body: &mut WholeBody<'_>) -> ApiResult<()> {
    body.default_fields(&STREAM_FIELDS, &LEVEL_FIELDS);
    let content = body.read_decompressed(BODY_BYTES_MAX).await?.ok_or_else(|| {
        let text = format!(
            "the body has more than {BODY_BYTES_MAX} bytes; let the sender send smaller batches"
        );
        ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, text)
    })?;
    let defaults = Defaults::of(|name| request.params.get(name));
    let is_text = request
        .headers
        .get(CONTENT_TYPE)
        .is_some_and(|value| value.as_bytes().to_ascii_lowercase().starts_with(b"text/plain"));
    let mut lines = Vec::new();
    if is_text {
        for line in content.split(|&byte| byte == b'\n') {
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            if !line.is_empty() {
                defaults.write_raw(line, &mut lines);
            }
            if lines.len() >= PIECE_BYTES {
                body.take(&lines).await?;
                lines.clear();
            }
        }
        return body.take(&lines).await;
    }
    let mut logs = Logs::of(&content);
    let result = loop {
        match logs.write_next(&defaults, &mut lines) {
            Ok(true) if lines.len() < PIECE_BYTES => {}
            Ok(true) => {
                body.take(&lines).await?;
                lines.clear();
            }
            Ok(false) => break Ok(()),
            Err(error) => break Err(error),
        }
    };
    body.take(&lines).await?;
    result.map_err(|error: NoLog| ApiError::bad_request(error.to_string()))
}
