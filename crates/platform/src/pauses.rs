//! How long to wait before something that failed is tried again.
//!
//! Left out: pauses that a server asks for, and those of buckets of programs, which are counted by
//! bucket.

use std::time::Duration;

/// The pause before a thread that panicked resumes, so that repeated panics do not flood the log.
pub const PANIC_PAUSE: Duration = Duration::from_secs(1);

/// Pauses between attempts: each is twice as long as the one before, up to a limit.
#[derive(Clone, Copy, Debug)]
pub struct Pauses {
    first: Duration,
    longest: Duration,
    next: Duration,
}

impl Pauses {
    /// Pauses from `first` up to `longest`.
    pub const fn new(first: Duration, longest: Duration) -> Pauses {
        Pauses { first, longest, next: first }
    }

    /// The pause before the next attempt.
    pub fn pause(&mut self) -> Duration {
        let pause = self.next;
        self.next = (pause * 2).min(self.longest);
        pause
    }

    /// The same, up to a quarter shorter or longer, so that many that lost one server at a moment
    /// do not come back at one moment.
    pub fn spread_pause(&mut self) -> Duration {
        self.pause().mul_f64(0.75 + 0.5 * fastrand::f64())
    }

    /// An attempt succeeded: the next pause is the first one again.
    pub fn reset(&mut self) {
        self.next = self.first;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_limit_and_begin_anew() {
        let seconds = Duration::from_secs;
        let mut pauses = Pauses::new(seconds(1), seconds(5));
        let mut next = || pauses.pause().as_secs();
        assert_eq!([next(), next(), next(), next(), next()], [1, 2, 4, 5, 5]);
        pauses.reset();
        let spread = pauses.spread_pause();
        assert!((0.75..=1.25).contains(&spread.as_secs_f64()), "{spread:?}");
        assert_eq!(pauses.pause(), seconds(2));
    }
}
