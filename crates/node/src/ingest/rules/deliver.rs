//! Delivers frames by the rules at ingest: between a source and what makes its lines durable.

use std::sync::Arc;

use collector::{Deliver, KeepError, OnDurable, Patience};
use record::Frame;

use super::Rules;
use crate::storage::stored::Parsers;

/// Changes frames by rules, and hands them on.
pub struct RuledDelivery {
    to: Arc<dyn Deliver>,
    rules: Arc<Rules>,
    parsers: Arc<Parsers>,
}

impl RuledDelivery {
    /// Delivers to `to`. `parsers` parse lines as the parse stage will.
    pub fn new(to: Arc<dyn Deliver>, rules: Arc<Rules>, parsers: Arc<Parsers>) -> RuledDelivery {
        RuledDelivery { to, rules, parsers }
    }
}

impl Deliver for RuledDelivery {
    fn next_sequence(&self) -> (u32, u64) {
        self.to.next_sequence()
    }

    fn mark(&self) -> u64 {
        self.to.mark()
    }

    fn deliver(
        &self,
        frame: Frame,
        on_durable: OnDurable,
        patience: Patience,
    ) -> Result<(), KeepError> {
        match self.rules.now().apply(frame, &self.parsers) {
            Some(frame) => self.to.deliver(frame, on_durable, patience),
            // Every line was left out, as the rules say: there is nothing to wait for.
            None => {
                on_durable(Ok(()));
                Ok(())
            }
        }
    }

    fn has_room(&self) -> bool {
        self.to.has_room()
    }

    fn is_spooling(&self) -> bool {
        self.to.is_spooling()
    }

    fn refusal(&self) -> Option<KeepError> {
        self.to.refusal()
    }
}
