//! Tells how far a long start is.

use platform::Clock;

/// Interval of lines in the log.
const INTERVAL_NS: u64 = 3_000_000_000;

/// One part of a start, which takes a step for each segment.
pub(crate) struct Progress<'a> {
    clock: &'a dyn Clock,
    /// What is being done, for people.
    what: &'static str,
    steps: usize,
    done: usize,
    told_ns: u64,
}

impl<'a> Progress<'a> {
    pub(crate) fn new(clock: &'a dyn Clock, what: &'static str, steps: usize) -> Progress<'a> {
        Progress { clock, what, steps, done: 0, told_ns: clock.monotonic_ns() }
    }

    /// Call before each step. Says in the log how many are done, every few seconds.
    pub(crate) fn step(&mut self) {
        if let Some(text) = self.due() {
            tracing::info!("{text}");
        }
        self.done += 1;
    }

    fn due(&mut self) -> Option<String> {
        let now_ns = self.clock.monotonic_ns();
        if now_ns - self.told_ns < INTERVAL_NS {
            return None;
        }
        self.told_ns = now_ns;
        Some(format!("opening the store: {}, {} of {} done", self.what, self.done, self.steps))
    }
}

#[cfg(test)]
mod tests {
    use platform::ManualClock;

    use super::*;

    #[test]
    fn a_long_start_says_how_far_it_is_and_a_short_one_nothing() {
        let clock = ManualClock::new(0);
        let mut progress = Progress::new(&clock, "reading", 9);
        let mut told = Vec::new();
        for _ in 0..9 {
            told.extend(progress.due());
            progress.step();
            clock.advance_ns(INTERVAL_NS as i64 / 3);
        }
        let expected = [3, 6].map(|done| format!("opening the store: reading, {done} of 9 done"));
        assert_eq!(told, expected);
    }
}
