//! The time by which retention measures ages.
//!
//! Retention deletes for good, so it does not believe a clock that jumps ahead: a wrong clock would
//! make all lines look too old at once. Time is expected to go on from the last time that was
//! believed, at the pace of the monotonic clock. What was believed is kept in the catalog; without
//! it, the newest arrival in the store counts.
//!
//! A clock that is more than [`JUMP_NS`] ahead of the expected time is not believed at once: either
//! it was set wrongly, or the store was closed, or the machine slept, for that long. Ages are then
//! measured by the expected time, and a warning is logged, once. Once the clock has gone on from
//! there for [`HOLD_NS`], restarts included, without another jump, it is believed. A clock that is
//! set back to the expected time, or before it, is believed at once: that deletes less.
//!
//! Left out: arrival times. Lines that came while the clock was ahead keep them.

use text::time::format_time;

use crate::catalog::{ClockRecord, HeldClock};
use crate::store_core::retention_log::age_text;

/// A clock that is further ahead of the expected time than this is held, nanoseconds.
const JUMP_NS: i64 = 24 * 3_600_000_000_000;
/// Time for which a clock that jumped ahead is held, by that clock, nanoseconds: long enough that
/// somebody reads the warning after a weekend.
const HOLD_NS: i64 = 3 * 24 * 3_600_000_000_000;
/// The catalog is written when the believed time is this much later than recorded, nanoseconds:
/// much less than a jump.
const RECORD_NS: i64 = 3_600_000_000_000;

/// The clock of retention. Its record is as of `monotonic_ns`.
pub(crate) struct RetentionClock {
    record: ClockRecord,
    monotonic_ns: u64,
    /// What the catalog has, as far as known.
    recorded: Option<ClockRecord>,
    has_warned: bool,
}

impl RetentionClock {
    /// Goes on from a record that was made before `monotonic_ns`.
    pub(crate) fn new(record: ClockRecord, monotonic_ns: u64) -> Self {
        RetentionClock { record, monotonic_ns, recorded: None, has_warned: false }
    }

    /// The time by which ages are measured, when the wall clock shows `now_ns`.
    pub(crate) fn read(&mut self, now_ns: i64, monotonic_ns: u64) -> i64 {
        let passed_ns = monotonic_ns.saturating_sub(self.monotonic_ns);
        let passed_ns = i64::try_from(passed_ns).unwrap_or(i64::MAX);
        self.monotonic_ns = self.monotonic_ns.max(monotonic_ns);
        let expected_ns = self.record.believed_ns.saturating_add(passed_ns);
        if now_ns <= expected_ns.saturating_add(JUMP_NS) {
            if self.record.held.is_some() {
                tracing::info!("the clock shows {} again: it is believed", format_time(now_ns));
            }
            return self.believe(now_ns);
        }
        let held = match self.record.held {
            Some(held)
                if held.since_ns <= now_ns
                    && now_ns <= held.seen_ns.saturating_add(passed_ns).saturating_add(JUMP_NS) =>
            {
                HeldClock { seen_ns: now_ns, ..held }
            }
            // It jumped now, or once more.
            _ => {
                self.has_warned = false;
                HeldClock { since_ns: now_ns, seen_ns: now_ns }
            }
        };
        if now_ns.saturating_sub(held.since_ns) >= HOLD_NS {
            tracing::info!(
                "the clock has gone on for {} since it was set ahead: it is believed, and retention by age goes by it",
                age_text(HOLD_NS)
            );
            return self.believe(now_ns);
        }
        if !self.has_warned {
            self.has_warned = true;
            tracing::warn!(
                "the clock shows {}, which is {} later than expected: it was set ahead, or Loginson did not run \
                 meanwhile. Until {} retention measures ages from {} on, so that a wrong clock deletes nothing. If the \
                 clock is wrong, set it before then",
                format_time(now_ns),
                age_text((now_ns - expected_ns) / 1_000_000_000 * 1_000_000_000),
                format_time(held.since_ns.saturating_add(HOLD_NS)),
                format_time(expected_ns)
            );
        }
        self.record = ClockRecord { believed_ns: expected_ns, held: Some(held) };
        expected_ns
    }

    fn believe(&mut self, now_ns: i64) -> i64 {
        self.record = ClockRecord { believed_ns: now_ns, held: None };
        self.has_warned = false;
        now_ns
    }

    /// What the catalog is to have, if it has something else that matters.
    pub(crate) fn to_be_recorded(&self) -> Option<ClockRecord> {
        let is_recorded = |recorded: ClockRecord| {
            let since = |record: ClockRecord| record.held.map(|held| held.since_ns);
            let seen = |record: ClockRecord| record.held.map_or(record.believed_ns, |h| h.seen_ns);
            since(recorded) == since(self.record)
                && seen(recorded).abs_diff(seen(self.record)) < RECORD_NS as u64
        };
        (!self.recorded.is_some_and(is_recorded)).then_some(self.record)
    }

    /// As it is, for the end.
    pub(crate) fn record(&self) -> ClockRecord {
        self.record
    }

    /// Notes what the catalog has.
    pub(crate) fn set_recorded(&mut self, record: ClockRecord) {
        self.recorded = Some(record);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR_NS: i64 = 3_600_000_000_000;
    const DAY_NS: i64 = 24 * HOUR_NS;

    fn clock(believed_ns: i64) -> RetentionClock {
        RetentionClock::new(ClockRecord { believed_ns, held: None }, 0)
    }

    /// Reads the clock at each hour of `hours`; the wall clock is ahead of the monotonic by
    /// `ahead_ns`. Returns the last time read.
    fn run(clock: &mut RetentionClock, hours: std::ops::RangeInclusive<i64>, ahead_ns: i64) -> i64 {
        hours
            .map(|hour| clock.read(hour * HOUR_NS + ahead_ns, (hour * HOUR_NS) as u64))
            .last()
            .expect("an hour")
    }

    #[test]
    fn a_clock_that_goes_on_is_believed_and_so_is_one_that_is_set_by_up_to_a_day() {
        for ahead_ns in [0, DAY_NS, -DAY_NS, -900 * DAY_NS] {
            let mut clock = clock(0);
            assert_eq!(run(&mut clock, 1..=100, ahead_ns), 100 * HOUR_NS + ahead_ns);
        }
        // In steps, as NTP or an operator would.
        let mut clock = clock(0);
        for (hour, ahead) in [(1, 20), (2, 40), (3, 60)] {
            let wall_ns = (hour + ahead) * HOUR_NS;
            assert_eq!(clock.read(wall_ns, (hour * HOUR_NS) as u64), wall_ns);
        }
    }

    #[test]
    fn a_clock_that_jumps_by_more_than_a_day_is_held_for_three() {
        let mut clock = clock(0);
        run(&mut clock, 1..=10, 0);
        assert_eq!(run(&mut clock, 10..=81, DAY_NS + 1), 81 * HOUR_NS, "held");
        assert_eq!(run(&mut clock, 82..=90, 3_000 * DAY_NS), 90 * HOUR_NS, "held");
        assert_eq!(run(&mut clock, 91..=95, 0), 95 * HOUR_NS, "it is set back");
        let ahead_ns = 3_000 * DAY_NS;
        assert_eq!(run(&mut clock, 96..=167, ahead_ns), 167 * HOUR_NS);
        assert_eq!(run(&mut clock, 168..=168, ahead_ns), 168 * HOUR_NS + ahead_ns, "believed");
    }

    #[test]
    fn another_jump_begins_the_time_anew() {
        let mut clock = clock(0);
        assert_eq!(run(&mut clock, 0..=71, 100 * DAY_NS), 71 * HOUR_NS);
        assert_eq!(run(&mut clock, 72..=143, 900 * DAY_NS), 143 * HOUR_NS, "a second jump");
        // Back by a part: still ahead of what is expected.
        assert_eq!(run(&mut clock, 144..=215, 50 * DAY_NS), 215 * HOUR_NS);
        assert_eq!(run(&mut clock, 216..=216, 50 * DAY_NS), 216 * HOUR_NS + 50 * DAY_NS);
    }

    #[test]
    fn restarts_neither_end_nor_prolong_the_hold() {
        let mut record = ClockRecord { believed_ns: 0, held: None };
        let jumped_ns = 1_000 * DAY_NS;
        // Each start begins monotonic time anew, and runs for eight hours of a day.
        for day in 0..=3 {
            let mut clock = RetentionClock::new(record, 50);
            for hour in 0..8 {
                let now_ns = jumped_ns + day * DAY_NS + hour * HOUR_NS;
                let read_ns = clock.read(now_ns, 50 + (hour * HOUR_NS) as u64);
                assert_eq!(read_ns == now_ns, day == 3, "day {day}, hour {hour}: {read_ns}");
            }
            record = clock.record();
        }
    }

    #[test]
    fn what_matters_is_recorded() {
        let mut clock = clock(0);
        let mut writes = 0;
        let mut note = |clock: &mut RetentionClock| {
            if let Some(record) = clock.to_be_recorded() {
                clock.set_recorded(record);
                writes += 1;
            }
            writes
        };
        assert_eq!(note(&mut clock), 1);
        clock.read(HOUR_NS - 1, (HOUR_NS - 1) as u64);
        assert_eq!(note(&mut clock), 1);
        clock.read(HOUR_NS, HOUR_NS as u64);
        assert_eq!(note(&mut clock), 2);
        clock.read(90 * DAY_NS, HOUR_NS as u64);
        assert_eq!(note(&mut clock), 3, "it is held");
        clock.read(90 * DAY_NS + 5, HOUR_NS as u64 + 5);
        assert_eq!(note(&mut clock), 3);
        clock.read(HOUR_NS + 6, HOUR_NS as u64 + 6);
        assert_eq!(note(&mut clock), 4, "it is believed");
    }
}
