//! Access lines of Apache and nginx: the common and the combined format, also with the virtual host
//! in front.
//!
//! A `-` means "not present" and does not become a field, nor does it for `bytes`: sums stay the
//! same, and counts of known sizes are right. A request that is not `METHOD PATH PROTOCOL` is kept
//! whole as `request`. What follows the user agent is left to `servers`. Left out: custom log formats.

use super::short;
use super::time::Written;
use super::times::Times;

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
    if !short::third_or_fourth_before(b'[', line) {
        return None;
    }
    let (first, rest) = word(line)?;
    let (second, rest) = word(rest)?;
    let (third, mut rest) = word(rest)?;
    let mut access = Access { client_ip: first, ident: second, user: third, ..Access::default() };
    if rest.first() != Some(&b'[') {
        let (user, behind) = word(rest)?;
        access = Access { vhost: first, client_ip: second, ident: third, user, ..access };
        rest = behind;
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
