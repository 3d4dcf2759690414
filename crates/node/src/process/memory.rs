//! The allocator of the process, and how freed memory is returned to the system.

use std::ffi::{c_int, c_long};
use std::time::{Duration, Instant};

use procfs::process::Process;

/// Frames, batches and the state of queries are allocated by one thread and freed by another,
/// hundreds of megabytes at a time. The allocator of the C library retains memory freed in this
/// way: twice the cache after filling it, and four times that after a few queries that group. This
/// one returns it, and frees large groups ten times as fast.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[allow(unsafe_code)]
unsafe extern "C" {
    fn mi_collect(force: bool);
    fn mi_option_get(option: c_int) -> c_long;
    fn mi_option_set(option: c_int, value: c_long);
}

/// Number of the option `mi_option_purge_delay`: for how long the allocator keeps freed memory,
/// milliseconds.
const PURGE_DELAY: c_int = 15;

/// How often the memory of the process is looked at while it is, or will soon be, larger than
/// usual.
const LOOK_TIME: Duration = Duration::from_millis(50);
/// How often while it is less than half of that: an idle process wakes seldom.
const QUIET_LOOK_TIME: Duration = Duration::from_secs(1);
/// After this time, freed memory is collected that the allocator has kept for long enough.
const COLLECTION_TIME: Duration = Duration::from_secs(1);
/// After this many collections, the memory of threads that have ended is collected as well.
const COLLECTIONS_PER_FULL: u32 = 5;
/// For how long a process that is larger than usual keeps freed memory, milliseconds. Not 0: the
/// allocator would then no longer return what was freed before.
const LARGE_PURGE_DELAY_MS: c_long = 1;
/// Memory of a process besides its cache and what its budget counts, about.
const BASE_BYTES: u64 = 128 << 20;

/// Returns freed memory to the system about a second later. The allocator itself collects it only
/// while memory is allocated: a machine that was busy and is quiet now would retain hundreds of
/// megabytes.
///
/// Queries that end and begin by the dozen, beside lines that arrive, free and allocate more in
/// that second than all of them hold at one time. A process that is larger than usual
/// ([`large_bytes`]) therefore returns memory at once. Always doing so would slow usual queries
/// down.
///
/// The allocator keeps the freed memory of a thread for that thread. Threads that run queries and
/// that seal therefore collect theirs when they have nothing to do. The memory of a thread that has
/// ended is returned only by a full collection; each burst of requests leaves such threads.
///
/// Transparent huge pages are switched off for the process if the machine has them always on: the
/// kernel would again back 2 MiB of which a few KiB are in use, so that returned memory would not
/// leave the process. A server that peaks at 1.3 GiB without them stays at 1.9 GiB with them.
pub fn give_back_freed(large_bytes: u64) -> std::io::Result<()> {
    if let Err(error) = rustix::thread::disable_transparent_huge_pages(true) {
        tracing::warn!(%error, "transparent huge pages stay on: more memory may be held than used");
    }
    let look = move || {
        let usual_delay_ms = purge_delay_ms();
        let (mut is_large, mut look_time) = (false, LOOK_TIME);
        let (mut collected_at, mut collections) = (Instant::now(), 0_u32);
        loop {
            std::thread::sleep(look_time);
            let was_large = is_large;
            let resident = resident_bytes().unwrap_or(0);
            is_large = resident > large_bytes;
            look_time = if resident > large_bytes / 2 { LOOK_TIME } else { QUIET_LOOK_TIME };
            if is_large != was_large {
                set_purge_delay_ms(if is_large { LARGE_PURGE_DELAY_MS } else { usual_delay_ms });
            }
            if is_large || collected_at.elapsed() >= COLLECTION_TIME {
                collections = collections.wrapping_add(1);
                collect(is_large || collections.is_multiple_of(COLLECTIONS_PER_FULL));
                collected_at = Instant::now();
            }
        }
    };
    std::thread::Builder::new().name("memory".to_owned()).spawn(look).map(drop)
}

/// The resident memory above which a process is larger than usual: with a full cache, and half of
/// what clients may make it take; half of the memory of the machine (`machine_bytes`) if that is
/// less.
///
/// `cache_bytes_max`: the limit of the cache of the store; `budget_bytes_max`: the budget of
/// queries, tails and inserts ([`platform::memory`]).
pub fn large_bytes(cache_bytes_max: u64, budget_bytes_max: u64, machine_bytes: Option<u64>) -> u64 {
    let usual = BASE_BYTES.saturating_add(cache_bytes_max).saturating_add(budget_bytes_max / 2);
    machine_bytes.map_or(usual, |bytes| usual.min(bytes / 2))
}

/// The resident memory of the process. `None`: the system does not tell.
fn resident_bytes() -> Option<u64> {
    let pages = Process::myself().and_then(|process| process.statm()).ok()?.resident;
    Some(pages * procfs::page_size())
}

/// For how long the allocator keeps freed memory.
fn purge_delay_ms() -> c_long {
    // SAFETY: a function of the allocator that is linked, with this type in its header; it reads a
    // number.
    #[allow(unsafe_code)]
    unsafe {
        mi_option_get(PURGE_DELAY)
    }
}

/// Changes it for what is freed from now on.
fn set_purge_delay_ms(delay_ms: c_long) {
    // SAFETY: a function of the allocator that is linked, with this type in its header. It writes
    // one aligned number that other threads read when they free memory: they see the old or the new
    // one, and each is a valid delay.
    #[allow(unsafe_code)]
    unsafe {
        mi_option_set(PURGE_DELAY, delay_ms);
    }
}

/// Returns the freed memory that the allocator keeps for this thread to the system.
pub fn give_back_own() {
    collect(true);
}

/// Collects freed memory of this thread and of threads that have ended; with `all`, also memory
/// that was freed just now.
fn collect(all: bool) {
    // SAFETY: a function of the allocator that is linked, with this type in its header; any thread
    // may call it.
    #[allow(unsafe_code)]
    unsafe {
        mi_collect(all);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn a_process_is_large_with_a_full_cache_and_half_of_its_budget() {
        assert_eq!(large_bytes(512 * MIB, 768 * MIB, None), 1_024 * MIB);
        assert_eq!(large_bytes(512 * MIB, 768 * MIB, Some(8_192 * MIB)), 1_024 * MIB);
        assert_eq!(large_bytes(32 * MIB, 64 * MIB, Some(256 * MIB)), 128 * MIB);
        assert_eq!(large_bytes(u64::MAX, 1, None), u64::MAX);
    }

    #[test]
    fn the_option_is_the_delay() {
        let usual_ms = purge_delay_ms();
        assert_eq!(usual_ms, 1_000, "the allocator has another default, or another number");
        set_purge_delay_ms(0);
        assert_eq!(purge_delay_ms(), 0);
        set_purge_delay_ms(usual_ms);
    }

    #[test]
    fn resident_memory_is_what_is_written_to() {
        let written = vec![1_u8; 64 << 20];
        let resident = resident_bytes().unwrap();
        let machine = platform::memory::machine_bytes().unwrap();
        assert!((written.len() as u64..machine).contains(&resident), "{resident} of {machine}");
    }
}
