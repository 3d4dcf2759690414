//! Splits LogQL into tokens.

use text::quoted::{Dialect, What, unquote};

use crate::error::ParseError;

/// Limit of the text of a query, in bytes, as in Loki. Longer ones are refused.
pub const QUERY_BYTES_MAX: usize = 131_072;

/// A token.
#[derive(Clone, Debug, PartialEq)]
pub enum Token {
    /// A name or keyword.
    Word(String),
    /// A quoted string, without quotes and escapes.
    Text(String),
    /// A number.
    Number(f64),
    /// A duration, as written.
    Duration(String, i64),
    /// A size, as written.
    Bytes(String, f64),
    /// `--strict` and similar flags, without the dashes.
    Flag(String),
    /// Punctuation.
    Sign(&'static str),
    /// The end of the text.
    End,
}

impl Token {
    /// The token for messages.
    pub fn shown(&self) -> String {
        match self {
            Token::Word(word) => format!("\"{word}\""),
            Token::Text(_) => "a quoted string".to_owned(),
            Token::Number(number) => format!("number {number}"),
            Token::Duration(text, _) => format!("duration {text}"),
            Token::Bytes(text, _) => format!("size {text}"),
            Token::Flag(flag) => format!("--{flag}"),
            Token::Sign(sign) => format!("\"{sign}\""),
            Token::End => "the end".to_owned(),
        }
    }
}

/// Longest first.
const SIGNS: [&str; 32] = [
    "|=", "|~", "|>", "!=", "!~", "!>", "==", "=~", "<=", ">=", "{", "}", "(", ")", "[", "]", ",",
    "|", "=", "<", ">", "+", "-", "*", "/", "%", "^", ".", ":", ";", "!", "~",
];

/// All tokens of `text` with their offsets; the last is [`Token::End`].
pub fn tokens(text: &str) -> Result<Vec<(Token, usize)>, ParseError> {
    if text.len() > QUERY_BYTES_MAX {
        let message = format!("the query is longer than {QUERY_BYTES_MAX} bytes");
        return Err(ParseError::new(text, 0, message));
    }
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(c) = text[at..].chars().next() {
        let rest = &text[at..];
        if c.is_whitespace() {
            at += c.len_utf8();
        } else if c == '#' {
            at += rest.find('\n').unwrap_or(rest.len());
        } else if c == '"' || c == '`' {
            let (value, length) = quoted(text, at)?;
            found.push((Token::Text(value), at));
            at += length;
        } else if c.is_ascii_digit()
            || (c == '.' && rest[1..].starts_with(|c: char| c.is_ascii_digit()))
        {
            let (token, length) = number(text, at)?;
            found.push((token, at));
            at += length;
        } else if c.is_ascii_alphabetic() || c == '_' {
            let length = rest
                .find(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != ':')
                .unwrap_or(rest.len());
            found.push((Token::Word(rest[..length].to_owned()), at));
            at += length;
        } else if let Some(flag) = rest
            .strip_prefix("--")
            .filter(|rest| rest.starts_with(|c: char| c.is_ascii_alphabetic()))
        {
            let length =
                flag.find(|c: char| !c.is_ascii_alphanumeric() && c != '-').unwrap_or(flag.len());
            found.push((Token::Flag(flag[..length].to_owned()), at));
            at += 2 + length;
        } else if let Some(sign) = SIGNS.into_iter().find(|sign| rest.starts_with(sign)) {
            found.push((Token::Sign(sign), at));
            at += sign.len();
        } else {
            return Err(ParseError::new(text, at, format!("unexpected character {c:?}")));
        }
    }
    found.push((Token::End, text.len()));
    Ok(found)
}

fn number(text: &str, at: usize) -> Result<(Token, usize), ParseError> {
    let rest = &text[at..];
    let run = rest
        .find(|c: char| !c.is_ascii_alphanumeric() && c != '.' && c != 'µ' && c != '_')
        .unwrap_or(rest.len());
    let written = &rest[..run];
    if let Some(digits) = written.strip_prefix("0x").or_else(|| written.strip_prefix("0X")) {
        // The exponent, which a hexadecimal number must have, may have a sign.
        let length = match digits.ends_with(['p', 'P']) && rest[run..].starts_with(['+', '-']) {
            true => rest[run + 1..]
                .find(|c: char| !c.is_ascii_digit())
                .map_or(rest.len(), |digits| run + 1 + digits),
            false => run,
        };
        let number = crate::units::parse_number(&rest[..length]).filter(|n| n.is_finite());
        return match number {
            Some(number) => Ok((Token::Number(number), length)),
            None => {
                let message = format!(
                    "unable to parse literal as a float: '{}'; write a hexadecimal number as 0x1p3",
                    &rest[..length]
                );
                Err(ParseError::new(text, at, message))
            }
        };
    }
    if let Some(number) = written.parse().ok().filter(|number: &f64| number.is_finite()) {
        return Ok((Token::Number(number), run));
    }
    // An exponent may have a sign: `1e-3`.
    if written.ends_with(['e', 'E']) && rest[run..].starts_with(['+', '-']) {
        let digits = rest[run + 1..]
            .find(|c: char| !c.is_ascii_digit())
            .map_or(rest.len(), |digits| run + 1 + digits);
        if let Some(number) = rest[..digits].parse().ok().filter(|number: &f64| number.is_finite())
        {
            return Ok((Token::Number(number), digits));
        }
    }
    if let Some(ns) = crate::units::parse_duration_ns(written) {
        return Ok((Token::Duration(written.to_owned(), ns), run));
    }
    if let Some(bytes) = crate::units::parse_bytes(written) {
        return Ok((Token::Bytes(written.to_owned(), bytes), run));
    }
    let message = format!("'{written}' is not a number, duration or size");
    Err(ParseError::new(text, at, message))
}

/// The quoted string at `at`, and the length of its source text.
fn quoted(text: &str, at: usize) -> Result<(String, usize), ParseError> {
    let mut bytes = Vec::new();
    let length = unquote(&text.as_bytes()[at..], Dialect::Go, &mut bytes).map_err(|fault| {
        let message = match fault.what {
            What::NoQuote | What::Open => "literal not terminated",
            _ => "unknown escape; write \\\\ for a backslash, or use backticks",
        };
        ParseError::new(text, at + fault.at, message)
    })?;
    let value = String::from_utf8(bytes)
        .map_err(|_| ParseError::new(text, at, "the escapes do not make valid UTF-8"))?;
    Ok((value, length))
}

/// Writes the parts of a list with commas between them.
pub fn join<T: std::fmt::Display>(parts: impl IntoIterator<Item = T>) -> String {
    parts.into_iter().map(|part| part.to_string()).collect::<Vec<_>>().join(", ")
}

/// Writes `text` in quotes so that parsing returns it unchanged; in backticks if it needs no
/// escapes then.
pub fn quote(text: &str) -> String {
    if text.contains('\\') && !text.contains('`') {
        return format!("`{text}`");
    }
    text::quoted::quote(text)
}
