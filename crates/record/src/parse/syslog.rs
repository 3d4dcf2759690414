//! The head of a syslog line: RFC 5424, RFC 3164, and what devices send under that name.
//!
//! [`head`] only finds the parts; the parser decides their meaning (year, zone, level, type).
//! Nothing is refused: a missing part is empty, and text that could not be parsed stays in the
//! message.
//!
//! Decisions where RFC 3164 and devices leave it open:
//! - The word behind the time is the host, unless it is a tag (`app:`, `app[pid]:`). Without a time
//!   there is no host, because any first word would look like one.
//! - [`super::tag`] decides what is a tag. A level (`ERROR`) is neither a host nor a tag; without
//!   PRI, a line with a level behind its time is not syslog.
//! - An IPv6 address is the same host with and without brackets; the brackets are dropped.
//! - `-` in RFC 5424 means that the field is not present.
//! - An unreadable time of RFC 5424 is noted; the words behind it keep their meaning if structured
//!   data, or `-`, follows where it should.
//! - Structured data is parsed as VictoriaLogs does, so `[id key=value]` without quotes and
//!   `[key="value"]` without a name are accepted too. VictoriaLogs drops the message behind broken
//!   structured data; here both are kept.
//! - Cisco: `%FACILITY-SEVERITY-MNEMONIC` gives `app_name` (the facility: SYS, LINK, ASA), `msg_id`
//!   (the mnemonic) and, without PRI, the level; it stays in the message, where operators search
//!   it. The number before the time is the field `sequence`.
//! - A line that a relay put its own head in front of has the head of its first sender; AIX writes
//!   `Message forwarded from HOST:`.
//! - A `*` before Cisco's time means that the clock was never set.
//!
//! Left out: the content of messages, including CEF and LEEF.

use super::head::{Head, Priority};
use super::level;
use super::message::TIME_UNREADABLE;
use super::tag::{bare_tag, is_exception, is_serial, tag};
use super::time::{self, Written};

/// A longer word is not a host name (RFC 5424 allows 255).
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

/// How certain the source is that lines are syslog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expect {
    /// Requires a PRI, or a header without PRI that cannot be anything else.
    Maybe,
    /// A time and a tag are sufficient.
    Syslog,
}

/// Finds the parts of a line, which must be trimmed. If the result has no `format`, the message is
/// the whole line.
pub(crate) fn head(line: &[u8], expect: Expect) -> Head<'_> {
    let none = Head { message: line, ..Head::default() };
    let Some((priority, rest)) = pri(line) else {
        return without_pri(line, expect).unwrap_or(none);
    };
    // Some devices put a blank, or a byte order mark, behind the PRI.
    let rest = super::without_bom(rest);
    let mut head = rfc5424(rest).or_else(|| versioned(rest)).unwrap_or_else(|| rfc3164(rest));
    // That of the first sender, if a relay put its own in front.
    head.priority = head.priority.or(Some(priority));
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
        // `journalctl -o short-unix`
        b'1' if line.get(10) == Some(&b'.') => return since_1970(line),
        // `journalctl -o short-full`: `Sat 2026-01-31 12:00:00 UTC web1 app[7]: x`
        b'A'..=b'Z' if has_weekday(line) => {
            Some(rfc3164(&line[4..])).filter(|h| is_tagged(h) && is_host_and_tag(h))?
        }
        b'A'..=b'Z' => Some(rfc3164(line)).filter(|h| !begins_with_level(h))?,
        // Many plain lines begin with digits: only a tag makes them syslog.
        b'0'..=b'9' | b'*' | b'.' if expect == Expect::Syslog => {
            Some(rfc3164(line)).filter(|h| !h.app_name.is_empty() && is_host_and_tag(h))?
        }
        // The traditional file format with ISO times, as rsyslog and syslog-ng write it.
        b'0'..=b'9' if line.get(10) == Some(&b'T') => {
            let zoned = |h: &Head<'_>| h.written.is_some_and(|w| w.zone.is_some());
            Some(rfc3164(line)).filter(|h| is_tagged(h) && zoned(h) && is_host_and_tag(h))?
        }
        // Sophos UTM, which writes no zone.
        b'0'..=b'9' if line.get(4) == Some(&b':') && line.get(10) == Some(&b'-') => {
            Some(rfc3164(line)).filter(|h| is_tagged(h) && is_host_and_tag(h))?
        }
        _ => return None,
    };
    head.written.is_some().then_some(head)
}

fn is_tagged(head: &Head<'_>) -> bool {
    !head.hostname.is_empty() && !head.app_name.is_empty()
}

/// Whether a line begins with a weekday and a year.
fn has_weekday(line: &[u8]) -> bool {
    const DAYS: [&[u8; 3]; 7] = [b"Mon", b"Tue", b"Wed", b"Thu", b"Fri", b"Sat", b"Sun"];
    let has_year = || matches!(line, [_, _, _, b' ', b'0'..=b'9', _, _, _, b'-', ..]);
    line.first_chunk::<3>().is_some_and(|day| DAYS.contains(&day)) && has_year()
}

/// `1769860800.250000 web1 app[7]: x`, with host and tag.
fn since_1970(line: &[u8]) -> Option<Head<'_>> {
    let (number, rest) = word(line);
    let (local_s, nanos) = time::since_1970(number)?;
    let (hostname, message) = word(rest);
    let may_be_host =
        is_hostname(hostname) && !hostname.ends_with(b":") && !level::is_level(hostname);
    let mut head = Head {
        format: Some("rfc3164"),
        written: Some(Written::of_utc(local_s, nanos)),
        hostname,
        message,
        ..Head::default()
    };
    let is_head = may_be_host && tag(&mut head) && is_tagged(&head) && is_host_and_tag(&head);
    is_head.then_some(head)
}

/// Whether what follows the time is a level: `Jan 31 12:00:00 ERROR x` is a line of a program that
/// writes times in this form.
fn begins_with_level(head: &Head<'_>) -> bool {
    let first = word(head.message.trim_ascii_start()).0;
    head.hostname.is_empty()
        && head.app_name.is_empty()
        && level::is_level(first.strip_suffix(b":").unwrap_or(first))
}

/// Whether the words behind a time that begins with digits are those of a syslog head, and not the
/// beginning of a text: `Starting worker: 5`, `Server listening on port: 80`, `12 app: x`.
fn is_host_and_tag(head: &Head<'_>) -> bool {
    let begins_sentence = || match head.hostname {
        [first, rest @ ..] => first.is_ascii_uppercase() && rest.iter().all(u8::is_ascii_lowercase),
        [] => false,
    };
    let is_number = || !head.hostname.is_empty() && head.hostname.iter().all(u8::is_ascii_digit);
    !head.bare && !is_number() && (!head.proc_id.is_empty() || !begins_sentence())
}

/// `<NNN>` and the text behind it.
fn pri(line: &[u8]) -> Option<(Priority<'_>, &[u8])> {
    let inner = line.strip_prefix(b"<")?;
    let (value, digits) = time::number(inner, 3)?;
    (inner.get(digits) == Some(&b'>'))
        .then(|| ((&inner[..digits], value as u16), &inner[digits + 1..]))
}

/// RFC 5424 section 6, from the version on. `None` if it is something else, for example older
/// syslog.
fn rfc5424(rest: &[u8]) -> Option<Head<'_>> {
    let (_, digits) = time::number(rest, 3)?;
    let rest = rest[digits..].strip_prefix(b" ")?;
    let is_empty = rest.is_empty();
    if let Some(head) = rfc5424_with_month(rest) {
        return Some(head);
    }
    let (timestamp, rest) = word(rest);
    let (hostname, rest) = word(rest);
    let event = rest;
    let (app_name, rest) = word(rest);
    let (proc_id, rest) = word(rest);
    let (msg_id, rest) = word(rest);
    let mut unreadable = None;
    let written = match time::iso(timestamp) {
        Some((written, length)) if length == timestamp.len() => Some(written),
        _ if timestamp == b"-" || is_empty => None,
        _ if !msg_id.is_empty() && matches!(rest, b"-" | [b'-', b' ', ..] | [b'[', ..]) => {
            unreadable = Some(TIME_UNREADABLE);
            None
        }
        _ => return None,
    };
    // Events whose senders leave out the words before the message.
    if let Some(app_name) = event_format(event) {
        return Some(Head {
            format: Some("rfc5424"),
            written,
            hostname: not_nil(unbracketed(hostname)),
            app_name,
            message: event,
            ..Head::default()
        });
    }
    let mut head = Head {
        format: Some("rfc5424"),
        written,
        note: unreadable,
        hostname: not_nil(unbracketed(hostname)),
        app_name: not_nil(app_name),
        proc_id: not_nil(proc_id),
        msg_id: not_nil(msg_id),
        ..Head::default()
    };
    let message = match rest {
        [b'-', b' ', message @ ..] => message,
        b"-" | b"" => b"",
        // A text that begins with a bracket is none of structured data.
        _ if is_of_heroku(&head) => rest,
        // The former CEE marker, in place of structured data.
        [b'@', b'c', b'e', b'e', b':', ..] => rest,
        [b'[', ..] => match structured_length(rest) {
            Some(length) => {
                head.structured = &rest[..length];
                rest[length..].strip_prefix(b" ").unwrap_or(&rest[length..])
            }
            // Check Point's pairs, which `servers` takes apart.
            None if super::servers::is_check_point(rest) => rest,
            None => {
                head.note = Some("broken structured data, kept in the message");
                rest
            }
        },
        // Behind `-` for the kind of the message, the text begins: a sender has left out the last
        // of the words. Behind another word, that may be a part of the text.
        _ if head.msg_id.is_empty() => rest,
        _ => {
            head.note = Some("no structured data before the message");
            rest
        }
    };
    head.message = super::without_bom(message);
    Some(head)
}

/// Whether a line is one of Heroku's Logplex, which writes no structured data: `host app web.1 -
/// x`, also with the token of the drain for the host (`d.` and a UUID).
fn is_of_heroku(head: &Head<'_>) -> bool {
    const TOKEN_BYTES: usize = 38;
    let is_token = head.hostname.len() == TOKEN_BYTES && head.hostname.starts_with(b"d.");
    (is_token || head.hostname == b"host")
        && matches!(head.app_name, b"app" | b"heroku")
        && head.msg_id.is_empty()
}

/// RFC 5424 with the time of RFC 3164: `1 Jan 31 12:00:00 host app - - - x`.
fn rfc5424_with_month(rest: &[u8]) -> Option<Head<'_>> {
    rest.first().filter(|b| b.is_ascii_alphabetic())?;
    let (written, length) = time::month_first(rest)?;
    let (hostname, rest) = word(rest[length..].strip_prefix(b" ")?);
    let (app_name, rest) = word(rest);
    let (proc_id, rest) = word(rest);
    let (msg_id, rest) = word(rest);
    let mut head = Head {
        format: Some("rfc5424"),
        written: Some(written),
        hostname: not_nil(unbracketed(hostname)),
        app_name: not_nil(app_name),
        proc_id: not_nil(proc_id),
        msg_id: not_nil(msg_id),
        ..Head::default()
    };
    head.message = match rest {
        [b'-', b' ', message @ ..] => message,
        b"-" => b"",
        [b'[', ..] => {
            let length = structured_length(rest)?;
            head.structured = &rest[..length];
            rest[length..].strip_prefix(b" ").unwrap_or(&rest[length..])
        }
        _ => return None,
    };
    head.message = super::without_bom(head.message);
    Some(head)
}

/// `CEF` or `LEEF`, if the text is an event in that format.
fn event_format(text: &[u8]) -> Option<&[u8]> {
    match text {
        [b'C', b'E', b'F', b':', ..] => Some(&text[..3]),
        [b'L', b'E', b'E', b'F', b':', ..] => Some(&text[..4]),
        _ => None,
    }
}

/// Text that follows a version but is not RFC 5424: the time of RFC 3164, or of Cisco's Meraki (`1
/// 1769860800.123456789 MX84 flows src=…`).
fn versioned(rest: &[u8]) -> Option<Head<'_>> {
    let rest = rest.strip_prefix(b"1 ")?;
    if timestamp(rest).is_some() {
        return Some(rfc3164(rest));
    }
    let (number, rest) = word(rest);
    let (local_s, nanos) = time::since_1970(number).filter(|_| number.contains(&b'.'))?;
    let (hostname, rest) = word(rest);
    let (app_name, message) = word(rest);
    Some(Head {
        format: Some("rfc3164"),
        written: Some(Written::of_utc(local_s, nanos)),
        hostname,
        app_name,
        message,
        ..Head::default()
    })
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

/// Length of the structured data at the start; `None` if it is broken.
fn structured_length(text: &[u8]) -> Option<usize> {
    structured(text, |_, _| ())
}

/// Walks over structured data (RFC 5424 section 6.3). `visit` gets each element's name, and for
/// each parameter its name and value, still escaped; for an element without parameters it is called
/// once. Also accepted: values without quotes, up to a blank or bracket, and elements without a
/// name, which is then empty. Returns the number of bytes, or `None` if the data is broken.
pub(crate) fn structured<'a>(
    text: &'a [u8],
    mut visit: impl FnMut(&'a [u8], Option<(&'a [u8], &'a [u8])>),
) -> Option<usize> {
    let mut at = 0;
    while text.get(at) == Some(&b'[') {
        at += 1;
        let mut id = sd_name(&text[at..])?;
        match text.get(at + id.len()) {
            Some(b'=') => id = b"",
            _ => at += id.len(),
        }
        let mut params = 0;
        loop {
            match text.get(at)? {
                b']' => break,
                b' ' => at += 1,
                _ if id.is_empty() && params == 0 => {}
                _ => return None,
            }
            if text.get(at) == Some(&b' ') || text.get(at) == Some(&b']') {
                continue;
            }
            let name = sd_name(&text[at..])?;
            at += name.len();
            if text.get(at) != Some(&b'=') {
                return None;
            }
            at += 1;
            if text.get(at) != Some(&b'"') {
                let length = text[at..].iter().position(|b| matches!(b, b' ' | b']' | b'"'))?;
                visit(id, Some((name, &text[at..at + length])));
                (params, at) = (params + 1, at + length);
                continue;
            }
            at += 1;
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

/// Appends a parameter's value without its escapes: `\"`, `\\`, `\]`; any other backslash is
/// literal.
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

/// Heads of relays in front of that of the first sender. Further ones stay in the message.
const RELAYS_MAX: usize = 3;

/// RFC 3164 and similar formats, from behind the PRI.
fn rfc3164(rest: &[u8]) -> Head<'_> {
    rfc3164_behind(rest, 0)
}

/// The same behind the heads of `relays` relays.
fn rfc3164_behind(rest: &[u8], relays: usize) -> Head<'_> {
    let mut head = Head { format: Some("rfc3164"), ..Head::default() };
    let mut rest = rest.trim_ascii_start();
    let mut timed = timestamp(rest);
    if timed.is_none() {
        rest = cisco_prefix(rest, &mut head);
        timed = timestamp(rest);
    }
    let unreadable = if timed.is_none() { like_timestamp(rest) } else { None };
    if unreadable.is_some() {
        head.note = Some(TIME_UNREADABLE);
    }
    let timed = timed.map(|(written, length, unset)| (Some(written), length, unset));
    let timed = timed.or_else(|| unreadable.map(|length| (None, length, false)));
    let Some((written, length, clock_unset)) = timed else {
        head.message = rest;
        if begins_firewall(rest) {
            head.hostname = named_device(rest);
        } else {
            tag(&mut head);
        }
        return head;
    };
    (head.written, head.clock_unset) = (written, clock_unset);
    rest = behind_zone(&rest[length..]);
    // `12:00:00: %SYS…` of Cisco, `12:00:00 : %ASA…`, `12:00:00.123 : SSHD[1]…` of IOS XR.
    let colon = rest.starts_with(b":") || rest.starts_with(b" : ");
    if colon {
        rest = rest.strip_prefix(b" ").unwrap_or(rest);
        rest = &rest[1..];
    }
    rest = rest.strip_prefix(b" ").unwrap_or(rest);
    head.message = rest;
    let mut has_host = false;
    if let Some(found) = forwarded(rest).or_else(|| unifi(rest)) {
        (head.hostname, head.message) = found;
        tag(&mut head);
        return head;
    }
    if !colon && (netapp(&mut head) || named_cisco(&mut head)) {
        return head;
    }
    if rest.first() == Some(&b' ') && packet_engine(&mut head) {
        return head;
    }
    if !colon && !tag(&mut head) && head.hostname.is_empty() {
        let (first, behind) = word(rest.trim_ascii_start());
        let first = unbracketed(first);
        let label = first.strip_suffix(b":");
        if level::is_level(label.unwrap_or(first)) || label.is_some_and(is_exception) {
            return head;
        }
        if is_hostname(first) {
            has_host = true;
            head.hostname = not_nil(first);
            head.message = behind;
            if packet_engine(&mut head) || relayed(&mut head, relays + 1) {
                return head;
            }
            // `asa1 : %ASA-6-…`: an empty tag.
            if let Some(behind) = head.message.strip_prefix(b": ") {
                (head.message, has_host) = (behind, false);
            }
            between_host_and_tag(&mut head);
        }
    }
    if head.app_name.is_empty() && !tag(&mut head) && has_host {
        bare_tag(&mut head);
    }
    head
}

/// The text behind a name that Cisco writes for a zone, which can be any word (` ET: %SYS…`,
/// ` Berlin: %SYS…`); the whole text if there is none. Names of known zones are a part of the time.
fn behind_zone(rest: &[u8]) -> &[u8] {
    let [b' ', name @ ..] = rest else { return rest };
    let length =
        name.iter().take(ZONE_BYTES_MAX + 1).take_while(|b| b.is_ascii_alphabetic()).count();
    let behind = &name[length..];
    if length >= 2 && behind.starts_with(b": %") { behind } else { rest }
}

/// The longest name that Cisco accepts has 7 bytes in most versions.
const ZONE_BYTES_MAX: usize = 32;

/// AIX: `Message forwarded from HOST: ` in place of the host. Host, and the text behind.
fn forwarded(rest: &[u8]) -> Option<(&[u8], &[u8])> {
    let behind = rest.strip_prefix(b"Message forwarded from ")?;
    let (host, message) = word(behind);
    let host = host.strip_suffix(b":")?;
    (!host.is_empty() && is_hostname(host)).then_some((host, message))
}

/// Data ONTAP: `[filer1:wafl.vol.full:notice]: x` in place of host and tag, with host, event and
/// level.
fn netapp(head: &mut Head<'_>) -> bool {
    let Some(inner) = head.message.strip_prefix(b"[") else { return false };
    let window = &inner[..inner.len().min(HOSTNAME_BYTES_MAX)];
    let Some(end) = memchr::memmem::find(window, b"]: ") else { return false };
    let mut parts = inner[..end].split(|b| *b == b':');
    let (Some(host), Some(event), Some(level), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return false;
    };
    let level = level::from_word(level);
    if level.is_none() || host.is_empty() || !is_hostname(host) || !event.contains(&b'.') {
        return false;
    }
    (head.hostname, head.msg_id, head.level) = (host, event, level);
    head.message = &inner[end + 3..];
    true
}

/// A host with a colon in front of a mnemonic of Cisco: `asa1: %FTD-6-302013: x`.
fn named_cisco(head: &mut Head<'_>) -> bool {
    let (first, behind) = word(head.message);
    let Some(host) = first.strip_suffix(b":") else { return false };
    let mut inside = Head { message: behind, ..Head::default() };
    if !behind.starts_with(b"%") || !is_hostname(host) || !tag(&mut inside) {
        return false;
    }
    (head.hostname, head.app_name, head.msg_id) = (host, inside.app_name, inside.msg_id);
    (head.severity, head.message) = (inside.severity, behind);
    true
}

/// Ubiquiti: `MODEL,MAC,VERSION: `, also as `("MODEL,MAC,VERSION") `, in place of the host.
fn unifi(rest: &[u8]) -> Option<(&[u8], &[u8])> {
    let (first, message) = word(rest);
    if !first.ends_with(b":") && !first.starts_with(b"(\"") || memchr::memchr(b',', first).is_none()
    {
        return None;
    }
    let inner = first.strip_prefix(b"(\"").and_then(|inner| inner.strip_suffix(b"\")"));
    let inner = inner.or_else(|| first.strip_suffix(b":"))?;
    let mut parts = inner.split(|b| *b == b',');
    let (model, mac, version) = (parts.next()?, parts.next()?, parts.next()?);
    let is_it = is_mac(mac) && !version.is_empty() && parts.next().is_none() && is_hostname(model);
    is_it.then_some((model, message))
}

/// Twelve hexadecimal digits.
fn is_mac(text: &[u8]) -> bool {
    text.len() == 12 && text.iter().all(u8::is_ascii_hexdigit)
}

/// What devices write between host and tag: F5 the level (`info tmm1[12]: x`), AIX facility and
/// level (`auth|security:info sshd[12]: x`), ProCurve the number of the event (`00179 mgr: x`),
/// Ubiquiti address and version (`0123456789ab,U7-4.0:
/// hostapd: x`), WatchGuard its serial number, and a process without a name (`[712]: x`).
fn between_host_and_tag(head: &mut Head<'_>) {
    let (first, behind) = word(head.message);
    if first.len() > 13
        && first.get(12) == Some(&b',')
        && is_mac(&first[..12])
        && first.ends_with(b":")
    {
        head.message = behind;
    } else if let [b'[', inner @ ..] = first
        && let Some(proc_id) = inner.strip_suffix(b"]:")
        && !proc_id.is_empty()
        && proc_id.iter().all(u8::is_ascii_digit)
    {
        (head.proc_id, head.message) = (proc_id, behind);
    } else if first.len() == 5 && first.iter().all(u8::is_ascii_digit) {
        let mut inside = Head { message: behind, ..Head::default() };
        if tag(&mut inside) && inside.severity.is_none() && !inside.app_name.is_empty() {
            (head.app_name, head.proc_id) = (inside.app_name, inside.proc_id);
            (head.message, head.msg_id) = (inside.message, first);
        }
    } else if first.first().is_some_and(u8::is_ascii_lowercase)
        && let Some(level) = level::from_word(behind_facility(first))
    {
        let mut inside = Head { message: behind, ..Head::default() };
        if tag(&mut inside) && !inside.app_name.is_empty() {
            (head.app_name, head.proc_id) = (inside.app_name, inside.proc_id);
            (head.message, head.level) = (inside.message, Some(level));
        }
    } else if let Some(inside) = watchguard(first, behind) {
        (head.app_name, head.proc_id) = (inside.app_name, inside.proc_id);
    }
}

/// WatchGuard: the serial number and the time in UTC before the tag, which stay in the message:
/// `FVE61035702AE (2026-01-31T12:00:00) firewall: x`.
fn watchguard<'a>(serial: &[u8], behind: &'a [u8]) -> Option<Head<'a>> {
    let inner = behind.strip_prefix(b"(").filter(|_| is_serial(serial))?;
    let (_, length) = time::iso(inner)?;
    let message = inner[length..].strip_prefix(b") ")?;
    let mut inside = Head { message, ..Head::default() };
    tag(&mut inside).then_some(inside)
}

/// The level of `auth|security:info`; the whole word if there is no facility in front.
fn behind_facility(word: &[u8]) -> &[u8] {
    let Some(colon) = memchr::memchr(b':', word) else { return word };
    let facility = word[..colon].split(|b| *b == b'|').next().unwrap_or_default();
    match FACILITY_KEYWORDS.iter().any(|known| known.as_bytes() == facility) {
        true => &word[colon + 1..],
        false => word,
    }
}

/// NetScaler: `0-PPE-0 : default SSLLOG SSL_HANDSHAKE_SUCCESS 12 0 : x` behind the host. The engine
/// is the process, the feature the application.
fn packet_engine(head: &mut Head<'_>) -> bool {
    let (engine, behind) = word(head.message.trim_ascii_start());
    let is_engine = engine.starts_with(b"PPE-")
        || engine.get(1..).is_some_and(|behind| behind.starts_with(b"-PPE-"));
    let Some(message) = behind.strip_prefix(b": ").filter(|_| is_engine) else { return false };
    let is_feature = |word: &[u8]| {
        word.len() >= 2 && word.iter().all(|b| b.is_ascii_uppercase() || b"_-".contains(b))
    };
    let (first, rest) = word(message.trim_ascii_start());
    let (feature, rest) = if is_feature(first) { (first, rest) } else { word(rest) };
    (head.proc_id, head.message) = (engine, message);
    if is_feature(feature) {
        (head.app_name, head.msg_id) = (feature, word(rest).0);
    }
    true
}

/// A message that is a syslog line itself, behind the head that a relay put in front: the head of
/// the first sender counts. Returns whether it was one.
fn relayed(head: &mut Head<'_>, relays: usize) -> bool {
    if relays > RELAYS_MAX {
        return false;
    }
    let message = head.message.trim_ascii_start();
    let inner = match message.first() {
        Some(b'<') => match pri(message) {
            Some((priority, rest)) => {
                let rest = super::without_bom(rest);
                let inner = rfc5424(rest).unwrap_or_else(|| rfc3164_behind(rest, relays));
                Head { priority: Some(priority), ..inner }
            }
            None => return false,
        },
        Some(b'0'..=b'9' | b'*' | b'.' | b':') => rfc3164_behind(message, relays),
        Some(_) => {
            let (name, behind) = word(message);
            let may_be = (3..=10).contains(&name.len())
                && behind.first().is_some_and(|b| b.is_ascii_digit() || *b == b' ');
            if !may_be || time::month_name(name).is_none() {
                return false;
            }
            rfc3164_behind(message, relays)
        }
        None => return false,
    };
    let is_cisco = inner.severity.is_some();
    let is_head = inner.written.is_some()
        && !inner.hostname.is_empty()
        && !inner.app_name.is_empty()
        && is_host_and_tag(&inner);
    if !(is_head || is_cisco) {
        return false;
    }
    let (outer_host, outer_priority) = (head.hostname, head.priority);
    let written = inner.written.or(head.written);
    *head = Head { written, priority: inner.priority.or(outer_priority), ..inner };
    if head.hostname.is_empty() {
        head.hostname = outer_host;
    }
    true
}

/// Whether a text is pairs of a firewall of Fortinet or Sophos, or of another device of Fortinet.
pub(crate) fn is_firewall(message: &[u8]) -> bool {
    // FortiMail and FortiWeb name the number of the device alone.
    let is_numbered = || memchr::memmem::find(message, b" device_id=").is_some();
    begins_firewall(message) && (!named_device(message).is_empty() || is_numbered())
}

/// Whether a text begins as pairs of a firewall do: of FortiOS up to 5 with `logver=` in front, of
/// Sophos since SFOS 18 with the name of the device.
fn begins_firewall(message: &[u8]) -> bool {
    let keys: [&[u8]; 5] = [b"date=", b"device=", b"device_name=", b"logver=", b"timestamp="];
    keys.iter().any(|key| message.starts_with(key))
}

/// The device name that a firewall of Fortinet or Sophos writes in its pairs.
fn named_device(message: &[u8]) -> &[u8] {
    for key in [&b"devname="[..], b"device_name="] {
        let is_whole = |at: &usize| *at == 0 || message[*at - 1] == b' ';
        let found = memchr::memmem::find_iter(message, key).find(is_whole);
        let Some(at) = found else { continue };
        let value = &message[at + key.len()..];
        let (value, end) = match value.strip_prefix(b"\"") {
            Some(value) => (value, b'"'),
            None => (value, b' '),
        };
        let value = &value[..memchr::memchr(end, value).unwrap_or(value.len())];
        if is_hostname(value) {
            return value;
        }
    }
    b""
}

/// An IPv6 address without the brackets around it; any other word unchanged.
fn unbracketed(word: &[u8]) -> &[u8] {
    let [b'[', inner @ .., b']'] = word else { return word };
    if inner.contains(&b':') && is_hostname(inner) { inner } else { word }
}

fn timestamp(text: &[u8]) -> Option<(Written, usize, bool)> {
    let (marks, text) = match text {
        [b'*' | b'.', behind @ ..] => (1, behind),
        _ => (0, text),
    };
    let (written, length) = match text.first()? {
        b'A'..=b'Z' | b'a'..=b'z' => time::month_first(text)?,
        b'0'..=b'9' => time::iso(text)
            .or_else(|| time::year_first(text))
            .or_else(|| time::slashed(text))
            .or_else(|| time::joined(text))?,
        _ => return None,
    };
    let clock_unset = marks == 1; // `.` says: set once, but no longer synchronised.
    let ends = matches!(text.get(length), Some(b' ' | b':') | None);
    ends.then_some((written, length + marks, clock_unset))
}

/// Length of a text that has the form of a time, but is none: `Nov 31 12:00:00`,
/// `2026-13-01T12:00:00Z`.
pub(crate) fn like_timestamp(text: &[u8]) -> Option<usize> {
    let like = |form: &[u8]| {
        let text = text.get(..form.len())?;
        let fits = text.iter().zip(form).all(|(b, form)| match form {
            b'a' => b.is_ascii_alphabetic(),
            b'0' => b.is_ascii_digit(),
            b'_' => b.is_ascii_digit() || *b == b' ',
            b'T' => matches!(b, b'T' | b' '),
            _ => b == form,
        });
        fits.then_some(form.len())
    };
    let length = like(b"aaa _0 00:00:00").or_else(|| like(b"0000-00-00T00:00:00"))?;
    let more = text[length..].iter().take(16);
    let more = more.take_while(|b| b.is_ascii_digit() || b".,+-:Z".contains(b)).count();
    let length = length + more - usize::from(text[..length + more].ends_with(b":"));
    matches!(text.get(length), None | Some(b' ' | b':' | b']')).then_some(length)
}

/// Skips `1234: `, `router1: `, `1w2d: `, `*task: `, `: `, `router1 RP/0/RSP0/CPU0:` before the
/// time or mnemonic of a Cisco device. If neither follows, the text is not Cisco's, and `text` is
/// returned unchanged.
fn cisco_prefix<'a>(text: &'a [u8], head: &mut Head<'a>) -> &'a [u8] {
    const PARTS_MAX: usize = 4;
    const CLOCK_BYTES_MAX: usize = 40;
    // Nexus and ASA.
    let mut rest =
        text.strip_prefix(b":").map_or(text, |behind| behind.strip_prefix(b" ").unwrap_or(behind));
    let (mut hostname, mut sequence): (&[u8], &[u8]) = (b"", b"");
    for _ in 0..PARTS_MAX {
        let is_of_cisco = |(_, length, _): (Written, usize, bool)| {
            let behind = &rest[length..];
            // `app: 2026-01-31 12:00:00 x` is a program and its message.
            let is_iso = matches!(rest.get(4), Some(b'-' | b'/'));
            let has_colon = behind.starts_with(b":") || behind.starts_with(b" :");
            hostname.is_empty() || has_colon || !is_iso
        };
        if rest.starts_with(b"%") || timestamp(rest).is_some_and(is_of_cisco) {
            (head.hostname, head.sequence) = (hostname, sequence);
            return rest;
        }
        let (part, behind) = word(rest);
        if let Some(node) = node_bytes(part) {
            rest = &rest[node..];
            continue;
        }
        // `xr1:Jan 31 12:00:00: …`
        if let Some(colon) = memchr::memchr(b':', part).filter(|at| *at > 0)
            && is_hostname(&part[..colon])
            && timestamp(&rest[colon + 1..]).is_some()
        {
            (hostname, rest) = (&part[..colon], &rest[colon + 1..]);
            continue;
        }
        let behind = behind.trim_ascii_start();
        match part.strip_suffix(b":") {
            Some(b"") => break,
            Some([b'*', task @ ..]) if is_hostname(task) => {}
            Some(part) if part.iter().all(u8::is_ascii_digit) => sequence = part,
            Some(part) if is_uptime(part) => {}
            Some(part) if is_hostname(part) => hostname = part,
            None if is_hostname(part) && node_bytes(word(behind).0).is_some() => hostname = part,
            _ => break,
        }
        rest = behind;
    }
    // An unknown clock: `1 2: %SYS-5-RESTART: x`.
    if rest.len() < text.len()
        && let Some(at) = memchr::memmem::find(&rest[..rest.len().min(CLOCK_BYTES_MAX)], b": %")
    {
        let mut behind = Head { message: &rest[at + 2..], ..Head::default() };
        if tag(&mut behind) && behind.severity.is_some() {
            (head.hostname, head.sequence) = (hostname, sequence);
            return &rest[at + 2..];
        }
    }
    text
}

/// Length of `RP/0/RSP0/CPU0:`, which IOS XR writes directly before the time.
fn node_bytes(word: &[u8]) -> Option<usize> {
    let at = memchr::memchr(b':', word)?;
    let node = &word[..at];
    (node.contains(&b'/') && node.ends_with(b"CPU0")).then_some(at + 1)
}

/// `1w2d`, `3d04h`, `00:00:46`: uptime, which Cisco writes without a clock.
fn is_uptime(text: &[u8]) -> bool {
    text.first().is_some_and(u8::is_ascii_digit)
        && text
            .iter()
            .all(|b| b.is_ascii_digit() || matches!(b, b'y' | b'w' | b'd' | b'h' | b':' | b'.'))
}

fn is_hostname(word: &[u8]) -> bool {
    let allowed = |b: &u8| b.is_ascii_alphanumeric() || b".-_:%@/~".contains(b) || *b >= 0x80;
    let named = |b: &u8| b.is_ascii_alphanumeric() || *b >= 0x80;
    word.len() <= HOSTNAME_BYTES_MAX
        && word.iter().all(allowed)
        && (word.iter().any(named) || word == b"-")
        && !word.starts_with(b"%")
}
