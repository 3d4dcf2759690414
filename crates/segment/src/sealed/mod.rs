//! A sealed segment: the lines of one or more segments, split into columns and compressed; never
//! changed again.
//!
//! ```text
//! header 64 B | block | block | … | footer | trailer 48 B
//! ```
//!
//! All that makes a sealed segment is one operation: batches go in, of hot frames or of blocks of
//! other sealed segments, some rows may be left out, and a new file comes out. Sealing, merging,
//! deleting lines and writing a segment again in a smaller form are that.
//!
//! Invariants: every line comes back byte for byte with its name, times, origin and fields, which
//! the writer has compared before it says that the file is there; a block needs nothing but its own
//! bytes and its entry in the footer; nothing that is read is believed before its checksum and its
//! bounds were checked.
//!
//! `docs/format/sealed-segment.md` draws the file. Left out: which segments there are, and when one
//! is made.

mod block;
mod bytes;
mod column;
mod columns;
mod compress;
mod field;
mod footer;
mod form;
mod gather;
mod ints;
mod layout;
mod names;
mod numerals;
mod pack;
mod plan;
mod reader;
mod repeats;
mod restore;
mod rollup;
mod time_text;
mod verify;
mod words;
mod writer;

pub use column::Encoding;
pub use columns::{BlockColumns, ReadChunk};
pub use footer::{
    BlockEntry, Chunk, Effort, Footer, NodeNumbers, SEALED_HEADER_BYTES, SEALED_TRAILER_BYTES,
    SEALED_VERSION, SEALED_VERSION_MIN, SealedHeader, ValueSet, numbers_of,
};
pub use reader::{ColumnInfo, SealedFile};
pub use rollup::{EachCount, LINES_PER_STRETCH, ROLLUP_FIELDS, ROLLUP_PAIRS, Rollup, VALUES_MAX};
pub use writer::{HELPERS_NAME, SealedWriter};

/// How lines are grouped within a stretch of a segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Clustering {
    /// As they came.
    Arrival,
    /// By type and application.
    #[default]
    Application,
    /// By type, application and host.
    Stream,
}

/// How a segment is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SealOptions {
    /// How much work goes into it.
    pub effort: Effort,
    /// How lines are grouped.
    pub clustering: Clustering,
    /// Bytes of raw lines of a block.
    pub block_bytes: usize,
    /// A block has a filter of its words if that takes at most one part in so many of the block's
    /// bytes; or little beside its raw lines, however well those compress.
    pub filter_parts: usize,
    /// Bytes of raw lines that are grouped at a time; memory is about three times that, and some
    /// MiB for each thread.
    pub chunk_bytes: usize,
}

impl SealOptions {
    /// The defaults for an effort.
    pub fn new(effort: Effort) -> Self {
        SealOptions {
            effort,
            clustering: Clustering::default(),
            // An identifier drawn at random takes 10 bits of the filter, and hardly less than twice
            // as many of the block.
            filter_parts: 2,
            block_bytes: match effort {
                Effort::Fast => 2 << 20,
                // A sixth smaller than blocks of half that size; they are read a little less often.
                Effort::Best => 4 << 20,
            },
            chunk_bytes: 32 << 20,
        }
    }

    pub(crate) fn level(&self) -> i32 {
        self.effort.level()
    }
}

impl Default for SealOptions {
    fn default() -> Self {
        SealOptions::new(Effort::Fast)
    }
}
