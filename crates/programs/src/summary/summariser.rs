//! Counts lines into buckets, and writes buckets as rows, so that each line counts once.
//!
//! # Every line once, also across crashes
//!
//! The caller observes frames in the order in which they arrived and names each by a *position*
//! that grows in this order and is the same after a restart, even if the frame was sealed
//! meanwhile. A [`Flush`] is a full drain: its rows hold the counts of all lines observed since the
//! previous flush, so `through`, the last observed position, is enough to describe it:
//!
//! > The rows of all flushes up to one `through` count each line at a position ≤ `through` once,
//! > and no other line.
//!
//! The caller delivers the rows of a flush as one frame of [`Flush::origin`], which carries
//! `through` as its watermark ([`Hints::summarised_through`]). A frame exists as a whole or not at
//! all, and it comes after the frames it counts, so it never survives a crash without them. After a
//! restart the caller finds the greatest watermark, passes it to [`Summariser::new`], and observes
//! the frames at greater positions again.
//!
//! While a flush is being written it stays pending, and new lines are counted separately.
//! [`Summariser::settled`] settles it once it is durable; if writing failed, [`Summariser::flush`]
//! returns the same rows again. At most one flush is pending, because a watermark must not overtake
//! rows whose writing may still fail.
//!
//! # Limits
//!
//! Limits are in bytes of JSON; memory is a small multiple of that. Above [`FLUSH_BYTES_DUE`], or
//! half of [`FLUSH_NAMES_MAX`], a flush is due. At [`FLUSH_BYTES_MAX`], which only a single frame
//! full of absurd timestamps or a store that cannot write can reach, and at [`FLUSH_NAMES_MAX`],
//! new values are counted as `other`, and lines that would open one more bucket are counted as type
//! `other` at their time of arrival.

use std::collections::HashMap;
use std::sync::Arc;

use record::{Batch, Format, Hints, Origin, Transport};
use text::duration::SECOND_NS;

use crate::summary::bucket::{Bucket, Room, empty_json_bytes};
use crate::summary::counting::{Alike, Counting};
use crate::summary::program::{Program, programs};
use crate::summary::row::SummaryRow;
use crate::summary::time::bucket_start;
use crate::summary::{OTHER, SUMMARY_TYPE};

/// Size of a flush, in bytes of JSON, at which it is due without waiting.
pub const FLUSH_BYTES_DUE: usize = 2 << 20;
/// The largest flush: the longest line, so that it fits into one frame. See the module's
/// documentation for the behaviour at this limit.
pub const FLUSH_BYTES_MAX: usize = record::frame::LINE_BYTES_MAX;
/// Distinct counts (dimension and value) in all rows of a flush; half of the field names that one
/// parsed frame can have ([`record::batch::BATCH_NAMES_MAX`]). Further values count as `other`.
pub const FLUSH_NAMES_MAX: usize = record::batch::BATCH_NAMES_MAX / 2;
/// Upper limit of [`SummaryConfig::values_max`]: a row's dimensions together stay below the number
/// of fields that one line can have ([`record::batch::ROW_FIELDS_MAX`]).
pub const VALUES_MAX: usize = 200;
/// The longest value, and name of a type, that is counted under its own name. A longer one counts
/// as `other`.
pub const VALUE_BYTES_MAX: usize = 128;

/// The widest bucket and the longest interval: a year, in seconds.
pub const WIDTH_S_MAX: u64 = 366 * 86_400;

/// Tunables of the summary.
#[derive(Clone, Debug)]
pub struct SummaryConfig {
    /// Width of a bucket, seconds; 1 to [`WIDTH_S_MAX`].
    pub bucket_s: u64,
    /// Values of one dimension that a row names; at most [`VALUES_MAX`]. Lines with further values
    /// count as `other` in that row.
    pub values_max: usize,
    /// How often rows are written, seconds; 1 to [`WIDTH_S_MAX`]. A shorter interval means more
    /// rows per bucket, a longer one more lines to observe again after a crash.
    pub flush_interval_s: u64,
    /// How long after the end of an interval to wait for lines that are a little late, seconds.
    pub flush_delay_s: u64,
}

impl Default for SummaryConfig {
    fn default() -> Self {
        SummaryConfig { bucket_s: 10, values_max: 100, flush_interval_s: 10, flush_delay_s: 2 }
    }
}

/// Rows to be written, as one frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flush {
    /// Rows as JSON objects, each followed by a newline; oldest bucket first. At most
    /// [`FLUSH_BYTES_MAX`].
    pub lines: Vec<u8>,
    /// Number of rows.
    pub rows: usize,
    /// Position of the last frame counted.
    pub through: u64,
}

impl Flush {
    /// The origin that the rows' frame must have: their type, and the watermark that makes them
    /// count once.
    pub fn origin(&self) -> Origin {
        let hints = Hints {
            log_type: Some(SUMMARY_TYPE.to_owned()),
            summarised_through: Some(self.through),
            ..Hints::default()
        };
        Origin { hints: Arc::new(hints), ..Origin::new(Transport::Internal, Format::Json, None) }
    }
}

/// Counts not yet settled, consistent with stored rows of settled flushes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// Rows of the open buckets and of the pending flush.
    pub rows: Vec<SummaryRow>,
    /// The last settled flush. Stored rows with a greater watermark are already among `rows`.
    pub settled_through: Option<u64>,
}

/// Counts lines as they are observed. Not synchronised: the caller shares it behind a lock, held
/// for one call.
pub struct Summariser {
    config: SummaryConfig,
    types: Types,
    buckets: HashMap<(u32, i64), Bucket, foldhash::fast::RandomState>,
    room: Room,
    /// When to write the open buckets, wall clock. None while there are none.
    due_ns: Option<i64>,
    observed_through: Option<u64>,
    pending: Option<Pending>,
    settled_through: Option<u64>,
}

struct Pending {
    rows: Vec<SummaryRow>,
    through: u64,
}

impl Summariser {
    /// A summariser that resumes behind `settled_through`, the greatest watermark found in the
    /// store.
    ///
    /// # Panics
    /// If a width or interval of `config` is 0 or above [`WIDTH_S_MAX`], or `values_max` is above
    /// [`VALUES_MAX`]: checked when the configuration is read.
    pub fn new(config: SummaryConfig, settled_through: Option<u64>) -> Self {
        let widths = 1..=WIDTH_S_MAX;
        assert!(widths.contains(&config.bucket_s) && widths.contains(&config.flush_interval_s));
        assert!(config.flush_delay_s <= WIDTH_S_MAX);
        assert!(config.values_max <= VALUES_MAX);
        let room = Room::new(config.values_max);
        Summariser {
            config,
            types: Types::default(),
            buckets: HashMap::default(),
            room,
            due_ns: None,
            observed_through: settled_through,
            pending: None,
            settled_through,
        }
    }

    /// Counts the lines of a frame, each in the bucket of its event time and type. `now_ns` is the
    /// wall clock, nanoseconds since 1970 UTC.
    ///
    /// # Panics
    /// If `position` is not greater than all before: a frame would count twice.
    pub fn observe(&mut self, batch: &Batch, position: u64, now_ns: i64) {
        self.observe_all([batch], position, now_ns);
    }

    /// As [`observe`](Self::observe), for batches that together have the lines between the previous
    /// position and this one.
    ///
    /// # Panics
    /// As [`observe`](Self::observe).
    pub fn observe_all<'b>(
        &mut self,
        batches: impl IntoIterator<Item = &'b Batch>,
        position: u64,
        now_ns: i64,
    ) {
        let before = self.observed_through.replace(position);
        assert!(
            before < Some(position),
            "frames are observed in order: {position} after {before:?}"
        );
        batches.into_iter().for_each(|batch| self.count_batch(batch, now_ns));
    }

    fn count_batch(&mut self, batch: &Batch, now_ns: i64) {
        // Frames are Loginson's own as a whole; the type that a line claims does not matter.
        if batch.is_internal() {
            return;
        }
        let mut counting = Counting::new(batch, self.bucket_ns());
        for row in batch.rows() {
            if let Some(alike) = counting.take(&row) {
                self.count(&alike, &mut counting);
            }
        }
        for stem in 0..batch.stems() {
            if let Some(alike) = counting.end(stem) {
                self.count(&alike, &mut counting);
            }
        }
        if !self.buckets.is_empty() && self.due_ns.is_none() {
            let interval_ns = self.config.flush_interval_s as i64 * SECOND_NS;
            let wait_ns = interval_ns + self.config.flush_delay_s as i64 * SECOND_NS;
            self.due_ns = Some(bucket_start(now_ns, interval_ns).saturating_add(wait_ns));
        }
    }

    /// Counts lines of one type and bucket with the same values.
    fn count(&mut self, alike: &Alike<'_>, counting: &mut Counting<'_>) {
        let log_type = counting.log_type(&alike.row);
        let mut key = (self.types.id(log_type), alike.start_ns);
        if !self.buckets.contains_key(&key) {
            key = self.open(key, counting.batch);
        }
        let programs = self.types.entries[key.0 as usize].programs;
        let fields = counting.fields(key.0, programs);
        let bucket = self.buckets.get_mut(&key).expect("it was opened");
        bucket.add(alike, fields, &mut self.room);
    }

    /// Returns everything counted so far as rows to be written if a flush is due: the interval and
    /// the delay are over, or a limit is near (see the module), or with `force`. After a flush that
    /// was not settled, returns that one again. Must be called about once a second and after each
    /// [`observe`](Self::observe), but not while a flush is being written.
    pub fn flush(&mut self, now_ns: i64, force: bool) -> Option<Flush> {
        if self.pending.is_none() {
            let interval_ns = self.config.flush_interval_s as i64 * SECOND_NS;
            let delay_ns = self.config.flush_delay_s as i64 * SECOND_NS;
            // A due time further away than the longest wait means that the clock was set back.
            let is_due = self.due_ns.is_some_and(|due_ns| {
                now_ns >= due_ns || due_ns.saturating_sub(now_ns) > interval_ns + delay_ns
            });
            if self.buckets.is_empty() || !(force || is_due || self.room.is_large()) {
                return None;
            }
            let rows = self.open_rows(None, i64::MIN, i64::MAX);
            let through = self.observed_through.expect("lines were observed");
            self.pending = Some(Pending { rows, through });
            self.buckets = HashMap::default();
            self.types = Types::default();
            self.room = Room::new(self.config.values_max);
            self.due_ns = None;
        }
        let pending = self.pending.as_ref()?;
        let mut lines = Vec::new();
        pending.rows.iter().for_each(|row| row.write_json(&mut lines));
        Some(Flush { lines, rows: pending.rows.len(), through: pending.through })
    }

    /// Records that the pending flush is durable.
    ///
    /// # Panics
    /// If no flush with that `through` is pending.
    pub fn settled(&mut self, through: u64) {
        let pending = self.pending.take().map(|p| p.through);
        assert_eq!(pending, Some(through), "the pending flush is settled");
        self.settled_through = pending;
    }

    /// The unsettled counts of one type, or of all, whose buckets begin in `start_ns..end_ns`
    /// (`i64::MAX`: no end). If this is taken before reading stored rows with
    /// [`stored_rows`](crate::summary::stored_rows), both together count each line once.
    pub fn snapshot(&self, log_type: Option<&str>, start_ns: i64, end_ns: i64) -> Snapshot {
        let pending = self.pending.iter().flat_map(|p| &p.rows).filter(|row| {
            log_type.is_none_or(|t| t == row.summary_of) && within(row.time_ns, start_ns, end_ns)
        });
        let mut rows: Vec<SummaryRow> = pending.cloned().collect();
        rows.extend(self.open_rows(log_type, start_ns, end_ns));
        Snapshot { rows, settled_through: self.settled_through }
    }

    /// Position up to which lines have been counted, written or not. Compared with the store's end,
    /// it gives the lag.
    pub fn observed_through(&self) -> Option<u64> {
        self.observed_through
    }

    /// Position up to which every line is counted in durable rows, or is not counted at all: these
    /// lines need not be observed again after a crash.
    pub fn durable_through(&self) -> Option<u64> {
        let nothing_open = self.buckets.is_empty() && self.pending.is_none();
        if nothing_open { self.observed_through } else { self.settled_through }
    }

    /// Width of the buckets, seconds.
    pub fn bucket_s(&self) -> u64 {
        self.config.bucket_s
    }

    fn bucket_ns(&self) -> i64 {
        self.config.bucket_s as i64 * SECOND_NS
    }

    /// Opens a bucket, or the one of type `other` if there is no room.
    #[cold]
    fn open(&mut self, key: (u32, i64), batch: &Batch) -> (u32, i64) {
        let entry = &self.types.entries[key.0 as usize];
        let grown = empty_json_bytes(&entry.name, entry.programs);
        if self.room.take(grown) {
            self.buckets.insert(key, Bucket::new(entry.programs));
            return key;
        }
        let arrival_ns = batch.received_max_ns().expect("a row asks for it");
        let key = (OTHER_ID, bucket_start(arrival_ns, self.bucket_ns()));
        let programs = self.types.entries[OTHER_ID as usize].programs;
        self.buckets.entry(key).or_insert_with(|| Bucket::new(programs));
        key
    }

    fn open_rows(&self, log_type: Option<&str>, start_ns: i64, end_ns: i64) -> Vec<SummaryRow> {
        let mut rows: Vec<SummaryRow> = Vec::new();
        for (&(type_id, time_ns), bucket) in &self.buckets {
            let entry = &self.types.entries[type_id as usize];
            let wanted = log_type.is_none_or(|t| t == &*entry.name);
            if wanted && within(time_ns, start_ns, end_ns) {
                rows.push(bucket.row(time_ns, self.config.bucket_s, &entry.name, entry.programs));
            }
        }
        rows.sort_unstable_by(|a, b| (a.time_ns, &a.summary_of).cmp(&(b.time_ns, &b.summary_of)));
        rows
    }
}

fn within(time_ns: i64, start_ns: i64, end_ns: i64) -> bool {
    start_ns <= time_ns && (time_ns < end_ns || end_ns == i64::MAX)
}

/// Number of the type [`OTHER`].
const OTHER_ID: u32 = 0;

/// The types that have open buckets, numbered.
struct Types {
    entries: Vec<TypeEntry>,
    ids: HashMap<Box<[u8]>, u32, foldhash::fast::RandomState>,
}

struct TypeEntry {
    name: Box<str>,
    programs: &'static [&'static Program],
}

impl Default for Types {
    fn default() -> Self {
        let other = TypeEntry { name: OTHER.into(), programs: programs(OTHER) };
        let ids = [(OTHER.as_bytes().into(), OTHER_ID)].into_iter().collect();
        Types { entries: vec![other], ids }
    }
}

/// Types with open buckets. Lines of further types count as of type `other`.
const TYPES_MAX: usize = 1_000;

impl Types {
    #[inline]
    fn id(&mut self, name: &[u8]) -> u32 {
        match self.ids.get(name) {
            Some(&id) => id,
            None => self.add(name),
        }
    }

    #[cold]
    fn add(&mut self, name: &[u8]) -> u32 {
        let text = std::str::from_utf8(name).unwrap_or_default();
        if text.is_empty() || text.len() > VALUE_BYTES_MAX || self.entries.len() >= TYPES_MAX {
            return OTHER_ID;
        }
        let id = self.entries.len() as u32;
        self.entries.push(TypeEntry { name: text.into(), programs: programs(text) });
        self.ids.insert(name.into(), id);
        id
    }
}
