//! Extracts lines from the body of a request, piece by piece: decompresses it, cuts it into whole
//! lines, and selects the records.
//!
//! ```text
//! chunk of the body → Decoder → Elements → WholeLines → json_records or Bulk → Intake
//! ```
//!
//! Invariants: memory does not depend on the length of the body or its compression ratio, only on
//! the longest line ([`LINE_BYTES_MAX`](record::frame::LINE_BYTES_MAX)) and the decoder's window
//! ([`ZSTD_WINDOW_LOG_MAX`]); the lines do not depend on how the body was cut into chunks. No I/O
//! and no clock.

mod array;
mod bulk;
pub mod datadog;
mod decode;
pub mod hec;
pub mod journal;
mod json;
pub mod logplex;
pub mod metrics;
pub mod native;
pub mod otlp;
pub mod protobuf;
mod shape;
mod snappy;
mod whole_lines;

pub use array::Elements;
pub use bulk::{Action, Bulk, BulkError, RUNS_MAX, Runs};
pub use decode::{Decoder, Encoding, ZSTD_WINDOW_LOG_MAX};
pub use json::write_objects;
pub use shape::{Shape, json_records};
pub use whole_lines::WholeLines;
