//! Publishes the frames of a partition as sealed segments.
//!
//! ```text
//! Idle → seal → Sealed → put object → Stored → publish → Idle
//!                                        ↑ not happened │ answer lost
//!                                        └── Unresolved ┘ reads the offset
//! ```
//!
//! Invariants: a publication is repeated as it is until it is known whether it happened. Its
//! object's name is given to no other bytes. It begins at the offset that the catalog has, so of
//! all copies of it, and of all others by other nodes, one at most is committed.

use std::sync::Arc;
use std::time::Duration;

use crate::catalog::{Catalog, FrameRange, Publication, SegmentRow, TimeRange};
use crate::error::{CatalogError, Failure, ObjectError};
use crate::hot::{HotFrame, HotPart};
use crate::ids::{Lease, ObjectName, Resource};
use crate::objects::{ObjectBody, Objects};

/// A segment that is sealed and not stored yet.
pub struct Sealed {
    /// Its bytes.
    pub body: Box<dyn ObjectBody>,
    /// Event times of its lines.
    pub times: TimeRange,
    /// The latest arrival of a line: nanoseconds since 1970 UTC. Of frames, it is what collectors
    /// wrote, and the catalog does not keep it.
    pub received_last_ns: i64,
    /// Its lines.
    pub lines: u64,
    /// The last deletion whose lines were left out.
    pub searched: u64,
    /// The frames that the lines are of.
    pub frames: Vec<FrameRange>,
}

/// Sealing failed: the local disk is full, or fails. It is tried again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("sealing failed: {0}; it is tried again")]
pub struct SealError(pub String);

/// Makes a sealed segment of frames.
pub trait Sealer: Send + Sync {
    /// Seals the frames of `partition`, which are in the order of their offsets and at least one.
    fn seal(&self, partition: u32, frames: &[HotFrame]) -> Result<Sealed, SealError>;
}

/// When segments are published, and how long their frames stay in memory.
#[derive(Clone, Copy, Debug)]
pub struct PublisherSettings {
    /// Bytes of frames that make a segment. Larger segments are made of fewer, larger objects;
    /// smaller ones mean less to read again after a takeover.
    pub segment_bytes: usize,
    /// The age at which a smaller segment is published.
    pub segment_age_max: Duration,
    /// How long published frames stay in memory, for queries that were planned before.
    pub keep_published: Duration,
    /// Bytes of published frames in memory. Beyond, the oldest are freed early, and queries that
    /// still want them plan again.
    pub published_bytes_max: usize,
}

/// Why a step failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PublishError {
    /// Sealing failed. Step again later.
    #[error(transparent)]
    Seal(#[from] SealError),
    /// The object could not be stored. Step again later.
    #[error(transparent)]
    Objects(#[from] ObjectError),
    /// The catalog could not be reached. Step again later.
    #[error(transparent)]
    Catalog(CatalogError),
    /// The lease is over, and with it this publisher. Its frames are published by the next owner.
    #[error("the partition has another owner now: {0}")]
    Over(CatalogError),
}

/// What a step did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Nothing is due.
    Idle,
    /// One more step was made towards a publication.
    Advanced,
    /// A publication is committed.
    Published(Publication),
}

enum State {
    Idle,
    Sealed {
        publication: Publication,
        segment: SegmentRow,
        body: Box<dyn ObjectBody>,
        /// Whether a former attempt may have stored it.
        may_exist: bool,
    },
    Stored(Publication),
    Unresolved(Publication),
}

/// Publishes the frames of one partition; stepped by one thread.
pub struct Publisher {
    lease: Lease,
    partition: u32,
    hot: Arc<HotPart>,
    settings: PublisherSettings,
    counter: u64,
    state: State,
}

impl Publisher {
    pub(crate) fn new(
        lease: Lease,
        partition: u32,
        hot: Arc<HotPart>,
        settings: PublisherSettings,
    ) -> Publisher {
        debug_assert_eq!(lease.resource, Resource::Partition(partition));
        Publisher { lease, partition, hot, settings, counter: 0, state: State::Idle }
    }

    /// Does the next thing, with one call of an engine or the sealer at most; only sealing asks for
    /// the time of the catalog before.
    pub fn step(
        &mut self,
        catalog: &dyn Catalog,
        objects: &dyn Objects,
        sealer: &dyn Sealer,
        now_ns: u64,
    ) -> Result<Progress, PublishError> {
        match std::mem::replace(&mut self.state, State::Idle) {
            State::Idle => self.seal(catalog, sealer, now_ns),
            State::Sealed { publication, segment, body, may_exist } => {
                self.store(objects, publication, segment, body, may_exist)
            }
            State::Stored(publication) => self.publish(catalog, publication, now_ns),
            State::Unresolved(publication) => self.resolve(catalog, publication, now_ns),
        }
    }

    fn seal(
        &mut self,
        catalog: &dyn Catalog,
        sealer: &dyn Sealer,
        now_ns: u64,
    ) -> Result<Progress, PublishError> {
        let PublisherSettings { segment_bytes, segment_age_max, keep_published, .. } =
            self.settings;
        self.hot.free(keep_published, self.settings.published_bytes_max, now_ns);
        let Some(cut) = self.hot.cut(segment_bytes, segment_age_max, now_ns) else {
            return Ok(Progress::Idle);
        };
        let mut publication = Publication {
            offsets: cut.offsets.clone(),
            segment: None,
            producers: cut.producers,
            lost: cut.lost,
        };
        if cut.frames.is_empty() {
            self.state = State::Stored(publication);
            return Ok(Progress::Advanced);
        }
        // Ages count from here. The clock of a collector may show 1970, or a time in years.
        let sealed_ns = catalog.now_ns().map_err(PublishError::Catalog)?;
        let sealed = sealer.seal(self.partition, &cut.frames)?;
        if sealed.lines == 0 {
            // Deletions cover all of them.
            self.state = State::Stored(publication);
            return Ok(Progress::Advanced);
        }
        let segment = SegmentRow {
            name: self.next_name(),
            partition: self.partition,
            offsets: cut.offsets,
            times: sealed.times,
            received_last_ns: sealed_ns,
            lines: sealed.lines,
            bytes: sealed.body.size(),
            searched: sealed.searched,
            rules: 0,
            frames: sealed.frames,
        };
        publication.segment = Some(segment.clone());
        self.state = State::Sealed { publication, segment, body: sealed.body, may_exist: false };
        Ok(Progress::Advanced)
    }

    fn store(
        &mut self,
        objects: &dyn Objects,
        mut publication: Publication,
        mut segment: SegmentRow,
        body: Box<dyn ObjectBody>,
        mut may_exist: bool,
    ) -> Result<Progress, PublishError> {
        let error = match objects.put_new(&segment.name, &*body) {
            Ok(()) => None,
            Err(ObjectError::Exists(_)) if may_exist => None,
            Err(error) => Some(error),
        };
        let Some(error) = error else {
            self.state = State::Stored(publication);
            return Ok(Progress::Advanced);
        };
        match &error {
            // Nobody else gives this name, unless the catalog was restored from a backup.
            ObjectError::Exists(_) => {
                segment.name = self.next_name();
                publication.segment = Some(segment.clone());
            }
            error => may_exist |= error.failure() == Failure::Unknown,
        }
        self.state = State::Sealed { publication, segment, body, may_exist };
        Err(error.into())
    }

    fn publish(
        &mut self,
        catalog: &dyn Catalog,
        publication: Publication,
        now_ns: u64,
    ) -> Result<Progress, PublishError> {
        match catalog.publish(&self.lease, &publication) {
            Ok(()) => Ok(self.published(publication, now_ns)),
            Err(error @ CatalogError::LeaseOver { .. }) => Err(self.over(error)),
            Err(error) => {
                // A former copy of this publication may be what moved the offset.
                self.state = match (&error, error.failure()) {
                    (CatalogError::OffsetMoved { .. }, _) | (_, Failure::Unknown) => {
                        State::Unresolved(publication)
                    }
                    _ => State::Stored(publication),
                };
                Err(PublishError::Catalog(error))
            }
        }
    }

    fn resolve(
        &mut self,
        catalog: &dyn Catalog,
        publication: Publication,
        now_ns: u64,
    ) -> Result<Progress, PublishError> {
        let found = match catalog.partition(&self.lease) {
            Ok(state) => state.offset,
            Err(error @ CatalogError::LeaseOver { .. }) => return Err(self.over(error)),
            Err(error) => {
                self.state = State::Unresolved(publication);
                return Err(PublishError::Catalog(error));
            }
        };
        if found == publication.offsets.end {
            return Ok(self.published(publication, now_ns));
        }
        let expected = publication.offsets.start;
        if found != expected {
            let partition = self.partition;
            return Err(self.over(CatalogError::OffsetMoved { partition, expected, found }));
        }
        self.state = State::Stored(publication);
        Ok(Progress::Advanced)
    }

    fn published(&self, publication: Publication, now_ns: u64) -> Progress {
        self.hot.published(publication.offsets.end, publication.lost, now_ns);
        Progress::Published(publication)
    }

    fn over(&self, error: CatalogError) -> PublishError {
        self.hot.stop();
        PublishError::Over(error)
    }

    fn next_name(&mut self) -> String {
        let name = ObjectName { lease: self.lease, counter: self.counter };
        self.counter += 1;
        name.to_string()
    }
}
