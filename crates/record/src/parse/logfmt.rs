//! Lines of keys and values: logfmt of Go's loggers, and similar lines of firewalls.
//!
//! ```text
//! ts=2026-01-31T12:00:00Z level=warn msg="a text with \"quotes\"" took=1.5s ok
//! ```
//!
//! A line is detected as logfmt only if all of it is pairs, and they contain a level and a message,
//! a level and a time, a time and a message, or date and time of a firewall ([`is_logfmt`]). If the
//! source declares lines as logfmt, words without `=` are keys without a value, and text that
//! cannot be a key is skipped with a note. Left out: pairs behind free text (`user logged in
//! id=7`).

use super::json_level;
use super::json_names::{self, Use};

/// The longest key.
const KEY_BYTES_MAX: usize = 128;

/// A pair. The value is a part of the text, without its quotes but still escaped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pair<'a> {
    pub key: &'a [u8],
    pub value: &'a [u8],
    pub escaped: bool,
    /// Whether there is a `=`.
    pub has_value: bool,
}

/// The result for the start of a text.
enum Step<'a> {
    Pair(Pair<'a>),
    /// Not a pair.
    Word,
    /// A value with an unclosed quote, or with text directly behind the quote.
    Broken(Pair<'a>),
}

fn step(text: &[u8]) -> (Step<'_>, &[u8]) {
    let window = &text[..text.len().min(KEY_BYTES_MAX + 1)];
    let length = window.iter().position(|b| !is_of_key(*b)).unwrap_or(window.len());
    let (key, rest) = text.split_at(length);
    let starts = key.first().is_some_and(|b| b.is_ascii_alphabetic() || matches!(b, b'_' | b'@'));
    if !starts
        || length > KEY_BYTES_MAX
        || !matches!(rest.first(), None | Some(b'=' | b' ' | b'\t'))
    {
        let end = memchr::memchr2(b' ', b'\t', text).unwrap_or(text.len());
        return (Step::Word, &text[end..]);
    }
    let pair = Pair { key, value: b"", escaped: false, has_value: false };
    let Some(rest) = rest.strip_prefix(b"=") else { return (Step::Pair(pair), rest) };
    let pair = Pair { has_value: true, ..pair };
    let Some(inner) = rest.strip_prefix(b"\"") else {
        let end = memchr::memchr2(b' ', b'\t', rest).unwrap_or(rest.len());
        return (Step::Pair(Pair { value: &rest[..end], ..pair }), &rest[end..]);
    };
    let (mut at, mut escaped) = (0, false);
    loop {
        match memchr::memchr2(b'"', b'\\', inner.get(at..).unwrap_or_default()) {
            None => return (Step::Broken(Pair { value: inner, escaped, ..pair }), b""),
            Some(found) if inner[at + found] == b'"' => {
                at += found;
                break;
            }
            Some(found) => (at, escaped) = (at + found + 2, true),
        }
    }
    let (value, behind) = (&inner[..at], &inner[at + 1..]);
    let pair = Pair { value, escaped, ..pair };
    match behind.first() {
        None | Some(b' ' | b'\t') => (Step::Pair(pair), behind),
        _ => (Step::Broken(pair), behind),
    }
}

#[inline]
fn is_of_key(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-' | b'@' | b'/')
}

/// Whether a text consists of pairs only, and they are those of a log line.
pub(crate) fn is_logfmt(text: &[u8]) -> bool {
    // Nearly every other line is excluded here: its first word is not followed by `=`.
    let first = text.iter().take(KEY_BYTES_MAX).position(|b| !is_of_key(*b));
    if first.is_none_or(|at| at == 0 || text[at] != b'=') {
        return false;
    }
    let (mut pairs, mut rest) = (0, text);
    let (mut time, mut level, mut message, mut date, mut clock) =
        (false, false, false, false, false);
    while !rest.is_empty() {
        let (Step::Pair(pair), behind) = step(rest) else { return false };
        if !pair.has_value {
            return false;
        }
        pairs += 1;
        rest = behind.trim_ascii_start();
        let Ok(key) = std::str::from_utf8(pair.key) else { return false };
        let starts_with_digit = pair.value.first().is_some_and(u8::is_ascii_digit);
        match key {
            "date" => date |= starts_with_digit,
            "time" if pair.value.get(2) == Some(&b':') => clock = true,
            _ => match json_names::find(key) {
                Some((Use::Time(_), _)) => time |= starts_with_digit && pair.value.len() >= 10,
                Some((Use::Level(_, kind), _)) => {
                    level |= kind.stands_alone() && json_level::word(pair.value).is_some();
                }
                Some((Use::Message(_), _)) => message = true,
                _ => {}
            },
        }
    }
    // Stormshield and others: `id=firewall time="…" fw="…"`.
    let of_firewall = time && text.starts_with(b"id=firewall ");
    let is_log = (level && (message || time)) || (time && message) || of_firewall;
    (pairs >= 2 && is_log) || (pairs >= 4 && date && clock)
}

/// Calls `each` with the pairs of a text; returns whether all of it was pairs with complete values.
pub(crate) fn pairs<'a>(text: &'a [u8], mut each: impl FnMut(Pair<'a>)) -> bool {
    let mut whole = true;
    let mut rest = text.trim_ascii();
    while !rest.is_empty() {
        let (step, behind) = step(rest);
        match step {
            Step::Pair(pair) => each(pair),
            Step::Broken(pair) => {
                whole = false;
                each(pair);
            }
            Step::Word => whole = false,
        }
        rest = behind.trim_ascii_start();
    }
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        let mut out = Vec::new();
        let whole = pairs(text.as_bytes(), |pair| {
            let text = |part| String::from_utf8_lossy(part).into_owned();
            let sign = if pair.has_value { "=" } else { "" };
            out.push(format!("{}{sign}{}", text(pair.key), text(pair.value)));
        });
        if !whole {
            out.push("broken".into());
        }
        out.join("|")
    }

    #[test]
    fn lines_are_taken_apart() {
        let rows = [
            ("a=1 b=\"x y\" c", "a=1|b=x y|c"),
            ("  a=1\tb=  ", "a=1|b="),
            ("a=\"q\\\"r\" b=c=d", "a=q\\\"r|b=c=d"),
            ("a=\"open", "a=open|broken"),
            ("a=\"x\"y b=1", "a=x|y|b=1|broken"),
            ("a=\"x\\", "a=x\\|broken"),
            ("=1 a=2", "a=2|broken"),
            ("", ""),
            ("a=\"\"", "a="),
            ("é=1", "broken"),
        ];
        for (text, expected) in rows {
            assert_eq!(shown(text), expected, "{text}");
        }
    }

    #[test]
    fn lines_detected_as_logfmt() {
        for text in [
            "ts=2026-01-31T12:00:00Z level=warn msg=\"x y\"",
            "time=\"2026-01-31T12:00:00Z\" level=info msg=\"x\" container=a",
            "level=info msg=x",
            "level=info ts=1769860800.123 caller=main.go:1 x=\"\"",
            "t=2026-01-31T12:00:00+0000 lvl=eror msg=x",
            "time=2026-01-31T12:00:00.000Z level=INFO+1 msg=x",
            "date=2026-11-21 time=12:00:00 devname=\"FGT\" level=\"notice\"",
            "id=firewall time=\"2026-11-21 12:00:00\" fw=\"fw1\" pri=5",
        ] {
            assert!(is_logfmt(text.as_bytes()), "{text}");
        }
        for text in [
            "",
            "=",
            "a=1 b=2",
            "a=1",
            "level=info",
            "level=info and msg=x",
            "level=high msg=x",
            "msg=hello a=1",
            "x level=info msg=x",
            "level=info msg=\"x",
            "SELECT * FROM t WHERE level=info",
            "type=SYSCALL msg=audit(1769860800.123:1): arch=c000003e success=yes",
            "PATH=/usr/bin:/bin HOME=/root LEVEL=3",
            "/a?level=info&msg=x",
            "time=0.25 msg=x",
            "type=error msg=x",
            "priority=warning msg=x",
            "date=tomorrow time=12:00:00 a=1 b=2",
        ] {
            assert!(!is_logfmt(text.as_bytes()), "{text}");
        }
    }
}
