//! The log that carries frames: Kafka.

use std::ops::Range;
use std::time::Duration;

use crate::error::LogError;

/// One message of a partition: the bytes of one frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Its place in the partition. Offsets grow; there may be gaps.
    pub offset: u64,
    /// Its content, as it was appended.
    pub bytes: Vec<u8>,
}

/// A log in partitions, kept by others: Kafka. All calls block.
pub trait FrameLog: Send + Sync {
    /// Number of partitions. It may grow, and never shrinks.
    fn partitions(&self) -> Result<u32, LogError>;

    /// Appends messages in their order, and returns the offset of the first once all of them are
    /// durable in the log. On an error, some of the messages may be in the log.
    fn append(&self, partition: u32, messages: &[&[u8]]) -> Result<u64, LogError>;

    /// Messages from offset `from` on: at least one if there is one, even if it is larger than
    /// `bytes_max`; else as many as fit. Waits up to `wait` for the first, then returns none.
    fn read(
        &self,
        partition: u32,
        from: u64,
        bytes_max: usize,
        wait: Duration,
    ) -> Result<Vec<Message>, LogError>;

    /// The first offset that the partition still has, and one past the last. Every message whose
    /// append was acknowledged before this call lies below the end.
    fn bounds(&self, partition: u32) -> Result<Range<u64>, LogError>;

    /// Forgets how a partition was reached, so that the next read finds its leader anew. For a
    /// reader that gets nothing although the log has more: see [`crate::Reader::step`].
    fn renew(&self, _partition: u32) {}

    /// One past the last offset of each partition, in their order; see [`bounds`](Self::bounds).
    fn ends(&self) -> Result<Vec<u64>, LogError> {
        (0..self.partitions()?).map(|partition| Ok(self.bounds(partition)?.end)).collect()
    }
}
