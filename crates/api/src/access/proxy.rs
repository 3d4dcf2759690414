//! A proxy in front of the server that vouches for users, and names the addresses of clients.
//!
//! Its headers count only on connections from its own addresses. A request from elsewhere that has
//! the header of a user is refused: it would be let in if the addresses were configured too widely,
//! and whoever sends it should be seen in the log. A request that has the header and credentials
//! besides is refused as well, because the proxy may have checked other ones than those. The cookie
//! of a session is no such credential: the browser may have it from a time before the proxy.
//!
//! The address of a client is the last one in [`ProxyOptions::address_header`] that is not a
//! proxy's; what stands before it may be invented. Limits of attempts, the audit log, and the
//! origin of lines show it. The port of a client is not known then, and is 0.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::extract::{ConnectInfo, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::middleware::Next;
use axum::response::Response;

use super::gate::{self, Gate};

/// Networks of proxies. A configuration with more is refused.
pub const NETWORKS_MAX: usize = 100;
/// Addresses of a header that are looked at, from the last one on.
const ADDRESSES_MAX: usize = 20;
/// What vouches for users by a proxy, behind the `@` of their names and in rules of groups.
pub const SOURCE: &str = "proxy";

/// The settings of proxies.
#[derive(Clone, Debug, PartialEq)]
pub struct ProxyOptions {
    /// Where they are.
    pub from: Vec<Network>,
    /// The header with the name of the user.
    pub user_header: Option<HeaderName>,
    /// The header with the user's groups.
    pub groups_header: Option<HeaderName>,
    /// What separates groups.
    pub groups_separator: String,
    /// The header with the addresses of the client and of the proxies before.
    pub address_header: Option<HeaderName>,
}

/// Addresses with the same first bits.
#[derive(Clone, Debug, PartialEq)]
pub struct Network {
    address: IpAddr,
    bits: u32,
}

/// The other end of a connection, where a proxy said that the client is another.
#[derive(Clone, Copy)]
pub struct Connection(pub SocketAddr);

impl Network {
    /// Parses `10.0.0.0/8`, `fd00::/8`, or a single address.
    pub fn parse(text: &str) -> Option<Network> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits.parse::<u32>().ok()?)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().ok()?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.unwrap_or(most);
        let network = Network { address, bits };
        // Bits behind the network would be a mistake of whoever wrote them.
        (bits <= most && network.first() == network.bits_of(address)?).then_some(network)
    }

    /// Whether an address is one of these. IPv4 in IPv6 is IPv4.
    pub fn contains(&self, address: IpAddr) -> bool {
        self.bits_of(address.to_canonical()).is_some_and(|bits| bits & self.mask() == self.first())
    }

    fn mask(&self) -> u128 {
        match self.bits {
            0 => 0,
            bits => u128::MAX << (128 - bits),
        }
    }

    fn first(&self) -> u128 {
        self.bits_of(self.address).unwrap_or(0) & self.mask()
    }

    /// The address as bits, from the highest on; none if it is of the other family.
    fn bits_of(&self, address: IpAddr) -> Option<u128> {
        match (self.address, address) {
            (IpAddr::V4(_), IpAddr::V4(address)) => Some(u128::from(u32::from(address)) << 96),
            (IpAddr::V6(_), IpAddr::V6(address)) => Some(u128::from(address)),
            _ => None,
        }
    }
}

/// A user as a proxy names it.
#[derive(Debug, PartialEq)]
pub struct Named {
    /// The name, without that of the source.
    pub name: String,
    /// The groups.
    pub groups: Vec<String>,
}

impl ProxyOptions {
    /// Whether that is the address of a proxy.
    pub fn is_from(&self, address: IpAddr) -> bool {
        self.from.iter().any(|network| network.contains(address))
    }

    /// The user that the headers name; `None` if they name nobody.
    ///
    /// # Errors
    /// The connection is not one of a proxy, or the header is there twice or is no text.
    pub fn named(
        &self,
        headers: &HeaderMap,
        connection: Option<SocketAddr>,
    ) -> Result<Option<Named>, String> {
        let Some(header) = &self.user_header else { return Ok(None) };
        let mut given = headers.get_all(header).iter();
        let Some(name) = given.next() else { return Ok(None) };
        if !connection.is_some_and(|connection| self.is_from(connection.ip())) {
            return Err(format!(
                "the header {header} counts from the proxies of access.proxy.from alone, and this \
                 connection comes from elsewhere"
            ));
        }
        if given.next().is_some() {
            return Err(format!(
                "the header {header} is there twice; have the proxy replace what clients send"
            ));
        }
        let text = |value: &HeaderValue| value.to_str().map(|text| text.trim().to_owned());
        let name = text(name).map_err(|_| format!("the header {header} is not plain text"))?;
        // A proxy that lets in somebody who has not logged in.
        if name.is_empty() {
            return Ok(None);
        }
        let lists = self.groups_header.iter().flat_map(|header| headers.get_all(header));
        let lists: Vec<String> = lists.filter_map(|list| text(list).ok()).collect();
        let groups = lists.iter().flat_map(|list| list.split(&*self.groups_separator));
        let groups = groups.map(|group| group.trim().to_owned()).filter(|group| !group.is_empty());
        Ok(Some(Named { name, groups: groups.collect() }))
    }

    /// The address of the client behind the proxies.
    fn client(&self, headers: &HeaderMap) -> Option<IpAddr> {
        let lists = headers.get_all(self.address_header.as_ref()?);
        let lists: Vec<&str> = lists.iter().map(|list| list.to_str().unwrap_or("?")).collect();
        let all = lists.iter().rev().flat_map(|list| list.rsplit(',')).take(ADDRESSES_MAX);
        let mut nearest = None;
        for one in all {
            let Some(address) = address(one.trim()) else { break };
            nearest = Some(address);
            if !self.is_from(address) {
                break;
            }
        }
        nearest
    }
}

/// An address, with a port or without.
fn address(text: &str) -> Option<IpAddr> {
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    let parsed = bare.parse().ok().or_else(|| Some(text.parse::<SocketAddr>().ok()?.ip()));
    parsed.map(|address: IpAddr| address.to_canonical())
}

/// The middleware before everything that looks at addresses.
pub async fn client(State(gate): State<Gate>, mut request: Request, next: Next) -> Response {
    if let Some(proxy) = gate.proxy()
        && let Some(connection) = gate::peer(&request)
        && proxy.is_from(connection.ip())
        && let Some(client) = proxy.client(request.headers())
    {
        request.extensions_mut().insert(Connection(connection));
        request.extensions_mut().insert(ConnectInfo(SocketAddr::new(client, 0)));
    }
    next.run(request).await
}

/// The other end of the connection of a request, whatever a proxy says.
pub fn connection(request: &Request) -> Option<SocketAddr> {
    let told = request.extensions().get::<Connection>().map(|Connection(address)| *address);
    told.or_else(|| gate::peer(request))
}

/// The settings, shared by all requests.
pub type Proxy = Option<Arc<ProxyOptions>>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks() {
        for (network, inside, outside) in [
            ("127.0.0.1", "127.0.0.1", "127.0.0.2"),
            ("127.0.0.1/32", "::ffff:127.0.0.1", "::1"),
            ("10.0.0.0/8", "10.255.0.1", "11.0.0.0"),
            ("192.168.4.0/22", "192.168.7.255", "192.168.8.0"),
            ("0.0.0.0/0", "1.2.3.4", "::1"),
            ("fd00::/8", "fdff::1", "fe00::1"),
            ("::/0", "::1", "1.2.3.4"),
            ("::1", "::1", "::2"),
        ] {
            let parsed = Network::parse(network).unwrap();
            assert!(parsed.contains(inside.parse().unwrap()), "{network} {inside}");
            assert!(!parsed.contains(outside.parse().unwrap()), "{network} {outside}");
        }
        for wrong in ["", "localhost", "10.0.0.1/8", "10.0.0.0/33", "::/129", "1.2.3.4/", "1.2.3/8"]
        {
            assert_eq!(Network::parse(wrong), None, "{wrong}");
        }
    }

    fn options() -> ProxyOptions {
        ProxyOptions {
            from: vec![Network::parse("10.0.0.0/8").unwrap()],
            user_header: Some(HeaderName::from_static("x-forwarded-user")),
            groups_header: Some(HeaderName::from_static("x-forwarded-groups")),
            groups_separator: ",".into(),
            address_header: Some(HeaderName::from_static("x-forwarded-for")),
        }
    }

    fn headers(all: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in all {
            headers.append(*name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
        }
        headers
    }

    #[test]
    fn only_the_proxy_names_users() {
        let of = |all: &[(&'static str, &str)], from: &str| {
            options().named(&headers(all), from.parse().ok())
        };
        let ann = [
            ("x-forwarded-user", "ann"),
            ("x-forwarded-groups", "ops, staff,"),
            ("x-forwarded-groups", "more"),
        ];
        let named = of(&ann, "10.0.0.1:1").unwrap().unwrap();
        assert_eq!(
            (&*named.name, named.groups),
            ("ann", ["ops", "staff", "more"].map(String::from).to_vec())
        );
        assert!(of(&ann, "[::ffff:10.0.0.1]:1").unwrap().is_some());
        for from in ["11.0.0.1:1", "[::1]:1", "nowhere"] {
            assert!(of(&ann, from).unwrap_err().contains("comes from elsewhere"), "{from}");
        }
        assert_eq!(of(&[], "11.0.0.1:1"), Ok(None));
        assert_eq!(of(&[("x-forwarded-user", " ")], "10.0.0.1:1"), Ok(None));
        let twice = [("x-forwarded-user", "ann"), ("x-forwarded-user", "ann")];
        assert!(of(&twice, "10.0.0.1:1").unwrap_err().contains("twice"));
        assert!(of(&[("x-forwarded-user", "é")], "10.0.0.1:1").unwrap_err().contains("plain text"));
    }

    #[test]
    fn the_client_is_the_last_that_is_no_proxy() {
        for (lists, expected) in [
            (&["1.2.3.4"][..], Some("1.2.3.4")),
            (&["9.9.9.9, 1.2.3.4, 10.0.0.2"], Some("1.2.3.4")),
            (&["9.9.9.9", "1.2.3.4, 10.0.0.2"], Some("1.2.3.4")),
            (&["1.2.3.4:567"], Some("1.2.3.4")),
            (&["[2001:db8::1]:567"], Some("2001:db8::1")),
            (&["[2001:db8::1]"], Some("2001:db8::1")),
            (&["10.0.0.3, 10.0.0.2"], Some("10.0.0.3")),
            // What no proxy wrote ends it.
            (&["1.2.3.4, nonsense, 10.0.0.2"], Some("10.0.0.2")),
            (&["nonsense"], None),
            (&[""], None),
            (&[], None),
        ] {
            let all: Vec<_> = lists.iter().map(|list| ("x-forwarded-for", *list)).collect();
            let found = options().client(&headers(&all));
            assert_eq!(found, expected.map(|text| text.parse().unwrap()), "{lists:?}");
        }
    }
}
