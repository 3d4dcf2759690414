//! The thread of a sink: takes batches from a bounded queue, delivers them in order, acknowledges
//! their cursors.
//!
//! Invariants:
//! - A cursor is acknowledged only when every document of its batch, and of all batches before it,
//!   was accepted or kept as rejected. Cursors are acknowledged in the order of their batches.
//! - Nothing is dropped silently. When the thread ends early, batches in memory are forgotten
//!   without an acknowledgement: the caller reads them again from its cursor.
//! - Memory is bounded by [`QueueLimits`], one batch that is being delivered, and one request.
//!
//! Left out: where cursors are stored, and how documents are made. The caller does both.

mod backoff;
mod delivery;
mod queue;
mod state;

use std::sync::Arc;
use std::thread::JoinHandle;

pub use backoff::Backoff;
pub use queue::{NotTaken, QueueLimits};
pub use state::{LastError, Phase, State};

use crate::clock::{Clock, Random, Stop, SystemClock, system_random};
use crate::destination::Destination;
use crate::document::Batch;
use crate::reject::RejectStore;
use delivery::Delivery;
use queue::Queue;
use state::Shared;

/// Limits of a runner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunnerOptions {
    /// What may wait in memory.
    pub queue: QueueLimits,
    /// Waits before retries.
    pub backoff: Backoff,
    /// The most documents in one request; the destination bounds its bytes.
    pub request_documents_max: usize,
}

impl Default for RunnerOptions {
    fn default() -> RunnerOptions {
        RunnerOptions {
            queue: QueueLimits::default(),
            backoff: Backoff::default(),
            request_documents_max: 10_000,
        }
    }
}

/// What a runner works with.
pub struct RunnerParts {
    /// Where documents go.
    pub destination: Box<dyn Destination>,
    /// Where rejected documents are kept.
    pub rejects: Box<dyn RejectStore>,
    /// Called on the sink's thread with each cursor that may be stored, in order.
    pub acknowledge: Box<dyn FnMut(&str) + Send>,
    /// Tells the time and waits.
    pub clock: Arc<dyn Clock>,
    /// The jitter of waits.
    pub random: Random,
}

impl RunnerParts {
    /// Parts with the clock and the random numbers of the system.
    pub fn new(
        destination: Box<dyn Destination>,
        rejects: Box<dyn RejectStore>,
        acknowledge: impl FnMut(&str) + Send + 'static,
    ) -> RunnerParts {
        RunnerParts {
            destination,
            rejects,
            acknowledge: Box::new(acknowledge),
            clock: Arc::new(SystemClock),
            random: system_random(),
        }
    }
}

/// A sink at work. Dropping it ends the thread after the request that is under way.
pub struct Runner {
    queue: Arc<Queue>,
    stop: Arc<Stop>,
    shared: Arc<Shared>,
    clock: Arc<dyn Clock>,
    thread: Option<JoinHandle<()>>,
}

impl Runner {
    /// Starts the thread `sink-NAME`.
    pub fn start(
        name: &str,
        parts: RunnerParts,
        options: RunnerOptions,
    ) -> std::io::Result<Runner> {
        let queue = Arc::new(Queue::new(options.queue));
        let (stop, shared) = (Arc::new(Stop::default()), Arc::new(Shared::default()));
        let clock = Arc::clone(&parts.clock);
        let delivery = Delivery {
            destination: parts.destination,
            rejects: parts.rejects,
            clock: parts.clock,
            random: parts.random,
            backoff: options.backoff,
            stop: Arc::clone(&stop),
            shared: Arc::clone(&shared),
            window_documents: options.request_documents_max.max(1),
            window_documents_max: options.request_documents_max.max(1),
            failures: 0,
            refused_in_a_row: 0,
        };
        let ending = Ending { queue: Arc::clone(&queue), shared: Arc::clone(&shared) };
        let thread = std::thread::Builder::new()
            .name(format!("sink-{name}"))
            .spawn(move || run(&ending, delivery, parts.acknowledge))?;
        Ok(Runner { queue, stop, shared, clock, thread: Some(thread) })
    }

    /// Submits a batch; waits while the queue is full. Returns the batch if the runner has ended.
    pub fn submit(&self, batch: Batch) -> Result<(), Batch> {
        self.queue.push(batch, |batch| self.shared.submitted(batch))
    }

    /// Submits a batch if there is room, and never waits.
    pub fn offer(&self, batch: Batch) -> Result<(), NotTaken> {
        self.queue.offer(batch, |batch| self.shared.submitted(batch))
    }

    /// How the sink is doing.
    pub fn state(&self) -> State {
        self.shared.snapshot(self.clock.now_ns())
    }

    /// Ends the thread after the request that is under way. What is not acknowledged is forgotten.
    pub fn stop(mut self) -> State {
        self.stop.request();
        self.join()
    }

    /// Delivers everything that was submitted, then ends the thread. This may take as long as the
    /// destination is away.
    pub fn finish(mut self) -> State {
        self.join()
    }

    fn join(&mut self) -> State {
        self.queue.close();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was reported by its hook; the state says that it has ended.
            let _ = thread.join();
        }
        self.state()
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        self.stop.request();
        self.join();
    }
}

/// Marks the runner as ended, also when its thread panics.
struct Ending {
    queue: Arc<Queue>,
    shared: Arc<Shared>,
}

impl Drop for Ending {
    fn drop(&mut self) {
        self.queue.close();
        self.shared.change(|state| state.phase = Phase::Ended);
    }
}

fn run(ending: &Ending, mut delivery: Delivery, mut acknowledge: Box<dyn FnMut(&str) + Send>) {
    while let Some(batch) = ending.queue.pop() {
        if delivery.deliver(batch.documents).is_err() {
            return;
        }
        acknowledge(&batch.cursor);
        ending.shared.acknowledged(&batch.cursor);
        if ending.queue.is_empty() {
            ending.shared.change(|state| state.phase = Phase::Idle);
        }
    }
}

#[cfg(test)]
mod tests;
