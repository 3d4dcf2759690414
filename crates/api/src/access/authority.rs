//! `HOST[:PORT]` as requests and settings write it, normalised so that two spellings of one host
//! are equal.
//!
//! Invariant: a [`Host::Name`] is lower-case ASCII without a trailing dot and holds only letters,
//! digits, `.`, `-` and `_`, so it can be logged and shown as it is. Left out: user names
//! (`user@host`) and percent-encoding. Neither belongs in `Host`, and both have been used to make
//! two parsers see different hosts.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Limit of a name in bytes (RFC 1035). A longer one is not a host.
const NAME_BYTES_MAX: usize = 253;

/// A host, with an optional port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authority {
    /// The host.
    pub host: Host,
    /// The port, if it is written.
    pub port: Option<u16>,
}

/// A host by address or by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Host {
    /// An address. IPv4 in IPv6 (`::ffff:127.0.0.1`) is IPv4.
    Ip(IpAddr),
    /// A name. See the invariant of the module.
    Name(String),
}

impl Authority {
    /// Parses `name`, `name:80`, `127.0.0.1:80`, `[::1]`, `[::1]:80`. `None` for everything else.
    pub fn parse(text: &[u8]) -> Option<Authority> {
        let text = str::from_utf8(text).ok()?;
        let (host, port) = match text.strip_prefix('[') {
            Some(rest) => {
                let (address, port) = rest.split_once(']')?;
                // A zone (`fe80::1%eth0`) names an interface of the client.
                let address = address.split('%').next()?;
                let address: Ipv6Addr = address.parse().ok()?;
                (Host::Ip(IpAddr::V6(address).to_canonical()), port)
            }
            None => {
                let (name, port) = text.split_at(text.find(':').unwrap_or(text.len()));
                (Host::parse(name)?, port)
            }
        };
        let port = match port.strip_prefix(':') {
            None if port.is_empty() => None,
            Some("") => None,
            Some(digits) if digits.bytes().all(|b| b.is_ascii_digit()) => {
                Some(digits.parse().ok()?)
            }
            _ => return None,
        };
        Some(Authority { host, port })
    }

    /// Whether both name the same server, where `port` stands for a port that is not written.
    pub fn is_same(&self, other: &Authority, port: u16) -> bool {
        self.host == other.host && self.port.unwrap_or(port) == other.port.unwrap_or(port)
    }
}

impl Host {
    fn parse(name: &str) -> Option<Host> {
        let name = name.strip_suffix('.').unwrap_or(name);
        let known = |b: u8| b.is_ascii_alphanumeric() || b".-_".contains(&b);
        if name.is_empty() || name.len() > NAME_BYTES_MAX || !name.bytes().all(known) {
            return None;
        }
        Some(match name.parse::<Ipv4Addr>() {
            Ok(address) => Host::Ip(address.into()),
            Err(_) => Host::Name(name.to_ascii_lowercase()),
        })
    }

    /// Whether it is this machine, without resolving a name.
    pub fn is_loopback(&self) -> bool {
        match self {
            Host::Ip(address) => address.is_loopback(),
            Host::Name(name) => name == "localhost",
        }
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Host::Ip(IpAddr::V6(address)) => write!(f, "[{address}]"),
            Host::Ip(address) => write!(f, "{address}"),
            Host::Name(name) => f.write_str(name),
        }
    }
}

impl fmt::Display for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.port {
            Some(port) => write!(f, "{}:{port}", self.host),
            None => write!(f, "{}", self.host),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings() {
        for (text, expected) in [
            ("logs.example", Some("logs.example")),
            ("LOGS.Example.:9514", Some("logs.example:9514")),
            ("localhost.", Some("localhost")),
            ("a_b-c", Some("a_b-c")),
            ("127.0.0.1", Some("127.0.0.1")),
            ("127.0.0.1.:80", Some("127.0.0.1:80")),
            ("[::1]:9514", Some("[::1]:9514")),
            ("[0:0:0:0:0:0:0:1]", Some("[::1]")),
            ("[::ffff:127.0.0.1]", Some("127.0.0.1")),
            ("[fe80::1%25eth0]:1", Some("[fe80::1]:1")),
            ("name:", Some("name")),
            ("name:00080", Some("name:80")),
            // Texts that no browser sends, or that two parsers would understand differently.
            ("", None),
            (".", None),
            (":80", None),
            ("::1", None),
            ("[::1", None),
            ("[::1]x", None),
            ("[localhost]", None),
            ("user@localhost", None),
            ("localhost@evil.example", None),
            ("localhost:80@evil.example", None),
            ("localhost:80:90", None),
            ("localhost:+80", None),
            ("localhost:65536", None),
            ("localhost/x", None),
            ("localhost x", None),
            ("localhost,evil.example", None),
            ("%6c%6fcalhost", None),
            ("lo\u{212a}alhost", None),
            ("localhost\0", None),
        ] {
            let found = Authority::parse(text.as_bytes()).map(|found| found.to_string());
            assert_eq!(found.as_deref(), expected, "{text:?}");
        }
        assert!(Authority::parse(&[b'a'; 254]).is_none());
        assert!(Authority::parse(b"caf\xe9").is_none());
    }
}
