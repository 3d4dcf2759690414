//! The state a collector keeps across restarts: its identity, and the numbers it may have issued. A
//! small file in its spool directory, `node.json`, which is replaced as a whole.
//!
//! Invariant: a number is issued only after the file durably reserves a number at least as large.
//! So no number is issued twice, however the process ends; a crash wastes at most [`RESERVED`]
//! numbers.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use platform::{Access, Disk};
use record::frame::FORWARDED_NUMBER_MAX;
use serde::{Deserialize, Serialize};

use super::wire::NodeIdentity;

/// Numbers reserved at once: the file is written once per this many frames.
const RESERVED: u64 = 1 << 20;
/// Size of a store's range of numbers. Each store has its own range, so a number identifies a frame
/// of this collector independently of the store. A store that got numbers before ranges were
/// introduced keeps those from 1 on.
const RANGE: u64 = 1 << 40;
/// How many ranges fit below the greatest number a frame can have. Stores beyond this share the
/// last range.
const RANGES: u64 = (FORWARDED_NUMBER_MAX + 1) / RANGE;
const FILE: &str = "node.json";
/// A longer file was not written by this program.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// The file's content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Content {
    version: u32,
    node: u32,
    key: u64,
    starts: u64,
    /// By the node id of a store: numbers up to this one may have been issued.
    reserved: BTreeMap<u32, u64>,
}

/// The persistent state of a collector.
pub struct Directory {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    content: Content,
    run: u64,
    /// By store: the next number.
    next: BTreeMap<u32, u64>,
}

/// Why the spool directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DirectoryError {
    /// An input or output error.
    #[error("{}: cannot {action}: {source}", path.display())]
    Io {
        /// File or directory.
        path: PathBuf,
        /// The operation that failed.
        action: &'static str,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The file is invalid.
    #[error(
        "{}: {reason}; restore the file, or, if no frames wait in that directory, move the whole directory away",
        path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
}

impl DirectoryError {
    pub(crate) fn io(
        path: &Path,
        action: &'static str,
    ) -> impl FnOnce(io::Error) -> DirectoryError {
        move |source| DirectoryError::Io { path: path.to_owned(), action, source }
    }
}

impl Directory {
    /// Reads the file, or creates it with a new identity, and durably counts this start.
    pub fn open(disk: Arc<dyn Disk>, dir: &Path) -> Result<Directory, DirectoryError> {
        let path = dir.join(FILE);
        let mut content = match disk.open(&path, Access::Read) {
            Ok(file) => {
                let bytes = file.bytes().map_err(DirectoryError::io(&path, "get the length of"))?;
                let mut text = vec![0; bytes.min(FILE_BYTES_MAX) as usize];
                file.read_at(&mut text, 0).map_err(DirectoryError::io(&path, "read"))?;
                Self::parse(&text).map_err(|reason| {
                    let path = path.clone();
                    DirectoryError::Damaged { path, reason }
                })?
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Content {
                version: 1,
                node: fastrand::u32(1..),
                key: fastrand::u64(..),
                starts: 0,
                reserved: BTreeMap::new(),
            },
            Err(error) => return Err(DirectoryError::io(&path, "open")(error)),
        };
        content.starts += 1;
        let next = content.reserved.iter().map(|(&store, &through)| (store, through + 1)).collect();
        let dir = dir.to_owned();
        let directory = Directory { disk, dir, content, run: fastrand::u64(..), next };
        directory.save(&directory.content)?;
        Ok(directory)
    }

    fn parse(text: &[u8]) -> Result<Content, String> {
        let content: Content = serde_json::from_slice(text).map_err(|error| error.to_string())?;
        match content.version {
            1 => Ok(content),
            other => Err(format!("version {other} is not known; this program reads version 1")),
        }
    }

    /// The identity of this collector in this run.
    pub fn identity(&self) -> NodeIdentity {
        let Content { node, key, starts, .. } = self.content;
        NodeIdentity { node, key, starts, run: self.run }
    }

    /// The next unissued number for a store.
    pub fn next_number(&self, store: u32) -> u64 {
        self.next.get(&store).copied().unwrap_or_else(|| {
            let ranges = self.next.values().map(|next| next / RANGE + 1).max().unwrap_or(0);
            ranges.min(RANGES - 1) * RANGE + 1
        })
    }

    /// Issues `count` numbers for a store; returns the first.
    pub fn issue_numbers(&mut self, store: u32, count: u64) -> Result<u64, DirectoryError> {
        let first = self.next_number(store);
        let last = first + count - 1;
        if last > self.content.reserved.get(&store).copied().unwrap_or(0) {
            let mut content = self.content.clone();
            content.reserved.insert(store, last.saturating_add(RESERVED));
            self.save(&content)?;
            self.content = content;
        }
        self.next.insert(store, last + 1);
        Ok(first)
    }

    /// Releases reserved numbers that were not issued, at an orderly end.
    pub fn close(&mut self) -> Result<(), DirectoryError> {
        for (&store, &next) in &self.next {
            self.content.reserved.insert(store, next - 1);
        }
        self.save(&self.content)
    }

    fn save(&self, content: &Content) -> Result<(), DirectoryError> {
        let path = self.dir.join(FILE);
        let part = self.dir.join("node.json.part");
        let text = serde_json::to_vec_pretty(content).expect("numbers only");
        let written = || {
            match self.disk.remove(&part) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            let file = self.disk.open(&part, Access::Create)?;
            file.write_at(&text, 0)?;
            file.sync_data()?;
            self.disk.rename(&part, &path)?;
            self.disk.sync_dir(&self.dir)
        };
        written().map_err(DirectoryError::io(&path, "write"))
    }
}

#[cfg(test)]
mod tests {
    use platform::SimDisk;

    use super::*;

    #[test]
    fn no_number_is_given_twice() {
        let sim = SimDisk::new(5);
        let disk: Arc<dyn Disk> = Arc::new(sim.clone());
        let dir = Path::new("/spool");
        disk.create_dir_all(dir).unwrap();
        let mut identity = None;
        let mut given = 0;
        for start in 1..20 {
            let mut directory = Directory::open(disk.clone(), dir).unwrap();
            let found = directory.identity();
            assert_eq!(found.starts, start);
            let (node, key) = *identity.get_or_insert((found.node, found.key));
            assert_eq!((found.node, found.key), (node, key), "it stays who it is");
            let range = if start == 1 { 0 } else { RANGE };
            assert_eq!(directory.next_number(4), range + 1, "another store has other numbers");
            for count in [1, 3, start] {
                let first = directory.issue_numbers(9, count).unwrap();
                assert!(first > given);
                given = first + count - 1;
            }
            if start % 3 == 0 {
                directory.close().unwrap();
                let mut directory = Directory::open(disk.clone(), dir).unwrap();
                assert_eq!(directory.next_number(9), given + 1, "an orderly end wastes none");
                directory.content.starts -= 1;
                directory.close().unwrap();
            }
            sim.crash();
            sim.restart();
        }
    }

    #[test]
    fn a_damaged_file_is_an_error_with_a_remedy() {
        let dir = tempfile::tempdir().unwrap();
        for (text, expected) in [("", "EOF"), ("{}", "missing field"), ("{\"version\":2}", "")] {
            std::fs::write(dir.path().join(FILE), text).unwrap();
            let error = Directory::open(Arc::new(platform::RealDisk), dir.path()).err().unwrap();
            let error = error.to_string();
            assert!(error.contains(expected) && error.contains("move the whole"), "{error}");
        }
    }
}
