//! Two rules that keep chance out of a trial: a store is measured in a steady state, and a trial
//! that other programs disturbed is made again.

use super::{Loaded, RunError, Runner, Store, Warm, Watch};
use crate::definition::Dataset;
use crate::fleet::Up;
use crate::plan::Step;
use crate::report::summary::{Measure, read_trial};
use crate::report::{OTHERS_SECONDS_MIN, OTHERS_SHARE_MAX};
use crate::results::{Line, Outcome};
use crate::trial::{Load, Role, Trial, Work};
use crate::workload::Workload;

/// Two warm-up trials in a row that differ by less than this share show a steady state.
const STEADY_SHARE: f64 = 0.05;

/// Length of a warm-up trial; a measured trial that is shorter is its own length.
const WARM_UP_S_MAX: f64 = 10.0;

/// Attempts at a trial that other programs disturb; the last one counts, and the report names it.
pub const ATTEMPTS_MAX: u32 = 2;

/// The warm-up trials of one store in one experiment: at most as many as the study says, until two
/// in a row agree.
#[derive(Debug)]
pub struct WarmUp {
    trials_max: u32,
    /// The measure of each trial.
    pub values: Vec<f64>,
}

impl WarmUp {
    /// At most `trials_max` trials.
    pub fn new(trials_max: u32) -> WarmUp {
        WarmUp { trials_max, values: Vec::new() }
    }

    /// Whether the last two trials agree.
    pub fn is_steady(&self) -> bool {
        match &self.values[..] {
            [.., before, last] => (last / before - 1.0).abs() < STEADY_SHARE,
            _ => false,
        }
    }

    /// Whether there is another trial.
    pub fn continues(&self) -> bool {
        !self.is_steady() && (self.values.len() as u32) < self.trials_max
    }

    /// What a reader has to know.
    pub fn note(&self) -> Option<String> {
        if self.values.is_empty() || self.is_steady() {
            return None;
        }
        let values: Vec<String> =
            self.values.iter().map(|value| crate::report::number::plain(*value)).collect();
        Some(format!(
            "not in a steady state after {} warm-up trial{}: {}",
            values.len(),
            if values.len() == 1 { "" } else { "s" },
            values.join(", ")
        ))
    }
}

impl Runner<'_> {
    /// Does the work of a step unmeasured, until its store is in a steady state.
    pub(super) async fn warm_up(
        &mut self,
        step: &Step,
        store: &Store,
        trial: &Trial,
        dataset: &Dataset,
        watch: &mut dyn Watch,
    ) -> Result<Warm, RunError> {
        let key = (trial.experiment.clone(), trial.store.label.clone());
        let processes = store.up.as_ref().map(Up::roots).unwrap_or_default();
        let experiment = self.study.experiments.iter().find(|e| e.name == trial.experiment);
        let trials_max = experiment.map_or(0, |experiment| experiment.warm_up_trials_max);
        let is_for = trial.role == Role::Measure && is_repeatable(trial, step.fresh);
        if !is_for || trials_max == 0 || self.warm.get(&key) == Some(&processes) {
            return Ok(Warm::Yes);
        }
        let mut warm_up = WarmUp::new(trials_max);
        while warm_up.continues() {
            let number = warm_up.values.len() as u32 + 1;
            // Another table each time, as for the measured trials; the first one is there.
            if step.fresh && number > 1 {
                match self.load(step, store, trial, dataset, watch).await? {
                    Loaded::Yes => {}
                    Loaded::Stopped => return Ok(Warm::Stopped),
                    Loaded::Not(_) => break,
                }
            }
            let seed = other_seed(trial.seed, ATTEMPTS_MAX + number);
            let work = warm_up_work(trial);
            let warming = Trial { role: Role::WarmUp, work, seed, ..trial.clone() };
            let name = format!("{}-warm{number}", step.name);
            let mut writer = self.begin(&name, step, &warming)?;
            let Some((end, _)) = self.measure(store, &warming, &mut writer, watch).await? else {
                return Ok(Warm::Stopped);
            };
            writer.end(end.clone())?;
            // What is wrong is found out, and reported, by the measured trial.
            if end.outcome != Outcome::Completed {
                break;
            }
            let (_, made, _) = read_trial(&name, self.directory.read(&name)?)?;
            let Some(value) = Measure::of_work(trial).of(&made) else { break };
            warm_up.values.push(value);
        }
        self.warm.insert(key, processes);
        Ok(Warm::Now(warm_up.note()))
    }
}

/// Whether the work of a trial can be made again on the same data: it adds no rows, or its table is
/// created again for each trial. A trial with a crash is not: its rows are the result.
pub fn is_repeatable(trial: &Trial, fresh: bool) -> bool {
    let inserts = match &trial.work {
        Work::RealTime(_) => true,
        Work::Load { workload, .. } => workload.inserts(),
    };
    trial.crash_after_s.is_none() && (fresh || !inserts)
}

/// The same work for the warm-up: other choices, and not longer than [`WARM_UP_S_MAX`].
pub fn warm_up_work(trial: &Trial) -> Work {
    match &trial.work {
        Work::RealTime(real_time) => Work::RealTime(real_time.clone()),
        Work::Load { workload, load } => {
            let seconds = load.seconds.map_or(WARM_UP_S_MAX, |all| all.min(WARM_UP_S_MAX));
            let operations = match workload {
                // A few queries say nothing about a steady state.
                Workload::HistoryQueries(_) => None,
                _ => load.operations,
            };
            let load = Load { seconds: Some(seconds), operations, ..load.clone() };
            Work::Load { workload: workload.clone(), load }
        }
    }
}

/// A seed for another attempt: the same queries would find their answers in caches.
pub fn other_seed(seed: u64, attempt: u32) -> u64 {
    seed.wrapping_add(u64::from(attempt).wrapping_mul(0x9E37_79B9_7F4A_7C15))
}

/// Adds up what other programs than the servers and the generator used in a trial.
#[derive(Debug, Default)]
pub struct Others {
    host_s: f64,
    own_s: f64,
    seconds: usize,
    servers: bool,
}

impl Others {
    /// Takes a measured line.
    pub fn add(&mut self, line: &Line) {
        let Line::Resource(used) = line else { return };
        match used.process.as_str() {
            "host" => {
                self.host_s += used.cpu_s - used.interrupts_s;
                self.seconds = self.seconds.max(used.second as usize);
            }
            process => {
                self.own_s += used.cpu_s;
                self.servers |= process != "generator";
            }
        }
    }

    /// Their share of `cores` processors if it is more than the report accepts; `None` also for
    /// trials that are too short, and for servers elsewhere.
    pub fn disturbing_share(&self, cores: u32) -> Option<f64> {
        if !self.servers || self.seconds < OTHERS_SECONDS_MIN {
            return None;
        }
        let all = self.seconds as f64 * f64::from(cores.max(1));
        let share = (self.host_s - self.own_s) / all;
        (share > OTHERS_SHARE_MAX).then_some(share)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::Resource;

    #[test]
    fn a_warm_up_ends_when_two_trials_agree_or_at_its_limit() {
        let run = |values: &[f64]| {
            let mut warm_up = WarmUp::new(4);
            for value in values {
                assert!(warm_up.continues(), "{values:?}");
                warm_up.values.push(*value);
            }
            (warm_up.continues(), warm_up.note())
        };
        assert!(run(&[100.0]).0);
        assert_eq!(run(&[100.0, 150.0, 153.0]), (false, None));
        let (more, note) = run(&[100.0, 150.0, 200.0, 250.0]);
        assert!(!more && note.unwrap().contains("after 4 warm-up trials: 100, 150, 200, 250"));
        assert!(!WarmUp::new(0).continues() && WarmUp::new(0).note().is_none());
    }

    #[test]
    fn what_others_used_is_the_rest() {
        let used = |second: u32, process: &str, cpu_s: f64| {
            let process = process.to_owned();
            Line::Resource(Resource { second, process, cpu_s, ..Resource::default() })
        };
        let share = |others_s: f64, seconds: u32| {
            let mut others = Others::default();
            for second in 0..=seconds {
                let part = if second < seconds { 1.0 } else { 0.0 };
                others.add(&used(second, "redis", 0.6 * part));
                others.add(&used(second, "generator", 0.4 * part));
                others.add(&used(second, "host", (1.0 + others_s) * part));
            }
            others.disturbing_share(2)
        };
        assert_eq!(share(0.1, 10), None, "5% is usual");
        assert!((share(0.5, 10).unwrap() - 0.25).abs() < 1e-9);
        assert_eq!(share(0.5, 2), None, "too short");
    }
}
