//! VoltDB's client wire protocol, as far as the lab needs it: login, invocation of a procedure, and
//! its response with tables.
//!
//! Every message is preceded by its length (a signed 32-bit number that does not count itself). All
//! numbers are big-endian; a text is its length in bytes (signed 32 bits, -1 for NULL) and UTF-8.
//! The source is VoltDB's *Client Wire Protocol* guide: version 1 of the login, version 0 of
//! invocations and responses.
//!
//! Decoding trusts nothing: every read is checked against the end of the message, and the number of
//! columns and rows against the bytes that are left. Left out: parameters and columns of other
//! types than the lab's (they are skipped), Kerberos, and passwords: the hash is zeros, which a
//! server without security ignores and one with security refuses.

use crate::row::Value;

/// Limit of a message from the server, bytes; a longer one breaks the connection. The server itself
/// refuses results of more than 50 MB.
pub(super) const MESSAGE_BYTES_MAX: usize = 64 << 20;

/// Bytes of the SHA-256 hash of a password.
const HASH_BYTES: usize = 32;

/// Wire types of parameters and columns.
mod wire_type {
    pub(super) const TINYINT: u8 = 3;
    pub(super) const SMALLINT: u8 = 4;
    pub(super) const INTEGER: u8 = 5;
    pub(super) const BIGINT: u8 = 6;
    pub(super) const FLOAT: u8 = 8;
    pub(super) const STRING: u8 = 9;
    pub(super) const TIMESTAMP: u8 = 11;
    pub(super) const DECIMAL: u8 = 22;
    pub(super) const VARBINARY: u8 = 25;
}

/// Optional fields of a response, as bits of one byte.
mod present {
    pub(super) const MESSAGE: u8 = 1 << 5;
    pub(super) const EXCEPTION: u8 = 1 << 6;
    pub(super) const APPLICATION_MESSAGE: u8 = 1 << 7;
}

/// Statuses of responses and logins that the lab tells apart.
pub(super) mod status {
    /// The procedure is committed.
    pub(in super::super) const SUCCESS: i8 = 1;
    /// The server lost its connection to the node that has the partition.
    pub(in super::super) const CONNECTION_LOST: i8 = -4;
    /// The server gave up waiting for that node.
    pub(in super::super) const CONNECTION_TIMEOUT: i8 = -6;
    /// The login succeeded.
    pub(in super::super) const LOGIN_ACCEPTED: i8 = 0;
}

/// A message that does not follow the protocol.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("byte {at} of a message: {reason}")]
pub(super) struct Malformed {
    at: usize,
    reason: &'static str,
}

/// The server's answer to a login.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct LoggedIn {
    /// [`status::LOGIN_ACCEPTED`], or the reason for a refusal.
    pub(super) status: i8,
    /// The version and build of the server; empty after a refusal.
    pub(super) build: String,
}

/// The server's answer to an invocation.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Response {
    /// The number that the invocation had.
    pub(super) handle: i64,
    /// [`status::SUCCESS`], or the kind of failure.
    pub(super) status: i8,
    /// The message of the server about a failure.
    pub(super) message: String,
    /// The results of the procedure's statements.
    pub(super) tables: Vec<Table>,
}

/// A result.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Table {
    /// Names of the columns, in capitals.
    pub(super) columns: Vec<String>,
    /// One cell for each column.
    pub(super) rows: Vec<Vec<Cell>>,
}

/// A value in a [`Table`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Cell {
    /// Of any width. The least number of each width stands for NULL.
    Integer(i64),
    /// Text.
    Text(String),
    /// NULL of a text.
    Null,
    /// A value of a type that the lab does not use.
    Other,
}

/// The first message of a connection.
pub(super) fn login() -> Vec<u8> {
    let mut out = Vec::new();
    framed(&mut out, |out| {
        // Version of the login; SHA-256 as the hash of the password.
        out.extend([1, 1]);
        text(out, "database");
        text(out, "");
        out.extend([0; HASH_BYTES]);
    });
    out
}

/// Appends an invocation of `procedure`. The server's response bears the same `handle`.
pub(super) fn invocation(out: &mut Vec<u8>, handle: i64, procedure: &str, parameters: &[&Value]) {
    framed(out, |out| {
        out.push(0);
        text(out, procedure);
        out.extend(handle.to_be_bytes());
        let count = i16::try_from(parameters.len()).expect("no table has 32,768 columns");
        out.extend(count.to_be_bytes());
        for parameter in parameters {
            match parameter {
                Value::Integer(number) => {
                    out.push(wire_type::BIGINT);
                    out.extend(number.to_be_bytes());
                }
                Value::Text(value) => {
                    out.push(wire_type::STRING);
                    text(out, value);
                }
            }
        }
    });
}

fn framed(out: &mut Vec<u8>, body: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend([0; 4]);
    body(out);
    let length = u32::try_from(out.len() - start - 4).expect("a row is smaller than 4 GiB");
    out[start..start + 4].copy_from_slice(&length.to_be_bytes());
}

fn text(out: &mut Vec<u8>, value: &str) {
    let length = u32::try_from(value.len()).expect("a value is smaller than 4 GiB");
    out.extend(length.to_be_bytes());
    out.extend(value.as_bytes());
}

/// Decodes the answer to a login, without its length.
pub(super) fn logged_in(message: &[u8]) -> Result<LoggedIn, Malformed> {
    let mut reader = Reader { message, at: 0 };
    reader.byte()?; // version
    let status = reader.byte()? as i8;
    if status != status::LOGIN_ACCEPTED {
        return Ok(LoggedIn { status, build: String::new() });
    }
    // Host, connection, and two numbers that identify the cluster.
    reader.take(4 + 8 + 8 + 4)?;
    Ok(LoggedIn { status, build: reader.text()?.unwrap_or_default() })
}

/// Decodes a response, without its length.
pub(super) fn response(message: &[u8]) -> Result<Response, Malformed> {
    let mut reader = Reader { message, at: 0 };
    reader.byte()?; // version
    let handle = reader.number(8)?;
    let fields = reader.byte()?;
    let status = reader.byte()? as i8;
    let mut said = String::new();
    if fields & present::MESSAGE != 0 {
        said = reader.text()?.unwrap_or_default();
    }
    reader.byte()?; // status of the application, which only procedures in Java set
    if fields & present::APPLICATION_MESSAGE != 0 {
        reader.text()?;
    }
    reader.take(4)?; // time in the cluster, ms
    if fields & present::EXCEPTION != 0 {
        reader.block()?;
    }
    let tables = reader.count(2, 1)?;
    let tables = (0..tables).map(|_| table(&mut reader)).collect::<Result<_, _>>()?;
    Ok(Response { handle, status, message: said, tables })
}

fn table(reader: &mut Reader<'_>) -> Result<Table, Malformed> {
    let start = reader.at;
    let whole = reader.block()?.ok_or(Malformed { at: start, reason: "a table without length" })?;
    let mut reader = Reader { message: &reader.message[..reader.at], at: reader.at - whole.len() };
    reader.take(4)?; // bytes of the header
    reader.byte()?; // status, which only procedures in Java set
    let columns = reader.count(2, 5)?;
    let types = reader.take(columns)?.to_vec();
    let mut names = Vec::with_capacity(columns);
    for _ in 0..columns {
        names.push(reader.text()?.unwrap_or_default());
    }
    let rows = reader.count(4, 4)?;
    let mut all = Vec::with_capacity(rows);
    for _ in 0..rows {
        reader.take(4)?; // bytes of the row
        all.push(types.iter().map(|kind| reader.cell(*kind)).collect::<Result<_, _>>()?);
    }
    Ok(Table { columns: names, rows: all })
}

/// A position in a message.
struct Reader<'a> {
    message: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn malformed(&self, reason: &'static str) -> Malformed {
        Malformed { at: self.at, reason }
    }

    fn take(&mut self, bytes: usize) -> Result<&'a [u8], Malformed> {
        let rest = &self.message[self.at..];
        let taken = rest.get(..bytes).ok_or_else(|| self.malformed("it ends too early"))?;
        self.at += bytes;
        Ok(taken)
    }

    fn byte(&mut self) -> Result<u8, Malformed> {
        Ok(self.take(1)?[0])
    }

    /// A signed number of 1 to 8 bytes.
    fn number(&mut self, bytes: usize) -> Result<i64, Malformed> {
        let taken = self.take(bytes)?;
        let sign = if taken[0] < 0x80 { 0 } else { -1 };
        Ok(taken.iter().fold(sign, |number, byte| number << 8 | i64::from(*byte)))
    }

    /// The number of parts that follow, each of at least `part_bytes_min`.
    fn count(&mut self, bytes: usize, part_bytes_min: usize) -> Result<usize, Malformed> {
        let count = self.number(bytes)?;
        let most = (self.message.len() - self.at) / part_bytes_min;
        let count = usize::try_from(count).ok().filter(|count| *count <= most);
        count.ok_or_else(|| self.malformed("more parts than there are bytes"))
    }

    /// Bytes preceded by their number; `None` for -1.
    fn block(&mut self) -> Result<Option<&'a [u8]>, Malformed> {
        match self.number(4)? {
            -1 => Ok(None),
            length => {
                let length = usize::try_from(length);
                let length = length.map_err(|_| self.malformed("a negative length"))?;
                self.take(length).map(Some)
            }
        }
    }

    fn text(&mut self) -> Result<Option<String>, Malformed> {
        let Some(bytes) = self.block()? else { return Ok(None) };
        let text = std::str::from_utf8(bytes);
        text.map(|text| Some(text.to_owned())).map_err(|_| self.malformed("text is not UTF-8"))
    }

    fn cell(&mut self, kind: u8) -> Result<Cell, Malformed> {
        match kind {
            wire_type::TINYINT => self.number(1).map(Cell::Integer),
            wire_type::SMALLINT => self.number(2).map(Cell::Integer),
            wire_type::INTEGER => self.number(4).map(Cell::Integer),
            wire_type::BIGINT | wire_type::TIMESTAMP => self.number(8).map(Cell::Integer),
            wire_type::STRING => Ok(self.text()?.map_or(Cell::Null, Cell::Text)),
            wire_type::FLOAT => self.take(8).map(|_| Cell::Other),
            wire_type::DECIMAL => self.take(16).map(|_| Cell::Other),
            wire_type::VARBINARY => self.block().map(|_| Cell::Other),
            _ => Err(self.malformed("a column of an unknown type")),
        }
    }
}

#[cfg(test)]
mod tests;
