//! Whole histories of a store on a faulty simulated disk, compared with a reference model: a vector
//! of lines.
//!
//! Each seed makes a history of some kilobytes. Lines come, are parsed, sealed, merged, re-encoded,
//! deleted by filters and by every kind of retention, looked up by words, backed up by hard links,
//! and read through older snapshots. Operations fail, the disk fills up, the power is cut at any
//! change of the disk, the process is killed, and the catalog is lost or replaced by an older copy.
//! After each step the store must show every acknowledged line that may not be gone, once and
//! unchanged, and no other.
//!
//! A history has one thread, so a seed gives the same history again. `LOGINSON_SEED=17 cargo test
//! -p loginson-store --test all oracle::` repeats one and prints its steps.
//! `LOGINSON_HISTORIES=1000000` makes a long run, from that seed on. Without a seed, each day
//! begins with another one, so that every day tries histories never tried; a failure prints the
//! seed that repeats it.
//!
//! Left out: races between threads, and damaged files.

mod catalog;
mod coverage;
mod life;
mod lines;
mod truth;

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use coverage::Coverage;
use life::Life;

// Histories allocate much, from two threads.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// As many as take half a minute on two cores. `make test-long` runs many more.
const HISTORIES: u64 = 2_000;
/// Seeds between the first ones of two days: more than any day tries.
const SEEDS_PER_DAY: u64 = 1_000_000;

#[test]
fn acknowledged_lines_survive_any_history_once_and_unchanged() {
    let number = |name| std::env::var(name).ok().map(|text| text.parse().expect("a number"));
    let (seed, count) = (number("LOGINSON_SEED"), number("LOGINSON_HISTORIES"));
    let first = seed.unwrap_or_else(|| days_since_epoch() * SEEDS_PER_DAY);
    let count = count.unwrap_or(if seed.is_some() { 1 } else { HISTORIES });
    let memory = std::path::Path::new("/dev/shm");
    let dir = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
    let dir = dir.unwrap();
    let next = AtomicU64::new(first);
    let total = Mutex::new(Coverage::default());
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads.min(count as usize) {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= first + count {
                        return;
                    }
                    let (coverage, story) = Life::new(seed, dir.path()).live();
                    if count == 1 {
                        println!("{story}");
                    }
                    total.lock().unwrap().add(&coverage);
                }
            });
        }
    });
    let total = total.into_inner().unwrap();
    println!("{count} histories: {total:?}");
    if count >= 1_000 {
        total.check();
    }
}

fn days_since_epoch() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.expect("after 1970").as_secs() / 86_400
}
