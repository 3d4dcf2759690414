//! How the operations of a trial are sent, and which part of them by which generator.

use serde::{Deserialize, Serialize};

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

impl Share {
    /// This part of the numbers 0 to `count`: from the first to before the second.
    pub fn range(self, count: u64) -> (u64, u64) {
        let place = |index: u32| {
            (u128::from(count) * u128::from(index) / u128::from(self.of.max(1))) as u64
        };
        (place(self.index), place(self.index + 1))
    }

    /// This part of a count.
    pub fn part(self, count: u64) -> u64 {
        let (from, to) = self.range(count);
        to - from
    }
}
