//! A trial: one measured run of one piece of work against one store. It is plain data, so that it
//! can be written into the results, sent to generators on other machines, and run again.

use serde::{Deserialize, Serialize};

use crate::driver::StoreSpec;
use crate::row::Schema;
use crate::workload::Workload;

/// Everything that decides what a trial does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// Name of the experiment in its study.
    pub experiment: String,
    /// Whether this is measured, or a load of data that a measured trial needs.
    pub role: Role,
    /// The store, as it was reached.
    pub store: StoreSpec,
    /// Nodes of the store's cluster, or its shards.
    pub nodes: u32,
    /// The table it works on.
    pub schema: Schema,
    /// What is sent.
    pub work: Work,
    /// From 1.
    pub repetition: u32,
    /// Of all that is random: the same trial sends the same operations.
    pub seed: u64,
    /// Which part of the work is this generator's.
    #[serde(default)]
    pub share: Share,
}

/// Why a trial is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Its numbers are the result.
    Measure,
    /// It loads data for others.
    Prepare,
    /// The same work against the driver that does nothing: the limit of the generator.
    Limit,
}

/// The part of one of several generator processes that share a trial: of every count and rate it
/// takes `1/of`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Share {
    /// From 0.
    pub index: u32,
    /// How many share it.
    pub of: u32,
}

impl Default for Share {
    fn default() -> Share {
        Share { index: 0, of: 1 }
    }
}

/// What a trial sends.
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

/// How operations are sent. The trial ends with whichever of `operations`, `operations_per_thread`
/// and `seconds` comes first; at least one is given.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Load {
    /// Connections that each send one operation at a time.
    pub threads: u32,
    /// Threads start evenly over this time, s; the first at once.
    #[serde(default)]
    pub ramp_s: f64,
    /// Operations of all threads together.
    #[serde(default)]
    pub operations: Option<u64>,
    /// Operations of each thread.
    #[serde(default)]
    pub operations_per_thread: Option<u64>,
    /// Length, s, after the warm-up.
    #[serde(default)]
    pub seconds: Option<f64>,
    /// An open loop: operations per second of all threads together, and latency from the moment an
    /// operation was due. Without it each thread sends the next operation when it has the answer of
    /// the last (closed loop).
    #[serde(default)]
    pub target_per_s: Option<f64>,
    /// Sent before, at the same pace, and not measured, s.
    #[serde(default)]
    pub warm_up_s: f64,
    /// Rows of one insert; more than one only where data is loaded.
    #[serde(default = "one")]
    pub batch_rows: u32,
}

fn one() -> u32 {
    1
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
    /// Time between two counts, s.
    pub interval_s: f64,
    /// Counts before it gives up.
    pub counts_max: u32,
}

#[cfg(test)]
impl Trial {
    /// For tests: once, of a store that is called so.
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
            share: Share::default(),
        }
    }
}
