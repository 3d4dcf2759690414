//! Texts in JSON: written with escapes, and their escapes removed.
//!
//! Values are bytes: what is not UTF-8 becomes the replacement character (RFC 8259 knows no other
//! text).

use crate::hex;

/// Appends a text in quotes.
pub fn write_text(text: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    match std::str::from_utf8(text) {
        Ok(_) => write_valid(text, out),
        Err(_) => text.utf8_chunks().for_each(|chunk| {
            write_valid(chunk.valid().as_bytes(), out);
            if !chunk.invalid().is_empty() {
                out.extend_from_slice("\u{fffd}".as_bytes());
            }
        }),
    }
    out.push(b'"');
}

fn write_valid(mut rest: &[u8], out: &mut Vec<u8>) {
    while let Some(at) = first_escape(rest) {
        out.extend_from_slice(&rest[..at]);
        match short_escape(rest[at]) {
            Some(letter) => out.extend_from_slice(&[b'\\', letter]),
            None => {
                let [high, low] = hex::digits(rest[at]).map(|digit| digit.to_ascii_lowercase());
                out.extend_from_slice(&[b'\\', b'u', b'0', b'0', high, low]);
            }
        }
        rest = &rest[at + 1..];
    }
    out.extend_from_slice(rest);
}

/// Bytes that [`write_text`] appends for a text.
pub fn text_bytes(text: &[u8]) -> usize {
    let more = |byte: &u8| match needs_escape(*byte) {
        true if short_escape(*byte).is_some() => 1,
        true => 5,
        false => 0,
    };
    let escapes: usize = text.iter().map(more).sum();
    let invalid = match std::str::from_utf8(text) {
        Ok(_) => 0,
        // Each sequence that is not valid has one byte at least, and becomes three.
        Err(_) => 2 * text.utf8_chunks().filter(|chunk| !chunk.invalid().is_empty()).count(),
    };
    2 + text.len() + escapes + invalid
}

/// The first byte that needs an escape.
fn first_escape(text: &[u8]) -> Option<usize> {
    const BLOCK_BYTES: usize = 32;
    // Without branches in a block, so that it is vectorised.
    let is_clean = |block: &&[u8]| !block.iter().fold(false, |any, b| any | needs_escape(*b));
    let clean = BLOCK_BYTES * text.chunks_exact(BLOCK_BYTES).take_while(is_clean).count();
    text[clean..].iter().position(|byte| needs_escape(*byte)).map(|at| clean + at)
}

fn needs_escape(byte: u8) -> bool {
    (byte < 0x20) | (byte == b'"') | (byte == b'\\')
}

/// The letter of an escape of two characters.
fn short_escape(byte: u8) -> Option<u8> {
    Some(match byte {
        b'"' | b'\\' => byte,
        b'\n' => b'n',
        b'\r' => b'r',
        b'\t' => b't',
        8 => b'b',
        12 => b'f',
        _ => return None,
    })
}

/// Length of the escape at the start; none if it is invalid.
#[inline]
pub fn escape_bytes(text: &[u8]) -> Option<usize> {
    match text.get(1)? {
        b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => Some(2),
        b'u' => text.get(2..6)?.iter().all(u8::is_ascii_hexdigit).then_some(6),
        _ => None,
    }
}

/// Appends a string without its escapes; an invalid escape stays as it is. Returns whether half a
/// surrogate pair became U+FFFD.
pub fn unescape(text: &[u8], out: &mut Vec<u8>) -> bool {
    let mut halves = false;
    let mut rest = text;
    while let Some(at) = memchr::memchr(b'\\', rest) {
        out.extend_from_slice(&rest[..at]);
        rest = &rest[at..];
        let Some(length) = escape_bytes(rest) else {
            out.push(b'\\');
            rest = &rest[1..];
            continue;
        };
        match rest[1] {
            b'b' => out.push(8),
            b'f' => out.push(12),
            b'n' => out.push(b'\n'),
            b'r' => out.push(b'\r'),
            b't' => out.push(b'\t'),
            b'u' => {
                let (character, digits) = unicode(&rest[2..]).expect("four digits were seen");
                halves |= character == char::REPLACEMENT_CHARACTER
                    && !rest[2..6].eq_ignore_ascii_case(b"fffd");
                out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
                rest = &rest[2 + digits..];
                continue;
            }
            other => out.push(other),
        }
        rest = &rest[length..];
    }
    out.extend_from_slice(rest);
    halves
}

/// The character of the four hexadecimal digits at the start, or of eight as a pair `dddd\udddd`,
/// and the bytes consumed; half a pair gives U+FFFD. None without four digits.
pub(crate) fn unicode(text: &[u8]) -> Option<(char, usize)> {
    let unit = |at: usize| hex::number(text.get(at..at + 4)?);
    let first = unit(0)?;
    if let Some(character) = char::from_u32(first) {
        return Some((character, 4));
    }
    if first < 0xdc00
        && text[4..].starts_with(b"\\u")
        && let Some(second @ 0xdc00..0xe000) = unit(6)
    {
        let point = 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00);
        return Some((char::from_u32(point).expect("pairs are valid"), 10));
    }
    Some((char::REPLACEMENT_CHARACTER, 4))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn written(text: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        write_text(text, &mut out);
        out
    }

    #[test]
    fn texts() {
        let check = |text: &[u8], expected: &str| {
            let out = written(text);
            assert!((out.len()..=out.len() + 2 * text.len()).contains(&text_bytes(text)));
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        };
        check(b"", r#""""#);
        check("a \u{e9}".as_bytes(), "\"a \u{e9}\"");
        check(b"\"\\\n\r\t\x08\x0c\x01\x7f", "\"\\\"\\\\\\n\\r\\t\\b\\f\\u0001\x7f\"");
        check(b"a\xff\xfe\"b", "\"a\u{fffd}\u{fffd}\\\"b\"");
    }

    #[test]
    fn escapes() {
        for (text, expected, halves) in [
            (r"a\nb", "a\nb", false),
            (r#"\"\\\/\b\f\n\r\t"#, "\"\\/\u{8}\u{c}\n\r\t", false),
            (r"\u00e9\ud83d\ude00!", "é😀!", false),
            (r"\ud83d", "\u{fffd}", true),
            (r"\ud83dx", "\u{fffd}x", true),
            (r"\ud83d\u0041", "\u{fffd}A", true),
            (r"\ude00\ud83d", "\u{fffd}\u{fffd}", true),
            (r"\ufffd", "\u{fffd}", false),
            (r"\x\u12", r"\x\u12", false),
        ] {
            let mut out = Vec::new();
            assert_eq!(unescape(text.as_bytes(), &mut out), halves, "{text}");
            assert_eq!(String::from_utf8(out).unwrap(), expected, "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_as_the_same(text in "(\\PC|[\\x00-\\x7f]|[a-z]{20}){0,30}") {
            let out = written(text.as_bytes());
            prop_assert_eq!(out.len(), text_bytes(text.as_bytes()));
            let mut read = Vec::new();
            prop_assert!(!unescape(&out[1..out.len() - 1], &mut read));
            prop_assert_eq!(String::from_utf8(read).unwrap(), text);
        }
    }
}
