//! The part of BER (X.690) that LDAP uses: definite lengths, and tags of one byte (RFC 4511, 5.1).
//!
//! The reader hands out slices of a message and never descends by itself, so a message can nest as
//! deeply as it likes.

/// The tag of a truth value.
pub const BOOLEAN: u8 = 0x01;
/// The tag of a number.
pub const INTEGER: u8 = 0x02;
/// The tag of bytes.
pub const OCTETS: u8 = 0x04;
/// The tag of one of several values.
pub const ENUMERATED: u8 = 0x0a;
/// The tag of elements in order.
pub const SEQUENCE: u8 = 0x30;
/// The tag of elements in no order.
pub const SET: u8 = 0x31;

/// Bytes of the longest length that is read, without the byte that counts them.
pub const LENGTH_BYTES_MAX: usize = 4;

/// An element: tag, length, content.
pub fn element(tag: u8, content: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(content.len() + 6);
    bytes.push(tag);
    match u8::try_from(content.len()) {
        Ok(short) if short < 0x80 => bytes.push(short),
        _ => {
            let length = u32::try_from(content.len()).expect("a request is short").to_be_bytes();
            let skipped = length.iter().take_while(|&&byte| byte == 0).count();
            bytes.push(0x80 | (length.len() - skipped) as u8);
            bytes.extend(&length[skipped..]);
        }
    }
    bytes.extend(content);
    bytes
}

/// A number, as an `INTEGER` or an `ENUMERATED`.
pub fn number(tag: u8, value: i32) -> Vec<u8> {
    let bytes = value.to_be_bytes();
    // The first byte that is needed: a sign that the next byte shows as well is left out.
    let sign = if value < 0 { 0xff } else { 0 };
    let is_needed = |at: usize| bytes[at] != sign || (bytes[at + 1] & 0x80) != (sign & 0x80);
    let first = (0..3).find(|&at| is_needed(at)).unwrap_or(3);
    element(tag, &bytes[first..])
}

/// The length that the first byte behind a tag gives, or how many further bytes give it.
pub enum Length {
    /// The length of the content in bytes.
    Known(usize),
    /// So many bytes follow, which [`length_of`] reads.
    Follows(usize),
}

/// Reads the first byte of a length; none if it is indefinite or too long.
pub fn length(first: u8) -> Option<Length> {
    match usize::from(first) {
        short @ 0..0x80 => Some(Length::Known(short)),
        long => {
            let bytes = long & 0x7f;
            (1..=LENGTH_BYTES_MAX).contains(&bytes).then_some(Length::Follows(bytes))
        }
    }
}

/// The length of which these are the bytes.
pub fn length_of(bytes: &[u8]) -> usize {
    bytes.iter().fold(0, |length, &byte| length << 8 | usize::from(byte))
}

/// Elements, one after the other.
pub struct Reader<'a>(pub &'a [u8]);

/// Tags and contents of elements, up to the end, or to the first one that is damaged.
impl<'a> Iterator for Reader<'a> {
    type Item = (u8, &'a [u8]);

    fn next(&mut self) -> Option<(u8, &'a [u8])> {
        let (&tag, rest) = self.0.split_first()?;
        let (&first, rest) = rest.split_first()?;
        let (length, rest) = match length(first)? {
            Length::Known(length) => (length, rest),
            Length::Follows(bytes) => {
                let (bytes, rest) = rest.split_at_checked(bytes)?;
                (length_of(bytes), rest)
            }
        };
        let (content, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some((tag, content))
    }
}

impl<'a> Reader<'a> {
    /// The content of the next element if it has that tag.
    pub fn of(&mut self, tag: u8) -> Option<&'a [u8]> {
        let mut ahead = Reader(self.0);
        let (found, content) = ahead.next()?;
        if found != tag {
            return None;
        }
        self.0 = ahead.0;
        Some(content)
    }

    /// The next element as text; bytes that are no UTF-8 are replaced.
    pub fn text(&mut self) -> Option<String> {
        self.of(OCTETS).map(|bytes| String::from_utf8_lossy(bytes).into_owned())
    }

    /// The next element as a number.
    pub fn number(&mut self, tag: u8) -> Option<i32> {
        let bytes = self.of(tag)?;
        let first = *bytes.first()?;
        let sign = if first & 0x80 == 0 { 0 } else { -1 };
        (bytes.len() <= 4).then(|| bytes.iter().fold(sign, |n, &byte| n << 8 | i32::from(byte)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lengths_and_numbers() {
        for length in [0, 1, 127, 128, 255, 256, 65_535, 65_536] {
            let content = vec![7; length];
            let bytes = element(OCTETS, &content);
            let mut reader = Reader(&bytes);
            assert_eq!(reader.next(), Some((OCTETS, &content[..])), "{length}");
            assert!(reader.0.is_empty());
            for cut in [0, 1, bytes.len() - 1] {
                assert_eq!(Reader(&bytes[..cut.min(bytes.len() - 1)]).next(), None, "{length}");
            }
        }
        for (value, content) in [
            (0, &[0u8][..]),
            (127, &[127]),
            (128, &[0, 128]),
            (-1, &[255]),
            (-128, &[128]),
            (-129, &[255, 127]),
            (i32::MAX, &[127, 255, 255, 255]),
            (i32::MIN, &[128, 0, 0, 0]),
        ] {
            let bytes = number(INTEGER, value);
            assert_eq!(&bytes[2..], content, "{value}");
            assert_eq!(Reader(&bytes).number(INTEGER), Some(value));
        }
        // An indefinite length, one of too many bytes, and one beyond the end.
        for damaged in
            [&[4, 0x80, 0, 0][..], &[4, 0x85, 0, 0, 0, 0, 0], &[4, 0x84, 255, 255, 255, 255]]
        {
            assert_eq!(Reader(damaged).next(), None);
        }
        assert_eq!(Reader(&[2, 0]).number(INTEGER), None);
        assert_eq!(Reader(&[2, 5, 0, 0, 0, 0, 1]).number(INTEGER), None);
    }

    proptest! {
        #[test]
        fn nothing_panics(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            for (_, content) in Reader(&bytes) {
                Reader(content).number(INTEGER);
                Reader(content).text();
            }
        }
    }
}
