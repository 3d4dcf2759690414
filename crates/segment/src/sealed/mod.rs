//! A sealed segment: the lines of one or more segments, split into columns and compressed;
//! immutable.
//!
//! ```text
//! header 64 B | block | block | … | footer | trailer 48 B
//! ```
//!
//! Every sealed segment is made by one operation: it takes batches from hot frames or from blocks
//! of other sealed segments, may leave out some rows, and writes a new file. Sealing, merging,
//! deleting lines and re-encoding are all this operation.
//!
//! Invariants: every line can be restored byte for byte with its id, times, origin and fields,
//! which the writer verifies before it reports the file as complete; a block needs only its own
//! bytes and its entry in the footer; no data is used before its checksum and its bounds were
//! checked.
//!
//! The file is drawn in `docs/format/sealed-segment.md`. Left out: which segments exist, and when
//! one is made.

mod block;
mod bytes;
mod column;
mod columns;
mod compress;
mod field;
mod footer;
mod gather;
mod ints;
mod joined;
mod layout;
mod numerals;
mod outlines;
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
    SEALED_VERSION, SealedHeader, ValueSet, numbers_of,
};
pub use joined::Joined;
pub use reader::{ColumnInfo, SealedFile};
pub use rollup::{
    COUNTS_MAX, EachCount, LINES_PER_INTERVAL, ROLLUP_FIELDS, ROLLUP_PAIRS, Rollup, VALUES_MAX,
};
pub use writer::{HELPERS_NAME, SealedWriter};

/// How lines are grouped within a chunk of a segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Clustering {
    /// In the order of arrival.
    Arrival,
    /// By type and application.
    Application,
    /// By type, application and service, and then by the stream that the sender names.
    #[default]
    Stream,
}

/// Settings for writing a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SealOptions {
    /// The effort.
    pub effort: Effort,
    /// How lines are grouped.
    pub clustering: Clustering,
    /// Bytes of raw lines per block.
    pub block_bytes: usize,
    /// A block gets a word filter if the filter takes at most one part in this many of the block's
    /// bytes, or little compared with its raw lines, however well those compress.
    pub filter_parts: usize,
    /// Bytes of raw lines that are grouped at a time. Writing needs about three times that much
    /// memory, and some MiB for each thread.
    pub chunk_bytes: usize,
}

impl SealOptions {
    /// The defaults for an effort.
    pub fn new(effort: Effort) -> Self {
        SealOptions {
            effort,
            clustering: Clustering::default(),
            // A random identifier takes 10 bits of the filter, and hardly less than twice as many
            // of the block.
            filter_parts: 2,
            block_bytes: match effort {
                Effort::Fast => 2 << 20,
                // A sixth smaller than with blocks of half that size; a block has to be read
                // slightly more often.
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
