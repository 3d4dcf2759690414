//! Lines from the network into frames, and frames to whatever keeps them.

pub mod accounting;
pub mod deliver;

pub use accounting::{Accounting, DropReason, SourceCounters, SourceKind};
pub use deliver::{Deliver, DeliverError, OnDurable};
