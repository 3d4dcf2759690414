//! Ranges of addresses: one, `10.0.0.1-10.0.0.9`, or a network in CIDR notation (RFC 4632, RFC 4291
//! section 2.3).

use std::net::IpAddr;

use query::network;

/// Addresses from one to another, both inclusive, of one family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IpRange {
    text: String,
    first: IpAddr,
    last: IpAddr,
}

impl IpRange {
    /// Parses a range.
    pub fn parse(text: &str) -> Option<IpRange> {
        let (first, last) = if let Some((first, last)) = text.split_once('-') {
            (first.trim().parse().ok()?, last.trim().parse().ok()?)
        } else if let Some((address, length)) = text.split_once('/') {
            network(address.parse().ok()?, length.parse().ok()?)?
        } else {
            let address: IpAddr = text.parse().ok()?;
            (address, address)
        };
        (first.is_ipv4() == last.is_ipv4()).then(|| IpRange { text: text.to_owned(), first, last })
    }

    /// The range as written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether an address is inside.
    pub fn contains(&self, address: IpAddr) -> bool {
        address.is_ipv4() == self.first.is_ipv4() && self.first <= address && address <= self.last
    }

    /// Whether some address in a text is inside.
    pub fn is_in(&self, text: &str) -> bool {
        let part = |c: char| c.is_ascii_hexdigit() || c == '.' || c == ':';
        text.split(|c| !part(c)).filter(|word| word.len() >= 2).any(|word| {
            let parsed = |word: &str| word.parse().is_ok_and(|address| self.contains(address));
            // Also `10.0.0.1:80`, and an address at the end of a sentence.
            parsed(word)
                || parsed(word.trim_matches(['.', ':']))
                || word.rsplit_once(':').is_some_and(|(host, _)| parsed(host))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges() {
        for (range, text, expected) in [
            ("10.0.0.1", "from 10.0.0.1 to", true),
            ("10.0.0.1", "from 10.0.0.10 to", false),
            ("10.0.0.1", "10.0.0.1:8080", true),
            ("10.0.0.0/8", "at 10.200.3.4.", true),
            ("10.0.0.0/8", "at 11.0.0.0", false),
            ("0.0.0.0/0", "1.2.3.4", true),
            ("192.168.0.1-192.168.0.9", "192.168.0.9", true),
            ("192.168.0.1-192.168.0.9", "192.168.0.10", false),
            ("2001:db8::/32", "[2001:db8::7]", true),
            ("::/0", "1.2.3.4", false),
        ] {
            assert_eq!(IpRange::parse(range).unwrap().is_in(text), expected, "{range} {text}");
        }
        for wrong in ["", "x", "10.0.0.0/33", "1.2.3.4-::1", "::/129"] {
            assert_eq!(IpRange::parse(wrong), None, "{wrong}");
        }
    }
}
