//! A trial: one measured run of one piece of work against one store. It is plain data, so that it
//! can be written into the results, sent to generators on other machines, and run again.

use serde::{Deserialize, Serialize};

use crate::driver::StoreSpec;
use crate::row::Schema;
pub use crate::sending::{Load, Share};
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
