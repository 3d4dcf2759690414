//! The allocator of the process, and how freed memory is returned to the system.

use std::time::Duration;

/// Frames, batches and the state of queries are allocated by one thread and freed by another,
/// hundreds of megabytes at a time. The allocator of the C library retains memory freed in this
/// way: twice the cache after filling it, and four times that after a few queries that group. This
/// one returns it, and frees large groups ten times as fast.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[allow(unsafe_code)]
unsafe extern "C" {
    fn mi_collect(force: bool);
}

/// How often freed memory is collected.
const LOOK_TIME: Duration = Duration::from_secs(1);
/// After this many collections, the memory of threads that have ended is collected as well.
const LOOKS_PER_FULL_LOOK: u32 = 5;

/// Returns freed memory to the system about a second later. The allocator itself collects it only
/// while memory is allocated: a machine that was busy and is quiet now would retain hundreds of
/// megabytes.
///
/// The allocator keeps the freed memory of a thread for that thread. Threads that run queries and
/// that seal therefore collect theirs when they have nothing to do. The memory of a thread that has
/// ended is returned only by a full collection; each burst of requests leaves such threads.
///
/// Transparent huge pages are switched off for the process if the machine has them always on: the
/// kernel would again back 2 MiB of which a few KiB are in use, so that returned memory would not
/// leave the process. A server that peaks at 1.3 GiB without them stays at 1.9 GiB with them.
pub fn give_back_freed() -> std::io::Result<()> {
    if let Err(error) = rustix::thread::disable_transparent_huge_pages(true) {
        tracing::warn!(%error, "transparent huge pages stay on: more memory may be held than used");
    }
    let look = || {
        for looks in 1_u32.. {
            std::thread::sleep(LOOK_TIME);
            collect(looks.is_multiple_of(LOOKS_PER_FULL_LOOK));
        }
    };
    std::thread::Builder::new().name("memory".to_owned()).spawn(look).map(drop)
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
