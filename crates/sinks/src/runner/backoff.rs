//! How long to wait before a retry.

use std::time::Duration;

/// Limits of the waiting time. The time doubles with each failure in a row, and a random part of up
/// to one half is taken off, so that many sinks do not return to a server at the same moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    /// The longest wait after the first failure.
    pub first: Duration,
    /// The longest wait after any number of failures.
    pub longest: Duration,
    /// The longest wait that a destination can ask for; beyond it, the sink asks again anyway.
    pub requested_longest: Duration,
}

impl Default for Backoff {
    fn default() -> Backoff {
        Backoff {
            first: Duration::from_millis(500),
            longest: Duration::from_secs(60),
            requested_longest: Duration::from_secs(300),
        }
    }
}

impl Backoff {
    /// The wait after `failures` failures in a row, at least 1. `random` is from 0 to 1;
    /// `requested` is what the destination asked for, and a lower limit.
    pub fn wait(&self, failures: u32, random: f64, requested: Option<Duration>) -> Duration {
        let doublings = failures.saturating_sub(1).min(31);
        let most = self.first.saturating_mul(1 << doublings).min(self.longest);
        let wait = most.mul_f64(1.0 - random.clamp(0.0, 1.0) / 2.0);
        wait.max(requested.unwrap_or_default().min(self.requested_longest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_limit() {
        let backoff = Backoff::default();
        let ms = |failures, random, requested_s: Option<u64>| {
            backoff.wait(failures, random, requested_s.map(Duration::from_secs)).as_millis()
        };
        assert_eq!(ms(1, 0.0, None), 500);
        assert_eq!(ms(1, 1.0, None), 250);
        assert_eq!(ms(2, 0.0, None), 1000);
        assert_eq!(ms(7, 0.5, None), 24_000);
        assert_eq!(ms(8, 0.0, None), 60_000);
        assert_eq!(ms(u32::MAX, 0.0, None), 60_000);
        assert_eq!(ms(1, 0.0, Some(20)), 20_000);
        assert_eq!(ms(1, 0.0, Some(1_000_000)), 300_000);
    }
}
