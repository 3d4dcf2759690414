//! The catalog: PostgreSQL. It is the one place where nodes agree on anything.
//!
//! Every method is one transaction. Times are those of the catalog's own clock: no method compares
//! the clocks of two nodes.

use std::ops::Range;
use std::time::Duration;

use crate::deletions::{DeletionRow, Deletions, Tombstone};
use crate::duplicates::Seen;
use crate::error::CatalogError;
use crate::ids::{Lease, NodeId, Resource};
use crate::objects::ObjectInfo;

/// A node that has not been seen for this long is removed from the list of nodes.
pub const NODE_FORGOTTEN_AFTER: Duration = Duration::from_secs(7 * 86_400);
/// The last sequence number of a producer is forgotten when the producer has appended nothing to
/// the partition for this long. A collector that repeats an append later than this may double its
/// frames, so a collector must give up earlier.
pub const PRODUCER_FORGOTTEN_AFTER: Duration = Duration::from_secs(7 * 86_400);

/// What a node does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Receives lines and appends frames to the log.
    Collector,
    /// Owns partitions, holds their newest frames, publishes segments.
    Store,
    /// Answers queries.
    Query,
}

/// What a node says about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeInfo {
    /// Its id.
    pub node: NodeId,
    /// Its name, for people.
    pub name: String,
    /// Where other nodes reach it: `host:port`.
    pub address: String,
    /// What it does.
    pub roles: Vec<Role>,
    /// The version of its program.
    pub version: String,
    /// Whether it can take partitions. False while its disk is full, or while it shuts down.
    pub accepting: bool,
}

/// A node as the catalog knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeRow {
    /// What it said last.
    pub info: NodeInfo,
    /// Time since its last heartbeat.
    pub silent: Duration,
}

/// A lease as the catalog knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseRow {
    /// What it is for.
    pub resource: Resource,
    /// Who has it, or had it last; `None` after a release.
    pub owner: Option<NodeId>,
    /// The last epoch.
    pub epoch: u64,
    /// Whether it has an owner and is not expired.
    pub live: bool,
}

/// All nodes and leases, read in one transaction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct View {
    /// Nodes, ordered by id.
    pub nodes: Vec<NodeRow>,
    /// Leases that were ever acquired, in no order.
    pub leases: Vec<LeaseRow>,
    /// When the last deletion was requested, by the catalog's clock: nanoseconds since 1970 UTC;
    /// `None` before the first.
    pub deleted_ns: Option<i64>,
}

/// A range of event times, both ends included: nanoseconds since 1970 UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeRange {
    /// The earliest.
    pub first_ns: i64,
    /// The latest.
    pub last_ns: i64,
}

impl TimeRange {
    /// All times.
    pub const ALL: TimeRange = TimeRange { first_ns: i64::MIN, last_ns: i64::MAX };

    /// Whether the two have a time in common. A range that ends before it begins has none.
    pub fn overlaps(&self, other: &TimeRange) -> bool {
        self.first_ns.max(other.first_ns) <= self.last_ns.min(other.last_ns)
    }

    /// The smallest range that has both.
    pub fn union(&self, other: &TimeRange) -> TimeRange {
        TimeRange {
            first_ns: self.first_ns.min(other.first_ns),
            last_ns: self.last_ns.max(other.last_ns),
        }
    }
}

/// Numbers of frames that a collector, or a node that makes lines, built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameRange {
    /// The node that built them.
    pub node: NodeId,
    /// The smallest number.
    pub first: u64,
    /// The greatest.
    pub last: u64,
}

/// A sealed segment in object storage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentRow {
    /// The name of its object ([`crate::ObjectName`]).
    pub name: String,
    /// The partition that its frames came from.
    pub partition: u32,
    /// The offsets of the partition that it stands for.
    pub offsets: Range<u64>,
    /// Event times of its lines.
    pub times: TimeRange,
    /// When its newest frames were sealed, by the catalog's clock: what retention by age counts
    /// from. Clocks of collectors may be wrong, so the arrivals that they wrote do not count.
    pub received_last_ns: i64,
    /// Lines in it.
    pub lines: u64,
    /// Size of the object.
    pub bytes: u64,
    /// The last deletion that it was searched for: no line that this one or an earlier one covers
    /// is in it.
    pub searched: u64,
    /// The rules of retention that were applied to it: a hash of them, 0 for none.
    pub rules: u64,
    /// The frames whose lines it may have. Empty in rows that the catalog answers with:
    /// [`Catalog::holding`] looks them up.
    pub frames: Vec<FrameRange>,
}

/// Where the owner of a partition resumes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartitionState {
    /// Every message below is in a published segment, or was a duplicate, or was lost.
    pub offset: u64,
    /// For each producer which of its frames are below `offset`.
    pub producers: Vec<(NodeId, Seen)>,
}

/// What the owner of a partition commits in one transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Publication {
    /// From the offset that the catalog has to the one that it is to have.
    pub offsets: Range<u64>,
    /// The segment of these offsets; `None` if there was no new frame in them.
    pub segment: Option<SegmentRow>,
    /// For each producer with frames in these offsets which of its frames are below their end.
    pub producers: Vec<(NodeId, Seen)>,
    /// Messages that the log deleted before they were read.
    pub lost: u64,
}

/// The owner of a partition, as a query finds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The node.
    pub node: NodeId,
    /// Where it is reached.
    pub address: String,
    /// The epoch of its lease.
    pub epoch: u64,
}

/// A partition in a [`Snapshot`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionRow {
    /// The partition.
    pub partition: u32,
    /// Every message below is in a segment of the snapshot, if its times overlap the range.
    pub offset: u64,
    /// Messages that the log deleted before a node read them, since the catalog was made.
    pub lost: u64,
    /// The node with a live lease.
    pub owner: Option<Owner>,
}

/// What a query reads first: one state of the catalog.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// Partitions, in order. One that never had an owner is not in it; its offset is 0.
    pub partitions: Vec<PartitionRow>,
    /// Live segments whose times overlap the range, in no order.
    pub segments: Vec<SegmentRow>,
    /// The deletions that hide lines, by id.
    pub tombstones: Vec<Tombstone>,
}

/// A document of the catalog: its name and its body.
pub type Mark = (String, Vec<u8>);

/// Which segments a search wants: those that were not searched for a deletion, and those whose
/// rules of retention are not the ones that are due.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unsearched {
    /// Segments whose last deletion that they were searched for is before this one.
    pub below: u64,
    /// What rules are due, by the latest arrival of a segment.
    pub due: Vec<DueRules>,
}

impl Unsearched {
    /// Whether a segment is one of them.
    pub fn wants(&self, row: &SegmentRow) -> bool {
        let is_due = |due: &DueRules| {
            due.received_ns.contains(&row.received_last_ns) && due.rules != row.rules
        };
        row.searched < self.below || self.due.iter().any(is_due)
    }
}

/// The rules of retention that are due for segments of an age.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DueRules {
    /// The times of these segments, as [`SegmentRow::received_last_ns`].
    pub received_ns: Range<i64>,
    /// The hash of the rules, as in [`SegmentRow::rules`].
    pub rules: u64,
}

/// What all live segments take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Their number.
    pub segments: u64,
    /// Their bytes in object storage.
    pub bytes: u64,
}

/// What all live segments hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Their number.
    pub segments: u64,
    /// Their bytes in object storage.
    pub bytes: u64,
    /// Their lines.
    pub lines: u64,
    /// The event times of their oldest and of their newest line, nanoseconds since 1970 UTC.
    pub times_ns: Option<(i64, i64)>,
}

/// The catalog: PostgreSQL. All calls block, and each is one transaction.
///
/// A segment is *live* from its publication on, then *retired*: replaced by a merge, or dropped by
/// retention. The object of a retired segment stays for the grace time, so that queries which read
/// their snapshot before can finish.
pub trait Catalog: Send + Sync {
    /// The time of the catalog: nanoseconds since 1970 UTC.
    fn now_ns(&self) -> Result<i64, CatalogError>;

    /// Records that `node` is alive, extends those of `leases` whose epoch still holds to `ttl`
    /// from now, and returns all nodes and leases. A lease that expired and that nobody took is
    /// extended too.
    fn heartbeat(
        &self,
        node: &NodeInfo,
        leases: &[Lease],
        ttl: Duration,
    ) -> Result<View, CatalogError>;

    /// Takes a resource for `ttl` from now and returns the lease with a new epoch; `None` while
    /// another node has it. The owner itself gets a new epoch, which ends its former lease: so a
    /// node takes its own leases again after a restart or a lost answer.
    fn acquire(
        &self,
        resource: Resource,
        owner: NodeId,
        ttl: Duration,
    ) -> Result<Option<Lease>, CatalogError>;

    /// Gives a lease back; nothing can be published under it any more. No error if it is over.
    fn release(&self, lease: &Lease) -> Result<(), CatalogError>;

    /// Where the holder of a partition's lease resumes.
    fn partition(&self, lease: &Lease) -> Result<PartitionState, CatalogError>;

    /// Moves a partition's offset and adds the segment, if the epoch of `lease` holds and the
    /// offset is the one where the publication begins.
    fn publish(&self, lease: &Lease, publication: &Publication) -> Result<(), CatalogError>;

    /// Retires live segments and adds `by` in their place, if the epoch of `lease` holds and all of
    /// them are live.
    fn replace(
        &self,
        lease: &Lease,
        replaced: &[String],
        by: Option<&SegmentRow>,
    ) -> Result<(), CatalogError>;

    /// What a query over `times` reads; [`CatalogError::TooMany`] beyond `segments_max` segments.
    fn snapshot(&self, times: TimeRange, segments_max: usize) -> Result<Snapshot, CatalogError>;

    /// Up to `max` live segments of a partition that end behind the offset `from`, in the order of
    /// their offsets.
    fn segments_of(
        &self,
        partition: u32,
        from: u64,
        max: usize,
    ) -> Result<Vec<SegmentRow>, CatalogError>;

    /// Up to `max` live segments that may have lines of a frame. The summary of lines counts as
    /// lines of the node that made it.
    fn holding(
        &self,
        node: NodeId,
        sequence: u64,
        max: usize,
    ) -> Result<Vec<SegmentRow>, CatalogError>;

    /// Up to `max` live segments of a partition that end behind the offset `from` and are to be
    /// searched, in the order of their offsets.
    fn unsearched(
        &self,
        partition: u32,
        wanted: &Unsearched,
        from: u64,
        max: usize,
    ) -> Result<Vec<SegmentRow>, CatalogError>;

    /// Adds a deletion of the lines that `filter` selects and that arrived before now. `ends` is
    /// where the partitions of the log end. [`CatalogError::Refused`] beyond the limits of
    /// [`DeletionsTaken`](crate::deletions::DeletionsTaken).
    fn delete(&self, filter: &str, ends: &[u64]) -> Result<DeletionRow, CatalogError>;

    /// All deletions.
    fn deletions(&self) -> Result<Deletions, CatalogError>;

    /// Ends a deletion: a running one is cancelled, and one that is done is not in force any more
    /// and stays done, without its filter. False when none of that id hides lines.
    fn cancel_deletion(&self, id: u64) -> Result<bool, CatalogError>;

    /// Ends the running deletions that have nothing left to search, removes the filters of those
    /// that are done for longer than [`LATE`](crate::deletions::LATE), and forgets the oldest of
    /// more than [`DELETIONS_KEPT`](crate::deletions::DELETIONS_KEPT). Returns how many it ended.
    fn end_deletions(&self, lease: &Lease) -> Result<u64, CatalogError>;

    /// Notes that live segments of the lease's partition have no line that deletions up to
    /// `searched` cover, and that `rules` were applied. Segments that are not live any more are
    /// passed over.
    fn note_searched(
        &self,
        lease: &Lease,
        names: &[String],
        searched: u64,
        rules: u64,
    ) -> Result<(), CatalogError>;

    /// As [`replace`](Self::replace), of one segment that lost lines: adds them to the counts of
    /// their deletions, given by id.
    fn rewrite(
        &self,
        lease: &Lease,
        replaced: &str,
        by: Option<&SegmentRow>,
        deleted: &[(u64, u64)],
    ) -> Result<(), CatalogError>;

    /// Up to `max` live segments whose latest arrival is older than `age`, the oldest first. An age
    /// of zero takes all, also those from the future.
    fn older_than(&self, age: Duration, max: usize) -> Result<Vec<SegmentRow>, CatalogError>;

    /// What all live segments take.
    fn totals(&self) -> Result<Totals, CatalogError>;

    /// Keeps the objects of all segments that are live now, and of those that are added meanwhile,
    /// for `ttl`: segments that are retired meanwhile are not in [`retired`](Self::retired). The
    /// same holder prolongs its hold by another call, which moves the end alone.
    fn hold(&self, holder: &str, ttl: Duration) -> Result<(), CatalogError>;

    /// Ends a hold. No error if there is none.
    fn let_go(&self, holder: &str) -> Result<(), CatalogError>;

    /// Up to `max` names of segments that were retired at least `grace` ago, and before the oldest
    /// [hold](Self::hold) began.
    fn retired(&self, grace: Duration, max: usize) -> Result<Vec<String>, CatalogError>;

    /// Removes the rows of retired segments whose objects are deleted. Live segments stay.
    fn forget(&self, names: &[String]) -> Result<(), CatalogError>;

    /// Those of `objects` that nobody knows or can ever publish: they have no row, the epoch in
    /// their name is over, and they were written at least `grace` ago.
    fn orphans(&self, objects: &[ObjectInfo], grace: Duration)
    -> Result<Vec<String>, CatalogError>;

    /// The marks whose names begin with `prefix`, in the order of their names. A mark is a small
    /// document that one node keeps for the next one that does its work: a program, or up to where
    /// lines were read.
    fn marks(&self, prefix: &str) -> Result<Vec<Mark>, CatalogError>;

    /// Replaces a mark if the epoch of `lease` holds; without a body, deletes it.
    fn put_mark(&self, lease: &Lease, name: &str, body: Option<&[u8]>) -> Result<(), CatalogError>;
}
