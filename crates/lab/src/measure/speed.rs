//! How fast the machine computes.
//!
//! On a shared machine, other virtual machines slow a processor down without taking its time: they
//! share its cores, caches and memory, and no counter of the kernel shows that. So a fixed
//! computation is timed before each trial, and the report says where the computation was slower.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::statistics::quantile;

/// The name of the value in results: rounds of the computation for each second of a processor.
pub const ROUNDS_PER_S: &str = "machine_rounds_per_s";

/// A machine whose computation is slower by more than this share is named.
pub const SLOWER_SHARE_MAX: f64 = 0.15;

/// Trials in a row whose median is the present speed of the machine.
const IN_A_ROW: usize = 5;

/// How long each processor computes.
const COMPUTING: Duration = Duration::from_millis(40);

/// Words of the table that the computation reads: 1 MiB, about what a core has for itself.
const WORDS: usize = 1 << 17;

/// Rounds between two looks at the clock.
const ROUNDS: u32 = 10_000;

/// Rounds per second of processor time, the mean of all processors, which compute at the same time.
/// What other processes take of the processors meanwhile does not count. `None` if the kernel does
/// not tell the processor time of a thread.
pub fn rounds_per_s() -> Option<f64> {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let rates: Option<Vec<f64>> = std::thread::scope(|scope| {
        let all: Vec<_> = (0..processors).map(|_| scope.spawn(of_one)).collect();
        all.into_iter().map(|one| one.join().expect("it does not panic")).collect()
    });
    rates.map(|rates| rates.iter().sum::<f64>() / rates.len() as f64)
}

/// The rate of one processor.
fn of_one() -> Option<f64> {
    let mut state = 1;
    let table: Vec<u64> = (0..WORDS).map(|_| mix(&mut state)).collect();
    let (until, used_before) = (Instant::now() + COMPUTING, processor_time()?);
    let (mut rounds, mut word) = (0_u64, 0);
    loop {
        for _ in 0..ROUNDS {
            // Each read depends on the one before, as in walks through the structures of a store.
            word = mix(&mut word) ^ table[word as usize % WORDS];
        }
        rounds += u64::from(ROUNDS);
        if Instant::now() >= until {
            break;
        }
    }
    std::hint::black_box(word);
    let used = processor_time()?.saturating_sub(used_before);
    (!used.is_zero()).then(|| rounds as f64 / used.as_secs_f64())
}

/// The next number of the generator SplitMix64.
fn mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

/// Processor time of this thread: the first number of `schedstat`, in nanoseconds
/// (Documentation/scheduler/sched-stats of Linux).
fn processor_time() -> Option<Duration> {
    // The kernel adds the current time when a thread gives way, and else at its next tick.
    std::thread::yield_now();
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split(' ').next()?.parse().ok().map(Duration::from_nanos)
}

/// Notices during a run that the machine has become slower.
#[derive(Debug, Default)]
pub struct Slowdown {
    last: VecDeque<f64>,
    fastest: f64,
    is_told: bool,
}

impl Slowdown {
    /// Adds the rate before the next trial. Returns by what share the last trials were slower than
    /// the fastest [`IN_A_ROW`], if that is more than [`SLOWER_SHARE_MAX`]; once, until the machine
    /// is fast again.
    pub fn add(&mut self, rounds_per_s: f64) -> Option<f64> {
        self.last.push_back(rounds_per_s);
        if self.last.len() > IN_A_ROW {
            self.last.pop_front();
        }
        if self.last.len() < IN_A_ROW {
            return None;
        }
        let present = quantile(self.last.make_contiguous(), 0.5)?;
        self.fastest = self.fastest.max(present);
        let lost = 1.0 - present / self.fastest;
        let was_told = std::mem::replace(&mut self.is_told, lost > SLOWER_SHARE_MAX);
        (self.is_told && !was_told).then_some(lost)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_that_becomes_slower_is_told_once_until_it_is_fast_again() {
        let mut slowdown = Slowdown::default();
        let fast = [100.0, 98.0, 30.0, 102.0, 101.0, 99.0];
        assert!(fast.iter().all(|rate| slowdown.add(*rate).is_none()), "one slow trial is chance");
        let told: Vec<Option<f64>> = [60.0; 6].iter().map(|rate| slowdown.add(*rate)).collect();
        assert_eq!(told.iter().flatten().count(), 1, "{told:?}");
        let lost = told.iter().flatten().next().unwrap();
        assert!((0.39..0.42).contains(lost), "{lost}");
        assert!(fast.iter().all(|rate| slowdown.add(*rate).is_none()));
        assert!([60.0; 6].iter().any(|rate| slowdown.add(*rate).is_some()), "it happens again");
    }

    #[test]
    fn the_computation_is_splitmix64_and_has_a_rate() {
        // The first numbers of its authors' program for the state 1234567.
        let mut state = 1_234_567;
        let first = [mix(&mut state), mix(&mut state)];
        assert_eq!(first, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973]);
        let rate = rounds_per_s().expect("this kernel tells the processor time of threads");
        assert!(rate.is_finite() && rate > 0.0, "{rate}");
    }
}
