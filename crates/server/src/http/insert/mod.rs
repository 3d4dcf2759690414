//! Lines by request: `/insert/lines`, `/insert/jsonline`, and `_bulk` of Elasticsearch.
//!
//! The body is read, decompressed, cut into lines and handed on in pieces; the answer comes after the last line is
//! durable. Memory is bounded by [`keep::UNACKNOWLEDGED_BYTES_MAX`] and one line, however large body or compression
//! ratio are. A request has no thread of its own: it is a task that waits, for its sender or for the disk.
//!
//! When something fails in the middle, the lines before it may be durable already. The error then carries `lines` and
//! `bytes`: so much from the start of the body was kept, and is not to be sent again.

mod bulk;
mod keep;
mod options;

use std::future::Future;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::Poll;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::rejection::ExtensionRejection;
use axum::extract::{ConnectInfo, FromRequestParts, State};
use axum::http::header::EXPECT;
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use collector::SourceKind;
use collector::body::Shape;
use tokio::sync::OwnedSemaphorePermit;

use super::App;
use super::body::BodyReader;
use super::error::{ApiError, ApiResult};
use super::params::Params;
use keep::{Counts, Keeper, refused};

/// Bytes of a refused body that are read and thrown away, so that a sender that sends all before it reads the answer
/// gets to see it. Beyond them the connection is closed.
const DISCARDED_BYTES_MAX: u64 = 64 << 20;
/// How long a request waits for a place while as many as are allowed bring lines. Then it is answered with 503.
const PLACE_WAIT_MAX: Duration = Duration::from_secs(5);
/// Seconds after which a request that found no place should come again.
const RETRY_AFTER_S: u32 = 5;

/// The routes of this file.
pub fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/insert/jsonline", post(jsonline))
        .route("/insert/lines", post(lines))
        .merge(bulk::routes())
}

async fn jsonline(State(app): State<Arc<App>>, request: Request, body: Body) -> Response {
    answer(insert(&app, &request, Shape::JsonLines, body).await)
}

async fn lines(State(app): State<Arc<App>>, request: Request, body: Body) -> Response {
    answer(insert(&app, &request, Shape::Lines, body).await)
}

fn answer(result: ApiResult<Counts>) -> Response {
    match result {
        Ok(Counts { lines, bytes }) => {
            axum::Json(serde_json::json!({ "lines": lines, "bytes": bytes })).into_response()
        }
        Err(error) => error.into_response(),
    }
}

/// What is known before the body is read.
struct Request {
    peer: SocketAddr,
    params: Params,
    headers: HeaderMap,
}

impl FromRequestParts<Arc<App>> for Request {
    type Rejection = ExtensionRejection;

    async fn from_request_parts(
        parts: &mut Parts,
        app: &Arc<App>,
    ) -> Result<Request, ExtensionRejection> {
        let ConnectInfo(peer) = ConnectInfo::from_request_parts(parts, app).await?;
        let params = Params::parse(parts.uri.query().unwrap_or_default().as_bytes());
        Ok(Request { peer, params, headers: std::mem::take(&mut parts.headers) })
    }
}

/// Takes the lines of a body. Every error says how much was kept.
async fn insert(app: &App, request: &Request, shape: Shape, body: Body) -> ApiResult<Counts> {
    let mut reader = BodyReader::new(body, app.config.insert.body);
    let result = match prepare(app, request, shape).await {
        Ok((mut keeper, _place)) => {
            let taken = take_all(&mut keeper, &mut reader).await;
            keeper.end(taken).await
        }
        Err(error) => Err(error.with("lines", 0).with("bytes", 0)),
    };
    // A sender that waits for leave to send learns the answer without sending; from one that fell silent nothing comes.
    if let Err(error) = &result
        && error.status() != StatusCode::REQUEST_TIMEOUT
        && !request.headers.contains_key(EXPECT)
    {
        reader.discard(DISCARDED_BYTES_MAX).await;
    }
    result
}

/// What makes a request refused before its body is read; and a place among those that bring lines.
async fn prepare(app: &App, request: &Request, shape: Shape) -> ApiResult<(Keeper, Place)> {
    let pipeline = app.pipeline()?;
    if let Some(refusal) = pipeline.refusal() {
        return Err(refused(&refusal));
    }
    let encoding = options::encoding(&request.headers)?;
    let origin = options::origin(request, shape)?;
    let place = Place::take(app).await?;
    let keeper = Keeper::new(pipeline, origin, encoding, shape)?;
    Ok((keeper.debug(options::debug(request)), place))
}

/// A place among the requests that bring lines. They are counted as the connections of their source.
struct Place {
    app: Arc<collector::Accounting>,
    _permit: OwnedSemaphorePermit,
}

impl Place {
    async fn take(app: &App) -> ApiResult<Place> {
        let counters = app.accounting.source(SourceKind::Http);
        let waiting = Arc::clone(&app.insert_places).acquire_owned();
        let Ok(permit) = tokio::time::timeout(PLACE_WAIT_MAX, waiting).await else {
            counters.connections_refused.fetch_add(1, Relaxed);
            let most = app.config.insert.requests_max;
            return Err(ApiError::unavailable(format!(
                "{most} requests bring lines already; try again, or raise insert.requests_max"
            ))
            .retry_after(RETRY_AFTER_S));
        };
        counters.connections_total.fetch_add(1, Relaxed);
        counters.connections_open.fetch_add(1, Relaxed);
        let _permit = permit.expect("never closed");
        Ok(Place { app: Arc::clone(&app.accounting), _permit })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.app.source(SourceKind::Http).connections_open.fetch_sub(1, Relaxed);
    }
}

/// Hands the body on as it comes.
async fn take_all(keeper: &mut Keeper, reader: &mut BodyReader) -> ApiResult<()> {
    loop {
        let mut next = pin!(reader.next());
        let chunk = match at_once(next.as_mut()).await {
            Some(chunk) => chunk?,
            None => {
                // The sender pauses: what it sent should be found.
                keeper.flush()?;
                next.await?
            }
        };
        match chunk {
            Some(chunk) => take(keeper, chunk).await?,
            None => return Ok(()),
        }
    }
}

async fn take(keeper: &mut Keeper, chunk: Bytes) -> ApiResult<()> {
    let mut rest = &chunk[..];
    while keeper.take(&mut rest)? {
        keeper.make_room().await?;
    }
    keeper.make_room().await
}

/// The value of a future that has it already.
async fn at_once<F: Future + Unpin>(mut future: F) -> Option<F::Output> {
    std::future::poll_fn(|context| {
        Poll::Ready(match std::pin::Pin::new(&mut future).poll(context) {
            Poll::Ready(value) => Some(value),
            Poll::Pending => None,
        })
    })
    .await
}
