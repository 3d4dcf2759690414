//! The jobs of a store: what retention drops, objects that nobody needs, and the search and the
//! merge of the segments of its partitions.
//!
//! Order: one thread drops, since it calls engines alone and takes seconds. [`WORKERS`] others work
//! on segments, each on one partition at a time: the one whose last turn ended the longest ago.
//! After [`TURN`] a partition makes room for the next one, as soon as nothing is begun that would
//! have to be done again. So a partition waits for as many turns as there are partitions before it,
//! divided by the workers, and never for the end of a search of millions of segments.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use cluster::{
    ClockNotice, JobError, Lease, Merge, MergeLevel, MergeSettings, Objects, Prune, Resource,
    Retention, RetentionSettings, Settled, Sweep, SweepSettings,
};
use text::time::format_time;

use super::super::Engines;
use super::super::partition::OwnedPartition;
use super::super::sealing::{CompiledRules, SegmentMerger, SegmentPruner};
use super::{MEMBER_TICK, Shared, lock};

/// Partitions of a store whose segments are searched or merged at a time. Each takes the processor
/// of one sealing, and a file on the local disk: of up to 1 GiB for a merge, and as large as the
/// segment for a search that finds something.
///
/// limits.md, Nodes of a cluster: partitions of a store whose segments are searched or merged at a
/// time | {} | others wait for their turns
pub(super) const WORKERS: usize = 2;
/// How long a worker stays with a partition while others wait.
///
/// limits.md, Nodes of a cluster: time that a partition's segments are searched and merged at a
/// stretch | {} | the next partition has its turn
const TURN: Duration = Duration::from_secs(60);
/// How often jobs are looked for.
const JOBS_TICK: Duration = Duration::from_secs(10);
/// Neighbouring segments that are merged at least.
const MERGED_MIN: usize = 8;
/// The sizes that segments grow to: new ones soon, so that a query over the last hour opens few;
/// large ones only of old lines, since a query over a minute opens whole footers, and since a
/// segment is the part of a query that one node reads. Decision 0122 has the calculation.
const LEVELS: [MergeLevel; 3] = [
    MergeLevel {
        bytes_max: 128 << 20,
        bytes_each_max: 16 << 20,
        age_min: Duration::ZERO,
        span_max: None,
        is_patient: false,
    },
    MergeLevel {
        bytes_max: 1 << 30,
        bytes_each_max: 128 << 20,
        age_min: Duration::from_secs(300),
        span_max: Some(Duration::from_secs(6 * 3600)),
        is_patient: true,
    },
    MergeLevel {
        bytes_max: LARGEST_BYTES_MAX,
        bytes_each_max: 1 << 30,
        age_min: Duration::from_secs(6 * 3600),
        span_max: Some(Duration::from_secs(6 * 3600)),
        is_patient: true,
    },
];
/// The largest object of a merge.
///
/// limits.md, Nodes of a cluster: bytes of segments that are merged, together | {} | they stay as
/// they are
const LARGEST_BYTES_MAX: u64 = 8 << 30;
/// How often all segments of a partition are looked at again, not only those behind the settled
/// ones.
const MERGED_ANEW: Duration = Duration::from_secs(6 * 3600);
/// With rules of retention, how often the segments of a partition are searched that nothing is
/// published in: rules become due as lines grow older.
const RULES_TICK: Duration = Duration::from_secs(600);
/// How often the whole bucket is listed, a slice with each sweep.
///
/// limits.md, Nodes of a cluster: objects without a segment stay in the bucket until it is listed
/// again, every | {} | they take room, and are in no answer
const LIST_EVERY: Duration = Duration::from_secs(6 * 3600);

/// A partition as the workers see it.
#[derive(Default)]
pub(super) struct Turn {
    /// Whether a worker has it.
    is_busy: bool,
    /// When its last turn ended; none before the first.
    ended: Option<Instant>,
    /// Whether that ended because others waited.
    is_cut: bool,
    /// What is known of its segments.
    merged: Option<Merged>,
    /// Whether the rules changed during the turn: then what it learns is not kept.
    is_stale: bool,
}

/// What is known of the segments of a partition.
#[derive(Clone, Copy)]
struct Merged {
    /// Where the next merge begins to look.
    settled: Settled,
    /// Up to where the partition was published when this one began.
    published: u64,
    /// When all segments were looked at.
    all_at: Instant,
    /// When the last deletion was requested that segments were searched for.
    deleted_ns: Option<i64>,
    /// When they were searched.
    searched_at: Instant,
}

impl Merged {
    /// Whether there is nothing new for a partition: no segment, no deletion, and no rule that may
    /// have become due.
    fn is_all(&self, published: u64, deleted_ns: Option<i64>, has_rules: bool) -> bool {
        let are_rules_new = has_rules && self.searched_at.elapsed() >= RULES_TICK;
        self.published == published && self.deleted_ns == deleted_ns && !are_rules_new
    }
}

/// The partition whose turn it is, of those that a store owns; none while all are busy, or were
/// looked at a moment ago.
fn next_turn(owned: &[u32], turns: &BTreeMap<u32, Turn>, now: Instant) -> Option<u32> {
    let is_due = |number: &&u32| {
        turns.get(number).is_none_or(|turn| {
            let rests = |ended| now.saturating_duration_since(ended) < JOBS_TICK;
            !turn.is_busy && (turn.is_cut || !turn.ended.is_some_and(rests))
        })
    };
    let ended = |number: &&u32| turns.get(number).and_then(|turn| turn.ended);
    owned.iter().filter(is_due).min_by_key(ended).copied()
}

/// Has all segments looked at again: other rules concern all of them.
pub(super) fn forget_looked(turns: &mut BTreeMap<u32, Turn>) {
    for turn in turns.values_mut() {
        turn.merged = None;
        turn.is_stale = turn.is_busy;
    }
}

/// Tells that the clock of the catalog jumped ahead, and what becomes of it.
fn tell(notice: ClockNotice) {
    match notice {
        ClockNotice::Held { shown_ns, believed_ns, until_ns } => tracing::warn!(
            "the clock of PostgreSQL shows {}, more than a day later than expected: it was set ahead, or no store ran \
             meanwhile. Until it shows {} retention measures ages from {} on, so that a wrong clock drops nothing. If \
             the clock is wrong, set it before then",
            format_time(shown_ns),
            format_time(until_ns),
            format_time(believed_ns)
        ),
        ClockNotice::Believed { shown_ns } => tracing::info!(
            "the clock of PostgreSQL shows {}: it is believed, and retention by age goes by it",
            format_time(shown_ns)
        ),
    }
}

/// What a step of a job did.
enum Step {
    /// Something that another step finishes.
    Begun,
    /// Something whole; there is more to do.
    More,
    /// There is nothing more.
    End,
}

/// How a job ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    /// Another node does it, or the lease or the node ended.
    Elsewhere,
    /// It has more to do, and makes room for others.
    Cut,
    /// It has nothing more to do.
    Whole,
}

impl Shared {
    /// The loop of the thread that drops segments and objects.
    pub(super) fn drop_old(self: &Arc<Self>) {
        loop {
            self.pause(JOBS_TICK);
            if self.is_over() {
                return;
            }
            for (resource, dropped) in
                [(Resource::Retention, self.drop_segments()), (Resource::Sweep, self.sweep())]
            {
                if let Err(error) = dropped {
                    tracing::warn!("{resource}: {error}");
                }
            }
        }
    }

    fn drop_segments(&self) -> Result<Ended, JobError> {
        let settings = lock(&self.retention).clone();
        self.do_job(Resource::Retention, |lease| {
            let mut retention = Retention::new(lease, settings);
            let catalog = &self.engines.catalog;
            Box::new(move || {
                let dropped = retention.step(catalog);
                if let Some(notice) = retention.take_notice() {
                    tell(notice);
                }
                let dropped = dropped?;
                Ok(if dropped > 0 { Step::More } else { Step::End })
            })
        })
    }

    fn sweep(&self) -> Result<Ended, JobError> {
        let settings = SweepSettings { grace: self.settings.grace, list_every: LIST_EVERY };
        let now_ms = self.engines.clock.now_ns().max(0) as u64 / 1_000_000;
        self.do_job(Resource::Sweep, |lease| {
            let mut sweep = Sweep::new(lease, settings, now_ms);
            let Engines { catalog, bucket, .. } = &*self.engines;
            Box::new(move || {
                let has_more = sweep.step(catalog, &**bucket)?;
                Ok(if has_more { Step::Begun } else { Step::End })
            })
        })
    }

    /// The loop of a thread that searches and merges segments.
    pub(super) fn work(self: &Arc<Self>) {
        self.pause(JOBS_TICK);
        while !self.is_over() {
            let Some((owned, merged)) = self.take_turn() else {
                self.pause(MEMBER_TICK);
                continue;
            };
            let look = || self.look_after(&owned, merged);
            let looked = catch_unwind(AssertUnwindSafe(look));
            let (ended, merged) = looked.unwrap_or_else(|_| {
                let number = owned.number;
                tracing::error!("a bug while segments of partition {number} were worked on");
                (Ended::Elsewhere, None)
            });
            let mut turns = lock(&self.turns);
            let turn = turns.entry(owned.number).or_default();
            let merged = merged.filter(|_| !turn.is_stale);
            let is_cut = ended == Ended::Cut;
            let ended = Some(Instant::now());
            *turn = Turn { is_busy: false, ended, is_cut, merged, is_stale: false };
        }
    }

    /// The partition whose turn it is, with what is known of it.
    fn take_turn(&self) -> Option<(Arc<OwnedPartition>, Option<Merged>)> {
        let owned = self.engines.all_owned();
        let numbers: Vec<u32> = owned.iter().map(|owned| owned.number).collect();
        let mut turns = lock(&self.turns);
        // What other stores do meanwhile is not known here.
        turns.retain(|number, turn| turn.is_busy || numbers.contains(number));
        let number = next_turn(&numbers, &turns, Instant::now())?;
        let turn = turns.entry(number).or_default();
        turn.is_busy = true;
        let merged = turn.merged;
        owned.into_iter().find(|owned| owned.number == number).map(|owned| (owned, merged))
    }

    /// Searches and merges segments of a partition, if there is something new for them since this
    /// was done last. Returns what is known then.
    fn look_after(&self, owned: &OwnedPartition, known: Option<Merged>) -> (Ended, Option<Merged>) {
        let published = owned.hot.committed();
        let deleted_ns = self.engines.deleted_ns();
        let retention = lock(&self.retention).clone();
        let known = known.filter(|known| known.all_at.elapsed() < MERGED_ANEW);
        let has_rules = !retention.rules.is_empty();
        if known.is_some_and(|known| known.is_all(published, deleted_ns, has_rules)) {
            return (Ended::Whole, known);
        }
        let searched_at = Instant::now();
        let settled = Cell::new(known.map_or(Settled::default(), |known| known.settled));
        let all_at = known.map_or_else(Instant::now, |known| known.all_at);
        let resource = Resource::Merge(owned.number);
        match self.search_and_merge(owned.number, &retention, &settled) {
            Ok(Ended::Whole) => {
                let settled = settled.get();
                let merged = Merged { settled, published, all_at, deleted_ns, searched_at };
                (Ended::Whole, Some(merged))
            }
            // The next turn begins to merge where this one settled, and searches what it left.
            Ok(Ended::Cut) => {
                let known = known.unwrap_or(Merged {
                    settled: Settled::default(),
                    published: u64::MAX,
                    all_at,
                    deleted_ns: None,
                    searched_at,
                });
                // No publication ends there, so there is something new in the next turn.
                let merged = Merged { settled: settled.get(), published: u64::MAX, ..known };
                (Ended::Cut, Some(merged))
            }
            Ok(Ended::Elsewhere) => (Ended::Elsewhere, known),
            Err(error) => {
                tracing::warn!("{resource}: {error}");
                (Ended::Elsewhere, known)
            }
        }
    }

    /// Searches the segments of a partition, and then merges those from `settled` on, for one turn.
    fn search_and_merge(
        &self,
        partition: u32,
        retention: &RetentionSettings,
        settled: &Cell<Settled>,
    ) -> Result<Ended, JobError> {
        let Engines { catalog, bucket, compiled, .. } = &*self.engines;
        let merging = MergeSettings {
            segments_min: MERGED_MIN,
            span_max: retention.merged_span(),
            levels: LEVELS,
        };
        let now_ns = self.engines.clock.now_ns();
        let sources: Arc<dyn Objects> = Arc::clone(bucket) as _;
        let merger = SegmentMerger { sealing: &self.sealing, bucket: &sources };
        let rules = CompiledRules::default();
        let pruner =
            SegmentPruner { sealing: &self.sealing, bucket: &sources, deletions: compiled, rules };
        self.do_job(Resource::Merge(partition), |lease| {
            let mut merge = Merge::new(lease, partition, merging, settled.get(), now_ns);
            let mut prune = Some(Prune::new(lease, partition, &retention.rules));
            let mut unsearched: Option<JobError> = None;
            Box::new(move || {
                if let Some(pruning) = &mut prune {
                    match pruning.step(catalog, &**bucket, &pruner) {
                        Ok(true) if !pruning.is_between() => return Ok(Step::Begun),
                        Ok(true) => {}
                        Ok(false) => prune = None,
                        Err(error) if error.is_over() => return Err(error),
                        // A segment that cannot be searched is no reason to merge no others. The
                        // error is told in the end, so that all is done again.
                        Err(error) => (prune, unsearched) = (None, Some(error)),
                    }
                    return Ok(Step::More);
                }
                let has_more = merge.step(catalog, &**bucket, &merger)?;
                settled.set(merge.settled());
                match unsearched.take_if(|_| !has_more) {
                    Some(error) => Err(error),
                    None if !has_more => Ok(Step::End),
                    None if merge.is_between() => Ok(Step::More),
                    None => Ok(Step::Begun),
                }
            })
        })
    }

    /// Does a job step by step, unless another node does it: to its end, or for one turn. A merge
    /// and a search of one partition never run at the same time on this node, since a node that
    /// takes its own lease again ends the one that it has.
    #[expect(clippy::needless_lifetimes, reason = "the box of the steps needs its name")]
    fn do_job<'j>(
        &'j self,
        resource: Resource,
        begin: impl FnOnce(Lease) -> Box<dyn FnMut() -> Result<Step, JobError> + 'j>,
    ) -> Result<Ended, JobError> {
        let call = lock(&self.member).acquisition(resource);
        let Some(lease) = self.call(call, self.now_ns())? else { return Ok(Ended::Elsewhere) };
        let mut step = begin(lease);
        let begun = Instant::now();
        let holds = || lock(&self.member).until_ns(&lease).is_some_and(|at| at > self.now_ns());
        let mut result = Ok(Ended::Elsewhere);
        while !self.is_over() && holds() {
            match step() {
                Ok(Step::Begun) => {}
                Ok(Step::More) if begun.elapsed() < TURN => {}
                Ok(Step::More) => {
                    result = Ok(Ended::Cut);
                    break;
                }
                Ok(Step::End) => {
                    result = Ok(Ended::Whole);
                    break;
                }
                Err(error) => {
                    result = Err(error);
                    break;
                }
            }
        }
        let mut member = lock(&self.member);
        match &result {
            Err(error) if error.is_over() => member.is_over(&lease),
            _ => member.give_up(resource),
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_are_searched_for_a_deletion_although_nothing_is_published() {
        let now = Instant::now();
        let merged = Merged {
            settled: [3; 3],
            published: 7,
            all_at: now,
            deleted_ns: Some(5),
            searched_at: now,
        };
        assert!(merged.is_all(7, Some(5), false) && merged.is_all(7, Some(5), true));
        assert!(!merged.is_all(8, Some(5), false));
        assert!(!merged.is_all(7, Some(6), false));
        let first = Merged { deleted_ns: None, ..merged };
        assert!(first.is_all(7, None, false) && !first.is_all(7, Some(5), false));
        let Some(searched_at) = now.checked_sub(RULES_TICK) else { return };
        let older = Merged { searched_at, ..merged };
        assert!(older.is_all(7, Some(5), false) && !older.is_all(7, Some(5), true));
    }

    /// Times of turns are given, so this does not depend on the machine.
    #[test]
    fn a_partition_with_much_to_do_lets_all_others_have_their_turns() {
        let begun = Instant::now();
        let owned = [3, 5, 8];
        let mut turns: BTreeMap<u32, Turn> = BTreeMap::new();
        let mut order = Vec::new();
        // Partition 5 is cut in each turn; the others have nothing to do.
        for turn in 1..=7 {
            let now = begun + TURN * turn;
            let number = next_turn(&owned, &turns, now).expect("one is due");
            let ended = Some(now);
            turns.insert(number, Turn { ended, is_cut: number == 5, ..Turn::default() });
            order.push(number);
        }
        assert_eq!(order, [3, 5, 8, 3, 5, 8, 3]);
        // The rest of a moment is for those that had nothing to do alone.
        let now = begun + TURN * 7 + Duration::from_secs(1);
        for number in [3, 8] {
            turns.insert(number, Turn { ended: Some(now), ..Turn::default() });
        }
        assert_eq!(next_turn(&owned, &turns, now), Some(5));
        turns.get_mut(&5).expect("it is there").is_busy = true;
        assert_eq!(next_turn(&owned, &turns, now), None);
        assert_eq!(next_turn(&owned, &turns, now + JOBS_TICK), Some(3));
    }

    #[test]
    fn what_a_turn_learned_by_other_rules_is_forgotten() {
        let now = Instant::now();
        let merged = Merged {
            settled: [3; 3],
            published: 7,
            all_at: now,
            deleted_ns: None,
            searched_at: now,
        };
        let mut turns = BTreeMap::from([
            (1, Turn { is_busy: true, merged: Some(merged), ..Turn::default() }),
            (2, Turn { merged: Some(merged), ..Turn::default() }),
        ]);
        forget_looked(&mut turns);
        assert!(turns.values().all(|turn| turn.merged.is_none()));
        assert_eq!((turns[&1].is_stale, turns[&2].is_stale), (true, false));
    }
}
