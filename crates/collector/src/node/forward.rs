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
use std::sync::atomic::{
    AtomicBool, AtomicU64,
    Ordering::{Relaxed, SeqCst},
};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use mio::Poll;
use platform::pauses::PANIC_PAUSE;
use platform::{Disk, DiskLock};
use record::Frame;

use super::directory::Directory;
use super::forward_state::{ForwardConfig, ForwardState, OneOfCopies};
use super::lane::Lane;
use super::lane_handle::LaneHandle;
use super::lock;
use super::log_lane::{AppendLog, LogLane};
use super::queue::{FrameQueue, Placed, Waiting};
use super::spool::{LOG_FILE_BYTES, STRIPE, Spool};
use super::start::{ForwardError, open_directory, retire_places};
use super::status::{ForwardStatus, Link, SpoolStatus, StoreStatus};
use crate::deliver::{Deliver, KeepError, OnDurable, Patience};

/// Bytes of frames that wait for a store or for the spool. Beyond this, delivery blocks.
pub const WAITING_BYTES_MAX: usize = 32 << 20;
/// A frame that no store had room for goes to the spool after this time, so that a store's short
/// pauses cause no disk writes.
pub const SPOOL_AFTER: Duration = Duration::from_secs(1);
/// Frames are written to the spool and synced in groups of up to this many bytes.
const SPOOL_GROUP_BYTES: usize = 8 << 20;
/// How often a full or failing disk is retried.
pub(super) const SPOOL_RETRY: Duration = Duration::from_millis(500);
/// How long frames with a waiting sender wait for a store or the spool.
pub(super) const AWAITED_MAX: Duration = Duration::from_secs(5);
/// A frame that waits for this long, while the spool takes none, says that there is no room.
const STUCK_AFTER: Duration = Duration::from_secs(1);
/// At an orderly end stores have this long to acknowledge; the rest goes to the spool.
const STOP_DRAIN: Duration = Duration::from_secs(3);

/// A [`Deliver`] to stores in other processes.
pub trait Forward: Deliver {
    /// From now on nobody waits for room: frames that find none are dropped and counted. Must be
    /// called before the sources are stopped.
    fn begin_stop(&self);

    /// Gives stores a few seconds to acknowledge, spools the rest, and ends. A second call does
    /// nothing.
    fn stop(&self);

    /// The state of the queue, the spool and each store.
    fn status(&self) -> ForwardStatus;
}

/// Delivers each frame to one of several stores over the network. Dropping it stops it, as
/// [`stop`](Forward::stop) does.
pub struct Forwarder {
    shared: Arc<ForwardState>,
    node: u32,
    sequence: AtomicU64,
    threads: Mutex<Vec<JoinHandle<()>>>,
    _lock: Option<Box<dyn DiskLock>>,
}

/// The work of a lane's thread: of the lane with an index.
type LaneWork<'a> = &'a dyn Fn(Arc<ForwardState>, usize, Poll) -> Box<dyn FnOnce() + Send>;

impl Forwarder {
    /// Opens the spool directory and starts to connect. Frames are accepted from now on.
    pub fn start(config: ForwardConfig, disk: Arc<dyn Disk>) -> Result<Forwarder, ForwardError> {
        let work = |shared, index, poll| -> Box<dyn FnOnce() + Send> {
            let lane = Lane::new(shared, index, poll);
            Box::new(move || lane.run())
        };
        Forwarder::start_locked(config, disk, &work)
    }

    /// As [`start`](Self::start), to a log: `config.stores` names its partitions, for people.
    pub fn start_log(
        config: ForwardConfig,
        disk: Arc<dyn Disk>,
        log: Arc<dyn AppendLog>,
    ) -> Result<Forwarder, ForwardError> {
        let work = |shared, index, poll| -> Box<dyn FnOnce() + Send> {
            let lane = LogLane::new(shared, Arc::clone(&log), index, poll);
            Box::new(move || lane.run())
        };
        let forwarder = Forwarder::start_locked(config, disk, &work)?;
        forwarder.shared.spool().set_file_bytes(LOG_FILE_BYTES);
        Ok(forwarder)
    }

    fn start_locked(
        config: ForwardConfig,
        disk: Arc<dyn Disk>,
        work: LaneWork<'_>,
    ) -> Result<Forwarder, ForwardError> {
        let (lock, mut directory) = open_directory(&config.spool_dir, &disk)?;
        let lost = &config.lost_stores;
        retire_places(&mut directory, &[], lost, &config.spool_dir, &disk)?;
        let directory = Arc::new(Mutex::new(directory));
        let mut forwarder = Self::start_lanes(config, disk, directory, None, work)?;
        forwarder._lock = Some(lock);
        Ok(forwarder)
    }

    /// Starts in a locked directory, as a place among the copies: frames come by
    /// [`push_numbered`](Self::push_numbered).
    pub(super) fn start_in(
        config: ForwardConfig,
        disk: Arc<dyn Disk>,
        directory: Arc<Mutex<Directory>>,
        copy: Option<OneOfCopies>,
    ) -> Result<Forwarder, ForwardError> {
        let work = |shared, index, poll| -> Box<dyn FnOnce() + Send> {
            let lane = Lane::new(shared, index, poll);
            Box::new(move || lane.run())
        };
        Forwarder::start_lanes(config, disk, directory, copy, &work)
    }

    fn start_lanes(
        config: ForwardConfig,
        disk: Arc<dyn Disk>,
        directory: Arc<Mutex<Directory>>,
        copy: Option<OneOfCopies>,
        work: LaneWork<'_>,
    ) -> Result<Forwarder, ForwardError> {
        assert!(!config.stores.is_empty(), "there is a store to deliver to");
        let dir = config.spool_dir.clone();
        let node = lock(&directory).identity().node;
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
        let mut queue = FrameQueue::new(lanes.len(), window, WAITING_BYTES_MAX, always);
        let mut suffix = String::new();
        if let Some(copy) = &copy {
            queue.start_numbers(lock(&directory).next_number(copy.owner()));
            suffix = format!("-{}-{}", copy.place.copy + 1, copy.place.stripe + 1);
        }
        let shared = Arc::new(ForwardState {
            copy,
            queue: Mutex::new(queue),
            changed: Condvar::new(),
            has_spooled: AtomicBool::new(!spool.is_empty()),
            spool: Mutex::new(spool),
            directory,
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
            _lock: None,
        };
        let spawn = |name: String, work: Box<dyn FnOnce() + Send>| {
            let thread = std::thread::Builder::new().name(name).spawn(work)?;
            lock_threads(&forwarder).push(thread);
            Ok::<_, std::io::Error>(())
        };
        let spooling = Arc::clone(&shared);
        spawn(format!("spool{suffix}"), Box::new(move || spooling.spool_frames()))?;
        for (index, poll) in polls.into_iter().enumerate() {
            let name = if suffix.is_empty() { format!("-{index}") } else { suffix.clone() };
            spawn(format!("lane{name}"), work(Arc::clone(&shared), index, poll))?;
        }
        Ok(forwarder)
    }

    /// The state that its threads share.
    #[cfg(test)]
    pub(super) fn shared(&self) -> &Arc<ForwardState> {
        &self.shared
    }

    /// Whether [`push_numbered`](Self::push_numbered) finds room for a frame, in the window of the
    /// store if it is to be sent `at_once`.
    pub(super) fn accepts(&self, bytes: usize, at_once: bool) -> bool {
        self.shared.queue().accepts(bytes, at_once)
    }

    /// Takes a frame that has a number of the stripe, and that was
    /// [accepted](Self::accepts).
    pub(super) fn push_numbered(&self, frame: Frame, number: u64, on_durable: OnDurable) {
        let copy = self.shared.copy.as_ref().expect("it delivers to one of several copies");
        let lines = u64::from(frame.header().lines);
        let lines_in_memory = Arc::clone(&copy.lines_in_memory);
        lines_in_memory.fetch_add(lines, Relaxed);
        let on_durable: OnDurable = Box::new(move |result| {
            lines_in_memory.fetch_sub(lines, Relaxed);
            on_durable(result);
        });
        let waiting = Waiting {
            frame,
            number: Some(number),
            on_durable,
            since: Instant::now(),
            patience: Patience::Unlimited,
        };
        let placed = self.shared.queue().push(waiting);
        match placed {
            Placed::Lane(lane) => self.shared.lanes[lane].wake(),
            Placed::Waiting => self.shared.notify(),
            Placed::Full(_) => unreachable!("a frame with a number finds a place"),
        }
    }

    /// Lines that the store has not acknowledged, as far as they are known (see
    /// [`CopiesStatus`](super::CopiesStatus)).
    pub(super) fn lines_missing(&self) -> u64 {
        let copy = self.shared.copy.as_ref();
        let in_memory = copy.map_or(0, |copy| copy.lines_in_memory.load(Relaxed));
        in_memory + self.shared.spool().lines()
    }
}

impl Forward for Forwarder {
    fn begin_stop(&self) {
        self.shared.queue().closing = true;
        self.shared.notify();
    }

    fn stop(&self) {
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

    fn status(&self) -> ForwardStatus {
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
            if let Some(copy) = &shared.copy {
                store.copy = Some(copy.place.copy);
                store.bytes_spooled = spool.bytes;
            }
        }
        let connected = |store: &StoreStatus| matches!(store.link, Link::Connected);
        let ready = !spool.full || stores.iter().any(connected);
        let known: Vec<u32> = stores.iter().filter_map(|store| store.store).collect();
        let unknown =
            by_store.into_iter().filter(|(store, _)| *store != STRIPE && !known.contains(store));
        ForwardStatus {
            node: self.node,
            waiting_bytes: queue.waiting_bytes() as u64,
            spool,
            stores,
            bound_elsewhere: unknown.collect(),
            ready,
            copies: None,
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
        let mut waiting = Waiting { frame, number: None, on_durable, since, patience };
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
            let is_over = || since.elapsed() >= AWAITED_MAX || shared.is_stuck(&queue);
            if patience == Patience::Awaited && is_over() {
                break KeepError::NoRoom;
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

    fn is_spooling(&self) -> bool {
        self.shared.has_spooled.load(SeqCst)
    }

    /// While frames wait that neither a store nor the spool takes, others are refused: they would
    /// wait as long. Once those have left, the next frame finds out whether there is room again.
    fn refusal(&self) -> Option<KeepError> {
        let queue = self.shared.queue();
        match queue.closed {
            true => Some(KeepError::Closed),
            false => self.shared.is_stuck(&queue).then_some(KeepError::NoRoom),
        }
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
    /// Whether frames wait that neither a store nor the spool takes.
    fn is_stuck(&self, queue: &FrameQueue) -> bool {
        let waits = |since: Instant| since.elapsed() >= STUCK_AFTER;
        self.spool_full.load(Relaxed)
            && !queue.any_open()
            && queue.waiting_since().is_some_and(waits)
    }

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
        let over = queue.put_back_patient(&mut hand.frames, AWAITED_MAX);
        drop(queue);
        for waiting in over {
            (waiting.on_durable)(Err(KeepError::NoRoom));
        }
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
                let appended = match self.copy {
                    None => {
                        let frames = hand.frames.iter_mut().map(|waiting| &mut waiting.frame);
                        spool.append(&mut frames.collect::<Vec<_>>())
                    }
                    Some(_) => {
                        hand.frames.make_contiguous().sort_by_key(|waiting| waiting.number);
                        let numbered = hand.frames.iter_mut().map(Waiting::numbered);
                        spool.append_numbered(&mut numbered.collect::<Vec<_>>())
                    }
                };
                appended.map_err(|error| error.to_string())
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
        (waiting.on_durable)(Err(KeepError::NoRoom));
    }
}
