//! A sealed segment: the lines of one or more segments, split into columns and compressed; never
//! changed again.
//!
//! ```text
//! header 64 B | block | block | … | footer | trailer 48 B
//! ```
//!
//! Every sealed segment is made by one operation: batches go in, from hot frames or from blocks of
//! other sealed segments, some rows may be left out, and a new file comes out. Sealing, merging,
//! deleting lines and re-encoding are all this operation.
//!
//! Invariants: every line can be restored byte for byte with its name, times, origin and fields,
//! which the writer has verified before it reports the file as complete; a block needs only its own
//! bytes and its entry in the footer; nothing that is read is used before its checksum and its
//! bounds were checked.
//!
//! `docs/format/sealed-segment.md` draws the file. Left out: which segments exist, and when one is
//! made.

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
    /// In the order of arrival.
    Arrival,
    /// By type and application.
    #[default]
    Application,
    /// By type, application and host.
    Stream,
}

/// Settings for writing a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SealOptions {
    /// The effort.
    pub effort: Effort,
    /// How lines are grouped.
    pub clustering: Clustering,
    /// Bytes of raw lines of a block.
    pub block_bytes: usize,
    /// A block gets a word filter if the filter takes at most this part (one in so many) of the
    /// block's bytes, or little beside its raw lines, however well those compress.
    pub filter_parts: usize,
    /// Bytes of raw lines that are grouped at a time. Memory is about three times that, and some
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
