//! The numbers of a trial, computed from its lines: rates, latencies, seconds, the resources of
//! servers and generator, and the [`Measure`] that ranks its store.
//!
//! A run computes them to see whether a store is in a steady state, and to aim at a share of the
//! rate that a store reached. Reports are made of them.

mod measure;
mod read;

use std::collections::BTreeMap;

use hdrhistogram::Histogram;

use crate::measure::others::{Others, ProcessorTime};
use crate::results::{Outcome, Resource, WRITTEN_ROWS};
use crate::trial::{Trial, Work};
pub use measure::{Measure, Over, PEAK_SECONDS};
pub use read::{DISK_PER_RECORD, DUE_ROWS, read_trial};

/// The label for the operations of all labels together.
pub const ALL: &str = "all";

/// The percentiles of the 2015 study.
pub const PERCENTILES: [f64; 8] = [25.0, 50.0, 75.0, 90.0, 95.0, 99.0, 99.9, 100.0];

/// Operations beyond a percentile from which it is shown. Of fewer the percentile is the latency of
/// single operations: 99.9% takes 10,000 operations.
const BEYOND_MIN: f64 = 10.0;

/// The results of a trial are inconsistent.
#[derive(Debug, thiserror::Error)]
#[error("trial {trial}: {reason}; measure it again: loginson-lab resume --retry-failed")]
pub struct TrialError {
    /// Its name.
    pub trial: String,
    /// The error.
    pub reason: String,
}

/// Merged latencies, µs, by label of operations.
pub type Histograms = BTreeMap<String, Histogram<u64>>;

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
    /// Latencies of all operations at [`PERCENTILES`], ms: see [`percentile_ms`].
    pub percentiles_ms: [Option<f64>; PERCENTILES.len()],
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
    /// Writes that disks completed in the whole trial; known of the whole machine.
    pub disk_writes: Option<u64>,
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
    fn keep_whole(&mut self, seconds: f64) {
        let whole = (seconds as usize).max(1);
        self.cpu.truncate(whole);
        self.memory_bytes.truncate(whole);
        self.disk_bytes.truncate(whole);
        self.disk_write_bytes_each.truncate(whole);
        self.network_bytes_each.truncate(whole);
    }

    fn add(&mut self, resource: &Resource) {
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
        if let Some(writes) = resource.disk_writes {
            *self.disk_writes.get_or_insert(0) += writes;
        }
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
        let rows = self.values.get(WRITTEN_ROWS)?;
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

/// The rate that was asked for, operations per second.
pub fn target_per_s(trial: &Trial) -> Option<f64> {
    match &trial.work {
        Work::Load { load, .. } => load.target_per_s,
        Work::RealTime(_) => None,
    }
}

/// The latency at a percentile, ms; `None` if fewer than [`BEYOND_MIN`] operations are beyond it.
/// The maximum is that of any number.
pub fn percentile_ms(latencies: &Histogram<u64>, percent: f64) -> Option<f64> {
    // A percentage of a count may be off by a rounding.
    let beyond = latencies.len() as f64 * (100.0 - percent) / 100.0 + 1e-6;
    let is_known = !latencies.is_empty() && (percent >= 100.0 || beyond >= BEYOND_MIN);
    is_known.then(|| value_at_percentile(latencies, percent) as f64 / 1000.0)
}

/// The value, µs, that `percent` of the latencies do not exceed.
fn value_at_percentile(latencies: &Histogram<u64>, percent: f64) -> u64 {
    // 99.9 / 100 is a little above 0.999, and would round the rank of 1,998 up to 1,999.
    latencies.value_at_quantile((percent / 100.0).next_down())
}
