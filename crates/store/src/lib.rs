//! Keeps the frames of one node: durable, findable, bounded in age and size.
//!
//! ```text
//! append → queue → writer thread → hot segment → visible → parse stage, queries
//!          bounded  one fdatasync        │         cached
//!                   a group              ├── background: sealed segments, merged, pruned, encoded again
//!                                        └── keeper: catalog, indexes, retention
//! ```
//!
//! Invariants:
//! - A frame becomes visible, and its `on_durable` is called with success, only after it is
//!   durable.
//! - An acknowledged frame is there after any crash, once; the order of frames is that in which
//!   they were taken.
//! - Segment files are the truth; the catalog says the same faster, and is made again from them
//!   when it is lost.
//! - Only who holds the writer's lock appends; only who holds that of the books closes, replaces
//!   and removes files. Locks are taken in the order writer, books, list of segments, one segment,
//!   cache; the queue's alone.
//!
//! Left out: how blocks and columns are written (`segment`), replication, and knowledge of what is
//! in a line: records come from a [`Host`], event times from the parse stage by
//! [`Store::set_times`].

mod arrivals;
mod at_rest;
mod background;
mod books;
mod cache;
mod catalog;
mod config;
mod deletions;
mod directory;
mod error;
mod group;
mod handle;
mod host;
mod info;
mod nodes;
mod numbers;
mod plan;
mod pruning;
mod queue;
mod recovery;
mod retention;
mod rewrite;
mod sealed;
mod segments;
mod shared;
mod snapshot;
mod stats;
mod store;
mod throttle;
mod trailing;
mod unit;
mod writer;

pub use arrivals::{ArrivalCursor, Arrivals, LoadFrame, NoArrivalCursor};
pub use at_rest::{
    AtRest, CATALOG_FILE, Listed, RestSegment, SEGMENTS_DIR, SegmentKind, copy_catalog,
};
pub use background::Step;
pub use config::{RetentionRule, StoreConfig};
pub use deletions::{
    DELETIONS_KEPT, DELETIONS_MAX, Deletion, DeletionProgress, DeletionState, FILTER_BYTES_MAX,
};
pub use error::{AppendError, StoreError};
pub use group::FrameGroup;
pub use handle::{CommittedFrame, FrameHandle};
pub use host::{Host, LineFilter, Selects};
pub use info::{SegmentInfo, SegmentState};
pub use nodes::{NODES_MAX, NodeIdentity, NodeRefusal};
pub use queue::OnDurable;
pub use recovery::{Dropped, RecoveryReport};
pub use segments::Position;
pub use snapshot::Committed;
pub use stats::{SealingStats, StoreState, StoreStats};
pub use store::Store;
pub use unit::{BlockHandle, Unit};
