//! Frames of other nodes, for the users of a store.

use std::collections::BTreeMap;

use record::{NodeIdentity, Numbers};

use super::Store;
use crate::catalog::NodeRow;
use crate::ledger::Ledger;
use crate::store_core::nodes::{NodeRefusal, STARTS_JUMP_MAX};
use crate::sync::{lock, read};

const HOUR_NS: i64 = 3_600 * 1_000_000_000;

/// The frames of one other node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeFrames {
    /// The numbers of all frames that ever became durable here.
    pub taken: Numbers,
    /// Those whose lines are still here: neither expired nor deleted with their segment. A frame
    /// that lost all its lines to a deletion may be among them.
    pub stored: Numbers,
}

impl Store {
    /// Admits another node, or returns why it is refused. `first` is the least number that it may
    /// still send: its earlier numbers are with other stores, or were never used.
    pub fn admit(&self, identity: &NodeIdentity, first: u64) -> Result<(), NodeRefusal> {
        let node = identity.node;
        if node == self.core.node || node == 0 {
            return Err(NodeRefusal::Taken(node));
        }
        let now_ns = self.core.clock.now_ns();
        let mut ledger = lock(&self.ledger);
        let known = ledger.catalog.node_row(node)?.map(|row| row.identity);
        match known.filter(|_| !self.core.nodes.is_empty_and_away(node)) {
            Some(known) if known.key != identity.key => return Err(NodeRefusal::Taken(node)),
            Some(known)
                if identity.starts < known.starts
                    || (identity.starts == known.starts && identity.run != known.run) =>
            {
                return Err(NodeRefusal::Copy(node));
            }
            Some(known) if identity.starts > known.starts.saturating_add(STARTS_JUMP_MAX) => {
                return Err(NodeRefusal::Starts(node));
            }
            Some(_) => {}
            None if known.is_some() => {}
            None => self.make_place(&mut ledger, now_ns)?,
        }
        ledger.catalog.put_node(&NodeRow { identity: *identity, seen_ns: now_ns })?;
        self.core.nodes.connect(node);
        drop(ledger);
        self.core.nodes.resume_at(node, first);
        Ok(())
    }

    /// Records that a node that was [admitted](Self::admit) has disconnected: once for each
    /// admission.
    pub fn leave(&self, node: u32) {
        if !self.core.nodes.disconnect(node) {
            return;
        }
        let now_ns = self.core.clock.now_ns();
        let ledger = lock(&self.ledger);
        let written = ledger.catalog.node_row(node).and_then(|row| {
            row.map_or(Ok(()), |row| ledger.catalog.put_node(&NodeRow { seen_ns: now_ns, ..row }))
        });
        if let Err(error) = written {
            tracing::warn!(%error, "cannot record that node {node:08x} was connected");
        }
    }

    fn make_place(&self, ledger: &mut Ledger, now_ns: i64) -> Result<(), NodeRefusal> {
        let config = &self.core.config;
        if ledger.catalog.nodes_count()? < config.nodes_max {
            return Ok(());
        }
        let rows = ledger.catalog.nodes()?;
        let nodes = &self.core.nodes;
        let is_connected = |row: &&NodeRow| nodes.is_connected(row.identity.node);
        let is_old = |row: &&NodeRow| now_ns.saturating_sub(row.seen_ns) >= config.node_age_ns;
        let empty = rows.iter().filter(|row| nodes.is_empty_and_away(row.identity.node));
        let old = || rows.iter().filter(is_old).filter(|row| !is_connected(row));
        let oldest = empty.min_by_key(|row| row.seen_ns);
        let oldest = oldest.or_else(|| old().min_by_key(|row| row.seen_ns));
        let refusal = || NodeRefusal::TooMany {
            nodes: config.nodes_max,
            hours: config.node_age_ns / HOUR_NS,
        };
        let node = oldest.ok_or_else(refusal)?.identity.node;
        ledger.catalog.remove_node(node)?;
        if nodes.forget(node) {
            tracing::info!("node {node:08x} was not connected for a long time and is forgotten");
        }
        Ok(())
    }

    /// The numbers of a node's frames that are durable here.
    pub fn held(&self, node: u32) -> Numbers {
        self.core.nodes.held(node)
    }

    /// Counts numbers as taken: another copy has taken these frames, and nothing of them is left
    /// there. Durable with the next segment.
    pub fn note_taken(&self, node: u32, numbers: &Numbers) {
        self.core.nodes.add_held(node, numbers);
    }

    /// The frames of all other nodes, by node.
    pub fn frames_of_nodes(&self) -> BTreeMap<u32, NodeFrames> {
        let mut stored: BTreeMap<u32, Numbers> = BTreeMap::new();
        let mut note = |node: u32, first: u64, last: u64| {
            stored.entry(node).or_default().insert_range(first, last);
        };
        let segments = self.core.segments.list();
        for hot in &segments.hot {
            let index = read(&hot.index);
            index.numbers.iter().for_each(|(&node, &(first, last))| note(node, first, last));
        }
        for sealed in &segments.sealed {
            sealed.numbers.iter().for_each(|one| note(one.node, one.first, one.last));
        }
        let frames = |(node, taken): (u32, Numbers)| {
            // A segment knows its smallest and its greatest number only.
            let stored = stored.get(&node).map(|some| taken.common(some)).unwrap_or_default();
            (node, NodeFrames { taken, stored })
        };
        self.core.nodes.all_held().into_iter().map(frames).collect()
    }
}
