//! Syslog, RFC 5424, over TCP with octet counting (RFC 6587) and over UDP (RFC 5426).
//!
//! Syslog has no acknowledgements. Over TCP, a document counts as accepted when the system took its
//! bytes: what a peer that dies had not read is lost, and after a broken connection the documents
//! of the last call are sent again, so that some may arrive twice. Over UDP a document counts as
//! accepted when its datagram left. Whoever needs more uses another destination. Messages have no
//! ids, so deletions are ignored.
//!
//! Left out: TLS.

mod message;

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs, UdpSocket};
use std::time::Duration;

pub use message::MessageOptions;

use crate::destination::{Delivered, Destination, Fault, Outcome};
use crate::document::Document;

/// Bytes that are written in one call. A larger message is written alone.
const WRITE_BYTES_MAX: usize = 1 << 20;

/// Options of the destination.
#[derive(Debug, Clone)]
pub struct SyslogOptions {
    /// `HOST:PORT`.
    pub address: String,
    /// How messages travel.
    pub transport: Transport,
    /// The longest time for connecting and for each write.
    pub time_max: Duration,
    /// What messages contain.
    pub message: MessageOptions,
}

/// How messages travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// A connection, each message with its length in front.
    Tcp,
    /// One datagram for each message.
    Udp {
        /// A longer message is rejected, because datagrams are not split.
        datagram_bytes_max: usize,
    },
}

/// The destination.
pub struct Syslog {
    options: SyslogOptions,
    tcp: Option<TcpStream>,
    udp: Option<UdpSocket>,
}

impl Syslog {
    /// A destination that connects with the first documents.
    pub fn new(options: SyslogOptions) -> Syslog {
        Syslog { options, tcp: None, udp: None }
    }

    fn fault(&self, error: &io::Error) -> Fault {
        let address = &self.options.address;
        Fault::new(
            format!("cannot send to the syslog server {address}: {error}"),
            "check that the server runs, its address and the network",
        )
    }

    fn deliver_tcp(&mut self, documents: &[Document]) -> Delivered {
        let mut bytes = Vec::new();
        let mut outcomes = Vec::new();
        for document in documents {
            if document.is_delete() {
                outcomes.push(Outcome::Ignored);
                continue;
            }
            let message = message::encode(&self.options.message, document);
            let length = message.len().to_string();
            if !bytes.is_empty() && bytes.len() + length.len() + 1 + message.len() > WRITE_BYTES_MAX
            {
                break;
            }
            bytes.extend_from_slice(length.as_bytes());
            bytes.push(b' ');
            bytes.extend_from_slice(&message);
            outcomes.push(Outcome::Accepted);
        }
        if bytes.is_empty() {
            return Delivered::Answered { outcomes, retry_after: None };
        }
        match self.write_tcp(&bytes) {
            Ok(()) => Delivered::Answered { outcomes, retry_after: None },
            Err(error) => {
                self.tcp = None;
                Delivered::unavailable(self.fault(&error))
            }
        }
    }

    fn write_tcp(&mut self, bytes: &[u8]) -> io::Result<()> {
        // A peer that has closed the connection would take the first write and lose it.
        if self.tcp.as_mut().is_some_and(is_closed) {
            self.tcp = None;
        }
        let stream = match &mut self.tcp {
            Some(stream) => stream,
            None => {
                let time_max = self.options.time_max;
                let stream = first_working(&self.options.address, |address| {
                    TcpStream::connect_timeout(&address, time_max)
                })?;
                stream.set_write_timeout(Some(time_max))?;
                self.tcp.insert(stream)
            }
        };
        stream.write_all(bytes)
    }

    fn deliver_udp(&mut self, documents: &[Document], datagram_bytes_max: usize) -> Delivered {
        let mut outcomes = Vec::new();
        for document in documents {
            if document.is_delete() {
                outcomes.push(Outcome::Ignored);
                continue;
            }
            let message = message::encode(&self.options.message, document);
            if message.len() > datagram_bytes_max {
                outcomes.push(Outcome::Rejected(format!(
                    "the message has {} bytes, more than datagram_bytes_max ({datagram_bytes_max})",
                    message.len()
                )));
                continue;
            }
            if let Err(error) = self.send_udp(&message) {
                self.udp = None;
                let fault = self.fault(&error);
                if outcomes.is_empty() {
                    return Delivered::unavailable(fault);
                }
                outcomes.push(Outcome::Retry(fault));
                break;
            }
            outcomes.push(Outcome::Accepted);
        }
        Delivered::Answered { outcomes, retry_after: None }
    }

    fn send_udp(&mut self, message: &[u8]) -> io::Result<()> {
        let socket = match &self.udp {
            Some(socket) => socket,
            None => {
                let socket = first_working(&self.options.address, |address| {
                    let local = match address {
                        SocketAddr::V4(_) => "0.0.0.0:0",
                        SocketAddr::V6(_) => "[::]:0",
                    };
                    let socket = UdpSocket::bind(local)?;
                    socket.connect(address)?;
                    Ok(socket)
                })?;
                self.udp.insert(socket)
            }
        };
        socket.send(message).map(drop)
    }
}

impl Destination for Syslog {
    fn deliver(&mut self, documents: &[Document]) -> Delivered {
        match self.options.transport {
            Transport::Tcp => self.deliver_tcp(documents),
            Transport::Udp { datagram_bytes_max } => {
                self.deliver_udp(documents, datagram_bytes_max)
            }
        }
    }
}

/// Tries the addresses of a name until one works.
fn first_working<T>(
    name: &str,
    mut attempt: impl FnMut(SocketAddr) -> io::Result<T>,
) -> io::Result<T> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in name.to_socket_addrs()? {
        match attempt(address) {
            Ok(found) => return Ok(found),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Whether the peer has closed the connection. Bytes that it sent are discarded.
fn is_closed(stream: &mut TcpStream) -> bool {
    let mut buffer = [0; 512];
    if stream.set_nonblocking(true).is_err() {
        return true;
    }
    let read = loop {
        match stream.read(&mut buffer) {
            Ok(0) => break true,
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break false,
            Err(_) => break true,
        }
    };
    read || stream.set_nonblocking(false).is_err()
}

#[cfg(test)]
mod tests;
