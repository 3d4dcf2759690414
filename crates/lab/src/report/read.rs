//! Reads trials: turns their lines into the samples of a [`Summary`].

use std::collections::BTreeMap;

use super::ReportError;
use super::summary::{Experiment, Group, Limit, NO_CLIENT, Summary};
use crate::histogram;
use crate::reference::subject;
use crate::results::{Directory, ResultsError, Run};
use crate::samples::{Histograms, Measure, Repetition, TrialError, read_trial, target_per_s};
use crate::statistics::mean;
use crate::trial::{Role, Trial, Work};

impl Summary {
    /// Reads all trials of a run.
    pub fn read(directory: &Directory, run: Run) -> Result<Summary, ReportError> {
        let definition: toml::Table = toml::from_str(&run.definition).unwrap_or_default();
        let mut experiments: Vec<(u32, Experiment)> = Vec::new();
        let mut trials = 0;
        for name in directory.trials()? {
            let lines = directory.read(&name).map_err(|error| match error {
                // The remedy for a damaged file is that for other faults of a trial.
                ResultsError::Line { number, reason, .. } => {
                    let reason = format!("line {number}: {reason}");
                    ReportError::Trial(TrialError { trial: name.clone(), reason })
                }
                other => other.into(),
            })?;
            let (trial, repetition, histograms) = read_trial(&name, lines)?;
            if trial.role == Role::WarmUp {
                continue;
            }
            let prepares = trial.role == Role::Prepare;
            // Limits are not planned, but for those of older versions.
            let is_planned = match trial.role {
                Role::Limit => trial.store.label == NO_CLIENT,
                _ => !prepares,
            };
            trials += u32::from(is_planned);
            let known = experiments
                .iter_mut()
                .find(|(_, known)| known.name == trial.experiment && known.prepares == prepares);
            let (first, experiment) = match known {
                Some(known) => known,
                None => {
                    experiments.push((repetition.order, empty(&trial, &definition)));
                    experiments.last_mut().expect("just added")
                }
            };
            *first = (*first).min(repetition.order);
            match trial.role {
                // Older versions measured a limit for such work too, which says nothing.
                Role::Limit if trial.work.is_paced() => {}
                Role::Limit => experiment.limits.push(Limit {
                    store: trial.store.label.clone(),
                    nodes: trial.nodes,
                    trial: repetition,
                }),
                Role::Measure | Role::Prepare | Role::WarmUp => {
                    experiment.add(&trial, repetition, histograms)
                }
            }
        }
        experiments.retain(|(_, experiment)| !experiment.groups.is_empty());
        experiments.sort_by_key(|(first, _)| *first);
        let place = |store: &str| run.stores.iter().position(|known| known.label == store);
        for (_, experiment) in &mut experiments {
            for group in &mut experiment.groups {
                group.repetitions.sort_by_key(|trial| trial.order);
                if group.target_share.is_some() {
                    // The rate of which it is a share may have been measured again meanwhile.
                    let targets = group.repetitions.iter().filter_map(|trial| trial.target_per_s);
                    group.target_per_s = mean(&targets.collect::<Vec<f64>>());
                }
            }
            experiment.groups.sort_by(|a, b| {
                let target =
                    |group: &Group| group.target_share.or(group.target_per_s).unwrap_or(0.0);
                let (one, other) = (target(a), target(b));
                (a.nodes.cmp(&b.nodes))
                    .then(one.total_cmp(&other))
                    .then_with(|| place(&a.store).cmp(&place(&b.store)))
                    .then_with(|| a.store.cmp(&b.store))
            });
        }
        let price = definition.get("price_per_machine_hour").and_then(toml::Value::as_float);
        Ok(Summary {
            run,
            experiments: experiments.into_iter().map(|(_, experiment)| experiment).collect(),
            full_names: BTreeMap::new(),
            trials,
            price_per_machine_hour: price,
            restart_servers: definition
                .get("restart_servers")
                .and_then(toml::Value::as_bool)
                .unwrap_or_default(),
            left_out: definition
                .get("left_out")
                .and_then(|stores| stores.clone().try_into().ok())
                .unwrap_or_default(),
            price_of: definition.get("price_of").and_then(toml::Value::as_str).map(str::to_owned),
        })
    }
}

/// An experiment without trials.
fn empty(trial: &Trial, definition: &toml::Table) -> Experiment {
    let prepares = trial.role == Role::Prepare;
    let tables = definition.get("experiment").and_then(toml::Value::as_array);
    let named = |table: &&toml::Value| {
        table.get("name").and_then(toml::Value::as_str) == Some(&trial.experiment)
    };
    let table = tables.and_then(|tables| tables.iter().find(named)).filter(|_| !prepares);
    let text = |key: &str| {
        let text = table.and_then(|table| table.get(key)).and_then(toml::Value::as_str);
        text.map(|text| text.trim().to_owned())
    };
    Experiment {
        name: trial.experiment.clone(),
        title: text("title").unwrap_or_else(|| trial.experiment.clone()),
        about: text("about").unwrap_or_default(),
        work: String::new(),
        subject: text("subject").unwrap_or_else(|| subject(trial)),
        named: text("subject").is_some(),
        measure: Measure::of_work(trial),
        prepares,
        writes: trial.work.writes(),
        groups: Vec::new(),
        limits: Vec::new(),
    }
}

impl Experiment {
    fn add(&mut self, trial: &Trial, repetition: Repetition, histograms: Histograms) {
        let target_per_s = target_per_s(trial);
        let threads = match &trial.work {
            Work::Load { load, .. } => load.threads,
            Work::RealTime(real_time) => real_time.threads,
        };
        let store = &trial.store.label;
        let same = |group: &Group| {
            group.store == *store
                && group.nodes == trial.nodes
                && group.target_share == trial.target_share
                && (trial.target_share.is_some() || group.target_per_s == target_per_s)
        };
        if self.groups.is_empty() {
            // The trial of the generator's limit may be first; it has no ramp and no rate.
            self.measure = Measure::of_work(trial);
            if !self.named {
                self.subject = subject(trial);
            }
            self.writes = trial.work.writes();
            self.work = trial.work.amount().map(|amount| amount + ".").unwrap_or_default();
        }
        let group = match self.groups.iter().position(same) {
            Some(at) => &mut self.groups[at],
            None => {
                self.groups.push(Group {
                    store: store.clone(),
                    driver: trial.store.name.clone(),
                    nodes: trial.nodes,
                    target_per_s,
                    target_share: trial.target_share,
                    records: trial.work.records(),
                    threads,
                    repetitions: Vec::new(),
                    histograms: BTreeMap::new(),
                });
                self.groups.last_mut().expect("just added")
            }
        };
        if repetition.completed() {
            for (label, more) in histograms {
                let total = group.histograms.entry(label).or_insert_with(histogram::new);
                total.add(more).expect("all histograms have the same bounds");
            }
        }
        group.repetitions.push(repetition);
    }
}
