//! The result of keeping a frame, as the store reports it to sources.

/// Why a frame was refused or not made durable.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeepError {
    /// The disk of the store has no space left except its reserve. Waiting lines should be pushed
    /// back or refused, not dropped.
    #[error("the disk is full; free space, lower the retention limits, or move the data directory")]
    DiskFull,
    /// The store is being closed.
    #[error("the server is shutting down")]
    Closed,
    /// Writing failed for another reason; the text names file and cause.
    #[error("{0}")]
    Failed(String),
}

/// Called exactly once: with success when the frame is durable and visible, or with the reason when
/// it is certain that it will not be. The writer's thread calls it and waits for it, so it must not
/// block.
pub type OnDurable = Box<dyn FnOnce(Result<(), KeepError>) + Send>;
