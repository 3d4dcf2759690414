//! When threads start, and when operations are due.
//!
//! A closed loop ramps up its threads, an open loop its rate. The parts of several generators
//! interleave: together they start threads and send operations like one generator.

use tokio::time::{Duration, Instant};

use crate::trial::Share;

/// When the thread `thread` of this generator starts: the `threads` of all generators start evenly
/// over `ramp_s`.
pub fn thread_start(
    begin: Instant,
    ramp_s: f64,
    threads: u32,
    share: Share,
    thread: u32,
) -> Instant {
    let place = f64::from(thread) * f64::from(share.of) + f64::from(share.index);
    begin + Duration::from_secs_f64(ramp_s * place / f64::from(threads.max(1)))
}

/// The moments at which the operations of an open loop are due.
#[derive(Debug, Clone)]
pub struct Schedule {
    /// The first moment.
    pub begin: Instant,
    /// Operations per second of all generators.
    pub per_s: f64,
    /// The rate rises linearly from zero over this time.
    pub ramp_s: f64,
    /// The share of this generator.
    pub share: Share,
}

impl Schedule {
    /// When operation `k`, from 0, of this generator is due.
    pub fn due(&self, k: u64) -> Instant {
        let place = k as f64 * f64::from(self.share.of) + f64::from(self.share.index);
        let in_ramp = self.per_s * self.ramp_s / 2.0;
        let seconds = if place < in_ramp {
            (2.0 * place * self.ramp_s / self.per_s).sqrt()
        } else {
            self.ramp_s / 2.0 + place / self.per_s
        };
        self.begin + Duration::from_secs_f64(seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_of_all_generators_start_evenly() {
        let begin = Instant::now();
        let start = |index, thread| {
            let share = Share { index, of: 4 };
            (thread_start(begin, 40.0, 100, share, thread) - begin).as_secs_f64()
        };
        assert_eq!(start(0, 0), 0.0);
        assert_eq!(start(1, 0), 0.4);
        assert_eq!(start(0, 1), 1.6);
        assert!((start(3, 24) - 39.6).abs() < 1e-6);
    }

    #[test]
    fn a_ramp_sends_half_of_its_rate() {
        let begin = Instant::now();
        let schedule = Schedule { begin, per_s: 100.0, ramp_s: 10.0, share: Share::default() };
        let at = |k| (schedule.due(k) - begin).as_secs_f64();
        assert_eq!(at(0), 0.0);
        assert!((at(500) - 10.0).abs() < 1e-6);
        assert!((at(600) - 11.0).abs() < 1e-6);
        let mut steps = (1..500).map(|k| at(k) - at(k - 1)).collect::<Vec<_>>();
        assert!(steps.iter().all(|step| *step > 0.0));
        steps.sort_by(f64::total_cmp);
        assert!(steps[0] >= 0.00999);
    }

    #[test]
    fn generators_share_the_rate() {
        let begin = Instant::now();
        let of =
            |index| Schedule { begin, per_s: 1000.0, ramp_s: 0.0, share: Share { index, of: 2 } };
        assert_eq!(of(0).due(5) - begin, Duration::from_millis(10));
        assert_eq!(of(1).due(5) - begin, Duration::from_millis(11));
    }
}
