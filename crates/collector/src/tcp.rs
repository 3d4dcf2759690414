//! Syslog over TCP (RFC 6587). Newline-framed and octet-counted senders share one port; see
//! [`record::framing`].
//!
//! How connections are served, and their limits, is in [`crate::stream`].

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

/// Bytes that are read and discarded from a sender that gets an answer of its own protocol.
const UNREAD_BYTES_MAX: u64 = 64 << 10;

/// A listener for syslog over TCP. Dropping it stops it, as [`TcpSource::stop`] does.
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

    /// The address it listens on, with the port the kernel chose if port 0 was requested.
    pub fn local_addr(&self) -> SocketAddr {
        self.0.local_addr()
    }

    /// Whether one of the threads ended by a panic. The caller then drops the source and starts it
    /// again.
    pub fn has_failed(&self) -> bool {
        self.0.has_failed()
    }

    /// Stops the source: stops accepting, reads what has arrived (for at most a second), delivers
    /// that, closes the connections, and ends the threads.
    pub fn stop(self) {
        drop(self.0);
    }
}

/// Plain TCP connections.
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
        // A sender that does not read the answer still sees the connection end.
        let _ = self.write(answer);
        let _ = self.shutdown(Shutdown::Write);
        // Closing a socket with unread bytes resets the connection, and the peer would lose the
        // answer.
        let _ = io::copy(&mut Read::take(&mut *self, UNREAD_BYTES_MAX), &mut io::sink());
    }
}
