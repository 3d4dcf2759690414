//! What servers write behind the user agent of an access line: times, addresses, identifiers.
//!
//! The names are those of nginx, whose users configure most of these formats. A tail that is not
//! understood to its end gives no fields; the fields of the access line stay.

use super::words::{is_decimal, is_ip, is_number, quoted, word};
use super::{Found, Name};

/// Parts of a tail. A longer one gives no fields.
const PARTS_MAX: usize = 16;

/// Finds the fields of the text behind the user agent; returns whether there are any. `message` is
/// the whole line.
pub(crate) fn find(message: &[u8], tail: &[u8], found: &mut Found) -> bool {
    found.begin(message);
    let whole = parse(tail.trim_ascii(), found).is_some() && !found.overflowed;
    whole && !found.fields.is_empty()
}

/// A part of a tail: what is in front of `=`, the value without quotes, and the sign it begins with
/// (a quote, a bracket).
#[derive(Clone, Copy, Default)]
struct Part<'a> {
    key: &'a [u8],
    value: &'a [u8],
    sign: u8,
}

fn parse(tail: &[u8], found: &mut Found) -> Option<()> {
    let mut parts = [Part::default(); PARTS_MAX];
    let mut count = 0;
    let mut rest = tail;
    while !rest.is_empty() {
        let (part, behind) = next(rest)?;
        *parts.get_mut(count)? = part;
        count += 1;
        rest = behind.trim_ascii_start();
    }
    let parts = &parts[..count];
    if parts.iter().any(|part| !part.key.is_empty()) {
        return pairs(parts, found);
    }
    ingress(parts, found).or_else(|| traefik(parts, found)).or_else(|| by_place(parts, found))
}

fn next(text: &[u8]) -> Option<(Part<'_>, &[u8])> {
    let is_of_key = |b: &u8| b.is_ascii_alphanumeric() || *b == b'_';
    let length = text.iter().take(32).take_while(|b| is_of_key(b)).count();
    let (key, text) = match text.get(length) {
        Some(b'=') if length > 0 => (&text[..length], &text[length + 1..]),
        _ => (&b""[..], text),
    };
    let (value, rest, sign) = match text.first() {
        Some(b'"') => {
            let (value, rest) = quoted(text)?;
            (value, rest, b'"')
        }
        Some(b'[') => {
            let end = memchr::memchr(b']', text)?;
            (&text[1..end], &text[end + 1..], b'[')
        }
        _ => {
            // Lists of several upstreams: `0.001, 0.002`.
            let mut length = word(text).0.len();
            while text[..length].ends_with(b",") && text.get(length) == Some(&b' ') {
                length += 1 + word(&text[length + 1..]).0.len();
            }
            (&text[..length], &text[length..], 0)
        }
    };
    matches!(rest.first(), None | Some(b' ')).then_some(())?;
    Some((Part { key, value, sign }, rest))
}

/// `rt=0.005 uct="0.000" uht="0.005" urt="0.005"`, perhaps behind an address of a proxy.
fn pairs(parts: &[Part<'_>], found: &mut Found) -> Option<()> {
    for (index, part) in parts.iter().enumerate() {
        if part.key.is_empty() {
            (index < 2 && part.sign == b'"').then_some(())?;
            put_quoted(part.value, found);
            continue;
        }
        let name = match part.key {
            b"rt" | b"request_time" | b"reqtime" | b"req_time" => Name::RequestTime,
            b"urt" | b"upstream_response_time" | b"uptime" => Name::UpstreamResponseTime,
            b"uct" | b"upstream_connect_time" => Name::UpstreamConnectTime,
            b"uht" | b"upstream_header_time" => Name::UpstreamHeaderTime,
            b"ua" | b"upstream_addr" | b"upstream" => Name::UpstreamAddr,
            b"us" | b"upstream_status" => Name::UpstreamStatus,
            b"ucs" | b"cs" | b"upstream_cache_status" => Name::UpstreamCacheStatus,
            b"gz" | b"gzip_ratio" => continue,
            b"rl" | b"request_length" => Name::RequestLength,
            b"rid" | b"request_id" | b"req_id" => Name::ReqId,
            b"host" | b"http_host" | b"vhost" => Name::Host,
            b"sn" | b"server_name" => Name::Server,
            b"xff" | b"http_x_forwarded_for" => Name::XForwardedFor,
            b"duration" => Name::Duration,
            // Any other key, but none of a name that access lines or heads have.
            key if !is_of_access(key) && !Found::is_of_head(key) => {
                found.put_pair(key, part.value)?;
                continue;
            }
            _ => return None,
        };
        found.put(name, part.value);
    }
    Some(())
}

fn is_of_access(key: &[u8]) -> bool {
    matches!(
        key,
        b"vhost"
            | b"client_ip"
            | b"ident"
            | b"user"
            | b"method"
            | b"path"
            | b"protocol"
            | b"request"
            | b"status"
            | b"bytes"
            | b"referer"
            | b"user_agent"
    )
}

/// A quoted text behind the user agent: addresses of proxies, or the host.
fn put_quoted(value: &[u8], found: &mut Found) {
    let is_address = |part: &[u8]| is_ip(part.trim_ascii()) || part.trim_ascii() == b"unknown";
    match value.split(|b| *b == b',').all(is_address) {
        true => found.put(Name::XForwardedFor, value),
        false if value.iter().all(|b| b.is_ascii_alphanumeric() || b".-:[]".contains(b)) => {
            found.put(Name::Host, value);
        }
        false => found.put(Name::XForwardedFor, value),
    }
}

/// ingress-nginx: `LENGTH TIME [UPSTREAM] [ALTERNATIVE] ADDRESS LENGTH TIME STATUS ID`.
fn ingress(parts: &[Part<'_>], found: &mut Found) -> Option<()> {
    const NAMES: [Name; 9] = [
        Name::RequestLength,
        Name::RequestTime,
        Name::IngressUpstream,
        Name::IngressAlternative,
        Name::UpstreamAddr,
        Name::UpstreamResponseLength,
        Name::UpstreamResponseTime,
        Name::UpstreamStatus,
        Name::ReqId,
    ];
    let signs: [u8; 9] = [0, 0, b'[', b'[', 0, 0, 0, 0, 0];
    (parts.len() == NAMES.len() && parts.iter().zip(signs).all(|(part, sign)| part.sign == sign))
        .then_some(())?;
    (is_number(parts[0].value) && is_decimal(parts[1].value)).then_some(())?;
    for (part, name) in parts.iter().zip(NAMES) {
        found.put(name, part.value);
    }
    Some(())
}

/// Traefik: `COUNT "ROUTER" "SERVICE" 12ms`.
fn traefik(parts: &[Part<'_>], found: &mut Found) -> Option<()> {
    let [count, router, service, duration] = parts else { return None };
    let is_it = is_number(count.value)
        && (count.sign, router.sign, service.sign, duration.sign) == (0, b'"', b'"', 0)
        && duration.value.strip_suffix(b"ms").is_some_and(is_number);
    is_it.then_some(())?;
    found.put(Name::RequestCount, count.value);
    found.put(Name::Router, router.value);
    found.put(Name::ServiceUrl, service.value);
    found.put(Name::Duration, duration.value);
    Some(())
}

/// Quoted texts, then times: `"192.0.2.9" 0.123 0.120`, `0.123`, `1234` (microseconds of Apache),
/// `123 4567` (bytes of Apache's combinedio).
fn by_place(parts: &[Part<'_>], found: &mut Found) -> Option<()> {
    let quotes = parts.iter().take_while(|part| part.sign == b'"').count();
    (quotes <= 2).then_some(())?;
    let (texts, numbers) = parts.split_at(quotes);
    let is_time = |part: &Part<'_>| {
        let value = part.value;
        let number = value.iter().take_while(|b| b.is_ascii_digit() || **b == b'.').count();
        let unit = &value[number..];
        let is_unit = matches!(unit, b"" | b"s" | b"ms" | b"us" | b"ns" | b"\xc2\xb5s");
        part.sign == 0 && is_unit && is_decimal(&value[..number])
    };
    match numbers {
        [] => {}
        [time] if is_time(time) && is_number(time.value) => {
            found.put(Name::RequestTimeUs, time.value);
        }
        [time] if is_time(time) => found.put(Name::RequestTime, time.value),
        [received, sent]
            if received.sign == 0 && is_number(received.value) && is_number(sent.value) =>
        {
            found.put(Name::BytesReceived, received.value);
            found.put(Name::BytesSent, sent.value);
        }
        [time, upstream]
            if is_time(time)
                && upstream.value.split(|b| *b == b',').all(|time| {
                    let time = time.trim_ascii();
                    time == b"-" || is_decimal(time)
                }) =>
        {
            found.put(Name::RequestTime, time.value);
            found.put(Name::UpstreamResponseTime, upstream.value);
        }
        _ => return None,
    }
    for text in texts {
        put_quoted(text.value, found);
    }
    Some(())
}
