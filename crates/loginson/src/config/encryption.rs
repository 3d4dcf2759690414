//! `[encryption]`: the master key of files at rest.

use anyhow::{Result, ensure};
use node::storage::encryption::{EncryptionOptions, KeySource};
use serde::{Deserialize, Serialize};

use super::duration;

/// Master keys that were used before: each is read at every start.
const OLD_KEYS_MAX: usize = 16;

/// `[encryption]` as written in the file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RawEncryption {
    pub key_file: String,
    pub key_command: Vec<String>,
    pub key_command_timeout: String,
    pub old_key_files: Vec<String>,
    pub keys_version_min: u32,
}

impl Default for RawEncryption {
    fn default() -> Self {
        RawEncryption {
            key_file: "off".into(),
            key_command: Vec::new(),
            key_command_timeout: "60s".into(),
            old_key_files: Vec::new(),
            keys_version_min: 0,
        }
    }
}

/// Checks the section. Keys are read when a directory is opened.
pub fn check(raw: &RawEncryption, has_engines: bool) -> Result<EncryptionOptions> {
    let key = match (raw.key_file.as_str(), raw.key_command.as_slice()) {
        ("off", []) => None,
        ("off", words) => Some(KeySource::Command(words.to_vec())),
        (file, []) => Some(KeySource::File(file.into())),
        _ => anyhow::bail!("set encryption.key_file or encryption.key_command, not both"),
    };
    ensure!(
        key.is_some() || raw.old_key_files.is_empty(),
        "encryption.old_key_files without a key: set encryption.key_file or encryption.key_command"
    );
    ensure!(
        raw.old_key_files.len() <= OLD_KEYS_MAX,
        "encryption.old_key_files: there are more than {OLD_KEYS_MAX}"
    );
    ensure!(
        key.is_none() || !has_engines,
        "[encryption] does not work in a cluster on Kafka: its segments are in the bucket, which can encrypt objects by itself"
    );
    let old = raw.old_key_files.iter().map(|file| KeySource::File(file.into())).collect();
    let command_timeout = duration("encryption.key_command_timeout", &raw.key_command_timeout)?;
    ensure!(
        !command_timeout.is_zero(),
        "encryption.key_command_timeout is 0, so that no command could print a key; the default is 60s"
    );
    ensure!(
        key.is_some() || raw.keys_version_min == 0,
        "encryption.keys_version_min without a key: set encryption.key_file or encryption.key_command"
    );
    Ok(EncryptionOptions { key, old, command_timeout, keys_version_min: raw.keys_version_min })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_come_from_one_place() {
        let checked = |toml: &str, has_engines| check(&toml::from_str(toml).unwrap(), has_engines);
        assert_eq!(checked("", true).unwrap(), EncryptionOptions::default());
        let options = checked("key_file = '/k'\nold_key_files = ['/a']", false).unwrap();
        assert_eq!(options.key, Some(KeySource::File("/k".into())));
        assert_eq!(options.old, [KeySource::File("/a".into())]);
        let options = checked("key_command = ['vault', 'read']", false).unwrap();
        assert!(matches!(options.key, Some(KeySource::Command(words)) if words.len() == 2));
        for (toml, has_engines, expected) in [
            ("key_file = '/k'\nkey_command = ['x']", false, "not both"),
            ("old_key_files = ['/k']", false, "without a key"),
            ("keys_version_min = 3", false, "without a key"),
            ("key_file = '/k'\nkey_command_timeout = '0s'", false, "no command could print"),
            ("key_file = '/k'\nkey_command_timeout = 'soon'", false, "key_command_timeout"),
            ("key_file = '/k'", true, "cluster on Kafka"),
        ] {
            let error = checked(toml, has_engines).unwrap_err().to_string();
            assert!(error.contains(expected), "{toml}: {error}");
        }
    }
}
