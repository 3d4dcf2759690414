//! The allocator of the process, and what gives freed memory back to the system.

use std::time::Duration;

/// Frames, batches and the state of queries come and go by the hundred megabytes, made by one
/// thread and dropped by another. The allocator of the C library keeps what was freed so: twice the
/// cache after filling it, and four times that after a few queries that group. This one gives it
/// back, and drops large groups ten times as fast.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[allow(unsafe_code)]
unsafe extern "C" {
    fn mi_collect(force: bool);
}

/// How often freed memory is looked for.
const LOOK_TIME: Duration = Duration::from_secs(1);
/// Every so many looks, the memory of threads that have ended is looked through as well.
const LOOKS_PER_FULL_LOOK: u32 = 5;

/// Gives freed memory back to the system about a second later. The allocator itself looks for it
/// only while memory is allocated: a machine that was busy and is quiet now would go on holding
/// hundreds of megabytes.
///
/// The allocator keeps the freed memory of a thread for that thread. Threads that run queries and
/// that seal therefore look themselves when they have nothing to do. What a thread that has ended
/// leaves behind is given back by a full look only; each burst of requests leaves such threads.
///
/// Transparent huge pages are switched off for the process, where the machine has them always on:
/// the kernel fills 2 MiB again of which a few KiB are in use, so that what was given back does not
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

/// Gives the freed memory that the allocator keeps for this thread back to the system.
pub fn give_back_own() {
    collect(true);
}

/// Looks for memory that was freed, of this thread and of all that is nobody's; `all` of it, also
/// what was freed just now.
fn collect(all: bool) {
    // SAFETY: a function of the allocator that is linked, with this type in its header; any thread
    // may call it.
    #[allow(unsafe_code)]
    unsafe {
        mi_collect(all);
    }
}
