//! The buckets of a program that have lines which its rows do not count yet.
//!
//! Buckets are numbered: bucket `i` of width `w` covers the event times from `i * w` to before
//! `(i + 1) * w`. They are kept as ranges, each with the time at which it is due.
//!
//! Invariants:
//! - A noted bucket stays until it was taken and not put back: nothing is forgotten. At the bound,
//!   neighbouring ranges become one, so that buckets between them are computed without need.
//! - Ranges do not overlap.

use std::collections::BTreeMap;

/// Ranges of one program. Beyond it, those with the smallest gaps between them become one.
pub const RANGES_MAX: usize = 10_000;

/// When buckets are due.
#[derive(Clone, Copy, Debug)]
pub struct Schedule {
    /// Width of a bucket, nanoseconds; above zero.
    pub width_ns: i64,
    /// Waiting for lines that are a little late, nanoseconds.
    pub delay_ns: i64,
}

impl Schedule {
    /// The bucket of an instant.
    pub fn bucket(&self, time_ns: i64) -> i64 {
        time_ns.div_euclid(self.width_ns)
    }

    /// The first instant of a bucket; the nearest that there is where it would be beyond all times.
    pub fn start_ns(&self, bucket: i64) -> i64 {
        bucket.saturating_mul(self.width_ns)
    }

    /// When a bucket is due of which a line came at `now_ns`: a little after its end; at the latest
    /// a width after the line, for lines with times in the future.
    fn due_ns(&self, bucket: i64, now_ns: i64) -> i64 {
        let end_ns = self.start_ns(bucket.saturating_add(1));
        let latest_ns = now_ns.saturating_add(self.width_ns);
        end_ns.clamp(now_ns, latest_ns).saturating_add(self.delay_ns)
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
#[derive(Clone, Debug, Default)]
pub struct Pending {
    /// By the first bucket.
    ranges: BTreeMap<i64, Range>,
    /// Whether the newest range is taken next, or the oldest.
    takes_oldest: bool,
}

impl Pending {
    /// Notes that a line of a bucket came at `now_ns`.
    pub fn note(&mut self, bucket: i64, now_ns: i64, schedule: &Schedule) {
        if self.range_of(bucket).is_none() {
            let due_ns = schedule.due_ns(bucket, now_ns);
            self.ranges.insert(bucket, Range { end: bucket.saturating_add(1), due_ns });
            self.compact();
        }
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
    /// and the one behind the last.
    pub fn take(&mut self, now_ns: i64, buckets_max: i64) -> Option<(i64, i64)> {
        let is_due = |(_, range): &(&i64, &Range)| range.due_ns <= now_ns;
        self.takes_oldest = !self.takes_oldest;
        let mut due = self.ranges.iter();
        let found = if self.takes_oldest { due.find(is_due) } else { due.rfind(is_due) };
        let (&found, _) = found?;
        // The newest range may be the end of a chain of ranges, which is taken with it.
        let mut start = found;
        while let Some((&before, range)) = self.ranges.range(..start).next_back()
            && range.end == start
            && range.due_ns <= now_ns
            && found.saturating_sub(before) < buckets_max
        {
            start = before;
        }
        let mut end = start;
        while end.saturating_sub(start) < buckets_max
            && let Some(range) = self.ranges.get(&end).copied().filter(|r| r.due_ns <= now_ns)
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

    /// Buckets that are due, or will be.
    pub fn buckets(&self) -> u64 {
        let widths = self.ranges.iter().map(|(start, range)| range.end.saturating_sub(*start));
        widths.map(|width| width as u64).sum()
    }

    /// The ranges: first bucket, and the one behind the last.
    pub fn ranges(&self) -> impl Iterator<Item = (i64, i64)> + '_ {
        self.ranges.iter().map(|(start, range)| (*start, range.end))
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    const S: i64 = 1_000_000_000;
    const SCHEDULE: Schedule = Schedule { width_ns: 10 * S, delay_ns: 2 * S };

    #[test]
    fn a_bucket_is_due_a_little_after_its_end() {
        let mut pending = Pending::default();
        pending.note(SCHEDULE.bucket(25 * S), 26 * S, &SCHEDULE);
        assert_eq!(pending.next_due_ns(), Some(32 * S));
        assert_eq!(pending.take(32 * S - 1, 8), None);
        assert_eq!(pending.take(32 * S, 8), Some((2, 3)));
        assert_eq!(pending.next_due_ns(), None);
    }

    #[test]
    fn late_lines_are_due_soon_and_lines_of_the_future_before_their_time() {
        let mut pending = Pending::default();
        pending.note(0, 1000 * S, &SCHEDULE);
        assert_eq!(pending.next_due_ns(), Some(1002 * S));
        let mut pending = Pending::default();
        pending.note(1_000_000, 1000 * S, &SCHEDULE);
        assert_eq!(pending.next_due_ns(), Some(1012 * S));
        pending.note(i64::MAX, 1000 * S, &SCHEDULE);
        pending.note(i64::MIN, 1000 * S, &SCHEDULE);
        while pending.take(i64::MAX, 8).is_some() {}
        assert_eq!(pending.ranges().count(), 0);
    }

    #[test]
    fn the_newest_and_the_oldest_buckets_are_taken_in_turn() {
        let mut pending = Pending::default();
        for bucket in [1, 2, 3, 50, 51, 99, 100] {
            pending.note(bucket, 0, &SCHEDULE);
        }
        assert_eq!(pending.take(i64::MAX, 2), Some((1, 3)));
        assert_eq!(pending.take(i64::MAX, 2), Some((99, 101)));
        assert_eq!(pending.take(i64::MAX, 2), Some((3, 4)));
        assert_eq!(pending.take(i64::MAX, 2), Some((50, 52)));
        assert_eq!(pending.take(i64::MAX, 2), None);
    }

    #[test]
    fn what_is_put_back_waits_and_what_was_noted_meanwhile_does_not() {
        let mut pending = Pending::default();
        pending.note(5, 0, &SCHEDULE);
        pending.put_back(3, 8, i64::MAX);
        assert_eq!(pending.take(1000 * S, 8), Some((5, 6)));
        assert_eq!(pending.ranges().collect::<Vec<_>>(), [(3, 5), (6, 8)]);
    }

    proptest! {
        #[test]
        fn nothing_is_forgotten(
            noted in proptest::collection::vec(-50i64..50, 0..60),
            put_back in (-60i64..60, 0i64..20),
            buckets_max in 1i64..9,
        ) {
            let mut pending = Pending::default();
            let mut expected = BTreeSet::new();
            for bucket in noted {
                pending.note(bucket, 0, &SCHEDULE);
                expected.insert(bucket);
            }
            pending.put_back(put_back.0, put_back.0 + put_back.1, 0);
            expected.extend(put_back.0..put_back.0 + put_back.1);
            prop_assert_eq!(pending.buckets(), expected.len() as u64);
            let mut taken = BTreeSet::new();
            while let Some((start, end)) = pending.take(i64::MAX, buckets_max) {
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
        let mut pending = Pending::default();
        let noted = |i: i64| i * 3 + i / 100 * 1000;
        for i in 0..=RANGES_MAX as i64 {
            pending.note(noted(i), 0, &SCHEDULE);
        }
        assert!(pending.ranges.len() <= RANGES_MAX / 2 + 1, "{}", pending.ranges.len());
        assert!((0..=RANGES_MAX as i64).all(|i| pending.range_of(noted(i)).is_some()));
        assert!(pending.buckets() < 4 * RANGES_MAX as u64, "{}", pending.buckets());
    }
}
