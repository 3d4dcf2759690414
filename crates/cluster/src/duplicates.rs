//! Recognises frames that are in a partition twice, because their producer repeated an append whose
//! answer was lost.
//!
//! A producer has several frames under way in a partition at a time. When one of them fails, those
//! behind it may be in the log already, and the failed one follows later, or has been there all
//! along. So the last number of a producer is not enough to know which of its frames are there.
//!
//! The rule that makes a bounded memory exact: a producer appends a frame, for the first time or
//! again, only while no frame of it in this partition has a number that is more than
//! [`APPEND_WINDOW`] greater (`collector/src/node/log_lane.rs`). Of a frame that is further below
//! the last number, a reader knows that it was acknowledged, or given up, before that last number
//! was appended: it is a copy. For the numbers within the window, a bit each says whether they were
//! seen.
//!
//! The catalog has this state for every producer at the offset where the next owner of the
//! partition resumes.

use std::collections::BTreeMap;

use record::frame::APPEND_WINDOW;

use crate::ids::NodeId;

/// Which frames of one producer a partition has up to some offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// The greatest number.
    pub last: u64,
    /// Bit `i` says whether the number `last - 1 - i` was seen.
    pub before: u64,
}

const _: () = assert!(APPEND_WINDOW == u64::BITS as u64);

impl Seen {
    /// The first frame of a producer. Frames below it may follow.
    pub fn first(number: u64) -> Seen {
        Seen { last: number, before: 0 }
    }

    /// Whether the frame is new; then it counts as seen.
    pub fn take(&mut self, number: u64) -> bool {
        if number > self.last {
            let up = number - self.last;
            let shift = |bits: u64, by: u64| match by < APPEND_WINDOW {
                true => bits << by,
                false => 0,
            };
            // The former last number is `up` below the new one, which is bit `up - 1`.
            self.before = shift(self.before, up) | shift(1, up - 1);
            self.last = number;
            return true;
        }
        let below = self.last - number;
        if below == 0 || below > APPEND_WINDOW {
            return false;
        }
        let bit = 1 << (below - 1);
        let is_new = self.before & bit == 0;
        self.before |= bit;
        is_new
    }
}

/// Which frames of all producers a partition has up to some offset.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Duplicates {
    seen: BTreeMap<NodeId, Seen>,
}

impl Duplicates {
    /// Resumes behind the frames that the catalog knows of.
    pub fn new(producers: &[(NodeId, Seen)]) -> Duplicates {
        Duplicates { seen: producers.iter().copied().collect() }
    }

    /// Whether the frame is new; then it counts as seen.
    pub fn is_new(&mut self, node: NodeId, number: u64) -> bool {
        match self.seen.get_mut(&node) {
            Some(seen) => seen.take(number),
            None => {
                self.seen.insert(node, Seen::first(number));
                true
            }
        }
    }

    /// What is known of one producer.
    pub fn of(&self, node: NodeId) -> Option<Seen> {
        self.seen.get(&node).copied()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeSet, VecDeque};

    use super::*;

    #[test]
    fn numbers_within_the_window_are_known_one_by_one() {
        let check = |numbers: &[u64], expected: &[bool]| {
            let mut duplicates = Duplicates::default();
            let found: Vec<bool> =
                numbers.iter().map(|number| duplicates.is_new(NodeId(7), *number)).collect();
            assert_eq!(found, expected, "{numbers:?}");
        };
        check(&[5, 5], &[true, false]);
        check(&[5, 4, 4, 6, 5, 4], &[true, true, false, true, false, false]);
        // A gap that is filled later.
        check(&[1, 3, 4, 2, 3], &[true, true, true, true, false]);
        // The window ends 64 below the last number.
        check(&[100, 36, 36, 35], &[true, true, false, false]);
        check(&[36, 100, 36, 37], &[true, true, false, true]);
        check(&[36, 101, 36, 37], &[true, true, false, true]);
        check(&[1, u64::MAX, 1, u64::MAX - 64, u64::MAX - 64], &[true, true, false, true, false]);
    }

    /// A producer that obeys the rule, over a log that stores or loses what it likes and repeats
    /// old calls, beside a reader that remembers every number.
    #[test]
    fn the_window_knows_as_much_as_a_reader_that_remembers_everything() {
        for seed in 0..300 {
            let mut random = fastrand::Rng::with_seed(seed);
            let (mut waiting, mut next) = (VecDeque::new(), 0);
            let mut duplicates = Duplicates::default();
            let mut all = BTreeSet::new();
            let mut late: Vec<u64> = Vec::new();
            for _ in 0..2000 {
                while waiting.len() < 100 {
                    let gap_max = if random.u8(..50) == 0 { 100 } else { 2 };
                    next += random.u64(1..=gap_max);
                    waiting.push_back(next);
                }
                let oldest = waiting[0];
                let reach = waiting.iter().take_while(|n| **n - oldest <= APPEND_WINDOW).count();
                let index = if random.bool() { 0 } else { random.usize(..reach) };
                let number = waiting[index];
                if random.u8(..4) > 0 {
                    assert_eq!(duplicates.is_new(NodeId(1), number), all.insert(number), "{seed}");
                    if random.bool() {
                        waiting.remove(index);
                    }
                    late.push(number);
                }
                // A copy that the network kept, of a frame that was stored.
                if random.u8(..10) == 0 && !late.is_empty() {
                    let number = late[random.usize(..late.len())];
                    assert!(!duplicates.is_new(NodeId(1), number), "{seed}: {number}");
                }
            }
        }
    }
}
