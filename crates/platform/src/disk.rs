//! The interface of a disk. Errors are those of the operating system; the caller adds the name of
//! the file.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Create it, to read and write; an error if it exists.
    Create,
    /// To read and write.
    Write,
    /// To read.
    Read,
}

/// Free and used space of the file system of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskSpace {
    /// Bytes that this process may still use.
    pub free_bytes: u64,
    /// Bytes that files and the file system itself take.
    pub used_bytes: u64,
    /// Size of the file system. Larger than the sum of the other two if space is reserved for the
    /// superuser, or a quota applies.
    pub total_bytes: u64,
}

/// A lock on a file, released when dropped or when the process ends.
pub trait DiskLock: Send + Sync {}

/// Why a lock was not taken.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another process holds it.
    #[error("held by {}", holder.map_or("an unknown process".to_owned(), |pid| format!("process {pid}")))]
    Held {
        /// Process id, if the holder wrote it to the file.
        holder: Option<u32>,
    },
    /// The lock file cannot be created or locked.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// A file system. Paths are absolute or relative to the working directory, as with the operating
/// system.
pub trait Disk: Send + Sync {
    /// Opens or creates a file. A created file survives a power cut only after
    /// [`sync_dir`](Self::sync_dir). Only regular files are opened: a link, a pipe or whatever else
    /// is in the place of one is an error ([`is_not_regular`](crate::is_not_regular)), at once.
    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn DiskFile>>;
    /// Creates a directory and its parents; no error if they exist.
    fn create_dir_all(&self, path: &Path) -> io::Result<()>;
    /// Renames a file, replacing a file of the new name.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Makes a hard link; an error if `to` exists. The bytes are shared, and stay until both names
    /// are removed.
    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file. Readers that have it open can still read it. The space of a large file may
    /// be freed some seconds later.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Makes creations, links, renames and removals in a directory durable.
    fn sync_dir(&self, path: &Path) -> io::Result<()>;
    /// Names of the entries of a directory, in order: the files, and whatever else is there.
    fn list(&self, path: &Path) -> io::Result<Vec<String>>;
    /// Length of a regular file, without opening it: some microseconds, so that ten thousand can be
    /// checked at start-up. Anything else is an error, as by [`open`](Self::open).
    fn file_bytes(&self, path: &Path) -> io::Result<u64>;
    /// Whether what is appended to an existing file is stored as in a new one. False: it would stay
    /// without encryption, or be encrypted with an older key; then begin a new file.
    fn is_as_new(&self, _path: &Path) -> io::Result<bool> {
        Ok(true)
    }
    /// Free and used space of the file system of an existing path.
    fn space(&self, path: &Path) -> io::Result<DiskSpace>;
    /// Takes a lock on a file, created when missing, and writes the id of this process into it. A
    /// file that holds anything but such an id is an error, and left unchanged.
    fn lock(&self, path: &Path) -> Result<Box<dyn DiskLock>, LockError>;
    /// The path for a library that opens files itself (SQLite). `None`: such files only exist in
    /// memory.
    fn os_path(&self, path: &Path) -> Option<PathBuf>;
}

/// An open file. All methods may be called from several threads at once.
pub trait DiskFile: Send + Sync {
    /// Writes all of `bytes` at `offset`; on an error any part may be written. Bytes, offset and
    /// address in multiples of [`BLOCK_BYTES`](crate::BLOCK_BYTES) bypass the page cache where the
    /// file system allows it.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;
    /// Reads until `buffer` is full or the file ends; returns the number of bytes read.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;
    /// As [`read_at`](Self::read_at), for many bytes that are unlikely to be read again soon:
    /// bypasses the page cache where the file system allows it, which saves processor time and
    /// leaves the cache to others.
    fn read_once_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.read_at(buffer, offset)
    }
    /// Makes the file at least `bytes` long, in zeros, with space reserved where the file system
    /// can.
    fn preallocate(&self, bytes: u64) -> io::Result<()>;
    /// Makes content and length durable. After an error the state of everything written since the
    /// last success is unknown, and a later success does not confirm it.
    fn sync_data(&self) -> io::Result<()>;
    /// Makes the file exactly `bytes` long.
    fn truncate(&self, bytes: u64) -> io::Result<()>;
    /// Length of the file.
    fn bytes(&self) -> io::Result<u64>;
}

/// Adapts a file so that [`read_at`](DiskFile::read_at) reads [once](DiskFile::read_once_at), for
/// code that only knows `read_at`.
pub struct ReadOnce<'a>(pub &'a dyn DiskFile);

impl DiskFile for ReadOnce<'_> {
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.0.write_at(bytes, offset)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.0.read_once_at(buffer, offset)
    }

    fn preallocate(&self, bytes: u64) -> io::Result<()> {
        self.0.preallocate(bytes)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn truncate(&self, bytes: u64) -> io::Result<()> {
        self.0.truncate(bytes)
    }

    fn bytes(&self) -> io::Result<u64> {
        self.0.bytes()
    }
}
