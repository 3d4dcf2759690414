//! Counts of what a store did since it was opened.

use std::sync::atomic::{AtomicU64, Ordering};

use platform::Durations;

/// The counters of a running store.
#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) lines_expired: AtomicU64,
    pub(crate) bytes_expired: AtomicU64,
    pub(crate) frames_committed: AtomicU64,
    pub(crate) groups_committed: AtomicU64,
    pub(crate) commit_latency: Durations,
    pub(crate) held_ranges_omitted: AtomicU64,
    pub(crate) sealed_segments: AtomicU64,
    pub(crate) trailed_segments: AtomicU64,
    pub(crate) sealed_bytes_raw: AtomicU64,
    pub(crate) merges: AtomicU64,
    pub(crate) reencoded_segments: AtomicU64,
    pub(crate) deleted_from_segments: AtomicU64,
    pub(crate) lines_deleted: AtomicU64,
    pub(crate) failures: AtomicU64,
    pub(crate) urgent: AtomicU64,
    pub(crate) hot_bytes_written: AtomicU64,
    pub(crate) sealed_bytes_written: AtomicU64,
    pub(crate) bytes_raw_committed: AtomicU64,
}

pub(crate) fn add(counter: &AtomicU64, value: u64) {
    counter.fetch_add(value, Ordering::Relaxed);
}

pub(crate) fn get(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}
