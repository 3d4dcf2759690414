//! The store as its users see it.

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
pub use info::{SegmentInfo, SegmentState};
pub use snapshot::Committed;
pub use stats::{SealingStats, StoreStats};

use platform::placement::{self, Role};
use platform::{Clock, Disk, DiskLock, DiskSpace, LockError};
use record::Frame;

use crate::background::Background;
use crate::config::{StoreConfig, ns_of_ms};
use crate::error::{AppendError, StoreError};
use crate::ledger::Ledger;
use crate::maintenance;
use crate::position::Position;
use crate::recovery::report::RecoveryReport;
use crate::recovery::{Recovered, recover};
use crate::store_core::StoreCore;
use crate::store_core::queue::{OnDurable, Pending};
use crate::store_core::sequence_numbers::OpenNumber;
use crate::store_core::write_state::StoreState;
use crate::sync::{lock, write};
use crate::writer::{self, Active, Pace, Writer};

/// Keeps the frames of one node. All methods may be called from several threads at once.
pub struct Store {
    pub(crate) core: Arc<StoreCore>,
    pub(crate) writer: Arc<Mutex<Writer>>,
    pub(crate) ledger: Arc<Mutex<Ledger>>,
    pub(crate) background: Arc<Mutex<Background>>,
    /// None once the store is closed.
    turns: Mutex<Option<Turns>>,
    pub(crate) background_threads: Mutex<Vec<JoinHandle<()>>>,
    lock: Mutex<Option<Box<dyn DiskLock>>>,
}

/// Who takes the turns of the writer and of the keeper of the ledger.
enum Turns {
    Threads {
        writer: JoinHandle<()>,
        keeper: JoinHandle<()>,
    },
    /// Whoever calls [`Store::writer_step`]; and when maintenance is due, monotonic nanoseconds.
    Caller(Pace, u64),
}

impl Store {
    /// Opens a data directory, makes it if it is missing, and brings it in order after a crash.
    ///
    /// Errors: another instance has it; a setting cannot work; a file cannot be read, or was
    /// written by a newer version.
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
        let (ledger_core, keeper_writer) = (core.clone(), writer.clone());
        let ledger = store.ledger.clone();
        let keep = move || maintenance::run(&ledger_core, &keeper_writer, &ledger);
        let keeper = start("store-ledger", Role::Ledger, Box::new(keep))?;
        let write = Box::new(move || writer::run(&core, &writer));
        let writer = match start("store-writer", Role::Writer, write) {
            Ok(writer) => writer,
            Err(error) => {
                store.stop_keeper(keeper);
                return Err(error);
            }
        };
        store.turns = Mutex::new(Some(Turns::Threads { writer, keeper }));
        Ok((Arc::new(store), report))
    }

    /// As [`open`](Self::open), without a thread: nothing is written but by
    /// [`writer_step`](Self::writer_step) and [`background_step`](Self::background_step), in the
    /// order in which they are called. For simulations, which then do the same again from the same
    /// seed. [`append`](Self::append) must not be given more than the queue takes.
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
        let Recovered { report, catalog, active, beginning } = recovered;
        let active = active.map(|file| {
            let newest = beginning.segments.hot.last();
            let segment = newest.expect("the file is that of a segment").clone();
            Active { file, segment }
        });
        let core = Arc::new(StoreCore::new(config, disk, clock, beginning));
        let ledger = Arc::new(Mutex::new(Ledger::new(core.clone(), catalog)));
        let mut writer =
            Writer { core: core.clone(), ledger: ledger.clone(), active, in_reserve: false };
        // Before a line is taken: one of today would keep those of before a long stop for another
        // age.
        writer.roll_expiring(core.clock.now_ns());
        let writer = Arc::new(Mutex::new(writer));
        let background = Background::new(core.clone(), writer.clone(), ledger.clone());
        let background = Arc::new(Mutex::new(background));
        let store = Store {
            core,
            writer,
            ledger,
            background,
            turns: Mutex::new(Some(Turns::Caller(Pace::default(), 0))),
            background_threads: Mutex::default(),
            lock: Mutex::new(Some(lock)),
        };
        Ok((store, report))
    }

    /// Writes what waits, and does what is due every few seconds, as the threads of the writer and
    /// of the keeper do each time they wake. Nothing on a store that has those threads.
    pub fn writer_step(&self) {
        if let Some(Turns::Caller(pace, maintain_ns)) = &mut *lock(&self.turns) {
            writer::turn(&self.core, &self.writer, pace, false);
            maintenance::turn(&self.core, &self.writer, &self.ledger, maintain_ns);
        }
    }

    /// This node's id: random, made once, kept in the catalog and in each segment.
    pub fn node(&self) -> u32 {
        self.core.node
    }

    /// Numbers the next frame: this node's id and a sequence number above all that are in the store
    /// or were given before.
    pub fn next_sequence(&self) -> (u32, u64) {
        let now_ns = self.core.clock.monotonic_ns();
        (self.core.node, self.core.numbers.draw(now_ns))
    }

    /// A number that no frame gets: frames that are numbered from now on have greater ones.
    pub fn mark(&self) -> u64 {
        self.core.numbers.mark()
    }

    /// Takes a frame, to be made durable with others within some milliseconds. Blocks while the
    /// queue is full.
    ///
    /// `on_durable` is called exactly once, also when an error is returned. Frames with it are
    /// given up, with an error, when the disk takes nothing for
    /// [`StoreConfig::unacknowledged_ms_max`]; frames without it wait as long as it takes, and so
    /// does who brings more.
    pub fn append(&self, frame: Frame, on_durable: Option<OnDurable>) -> Result<(), AppendError> {
        self.append_all(vec![(frame, on_durable)])
    }

    /// As [`append`](Self::append), but the frame is never given up for want of room: it waits as
    /// long as it takes, and so does who brings more. For lines that nobody would send again.
    pub fn append_patiently(&self, frame: Frame, on_durable: OnDurable) -> Result<(), AppendError> {
        let number = self.core.numbers.enter(frame.header().sequence);
        self.append_numbered(frame, on_durable, number)
    }

    /// As [`append_patiently`](Self::append_patiently), with a number that was taken before.
    pub(crate) fn append_numbered(
        &self,
        frame: Frame,
        on_durable: OnDurable,
        number: OpenNumber,
    ) -> Result<(), AppendError> {
        let since_ns = self.core.clock.monotonic_ns();
        let frame = numbered(frame, &number);
        let (on_durable, awaited) = (Some(on_durable), false);
        self.enqueue(vec![Pending { frame, on_durable, awaited, since_ns, number }], since_ns)
    }

    /// As [`append`](Self::append), for several frames that go into the queue together, in this
    /// order. Together they may exceed the queue's limit, once; the caller bounds them.
    pub fn append_all(&self, frames: Vec<(Frame, Option<OnDurable>)>) -> Result<(), AppendError> {
        let since_ns = self.core.clock.monotonic_ns();
        let pending = |(frame, on_durable): (Frame, Option<OnDurable>)| {
            let awaited = on_durable.is_some();
            let number = self.core.numbers.enter(frame.header().sequence);
            Pending { frame: numbered(frame, &number), on_durable, awaited, since_ns, number }
        };
        self.enqueue(frames.into_iter().map(pending).collect(), since_ns)
    }

    fn enqueue(&self, pending: Vec<Pending>, since_ns: u64) -> Result<(), AppendError> {
        let core = &self.core;
        let bytes: usize = pending.iter().map(|p| p.frame.bytes().len()).sum();
        let awaited = pending.iter().any(|p| p.awaited);
        let mut waiting = core.queue.lock();
        let error = loop {
            if waiting.closed {
                break AppendError::Closed;
            }
            if waiting.bytes == 0 || waiting.bytes + bytes <= core.config.queue_bytes_max {
                core.queue.push(waiting, pending);
                return Ok(());
            }
            let waited_ns = core.clock.monotonic_ns() - since_ns;
            if awaited
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

    /// Whether frames are written and at most half of what may wait does: then a further one is
    /// taken at once.
    pub fn has_room(&self) -> bool {
        let core = &self.core;
        core.write_state.is(&StoreState::Ok)
            && core.queue.bytes() <= core.config.queue_bytes_max / 2
    }

    /// Why lines would be refused at present, if they would.
    pub fn refusal(&self) -> Option<AppendError> {
        self.core.write_state.get().refusal()
    }

    /// Tells the event times of a frame, earliest and latest, both inclusive, nanoseconds since
    /// 1970 UTC. Nothing happens if the frame was deleted meanwhile.
    pub fn set_times(&self, position: Position, range_ns: (i64, i64)) {
        if let Some(segment) = self.core.segments.find_hot(position.segment) {
            write(&segment.index).set_times(position.frame, range_ns);
        }
    }

    /// Tells that all frames up to this one are parsed: their segment may be sealed once it is
    /// closed. Whoever reads lines later does so by [`read_after`](Self::read_after), and is not
    /// waited for.
    pub fn set_settled(&self, position: Position) {
        if self.core.progress.settle(position) {
            self.core.signals.sealing.wake();
        }
    }

    /// The greatest mark of the summary ([`Hints::summarised_through`](record::Hints)) in sealed
    /// segments, deleted ones included: lines up to there are counted.
    pub fn summarised_through(&self) -> Option<u64> {
        self.core.progress.summarised_through()
    }

    /// Deletes what is beyond the limits at `now_ns`, nanoseconds since 1970 UTC. Also done by
    /// itself every few seconds and before the store grows.
    pub fn run_retention(&self, now_ns: i64) {
        maintenance::maintain(&self.writer, &self.ledger, now_ns);
    }

    /// Closes the segment being written, as when it is full.
    pub fn roll(&self) {
        lock(&self.writer).roll();
        lock(&self.ledger).catch_up();
    }

    /// Room on the file system of the data directory.
    pub fn disk_space(&self) -> Result<DiskSpace, StoreError> {
        let dir = &self.core.config.data_dir;
        self.core.disk.space(dir).map_err(StoreError::io(dir, "get free space"))
    }

    /// Ends the background, takes nothing more, makes durable what waits, and ends the writer. What
    /// is there can still be read. A second call does nothing. Dropping the store does the same.
    ///
    /// Errors: frames that waited could not be written; those with `on_durable` were told so.
    pub fn close(&self) -> Result<(), StoreError> {
        self.stop_background();
        self.core.queue.close();
        let panicked = match lock(&self.turns).take() {
            Some(Turns::Threads { writer, keeper }) => {
                let panicked = writer.join().is_err();
                self.stop_keeper(keeper);
                panicked
            }
            Some(Turns::Caller(..)) => {
                writer::run(&self.core, &self.writer);
                false
            }
            None => return Ok(()),
        };
        let reason = match self.core.write_state.get().refusal() {
            _ if panicked => AppendError::Failed("the writer failed".to_owned()),
            reason => reason.unwrap_or(AppendError::Closed),
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
    fn stop_keeper(&self, keeper: JoinHandle<()>) {
        self.core.signals.ledger.stop();
        if keeper.join().is_err() {
            tracing::error!(
                "the keeper of the ledger panicked; the next start brings files and catalog in order"
            );
        }
    }
}

/// The frame under its number.
fn numbered(mut frame: Frame, number: &OpenNumber) -> Arc<Frame> {
    if frame.header().sequence != number.get() {
        frame.set_sequence(number.get());
    }
    Arc::new(frame)
}

impl Drop for Store {
    fn drop(&mut self) {
        if let Err(error) = self.close() {
            tracing::error!("closing the store: {error}");
        }
    }
}
