//! Which chunks are kept, in the order in which they were read.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::Path;
use std::time::SystemTime;

use super::chunk::{self, ChunkId};

/// The chunks that have files.
#[derive(Debug, Default)]
pub struct Index {
    entries: HashMap<ChunkId, Entry>,
    /// By the number of their last read; the smallest one was read longest ago.
    order: BTreeMap<u64, ChunkId>,
    reads: u64,
    bytes: u64,
}

#[derive(Debug)]
struct Entry {
    bytes: u64,
    /// The number of the last read.
    read: u64,
    /// Tells a file from others of the same chunk, before and after it.
    version: u64,
}

impl Index {
    /// The chunks in a directory, the oldest file first. Deletes files that were not finished, and
    /// those of chunks of another size.
    pub fn read(directory: &Path, chunk_bytes: u32) -> io::Result<Index> {
        let mut found = Vec::new();
        for folder in std::fs::read_dir(directory)? {
            let folder = folder?.path();
            if !folder.is_dir() {
                continue;
            }
            for file in std::fs::read_dir(&folder)? {
                let file = file?.path();
                let Some(id) = ChunkId::of_file(&file) else {
                    if file.extension().is_some_and(|extension| extension == chunk::PART) {
                        std::fs::remove_file(&file)?;
                    }
                    continue;
                };
                let data = std::fs::symlink_metadata(&file)?;
                if chunk::has_size(&file, chunk_bytes) {
                    let written = data.modified().unwrap_or(SystemTime::UNIX_EPOCH);
                    found.push((written, id, data.len()));
                } else {
                    std::fs::remove_file(&file)?;
                }
            }
        }
        found.sort_by_key(|(written, ..)| *written);
        let mut index = Index::default();
        for (_, id, bytes) in found {
            index.insert(id, bytes);
        }
        Ok(index)
    }

    /// Bytes of all files.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Notes that a chunk is read, and returns the version of its file; `None` if it is not kept.
    pub fn touch(&mut self, id: &ChunkId) -> Option<u64> {
        let entry = self.entries.get_mut(id)?;
        self.order.remove(&entry.read);
        self.reads += 1;
        entry.read = self.reads;
        self.order.insert(self.reads, *id);
        Some(entry.version)
    }

    /// Whether a chunk is kept.
    pub fn has(&self, id: &ChunkId) -> bool {
        self.entries.contains_key(id)
    }

    /// Adds a chunk as the one that was read last.
    pub fn insert(&mut self, id: ChunkId, bytes: u64) {
        self.remove(&id);
        self.reads += 1;
        self.entries.insert(id, Entry { bytes, read: self.reads, version: self.reads });
        self.order.insert(self.reads, id);
        self.bytes += bytes;
    }

    /// Removes a chunk if its file is of this version; says whether it was.
    pub fn remove_version(&mut self, id: &ChunkId, version: u64) -> bool {
        let is_same = self.entries.get(id).is_some_and(|entry| entry.version == version);
        if is_same {
            self.remove(id);
        }
        is_same
    }

    fn remove(&mut self, id: &ChunkId) {
        if let Some(entry) = self.entries.remove(id) {
            self.order.remove(&entry.read);
            self.bytes -= entry.bytes;
        }
    }

    /// Removes the chunk that was read longest ago.
    pub fn remove_oldest(&mut self) -> Option<ChunkId> {
        let id = *self.order.first_key_value()?.1;
        self.remove(&id);
        Some(id)
    }
}
