//! The credentials of a TLS server: its certificate and key, and the CAs of accepted client
//! certificates. Read from PEM files (RFC 7468), and reloaded while connections stay open.
//!
//! Invariants: the credentials in use were read as a whole and match each other. If the files do
//! not, the previous credentials stay in use, and the status says why. A connection keeps the
//! credentials that were in use when it began. Sessions are resumed only under the credentials they
//! began under, so that nobody gets in by a CA that is no longer trusted.
//!
//! Decisions:
//! - The files are checked every [`LOOK_INTERVAL`], and read when they have changed and then stayed
//!   unchanged for one interval: programs that renew certificates write one file after the other.
//!   [`Credentials::reload`] reads them at once.
//! - TLS 1.3 sessions are not resumed. The server would send tickets for that after the handshake.
//!   Syslog senders never read, and when a sender closes its socket with unread bytes, its kernel
//!   discards data that it has not sent yet. TLS 1.2 resumes within the handshake, from a cache of
//!   [`SESSIONS_MAX`] sessions.
//! - No ALPN: RFC 5425 does not define one.
//!
//! Left out: revocation lists, OCSP stapling, encrypted keys, hardware keys, and several names with
//! a certificate each.

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use platform::Clock;
use rustls::pki_types::pem::{PemObject, SectionKind};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ServerSessionMemoryCache, VerifierBuilderError, WebPkiClientVerifier};
use rustls::{RootCertStore, ServerConfig};

use super::validity::not_after_s;

/// How often the files are checked for changes.
pub const LOOK_INTERVAL: Duration = Duration::from_secs(5);
/// TLS 1.2 sessions that can be resumed. Beyond this, the oldest is forgotten and its sender does a
/// full handshake.
const SESSIONS_MAX: usize = 1024;
/// A larger file is not read: it cannot be a certificate or key.
const FILE_BYTES_MAX: u64 = 16 << 20;
/// When a certificate is read that is valid for less than this, a warning is logged.
const EXPIRES_SOON_S: i64 = 14 * 86_400;

/// The files of a TLS server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The server's certificate, then those of its chain up to the CA.
    pub certificate: PathBuf,
    /// The private key of the first certificate.
    pub key: PathBuf,
    /// Whether clients must present a certificate.
    pub clients: ClientCertificates,
    /// The configuration section that names the files, for messages.
    pub section: &'static str,
}

/// Whether senders present a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientCertificates {
    /// None is requested.
    Off,
    /// One is requested: a sender without a certificate is accepted, one with an invalid
    /// certificate is not.
    Optional {
        /// Certificates of the trusted CAs.
        ca: PathBuf,
    },
    /// A sender without a certificate is refused.
    Required {
        /// Certificates of the trusted CAs.
        ca: PathBuf,
    },
}

/// Why files cannot be used for TLS. No message contains any part of a key.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The file is missing or cannot be read.
    #[error("cannot read {}, the {what}: {error}; correct the path in {setting}", path.display())]
    Unreadable {
        /// What the file should contain.
        what: &'static str,
        /// The setting that names the file.
        setting: String,
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        error: io::Error,
    },
    /// The file exists, but this process may not read it.
    #[error(
        "may not read {}, the {what}: the user that Loginson runs as needs the right to read it and to enter its \
         directories; for example chgrp it to that user's group and chmod 640", path.display()
    )]
    Forbidden {
        /// What the file should contain.
        what: &'static str,
        /// The file.
        path: PathBuf,
    },
    /// The file does not contain the expected PEM section.
    #[error(
        "there is no {what} in {}: a PEM file with a line '-----BEGIN {label}-----' is expected{remedy}",
        path.display()
    )]
    NotInside {
        /// What the file should contain.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The label of the PEM section.
        label: &'static str,
        /// The remedy, beginning with a separator; empty when there is no better hint.
        remedy: String,
    },
    /// Damaged PEM.
    #[error("{}, the {what}, is damaged: {error}; copy it again", path.display())]
    Damaged {
        /// What the file should contain.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The problem.
        error: String,
    },
    /// The key belongs to another certificate.
    #[error(
        "the key in {} does not belong to the first certificate in {}: `openssl pkey -pubout -in KEY` and \
         `openssl x509 -noout -pubkey -in CERTIFICATE` must print the same; the server's own certificate comes \
         first, before those of its CA", key.display(), certificate.display()
    )]
    KeyMismatch {
        /// The file of the certificate.
        certificate: PathBuf,
        /// The file of the key.
        key: PathBuf,
    },
    /// The TLS library does not accept this certificate and key.
    #[error(
        "the certificate in {} with the key in {} cannot be used: {error}; certificates of version 3 with keys of \
         RSA (2048 bits or more), ECDSA (P-256, P-384) and Ed25519 can", certificate.display(), key.display()
    )]
    Unusable {
        /// The file of the certificate.
        certificate: PathBuf,
        /// The file of the key.
        key: PathBuf,
        /// The error of the TLS library.
        error: String,
    },
    /// A CA's certificate cannot be used.
    #[error("a certificate in {}, the client CA, cannot be used: {error}", path.display())]
    UnusableCa {
        /// The file.
        path: PathBuf,
        /// The error of the TLS library.
        error: String,
    },
}

/// State of the credentials, for display.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsStatus {
    /// When the certificate, or the first certificate of its chain, expires: seconds since 1970.
    pub expires_s: i64,
    /// When the credentials in use were read: nanoseconds since 1970.
    pub loaded_ns: i64,
    /// How often changed files were read and used.
    pub reloads: u64,
    /// How often changed files were read and could not be used.
    pub reload_failures: u64,
    /// Why the current files cannot be used, if so.
    pub error: Option<String>,
}

/// The credentials in use, and where they come from.
pub struct Credentials {
    files: TlsFiles,
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
}

struct State {
    config: Arc<ServerConfig>,
    status: TlsStatus,
    /// Stamps of the files when they were read.
    read: Stamps,
    /// Stamps of the files when they were last checked.
    seen: Stamps,
}

/// Data that changes when a file changes. `None` for a missing file.
type Stamps = Vec<Option<(u64, u64, i64, i64)>>;

impl Credentials {
    /// Reads the files.
    pub fn load(files: TlsFiles, clock: Arc<dyn Clock>) -> Result<Arc<Credentials>, TlsError> {
        // Stamps are taken before reading, so that a change in between is noticed the next time.
        let stamps = files.stamps();
        let (config, expires_s) = files.read()?;
        let status = TlsStatus {
            expires_s,
            loaded_ns: clock.now_ns(),
            reloads: 0,
            reload_failures: 0,
            error: None,
        };
        let state = State { config: Arc::new(config), status, read: stamps.clone(), seen: stamps };
        let credentials = Credentials { files, clock, state: Mutex::new(state) };
        credentials.warn_of_expiry(expires_s);
        Ok(Arc::new(credentials))
    }

    /// The configuration for a connection that begins now.
    pub fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.lock().config)
    }

    /// The current state.
    pub fn status(&self) -> TlsStatus {
        self.lock().status.clone()
    }

    /// Reads the files now. If they cannot be used, the previous credentials stay in use. Returns
    /// whether the files are used.
    pub fn reload(&self) -> bool {
        let stamps = self.files.stamps();
        let read = self.files.read();
        let mut state = self.lock();
        (state.read, state.seen) = (stamps.clone(), stamps);
        let expires_s = match read {
            Ok((config, expires_s)) => {
                state.config = Arc::new(config);
                let status = &mut state.status;
                (status.expires_s, status.loaded_ns) = (expires_s, self.clock.now_ns());
                status.reloads += 1;
                status.error = None;
                expires_s
            }
            Err(error) => {
                state.status.reload_failures += 1;
                state.status.error = Some(error.to_string());
                drop(state);
                tracing::error!(
                    "the TLS certificate in use is kept, because the new one cannot be used: {error}"
                );
                return false;
            }
        };
        drop(state);
        tracing::info!(certificate = %self.files.certificate.display(), "TLS certificate read anew");
        self.warn_of_expiry(expires_s);
        true
    }

    /// Reads the files if they have changed, but not since the last check.
    pub fn look(&self) {
        let stamps = self.files.stamps();
        let mut state = self.lock();
        let (changed, rests) = (stamps != state.read, stamps == state.seen);
        state.seen = stamps;
        drop(state);
        if changed && rests {
            self.reload();
        }
    }

    fn warn_of_expiry(&self, expires_s: i64) {
        let left_s = expires_s - self.clock.now_ns() / 1_000_000_000;
        let certificate = self.files.certificate.display();
        if left_s <= 0 {
            tracing::error!(%certificate, "the TLS certificate has expired; senders that check it will not connect");
        } else if left_s < EXPIRES_SOON_S {
            tracing::warn!(%certificate, days_left = left_s / 86_400, "the TLS certificate expires soon");
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics")
    }
}

impl TlsFiles {
    /// The configuration for the library, and when the certificates expire.
    fn read(&self) -> Result<(ServerConfig, i64), TlsError> {
        let chain = certificates(&self.certificate, "certificate", &self.setting("certificate"))?;
        let key = private_key(&self.key, &self.setting("key"))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let unusable = |error: String| {
            let (certificate, key) = (self.certificate.clone(), self.key.clone());
            TlsError::Unusable { certificate, key, error }
        };
        let expires_s = chain.iter().map(|der| not_after_s(der)).min().flatten();
        let expires_s =
            expires_s.ok_or_else(|| unusable("it is not an X.509 certificate".into()))?;
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| unusable(error.to_string()))?;
        let builder = match self.clients.ca() {
            None => builder.with_no_client_auth(),
            Some(ca) => {
                let verifier = WebPkiClientVerifier::builder_with_provider(
                    roots(ca, &self.setting("client_ca"))?,
                    provider,
                );
                let verifier = match &self.clients {
                    ClientCertificates::Required { .. } => verifier,
                    _ => verifier.allow_unauthenticated(),
                };
                builder.with_client_cert_verifier(verifier.build().map_err(
                    |error: VerifierBuilderError| TlsError::UnusableCa {
                        path: ca.to_owned(),
                        error: error.to_string(),
                    },
                )?)
            }
        };
        let mut config = builder.with_single_cert(chain, key).map_err(|error| match error {
            rustls::Error::InconsistentKeys(_) => TlsError::KeyMismatch {
                certificate: self.certificate.clone(),
                key: self.key.clone(),
            },
            error => unusable(error.to_string()),
        })?;
        config.session_storage = ServerSessionMemoryCache::new(SESSIONS_MAX);
        config.send_tls13_tickets = 0;
        Ok((config, expires_s))
    }

    fn setting(&self, key: &str) -> String {
        format!("{}.{key}", self.section)
    }

    fn stamps(&self) -> Stamps {
        let files = [Some(self.certificate.as_path()), Some(self.key.as_path()), self.clients.ca()];
        let stamp = |m: Metadata| (m.ino(), m.size(), m.mtime(), m.mtime_nsec());
        files.into_iter().flatten().map(|file| file.metadata().ok().map(stamp)).collect()
    }
}

impl ClientCertificates {
    fn ca(&self) -> Option<&Path> {
        match self {
            ClientCertificates::Off => None,
            ClientCertificates::Optional { ca } | ClientCertificates::Required { ca } => Some(ca),
        }
    }
}

/// The certificates in a file, at least one.
fn certificates(
    path: &Path,
    what: &'static str,
    setting: &str,
) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let text = read_file(path, what, setting)?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    let found = found.map_err(|error| damaged(path, what, &error))?;
    if found.is_empty() {
        let remedy = match text.first() {
            // The first byte of DER.
            Some(0x30) => {
                "; convert it with `openssl x509 -inform der -in FILE -out FILE.pem`".into()
            }
            _ => other_section(&text),
        };
        return Err(TlsError::NotInside { what, path: path.into(), label: "CERTIFICATE", remedy });
    }
    Ok(found)
}

fn private_key(path: &Path, setting: &str) -> Result<PrivateKeyDer<'static>, TlsError> {
    let what = "private key";
    let text = read_file(path, what, setting)?;
    if let Some(key) = PrivateKeyDer::pem_slice_iter(&text).next() {
        return key.map_err(|error| damaged(path, what, &error));
    }
    let is_encrypted = text.windows(21).any(|window| window == b"ENCRYPTED PRIVATE KEY");
    let remedy = match text.first() {
        _ if is_encrypted => "; it is encrypted, and a server cannot ask for a password: store it \
             decrypted, with `openssl pkey -in FILE -out FILE.pem`, readable by Loginson alone"
            .into(),
        Some(0x30) => "; convert it with `openssl pkey -inform der -in FILE -out FILE.pem`".into(),
        _ => other_section(&text),
    };
    Err(TlsError::NotInside { what, path: path.into(), label: "PRIVATE KEY", remedy })
}

/// The certificates of CAs in a file.
fn roots(path: &Path, setting: &str) -> Result<Arc<RootCertStore>, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path, "client CA", setting)? {
        roots.add(certificate).map_err(|error| TlsError::UnusableCa {
            path: path.into(),
            error: error.to_string(),
        })?;
    }
    Ok(Arc::new(roots))
}

fn read_file(path: &Path, what: &'static str, setting: &str) -> Result<Vec<u8>, TlsError> {
    let read = || {
        let metadata = path.metadata()?;
        if !metadata.is_file() || metadata.len() > FILE_BYTES_MAX {
            return Err(io::Error::other("it is not a file of certificates or keys"));
        }
        if what == "private key" && metadata.mode() & 0o004 != 0 {
            tracing::warn!("everybody may read the private key {}; chmod 640 it", path.display());
        }
        std::fs::read(path)
    };
    read().map_err(|error| match error.kind() {
        io::ErrorKind::PermissionDenied => TlsError::Forbidden { what, path: path.into() },
        _ => TlsError::Unreadable { what, setting: setting.to_owned(), path: path.into(), error },
    })
}

/// Names what a file contains instead, without revealing its content.
fn other_section(text: &[u8]) -> String {
    let sections: Result<Vec<(SectionKind, Vec<u8>)>, _> =
        PemObject::pem_slice_iter(text).collect();
    match sections.ok().and_then(|sections| sections.first().map(|section| section.0)) {
        Some(SectionKind::Certificate) => "; it holds a certificate".into(),
        Some(kind) => format!("; it holds something else ({kind:?})"),
        None => String::new(),
    }
}

fn damaged(path: &Path, what: &'static str, error: &rustls::pki_types::pem::Error) -> TlsError {
    use rustls::pki_types::pem::Error;
    // The library's message might contain a line of the key.
    let error = match error {
        Error::MissingSectionEnd { .. } => "a section has no end",
        Error::Base64Decode(_) => "a section is not base64",
        _ => "it is not PEM",
    };
    TlsError::Damaged { what, path: path.into(), error: error.into() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tls::authority::{Authority, Issued};
    use platform::ManualClock;

    fn files(issued: &Issued, clients: ClientCertificates) -> TlsFiles {
        TlsFiles {
            certificate: issued.certificate.clone(),
            key: issued.key.clone(),
            clients,
            section: "tls",
        }
    }

    fn load(files: TlsFiles) -> Result<Arc<Credentials>, TlsError> {
        Credentials::load(files, Arc::new(ManualClock::new(1_700_000_000_000_000_000)))
    }

    #[test]
    fn invalid_files_are_errors_with_a_remedy() {
        let authority = Authority::new();
        let (issued, other) = (authority.issue("a"), authority.issue("b"));
        let text = |path: &Path| std::fs::read_to_string(path).unwrap();
        let file = |name: &str, content: &[u8]| {
            std::fs::write(authority.file(name), content).unwrap();
            authority.file(name)
        };
        let der = CertificateDer::from_pem_file(&issued.certificate).unwrap();
        let key_text = text(&issued.key);
        let ok = || files(&issued, ClientCertificates::Off);
        let certificate = |path| TlsFiles { certificate: path, ..ok() };
        let key = |path| TlsFiles { key: path, ..ok() };
        let ca = |ca| TlsFiles { clients: ClientCertificates::Required { ca }, ..ok() };
        let check = |files: TlsFiles, expected: &[&str]| {
            let Err(error) = load(files) else { panic!("{expected:?}") };
            let error = error.to_string();
            for part in expected {
                assert!(error.contains(part), "{error:?} does not say {part:?}");
            }
            let secrets = key_text.lines().filter(|line| !line.starts_with("-----"));
            assert!(!secrets.into_iter().any(|line| error.contains(&line[..12])), "{error}");
        };
        check(certificate(authority.file("none")), &["none", "No such file", "tls.certificate"]);
        check(key(authority.file("none")), &["none", "private key", "tls.key"]);
        check(ca(authority.file("none")), &["none", "client CA", "tls.client_ca"]);
        check(certificate(authority.file(".")), &["not a file of certificates"]);
        check(certificate(file("empty", b"")), &["empty", "BEGIN CERTIFICATE"]);
        check(certificate(file("der", &der)), &["der", "openssl x509 -inform der"]);
        check(certificate(issued.key.clone()), &["BEGIN CERTIFICATE", "something else"]);
        check(key(issued.certificate.clone()), &["BEGIN PRIVATE KEY", "it holds a certificate"]);
        check(key(file("der.key", b"0\x80")), &["openssl pkey -inform der"]);
        let encrypted = key_text.replace("PRIVATE KEY", "ENCRYPTED PRIVATE KEY");
        check(key(file("encrypted", encrypted.as_bytes())), &["openssl pkey -in", "encrypted"]);
        let cut = &key_text[..key_text.len() - 30];
        check(key(file("cut", cut.as_bytes())), &["cut", "damaged", "no end"]);
        let odd = key_text.replace('\n', "\n#");
        check(key(file("odd", odd.as_bytes())), &["odd"]);
        check(key(other.key.clone()), &["does not belong", "openssl pkey -pubout"]);
        let wrong_order = text(&authority.certificate()) + &text(&issued.certificate);
        check(certificate(file("order", wrong_order.as_bytes())), &["does not belong", "first"]);
        let nonsense = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        check(certificate(file("nonsense", nonsense.as_bytes())), &["not an X.509 certificate"]);
        check(ca(file("nonsense", nonsense.as_bytes())), &["client CA", "cannot be used"]);
        let forbidden = TlsError::Forbidden { what: "private key", path: "/etc/ssl/key".into() };
        assert!(forbidden.to_string().contains("chmod 640"));
        assert!(load(ok()).is_ok());
        assert!(load(ca(authority.certificate())).is_ok());
    }

    #[test]
    fn changed_files_are_reloaded_once_stable() {
        let authority = Authority::new();
        let issued = authority.issue_until("server", (2031, 2, 3));
        let credentials = load(files(&issued, ClientCertificates::Off)).unwrap();
        let status = || credentials.status();
        let first = credentials.config();
        assert_eq!((status().expires_s, status().reloads), (1_927_843_200, 0));
        credentials.look();
        credentials.look();
        assert!(Arc::ptr_eq(&first, &credentials.config()), "nothing has changed");

        authority.issue_until("server", (2032, 2, 3));
        credentials.look();
        assert_eq!(status().reloads, 0, "it may not be complete");
        credentials.look();
        assert_eq!((status().expires_s, status().reloads), (1_959_379_200, 1));
        let second = credentials.config();
        assert!(!Arc::ptr_eq(&first, &second));

        // A broken file: reported once, and the previous credentials stay.
        std::fs::write(&issued.key, "nothing").unwrap();
        (0..4).for_each(|_| credentials.look());
        assert_eq!((status().reloads, status().reload_failures), (1, 1));
        assert!(status().error.unwrap().contains("BEGIN PRIVATE KEY"));
        assert_eq!(status().expires_s, 1_959_379_200);
        assert!(Arc::ptr_eq(&second, &credentials.config()));
        assert!(!credentials.reload());
        assert_eq!(status().reload_failures, 2);

        std::fs::remove_file(&issued.certificate).unwrap();
        (0..4).for_each(|_| credentials.look());
        assert_eq!(status().reload_failures, 3);
        authority.issue_until("server", (2033, 2, 3));
        assert!(credentials.reload());
        let status = status();
        assert_eq!((status.reloads, status.reload_failures, status.error), (2, 3, None));
    }

    #[test]
    fn the_first_of_a_chain_to_expire_counts() {
        let authority = Authority::new();
        let (early, late) = (authority.issue_until("early", (2030, 1, 1)), authority.issue("late"));
        let text = |path: &Path| std::fs::read_to_string(path).unwrap();
        let chain = text(&late.certificate) + &text(&early.certificate);
        std::fs::write(&late.certificate, chain).unwrap();
        let credentials = load(files(&late, ClientCertificates::Off)).unwrap();
        assert_eq!(credentials.status().expires_s, 1_893_456_000);
    }
}
