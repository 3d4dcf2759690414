//! `user.ip:ipv4_range(127.0.0.0, 127.255.255.255)`, `ipv4_range("127.0.0.0/8")`, `ipv4_range(1.2.3.4)`: the whole value
//! is an IPv4 address in the range, both ends inside.

use std::net::Ipv4Addr;

use super::{Matches, Test};
use crate::cursor::Cursor;
use crate::error::ParseError;
use crate::filter::Filter;

/// What stands in the brackets, for messages.
const RANGE: &str = "an IPv4 address, a network such as 10.0.0.0/8, or two addresses";

pub(in crate::filter) fn parse(
    cursor: &mut Cursor<'_>,
    name: &str,
    _function: &str,
) -> Result<Filter, ParseError> {
    cursor.expect('(', "ipv4_range(…)")?;
    let first = cursor.run(",()|", RANGE)?;
    let wrong =
        |cursor: &Cursor<'_>, position| cursor.error_at(position, &[RANGE], "not an IPv4 address");
    let (mut low, mut high) = network(&first.text).ok_or_else(|| wrong(cursor, first.position))?;
    if cursor.eat(',') {
        let last = cursor.run(",()|", RANGE)?;
        low = address(first.text.as_bytes()).ok_or_else(|| wrong(cursor, first.position))?;
        high = address(last.text.as_bytes()).ok_or_else(|| wrong(cursor, last.position))?;
    }
    cursor.expect(')', "ipv4_range(…)")?;
    Ok(Filter::field(name, Test::Ipv4Range { low, high }))
}

/// First and last address of a network, or an address twice.
fn network(text: &str) -> Option<(Ipv4Addr, Ipv4Addr)> {
    let Some((text, bits)) = text.split_once('/') else {
        let address = address(text.as_bytes())?;
        return Some((address, address));
    };
    let bits: u32 = bits.parse().ok().filter(|bits| *bits <= 32)?;
    let mask = u32::MAX.checked_shr(bits).unwrap_or(0);
    let address = address(text.as_bytes())?.to_bits();
    Some((Ipv4Addr::from_bits(address & !mask), Ipv4Addr::from_bits(address | mask)))
}

/// Longest text of an address.
const ADDRESS_BYTES_MAX: usize = "255.255.255.255".len();

/// The address that the whole value is.
#[inline]
fn address(value: &[u8]) -> Option<Ipv4Addr> {
    if value.len() > ADDRESS_BYTES_MAX || !value.first()?.is_ascii_digit() {
        return None;
    }
    std::str::from_utf8(value).ok()?.parse().ok()
}

pub(in crate::filter) struct Matcher {
    pub low: Ipv4Addr,
    pub high: Ipv4Addr,
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
        let inside = ["127.0.0.0", "127.255.255.255", "127.1.2.3"];
        let outside =
            ["126.255.255.255", "128.0.0.0", "request from 127.0.0.1: done", "127.1", "::1"];
        check("ipv4_range(127.0.0.0, 127.255.255.255)", &inside, &outside);
        check("ipv4_range(\"127.0.0.0/8\")", &inside, &outside);
        check("ipv4_range(127.9.9.9/8)", &inside, &outside);
        check("ipv4_range(\"1.2.3.4\")", &["1.2.3.4"], &["1.2.3.5", "1.2.3.3"]);
        check("ipv4_range(0.0.0.0/0)", &["255.255.255.255", "0.0.0.0"], &["x"]);
        check("ipv4_range(1.2.3.4/32)", &["1.2.3.4"], &["1.2.3.5"]);
        check_fields("user.ip:ipv4_range(10.0.0.0/8)", &[("user.ip", "10.2.3.4")], true);
        check_fields("user.ip:ipv4_range(10.0.0.0/8)", &[], false);
    }
}
