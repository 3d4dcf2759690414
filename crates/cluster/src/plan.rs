//! What a query must read: segments, and the hot parts of partitions.
//!
//! The order of the calls makes the plan consistent. First, one snapshot of the catalog: segments,
//! and for each partition the offset below which everything is in them. Then the ends of the
//! partitions in the log, which have everything that was acknowledged before. What lies between
//! offset and end is asked of the owner. So each frame is in exactly one of the two, and none that
//! was acknowledged before the query began is missing.
//!
//! While the catalog does not answer, an older snapshot serves ([`crate::KeptCatalog`]): the
//! offsets in it are lower, more is asked of the owners, and the answer is the same. While the log
//! does not answer, the ends that it told before serve ([`End::Before`]): owners answer with all
//! that they have read from there on, and what was acknowledged since then may be missing.

use crate::catalog::{Catalog, Owner, SegmentRow, Snapshot, TimeRange};
use crate::deletions::Tombstone;
use crate::error::{CatalogError, LogError};
use crate::frame_log::FrameLog;
use crate::hot::HotError;
use std::ops::Range;

/// The part of a partition that is in no segment of the plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HotRange {
    /// The partition.
    pub partition: u32,
    /// The offsets to ask for, see [`crate::HotPart::read`].
    pub offsets: Range<u64>,
    /// The node to ask; `None` while nobody owns the partition.
    pub owner: Option<Owner>,
    /// Whether the end is one that the log told before the query began. The owner is asked for all
    /// that it has from the first offset on, and at least up to this end; messages behind what it
    /// has may be missing.
    pub is_open: bool,
}

/// Where a partition of the log ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The log was asked after the query began.
    Now(u64),
    /// The log told it before the query began, and does not answer at present.
    Before(u64),
}

/// What a query must read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Segments whose times overlap the query's. Their objects exist for the grace time, counted
    /// from before the call of [`plan`].
    pub segments: Vec<SegmentRow>,
    /// Hot parts, whatever the times of their lines are. They are asked first: if an owner cannot
    /// answer, the query plans again before it read segments in vain.
    pub hot: Vec<HotRange>,
    /// Partitions whose log ends before what is published.
    pub went_back: Vec<WentBack>,
    /// The deletions whose lines the query hides: all of them in hot parts, and in a segment those
    /// that it was not searched for.
    pub tombstones: Vec<Tombstone>,
}

impl Plan {
    /// The plan, if every partition has what is published.
    pub fn checked(self) -> Result<Plan, PlanError> {
        match self.went_back.first() {
            Some(went_back) => Err((*went_back).into()),
            None => Ok(self),
        }
    }
}

/// A partition whose log ends before an offset that is published already: what it has now was
/// either read before, or is not reached by the offsets of the catalog.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "partition {partition} of the log ends at {end}, but {offset} is published: the log lost acknowledged messages, or is not the log of this catalog"
)]
pub struct WentBack {
    /// The partition.
    pub partition: u32,
    /// Where it ends.
    pub end: u64,
    /// The offset of the catalog.
    pub offset: u64,
}

/// Why no plan could be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// The catalog failed.
    #[error(transparent)]
    Catalog(#[from] CatalogError),
    /// The log failed.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The log ends before an offset that is published already.
    #[error(transparent)]
    LogWentBack(#[from] WentBack),
}

/// What a query over `times` must read, with one call of the catalog and one of the log.
pub fn plan(
    catalog: &dyn Catalog,
    log: &dyn FrameLog,
    times: TimeRange,
    segments_max: usize,
) -> Result<Plan, PlanError> {
    let snapshot = catalog.snapshot(times, segments_max)?;
    let ends: Vec<End> = log.ends()?.into_iter().map(End::Now).collect();
    plan_of(snapshot, &ends).checked()
}

/// What a query must read, by a snapshot of the catalog and the ends of the partitions, in their
/// order. The ends are those of the time of the snapshot or later.
pub fn plan_of(snapshot: Snapshot, ends: &[End]) -> Plan {
    let mut rows = snapshot.partitions.into_iter().peekable();
    let (mut hot, mut went_back) = (Vec::new(), Vec::new());
    for (partition, end) in (0..).zip(ends) {
        let row = rows.next_if(|row| row.partition == partition);
        let (offset, owner) = row.map_or((0, None), |row| (row.offset, row.owner));
        match *end {
            End::Now(end) if end < offset => {
                went_back.push(WentBack { partition, end, offset });
            }
            End::Now(end) if offset < end => {
                hot.push(HotRange { partition, offsets: offset..end, owner, is_open: false });
            }
            End::Now(_) => {}
            // More may be published since the log told its end.
            End::Before(end) => {
                let offsets = offset..end.max(offset);
                hot.push(HotRange { partition, offsets, owner, is_open: true });
            }
        }
    }
    Plan { segments: snapshot.segments, hot, went_back, tombstones: snapshot.tombstones }
}

/// A plan with the answers of the owners.
pub struct Gathered<T> {
    /// Segments to read.
    pub segments: Vec<SegmentRow>,
    /// The deletions whose lines are hidden.
    pub tombstones: Vec<Tombstone>,
    /// What owners answered.
    pub answers: Vec<T>,
    /// Partitions whose end is not known at present, and whose owners answered. Messages that the
    /// log took since it told the end may be missing, and the query says so.
    pub open: Vec<u32>,
    /// Parts of partitions that nobody could answer for: lines of them are missing, and the query
    /// says so.
    pub missing: Vec<HotRange>,
}

/// Plans by `plan`, and asks the owners by `ask` (which may block, and waits for an owner that is
/// behind). Plans again, up to `plans_max` times in all, while an owner cannot answer. The last
/// plan's unanswered parts are [missing](Gathered::missing).
pub fn gather<T>(
    plans_max: u32,
    mut plan: impl FnMut() -> Result<Plan, PlanError>,
    mut ask: impl FnMut(&Owner, &HotRange) -> Result<T, HotError>,
) -> Result<Gathered<T>, PlanError> {
    let mut plans = 0;
    loop {
        plans += 1;
        let plan = plan()?;
        let mut gathered = Gathered {
            segments: plan.segments,
            tombstones: plan.tombstones,
            answers: Vec::new(),
            open: Vec::new(),
            missing: Vec::new(),
        };
        for part in plan.hot {
            match part.owner.as_ref().map(|owner| ask(owner, &part)) {
                Some(Ok(answer)) => {
                    gathered.open.extend(part.is_open.then_some(part.partition));
                    gathered.answers.push(answer);
                }
                Some(Err(_)) | None => gathered.missing.push(part),
            }
            if !gathered.missing.is_empty() && plans < plans_max {
                break;
            }
        }
        if gathered.missing.is_empty() || plans >= plans_max {
            return Ok(gathered);
        }
    }
}
