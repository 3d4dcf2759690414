//! A trial that other programs disturb is made again.

use crate::report::others_share;
use crate::results::{GENERATOR_ELSEWHERE, HOST, Line, Resource, is_server};
use crate::trial::{Trial, Work};

/// Attempts at a trial that other programs disturb; the last one counts, and the report names it.
pub const ATTEMPTS_MAX: u32 = 2;

/// Whether the work of a trial can be made again on the same data: it adds no rows, or its table is
/// created again for each trial. A trial with a crash is not: its rows are the result.
pub fn is_repeatable(trial: &Trial, fresh: bool) -> bool {
    let inserts = match &trial.work {
        Work::RealTime(_) => true,
        Work::Load { workload, .. } => workload.inserts(),
    };
    trial.crash_after_s.is_none() && (fresh || !inserts)
}

/// A seed for another attempt: the same queries would find their answers in caches.
pub fn other_seed(seed: u64, attempt: u32) -> u64 {
    seed.wrapping_add(u64::from(attempt).wrapping_mul(0x9E37_79B9_7F4A_7C15))
}

/// What the lines of a trial tell while it runs.
#[derive(Debug, Default)]
pub struct Seen {
    /// Operations without a right answer.
    pub errors: u64,
    /// Resources of this machine: the host, its servers and its generators.
    resources: Vec<Resource>,
}

impl Seen {
    /// Takes a measured line.
    pub fn add(&mut self, line: &Line) {
        match line {
            Line::Second(second) => self.errors += second.errors.values().sum::<u64>(),
            Line::Resource(used) if used.process != GENERATOR_ELSEWHERE => {
                self.resources.push(used.clone());
            }
            _ => {}
        }
    }

    /// The share of `cores` processors that other programs than the servers and the generator used
    /// in a trial of this length, s; `None` for short trials, and for servers elsewhere.
    pub fn others_share(&self, seconds: f64, cores: u32) -> Option<f64> {
        let within = self.resources.iter().filter(|used| used.is_within(seconds));
        let (host, own): (Vec<&Resource>, Vec<&Resource>) =
            within.partition(|used| used.process == HOST);
        if !own.iter().any(|used| is_server(&used.process)) {
            return None;
        }
        let host_s = host.iter().map(|used| used.cpu_s - used.interrupts_s).sum();
        let own_s = own.iter().map(|used| used.cpu_s).sum();
        others_share(host_s, own_s, seconds, cores)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::OTHERS_SHARE_MAX;

    #[test]
    fn what_others_used_is_the_rest() {
        let used = |second: u32, process: &str, cpu_s: f64| {
            let process = process.to_owned();
            Line::Resource(Resource { second, process, cpu_s, ..Resource::default() })
        };
        let share = |others_s: f64, seconds: u32| {
            let mut seen = Seen::default();
            for second in 0..=seconds {
                // The last second is a half.
                let part = if second < seconds { 1.0 } else { 0.5 };
                seen.add(&used(second, "redis", 0.6 * part));
                seen.add(&used(second, "generator", 0.4 * part));
                seen.add(&used(second, "host", (1.0 + others_s) * part));
            }
            // A straggler keeps the trial waiting for its error.
            seen.add(&used(seconds + 20, "host", 100.0));
            seen.others_share(f64::from(seconds) + 0.5, 2)
        };
        assert!(share(0.1, 10).unwrap() < OTHERS_SHARE_MAX, "5% is usual");
        assert!((share(0.5, 10).unwrap() - 0.25).abs() < 1e-9);
        assert_eq!(share(0.5, 2), None, "too short");
    }
}
