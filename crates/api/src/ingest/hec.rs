//! Splunk's HTTP Event Collector: `/services/collector/event` and `/raw`, acknowledgements, health;
//! also below `/insert/splunk`.
//!
//! Each event becomes an object (see [`collector::body::hec`]) and from there on is a line like any
//! other. The answer is sent when all events are durable. So an acknowledgement, for senders that
//! ask for one by a channel, is due at once: [`acks`] says yes to every number that was given, by
//! this node or by another one behind the same address.
//!
//! The body is held as a whole, because a sender that gets an error expects to be told the number
//! of the wrong event. Events before that one are kept, as in Splunk.
//!
//! Left out: metrics (`"event":"metric"` is a line), and indices as places of their own: the name
//! of the index is a field, and part of the stream.

use std::sync::Arc;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{SystemTime, UNIX_EPOCH};

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use collector::body::hec::{Defaults, Events, HecError, STREAM_FIELDS};
use serde_json::json;

use crate::access::principal::Scope;
use crate::access::routes::Routes;
use crate::ingest::{Inserting, Request, WholeBody, text_lines};
use crate::wire::body::read_whole;
use crate::wire::error::{ApiError, ApiResult};

/// Limit of a body before and after decompression.
///
/// limits.md, Lines on their way in: a request of a Splunk sender | {} | it is refused with 413
/// before an event is kept
const BODY_BYTES_MAX: usize = 16 << 20;
/// Limit of a request for acknowledgements, and of the numbers in it.
const ACKS_BYTES_MAX: usize = 1 << 20;
/// Names of parameters that hold for all events of a request.
const PARAMETERS: [&str; 5] = ["time", "host", "source", "sourcetype", "index"];
/// The header that names a channel.
const CHANNEL: &str = "x-splunk-request-channel";
/// The prefixes of the paths.
const PREFIXES: [&str; 2] = ["", "/insert/splunk"];

/// The number of the next acknowledgement. It begins with the time, so that numbers which an
/// earlier process gave are lower.
static NEXT_ACK: LazyLock<AtomicU64> = LazyLock::new(|| AtomicU64::new(now_us()));

/// The routes of this file.
pub fn routes() -> Routes<Arc<Inserting>> {
    PREFIXES.into_iter().fold(Routes::new(), |router, prefix| {
        let at = |path: &str| format!("{prefix}/services/collector{path}");
        router
            .post(Scope::Ingest, &at(""), event)
            .post(Scope::Ingest, &at("/event"), event)
            .post(Scope::Ingest, &at("/event/1.0"), event)
            .post(Scope::Ingest, &at("/raw"), raw)
            .post(Scope::Ingest, &at("/raw/1.0"), raw)
            .post(Scope::Ingest, &at("/ack"), acks)
            // Docker's driver asks so, without its token, whether there is a collector.
            .on(Method::OPTIONS, Scope::Open, &at("/event/1.0"), health)
            .get(Scope::Open, &at("/health"), health)
            .get(Scope::Open, &at("/health/1.0"), health)
    })
}

async fn health() -> Response {
    Json(json!({ "text": "HEC is healthy", "code": 17 })).into_response()
}

async fn event(State(to): State<Arc<Inserting>>, request: Request, body: Body) -> Response {
    answer(&to, &request, insert(&to, &request, body, Kind::Events).await)
}

async fn raw(State(to): State<Arc<Inserting>>, request: Request, body: Body) -> Response {
    answer(&to, &request, insert(&to, &request, body, Kind::Raw).await)
}

/// What a body has.
#[derive(Clone, Copy)]
enum Kind {
    Events,
    /// Lines of text.
    Raw,
}

/// Why a request failed.
enum Failure {
    /// Its content is wrong. The events before the wrong one are durable.
    Content(HecError),
    Api(ApiError),
}

impl From<ApiError> for Failure {
    fn from(error: ApiError) -> Failure {
        Failure::Api(error)
    }
}

/// Takes a body as a whole.
async fn insert(
    inserting: &Inserting,
    request: &Request,
    body: Body,
    kind: Kind,
) -> Result<(), Failure> {
    request.check_lengths(&PARAMETERS)?;
    let defaults = Defaults::of(|name| request.params.get(name));
    let mut body = WholeBody::enter(inserting, request, body).await?;
    let taken = async {
        body.default_fields(&STREAM_FIELDS, &[]);
        let content = body.content(BODY_BYTES_MAX).await?;
        match kind {
            Kind::Events => {
                let mut events = Events::of(&content);
                body.take_each(|out| events.write_next(&defaults, out)).await
            }
            Kind::Raw => take_raw(&mut body, &defaults, &content).await,
        }
    };
    let (ended, content) = match taken.await {
        Ok(content) => (Ok(()), content),
        Err(error) => (Err(error), Ok(())),
    };
    body.end(ended).await?;
    content.map_err(Failure::Content)
}

async fn take_raw(
    body: &mut WholeBody<'_>,
    defaults: &Defaults,
    content: &[u8],
) -> ApiResult<Result<(), HecError>> {
    let mut lines = text_lines(content).peekable();
    if lines.peek().is_none() {
        return Ok(Err(HecError::NoData));
    }
    let write_next = |out: &mut Vec<u8>| {
        let line = lines.next();
        line.inspect(|line| defaults.write_raw(line, out)).is_some()
    };
    body.take_lines(write_next).await.map(Ok)
}

fn answer(to: &Inserting, request: &Request, result: Result<(), Failure>) -> Response {
    match result {
        Ok(()) => {
            let mut body = json!({ "text": "Success", "code": 0 });
            if channel(request).is_some() {
                body["ackId"] = NEXT_ACK.fetch_add(1, Relaxed).into();
            }
            to.acknowledged(Json(body).into_response())
        }
        Err(Failure::Content(error)) => {
            let mut body = json!({ "text": error.to_string(), "code": error.code() });
            if let Some(event) = error.event() {
                body["invalid-event-number"] = event.into();
            }
            (StatusCode::BAD_REQUEST, Json(body)).into_response()
        }
        Err(Failure::Api(error)) => refusal(error),
    }
}

/// An error in Splunk's form, with the status and headers of ours.
fn refusal(error: ApiError) -> Response {
    // 9: the server is busy; 6: the data are wrong; 8: an error of the server.
    let code = match error.status() {
        StatusCode::SERVICE_UNAVAILABLE
        | StatusCode::INSUFFICIENT_STORAGE
        | StatusCode::TOO_MANY_REQUESTS => 9,
        status if status.is_server_error() => 8,
        _ => 6,
    };
    let body = json!({ "text": error.to_string(), "code": code });
    error.in_form(body)
}

/// The channel of a sender that asks for acknowledgements.
fn channel(request: &Request) -> Option<&str> {
    let in_header = || request.headers.get(CHANNEL).and_then(|value| value.to_str().ok());
    request.params.get("channel").or_else(in_header)
}

#[derive(serde::Deserialize)]
struct Acks {
    acks: Vec<u64>,
}

/// Says of each number whether its events are durable. A number was given when they were, so all
/// are that were given, whichever node gave them.
async fn acks(request: Request, body: Body) -> Response {
    let refused = |text: &str, code: u32| {
        (StatusCode::BAD_REQUEST, Json(json!({ "text": text, "code": code }))).into_response()
    };
    if channel(&request).is_none() {
        return refused("Data channel is missing", 10);
    }
    let content = match read_whole(body, ACKS_BYTES_MAX).await {
        Ok(Some(content)) => content,
        Ok(None) => return refused("the request is too long; ask for fewer acks at a time", 6),
        Err(error) => return refusal(error),
    };
    let Ok(Acks { acks }) = serde_json::from_slice(&content) else {
        return refused("Invalid data format", 6);
    };
    let end = given_end(NEXT_ACK.load(Relaxed), now_us());
    let known: serde_json::Map<String, serde_json::Value> =
        acks.into_iter().map(|ack| (ack.to_string(), (ack < end).into())).collect();
    Json(json!({ "acks": known })).into_response()
}

/// Behind the numbers that were given. A sender may ask another node than the one that gave a
/// number: each begins with the time of its start, and gives fewer than one in a microsecond, so
/// those of all are below the time of now.
fn given_end(next: u64, now_us: u64) -> u64 {
    next.max(now_us)
}

/// Microseconds since 1970.
fn now_us() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| now.as_micros() as u64)
}

#[cfg(test)]
mod tests {
    use axum::body::Bytes;
    use axum::http::HeaderMap;

    use super::*;
    use crate::access::params::Params;
    use crate::access::tenants::OfTenants;

    #[tokio::test]
    async fn requests_for_acknowledgements_are_read_within_limits() {
        let ask = |body: Body| {
            let request = Request {
                peer: ([127, 0, 0, 1], 1).into(),
                tenants: OfTenants::default(),
                params: Params::parse(b"channel=c"),
                headers: HeaderMap::new(),
            };
            acks(request, body)
        };
        let few = Body::from("{\"acks\":[1]}");
        assert_eq!(ask(few).await.status(), StatusCode::OK);
        let many = format!("{{\"acks\":[{}1]}}", "1,".repeat(ACKS_BYTES_MAX / 2));
        assert_eq!(ask(Body::from(many)).await.status(), StatusCode::BAD_REQUEST);
        let cut = [Err::<Bytes, _>(std::io::Error::other("gone"))];
        let answer = ask(Body::from_stream(tokio_stream::iter(cut))).await;
        let text = axum::body::to_bytes(answer.into_body(), 1 << 10).await.unwrap();
        assert!(String::from_utf8_lossy(&text).contains("was cut off"), "{text:?}");
    }

    #[test]
    fn numbers_that_another_node_gave_are_known() {
        let now = 1_769_860_800_000_000;
        let hour = 3_600_000_000;
        // This node has run for two hours, and the other one for an hour.
        let end = given_end(now - 2 * hour + 7, now);
        assert!(now - hour + 3 < end);
        assert!(now + hour >= end);
        // The clock was set back by an hour while this node ran.
        assert_eq!(given_end(now + 7, now - hour), now + 7);
    }
}
