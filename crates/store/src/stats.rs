//! Numbers of a store, for people and for metrics.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::catalog::{Own, RowState};
use crate::segments::span;
use crate::shared::read;
use crate::store::Store;

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

/// Numbers of a store at one moment. Totals named `_expired`, `_committed` and `commit_` count
/// since it was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoreStats {
    /// Whether it takes lines.
    pub state: StoreState,
    /// Lines that are durable and not deleted, without those that Loginson made itself.
    pub lines: u64,
    /// Those: rows of the summary.
    pub lines_own: u64,
    /// Their bytes with their newlines.
    pub bytes_own: u64,
    /// Frames in hot segments.
    pub frames: u64,
    /// Bytes of the lines, without Loginson's own, with their newlines.
    pub bytes_raw: u64,
    /// Segment files, with what is preallocated.
    pub bytes_disk: u64,
    /// Segments.
    pub segments: u64,
    /// Of those, the sealed ones.
    pub segments_sealed: u64,
    /// Of `bytes_raw`, what is in sealed segments.
    pub sealed_bytes_raw: u64,
    /// Of `bytes_disk`, what sealed segments take.
    pub sealed_bytes_disk: u64,
    /// What waits to be sealed, and what was done in the background.
    pub sealing: SealingStats,
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
    /// Ranges of other nodes' frame numbers that found no room in a segment's header.
    pub held_ranges_omitted: u64,
    /// Frames that wait for the disk, bytes.
    pub queue_bytes: u64,
    /// Frames and batches in memory, bytes.
    pub cache_bytes: u64,
}

/// The work in the background. Numbers not said to be of now count since the store was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SealingStats {
    /// Closed segments that are not sealed, now.
    pub lag_segments: u64,
    /// Bytes of their files.
    pub lag_bytes: u64,
    /// Time since the last line of the oldest of them arrived, nanoseconds; 0 when there is none.
    pub lag_ns: u64,
    /// Segments that are damaged and therefore never sealed, now.
    pub damaged_segments: u64,
    /// Hot segments sealed.
    pub sealed_segments: u64,
    /// Of those, the ones that were sealed while they were written, from memory.
    pub trailed_segments: u64,
    /// Bytes of the lines in them, with their newlines.
    pub sealed_bytes_raw: u64,
    /// Runs of neighbours merged into one segment.
    pub merges: u64,
    /// Segments encoded again while the machine was idle.
    pub reencoded_segments: u64,
    /// Segments rewritten to delete lines, by a deletion or a rule of retention.
    pub deleted_from_segments: u64,
    /// Lines deleted so.
    pub lines_deleted: u64,
    /// Rewrites that failed; each is tried again after a minute.
    pub failures: u64,
    /// Times at which sealing stopped giving way, because too much waited or the disk was nearly
    /// full.
    pub urgent: u64,
    /// Bytes of frames and indexes written to hot segments.
    pub hot_bytes_written: u64,
    /// Bytes written to sealed segments: sealing, merging, deleting, encoding again.
    pub sealed_bytes_written: u64,
    /// Bytes of the lines that became durable, with their newlines: what the bytes written are to
    /// be compared with.
    pub bytes_raw_committed: u64,
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

impl Counters {
    fn sealing(&self) -> SealingStats {
        SealingStats {
            sealed_segments: get(&self.sealed_segments),
            trailed_segments: get(&self.trailed_segments),
            sealed_bytes_raw: get(&self.sealed_bytes_raw),
            merges: get(&self.merges),
            reencoded_segments: get(&self.reencoded_segments),
            deleted_from_segments: get(&self.deleted_from_segments),
            lines_deleted: get(&self.lines_deleted),
            failures: get(&self.failures),
            urgent: get(&self.urgent),
            hot_bytes_written: get(&self.hot_bytes_written),
            sealed_bytes_written: get(&self.sealed_bytes_written),
            bytes_raw_committed: get(&self.bytes_raw_committed),
            ..SealingStats::default()
        }
    }
}

impl StoreStats {
    /// Adds the lines of a segment, `own` of them Loginson's.
    fn add_lines(&mut self, lines: u64, bytes_raw: u64, own: Own) {
        self.lines += lines.saturating_sub(own.lines);
        self.bytes_raw += bytes_raw.saturating_sub(own.bytes);
        self.lines_own += own.lines;
        self.bytes_own += own.bytes;
    }
}

impl Store {
    /// Numbers at this moment.
    pub fn stats(&self) -> StoreStats {
        let shared = &self.shared;
        let mut stats = StoreStats {
            state: shared.state(),
            lines_expired: get(&shared.counters.lines_expired),
            bytes_expired: get(&shared.counters.bytes_expired),
            frames_committed: get(&shared.counters.frames_committed),
            groups_committed: get(&shared.counters.groups_committed),
            commit_latency_ns_sum: get(&shared.counters.commit_latency_ns_sum),
            commit_latency_ns_max: get(&shared.counters.commit_latency_ns_max),
            held_ranges_omitted: get(&shared.counters.held_ranges_omitted),
            queue_bytes: shared.queue.bytes() as u64,
            cache_bytes: shared.cache.bytes() as u64,
            sealing: shared.counters.sealing(),
            ..StoreStats::default()
        };
        let segments = shared.list();
        let mut oldest_ns: Option<i64> = None;
        for segment in &segments.hot {
            let index = read(&segment.index);
            stats.frames += index.frames.len() as u64;
            stats.frames_unparsed += index.times_unknown as u64;
            stats.add_lines(index.totals.lines, index.totals.bytes_raw, index.totals.own);
            stats.bytes_disk += index.file_bytes;
            stats.time_ns = span(stats.time_ns, index.totals.time_ns);
            stats.received_ns = span(stats.received_ns, index.totals.received_ns);
            match index.state {
                RowState::Rolled | RowState::Kept if !index.frames.is_empty() => {
                    stats.sealing.lag_segments += 1;
                    stats.sealing.lag_bytes += index.file_bytes;
                    let last_ns = index.totals.received_ns.map(|(_, last)| last);
                    oldest_ns = oldest_ns.into_iter().chain(last_ns).min();
                }
                RowState::Damaged => stats.sealing.damaged_segments += 1,
                _ => {}
            }
        }
        let since = |then_ns| shared.clock.now_ns().saturating_sub(then_ns);
        stats.sealing.lag_ns = oldest_ns.map_or(0, |ns| u64::try_from(since(ns)).unwrap_or(0));
        for segment in &segments.sealed {
            stats.segments_sealed += 1;
            stats.add_lines(segment.lines, segment.bytes_raw, segment.own);
            stats.bytes_disk += segment.bytes_disk;
            stats.sealed_bytes_raw += segment.bytes_raw.saturating_sub(segment.own.bytes);
            stats.sealed_bytes_disk += segment.bytes_disk;
            stats.time_ns = span(stats.time_ns, segment.time_ns);
            stats.received_ns = span(stats.received_ns, segment.received_ns);
        }
        stats.segments = segments.hot.len() as u64 + stats.segments_sealed;
        stats
    }
}

pub(crate) fn add(counter: &AtomicU64, value: u64) {
    counter.fetch_add(value, Ordering::Relaxed);
}

pub(crate) fn get(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}
