//! A simulated store: leases, partitions, jobs.
//!
//! Its threads take leases at the same time, as those of a real one do: one for partitions and
//! heartbeats, and one for each job. A call of one is under way while others take steps, for longer
//! than a lease now and then.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use super::Weakness;
use super::model::Model;
use super::world::{Count, World};
use crate::catalog::{Catalog, FrameRange, NodeInfo, Role, SegmentRow, TimeRange};
use crate::deletions::{Deletions, Tombstone};
use crate::error::{CatalogError, Failure};
use crate::frame_log::FrameLog;
use crate::hot::HotFrame;
use crate::ids::{Lease, NodeId, Resource};
use crate::jobs::{
    JobError, Merge, MergeFailed, MergeLevel, MergeSettings, Merger, Orders, Prune, Pruned, Pruner,
    Retention, RetentionSettings, Settled, Sweep, SweepSettings,
};
use crate::member::{Answer, Call, Change, LeaseSettings, Member, Next};
use crate::objects::Objects;
use crate::partition::Partition;
use crate::publisher::{Progress, PublishError, PublisherSettings, SealError, Sealed, Sealer};
use crate::reader::ReaderSettings;

/// Threads of jobs: as on a node, one that drops, and two that search and merge.
const JOB_THREADS: usize = 3;

/// A call of the catalog whose answer is on its way to the thread that made it.
struct UnderWay {
    call: Call,
    answer: Result<Answer, CatalogError>,
    sent_ns: u64,
    /// When the answer is there, by the monotonic clock of the node.
    at_ns: u64,
}

impl UnderWay {
    /// Makes a call, whose answer comes at once, soon, or after more than a lease.
    fn begin(world: &World, site: usize, call: Call) -> UnderWay {
        let sent_ns = world.monotonic_ns(site);
        let answer = call.make(&world.remote_catalog(site), world.ttl);
        let late_ms = match world.below(20) {
            _ if world.is_calm() => 0,
            0 => world.below(2 * world.ttl.as_millis() as usize),
            1..8 => world.below(500),
            _ => 0,
        };
        let at_ns = world.monotonic_ns(site) + late_ms as u64 * 1_000_000;
        UnderWay { call, answer, sent_ns, at_ns }
    }

    /// Hands the member the answer; the lease of an acquisition.
    fn end(self, world: &World, site: usize, member: &mut Member) -> Option<Lease> {
        let sent_ns = match world.weakness {
            Some(Weakness::LeaseFromAnswer) => world.monotonic_ns(site),
            _ => self.sent_ns,
        };
        member.answered(self.call, self.answer, sent_ns).ok().flatten()
    }

    fn is_there(&self, world: &World, site: usize) -> bool {
        world.is_calm() || world.monotonic_ns(site) >= self.at_ns
    }
}

/// A thread of jobs.
#[derive(Default)]
enum JobThread {
    #[default]
    Idle,
    /// It takes a lease.
    Takes(Resource, Box<UnderWay>),
    Works(Lease, Box<Job>),
}

impl JobThread {
    fn resource(&self) -> Option<Resource> {
        match self {
            JobThread::Idle => None,
            JobThread::Takes(resource, _) => Some(*resource),
            JobThread::Works(lease, _) => Some(lease.resource),
        }
    }
}

enum Job {
    Merge(Merge),
    Prune(Prune),
    Retention(Retention),
    Sweep(Sweep),
}

pub struct StoreNode {
    member: Member,
    /// Leases of partitions that are not open yet.
    gained: Vec<Lease>,
    partitions: BTreeMap<u32, (Lease, Partition)>,
    /// Partitions whose leases ended because the catalog is away: they answer, and do not publish.
    expired: BTreeMap<u32, Partition>,
    /// The call of the thread that heartbeats and takes partitions.
    call: Option<UnderWay>,
    jobs: [JobThread; JOB_THREADS],
    /// Those that it knows of, which it leaves out when it seals.
    deletions: Deletions,
    /// Where merges of a partition begin to look.
    settled: BTreeMap<Resource, Settled>,
}

impl StoreNode {
    pub fn start(world: &World, site: usize) -> StoreNode {
        let info = NodeInfo {
            // The id of a store is that of its site: a store takes its own leases again.
            node: NodeId(site as u32 + 1),
            name: world.sites[site].name.clone(),
            address: site.to_string(),
            roles: vec![Role::Store, Role::Query],
            version: "1".to_owned(),
            accepting: true,
        };
        let settings = LeaseSettings::of_ttl(world.ttl);
        StoreNode {
            member: Member::new(info, settings),
            gained: Vec::new(),
            partitions: BTreeMap::new(),
            expired: BTreeMap::new(),
            call: None,
            jobs: Default::default(),
            deletions: Deletions::default(),
            settled: BTreeMap::new(),
        }
    }

    pub fn step(&mut self, world: &World, site: usize) {
        self.member.set_accepting(!world.sites[site].is_disk_full.load(Relaxed));
        self.step_member(world, site);
        match world.below(10) {
            0..3 => self.step_reader(world, site),
            3..7 => self.step_publisher(world, site),
            _ => self.step_job(world, site),
        }
    }

    fn step_member(&mut self, world: &World, site: usize) {
        if let Some(call) = self.call.take() {
            if !call.is_there(world, site) {
                self.call = Some(call);
                return;
            }
            if let Some(lease) = call.end(world, site, &mut self.member) {
                world.trace(|| format!("{site}: gained {} {}", lease.resource, lease.epoch));
                self.gained.push(lease);
            }
        }
        if let Some(lease) = self.gained.pop() {
            self.open(world, site, lease);
            return;
        }
        match self.member.next(world.partitions, world.monotonic_ns(site)) {
            Next::Call(call) => self.call = Some(UnderWay::begin(world, site, call)),
            Next::Told(change) => self.change(world, site, change),
            Next::Idle => {}
        }
        if self.member.hears_catalog() {
            for (number, partition) in std::mem::take(&mut self.expired) {
                partition.hot.stop();
                world.unregister_this(site, number, &partition.hot);
            }
        }
        for (lease, partition) in self.partitions.values() {
            partition.hot.extend(self.member.until_ns(lease).unwrap_or(0));
        }
    }

    fn change(&mut self, world: &World, site: usize, change: Change) {
        match change {
            Change::Gained(lease) => self.gained.push(lease),
            Change::Lost(lease) => {
                world.trace(|| format!("{site}: lost {} {}", lease.resource, lease.epoch));
                self.drop_lease(world, site, &lease);
            }
            Change::Expired(lease) => {
                world.trace(|| format!("{site}: expired {} {}", lease.resource, lease.epoch));
                if let Resource::Partition(number) = lease.resource
                    && self.partitions.get(&number).is_some_and(|(held, _)| *held == lease)
                    && let Some((_, partition)) = self.partitions.remove(&number)
                {
                    partition.hot.extend(u64::MAX);
                    self.expired.insert(number, partition);
                }
                self.drop_lease(world, site, &lease);
            }
        }
    }

    fn open(&mut self, world: &World, site: usize, lease: Lease) {
        let Resource::Partition(number) = lease.resource else { return };
        let patience = match world.weakness {
            Some(Weakness::NeverRenews) => Duration::MAX,
            _ => Duration::from_secs(1),
        };
        let reading = ReaderSettings { read_bytes_max: 600, unpublished_bytes_max: 4000, patience };
        let publishing = PublisherSettings {
            segment_bytes: 1200,
            segment_age_max: world.segment_age_max,
            keep_published: world.keep_published,
            published_bytes_max: 1 << 20,
        };
        match Partition::open(&world.remote_catalog(site), lease, reading, publishing) {
            Ok(partition) => {
                partition.hot.extend(self.member.until_ns(&lease).unwrap_or(0));
                world.count(Count::Openings, 1);
                world.register(site, number, lease.epoch, &partition.hot);
                self.partitions.insert(number, (lease, partition));
            }
            Err(CatalogError::LeaseOver { .. }) => self.member.is_over(&lease),
            Err(_) => self.gained.push(lease),
        }
    }

    fn drop_lease(&mut self, world: &World, site: usize, lease: &Lease) {
        self.gained.retain(|gained| gained != lease);
        if let Resource::Partition(number) = lease.resource
            && self.partitions.get(&number).is_some_and(|(held, _)| held == lease)
        {
            world.unregister(site, number);
            self.partitions.remove(&number);
        }
        for thread in &mut self.jobs {
            if matches!(thread, JobThread::Works(held, _) if held == lease) {
                *thread = JobThread::Idle;
            }
        }
    }

    fn any_partition(&mut self, world: &World) -> Option<&mut (Lease, Partition)> {
        let index = world.below(self.partitions.len());
        self.partitions.values_mut().nth(index)
    }

    fn step_reader(&mut self, world: &World, site: usize) {
        let now_ns = world.monotonic_ns(site);
        let index = world.below(self.expired.len());
        if let Some(partition) = self.expired.values_mut().nth(index) {
            let _ = partition.reader.step(&world.remote_log(site), Duration::ZERO, now_ns);
            return;
        }
        if let Some((lease, partition)) = self.any_partition(world) {
            let log = world.remote_log(site);
            if let Resource::Partition(number) = lease.resource
                && world.chance(300)
                && let Ok(bounds) = log.bounds(number)
            {
                partition.hot.hear_end(bounds.end, now_ns);
            }
            if let Ok(taken) = partition.reader.step(&log, Duration::ZERO, now_ns) {
                world.count(Count::Duplicates, taken.duplicates);
                world.count(Count::Renewed, taken.is_renewed.into());
            }
        }
    }

    fn step_publisher(&mut self, world: &World, site: usize) {
        let now_ns = world.monotonic_ns(site);
        if world.chance(200)
            && let Ok(deletions) = world.remote_catalog(site).deletions()
        {
            self.deletions = deletions;
        }
        let deletions = std::mem::take(&mut self.deletions);
        self.publish_any(world, site, now_ns, &deletions);
        self.deletions = deletions;
    }

    fn publish_any(&mut self, world: &World, site: usize, now_ns: u64, deletions: &Deletions) {
        let Some((lease, partition)) = self.any_partition(world) else { return };
        let lease = *lease;
        let (catalog, objects) = (world.remote_catalog(site), world.remote_objects(site));
        let sealer = SimSealer { world, site, deletions };
        match partition.publisher.step(&catalog, &objects, &sealer, now_ns) {
            Ok(Progress::Published(publication)) => {
                world.count(Count::Published, 1);
                world.trace(|| {
                    let name = publication.segment.map(|segment| segment.name);
                    format!("{site}: published {:?} as {name:?}", publication.offsets)
                });
            }
            Err(PublishError::Over(error)) => {
                world.count(Count::Over, 1);
                world.trace(|| format!("{site}: over {}: {error}", lease.resource));
                self.member.is_over(&lease);
                self.drop_lease(world, site, &lease);
            }
            Ok(_) | Err(_) => {}
        }
    }

    fn step_job(&mut self, world: &World, site: usize) {
        let index = world.below(JOB_THREADS);
        let thread = std::mem::take(&mut self.jobs[index]);
        self.jobs[index] = match thread {
            JobThread::Idle => self.take_job(world, site, index),
            JobThread::Takes(resource, call) if !call.is_there(world, site) => {
                JobThread::Takes(resource, call)
            }
            JobThread::Takes(resource, call) => match call.end(world, site, &mut self.member) {
                Some(lease) => {
                    // From the beginning now and then, as after a restart.
                    let settled = self.settled.get(&resource).filter(|_| !world.chance(200));
                    let settled = settled.copied().unwrap_or_default();
                    JobThread::Works(lease, Box::new(begin(world, site, lease, settled)))
                }
                None => JobThread::Idle,
            },
            JobThread::Works(lease, job) => self.work(world, site, lease, job),
        };
    }

    /// Begins to take the lease of a job, which no other thread of the node has.
    fn take_job(&mut self, world: &World, site: usize, index: usize) -> JobThread {
        let resource = match (index, world.below(2)) {
            (0, 0) => Resource::Retention,
            (0, _) => Resource::Sweep,
            _ => Resource::Merge(world.below(world.partitions as usize) as u32),
        };
        if self.jobs.iter().any(|thread| thread.resource() == Some(resource)) {
            return JobThread::Idle;
        }
        let call = self.member.acquisition(resource);
        JobThread::Takes(resource, Box::new(UnderWay::begin(world, site, call)))
    }

    fn work(&mut self, world: &World, site: usize, lease: Lease, mut job: Box<Job>) -> JobThread {
        let (catalog, objects) = (world.remote_catalog(site), world.remote_objects(site));
        let none = Deletions::default();
        let sealer = SimSealer { world, site, deletions: &none };
        let result = match &mut *job {
            Job::Merge(merge) => merge.step(&catalog, &objects, &sealer),
            Job::Prune(prune) => prune.step(&catalog, &objects, &sealer),
            Job::Retention(retention) => retention.step(&catalog).map(|count| {
                world.count(Count::Dropped, count as u64);
                count > 0
            }),
            Job::Sweep(sweep) => sweep.step(&catalog, &objects),
        };
        if let Job::Merge(merge) = &*job {
            self.settled.insert(lease.resource, merge.settled());
        }
        let retry = |error: &JobError| match error {
            JobError::Objects(error) => error.failure() == Failure::Retry,
            JobError::Catalog(error) => error.failure() == Failure::Retry,
            JobError::Seal(_) => true,
        };
        match result {
            Ok(true) => return JobThread::Works(lease, job),
            Err(error) if retry(&error) => return JobThread::Works(lease, job),
            Err(error) if error.is_over() => {
                world.count(Count::Overtaken, 1);
                self.member.is_over(&lease);
            }
            Ok(false) | Err(_) => self.member.give_up(lease.resource),
        }
        JobThread::Idle
    }

    /// The leases that the node counts as its own now.
    pub fn counted(&self, now_ns: u64) -> impl Iterator<Item = Lease> + '_ {
        let of_jobs = self.jobs.iter().filter_map(|thread| match thread {
            JobThread::Works(lease, _) => Some(*lease),
            _ => None,
        });
        let of_partitions = self.partitions.values().map(|(lease, _)| *lease);
        let all = of_partitions.chain(of_jobs).chain(self.gained.iter().copied());
        all.filter(move |lease| self.member.until_ns(lease).is_some_and(|at_ns| at_ns > now_ns))
    }
}

fn begin(world: &World, site: usize, lease: Lease, settled: Settled) -> Job {
    match lease.resource {
        Resource::Merge(partition) if world.chance(500) => {
            Job::Prune(Prune::new(lease, partition, &[]))
        }
        Resource::Merge(partition) => {
            let level = |bytes_max, age_s, is_patient| MergeLevel {
                bytes_max,
                bytes_each_max: bytes_max / 2,
                age_min: Duration::from_secs(age_s),
                span_max: None,
                is_patient,
            };
            let levels = [level(400, 0, false), level(700, 1, true), level(2_000, 2, true)];
            let settings = MergeSettings { segments_min: 2, span_max: None, levels };
            let now_ns = world.now_ns() + world.sites[site].clock_wrong_ns.load(Relaxed);
            Job::Merge(Merge::new(lease, partition, settings, settled, now_ns))
        }
        Resource::Retention => {
            let settings =
                RetentionSettings { age_max: world.age_max, ..RetentionSettings::default() };
            Job::Retention(Retention::new(lease, settings))
        }
        _ => {
            let settings =
                SweepSettings { grace: world.sweep_grace(), list_every: world.list_every };
            Job::Sweep(Sweep::new(lease, settings, (world.now_ns() / 1_000_000) as u64))
        }
    }
}

/// A sealed segment is its lines with newlines.
struct SimSealer<'a> {
    world: &'a World,
    site: usize,
    deletions: &'a Deletions,
}

impl SimSealer<'_> {
    fn sealed(&self, text: String, received_last_ns: i64) -> Result<Sealed, SealError> {
        if self.world.sites[self.site].is_disk_full.load(Relaxed) {
            self.world.count(Count::Unsealed, 1);
            return Err(SealError("disk full".to_owned()));
        }
        let range = |(_, ns)| TimeRange { first_ns: ns, last_ns: ns };
        let times = text.lines().filter_map(Model::parse).map(range);
        Ok(Sealed {
            times: times.reduce(|a, b| a.union(&b)).unwrap_or(TimeRange::ALL),
            received_last_ns,
            lines: text.lines().count() as u64,
            searched: self.deletions.last_id,
            frames: Vec::new(),
            body: Box::new(text.into_bytes()),
        })
    }
}

impl Sealer for SimSealer<'_> {
    fn seal(&self, _: u32, frames: &[HotFrame]) -> Result<Sealed, SealError> {
        let mut text = String::new();
        for line in frames.iter().flat_map(|frame| frame.frame.lines()) {
            text.push_str(&String::from_utf8_lossy(line.bytes));
            text.push('\n');
        }
        let received = frames.iter().filter_map(|frame| frame.frame.received_range_ns());
        let (text, _) = self.without(&text, self.deletions.in_force());
        let sealed = self.sealed(text, received.map(|(_, last)| last).max().unwrap_or(0))?;
        let range = |frame: &HotFrame| {
            let (node, sequence) = frame.frame.header().name();
            FrameRange { node: NodeId(node), first: sequence, last: sequence }
        };
        Ok(Sealed { frames: frames.iter().map(range).collect(), ..sealed })
    }
}

impl SimSealer<'_> {
    /// The lines that deletions leave, and how many each took.
    fn without<'t>(
        &self,
        text: &str,
        tombstones: impl Iterator<Item = &'t Tombstone>,
    ) -> (String, Vec<(u64, u64)>) {
        let model = self.world.model.lock().unwrap();
        let mut lines: Vec<&str> = text.lines().collect();
        let mut deleted = Vec::new();
        for Tombstone { id, filter, created_ns } in tombstones {
            let before = lines.len();
            lines.retain(|line| {
                let (index, _) = Model::parse(line).expect("it is a line of the model");
                !model.is_covered(index, filter, *created_ns)
            });
            deleted.push((*id, (before - lines.len()) as u64));
        }
        (lines.iter().map(|line| format!("{line}\n")).collect(), deleted)
    }

    fn text_of(&self, segment: &SegmentRow) -> Result<String, SealError> {
        let mut bytes = vec![0; segment.bytes as usize];
        let objects = self.world.remote_objects(self.site);
        let read = objects.read_range(&segment.name, 0, &mut bytes);
        read.map_err(|error| SealError(error.to_string()))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}

impl Pruner for SimSealer<'_> {
    fn concerns(&self, _: &SegmentRow, _: &Orders) -> Result<bool, SealError> {
        Ok(self.world.weakness != Some(Weakness::SearchedUnread))
    }

    fn prune(&self, segment: &SegmentRow, orders: &Orders) -> Result<Pruned, SealError> {
        let before = self.text_of(segment)?;
        let (text, deleted) = self.without(&before, orders.tombstones.iter());
        if text.len() == before.len() {
            return Ok(Pruned::Kept);
        }
        self.world.count(Count::Deleted, deleted.iter().map(|(_, lines)| lines).sum());
        let sealed = self.sealed(text, segment.received_last_ns)?;
        Ok(Pruned::Rewritten { sealed: Some(sealed).filter(|sealed| sealed.lines > 0), deleted })
    }
}

impl Merger for SimSealer<'_> {
    fn merge(&self, segments: &[SegmentRow]) -> Result<Sealed, MergeFailed> {
        let mut text = String::new();
        for segment in segments {
            text.push_str(&self.text_of(segment)?);
        }
        self.world.count(Count::Merged, 1);
        self.world.count(Count::Grown, u64::from(text.len() > 400));
        let received = segments.iter().map(|segment| segment.received_last_ns);
        Ok(self.sealed(text, received.max().unwrap_or(0))?)
    }
}

/// The lines of a segment.
pub fn read_lines(
    objects: &dyn Objects,
    segment: &SegmentRow,
) -> Result<Vec<(usize, i64)>, crate::error::ObjectError> {
    let mut bytes = vec![0; segment.bytes as usize];
    let count = objects.read_range(&segment.name, 0, &mut bytes)?;
    let text = String::from_utf8_lossy(&bytes[..count]).into_owned();
    Ok(text.lines().filter_map(Model::parse).collect())
}
