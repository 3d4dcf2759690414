//! RELP, the protocol of rsyslog's omrelp: syslog whose messages are answered one by one.
//!
//! ```text
//! TXNR SP COMMAND SP LENGTH [SP DATA] LF        open, syslog, close; LENGTH in bytes
//! TXNR SP rsp SP LENGTH SP 200 OK LF            our answer
//! ```
//!
//! A message may contain newlines; one at its end is not part of it. Commands that are not known
//! are answered with 500, as the specification wants it. Left out: starting TLS within a
//! connection, and that a server asks a client for something. Source: "RELP Protocol" of librelp,
//! version 0 and 1.

use std::net::SocketAddr;
use std::sync::Arc;

use platform::Clock;
use record::frame::LINE_BYTES_MAX;
use record::{Format, Hints, Origin, Transport};

use crate::accounting::{Accounting, SourceKind};
use crate::answered::{Answered, AnsweredSource, Input, Output, Protocol, Step, Wrong};
use crate::deliver::Deliver;
use crate::source::SourceError;
use crate::stream::{Identity, TcpConfig};
use crate::tls::Credentials;

const IDENTITY: Identity = Identity {
    kind: SourceKind::Relp,
    transport: Transport::Relp,
    what: "RELP",
    flag: "--relp-listen",
    thread_name: "relp",
};

/// A listener for RELP. Dropping it stops it.
pub struct RelpSource(AnsweredSource);

impl RelpSource {
    /// Binds the address and starts to accept; with TLS if there are credentials.
    pub fn start(
        address: SocketAddr,
        config: TcpConfig,
        credentials: Option<Arc<Credentials>>,
        deliver: Arc<dyn Deliver>,
        accounting: Arc<Accounting>,
        clock: Arc<dyn Clock>,
    ) -> Result<RelpSource, SourceError> {
        let hints = Hints { zone: config.zone.clone(), ..Hints::default() };
        let answered = Answered {
            identity: IDENTITY,
            origin: Origin {
                hints: Arc::new(hints),
                ..Origin::new(IDENTITY.transport, Format::Syslog, None)
            },
            protocol: Box::new(|| Box::new(Relp::default())),
            config,
            credentials,
        };
        AnsweredSource::start(address, answered, deliver, accounting, clock).map(RelpSource)
    }

    /// The address it listens on, with the port the kernel chose if port 0 was requested.
    pub fn local_addr(&self) -> SocketAddr {
        self.0.local_addr()
    }

    /// Whether its thread ended by a panic. The caller then drops the source and starts it again.
    pub fn has_failed(&self) -> bool {
        self.0.has_failed()
    }
}

/// The receiver of one connection.
#[derive(Default)]
pub struct Relp {
    is_open: bool,
    is_closed: bool,
}

struct Frame<'b> {
    txnr: &'b [u8],
    command: &'b [u8],
    data: &'b [u8],
    /// Bytes of all.
    bytes: usize,
}

impl Protocol for Relp {
    fn has_begun(&self) -> bool {
        self.is_open
    }

    fn step(&mut self, input: &mut Input, out: &mut Output) -> Result<Step, Wrong> {
        if self.is_closed {
            return Ok(Step::End);
        }
        let Some(Frame { txnr, command, data, bytes }) = frame(input.rest())? else {
            return Ok(Step::NeedsBytes);
        };
        match command {
            b"open" => {
                self.is_open = true;
                let offers = b"200 OK\nrelp_version=0\nrelp_software=loginson\ncommands=syslog";
                respond(txnr, offers, out);
            }
            _ if !self.is_open => {
                return Err(Wrong::new("it sends commands before it has opened the session"));
            }
            b"syslog" => {
                let line = data.strip_suffix(b"\n").unwrap_or(data);
                let line = line.strip_suffix(b"\r").unwrap_or(line);
                if !line.is_empty() {
                    out.push(line);
                }
                respond(txnr, b"200 OK", out);
            }
            b"close" => {
                self.is_closed = true;
                respond(txnr, b"", out);
                out.answers.extend_from_slice(b"0 serverclose 0\n");
            }
            _ => respond(txnr, b"500 command is not known", out),
        }
        input.consume(bytes);
        Ok(Step::More)
    }
}

fn respond(txnr: &[u8], data: &[u8], out: &mut Output) {
    out.answers.extend_from_slice(txnr);
    out.answers.extend_from_slice(format!(" rsp {}", data.len()).as_bytes());
    if !data.is_empty() {
        out.answers.push(b' ');
        out.answers.extend_from_slice(data);
    }
    out.answers.push(b'\n');
}

/// The frame at the start of `bytes`; `None` if it is not whole. What cannot become a frame is an
/// error at once. Number, command and length have at most 9, 32 and 9 bytes.
fn frame(bytes: &[u8]) -> Result<Option<Frame<'_>>, Wrong> {
    let not_relp =
        || Wrong::new("what it sends is no frame of RELP; send to this port by rsyslog's omrelp");
    let mut rest = bytes;
    let mut word = |is_of_word: fn(&u8) -> bool, bytes_max: usize| {
        let length = rest.iter().take(bytes_max + 1).take_while(|byte| is_of_word(byte)).count();
        if length > bytes_max || (length == 0 && !rest.is_empty()) {
            return Err(not_relp());
        }
        let (word, behind) = rest.split_at(length);
        let Some((end, behind)) = behind.split_first() else { return Ok(None) };
        rest = behind;
        Ok(Some((word, *end)))
    };
    let txnr = match word(u8::is_ascii_digit, 9)? {
        None => return Ok(None),
        Some((txnr, b' ')) => txnr,
        Some(_) => return Err(not_relp()),
    };
    let command = match word(u8::is_ascii_lowercase, 32)? {
        None => return Ok(None),
        Some((command, b' ')) => command,
        Some(_) => return Err(not_relp()),
    };
    let Some((length, end)) = word(u8::is_ascii_digit, 9)? else { return Ok(None) };
    let length = length.iter().fold(0, |length, digit| 10 * length + usize::from(digit - b'0'));
    if length > LINE_BYTES_MAX {
        return Err(Wrong(format!(
            "a message has {length} bytes; a line may have {LINE_BYTES_MAX}: set maxMessageSize of rsyslog to 8m"
        )));
    }
    let (data, behind) = match (end, length) {
        (b'\n', 0) => (&rest[..0], rest),
        (b' ', _) => match rest.split_at_checked(length) {
            None => return Ok(None),
            Some((data, behind)) => match behind.split_first() {
                None => return Ok(None),
                Some((b'\n', behind)) => (data, behind),
                Some(_) => return Err(not_relp()),
            },
        },
        _ => return Err(not_relp()),
    };
    Ok(Some(Frame { txnr, command, data, bytes: bytes.len() - behind.len() }))
}

#[cfg(test)]
#[path = "relp/tests.rs"]
mod tests;
