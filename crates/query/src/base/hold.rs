//! Pauses a running query: the query checks now and then whether it has been paused, and then
//! blocks where it is.
//!
//! Who paused the query, and for how long it may stay paused, is known to the queue alone. It gives
//! each query a [`Hold`] with a function that blocks until the pause is over.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The pauses of a query.
#[derive(Debug, Default)]
pub(crate) struct Pauses {
    /// The query was paused since its last check.
    requested: AtomicBool,
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

impl Pauses {
    fn times(&self) -> MutexGuard<'_, Times> {
        self.times.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells the query to pause at its next check.
    pub fn request(&self) {
        self.times().since.get_or_insert_with(Instant::now);
        self.requested.store(true, Relaxed);
    }

    /// Records that the query begins to run: earlier pauses do not count.
    pub fn begin_run(&self) {
        *self.times() = Times::default();
        self.requested.store(false, Relaxed);
    }

    /// Records that the pause exceeds its limit, for which the query is cancelled.
    pub fn expire(&self, cancelled: &AtomicBool) {
        self.expired.store(true, Relaxed);
        cancelled.store(true, Relaxed);
    }

    /// Ends the present pause.
    pub fn end(&self) {
        let mut times = self.times();
        if let Some(since) = times.since.take() {
            times.total += since.elapsed();
        }
        self.requested.store(false, Relaxed);
    }

    /// Total time of pauses up to an instant.
    pub fn time(&self, end: Instant) -> Duration {
        let times = self.times();
        let now = times.since.map_or(Duration::ZERO, |since| end.saturating_duration_since(since));
        times.total + now
    }
}

/// Blocks while a query is paused and not cancelled, then ends the pause. Cancels a query whose
/// pause exceeds its limit.
type WaitForResume = dyn Fn(&AtomicBool) + Send + Sync;

/// Lets others pause a running query. The default value is never paused.
#[derive(Clone, Default)]
pub struct Hold(Option<(Arc<Pauses>, Arc<WaitForResume>)>);

impl fmt::Debug for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Hold").field(&self.0.as_ref().map(|(pauses, _)| pauses)).finish()
    }
}

impl Hold {
    /// The hold of a query with these pauses, which `wait` waits for.
    pub(crate) fn new(pauses: &Arc<Pauses>, wait: Arc<WaitForResume>) -> Hold {
        Hold(Some((Arc::clone(pauses), wait)))
    }

    /// Returns at once unless the query is paused. Otherwise blocks until the query is resumed and
    /// has a place again, or is cancelled. A query that is paused for too long is cancelled here.
    #[inline]
    pub fn pass(&self, cancelled: &AtomicBool) {
        if let Some((pauses, wait)) = &self.0
            && pauses.requested.load(Relaxed)
        {
            wait(cancelled);
        }
    }

    /// Total time of the pauses so far.
    pub fn held(&self) -> Duration {
        self.0.as_ref().map_or(Duration::ZERO, |(pauses, _)| pauses.time(Instant::now()))
    }

    /// Whether the query was cancelled because its pause exceeded the limit.
    pub fn expired(&self) -> bool {
        self.0.as_ref().is_some_and(|(pauses, _)| pauses.expired.load(Relaxed))
    }
}
