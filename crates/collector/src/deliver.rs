//! The interface between collecting and storing: a finished frame is handed to an implementation of
//! [`Deliver`].

pub use platform::{KeepError, OnDurable, Patience};
use record::Frame;

/// Takes frames: the store in this process, or a store node over TCP.
pub trait Deliver: Send + Sync {
    /// Numbers the next frame: this node's id, and a sequence number that was never issued before.
    fn next_sequence(&self) -> (u32, u64);

    /// A number that no frame gets: frames numbered from now on have greater numbers.
    fn mark(&self) -> u64 {
        self.next_sequence().1
    }

    /// Takes a frame. Blocks while the queue in front of the writer is full, which pushes a flood
    /// back to its sender. `on_durable` is called exactly once, from the writer's thread or from
    /// this call, also when an error is returned.
    fn deliver(
        &self,
        frame: Frame,
        on_durable: OnDurable,
        patience: Patience,
    ) -> Result<(), KeepError>;

    /// Whether the writer's queue has enough room that a delivery would not block, unless others
    /// fill it at this very moment. Implementations that do not know return false.
    fn has_room(&self) -> bool {
        false
    }

    /// Whether frames that count as durable may be on this machine alone, in the spool: no store
    /// and no log has them yet, so no answer has their lines. If this is false after a frame was
    /// acknowledged, that frame is where it goes to.
    fn is_spooling(&self) -> bool {
        false
    }

    /// Why lines would be refused at present, if they would be. Checked before a request body is
    /// read.
    fn refusal(&self) -> Option<KeepError>;
}
