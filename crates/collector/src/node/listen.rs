//! The listener of a store: takes frames of collectors and hands each to the store once.
//!
//! Threads: `nodes` for all connections, `nodes-keep` which waits for the store where it must. So a store that is behind, or
//! whose disk is full, stops the reading of frames, while connections are kept up and told why.
//!
//! Invariant: a frame is acknowledged when the store said that it is durable, never before.
//!
//! A thread that panics is counted and told, and ends the other and all connections: collectors keep what was not acknowledged, and
//! send it again. [`NodeListener::has_failed`] says so once nothing of it is on its way to the disk any more: from then on the
//! store knows each number that it has, and a new listener takes none twice.

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
use record::{Frame, Numbers};

use super::forward::lock;
use super::lane::{KEEPALIVE, SILENCE_MAX};
use super::session::{Brought, Ledger, Session};
use super::status::CollectorStatus;
use super::wire::{self, NodeIdentity, StoreHealth, ToCollector};
use crate::accounting::{Accounting, DropReason, SourceKind};
use crate::deliver::{DeliverError, OnDurable};
use crate::source::{LogLimit, SourceError};

/// Connections open at once. Beyond, a new one is closed at once, and counted.
pub const CONNECTIONS_MAX: usize = 256;
/// Bytes of frames that wait for the store. Beyond, no more are read.
const WAITING_BYTES_MAX: usize = 64 << 20;
/// Bytes read from one connection before the next one's turn.
const TURN_BYTES: usize = 8 << 20;
/// Bytes that are read and forgotten of a connection that is refused.
const UNREAD_MAX: u64 = 1 << 20;
/// A connection must have said who it is after so long.
const GREETING_MAX: Duration = Duration::from_secs(10);
/// Bytes that wait to be written to a connection. Beyond, it is told less often what is durable: one acknowledgement stands
/// for all before it.
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
    /// Takes a collector up; gives the numbers that are there, those before `first` included. An error is told to it.
    fn admit(&self, identity: &NodeIdentity, first: u64) -> Result<Numbers, String>;
    /// Makes a frame durable whose number did not come before. Waits as long as there is no room. The numbers that
    /// [`admit`](Self::admit) gives have this one before `on_durable` is called.
    fn keep(&self, frame: Frame, on_durable: OnDurable) -> Result<(), DeliverError>;
    /// Whether it takes lines at present.
    fn refusal(&self) -> Option<DeliverError>;
}

/// Listens for collectors. Dropping it closes their connections, and returns when what was read is with the store.
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
        address: SocketAddr,
        store: Arc<dyn NodeStore>,
        accounting: Arc<Accounting>,
    ) -> Result<NodeListener, SourceError> {
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

    /// Drops the frames that wait, when no thread brings or takes any more: the collectors have them still.
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

    /// Waits for a frame, and until the disk has room for it. None at the end: frames that wait then are not acknowledged, and
    /// sent again to whoever is here next.
    fn next_to_keep(&self) -> Option<Frame> {
        let mut waiting = lock(&self.waiting);
        loop {
            let disk_full = self.store.refusal() == Some(DeliverError::DiskFull);
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

    fn keep(self: &Arc<Self>, frame: Frame) -> Result<(), DeliverError> {
        let mut handed = Handed::new(self, &frame);
        let on_durable = move |result: Result<(), DeliverError>| match result {
            Ok(()) => handed.is_durable(),
            // Only at the end; it is sent again to whoever is there then.
            Err(_) => handed.lost = DropReason::ShuttingDown,
        };
        self.store.keep(frame, Box::new(on_durable))
    }

    fn health(&self) -> StoreHealth {
        match self.store.refusal() {
            None => StoreHealth::Ok,
            Some(DeliverError::DiskFull) => StoreHealth::DiskFull,
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
    log_limit: LogLimit,
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
            log_limit: LogLimit::default(),
        }
    }

    fn run(mut self) {
        let mut events = Events::with_capacity(256);
        while !self.shared.stopped.load(Relaxed) {
            let more = !self.shared.is_full() && self.connections.values().any(|c| c.readable);
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
            let counters = self.shared.accounting.source(SourceKind::Node);
            let interest = Interest::READABLE | Interest::WRITABLE;
            let token = self.next_token;
            let full = self.connections.len() >= CONNECTIONS_MAX;
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
                session: Session::default(),
                out: VecDeque::new(),
                begun: now,
                heard: now,
                said: now,
                readable: true,
            };
            self.connections.insert(token, connection);
        }
    }

    /// Reads what came, tells what is durable, writes, and closes what is to be closed.
    fn serve(&mut self) {
        let shared = Arc::clone(&self.shared);
        let health = shared.health();
        let mut closed = Vec::new();
        for (&token, connection) in &mut self.connections {
            let served = connection
                .read(&shared)
                .and_then(|()| connection.tell(&shared, health))
                .and_then(|()| connection.write());
            if let Err(end) = served {
                closed.push((token, end));
            }
        }
        for (token, end) in closed {
            let mut connection = self.connections.remove(&token).expect("it was there");
            connection.end(&end);
            shared.accounting.source(SourceKind::Node).connections_open.fetch_sub(1, Relaxed);
            let node = connection.session.node();
            if let Some(node) = node
                && let Some(status) = lock(&shared.collectors).get_mut(&node)
            {
                status.connections -= 1;
            }
            let peer = connection.peer;
            match (end, node) {
                (End::Closed, Some(node)) => {
                    tracing::info!("collector {node:08x} at {peer} closed its connection");
                }
                (End::Closed, None) => {}
                (End::Refused { text, .. }, _) => {
                    if let Some(held_back) = self.log_limit.pass() {
                        tracing::warn!(held_back, "connection from {peer} closed: {text}");
                    }
                }
                (End::Silent | End::Broken(_), _) => {
                    tracing::warn!("connection from {peer} is lost");
                }
            }
        }
    }
}

impl Drop for Server {
    /// By a panic too.
    fn drop(&mut self) {
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
    Refused { text: String, is_http: bool },
}

fn refused(text: String) -> End {
    End::Refused { text, is_http: false }
}

impl Connection {
    fn read(&mut self, shared: &Arc<Shared>) -> Result<(), End> {
        let mut turn = TURN_BYTES;
        while self.readable && turn > 0 && !shared.is_full() {
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
                self.take(shared)?;
            }
        }
        if shared.is_full() {
            // Nobody listens to it at present.
            self.heard = Instant::now();
        }
        Ok(())
    }

    fn take(&mut self, shared: &Arc<Shared>) -> Result<(), End> {
        let is_http =
            self.session.node().is_none() && wire::is_http_request(self.session.reader.buffer());
        let brought = self.session.take();
        match brought.map_err(|error| End::Refused { text: error.to_string(), is_http })? {
            None | Some(Brought::Keepalive) => {}
            Some(Brought::Hello) => self.out.extend(self.session.welcome(shared.store.id())),
            Some(Brought::Start { identity, first }) => self.admit(identity, first, shared)?,
            Some(Brought::Frame(frame)) => self.hand_over(*frame, shared),
        }
        Ok(())
    }

    fn admit(&mut self, identity: NodeIdentity, first: u64, shared: &Shared) -> Result<(), End> {
        let node = identity.node;
        let held = shared.store.admit(&identity, first).map_err(refused)?;
        let mut ledger = lock(&shared.ledger);
        ledger.add_held(node, &held);
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

    fn hand_over(&mut self, frame: Frame, shared: &Shared) {
        let header = frame.header();
        let is_new = lock(&shared.ledger).take(header.node, header.sequence);
        if let Some(status) = lock(&shared.collectors).get_mut(&header.node) {
            status.heard = self.heard;
            status.duplicates += u64::from(!is_new);
        }
        if !is_new {
            return;
        }
        let counters = shared.accounting.source(SourceKind::Node);
        counters.received(u64::from(header.lines), frame.line_bytes());
        let mut waiting = lock(&shared.waiting);
        waiting.bytes += frame.bytes().len();
        waiting.frames.push_back(frame);
        drop(waiting);
        shared.changed.notify_one();
    }

    /// Tells what is durable, or that the store is there.
    fn tell(&mut self, shared: &Shared, health: StoreHealth) -> Result<(), End> {
        let now = Instant::now();
        let greeted = self.session.node().is_some();
        if (!greeted && now - self.begun > GREETING_MAX) || now - self.heard > SILENCE_MAX {
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
        if let End::Refused { text, is_http } = end {
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
