//! Segment files. A hot segment is written by appending frames, and closed with an index of them;
//! sealed segments are in [`sealed`].
//!
//! ```text
//! header 4 KiB | frame | frame | … | zeros (preallocated)            while it is written
//! header 4 KiB | frame | frame | … | index | trailer                 when it is rolled
//! ```
//!
//! The file is drawn byte by byte in `docs/format/hot-segment.md`. Invariants: frames are stored
//! back to back at multiples of 8 bytes, exactly as [`record::Frame`] encoded them; the
//! acknowledged bytes of a file never change.
//!
//! [`template`] is an encoding of the message text of sealed segments that takes time to make;
//! [`tokens`] has the word filters.
//!
//! Left out: which segments exist (the store's catalog records that).

mod blob;
mod error;
mod hash;
mod header;
mod index;
mod needle;
mod reader;
pub mod sealed;
mod short;
pub mod template;
pub mod tokens;
mod varint;
mod writer;

pub use blob::{Blob, CachedBlob, DiskBlob, PIECE_BYTES, RangeCache};
pub use error::SegmentError;
pub use header::{HEADER_BYTES, HELD_MAX, Held, SEGMENT_VERSION, SegmentHeader};
pub use index::{ENTRY_BYTES, FrameEntry, TRAILER_BYTES, index_bytes, write_index};
pub use reader::{Contents, Origin, Scan, read_frame, read_segment};
pub use writer::HotWriter;
