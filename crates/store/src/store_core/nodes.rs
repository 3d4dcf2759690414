//! Frames that other nodes built and sent: each is kept once, across crashes on both sides.
//!
//! The number of such a frame is in the header of the frame itself, so it becomes durable together
//! with the lines. The held numbers follow from the header of a segment (all up to its creation)
//! and the frames behind it. So there must always be a hot segment newer than any that is sealed or
//! deleted, even an empty one.
//!
//! Invariants: a number is [held](crate::Store::held) once its frame is durable, and only then, or
//! once an operator has filled the store from another copy that had taken it. A node's own claims
//! make no number held, so that no frame is acknowledged that is not there. A held number stays
//! held, with one exception: of a node with many gaps, the store forgets the lowest ranges that the
//! node says it will not send again.
//!
//! A node that sent no frame reserves nothing: any other node that needs a place may take its
//! place, and its id. A node that sent frames keeps its place as long as it may come back for them:
//! for `node_age_ns` of the configuration after it was last seen. If it comes back later still,
//! frames that it had sent and that were not acknowledged may be kept twice; none is lost.
//!
//! The identity of a node is recorded in the catalog alone. When the catalog is lost, numbers are
//! still known from the segments, but a copy of a node's directory is no longer detected.

use std::collections::{BTreeMap, BinaryHeap, HashMap, HashSet};
use std::sync::Mutex;

use record::Numbers;
use record::frame::FRAME_FORWARDED;
use segment::{FrameEntry, HELD_MAX, Held};

use crate::error::StoreError;
use crate::sync::lock;

/// Ranges of numbers that are remembered of each node even after it announced that it will not send
/// them again: a connection that it gave up may still bring some.
pub const RANGES_KEPT: usize = 64;
/// Starts of a node that a store may have missed. A node that claims more has a forged number,
/// which would lock the real node out.
pub(crate) const STARTS_JUMP_MAX: u64 = 1 << 20;
/// Why a node is refused.
#[derive(Debug, thiserror::Error)]
pub enum NodeRefusal {
    /// Two nodes drew the same id, or the id is the store's own.
    #[error(
        "another node has the id {0:08x}; move the spool directory of this one away when it is empty, so that it draws another"
    )]
    Taken(u32),
    /// Its directory was copied or restored from a backup: numbers would be used twice.
    #[error(
        "node {0:08x} was started from a later state of its directory already: this directory is a copy, or was restored; \
         stop one of the two, and give it an empty spool directory"
    )]
    Copy(u32),
    /// It claims more starts than it can have had.
    #[error(
        "node {0:08x} says that it was started a million times since it was here; if its directory is damaged, give it an empty one"
    )]
    Starts(u32),
    /// The store has frames of too many nodes.
    #[error(
        "the store has frames of {nodes} nodes, which is the most it takes, and each of them was here in the last {hours} hours; \
         let fewer collectors with longer-lived spool directories deliver to it, set a smaller store.collector_age, or add a store"
    )]
    TooMany {
        /// The limit.
        nodes: usize,
        /// The age at which one that is away is forgotten.
        hours: i64,
    },
    /// The catalog cannot be written.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Numbers of frames that are durable here, by node.
#[derive(Clone, Debug, Default)]
pub(crate) struct HeldNumbers {
    nodes: BTreeMap<u32, Numbers>,
}

impl HeldNumbers {
    pub(crate) fn of(&self, node: u32) -> Numbers {
        self.nodes.get(&node).cloned().unwrap_or_default()
    }

    /// Adds the ranges of a segment's header.
    pub(crate) fn add_header(&mut self, held: &[Held]) {
        for held in held {
            self.nodes.entry(held.node).or_default().insert_range(held.first, held.last);
        }
    }

    /// Adds the number of a durable frame, if another node built it.
    pub(crate) fn add(&mut self, entry: &FrameEntry) {
        if entry.flags & FRAME_FORWARDED != 0 {
            self.nodes.entry(entry.node).or_default().insert(entry.number);
        }
    }

    /// The ranges for a segment's header, and how many are left out. With more gaps than a header
    /// has room for, the lowest ranges of nodes with many are left out: those frames might be kept
    /// twice, and none is lost.
    pub(crate) fn to_header(&self) -> (Vec<Held>, usize) {
        let ranges = |(&node, numbers): (&u32, &Numbers)| -> Vec<Held> {
            numbers.ranges().map(|(first, last)| Held { node, first, last }).collect()
        };
        let mut nodes: Vec<Vec<Held>> = self.nodes.iter().map(ranges).collect();
        let all: usize = nodes.iter().map(Vec::len).sum();
        let omitted = all.saturating_sub(HELD_MAX);
        let mut left_out = vec![0; nodes.len()];
        let by_length = nodes.iter().enumerate().map(|(at, ranges)| (ranges.len(), at));
        let mut by_length: BinaryHeap<(usize, usize)> = by_length.collect();
        for _ in 0..omitted {
            let (length, at) = by_length.pop().expect("there are rows");
            left_out[at] += 1;
            by_length.push((length - 1, at));
        }
        for (ranges, left_out) in nodes.iter_mut().zip(left_out) {
            ranges.drain(..left_out);
        }
        (nodes.concat(), omitted)
    }

    /// The number of ranges in a header.
    fn header_ranges(&self) -> usize {
        self.nodes.values().map(|numbers| numbers.ranges().count()).sum::<usize>().min(HELD_MAX)
    }
}

/// State about other nodes, besides their rows in the catalog.
pub(crate) struct RemoteNodes {
    state: Mutex<RemoteState>,
}

struct RemoteState {
    held: HeldNumbers,
    /// Number of connections of each connected node.
    connected: HashMap<u32, usize>,
    /// Nodes that sent frames since the start, durable or not.
    brought: HashSet<u32>,
}

impl RemoteState {
    fn is_empty_and_away(&self, node: u32) -> bool {
        !self.connected.contains_key(&node)
            && !self.brought.contains(&node)
            && !self.held.nodes.contains_key(&node)
    }
}

impl RemoteNodes {
    pub(crate) fn new(held: HeldNumbers) -> Self {
        let (connected, brought) = Default::default();
        RemoteNodes { state: Mutex::new(RemoteState { held, connected, brought }) }
    }

    /// The held numbers of all nodes, for a segment's header, and how many ranges are left out; see
    /// [`HeldNumbers::to_header`].
    pub(crate) fn header_ranges(&self) -> (Vec<Held>, usize) {
        lock(&self.state).held.to_header()
    }

    /// The number of these ranges.
    pub(crate) fn header_ranges_count(&self) -> usize {
        lock(&self.state).held.header_ranges()
    }

    /// Whether frames of any other node are durable here.
    pub(crate) fn holds_any(&self) -> bool {
        !lock(&self.state).held.nodes.is_empty()
    }

    pub(crate) fn held(&self, node: u32) -> Numbers {
        lock(&self.state).held.of(node)
    }

    /// The held numbers of all nodes.
    pub(crate) fn all_held(&self) -> BTreeMap<u32, Numbers> {
        lock(&self.state).held.nodes.clone()
    }

    /// Adds the numbers of frames that became durable.
    pub(crate) fn note_durable(&self, entries: &[FrameEntry]) {
        if entries.iter().any(|entry| entry.flags & FRAME_FORWARDED != 0) {
            let mut state = lock(&self.state);
            entries.iter().for_each(|entry| state.held.add(entry));
        }
    }

    /// Adds numbers of frames that another copy has taken, and whose lines are deleted there.
    pub(crate) fn add_held(&self, node: u32, numbers: &Numbers) {
        lock(&self.state).held.nodes.entry(node).or_default().insert_all(numbers);
    }

    pub(crate) fn note_brought(&self, node: u32) {
        lock(&self.state).brought.insert(node);
    }

    pub(crate) fn connect(&self, node: u32) {
        *lock(&self.state).connected.entry(node).or_default() += 1;
    }

    /// Counts one connection less; returns whether it was the node's last.
    pub(crate) fn disconnect(&self, node: u32) -> bool {
        let mut state = lock(&self.state);
        let Some(connections) = state.connected.get_mut(&node) else { return false };
        *connections = connections.saturating_sub(1);
        *connections == 0 && state.connected.remove(&node).is_some()
    }

    pub(crate) fn is_connected(&self, node: u32) -> bool {
        lock(&self.state).connected.contains_key(&node)
    }

    /// Whether a node is not connected and no frame of it came, so that the store need not remember
    /// it.
    pub(crate) fn is_empty_and_away(&self, node: u32) -> bool {
        lock(&self.state).is_empty_and_away(node)
    }

    /// Forgets ranges of a node below the number `first`, which it will not send again.
    pub(crate) fn resume_at(&self, node: u32, first: u64) {
        if let Some(numbers) = lock(&self.state).held.nodes.get_mut(&node) {
            numbers.forget_below(first, RANGES_KEPT);
        }
    }

    /// Forgets a node; returns whether frames of it are here.
    pub(crate) fn forget(&self, node: u32) -> bool {
        let mut state = lock(&self.state);
        let had_frames = state.held.nodes.remove(&node).is_some();
        if had_frames {
            state.brought.remove(&node);
        }
        had_frames
    }
}

/// The numbers held by segments, which come in order from the oldest: of each segment the ranges in
/// its header, then its frames.
pub(crate) fn recover_held<'a>(
    segments: impl Iterator<Item = (&'a [Held], &'a [FrameEntry])>,
) -> HeldNumbers {
    let mut numbers = HeldNumbers::default();
    for (held, frames) in segments {
        numbers.add_header(held);
        frames.iter().for_each(|entry| numbers.add(entry));
    }
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_names_as_many_ranges_as_it_has_room_for() {
        let mut held = HeldNumbers::default();
        let gaps = HELD_MAX as u64 + 3;
        let rows: Vec<Held> =
            (0..gaps).map(|i| Held { node: 7, first: 10 * i, last: 10 * i + 4 }).collect();
        held.add_header(&rows);
        let one = Held { node: 3, first: 1, last: 9 };
        held.add_header(&[one]);
        let (found, omitted) = held.to_header();
        assert_eq!((found.len(), omitted), (HELD_MAX, 4));
        assert_eq!(found[0], one, "a node without gaps keeps its place");
        assert_eq!(found[1..], rows[4..]);
    }
}
