//! Access lines of Apache and nginx: the common and the combined format, also with the virtual host
//! in front.
//!
//! The user is what the client sent, whether it is known or not, and may have blanks. What follows
//! it decides where it ends: the time in brackets with a quote behind it, which servers escape in a
//! name.
//!
//! A `-` means "not present" and does not become a field, nor does it for `bytes`: sums stay the
//! same, and counts of known sizes are right. A request that is not `METHOD PATH PROTOCOL` is kept
//! whole as `request`. What follows the user agent is left to `servers`. Left out: custom log
//! formats.

use std::net::IpAddr;

use super::short;
use super::time::Written;
use super::times::Times;

/// A user is searched for its end within this many bytes: clients cannot send longer headers.
const USER_BYTES_MAX: usize = 8 << 10;

/// The parts of an access line; an empty slice means "not present".
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Access<'a> {
    pub vhost: &'a [u8],
    pub client_ip: &'a [u8],
    pub ident: &'a [u8],
    pub user: &'a [u8],
    pub written: Option<Written>,
    pub method: &'a [u8],
    pub path: &'a [u8],
    pub protocol: &'a [u8],
    /// The request, if it has no method and path.
    pub request: &'a [u8],
    pub status: &'a [u8],
    pub bytes: &'a [u8],
    pub referer: &'a [u8],
    pub user_agent: &'a [u8],
    /// What follows the user agent, with the blank in front.
    pub tail: &'a [u8],
}

/// The parts, or `None` if the line has another format.
pub(crate) fn parse<'a>(line: &'a [u8], times: &mut Times) -> Option<Access<'a>> {
    // Excludes nearly all other lines.
    if !short::third_or_fourth_before(b'[', line) && !has_no_ident(line) {
        return None;
    }
    let (first, rest) = word(line)?;
    let (second, behind_second) = word(rest)?;
    let mut access = Access { client_ip: first, ident: second, ..Access::default() };
    // `- -` may also be the missing client and ident of a virtual host.
    let of_client = match second == b"-" && !behind_second.starts_with(b"- ") {
        true => user(first, behind_second),
        false => None,
    };
    let rest: &[u8];
    if let Some(found) = of_client {
        (access.user, rest) = found;
    } else {
        let (third, behind_third) = word(behind_second)?;
        if begins_time(behind_third) {
            (access.user, rest) = (third, behind_third);
        } else {
            (access.vhost, access.client_ip, access.ident) = (first, second, third);
            (access.user, rest) = match third {
                b"-" => user(second, behind_third)?,
                _ => word(behind_third)?,
            };
        }
    }
    let inner = rest.strip_prefix(b"[")?;
    access.written = Some(times.of_access(inner.get(..26)?)?);
    let (request, rest) = quoted(inner[26..].strip_prefix(b"] ")?)?;
    let (status, rest) = word(rest.strip_prefix(b" ")?)?;
    if status != b"-" && (status.len() != 3 || !status.iter().all(u8::is_ascii_digit)) {
        return None;
    }
    let (bytes, rest) = word(rest).unwrap_or((rest, b""));
    if bytes != b"-" && (bytes.is_empty() || !bytes.iter().all(u8::is_ascii_digit)) {
        return None;
    }
    (access.status, access.bytes) = (there(status), there(bytes));
    split_request(request, &mut access);
    if let Some((referer, rest)) = quoted(rest) {
        access.referer = there(referer);
        if let Some((user_agent, tail)) = rest.strip_prefix(b" ").and_then(quoted) {
            (access.user_agent, access.tail) = (there(user_agent), tail);
        }
    }
    access.ident = there(access.ident);
    access.user = there(access.user);
    access.client_ip = there(access.client_ip);
    Some(access)
}

/// Whether the second or the third word is `-`, as the ident of nearly all access lines is: what
/// follows may be a user with any number of blanks.
fn has_no_ident(line: &[u8]) -> bool {
    let begins = |text: &[u8]| text.starts_with(b"- ");
    behind_word(line).is_some_and(|rest| begins(rest) || behind_word(rest).is_some_and(begins))
}

fn behind_word(text: &[u8]) -> Option<&[u8]> {
    let at = short::first_blank(text)?;
    Some(&text[at + 1..])
}

/// The user at the start of a text, and the time behind it. A user with blanks is only looked for
/// behind the address of a client, so that text is not taken for one.
fn user<'a>(client: &[u8], text: &'a [u8]) -> Option<(&'a [u8], &'a [u8])> {
    if let Some((user, rest)) = word(text)
        && begins_time(rest)
    {
        return Some((user, rest));
    }
    std::str::from_utf8(client).ok()?.parse::<IpAddr>().ok()?;
    let window = &text[..text.len().min(USER_BYTES_MAX)];
    let at = memchr::memmem::find_iter(window, b" [").find(|at| begins_time(&text[at + 1..]))?;
    Some((&text[..at], &text[at + 1..]))
}

/// Whether a text begins like `[17/May/2015:10:05:03 +0000] "`.
fn begins_time(text: &[u8]) -> bool {
    text.first() == Some(&b'[') && text.get(27..30) == Some(&b"] \""[..])
}

/// Takes a request apart; one without method and path is kept whole.
pub(crate) fn split_request<'a>(request: &'a [u8], access: &mut Access<'a>) {
    let method = request.iter().take_while(|b| b.is_ascii_alphabetic() || **b == b'_').count();
    let Some(rest) = request[method..].strip_prefix(b" ").filter(|_| method > 0) else {
        access.request = there(request);
        return;
    };
    access.method = &request[..method];
    let last_blank = match rest.last_chunk() {
        Some(b" HTTP/1.1" | b" HTTP/1.0") => Some(rest.len() - 9),
        _ => memchr::memrchr(b' ', rest),
    };
    (access.path, access.protocol) = match last_blank {
        Some(at) if rest[at + 1..].starts_with(b"HTTP/") => (&rest[..at], &rest[at + 1..]),
        _ => (rest, &b""[..]),
    };
}

/// The next word, and the text behind the blank that follows it.
fn word(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = short::first_blank(text).filter(|at| *at > 0)?;
    Some((&text[..at], &text[at + 1..]))
}

/// A quoted text, in which a backslash escapes the next byte, and the text behind it.
fn quoted(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let inner = text.strip_prefix(b"\"")?;
    let mut at = 0;
    loop {
        at += short::first_quote(inner.get(at..)?)?;
        if inner[at] == b'"' {
            return Some((&inner[..at], &inner[at + 1..]));
        }
        at += 2;
    }
}

fn there(part: &[u8]) -> &[u8] {
    if part == b"-" { b"" } else { part }
}
