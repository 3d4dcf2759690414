//! Reads quoted texts inside values, as Go and JSON write them.

/// Appends the content of the quoted text at the beginning of `text`, and returns its length in
/// bytes with the quotes. None if `text` does not begin with a quoted text of Go or JSON.
pub fn unquote(text: &[u8], out: &mut Vec<u8>) -> Option<usize> {
    let quote = *text.first().filter(|b| matches!(b, b'"' | b'\'' | b'`'))?;
    let mut at = 1;
    loop {
        let byte = *text.get(at)?;
        at += 1;
        if byte == quote {
            return Some(at);
        }
        if byte != b'\\' || quote == b'`' {
            out.push(byte);
            continue;
        }
        let escape = *text.get(at)?;
        at += 1;
        match escape {
            b'n' => out.push(b'\n'),
            b't' => out.push(b'\t'),
            b'r' => out.push(b'\r'),
            b'b' => out.push(8),
            b'f' => out.push(12),
            b'a' => out.push(7),
            b'v' => out.push(11),
            b'\\' | b'/' | b'"' | b'\'' | b'`' => out.push(escape),
            b'x' => {
                out.push(hex(text, at, 2)? as u8);
                at += 2;
            }
            b'u' => {
                let unit = hex(text, at, 4)?;
                at += 4;
                // A character beyond 16 bits is written as two halves.
                let low =
                    (text.get(at..at + 2) == Some(b"\\u")).then(|| hex(text, at + 2, 4)).flatten();
                let code = match (unit, low) {
                    (0xd800..0xdc00, Some(low @ 0xdc00..0xe000)) => {
                        at += 6;
                        0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00)
                    }
                    _ => unit,
                };
                let character = char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER);
                out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
            }
            _ => return None,
        }
    }
}

fn hex(text: &[u8], at: usize, digits: usize) -> Option<u32> {
    let text = text.get(at..at + digits)?;
    let valid = text.iter().all(u8::is_ascii_hexdigit);
    valid.then(|| u32::from_str_radix(std::str::from_utf8(text).ok()?, 16).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_texts() {
        let check = |text: &str, expected: Option<(&str, usize)>| {
            let mut out = b"before ".to_vec();
            let length = unquote(text.as_bytes(), &mut out);
            let found =
                length.map(|length| (String::from_utf8(out[7..].to_vec()).unwrap(), length));
            assert_eq!(found, expected.map(|(says, length)| (says.to_owned(), length)), "{text}");
        };
        check(r#""a b" c"#, Some(("a b", 5)));
        check(r#"'it"s'"#, Some(("it\"s", 6)));
        check(r"`a\n`", Some(("a\\n", 5)));
        check(r#""\n\t\r\b\f\a\v\\\/\"\'\x41""#, Some(("\n\t\r\u{8}\u{c}\u{7}\u{b}\\/\"'A", 28)));
        check(r#""\u00e9\ud83d\ude00\ud83d""#, Some(("\u{e9}\u{1f600}\u{fffd}", 26)));
        for none in ["", "a", "\"a", r#""a\"#, r#""\d""#, r#""\u12""#, r#""\xg0""#] {
            check(none, None);
        }
    }
}
