//! Receives notifications from the kernel (inotify) where something changes, so that a line is read
//! some milliseconds after it was written.
//!
//! Nothing depends on the notifications: each file is also checked every second, which is all that
//! works on network file systems and beyond the kernel's limits. So lost events need no handling.
//! Directories are watched, not files: one watch serves all files in it.

use std::collections::{BTreeSet, HashMap};
use std::ffi::{OsStr, OsString};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::io::Errno;

/// Directories that are watched. Files in further ones are only checked every second.
const DIRECTORIES_MAX: usize = 4096;
/// Buffer for one read of the kernel's event queue.
const BUFFER_BYTES: usize = 16 << 10;

/// A change in a directory.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Change {
    /// The file with this path was created or written to.
    File(PathBuf),
    /// A directory was created or removed: patterns may match other files now.
    Directories,
}

/// Watches directories.
pub struct Watch {
    queue: OwnedFd,
    by_number: HashMap<i32, PathBuf>,
    by_path: HashMap<PathBuf, i32>,
    limit_told: bool,
}

impl Watch {
    /// Watches nothing yet. `None`, with a log message, if the kernel does not allow it.
    pub fn new() -> Option<Watch> {
        match inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK) {
            Ok(queue) => Some(Watch {
                queue,
                by_number: HashMap::new(),
                by_path: HashMap::new(),
                limit_told: false,
            }),
            Err(error) => {
                tracing::warn!(
                    "files are only checked every second: the kernel gives no notice of changes ({error}); \
                     raise the sysctl fs.inotify.max_user_instances"
                );
                None
            }
        }
    }

    /// The descriptor to poll.
    pub fn fd(&self) -> RawFd {
        self.queue.as_raw_fd()
    }

    /// Watches exactly these directories.
    pub fn set(&mut self, directories: &BTreeSet<PathBuf>) {
        let gone =
            |(path, number): (&PathBuf, &i32)| (!directories.contains(path)).then_some(*number);
        for number in self.by_path.iter().filter_map(gone).collect::<Vec<_>>() {
            self.forget(number);
            // The kernel may have removed the watch already.
            let _ = inotify::remove_watch(&self.queue, number);
        }
        for path in directories {
            if !self.by_path.contains_key(path) && !self.add(path) {
                return;
            }
        }
    }

    fn add(&mut self, path: &Path) -> bool {
        let flags = WatchFlags::CREATE
            | WatchFlags::MOVED_TO
            | WatchFlags::MOVED_FROM
            | WatchFlags::MODIFY
            | WatchFlags::DELETE_SELF
            | WatchFlags::MOVE_SELF
            | WatchFlags::ONLYDIR
            | WatchFlags::EXCL_UNLINK;
        let error = match self.by_number.len() < DIRECTORIES_MAX {
            true => match inotify::add_watch(&self.queue, path, flags) {
                Ok(number) => {
                    self.by_number.insert(number, path.to_owned());
                    self.by_path.insert(path.to_owned(), number);
                    return true;
                }
                Err(Errno::NOSPC) => "raise the sysctl fs.inotify.max_user_watches",
                // It was removed, or may not be read.
                Err(_) => return true,
            },
            false => "too many directories",
        };
        if !std::mem::replace(&mut self.limit_told, true) {
            let watched = self.by_number.len();
            tracing::warn!(
                "{watched} directories are watched; files in others are checked every second: {error}"
            );
        }
        false
    }

    fn forget(&mut self, number: i32) {
        if let Some(path) = self.by_number.remove(&number) {
            self.by_path.remove(&path);
        }
    }

    /// The changes since the last call.
    pub fn changes(&mut self, each: &mut dyn FnMut(Change)) {
        let mut buffer = [MaybeUninit::uninit(); BUFFER_BYTES];
        let mut ended = Vec::new();
        let mut reader = Reader::new(&self.queue, &mut buffer);
        // Ends when the queue is empty.
        while let Ok(event) = reader.next() {
            let events = event.events();
            if events.intersects(ReadFlags::IGNORED | ReadFlags::DELETE_SELF | ReadFlags::MOVE_SELF)
            {
                if self.by_number.contains_key(&event.wd()) {
                    ended.push(event.wd());
                    each(Change::Directories);
                }
            } else if events.intersects(ReadFlags::QUEUE_OVERFLOW | ReadFlags::ISDIR) {
                each(Change::Directories);
            } else if let Some(name) = event.file_name()
                && let Some(directory) = self.by_number.get(&event.wd())
            {
                let name: OsString = OsStr::from_bytes(name.to_bytes()).to_owned();
                each(Change::File(directory.join(name)));
            }
        }
        for number in ended {
            self.forget(number);
            // A moved directory is still watched; a removed one is not.
            let _ = inotify::remove_watch(&self.queue, number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changes(watch: &mut Watch) -> Vec<Change> {
        let mut changes = Vec::new();
        watch.changes(&mut |change| changes.push(change));
        changes.dedup();
        changes
    }

    #[test]
    fn changes_in_watched_directories_are_reported() {
        let dir = tempfile::tempdir().unwrap();
        let (a, b) = (dir.path().join("a"), dir.path().join("b"));
        std::fs::create_dir(&a).unwrap();
        std::fs::create_dir(&b).unwrap();
        let mut watch = Watch::new().unwrap();
        watch.set(&BTreeSet::from([a.clone(), b.clone(), dir.path().join("none")]));
        assert_eq!(changes(&mut watch), []);
        std::fs::write(a.join("x"), "1").unwrap();
        assert_eq!(changes(&mut watch), [Change::File(a.join("x"))]);
        std::fs::rename(a.join("x"), b.join("y")).unwrap();
        assert_eq!(changes(&mut watch), [Change::File(a.join("x")), Change::File(b.join("y"))]);
        std::fs::create_dir(a.join("d")).unwrap();
        assert_eq!(changes(&mut watch), [Change::Directories]);
        watch.set(&BTreeSet::from([b.clone()]));
        std::fs::write(a.join("x"), "1").unwrap();
        assert_eq!(changes(&mut watch), []);
        std::fs::rename(&b, dir.path().join("c")).unwrap();
        assert_eq!(changes(&mut watch), [Change::Directories]);
        // The new directory with that name is watched again.
        std::fs::create_dir(&b).unwrap();
        watch.set(&BTreeSet::from([b.clone()]));
        std::fs::write(b.join("x"), "1").unwrap();
        assert_eq!(changes(&mut watch), [Change::File(b.join("x"))]);
    }
}
