//! Syslog over TLS (RFC 5425): TLS 1.2 and 1.3, with rustls.
//!
//! How connections are served, and their limits, is in [`crate::stream`]. Framing is as over TCP:
//! octet counting as the RFC requires, and newlines as senders use them. This module adds
//! [`credentials`] and decryption.
//!
//! Decisions:
//! - The threads that read also do the handshakes, one step per turn. At most [`HANDSHAKES_MAX`]
//!   run at once; further connections wait in the kernel until one of those finishes or times out,
//!   so that nobody is refused when all senders reconnect at once.
//! - A peer that does not send TLS is also counted as wrong protocol, and told what to do.
//! - A failed handshake is counted and logged with the peer's address, at most once in ten seconds
//!   per peer. A peer that connects and disconnects without sending a byte, as health checks do,
//!   has not failed.
//! - A connection that ends without `close_notify` is counted as truncated, and a line that it cut
//!   off as [`DropReason::Reset`](crate::DropReason::Reset).
//!
//! Left out: the subject of a client's certificate is not kept with its lines (every line of a
//! connection would carry it; the sender's address is kept).

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use mio::Interest;
use mio::net::TcpStream;
use platform::Clock;
use record::Transport;
use record::framing::foreign::{Recognised, recognise};

use crate::accounting::{Accounting, SourceCounters, SourceKind};
use crate::deliver::Deliver;
use crate::source::{PeerLog, SourceError, StopSignal};
use crate::stream::{Accept, Identity, Stream, StreamSource, TcpConfig};

mod connection;
mod credentials;
mod validity;

use connection::Connection;
pub use credentials::{
    ClientCertificates, Credentials, LOOK_INTERVAL, TlsError, TlsFiles, TlsStatus,
};

/// Handshakes in progress at once. Further connections wait to be accepted. A handshake takes at
/// most about 100 KiB.
///
/// limits.md, Lines on their way in: TLS handshakes at a time | {} | further connections wait in
/// the kernel until a handshake is done or has reached its time limit
const HANDSHAKES_MAX: usize = 1024;

/// The first byte of a handshake record (RFC 8446, §5.1).
const TLS_HANDSHAKE: u8 = 22;
/// The first byte of an alert.
const TLS_ALERT: u8 = 21;

const IDENTITY: Identity = Identity {
    kind: SourceKind::SyslogTls,
    transport: Transport::SyslogTls,
    what: "syslog over TLS",
    flag: "--syslog-tls-listen",
    thread_name: "syslog-tls",
};

/// A listener for syslog over TLS. Dropping it stops it, as [`TlsSource::stop`] does.
pub struct TlsSource {
    source: StreamSource,
    credentials: Arc<Credentials>,
    _looking: FileChecker,
}

impl TlsSource {
    /// Binds the address and starts to accept.
    pub fn start(
        address: SocketAddr,
        config: TcpConfig,
        credentials: Arc<Credentials>,
        deliver: Arc<dyn Deliver>,
        accounting: Arc<Accounting>,
        clock: Arc<dyn Clock>,
    ) -> Result<TlsSource, SourceError> {
        let looking = FileChecker::start(&credentials)
            .map_err(|error| SourceError::new(IDENTITY.what, IDENTITY.flag, address, error))?;
        let accept = Tls(Arc::new(Shared {
            credentials: Arc::clone(&credentials),
            accounting: Arc::clone(&accounting),
            handshakes: AtomicUsize::new(0),
            log: Mutex::default(),
        }));
        let source =
            StreamSource::start(address, IDENTITY, accept, config, &deliver, accounting, clock)?;
        Ok(TlsSource { source, credentials, _looking: looking })
    }

    /// The address it listens on, with the port the kernel chose if port 0 was requested.
    pub fn local_addr(&self) -> SocketAddr {
        self.source.local_addr()
    }

    /// The credentials in use, which can be reloaded.
    pub fn credentials(&self) -> &Arc<Credentials> {
        &self.credentials
    }

    /// Whether one of the threads ended by a panic. The caller then drops the source and starts it
    /// again.
    pub fn has_failed(&self) -> bool {
        self.source.has_failed()
    }

    /// Stops the source: stops accepting, reads what has arrived (for at most a second), delivers
    /// that, closes the connections, and ends the threads.
    pub fn stop(self) {
        drop(self.source);
    }
}

/// The thread that checks the files for changes: a separate one, since a file system may hang.
pub(crate) struct FileChecker {
    stop: Arc<StopSignal>,
    thread: Option<JoinHandle<()>>,
}

impl FileChecker {
    pub fn start(credentials: &Arc<Credentials>) -> io::Result<FileChecker> {
        let stop = Arc::new(StopSignal::default());
        let (stopping, credentials) = (Arc::clone(&stop), Arc::clone(credentials));
        let work = move || {
            while !stopping.wait(LOOK_INTERVAL) {
                credentials.look();
            }
        };
        let thread = std::thread::Builder::new().name("tls-files".into()).spawn(work)?;
        Ok(FileChecker { stop, thread: Some(thread) })
    }
}

impl Drop for FileChecker {
    fn drop(&mut self) {
        self.stop.raise();
        let ended = self.thread.take().expect("taken only here").join();
        assert!(ended.is_ok() || std::thread::panicking(), "looking at files panicked");
    }
}

/// Makes TLS connections.
struct Tls(Arc<Shared>);

/// State shared by the connections.
struct Shared {
    credentials: Arc<Credentials>,
    accounting: Arc<Accounting>,
    /// Handshakes in progress.
    handshakes: AtomicUsize,
    log: Mutex<PeerLog>,
}

impl Shared {
    fn counters(&self) -> &SourceCounters {
        self.accounting.source(IDENTITY.kind)
    }
}

impl Accept for Tls {
    type Stream = TlsStream;

    fn has_room(&self) -> bool {
        self.0.handshakes.load(Relaxed) < HANDSHAKES_MAX
    }

    fn open(&self, socket: TcpStream, sender: SocketAddr) -> io::Result<TlsStream> {
        let connection = Connection::new(socket, self.0.credentials.config());
        let connection = connection.map_err(io::Error::other)?;
        self.0.handshakes.fetch_add(1, Relaxed);
        let phase = Phase::Handshake;
        Ok(TlsStream { connection, sender, shared: Arc::clone(&self.0), phase })
    }
}

/// A connection whose outcome is counted.
struct TlsStream {
    connection: Connection<TcpStream>,
    sender: SocketAddr,
    shared: Arc<Shared>,
    phase: Phase,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Handshake,
    Established,
    /// The outcome was counted.
    Ended,
}

impl TlsStream {
    /// Counts the outcome of the handshake, and how the connection ended.
    fn account(&mut self, read: &io::Result<usize>) {
        if self.phase == Phase::Handshake && self.connection.is_established() {
            self.leave_handshake(Phase::Established);
        }
        let error = match read {
            Err(error) if is_passing(error) => return,
            Ok(1..) => return,
            Ok(0) => None,
            Err(error) => Some(error),
        };
        match self.phase {
            Phase::Handshake => {
                self.leave_handshake(Phase::Ended);
                if !self.connection.first().is_empty() {
                    let closed = || "it closed the connection".into();
                    self.failed(&error.map_or_else(closed, |error| self.reason(error)));
                }
            }
            Phase::Established => {
                self.phase = Phase::Ended;
                if error.is_some_and(|error| error.kind() == io::ErrorKind::UnexpectedEof) {
                    self.shared.counters().connections_truncated.fetch_add(1, Relaxed);
                }
            }
            Phase::Ended => {}
        }
    }

    fn leave_handshake(&mut self, phase: Phase) {
        self.phase = phase;
        self.shared.handshakes.fetch_sub(1, Relaxed);
    }

    /// Why the handshake failed. Peers that do not speak TLS are counted separately.
    fn reason(&self, error: &io::Error) -> String {
        let first = self.connection.first();
        let is_tls = first.starts_with(&[TLS_HANDSHAKE]) || first.starts_with(&[TLS_ALERT]);
        if is_tls || !is_not_tls(error) {
            return reason(error);
        }
        self.shared.counters().wrong_protocol(first.len() as u64);
        let what = match recognise(first) {
            Recognised::Foreign(foreign) => {
                format!("its sender speaks {}: {}", foreign.name(), foreign.remedy())
            }
            _ => "its sender sends lines without TLS: turn TLS on there, or send to \
                  syslog_tcp_listen"
                .to_owned(),
        };
        format!("this port takes TLS, and what it sent is not TLS; {what}")
    }

    fn failed(&self, reason: &str) {
        self.shared.counters().handshakes_failed.fetch_add(1, Relaxed);
        let mut log = self.shared.log.lock().expect("nothing panics");
        if let Some(held_back) = log.pass(self.sender.ip()) {
            let sender = self.sender;
            tracing::warn!(%sender, reason, held_back, "a TLS handshake failed");
        }
    }
}

impl Stream for TlsStream {
    const HAS_HANDSHAKE: bool = true;

    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.connection.read(into);
        self.account(&read);
        read
    }

    fn has_more(&self, _bytes: usize, _asked: usize) -> bool {
        self.connection.has_more()
    }

    fn socket(&mut self) -> &mut TcpStream {
        self.connection.socket()
    }

    fn interest(&self) -> Interest {
        match self.connection.wants_write() {
            true => Interest::READABLE | Interest::WRITABLE,
            false => Interest::READABLE,
        }
    }

    fn is_established(&self) -> bool {
        self.connection.is_established()
    }
}

impl Drop for TlsStream {
    fn drop(&mut self) {
        if self.phase == Phase::Handshake {
            self.leave_handshake(Phase::Ended);
            self.failed("it did not come to an end in time");
        }
        self.connection.close();
    }
}

/// Whether the error only means that no data is available at present.
fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

/// Whether the library could not parse the received data.
fn is_not_tls(error: &io::Error) -> bool {
    let cause = error.get_ref().and_then(|error| error.downcast_ref::<rustls::Error>());
    matches!(cause, Some(rustls::Error::InvalidMessage(_)))
}

/// Why a handshake failed, with the remedy if it is known.
fn reason(error: &io::Error) -> String {
    use rustls::{AlertDescription, Error};
    let hint = match error.get_ref().and_then(|error| error.downcast_ref::<Error>()) {
        Some(Error::InvalidMessage(_)) => "; what it sent is not TLS",
        Some(Error::NoCertificatesPresented) => {
            "; tls.client_certificates requires a certificate, and it showed none"
        }
        Some(Error::InvalidCertificate(_)) => {
            "; its certificate is not one that tls.client_ca leads to"
        }
        Some(Error::AlertReceived(
            AlertDescription::UnknownCA
            | AlertDescription::BadCertificate
            | AlertDescription::CertificateUnknown,
        )) => "; it does not believe our certificate: give it the certificate of our CA",
        Some(Error::AlertReceived(AlertDescription::CertificateExpired)) => {
            "; our certificate has expired"
        }
        _ => "",
    };
    format!("{error}{hint}")
}

#[cfg(test)]
#[path = "../../tests/sources/authority.rs"]
mod authority;
