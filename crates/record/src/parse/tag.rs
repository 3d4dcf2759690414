//! The tag of an RFC 3164 message: the program that wrote it, and its process id.
//!
//! Decisions:
//! - `app: `, `app[12]: ` and `app[12] ` are tags; also without a blank behind the colon,
//!   `app[12]:hello` and `app:hello`, unless it is an address (`fe80::1`, `db1:5432`), a path
//!   (`C:\x`), a URL, or ESXi's `cpu2:2097)`.
//! - `app hello`, without colon, has a tag behind time and host only, as in VictoriaLogs. Unlike
//!   there, a word that probably begins a sentence stays in the message: one with a capital and
//!   small letters (`Connection closed`), a level (`ERROR …`), syslogd's own `last message
//!   repeated`, and a message of one word; a `_msg` without its first word would be worse than a
//!   line without `app_name`.
//! - A level (`ERROR: x`) and a number (`12: x`) are not tags, nor are the name of an exception
//!   (`java.io.IOException: x`), `at` of a trace, and the key `Severity: `.
//! - The mnemonics of Cisco, Huawei and H3C (`%SYS-5-RESTART: x`, `%%01SHELL/5/LOGIN: x`) name the
//!   program, the kind of message and the severity, and stay in the message.
//! - The tags `CEF` and `LEEF` stay in the message, which cannot be parsed without it.

use super::head::Head;
use super::{level, time};

/// A longer first word of a message is not a tag. RFC 3164 allows 32 bytes, real programs use more.
const TAG_BYTES_MAX: usize = 128;
/// A longer word without a colon is not a tag: the limit of RFC 5424 for the name of a program.
const BARE_TAG_BYTES_MAX: usize = 48;

/// Removes `app: `, `app[pid]: ` or a Cisco mnemonic from the start of the message; returns whether
/// there was one.
pub(crate) fn tag(head: &mut Head<'_>) -> bool {
    let message = head.message.trim_ascii_start();
    if message.starts_with(b"%") {
        head.message = message;
        return mnemonic(head);
    }
    let window = &message[..message.len().min(TAG_BYTES_MAX)];
    if matches!(window.first(), None | Some(b'{' | b'"' | b'\'' | b'<' | b'[' | b'=')) {
        return false;
    }
    if window.first() == Some(&b'(') && !is_of_systemd(window) {
        return false;
    }
    let Some(end) = window.iter().position(|b| matches!(b, b' ' | b':' | b'[' | b'\t')) else {
        return false;
    };
    let (name, mut rest) = (&message[..end], &message[end..]);
    if matches!(name, b"CEF" | b"LEEF") && rest.starts_with(b":") {
        head.message = message;
        if head.written.is_some() {
            head.app_name = name;
        }
        return true;
    }
    let (mut proc_id, mut bracketed): (&[u8], _) = (b"", false);
    if let Some(inner) = rest.strip_prefix(b"[") {
        let inside = &inner[..inner.len().min(TAG_BYTES_MAX)];
        let Some(close) = memchr::memchr(b']', inside) else { return false };
        (proc_id, bracketed) = (&inner[..close], true);
        if memchr::memchr2(b' ', b'[', proc_id).is_some() {
            return false;
        }
        rest = &inner[close + 1..];
        if !matches!(rest.first(), None | Some(b':' | b' ')) {
            return false;
        }
    }
    let behind = rest.strip_prefix(b":").unwrap_or(rest);
    let colon = behind.len() < rest.len();
    if name.is_empty() || (!colon && proc_id.is_empty()) {
        return false;
    }
    // `ERROR: x` is a message without tag; `1234: Jan 31 …` is Cisco's number of a message.
    let is_number = || name.iter().all(u8::is_ascii_digit);
    // `12[IKE] x` of strongSwan is a thread and a part of it.
    if !proc_id.iter().all(u8::is_ascii_digit) && is_number() {
        return false;
    }
    if proc_id.is_empty()
        && (level::from_word(name).is_some()
            || is_number()
            || is_exception(name)
            || name == b"Severity")
    {
        return false;
    }
    let ends = matches!(behind.first(), None | Some(b' ' | b'\t' | b'[' | b'{'));
    if !(ends || bracketed || glued(name, behind)) {
        return false;
    }
    (head.app_name, head.proc_id) = (name, proc_id);
    head.message = behind.strip_prefix(b" ").unwrap_or(behind);
    true
}

/// `(systemd)[712]:`: so systemd names a process before it executes a program in it.
fn is_of_systemd(window: &[u8]) -> bool {
    let Some(close) = memchr::memchr(b')', window) else { return false };
    let Some(inner) = window[close + 1..].strip_prefix(b"[") else { return false };
    let digits = inner.iter().take_while(|b| b.is_ascii_digit()).count();
    close > 1
        && window[1..close].iter().all(is_of_program)
        && digits > 0
        && inner[digits..].starts_with(b"]:")
}

/// `java.io.IOException`: the first line of a trace whose sender sends it line by line.
pub(crate) fn is_exception(name: &[u8]) -> bool {
    name.contains(&b'.') && (name.ends_with(b"Exception") || name.ends_with(b"Error"))
}

/// Whether `name:behind` is a tag directly followed by its message, and not an address, a path or a
/// URL.
fn glued(name: &[u8], behind: &[u8]) -> bool {
    let first_word = &behind[..behind.iter().position(|b| *b == b' ').unwrap_or(behind.len())];
    let digits = behind.iter().take_while(|b| b.is_ascii_digit()).count();
    let is_port =
        (1..=5).contains(&digits) && matches!(behind.get(digits), None | Some(b' ' | b'/' | b')'));
    let is_address = first_word.contains(&b':')
        && name.iter().chain(first_word).all(|b| b.is_ascii_hexdigit() || b".:%".contains(b));
    name.len() >= 2
        && name[0].is_ascii_alphabetic()
        && name.iter().all(is_of_program)
        && !matches!(behind[0], b':' | b'/' | b'\\')
        && !is_port
        && !is_address
}

/// Removes the first word of a message behind time and host as a tag without colon.
pub(crate) fn bare_tag(head: &mut Head<'_>) {
    let message = head.message.trim_ascii_start();
    let window = &message[..message.len().min(BARE_TAG_BYTES_MAX + 1)];
    let Some(end) = window.iter().position(|b| matches!(b, b' ' | b'\t')) else { return };
    let name = &message[..end];
    // Only the word decides, so that a cached head (`heads`) need not examine the message.
    let begins_sentence =
        || name[1..].iter().all(u8::is_ascii_lowercase) && name[0].is_ascii_uppercase();
    if name.len() >= 2
        && name[0].is_ascii_alphabetic()
        && name.iter().all(is_of_program)
        && name.last() != Some(&b'.')
        && !begins_sentence()
        && !is_serial(name)
        && !matches!(name, b"last" | b"message" | b"forwarded" | b"at")
        && time::month_name(name).is_none()
        && level::from_word(name).is_none()
    {
        (head.app_name, head.message, head.bare) = (name, &message[end + 1..], true);
    }
}

/// Whether a word has the form of a serial number of WatchGuard, which a tag may follow.
pub(crate) fn is_serial(word: &[u8]) -> bool {
    word.len() == 13
        && word.iter().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit())
        && word.iter().any(u8::is_ascii_digit)
}

fn is_of_program(byte: &u8) -> bool {
    byte.is_ascii_alphanumeric() || b"_-./()+@".contains(byte)
}

/// `%FACILITY-SEVERITY-MNEMONIC:`; the message keeps it. ACI writes no colon, and small switches a
/// letter for the severity: `%LINK-W-Down: x`.
fn mnemonic(head: &mut Head<'_>) -> bool {
    let message = head.message;
    if message.starts_with(b"%%") {
        return of_huawei(head);
    }
    let window = &message[1..message.len().min(TAG_BYTES_MAX)];
    let Some(end) = window.iter().position(|b| matches!(b, b':' | b' ')) else { return false };
    let code = &message[1..1 + end];
    // IOS XR puts a blank before the colon.
    let has_colon = window[end] == b':' || window.get(end + 1) == Some(&b':');
    let is_of_code =
        |b: &u8| b.is_ascii_uppercase() || b.is_ascii_digit() || matches!(b, b'_' | b'-');
    if !has_colon && !code.iter().all(is_of_code) {
        return false;
    }
    let by_digit = code.windows(3).rposition(|w| is_between(w, of_digit));
    let by_letter = || code.windows(3).position(|w| has_colon && is_between(w, of_letter));
    let Some(at) = by_digit.or_else(by_letter).filter(|at| *at > 0) else { return false };
    (head.app_name, head.msg_id) = (&code[..at], &code[at + 3..]);
    head.severity = of_digit(code[at + 1]).or_else(|| of_letter(code[at + 1]));
    true
}

/// Whether three bytes are a severity between hyphens.
fn is_between(three: &[u8], of: fn(u8) -> Option<u8>) -> bool {
    three[0] == b'-' && of(three[1]).is_some() && three[2] == b'-'
}

/// The severity that a mnemonic states as a digit.
fn of_digit(byte: u8) -> Option<u8> {
    matches!(byte, b'0'..=b'7').then(|| byte - b'0')
}

/// The severity that a mnemonic states as a letter.
fn of_letter(byte: u8) -> Option<u8> {
    Some(match byte {
        b'A' => 1,
        b'F' | b'C' => 2,
        b'E' => 3,
        b'W' => 4,
        b'N' => 5,
        b'I' => 6,
        b'D' => 7,
        _ => return None,
    })
}

/// `%%01SHELL/5/CMDRECORD(l)[12]:x` of Huawei, `%%10SHELL/5/SHELL_LOGIN: x` of H3C: a version of
/// two digits, the module, the severity, and what happened. The message keeps it.
fn of_huawei(head: &mut Head<'_>) -> bool {
    let message = head.message;
    let window = &message[2..message.len().min(TAG_BYTES_MAX)];
    if time::two(window, 0).is_none() {
        return false;
    }
    let mut parts = window[2..].splitn(3, |b| *b == b'/');
    let (Some(module), Some([severity]), Some(rest)) = (parts.next(), parts.next(), parts.next())
    else {
        return false;
    };
    let is_of_name = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-');
    let length = rest.iter().take_while(|b| is_of_name(b)).count();
    let ends = matches!(rest.get(length), Some(b':' | b'(' | b'['));
    let severity = of_digit(*severity);
    if module.is_empty() || !module.iter().all(is_of_name) || severity.is_none() {
        return false;
    }
    if length == 0 || !ends {
        return false;
    }
    (head.app_name, head.msg_id, head.severity) = (module, &rest[..length], severity);
    true
}
