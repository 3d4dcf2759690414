//! The catalog of a history: SQLite writes it past the simulated disk, so its crashes are made
//! here.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use platform::SimDisk;

/// The catalog's file, and copies of it from before.
pub struct CatalogFile {
    path: PathBuf,
    /// The file when the power was cut. Changes that the process makes afterwards are lost.
    at_crash: Arc<Mutex<Option<Vec<u8>>>>,
    older: Option<Vec<u8>>,
}

impl CatalogFile {
    pub fn new(dir: &Path, disk: &SimDisk) -> Self {
        let path = dir.join("catalog.sqlite");
        let at_crash: Arc<Mutex<Option<Vec<u8>>>> = Arc::default();
        let (file, copy) = (path.clone(), at_crash.clone());
        disk.on_crash(move || *copy.lock().unwrap() = read(&file));
        CatalogFile { path, at_crash, older: None }
    }

    /// Takes a copy, which a later crash may bring back, as if an operator had restored it or its
    /// disk had lost writes.
    pub fn copy(&mut self) {
        self.older = read(&self.path);
    }

    /// Leaves the file in a state that a crash can leave; returns which state that is.
    pub fn restart(&mut self, rng: &mut fastrand::Rng) -> &'static str {
        let at_crash = self.at_crash.lock().unwrap().take();
        let older = self.older.take();
        let (left, what) = match rng.u8(..8) {
            0 => (None, "lost"),
            1 | 2 if older.is_some() => (older, "old"),
            _ if at_crash.is_some() => (at_crash, "as it was"),
            _ => (None, "lost"),
        };
        let _ = std::fs::remove_file(self.path.with_extension("sqlite-journal"));
        match left {
            Some(bytes) => std::fs::write(&self.path, bytes).unwrap(),
            None => {
                let _ = std::fs::remove_file(&self.path);
            }
        }
        what
    }
}

/// The file between two transactions. None within a transaction, which a history with one thread
/// never sees.
fn read(path: &Path) -> Option<Vec<u8>> {
    let journal = std::fs::metadata(path.with_extension("sqlite-journal"));
    if journal.is_ok_and(|journal| journal.len() > 0) {
        return None;
    }
    std::fs::read(path).ok()
}
