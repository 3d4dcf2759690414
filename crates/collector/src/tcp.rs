//! Syslog over TCP (RFC 6587), newline- and octet-framed senders on one port; see [`record::framing`].
//!
//! One thread serves all connections: `epoll` says which have something, and each of those gives one bounded
//! read a turn, so that a fast sender does not starve a slow one. All connections share the frame under
//! construction. When delivery blocks, nothing is read, the kernel's buffers fill, and senders are pushed back:
//! TCP loses nothing here.
//!
//! Decided:
//! - A connection may be silent for as long as it likes, also in the middle of a line: a quiet machine is not
//!   an error. Peers that vanished are found by keep-alive after about two minutes.
//! - A connection that ends in the middle of a line leaves what came of the line as a line. It is counted as
//!   [`DropReason::Reset`] if it ended by an error, by our stopping, or inside a counted message; a missing
//!   last newline alone is common and no loss.
//! - Beyond [`TcpConfig::connections_max`] a connection is accepted and closed at once, counted, and logged.
//! - Memory for incomplete lines is bounded for each connection and for all: beyond
//!   [`TcpConfig::carry_bytes_total_max`] the longest incomplete line is cut ([`DropReason::Oversized`]).
//!
//! Left out: TLS (RFC 5425).

use std::collections::VecDeque;
use std::io::{self, Read};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token, Waker};
use platform::Clock;
use record::framing::{Ending, LineSplitter, Piece};
use record::{Format, Origin, Transport};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};

use crate::accounting::{Accounting, DropReason, SourceCounters, SourceKind};
use crate::deliver::Deliver;
use crate::outlet::{Destination, FRAME_AGE_MS, Outlet};
use crate::source::{LogLimit, STOP_DRAIN_MAX, SourceError, SourceThread, StopSignal, canonical};

/// Connections open at once, unless configured otherwise. One beyond is closed at once and counted.
pub const CONNECTIONS_MAX: usize = 4096;
/// Bytes of incomplete lines of all connections, unless configured otherwise: 32 of the longest lines. Beyond,
/// the longest is cut.
pub const CARRY_BYTES_TOTAL_MAX: usize = 256 << 20;
/// Bytes read of one connection before it is another's turn.
const READ_BYTES: usize = 256 << 10;
/// Connections that wait to be accepted. Beyond, the kernel lets a peer's SYN wait for its retry.
const BACKLOG: i32 = 1024;
/// Files that the process has open besides: segments, HTTP connections, libraries.
const OTHER_FILES: usize = 512;
/// Connections accepted before those that are open get their turn.
const ACCEPTS_MAX: usize = 64;
/// When no connection can be accepted (no file descriptor is left), it is tried again this much later.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);
/// A silent peer is probed after this time,
const KEEPALIVE_TIME: Duration = Duration::from_secs(60);
/// then this often,
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
/// and given up after so many probes without an answer.
const KEEPALIVE_PROBES: u32 = 6;
/// The flag that sets the address.
const FLAG: &str = "--syslog-tcp-listen";

const LISTENER: Token = Token(usize::MAX);
const WAKER: Token = Token(usize::MAX - 1);

/// Tunables of a [`TcpSource`].
#[derive(Clone, Debug)]
pub struct TcpConfig {
    /// How long a frame that is not full waits for more lines.
    pub frame_age_ms: u64,
    /// Connections open at once.
    pub connections_max: usize,
    /// Bytes of incomplete lines of all connections together.
    pub carry_bytes_total_max: usize,
}

impl Default for TcpConfig {
    fn default() -> Self {
        TcpConfig {
            frame_age_ms: FRAME_AGE_MS,
            connections_max: CONNECTIONS_MAX,
            carry_bytes_total_max: CARRY_BYTES_TOTAL_MAX,
        }
    }
}

/// A listener for syslog over TCP. Dropping it is as [`TcpSource::stop`].
pub struct TcpSource {
    local_addr: SocketAddr,
    thread: SourceThread,
}

impl TcpSource {
    /// Binds the address and starts to accept.
    pub fn start(
        address: SocketAddr,
        config: TcpConfig,
        deliver: Arc<dyn Deliver>,
        accounting: Arc<Accounting>,
        clock: Arc<dyn Clock>,
    ) -> Result<TcpSource, SourceError> {
        Self::try_start(address, config, deliver, accounting, clock)
            .map_err(|error| SourceError::new("syslog over TCP", FLAG, address, error))
    }

    fn try_start(
        address: SocketAddr,
        config: TcpConfig,
        deliver: Arc<dyn Deliver>,
        accounting: Arc<Accounting>,
        clock: Arc<dyn Clock>,
    ) -> io::Result<TcpSource> {
        allow_open_files(config.connections_max);
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
        socket.set_nonblocking(true)?;
        // Without this a restart fails while connections of the last run are in TIME_WAIT.
        socket.set_reuse_address(true)?;
        socket.bind(&address.into())?;
        socket.listen(BACKLOG)?;
        let mut listener = TcpListener::from_std(socket.into());
        let local_addr = listener.local_addr()?;

        let poll = Poll::new()?;
        poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
        let waker = Waker::new(poll.registry(), WAKER)?;
        let stop = Arc::new(StopSignal::default());
        let destination = Destination::new(SourceKind::SyslogTcp, deliver, Arc::clone(&accounting));
        let receiver = Receiver {
            outlet: Outlet::new(destination, config.frame_age_ms, Arc::clone(&stop)),
            listener,
            poll,
            stop: Arc::clone(&stop),
            clock,
            config,
            accounting,
            connections: Vec::new(),
            free: Vec::new(),
            ready: VecDeque::new(),
            accept_at: None,
            carried_bytes: 0,
            buffer: vec![0; READ_BYTES],
            accept_log: LogLimit::default(),
            refused_log: LogLimit::default(),
        };
        let thread = SourceThread::start("syslog-tcp", stop, waker, move || receiver.run())?;
        Ok(TcpSource { local_addr, thread })
    }

    /// The address it listens on, with the port the kernel chose if port 0 was asked for.
    pub fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }

    /// Stops: accepts no more, reads what has arrived (for a second at most), delivers it, closes the
    /// connections, and ends the thread.
    pub fn stop(self) {
        drop(self.thread);
    }
}

/// Raises the process's soft limit on open files, often 1024, to what so many connections need.
fn allow_open_files(connections_max: usize) {
    let wanted = (connections_max + OTHER_FILES) as u64;
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= wanted) {
        return;
    }
    let allowed = limit.maximum.map_or(wanted, |maximum| maximum.min(wanted));
    let raised = setrlimit(Resource::Nofile, Rlimit { current: Some(allowed), ..limit });
    if raised.is_err() || allowed < wanted {
        tracing::warn!(
            wanted,
            allowed,
            "the limit on open files is too low for {connections_max} syslog connections; \
             raise it: ulimit -n {wanted}, or LimitNOFILE={wanted} in a systemd unit",
        );
    }
}

struct Connection {
    stream: TcpStream,
    origin: Origin,
    splitter: LineSplitter,
    /// Whether it waits in [`Receiver::ready`].
    is_ready: bool,
}

/// Whether a connection has more to read.
enum Progress {
    More,
    Drained,
    Closed,
}

/// The state of the receiving thread.
struct Receiver {
    listener: TcpListener,
    poll: Poll,
    stop: Arc<StopSignal>,
    clock: Arc<dyn Clock>,
    config: TcpConfig,
    outlet: Outlet,
    accounting: Arc<Accounting>,
    /// By token; free places are in `free`.
    connections: Vec<Option<Connection>>,
    free: Vec<usize>,
    /// Connections that may have something to read, in the order of their turns.
    ready: VecDeque<usize>,
    /// When to accept connections; `None` while none waits.
    accept_at: Option<Instant>,
    /// Bytes of incomplete lines of all connections.
    carried_bytes: usize,
    buffer: Vec<u8>,
    accept_log: LogLimit,
    refused_log: LogLimit,
}

impl Receiver {
    fn run(mut self) {
        let mut events = Events::with_capacity(1024);
        while !self.stop.is_raised() {
            self.wait(&mut events);
            self.accept_some();
            self.read_turn();
            self.outlet.flush_if_old();
        }
        self.drain();
    }

    /// Waits until there is something to do, and notes what.
    fn wait(&mut self, events: &mut Events) {
        let accept_due = self.accept_at.map(|at| at.saturating_duration_since(Instant::now()));
        let wait = match self.ready.is_empty() {
            false => Some(Duration::ZERO),
            true => [accept_due, self.outlet.due_in()].into_iter().flatten().min(),
        };
        if let Err(error) = self.poll.poll(events, wait)
            && error.kind() != io::ErrorKind::Interrupted
            && let Some(held_back) = self.accept_log.pass()
        {
            tracing::error!(%error, held_back, "waiting for connections");
        }
        for event in events.iter() {
            match event.token() {
                LISTENER => self.accept_at = Some(Instant::now()),
                WAKER => {}
                Token(place) => self.make_ready(place),
            }
        }
    }

    fn make_ready(&mut self, place: usize) {
        // An event may be left over from a connection that is closed by now, even when its place is taken
        // again: then reading finds nothing.
        if let Some(Some(connection)) = self.connections.get_mut(place)
            && !connection.is_ready
        {
            connection.is_ready = true;
            self.ready.push_back(place);
        }
    }

    fn accept_some(&mut self) {
        if self.accept_at.is_none_or(|at| at > Instant::now()) {
            return;
        }
        for _ in 0..ACCEPTS_MAX {
            match self.listener.accept() {
                Ok((stream, sender)) => self.open(stream, canonical(sender)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.accept_at = None;
                    return;
                }
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(error) => {
                    // The connection keeps waiting in the backlog.
                    if let Some(held_back) = self.accept_log.pass() {
                        tracing::error!(%error, held_back, "accepting a syslog connection");
                    }
                    self.accept_at = Some(Instant::now() + ACCEPT_RETRY);
                    return;
                }
            }
        }
    }

    fn open(&mut self, mut stream: TcpStream, sender: SocketAddr) {
        let connections_open = self.connections.len() - self.free.len();
        if connections_open >= self.config.connections_max {
            self.counters().connections_refused.fetch_add(1, Relaxed);
            if let Some(held_back) = self.refused_log.pass() {
                let connections_max = self.config.connections_max;
                tracing::warn!(%sender, connections_max, held_back, "connection refused: too many are open");
            }
            return;
        }
        let place = self.free.pop().unwrap_or(self.connections.len());
        if let Err(error) = self.prepare(&mut stream, place) {
            tracing::error!(%sender, %error, "a syslog connection cannot be served");
            if place < self.connections.len() {
                self.free.push(place);
            }
            return;
        }
        let connection = Connection {
            stream,
            origin: Origin::new(Transport::SyslogTcp, Format::Syslog, Some(sender)),
            splitter: LineSplitter::new(),
            is_ready: false,
        };
        if place == self.connections.len() {
            self.connections.push(None);
        }
        self.connections[place] = Some(connection);
        self.counters().connections_total.fetch_add(1, Relaxed);
        self.counters().connections_open.fetch_add(1, Relaxed);
    }

    fn prepare(&self, stream: &mut TcpStream, place: usize) -> io::Result<()> {
        let keepalive = TcpKeepalive::new()
            .with_time(KEEPALIVE_TIME)
            .with_interval(KEEPALIVE_INTERVAL)
            .with_retries(KEEPALIVE_PROBES);
        SockRef::from(&*stream).set_tcp_keepalive(&keepalive)?;
        self.poll.registry().register(stream, Token(place), Interest::READABLE)
    }

    /// One read of each connection that is ready.
    fn read_turn(&mut self) {
        for _ in 0..self.ready.len() {
            let place = self.ready.pop_front().expect("as many as counted");
            match self.read(place) {
                Progress::More => self.ready.push_back(place),
                Progress::Drained => {
                    self.connections[place].as_mut().expect("is open").is_ready = false;
                }
                Progress::Closed => {}
            }
            self.outlet.flush_if_old();
        }
    }

    fn read(&mut self, place: usize) -> Progress {
        let connection = self.connections[place].as_mut().expect("a ready connection is open");
        match connection.stream.read(&mut self.buffer) {
            Ok(0) => {
                self.close(place, false);
                Progress::Closed
            }
            Ok(bytes) => {
                let carried_before = connection.splitter.carried_bytes();
                let received_ns = self.clock.now_ns();
                connection.splitter.split(
                    &self.buffer[..bytes],
                    &mut emit(&mut self.outlet, &connection.origin, received_ns),
                );
                self.carried_bytes += connection.splitter.carried_bytes();
                self.carried_bytes -= carried_before;
                if self.carried_bytes > self.config.carry_bytes_total_max {
                    self.cut_longest();
                }
                Progress::More
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Progress::Drained,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Progress::More,
            Err(error) => {
                let sender = connection.origin.sender.map(tracing::field::display);
                tracing::debug!(sender, %error, "a syslog connection ended by an error");
                self.close(place, true);
                Progress::Closed
            }
        }
    }

    /// Makes room for the start of other lines by cutting the longest that is not complete.
    fn cut_longest(&mut self) {
        let connections = self.connections.iter_mut().flatten();
        let longest = connections.max_by_key(|c| c.splitter.carried_bytes());
        let longest = longest.expect("some connection carries bytes");
        let carried_before = longest.splitter.carried_bytes();
        let received_ns = self.clock.now_ns();
        longest.splitter.cut(&mut emit(&mut self.outlet, &longest.origin, received_ns));
        self.carried_bytes -= carried_before - longest.splitter.carried_bytes();
    }

    fn close(&mut self, place: usize, by_error: bool) {
        let connection = self.connections[place].take().expect("is open");
        self.free.push(place);
        self.counters().connections_open.fetch_sub(1, Relaxed);
        self.carried_bytes -= connection.splitter.carried_bytes();
        let received_ns = self.clock.now_ns();
        let ending =
            connection.splitter.end(&mut emit(&mut self.outlet, &connection.origin, received_ns));
        if ending == Ending::Short || (by_error && ending == Ending::Unterminated) {
            self.counters().dropped(DropReason::Reset, 1);
        }
    }

    /// Takes what has arrived, and ends.
    fn drain(mut self) {
        let deadline = Instant::now() + STOP_DRAIN_MAX;
        self.accept_at = Some(Instant::now());
        while self.accept_at.is_some_and(|at| at <= Instant::now()) && Instant::now() < deadline {
            self.accept_some();
        }
        (0..self.connections.len()).for_each(|place| self.make_ready(place));
        while !self.ready.is_empty() && Instant::now() < deadline {
            self.read_turn();
        }
        if !self.ready.is_empty() {
            let connections = self.ready.len();
            tracing::warn!(connections, "closed while their senders were still sending");
        }
        for place in 0..self.connections.len() {
            if self.connections[place].is_some() {
                self.close(place, true);
            }
        }
        self.outlet.flush();
    }

    fn counters(&self) -> &SourceCounters {
        self.accounting.source(SourceKind::SyslogTcp)
    }
}

/// Puts the lines of one read into the frame.
fn emit<'a>(
    outlet: &'a mut Outlet,
    origin: &'a Origin,
    received_ns: i64,
) -> impl FnMut(Piece<'_>) + 'a {
    move |piece| match piece {
        Piece::Lines(lines) => outlet.push_lines(origin, received_ns, lines),
        Piece::Line { bytes, cut } => outlet.push_line(origin, received_ns, bytes, cut),
    }
}
