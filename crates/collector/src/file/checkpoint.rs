//! Stores how far each file was read, so that it survives a crash: `files.checkpoint` in the data
//! directory.
//!
//! Invariant: no line of a file is delivered before a checkpoint that names the file is on disk. So
//! every line in the store carries the number of a known file. After a crash, the lines behind the
//! checkpoint are found in the store and skipped in their file (see [`super::recall`]).
//!
//! The file is JSON. It is written beside the old one and renamed over it, with a sync before and
//! after, so that either the old or the new one is there as a whole. It is written at most once a
//! second, and less often when it is large.

use std::io;
use std::path::{Path, PathBuf};

use platform::{Access, Disk};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::FileError;
use super::identity::Fingerprint;

/// Checkpoint version that this code writes, and the only one it reads.
const VERSION: u32 = 1;
/// Upper limit of the checkpoint's size: a hundred thousand files with long names. A larger file is
/// an error.
const BYTES_MAX: u64 = 256 << 20;

/// The state that survives a restart.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Checkpoint {
    version: u32,
    /// All lines of files in frames up to this number are included in the positions below; lines in
    /// later frames are not.
    pub sequence: u64,
    /// Numbers from this one on were never assigned to a file.
    pub id_next: u64,
    /// Patterns that were searched before: a file that appears later is read from its beginning.
    pub patterns: Vec<String>,
    /// The files.
    pub files: Vec<CheckpointEntry>,
}

/// One file in the checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CheckpointEntry {
    /// Its number, which the origin of its lines carries. A truncated file gets another one.
    pub id: u64,
    /// The name under which it was first discovered; bytes that are not UTF-8 are replaced.
    pub path: String,
    /// Its inode.
    pub inode: u64,
    /// Its creation time, nanoseconds since 1970 UTC; 0 if unknown.
    pub born_ns: i64,
    /// Its first bytes.
    pub fingerprint: Fingerprint,
    /// Lines before this byte are durable.
    pub position: u64,
    /// When it was last seen, seconds since 1970 UTC.
    pub seen_s: i64,
}

impl Checkpoint {
    /// A checkpoint without files.
    pub fn new(sequence: u64) -> Checkpoint {
        Checkpoint {
            version: VERSION,
            sequence,
            id_next: 1,
            patterns: Vec::new(),
            files: Vec::new(),
        }
    }
}

/// A small file that is replaced as a whole.
pub struct Slot {
    path: PathBuf,
}

impl Slot {
    /// The file with this name in a directory.
    pub fn new(dir: &Path, name: &str) -> Slot {
        Slot { path: dir.join(name) }
    }

    /// Its content; `None` if it was never written.
    ///
    /// # Errors
    /// When the file cannot be read or its content is invalid.
    pub fn read<T: DeserializeOwned>(&self, disk: &dyn Disk) -> Result<Option<T>, FileError> {
        let error = |why: String| FileError::Checkpoint { path: self.path.clone(), why };
        let bytes = match self.bytes(disk) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(cause) => return Err(error(cause.to_string())),
        };
        serde_json::from_slice(&bytes).map(Some).map_err(|cause| error(cause.to_string()))
    }

    fn bytes(&self, disk: &dyn Disk) -> io::Result<Vec<u8>> {
        let file = disk.open(&self.path, Access::Read)?;
        let length = file.bytes()?;
        if length > BYTES_MAX {
            return Err(io::Error::other(format!("{length} bytes are too many")));
        }
        let mut bytes = vec![0; length as usize];
        let read = file.read_at(&mut bytes, 0)?;
        bytes.truncate(read);
        Ok(bytes)
    }

    /// Replaces the content; returns its size in bytes. The new content is durable when this
    /// returns.
    pub fn write(&self, disk: &dyn Disk, content: &impl Serialize) -> io::Result<u64> {
        let bytes = serde_json::to_vec(content).expect("strings and numbers only");
        let part = self.path.with_added_extension("part");
        match disk.remove(&part) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let file = disk.open(&part, Access::Create)?;
        file.write_at(&bytes, 0)?;
        file.sync_data()?;
        disk.rename(&part, &self.path)?;
        disk.sync_dir(self.path.parent().expect("it is in a directory"))?;
        Ok(bytes.len() as u64)
    }
}

impl Checkpoint {
    /// Reads a checkpoint of the supported version.
    ///
    /// # Errors
    /// When the file cannot be read, its content is invalid, or it has another version.
    pub fn read(slot: &Slot, disk: &dyn Disk) -> Result<Option<Checkpoint>, FileError> {
        let read: Option<Checkpoint> = slot.read(disk)?;
        match read {
            Some(found) if found.version != VERSION => Err(FileError::Checkpoint {
                path: slot.path.clone(),
                why: format!(
                    "it has version {}, but this program reads version {VERSION}",
                    found.version
                ),
            }),
            read => Ok(read),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use platform::RealDisk;

    #[test]
    fn a_checkpoint_round_trips() {
        let dir = tempfile::tempdir().unwrap();
        let slot = Slot::new(dir.path(), "files.checkpoint");
        assert_eq!(Checkpoint::read(&slot, &RealDisk).unwrap(), None);
        let mut checkpoint = Checkpoint::new(7);
        for id in 1..=2 {
            checkpoint.files.push(CheckpointEntry {
                id,
                path: "/var/log/ä\n\".log".into(),
                inode: u64::MAX,
                born_ns: -1,
                fingerprint: Fingerprint::of(b"abc"),
                position: u64::MAX,
                seen_s: 1,
            });
            // A partial file left by a crash does no harm.
            std::fs::write(dir.path().join("files.checkpoint.part"), "junk").unwrap();
            slot.write(&RealDisk, &checkpoint).unwrap();
            assert_eq!(Checkpoint::read(&slot, &RealDisk).unwrap().as_ref(), Some(&checkpoint));
        }
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn an_invalid_checkpoint_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let slot = Slot::new(dir.path(), "c");
        let text = serde_json::to_string(&Checkpoint::new(1)).unwrap();
        let newer = text.replace("\"version\":1", "\"version\":2");
        for (text, expected) in
            [("", "EOF"), (&text[1..], "expected"), ("{}", "version"), (&newer, "has version 2")]
        {
            std::fs::write(dir.path().join("c"), text).unwrap();
            let error = Checkpoint::read(&slot, &RealDisk).unwrap_err().to_string();
            assert!(error.contains(expected) && error.contains("/c"), "{error}");
        }
    }
}
