//! The state shared by both threads of the listener: the frames that wait for the store, and the
//! loop that passes them to it (`nodes-keep`).

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed, Ordering::Release};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use mio::Waker;
use platform::Clock;
use record::{Frame, Numbers};

use super::super::lock;
use super::super::secret::Secret;
use super::super::session::{Ledger, check_frame};
use super::super::status::CollectorStatus;
use super::super::wire::StoreHealth;
use super::{NodeStore, TICK};
use crate::accounting::{Accounting, DropReason, SourceKind};
use crate::deliver::KeepError;
use crate::source::LogLimit;

/// Bytes of frames that wait for the store. Beyond this, no more are read.
///
/// limits.md, Several machines: frames of collectors waiting for the store | {} | no more are read;
/// connections are kept alive, and collectors get the reason
const WAITING_BYTES_MAX: usize = 64 << 20;
/// How far in the future the receive times of a frame may be, since clocks differ. Later times are
/// set to now.
pub(super) const FUTURE_MAX_NS: i64 = 60 * 1_000_000_000;
/// Receive times before 2000 are impossible (a machine without a clock starts in 1970). They are
/// set to now.
pub(super) const RECEIVED_MIN_NS: i64 = 946_684_800 * 1_000_000_000;
/// How often a full disk is checked for room again.
const RETRY: Duration = Duration::from_millis(100);
/// The pause before it is looked again whether all frames of another copy are durable.
const DURABLE_PAUSE: Duration = Duration::from_millis(5);

pub(super) struct Shared {
    pub(super) store: Arc<dyn NodeStore>,
    pub(super) accounting: Arc<Accounting>,
    pub(super) waker: Waker,
    /// Frames became durable, or there is room again; the waker was triggered.
    pub(super) woken: AtomicBool,
    pub(super) stopped: AtomicBool,
    pub(super) failed: AtomicBool,
    /// Frames that were passed to the store and whose outcome is not known yet.
    pub(super) on_their_way: AtomicUsize,
    pub(super) ledger: Mutex<Ledger>,
    pub(super) waiting: Mutex<WaitingFrames>,
    pub(super) changed: Condvar,
    pub(super) collectors: Mutex<BTreeMap<u32, CollectorStatus>>,
    pub(super) secret: Option<Arc<Secret>>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) times_log: Mutex<LogLimit>,
}

#[derive(Default)]
pub(super) struct WaitingFrames {
    pub(super) frames: VecDeque<Frame>,
    pub(super) bytes: usize,
    pub(super) closed: bool,
}

impl Shared {
    pub(super) fn wake(&self) {
        if !self.woken.swap(true, Relaxed)
            && let Err(error) = self.waker.wake()
        {
            tracing::error!(%error, "the thread for collectors could not be woken");
        }
    }

    /// From now on no more frames are queued.
    pub(super) fn close(&self) {
        lock(&self.waiting).closed = true;
        self.changed.notify_all();
    }

    pub(super) fn has_panicked(&self, thread: &str) {
        tracing::error!(
            "thread {thread} failed because of a bug in Loginson; collectors keep their frames and resend them once it has \
             restarted; please report the messages before this line"
        );
        self.fail();
    }

    /// One thread is of no use without the other: waiting frames will be resent.
    pub(super) fn fail(&self) {
        self.accounting.source(SourceKind::Node).threads_failed.fetch_add(1, Relaxed);
        self.stopped.store(true, Relaxed);
        self.wake();
        self.close();
        self.failed.store(true, Relaxed);
    }

    /// Drops the waiting frames once no thread adds or takes any more: the collectors still have
    /// them.
    pub(super) fn give_back(&self, reason: DropReason) {
        let counters = self.accounting.source(SourceKind::Node);
        let mut waiting = lock(&self.waiting);
        waiting.bytes = 0;
        for frame in waiting.frames.drain(..) {
            counters.dropped(reason, u64::from(frame.header().lines));
            counters.dropped_bytes(reason, frame.line_bytes());
        }
    }

    /// The loop of the thread that waits for the store.
    pub(super) fn keep_frames(self: Arc<Self>) {
        let mut log_limit = LogLimit::default();
        while let Some(frame) = self.next_to_keep() {
            let bytes = frame.bytes().len();
            if let Err(error) = self.keep(frame)
                && let Some(held_back) = log_limit.pass()
            {
                // The collector still has it.
                tracing::warn!(%error, held_back, "a frame of a collector was not kept; it is sent again");
            }
            let mut waiting = lock(&self.waiting);
            let was_full = waiting.bytes >= WAITING_BYTES_MAX;
            waiting.bytes -= bytes;
            if was_full && waiting.bytes < WAITING_BYTES_MAX {
                self.wake();
            }
        }
    }

    /// Waits for a frame, and until the disk has room for it. `None` at the end: the waiting frames
    /// are then not acknowledged, and resent to the next listener.
    fn next_to_keep(&self) -> Option<Frame> {
        let mut waiting = lock(&self.waiting);
        loop {
            let disk_full = self.store.refusal() == Some(KeepError::DiskFull);
            if waiting.closed && (disk_full || waiting.frames.is_empty()) {
                drop(waiting);
                self.give_back(DropReason::ShuttingDown);
                return None;
            }
            if !disk_full && let Some(frame) = waiting.frames.pop_front() {
                return Some(frame);
            }
            let waited = self.changed.wait_timeout(waiting, if disk_full { RETRY } else { TICK });
            waiting = waited.unwrap_or_else(std::sync::PoisonError::into_inner).0;
        }
    }

    fn keep(self: &Arc<Self>, frame: Frame) -> Result<(), KeepError> {
        let mut handed = Handed::new(self, &frame);
        let on_durable = move |result: Result<(), KeepError>| match result {
            Ok(()) => handed.is_durable(),
            // Only at the end; the collector resends it to the next listener.
            Err(_) => handed.lost = DropReason::ShuttingDown,
        };
        self.store.keep(frame, Box::new(on_durable))
    }

    /// See [`super::Filler::fill`]. The ledger decides, as for frames that collectors bring at
    /// the same time, so that none is kept twice.
    pub(super) fn fill(
        self: &Arc<Self>,
        node: u32,
        frames: Vec<Frame>,
        taken: &Numbers,
    ) -> Result<u64, KeepError> {
        for frame in &frames {
            check_frame(frame, node).map_err(|error| KeepError::Failed(error.to_string()))?;
        }
        if self.stopped.load(Relaxed) {
            return Err(KeepError::Closed);
        }
        lock(&self.ledger).add_held(node, &self.store.held(node));
        let mut kept = 0;
        let mut numbers = Numbers::new();
        for frame in frames {
            let number = frame.header().sequence;
            numbers.insert(number);
            if lock(&self.ledger).take(node, number) {
                self.keep(frame)?;
                kept += 1;
            }
        }
        // Some of them may be on their way from the collector just now.
        while !lock(&self.ledger).are_durable(node, &numbers) {
            if self.stopped.load(Relaxed) {
                return Err(KeepError::Closed);
            }
            std::thread::sleep(DURABLE_PAUSE);
        }
        self.store.note_taken(node, taken);
        lock(&self.ledger).add_held(node, taken);
        self.wake();
        Ok(kept)
    }

    /// Sets impossible receive times to now. Lines from the future would outlive retention, and
    /// lines from before 2000 would be deleted by it at once.
    pub(super) fn correct_times(&self, frame: &mut Frame, peer: SocketAddr) {
        let now_ns = self.clock.now_ns();
        let range = (RECEIVED_MIN_NS, now_ns.saturating_add(FUTURE_MAX_NS));
        let lines = frame.clamp_received(range, now_ns);
        if lines > 0
            && let Some(held_back) = lock(&self.times_log).pass()
        {
            let node = frame.header().node;
            tracing::warn!(
                held_back,
                "collector {node:08x} at {peer} says of {lines} lines that they came in the \
                 future, or before the year 2000; they \
                 are kept as received now; set the clock of its machine"
            );
        }
    }

    pub(super) fn health(&self) -> StoreHealth {
        match self.store.refusal() {
            None => StoreHealth::Ok,
            Some(KeepError::DiskFull) => StoreHealth::DiskFull,
            Some(_) => StoreHealth::Failing,
        }
    }

    pub(super) fn is_full(&self) -> bool {
        lock(&self.waiting).bytes >= WAITING_BYTES_MAX
    }
}

/// A frame that was passed to the store. It is in flight until this is dropped, also by a panic.
struct Handed {
    shared: Arc<Shared>,
    node: u32,
    number: u64,
    frame_bytes: u64,
    lines: u64,
    line_bytes: u64,
    kept: bool,
    /// The reason to count if the frame is not kept.
    lost: DropReason,
}

impl Handed {
    fn new(shared: &Arc<Shared>, frame: &Frame) -> Handed {
        shared.on_their_way.fetch_add(1, Relaxed);
        let header = frame.header();
        Handed {
            shared: Arc::clone(shared),
            node: header.node,
            number: header.sequence,
            frame_bytes: frame.bytes().len() as u64,
            lines: u64::from(header.lines),
            line_bytes: frame.line_bytes(),
            kept: false,
            lost: DropReason::WriteFailed,
        }
    }

    fn is_durable(&mut self) {
        self.kept = true;
        let shared = &self.shared;
        shared.accounting.source(SourceKind::Node).kept(self.lines, self.line_bytes);
        if let Some(status) = lock(&shared.collectors).get_mut(&self.node) {
            status.frames += 1;
            status.lines += self.lines;
            status.bytes += self.frame_bytes;
        }
        lock(&shared.ledger).set_durable(self.node, self.number);
        shared.wake();
    }
}

impl Drop for Handed {
    fn drop(&mut self) {
        if !self.kept {
            let counters = self.shared.accounting.source(SourceKind::Node);
            counters.dropped(self.lost, self.lines);
            counters.dropped_bytes(self.lost, self.line_bytes);
        }
        self.shared.on_their_way.fetch_sub(1, Release);
    }
}
