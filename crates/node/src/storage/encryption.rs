//! `[encryption]`: where the master key comes from, and the disk that a directory needs.
//!
//! The key itself is read when a directory is opened, and is in no option, message or log. Left
//! out: how files are encrypted, which is [`platform::encryption`].

use std::fmt;
use std::fs;
use std::io::{self, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use platform::encryption::{EncryptedDisk, Keyring, MasterKey};
use platform::{Disk, RealDisk};
use rustix::process::{Pid, Signal, kill_process_group};

use crate::data_dir::{QUERIES_FOLDER, RECEIVERS_FOLDER};
use crate::storage::backup::check_restored;

/// Folders of the data directory whose documents are encrypted: background queries with their
/// results, and receivers of alerts.
const DOCUMENT_FOLDERS: [&str; 2] = [QUERIES_FOLDER, RECEIVERS_FOLDER];
/// Bytes that a key takes at most, in a file or as the output of a command; more are no key.
const KEY_TEXT_BYTES_MAX: u64 = 4096;
/// How long a program that prints the key may take, if nothing else is said.
pub const COMMAND_TIMEOUT: Duration = Duration::from_secs(60);

/// Where a master key comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeySource {
    /// A file.
    File(PathBuf),
    /// The output of a program, with its arguments. No shell runs.
    Command(Vec<String>),
}

impl KeySource {
    /// Reads the key; a command may take [`COMMAND_TIMEOUT`].
    ///
    /// Errors: there is none, or it is none. No error has a part of it.
    pub fn read(&self) -> Result<MasterKey> {
        self.read_within(COMMAND_TIMEOUT)
    }

    /// The same; a command that takes longer is killed, with the processes that it started.
    ///
    /// Errors: as [`read`](Self::read); also the command took longer.
    pub fn read_within(&self, command_timeout: Duration) -> Result<MasterKey> {
        let bytes = match self {
            KeySource::File(path) => read(path),
            KeySource::Command(words) => output(words, command_timeout),
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

fn output(words: &[String], timeout: Duration) -> Result<Vec<u8>> {
    let (program, arguments) = words.split_first().context("the command is empty")?;
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        // So that what it starts ends with it.
        .process_group(0)
        .spawn()
        .context("it cannot be started")?;
    let stdout = child.stdout.take().expect("it is a pipe");
    let group = Pid::from_child(&child);
    let (sender, receiver) = channel();
    // The output may stay open for ever, as may the process; this thread waits for both.
    std::thread::Builder::new().name("key-command".to_owned()).spawn(move || {
        let mut bytes = Vec::new();
        let read = stdout.take(KEY_TEXT_BYTES_MAX).read_to_end(&mut bytes);
        let ended = child.wait().and_then(|status| read.map(|_| (status, bytes)));
        // Nobody listens any more if it took too long.
        let _ = sender.send(ended);
    })?;
    let (status, bytes) = match receiver.recv_timeout(timeout) {
        Ok(ended) => ended?,
        Err(RecvTimeoutError::Timeout) => {
            let _ = kill_process_group(group, Signal::KILL);
            bail!(
                "it printed no key within {timeout:?} and was killed; run it by hand as the user of the server, or raise \
                 encryption.key_command_timeout"
            );
        }
        Err(RecvTimeoutError::Disconnected) => bail!("the thread that waits for it has ended"),
    };
    ensure!(status.success(), "it failed: {status}");
    Ok(bytes)
}

/// The files of a data directory, or of a collector's directory, that go through its disk and are
/// read at start or by queries. Files that were set aside and backups are none of them.
///
/// Errors: a directory cannot be listed.
pub fn stored_files(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in listed(directory)? {
        let path = entry.path();
        let name = entry.file_name();
        let folder = match entry.file_type()?.is_dir() {
            // A collector with several copies has a folder for each.
            true if name != "backups" => Some(name),
            true => continue,
            false => None,
        };
        let Some(folder) = folder else {
            files.extend(Some(path).filter(|path| is_stored(path, false)));
            continue;
        };
        let within = listed(&path)?.into_iter().map(|entry| entry.path());
        let has_documents = DOCUMENT_FOLDERS.iter().any(|name| folder == *name);
        files.extend(within.filter(|path| is_stored(path, has_documents)));
    }
    files.sort();
    Ok(files)
}

fn listed(directory: &Path) -> io::Result<Vec<fs::DirEntry>> {
    match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        entries => entries?.collect(),
    }
}

fn is_stored(path: &Path, is_document: bool) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let end = name.rsplit_once('.').map_or("", |(_, end)| end);
    match is_document {
        true => matches!(end, "json" | "rows") || name == "last-id",
        false => matches!(end, "hot" | "sealed") || name == "node.json",
    }
}

/// Those of [`stored_files`] that are not encrypted.
///
/// Errors: one cannot be read, or needs a key that is not there.
pub fn plain_files(disk: &EncryptedDisk, directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut plain = Vec::new();
    for path in stored_files(directory)? {
        match disk.is_encrypted(&path) {
            Ok(true) => {}
            Ok(false) if is_not_begun(&path) => {}
            Ok(false) => plain.push(path),
            // It was removed meanwhile, or is a link or pipe, of which nothing is read.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) if platform::is_not_regular(&error) => {}
            Err(error) => return Err(io::Error::new(error.kind(), named(&path, &error))),
        }
    }
    Ok(plain)
}

/// Whether a file is empty, as a crash leaves one.
fn is_not_begun(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|file| file.len() == 0)
}

fn named(path: &Path, error: &io::Error) -> String {
    format!("{}: {error}", path.display())
}

/// The keys of `[encryption]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncryptionOptions {
    /// The master key; none: new files are not encrypted.
    pub key: Option<KeySource>,
    /// Master keys that were used before, and are replaced at the next start.
    pub old: Vec<KeySource>,
    /// How long a program that prints the key may take.
    pub command_timeout: Duration,
    /// The least version that the list of data keys must have; 0 accepts any.
    pub keys_version_min: u32,
}

impl Default for EncryptionOptions {
    fn default() -> Self {
        let (key, old) = (None, Vec::new());
        EncryptionOptions { key, old, command_timeout: COMMAND_TIMEOUT, keys_version_min: 0 }
    }
}

impl EncryptionOptions {
    /// The master keys, the current one first.
    ///
    /// Errors: one cannot be read.
    pub fn masters(&self) -> Result<Vec<MasterKey>> {
        let sources = self.key.iter().chain(&self.old);
        sources.map(|source| source.read_within(self.command_timeout)).collect()
    }

    /// The disk for a directory that this process writes. With a key, new files are encrypted; the
    /// data keys are made if there are none, and encrypted with the current master key.
    ///
    /// Errors: the directory has encrypted data, and the key is missing or another one; the data
    /// keys cannot be read or written; a restore into the directory broke off at its end.
    pub fn disk(&self, directory: &Path) -> Result<Arc<dyn Disk>> {
        // It may still lack its data keys, and would get others.
        check_restored(directory)?;
        let masters = self.masters()?;
        self.key.iter().chain(&self.old).for_each(KeySource::warn_of_readers);
        if !masters.is_empty() {
            fs::create_dir_all(directory)
                .with_context(|| format!("cannot make the directory {}", directory.display()))?;
        }
        let found = Keyring::read(&RealDisk, directory, &masters)?;
        match &found {
            Some(keys) => keys.check_version(directory, self.keys_version_min)?,
            None => ensure!(
                self.keys_version_min == 0,
                "{} has no data keys, and encryption.keys_version_min demands version {} of them; restore \
                 encryption.keys from a backup, or remove the setting for a new directory",
                directory.display(),
                self.keys_version_min
            ),
        }
        let before = found.map(|keys| keys.master().to_owned());
        let Some(mut keys) = Keyring::open(&RealDisk, directory, &masters)? else {
            return Ok(Arc::new(RealDisk));
        };
        if !keys.refuses_plain() {
            let disk = EncryptedDisk::new(Arc::new(RealDisk), Arc::new(keys.clone()));
            let plain = plain_files(&disk, directory)?;
            match plain.first() {
                None => keys.set_refuses_plain(&RealDisk, directory, &masters, true)?,
                Some(first) => tracing::warn!(
                    "{} files are not encrypted and are read as they are, among them {}; `loginson encryption rewrite` \
                     encrypts them while the server is stopped",
                    plain.len(),
                    first.display()
                ),
            }
        }
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
        let keys = keys.context("the data keys are gone")?;
        keys.check_version(directory, self.keys_version_min)?;
        Ok(Arc::new(EncryptedDisk::new(Arc::new(RealDisk), Arc::new(keys))))
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
        let of = |name: &str| EncryptionOptions {
            key: Some(with(name)),
            ..EncryptionOptions::default()
        };
        let first = of("a");
        let file = directory.join("1.sealed");
        let disk = first.disk(&directory).unwrap();
        disk.open(&file, Access::Create).unwrap().write_at(b"line", 0).unwrap();
        assert!(fs::read(&file).unwrap().starts_with(b"LGNCRYPT"));
        let error = plain.disk(&directory).err().unwrap().to_string();
        assert!(error.contains("[encryption] key_file"), "{error}");
        let second = of("b");
        let error = second.disk_to_read(&directory).err().unwrap().to_string();
        assert!(error.starts_with("wrong key"), "{error}");
        let both = EncryptionOptions { old: vec![with("a")], ..second.clone() };
        both.disk(&directory).unwrap();
        let disk = second.disk_to_read(&directory).unwrap();
        assert_eq!(disk.file_bytes(&file).unwrap(), 4);
        // A list that is older than the configuration says, and none at all.
        let list = directory.join(platform::encryption::KEYS_FILE);
        let version = fs::read_to_string(&list).unwrap();
        let version: u32 =
            version.lines().nth(2).unwrap().strip_prefix("version ").unwrap().parse().unwrap();
        let demanding = |keys_version_min| EncryptionOptions { keys_version_min, ..second.clone() };
        assert!(demanding(version).disk(&directory).is_ok());
        let error = demanding(version + 1).disk(&directory).err().unwrap().to_string();
        assert!(error.contains("keys_version_min demands"), "{error}");
        assert!(demanding(version + 1).disk_to_read(&directory).is_err());
        let error = demanding(1).disk(&folder.path().join("new")).err().unwrap().to_string();
        assert!(error.contains("has no data keys"), "{error}");
    }

    #[test]
    fn a_command_that_never_ends_is_killed_with_what_it_started() {
        let folder = tempfile::tempdir().unwrap();
        let pid = folder.path().join("pid");
        // Its child holds the output open, and would outlive it.
        let script =
            format!("sleep 100000 & echo $! > {0}.part; mv {0}.part {0}; wait", pid.display());
        let command = KeySource::Command(["sh", "-c", &script].map(str::to_owned).to_vec());
        let mut timeout = Duration::from_millis(50);
        // Longer, until the child has begun.
        let child = loop {
            let error = format!("{:#}", command.read_within(timeout).unwrap_err());
            assert!(error.contains("key_command_timeout"), "{error}");
            match fs::read_to_string(&pid) {
                Ok(child) => break child,
                Err(_) => timeout *= 2,
            }
        };
        let state = format!("/proc/{}/stat", child.trim());
        // It is gone, or waits for its parent.
        let is_there = || fs::read_to_string(&state).is_ok_and(|stat| !stat.contains(") Z "));
        while is_there() {
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn a_planted_file_is_refused_once_all_are_encrypted() {
        let folder = tempfile::tempdir().unwrap();
        let directory = folder.path().join("data");
        let segments = directory.join("segments");
        fs::create_dir_all(&segments).unwrap();
        let key = folder.path().join("key");
        fs::write(&key, MasterKey::random().unwrap().to_text()).unwrap();
        let options =
            EncryptionOptions { key: Some(KeySource::File(key)), ..EncryptionOptions::default() };
        let read = |name: &str| {
            let file = options.disk(&directory).unwrap().open(&segments.join(name), Access::Read);
            let file = file.unwrap();
            let mut bytes = vec![0; file.bytes().unwrap() as usize];
            file.read_at(&mut bytes, 0).unwrap();
            bytes
        };
        // What was there before is read.
        fs::write(segments.join("1.sealed"), "before").unwrap();
        assert_eq!(read("1.sealed"), b"before");
        fs::remove_file(segments.join("1.sealed")).unwrap();
        // Now nothing is without encryption, so nothing else may come.
        options.disk(&directory).unwrap();
        fs::write(segments.join("2.sealed"), "planted").unwrap();
        assert_eq!(read("2.sealed"), [platform::encryption::NOT_AUTHENTIC; 7]);
        let disk = options.disk(&directory).unwrap();
        let error = disk.open(&segments.join("2.sealed"), Access::Write).err().unwrap();
        assert!(error.to_string().contains("--accept-plain"), "{error}");
        // An empty one is one that a crash left.
        fs::write(segments.join("3.hot"), "").unwrap();
        assert_eq!(read("3.hot"), b"");
    }
}
