//! What the writer, readers and appenders of one store have in common.

use std::collections::VecDeque;
use std::sync::atomic::AtomicU64;
use std::sync::{
    Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
};

use platform::{Clock, Disk, DiskFile};
use segment::SegmentError;

use crate::cache::Cache;
use crate::config::{OPEN_FILES_MAX, StoreConfig};
use crate::queue::Queue;
use crate::segments::Segment;
use crate::stats::{Counters, StoreState};

pub(crate) struct Shared {
    pub(crate) config: StoreConfig,
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) node: u32,
    pub(crate) sequence_next: AtomicU64,
    /// By id.
    pub(crate) segments: RwLock<Vec<Arc<Segment>>>,
    pub(crate) queue: Queue,
    pub(crate) cache: Cache,
    pub(crate) state: Mutex<StoreState>,
    pub(crate) counters: Counters,
    /// Groups committed since the start; waited on by the parse stage.
    pub(crate) groups: Mutex<u64>,
    pub(crate) grown: Condvar,
    /// Segments with an open file, in the order of opening.
    open_files: Mutex<VecDeque<Arc<Segment>>>,
}

impl Shared {
    pub(crate) fn new(
        config: StoreConfig,
        disk: Arc<dyn Disk>,
        clock: Arc<dyn Clock>,
        node: u32,
        sequence_next: u64,
        segments: Vec<Arc<Segment>>,
    ) -> Self {
        let cache = Cache::new(config.cache_bytes_max);
        Shared {
            config,
            disk,
            clock,
            node,
            sequence_next: AtomicU64::new(sequence_next),
            segments: RwLock::new(segments),
            queue: Queue::default(),
            cache,
            state: Mutex::default(),
            counters: Counters::default(),
            groups: Mutex::new(0),
            grown: Condvar::new(),
            open_files: Mutex::default(),
        }
    }

    /// The segments there are now, by id.
    pub(crate) fn list(&self) -> Vec<Arc<Segment>> {
        read(&self.segments).clone()
    }

    pub(crate) fn segment(&self, id: u64) -> Option<Arc<Segment>> {
        let segments = read(&self.segments);
        let place = segments.binary_search_by_key(&id, |s| s.id).ok()?;
        Some(segments[place].clone())
    }

    pub(crate) fn state(&self) -> StoreState {
        lock(&self.state).clone()
    }

    /// A segment's file for reading; closes another one when too many are open.
    pub(crate) fn open(&self, segment: &Arc<Segment>) -> Result<Arc<dyn DiskFile>, SegmentError> {
        let (file, fresh) = segment.open(&*self.disk)?;
        if fresh {
            let mut open = lock(&self.open_files);
            open.push_back(segment.clone());
            if open.len() > OPEN_FILES_MAX
                && let Some(oldest) = open.pop_front()
            {
                oldest.forget_file();
            }
        }
        Ok(file)
    }

    /// Drops what is kept of a deleted segment.
    pub(crate) fn forget(&self, segment: &Segment) {
        lock(&self.open_files).retain(|open| open.id != segment.id);
        segment.forget_file();
        self.cache.remove_segment(segment.id);
    }
}

// A panic elsewhere must not stop everyone: what these locks guard is consistent between statements.

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn read<T>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    lock.read().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn write<T>(lock: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    lock.write().unwrap_or_else(PoisonError::into_inner)
}
