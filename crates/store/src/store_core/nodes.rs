//! Frames that other nodes built and sent: each is taken once, across crashes on both sides.
//!
//! The number of such a frame stands in the frame's own header, so it is durable with the lines,
//! not before and not after. Which numbers are there is known from the header of a segment (all up
//! to when it was made) and the frames behind it; so there is always a hot segment newer than any
//! that is sealed or deleted, if it must be an empty one.
//!
//! Invariants: a number is [held](Store::held) once its frame is durable, and only then: what a
//! node says of its numbers makes none held, so that none is acknowledged whose frame is not there.
//! It is held for good, but for gaps: of a node with many, the lowest ranges are forgotten that it
//! says it will not send again.
//!
//! A node from which no frame came binds nobody: it makes place for any other that needs one, and
//! its id may be another's. A node from which frames came keeps its place as long as it may come
//! back for them: [`FORGET_NODE_NS`] after it was seen last. If it comes back later still, frames
//! may be taken twice that it sent before and that were not acknowledged; none is lost.
//!
//! Who a node is stands in the catalog alone. When that is lost, numbers are still known, and only
//! a copy of a node's directory would go unnoticed.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Mutex;

use record::frame::FRAME_FORWARDED;
use record::{Numbers, nearest_to};
use segment::{FrameEntry, HELD_MAX, Held};

use crate::error::StoreError;
use crate::sync::lock;

/// Nodes that a store takes frames from, ever. Each needs a place in every segment's header, and
/// one more for each gap in its numbers. Beyond, a node that is away is forgotten: the one seen
/// first of those that brought nothing, else of those that were not seen for [`FORGET_NODE_NS`];
/// else a new one is refused.
pub const NODES_MAX: usize = 128;
/// Ranges of numbers that are remembered of a node even when it says that it will not send them
/// again: a connection that it gave up may still bring some.
const RANGES_KEPT: usize = 64;
/// How many starts of a node a store may have missed. Beyond, the number is forged, and would lock
/// the node out.
pub(crate) const STARTS_JUMP_MAX: u64 = 1 << 20;
/// After so long without a connection a node may be forgotten: what it would send again is long
/// acknowledged, or given up.
pub(crate) const FORGET_NODE_NS: i64 = 30 * 86_400 * 1_000_000_000;
/// Numbers must not jump further than the low half of a number can tell; beyond, a new segment says
/// where they are.
const JUMP_MAX: u64 = 1 << 30;

/// Who another node says it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeIdentity {
    /// Its id; not 0.
    pub node: u32,
    /// Drawn together with the id: tells two nodes with the same id apart.
    pub key: u64,
    /// How often it was started.
    pub starts: u64,
    /// Drawn at each start: tells a node from a copy of its directory.
    pub run: u64,
}

/// Why a node is not taken.
#[derive(Debug, thiserror::Error)]
pub enum NodeRefusal {
    /// Two nodes drew the same id, or the id is the store's own.
    #[error(
        "another node has the id {0:08x}; move the spool directory of this one away when it is empty, so that it draws another"
    )]
    Taken(u32),
    /// Its directory was copied or set back: numbers would be given twice.
    #[error(
        "node {0:08x} was started from a later state of its directory already: this directory is a copy, or was restored; \
         stop one of the two, and give it an empty spool directory"
    )]
    Copy(u32),
    /// Its starts are more than it can have had.
    #[error(
        "node {0:08x} says that it was started a million times since it was here; if its directory is damaged, give it an empty one"
    )]
    Starts(u32),
    /// No place for another node.
    #[error(
        "the store has frames of {NODES_MAX} nodes, which is the most it takes, and each of them was here in the last 30 days; \
         let fewer collectors with longer-lived spool directories deliver to it, or add a store"
    )]
    TooMany,
    /// The catalog cannot be written.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A row of the catalog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NodeRow {
    pub(crate) identity: NodeIdentity,
    pub(crate) seen_ns: i64,
}

/// Numbers of frames that are durable here, by node.
#[derive(Clone, Debug, Default)]
pub(crate) struct HeldNumbers {
    nodes: BTreeMap<u32, Numbers>,
    /// Where the numbers of a node are that are further from the greatest one held than their low
    /// half tells: the last of them.
    bases: BTreeMap<u32, u64>,
}

impl HeldNumbers {
    pub(crate) fn of(&self, node: u32) -> Numbers {
        self.nodes.get(&node).cloned().unwrap_or_default()
    }

    /// Adds what a segment's header says.
    pub(crate) fn add_header(&mut self, held: &[Held]) {
        for held in held {
            if held.last < held.first {
                self.bases.insert(held.node, held.first);
            } else {
                self.nodes.entry(held.node).or_default().insert_range(held.first, held.last);
            }
        }
    }

    /// A number near which the next ones of a node are; 0 at first.
    fn last_of(&self, node: u32) -> u64 {
        let greatest = || self.nodes.get(&node).and_then(Numbers::greatest);
        self.bases.get(&node).copied().or_else(greatest).unwrap_or(0)
    }

    /// Adds a frame that is durable, if another node built it.
    pub(crate) fn add(&mut self, entry: &FrameEntry) {
        if entry.flags & FRAME_FORWARDED != 0 {
            // Of a frame of version 1 only the low half is known.
            let number = match u32::try_from(entry.number) {
                Ok(low) => nearest_to(self.last_of(entry.node), low),
                Err(_) => entry.number,
            };
            self.nodes.entry(entry.node).or_default().insert(number);
            if let Some(base) = self.bases.get_mut(&entry.node) {
                *base = number;
            }
        }
    }

    /// As a segment's header says it. With more gaps than there is room for, the lowest ranges of
    /// nodes with many are left out: those frames might be taken twice, and none is lost.
    /// The second value is how many.
    pub(crate) fn to_header(&self) -> (Vec<Held>, usize) {
        let ranges = |(&node, numbers): (&u32, &Numbers)| -> Vec<Held> {
            numbers.ranges().map(|(first, last)| Held { node, first, last }).collect()
        };
        let base = |(&node, &base): (&u32, &u64)| Held { node, first: base, last: base - 1 };
        let mut nodes: Vec<Vec<Held>> = self.nodes.iter().map(ranges).collect();
        nodes.extend(self.bases.iter().map(|row| vec![base(row)]));
        let all: usize = nodes.iter().map(Vec::len).sum();
        let mut rows = all;
        while rows > HELD_MAX {
            let most = nodes.iter_mut().max_by_key(|ranges| ranges.len()).expect("there are rows");
            most.remove(0);
            rows -= 1;
        }
        (nodes.concat(), all - rows)
    }
}

/// What a store knows of other nodes, besides their rows in the catalog.
pub(crate) struct RemoteNodes {
    state: Mutex<RemoteState>,
}

struct RemoteState {
    held: HeldNumbers,
    /// Connections of each node, of those that have any.
    connected: HashMap<u32, usize>,
    /// Nodes of which frames were taken since the start, durable or not.
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

    /// Whether frames of any other node are durable here.
    pub(crate) fn holds_any(&self) -> bool {
        !lock(&self.state).held.nodes.is_empty()
    }

    pub(crate) fn held(&self, node: u32) -> Numbers {
        lock(&self.state).held.of(node)
    }

    /// Adds the numbers of frames that became durable.
    pub(crate) fn note_durable(&self, entries: &[FrameEntry]) {
        if entries.iter().any(|entry| entry.flags & FRAME_FORWARDED != 0) {
            let mut state = lock(&self.state);
            entries.iter().for_each(|entry| state.held.add(entry));
        }
    }

    pub(crate) fn note_brought(&self, node: u32) {
        lock(&self.state).brought.insert(node);
    }

    pub(crate) fn connect(&self, node: u32) {
        *lock(&self.state).connected.entry(node).or_default() += 1;
    }

    /// Counts a connection less; returns whether it was the node's last.
    pub(crate) fn disconnect(&self, node: u32) -> bool {
        let mut state = lock(&self.state);
        let Some(connections) = state.connected.get_mut(&node) else { return false };
        *connections = connections.saturating_sub(1);
        *connections == 0 && state.connected.remove(&node).is_some()
    }

    pub(crate) fn is_connected(&self, node: u32) -> bool {
        lock(&self.state).connected.contains_key(&node)
    }

    /// Whether no frame came of a node that is not connected: then the store need not remember
    /// anything of it.
    pub(crate) fn is_empty_and_away(&self, node: u32) -> bool {
        lock(&self.state).is_empty_and_away(node)
    }

    /// Forgets ranges of a node below the number `first`, which it will not send again. Returns
    /// whether its numbers jump further than [`JUMP_MAX`], so that a new segment must record where
    /// they are.
    pub(crate) fn resume_at(&self, node: u32, first: u64) -> bool {
        let held = &mut lock(&self.state).held;
        if let Some(numbers) = held.nodes.get_mut(&node) {
            numbers.forget_below(first, RANGES_KEPT);
        }
        let jumps = first.abs_diff(held.last_of(node)) > JUMP_MAX;
        if jumps {
            held.bases.insert(node, first);
        }
        jumps
    }

    /// Forgets a node; returns whether frames of it are here.
    pub(crate) fn forget(&self, node: u32) -> bool {
        let mut state = lock(&self.state);
        state.held.bases.remove(&node);
        let had_frames = state.held.nodes.remove(&node).is_some();
        if had_frames {
            state.brought.remove(&node);
        }
        had_frames
    }
}

/// Numbers of other nodes' frames in segments, oldest first.
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

    #[test]
    fn numbers_far_from_those_before_are_known_by_a_row_of_their_own() {
        let mut held = HeldNumbers::default();
        held.add_header(&[Held { node: 7, first: 1, last: 9 }]);
        held.bases.insert(7, 9 << 32);
        let (rows, _) = held.to_header();
        let base = Held { node: 7, first: 9 << 32, last: (9 << 32) - 1 };
        assert_eq!(rows, [Held { node: 7, first: 1, last: 9 }, base]);
        let mut again = HeldNumbers::default();
        again.add_header(&rows);
        assert_eq!((again.last_of(7), again.of(7)), (9 << 32, held.of(7)), "none of them is held");
    }
}
