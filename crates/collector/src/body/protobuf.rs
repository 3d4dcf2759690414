//! The fields of a message in the wire format of protocol buffers
//! (<https://protobuf.dev/programming-guides/encoding/>), read in place.
//!
//! A library that decodes whole messages (`prost`) makes a tree of allocations: a structure of some
//! hundred bytes of an empty message of two bytes, before anything can be counted, and a copy of
//! each text. Readers of log formats look at each field once, so they walk over the bytes.
//!
//! Left out: groups (`SGROUP`), which are deprecated and count as damage; and packed numbers.

/// The message ends in the middle of a field, or has a wire type that does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the protobuf message is broken")]
pub struct Broken;

/// The value of a field, by its wire type.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'b> {
    /// `VARINT`
    Number(u64),
    /// `LEN`
    Bytes(&'b [u8]),
    /// `I64`
    Fixed64(u64),
    /// `I32`
    Fixed32(u32),
}

/// The fields of a message, with their numbers; ends at the first error.
#[derive(Clone, Debug)]
pub struct Fields<'b>(pub &'b [u8]);

impl<'b> Fields<'b> {
    #[inline]
    fn varint(&mut self) -> Option<u64> {
        // Nearly all tags and lengths have one byte.
        if let [byte @ 0..0x80, rest @ ..] = self.0 {
            self.0 = rest;
            return Some(u64::from(*byte));
        }
        self.long_varint()
    }

    fn long_varint(&mut self) -> Option<u64> {
        let mut number = 0u64;
        for (index, &byte) in self.0.iter().enumerate().take(10) {
            number |= u64::from(byte & 0x7f).checked_shl(7 * index as u32)?;
            if byte & 0x80 == 0 {
                self.0 = &self.0[index + 1..];
                return Some(number);
            }
        }
        None
    }

    #[inline]
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*taken)
    }

    #[inline]
    fn bytes(&mut self, count: u64) -> Option<&'b [u8]> {
        let (taken, rest) = self.0.split_at_checked(usize::try_from(count).ok()?)?;
        self.0 = rest;
        Some(taken)
    }

    #[inline]
    fn field(&mut self) -> Option<(u64, Value<'b>)> {
        let tag = self.varint()?;
        let value = match tag & 7 {
            0 => Value::Number(self.varint()?),
            1 => Value::Fixed64(u64::from_le_bytes(self.array()?)),
            2 => {
                let count = self.varint()?;
                Value::Bytes(self.bytes(count)?)
            }
            5 => Value::Fixed32(u32::from_le_bytes(self.array()?)),
            _ => return None,
        };
        Some((tag >> 3, value))
    }
}

impl<'b> Iterator for Fields<'b> {
    type Item = Result<(u64, Value<'b>), Broken>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_none() {
            self.0 = &[];
        }
        Some(field.ok_or(Broken))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_each_wire_type() {
        let message = [
            &[0x08, 0x96, 0x01][..],
            &[0x11, 1, 0, 0, 0, 0, 0, 0, 0x80],
            &[0x1a, 2, b'a', b'b'],
            &[0x25, 7, 0, 0, 0],
            &[0xfa, 0x7f, 0],
        ]
        .concat();
        let fields: Vec<_> = Fields(&message).map(Result::unwrap).collect();
        let expected = [
            (1, Value::Number(150)),
            (2, Value::Fixed64(1 << 63 | 1)),
            (3, Value::Bytes(b"ab")),
            (4, Value::Fixed32(7)),
            (2047, Value::Bytes(b"")),
        ];
        assert_eq!(fields, expected);
        let longest = [&[0x08][..], &[0xff; 9], &[0x01]].concat();
        assert_eq!(Fields(&longest).next(), Some(Ok((1, Value::Number(u64::MAX)))));
    }

    #[test]
    fn damage_is_an_error_and_ends_the_message() {
        for broken in [
            &[0x08][..],
            &[0x80],
            &[0x08, 0x80],
            &[0x11, 1, 2, 3],
            &[0x1a, 3, b'a', b'b'],
            &[0x1a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01],
            &[0x25, 1],
            &[0x0b],
            &[0x0f],
            &[0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80],
        ] {
            let found: Vec<_> = Fields(broken).collect();
            assert_eq!(found, [Err(Broken)], "{broken:?}");
        }
    }
}
