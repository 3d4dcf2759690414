//! Lines, frames and records: everything between received bytes and queried fields.
//!
//! - [`frame`]: the unit of transfer and durability; lines as received, with their origins.
//! - [`framing`]: splits a TCP stream into lines.
//! - [`Numbers`]: the set of frames that a store has of another node.
//! - [`batch`]: records: rows of fields that point into the bytes of a frame, or of a restored
//!   block.
//! - [`columns`]: the same records as columns, field by field.
//! - [`parse`]: how a line becomes a record: syslog, JSON, access lines, plain text.
//! - [`zone`]: time zones by name, with daylight saving.
//!
//! Invariants: nothing here does I/O, reads a clock or keeps global state, except for tables that
//! are computed from constants when they are first needed (`zone`); no input panics; the bytes of a
//! line are never changed, so the raw line can always be returned as it was sent.

pub mod automaton;
pub mod batch;
pub mod columns;
pub mod frame;
pub mod framing;
mod node;
mod numbers;
pub mod parse;
pub mod zone;

pub use batch::{
    Batch, BatchBuilder, FieldId, Place, RestoredBuilder, Row, RowsWriter, StemId, read_rows,
};
pub use frame::{
    Format, Frame, FrameBuilder, FrameError, Hints, Line, LineId, MessageFormat, NoTenant, Origin,
    Tenant, Transport,
};
pub use node::NodeIdentity;
pub use numbers::Numbers;
pub use parse::{Parser, ParserConfig, RuleError, TypeRule};
pub use zone::Zone;
