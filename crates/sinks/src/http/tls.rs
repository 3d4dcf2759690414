//! The certificates that servers are verified with.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use ureq::tls::{Certificate, RootCerts, TlsConfig, TlsProvider};

use crate::destination::Fault;

/// Files with the CAs that the system trusts, where distributions place them.
const SYSTEM_ROOTS: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// TLS of HTTP by `rustls`, with the certificates in the file `ca`, or those that the system
/// trusts.
pub fn config(ca: Option<&Path>) -> Result<TlsConfig, Fault> {
    let roots = certificates(ca)?;
    let roots = roots.iter().map(|der| Certificate::from_der(der).to_owned()).collect();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    Ok(TlsConfig::builder()
        .provider(TlsProvider::Rustls)
        .unversioned_rustls_crypto_provider(provider)
        .root_certs(RootCerts::Specific(Arc::new(roots)))
        .build())
}

/// The certificates in the file `ca`, or those that the system trusts.
pub fn certificates(ca: Option<&Path>) -> Result<Vec<CertificateDer<'static>>, Fault> {
    let variable = std::env::var_os("SSL_CERT_FILE").map(PathBuf::from);
    let system = variable.into_iter().chain(SYSTEM_ROOTS.iter().map(PathBuf::from));
    let file = match ca {
        Some(ca) => ca.to_owned(),
        None => system.into_iter().find(|file| file.exists()).ok_or_else(|| {
            Fault::new(
                "the CA certificates of this system were not found",
                "give the certificate of the server, or of its CA, with `ca`",
            )
        })?,
    };
    let remedy = "`ca` names a file of certificates in PEM form";
    let text = std::fs::read(&file)
        .map_err(|error| Fault::new(format!("cannot read {}: {error}", file.display()), remedy))?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    let found = found.map_err(|_| Fault::new(format!("{} is damaged", file.display()), remedy))?;
    if found.is_empty() {
        let what = format!("there is no PEM certificate in {}", file.display());
        return Err(Fault::new(what, remedy));
    }
    Ok(found)
}
