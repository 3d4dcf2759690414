//! Watermarks of a store: how far frames are committed, parsed, and counted in the summary.

use std::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};

use crate::position::Position;
use crate::sync::{lock, wait};

/// The watermarks of one store.
pub(crate) struct Progress {
    /// Number of changes since the start: groups that became durable or were acknowledged, and the
    /// closing of the store.
    changes: Mutex<u64>,
    changed: Condvar,
    /// All frames up to this one are parsed: only they may be sealed.
    settled: Mutex<Position>,
    /// The greatest watermark of the summary in any segment that was ever sealed.
    summarised_through: Mutex<Option<u64>>,
}

impl Progress {
    pub(crate) fn new(summarised_through: Option<u64>) -> Self {
        Progress {
            changes: Mutex::new(0),
            changed: Condvar::new(),
            settled: Mutex::new(Position::START),
            summarised_through: Mutex::new(summarised_through),
        }
    }

    /// Wakes those who [wait](Self::wait_for) for durable frames.
    pub(crate) fn note_change(&self) {
        *lock(&self.changes) += 1;
        self.changed.notify_all();
    }

    /// Calls `look` now and after each change, until it returns a value. The argument is true once
    /// `timeout` is over; then `look` must return a value.
    pub(crate) fn wait_for<T>(
        &self,
        timeout: Duration,
        mut look: impl FnMut(bool) -> Option<T>,
    ) -> Option<T> {
        let deadline = Instant::now() + timeout;
        loop {
            let seen = *lock(&self.changes);
            // Without the lock: looking takes the locks of segments.
            let left = deadline.saturating_duration_since(Instant::now());
            let found = look(left.is_zero());
            if found.is_some() || left.is_zero() {
                return found;
            }
            let changes = lock(&self.changes);
            if *changes == seen {
                drop(wait(&self.changed, changes, left));
            }
        }
    }

    pub(crate) fn settled(&self) -> Position {
        *lock(&self.settled)
    }

    /// Raises the watermark of parsing; returns whether it moved to another segment, so that one
    /// may be sealed now.
    pub(crate) fn settle(&self, position: Position) -> bool {
        let mut settled = lock(&self.settled);
        let segment_changed = position.segment > settled.segment;
        *settled = position.max(*settled);
        segment_changed
    }

    pub(crate) fn summarised_through(&self) -> Option<u64> {
        *lock(&self.summarised_through)
    }

    pub(crate) fn raise_summarised(&self, through: Option<u64>) {
        let mut summarised = lock(&self.summarised_through);
        *summarised = (*summarised).max(through);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn watermarks_only_rise() {
        let progress = Progress::new(Some(7));
        let at = |segment, frame| Position { segment, frame };
        assert!(progress.settle(at(1, 5)), "the first segment");
        assert!(!progress.settle(at(1, 9)));
        assert!(!progress.settle(at(1, 2)));
        assert_eq!(progress.settled(), at(1, 9));
        for (through, expected) in [(None, Some(7)), (Some(9), Some(9)), (Some(8), Some(9))] {
            progress.raise_summarised(through);
            assert_eq!(progress.summarised_through(), expected);
        }
    }

    #[test]
    fn waiting_ends_by_a_value_or_by_time() {
        let progress = Progress::new(None);
        assert_eq!(progress.wait_for(Duration::from_secs(3_600), |_| Some(1)), Some(1));
        assert_eq!(progress.wait_for(Duration::ZERO, |over| over.then_some(2)), Some(2));
        let mut looks = 0;
        let found = progress.wait_for(Duration::from_secs(3_600), |_| {
            looks += 1;
            if looks == 1 {
                progress.note_change();
            }
            (looks == 2).then_some(())
        });
        assert_eq!(found, Some(()), "a change while looking is not lost");
    }
}
