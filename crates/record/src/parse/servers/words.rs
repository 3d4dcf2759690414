//! Parts of messages.

use std::net::IpAddr;

use super::super::short;

/// The first word, and the text behind the blank that follows it; the whole text if there is none.
pub(super) fn word(text: &[u8]) -> (&[u8], &[u8]) {
    match short::first_blank(text) {
        Some(at) => (&text[..at], &text[at + 1..]),
        None => (text, b""),
    }
}

/// A text that is not empty, and the text behind the mark that ends it.
pub(super) fn until<'a>(text: &'a [u8], mark: &[u8]) -> Option<(&'a [u8], &'a [u8])> {
    let at = memchr::memmem::find(text, mark).filter(|at| *at > 0)?;
    Some((&text[..at], &text[at + mark.len()..]))
}

/// The text between a quote at the start and the next one, and the text behind.
pub(super) fn quoted(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let inner = text.strip_prefix(b"\"")?;
    let end = memchr::memchr(b'"', inner)?;
    Some((&inner[..end], &inner[end + 1..]))
}

/// A quoted text, or a word; and the text behind the blank that follows.
pub(super) fn quoted_or_word(text: &[u8]) -> Option<(&[u8], &[u8])> {
    if text.first() != Some(&b'"') {
        return Some(word(text));
    }
    let (inner, rest) = quoted(text)?;
    match rest {
        [] => Some((inner, rest)),
        [b' ', rest @ ..] => Some((inner, rest)),
        _ => None,
    }
}

/// Whether a text is one or more digits.
pub(super) fn is_number(text: &[u8]) -> bool {
    !text.is_empty() && text.iter().all(u8::is_ascii_digit)
}

/// Whether a text is digits, perhaps with a point and further digits.
pub(super) fn is_decimal(text: &[u8]) -> bool {
    match memchr::memchr(b'.', text) {
        Some(at) => is_number(&text[..at]) && is_number(&text[at + 1..]),
        None => is_number(text),
    }
}

/// Whether a text is a number, or `-`.
pub(super) fn is_number_or_nil(text: &[u8]) -> bool {
    text == b"-" || is_number(text)
}

pub(super) fn is_ip(text: &[u8]) -> bool {
    let may_be =
        text.len() <= 45 && text.iter().all(|b| b.is_ascii_hexdigit() || b".:".contains(b));
    may_be && std::str::from_utf8(text).is_ok_and(|text| text.parse::<IpAddr>().is_ok())
}

/// Address and port of `192.0.2.1:80`, `[2001:db8::1]:80`, `2001:db8::1:80`.
pub(super) fn ip_and_port(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let colon = memchr::memrchr(b':', text)?;
    let (ip, port) = (&text[..colon], &text[colon + 1..]);
    let ip = ip.strip_prefix(b"[").and_then(|inner| inner.strip_suffix(b"]")).unwrap_or(ip);
    (is_ip(ip) && is_number(port) && port.len() <= 5).then_some((ip, port))
}

/// A text without `[ID 800047 auth.info] ` in front, which Solaris writes.
pub(super) fn behind_message_id(text: &[u8]) -> &[u8] {
    let behind = || {
        let inner = text.strip_prefix(b"[ID ")?;
        let end = inner.iter().take(40).position(|b| *b == b']')?;
        inner[end + 1..].strip_prefix(b" ")
    };
    behind().unwrap_or(text)
}

/// The text behind the time since the start of the kernel: `[ 1234.567890] `.
pub(super) fn behind_uptime(text: &[u8]) -> &[u8] {
    let behind = || {
        let inner = text.strip_prefix(b"[")?;
        let end = inner.iter().take(24).position(|b| *b == b']')?;
        is_decimal(inner[..end].trim_ascii_start()).then_some(())?;
        Some(inner[end + 1..].trim_ascii_start())
    };
    behind().unwrap_or(text)
}
