//! The allocator of the process, and how freed memory is returned to the system.

use std::time::Duration;

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
}

/// How often the memory of the process is looked at.
const LOOK_TIME: Duration = Duration::from_millis(50);
/// After this many looks, freed memory is collected that the allocator has kept for a second.
const LOOKS_PER_COLLECTION: u32 = 20;
/// After this many looks, the memory of threads that have ended is collected as well.
const LOOKS_PER_FULL_COLLECTION: u32 = 100;
/// If the resident memory has grown by this much since the last full collection, the next one is
/// due at once.
const GROWTH_BYTES_MAX: u64 = 128 << 20;

/// Returns freed memory to the system about a second later. The allocator itself collects it only
/// while memory is allocated: a machine that was busy and is quiet now would retain hundreds of
/// megabytes.
///
/// Queries that end and begin by the dozen free and allocate more in that second than all of them
/// hold at one time: with forty of them the process had twice the memory that they used. So what is
/// free is returned at once when the process has grown by [`GROWTH_BYTES_MAX`]. To return all of it
/// at once, always, would double the time that the kernel takes for such queries.
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
        let mut growth = Growth::default();
        for looks in 1_u32.. {
            std::thread::sleep(LOOK_TIME);
            let has_grown = resident_bytes().is_some_and(|bytes| growth.is_due(bytes));
            if has_grown || looks.is_multiple_of(LOOKS_PER_FULL_COLLECTION) {
                collect(true);
                growth.collected(resident_bytes());
            } else if looks.is_multiple_of(LOOKS_PER_COLLECTION) {
                collect(false);
            }
        }
    };
    std::thread::Builder::new().name("memory".to_owned()).spawn(look).map(drop)
}

/// The growth of the resident memory since the last full collection.
#[derive(Default)]
struct Growth {
    /// The least resident memory since then, bytes.
    least_bytes: u64,
}

impl Growth {
    /// Whether a process with this much resident memory has to be collected now.
    fn is_due(&mut self, resident_bytes: u64) -> bool {
        self.least_bytes = self.least_bytes.min(resident_bytes);
        resident_bytes - self.least_bytes > GROWTH_BYTES_MAX
    }

    /// A full collection has left this much; `None`: that is not known.
    fn collected(&mut self, resident_bytes: Option<u64>) {
        self.least_bytes = resident_bytes.unwrap_or_default();
    }
}

/// The resident memory of the process. `None`: the system does not tell.
fn resident_bytes() -> Option<u64> {
    let pages = Process::myself().and_then(|process| process.statm()).ok()?.resident;
    Some(pages * procfs::page_size())
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
    fn growth_counts_from_the_least_since_the_last_collection() {
        let mut growth = Growth::default();
        growth.collected(Some(300 * MIB));
        assert!(!growth.is_due(300 * MIB + GROWTH_BYTES_MAX));
        assert!(!growth.is_due(100 * MIB));
        assert!(growth.is_due(101 * MIB + GROWTH_BYTES_MAX));
        // All of that is in use: the next collection is due when it has grown again.
        growth.collected(Some(101 * MIB + GROWTH_BYTES_MAX));
        assert!(!growth.is_due(101 * MIB + 2 * GROWTH_BYTES_MAX));
        assert!(growth.is_due(102 * MIB + 2 * GROWTH_BYTES_MAX));
    }

    #[test]
    fn resident_memory_is_what_is_written_to() {
        let written = vec![1_u8; 64 << 20];
        let resident = resident_bytes().unwrap();
        let machine = platform::memory::machine_bytes().unwrap();
        assert!((written.len() as u64..machine).contains(&resident), "{resident} of {machine}");
    }
}
