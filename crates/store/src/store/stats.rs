//! Statistics of a store, for people and for metrics.

use std::sync::atomic::Ordering::Relaxed;

use platform::DurationCounts;

use super::Store;
use crate::catalog::{Own, RowState};
use crate::position::span;
use crate::segments::damage::DamagedLines;
use crate::store_core::counters::{Counters, get};
use crate::store_core::write_state::StoreState;
use crate::sync::read;

/// Statistics of a store at one moment. Totals named `_expired`, `_committed` and `commit_` count
/// since it was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoreStats {
    /// Whether it takes lines.
    pub state: StoreState,
    /// Lines that are durable and not deleted, without those that Loginson made itself.
    pub lines: u64,
    /// Lines that Loginson made itself: rows of the summary.
    pub lines_own: u64,
    /// Bytes of those lines with their newlines.
    pub bytes_own: u64,
    /// Frames in hot segments.
    pub frames: u64,
    /// Bytes of the lines, without Loginson's own, with their newlines.
    pub bytes_raw: u64,
    /// Bytes of segment files, including preallocated space.
    pub bytes_disk: u64,
    /// Number of segments.
    pub segments: u64,
    /// Of those, the sealed ones.
    pub segments_sealed: u64,
    /// The part of `bytes_raw` in sealed segments.
    pub sealed_bytes_raw: u64,
    /// The part of `bytes_disk` that sealed segments take.
    pub sealed_bytes_disk: u64,
    /// The backlog of sealing, and the work done in the background.
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
    /// Time from taking a frame to its being durable, of each frame.
    pub commit_latency: DurationCounts,
    /// Ranges of other nodes' frame numbers that found no room in a segment's header.
    pub held_ranges_omitted: u64,
    /// Frames queued for the disk, bytes.
    pub queue_bytes: u64,
    /// Frames and batches in memory, bytes.
    pub cache_bytes: u64,
}

/// The work in the background. Numbers that are not described as "now" count since the store was
/// opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SealingStats {
    /// Closed segments that are not sealed, now.
    pub lag_segments: u64,
    /// Bytes of their files.
    pub lag_bytes: u64,
    /// Time since the last line of the oldest of them arrived, nanoseconds; 0 when there is none.
    pub lag_ns: u64,
    /// Segments that are damaged and therefore never sealed or merged, now: as far as a start, a
    /// reader or the check in idle time has found it.
    pub damaged_segments: u64,
    /// Lines in them that are known to be missing or unreadable.
    pub damaged_lines: u64,
    /// Hot segments sealed.
    pub sealed_segments: u64,
    /// Of those, the segments that were sealed while they were active, from memory.
    pub trailed_segments: u64,
    /// Bytes of the lines in them, with their newlines.
    pub sealed_bytes_raw: u64,
    /// Runs of neighbours merged into one segment.
    pub merges: u64,
    /// Segments re-encoded while the machine was idle.
    pub reencoded_segments: u64,
    /// Segments rewritten to delete lines, by a deletion or a retention rule.
    pub deleted_from_segments: u64,
    /// Lines deleted by those rewrites.
    pub lines_deleted: u64,
    /// Rewrites that failed; each is tried again after a minute.
    pub failures: u64,
    /// How often sealing stopped giving way, because the backlog was too large or the disk nearly
    /// full.
    pub urgent: u64,
    /// Bytes of frames and indexes written to hot segments.
    pub hot_bytes_written: u64,
    /// Bytes written to sealed segments: by sealing, merging, deleting, re-encoding.
    pub sealed_bytes_written: u64,
    /// Bytes of the lines that became durable, with their newlines: the base of write
    /// amplification.
    pub bytes_raw_committed: u64,
}

impl StoreStats {
    /// Adds the lines of a segment; `own` of them are Loginson's.
    fn add_lines(&mut self, lines: u64, bytes_raw: u64, own: Own) {
        self.lines += lines.saturating_sub(own.lines);
        self.bytes_raw += bytes_raw.saturating_sub(own.bytes);
        self.lines_own += own.lines;
        self.bytes_own += own.bytes;
    }
}

/// Damaged units that [`Store::damages`] gives. Further ones are counted in the statistics.
const DAMAGES_MAX: usize = 100;

impl Store {
    /// The frames and blocks that are known to be unreadable, by segment; at most 100.
    pub fn damages(&self) -> Vec<DamagedLines> {
        let segments = self.core.segments.list();
        let hot = segments.hot.iter().map(|segment| &segment.damage);
        let all = hot.chain(segments.sealed.iter().map(|segment| &segment.damage));
        let mut found = Vec::new();
        for damage in all {
            found.extend(damage.first(DAMAGES_MAX - found.len()));
        }
        found
    }

    /// The statistics at this moment.
    pub fn stats(&self) -> StoreStats {
        let core = &self.core;
        let mut stats = StoreStats {
            state: core.write_state.get(),
            lines_expired: get(&core.counters.lines_expired),
            bytes_expired: get(&core.counters.bytes_expired),
            frames_committed: get(&core.counters.frames_committed),
            groups_committed: get(&core.counters.groups_committed),
            commit_latency: core.counters.commit_latency.counts(),
            held_ranges_omitted: get(&core.counters.held_ranges_omitted),
            queue_bytes: core.queue.bytes() as u64,
            cache_bytes: core.segments.cache.bytes() as u64,
            sealing: sealing_stats(&core.counters),
            ..StoreStats::default()
        };
        let segments = core.segments.list();
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
                _ => {}
            }
            if index.state == RowState::Damaged || segment.damage.is_any() {
                let lines = segment.lines_missing.load(Relaxed).max(segment.damage.lines());
                stats.sealing.damaged_segments += 1;
                stats.sealing.damaged_lines += lines;
            }
        }
        let since = |then_ns| core.clock.now_ns().saturating_sub(then_ns);
        stats.sealing.lag_ns = oldest_ns.map_or(0, |ns| u64::try_from(since(ns)).unwrap_or(0));
        for segment in &segments.sealed {
            stats.segments_sealed += 1;
            stats.sealing.damaged_segments += u64::from(segment.damage.is_any());
            stats.sealing.damaged_lines += segment.damage.lines();
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

fn sealing_stats(counters: &Counters) -> SealingStats {
    SealingStats {
        sealed_segments: get(&counters.sealed_segments),
        trailed_segments: get(&counters.trailed_segments),
        sealed_bytes_raw: get(&counters.sealed_bytes_raw),
        merges: get(&counters.merges),
        reencoded_segments: get(&counters.reencoded_segments),
        deleted_from_segments: get(&counters.deleted_from_segments),
        lines_deleted: get(&counters.lines_deleted),
        failures: get(&counters.failures),
        urgent: get(&counters.urgent),
        hot_bytes_written: get(&counters.hot_bytes_written),
        sealed_bytes_written: get(&counters.sealed_bytes_written),
        bytes_raw_committed: get(&counters.bytes_raw_committed),
        ..SealingStats::default()
    }
}
