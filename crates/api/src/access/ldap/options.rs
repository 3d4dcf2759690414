//! The settings of a directory.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use cluster::engines::Secret;

use super::filter::Filter;

/// Directories. A configuration with more is refused.
pub const DIRECTORIES_MAX: usize = 8;
/// Servers of a directory. A configuration with more is refused.
pub const SERVERS_MAX: usize = 8;

/// A directory that is asked by LDAP.
#[derive(Clone, Debug, PartialEq)]
pub struct LdapOptions {
    /// Unique among the systems that vouch for users.
    pub name: Arc<str>,
    /// Its servers, in the order in which they are asked.
    pub servers: Vec<Server>,
    /// The certificates that servers are verified with; `None` for those of the system.
    pub ca: Option<PathBuf>,
    /// The account that searches, and its password; `None` to search anonymously.
    pub account: Option<(String, Secret)>,
    /// The entry below which users are.
    pub user_base: String,
    /// Finds a user.
    pub user_filter: Filter,
    /// The attribute with the name of a user.
    pub name_attribute: String,
    /// The attribute of users with the names of their groups, if groups are read from there.
    pub groups_attribute: Option<String>,
    /// The entry directly below which groups have short names, and below which they are searched.
    pub groups_base: Option<String>,
    /// Finds the groups of a user, if they are searched.
    pub groups_filter: Option<Filter>,
    /// How often the directory is asked whether a session may go on.
    pub recheck: Duration,
    /// The longest time that a server may take for a login.
    pub timeout: Duration,
}

/// A server of a directory.
#[derive(Clone, Debug, PartialEq)]
pub struct Server {
    /// Its name or its address.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// How connections are encrypted.
    pub encryption: Encryption,
}

/// How a connection is encrypted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Encryption {
    /// TLS from the first byte on: `ldaps://`.
    Tls,
    /// StartTLS before anything else (RFC 4511, 4.14).
    StartTls,
    /// Not at all; on loopback alone.
    None,
}

impl Server {
    /// Parses `ldaps://HOST[:PORT]` or `ldap://HOST[:PORT]`, the latter with StartTLS unless that
    /// is turned off.
    ///
    /// # Errors
    /// It is neither, or passwords would travel in the clear.
    pub fn parse(url: &str, start_tls: bool) -> Result<Server, String> {
        let wrong = || format!("'{url}' is not an address such as ldaps://HOST");
        let uri: ureq::http::Uri = url.parse().map_err(|_| wrong())?;
        let host = uri.host().unwrap_or_default();
        let has_more = !matches!(uri.path(), "" | "/") || uri.query().is_some();
        if host.is_empty() || has_more || uri.authority().is_some_and(|a| a.as_str().contains('@'))
        {
            return Err(wrong());
        }
        let is_here = matches!(host, "localhost" | "127.0.0.1" | "[::1]");
        let (port, encryption) = match uri.scheme_str() {
            Some("ldaps") => (636, Encryption::Tls),
            Some("ldap") if start_tls => (389, Encryption::StartTls),
            Some("ldap") if is_here => (389, Encryption::None),
            Some("ldap") => {
                return Err(format!(
                    "'{url}' without start_tls would send passwords in the clear; that is for this \
                     machine alone"
                ));
            }
            _ => return Err(wrong()),
        };
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        Ok(Server { host, port: uri.port_u16().unwrap_or(port), encryption })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_servers() {
        let of = |url: &str, start_tls: bool| {
            Server::parse(url, start_tls).map(|s| (s.host, s.port, s.encryption))
        };
        let ok = |host: &str, port, encryption| Ok((host.to_owned(), port, encryption));
        assert_eq!(of("ldaps://dc.example", true), ok("dc.example", 636, Encryption::Tls));
        assert_eq!(of("ldaps://dc.example:1/", false), ok("dc.example", 1, Encryption::Tls));
        assert_eq!(of("ldap://dc.example", true), ok("dc.example", 389, Encryption::StartTls));
        assert_eq!(of("ldap://[::1]:7", false), ok("::1", 7, Encryption::None));
        assert!(of("ldap://dc.example", false).unwrap_err().contains("in the clear"));
        for wrong in
            ["dc.example", "https://dc.example", "ldaps://a@b", "ldaps://b/dc=x", "ldaps://"]
        {
            assert!(of(wrong, true).unwrap_err().contains("not an address"), "{wrong}");
        }
    }
}
