//! The listener of a store: receives frames from collectors and passes each to the store once.
//!
//! Threads: `nodes` serves all connections; `nodes-keep` waits for the store if necessary. So a
//! store that lags, or whose disk is full, stops the reading of frames, while connections are kept
//! alive and collectors learn the reason.
//!
//! An unauthenticated peer gets few resources: until a collector has proved that it knows the
//! secret, its connection has a few bytes of memory, ends after
//! [`GREETING_MAX`](connection::GREETING_MAX), and is one of
//! [`UNGREETED_MAX`](server::UNGREETED_MAX), of which the oldest is closed when another arrives.
//! Collectors that know the secret need a single exchange, so they get in. Without a secret anyone
//! who reaches the listener is a collector: that is meant for loopback.
//!
//! Impossible receive times are set to now and counted; see
//! [`Shared::correct_times`](shared::Shared::correct_times).
//!
//! Invariants: a frame is acknowledged when the store reported it durable, never before; memory for
//! frames that are being read is bounded by [`READING_BYTES_MAX`](connection::READING_BYTES_MAX),
//! for waiting frames by [`WAITING_BYTES_MAX`](shared::WAITING_BYTES_MAX).
//!
//! A thread that panics is counted and logged, and ends the other thread and all connections:
//! collectors keep frames that were not acknowledged, and resend them. [`NodeListener::has_failed`]
//! returns true only when none of its frames is in flight any more. From then on the store knows
//! each number that it has, and a new listener stores none twice.

mod connection;
mod server;
mod shared;
#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Acquire, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use mio::net::TcpListener;
use mio::{Interest, Poll, Token, Waker};
use platform::{Clock, RealClock};
use record::{Frame, NodeIdentity, Numbers};

use super::lock;
use super::secret::Secret;
use super::status::CollectorStatus;
use crate::accounting::{Accounting, DropReason};
use crate::deliver::{KeepError, OnDurable};
use crate::source::SourceError;

use server::Server;
use shared::Shared;

/// Connections open at once. Further ones are closed at once, and counted.
pub const CONNECTIONS_MAX: usize = 256;
/// How often connections are checked when nothing happens.
const TICK: Duration = Duration::from_secs(1);

const WAKER: Token = Token(0);
const LISTENER: Token = Token(1);

/// Keeps the frames of collectors, each once.
pub trait NodeStore: Send + Sync {
    /// The store's node id.
    fn id(&self) -> u32;
    /// Admits a collector; returns the numbers that are stored, which include all before `first`.
    /// An error is sent to the collector.
    fn admit(&self, identity: &NodeIdentity, first: u64) -> Result<Numbers, String>;
    /// Makes a frame with a new number durable. Waits as long as there is no room. The numbers that
    /// [`admit`](Self::admit) returns include this one before `on_durable` is called.
    fn keep(&self, frame: Frame, on_durable: OnDurable) -> Result<(), KeepError>;
    /// The numbers of a collector's frames that are stored.
    fn held(&self, _node: u32) -> Numbers {
        Numbers::new()
    }
    /// Counts numbers as stored, whose frames another copy has taken, and of which nothing is left.
    fn note_taken(&self, _node: u32, _numbers: &Numbers) {}
    /// Notes that a connection of an admitted collector has ended: called once per admission.
    fn leave(&self, _node: u32) {}
    /// Why lines are not taken at present, if so.
    fn refusal(&self) -> Option<KeepError>;
}

/// Configuration of the listener for collectors.
#[derive(Clone)]
pub struct NodeListenConfig {
    /// The address to listen on.
    pub address: SocketAddr,
    /// The secret that store and collectors prove to each other. Without one, anyone who connects
    /// is a collector.
    pub secret: Option<Arc<Secret>>,
    /// Used to detect impossible receive times.
    pub clock: Arc<dyn Clock>,
}

impl NodeListenConfig {
    /// A configuration without a secret.
    pub fn new(address: SocketAddr) -> NodeListenConfig {
        NodeListenConfig { address, secret: None, clock: Arc::new(RealClock::new()) }
    }
}

/// Listens for collectors. Dropping it closes their connections, and returns when all frames that
/// were read are with the store.
pub struct NodeListener {
    address: SocketAddr,
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

impl NodeListener {
    /// Starts to listen.
    pub fn start(
        config: NodeListenConfig,
        store: Arc<dyn NodeStore>,
        accounting: Arc<Accounting>,
    ) -> Result<NodeListener, SourceError> {
        let NodeListenConfig { address, secret, clock } = config;
        let failed =
            |error| SourceError::new("frames of collectors", "--node-listen", address, error);
        let mut listener = TcpListener::bind(address).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let poll = Poll::new().map_err(failed)?;
        let waker = Waker::new(poll.registry(), WAKER).map_err(failed)?;
        poll.registry().register(&mut listener, LISTENER, Interest::READABLE).map_err(failed)?;
        let shared = Arc::new(Shared {
            store,
            accounting,
            waker,
            woken: AtomicBool::new(false),
            stopped: AtomicBool::new(false),
            failed: AtomicBool::new(false),
            on_their_way: AtomicUsize::new(0),
            ledger: Mutex::default(),
            waiting: Mutex::default(),
            changed: Condvar::new(),
            collectors: Mutex::default(),
            secret,
            clock,
            times_log: Mutex::default(),
        });
        let thread = |name: &'static str, work: Box<dyn FnOnce() + Send>| {
            let fails = Arc::clone(&shared);
            let caught = move || {
                // What `work` owns is dropped with it; what it shares is behind locks and
                // consistent.
                if catch_unwind(AssertUnwindSafe(work)).is_err() {
                    fails.has_panicked(name);
                }
            };
            std::thread::Builder::new().name(name.to_owned()).spawn(caught).map_err(failed)
        };
        let (keeping, serving) = (Arc::clone(&shared), Arc::clone(&shared));
        let keep = thread("nodes-keep", Box::new(move || keeping.keep_frames()))?;
        let serve = thread("nodes", Box::new(move || Server::new(serving, poll, listener).run()))?;
        Ok(NodeListener { address, shared, threads: vec![serve, keep] })
    }

    /// The address it listens on.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Whether a thread has panicked, and a new listener may take its place.
    pub fn has_failed(&self) -> bool {
        // The threads are checked first: their frames are counted as in flight before they end.
        self.shared.failed.load(Relaxed)
            && self.threads.iter().all(JoinHandle::is_finished)
            && self.shared.on_their_way.load(Acquire) == 0
    }

    /// Keeps frames that another copy has.
    pub fn filler(&self) -> Filler {
        Filler(Arc::clone(&self.shared))
    }

    /// The collectors that connected since this listener was started, by id.
    pub fn collectors(&self) -> Vec<CollectorStatus> {
        lock(&self.shared.collectors).values().cloned().collect()
    }
}

/// Keeps frames of collectors that another copy has; see [`NodeListener::filler`].
pub struct Filler(Arc<Shared>);

impl Filler {
    /// Keeps frames of a collector, except those that came before; then counts the numbers of
    /// `taken` as stored, of whose frames nothing may be left in the other copy. Blocks until all
    /// are durable. Returns how many were kept.
    ///
    /// Errors: a frame is not one of the collector; the store does not take it.
    pub fn fill(&self, node: u32, frames: Vec<Frame>, taken: &Numbers) -> Result<u64, KeepError> {
        self.0.fill(node, frames, taken)
    }
}

impl Drop for NodeListener {
    fn drop(&mut self) {
        self.shared.stopped.store(true, Relaxed);
        self.shared.wake();
        let mut threads = std::mem::take(&mut self.threads).into_iter();
        let joined = threads.next().is_none_or(|serve| serve.join().is_ok());
        self.shared.close();
        let joined = threads.all(|keep| keep.join().is_ok()) && joined;
        self.shared.give_back(DropReason::WriteFailed);
        assert!(joined || std::thread::panicking(), "panics are caught");
    }
}
