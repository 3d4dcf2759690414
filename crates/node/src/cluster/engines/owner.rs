//! The work of a store: it keeps its leases, reads its partitions, publishes segments, and does the
//! jobs on segments that are due.
//!
//! Threads: one for the leases, which calls the catalog alone, so that leases are kept whatever
//! else is away; one for each partition, which reads and parses; one that publishes; one that asks
//! where the partitions end; one that keeps the last state of the catalog for queries; one that
//! looks whether engines fail for this node alone; one that drops segments and objects; two that
//! search and merge segments ([`jobs`]); one that starts and stops programs and sinks. A node that
//! only queries has those for leases, ends and the catalog, and the one that
//! looks at engines.
//!
//! A thread that panics begins anew. What it had in hand is done again: a partition whose reader
//! panicked is given up, because the reader may count frames as seen that nobody has.
//!
//! A partition whose lease ended because the catalog does not answer is *expired*: it is read on,
//! within the limit of memory, and queries are answered from it, until the catalog answers.

mod jobs;
mod outages;

use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use cluster::{
    Call, Catalog, CatalogError, Change, Lease, LeaseSettings, Member, Next, Partition, Progress,
    PublishError, PublisherSettings, ReaderSettings, Resource, RetentionSettings,
};
use platform::pauses::PANIC_PAUSE;
use platform::placement::Role;
use platform::threads::STACK_BYTES;
use record::Batch;

use super::Engines;
use super::log_keeps::{RISK_PART, Unpublished, risk};
use super::partition::OwnedPartition;
use super::sealing::{FrameSealer, Sealing};
use crate::storage::stored::Parsers;
use jobs::{Turn, WORKERS, forget_looked};

/// How often leases are looked at.
const MEMBER_TICK: Duration = Duration::from_millis(100);
/// How long a partition answers queries beyond the end of its lease while the thread for leases
/// waits for the catalog: some calls. What it answers is right all the same. After the call it is
/// known whether the lease is lost, or the catalog is away.
const ANSWERS_ON: Duration = Duration::from_secs(90);
/// The pause after a call of an engine failed.
const RETRY: Duration = Duration::from_millis(500);
/// How long one read of the log waits for frames.
const READ_WAIT: Duration = Duration::from_millis(500);
/// Bytes of one read of the log.
const READ_BYTES_MAX: usize = 8 << 20;
/// How often the publisher looks for what is due.
const PUBLISH_TICK: Duration = Duration::from_millis(50);
/// How long published frames stay in memory, for queries that were planned before.
const KEEP_PUBLISHED: Duration = Duration::from_secs(30);
/// How often the catalog is read for queries while it is away, at least.
const CATALOG_TICK: Duration = Duration::from_secs(2);
/// How many times as long as that took this node waits until it reads the catalog again.
const CATALOG_TICK_FACTOR: u32 = 20;
/// The longest pause between two readings of the catalog: frames that were published meanwhile have
/// to be in memory still.
const CATALOG_TICK_MAX: Duration = Duration::from_secs(15);
/// How often the ends of the partitions are asked.
const ENDS_TICK: Duration = Duration::from_secs(2);
/// Time of that call. It takes most of it while a partition has no leader that answers.
const ENDS_TIME_MAX: Duration = Duration::from_secs(15);
/// How long reads of a partition may bring nothing although it has more, before it is reached anew.
const PATIENCE: Duration = Duration::from_secs(2);
/// How often it is looked whether the log deletes messages before they are in segments.
const KEEPS_TICK: Duration = Duration::from_secs(30);
/// How often a store that gave its partitions away looks whether it can publish again.
const PROBE_TICK: Duration = Duration::from_secs(5);
/// The object that it writes for that, and deletes. No segment has such a name.
const PROBE_PREFIX: &str = "probes/";
/// How often the room on the local disk is asked.
const DISK_TICK: Duration = Duration::from_secs(5);
/// What may fail in a partition.
const READING: &str = "reading";
const PUBLISHING: &str = "publishing";
/// Stays noted as long as the partition is owned: the messages do not come back.
const RETENTION: &str = "retention of the log";

/// Where the log has a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogPlace {
    /// The partition.
    pub partition: u32,
    /// The offset behind the frame before it, of those that this node has told; at first where it
    /// began to read. Between the two there is no other frame.
    pub after: u64,
    /// Its own offset.
    pub offset: u64,
}

/// Called with the records of new frames.
pub type OnBatch = Arc<dyn Fn(Arc<Batch>, LogPlace) + Send + Sync>;

/// The programs and sinks of the cluster, which run on the node that has their lease.
pub trait Work: Send + Sync {
    /// Starts them. Blocks. What they keep is written under the lease.
    ///
    /// Errors: an engine cannot be reached, or what they keep is damaged.
    fn start(&self, lease: &Lease) -> Result<()>;

    /// Ends them. Blocks.
    fn stop(&self);
}

/// What a node keeps, and what it keeps free.
#[derive(Clone, Debug)]
pub struct OwnerSettings {
    /// Which segments are dropped.
    pub retention: RetentionSettings,
    /// How long objects stay that no segment needs any more.
    pub grace: Duration,
    /// With less free space on the local disk, the node takes no partitions, and gives away those
    /// that it has.
    pub disk_free_bytes_min: u64,
    /// Threads that seal.
    pub sealing_threads: usize,
}

/// The threads of a node of a cluster. They end when it is stopped.
pub struct Owner {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

struct Shared {
    engines: Arc<Engines>,
    parsers: Arc<Parsers>,
    on_batch: OnBatch,
    sealing: Sealing,
    settings: OwnerSettings,
    directory: PathBuf,
    member: Mutex<Member>,
    /// Leases that were taken and are to be used; the thread for leases has them.
    gained: Mutex<VecDeque<Lease>>,
    work: Arc<dyn Work>,
    /// Which segments and lines are dropped.
    retention: Mutex<RetentionSettings>,
    /// The lease of the programs, as long as this node has it.
    programs: Mutex<Option<Lease>>,
    is_over: AtomicBool,
    is_full: AtomicBool,
    /// The partitions that cannot be published: since when, and why.
    unpublished: Mutex<BTreeMap<u32, (Instant, String)>>,
    /// Why the store cannot do its work although others can.
    cut_off: Mutex<Option<String>>,
    /// What is known of the jobs on segments, by partition.
    turns: Mutex<BTreeMap<u32, Turn>>,
}

impl Owner {
    /// Starts the threads.
    ///
    /// Errors: the directory of files that are written cannot be used; a thread cannot be started.
    pub fn start(
        engines: Arc<Engines>,
        parsers: Arc<Parsers>,
        on_batch: OnBatch,
        settings: OwnerSettings,
        work: Arc<dyn Work>,
        data_dir: &Path,
    ) -> Result<Owner> {
        let directory = data_dir.join("sealing");
        let node = engines.info.node.0;
        let (clock, summary) = (engines.clock.clone(), engines.summary.clone());
        let sealing = Sealing::new(&directory, clock, node, settings.sealing_threads, summary);
        let sealing = sealing.with_context(|| format!("cannot use {}", directory.display()))?;
        let leases = LeaseSettings::of_ttl(engines.config.lease);
        let member = Mutex::new(Member::new(engines.info.clone(), leases));
        let (stores, queries) = (engines.config.stores, engines.config.queries);
        let retention = Mutex::new(settings.retention.clone());
        let shared = Arc::new(Shared {
            engines,
            parsers,
            on_batch,
            sealing,
            settings,
            directory,
            member,
            gained: Mutex::default(),
            work,
            retention,
            programs: Mutex::default(),
            is_over: AtomicBool::new(false),
            is_full: AtomicBool::new(false),
            unpublished: Mutex::default(),
            cut_off: Mutex::default(),
            turns: Mutex::default(),
        });
        let owner = Owner { shared: Arc::clone(&shared), threads: Mutex::default() };
        owner.spawn("leases", Role::Writer, Shared::keep_leases)?;
        // Nobody waits for the end of these: they may wait for an engine that is away.
        owner.spawn_alone("log-ends", Role::Writer, Shared::ask_ends)?;
        owner.spawn_alone("catalog-kept", Role::Background, Shared::keep_catalog)?;
        if stores {
            owner.spawn("publish", Role::Urgent, Shared::publish)?;
            owner.spawn("cluster-drops", Role::Background, Shared::drop_old)?;
            for worker in 0..WORKERS {
                owner.spawn(&format!("segments-{worker}"), Role::Background, Shared::work)?;
            }
            owner.spawn("cluster-work", Role::Urgent, Shared::do_work)?;
        }
        if stores || queries {
            owner.spawn_alone("outages", Role::Writer, Shared::watch_for_outages)?;
        }
        Ok(owner)
    }

    fn spawn(&self, name: &str, role: Role, work: fn(&Arc<Shared>)) -> Result<()> {
        let thread = self.spawn_alone(name, role, work)?;
        lock(&self.threads).push(thread);
        Ok(())
    }

    /// Starts a thread whose end nobody waits for.
    fn spawn_alone(
        &self,
        name: &str,
        role: Role,
        work: fn(&Arc<Shared>),
    ) -> Result<JoinHandle<()>> {
        let (shared, of) = (Arc::clone(&self.shared), name.to_owned());
        let work = move || survive(&of, PANIC_PAUSE, || shared.is_over(), || work(&shared));
        Ok(spawn(name, role, work)?)
    }

    /// Changes what is dropped; the next jobs go by it.
    pub fn set_retention(&self, retention: RetentionSettings) {
        *lock(&self.shared.retention) = retention;
        // Other rules, and other spans of merges, concern all segments.
        forget_looked(&mut lock(&self.shared.turns));
    }

    /// Ends the threads, and gives the leases back, so that others can take the partitions at once.
    pub fn stop(&self) {
        self.shared.is_over.store(true, Relaxed);
        for partition in self.shared.engines.all_owned() {
            partition.is_over.store(true, Relaxed);
        }
        for thread in std::mem::take(&mut *lock(&self.threads)) {
            if thread.join().is_err() {
                tracing::error!("a thread of the cluster panicked");
            }
        }
        self.shared.forget_expired();
        let owned = std::mem::take(
            &mut *self.shared.engines.owned.write().unwrap_or_else(PoisonError::into_inner),
        );
        if let Some(lease) = lock(&self.shared.programs).take()
            && let Err(error) = self.shared.engines.catalog.release(&lease)
        {
            tracing::warn!("{error}; the lease of the programs expires");
        }
        for partition in owned.into_values() {
            partition.hot.stop();
            if let Err(error) = self.shared.engines.catalog.release(&partition.lease) {
                tracing::warn!("{error}; the lease of partition {} expires", partition.number);
            }
        }
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.stop();
    }
}

fn spawn(
    name: &str,
    role: Role,
    work: impl FnOnce() + Send + 'static,
) -> std::io::Result<JoinHandle<()>> {
    let placed = move || {
        platform::placement::enter(role);
        work();
    };
    std::thread::Builder::new().name(name.to_owned()).stack_size(STACK_BYTES).spawn(placed)
}

/// Calls `work` until it returns. After a panic, which is a bug, it is called anew, unless it is to
/// end.
fn survive(name: &str, pause: Duration, is_over: impl Fn() -> bool, mut work: impl FnMut()) {
    while catch_unwind(AssertUnwindSafe(&mut work)).is_err() {
        tracing::error!("a bug in the thread '{name}' of the cluster, which begins anew");
        if is_over() {
            return;
        }
        std::thread::sleep(pause);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Until when a partition answers queries whose lease ends at a time; none: it is over.
fn answers_until_ns(lease_ns: Option<u64>) -> u64 {
    lease_ns.map_or(0, |lease_ns| lease_ns.saturating_add(ANSWERS_ON.as_nanos() as u64))
}

impl Shared {
    fn is_over(&self) -> bool {
        self.is_over.load(Relaxed)
    }

    fn now_ns(&self) -> u64 {
        self.engines.clock.monotonic_ns()
    }

    /// The loop of the thread for leases.
    fn keep_leases(self: &Arc<Self>) {
        let mut gained = lock(&self.gained);
        let mut said = String::new();
        let mut looked: Option<Instant> = None;
        while !self.is_over() {
            if looked.is_none_or(|looked| looked.elapsed() > DISK_TICK) {
                looked = Some(Instant::now());
                self.look_for_room();
            }
            let stepped = match self.step_member(self.engines.partitions_known(), &mut gained) {
                Ok(changed) => {
                    said.clear();
                    changed
                }
                Err(error) => {
                    let error = error.to_string();
                    if said != error {
                        tracing::warn!("leases: {error}");
                        said = error;
                    }
                    std::thread::sleep(RETRY);
                    false
                }
            };
            if !stepped {
                std::thread::sleep(MEMBER_TICK);
            }
        }
    }

    /// Says whether the node can take its part: sealing needs room on the local disk.
    fn look_for_room(&self) {
        let Ok(space) = rustix::fs::statvfs(&self.directory) else { return };
        let free_bytes = space.f_bavail.saturating_mul(space.f_frsize);
        let (stores, queries) = (self.engines.config.stores, self.engines.config.queries);
        let has_room = !stores || free_bytes >= self.settings.disk_free_bytes_min;
        let refusal = match has_room {
            true => lock(&self.cut_off).clone(),
            false => Some(format!(
                "{} has {free_bytes} bytes free, fewer than store.disk_free_bytes_min",
                self.directory.display()
            )),
        };
        lock(&self.member).set_accepting((stores || queries) && refusal.is_none());
        self.engines.set_refusal(refusal);
        if !has_room && !self.is_full.swap(true, Relaxed) {
            tracing::error!(
                "{} has {free_bytes} bytes free, fewer than store.disk_free_bytes_min; the partitions go to other stores",
                self.directory.display()
            );
        } else if has_room {
            self.is_full.store(false, Relaxed);
        }
    }

    /// Does the next thing for the leases; false when nothing is due.
    fn step_member(
        self: &Arc<Self>,
        partitions: u32,
        gained: &mut VecDeque<Lease>,
    ) -> Result<bool, CatalogError> {
        // Without the lock while the catalog is called: others need it meanwhile.
        let now_ns = self.now_ns();
        let next = lock(&self.member).next(partitions, now_ns);
        let stepped = match next {
            Next::Idle => Ok(None),
            Next::Told(change) => Ok(Some(change)),
            Next::Call(call @ Call::Acquire(..)) => {
                self.call(call, now_ns).map(|lease| lease.map(Change::Gained))
            }
            Next::Call(call) => self.call(call, now_ns).map(|_| None),
        };
        let member = lock(&self.member);
        *self.engines.view_locked() = member.view().clone();
        for owned in self.engines.all_owned() {
            owned.hot.extend(answers_until_ns(member.until_ns(&owned.lease)));
        }
        let hears_catalog = member.hears_catalog();
        drop(member);
        if hears_catalog {
            self.forget_expired();
        }
        let change = stepped?;
        match change {
            Some(Change::Expired(lease)) => {
                gained.retain(|gained| *gained != lease);
                self.expire(&lease);
            }
            Some(Change::Gained(lease)) => gained.push_back(lease),
            Some(Change::Lost(lease)) => {
                gained.retain(|gained| *gained != lease);
                self.forget(&lease);
            }
            None => {}
        }
        let Some(lease) = gained.front().copied() else { return Ok(change.is_some()) };
        match self.open(lease) {
            Ok(()) => gained.pop_front(),
            Err(CatalogError::LeaseOver { .. }) => {
                lock(&self.member).is_over(&lease);
                gained.pop_front()
            }
            Err(error) => return Err(error),
        };
        Ok(true)
    }

    /// Makes a call of the member, and hands it the answer.
    fn call(&self, call: Call, sent_ns: u64) -> Result<Option<Lease>, CatalogError> {
        let answer = call.make(&self.engines.catalog, self.engines.config.lease);
        lock(&self.member).answered(call, answer, sent_ns)
    }

    fn open(self: &Arc<Self>, lease: Lease) -> Result<(), CatalogError> {
        let Resource::Partition(number) = lease.resource else {
            *lock(&self.programs) = Some(lease);
            return Ok(());
        };
        let segment_bytes = self.engines.config.segment_bytes;
        let reading = ReaderSettings {
            read_bytes_max: READ_BYTES_MAX,
            unpublished_bytes_max: 2 * segment_bytes,
            patience: PATIENCE,
        };
        let publishing = PublisherSettings {
            segment_bytes,
            segment_age_max: self.engines.config.segment_age,
            keep_published: KEEP_PUBLISHED,
            published_bytes_max: segment_bytes,
        };
        let partition = Partition::open(&self.engines.catalog, lease, reading, publishing)?;
        let until_ns = lock(&self.member).until_ns(&lease);
        partition.hot.extend(answers_until_ns(until_ns));
        let owned = OwnedPartition::new(number, lease, partition, Arc::clone(&self.parsers));
        let owned = Arc::new(owned);
        tracing::info!(
            "partition {number}: owned from offset {} (epoch {})",
            owned.hot.position(),
            lease.epoch
        );
        let (shared, reads) = (Arc::clone(self), Arc::clone(&owned));
        let read = move || {
            if catch_unwind(AssertUnwindSafe(|| shared.read(&reads))).is_err() {
                shared.give_up(&reads);
            }
        };
        let started = spawn(&format!("read-{number}"), Role::Receiver, read);
        if let Err(error) = started {
            return Err(CatalogError::Unavailable(format!("no thread can be started: {error}")));
        }
        let mut all = self.engines.owned.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(before) = all.insert(number, owned) {
            before.is_over.store(true, Relaxed);
        }
        Ok(())
    }

    /// Gives up a partition whose reader panicked. Whoever takes it next reads it from what is
    /// published on.
    fn give_up(&self, owned: &OwnedPartition) {
        let number = owned.number;
        tracing::error!("a bug in the reader of partition {number}, which is given up");
        // A reader that panics at once again costs little.
        std::thread::sleep(PANIC_PAUSE);
        let mut member = lock(&self.member);
        if member.until_ns(&owned.lease).is_some() {
            member.give_up(owned.lease.resource);
        }
    }

    /// Stops using a partition.
    fn forget(&self, lease: &Lease) {
        lock(&self.programs).take_if(|programs| programs == lease);
        let Resource::Partition(number) = lease.resource else { return };
        lock(&self.unpublished).remove(&number);
        let mut all = self.engines.owned.write().unwrap_or_else(PoisonError::into_inner);
        if all.get(&number).is_some_and(|owned| owned.lease == *lease)
            && let Some(owned) = all.remove(&number)
        {
            owned.is_over.store(true, Relaxed);
            owned.hot.stop();
            tracing::info!("partition {number}: not owned any more");
        }
    }

    /// Goes on answering for a partition whose lease ended because the catalog does not answer.
    fn expire(&self, lease: &Lease) {
        if let Resource::Partition(number) = lease.resource {
            let mut all = self.engines.owned.write().unwrap_or_else(PoisonError::into_inner);
            if all.get(&number).is_some_and(|owned| owned.lease == *lease)
                && let Some(owned) = all.remove(&number)
            {
                owned.hot.extend(u64::MAX);
                tracing::warn!(
                    "partition {number}: the catalog does not answer, so nothing is published; queries are answered"
                );
                let mut expired =
                    self.engines.expired.write().unwrap_or_else(PoisonError::into_inner);
                expired.insert(number, owned);
            }
        }
        self.forget(lease);
    }

    /// Drops the partitions that were answered for while the catalog did not answer. It knows their
    /// owners now.
    fn forget_expired(&self) {
        let mut expired = self.engines.expired.write().unwrap_or_else(PoisonError::into_inner);
        for owned in std::mem::take(&mut *expired).into_values() {
            owned.is_over.store(true, Relaxed);
            owned.hot.stop();
        }
    }

    /// The loop of the thread that reads a partition.
    fn read(&self, owned: &OwnedPartition) {
        let mut after = owned.hot.position();
        while !self.is_over() && !owned.is_over() {
            if let Some(why) = self.engines.other_log() {
                owned.note(READING, &why);
                std::thread::sleep(RETRY);
                continue;
            }
            let from = owned.hot.position();
            let stepped = lock(&owned.reader).step(&*self.engines.log, READ_WAIT, self.now_ns());
            match stepped {
                Ok(taken) => {
                    owned.duplicates.fetch_add(taken.duplicates, Relaxed);
                    owned.rejected.fetch_add(taken.rejected, Relaxed);
                    owned.lost.fetch_add(taken.lost, Relaxed);
                    if taken.is_renewed {
                        let number = owned.number;
                        tracing::info!(
                            "partition {number}: nothing comes from offset {from} on although the log has more; its leader is looked up anew"
                        );
                    }
                    if taken.lost > 0 {
                        let lost = taken.lost;
                        owned.note(RETENTION, &format!("the log deleted {lost} messages unread"));
                    } else if taken.is_stalled {
                        let what = format!(
                            "nothing comes from offset {from} on although the log has more, and looking up its leader anew did not help; see the logs of the brokers"
                        );
                        owned.note(READING, &what);
                    } else if taken.frames + taken.duplicates + taken.rejected > 0
                        || owned.hot.lag(self.now_ns()).messages == 0
                    {
                        owned.works(READING);
                    }
                    for hot in owned.hot.frames_from(from) {
                        let (partition, offset) = (owned.number, hot.offset);
                        let place = LogPlace { partition, after, offset };
                        let told = || (self.on_batch)(owned.batch(&hot), place);
                        if catch_unwind(AssertUnwindSafe(told)).is_err() {
                            tracing::error!(
                                "a bug while the frame at offset {offset} of partition {partition} was parsed; others are read"
                            );
                        }
                        after = offset + 1;
                    }
                    if taken.is_full {
                        std::thread::sleep(PUBLISH_TICK);
                    }
                }
                Err(error) => {
                    owned.note(READING, &error);
                    std::thread::sleep(RETRY);
                }
            }
        }
    }

    /// The loop of the thread that publishes.
    fn publish(self: &Arc<Self>) {
        let mut failed: Vec<(u32, Instant)> = Vec::new();
        while !self.is_over() {
            let mut is_idle = true;
            // Published frames stay in memory meanwhile: queries may know an older catalog.
            let failing = self.engines.catalog.metered().failing;
            if failing.is_some_and(|failing| failing > RETRY) {
                std::thread::sleep(PUBLISH_TICK);
                continue;
            }
            failed.retain(|(_, at)| at.elapsed() < RETRY);
            for owned in self.engines.all_owned() {
                if owned.is_over() || failed.iter().any(|(number, _)| *number == owned.number) {
                    continue;
                }
                let step = || self.publish_step(&owned);
                let Ok(stepped) = catch_unwind(AssertUnwindSafe(step)) else {
                    // Other partitions are published meanwhile.
                    owned.note(PUBLISHING, &"a bug, which the log of this node tells of");
                    failed.push((owned.number, Instant::now()));
                    continue;
                };
                match stepped {
                    Ok(stepped) => is_idle &= !stepped,
                    Err(error) => {
                        owned.note(PUBLISHING, &error);
                        // Sealing asks the catalog for deletions: its failure is not the store's.
                        let is_catalog = self.engines.catalog.metered().failing.is_some();
                        let is_own =
                            matches!(error, PublishError::Seal(_) | PublishError::Objects(_));
                        if is_own && !is_catalog {
                            let mut unpublished = lock(&self.unpublished);
                            let now = (Instant::now(), String::new());
                            unpublished.entry(owned.number).or_insert(now).1 = error.to_string();
                        }
                        failed.push((owned.number, Instant::now()));
                    }
                }
            }
            if is_idle {
                std::thread::sleep(PUBLISH_TICK);
            }
        }
    }

    /// Does the next thing to publish a partition; false when nothing is due.
    fn publish_step(&self, owned: &OwnedPartition) -> Result<bool, PublishError> {
        let engines = &*self.engines;
        let sealer = FrameSealer { engines, sealing: &self.sealing, partition: owned };
        let Engines { catalog, bucket, .. } = &*self.engines;
        let stepped = lock(&owned.publisher).step(catalog, &**bucket, &sealer, self.now_ns());
        owned.trim();
        match stepped {
            Ok(Progress::Idle) => Ok(false),
            Ok(Progress::Advanced) => Ok(true),
            Ok(Progress::Published(publication)) => {
                owned.works(PUBLISHING);
                if publication.segment.is_some() {
                    lock(&self.unpublished).remove(&owned.number);
                }
                Ok(true)
            }
            Err(PublishError::Over(error)) => {
                tracing::info!("partition {}: {error}", owned.number);
                lock(&self.member).is_over(&owned.lease);
                self.forget(&owned.lease);
                Ok(true)
            }
            Err(error) => Err(error),
        }
    }

    /// The loop of the thread that asks where the partitions end, so that an empty read is not
    /// taken for "there is nothing". One without a leader holds up none of the others: a store that
    /// starts meanwhile would otherwise know of no partition, and take none.
    fn ask_ends(self: &Arc<Self>) {
        let mut said = String::new();
        let mut looked: Option<Instant> = None;
        while !self.is_over() {
            let asked = Instant::now();
            let known = self.engines.partitions_known();
            let told = self.engines.log.known_ends(known, ENDS_TIME_MAX);
            let error = match &told {
                Ok(ends) => match ends.iter().filter(|end| end.is_none()).count() {
                    0 => String::new(),
                    untold => format!("{untold} of them have no leader that answers"),
                },
                Err(error) => error.to_string(),
            };
            if said != error && !error.is_empty() {
                tracing::warn!("the ends of the partitions are not known: {error}");
            }
            said = error;
            if let Ok(ends) = told {
                // Those of a topic that was made anew are not taken for the ends of before.
                if let Err(error) = self.engines.look_at_log() {
                    tracing::debug!("the topic of the catalog is not known: {error}");
                }
                if looked.is_none_or(|looked| looked.elapsed() >= KEEPS_TICK) {
                    looked = Some(Instant::now());
                    self.look_for_risks(&ends);
                }
                self.engines.hear_ends(&ends, asked);
            }
            self.pause(ENDS_TICK);
        }
    }

    /// Looks whether the log will delete messages of owned partitions before they are in segments.
    /// `ends`: where they end, none of those of which that is not known.
    fn look_for_risks(&self, ends: &[Option<u64>]) {
        let looked = || {
            let retention = self.engines.log.retention()?;
            let young = match retention.time {
                Some(time) => {
                    let age_ms = (time / RISK_PART).as_millis();
                    let now_ms = self.engines.clock.now_ns() / 1_000_000;
                    let age_ms = i64::try_from(age_ms).unwrap_or(i64::MAX);
                    self.engines.log.written_since(now_ms.saturating_sub(age_ms).max(0))?
                }
                None => Vec::new(),
            };
            Ok::<_, cluster::engines::Error>((retention, young))
        };
        let (retention, young) = match looked() {
            Ok(found) => found,
            Err(error) => {
                tracing::debug!("the retention of the log is not known: {error}");
                return;
            }
        };
        for owned in self.engines.all_owned() {
            let number = owned.number as usize;
            let Some(end) = ends.get(number).copied().flatten() else { continue };
            let of = Unpublished {
                published: owned.hot.committed(),
                read: owned.hot.position(),
                bytes: owned.hot.bytes_unpublished() as u64,
                end,
                young: young.get(number).copied().flatten(),
            };
            owned.set_risk(risk(&retention, &of));
        }
    }

    /// The loop of the thread that keeps the last state of the catalog.
    fn keep_catalog(self: &Arc<Self>) {
        let mut said = String::new();
        while !self.is_over() {
            let begun = Instant::now();
            let Engines { kept, catalog, clock, .. } = &*self.engines;
            let kept = kept.refresh(catalog, || self.now_ns(), clock.now_ns());
            match kept.and_then(|()| self.engines.look_at_region()) {
                Ok(()) => said.clear(),
                Err(error) => {
                    let error = error.to_string();
                    if said != error {
                        tracing::debug!("the catalog is not kept for queries: {error}");
                        said = error;
                    }
                }
            }
            let pause = begun.elapsed().saturating_mul(CATALOG_TICK_FACTOR);
            self.pause(pause.clamp(CATALOG_TICK, CATALOG_TICK_MAX));
        }
    }

    /// Sleeps, or returns early when the threads are to end.
    fn pause(&self, time: Duration) {
        let until = Instant::now() + time;
        while !self.is_over() && Instant::now() < until {
            std::thread::sleep(MEMBER_TICK);
        }
    }

    /// The loop of the thread that starts and stops the programs and sinks.
    fn do_work(self: &Arc<Self>) {
        let mut running: Option<Lease> = None;
        let mut said = String::new();
        // A panic may have left them running.
        self.work.stop();
        while !self.is_over() {
            let lease = *lock(&self.programs);
            if running != lease && running.take().is_some() {
                self.work.stop();
                tracing::info!("programs and sinks run on another node now");
            }
            let Some(lease) = lease.filter(|_| running.is_none()) else {
                std::thread::sleep(PUBLISH_TICK);
                continue;
            };
            match self.work.start(&lease) {
                Ok(()) => {
                    tracing::info!("programs and sinks run here (epoch {})", lease.epoch);
                    said.clear();
                    running = Some(lease);
                }
                Err(error) => {
                    let error = format!("programs and sinks cannot start: {error:#}");
                    if error != said {
                        tracing::error!("{error}");
                        said = error;
                    }
                    std::thread::sleep(RETRY);
                }
            }
        }
        if running.is_some() {
            self.work.stop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_panics_begins_anew_unless_it_is_to_end() {
        let check = |is_over: bool, panics: u32, expected: u32| {
            let mut calls = 0;
            survive(
                "a test",
                Duration::ZERO,
                || is_over,
                || {
                    calls += 1;
                    assert!(calls > panics, "a test of what happens then");
                },
            );
            assert_eq!(calls, expected);
        };
        check(false, 2, 3);
        check(true, 2, 1);
        check(true, 0, 1);
    }
}
