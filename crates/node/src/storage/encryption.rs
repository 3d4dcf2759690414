//! `[encryption]`: where the master key comes from, and the disk that a directory needs.
//!
//! The key itself is read when a directory is opened, and is in no option, message or log. Left
//! out: how files are encrypted, which is [`platform::encryption`].

use std::fmt;
use std::fs;
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use platform::encryption::{EncryptedDisk, Keyring, MasterKey};
use platform::{Disk, RealDisk};

/// Bytes that a key takes at most, in a file or as the output of a command; more are no key.
const KEY_TEXT_BYTES_MAX: u64 = 4096;

/// Where a master key comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeySource {
    /// A file.
    File(PathBuf),
    /// The output of a program, with its arguments. No shell runs.
    Command(Vec<String>),
}

impl KeySource {
    /// Reads the key.
    ///
    /// Errors: there is none, or it is none. No error has a part of it.
    pub fn read(&self) -> Result<MasterKey> {
        let bytes = match self {
            KeySource::File(path) => read(path),
            KeySource::Command(words) => output(words),
        };
        let key = bytes.and_then(|bytes| Ok(MasterKey::parse(&bytes)?));
        key.with_context(|| format!("the master key, {self}"))
    }

    /// Says in the log if everybody on this machine can read the key.
    fn warn_of_readers(&self) {
        let KeySource::File(path) = self else { return };
        let mode = fs::metadata(path).map_or(0, |file| file.permissions().mode());
        if mode & 0o004 != 0 {
            tracing::warn!(
                "every user of this machine can read the master key {}; take that right away by \
                 chmod o=",
                path.display()
            );
        }
    }
}

impl fmt::Display for KeySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeySource::File(path) => write!(f, "{}", path.display()),
            // Its arguments may be secret.
            KeySource::Command(words) => {
                write!(f, "of the command {}", words.first().map_or("", String::as_str))
            }
        }
    }
}

fn read(path: &Path) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let file = fs::File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
    file.take(KEY_TEXT_BYTES_MAX)
        .read_to_end(&mut bytes)
        .with_context(|| format!("cannot read {}", path.display()))?;
    Ok(bytes)
}

fn output(words: &[String]) -> Result<Vec<u8>> {
    let (program, arguments) = words.split_first().context("the command is empty")?;
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .context("it cannot be started")?;
    let mut bytes = Vec::new();
    let stdout = child.stdout.take().expect("it is a pipe");
    let read = stdout.take(KEY_TEXT_BYTES_MAX).read_to_end(&mut bytes);
    let status = child.wait()?;
    read?;
    ensure!(status.success(), "it failed: {status}");
    Ok(bytes)
}

/// The keys of `[encryption]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EncryptionOptions {
    /// The master key; none: new files are not encrypted.
    pub key: Option<KeySource>,
    /// Master keys that were used before, and are replaced at the next start.
    pub old: Vec<KeySource>,
}

impl EncryptionOptions {
    /// The master keys, the current one first.
    ///
    /// Errors: one cannot be read.
    pub fn masters(&self) -> Result<Vec<MasterKey>> {
        self.key.iter().chain(&self.old).map(KeySource::read).collect()
    }

    /// The disk for a directory that this process writes. With a key, new files are encrypted; the
    /// data keys are made if there are none, and encrypted with the current master key.
    ///
    /// Errors: the directory has encrypted data, and the key is missing or another one; the data
    /// keys cannot be read or written.
    pub fn disk(&self, directory: &Path) -> Result<Arc<dyn Disk>> {
        let masters = self.masters()?;
        self.key.iter().chain(&self.old).for_each(KeySource::warn_of_readers);
        if !masters.is_empty() {
            fs::create_dir_all(directory)
                .with_context(|| format!("cannot make the directory {}", directory.display()))?;
        }
        let before = Keyring::master_of(&RealDisk, directory)?;
        let Some(keys) = Keyring::open(&RealDisk, directory, &masters)? else {
            return Ok(Arc::new(RealDisk));
        };
        let master = keys.master();
        match before {
            Some(before) if before == master => {
                tracing::info!("files are encrypted, by the master key {master}");
            }
            Some(before) => tracing::warn!(
                "the data keys are encrypted with the master key {master} from now on, no longer with {before}; remove \
                 encryption.old_key_files, and keep that key as long as backups need it"
            ),
            None => tracing::warn!(
                "new files are encrypted from now on, by the master key {master}; without it nobody reads them, so keep a \
                 copy of it elsewhere"
            ),
        }
        Ok(Arc::new(EncryptedDisk::new(Arc::new(RealDisk), Arc::new(keys))))
    }

    /// The disk for a data directory or backup that is only read.
    ///
    /// Errors: as [`disk`](Self::disk).
    pub fn disk_to_read(&self, directory: &Path) -> Result<Arc<dyn Disk>> {
        if Keyring::master_of(&RealDisk, directory)?.is_none() {
            return Ok(Arc::new(RealDisk));
        }
        let keys = Keyring::read(&RealDisk, directory, &self.masters()?)?;
        let keys = Arc::new(keys.context("the data keys are gone")?);
        Ok(Arc::new(EncryptedDisk::new(Arc::new(RealDisk), keys)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use platform::Access;

    #[test]
    fn keys_come_from_files_and_commands_and_are_in_no_message() {
        let folder = tempfile::tempdir().unwrap();
        let text = MasterKey::random().unwrap().to_text();
        let path = folder.path().join("key");
        fs::write(&path, &text).unwrap();
        let command = KeySource::Command(vec!["cat".into(), path.display().to_string()]);
        let file = KeySource::File(path);
        assert_eq!(file.read().unwrap(), command.read().unwrap());
        let failing = |script: &str| {
            let command = KeySource::Command(["sh", "-c", script].map(str::to_owned).to_vec());
            format!("{:#}", command.read().unwrap_err())
        };
        let error = failing(&format!("echo {}; exit 3", text.trim()));
        assert!(error.contains("exit status: 3") && !error.contains(text.trim()), "{error}");
        let error = failing("echo 0123456789");
        assert!(error.contains("64 hexadecimal digits") && !error.contains("0123"), "{error}");
    }

    #[test]
    fn a_directory_tells_which_key_it_needs() {
        let folder = tempfile::tempdir().unwrap();
        let directory = folder.path().join("data");
        let with = |name: &str| {
            let path = folder.path().join(name);
            if !path.exists() {
                fs::write(&path, MasterKey::random().unwrap().to_text()).unwrap();
            }
            KeySource::File(path)
        };
        let plain = EncryptionOptions::default();
        plain.disk(&directory).unwrap();
        assert!(!directory.exists(), "nothing is made without a key");
        let first = EncryptionOptions { key: Some(with("a")), old: Vec::new() };
        let file = directory.join("1.sealed");
        let disk = first.disk(&directory).unwrap();
        disk.open(&file, Access::Create).unwrap().write_at(b"line", 0).unwrap();
        assert!(fs::read(&file).unwrap().starts_with(b"LGNCRYPT"));
        let error = plain.disk(&directory).err().unwrap().to_string();
        assert!(error.contains("[encryption] key_file"), "{error}");
        let second = EncryptionOptions { key: Some(with("b")), old: Vec::new() };
        let error = second.disk_to_read(&directory).err().unwrap().to_string();
        assert!(error.starts_with("wrong key"), "{error}");
        let both = EncryptionOptions { old: vec![with("a")], ..second.clone() };
        both.disk(&directory).unwrap();
        let disk = second.disk_to_read(&directory).unwrap();
        assert_eq!(disk.file_bytes(&file).unwrap(), 4);
    }
}
