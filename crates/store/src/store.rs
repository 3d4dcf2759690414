//! The public interface of the store.

mod arrivals;
mod background;
mod deletions;
mod info;
mod nodes;
mod snapshot;
mod stats;

use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

pub use arrivals::{ArrivalCursor, Arrivals, LoadFrame, NoArrivalCursor};
pub use info::{Holding, Holdings, SegmentInfo, SegmentState};
pub use nodes::NodeFrames;
pub use snapshot::Committed;
pub use stats::{SealingStats, StoreStats};

use platform::placement::{self, Role};
use platform::{Clock, Disk, DiskLock, DiskSpace, KeepError, LockError, OnDurable, Patience};
use record::Frame;
use record::frame::FrameHeader;

use crate::background::Background;
use crate::config::{StoreConfig, ns_of_ms};
use crate::error::StoreError;
use crate::ledger::Ledger;
use crate::maintenance;
use crate::position::Position;
use crate::recovery::report::RecoveryReport;
use crate::recovery::{Recovered, recover};
use crate::store_core::StoreCore;
use crate::store_core::queue::PendingFrame;
use crate::store_core::sequence_numbers::OpenNumber;
use crate::store_core::write_state::StoreState;
use crate::sync::{lock, write};
use crate::writer::{self, Active, CommitTimer, Writer};

/// Stores the frames of one node. All methods may be called from several threads at once.
pub struct Store {
    pub(crate) core: Arc<StoreCore>,
    pub(crate) writer: Arc<Mutex<Writer>>,
    pub(crate) ledger: Arc<Mutex<Ledger>>,
    pub(crate) background: Arc<Mutex<Background>>,
    /// None once the store is closed.
    workers: Mutex<Option<Workers>>,
    pub(crate) background_threads: Mutex<Vec<JoinHandle<()>>>,
    lock: Mutex<Option<Box<dyn DiskLock>>>,
}

/// Which threads run the writer and the ledger.
enum Workers {
    Threads {
        writer: JoinHandle<()>,
        ledger: JoinHandle<()>,
    },
    /// The caller of [`Store::writer_step`]; the second value is when maintenance is due, monotonic
    /// nanoseconds.
    Caller(CommitTimer, u64),
}

impl Store {
    /// Opens a data directory, creates it if it is missing, and recovers it after a crash.
    ///
    /// Errors: another process holds the directory; a setting is invalid; a file cannot be read, or
    /// was written by a newer version.
    pub fn open(
        config: StoreConfig,
        disk: Arc<dyn Disk>,
        clock: Arc<dyn Clock>,
    ) -> Result<(Arc<Store>, RecoveryReport), StoreError> {
        let (mut store, report) = Self::open_stepped(config, disk, clock)?;
        let start = |name: &str, role, work: Box<dyn FnOnce() + Send>| {
            let placed = move || {
                placement::enter(role);
                work();
            };
            let thread = std::thread::Builder::new().name(name.to_owned()).spawn(placed);
            thread.map_err(StoreError::io(&store.core.config.data_dir, "start a thread for"))
        };
        let (core, writer) = (store.core.clone(), store.writer.clone());
        let (ledger_core, ledger_writer) = (core.clone(), writer.clone());
        let ledger = store.ledger.clone();
        let keep = move || maintenance::run(&ledger_core, &ledger_writer, &ledger);
        let ledger = start("store-ledger", Role::Ledger, Box::new(keep))?;
        let write = Box::new(move || writer::run(&core, &writer));
        let writer = match start("store-writer", Role::Writer, write) {
            Ok(writer) => writer,
            Err(error) => {
                store.stop_ledger_thread(ledger);
                return Err(error);
            }
        };
        store.workers = Mutex::new(Some(Workers::Threads { writer, ledger }));
        Ok((Arc::new(store), report))
    }

    /// As [`open`](Self::open), without threads: the store writes only during
    /// [`writer_step`](Self::writer_step) and [`background_step`](Self::background_step), in the
    /// order of the calls. Simulations use this, so that a seed repeats a history exactly. Do not
    /// give [`append`](Self::append) more than the queue takes: it would block for ever.
    pub fn open_stepped(
        config: StoreConfig,
        disk: Arc<dyn Disk>,
        clock: Arc<dyn Clock>,
    ) -> Result<(Store, RecoveryReport), StoreError> {
        config.check()?;
        let dir = config.segments_dir();
        disk.create_dir_all(&dir).map_err(StoreError::io(&dir, "create"))?;
        let lock_file = config.data_dir.join("LOCK");
        let lock = disk.lock(&lock_file).map_err(|error| match error {
            LockError::Held { holder } => {
                StoreError::Locked { data_dir: config.data_dir.clone(), holder }
            }
            LockError::Io(source) => StoreError::Io { path: lock_file, action: "lock", source },
        })?;
        let recovered = recover(&config, &*disk, &*clock)?;
        let Recovered { report, catalog, is_catalog_stale, active, beginning, .. } = recovered;
        let active = active.map(|file| {
            let newest = beginning.segments.hot.last();
            let segment = newest.expect("the file is that of a segment").clone();
            Active { file, segment }
        });
        let core = Arc::new(StoreCore::new(config, disk, clock, beginning));
        let mut ledger = Ledger::new(core.clone(), catalog);
        ledger.catalog_stale = is_catalog_stale;
        let ledger = Arc::new(Mutex::new(ledger));
        let mut writer =
            Writer { core: core.clone(), ledger: ledger.clone(), active, in_reserve: false };
        // Before the first line is taken: in the same segment, new lines would delay the deletion
        // of lines that were written before a long stop.
        writer.roll_expiring(core.clock.now_ns());
        let writer = Arc::new(Mutex::new(writer));
        let background = Background::new(core.clone(), writer.clone(), ledger.clone());
        let background = Arc::new(Mutex::new(background));
        let store = Store {
            core,
            writer,
            ledger,
            background,
            workers: Mutex::new(Some(Workers::Caller(CommitTimer::default(), 0))),
            background_threads: Mutex::default(),
            lock: Mutex::new(Some(lock)),
        };
        Ok((store, report))
    }

    /// Writes the queued frames, and runs the maintenance that is due, as the writer and ledger
    /// threads do each time they wake. Does nothing on a store that has those threads.
    pub fn writer_step(&self) {
        if let Some(Workers::Caller(timer, maintain_ns)) = &mut *lock(&self.workers) {
            writer::turn(&self.core, &self.writer, timer, false);
            maintenance::turn(&self.core, &self.writer, &self.ledger, maintain_ns);
        }
    }

    /// This node's id: drawn at random once, and recorded in the catalog and in each segment.
    pub fn node(&self) -> u32 {
        self.core.node
    }

    /// Issues the name of the next frame: this node's id, and a sequence number above all numbers
    /// that are in the store or were issued before.
    pub fn next_sequence(&self) -> (u32, u64) {
        let now_ns = self.core.clock.monotonic_ns();
        (self.core.node, self.core.numbers.draw(now_ns))
    }

    /// Issues a sequence number that no frame gets. Frames that are numbered later have greater
    /// numbers.
    pub fn mark(&self) -> u64 {
        self.core.numbers.mark()
    }

    /// Queues frames in this order, to be made durable together with others within some
    /// milliseconds. Blocks while the queue is full. Together the frames may exceed the limit of
    /// the queue once; the caller bounds them.
    ///
    /// Each frame's callback is called exactly once, also when an error is returned. With
    /// [`Patience::Awaited`], frames are given up with an error when the disk accepts nothing for
    /// [`StoreConfig::unacknowledged_ms_max`]. With [`Patience::Unlimited`], they wait as long as
    /// the disk is full, and so does the caller that appends more.
    ///
    /// A frame of this node has a number from [`next_sequence`](Self::next_sequence). A frame of
    /// another node, which was [admitted](Self::admit), gets a number here; its own one identifies
    /// it between that node and this store. The caller makes sure that no such frame comes twice;
    /// [`held`](Self::held) has the numbers of durable ones.
    pub fn append(
        &self,
        frames: Vec<(Frame, OnDurable)>,
        patience: Patience,
    ) -> Result<(), KeepError> {
        let since_ns = self.core.clock.monotonic_ns();
        let pending = |(mut frame, on_durable): (Frame, OnDurable)| {
            let number = self.number(&mut frame);
            PendingFrame { frame: Arc::new(frame), on_durable, patience, since_ns, number }
        };
        self.enqueue(frames.into_iter().map(pending).collect(), patience, since_ns)
    }

    /// Gives the frame its sequence number in this store.
    fn number(&self, frame: &mut Frame) -> OpenNumber {
        let &FrameHeader { node, sequence, .. } = frame.header();
        if node != self.core.node {
            self.core.nodes.note_brought(node);
            let number = self.core.numbers.draw_and_enter();
            frame.set_forwarded(number.get());
            return number;
        }
        let number = self.core.numbers.enter(sequence);
        frame.set_sequence(number.get());
        number
    }

    fn enqueue(
        &self,
        pending: Vec<PendingFrame>,
        patience: Patience,
        since_ns: u64,
    ) -> Result<(), KeepError> {
        let core = &self.core;
        let bytes: usize = pending.iter().map(|p| p.frame.bytes().len()).sum();
        let mut waiting = core.queue.lock();
        let error = loop {
            if waiting.closed {
                break KeepError::Closed;
            }
            if waiting.bytes == 0 || waiting.bytes + bytes <= core.config.queue_bytes_max {
                core.queue.push(waiting, pending);
                return Ok(());
            }
            let waited_ns = core.clock.monotonic_ns() - since_ns;
            if patience == Patience::Awaited
                && waited_ns >= ns_of_ms(core.config.unacknowledged_ms_max)
                && let Some(error) = self.refusal()
            {
                break error;
            }
            let timeout = Duration::from_millis(core.config.retry_ms.max(1));
            waiting = core.queue.wait_for_room(waiting, timeout);
        };
        drop(waiting);
        for pending in pending {
            pending.finish(Err(error.clone()));
        }
        Err(error)
    }

    /// Whether the store writes and at most half of its queue is used, so that another frame is
    /// taken without blocking.
    pub fn has_room(&self) -> bool {
        let core = &self.core;
        core.write_state.is(&StoreState::Ok)
            && core.queue.bytes() <= core.config.queue_bytes_max / 2
    }

    /// Why the store refuses lines at present; None when it takes them.
    pub fn refusal(&self) -> Option<KeepError> {
        self.core.write_state.get().refusal()
    }

    /// Records the event times of a frame, earliest and latest, both inclusive, nanoseconds since
    /// 1970 UTC. Does nothing if the frame was deleted meanwhile.
    pub fn set_times(&self, position: Position, range_ns: (i64, i64)) {
        if let Some(segment) = self.core.segments.find_hot(position.segment) {
            write(&segment.index).set_times(position.frame, range_ns);
        }
    }

    /// Records that all frames up to this one are parsed: their segment may be sealed once it is
    /// closed. Readers by [`read_after`](Self::read_after) do not hold sealing up.
    pub fn set_settled(&self, position: Position) {
        if self.core.progress.settle(position) {
            self.core.signals.sealing.wake();
        }
    }

    /// The greatest watermark of the summary ([`Hints::summarised_through`](record::Hints)) in any
    /// sealed segment, including deleted ones: lines up to it are counted.
    pub fn summarised_through(&self) -> Option<u64> {
        self.core.progress.summarised_through()
    }

    /// Deletes the segments that are beyond the limits when the wall clock shows `now_ns`,
    /// nanoseconds since 1970 UTC. A clock that jumped ahead is not believed at once. The store
    /// also does this by itself every few seconds and before it grows.
    pub fn run_retention(&self, now_ns: i64) {
        maintenance::maintain(&self.writer, &self.ledger, now_ns);
    }

    /// Closes the active segment, as if it were full. All closed segments are then sealed at normal
    /// priority.
    pub fn roll(&self) {
        lock(&self.writer).roll();
        lock(&self.ledger).catch_up();
        let newest = self.core.segments.hot().iter().map(|hot| hot.id).max();
        if let Some(newest) = newest {
            self.core.signals.sealing.request(newest + 1);
        }
    }

    /// How long sealing can wait at present.
    pub fn sealing_urgency(&self) -> crate::Urgency {
        crate::background::urgency(&self.core)
    }

    /// The disk that the store was opened with.
    pub fn disk(&self) -> &Arc<dyn Disk> {
        &self.core.disk
    }

    /// Free and total bytes of the file system that has the data directory.
    pub fn disk_space(&self) -> Result<DiskSpace, StoreError> {
        let dir = &self.core.config.data_dir;
        self.core.disk.space(dir).map_err(StoreError::io(dir, "get free space"))
    }

    /// Stops the background, refuses new frames, makes the queued ones durable, and stops the
    /// writer. Lines can still be read afterwards. A second call does nothing. Dropping the store
    /// closes it.
    ///
    /// Errors: queued frames could not be written; their `on_durable` got the reason.
    pub fn close(&self) -> Result<(), StoreError> {
        self.stop_background();
        self.core.queue.close();
        let panicked = match lock(&self.workers).take() {
            Some(Workers::Threads { writer, ledger }) => {
                let panicked = writer.join().is_err();
                self.stop_ledger_thread(ledger);
                panicked
            }
            Some(Workers::Caller(..)) => {
                writer::run(&self.core, &self.writer);
                false
            }
            None => return Ok(()),
        };
        let reason = match self.core.write_state.get().refusal() {
            _ if panicked => KeepError::Failed("the writer failed".to_owned()),
            reason => reason.unwrap_or(KeepError::Closed),
        };
        self.core.write_state.close();
        self.core.progress.note_change();
        let waiting = self.core.queue.lock().frames.len();
        let unwritten = self.core.queue.take(waiting);
        let lines = unwritten.iter().map(|p| u64::from(p.frame.header().lines)).sum();
        for pending in unwritten {
            pending.finish(Err(reason.clone()));
        }
        let closed = lock(&self.writer).close();
        lock(&self.ledger).close();
        *lock(&self.lock) = None;
        if lines > 0 {
            return Err(StoreError::Unwritten { lines, reason: reason.to_string() });
        }
        closed
    }
}

impl Store {
    fn stop_ledger_thread(&self, thread: JoinHandle<()>) {
        self.core.signals.ledger.stop();
        if thread.join().is_err() {
            tracing::error!(
                "the thread store-ledger panicked; the next start brings files and catalog into agreement"
            );
        }
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        if let Err(error) = self.close() {
            tracing::error!("closing the store: {error}");
        }
    }
}
