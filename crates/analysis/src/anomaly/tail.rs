//! The distribution of one magnitude, with attention to its upper tail.
//!
//! A [`Tail`] is a histogram over logarithmic buckets, as in DDSketch (Masson, Rim and Lee, 2019):
//! the relative error of a value is bounded whatever its unit, and the memory is fixed. Above the
//! rarest [`TAIL_SHARE`] of the values, probabilities come from an exponential fitted to the
//! excesses, as in the peaks-over-threshold method (Siffer et al., "Anomaly Detection in Streams
//! with Extreme Value Theory", 2017).
//!
//! Invariants: counts are not negative; `total` is `zeros` plus all buckets, up to rounding.

use serde::{Deserialize, Serialize};

/// Buckets of a tail: with [`BUCKETS_PER_OCTAVE`], a factor of 65,536 from the lowest to the
/// highest. Smaller and larger values count in the outermost buckets.
const BUCKETS: usize = 64;

/// Buckets for each doubling of the value: neighbouring bounds differ by a fifth.
const BUCKETS_PER_OCTAVE: f64 = 4.0;

/// Where the fitted tail starts among the buckets, after they were moved. Above lie four octaves,
/// so an outlier counts as at most 16 times the value at which the tail starts; below lie twelve.
const START: usize = 48;
/// Where the fitted tail may start before the buckets are moved.
const STARTS: std::ops::RangeInclusive<usize> = START - 8..=START + 4;

/// At this many values, all counts are halved, so that old values fade and counts stay exact in 32
/// bits of floating point.
const VALUES_MAX: f32 = 4096.0;

/// Values before the first probability is given.
const VALUES_MIN: f32 = 50.0;

/// Share of the values in the fitted tail, and the least number of them.
const TAIL_SHARE: f32 = 0.02;
const TAIL_VALUES_MIN: f32 = 8.0;

/// Mean excess of the fitted tail, at least this share of where the tail starts: the resolution
/// of the buckets, which keeps a constant series from infinite surprise.
const EXCESS_MIN: f64 = 0.05;

/// Limit of [`Tail::surprise`]. One kind of evidence can make an anomaly alone, but cannot make it
/// as large as several do.
const SURPRISE_MAX: f64 = 16.0;

/// A sketch of the magnitudes seen, in about 280 bytes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Tail {
    /// Counts by bucket, the lowest first.
    #[serde(with = "crate::anomaly::boxed")]
    counts: Box<[f32; BUCKETS]>,
    /// Index on the logarithmic scale of the first bucket; `None` until a value above zero comes.
    lowest: Option<i32>,
    zeros: f32,
    total: f32,
}

impl Tail {
    /// A tail that has seen nothing.
    pub fn new() -> Self {
        Self { counts: Box::new([0.0; BUCKETS]), lowest: None, zeros: 0.0, total: 0.0 }
    }

    /// Counts a magnitude. What is not above zero counts as zero.
    pub fn add(&mut self, value: f64) {
        self.total += 1.0;
        match index(value) {
            None => self.zeros += 1.0,
            Some(index) => {
                let lowest = self.lowest.get_or_insert(index.saturating_sub(START as i32));
                let position = usize::try_from(index.saturating_sub(*lowest)).unwrap_or(0);
                self.counts[position.min(BUCKETS - 1)] += 1.0;
            }
        }
        if self.total >= VALUES_MAX {
            self.counts.iter_mut().for_each(|count| *count /= 2.0);
            self.zeros /= 2.0;
            self.total /= 2.0;
        }
        if let (Some(start), _) = self.tail_start() {
            self.move_buckets(start);
        }
    }

    /// How rare a magnitude of at least `value` is: `-log10` of its probability, from 0 to 16. Zero
    /// until 50 values were counted.
    pub fn surprise(&self, value: f64) -> f64 {
        let Some(index) = index(value) else { return 0.0 };
        if self.total < VALUES_MIN {
            return 0.0;
        }
        let (start, above) = self.tail_start();
        let start_index = start.map(|position| self.index_of(position));
        if start_index.is_some_and(|start| index < start) {
            return rarity(self.count_above(value, index), self.total);
        }
        if start_index == Some(index) {
            return rarity(above, self.total);
        }
        let from = start_index.map_or(0.0, lower_bound);
        let excesses = start.map_or(0, |position| position + 1)..self.counts.len();
        let excess: f64 = excesses
            .map(|position| {
                f64::from(self.counts[position]) * (middle(self.index_of(position)) - from)
            })
            .sum();
        let mean_excess = (excess / f64::from(above.max(1.0))).max(EXCESS_MIN * from);
        let beyond = (value - from) / mean_excess.max(f64::MIN_POSITIVE);
        (rarity(above, self.total) + beyond * std::f64::consts::LOG10_E).min(SURPRISE_MAX)
    }

    /// The magnitude that a share of `share` of the values exceed, by the resolution of the
    /// buckets.
    pub fn upper_quantile(&self, share: f64) -> f64 {
        let wanted = f64::from(self.total) * share;
        let mut above = 0.0;
        for position in (0..self.counts.len()).rev() {
            above += f64::from(self.counts[position]);
            if above > wanted {
                return lower_bound(self.index_of(position) + 1);
            }
        }
        0.0
    }

    /// Position of the bucket at which the fitted tail starts, and the values from there on; `None`
    /// when even all values above zero are fewer.
    fn tail_start(&self) -> (Option<usize>, f32) {
        let wanted = (self.total * TAIL_SHARE).max(TAIL_VALUES_MIN);
        let mut above = 0.0;
        for position in (0..self.counts.len()).rev() {
            above += self.counts[position];
            if above >= wanted {
                return (Some(position), above);
            }
        }
        (None, above)
    }

    /// Values above `value`, whose bucket has this index; those of a bucket lie evenly in it.
    fn count_above(&self, value: f64, index: i32) -> f32 {
        let position = usize::try_from(index.saturating_sub(self.index_of(0))).unwrap_or(0);
        let above: f32 = self.counts.iter().skip(position + 1).sum();
        let (from, to) = (lower_bound(index), lower_bound(index.saturating_add(1)));
        let share = ((to - value) / (to - from)).clamp(0.0, 1.0) as f32;
        above + share * self.counts.get(position).unwrap_or(&0.0)
    }

    /// Index on the scale of the bucket at `position`.
    fn index_of(&self, position: usize) -> i32 {
        self.lowest.unwrap_or(0).saturating_add(position as i32)
    }

    /// Moves the buckets along the scale so that the fitted tail starts where it should.
    fn move_buckets(&mut self, start: usize) {
        if STARTS.contains(&start) {
            return;
        }
        let lowest = self.lowest.unwrap_or(0);
        if start > START {
            let up = start - START;
            let merged: f32 = self.counts[..=up].iter().sum();
            self.counts.copy_within(up.., 0);
            self.counts[BUCKETS - up..].fill(0.0);
            self.counts[0] = merged;
            self.lowest = Some(lowest.saturating_add(up as i32));
        } else {
            // The values of the first bucket may be smaller still, so they stay there.
            let down = START - start;
            let merged: f32 = self.counts[BUCKETS - 1 - down..].iter().sum();
            self.counts.copy_within(1..BUCKETS - down, 1 + down);
            self.counts[1..=down].fill(0.0);
            self.counts[BUCKETS - 1] = merged;
            self.lowest = Some(lowest.saturating_sub(down as i32));
        }
    }
}

/// Index of the bucket of a value above zero. Below the smallest normal number, a value is zero.
fn index(value: f64) -> Option<i32> {
    let counts = value >= f64::MIN_POSITIVE && value.is_finite();
    counts.then(|| (value.log2() * BUCKETS_PER_OCTAVE).floor() as i32)
}

fn lower_bound(index: i32) -> f64 {
    (f64::from(index) / BUCKETS_PER_OCTAVE).exp2()
}

fn middle(index: i32) -> f64 {
    ((f64::from(index) + 0.5) / BUCKETS_PER_OCTAVE).exp2()
}

/// `-log10` of the share, with one value added to both so that it is never infinite.
fn rarity(count: f32, total: f32) -> f64 {
    -f64::from((count + 1.0) / (total + 1.0)).log10().min(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tail(values: impl IntoIterator<Item = f64>) -> Tail {
        let mut tail = Tail::new();
        values.into_iter().for_each(|value| tail.add(value));
        tail
    }

    #[test]
    fn surprise_is_the_logarithm_of_the_share() {
        let tail = tail((1..=1_000).map(f64::from));
        for (value, share) in [(1.0, 1.0), (300.0, 0.7), (500.0, 0.5), (800.0, 0.2)] {
            let surprise = tail.surprise(value);
            assert!((surprise + f64::log10(share)).abs() < 0.05, "{value}: {surprise}");
        }
        // Within the bucket in which the fitted tail starts, a value counts as its least one.
        assert!(tail.surprise(970.0) < 1.0);
        let mut before = 0.0;
        for value in (0..4_000).map(f64::from) {
            let surprise = tail.surprise(value);
            assert!(surprise >= before, "{value}: {surprise} after {before}");
            before = surprise;
        }
        assert_eq!(tail.surprise(1e12), SURPRISE_MAX);
        assert_eq!([tail.surprise(0.0), tail.surprise(-1.0), tail.surprise(f64::NAN)], [0.0; 3]);
    }

    #[test]
    fn the_unit_does_not_matter() {
        let values = |unit: f64| tail((0..600).map(|i| f64::from(i * i % 97) * unit));
        let (small, large) = (values(f64::exp2(-80.0)), values(f64::exp2(80.0)));
        for value in [3.0, 50.0, 96.0, 120.0, 1e6] {
            let surprises = [(&small, -80.0), (&large, 80.0)]
                .map(|(tail, unit)| tail.surprise(value * f64::exp2(unit)));
            assert_eq!(surprises[0], surprises[1], "{value}");
        }
    }

    #[test]
    fn an_outlier_does_not_hide_the_others() {
        let mut tail = tail((0..500).map(|i| 10.0 + f64::from(i % 10)));
        let before = tail.surprise(40.0);
        tail.add(1e300);
        assert!(tail.surprise(40.0) > 0.7 * before, "{before}, then {}", tail.surprise(40.0));
        assert!(tail.upper_quantile(0.01) < 30.0);
    }

    #[test]
    fn quantiles_are_bounds_of_buckets() {
        let tail = tail((1..=1_000).map(f64::from));
        for (share, exact) in [(0.5, 500.0), (0.1, 900.0), (0.01, 990.0)] {
            let quantile = tail.upper_quantile(share);
            assert!((exact..exact * 1.2).contains(&quantile), "{share}: {quantile}");
        }
        assert_eq!(Tail::new().upper_quantile(0.01), 0.0);
    }

    #[test]
    fn old_values_fade_and_few_say_nothing() {
        assert_eq!(tail([1.0; 49]).surprise(1e9), 0.0);
        assert!(tail([1.0; 50]).surprise(1e9) > 1.0);
        assert!(tail([0.0; 50]).surprise(1.0) > 1.0);
        let faded = tail((0..1_000).map(|_| 100.0).chain((0..20_000).map(|_| 1.0)));
        assert!(faded.surprise(100.0) > 2.0, "{}", faded.surprise(100.0));
        assert!(faded.total <= VALUES_MAX);
    }
}
