//! A connection to a server of a directory: LDAP version 3 (RFC 4511), one request at a time.
//!
//! Every call blocks, and all calls of a connection together end at its deadline. A message is read
//! to its last byte and no further, so nothing that a stranger sends before TLS begins is taken for
//! an answer within TLS.
//!
//! Left out: referrals to other servers (the account would be shown to servers that nobody named),
//! SASL, several pages of results.

use std::io::{Error, ErrorKind, Read, Result as IoResult, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, ClientConnection, StreamOwned};

use super::ber::{self, ENUMERATED, INTEGER, Length, OCTETS, Reader, SEQUENCE, SET};
use super::options::{Encryption, Server};

/// Bytes of a message. A server that sends a longer one is taken for broken.
///
/// limits.md, Lines on their way in: a message of a directory | {}; {MESSAGES_MAX} of a search,
/// with {SEARCH_BYTES_MAX} together | the server counts as away, and the log says why
const MESSAGE_BYTES_MAX: usize = 1 << 20;
/// Messages that answer a search, references to other servers included.
const MESSAGES_MAX: usize = 4096;
/// Bytes of them together. Values in memory take up to twelve times as much: the shortest has two
/// bytes in a message.
const SEARCH_BYTES_MAX: usize = 2 << 20;
/// Characters that are shown of what a server says.
const SHOWN_CHARS_MAX: usize = 200;

const BIND: u8 = 0x60;
const BIND_ANSWER: u8 = 0x61;
const UNBIND: u8 = 0x42;
const SEARCH: u8 = 0x63;
const ENTRY: u8 = 0x64;
const SEARCH_DONE: u8 = 0x65;
const REFERENCE: u8 = 0x73;
const EXTENDED: u8 = 0x77;
const EXTENDED_ANSWER: u8 = 0x78;
const START_TLS: &[u8] = b"1.3.6.1.4.1.1466.20037";

/// The result of a request (RFC 4511, 4.1.9).
#[derive(Debug, PartialEq)]
pub struct Outcome {
    /// 0 is success.
    pub code: i32,
    /// What the server says, fit for a message.
    text: String,
}

impl Outcome {
    /// The code, and what the server says.
    pub fn shown(&self) -> String {
        match self.text.is_empty() {
            true => format!("code {}", self.code),
            false => format!("code {}, {}", self.code, self.text),
        }
    }
}

/// Where a search looks.
#[derive(Clone, Copy)]
pub enum Depth {
    /// At the entry alone.
    Entry = 0,
    /// At the entry and all below.
    All = 2,
}

/// An entry.
#[derive(Debug, Default, PartialEq)]
pub struct Entry {
    /// Its name.
    pub dn: String,
    attributes: Vec<(String, Vec<String>)>,
}

impl Entry {
    #[cfg(test)]
    pub(crate) fn with(attributes: &[(&str, &[&str])]) -> Entry {
        let owned = |(name, values): &(&str, &[&str])| {
            ((*name).to_owned(), values.iter().map(|value| (*value).to_owned()).collect())
        };
        Entry { dn: "cn=x".to_owned(), attributes: attributes.iter().map(owned).collect() }
    }

    /// The values of an attribute.
    pub fn values(&self, name: &str) -> impl Iterator<Item = &str> {
        let of = self.attributes.iter().filter(move |(known, _)| {
            // Active Directory names a part of many values `member;range=0-1499`.
            let known = known.split_once(';').map_or(&**known, |(known, _)| known);
            known.eq_ignore_ascii_case(name)
        });
        of.flat_map(|(_, values)| values.iter().map(String::as_str))
    }

    /// Whether only some of the values of an attribute are here.
    pub fn is_partial(&self, name: &str) -> bool {
        self.attributes.iter().any(|(known, _)| {
            let (known, option) = known.split_once(';').unwrap_or((known, ""));
            known.eq_ignore_ascii_case(name) && option.to_ascii_lowercase().starts_with("range=")
        })
    }
}

/// What a search asks for.
pub struct Search<'a> {
    /// Where it begins.
    pub base: &'a str,
    /// Where it looks.
    pub depth: Depth,
    /// The encoded filter.
    pub filter: Vec<u8>,
    /// The attributes that are wanted.
    pub attributes: &'a [&'a str],
    /// The most entries.
    pub entries_max: i32,
}

/// A connection. It is closed when dropped.
pub struct Connection {
    link: Link,
    last: i32,
}

enum Link {
    Plain(Timed),
    Tls(Box<StreamOwned<ClientConnection, Timed>>),
    /// TLS could not begin.
    Closed,
}

/// A connection on which all ends at a time.
struct Timed {
    stream: TcpStream,
    deadline: Instant,
}

impl Timed {
    fn left(&self) -> IoResult<Option<Duration>> {
        match self.deadline.saturating_duration_since(Instant::now()) {
            Duration::ZERO => Err(ErrorKind::TimedOut.into()),
            left => Ok(Some(left)),
        }
    }
}

impl Read for Timed {
    fn read(&mut self, buffer: &mut [u8]) -> IoResult<usize> {
        self.stream.set_read_timeout(self.left()?)?;
        self.stream.read(buffer)
    }
}

impl Write for Timed {
    fn write(&mut self, bytes: &[u8]) -> IoResult<usize> {
        self.stream.set_write_timeout(self.left()?)?;
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> IoResult<()> {
        self.stream.flush()
    }
}

impl Connection {
    /// Connects, and encrypts.
    ///
    /// # Errors
    /// Why there is no connection.
    pub fn new(
        server: &Server,
        tls: &Arc<ClientConfig>,
        timeout: Duration,
    ) -> Result<Connection, String> {
        let deadline = Instant::now() + timeout;
        let stream = connected(server, deadline).map_err(|error| shown_error(&error))?;
        let timed = Timed { stream, deadline };
        let mut connection = Connection { link: Link::Plain(timed), last: 0 };
        match server.encryption {
            Encryption::None => {}
            Encryption::Tls => connection.encrypt(server, tls)?,
            Encryption::StartTls => {
                let request = ber::element(EXTENDED, &ber::element(0x80, START_TLS));
                let outcome = connection.ask(&request, EXTENDED_ANSWER)?;
                if outcome.code != 0 {
                    return Err(format!("it refuses StartTLS: {}", outcome.shown()));
                }
                connection.encrypt(server, tls)?;
            }
        }
        Ok(connection)
    }

    fn encrypt(&mut self, server: &Server, tls: &Arc<ClientConfig>) -> Result<(), String> {
        let Link::Plain(timed) = std::mem::replace(&mut self.link, Link::Closed) else {
            return Err("TLS has begun before".to_owned());
        };
        let name = ServerName::try_from(server.host.clone())
            .map_err(|_| format!("'{}' is no name of a host", server.host))?;
        let connection = ClientConnection::new(Arc::clone(tls), name).map_err(|e| e.to_string())?;
        let mut stream = StreamOwned::new(connection, timed);
        // The handshake is over before anything is sent.
        while stream.conn.is_handshaking() {
            stream.conn.complete_io(&mut stream.sock).map_err(|error| shown_error(&error))?;
        }
        self.link = Link::Tls(Box::new(stream));
        Ok(())
    }

    /// Proves a name by a password. Both must not be empty: a bind without one of them succeeds
    /// and proves nothing (RFC 4513, 5.1).
    ///
    /// # Errors
    /// Why there is no answer.
    pub fn bind(&mut self, dn: &str, password: &[u8]) -> Result<Outcome, String> {
        assert!(!dn.is_empty() && !password.is_empty(), "the caller has checked them");
        let parts = [
            ber::number(INTEGER, 3),
            ber::element(OCTETS, dn.as_bytes()),
            ber::element(0x80, password),
        ];
        self.ask(&ber::element(BIND, &parts.concat()), BIND_ANSWER)
    }

    /// Searches. The entries are those found, even where the outcome is that there are more.
    ///
    /// # Errors
    /// Why there is no answer.
    pub fn search(&mut self, search: &Search<'_>) -> Result<(Outcome, Vec<Entry>), String> {
        let attributes = search.attributes.iter().map(|name| ber::element(OCTETS, name.as_bytes()));
        let time_s = 0;
        let parts = [
            ber::element(OCTETS, search.base.as_bytes()),
            ber::number(ENUMERATED, search.depth as i32),
            // Aliases are not followed.
            ber::number(ENUMERATED, 0),
            ber::number(INTEGER, search.entries_max),
            ber::number(INTEGER, time_s),
            ber::element(ber::BOOLEAN, &[0]),
            search.filter.clone(),
            ber::element(SEQUENCE, &attributes.collect::<Vec<_>>().concat()),
        ];
        let id = self.send(&ber::element(SEARCH, &parts.concat()))?;
        let (mut entries, mut bytes) = (Vec::new(), 0);
        for _ in 0..MESSAGES_MAX {
            let (tag, content) = self.receive(id)?;
            bytes += content.len();
            if bytes > SEARCH_BYTES_MAX {
                return Err(format!("it answered a search by more than {SEARCH_BYTES_MAX} bytes"));
            }
            match tag {
                ENTRY => entries.push(entry(&content).ok_or_else(damaged)?),
                SEARCH_DONE => return Ok((outcome(&content).ok_or_else(damaged)?, entries)),
                REFERENCE => {}
                _ => return Err(damaged()),
            }
            // A server may ignore the limit of the request.
            if entries.len() > search.entries_max as usize {
                return Ok((Outcome { code: 4, text: String::new() }, entries));
            }
        }
        Err(format!("it answered a search by more than {MESSAGES_MAX} messages"))
    }

    /// A request with one answer.
    fn ask(&mut self, request: &[u8], answer: u8) -> Result<Outcome, String> {
        let id = self.send(request)?;
        let (tag, content) = self.receive(id)?;
        let outcome = (tag == answer).then(|| outcome(&content)).flatten();
        outcome.ok_or_else(damaged)
    }

    fn send(&mut self, request: &[u8]) -> Result<i32, String> {
        self.last += 1;
        let id = ber::number(INTEGER, self.last);
        let message = ber::element(SEQUENCE, &[&id, request].concat());
        let sent = match &mut self.link {
            Link::Plain(stream) => stream.write_all(&message),
            Link::Tls(stream) => stream.write_all(&message).and_then(|()| stream.flush()),
            Link::Closed => Err(ErrorKind::NotConnected.into()),
        };
        sent.map(|()| self.last).map_err(|error| shown_error(&error))
    }

    /// The tag and the content of the next message, which must answer that request.
    fn receive(&mut self, id: i32) -> Result<(u8, Vec<u8>), String> {
        let message = match &mut self.link {
            Link::Plain(stream) => message(stream),
            Link::Tls(stream) => message(stream),
            Link::Closed => Err(ErrorKind::NotConnected.into()),
        };
        let message = message.map_err(|error| shown_error(&error))?;
        let mut reader = Reader(&message);
        let of = reader.number(INTEGER).ok_or_else(damaged)?;
        let (tag, content) = reader.next().ok_or_else(damaged)?;
        if of == id {
            return Ok((tag, content.to_vec()));
        }
        // The server announces that it ends the connection (RFC 4511, 4.4.1).
        let why = (of == 0 && tag == EXTENDED_ANSWER).then(|| outcome(content)).flatten();
        Err(match why {
            Some(outcome) => format!("it ends the connection: {}", outcome.shown()),
            None => damaged(),
        })
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let _ = self.send(&[UNBIND, 0]);
        if let Link::Tls(stream) = &mut self.link {
            stream.conn.send_close_notify();
            let _ = stream.flush();
        }
    }
}

/// Connects to the first address of a server that accepts. A name is looked up by the system, whose
/// own limits of time hold for that.
fn connected(server: &Server, deadline: Instant) -> IoResult<TcpStream> {
    let mut last = Error::new(ErrorKind::NotFound, "its name has no address");
    for address in (&*server.host, server.port).to_socket_addrs()? {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        match TcpStream::connect_timeout(&address, left) {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                return Ok(stream);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// The content of the next message.
fn message(stream: &mut impl Read) -> IoResult<Vec<u8>> {
    let broken = || Error::new(ErrorKind::InvalidData, damaged());
    let mut head = [0; 2];
    stream.read_exact(&mut head)?;
    let length = match (head[0], ber::length(head[1])) {
        (SEQUENCE, Some(Length::Known(length))) => length,
        (SEQUENCE, Some(Length::Follows(bytes))) => {
            let mut length = [0; ber::LENGTH_BYTES_MAX];
            stream.read_exact(&mut length[..bytes])?;
            ber::length_of(&length[..bytes])
        }
        _ => return Err(broken()),
    };
    if length > MESSAGE_BYTES_MAX {
        let why = format!("its answer has more than {MESSAGE_BYTES_MAX} bytes");
        return Err(Error::new(ErrorKind::InvalidData, why));
    }
    let mut content = vec![0; length];
    stream.read_exact(&mut content)?;
    Ok(content)
}

fn outcome(content: &[u8]) -> Option<Outcome> {
    let mut reader = Reader(content);
    let code = reader.number(ENUMERATED)?;
    let _matched = reader.of(OCTETS)?;
    let text: String = reader.text()?.chars().take(SHOWN_CHARS_MAX).collect();
    Some(Outcome { code, text: text::terminal::escaped(text.trim_end_matches('\0')) })
}

fn entry(content: &[u8]) -> Option<Entry> {
    let mut reader = Reader(content);
    let dn = reader.text()?;
    let mut all = Reader(reader.of(SEQUENCE)?);
    let mut attributes = Vec::new();
    while !all.0.is_empty() {
        let mut attribute = Reader(all.of(SEQUENCE)?);
        let name = attribute.text()?;
        let mut set = Reader(attribute.of(SET)?);
        let mut values = Vec::new();
        while !set.0.is_empty() {
            values.push(set.text()?);
        }
        attributes.push((name, values));
    }
    Some(Entry { dn, attributes })
}

fn damaged() -> String {
    "its answer is no LDAP".to_owned()
}

fn shown_error(error: &Error) -> String {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => "it does not answer in time".to_owned(),
        ErrorKind::UnexpectedEof => "it closes the connection".to_owned(),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn messages_are_bounded() {
        let read = |mut bytes: &[u8]| message(&mut bytes).map_err(|error| shown_error(&error));
        assert_eq!(read(&[0x30, 2, 1, 2, 9]), Ok(vec![1, 2]));
        assert_eq!(read(&[0x30, 0x81, 1, 7]), Ok(vec![7]));
        assert_eq!(read(&[0x30, 2, 1]).unwrap_err(), "it closes the connection");
        assert_eq!(read(b"HTTP/1.1").unwrap_err(), damaged());
        assert_eq!(read(&[0x30, 0x80, 0, 0]).unwrap_err(), damaged());
        let long = read(&[0x30, 0x83, 0x10, 0, 1]).unwrap_err();
        assert!(long.contains("more than 1048576 bytes"), "{long}");
    }

    #[test]
    fn entries_and_outcomes() {
        let octets = |text: &str| ber::element(OCTETS, text.as_bytes());
        let attribute = |name: &str, values: &[&str]| {
            let values: Vec<u8> = values.iter().flat_map(|value| octets(value)).collect();
            ber::element(SEQUENCE, &[octets(name), ber::element(SET, &values)].concat())
        };
        let attributes = [
            attribute("UID", &["ann"]),
            attribute("memberOf;range=0-1", &["a", "b"]),
            attribute("empty", &[]),
        ];
        let content = [octets("uid=ann,dc=x"), ber::element(SEQUENCE, &attributes.concat())];
        let content = content.concat();
        let found = entry(&content).unwrap();
        assert_eq!(found.dn, "uid=ann,dc=x");
        assert_eq!(found.values("uid").collect::<Vec<_>>(), ["ann"]);
        assert_eq!(found.values("memberof").collect::<Vec<_>>(), ["a", "b"]);
        assert!(found.is_partial("memberOf") && !found.is_partial("uid"));
        assert_eq!(found.values("empty").count(), 0);
        for cut in 0..content.len() {
            assert_eq!(entry(&content[..cut]), None, "{cut}");
        }
        let content = [ber::number(ENUMERATED, 49), octets(""), octets("data 533\0")].concat();
        assert_eq!(outcome(&content).unwrap().shown(), "code 49, data 533");
    }

    proptest! {
        #[test]
        fn nothing_panics(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            let _ = message(&mut &bytes[..]);
            let _ = entry(&bytes);
            let _ = outcome(&bytes);
        }
    }
}
