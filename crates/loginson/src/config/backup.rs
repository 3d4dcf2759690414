//! `[backup]`: where a server sends its backups, and when.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use node::storage::backup::destination::{Address, Keep, S3Options};
use node::storage::backup::schedule::BackupOptions;
use serde::{Deserialize, Serialize};

use crate::config::duration;
use crate::config::stores::ca_file;

/// The shortest time between two backups: each lists what the destination has.
const EVERY_MIN: Duration = Duration::from_secs(60);

/// `[backup]` as written in the file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RawBackup {
    pub to: String,
    pub every: String,
    pub keep: String,
    pub endpoint: String,
    pub region: String,
    pub access_key_file: String,
    pub secret_key_file: String,
    pub ca_file: String,
    pub path_style: bool,
}

impl Default for RawBackup {
    fn default() -> Self {
        RawBackup {
            to: "off".into(),
            every: "off".into(),
            keep: "off".into(),
            endpoint: "off".into(),
            region: "us-east-1".into(),
            access_key_file: "off".into(),
            secret_key_file: "off".into(),
            ca_file: "off".into(),
            path_style: true,
        }
    }
}

/// Checks the section; none without a destination.
pub fn check(raw: &RawBackup) -> Result<Option<BackupOptions>> {
    if raw.to == "off" {
        ensure!(*raw == RawBackup::default(), "[backup] names no destination: set backup.to");
        return Ok(None);
    }
    let every = match raw.every.as_str() {
        "off" => None,
        text => Some(duration("backup.every", text)?),
    };
    ensure!(
        every.is_none_or(|every| every >= EVERY_MIN),
        "backup.every must be at least 1m, or off: then backups are sent by `loginson backup send` only"
    );
    let keep = match raw.keep.as_str() {
        "off" => None,
        text => Some(text.parse::<Keep>().context("backup.keep")?),
    };
    Ok(Some(BackupOptions { to: address(raw)?, every, keep }))
}

/// The destination.
pub fn address(raw: &RawBackup) -> Result<Address> {
    let key_files = match (raw.access_key_file.as_str(), raw.secret_key_file.as_str()) {
        ("off", "off") => None,
        (key, secret) => Some((PathBuf::from(key), PathBuf::from(secret))),
    };
    let s3 = S3Options {
        endpoint: (raw.endpoint != "off").then(|| raw.endpoint.clone()),
        region: raw.region.clone(),
        path_style: raw.path_style,
        ca_file: ca_file(&raw.ca_file),
        key_files,
    };
    Address::parse(&raw.to, &s3).context("backup.to")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(toml: &str) -> Result<Option<BackupOptions>> {
        check(&toml::from_str(toml).unwrap())
    }

    #[test]
    fn destinations_are_checked() {
        assert!(checked("").unwrap().is_none());
        let options = checked("to = '/mnt/b'\nevery = '1h'\nkeep = '7d/12w'").unwrap().unwrap();
        assert_eq!(options.to.to_string(), "/mnt/b");
        assert_eq!(options.every, Some(Duration::from_secs(3600)));
        assert_eq!(options.keep.unwrap().to_string(), "7d/12w");
        let dir = tempfile::tempdir().unwrap();
        let key = dir.path().join("key");
        std::fs::write(&key, "hidden\n").unwrap();
        let files = format!("access_key_file = '{0}'\nsecret_key_file = '{0}'\n", key.display());
        let options = checked(&format!("to = 's3://bucket/a'\n{files}")).unwrap().unwrap();
        assert!(!format!("{options:?}").contains("hidden"), "{options:?}");
        for (text, expected) in [
            ("every = '1h'", "set backup.to"),
            ("to = '/mnt/b'\nevery = '59s'", "at least 1m"),
            ("to = '/mnt/b'\nkeep = '7'", "backup.keep: '7' does not say"),
            ("to = 'gs://b'", "backup.to: 'gs://b' is no place"),
            ("to = 's3://b'\naccess_key_file = '/no'\nsecret_key_file = '/no'", "cannot read /no"),
        ] {
            let error = format!("{:#}", checked(text).unwrap_err());
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
