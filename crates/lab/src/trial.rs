//! A trial: one measured run of one workload against one store. It is plain data, so that it can be
//! written into the results, sent to generators on other machines, and repeated.

use serde::{Deserialize, Serialize};

use crate::driver::{Ability, StoreSpec};
use crate::number::count;
use crate::row::Schema;
pub use crate::sending::{Load, Share, WARM_UP_S_MAX};
use crate::workload::{Phase, Workload};

/// Everything that determines a trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// Name of the experiment in its study.
    pub experiment: String,
    /// Whether it is measured, or loads data for a measured trial.
    pub role: Role,
    /// The store, with its addresses.
    pub store: StoreSpec,
    /// Nodes of the store's cluster, or its shards.
    pub nodes: u32,
    /// The table it works on.
    pub schema: Schema,
    /// The work.
    pub work: Work,
    /// The repetition, from 1.
    pub repetition: u32,
    /// The seed of all random choices: the same trial sends the same operations.
    pub seed: u64,
    /// The target rate is this share of the rate that the store reached in another experiment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_share: Option<f64>,
    /// This generator's share of the work.
    #[serde(default)]
    pub share: Share,
    /// The servers are started again before it, with nothing of their data in memory.
    #[serde(default)]
    pub cold: bool,
    /// The servers are killed this long after the beginning, s; then acknowledged rows are looked
    /// for.
    #[serde(default)]
    pub crash_after_s: Option<f64>,
}

/// The purpose of a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The numbers of the trial are the result.
    Measure,
    /// The trial loads data for others.
    Prepare,
    /// The same work before the first measured trial, so that a store is in a steady state then.
    WarmUp,
    /// The same work against a sink in the place of the store: the limit of the generator.
    Limit,
}

/// The work of a trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Work {
    /// Threads that take operations from a workload.
    Load {
        /// What the operations are.
        workload: Workload,
        /// How they are sent.
        load: Load,
    },
    /// Rows at a steady rate, then counts until all are found (2015 study, real-time data).
    RealTime(RealTime),
}

impl Work {
    /// Whether it asks on-line queries over measurements.
    pub fn is_online(&self) -> bool {
        matches!(self, Work::Load { workload: Workload::MeasurementWindows(_), .. })
    }

    /// Whether it loads data.
    pub fn is_load(&self) -> bool {
        let Work::Load { workload, .. } = self else { return false };
        match workload {
            Workload::Ycsb { phase, .. } | Workload::Apm { phase, .. } => *phase == Phase::Load,
            Workload::MeasurementWrites(_) => true,
            _ => false,
        }
    }

    /// The abilities that it needs of a driver.
    pub fn needs(&self) -> Vec<Ability> {
        match self {
            Work::Load { workload, .. } => workload.needs(),
            Work::RealTime(_) => vec![Ability::Insert, Ability::Count],
        }
    }

    /// Whether it adds rows to its table.
    pub fn inserts(&self) -> bool {
        match self {
            Work::Load { workload, .. } => workload.inserts(),
            Work::RealTime(_) => true,
        }
    }

    /// Whether it writes rows, alone or among other operations.
    pub fn writes(&self) -> bool {
        let Work::Load { workload, .. } = self else { return true };
        let needs = workload.needs();
        [Ability::Insert, Ability::Update].iter().any(|ability| needs.contains(ability))
    }

    /// How much it does, in words; `None` for the real-time experiment.
    pub fn amount(&self) -> Option<String> {
        let Work::Load { load, .. } = self else { return None };
        let records = self.records().map(|records| format!("{} records; ", count(records)));
        Some(records.unwrap_or_default() + &load.amount())
    }

    /// How long it may take, with what it does unmeasured before, s; `None` if it ends only after
    /// its last operation.
    pub fn seconds_max(&self) -> Option<f64> {
        match self {
            Work::Load { load, .. } => {
                let at_rate =
                    load.operations.zip(load.target_per_s).map(|(n, per_s)| n as f64 / per_s);
                Some(load.seconds.or(at_rate)? + load.warm_up_s)
            }
            Work::RealTime(work) => Some(
                work.records as f64 / work.per_s + f64::from(work.counts_max) * work.interval_s,
            ),
        }
    }

    /// Lines that should arrive in batches while queries run, but for the last batch, which
    /// is due at the very end.
    pub fn due_rows(&self) -> Option<f64> {
        let Work::Load { workload: Workload::LineQueries(queries), load } = self else {
            return None;
        };
        let per_s = queries.arriving.as_ref().filter(|_| load.batch_rows > 1)?.per_s;
        Some(per_s * load.seconds? - f64::from(load.batch_rows))
    }

    /// Whether operations come at rates of the workload: such work has no limit of the generator
    /// that a store could reach.
    pub fn is_paced(&self) -> bool {
        let Work::Load { workload: Workload::LineQueries(queries), .. } = self else {
            return false;
        };
        queries.arriving.as_ref().is_some_and(|arriving| arriving.queries_per_s.is_some())
    }

    /// Records in the store, if the workload knows them.
    pub fn records(&self) -> Option<u64> {
        let Work::Load { workload, .. } = self else { return None };
        match workload {
            Workload::LogWrites { records } | Workload::LogReads { records } => Some(*records),
            Workload::HistoryWrites(history) | Workload::HistoryQueries(history) => {
                Some(history.records)
            }
            Workload::LineWrites { records } => Some(*records),
            Workload::LineQueries(queries) => Some(queries.records),
            Workload::LineStream { .. } => None,
            Workload::MeasurementWrites(data)
            | Workload::MeasurementWindows(data)
            | Workload::MeasurementHistory(data) => Some(data.records),
            Workload::Apm { records, .. } => Some(*records),
            Workload::Ycsb { properties, .. } => properties.get("recordcount")?.trim().parse().ok(),
        }
    }
}

/// The real-time experiment of the 2015 study.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RealTime {
    /// Rows with one time stamp.
    pub records: u64,
    /// Rows per second while they are written.
    pub per_s: f64,
    /// Connections that write.
    pub threads: u32,
    /// Rows of one insert.
    #[serde(default = "one_row")]
    pub batch_rows: u32,
    /// Time between two counts, s.
    pub interval_s: f64,
    /// Counts before it gives up.
    pub counts_max: u32,
}

fn one_row() -> u32 {
    1
}

#[cfg(test)]
impl Trial {
    /// For tests: one repetition on a store with this label.
    pub(crate) fn example(store: &str, workload: Workload, load: Load) -> Trial {
        Trial {
            experiment: "test".to_owned(),
            role: Role::Measure,
            store: StoreSpec {
                name: store.to_owned(),
                label: store.to_owned(),
                endpoints: Vec::new(),
                options: std::collections::BTreeMap::new(),
            },
            nodes: 1,
            schema: workload.schema().expect("a workload that can be run"),
            work: Work::Load { workload, load },
            repetition: 1,
            seed: 1,
            target_share: None,
            share: Share::default(),
            cold: false,
            crash_after_s: None,
        }
    }
}
