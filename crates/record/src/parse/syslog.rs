//! The head of a syslog line: RFC 5424, RFC 3164, and what devices send under that name.
//!
//! [`head`] only finds the parts; what they mean (year, zone, level, type) is decided by the parser. Nothing is
//! refused: a part that is not there is empty, and what could not be read stays in the message.
//!
//! Decisions where RFC 3164 and devices leave it open:
//! - Behind the time stands the host, unless the word there is a tag (`app:`, `app[pid]:`). Without a time there
//!   is no host, because any first word would look like one.
//! - `-` of RFC 5424 means that the field is not there.
//! - Cisco: `%FACILITY-SEVERITY-MNEMONIC` gives `app_name` (the facility: SYS, LINK, ASA), `msg_id` (the mnemonic)
//!   and, without PRI, the level; it stays in the message, where operators search it. The number before the
//!   time is the field `sequence`.
//! - A `*` before Cisco's time says that the clock was never set.
//!
//! Left out: key-value bodies of firewalls, CEF and LEEF.

use super::time::{self, Written};

/// A longer first word of a message is no tag. RFC 3164 allows 32, real programs use more.
const TAG_BYTES_MAX: usize = 128;
/// A longer word is no host name (RFC 5424 allows 255).
const HOSTNAME_BYTES_MAX: usize = 255;

pub(crate) const FACILITY_KEYWORDS: [&str; 24] = [
    "kern",
    "user",
    "mail",
    "daemon",
    "auth",
    "syslog",
    "lpr",
    "news",
    "uucp",
    "cron",
    "authpriv",
    "ftp",
    "ntp",
    "security",
    "console",
    "solaris-cron",
    "local0",
    "local1",
    "local2",
    "local3",
    "local4",
    "local5",
    "local6",
    "local7",
];

/// Digits and value of a PRI.
pub(crate) type Priority<'a> = (&'a [u8], u16);

/// What stands before the message. Empty slices: not there.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Head<'a> {
    pub priority: Option<Priority<'a>>,
    /// Severity from elsewhere than the PRI.
    pub severity: Option<u8>,
    /// `rfc5424`, `rfc3164`; none when the line is no syslog line.
    pub format: Option<&'static str>,
    pub written: Option<Written>,
    /// The sender says that its clock was never set.
    pub clock_unset: bool,
    pub hostname: &'a [u8],
    pub app_name: &'a [u8],
    pub proc_id: &'a [u8],
    pub msg_id: &'a [u8],
    pub sequence: &'a [u8],
    /// Structured data, checked, with its brackets.
    pub structured: &'a [u8],
    pub message: &'a [u8],
    pub note: Option<&'static str>,
}

/// How sure the source is that lines are syslog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expect {
    /// Only a PRI, or a header without PRI that cannot be taken for anything else.
    Maybe,
    /// A time and a tag will do.
    Syslog,
}

/// Finds the parts of a line, which is trimmed already. Without `format` in the answer, the message is the line.
pub(crate) fn head(line: &[u8], expect: Expect) -> Head<'_> {
    let none = Head { message: line, ..Head::default() };
    let Some((priority, rest)) = pri(line) else {
        return without_pri(line, expect).unwrap_or(none);
    };
    // Some devices put a blank, or a byte order mark, behind the PRI.
    let rest = super::without_bom(rest);
    let mut head = rfc5424(rest).unwrap_or_else(|| rfc3164(rest));
    head.priority = Some(priority);
    if priority.1 > 191 {
        head.note = Some("priority above 191");
    }
    head
}

fn without_pri(line: &[u8], expect: Expect) -> Option<Head<'_>> {
    let head = match line.first()? {
        b'1'..=b'9' if line.get(1) == Some(&b' ') => {
            return rfc5424(line).filter(|h| h.written.is_some());
        }
        b'A'..=b'Z' => rfc3164(line),
        // Many plain lines begin with digits: only a tag makes them syslog.
        b'0'..=b'9' | b'*' | b'.' if expect == Expect::Syslog => {
            Some(rfc3164(line)).filter(|h| !h.app_name.is_empty())?
        }
        // The traditional file format with ISO times, as rsyslog and syslog-ng write it.
        b'0'..=b'9' if line.get(10) == Some(&b'T') => {
            let tagged = |h: &Head<'_>| !h.hostname.is_empty() && !h.app_name.is_empty();
            let zoned = |h: &Head<'_>| h.written.is_some_and(|w| w.offset_s.is_some());
            Some(rfc3164(line)).filter(|h| tagged(h) && zoned(h))?
        }
        _ => return None,
    };
    head.written.is_some().then_some(head)
}

/// `<NNN>` and what follows.
fn pri(line: &[u8]) -> Option<(Priority<'_>, &[u8])> {
    let inner = line.strip_prefix(b"<")?;
    let (value, digits) = time::number(inner, 3)?;
    (inner.get(digits) == Some(&b'>'))
        .then(|| ((&inner[..digits], value as u16), &inner[digits + 1..]))
}

/// RFC 5424 section 6, from the version on. None when it is something else, older syslog for example.
fn rfc5424(rest: &[u8]) -> Option<Head<'_>> {
    let (_, digits) = time::number(rest, 3)?;
    let rest = rest[digits..].strip_prefix(b" ")?;
    let (timestamp, rest) = word(rest);
    let written = match timestamp {
        b"-" => None,
        _ => Some(time::iso(timestamp).filter(|(_, length)| *length == timestamp.len())?.0),
    };
    let (hostname, rest) = word(rest);
    let (app_name, rest) = word(rest);
    let (proc_id, rest) = word(rest);
    let (msg_id, rest) = word(rest);
    let mut head = Head {
        format: Some("rfc5424"),
        written,
        hostname: not_nil(hostname),
        app_name: not_nil(app_name),
        proc_id: not_nil(proc_id),
        msg_id: not_nil(msg_id),
        ..Head::default()
    };
    let message = match rest {
        [b'-', b' ', message @ ..] => message,
        b"-" | b"" => b"",
        [b'[', ..] => match structured_length(rest) {
            Some(length) => {
                head.structured = &rest[..length];
                rest[length..].strip_prefix(b" ").unwrap_or(&rest[length..])
            }
            None => {
                head.note = Some("broken structured data, kept in the message");
                rest
            }
        },
        _ => {
            head.note = Some("no structured data before the message");
            rest
        }
    };
    head.message = super::without_bom(message);
    Some(head)
}

fn word(text: &[u8]) -> (&[u8], &[u8]) {
    match super::short::first_blank(text) {
        Some(at) => (&text[..at], &text[at + 1..]),
        None => (text, b""),
    }
}

fn not_nil(word: &[u8]) -> &[u8] {
    if word == b"-" { b"" } else { word }
}

/// Bytes of the structured data at the start; none when it is broken.
fn structured_length(text: &[u8]) -> Option<usize> {
    structured(text, |_, _| ())
}

/// Walks over structured data (RFC 5424 section 6.3). `visit` gets each element's name, and for each parameter
/// its name and value, the value still escaped; once without parameter for an element that has none. The
/// bytes walked over, or none when it is broken.
pub(crate) fn structured<'a>(
    text: &'a [u8],
    mut visit: impl FnMut(&'a [u8], Option<(&'a [u8], &'a [u8])>),
) -> Option<usize> {
    let mut at = 0;
    while text.get(at) == Some(&b'[') {
        at += 1;
        let id = sd_name(&text[at..])?;
        at += id.len();
        let mut params = 0;
        loop {
            match text.get(at)? {
                b']' => break,
                b' ' => at += 1,
                _ => return None,
            }
            if text.get(at) == Some(&b' ') || text.get(at) == Some(&b']') {
                continue;
            }
            let name = sd_name(&text[at..])?;
            at += name.len();
            if text.get(at..at + 2) != Some(b"=\"") {
                return None;
            }
            at += 2;
            let begin = at;
            loop {
                at += memchr::memchr2(b'"', b'\\', text.get(at..)?)?;
                if text[at] == b'"' {
                    break;
                }
                at += 2;
            }
            visit(id, Some((name, &text[begin..at])));
            params += 1;
            at += 1;
        }
        if params == 0 {
            visit(id, None);
        }
        at += 1;
    }
    (at > 0).then_some(at)
}

/// A name of an element or parameter: printable, without `=`, blank, `]` and `"`.
fn sd_name(text: &[u8]) -> Option<&[u8]> {
    let length = text
        .iter()
        .take_while(|b| b.is_ascii_graphic() && !matches!(b, b'=' | b']' | b'"'))
        .count();
    (length > 0).then(|| &text[..length])
}

/// Appends a parameter's value without its escapes: `\"`, `\\`, `\]`; another backslash stands for itself.
pub(crate) fn unescape(value: &[u8], out: &mut Vec<u8>) {
    let mut rest = value;
    while let Some(at) = memchr::memchr(b'\\', rest) {
        let escaped = matches!(rest.get(at + 1), Some(b'"' | b'\\' | b']'));
        out.extend_from_slice(&rest[..if escaped { at } else { at + 1 }]);
        rest = &rest[at + 1..];
        if escaped {
            out.push(rest[0]);
            rest = &rest[1..];
        }
    }
    out.extend_from_slice(rest);
}

/// RFC 3164 and kin, from behind the PRI.
fn rfc3164(rest: &[u8]) -> Head<'_> {
    let mut head = Head { format: Some("rfc3164"), ..Head::default() };
    let mut rest = rest.trim_ascii_start();
    let mut timed = timestamp(rest);
    if timed.is_none() {
        rest = cisco_prefix(rest, &mut head);
        timed = timestamp(rest);
    }
    let Some((written, length, clock_unset)) = timed else {
        head.message = rest;
        tag(&mut head);
        return head;
    };
    (head.written, head.clock_unset) = (Some(written), clock_unset);
    rest = &rest[length..];
    // ` CET: %SYS…` of Cisco: names of zones are ambiguous and only passed over.
    let zone = rest.iter().skip(1).take_while(|b| b.is_ascii_uppercase()).count();
    if (3..=5).contains(&zone) && rest[1 + zone..].starts_with(b": %") {
        rest = &rest[1 + zone..];
    }
    // `12:00:00: %SYS…` of Cisco.
    let colon = rest.first() == Some(&b':');
    rest = rest[usize::from(colon)..].strip_prefix(b" ").unwrap_or(&rest[usize::from(colon)..]);
    head.message = rest;
    if !colon && !tag(&mut head) && head.hostname.is_empty() {
        let (first, behind) = word(rest.trim_ascii_start());
        if is_hostname(first) {
            (head.hostname, head.message) = (not_nil(first), behind);
            // `asa1 : %ASA-6-…`
            head.message = behind.strip_prefix(b": ").unwrap_or(behind);
        }
    }
    if head.app_name.is_empty() {
        tag(&mut head);
    }
    head
}

fn timestamp(text: &[u8]) -> Option<(Written, usize, bool)> {
    let (marks, text) = match text {
        [b'*' | b'.', behind @ ..] => (1, behind),
        _ => (0, text),
    };
    let (written, length) = match text.first()? {
        b'A'..=b'Z' => time::month_first(text)?,
        b'0'..=b'9' => time::iso(text)?,
        _ => return None,
    };
    let clock_unset = marks == 1; // `.` says: set once, but no longer synchronised.
    let ends = matches!(text.get(length), Some(b' ' | b':') | None);
    ends.then_some((written, length + marks, clock_unset))
}

/// `1234: `, `router1: `, `1w2d: ` before the time or mnemonic of a Cisco device; the text behind them. Where
/// neither follows, nothing was Cisco's and `text` is given back.
fn cisco_prefix<'a>(text: &'a [u8], head: &mut Head<'a>) -> &'a [u8] {
    const PARTS_MAX: usize = 3;
    let mut rest = text;
    let (mut hostname, mut sequence): (&[u8], &[u8]) = (b"", b"");
    for _ in 0..PARTS_MAX {
        let (part, behind) = word(rest);
        let Some(part) = part.strip_suffix(b":").filter(|p| !p.is_empty()) else { break };
        if part.starts_with(b"%") {
            break;
        }
        if part.iter().all(u8::is_ascii_digit) {
            sequence = part;
        } else if !is_uptime(part) {
            if !is_hostname(part) {
                break;
            }
            hostname = part;
        }
        rest = behind.trim_ascii_start();
        if rest.starts_with(b"%") || timestamp(rest).is_some() {
            (head.hostname, head.sequence) = (hostname, sequence);
            return rest;
        }
    }
    text
}

/// `1w2d`, `3d04h`, `00:00:46`: time since start, Cisco's stamp without a clock.
fn is_uptime(text: &[u8]) -> bool {
    text.first().is_some_and(u8::is_ascii_digit)
        && text
            .iter()
            .all(|b| b.is_ascii_digit() || matches!(b, b'y' | b'w' | b'd' | b'h' | b':' | b'.'))
}

fn is_hostname(word: &[u8]) -> bool {
    let allowed = |b: &u8| b.is_ascii_alphanumeric() || b".-_:%@/~".contains(b) || *b >= 0x80;
    !word.is_empty()
        && word.len() <= HOSTNAME_BYTES_MAX
        && word.iter().all(allowed)
        && !word.starts_with(b"%")
}

/// Takes `app: `, `app[pid]: ` or a Cisco mnemonic from the start of the message; whether there was one.
fn tag(head: &mut Head<'_>) -> bool {
    let message = head.message.trim_ascii_start();
    if message.starts_with(b"%") {
        head.message = message;
        return mnemonic(head);
    }
    let window = &message[..message.len().min(TAG_BYTES_MAX)];
    if matches!(window.first(), None | Some(b'{' | b'"' | b'\'' | b'<' | b'(' | b'[' | b'=')) {
        return false;
    }
    let Some(end) = window.iter().position(|b| matches!(b, b' ' | b':' | b'[' | b'\t')) else {
        return false;
    };
    let (name, mut rest) = (&message[..end], &message[end..]);
    let mut proc_id: &[u8] = b"";
    if let Some(inner) = rest.strip_prefix(b"[") {
        let inside = &inner[..inner.len().min(TAG_BYTES_MAX)];
        let Some(close) = memchr::memchr(b']', inside) else { return false };
        proc_id = &inner[..close];
        if memchr::memchr2(b' ', b'[', proc_id).is_some() {
            return false;
        }
        rest = &inner[close + 1..];
        if rest.first() != Some(&b':') && rest.first() != Some(&b' ') {
            return false;
        }
    }
    let behind = rest.strip_prefix(b":").unwrap_or(rest);
    let ends = matches!(behind.first(), None | Some(b' ' | b'\t' | b'[' | b'{'));
    if name.is_empty() || !ends || (proc_id.is_empty() && behind.len() == rest.len()) {
        return false;
    }
    (head.app_name, head.proc_id) = (name, proc_id);
    head.message = behind.strip_prefix(b" ").unwrap_or(behind);
    true
}

/// `%FACILITY-SEVERITY-MNEMONIC:`; the message keeps it.
fn mnemonic(head: &mut Head<'_>) -> bool {
    let message = head.message;
    let window = &message[1..message.len().min(TAG_BYTES_MAX)];
    let Some(end) = window.iter().position(|b| matches!(b, b':' | b' ')) else { return false };
    let code = &message[1..1 + end];
    if window[end] != b':' {
        return false;
    }
    let found =
        code.windows(3).rposition(|w| w[0] == b'-' && matches!(w[1], b'0'..=b'7') && w[2] == b'-');
    let Some(at) = found.filter(|at| *at > 0) else { return false };
    (head.app_name, head.msg_id) = (&code[..at], &code[at + 3..]);
    head.severity = Some(code[at + 1] - b'0');
    true
}
