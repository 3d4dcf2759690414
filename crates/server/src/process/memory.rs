//! The allocator of the process, and what gives freed memory back to the system.

use std::time::Duration;

/// Frames, batches and the state of queries come and go by the hundred megabytes, made by one thread and dropped by another.
/// The allocator of the C library keeps what was freed so: twice the cache after filling it, and four times that after a few
/// queries that group. This one gives it back, and drops large groups ten times as fast.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[allow(unsafe_code)]
unsafe extern "C" {
    fn mi_collect(force: bool);
}

/// How often it is looked whether freed memory is to be given back.
const LOOK_TIME: Duration = Duration::from_secs(1);

/// Gives freed memory back about a second later. The allocator itself looks for it only now and then while it is asked for memory:
/// a machine that was busy and is quiet now would go on holding hundreds of megabytes. What a thread was given it keeps for that
/// one, so threads that answer questions and that seal look by themselves when they have nothing to do.
pub fn give_back_freed() -> std::io::Result<()> {
    platform::helpers::set_at_rest(|| collect(true));
    let look = || {
        loop {
            std::thread::sleep(LOOK_TIME);
            collect(false);
        }
    };
    std::thread::Builder::new().name("memory".to_owned()).spawn(look).map(drop)
}

/// Looks for memory that was freed, of this thread and of all that is nobody's; `all` of it, also what was freed just now.
fn collect(all: bool) {
    // SAFETY: a function of the allocator that is linked, with this type in its header; any thread may call it.
    #[allow(unsafe_code)]
    unsafe {
        mi_collect(all);
    }
}
