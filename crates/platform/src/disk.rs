//! What the store asks of a disk. Errors are those of the operating system; whoever calls adds the
//! file's name.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Made new, to read and write; an error if it is there already.
    Create,
    /// To read and write.
    Write,
    /// To read.
    Read,
}

/// Room on the file system of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskSpace {
    /// Bytes that this process may still use.
    pub free_bytes: u64,
    /// Bytes that files and the file system itself take.
    pub used_bytes: u64,
    /// Size of the file system. Where a part is reserved for the superuser, or a quota holds, more
    /// than the sum of the two.
    pub total_bytes: u64,
}

/// A lock on a file, given up when dropped or when the process ends.
pub trait DiskLock: Send + Sync {}

/// Why a lock was not taken.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Someone else has it.
    #[error("held by {}", holder.map_or("an unknown process".to_owned(), |pid| format!("process {pid}")))]
    Held {
        /// Process id, if the holder wrote it down.
        holder: Option<u32>,
    },
    /// The lock file cannot be made or locked.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// A file system. Paths are absolute or relative to the working directory, as with the operating
/// system.
pub trait Disk: Send + Sync {
    /// Opens or makes a file. A made file survives a power cut only after
    /// [`sync_dir`](Self::sync_dir).
    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn DiskFile>>;
    /// Makes a directory and those above it; fine if they are there.
    fn create_dir_all(&self, path: &Path) -> io::Result<()>;
    /// Gives a file another name, replacing what had it.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Gives a file a second name on the same file system; an error if `to` is there already. Bytes
    /// are shared, and stay until both names are removed.
    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file. Those who have it open can still read it. The space of a large one may come
    /// back some seconds later.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Makes creations, links, renames and removals in a directory durable.
    fn sync_dir(&self, path: &Path) -> io::Result<()>;
    /// Names of the files in a directory, in order.
    fn list(&self, path: &Path) -> io::Result<Vec<String>>;
    /// Length of a file, without opening it: some microseconds, so that ten thousand can be asked
    /// at start-up.
    fn file_bytes(&self, path: &Path) -> io::Result<u64>;
    /// Room on the file system of a path that is there.
    fn space(&self, path: &Path) -> io::Result<DiskSpace>;
    /// Takes a lock on a file, made when missing, and writes this process's id into it.
    fn lock(&self, path: &Path) -> Result<Box<dyn DiskLock>, LockError>;
    /// Where a library that opens files itself (SQLite) may have this path. None: only in memory.
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
    /// The same, for many bytes that are hardly read again soon: they are not put into the page
    /// cache where the file system allows it, which saves the processor its pages and others what
    /// is in them.
    fn read_once_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.read_at(buffer, offset)
    }
    /// Makes the file at least `bytes` long, in zeros, with space reserved where the file system
    /// can.
    fn preallocate(&self, bytes: u64) -> io::Result<()>;
    /// Makes content and length durable. After an error nothing is known of what was written since
    /// the last success, and a later success does not vouch for it.
    fn sync_data(&self) -> io::Result<()>;
    /// Makes the file exactly `bytes` long.
    fn truncate(&self, bytes: u64) -> io::Result<()>;
    /// Length of the file.
    fn bytes(&self) -> io::Result<u64>;
}

/// A file that is read [once](DiskFile::read_once_at), for those who know only
/// [`read_at`](DiskFile::read_at).
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
