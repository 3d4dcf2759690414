//! Warms a store up: does the work of an experiment unmeasured, until the store is in a steady
//! state.

use super::disturbed::{ATTEMPTS_MAX, is_repeatable, other_seed};
use super::{Loaded, Measured, RunError, Runner, Store, Warm, Watch};
use crate::definition::Dataset;
use crate::fleet::RunningStore;
use crate::number;
use crate::plan::Step;
use crate::results::Outcome;
use crate::samples::{Measure, read_trial};
use crate::trial::{Load, Role, Trial, WARM_UP_S_MAX, Work};
use crate::workload::Workload;

/// Two warm-up trials in a row that differ by less than this share show a steady state.
const STEADY_SHARE: f64 = 0.05;

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
        // One trial says nothing about a steady state.
        if self.values.len() < 2 || self.is_steady() {
            return None;
        }
        let values: Vec<String> = self.values.iter().map(|value| number::plain(*value)).collect();
        Some(format!(
            "not in a steady state after {} warm-up trials: {}",
            values.len(),
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
        let processes = store.up.as_ref().map(RunningStore::roots).unwrap_or_default();
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
                    Loaded::Not(wrong @ Outcome::Wrong { .. }) => return Ok(Warm::Not(wrong)),
                    Loaded::Not(_) => break,
                }
            }
            let seed = other_seed(trial.seed, ATTEMPTS_MAX + number);
            let work = warm_up_work(trial);
            let warming = Trial { role: Role::WarmUp, work, seed, ..trial.clone() };
            let name = format!("{}-warm{number}", step.name);
            let mut writer = self.begin(&name, step, &warming)?;
            let Some(Measured { end, .. }) =
                self.measure(store, &warming, &mut writer, watch).await?
            else {
                return Ok(Warm::Stopped);
            };
            writer.end(end.clone())?;
            match end.outcome {
                Outcome::Completed => {}
                // The measured trial may have no such answer: one in many is enough.
                Outcome::Wrong { message } => {
                    let message = format!("while it was warmed up: {message}");
                    return Ok(Warm::Not(Outcome::Wrong { message }));
                }
                // The measured trial will fail as well, and its failure is reported.
                Outcome::Failed { .. } | Outcome::NotSupported { .. } => break,
            }
            let (_, made, _) = read_trial(&name, self.directory.read(&name)?)?;
            let Some(value) = Measure::of_work(trial).of(&made) else { break };
            warm_up.values.push(value);
        }
        self.warm.insert(key, processes);
        Ok(Warm::Now(warm_up.note()))
    }
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

#[cfg(test)]
mod tests {
    use super::*;

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
}
