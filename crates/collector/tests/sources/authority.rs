//! A certificate authority for tests: each test makes a new one, in files of a temporary directory.

use std::path::{Path, PathBuf};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};

pub struct Authority {
    directory: tempfile::TempDir,
    issuer: CertifiedIssuer<'static, KeyPair>,
}

/// A certificate with its key, in files.
pub struct Issued {
    pub certificate: PathBuf,
    pub key: PathBuf,
}

impl Authority {
    /// A self-signed authority.
    pub fn new() -> Authority {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "authority of a test");
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let directory = tempfile::tempdir().unwrap();
        let authority = Authority { directory, issuer };
        std::fs::write(authority.certificate(), authority.issuer.pem()).unwrap();
        authority
    }

    /// A file in the directory.
    pub fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// The authority's own certificate.
    pub fn certificate(&self) -> PathBuf {
        self.file("ca.pem")
    }

    /// Issues a certificate for 127.0.0.1 and localhost, to files with this name. Earlier files
    /// with the same name are replaced.
    pub fn issue(&self, name: &str) -> Issued {
        self.issue_until(name, (2049, 12, 31))
    }

    /// As [`Authority::issue`], with year, month and day of expiry.
    pub fn issue_until(&self, name: &str, (year, month, day): (i32, u8, u8)) -> Issued {
        self.issue_as(name, |params| params.not_after = rcgen::date_time_ymd(year, month, day))
    }

    /// As [`Authority::issue`], with what `change` changes.
    pub fn issue_as(&self, name: &str, change: impl FnOnce(&mut CertificateParams)) -> Issued {
        let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
        let mut params = CertificateParams::new(names).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let file = |what: &str| self.file(&format!("{name}.{what}.pem"));
        let issued = Issued { certificate: file("certificate"), key: file("key") };
        replace(&issued.certificate, &certificate.pem());
        replace(&issued.key, &key.serialize_pem());
        issued
    }
}

/// Writes a file as programs that renew certificates do: to a temporary name, then renamed.
fn replace(path: &Path, text: &str) {
    use std::os::unix::fs::PermissionsExt;
    let part = path.with_extension("part");
    std::fs::write(&part, text).unwrap();
    std::fs::set_permissions(&part, std::fs::Permissions::from_mode(0o600)).unwrap();
    std::fs::rename(&part, path).unwrap();
}
