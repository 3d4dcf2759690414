//! What can be wrong with a segment file.

use std::io;
use std::path::{Path, PathBuf};

use record::FrameError;

/// What is wrong with a segment file, and where.
#[derive(Debug, thiserror::Error)]
pub enum SegmentError {
    /// The operating system refused.
    #[error("{}: cannot {action}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What was tried: "write", "sync", …
        action: &'static str,
        /// Why not.
        source: io::Error,
    },
    /// The first block of the file, or its index, is not what was written.
    #[error("{} at byte {offset}: {part} is damaged: expected {expected}, found {found}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where in it.
        offset: u64,
        /// Which part of it.
        part: &'static str,
        /// What should be there.
        expected: String,
        /// What is there.
        found: String,
    },
    /// A frame is not what was written.
    #[error("{} at byte {offset}: {source}", path.display())]
    Frame {
        /// The file.
        path: PathBuf,
        /// Where the frame begins.
        offset: u64,
        /// What is wrong.
        source: FrameError,
    },
    /// Written by another version of Loginson.
    #[error(
        "{}: segment version {found} is not known; this program reads version {expected}: run the newer program, \
         or move the file away",
        path.display()
    )]
    Version {
        /// The file.
        path: PathBuf,
        /// The version that is read.
        expected: u16,
        /// The version of the file.
        found: u16,
    },
}

impl SegmentError {
    /// Whether the disk has no room.
    pub fn is_disk_full(&self) -> bool {
        matches!(self, SegmentError::Io { source, .. } if matches!(
            source.kind(),
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
        ))
    }

    /// Whether the file is not there.
    pub fn is_not_found(&self) -> bool {
        matches!(self, SegmentError::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }

    /// For `map_err`: an error of the operating system at that file.
    pub fn io(path: &Path, action: &'static str) -> impl FnOnce(io::Error) -> SegmentError {
        move |source| SegmentError::Io { path: path.to_owned(), action, source }
    }
}
