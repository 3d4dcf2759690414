//! `[integrity]`: the chain of sealed segments.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use node::storage::integrity::{IntegrityOptions, SigningKey};
use serde::{Deserialize, Serialize};

use crate::config::backup::{RawBackup, address};
use crate::config::duration;

/// The variable of the environment that may hold the key itself.
pub const VARIABLE: &str = "LOGINSON_INTEGRITY_KEY";
/// The shortest time between two heads.
const SIGN_EVERY_MIN: Duration = Duration::from_secs(5);

/// `[integrity]` as written in the file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RawIntegrity {
    pub key_file: String,
    pub sign_every: String,
    pub copy_to: String,
}

impl Default for RawIntegrity {
    fn default() -> Self {
        RawIntegrity { key_file: "off".into(), sign_every: "5m".into(), copy_to: "off".into() }
    }
}

/// Checks the section; none without a key.
pub fn check(
    raw: &RawIntegrity,
    backup: &RawBackup,
    has_engines: bool,
) -> Result<Option<IntegrityOptions>> {
    check_with(raw, backup, has_engines, std::env::var(VARIABLE).ok())
}

fn check_with(
    raw: &RawIntegrity,
    backup: &RawBackup,
    has_engines: bool,
    variable: Option<String>,
) -> Result<Option<IntegrityOptions>> {
    let (name, pem) = match (raw.key_file.as_str(), variable) {
        ("off", None) => {
            ensure!(
                raw.copy_to == "off",
                "integrity.copy_to without a key: set integrity.key_file, or {VARIABLE}"
            );
            return Ok(None);
        }
        ("off", Some(pem)) => (VARIABLE.to_owned(), pem),
        (file, _) => {
            let pem = std::fs::read_to_string(Path::new(file))
                .with_context(|| format!("integrity.key_file: cannot read {file}"))?;
            (format!("integrity.key_file: {file}"), pem)
        }
    };
    ensure!(
        !has_engines,
        "[integrity] does not work in a cluster on Kafka: its segments are in the bucket, which can keep versions of objects"
    );
    let key = SigningKey::parse(&pem).with_context(|| name)?;
    let sign_every = duration("integrity.sign_every", &raw.sign_every)?;
    ensure!(sign_every >= SIGN_EVERY_MIN, "integrity.sign_every must be at least 5s");
    let copy_to = match raw.copy_to.as_str() {
        "off" => None,
        to => {
            let place = RawBackup { to: to.to_owned(), ..backup.clone() };
            Some(address(&place).context("integrity.copy_to")?)
        }
    };
    Ok(Some(IntegrityOptions { key: Arc::new(key), sign_every, copy_to }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_needed_and_hidden() {
        let pem = "-----BEGIN PRIVATE KEY-----\n\
            MC4CAQAwBQYDK2VwBCIEIHbB2uMUHGJEwv0DqxsBQkM39nJ0hJc0lVn3ndl6B0Jr\n-----END PRIVATE KEY-----\n";
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("key");
        std::fs::write(&file, pem).unwrap();
        let checked = |toml: &str, variable: Option<&str>| {
            let raw = toml::from_str(toml).unwrap();
            check_with(&raw, &RawBackup::default(), false, variable.map(str::to_owned))
        };
        assert!(checked("", None).unwrap().is_none());
        let by_file = format!("key_file = '{}'\n", file.display());
        let options = checked(&format!("{by_file}copy_to = '/mnt/heads'"), None).unwrap().unwrap();
        assert_eq!(options.copy_to.as_ref().unwrap().to_string(), "/mnt/heads");
        assert!(!format!("{options:?}").contains("HbB2"), "{options:?}");
        assert!(checked("", Some(pem)).unwrap().is_some());
        for (toml, variable, expected) in [
            ("copy_to = '/mnt'", None, "without a key"),
            ("key_file = '/no/such'", None, "cannot read /no/such"),
            ("", Some("x"), "openssl genpkey"),
            ("sign_every = '1s'", Some(pem), "at least 5s"),
            ("copy_to = 'ftp://x'", Some(pem), "integrity.copy_to"),
        ] {
            let error = format!("{:#}", checked(toml, variable).unwrap_err());
            assert!(error.contains(expected), "{toml}: {error}");
        }
    }
}
