//! The memory of a run.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::context::{Context, Progress, RunError};

/// Counts the memory that a query holds, on all its threads and with all queries inside it.
#[derive(Clone)]
pub(crate) struct Meter {
    held: Arc<AtomicU64>,
    max: u64,
    progress: Arc<Progress>,
}

impl Meter {
    pub fn new(context: &Context) -> Meter {
        let max = context.limits.memory_bytes_max;
        Meter { held: Arc::default(), max, progress: context.progress.clone() }
    }

    /// Counts memory that was, or is about to be, taken.
    #[inline]
    pub fn take(&mut self, bytes: usize) -> Result<(), RunError> {
        let held = self.held.fetch_add(bytes as u64, Relaxed) + bytes as u64;
        self.progress.memory_bytes.store(held, Relaxed);
        if held > self.max { Err(RunError::MemoryLimit(self.max)) } else { Ok(()) }
    }

    /// Counts memory that was given back.
    pub fn give_back(&mut self, bytes: usize) {
        let less = |held: u64| Some(held.saturating_sub(bytes as u64));
        let held = self.held.fetch_update(Relaxed, Relaxed, less).unwrap_or_default();
        self.progress.memory_bytes.store(held.saturating_sub(bytes as u64), Relaxed);
    }
}
