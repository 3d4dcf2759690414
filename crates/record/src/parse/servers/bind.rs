//! Queries that BIND logs, and those that it denies.

use super::words::{is_ip, is_number, until, word};
use super::{Found, Name};

/// `31-Jan-2026 12:00:00.250 queries: info: client @0x7f 192.0.2.1#53124 (a.example): query:
/// a.example IN A +E(0)K (192.0.2.53)`; also without what is in front of `client`.
pub(super) fn parse(message: &[u8], found: &mut Found) -> Option<()> {
    const FRONT_BYTES_MAX: usize = 96;
    let window = &message[..message.len().min(FRONT_BYTES_MAX)];
    let at = memchr::memmem::find(window, b"client ")?;
    (at == 0 || message[at - 1] == b' ').then_some(())?;
    let mut rest = &message[at + 7..];
    if rest.starts_with(b"@0x") {
        rest = word(rest).1;
    }
    let (ip, rest) = until(rest, b"#")?;
    let digits = rest.iter().take_while(|b| b.is_ascii_digit()).count();
    let (port, rest) = rest.split_at(digits);
    (is_ip(ip) && is_number(port)).then_some(())?;
    found.put(Name::ClientIp, ip);
    found.put(Name::ClientPort, port);
    let (_, mut rest) = match rest.strip_prefix(b" (") {
        Some(inner) => until(inner, b"): ")?,
        None => (rest, rest.strip_prefix(b": ")?),
    };
    if let Some(view) = rest.strip_prefix(b"view ") {
        let (view, behind) = until(view, b": ")?;
        found.put(Name::View, view);
        rest = behind;
    }
    if let Some(query) = rest.strip_prefix(b"query: ") {
        let (name, rest) = word(query);
        let (class, rest) = word(rest);
        let (kind, rest) = word(rest);
        let (flags, server) = word(rest);
        (!kind.is_empty() && kind.iter().all(|b| b.is_ascii_alphanumeric())).then_some(())?;
        found.put(Name::Queried, name);
        found.put(Name::QueryClass, class);
        found.put(Name::QueryType, kind);
        found.put(Name::QueryFlags, flags);
        if let Some(server) = server.strip_prefix(b"(")
            && let Some((server, _)) = until(server, b")")
        {
            found.put(Name::ServerIp, server);
        }
        return Some(());
    }
    // `query (cache) 'a.example/A/IN' denied`, `query failed (SERVFAIL) for a.example/IN/A at …`
    let (quoted, result) = match rest.strip_prefix(b"query (cache) '") {
        Some(inner) => until(inner, b"' ")?,
        None => {
            let (result, inner) = until(rest.strip_prefix(b"query failed (")?, b") for ")?;
            (until(inner, b" at ")?.0, result)
        }
    };
    let (rest, last) = last_part(quoted)?;
    let (name, middle) = last_part(rest)?;
    let is_class = |text: &[u8]| matches!(text, b"IN" | b"CH" | b"HS" | b"ANY");
    let (class, kind) = if is_class(last) { (last, middle) } else { (middle, last) };
    found.put(Name::Queried, name);
    found.put(Name::QueryClass, class);
    found.put(Name::QueryType, kind);
    found.put(Name::Result, word(result).0);
    Some(())
}

fn last_part(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = memchr::memrchr(b'/', text)?;
    Some((&text[..at], &text[at + 1..]))
}
