//! The queue of frames for the disk: in order, bounded in bytes.
//!
//! Frames stay here until they are durable or given up, so that the bound holds for everything that
//! is not on disk. Only the writer takes frames out.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use platform::{KeepError, OnDurable, Patience};
use record::Frame;
use record::frame::FRAME_INTERNAL;

use crate::store_core::sequence_numbers::OpenNumber;
use crate::sync::lock;

pub(crate) struct PendingFrame {
    pub(crate) frame: Arc<Frame>,
    pub(crate) on_durable: OnDurable,
    pub(crate) patience: Patience,
    /// When it was queued, monotonic nanoseconds.
    pub(crate) since_ns: u64,
    /// Its sequence number, which stays open until the frame is durable or given up.
    pub(crate) number: OpenNumber,
}

impl PendingFrame {
    pub(crate) fn finish(self, result: Result<(), KeepError>) {
        // First, so that a caller that learns of success can read the frame at once.
        drop(self.number);
        (self.on_durable)(result);
    }

    /// Whether a sender waits for the answer, and would rather be refused than wait long.
    fn is_awaited(&self) -> bool {
        self.patience == Patience::Awaited
    }
}

#[derive(Default)]
pub(crate) struct QueueState {
    pub(crate) frames: VecDeque<PendingFrame>,
    pub(crate) bytes: usize,
    /// Frames whose sender waits for the answer.
    pub(crate) awaited: usize,
    pub(crate) closed: bool,
}

#[derive(Default)]
pub(crate) struct WriteQueue {
    waiting: Mutex<QueueState>,
    /// A frame came in, or the queue was closed.
    changed: Condvar,
    /// A frame went out, or the queue was closed.
    room: Condvar,
}

impl WriteQueue {
    pub(crate) fn lock(&self) -> MutexGuard<'_, QueueState> {
        lock(&self.waiting)
    }

    pub(crate) fn bytes(&self) -> usize {
        self.lock().bytes
    }

    /// Appends frames.
    pub(crate) fn push(&self, mut waiting: MutexGuard<'_, QueueState>, pending: Vec<PendingFrame>) {
        waiting.bytes += pending.iter().map(|p| p.frame.bytes().len()).sum::<usize>();
        waiting.awaited += pending.iter().filter(|p| p.is_awaited()).count();
        waiting.frames.extend(pending);
        self.changed.notify_one();
    }

    pub(crate) fn wait_for_room<'a>(
        &self,
        waiting: MutexGuard<'a, QueueState>,
        timeout: Duration,
    ) -> MutexGuard<'a, QueueState> {
        let result = self.room.wait_timeout(waiting, timeout);
        result.unwrap_or_else(std::sync::PoisonError::into_inner).0
    }

    pub(crate) fn wait_for_change<'a>(
        &self,
        waiting: MutexGuard<'a, QueueState>,
        timeout: Duration,
    ) -> MutexGuard<'a, QueueState> {
        let result = self.changed.wait_timeout(waiting, timeout);
        result.unwrap_or_else(std::sync::PoisonError::into_inner).0
    }

    /// The first frames, up to `bytes` and at least one.
    pub(crate) fn first(&self, bytes: usize) -> Vec<Arc<Frame>> {
        let waiting = self.lock();
        let mut sum = 0;
        let fits = |pending: &&PendingFrame| {
            sum += pending.frame.bytes().len();
            sum <= bytes || sum == pending.frame.bytes().len()
        };
        waiting.frames.iter().take_while(fits).map(|p| p.frame.clone()).collect()
    }

    /// Moves the frames that Loginson made itself before the others, and returns them.
    pub(crate) fn internal_first(&self) -> Vec<Arc<Frame>> {
        let mut waiting = self.lock();
        let frames = std::mem::take(&mut waiting.frames);
        let (internal, others): (Vec<PendingFrame>, Vec<PendingFrame>) =
            frames.into_iter().partition(|p| p.frame.header().flags & FRAME_INTERNAL != 0);
        let found = internal.iter().map(|p| p.frame.clone()).collect();
        waiting.frames = internal.into_iter().chain(others).collect();
        found
    }

    /// Takes the first `frames` out.
    pub(crate) fn take(&self, frames: usize) -> Vec<PendingFrame> {
        let mut waiting = self.lock();
        let taken: Vec<PendingFrame> = waiting.frames.drain(..frames).collect();
        self.release(&mut waiting, &taken);
        taken
    }

    /// Takes out the frames whose sender waits, and that were queued at `since_ns` or before.
    pub(crate) fn take_overdue(&self, since_ns: u64) -> Vec<PendingFrame> {
        let mut waiting = self.lock();
        let frames = std::mem::take(&mut waiting.frames);
        let overdue = |p: &PendingFrame| p.is_awaited() && p.since_ns <= since_ns;
        let (taken, kept): (Vec<_>, VecDeque<_>) = {
            let mut taken = Vec::new();
            let mut kept = VecDeque::with_capacity(frames.len());
            for pending in frames {
                if overdue(&pending) { taken.push(pending) } else { kept.push_back(pending) }
            }
            (taken, kept)
        };
        waiting.frames = kept;
        self.release(&mut waiting, &taken);
        taken
    }

    /// Refuses further frames.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_all();
        self.room.notify_all();
    }

    fn release(&self, waiting: &mut QueueState, taken: &[PendingFrame]) {
        waiting.bytes -= taken.iter().map(|p| p.frame.bytes().len()).sum::<usize>();
        waiting.awaited -= taken.iter().filter(|p| p.is_awaited()).count();
        self.room.notify_all();
    }
}
