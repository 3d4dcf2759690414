//! A machine of the simulated cluster: its clock, its links, its faults.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, Weak};

use record::Frame;

use super::collector::CollectorNode;
use super::store::StoreNode;
use super::world::World;
use crate::sim::{Network, Verdict};

pub enum Node {
    Store(Box<StoreNode>),
    Collector(CollectorNode),
}

/// What a collector finds again after a restart.
#[derive(Default)]
pub struct Disk {
    pub node: u32,
    pub sequence: u64,
    /// Frames that the log has not acknowledged, with their partitions and lines.
    pub spool: Vec<(u32, Arc<Frame>, Vec<usize>)>,
}

pub struct Site {
    pub name: String,
    pub is_store: bool,
    /// `None` after a crash. Locked while the node is in a call.
    pub node: Mutex<Option<Node>>,
    pub disk: Mutex<Disk>,
    pub is_disk_full: AtomicBool,
    /// Set while the node is in a call: it ends with the call.
    pub has_crashed: AtomicBool,
    pub paused_until_ns: AtomicI64,
    /// Until when it cannot reach the engines: log, objects, catalog.
    pub cut_until_ns: [AtomicI64; 3],
    /// What its monotonic clock counts in a thousand seconds.
    pub clock_rate: u64,
    /// How long its monotonic clock stood still.
    pub clock_stood_ns: AtomicU64,
    /// How wrong its wall clock is.
    pub clock_wrong_ns: AtomicI64,
}

impl Site {
    pub fn new(name: String, is_store: bool, clock_rate: u64) -> Site {
        Site {
            name,
            is_store,
            node: Mutex::default(),
            disk: Mutex::default(),
            is_disk_full: AtomicBool::default(),
            has_crashed: AtomicBool::default(),
            paused_until_ns: AtomicI64::default(),
            cut_until_ns: Default::default(),
            clock_rate,
            clock_stood_ns: AtomicU64::default(),
            clock_wrong_ns: AtomicI64::default(),
        }
    }

    /// The monotonic clock.
    pub fn monotonic_ns(&self, now_ns: i64) -> u64 {
        let ran_ns = (now_ns as u64).saturating_sub(self.clock_stood_ns.load(Relaxed));
        ran_ns / 1000 * self.clock_rate
    }

    pub fn is_cut_off(&self, engine: usize, now_ns: i64) -> bool {
        self.cut_until_ns[engine].load(Relaxed) > now_ns
    }

    pub fn is_paused(&self, now_ns: i64) -> bool {
        self.paused_until_ns.load(Relaxed) > now_ns
    }
}

/// The way from a site to an engine.
pub struct Link {
    pub world: Weak<World>,
    pub site: usize,
    pub engine: usize,
}

impl Network for Link {
    fn before(&self, changes: bool) -> Verdict {
        let Some(world) = self.world.upgrade() else { return Verdict::Fail };
        world.pause_in_call(self.site);
        let site = &world.sites[self.site];
        if site.has_crashed.load(Relaxed) {
            return Verdict::Fail;
        }
        if world.is_calm() {
            return Verdict::Pass;
        }
        if site.is_cut_off(self.engine, world.now_ns()) {
            return if changes && world.chance(20) { Verdict::CallLost } else { Verdict::Fail };
        }
        if !world.chance(world.faults_permille) {
            return Verdict::Pass;
        }
        let verdicts =
            [Verdict::Fail, Verdict::AnswerLost, Verdict::CallLost, Verdict::Late, Verdict::Twice];
        verdicts[world.below(if changes { verdicts.len() } else { 1 })]
    }

    fn after(&self) -> bool {
        let Some(world) = self.world.upgrade() else { return false };
        world.pause_in_call(self.site);
        let site = &world.sites[self.site];
        // A crash, or a link that broke, while the answer was on its way.
        !site.has_crashed.load(Relaxed)
            && (world.is_calm() || !site.is_cut_off(self.engine, world.now_ns()))
    }

    fn later(&self, call: Box<dyn FnOnce() + Send>) {
        if let Some(world) = self.world.upgrade() {
            world.later(call);
        }
    }
}
