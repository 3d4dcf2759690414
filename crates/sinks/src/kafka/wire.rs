//! Primitive types of Kafka's protocol, as they are before its "flexible" versions: big-endian
//! integers, texts and byte strings behind their length, arrays behind their count.

/// Appends values to a request.
#[derive(Debug, Default)]
pub struct Writer(pub Vec<u8>);

impl Writer {
    pub fn i8(&mut self, value: i8) -> &mut Writer {
        self.raw(&value.to_be_bytes())
    }

    pub fn i16(&mut self, value: i16) -> &mut Writer {
        self.raw(&value.to_be_bytes())
    }

    pub fn i32(&mut self, value: i32) -> &mut Writer {
        self.raw(&value.to_be_bytes())
    }

    pub fn i64(&mut self, value: i64) -> &mut Writer {
        self.raw(&value.to_be_bytes())
    }

    /// The length of an array or a byte string.
    pub fn length(&mut self, length: usize) -> &mut Writer {
        self.i32(i32::try_from(length).expect("requests are far smaller than 2 GiB"))
    }

    pub fn text(&mut self, text: &str) -> &mut Writer {
        self.i16(i16::try_from(text.len()).expect("names were checked with the configuration"));
        self.raw(text.as_bytes())
    }

    pub fn bytes(&mut self, bytes: &[u8]) -> &mut Writer {
        self.length(bytes.len()).raw(bytes)
    }

    /// A signed integer of variable length: small absolute values take few bytes.
    pub fn varint(&mut self, value: i64) -> &mut Writer {
        let mut rest = ((value << 1) ^ (value >> 63)) as u64;
        while rest >= 0x80 {
            self.0.push(rest as u8 | 0x80);
            rest >>= 7;
        }
        self.0.push(rest as u8);
        self
    }

    pub fn raw(&mut self, bytes: &[u8]) -> &mut Writer {
        self.0.extend_from_slice(bytes);
        self
    }
}

/// Takes values from the start of a response.
#[derive(Debug)]
pub struct Reader<'a>(pub &'a [u8]);

/// A response ends too early or holds an impossible value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Damaged;

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], Damaged> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(Damaged)?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Damaged> {
        self.take(N)?.try_into().map_err(|_| Damaged)
    }

    pub fn i8(&mut self) -> Result<i8, Damaged> {
        Ok(i8::from_be_bytes(self.array()?))
    }

    pub fn i16(&mut self) -> Result<i16, Damaged> {
        Ok(i16::from_be_bytes(self.array()?))
    }

    pub fn i32(&mut self) -> Result<i32, Damaged> {
        Ok(i32::from_be_bytes(self.array()?))
    }

    pub fn i64(&mut self) -> Result<i64, Damaged> {
        Ok(i64::from_be_bytes(self.array()?))
    }

    /// A text; an absent one is empty.
    pub fn text(&mut self) -> Result<String, Damaged> {
        let length = usize::try_from(self.i16()?).unwrap_or(0);
        Ok(String::from_utf8_lossy(self.take(length)?).into_owned())
    }

    /// A byte string; an absent one is empty.
    pub fn bytes(&mut self) -> Result<&'a [u8], Damaged> {
        let length = usize::try_from(self.i32()?).unwrap_or(0);
        self.take(length)
    }

    /// An array; an absent one is empty. Its announced count reserves no memory.
    pub fn list<T>(
        &mut self,
        mut item: impl FnMut(&mut Reader<'a>) -> Result<T, Damaged>,
    ) -> Result<Vec<T>, Damaged> {
        let count = self.i32()?;
        (0..count).map(|_| item(self)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_of_variable_length() {
        for (value, expected) in [
            (0, vec![0]),
            (-1, vec![1]),
            (1, vec![2]),
            (63, vec![0x7e]),
            (-64, vec![0x7f]),
            (64, vec![0x80, 0x01]),
            (300, vec![0xd8, 0x04]),
            (i64::MIN, vec![0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01]),
        ] {
            let mut writer = Writer::default();
            writer.varint(value);
            assert_eq!(writer.0, expected, "{value}");
        }
    }

    #[test]
    fn damaged_responses_are_errors() {
        assert_eq!(Reader(&[0, 5, b'a']).text(), Err(Damaged));
        assert_eq!(Reader(&[0xff, 0xff]).text(), Ok(String::new()));
        assert_eq!(Reader(&[0x7f, 0xff, 0xff, 0xff, 0]).list(Reader::i8), Err(Damaged));
        assert_eq!(Reader(&[0xff, 0xff, 0xff, 0xff]).list(Reader::i8), Ok(Vec::new()));
        assert_eq!(Reader(&[0, 0, 0, 9, 1]).bytes(), Err(Damaged));
    }
}
