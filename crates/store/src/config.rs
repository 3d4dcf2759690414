//! What can be set, and the limits that cannot.

use std::path::PathBuf;

use platform::BLOCK_BYTES;
use record::frame::FRAME_BYTES_MAX;

use crate::error::StoreError;

/// Frames written and synced together at most. More waits for the next group: a sync of 32 MiB
/// takes some 20 ms on an ordinary disk, which bounds how long an acknowledgement takes.
pub(crate) const GROUP_BYTES_MAX: usize = 32 << 20;
/// What one sync makes durable at most: a group, or one larger frame, with its header and padding.
pub(crate) const COMMIT_BYTES_MAX: u64 = {
    assert!(FRAME_BYTES_MAX > GROUP_BYTES_MAX);
    (FRAME_BYTES_MAX + BLOCK_BYTES) as u64
};
/// When so much waits, a group is written at once, without regard to the commit interval.
pub(crate) const GROUP_BYTES_FULL: usize = 8 << 20;
/// A hot segment is extended by so much at a time: large enough that extents stay long and syncs
/// rarely change metadata, small enough that a store of a few lines does not take a gibibyte.
pub(crate) const PREALLOCATE_BYTES: u64 = 64 << 20;
/// What must be free beyond the reserve before a full disk is called usable again while nothing
/// waits.
pub(crate) const PROBE_BYTES: u64 = 1 << 20;
/// A segment covers at most this part of the age and of the bytes kept, so that dropping whole
/// segments keeps close to either limit.
pub(crate) const RETENTION_PARTS: u64 = 8;
/// The oldest segments are deleted so far ahead of need that this part of the limit on bytes is
/// free, one step of [`PREALLOCATE_BYTES`] at most.
pub(crate) const ROOM_AHEAD_PARTS: u64 = 64;
/// Frames handed to the parse stage at a time. It asks again for more.
pub(crate) const COMMITTED_FRAMES_MAX: usize = 64;
/// Segment files kept open for reading. Beyond that the one opened first is closed, and opened
/// again when it is read: a store of thousands of segments stays far from the limit on open files.
pub(crate) const OPEN_FILES_MAX: usize = 64;
/// How often limits on age are enforced, and what failed is tried again, when nothing else happens.
pub(crate) const MAINTENANCE_INTERVAL_MS: u64 = 5_000;

/// A segment is closed by age when it holds at least this part of a full one; a smaller one waits
/// [`SEGMENT_AGES_MAX`] times as long. A quiet system then makes one file a day, which are merged
/// later.
pub(crate) const SEGMENT_AGE_PARTS: u64 = 16;
/// See [`SEGMENT_AGE_PARTS`].
pub(crate) const SEGMENT_AGES_MAX: i64 = 24;
/// Room for sealing: writing stops while this part of the largest unsealed segment is free besides
/// the reserve of the disk, and sealing, which gives space back, may use it.
pub(crate) const SEAL_RESERVE_PARTS: u64 = 4;
/// While the disk is full, rows of the summary, and the segment that says which numbers were given,
/// may use the reserve down to this part of it, and sealing down to [`SEAL_RESERVE_PARTS`].
pub(crate) const RESERVE_INTERNAL_PARTS: u64 = 2;
/// Sealing does not give way any more when less than a segment, or this part of the disk, could be
/// written.
pub(crate) const LOW_DISK_PARTS: u64 = 16;

/// Lines that are deleted earlier than others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetentionRule {
    /// Which lines; a text that [`StoreCallbacks::filter`](crate::StoreCallbacks::filter) takes.
    pub filter: String,
    /// They are deleted when they arrived longer ago than this, nanoseconds.
    pub age_ns: i64,
}

/// How a store is set up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreConfig {
    /// Directory of all its files; made if missing.
    pub data_dir: PathBuf,
    /// A segment is closed before it grows beyond this. Also limited to an eighth of `bytes_max`.
    pub segment_bytes_max: u64,
    /// But not below this, for whatever `bytes_max`: files would become too many. Simulations set
    /// it to kilobytes.
    pub segment_bytes_min: u64,
    /// Nor has it more frames: each takes some 100 bytes of memory until it is sealed, and a
    /// question looks at each. One client that sends line by line makes thousands a second.
    pub segment_frames_max: usize,
    /// Frames that wait for the disk, in bytes. [`Store::append`](crate::Store::append) blocks
    /// beyond it.
    pub queue_bytes_max: usize,
    /// Frames, parsed batches, chunks of sealed blocks and footers kept in memory, in bytes. What
    /// arrived last stays; the rest is read from disk, and parsed, when asked for.
    pub cache_bytes_max: usize,
    /// At most one group of frames is made durable in this time, milliseconds, unless much waits,
    /// or a sender who waits for the answer. A higher value means fewer syncs, and lines that can
    /// be lost to a crash of the machine for longer.
    pub commit_interval_ms: u64,
    /// Space left free on the file system, in bytes. The store says that the disk is full when it
    /// would take more.
    pub disk_free_bytes_min: u64,
    /// While the disk is full or failing, writing is tried again after this time, milliseconds.
    pub retry_ms: u64,
    /// While the disk is full or failing, frames whose sender waits for an acknowledgement are
    /// given up after this time, milliseconds.
    pub unacknowledged_ms_max: u64,
    /// Lines are deleted when they arrived longer ago than this, nanoseconds, in whole segments: up
    /// to an eighth later. None: never.
    pub age_ns: Option<i64>,
    /// Segment files together, in bytes; the oldest are deleted before more is taken. At least
    /// eight times `segment_bytes_min`. None: no limit. The catalog (a few hundred bytes a segment)
    /// is not counted. A single frame above an eighth of this (lines of many megabytes) makes a
    /// segment of its own size.
    pub bytes_max: Option<u64>,
    /// Lines that are deleted earlier than `age_ns` says, from sealed segments, where they make up
    /// enough of a segment to be worth writing it anew.
    pub rules: Vec<RetentionRule>,
    /// A segment is closed, and then sealed, when its first line arrived longer ago than this,
    /// nanoseconds, and it holds a sixteenth of a full one; or when it is 24 times as old.
    pub segment_age_ns: i64,
    /// Bytes of segments that could be sealed: closed and parsed. Beyond it, sealing does not give
    /// way to ingest and queries any more.
    pub backlog_bytes_max: u64,
    /// Bytes a second that the background reads and writes at most while ingest is busy, unless
    /// sealing must not wait. None: no limit.
    pub background_bytes_per_s_max: Option<u64>,
    /// Threads that seal, merge and encode again, beside each other. The order of lines is the same
    /// for any number.
    pub sealing_threads: usize,
    /// Whether sealed segments are encoded again, with all effort, when the machine has nothing
    /// else to do.
    pub reencode: bool,
}

impl StoreConfig {
    /// The defaults: segments of 1 GiB, 262,144 frames or an hour, 64 MiB of queue, 512 MiB of
    /// cache, 10 ms, 256 MiB left free, no deletion, sealing at normal priority beyond 4 GiB and at
    /// 512 MiB/s below, and encoding again when idle.
    pub fn new(data_dir: impl Into<PathBuf>) -> Self {
        StoreConfig {
            data_dir: data_dir.into(),
            segment_bytes_max: 1 << 30,
            segment_bytes_min: 1 << 20,
            segment_frames_max: 1 << 18,
            queue_bytes_max: 64 << 20,
            cache_bytes_max: 512 << 20,
            commit_interval_ms: 10,
            disk_free_bytes_min: 256 << 20,
            retry_ms: 1_000,
            unacknowledged_ms_max: 10_000,
            age_ns: None,
            bytes_max: None,
            rules: Vec::new(),
            segment_age_ns: 3_600_000_000_000,
            backlog_bytes_max: 4 << 30,
            background_bytes_per_s_max: Some(512 << 20),
            sealing_threads: 1,
            reencode: true,
        }
    }

    pub(crate) fn check(&self) -> Result<(), StoreError> {
        if let Some(bytes) = self.bytes_max
            && bytes < self.retention_bytes_min()
        {
            let least = self.retention_bytes_min();
            return Err(StoreError::Config(format!(
                "retention.bytes is {bytes} bytes; it must be at least {least} ({}MiB)",
                least >> 20
            )));
        }
        if self.age_ns.is_some_and(|age| age <= 0) {
            return Err(StoreError::Config("the retention age must be above zero".to_owned()));
        }
        if self.sealing_threads == 0 {
            let text = "there must be a thread that seals";
            return Err(StoreError::Config(text.to_owned()));
        }
        if self.background_bytes_per_s_max == Some(0) {
            let text = "the limit of bytes a second for the background must be above zero";
            return Err(StoreError::Config(text.to_owned()));
        }
        if self.rules.iter().any(|rule| rule.age_ns <= 0) {
            let text = "the age of a retention rule must be above zero";
            return Err(StoreError::Config(text.to_owned()));
        }
        Ok(())
    }

    /// Least `bytes_max`: eight segments of the least size, so that what is kept is at least seven
    /// eighths of it.
    fn retention_bytes_min(&self) -> u64 {
        RETENTION_PARTS * self.segment_bytes_min
    }

    /// Bytes at which a segment is closed.
    pub(crate) fn segment_bytes(&self) -> u64 {
        let part = self.bytes_max.map_or(u64::MAX, |bytes| bytes / RETENTION_PARTS);
        self.segment_bytes_max.min(part).max(self.segment_bytes_min)
    }

    pub(crate) fn segments_dir(&self) -> PathBuf {
        self.data_dir.join("segments")
    }
}

pub(crate) fn ns_of_ms(ms: u64) -> u64 {
    ms.saturating_mul(1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segment_size_follows_the_limit_on_bytes() {
        let check = |segment: u64, bytes: Option<u64>, expected: u64| {
            let mut config = StoreConfig::new("d");
            (config.segment_bytes_max, config.bytes_max) = (segment, bytes);
            assert_eq!(config.segment_bytes(), expected);
        };
        check(1 << 30, None, 1 << 30);
        check(1 << 30, Some(8 << 30), 1 << 30);
        check(1 << 30, Some((8 << 30) - 8), (1 << 30) - 1);
        check(1 << 30, Some(8 << 20), 1 << 20);
        check(1, None, 1 << 20);
    }

    #[test]
    fn limits_that_cannot_hold_are_refused() {
        let mut config = StoreConfig::new("d");
        for (bytes, good) in [((8 << 20) - 1, false), (8 << 20, true)] {
            config.bytes_max = Some(bytes);
            assert_eq!(config.check().is_ok(), good);
        }
        config.age_ns = Some(0);
        assert!(config.check().is_err());
    }
}
