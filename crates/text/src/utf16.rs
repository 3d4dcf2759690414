//! UTF-16 with a byte order mark, as programs of Windows write files, to UTF-8.

/// The order of the bytes of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Low byte first.
    Little,
    /// High byte first.
    Big,
}

/// Bytes of the byte order mark.
pub const MARK_BYTES: usize = 2;

impl Order {
    /// The order in a text that begins with these bytes; `None` if it is not UTF-16. UTF-32 begins
    /// as UTF-16 does, with a NUL behind it, which no text has.
    pub fn of(start: &[u8]) -> Option<Order> {
        match start {
            [0xff, 0xfe, 0, 0, ..] => None,
            [0xff, 0xfe, ..] => Some(Order::Little),
            [0xfe, 0xff, ..] => Some(Order::Big),
            _ => None,
        }
    }

    /// The unit in two bytes.
    pub fn unit(self, bytes: [u8; 2]) -> u16 {
        match self {
            Order::Little => u16::from_le_bytes(bytes),
            Order::Big => u16::from_be_bytes(bytes),
        }
    }

    /// Appends the text in `bytes`, without a mark. Returns how many bytes it took: an odd last
    /// byte is left, and a last unit that is the first half of a character, unless `is_end`. Half a
    /// character becomes U+FFFD.
    pub fn decode(self, bytes: &[u8], is_end: bool, out: &mut Vec<u8>) -> usize {
        let mut units: Vec<u16> =
            bytes.chunks_exact(2).map(|pair| self.unit([pair[0], pair[1]])).collect();
        if !is_end && units.last().is_some_and(|unit| (0xd800..0xdc00).contains(unit)) {
            units.pop();
        }
        let mut buffer = [0; 4];
        for char in char::decode_utf16(units.iter().copied()) {
            let char = char.unwrap_or(char::REPLACEMENT_CHARACTER);
            out.extend_from_slice(char.encode_utf8(&mut buffer).as_bytes());
        }
        2 * units.len()
    }
}

/// The number of units that a text has in UTF-16. A part of UTF-8 counts the characters that begin
/// in it.
pub fn units(text: &[u8]) -> usize {
    let begins = |byte: &&u8| **byte & 0xc0 != 0x80;
    text.iter().filter(begins).map(|byte| 1 + usize::from(*byte >= 0xf0)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(order: Order, text: &str) -> Vec<u8> {
        let bytes = |unit: u16| match order {
            Order::Little => unit.to_le_bytes(),
            Order::Big => unit.to_be_bytes(),
        };
        text.encode_utf16().flat_map(bytes).collect()
    }

    #[test]
    fn texts_come_back_in_pieces_of_any_size() {
        let text = "a line\r\nä \u{4e00}\n\u{1f600}\u{10ffff}";
        for order in [Order::Little, Order::Big] {
            let bytes = encoded(order, text);
            for piece_bytes in 1..=bytes.len() {
                let (mut out, mut held) = (Vec::new(), Vec::new());
                for piece in bytes.chunks(piece_bytes) {
                    held.extend_from_slice(piece);
                    let taken = order.decode(&held, false, &mut out);
                    held.drain(..taken);
                }
                assert_eq!((String::from_utf8(out).unwrap().as_str(), held.len()), (text, 0));
            }
            assert_eq!(2 * units(text.as_bytes()), bytes.len());
        }
    }

    #[test]
    fn halves_of_characters_are_replaced() {
        for (bytes, expected) in [
            (&b"\x3d\xd8"[..], "\u{fffd}"),
            (b"\x3d\xd8a\0", "\u{fffd}a"),
            (b"\x00\xdea\0", "\u{fffd}a"),
            (b"a\0b", "a"),
        ] {
            let mut out = Vec::new();
            assert_eq!(Order::Little.decode(bytes, true, &mut out), bytes.len() & !1);
            assert_eq!(String::from_utf8(out).unwrap(), expected);
            assert_eq!(2 * units(expected.as_bytes()), bytes.len() & !1);
        }
    }

    #[test]
    fn the_mark_decides() {
        assert_eq!(Order::of(b"\xff\xfea\0"), Some(Order::Little));
        assert_eq!(Order::of(b"\xfe\xff\0a"), Some(Order::Big));
        for other in [&b""[..], b"\xff", b"\xff\xfe\0\0a", b"\xef\xbb\xbfa", b"a\0"] {
            assert_eq!(Order::of(other), None);
        }
    }
}
