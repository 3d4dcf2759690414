//! Clocks as values, so that tests can set the time.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Tells the time.
pub trait Clock: Send + Sync {
    /// Wall clock, nanoseconds since 1970 UTC. May jump when the machine's clock is set.
    fn now_ns(&self) -> i64;
    /// Nanoseconds since some fixed instant; never goes back. For durations.
    fn monotonic_ns(&self) -> u64;
}

/// The clock of the machine.
pub struct RealClock {
    start: Instant,
}

impl RealClock {
    /// A clock whose monotonic time begins now.
    pub fn new() -> Self {
        RealClock { start: Instant::now() }
    }
}

impl Default for RealClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for RealClock {
    fn now_ns(&self) -> i64 {
        match SystemTime::now().duration_since(UNIX_EPOCH) {
            Ok(since) => since.as_nanos().try_into().unwrap_or(i64::MAX),
            Err(before) => -before.duration().as_nanos().try_into().unwrap_or(i64::MAX),
        }
    }

    fn monotonic_ns(&self) -> u64 {
        self.start.elapsed().as_nanos().try_into().unwrap_or(u64::MAX)
    }
}

/// A clock that stands still until it is moved. Both times move together, unless it jumps.
pub struct ManualClock {
    start_ns: i64,
    now_ns: AtomicI64,
    /// By how much the wall clock was set, in sum.
    set_ns: AtomicI64,
}

impl ManualClock {
    /// A clock that shows `now_ns`.
    pub fn new(now_ns: i64) -> Self {
        ManualClock { start_ns: now_ns, now_ns: AtomicI64::new(now_ns), set_ns: AtomicI64::new(0) }
    }

    /// Advances by `ns`.
    pub fn advance_ns(&self, ns: i64) {
        assert!(ns >= 0, "time does not go back");
        self.now_ns.fetch_add(ns, Ordering::SeqCst);
    }

    /// Sets the wall clock ahead by `ns`, or back; monotonic time does not move.
    pub fn set_ahead_ns(&self, ns: i64) {
        self.set_ns.fetch_add(ns, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now_ns(&self) -> i64 {
        self.now_ns.load(Ordering::SeqCst) + self.set_ns.load(Ordering::SeqCst)
    }

    fn monotonic_ns(&self) -> u64 {
        (self.now_ns.load(Ordering::SeqCst) - self.start_ns) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn manual_clock_moves_on_request() {
        let clock = ManualClock::new(1_000);
        assert_eq!((clock.now_ns(), clock.monotonic_ns()), (1_000, 0));
        clock.advance_ns(5);
        assert_eq!((clock.now_ns(), clock.monotonic_ns()), (1_005, 5));
        clock.set_ahead_ns(-9);
        assert_eq!((clock.now_ns(), clock.monotonic_ns()), (996, 5));
    }

    #[test]
    fn real_clock_is_after_2020_and_monotonic() {
        let clock = RealClock::new();
        assert!(clock.now_ns() > 1_577_836_800_000_000_000);
        let first = clock.monotonic_ns();
        assert!(clock.monotonic_ns() >= first);
    }
}
