//! Whether data became durable: what whoever keeps it answers, and how long its sender would wait.

/// Why data was refused or not made durable.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeepError {
    /// The disk has no space left except its reserve. Waiting lines should be pushed back or
    /// refused, not dropped.
    #[error("the disk is full; free space, lower the retention limits, or move the data directory")]
    DiskFull,
    /// Nobody takes data now, and the room to keep it until then is used up. It may be sent again.
    #[error(
        "no store takes lines, and the spool has no room: start a store, or raise \
         collect.spool_bytes_max; then send again"
    )]
    NoRoom,
    /// The process is shutting down.
    #[error("the server is shutting down")]
    Closed,
    /// Writing failed for another reason; the text names file and cause.
    #[error("{0}")]
    Failed(String),
}

/// Called exactly once: with success when the data is durable and visible, or with the reason when
/// it is certain that it will not be. The thread that writes calls it and waits for it, so it must
/// not block.
pub type OnDurable = Box<dyn FnOnce(Result<(), KeepError>) + Send>;

/// What happens to data while the disk is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// The sender waits for the answer and can send the lines again: after some seconds the data is
    /// given up with an error.
    Awaited,
    /// Nobody would send the lines again: the data waits until there is room.
    Unlimited,
}
