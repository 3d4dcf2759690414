//! One TLS connection, read without blocking: handshake, decryption, and closing.
//!
//! Data is read from the socket directly into the caller's buffer, [`GAP_BYTES`] behind its start.
//! The library decrypts each record there, and its content moves to the front. There is always room
//! for it, since a record's content is shorter than the record and no longer than the gap. So one
//! system call reads as much as the buffer holds, and between reads a connection only keeps the
//! start of an incomplete record. The library's buffered interface, which reads 4 KiB at a time and
//! copies once more, is a fifth slower (`bulk` and `bulk-buffered` of
//! `crates/bench/src/tls_limit.rs`).
//!
//! Invariants: the content does not depend on how the stream was split into reads; data sent before
//! an error, an alert or a cut is returned first; a peer cannot make more than [`CARRY_BYTES_MAX`]
//! wait.
//!
//! Decisions:
//! - A connection that ends without `close_notify` ends with an error
//!   ([`io::ErrorKind::UnexpectedEof`]): the network, or an attacker in it, may have cut it (RFC
//!   5425, §4.4).
//! - Output that cannot be sent at once (the server's part of the handshake, an alert) is sent when
//!   the socket takes it, and nothing is read before that: a peer cannot make answers pile up.
//!
//! Left out: kernel TLS, see docs/decisions; sending to the peer after the handshake, which syslog
//! does not do.

use std::io::{self, Read, Write};
use std::sync::Arc;

use crate::stream::READ_BYTES_MIN;
use rustls::ServerConfig;
use rustls::server::{ServerConnectionData, UnbufferedServerConnection};
use rustls::unbuffered::{
    ConnectionState, EncodeError, EncodeTlsData, UnbufferedStatus, WriteTraffic,
};

/// The content of a record is at most this long (RFC 8446, §5.1).
const GAP_BYTES: usize = 16 << 10;
/// Bytes of an incomplete record or handshake message that a connection may hold. A longer message
/// ends the connection; client certificates take a few KiB.
const CARRY_BYTES_MAX: usize = 32 << 10;
/// There is room for the gap, for the held bytes, and for further reading.
const _: () = assert!(GAP_BYTES + CARRY_BYTES_MAX < READ_BYTES_MIN);
/// How many of the first bytes are kept, to report what a peer sends that does not speak TLS.
const FIRST_BYTES: usize = 64;
/// Room for an alert.
const ALERT_BYTES_MAX: usize = 256;

/// The server's end of a connection.
pub(super) struct Connection<S> {
    socket: S,
    tls: UnbufferedServerConnection,
    /// Bytes read and not processed: the start of a record, or of a handshake message.
    carry: Vec<u8>,
    /// Bytes to be sent.
    output: Vec<u8>,
    is_established: bool,
    /// Set once nothing more will be read; returned when all earlier data has been returned.
    end: Option<End>,
    /// Whether the socket may have more data.
    has_more: bool,
    /// The first bytes received, as many as are needed to identify a protocol.
    first: Vec<u8>,
}

/// How a connection ended.
#[derive(Clone, Debug)]
enum End {
    /// With `close_notify`.
    Closed,
    /// Without `close_notify`.
    Truncated,
    /// Because of data the peer sent.
    Failed(rustls::Error),
    /// Because a handshake message of the peer was too long.
    TooLong,
}

impl<S: Read + Write> Connection<S> {
    /// A connection that was just accepted.
    pub fn new(socket: S, config: Arc<ServerConfig>) -> Result<Self, rustls::Error> {
        Ok(Connection {
            socket,
            tls: UnbufferedServerConnection::new(config)?,
            carry: Vec::new(),
            output: Vec::new(),
            is_established: false,
            end: None,
            has_more: false,
            first: Vec::new(),
        })
    }

    /// The socket.
    pub fn socket(&mut self) -> &mut S {
        &mut self.socket
    }

    /// Whether the handshake is complete.
    pub fn is_established(&self) -> bool {
        self.is_established
    }

    /// The first bytes that the peer sent; empty when it sent nothing at all.
    pub fn first(&self) -> &[u8] {
        &self.first
    }

    /// Whether output waits for the socket.
    pub fn wants_write(&self) -> bool {
        !self.output.is_empty()
    }

    /// Whether another read may return data without an event of the socket.
    pub fn has_more(&self) -> bool {
        self.has_more
    }

    /// Reads once from the socket and decrypts. `Ok(0)`: the peer has closed the connection
    /// properly. [`io::ErrorKind::WouldBlock`]: no data is available.
    /// [`io::ErrorKind::Interrupted`]: the data was not content, and there may be more.
    ///
    /// # Panics
    /// When the buffer is smaller than [`READ_BYTES_MIN`].
    pub fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        assert!(into.len() >= READ_BYTES_MIN, "a buffer of {} bytes", into.len());
        self.send()?;
        if let Some(end) = self.end.clone() {
            self.has_more = false;
            return end.into_result();
        }
        let carried = self.carry.len();
        let free_from = GAP_BYTES + carried;
        let read = self.socket.read(&mut into[free_from..])?;
        self.has_more = free_from + read == into.len();
        if read == 0 {
            self.end = Some(End::Truncated);
            return End::Truncated.into_result();
        }
        if self.first.is_empty() {
            self.first = into[free_from..free_from + read.min(FIRST_BYTES)].to_vec();
        }
        into[GAP_BYTES..free_from].copy_from_slice(&self.carry);
        let (content_bytes, processed_bytes) = self.process(&mut into[..free_from + read]);
        self.keep(&into[GAP_BYTES + processed_bytes..free_from + read]);
        self.has_more |= self.end.is_some();
        let sent = self.send();
        match content_bytes {
            // Decrypted content is returned first; the next read returns this error again.
            1.. => Ok(content_bytes),
            // The end may have arrived with it, and no further event would announce it.
            0 => Err(sent.err().unwrap_or_else(|| io::ErrorKind::Interrupted.into())),
        }
    }

    /// Lets the library process the data behind the gap. Returns how many bytes of content are now
    /// at the front, and how many bytes behind the gap are consumed.
    fn process(&mut self, buffer: &mut [u8]) -> (usize, usize) {
        let (mut content_bytes, mut from) = (0, GAP_BYTES);
        loop {
            let (front, wire) = buffer.split_at_mut(from);
            let UnbufferedStatus { mut discard, state } = self.tls.process_tls_records(wire);
            let mut done = false;
            match state {
                Ok(ConnectionState::ReadTraffic(mut traffic)) => {
                    while let Some(record) = traffic.next_record() {
                        match record {
                            Ok(record) => {
                                let content = record.payload;
                                front[content_bytes..][..content.len()].copy_from_slice(content);
                                content_bytes += content.len();
                                discard += record.discard;
                            }
                            Err(error) => {
                                self.end = Some(End::Failed(error));
                                done = true;
                                break;
                            }
                        }
                    }
                }
                Ok(ConnectionState::EncodeTlsData(data)) => encode(data, &mut self.output),
                // Output is sent before anything else is read.
                Ok(ConnectionState::TransmitTlsData(data)) => data.done(),
                Ok(ConnectionState::BlockedHandshake) => done = true,
                Ok(ConnectionState::WriteTraffic(traffic)) => {
                    if matches!(self.end, Some(End::Closed)) {
                        answer_close(traffic, &mut self.output);
                    }
                    done = true;
                }
                Ok(ConnectionState::PeerClosed) => {
                    self.end.get_or_insert(End::Closed);
                }
                // Closed by both sides; early data is never accepted.
                Ok(_) => done = true,
                Err(error) => {
                    self.end = Some(End::Failed(error));
                    self.take_alert();
                    done = true;
                }
            }
            from += discard;
            if done {
                self.is_established = !self.tls.is_handshaking();
                return (content_bytes, from - GAP_BYTES);
            }
        }
    }

    /// Takes the library's alert for the peer. Nothing else may be requested from the library: the
    /// input it would process next is gone.
    fn take_alert(&mut self) {
        while self.tls.wants_write()
            && let Ok(ConnectionState::EncodeTlsData(data)) =
                self.tls.process_tls_records(&mut []).state
        {
            encode(data, &mut self.output);
        }
    }

    /// Keeps unprocessed bytes until more arrive.
    fn keep(&mut self, rest: &[u8]) {
        if rest.is_empty() || self.end.is_some() {
            self.carry = Vec::new();
            return;
        }
        if rest.len() > CARRY_BYTES_MAX {
            self.end = Some(End::TooLong);
        }
        self.carry.clear();
        self.carry.extend_from_slice(rest);
    }

    /// Sends the waiting output.
    fn send(&mut self) -> io::Result<()> {
        let mut sent = 0;
        let result = loop {
            if sent == self.output.len() {
                break Ok(());
            }
            match self.socket.write(&self.output[sent..]) {
                Ok(0) => break Err(io::ErrorKind::WriteZero.into()),
                Ok(bytes) => sent += bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => break Err(error),
            }
        };
        self.output.drain(..sent);
        match result {
            // It does not matter that the alert cannot be sent to a vanished peer; the data it sent
            // does.
            Err(error)
                if self.end.is_some()
                    || (self.is_established && error.kind() != io::ErrorKind::WouldBlock) =>
            {
                self.output.clear();
                Ok(())
            }
            result => result,
        }
    }

    /// Tells the peer that we end the connection, as far as the socket takes it without blocking.
    pub fn close(&mut self) {
        if !self.is_established || self.end.is_some() {
            return;
        }
        self.end = Some(End::Closed);
        if let Ok(ConnectionState::WriteTraffic(traffic)) =
            self.tls.process_tls_records(&mut self.carry).state
        {
            answer_close(traffic, &mut self.output);
        }
        // Output that cannot be sent now is dropped; the peer still sees the connection end.
        let _ = self.send();
    }
}

impl End {
    fn into_result(self) -> io::Result<usize> {
        match self {
            End::Closed => Ok(0),
            End::Truncated => Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "the connection ended without close_notify",
            )),
            End::Failed(error) => Err(io::Error::new(io::ErrorKind::InvalidData, error)),
            End::TooLong => Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "a message of the handshake is too long",
            )),
        }
    }
}

/// Takes the output of the library.
fn encode(mut data: EncodeTlsData<'_, ServerConnectionData>, output: &mut Vec<u8>) {
    let start = output.len();
    if let Err(EncodeError::InsufficientSize(size)) = data.encode(&mut []) {
        output.resize(start + size.required_size, 0);
        let encoded = data.encode(&mut output[start..]);
        assert!(encoded.is_ok(), "there is the room that was asked for");
    }
}

/// Announces that we send nothing more. A connection whose keys are used up announces nothing.
fn answer_close(mut traffic: WriteTraffic<'_, ServerConnectionData>, output: &mut Vec<u8>) {
    let start = output.len();
    output.resize(start + ALERT_BYTES_MAX, 0);
    let written = traffic.queue_close_notify(&mut output[start..]).unwrap_or(0);
    output.truncate(start + written);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tls::authority::Authority;
    use crate::tls::{ClientCertificates, Credentials, TlsFiles};
    use platform::ManualClock;
    use rustls::pki_types::pem::PemObject;
    use rustls::pki_types::{CertificateDer, ServerName};
    use rustls::{ClientConfig, ClientConnection, RootCertStore, SupportedProtocolVersion};

    /// A socket in memory.
    #[derive(Default)]
    struct Pipe {
        /// Bytes the peer sent and the server has not read.
        to_server: Vec<u8>,
        /// Bytes the server wrote.
        to_client: Vec<u8>,
        /// Bytes that one write takes; 0: it blocks.
        write_bytes_max: usize,
        is_ended: bool,
    }

    impl Read for Pipe {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            let bytes = into.len().min(self.to_server.len());
            if bytes == 0 && !self.is_ended {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            into[..bytes].copy_from_slice(&self.to_server[..bytes]);
            self.to_server.drain(..bytes);
            Ok(bytes)
        }
    }

    impl Write for Pipe {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let taken = bytes.len().min(self.write_bytes_max);
            if taken == 0 {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            self.to_client.extend_from_slice(&bytes[..taken]);
            Ok(taken)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    struct Ends {
        server: Connection<Pipe>,
        client: ClientConnection,
        buffer: Vec<u8>,
    }

    fn ends(versions: &[&'static SupportedProtocolVersion]) -> Ends {
        let authority = Authority::new();
        let issued = authority.issue("server");
        let files = TlsFiles {
            certificate: issued.certificate,
            key: issued.key,
            clients: ClientCertificates::Off,
            section: "tls",
        };
        let credentials = Credentials::load(files, Arc::new(ManualClock::new(0))).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(authority.certificate()).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(versions)
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let name = ServerName::try_from("localhost").unwrap();
        let client = ClientConnection::new(Arc::new(config), name).unwrap();
        let pipe = Pipe { write_bytes_max: usize::MAX, ..Pipe::default() };
        let server = Connection::new(pipe, credentials.config()).unwrap();
        Ends { server, client, buffer: vec![0; READ_BYTES_MIN] }
    }

    impl Ends {
        /// Bytes the client has to send.
        fn sent(&mut self) -> Vec<u8> {
            let mut wire = Vec::new();
            while self.client.wants_write() {
                self.client.write_tls(&mut wire).unwrap();
            }
            wire
        }

        /// Reads until nothing is left. Appends the content.
        fn read_all(&mut self, content: &mut Vec<u8>) -> io::Result<usize> {
            loop {
                match self.server.read(&mut self.buffer) {
                    Ok(0) => return Ok(0),
                    Ok(bytes) => content.extend_from_slice(&self.buffer[..bytes]),
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Err(error),
                    Err(error) => return Err(error),
                }
            }
        }

        fn answer(&mut self) {
            let answer = std::mem::take(&mut self.server.socket.to_client);
            let mut answer = answer.as_slice();
            while !answer.is_empty() {
                self.client.read_tls(&mut answer).unwrap();
                self.client.process_new_packets().unwrap();
            }
        }

        fn handshake(&mut self) {
            for _ in 0..4 {
                let wire = self.sent();
                self.server.socket.to_server.extend_from_slice(&wire);
                let error = self.read_all(&mut Vec::new()).unwrap_err();
                assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
                self.answer();
            }
            assert!(self.server.is_established() && !self.client.is_handshaking());
        }
    }

    const VERSIONS: [&[&SupportedProtocolVersion]; 2] =
        [&[&rustls::version::TLS13], &[&rustls::version::TLS12]];

    #[test]
    fn the_content_does_not_depend_on_how_the_stream_is_split() {
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        for versions in VERSIONS {
            for piece_bytes_max in [1, 7, 1000, 20_000, 200_000] {
                let mut ends = ends(versions);
                ends.client.set_buffer_limit(None);
                let bytes = random.usize(..10 * piece_bytes_max.max(100));
                let content: Vec<u8> = (0..bytes).map(|_| random.u8(..)).collect();
                let (mut written, mut received) = (0, Vec::new());
                let mut is_closing = false;
                let end = loop {
                    // The handshake is split as well, and the writes of the server too.
                    ends.server.socket.write_bytes_max = random.usize(1..=piece_bytes_max);
                    if !ends.client.is_handshaking() && written < content.len() {
                        let more = random.usize(1..=content.len() - written);
                        ends.client.writer().write_all(&content[written..][..more]).unwrap();
                        written += more;
                    } else if written == content.len()
                        && !is_closing
                        && !ends.client.is_handshaking()
                    {
                        ends.client.send_close_notify();
                        is_closing = true;
                    }
                    let wire = ends.sent();
                    let mut end = None;
                    let mut rest = wire.as_slice();
                    loop {
                        let piece =
                            rest.split_off(..random.usize(1..=piece_bytes_max).min(rest.len()));
                        ends.server.socket.to_server.extend_from_slice(piece.unwrap());
                        match ends.read_all(&mut received) {
                            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                            other => end = Some(other),
                        }
                        if rest.is_empty() || end.is_some() {
                            break;
                        }
                    }
                    ends.answer();
                    if let Some(end) = end {
                        break end;
                    }
                };
                assert_eq!(end.unwrap(), 0);
                assert!(received == content, "{} bytes of {bytes}", received.len());
                assert!(ends.server.carry.is_empty() && ends.server.output.is_empty());
            }
        }
    }

    #[test]
    fn data_before_the_end_is_returned_then_the_end() {
        let check = |change: fn(&mut Ends, Vec<u8>),
                     expected: &[u8],
                     kind: Option<io::ErrorKind>| {
            for versions in VERSIONS {
                let mut ends = ends(versions);
                ends.handshake();
                ends.client.writer().write_all(b"first").unwrap();
                let first = ends.sent();
                ends.server.socket.to_server.extend(first);
                ends.client.writer().write_all(b"second").unwrap();
                let second = ends.sent();
                change(&mut ends, second);
                ends.server.socket.is_ended = true;
                let mut content = Vec::new();
                let end = ends.read_all(&mut content);
                assert_eq!(content, expected);
                assert_eq!(end.map_err(|error| error.kind()).err(), kind);
                // Further reads return the same.
                assert_eq!(ends.read_all(&mut content).map_err(|error| error.kind()).err(), kind);
            }
        };
        let close = |ends: &mut Ends, second: Vec<u8>| {
            ends.client.send_close_notify();
            let close = ends.sent();
            ends.server.socket.to_server.extend([second, close].concat());
        };
        check(close, b"firstsecond", None);
        let behind_the_close = |ends: &mut Ends, second: Vec<u8>| {
            ends.client.send_close_notify();
            let close = ends.sent();
            ends.server.socket.to_server.extend([close, second].concat());
        };
        // Out of order, so that decryption fails.
        check(behind_the_close, b"first", Some(io::ErrorKind::InvalidData));
        let cut = |ends: &mut Ends, second: Vec<u8>| ends.server.socket.to_server.extend(second);
        check(cut, b"firstsecond", Some(io::ErrorKind::UnexpectedEof));
        let cut_within = |ends: &mut Ends, second: Vec<u8>| {
            ends.server.socket.to_server.extend(&second[..second.len() - 1]);
        };
        check(cut_within, b"first", Some(io::ErrorKind::UnexpectedEof));
        let changed = |ends: &mut Ends, mut second: Vec<u8>| {
            *second.last_mut().unwrap() ^= 1;
            ends.server.socket.to_server.extend(second);
        };
        check(changed, b"first", Some(io::ErrorKind::InvalidData));
        let garbage = |ends: &mut Ends, _| ends.server.socket.to_server.extend([0xff; 100]);
        check(garbage, b"first", Some(io::ErrorKind::InvalidData));
    }

    #[test]
    fn the_peer_is_told_of_the_end() {
        for versions in VERSIONS {
            let mut ends = ends(versions);
            ends.handshake();
            ends.client.send_close_notify();
            let close = ends.sent();
            ends.server.socket.to_server.extend(close);
            assert_eq!(ends.read_all(&mut Vec::new()).unwrap(), 0);
            ends.answer();
            assert!(ends.client.process_new_packets().unwrap().peer_has_closed());

            // We close while half a record waits.
            let mut ends = self::ends(versions);
            ends.handshake();
            ends.client.writer().write_all(b"cut").unwrap();
            let wire = ends.sent();
            ends.server.socket.to_server.extend(&wire[..wire.len() / 2]);
            ends.read_all(&mut Vec::new()).unwrap_err();
            ends.server.close();
            ends.answer();
            assert!(ends.client.process_new_packets().unwrap().peer_has_closed());
        }
    }

    #[test]
    fn garbage_ends_a_handshake_with_an_alert_and_never_panics() {
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        let check = |garbage: Vec<u8>| {
            let mut ends = ends(VERSIONS[0]);
            ends.server.socket.to_server = garbage;
            ends.server.socket.is_ended = true;
            ends.read_all(&mut Vec::new()).unwrap_err();
            assert!(!ends.server.is_established());
            ends.server
        };
        let server = check(b"<13>1 2026-01-31T12:00:00Z host app - - - hello\n".to_vec());
        assert_eq!(server.socket.to_client[..1], [21], "an alert");
        // A handshake message whose announced length exceeds the limit, in many records.
        let record = [[22, 3, 1, 0x40, 0].as_slice(), &[1, 0, 0xff, 0xff], &[0; 0x3ffc]].concat();
        check(
            [record.as_slice(), &[[22, 3, 1, 0x40, 0].as_slice(), &[0; 0x4000]].concat().repeat(5)]
                .concat(),
        );
        let hello = ends(VERSIONS[0]).sent();
        for _ in 0..300 {
            let mut hello = hello.clone();
            for _ in 0..random.usize(1..5) {
                let at = random.usize(..hello.len());
                hello[at] = random.u8(..);
            }
            hello.truncate(random.usize(1..=hello.len()));
            check(hello);
        }
    }

    #[test]
    fn nothing_is_read_while_answers_wait() {
        let mut ends = ends(VERSIONS[0]);
        ends.server.socket.to_server = ends.sent();
        ends.server.socket.write_bytes_max = 0;
        let error = ends.read_all(&mut Vec::new()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        assert!(ends.server.wants_write());
        ends.server.socket.to_server = b"more".to_vec();
        ends.read_all(&mut Vec::new()).unwrap_err();
        assert_eq!(ends.server.socket.to_server, b"more");
    }
}
