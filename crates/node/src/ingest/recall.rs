//! The lines in the store behind a frame: for sources that resume after a crash behind their last
//! durable line.

use std::collections::BTreeSet;
use std::sync::Arc;

use collector::file::Recall;
use collector::kafka::KeptFrames;
use record::{Origin, Row, Transport};
use store::{Store, StoreError, Unit};

/// Recalls lines from a store.
pub struct StoreRecall {
    store: Arc<Store>,
}

impl StoreRecall {
    /// Recalls lines in `store`.
    pub fn new(store: Arc<Store>) -> Self {
        StoreRecall { store }
    }

    fn each_since(
        &self,
        sequence: u64,
        each: &mut dyn FnMut(&Origin, &[u8]),
    ) -> Result<(), StoreError> {
        let (units, node) = (self.store.since(sequence)?, self.store.node());
        // Lines may be sealed a second after they arrived; blocks have them in another order.
        let mut sealed: Vec<((u64, u32), Origin, Vec<u8>)> = Vec::new();
        for unit in &units {
            let Unit::Block(block) = unit else { continue };
            let Some(batch) = block.read()? else { continue };
            // Lines that other nodes read from their files do not count.
            let is_ours = |row: &Row<'_>| row.sequence() > sequence && row.id().node == node;
            for row in batch.rows().filter(is_ours) {
                let origin = &batch.origins()[usize::from(row.origin_index())];
                if matches!(origin.transport, Transport::File | Transport::Journald) {
                    let key = (row.sequence(), row.id().line);
                    sealed.push((key, origin.clone(), row.raw().to_vec()));
                }
            }
        }
        sealed.sort_unstable_by_key(|line| line.0);
        let mut sealed = sealed.into_iter().peekable();
        for unit in &units {
            let Unit::Frame(handle) = unit else { continue };
            while let Some((_, origin, line)) = sealed.next_if(|line| line.0.0 < handle.sequence())
            {
                each(&origin, &line);
            }
            if let Some(frame) = handle.read_frame()? {
                frame.lines().for_each(|line| each(line.origin, line.bytes));
            }
        }
        sealed.for_each(|(_, origin, line)| each(&origin, &line));
        Ok(())
    }
}

impl KeptFrames for StoreRecall {
    fn frames_since(&self, sequence: u64) -> Result<BTreeSet<u64>, String> {
        let node = self.store.node();
        let is_kafka = |origin: &Origin| origin.transport == Transport::Kafka;
        let found = || -> Result<BTreeSet<u64>, StoreError> {
            let mut frames = BTreeSet::new();
            for unit in self.store.since(sequence)? {
                match unit {
                    Unit::Frame(handle) => {
                        let frame = handle.read_frame()?;
                        let is_ours =
                            frame.is_some_and(|frame| frame.origins().iter().any(is_kafka));
                        frames.extend(Some(handle.sequence()).filter(|_| is_ours));
                    }
                    Unit::Block(block) => {
                        let Some(batch) = block.read()? else { continue };
                        let is_ours = |row: &Row<'_>| {
                            let origin = &batch.origins()[usize::from(row.origin_index())];
                            row.id().node == node && is_kafka(origin)
                        };
                        frames.extend(batch.rows().filter(is_ours).map(|row| row.sequence()));
                    }
                }
            }
            Ok(frames)
        };
        found().map_err(|error| error.to_string())
    }
}

impl Recall for StoreRecall {
    fn lines_since(
        &self,
        sequence: u64,
        each: &mut dyn FnMut(&Origin, &[u8]),
    ) -> Result<(), String> {
        self.each_since(sequence, each).map_err(|error| error.to_string())
    }
}
