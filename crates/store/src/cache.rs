//! Frames and their parsed batches in memory, least recently used out first.
//!
//! A committed frame goes in unparsed; the parse stage replaces it by its batch, which holds the frame. Both count
//! against one budget. What is larger than the whole budget is not kept.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

use record::{Batch, Frame};

use crate::segments::Position;
use crate::shared::lock;

enum Kept {
    Frame(Arc<Frame>),
    Batch(Arc<Batch>),
}

struct Slot {
    kept: Kept,
    bytes: usize,
    used: u64,
}

#[derive(Default)]
struct Slots {
    slots: HashMap<Position, Slot>,
    /// By last use, which is a number that grows with every use.
    order: BTreeMap<u64, Position>,
    bytes: usize,
    uses: u64,
}

pub(crate) struct Cache {
    bytes_max: usize,
    slots: Mutex<Slots>,
}

impl Cache {
    pub(crate) fn new(bytes_max: usize) -> Self {
        Cache { bytes_max, slots: Mutex::default() }
    }

    pub(crate) fn bytes(&self) -> usize {
        lock(&self.slots).bytes
    }

    pub(crate) fn put_frame(&self, position: Position, frame: Arc<Frame>) {
        let bytes = frame_bytes(&frame);
        self.put(position, Kept::Frame(frame), bytes);
    }

    pub(crate) fn put_batch(&self, position: Position, batch: Arc<Batch>) {
        let bytes = batch.memory_bytes();
        self.put(position, Kept::Batch(batch), bytes);
    }

    pub(crate) fn batch(&self, position: Position) -> Option<Arc<Batch>> {
        match lock(&self.slots).touch(position)? {
            Kept::Batch(batch) => Some(batch.clone()),
            Kept::Frame(_) => None,
        }
    }

    pub(crate) fn frame(&self, position: Position) -> Option<Arc<Frame>> {
        match lock(&self.slots).touch(position)? {
            Kept::Batch(batch) => Some(batch.frame().clone()),
            Kept::Frame(frame) => Some(frame.clone()),
        }
    }

    pub(crate) fn remove_segment(&self, segment: u64) {
        let mut slots = lock(&self.slots);
        let gone: Vec<Position> =
            slots.slots.keys().filter(|p| p.segment == segment).copied().collect();
        for position in gone {
            slots.remove(position);
        }
    }

    fn put(&self, position: Position, kept: Kept, bytes: usize) {
        let mut slots = lock(&self.slots);
        slots.remove(position);
        if bytes > self.bytes_max {
            return;
        }
        while slots.bytes + bytes > self.bytes_max {
            let (_, &oldest) = slots.order.first_key_value().expect("bytes are held by slots");
            slots.remove(oldest);
        }
        slots.uses += 1;
        let used = slots.uses;
        slots.order.insert(used, position);
        slots.slots.insert(position, Slot { kept, bytes, used });
        slots.bytes += bytes;
    }
}

impl Slots {
    fn touch(&mut self, position: Position) -> Option<&Kept> {
        let slot = self.slots.get_mut(&position)?;
        self.uses += 1;
        self.order.remove(&slot.used);
        slot.used = self.uses;
        self.order.insert(slot.used, position);
        Some(&slot.kept)
    }

    fn remove(&mut self, position: Position) {
        if let Some(slot) = self.slots.remove(&position) {
            self.order.remove(&slot.used);
            self.bytes -= slot.bytes;
        }
    }
}

/// Memory of a frame: its bytes, its decoded tables, and a round number for the rest.
fn frame_bytes(frame: &Frame) -> usize {
    frame.bytes().len()
        + size_of_val(frame.runs())
        + size_of_val(frame.origins())
        + size_of::<Frame>()
        + 128
}
