//! Numbers and byte strings, written back to back and read with every bound checked.

pub(crate) use crate::varint::put_varint;
use crate::varint::{unzigzag, zigzag};

/// Data that passed its checksum but is invalid; the text names the invalid part. The cause is a
/// bug in the writer, or faulty memory when it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Corrupt(pub(crate) &'static str);

pub(crate) type Read<T> = Result<T, Corrupt>;

/// Appends a signed number, short for small numbers of either sign.
#[inline]
pub(crate) fn put_signed(out: &mut Vec<u8>, value: i64) {
    put_varint(out, zigzag(value));
}

/// Appends a length and the bytes.
pub(crate) fn put_piece(out: &mut Vec<u8>, piece: &[u8]) {
    put_varint(out, piece.len() as u64);
    out.extend_from_slice(piece);
}

/// Reads such data from front to back.
#[derive(Clone, Debug)]
pub(crate) struct Cursor<'a> {
    bytes: &'a [u8],
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Cursor { bytes }
    }

    /// Bytes not read yet.
    pub(crate) fn left(&self) -> usize {
        self.bytes.len()
    }

    /// The remaining bytes; does not consume them.
    #[inline]
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.bytes
    }

    /// The next bytes; does not consume them. `None` when there are fewer.
    #[inline]
    pub(crate) fn peek<const N: usize>(&self) -> Option<[u8; N]> {
        self.bytes.first_chunk().copied()
    }

    pub(crate) fn u8(&mut self) -> Read<u8> {
        Ok(self.take(1)?[0])
    }

    #[inline]
    pub(crate) fn varint(&mut self) -> Read<u64> {
        if let [low @ 0..0x80, rest @ ..] = self.bytes {
            self.bytes = rest;
            return Ok(u64::from(*low));
        }
        self.long_varint()
    }

    #[inline(never)]
    fn long_varint(&mut self) -> Read<u64> {
        let (mut value, mut shift) = (0u64, 0);
        for (index, &byte) in self.bytes.iter().enumerate().take(10) {
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                self.bytes = &self.bytes[index + 1..];
                return Ok(value);
            }
            shift += 7;
        }
        Err(Corrupt("a number"))
    }

    /// As [`signed`](Self::signed), for numbers of which some have one byte and others several:
    /// does not branch by their length.
    #[inline]
    pub(crate) fn mixed_signed(&mut self) -> Read<i64> {
        const LOW: u64 = 0x7f7f_7f7f_7f7f_7f7f;
        let Some(bytes) = self.peek::<8>() else { return self.signed() };
        let word = u64::from_le_bytes(bytes);
        let ends = !word & !LOW;
        if ends == 0 {
            return self.signed();
        }
        // The bytes up to the first one without a continuation bit.
        let used = ends.trailing_zeros() / 8 + 1;
        let word = word & LOW & (u64::MAX >> (64 - 8 * used));
        // Joins groups of 7 bits to such of 14, 28 and 56.
        let word = word & 0x007f_007f_007f_007f | (word & 0x7f00_7f00_7f00_7f00) >> 1;
        let word = word & 0x0000_3fff_0000_3fff | (word & 0x3fff_0000_3fff_0000) >> 2;
        let word = word & 0x0fff_ffff | (word & 0x0fff_ffff_0000_0000) >> 4;
        self.bytes = &self.bytes[used as usize..];
        Ok(unzigzag(word))
    }

    #[inline]
    pub(crate) fn signed(&mut self) -> Read<i64> {
        self.varint().map(unzigzag)
    }

    /// A count, at most `max`.
    pub(crate) fn count(&mut self, max: usize) -> Read<usize> {
        let count = self.varint()?;
        if count > max as u64 {
            return Err(Corrupt("a count"));
        }
        Ok(count as usize)
    }

    pub(crate) fn take(&mut self, bytes: usize) -> Read<&'a [u8]> {
        let Some((taken, rest)) = self.bytes.split_at_checked(bytes) else {
            return Err(Corrupt("a length"));
        };
        self.bytes = rest;
        Ok(taken)
    }

    pub(crate) fn piece(&mut self) -> Read<&'a [u8]> {
        let bytes = self.count(self.bytes.len())?;
        self.take(bytes)
    }

    pub(crate) fn text(&mut self) -> Read<&'a str> {
        std::str::from_utf8(self.piece()?).map_err(|_| Corrupt("a text"))
    }

    /// Fails unless everything is read.
    pub(crate) fn end(&self) -> Read<()> {
        if self.bytes.is_empty() { Ok(()) } else { Err(Corrupt("the end")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back() {
        let mut out = Vec::new();
        let numbers = [0, 1, -1, 63, 64, -64, -65, i64::MAX, i64::MIN, 1 << 40];
        for number in numbers {
            put_signed(&mut out, number);
            put_varint(&mut out, number as u64);
        }
        let mut cursor = Cursor::new(&out);
        for number in numbers {
            assert_eq!(cursor.signed(), Ok(number));
            assert_eq!(cursor.varint(), Ok(number as u64));
        }
        cursor.end().unwrap();
        assert_eq!(cursor.varint(), Err(Corrupt("a number")));
        let mut out = Vec::new();
        let lengths = (0..64)
            .flat_map(|bits| [1i64 << bits, (-1i64) << bits, (1i64 << bits).wrapping_sub(1)]);
        lengths.clone().for_each(|number| put_signed(&mut out, number));
        let mut cursor = Cursor::new(&out);
        lengths.for_each(|number| assert_eq!(cursor.mixed_signed(), Ok(number)));
        cursor.end().unwrap();
        assert_eq!(cursor.mixed_signed(), Err(Corrupt("a number")));
        assert_eq!(Cursor::new(&[0xff; 11]).varint(), Err(Corrupt("a number")));
    }

    #[test]
    fn pieces_are_bounded() {
        let mut out = Vec::new();
        put_piece(&mut out, b"abc");
        assert_eq!(Cursor::new(&out).piece(), Ok(&b"abc"[..]));
        assert_eq!(Cursor::new(&out[..3]).piece(), Err(Corrupt("a length")));
        assert_eq!(Cursor::new(&out).count(2), Err(Corrupt("a count")));
    }
}
