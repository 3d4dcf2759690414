//! Whether a query may continue: its time limit, its cancellation, its pauses.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use crate::base::{Hold, RunError};

/// What ends a query from outside.
#[derive(Clone, Debug)]
pub(crate) struct Watch {
    pub started: Instant,
    pub run_time: Duration,
    pub cancelled: Arc<AtomicBool>,
    pub hold: Hold,
}

impl Watch {
    /// Checks that the query may continue: not cancelled, within its time limit. Blocks while the
    /// query is paused.
    pub fn check(&self) -> Result<(), RunError> {
        may_continue(self.started, self.run_time, &self.cancelled, &self.hold)
    }
}

/// As [`Watch::check`], for a query that began at `started`. Some are checked several times for
/// each of very many units, which are ruled out in a microsecond.
pub(crate) fn may_continue(
    started: Instant,
    run_time: Duration,
    cancelled: &AtomicBool,
    hold: &Hold,
) -> Result<(), RunError> {
    hold.pass(cancelled);
    if cancelled.load(Relaxed) {
        return Err(RunError::Cancelled);
    }
    let elapsed = started.elapsed();
    // The pause time is read, under a lock, only once it can change the outcome.
    match elapsed > run_time && elapsed.saturating_sub(hold.held()) > run_time {
        true => Err(RunError::TimeLimit(run_time.as_secs_f64())),
        false => Ok(()),
    }
}
