//! The blocks of several sealed files, one file behind the other, as one sealed file that is
//! written nowhere: its bytes are read from its sources when they are wanted.
//!
//! ```text
//! sources   header | a a a a | footer     header | b b b | footer
//!                    ╲     ╱                       ╱     ╱
//! joined    header | a a a a   b b b | footer of all blocks
//! ```
//!
//! So a segment of many gigabytes is made without decoding a line, without a local disk, and with
//! the memory of the footers and of one read. Blocks stay as they are: [`super::SealedWriter`]
//! makes better ones of many small files, which this does not.
//!
//! Invariant: the checksums of all chunks of a block are compared whenever bytes of it are read.

use std::path::Path;
use std::sync::Arc;

use super::footer::{BlockEntry, Effort, Footer, SEALED_HEADER_BYTES, SealedHeader, damage};
use super::reader::SealedFile;
use super::rollup::Counter;
use crate::error::SegmentError;

/// One sealed file made of the blocks of several.
pub struct Joined {
    sources: Vec<Source>,
    header: [u8; SEALED_HEADER_BYTES],
    footer: Footer,
    /// Footer and trailer as bytes, and where they begin.
    tail: Vec<u8>,
    tail_at: u64,
}

struct Source {
    file: SealedFile,
    /// The number of its first block among those of all.
    first: usize,
}

impl Joined {
    /// The blocks of `files`, in their order. The counts of the new file tell no shorter intervals
    /// of time apart than those of its sources; its effort is the least of theirs.
    pub fn new(header: &SealedHeader, files: Vec<SealedFile>) -> Joined {
        let mut footer = Footer { header: *header, effort: Effort::Best, ..Footer::default() };
        let mut counter = Counter::default();
        let mut sources = Vec::with_capacity(files.len());
        let mut end = SEALED_HEADER_BYTES as u64;
        for file in files {
            let of_file = Arc::clone(file.footer());
            if of_file.lines() > of_file.lines_internal() {
                counter.add_counted(of_file.rollups.iter().chain(&of_file.pairs));
            }
            if of_file.effort == Effort::Fast {
                footer.effort = Effort::Fast;
            }
            footer.summarised_through = footer.summarised_through.max(of_file.summarised_through);
            sources.push(Source { file, first: footer.blocks.len() });
            for entry in &of_file.blocks {
                footer.blocks.push(BlockEntry { offset: end, ..entry.clone() });
                end += entry.bytes_disk();
            }
        }
        (footer.rollups, footer.pairs) = counter.finish(footer.lines());
        let tail = footer.encode(end);
        footer.bytes_disk = end + tail.len() as u64;
        Joined { sources, header: header.encode(), footer, tail, tail_at: end }
    }

    /// The footer of the file.
    pub fn footer(&self) -> &Footer {
        &self.footer
    }

    /// The length of the file in bytes.
    pub fn bytes(&self) -> u64 {
        self.footer.bytes_disk
    }

    /// Fills `buffer` with the bytes at `offset`. Blocks are read whole from their source,
    /// neighbours at once, so this takes as much memory again, and two blocks.
    ///
    /// Errors: a source cannot be read or is damaged, and the text names it and the byte; or the
    /// file ends before.
    pub fn read_exact_at(&self, offset: u64, mut buffer: &mut [u8]) -> Result<(), SegmentError> {
        let mut at = offset;
        while !buffer.is_empty() {
            let read = match at {
                _ if at < SEALED_HEADER_BYTES as u64 => copy(&self.header[at as usize..], buffer),
                _ if at < self.tail_at => self.read_blocks(at, buffer)?,
                _ => copy(self.tail.get((at - self.tail_at) as usize..).unwrap_or(&[]), buffer),
            };
            if read == 0 {
                let expected = format!("{} bytes more", buffer.len());
                let path = Path::new("the joined segment");
                return Err(damage(path, at, "the file", expected, "its end".to_owned()));
            }
            at += read as u64;
            buffer = &mut buffer[read..];
        }
        Ok(())
    }

    /// Reads from within a block on, as far as the blocks of its source go; returns how many bytes.
    fn read_blocks(&self, at: u64, buffer: &mut [u8]) -> Result<usize, SegmentError> {
        let blocks = &self.footer.blocks;
        // The last block that begins there or before; one without bytes is before it.
        let first = blocks.partition_point(|block| block.offset <= at) - 1;
        let number = self.sources.partition_point(|source| source.first <= first) - 1;
        let source = &self.sources[number];
        let behind = self.sources.get(number + 1).map_or(blocks.len(), |next| next.first);
        let until = at + buffer.len() as u64;
        let end = first + blocks[first..behind].partition_point(|block| block.offset < until);
        let stored = source.file.stored_blocks(first - source.first..end - source.first)?;
        Ok(copy(&stored[(at - blocks[first].offset) as usize..], buffer))
    }
}

/// Copies as much as there is and fits; returns how many bytes.
fn copy(bytes: &[u8], buffer: &mut [u8]) -> usize {
    let count = bytes.len().min(buffer.len());
    buffer[..count].copy_from_slice(&bytes[..count]);
    count
}
