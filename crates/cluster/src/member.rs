//! Membership and ownership: the leases that one node has.
//!
//! A node heartbeats, and with the same call extends its leases. Each live store has a quota of
//! partitions. A store below its quota takes free partitions; a store above its quota gives the
//! surplus back. One store has the lease of the programs. Nobody takes a lease from a live owner.
//!
//! Invariant: the node counts a lease as ended before the catalog does. The catalog counts from
//! when it receives a renewal, the node from before it sends one, less a margin for clocks that
//! run at different rates. A node that is suspended, so that its clock stands still, may count
//! wrongly; then the epochs keep what it publishes out (see [`crate::Catalog::publish`]), and
//! queries name the offsets that they want (see [`crate::HotPart::read`]).

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use crate::catalog::{Catalog, LeaseRow, NodeInfo, Role, View};
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
    /// The node has the lease of a partition, or of the programs, from now on.
    Gained(Lease),
    /// The lease is over, or is about to be given back: the node stops using it before the next
    /// step.
    Lost(Lease),
    /// The lease is over because the catalog did not renew it in time; nobody else is known to have
    /// it. The node stops publishing before the next step. It may answer queries from what it has
    /// until [`Member::hears_catalog`] again.
    Expired(Lease),
}

/// A call of the catalog that a member needs. It is made without the member, so that a catalog that
/// answers late holds up nobody who asks the member for a lease meanwhile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call {
    /// Says that the node lives, and extends leases.
    Heartbeat(NodeInfo, Vec<Lease>),
    /// Takes a resource.
    Acquire(NodeId, Resource),
    /// Gives a lease back.
    Release(Lease),
}

/// What a call brought.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// To a heartbeat.
    View(View),
    /// To an acquisition; `None` while another node has the resource.
    Acquired(Option<Lease>),
    /// To a release.
    Released,
}

/// What a member has to be done next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// Nothing at present.
    Idle,
    /// The caller is told this.
    Told(Change),
    /// The caller makes this call, and hands [`Member::answered`] its answer.
    Call(Call),
}

impl Call {
    /// Makes the call, with leases of this length.
    pub fn make(&self, catalog: &dyn Catalog, ttl: Duration) -> Result<Answer, CatalogError> {
        match self {
            Call::Heartbeat(info, leases) => catalog.heartbeat(info, leases, ttl).map(Answer::View),
            Call::Acquire(node, resource) => {
                catalog.acquire(*resource, *node, ttl).map(Answer::Acquired)
            }
            Call::Release(lease) => catalog.release(lease).map(|()| Answer::Released),
        }
    }
}

struct Held {
    lease: Lease,
    until_ns: u64,
}

/// The leases of one node. One thread steps it; others may take and give up leases meanwhile.
pub struct Member {
    info: NodeInfo,
    settings: LeaseSettings,
    held: BTreeMap<Resource, Held>,
    /// Told to the caller with one step each.
    changes: VecDeque<Change>,
    /// Leases that the caller was told to stop using, to be given back.
    leaving: VecDeque<Lease>,
    heartbeat_ns: u64,
    /// Whether the catalog answered the last heartbeat, and the calls since.
    hears_catalog: bool,
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
            hears_catalog: false,
            view: View::default(),
        }
    }

    /// Whether the catalog answered the last heartbeat, and the calls since.
    pub fn hears_catalog(&self) -> bool {
        self.hears_catalog
    }

    /// This node's id.
    pub fn node(&self) -> NodeId {
        self.info.node
    }

    /// Says whether the node can take partitions: not while its disk is full, for example. While
    /// another store accepts, a node that does not gives its partitions back. While none does,
    /// those of a node that dies go to any other, so that their newest frames can be queried.
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
        match self.next(partitions, now_ns) {
            Next::Idle => Ok(None),
            Next::Told(change) => Ok(Some(change)),
            Next::Call(call) => {
                let answer = call.make(catalog, self.settings.ttl);
                let is_acquisition = matches!(call, Call::Acquire(..));
                let lease = self.answered(call, answer, now_ns)?;
                if let (Some(lease), true) = (lease, is_acquisition) {
                    self.changes.push_back(Change::Gained(lease));
                    return Ok(self.changes.pop_front());
                }
                Ok(None)
            }
        }
    }

    /// What is due next. Its call may be made while others use the member.
    pub fn next(&mut self, partitions: u32, now_ns: u64) -> Next {
        self.expire(now_ns);
        if let Some(change) = self.changes.pop_front() {
            return Next::Told(change);
        }
        if let Some(lease) = self.leaving.pop_front() {
            // Tried once. If it fails, the lease expires by itself.
            return Next::Call(Call::Release(lease));
        }
        if now_ns >= self.heartbeat_ns {
            let leases = self.held.values().map(|held| held.lease).collect();
            return Next::Call(Call::Heartbeat(self.info.clone(), leases));
        }
        let quota = self.quota(partitions);
        let owned = self.held.keys().filter(|held| matches!(held, Resource::Partition(_))).count();
        if owned > quota {
            let surplus = self.held.keys().rfind(|held| matches!(held, Resource::Partition(_)));
            let surplus = *surplus.expect("it owns partitions");
            self.give_up(surplus);
        } else if quota == 0 && !self.info.accepting {
            self.give_up(Resource::Programs);
        } else if let Some(free) = self.wanted(partitions, owned < quota) {
            return Next::Call(self.acquisition(free));
        }
        self.changes.pop_front().map_or(Next::Idle, Next::Told)
    }

    /// The call that takes a resource, which the heartbeats extend from then on. For jobs;
    /// partitions are taken by [`step`](Self::step).
    pub fn acquisition(&self, resource: Resource) -> Call {
        Call::Acquire(self.info.node, resource)
    }

    /// Notes the answer to a call that was sent at `sent_ns`, by the monotonic clock: from then on
    /// a lease counts. Returns the lease of an acquisition; `None` while another node has it.
    /// Whoever made the call begins to use the lease.
    ///
    /// Errors: that of the call.
    pub fn answered(
        &mut self,
        call: Call,
        answer: Result<Answer, CatalogError>,
        sent_ns: u64,
    ) -> Result<Option<Lease>, CatalogError> {
        let answer = match (answer, &call) {
            (Ok(answer), _) => answer,
            (Err(error), Call::Heartbeat(..)) => {
                self.hears_catalog = false;
                return Err(error);
            }
            (Err(error), _) => {
                // A lease that ends during a long call is over because of that, and not because the
                // node slept.
                if matches!(error, CatalogError::Unavailable(_) | CatalogError::Unknown(_)) {
                    self.hears_catalog = false;
                }
                return Err(error);
            }
        };
        match (call, answer) {
            (Call::Heartbeat(_, leases), Answer::View(view)) => {
                self.heard(&leases, view, sent_ns);
                Ok(None)
            }
            (Call::Acquire(_, resource), Answer::Acquired(lease)) => {
                match lease {
                    Some(lease) => {
                        let held = Held { lease, until_ns: self.valid_until(sent_ns) };
                        self.held.insert(resource, held);
                    }
                    // Somebody was faster. The next heartbeat tells who.
                    None => {
                        match self.view.leases.iter_mut().find(|row| row.resource == resource) {
                            Some(row) => (row.owner, row.live) = (None, true),
                            None => self.heartbeat_ns = 0,
                        }
                    }
                }
                Ok(lease)
            }
            _ => Ok(None),
        }
    }

    /// Takes a resource with one call. See [`acquisition`](Self::acquisition).
    pub fn acquire(
        &mut self,
        catalog: &dyn Catalog,
        resource: Resource,
        now_ns: u64,
    ) -> Result<Option<Lease>, CatalogError> {
        let call = self.acquisition(resource);
        let answer = call.make(catalog, self.settings.ttl);
        self.answered(call, answer, now_ns)
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
            let change = if self.hears_catalog { Change::Lost } else { Change::Expired };
            self.changes.push_back(change(held.lease));
        }
    }

    /// Notes the answer to a heartbeat that extended some leases. Those that the node gave up or
    /// took anew meanwhile are left as they are.
    fn heard(&mut self, leases: &[Lease], view: View, sent_ns: u64) {
        self.hears_catalog = true;
        self.view = view;
        // Thousands of partitions are looked for among them.
        self.view.leases.sort_unstable_by_key(|row| row.resource);
        self.heartbeat_ns = sent_ns + nanos(self.settings.renew_every);
        let until_ns = self.valid_until(sent_ns);
        for lease in leases {
            let holds = self
                .lease_row(lease.resource)
                .is_some_and(|row| (row.owner, row.epoch) == (Some(lease.owner), lease.epoch));
            match self.held.get_mut(&lease.resource) {
                Some(held) if held.lease != *lease => {}
                Some(held) if holds => held.until_ns = until_ns,
                Some(_) => {
                    self.held.remove(&lease.resource);
                    self.changes.push_back(Change::Lost(*lease));
                }
                None => {}
            }
        }
    }

    /// How many partitions this node is to have. Stores share them evenly, in the order of their
    /// ids; those with the lowest ids have one more if there is a remainder.
    fn quota(&self, partitions: u32) -> usize {
        let stores = self.accepting_stores();
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

    /// The live stores that take partitions, in the order of their ids.
    fn accepting_stores(&self) -> Vec<NodeId> {
        let accepting = self
            .view
            .nodes
            .iter()
            .filter(|row| row.info.roles.contains(&Role::Store) && row.info.accepting)
            .filter(|row| row.silent < self.settings.ttl);
        accepting.map(|row| row.info.node).collect()
    }

    /// What the node takes next: a free partition, if it may have one more, or the programs.
    fn wanted(&self, partitions: u32, wants_partition: bool) -> Option<Resource> {
        let may_take = self.info.accepting || self.accepting_stores().is_empty();
        if !may_take || !self.info.roles.contains(&Role::Store) {
            return None;
        }
        // Nodes begin at different places, so that they seldom want the same one.
        let spread = u64::from(self.info.node.0.wrapping_mul(0x9E37_79B1));
        let first = ((spread * u64::from(partitions)) >> 32) as u32;
        let all = (0..partitions).map(|index| Resource::Partition((first + index) % partitions));
        let mut wanted = all.filter(|_| wants_partition).chain([Resource::Programs]);
        wanted.find(|resource| self.is_free(*resource))
    }

    /// What the last heartbeat told of a lease.
    fn lease_row(&self, resource: Resource) -> Option<&LeaseRow> {
        let leases = &self.view.leases;
        let found = leases.binary_search_by_key(&resource, |row| row.resource);
        found.ok().map(|index| &leases[index])
    }

    /// Whether nobody has a resource, or the catalog counts it as this node's and this node does
    /// not: from before a restart, or because an answer was lost.
    fn is_free(&self, resource: Resource) -> bool {
        let row = self.lease_row(resource);
        !self.held.contains_key(&resource)
            && row.is_none_or(|row| !row.live || row.owner == Some(self.info.node))
    }
}

pub(crate) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX / 4).min(u64::MAX / 4)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use platform::{Clock, ManualClock};

    use super::*;
    use crate::sim::SimCatalog;

    const PARTITIONS: u32 = 7;
    const TTL: Duration = Duration::from_secs(8);

    struct Cluster {
        clock: Arc<ManualClock>,
        catalog: SimCatalog,
        members: Vec<Member>,
        partitions: u32,
    }

    impl Cluster {
        fn new() -> Cluster {
            let clock = Arc::new(ManualClock::new(0));
            let (catalog, members) = (SimCatalog::new(clock.clone()), Vec::new());
            Cluster { catalog, clock, members, partitions: PARTITIONS }
        }

        fn join(&mut self, node: u32) {
            let info = NodeInfo {
                node: NodeId(node),
                name: String::new(),
                address: String::new(),
                roles: vec![Role::Store],
                version: String::new(),
                accepting: true,
            };
            self.members.push(Member::new(info, LeaseSettings::of_ttl(TTL)));
        }

        /// Runs all members for some seconds; returns how many leases were lost.
        fn run(&mut self, seconds: u64) -> usize {
            let mut lost = 0;
            for _ in 0..seconds * 10 {
                self.clock.advance_ns(100_000_000);
                for member in &mut self.members {
                    let now_ns = self.clock.monotonic_ns();
                    let change = member.step(&self.catalog, self.partitions, now_ns).unwrap();
                    let is_partition =
                        |lease: Lease| matches!(lease.resource, Resource::Partition(_));
                    lost += usize::from(matches!(change, Some(Change::Lost(l)) if is_partition(l)));
                }
            }
            lost
        }

        /// Partitions of each member, the most first.
        fn shares(&self) -> Vec<usize> {
            let partitions = |member: &Member| {
                member.held.keys().filter(|held| matches!(held, Resource::Partition(_))).count()
            };
            let mut shares: Vec<usize> = self.members.iter().map(partitions).collect();
            shares.sort_by(|a, b| b.cmp(a));
            shares
        }

        /// The members that run the programs.
        fn with_programs(&self) -> Vec<u32> {
            let have = self.members.iter().filter(|m| m.held.contains_key(&Resource::Programs));
            have.map(|member| member.info.node.0).collect()
        }
    }

    #[test]
    fn stores_share_partitions_evenly_and_move_few() {
        let mut cluster = Cluster::new();
        cluster.join(1);
        assert_eq!((cluster.run(5), cluster.shares()), (0, vec![7]));
        assert_eq!(cluster.with_programs(), [1]);
        cluster.join(2);
        assert_eq!((cluster.run(10), cluster.shares()), (3, vec![4, 3]));
        cluster.join(3);
        assert_eq!((cluster.run(10), cluster.shares()), (2, vec![3, 2, 2]));
        // Nothing moves without a reason.
        assert_eq!(cluster.run(60), 0);
        // A store that does not accept gives its partitions back.
        cluster.members[0].set_accepting(false);
        assert_eq!((cluster.run(10), cluster.shares()), (3, vec![4, 3, 0]));
        assert!(matches!(cluster.with_programs()[..], [2 | 3]));
        cluster.members[1].set_accepting(false);
        assert_eq!((cluster.run(10), cluster.shares()), (4, vec![7, 0, 0]));
        // When none accepts, the last keeps what it has.
        cluster.members[2].set_accepting(false);
        assert_eq!((cluster.run(30), cluster.shares()), (0, vec![7, 0, 0]));
        cluster.members[0].set_accepting(true);
        assert_eq!((cluster.run(30), cluster.shares()), (7, vec![7, 0, 0]));
    }

    #[test]
    fn a_dead_node_is_replaced_after_its_leases() {
        let mut cluster = Cluster::new();
        cluster.join(1);
        cluster.join(2);
        cluster.run(10);
        assert_eq!(cluster.shares(), [4, 3]);
        cluster.members.remove(1);
        cluster.run(5);
        assert_eq!(cluster.shares(), [4]);
        cluster.run(10);
        assert_eq!((cluster.shares(), cluster.with_programs()), (vec![7], vec![1]));
    }

    /// Better a store whose disk is full than none.
    #[test]
    fn while_no_store_accepts_others_take_what_a_dead_one_had() {
        let mut cluster = Cluster::new();
        (1..=3).for_each(|node| cluster.join(node));
        cluster.run(20);
        cluster.members.iter_mut().for_each(|member| member.set_accepting(false));
        cluster.run(20);
        assert_eq!(cluster.shares().iter().sum::<usize>(), 7);
        cluster.members.remove(0);
        cluster.run(20);
        assert_eq!(cluster.shares().iter().sum::<usize>(), 7);
        assert_eq!(cluster.with_programs().len(), 1);
        // One that accepts again has all, and then shares.
        cluster.members[0].set_accepting(true);
        cluster.run(20);
        assert_eq!(cluster.shares(), [7, 0]);
        cluster.members[1].set_accepting(true);
        cluster.run(20);
        assert_eq!(cluster.shares(), [4, 3]);
    }

    #[test]
    fn thousands_of_partitions_are_shared_evenly() {
        let mut cluster = Cluster::new();
        cluster.partitions = 4_096;
        (1..=64).for_each(|node| cluster.join(node));
        cluster.run(60);
        assert_eq!(cluster.shares(), [64; 64]);
        // Those of a store that dies go to all others.
        cluster.members.remove(10);
        cluster.run(60);
        let shares = cluster.shares();
        assert_eq!(shares.iter().sum::<usize>(), 4_096);
        assert!(shares.iter().all(|share| (65..=66).contains(share)), "{shares:?}");
    }

    #[test]
    fn more_stores_than_partitions() {
        let mut cluster = Cluster::new();
        (1..=9).for_each(|node| cluster.join(node));
        cluster.run(20);
        assert_eq!(cluster.shares(), [1, 1, 1, 1, 1, 1, 1, 0, 0]);
    }

    /// A catalog that fails is no reason to serve for longer.
    #[test]
    fn a_node_stops_before_the_catalog_gives_its_lease_away() {
        let mut cluster = Cluster::new();
        cluster.join(1);
        cluster.run(5);
        let member = &mut cluster.members[0];
        let renewed_ns = member.heartbeat_ns - nanos(member.settings.renew_every);
        let until_ns = member.held.values().map(|held| held.until_ns).max().unwrap();
        assert_eq!(until_ns, renewed_ns + 7_000_000_000);
        // Its process is stopped until a little before; then until the end.
        cluster.clock.advance_ns((until_ns - cluster.clock.monotonic_ns()) as i64);
        let now_ns = cluster.clock.monotonic_ns();
        let change = member.step(&cluster.catalog, PARTITIONS, now_ns).unwrap();
        assert!(matches!(change, Some(Change::Lost(_))));
        assert!(member.held.is_empty());
        let view = cluster.catalog.heartbeat(&member.info, &[], TTL).unwrap();
        assert_eq!(view.leases.iter().filter(|row| row.live).count(), PARTITIONS as usize + 1);
    }

    /// While a heartbeat is under way, jobs end and begin, and a partition is lost.
    #[test]
    fn leases_change_while_a_call_is_under_way() {
        let mut cluster = Cluster::new();
        cluster.join(1);
        cluster.run(5);
        let Cluster { clock, catalog, members, .. } = &mut cluster;
        let (clock, catalog, member) = (&*clock, &*catalog, &mut members[0]);
        let take = |member: &mut Member, resource| {
            member.acquire(catalog, resource, clock.monotonic_ns()).unwrap().unwrap()
        };
        let ended = take(member, Resource::Merge(1));
        let again = take(member, Resource::Merge(2));
        let kept = take(member, Resource::Merge(3));
        clock.advance_ns(3_000_000_000);
        let sent_ns = clock.monotonic_ns();
        let Next::Call(call @ Call::Heartbeat(..)) = member.next(PARTITIONS, sent_ns) else {
            panic!("a heartbeat is due");
        };
        let answer = call.make(catalog, TTL);
        clock.advance_ns(1_000_000_000);
        member.give_up(ended.resource);
        member.is_over(&again);
        let newer = take(member, again.resource);
        let first = Lease { resource: Resource::Partition(0), owner: NodeId(1), epoch: 1 };
        member.is_over(&first);
        assert_eq!(member.answered(call, answer, sent_ns), Ok(None));
        let until = |lease| member.until_ns(lease);
        // What was kept counts from when the heartbeat was sent, what was taken since from then.
        assert_eq!(until(&kept), Some(sent_ns + 7_000_000_000));
        assert_eq!(until(&newer), Some(sent_ns + 8_000_000_000));
        assert_eq!((until(&ended), until(&again), until(&first)), (None, None, None));
        // The one that was given up is told and released, and no other is lost.
        let now_ns = clock.monotonic_ns();
        assert_eq!(member.next(PARTITIONS, now_ns), Next::Told(Change::Lost(ended)));
        assert_eq!(member.next(PARTITIONS, now_ns), Next::Call(Call::Release(ended)));
        let next = member.next(PARTITIONS, now_ns);
        assert_eq!(next, Next::Call(Call::Acquire(NodeId(1), first.resource)));
    }

    #[test]
    fn leases_of_a_former_life_are_taken_again_at_once() {
        let mut cluster = Cluster::new();
        cluster.join(1);
        cluster.run(5);
        cluster.members.clear();
        cluster.join(1);
        cluster.run(2);
        assert_eq!(cluster.shares(), [7]);
        assert!(cluster.members[0].held.values().all(|held| held.lease.epoch == 2));
    }
}
