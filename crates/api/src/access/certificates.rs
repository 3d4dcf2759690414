//! Users by the certificates of their clients, which HTTPS verifies with the CAs of
//! `http_tls.client_ca`.
//!
//! A certificate is for a connection, and a browser shows it with every request, whichever page
//! makes it. So it identifies only requests that have no credentials of their own. The guard
//! refuses those that pages of other sites make; browsers name the site of every request over
//! HTTPS.
//!
//! Left out: lists of revoked certificates. A certificate that is not to count any more loses its
//! group's rule, or the CA.

use crate::wire::listen::certificate::ClientCertificate;

/// What vouches for these users, behind the `@` of their names and in rules of groups.
pub const SOURCE: &str = "certificate";

/// Which name of a certificate names the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NamedBy {
    /// The common name of the subject.
    CommonName,
    /// The only e-mail address among the alternative names.
    Email,
    /// The only host name among the alternative names.
    Host,
}

impl NamedBy {
    /// All, with their names in the configuration.
    pub const ALL: [(&str, NamedBy); 3] =
        [("cn", NamedBy::CommonName), ("email", NamedBy::Email), ("dns", NamedBy::Host)];

    /// The name in a certificate; none if it has several or none of that kind.
    pub fn name(self, certificate: &ClientCertificate) -> Option<&str> {
        let names = match self {
            NamedBy::CommonName => return certificate.common_name.as_deref(),
            NamedBy::Email => &certificate.emails,
            NamedBy::Host => &certificate.hosts,
        };
        match &names[..] {
            [name] => Some(name),
            _ => None,
        }
    }
}
