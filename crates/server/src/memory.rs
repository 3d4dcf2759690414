//! The allocator of the process, and what gives freed memory back to the system.

use std::ffi::c_long;
use std::time::Duration;

/// Frames, batches and the state of queries come and go by the hundred megabytes, made by one thread and dropped by another.
/// The allocator of the C library keeps what was freed so: twice the cache after filling it, and four times that after a few
/// queries that group. This one gives it back, and drops large groups ten times as fast.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[allow(unsafe_code)]
unsafe extern "C" {
    fn mi_collect(force: bool);
    fn mi_option_set_default(option: i32, value: c_long);
    #[cfg(test)]
    fn mi_option_get(option: i32) -> c_long;
}

/// How long freed memory is kept to be used again, milliseconds (`mi_option_purge_delay`). With the second that the allocator would
/// wait, a server that takes lines as fast as they come holds 70 MiB more at most (745 and 675); sealing takes as long.
const KEEP_OPTION: i32 = 15;
const KEEP_MS: c_long = 10;

/// How often it is looked whether freed memory is to be given back.
const LOOK_TIME: Duration = Duration::from_secs(1);

/// Gives freed memory back about a second later. The allocator itself looks for it only now and then while it is asked for memory:
/// a machine that was busy and is quiet now would go on holding hundreds of megabytes.
///
/// The environment (`MIMALLOC_PURGE_DELAY`) goes before what is set here.
pub fn give_back_freed() -> std::io::Result<()> {
    // SAFETY: a function of the allocator that is linked, with these types in its header; any thread may call it.
    #[allow(unsafe_code)]
    unsafe {
        mi_option_set_default(KEEP_OPTION, KEEP_MS);
    }
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
        // SAFETY: as above.
        #[allow(unsafe_code)]
        let get = || unsafe { mi_option_get(KEEP_OPTION) };
        assert_eq!(
            get(),
            1000,
            "the number of the option may be another in this version of the allocator"
        );
        give_back_freed().unwrap();
        assert_eq!(get(), KEEP_MS);
    }
}
