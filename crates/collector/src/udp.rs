//! Syslog datagrams (RFC 5426): one datagram is one line.
//!
//! Several sockets share the address (SO_REUSEPORT), with one thread each. The kernel chooses the
//! socket by a hash of the sender's address and port: the datagrams of one sender port come to one
//! thread and stay in order, and a single sender loads a single thread. Lines of different senders
//! are in the order in which a thread read them, which within a batch is the order of arrival.
//! Sorting a batch by sender would save 24 bytes per line in the hot segment, but would lose which
//! of two hosts spoke first when their timestamps only have seconds.
//!
//! One newline at the end of a datagram is removed, since some senders add one; newlines within
//! stay. An empty datagram (or a newline alone) carries no line and is ignored.
//!
//! Messages of GELF may come in chunks, which are put together first ([`chunks`]).
//!
//! UDP cannot push a sender back. Datagrams that arrive faster than they are delivered wait in the
//! kernel's receive buffer, which is made as large as allowed. The kernel drops what does not fit;
//! its drop count is read once a second and at the end ([`DropReason::Kernel`], and by socket in
//! [`SocketDrops`]). Hence *sent = received + dropped by the kernel*, provided nothing was lost on
//! the way to this machine, which no receiver can know.
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

mod chunks;
mod datagrams;
mod receiver;

use receiver::Receiver;

/// Receive buffer requested from the kernel for each socket, unless configured otherwise: 64 MiB
/// hold about 80,000 datagrams of 300 bytes (the kernel counts its own overhead too), a tenth of a
/// second of the fastest flood. Beyond the buffer the kernel drops datagrams and counts them.
pub const RECEIVE_BUFFER_BYTES: usize = 64 << 20;
/// Unless configured otherwise there is one socket per processor, up to this many. One thread takes
/// more than half a million datagrams a second, but its buffer overflows while another thread has
/// its processor: of a flood that two processors can just handle, one socket lost 4 to 21% and two
/// lost 1 to 5%. Each socket builds its own frames, which are small on a quiet system.
const SOCKETS_BY_CORES_MAX: usize = 4;
/// The flag that sets the address.
const FLAG: &str = "--syslog-udp-listen";

/// Tunables of a [`UdpSource`].
#[derive(Clone, Debug)]
pub struct UdpConfig {
    /// How long a frame that is not full waits for more lines.
    pub frame_age_ms: u64,
    /// Receive buffer requested from the kernel for each socket. Without CAP_NET_ADMIN the kernel
    /// grants at most `net.core.rmem_max`.
    pub receive_buffer_bytes: usize,
    /// Sockets that share the datagrams, at most [`UDP_SOCKETS_MAX`]; 0 means one per processor, at
    /// most 4.
    pub sockets: usize,
    /// Zone of times that name none.
    pub zone: Option<String>,
}

impl Default for UdpConfig {
    fn default() -> Self {
        UdpConfig {
            frame_age_ms: FRAME_AGE_MS,
            receive_buffer_bytes: RECEIVE_BUFFER_BYTES,
            sockets: 0,
            zone: None,
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

/// A listener for syslog datagrams. Dropping it stops it, as [`UdpSource::stop`] does.
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
        // One signal for all: a thread that stops early drains its socket, and the other sockets
        // then get its senders.
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
                config.zone.clone(),
            )?;
            let name = format!("syslog-udp-{number}");
            let waker = receiver.waker()?;
            let counted = (Arc::clone(accounting), SourceKind::SyslogUdp);
            SourceThread::start(&name, counted, Arc::clone(&stop), waker, move || receiver.run())
        };
        let threads = sockets.into_iter().enumerate().map(start).collect::<io::Result<_>>()?;
        Ok(UdpSource { local_addr, threads })
    }

    /// The address it listens on, with the port the kernel chose if port 0 was requested.
    pub fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }

    /// Whether one of the threads ended by a panic. The caller then drops the source and starts it
    /// again.
    pub fn has_failed(&self) -> bool {
        self.threads.iter().any(SourceThread::has_failed)
    }

    /// Stops the source: reads what the kernel still holds, delivers it, and ends the threads.
    pub fn stop(self) {
        drop(self.threads);
    }
}

/// Sockets that share the address, and the address.
///
/// The first socket is bound without SO_REUSEPORT, so that an address in use is an error, even if
/// another Loginson uses it. Only then is it set to share the address with the others.
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

/// The kernel doubles the requested size for its overhead (socket(7)).
fn enlarge_receive_buffer(socket: &Socket, wanted_bytes: usize) -> io::Result<()> {
    // Exceeding net.core.rmem_max requires CAP_NET_ADMIN.
    if rustix::net::sockopt::set_socket_recv_buffer_size_force(socket, wanted_bytes).is_err() {
        socket.set_recv_buffer_size(wanted_bytes)?;
    }
    Ok(())
}
