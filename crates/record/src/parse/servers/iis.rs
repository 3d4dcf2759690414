//! Lines of IIS in the extended format of W3C.
//!
//! The header `#Fields` says what the columns are, but a line is parsed alone. Therefore the usual
//! sets of columns are known here, from the choices that IIS offers in their fixed order; number
//! and form of the columns tell them apart. Times are in UTC.

use super::super::time;
use super::super::time_zone::WrittenZone;
use super::words::{is_ip, is_number, word};
use super::{Found, Name};

/// The letters of a layout stand for columns; see [`put`].
///
/// | letter | column |
/// |---|---|
/// | `n` `c` | s-sitename, s-computername |
/// | `s` `m` `p` `q` `o` | s-ip, cs-method, cs-uri-stem, cs-uri-query, s-port |
/// | `u` `i` `v` `a` `k` `r` `h` | cs-username, c-ip, cs-version, user agent, cookie, referer, host |
/// | `t` `b` `w` | sc-status, sc-substatus, sc-win32-status |
/// | `x` `y` `e` | sc-bytes, cs-bytes, time-taken |
/// | `f` | an address of a proxy: X-Forwarded-For |
const LAYOUTS: [&[u8]; 13] = [
    b"smpqouiartbwe",  // since IIS 8
    b"smpqouiartbwef", // the same behind a load balancer
    b"smpqouiatbwe",   // IIS 7
    b"nsmpqouiatbw",   // IIS 6
    b"nsmpqouiatbwe",  // IIS 6 with its time
    b"smpqouiatbw",    // without a time
    b"nsmpqouiartbwe",
    b"ncsmpqouiartbwe",
    b"ncsmpqouivakrhtbwxye", // all columns
    b"ncsmpqouivakrhtbwxyef",
    b"nsmpqouivakrhtbwxye",
    b"smpqouivakrhtbwxye",
    b"nmpqouiakrhtbwxye", // Azure App Service
];
const COLUMNS_MAX: usize = 24;

/// `2026-01-31 12:00:00 192.0.2.1 GET /x - 443 - 192.0.2.2 Mozilla/5.0+(…) - 200 0 0 15`
pub(super) fn parse(message: &[u8], found: &mut Found) -> Option<()> {
    let (written, _) = time::iso(message.get(..19)?)?;
    let mut columns = [&b""[..]; COLUMNS_MAX];
    let mut count = 0;
    let mut rest = message.get(20..)?;
    while !rest.is_empty() {
        (*columns.get_mut(count)?, rest) = word(rest);
        count += 1;
    }
    let columns = &columns[..count];
    let fits = |layout: &&&[u8]| {
        layout.len() == count && layout.iter().zip(columns).all(|(kind, part)| is_like(*kind, part))
    };
    let layout = LAYOUTS.iter().find(fits)?;
    found.written = Some(time::Written { zone: Some(WrittenZone::UTC), ..written });
    for (kind, part) in layout.iter().zip(columns) {
        put(*kind, part, found);
    }
    Some(())
}

fn is_like(kind: u8, part: &[u8]) -> bool {
    match kind {
        b's' | b'i' => is_ip(part),
        b'm' => part.iter().all(u8::is_ascii_uppercase) && part.len() >= 3,
        b'p' => part.starts_with(b"/") || part == b"*",
        b'o' | b't' | b'b' | b'w' | b'x' | b'y' | b'e' => is_number(part),
        b'v' => part.starts_with(b"HTTP/") || part == b"-",
        _ => !part.is_empty(),
    }
}

fn put(kind: u8, part: &[u8], found: &mut Found) {
    let name = match kind {
        b'n' => Name::Site,
        b'c' => Name::Server,
        b's' => Name::ServerIp,
        b'm' => Name::Method,
        b'p' => Name::Path,
        b'q' => Name::Query,
        b'o' => Name::ServerPort,
        b'u' => Name::User,
        b'i' => Name::ClientIp,
        b'v' => Name::Protocol,
        b'a' => Name::UserAgent,
        b'k' => Name::Cookie,
        b'r' => Name::Referer,
        b'h' => Name::Host,
        b't' => return found.put_status(part),
        b'b' => Name::Substatus,
        b'w' => Name::Win32Status,
        b'x' => Name::Bytes,
        b'y' => Name::BytesReceived,
        b'e' => Name::TimeTaken,
        _ => Name::XForwardedFor,
    };
    found.put(name, part);
}
