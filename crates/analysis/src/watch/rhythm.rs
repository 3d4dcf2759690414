//! Bursts at equal distances: a job that runs every quarter of an hour.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

/// Equal distances in a row that make a rhythm. Bursts by chance with a mean distance of five
/// intervals are so regular once in a hundred million times.
const GAPS: usize = 8;
/// Least distance of two bursts, in intervals: closer ones are no bursts but a course.
const PERIOD_MIN: i64 = 4;
/// From this period on, a burst may come one interval early or late, and a tenth of longer ones.
const LOOSE_PERIOD_MIN: i64 = 8;
/// A burst has at least so many times the usual number, and so many more.
const BURST_RATIO: f64 = 3.0;
const BURST_MORE: f64 = 5.0;
/// After so many periods without a burst, the rhythm is over.
const FORGOTTEN_PERIODS: i64 = 10;

/// What the rhythm of a series does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Beat {
    /// Nothing that is new.
    None,
    /// A burst when one was due.
    OnTime,
    /// Bursts come at equal distances since the interval `since`, and did not before.
    Begins { since: i64 },
    /// A burst is missing; the last one came in the interval `last`.
    Missing { last: i64 },
}

/// The last bursts of a series. Times are numbers of intervals.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Rhythm {
    bursts: VecDeque<i64>,
    /// Whether the interval before belonged to a burst.
    in_burst: bool,
    /// Intervals between bursts, while there is a rhythm.
    period: Option<i64>,
    /// Lines of a burst, about.
    size: f64,
}

impl Rhythm {
    /// The distance of bursts in intervals, while they come regularly.
    pub fn period(&self) -> Option<i64> {
        self.period
    }

    /// About how many lines a burst has in its first interval.
    pub fn size(&self) -> f64 {
        self.size
    }

    /// Forgets the bursts, but not the rhythm: after a gap nobody knows whether one came.
    pub fn clear(&mut self) {
        self.bursts.clear();
        self.in_burst = false;
    }

    /// Takes the number of an interval, where `usual` was expected without a burst.
    pub fn observe(&mut self, interval: i64, value: f64, usual: f64) -> Beat {
        let is_burst = value >= BURST_RATIO * usual + BURST_MORE;
        let starts = is_burst && !self.in_burst;
        self.in_burst = is_burst;
        if !starts {
            return self.waiting(interval);
        }
        let due = self.period.zip(self.bursts.back().copied());
        let on_time = due.is_some_and(|(period, last)| {
            let late = (interval - last).rem_euclid(period);
            late.min(period - late) <= tolerance(period)
        });
        if self.bursts.len() > GAPS {
            self.bursts.pop_front();
        }
        self.bursts.push_back(interval);
        self.size += (value - self.size) / if self.size == 0.0 { 1.0 } else { 8.0 };
        if let Some(period) = self.period {
            // A job that runs at another distance from now on has a new rhythm. By the old one,
            // each of its bursts would be missing, or would be one too many, for ever.
            let is_other = |found: &i64| (found - period).abs() > tolerance(period);
            let other = self.found().filter(is_other);
            self.period = other.or(self.period);
            return if on_time { Beat::OnTime } else { Beat::None };
        }
        self.period = self.found();
        match self.period {
            Some(_) => Beat::Begins { since: self.bursts[0] },
            None => Beat::None,
        }
    }

    /// What the lack of a burst says.
    fn waiting(&mut self, interval: i64) -> Beat {
        let (Some(period), Some(&last)) = (self.period, self.bursts.back()) else {
            return Beat::None;
        };
        let waited = interval - last;
        if waited > FORGOTTEN_PERIODS * period {
            self.period = None;
            self.bursts.clear();
            return Beat::None;
        }
        match waited > period + period / 2 + tolerance(period) {
            true => Beat::Missing { last },
            false => Beat::None,
        }
    }

    /// The period of the bursts, if all distances are about equal.
    fn found(&self) -> Option<i64> {
        if self.bursts.len() <= GAPS {
            return None;
        }
        let mut gaps: Vec<i64> =
            self.bursts.iter().zip(self.bursts.iter().skip(1)).map(|(a, b)| b - a).collect();
        gaps.sort_unstable();
        let period = gaps[gaps.len() / 2];
        let allowed = tolerance(period);
        let is_even = gaps.iter().all(|gap| (gap - period).abs() <= allowed);
        (period >= PERIOD_MIN && is_even).then_some(period)
    }
}

/// How many intervals a burst may be early or late.
fn tolerance(period: i64) -> i64 {
    if period < LOOSE_PERIOD_MIN { 0 } else { (period / 10).max(1) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is said of intervals in which `burst` says where bursts are.
    fn beats(intervals: i64, burst: impl Fn(i64) -> bool) -> Vec<(i64, Beat)> {
        let mut rhythm = Rhythm::default();
        let said = (0..intervals).map(|at| {
            let value = if burst(at) { 40.0 } else { 2.0 };
            (at, rhythm.observe(at, value, 2.0))
        });
        said.filter(|(_, beat)| !matches!(beat, Beat::None | Beat::OnTime)).collect()
    }

    #[test]
    fn equal_distances_are_a_rhythm() {
        let said = beats(400, |at| at % 15 == 0 && at >= 30);
        assert_eq!(said, [(150, Beat::Begins { since: 30 })]);
        // Bursts of several intervals, which come one interval early or late by turns.
        let said = beats(400, |at| [29, 30, 31].contains(&(at % 60)) || at % 60 < 2);
        assert!(matches!(said[..], [(_, Beat::Begins { .. })]), "{said:?}");
        // Every second one is late.
        assert!(beats(2_000, |at| at % 30 == 0 || at % 30 == 11).is_empty());
        // No bursts, but a course.
        assert!(beats(400, |at| at % 3 == 0).is_empty());
    }

    #[test]
    fn a_burst_is_missing_until_it_comes_or_the_rhythm_is_forgotten() {
        let said = beats(600, |at| at % 20 == 0 && at != 300);
        let missing: Vec<i64> = said
            .iter()
            .filter(|(_, beat)| *beat == Beat::Missing { last: 280 })
            .map(|(at, _)| *at)
            .collect();
        assert_eq!(missing, (313..320).collect::<Vec<i64>>());
        let said = beats(2_000, |at| at % 20 == 0 && at <= 400);
        let last = said.last().unwrap();
        assert_eq!(*last, (600, Beat::Missing { last: 400 }));
    }

    #[test]
    fn a_rhythm_that_changes_is_the_new_one() {
        for (before, after) in [(20, 40), (40, 80)] {
            let change = 12 * before;
            let period = |at: i64| if at < change { before } else { after };
            let said = beats(change + 40 * after, |at| at % period(at) == 0);
            let missing = said.iter().filter(|(_, beat)| matches!(beat, Beat::Missing { .. }));
            let last = missing.map(|(at, _)| *at).max().expect("the old rhythm is missed");
            // The first burst of the new rhythm comes within its period, and eight more follow.
            assert!(last < change + 9 * after, "{before}, {after}: {last}");
        }
        // Bursts that come early or late by a little are the same rhythm.
        let mut rhythm = Rhythm::default();
        for at in 0..2_000 {
            let value = if at % 60 == at / 60 % 2 { 40.0 } else { 2.0 };
            rhythm.observe(at, value, 2.0);
        }
        assert!((59..=61).contains(&rhythm.period().unwrap()));
    }

    #[test]
    fn bursts_by_chance_are_none() {
        let mut random = fastrand::Rng::with_seed(7);
        for every in [5, 8, 20] {
            let bursts: Vec<bool> = (0..50_000).map(|_| random.u32(..every) == 0).collect();
            let said = beats(50_000, |at| bursts[at as usize]);
            assert!(said.is_empty(), "seed 7, one in {every}: {said:?}");
        }
    }
}
