//! How far each file was read, kept over a crash: `files.checkpoint` in the data directory.
//!
//! Invariant: no line of a file is handed on before a checkpoint that names the file is on disk. So
//! every line in the store bears the number of a file that is known, and after a crash the lines
//! behind the checkpoint are found in the store and skipped in their file (see [`super::recall`]).
//!
//! The file is JSON, written beside the old one and renamed over it, synced before and after: it is
//! there whole, the old or the new. It is written at most once a second, and less often when it is
//! large.

use std::io;
use std::path::{Path, PathBuf};

use platform::{Access, Disk};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::FileError;
use super::identity::Fingerprint;

/// Version of the checkpoint that this code writes, and the only one it reads.
const VERSION: u32 = 1;
/// No checkpoint is larger: that is a hundred thousand files with long names.
const BYTES_MAX: u64 = 256 << 20;

/// What is known after a restart.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Checkpoint {
    version: u32,
    /// All lines of files in frames up to this number are counted in the positions below; lines in
    /// later frames are not.
    pub sequence: u64,
    /// Numbers from this one on were never given to a file.
    pub id_next: u64,
    /// Patterns that were searched for before: a file that appears later is read from its
    /// beginning.
    pub patterns: Vec<String>,
    /// The files.
    pub files: Vec<Entry>,
}

/// One file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// Its number, in the origin of its lines. A file that is truncated gets another one.
    pub id: u64,
    /// The name under which it was found first; bytes that are not UTF-8 are replaced.
    pub path: String,
    /// Its inode.
    pub inode: u64,
    /// When it was made, nanoseconds since 1970 UTC; 0 when that is not known.
    pub born_ns: i64,
    /// Its first bytes.
    pub fingerprint: Fingerprint,
    /// Lines before this byte are durable.
    pub position: u64,
    /// When it was there last, seconds since 1970 UTC.
    pub seen_s: i64,
}

impl Checkpoint {
    /// One that knows of no file.
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
    /// The file of this name in a directory.
    pub fn new(dir: &Path, name: &str) -> Slot {
        Slot { path: dir.join(name) }
    }

    /// What is in it; none when it was never written.
    ///
    /// # Errors
    /// When it cannot be read or makes no sense.
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

    /// Replaces what is in it; returns the number of bytes. Durable when it returns.
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
    /// Reads the checkpoint of a version this code knows.
    ///
    /// # Errors
    /// When it cannot be read, makes no sense, or is of another version.
    pub fn read(slot: &Slot, disk: &dyn Disk) -> Result<Option<Checkpoint>, FileError> {
        let read: Option<Checkpoint> = slot.read(disk)?;
        match read {
            Some(found) if found.version != VERSION => Err(FileError::Checkpoint {
                path: slot.path.clone(),
                why: format!("it is of version {}, this program reads {VERSION}", found.version),
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
    fn what_is_written_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let slot = Slot::new(dir.path(), "files.checkpoint");
        assert_eq!(Checkpoint::read(&slot, &RealDisk).unwrap(), None);
        let mut checkpoint = Checkpoint::new(7);
        for id in 1..=2 {
            checkpoint.files.push(Entry {
                id,
                path: "/var/log/ä\n\".log".into(),
                inode: u64::MAX,
                born_ns: -1,
                fingerprint: Fingerprint::of(b"abc"),
                position: u64::MAX,
                seen_s: 1,
            });
            // A part that a crash left is in nobody's way.
            std::fs::write(dir.path().join("files.checkpoint.part"), "junk").unwrap();
            slot.write(&RealDisk, &checkpoint).unwrap();
            assert_eq!(Checkpoint::read(&slot, &RealDisk).unwrap().as_ref(), Some(&checkpoint));
        }
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn what_is_no_checkpoint_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let slot = Slot::new(dir.path(), "c");
        let text = serde_json::to_string(&Checkpoint::new(1)).unwrap();
        let newer = text.replace("\"version\":1", "\"version\":2");
        for (text, expected) in
            [("", "EOF"), (&text[1..], "expected"), ("{}", "version"), (&newer, "of version 2")]
        {
            std::fs::write(dir.path().join("c"), text).unwrap();
            let error = Checkpoint::read(&slot, &RealDisk).unwrap_err().to_string();
            assert!(error.contains(expected) && error.contains("/c"), "{error}");
        }
    }
}
