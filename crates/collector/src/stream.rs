//! Lines from connections: what syslog over TCP and over TLS have in common.
//!
//! One or a few threads serve all connections. The first also accepts, and hands each connection to
//! the thread that has the fewest. [`receiver`] is the work of one thread; [`Accept`] and
//! [`Stream`] say what a kind of connection adds: plain TCP nothing, TLS its handshake and its
//! decryption.
//!
//! Invariants: a connection stays with its thread, so its lines stay in order; connections are
//! counted over all threads; after a stop every connection is closed and what had arrived is
//! delivered. Left out: SO_REUSEPORT, with which a second program would take half of the
//! connections instead of being told that the port is in use.

use std::io;
use std::net::SocketAddr;
use std::num::NonZero;
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

mod receiver;

pub(crate) use receiver::READ_BYTES_MIN;
use receiver::Receiver;

/// Connections open at once, unless configured otherwise. One beyond is closed at once and counted.
/// The process must be allowed that many open files; whoever starts it sees to that.
pub const CONNECTIONS_MAX: usize = 16 << 10;
/// Bytes of incomplete lines of all connections, unless configured otherwise: 32 of the longest
/// lines. Beyond, the longest is cut.
pub const CARRY_BYTES_TOTAL_MAX: usize = 256 << 20;
/// Time for a handshake, unless configured otherwise.
pub const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(20);
/// Threads that serve connections, at most, unless configured otherwise: each takes more than a 10
/// Gbit/s network brings.
const THREADS_MAX: usize = 4;
/// One thread for so many processors, unless configured otherwise.
const PROCESSORS_PER_THREAD: usize = 4;
/// Connections that wait to be accepted. Beyond, the kernel lets a peer's SYN wait for its retry.
const BACKLOG: i32 = 4096;
/// A silent peer is probed after this time,
const KEEPALIVE_TIME: Duration = Duration::from_secs(60);
/// then this often,
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
/// and given up after so many probes without an answer.
const KEEPALIVE_PROBES: u32 = 6;

const LISTENER: Token = Token(usize::MAX);
const WAKER: Token = Token(usize::MAX - 1);

/// Tunables of a source of connections.
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
    /// A connection on which nothing came for so long is closed, and counted. None: never, a quiet
    /// machine is no error, and peers that vanished are found by keep-alive.
    pub idle_timeout: Option<Duration>,
    /// A connection whose handshake takes longer is closed, and counted. Of TLS alone.
    pub handshake_timeout: Duration,
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
        }
    }
}

/// Threads for the processors of this machine: one for each four, from one to four.
pub fn threads_default() -> NonZero<usize> {
    let processors = std::thread::available_parallelism().map_or(1, NonZero::get);
    let threads = (processors / PROCESSORS_PER_THREAD).clamp(1, THREADS_MAX);
    NonZero::new(threads).expect("one at least")
}

/// Makes connections of one kind. Called by the threads of the source, at once.
pub(crate) trait Accept: Send + Sync + 'static {
    /// The connections it makes.
    type Stream: Stream;

    /// Whether another connection may be made now. While it may not, connections wait in the
    /// kernel.
    fn has_room(&self) -> bool {
        true
    }

    /// Makes a connection of a socket that does not block. An error is logged, and the socket
    /// closed.
    fn open(&self, socket: TcpStream, sender: SocketAddr) -> io::Result<Self::Stream>;
}

/// One connection, read without blocking. Dropping it closes it.
pub(crate) trait Stream: Send + 'static {
    /// Whether there is a handshake, so that [`Stream::is_established`] has to be asked.
    const HAS_HANDSHAKE: bool;

    /// Reads into `into`, which has room for [`READ_BYTES_MIN`] bytes at least. 0: the sender has
    /// ended the stream. Unless it [has more](Stream::has_more) then, there is no more at present,
    /// and the socket's next event says when there is (at the end of the stream there may be none;
    /// the caller then reads on). Nothing there: [`io::ErrorKind::WouldBlock`]. Nothing of a line
    /// came, and there may be more: [`io::ErrorKind::Interrupted`].
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize>;

    /// Whether there may be more after a read of `bytes` into `asked`, without an event of the
    /// socket.
    fn has_more(&self, bytes: usize, asked: usize) -> bool {
        bytes == asked
    }

    /// The socket, to be registered for events.
    fn socket(&mut self) -> &mut TcpStream;

    /// The events wanted after the last `read`, of which each causes another. Writing is wanted
    /// while a handshake or an alert waits for room.
    fn interest(&self) -> Interest {
        Interest::READABLE
    }

    /// Tells the sender of another protocol, in that protocol, why the connection ends, as far as
    /// the socket takes it now.
    fn answer(&mut self, _answer: &[u8]) {}

    /// Whether the sender may send lines. A connection of which this is false for
    /// [`handshake_timeout`](TcpConfig::handshake_timeout) is closed.
    fn is_established(&self) -> bool {
        true
    }
}

/// What distinguishes one source of connections from another.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Identity {
    /// Counted as.
    pub kind: SourceKind,
    /// In the origins of lines.
    pub transport: Transport,
    /// In errors: "cannot listen for …".
    pub what: &'static str,
    /// The flag that sets the address.
    pub flag: &'static str,
    /// Of the first thread; others add their number. 12 bytes at most.
    pub thread_name: &'static str,
}

/// A listener and the threads that serve its connections. Dropping it stops it: it accepts no more,
/// reads what has arrived (for a second at most), delivers it, and closes the connections.
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

/// One thread, as the accepting thread sees it.
struct Lane {
    waker: Arc<Waker>,
    /// Connections that it has or is handed.
    connections: AtomicUsize,
    /// Handed over and not yet taken.
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
        let mut listener = listen(address)?;
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

    /// The address it listens on, with the port the kernel chose if port 0 was asked for.
    pub fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }

    /// Whether a thread of it ended by a fault of ours.
    pub fn has_failed(&self) -> bool {
        self.threads.iter().any(SourceThread::has_failed)
    }
}

impl Drop for StreamSource {
    fn drop(&mut self) {
        // First the one that accepts, so that nothing more is handed to the others; then those
        // together.
        drop(self.threads.remove(0));
        self.threads.iter().for_each(SourceThread::signal_stop);
        self.threads.clear();
    }
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_nonblocking(true)?;
    // Without this a restart fails while connections of the last run are in TIME_WAIT.
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(TcpListener::from_std(socket.into()))
}

/// Has the kernel find out whether a silent peer is still there.
fn keep_alive(socket: &TcpStream) -> io::Result<()> {
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
