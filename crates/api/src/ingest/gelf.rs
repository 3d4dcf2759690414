//! GELF over HTTP: `/gelf`, as Graylog takes it; also `/insert/gelf`.
//!
//! A message is an object, and a line like any other one of JSON. Its bytes show how it is
//! compressed: senders say `gzip,deflate` and mean one of both. The answer is sent when the message
//! is durable. Senders of Python (graypy, pygelf) close the connection without waiting for it, and
//! their messages are kept nevertheless (see [`crate::wire::listen`]).

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use collector::body::{Encoding, write_objects};

use crate::access::principal::Scope;
use crate::access::routes::Routes;
use crate::ingest::{Inserting, Request, WholeBody};
use crate::wire::error::{ApiError, ApiResult};

/// Limit of a body before and after decompression.
///
/// limits.md, Lines on their way in: a request with messages of GELF | {} | it is refused with 413
/// before a message is kept
const BODY_BYTES_MAX: usize = 8 << 20;

/// The routes of this file.
pub fn routes() -> Routes<Arc<Inserting>> {
    Routes::new().post(Scope::Ingest, "/gelf", messages).post(
        Scope::Ingest,
        "/insert/gelf",
        messages,
    )
}

async fn messages(State(to): State<Arc<Inserting>>, request: Request, body: Body) -> Response {
    match insert(&to, &request, body).await {
        Ok(()) => to.acknowledged(StatusCode::ACCEPTED.into_response()),
        Err(error) => error.into_response(),
    }
}

async fn insert(to: &Inserting, request: &Request, body: Body) -> ApiResult<()> {
    let mut body = WholeBody::enter(to, request, body).await?;
    let taken = take(&mut body).await;
    body.end(taken).await.map(drop)
}

async fn take(body: &mut WholeBody<'_>) -> ApiResult<()> {
    let too_long = || {
        let text = format!("the body has more than {BODY_BYTES_MAX} bytes; send smaller messages");
        ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, text)
    };
    let sent = body.read(BODY_BYTES_MAX).await?.ok_or_else(too_long)?;
    let content = match encoding(&sent) {
        Encoding::Plain => sent,
        encoding => body.decompress(encoding, &sent, BODY_BYTES_MAX)?.ok_or_else(too_long)?,
    };
    let mut lines = Vec::with_capacity(content.len() + 1);
    if !write_objects(&content, &mut lines) {
        return Err(ApiError::bad_request("the body is no object of JSON, so no message of GELF"));
    }
    body.take(&lines).await
}

/// The compression that the first bytes show.
fn encoding(body: &[u8]) -> Encoding {
    match body {
        [0x1f, 0x8b, ..] => Encoding::Gzip,
        [0x78, ..] => Encoding::Deflate,
        _ => Encoding::Plain,
    }
}
