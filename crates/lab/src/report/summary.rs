//! A run in numbers: for each experiment and store the samples of its repetitions, and the merged
//! histograms of all of them.
//!
//! Only completed trials count. One that failed, was wrong, or was not supported is described in
//! words and has no number.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;

use crate::number::{percent, plain};
use crate::results::Run;
use crate::samples::{ALL, Measure, Repetition};
use crate::statistics::mean;

/// The label under which older versions measured the generator's limit, without any store's client.
pub(super) const NO_CLIENT: &str = "null";

/// The results of a run.
#[derive(Debug)]
pub struct Summary {
    /// The header of the run.
    pub run: Run,
    /// Experiments in the order in which they began.
    pub experiments: Vec<Experiment>,
    /// Labels of stores that have [shorter names](Summary::shorten_names), by name.
    pub full_names: BTreeMap<String, String>,
    /// The number of trials with a result, without those that load data.
    pub trials: u32,
    /// The price of a server machine per hour, if the definition has one.
    pub price_per_machine_hour: Option<f64>,
    /// Whether the servers were started again for each repetition.
    pub restart_servers: bool,
    /// Stores of the paper that were not measured, with the reason.
    pub left_out: BTreeMap<String, String>,
    /// The machine that the price is for, in words.
    pub price_of: Option<String>,
}

/// The trials of one experiment.
#[derive(Debug)]
pub struct Experiment {
    /// Its name in the study.
    pub name: String,
    /// Its title.
    pub title: String,
    /// What its figure shows.
    pub about: String,
    /// How much is done in a trial, as a sentence.
    pub work: String,
    /// The work, by its name in the figures of papers.
    pub subject: String,
    /// Whether the definition names the subject.
    pub(super) named: bool,
    /// The measure that ranks its stores.
    pub measure: Measure,
    /// Whether its trials only load data for others.
    pub prepares: bool,
    /// Whether its trials write, so that the durability of a store decides its numbers.
    pub writes: bool,
    /// Groups by nodes, then target, then in the order of the stores of the run.
    pub groups: Vec<Group>,
    /// Trials of the generator's limit.
    pub limits: Vec<Limit>,
}

/// A trial of the generator's limit.
#[derive(Debug)]
pub struct Limit {
    /// Label of the store whose client it used.
    pub store: String,
    /// Nodes or shards in whose place sinks were.
    pub nodes: u32,
    /// What was measured.
    pub trial: Repetition,
}

/// The repetitions of one experiment with one store, one size of the cluster and one target.
#[derive(Debug)]
pub struct Group {
    /// Label of the store.
    pub store: String,
    /// Name of its driver.
    pub driver: String,
    /// Nodes or shards.
    pub nodes: u32,
    /// The target rate; the mean over the repetitions, which differ only if it is a share of a rate
    /// that was measured again meanwhile.
    pub target_per_s: Option<f64>,
    /// The target rate as a share of the rate that the store reached in another experiment.
    pub target_share: Option<f64>,
    /// Records in the store, if the workload knows them.
    pub records: Option<u64>,
    /// Threads of the load.
    pub threads: u32,
    /// Repetitions in the order in which they were run.
    pub repetitions: Vec<Repetition>,
    /// Merged latencies of all completed repetitions, µs, by label; with [`ALL`] if there are
    /// several labels.
    pub histograms: BTreeMap<String, Histogram<u64>>,
}

impl Group {
    /// One number for each completed repetition, in the order in which they were run.
    pub fn sample(&self, measure: &Measure) -> Vec<f64> {
        self.completed().filter_map(|trial| measure.of(trial)).collect()
    }

    /// Records written per second, one number for each completed load of data. An operation of a
    /// load writes a batch, and the last batch may be smaller; so the known number of records is
    /// used, minus the share of failed operations.
    pub fn records_per_s(&self) -> Vec<f64> {
        let Some(records) = self.records else { return Vec::new() };
        let rate = |trial: &Repetition| {
            let all = trial.labels.get(ALL)?;
            let tried = all.count + all.errors.values().sum::<u64>();
            let right = all.count as f64 / tried.max(1) as f64;
            (trial.seconds > 0.0).then(|| records as f64 * right / trial.seconds)
        };
        self.completed().filter_map(rate).collect()
    }

    /// Repetitions whose numbers count.
    pub fn completed(&self) -> impl Iterator<Item = &Repetition> {
        self.repetitions.iter().filter(|trial| trial.completed())
    }

    /// The repetition for charts of seconds: the one with the median of the measure.
    pub fn typical(&self, measure: &Measure) -> Option<&Repetition> {
        let mut trials: Vec<(f64, &Repetition)> =
            self.completed().map(|trial| (measure.of(trial).unwrap_or(f64::NAN), trial)).collect();
        trials.sort_by(|a, b| a.0.total_cmp(&b.0));
        (!trials.is_empty()).then(|| trials[(trials.len() - 1) / 2].1)
    }

    /// Latencies of a label; if there is only one label, [`ALL`] is the same.
    pub fn histogram(&self, label: &str) -> Option<&Histogram<u64>> {
        let only = (label == ALL && self.histograms.len() == 1).then(|| self.histograms.values());
        self.histograms.get(label).or_else(|| only?.next())
    }

    /// Labels of operations, without [`ALL`].
    pub fn labels(&self) -> Vec<&str> {
        self.histograms.keys().map(String::as_str).filter(|label| *label != ALL).collect()
    }

    /// The store, and what distinguishes it from others of the experiment.
    pub fn name(&self, nodes: bool, target: bool) -> String {
        let mut name = self.store.clone();
        if nodes {
            name += &format!(", {} node{}", self.nodes, if self.nodes == 1 { "" } else { "s" });
        }
        if target {
            name += &self.target().map(|target| format!(", {target}")).unwrap_or_default();
        }
        name
    }

    /// The target rate in words: the share of the store's own rate, or the rate.
    pub fn target(&self) -> Option<String> {
        match (self.target_share, self.target_per_s) {
            (Some(share), _) => Some(format!("{} of its own rate", percent(share))),
            (None, Some(target)) => Some(format!("{} per second", plain(target))),
            (None, None) => None,
        }
    }

    /// Whether two groups had the same target: the same share of what each store reaches, or the
    /// same rate.
    pub fn has_target_of(&self, other: &Group) -> bool {
        match (self.target_share, other.target_share) {
            (None, None) => self.target_per_s == other.target_per_s,
            (one, other) => one == other,
        }
    }
}

impl Experiment {
    /// The limit of the generator with the client of the store of `group`: the highest rate, or the
    /// lowest value, in the unit of [`Experiment::rate_measure`]; `None` if it is unknown.
    pub fn limit(&self, group: &Group) -> Option<f64> {
        let of = |label: &str| {
            let own = self.limits.iter().filter(|limit| limit.store == label);
            own.filter(|limit| limit.trial.completed()).collect::<Vec<_>>()
        };
        // Older versions measured it on one node only.
        let mut own = of(&group.store);
        if own.iter().any(|limit| limit.nodes == group.nodes) {
            own.retain(|limit| limit.nodes == group.nodes);
        }
        // No client was used, so that batches and streams, which clients encode, have no limit.
        let any = || if self.measure == Measure::Rows { Vec::new() } else { of(NO_CLIENT) };
        let limits = if own.is_empty() { any() } else { own };
        let trials = limits.into_iter().map(|limit| &limit.trial);
        match &self.measure {
            value @ Measure::Value(_) => {
                trials.filter_map(|trial| value.of(trial)).min_by(f64::total_cmp)
            }
            Measure::Rows => {
                trials.filter_map(|trial| Measure::Rows.of(trial)).max_by(f64::total_cmp)
            }
            _ => trials.filter_map(|trial| Measure::Throughput.of(trial)).max_by(f64::total_cmp),
        }
    }

    /// How much of the result of `group` may be due to the generator: the reached share of its
    /// limit, or, for a value, the share that it has without a store.
    pub fn share_of_limit(&self, group: &Group) -> Option<f64> {
        let sample = group.sample(&self.rate_measure());
        let mean = mean(&sample)?;
        let limit = self.limit(group)?;
        Some(if matches!(self.measure, Measure::Value(_)) { limit / mean } else { mean / limit })
    }

    /// Whether clusters of several sizes were measured.
    pub fn has_sizes(&self) -> bool {
        self.groups.iter().any(|group| group.nodes != self.groups[0].nodes)
    }

    /// Whether there are several target rates.
    pub fn has_targets(&self) -> bool {
        self.groups.iter().any(|group| !group.has_target_of(&self.groups[0]))
    }

    /// The number that is compared with the generator's limit.
    pub fn rate_measure(&self) -> Measure {
        match &self.measure {
            same @ (Measure::Peak | Measure::Rows | Measure::Value(_)) => same.clone(),
            _ => Measure::Throughput,
        }
    }

    /// The name of a group among those of this experiment.
    pub fn name_of(&self, group: &Group) -> String {
        group.name(self.has_sizes(), self.has_targets())
    }

    /// Groups that differ only in the store, in order.
    pub fn sets(&self) -> Vec<&[Group]> {
        self.groups.chunk_by(|a, b| a.nodes == b.nodes && a.has_target_of(b)).collect()
    }
}

impl Summary {
    /// When the last trial ended, RFC 3339.
    pub fn ended(&self) -> Option<String> {
        let trials = self.experiments.iter().flat_map(|experiment| {
            experiment
                .groups
                .iter()
                .flat_map(|group| &group.repetitions)
                .chain(experiment.limits.iter().map(|limit| &limit.trial))
        });
        let end = |trial: &Repetition| {
            let started: jiff::Timestamp = trial.started.parse().ok()?;
            Some(started + jiff::SignedDuration::from_secs(trial.seconds.round() as i64))
        };
        Some(trials.filter_map(end).max()?.to_string())
    }
}
