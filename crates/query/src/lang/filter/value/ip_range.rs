//! `ip:ipv4_range(10.0.0.0/8)`, `ipv4_range(1.2.3.4, 1.2.3.9)`, `ipv4_range(1.2.3.4)`, and
//! `ipv6_range(…)` likewise: the whole value is an address in the range, both ends inside.
//!
//! For `ipv6_range` IPv4 addresses and networks count as the mapped ones under `::ffff:0:0/96`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::{Matches, Test};
use crate::base::names::NamePattern;
use crate::lang::filter::Filter;
use crate::lang::syntax::cursor::Cursor;
use crate::lang::syntax::error::ParseError;

/// A kind of address, and its names in error messages.
pub(in crate::lang::filter) trait Address: Copy + Ord {
    /// As in `not an IPv4 address`.
    const KIND: &str;
    /// What the parentheses must contain, for error messages.
    const RANGE: &str;
    /// Longest text of an address.
    const BYTES_MAX: usize;

    /// Whether a text may be one, by its first byte.
    fn may_begin(first: u8) -> bool;

    /// Converts an address to this kind.
    fn of(address: IpAddr) -> Option<Self>;

    /// Parses an address; none if the text is not one.
    fn read(text: &str) -> Option<Self>;

    /// The test of a range.
    fn test(low: Self, high: Self) -> Test;
}

impl Address for Ipv4Addr {
    const KIND: &str = "IPv4";
    const RANGE: &str = "an IPv4 address, a network such as 10.0.0.0/8, or two addresses";
    const BYTES_MAX: usize = "255.255.255.255".len();

    #[inline]
    fn may_begin(first: u8) -> bool {
        first.is_ascii_digit()
    }

    fn of(address: IpAddr) -> Option<Self> {
        match address {
            IpAddr::V4(address) => Some(address),
            IpAddr::V6(_) => None,
        }
    }

    fn read(text: &str) -> Option<Self> {
        text.parse().ok()
    }

    fn test(low: Self, high: Self) -> Test {
        Test::Ipv4Range { low, high }
    }
}

impl Address for Ipv6Addr {
    const KIND: &str = "IPv6";
    const RANGE: &str = "an IPv6 address, a network such as fd00::/8, or two addresses";
    const BYTES_MAX: usize = "ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255".len();

    #[inline]
    fn may_begin(first: u8) -> bool {
        first.is_ascii_hexdigit() || first == b':'
    }

    fn of(address: IpAddr) -> Option<Self> {
        Some(match address {
            IpAddr::V4(address) => address.to_ipv6_mapped(),
            IpAddr::V6(address) => address,
        })
    }

    fn read(text: &str) -> Option<Self> {
        text.parse().ok().and_then(Self::of)
    }

    fn test(low: Self, high: Self) -> Test {
        Test::Ipv6Range { low, high }
    }
}

/// First and last address of the network whose addresses share the first `bits` bits (RFC 4632, RFC
/// 4291 section 2.3); none if an address has fewer bits.
pub fn network(address: IpAddr, bits: u32) -> Option<(IpAddr, IpAddr)> {
    match address {
        IpAddr::V4(address) if bits <= 32 => {
            let rest = u32::MAX.checked_shr(bits).unwrap_or(0);
            let ends = [address.to_bits() & !rest, address.to_bits() | rest];
            let [first, last] = ends.map(|bits| IpAddr::V4(Ipv4Addr::from_bits(bits)));
            Some((first, last))
        }
        IpAddr::V6(address) if bits <= 128 => {
            let rest = u128::MAX.checked_shr(bits).unwrap_or(0);
            let ends = [address.to_bits() & !rest, address.to_bits() | rest];
            let [first, last] = ends.map(|bits| IpAddr::V6(Ipv6Addr::from_bits(bits)));
            Some((first, last))
        }
        IpAddr::V4(_) | IpAddr::V6(_) => None,
    }
}

/// Parses `(…)` behind the name of the filter.
pub(in crate::lang::filter) fn parse<A: Address>(
    cursor: &mut Cursor<'_>,
    field: &NamePattern,
    function: &str,
) -> Result<Filter, ParseError> {
    let what = format!("{function}(…)");
    cursor.expect('(', &what)?;
    let first = cursor.run(",()|", A::RANGE)?;
    let wrong = |cursor: &Cursor<'_>, position| {
        cursor.error_at(position, &[A::RANGE], format!("this is not an {} address", A::KIND))
    };
    let (low, high) = if cursor.eat(',') {
        let last = cursor.run(",()|", A::RANGE)?;
        let low = A::read(&first.text).ok_or_else(|| wrong(cursor, first.position))?;
        (low, A::read(&last.text).ok_or_else(|| wrong(cursor, last.position))?)
    } else {
        one_or_network(&first.text).ok_or_else(|| wrong(cursor, first.position))?
    };
    cursor.expect(')', &what)?;
    Ok(field.filter(A::test(low, high)))
}

/// First and last address of a network; for a single address, this address twice.
fn one_or_network<A: Address>(text: &str) -> Option<(A, A)> {
    let Some((address, bits)) = text.split_once('/') else {
        let address = A::read(text)?;
        return Some((address, address));
    };
    let (first, last) = network(address.parse().ok()?, bits.parse().ok()?)?;
    Some((A::of(first)?, A::of(last)?))
}

pub(in crate::lang::filter) struct Matcher<A> {
    pub low: A,
    pub high: A,
}

impl<A: Address> Matches for Matcher<A> {
    fn cost(&self) -> u32 {
        4
    }

    #[inline]
    fn matches(&self, value: &[u8]) -> bool {
        if value.len() > A::BYTES_MAX || !value.first().is_some_and(|&first| A::may_begin(first)) {
            return false;
        }
        let address = std::str::from_utf8(value).ok().and_then(A::read);
        address.is_some_and(|address| (self.low..=self.high).contains(&address))
    }
}

#[cfg(test)]
mod tests {
    use crate::lang::filter::tests::{check, check_fields};

    #[test]
    fn ranges_of_ipv4() {
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

    #[test]
    fn ranges_of_ipv6() {
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

    #[test]
    fn a_network_has_no_more_bits_than_its_addresses() {
        for (text, wrong) in [
            ("ipv4_range(1.2.3.4/32)", false),
            ("ipv4_range(1.2.3.4/33)", true),
            ("ipv4_range(::1/8)", true),
            ("ipv6_range(::1/128)", false),
            ("ipv6_range(::1/129)", true),
            ("ipv6_range(1.2.3.4/33)", true),
        ] {
            assert_eq!(crate::Query::parse(text, 0).is_err(), wrong, "{text}");
        }
    }
}
