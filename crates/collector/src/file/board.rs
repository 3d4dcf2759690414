//! The state of the followed files, as metrics, the API and the checkpoint see it.
//!
//! The following thread and the writer of the store update the numbers here; readers do not block
//! them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, AtomicU8, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};

/// State of a followed file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum FileState {
    /// It has its name and is read as it grows.
    Following = 0,
    /// It was renamed; further writes to it are still read.
    Renamed = 1,
    /// It has no name any more; its remaining bytes are read.
    Deleted = 2,
    /// It cannot be read; reading is retried.
    Unreadable = 3,
}

impl FileState {
    /// The name used in the API.
    pub fn name(self) -> &'static str {
        match self {
            FileState::Following => "following",
            FileState::Renamed => "renamed",
            FileState::Deleted => "deleted",
            FileState::Unreadable => "unreadable",
        }
    }
}

/// Status of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileInfo {
    /// Its name when it was discovered.
    pub path: String,
    /// Its state.
    pub state: FileState,
    /// Its length.
    pub size_bytes: u64,
    /// Bytes read so far.
    pub read_bytes: u64,
    /// Bytes that are durable in the store; the rest of the file is the lag.
    pub durable_bytes: u64,
    /// When data was last read from it, nanoseconds since 1970 UTC; `None` before the first read.
    pub read_ns: Option<i64>,
    /// Why it cannot be read.
    pub error: Option<String>,
}

/// Totals over all files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileTotals {
    /// Files that are followed.
    pub followed: u64,
    /// Followed files that are open.
    pub open: u64,
    /// Files and directories that cannot be read.
    pub unreadable: u64,
    /// Bytes of the files that are not durable yet.
    pub lag_bytes: u64,
    /// Records that exceeded the limit and were cut into several.
    pub records_cut: u64,
    /// Times a file was found truncated or rewritten.
    pub truncations: u64,
    /// Bytes that were truncated or deleted before they were read.
    pub bytes_lost: u64,
    /// Checkpoints that could not be written.
    pub checkpoints_failed: u64,
}

/// The numbers of one file, since it was last truncated.
#[derive(Debug)]
pub(crate) struct Tracked {
    pub id: u64,
    pub path: String,
    pub size: AtomicU64,
    pub read: AtomicU64,
    /// Only changed under the lock of the ledger.
    pub durable: AtomicU64,
    read_ns: AtomicI64,
    state: AtomicU8,
    error: Mutex<Option<String>>,
}

impl Tracked {
    pub fn new(id: u64, path: &Path, position: u64) -> Arc<Tracked> {
        Arc::new(Tracked {
            id,
            path: path.to_string_lossy().into_owned(),
            size: AtomicU64::new(position),
            read: AtomicU64::new(position),
            durable: AtomicU64::new(position),
            read_ns: AtomicI64::new(0),
            state: AtomicU8::new(FileState::Following as u8),
            error: Mutex::default(),
        })
    }

    pub fn read_to(&self, position: u64, now_ns: i64) {
        self.read.store(position, Relaxed);
        self.read_ns.store(now_ns, Relaxed);
    }

    pub fn set_state(&self, state: FileState) {
        self.state.store(state as u8, Relaxed);
    }

    /// Sets or clears the reason why it cannot be read. Returns whether the reason is new.
    pub fn set_error(&self, error: Option<String>) -> bool {
        let mut known = lock(&self.error);
        let is_new = *known != error;
        *known = error;
        is_new
    }

    pub fn lag_bytes(&self) -> u64 {
        self.size.load(Relaxed).saturating_sub(self.durable.load(Relaxed))
    }

    fn info(&self) -> FileInfo {
        let error = lock(&self.error).clone();
        let state = match self.state.load(Relaxed) {
            _ if error.is_some() => FileState::Unreadable,
            1 => FileState::Renamed,
            2 => FileState::Deleted,
            _ => FileState::Following,
        };
        FileInfo {
            path: self.path.clone(),
            state,
            size_bytes: self.size.load(Relaxed),
            read_bytes: self.read.load(Relaxed),
            durable_bytes: self.durable.load(Relaxed),
            read_ns: Some(self.read_ns.load(Relaxed)).filter(|ns| *ns != 0),
            error,
        }
    }
}

/// The shared state of all files.
#[derive(Debug, Default)]
pub(crate) struct Board {
    files: Mutex<BTreeMap<(String, u64), Arc<Tracked>>>,
    /// Files that could not be opened yet, and directories.
    unreadable: Mutex<BTreeMap<PathBuf, String>>,
    /// Files that are open.
    pub open: Arc<AtomicU64>,
    pub records_cut: AtomicU64,
    pub truncations: AtomicU64,
    pub bytes_lost: AtomicU64,
    pub checkpoints_failed: AtomicU64,
}

impl Board {
    pub fn add(&self, tracked: &Arc<Tracked>) {
        lock(&self.files).insert((tracked.path.clone(), tracked.id), Arc::clone(tracked));
    }

    pub fn remove(&self, tracked: &Tracked) {
        lock(&self.files).remove(&(tracked.path.clone(), tracked.id));
    }

    /// Records that a path cannot be read. Returns whether that is new.
    pub fn unreadable(&self, path: &Path, why: &str) -> bool {
        lock(&self.unreadable).insert(path.to_owned(), why.to_owned()).as_deref() != Some(why)
    }

    /// Keeps only the unreadable paths for which `still` is true.
    pub fn still_unreadable(&self, still: impl Fn(&Path) -> bool) {
        lock(&self.unreadable).retain(|path, _| still(path));
    }

    pub fn totals(&self) -> FileTotals {
        let files = lock(&self.files);
        let with_error = files.values().filter(|file| lock(&file.error).is_some()).count();
        FileTotals {
            followed: files.len() as u64,
            open: self.open.load(Relaxed),
            unreadable: (with_error + lock(&self.unreadable).len()) as u64,
            lag_bytes: files.values().map(|file| file.lag_bytes()).sum(),
            records_cut: self.records_cut.load(Relaxed),
            truncations: self.truncations.load(Relaxed),
            bytes_lost: self.bytes_lost.load(Relaxed),
            checkpoints_failed: self.checkpoints_failed.load(Relaxed),
        }
    }

    /// Unreadable paths first, then the files by path: at most `take` entries, after skipping
    /// `skip`.
    pub fn list(&self, skip: usize, take: usize) -> Vec<FileInfo> {
        let unreadable = lock(&self.unreadable);
        let of_unreadable = unreadable.iter().map(|(path, why)| FileInfo {
            path: path.to_string_lossy().into_owned(),
            state: FileState::Unreadable,
            size_bytes: 0,
            read_bytes: 0,
            durable_bytes: 0,
            read_ns: None,
            error: Some(why.clone()),
        });
        let files = lock(&self.files);
        let of_files = files.values().map(|file| file.info());
        of_unreadable.chain(of_files).skip(skip).take(take).collect()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("nothing panics while this is locked")
}
