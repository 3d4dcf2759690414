//! The cluster: stores that share work through engines kept by others. A log (Kafka) carries
//! frames, object storage (S3) holds sealed segments, PostgreSQL holds the catalog.
//!
//! ```text
//! collectors → log (frames, partitions) → stores own partitions by lease → sealed segments → object storage
//!                                                        ↘ one transaction: catalog row + offset, if the epoch holds
//! ```
//!
//! The engines stand behind three traits: [`FrameLog`], [`Objects`], [`Catalog`]. There is no
//! consensus protocol of our own: whatever two nodes could disagree about is decided by one
//! transaction of the catalog.

mod catalog;
mod error;
mod ids;
mod log;
mod objects;

pub use catalog::{
    Catalog, LeaseRow, NODE_FORGOTTEN_AFTER, NodeInfo, NodeRow, Owner, PRODUCER_FORGOTTEN_AFTER,
    PartitionRow, PartitionState, Publication, Role, SegmentRow, Snapshot, TimeRange, Totals, View,
};
pub use error::{CatalogError, Failure, LogError, ObjectError};
pub use ids::{Lease, NodeId, OBJECT_PREFIX, ObjectName, Resource, UnknownName};
pub use log::{FrameLog, Message};
pub use objects::{FileBody, ObjectBody, ObjectInfo, Objects};
