//! A simulated query, and the checks of its answer.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::Weakness;
use super::model::{Allowance, Deletion, Model};
use super::store::read_lines;
use super::world::Count;
use super::world::World;
use crate::catalog::{Catalog, Owner, TimeRange};
use crate::deletions::Tombstone;
use crate::error::{CatalogError, Failure, ObjectError};
use crate::frame_log::FrameLog;
use crate::hot::{HotError, HotFrame, HotPart};
use crate::plan::{End, HotRange, Plan, PlanError, gather, plan_of};

/// Plans of a query, each of which is asked for at another time.
const TRIES_MAX: u32 = 6;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    Complete,
    /// It said that parts are missing.
    Incomplete,
    /// It said that it failed.
    Failed,
}

/// Runs a query from the site of queries and checks its answer.
pub fn query(world: &Arc<World>, times: TimeRange) -> Result<Answer, String> {
    let site = world.query_site();
    let objects = world.remote_objects(site);
    let (began, received_before_ns, deletions) = {
        let model = world.model.lock().unwrap();
        (model.now, world.dropped_before_ns(), model.deletions.len())
    };
    let ask = |owner: &Owner, part: &HotRange| ask(world, owner, part);
    // Whether it waits for the log, or takes what the log told before.
    let takes_open = world.chance(500);
    let mut tries = 0;
    let (planned, gathered) = loop {
        tries += 1;
        let mut planned = Planned::default();
        match gather(1, || plan(world, times, began, &mut planned), ask) {
            Ok(gathered)
                if tries == TRIES_MAX
                    || gathered.missing.is_empty() && (takes_open || gathered.open.is_empty()) =>
            {
                break (planned, gathered);
            }
            Err(_) if tries == TRIES_MAX => return Ok(Answer::Failed),
            _ => world.run_a_little(),
        }
    };
    if world.chance(300) {
        // A slow query.
        (0..world.below(20)).for_each(|_| world.run_a_little());
    }
    let mut found: Vec<(usize, i64)> = Vec::new();
    for frame in gathered.answers.iter().flatten() {
        let text = |line: record::frame::Line<'_>| String::from_utf8_lossy(line.bytes).into_owned();
        found.extend(frame.frame.lines().filter_map(|line| Model::parse(&text(line))));
    }
    if world.weakness != Some(Weakness::HotUnhidden) {
        hide(world, &mut found, &gathered.tombstones, 0);
    }
    for segment in &gathered.segments {
        if world.chance(100) {
            world.run_a_little();
        }
        let mut lines = read_lines(&objects, segment);
        if matches!(lines, Err(ObjectError::Unavailable(_))) {
            world.run_a_little();
            lines = read_lines(&objects, segment);
        }
        match lines {
            Ok(mut lines) => {
                hide(world, &mut lines, &gathered.tombstones, segment.searched);
                found.extend(lines);
            }
            Err(ObjectError::Missing(name)) => {
                // The longest query is shorter than the grace time.
                let since_ns = world.now_ns() - planned.catalog_ns;
                let is_late = since_ns >= world.grace.as_nanos() as i64 * 7 / 8;
                return if is_late { Ok(Answer::Failed) } else { Err(format!("{name} is gone")) };
            }
            Err(_) => return Ok(Answer::Failed),
        }
    }
    found.retain(|&(_, ns)| times.overlaps(&TimeRange { first_ns: ns, last_ns: ns }));
    let missing: BTreeSet<u32> = gathered.missing.iter().map(|part| part.partition).collect();
    // Retention may have dropped more by the time of the snapshot.
    let received_before_ns = world.dropped_before_ns().max(received_before_ns);
    let until = gathered.open.iter().map(|partition| (*partition, planned.ends_known)).collect();
    // A snapshot from before the query does not have the deletions that began since.
    let deletions = if planned.is_kept { 0 } else { deletions };
    let allowance =
        Allowance { received_before_ns, partitions: &missing, until: &until, deletions };
    world.model.lock().unwrap().check(&found, times, began, &allowance)?;
    world.count(Count::FromKept, planned.is_kept.into());
    world.count(Count::Open, u64::from(!until.is_empty() && missing.is_empty()));
    Ok(if missing.is_empty() && until.is_empty() { Answer::Complete } else { Answer::Incomplete })
}

/// What a plan was made of.
#[derive(Default)]
struct Planned {
    /// When the catalog was like this.
    catalog_ns: i64,
    /// Whether that was before the query.
    is_kept: bool,
    /// The last acknowledgement before the ends of the partitions were asked.
    ends_known: u64,
}

/// Plans with what the engines tell, or told before if they do not answer.
fn plan(
    world: &Arc<World>,
    times: TimeRange,
    began: u64,
    planned: &mut Planned,
) -> Result<Plan, PlanError> {
    let site = world.query_site();
    let asked_ns = world.now_ns();
    let snapshot = match world.remote_catalog(site).snapshot(times, 10_000) {
        Ok(snapshot) => {
            *planned = Planned { catalog_ns: asked_ns, ..Planned::default() };
            snapshot
        }
        Err(error) => {
            let kept = world.kept.get(times, Duration::ZERO, world.now_ns() as u64);
            let kept = kept.map_err(|_| PlanError::Catalog(error))?;
            let read_ns = match world.weakness {
                Some(Weakness::SnapshotForEver) => 0,
                _ => i64::try_from(kept.read.as_nanos()).unwrap_or(i64::MAX),
            };
            let catalog_ns = world.now_ns() - read_ns;
            *planned = Planned { catalog_ns, is_kept: true, ends_known: 0 };
            kept.snapshot
        }
    };
    let ends: Vec<End> = match world.remote_log(site).ends() {
        Ok(ends) => {
            planned.ends_known = began;
            ends.into_iter().map(End::Now).collect()
        }
        Err(error) => {
            let known = world.ends.lock().unwrap().clone();
            let (ends, at) = known.ok_or(PlanError::Log(error))?;
            planned.ends_known = at;
            let is_weak = world.weakness == Some(Weakness::EndsFromBefore);
            // A weak query takes them for the ends of now, where that is possible.
            let offsets = |partition: usize| {
                let rows = &snapshot.partitions;
                rows.iter().find(|row| row.partition as usize == partition).map_or(0, |r| r.offset)
            };
            let end = |(partition, end): (usize, u64)| match is_weak {
                true => End::Now(end.max(offsets(partition))),
                false => End::Before(end),
            };
            ends.into_iter().enumerate().map(end).collect()
        }
    };
    plan_of(snapshot, &ends).checked()
}

/// Keeps what the engines tell, for queries while they do not answer.
pub fn keep(world: &Arc<World>) -> Result<(), CatalogError> {
    let site = world.query_site();
    let now = world.model.lock().unwrap().now;
    if let Ok(ends) = world.remote_log(site).ends() {
        let mut known = world.ends.lock().unwrap();
        // A call may be overtaken by a later one.
        if known.as_ref().is_none_or(|(_, at)| *at <= now) {
            *known = Some((ends, now));
        }
    }
    let catalog = world.remote_catalog(site);
    world.kept.refresh(&catalog, || world.now_ns() as u64, world.now_ns())
}

/// Removes the lines of deletions behind the one that a segment was searched for.
fn hide(world: &World, lines: &mut Vec<(usize, i64)>, tombstones: &[Tombstone], searched: u64) {
    let model = world.model.lock().unwrap();
    for tombstone in tombstones.iter().filter(|tombstone| tombstone.id > searched) {
        let Tombstone { filter, created_ns, .. } = tombstone;
        lines.retain(|(index, _)| !model.is_covered(*index, filter, *created_ns));
    }
}

/// Begins a deletion from the site of queries.
pub fn delete(world: &Arc<World>) {
    let site = world.query_site();
    let (catalog, log) = (world.remote_catalog(site), world.remote_log(site));
    let Ok(ends) = log.ends() else { return };
    let remainder = world.below(7);
    let before_ns = match catalog.delete(&Model::filter(remainder), &ends) {
        Ok(row) => Some(row.tombstone.created_ns),
        Err(error) if error.failure() == Failure::Unknown => None,
        Err(_) => return,
    };
    world.trace(|| format!("deletion of {remainder} before {before_ns:?}"));
    world.model.lock().unwrap().deletions.push(Deletion { remainder, before_ns });
}

/// Asks the owner of a partition, over the network.
fn ask(world: &Arc<World>, owner: &Owner, part: &HotRange) -> Result<Vec<HotFrame>, HotError> {
    let site: usize = owner.address.parse().expect("an address is the number of a site");
    if !world.is_calm() && world.chance(100) {
        world.run_a_little();
    }
    for _ in 0..4 {
        let is_away = world.sites[site].is_paused(world.now_ns()) || world.chance(20);
        let hot = world.hot_part(site, part.partition).filter(|_| !is_away || world.is_calm());
        let hot = hot.ok_or(HotError::NotOwner)?;
        match read(world, site, &hot, part) {
            Err(HotError::Behind { .. }) => world.run_a_little(),
            answer => return answer,
        }
    }
    Err(HotError::Behind { position: 0 })
}

fn read(
    world: &World,
    site: usize,
    hot: &HotPart,
    part: &HotRange,
) -> Result<Vec<HotFrame>, HotError> {
    let now_ns = world.monotonic_ns(site);
    let (from, until) = (part.offsets.start, part.offsets.end);
    match world.weakness {
        Some(Weakness::ServeAfterLease) => {
            hot.extend(u64::MAX);
            hot.read(from, until.min(hot.position()), now_ns)
        }
        Some(Weakness::HotFromNow) => {
            let _ = hot.read(from, until, now_ns)?;
            hot.read(from.max(hot.committed()), until, now_ns)
        }
        _ if part.is_open => hot.read_open(from, until, now_ns),
        _ => hot.read(from, until, now_ns),
    }
}
