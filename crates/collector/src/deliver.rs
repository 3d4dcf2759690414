//! The seam between collecting and storing: a finished frame is handed to whatever keeps it.

use record::Frame;
pub use record::{KeepError, OnDurable};

/// What becomes of a frame while there is no room for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// Someone waits for the answer and can send the lines again: the frame is given up, with an
    /// error, after some seconds.
    Awaited,
    /// Nobody would send the lines again: the frame waits as long as it takes.
    Unlimited,
}

/// Takes frames: the store in this process, later a store node over TCP or Kafka.
pub trait Deliver: Send + Sync {
    /// Numbers the next frame: this node's id and a sequence number that was never given before.
    fn next_sequence(&self) -> (u32, u64);

    /// A number that no frame gets: frames that are numbered from now on have greater ones.
    fn mark(&self) -> u64 {
        self.next_sequence().1
    }

    /// Takes a frame. Blocks while the queue in front of the writer is full: that is how a flood is
    /// pushed back to its sender. `on_durable` is called exactly once, from the writer's thread or
    /// from here, also when an error is returned.
    fn deliver(
        &self,
        frame: Frame,
        on_durable: OnDurable,
        patience: Patience,
    ) -> Result<(), KeepError>;

    /// Whether there is plenty of room in front of the writer, so that a delivery would not block,
    /// unless others fill it at this very moment. Where that is not known: no.
    fn has_room(&self) -> bool {
        false
    }

    /// Whether lines would be refused at present, and why: asked before a request body is read.
    fn refusal(&self) -> Option<KeepError>;
}
