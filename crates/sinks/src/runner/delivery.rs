//! Delivers one batch: requests, retries with back-off, smaller requests, rejected documents.
//!
//! Invariant: [`Delivery::deliver`] returns `Ok` only when each document of the batch was accepted
//! by the destination or kept by the store of rejected documents. A document is never given up for
//! any other reason, however long a destination is away.
//!
//! Order: batches are delivered one after the other, so a document that is put off holds up all
//! later batches, as its cursor requires. Within a batch, a request holds documents from the start
//! of what is left, and documents that are to be retried come before all others. A document
//! overtakes another one only if the destination accepted it in the same request in which it asked
//! to retry the other. A destination that keeps no order ([`Destination::keeps_order`]) could be
//! offered the same documents forever while others wait that it would take: if it puts off more
//! than half of a request, these documents go behind the rest of the batch, and with them all
//! documents of the batch with the same ids, so that changes to one id keep their order.
//!
//! A destination that refuses one document after the other, and accepts none between, may have a
//! wrong configuration. The runner then waits and sends the next one again before it rejects that
//! document, and waits longer each time, so that an administrator has the time to correct it.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use crate::clock::{Clock, Random, Stop};
use crate::destination::{Delivered, Destination, Fault, Outcome};
use crate::document::Document;
use crate::reject::{RejectStore, Rejected};
use crate::runner::backoff::Backoff;
use crate::runner::state::{Phase, Shared};

/// Documents that are rejected in a row, each refused alone, before the runner waits between them.
const REFUSED_AT_ONCE_MAX: u32 = 10;

/// The thread was asked to end before everything was delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stopped;

/// Everything that delivering needs; it outlives batches, so that a smaller request size is kept.
pub(crate) struct Delivery {
    pub destination: Box<dyn Destination>,
    pub rejects: Box<dyn RejectStore>,
    pub clock: Arc<dyn Clock>,
    pub random: Random,
    pub backoff: Backoff,
    pub stop: Arc<Stop>,
    pub shared: Arc<Shared>,
    /// Documents per request. It halves when requests are refused or time out, and doubles with
    /// each request that is answered.
    pub window_documents: usize,
    pub window_documents_max: usize,
    /// Failures in a row.
    pub failures: u32,
    /// Documents that were refused alone since the destination last accepted one.
    pub refused_in_a_row: u32,
}

impl Delivery {
    /// Delivers all documents, or ends early because the thread was asked to.
    pub fn deliver(&mut self, documents: Vec<Document>) -> Result<(), Stopped> {
        let mut pending = VecDeque::from(documents);
        // Whether the first document was refused alone, and is being sent once more.
        let mut is_second_refusal = false;
        while !pending.is_empty() {
            if self.stop.is_requested() {
                return Err(Stopped);
            }
            let count = pending.len().min(self.window_documents);
            self.shared.change(|state| {
                state.phase = Phase::Sending;
                state.requests += 1;
            });
            match self.destination.deliver(&pending.make_contiguous()[..count]) {
                Delivered::Answered { outcomes, retry_after }
                    if (1..=count).contains(&outcomes.len()) =>
                {
                    is_second_refusal = false;
                    let sent: Vec<Document> = pending.drain(..outcomes.len()).collect();
                    self.settle(sent, outcomes, retry_after, &mut pending)?;
                }
                Delivered::Answered { outcomes, .. } => {
                    let fault = Fault::new(
                        format!("{} outcomes came for {count} documents", outcomes.len()),
                        "this is a fault of Loginson; please report it",
                    );
                    self.retry_later(count, &fault, None);
                }
                Delivered::Refused(fault) if count == 1 => {
                    if self.refused_in_a_row >= REFUSED_AT_ONCE_MAX && !is_second_refusal {
                        is_second_refusal = true;
                        self.failures = self.refused_in_a_row - REFUSED_AT_ONCE_MAX;
                        self.retry_later(count, &fault, None);
                        continue;
                    }
                    is_second_refusal = false;
                    self.refused_in_a_row = self.refused_in_a_row.saturating_add(1);
                    let refused: Vec<Document> = pending.drain(..1).collect();
                    self.reject(&[(refused[0].clone(), fault.to_string())])?;
                    self.succeeded();
                }
                Delivered::Refused(fault) => {
                    self.shared.fail(self.clock.now_ns(), &fault);
                    self.shared.change(|state| state.retries += count as u64);
                    self.window_documents = count / 2;
                }
                Delivered::TimedOut(fault) => {
                    self.window_documents = (count / 2).max(1);
                    self.retry_later(count, &fault, None);
                }
                Delivered::Unavailable { fault, retry_after } => {
                    self.retry_later(count, &fault, retry_after);
                }
            }
        }
        Ok(())
    }

    /// Deals with the outcome of each document that was sent.
    fn settle(
        &mut self,
        sent: Vec<Document>,
        outcomes: Vec<Outcome>,
        retry_after: Option<Duration>,
        pending: &mut VecDeque<Document>,
    ) -> Result<(), Stopped> {
        let (mut accepted, mut accepted_bytes, mut ignored) = (0, 0, 0);
        let (mut rejected, mut again) = (Vec::new(), Vec::new());
        let mut last_fault = None;
        let count = sent.len();
        for (document, outcome) in sent.into_iter().zip(outcomes) {
            match outcome {
                Outcome::Accepted => {
                    accepted += 1;
                    accepted_bytes += document.bytes() as u64;
                }
                Outcome::Ignored => ignored += 1,
                Outcome::Rejected(reason) => rejected.push((document, reason)),
                Outcome::Retry(fault) => {
                    again.push(document);
                    last_fault = Some(fault);
                }
            }
        }
        self.shared.change(|state| {
            state.accepted += accepted;
            state.accepted_bytes += accepted_bytes;
            state.ignored += ignored;
        });
        if accepted > 0 {
            self.refused_in_a_row = 0;
        }
        self.reject(&rejected)?;
        let retried = again.len();
        if retried > count / 2 && !self.destination.keeps_order() {
            put_behind(again, pending);
        } else {
            for document in again.into_iter().rev() {
                pending.push_front(document);
            }
        }
        match last_fault {
            Some(fault) => {
                // A destination that accepts some documents is there: the wait grows only while
                // nothing is accepted.
                if accepted > 0 {
                    self.failures = 0;
                }
                self.retry_later(retried, &fault, retry_after);
            }
            None => self.succeeded(),
        }
        Ok(())
    }

    fn succeeded(&mut self) {
        self.failures = 0;
        self.shared.change(|state| state.failures_in_a_row = 0);
        self.window_documents =
            self.window_documents.saturating_mul(2).clamp(1, self.window_documents_max);
    }

    /// Keeps rejected documents; retries until the store has them.
    fn reject(&mut self, rejected: &[(Document, String)]) -> Result<(), Stopped> {
        let Some((_, last_reason)) = rejected.last() else { return Ok(()) };
        let time_ns = self.clock.now_ns();
        let fault = Fault::new(
            format!("a document was rejected: {last_reason}"),
            "see the file of rejected documents",
        );
        self.shared.fail(time_ns, &fault);
        let rejected: Vec<Rejected<'_>> = rejected
            .iter()
            .map(|(document, reason)| Rejected { document, reason, time_ns })
            .collect();
        while let Err(fault) = self.rejects.keep(&rejected) {
            self.retry_later(0, &fault, None);
            if self.stop.is_requested() {
                return Err(Stopped);
            }
        }
        let dropped = self.rejects.dropped();
        self.shared.change(|state| {
            state.rejected += rejected.len() as u64;
            state.rejected_dropped = dropped;
        });
        Ok(())
    }

    /// Waits before `documents` documents are sent again.
    fn retry_later(&mut self, documents: usize, fault: &Fault, requested: Option<Duration>) {
        self.failures = self.failures.saturating_add(1);
        let random = (self.random)();
        let wait = self.backoff.wait(self.failures, random, requested);
        let now_ns = self.clock.now_ns();
        let wait_ns = text::duration::ns(wait);
        self.shared.fail(now_ns, fault);
        self.shared.change(|state| {
            state.retries += documents as u64;
            state.failures_in_a_row = self.failures;
            state.phase = Phase::Waiting { until_ns: now_ns.saturating_add(wait_ns) };
        });
        self.clock.wait(wait, &self.stop);
    }
}

/// Appends documents that were put off, and behind them those of `pending` that have their ids.
fn put_behind(again: Vec<Document>, pending: &mut VecDeque<Document>) {
    let ids: HashSet<&str> = again.iter().map(|document| document.id.as_str()).collect();
    let (same, others): (VecDeque<Document>, VecDeque<Document>) =
        pending.drain(..).partition(|document| ids.contains(document.id.as_str()));
    *pending = others;
    pending.extend(again);
    pending.extend(same);
}
