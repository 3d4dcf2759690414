//! The distribution of a field with numbers, on both sides.

use std::collections::BTreeMap;

use super::score::score;
use crate::base::partial_state::{Decoder, Encoder, wrong_state};
use crate::base::{Meter, RunError};

/// Ratio of the ends of a bucket: quantiles are exact up to 1 %.
const BUCKET_RATIO: f64 = 1.02;
/// Greatest index of a bucket: that of the greatest finite number.
const BUCKET_MAX: i32 = 36_000;
/// The bucket of 1, so that numbers near 0 have buckets above 0 too.
const BUCKET_OF_ONE: i32 = BUCKET_MAX + 1;
/// Memory of a bucket, with its share of the tree.
const BUCKET_BYTES: usize = 48;
/// Quantiles that are compared. Of the upper ones, rows above are counted; of the lower ones, rows
/// below.
pub(super) const QUANTILES: [f64; 5] = [0.01, 0.1, 0.5, 0.9, 0.99];
/// The least ratio of a quantile between the sides that is a difference.
const SHIFT_MIN: f64 = 1.25;

/// Rows of both sides by logarithmic buckets of the number.
#[derive(Default)]
pub(super) struct Numbers {
    buckets: BTreeMap<i32, [u64; 2]>,
}

/// How the numbers of a field moved.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Shift {
    /// The quantile with the highest score.
    pub quantile: f64,
    /// The quantile of the other rows.
    pub from: f64,
    /// The quantile of the selected rows.
    pub to: f64,
    /// Rows of both sides beyond `from`.
    pub beyond: [u64; 2],
    /// Expected number of selected rows beyond `from`.
    pub expected: f64,
    /// See [`score`]; its sign is that of the move.
    pub score: f64,
}

/// The bucket of a number.
fn bucket_of(number: f64) -> i32 {
    if number == 0.0 {
        return 0;
    }
    let place = (number.abs().ln() / BUCKET_RATIO.ln()).floor();
    let place = place.clamp(f64::from(-BUCKET_MAX), f64::from(BUCKET_MAX)) as i32;
    if number > 0.0 { BUCKET_OF_ONE + place } else { -(BUCKET_OF_ONE + place) }
}

/// The middle of a bucket, with three digits: more would be noise.
fn number_of(bucket: i32) -> f64 {
    if bucket == 0 {
        return 0.0;
    }
    let place = f64::from(bucket.abs() - BUCKET_OF_ONE);
    let number = BUCKET_RATIO.powf(place + 0.5).min(f64::MAX);
    let rounded = format!("{number:.2e}").parse().unwrap_or(number);
    if bucket > 0 { rounded } else { -rounded }
}

impl Numbers {
    /// Counts a number, which is finite.
    pub fn push(&mut self, side: usize, number: f64, meter: &mut Meter) -> Result<(), RunError> {
        self.bucket(bucket_of(number), meter).map(|rows| rows[side] += 1)
    }

    fn bucket(&mut self, bucket: i32, meter: &mut Meter) -> Result<&mut [u64; 2], RunError> {
        if !self.buckets.contains_key(&bucket) {
            meter.take(BUCKET_BYTES)?;
        }
        Ok(self.buckets.entry(bucket).or_default())
    }

    pub fn merge(&mut self, other: Numbers, meter: &mut Meter) -> Result<(), RunError> {
        for (bucket, rows) in other.buckets {
            let own = self.bucket(bucket, meter)?;
            (own[0], own[1]) = (own[0] + rows[0], own[1] + rows[1]);
            meter.give_back(BUCKET_BYTES);
        }
        Ok(())
    }

    /// Format: the number of buckets, then each with the rows of both sides.
    pub fn encode(&self, out: &mut Encoder<'_>) -> Result<(), RunError> {
        out.number(self.buckets.len() as u64)?;
        for (bucket, rows) in &self.buckets {
            out.number(i64::from(*bucket) as u64)?;
            rows.iter().try_for_each(|rows| out.number(*rows))?;
        }
        Ok(())
    }

    pub fn decode(from: &mut Decoder<'_>, meter: &mut Meter) -> Result<Numbers, RunError> {
        let mut numbers = Numbers::default();
        for _ in 0..from.length(3 * size_of::<u64>())? {
            let bucket = i32::try_from(from.number()? as i64).ok();
            let bucket = bucket.filter(|bucket| bucket.abs() <= 2 * BUCKET_MAX + 1);
            let bucket = bucket.ok_or_else(|| wrong_state("a bucket is out of range"))?;
            if numbers.buckets.contains_key(&bucket) {
                return Err(wrong_state("a bucket comes twice"));
            }
            *numbers.bucket(bucket, meter)? = [from.count()?, from.count()?];
        }
        Ok(numbers)
    }

    /// Rows with numbers, of both sides.
    pub fn rows(&self) -> [u64; 2] {
        [0, 1].map(|side| self.buckets.values().map(|rows| rows[side]).sum())
    }

    fn quantile(&self, side: usize, quantile: f64, rows: u64) -> Option<i32> {
        let rank = (quantile * rows as f64).ceil().max(1.0) as u64;
        let mut before = 0;
        self.buckets.iter().find_map(|(&bucket, rows)| {
            before += rows[side];
            (before >= rank).then_some(bucket)
        })
    }

    /// How the numbers of the selected side moved against those of the other side; none if there
    /// are no numbers on a side, or they moved by less than [`SHIFT_MIN`].
    pub fn shift(&self) -> Option<Shift> {
        let [others, selected] = self.rows();
        let shifts = QUANTILES.iter().filter_map(|&quantile| {
            let from = self.quantile(0, quantile, others)?;
            let to = self.quantile(1, quantile, selected)?;
            let mut beyond = [0; 2];
            for (&bucket, rows) in &self.buckets {
                if (to > from && bucket > from) || (to < from && bucket < from) {
                    (beyond[0], beyond[1]) = (beyond[0] + rows[0], beyond[1] + rows[1]);
                }
            }
            let expected = beyond[0] as f64 / others as f64 * selected as f64;
            let ratio = selected as f64 / others as f64;
            let size = score(beyond.map(|rows| rows as f64), ratio);
            let score = if to < from { -size } else { size };
            let (from, to) = (number_of(from), number_of(to));
            let (near, far) = (from.abs().min(to.abs()), from.abs().max(to.abs()));
            // Towards the middle of the numbers: fewer rows beyond are no move of the quantile.
            let moved = size > 0.0 && (near == 0.0 || far / near >= SHIFT_MIN || from * to < 0.0);
            moved.then_some(Shift { quantile, from, to, beyond, expected, score })
        });
        shifts.max_by(|a, b| a.score.abs().total_cmp(&b.score.abs()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lang::context::Context;

    fn numbers(sides: [&dyn Fn(u32) -> f64; 2]) -> Numbers {
        let mut meter = Context::default().meter();
        let mut numbers = Numbers::default();
        for (side, number) in sides.iter().enumerate() {
            (0..1_000).for_each(|n| numbers.push(side, number(n), &mut meter).unwrap());
        }
        numbers
    }

    #[test]
    fn buckets_tell_numbers_apart() {
        for number in [1e-300, 0.001, 1.0, 9.5, 80.0, 1e9, 1e300] {
            for number in [number, -number] {
                let near = number_of(bucket_of(number));
                assert!((near / number - 1.0).abs() < 0.02, "{number}: {near}");
            }
        }
        assert_eq!(number_of(bucket_of(0.0)), 0.0);
        assert!(bucket_of(f64::MAX) <= 2 * BUCKET_MAX + 1 && bucket_of(5e-324) > 0);
        let ordered = [-1e9, -1.0, -1e-9, 0.0, 1e-9, 1.0, 1e9];
        assert!(ordered.map(bucket_of).is_sorted_by(|a, b| a < b));
    }

    #[test]
    fn a_slow_tail_is_found() {
        // One request in 20 takes nine times longer; the others are as before.
        let shift = numbers([&|n| f64::from(80 + n % 20), &|n| {
            f64::from(80 + n % 20) * if n % 20 == 0 { 9.0 } else { 1.0 }
        }]);
        let shift = shift.shift().unwrap();
        assert_eq!((shift.quantile, shift.beyond), (0.99, [0, 50]));
        assert!((shift.from - 99.0).abs() < 2.0 && (shift.to - 720.0).abs() < 8.0, "{shift:?}");
        assert!(shift.score > 3.0);
    }

    #[test]
    fn numbers_that_fall_are_found_and_equal_ones_are_not() {
        let fell = numbers([&|n| f64::from(1_000 + n), &|n| f64::from(10 + n % 10)]).shift();
        let fell = fell.unwrap();
        assert!(fell.score < -3.0 && fell.to < fell.from, "{fell:?}");
        let same = numbers([&|n| f64::from(n), &|n| f64::from(999 - n)]);
        assert_eq!(same.shift(), None);
        assert_eq!(Numbers::default().shift(), None);
    }
}
