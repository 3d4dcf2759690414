//! The listener of a store: takes frames of collectors and hands each to the store once.
//!
//! Threads: `nodes` for all connections, `nodes-keep` which waits for the store where it must. So a
//! store that is behind, or whose disk is full, stops the reading of frames, while connections are
//! kept up and told why.
//!
//! A stranger gets little: until a collector has proved that it knows the secret, its connection
//! has a few bytes of memory, ends after [`GREETING_MAX`], and is one of [`UNGREETED_MAX`], of
//! which the oldest goes when another comes; so those who know the secret, and need one exchange,
//! get in. Without a secret whoever reaches the listener is a collector: it is for loopback.
//!
//! Receive times that cannot be are set to now and counted; see [`Shared::correct_times`].
//!
//! Invariants: a frame is acknowledged when the store said that it is durable, never before; memory
//! for frames that are being read is bounded by [`READING_BYTES_MAX`], for those that wait by
//! [`WAITING_BYTES_MAX`].
//!
//! A thread that panics is counted and told, and ends the other and all connections: collectors
//! keep what was not acknowledged, and send it again. [`NodeListener::has_failed`] says so once
//! nothing of it is on its way to the disk any more: from then on the store knows each number that
//! it has, and a new listener takes none twice.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{
    AtomicBool, AtomicUsize, Ordering::Acquire, Ordering::Relaxed, Ordering::Release,
};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token, Waker};
use platform::{Clock, RealClock};
use record::{Frame, Numbers};

use super::lane::{KEEPALIVE, SILENCE_MAX};
use super::lock;
use super::secret::{self, Secret};
use super::session::{Brought, Ledger, Session};
use super::status::CollectorStatus;
use super::wire::{self, NodeIdentity, StoreHealth, ToCollector};
use crate::accounting::{Accounting, DropReason, SourceKind};
use crate::deliver::{KeepError, OnDurable};
use crate::source::{LogLimit, PeerLog, SourceError, canonical};

/// Connections open at once. Beyond, a new one is closed at once, and counted.
pub const CONNECTIONS_MAX: usize = 256;
/// Connections of one address, open at once: more than the nodes that a store takes, so that all
/// may come through one tunnel. Beyond, a new one is closed at once, and counted.
const CONNECTIONS_PER_ADDRESS_MAX: usize = 192;
/// Collectors that are shown although they are away and brought nothing.
const COLLECTORS_SHOWN: usize = 256;
/// Connections of one node. A new one ends the oldest beyond: those are of a network that was cut,
/// and silent.
const CONNECTIONS_PER_NODE_MAX: usize = 4;
/// Connections that were not admitted yet. Beyond, the oldest of them is closed.
const UNGREETED_MAX: usize = 64;
/// The same, of one address.
const UNGREETED_PER_ADDRESS_MAX: usize = 16;
/// Bytes of frames that wait for the store. Beyond, no more are read.
const WAITING_BYTES_MAX: usize = 64 << 20;
/// Bytes of frames that are being read, of all connections. Beyond, a further frame is not read
/// past its header before one of them is complete; one frame is always read.
const READING_BYTES_MAX: usize = 128 << 20;
/// A frame must be complete after so long,
const FRAME_TIME: Duration = Duration::from_secs(120);
/// and so much longer, by its bytes. While the store takes nothing the time stands still.
const FRAME_BYTES_PER_S_MIN: u64 = 16 << 10;
/// How much later than now a frame may say that its lines came: clocks differ. Beyond, they came
/// now.
const FUTURE_MAX_NS: i64 = 60 * 1_000_000_000;
/// Lines that came before 2000 did not: a machine without a clock begins in 1970. They came now.
const RECEIVED_MIN_NS: i64 = 946_684_800 * 1_000_000_000;
/// Bytes read from one connection before the next one's turn.
const TURN_BYTES: usize = 8 << 20;
/// Bytes that are read and forgotten of a connection that is refused.
const UNREAD_MAX: u64 = 1 << 20;
/// A connection must have said who it is after so long.
const GREETING_MAX: Duration = Duration::from_secs(10);
/// Bytes that wait to be written to a connection. Beyond, it is told less often what is durable:
/// one acknowledgement stands for all before it.
const OUT_BYTES_MAX: usize = 4 << 10;
/// How often it is asked whether there is room on the disk again.
const RETRY: Duration = Duration::from_millis(100);
/// How often connections are looked at when nothing happens.
const TICK: Duration = Duration::from_secs(1);

const WAKER: Token = Token(0);
const LISTENER: Token = Token(1);
/// Connections follow.
const FIRST: usize = 2;

/// Keeps frames of collectors, each once.
pub trait NodeStore: Send + Sync {
    /// The store's node id.
    fn id(&self) -> u32;
    /// Takes a collector up; gives the numbers that are there, those before `first` included. An
    /// error is told to it.
    fn admit(&self, identity: &NodeIdentity, first: u64) -> Result<Numbers, String>;
    /// Makes a frame durable whose number did not come before. Waits as long as there is no room.
    /// The numbers that [`admit`](Self::admit) gives have this one before `on_durable` is called.
    fn keep(&self, frame: Frame, on_durable: OnDurable) -> Result<(), KeepError>;
    /// Notes that a connection of a collector that was admitted has ended: once for each time that
    /// it was.
    fn leave(&self, _node: u32) {}
    /// Whether it takes lines at present.
    fn refusal(&self) -> Option<KeepError>;
}

/// How collectors are listened for.
#[derive(Clone)]
pub struct NodeListenConfig {
    /// Where.
    pub address: SocketAddr,
    /// What collectors must know, and are proved to be known. Without one, whoever connects is a
    /// collector.
    pub secret: Option<Arc<Secret>>,
    /// Tells which receive times cannot be.
    pub clock: Arc<dyn Clock>,
}

impl NodeListenConfig {
    /// Without a secret.
    pub fn new(address: SocketAddr) -> NodeListenConfig {
        NodeListenConfig { address, secret: None, clock: Arc::new(RealClock::new()) }
    }
}

/// Listens for collectors. Dropping it closes their connections, and returns when what was read is
/// with the store.
pub struct NodeListener {
    address: SocketAddr,
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

struct Shared {
    store: Arc<dyn NodeStore>,
    accounting: Arc<Accounting>,
    waker: Waker,
    /// Frames became durable, or there is room again; the waker was told.
    woken: AtomicBool,
    stopped: AtomicBool,
    failed: AtomicBool,
    /// Frames that were handed to the store, which has not said yet what became of them.
    on_their_way: AtomicUsize,
    ledger: Mutex<Ledger>,
    waiting: Mutex<WaitingFrames>,
    changed: Condvar,
    collectors: Mutex<BTreeMap<u32, CollectorStatus>>,
    secret: Option<Arc<Secret>>,
    clock: Arc<dyn Clock>,
    times_log: Mutex<LogLimit>,
}

#[derive(Default)]
struct WaitingFrames {
    frames: VecDeque<Frame>,
    bytes: usize,
    closed: bool,
}

impl NodeListener {
    /// Begins to listen.
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
                // What `work` owns is dropped with it; what it shares is behind locks, and whole.
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

    /// Where it listens.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Whether a thread has panicked, and a new listener may take its place.
    pub fn has_failed(&self) -> bool {
        // The threads first: what they hand on is on its way before they end.
        self.shared.failed.load(Relaxed)
            && self.threads.iter().all(JoinHandle::is_finished)
            && self.shared.on_their_way.load(Acquire) == 0
    }

    /// The collectors that were here since this listener was started, by id.
    pub fn collectors(&self) -> Vec<CollectorStatus> {
        lock(&self.shared.collectors).values().cloned().collect()
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

impl Shared {
    fn wake(&self) {
        if !self.woken.swap(true, Relaxed)
            && let Err(error) = self.waker.wake()
        {
            tracing::error!(%error, "the thread for collectors could not be woken");
        }
    }

    /// No more frames come to wait.
    fn close(&self) {
        lock(&self.waiting).closed = true;
        self.changed.notify_all();
    }

    fn has_panicked(&self, thread: &str) {
        tracing::error!(
            "thread {thread} failed by a fault of Loginson; collectors keep their frames and send them again once it is \
             started again; please report what stands before this line"
        );
        self.fail();
    }

    /// Without one thread the other is of no use: what waits is sent again.
    fn fail(&self) {
        self.accounting.source(SourceKind::Node).threads_failed.fetch_add(1, Relaxed);
        self.stopped.store(true, Relaxed);
        self.wake();
        self.close();
        self.failed.store(true, Relaxed);
    }

    /// Drops the frames that wait, when no thread brings or takes any more: the collectors have
    /// them still.
    fn give_back(&self, reason: DropReason) {
        let counters = self.accounting.source(SourceKind::Node);
        let mut waiting = lock(&self.waiting);
        waiting.bytes = 0;
        for frame in waiting.frames.drain(..) {
            counters.dropped(reason, u64::from(frame.header().lines));
            counters.dropped_bytes(reason, frame.line_bytes());
        }
    }

    /// The thread that waits for the store.
    fn keep_frames(self: Arc<Self>) {
        let mut log_limit = LogLimit::default();
        while let Some(frame) = self.next_to_keep() {
            let bytes = frame.bytes().len();
            if let Err(error) = self.keep(frame)
                && let Some(held_back) = log_limit.pass()
            {
                // The collector has it still.
                tracing::warn!(%error, held_back, "a frame of a collector was not kept; it is sent again");
            }
            let mut waiting = lock(&self.waiting);
            let was_full = waiting.bytes >= WAITING_BYTES_MAX;
            waiting.bytes -= bytes;
            if was_full && waiting.bytes < WAITING_BYTES_MAX {
                self.wake();
            }
        }
    }

    /// Waits for a frame, and until the disk has room for it. None at the end: frames that wait
    /// then are not acknowledged, and sent again to whoever is here next.
    fn next_to_keep(&self) -> Option<Frame> {
        let mut waiting = lock(&self.waiting);
        loop {
            let disk_full = self.store.refusal() == Some(KeepError::DiskFull);
            if waiting.closed && (disk_full || waiting.frames.is_empty()) {
                drop(waiting);
                self.give_back(DropReason::ShuttingDown);
                return None;
            }
            if !disk_full && let Some(frame) = waiting.frames.pop_front() {
                return Some(frame);
            }
            let waited = self.changed.wait_timeout(waiting, if disk_full { RETRY } else { TICK });
            waiting = waited.unwrap_or_else(std::sync::PoisonError::into_inner).0;
        }
    }

    fn keep(self: &Arc<Self>, frame: Frame) -> Result<(), KeepError> {
        let mut handed = Handed::new(self, &frame);
        let on_durable = move |result: Result<(), KeepError>| match result {
            Ok(()) => handed.is_durable(),
            // Only at the end; it is sent again to whoever is there then.
            Err(_) => handed.lost = DropReason::ShuttingDown,
        };
        self.store.keep(frame, Box::new(on_durable))
    }

    /// Lines that are to come, or came before there were any, would outlive retention or be deleted
    /// by it at once.
    fn correct_times(&self, frame: &mut Frame, peer: SocketAddr) {
        let now_ns = self.clock.now_ns();
        let range = (RECEIVED_MIN_NS, now_ns.saturating_add(FUTURE_MAX_NS));
        let lines = frame.clamp_received(range, now_ns);
        if lines > 0
            && let Some(held_back) = lock(&self.times_log).pass()
        {
            let node = frame.header().node;
            tracing::warn!(
                held_back,
                "collector {node:08x} at {peer} says of {lines} lines that they came in the \
                 future, or before the year 2000; they \
                 are kept as received now; set the clock of its machine"
            );
        }
    }

    fn health(&self) -> StoreHealth {
        match self.store.refusal() {
            None => StoreHealth::Ok,
            Some(KeepError::DiskFull) => StoreHealth::DiskFull,
            Some(_) => StoreHealth::Failing,
        }
    }

    fn is_full(&self) -> bool {
        lock(&self.waiting).bytes >= WAITING_BYTES_MAX
    }
}

/// A frame in the hands of the store. It is on its way until this is dropped, also by a panic.
struct Handed {
    shared: Arc<Shared>,
    node: u32,
    number: u64,
    frame_bytes: u64,
    lines: u64,
    line_bytes: u64,
    kept: bool,
    /// Why it is not kept, if it is not.
    lost: DropReason,
}

impl Handed {
    fn new(shared: &Arc<Shared>, frame: &Frame) -> Handed {
        shared.on_their_way.fetch_add(1, Relaxed);
        let header = frame.header();
        Handed {
            shared: Arc::clone(shared),
            node: header.node,
            number: header.sequence,
            frame_bytes: frame.bytes().len() as u64,
            lines: u64::from(header.lines),
            line_bytes: frame.line_bytes(),
            kept: false,
            lost: DropReason::WriteFailed,
        }
    }

    fn is_durable(&mut self) {
        self.kept = true;
        let shared = &self.shared;
        shared.accounting.source(SourceKind::Node).kept(self.lines, self.line_bytes);
        if let Some(status) = lock(&shared.collectors).get_mut(&self.node) {
            status.frames += 1;
            status.lines += self.lines;
            status.bytes += self.frame_bytes;
        }
        lock(&shared.ledger).set_durable(self.node, self.number);
        shared.wake();
    }
}

impl Drop for Handed {
    fn drop(&mut self) {
        if !self.kept {
            let counters = self.shared.accounting.source(SourceKind::Node);
            counters.dropped(self.lost, self.lines);
            counters.dropped_bytes(self.lost, self.line_bytes);
        }
        self.shared.on_their_way.fetch_sub(1, Release);
    }
}

/// The thread of all connections.
struct Server {
    shared: Arc<Shared>,
    poll: Poll,
    listener: TcpListener,
    connections: BTreeMap<usize, Connection>,
    next_token: usize,
    /// Accepting failed, and no event will tell when it may go again.
    accept_again: bool,
    /// Bytes of frames that are being read.
    reading_bytes: usize,
    log_limit: LogLimit,
    peer_log: PeerLog,
}

struct Connection {
    stream: TcpStream,
    peer: SocketAddr,
    session: Session,
    out: VecDeque<u8>,
    begun: Instant,
    heard: Instant,
    said: Instant,
    /// The socket may have more to read.
    readable: bool,
    /// Bytes of the frame that is being read, which are counted for all connections.
    reading_bytes: usize,
    /// When that frame must be complete.
    frame_until: Instant,
}

impl Server {
    fn new(shared: Arc<Shared>, poll: Poll, listener: TcpListener) -> Server {
        Server {
            shared,
            poll,
            listener,
            connections: BTreeMap::new(),
            next_token: FIRST,
            accept_again: false,
            reading_bytes: 0,
            log_limit: LogLimit::default(),
            peer_log: PeerLog::default(),
        }
    }

    fn run(mut self) {
        let mut events = Events::with_capacity(256);
        while !self.shared.stopped.load(Relaxed) {
            let reading = self.reading_bytes;
            let may_read = |c: &Connection| c.readable && c.has_room(reading);
            let more = !self.shared.is_full() && self.connections.values().any(may_read);
            let wait = if more { Duration::ZERO } else { TICK };
            match self.poll.poll(&mut events, Some(wait)) {
                Err(error) if error.kind() != ErrorKind::Interrupted => {
                    tracing::error!(%error, "waiting for collectors failed; the listener is started again");
                    self.shared.fail();
                    return;
                }
                _ => {}
            }
            for event in &events {
                match event.token() {
                    LISTENER => self.accept(),
                    WAKER => {}
                    Token(token) => {
                        if let Some(connection) = self.connections.get_mut(&token) {
                            connection.readable |= event.is_readable();
                        }
                    }
                }
            }
            self.shared.woken.store(false, Relaxed);
            if self.accept_again {
                self.accept();
            }
            self.serve();
        }
    }

    fn accept(&mut self) {
        self.accept_again = false;
        loop {
            let (mut stream, peer) = match self.listener.accept() {
                Ok(accepted) => accepted,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) => {
                    if let Some(held_back) = self.log_limit.pass() {
                        tracing::warn!(%error, held_back, "a collector's connection could not be accepted");
                    }
                    self.accept_again = true;
                    return;
                }
            };
            let interest = Interest::READABLE | Interest::WRITABLE;
            let token = self.next_token;
            let peer = canonical(peer);
            let full = !self.make_room(peer);
            let counters = self.shared.accounting.source(SourceKind::Node);
            if full || self.poll.registry().register(&mut stream, Token(token), interest).is_err() {
                counters.connections_refused.fetch_add(1, Relaxed);
                continue;
            }
            let _ = stream.set_nodelay(true);
            counters.connections_total.fetch_add(1, Relaxed);
            counters.connections_open.fetch_add(1, Relaxed);
            self.next_token += 1;
            let now = Instant::now();
            let connection = Connection {
                stream,
                peer,
                session: Session::new(self.shared.secret.clone()),
                out: VecDeque::new(),
                begun: now,
                heard: now,
                said: now,
                readable: true,
                reading_bytes: 0,
                frame_until: now,
            };
            self.connections.insert(token, connection);
        }
    }

    /// Whether another connection of this peer may be opened. Makes room by the oldest that has not
    /// said who it is.
    fn make_room(&mut self, peer: SocketAddr) -> bool {
        let is_its = |c: &Connection| c.peer.ip() == peer.ip();
        let is_ungreeted = |c: &Connection| c.session.node().is_none();
        let oldest = |is: &dyn Fn(&Connection) -> bool, max: usize| {
            let mut those = self.connections.iter().filter(|(_, c)| is(c)).map(|(token, _)| *token);
            // Tokens grow.
            let first = those.next();
            first.filter(|_| 1 + those.count() >= max)
        };
        let of_peer = |c: &Connection| is_its(c) && is_ungreeted(c);
        let goes = oldest(&of_peer, UNGREETED_PER_ADDRESS_MAX)
            .or_else(|| oldest(&is_ungreeted, UNGREETED_MAX))
            .or_else(|| oldest(&is_ungreeted, 1).filter(|_| self.is_crowded(peer)));
        if let Some(token) = goes {
            let text = "others wait; say who you are in time".to_owned();
            self.close(token, refused(text));
        }
        !self.is_crowded(peer)
    }

    fn is_crowded(&self, peer: SocketAddr) -> bool {
        let of_peer = self.connections.values().filter(|c| c.peer.ip() == peer.ip()).count();
        self.connections.len() >= CONNECTIONS_MAX || of_peer >= CONNECTIONS_PER_ADDRESS_MAX
    }

    /// Reads what came, tells what is durable, writes, and closes what is to be closed.
    fn serve(&mut self) {
        let shared = Arc::clone(&self.shared);
        let health = shared.health();
        let mut closed = Vec::new();
        let mut admitted = Vec::new();
        for (&token, connection) in &mut self.connections {
            let was_admitted = connection.session.node();
            let served = connection
                .read(&shared, &mut self.reading_bytes)
                .and_then(|()| connection.tell(&shared, health))
                .and_then(|()| connection.write());
            if let Some(node) = connection.session.node()
                && was_admitted.is_none()
            {
                admitted.push(node);
            }
            if let Err(end) = served {
                closed.push((token, end));
            }
        }
        for (token, end) in closed {
            self.close(token, end);
        }
        for node in admitted {
            let mut tokens =
                self.connections.iter().filter(|(_, c)| c.session.node() == Some(node));
            let oldest = tokens.next().map(|(token, _)| *token);
            if 1 + tokens.count() > CONNECTIONS_PER_NODE_MAX
                && let Some(oldest) = oldest
            {
                self.close(oldest, refused("the collector has connected again".to_owned()));
            }
        }
    }

    fn close(&mut self, token: usize, end: End) {
        let shared = &self.shared;
        let mut connection = self.connections.remove(&token).expect("it was there");
        connection.end(&end);
        self.reading_bytes -= connection.reading_bytes;
        let counters = shared.accounting.source(SourceKind::Node);
        counters.connections_open.fetch_sub(1, Relaxed);
        let node = connection.session.node();
        if let Some(node) = node {
            shared.store.leave(node);
            let mut collectors = lock(&shared.collectors);
            if let Some(status) = collectors.get_mut(&node) {
                status.connections -= 1;
                let is_away = status.connections == 0;
                // One that brought nothing is forgotten: there may be any number of them.
                if is_away && status.frames == 0 && collectors.len() > COLLECTORS_SHOWN {
                    collectors.remove(&node);
                }
                if is_away {
                    lock(&shared.ledger).forget_empty(node);
                }
            }
        }
        let peer = connection.peer;
        match (end, node) {
            (End::Closed, Some(node)) => {
                tracing::info!("collector {node:08x} at {peer} closed its connection");
            }
            (End::Closed, None) => {}
            (End::Refused { text, is_of_secret, .. }, _) => {
                if is_of_secret {
                    counters.handshakes_failed.fetch_add(1, Relaxed);
                }
                if let Some(held_back) = self.peer_log.pass(peer.ip()) {
                    tracing::warn!(held_back, "connection from {peer} closed: {text}");
                }
            }
            (End::Silent | End::Broken(_), _) => {
                if let Some(held_back) = self.peer_log.pass(peer.ip()) {
                    tracing::warn!(held_back, "connection from {peer} is lost");
                }
            }
        }
    }
}

impl Drop for Server {
    /// By a panic too.
    fn drop(&mut self) {
        for node in self.connections.values().filter_map(|c| c.session.node()) {
            self.shared.store.leave(node);
        }
        let open = self.connections.len() as u64;
        let counters = self.shared.accounting.source(SourceKind::Node);
        counters.connections_open.fetch_sub(open, Relaxed);
    }
}

/// Why a connection ends.
enum End {
    /// By the other side, in good order.
    Closed,
    /// Nothing was heard.
    Silent,
    /// By an error of the network.
    Broken(#[expect(dead_code, reason = "for debugging")] std::io::Error),
    /// What came was not taken.
    Refused { text: String, is_http: bool, is_of_secret: bool },
}

fn refused(text: String) -> End {
    End::Refused { text, is_http: false, is_of_secret: false }
}

impl Connection {
    /// Whether the frame that is being read may be read on, with so many bytes being read of all.
    fn has_room(&self, reading_bytes: usize) -> bool {
        let more = self.session.reader.frame_bytes() - self.reading_bytes;
        more == 0 || reading_bytes == 0 || reading_bytes + more <= READING_BYTES_MAX
    }

    fn read(&mut self, shared: &Arc<Shared>, reading_bytes: &mut usize) -> Result<(), End> {
        let mut turn = TURN_BYTES;
        while self.readable && turn > 0 && !shared.is_full() && self.has_room(*reading_bytes) {
            let frame_bytes = self.session.reader.frame_bytes();
            if frame_bytes > self.reading_bytes {
                *reading_bytes += frame_bytes - self.reading_bytes;
                self.reading_bytes = frame_bytes;
                let more = Duration::from_secs(frame_bytes as u64 / FRAME_BYTES_PER_S_MIN);
                self.frame_until = Instant::now() + FRAME_TIME + more;
            }
            let wanted = self.session.reader.wanted();
            let buffer = self.session.reader.buffer();
            let before = buffer.len();
            let result = (&self.stream).take(wanted as u64).read_to_end(buffer);
            let count = buffer.len() - before;
            turn = turn.saturating_sub(count);
            match result {
                Ok(_) if count < wanted => return Err(End::Closed),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.readable = false,
                Err(error) => return Err(End::Broken(error)),
            }
            if count > 0 {
                self.heard = Instant::now();
                let taken = self.take(shared);
                if self.session.reader.frame_bytes() == 0 {
                    *reading_bytes -= std::mem::take(&mut self.reading_bytes);
                }
                taken?;
            }
        }
        if shared.is_full() || !self.has_room(*reading_bytes) {
            // Nobody listens to it at present.
            self.heard = Instant::now();
            self.frame_until = self.frame_until.max(self.heard + FRAME_TIME);
        }
        Ok(())
    }

    fn take(&mut self, shared: &Arc<Shared>) -> Result<(), End> {
        let is_http =
            self.session.node().is_none() && wire::is_http_request(self.session.reader.buffer());
        let brought = self.session.take();
        let end = |error: wire::WireError| {
            let is_of_secret = error.is_of_secret();
            End::Refused { text: error.to_string(), is_http, is_of_secret }
        };
        match brought.map_err(end)? {
            None | Some(Brought::Keepalive) => {}
            Some(Brought::Hello) => {
                self.out.extend(self.session.welcome(shared.store.id(), secret::nonce()));
            }
            Some(Brought::Start { identity, first }) => self.admit(identity, first, shared)?,
            Some(Brought::Frame(frame)) => self.hand_over(*frame, shared)?,
        }
        Ok(())
    }

    fn admit(&mut self, identity: NodeIdentity, first: u64, shared: &Shared) -> Result<(), End> {
        let node = identity.node;
        let held = shared.store.admit(&identity, first).map_err(refused)?;
        let mut ledger = lock(&shared.ledger);
        ledger.add_held(node, &held);
        ledger.forget_below(node, first);
        self.out.extend(self.session.admitted(first, &ledger));
        drop(ledger);
        let mut collectors = lock(&shared.collectors);
        let status = collectors.entry(node).or_insert_with(|| CollectorStatus {
            node,
            address: self.peer,
            connections: 0,
            frames: 0,
            lines: 0,
            bytes: 0,
            duplicates: 0,
            heard: self.heard,
        });
        status.address = self.peer;
        status.connections += 1;
        tracing::info!("collector {node:08x} at {} is connected", self.peer);
        Ok(())
    }

    fn hand_over(&mut self, mut frame: Frame, shared: &Shared) -> Result<(), End> {
        let header = frame.header();
        let is_new = {
            let mut ledger = lock(&shared.ledger);
            if !ledger.has_room(header.node) {
                return Err(refused("too many gaps between the numbers of its frames".to_owned()));
            }
            ledger.take(header.node, header.sequence)
        };
        if let Some(status) = lock(&shared.collectors).get_mut(&header.node) {
            status.heard = self.heard;
            status.duplicates += u64::from(!is_new);
        }
        if !is_new {
            return Ok(());
        }
        let counters = shared.accounting.source(SourceKind::Node);
        counters.received(u64::from(header.lines), frame.line_bytes());
        shared.correct_times(&mut frame, self.peer);
        let mut waiting = lock(&shared.waiting);
        waiting.bytes += frame.bytes().len();
        waiting.frames.push_back(frame);
        drop(waiting);
        shared.changed.notify_one();
        Ok(())
    }

    /// Tells what is durable, or that the store is there.
    fn tell(&mut self, shared: &Shared, health: StoreHealth) -> Result<(), End> {
        let now = Instant::now();
        let greeted = self.session.node().is_some();
        let is_slow = self.reading_bytes > 0 && now > self.frame_until;
        let is_late = !greeted && now - self.begun > GREETING_MAX;
        if is_late || is_slow || now - self.heard > SILENCE_MAX {
            return Err(End::Silent);
        }
        if self.out.len() > OUT_BYTES_MAX {
            return Ok(());
        }
        let due = now - self.said >= KEEPALIVE;
        if let Some(ack) = self.session.ack(&lock(&shared.ledger), health, due) {
            self.out.extend(ack);
            self.said = now;
        }
        Ok(())
    }

    fn write(&mut self) -> Result<(), End> {
        while !self.out.is_empty() {
            let (bytes, _) = self.out.as_slices();
            match self.stream.write(bytes) {
                Ok(0) => return Err(End::Closed),
                Ok(count) => drop(self.out.drain(..count)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(End::Broken(error)),
            }
        }
        Ok(())
    }

    /// Says why, if it is a refusal, as far as the socket takes it.
    fn end(&mut self, end: &End) {
        if let End::Refused { text, is_http, .. } = end {
            let message = match is_http {
                true => format!(
                    "HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain; charset=utf-8\r\nconnection: close\r\n\r\n{text}\n"
                )
                .into_bytes(),
                false => ToCollector::Refusal { text: text.clone() }.encode(),
            };
            self.out.extend(message);
            let _ = self.write();
            // Closing with bytes unread would take the answer back from the other side.
            let _ = self.stream.shutdown(Shutdown::Write);
            let _ = std::io::copy(&mut (&self.stream).take(UNREAD_MAX), &mut std::io::sink());
        }
    }
}
