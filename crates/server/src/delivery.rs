//! The collector's way into the store of this process.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use collector::{Deliver, DeliverError, OnDurable, Patience};
use record::Frame;
use store::{AppendError, Store};

/// Hands frames to a store.
pub struct Delivery {
    store: Arc<Store>,
    lines_committed: Arc<AtomicU64>,
}

impl Delivery {
    /// A way into `store`.
    pub fn new(store: Arc<Store>) -> Self {
        Delivery { store, lines_committed: Arc::default() }
    }

    /// Lines that became durable since the start.
    pub fn lines_committed(&self) -> u64 {
        self.lines_committed.load(Relaxed)
    }
}

impl Deliver for Delivery {
    fn next_sequence(&self) -> (u32, u64) {
        self.store.next_sequence()
    }

    fn deliver(
        &self,
        frame: Frame,
        on_durable: OnDurable,
        patience: Patience,
    ) -> Result<(), DeliverError> {
        let lines = u64::from(frame.header().lines);
        let committed = Arc::clone(&self.lines_committed);
        let on_durable: store::OnDurable = Box::new(move |result| {
            if result.is_ok() {
                committed.fetch_add(lines, Relaxed);
            }
            on_durable(result.map_err(translate));
        });
        let appended = match patience {
            Patience::Awaited => self.store.append(frame, Some(on_durable)),
            Patience::Unlimited => self.store.append_patiently(frame, on_durable),
        };
        appended.map_err(translate)
    }

    fn refusal(&self) -> Option<DeliverError> {
        self.store.refusal().map(translate)
    }
}

fn translate(error: AppendError) -> DeliverError {
    match error {
        AppendError::DiskFull => DeliverError::DiskFull,
        AppendError::Closed => DeliverError::Closed,
        AppendError::Failed(reason) => DeliverError::Failed(reason),
    }
}
