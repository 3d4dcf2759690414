//! Keeps the frames of one node: durable, findable, bounded in age and size.
//!
//! ```text
//! append → queue → writer thread → hot segment → visible → parse stage, queries
//!          bounded  one fdatasync    (catalog)    cached
//!                   a group
//! ```
//!
//! Invariants:
//! - A frame becomes visible, and its `on_durable` is called with success, only after it is durable.
//! - An acknowledged frame is there after any crash, once; the order of frames is that in which they were taken.
//! - Segment files are the truth; the catalog says the same faster, and is made again from them when it is lost.
//! - Only the writer thread, or whoever holds the writer's lock, changes files. Locks are taken in the order
//!   writer, list of segments, one segment, cache; the queue's alone.
//!
//! Left out: compression and columns (sealed segments), replication, and knowledge of what is in a line: event
//! times come from the parse stage by [`Store::set_times`].

mod cache;
mod catalog;
mod config;
mod error;
mod handle;
mod queue;
mod recovery;
mod retention;
mod segments;
mod shared;
mod stats;
mod store;
mod writer;

pub use config::StoreConfig;
pub use error::{AppendError, StoreError};
pub use handle::{CommittedFrame, FrameHandle};
pub use queue::OnDurable;
pub use recovery::{Dropped, RecoveryReport};
pub use segments::Position;
pub use stats::{StoreState, StoreStats};
pub use store::Store;
