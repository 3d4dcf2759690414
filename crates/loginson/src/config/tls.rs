//! `syslog_tls_listen` and `[tls]`: whether there is TLS, and with which files. The files are read
//! when the source starts.

use anyhow::{Result, anyhow, bail, ensure};
use collector::{ClientCertificates, TlsFiles};

use crate::config::raw::RawTls;
use crate::config::{parse_listen, unless_off};
use node::ingest::options::SyslogTls;

/// Where `auto` listens when there is a certificate.
const LISTEN_DEFAULT: &str = "127.0.0.1:6514";

/// Checks the section. `auto` is on when a certificate is given.
pub fn syslog_tls(listen: &str, raw: &RawTls) -> Result<Option<SyslogTls>> {
    let files = files(raw)?;
    let Some(listen) = (match (listen, &files) {
        ("auto", None) => None,
        ("auto", Some(_)) => parse_listen("syslog_tls_listen", LISTEN_DEFAULT)?,
        (listen, _) => parse_listen("syslog_tls_listen", listen)?,
    }) else {
        return Ok(None);
    };
    let files = files.ok_or_else(|| {
        anyhow!("syslog_tls_listen needs a certificate: give tls.certificate and tls.key, or set it to off")
    })?;
    Ok(Some(SyslogTls { listen, files }))
}

/// The files of the section; `None` if it names none.
pub fn files(raw: &RawTls) -> Result<Option<TlsFiles>> {
    let file = |text: &str| unless_off(text, |path| Ok(path.into()));
    let (certificate, key) = (file(&raw.certificate)?, file(&raw.key)?);
    let clients = clients("tls", &raw.client_certificates, &raw.client_ca)?;
    Ok(match (certificate, key) {
        (None, None) => {
            ensure!(
                clients == ClientCertificates::Off,
                "tls.client_certificates needs tls.certificate and tls.key"
            );
            None
        }
        (Some(certificate), Some(key)) => {
            Some(TlsFiles { certificate, key, clients, section: "tls" })
        }
        (Some(_), None) => bail!("tls.certificate needs tls.key, the PEM file of its private key"),
        (None, Some(_)) => {
            bail!("tls.key needs tls.certificate, the PEM file of the certificate of that key")
        }
    })
}

/// Whether clients need certificates, by the keys of a section.
pub fn clients(section: &str, whether: &str, ca: &str) -> Result<ClientCertificates> {
    let ca = unless_off(ca, |path| Ok(path.into()))?;
    Ok(match (whether, ca) {
        ("off", None) => ClientCertificates::Off,
        ("off", Some(_)) => bail!(
            "{section}.client_ca is for {section}.client_certificates: set that to optional or required"
        ),
        ("optional", Some(ca)) => ClientCertificates::Optional { ca },
        ("required", Some(ca)) => ClientCertificates::Required { ca },
        ("optional" | "required", None) => bail!(
            "{section}.client_certificates needs {section}.client_ca: the PEM file of the CA that issued the senders' certificates"
        ),
        (text, _) => {
            bail!("{section}.client_certificates: '{text}' is not one of off, optional, required")
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(certificate: &str, key: &str, client_ca: &str, client_certificates: &str) -> RawTls {
        RawTls {
            certificate: certificate.into(),
            key: key.into(),
            client_ca: client_ca.into(),
            client_certificates: client_certificates.into(),
        }
    }

    #[test]
    fn it_is_on_with_a_certificate() {
        let check = |listen: &str, raw: &RawTls, expected: Option<&str>| {
            let tls = syslog_tls(listen, raw).unwrap();
            assert_eq!(tls.map(|tls| tls.listen), expected.map(|address| address.parse().unwrap()));
        };
        check("auto", &RawTls::default(), None);
        check("off", &RawTls::default(), None);
        let files = raw("c", "k", "off", "off");
        check("auto", &files, Some("127.0.0.1:6514"));
        check("off", &files, None);
        check("0.0.0.0:1", &files, Some("0.0.0.0:1"));
        let tls = syslog_tls("auto", &raw("c", "k", "ca", "required")).unwrap().unwrap();
        assert_eq!(tls.files.clients, ClientCertificates::Required { ca: "ca".into() });
    }

    #[test]
    fn contradicting_keys_are_errors() {
        let check = |listen: &str, raw: RawTls, expected: &str| {
            let error = syslog_tls(listen, &raw).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        };
        check("127.0.0.1:1", RawTls::default(), "syslog_tls_listen needs a certificate");
        check("auto", raw("c", "off", "off", "off"), "tls.certificate needs tls.key");
        check("auto", raw("off", "k", "off", "off"), "tls.key needs tls.certificate");
        check("auto", raw("c", "k", "ca", "off"), "tls.client_ca is for");
        check(
            "auto",
            raw("c", "k", "off", "required"),
            "tls.client_certificates needs tls.client_ca",
        );
        check("auto", raw("off", "off", "ca", "required"), "needs tls.certificate and tls.key");
        check("auto", raw("c", "k", "ca", "yes"), "not one of off, optional, required");
        check("6514", raw("c", "k", "off", "off"), "is not an address");
    }
}
