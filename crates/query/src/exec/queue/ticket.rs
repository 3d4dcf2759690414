//! The way of a query through the queue: a ticket while it waits, then a permit while it runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use super::entry::Sleep;
use super::limits::QueueError;
use super::places::{Class, QueryState};
use super::{BACKGROUND, Shared, Sleeper, TURN_LOOK, class_of};
use crate::base::{Hold, Progress};

/// A place, or a position in the line for one. Dropping the ticket without waiting removes the
/// query from the queue and from the list.
pub struct Ticket {
    pub(super) id: u64,
    pub(super) shared: Arc<Shared>,
    /// Whether [`Ticket::wait`] was called.
    pub(super) used: bool,
}

impl Ticket {
    /// The id of the query.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Blocks until the query has a place: up to `wait_max` of the limits, or without limit for
    /// background queries. A query that is paused meanwhile waits up to `pause_max` to be resumed.
    pub fn wait(mut self) -> Result<Permit, QueueError> {
        self.used = true;
        let (id, shared) = (self.id, &*self.shared);
        // Whether the query is paused, and since when it has been in this phase.
        let mut phase = (false, Instant::now());
        let mut inner = shared.lock();
        let error = loop {
            let closed = inner.closed;
            let state = inner.places.state(id).expect("it has not ended");
            let entry = inner.entries.get_mut(&id).expect("it has not ended");
            let paused = state == QueryState::Paused;
            if paused != phase.0 {
                phase = (paused, Instant::now());
            }
            let most = match paused {
                true => Some(shared.limits().pause_max),
                false => Some(shared.limits().wait_max).filter(|_| entry.kind != BACKGROUND),
            };
            let left = most.map(|most| most.saturating_sub(phase.1.elapsed()));
            let cancelled = entry.cancelled.load(Relaxed);
            if closed {
                break QueueError::Closed;
            } else if cancelled {
                break QueueError::Cancelled;
            } else if state == QueryState::Running {
                entry.ran_from = Some(Instant::now());
                entry.turn_from = entry.ran_from;
                entry.pauses.begin_run();
                let (queue, pauses) = (Arc::clone(&self.shared), Arc::clone(&entry.pauses));
                let wait =
                    move |cancelled: &AtomicBool| queue.wait_for_resume(id, &pauses, cancelled);
                return Ok(Permit {
                    id,
                    cancelled: Arc::clone(&entry.cancelled),
                    progress: Arc::clone(&entry.progress),
                    hold: Hold::new(&entry.pauses, Arc::new(wait)),
                    shared: Arc::clone(&self.shared),
                    left: false,
                });
            }
            // Not at once: a place may become free by itself.
            if !paused && phase.1.elapsed() >= TURN_LOOK && inner.take_turn(id, &shared.limits()) {
                continue;
            }
            // A query that is the first to wait looks again soon.
            let (how, left) = match !paused && inner.places.is_next(id) {
                true => (Sleep::ToLook, Some(left.map_or(TURN_LOOK, |left| left.min(TURN_LOOK)))),
                false => (Sleep::ToWait, left),
            };
            match left {
                Some(Duration::ZERO) if paused => {
                    break QueueError::PausedTooLong(shared.limits().pause_max.as_secs());
                }
                Some(Duration::ZERO) => {
                    let seconds = shared.limits().wait_max.as_secs();
                    break match class_of(&inner.entries[&id].kind) {
                        Class::Background => QueueError::ExportWaitedTooLong(seconds),
                        _ => QueueError::WaitedTooLong(seconds),
                    };
                }
                left => inner = inner.sleep(id, how, left),
            }
        };
        let state = match error {
            // A background query can be resumed later.
            QueueError::PausedTooLong(_) if inner.entries[&id].kind == BACKGROUND => {
                QueryState::Interrupted
            }
            QueueError::Cancelled | QueueError::PausedTooLong(_) => QueryState::Cancelled,
            QueueError::Closed => QueryState::Interrupted,
            _ => QueryState::Failed,
        };
        shared.leave(inner, id, state, Some(error.to_string()));
        Err(error)
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if !self.used {
            let mut inner = self.shared.lock();
            inner.places.leave(self.id);
            inner.entries.remove(&self.id);
            inner.wake_next();
        }
    }
}

/// A place to run in. Dropping it gives the place to the next query.
pub struct Permit {
    id: u64,
    /// Set when the query must end.
    pub cancelled: Arc<AtomicBool>,
    /// Receives the progress of the query.
    pub progress: Arc<Progress>,
    /// Lets others pause the query.
    pub hold: Hold,
    shared: Arc<Shared>,
    left: bool,
}

impl Permit {
    /// The id of the query.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Ends the query in this state.
    pub fn finish(mut self, state: QueryState, error: Option<String>) {
        self.leave(state, error);
    }

    fn leave(&mut self, state: QueryState, error: Option<String>) {
        if std::mem::replace(&mut self.left, true) {
            return;
        }
        self.shared.leave(self.shared.lock(), self.id, state, error);
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let (state, error) = if std::thread::panicking() {
            (QueryState::Failed, Some("the query ended by a bug; see the server's log".to_owned()))
        } else if self.cancelled.load(Relaxed) {
            (QueryState::Cancelled, None)
        } else {
            (QueryState::Done, None)
        };
        self.leave(state, error);
    }
}
