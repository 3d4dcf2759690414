//! Merging: several small neighbouring segments of a partition become one.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::catalog::{Catalog, SegmentRow};
use crate::error::{Failure, ObjectError};
use crate::ids::{Lease, ObjectName};
use crate::jobs::JobError;
use crate::objects::Objects;
use crate::publisher::{SealError, Sealed};

/// Makes one sealed segment of the lines of several, whose objects it reads.
pub trait Merger: Send + Sync {
    /// The merged segment; the inputs are in the order of their offsets.
    fn merge(&self, segments: &[SegmentRow]) -> Result<Sealed, MergeFailed>;
}

/// Why a merge failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MergeFailed {
    /// What went wrong.
    pub error: SealError,
    /// The segment whose object is missing or damaged; none if something else failed, such as the
    /// local disk or the way to the storage.
    pub unreadable: Option<String>,
}

impl From<SealError> for MergeFailed {
    fn from(error: SealError) -> MergeFailed {
        MergeFailed { error, unreadable: None }
    }
}

/// One size of merged segments, and when neighbours become one of that size.
#[derive(Clone, Copy, Debug)]
pub struct MergeLevel {
    /// The largest sum of the sizes of segments that are merged.
    pub bytes_max: u64,
    /// Segments of up to this size are merged; a larger one stays at this level.
    pub bytes_each_max: u64,
    /// The time since the latest arrival of the youngest of them.
    pub age_min: Duration,
    /// The longest time between the latest arrivals of two of them; `None`: any.
    pub span_max: Option<Duration>,
    /// Whether a run waits until no further neighbour fits, so that few large segments come of it,
    /// and each line is rewritten once. Otherwise [`MergeSettings::segments_min`] are enough.
    pub is_patient: bool,
}

/// What is merged.
#[derive(Clone, Debug)]
pub struct MergeSettings {
    /// Neighbours that are merged at least; 8 means that a line is rewritten once for each
    /// eightfold growth.
    pub segments_min: usize,
    /// The longest time between the latest arrivals of two of them, at all levels; `None`: any. A
    /// segment is dropped when its newest line is too old.
    pub span_max: Option<Duration>,
    /// The sizes, the smallest first.
    pub levels: [MergeLevel; MERGE_LEVELS],
}

/// Sizes that segments grow to, one after the other.
pub const MERGE_LEVELS: usize = 3;
/// The most lines of a merged segment: it counts them with 32 bits.
const LINES_MAX: u64 = u32::MAX as u64;

/// For each level the offset below which segments stay as they are, whatever comes behind them:
/// they are large, or too few between large ones. Two such groups become neighbours when retention
/// drops the segments between them, so somebody begins with 0 from time to time.
pub type Settled = [u64; MERGE_LEVELS];

/// Segments that are looked at with one call.
const PAGE: usize = 256;
/// Segments that are passed over because they cannot be read. Beyond them the job gives up: then
/// rather the storage fails.
const UNREADABLE_MAX: usize = 8;

enum State {
    /// Looks for neighbours of a level from where that is settled on.
    Looking,
    Chosen(Vec<SegmentRow>),
    Merged {
        replaced: Vec<String>,
        by: SegmentRow,
        sealed: Sealed,
        may_exist: bool,
    },
    Stored {
        replaced: Vec<String>,
        by: SegmentRow,
    },
}

/// Merges the segments of one partition; stepped by one thread, under a lease of
/// [`crate::Resource::Merge`].
pub struct Merge {
    lease: Lease,
    partition: u32,
    settings: MergeSettings,
    counter: u64,
    /// The time by the clock of the node, nanoseconds since 1970 UTC: it decides alone when
    /// segments are old enough, so a wrong clock costs work or waits, and no line.
    now_ns: i64,
    /// The level that is looked at.
    level: usize,
    settled: Settled,
    state: State,
    /// The names of segments that cannot be read. They stay as they are, and their neighbours are
    /// merged without them.
    unreadable: BTreeSet<String>,
    /// Why the first of them cannot be read.
    failed: Option<SealError>,
}

impl Merge {
    /// Looks at the segments of the partition that end behind offsets: 0, or where an earlier merge
    /// of the partition [`settled`](Self::settled).
    pub fn new(
        lease: Lease,
        partition: u32,
        settings: MergeSettings,
        settled: Settled,
        now_ns: i64,
    ) -> Merge {
        let (counter, level, state) = (0, 0, State::Looking);
        let (unreadable, failed) = Default::default();
        Merge {
            lease,
            partition,
            settings,
            counter,
            now_ns,
            level,
            settled,
            state,
            unreadable,
            failed,
        }
    }

    /// The offsets where the next merge of the partition begins to look.
    pub fn settled(&self) -> Settled {
        self.settled
    }

    /// Whether it may be ended without the loss of work: nothing is merged that the catalog does
    /// not know. Another one goes on from [`settled`](Self::settled).
    pub fn is_between(&self) -> bool {
        matches!(self.state, State::Looking | State::Chosen(_))
    }

    /// Does the next thing, with one call of an engine or the merger at most. False when it has
    /// looked at all segments; the next step looks at those that are not settled again. A segment
    /// that cannot be read, since its object is missing or damaged, is passed over, and is an error
    /// when the others are done.
    pub fn step(
        &mut self,
        catalog: &dyn Catalog,
        objects: &dyn Objects,
        merger: &dyn Merger,
    ) -> Result<bool, JobError> {
        match std::mem::replace(&mut self.state, State::Looking) {
            State::Looking => {
                let from = self.settled[self.level];
                let segments = catalog.segments_of(self.partition, from, PAGE)?;
                let chosen =
                    choose(segments, &self.unreadable, &self.settings, self.level, self.now_ns);
                match chosen {
                    Found::Run(chosen) => self.state = State::Chosen(chosen),
                    Found::Settled { below, has_more } => {
                        self.settled[self.level] = below.unwrap_or(from);
                        if !has_more {
                            self.level = (self.level + 1) % MERGE_LEVELS;
                            return if self.level != 0 { Ok(true) } else { self.end() };
                        }
                    }
                }
            }
            State::Chosen(chosen) => {
                let sealed = match merger.merge(&chosen) {
                    Ok(sealed) => sealed,
                    Err(failed) => return self.pass_over(failed),
                };
                let lines: u64 = chosen.iter().map(|segment| segment.lines).sum();
                if sealed.lines != lines {
                    let found = sealed.lines;
                    let error = format!("{found} lines in the merged segment, expected {lines}");
                    return Err(SealError(error).into());
                }
                let by = self.row(&chosen, &sealed);
                let replaced = chosen.into_iter().map(|segment| segment.name).collect();
                self.state = State::Merged { replaced, by, sealed, may_exist: false };
            }
            State::Merged { replaced, by, sealed, may_exist } => {
                match objects.put_new(&by.name, &*sealed.body) {
                    Ok(()) => self.state = State::Stored { replaced, by },
                    Err(ObjectError::Exists(_)) if may_exist => {
                        self.state = State::Stored { replaced, by };
                    }
                    // Nobody else gives this name, unless the catalog was restored from a backup:
                    // the work is planned anew, under another name.
                    Err(error @ ObjectError::Exists(_)) => return Err(error.into()),
                    Err(error) => {
                        let may_exist = may_exist || error.failure() == Failure::Unknown;
                        self.state = State::Merged { replaced, by, sealed, may_exist };
                        return Err(error.into());
                    }
                }
            }
            State::Stored { replaced, by } => {
                if let Err(error) = catalog.replace(&self.lease, &replaced, Some(&by)) {
                    if error.failure() == Failure::Retry {
                        self.state = State::Stored { replaced, by };
                    }
                    return Err(error.into());
                }
            }
        }
        Ok(true)
    }

    /// Passes over a segment that cannot be read: the run is chosen anew without it.
    fn pass_over(&mut self, failed: MergeFailed) -> Result<bool, JobError> {
        let MergeFailed { error, unreadable } = failed;
        match unreadable {
            Some(name)
                if self.unreadable.len() < UNREADABLE_MAX && !self.unreadable.contains(&name) =>
            {
                self.unreadable.insert(name);
                self.failed.get_or_insert(error);
                Ok(true)
            }
            _ => Err(error.into()),
        }
    }

    /// All segments were looked at. Those that could not be read are tried again by the next step.
    fn end(&mut self) -> Result<bool, JobError> {
        self.unreadable.clear();
        match self.failed.take() {
            Some(error) => Err(error.into()),
            None => Ok(false),
        }
    }

    fn row(&mut self, chosen: &[SegmentRow], sealed: &Sealed) -> SegmentRow {
        let name = ObjectName { lease: self.lease, counter: self.counter };
        self.counter += 1;
        let start = chosen.first().map_or(0, |segment| segment.offsets.start);
        let end = chosen.last().map_or(0, |segment| segment.offsets.end);
        SegmentRow {
            name: name.to_string(),
            partition: self.partition,
            offsets: start..end,
            times: sealed.times,
            received_last_ns: sealed.received_last_ns,
            lines: sealed.lines,
            bytes: sealed.body.size(),
            searched: chosen.iter().map(|segment| segment.searched).min().unwrap_or(0),
            rules: rules_of(chosen),
            frames: sealed.frames.clone(),
        }
    }
}

/// The rules of retention that were applied to all of the segments: none unless they are the same,
/// since a hash does not tell which of two sets has more. Then the whole is searched again.
fn rules_of(segments: &[SegmentRow]) -> u64 {
    let first = segments.first().map_or(0, |segment| segment.rules);
    if segments.iter().all(|segment| segment.rules == first) { first } else { 0 }
}

enum Found {
    /// The first run of neighbours that is worth merging.
    Run(Vec<SegmentRow>),
    /// There is none.
    Settled {
        /// The segments below this offset stay as they are at this level, whatever comes behind
        /// them; `None` if there is no segment.
        below: Option<u64>,
        /// Whether there may be such a run behind them already.
        has_more: bool,
    },
}

/// Chooses from a page of segments, which are in the order of their offsets. Those that are
/// `unreadable` count as too large.
fn choose(
    segments: Vec<SegmentRow>,
    unreadable: &BTreeSet<String>,
    settings: &MergeSettings,
    level: usize,
    now_ns: i64,
) -> Found {
    let MergeLevel { bytes_max, bytes_each_max, age_min, span_max, is_patient } =
        settings.levels[level];
    let segments_min = settings.segments_min.max(2);
    let span_max = [span_max, settings.span_max].into_iter().flatten().min();
    let is_last = segments.len() < PAGE;
    let mut run: Vec<SegmentRow> = Vec::new();
    let (mut bytes, mut lines, mut below) = (0, 0, None);
    // Nothing can be added to the run any more.
    let mut is_closed = false;
    let mut is_young = false;
    for segment in segments {
        let age_ns = i128::from(now_ns) - i128::from(segment.received_last_ns);
        // Segments that are old enough may follow, and have their turn with it. Nobody waits for
        // one whose arrivals are far in the future: the clock of a collector was wrong.
        let age_min_ns = age_min.as_nanos() as i128;
        is_young = age_ns < age_min_ns && age_ns > -age_min_ns;
        if is_young {
            break;
        }
        below = Some(segment.offsets.end);
        let is_near = |first: &SegmentRow| {
            let apart_ns = first.received_last_ns.abs_diff(segment.received_last_ns);
            span_max.is_none_or(|span| u128::from(apart_ns) <= span.as_nanos())
        };
        let fits = bytes + segment.bytes <= bytes_max
            && lines + segment.lines <= LINES_MAX
            && run.first().is_none_or(is_near);
        let is_small = segment.bytes <= bytes_each_max && !unreadable.contains(&segment.name);
        if !is_small || !fits {
            is_closed = run.len() >= segments_min;
            if is_closed {
                break;
            }
            run.clear();
            (bytes, lines) = (0, 0);
        }
        if is_small {
            (bytes, lines) = (bytes + segment.bytes, lines + segment.lines);
            run.push(segment);
        }
    }
    // A run as long as a page would not grow by waiting.
    let is_enough = is_closed || !is_patient || run.len() == PAGE;
    match run.len() >= segments_min && is_enough {
        true => Found::Run(run),
        false => Found::Settled {
            below: run.first().map(|segment| segment.offsets.start).or(below),
            // A run that goes on behind the page is shorter than the page.
            has_more: !is_last && !is_young,
        },
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use platform::ManualClock;

    use super::*;
    use crate::catalog::{Publication, TimeRange};
    use crate::ids::{NodeId, Resource};
    use crate::sim::{SimCatalog, SimObjects};

    /// Levels of 30 bytes for all, and of 300 and 3,000 for those that are older, in seconds.
    fn settings(span_max: Option<Duration>) -> MergeSettings {
        let level = |bytes_max, age_s, is_patient| MergeLevel {
            bytes_max,
            bytes_each_max: bytes_max / 3,
            age_min: Duration::from_secs(age_s),
            span_max: None,
            is_patient,
        };
        let levels = [level(30, 0, false), level(300, 60, true), level(3_000, 600, true)];
        MergeSettings { segments_min: 3, span_max, levels }
    }

    fn row(index: u64, bytes: u64, received_s: i64) -> SegmentRow {
        SegmentRow {
            name: index.to_string(),
            partition: 0,
            offsets: index..index + 1,
            times: TimeRange::ALL,
            received_last_ns: received_s * SECOND_NS,
            lines: 1,
            bytes,
            searched: 0,
            rules: 0,
            frames: Vec::new(),
        }
    }

    const SECOND_NS: i64 = 1_000_000_000;

    #[test]
    fn small_neighbours_are_chosen() {
        // The offsets of the run, or the offset that is settled.
        let check = |sizes: &[u64], expected: std::ops::Range<u64>, settled: u64| {
            let segments = (0..).zip(sizes).map(|(index, &bytes)| row(index, bytes, 0)).collect();
            let (chosen, found) = match choose(segments, &BTreeSet::new(), &settings(None), 0, 0) {
                Found::Run(chosen) => (chosen, 0),
                Found::Settled { below, .. } => (Vec::new(), below.unwrap_or(99)),
            };
            assert_eq!(found, settled, "{sizes:?}");
            let offsets: Vec<u64> = chosen.iter().map(|segment| segment.offsets.start).collect();
            assert_eq!(offsets, expected.collect::<Vec<_>>(), "{sizes:?}");
        };
        check(&[], 0..0, 99);
        check(&[1, 1], 0..0, 0);
        check(&[11, 1, 1], 0..0, 1);
        check(&[1, 1, 11], 0..0, 3);
        check(&[1, 1, 1], 0..3, 0);
        check(&[1, 1, 11, 1, 1], 0..0, 3);
        check(&[1, 11, 1, 1, 1, 11], 2..5, 0);
        check(&[10, 10, 10, 10], 0..3, 0);
        check(&[10, 9, 9, 9], 0..3, 0);
        check(&[10, 10, 11, 10], 0..0, 3);
    }

    #[test]
    fn large_segments_are_made_of_old_ones_once_no_other_fits() {
        // Sizes and arrivals, in seconds, at the time 1,000 s; the run, or what is settled.
        let check = |level: usize, rows: &[(u64, i64)], expected: Result<&[u64], Option<u64>>| {
            let segments =
                (0..).zip(rows).map(|(index, &(bytes, s))| row(index, bytes, s)).collect();
            let (none, now_ns) = (BTreeSet::new(), 1_000 * SECOND_NS);
            let found = match choose(segments, &none, &settings(None), level, now_ns) {
                Found::Run(run) => Ok(run.iter().map(|row| row.offsets.start).collect()),
                Found::Settled { below, .. } => Err(below),
            };
            assert_eq!(found, expected.map(<[u64]>::to_vec), "{level} {rows:?}");
        };
        let old = [(90, 0), (90, 1), (90, 2)];
        check(1, &old, Err(Some(0)));
        let with = |next: (u64, i64)| [&old[..], &[next]].concat();
        // The next one does not fit, is too large, or is too young.
        check(1, &with((90, 3)), Ok(&[0, 1, 2]));
        check(1, &with((101, 3)), Ok(&[0, 1, 2]));
        check(1, &with((90, 941)), Err(Some(0)));
        check(1, &with((90, 940)), Ok(&[0, 1, 2]));
        check(1, &with((30, 3)), Err(Some(0)));
        check(1, &[(90, 950)], Err(None));
        // The clock of a collector was wrong.
        check(1, &with((90, 1_030)), Err(Some(0)));
        check(1, &with((90, 9_000)), Ok(&[0, 1, 2]));
        // At the next level they are small, and have to be older.
        check(2, &old, Err(Some(0)));
        let many: Vec<(u64, i64)> = (0..12).map(|i| (290, i)).collect();
        check(2, &many, Ok(&[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]));
        check(1, &many, Err(Some(12)));
        let young: Vec<(u64, i64)> = (0..12).map(|i| (290, 396 + i)).collect();
        check(2, &young, Err(Some(0)));
        let older: Vec<(u64, i64)> = (0..12).map(|i| (290, 389 + i)).collect();
        check(2, &older, Ok(&[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]));
        // A page of small ones is enough.
        let page: Vec<(u64, i64)> = (0..PAGE as i64).map(|i| (1, i)).collect();
        let whole: Vec<u64> = (0..PAGE as u64).collect();
        check(1, &page, Ok(&whole));
    }

    #[test]
    fn a_segment_has_no_more_lines_than_it_can_count() {
        let lines = LINES_MAX / 3;
        let check = |lines: u64, expected: usize| {
            let rows = (0..4).map(|index| SegmentRow { lines, ..row(index, 5, 0) });
            let chosen = match choose(rows.collect(), &BTreeSet::new(), &settings(None), 0, 0) {
                Found::Run(run) => run.len(),
                Found::Settled { .. } => 0,
            };
            assert_eq!(chosen, expected, "{lines}");
        };
        check(lines, 3);
        check(lines + 1, 0);
        check(lines / 2, 4);
    }

    #[test]
    fn rules_count_as_applied_if_they_were_to_all_segments() {
        let check = |rules: &[u64], expected: u64| {
            let row = |rules: &u64| SegmentRow { rules: *rules, ..row(0, 1, 0) };
            let rows: Vec<SegmentRow> = rules.iter().map(row).collect();
            assert_eq!(rules_of(&rows), expected, "{rules:?}");
        };
        check(&[], 0);
        check(&[7, 7, 7], 7);
        check(&[7, 9], 0);
        check(&[9, 7], 0);
        check(&[0, 7], 0);
    }

    #[test]
    fn segments_whose_arrivals_are_far_apart_are_not_merged() {
        let check = |span_s: Option<u64>, expected: usize| {
            let span_max = span_s.map(Duration::from_secs);
            let segments = (0..10).map(|index| row(index, 1, index as i64)).collect();
            let chosen = match choose(segments, &BTreeSet::new(), &settings(span_max), 0, 0) {
                Found::Run(run) => run.len(),
                Found::Settled { .. } => 0,
            };
            assert_eq!(chosen, expected, "{span_s:?}");
        };
        check(None, 10);
        check(Some(9), 10);
        check(Some(3), 4);
        check(Some(1), 0);
    }

    /// Merges segments without a look at them, but for those that cannot be read.
    struct Unreadable(&'static [u64]);

    impl Merger for Unreadable {
        fn merge(&self, segments: &[SegmentRow]) -> Result<Sealed, MergeFailed> {
            if let Some(row) = segments.iter().find(|row| self.0.contains(&row.offsets.start)) {
                let unreadable = Some(row.name.clone());
                return Err(MergeFailed { error: SealError(row.name.clone()), unreadable });
            }
            Ok(Sealed {
                body: Box::new(b"merged".to_vec()),
                times: TimeRange::ALL,
                received_last_ns: 0,
                lines: segments.iter().map(|row| row.lines).sum(),
                searched: 0,
                frames: Vec::new(),
            })
        }
    }

    #[test]
    fn a_segment_that_cannot_be_read_does_not_hold_up_others() {
        let clock = Arc::new(ManualClock::new(0));
        let catalog = SimCatalog::new(clock.clone());
        let objects = SimObjects::new(clock);
        let minute = Duration::from_secs(60);
        let lease = catalog.acquire(Resource::Partition(0), NodeId(1), minute).unwrap().unwrap();
        for number in 0..9 {
            let name = format!("segments/partition-0/1-00000001-{number}");
            let segment = Some(SegmentRow { name, ..row(number, 1, 0) });
            let offsets = number..number + 1;
            let publication = Publication { offsets, segment, producers: Vec::new(), lost: 0 };
            catalog.publish(&lease, &publication).unwrap();
        }
        let lease = catalog.acquire(Resource::Merge(0), NodeId(1), minute).unwrap().unwrap();
        let run = |unreadable: &'static [u64]| {
            let mut merge = Merge::new(lease, 0, settings(None), Settled::default(), 0);
            let ended = loop {
                match merge.step(&catalog, &objects, &Unreadable(unreadable)) {
                    Ok(true) => {}
                    ended => break ended,
                }
            };
            let rows = catalog.segments_of(0, 0, 99).unwrap();
            let offsets: Vec<(u64, u64)> =
                rows.iter().map(|row| (row.offsets.start, row.offsets.end)).collect();
            (ended, offsets)
        };
        // The segment is named when its neighbours are merged.
        let (ended, offsets) = run(&[4]);
        let name = "segments/partition-0/1-00000001-4".to_owned();
        assert_eq!(ended, Err(JobError::Seal(SealError(name))));
        assert_eq!(offsets, [(0, 4), (4, 5), (5, 9)]);
    }
}
