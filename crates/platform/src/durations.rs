//! How long things took, counted in buckets without a lock: histograms of metrics.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// The upper ends of the buckets, milliseconds. Durations above the last one are in a bucket of
/// their own. They are a little more than a factor of two apart, so a quantile that is computed
/// from them is right within that factor.
pub const BOUNDS_MS: [u64; 16] =
    [1, 2, 5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000];

/// A running histogram.
#[derive(Debug, Default)]
pub struct Durations {
    buckets: [AtomicU64; BOUNDS_MS.len() + 1],
    sum_ns: AtomicU64,
    max_ns: AtomicU64,
}

/// What a histogram has counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DurationCounts {
    /// How many durations were at most as long as each of [`BOUNDS_MS`]; last, how many there were.
    pub up_to: [u64; BOUNDS_MS.len() + 1],
    /// The sum of all durations, nanoseconds.
    pub sum_ns: u64,
    /// The longest one, nanoseconds.
    pub max_ns: u64,
}

impl Durations {
    /// Counts one duration.
    pub fn add(&self, duration: Duration) {
        let bucket = BOUNDS_MS.partition_point(|&end| Duration::from_millis(end) < duration);
        self.buckets[bucket].fetch_add(1, Relaxed);
        let ns = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        self.sum_ns.fetch_add(ns, Relaxed);
        self.max_ns.fetch_max(ns, Relaxed);
    }

    /// The counts at this moment. Each bucket is read once, so that no bound counts more than the
    /// next one.
    pub fn counts(&self) -> DurationCounts {
        let mut counts = DurationCounts {
            sum_ns: self.sum_ns.load(Relaxed),
            max_ns: self.max_ns.load(Relaxed),
            ..DurationCounts::default()
        };
        let mut before = 0;
        for (up_to, bucket) in counts.up_to.iter_mut().zip(&self.buckets) {
            before += bucket.load(Relaxed);
            *up_to = before;
        }
        counts
    }
}

impl DurationCounts {
    /// How many durations were counted.
    pub fn count(&self) -> u64 {
        self.up_to[BOUNDS_MS.len()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_belongs_to_its_bucket() {
        let durations = Durations::default();
        assert_eq!(durations.counts(), DurationCounts::default());
        for ns in [0, 1_000_000, 1_000_001, 100_000_000_000, 100_000_000_001] {
            durations.add(Duration::from_nanos(ns));
        }
        let counts = durations.counts();
        assert_eq!(counts.up_to[..3], [2, 3, 3]);
        assert_eq!(counts.up_to[BOUNDS_MS.len() - 2..], [3, 4, 5]);
        assert_eq!(counts.count(), 5);
        assert_eq!((counts.sum_ns, counts.max_ns), (200_002_000_002, 100_000_000_001));
    }

    #[test]
    fn bounds_ascend() {
        assert!(BOUNDS_MS.windows(2).all(|pair| pair[0] < pair[1]));
    }
}
