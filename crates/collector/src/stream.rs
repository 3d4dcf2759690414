//! Lines from connections: what syslog over TCP and over TLS share.
//!
//! One or a few threads serve all connections. The first also accepts, and hands each connection to
//! the thread that has the fewest. [`receiver`] is the loop of one thread; [`Accept`] and
//! [`Stream`] are what a kind of connection adds: nothing for plain TCP, the handshake and
//! decryption for TLS.
//!
//! Invariants: a connection stays with its thread, so its lines stay in order; connections are
//! counted over all threads; after a stop every connection is closed, and everything that had
//! arrived is delivered. Left out: SO_REUSEPORT. With it, a second program would take half of the
//! connections instead of an error that the port is in use.

use std::io;
use std::net::SocketAddr;
use std::num::NonZero;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mio::net::{TcpListener, TcpStream};
use mio::{Interest, Poll, Token, Waker};
use platform::Clock;
use record::Transport;
use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};

use crate::accounting::{Accounting, SourceKind};
use crate::deliver::Deliver;
use crate::outlet::{Destination, FRAME_AGE_MS, Outlet};
use crate::source::{SourceError, SourceThread, StopSignal};

mod inflating;
mod receiver;

pub(crate) use receiver::READ_BYTES_MIN;
use receiver::Receiver;

/// Connections open at once, unless configured otherwise. Further ones are closed at once and
/// counted. The process must be allowed that many open files, which the caller ensures.
///
/// limits.md, Lines on their way in: connections of syslog | `syslog.tcp_connections_max`, {} | a
/// further connection is closed at once and counted
pub const CONNECTIONS_MAX: usize = 16 << 10;
/// Bytes of incomplete lines of all connections, unless configured otherwise: 32 of the longest
/// lines. Beyond this the longest incomplete line is cut.
///
/// limits.md, Lines on their way in: incomplete lines of all syslog connections | {} | the longest
/// incomplete line is cut and counted as `oversized`
pub const CARRY_BYTES_TOTAL_MAX: usize = 256 << 20;
/// Time limit of a handshake, unless configured otherwise.
pub const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(20);
/// Threads that serve connections, at most, unless configured otherwise: each handles more than a
/// 10 Gbit/s network delivers.
const THREADS_MAX: usize = 4;
/// Processors per thread, unless configured otherwise.
const PROCESSORS_PER_THREAD: usize = 4;
/// Connections that wait to be accepted. Beyond this the kernel ignores a peer's SYN until its
/// retry.
const BACKLOG: i32 = 4096;
/// A silent peer is probed after this time.
const KEEPALIVE_TIME: Duration = Duration::from_secs(60);
/// Interval between probes.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
/// A peer is given up after this many probes without an answer.
const KEEPALIVE_PROBES: u32 = 6;

const LISTENER: Token = Token(usize::MAX);
const WAKER: Token = Token(usize::MAX - 1);

/// Tunables of a connection-based source.
#[derive(Clone, Debug)]
pub struct TcpConfig {
    /// How long a frame that is not full waits for more lines.
    pub frame_age_ms: u64,
    /// Connections open at once.
    pub connections_max: usize,
    /// Bytes of incomplete lines of all connections together.
    pub carry_bytes_total_max: usize,
    /// Threads that serve the connections.
    pub threads: NonZero<usize>,
    /// A connection that received nothing for this long is closed and counted. `None`: never, since
    /// a quiet machine is no error, and vanished peers are found by keep-alive.
    pub idle_timeout: Option<Duration>,
    /// A connection whose handshake takes longer is closed and counted. Only for TLS.
    pub handshake_timeout: Duration,
    /// Zone of times that name none.
    pub zone: Option<String>,
}

impl Default for TcpConfig {
    fn default() -> Self {
        TcpConfig {
            frame_age_ms: FRAME_AGE_MS,
            connections_max: CONNECTIONS_MAX,
            carry_bytes_total_max: CARRY_BYTES_TOTAL_MAX,
            threads: threads_default(),
            idle_timeout: None,
            handshake_timeout: HANDSHAKE_TIMEOUT,
            zone: None,
        }
    }
}

/// Default number of threads for the processors of this machine: one for each four, between one and
/// four.
pub fn threads_default() -> NonZero<usize> {
    let processors = std::thread::available_parallelism().map_or(1, NonZero::get);
    let threads = (processors / PROCESSORS_PER_THREAD).clamp(1, THREADS_MAX);
    NonZero::new(threads).expect("one at least")
}

/// Makes connections of one kind. The threads of the source call it concurrently.
pub(crate) trait Accept: Send + Sync + 'static {
    /// The connections it makes.
    type Stream: Stream;

    /// Whether another connection may be made now. Otherwise connections wait in the kernel.
    fn has_room(&self) -> bool {
        true
    }

    /// Makes a connection of a non-blocking socket. An error is logged, and the socket closed.
    fn open(&self, socket: TcpStream, sender: SocketAddr) -> io::Result<Self::Stream>;
}

/// One connection, read without blocking. Dropping it closes the connection.
pub(crate) trait Stream: Send + 'static {
    /// Whether there is a handshake, so that [`Stream::is_established`] must be checked.
    const HAS_HANDSHAKE: bool;

    /// Reads into `into`, which has room for at least [`READ_BYTES_MIN`] bytes.
    ///
    /// - `Ok(n)`: unless the stream then [has more](Stream::has_more), no more is available, and
    ///   the socket's next event says when there is. At the end of the stream there may be no
    ///   event; the caller then reads again.
    /// - `Ok(0)`: the sender has ended the stream.
    /// - [`io::ErrorKind::WouldBlock`]: nothing is available.
    /// - [`io::ErrorKind::Interrupted`]: no bytes of a line came, but there may be more.
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize>;

    /// Whether more may be available after a read of `bytes` into a buffer of `asked`, without an
    /// event of the socket.
    fn has_more(&self, bytes: usize, asked: usize) -> bool {
        bytes == asked
    }

    /// The socket, to be registered for events.
    fn socket(&mut self) -> &mut TcpStream;

    /// The events to wait for after the last `read`. Write events are needed while a handshake or
    /// an alert waits for room.
    fn interest(&self) -> Interest {
        Interest::READABLE
    }

    /// Tells a sender of another protocol, in that protocol, why the connection ends, as far as the
    /// socket takes the answer without blocking.
    fn answer(&mut self, _answer: &[u8]) {}

    /// Whether the sender may send lines. A connection that is not established within
    /// [`handshake_timeout`](TcpConfig::handshake_timeout) is closed.
    fn is_established(&self) -> bool {
        true
    }
}

/// What distinguishes one connection-based source from another.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Identity {
    /// The source in accounting.
    pub kind: SourceKind,
    /// The transport in the origins of lines.
    pub transport: Transport,
    /// Used in errors: "cannot listen for …".
    pub what: &'static str,
    /// The flag that sets the address.
    pub flag: &'static str,
    /// Name of the first thread; others append their number. At most 12 bytes.
    pub thread_name: &'static str,
}

/// A listener and the threads that serve its connections. Dropping it stops it: it stops accepting,
/// reads what has arrived (for at most a second), delivers that, and closes the connections.
pub(crate) struct StreamSource {
    local_addr: SocketAddr,
    threads: Vec<SourceThread>,
}

/// What the threads of one source share.
struct Shared<A> {
    identity: Identity,
    accept: A,
    config: TcpConfig,
    accounting: Arc<Accounting>,
    clock: Arc<dyn Clock>,
    lanes: Vec<Lane>,
}

/// One serving thread, as the accepting thread sees it.
struct Lane {
    waker: Arc<Waker>,
    /// Connections this thread serves or was handed.
    connections: AtomicUsize,
    /// Connections handed over and not yet taken.
    inbox: Mutex<Vec<(TcpStream, SocketAddr)>>,
}

impl StreamSource {
    /// Binds the address and starts to accept.
    pub fn start<A: Accept>(
        address: SocketAddr,
        identity: Identity,
        accept: A,
        config: TcpConfig,
        deliver: &Arc<dyn Deliver>,
        accounting: Arc<Accounting>,
        clock: Arc<dyn Clock>,
    ) -> Result<StreamSource, SourceError> {
        let shared = Shared { identity, accept, config, accounting, clock, lanes: Vec::new() };
        Self::try_start(address, shared, deliver)
            .map_err(|error| SourceError::new(identity.what, identity.flag, address, error))
    }

    fn try_start<A: Accept>(
        address: SocketAddr,
        mut shared: Shared<A>,
        deliver: &Arc<dyn Deliver>,
    ) -> io::Result<StreamSource> {
        let mut listener = TcpListener::from_std(listen(address)?);
        let local_addr = listener.local_addr()?;
        let mut polls = Vec::new();
        for _ in 0..shared.config.threads.get() {
            let poll = Poll::new()?;
            let waker = Arc::new(Waker::new(poll.registry(), WAKER)?);
            let (connections, inbox) = (AtomicUsize::new(0), Mutex::default());
            shared.lanes.push(Lane { waker, connections, inbox });
            polls.push(poll);
        }
        polls[0].registry().register(&mut listener, LISTENER, Interest::READABLE)?;
        let mut listener = Some(listener);
        let shared = Arc::new(shared);
        let mut threads = Vec::new();
        for (lane, poll) in polls.into_iter().enumerate() {
            let stop = Arc::new(StopSignal::default());
            let deliver = Arc::clone(deliver);
            let accounting = Arc::clone(&shared.accounting);
            let counted = (Arc::clone(&accounting), shared.identity.kind);
            let destination = Destination::new(shared.identity.kind, deliver, accounting);
            let outlet = Outlet::new(destination, shared.config.frame_age_ms, Arc::clone(&stop));
            let waker = Arc::clone(&shared.lanes[lane].waker);
            let name = match lane {
                0 => shared.identity.thread_name.to_owned(),
                _ => format!("{}-{}", shared.identity.thread_name, lane + 1),
            };
            let receiver = Receiver::new(
                Arc::clone(&shared),
                lane,
                listener.take(),
                poll,
                outlet,
                Arc::clone(&stop),
            );
            let work = move || receiver.run();
            threads.push(SourceThread::start(&name, counted, stop, waker, work)?);
        }
        Ok(StreamSource { local_addr, threads })
    }

    /// The address it listens on, with the port the kernel chose if port 0 was requested.
    pub fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }

    /// Whether one of the threads ended by a panic.
    pub fn has_failed(&self) -> bool {
        self.threads.iter().any(SourceThread::has_failed)
    }
}

impl Drop for StreamSource {
    fn drop(&mut self) {
        // The accepting thread ends first, so that nothing more is handed to the others; then the
        // others end concurrently.
        drop(self.threads.remove(0));
        self.threads.iter().for_each(SourceThread::signal_stop);
        self.threads.clear();
    }
}

pub(crate) fn listen(address: SocketAddr) -> io::Result<std::net::TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_nonblocking(true)?;
    // Without this a restart fails while connections of the previous run are in TIME_WAIT.
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// Makes the kernel probe whether a silent peer is still there.
pub(crate) fn keep_alive(socket: &impl AsFd) -> io::Result<()> {
    let keepalive = TcpKeepalive::new()
        .with_time(KEEPALIVE_TIME)
        .with_interval(KEEPALIVE_INTERVAL)
        .with_retries(KEEPALIVE_PROBES);
    SockRef::from(socket).set_tcp_keepalive(&keepalive)
}

impl<A> Shared<A> {
    /// Connections of all threads.
    fn connections(&self) -> usize {
        self.lanes.iter().map(|lane| lane.connections.load(Relaxed)).sum()
    }

    /// The thread that gets the next connection.
    fn lane_with_fewest(&self) -> usize {
        let connections = |lane: &usize| self.lanes[*lane].connections.load(Relaxed);
        (0..self.lanes.len()).min_by_key(connections).expect("there is a thread")
    }
}
