//! Requests and connections of HAProxy (`option httplog`, `option tcplog`).

use super::words::{ip_and_port, is_number, until, word};
use super::{Found, Name};

/// ```text
/// 192.0.2.3:55876 [31/Jan/2026:12:00:00.250] fe be/srv1 0/0/1/2/3 503 1015 - - ---- 1/1/0/0/0 0/0
///   {headers} {headers} "GET /x HTTP/1.1"
/// 192.0.2.3:55876 [31/Jan/2026:12:00:00.250] fe be/srv1 0/0/5007 212 -- 1/1/0/0/3 0/0
/// ```
pub(super) fn parse(message: &[u8], found: &mut Found) -> Option<()> {
    let (client, rest) = word(message);
    let (ip, port) = ip_and_port(client)?;
    let (_, rest) = until(rest.strip_prefix(b"[")?, b"] ")?;
    let (frontend, rest) = word(rest);
    let (backend, rest) = word(rest);
    let (backend, server) = until(backend, b"/")?;
    found.put(Name::ClientIp, ip);
    found.put(Name::ClientPort, port);
    found.put(Name::Frontend, frontend);
    found.put(Name::Backend, backend);
    found.put(Name::Server, server);
    let (times, rest) = word(rest);
    let rest = match times.iter().filter(|b| **b == b'/').count() {
        4 => http(times, rest, found)?,
        2 => tcp(times, rest, found)?,
        _ => return None,
    };
    let (connections, rest) = word(rest);
    let (queues, rest) = word(rest);
    numbers(
        connections,
        &[Name::Actconn, Name::Feconn, Name::Beconn, Name::SrvConn, Name::Retries],
        found,
    )?;
    numbers(queues, &[Name::SrvQueue, Name::BackendQueue], found)?;
    captured_and_request(rest, found)
}

fn http<'a>(times: &[u8], rest: &'a [u8], found: &mut Found) -> Option<&'a [u8]> {
    use Name::{TimeConnect, TimeQueue, TimeRequest, TimeResponse, TimeTotal};
    numbers(times, &[TimeRequest, TimeQueue, TimeConnect, TimeResponse, TimeTotal], found)?;
    let (status, rest) = word(rest);
    let (bytes, rest) = word(rest);
    is_signed(status).then_some(())?;
    found.put_status(status);
    put_bytes(bytes, found)?;
    let (request_cookie, rest) = word(rest);
    let (response_cookie, rest) = word(rest);
    found.put(Name::RequestCookie, request_cookie);
    found.put(Name::ResponseCookie, response_cookie);
    let (state, rest) = word(rest);
    (state.len() == 4).then_some(())?;
    found.put(Name::TerminationState, state);
    Some(rest)
}

fn tcp<'a>(times: &[u8], rest: &'a [u8], found: &mut Found) -> Option<&'a [u8]> {
    numbers(times, &[Name::TimeQueue, Name::TimeConnect, Name::TimeTotal], found)?;
    let (bytes, rest) = word(rest);
    put_bytes(bytes, found)?;
    let (state, rest) = word(rest);
    (state.len() == 2).then_some(())?;
    found.put(Name::TerminationState, state);
    Some(rest)
}

/// A number with a sign: `-1` is an event that did not take place, `+3` one that goes on.
fn is_signed(text: &[u8]) -> bool {
    is_number(text.strip_prefix(b"-").or(text.strip_prefix(b"+")).unwrap_or(text))
}

fn put_bytes(bytes: &[u8], found: &mut Found) -> Option<()> {
    is_signed(bytes).then_some(())?;
    found.put(Name::Bytes, bytes.strip_prefix(b"+").unwrap_or(bytes));
    Some(())
}

/// Numbers with `/` between them, one for each name.
fn numbers(text: &[u8], names: &[Name], found: &mut Found) -> Option<()> {
    let mut parts = text.split(|b| *b == b'/');
    for name in names {
        let part = parts.next().filter(|part| is_signed(part))?;
        found.put(*name, part.strip_prefix(b"+").unwrap_or(part));
    }
    parts.next().is_none().then_some(())
}

/// `{captured|of the request} {captured|of the answer} "GET /x HTTP/1.1"`, each of them optional.
fn captured_and_request(text: &[u8], found: &mut Found) -> Option<()> {
    let mut rest = text;
    let mut names = [Name::RequestHeaders, Name::ResponseHeaders].into_iter();
    while let Some(inner) = rest.strip_prefix(b"{") {
        let end = memchr::memchr(b'}', inner)?;
        found.put(names.next()?, &inner[..end]);
        rest = inner[end + 1..].strip_prefix(b" ").unwrap_or(&inner[end + 1..]);
    }
    let Some(request) = rest.strip_prefix(b"\"") else { return rest.is_empty().then_some(()) };
    // HAProxy escapes quotes; a request that is too long is cut off with its quote.
    let end = memchr::memchr(b'"', request).unwrap_or(request.len());
    let request = &request[..end];
    if !request.is_empty() {
        let count = found.fields.len();
        found.put_request(request);
        // A request that could not be taken apart is `request` already.
        if found.fields.len() > count + 1 {
            found.put(Name::Request, request);
        }
    }
    Some(())
}
