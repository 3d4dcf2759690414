//! Reads integers and byte strings of the sections, with every bound checked.

use super::CodecError;
pub(super) use crate::varint::put_varint;

/// Reads a section from beginning to end.
pub(super) struct Reader<'a> {
    section: &'static str,
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    pub fn new(section: &'static str, bytes: &'a [u8]) -> Self {
        Reader { section, bytes, at: 0 }
    }

    pub fn byte(&mut self) -> Result<u8, CodecError> {
        let Some(&byte) = self.bytes.get(self.at) else { return Err(self.damaged("ends early")) };
        self.at += 1;
        Ok(byte)
    }

    #[inline]
    pub fn varint(&mut self) -> Result<u64, CodecError> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                break;
            }
            value |= bits << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(self.damaged("a number of more than 64 bits"))
    }

    /// A varint that counts or indexes one of at most `max` items.
    pub fn count(&mut self, max: usize) -> Result<usize, CodecError> {
        let value = self.varint()?;
        match usize::try_from(value) {
            Ok(count) if count <= max => Ok(count),
            _ => Err(self.damaged("a count beyond its limit")),
        }
    }

    pub fn take(&mut self, count: usize) -> Result<&'a [u8], CodecError> {
        let rest = &self.bytes[self.at..];
        let Some(taken) = rest.get(..count) else { return Err(self.damaged("ends early")) };
        self.at += count;
        Ok(taken)
    }

    /// A length, and as many bytes.
    pub fn string(&mut self) -> Result<&'a [u8], CodecError> {
        let count = self.count(self.bytes.len())?;
        self.take(count)
    }

    /// Fails if bytes are left over.
    pub fn finish(&self) -> Result<(), CodecError> {
        if self.at == self.bytes.len() { Ok(()) } else { Err(self.damaged("bytes left over")) }
    }

    pub fn damaged(&self, problem: &'static str) -> CodecError {
        CodecError { section: self.section, at: self.at, problem }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::varint::{unzigzag, zigzag};

    #[test]
    fn numbers_come_back() {
        for value in [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX - 1, u64::MAX] {
            let mut bytes = Vec::new();
            put_varint(&mut bytes, value);
            let mut reader = Reader::new("test", &bytes);
            assert_eq!(reader.varint().unwrap(), value);
            reader.finish().unwrap();
            assert!(Reader::new("test", &bytes[..bytes.len() - 1]).varint().is_err());
            assert_eq!(unzigzag(zigzag(value as i64)) as u64, value);
        }
        assert!(Reader::new("test", &[0xff; 10]).varint().is_err());
        assert_eq!(zigzag(-1), 1);
    }
}
