//! Errors of a store, for callers that open, append to or read it.

use std::io;
use std::path::{Path, PathBuf};

use segment::SegmentError;

/// Why a store cannot be opened, read or closed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Another process has the data directory.
    #[error(
        "the data directory {} is in use by {}; stop it, or give this instance a --data-dir of its own",
        data_dir.display(),
        holder.map_or("another process".to_owned(), |pid| format!("process {pid}"))
    )]
    Locked {
        /// The directory.
        data_dir: PathBuf,
        /// The other process, if it is known.
        holder: Option<u32>,
    },
    /// A setting is invalid.
    #[error("{0}")]
    Config(String),
    /// An operation of the operating system failed.
    #[error("{}: cannot {action}: {source}", path.display())]
    Io {
        /// File or directory.
        path: PathBuf,
        /// The attempted operation.
        action: &'static str,
        /// The cause.
        source: io::Error,
    },
    /// A segment cannot be read or written.
    #[error(transparent)]
    Segment(#[from] SegmentError),
    /// Nothing of a segment can be read; the text names file and byte.
    #[error("{0}")]
    Unreadable(String),
    /// The catalog cannot be read or written.
    #[error(
        "the catalog {file}: {source}; if it is damaged, move it away: it is rebuilt from the segments"
    )]
    Catalog {
        /// Its file.
        file: String,
        /// The cause.
        source: rusqlite::Error,
    },
    /// The catalog cannot be written, because the disk is full.
    #[error(
        "the catalog {file} cannot be written, because the disk is full; free some space (1 MiB is enough for \
         it). It is not damaged"
    )]
    CatalogFull {
        /// Its file.
        file: String,
    },
    /// The catalog was written by another version of Loginson.
    #[error(
        "the catalog {file} has schema version {found}; this program reads version {expected}: use the release of \
         Loginson that wrote it, or move the file away: it is rebuilt from the segments"
    )]
    CatalogVersion {
        /// Its file.
        file: String,
        /// The version that this code reads.
        expected: i64,
        /// The version found.
        found: i64,
    },
    /// The file of a segment is at a location that this program does not support.
    #[error(
        "the catalog says that the file of segment {segment} is at '{location}', which this program does not reach"
    )]
    Location {
        /// Number of the segment.
        segment: u64,
        /// Its location in the catalog.
        location: String,
    },
    /// The request is refused; the text says why.
    #[error("{0}")]
    Refused(String),
    /// The store was closed with frames that could not be written.
    #[error("{lines} lines that had arrived could not be written: {reason}")]
    Unwritten {
        /// Lines in those frames.
        lines: u64,
        /// The cause.
        reason: String,
    },
}

impl StoreError {
    /// Whether the disk is full.
    pub fn is_disk_full(&self) -> bool {
        match self {
            StoreError::Io { source, .. } => platform::is_disk_full(source),
            StoreError::Segment(error) => error.is_disk_full(),
            StoreError::CatalogFull { .. } => true,
            _ => false,
        }
    }

    /// An error of SQLite, about the catalog in this file.
    pub(crate) fn catalog(file: &str, source: rusqlite::Error) -> StoreError {
        let file = file.to_owned();
        match source.sqlite_error_code() {
            Some(rusqlite::ErrorCode::DiskFull) => StoreError::CatalogFull { file },
            _ => StoreError::Catalog { file, source },
        }
    }

    pub(crate) fn io(path: &Path, action: &'static str) -> impl FnOnce(io::Error) -> StoreError {
        move |source| StoreError::Io { path: path.to_owned(), action, source }
    }
}
