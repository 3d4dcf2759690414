//! Retention: drops whole segments by age and by the size of all. Rules, which select lines, are
//! applied by [`crate::Prune`].
//!
//! Ages count from when the frames of a segment were sealed, by the catalog's clock, and up to the
//! time that the [clock of retention](crate::jobs::retention_clock) believes: neither a wrong clock
//! of a collector nor one of the catalog that jumps ahead drops young segments.

use std::time::Duration;

use crate::catalog::Catalog;
use crate::ids::Lease;
use crate::jobs::JobError;
use crate::jobs::retention_clock::{self, ClockNotice};

/// Limits on what is kept; `None` keeps everything.
#[derive(Clone, Debug, Default)]
pub struct RetentionSettings {
    /// Age of a segment since its newest frames were sealed, beyond which it is dropped.
    pub age_max: Option<Duration>,
    /// Bytes of all segments, beyond which the oldest are dropped.
    pub bytes_max: Option<u64>,
    /// Lines that are dropped earlier than others.
    pub rules: Vec<RetentionRule>,
}

impl RetentionSettings {
    /// The longest span of arrivals that a merge may make: an eighth of the shortest age, so that
    /// lines stay at most that much longer; `None` without ages.
    pub fn merged_span(&self) -> Option<Duration> {
        let ages = self.rules.iter().map(|rule| rule.age).chain(self.age_max);
        ages.min().map(|age| age / 8)
    }
}

/// Lines that are dropped earlier than others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetentionRule {
    /// Selects the lines; a text that the jobs do not interpret.
    pub filter: String,
    /// Age of their segment at which they are dropped.
    pub age: Duration,
}

/// Segments that are dropped with one transaction.
const BATCH: usize = 256;

/// Drops segments, and ends deletions that are done; stepped by one thread, under a lease of
/// [`crate::Resource::Retention`].
pub struct Retention {
    lease: Lease,
    settings: RetentionSettings,
    notice: Option<ClockNotice>,
}

impl Retention {
    /// Drops what is beyond the limits.
    pub fn new(lease: Lease, settings: RetentionSettings) -> Retention {
        Retention { lease, settings, notice: None }
    }

    /// Drops up to 256 segments; returns how many. After 0, nothing is due.
    pub fn step(&mut self, catalog: &dyn Catalog) -> Result<usize, JobError> {
        catalog.end_deletions(&self.lease)?;
        // Without an age, too: rules go by it, and an age that is set later.
        let (believed_ns, notice) = retention_clock::turn(catalog, &self.lease)?;
        self.notice = self.notice.or(notice);
        let mut names = Vec::new();
        if let Some(age_max) = self.settings.age_max {
            let age_ns = i64::try_from(age_max.as_nanos()).unwrap_or(i64::MAX);
            let newest_ns = believed_ns.saturating_sub(age_ns);
            // The clock of the catalog may have jumped a moment ago.
            let old = catalog.older_than(age_max, BATCH)?.into_iter();
            let old = old.filter(|row| row.received_last_ns <= newest_ns);
            names.extend(old.map(|row| row.name));
        }
        if let (Some(bytes_max), true) = (self.settings.bytes_max, names.is_empty()) {
            let mut bytes = catalog.totals()?.bytes;
            if bytes > bytes_max {
                for segment in catalog.older_than(Duration::ZERO, BATCH)? {
                    if bytes <= bytes_max {
                        break;
                    }
                    bytes = bytes.saturating_sub(segment.bytes);
                    names.push(segment.name);
                }
            }
        }
        if !names.is_empty() {
            catalog.replace(&self.lease, &names, None)?;
        }
        Ok(names.len())
    }

    /// What became of a clock that jumped ahead, since this was asked last. Each is told once, by
    /// the node that notices it.
    pub fn take_notice(&mut self) -> Option<ClockNotice> {
        self.notice.take()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use platform::ManualClock;

    use super::*;
    use crate::catalog::{Publication, SegmentRow, TimeRange};
    use crate::ids::{NodeId, Resource};
    use crate::sim::SimCatalog;

    const HOUR: Duration = Duration::from_secs(3600);
    const HOUR_NS: i64 = 3_600_000_000_000;
    const DAY_NS: i64 = 24 * HOUR_NS;
    const START_NS: i64 = 20_000 * DAY_NS;

    /// A catalog with segments of these times.
    fn catalog(received: &[i64]) -> (Arc<ManualClock>, SimCatalog, Lease) {
        let clock = Arc::new(ManualClock::new(START_NS));
        let catalog = SimCatalog::new(clock.clone());
        let lease = catalog.acquire(Resource::Partition(0), NodeId(1), HOUR).unwrap().unwrap();
        for (number, &received_last_ns) in (0..).zip(received) {
            let segment = SegmentRow {
                name: format!("segments/partition-0/1-00000001-{number}"),
                partition: 0,
                offsets: number..number + 1,
                times: TimeRange::ALL,
                received_last_ns,
                lines: 1,
                bytes: 10,
                searched: 0,
                rules: 0,
                frames: Vec::new(),
            };
            let publication = Publication {
                offsets: number..number + 1,
                segment: Some(segment),
                producers: Vec::new(),
                lost: 0,
            };
            catalog.publish(&lease, &publication).unwrap();
        }
        let lease = catalog.acquire(Resource::Retention, NodeId(1), HOUR).unwrap().unwrap();
        (clock, catalog, lease)
    }

    #[test]
    fn a_clock_of_the_catalog_that_jumps_ahead_drops_nothing_that_is_young() {
        let (clock, catalog, lease) = catalog(&[START_NS, START_NS - 31 * DAY_NS]);
        let age_max = Some(Duration::from_secs(30 * 86_400));
        // Each turn may be another node's.
        let turn = || {
            let settings = RetentionSettings { age_max, ..RetentionSettings::default() };
            let mut retention = Retention::new(lease, settings);
            let dropped = retention.step(&catalog).unwrap();
            (dropped, retention.take_notice())
        };
        assert_eq!(turn(), (1, None), "the old one");
        clock.advance_ns(HOUR_NS);
        assert_eq!(turn(), (0, None));
        clock.set_ahead_ns(365 * DAY_NS);
        let (dropped, notice) = turn();
        assert!(dropped == 0 && matches!(notice, Some(ClockNotice::Held { .. })), "{notice:?}");
        for hour in 1..72 {
            clock.advance_ns(HOUR_NS);
            assert_eq!(turn(), (0, None), "hour {hour}");
        }
        // Set right, it is believed at once, and the segment goes when its time has come.
        clock.set_ahead_ns(-365 * DAY_NS);
        let (dropped, notice) = turn();
        assert!(dropped == 0 && matches!(notice, Some(ClockNotice::Believed { .. })), "{notice:?}");
        let mut days = 3;
        while turn().0 == 0 {
            clock.advance_ns(DAY_NS);
            days += 1;
        }
        assert_eq!(days, 30);
    }

    #[test]
    fn a_clock_that_goes_on_for_three_days_is_believed() {
        let (clock, catalog, lease) = catalog(&[START_NS]);
        let age_max = Some(Duration::from_secs(30 * 86_400));
        let settings = RetentionSettings { age_max, ..RetentionSettings::default() };
        let mut retention = Retention::new(lease, settings);
        assert_eq!(retention.step(&catalog), Ok(0));
        clock.set_ahead_ns(365 * DAY_NS);
        assert_eq!(retention.step(&catalog), Ok(0));
        for _ in 1..72 {
            clock.advance_ns(HOUR_NS);
            assert_eq!(retention.step(&catalog), Ok(0));
        }
        clock.advance_ns(HOUR_NS);
        assert_eq!(retention.step(&catalog), Ok(1));
    }

    #[test]
    fn the_limit_on_bytes_does_not_depend_on_the_clock() {
        let (clock, catalog, lease) = catalog(&[START_NS, START_NS + 1, START_NS + 2]);
        clock.set_ahead_ns(-365 * DAY_NS);
        let settings = RetentionSettings { bytes_max: Some(20), ..RetentionSettings::default() };
        let mut retention = Retention::new(lease, settings);
        assert_eq!((retention.step(&catalog), retention.step(&catalog)), (Ok(1), Ok(0)));
        let left = catalog.segments_of(0, 0, 9).unwrap();
        let left: Vec<i64> = left.iter().map(|row| row.received_last_ns).collect();
        assert_eq!(left, [START_NS + 1, START_NS + 2], "the oldest goes");
    }
}
