//! Delivery to stores in other processes: [`Forwarder`] is a [`Deliver`] like the store itself.
//!
//! Threads: one per store (`lane-…`), which connects, sends and reads acknowledgements; one for the
//! disk (`spool`).
//!
//! - With a healthy store a frame goes from memory to the socket. It is spooled if it found no room
//!   for [`SPOOL_AFTER`], at once if no store is connected, and if the connection broke before it
//!   was acknowledged.
//! - A frame counts as kept when a store has acknowledged it, or it is durable in the spool.
//! - When this process is killed, frames in memory are lost: at most the window of each store plus
//!   [`WAITING_BYTES_MAX`]. With `spool_always` none is lost, but each frame is written once more.
//! - A frame that was sent to a store stays bound to it until that store reports what it has. All
//!   other frames go to the store that has room first.
//! - A thread that panics resumes after [`PANIC_PAUSE`]. The frames it held survive the panic:
//!   frames the store may already have are resent to it under the same number; all others return to
//!   the queue.
//!
//! Lock order: spool, then directory. The lock of the queue is never held together with another.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use mio::Poll;
use platform::{Disk, DiskLock, LockError};
use record::Frame;
use segment::SegmentError;

use super::directory::{Directory, DirectoryError};
use super::forward_state::ForwardState;
use super::forward_state::{ForwardConfig, PANIC_PAUSE};
use super::lane::Lane;
use super::lane_handle::LaneHandle;
use super::lock;
use super::log_lane::{AppendLog, LogLane};
use super::queue::{Placed, Queue, Waiting};
use super::spool::Spool;
use super::status::{ForwardStatus, SpoolStatus};
use crate::deliver::{Deliver, KeepError, OnDurable, Patience};

/// Bytes of frames that wait for a store or for the spool. Beyond this, delivery blocks.
pub const WAITING_BYTES_MAX: usize = 32 << 20;
/// A frame that no store had room for goes to the spool after this time, so that a store's short
/// pauses cause no disk writes.
pub const SPOOL_AFTER: Duration = Duration::from_secs(1);
/// Frames are written to the spool and synced in groups of up to this many bytes.
const SPOOL_GROUP_BYTES: usize = 8 << 20;
/// How often a full or failing disk is retried.
const SPOOL_RETRY: Duration = Duration::from_millis(500);
/// How long frames with a waiting sender wait for room.
const AWAITED_MAX: Duration = Duration::from_secs(10);
/// At an orderly end stores have this long to acknowledge; the rest goes to the spool.
const STOP_DRAIN: Duration = Duration::from_secs(3);

/// Why delivery cannot start.
#[derive(Debug, thiserror::Error)]
pub enum ForwardError {
    /// Another collector uses the spool directory.
    #[error(
        "the spool directory {} is in use by {}; give this collector a --spool-dir of its own",
        dir.display(),
        holder.map_or("another process".to_owned(), |pid| format!("process {pid}"))
    )]
    Locked {
        /// The directory.
        dir: PathBuf,
        /// The other process, if it is known.
        holder: Option<u32>,
    },
    /// The directory cannot be used.
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    /// A spool file cannot be used.
    #[error(transparent)]
    Spool(#[from] SegmentError),
    /// A thread cannot be started.
    #[error("cannot start a thread to send frames: {0}")]
    Thread(#[from] std::io::Error),
}

/// Delivers to stores over the network. Dropping it stops it, as [`stop`](Self::stop) does.
pub struct Forwarder {
    shared: Arc<ForwardState>,
    node: u32,
    sequence: AtomicU64,
    threads: Mutex<Vec<JoinHandle<()>>>,
    _lock: Box<dyn DiskLock>,
}

impl Forwarder {
    /// Opens the spool directory and starts to connect. Frames are accepted from now on.
    pub fn start(config: ForwardConfig, disk: Arc<dyn Disk>) -> Result<Forwarder, ForwardError> {
        Forwarder::with_lanes(config, disk, |shared, index, poll| {
            let lane = Lane::new(shared, index, poll);
            Box::new(move || lane.run())
        })
    }

    /// As [`start`](Self::start), to a log: `config.stores` names its partitions, for people.
    pub fn start_log(
        config: ForwardConfig,
        disk: Arc<dyn Disk>,
        log: Arc<dyn AppendLog>,
    ) -> Result<Forwarder, ForwardError> {
        Forwarder::with_lanes(config, disk, |shared, index, poll| {
            let lane = LogLane::new(shared, Arc::clone(&log), index, poll);
            Box::new(move || lane.run())
        })
    }

    fn with_lanes(
        config: ForwardConfig,
        disk: Arc<dyn Disk>,
        work: impl Fn(Arc<ForwardState>, usize, Poll) -> Box<dyn FnOnce() + Send>,
    ) -> Result<Forwarder, ForwardError> {
        assert!(!config.stores.is_empty(), "there is a store to deliver to");
        let dir = config.spool_dir.clone();
        disk.create_dir_all(&dir).map_err(DirectoryError::io(&dir, "create"))?;
        let lock_path = dir.join("LOCK");
        let lock = disk.lock(&lock_path).map_err(|error| match error {
            LockError::Held { holder } => ForwardError::Locked { dir: dir.clone(), holder },
            LockError::Io(source) => DirectoryError::io(&lock_path, "lock")(source).into(),
        })?;
        let directory = Directory::open(Arc::clone(&disk), &dir)?;
        let node = directory.identity().node;
        let (mut spool, warnings) = Spool::open(disk, &dir, node, config.spool_bytes_max)?;
        for warning in warnings {
            tracing::warn!("{warning}; its lines are lost");
        }
        for &store in &config.lost_stores {
            spool.unbind(store)?;
        }
        let (bytes, lines) = (spool.bytes(), spool.lines());
        tracing::info!(
            "collector {node:08x}; {lines} lines ({bytes} bytes) wait in {}",
            dir.display()
        );

        let lanes = config.stores.iter().map(|address| LaneHandle::new(address.clone()));
        let lanes = lanes.collect::<std::io::Result<Vec<_>>>()?;
        let (lanes, polls): (Vec<_>, Vec<_>) = lanes.into_iter().unzip();
        let (window, always) = (config.window_bytes, config.spool_always);
        let shared = Arc::new(ForwardState {
            queue: Mutex::new(Queue::new(lanes.len(), window, WAITING_BYTES_MAX, always)),
            changed: Condvar::new(),
            spool: Mutex::new(spool),
            directory: Mutex::new(directory),
            lanes,
            claimed: Mutex::default(),
            lines_damaged: AtomicU64::new(0),
            spool_full: AtomicBool::new(false),
            threads_failed: AtomicU64::new(0),
            config,
        });
        let forwarder = Forwarder {
            shared: Arc::clone(&shared),
            node,
            sequence: AtomicU64::new(1),
            threads: Mutex::default(),
            _lock: lock,
        };
        let spawn = |name: String, work: Box<dyn FnOnce() + Send>| {
            let thread = std::thread::Builder::new().name(name).spawn(work)?;
            lock_threads(&forwarder).push(thread);
            Ok::<_, std::io::Error>(())
        };
        let spooling = Arc::clone(&shared);
        spawn("spool".to_owned(), Box::new(move || spooling.spool_frames()))?;
        for (index, poll) in polls.into_iter().enumerate() {
            spawn(format!("lane-{index}"), work(Arc::clone(&shared), index, poll))?;
        }
        Ok(forwarder)
    }

    /// From now on nobody waits for room: frames that find none are dropped and counted. Must be
    /// called before the sources are stopped.
    pub fn begin_stop(&self) {
        self.shared.queue().closing = true;
        self.shared.notify();
    }

    /// Gives stores a few seconds to acknowledge, spools the rest, and ends. A second call does
    /// nothing.
    pub fn stop(&self) {
        self.begin_stop();
        let shared = &self.shared;
        let until = Instant::now() + STOP_DRAIN;
        let mut queue = shared.queue();
        while !queue.is_idle() && queue.any_open() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            let waited = shared.changed.wait_timeout(queue, left);
            queue = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        drop(queue);
        // Lanes first: the frames they return are spooled.
        let mut threads = std::mem::take(&mut *lock_threads(self));
        if threads.is_empty() {
            return;
        }
        let spool = threads.remove(0);
        shared.lanes.iter().for_each(|lane| lane.stop());
        threads.into_iter().for_each(join);
        shared.queue().closed = true;
        shared.notify();
        join(spool);
        if let Err(error) = shared.spool().roll() {
            tracing::error!("{error}");
        }
        if let Err(error) = lock(&shared.directory).close() {
            tracing::warn!("{error}");
        }
    }

    /// The state of the queue, the spool and each store.
    pub fn status(&self) -> ForwardStatus {
        let shared = &self.shared;
        let (spool, by_store) = {
            let spool = shared.spool();
            let status = SpoolStatus {
                bytes: spool.bytes(),
                bytes_max: shared.config.spool_bytes_max,
                lines: spool.lines(),
                lines_damaged: shared.lines_damaged.load(Relaxed),
                full: shared.spool_full.load(Relaxed),
            };
            (status, spool.bytes_by_store())
        };
        let queue = shared.queue();
        let mut stores: Vec<_> = shared.lanes.iter().map(LaneHandle::status).collect();
        for (index, store) in stores.iter_mut().enumerate() {
            store.bytes_in_memory = queue.lane_bytes(index) as u64;
            let spooled = store.store.and_then(|id| by_store.get(&id).copied());
            store.bytes_spooled = spooled.unwrap_or(0);
        }
        let known: Vec<u32> = stores.iter().filter_map(|store| store.store).collect();
        let unknown = by_store.into_iter().filter(|(store, _)| !known.contains(store));
        ForwardStatus {
            node: self.node,
            waiting_bytes: queue.waiting_bytes() as u64,
            spool,
            stores,
            bound_elsewhere: unknown.collect(),
            threads_failed: shared.threads_failed.load(Relaxed),
        }
    }
}

fn lock_threads(forwarder: &Forwarder) -> MutexGuard<'_, Vec<JoinHandle<()>>> {
    lock(&forwarder.threads)
}

fn join(thread: JoinHandle<()>) {
    if thread.join().is_err() {
        tracing::error!("a thread that sends frames panicked");
    }
}

impl Drop for Forwarder {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Deliver for Forwarder {
    /// Numbers of this process only: a frame gets its final number when it is known which store it
    /// goes to.
    fn next_sequence(&self) -> (u32, u64) {
        (self.node, self.sequence.fetch_add(1, Relaxed))
    }

    fn deliver(
        &self,
        frame: Frame,
        on_durable: OnDurable,
        patience: Patience,
    ) -> Result<(), KeepError> {
        let shared = &self.shared;
        let since = Instant::now();
        let mut waiting = Waiting { frame, on_durable, since };
        let mut queue = shared.queue();
        let error = loop {
            if queue.closed {
                break KeepError::Closed;
            }
            waiting = match queue.push(waiting) {
                Placed::Lane(lane) => {
                    drop(queue);
                    shared.lanes[lane].wake();
                    return Ok(());
                }
                Placed::Waiting => {
                    drop(queue);
                    shared.notify();
                    return Ok(());
                }
                Placed::Full(waiting) => waiting,
            };
            if queue.closing {
                break KeepError::Closed;
            }
            if patience == Patience::Awaited && since.elapsed() >= AWAITED_MAX {
                break KeepError::DiskFull;
            }
            let waited = shared.changed.wait_timeout(queue, SPOOL_RETRY);
            queue = waited.unwrap_or_else(PoisonError::into_inner).0;
        };
        drop(queue);
        (waiting.on_durable)(Err(error.clone()));
        Err(error)
    }

    fn has_room(&self) -> bool {
        self.shared.queue().has_room_to_wait()
    }

    fn refusal(&self) -> Option<KeepError> {
        self.shared.queue().closed.then_some(KeepError::Closed)
    }
}

/// Frames the spool thread has taken from the queue. Survives a panic of the thread.
#[derive(Default)]
struct HeldFrames {
    frames: VecDeque<Waiting>,
    /// Bytes of `frames` and of frames whose sources were notified already. The queue counts them
    /// until all are done.
    bytes: usize,
    durable: bool,
}

impl ForwardState {
    /// The loop of the spool thread.
    fn spool_frames(&self) {
        let mut hand = HeldFrames::default();
        while self.survive(|| self.spool_overdue(&mut hand)).is_none() {
            let pause = self.changed.wait_timeout_while(self.queue(), PANIC_PAUSE, |q| !q.closed);
            drop(pause.unwrap_or_else(PoisonError::into_inner));
        }
    }

    /// Spools frames that waited too long.
    fn spool_overdue(&self, hand: &mut HeldFrames) {
        loop {
            // Frames are left here if the last write failed or panicked.
            let retry = hand.bytes > 0 && !hand.durable;
            if hand.durable {
                self.notify_durable(hand);
            } else if retry && !self.put_back(hand) {
                continue;
            }
            if !self.take_due(retry, hand) {
                return;
            }
            self.spool_group(hand);
            self.notify_durable(hand);
        }
    }

    /// Returns frames that could not be spooled to the queue, once it is certain that none of them
    /// is in the spool. Returns false while that is unknown. At the end they are given up.
    fn put_back(&self, hand: &mut HeldFrames) -> bool {
        let sure = self.spool().ensure_consistent();
        let mut queue = self.queue();
        if queue.closed {
            queue.spooled(std::mem::take(&mut hand.bytes));
            drop(queue);
            give_up(&mut hand.frames);
            return true;
        }
        if let Err(error) = sure {
            tracing::warn!("{error}; frames wait until the spool can be read");
            let waited = self.changed.wait_timeout_while(queue, SPOOL_RETRY, |q| !q.closed);
            drop(waited.unwrap_or_else(PoisonError::into_inner));
            return false;
        }
        hand.bytes = 0;
        queue.put_back(&mut hand.frames);
        true
    }

    fn notify_durable(&self, hand: &mut HeldFrames) {
        if !hand.durable {
            return;
        }
        while let Some(waiting) = hand.frames.pop_front() {
            (waiting.on_durable)(Ok(()));
        }
        hand.durable = false;
        self.queue().spooled(std::mem::take(&mut hand.bytes));
        self.notify();
        self.lanes.iter().for_each(LaneHandle::wake);
    }

    /// Waits until frames must be spooled, and takes them; returns false at the end.
    fn take_due(&self, retry: bool, hand: &mut HeldFrames) -> bool {
        let mut queue = self.queue();
        let not_before = retry.then(|| Instant::now() + SPOOL_RETRY);
        loop {
            let now = Instant::now();
            let at_once = queue.closed || self.config.spool_always || !queue.any_open();
            let due = match queue.waiting_since() {
                Some(_) if at_once => Some(now),
                Some(since) => Some(since + SPOOL_AFTER),
                None if queue.closed => return false,
                None => None,
            };
            let due = due.map(|due| due.max(not_before.filter(|_| !queue.closed).unwrap_or(due)));
            let wait = due.map_or(SPOOL_AFTER, |due| due.saturating_duration_since(now));
            if wait.is_zero() {
                hand.frames = queue.take_for_spool(SPOOL_GROUP_BYTES);
                hand.bytes = hand.frames.iter().map(Waiting::bytes).sum();
                return true;
            }
            let waited = self.changed.wait_timeout(queue, wait);
            queue = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Makes the frames durable, if that is possible now.
    fn spool_group(&self, hand: &mut HeldFrames) {
        let mut spool = self.spool();
        let result = match spool.has_room(hand.frames.len(), hand.bytes as u64) {
            true => {
                let mut refs: Vec<&mut Frame> =
                    hand.frames.iter_mut().map(|waiting| &mut waiting.frame).collect();
                spool.append(&mut refs).map_err(|error| error.to_string())
            }
            false => Err(format!(
                "the spool has reached its limit of {} bytes (spool_bytes_max)",
                self.config.spool_bytes_max
            )),
        };
        hand.durable = result.is_ok();
        drop(spool);
        let was_full = self.spool_full.swap(result.is_err(), Relaxed);
        match result {
            Ok(()) if was_full => tracing::info!("frames are spooled again"),
            Err(error) if !was_full => tracing::error!(
                "{error}; senders are pushed back, and datagrams lost, until a store takes frames: see /api/v1/nodes"
            ),
            _ => {}
        }
    }
}

fn give_up(frames: &mut VecDeque<Waiting>) {
    let lines: u64 = frames.iter().map(|w| u64::from(w.frame.header().lines)).sum();
    tracing::error!("{lines} lines could be neither sent nor spooled before the end, and are lost");
    while let Some(waiting) = frames.pop_front() {
        (waiting.on_durable)(Err(KeepError::DiskFull));
    }
}
