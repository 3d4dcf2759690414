//! Encryption of files at rest: a [`Disk`] in front of another one.
//!
//! A file that is created through an [`EncryptedDisk`] holds cipher text only; who opens it through
//! the same disk sees the bytes that were written. Files without encryption are read as they are
//! while encryption is being turned on, and nothing is appended to them. Once the list of keys
//! records that all files were encrypted, another one is damage, since somebody put it there.
//!
//! **Keys.** A [`MasterKey`] comes from a file or a command. It encrypts data keys, which are
//! random and stand in the file `encryption.keys` of the data directory ([`Keyring`]). Each file
//! has a random number, each opening for writing another one; a data key and both numbers give the
//! key of AES-256-GCM. So another master key changes one small file, not the data.
//!
//! **Files.** A file is a log of *extents* ([`extent`]): each write is appended, with its place in
//! the file, and counts once all of it is there. Nothing that is durable is overwritten, so an
//! interrupted write, of any mixture of sectors, leaves the bytes that were acknowledged before.
//! Each extent and each piece of 16 KiB in it is authenticated, together with file, place and
//! order: nobody can change, move, repeat or exchange parts of a file. See
//! `docs/format/encrypted-file.md`.
//!
//! **Damage.** A piece that is not authentic is never given out: it reads as bytes
//! [`NOT_AUTHENTIC`], so that the checksums of the formats above fail and the place is treated as
//! damage; it is counted and reported.
//!
//! Left out: names, lengths and times of files are visible; a whole file may be replaced by an
//! older version of it, or by one with the same number in its name, or cut at its end as by a power
//! cut, without this module noticing (the formats above notice a sealed segment that is cut). A
//! whole directory may be replaced by an older state of it, unless the caller demands a version of
//! the list of keys ([`Keyring::check_version`]). An extent whose header is gone leaves what was
//! there before, or zeros. The catalog is opened by SQLite, not through a [`Disk`].

mod extent;
mod file;
mod keys;
mod refused;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::buffer::{AlignedBuffer, BLOCK_BYTES};
use crate::disk::{Access, Disk, DiskFile, DiskLock, DiskSpace, LockError};
use extent::{FileHeader, HeaderFound};
use file::{EncryptedFile, Shared};
pub use keys::{EncryptionError, KEYS_COPY_FILE, KEYS_FILE, Keyring, MasterKey};
use refused::RefusedFile;

/// What a piece reads as that is not authentic. Not zero, which stands for space that was never
/// written.
pub const NOT_AUTHENTIC: u8 = 0xdb;
/// Open files remembered before those are forgotten that were closed.
const REMEMBERED_MIN: usize = 256;

/// Encrypts what is written to another disk. Cheap to clone; clones know each other's open files.
#[derive(Clone)]
pub struct EncryptedDisk {
    inner: Arc<dyn Disk>,
    keys: Arc<Keyring>,
    open: Arc<Mutex<Remembered>>,
    damage: Arc<AtomicU64>,
    refuses_plain: bool,
}

/// Files that are open: all handles of one file share what is known of it.
#[derive(Default)]
struct Remembered {
    files: HashMap<PathBuf, Weak<Shared>>,
    purged_at: usize,
}

impl Remembered {
    fn get(&self, path: &Path) -> Option<Arc<Shared>> {
        self.files.get(path).and_then(Weak::upgrade)
    }

    fn put(&mut self, path: &Path, shared: &Arc<Shared>) {
        if self.files.len() > self.purged_at.max(REMEMBERED_MIN) {
            self.files.retain(|_, shared| shared.strong_count() > 0);
            self.purged_at = 2 * self.files.len();
        }
        self.files.insert(path.to_owned(), Arc::downgrade(shared));
    }
}

impl EncryptedDisk {
    /// Encrypts with the newest key of `keys`; reads with all of them.
    pub fn new(inner: Arc<dyn Disk>, keys: Arc<Keyring>) -> EncryptedDisk {
        let refuses_plain = keys.refuses_plain();
        EncryptedDisk { inner, keys, open: Arc::default(), damage: Arc::default(), refuses_plain }
    }

    /// The same, which reads files without encryption whatever the list of keys says: for those
    /// that somebody takes in knowingly.
    pub fn reading_plain(self) -> EncryptedDisk {
        EncryptedDisk { refuses_plain: false, ..self }
    }

    /// Whether a file is encrypted.
    ///
    /// Errors: it cannot be read.
    pub fn is_encrypted(&self, path: &Path) -> io::Result<bool> {
        let file = self.inner.open(path, Access::Read)?;
        Ok(!matches!(FileHeader::read(&*file, &self.keys, path)?, HeaderFound::Plain))
    }

    /// Whether a file is encrypted with the newest data key and in the newest form, as new files.
    ///
    /// Errors: as [`is_encrypted`](Self::is_encrypted).
    pub fn is_current(&self, path: &Path) -> io::Result<bool> {
        let file = self.inner.open(path, Access::Read)?;
        Ok(match FileHeader::read(&*file, &self.keys, path)? {
            HeaderFound::Header(header) => header.is_current && header.key == self.keys.newest().id,
            HeaderFound::Plain | HeaderFound::Damaged => false,
        })
    }

    /// Pieces that were read and were not authentic, since this disk was made.
    pub fn damaged_pieces(&self) -> u64 {
        self.damage.load(Ordering::Relaxed)
    }

    /// Writes the header of a file that has none.
    fn begin(
        &self,
        remembered: &mut Remembered,
        inner: Arc<dyn DiskFile>,
        path: &Path,
    ) -> io::Result<Arc<dyn DiskFile>> {
        let header = FileHeader::new(self.keys.newest())?;
        inner.write_at(&header.encode(&self.keys, path), 0)?;
        let shared = Arc::new(Shared::created(path, header, &self.keys, &self.damage));
        remembered.put(path, &shared);
        Ok(Arc::new(EncryptedFile::new(inner, shared)))
    }

    fn remembered(&self) -> MutexGuard<'_, Remembered> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a file is not longer than a header, and has zeros alone.
fn is_blank(file: &dyn DiskFile) -> io::Result<bool> {
    if file.bytes()? > extent::FILE_HEADER_BYTES {
        return Ok(false);
    }
    let mut block = AlignedBuffer::new(BLOCK_BYTES);
    let read = file.read_at(&mut block, 0)?;
    Ok(block[..read].iter().all(|&byte| byte == 0))
}

impl Disk for EncryptedDisk {
    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn DiskFile>> {
        let mut remembered = self.remembered();
        let inner = self.inner.open(path, access)?;
        if access == Access::Create {
            return self.begin(&mut remembered, inner, path);
        }
        if let Some(shared) = remembered.get(path) {
            return Ok(Arc::new(EncryptedFile::new(inner, shared)));
        }
        let header = match FileHeader::read(&*inner, &self.keys, path)? {
            // A power cut came before the header was durable, and nothing was written yet.
            HeaderFound::Plain if access == Access::Write && is_blank(&*inner)? => {
                return self.begin(&mut remembered, inner, path);
            }
            HeaderFound::Plain if self.refuses_plain && !is_blank(&*inner)? => {
                if access == Access::Write {
                    return Err(io::Error::new(io::ErrorKind::InvalidData, refused::REASON));
                }
                let bytes = inner.bytes()?;
                return Ok(Arc::new(RefusedFile::new(path, bytes, &self.damage)));
            }
            HeaderFound::Plain => return Ok(inner),
            // What is written there would not be encrypted.
            HeaderFound::Damaged if access == Access::Write => {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidData,
                    "the header of the encryption is damaged, or the file had another name, so nothing can be written \
                     to it",
                ));
            }
            HeaderFound::Damaged => {
                tracing::warn!(
                    "{}: the header of the encryption is damaged, or the file had another name",
                    path.display()
                );
                return Ok(inner);
            }
            HeaderFound::Header(header) => header,
        };
        let shared = Arc::new(Shared::found(path, header, &self.keys, &self.damage));
        remembered.put(path, &shared);
        drop(remembered);
        let file = EncryptedFile::new(inner, shared);
        file.scan()?;
        Ok(Arc::new(file))
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        self.inner.create_dir_all(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut remembered = self.remembered();
        self.inner.rename(from, to)?;
        match remembered.files.remove(from) {
            Some(shared) => drop(remembered.files.insert(to.to_owned(), shared)),
            None => drop(remembered.files.remove(to)),
        }
        Ok(())
    }

    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.inner.hard_link(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut remembered = self.remembered();
        self.inner.remove(path)?;
        remembered.files.remove(path);
        Ok(())
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.inner.sync_dir(path)
    }

    fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        self.inner.list(path)
    }

    /// Reads the first and the last block of a file that was closed; all extents of another one.
    fn file_bytes(&self, path: &Path) -> io::Result<u64> {
        let bytes = self.inner.file_bytes(path)?;
        if bytes < extent::FILE_HEADER_BYTES {
            return Ok(bytes);
        }
        let known = self.remembered().get(path).and_then(|shared| shared.length());
        if let Some(length) = known {
            return Ok(length);
        }
        let inner = self.inner.open(path, Access::Read)?;
        match FileHeader::read(&*inner, &self.keys, path)? {
            HeaderFound::Plain | HeaderFound::Damaged => Ok(bytes),
            HeaderFound::Header(header) => {
                let shared = Shared::found(path, header, &self.keys, &self.damage);
                match shared.length_at_end(&*inner, bytes)? {
                    Some(length) => Ok(length),
                    None => self.open(path, Access::Read)?.bytes(),
                }
            }
        }
    }

    fn is_as_new(&self, path: &Path) -> io::Result<bool> {
        self.is_current(path)
    }

    fn space(&self, path: &Path) -> io::Result<DiskSpace> {
        self.inner.space(path)
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn DiskLock>, LockError> {
        self.inner.lock(path)
    }

    fn os_path(&self, path: &Path) -> Option<PathBuf> {
        self.inner.os_path(path)
    }
}
