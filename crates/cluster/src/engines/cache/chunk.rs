//! The file of a chunk.
//!
//! ```text
//! magic "LGNCHNK1"      8 bytes
//! object               32 bytes  SHA-256 of the name
//! index                 8 bytes  of the chunk in its object
//! chunk_bytes           4 bytes  of all chunks but the last one of an object
//! data_bytes            4 bytes  of this chunk
//! checksum of a block   4 bytes  CRC-32C, for each block of 64 KiB of the data
//! checksum              4 bytes  CRC-32C of what stands before it
//! data
//! ```
//!
//! Numbers are little-endian. A reader checks the head and the blocks that it needs, so that a
//! small range costs little.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use ring::digest;

const MAGIC: [u8; 8] = *b"LGNCHNK1";
/// Bytes of the head before the checksums.
const FIXED_BYTES: usize = 8 + 32 + 8 + 4 + 4;
/// Bytes under one checksum.
const BLOCK_BYTES: usize = 64 << 10;
/// The extension of a file that is not finished.
pub const PART: &str = "part";
const CHUNK: &str = "chunk";

/// Names a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ChunkId {
    /// The object, by the hash of its name.
    pub object: [u8; 32],
    /// Its place in the object.
    pub index: u64,
}

impl ChunkId {
    /// The hash of the name of an object.
    pub fn object(name: &str) -> [u8; 32] {
        let hash = digest::digest(&digest::SHA256, name.as_bytes());
        hash.as_ref().try_into().expect("SHA-256 has 32 bytes")
    }

    /// The file of the chunk below the directory of the cache.
    pub fn path(&self, directory: &Path) -> PathBuf {
        let hash: String = self.object.iter().map(|byte| format!("{byte:02x}")).collect();
        directory.join(&hash[..2]).join(format!("{hash}-{}.{CHUNK}", self.index))
    }

    /// The chunk of a file; `None` if the file has another name than files of chunks.
    pub fn of_file(file: &Path) -> Option<ChunkId> {
        let (hash, index) = file.file_name()?.to_str()?.strip_suffix(".chunk")?.split_once('-')?;
        let mut object = [0; 32];
        if hash.len() != 64 || !hash.is_ascii() {
            return None;
        }
        for (byte, place) in object.iter_mut().zip((0..64).step_by(2)) {
            *byte = u8::from_str_radix(&hash[place..place + 2], 16).ok()?;
        }
        Some(ChunkId { object, index: index.parse().ok()? })
    }

    fn head(&self, chunk_bytes: u32, data: &[u8]) -> io::Result<Vec<u8>> {
        let too_large = |_| io::Error::other("a chunk is larger than 4 GiB");
        let data_bytes = u32::try_from(data.len()).map_err(too_large)?;
        let mut head = Vec::with_capacity(head_bytes(data.len()));
        head.extend(MAGIC);
        head.extend(self.object);
        head.extend(self.index.to_le_bytes());
        head.extend(chunk_bytes.to_le_bytes());
        head.extend(data_bytes.to_le_bytes());
        for block in data.chunks(BLOCK_BYTES) {
            head.extend(crc32c::crc32c(block).to_le_bytes());
        }
        head.extend(crc32c::crc32c(&head).to_le_bytes());
        Ok(head)
    }
}

/// Writes the file of a chunk, whole or not at all; returns its size.
pub fn write(directory: &Path, id: &ChunkId, chunk_bytes: u32, data: &[u8]) -> io::Result<u64> {
    let file = id.path(directory);
    let part = file.with_extension(PART);
    if let Some(folder) = file.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let written = (|| {
        let head = id.head(chunk_bytes, data)?;
        // What a crash left, or whatever else is there.
        match std::fs::remove_file(&part) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut into = File::create_new(&part)?;
        into.write_all(&head)?;
        into.write_all(data)?;
        std::fs::rename(&part, &file)?;
        Ok((head.len() + data.len()) as u64)
    })();
    if written.is_err() {
        // What is left is deleted when the cache is opened next.
        let _ = std::fs::remove_file(&part);
    }
    written
}

/// Reads from `within` the chunk into `buffer`; returns the bytes read, fewer than asked for only
/// at the end of the chunk. Fails if the file is not as it was written.
pub fn read(
    file: &Path,
    id: &ChunkId,
    chunk_bytes: u32,
    within: usize,
    buffer: &mut [u8],
) -> io::Result<usize> {
    let mut from = platform::read_regular(file)?;
    let mut head = vec![0; FIXED_BYTES];
    from.read_exact(&mut head)?;
    let data_bytes = number(&head, FIXED_BYTES - 4) as usize;
    if data_bytes > chunk_bytes as usize {
        return Err(damaged("its size is impossible"));
    }
    head.resize(head_bytes(data_bytes), 0);
    from.read_exact(&mut head[FIXED_BYTES..])?;
    let (covered, checksum) = head.split_at(head.len() - 4);
    if crc32c::crc32c(covered) != number(checksum, 0) {
        return Err(damaged("the checksum of its head is wrong"));
    }
    let expected = [&MAGIC[..], &id.object, &id.index.to_le_bytes(), &chunk_bytes.to_le_bytes()];
    if covered[..FIXED_BYTES - 4] != expected.concat() {
        return Err(damaged("it is another chunk"));
    }
    if from.metadata()?.len() != (head.len() + data_bytes) as u64 {
        return Err(damaged("its length is wrong"));
    }
    let end = within.saturating_add(buffer.len()).min(data_bytes);
    let mut block = vec![0; BLOCK_BYTES.min(data_bytes)];
    let mut at = within;
    while at < end {
        let first = at / BLOCK_BYTES * BLOCK_BYTES;
        let block = &mut block[..BLOCK_BYTES.min(data_bytes - first)];
        from.read_exact_at(block, (head.len() + first) as u64)?;
        if crc32c::crc32c(block) != number(&head, FIXED_BYTES + first / BLOCK_BYTES * 4) {
            return Err(damaged("the checksum of a block is wrong"));
        }
        let taken = &block[at - first..block.len().min(end - first)];
        buffer[at - within..at - within + taken.len()].copy_from_slice(taken);
        at += taken.len();
    }
    Ok(end.saturating_sub(within))
}

/// Whether a file is of chunks of this size. What else is wrong with it is seen when it is read.
pub fn has_size(file: &Path, chunk_bytes: u32) -> bool {
    let mut head = [0; FIXED_BYTES];
    let read = platform::read_regular(file).and_then(|mut file| file.read_exact(&mut head));
    read.is_ok() && number(&head, FIXED_BYTES - 8) == chunk_bytes
}

fn head_bytes(data_bytes: usize) -> usize {
    FIXED_BYTES + data_bytes.div_ceil(BLOCK_BYTES) * 4 + 4
}

fn number(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn damaged(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}
