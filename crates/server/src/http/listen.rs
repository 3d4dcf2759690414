//! Accepts connections and serves the router on them, with limits on their number, their heads and their silence.
//!
//! A client that takes no byte of an answer for so long (`query.client_idle_max`) loses its connection: the kernel sees to
//! that (TCP_USER_TIMEOUT), as only it knows what the other side took. So each answer gives its place back at the end:
//! of a query in the queue, of a page of results, of a connection.
//!
//! Left out: TLS and HTTP/2; put a proxy in front for them.

mod watched;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use axum::Router;
use axum::extract::ConnectInfo;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};

pub use watched::client_has_stalled;
use watched::{STALLED, Watched};

/// Connections at a time. Further ones wait in the kernel's backlog until one ends.
const CONNECTIONS_MAX: usize = 1024;
/// Time to send a request's head, also the longest a kept-alive connection may be idle. Then it is closed.
const HEAD_TIME_MAX: Duration = Duration::from_secs(30);
/// Bytes read at once of a connection that sends much; one that sends little has a buffer of 8 KiB. Also bounds a
/// request's head, query text in the address included: one twice as long, at the latest, is answered with 431; long
/// queries are sent as a form.
const READ_BYTES_MAX: usize = 256 << 10;
/// Pause after the system refused a connection, for instance because no file handle was left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// Time that running requests get at shutdown.
pub const SHUTDOWN_TIME_MAX: Duration = Duration::from_secs(5);

/// What is asked of all clients.
#[derive(Clone, Debug)]
pub struct Clients {
    /// The longest that one may take nothing of its answer, above zero.
    pub idle_max: Duration,
    /// Connections that were ended by that.
    pub stalled: Arc<AtomicU64>,
}

impl Clients {
    /// None was slow yet.
    pub fn new(idle_max: Duration) -> Clients {
        Clients { idle_max, stalled: Arc::default() }
    }
}

/// Serves until `stop` becomes true, then lets running requests end.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    clients: Clients,
    stop: watch::Receiver<bool>,
) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let mut stopping = stop.clone();
    loop {
        let place = places.clone().acquire_owned().await.expect("never closed");
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = raised(&mut stopping) => break,
        };
        match accepted {
            Ok((stream, peer)) => {
                let stream = Watched::new(stream, peer, &clients);
                let stalled = stream.stalled();
                let connection = connection(stream, peer, router.clone(), stop.clone());
                tokio::spawn(async move {
                    STALLED.scope(stalled, connection).await;
                    drop(place);
                });
            }
            Err(error) => {
                tracing::warn!("cannot accept an HTTP connection: {error}");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    drop(listener);
    // All places free again: every connection has ended.
    let ended = places.acquire_many(CONNECTIONS_MAX as u32);
    if tokio::time::timeout(SHUTDOWN_TIME_MAX, ended).await.is_err() {
        tracing::info!("some HTTP requests still ran at shutdown and were cut off");
    }
}

/// Returns once the server is told to stop.
pub async fn raised(stop: &mut watch::Receiver<bool>) {
    // An error means that the sender is gone, which is the end as well.
    let _ = stop.wait_for(|stop| *stop).await;
}

async fn connection(
    stream: Watched,
    peer: SocketAddr,
    router: Router,
    mut stop: watch::Receiver<bool>,
) {
    let service = TowerToHyperService::new(router);
    let with_peer = service_fn(move |mut request: hyper::Request<Incoming>| {
        request.extensions_mut().insert(ConnectInfo(peer));
        service.call(request)
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEAD_TIME_MAX).max_buf_size(READ_BYTES_MAX);
    let serving = http.serve_connection(TokioIo::new(stream), with_peer).with_upgrades();
    let mut serving = std::pin::pin!(serving);
    let result = tokio::select! {
        result = serving.as_mut() => result,
        () = raised(&mut stop) => {
            serving.as_mut().graceful_shutdown();
            serving.await
        }
    };
    if let Err(error) = result {
        tracing::debug!("HTTP connection from {peer}: {error}");
    }
}
