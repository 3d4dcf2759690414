//! Stores the frames of one node: durable, findable, bounded in age and size.
//!
//! ```text
//! append → queue → writer thread → hot segment → visible → parse stage, queries
//!          bounded  one fdatasync        │         cached
//!                   a group              ├── background: sealed segments, merged, pruned, re-encoded
//!                                        └── ledger: catalog, indexes, retention
//! ```
//!
//! Invariants:
//! - A frame becomes visible, and its `on_durable` is called with success, only after it is
//!   durable.
//! - An acknowledged frame is there after any crash, once. Frames keep the order in which the store
//!   took them.
//! - Segment files are the truth. The catalog repeats it for a fast start, and is rebuilt from the
//!   files when it is lost.
//! - Only the holder of the writer's lock appends; only the holder of the ledger's lock closes,
//!   replaces and removes files. [`sync`] has the order of all locks.
//!
//! The layers, each of which depends only on those before it: `catalog` (rows in SQLite),
//! `segments` (segment files as held in memory), `unit` (handles by which they are read),
//! `store_core` (the state that threads share), `ledger`, `writer`, `background` (rewrites),
//! `store` (the interface).
//!
//! Left out: the encoding of blocks and columns (`segment`), replication, and the content of lines:
//! records come from [`StoreCallbacks`], event times from the parse stage by [`Store::set_times`].

mod at_rest;
mod background;
mod callbacks;
mod catalog;
mod config;
mod error;
mod ledger;
mod maintenance;
mod position;
mod recovery;
mod segments;
mod store;
mod store_core;
mod sync;
mod unit;
mod writer;

pub use at_rest::{
    AtRest, CATALOG_FILE, Listed, RestSegment, SEGMENTS_DIR, SegmentKind, copy_catalog, node_of,
};
pub use background::{Step, Urgency};
pub use callbacks::{LineFilter, RowSelector, StoreCallbacks};
pub use catalog::{Deletion, DeletionState};
pub use config::{Cutoff, NODES_MAX, Retention, RetentionRule, StoreConfig};
pub use error::StoreError;
pub use position::Position;
pub use recovery::report::{Dropped, RecoveryReport};
pub use segments::damage::DamagedLines;
pub use store::{
    ArrivalCursor, Arrivals, Committed, Holding, Holdings, LoadFrame, NoArrivalCursor, NodeFrames,
    SealingStats, SegmentInfo, SegmentState, Store, StoreStats,
};
pub use store_core::deletions::{
    DELETIONS_KEPT, DELETIONS_MAX, DeletionProgress, FILTER_BYTES_MAX,
};
pub use store_core::nodes::{NodeRefusal, RANGES_KEPT};
pub use store_core::write_state::StoreState;
pub use unit::frame::{CommittedFrame, FrameHandle};
pub use unit::group::FrameGroup;
pub use unit::{BlockHandle, Unit};
