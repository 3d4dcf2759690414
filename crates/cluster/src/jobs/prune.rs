//! Pruning: segments lose the lines that deletions cover, and those that rules of retention select.
//!
//! The row of a segment says for which deletions it was searched and which rules were applied, so a
//! segment is read when there is something new for it, and not again. Rows of the others are not
//! read: the catalog finds those that are due.

use crate::catalog::{Catalog, DueRules, SegmentRow, Unsearched};
use crate::deletions::{Deletions, Tombstone};
use crate::error::{Failure, ObjectError};
use crate::ids::{Lease, ObjectName};
use crate::jobs::{JobError, RetentionRule, retention_clock};
use crate::objects::Objects;
use crate::publisher::{SealError, Sealed};

/// What a segment is searched for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Orders {
    /// Deletions that it was not searched for.
    pub tombstones: Vec<Tombstone>,
    /// Rules whose age its newest line has passed.
    pub rules: Vec<RetentionRule>,
    /// The time that retention believes, nanoseconds since 1970 UTC: what relative times in rules
    /// refer to.
    pub now_ns: i64,
}

/// What was found in a segment.
pub enum Pruned {
    /// Nothing, or too little to be worth a new segment: the segment stays.
    Kept,
    /// Lines that go.
    Rewritten {
        /// A segment of the others; `None` if there are none.
        sealed: Option<Sealed>,
        /// The lines that went by each deletion, by id.
        deleted: Vec<(u64, u64)>,
    },
}

/// Searches segments, whose objects it reads.
pub trait Pruner: Send + Sync {
    /// Whether the filters may select lines of these times. Decided without reading the segment.
    ///
    /// Errors: a filter is not understood.
    fn concerns(&self, segment: &SegmentRow, orders: &Orders) -> Result<bool, SealError>;

    /// Searches a segment.
    fn prune(&self, segment: &SegmentRow, orders: &Orders) -> Result<Pruned, SealError>;
}

/// The counter of the first object. Merges under the same lease have smaller ones.
const COUNTER_FIRST: u64 = 1 << 32;
/// Segments that are looked at with one call.
const PAGE: usize = 256;
/// Segments that cannot be searched before the job gives up: then the storage, or the local disk,
/// is what fails.
const FAILED_MAX: usize = 8;

enum State {
    /// Asks which deletions there are.
    Beginning,
    /// Looks for segments from this offset on.
    Looking(u64),
    /// Searches some segments; then looks on from the offset.
    Searching {
        due: Vec<(SegmentRow, Orders)>,
        next: Option<u64>,
    },
    Rewritten {
        rewritten: Rewritten,
        body: Box<dyn crate::objects::ObjectBody>,
        may_exist: bool,
    },
    Stored(Rewritten),
}

struct Rewritten {
    replaced: String,
    by: Option<SegmentRow>,
    deleted: Vec<(u64, u64)>,
}

/// Segments that are to be searched, with what they are searched for.
type Due = Vec<(SegmentRow, Orders)>;

/// Prunes the segments of one partition; stepped by one thread, under a lease of
/// [`crate::Resource::Merge`], so that it does not work on segments that are being merged.
pub struct Prune {
    lease: Lease,
    partition: u32,
    rules: Vec<RetentionRule>,
    deletions: Deletions,
    /// The time by which rules become due: a clock of the catalog that jumped ahead is not
    /// believed.
    now_ns: i64,
    counter: u64,
    state: State,
    /// Where to go on after a segment is rewritten.
    rest: Option<(Due, Option<u64>)>,
    /// How many segments could not be searched, and why the first of them could not.
    failed: (usize, Option<SealError>),
}

impl Prune {
    /// Begins with the oldest segments of the partition.
    pub fn new(lease: Lease, partition: u32, rules: &[RetentionRule]) -> Prune {
        Prune {
            lease,
            partition,
            rules: rules.to_vec(),
            deletions: Deletions::default(),
            now_ns: i64::MIN,
            counter: COUNTER_FIRST,
            state: State::Beginning,
            rest: None,
            failed: (0, None),
        }
    }

    /// Whether it may be ended without the loss of work: nothing is rewritten that the catalog does
    /// not know. Another one goes on, since segments that were searched are not looked at again.
    pub fn is_between(&self) -> bool {
        !matches!(self.state, State::Rewritten { .. } | State::Stored(_))
    }

    /// Does the next thing, with two calls of an engine or the pruner at most. False when it has
    /// looked at all segments; the next step begins anew. A segment that cannot be searched, since
    /// its object is missing or damaged, is passed over, and is an error when the others are done.
    pub fn step(
        &mut self,
        catalog: &dyn Catalog,
        objects: &dyn Objects,
        pruner: &dyn Pruner,
    ) -> Result<bool, JobError> {
        match std::mem::replace(&mut self.state, State::Beginning) {
            State::Beginning => {
                self.failed = (0, None);
                self.deletions = catalog.deletions()?;
                // Without deletions and rules there is nothing to look for.
                let is_idle = self.deletions.in_force().next().is_none() && self.rules.is_empty();
                if is_idle {
                    return Ok(false);
                }
                self.now_ns = match self.rules.is_empty() {
                    true => self.deletions.now_ns,
                    false => retention_clock::believed_ns(catalog, self.deletions.now_ns)?,
                };
                self.state = State::Looking(0);
            }
            State::Looking(from) => self.look(from, catalog)?,
            State::Searching { due, next } => return self.search(due, next, catalog, pruner),
            State::Rewritten { rewritten, body, may_exist } => {
                let by = rewritten.by.as_ref().expect("a segment with lines has a row");
                match objects.put_new(&by.name, &*body) {
                    Ok(()) => self.state = State::Stored(rewritten),
                    Err(ObjectError::Exists(_)) if may_exist => {
                        self.state = State::Stored(rewritten);
                    }
                    Err(error @ ObjectError::Exists(_)) => return Err(error.into()),
                    Err(error) => {
                        let may_exist = may_exist || error.failure() == Failure::Unknown;
                        self.state = State::Rewritten { rewritten, body, may_exist };
                        return Err(error.into());
                    }
                }
            }
            State::Stored(rewritten) => {
                let Rewritten { replaced, by, deleted } = &rewritten;
                if let Err(error) = catalog.rewrite(&self.lease, replaced, by.as_ref(), deleted) {
                    if error.failure() == Failure::Retry {
                        self.state = State::Stored(rewritten);
                    }
                    return Err(error.into());
                }
                let (due, next) = self.rest.take().unwrap_or_default();
                self.state = State::Searching { due, next };
            }
        }
        Ok(true)
    }

    fn look(&mut self, from: u64, catalog: &dyn Catalog) -> Result<(), JobError> {
        let wanted = Unsearched {
            below: self.deletions.in_force().map(|tombstone| tombstone.id).max().unwrap_or(0),
            due: due_bands(&self.rules, self.now_ns),
        };
        let segments = catalog.unsearched(self.partition, &wanted, from, PAGE)?;
        let next = (segments.len() == PAGE).then(|| segments[PAGE - 1].offsets.end);
        let mut due = Vec::new();
        for segment in segments {
            if let Some(orders) = self.orders(&segment) {
                due.push((segment, orders));
            }
        }
        // The last one is searched first.
        due.reverse();
        self.state = State::Searching { due, next };
        Ok(())
    }

    /// What a segment is to be searched for; none if it was searched for all.
    fn orders(&self, segment: &SegmentRow) -> Option<Orders> {
        let now_ns = self.now_ns;
        let is_new = |tombstone: &&Tombstone| tombstone.id > segment.searched;
        let tombstones: Vec<Tombstone> =
            self.deletions.in_force().filter(is_new).cloned().collect();
        let rules = due_rules(&self.rules, segment.received_last_ns, now_ns);
        let are_rules_new = !rules.is_empty() && stamp(&rules) != segment.rules;
        (!tombstones.is_empty() || are_rules_new).then_some(Orders { tombstones, rules, now_ns })
    }

    fn search(
        &mut self,
        mut due: Vec<(SegmentRow, Orders)>,
        next: Option<u64>,
        catalog: &dyn Catalog,
        pruner: &dyn Pruner,
    ) -> Result<bool, JobError> {
        let Some((segment, orders)) = due.pop() else {
            self.state = next.map_or(State::Beginning, State::Looking);
            return match self.failed.1.take_if(|_| next.is_none()) {
                Some(error) => Err(error.into()),
                None => Ok(next.is_some()),
            };
        };
        let (searched, rules) = (self.deletions.last_id, stamp(&orders.rules));
        if !pruner.concerns(&segment, &orders)? {
            // Neighbours of which the same holds are noted with the same call.
            let mut names = vec![segment.name];
            while let Some((other, others)) = due.last()
                && stamp(&others.rules) == rules
                && !pruner.concerns(other, others)?
            {
                names.extend(due.pop().map(|(other, _)| other.name));
            }
            self.state = State::Searching { due, next };
            catalog.note_searched(&self.lease, &names, searched, rules)?;
            return Ok(true);
        }
        let pruned = match pruner.prune(&segment, &orders) {
            Ok(pruned) => pruned,
            Err(error) if self.failed.0 + 1 >= FAILED_MAX => return Err(error.into()),
            Err(error) => {
                self.failed.0 += 1;
                self.failed.1.get_or_insert(error);
                self.state = State::Searching { due, next };
                return Ok(true);
            }
        };
        match pruned {
            Pruned::Kept => {
                catalog.note_searched(&self.lease, &[segment.name], searched, rules)?;
                self.state = State::Searching { due, next };
            }
            Pruned::Rewritten { sealed, deleted } => {
                let replaced = segment.name.clone();
                self.rest = Some((due, next));
                self.state = match sealed {
                    None => State::Stored(Rewritten { replaced, by: None, deleted }),
                    Some(sealed) => {
                        let by = self.row(segment, &sealed, rules);
                        let rewritten = Rewritten { replaced, by: Some(by), deleted };
                        State::Rewritten { rewritten, body: sealed.body, may_exist: false }
                    }
                };
            }
        }
        Ok(true)
    }

    fn row(&mut self, segment: SegmentRow, sealed: &Sealed, rules: u64) -> SegmentRow {
        let name = ObjectName { lease: self.lease, counter: self.counter };
        self.counter += 1;
        SegmentRow {
            name: name.to_string(),
            times: sealed.times,
            lines: sealed.lines,
            bytes: sealed.body.size(),
            searched: self.deletions.last_id,
            rules,
            frames: sealed.frames.clone(),
            ..segment
        }
    }
}

/// The rules that are due for all lines of a segment: those whose age its newest line has passed.
fn due_rules(rules: &[RetentionRule], newest_ns: i64, now_ns: i64) -> Vec<RetentionRule> {
    let is_due = |rule: &&RetentionRule| newest_ns < due_before(rule, now_ns);
    rules.iter().filter(is_due).cloned().collect()
}

/// The rules that are due, by the latest arrival of segments, where any is.
fn due_bands(rules: &[RetentionRule], now_ns: i64) -> Vec<DueRules> {
    let mut ends: Vec<i64> = rules.iter().map(|rule| due_before(rule, now_ns)).collect();
    ends.push(i64::MIN);
    ends.sort_unstable();
    ends.dedup();
    let band = |ends: &[i64]| DueRules {
        received_ns: ends[0]..ends[1],
        rules: stamp(&due_rules(rules, ends[0], now_ns)),
    };
    ends.windows(2).map(band).collect()
}

/// Lines that arrived before this time are old enough for a rule.
fn due_before(rule: &RetentionRule, now_ns: i64) -> i64 {
    now_ns.saturating_sub(i64::try_from(rule.age.as_nanos()).unwrap_or(i64::MAX))
}

/// A hash that identifies a set of rules; 0 for none. The catalog keeps it, so it depends on
/// neither platform nor version (FNV-1a). It fits into a signed number.
fn stamp(rules: &[RetentionRule]) -> u64 {
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    let mut add = |byte: u8| hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    for rule in rules {
        rule.filter.bytes().for_each(&mut add);
        rule.age.as_nanos().to_le_bytes().into_iter().for_each(&mut add);
    }
    if rules.is_empty() { 0 } else { (hash >> 1).max(1) }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use platform::ManualClock;

    use super::*;
    use crate::catalog::{Publication, TimeRange};
    use crate::ids::{NodeId, Resource};
    use crate::sim::{SimCatalog, SimObjects};

    /// Finds nothing, and fails for segments that begin at some offsets.
    struct Failing(&'static [u64]);

    impl Pruner for Failing {
        fn concerns(&self, _: &SegmentRow, _: &Orders) -> Result<bool, SealError> {
            Ok(true)
        }

        fn prune(&self, segment: &SegmentRow, _: &Orders) -> Result<Pruned, SealError> {
            match self.0.contains(&segment.offsets.start) {
                true => Err(SealError(segment.name.clone())),
                false => Ok(Pruned::Kept),
            }
        }
    }

    #[test]
    fn a_segment_that_cannot_be_searched_does_not_hold_up_others() {
        let clock = Arc::new(ManualClock::new(0));
        let catalog = SimCatalog::new(clock.clone());
        let objects = SimObjects::new(clock);
        let minute = Duration::from_secs(60);
        let name = |number: u64| format!("segments/partition-0/1-00000001-{number}");
        let lease = catalog.acquire(Resource::Partition(0), NodeId(1), minute).unwrap().unwrap();
        for number in 0..4 {
            let segment = SegmentRow {
                name: name(number),
                partition: 0,
                offsets: number..number + 1,
                times: TimeRange::ALL,
                received_last_ns: 0,
                lines: 1,
                bytes: 1,
                searched: 0,
                rules: 0,
                frames: Vec::new(),
            };
            let publication = Publication {
                offsets: number..number + 1,
                segment: Some(segment),
                producers: Vec::new(),
                lost: 0,
            };
            catalog.publish(&lease, &publication).unwrap();
        }
        let id = catalog.delete("a", &[4]).unwrap().tombstone.id;
        let lease = catalog.acquire(Resource::Merge(0), NodeId(1), minute).unwrap().unwrap();
        let mut prune = Prune::new(lease, 0, &[]);
        let mut run = |failing: &'static [u64]| {
            loop {
                match prune.step(&catalog, &objects, &Failing(failing)) {
                    Ok(true) => {}
                    result => return result,
                }
            }
        };
        let searched = || -> Vec<bool> {
            let rows = catalog.segments_of(0, 0, 9).unwrap();
            rows.iter().map(|row| row.searched == id).collect()
        };
        assert_eq!(run(&[1]), Err(JobError::Seal(SealError(name(1)))));
        assert_eq!(searched(), [true, false, true, true]);
        // Those that were searched are not read again, whatever fails in them now.
        assert_eq!(run(&[0, 2, 3]), Ok(false));
        assert_eq!(searched(), [true; 4]);
        assert_eq!(run(&[0, 1, 2, 3]), Ok(false));
    }

    #[test]
    fn rules_do_not_become_due_by_a_clock_that_jumps_ahead() {
        const DAY_NS: i64 = 86_400_000_000_000;
        let clock = Arc::new(ManualClock::new(20_000 * DAY_NS));
        let catalog = SimCatalog::new(clock.clone());
        let objects = SimObjects::new(clock.clone());
        let minute = Duration::from_secs(60);
        let lease = catalog.acquire(Resource::Partition(0), NodeId(1), minute).unwrap().unwrap();
        let segment = SegmentRow {
            name: "segments/partition-0/1-00000001-0".to_owned(),
            partition: 0,
            offsets: 0..1,
            times: TimeRange::ALL,
            received_last_ns: 20_000 * DAY_NS,
            lines: 1,
            bytes: 1,
            searched: 0,
            rules: 0,
            frames: Vec::new(),
        };
        let publication = Publication {
            offsets: 0..1,
            segment: Some(segment.clone()),
            producers: Vec::new(),
            lost: 0,
        };
        catalog.publish(&lease, &publication).unwrap();
        let retention = catalog.acquire(Resource::Retention, NodeId(1), minute).unwrap().unwrap();
        let keep_time = || retention_clock::turn(&catalog, &retention).unwrap();
        let lease = catalog.acquire(Resource::Merge(0), NodeId(1), minute).unwrap().unwrap();
        let rule = RetentionRule { filter: "a".to_owned(), age: 10 * 1440 * minute };
        // It fails if it reads the segment.
        let mut prune = Prune::new(lease, 0, &[rule]);
        let mut run = || {
            loop {
                match prune.step(&catalog, &objects, &Failing(&[0])) {
                    Ok(true) => {}
                    result => return result,
                }
            }
        };
        keep_time();
        assert_eq!(run(), Ok(false));
        // Whether or not a turn of retention notices it before.
        clock.set_ahead_ns(365 * DAY_NS);
        assert_eq!(run(), Ok(false));
        keep_time();
        assert_eq!(run(), Ok(false));
        clock.set_ahead_ns(-365 * DAY_NS);
        keep_time();
        for _ in 0..11 {
            clock.advance_ns(DAY_NS);
            keep_time();
        }
        assert_eq!(run(), Err(JobError::Seal(SealError(segment.name))));
    }

    #[test]
    fn rules_are_due_by_age_and_told_apart() {
        let rule = |filter: &str, age_s| RetentionRule {
            filter: filter.to_owned(),
            age: Duration::from_secs(age_s),
        };
        let rules = [rule("a", 10), rule("b", 20)];
        let second_ns = 1_000_000_000;
        for (now_s, expected) in [(109, 0), (110, 0), (111, 1), (120, 1), (121, 2)] {
            let due = due_rules(&rules, 100 * second_ns, now_s * second_ns);
            assert_eq!(due, rules[..expected], "{now_s}");
        }
        // The bands say for each arrival what is due, in one row of the catalog for each.
        let bands = due_bands(&rules, 100 * second_ns);
        for received_ns in
            [i64::MIN, 79, 80, 81, 89, 90, 91, 100].map(|s: i64| s.saturating_mul(second_ns))
        {
            let band = bands.iter().find(|band| band.received_ns.contains(&received_ns));
            let found = band.map_or(0, |band| band.rules);
            let due = due_rules(&rules, received_ns, 100 * second_ns);
            assert_eq!(found, stamp(&due), "{received_ns}");
        }
        assert_eq!((bands.len(), due_bands(&[], 5)), (2, Vec::new()));
        let sets = [&rules[..0], &rules[..1], &rules[1..], &rules[..]];
        let stamps: std::collections::BTreeSet<u64> = sets.map(stamp).into();
        assert_eq!(stamps.len(), sets.len());
        assert!(stamps.contains(&0) && stamps.iter().all(|stamp| *stamp <= i64::MAX as u64));
    }
}
