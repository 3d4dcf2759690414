//! Lines from connections whose protocol answers: what Fluent forward, Beats and RELP share.
//!
//! A [`Protocol`] takes messages apart and says what is answered. This module does the rest: it
//! accepts connections, reads and decrypts them, hands lines on, and sends an answer once the lines
//! before it are durable. Each connection is a task of a small runtime, so a connection that waits
//! for the disk keeps no other one waiting; [`connection`] is the loop of one.
//!
//! Invariants:
//! - An answer is sent only when all lines before it on its connection are durable. If they cannot
//!   be kept, the connection is closed without it, and the sender sends them again.
//! - Memory is bounded: a message by [`MESSAGE_BYTES_MAX`], the incomplete messages of all
//!   connections of a source by [`HELD_BYTES_MAX`], lines of a connection that are not durable by
//!   [`UNACKNOWLEDGED_BYTES_MAX`]. Beyond, nothing is read, and the sender is pushed back.
//! - While the disk is full nothing is read either; senders that would give up are told that their
//!   lines are still waited for ([`Protocol::still_waiting`]).
//!
//! A task that panics is counted and logged, and ends its connection alone. Left out: what several
//! connections of one sender have in common.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use platform::Clock;
use platform::placement::{self, Role};
use record::Origin;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{Semaphore, watch};
use tokio::task::{JoinError, JoinSet};

use crate::accounting::{Accounting, DropReason, SourceCounters};
use crate::deliver::Deliver;
use crate::intake::Intake;
use crate::outlet::FRAME_AGE_AWAITED_MS;
use crate::source::{PeerLog, SourceError, canonical, run_guarded};
use crate::stream::{Identity, TcpConfig, keep_alive, listen};
use crate::tls::{Credentials, FileChecker};

#[cfg(test)]
pub(crate) mod check;
mod connection;
mod protocol;

use connection::serve;
pub use protocol::{Input, Output, PIECE_BYTES, Protocol, Step, Wrong};

/// The longest message: a chunk of Fluentd, a compressed frame of Beats, a record of RELP. A
/// longer one ends its connection.
///
/// limits.md, Lines on their way in: a message of Fluent forward, Beats or RELP | {} | the
/// connection is closed, and the log names the setting of the sender
pub const MESSAGE_BYTES_MAX: usize = 32 << 20;
/// Bytes of incomplete messages of all connections of one source.
///
/// limits.md, Lines on their way in: incomplete messages of all connections of Fluent forward, of
/// Beats, and of RELP | {} each | a connection that needs more waits ten seconds, and is then
/// closed; its sender sends the message again
const HELD_BYTES_MAX: usize = 256 << 20;
/// Lines of one connection that are not durable yet. Beyond it, its sender is not read.
///
/// limits.md, Lines on their way in: lines of a connection of Fluent forward, Beats or RELP that
/// are not durable yet | {} | its sender is not read until some are
const UNACKNOWLEDGED_BYTES_MAX: u64 = 8 << 20;
/// Connections that may hand lines on at once while that blocks.
const HANDING_ON_MAX: usize = 8;
/// If accepting fails (no file descriptor is left), it is retried after this time.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);
/// A stopping source waits this long for the answers that are due, after it has read what arrived.
const STOP_MAX: Duration = Duration::from_secs(3);

/// Makes the protocol of a new connection.
pub(crate) type MakeProtocol = Box<dyn Fn() -> Box<dyn Protocol> + Send + Sync>;

/// What a source with answers is made of.
pub(crate) struct Answered {
    pub identity: Identity,
    /// The origin of lines, without their sender.
    pub origin: Origin,
    pub protocol: MakeProtocol,
    pub config: TcpConfig,
    /// With TLS, by this certificate.
    pub credentials: Option<Arc<Credentials>>,
}

/// A listener whose connections are answered. Dropping it stops it: it stops accepting, reads what
/// has arrived (for at most a second), answers what becomes durable, and closes the connections.
pub(crate) struct AnsweredSource {
    local_addr: SocketAddr,
    stop: watch::Sender<bool>,
    failed: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    _files: Option<FileChecker>,
}

/// What the connections of one source share.
struct Shared {
    answered: Answered,
    deliver: Arc<dyn Deliver>,
    accounting: Arc<Accounting>,
    clock: Arc<dyn Clock>,
    intake: Arc<Intake>,
    /// Bytes of [`HELD_BYTES_MAX`] that are free, in KiB.
    held: Arc<Semaphore>,
    /// Who may block while handing lines on.
    handing_on: Arc<Semaphore>,
    log: Mutex<PeerLog>,
}

impl AnsweredSource {
    /// Binds the address and starts to accept.
    pub fn start(
        address: SocketAddr,
        answered: Answered,
        deliver: Arc<dyn Deliver>,
        accounting: Arc<Accounting>,
        clock: Arc<dyn Clock>,
    ) -> Result<AnsweredSource, SourceError> {
        let identity = answered.identity;
        let fails = |error| SourceError::new(identity.what, identity.flag, address, error);
        let files = answered.credentials.as_ref().map(FileChecker::start);
        let files = files.transpose().map_err(fails)?;
        let listener = listen(address).map_err(fails)?;
        let local_addr = listener.local_addr().map_err(fails)?;
        let runtime = Builder::new_multi_thread()
            .worker_threads(answered.config.threads.get())
            .max_blocking_threads(HANDING_ON_MAX)
            .thread_name(identity.thread_name)
            .on_thread_start(|| placement::enter(Role::Receiver))
            .enable_all()
            .build()
            .map_err(fails)?;
        let intake = Intake::start(
            identity.kind,
            FRAME_AGE_AWAITED_MS,
            Arc::clone(&deliver),
            Arc::clone(&accounting),
        );
        let (stop, stopped) = watch::channel(false);
        let counted = (Arc::clone(&accounting), identity.kind);
        let shared = Arc::new(Shared {
            answered,
            deliver,
            accounting,
            clock,
            intake: Arc::new(intake),
            held: Arc::new(Semaphore::new(HELD_BYTES_MAX >> 10)),
            handing_on: Arc::new(Semaphore::new(HANDING_ON_MAX)),
            log: Mutex::default(),
        });
        let failed = Arc::<AtomicBool>::default();
        let fails_later = Arc::clone(&failed);
        let thread = std::thread::Builder::new().name(identity.thread_name.to_owned());
        let work = move || {
            run_guarded(&counted, &fails_later, || run(runtime, listener, &shared, stopped));
        };
        let thread = thread.spawn(work).map_err(fails)?;
        Ok(AnsweredSource { local_addr, stop, failed, thread: Some(thread), _files: files })
    }

    /// The address it listens on, with the port the kernel chose if port 0 was requested.
    pub fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }

    /// Whether its accepting ended by a panic.
    pub fn has_failed(&self) -> bool {
        self.failed.load(Relaxed)
    }
}

impl Drop for AnsweredSource {
    fn drop(&mut self) {
        self.stop.send_replace(true);
        let ended = self.thread.take().expect("taken only here").join();
        assert!(ended.is_ok() || std::thread::panicking(), "panics are caught");
    }
}

/// The thread of the source.
fn run(
    runtime: Runtime,
    listener: std::net::TcpListener,
    shared: &Arc<Shared>,
    stopped: watch::Receiver<bool>,
) {
    if let Err(error) = runtime.block_on(accept(listener, shared, stopped)) {
        tracing::error!(%error, "{} cannot accept connections", shared.what());
    }
    shared.intake.stop();
    runtime.shutdown_background();
}

/// Accepts connections until the source stops, and waits for their end.
async fn accept(
    listener: std::net::TcpListener,
    shared: &Arc<Shared>,
    mut stopped: watch::Receiver<bool>,
) -> io::Result<()> {
    let listener = TcpListener::from_std(listener)?;
    let mut connections = JoinSet::new();
    let stopping = stopped.clone();
    loop {
        tokio::select! {
            _ = stopped.wait_for(|is_stopped| *is_stopped) => break,
            Some(ended) = connections.join_next() => shared.ended(ended),
            accepted = listener.accept() => match accepted {
                Ok((socket, sender)) => {
                    let sender = canonical(sender);
                    if shared.may_open(sender, connections.len()) {
                        connections.spawn(open(Arc::clone(shared), socket, sender, stopping.clone()));
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(error) => {
                    // The connection keeps waiting in the backlog.
                    shared.warn(shared_address(&listener), |held_back| {
                        tracing::error!(%error, held_back, "accepting a connection");
                    });
                    tokio::time::sleep(ACCEPT_RETRY).await;
                }
            },
        }
    }
    drop(listener);
    let all_ended = async {
        while let Some(ended) = connections.join_next().await {
            shared.ended(ended);
        }
    };
    if tokio::time::timeout(STOP_MAX, all_ended).await.is_err() {
        tracing::warn!("closed connections of {} whose lines are not durable", shared.what());
    }
    Ok(())
}

/// Whom messages about accepting are about.
fn shared_address(listener: &TcpListener) -> SocketAddr {
    listener.local_addr().unwrap_or_else(|_| SocketAddr::from(([0, 0, 0, 0], 0)))
}

async fn open(
    shared: Arc<Shared>,
    socket: TcpStream,
    sender: SocketAddr,
    stopped: watch::Receiver<bool>,
) {
    let counters = shared.counters();
    counters.connections_total.fetch_add(1, Relaxed);
    counters.connections_open.fetch_add(1, Relaxed);
    let _open = Open(&shared);
    let set_up = socket.set_nodelay(true).and_then(|()| keep_alive(&socket));
    if let Err(error) = set_up {
        tracing::debug!(%sender, %error, "a connection cannot be set up");
    }
    serve(&shared, socket, sender, stopped).await;
}

/// A connection that is counted as open.
struct Open<'a>(&'a Shared);

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.counters().connections_open.fetch_sub(1, Relaxed);
    }
}

impl Shared {
    fn counters(&self) -> &SourceCounters {
        self.accounting.source(self.answered.identity.kind)
    }

    fn what(&self) -> &'static str {
        self.answered.identity.what
    }

    /// Whether one more connection may be open; otherwise it is closed and counted.
    fn may_open(&self, sender: SocketAddr, open: usize) -> bool {
        let connections_max = self.answered.config.connections_max;
        if open < connections_max {
            return true;
        }
        self.counters().connections_refused.fetch_add(1, Relaxed);
        self.warn(sender, |held_back| {
            tracing::warn!(%sender, connections_max, held_back, "connection refused: too many are open");
        });
        false
    }

    /// Looks how a connection ended.
    fn ended(&self, ended: Result<(), JoinError>) {
        if ended.is_err_and(|error| error.is_panic()) {
            self.counters().threads_failed.fetch_add(1, Relaxed);
            tracing::error!(
                "a connection of {} failed because of a bug in Loginson; its sender sends again what was not answered; \
                 please report the messages before this line",
                self.what()
            );
        }
    }

    /// Counts something that is not kept, of which `bytes` bytes are known.
    fn reject(&self, lines: u64, bytes: u64) {
        let counters = self.counters();
        counters.received(lines, bytes);
        counters.dropped(DropReason::BadRequest, lines);
        counters.dropped_bytes(DropReason::BadRequest, bytes);
    }

    /// Logs a message about a sender, unless there was one a moment ago.
    fn warn(&self, sender: SocketAddr, message: impl FnOnce(u64)) {
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(held_back) = log.pass(sender.ip()) {
            message(held_back);
        }
    }
}
