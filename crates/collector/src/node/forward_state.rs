//! The state shared by the threads that deliver frames to stores: the queue, the spool, and a
//! handle of each lane.

use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::atomic::{
    AtomicBool, AtomicU64,
    Ordering::{Relaxed, SeqCst},
};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError};

use super::directory::{Directory, NumberOwner, Place};
use super::lane_handle::LaneHandle;
use super::lock;
use super::queue::FrameQueue;
use super::room::Room;
use super::secret::Secret;
use super::spool::{STRIPE, Spool};

/// The stores that frames go to, and the limits of delivery.
#[derive(Clone, Debug)]
pub struct ForwardConfig {
    /// Stores as `HOST:PORT`; at least one, unless there are `copies`.
    pub stores: Vec<String>,
    /// Instead of `stores`: the stores of each copy, at least two copies of equally many stores.
    pub copies: Vec<Vec<String>>,
    /// The directory of waiting frames and of the collector's persistent state.
    pub spool_dir: PathBuf,
    /// Bytes of the files in that directory. Beyond this, senders are pushed back. With copies,
    /// each store has an equal share of them.
    pub spool_bytes_max: u64,
    /// Bytes that are sent to each store and not acknowledged.
    pub window_bytes: usize,
    /// Every frame goes through the spool, so that none is lost when this process is killed.
    pub spool_always: bool,
    /// Stores, by node id, that will not return: frames bound to them go to others.
    pub lost_stores: Vec<u32>,
    /// The secret that collector and store prove to each other.
    pub secret: Option<Arc<Secret>>,
}

impl Default for ForwardConfig {
    fn default() -> Self {
        ForwardConfig {
            stores: Vec::new(),
            copies: Vec::new(),
            spool_dir: "./loginson-spool".into(),
            spool_bytes_max: 10 << 30,
            window_bytes: 32 << 20,
            spool_always: false,
            lost_stores: Vec::new(),
            secret: None,
        }
    }
}

/// What a forwarder knows that delivers to one store of one copy: its frames have numbers.
pub(super) struct OneOfCopies {
    pub(super) place: Place,
    /// Signalled together with `changed`.
    pub(super) room: Arc<Room>,
    /// Lines of frames in memory whose sources were not notified yet.
    pub(super) lines_in_memory: Arc<AtomicU64>,
}

impl OneOfCopies {
    pub(super) fn owner(&self) -> NumberOwner {
        NumberOwner::Stripe(self.place.stripe)
    }
}

/// The spool, as long as one thread has it.
pub(super) struct SpoolGuard<'a> {
    spool: MutexGuard<'a, Spool>,
    has_spooled: &'a AtomicBool,
}

impl Deref for SpoolGuard<'_> {
    type Target = Spool;

    fn deref(&self) -> &Spool {
        &self.spool
    }
}

impl DerefMut for SpoolGuard<'_> {
    fn deref_mut(&mut self) -> &mut Spool {
        &mut self.spool
    }
}

impl Drop for SpoolGuard<'_> {
    fn drop(&mut self) {
        self.has_spooled.store(!self.spool.is_empty(), SeqCst);
    }
}

/// The state shared by the threads.
pub(super) struct ForwardState {
    pub(super) config: ForwardConfig,
    pub(super) copy: Option<OneOfCopies>,
    pub(super) queue: Mutex<FrameQueue>,
    /// Signalled when frames arrived or left, and when the process stops.
    pub(super) changed: Condvar,
    pub(super) spool: Mutex<Spool>,
    /// Whether the spool has frames, as of the last time that somebody had it. It is brought up to
    /// date before the sources of frames in the spool are notified.
    pub(super) has_spooled: AtomicBool,
    pub(super) directory: Arc<Mutex<Directory>>,
    pub(super) lanes: Vec<LaneHandle>,
    /// The connected stores, each with the index of its lane.
    pub(super) claimed: Mutex<BTreeMap<u32, usize>>,
    pub(super) lines_damaged: AtomicU64,
    pub(super) spool_full: AtomicBool,
    pub(super) threads_failed: AtomicU64,
}

impl ForwardState {
    pub(super) fn queue(&self) -> MutexGuard<'_, FrameQueue> {
        lock(&self.queue)
    }

    /// Signals that there may be room or new frames.
    pub(super) fn notify(&self) {
        self.changed.notify_all();
        if let Some(copy) = &self.copy {
            copy.room.signal();
        }
    }

    /// Whom the spool's files for a store are bound to.
    pub(super) fn spool_key(&self, store: u32) -> u32 {
        if self.copy.is_some() { STRIPE } else { store }
    }

    pub(super) fn spool(&self) -> SpoolGuard<'_> {
        let spool = self.spool.lock().unwrap_or_else(|poisoned| self.in_doubt(poisoned));
        SpoolGuard { spool, has_spooled: &self.has_spooled }
    }

    /// `None` while another thread holds the lock.
    pub(super) fn try_spool(&self) -> Option<SpoolGuard<'_>> {
        let spool = match self.spool.try_lock() {
            Ok(spool) => spool,
            Err(TryLockError::WouldBlock) => return None,
            Err(TryLockError::Poisoned(poisoned)) => self.in_doubt(poisoned),
        };
        Some(SpoolGuard { spool, has_spooled: &self.has_spooled })
    }

    /// Unlike the state behind other locks, the spool's view of its files may be wrong after a
    /// panic.
    fn in_doubt<'a>(&self, poisoned: PoisonError<MutexGuard<'a, Spool>>) -> MutexGuard<'a, Spool> {
        let mut spool = poisoned.into_inner();
        spool.doubt();
        self.spool.clear_poison();
        spool
    }

    /// The result of `work`, or `None` if it panicked, which is counted and logged. State that a
    /// panic leaves half changed is in `ForwardState` or in fields of its thread that are checked
    /// before it resumes.
    pub(super) fn survive<T>(&self, work: impl FnOnce() -> T) -> Option<T> {
        let result = catch_unwind(AssertUnwindSafe(work)).ok();
        if result.is_none() {
            self.threads_failed.fetch_add(1, Relaxed);
            let thread = std::thread::current();
            let name = thread.name().unwrap_or_default();
            tracing::error!(
                "thread {name} failed because of a bug in Loginson; it resumes in a moment with the frames it had; please report the messages \
                 before this line"
            );
        }
        result
    }
}
