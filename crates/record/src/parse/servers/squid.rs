//! Squid's own format of access lines.

use super::words::{is_number, until, word};
use super::{Found, Name};

/// `1769860800.250     49 192.0.2.1 TCP_MISS/200 748 GET http://example.com/ - DIRECT/192.0.2.9
/// text/html`
pub(super) fn parse(message: &[u8], found: &mut Found) -> Option<()> {
    let (_, rest) = word(message);
    let (elapsed, rest) = word(rest.trim_ascii_start());
    is_number(elapsed.strip_prefix(b"-").unwrap_or(elapsed)).then_some(())?;
    let (client, rest) = word(rest);
    let (result, rest) = word(rest);
    let (result_code, status) = until(result, b"/")?;
    let is_code = |b: &u8| b.is_ascii_uppercase() || *b == b'_';
    (is_number(status) && result_code.iter().all(is_code)).then_some(())?;
    let (bytes, rest) = word(rest);
    is_number(bytes).then_some(())?;
    let (method, rest) = word(rest);
    // The path may contain blanks; three words follow it.
    let (rest, content_type) = last_word(rest)?;
    let (rest, hierarchy) = last_word(rest)?;
    let (path, user) = last_word(rest)?;
    let (hierarchy_code, peer) = until(hierarchy, b"/")?;
    found.put(Name::Elapsed, elapsed);
    found.put(Name::ClientIp, client);
    found.put(Name::ResultCode, result_code);
    found.put_status(status);
    found.put(Name::Bytes, bytes);
    found.put(Name::Method, method);
    found.put(Name::Path, path);
    found.put(Name::User, user);
    found.put(Name::HierarchyCode, hierarchy_code);
    found.put(Name::Peer, peer);
    found.put(Name::ContentType, content_type);
    Some(())
}

fn last_word(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = memchr::memrchr(b' ', text).filter(|at| *at > 0)?;
    Some((&text[..at], &text[at + 1..]))
}
