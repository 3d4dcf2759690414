//! The settings of a provider.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use cluster::engines::Secret;

/// Providers. A configuration with more is refused.
pub const PROVIDERS_MAX: usize = 16;

/// A provider of OpenID Connect.
#[derive(Clone, Debug, PartialEq)]
pub struct OidcOptions {
    /// Unique among the systems that vouch for users.
    pub name: Arc<str>,
    /// Its address, as it calls itself.
    pub issuer: String,
    /// The name of this server there.
    pub client_id: String,
    /// The secret of this server there; a public client has none.
    pub client_secret: Option<Secret>,
    /// What is asked for.
    pub scopes: Vec<String>,
    /// The claim that names a user.
    pub name_claim: String,
    /// The claim with the groups.
    pub groups_claim: String,
    /// Domains of the addresses of users that are let in; empty: no address is asked for.
    pub email_domains: Vec<String>,
    /// How often the provider is asked whether a session may go on.
    pub recheck: Duration,
    /// The certificates that it is verified with; `None` for those of the system.
    pub ca: Option<PathBuf>,
    /// The address of this server's page, without a slash at the end.
    pub external_url: String,
}

impl OidcOptions {
    /// Where the provider sends browsers to after a login.
    pub fn redirect_uri(&self) -> String {
        format!("{}/api/v1/login/oidc/{}/callback", self.external_url, self.name)
    }
}

/// Checks the address of a provider, one of its services, or of this server's page: HTTPS, or HTTP
/// on loopback.
pub fn check_url(url: &str) -> Result<(), String> {
    let parsed: Result<ureq::http::Uri, _> = url.parse();
    let uri = parsed.map_err(|_| format!("'{url}' is not an address such as https://HOST"))?;
    let host = uri.host().unwrap_or_default();
    let is_here = matches!(host, "localhost" | "127.0.0.1" | "[::1]");
    match uri.scheme_str() {
        _ if host.is_empty() || uri.authority().is_some_and(|a| a.as_str().contains('@')) => {
            Err(format!("'{url}' is not an address such as https://HOST"))
        }
        Some("https") => Ok(()),
        Some("http") if is_here => Ok(()),
        _ => Err(format!("'{url}' must begin with https://; http:// is for this machine alone")),
    }
}
