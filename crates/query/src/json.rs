//! Writes JSON: what functions and pipes put into one value.
//!
//! Values are bytes: what is not UTF-8 becomes the replacement character (RFC 8259 knows no other text).

use std::io::Write;

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
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        };
        check(b"", r#""""#);
        check("a \u{e9}".as_bytes(), "\"a \u{e9}\"");
        check(b"\"\\\n\r\t\x01\x7f", "\"\\\"\\\\\\n\\r\\t\\u0001\x7f\"");
        check(b"a\xff\xfe\"b", "\"a\u{fffd}\u{fffd}\\\"b\"");
    }
}
