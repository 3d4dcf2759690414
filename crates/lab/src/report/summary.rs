//! The samples of a run: for each experiment and store one number per repetition, merged histograms
//! of all repetitions, seconds, errors, and the resources of servers and generator.
//!
//! Only completed trials count. One that failed, was wrong, or was not supported is described in
//! words and has no number.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;

use super::PERCENTILES;
use super::number::{percent, plain};
use crate::definition::Bill;
use crate::measure::others::{Others, ProcessorTime};
use crate::results::{Outcome, Resource, Run};

pub use super::measure::{Measure, Over, PEAK_SECONDS};
pub use crate::results::{GENERATOR, GENERATOR_ELSEWHERE, HOST, is_server};

/// The label for the operations of all labels together.
pub const ALL: &str = "all";

/// The results of a run.
#[derive(Debug)]
pub struct Summary {
    /// The header of the run.
    pub run: Run,
    /// Experiments in the order in which they began.
    pub experiments: Vec<Experiment>,
    /// The number of trials with a result, without those that load data.
    pub trials: u32,
    /// The price of a server machine per hour, if the definition has one.
    pub price_per_machine_hour: Option<f64>,
    /// Whether the servers were started again for each repetition.
    pub restart_servers: bool,
    /// The load and the prices for the cost of a month, if the definition has them.
    pub bill: Option<Bill>,
    /// What the price is of.
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
    /// What the generator achieved with the driver that does nothing.
    pub limits: Vec<Repetition>,
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

/// One trial.
#[derive(Debug)]
pub struct Repetition {
    /// Its position in the run.
    pub order: u32,
    /// The number of the repetition, from 1: stores took turns within one number.
    pub number: u32,
    /// Its target rate.
    pub target_per_s: Option<f64>,
    /// When it was begun, RFC 3339.
    pub started: String,
    /// How it ended.
    pub outcome: Outcome,
    /// Length of the measured part.
    pub seconds: f64,
    /// By label; always with [`ALL`].
    pub labels: BTreeMap<String, Operations>,
    /// The seconds of all labels together, in order, without gaps.
    pub series: Vec<Second>,
    /// Resources by process.
    pub usage: BTreeMap<String, Usage>,
    /// Latencies of all operations at [`PERCENTILES`], ms; `None` if there are none.
    pub percentiles_ms: Option<[f64; PERCENTILES.len()]>,
    /// Values of the whole trial.
    pub values: BTreeMap<String, f64>,
    /// Notes.
    pub notes: Vec<String>,
}

/// The operations with one label.
#[derive(Debug, Clone, Default)]
pub struct Operations {
    /// Right answers.
    pub count: u64,
    /// Errors by kind.
    pub errors: BTreeMap<String, u64>,
    /// Mean latency of the right answers; `None` if there are none.
    pub mean_ms: Option<f64>,
}

/// One second.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Second {
    /// Right answers.
    pub count: u64,
    /// Operations without a right answer.
    pub errors: u64,
    /// Mean latency.
    pub mean_ms: Option<f64>,
    /// Threads at work.
    pub threads: u32,
}

/// The resources of a process.
#[derive(Debug, Clone, Default)]
pub struct Usage {
    /// Processors in use, per complete second.
    pub cpu: Vec<f64>,
    /// Processor time of the whole trial, including the last, partial second.
    pub cpu_s: f64,
    /// The part of it that interrupts took; known of the whole machine.
    pub interrupts_s: f64,
    /// The part of it that other virtual machines took; known of the whole machine.
    pub stolen_s: f64,
    /// Resident memory, per second.
    pub memory_bytes: Vec<u64>,
    /// Bytes read from disk and written to it, per second.
    pub disk_bytes: Vec<u64>,
    /// Bytes written to disk, per second.
    pub disk_write_bytes_each: Vec<u64>,
    /// Network bytes, per second.
    pub network_bytes_each: Vec<u64>,
    /// Peak resident memory.
    pub memory_bytes_peak: u64,
    /// Bytes read from disk in the whole trial.
    pub disk_read_bytes: u64,
    /// Bytes written to disk in the whole trial.
    pub disk_write_bytes: u64,
    /// Network bytes in the whole trial.
    pub network_bytes: u64,
}

impl Usage {
    /// Mean number of processors in use over a trial of `seconds`; `None` for a trial without
    /// length.
    pub fn cpu_mean(&self, seconds: f64) -> Option<f64> {
        (seconds > 0.0).then(|| self.cpu_s / seconds)
    }

    /// Removes incomplete seconds; the sums of the trial keep them.
    pub(super) fn keep_whole(&mut self, seconds: f64) {
        let whole = (seconds as usize).max(1);
        self.cpu.truncate(whole);
        self.memory_bytes.truncate(whole);
        self.disk_bytes.truncate(whole);
        self.disk_write_bytes_each.truncate(whole);
        self.network_bytes_each.truncate(whole);
    }

    pub(super) fn add(&mut self, resource: &Resource) {
        let at = resource.second as usize;
        if self.cpu.len() <= at {
            self.cpu.resize(at + 1, 0.0);
            for each in [
                &mut self.memory_bytes,
                &mut self.disk_bytes,
                &mut self.disk_write_bytes_each,
                &mut self.network_bytes_each,
            ] {
                each.resize(at + 1, 0);
            }
        }
        self.cpu[at] += resource.cpu_s;
        self.cpu_s += resource.cpu_s;
        self.interrupts_s += resource.interrupts_s;
        self.stolen_s += resource.stolen_s;
        self.memory_bytes[at] += resource.memory_bytes;
        self.disk_bytes[at] += resource.disk_read_bytes + resource.disk_write_bytes;
        self.disk_write_bytes_each[at] += resource.disk_write_bytes;
        self.network_bytes_each[at] += resource.network_bytes;
        // Generators may have several lines for a second.
        self.memory_bytes_peak = self.memory_bytes_peak.max(self.memory_bytes[at]);
        self.disk_read_bytes += resource.disk_read_bytes;
        self.disk_write_bytes += resource.disk_write_bytes;
        self.network_bytes += resource.network_bytes;
    }
}

impl Repetition {
    /// Whether its numbers count.
    pub fn completed(&self) -> bool {
        self.outcome == Outcome::Completed
    }

    /// Right answers of a label per second.
    pub fn rate(&self, label: &str) -> Option<f64> {
        let operations = self.labels.get(label)?;
        (self.seconds > 0.0).then(|| operations.count as f64 / self.seconds)
    }

    /// Rows written per second, of writes in batches.
    pub fn rows_per_s(&self) -> Option<f64> {
        let rows = self.values.get(crate::load::ROWS)?;
        (self.seconds > 0.0).then(|| rows / self.seconds)
    }

    /// The seconds of the measured part without the last, incomplete one; of a trial that is
    /// shorter than a second, that one.
    pub fn whole_seconds(&self) -> &[Second] {
        let whole = (self.seconds as usize).max(1);
        &self.series[..whole.min(self.series.len())]
    }

    /// What others than the servers of the store and the generator used of `cores` processors;
    /// `None` for short trials, and for servers on other machines.
    pub fn others(&self, cores: u32) -> Option<Others> {
        let time = |usage: &Usage| ProcessorTime {
            cpu_s: usage.cpu_s,
            interrupts_s: usage.interrupts_s,
            stolen_s: usage.stolen_s,
        };
        let used = self.usage.iter().map(|(name, usage)| (&**name, time(usage)));
        Others::of(used, self.seconds, cores)
    }

    /// The highest rate sustained for [`PEAK_SECONDS`], and the threads at that time.
    pub fn peak(&self) -> Option<(f64, u32)> {
        let whole = self.whole_seconds();
        let width = PEAK_SECONDS.min(whole.len());
        let windows = whole.windows(width.max(1));
        let rate = |w: &[Second]| w.iter().map(|s| s.count).sum::<u64>() as f64 / w.len() as f64;
        let best = windows.max_by(|a, b| rate(a).total_cmp(&rate(b)))?;
        Some((rate(best), best.iter().map(|second| second.threads).max()?))
    }

    /// Operations without a right answer.
    pub fn errors(&self) -> u64 {
        self.labels.get(ALL).map_or(0, |all| all.errors.values().sum())
    }
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
    /// What the generator achieved with the driver that does nothing: the highest rate, or the
    /// lowest value.
    pub fn limit(&self) -> Option<f64> {
        let completed = self.limits.iter().filter(|trial| trial.completed());
        match &self.measure {
            value @ Measure::Value(_) => {
                completed.filter_map(|trial| value.of(trial)).min_by(f64::total_cmp)
            }
            _ => completed.filter_map(|trial| Measure::Throughput.of(trial)).max_by(f64::total_cmp),
        }
    }

    /// How much of the result of `group` may be due to the generator: the reached share of its
    /// limit, or, for a value, the share that it has with the driver that does nothing.
    pub fn share_of_limit(&self, group: &Group) -> Option<f64> {
        let sample = group.sample(&self.rate_measure());
        let mean = mean(&sample)?;
        let limit = self.limit()?;
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
            same @ (Measure::Peak | Measure::Value(_)) => same.clone(),
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
            experiment.groups.iter().flat_map(|group| &group.repetitions).chain(&experiment.limits)
        });
        let end = |trial: &Repetition| {
            let started: jiff::Timestamp = trial.started.parse().ok()?;
            Some(started + jiff::SignedDuration::from_secs(trial.seconds.round() as i64))
        };
        Some(trials.filter_map(end).max()?.to_string())
    }
}

/// The value, µs, that `percent` of the latencies do not exceed.
pub fn value_at_percentile(latencies: &Histogram<u64>, percent: f64) -> u64 {
    // 99.9 / 100 is a little above 0.999, and would round the rank of 1,998 up to 1,999.
    latencies.value_at_quantile((percent / 100.0).next_down())
}

/// The mean; `None` for no values.
pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}
