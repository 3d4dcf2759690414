//! Removes large files gradually.
//!
//! Freeing a gibibyte at once blocks some disks for all other users: if the file system reports
//! freed blocks to the disk (`mount -o discard`), a virtual disk completes no write for 160 to 330
//! ms. So a large file loses its name at once and is then shortened from its end, step by step,
//! with pauses for other writes. A separate thread does this, so that the caller that removes a
//! file does not wait.
//!
//! Invariants: a file is shortened only when it has no other name, nobody else in any process has
//! it open, and the removal of its name is durable. Left out: a process that ends earlier; the
//! system then frees the rest at once.
#![expect(unsafe_code)]

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use rustix::io::Errno;

use crate::placement::{self, Role};
use crate::regular::open_regular;

/// Files of at least this size are removed gradually.
const BYTES_MIN: u64 = 64 << 20;
/// Bytes per step: 3 to 6 ms on a disk where a gibibyte takes 160 to 330.
const STEP_BYTES: u64 = 16 << 20;
/// The pause after a step is this many times the duration of the step, divided by the number of
/// waiting files: a gibibyte takes about a second, and several files together are freed as fast as
/// lines fill them.
const PAUSE_PARTS: u32 = 3;
/// The longest pause.
const PAUSE_MAX: Duration = Duration::from_millis(100);
/// Files that wait. A further one is freed at once when its last handle is closed.
const FILES_MAX: usize = 16;
/// Interval of checking whether another process or handle still has a file open.
const OPEN_RETRY: Duration = Duration::from_secs(1);
/// After this time, freeing is left to the last one that closes the file. Queries end after a
/// minute.
const OPEN_MAX: Duration = Duration::from_secs(90);

// One thread and one counter for the process, however many stores and spools it has: they share the
// disk that is to be spared, and `RealDisk` is a value without state, which anyone may create.
static WAITING: AtomicUsize = AtomicUsize::new(0);

/// A file without a name whose space must be freed.
struct UnlinkedFile {
    file: File,
    /// The directory that had its name.
    dir: PathBuf,
    since: Instant,
}

impl Drop for UnlinkedFile {
    fn drop(&mut self) {
        WAITING.fetch_sub(1, Relaxed);
    }
}

/// Removes a file. The space of a large file is freed within some seconds.
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    let large = open_regular(path, OpenOptions::new().write(true)).ok();
    let large = large.filter(|file| file.metadata().is_ok_and(|found| found.len() >= BYTES_MIN));
    fs::remove_file(path)?;
    if let (Some(file), Some(dir)) = (large, path.parent()) {
        leave(file, dir.to_owned());
    }
    Ok(())
}

fn leave(file: File, dir: PathBuf) {
    // See `WAITING`.
    static SENDER: OnceLock<Option<Sender<UnlinkedFile>>> = OnceLock::new();
    if WAITING.fetch_add(1, Relaxed) >= FILES_MAX {
        WAITING.fetch_sub(1, Relaxed);
        return;
    }
    let leaving = UnlinkedFile { file, dir, since: Instant::now() };
    // Without a thread the file is closed here, and freed at once.
    if let Some(sender) = SENDER.get_or_init(start) {
        let _ = sender.send(leaving);
    }
}

fn start() -> Option<Sender<UnlinkedFile>> {
    let (sender, receiver) = mpsc::channel();
    let work = move || {
        placement::enter(Role::Ledger);
        run(&receiver);
    };
    std::thread::Builder::new().name("disk-free".to_owned()).spawn(work).ok()?;
    Some(sender)
}

fn run(receiver: &Receiver<UnlinkedFile>) {
    let mut open_elsewhere: Vec<UnlinkedFile> = Vec::new();
    loop {
        let next = match open_elsewhere.is_empty() {
            true => receiver.recv().map_err(|_| RecvTimeoutError::Disconnected),
            false => receiver.recv_timeout(OPEN_RETRY),
        };
        let mut found = std::mem::take(&mut open_elsewhere);
        match next {
            Ok(leaving) => found.push(leaving),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        for leaving in found {
            match is_ours_alone(&leaving.file) {
                Ok(true) => {
                    let removed = File::open(&leaving.dir).and_then(|dir| dir.sync_all());
                    let _ = removed.and_then(|()| shrink(&leaving.file));
                }
                Ok(false) if leaving.since.elapsed() < OPEN_MAX => open_elsewhere.push(leaving),
                _ => {}
            }
        }
    }
}

/// Shortens a file step by step to length 0.
fn shrink(file: &File) -> io::Result<()> {
    let mut bytes = file.metadata()?.len();
    while bytes > 0 {
        bytes = bytes.saturating_sub(STEP_BYTES);
        let began = Instant::now();
        file.set_len(bytes)?;
        let files = u32::try_from(WAITING.load(Relaxed)).unwrap_or(u32::MAX);
        std::thread::sleep((began.elapsed() * PAUSE_PARTS / files.max(1)).min(PAUSE_MAX));
    }
    Ok(())
}

/// Whether a file, open for writing, has no name and is open nowhere else. The system only grants a
/// write lease if nobody else has the file open (fcntl(2)); on file systems without leases, that is
/// an error.
fn is_ours_alone(file: &File) -> io::Result<bool> {
    if file.metadata()?.nlink() > 0 {
        return Ok(false);
    }
    let lease = |kind: libc::c_int| {
        // SAFETY: F_SETLEASE takes an integer and does not access our memory; the descriptor is
        // open.
        let result = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, kind) };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    };
    match lease(libc::F_WRLCK) {
        // The file has no name, so nobody can open it any more. While the lease exists, an attempt
        // to open it would send us a signal.
        Ok(()) => lease(libc::F_UNLCK).map(|()| true),
        Err(error) if error.raw_os_error() == Some(Errno::AGAIN.raw_os_error()) => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::fs::OpenOptionsExt;

    use super::*;

    fn made(path: &Path, bytes: u64) -> File {
        fs::write(path, "begins so").unwrap();
        OpenOptions::new().write(true).open(path).unwrap().set_len(bytes).unwrap();
        // Observes the file without counting as an open handle.
        OpenOptions::new().read(true).custom_flags(libc::O_PATH).open(path).unwrap()
    }

    fn bytes(seen: &File) -> u64 {
        seen.metadata().unwrap().len()
    }

    #[test]
    fn a_large_file_is_freed_once_nobody_reads_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        let seen = made(&path, BYTES_MIN);
        let mut reader = File::open(&path).unwrap();
        remove(&path).unwrap();
        assert!(!path.exists());
        // A reader keeps it open longer than the interval of checks.
        std::thread::sleep(OPEN_RETRY + OPEN_RETRY / 2);
        assert_eq!(bytes(&seen), BYTES_MIN);
        let mut beginning = [0; 9];
        reader.read_exact(&mut beginning).unwrap();
        assert_eq!(&beginning, b"begins so");
        drop(reader);
        while bytes(&seen) > 0 {
            std::thread::yield_now();
        }
        assert_eq!(remove(&path).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn a_file_that_is_still_named_or_open_is_not_ours_alone() {
        let dir = tempfile::tempdir().unwrap();
        let (path, other) = (dir.path().join("f"), dir.path().join("g"));
        made(&path, 1);
        let file = OpenOptions::new().write(true).open(&path).unwrap();
        assert!(!is_ours_alone(&file).unwrap());
        fs::hard_link(&path, &other).unwrap();
        fs::remove_file(&path).unwrap();
        assert!(!is_ours_alone(&file).unwrap(), "it has another name");
        let reader = File::open(&other).unwrap();
        fs::remove_file(&other).unwrap();
        assert!(!is_ours_alone(&file).unwrap(), "it is read");
        drop(reader);
        let writer = file.try_clone().unwrap();
        assert!(is_ours_alone(&file).unwrap(), "the same opening");
        drop(writer);
        assert!(is_ours_alone(&file).unwrap());
    }

    #[test]
    fn a_linked_file_keeps_its_bytes() {
        let dir = tempfile::tempdir().unwrap();
        let (path, other, last) =
            (dir.path().join("f"), dir.path().join("g"), dir.path().join("h"));
        made(&path, BYTES_MIN);
        fs::hard_link(&path, &other).unwrap();
        remove(&path).unwrap();
        // The thread handles them in turn: once this one is gone, it has checked the other.
        let seen = made(&last, BYTES_MIN);
        remove(&last).unwrap();
        while bytes(&seen) > 0 {
            std::thread::yield_now();
        }
        assert_eq!(fs::metadata(&other).unwrap().len(), BYTES_MIN);
        assert!(fs::read(&other).unwrap().starts_with(b"begins so"));
    }

    #[test]
    fn every_size_is_shortened_to_nothing() {
        let dir = tempfile::tempdir().unwrap();
        for size in [0, 1, STEP_BYTES - 1, STEP_BYTES, STEP_BYTES + 1, 3 * STEP_BYTES] {
            let path = dir.path().join("f");
            let seen = made(&path, size);
            shrink(&OpenOptions::new().write(true).open(&path).unwrap()).unwrap();
            assert_eq!(bytes(&seen), 0);
        }
    }
}
