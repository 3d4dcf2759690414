//! Syslog over TCP (RFC 6587), newline- and octet-framed senders on one port; see
//! [`record::framing`].
//!
//! How connections are served, and what bounds them, is in [`crate::stream`].

use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::net::SocketAddr;
use std::sync::Arc;

use mio::net::TcpStream;
use platform::Clock;
use record::Transport;

use crate::accounting::{Accounting, SourceKind};
use crate::deliver::Deliver;
use crate::source::SourceError;
use crate::stream::{Accept, Identity, Stream, StreamSource, TcpConfig};

const IDENTITY: Identity = Identity {
    kind: SourceKind::SyslogTcp,
    transport: Transport::SyslogTcp,
    what: "syslog over TCP",
    flag: "--syslog-tcp-listen",
    thread_name: "syslog-tcp",
};

/// Bytes that are read and forgotten of a sender that is answered.
const UNREAD_BYTES_MAX: u64 = 64 << 10;

/// A listener for syslog over TCP. Dropping it is as [`TcpSource::stop`].
pub struct TcpSource(StreamSource);

impl TcpSource {
    /// Binds the address and starts to accept.
    pub fn start(
        address: SocketAddr,
        config: TcpConfig,
        deliver: Arc<dyn Deliver>,
        accounting: Arc<Accounting>,
        clock: Arc<dyn Clock>,
    ) -> Result<TcpSource, SourceError> {
        StreamSource::start(address, IDENTITY, Plain, config, &deliver, accounting, clock)
            .map(TcpSource)
    }

    /// The address it listens on, with the port the kernel chose if port 0 was asked for.
    pub fn local_addr(&self) -> SocketAddr {
        self.0.local_addr()
    }

    /// Whether a thread of it ended by a fault of ours: then it is to be dropped, and started
    /// again.
    pub fn has_failed(&self) -> bool {
        self.0.has_failed()
    }

    /// Stops: accepts no more, reads what has arrived (for a second at most), delivers it, closes
    /// the connections, and ends the threads.
    pub fn stop(self) {
        drop(self.0);
    }
}

/// Connections as they are.
struct Plain;

impl Accept for Plain {
    type Stream = TcpStream;

    fn open(&self, socket: TcpStream, _sender: SocketAddr) -> io::Result<TcpStream> {
        Ok(socket)
    }
}

impl Stream for TcpStream {
    const HAS_HANDSHAKE: bool = false;

    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        Read::read(self, into)
    }

    fn socket(&mut self) -> &mut TcpStream {
        self
    }

    fn answer(&mut self, answer: &[u8]) {
        // A sender that does not take it sees the connection end in any case.
        let _ = self.write(answer);
        let _ = self.shutdown(Shutdown::Write);
        // Closing with bytes unread would take the answer back from the other side.
        let _ = io::copy(&mut Read::take(&mut *self, UNREAD_BYTES_MAX), &mut io::sink());
    }
}
