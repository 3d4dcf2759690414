//! Writes structures in Thrift's compact protocol, which Parquet uses for its headers and its
//! footer (<https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md>).
//! Left out: reading it, because nothing here reads Parquet.

const I32: u8 = 5;
const I64: u8 = 6;
const BINARY: u8 = 8;
const LIST: u8 = 9;
const STRUCT: u8 = 12;

/// A structure being written. Fields must be written in the order of their ids, which are 1 to 15.
pub struct Struct<'a> {
    out: &'a mut Vec<u8>,
    last_id: u8,
}

/// Appends a structure of the fields that `fields` writes.
pub fn write_struct(out: &mut Vec<u8>, fields: impl FnOnce(&mut Struct<'_>)) {
    let mut structure = Struct { out, last_id: 0 };
    fields(&mut structure);
    structure.out.push(0);
}

impl Struct<'_> {
    /// A boolean, which is stored in the head of the field.
    pub fn bool(&mut self, id: u8, value: bool) {
        self.head(id, if value { 1 } else { 2 });
    }

    /// A number or an enum constant.
    pub fn i32(&mut self, id: u8, value: i32) {
        self.head(id, I32);
        write_varint(self.out, zigzag(value.into()));
    }

    /// A large number.
    pub fn i64(&mut self, id: u8, value: i64) {
        self.head(id, I64);
        write_varint(self.out, zigzag(value));
    }

    /// Text or bytes.
    pub fn bytes(&mut self, id: u8, value: &[u8]) {
        self.head(id, BINARY);
        self.write_bytes(value);
    }

    /// A structure within this one.
    pub fn structure(&mut self, id: u8, fields: impl FnOnce(&mut Struct<'_>)) {
        self.head(id, STRUCT);
        write_struct(self.out, fields);
    }

    /// A list of enum constants.
    pub fn list_i32(&mut self, id: u8, values: &[i32]) {
        self.list_head(id, I32, values.len());
        values.iter().for_each(|&value| write_varint(self.out, zigzag(value.into())));
    }

    /// A list of strings.
    pub fn list_bytes(&mut self, id: u8, values: &[&[u8]]) {
        self.list_head(id, BINARY, values.len());
        values.iter().for_each(|value| self.write_bytes(value));
    }

    /// A list of structures, the fields of each written by `fields`.
    pub fn list<T>(&mut self, id: u8, values: &[T], mut fields: impl FnMut(&mut Struct<'_>, &T)) {
        self.list_head(id, STRUCT, values.len());
        values.iter().for_each(|value| write_struct(self.out, |s| fields(s, value)));
    }

    fn list_head(&mut self, id: u8, kind: u8, length: usize) {
        self.head(id, LIST);
        if length < 15 {
            self.out.push((length as u8) << 4 | kind);
        } else {
            self.out.push(0xf0 | kind);
            write_varint(self.out, length as u64);
        }
    }

    fn head(&mut self, id: u8, kind: u8) {
        assert!(self.last_id < id && id - self.last_id <= 15, "field {id} behind {}", self.last_id);
        self.out.push((id - self.last_id) << 4 | kind);
        self.last_id = id;
    }

    fn write_bytes(&mut self, value: &[u8]) {
        write_varint(self.out, value.len() as u64);
        self.out.extend_from_slice(value);
    }
}

fn zigzag(value: i64) -> u64 {
    (value << 1 ^ value >> 63) as u64
}

/// Appends a number in groups of seven bits, the lowest first (ULEB128).
pub fn write_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(fields: impl FnOnce(&mut Struct<'_>), expected: &[u8]) {
        let mut out = Vec::new();
        write_struct(&mut out, fields);
        assert_eq!(out, expected);
    }

    #[test]
    fn fields_as_the_protocol_has_them() {
        check(|_| {}, &[0]);
        check(|s| s.i32(1, -1), &[0x15, 1, 0]);
        check(|s| s.i64(3, 150), &[0x36, 0xac, 0x02, 0]);
        check(|s| (s.bool(1, true), s.bool(2, false)).1, &[0x11, 0x12, 0]);
        check(|s| s.bytes(4, b"ab"), &[0x48, 2, b'a', b'b', 0]);
        check(|s| s.structure(8, |s| s.structure(1, |_| {})), &[0x8c, 0x1c, 0, 0, 0]);
        check(|s| s.list_i32(2, &[0, 3]), &[0x29, 0x25, 0, 6, 0]);
        check(|s| s.list_bytes(2, &[b"x"]), &[0x29, 0x18, 1, b'x', 0]);
        check(
            |s| s.list(2, &[1, 2], |s, &v| s.i32(1, v)),
            &[0x29, 0x2c, 0x15, 2, 0, 0x15, 4, 0, 0],
        );
        check(|s| s.list_i32(1, &[0; 15]), &[&[0x19, 0xf5, 15][..], &[0; 16]].concat());
    }
}
