//! The settings of a store, and its fixed limits.

use std::path::PathBuf;

use platform::BLOCK_BYTES;
use record::frame::FRAME_BYTES_MAX;

use crate::error::StoreError;

/// Most nodes that a store takes frames from. Each needs an entry in every segment's header, and
/// one more for each gap in its numbers. Beyond this number an absent node is forgotten: of the
/// nodes that sent nothing, the one that was seen first; if there is none, of the nodes that were
/// not seen for `node_age_ns` of the configuration. If there is none either, the new node is
/// refused.
///
/// limits.md, Several machines: collectors known to a store | {} | one that is away and never
/// delivered lines is replaced, or one not seen for `store.collector_age` (30 days); else the new
/// collector is refused
pub const NODES_MAX: usize = 10_000;
/// Largest group of frames that is written and synced together, bytes. More frames wait for the
/// next group: a sync of 32 MiB takes some 20 ms on an ordinary disk, which bounds the time of an
/// acknowledgement.
pub(crate) const GROUP_BYTES_MAX: usize = 32 << 20;
/// The most that one sync makes durable: a group, or one larger frame, with header and padding.
pub(crate) const COMMIT_BYTES_MAX: u64 = {
    assert!(FRAME_BYTES_MAX > GROUP_BYTES_MAX);
    (FRAME_BYTES_MAX + BLOCK_BYTES) as u64
};
/// When this many bytes are queued, a group is written at once, regardless of the commit interval.
pub(crate) const GROUP_BYTES_FULL: usize = 8 << 20;
/// Bytes by which a large hot segment is preallocated at a time, so that extents stay long and
/// syncs rarely change metadata. A smaller segment doubles, from the second constant on, so that it
/// takes little more than its lines.
pub(crate) const PREALLOCATE_BYTES: u64 = 64 << 20;
pub(crate) const PREALLOCATE_BYTES_MIN: u64 = 1 << 20;
/// Bytes that must be free beyond the reserve before a full disk counts as usable again while the
/// queue is empty.
pub(crate) const PROBE_BYTES: u64 = 1 << 20;
/// A segment covers at most this part of the age and of the bytes kept, so that dropping whole
/// segments keeps close to either limit.
pub(crate) const RETENTION_PARTS: u64 = 8;
/// The oldest segments are deleted ahead of need, so that this part of the limit on bytes is free,
/// but at most one step of [`PREALLOCATE_BYTES`].
pub(crate) const ROOM_AHEAD_PARTS: u64 = 64;
/// Frames handed to the parse stage at a time. The stage fetches more when these are parsed.
pub(crate) const COMMITTED_FRAMES_MAX: usize = 64;
/// Hot segment files kept open for reading. Beyond this number the one opened first is closed, and
/// reopened when it is read: a store of thousands of segments stays far from the limit on open
/// files.
pub(crate) const OPEN_FILES_MAX: usize = 64;
/// Interval of maintenance: limits on age are enforced, and failed work is tried again.
pub(crate) const MAINTENANCE_INTERVAL_MS: u64 = 5_000;
/// Interval at which the age of the active segment is checked while no line arrives.
pub(crate) const CLOSING_INTERVAL_MS: u64 = 1_000;

/// A segment that holds at least 1/`LARGE_PARTS` of a full one is closed at 1/[`LARGE_AGE_PARTS`]
/// of the configured age: lines arrive fast, and searching them is fast only once they are sealed.
const LARGE_PARTS: u64 = 16;
/// Divisor of the closing age of such a segment, see [`LARGE_PARTS`].
const LARGE_AGE_PARTS: i64 = 15;
/// A segment that holds less than 1/`SMALL_PARTS` of a full one is closed at [`SMALL_AGES`] times
/// the configured age: so few lines are searched fast unsealed, and a quiet system makes few files.
const SMALL_PARTS: u64 = 256;
/// Multiplier of the closing age of such a segment, see [`SMALL_PARTS`].
const SMALL_AGES: i64 = 120;
/// Room for sealing: frames are written only if 1/`SEAL_RESERVE_PARTS` of the largest unsealed
/// segment stays free beyond the reserve of the disk. Sealing may use that room, since it gives
/// space back.
pub(crate) const SEAL_RESERVE_PARTS: u64 = 4;
/// While the disk is full, rows of the summary, and the segment that records issued numbers, may
/// use the reserve down to this part of it; sealing may use it down to [`SEAL_RESERVE_PARTS`].
pub(crate) const RESERVE_INTERNAL_PARTS: u64 = 2;
/// Sealing stops giving way when less than a segment, or less than this part of the disk, could be
/// written.
pub(crate) const LOW_DISK_PARTS: u64 = 16;

/// Lines that are deleted earlier than others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetentionRule {
    /// Selects the lines; a text that [`StoreCallbacks::filter`](crate::StoreCallbacks::filter)
    /// compiles.
    pub filter: String,
    /// Age since arrival at which they are deleted, nanoseconds.
    pub age_ns: i64,
}

/// Lines of whom too much is kept, and from when on they stay. All others that the filter selects
/// are deleted, however few of them a segment has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cutoff {
    /// Selects the lines; a text that [`StoreCallbacks::filter`](crate::StoreCallbacks::filter)
    /// compiles.
    pub filter: String,
    /// Segments whose newest line arrived before this lose them, nanoseconds since 1970 UTC.
    pub received_before_ns: i64,
}

/// What is deleted when. It can change while the store runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retention {
    /// See [`StoreConfig::age_ns`].
    pub age_ns: Option<i64>,
    /// See [`StoreConfig::bytes_max`].
    pub bytes_max: Option<u64>,
    /// See [`StoreConfig::rules`].
    pub rules: Vec<RetentionRule>,
}

/// The settings of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreConfig {
    /// Directory of all its files; created if missing.
    pub data_dir: PathBuf,
    /// A segment is closed before it grows beyond this, bytes. The limit is also at most an eighth
    /// of `bytes_max`.
    pub segment_bytes_max: u64,
    /// Lower bound of that limit, whatever `bytes_max` is: smaller files would be too many.
    /// Simulations set it to kilobytes.
    pub segment_bytes_min: u64,
    /// Most frames of a segment: each takes some 100 bytes of memory until the segment is sealed,
    /// and every query looks at each. One client that sends line by line makes thousands a second.
    pub segment_frames_max: usize,
    /// Frames queued for the disk, bytes. [`Store::append`](crate::Store::append) blocks beyond it.
    pub queue_bytes_max: usize,
    /// Bytes of frames, parsed batches, chunks of sealed blocks and footers kept in memory. What
    /// arrived last stays; the rest is read from disk, and parsed, when a query needs it.
    pub cache_bytes_max: usize,
    /// At most one group of frames is made durable in this time, milliseconds, unless much is
    /// queued or a sender waits for the answer. A higher value means fewer syncs, and a longer time
    /// in which a crash of the machine loses unacknowledged lines.
    pub commit_interval_ms: u64,
    /// The reserve: bytes left free on the file system. The store reports a full disk when it would
    /// take more.
    pub disk_free_bytes_min: u64,
    /// Time between attempts to write while the disk is full or failing, milliseconds.
    pub retry_ms: u64,
    /// Time after which frames whose sender waits for an acknowledgement are given up while the
    /// disk is full or failing, milliseconds.
    pub unacknowledged_ms_max: u64,
    /// Age since arrival at which lines are deleted, nanoseconds. Retention deletes whole segments,
    /// so lines may stay up to an eighth longer. None: no limit.
    pub age_ns: Option<i64>,
    /// Bytes of all segment files; the oldest are deleted before more is taken. At least eight
    /// times `segment_bytes_min`. None: no limit. The catalog (a few hundred bytes a segment) is
    /// not counted. The new file of a rewrite comes on top until it takes the place of its sources:
    /// usually a hundredth of this, at most an eighth and one file. Nothing is ever deleted to make
    /// room for a rewrite; where the disk has none, the rewrite waits. A single frame above an
    /// eighth of this (lines of many megabytes) makes a segment of its own size.
    pub bytes_max: Option<u64>,
    /// Rules that delete some lines earlier than `age_ns`, from sealed segments, where these lines
    /// are a large enough part of a segment to rewrite it.
    pub rules: Vec<RetentionRule>,
    /// Age at which a segment is closed, and then sealed, nanoseconds since it began to take lines;
    /// when those lines arrived at a collector does not matter. A segment that holds a sixteenth of
    /// a full one is closed at a fifteenth of this age, a segment that holds less than a 256th at
    /// 120 times this age.
    pub segment_age_ns: i64,
    /// The backlog (bytes of segments that are closed and parsed but not sealed) beyond which
    /// sealing stops giving way to ingest and queries.
    pub backlog_bytes_max: u64,
    /// Most bytes a second that the background reads and writes while ingest is busy, unless
    /// sealing must not wait. None: no limit.
    pub background_bytes_per_s_max: Option<u64>,
    /// Threads that seal, merge and re-encode in parallel. The order of lines does not depend on
    /// the number.
    pub sealing_threads: usize,
    /// Whether sealed segments are re-encoded, with the best effort, while the machine is idle.
    pub reencode: bool,
    /// Age at which a segment is re-encoded, nanoseconds since its newest line arrived. Re-encoding
    /// costs several times what sealing does: it pays for segments that stay for long.
    pub reencode_age_ns: i64,
    /// Most other nodes whose frames are told apart.
    pub nodes_max: usize,
    /// After this time without a connection another node may be forgotten, nanoseconds: what it
    /// would send again is long acknowledged, or given up.
    pub node_age_ns: i64,
}

impl StoreConfig {
    /// The defaults: segments of 1 GiB, 262,144 frames or 30 seconds, 64 MiB of queue, 512 MiB of
    /// cache, 10 ms, 256 MiB left free, no deletion, sealing at normal priority beyond 4 GiB of
    /// backlog and at 512 MiB/s below, re-encoding after a day, when idle, and 10,000 other nodes,
    /// which may be forgotten after 30 days.
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
            segment_age_ns: 30_000_000_000,
            backlog_bytes_max: 4 << 30,
            background_bytes_per_s_max: Some(512 << 20),
            sealing_threads: 1,
            reencode: true,
            reencode_age_ns: 86_400_000_000_000,
            nodes_max: NODES_MAX,
            node_age_ns: 30 * 86_400_000_000_000,
        }
    }

    /// Checks what a start would refuse.
    ///
    /// Errors: a setting cannot hold; the text names its key, and what to write instead.
    pub fn check(&self) -> Result<(), StoreError> {
        self.check_retention(&self.retention())?;
        if self.sealing_threads == 0 {
            let text = "at least one thread must seal";
            return Err(StoreError::Config(text.to_owned()));
        }
        if self.background_bytes_per_s_max == Some(0) {
            let text = "the limit of bytes a second for background work must be above zero";
            return Err(StoreError::Config(text.to_owned()));
        }
        Ok(())
    }

    /// Checks a retention for a store with these settings. With one that is refused, nearly all
    /// lines would be deleted at once.
    pub(crate) fn check_retention(&self, retention: &Retention) -> Result<(), StoreError> {
        let least = self.retention_bytes_min();
        if let Some(bytes) = retention.bytes_max
            && bytes < least
        {
            return Err(StoreError::Config(format!(
                "retention.bytes is {bytes} bytes; it must be at least {least} ({}MiB), or off",
                least >> 20
            )));
        }
        if retention.age_ns.is_some_and(|age| age <= 0) {
            return Err(StoreError::Config("retention.age must be above zero, or off".to_owned()));
        }
        if retention.rules.iter().any(|rule| rule.age_ns <= 0) {
            let text = "retention.rules.age must be above zero";
            return Err(StoreError::Config(text.to_owned()));
        }
        Ok(())
    }

    /// The least `bytes_max`: eight segments of the least size, so that at least seven eighths of
    /// it are kept.
    fn retention_bytes_min(&self) -> u64 {
        RETENTION_PARTS * self.segment_bytes_min
    }

    /// Bytes at which a segment is closed while all segments may take `bytes_max`. That limit can
    /// change while the store runs, so it is not the one of the start.
    pub(crate) fn segment_bytes(&self, bytes_max: Option<u64>) -> u64 {
        let part = bytes_max.map_or(u64::MAX, |bytes| bytes / RETENTION_PARTS);
        self.segment_bytes_max.min(part).max(self.segment_bytes_min)
    }

    /// The retention at the start.
    pub fn retention(&self) -> Retention {
        Retention { age_ns: self.age_ns, bytes_max: self.bytes_max, rules: self.rules.clone() }
    }

    /// The age at which a segment of this size is closed, nanoseconds, where a full one has `full`
    /// bytes.
    pub(crate) fn closing_age_ns(&self, bytes: u64, full: u64) -> i64 {
        if bytes >= full / LARGE_PARTS {
            self.segment_age_ns / LARGE_AGE_PARTS
        } else if bytes >= full / SMALL_PARTS {
            self.segment_age_ns
        } else {
            self.segment_age_ns.saturating_mul(SMALL_AGES)
        }
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
            config.segment_bytes_max = segment;
            assert_eq!(config.segment_bytes(bytes), expected);
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
        let rule = |age_ns| RetentionRule { filter: "a".to_owned(), age_ns };
        for (age_ns, rule_age_ns, key) in
            [(Some(0), 1, "retention.age"), (Some(-1), 1, "retention.age"), (None, 0, "rules.age")]
        {
            (config.age_ns, config.rules) = (age_ns, vec![rule(1), rule(rule_age_ns)]);
            let error = config.check().unwrap_err().to_string();
            assert!(error.contains(key), "{error}");
        }
        (config.age_ns, config.rules) = (Some(1), vec![rule(1)]);
        assert!(config.check().is_ok());
    }
}
