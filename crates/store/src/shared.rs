//! What the writer, readers and appenders of one store have in common.

use std::collections::VecDeque;
use std::sync::atomic::AtomicU64;
use std::sync::{
    Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
};

use platform::{Clock, Disk, DiskFile, DiskSpace};
use segment::SegmentError;
use segment::sealed::SealedFile;

use crate::arrivals::Departed;
use crate::cache::Cache;
use crate::config::{OPEN_FILES_MAX, StoreConfig};
use crate::deletions::Deletion;
use crate::nodes::{HeldNumbers, NodesSeen};
use crate::numbers::Numbers;
use crate::queue::Queue;
use crate::sealed::{SealedFiles, SealedSegment};
use crate::segments::{AnySegment, Fate, FateCell, HotSegment, Position, Segments};
use crate::stats::{Counters, StoreState};

pub(crate) struct Shared {
    pub(crate) config: StoreConfig,
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) node: u32,
    /// Sequence numbers of frames.
    pub(crate) numbers: Arc<Numbers>,
    pub(crate) segments: RwLock<Segments>,
    pub(crate) queue: Queue,
    pub(crate) cache: Cache,
    pub(crate) state: Mutex<StoreState>,
    pub(crate) counters: Counters,
    /// Groups committed since the start; waited on by the parse stage.
    pub(crate) groups: Mutex<u64>,
    pub(crate) grown: Condvar,
    /// Up to where frames are parsed: what may be sealed.
    pub(crate) settled: Mutex<Position>,
    /// Deletions of lines, those that run and some that ended, by id.
    pub(crate) deletions: Mutex<Vec<Deletion>>,
    /// What retention deleted, by the last number.
    pub(crate) departed: Mutex<Vec<Departed>>,
    /// The greatest mark of the summary that ever was sealed.
    pub(crate) summarised_through: Mutex<Option<u64>>,
    pub(crate) background: Signal,
    /// How the keeper of the books is woken.
    pub(crate) keeper: Signal,
    /// The number of the next segment.
    pub(crate) segment_next: AtomicU64,
    /// Bytes of files that left the list and are not removed yet.
    pub(crate) leaving_bytes: AtomicU64,
    /// Bytes that a rewrite under way may take; counted for the limit on bytes.
    pub(crate) reserved_bytes: AtomicU64,
    /// Which frames of other nodes are durable here.
    pub(crate) held: Mutex<HeldNumbers>,
    pub(crate) nodes_seen: Mutex<NodesSeen>,
    /// Hot segments with an open file, in the order of opening.
    open_files: Mutex<VecDeque<Arc<HotSegment>>>,
    sealed_files: SealedFiles,
}

/// How a thread in the background is woken, and told what the store needs of it.
#[derive(Default)]
pub(crate) struct Signal {
    pub(crate) state: Mutex<SignalState>,
    pub(crate) changed: Condvar,
}

#[derive(Default)]
pub(crate) struct SignalState {
    /// How often something may have become due: each thread remembers what it saw.
    pub(crate) wakes: u64,
    /// The disk is nearly full: sealing frees space.
    pub(crate) low_disk: bool,
    /// Whether segments are sealed at all: a background is there.
    pub(crate) attached: bool,
    pub(crate) stopped: bool,
}

impl Signal {
    pub(crate) fn wake(&self) {
        lock(&self.state).wakes += 1;
        self.changed.notify_all();
    }

    pub(crate) fn is_attached(&self) -> bool {
        lock(&self.state).attached
    }

    pub(crate) fn set_low_disk(&self, low: bool) {
        let mut state = lock(&self.state);
        if state.low_disk != low {
            state.low_disk = low;
            state.wakes += 1;
            self.changed.notify_all();
        }
    }
}

/// What a store begins with.
pub(crate) struct Beginning {
    pub(crate) node: u32,
    pub(crate) sequence_next: u64,
    pub(crate) segment_next: u64,
    pub(crate) segments: Segments,
    pub(crate) deletions: Vec<Deletion>,
    pub(crate) departed: Vec<Departed>,
    pub(crate) summarised_through: Option<u64>,
    pub(crate) held: HeldNumbers,
}

impl Shared {
    pub(crate) fn new(
        config: StoreConfig,
        disk: Arc<dyn Disk>,
        clock: Arc<dyn Clock>,
        beginning: Beginning,
    ) -> Self {
        let cache = Cache::new(config.cache_bytes_max);
        let sealed_files = SealedFiles::new(config.cache_bytes_max);
        Shared {
            config,
            disk,
            clock,
            node: beginning.node,
            numbers: Arc::new(Numbers::new(beginning.sequence_next)),
            segments: RwLock::new(beginning.segments),
            queue: Queue::default(),
            cache,
            state: Mutex::default(),
            counters: Counters::default(),
            groups: Mutex::new(0),
            grown: Condvar::new(),
            settled: Mutex::new(Position::START),
            deletions: Mutex::new(beginning.deletions),
            departed: Mutex::new(beginning.departed),
            summarised_through: Mutex::new(beginning.summarised_through),
            background: Signal::default(),
            keeper: Signal::default(),
            segment_next: AtomicU64::new(beginning.segment_next),
            leaving_bytes: AtomicU64::new(0),
            reserved_bytes: AtomicU64::new(0),
            held: Mutex::new(beginning.held),
            nodes_seen: Mutex::default(),
            open_files: Mutex::default(),
            sealed_files,
        }
    }

    /// The segments there are now.
    pub(crate) fn list(&self) -> Segments {
        read(&self.segments).clone()
    }

    /// The hot segments there are now, by id.
    pub(crate) fn hot(&self) -> Vec<Arc<HotSegment>> {
        read(&self.segments).hot.clone()
    }

    pub(crate) fn hot_segment(&self, id: u64) -> Option<Arc<HotSegment>> {
        let segments = read(&self.segments);
        let place = segments.hot.binary_search_by_key(&id, |s| s.id).ok()?;
        Some(segments.hot[place].clone())
    }

    /// Room on the file system.
    pub(crate) fn space(&self) -> Result<DiskSpace, SegmentError> {
        let dir = self.config.segments_dir();
        self.disk.space(&dir).map_err(SegmentError::io(&dir, "get free space"))
    }

    pub(crate) fn state(&self) -> StoreState {
        lock(&self.state).clone()
    }

    /// A hot segment's file for reading; closes another one when too many are open.
    pub(crate) fn open(
        &self,
        segment: &Arc<HotSegment>,
    ) -> Result<Arc<dyn DiskFile>, SegmentError> {
        let (file, fresh) = segment.open(&*self.disk)?;
        if fresh {
            let mut open = lock(&self.open_files);
            open.push_back(segment.clone());
            if open.len() > OPEN_FILES_MAX
                && let Some(oldest) = open.pop_front()
                && oldest.fate.is_listed()
            {
                oldest.forget_file();
            }
        }
        Ok(file)
    }

    /// A sealed segment's file with its footer.
    pub(crate) fn open_sealed(
        &self,
        segment: &SealedSegment,
    ) -> Result<Arc<SealedFile>, SegmentError> {
        self.sealed_files.get(segment, &*self.disk, &self.cache)
    }

    /// Drops what is kept in memory of a segment that left the list. The file of a replaced one
    /// stays open for its handles.
    pub(crate) fn forget(&self, segment: &AnySegment, fate: Fate) {
        segment.mark(fate);
        match segment {
            AnySegment::Hot(hot) => {
                lock(&self.open_files).retain(|open| open.id != hot.id);
                if fate == Fate::Deleted {
                    hot.forget_file();
                }
            }
            AnySegment::Sealed(sealed) => self.sealed_files.forget(sealed.id, &self.cache),
        }
        self.cache.remove_segment(segment.id());
    }

    /// Keeps something of a segment in memory by `put`, unless the segment has left the list.
    pub(crate) fn keep<T>(
        &self,
        segment: u64,
        fate: &FateCell,
        put: impl FnOnce(&Cache) -> T,
    ) -> Option<T> {
        let kept = fate.is_listed().then(|| put(&self.cache))?;
        // It may have left just now, and the cache cleared before.
        if !fate.is_listed() {
            self.cache.remove_segment(segment);
        }
        Some(kept)
    }
}

// A panic elsewhere must not stop everyone: what these locks guard is consistent between
// statements.

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn read<T>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    lock.read().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn write<T>(lock: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    lock.write().unwrap_or_else(PoisonError::into_inner)
}
