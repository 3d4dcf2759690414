//! A simulated query, and the checks of its answer.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::Weakness;
use super::model::{Allowance, Model};
use super::store::read_lines;
use super::world::World;
use crate::catalog::{Owner, TimeRange};
use crate::error::ObjectError;
use crate::hot::{HotError, HotFrame, HotPart};
use crate::plan::{HotRange, gather};

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
    let (catalog, log) = (world.remote_catalog(site), world.remote_log(site));
    let objects = world.remote_objects(site);
    let (began, received_before_ns) = {
        let model = world.model.lock().unwrap();
        (model.now, world.dropped_before_ns())
    };
    let ask = |owner: &Owner, part: &HotRange| ask(world, owner, part);
    let mut tries = 0;
    let (planned_ns, gathered) = loop {
        tries += 1;
        let planned_ns = world.now_ns();
        match gather(&catalog, &log, times, 10_000, 1, ask) {
            Ok(gathered) if gathered.missing.is_empty() || tries == TRIES_MAX => {
                break (planned_ns, gathered);
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
            Ok(lines) => found.extend(lines),
            Err(ObjectError::Missing(name)) => {
                // The longest query is shorter than the grace time.
                let since_ns = world.now_ns() - planned_ns;
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
    let allowance = Allowance { received_before_ns, partitions: &missing };
    world.model.lock().unwrap().check(&found, times, began, &allowance)?;
    Ok(if missing.is_empty() { Answer::Complete } else { Answer::Incomplete })
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
        _ => hot.read(from, until, now_ns),
    }
}
