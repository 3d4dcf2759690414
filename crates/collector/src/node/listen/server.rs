//! The thread of all connections (`nodes`): accepts them within the limits, serves each in turn,
//! and closes those that end.

use std::collections::{BTreeMap, VecDeque};
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use mio::net::TcpListener;
use mio::{Events, Interest, Poll, Token};

use super::super::lock;
use super::super::session::Session;
use super::connection::{Connection, End, refused};
use super::shared::Shared;
use super::{CONNECTIONS_MAX, LISTENER, TICK, WAKER};
use crate::accounting::SourceKind;
use crate::source::{LogLimit, PeerLog, canonical};

/// Connections open at once from one address: more than the nodes that a store takes, so that all
/// may come through one tunnel. Further ones are closed at once, and counted.
const CONNECTIONS_PER_ADDRESS_MAX: usize = 192;
/// How many collectors are shown that are away and delivered nothing.
const COLLECTORS_SHOWN: usize = 256;
/// Connections of one node. A new one closes the oldest beyond this: those were cut off by the
/// network and are silent.
pub(super) const CONNECTIONS_PER_NODE_MAX: usize = 4;
/// Connections that were not admitted yet. Beyond this, the oldest of them is closed.
///
/// limits.md, Several machines: connections of collectors that have not proved to know the secret |
/// {}, {UNGREETED_PER_ADDRESS_MAX} of one address; 10 s each | the oldest is closed when another
/// comes
const UNGREETED_MAX: usize = 64;
/// As [`UNGREETED_MAX`], for one address.
pub(super) const UNGREETED_PER_ADDRESS_MAX: usize = 16;
/// Token of the first connection; later ones get the next tokens.
const FIRST: usize = 2;

/// State of the thread of all connections.
pub(super) struct Server {
    shared: Arc<Shared>,
    poll: Poll,
    listener: TcpListener,
    connections: BTreeMap<usize, Connection>,
    next_token: usize,
    /// Accepting failed, and no event will announce when it may be retried.
    accept_again: bool,
    /// Bytes of frames that are being read.
    reading_bytes: usize,
    log_limit: LogLimit,
    peer_log: PeerLog,
}

impl Server {
    pub(super) fn new(shared: Arc<Shared>, poll: Poll, listener: TcpListener) -> Server {
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

    pub(super) fn run(mut self) {
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

    /// Whether another connection of this peer may be opened. If necessary, closes the oldest one
    /// that has not identified itself.
    fn make_room(&mut self, peer: SocketAddr) -> bool {
        let is_its = |c: &Connection| c.peer.ip() == peer.ip();
        let is_ungreeted = |c: &Connection| c.session.node().is_none();
        let oldest = |is: &dyn Fn(&Connection) -> bool, max: usize| {
            let mut those = self.connections.iter().filter(|(_, c)| is(c)).map(|(token, _)| *token);
            // Tokens grow, so the first is the oldest.
            let first = those.next();
            first.filter(|_| 1 + those.count() >= max)
        };
        let of_peer = |c: &Connection| is_its(c) && is_ungreeted(c);
        let goes = oldest(&of_peer, UNGREETED_PER_ADDRESS_MAX)
            .or_else(|| oldest(&is_ungreeted, UNGREETED_MAX))
            .or_else(|| oldest(&is_ungreeted, 1).filter(|_| self.is_crowded(peer)));
        if let Some(token) = goes {
            let text = "others wait; authenticate in time".to_owned();
            self.close(token, refused(text));
        }
        !self.is_crowded(peer)
    }

    fn is_crowded(&self, peer: SocketAddr) -> bool {
        let of_peer = self.connections.values().filter(|c| c.peer.ip() == peer.ip()).count();
        self.connections.len() >= CONNECTIONS_MAX || of_peer >= CONNECTIONS_PER_ADDRESS_MAX
    }

    /// Reads arrived data, sends acknowledgements, writes, and closes connections that must be
    /// closed.
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
                // A collector that delivered nothing is forgotten: there may be any number of them.
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
    /// Runs after a panic too.
    fn drop(&mut self) {
        for node in self.connections.values().filter_map(|c| c.session.node()) {
            self.shared.store.leave(node);
        }
        let open = self.connections.len() as u64;
        let counters = self.shared.accounting.source(SourceKind::Node);
        counters.connections_open.fetch_sub(open, Relaxed);
    }
}
