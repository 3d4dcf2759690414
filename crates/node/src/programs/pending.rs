//! The buckets of a program that have lines which its rows do not count yet.
//!
//! Buckets are numbered ([`Buckets`]). They are kept as ranges, each with the time at which it is
//! due. A bucket that fails is due again after a pause that doubles. Times come from the wall
//! clock: one that is further ahead than any wait shows that the clock was set back, and is over.
//!
//! Invariants:
//! - A noted bucket stays until it was taken and its rows are durable: nothing is forgotten. At the
//!   bound, neighbouring ranges become one, so that buckets between them are computed without need.
//! - Ranges do not overlap.

use std::collections::BTreeMap;

const SECOND_NS: i64 = 1_000_000_000;
/// Ranges of one program. Beyond it, those with the smallest gaps between them become one.
///
/// limits.md, Programs of users: buckets with lines that were not computed, of a program | {}
/// ranges | neighbouring ranges are joined: buckets between them are computed without need
pub const RANGES_MAX: usize = 10_000;
/// Buckets whose attempts are remembered; of others every failure counts as the first.
const ATTEMPTS_MAX: usize = 10_000;
/// The longest pause before a bucket that failed is tried again.
const BUCKET_PAUSE_MAX_S: i64 = 600;
/// The longest pause of a program whose buckets fail one after the other.
const PROGRAM_PAUSE_MAX_S: i64 = 60;

/// The buckets of a width: bucket `i` covers the event times from `i` widths to before `i + 1`.
#[derive(Clone, Copy, Debug)]
pub struct Buckets {
    /// Width of a bucket, nanoseconds; above zero.
    pub width_ns: i64,
}

impl Buckets {
    /// The buckets of a width in seconds.
    pub fn of_width(width_s: u32) -> Buckets {
        Buckets { width_ns: i64::from(width_s) * SECOND_NS }
    }

    /// The bucket of an instant.
    pub fn at(&self, time_ns: i64) -> i64 {
        time_ns.div_euclid(self.width_ns)
    }

    /// The first instant of a bucket; the nearest that there is where it would be beyond all times.
    pub fn start_ns(&self, bucket: i64) -> i64 {
        bucket.saturating_mul(self.width_ns)
    }
}

/// Buckets next to each other that are due together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Range {
    /// The bucket behind the last one.
    end: i64,
    due_ns: i64,
}

/// Pending buckets; see the module.
#[derive(Clone, Debug)]
pub struct PendingBuckets {
    buckets: Buckets,
    /// Waiting for lines that are a little late, nanoseconds.
    delay_ns: i64,
    /// By the first bucket.
    ranges: BTreeMap<i64, Range>,
    /// Whether the newest range is taken next, or the oldest.
    takes_oldest: bool,
    /// Buckets that are being computed: the first, and the one behind the last.
    taken: Option<(i64, i64)>,
    /// Failed attempts of buckets, as long as they fail.
    attempts: BTreeMap<i64, u32>,
    /// Nothing is taken before.
    paused_until_ns: i64,
}

impl PendingBuckets {
    /// No buckets. `delay_s` is the wait for lines that are a little late.
    pub fn new(buckets: Buckets, delay_s: u64) -> PendingBuckets {
        PendingBuckets {
            buckets,
            delay_ns: i64::try_from(delay_s).unwrap_or(i64::MAX).saturating_mul(SECOND_NS),
            ranges: BTreeMap::new(),
            takes_oldest: false,
            taken: None,
            attempts: BTreeMap::new(),
            paused_until_ns: 0,
        }
    }

    /// Notes that a line of a bucket came at `now_ns`.
    pub fn note(&mut self, bucket: i64, now_ns: i64) {
        if self.range_of(bucket).is_none() {
            let due_ns = self.due_ns(bucket, now_ns);
            self.ranges.insert(bucket, Range { end: bucket.saturating_add(1), due_ns });
            self.compact();
        }
    }

    /// When a bucket is due of which a line came at `now_ns`: a little after its end; at the latest
    /// a width after the line, for lines with times in the future.
    fn due_ns(&self, bucket: i64, now_ns: i64) -> i64 {
        let end_ns = self.buckets.start_ns(bucket.saturating_add(1));
        let latest_ns = now_ns.saturating_add(self.buckets.width_ns);
        end_ns.clamp(now_ns, latest_ns).saturating_add(self.delay_ns)
    }

    /// Puts the buckets from `start` to before `end` back, due at `due_ns`. Those that were noted
    /// meanwhile keep the earlier time.
    pub fn put_back(&mut self, start: i64, end: i64, due_ns: i64) {
        let mut at = start;
        while at < end {
            match self.range_of(at) {
                Some((_, range)) => at = range.end,
                None => {
                    let next = self.ranges.range(at..).next().map_or(end, |(start, _)| *start);
                    let until = next.min(end);
                    self.ranges.insert(at, Range { end: until, due_ns });
                    at = until;
                }
            }
        }
        self.compact();
    }

    /// Takes at most `buckets_max` buckets next to each other that are due: in turn the newest and
    /// the oldest, so that neither live charts nor a backlog wait for the other. Returns the first,
    /// and the one behind the last. They stay pending until they are [settled](Self::settle).
    pub fn take(&mut self, now_ns: i64, buckets_max: i64) -> Option<(i64, i64)> {
        // A thread that panicked may have left buckets behind.
        if let Some((start, end)) = self.taken.take() {
            self.put_back(start, end, now_ns);
        }
        let left_ns = self.paused_until_ns.saturating_sub(now_ns);
        if left_ns <= 0 || left_ns > PROGRAM_PAUSE_MAX_S * SECOND_NS {
            self.taken = self.take_due(now_ns, buckets_max);
        }
        self.taken
    }

    /// The buckets that were taken are done, but for those that were put back or failed since.
    pub fn settle(&mut self) {
        self.taken = None;
    }

    /// The rows of a bucket are durable.
    pub fn forget_failures(&mut self, bucket: i64) {
        self.attempts.remove(&bucket);
    }

    /// Puts a bucket back that failed. It is due after a second, doubled with each failure.
    pub fn fail(&mut self, bucket: i64, now_ns: i64) {
        let room = self.attempts.len() < ATTEMPTS_MAX;
        let before = self.attempts.get(&bucket).copied().unwrap_or(0);
        if before > 0 || room {
            self.attempts.insert(bucket, before.saturating_add(1));
        }
        let due_ns = now_ns.saturating_add(pause_ns(before.saturating_add(1), BUCKET_PAUSE_MAX_S));
        self.put_back(bucket, bucket.saturating_add(1), due_ns);
    }

    /// Takes nothing for a while, after `failures` without a success between them.
    pub fn pause(&mut self, failures: u32, now_ns: i64) {
        self.paused_until_ns = now_ns.saturating_add(pause_ns(failures, PROGRAM_PAUSE_MAX_S));
    }

    fn take_due(&mut self, now_ns: i64, buckets_max: i64) -> Option<(i64, i64)> {
        let wait_ns = self.buckets.width_ns.saturating_add(self.delay_ns);
        let wait_max_ns = wait_ns.max(BUCKET_PAUSE_MAX_S * SECOND_NS);
        let is_over = |range: &Range| {
            let left_ns = range.due_ns.saturating_sub(now_ns);
            left_ns <= 0 || left_ns > wait_max_ns
        };
        let is_due = |(_, range): &(&i64, &Range)| is_over(range);
        self.takes_oldest = !self.takes_oldest;
        let mut due = self.ranges.iter();
        let found = if self.takes_oldest { due.find(is_due) } else { due.rfind(is_due) };
        let (&found, _) = found?;
        // The newest range may be the end of a chain of ranges, which is taken with it.
        let mut start = found;
        while let Some((&before, range)) = self.ranges.range(..start).next_back()
            && range.end == start
            && is_over(range)
            && found.saturating_sub(before) < buckets_max
        {
            start = before;
        }
        let mut end = start;
        while end.saturating_sub(start) < buckets_max
            && let Some(range) = self.ranges.get(&end).copied().filter(is_over)
        {
            self.ranges.remove(&end);
            let until = range.end.min(start.saturating_add(buckets_max));
            if until < range.end {
                self.ranges.insert(until, range);
            }
            end = until;
        }
        Some((start, end))
    }

    /// When the next bucket is due.
    pub fn next_due_ns(&self) -> Option<i64> {
        self.ranges.values().map(|range| range.due_ns).min()
    }

    /// Buckets that are due, or will be, or are being computed.
    pub fn count(&self) -> u64 {
        self.ranges().map(|(start, end)| end.saturating_sub(start) as u64).sum()
    }

    /// The ranges, and the buckets that are being computed: first bucket, and the one behind the
    /// last.
    pub fn ranges(&self) -> impl Iterator<Item = (i64, i64)> + '_ {
        self.ranges.iter().map(|(start, range)| (*start, range.end)).chain(self.taken)
    }

    fn range_of(&self, bucket: i64) -> Option<(i64, Range)> {
        let (&start, &range) = self.ranges.range(..=bucket).next_back()?;
        (bucket < range.end).then_some((start, range))
    }

    /// At the bound, halves the number of ranges.
    fn compact(&mut self) {
        if self.ranges.len() <= RANGES_MAX {
            return;
        }
        let mut gaps: Vec<i64> = (self.ranges.values().zip(self.ranges.keys().skip(1)))
            .map(|(range, next)| next.saturating_sub(range.end))
            .collect();
        gaps.sort_unstable();
        let joined_gap = gaps[gaps.len() / 2];
        let ranges = std::mem::take(&mut self.ranges);
        let mut last: Option<(i64, Range)> = None;
        for (start, range) in ranges {
            last = match last {
                Some((first, before)) if start.saturating_sub(before.end) <= joined_gap => {
                    let due_ns = before.due_ns.min(range.due_ns);
                    Some((first, Range { end: range.end, due_ns }))
                }
                other => {
                    self.ranges.extend(other);
                    Some((start, range))
                }
            };
        }
        self.ranges.extend(last);
    }
}

/// One second, doubled with each attempt after the first.
fn pause_ns(attempts: u32, max_s: i64) -> i64 {
    let doubled = 1i64 << attempts.saturating_sub(1).min(20);
    doubled.min(max_s) * SECOND_NS
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    const S: i64 = 1_000_000_000;
    const BUCKETS: Buckets = Buckets { width_ns: 10 * S };

    fn none() -> PendingBuckets {
        PendingBuckets::new(BUCKETS, 2)
    }

    /// Takes buckets, and is done with them.
    fn take(pending: &mut PendingBuckets, now_ns: i64, buckets_max: i64) -> Option<(i64, i64)> {
        let taken = pending.take(now_ns, buckets_max);
        pending.settle();
        taken
    }

    #[test]
    fn a_bucket_is_due_a_little_after_its_end() {
        let mut pending = none();
        pending.note(BUCKETS.at(25 * S), 26 * S);
        assert_eq!(pending.next_due_ns(), Some(32 * S));
        assert_eq!(take(&mut pending, 32 * S - 1, 8), None);
        assert_eq!(take(&mut pending, 32 * S, 8), Some((2, 3)));
        assert_eq!(pending.next_due_ns(), None);
    }

    #[test]
    fn late_lines_are_due_soon_and_lines_of_the_future_before_their_time() {
        let mut pending = none();
        pending.note(0, 1000 * S);
        assert_eq!(pending.next_due_ns(), Some(1002 * S));
        let mut pending = none();
        pending.note(1_000_000, 1000 * S);
        assert_eq!(pending.next_due_ns(), Some(1012 * S));
        pending.note(i64::MAX, 1000 * S);
        pending.note(i64::MIN, 1000 * S);
        while take(&mut pending, i64::MAX, 8).is_some() {}
        assert_eq!(pending.ranges().count(), 0);
    }

    #[test]
    fn the_newest_and_the_oldest_buckets_are_taken_in_turn() {
        let mut pending = none();
        for bucket in [1, 2, 3, 50, 51, 99, 100] {
            pending.note(bucket, 0);
        }
        assert_eq!(take(&mut pending, i64::MAX, 2), Some((1, 3)));
        assert_eq!(take(&mut pending, i64::MAX, 2), Some((99, 101)));
        assert_eq!(take(&mut pending, i64::MAX, 2), Some((3, 4)));
        assert_eq!(take(&mut pending, i64::MAX, 2), Some((50, 52)));
        assert_eq!(take(&mut pending, i64::MAX, 2), None);
    }

    #[test]
    fn what_is_put_back_waits_and_what_was_noted_meanwhile_does_not() {
        let mut pending = none();
        pending.note(5, 0);
        pending.put_back(3, 8, 1001 * S);
        assert_eq!(take(&mut pending, 1000 * S, 8), Some((5, 6)));
        assert_eq!(pending.ranges().collect::<Vec<_>>(), [(3, 5), (6, 8)]);
    }

    #[test]
    fn a_clock_that_was_set_back_does_not_end_the_program() {
        const YEAR_NS: i64 = 365 * 86_400 * S;
        let mut pending = none();
        pending.note(5, YEAR_NS);
        pending.fail(7, YEAR_NS);
        pending.pause(9, YEAR_NS);
        assert_eq!(take(&mut pending, YEAR_NS, 8), None);
        assert_eq!(take(&mut pending, 1000 * S, 8), Some((5, 6)));
        assert_eq!(take(&mut pending, 1000 * S, 8), Some((7, 8)));
        // What was noted by the right clock waits as ever.
        pending.note(100, 1000 * S);
        pending.pause(9, 1000 * S);
        assert_eq!(take(&mut pending, 1059 * S, 8), None);
        assert_eq!(take(&mut pending, 1060 * S, 8), Some((100, 101)));
    }

    #[test]
    fn a_bucket_that_fails_waits_longer_each_time() {
        let mut pending = none();
        pending.note(5, 0);
        let mut now_ns = 1000 * S;
        for pause_s in [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 600, 600] {
            assert_eq!(pending.take(now_ns, 8), Some((5, 6)));
            assert_eq!(pending.count(), 1, "it is pending while it is computed");
            pending.settle();
            pending.fail(5, now_ns);
            now_ns += pause_s * S;
            assert_eq!(take(&mut pending, now_ns - 1, 8), None);
        }
        pending.forget_failures(5);
        pending.fail(5, now_ns);
        // The pause of the program counts as well as that of the bucket.
        pending.pause(3, now_ns);
        assert_eq!(take(&mut pending, now_ns + 4 * S - 1, 8), None);
        assert_eq!(pending.take(now_ns + 4 * S, 8), Some((5, 6)));
        // Not settled: the thread died.
        assert_eq!(pending.take(now_ns + 4 * S, 8), Some((5, 6)));
    }

    proptest! {
        #[test]
        fn nothing_is_forgotten(
            noted in proptest::collection::vec(-50i64..50, 0..60),
            put_back in (-60i64..60, 0i64..20),
            buckets_max in 1i64..9,
        ) {
            let mut pending = none();
            let mut expected = BTreeSet::new();
            for bucket in noted {
                pending.note(bucket, 0);
                expected.insert(bucket);
            }
            pending.put_back(put_back.0, put_back.0 + put_back.1, 0);
            expected.extend(put_back.0..put_back.0 + put_back.1);
            prop_assert_eq!(pending.count(), expected.len() as u64);
            let mut taken = BTreeSet::new();
            while let Some((start, end)) = take(&mut pending, i64::MAX, buckets_max) {
                prop_assert!(start < end && end - start <= buckets_max);
                for bucket in start..end {
                    prop_assert!(taken.insert(bucket), "{} is taken once", bucket);
                }
            }
            prop_assert_eq!(taken, expected);
        }
    }

    #[test]
    fn at_the_bound_ranges_are_joined() {
        let mut pending = none();
        let noted = |i: i64| i * 3 + i / 100 * 1000;
        for i in 0..=RANGES_MAX as i64 {
            pending.note(noted(i), 0);
        }
        assert!(pending.ranges.len() <= RANGES_MAX / 2 + 1, "{}", pending.ranges.len());
        assert!((0..=RANGES_MAX as i64).all(|i| pending.range_of(noted(i)).is_some()));
        assert!(pending.count() < 4 * RANGES_MAX as u64, "{}", pending.count());
    }
}
