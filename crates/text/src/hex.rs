//! Bytes as pairs of hexadecimal digits.

/// Both hexadecimal digits of a byte, capital letters.
pub fn digits(byte: u8) -> [u8; 2] {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]
}

/// The number that digits alone make, up to eight of them; none for signs and other text.
pub fn number(digits: &[u8]) -> Option<u32> {
    if digits.is_empty() || digits.len() > 8 {
        return None;
    }
    digits.iter().try_fold(0, |number, digit| Some(number << 4 | char::from(*digit).to_digit(16)?))
}

/// The byte of two digits.
pub fn byte(digits: &[u8]) -> Option<u8> {
    number(digits).filter(|_| digits.len() == 2).map(|number| number as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_and_digits() {
        for value in 0..=u8::MAX {
            assert_eq!(byte(&digits(value)), Some(value));
            assert_eq!(byte(&digits(value).map(|digit| digit.to_ascii_lowercase())), Some(value));
        }
        assert_eq!(number(b"fFfFfFfF"), Some(u32::MAX));
        for wrong in [&b""[..], b"+f", b"0x", b"g", b"123456789"] {
            assert_eq!(number(wrong), None);
        }
        assert_eq!((byte(b"1"), byte(b"123")), (None, None));
    }
}
