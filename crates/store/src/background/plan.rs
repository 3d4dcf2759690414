//! Decides what the background does next; [`rewrite`](crate::background::rewrite) does it.
//!
//! The order of work: seal the oldest closed segment (or the youngest, where retention would delete
//! the oldest meanwhile); search a sealed segment for lines to be deleted; merge; re-encode.
//! Sealing of the active segment comes before all of these, see
//! [`trailing`](crate::background::trailing).
//!
//! **Merging.** Segments are closed small, so that new lines are soon searched as fast as old ones
//! ([`StoreConfig::segment_age_ns`](crate::StoreConfig::segment_age_ns)): about a sixteenth of a
//! full one where lines come fast, one an hour on a quiet system. Neighbours (by arrival) that fit
//! into one full segment together are merged when there are at least [`MERGE_FILES_MIN`] of them,
//! when they span no more than an eighth of the shortest age of retention, and when together they
//! are at least [`MERGE_GROWTH_MIN`] times the largest of them, or half a full segment. So each
//! time a line is rewritten, its segment grows eightfold, or to its final size. Blocks of full size
//! are copied as they are, which costs no more than reading and writing them.
//!
//! **Write amplification**, bytes written for each byte of raw log, where `s` is the ratio of a
//! sealed line to its raw form: the frame once (1.00) with its index (72 bytes a MiB: 0.00),
//! sealing `s`, `m` merges `s` each, re-encoding when idle `s`/2. Where segments are closed at a
//! sixteenth of a full one there is one merge, since 16 × 1/16 is a full segment; from a 256th on
//! there are two, and on quiet systems three. With s = 1/15, as measured on syslog, that is
//! 1 + (1 + 1 + 1/2)/15 = 1.17, 1.23 and 1.30; with s = 1/10, 1.25, 1.35 and 1.45.
//!
//! **Files.** Whatever the sizes of sealed segments and the age of the store, there are fewer than
//! 60 files plus four for each full segment's worth of lines: a test merges thousands of segments
//! of each size.

use std::collections::HashMap;
use std::sync::Arc;

use segment::sealed::Effort;

use crate::catalog::RowState;
use crate::config::{Cutoff, RETENTION_PARTS, Retention, RetentionRule};
use crate::position::Position;
use crate::segments::AnySegment;
use crate::segments::hot::HotSegment;
use crate::segments::sealed::SealedSegment;
use crate::store_core::StoreCore;
use crate::sync::read;

/// Fewer neighbours are not merged.
const MERGE_FILES_MIN: usize = 4;
/// Largest number of files in one merge; the others are merged with the result later.
const MERGE_FILES_MAX: usize = 256;
/// A merge makes its largest segment grow at least by this factor.
const MERGE_GROWTH_MIN: u64 = 8;
/// Bytes that may arrive while a segment is sealed, as a multiple of its own.
const INGEST_WHILE_SEALING: u64 = 4;
/// A segment smaller than 1/`REENCODE_PARTS` of a full one is re-encoded only when it is old: it
/// will be merged before.
const REENCODE_PARTS: u64 = 16;
/// Age at which a small segment is re-encoded all the same, nanoseconds after its last line.
const SMALL_REENCODE_AGE_NS: i64 = 7 * 24 * 3_600_000_000_000;

/// The active segment is sealed while it is written, once it holds 1/`TRAILED_PARTS` of a full one.
const TRAILED_PARTS: u64 = 64;

/// A piece of work.
pub(crate) enum SealPlan {
    /// Seal a hot segment.
    Seal(Arc<HotSegment>),
    /// Search a sealed segment for lines that deletions and rules name.
    Search(Arc<SealedSegment>),
    /// Write one segment of several neighbours.
    Merge(Vec<Arc<SealedSegment>>, Effort),
    /// Re-encode a segment with the best effort.
    Reencode(Arc<SealedSegment>),
}

/// The input of a decision besides the segments.
pub(crate) struct PlanInput<'a> {
    /// The time by which retention measures ages.
    pub(crate) now_ns: i64,
    /// Segments that are left alone after a failure.
    pub(crate) resting: &'a HashMap<u64, u64>,
    /// Segments that are being sealed by trailing the writer.
    pub(crate) trailed: &'a [u64],
    pub(crate) idle: bool,
}

/// The next piece of work, if any is due.
pub(crate) fn next(core: &StoreCore, now: &PlanInput<'_>) -> Option<SealPlan> {
    if let Some(hot) = to_be_sealed(core, now) {
        return Some(SealPlan::Seal(hot));
    }
    let mut sealed = core.segments.list().sealed;
    sealed.retain(|s| !now.resting.contains_key(&s.id));
    if let Some(segment) = sealed.iter().find(|s| is_to_be_searched(core, s, now.now_ns)) {
        return Some(SealPlan::Search(segment.clone()));
    }
    sealed.retain(|s| !s.damage.is_any() && s.node == core.node);
    sealed.sort_by_key(|s| (s.sequence, s.id));
    let full = core.segment_bytes();
    let parts: Vec<Part> = sealed
        .iter()
        .map(|s| Part { bytes: s.bytes_raw, received_ns: s.received_ns.unwrap_or((0, 0)) })
        .collect();
    if let Some(run) = merge_run(&parts, full, merged_span_ns(&core.retention())) {
        let sources = sealed[run].to_vec();
        let best = sources.iter().all(|s| s.effort == Effort::Best);
        let effort = if best { Effort::Best } else { Effort::Fast };
        return Some(SealPlan::Merge(sources, effort));
    }
    let is_fast = |s: &&Arc<SealedSegment>| {
        let age_ns = s.received_ns.map_or(0, |(_, newest)| now.now_ns.saturating_sub(newest));
        let least_ns = match s.bytes_raw >= full / REENCODE_PARTS {
            true => core.config.reencode_age_ns,
            false => core.config.reencode_age_ns.max(SMALL_REENCODE_AGE_NS),
        };
        s.effort == Effort::Fast && age_ns >= least_ns
    };
    if core.config.reencode && now.idle {
        return sealed.iter().find(is_fast).cloned().map(SealPlan::Reencode);
    }
    None
}

/// The hot segment to be sealed next: the oldest sealable one; or the youngest, if the limit on
/// bytes would delete the oldest meanwhile.
///
/// Where lines arrive faster than they can be sealed, the oldest segment is about to be deleted, so
/// sealing it would be wasted work every time. The youngest segment stays long once it is sealed
/// and small. The more such segments there are, the longer all of them stay.
fn to_be_sealed(core: &StoreCore, now: &PlanInput<'_>) -> Option<Arc<HotSegment>> {
    let mut candidates = sealable(core, now.resting);
    candidates.retain(|hot| !now.trailed.contains(&hot.id));
    let youngest = candidates.pop()?;
    let oldest = candidates.into_iter().next().unwrap_or_else(|| youngest.clone());
    let Some(bytes_max) = core.retention().bytes_max else { return Some(oldest) };
    let room = bytes_max.saturating_sub(core.segments.kept_bytes());
    // In the order in which retention deletes.
    let before = core.segments.list().by_age().into_iter().take_while(|s| s.id() != oldest.id);
    let before_bytes: u64 = before.map(|segment| segment.file_bytes()).sum();
    let own_bytes = read(&oldest.index).file_bytes;
    let lasts = room + before_bytes >= own_bytes.saturating_mul(INGEST_WHILE_SEALING);
    Some(if lasts { oldest } else { youngest })
}

/// The active segment, if it is large enough to be sealed soon, parsing has begun, and all of it is
/// in memory.
///
/// None while an earlier segment is left from a failed write, see [`sealable`].
pub(crate) fn to_be_trailed(
    core: &StoreCore,
    resting: &HashMap<u64, u64>,
) -> Option<Arc<HotSegment>> {
    let hot = core.segments.hot();
    let active = hot.last().filter(|active| !active.is_rolled())?;
    let is_kept = |hot: &Arc<HotSegment>| read(&hot.index).state == RowState::Kept;
    let is_large = {
        let index = read(&active.index);
        let is_parsed = index.frames.first().is_some_and(|first| first.time_range_ns().is_some());
        is_parsed && index.data_end >= core.segment_bytes() / TRAILED_PARTS
    };
    let start = Position { segment: active.id, frame: 0 };
    let wanted = is_large
        && !resting.contains_key(&active.id)
        && !hot.iter().any(is_kept)
        && core.segments.cache.holds_from(start);
    wanted.then(|| active.clone())
}

/// The hot segments that can be sealed, by their numbers.
pub(crate) fn sealable_ids(core: &StoreCore) -> Vec<u64> {
    sealable(core, &HashMap::new()).iter().map(|hot| hot.id).collect()
}

/// Whether any hot segment can be sealed.
pub(crate) fn is_any_sealable(core: &StoreCore, resting: &HashMap<u64, u64>) -> bool {
    !sealable(core, resting).is_empty()
}

/// The hot segments that are closed, parsed and not left alone, the oldest first. Sealing also
/// meets frames that the parse stage could not read; it reports the damage and leaves the segment
/// as it is.
///
/// A segment that was left after a failed write may hold, behind its last valid frame, frames that
/// a later segment holds, too. Only the catalog, and the later hot file, tell them apart. So no
/// later segment is sealed before this one.
pub(crate) fn sealable(core: &StoreCore, resting: &HashMap<u64, u64>) -> Vec<Arc<HotSegment>> {
    let settled = core.progress.settled();
    let is_kept = |hot: &Arc<HotSegment>| read(&hot.index).state == RowState::Kept;
    let mut candidates = Vec::new();
    for hot in core.segments.hot() {
        let stays = read(&hot.index).frames.is_empty() || resting.contains_key(&hot.id);
        if !stays && is_settled(&hot, settled) {
            candidates.push(hot.clone());
        }
        if is_kept(&hot) {
            break;
        }
    }
    candidates
}

/// Whether a hot segment is closed, has lines, and all of them are parsed.
fn is_settled(hot: &HotSegment, settled: Position) -> bool {
    let index = read(&hot.index);
    let closed = matches!(index.state, RowState::Rolled | RowState::Kept);
    let last = index.frames.len().saturating_sub(1) as u32;
    closed && !index.frames.is_empty() && (hot.id, last) <= (settled.segment, settled.frame)
}

/// The backlog: bytes of the hot segments that could be sealed. Unparsed lines do not count, since
/// haste in sealing does not speed parsing up.
pub(crate) fn backlog_bytes(core: &StoreCore) -> u64 {
    let settled = core.progress.settled();
    let waits = |hot: &Arc<HotSegment>| match is_settled(hot, settled) {
        true => read(&hot.index).file_bytes,
        false => 0,
    };
    core.segments.hot().iter().map(waits).sum()
}

/// Whether any sealed segment that is not left alone is to be searched for lines to be deleted.
pub(crate) fn is_any_to_be_searched(
    core: &StoreCore,
    resting: &HashMap<u64, u64>,
    now_ns: i64,
) -> bool {
    let sealed = core.segments.list().sealed;
    let mut awake = sealed.iter().filter(|segment| !resting.contains_key(&segment.id));
    awake.any(|segment| is_to_be_searched(core, segment, now_ns))
}

fn is_to_be_searched(core: &StoreCore, segment: &Arc<SealedSegment>, now_ns: i64) -> bool {
    let rules = due_rules(&core.retention().rules, segment.received_ns, now_ns);
    let stamp = rules_stamp(&rules, &due_cutoffs(&core.cutoffs(), segment.received_ns));
    let any = AnySegment::Sealed(segment.clone());
    (stamp != 0 && stamp != segment.rules.load(std::sync::atomic::Ordering::Acquire))
        || core.deletions.running().iter().any(|deletion| deletion.concerns(&any))
}

/// The rules that are due for all lines of a segment: those whose age its newest line has passed.
pub(crate) fn due_rules(
    rules: &[RetentionRule],
    received_ns: Option<(i64, i64)>,
    now_ns: i64,
) -> Vec<RetentionRule> {
    let Some((_, newest_ns)) = received_ns else { return Vec::new() };
    let due = |rule: &&RetentionRule| newest_ns < now_ns.saturating_sub(rule.age_ns);
    rules.iter().filter(due).cloned().collect()
}

/// The cutoffs that are due for all lines of a segment.
pub(crate) fn due_cutoffs(cutoffs: &[Cutoff], received_ns: Option<(i64, i64)>) -> Vec<Cutoff> {
    let Some((_, newest_ns)) = received_ns else { return Vec::new() };
    cutoffs.iter().filter(|cutoff| newest_ns < cutoff.received_before_ns).cloned().collect()
}

/// A hash that identifies a set of rules and cutoffs; 0 for none. The time of a cutoff is not in
/// it, so that a segment from before it is searched once, and not again when the cutoff moves.
pub(crate) fn rules_stamp(rules: &[RetentionRule], cutoffs: &[Cutoff]) -> u64 {
    // FNV-1a, because the hash is stored and must not depend on platform or version.
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    let mut add = |byte: u8| hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    for rule in rules {
        rule.filter.bytes().for_each(&mut add);
        rule.age_ns.to_le_bytes().into_iter().for_each(&mut add);
    }
    for cutoff in cutoffs {
        cutoff.filter.bytes().for_each(&mut add);
        // No rule has this age.
        0_i64.to_le_bytes().into_iter().for_each(&mut add);
    }
    if rules.is_empty() && cutoffs.is_empty() { 0 } else { hash.max(1) }
}

/// The properties of a segment that decide about merging.
#[derive(Clone, Copy)]
struct Part {
    bytes: u64,
    /// Earliest and latest arrival.
    received_ns: (i64, i64),
}

/// The longest span of arrival times that a merge may make, nanoseconds. Segments are deleted when
/// their newest line is too old: without this limit a quiet system would keep its lines up to twice
/// as long as configured.
fn merged_span_ns(retention: &Retention) -> i64 {
    let ages = retention.rules.iter().map(|rule| rule.age_ns).chain(retention.age_ns);
    ages.min().map_or(i64::MAX, |age_ns| age_ns / RETENTION_PARTS as i64)
}

/// The neighbours to be merged, if any: of all possible runs the one with most files.
fn merge_run(parts: &[Part], full: u64, span_ns_max: i64) -> Option<std::ops::Range<usize>> {
    let mut best: Option<std::ops::Range<usize>> = None;
    for start in 0..parts.len() {
        let (mut sum, mut largest) = (0, 0);
        let (mut earliest_ns, mut latest_ns) = parts[start].received_ns;
        for (end, part) in parts.iter().enumerate().skip(start).take(MERGE_FILES_MAX) {
            (sum, largest) = (sum + part.bytes, part.bytes.max(largest));
            earliest_ns = earliest_ns.min(part.received_ns.0);
            latest_ns = latest_ns.max(part.received_ns.1);
            if sum > full || latest_ns.saturating_sub(earliest_ns) > span_ns_max {
                break;
            }
            let files = end + 1 - start;
            let grows = sum >= largest.saturating_mul(MERGE_GROWTH_MIN)
                || (sum >= full / 2 && largest <= full / 4);
            if files >= MERGE_FILES_MIN && grows && files > best.as_ref().map_or(0, |run| run.len())
            {
                best = Some(start..end + 1);
            }
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Segments of these sizes, each of ten nanoseconds of arrival, one after the other.
    fn parts(sizes: &[u64]) -> Vec<Part> {
        let part = |(place, &bytes): (i64, &u64)| Part {
            bytes,
            received_ns: (place * 10, place * 10 + 9),
        };
        (0..).zip(sizes).map(part).collect()
    }

    #[test]
    fn merging_makes_no_segment_that_retention_would_keep_too_long() {
        let check = |span_ns_max, expected: Option<std::ops::Range<usize>>| {
            assert_eq!(merge_run(&parts(&[1; 20]), 1024, span_ns_max), expected, "{span_ns_max}");
        };
        check(78, None);
        check(79, Some(0..8));
        check(i64::MAX, Some(0..20));
        let mut config = crate::StoreConfig::new("d").retention();
        assert_eq!(merged_span_ns(&config), i64::MAX);
        config.age_ns = Some(800);
        assert_eq!(merged_span_ns(&config), 100);
        config.rules = vec![RetentionRule { filter: "a".to_owned(), age_ns: 80 }];
        assert_eq!(merged_span_ns(&config), 10);
    }

    #[test]
    fn neighbours_are_merged_when_it_makes_them_grow() {
        let check = |sizes: &[u64], expected: Option<std::ops::Range<usize>>| {
            assert_eq!(merge_run(&parts(sizes), 1024, i64::MAX), expected, "{sizes:?}");
        };
        check(&[], None);
        check(&[1; 7], None);
        check(&[1; 8], Some(0..8));
        check(&[64; 16], Some(0..8).filter(|_| false).or(Some(0..16)));
        check(&[300, 300, 300], None);
        check(&[200, 200, 200], None);
        check(&[150, 150, 150, 150], Some(0..4));
        check(&[300, 100, 100, 100], None);
        check(&[900, 1, 1, 1, 1, 1, 1, 1, 1, 900], Some(1..9));
        check(&[1024; 20], None);
        check(&[0; 4], Some(0..4));
    }

    /// Whatever sizes segments have when they are sealed, merging ends, few are left, and a line is
    /// rarely rewritten.
    #[test]
    fn merging_ends_with_few_files_and_little_writing() {
        let full = 1 << 30;
        let mut rng = fastrand::Rng::with_seed(1);
        for (least, most) in
            [(1 << 10, 1 << 12), (1 << 20, 1 << 26), (1 << 26, 1 << 27), (1, 1 << 30)]
        {
            let mut sizes: Vec<u64> = Vec::new();
            let (mut sealed, mut rewritten) = (0, 0);
            for _ in 0..3_000 {
                let size = rng.u64(least..=most);
                sizes.push(size);
                sealed += size;
                while let Some(run) = merge_run(&parts(&sizes), full, i64::MAX) {
                    let sum: u64 = sizes[run.clone()].iter().sum();
                    rewritten += sum;
                    sizes.splice(run, [sum]);
                }
            }
            let files = sizes.len() as u64;
            let times = rewritten as f64 / sealed as f64;
            assert!(files < 60 + 4 * sealed / full, "{files} files of {least}..{most}");
            assert!(times < 3.0, "rewritten {times} times for {least}..{most}");
        }
    }

    #[test]
    fn a_stamp_tells_sets_of_rules_apart() {
        let rule = |filter: &str, age_ns| RetentionRule { filter: filter.to_owned(), age_ns };
        assert_eq!(rules_stamp(&[], &[]), 0);
        let sets = [
            vec![rule("a", 1)],
            vec![rule("a", 2)],
            vec![rule("b", 1)],
            vec![rule("a", 1), rule("b", 1)],
        ];
        let stamps: std::collections::HashSet<u64> =
            sets.iter().map(|s| rules_stamp(s, &[])).collect();
        assert_eq!(stamps.len(), sets.len());
        let cutoff = |received_before_ns| Cutoff { filter: "a".to_owned(), received_before_ns };
        let stamp = rules_stamp(&[], &[cutoff(5)]);
        assert!(stamp != 0 && !stamps.contains(&stamp));
        assert_eq!(rules_stamp(&[], &[cutoff(6)]), stamp);
        assert_eq!(due_cutoffs(&[cutoff(5)], Some((0, 5))), []);
        assert_eq!(due_cutoffs(&[cutoff(6)], Some((0, 5))), [cutoff(6)]);
        let rules = [rule("a", 10), rule("b", 20)];
        assert_eq!(due_rules(&rules, Some((0, 100)), 110), []);
        assert_eq!(due_rules(&rules, Some((0, 100)), 111), [rule("a", 10)]);
        assert_eq!(due_rules(&rules, None, i64::MAX), []);
    }
}
