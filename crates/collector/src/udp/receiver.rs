//! The thread of one socket: reads batches of datagrams into a frame until nothing is left, then
//! waits.
//!
//! A wake-up costs more than receiving a datagram, for this thread and for the sending one. So if
//! datagrams arrive one by one, the thread is woken for each; if they arrive faster, it polls again
//! after a short pause.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mio::{Poll, Token, Waker};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, poll};
use platform::Clock;
use record::framing::foreign::{Foreign, recognise_datagram};
use record::{Format, Hints, Origin, Transport};

use super::chunks::{Chunks, GivenUp, Taken};
use super::datagrams::{BATCH_DATAGRAMS_MAX, Datagrams};
use crate::accounting::{Accounting, DropReason, SourceKind};
use crate::kernel_drops::KernelDrops;
use crate::outlet::Outlet;
use crate::packed::{Unpacked, Unpacker};
use crate::source::{LogLimit, PeerLog, STOP_DRAIN_MAX, StopSignal};

/// How often the kernel's drop count is read.
const DROPS_INTERVAL: Duration = Duration::from_secs(1);
/// The pause while datagrams arrive fast. The smallest default receive buffer of a kernel (208 KiB,
/// without its overhead) holds what arrives during it: 500 datagrams of 300 bytes, 50 of 4 KiB.
const PAUSE: Duration = Duration::from_micros(100);

/// The state of the receiving thread.
pub(super) struct Receiver {
    number: usize,
    socket: UdpSocket,
    /// Only for the waker. The socket is not registered: the kernel would notify the poll of each
    /// datagram, although the thread hardly ever waits when there are many.
    poll: Poll,
    stop: Arc<StopSignal>,
    clock: Arc<dyn Clock>,
    outlet: Outlet,
    /// The origin of the last datagram.
    origin: Origin,
    accounting: Arc<Accounting>,
    drops: KernelDrops,
    drops_read: Instant,
    log_limit: LogLimit,
    protocol_log: PeerLog,
    unpacker: Unpacker,
    chunks: Chunks,
}

impl Receiver {
    /// The receiver of the socket with this number, counted from 0.
    pub fn new(
        (number, socket): (usize, UdpSocket),
        stop: Arc<StopSignal>,
        clock: Arc<dyn Clock>,
        outlet: Outlet,
        accounting: Arc<Accounting>,
        zone: Option<String>,
    ) -> io::Result<Receiver> {
        Ok(Receiver {
            number,
            socket,
            poll: Poll::new()?,
            stop,
            clock,
            outlet,
            origin: Origin {
                hints: Arc::new(Hints { zone, ..Hints::default() }),
                ..Origin::new(Transport::SyslogUdp, Format::Syslog, None)
            },
            accounting,
            drops: KernelDrops::default(),
            drops_read: Instant::now(),
            log_limit: LogLimit::default(),
            protocol_log: PeerLog::default(),
            unpacker: Unpacker::default(),
            chunks: Chunks::default(),
        })
    }

    /// A waker that interrupts any wait of the thread.
    pub fn waker(&self) -> io::Result<Waker> {
        Waker::new(self.poll.registry(), Token(0))
    }

    pub fn run(mut self) {
        let mut datagrams = Datagrams::new();
        while !self.stop.is_raised() {
            let looked = Instant::now();
            let received = self.receive(&mut datagrams);
            self.outlet.flush_if_old();
            if self.drops_read.elapsed() >= DROPS_INTERVAL {
                self.count_kernel_drops();
                self.chunks.give_up_old(Instant::now());
                self.count_given_up();
            }
            if received == BATCH_DATAGRAMS_MAX {
                continue;
            }
            if received <= 1 {
                self.wait();
            }
            if looked.elapsed() < PAUSE {
                std::thread::sleep(PAUSE);
            }
        }
        self.drain(&mut datagrams);
        self.outlet.flush();
        // A datagram that was between its socket lookup and the queue while the socket was
        // connected has arrived by now.
        self.receive(&mut datagrams);
        self.outlet.flush();
        self.count_kernel_drops();
        self.chunks.give_up_all();
        self.count_given_up();
    }

    /// Waits until a datagram arrives, the frame is old, the drop count must be read, or the source
    /// stops.
    fn wait(&mut self) {
        let drops_due = DROPS_INTERVAL.saturating_sub(self.drops_read.elapsed());
        let time = self.outlet.due_in().map_or(drops_due, |due| due.min(drops_due));
        let mut waited = [self.socket.as_fd(), self.poll.registry().as_fd()]
            .map(|fd| PollFd::new(fd, PollFlags::POLLIN));
        // Rounded up: rounded down, the last part of a millisecond would be spent polling.
        let time_ms = time.as_micros().div_ceil(1000) as u16;
        match poll(&mut waited, time_ms) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => self.log(&error.into()),
        }
    }

    /// Receives what the kernel still holds. A socket that is connected to itself gets nothing more
    /// from others, so this ends under any flood, and no queued datagram is discarded uncounted.
    fn drain(&mut self, datagrams: &mut Datagrams) {
        let connected = self.socket.local_addr().and_then(|itself| self.socket.connect(itself));
        if let Err(error) = &connected {
            tracing::warn!(%error, "datagrams that still arrive while stopping may be lost");
        }
        let deadline = Instant::now() + STOP_DRAIN_MAX;
        while self.receive(datagrams) > 0 && (connected.is_ok() || Instant::now() < deadline) {}
    }

    /// Receives a batch. Returns how many datagrams it had.
    fn receive(&mut self, datagrams: &mut Datagrams) -> usize {
        let received_ns = self.clock.now_ns();
        let datagrams = match datagrams.receive(self.socket.as_fd()) {
            Ok(datagrams) => datagrams,
            Err(error) => {
                if error.kind() != io::ErrorKind::WouldBlock {
                    self.log(&error);
                }
                return 0;
            }
        };
        let received = datagrams.len();
        let now = Instant::now();
        for datagram in datagrams {
            let line = datagram.bytes.strip_suffix(b"\n").unwrap_or(datagram.bytes);
            if line.is_empty() {
                continue;
            }
            match self.chunks.take(datagram.sender, datagram.bytes, now) {
                Taken::NoChunk => {}
                Taken::Waits => continue,
                Taken::Whole(message) => {
                    let unpacked = self.unpacker.unpack_datagram(&message);
                    let whole = Unpacked { line: &message, cut: false, doubt: None };
                    let Unpacked { line, cut, doubt } = unpacked.unwrap_or(whole);
                    self.origin.sender = Some(datagram.sender);
                    self.outlet.push_line_in_doubt(&self.origin, received_ns, line, cut, doubt);
                    continue;
                }
            }
            // With the newline: it may be the last byte of a checksum.
            let unpacked = self.unpacker.unpack_datagram(datagram.bytes);
            if let Some(Unpacked { line, cut, doubt: None }) = unpacked {
                self.origin.sender = Some(datagram.sender);
                self.outlet.push_line(&self.origin, received_ns, line, cut);
                continue;
            }
            if let Some(foreign) = recognise_datagram(line) {
                refuse(foreign, datagram.sender, &mut self.protocol_log);
                let counters = self.accounting.source(SourceKind::SyslogUdp);
                counters.wrong_protocol(datagram.bytes.len() as u64);
                continue;
            }
            self.origin.sender = Some(datagram.sender);
            self.outlet.push_line(&self.origin, received_ns, line, datagram.cut);
        }
        received
    }

    fn count_kernel_drops(&mut self) {
        self.drops_read = Instant::now();
        match self.drops.new_drops(&self.socket) {
            Ok(0) => {}
            Ok(drops) => {
                self.accounting.source(SourceKind::SyslogUdp).dropped(DropReason::Kernel, drops);
                self.accounting.udp_sockets.dropped(self.number, drops);
            }
            Err(error) => self.log(&error),
        }
    }

    /// Counts messages of which chunks did not come.
    fn count_given_up(&mut self) {
        let GivenUp { messages, bytes } = self.chunks.take_given_up();
        if messages > 0 {
            let counters = self.accounting.source(SourceKind::SyslogUdp);
            counters.received(messages, bytes);
            counters.dropped(DropReason::Incomplete, messages);
            counters.dropped_bytes(DropReason::Incomplete, bytes);
        }
    }

    fn log(&mut self, error: &io::Error) {
        if let Some(held_back) = self.log_limit.pass() {
            tracing::error!(%error, held_back, "receiving datagrams");
        }
    }
}

/// Logs a datagram of another protocol, of which nothing is kept.
#[cold]
fn refuse(foreign: Foreign, sender: SocketAddr, log: &mut PeerLog) {
    if let Some(held_back) = log.pass(sender.ip()) {
        let (name, remedy) = (foreign.name(), foreign.remedy());
        tracing::warn!(
            %sender,
            held_back,
            "datagram refused: its sender sends {name}, and this port takes syslog: {remedy}"
        );
    }
}
