//! Pauses a running query: the query checks now and then whether it has been paused, and then
//! blocks where it is.
//!
//! A paused query keeps its memory and its open files. A pause is therefore limited
//! ([`super::QueueLimits::pause_max`]).

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::{Shared, State};

/// The pauses of a query.
#[derive(Debug, Default)]
pub(super) struct Held {
    /// The query was paused since its last check.
    pause_requested: AtomicBool,
    /// The query was paused for longer than the limit.
    expired: AtomicBool,
    times: Mutex<Times>,
}

/// Since when the query has been paused, and the total of earlier pauses.
#[derive(Debug, Default)]
struct Times {
    since: Option<Instant>,
    total: Duration,
}

impl Held {
    fn times(&self) -> MutexGuard<'_, Times> {
        self.times.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells the query to pause at its next check.
    pub fn ask(&self) {
        self.times().since.get_or_insert_with(Instant::now);
        self.pause_requested.store(true, Relaxed);
    }

    /// The query begins to run: earlier pauses do not count.
    pub fn run(&self) {
        *self.times() = Times::default();
        self.pause_requested.store(false, Relaxed);
    }

    /// Ends the present pause.
    fn end_pause(&self) {
        let mut times = self.times();
        if let Some(since) = times.since.take() {
            times.total += since.elapsed();
        }
        self.pause_requested.store(false, Relaxed);
    }

    /// Total time of pauses up to an instant.
    pub fn time(&self, end: Instant) -> Duration {
        let times = self.times();
        let now = times.since.map_or(Duration::ZERO, |since| end.saturating_duration_since(since));
        times.total + now
    }
}

/// Lets others pause a running query. The default value is never paused.
#[derive(Clone, Default)]
pub struct Hold(Option<Inside>);

#[derive(Clone)]
struct Inside {
    id: u64,
    shared: Arc<Shared>,
    held: Arc<Held>,
}

impl fmt::Debug for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Hold").field(&self.0.as_ref().map(|inside| &inside.held)).finish()
    }
}

impl Hold {
    pub(super) fn of(id: u64, shared: &Arc<Shared>, held: &Arc<Held>) -> Hold {
        Hold(Some(Inside { id, shared: Arc::clone(shared), held: Arc::clone(held) }))
    }

    /// Returns at once unless the query is paused. Otherwise blocks until the query is resumed and
    /// has a place again, or is cancelled. A query that is paused for too long is cancelled here.
    #[inline]
    pub fn pass(&self, cancelled: &AtomicBool) {
        if let Some(inside) = &self.0
            && inside.held.pause_requested.load(Relaxed)
        {
            inside.wait(cancelled);
        }
    }

    /// Total time of the pauses so far.
    pub fn held(&self) -> Duration {
        self.0.as_ref().map_or(Duration::ZERO, |inside| inside.held.time(Instant::now()))
    }

    /// Whether the query was cancelled because its pause exceeded the limit.
    pub fn expired(&self) -> bool {
        self.0.as_ref().is_some_and(|inside| inside.held.expired.load(Relaxed))
    }
}

impl Inside {
    fn wait(&self, cancelled: &AtomicBool) {
        let pause_max = self.shared.limits.pause_max;
        let mut since: Option<Instant> = None;
        let mut inner = self.shared.lock();
        while !cancelled.load(Relaxed) {
            let changed = &self.shared.changed;
            inner = match inner.places.state(self.id) {
                Some(State::Paused) => {
                    let since = since.get_or_insert_with(Instant::now);
                    let left = pause_max.saturating_sub(since.elapsed());
                    if left.is_zero() {
                        self.held.expired.store(true, Relaxed);
                        cancelled.store(true, Relaxed);
                        break;
                    }
                    changed.wait_timeout(inner, left).expect("nothing panics inside").0
                }
                Some(State::Waiting) => {
                    since = None;
                    changed.wait(inner).expect("nothing panics inside")
                }
                _ => break,
            };
        }
        self.held.end_pause();
    }
}
