//! Delivers the collector's frames to the store of this process.

use std::sync::Arc;

use collector::node::NodeStore;
use collector::{Deliver, KeepError, OnDurable, Patience};
use record::{Frame, NodeIdentity, Numbers};
use store::Store;

/// Delivers frames to a store.
pub struct StoreDelivery {
    store: Arc<Store>,
}

impl StoreDelivery {
    /// Delivers to `store`.
    pub fn new(store: Arc<Store>) -> Self {
        StoreDelivery { store }
    }
}

impl Deliver for StoreDelivery {
    fn next_sequence(&self) -> (u32, u64) {
        self.store.next_sequence()
    }

    fn mark(&self) -> u64 {
        self.store.mark()
    }

    fn deliver(
        &self,
        frame: Frame,
        on_durable: OnDurable,
        patience: Patience,
    ) -> Result<(), KeepError> {
        self.store.append(vec![(frame, on_durable)], patience)
    }

    fn has_room(&self) -> bool {
        self.store.has_room()
    }

    fn refusal(&self) -> Option<KeepError> {
        self.store.refusal()
    }
}

impl NodeStore for StoreDelivery {
    fn id(&self) -> u32 {
        self.store.node()
    }

    fn admit(&self, identity: &NodeIdentity, first: u64) -> Result<Numbers, String> {
        self.store.admit(identity, first).map_err(|refusal| refusal.to_string())?;
        Ok(self.store.held(identity.node))
    }

    fn held(&self, node: u32) -> Numbers {
        self.store.held(node)
    }

    fn note_taken(&self, node: u32, numbers: &Numbers) {
        self.store.note_taken(node, numbers);
    }

    fn leave(&self, node: u32) {
        self.store.leave(node);
    }

    fn keep(&self, frame: Frame, on_durable: OnDurable) -> Result<(), KeepError> {
        self.store.append(vec![(frame, on_durable)], Patience::Unlimited)
    }

    fn refusal(&self) -> Option<KeepError> {
        self.store.refusal()
    }
}
