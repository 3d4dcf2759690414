//! How a query that runs is paused: it looks now and then whether it is asked to, and waits where
//! it stands.
//!
//! What it holds in memory and of files stays with it; so a pause has an end
//! ([`super::QueueLimits::pause_max`]).

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::{Shared, State};

/// The pauses of a query.
#[derive(Debug, Default)]
pub(super) struct Held {
    /// It was paused since it last looked.
    asked: AtomicBool,
    /// It was paused for too long.
    expired: AtomicBool,
    times: Mutex<Times>,
}

/// From when on a query does not run, and how long that was before.
#[derive(Debug, Default)]
struct Times {
    since: Option<Instant>,
    total: Duration,
}

impl Held {
    fn times(&self) -> MutexGuard<'_, Times> {
        self.times.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says that it is to wait.
    pub fn ask(&self) {
        self.times().since.get_or_insert_with(Instant::now);
        self.asked.store(true, Relaxed);
    }

    /// It begins to run: what was asked before does not count.
    pub fn run(&self) {
        *self.times() = Times::default();
        self.asked.store(false, Relaxed);
    }

    /// It goes on.
    fn go_on(&self) {
        let mut times = self.times();
        if let Some(since) = times.since.take() {
            times.total += since.elapsed();
        }
        self.asked.store(false, Relaxed);
    }

    /// How long it did not run, up to an instant.
    pub fn time(&self, end: Instant) -> Duration {
        let times = self.times();
        let now = times.since.map_or(Duration::ZERO, |since| end.saturating_duration_since(since));
        times.total + now
    }
}

/// By which a query that runs is paused. The default is never asked.
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

    /// Goes on at once unless the query is paused. Then waits until it is resumed and has a place
    /// again, or is cancelled; one that is paused for too long is cancelled here.
    #[inline]
    pub fn pass(&self, cancelled: &AtomicBool) {
        if let Some(inside) = &self.0
            && inside.held.asked.load(Relaxed)
        {
            inside.wait(cancelled);
        }
    }

    /// Time that it waited so.
    pub fn held(&self) -> Duration {
        self.0.as_ref().map_or(Duration::ZERO, |inside| inside.held.time(Instant::now()))
    }

    /// Whether it was paused for too long and cancelled therefore.
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
        self.held.go_on();
    }
}
