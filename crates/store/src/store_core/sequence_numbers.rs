//! Sequence numbers of frames: which are issued, and up to which number it is decided whether each
//! frame will be stored.
//!
//! A number is issued when a frame is made, some time before the frame is durable, so frames become
//! durable in another order than that of their numbers. A reader in the order of numbers, which
//! resumes behind the last one it read, must not pass a number whose frame is still on its way. So
//! each number is *open* from its issue until its frame is durable or given up, and readers stop
//! before the first open one.
//!
//! A number without a frame is open for [`DRAWN_NS_MAX`] only. A frame that comes later still, when
//! readers have passed its number, gets another.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use crate::sync::lock;

/// Longest time between the issue of a number and its frame, monotonic nanoseconds. Making a frame
/// takes some microseconds.
const DRAWN_NS_MAX: u64 = 10_000_000_000;

/// The numbers of one store.
#[derive(Debug)]
pub(crate) struct SequenceNumbers {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    next: u64,
    /// Numbers without a frame yet, and when they were issued.
    drawn: BTreeMap<u64, u64>,
    /// Numbers of frames that are queued, and neither durable nor given up.
    entered: BTreeSet<u64>,
    /// Readers may have passed all smaller numbers.
    passed: u64,
}

/// The open number of a frame that is on its way; dropped when the frame is durable or given up.
#[derive(Debug)]
pub(crate) struct OpenNumber {
    numbers: Arc<SequenceNumbers>,
    number: u64,
}

impl OpenNumber {
    pub(crate) fn get(&self) -> u64 {
        self.number
    }
}

impl Drop for OpenNumber {
    fn drop(&mut self) {
        lock(&self.numbers.state).entered.remove(&self.number);
    }
}

impl SequenceNumbers {
    /// Issues numbers from `next` on.
    pub(crate) fn new(next: u64) -> Self {
        let (drawn, entered) = Default::default();
        SequenceNumbers { state: Mutex::new(State { next, drawn, entered, passed: 0 }) }
    }

    /// The number that will be issued next.
    pub(crate) fn next(&self) -> u64 {
        lock(&self.state).next
    }

    /// Issues a number for a frame.
    pub(crate) fn draw(&self, now_ns: u64) -> u64 {
        let mut state = lock(&self.state);
        state.forget_overdue(now_ns);
        let number = state.draw();
        state.drawn.insert(number, now_ns);
        number
    }

    /// Issues a number that no frame gets.
    pub(crate) fn mark(&self) -> u64 {
        lock(&self.state).draw()
    }

    /// Registers a frame under its number; under another one, if readers may have passed it.
    pub(crate) fn enter(self: &Arc<Self>, number: u64) -> OpenNumber {
        let mut state = lock(&self.state);
        let was_drawn = state.drawn.remove(&number).is_some();
        let number = match was_drawn || number >= state.passed {
            true => number,
            false => state.draw(),
        };
        state.next = state.next.max(number.saturating_add(1));
        state.entered.insert(number);
        OpenNumber { numbers: self.clone(), number }
    }

    /// Issues a number for a frame and registers the frame.
    pub(crate) fn draw_and_enter(self: &Arc<Self>) -> OpenNumber {
        let mut state = lock(&self.state);
        let number = state.draw();
        state.entered.insert(number);
        OpenNumber { numbers: self.clone(), number }
    }

    /// The numbers whose frames may still become durable, ascending.
    pub(crate) fn open(&self) -> Vec<u64> {
        let state = lock(&self.state);
        let mut open: Vec<u64> = state.drawn.keys().chain(&state.entered).copied().collect();
        open.sort_unstable();
        open
    }

    /// The first number for which it is not decided whether its frame will be stored.
    pub(crate) fn decided(&self, now_ns: u64) -> u64 {
        let mut state = lock(&self.state);
        state.forget_overdue(now_ns);
        let open = [state.drawn.keys().next(), state.entered.first()];
        let decided = open.into_iter().flatten().copied().min().unwrap_or(state.next);
        state.passed = state.passed.max(decided);
        decided
    }
}

impl State {
    fn draw(&mut self) -> u64 {
        self.next += 1;
        self.next - 1
    }

    fn forget_overdue(&mut self, now_ns: u64) {
        // They were issued in this order.
        while let Some(first) = self.drawn.first_entry()
            && now_ns.saturating_sub(*first.get()) > DRAWN_NS_MAX
        {
            first.remove();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readers_stop_before_what_is_on_its_way() {
        let numbers = Arc::new(SequenceNumbers::new(5));
        assert_eq!(numbers.decided(0), 5);
        assert_eq!(
            [numbers.draw(0), numbers.draw(0), numbers.mark(), numbers.draw(1)],
            [5, 6, 7, 8]
        );
        assert_eq!(numbers.open(), [5, 6, 8]);
        let later = numbers.enter(6);
        assert_eq!(numbers.open(), [5, 6, 8]);
        assert_eq!(numbers.decided(1), 5);
        let first = numbers.enter(5);
        drop(later);
        assert_eq!(numbers.decided(1), 5, "6 is durable, 5 is not");
        drop(first);
        assert_eq!(numbers.decided(1), 8);
        assert_eq!(numbers.decided(DRAWN_NS_MAX + 1), 8);
        assert_eq!(numbers.decided(DRAWN_NS_MAX + 2), 9, "its frame never came");
        let late = numbers.enter(8);
        assert_eq!((late.get(), numbers.next()), (9, 10), "readers have passed it");
        assert_eq!(numbers.draw_and_enter().get(), 10);
        assert_eq!(numbers.decided(DRAWN_NS_MAX + 2), 9);
        // A number that this store did not issue.
        let foreign = numbers.enter(90);
        assert_eq!((foreign.get(), numbers.next()), (90, 91));
    }
}
