//! Ingest over HTTP: `/insert/lines`, `/insert/jsonline`, `_bulk` of Elasticsearch, and OTLP.
//!
//! The body is read, decompressed, split into lines and handed on in chunks; the response is sent
//! when the last line is durable. The memory of a request is bounded by
//! [`keep::UNACKNOWLEDGED_BYTES_MAX`] and one line, whatever the size of the body and its
//! compression ratio, and is taken from the budget of the process (`memory.bytes_max`): a request
//! that gets none is answered with 503. A request has no thread of its own: it is a task that waits
//! for its sender or for the disk.
//!
//! `insert.requests_max` bounds the memory of all requests: each has a [`slot::Slot`] while it
//! works, and lends it to others while its sender pauses.
//!
//! If something fails in the middle, the lines before it may be durable already. The error then has
//! the fields `lines` and `bytes`: that much of the body was kept, from its start, and must not be
//! sent again.

pub mod bulk;
mod cloud;
mod datadog;
mod form;
mod gelf;
mod hec;
mod journal;
mod keep;
mod measurements;
mod native;
mod options;
pub mod otlp;
mod slot;
mod whole;

use std::future::Future;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;

use axum::body::Body;
use axum::extract::rejection::ExtensionRejection;
use axum::extract::{ConnectInfo, FromRequestParts, State};
use axum::http::header::{CONTENT_TYPE, EXPECT};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use collector::body::{Encoding, Runs, Shape};
use collector::{Accounting, PeerLog, SourceKind};
use platform::memory::{Budget, Purpose};
use tokio::sync::watch;
use tokio::time::timeout;

use crate::access::params::Params;
use crate::access::principal::{Principal, Scope};
use crate::access::routes::Routes;
use crate::access::tenants::OfTenants;
use crate::wire::body::{BodyLimits, BodyReader};
use crate::wire::error::{ApiError, ApiResult};
pub use cloud::WebhookSecret;
use keep::{ActionCount, Counts, Keeper, refused};
use node::ingest::http_lines::HttpLines;
use slot::{Slot, Slots};
pub use whole::{WholeBody, text_lines};

/// Bytes of a refused body that are read and discarded, so that a sender that reads the response
/// only after sending everything gets to see it. Beyond them the connection is closed.
const DISCARDED_BYTES_MAX: u64 = 64 << 20;
/// How long a request waits for the store to be opened. Beyond it the request is answered with 503.
const OPENING_WAIT_MAX: Duration = Duration::from_secs(5);
/// Limit of a parameter that is written with each record of a request.
const PARAMETER_BYTES_MAX: usize = 1024;
/// A request that holds fewer bytes than this while its sender pauses lends its slot to others.
const LENT_BYTES_MAX: usize = 256 << 10;

/// Limits of ingest requests: `[insert]`.
#[derive(Clone, Debug, PartialEq)]
pub struct InsertOptions {
    /// Concurrent requests; further ones wait some seconds and are then answered with 503.
    pub requests_max: usize,
    /// How slow their bodies may be.
    pub body: BodyLimits,
    /// What webhooks of GitHub must be signed with.
    pub github_secret: Option<WebhookSecret>,
}

impl Default for InsertOptions {
    fn default() -> Self {
        InsertOptions { requests_max: 128, body: BodyLimits::default(), github_secret: None }
    }
}

/// The header that says where acknowledged lines are durable.
const DURABLE: &str = "x-loginson-durable";

/// What ingest requests share, in a server and in a collector.
pub struct Inserting {
    options: InsertOptions,
    slots: Arc<Slots>,
    /// The memory budget of bodies.
    memory: Arc<Budget>,
    /// The destination of lines, or the error why none are accepted now.
    to: Box<dyn Fn() -> ApiResult<Arc<HttpLines>> + Send + Sync>,
    /// Becomes true once the store is open.
    opened: watch::Receiver<bool>,
    accounting: Arc<Accounting>,
    /// Senders of what is no log.
    foreign: Mutex<PeerLog>,
}

impl Inserting {
    /// Ingest requests within these limits; `to` returns for each request the destination of its
    /// lines, or the error why none are accepted now. Until `opened` is true, requests wait.
    pub fn new(
        options: InsertOptions,
        accounting: Arc<Accounting>,
        memory: &Arc<Budget>,
        opened: watch::Receiver<bool>,
        to: impl Fn() -> ApiResult<Arc<HttpLines>> + Send + Sync + 'static,
    ) -> Arc<Inserting> {
        let slots = Arc::new(Slots::new(options.requests_max, Arc::clone(&accounting)));
        let (memory, foreign) = (Arc::clone(memory), Mutex::default());
        let to = Box::new(to);
        Arc::new(Inserting { options, slots, memory, to, opened, accounting, foreign })
    }

    /// The destination of lines, or the error why none are accepted. Waits for some seconds until
    /// the store is open: many senders give up lines that were refused with an error.
    async fn destination(&self) -> ApiResult<Arc<HttpLines>> {
        let mut opened = self.opened.clone();
        // Whatever came of it, `to` knows.
        let _ = timeout(OPENING_WAIT_MAX, opened.wait_for(|is_open| *is_open)).await;
        (self.to)()
    }

    /// Counts a request that holds no lines, and reports its sender.
    fn refuse_protocol(&self, sender: SocketAddr, what: &str, remedy: &str) {
        self.accounting.source(SourceKind::Http).wrong_protocol(0);
        let mut foreign = self.foreign.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(held_back) = foreign.pass(sender.ip()) {
            tracing::warn!(%sender, held_back, "request refused: its sender sends {what}; {remedy}");
        }
    }

    /// Adds to the acknowledgement of lines where they are durable, if that may be the spool of
    /// this collector alone: no answer has lines that wait there.
    pub fn acknowledged(&self, mut response: Response) -> Response {
        if response.status().is_success() && (self.to)().is_ok_and(|lines| lines.is_spooling()) {
            response.headers_mut().insert(DURABLE, HeaderValue::from_static("spool"));
        }
        response
    }
}

/// The routes of this file.
pub fn routes<S: Clone + Send + Sync + 'static>(inserting: Arc<Inserting>) -> Routes<S> {
    Routes::new()
        .post(Scope::Ingest, "/insert/jsonline", jsonline)
        .post(Scope::Ingest, "/insert/lines", lines)
        .merge(bulk::routes())
        .merge(cloud::routes())
        .merge(datadog::routes())
        .merge(gelf::routes())
        .merge(hec::routes())
        .merge(journal::routes())
        .merge(measurements::routes())
        .merge(native::routes())
        .merge(otlp::routes())
        .with_state(inserting)
}

async fn jsonline(State(to): State<Arc<Inserting>>, request: Request, body: Body) -> Response {
    to.acknowledged(answer(insert(&to, &request, Shape::JsonLines, body).await))
}

async fn lines(State(to): State<Arc<Inserting>>, request: Request, body: Body) -> Response {
    to.acknowledged(answer(insert(&to, &request, Shape::Lines, body).await))
}

fn answer(result: ApiResult<Counts>) -> Response {
    match result {
        Ok(Counts { lines, bytes }) => {
            axum::Json(serde_json::json!({ "lines": lines, "bytes": bytes })).into_response()
        }
        Err(error) => error.into_response(),
    }
}

/// The parts of a request that are known before the body is read.
pub struct Request {
    peer: SocketAddr,
    tenants: OfTenants,
    params: Params,
    /// Headers.
    pub headers: HeaderMap,
}

impl Request {
    /// Checks the lengths of parameters that are written with each record.
    fn check_lengths(&self, parameters: &[&str]) -> ApiResult<()> {
        for name in parameters {
            let bytes = self.params.get(name).map_or(0, str::len);
            if bytes > PARAMETER_BYTES_MAX {
                return Err(ApiError::bad_request(format!(
                    "the parameter {name} has {bytes} bytes; the limit is {PARAMETER_BYTES_MAX}"
                )));
            }
        }
        Ok(())
    }

    /// The media type of the body in small letters, without its parameters.
    fn media_type(&self) -> String {
        let named = self.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let named = named.unwrap_or_default().split(';').next().unwrap_or_default();
        named.trim().to_ascii_lowercase()
    }
}

impl FromRequestParts<Arc<Inserting>> for Request {
    type Rejection = ExtensionRejection;

    async fn from_request_parts(
        parts: &mut Parts,
        state: &Arc<Inserting>,
    ) -> Result<Request, ExtensionRejection> {
        let ConnectInfo(peer) = ConnectInfo::from_request_parts(parts, state).await?;
        let params = Params::parse(parts.uri.query().unwrap_or_default().as_bytes());
        let principal = parts.extensions.get::<Principal>();
        let tenants = principal.map(|principal| principal.tenants.clone()).unwrap_or_default();
        Ok(Request { peer, tenants, params, headers: std::mem::take(&mut parts.headers) })
    }
}

/// Takes the lines of a body. Every error says how much of it was kept.
async fn insert(
    inserting: &Inserting,
    request: &Request,
    shape: Shape,
    body: Body,
) -> ApiResult<Counts> {
    let mut reader = BodyReader::new(body, inserting.options.body);
    let encoding = options::encoding(&request.headers);
    let may_be_form = encoding.as_ref().is_ok_and(|e| options::may_be_form(request, shape, *e));
    let result = match prepare(inserting, request, shape, encoding).await {
        Ok((mut keeper, mut slot)) => {
            let taken = match may_be_form {
                true => take_form(&mut keeper, &mut reader, &mut slot).await,
                false => take_all(&mut keeper, &mut reader, &mut slot).await,
            };
            keeper.end(taken).await
        }
        Err(error) => Err(error.with("lines", 0).with("bytes", 0)),
    };
    if let Err(error) = &result {
        discard(&mut reader, request, error).await;
    }
    result
}

/// What became of a `_bulk` request.
struct Inserted {
    result: ApiResult<()>,
    /// Documents that are durable, from the start of the request.
    kept: u64,
    /// The actions of the whole request; `None` if it could not be read to its end.
    actions: Option<Runs>,
}

/// Takes a `_bulk` request. If its documents cannot be kept now, their actions are counted, so that
/// the answer can name each: some senders look at nothing else.
async fn insert_bulk(inserting: &Inserting, request: &Request, body: Body) -> Inserted {
    let mut reader = BodyReader::new(body, inserting.options.body);
    let share = || inserting.memory.share(Purpose::Insert);
    let encoding = options::encoding(&request.headers);
    let (error, kept, count) = match prepare(inserting, request, Shape::Bulk, encoding).await {
        Ok((mut keeper, mut slot)) => {
            let taken = take_all(&mut keeper, &mut reader, &mut slot).await;
            match keeper.settle(taken).await {
                Ok(Counts { lines, .. }) => {
                    return Inserted { result: Ok(()), kept: lines, actions: Some(keeper.runs()) };
                }
                Err(error) => (error, keeper.kept().lines, Some(keeper.actions(share()))),
            }
        }
        Err(error) => {
            let encoding = options::encoding(&request.headers).ok();
            let count = encoding.and_then(|encoding| ActionCount::new(encoding, share()).ok());
            (error.with("lines", 0).with("bytes", 0), 0, count)
        }
    };
    let actions = match count {
        Some(count) if is_temporary(&error) && !request.headers.contains_key(EXPECT) => {
            count_rest(&mut reader, count).await
        }
        _ => {
            discard(&mut reader, request, &error).await;
            None
        }
    };
    Inserted { result: Err(error), kept, actions }
}

/// Whether the same request may succeed later.
fn is_temporary(error: &ApiError) -> bool {
    error.status().is_server_error() || error.status() == StatusCode::TOO_MANY_REQUESTS
}

/// Counts the actions of the rest of a body; `None` if it does not come to its end, or is too long.
async fn count_rest(reader: &mut BodyReader, mut count: ActionCount) -> Option<Runs> {
    let mut bytes = 0;
    while let Some(chunk) = reader.next().await.ok()? {
        bytes += chunk.len() as u64;
        if bytes > DISCARDED_BYTES_MAX {
            return None;
        }
        count.take(&chunk);
        // Decompressing costs time, and other requests wait for this thread.
        tokio::task::yield_now().await;
    }
    count.end()
}

/// Reads the rest of a refused body, so that its sender gets to see the response.
async fn discard(reader: &mut BodyReader, request: &Request, error: &ApiError) {
    // A sender that waits for `100 Continue` gets the response without sending; from one that fell
    // silent nothing comes.
    if error.status() != StatusCode::REQUEST_TIMEOUT && !request.headers.contains_key(EXPECT) {
        reader.discard(DISCARDED_BYTES_MAX).await;
    }
}

/// Checks a request before its body is read, and takes a slot for it.
async fn prepare(
    inserting: &Inserting,
    request: &Request,
    shape: Shape,
    encoding: ApiResult<Encoding>,
) -> ApiResult<(Keeper, Slot)> {
    let encoding = encoding?;
    let origin = options::origin(request, shape)?;
    request.tenants.check_rate()?;
    let slot = Slot::take(&inserting.slots).await?;
    let to = inserting.destination().await?;
    if let Some(refusal) = to.refusal() {
        return Err(refused(&refusal));
    }
    let keeper = Keeper::new(to, origin, encoding, shape, inserting.memory.share(Purpose::Insert))?;
    let keeper = keeper.debug(options::debug(request)).breaks(options::line_break(request)?);
    Ok((keeper, slot))
}

/// Takes a body that may be a form. Any other body is handed on as it arrives.
async fn take_form(keeper: &mut Keeper, reader: &mut BodyReader, slot: &mut Slot) -> ApiResult<()> {
    let mut held = Vec::new();
    while let Some(chunk) = slot.lend(true, reader.next()).await?? {
        let has_room = held.len() + chunk.len() <= form::BYTES_MAX;
        if !has_room || !form::may_contain(&chunk) {
            keeper.take_whole(&held).await?;
            keeper.take_whole(&chunk).await?;
            return take_all(keeper, reader, slot).await;
        }
        keeper.hold_whole(held.len() + chunk.len())?;
        held.extend_from_slice(&chunk);
    }
    let record = form::record(&held);
    keeper.take_whole(record.as_deref().unwrap_or(&held)).await
}

/// Hands the body on as it arrives.
async fn take_all(keeper: &mut Keeper, reader: &mut BodyReader, slot: &mut Slot) -> ApiResult<()> {
    loop {
        let mut next = pin!(reader.next());
        let chunk = match at_once(next.as_mut()).await {
            Some(chunk) => chunk?,
            None => {
                // The sender pauses: what it has sent should be searchable.
                keeper.flush()?;
                let holds_little = keeper.bytes_held() <= LENT_BYTES_MAX;
                slot.lend(holds_little, next).await??
            }
        };
        match chunk {
            Some(chunk) => keeper.take_whole(&chunk).await?,
            None => return Ok(()),
        }
    }
}

/// The value of a future that is ready.
async fn at_once<F: Future + Unpin>(mut future: F) -> Option<F::Output> {
    std::future::poll_fn(|context| {
        Poll::Ready(match std::pin::Pin::new(&mut future).poll(context) {
            Poll::Ready(value) => Some(value),
            Poll::Pending => None,
        })
    })
    .await
}
