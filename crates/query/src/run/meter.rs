//! The memory of a run: what pipes collect, which is limited, and what units take while they are looked at, which is bounded
//! by threads and size of a block, and is only shown: with a low limit no block could be read otherwise.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::context::{Context, Progress, RunError};

/// Counts the memory that a query holds, on all its threads and with all queries inside it.
#[derive(Clone)]
pub(crate) struct Meter {
    held: Arc<AtomicU64>,
    /// Of units that are being looked at.
    in_units: Arc<AtomicU64>,
    max: u64,
    progress: Arc<Progress>,
}

impl Meter {
    pub fn new(context: &Context) -> Meter {
        let max = context.limits.memory_bytes_max;
        let (held, in_units) = (Arc::default(), Arc::default());
        Meter { held, in_units, max, progress: context.progress.clone() }
    }

    /// Counts memory that was, or is about to be, taken.
    #[inline]
    pub fn take(&mut self, bytes: usize) -> Result<(), RunError> {
        let held = self.held.fetch_add(bytes as u64, Relaxed) + bytes as u64;
        self.show(held);
        if held > self.max { Err(RunError::MemoryLimit(self.max)) } else { Ok(()) }
    }

    /// Memory that is counted now, bytes, without that of units.
    pub fn held(&self) -> u64 {
        self.held.load(Relaxed)
    }

    fn show(&self, held: u64) {
        self.progress.memory_bytes.store(held + self.in_units.load(Relaxed), Relaxed);
    }

    /// Counts memory that was given back.
    pub fn give_back(&mut self, bytes: usize) {
        let less = |held: u64| Some(held.saturating_sub(bytes as u64));
        let held = self.held.fetch_update(Relaxed, Relaxed, less).unwrap_or_default();
        self.show(held.saturating_sub(bytes as u64));
    }
}

/// Memory of a unit that is being looked at; counted as long as this is there.
#[derive(Default)]
pub(crate) struct Held {
    meter: Option<Meter>,
    bytes: usize,
}

impl Held {
    /// Counts more of it.
    pub fn add(&mut self, meter: &Meter, bytes: usize) {
        self.bytes += bytes;
        meter.in_units.fetch_add(bytes as u64, Relaxed);
        meter.show(meter.held.load(Relaxed));
        self.meter.get_or_insert_with(|| meter.clone());
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(meter) = &self.meter {
            meter.in_units.fetch_sub(self.bytes as u64, Relaxed);
            meter.show(meter.held.load(Relaxed));
        }
    }
}
