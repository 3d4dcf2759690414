//! A trial that other programs or virtual machines disturb is made again.

use crate::measure::others::{Others, ProcessorTime};
use crate::results::{Line, Resource};
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
    /// Resources of the machine, its servers and the generators.
    resources: Vec<Resource>,
}

impl Seen {
    /// Takes a measured line.
    pub fn add(&mut self, line: &Line) {
        match line {
            Line::Second(second) => self.errors += second.errors.values().sum::<u64>(),
            Line::Resource(used) => self.resources.push(used.clone()),
            _ => {}
        }
    }

    /// What others than the servers and the generator used of `cores` processors in a trial of this
    /// length, s; `None` for short trials, and for servers elsewhere.
    pub fn others(&self, seconds: f64, cores: u32) -> Option<Others> {
        let within = self.resources.iter().filter(|used| used.is_within(seconds));
        let time = |used: &Resource| ProcessorTime {
            cpu_s: used.cpu_s,
            interrupts_s: used.interrupts_s,
            stolen_s: used.stolen_s,
        };
        Others::of(within.map(|used| (&*used.process, time(used))), seconds, cores)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::HOST;

    #[test]
    fn what_others_used_is_the_rest() {
        let used = |second: u32, process: &str, cpu_s: f64, stolen_s: f64| {
            let process = process.to_owned();
            Line::Resource(Resource { second, process, cpu_s, stolen_s, ..Resource::default() })
        };
        let others = |others_s: f64, stolen_s: f64, seconds: u32| {
            let mut seen = Seen::default();
            for second in 0..=seconds {
                // The last second is a half.
                let part = if second < seconds { 1.0 } else { 0.5 };
                seen.add(&used(second, "redis", 0.6 * part, 0.0));
                seen.add(&used(second, "generator", 0.4 * part, 0.0));
                seen.add(&used(second, HOST, (1.0 + others_s) * part, stolen_s * part));
            }
            // A straggler keeps the trial waiting for its error.
            seen.add(&used(seconds + 20, HOST, 100.0, 50.0));
            seen.others(f64::from(seconds) + 0.5, 2)
        };
        assert!(!others(0.1, 0.0, 10).unwrap().is_interference(), "5% is usual");
        let disturbed = others(0.5, 0.25, 10).unwrap();
        assert!((disturbed.share - 0.25).abs() < 1e-9, "{disturbed:?}");
        assert!((disturbed.stolen_share - 0.125).abs() < 1e-9, "{disturbed:?}");
        assert_eq!(others(0.5, 0.0, 0), None, "too short");
    }
}
