//! Membership and ownership: the leases that one node has.
//!
//! A node heartbeats, and with the same call extends its leases. Each live store has a quota of
//! partitions. A store below its quota takes free partitions; a store above its quota gives the
//! surplus back. Nobody takes a lease from a live owner.
//!
//! Invariant: the node counts a lease as ended before the catalog does. The catalog counts from
//! when it receives a renewal, the node from before it sends one, less a margin for clocks that
//! run at different rates. A node that is suspended, so that its clock stands still, may count
//! wrongly; then the epochs keep what it publishes out (see [`crate::Catalog::publish`]), and
//! queries name the offsets that they want (see [`crate::HotPart::read`]).

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use crate::catalog::{Catalog, NodeInfo, Role, View};
use crate::error::CatalogError;
use crate::ids::{Lease, NodeId, Resource};

/// Times of leases.
#[derive(Clone, Copy, Debug)]
pub struct LeaseSettings {
    /// How long a lease lasts without renewal. A node that is silent for this long counts as dead.
    pub ttl: Duration,
    /// Time between heartbeats; a third of `ttl` or less, so that two may fail.
    pub renew_every: Duration,
    /// How much earlier than the catalog a node counts its lease as ended.
    pub margin: Duration,
}

impl LeaseSettings {
    /// Leases of `ttl`: renewed after a quarter, counted as ended an eighth early.
    pub fn of_ttl(ttl: Duration) -> LeaseSettings {
        LeaseSettings { ttl, renew_every: ttl / 4, margin: ttl / 8 }
    }
}

/// What a step changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The node has a lease of a partition from now on.
    Gained(Lease),
    /// The lease is over, or is about to be given back: the node stops using it before the next
    /// step.
    Lost(Lease),
}

struct Held {
    lease: Lease,
    until_ns: u64,
}

/// The leases of one node; stepped by one thread.
pub struct Member {
    info: NodeInfo,
    settings: LeaseSettings,
    held: BTreeMap<Resource, Held>,
    /// Told to the caller with one step each.
    changes: VecDeque<Change>,
    /// Leases that the caller was told to stop using, to be given back.
    leaving: VecDeque<Lease>,
    heartbeat_ns: u64,
    view: View,
}

impl Member {
    /// A node without leases, which heartbeats at its first step.
    pub fn new(info: NodeInfo, settings: LeaseSettings) -> Member {
        Member {
            info,
            settings,
            held: BTreeMap::new(),
            changes: VecDeque::new(),
            leaving: VecDeque::new(),
            heartbeat_ns: 0,
            view: View::default(),
        }
    }

    /// This node's id.
    pub fn node(&self) -> NodeId {
        self.info.node
    }

    /// Says whether the node can take partitions: not while its disk is full or while it shuts
    /// down. While another store accepts, a node that does not gives its partitions back.
    pub fn set_accepting(&mut self, accepting: bool) {
        if self.info.accepting != accepting {
            self.info.accepting = accepting;
            self.heartbeat_ns = 0;
        }
    }

    /// Until when the node has a lease, by the monotonic clock that it is stepped with.
    pub fn until_ns(&self, lease: &Lease) -> Option<u64> {
        self.held.get(&lease.resource).filter(|held| held.lease == *lease).map(|held| held.until_ns)
    }

    /// All nodes and leases, as of the last heartbeat.
    pub fn view(&self) -> &View {
        &self.view
    }

    /// Does the next thing that is due, with one call of the catalog at most. `partitions` is the
    /// log's number of them; `now_ns` is monotonic. After an error, the caller waits a little and
    /// steps again.
    pub fn step(
        &mut self,
        catalog: &dyn Catalog,
        partitions: u32,
        now_ns: u64,
    ) -> Result<Option<Change>, CatalogError> {
        self.expire(now_ns);
        if let Some(change) = self.changes.pop_front() {
            return Ok(Some(change));
        }
        if let Some(lease) = self.leaving.pop_front() {
            // Tried once. If it fails, the lease expires by itself.
            catalog.release(&lease)?;
            return Ok(None);
        }
        if now_ns >= self.heartbeat_ns {
            return self.heartbeat(catalog, now_ns).map(|()| None);
        }
        let quota = self.quota(partitions);
        let owned = self.held.keys().filter(|held| matches!(held, Resource::Partition(_))).count();
        if owned > quota {
            let surplus = self.held.keys().rfind(|held| matches!(held, Resource::Partition(_)));
            let surplus = *surplus.expect("it owns partitions");
            self.give_up(surplus);
        } else if owned < quota
            && let Some(free) = self.free(partitions)
            && let Some(lease) = self.acquire(catalog, free, now_ns)?
        {
            self.changes.push_back(Change::Gained(lease));
        }
        Ok(self.changes.pop_front())
    }

    /// Takes a resource, which the heartbeats extend from then on; `None` while another node has
    /// it. For jobs; partitions are taken by [`step`](Self::step).
    pub fn acquire(
        &mut self,
        catalog: &dyn Catalog,
        resource: Resource,
        now_ns: u64,
    ) -> Result<Option<Lease>, CatalogError> {
        let lease = catalog.acquire(resource, self.info.node, self.settings.ttl)?;
        match lease {
            Some(lease) => {
                self.held.insert(resource, Held { lease, until_ns: self.valid_until(now_ns) });
            }
            // Somebody was faster. The next heartbeat tells who.
            None => match self.view.leases.iter_mut().find(|row| row.resource == resource) {
                Some(row) => (row.owner, row.live) = (None, true),
                None => self.heartbeat_ns = 0,
            },
        }
        Ok(lease)
    }

    /// Gives a lease back: the next step says that it is lost, and the step after that tells the
    /// catalog.
    pub fn give_up(&mut self, resource: Resource) {
        if let Some(held) = self.held.remove(&resource) {
            self.changes.push_back(Change::Lost(held.lease));
            self.leaving.push_back(held.lease);
        }
    }

    /// Drops a lease that the catalog called over. The caller has stopped using it.
    pub fn is_over(&mut self, lease: &Lease) {
        if self.until_ns(lease).is_some() {
            self.held.remove(&lease.resource);
        }
    }

    fn valid_until(&self, sent_ns: u64) -> u64 {
        sent_ns + nanos(self.settings.ttl.saturating_sub(self.settings.margin))
    }

    fn expire(&mut self, now_ns: u64) {
        for (_, held) in self.held.extract_if(.., |_, held| held.until_ns <= now_ns) {
            self.changes.push_back(Change::Lost(held.lease));
        }
    }

    fn heartbeat(&mut self, catalog: &dyn Catalog, now_ns: u64) -> Result<(), CatalogError> {
        let leases: Vec<Lease> = self.held.values().map(|held| held.lease).collect();
        self.view = catalog.heartbeat(&self.info, &leases, self.settings.ttl)?;
        self.heartbeat_ns = now_ns + nanos(self.settings.renew_every);
        let until_ns = self.valid_until(now_ns);
        for lease in leases {
            let holds = self.view.leases.iter().any(|row| {
                (row.resource, row.owner, row.epoch)
                    == (lease.resource, Some(lease.owner), lease.epoch)
            });
            match self.held.get_mut(&lease.resource) {
                Some(held) if holds => held.until_ns = until_ns,
                _ => {
                    self.held.remove(&lease.resource);
                    self.changes.push_back(Change::Lost(lease));
                }
            }
        }
        Ok(())
    }

    /// How many partitions this node is to have. Stores share them evenly, in the order of their
    /// ids; those with the lowest ids have one more if there is a remainder.
    fn quota(&self, partitions: u32) -> usize {
        let stores: Vec<NodeId> = self
            .view
            .nodes
            .iter()
            .filter(|row| row.info.roles.contains(&Role::Store) && row.info.accepting)
            .filter(|row| row.silent < self.settings.ttl)
            .map(|row| row.info.node)
            .collect();
        match stores.iter().position(|node| *node == self.info.node) {
            Some(rank) if self.info.accepting => {
                let (each, rest) =
                    (partitions as usize / stores.len(), partitions as usize % stores.len());
                each + usize::from(rank < rest)
            }
            // It does not accept. Without another store that does, it keeps what it has, so that
            // its newest frames can still be queried.
            _ if stores.is_empty() => usize::MAX,
            _ => 0,
        }
    }

    /// A partition that nobody has, or that the catalog counts as this node's and this node does
    /// not: from before a restart, or because an answer was lost.
    fn free(&self, partitions: u32) -> Option<Resource> {
        if !self.info.accepting {
            return None;
        }
        // Nodes begin at different places, so that they seldom want the same one.
        let first = self.info.node.0 % partitions.max(1);
        (0..partitions)
            .map(|index| Resource::Partition((first + index) % partitions))
            .filter(|resource| !self.held.contains_key(resource))
            .find(|resource| {
                let row = self.view.leases.iter().find(|row| row.resource == *resource);
                row.is_none_or(|row| !row.live || row.owner == Some(self.info.node))
            })
    }
}

pub(crate) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX / 4).min(u64::MAX / 4)
}
