//! The simulated world: sites, engines, time, chance.
//!
//! One thread runs everything. A node that is in a call is locked; the network lets others run
//! before the call happens, and before it is answered. So calls of several nodes overlap.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use fastrand::Rng;
use platform::{Clock, ManualClock};

use super::Weakness;
use super::collector::CollectorNode;
use super::model::Model;
use super::site::{Disk, Link, Node, Site};
use super::store::StoreNode;
use super::weak::WeakCatalog;
use crate::catalog::Catalog;
use crate::hot::HotPart;
use crate::kept::KeptCatalog;
use crate::sim::{Remote, SimCatalog, SimLog, SimObjects};

/// Nodes that are in calls at the same time.
const DEPTH_MAX: usize = 3;
const START_NS: i64 = 1_000_000_000_000;

/// What happened in a history.
#[derive(Clone, Copy, Debug)]
pub enum Count {
    Complete,
    Incomplete,
    Failed,
    Lines,
    Duplicates,
    Openings,
    Published,
    /// Publishers that were told that their lease is over.
    Over,
    /// Jobs that were told so.
    Overtaken,
    Merged,
    /// Of them, merges beyond the smallest size.
    Grown,
    Dropped,
    /// Sealing or merging failed.
    Unsealed,
    /// Lines that deletions removed from segments.
    Deleted,
    /// A reader that got nothing reached its partition anew.
    Renewed,
    /// Frames that were appended although one before them had failed.
    OutOfOrder,
    /// A query was answered from a snapshot that was taken before it.
    FromKept,
    /// A query was answered with what the log had before, and with all that owners have.
    Open,
}

/// How often each thing happened.
pub type Counts = [u64; Count::Open as usize + 1];

type Later = (i64, Box<dyn FnOnce() + Send>);

pub struct World {
    pub partitions: u32,
    pub ttl: Duration,
    pub grace: Duration,
    pub list_every: Duration,
    pub age_max: Option<Duration>,
    pub segment_age_max: Duration,
    pub keep_published: Duration,
    pub lines_max: usize,
    pub faults_permille: usize,
    pub weakness: Option<Weakness>,
    pub sites: Vec<Site>,
    pub model: Mutex<Model>,
    pub sim_catalog: Arc<SimCatalog>,
    pub sim_objects: Arc<SimObjects>,
    /// The last snapshot of the catalog that the site of queries has.
    pub kept: KeptCatalog,
    /// The ends of the partitions that the site of queries heard of last, and the last
    /// acknowledgement before it asked.
    pub ends: Mutex<Option<(Vec<u64>, u64)>>,
    log: Arc<SimLog>,
    catalog: Arc<WeakCatalog>,
    clock: Arc<ManualClock>,
    random: Mutex<Rng>,
    later: Mutex<Vec<Later>>,
    /// The hot parts that a running process has, whether or not it should.
    hot_parts: Mutex<BTreeMap<(usize, u32), Arc<HotPart>>>,
    depth: AtomicUsize,
    calm: AtomicBool,
    closing: AtomicBool,
    node_ids: AtomicUsize,
    /// What happened, if it is to be printed.
    events: Option<Mutex<Vec<String>>>,
    counts: Mutex<Counts>,
    this: Weak<World>,
}

impl World {
    pub fn new(seed: u64, weakness: Option<Weakness>, is_traced: bool) -> Arc<World> {
        let mut random = Rng::with_seed(seed);
        let clock = Arc::new(ManualClock::new(START_NS));
        let stores = random.usize(3..=5);
        let collectors = random.usize(1..=2);
        let mut sites = Vec::new();
        for index in 0..stores + collectors {
            let is_store = index < stores;
            let kind = if is_store { "store" } else { "collector" };
            // Clocks run up to 2 % wrong.
            sites.push(Site::new(format!("{kind}-{index}"), is_store, random.u64(980..=1020)));
        }
        // Queries have a site without a node.
        sites.push(Site::new("queries".to_owned(), false, 1000));
        let partitions = random.u32(1..=4);
        let sim_catalog = Arc::new(SimCatalog::new(clock.clone()));
        Arc::new_cyclic(|this: &Weak<World>| {
            let (world, catalog) = (this.clone(), sim_catalog.clone());
            let between = Box::new(move || {
                let Some(world) = world.upgrade() else { return true };
                world.run_a_little();
                world.is_calm() || !world.chance(100)
            });
            let grace = Duration::from_secs(random.u64(1..=20));
            let kept_for = match weakness {
                Some(Weakness::SnapshotForEver) => Duration::MAX,
                _ => grace,
            };
            World {
                partitions,
                ttl: Duration::from_secs(8),
                grace,
                list_every: Duration::from_secs(random.u64(0..=10)),
                kept: KeptCatalog::new(kept_for),
                ends: Mutex::default(),
                age_max: random.bool().then(|| Duration::from_secs(random.u64(10..=40))),
                segment_age_max: Duration::from_millis(random.u64(500..=4000)),
                keep_published: Duration::from_millis(random.u64(0..=3000)),
                lines_max: random.usize(20..=120),
                faults_permille: [0, 20, 80, 200][random.usize(..4)],
                weakness,
                sites,
                model: Mutex::default(),
                sim_objects: Arc::new(SimObjects::new(clock.clone())),
                log: Arc::new(SimLog::new(partitions)),
                catalog: Arc::new(WeakCatalog { catalog, weakness, between }),
                sim_catalog,
                clock,
                random: Mutex::new(random),
                later: Mutex::default(),
                hot_parts: Mutex::default(),
                depth: AtomicUsize::new(0),
                calm: AtomicBool::new(false),
                closing: AtomicBool::new(false),
                node_ids: AtomicUsize::new(1000),
                events: is_traced.then(Mutex::default),
                counts: Mutex::default(),
                this: this.clone(),
            }
        })
    }

    // Chance and time.

    pub fn chance(&self, permille: usize) -> bool {
        self.below(1000) < permille
    }

    /// A number below `end`; 0 if that is 0.
    pub fn below(&self, end: usize) -> usize {
        self.random.lock().unwrap().usize(..end.max(1))
    }

    pub fn now_ns(&self) -> i64 {
        self.clock.now_ns()
    }

    pub fn monotonic_ns(&self, site: usize) -> u64 {
        self.sites[site].monotonic_ns(self.now_ns())
    }

    pub fn advance(&self, ms_max: usize) {
        self.clock.advance_ns(self.below(ms_max * 1000) as i64 * 1000);
        let now_ns = self.now_ns();
        loop {
            let due = {
                let mut later = self.later.lock().unwrap();
                let index = later.iter().position(|(due_ns, _)| *due_ns <= now_ns);
                index.map(|index| later.swap_remove(index).1)
            };
            let Some(call) = due else { break };
            self.trace(|| "a late call happens".to_owned());
            call();
        }
    }

    /// Keeps a call for up to three times of a lease.
    pub fn later(&self, call: Box<dyn FnOnce() + Send>) {
        let delay_ns = self.below(3 * self.ttl.as_micros() as usize) as i64 * 1000;
        self.later.lock().unwrap().push((self.now_ns() + delay_ns, call));
    }

    pub fn dropped_before_ns(&self) -> Option<i64> {
        self.age_max.map(|age| self.now_ns() - age.as_nanos() as i64)
    }

    pub fn sweep_grace(&self) -> Duration {
        match self.weakness {
            Some(Weakness::DeleteAtOnce) => Duration::ZERO,
            _ => self.grace,
        }
    }

    pub fn trace(&self, event: impl FnOnce() -> String) {
        if let Some(events) = &self.events {
            let seconds = (self.now_ns() - START_NS) as f64 / 1e9;
            events.lock().unwrap().push(format!("{seconds:8.3} {}", event()));
        }
    }

    pub fn count(&self, what: Count, number: u64) {
        self.counts.lock().unwrap()[what as usize] += number;
    }

    pub fn counts(&self) -> Counts {
        *self.counts.lock().unwrap()
    }

    pub fn events(&self) -> Vec<String> {
        self.events.as_ref().map(|events| events.lock().unwrap().clone()).unwrap_or_default()
    }

    // Engines.

    pub fn remote_log(&self, site: usize) -> Remote<SimLog> {
        Remote::new(self.log.clone(), self.link(site, 0))
    }

    pub fn remote_objects(&self, site: usize) -> Remote<SimObjects> {
        Remote::new(self.sim_objects.clone(), self.link(site, 1))
    }

    pub fn remote_catalog(&self, site: usize) -> Remote<dyn Catalog> {
        Remote::new(self.catalog.clone(), self.link(site, 2))
    }

    fn link(&self, site: usize, engine: usize) -> Arc<Link> {
        Arc::new(Link { world: self.this.clone(), site, engine })
    }

    pub fn query_site(&self) -> usize {
        self.sites.len() - 1
    }

    pub fn new_node_id(&self) -> u32 {
        self.node_ids.fetch_add(1, Relaxed) as u32
    }

    // Hot parts.

    pub fn register(&self, site: usize, partition: u32, epoch: u64, hot: &Arc<HotPart>) {
        self.trace(|| format!("{site}: opened {partition} in epoch {epoch} at {}", hot.position()));
        self.hot_parts.lock().unwrap().insert((site, partition), hot.clone());
    }

    pub fn unregister(&self, site: usize, partition: u32) {
        self.hot_parts.lock().unwrap().remove(&(site, partition));
    }

    /// Takes a hot part away that ended its service; another one of the partition stays.
    pub fn unregister_this(&self, site: usize, partition: u32, hot: &Arc<HotPart>) {
        let mut hot_parts = self.hot_parts.lock().unwrap();
        if hot_parts.get(&(site, partition)).is_some_and(|known| Arc::ptr_eq(known, hot)) {
            hot_parts.remove(&(site, partition));
        }
    }

    pub fn hot_part(&self, site: usize, partition: u32) -> Option<Arc<HotPart>> {
        self.hot_parts.lock().unwrap().get(&(site, partition)).cloned()
    }

    // What happens.

    pub fn is_calm(&self) -> bool {
        self.calm.load(Relaxed)
    }

    pub fn is_closing(&self) -> bool {
        self.closing.load(Relaxed)
    }

    /// No new lines and no faults from now on.
    pub fn calm_down(&self) {
        self.trace(|| "calm".to_owned());
        self.calm.store(true, Relaxed);
        self.closing.store(true, Relaxed);
        for site in &self.sites {
            site.cut_until_ns.iter().for_each(|cut| cut.store(0, Relaxed));
            site.is_disk_full.store(false, Relaxed);
            site.paused_until_ns.store(0, Relaxed);
        }
    }

    /// Lets other nodes run while `site` is in a call, now and then for long.
    pub fn pause_in_call(&self, site: usize) {
        if self.is_calm() || !self.chance(40) {
            return;
        }
        let began_ns = self.now_ns();
        if self.chance(150) {
            // Longer than a lease. Half of the time its clock stands still, as that of a suspended
            // machine does.
            let is_suspended = self.chance(500);
            self.trace(|| format!("{site}: stuck in a call"));
            for _ in 0..20 {
                self.advance(1600);
                self.run_a_little();
            }
            if is_suspended {
                let stood_ns = (self.now_ns() - began_ns) as u64;
                self.sites[site].clock_stood_ns.fetch_add(stood_ns, Relaxed);
            }
            self.trace(|| format!("{site}: goes on, suspended: {is_suspended}"));
        } else {
            self.run_a_little();
        }
    }

    /// A few events, unless too many nodes are in calls.
    pub fn run_a_little(&self) {
        if self.depth.fetch_add(1, Relaxed) < DEPTH_MAX {
            for _ in 0..1 + self.below(8) {
                self.event();
            }
        }
        self.depth.fetch_sub(1, Relaxed);
    }

    /// One event: a step of a node, or a fault.
    pub fn event(&self) {
        self.advance(if self.is_calm() { 100 } else { 200 });
        if !self.is_calm() && self.chance(25) {
            self.fault();
        }
        let site = self.below(self.sites.len() - 1);
        self.step(site);
    }

    pub fn step(&self, site: usize) {
        let place = &self.sites[site];
        if place.is_paused(self.now_ns()) {
            return;
        }
        let Ok(mut node) = place.node.try_lock() else { return };
        match &mut *node {
            None if place.is_store => {
                self.trace(|| format!("{site}: starts"));
                *node = Some(Node::Store(Box::new(StoreNode::start(self, site))));
            }
            None => {
                self.trace(|| format!("{site}: starts"));
                *node = Some(Node::Collector(CollectorNode::start(self, site)));
            }
            Some(Node::Store(store)) => store.step(self, site),
            Some(Node::Collector(collector)) => collector.step(self, site),
        }
        if place.has_crashed.swap(false, Relaxed) {
            *node = None;
            self.hot_parts.lock().unwrap().retain(|(owner, _), _| *owner != site);
        }
    }

    /// Whether no node counts a lease as its own that the catalog gave to another one. A machine
    /// that was suspended may, since its clock stood still.
    pub fn check_leases(&self) -> Result<(), String> {
        for (index, site) in self.sites.iter().enumerate() {
            if site.clock_stood_ns.load(Relaxed) > 0 {
                continue;
            }
            let Ok(node) = site.node.try_lock() else { continue };
            let Some(Node::Store(store)) = &*node else { continue };
            for lease in store.counted(self.monotonic_ns(index)) {
                let owner =
                    self.sim_catalog.with(|state, now_ns| state.owner(lease.resource, now_ns));
                if owner.is_some_and(|owner| owner != lease.owner) {
                    return Err(format!(
                        "{index} counts {} of epoch {} as its own, and the catalog gave it to {owner:?}",
                        lease.resource, lease.epoch
                    ));
                }
            }
        }
        Ok(())
    }

    pub fn restart_stores(&self) {
        for (index, site) in self.sites.iter().enumerate().filter(|(_, site)| site.is_store) {
            *site.node.lock().unwrap() = None;
            self.hot_parts.lock().unwrap().retain(|(owner, _), _| *owner != index);
        }
    }

    fn fault(&self) {
        let site = self.below(self.sites.len());
        let place = &self.sites[site];
        match self.below(7) {
            0 => {
                self.trace(|| format!("{site}: crashes"));
                place.has_crashed.store(true, Relaxed);
                self.hot_parts.lock().unwrap().retain(|(owner, _), _| *owner != site);
                if let Ok(mut node) = place.node.try_lock() {
                    *node = None;
                    place.has_crashed.store(false, Relaxed);
                }
                if self.chance(500) {
                    self.trace(|| format!("{site}: loses its disk"));
                    *place.disk.lock().unwrap() = Disk::default();
                }
            }
            1 => {
                let pause_ns = self.below(3 * self.ttl.as_micros() as usize) as i64 * 1000;
                self.trace(|| format!("{site}: pauses for {} s", pause_ns / 1_000_000_000));
                place.paused_until_ns.store(self.now_ns() + pause_ns, Relaxed);
                if self.chance(500) {
                    place.clock_stood_ns.fetch_add(pause_ns as u64, Relaxed);
                }
            }
            2 | 3 => {
                let engine = self.below(3);
                let cut_ns = self.below(2 * self.ttl.as_micros() as usize) as i64 * 1000;
                self.trace(|| format!("{site}: engine {engine} cut off for {cut_ns} ns"));
                place.cut_until_ns[engine].store(self.now_ns() + cut_ns, Relaxed);
            }
            4 => {
                let full = !place.is_disk_full.load(Relaxed);
                self.trace(|| format!("{site}: disk full: {full}"));
                place.is_disk_full.store(full, Relaxed);
            }
            5 => {
                let partition = self.below(self.partitions as usize) as u32;
                self.trace(|| format!("the leader of partition {partition} is gone"));
                self.log.wedge(partition, 1 + self.below(3) as u32);
            }
            _ => {
                let wrong_ns = (self.below(20_000) as i64 - 10_000) * 1_000_000;
                place.clock_wrong_ns.store(wrong_ns, Relaxed);
            }
        }
    }
}
