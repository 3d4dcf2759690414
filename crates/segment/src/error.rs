//! Errors of segment files.

use std::io;
use std::path::{Path, PathBuf};

use record::FrameError;

/// An error of a segment file, and where it is.
#[derive(Debug, thiserror::Error)]
pub enum SegmentError {
    /// An input or output error.
    #[error("{}: cannot {action}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The attempted operation: "write", "sync", …
        action: &'static str,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The first block of the file, or its index, differs from what was written.
    #[error("{} at byte {offset}: {part} is damaged: expected {expected}, found {found}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Offset in the file, bytes.
        offset: u64,
        /// Which part of it.
        part: &'static str,
        /// The expected content.
        expected: String,
        /// The content found.
        found: String,
    },
    /// A frame differs from what was written.
    #[error("{} at byte {offset}: {source}", path.display())]
    Frame {
        /// The file.
        path: PathBuf,
        /// Offset of the frame, bytes.
        offset: u64,
        /// The problem.
        source: FrameError,
    },
    /// Written by another version of Loginson.
    #[error(
        "{}: {part} version {found} is not known; this program reads version {expected}: use the \
         release of Loginson that wrote it, or move the file away",
        path.display()
    )]
    Version {
        /// The file.
        path: PathBuf,
        /// Which part of it: "segment" or "index".
        part: &'static str,
        /// The version that this code reads.
        expected: u16,
        /// The version of the file.
        found: u16,
    },
}

impl SegmentError {
    /// Whether the disk is full.
    pub fn is_disk_full(&self) -> bool {
        matches!(self, SegmentError::Io { source, .. } if platform::is_disk_full(source))
    }

    /// Whether the file does not exist.
    pub fn is_not_found(&self) -> bool {
        matches!(self, SegmentError::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }

    /// For `map_err`: adds the file and the attempted operation to an error of the operating
    /// system.
    pub fn io(path: &Path, action: &'static str) -> impl FnOnce(io::Error) -> SegmentError {
        move |source| SegmentError::Io { path: path.to_owned(), action, source }
    }
}
