//! Whole histories of a store on a disk that lies, beside a vector of lines.
//!
//! Each seed makes a history of some kilobytes: lines come, are parsed, rolled, sealed, merged,
//! encoded again, deleted by filter and by every kind of retention, asked for by words, backed up
//! by links, read through snapshots that are older than what happened since; operations fail, the
//! disk fills up, the power is cut at any change of the disk, the process is killed; the catalog is
//! lost, or as old as any backup of it. After each step the store must show every acknowledged line
//! that may not be gone, once, unchanged, and no other.
//!
//! A history has one thread, so a seed does the same again: `LOGINSON_SEED=17 cargo test -p
//! loginson-store --test oracle` repeats one, and says what happened. `LOGINSON_HISTORIES=1000000`
//! makes a long run, from that seed on.
//!
//! Left out: races between threads, and damaged files.

mod catalog;
#[path = "../common/mod.rs"]
mod common;
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

/// As many as take two minutes of two cores. `make test-long` runs many more.
const HISTORIES: u64 = 10_000;

#[test]
fn acknowledged_lines_survive_any_history_once_and_unchanged() {
    let number = |name| std::env::var(name).ok().map(|text| text.parse().expect("a number"));
    let (seed, count) = (number("LOGINSON_SEED"), number("LOGINSON_HISTORIES"));
    let first = seed.unwrap_or(0);
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
