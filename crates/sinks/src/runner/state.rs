//! What a runner tells about itself, for metrics and for the page.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use crate::destination::Fault;
use crate::document::Batch;

/// A snapshot of a sink. Counters grow from the start of the runner.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct State {
    /// What the sink is doing.
    pub phase: Phase,
    /// Batches whose cursor is not acknowledged.
    pub waiting_batches: u64,
    /// Documents in these batches: the lag behind what was submitted.
    pub waiting_documents: u64,
    /// Memory of these batches, estimated.
    pub waiting_bytes: u64,
    /// The age of the oldest document in these batches, by its own time; 0 if none waits.
    pub lag_s: f64,
    /// Batches whose cursor was acknowledged.
    pub batches: u64,
    /// Calls of the destination that sent documents.
    pub requests: u64,
    /// Documents that the destination accepted.
    pub accepted: u64,
    /// Bytes of these documents in memory, before encoding and compression.
    pub accepted_bytes: u64,
    /// Documents that were to delete others, which the destination cannot do.
    pub ignored: u64,
    /// Documents that the destination rejected; they are in the store of rejected documents.
    pub rejected: u64,
    /// Rejected documents that the bounded store had to drop.
    pub rejected_dropped: u64,
    /// Times that documents were sent again, or are about to be.
    pub retries: u64,
    /// Failures in a row; 0 when documents are being accepted.
    pub failures_in_a_row: u32,
    /// The last fault, also when it is over.
    pub last_error: Option<LastError>,
    /// The cursor that was acknowledged last.
    pub cursor: Option<String>,
}

/// A fault and when it occurred.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastError {
    /// Nanoseconds since 1970, UTC.
    pub time_ns: i64,
    /// What happened, with the remedy.
    pub fault: Fault,
}

/// What a sink is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Phase {
    /// Nothing waits.
    #[default]
    Idle,
    /// A request is under way.
    Sending,
    /// The sink waits before a retry.
    Waiting {
        /// When the wait ends, in nanoseconds since 1970, UTC.
        until_ns: i64,
    },
    /// The thread has ended. What waited is delivered again after a start from the last cursor.
    Ended,
}

/// The state that the thread writes and everyone reads.
#[derive(Default)]
pub(crate) struct Shared {
    state: Mutex<State>,
    /// For each batch that waits, its documents, bytes and the time of its oldest document.
    waiting: Mutex<VecDeque<Waiting>>,
}

struct Waiting {
    documents: u64,
    bytes: u64,
    oldest_ns: Option<i64>,
}

impl Shared {
    /// Changes the state.
    pub fn change<R>(&self, change: impl FnOnce(&mut State) -> R) -> R {
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Notes a fault.
    pub fn fail(&self, time_ns: i64, fault: &Fault) {
        self.change(|state| {
            state.last_error = Some(LastError { time_ns, fault: fault.clone() });
        });
    }

    /// Counts a batch that was submitted.
    pub fn submitted(&self, batch: &Batch) {
        let oldest_ns = batch.documents.iter().map(|document| document.time_ns).min();
        let waiting = Waiting {
            documents: batch.documents.len() as u64,
            bytes: batch.bytes() as u64,
            oldest_ns,
        };
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).push_back(waiting);
    }

    /// Counts the oldest batch as done.
    pub fn acknowledged(&self, cursor: &str) {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        self.change(|state| {
            state.batches += 1;
            state.cursor = Some(cursor.to_owned());
        });
    }

    /// The state at a time.
    pub fn snapshot(&self, now_ns: i64) -> State {
        let mut state = self.change(|state| state.clone());
        let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        state.waiting_batches = waiting.len() as u64;
        state.waiting_documents = waiting.iter().map(|batch| batch.documents).sum();
        state.waiting_bytes = waiting.iter().map(|batch| batch.bytes).sum();
        let oldest_ns = waiting.iter().filter_map(|batch| batch.oldest_ns).min();
        state.lag_s = oldest_ns.map_or(0.0, |oldest| now_ns.saturating_sub(oldest).max(0) as f64)
            / 1_000_000_000.0;
        state
    }
}
