//! Tells those that wait for room, in whichever of several places, that some may have become free.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use super::lock;

/// Says that there may be room now.
#[derive(Default)]
pub(super) struct Room {
    changes: Mutex<u64>,
    changed: Condvar,
}

impl Room {
    pub(super) fn signal(&self) {
        *lock(&self.changes) += 1;
        self.changed.notify_all();
    }

    pub(super) fn seen(&self) -> u64 {
        *lock(&self.changes)
    }

    /// Waits for a change after `seen`, at most for this time.
    pub(super) fn wait(&self, seen: u64, time_max: Duration) {
        let same = |changes: &mut u64| *changes == seen;
        let waited = self.changed.wait_timeout_while(lock(&self.changes), time_max, same);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }
}
