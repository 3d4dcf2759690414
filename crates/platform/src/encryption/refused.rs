//! A file without encryption where all files are encrypted: nothing of it is believed.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::NOT_AUTHENTIC;
use crate::disk::DiskFile;

/// Why such a file is not used, and what to do.
pub(super) const REASON: &str = "it is not encrypted, and all files of this directory were; if you put it there, \
     `loginson encryption rewrite --accept-plain` takes it in, else move it away";

/// Reads as bytes that are not authentic, as long as the file is.
pub(super) struct RefusedFile {
    path: PathBuf,
    bytes: u64,
    damage: Arc<AtomicU64>,
    is_reported: AtomicBool,
}

impl RefusedFile {
    pub(super) fn new(path: &Path, bytes: u64, damage: &Arc<AtomicU64>) -> RefusedFile {
        let (path, damage) = (path.to_owned(), damage.clone());
        RefusedFile { path, bytes, damage, is_reported: AtomicBool::new(false) }
    }
}

impl DiskFile for RefusedFile {
    fn write_at(&self, _: &[u8], _: u64) -> io::Result<()> {
        Err(refused())
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let read = self.bytes.saturating_sub(offset).min(buffer.len() as u64) as usize;
        buffer[..read].fill(NOT_AUTHENTIC);
        if read > 0 && !self.is_reported.swap(true, Ordering::Relaxed) {
            self.damage.fetch_add(1, Ordering::Relaxed);
            tracing::warn!("{}: {REASON}", self.path.display());
        }
        Ok(read)
    }

    fn preallocate(&self, _: u64) -> io::Result<()> {
        Err(refused())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn truncate(&self, _: u64) -> io::Result<()> {
        Err(refused())
    }

    fn bytes(&self) -> io::Result<u64> {
        Ok(self.bytes)
    }
}

fn refused() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, REASON)
}
