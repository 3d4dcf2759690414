//! The allocator of the process, and how long it keeps what was freed.

use std::ffi::{c_int, c_long};
use std::time::Duration;

/// Frames, batches and the state of queries come and go by the hundred megabytes, made by one thread and dropped by another.
/// The allocator of the C library keeps what was freed so: twice the cache after filling it, and four times that after a few
/// queries that group. This one gives it back, and drops large groups ten times as fast.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// How long freed memory is kept before the system gets it back, milliseconds. Within its one second by default, the next
/// question of somebody who looks at an answer first has to take all its memory anew, and the kernel clears it page by page: a tenth
/// of the time of a question that takes 100 MiB.
const PURGE_DELAY_MS: c_long = 3_000;

/// `mi_option_purge_delay` of mimalloc 3, and its default; `mimalloc.h`.
const PURGE_DELAY: c_int = 15;
const PURGE_DELAY_DEFAULT_MS: c_long = 1_000;

#[allow(unsafe_code)]
unsafe extern "C" {
    fn mi_option_get(option: c_int) -> c_long;
    fn mi_option_set(option: c_int, value: c_long);
    fn mi_collect(force: bool);
}

/// Lets the allocator keep freed memory for a while, unless the environment says how long (`MIMALLOC_PURGE_DELAY`). To be
/// called before there are threads.
#[allow(unsafe_code)]
pub fn keep_freed_memory() {
    // SAFETY: both are functions of the allocator that is linked, with these types in its header; the number is checked by its
    // default, and no other thread looks at options meanwhile, since there is none.
    unsafe {
        if mi_option_get(PURGE_DELAY) == PURGE_DELAY_DEFAULT_MS {
            mi_option_set(PURGE_DELAY, PURGE_DELAY_MS);
        }
    }
}

/// How often it is looked whether freed memory is to be given back.
const LOOK_TIME: Duration = Duration::from_secs(1);

/// Gives freed memory back once its time is over. The allocator itself looks for it only now and then while it is asked for memory:
/// a machine that was busy and is quiet now would go on holding hundreds of megabytes.
pub fn give_back_freed() -> std::io::Result<()> {
    let look = || {
        loop {
            std::thread::sleep(LOOK_TIME);
            // SAFETY: a function of the allocator that is linked, with this type in its header; any thread may call it.
            #[allow(unsafe_code)]
            unsafe {
                mi_collect(false);
            }
        }
    };
    std::thread::Builder::new().name("memory".to_owned()).spawn(look).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_option_is_the_one_that_is_meant() {
        keep_freed_memory();
        // SAFETY: reads a number, which nobody changes any more.
        #[allow(unsafe_code)]
        let delay = unsafe { mi_option_get(PURGE_DELAY) };
        assert_eq!(delay, PURGE_DELAY_MS, "another version of mimalloc has other numbers");
    }
}
