//! Jobs on segments and objects that one node at a time does, under a lease of each.
//!
//! A lost answer needs no care here. Either the transaction happened, or the object that was
//! written for it is an orphan: the node gives the lease up, plans the work anew, and the sweep
//! deletes the object once the epoch in its name is over.

mod merge;
mod prune;
mod retention;
mod retention_clock;
mod sweep;

pub use merge::{MERGE_LEVELS, Merge, MergeFailed, MergeLevel, MergeSettings, Merger, Settled};
pub use prune::{Orders, Prune, Pruned, Pruner};
pub use retention::{Retention, RetentionRule, RetentionSettings};
pub use retention_clock::ClockNotice;
pub use sweep::{Sweep, SweepSettings};

use crate::error::{CatalogError, ObjectError};
use crate::publisher::SealError;

/// Why a step of a job failed. The node gives up the lease if [`is_over`](Self::is_over), else it
/// steps again later.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JobError {
    /// Making the new segment failed.
    #[error(transparent)]
    Seal(#[from] SealError),
    /// The object storage failed.
    #[error(transparent)]
    Objects(#[from] ObjectError),
    /// The catalog failed.
    #[error(transparent)]
    Catalog(#[from] CatalogError),
}

impl JobError {
    /// Whether the lease is over.
    pub fn is_over(&self) -> bool {
        matches!(self, JobError::Catalog(CatalogError::LeaseOver { .. }))
    }
}
