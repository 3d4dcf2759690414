//! Catalogs that are broken on purpose.

use std::sync::Arc;
use std::time::Duration;

use super::Weakness;
use crate::catalog::{
    Catalog, Mark, NodeInfo, PartitionState, Publication, SegmentRow, Snapshot, TimeRange, Totals,
    Unsearched, View,
};
use crate::deletions::{DeletionRow, Deletions};
use crate::error::CatalogError;
use crate::ids::{Lease, NodeId, Resource};
use crate::objects::ObjectInfo;
use crate::sim::SimCatalog;

pub struct WeakCatalog {
    pub catalog: Arc<SimCatalog>,
    pub weakness: Option<Weakness>,
    /// Runs other nodes between the parts of what should be one transaction; false if the second
    /// part is lost.
    pub between: Box<dyn Fn() -> bool + Send + Sync>,
}

impl Catalog for WeakCatalog {
    fn now_ns(&self) -> Result<i64, CatalogError> {
        self.catalog.now_ns()
    }

    fn heartbeat(
        &self,
        node: &NodeInfo,
        leases: &[Lease],
        ttl: Duration,
    ) -> Result<View, CatalogError> {
        self.catalog.heartbeat(node, leases, ttl)
    }

    fn acquire(
        &self,
        resource: Resource,
        owner: NodeId,
        ttl: Duration,
    ) -> Result<Option<Lease>, CatalogError> {
        if self.weakness == Some(Weakness::TakesLive) {
            self.catalog.with(|state, _| state.expire(resource));
        }
        self.catalog.acquire(resource, owner, ttl)
    }

    fn release(&self, lease: &Lease) -> Result<(), CatalogError> {
        self.catalog.release(lease)
    }

    fn partition(&self, lease: &Lease) -> Result<PartitionState, CatalogError> {
        self.catalog.partition(lease)
    }

    fn publish(&self, lease: &Lease, publication: &Publication) -> Result<(), CatalogError> {
        let Resource::Partition(partition) = lease.resource else { unreachable!() };
        match self.weakness {
            Some(Weakness::NoFence | Weakness::NoEpoch) => self.catalog.with(|state, now_ns| {
                if self.weakness == Some(Weakness::NoEpoch) {
                    state.check_offset(partition, publication)?;
                }
                state.check_name(publication.segment.as_ref())?;
                state.move_offset(partition, publication, now_ns);
                state.add(publication.segment.as_ref());
                Ok(())
            }),
            Some(Weakness::OffsetApart) => {
                self.catalog.with(|state, _| {
                    state.check(lease)?;
                    state.check_offset(partition, publication)?;
                    state.check_name(publication.segment.as_ref())?;
                    state.add(publication.segment.as_ref());
                    Ok(())
                })?;
                if !(self.between)() {
                    return Err(CatalogError::Unknown("simulated".to_owned()));
                }
                self.catalog.with(|state, now_ns| {
                    state.check(lease)?;
                    state.move_offset(partition, publication, now_ns);
                    Ok(())
                })
            }
            Some(Weakness::NoProducers) => {
                self.catalog.publish(lease, publication)?;
                self.catalog.with(|state, _| state.forget_producers());
                Ok(())
            }
            Some(Weakness::LastNumberAlone) => {
                let mut publication = publication.clone();
                publication.producers.iter_mut().for_each(|(_, seen)| seen.before = u64::MAX);
                self.catalog.publish(lease, &publication)
            }
            _ => self.catalog.publish(lease, publication),
        }
    }

    fn replace(
        &self,
        lease: &Lease,
        replaced: &[String],
        by: Option<&SegmentRow>,
    ) -> Result<(), CatalogError> {
        match self.weakness {
            Some(Weakness::NoFence | Weakness::NoEpoch | Weakness::JobsWithoutEpoch) => {
                self.catalog.with(|state, now_ns| {
                    state.check_name(by)?;
                    state.retire(replaced, now_ns)?;
                    state.add(by);
                    Ok(())
                })
            }
            _ => self.catalog.replace(lease, replaced, by),
        }
    }

    fn snapshot(&self, times: TimeRange, segments_max: usize) -> Result<Snapshot, CatalogError> {
        let snapshot = self.catalog.snapshot(times, segments_max)?;
        if self.weakness == Some(Weakness::TornSnapshot) {
            (self.between)();
            let later = self.catalog.snapshot(times, segments_max)?;
            return Ok(Snapshot { partitions: later.partitions, ..snapshot });
        }
        Ok(snapshot)
    }

    fn segments_of(
        &self,
        partition: u32,
        from: u64,
        max: usize,
    ) -> Result<Vec<SegmentRow>, CatalogError> {
        self.catalog.segments_of(partition, from, max)
    }

    fn holding(
        &self,
        node: NodeId,
        sequence: u64,
        max: usize,
    ) -> Result<Vec<SegmentRow>, CatalogError> {
        self.catalog.holding(node, sequence, max)
    }

    fn unsearched(
        &self,
        partition: u32,
        wanted: &Unsearched,
        from: u64,
        max: usize,
    ) -> Result<Vec<SegmentRow>, CatalogError> {
        self.catalog.unsearched(partition, wanted, from, max)
    }

    fn delete(&self, filter: &str, ends: &[u64]) -> Result<DeletionRow, CatalogError> {
        self.catalog.delete(filter, ends)
    }

    fn deletions(&self) -> Result<Deletions, CatalogError> {
        self.catalog.deletions()
    }

    fn cancel_deletion(&self, id: u64) -> Result<bool, CatalogError> {
        self.catalog.cancel_deletion(id)
    }

    fn end_deletions(&self, lease: &Lease) -> Result<u64, CatalogError> {
        self.catalog.end_deletions(lease)
    }

    fn note_searched(
        &self,
        lease: &Lease,
        names: &[String],
        searched: u64,
        rules: u64,
    ) -> Result<(), CatalogError> {
        self.catalog.note_searched(lease, names, searched, rules)
    }

    fn rewrite(
        &self,
        lease: &Lease,
        replaced: &str,
        by: Option<&SegmentRow>,
        deleted: &[(u64, u64)],
    ) -> Result<(), CatalogError> {
        match self.weakness {
            Some(Weakness::NoFence | Weakness::NoEpoch | Weakness::JobsWithoutEpoch) => {
                self.catalog.with(|state, now_ns| {
                    state.check_name(by)?;
                    state.retire(&[replaced.to_owned()], now_ns)?;
                    state.add(by);
                    Ok(())
                })
            }
            _ => self.catalog.rewrite(lease, replaced, by, deleted),
        }
    }

    fn older_than(&self, age: Duration, max: usize) -> Result<Vec<SegmentRow>, CatalogError> {
        self.catalog.older_than(age, max)
    }

    fn totals(&self) -> Result<Totals, CatalogError> {
        self.catalog.totals()
    }

    fn hold(&self, holder: &str, ttl: Duration) -> Result<(), CatalogError> {
        self.catalog.hold(holder, ttl)
    }

    fn let_go(&self, holder: &str) -> Result<(), CatalogError> {
        self.catalog.let_go(holder)
    }

    fn retired(&self, grace: Duration, max: usize) -> Result<Vec<String>, CatalogError> {
        self.catalog.retired(grace, max)
    }

    fn forget(&self, names: &[String]) -> Result<(), CatalogError> {
        self.catalog.forget(names)
    }

    fn orphans(
        &self,
        objects: &[ObjectInfo],
        grace: Duration,
    ) -> Result<Vec<String>, CatalogError> {
        if self.weakness == Some(Weakness::SweepUnpublished) {
            let names = objects.iter().map(|info| info.name.clone());
            let is_unknown = |name: &String| self.catalog.with(|state, _| !state.is_known(name));
            return Ok(names.filter(is_unknown).collect());
        }
        self.catalog.orphans(objects, grace)
    }

    fn marks(&self, prefix: &str) -> Result<Vec<Mark>, CatalogError> {
        self.catalog.marks(prefix)
    }

    fn put_mark(&self, lease: &Lease, name: &str, body: Option<&[u8]>) -> Result<(), CatalogError> {
        self.catalog.put_mark(lease, name, body)
    }
}
