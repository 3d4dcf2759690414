//! MongoDB's wire protocol, as far as one command at a time needs it: a command and its reply are
//! each an `OP_MSG` with one document.
//!
//! The format is that of MongoDB's specification "OP_MSG". All numbers are little-endian:
//!
//! | bytes | field |
//! |---|---|
//! | 4 | length of the whole message |
//! | 4 | id of the request; the reply's own id |
//! | 4 | 0; in a reply, the id of its request |
//! | 4 | 2013, `OP_MSG` |
//! | 4 | flags: bit 0, a checksum follows; bit 1, more messages follow |
//! | 1 | kind of the section: 0, one document |
//! | … | the document in BSON |
//!
//! Left out: TLS, logins, compression, checksums, document sequences. None is needed unless the
//! server is set to require it, and no server sends them unasked.

use bson::raw::{RawBsonRef, RawDocument, RawDocumentBuf};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const OP_MSG: i32 = 2013;

/// The four numbers before the flags.
const HEADER_BYTES: usize = 16;

/// Bytes before the document.
const PREFIX_BYTES: usize = HEADER_BYTES + 4 + 1;

/// Limit of one message in both directions: that of MongoDB (`maxMessageSizeBytes`). A longer reply
/// is an error.
const MESSAGE_BYTES_MAX: usize = 48_000_000;

/// Codes of errors with which a server ends or gives up its role: ShutdownInProgress,
/// PrimarySteppedDown, NotWritablePrimary, InterruptedAtShutdown.
const GOING: [i64; 4] = [91, 189, 10107, 11600];

/// A database, table or index that a command names is missing.
pub(super) const NAMESPACE_NOT_FOUND: i64 = 26;

/// The server has no such command.
pub(super) const COMMAND_NOT_FOUND: i64 = 59;

/// Why a command failed.
#[derive(Debug)]
pub(super) enum Failure {
    /// The connection broke, or the server ends.
    Broken(String),
    /// The reply breaks the protocol.
    Malformed(String),
    /// The server answered with an error, for example because its disk is full.
    Refused {
        /// MongoDB's number of the error.
        code: i64,
        /// The server's message.
        message: String,
    },
}

/// A connection, on which one command is under way at a time.
pub(super) struct Connection {
    stream: TcpStream,
    requests: i32,
}

/// The reply to a command that succeeded.
#[derive(Debug)]
pub(super) struct Reply {
    message: Vec<u8>,
}

impl Connection {
    /// Connects to `host`, a name or an address.
    pub async fn open(host: &str, port: u16) -> Result<Connection, Failure> {
        let stream = TcpStream::connect((host, port)).await.map_err(broken)?;
        stream.set_nodelay(true).map_err(broken)?;
        Ok(Connection { stream, requests: 0 })
    }

    /// Sends a command and waits for its reply. After a [`Failure::Broken`] or
    /// [`Failure::Malformed`], or if this future is dropped, the connection is of no more use.
    pub async fn command(&mut self, command: &RawDocumentBuf) -> Result<Reply, Failure> {
        self.requests = self.requests.wrapping_add(1);
        let message = encode(self.requests, command.as_bytes())?;
        self.stream.write_all(&message).await.map_err(broken)?;
        let mut message = vec![0; HEADER_BYTES];
        self.stream.read_exact(&mut message).await.map_err(broken)?;
        let length = length(&message).map_err(Failure::Malformed)?;
        message.resize(length, 0);
        self.stream.read_exact(&mut message[HEADER_BYTES..]).await.map_err(broken)?;
        let reply = decode(message, self.requests).map_err(Failure::Malformed)?;
        succeeded(reply.document()?)?;
        Ok(reply)
    }
}

impl Reply {
    /// The document of the reply; its values are checked when they are read.
    pub fn document(&self) -> Result<&RawDocument, Failure> {
        RawDocument::from_bytes(&self.message[PREFIX_BYTES..])
            .map_err(|e| Failure::Malformed(e.to_string()))
    }
}

/// A whole number, whatever type of number the server sent it as.
pub(super) fn whole_number(value: RawBsonRef<'_>) -> Option<i64> {
    match value {
        RawBsonRef::Int32(number) => Some(number.into()),
        RawBsonRef::Int64(number) => Some(number),
        // Up to 2^53, a double holds every whole number.
        RawBsonRef::Double(number) if number.fract() == 0.0 && number.abs() <= 9e15 => {
            Some(number as i64)
        }
        _ => None,
    }
}

/// The whole number in a field; `None` if there is none.
pub(super) fn number(document: &RawDocument, field: &str) -> Option<i64> {
    document.get(field).ok().flatten().and_then(whole_number)
}

fn broken(error: std::io::Error) -> Failure {
    Failure::Broken(error.to_string())
}

fn encode(request: i32, document: &[u8]) -> Result<Vec<u8>, Failure> {
    let length = PREFIX_BYTES + document.len();
    if length > MESSAGE_BYTES_MAX {
        let message = format!("a command of {length} bytes; the protocol has {MESSAGE_BYTES_MAX}");
        return Err(Failure::Refused { code: 0, message });
    }
    let mut message = Vec::with_capacity(length);
    for number in [length as i32, request, 0, OP_MSG, 0] {
        message.extend(number.to_le_bytes());
    }
    message.push(0);
    message.extend(document);
    Ok(message)
}

/// The length of a message, from its header.
fn length(header: &[u8]) -> Result<usize, String> {
    let length = usize::try_from(number_at(header, 0)).unwrap_or_default();
    match (PREFIX_BYTES..=MESSAGE_BYTES_MAX).contains(&length) {
        true => Ok(length),
        false => Err(format!("a message of {} bytes", number_at(header, 0))),
    }
}

/// Checks a whole message of at least [`PREFIX_BYTES`], except for its document.
fn decode(message: Vec<u8>, request: i32) -> Result<Reply, String> {
    let (answers, operation, flags) =
        (number_at(&message, 8), number_at(&message, 12), number_at(&message, 16));
    match (answers, operation, flags, message[PREFIX_BYTES - 1]) {
        (answers, ..) if answers != request => {
            Err(format!("a reply to request {answers} instead of {request}"))
        }
        (_, OP_MSG, 0, 0) => Ok(Reply { message }),
        (_, operation, flags, kind) => {
            Err(format!("a message {operation} with flags {flags:#x} and a section of kind {kind}"))
        }
    }
}

fn number_at(message: &[u8], at: usize) -> i32 {
    i32::from_le_bytes(message[at..at + 4].try_into().expect("four bytes"))
}

/// Finds the errors of a reply: of the command, of one of its writes, or of their durability.
fn succeeded(reply: &RawDocument) -> Result<(), Failure> {
    if number(reply, "ok") != Some(1) {
        return Err(refused(reply));
    }
    let errors =
        reply.get_array("writeErrors").ok().and_then(|errors| errors.get(0).ok().flatten());
    if let Some(error) = errors {
        return Err(error.as_document().map_or_else(|| refused(reply), refused));
    }
    match reply.get_document("writeConcernError") {
        Ok(error) => Err(refused(error)),
        Err(_) => Ok(()),
    }
}

fn refused(error: &RawDocument) -> Failure {
    let text = error.get_str("errmsg").unwrap_or("an error without a message");
    let code = number(error, "code").unwrap_or_default();
    let message = format!("{text} (code {code})");
    match GOING.contains(&code) {
        true => Failure::Broken(message),
        false => Failure::Refused { code, message },
    }
}

#[cfg(test)]
mod tests {
    use bson::rawdoc;

    use super::*;

    fn message(request: i32, document: &RawDocumentBuf) -> Vec<u8> {
        let mut message = encode(request, document.as_bytes()).unwrap();
        message[8..12].copy_from_slice(&request.to_le_bytes());
        message
    }

    #[test]
    fn a_command_is_one_document_behind_its_header() {
        let document = rawdoc! { "a": 1_i32 };
        let expected = [
            &[33, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 0xdd, 7, 0, 0, 0, 0, 0, 0, 0][..],
            &[12, 0, 0, 0, 0x10, b'a', 0, 1, 0, 0, 0, 0],
        ];
        assert_eq!(encode(7, document.as_bytes()).unwrap(), expected.concat());
        let long = vec![0; MESSAGE_BYTES_MAX - PREFIX_BYTES + 1];
        assert!(matches!(encode(1, &long), Err(Failure::Refused { .. })));
        assert_eq!(encode(1, &long[1..]).unwrap().len(), MESSAGE_BYTES_MAX);
    }

    #[test]
    fn a_reply_comes_back_and_other_messages_are_errors() {
        let good = message(3, &rawdoc! { "ok": 1.0 });
        let reply = decode(good.clone(), 3).unwrap();
        assert_eq!(number(reply.document().unwrap(), "ok"), Some(1));
        assert!(decode(good.clone(), 4).unwrap_err().contains("request 3"));
        for (at, byte) in [(12, 1), (16, 1), (16, 2), (20, 1)] {
            let mut other = good.clone();
            other[at] = byte;
            assert!(decode(other, 3).is_err(), "byte {at} is {byte}");
        }
    }

    #[test]
    fn lengths_are_bounded() {
        let header = |length: i32| {
            let mut header = vec![0; HEADER_BYTES];
            header[..4].copy_from_slice(&length.to_le_bytes());
            header
        };
        for (bytes, taken) in [
            (PREFIX_BYTES as i32 - 1, false),
            (PREFIX_BYTES as i32, true),
            (MESSAGE_BYTES_MAX as i32, true),
            (MESSAGE_BYTES_MAX as i32 + 1, false),
            (0, false),
            (-1, false),
            (i32::MIN, false),
            (i32::MAX, false),
        ] {
            assert_eq!(length(&header(bytes)).is_ok(), taken, "{bytes}");
        }
    }

    /// A server may send any bytes: each is an answer or an error.
    #[test]
    fn damaged_replies_are_errors_and_never_a_panic() {
        let document = rawdoc! {
            "ok": 1.0,
            "writeErrors": [{ "code": 11000_i32, "errmsg": "twice" }],
            "cursor": { "firstBatch": [{ "_id": "a" }], "id": 0_i64 },
        };
        let good = message(1, &document);
        let read = |message: Vec<u8>| {
            let reply = decode(message, 1).map_err(Failure::Malformed)?;
            let document = reply.document()?;
            succeeded(document)?;
            let cursor = document.get_document("cursor").map(|cursor| number(cursor, "id"));
            Ok::<_, Failure>(cursor.ok().flatten())
        };
        assert!(matches!(read(good.clone()), Err(Failure::Refused { code: 11000, .. })));
        for at in 0..good.len() {
            for byte in [0, 1, 0x7f, 0x80, 0xff] {
                let mut other = good.clone();
                other[at] = byte;
                let _ = read(other);
            }
        }
        for end in PREFIX_BYTES..good.len() {
            assert!(read(good[..end].to_vec()).is_err(), "{end} bytes");
        }
    }

    #[test]
    fn errors_are_found_where_the_server_puts_them() {
        let code = |document: &RawDocumentBuf| match succeeded(document) {
            Ok(()) => None,
            Err(Failure::Refused { code, .. }) => Some(code),
            Err(Failure::Broken(_)) => Some(-1),
            Err(Failure::Malformed(_)) => Some(-2),
        };
        for (document, expected) in [
            (rawdoc! { "ok": 1.0 }, None),
            (rawdoc! { "ok": 1_i32, "writeErrors": [] }, None),
            (rawdoc! { "ok": 0.0, "code": 26_i32, "errmsg": "ns not found" }, Some(26)),
            (rawdoc! { "ok": 0.0, "code": 11600_i32, "errmsg": "shuts down" }, Some(-1)),
            (rawdoc! { "ok": true }, Some(0)),
            (rawdoc! {}, Some(0)),
            (rawdoc! { "ok": 1.0, "writeErrors": [{ "code": 11000_i32 }] }, Some(11000)),
            (rawdoc! { "ok": 1.0, "writeErrors": [1_i32] }, Some(0)),
            (rawdoc! { "ok": 1.0, "writeConcernError": { "code": 64_i32 } }, Some(64)),
        ] {
            assert_eq!(code(&document), expected, "{document:?}");
        }
    }

    #[test]
    fn numbers_are_whole() {
        for (value, number) in [
            (RawBsonRef::Int32(-1), Some(-1)),
            (RawBsonRef::Int64(i64::MIN), Some(i64::MIN)),
            (RawBsonRef::Double(5.0), Some(5)),
            (RawBsonRef::Double(0.5), None),
            (RawBsonRef::Double(f64::NAN), None),
            (RawBsonRef::Double(f64::INFINITY), None),
            (RawBsonRef::Double(1e300), None),
            (RawBsonRef::String("1"), None),
        ] {
            assert_eq!(whole_number(value), number, "{value:?}");
        }
    }
}
