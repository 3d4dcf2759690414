//! The way to an engine, with faults.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use crate::catalog::{
    Catalog, Mark, NodeInfo, PartitionState, Publication, SegmentRow, Snapshot, TimeRange, Totals,
    Unsearched, View,
};
use crate::deletions::{DeletionRow, Deletions};
use crate::error::{CatalogError, LogError, ObjectError};
use crate::frame_log::{FrameLog, Message};
use crate::ids::{Lease, NodeId, Resource};
use crate::objects::{ObjectBody, ObjectInfo, Objects};

/// What becomes of one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It happens and is answered.
    Pass,
    /// It does not happen; the caller is told so.
    Fail,
    /// It happens; the answer is lost.
    AnswerLost,
    /// It does not happen; the caller does not know.
    CallLost,
    /// The caller does not know; it happens later, or is repeated by the network.
    Late,
    /// It happens and is answered, and happens again later.
    Twice,
}

/// Decides about calls.
pub trait Network: Send + Sync {
    /// Before a call; may let other nodes run meanwhile. `changes` says whether the call changes
    /// anything: for others, all verdicts but [`Verdict::Pass`] are the same.
    fn before(&self, changes: bool) -> Verdict;
    /// Between a call and its answer; may let other nodes run meanwhile. False if the answer is
    /// lost.
    fn after(&self) -> bool;
    /// Keeps a call that happens later.
    fn later(&self, call: Box<dyn FnOnce() + Send>);
}

/// An engine behind a network.
pub struct Remote<E: ?Sized> {
    engine: Arc<E>,
    network: Arc<dyn Network>,
}

impl<E: ?Sized + Send + Sync + 'static> Remote<E> {
    /// The engine as one node reaches it.
    pub fn new(engine: Arc<E>, network: Arc<dyn Network>) -> Remote<E> {
        Remote { engine, network }
    }

    fn read<T, X: Lost>(&self, call: impl FnOnce(&E) -> Result<T, X>) -> Result<T, X> {
        if self.network.before(false) != Verdict::Pass {
            return Err(X::unavailable());
        }
        let answer = call(&self.engine);
        if self.network.after() { answer } else { Err(X::unavailable()) }
    }

    /// `again` makes a copy of the call that owns what it needs.
    fn change<T, X: Lost, L: FnOnce(&E) + Send + 'static>(
        &self,
        call: impl FnOnce(&E) -> Result<T, X>,
        again: impl FnOnce() -> L,
    ) -> Result<T, X> {
        let later = |again: L| {
            let engine = self.engine.clone();
            self.network.later(Box::new(move || again(&engine)));
        };
        let verdict = self.network.before(true);
        match verdict {
            Verdict::Fail => return Err(X::unavailable()),
            Verdict::CallLost => return Err(X::unknown()),
            Verdict::Late => {
                later(again());
                return Err(X::unknown());
            }
            Verdict::Twice => later(again()),
            Verdict::Pass | Verdict::AnswerLost => {}
        }
        let answer = call(&self.engine);
        match self.network.after() && verdict != Verdict::AnswerLost {
            true => answer,
            false => Err(X::unknown()),
        }
    }
}

/// Errors of calls that were lost.
trait Lost {
    fn unavailable() -> Self;
    fn unknown() -> Self;
}

macro_rules! lost {
    ($($error:ident),*) => {$(
        impl Lost for $error {
            fn unavailable() -> Self {
                $error::Unavailable("simulated".to_owned())
            }
            fn unknown() -> Self {
                $error::Unknown("simulated".to_owned())
            }
        }
    )*};
}

lost!(LogError, ObjectError, CatalogError);

impl<E: FrameLog + ?Sized + 'static> FrameLog for Remote<E> {
    fn partitions(&self) -> Result<u32, LogError> {
        self.engine.partitions()
    }

    fn append(&self, partition: u32, messages: &[&[u8]]) -> Result<u64, LogError> {
        self.change(
            |log| log.append(partition, messages),
            || {
                let owned: Vec<Vec<u8>> = messages.iter().map(|bytes| bytes.to_vec()).collect();
                move |log: &E| {
                    let messages: Vec<&[u8]> = owned.iter().map(Vec::as_slice).collect();
                    let _ = log.append(partition, &messages);
                }
            },
        )
    }

    fn read(
        &self,
        partition: u32,
        from: u64,
        bytes_max: usize,
        wait: Duration,
    ) -> Result<Vec<Message>, LogError> {
        self.read(|log| log.read(partition, from, bytes_max, wait))
    }

    fn bounds(&self, partition: u32) -> Result<Range<u64>, LogError> {
        self.read(|log| log.bounds(partition))
    }

    fn renew(&self, partition: u32) {
        self.engine.renew(partition);
    }
}

impl<E: Objects + ?Sized + 'static> Objects for Remote<E> {
    fn put_new(&self, name: &str, body: &dyn ObjectBody) -> Result<(), ObjectError> {
        self.change(
            |objects| objects.put_new(name, body),
            || {
                let mut bytes = vec![0; body.size() as usize];
                let read = body.read_exact_at(0, &mut bytes);
                let name = name.to_owned();
                move |objects: &E| {
                    if read.is_ok() {
                        let _ = objects.put_new(&name, &bytes);
                    }
                }
            },
        )
    }

    fn read_range(&self, name: &str, offset: u64, buffer: &mut [u8]) -> Result<usize, ObjectError> {
        self.read(|objects| objects.read_range(name, offset, buffer))
    }

    fn size(&self, name: &str) -> Result<u64, ObjectError> {
        self.read(|objects| objects.size(name))
    }

    fn delete(&self, name: &str) -> Result<(), ObjectError> {
        self.change(
            |objects| objects.delete(name),
            || {
                let name = name.to_owned();
                move |objects: &E| drop(objects.delete(&name))
            },
        )
    }

    fn list(
        &self,
        prefix: &str,
        after: Option<&str>,
        max: usize,
    ) -> Result<Vec<ObjectInfo>, ObjectError> {
        self.read(|objects| objects.list(prefix, after, max))
    }
}

impl<E: Catalog + ?Sized + 'static> Catalog for Remote<E> {
    fn now_ns(&self) -> Result<i64, CatalogError> {
        self.read(Catalog::now_ns)
    }

    fn heartbeat(
        &self,
        node: &NodeInfo,
        leases: &[Lease],
        ttl: Duration,
    ) -> Result<View, CatalogError> {
        self.change(
            |catalog| catalog.heartbeat(node, leases, ttl),
            || {
                let (node, leases) = (node.clone(), leases.to_vec());
                move |catalog: &E| drop(catalog.heartbeat(&node, &leases, ttl))
            },
        )
    }

    fn acquire(
        &self,
        resource: Resource,
        owner: NodeId,
        ttl: Duration,
    ) -> Result<Option<Lease>, CatalogError> {
        self.change(
            |catalog| catalog.acquire(resource, owner, ttl),
            || move |catalog: &E| drop(catalog.acquire(resource, owner, ttl)),
        )
    }

    fn release(&self, lease: &Lease) -> Result<(), CatalogError> {
        let copy = *lease;
        self.change(
            |catalog| catalog.release(lease),
            || move |catalog: &E| drop(catalog.release(&copy)),
        )
    }

    fn partition(&self, lease: &Lease) -> Result<PartitionState, CatalogError> {
        self.read(|catalog| catalog.partition(lease))
    }

    fn publish(&self, lease: &Lease, publication: &Publication) -> Result<(), CatalogError> {
        let copy = *lease;
        self.change(
            |catalog| catalog.publish(lease, publication),
            || {
                let publication = publication.clone();
                move |catalog: &E| drop(catalog.publish(&copy, &publication))
            },
        )
    }

    fn replace(
        &self,
        lease: &Lease,
        replaced: &[String],
        by: Option<&SegmentRow>,
    ) -> Result<(), CatalogError> {
        let copy = *lease;
        self.change(
            |catalog| catalog.replace(lease, replaced, by),
            || {
                let (replaced, by) = (replaced.to_vec(), by.cloned());
                move |catalog: &E| drop(catalog.replace(&copy, &replaced, by.as_ref()))
            },
        )
    }

    fn snapshot(&self, times: TimeRange, segments_max: usize) -> Result<Snapshot, CatalogError> {
        self.read(|catalog| catalog.snapshot(times, segments_max))
    }

    fn segments_of(
        &self,
        partition: u32,
        from: u64,
        max: usize,
    ) -> Result<Vec<SegmentRow>, CatalogError> {
        self.read(|catalog| catalog.segments_of(partition, from, max))
    }

    fn holding(
        &self,
        node: NodeId,
        sequence: u64,
        max: usize,
    ) -> Result<Vec<SegmentRow>, CatalogError> {
        self.read(|catalog| catalog.holding(node, sequence, max))
    }

    fn unsearched(
        &self,
        partition: u32,
        wanted: &Unsearched,
        from: u64,
        max: usize,
    ) -> Result<Vec<SegmentRow>, CatalogError> {
        self.read(|catalog| catalog.unsearched(partition, wanted, from, max))
    }

    fn delete(&self, filter: &str, ends: &[u64]) -> Result<DeletionRow, CatalogError> {
        // The call may come late, and is not repeated: a second one would be a deletion of its own,
        // which covers lines that arrived since, and nobody asked for it.
        let has_happened = Arc::new(AtomicBool::new(false));
        self.change(
            |catalog| {
                has_happened.store(true, Relaxed);
                catalog.delete(filter, ends)
            },
            || {
                let (filter, ends) = (filter.to_owned(), ends.to_vec());
                let has_happened = has_happened.clone();
                move |catalog: &E| {
                    if !has_happened.load(Relaxed) {
                        drop(catalog.delete(&filter, &ends));
                    }
                }
            },
        )
    }

    fn deletions(&self) -> Result<Deletions, CatalogError> {
        self.read(|catalog| catalog.deletions())
    }

    fn cancel_deletion(&self, id: u64) -> Result<bool, CatalogError> {
        self.change(
            |catalog| catalog.cancel_deletion(id),
            || move |catalog: &E| drop(catalog.cancel_deletion(id)),
        )
    }

    fn end_deletions(&self, lease: &Lease) -> Result<u64, CatalogError> {
        let copy = *lease;
        self.change(
            |catalog| catalog.end_deletions(lease),
            || move |catalog: &E| drop(catalog.end_deletions(&copy)),
        )
    }

    fn note_searched(
        &self,
        lease: &Lease,
        names: &[String],
        searched: u64,
        rules: u64,
    ) -> Result<(), CatalogError> {
        let copy = *lease;
        self.change(
            |catalog| catalog.note_searched(lease, names, searched, rules),
            || {
                let names = names.to_vec();
                move |catalog: &E| drop(catalog.note_searched(&copy, &names, searched, rules))
            },
        )
    }

    fn rewrite(
        &self,
        lease: &Lease,
        replaced: &str,
        by: Option<&SegmentRow>,
        deleted: &[(u64, u64)],
    ) -> Result<(), CatalogError> {
        let copy = *lease;
        self.change(
            |catalog| catalog.rewrite(lease, replaced, by, deleted),
            || {
                let (replaced, by) = (replaced.to_owned(), by.cloned());
                let deleted = deleted.to_vec();
                move |catalog: &E| drop(catalog.rewrite(&copy, &replaced, by.as_ref(), &deleted))
            },
        )
    }

    fn older_than(&self, age: Duration, max: usize) -> Result<Vec<SegmentRow>, CatalogError> {
        self.read(|catalog| catalog.older_than(age, max))
    }

    fn totals(&self) -> Result<Totals, CatalogError> {
        self.read(|catalog| catalog.totals())
    }

    fn hold(&self, holder: &str, ttl: Duration) -> Result<(), CatalogError> {
        self.change(
            |catalog| catalog.hold(holder, ttl),
            || {
                let holder = holder.to_owned();
                move |catalog: &E| drop(catalog.hold(&holder, ttl))
            },
        )
    }

    fn let_go(&self, holder: &str) -> Result<(), CatalogError> {
        self.change(
            |catalog| catalog.let_go(holder),
            || {
                let holder = holder.to_owned();
                move |catalog: &E| drop(catalog.let_go(&holder))
            },
        )
    }

    fn retired(&self, grace: Duration, max: usize) -> Result<Vec<String>, CatalogError> {
        self.read(|catalog| catalog.retired(grace, max))
    }

    fn forget(&self, names: &[String]) -> Result<(), CatalogError> {
        self.change(
            |catalog| catalog.forget(names),
            || {
                let names = names.to_vec();
                move |catalog: &E| drop(catalog.forget(&names))
            },
        )
    }

    fn orphans(
        &self,
        objects: &[ObjectInfo],
        grace: Duration,
    ) -> Result<Vec<String>, CatalogError> {
        self.read(|catalog| catalog.orphans(objects, grace))
    }

    fn marks(&self, prefix: &str) -> Result<Vec<Mark>, CatalogError> {
        self.read(|catalog| catalog.marks(prefix))
    }

    fn put_mark(&self, lease: &Lease, name: &str, body: Option<&[u8]>) -> Result<(), CatalogError> {
        let copy = *lease;
        self.change(
            |catalog| catalog.put_mark(lease, name, body),
            || {
                let (name, body) = (name.to_owned(), body.map(<[u8]>::to_vec));
                move |catalog: &E| drop(catalog.put_mark(&copy, &name, body.as_deref()))
            },
        )
    }
}
