//! Texts in quotes with the escapes of Go, as queries, templates and logfmt have them.
//!
//! Backticks take everything as it stands; between `"` and between `'`, a backslash begins an
//! escape. A [`Dialect`] says what a place accepts beyond the escapes of Go.

use crate::{hex, json};

/// Which escapes there are besides those of Go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// Those of Go alone: texts of queries and templates.
    Go,
    /// Those of JSON too, for values in lines: `\/`, pairs of `\ud83d\ude00`, and U+FFFD for half a
    /// pair.
    GoOrJson,
}

/// Why a text in quotes cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Where the escape begins; 0 if the quotes do not end.
    pub at: usize,
    /// What is wrong.
    pub what: What,
}

/// What is wrong with a text in quotes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// There is no quote at the start.
    NoQuote,
    /// The quote does not end.
    Open,
    /// There is no such escape.
    Escape,
    /// The escape needs so many hexadecimal digits.
    Digits(usize),
    /// The escape names no character.
    Character,
}

/// Appends what the text in quotes at the start of `text` says; returns the bytes that it takes
/// with its quotes. After an error, a part of it may have been appended.
pub fn unquote(text: &[u8], dialect: Dialect, out: &mut Vec<u8>) -> Result<usize, Fault> {
    let quote = *text
        .first()
        .filter(|byte| matches!(byte, b'"' | b'\'' | b'`'))
        .ok_or(Fault { at: 0, what: What::NoQuote })?;
    let mut at = 1;
    loop {
        let rest = &text[at..];
        let found = match quote {
            b'`' => memchr::memchr(quote, rest),
            quote => memchr::memchr2(quote, b'\\', rest),
        };
        let found = found.ok_or(Fault { at: 0, what: What::Open })?;
        out.extend_from_slice(&rest[..found]);
        at += found;
        if text[at] == quote {
            return Ok(at + 1);
        }
        at += match escape(&text[at..], dialect, out) {
            Ok(length) => length,
            Err(What::Open) => return Err(Fault { at: 0, what: What::Open }),
            Err(what) => return Err(Fault { at, what }),
        };
    }
}

/// Appends what the escape at the start says; returns its length.
fn escape(text: &[u8], dialect: Dialect, out: &mut Vec<u8>) -> Result<usize, What> {
    let letter = *text.get(1).ok_or(What::Open)?;
    let digits = match letter {
        b'x' => 2,
        b'u' => 4,
        b'U' => 8,
        _ => 0,
    };
    if digits == 0 {
        out.push(match letter {
            b'n' => b'\n',
            b't' => b'\t',
            b'r' => b'\r',
            b'a' => 7,
            b'b' => 8,
            b'f' => 12,
            b'v' => 11,
            b'\\' | b'"' | b'\'' | b'`' => letter,
            b'/' if dialect == Dialect::GoOrJson => letter,
            _ => return Err(What::Escape),
        });
        return Ok(2);
    }
    if digits == 4 && dialect == Dialect::GoOrJson {
        let (character, length) = json::unicode(&text[2..]).ok_or(What::Digits(digits))?;
        out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
        return Ok(2 + length);
    }
    let number = text.get(2..2 + digits).and_then(hex::number).ok_or(What::Digits(digits))?;
    if digits == 2 {
        out.push(number as u8);
    } else {
        let character = char::from_u32(number).ok_or(What::Character)?;
        out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
    }
    Ok(2 + digits)
}

/// Writes `text` in quotes so that it is read back as it is.
pub fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    write_quoted(text, &mut out);
    out
}

/// Appends what [`quote`] gives.
pub fn write_quoted(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            c if c.is_ascii_control() => {
                out.push_str("\\x");
                out.extend(
                    hex::digits(c as u8).map(|digit| char::from(digit).to_ascii_lowercase()),
                );
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str, dialect: Dialect) -> Result<(String, usize), Fault> {
        let mut out = Vec::new();
        let length = unquote(text.as_bytes(), dialect, &mut out)?;
        Ok((String::from_utf8_lossy(&out).into_owned(), length))
    }

    #[test]
    fn quoted_texts() {
        for (text, expected, length) in [
            (r#""a b" c"#, "a b", 5),
            (r#"'it"s'"#, "it\"s", 6),
            (r"`a\n`", "a\\n", 5),
            (r#""\n\t\r\b\f\a\v\\\"\'\x41""#, "\n\t\r\u{8}\u{c}\u{7}\u{b}\\\"'A", 26),
            (r#""\"\\\n\t\x41\u00e9\U0001F600""#, "\"\\\n\tA\u{e9}\u{1F600}", 30),
            (r#""\xc3\xa9""#, "\u{e9}", 10),
        ] {
            for dialect in [Dialect::Go, Dialect::GoOrJson] {
                assert_eq!(read(text, dialect), Ok((expected.to_owned(), length)), "{text}");
            }
        }
        let json = r#""\/\u00e9\ud83d\ude00\ud83d""#;
        let says = "/\u{e9}\u{1f600}\u{fffd}".to_owned();
        assert_eq!(read(json, Dialect::GoOrJson), Ok((says, json.len())));
    }

    #[test]
    fn faults_have_a_place() {
        let check = |text: &str, go: Option<(usize, What)>, json: Option<(usize, What)>| {
            for (dialect, expected) in [(Dialect::Go, go), (Dialect::GoOrJson, json)] {
                let found = read(text, dialect).err().map(|fault| (fault.at, fault.what));
                assert_eq!(found, expected, "{text} {dialect:?}");
            }
        };
        let both = |text: &str, at: usize, what: What| {
            check(text, Some((at, what)), Some((at, what)));
        };
        both("", 0, What::NoQuote);
        both("a", 0, What::NoQuote);
        both("\"a", 0, What::Open);
        both("`a", 0, What::Open);
        both(r"'a\'", 0, What::Open);
        both(r#""a\"#, 0, What::Open);
        both(r#""a\q""#, 2, What::Escape);
        both(r#""\é""#, 1, What::Escape);
        both(r#""\x4""#, 1, What::Digits(2));
        both(r#""\x+f""#, 1, What::Digits(2));
        both(r#""\u12""#, 1, What::Digits(4));
        both(r#""\U00110000""#, 1, What::Character);
        check(r#""\ud800""#, Some((1, What::Character)), None);
        check(r#""\/""#, Some((1, What::Escape)), None);
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_as_the_same(text in "(\\PC|[\\x00-\\x7f]){0,30}", behind in "\\PC{0,5}") {
            let written = quote(&text);
            for dialect in [Dialect::Go, Dialect::GoOrJson] {
                let found = read(&format!("{written}{behind}"), dialect);
                prop_assert_eq!(found, Ok((text.clone(), written.len())));
            }
        }

        #[test]
        fn no_text_panics(text in "[\"'`\\\\xuU0-9ad/é]{0,30}") {
            for dialect in [Dialect::Go, Dialect::GoOrJson] {
                let _ = read(&text, dialect);
            }
        }
    }
}
