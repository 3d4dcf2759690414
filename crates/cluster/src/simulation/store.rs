//! A simulated store: leases, partitions, one job at a time.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use super::Weakness;
use super::model::Model;
use super::world::{Count, World};
use crate::catalog::{NodeInfo, Role, SegmentRow, TimeRange};
use crate::error::{CatalogError, Failure};
use crate::frame_log::FrameLog;
use crate::hot::HotFrame;
use crate::ids::{Lease, NodeId, Resource};
use crate::jobs::{
    JobError, Merge, MergeSettings, Merger, Retention, RetentionSettings, Sweep, SweepSettings,
};
use crate::member::{Change, LeaseSettings, Member};
use crate::objects::Objects;
use crate::partition::Partition;
use crate::publisher::{Progress, PublishError, PublisherSettings, SealError, Sealed, Sealer};
use crate::reader::ReaderSettings;

enum Job {
    Merge(Merge),
    Retention(Retention),
    Sweep(Sweep),
}

pub struct StoreNode {
    member: Member,
    /// Leases of partitions that are not open yet.
    gained: Vec<Lease>,
    partitions: BTreeMap<u32, (Lease, Partition)>,
    job: Option<(Lease, Job)>,
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
            job: None,
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
        let catalog = world.remote_catalog(site);
        if let Some(lease) = self.gained.pop() {
            self.open(world, site, lease);
            return;
        }
        let now_ns = world.monotonic_ns(site);
        match self.member.step(&catalog, world.partitions, now_ns) {
            Ok(Some(Change::Gained(lease))) => {
                world.trace(|| format!("{site}: gained {} {}", lease.resource, lease.epoch));
                self.gained.push(lease);
            }
            Ok(Some(Change::Lost(lease))) => {
                world.trace(|| format!("{site}: lost {} {}", lease.resource, lease.epoch));
                self.drop_lease(world, site, &lease);
            }
            Ok(None) | Err(_) => {}
        }
        for (lease, partition) in self.partitions.values() {
            partition.hot.extend(self.member.until_ns(lease).unwrap_or(0));
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
        if self.job.as_ref().is_some_and(|(held, _)| held == lease) {
            self.job = None;
        }
    }

    fn any_partition(&mut self, world: &World) -> Option<&mut (Lease, Partition)> {
        let index = world.below(self.partitions.len());
        self.partitions.values_mut().nth(index)
    }

    fn step_reader(&mut self, world: &World, site: usize) {
        let now_ns = world.monotonic_ns(site);
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
        let Some((lease, partition)) = self.any_partition(world) else { return };
        let lease = *lease;
        let (catalog, objects) = (world.remote_catalog(site), world.remote_objects(site));
        let sealer = SimSealer { world, site };
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
        let now_ns = world.monotonic_ns(site);
        let (catalog, objects) = (world.remote_catalog(site), world.remote_objects(site));
        let Some((lease, job)) = &mut self.job else {
            let resource = match world.below(4) {
                0 => Resource::Retention,
                1 => Resource::Sweep,
                _ => Resource::Merge(world.below(world.partitions as usize) as u32),
            };
            if let Ok(Some(lease)) = self.member.acquire(&catalog, resource, now_ns) {
                self.job = Some((lease, begin(world, lease)));
            }
            return;
        };
        let sealer = SimSealer { world, site };
        let result = match job {
            Job::Merge(merge) => merge.step(&catalog, &objects, &sealer),
            Job::Retention(retention) => retention.step(&catalog).map(|count| {
                world.count(Count::Dropped, count as u64);
                count > 0
            }),
            Job::Sweep(sweep) => sweep.step(&catalog, &objects),
        };
        let lease = *lease;
        let retry = |error: &JobError| match error {
            JobError::Objects(error) => error.failure() == Failure::Retry,
            JobError::Catalog(error) => error.failure() == Failure::Retry,
            JobError::Seal(_) => true,
        };
        match result {
            Ok(true) => {}
            Err(error) if retry(&error) => {}
            Err(error) if error.is_over() => {
                self.member.is_over(&lease);
                self.job = None;
            }
            Ok(false) | Err(_) => {
                self.member.give_up(lease.resource);
                self.job = None;
            }
        }
    }
}

fn begin(world: &World, lease: Lease) -> Job {
    match lease.resource {
        Resource::Merge(partition) => {
            let settings = MergeSettings { segments_min: 2, bytes_max: 400 };
            Job::Merge(Merge::new(lease, partition, settings))
        }
        Resource::Retention => {
            let settings = RetentionSettings { age_max: world.age_max, bytes_max: None };
            Job::Retention(Retention::new(lease, settings))
        }
        _ => Job::Sweep(Sweep::new(SweepSettings { grace: world.sweep_grace() })),
    }
}

/// A sealed segment is its lines with newlines.
struct SimSealer<'a> {
    world: &'a World,
    site: usize,
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
        self.sealed(text, received.map(|(_, last)| last).max().unwrap_or(0))
    }
}

impl Merger for SimSealer<'_> {
    fn merge(&self, segments: &[SegmentRow]) -> Result<Sealed, SealError> {
        let objects = self.world.remote_objects(self.site);
        let mut text = String::new();
        for segment in segments {
            let mut bytes = vec![0; segment.bytes as usize];
            let read = objects.read_range(&segment.name, 0, &mut bytes);
            read.map_err(|error| SealError(error.to_string()))?;
            text.push_str(&String::from_utf8_lossy(&bytes));
        }
        self.world.count(Count::Merged, 1);
        let received = segments.iter().map(|segment| segment.received_last_ns);
        self.sealed(text, received.max().unwrap_or(0))
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
