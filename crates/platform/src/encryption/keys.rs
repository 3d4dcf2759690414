//! The keys: a master key, and the data keys that it encrypts.
//!
//! `encryption.keys` is text of a few lines, with a copy beside it (`encryption.keys.copy`),
//! because whoever loses all copies loses every line. Each new version gets the name of the old one
//! once it is durable.
//!
//! ```text
//! loginson encryption keys 2
//! master 8b1f8a0c2d4e6f70
//! version 3
//! plain refused
//! key 1122334455667788 <nonce, encrypted key and tag: 120 hexadecimal digits>
//! tag <HMAC-SHA256 of all lines before, by a key of the master key: 64 hexadecimal digits>
//! ```
//!
//! The last data key is the one that new files use. Invariant: a data key is never removed, since
//! nobody knows which files, backups among them, still need it.
//!
//! Each change counts the version up, and files note the version with which they were written. So a
//! list that somebody puts back is noticed as soon as a file is opened that is newer. Format 1 had
//! neither version nor tag: such a list is version 0, and the next start writes it anew.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::hkdf::{HKDF_SHA256, KeyType, Prk, Salt};
use ring::hmac;
use ring::rand::{SecureRandom, SystemRandom};

use crate::disk::{Access, Disk};

/// Name of the file of data keys in a data directory.
pub const KEYS_FILE: &str = "encryption.keys";
/// Name of its copy.
pub const KEYS_COPY_FILE: &str = "encryption.keys.copy";
const FIRST_LINE: &str = "loginson encryption keys 2";
/// The first line of a list without version and tag.
const FIRST_LINE_1: &str = "loginson encryption keys 1";
/// Bytes of the tag of a list.
const LIST_TAG_BYTES: usize = 32;
/// Bytes of a key.
const KEY_BYTES: usize = 32;
/// Bytes that identify a key.
pub(super) const ID_BYTES: usize = 8;
/// Data keys in a file: one for each rotation.
///
/// limits.md, The disk and sealing: data keys of a data directory | {} | a further rotation that
/// asks for a new data key is refused; rotations of the master key alone still work
const KEYS_MAX: usize = 1_000;
/// Bytes of the file; a longer one is damaged.
const FILE_BYTES_MAX: usize = 256 + KEYS_MAX * 160;

/// Why keys cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum EncryptionError {
    /// The data are encrypted, and no key was given.
    #[error(
        "{} holds encrypted data; set [encryption] key_file or key_command to the master key {master}",
        dir.display()
    )]
    KeyMissing {
        /// The data directory.
        dir: PathBuf,
        /// The identity of the key that is needed.
        master: String,
    },
    /// Another key was given than the one with which the data keys are encrypted.
    #[error(
        "wrong key: {} is encrypted with the master key {master}, and the key that was given is {given}; \
         give that key, or add it to [encryption] old_key_files to replace it",
        path.display()
    )]
    WrongKey {
        /// The file of data keys.
        path: PathBuf,
        /// The identity of the key that is needed.
        master: String,
        /// The identities of the keys that were given.
        given: String,
    },
    /// The file of data keys is invalid, and so is its copy.
    #[error(
        "{}: {reason}; restore the file from a backup: without it no encrypted file can be read",
        path.display()
    )]
    Damaged {
        /// The file of data keys.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// The list of data keys is an older one than the configuration demands.
    #[error(
        "{} has version {found}, and encryption.keys_version_min demands {wanted}: somebody may have put an old one \
         back; restore the newest one, or lower the setting if you restored a backup",
        path.display()
    )]
    Old {
        /// The file of data keys.
        path: PathBuf,
        /// Its version.
        found: u32,
        /// The least version that was demanded.
        wanted: u32,
    },
    /// The text is no key.
    #[error("{0}")]
    NoKey(String),
    /// There are as many data keys as there may be.
    #[error("{} holds {KEYS_MAX} data keys, the most there may be", path.display())]
    Full {
        /// The file of data keys.
        path: PathBuf,
    },
    /// An input or output error.
    #[error("{}: cannot {action}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The operation that failed.
        action: &'static str,
        /// The error of the operating system.
        source: io::Error,
    },
}

impl EncryptionError {
    fn io(path: &Path, action: &'static str) -> impl FnOnce(io::Error) -> EncryptionError {
        move |source| EncryptionError::Io { path: path.to_owned(), action, source }
    }
}

/// A key that encrypts data keys. Its text is in no log and no message; its identity may be.
#[derive(Clone, PartialEq, Eq)]
pub struct MasterKey([u8; KEY_BYTES]);

impl fmt::Debug for MasterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MasterKey({})", self.id())
    }
}

impl MasterKey {
    /// A random key.
    ///
    /// Errors: the operating system gives no random bytes.
    pub fn random() -> io::Result<MasterKey> {
        random().map(MasterKey)
    }

    /// A key from the content of a file or the output of a command: 64 hexadecimal digits, with or
    /// without a newline, or 32 bytes as they are.
    ///
    /// Errors: it is neither. The text says how long it is, and nothing else of it.
    pub fn parse(bytes: &[u8]) -> Result<MasterKey, EncryptionError> {
        if let Ok(key) = <[u8; KEY_BYTES]>::try_from(bytes) {
            // Random bytes are no text, and a passphrase can be guessed.
            if key.iter().all(|byte| byte.is_ascii_graphic() || byte.is_ascii_whitespace()) {
                return Err(EncryptionError::NoKey(
                    "this is a text of 32 characters, and no key of 32 random bytes; \
                     `loginson encryption new-key` makes one"
                        .to_owned(),
                ));
            }
            return Ok(MasterKey(key));
        }
        let text = std::str::from_utf8(bytes).unwrap_or_default().trim();
        unhex(text).map(MasterKey).ok_or_else(|| {
            EncryptionError::NoKey(format!(
                "a key is 64 hexadecimal digits or 32 bytes, and this is neither ({} bytes); \
                 `loginson encryption new-key` makes one",
                bytes.len()
            ))
        })
    }

    /// The text of the key, for its file: 64 hexadecimal digits and a newline.
    pub fn to_text(&self) -> String {
        format!("{}\n", hex(&self.0))
    }

    /// What identifies the key in messages: 16 hexadecimal digits, from which nobody can compute
    /// the key.
    pub fn id(&self) -> String {
        hex(&derived::<ID_BYTES>(&self.0, &[], &[b"loginson master key id"]))
    }

    fn aead(&self) -> LessSafeKey {
        aead_key(&derived::<KEY_BYTES>(&self.0, &[], &[b"loginson master key"]))
    }

    /// The key that authenticates a list of data keys as a whole.
    fn list_key(&self) -> hmac::Key {
        let key = derived::<KEY_BYTES>(&self.0, &[], &[b"loginson list of data keys"]);
        hmac::Key::new(hmac::HMAC_SHA256, &key)
    }
}

/// A key from which the keys of files are computed.
#[derive(Clone)]
pub(super) struct DataKey {
    pub(super) id: [u8; ID_BYTES],
    key: [u8; KEY_BYTES],
}

impl DataKey {
    fn of(key: [u8; KEY_BYTES]) -> DataKey {
        DataKey { id: derived(&key, &[], &[b"loginson data key id"]), key }
    }

    /// The key of AES-256-GCM for a file and one opening of it.
    pub(super) fn file_key(&self, file: &[u8], session: &[u8]) -> LessSafeKey {
        aead_key(&derived::<KEY_BYTES>(&self.key, session, &[b"loginson file 1", file]))
    }
}

/// The data keys of a directory.
#[derive(Clone)]
pub struct Keyring {
    master: String,
    /// How often the list was changed; 0 for one of format 1.
    version: u32,
    refuses_plain: bool,
    keys: Vec<DataKey>,
}

impl fmt::Debug for Keyring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Keyring({} keys, master {})", self.keys.len(), self.master)
    }
}

/// The content of the file of data keys, with the keys encrypted.
struct Wrapped {
    path: PathBuf,
    master: String,
    version: u32,
    refuses_plain: bool,
    keys: Vec<([u8; ID_BYTES], Vec<u8>)>,
    /// The bytes that the tag covers, and the tag; None for format 1.
    tagged: Option<(Vec<u8>, [u8; LIST_TAG_BYTES])>,
}

impl Wrapped {
    /// Checks the tag, and decrypts the keys.
    fn unwrap(&self, master: &MasterKey) -> Result<Keyring, EncryptionError> {
        let damaged = |reason: String| EncryptionError::Damaged { path: self.path.clone(), reason };
        if let Some((text, tag)) = &self.tagged
            && hmac::verify(&master.list_key(), text, tag).is_err()
        {
            return Err(damaged("somebody changed it, since its tag is not authentic".to_owned()));
        }
        let mut keys = Vec::new();
        for (id, sealed) in &self.keys {
            let key = unwrap_key(master, id, sealed)
                .ok_or_else(|| damaged(format!("the data key {} is damaged", hex(id))))?;
            keys.push(DataKey::of(key));
        }
        let (version, refuses_plain) = (self.version, self.refuses_plain);
        Ok(Keyring { master: self.master.clone(), version, refuses_plain, keys })
    }
}

impl Keyring {
    /// The keys of a directory. Without the file of keys they are made, if `masters` has a key:
    /// the first one encrypts them. If another one of `masters` has encrypted them, they are
    /// encrypted with the first one from now on. If the file or its copy is lost, damaged, or of
    /// format 1, both are written anew. None: nothing is encrypted, and no key was given.
    ///
    /// Errors: no key was given, or a wrong one; the file is damaged, and cannot be read or
    /// written.
    pub fn open(
        disk: &dyn Disk,
        dir: &Path,
        masters: &[MasterKey],
    ) -> Result<Option<Keyring>, EncryptionError> {
        let found = match Self::read(disk, dir, masters)? {
            Some(found) => found,
            None => {
                let Some(master) = masters.first() else { return Ok(None) };
                let path = dir.join(KEYS_FILE);
                let key = random().map_err(EncryptionError::io(&path, "get random bytes for"))?;
                let keys = vec![DataKey::of(key)];
                let made = Keyring { master: master.id(), version: 1, refuses_plain: false, keys };
                made.write(disk, dir, master)?;
                return Ok(Some(made));
            }
        };
        match masters.first() {
            Some(master) if master.id() != found.master || found.version == 0 => {
                let version = found.next_version();
                let keys = Keyring { master: master.id(), version, ..found };
                keys.write(disk, dir, master)?;
                Ok(Some(keys))
            }
            Some(master) if !are_both_whole(disk, dir) => {
                let path = dir.join(KEYS_FILE);
                match found.write(disk, dir, master) {
                    Ok(()) => tracing::warn!(
                        "{}: it or its copy was missing or damaged; both are written anew",
                        path.display()
                    ),
                    Err(error) => tracing::warn!(
                        "{}: it or its copy is missing or damaged, and cannot be written anew: \
                         {error}",
                        path.display()
                    ),
                }
                Ok(Some(found))
            }
            _ => Ok(Some(found)),
        }
    }

    /// The same, and nothing is written: not even the directory must be writable.
    ///
    /// Errors: as [`open`](Self::open).
    pub fn read(
        disk: &dyn Disk,
        dir: &Path,
        masters: &[MasterKey],
    ) -> Result<Option<Keyring>, EncryptionError> {
        let (lists, failed) = read_lists(disk, dir)?;
        let Some(first) = lists.first() else { return failed.map_or(Ok(None), Err) };
        let (mut newest, mut failed) = (None::<Keyring>, failed);
        for list in &lists {
            let Some(master) = masters.iter().find(|master| master.id() == list.master) else {
                continue;
            };
            match list.unwrap(master) {
                // Of two that are authentic, the older one was left by a power cut, or put there.
                Ok(keys) if newest.as_ref().is_none_or(|found| found.version < keys.version) => {
                    newest = Some(keys);
                }
                Ok(_) => {}
                Err(error) => drop(failed.get_or_insert(error)),
            }
        }
        if newest.is_some() {
            return Ok(newest);
        }
        let is_known = |list: &Wrapped| masters.iter().any(|master| master.id() == list.master);
        if let Some(error) = failed.filter(|_| lists.iter().any(is_known)) {
            return Err(error);
        }
        let (dir, master) = (dir.to_owned(), first.master.clone());
        if masters.is_empty() {
            return Err(EncryptionError::KeyMissing { dir, master });
        }
        let given = masters.iter().map(MasterKey::id).collect::<Vec<_>>().join(", ");
        Err(EncryptionError::WrongKey { path: dir.join(KEYS_FILE), master, given })
    }

    /// The identity of the master key that the data keys of a directory need; None without a file
    /// of data keys.
    ///
    /// Errors: the file is damaged or cannot be read.
    pub fn master_of(disk: &dyn Disk, dir: &Path) -> Result<Option<String>, EncryptionError> {
        let (lists, failed) = read_lists(disk, dir)?;
        match lists.into_iter().next() {
            Some(list) => Ok(Some(list.master)),
            None => failed.map_or(Ok(None), Err),
        }
    }

    /// The identity of the master key.
    pub fn master(&self) -> &str {
        &self.master
    }

    /// How often the list of data keys was changed: 1 for a new one, 0 for one of the first format.
    pub fn version(&self) -> u32 {
        self.version
    }

    /// Checks that the list is not older than `wanted`.
    ///
    /// Errors: it is.
    pub fn check_version(&self, dir: &Path, wanted: u32) -> Result<(), EncryptionError> {
        let (found, path) = (self.version, dir.join(KEYS_FILE));
        if found < wanted {
            return Err(EncryptionError::Old { path, found, wanted });
        }
        Ok(())
    }

    /// Whether files without encryption are damage, because all files of the directory were
    /// encrypted.
    pub fn refuses_plain(&self) -> bool {
        self.refuses_plain
    }

    /// Records durably whether files without encryption are refused from now on.
    ///
    /// Errors: the file cannot be written.
    pub fn set_refuses_plain(
        &mut self,
        disk: &dyn Disk,
        dir: &Path,
        masters: &[MasterKey],
        refuses_plain: bool,
    ) -> Result<(), EncryptionError> {
        let master = masters.iter().find(|master| master.id() == self.master);
        let master = master.expect("the keys were decrypted with one of them");
        let changed = Keyring { version: self.next_version(), refuses_plain, ..self.clone() };
        changed.write(disk, dir, master)?;
        *self = changed;
        Ok(())
    }

    fn next_version(&self) -> u32 {
        self.version.saturating_add(1)
    }

    /// How many data keys there are.
    pub fn count(&self) -> usize {
        self.keys.len()
    }

    /// Encrypts the keys with another master key, durably; with `new_data_key`, files that are
    /// written from the next start on have a data key that no file had before.
    ///
    /// Errors: there are too many keys, or the file cannot be written.
    pub fn rotate(
        &mut self,
        disk: &dyn Disk,
        dir: &Path,
        master: &MasterKey,
        new_data_key: bool,
    ) -> Result<(), EncryptionError> {
        let path = dir.join(KEYS_FILE);
        let mut keys = self.keys.clone();
        if new_data_key {
            if keys.len() >= KEYS_MAX {
                return Err(EncryptionError::Full { path });
            }
            let key = random().map_err(EncryptionError::io(&path, "get random bytes for"))?;
            keys.push(DataKey::of(key));
        }
        let version = self.next_version();
        let rotated = Keyring { master: master.id(), version, keys, ..self.clone() };
        rotated.write(disk, dir, master)?;
        *self = rotated;
        Ok(())
    }

    pub(super) fn newest(&self) -> &DataKey {
        self.keys.last().expect("there is always a key")
    }

    pub(super) fn get(&self, id: &[u8; ID_BYTES]) -> Option<&DataKey> {
        self.keys.iter().find(|key| key.id == *id)
    }

    fn write(
        &self,
        disk: &dyn Disk,
        dir: &Path,
        master: &MasterKey,
    ) -> Result<(), EncryptionError> {
        let plain = if self.refuses_plain { "refused" } else { "read" };
        let mut text = format!(
            "{FIRST_LINE}\nmaster {}\nversion {}\nplain {plain}\n",
            master.id(),
            self.version
        );
        for key in &self.keys {
            let path = dir.join(KEYS_FILE);
            let sealed = wrap_key(master, key)
                .map_err(EncryptionError::io(&path, "get random bytes for"))?;
            text.push_str(&format!("key {} {}\n", hex(&key.id), hex(&sealed)));
        }
        let tag = hmac::sign(&master.list_key(), text.as_bytes());
        text.push_str(&format!("tag {}\n", hex(tag.as_ref())));
        // The copy first: at every moment one of the two is whole. A start that finds them
        // different takes the newer one, if it has its master key.
        for name in [KEYS_COPY_FILE, KEYS_FILE] {
            let path = dir.join(name);
            let part = path.with_added_extension("new");
            let _ = disk.remove(&part);
            let file =
                disk.open(&part, Access::Create).map_err(EncryptionError::io(&part, "create"))?;
            file.write_at(text.as_bytes(), 0).map_err(EncryptionError::io(&part, "write"))?;
            file.sync_data().map_err(EncryptionError::io(&part, "sync"))?;
            disk.rename(&part, &path).map_err(EncryptionError::io(&part, "rename"))?;
            disk.sync_dir(dir).map_err(EncryptionError::io(dir, "sync the directory"))?;
        }
        Ok(())
    }
}

/// The lists in the file of data keys and in its copy, and why the first of them is none.
fn read_lists(
    disk: &dyn Disk,
    dir: &Path,
) -> Result<(Vec<Wrapped>, Option<EncryptionError>), EncryptionError> {
    let (mut lists, mut failed) = (Vec::new(), None);
    for name in [KEYS_FILE, KEYS_COPY_FILE] {
        let path = dir.join(name);
        let text = match read_text(disk, &path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            text => text.map_err(EncryptionError::io(&path, "read"))?,
        };
        match parse(&path, &text) {
            Ok(list) => lists.push(list),
            Err(reason) => {
                failed.get_or_insert(EncryptionError::Damaged { path, reason });
            }
        }
    }
    Ok((lists, failed))
}

/// Whether the file of data keys and its copy are there, and have the same content.
fn are_both_whole(disk: &dyn Disk, dir: &Path) -> bool {
    let text = |name: &str| {
        let path = dir.join(name);
        read_text(disk, &path).ok().filter(|text| parse(&path, text).is_ok())
    };
    let (first, copy) = (text(KEYS_FILE), text(KEYS_COPY_FILE));
    first.is_some() && first == copy
}

fn read_text(disk: &dyn Disk, path: &Path) -> io::Result<Vec<u8>> {
    let file = disk.open(path, Access::Read)?;
    let bytes = file.bytes()?.min(FILE_BYTES_MAX as u64 + 1);
    let mut text = vec![0; bytes as usize];
    let read = file.read_at(&mut text, 0)?;
    text.truncate(read);
    Ok(text)
}

fn parse(path: &Path, text: &[u8]) -> Result<Wrapped, String> {
    let text = std::str::from_utf8(text).map_err(|_| "it is no text".to_owned())?;
    let Some(content) = text.strip_suffix('\n').filter(|_| text.len() <= FILE_BYTES_MAX) else {
        return Err("it is cut or too long".to_owned());
    };
    let mut lines = content.lines();
    let is_tagged = match lines.next().unwrap_or_default() {
        FIRST_LINE => true,
        FIRST_LINE_1 => false,
        _ => return Err(format!("its first line is not '{FIRST_LINE}'")),
    };
    let master = lines.next().and_then(|line| line.strip_prefix("master "));
    let master = master.ok_or("it names no master key")?.to_owned();
    let (mut version, mut refuses_plain) = (0, false);
    if is_tagged {
        let found = lines.next().and_then(|line| line.strip_prefix("version "));
        let found = found.and_then(|text| text.parse().ok()).filter(|&version| version > 0);
        version = found.ok_or("it has no version")?;
        refuses_plain = match lines.next() {
            Some("plain refused") => true,
            Some("plain read") => false,
            _ => return Err("it does not say whether plain files are read".to_owned()),
        };
    }
    let mut keys = Vec::new();
    let mut tagged = None;
    for line in lines {
        if let Some(tag) = line.strip_prefix("tag ").filter(|_| is_tagged && tagged.is_none()) {
            let covered = text.len() - line.len() - 1;
            tagged =
                Some((text.as_bytes()[..covered].to_vec(), unhex(tag).ok_or("its tag is cut")?));
            continue;
        }
        let parts = line.strip_prefix("key ").and_then(|rest| rest.split_once(' '));
        let key = parts.filter(|_| tagged.is_none()).and_then(|(id, sealed)| {
            let sealed: [u8; NONCE_LEN + KEY_BYTES + 16] = unhex(sealed)?;
            Some((unhex(id)?, sealed.to_vec()))
        });
        keys.push(key.ok_or("a line of it is no key")?);
    }
    if keys.is_empty() {
        return Err("it has no key".to_owned());
    }
    if is_tagged && tagged.is_none() {
        return Err("its last line, the tag, is missing".to_owned());
    }
    Ok(Wrapped { path: path.to_owned(), master, version, refuses_plain, keys, tagged })
}

fn wrap_key(master: &MasterKey, key: &DataKey) -> io::Result<Vec<u8>> {
    let nonce: [u8; NONCE_LEN] = random()?;
    let mut sealed = key.key.to_vec();
    let aad = Aad::from(key.id);
    let tag = master
        .aead()
        .seal_in_place_separate_tag(Nonce::assume_unique_for_key(nonce), aad, &mut sealed)
        .expect("a key is short");
    Ok([&nonce[..], &sealed, tag.as_ref()].concat())
}

fn unwrap_key(master: &MasterKey, id: &[u8; ID_BYTES], sealed: &[u8]) -> Option<[u8; KEY_BYTES]> {
    let (nonce, rest) = sealed.split_at(NONCE_LEN);
    let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
    let mut rest = rest.to_vec();
    let key = master.aead().open_in_place(nonce, Aad::from(*id), &mut rest).ok()?;
    key.try_into().ok()
}

/// Random bytes of the operating system.
pub(super) fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    let filled = SystemRandom::new().fill(&mut bytes);
    filled.map_err(|_| io::Error::other("the operating system gives no random bytes"))?;
    Ok(bytes)
}

/// The length of what HKDF computes.
struct Length(usize);

impl KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}

fn derived<const N: usize>(key: &[u8], salt: &[u8], info: &[&[u8]]) -> [u8; N] {
    let prk: Prk = Salt::new(HKDF_SHA256, salt).extract(key);
    let mut out = [0; N];
    let filled = prk.expand(info, Length(N)).and_then(|okm| okm.fill(&mut out));
    filled.expect("HKDF computes up to 8 KiB");
    out
}

fn aead_key(key: &[u8; KEY_BYTES]) -> LessSafeKey {
    LessSafeKey::new(UnboundKey::new(&AES_256_GCM, key).expect("the key has 32 bytes"))
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex<const N: usize>(text: &str) -> Option<[u8; N]> {
    if text.len() != 2 * N || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, digits) in bytes.iter_mut().zip(text.as_bytes().chunks(2)) {
        let digits = std::str::from_utf8(digits).ok()?;
        *byte = u8::from_str_radix(digits, 16).ok()?;
    }
    Some(bytes)
}
