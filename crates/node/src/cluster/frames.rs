//! The frames that a store has taken from collectors, as it tells the node that answers for it.
//!
//! A collector numbers its frames before it gives them to the stores of a stripe, so two stores of
//! a stripe that have everything have taken the same numbers.

use std::collections::BTreeMap;

use record::Numbers;
use serde::{Deserialize, Serialize};
use store::{NodeFrames, Store};

/// The call by which a store tells its frames.
pub const FRAMES_PATH: &str = "/api/v1/frames";

/// What a store says of itself: the answer to [`FRAMES_PATH`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Told {
    node: u32,
    lines: u64,
    lines_damaged: u64,
    collectors: Vec<ToldCollector>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct ToldCollector {
    node: u32,
    taken: Vec<(u64, u64)>,
    stored: Vec<(u64, u64)>,
}

/// What is known of a store's frames at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoreFrames {
    /// The store's node id, which its data directory keeps.
    pub node: u32,
    /// Its lines.
    pub lines: u64,
    /// Of those, the ones that are known to be unreadable.
    pub lines_damaged: u64,
    /// Its frames, by collector.
    pub collectors: BTreeMap<u32, NodeFrames>,
}

impl StoreFrames {
    /// Those of a store of this process.
    pub fn of(store: &Store) -> StoreFrames {
        let stats = store.stats();
        StoreFrames {
            node: store.node(),
            lines: stats.lines,
            lines_damaged: stats.sealing.damaged_lines,
            collectors: store.frames_of_nodes(),
        }
    }

    /// As the answer of a call.
    pub fn to_told(&self) -> Told {
        let collector = |(&node, frames): (&u32, &NodeFrames)| ToldCollector {
            node,
            taken: frames.taken.ranges().collect(),
            stored: frames.stored.ranges().collect(),
        };
        Told {
            node: self.node,
            lines: self.lines,
            lines_damaged: self.lines_damaged,
            collectors: self.collectors.iter().map(collector).collect(),
        }
    }

    /// Whether the store has neither lines nor frames.
    pub fn is_empty(&self) -> bool {
        self.lines == 0 && self.collectors.is_empty()
    }
}

impl From<Told> for StoreFrames {
    fn from(told: Told) -> StoreFrames {
        let Told { node, lines, lines_damaged, collectors } = told;
        let collectors = collectors.into_iter().map(|ToldCollector { node, taken, stored }| {
            (node, NodeFrames { taken: numbers(&taken), stored: numbers(&stored) })
        });
        StoreFrames { node, lines, lines_damaged, collectors: collectors.collect() }
    }
}

fn numbers(ranges: &[(u64, u64)]) -> Numbers {
    let mut numbers = Numbers::new();
    ranges.iter().for_each(|&(first, last)| numbers.insert_range(first, last));
    numbers
}
