//! Summarises lines again: the rows of one type over a past interval are computed again and replace
//! the old ones.
//!
//! Rows are never taken back. A rerun writes rows that carry its number; when all of them are
//! durable, it is added to a list. From then on its rows count, and those that they replace do not.
//! A rerun counts lines up to a settled flush ([`Rerun::through`]), so that it is known for each
//! row of the running summary whether the rerun counted its lines: rows of later flushes, including
//! late lines, still count.
//!
//! Rows of a rerun that is not on the list (it was cancelled, or crashed) do not count.

use std::collections::BTreeMap;

use record::{Batch, Format, Hints, Origin, Transport};
use serde::{Deserialize, Serialize};
use text::duration::SECOND_NS;

use crate::summary::bucket::{Bucket, Room, empty_json_bytes};
use crate::summary::counting::{Alike, Fields};
use crate::summary::program::programs;
use crate::summary::row::SummaryRow;
use crate::summary::summariser::SummaryConfig;
use crate::summary::time::bucket_start;
use crate::summary::{OTHER, SUMMARY_TYPE};

/// Reruns on the list. A further one is refused, unless it covers others, which it replaces.
///
/// limits.md, Programs of users: completed runs over the past | {} | a further one is refused,
/// unless it covers others, which it replaces
pub const RERUNS_MAX: usize = 1_000;

/// A completed rerun.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rerun {
    /// Its number, which grows: when it began, nanoseconds since 1970 UTC.
    pub id: u64,
    /// Type of the lines counted.
    pub summary_of: String,
    /// First instant, nanoseconds since 1970 UTC; the start of a bucket.
    pub start_ns: i64,
    /// First instant after it; the start of a bucket.
    pub end_ns: i64,
    /// The settled flush up to which it counts; `None` if there was none.
    pub through: Option<u64>,
}

impl Rerun {
    fn covers(&self, summary_of: &str, time_ns: i64) -> bool {
        self.summary_of == summary_of && self.start_ns <= time_ns && time_ns < self.end_ns
    }
}

/// The completed reruns, in the order of their numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reruns(Vec<Rerun>);

impl Reruns {
    /// A list from reruns in any order.
    pub fn new(mut reruns: Vec<Rerun>) -> Reruns {
        reruns.sort_unstable_by_key(|rerun| rerun.id);
        Reruns(reruns)
    }

    /// The list.
    pub fn list(&self) -> &[Rerun] {
        &self.0
    }

    /// The list with one more rerun, without those that it covers. `None` if the list is full.
    pub fn with(&self, rerun: Rerun) -> Option<Reruns> {
        let covered = |old: &Rerun| {
            old.summary_of == rerun.summary_of
                && rerun.start_ns <= old.start_ns
                && old.end_ns <= rerun.end_ns
        };
        let mut list: Vec<Rerun> = self.0.iter().filter(|old| !covered(old)).cloned().collect();
        list.push(rerun);
        (list.len() <= RERUNS_MAX).then(|| Reruns::new(list))
    }

    /// Whether a stored row counts.
    pub fn counts(&self, row: &SummaryRow) -> bool {
        let last = self.0.iter().rev().find(|rerun| rerun.covers(&row.summary_of, row.time_ns));
        match (row.rerun, last) {
            (Some(id), last) => last.is_some_and(|last| last.id == id),
            (None, None) => true,
            // Rows that came from elsewhere have no watermark: their lines are not here to be
            // counted again.
            (None, Some(last)) => row.through.is_none_or(|through| Some(through) > last.through),
        }
    }
}

/// Counts the lines of one type over an interval again.
pub struct Recount {
    rerun: Rerun,
    bucket_ns: i64,
    config: SummaryConfig,
    buckets: BTreeMap<i64, Bucket>,
    room: Room,
    lines: u64,
}

impl Recount {
    /// Counts lines of `summary_of` from `start_ns` to before `end_ns`, both extended to whole
    /// buckets, in frames up to `through`, which the caller ensures.
    pub fn new(
        config: SummaryConfig,
        id: u64,
        summary_of: &str,
        (start_ns, end_ns): (i64, i64),
        through: Option<u64>,
    ) -> Recount {
        let bucket_ns = config.bucket_s as i64 * SECOND_NS;
        let up = bucket_start(end_ns, bucket_ns);
        let end_ns = if up < end_ns { up.saturating_add(bucket_ns) } else { up };
        let start_ns = bucket_start(start_ns, bucket_ns);
        let summary_of = summary_of.to_owned();
        Recount {
            rerun: Rerun { id, summary_of, start_ns, end_ns, through },
            bucket_ns,
            room: Room::new(config.values_max),
            config,
            buckets: BTreeMap::new(),
            lines: 0,
        }
    }

    /// The rerun that will be listed when this is complete.
    pub fn rerun(&self) -> &Rerun {
        &self.rerun
    }

    /// Lines counted.
    pub fn lines(&self) -> u64 {
        self.lines
    }

    /// The origin of its rows. They have no watermark: they say nothing about which later lines are
    /// counted.
    pub fn origin() -> Origin {
        let hints = Hints { log_type: Some(SUMMARY_TYPE.to_owned()), ..Hints::default() };
        let internal = Origin::new(Transport::Internal, Format::Json, None);
        Origin { hints: std::sync::Arc::new(hints), ..internal }
    }

    /// Counts the lines of a batch whose frames have a sequence number up to `sequence_max`. Calls
    /// `write` with rows as JSON lines when many have accumulated, at most
    /// [`FLUSH_BYTES_MAX`](crate::summary::FLUSH_BYTES_MAX) bytes.
    pub fn observe<E>(
        &mut self,
        batch: &Batch,
        sequence_max: u64,
        write: &mut impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let summary_of = self.rerun.summary_of.clone();
        // Types without a name of their own are counted as `other`, which cannot be separated
        // later.
        let programs = programs(&summary_of);
        let type_id = batch.field_id("_type");
        let fields = Fields::resolve(programs, batch);
        for row in batch.rows() {
            let log_type = type_id.and_then(|id| row.get(id)).unwrap_or_default();
            if row.sequence() > sequence_max {
                continue;
            }
            if log_type != summary_of.as_bytes() || !self.rerun.covers(&summary_of, row.time_ns()) {
                continue;
            }
            let start_ns = bucket_start(row.time_ns(), self.bucket_ns);
            if !self.buckets.contains_key(&start_ns) {
                if !self.room.take(empty_json_bytes(&summary_of, programs)) || self.room.is_large()
                {
                    self.write(write)?;
                    self.room.take(empty_json_bytes(&summary_of, programs));
                }
                self.buckets.insert(start_ns, Bucket::new(programs));
            }
            let bucket = self.buckets.get_mut(&start_ns).expect("it was made");
            let alike = Alike { row, start_ns, lines: 1, bytes: row.raw_bytes() as u64 };
            bucket.add(&alike, &fields, &mut self.room);
            self.lines += 1;
            if self.room.is_large() {
                self.write(write)?;
            }
        }
        Ok(())
    }

    /// Writes the remaining rows.
    pub fn write<E>(&mut self, write: &mut impl FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
        let mut lines = Vec::new();
        for (start_ns, bucket) in std::mem::take(&mut self.buckets) {
            let summary_of = &self.rerun.summary_of;
            let programs = programs(summary_of);
            let mut row = bucket.row(start_ns, self.config.bucket_s, summary_of, programs);
            row.rerun = Some(self.rerun.id);
            row.write_json(&mut lines);
        }
        self.room = Room::new(self.config.values_max);
        if lines.is_empty() { Ok(()) } else { write(&lines) }
    }
}

/// Whether a type can be summarised again: only types that have charts of their own.
pub fn can_rerun(log_type: &str) -> bool {
    log_type != SUMMARY_TYPE && log_type != OTHER && !log_type.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(time_ns: i64, through: Option<u64>, rerun: Option<u64>) -> SummaryRow {
        SummaryRow {
            time_ns,
            bucket_s: 10,
            summary_of: "a".to_owned(),
            lines: 1,
            bytes: 1,
            dimensions: BTreeMap::new(),
            sums: BTreeMap::new(),
            through,
            rerun,
        }
    }

    fn rerun(id: u64, start_ns: i64, end_ns: i64, through: Option<u64>) -> Rerun {
        Rerun { id, summary_of: "a".to_owned(), start_ns, end_ns, through }
    }

    #[test]
    fn which_rows_count() {
        let list = Reruns::new(vec![rerun(2, 20, 40, Some(9)), rerun(1, 10, 30, Some(5))]);
        for (row, expected) in [
            (row(0, Some(1), None), true),
            (row(10, Some(5), None), false),
            (row(10, Some(6), None), true),
            (row(20, Some(6), None), false),
            (row(20, Some(9), None), false),
            (row(20, Some(10), None), true),
            (row(20, None, None), true),
            (row(40, Some(1), None), true),
            (row(10, None, Some(1)), true),
            (row(20, None, Some(1)), false),
            (row(20, None, Some(2)), true),
            (row(20, None, Some(3)), false),
            (row(50, None, Some(1)), false),
            (SummaryRow { summary_of: "b".to_owned(), ..row(20, Some(1), None) }, true),
        ] {
            assert_eq!(list.counts(&row), expected, "{row:?}");
        }
        // Nothing was settled: everything counted now came later.
        let list = Reruns::new(vec![rerun(1, 0, 100, None)]);
        assert!(list.counts(&row(10, Some(0), None)));
    }

    #[test]
    fn covered_reruns_are_removed_and_the_list_is_bounded() {
        let list = Reruns::new(vec![rerun(1, 10, 30, None), rerun(2, 40, 50, None)]);
        assert_eq!(list.with(rerun(3, 10, 40, None)).unwrap().list().len(), 2);
        assert_eq!(list.with(rerun(3, 20, 50, None)).unwrap().list().len(), 2);
        assert_eq!(list.with(rerun(3, 0, 50, None)).unwrap().list(), [rerun(3, 0, 50, None)]);
        let many =
            (0..RERUNS_MAX as u64 - 1).map(|i| rerun(i, i as i64 * 10, i as i64 * 10 + 10, None));
        let list = Reruns::new(many.collect());
        let list = list.with(rerun(5_000, -10, 0, None)).expect("there is room");
        assert_eq!(list.with(rerun(5_001, -20, -10, None)), None);
        assert!(list.with(rerun(5_001, -20, 0, None)).is_some());
    }

    #[test]
    fn intervals_are_of_whole_buckets() {
        let config = SummaryConfig::default();
        let range = |start_ns, end_ns| {
            let recount = Recount::new(config.clone(), 1, "a", (start_ns, end_ns), None);
            (recount.rerun.start_ns / SECOND_NS, recount.rerun.end_ns / SECOND_NS)
        };
        assert_eq!(range(0, 10 * SECOND_NS), (0, 10));
        assert_eq!(range(1, 10 * SECOND_NS + 1), (0, 20));
        assert_eq!(range(-1, 1), (-10, 10));
    }
}
