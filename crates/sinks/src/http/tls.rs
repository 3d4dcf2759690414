//! TLS of HTTP by `rustls`.

use std::path::Path;
use std::sync::Arc;

use ureq::tls::{Certificate, RootCerts, TlsConfig, TlsProvider};

use crate::destination::Fault;

/// TLS with the certificates in the file `ca`, or those that the system trusts.
pub fn config(ca: Option<&Path>) -> Result<TlsConfig, Fault> {
    let roots = cluster::engines::roots::certificates(ca)?;
    let roots = roots.iter().map(|der| Certificate::from_der(der).to_owned()).collect();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    Ok(TlsConfig::builder()
        .provider(TlsProvider::Rustls)
        .unversioned_rustls_crypto_provider(provider)
        .root_certs(RootCerts::Specific(Arc::new(roots)))
        .build())
}
