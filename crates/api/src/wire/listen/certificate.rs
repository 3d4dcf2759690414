//! What the certificate of a client says, which TLS has verified: read once for each connection.

use std::sync::Arc;

use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer, X509Certificate};

/// Names of a kind that are read. Further ones are not.
const NAMES_MAX: usize = 100;

/// The names in a client's certificate.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClientCertificate {
    /// The common name of the subject, if there is one only.
    pub common_name: Option<String>,
    /// The organisational units of the subject.
    pub units: Vec<String>,
    /// The e-mail addresses among the alternative names.
    pub emails: Vec<String>,
    /// The host names among the alternative names.
    pub hosts: Vec<String>,
}

impl ClientCertificate {
    /// Reads a certificate; `None` if it is not one.
    pub fn read(der: &[u8]) -> Option<Arc<ClientCertificate>> {
        let (_, certificate) = X509Certificate::from_der(der).ok()?;
        let subject = certificate.subject();
        let mut common_names = texts(subject.iter_common_name());
        let units = texts(subject.iter_organizational_unit());
        let (mut emails, mut hosts) = (Vec::new(), Vec::new());
        if let Ok(Some(names)) = certificate.subject_alternative_name() {
            for name in names.value.general_names.iter().take(NAMES_MAX) {
                match name {
                    GeneralName::RFC822Name(name) => emails.push((*name).to_owned()),
                    GeneralName::DNSName(name) => hosts.push((*name).to_owned()),
                    _ => {}
                }
            }
        }
        let common_name = common_names.pop().filter(|_| common_names.is_empty());
        Some(Arc::new(ClientCertificate { common_name, units, emails, hosts }))
    }
}

fn texts<'a>(
    names: impl Iterator<Item = &'a x509_parser::x509::AttributeTypeAndValue<'a>>,
) -> Vec<String> {
    names.take(NAMES_MAX).filter_map(|name| Some(name.as_str().ok()?.to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DnType, KeyPair, SanType};

    use super::*;

    fn read(change: impl FnOnce(&mut CertificateParams)) -> ClientCertificate {
        let mut params = CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        change(&mut params);
        let issued = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
        (*ClientCertificate::read(issued.der()).unwrap()).clone()
    }

    #[test]
    fn names_of_certificates() {
        let found = read(|params| {
            params.distinguished_name.push(DnType::CommonName, "ann");
            params.distinguished_name.push(DnType::OrganizationalUnitName, "ops");
            params.subject_alt_names = vec![
                SanType::Rfc822Name("ann@corp.example".try_into().unwrap()),
                SanType::DnsName("web1.corp.example".try_into().unwrap()),
                SanType::IpAddress([10, 0, 0, 1].into()),
            ];
        });
        assert_eq!(found.common_name.as_deref(), Some("ann"));
        assert_eq!(found.units, ["ops"]);
        assert_eq!(
            (&*found.emails, &*found.hosts),
            (&["ann@corp.example".to_owned()][..], &["web1.corp.example".to_owned()][..],)
        );
        assert_eq!(read(|_| {}), ClientCertificate::default());
        assert_eq!(ClientCertificate::read(b"x"), None);
    }
}
