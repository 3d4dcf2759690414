//! Time and chance as parameters, so that tests wait for nothing and repeat exactly.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Tells the time, and waits.
pub trait Clock: Send + Sync {
    /// Nanoseconds since 1970, UTC.
    fn now_ns(&self) -> i64;

    /// Returns after `time`, or as soon as `stop` is requested.
    fn wait(&self, time: Duration, stop: &Stop);
}

/// Numbers from 0 (included) to 1 (excluded), for the jitter of retries.
pub type Random = Box<dyn FnMut() -> f64 + Send>;

/// Random numbers of the system.
pub fn system_random() -> Random {
    let mut random = fastrand::Rng::new();
    Box::new(move || random.f64())
}

/// The clock of the system.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now_ns(&self) -> i64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        text::duration::ns(since)
    }

    fn wait(&self, time: Duration, stop: &Stop) {
        stop.wait(time);
    }
}

/// Asks a thread to end, and wakes it while it waits.
#[derive(Debug, Default)]
pub struct Stop {
    is_requested: Mutex<bool>,
    changed: Condvar,
}

impl Stop {
    /// Asks for the end.
    pub fn request(&self) {
        *self.is_requested.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_all();
    }

    /// Whether the end was asked for.
    pub fn is_requested(&self) -> bool {
        *self.is_requested.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait(&self, time: Duration) {
        let start = Instant::now();
        let mut is_requested = self.is_requested.lock().unwrap_or_else(PoisonError::into_inner);
        while !*is_requested {
            let Some(left) = time.checked_sub(start.elapsed()).filter(|left| !left.is_zero())
            else {
                return;
            };
            let waited = self.changed.wait_timeout(is_requested, left);
            is_requested = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}
