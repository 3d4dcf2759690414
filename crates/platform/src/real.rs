//! The disk of the operating system.
//!
//! A file that is written has two descriptors: one with O_DIRECT for aligned writes, so that
//! appending at disk speed uses neither the page cache nor much processor time, and an ordinary one
//! for other writes and for reading. The kernel drops cached pages under a direct write, so both
//! show the same bytes. A third descriptor, opened when needed, bypasses the page cache for data
//! that is read once. If O_DIRECT is refused (some tmpfs, overlay and network file systems),
//! everything uses the ordinary one.

use std::cell::RefCell;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use rustix::fs::{FallocateFlags, OFlags};
use rustix::io::Errno;

use crate::buffer::{AlignedBuffer, BLOCK_BYTES, is_aligned};
use crate::disk::{Access, Disk, DiskFile, DiskLock, DiskSpace, LockError};
use crate::regular::{check_regular, open_regular, open_with};
use crate::shrink;

/// Bytes per read that bypasses the page cache, into memory that fits a core's own cache: a frame
/// of usual size.
const ONCE_BYTES: usize = (1 << 20) + (128 << 10);
/// Length of a lock file: the longest process id and a newline, with some room.
const LOCK_BYTES_MAX: u64 = 32;
/// Shorter reads use the page cache.
const ONCE_BYTES_MIN: usize = 64 << 10;

thread_local! {
    /// Buffer of a thread for reads that bypass the page cache; empty before the first one. It is
    /// kept per thread, since allocating a MiB for each read would cost more than the copy.
    static ONCE: RefCell<AlignedBuffer> = RefCell::new(AlignedBuffer::new(0));
}

/// The disk of the operating system.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealDisk;

struct RealFile {
    file: File,
    direct: Option<File>,
    /// `None` if O_DIRECT is refused.
    once: OnceLock<Option<File>>,
}

impl RealFile {
    /// The file reopened for reads that bypass the page cache, even if it has no name any more.
    fn once(&self) -> Option<&File> {
        let open = || {
            let path = format!("/proc/self/fd/{}", self.file.as_raw_fd());
            let flags = OFlags::DIRECT.bits() as i32;
            OpenOptions::new().read(true).custom_flags(flags).open(path).ok()
        };
        self.once.get_or_init(open).as_ref()
    }
}

/// Reads until `buffer` is full or the file ends, using whole blocks around the range.
fn read_direct(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let block = BLOCK_BYTES as u64;
    ONCE.with_borrow_mut(|blocks| {
        if blocks.is_empty() {
            *blocks = AlignedBuffer::new(ONCE_BYTES);
        }
        let mut read = 0;
        while read < buffer.len() {
            let at = offset + read as u64;
            let skip = (at % block) as usize;
            let wanted = (skip + buffer.len() - read).next_multiple_of(BLOCK_BYTES);
            let found = match file.read_at(&mut blocks[..wanted.min(ONCE_BYTES)], at - skip as u64)
            {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                found => found?,
            };
            if found <= skip {
                break;
            }
            let bytes = (found - skip).min(buffer.len() - read);
            buffer[read..read + bytes].copy_from_slice(&blocks[skip..skip + bytes]);
            read += bytes;
        }
        Ok(read)
    })
}

/// The process id in a lock file; None if the file is empty.
///
/// # Errors
/// It holds anything else. Then it is no lock file, but perhaps a hard link to a file of somebody
/// else, which must not be truncated.
fn process_id(file: &mut File) -> io::Result<Option<u32>> {
    let bytes = file.metadata()?.len();
    let mut text = String::new();
    let read = file.take(LOCK_BYTES_MAX).read_to_string(&mut text);
    let text = text.strip_suffix('\n').unwrap_or(&text);
    match text.parse() {
        Ok(id) if bytes <= LOCK_BYTES_MAX && read.is_ok() => Ok(Some(id)),
        _ if bytes == 0 => Ok(None),
        _ => Err(io::Error::other(
            "it holds something else than the id of a process, and is left unchanged; move it away",
        )),
    }
}

struct RealLock {
    _file: File,
}

impl DiskLock for RealLock {}

impl Disk for RealDisk {
    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn DiskFile>> {
        let mut options = OpenOptions::new();
        options.read(true);
        match access {
            Access::Create => options.write(true).create_new(true),
            Access::Write => options.write(true),
            Access::Read => &mut options,
        };
        let file = open_regular(path, &mut options)?;
        let direct = match access {
            Access::Read => None,
            Access::Create | Access::Write => {
                let flags = OFlags::DIRECT | OFlags::NOFOLLOW;
                open_with(path, OpenOptions::new().write(true), flags).ok()
            }
        };
        Ok(Arc::new(RealFile { file, direct, once: OnceLock::new() }))
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        fs::create_dir_all(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::hard_link(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        shrink::remove(path)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }

    fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(path)? {
            // This program creates no names that are not UTF-8.
            if let Ok(name) = entry?.file_name().into_string() {
                names.push(name);
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    fn file_bytes(&self, path: &Path) -> io::Result<u64> {
        Ok(check_regular(path)?.len())
    }

    fn space(&self, path: &Path) -> io::Result<DiskSpace> {
        let stat = rustix::fs::statvfs(path)?;
        let used_blocks = stat.f_blocks.saturating_sub(stat.f_bfree);
        Ok(DiskSpace {
            used_bytes: used_blocks.saturating_mul(stat.f_frsize),
            free_bytes: stat.f_bavail.saturating_mul(stat.f_frsize),
            total_bytes: stat.f_blocks.saturating_mul(stat.f_frsize),
        })
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn DiskLock>, LockError> {
        let mut options = OpenOptions::new();
        let options = options.read(true).write(true).create(true).truncate(false);
        let mut file = open_regular(path, options)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                // The holder may be about to write its id; then the id is unknown.
                let holder = process_id(&mut file).ok().flatten();
                return Err(LockError::Held { holder });
            }
            Err(TryLockError::Error(error)) => return Err(LockError::Io(error)),
        }
        process_id(&mut file)?;
        // On a full disk the lock still works, only without the id.
        let _ = file
            .set_len(0)
            .and_then(|()| file.rewind())
            .and_then(|()| writeln!(file, "{}", std::process::id()));
        Ok(Box::new(RealLock { _file: file }))
    }

    fn os_path(&self, path: &Path) -> Option<PathBuf> {
        Some(path.to_owned())
    }
}

impl DiskFile for RealFile {
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        if let Some(direct) = &self.direct
            && is_aligned(bytes, offset)
        {
            match direct.write_all_at(bytes, offset) {
                // A disk with larger blocks, or a file system that accepts the flag but not the
                // write.
                Err(error) if error.raw_os_error() == Some(Errno::INVAL.raw_os_error()) => {}
                result => return result,
            }
        }
        self.file.write_all_at(bytes, offset)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut read = 0;
        while read < buffer.len() {
            match self.file.read_at(&mut buffer[read..], offset + read as u64) {
                Ok(0) => break,
                Ok(bytes) => read += bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(read)
    }

    fn read_once_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        if buffer.len() >= ONCE_BYTES_MIN
            && let Some(once) = self.once()
            // A disk with larger blocks, or a file system that accepts the flag but not the read.
            && let Ok(read) = read_direct(once, buffer, offset)
        {
            return Ok(read);
        }
        self.read_at(buffer, offset)
    }

    fn preallocate(&self, bytes: u64) -> io::Result<()> {
        let have = self.bytes()?;
        if have >= bytes {
            return Ok(());
        }
        match rustix::fs::fallocate(&self.file, FallocateFlags::empty(), have, bytes - have) {
            Ok(()) => Ok(()),
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => self.file.set_len(bytes),
            Err(error) => Err(error.into()),
        }
    }

    fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn truncate(&self, bytes: u64) -> io::Result<()> {
        self.file.set_len(bytes)
    }

    fn bytes(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ReadOnce;
    use crate::disk::DiskFile;

    #[test]
    fn aligned_and_other_writes_are_read_back() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        let disk = RealDisk;
        let file = disk.open(&path, Access::Create).unwrap();
        assert!(disk.open(&path, Access::Create).is_err(), "made only once");
        file.preallocate(1 << 20).unwrap();
        assert_eq!(file.bytes().unwrap(), 1 << 20);
        let mut block = AlignedBuffer::new(2 * BLOCK_BYTES);
        block.fill(7);
        file.write_at(&block, BLOCK_BYTES as u64).unwrap();
        file.write_at(b"odd", BLOCK_BYTES as u64 - 1).unwrap();
        file.sync_data().unwrap();
        let mut found = vec![0; 5];
        let reader = disk.open(&path, Access::Read).unwrap();
        assert_eq!(reader.read_at(&mut found, BLOCK_BYTES as u64 - 2).unwrap(), 5);
        assert_eq!(found, [0, b'o', b'd', b'd', 7]);
        file.truncate(10).unwrap();
        assert_eq!(reader.read_at(&mut found, 8).unwrap(), 2, "short at the end of the file");
        assert_eq!(disk.list(dir.path()).unwrap(), ["f"]);
        assert!(disk.space(dir.path()).unwrap().total_bytes > 0);
    }

    #[test]
    fn read_once_returns_the_same_bytes() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        let bytes: Vec<u8> = (0..3 * ONCE_BYTES + 5).map(|_| fastrand::u8(..)).collect();
        let writer = RealDisk.open(&path, Access::Create).unwrap();
        // Some of the data is only in the page cache.
        writer.write_at(&bytes, 0).unwrap();
        let reader = RealDisk.open(&path, Access::Read).unwrap();
        let check = |offset: usize, wanted: usize| {
            let mut found = vec![0; wanted];
            let read = ReadOnce(&*reader).read_at(&mut found, offset as u64).unwrap();
            let expected = &bytes[offset.min(bytes.len())..(offset + wanted).min(bytes.len())];
            assert!(found[..read] == *expected, "{wanted} bytes from {offset}");
        };
        let edges = |at: usize| [at.saturating_sub(1), at, at + 1];
        for offset in [0, 1, BLOCK_BYTES - 1, BLOCK_BYTES, BLOCK_BYTES + 8, bytes.len() - 1] {
            for wanted in [ONCE_BYTES_MIN, ONCE_BYTES, 2 * ONCE_BYTES, bytes.len()] {
                edges(wanted).into_iter().for_each(|wanted| check(offset, wanted));
            }
        }
        for end in edges(bytes.len()) {
            check(end, ONCE_BYTES_MIN);
            check(end - ONCE_BYTES_MIN, ONCE_BYTES_MIN);
        }
        // Also works when the file has no name any more.
        let unnamed = RealDisk.open(&path, Access::Read).unwrap();
        RealDisk.remove(&path).unwrap();
        let mut found = vec![0; bytes.len()];
        assert_eq!(unnamed.read_once_at(&mut found, 0).unwrap(), bytes.len());
        assert!(found == bytes);
    }

    #[test]
    fn a_link_shares_bytes_and_outlives_the_first_name() {
        let dir = tempfile::tempdir().unwrap();
        let (first, second) = (dir.path().join("1"), dir.path().join("2"));
        let disk = RealDisk;
        disk.open(&first, Access::Create).unwrap().write_at(b"both", 0).unwrap();
        disk.hard_link(&first, &second).unwrap();
        let again = disk.hard_link(&first, &second).unwrap_err();
        assert_eq!(again.kind(), io::ErrorKind::AlreadyExists);
        disk.remove(&first).unwrap();
        assert_eq!(disk.file_bytes(&second).unwrap(), 4);
        let gone = [disk.file_bytes(&first).err(), disk.hard_link(&first, &second).err()];
        assert!(gone.into_iter().all(|e| e.unwrap().kind() == io::ErrorKind::NotFound));
    }

    #[test]
    fn lock_is_exclusive_and_names_its_holder() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("LOCK");
        let first = RealDisk.lock(&path).unwrap();
        match RealDisk.lock(&path) {
            Err(LockError::Held { holder }) => assert_eq!(holder, Some(std::process::id())),
            other => panic!("expected a held lock, found {:?}", other.map(|_| ())),
        }
        drop(first);
        RealDisk.lock(&path).unwrap();
    }
}
