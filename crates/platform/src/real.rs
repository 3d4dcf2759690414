//! The disk of the operating system.
//!
//! A file that is written has two descriptors: one with O_DIRECT for aligned writes, so that appends at disk
//! speed cost neither the page cache nor the processor, and an ordinary one for the rest and for reading. The
//! kernel drops cached pages under a direct write, so both show the same bytes. Where O_DIRECT is refused (some
//! tmpfs, overlay and network file systems), everything goes through the ordinary one.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{FallocateFlags, OFlags};
use rustix::io::Errno;

use crate::buffer::is_aligned;
use crate::disk::{Access, Disk, DiskFile, DiskLock, DiskSpace, LockError};
use crate::shrink;

/// The disk of the operating system.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealDisk;

struct RealFile {
    file: File,
    direct: Option<File>,
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
        let file = options.open(path)?;
        let direct = match access {
            Access::Read => None,
            Access::Create | Access::Write => {
                let flags = OFlags::DIRECT.bits() as i32;
                OpenOptions::new().write(true).custom_flags(flags).open(path).ok()
            }
        };
        Ok(Arc::new(RealFile { file, direct }))
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
            let entry = entry?;
            // A name that is not UTF-8 is none of ours.
            if let Ok(name) = entry.file_name().into_string()
                && entry.file_type()?.is_file()
            {
                names.push(name);
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    fn file_bytes(&self, path: &Path) -> io::Result<u64> {
        Ok(fs::metadata(path)?.len())
    }

    fn space(&self, path: &Path) -> io::Result<DiskSpace> {
        let stat = rustix::fs::statvfs(path)?;
        Ok(DiskSpace {
            free_bytes: stat.f_bavail.saturating_mul(stat.f_frsize),
            total_bytes: stat.f_blocks.saturating_mul(stat.f_frsize),
        })
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn DiskLock>, LockError> {
        let mut file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut text = String::new();
                // Whoever holds it may be about to write its id; then it is unknown.
                let _ = file.take(32).read_to_string(&mut text);
                return Err(LockError::Held { holder: text.trim().parse().ok() });
            }
            Err(TryLockError::Error(error)) => return Err(LockError::Io(error)),
        }
        // On a full disk the lock still holds, only without the id.
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
                // A disk with larger blocks, or a file system that takes the flag and not the write.
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
    use crate::buffer::{AlignedBuffer, BLOCK_BYTES};

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
