//! Starts a store again without anything in memory, so that the first answers come from the disk.

use std::fs::File;
use std::path::{Path, PathBuf};

use rustix::fs::{Advice, fadvise};

/// Takes the files below these directories out of the page cache of the system. What the system
/// refuses stays: the answers are then faster than they would be, and never wrong.
pub fn evict(directories: &[PathBuf]) {
    // Only clean pages can be dropped.
    rustix::fs::sync();
    directories.iter().for_each(|directory| evict_below(directory));
}

fn evict_below(directory: &Path) {
    let Ok(entries) = std::fs::read_dir(directory) else { return };
    for entry in entries.flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => evict_below(&entry.path()),
            Ok(kind) if kind.is_file() => {
                if let Ok(file) = File::open(entry.path()) {
                    let _ = fadvise(&file, 0, None, Advice::DontNeed);
                }
            }
            _ => {}
        }
    }
}
