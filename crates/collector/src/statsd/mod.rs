//! Measurements of StatsD, in datagrams: samples are added up over ten seconds, and each series
//! then becomes a row ([`series`]).
//!
//! UDP cannot push a sender back, and nobody is told what became of a sample: a process that is
//! killed loses the samples of up to ten seconds. A source that stops writes the rows of what it
//! has. Rows count as received lines, and so does each line of a datagram that is not a sample, or
//! for which there is no room; those are dropped (`bad_request`).
//!
//! Left out: StatsD over TCP, and what the kernel dropped, which only the counters of its sockets
//! tell.

mod series;

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

use mio::{Poll, Token, Waker};
use platform::Clock;
use record::{Format, Hints, Origin, Transport};

use crate::accounting::{Accounting, DropReason, SourceKind};
use crate::body::metrics::LOG_TYPE;
use crate::deliver::Deliver;
use crate::outlet::{Destination, FRAME_AGE_MS, Outlet};
use crate::source::{LogLimit, STOP_DRAIN_MAX, SourceError, SourceThread, StopSignal};
use series::{NotAdded, Series};

/// The time over which samples are added up, that of StatsD itself.
const INTERVAL: Duration = Duration::from_secs(10);
/// How long the thread waits for a datagram before it looks whether something is due.
const WAIT_MAX: Duration = Duration::from_millis(200);
/// The longest datagram.
const DATAGRAM_BYTES_MAX: usize = 64 << 10;
/// Receive buffer requested from the kernel.
const RECEIVE_BUFFER_BYTES: usize = 8 << 20;
/// The flag that sets the address.
const FLAG: &str = "--statsd-listen";

/// A listener for StatsD. Dropping it stops it.
pub struct StatsdSource {
    local_addr: SocketAddr,
    thread: SourceThread,
}

impl StatsdSource {
    /// Binds the address and starts to receive.
    ///
    /// # Errors
    /// If the address cannot be used.
    pub fn start(
        address: SocketAddr,
        deliver: Arc<dyn Deliver>,
        accounting: Arc<Accounting>,
        clock: Arc<dyn Clock>,
    ) -> Result<StatsdSource, SourceError> {
        Self::try_start(address, deliver, accounting, clock)
            .map_err(|error| SourceError::new("StatsD", FLAG, address, error))
    }

    fn try_start(
        address: SocketAddr,
        deliver: Arc<dyn Deliver>,
        accounting: Arc<Accounting>,
        clock: Arc<dyn Clock>,
    ) -> io::Result<StatsdSource> {
        let socket = UdpSocket::bind(address)?;
        // Failing leaves the usual size.
        let _ = rustix::net::sockopt::set_socket_recv_buffer_size(&socket, RECEIVE_BUFFER_BYTES);
        socket.set_read_timeout(Some(WAIT_MAX))?;
        let local_addr = socket.local_addr()?;
        let stop = Arc::new(StopSignal::default());
        // The thread never waits for long, so nothing waits on this poll.
        let poll = Poll::new()?;
        let waker = Waker::new(poll.registry(), Token(0))?;
        let destination = Destination::new(SourceKind::Statsd, deliver, Arc::clone(&accounting));
        let receiver = Receiver {
            socket,
            outlet: Outlet::new(destination, FRAME_AGE_MS, Arc::clone(&stop)),
            stop: Arc::clone(&stop),
            clock,
            accounting: Arc::clone(&accounting),
            series: Series::default(),
            begun: Instant::now(),
            log_limit: LogLimit::default(),
        };
        let counted = (accounting, SourceKind::Statsd);
        let work = move || {
            receiver.run();
            drop(poll);
        };
        let thread = SourceThread::start("statsd", counted, stop, waker, work)?;
        Ok(StatsdSource { local_addr, thread })
    }

    /// The address it listens on, with the port the kernel chose if port 0 was requested.
    pub fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }

    /// Whether its thread ended by a panic. The caller then drops the source and starts it again.
    pub fn has_failed(&self) -> bool {
        self.thread.has_failed()
    }
}

struct Receiver {
    socket: UdpSocket,
    outlet: Outlet,
    stop: Arc<StopSignal>,
    clock: Arc<dyn Clock>,
    accounting: Arc<Accounting>,
    series: Series,
    /// When the interval began.
    begun: Instant,
    log_limit: LogLimit,
}

impl Receiver {
    fn run(mut self) {
        let mut datagram = vec![0; DATAGRAM_BYTES_MAX];
        while !self.stop.is_raised() {
            self.receive(&mut datagram);
            if self.begun.elapsed() >= INTERVAL {
                self.write();
            }
            self.outlet.flush_if_old();
        }
        // What has arrived before is still read.
        let end = Instant::now() + STOP_DRAIN_MAX;
        if self.socket.set_nonblocking(true).is_ok() {
            while self.receive(&mut datagram) && Instant::now() < end {}
        }
        self.write();
        self.outlet.flush();
    }

    /// Adds the samples of the next datagram; false if there is none.
    fn receive(&mut self, datagram: &mut [u8]) -> bool {
        let (bytes, sender) = match self.socket.recv_from(datagram) {
            Ok(received) => received,
            Err(error) => {
                let is_none = matches!(
                    error.kind(),
                    io::ErrorKind::WouldBlock
                        | io::ErrorKind::TimedOut
                        | io::ErrorKind::Interrupted
                );
                if !is_none && let Some(held_back) = self.log_limit.pass() {
                    tracing::warn!(%error, held_back, "a datagram of StatsD cannot be received");
                }
                return false;
            }
        };
        for line in datagram[..bytes].split(|&byte| byte == b'\n') {
            let line = line.trim_ascii();
            if line.is_empty() {
                continue;
            }
            let Err(why) = self.series.add(line) else { continue };
            let counters = self.accounting.source(SourceKind::Statsd);
            counters.received(1, line.len() as u64);
            counters.dropped(DropReason::BadRequest, 1);
            counters.dropped_bytes(DropReason::BadRequest, line.len() as u64);
            if let Some(held_back) = self.log_limit.pass() {
                let why = match why {
                    NotAdded::Wrong => "it is not a sample of StatsD",
                    NotAdded::Full => "there are too many different names and tags; use fewer",
                };
                tracing::warn!(%sender, held_back, "a line to statsd_listen is dropped: {why}");
            }
        }
        true
    }

    /// Writes the rows of the interval, and begins the next one.
    fn write(&mut self) {
        let duration = self.begun.elapsed().as_secs_f64();
        // Tenths are enough, and give the same number each time.
        let duration = (duration * 10.0).round() / 10.0;
        self.begun = Instant::now();
        let now_ns = self.clock.now_ns();
        let stream_fields = vec!["name".to_owned()];
        let log_type = Some(LOG_TYPE.to_owned());
        let origin = Origin {
            hints: Arc::new(Hints { log_type, stream_fields, ..Hints::default() }),
            ..Origin::new(Transport::Statsd, Format::Json, None)
        };
        let outlet = &mut self.outlet;
        self.series.write(now_ns, duration, |row| outlet.push_line(&origin, now_ns, row, false));
    }
}

#[cfg(test)]
mod tests {
    use platform::RealClock;

    use super::*;
    use crate::keeper::Keeper;

    #[test]
    fn samples_become_rows_at_the_end_at_the_latest() {
        let (keeper, accounting) = (Arc::new(Keeper::default()), Arc::new(Accounting::default()));
        let source = StatsdSource::start(
            ([127, 0, 0, 1], 0).into(),
            Arc::clone(&keeper) as Arc<dyn Deliver>,
            Arc::clone(&accounting),
            Arc::new(RealClock::new()),
        )
        .unwrap();
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        sender.send_to(b"a:1|c\nb:2|g\nnothing\n", source.local_addr()).unwrap();
        sender.send_to(b"a:2|c", source.local_addr()).unwrap();
        // The kernel has queued them: they are read before the source ends.
        drop(source);
        keeper.wait_for_lines(2);
        let counts = accounting.source(SourceKind::Statsd).counts();
        assert_eq!((counts.lines_received, counts.lines_kept), (3, 2));
        assert_eq!(counts.dropped(DropReason::BadRequest).lines, 1);
    }
}
