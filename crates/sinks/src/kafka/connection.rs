//! A connection to one broker: TCP or TLS, a login by SASL, and requests with a time limit.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::rand::{SecureRandom, SystemRandom};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use subtle::ConstantTimeEq;

use super::messages::{self, Api};
use super::scram::{Hash, Scram};
use super::wire::{Damaged, Reader, Writer};
use super::{Mechanism, Sasl};
use crate::destination::Fault;

/// Bytes of a response. The longest sensible one describes a topic with 100,000 partitions.
const RESPONSE_BYTES_MAX: usize = 16 << 20;
/// Bytes that are written or read under one check of the time.
const STEP_BYTES: usize = 64 << 10;

/// What a server says that is no broker, or expects TLS.
const NO_BROKER: &str = "the answer is none of a Kafka broker";

/// Why there is no response. The connection cannot be used again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trouble {
    /// No response came in time; the broker may have acted.
    TimedOut(Fault),
    /// The broker was not reached, or the connection broke; the broker may have acted.
    Broken(Fault),
}

impl Trouble {
    pub fn into_fault(self) -> Fault {
        match self {
            Trouble::TimedOut(fault) | Trouble::Broken(fault) => fault,
        }
    }
}

/// How brokers are reached.
#[derive(Clone)]
pub struct Reach {
    pub tls: Option<Arc<ClientConfig>>,
    pub sasl: Option<Sasl>,
    pub connect_time_max: Duration,
    pub request_time_max: Duration,
}

enum Stream {
    Plain(TcpStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Stream {
    fn socket(&self) -> &TcpStream {
        match self {
            Stream::Plain(socket) => socket,
            Stream::Tls(stream) => &stream.sock,
        }
    }

    fn write_all(&mut self, bytes: &[u8], deadline: Instant) -> io::Result<()> {
        for step in bytes.chunks(STEP_BYTES) {
            self.socket().set_write_timeout(Some(left(deadline)?))?;
            match self {
                Stream::Plain(socket) => socket.write_all(step)?,
                Stream::Tls(stream) => stream.write_all(step)?,
            }
        }
        match self {
            Stream::Plain(_) => Ok(()),
            Stream::Tls(stream) => stream.flush(),
        }
    }

    fn read_exact(&mut self, mut buffer: &mut [u8], deadline: Instant) -> io::Result<()> {
        while !buffer.is_empty() {
            self.socket().set_read_timeout(Some(left(deadline)?))?;
            let read = match self {
                Stream::Plain(socket) => socket.read(buffer)?,
                Stream::Tls(stream) => stream.read(buffer)?,
            };
            if read == 0 {
                return Err(io::Error::new(
                    io::ErrorKind::UnexpectedEof,
                    "the broker closed the connection",
                ));
            }
            buffer = &mut buffer[read..];
        }
        Ok(())
    }
}

/// The time until a deadline; an error behind it.
fn left(deadline: Instant) -> io::Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    match left.is_zero() {
        true => Err(io::Error::from(io::ErrorKind::TimedOut)),
        false => Ok(left),
    }
}

/// A connection that is logged in.
pub struct Connection {
    stream: Stream,
    address: String,
    correlation: i32,
    request_time_max: Duration,
}

impl Connection {
    /// Connects and logs in.
    pub fn open(host: &str, port: u16, reach: &Reach) -> Result<Connection, Trouble> {
        let address = format!("{host}:{port}");
        let explain = |error: io::Error| trouble(&address, &error);
        let socket = connect(host, port, reach.connect_time_max).map_err(explain)?;
        socket.set_nodelay(true).map_err(explain)?;
        let stream = match &reach.tls {
            None => Stream::Plain(socket),
            Some(config) => {
                let name = ServerName::try_from(host.trim_matches(['[', ']']).to_owned());
                let name = name.map_err(|error| explain(io::Error::other(error)))?;
                let client = ClientConnection::new(Arc::clone(config), name);
                let client = client.map_err(|error| explain(io::Error::other(error)))?;
                Stream::Tls(Box::new(StreamOwned::new(client, socket)))
            }
        };
        let request_time_max = reach.request_time_max;
        let mut connection = Connection { stream, address, correlation: 0, request_time_max };
        if let Some(sasl) = &reach.sasl {
            connection.log_in(sasl)?;
        }
        Ok(connection)
    }

    /// Sends a request and waits for its response.
    pub fn request(&mut self, api: Api, body: &[u8]) -> Result<Vec<u8>, Trouble> {
        let deadline = self.send(api, body)?;
        self.receive(deadline)
    }

    /// Sends a request. Returns when its response is due.
    pub fn send(&mut self, api: Api, body: &[u8]) -> Result<Instant, Trouble> {
        self.correlation = self.correlation.wrapping_add(1);
        let head = api.head(self.correlation);
        let mut frame = Writer(Vec::with_capacity(4 + head.0.len()));
        frame.length(head.0.len() + body.len()).raw(&head.0);
        let deadline = Instant::now() + self.request_time_max;
        let sent = self.stream.write_all(&frame.0, deadline);
        let sent = sent.and_then(|()| self.stream.write_all(body, deadline));
        sent.map_err(|error| trouble(&self.address, &error))?;
        Ok(deadline)
    }

    /// The response to the last request, without its head.
    pub fn receive(&mut self, deadline: Instant) -> Result<Vec<u8>, Trouble> {
        self.read_frame(deadline).map_err(|error| trouble(&self.address, &error))
    }

    fn read_frame(&mut self, deadline: Instant) -> io::Result<Vec<u8>> {
        let mut length = [0; 4];
        self.stream.read_exact(&mut length, deadline)?;
        let length = usize::try_from(i32::from_be_bytes(length)).unwrap_or(usize::MAX);
        if !(4..=RESPONSE_BYTES_MAX).contains(&length) {
            return Err(io::Error::other(NO_BROKER));
        }
        let mut frame = vec![0; length];
        self.stream.read_exact(&mut frame, deadline)?;
        let response = frame.split_off(4);
        if Reader(&frame).i32() != Ok(self.correlation) {
            return Err(io::Error::other("the answer is to another request"));
        }
        Ok(response)
    }

    /// A response that cannot be understood.
    pub fn damaged(&self) -> Trouble {
        trouble(&self.address, &io::Error::other("the answer cannot be understood"))
    }

    fn log_in(&mut self, sasl: &Sasl) -> Result<(), Trouble> {
        let mechanism = sasl.mechanism.name();
        let response = self.request(Api::SaslHandshake, &messages::handshake_request(mechanism))?;
        let (error, known) = messages::handshake(&response).map_err(|_| self.damaged())?;
        if error != 0 {
            let what = format!("{} does not offer the SASL mechanism {mechanism}", self.address);
            let remedy = format!("set `sasl` to one that it offers: {}", known.join(", "));
            return Err(Trouble::Broken(Fault::new(what, remedy)));
        }
        let hash = match sasl.mechanism {
            Mechanism::Plain => {
                let message = format!("\0{}\0{}", sasl.user, sasl.password.expose());
                return self.authenticate(sasl, message.as_bytes()).map(drop);
            }
            Mechanism::ScramSha256 => Hash::Sha256,
            Mechanism::ScramSha512 => Hash::Sha512,
        };
        let mut nonce = [0; 18];
        SystemRandom::new().fill(&mut nonce).expect("the system has random numbers");
        let scram = Scram::new(hash, &sasl.user, STANDARD.encode(nonce));
        let first = self.authenticate(sasl, scram.first().as_bytes())?;
        let first = String::from_utf8_lossy(&first);
        let Some(last) = scram.last(&sasl.password, &first) else { return Err(self.damaged()) };
        let answer = self.authenticate(sasl, last.message.as_bytes())?;
        if !bool::from(answer.ct_eq(last.answer.as_bytes())) {
            let what = format!("{} does not know the password that it checked", self.address);
            let remedy = "another server may pose as the broker; check the address and use TLS";
            return Err(Trouble::Broken(Fault::new(what, remedy)));
        }
        Ok(())
    }

    fn authenticate(&mut self, sasl: &Sasl, message: &[u8]) -> Result<Vec<u8>, Trouble> {
        let response =
            self.request(Api::SaslAuthenticate, &messages::authenticate_request(message))?;
        let parsed = messages::authenticate(&response);
        let (error, text, answer) = parsed.map_err(|Damaged| self.damaged())?;
        if error != 0 {
            let text = sasl.password.hidden_in(&text);
            let what = format!("{} refuses the login: {text}", self.address);
            return Err(Trouble::Broken(Fault::new(what, "check `user` and its password")));
        }
        Ok(answer)
    }
}

/// Tries the addresses of a host until one answers, all within the time.
fn connect(host: &str, port: u16, time_max: Duration) -> io::Result<TcpStream> {
    let deadline = Instant::now() + time_max;
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in (host.trim_matches(['[', ']']), port).to_socket_addrs()? {
        match left(deadline).and_then(|left| TcpStream::connect_timeout(&address, left)) {
            Ok(socket) => return Ok(socket),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn trouble(address: &str, error: &io::Error) -> Trouble {
    let check = "check that the broker runs, its address and the network";
    match error.kind() {
        io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => Trouble::TimedOut(Fault::new(
            format!("the broker {address} did not answer in time"),
            "the broker is overloaded, or `timeout` is too short for it",
        )),
        io::ErrorKind::ConnectionRefused => {
            Trouble::Broken(Fault::new(format!("no broker answers at {address}"), check))
        }
        io::ErrorKind::UnexpectedEof => {
            let remedy = "see the log of the broker: it stopped, is older than Kafka 2.4, or \
                          expects TLS or a login";
            Trouble::Broken(Fault::new(format!("the broker {address}: {error}"), remedy))
        }
        _ => {
            let text = format!("{error:?}");
            let remedy = if text.contains("UnknownIssuer") {
                "if you trust the broker, give its certificate, or that of its CA, with `ca`"
            } else if text.contains("InvalidContentType") {
                "it seems to speak no TLS there"
            } else if text.contains(NO_BROKER) {
                "check the address; if the broker expects TLS, set `tls = true`"
            } else {
                check
            };
            Trouble::Broken(Fault::new(format!("the broker {address}: {error}"), remedy))
        }
    }
}
