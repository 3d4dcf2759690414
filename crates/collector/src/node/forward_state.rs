//! What the threads that deliver frames to stores have in common: frames that wait, the spool, and
//! a handle of each lane.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use super::directory::Directory;
use super::lane_handle::LaneHandle;
use super::lock;
use super::queue::Queue;
use super::secret::Secret;
use super::spool::Spool;

/// The pause before a thread goes on that has panicked, so that one that does so again and again
/// fills no log.
pub(super) const PANIC_PAUSE: Duration = Duration::from_secs(1);

/// Where frames go, and what they may take on the way.
#[derive(Clone, Debug)]
pub struct ForwardConfig {
    /// Stores as `HOST:PORT`; at least one.
    pub stores: Vec<String>,
    /// Where frames wait on disk, and what a collector knows of itself.
    pub spool_dir: PathBuf,
    /// Bytes of that directory's files. Beyond, senders are pushed back.
    pub spool_bytes_max: u64,
    /// Bytes of each store that are sent and not acknowledged.
    pub window_bytes: usize,
    /// Every frame goes through the spool, so that none is lost with this process.
    pub spool_always: bool,
    /// Stores, by node id, that will not come back: frames bound to them go to others.
    pub lost_stores: Vec<u32>,
    /// What stores must know, and are proved to know.
    pub secret: Option<Arc<Secret>>,
}

/// What the threads have in common.
pub(super) struct ForwardState {
    pub(super) config: ForwardConfig,
    pub(super) queue: Mutex<Queue>,
    /// Frames came, went, or everything ends.
    pub(super) changed: Condvar,
    pub(super) spool: Mutex<Spool>,
    pub(super) directory: Mutex<Directory>,
    pub(super) lanes: Vec<LaneHandle>,
    /// Stores that are connected, and by which lane.
    pub(super) claimed: Mutex<BTreeMap<u32, usize>>,
    pub(super) lines_damaged: AtomicU64,
    pub(super) spool_full: AtomicBool,
    pub(super) threads_failed: AtomicU64,
}

impl ForwardState {
    pub(super) fn queue(&self) -> MutexGuard<'_, Queue> {
        lock(&self.queue)
    }

    /// Says that there may be room, or frames.
    pub(super) fn notify(&self) {
        self.changed.notify_all();
    }

    pub(super) fn spool(&self) -> MutexGuard<'_, Spool> {
        self.spool.lock().unwrap_or_else(|poisoned| self.in_doubt(poisoned))
    }

    /// None while another thread works with it.
    pub(super) fn try_spool(&self) -> Option<MutexGuard<'_, Spool>> {
        match self.spool.try_lock() {
            Ok(spool) => Some(spool),
            Err(TryLockError::WouldBlock) => None,
            Err(TryLockError::Poisoned(poisoned)) => Some(self.in_doubt(poisoned)),
        }
    }

    /// Files and what is known of them may differ after a panic, unlike what the other locks guard.
    fn in_doubt<'a>(&self, poisoned: PoisonError<MutexGuard<'a, Spool>>) -> MutexGuard<'a, Spool> {
        let mut spool = poisoned.into_inner();
        spool.doubt();
        self.spool.clear_poison();
        spool
    }

    /// What `work` gives, unless it panics, which is counted and told. What it leaves half done is
    /// in `ForwardState` or in places of its thread that are looked at before it goes on.
    pub(super) fn survive<T>(&self, work: impl FnOnce() -> T) -> Option<T> {
        let result = catch_unwind(AssertUnwindSafe(work)).ok();
        if result.is_none() {
            self.threads_failed.fetch_add(1, Relaxed);
            let thread = std::thread::current();
            let name = thread.name().unwrap_or_default();
            tracing::error!(
                "thread {name} failed by a fault of Loginson; it goes on in a moment with the frames it had; please report what \
                 stands before this line"
            );
        }
        result
    }
}
