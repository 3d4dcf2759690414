//! Frames that other nodes built and sent: each is taken once, across crashes on both sides.
//!
//! The number of such a frame stands in the frame's own header, so it is durable with the lines, not before and not
//! after. Which numbers are there is known from the header of a segment (all up to when it was made) and the frames
//! behind it; so there is always a hot segment newer than any that is sealed or deleted, if it must be an empty one.
//!
//! Invariant: a number is [held](Store::held) once its frame is durable, and for good.
//!
//! Who a node is stands in the catalog alone. When that is lost, numbers are still known, and only a copy of a node's
//! directory would go unnoticed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use record::frame::FRAME_FORWARDED;
use record::{Frame, Numbers};
use segment::{FrameEntry, HELD_MAX, Held};

use crate::books::Books;
use crate::error::{AppendError, StoreError};
use crate::queue::OnDurable;
use crate::segments::AnySegment;
use crate::shared::{Shared, lock, read};
use crate::store::Store;

/// Nodes that a store takes frames from, ever. Each needs a place in every segment's header, and one more for each gap
/// in its numbers. Beyond, a node that was not seen for [`FORGET_NODE_NS`] is forgotten; else a new one is refused.
pub const NODES_MAX: usize = 128;
/// After so long without a connection a node may be forgotten: what it would send again is long acknowledged, or given
/// up.
const FORGET_NODE_NS: i64 = 30 * 86_400 * 1_000_000_000;
/// Numbers must not jump further than the low half of a number can tell; beyond, a new segment says where they are.
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
    /// No place for another node.
    #[error("the store has frames of {NODES_MAX} nodes, which is the most it takes")]
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
}

impl HeldNumbers {
    pub(crate) fn of(&self, node: u32) -> Numbers {
        self.nodes.get(&node).cloned().unwrap_or_default()
    }

    /// Adds what a segment's header says.
    pub(crate) fn add_header(&mut self, held: &[Held]) {
        for held in held {
            self.nodes.entry(held.node).or_default().insert_range(held.first, held.last);
        }
    }

    /// Adds a frame that is durable, if another node built it.
    pub(crate) fn add(&mut self, entry: &FrameEntry) {
        if entry.flags & FRAME_FORWARDED != 0 {
            let numbers = self.nodes.entry(entry.node).or_default();
            numbers.insert(numbers.nearest(entry.number));
        }
    }

    /// As a segment's header says it. With more gaps than there is room for, the latest ranges of nodes with many are left
    /// out: those frames might be taken twice, and none is lost.
    /// The second value is how many.
    pub(crate) fn to_header(&self) -> (Vec<Held>, usize) {
        let ranges = |(&node, numbers): (&u32, &Numbers)| -> Vec<Held> {
            numbers.ranges().map(|(first, last)| Held { node, first, last }).collect()
        };
        let mut nodes: Vec<Vec<Held>> = self.nodes.iter().map(ranges).collect();
        let all: usize = nodes.iter().map(Vec::len).sum();
        let mut rows = all;
        while rows > HELD_MAX {
            let most = nodes.iter_mut().max_by_key(|ranges| ranges.len()).expect("there are rows");
            most.pop();
            rows -= 1;
        }
        (nodes.concat(), all - rows)
    }
}

/// Whether the frame's sequence number was given by this store.
pub(crate) fn is_numbered_here(shared: &Shared, entry: &FrameEntry) -> bool {
    entry.node == shared.node || entry.flags & FRAME_FORWARDED != 0
}

impl Shared {
    /// Whether this segment may not go before a newer hot one says which frames of other nodes are here.
    pub(crate) fn is_last_witness_of_nodes(&self, segment: &AnySegment) -> bool {
        let AnySegment::Hot(hot) = segment else { return false };
        !lock(&self.held).nodes.is_empty()
            && !read(&self.segments).hot.iter().any(|other| other.id > hot.id)
    }
}

impl Store {
    /// Takes another node up, or says why not. `first` is the least number that it may still send: those before it are
    /// with other stores, or were never used.
    pub fn admit(&self, identity: &NodeIdentity, first: u64) -> Result<(), NodeRefusal> {
        let node = identity.node;
        if node == self.shared.node || node == 0 {
            return Err(NodeRefusal::Taken(node));
        }
        let now_ns = self.shared.clock.now_ns();
        let mut books = lock(&self.books);
        let rows = books.catalog.nodes()?;
        match rows.iter().find(|row| row.identity.node == node).map(|row| row.identity) {
            Some(known) if known.key != identity.key => return Err(NodeRefusal::Taken(node)),
            Some(known)
                if identity.starts < known.starts
                    || (identity.starts == known.starts && identity.run != known.run) =>
            {
                return Err(NodeRefusal::Copy(node));
            }
            Some(_) => {}
            None => self.make_place(&mut books, &rows, now_ns)?,
        }
        books.catalog.put_node(&NodeRow { identity: *identity, seen_ns: now_ns })?;
        drop(books);
        let jumps = {
            let mut held = lock(&self.shared.held);
            let numbers = held.nodes.entry(node).or_default();
            let jumps = first > numbers.greatest().unwrap_or(0).saturating_add(JUMP_MAX);
            numbers.insert_range(1, first.saturating_sub(1));
            jumps
        };
        if jumps {
            lock(&self.writer).roll();
        }
        Ok(())
    }

    fn make_place(
        &self,
        books: &mut Books,
        rows: &[NodeRow],
        now_ns: i64,
    ) -> Result<(), NodeRefusal> {
        if rows.len() < NODES_MAX {
            return Ok(());
        }
        let oldest = rows.iter().min_by_key(|row| row.seen_ns).expect("there are many");
        if now_ns.saturating_sub(oldest.seen_ns) < FORGET_NODE_NS {
            return Err(NodeRefusal::TooMany);
        }
        let node = oldest.identity.node;
        books.catalog.remove_node(node)?;
        lock(&self.shared.held).nodes.remove(&node);
        tracing::info!("node {node:08x} was not here for long and is forgotten");
        Ok(())
    }

    /// Numbers of a node's frames that are durable here, or that it will not send.
    pub fn held(&self, node: u32) -> Numbers {
        lock(&self.shared.held).of(node)
    }

    /// Takes a frame of another node that was [admitted](Self::admit); its sequence is its number on the way from there.
    /// Whoever calls sees to it that none is given twice, which [`held`](Self::held) tells of those that are durable.
    /// Waits for room as [`append_patiently`](Self::append_patiently) does.
    pub fn append_forwarded(
        &self,
        mut frame: Frame,
        on_durable: OnDurable,
    ) -> Result<(), AppendError> {
        assert_ne!(frame.header().node, self.shared.node, "it was admitted");
        frame.set_forwarded(self.shared.sequence_next.fetch_add(1, Ordering::AcqRel));
        self.append_patiently(frame, on_durable)
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

/// Adds the frames that became durable.
pub(crate) fn note_durable(shared: &Arc<Shared>, entries: &[FrameEntry]) {
    if entries.iter().any(|entry| entry.flags & FRAME_FORWARDED != 0) {
        let mut held = lock(&shared.held);
        entries.iter().for_each(|entry| held.add(entry));
    }
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
        assert_eq!(found[1..], rows[..HELD_MAX - 1]);
    }
}
