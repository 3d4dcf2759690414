//! Segment files. A hot one is written by appending frames, and closed by an index of them; sealed
//! ones are in [`sealed`].
//!
//! ```text
//! header 4 KiB | frame | frame | … | zeros (preallocated)            while it is written
//! header 4 KiB | frame | frame | … | index | trailer                 when it is rolled
//! ```
//!
//! `docs/format/hot-segment.md` draws it byte by byte. Invariants: frames stand back to back on
//! multiples of 8 bytes, exactly as [`record::Frame`] encoded them; the acknowledged bytes of a
//! file never change.
//!
//! [`template`] is a form of the message text of sealed segments that takes time to make;
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
