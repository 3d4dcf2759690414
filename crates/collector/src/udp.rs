//! Syslog datagrams (RFC 5426): one datagram is one line.
//!
//! Several sockets share the address (SO_REUSEPORT), a thread each. The kernel chooses the socket
//! by a hash of the sender's address and port: what one sender sends from one port comes to one
//! thread and stays in order, and a single sender loads a single thread. Lines of different senders
//! are in the order in which a thread read them, which within a batch is that of their arrival:
//! putting a batch in order of its senders would save 24 bytes a line in the hot segment, and lose
//! which of two hosts spoke first where their times say no more than the second.
//!
//! One newline at the end of a datagram is taken off, since some senders put one there; newlines
//! within stay. An empty datagram (or a newline alone) carries no line and is ignored.
//!
//! UDP has no way to push a sender back. What comes faster than it is delivered waits in the
//! kernel's receive buffer, so that is made as large as allowed; what does not fit there the kernel
//! drops, and its count is read once a second and at the end ([`DropReason::Kernel`], and by socket
//! in [`SocketDrops`]). Hence *sent = received + dropped by the kernel*, as long as nothing was
//! lost on the way to this machine, which no receiver can know.
//!
//! [`DropReason::Kernel`]: crate::DropReason::Kernel
//! [`SocketDrops`]: crate::socket_drops::SocketDrops

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use platform::Clock;
use socket2::{Domain, Protocol, Socket, Type};

use crate::accounting::{Accounting, SourceKind};
use crate::deliver::Deliver;
use crate::outlet::{Destination, FRAME_AGE_MS, Outlet};
use crate::socket_drops::UDP_SOCKETS_MAX;
use crate::source::{SourceError, SourceThread, StopSignal};

mod datagrams;
mod receiver;

use receiver::Receiver;

/// What is asked of the kernel as receive buffer of each socket, unless configured otherwise: 64
/// MiB hold about 80,000 datagrams of 300 bytes (the kernel counts its own overhead too), a tenth
/// of a second of the fastest flood. Beyond the buffer the kernel drops datagrams and counts them.
pub const RECEIVE_BUFFER_BYTES: usize = 64 << 20;
/// Sockets, unless configured otherwise, are as many as processors and no more than this. One
/// thread takes more than half a million datagrams a second, but while another has its processor
/// its buffer overflows: of a flood that two processors can just take, one socket lost 4 to 21% and
/// two lost 1 to 5%. Each has frames of its own, which on a quiet system are small.
const SOCKETS_BY_CORES_MAX: usize = 4;
/// The flag that sets the address.
const FLAG: &str = "--syslog-udp-listen";

/// Tunables of a [`UdpSource`].
#[derive(Clone, Debug)]
pub struct UdpConfig {
    /// How long a frame that is not full waits for more lines.
    pub frame_age_ms: u64,
    /// What is asked of the kernel as receive buffer of each socket. Without CAP_NET_ADMIN it gives
    /// at most `net.core.rmem_max`.
    pub receive_buffer_bytes: usize,
    /// Sockets that share the datagrams, at most [`UDP_SOCKETS_MAX`]; 0 for as many as processors,
    /// at most 4.
    pub sockets: usize,
}

impl Default for UdpConfig {
    fn default() -> Self {
        UdpConfig {
            frame_age_ms: FRAME_AGE_MS,
            receive_buffer_bytes: RECEIVE_BUFFER_BYTES,
            sockets: 0,
        }
    }
}

impl UdpConfig {
    fn sockets(&self) -> usize {
        let by_cores = || std::thread::available_parallelism().map_or(1, |cores| cores.get());
        match self.sockets {
            0 => by_cores().clamp(1, SOCKETS_BY_CORES_MAX),
            sockets => sockets.min(UDP_SOCKETS_MAX),
        }
    }
}

/// A listener for syslog datagrams. Dropping it is as [`UdpSource::stop`].
pub struct UdpSource {
    local_addr: SocketAddr,
    threads: Vec<SourceThread>,
}

impl UdpSource {
    /// Binds the address and starts to receive.
    pub fn start(
        address: SocketAddr,
        config: UdpConfig,
        deliver: Arc<dyn Deliver>,
        accounting: Arc<Accounting>,
        clock: Arc<dyn Clock>,
    ) -> Result<UdpSource, SourceError> {
        Self::try_start(address, &config, &deliver, &accounting, &clock)
            .map_err(|error| SourceError::new("syslog datagrams", FLAG, address, error))
    }

    fn try_start(
        address: SocketAddr,
        config: &UdpConfig,
        deliver: &Arc<dyn Deliver>,
        accounting: &Arc<Accounting>,
        clock: &Arc<dyn Clock>,
    ) -> io::Result<UdpSource> {
        let (sockets, local_addr) = bind(address, config)?;
        accounting.udp_sockets.opened(sockets.len());
        // One signal: a thread that sees it early takes what its socket holds, and the others have
        // its senders.
        let stop = Arc::new(StopSignal::default());
        let start = |(number, socket): (usize, Socket)| {
            let destination = Destination::new(
                SourceKind::SyslogUdp,
                Arc::clone(deliver),
                Arc::clone(accounting),
            );
            let outlet = Outlet::new(destination, config.frame_age_ms, Arc::clone(&stop));
            let receiver = Receiver::new(
                (number, socket.into()),
                Arc::clone(&stop),
                Arc::clone(clock),
                outlet,
                Arc::clone(accounting),
            )?;
            let name = format!("syslog-udp-{number}");
            let waker = receiver.waker()?;
            let counted = (Arc::clone(accounting), SourceKind::SyslogUdp);
            SourceThread::start(&name, counted, Arc::clone(&stop), waker, move || receiver.run())
        };
        let threads = sockets.into_iter().enumerate().map(start).collect::<io::Result<_>>()?;
        Ok(UdpSource { local_addr, threads })
    }

    /// The address it listens on, with the port the kernel chose if port 0 was asked for.
    pub fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }

    /// Whether a thread of it ended by a fault of ours: then it is to be dropped, and started
    /// again.
    pub fn has_failed(&self) -> bool {
        self.threads.iter().any(SourceThread::has_failed)
    }

    /// Stops: takes what the kernel still holds, delivers it, and ends the threads.
    pub fn stop(self) {
        drop(self.threads);
    }
}

/// Sockets that share the address, and the address.
///
/// The first is bound alone, so that an address in use is an error, also when another Loginson has
/// it; only then is it told to share, which it does with the others.
fn bind(address: SocketAddr, config: &UdpConfig) -> io::Result<(Vec<Socket>, SocketAddr)> {
    let open = || {
        let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
        enlarge_receive_buffer(&socket, config.receive_buffer_bytes)?;
        Ok::<_, io::Error>(socket)
    };
    let first = open()?;
    first.bind(&address.into())?;
    let shared = first.local_addr()?;
    let mut sockets = vec![first];
    if config.sockets() > 1 {
        sockets[0].set_reuse_port(true)?;
    }
    while sockets.len() < config.sockets() {
        let socket = open()?;
        socket.set_reuse_port(true)?;
        socket.bind(&shared)?;
        sockets.push(socket);
    }
    let got_bytes = sockets[0].recv_buffer_size()? / 2;
    if got_bytes < config.receive_buffer_bytes {
        let wanted_bytes = config.receive_buffer_bytes;
        tracing::warn!(
            wanted_bytes,
            got_bytes,
            "the kernel gives a smaller receive buffer for datagrams than asked for, so bursts may be \
             dropped; to raise it: sysctl -w net.core.rmem_max={wanted_bytes}",
        );
    }
    let local_addr = shared.as_socket().expect("an address of the internet");
    Ok((sockets, local_addr))
}

/// The kernel doubles what is asked for, for its overhead (socket(7)).
fn enlarge_receive_buffer(socket: &Socket, wanted_bytes: usize) -> io::Result<()> {
    // Beyond net.core.rmem_max only with CAP_NET_ADMIN.
    if rustix::net::sockopt::set_socket_recv_buffer_size_force(socket, wanted_bytes).is_err() {
        socket.set_recv_buffer_size(wanted_bytes)?;
    }
    Ok(())
}
