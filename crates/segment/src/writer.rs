//! Appends frames to a segment file.
//!
//! Bytes are written in whole blocks, as O_DIRECT requires. The last, partly filled block stays in
//! memory and is written again with the next append. That is safe: both versions of the block have
//! the same acknowledged bytes at the same offset and differ only behind them, so the acknowledged
//! bytes are intact whichever version, or mixture of sectors, a power cut leaves.
//!
//! After a failed sync the state of the last writes is unknown. The writer must then be dropped
//! ([`HotWriter::durable_end`] is the valid length of the file), and the frames written to another
//! segment.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use platform::{Access, AlignedBuffer, BLOCK_BYTES, Disk, DiskFile};

use crate::error::SegmentError;
use crate::header::{HEADER_BYTES, SegmentHeader};
use crate::index::{FrameEntry, encode_index, read_exact};

/// Bytes staged for one write. Larger frames take several writes; the limit costs only memory.
const STAGING_BYTES_MAX: usize = 4 << 20;
/// Initial size of that memory: a store of a few lines does not take more. At least twice the block
/// that is kept between appends.
const STAGING_BYTES_MIN: usize = 4 * BLOCK_BYTES;

/// Appends to one segment file.
pub struct HotWriter {
    path: PathBuf,
    file: Arc<dyn DiskFile>,
    segment: u64,
    /// The bytes of the file from `staging_at` on, up to `filled`.
    staging: AlignedBuffer,
    /// A multiple of [`BLOCK_BYTES`].
    staging_at: u64,
    filled: usize,
    /// The first bytes of `staging` that are in the file already.
    flushed: usize,
    durable_end: u64,
    /// Bytes of the last block that are durable.
    durable_tail: Vec<u8>,
    allocated: u64,
}

impl HotWriter {
    /// Creates a file with its header, durable, in an existing directory. After an error the file
    /// may exist; it is no segment then and may be removed.
    pub fn create(
        disk: &dyn Disk,
        path: &Path,
        header: &SegmentHeader,
    ) -> Result<Self, SegmentError> {
        let file = disk.open(path, Access::Create).map_err(SegmentError::io(path, "create"))?;
        let end = header.bytes();
        let mut staging = AlignedBuffer::new(STAGING_BYTES_MIN.max(end as usize));
        header.encode(&mut staging);
        let write = |range: std::ops::Range<usize>| {
            let (at, bytes) = (range.start as u64, &staging[range]);
            file.write_at(bytes, at).map_err(SegmentError::io(path, "write"))?;
            file.sync_data().map_err(SegmentError::io(path, "sync"))
        };
        // The first block tells how long the header is, so it is there before the others.
        write(0..HEADER_BYTES)?;
        if end > HEADER_BYTES as u64 {
            write(HEADER_BYTES..end as usize)?;
        }
        let dir = path.parent().expect("a segment is in a directory");
        disk.sync_dir(dir).map_err(SegmentError::io(dir, "sync the directory"))?;
        Ok(HotWriter {
            path: path.to_owned(),
            file,
            segment: header.segment,
            staging: AlignedBuffer::new(STAGING_BYTES_MIN),
            staging_at: end,
            filled: 0,
            flushed: 0,
            durable_end: end,
            durable_tail: Vec::new(),
            allocated: end,
        })
    }

    /// Resumes a file whose frames end at `data_end`: cuts off the bytes behind them and makes the
    /// rest durable, because a killed process may have left frames in the page cache only, or one
    /// whose sync failed. `commit_bytes_max`: the most that one [`commit`](Self::commit) wrote; so
    /// many bytes before the end are written again.
    pub fn resume(
        disk: &dyn Disk,
        path: &Path,
        segment: u64,
        data_end: u64,
        commit_bytes_max: u64,
    ) -> Result<Self, SegmentError> {
        let file = disk.open(path, Access::Write).map_err(SegmentError::io(path, "open"))?;
        // If the sync of the header or of the last frames failed, they may be readable and still
        // not be on the disk, and no later sync would write them unless they are written again.
        // Commits before the last one succeeded, since nothing is written to a file after a
        // failure.
        let again = |at: u64, bytes: usize| {
            let read = read_exact(&*file, path, at, bytes)?;
            file.write_at(&read, at).map_err(SegmentError::io(path, "write"))
        };
        let (_, header_bytes) = SegmentHeader::read(&*file, path, data_end)?;
        again(0, header_bytes.min(data_end) as usize)?;
        let mut at = data_end.saturating_sub(commit_bytes_max).max(header_bytes);
        while at < data_end {
            let bytes = (data_end - at).min(STAGING_BYTES_MAX as u64);
            again(at, bytes as usize)?;
            at += bytes;
        }
        file.truncate(data_end).map_err(SegmentError::io(path, "truncate"))?;
        file.sync_data().map_err(SegmentError::io(path, "sync"))?;
        let block = BLOCK_BYTES as u64;
        let staging_at = data_end / block * block;
        let durable_tail = read_exact(&*file, path, staging_at, (data_end - staging_at) as usize)?;
        let mut writer = HotWriter {
            path: path.to_owned(),
            file,
            segment,
            staging: AlignedBuffer::new(STAGING_BYTES_MIN),
            staging_at,
            filled: 0,
            flushed: 0,
            durable_end: data_end,
            durable_tail,
            allocated: data_end,
        };
        writer.restore_tail();
        Ok(writer)
    }

    /// The file, for readers.
    pub fn file(&self) -> &Arc<dyn DiskFile> {
        &self.file
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Number of the segment.
    pub fn segment(&self) -> u64 {
        self.segment
    }

    /// Offset of the next frame, bytes.
    pub fn end(&self) -> u64 {
        self.staging_at + self.filled as u64
    }

    /// The durable length of the file, bytes.
    pub fn durable_end(&self) -> u64 {
        self.durable_end
    }

    /// Length of the file, including preallocated space.
    pub fn allocated_bytes(&self) -> u64 {
        self.allocated
    }

    /// Preallocates the file up to byte `bytes`.
    pub fn preallocate(&mut self, bytes: u64) -> Result<(), SegmentError> {
        if bytes > self.allocated {
            self.file.preallocate(bytes).map_err(SegmentError::io(&self.path, "extend"))?;
            self.allocated = bytes;
        }
        Ok(())
    }

    /// Appends a frame; returns its offset. It is not durable before [`commit`](Self::commit).
    /// After an error, [`rollback`](Self::rollback) or drop.
    pub fn append(&mut self, frame: &[u8]) -> Result<u64, SegmentError> {
        assert!(frame.len().is_multiple_of(8), "frames are padded to 8 bytes");
        let offset = self.end();
        self.stage(frame)?;
        Ok(offset)
    }

    /// Writes the appended frames and makes them durable. After an error,
    /// [`rollback`](Self::rollback) if the disk is full; else drop.
    pub fn commit(&mut self) -> Result<(), SegmentError> {
        self.flush()?;
        self.file.sync_data().map_err(SegmentError::io(&self.path, "sync"))?;
        self.durable_end = self.end();
        self.durable_tail.clear();
        self.durable_tail.extend_from_slice(&self.staging[..self.filled]);
        Ok(())
    }

    /// Takes back the frames that were appended since the last commit, also from the file, durably:
    /// a refused frame must not be found after a restart.
    pub fn rollback(&mut self) -> Result<(), SegmentError> {
        self.file.truncate(self.durable_end).map_err(SegmentError::io(&self.path, "truncate"))?;
        self.allocated = self.durable_end;
        self.file.sync_data().map_err(SegmentError::io(&self.path, "sync"))?;
        self.staging_at = self.durable_end - self.durable_tail.len() as u64;
        self.restore_tail();
        Ok(())
    }

    /// Closes the file with its index; returns its length. All frames must be committed.
    pub fn roll(mut self, entries: &[FrameEntry]) -> Result<u64, SegmentError> {
        assert_eq!(self.end(), self.durable_end, "only committed frames are closed in");
        self.stage(&encode_index(self.segment, self.durable_end, entries))?;
        self.flush()?;
        self.file.truncate(self.end()).map_err(SegmentError::io(&self.path, "truncate"))?;
        self.file.sync_data().map_err(SegmentError::io(&self.path, "sync"))?;
        Ok(self.end())
    }

    /// Releases preallocated space at the end of a process; the file can be resumed.
    pub fn close(self) -> Result<u64, SegmentError> {
        self.file.truncate(self.durable_end).map_err(SegmentError::io(&self.path, "truncate"))?;
        self.file.sync_data().map_err(SegmentError::io(&self.path, "sync"))?;
        Ok(self.durable_end)
    }

    fn restore_tail(&mut self) {
        self.filled = self.durable_tail.len();
        self.flushed = self.filled;
        self.staging[..self.filled].copy_from_slice(&self.durable_tail);
    }

    fn stage(&mut self, mut bytes: &[u8]) -> Result<(), SegmentError> {
        self.grow_staging(self.filled + bytes.len());
        while !bytes.is_empty() {
            let part = bytes.len().min(self.staging.len() - self.filled);
            self.staging[self.filled..self.filled + part].copy_from_slice(&bytes[..part]);
            self.filled += part;
            bytes = &bytes[part..];
            if self.filled == self.staging.len() {
                self.flush()?;
            }
        }
        Ok(())
    }

    /// Grows the staging memory to `bytes`, up to the limit.
    fn grow_staging(&mut self, bytes: usize) {
        let bytes = bytes.next_power_of_two().clamp(STAGING_BYTES_MIN, STAGING_BYTES_MAX);
        if bytes > self.staging.len() {
            let mut larger = AlignedBuffer::new(bytes);
            larger[..self.filled].copy_from_slice(&self.staging[..self.filled]);
            self.staging = larger;
        }
    }

    /// Writes the staged bytes, the last block padded with zeros, and keeps that block.
    fn flush(&mut self) -> Result<(), SegmentError> {
        if self.flushed == self.filled {
            return Ok(());
        }
        let blocks_end = self.filled.next_multiple_of(BLOCK_BYTES);
        self.staging[self.filled..blocks_end].fill(0);
        self.file
            .write_at(&self.staging[..blocks_end], self.staging_at)
            .map_err(SegmentError::io(&self.path, "write"))?;
        self.allocated = self.allocated.max(self.staging_at + blocks_end as u64);
        let full = self.filled / BLOCK_BYTES * BLOCK_BYTES;
        self.staging.copy_within(full..self.filled, 0);
        self.staging_at += full as u64;
        self.filled -= full;
        self.flushed = self.filled;
        Ok(())
    }
}
