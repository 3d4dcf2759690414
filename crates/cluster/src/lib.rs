//! The cluster: stores that share work through engines kept by others. A log (Kafka) carries
//! frames, object storage (S3) holds sealed segments, PostgreSQL holds the catalog.
//!
//! ```text
//! collectors → log (frames, partitions) → stores own partitions by lease → sealed segments → object storage
//!                                                        ↘ one transaction: catalog row + offset, if the epoch holds
//! ```
//!
//! The [`engines`] stand behind three traits: [`FrameLog`], [`Objects`], [`Catalog`]. The protocol
//! and its simulation need none of them. There is no
//! consensus protocol of our own: whatever two nodes could disagree about is decided by one
//! transaction of the catalog.

mod catalog;
pub mod deletions;
mod duplicates;
pub mod engines;
mod error;
mod frame_log;
mod hot;
mod ids;
mod jobs;
mod kept;
mod member;
mod objects;
mod partition;
mod plan;
mod publisher;
mod reader;
pub mod sim;
#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;

pub use catalog::{
    Catalog, DueRules, FrameRange, Held, LeaseRow, Mark, NODE_FORGOTTEN_AFTER, NodeInfo, NodeRow,
    Owner, PRODUCER_FORGOTTEN_AFTER, PartitionRow, PartitionState, Publication, Role, SegmentRow,
    Snapshot, TimeRange, Totals, Unsearched, View,
};
pub use duplicates::{Duplicates, Seen};
pub use error::{CatalogError, Failure, LogError, ObjectError};
pub use frame_log::{FrameLog, Message};
pub use hot::{HotError, HotFrame, HotPart, Lag};
pub use ids::{Lease, NodeId, OBJECT_PREFIX, ObjectName, Resource, UnknownName};
pub use jobs::{
    ClockNotice, JobError, MERGE_LEVELS, Merge, MergeFailed, MergeLevel, MergeSettings, Merger,
    Orders, Prune, Pruned, Pruner, Retention, RetentionRule, RetentionSettings, Settled, Sweep,
    SweepSettings,
};
pub use kept::{KeptCatalog, KeptError, KeptSnapshot};
pub use member::{Answer, Call, Change, LeaseSettings, Member, Next};
pub use objects::{FileBody, ObjectBody, ObjectInfo, Objects};
pub use partition::Partition;
pub use plan::{End, Gathered, HotRange, Plan, PlanError, WentBack, gather, plan, plan_of};
pub use publisher::{
    Progress, PublishError, Publisher, PublisherSettings, SealError, Sealed, Sealer,
};
pub use reader::{Reader, ReaderSettings, Stall, Taken};
