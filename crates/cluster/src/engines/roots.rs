//! The certificates that servers are verified with.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};

use crate::engines::error::{Error, ErrorKind};

/// Files with the CAs that the system trusts, where distributions place them.
const SYSTEM_ROOTS: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// A certificate of our own, with its key, in PEM form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The file of the certificate, followed by those of its issuers.
    pub certificate: PathBuf,
    /// The file of its private key.
    pub key: PathBuf,
}

/// The certificates in the file `ca`, or those that the system trusts, in PEM form. Fails if there
/// are none, or if one cannot be read.
pub fn pem(ca: Option<&Path>) -> Result<Vec<u8>, Error> {
    let variable = std::env::var_os("SSL_CERT_FILE").map(PathBuf::from);
    let system = variable.into_iter().chain(SYSTEM_ROOTS.iter().map(PathBuf::from));
    let file = match ca {
        Some(ca) => ca.to_owned(),
        None => system.into_iter().find(|file| file.exists()).ok_or_else(|| {
            Error::new(
                ErrorKind::Refused,
                "the CA certificates of this system were not found",
                "give the certificate of the server, or of its CA, with `ca`",
            )
        })?,
    };
    let text = read(&file, "`ca` names a file of certificates in PEM form")?;
    parse(&text, &file)?;
    Ok(text)
}

/// The certificates of [`pem`], parsed.
pub fn certificates(ca: Option<&Path>) -> Result<Vec<CertificateDer<'static>>, Error> {
    parse(&pem(ca)?, ca.unwrap_or(Path::new("the file of the system's CA certificates")))
}

/// TLS with these certificates, and with a certificate of our own if servers ask for one.
pub fn client_config(ca: Option<&Path>, own: Option<&Identity>) -> Result<ClientConfig, Error> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(certificates(ca)?);
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let failed = |error: rustls::Error| {
        let what = format!("TLS cannot be set up: {error}");
        Error::new(ErrorKind::Refused, what, "check the certificate and its key")
    };
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(failed)?
        .with_root_certificates(roots);
    let Some(own) = own else { return Ok(config.with_no_client_auth()) };
    let remedy = "give a private key in PEM form, without a password";
    let key = PrivateKeyDer::from_pem_slice(&read(&own.key, remedy)?).map_err(|_| {
        let what = format!("there is no private key in {}", own.key.display());
        Error::new(ErrorKind::Refused, what, remedy)
    })?;
    let chain =
        parse(&read(&own.certificate, "give a certificate in PEM form")?, &own.certificate)?;
    config.with_client_auth_cert(chain, key).map_err(failed)
}

fn parse(text: &[u8], file: &Path) -> Result<Vec<CertificateDer<'static>>, Error> {
    let remedy = "`ca` names a file of certificates in PEM form";
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text).collect();
    let found = found.map_err(|_| {
        Error::new(ErrorKind::Refused, format!("{} is damaged", file.display()), remedy)
    })?;
    if found.is_empty() {
        let what = format!("there is no PEM certificate in {}", file.display());
        return Err(Error::new(ErrorKind::Refused, what, remedy));
    }
    Ok(found)
}

fn read(file: &Path, remedy: &str) -> Result<Vec<u8>, Error> {
    std::fs::read(file).map_err(|error| {
        let what = format!("cannot read {}: {error}", file.display());
        Error::new(ErrorKind::Refused, what, remedy)
    })
}
