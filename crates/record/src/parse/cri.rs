//! Lines of containers as the runtime writes them (Kubernetes' CRI): `TIME stdout|stderr F|P
//! MESSAGE`.
//!
//! `P` means that the line continues in the next one. Records that a source joined from such lines
//! are put together by `container`. Left out: joining lines that arrived separately; they are kept
//! as they came, with their tag in the field `logtag`.

use super::time::{self, Written};

/// The prefix of a line, and its message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Head<'a> {
    pub written: Written,
    /// `stdout` or `stderr`.
    pub stream: &'a [u8],
    /// `F` for a whole line, `P` for a part, optionally followed by a colon and more.
    pub tag: &'a [u8],
    pub message: &'a [u8],
}

/// The prefix of a line, if the line has this form.
#[inline]
pub(crate) fn head(text: &[u8]) -> Option<Head<'_>> {
    // Excludes nearly all other lines.
    if text.get(10) != Some(&b'T') || !text[0].is_ascii_digit() {
        return None;
    }
    let blank = super::short::first_blank(text)?;
    let rest = &text[blank + 1..];
    let stream = &rest[..rest.len().min(6)];
    if stream != b"stdout" && stream != b"stderr" {
        return None;
    }
    let behind = rest[6..].strip_prefix(b" ")?;
    let end = behind.iter().take(32).position(|b| *b == b' ').unwrap_or(behind.len().min(32));
    let tag = &behind[..end];
    if !matches!(tag, [b'F' | b'P'] | [b'F' | b'P', b':', ..]) {
        return None;
    }
    let (written, length) = time::iso(text)?;
    (length == blank && written.zone.is_some()).then_some(())?;
    let message = behind[end..].strip_prefix(b" ").unwrap_or_default();
    Some(Head { written, stream, tag, message })
}

impl Head<'_> {
    /// Whether the message continues in another line.
    pub fn is_part(&self) -> bool {
        self.tag[0] == b'P'
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads() {
        let parts = |text: &str| {
            let head = head(text.as_bytes())?;
            let part = |part: &[u8]| String::from_utf8_lossy(part).into_owned();
            Some(format!("{}|{}|{}", part(head.stream), part(head.tag), part(head.message)))
        };
        let rows = [
            ("2026-01-31T12:00:00.123456789Z stdout F hello", Some("stdout|F|hello")),
            ("2026-01-31T12:00:00.1+01:00 stderr P part", Some("stderr|P|part")),
            ("2026-01-31T12:00:00Z stdout F  two blanks", Some("stdout|F| two blanks")),
            ("2026-01-31T12:00:00Z stdout F:x y", Some("stdout|F:x|y")),
            ("2026-01-31T12:00:00Z stdout F ", Some("stdout|F|")),
            ("2026-01-31T12:00:00Z stdout F", Some("stdout|F|")),
            ("2026-01-31T12:00:00Z stdout X hello", None),
            ("2026-01-31T12:00:00Z stdin F hello", None),
            ("2026-01-31T12:00:00Z stdout", None),
            ("2026-01-31T12:00:00 stdout F hello", None),
            ("2026-01-31T12:00:00Z web1 app: hello", None),
            ("2026-01-31Tx stdout F hello", None),
            ("stdout F hello", None),
            ("", None),
        ];
        for (text, expected) in rows {
            assert_eq!(parts(text).as_deref(), expected, "{text}");
        }
    }
}
