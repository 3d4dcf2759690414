//! Reads request bodies with time limits: a sender that falls silent or trickles does not hold its
//! slot for ever, and loses it at once when others need it.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, BodyDataStream, Bytes};
use axum::extract::Request;
use axum::http::StatusCode;
use axum::http::header::EXPECT;
use platform::pressure;
use tokio::time::Instant;
use tokio_stream::StreamExt;

use crate::wire::error::{ApiError, ApiResult};
use crate::wire::listen::seat;
use crate::wire::listen::seats::Seat;

/// Seconds after which a request whose slot was needed should be sent again.
const RETRY_AFTER_S: u32 = 5;
/// Why such a request was ended.
const SLOWEST: &str = "too many requests are in progress, and the body of this one was the \
                       slowest; send again what was not kept";

/// Bytes of the body of a refused request that are read and discarded. Without that, the connection
/// would be reset, and its client would not see the answer.
const DISCARDED_BYTES_MAX: u64 = 8 << 20;
/// The longest time for that.
const DISCARD_TIME_MAX: Duration = Duration::from_secs(2);

/// How slowly a body may arrive.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BodyLimits {
    /// Silence between two chunks of it. Beyond it the request is answered with 408 and the
    /// connection closed.
    pub idle_max: Duration,
    /// Least bytes per second, averaged since the body began, once it is older than `idle_max`.
    /// Below it, the request ends in the same way.
    pub bytes_per_s_min: u64,
}

impl Default for BodyLimits {
    fn default() -> Self {
        BodyLimits { idle_max: Duration::from_secs(30), bytes_per_s_min: 16 }
    }
}

/// The body of a request, read within its limits.
pub struct BodyReader {
    stream: BodyDataStream,
    limits: BodyLimits,
    begun: Instant,
    bytes: u64,
    /// The seat of its connection.
    seat: Option<Arc<Seat>>,
}

impl BodyReader {
    /// Starts reading now.
    pub fn new(body: Body, limits: BodyLimits) -> BodyReader {
        let stream = body.into_data_stream();
        BodyReader { stream, limits, begun: Instant::now(), bytes: 0, seat: seat() }
    }

    /// The next chunk; `None` at the end. Cancelling the future loses nothing.
    pub async fn next(&mut self) -> ApiResult<Option<Bytes>> {
        let came = match &self.seat {
            None => tokio::time::timeout(self.limits.idle_max, self.stream.next()).await,
            Some(seat) => {
                let came = tokio::select! {
                    biased;
                    came = tokio::time::timeout(self.limits.idle_max, self.stream.next()) => came,
                    () = seat.receives(self.begun.into_std(), self.bytes) => {
                        return Err(timed_out(SLOWEST.to_owned()).retry_after(RETRY_AFTER_S));
                    }
                };
                seat.works();
                came
            }
        };
        match came {
            Ok(None) => Ok(None),
            Ok(Some(Ok(chunk))) => {
                self.bytes += chunk.len() as u64;
                pressure::lines_come();
                if self.is_slow() { Err(self.too_slow()) } else { Ok(Some(chunk)) }
            }
            Ok(Some(Err(error))) => {
                Err(ApiError::bad_request(format!("the request body was cut off: {error}")))
            }
            Err(_) => Err(timed_out(format!(
                "no byte of the request body came for {} s",
                self.limits.idle_max.as_secs_f64()
            ))),
        }
    }

    /// Reads up to `bytes_max` bytes and discards them.
    pub async fn discard(&mut self, bytes_max: u64) {
        let end = self.bytes.saturating_add(bytes_max);
        while self.bytes < end && matches!(self.next().await, Ok(Some(_))) {}
    }

    fn is_slow(&self) -> bool {
        let age = self.begun.elapsed();
        age > self.limits.idle_max
            && self.bytes < age.as_secs().saturating_mul(self.limits.bytes_per_s_min)
    }

    fn too_slow(&self) -> ApiError {
        timed_out(format!(
            "the request body arrives with less than {} bytes per second",
            self.limits.bytes_per_s_min
        ))
    }
}

fn timed_out(message: String) -> ApiError {
    ApiError::new(StatusCode::REQUEST_TIMEOUT, message)
}

/// Reads the body of a refused request. Does nothing if the client waits for `100 Continue`: such a
/// client gets the answer without having sent the body.
pub async fn discard(request: Request) {
    if request.headers().contains_key(EXPECT) {
        return;
    }
    let mut reader = BodyReader::new(request.into_body(), BodyLimits::default());
    // After that time the connection is closed, whatever the client still sends.
    let _ = tokio::time::timeout(DISCARD_TIME_MAX, reader.discard(DISCARDED_BYTES_MAX)).await;
}

/// Reads a whole body; `None` if it has more than `bytes_max`.
pub async fn read_whole(body: Body, bytes_max: usize) -> ApiResult<Option<Vec<u8>>> {
    let mut reader = BodyReader::new(body, BodyLimits::default());
    let mut whole = Vec::new();
    while let Some(chunk) = reader.next().await? {
        if whole.len() + chunk.len() > bytes_max {
            return Ok(None);
        }
        whole.extend_from_slice(&chunk);
    }
    Ok(Some(whole))
}
