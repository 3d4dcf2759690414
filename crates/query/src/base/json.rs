//! Writes JSON: what functions and pipes put into one value.
//!
//! Values are bytes: what is not UTF-8 becomes the replacement character (RFC 8259 allows no other
//! text).

use std::io::Write;

use crate::base::{Buffer, Meter, RunError};

/// For a shorter text, room is made for its longest escaped form, without counting the bytes that
/// need an escape.
const TEXT_BYTES_FEW: usize = 1 << 10;

/// Appends a text in quotes.
pub(crate) fn write_text(text: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    for chunk in text.utf8_chunks() {
        let mut rest = chunk.valid().as_bytes();
        while let Some(at) = rest.iter().position(|b| *b < 0x20 || matches!(b, b'"' | b'\\')) {
            out.extend_from_slice(&rest[..at]);
            write_escape(rest[at], out);
            rest = &rest[at + 1..];
        }
        out.extend_from_slice(rest);
        if !chunk.invalid().is_empty() {
            out.extend_from_slice("\u{fffd}".as_bytes());
        }
    }
    out.push(b'"');
}

/// Bytes that [`write_text`] appends for a text.
pub(crate) fn text_bytes(text: &[u8]) -> usize {
    let escaped = |byte: &u8| match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' => 1,
        0..0x20 => 5,
        _ => 0,
    };
    let more: usize = text.iter().map(escaped).sum();
    let invalid = match std::str::from_utf8(text) {
        Ok(_) => 0,
        // Each invalid sequence has at least one byte, and is written as three.
        Err(_) => 2 * text.utf8_chunks().filter(|chunk| !chunk.invalid().is_empty()).count(),
    };
    2 + text.len() + more + invalid
}

/// Appends a text as [`write_text`] does, after counting the memory.
pub(crate) fn put_text(text: &[u8], out: &mut Buffer, meter: &mut Meter) -> Result<(), RunError> {
    let most = match text.len() > TEXT_BYTES_FEW {
        true => text_bytes(text),
        false => 6 * text.len() + 2,
    };
    write_text(text, out.room(most, meter)?);
    Ok(())
}

/// Appends a member as [`write_member`] does, after counting the memory.
pub(crate) fn put_member(
    name: &str,
    value: &[u8],
    out: &mut Buffer,
    meter: &mut Meter,
) -> Result<(), RunError> {
    let out = match name.len() + value.len() > TEXT_BYTES_FEW {
        true => out.room(text_bytes(name.as_bytes()) + text_bytes(value) + 2, meter)?,
        false => out.room(6 * (name.len() + value.len()) + 6, meter)?,
    };
    write_member(name, value, out);
    Ok(())
}

fn write_escape(byte: u8, out: &mut Vec<u8>) {
    let short = match byte {
        b'"' | b'\\' => byte,
        b'\n' => b'n',
        b'\r' => b'r',
        b'\t' => b't',
        _ => return write!(out, "\\u{byte:04x}").expect("writing to memory"),
    };
    out.extend_from_slice(&[b'\\', short]);
}

/// Appends a member of an object behind the others, or behind its `{`.
pub(crate) fn write_member(name: &str, value: &[u8], out: &mut Vec<u8>) {
    if out.last() != Some(&b'{') {
        out.push(b',');
    }
    write_text(name.as_bytes(), out);
    out.push(b':');
    write_text(value, out);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts() {
        let check = |text: &[u8], expected: &str| {
            let mut out = Vec::new();
            write_text(text, &mut out);
            assert!((out.len()..=out.len() + 2 * text.len()).contains(&text_bytes(text)));
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        };
        check(b"", r#""""#);
        check("a \u{e9}".as_bytes(), "\"a \u{e9}\"");
        check(b"\"\\\n\r\t\x01\x7f", "\"\\\"\\\\\\n\\r\\t\\u0001\x7f\"");
        check(b"a\xff\xfe\"b", "\"a\u{fffd}\u{fffd}\\\"b\"");
    }
}
