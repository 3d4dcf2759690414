//! Lines of containers as their runtime writes them: Kubernetes' CRI (`cri`), and Docker's driver
//! `json-file`: `{"log":"text\n","stream":"stdout","time":"2026-01-31T12:00:00Z"}`.
//!
//! Both write one file for both streams of a container, and long lines in parts: CRI tags a part
//! with `P`, and a part of Docker lacks the `\n` at the end of its `log`. A source that joins lines
//! to records looks at them through [`ContainerLine`]. The parser puts the text of a joined record
//! together ([`join`]): parts follow each other, whole lines are separated by newlines.

use std::borrow::Cow;

use super::cri;
use super::time;
use super::time_zone::WrittenZone;
use crate::zone::Zone;

/// Bytes at the beginning of a line of Docker in which escapes are resolved. They tell which lines
/// belong together; what stands further in is not looked at.
const DOCKER_TEXT_BYTES: usize = 512;
/// How each line of Docker begins.
const DOCKER_START: &[u8] = b"{\"log\":\"";

/// One line of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerLine<'a> {
    /// Whether the program wrote it to its standard error.
    pub is_stderr: bool,
    /// Whether the program's line goes on in the next line of the same stream.
    pub is_part: bool,
    /// When the runtime read it, nanoseconds since 1970 UTC.
    pub time_ns: Option<i64>,
    /// What the program wrote; of a long line of Docker, the beginning.
    pub text: Cow<'a, [u8]>,
}

impl ContainerLine<'_> {
    /// Reads a line, without its newline; `None` if no runtime wrote it.
    #[inline]
    pub fn parse(line: &[u8]) -> Option<ContainerLine<'_>> {
        match line.first()? {
            b'{' => docker(line),
            b'0'..=b'9' => {
                let head = cri::head(line.strip_suffix(b"\r").unwrap_or(line))?;
                Some(ContainerLine {
                    is_stderr: head.stream == b"stderr",
                    is_part: head.is_part(),
                    time_ns: since_1970(head.written),
                    text: Cow::Borrowed(head.message),
                })
            }
            _ => None,
        }
    }
}

fn since_1970(written: time::Written) -> Option<i64> {
    let Some(WrittenZone::Known(Zone::Fixed(offset_s))) = written.zone else { return None };
    let seconds = written.local_s.checked_sub(i64::from(offset_s))?;
    seconds.checked_mul(1_000_000_000)?.checked_add(i64::from(written.nanos))
}

/// The escaped text of a line of Docker, and the members behind it, with their comma.
fn docker_parts(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let rest = line.strip_prefix(DOCKER_START)?;
    let mut at = 0;
    loop {
        at += memchr::memchr2(b'"', b'\\', &rest[at..])?;
        if rest[at] == b'"' {
            break;
        }
        at = (at + 2).min(rest.len());
    }
    let members = &rest[at + 1..];
    (members.first() == Some(&b',')).then_some((&rest[..at], members))
}

fn docker(line: &[u8]) -> Option<ContainerLine<'_>> {
    let (escaped, members) = docker_parts(line)?;
    let value = |key: &[u8]| {
        let at = memchr::memmem::find(members, key)? + key.len();
        let length = memchr::memchr(b'"', &members[at..])?;
        Some(&members[at..at + length])
    };
    let is_stderr = match value(b"\"stream\":\"")? {
        b"stdout" => false,
        b"stderr" => true,
        _ => return None,
    };
    let written = time::iso(value(b"\"time\":\"")?).map(|(written, _)| written);
    let text = without_newline(escaped);
    Some(ContainerLine {
        is_stderr,
        is_part: text.is_none(),
        time_ns: written.and_then(since_1970),
        text: unescaped(text.unwrap_or(escaped)),
    })
}

/// A text without the escaped newline at its end; `None` if it has none.
fn without_newline(escaped: &[u8]) -> Option<&[u8]> {
    let text = escaped.strip_suffix(b"\\n")?;
    // An even number of backslashes before it are escaped ones.
    let slashes = text.iter().rev().take_while(|b| **b == b'\\').count();
    slashes.is_multiple_of(2).then_some(text)
}

/// The beginning of a text with its escapes resolved.
fn unescaped(escaped: &[u8]) -> Cow<'_, [u8]> {
    let escaped = &escaped[..escaped.len().min(DOCKER_TEXT_BYTES)];
    if memchr::memchr(b'\\', escaped).is_none() {
        return Cow::Borrowed(escaped);
    }
    let mut text = Vec::with_capacity(escaped.len());
    let mut bytes = escaped.iter().copied();
    while let Some(byte) = bytes.next() {
        match byte {
            b'\\' => match bytes.next() {
                Some(b't') => text.push(b'\t'),
                Some(b'n') => text.push(b'\n'),
                Some(b'r') => text.push(b'\r'),
                Some(b'u') => {
                    let digits: Vec<u8> = bytes.by_ref().take(4).collect();
                    let code = std::str::from_utf8(&digits).ok();
                    let code = code.and_then(|code| u32::from_str_radix(code, 16).ok());
                    let letter =
                        code.and_then(char::from_u32).unwrap_or(char::REPLACEMENT_CHARACTER);
                    text.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes());
                }
                Some(other) => text.push(other),
                None => {}
            },
            other => text.push(other),
        }
    }
    Cow::Owned(text)
}

/// The text of a record that was joined from several lines of a container.
pub(crate) enum Joined {
    /// The text itself: lines of CRI.
    Text,
    /// An object like that of the first line, with the whole text in `log`: lines of Docker.
    Object,
}

/// Appends what a joined record says to `out`, if all its lines are of one runtime.
pub(crate) fn join(record: &[u8], out: &mut Vec<u8>) -> Option<Joined> {
    if record.starts_with(DOCKER_START) {
        return join_docker(record, out);
    }
    let mut lines = record.split(|b| *b == b'\n').peekable();
    while let Some(line) = lines.next() {
        let head = cri::head(line.strip_suffix(b"\r").unwrap_or(line))?;
        out.extend_from_slice(head.message);
        if !head.is_part() && lines.peek().is_some() {
            out.push(b'\n');
        }
    }
    Some(Joined::Text)
}

fn join_docker(record: &[u8], out: &mut Vec<u8>) -> Option<Joined> {
    let mut tail: Option<&[u8]> = None;
    out.extend_from_slice(DOCKER_START);
    for line in record.split(|b| *b == b'\n') {
        // Escaped texts can be put together as they are.
        let (escaped, members) = docker_parts(line)?;
        out.extend_from_slice(escaped);
        tail.get_or_insert(members);
    }
    out.push(b'"');
    out.extend_from_slice(tail?);
    Some(Joined::Object)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_both_runtimes() {
        let shown = |line: &str| {
            let found = ContainerLine::parse(line.as_bytes())?;
            let text = String::from_utf8_lossy(&found.text).into_owned();
            let stream = if found.is_stderr { "err" } else { "out" };
            Some(format!("{stream} {} {text:?}", if found.is_part { "part" } else { "whole" }))
        };
        let docker = |log: &str, stream: &str| {
            format!(r#"{{"log":"{log}","stream":"{stream}","time":"2026-01-31T12:00:00.5Z"}}"#)
        };
        for (line, expected) in [
            ("2026-01-31T12:00:00.5Z stdout F hello".to_owned(), Some(r#"out whole "hello""#)),
            ("2026-01-31T12:00:00.5Z stderr P hel".to_owned(), Some(r#"err part "hel""#)),
            ("2026-01-31T12:00:00.5Z stdout F hello\r".to_owned(), Some(r#"out whole "hello""#)),
            ("2026-01-31 12:00:00 stdout".to_owned(), None),
            (docker(r"hello\n", "stdout"), Some(r#"out whole "hello""#)),
            (docker(r"hello", "stderr"), Some(r#"err part "hello""#)),
            // The last two are a backslash and a letter.
            (docker(r"C:\\n", "stdout"), Some(r#"out part "C:\\n""#)),
            (docker(r"C:\\\n", "stdout"), Some(r#"out whole "C:\\""#)),
            (docker(r#"\tat a \"b\" \u003c\n"#, "stdout"), Some(r#"out whole "\tat a \"b\" <""#)),
            (docker(r"\n", "stdout"), Some(r#"out whole """#)),
            (docker("x", "stdin"), None),
            (r#"{"log":"x"}"#.to_owned(), None),
            (r#"{"log":"x\"#.to_owned(), None),
            (r#"{"log":"x","a":1}"#.to_owned(), None),
            (String::new(), None),
        ] {
            assert_eq!(shown(&line).as_deref(), expected, "{line}");
        }
        let line = docker("a", "stdout");
        let found = ContainerLine::parse(line.as_bytes()).unwrap();
        assert_eq!(found.time_ns, Some(1_769_860_800_500_000_000));
    }

    #[test]
    fn joined_records() {
        let joined = |record: &str| {
            let mut out = Vec::new();
            join(record.as_bytes(), &mut out)?;
            Some(String::from_utf8(out).unwrap())
        };
        let cri = "2026-01-31T12:00:00Z stdout P ab\n2026-01-31T12:00:00Z stdout F cd\r\n\
            2026-01-31T12:00:00Z stdout F \tat e";
        assert_eq!(joined(cri).as_deref(), Some("abcd\n\tat e"));
        assert_eq!(joined("2026-01-31T12:00:00Z stdout F a\n  at b"), None);
        let docker = r#"{"log":"a ","stream":"stdout","time":"1"}
{"log":"b\n","stream":"stdout","time":"2"}"#;
        let expected = r#"{"log":"a b\n","stream":"stdout","time":"1"}"#;
        assert_eq!(joined(docker).as_deref(), Some(expected));
        assert_eq!(joined("{\"log\":\"a\",\"b\":1}\nx"), None);
    }
}
