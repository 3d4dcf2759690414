//! A set of numbers that arrive nearly in order, stored as ranges: the frames that a store has of
//! another node.

use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Included};

/// A set of numbers. Memory grows with the number of gaps, not of numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Numbers {
    /// First to last, both inclusive; neither overlapping nor adjacent.
    ranges: BTreeMap<u64, u64>,
}

impl Numbers {
    /// An empty set.
    pub fn new() -> Self {
        Numbers::default()
    }

    /// Adds a number.
    pub fn insert(&mut self, number: u64) {
        self.insert_range(number, number);
    }

    /// Adds the numbers from `first` to `last`, both inclusive; does nothing if `last` is smaller.
    pub fn insert_range(&mut self, first: u64, last: u64) {
        if last < first {
            return;
        }
        let (mut first, mut last) = (first, last);
        // Ranges that overlap or touch are merged into this one, from the greatest down.
        while let Some((&start, &end)) = self.ranges.range(..=last.saturating_add(1)).next_back()
            && end >= first.saturating_sub(1)
        {
            self.ranges.remove(&start);
            (first, last) = (first.min(start), last.max(end));
        }
        self.ranges.insert(first, last);
    }

    /// Removes the lowest ranges that end below `first`, until `ranges_max` are left; never the
    /// greatest range.
    pub fn forget_below(&mut self, first: u64, ranges_max: usize) {
        while self.ranges.len() > ranges_max.max(1)
            && let Some(lowest) = self.ranges.first_entry()
            && *lowest.get() < first
        {
            lowest.remove();
        }
    }

    /// Whether the set contains a number.
    pub fn contains(&self, number: u64) -> bool {
        self.ranges.range(..=number).next_back().is_some_and(|(_, &last)| number <= last)
    }

    /// The last number of the gapless range from `first` on; `None` if `first` is not in the set.
    pub fn through(&self, first: u64) -> Option<u64> {
        let (_, &last) = self.ranges.range(..=first).next_back()?;
        (first <= last).then_some(last)
    }

    /// The greatest number.
    pub fn greatest(&self) -> Option<u64> {
        self.ranges.values().next_back().copied()
    }

    /// The smallest number.
    pub fn smallest(&self) -> Option<u64> {
        self.ranges.keys().next().copied()
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// How many numbers the set contains.
    pub fn count(&self) -> u64 {
        self.ranges()
            .map(|(first, last)| last - first)
            .fold(0, |sum: u64, more| sum.saturating_add(more).saturating_add(1))
    }

    /// The numbers of this set that `other` does not contain.
    pub fn without(&self, other: &Numbers) -> Numbers {
        let mut left = Numbers::new();
        for (first, last) in self.ranges() {
            let mut next = Some(first);
            let around = other.ranges.range(..=first).next_back();
            let within = other.ranges.range((Excluded(first), Included(last)));
            for (&start, &end) in around.into_iter().chain(within) {
                let Some(at) = next.filter(|at| *at <= end) else { continue };
                if at < start {
                    left.insert_range(at, start - 1);
                }
                next = end.checked_add(1);
            }
            if let Some(at) = next {
                left.insert_range(at, last);
            }
        }
        left
    }

    /// The numbers that both sets contain.
    pub fn common(&self, other: &Numbers) -> Numbers {
        self.without(&self.without(other))
    }

    /// Adds all numbers of `other`.
    pub fn insert_all(&mut self, other: &Numbers) {
        other.ranges().for_each(|(first, last)| self.insert_range(first, last));
    }

    /// Ranges from first to last, both inclusive, in order.
    pub fn ranges(&self) -> impl ExactSizeIterator<Item = (u64, u64)> + '_ {
        self.ranges.iter().map(|(&first, &last)| (first, last))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn agrees_with_a_set() {
        let mut random = fastrand::Rng::with_seed(3);
        for _ in 0..200 {
            let mut numbers = Numbers::new();
            let mut naive = BTreeSet::new();
            for _ in 0..40 {
                let first = random.u64(0..60);
                let last = (first + random.u64(0..6)).saturating_sub(random.u64(0..3));
                numbers.insert_range(first, last);
                naive.extend(first..=last);
                for number in 0..70 {
                    assert_eq!(numbers.contains(number), naive.contains(&number));
                    let through = (number..).take_while(|n| naive.contains(n)).last();
                    assert_eq!(numbers.through(number), through);
                }
                assert_eq!(numbers.greatest(), naive.last().copied());
                let ranges: Vec<_> = numbers.ranges().collect();
                assert!(ranges.windows(2).all(|w| w[0].1 + 1 < w[1].0), "{ranges:?}");
                assert_eq!(ranges.iter().map(|r| r.1 - r.0 + 1).sum::<u64>(), naive.len() as u64);
            }
        }
    }

    #[test]
    fn differences_are_those_of_sets() {
        let mut random = fastrand::Rng::with_seed(5);
        let mut draw = || {
            let (mut numbers, mut naive) = (Numbers::new(), BTreeSet::new());
            for _ in 0..random.usize(0..8) {
                let first = random.u64(0..40);
                let last = first + random.u64(0..9);
                numbers.insert_range(first, last);
                naive.extend(first..=last);
            }
            (numbers, naive)
        };
        let all = |numbers: &Numbers| -> Vec<u64> {
            numbers.ranges().flat_map(|(first, last)| first..=last).collect()
        };
        for _ in 0..2_000 {
            let ((one, naive_one), (two, naive_two)) = (draw(), draw());
            let without: Vec<u64> = naive_one.difference(&naive_two).copied().collect();
            let common: Vec<u64> = naive_one.intersection(&naive_two).copied().collect();
            assert_eq!(all(&one.without(&two)), without);
            assert_eq!(all(&one.common(&two)), common);
            let mut both = one.clone();
            both.insert_all(&two);
            assert_eq!(all(&both), naive_one.union(&naive_two).copied().collect::<Vec<_>>());
            assert_eq!(one.count(), naive_one.len() as u64);
            assert_eq!(one.smallest(), naive_one.first().copied());
            assert_eq!(one.is_empty(), naive_one.is_empty());
        }
    }

    #[test]
    fn the_lowest_ranges_are_forgotten_first() {
        let check = |first: u64, ranges_max: usize, expected: &[(u64, u64)]| {
            let mut numbers = Numbers::new();
            for (first, last) in [(1, 2), (4, 6), (8, 9)] {
                numbers.insert_range(first, last);
            }
            numbers.forget_below(first, ranges_max);
            assert_eq!(numbers.ranges().collect::<Vec<_>>(), expected);
        };
        check(100, 3, &[(1, 2), (4, 6), (8, 9)]);
        check(100, 2, &[(4, 6), (8, 9)]);
        check(100, 0, &[(8, 9)]);
        check(6, 1, &[(4, 6), (8, 9)]);
        check(2, 1, &[(1, 2), (4, 6), (8, 9)]);
    }

    #[test]
    fn the_ends_of_the_range() {
        let mut numbers = Numbers::new();
        numbers.insert(u64::MAX);
        numbers.insert(0);
        numbers.insert_range(0, u64::MAX - 2);
        assert!(!numbers.contains(u64::MAX - 1));
        numbers.insert(u64::MAX - 1);
        assert_eq!(numbers.ranges().collect::<Vec<_>>(), [(0, u64::MAX)]);
        assert_eq!(numbers.count(), u64::MAX);
        assert!(numbers.without(&numbers).is_empty());
        assert_eq!(numbers.common(&numbers), numbers);
    }
}
