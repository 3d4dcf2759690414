//! `stddev(a, b)`: standard deviation of the numbers in the fields: of the population, not of a
//! sample; `NaN` if there are no numbers.
//!
//! Computed in one pass from the running mean and sum of squares (B. P. Welford 1962); workers are
//! merged by the formula of Chan, Golub and LeVeque 1979. A large mean therefore loses no digits.

use super::aggregate::{Aggregate, Input, PerGroup, VectorRows};
use super::call::FieldsFunction;
use crate::base::number::{parse_quantity, write_number};
use crate::base::partial_state::{Decoder, Encoder};
use crate::base::{Meter, RunError};
use crate::block::Scratch;
use crate::lang::pipe::operator::Documentation;

pub(super) static STDDEV: FieldsFunction = FieldsFunction::new(
    Documentation {
        name: "stddev",
        aliases: &[],
        syntax: "stddev(<field>, …)",
        summary: "computes the standard deviation of the numbers",
        example: "stddev(took) s",
    },
    |call| PerGroup::boxed(Stddev, &call.looked_at()),
);

pub(super) struct Stddev;

#[derive(Default)]
pub(super) struct Moments {
    count: u64,
    mean: f64,
    /// Sum of the squares of the distances from the mean.
    squares: f64,
}

impl Moments {
    #[inline]
    fn add(&mut self, number: f64) {
        self.count += 1;
        let before = number - self.mean;
        self.mean += before / self.count as f64;
        self.squares += before * (number - self.mean);
    }

    fn merge(&mut self, other: Moments) {
        if self.count == 0 || other.count == 0 {
            if self.count == 0 {
                *self = other;
            }
            return;
        }
        let (own, others) = (self.count as f64, other.count as f64);
        let apart = other.mean - self.mean;
        self.count += other.count;
        self.mean += apart * others / (own + others);
        self.squares += other.squares + apart * apart * own * others / (own + others);
    }
}

impl Aggregate for Stddev {
    type State = Moments;

    #[inline]
    fn add(
        &mut self,
        moments: &mut Moments,
        input: &Input<'_>,
        row: usize,
        scratch: &mut Scratch,
        _meter: &mut Meter,
    ) -> Result<(), RunError> {
        input.each(row, scratch, |value| {
            if let Some(number) = parse_quantity(value) {
                moments.add(number);
            }
            Ok(())
        })
    }

    const TAKES_VECTORS: bool = true;

    fn add_vector(
        &mut self,
        states: &mut [Self::State],
        rows: &VectorRows<'_>,
        _meter: &mut Meter,
    ) -> Result<(), RunError> {
        rows.each_number(|group, number| {
            states[group].add(number);
            Ok(())
        })
    }

    fn merge(
        &mut self,
        moments: &mut Moments,
        other: Moments,
        _meter: &mut Meter,
    ) -> Result<(), RunError> {
        moments.merge(other);
        Ok(())
    }

    fn encode(&self, state: &Self::State, out: &mut Encoder<'_>) -> Result<(), RunError> {
        out.number(state.count)?;
        out.float(state.mean)?;
        out.float(state.squares)
    }

    fn decode(&self, from: &mut Decoder<'_>, _meter: &mut Meter) -> Result<Self::State, RunError> {
        let count = from.count()?;
        Ok(Moments { count, mean: from.float()?, squares: from.float()? })
    }

    fn write(&self, moments: &mut Moments, _seconds: Option<f64>, out: &mut Vec<u8>) {
        write_number((moments.squares / moments.count as f64).sqrt(), out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lang::pipe::tests::check;

    #[test]
    fn deviations() {
        check("b | stats stddev(size) s", &["s=0"]);
        check(
            "a or b | stats stddev(size) s, stddev(none) t, stddev(si*) u",
            &["s=0.5 t=NaN u=0.5"],
        );
    }

    #[test]
    fn workers_find_the_same_far_from_zero() {
        let numbers: Vec<f64> = (0..1000).map(|i| 1e9 + f64::from(i % 10)).collect();
        let of = |numbers: &[f64]| {
            let mut moments = Moments::default();
            numbers.iter().for_each(|n| moments.add(*n));
            moments
        };
        let deviation = |m: &Moments| (m.squares / m.count as f64).sqrt();
        let mut merged = Moments::default();
        for part in numbers.chunks(7) {
            merged.merge(of(part));
        }
        merged.merge(Moments::default());
        let expected = 8.25f64.sqrt();
        assert!((deviation(&of(&numbers)) - expected).abs() < 1e-6);
        assert!((deviation(&merged) - expected).abs() < 1e-6);
    }
}
