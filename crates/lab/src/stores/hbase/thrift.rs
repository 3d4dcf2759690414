//! Thrift's binary protocol, strict and without frames, as far as calls of HBase's gateway need it.
//!
//! A message has a version and kind, the name of a method, a sequence number, and a struct: the
//! arguments of a call, or the result of a reply. A struct is a list of fields (type, number,
//! value) that ends with a zero byte. Numbers are big-endian; texts and lists are preceded by their
//! length. Nothing tells the length of a message: it is complete once it can be decoded. The source
//! is Thrift's *Binary protocol encoding*.
//!
//! Decoding trusts nothing: every read is checked against the end of the message, nesting and the
//! number of values are limited. Values borrow from the message. Left out: the compact protocol,
//! frames, and doubles and maps, which are skipped.

/// Limit of a message from the gateway, bytes; a longer one breaks the connection.
pub(super) const MESSAGE_BYTES_MAX: usize = 64 << 20;

/// Limit of the values of one message: more of them are an error. A row of ten columns has about
/// fifty, with the names and times of its cells.
const VALUES_MAX: usize = 4_000_000;

/// Limit of values in values. A list of rows has four levels.
const DEPTH_MAX: usize = 16;

/// Bytes of the version and kind, the first of a message.
pub(super) const VERSION_BYTES: usize = 4;

/// Version and kind of messages.
const CALL: u32 = 0x8001_0001;
const REPLY: u32 = 0x8001_0002;
const EXCEPTION: u32 = 0x8001_0003;

/// Types of values.
pub(super) mod kind {
    pub(in super::super) const BOOL: u8 = 2;
    pub(in super::super) const BYTE: u8 = 3;
    pub(in super::super) const DOUBLE: u8 = 4;
    pub(in super::super) const I16: u8 = 6;
    pub(in super::super) const I32: u8 = 8;
    pub(in super::super) const I64: u8 = 10;
    pub(in super::super) const BINARY: u8 = 11;
    pub(in super::super) const STRUCT: u8 = 12;
    pub(in super::super) const MAP: u8 = 13;
    pub(in super::super) const SET: u8 = 14;
    pub(in super::super) const LIST: u8 = 15;
}

/// The reason for an error if more bytes may make a message of it.
const INCOMPLETE: &str = "it ends too early";

/// A message that does not follow the protocol.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("byte {at} of a message: {reason}")]
pub(super) struct Malformed {
    at: usize,
    reason: &'static str,
}

impl Malformed {
    /// Whether the message has no other fault than that its end is missing.
    pub(super) fn is_incomplete(&self) -> bool {
        self.reason == INCOMPLETE
    }
}

/// Appends values to a message.
pub(super) struct Writer<'a> {
    out: &'a mut Vec<u8>,
}

/// Replaces `out` with a call of `method`, whose arguments `write` adds.
pub(super) fn call(
    out: &mut Vec<u8>,
    method: &str,
    sequence: i32,
    write: impl FnOnce(&mut Writer<'_>),
) {
    out.clear();
    out.extend(CALL.to_be_bytes());
    let mut writer = Writer { out };
    writer.bytes(method.as_bytes());
    writer.out.extend(sequence.to_be_bytes());
    write(&mut writer);
    writer.stop();
}

fn length_of(length: usize) -> [u8; 4] {
    u32::try_from(length).expect("a row is smaller than 4 GiB").to_be_bytes()
}

impl Writer<'_> {
    fn field(&mut self, kind: u8, number: i16) {
        self.out.push(kind);
        self.out.extend(number.to_be_bytes());
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.out.extend(length_of(bytes.len()));
        self.out.extend(bytes);
    }

    /// A field of bytes or text.
    pub(super) fn binary(&mut self, number: i16, bytes: &[u8]) {
        self.field(kind::BINARY, number);
        self.bytes(bytes);
    }

    /// A field with a number; enumerations are numbers.
    pub(super) fn i32(&mut self, number: i16, value: i32) {
        self.field(kind::I32, number);
        self.out.extend(value.to_be_bytes());
    }

    /// A field with a boolean.
    pub(super) fn bool(&mut self, number: i16, value: bool) {
        self.field(kind::BOOL, number);
        self.out.push(u8::from(value));
    }

    /// A field with a struct, whose fields `write` adds.
    pub(super) fn structure(&mut self, number: i16, write: impl FnOnce(&mut Self)) {
        self.field(kind::STRUCT, number);
        write(self);
        self.stop();
    }

    /// A field with a list of structs, each of which `write` fills.
    pub(super) fn structures<T>(
        &mut self,
        number: i16,
        items: &[T],
        write: impl Fn(&mut Self, &T),
    ) {
        self.list(number, kind::STRUCT, items.len());
        for item in items {
            write(self, item);
            self.stop();
        }
    }

    /// A field with a list of bytes.
    pub(super) fn binaries(&mut self, number: i16, items: &[Vec<u8>]) {
        self.list(number, kind::BINARY, items.len());
        items.iter().for_each(|item| self.bytes(item));
    }

    fn list(&mut self, number: i16, kind: u8, length: usize) {
        self.field(kind::LIST, number);
        self.out.push(kind);
        self.out.extend(length_of(length));
    }

    fn stop(&mut self) {
        self.out.push(0);
    }
}

/// A value of a reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Field<'a> {
    /// A boolean.
    Bool(bool),
    /// A number of any width.
    Integer(i64),
    /// Bytes or text.
    Binary(&'a [u8]),
    /// A list.
    List(Vec<Field<'a>>),
    /// A struct.
    Struct(Struct<'a>),
    /// A value of a type that the lab does not use.
    Other,
}

/// The fields of a struct, with their numbers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Struct<'a>(Vec<(i16, Field<'a>)>);

impl<'a> Struct<'a> {
    /// The field with this number.
    pub(super) fn get(&self, number: i16) -> Option<&Field<'a>> {
        self.0.iter().find(|(n, _)| *n == number).map(|(_, field)| field)
    }

    /// The bytes in this field.
    pub(super) fn binary(&self, number: i16) -> Option<&'a [u8]> {
        match self.get(number) {
            Some(Field::Binary(bytes)) => Some(bytes),
            _ => None,
        }
    }

    /// The structs in the list in this field.
    pub(super) fn structures(&self, number: i16) -> Option<Vec<&Struct<'a>>> {
        match self.get(number) {
            Some(list) => list.structures(),
            None => None,
        }
    }
}

impl<'a> Field<'a> {
    /// The structs, if it is a list of them.
    pub(super) fn structures(&self) -> Option<Vec<&Struct<'a>>> {
        let Field::List(items) = self else { return None };
        let mut structures = Vec::with_capacity(items.len());
        for item in items {
            match item {
                Field::Struct(structure) => structures.push(structure),
                _ => return None,
            }
        }
        Some(structures)
    }
}

/// A reply to a call.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Reply<'a> {
    /// The sequence number of the call.
    pub(super) sequence: i32,
    /// Whether Thrift itself reports a failure: then field 1 of `result` is its message.
    pub(super) is_exception: bool,
    /// Field 0 is the result of the method; other fields are exceptions that it declares.
    pub(super) result: Struct<'a>,
}

/// Decodes a reply.
pub(super) fn reply(message: &[u8]) -> Result<Reply<'_>, Malformed> {
    let mut reader = Reader { message, at: 0, values: 0 };
    let is_exception = match reader.number(4)? as u32 {
        REPLY => false,
        EXCEPTION => true,
        _ => return Err(reader.malformed("not a reply of the binary protocol")),
    };
    reader.binary()?;
    let sequence = reader.number(4)? as i32;
    let result = reader.structure(0)?;
    match reader.at == message.len() {
        true => Ok(Reply { sequence, is_exception, result }),
        false => Err(reader.malformed("it continues after its end")),
    }
}

/// A position in a message.
struct Reader<'a> {
    message: &'a [u8],
    at: usize,
    values: usize,
}

impl<'a> Reader<'a> {
    fn malformed(&self, reason: &'static str) -> Malformed {
        Malformed { at: self.at, reason }
    }

    fn take(&mut self, bytes: usize) -> Result<&'a [u8], Malformed> {
        let rest = &self.message[self.at..];
        let taken = rest.get(..bytes).ok_or_else(|| self.malformed(INCOMPLETE))?;
        self.at += bytes;
        Ok(taken)
    }

    /// A signed number of 1 to 8 bytes.
    fn number(&mut self, bytes: usize) -> Result<i64, Malformed> {
        let taken = self.take(bytes)?;
        let sign = if taken[0] < 0x80 { 0 } else { -1 };
        Ok(taken.iter().fold(sign, |number, byte| number << 8 | i64::from(*byte)))
    }

    fn length(&mut self) -> Result<usize, Malformed> {
        let length = self.number(4)?;
        usize::try_from(length).map_err(|_| self.malformed("a negative length"))
    }

    fn binary(&mut self) -> Result<&'a [u8], Malformed> {
        let length = self.length()?;
        self.take(length)
    }

    fn structure(&mut self, depth: usize) -> Result<Struct<'a>, Malformed> {
        let mut fields = Vec::new();
        loop {
            let kind = self.take(1)?[0];
            if kind == 0 {
                return Ok(Struct(fields));
            }
            let number = self.number(2)? as i16;
            fields.push((number, self.field(kind, depth + 1)?));
        }
    }

    fn field(&mut self, kind: u8, depth: usize) -> Result<Field<'a>, Malformed> {
        self.values += 1;
        if self.values > VALUES_MAX || depth > DEPTH_MAX {
            return Err(self.malformed("more values, or values in values, than any reply has"));
        }
        match kind {
            kind::BOOL => Ok(Field::Bool(self.take(1)?[0] != 0)),
            kind::BYTE => self.number(1).map(Field::Integer),
            kind::I16 => self.number(2).map(Field::Integer),
            kind::I32 => self.number(4).map(Field::Integer),
            kind::I64 => self.number(8).map(Field::Integer),
            kind::DOUBLE => self.take(8).map(|_| Field::Other),
            kind::BINARY => self.binary().map(Field::Binary),
            kind::STRUCT => self.structure(depth).map(Field::Struct),
            kind::LIST | kind::SET => {
                let kind = self.take(1)?[0];
                let length = self.length()?;
                // Not with a capacity: the length is not known to be true.
                let items = (0..length).map(|_| self.field(kind, depth + 1));
                items.collect::<Result<_, _>>().map(Field::List)
            }
            kind::MAP => {
                let kinds = [self.take(1)?[0], self.take(1)?[0]];
                let length = self.length()?;
                for kind in kinds.iter().cycle().take(length.saturating_mul(2)) {
                    self.field(*kind, depth + 1)?;
                }
                Ok(Field::Other)
            }
            _ => Err(self.malformed("a value of an unknown type")),
        }
    }
}

#[cfg(test)]
mod tests;
