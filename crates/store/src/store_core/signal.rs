//! How the background threads are woken and stopped.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex};
use std::time::Duration;

use crate::sync::{lock, wait};

/// The signals of one store.
#[derive(Default)]
pub(crate) struct Signals {
    /// For the threads that rewrite segments.
    pub(crate) sealing: SealingSignal,
    /// For the thread that keeps the [ledger](crate::ledger).
    pub(crate) ledger: Signal,
}

/// Wakes threads when work may have become due.
#[derive(Default)]
pub(crate) struct Signal {
    state: Mutex<SignalState>,
    changed: Condvar,
}

#[derive(Default)]
struct SignalState {
    /// Number of wake-ups. Each thread remembers how many it has seen, so none is lost while it
    /// works.
    wakes: u64,
    stopped: bool,
}

impl Signal {
    pub(crate) fn wake(&self) {
        lock(&self.state).wakes += 1;
        self.changed.notify_all();
    }

    /// Tells the threads to end.
    pub(crate) fn stop(&self) {
        lock(&self.state).stopped = true;
        self.changed.notify_all();
    }

    pub(crate) fn is_stopped(&self) -> bool {
        lock(&self.state).stopped
    }

    /// Waits for a wake-up that is not among the `seen` ones, at most for `timeout`; returns
    /// whether the thread is to end.
    pub(crate) fn wait(&self, seen: &mut u64, timeout: Duration) -> bool {
        let mut state = lock(&self.state);
        if state.wakes == *seen && !state.stopped {
            state = wait(&self.changed, state, timeout);
        }
        *seen = state.wakes;
        state.stopped
    }
}

/// A [`Signal`] with the flags by which the writer and the sealing threads coordinate.
#[derive(Default)]
pub(crate) struct SealingSignal {
    pub(crate) signal: Signal,
    /// The disk is nearly full: sealing frees space.
    low_disk: AtomicBool,
    /// Whether segments are sealed at all: the background was started.
    attached: AtomicBool,
    /// Segments that somebody asked to be sealed have numbers below this.
    requested_below: AtomicU64,
}

impl SealingSignal {
    pub(crate) fn wake(&self) {
        self.signal.wake();
    }

    pub(crate) fn attach(&self) {
        self.attached.store(true, Ordering::Release);
    }

    pub(crate) fn is_attached(&self) -> bool {
        self.attached.load(Ordering::Acquire)
    }

    /// Segments with numbers below `below` are to be sealed without further ado.
    pub(crate) fn request(&self, below: u64) {
        self.requested_below.fetch_max(below, Ordering::AcqRel);
        self.signal.wake();
    }

    pub(crate) fn is_requested(&self, segment: u64) -> bool {
        segment < self.requested_below.load(Ordering::Acquire)
    }

    pub(crate) fn is_low_disk(&self) -> bool {
        self.low_disk.load(Ordering::Acquire)
    }

    /// Records whether the disk is nearly full, and wakes the threads if that has changed.
    pub(crate) fn set_low_disk(&self, low: bool) {
        if self.low_disk.swap(low, Ordering::AcqRel) != low {
            self.signal.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wake_up_during_work_is_not_lost() {
        let signal = Signal::default();
        let mut seen = 0;
        signal.wake();
        // Returns at once: a wait of an hour would time the test out.
        assert!(!signal.wait(&mut seen, Duration::from_secs(3_600)));
        assert_eq!(seen, 1);
        assert!(!signal.wait(&mut seen, Duration::ZERO));
        signal.stop();
        assert!(signal.wait(&mut seen, Duration::from_secs(3_600)));
        assert!(signal.is_stopped());
    }

    #[test]
    fn only_a_change_of_the_disk_wakes() {
        let sealing = SealingSignal::default();
        let mut wakes = Vec::new();
        for low in [false, true, true, false] {
            sealing.set_low_disk(low);
            let mut seen = 0;
            sealing.signal.wait(&mut seen, Duration::ZERO);
            wakes.push((seen, sealing.is_low_disk()));
        }
        assert_eq!(wakes, [(0, false), (1, true), (1, true), (2, false)]);
    }
}
