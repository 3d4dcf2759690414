//! The last snapshot of the catalog, for queries while the catalog does not answer.
//!
//! A snapshot stays right for as long as the objects of its segments exist: until a grace time
//! after it was taken, at the earliest, since whatever was retired later is deleted that much
//! later. So a query may use it if the query ends before. Offsets in it may be behind; the owners
//! of the partitions have the frames from there on, or say that they do not.
//!
//! Left out: segments of times before those that fit into the limit. A query over them fails.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::catalog::{Catalog, Snapshot, TimeRange};
use crate::error::CatalogError;
use crate::member::nanos;

/// Most segments that are kept. Of more, those of the newest times are.
///
/// limits.md, Nodes of a cluster: segments of the catalog in memory, for queries while PostgreSQL
/// is away | {} | those of the newest times are kept; queries over others fail
const SEGMENTS_MAX: usize = 100_000;
/// Times before now that are tried when there are more segments than that.
const DAYS_TRIED: [i64; 5] = [90, 30, 7, 1, 0];
const DAY_NS: i64 = 86_400_000_000_000;
/// The shortest of these times.
const HOUR_NS: i64 = 3_600_000_000_000;
/// A snapshot is taken anew after this time even if no offset has moved: segments were merged.
const RENEWED_AFTER: Duration = Duration::from_secs(60);

/// Why the kept snapshot cannot serve a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeptError {
    /// There is none yet.
    #[error("this node has not read the catalog since it started")]
    Nothing,
    /// Objects of its segments may be deleted before the query ends.
    #[error(
        "the last state of the catalog that this node knows is {age_s} s old, and objects of its segments may be deleted before a query of up to {run_s} s ends"
    )]
    TooOld {
        /// Its age in seconds.
        age_s: u64,
        /// How long the query may run, in seconds.
        run_s: u64,
    },
    /// It has no segments of the beginning of the range.
    #[error(
        "this node keeps the newest {SEGMENTS_MAX} segments of the catalog, those of the last {hours} hours; ask for lines of these"
    )]
    Beyond {
        /// How far it goes back, in hours.
        hours: u64,
    },
}

/// A snapshot that serves a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptSnapshot {
    /// The snapshot, with the segments of the query's times.
    pub snapshot: Snapshot,
    /// How long ago the catalog was last known to be like this.
    pub age: Duration,
    /// How long ago it was read: from then on the grace time of objects counts.
    pub read: Duration,
}

struct Kept {
    snapshot: Arc<Snapshot>,
    /// Which of the times that are tried it is of.
    place: usize,
    /// Segments of earlier times are not in it.
    first_ns: i64,
    /// How far that is before the snapshot was taken.
    hours: u64,
    taken_ns: u64,
    confirmed_ns: u64,
}

/// Keeps the last snapshot of the catalog. Refreshed by one thread, read by queries.
pub struct KeptCatalog {
    grace: Duration,
    kept: Mutex<Option<Kept>>,
}

impl KeptCatalog {
    /// Keeps nothing yet. `grace`: how long objects stay after their segments are retired.
    pub fn new(grace: Duration) -> KeptCatalog {
        KeptCatalog { grace, kept: Mutex::default() }
    }

    /// Reads the catalog, if it is not as it was: with one call for its partitions, and some more
    /// for its segments. `now_ns` tells the monotonic time of this node; `wall_ns` is the time by
    /// which lines are dated.
    pub fn refresh(
        &self,
        catalog: &dyn Catalog,
        now_ns: impl Fn() -> u64,
        wall_ns: i64,
    ) -> Result<(), CatalogError> {
        // The time before the call: the catalog was like this then, or later.
        let begun_ns = now_ns();
        let none = TimeRange { first_ns: i64::MAX, last_ns: i64::MIN };
        if self.is_same(&catalog.snapshot(none, 0)?, begun_ns) {
            return Ok(());
        }
        let tried = DAYS_TRIED.map(|days| match days {
            0 => wall_ns.saturating_sub(HOUR_NS),
            days => wall_ns.saturating_sub(days * DAY_NS),
        });
        // What had too many segments before is not read again, but for the last of it.
        let place_min = self.lock().as_ref().map_or(0, |kept| kept.place.saturating_sub(1));
        let all = [i64::MIN].into_iter().chain(tried).enumerate();
        for (place, first_ns) in all.skip(place_min) {
            let taken_ns = now_ns();
            let times = TimeRange { first_ns, last_ns: i64::MAX };
            match catalog.snapshot(times, SEGMENTS_MAX) {
                Ok(snapshot) => {
                    let hours = wall_ns.abs_diff(first_ns) / HOUR_NS.unsigned_abs();
                    let (snapshot, confirmed_ns) = (Arc::new(snapshot), taken_ns);
                    let kept = Kept { snapshot, place, first_ns, hours, taken_ns, confirmed_ns };
                    *self.lock() = Some(kept);
                    return Ok(());
                }
                Err(CatalogError::TooMany { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Err(CatalogError::TooMany { segments_max: SEGMENTS_MAX })
    }

    /// Whether partitions and deletions are those of the snapshot; then it is confirmed.
    fn is_same(&self, found: &Snapshot, now_ns: u64) -> bool {
        let mut kept = self.lock();
        let Some(kept) = kept.as_mut() else { return false };
        let is_same = kept.snapshot.partitions == found.partitions
            && kept.snapshot.tombstones == found.tombstones
            && now_ns.saturating_sub(kept.taken_ns) < nanos(RENEWED_AFTER);
        if is_same {
            kept.confirmed_ns = now_ns;
        }
        is_same
    }

    /// The snapshot for a query over `times` that ends within `run_time`. By this node's clock, an
    /// eighth of the grace time is left for clocks that run at different rates.
    pub fn get(
        &self,
        times: TimeRange,
        run_time: Duration,
        now_ns: u64,
    ) -> Result<KeptSnapshot, KeptError> {
        let kept = self.lock();
        let kept = self.usable(kept.as_ref(), times, run_time, now_ns)?;
        let since = |ns: u64| Duration::from_nanos(now_ns.saturating_sub(ns));
        let (age, read) = (since(kept.confirmed_ns), since(kept.taken_ns));
        let segments = kept.snapshot.segments.iter().filter(|row| row.times.overlaps(&times));
        let snapshot = Snapshot {
            partitions: kept.snapshot.partitions.clone(),
            segments: segments.cloned().collect(),
            tombstones: kept.snapshot.tombstones.clone(),
        };
        Ok(KeptSnapshot { snapshot, age, read })
    }

    /// Whether [`get`](Self::get) has a snapshot for such a query, without a copy of its segments.
    pub fn serves(&self, times: TimeRange, run_time: Duration, now_ns: u64) -> bool {
        self.usable(self.lock().as_ref(), times, run_time, now_ns).is_ok()
    }

    fn usable<'k>(
        &self,
        kept: Option<&'k Kept>,
        times: TimeRange,
        run_time: Duration,
        now_ns: u64,
    ) -> Result<&'k Kept, KeptError> {
        let kept = kept.ok_or(KeptError::Nothing)?;
        let read = Duration::from_nanos(now_ns.saturating_sub(kept.taken_ns));
        if read.saturating_add(run_time) >= self.grace - self.grace / 8 {
            let (age_s, run_s) = (read.as_secs(), run_time.as_secs());
            return Err(KeptError::TooOld { age_s, run_s });
        }
        match times.first_ns < kept.first_ns {
            true => Err(KeptError::Beyond { hours: kept.hours }),
            false => Ok(kept),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Kept>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use platform::{Clock, ManualClock};

    use super::*;
    use crate::catalog::{Publication, SegmentRow};
    use crate::ids::{NodeId, Resource};
    use crate::sim::SimCatalog;

    const GRACE: Duration = Duration::from_secs(800);
    const MINUTE: Duration = Duration::from_secs(60);

    fn publish(catalog: &SimCatalog, number: i64) {
        let lease = catalog.acquire(Resource::Partition(0), NodeId(1), MINUTE).unwrap().unwrap();
        let offset = catalog.partition(&lease).unwrap().offset;
        let segment = SegmentRow {
            name: format!("segments/partition-0/{number}-00000001-1"),
            partition: 0,
            offsets: offset..offset + 1,
            times: TimeRange { first_ns: number * 100, last_ns: number * 100 + 50 },
            received_last_ns: 0,
            searched: 0,
            rules: 0,
            frames: Vec::new(),
            lines: 1,
            bytes: 1,
        };
        let segment = Some(segment);
        let producers = Vec::new();
        let publication = Publication { offsets: offset..offset + 1, segment, producers, lost: 0 };
        catalog.publish(&lease, &publication).unwrap();
    }

    #[test]
    fn a_snapshot_serves_until_its_objects_may_be_deleted() {
        let clock = Arc::new(ManualClock::new(0));
        let catalog = SimCatalog::new(clock.clone());
        let now_ns = || clock.monotonic_ns();
        let advance = |by: Duration| clock.advance_ns(i64::try_from(by.as_nanos()).unwrap());
        let kept = KeptCatalog::new(GRACE);
        let get = |times, run_time| kept.get(times, run_time, now_ns());
        assert_eq!(get(TimeRange::ALL, MINUTE), Err(KeptError::Nothing));
        assert!(!kept.serves(TimeRange::ALL, MINUTE, now_ns()));
        publish(&catalog, 1);
        publish(&catalog, 2);
        kept.refresh(&catalog, now_ns, 0).unwrap();
        let found = get(TimeRange::ALL, MINUTE).unwrap();
        assert_eq!((found.snapshot.segments.len(), found.age), (2, Duration::ZERO));
        assert_eq!(found.snapshot.partitions[0].offset, 2);
        let some = get(TimeRange { first_ns: 200, last_ns: 300 }, MINUTE).unwrap();
        assert_eq!(some.snapshot.segments.len(), 1);

        // Nothing has changed: the snapshot is confirmed, and the grace time counts from its read.
        advance(Duration::from_secs(10));
        kept.refresh(&catalog, now_ns, 0).unwrap();
        advance(Duration::from_secs(5));
        let found = get(TimeRange::ALL, MINUTE).unwrap();
        assert_eq!((found.age.as_secs(), found.read.as_secs()), (5, 15));
        publish(&catalog, 3);
        kept.refresh(&catalog, now_ns, 0).unwrap();
        assert_eq!(get(TimeRange::ALL, MINUTE).unwrap().snapshot.segments.len(), 3);
        // Segments are merged without a change of offsets, so it is read anew some time.
        advance(RENEWED_AFTER);
        kept.refresh(&catalog, now_ns, 0).unwrap();
        assert_eq!(get(TimeRange::ALL, MINUTE).unwrap().read, Duration::ZERO);

        // Seven eighths of the grace time, less the time of the query.
        advance(Duration::from_secs(700 - 60 - 1));
        assert!(get(TimeRange::ALL, MINUTE).is_ok());
        advance(Duration::from_secs(1));
        assert_eq!(get(TimeRange::ALL, MINUTE), Err(KeptError::TooOld { age_s: 640, run_s: 60 }));
        assert!(get(TimeRange::ALL, Duration::from_secs(59)).is_ok());
        assert!(!kept.serves(TimeRange::ALL, MINUTE, now_ns()));
        assert!(kept.serves(TimeRange::ALL, Duration::from_secs(59), now_ns()));
    }
}
