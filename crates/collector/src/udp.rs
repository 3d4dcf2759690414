//! Syslog datagrams (RFC 5426): one datagram is one line.
//!
//! A thread reads the socket into a frame until nothing is left, the frame is full, or it is old. One newline
//! at the end of a datagram is taken off, since some senders put one there; newlines within stay. An empty
//! datagram (or a newline alone) carries no line and is ignored.
//!
//! UDP has no way to push a sender back. What comes faster than it is delivered waits in the kernel's receive
//! buffer, so that is made as large as allowed; what does not fit there the kernel drops, and its count is
//! read once a second and at the end ([`DropReason::Kernel`]). Hence *sent = received + dropped by the kernel*,
//! as long as nothing was lost on the way to this machine, which no receiver can know.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mio::net::UdpSocket;
use mio::{Events, Interest, Poll, Token, Waker};
use platform::Clock;
use record::{Format, Origin, Transport};
use socket2::{Domain, Protocol, Socket, Type};

use crate::accounting::{Accounting, DropReason, SourceKind};
use crate::deliver::Deliver;
use crate::kernel_drops::KernelDrops;
use crate::outlet::{Destination, FRAME_AGE_MS, Outlet};
use crate::source::{LogLimit, STOP_DRAIN_MAX, SourceError, SourceThread, StopSignal, canonical};

/// What is asked of the kernel as receive buffer, unless configured otherwise: 64 MiB hold about 80,000
/// datagrams of 300 bytes (the kernel counts its own overhead too), a tenth of a second of the fastest flood.
/// Beyond the buffer the kernel drops datagrams and counts them.
pub const RECEIVE_BUFFER_BYTES: usize = 64 << 20;
/// Longest datagram, more than IPv4 or IPv6 without jumbograms can carry: none is cut.
const DATAGRAM_BYTES_MAX: usize = 64 << 10;
/// Datagrams read under one time of arrival. Then the clock, the age of the frame, and whether to stop are
/// looked at again: every millisecond or so under a flood.
const STRETCH_DATAGRAMS_MAX: usize = 512;
/// How often the kernel's count of drops is read.
const DROPS_INTERVAL: Duration = Duration::from_secs(1);
/// The flag that sets the address.
const FLAG: &str = "--syslog-udp-listen";

const SOCKET: Token = Token(0);
const WAKER: Token = Token(1);

/// Tunables of a [`UdpSource`].
#[derive(Clone, Debug)]
pub struct UdpConfig {
    /// How long a frame that is not full waits for more lines.
    pub frame_age_ms: u64,
    /// What is asked of the kernel as receive buffer. Without CAP_NET_ADMIN it gives at most
    /// `net.core.rmem_max`.
    pub receive_buffer_bytes: usize,
}

impl Default for UdpConfig {
    fn default() -> Self {
        UdpConfig { frame_age_ms: FRAME_AGE_MS, receive_buffer_bytes: RECEIVE_BUFFER_BYTES }
    }
}

/// A listener for syslog datagrams. Dropping it is as [`UdpSource::stop`].
pub struct UdpSource {
    local_addr: SocketAddr,
    thread: SourceThread,
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
        Self::try_start(address, &config, deliver, accounting, clock)
            .map_err(|error| SourceError::new("syslog datagrams", FLAG, address, error))
    }

    fn try_start(
        address: SocketAddr,
        config: &UdpConfig,
        deliver: Arc<dyn Deliver>,
        accounting: Arc<Accounting>,
        clock: Arc<dyn Clock>,
    ) -> io::Result<UdpSource> {
        let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
        socket.set_nonblocking(true)?;
        enlarge_receive_buffer(&socket, config.receive_buffer_bytes)?;
        socket.bind(&address.into())?;
        let mut socket = UdpSocket::from_std(socket.into());
        let local_addr = socket.local_addr()?;
        let drops = KernelDrops::of(&socket, local_addr.is_ipv6())?;

        let poll = Poll::new()?;
        poll.registry().register(&mut socket, SOCKET, Interest::READABLE)?;
        let waker = Waker::new(poll.registry(), WAKER)?;
        let stop = Arc::new(StopSignal::default());
        let destination = Destination::new(SourceKind::SyslogUdp, deliver, Arc::clone(&accounting));
        let receiver = Receiver {
            socket,
            poll,
            stop: Arc::clone(&stop),
            clock,
            outlet: Outlet::new(destination, config.frame_age_ms, Arc::clone(&stop)),
            origin: Origin::new(Transport::SyslogUdp, Format::Syslog, None),
            buffer: vec![0; DATAGRAM_BYTES_MAX],
            accounting,
            drops,
            drops_read: Instant::now(),
            log_limit: LogLimit::default(),
        };
        let thread = SourceThread::start("syslog-udp", stop, waker, move || receiver.run())?;
        Ok(UdpSource { local_addr, thread })
    }

    /// The address it listens on, with the port the kernel chose if port 0 was asked for.
    pub fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }

    /// Stops: takes what the kernel still holds, delivers it, and ends the thread.
    pub fn stop(self) {
        drop(self.thread);
    }
}

fn enlarge_receive_buffer(socket: &Socket, wanted_bytes: usize) -> io::Result<()> {
    // Beyond net.core.rmem_max only with CAP_NET_ADMIN.
    if rustix::net::sockopt::set_socket_recv_buffer_size_force(socket, wanted_bytes).is_err() {
        socket.set_recv_buffer_size(wanted_bytes)?;
    }
    // The kernel doubles what is asked for, for its overhead (socket(7)).
    let got_bytes = socket.recv_buffer_size()? / 2;
    if got_bytes < wanted_bytes {
        tracing::warn!(
            wanted_bytes,
            got_bytes,
            "the kernel gives a smaller receive buffer for datagrams than asked for, so bursts may be \
             dropped; to raise it: sysctl -w net.core.rmem_max={wanted_bytes}",
        );
    }
    Ok(())
}

/// The state of the receiving thread.
struct Receiver {
    socket: UdpSocket,
    poll: Poll,
    stop: Arc<StopSignal>,
    clock: Arc<dyn Clock>,
    outlet: Outlet,
    /// Of the last datagram.
    origin: Origin,
    buffer: Vec<u8>,
    accounting: Arc<Accounting>,
    drops: KernelDrops,
    drops_read: Instant,
    log_limit: LogLimit,
}

impl Receiver {
    fn run(mut self) {
        let mut events = Events::with_capacity(8);
        while !self.stop.is_raised() {
            let more = self.receive_stretch();
            self.outlet.flush_if_old();
            if self.drops_read.elapsed() >= DROPS_INTERVAL {
                self.count_kernel_drops();
            }
            if more {
                continue;
            }
            let drops_due = DROPS_INTERVAL.saturating_sub(self.drops_read.elapsed());
            let wait = self.outlet.due_in().map_or(drops_due, |due| due.min(drops_due));
            if let Err(error) = self.poll.poll(&mut events, Some(wait))
                && error.kind() != io::ErrorKind::Interrupted
            {
                self.log(&error);
            }
        }
        self.drain();
        self.outlet.flush();
        self.count_kernel_drops();
    }

    /// Takes what the kernel holds. A socket that is connected to itself gets nothing more from others, so that
    /// this comes to an end under any flood, and nothing that was accepted is thrown away uncounted.
    fn drain(&mut self) {
        let connected = self.socket.local_addr().and_then(|itself| self.socket.connect(itself));
        if let Err(error) = &connected {
            tracing::warn!(%error, "datagrams that still arrive while stopping may be lost");
        }
        let deadline = Instant::now() + STOP_DRAIN_MAX;
        while self.receive_stretch() && (connected.is_ok() || Instant::now() < deadline) {}
    }

    /// Reads what is there, up to [`STRETCH_DATAGRAMS_MAX`]. Returns whether there may be more.
    fn receive_stretch(&mut self) -> bool {
        let received_ns = self.clock.now_ns();
        for _ in 0..STRETCH_DATAGRAMS_MAX {
            match self.socket.recv_from(&mut self.buffer) {
                Ok((bytes, sender)) => self.take(bytes, canonical(sender), received_ns),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return false,
                Err(error) => {
                    self.log(&error);
                    return false;
                }
            }
        }
        true
    }

    fn take(&mut self, bytes: usize, sender: SocketAddr, received_ns: i64) {
        let datagram = &self.buffer[..bytes];
        let line = datagram.strip_suffix(b"\n").unwrap_or(datagram);
        if line.is_empty() {
            return;
        }
        if self.origin.sender != Some(sender) {
            self.origin.sender = Some(sender);
        }
        self.outlet.push_line(&self.origin, received_ns, line, false);
    }

    fn count_kernel_drops(&mut self) {
        self.drops_read = Instant::now();
        match self.drops.new_drops() {
            Ok(0) => {}
            Ok(drops) => {
                self.accounting.source(SourceKind::SyslogUdp).dropped(DropReason::Kernel, drops);
            }
            Err(error) => self.log(&error),
        }
    }

    fn log(&mut self, error: &io::Error) {
        if let Some(held_back) = self.log_limit.pass() {
            tracing::error!(%error, held_back, "receiving datagrams");
        }
    }
}
