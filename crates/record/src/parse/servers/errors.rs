//! Error logs of nginx and Apache.
//!
//! Both write what a client sent into the text, so a client may send text that looks like a field.
//! The fields of nginx stand at the end, each once, in a form that a part of a quoted text cannot
//! have up to the end of the line.

use super::super::level;
use super::words::{ip_and_port, is_ip, is_number, until, word};
use super::{Found, Name};

/// Beginnings of the fields of nginx that are tried. A client that sends more of them gets its
/// line without fields of the request.
const CANDIDATES_MAX: usize = 8;

/// `2026/01/31 12:00:00 [error] 12#34: *5 text, client: 192.0.2.1, server: x, request: "GET / …"`
pub(super) fn nginx(message: &[u8], found: &mut Found) -> Option<()> {
    let (severity, rest) = until(message.get(20..)?.strip_prefix(b"[")?, b"] ")?;
    level::from_word(severity)?;
    let (pid, rest) = until(rest, b"#")?;
    let (tid, rest) = until(rest, b": ")?;
    (is_number(pid) && is_number(tid)).then_some(())?;
    found.put(Name::Level, severity);
    found.put(Name::Pid, pid);
    found.put(Name::Tid, tid);
    let mut text = rest;
    if let Some((connection, rest)) = rest.strip_prefix(b"*").map(word)
        && is_number(connection)
    {
        found.put(Name::Connection, connection);
        text = rest;
    }
    let own = found.fields.len();
    for at in memchr::memmem::find_iter(text, b", client: ").take(CANDIDATES_MAX) {
        if nginx_request(&text[at + 2..], found).is_some() {
            break;
        }
        found.fields.truncate(own);
    }
    Some(())
}

const NGINX_KEYS: [(&[u8], Option<Name>); 10] = [
    (b"client: ", Some(Name::Client)),
    (b"server: ", Some(Name::Server)),
    (b"request: ", Some(Name::Request)),
    (b"subrequest: ", Some(Name::Subrequest)),
    (b"upstream: ", Some(Name::Upstream)),
    (b"host: ", Some(Name::Host)),
    (b"referrer: ", Some(Name::Referrer)),
    (b"login: ", Some(Name::User)),
    (b"bytes from/to client:", None),
    (b"bytes from/to upstream:", None),
];

/// The fields of the request, up to the end of the message.
fn nginx_request(text: &[u8], found: &mut Found) -> Option<()> {
    let key = |text: &[u8]| NGINX_KEYS.iter().position(|(key, _)| text.starts_with(key));
    let mut rest = text;
    let mut seen = 0;
    loop {
        let index = key(rest)?;
        (seen & 1 << index == 0).then_some(())?;
        seen |= 1 << index;
        let (name, behind) = (NGINX_KEYS[index].1, &rest[NGINX_KEYS[index].0.len()..]);
        let end = match behind.strip_prefix(b"\"") {
            // nginx does not escape quotes.
            Some(inner) => {
                let ends = |at: &usize| {
                    let behind = &inner[at + 1..];
                    behind.is_empty() || behind.strip_prefix(b", ").and_then(key).is_some()
                };
                memchr::memchr_iter(b'"', inner).take(CANDIDATES_MAX).find(ends)? + 2
            }
            None => memchr::memmem::find(behind, b", ").unwrap_or(behind.len()),
        };
        let (value, behind) = behind.split_at(end);
        let inner = value.strip_prefix(b"\"").and_then(|value| value.strip_suffix(b"\""));
        match name {
            Some(Name::Client) if !(is_ip(value) || value.starts_with(b"unix:")) => return None,
            Some(name) => found.put(name, inner.unwrap_or(value)),
            None => {}
        }
        match behind.strip_prefix(b", ") {
            Some(behind) => rest = behind,
            None => return behind.is_empty().then_some(()),
        }
    }
}

/// The address of a client, with or without a port.
fn put_client(value: &[u8], found: &mut Found) {
    match ip_and_port(value) {
        Some((ip, port)) if !is_ip(value) || value.starts_with(b"[") => {
            found.put(Name::Client, ip);
            found.put(Name::ClientPort, port);
        }
        _ => found.put(Name::Client, value),
    }
}

/// `[Sat Jan 31 12:00:00.250 2026] [core:error] [pid 12:tid 34] [client 192.0.2.1:80] AH00124: …`
pub(super) fn apache(message: &[u8], found: &mut Found) -> Option<()> {
    let (_, mut rest) = until(message, b"] ")?;
    let (severity, behind) = until(rest.strip_prefix(b"[")?, b"] ")?;
    rest = behind;
    let (module, severity) = match memchr::memchr(b':', severity) {
        Some(at) => (&severity[..at], &severity[at + 1..]),
        None => (&b""[..], severity),
    };
    level::from_word(severity)?;
    module.iter().all(|b| b.is_ascii_alphanumeric() || *b == b'_').then_some(())?;
    found.put(Name::Module, module);
    found.put(Name::Level, severity);
    while let Some((part, behind)) = rest.strip_prefix(b"[").and_then(|rest| until(rest, b"] ")) {
        let (key, value) = word(part);
        match key {
            b"pid" => match until(value, b":tid ") {
                Some((pid, tid)) if is_number(pid) && is_number(tid) => {
                    found.put(Name::Pid, pid);
                    found.put(Name::Tid, tid);
                }
                None if is_number(value) => found.put(Name::Pid, value),
                _ => return None,
            },
            b"client" | b"remote" => put_client(value, found),
            _ => break,
        }
        rest = behind;
    }
    // `(111)Connection refused: AH00957: …`
    let begin = match rest.strip_prefix(b"(").and_then(|rest| until(rest, b")")) {
        Some((number, behind)) if is_number(number) => match until(behind, b": ") {
            Some((_, behind)) => behind,
            None => rest,
        },
        _ => rest,
    };
    // Since 2.4, the client follows the text of such an error.
    let client = begin.strip_prefix(b"[client ").filter(|_| begin.len() < rest.len());
    let begin = match client.and_then(|client| until(client, b"] ")) {
        Some((client, behind)) => {
            put_client(client, found);
            behind
        }
        None => begin,
    };
    if let Some((code, _)) = until(begin, b": ")
        && code.len() == 7
        && code.strip_prefix(b"AH").is_some_and(is_number)
    {
        found.put(Name::Code, code);
    }
    if let Some(at) = memchr::memmem::rfind(rest, b", referer: ") {
        found.put(Name::Referer, &rest[at + 11..]);
    }
    Some(())
}
