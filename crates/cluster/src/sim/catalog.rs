//! The catalog in memory: the reference model of the real one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use platform::Clock;

use crate::catalog::{
    Catalog, FrameRange, LeaseRow, Mark, NODE_FORGOTTEN_AFTER, NodeInfo, NodeRow, Owner,
    PRODUCER_FORGOTTEN_AFTER, PartitionRow, PartitionState, Publication, SegmentRow, Snapshot,
    TimeRange, Totals, Unsearched, View,
};
use crate::deletions::{
    DELETIONS_KEPT, DeletionRow, DeletionState, Deletions, DeletionsTaken, LATE, Tombstone,
};
use crate::duplicates::Seen;
use crate::error::CatalogError;
use crate::ids::{Lease, NodeId, ObjectName, Resource};
use crate::objects::ObjectInfo;

#[derive(Default)]
pub(crate) struct State {
    nodes: BTreeMap<NodeId, (NodeInfo, i64)>,
    leases: BTreeMap<Resource, Row>,
    partitions: BTreeMap<u32, Part>,
    live: BTreeMap<String, SegmentRow>,
    retired: BTreeMap<String, i64>,
    marks: BTreeMap<String, Vec<u8>>,
    /// Deletions by id, with the ends of the log when they were requested.
    deletions: BTreeMap<u64, (DeletionRow, Vec<u64>)>,
    deletions_last: u64,
    /// When each hold began, and when it ends.
    holds: BTreeMap<String, (i64, i64)>,
}

struct Row {
    owner: Option<NodeId>,
    epoch: u64,
    expires_ns: i64,
}

#[derive(Default)]
struct Part {
    offset: u64,
    /// The frames that were seen, and when the last of them was published.
    producers: BTreeMap<NodeId, (Seen, i64)>,
    lost: u64,
}

/// The catalog in memory, with a clock of its own.
pub struct SimCatalog {
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
}

impl SimCatalog {
    /// An empty catalog.
    pub fn new(clock: Arc<dyn Clock>) -> SimCatalog {
        SimCatalog { clock, state: Mutex::default() }
    }

    /// Runs one transaction, at the time that it is given.
    pub(crate) fn with<T>(&self, run: impl FnOnce(&mut State, i64) -> T) -> T {
        run(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner), self.clock.now_ns())
    }
}

/// The parts of the transactions; none changes anything if it fails.
impl State {
    pub fn check(&self, lease: &Lease) -> Result<(), CatalogError> {
        let row = self.leases.get(&lease.resource);
        match row.is_some_and(|row| (row.owner, row.epoch) == (Some(lease.owner), lease.epoch)) {
            true => Ok(()),
            false => Err(CatalogError::LeaseOver {
                resource: lease.resource.to_string(),
                epoch: lease.epoch,
            }),
        }
    }

    /// The node that has a lease which is not expired.
    #[cfg(test)]
    pub fn owner(&self, resource: Resource, now_ns: i64) -> Option<NodeId> {
        self.leases.get(&resource).filter(|row| row.expires_ns > now_ns).and_then(|row| row.owner)
    }

    #[cfg(test)]
    pub fn expire(&mut self, resource: Resource) {
        if let Some(row) = self.leases.get_mut(&resource) {
            row.expires_ns = 0;
        }
    }

    pub fn check_offset(
        &self,
        partition: u32,
        publication: &Publication,
    ) -> Result<(), CatalogError> {
        let found = self.partitions.get(&partition).map_or(0, |part| part.offset);
        let expected = publication.offsets.start;
        match found == expected {
            true => Ok(()),
            false => Err(CatalogError::OffsetMoved { partition, expected, found }),
        }
    }

    pub fn move_offset(&mut self, partition: u32, publication: &Publication, now_ns: i64) {
        let part = self.partitions.entry(partition).or_default();
        part.offset = publication.offsets.end;
        part.lost += publication.lost;
        part.producers.extend(publication.producers.iter().map(|&(n, seen)| (n, (seen, now_ns))));
        part.producers.retain(|_, (_, at_ns)| !is_older(*at_ns, PRODUCER_FORGOTTEN_AFTER, now_ns));
    }

    pub fn check_name(&self, segment: Option<&SegmentRow>) -> Result<(), CatalogError> {
        match segment.map(|segment| &segment.name) {
            Some(name) if self.live.contains_key(name) || self.retired.contains_key(name) => {
                Err(CatalogError::NameTaken(name.clone()))
            }
            _ => Ok(()),
        }
    }

    pub fn add(&mut self, segment: Option<&SegmentRow>) {
        self.live.extend(segment.map(|segment| (segment.name.clone(), segment.clone())));
    }

    pub fn retire(&mut self, names: &[String], now_ns: i64) -> Result<(), CatalogError> {
        let different: BTreeSet<&String> = names.iter().collect();
        if different.len() < names.len() || !names.iter().all(|name| self.live.contains_key(name)) {
            return Err(CatalogError::SegmentGone);
        }
        for name in names {
            self.live.remove(name);
            self.retired.insert(name.clone(), now_ns);
        }
        Ok(())
    }

    /// The rows of live segments that `is_wanted` chooses, as the catalog answers with them.
    fn rows(&self, is_wanted: impl Fn(&SegmentRow) -> bool) -> Vec<SegmentRow> {
        let wanted = self.live.values().filter(|row| is_wanted(row));
        wanted.map(|row| SegmentRow { frames: Vec::new(), ..row.clone() }).collect()
    }

    /// A deletion with how far it is.
    fn deletion(&self, id: u64) -> Option<DeletionRow> {
        let mut row = self.deletions.get(&id)?.0.clone();
        if row.state == DeletionState::Running {
            let left = self.live.values().filter(|segment| segment.searched < id);
            (row.segments_left, row.bytes_left) =
                left.fold((0, 0), |(count, bytes), row| (count + 1, bytes + row.bytes));
        }
        Some(row)
    }

    fn all_deletions(&self) -> Vec<DeletionRow> {
        self.deletions.keys().filter_map(|id| self.deletion(*id)).collect()
    }

    #[cfg(test)]
    pub fn live(&self) -> impl Iterator<Item = &SegmentRow> {
        self.live.values()
    }

    #[cfg(test)]
    pub fn forget_producers(&mut self) {
        self.partitions.values_mut().for_each(|part| part.producers.clear());
    }

    #[cfg(test)]
    pub fn is_known(&self, name: &str) -> bool {
        self.live.contains_key(name) || self.retired.contains_key(name)
    }
}

fn is_older(at_ns: i64, age: Duration, now_ns: i64) -> bool {
    i128::from(now_ns) - i128::from(at_ns) >= age.as_nanos() as i128
}

fn after(now_ns: i64, duration: Duration) -> i64 {
    now_ns.saturating_add(i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX))
}

impl Catalog for SimCatalog {
    fn now_ns(&self) -> Result<i64, CatalogError> {
        self.with(|_, now_ns| Ok(now_ns))
    }

    fn heartbeat(
        &self,
        node: &NodeInfo,
        leases: &[Lease],
        ttl: Duration,
    ) -> Result<View, CatalogError> {
        self.with(|state, now_ns| {
            state.nodes.insert(node.node, (node.clone(), now_ns));
            state.nodes.retain(|_, (_, seen_ns)| !is_older(*seen_ns, NODE_FORGOTTEN_AFTER, now_ns));
            for lease in leases.iter().filter(|lease| lease.owner == node.node) {
                if state.check(lease).is_ok()
                    && let Some(row) = state.leases.get_mut(&lease.resource)
                {
                    row.expires_ns = after(now_ns, ttl);
                }
            }
            let node = |(info, seen_ns): &(NodeInfo, i64)| NodeRow {
                info: info.clone(),
                silent: Duration::from_nanos(now_ns.saturating_sub(*seen_ns).max(0) as u64),
            };
            let lease = |(resource, row): (&Resource, &Row)| LeaseRow {
                resource: *resource,
                owner: row.owner,
                epoch: row.epoch,
                live: row.owner.is_some() && row.expires_ns > now_ns,
            };
            Ok(View {
                nodes: state.nodes.values().map(node).collect(),
                leases: state.leases.iter().map(lease).collect(),
                deleted_ns: state.deletions.values().map(|(row, _)| row.tombstone.created_ns).max(),
            })
        })
    }

    fn acquire(
        &self,
        resource: Resource,
        owner: NodeId,
        ttl: Duration,
    ) -> Result<Option<Lease>, CatalogError> {
        self.with(|state, now_ns| {
            let free = Row { owner: None, epoch: 0, expires_ns: 0 };
            let row = state.leases.entry(resource).or_insert(free);
            if row.owner.is_some_and(|other| other != owner) && row.expires_ns > now_ns {
                return Ok(None);
            }
            *row = Row { owner: Some(owner), epoch: row.epoch + 1, expires_ns: after(now_ns, ttl) };
            Ok(Some(Lease { resource, owner, epoch: row.epoch }))
        })
    }

    fn release(&self, lease: &Lease) -> Result<(), CatalogError> {
        self.with(|state, _| {
            if state.check(lease).is_ok() {
                let row = Row { owner: None, epoch: lease.epoch + 1, expires_ns: 0 };
                state.leases.insert(lease.resource, row);
            }
            Ok(())
        })
    }

    fn partition(&self, lease: &Lease) -> Result<PartitionState, CatalogError> {
        let partition = lease.resource.partition()?;
        self.with(|state, _| {
            state.check(lease)?;
            let part = state.partitions.entry(partition).or_default();
            let producers = part.producers.iter().map(|(&node, &(seen, _))| (node, seen)).collect();
            Ok(PartitionState { offset: part.offset, producers })
        })
    }

    fn publish(&self, lease: &Lease, publication: &Publication) -> Result<(), CatalogError> {
        let partition = lease.resource.partition()?;
        self.with(|state, now_ns| {
            state.check(lease)?;
            state.check_offset(partition, publication)?;
            state.check_name(publication.segment.as_ref())?;
            state.move_offset(partition, publication, now_ns);
            state.add(publication.segment.as_ref());
            Ok(())
        })
    }

    fn replace(
        &self,
        lease: &Lease,
        replaced: &[String],
        by: Option<&SegmentRow>,
    ) -> Result<(), CatalogError> {
        self.with(|state, now_ns| {
            state.check(lease)?;
            state.check_name(by)?;
            state.retire(replaced, now_ns)?;
            state.add(by);
            Ok(())
        })
    }

    fn snapshot(&self, times: TimeRange, segments_max: usize) -> Result<Snapshot, CatalogError> {
        self.with(|state, now_ns| {
            let owner = |partition| {
                let row = state.leases.get(&Resource::Partition(partition))?;
                let (info, _) = state.nodes.get(&row.owner?)?;
                (row.expires_ns > now_ns).then(|| Owner {
                    node: info.node,
                    address: info.address.clone(),
                    epoch: row.epoch,
                })
            };
            let partitions = state.partitions.iter().map(|(&partition, part)| PartitionRow {
                partition,
                offset: part.offset,
                lost: part.lost,
                owner: owner(partition),
            });
            let segments = state.rows(|row| row.times.overlaps(&times));
            let in_force = state.deletions.values().filter(|(row, _)| row.is_in_force());
            let tombstones = in_force.map(|(row, _)| row.tombstone.clone()).collect();
            match segments.len() > segments_max {
                true => Err(CatalogError::TooMany { segments_max }),
                false => Ok(Snapshot { partitions: partitions.collect(), segments, tombstones }),
            }
        })
    }

    fn segments_of(
        &self,
        partition: u32,
        from: u64,
        max: usize,
    ) -> Result<Vec<SegmentRow>, CatalogError> {
        self.with(|state, _| {
            let mut rows = state.rows(|row| row.partition == partition && row.offsets.end > from);
            rows.sort_by_key(|row| row.offsets.end);
            rows.truncate(max);
            Ok(rows)
        })
    }

    fn unsearched(
        &self,
        partition: u32,
        wanted: &Unsearched,
        from: u64,
        max: usize,
    ) -> Result<Vec<SegmentRow>, CatalogError> {
        let mut rows = self.segments_of(partition, from, usize::MAX)?;
        rows.retain(|row| wanted.wants(row));
        rows.truncate(max);
        Ok(rows)
    }

    fn holding(
        &self,
        node: NodeId,
        sequence: u64,
        max: usize,
    ) -> Result<Vec<SegmentRow>, CatalogError> {
        self.with(|state, _| {
            let has = |frames: &FrameRange| {
                frames.node == node && (frames.first..=frames.last).contains(&sequence)
            };
            let mut rows = state.rows(|row| row.frames.iter().any(has));
            rows.truncate(max);
            Ok(rows)
        })
    }

    fn delete(&self, filter: &str, ends: &[u64]) -> Result<DeletionRow, CatalogError> {
        self.with(|state, now_ns| {
            let mut taken = DeletionsTaken::default();
            for (row, _) in state.deletions.values().filter(|(row, _)| row.is_in_force()) {
                taken.running += usize::from(row.state == DeletionState::Running);
                taken.in_force += 1;
                taken.bytes += row.tombstone.filter.len();
            }
            taken.admit(filter).map_err(CatalogError::Refused)?;
            state.deletions_last += 1;
            let id = state.deletions_last;
            let tombstone = Tombstone { id, filter: filter.to_owned(), created_ns: now_ns };
            let row = DeletionRow {
                tombstone,
                state: DeletionState::Running,
                finished_ns: None,
                lines: 0,
                segments_left: 0,
                bytes_left: 0,
            };
            state.deletions.insert(id, (row, ends.to_vec()));
            Ok(state.deletion(id).expect("just added"))
        })
    }

    fn deletions(&self) -> Result<Deletions, CatalogError> {
        self.with(|state, now_ns| {
            let rows = state.all_deletions();
            Ok(Deletions { now_ns, last_id: state.deletions_last, rows })
        })
    }

    fn cancel_deletion(&self, id: u64) -> Result<bool, CatalogError> {
        self.with(|state, now_ns| {
            let Some((row, _)) = state.deletions.get_mut(&id) else { return Ok(false) };
            let is_in_force = row.is_in_force();
            if row.state == DeletionState::Running {
                (row.state, row.finished_ns) = (DeletionState::Cancelled, Some(now_ns));
            }
            row.tombstone.filter.clear();
            Ok(is_in_force)
        })
    }

    fn end_deletions(&self, lease: &Lease) -> Result<u64, CatalogError> {
        self.with(|state, now_ns| {
            state.check(lease)?;
            let is_searched = |row: &DeletionRow, ends: &[u64]| {
                let offset = |partition| state.partitions.get(&partition).map_or(0, |p| p.offset);
                row.segments_left == 0
                    && (0..).zip(ends).all(|(partition, end)| offset(partition) >= *end)
            };
            let rows = state.all_deletions();
            let running = rows.iter().filter(|row| row.state == DeletionState::Running);
            let ended = running.filter(|row| {
                state
                    .deletions
                    .get(&row.tombstone.id)
                    .is_some_and(|(_, ends)| is_searched(row, ends))
            });
            let ended: Vec<u64> = ended.map(|row| row.tombstone.id).collect();
            for id in &ended {
                let (row, _) = state.deletions.get_mut(id).expect("just found");
                (row.state, row.finished_ns) = (DeletionState::Done, Some(now_ns));
            }
            for (row, _) in state.deletions.values_mut() {
                let is_over = row.finished_ns.is_some_and(|ns| is_older(ns, LATE, now_ns));
                if row.state == DeletionState::Done && is_over {
                    row.tombstone.filter.clear();
                }
            }
            let forgettable = |(_, (row, _)): &(&u64, &(DeletionRow, _))| {
                row.state != DeletionState::Running && row.tombstone.filter.is_empty()
            };
            let old: Vec<u64> =
                state.deletions.iter().filter(forgettable).map(|(id, _)| *id).collect();
            for id in &old[..old.len().saturating_sub(DELETIONS_KEPT)] {
                state.deletions.remove(id);
            }
            Ok(ended.len() as u64)
        })
    }

    fn note_searched(
        &self,
        lease: &Lease,
        names: &[String],
        searched: u64,
        rules: u64,
    ) -> Result<(), CatalogError> {
        self.with(|state, _| {
            state.check(lease)?;
            for name in names {
                if let Some(row) = state.live.get_mut(name) {
                    (row.searched, row.rules) = (row.searched.max(searched), rules);
                }
            }
            Ok(())
        })
    }

    fn rewrite(
        &self,
        lease: &Lease,
        replaced: &str,
        by: Option<&SegmentRow>,
        deleted: &[(u64, u64)],
    ) -> Result<(), CatalogError> {
        self.with(|state, now_ns| {
            state.check(lease)?;
            state.check_name(by)?;
            state.retire(&[replaced.to_owned()], now_ns)?;
            state.add(by);
            for (id, lines) in deleted {
                if let Some((row, _)) = state.deletions.get_mut(id) {
                    row.lines += lines;
                }
            }
            Ok(())
        })
    }

    fn older_than(&self, age: Duration, max: usize) -> Result<Vec<SegmentRow>, CatalogError> {
        self.with(|state, now_ns| {
            let is_wanted =
                |row: &SegmentRow| age.is_zero() || is_older(row.received_last_ns, age, now_ns);
            let mut rows = state.rows(is_wanted);
            rows.sort_by(|a, b| (a.received_last_ns, &a.name).cmp(&(b.received_last_ns, &b.name)));
            rows.truncate(max);
            Ok(rows)
        })
    }

    fn totals(&self) -> Result<Totals, CatalogError> {
        self.with(|state, _| {
            let bytes = state.live.values().map(|row| row.bytes).sum();
            Ok(Totals { segments: state.live.len() as u64, bytes })
        })
    }

    fn hold(&self, holder: &str, ttl: Duration) -> Result<(), CatalogError> {
        self.with(|state, now_ns| {
            state.holds.retain(|_, (_, expires_ns)| *expires_ns > now_ns);
            let hold = state.holds.entry(holder.to_owned()).or_insert((now_ns, 0));
            hold.1 = after(now_ns, ttl);
            Ok(())
        })
    }

    fn let_go(&self, holder: &str) -> Result<(), CatalogError> {
        self.with(|state, _| {
            state.holds.remove(holder);
            Ok(())
        })
    }

    fn retired(&self, grace: Duration, max: usize) -> Result<Vec<String>, CatalogError> {
        self.with(|state, now_ns| {
            let live = state.holds.values().filter(|(_, expires_ns)| *expires_ns > now_ns);
            let held_ns = live.map(|(began_ns, _)| *began_ns).min().unwrap_or(i64::MAX);
            let due = |at_ns: i64| at_ns < held_ns && is_older(at_ns, grace, now_ns);
            let names = state.retired.iter().filter(|(_, at_ns)| due(**at_ns));
            Ok(names.take(max).map(|(name, _)| name.clone()).collect())
        })
    }

    fn forget(&self, names: &[String]) -> Result<(), CatalogError> {
        self.with(|state, _| {
            for name in names {
                state.retired.remove(name);
            }
            Ok(())
        })
    }

    fn orphans(
        &self,
        objects: &[ObjectInfo],
        grace: Duration,
    ) -> Result<Vec<String>, CatalogError> {
        self.with(|state, now_ns| {
            let is_orphan = |info: &&ObjectInfo| {
                let Ok(ObjectName { lease, .. }) = info.name.parse() else { return false };
                let epoch = state.leases.get(&lease.resource).map_or(0, |row| row.epoch);
                epoch > lease.epoch
                    && is_older(info.written_ns, grace, now_ns)
                    && !state.live.contains_key(&info.name)
                    && !state.retired.contains_key(&info.name)
            };
            Ok(objects.iter().filter(is_orphan).map(|info| info.name.clone()).collect())
        })
    }

    fn marks(&self, prefix: &str) -> Result<Vec<Mark>, CatalogError> {
        self.with(|state, _| {
            let found = state.marks.iter().filter(|(name, _)| name.starts_with(prefix));
            Ok(found.map(|(name, body)| (name.clone(), body.clone())).collect())
        })
    }

    fn put_mark(&self, lease: &Lease, name: &str, body: Option<&[u8]>) -> Result<(), CatalogError> {
        self.with(|state, _| {
            state.check(lease)?;
            match body {
                Some(body) => drop(state.marks.insert(name.to_owned(), body.to_vec())),
                None => drop(state.marks.remove(name)),
            }
            Ok(())
        })
    }
}
