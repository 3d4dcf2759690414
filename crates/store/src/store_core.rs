//! What the threads and the users of one store share: its settings, and the parts that own its
//! state. Each part has its own lock; [`sync`](crate::sync) says in which order they are taken.

pub(crate) mod counters;
pub(crate) mod deletions;
pub(crate) mod nodes;
pub(crate) mod progress;
pub(crate) mod queue;
pub(crate) mod retention_clock;
pub(crate) mod retention_log;
pub(crate) mod sequence_numbers;
pub(crate) mod signal;
pub(crate) mod write_state;

use std::sync::{Arc, Mutex, RwLock};

use platform::{Clock, Disk, DiskSpace};
use segment::SegmentError;

use crate::catalog::ClockRecord;
use crate::catalog::{Deletion, Departed};
use crate::config::{Cutoff, Retention, StoreConfig};
use crate::segments::table::SegmentTable;
use crate::segments::{AnySegment, SegmentList};
use crate::store_core::counters::Counters;
use crate::store_core::deletions::DeletionTable;
use crate::store_core::nodes::{HeldNumbers, RemoteNodes};
use crate::store_core::progress::Progress;
use crate::store_core::queue::WriteQueue;
use crate::store_core::retention_clock::RetentionClock;
use crate::store_core::sequence_numbers::SequenceNumbers;
use crate::store_core::signal::Signals;
use crate::store_core::write_state::WriteState;
use crate::sync::{lock, read, write};

pub(crate) struct StoreCore {
    pub(crate) config: StoreConfig,
    /// What holds now; the settings have what held at the start.
    retention: RwLock<Arc<Retention>>,
    cutoffs: RwLock<Arc<Vec<Cutoff>>>,
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) clock: Arc<dyn Clock>,
    /// The id of this node.
    pub(crate) node: u32,
    pub(crate) segments: Arc<SegmentTable>,
    pub(crate) numbers: Arc<SequenceNumbers>,
    pub(crate) nodes: RemoteNodes,
    pub(crate) queue: WriteQueue,
    pub(crate) write_state: WriteState,
    pub(crate) progress: Progress,
    pub(crate) deletions: DeletionTable,
    pub(crate) retention_clock: Mutex<RetentionClock>,
    pub(crate) signals: Signals,
    pub(crate) counters: Counters,
}

/// The state that recovery found on the disk.
pub(crate) struct InitialState {
    pub(crate) node: u32,
    pub(crate) sequence_next: u64,
    pub(crate) segment_next: u64,
    pub(crate) segments: SegmentList,
    pub(crate) deletions: Vec<Deletion>,
    pub(crate) departed: Vec<Departed>,
    pub(crate) summarised_through: Option<u64>,
    pub(crate) held: HeldNumbers,
    /// The last time that retention believed; None: not known, and nothing is in the store.
    pub(crate) clock: Option<ClockRecord>,
}

impl StoreCore {
    pub(crate) fn new(
        config: StoreConfig,
        disk: Arc<dyn Disk>,
        clock: Arc<dyn Clock>,
        initial: InitialState,
    ) -> Self {
        let segments = SegmentTable::new(
            disk.clone(),
            initial.segments,
            initial.segment_next,
            initial.departed,
            config.cache_bytes_max,
        );
        let now = || ClockRecord { believed_ns: clock.now_ns(), held: None };
        let record = initial.clock.unwrap_or_else(now);
        let retention_clock = RetentionClock::new(record, clock.monotonic_ns());
        StoreCore {
            retention: RwLock::new(Arc::new(config.retention())),
            cutoffs: RwLock::default(),
            config,
            disk,
            clock,
            node: initial.node,
            segments: Arc::new(segments),
            numbers: Arc::new(SequenceNumbers::new(initial.sequence_next)),
            nodes: RemoteNodes::new(initial.held),
            queue: WriteQueue::default(),
            write_state: WriteState::default(),
            progress: Progress::new(initial.summarised_through),
            deletions: DeletionTable::new(initial.deletions),
            retention_clock: Mutex::new(retention_clock),
            signals: Signals::default(),
            counters: Counters::default(),
        }
    }

    /// What is deleted when.
    pub(crate) fn retention(&self) -> Arc<Retention> {
        Arc::clone(&read(&self.retention))
    }

    /// Changes that from now on.
    pub(crate) fn set_retention(&self, retention: Retention) {
        *write(&self.retention) = Arc::new(retention);
        self.signals.ledger.wake();
    }

    /// Bytes at which a segment is closed, by the limit on bytes that holds now.
    pub(crate) fn segment_bytes(&self) -> u64 {
        self.config.segment_bytes(read(&self.retention).bytes_max)
    }

    /// Lines of whom too much is kept.
    pub(crate) fn cutoffs(&self) -> Arc<Vec<Cutoff>> {
        Arc::clone(&read(&self.cutoffs))
    }

    /// Changes that from now on.
    pub(crate) fn set_cutoffs(&self, cutoffs: Vec<Cutoff>) {
        *write(&self.cutoffs) = Arc::new(cutoffs);
        self.signals.ledger.wake();
    }

    /// The time by which retention measures ages, when the wall clock shows `now_ns`; see
    /// [`retention_clock`].
    pub(crate) fn retention_ns(&self, now_ns: i64) -> i64 {
        lock(&self.retention_clock).read(now_ns, self.clock.monotonic_ns())
    }

    /// Free and total bytes of the file system.
    pub(crate) fn space(&self) -> Result<DiskSpace, SegmentError> {
        let dir = self.config.segments_dir();
        self.disk.space(&dir).map_err(SegmentError::io(&dir, "get free space"))
    }

    /// Whether this segment must stay until a newer hot one records which frames of other nodes are
    /// here.
    pub(crate) fn is_last_record_of_nodes(&self, segment: &AnySegment) -> bool {
        let AnySegment::Hot(hot) = segment else { return false };
        self.nodes.holds_any() && !self.segments.has_newer_hot(hot.id)
    }

    /// Whether no other file records that the sequence numbers up to this segment's were issued.
    /// Then another record must exist before this segment may be deleted.
    pub(crate) fn is_last_record_of_numbers(&self, segment: &AnySegment) -> bool {
        self.is_last_record_of_nodes(segment)
            || !self.segments.records_numbers_without(segment, self.node)
    }
}
