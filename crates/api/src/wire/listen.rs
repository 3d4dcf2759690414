//! Accepts connections and serves the router on them. Their number ([`seats`]), their request heads
//! and their idle time are limited.
//!
//! A client that reads no byte of a response for `query.client_idle_max` loses its connection. The
//! kernel enforces that (TCP_USER_TIMEOUT), because only it knows what the peer has acknowledged.
//! So each response releases what it holds in the end: the slot of a query, the permit of a page of
//! results, the seat of a connection.
//!
//! HTTPS ([`https`]) has the same seats and time limits: a connection in its handshake counts as
//! waiting for its first request, and gives up its seat like one.
//!
//! HTTP/2 is for calls of gRPC alone, which need it. A connection speaks it if its first bytes are
//! those of its preface, or if TLS agreed on it; a client that offers HTTP/1.1 too, as browsers do,
//! gets HTTP/1.1. Several calls may run on one connection, which then waits for a request only once
//! the last of them is answered; their tasks have no seat, so their bodies give way to nobody.
//!
//! Left out: HTTP/2 for anything else; put a proxy in front for it.

pub mod certificate;
mod https;
pub mod seats;
mod watched;

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes, HttpBody};
use axum::extract::ConnectInfo;
use axum::http::header::{CONNECTION, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderValue, StatusCode, Version};
use axum::response::{IntoResponse, Response};
use collector::Accounting;
use hyper::body::{Frame, Incoming, SizeHint};
use hyper::server::conn::{http1, http2};
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use self::certificate::ClientCertificate;
use crate::wire::bells::Bells;
use crate::wire::error::ApiError;
pub use https::Tls;
use seats::{Seat, Seats};
pub use watched::client_has_stalled;
use watched::{STALLED, Watched};

/// Seconds after which a client that found no seat should try again.
const RETRY_AFTER_S: u32 = 5;
/// Requests that are answered on reserved seats.
const ANSWERED_ALWAYS: [&str; 3] = ["/health", "/ready", "/metrics"];
/// Time to send the head of a request, and the longest that a kept-alive connection may be idle.
/// Beyond it the connection is closed.
const HEAD_TIME_MAX: Duration = Duration::from_secs(30);
/// Bytes read at once from a connection that sends much; one that sends little has a buffer of 8
/// KiB. It also bounds the head of a request, including query text in the address: a head of twice
/// this size, at the latest, is answered with 431. Long queries are sent as a form.
const READ_BYTES_MAX: usize = 256 << 10;
/// Pause after the system refused to accept a connection, for instance because no file descriptor
/// was left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// The first bytes of a connection that speaks HTTP/2; no request of HTTP/1 begins so.
const HTTP2_START: [u8; 3] = *b"PRI";
/// The name of HTTP/2 in TLS.
const HTTP2_ALPN: &[u8] = b"h2";
/// Calls of one connection of HTTP/2 that run at a time. The client lets further ones wait.
const CALLS_MAX: u32 = 16;
/// Bytes of one call, and of all calls of a connection, that a client may send before they are
/// read.
const CALL_WINDOW_BYTES: u32 = 1 << 20;
/// Bytes of the head of a call. A longer one is refused with 431.
const CALL_HEAD_BYTES_MAX: u32 = 64 << 10;
/// Waiting connections that are accepted at the end; more than the system keeps.
const BACKLOG_MAX: usize = 4_096;
/// Time for running requests at shutdown.
pub const SHUTDOWN_TIME_MAX: Duration = Duration::from_secs(5);

/// Limits that apply to all clients, and their state.
#[derive(Clone)]
pub struct Clients {
    /// The longest that a client may read nothing of its response, above zero.
    pub idle_max: Duration,
    /// Connections that this limit ended.
    pub stalled: Arc<AtomicU64>,
    /// Their connections.
    pub seats: Seats,
    /// The TLS state of HTTPS; `None` for HTTP.
    pub tls: Option<Arc<Tls>>,
    /// Senders at doors that do not exist.
    pub bells: Arc<Bells>,
}

tokio::task_local! {
    /// The seat of the connection that this task serves.
    static SEAT: Arc<Seat>;
}

/// The seat of the connection that this task serves; `None` if there is no connection.
pub fn seat() -> Option<Arc<Seat>> {
    SEAT.try_with(Arc::clone).ok()
}

impl Clients {
    /// The initial state, for so many connections.
    pub fn new(
        idle_max: Duration,
        connections_max: usize,
        tls: Option<Arc<Tls>>,
        accounting: Arc<Accounting>,
    ) -> Clients {
        let (stalled, seats) = (Arc::default(), Seats::new(connections_max));
        Clients { idle_max, stalled, seats, tls, bells: Arc::new(Bells::new(accounting)) }
    }
}

/// Serves until `stop` becomes true, then lets running requests finish.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    clients: Clients,
    stop: watch::Receiver<bool>,
) {
    // Dropped when the last connection has ended.
    let (ended, mut all_ended) = tokio::sync::mpsc::channel::<()>(1);
    let mut stopping = stop.clone();
    // At the end: connections that the system may have accepted for us. Closing the listener would
    // reset them, and some senders take that for a lost request.
    let mut backlog = None;
    loop {
        let accepted = match &mut backlog {
            None => tokio::select! {
                accepted = listener.accept() => accepted,
                () = raised(&mut stopping) => {
                    backlog = Some(0..BACKLOG_MAX);
                    continue;
                }
            },
            Some(left) => match left.next().and(at_once(&listener).await) {
                Some(accepted) => accepted,
                None => break,
            },
        };
        match accepted {
            Ok((stream, peer)) => {
                // A connection without a seat is closed.
                let Some(held) = clients.seats.take(peer.ip()) else { continue };
                let stream = Watched::new(stream, peer, &clients);
                let stalled = stream.stalled();
                let seat = Arc::clone(&held.seat);
                let seats = clients.seats.clone();
                let (router, mut stop, tls) = (router.clone(), stop.clone(), clients.tls.clone());
                let connection = async move {
                    match tls {
                        None => {
                            let Some(kind) = kind_of(&stream, &mut stop).await else { return };
                            connection(stream, kind, (peer, None), router, seats, stop).await;
                        }
                        Some(tls) => {
                            if let Some(stream) = tls.accept(stream, peer).await {
                                let agreed = stream.get_ref().1.alpn_protocol();
                                let kind = match agreed == Some(HTTP2_ALPN) {
                                    true => Kind::Http2,
                                    false => Kind::Http1 { outlives_sender: false },
                                };
                                let shown = stream.get_ref().1.peer_certificates();
                                let shown = shown.and_then(|chain| chain.first());
                                let shown = shown.and_then(|der| ClientCertificate::read(der));
                                connection(stream, kind, (peer, shown), router, seats, stop).await;
                            }
                        }
                    }
                };
                let ended = ended.clone();
                tokio::spawn(SEAT.scope(seat, async move {
                    tokio::select! {
                        biased;
                        () = held.seat.closed() => {}
                        () = STALLED.scope(stalled, connection) => {}
                    }
                    drop((held, ended));
                }));
            }
            Err(error) => {
                tracing::warn!("cannot accept an HTTP connection: {error}");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    drop((listener, ended));
    if tokio::time::timeout(SHUTDOWN_TIME_MAX, all_ended.recv()).await.is_err() {
        tracing::info!("some HTTP requests still ran at shutdown and were aborted");
    }
}

/// A connection that waits to be accepted.
async fn at_once(listener: &TcpListener) -> Option<std::io::Result<(TcpStream, SocketAddr)>> {
    std::future::poll_fn(|context| match listener.poll_accept(context) {
        Poll::Ready(accepted) => Poll::Ready(Some(accepted)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}

/// Returns once the server is to stop.
pub async fn raised(stop: &mut watch::Receiver<bool>) {
    // An error means that the sender is gone, which also is the end.
    let _ = stop.wait_for(|stop| *stop).await;
}

/// What a connection speaks.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Http1 {
        /// Requests are carried out although the client closes the connection before the answer.
        outlives_sender: bool,
    },
    Http2,
}

/// Beginnings of connections whose first request brings lines. Some senders of GELF close the
/// connection without waiting for the answer, and their lines are kept. Further requests of such a
/// connection outlive their client, too; requests of all other connections end with their clients.
const SENDERS: [&[u8]; 2] = [b"POST /gelf", b"POST /insert/"];
/// Bytes by which these connections, those of HTTP/2, and those of other protocols are recognised.
const FIRST_BYTES: usize = 16;

/// What a connection without TLS speaks; `None` if it has sent nothing in time. Whoever sends
/// nothing before the end is given the chance to do so in HTTP/1. One that speaks something else is
/// told, and answered that its request is wrong, by which it knows that HTTP is spoken here.
async fn kind_of(stream: &Watched, stop: &mut watch::Receiver<bool>) -> Option<Kind> {
    let first: [u8; FIRST_BYTES] = tokio::select! {
        biased;
        found = tokio::time::timeout(HEAD_TIME_MAX, stream.first_bytes()) => found.ok()?.ok()?,
        () = raised(stop) => return Some(Kind::Http1 { outlives_sender: false }),
    };
    stream.ring(&first);
    Some(match first.starts_with(&HTTP2_START) {
        true => Kind::Http2,
        false => {
            let outlives_sender = SENDERS.iter().any(|start| first.starts_with(start));
            Kind::Http1 { outlives_sender }
        }
    })
}

async fn connection(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    kind: Kind,
    (peer, certificate): (SocketAddr, Option<Arc<ClientCertificate>>),
    router: Router,
    seats: Seats,
    mut stop: watch::Receiver<bool>,
) {
    let service = TowerToHyperService::new(router);
    let seat = seat().expect("every connection has one");
    let working = Arc::new(Mutex::new(0));
    let with_peer = service_fn(move |mut request: hyper::Request<Incoming>| {
        request.extensions_mut().insert(ConnectInfo(peer));
        if let Some(certificate) = &certificate {
            request.extensions_mut().insert(Arc::clone(certificate));
        }
        let working = Working::begin(&seat, &working);
        let answered = !seat.is_reserved || ANSWERED_ALWAYS.contains(&request.uri().path());
        let is_foreign = request.version() == Version::HTTP_2 && !is_call(request.headers());
        let answer = (answered && !is_foreign).then(|| service.call(request));
        let (is_reserved, seats) = (seat.is_reserved, seats.clone());
        async move {
            let mut response = match answer {
                Some(answer) => answer.await?,
                None if is_foreign => only_calls(),
                None => {
                    seats.count_refused();
                    too_many(seats.regular())
                }
            };
            if is_reserved && kind != Kind::Http2 {
                response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            }
            Ok::<_, std::convert::Infallible>(
                response.map(|body| Body::new(Answering { body, _working: working })),
            )
        }
    });
    let result = match kind {
        Kind::Http2 => serve_http2(stream, with_peer, &mut stop).await,
        Kind::Http1 { outlives_sender } => {
            serve_http1(stream, outlives_sender, with_peer, &mut stop).await
        }
    };
    if let Err(error) = result {
        tracing::debug!("HTTP connection from {peer}: {error}");
    }
}

async fn serve_http1<S>(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    outlives_sender: bool,
    service: S,
    stop: &mut watch::Receiver<bool>,
) -> hyper::Result<()>
where
    S: Service<hyper::Request<Incoming>, Response = Response, Error = std::convert::Infallible>,
    S::Future: Send,
{
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEAD_TIME_MAX).max_buf_size(READ_BYTES_MAX);
    http.half_close(outlives_sender);
    let serving = http.serve_connection(TokioIo::new(stream), service).with_upgrades();
    let mut serving = std::pin::pin!(serving);
    tokio::select! {
        result = serving.as_mut() => result,
        () = raised(stop) => {
            serving.as_mut().graceful_shutdown();
            serving.await
        }
    }
}

async fn serve_http2<S>(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    service: S,
    stop: &mut watch::Receiver<bool>,
) -> hyper::Result<()>
where
    S: Service<hyper::Request<Incoming>, Response = Response, Error = std::convert::Infallible>,
    S::Future: Send + 'static,
{
    let mut http = http2::Builder::new(TokioExecutor::new());
    http.timer(TokioTimer::new())
        .max_concurrent_streams(CALLS_MAX)
        .initial_stream_window_size(CALL_WINDOW_BYTES)
        .initial_connection_window_size(CALL_WINDOW_BYTES)
        .max_header_list_size(CALL_HEAD_BYTES_MAX)
        // Exporters keep their connections. One whose client is gone ends.
        .keep_alive_interval(HEAD_TIME_MAX)
        .keep_alive_timeout(HEAD_TIME_MAX);
    let serving = http.serve_connection(TokioIo::new(stream), service);
    let mut serving = std::pin::pin!(serving);
    tokio::select! {
        result = serving.as_mut() => result,
        () = raised(stop) => {
            serving.as_mut().graceful_shutdown();
            serving.await
        }
    }
}

/// Whether a request is a call of gRPC.
fn is_call(headers: &HeaderMap) -> bool {
    let media_type = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
    media_type.starts_with(b"application/grpc")
}

fn only_calls() -> Response {
    let message = "HTTP/2 is taken for gRPC only; use HTTP/1.1";
    ApiError::new(StatusCode::HTTP_VERSION_NOT_SUPPORTED, message).into_response()
}

/// 503: too many connections for this request on a reserved seat.
fn too_many(open: usize) -> Response {
    let message = format!("{open} connections are open and all are busy; try again in a moment");
    ApiError::unavailable(message).retry_after(RETRY_AFTER_S).into_response()
}

/// A request, until its response is sent. Once the connection has no other one, it waits for the
/// next.
struct Working {
    seat: Arc<Seat>,
    /// Requests of the connection.
    all: Arc<Mutex<usize>>,
}

impl Working {
    fn begin(seat: &Arc<Seat>, all: &Arc<Mutex<usize>>) -> Working {
        let working = Working { seat: Arc::clone(seat), all: Arc::clone(all) };
        let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
        *all += 1;
        seat.works();
        working
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        *all -= 1;
        if *all == 0 {
            self.seat.waits();
        }
    }
}

/// The body of a response.
struct Answering {
    body: Body,
    _working: Working,
}

impl HttpBody for Answering {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
