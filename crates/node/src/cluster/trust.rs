//! The certificates by which this program verifies servers that it calls.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, ensure};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use ureq::tls::{Certificate, RootCerts, TlsConfig, TlsProvider};

/// Files with the CAs that the system trusts, where distributions place them.
const SYSTEM_ROOTS: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// The certificates to verify a server with: those in the file `ca`, or those that the system
/// trusts.
pub fn roots(ca: Option<&Path>) -> Result<Vec<Certificate<'static>>> {
    let variable = std::env::var_os("SSL_CERT_FILE").map(PathBuf::from);
    let system = variable.into_iter().chain(SYSTEM_ROOTS.iter().map(PathBuf::from));
    let file = match ca {
        Some(ca) => ca.to_owned(),
        None => system.into_iter().find(|file| file.exists()).ok_or_else(|| {
            anyhow!("the CA certificates of this system were not found; give the server's certificate with --ca (a store's with stores.ca_file)")
        })?,
    };
    let text = std::fs::read(&file).with_context(|| format!("cannot read {}", file.display()))?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    let found = found.map_err(|_| anyhow!("{} is damaged", file.display()))?;
    ensure!(!found.is_empty(), "there is no PEM certificate in {}", file.display());
    Ok(found.iter().map(|der| Certificate::from_der(der).to_owned()).collect())
}

/// TLS of `ureq` that verifies servers with [`roots`].
pub fn tls_config(ca: Option<&Path>) -> Result<TlsConfig> {
    Ok(TlsConfig::builder()
        .provider(TlsProvider::Rustls)
        .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .root_certs(RootCerts::Specific(Arc::new(roots(ca)?)))
        .build())
}
