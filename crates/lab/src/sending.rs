//! How the operations of a trial are sent, and the share of each generator.

use serde::{Deserialize, Serialize};

use crate::number::count;

/// Length of a warm-up trial, s; a measured trial that is shorter is its own length.
pub const WARM_UP_S_MAX: f64 = 10.0;

/// How operations are sent. The trial ends at the first of `operations`, `operations_per_thread`
/// and `seconds`; at least one is given.
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
    /// An open loop: operations per second of all threads together, with latency from the moment an
    /// operation was due. Without it, each thread sends the next operation when it has the answer
    /// to the last (closed loop).
    #[serde(default)]
    pub target_per_s: Option<f64>,
    /// Time of operations that are sent first, at the same rate, and not measured, s.
    #[serde(default)]
    pub warm_up_s: f64,
    /// Rows of one insert.
    #[serde(default = "one")]
    pub batch_rows: u32,
    /// The trial lasts until everything that was written is visible, rather than acknowledged.
    #[serde(default)]
    pub until_visible: bool,
}

impl Load {
    /// How much is sent, in words.
    pub fn amount(&self) -> String {
        let mut parts =
            vec![format!("{} thread{}", self.threads, if self.threads == 1 { "" } else { "s" })];
        let limits = [
            self.operations.map(|n| format!("{} operations", count(n))),
            self.operations_per_thread.map(|n| format!("{} operations of each", count(n))),
            self.seconds.map(|s| format!("at most {s} s")),
        ];
        parts.extend(limits.into_iter().flatten());
        if self.ramp_s > 0.0 {
            parts.push(format!("started over {} s", self.ramp_s));
        }
        if self.warm_up_s > 0.0 {
            parts.push(format!("after {} s to warm up", self.warm_up_s));
        }
        parts.join(", ")
    }
}

fn one() -> u32 {
    1
}

/// The share of one of several generator processes of a trial: `1/of` of every count and rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Share {
    /// From 0.
    pub index: u32,
    /// The number of generators.
    pub of: u32,
}

impl Default for Share {
    fn default() -> Share {
        Share { index: 0, of: 1 }
    }
}

impl Share {
    /// This share of the numbers 0 to `count`: from the first to before the second.
    pub fn range(self, count: u64) -> (u64, u64) {
        let place = |index: u32| {
            (u128::from(count) * u128::from(index) / u128::from(self.of.max(1))) as u64
        };
        (place(self.index), place(self.index + 1))
    }

    /// This share of a count.
    pub fn part(self, count: u64) -> u64 {
        let (from, to) = self.range(count);
        to - from
    }
}
