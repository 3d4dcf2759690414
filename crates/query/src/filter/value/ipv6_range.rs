//! `user.ip:ipv6_range(fd00::, fdff:ffff::)`, `ipv6_range("fd00::/8")`, `ipv6_range("::1")`: the whole value is an IPv6
//! address in the range, both ends inside. IPv4 addresses count as theirs under `::ffff:0:0/96`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::{Matches, Test};
use crate::cursor::Cursor;
use crate::error::ParseError;
use crate::filter::Filter;

/// What stands in the brackets, for messages.
const RANGE: &str = "an IPv6 address, a network such as fd00::/8, or two addresses";

pub(in crate::filter) fn parse(
    cursor: &mut Cursor<'_>,
    name: &str,
    _function: &str,
) -> Result<Filter, ParseError> {
    cursor.expect('(', "ipv6_range(…)")?;
    let first = cursor.run(",()|", RANGE)?;
    let wrong =
        |cursor: &Cursor<'_>, position| cursor.error_at(position, &[RANGE], "not an IPv6 address");
    let (mut low, mut high) = network(&first.text).ok_or_else(|| wrong(cursor, first.position))?;
    if cursor.eat(',') {
        let last = cursor.run(",()|", RANGE)?;
        low = address(first.text.as_bytes()).ok_or_else(|| wrong(cursor, first.position))?;
        high = address(last.text.as_bytes()).ok_or_else(|| wrong(cursor, last.position))?;
    }
    cursor.expect(')', "ipv6_range(…)")?;
    Ok(Filter::field(name, Test::Ipv6Range { low, high }))
}

/// First and last address of a network, or an address twice.
fn network(text: &str) -> Option<(Ipv6Addr, Ipv6Addr)> {
    let Some((text, bits)) = text.split_once('/') else {
        let address = address(text.as_bytes())?;
        return Some((address, address));
    };
    // The bits of an IPv4 network are the last 32 of its mapped address.
    let mapped = text.parse::<Ipv4Addr>().is_ok();
    let (bits_max, before) = if mapped { (32, 96) } else { (128, 0) };
    let bits = before + bits.parse::<u32>().ok().filter(|bits| *bits <= bits_max)?;
    let mask = u128::MAX.checked_shr(bits).unwrap_or(0);
    let address = address(text.as_bytes())?.to_bits();
    Some((Ipv6Addr::from_bits(address & !mask), Ipv6Addr::from_bits(address | mask)))
}

/// Longest text of an address.
const ADDRESS_BYTES_MAX: usize = "ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255".len();

/// The address that the whole value is.
#[inline]
fn address(value: &[u8]) -> Option<Ipv6Addr> {
    let starts = value.first()?.is_ascii_hexdigit() || value[0] == b':';
    if value.len() > ADDRESS_BYTES_MAX || !starts {
        return None;
    }
    Some(match std::str::from_utf8(value).ok()?.parse().ok()? {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    })
}

pub(in crate::filter) struct Matcher {
    pub low: Ipv6Addr,
    pub high: Ipv6Addr,
}

impl Matches for Matcher {
    fn cost(&self) -> u32 {
        4
    }

    #[inline]
    fn matches(&self, value: &[u8]) -> bool {
        address(value).is_some_and(|address| (self.low..=self.high).contains(&address))
    }
}

#[cfg(test)]
mod tests {
    use crate::filter::tests::{check, check_fields};

    #[test]
    fn ranges_of_addresses() {
        let inside = ["fd00::", "fd00::1", "fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"];
        let outside = ["fe00::", "fcff::", "from fd00::1", "1.2.3.4"];
        check("ipv6_range(\"fd00::/8\")", &inside, &outside);
        check("ipv6_range(fd12:3456::/8)", &inside, &outside);
        check("ipv6_range(fd00::, fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff)", &inside, &outside);
        check("ipv6_range(::1)", &["::1", "0:0:0:0:0:0:0:1"], &["::2"]);
        check("ipv6_range(::ffff:0:0/96)", &["1.2.3.4", "::ffff:1.2.3.4"], &["::1"]);
        check("ipv6_range(1.2.0.0/16)", &["1.2.3.4", "::ffff:1.2.3.4"], &["1.3.0.0", "::1"]);
        check("ipv6_range(::/0)", &["1.2.3.4", "::", "ffff::"], &["x"]);
        check_fields("user.ip:ipv6_range(::1/128)", &[("user.ip", "::1")], true);
    }
}
