//! Histories: events from a seed, queries in between, calm at the end.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::Weakness;
use super::query::{Answer, delete, keep, query};
use super::world::{Count, Counts, World};
use crate::catalog::{Catalog, TimeRange};
use crate::deletions::DeletionState;
use crate::objects::Objects;

/// Histories in the normal tests.
const HISTORIES: u64 = 10_000;
/// Events after the faults end, until when everything must be well.
const CALM_EVENTS_MAX: usize = 20_000;

/// Runs one history; the error is what the checks found, with the trace if it is wanted.
fn history(seed: u64, weakness: Option<Weakness>, is_traced: bool) -> Result<Counts, String> {
    let world = World::new(seed, weakness, is_traced);
    let run = AssertUnwindSafe(|| run(&world));
    let result = catch_unwind(run).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        Err(format!("panic: {}", text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("")))
    });
    result.map_err(|error| {
        let events = world.events().join("\n");
        format!("seed {seed}: {error}\n{events}")
    })
}

fn run(world: &Arc<World>) -> Result<Counts, String> {
    let events = 100 + world.below(300);
    for _ in 0..events {
        world.event();
        world.check_leases()?;
        if world.chance(200) {
            // Engines that are away are asked again soon.
            let _ = keep(world);
        }
        if world.chance(40) {
            let times = some_times(world);
            world.trace(|| format!("query {times:?}"));
            let answer = query(world, times)?;
            let count = match answer {
                Answer::Complete => Count::Complete,
                Answer::Incomplete => Count::Incomplete,
                Answer::Failed => Count::Failed,
            };
            world.count(count, 1);
        }
        if world.chance(10) {
            delete(world);
        }
    }
    world.calm_down();
    settle(world)?;
    world.count(Count::Lines, world.model.lock().unwrap().lines.len() as u64);
    Ok(world.counts())
}

fn some_times(world: &World) -> TimeRange {
    if world.chance(500) {
        return TimeRange::ALL;
    }
    let first_ns = world.now_ns() - world.below(30_000) as i64 * 1_000_000;
    TimeRange { first_ns, last_ns: first_ns + world.below(20_000) as i64 * 1_000_000 }
}

/// In the end, a query finds everything, and there are no objects but those of live segments.
fn settle(world: &Arc<World>) -> Result<(), String> {
    let mut state = String::new();
    for round in 1..CALM_EVENTS_MAX / 100 {
        if round % 20 == 0 {
            // A late copy of a put may come after its object was deleted. The object that it makes
            // is an orphan once the epoch is over, which a restart ends.
            world.restart_stores();
        }
        for _ in 0..100 {
            world.event();
        }
        let is_spooled = world.sites.iter().any(|site| !site.disk.lock().unwrap().spool.is_empty());
        let answer = query(world, TimeRange::ALL)?;
        let live: BTreeSet<String> =
            world.sim_catalog.with(|state, _| state.live().map(|row| row.name.clone()).collect());
        let listed = world.sim_objects.list("", None, usize::MAX).expect("it has no faults");
        let objects: BTreeSet<String> = listed.into_iter().map(|info| info.name).collect();
        if let Some(name) = live.difference(&objects).next() {
            return Err(format!("the object {name} of a live segment is gone"));
        }
        let deletions = world.sim_catalog.deletions().expect("it has no faults");
        let are_done = deletions.rows.iter().all(|row| row.state != DeletionState::Running);
        if !is_spooled && answer == Answer::Complete && live == objects && are_done {
            return Ok(());
        }
        let left: Vec<_> = objects.difference(&live).collect();
        state = format!(
            "spooled {is_spooled}, answer {answer:?}, orphans {left:?}, deletions {:?}",
            deletions.rows
        );
    }
    let leases = world.sim_catalog.snapshot(TimeRange::ALL, 0);
    Err(format!("it does not settle: {state}; {leases:?}"))
}

/// Runs seeds on all processors; the first failure, by seed, or the sum of the outcomes.
fn histories(
    seeds: std::ops::Range<u64>,
    weakness: Option<Weakness>,
) -> Result<Counts, (u64, String)> {
    let next = AtomicU64::new(seeds.start);
    let failed = AtomicU64::new(u64::MAX);
    let workers = std::thread::available_parallelism().map_or(1, |count| count.get());
    let work = || {
        let mut sum = Counts::default();
        loop {
            let seed = next.fetch_add(1, Relaxed);
            if seed >= seeds.end || seed > failed.load(Relaxed) {
                return (sum, None);
            }
            match history(seed, weakness, false) {
                Ok(counts) => add(&mut sum, &counts),
                Err(error) => {
                    failed.fetch_min(seed, Relaxed);
                    return (sum, Some((seed, error)));
                }
            }
        }
    };
    let results: Vec<_> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        workers.into_iter().map(|worker| worker.join().expect("panics are caught")).collect()
    });
    let mut sum = Counts::default();
    results.iter().for_each(|(counts, _)| add(&mut sum, counts));
    let failure = results.into_iter().filter_map(|(_, failure)| failure);
    failure.min_by_key(|(seed, _)| *seed).map_or(Ok(sum), Err)
}

fn add(sum: &mut Counts, counts: &Counts) {
    sum.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("a number"))
}

#[test]
fn every_acknowledged_line_is_there_once() {
    if let Some(seed) = number("LOGINSON_CLUSTER_SEED") {
        let result = history(seed, None, true);
        println!("{result:?}");
        result.unwrap_or_else(|error| panic!("{error}"));
        return;
    }
    let first = number("LOGINSON_CLUSTER_FIRST").unwrap_or(0);
    let count = number("LOGINSON_CLUSTER_HISTORIES").unwrap_or(HISTORIES);
    match histories(first..first + count, None) {
        Ok(counts) => {
            let of = |what: Count| counts[what as usize];
            // The checks are not vacuous: most queries are answered whole, although engines are
            // away often, and what the faults are to provoke happens.
            assert!(of(Count::Complete) > of(Count::Incomplete), "{counts:?}");
            assert!(of(Count::Complete) > 2 * of(Count::Failed), "{counts:?}");
            for (what, per_history) in [
                (Count::Lines, 20.0),
                (Count::Duplicates, 1.0),
                (Count::Openings, 4.0),
                (Count::Published, 5.0),
                (Count::Over, 0.02),
                (Count::Overtaken, 0.02),
                (Count::Merged, 1.0),
                (Count::Grown, 0.02),
                (Count::Dropped, 1.0),
                (Count::Unsealed, 0.1),
                (Count::Deleted, 0.5),
                (Count::Renewed, 0.1),
                (Count::OutOfOrder, 0.05),
                (Count::FromKept, 0.1),
                (Count::Open, 0.1),
            ] {
                let times = of(what) as f64 / count as f64;
                println!("{what:?}: {times:.2} in a history");
                assert!(times > per_history, "{what:?}: {times}, expected {per_history}");
            }
        }
        // Again, with its trace.
        Err((seed, error)) => panic!("{}", history(seed, None, true).err().unwrap_or(error)),
    }
}

/// The checks find a weakness within so many histories.
fn is_caught(weakness: Weakness, histories_max: u64) {
    match histories(0..histories_max, Some(weakness)) {
        Ok(counts) => panic!("{weakness:?} is not found: {counts:?}"),
        Err((seed, error)) => println!("{weakness:?}: {seed}: {}", error.lines().next().unwrap()),
    }
}

#[test]
fn publishing_without_fence_is_caught() {
    is_caught(Weakness::NoFence, 2000);
}

#[test]
fn publishing_without_epoch_is_caught() {
    is_caught(Weakness::NoEpoch, 10_000);
}

#[test]
fn an_offset_stored_apart_is_caught() {
    is_caught(Weakness::OffsetApart, 500);
}

#[test]
fn forgotten_producers_are_caught() {
    is_caught(Weakness::NoProducers, 1000);
}

#[test]
fn a_torn_snapshot_is_caught() {
    is_caught(Weakness::TornSnapshot, 500);
}

#[test]
fn deleting_at_once_is_caught() {
    is_caught(Weakness::DeleteAtOnce, 2000);
}

#[test]
fn sweeping_what_may_be_published_is_caught() {
    is_caught(Weakness::SweepUnpublished, 500);
}

#[test]
fn serving_after_the_lease_is_caught() {
    is_caught(Weakness::ServeAfterLease, 500);
}

#[test]
fn a_hot_part_from_now_on_is_caught() {
    is_caught(Weakness::HotFromNow, 500);
}

#[test]
fn repeating_to_another_partition_is_caught() {
    is_caught(Weakness::OtherPartition, 500);
}

#[test]
fn showing_deleted_lines_of_hot_parts_is_caught() {
    is_caught(Weakness::HotUnhidden, 500);
}

#[test]
fn claiming_that_segments_were_searched_is_caught() {
    is_caught(Weakness::SearchedUnread, 500);
}

#[test]
fn taking_empty_reads_for_nothing_new_is_caught() {
    is_caught(Weakness::NeverRenews, 500);
}

#[test]
fn remembering_last_numbers_alone_is_caught() {
    is_caught(Weakness::LastNumberAlone, 2000);
}

#[test]
fn appending_far_beyond_a_failed_frame_is_caught() {
    is_caught(Weakness::NoWindow, 2000);
}

#[test]
fn a_snapshot_that_is_used_for_ever_is_caught() {
    is_caught(Weakness::SnapshotForEver, 2000);
}

#[test]
fn taking_known_ends_for_those_of_now_is_caught() {
    is_caught(Weakness::EndsFromBefore, 500);
}

#[test]
fn counting_a_lease_from_the_answer_is_caught() {
    is_caught(Weakness::LeaseFromAnswer, 2000);
}

#[test]
fn taking_leases_from_live_owners_is_caught() {
    is_caught(Weakness::TakesLive, 500);
}

#[test]
fn jobs_without_epochs_are_caught() {
    is_caught(Weakness::JobsWithoutEpoch, 10_000);
}
