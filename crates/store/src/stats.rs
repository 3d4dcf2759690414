//! Numbers of a store, for people and for metrics.

use std::sync::atomic::{AtomicU64, Ordering};

/// Whether a store takes lines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum StoreState {
    /// It does.
    #[default]
    Ok,
    /// The disk is full; what waits is tried again every second.
    DiskFull,
    /// Writing fails for the reason given; what waits is tried again every second.
    Failing(String),
    /// It was closed.
    Closed,
}

/// Numbers of a store at one moment. Totals named `_expired`, `_committed` and `commit_` count since it was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoreStats {
    /// Whether it takes lines.
    pub state: StoreState,
    /// Lines that are durable and not deleted.
    pub lines: u64,
    /// Frames that are durable and not deleted.
    pub frames: u64,
    /// Payload of those frames: the lines with their newlines.
    pub bytes_raw: u64,
    /// Segment files, with what is preallocated.
    pub bytes_disk: u64,
    /// Segments.
    pub segments: u64,
    /// Earliest and latest known event time, nanoseconds since 1970 UTC.
    pub time_ns: Option<(i64, i64)>,
    /// Earliest and latest arrival, nanoseconds since 1970 UTC.
    pub received_ns: Option<(i64, i64)>,
    /// Frames whose event times are not known: not parsed yet.
    pub frames_unparsed: u64,
    /// Lines deleted by retention.
    pub lines_expired: u64,
    /// Bytes on disk deleted by retention.
    pub bytes_expired: u64,
    /// Frames made durable.
    pub frames_committed: u64,
    /// Groups of frames made durable, each with one sync.
    pub groups_committed: u64,
    /// Time from taking a frame to its being durable, summed over frames, nanoseconds.
    pub commit_latency_ns_sum: u64,
    /// The longest such time, nanoseconds.
    pub commit_latency_ns_max: u64,
    /// Frames that wait for the disk, bytes.
    pub queue_bytes: u64,
    /// Frames and batches in memory, bytes.
    pub cache_bytes: u64,
}

/// What is counted while running.
#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) lines_expired: AtomicU64,
    pub(crate) bytes_expired: AtomicU64,
    pub(crate) frames_committed: AtomicU64,
    pub(crate) groups_committed: AtomicU64,
    pub(crate) commit_latency_ns_sum: AtomicU64,
    pub(crate) commit_latency_ns_max: AtomicU64,
}

pub(crate) fn add(counter: &AtomicU64, value: u64) {
    counter.fetch_add(value, Ordering::Relaxed);
}

pub(crate) fn get(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}
