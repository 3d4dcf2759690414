//! Rows in the native format of VictoriaLogs: `/insert/native`, as `vlagent` and VictoriaLogs send
//! them; also `/insert/multitenant/native` and `/internal/insert`, whose rows say their tenants.
//!
//! Each row becomes an object (see [`collector::body::native`]) and from there on is a line like
//! any other; the tags of its stream name the stream here. The answer is sent when all rows are
//! durable.
//!
//! `vlagent` drops a block after 400 and 404 and logs the answer, and repeats it after any other
//! status for ever. So a block that never can be taken is answered with 400, also one that is too
//! long; everything else may be right later, such as a newer version of the format.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use collector::body::native::Rows;

use crate::access::principal::Scope;
use crate::access::routes::Routes;
use crate::ingest::{Inserting, Request, WholeBody};
use crate::wire::error::{ApiError, ApiResult};

/// Limit of a body before and after decompression, as in VictoriaLogs; `vlagent` sends 8 MiB.
///
/// limits.md, Lines on their way in: a block of vlagent | {} | it is refused with 400, after which
/// vlagent drops it
const BODY_BYTES_MAX: usize = 64 << 20;
/// The version of the format.
const VERSION: &str = "v1";

/// The routes of this file.
pub fn routes() -> Routes<Arc<Inserting>> {
    Routes::new()
        .post(Scope::Ingest, "/insert/native", rows)
        .post(Scope::Ingest, "/insert/multitenant/native", rows_of_tenants)
        .post(Scope::Ingest, "/internal/insert", rows_of_tenants)
}

async fn rows(State(to): State<Arc<Inserting>>, request: Request, body: Body) -> Response {
    answer(&to, insert(&to, &request, body, false).await)
}

async fn rows_of_tenants(
    State(to): State<Arc<Inserting>>,
    request: Request,
    body: Body,
) -> Response {
    answer(&to, insert(&to, &request, body, true).await)
}

fn answer(to: &Inserting, result: ApiResult<()>) -> Response {
    match result {
        Ok(()) => to.acknowledged(StatusCode::OK.into_response()),
        Err(error) => error.into_response(),
    }
}

async fn insert(to: &Inserting, request: &Request, body: Body, has_tenants: bool) -> ApiResult<()> {
    let mut body = WholeBody::enter(to, request, body).await?;
    let taken = take(request, &mut body, has_tenants).await;
    body.end(taken).await.map(drop)
}

async fn take(request: &Request, body: &mut WholeBody<'_>, has_tenants: bool) -> ApiResult<()> {
    if let Some(version) = request.params.get("version")
        && version != VERSION
    {
        return Err(ApiError::new(
            StatusCode::NOT_IMPLEMENTED,
            format!(
                "version {version} of VictoriaLogs' native format is not known here, only {VERSION}; let vlagent \
                 send -remoteWrite.format=jsonline"
            ),
        ));
    }
    let content = body.read_decompressed(BODY_BYTES_MAX).await?.ok_or_else(|| {
        ApiError::bad_request(format!(
            "the block has more than {BODY_BYTES_MAX} bytes; set -remoteWrite.maxBlockSize of vlagent lower"
        ))
    })?;
    let rows = Rows::read(&content, has_tenants.then(|| request.tenants.written()));
    let mut rows = rows.map_err(|error| ApiError::bad_request(error.to_string()))?;
    while let Some(tags) = rows.next_group() {
        body.name_streams(tags)?;
        body.take_lines(|out| rows.write_next(out)).await?;
    }
    let (lines, bytes) = rows.too_long();
    body.reject(lines, bytes);
    Ok(())
}
