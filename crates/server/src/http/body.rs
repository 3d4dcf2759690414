//! Reads request bodies with a limit on time: a sender that falls silent does not hold its place for ever.

use std::time::Duration;

use axum::body::{Body, BodyDataStream, Bytes};
use axum::http::StatusCode;
use tokio_stream::StreamExt;

use super::error::{ApiError, ApiResult};

/// Silence between two pieces of a body. Beyond it the request is answered with 408 and the connection closed.
pub const BODY_IDLE_MAX: Duration = Duration::from_secs(30);

/// The next piece of a body; none at its end.
pub async fn next_chunk(stream: &mut BodyDataStream) -> ApiResult<Option<Bytes>> {
    match tokio::time::timeout(BODY_IDLE_MAX, stream.next()).await {
        Ok(None) => Ok(None),
        Ok(Some(Ok(chunk))) => Ok(Some(chunk)),
        Ok(Some(Err(error))) => {
            Err(ApiError::bad_request(format!("the request body was cut off: {error}")))
        }
        Err(_) => Err(ApiError::new(
            StatusCode::REQUEST_TIMEOUT,
            format!("no byte of the request body came for {} s", BODY_IDLE_MAX.as_secs()),
        )),
    }
}

/// A whole body, or none when it has more than `bytes_max`.
pub async fn read_whole(body: Body, bytes_max: usize) -> ApiResult<Option<Vec<u8>>> {
    let mut stream = body.into_data_stream();
    let mut whole = Vec::new();
    while let Some(chunk) = next_chunk(&mut stream).await? {
        if whole.len() + chunk.len() > bytes_max {
            return Ok(None);
        }
        whole.extend_from_slice(&chunk);
    }
    Ok(Some(whole))
}
