//! `quantile(0.9, a, b)`: the number below which this share of the numbers in the fields lies;
//! `median(a, b)`: the quantile 0.5.
//!
//! Exact for up to [`QUANTILE_SAMPLES_MAX`] numbers per group. Of more, a random sample of that
//! size is kept, whose rank error is below one percentage point in 99 of 100 cases. Values that are
//! not entirely a number are left out; the result is empty if there are no numbers.

use std::fmt;

use super::aggregate::{Aggregate, Input, PerGroup, States, VectorRows};
use super::call::{Call, FieldsFunction, Function, OwnFunction};
use super::{parse_fields, write_fields};
use crate::base::names::NamePattern;
use crate::base::number::{parse_number, parse_quantity, write_number};
use crate::base::partial_state::{Decoder, Encoder, wrong_state};
use crate::base::{FieldSet, Meter, RunError};
use crate::block::Scratch;
use crate::lang::pipe::operator::Documentation;
use crate::lang::syntax::cursor::Cursor;
use crate::lang::syntax::error::ParseError;

/// Numbers per group that `quantile` and `median` keep; of more, a random sample of this size.
pub const QUANTILE_SAMPLES_MAX: usize = 32_768;

pub(super) static QUANTILE: OwnFunction = OwnFunction {
    doc: Documentation {
        name: "quantile",
        aliases: &[],
        syntax: "quantile(<share>, <field>, …)",
        summary: "computes the number below which this share of the numbers lies: 0.9 stands for \
                  90%",
        example: "quantile(0.9, took) p90",
    },
    parse,
};

pub(super) static MEDIAN: FieldsFunction = FieldsFunction::new(
    Documentation {
        name: "median",
        aliases: &[],
        syntax: "median(<field>, …)",
        summary: "computes the number below which half of the numbers lie",
        example: "median(took) m",
    },
    |call| PerGroup::boxed(Quantile { share: 0.5 }, &call.looked_at()),
);

/// `quantile` with its arguments.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct QuantileCall {
    /// The share of numbers below the quantile, from 0 to 1.
    pub share: f64,
    /// Fields; at least one.
    pub fields: Vec<NamePattern>,
}

/// Parses `share, field, …)`.
fn parse(cursor: &mut Cursor<'_>, _position: usize) -> Result<Function, ParseError> {
    let what = "a number from 0 to 1";
    let written = cursor.expect_string(false, what)?;
    let share = parse_number(written.text.as_bytes())
        .filter(|share| (0.0..=1.0).contains(share))
        .ok_or_else(|| cursor.error_at(written.position, &[what], "this is not a share"))?;
    cursor.expect(',', "quantile(share, field)")?;
    let mut fields = parse_fields(cursor, QUANTILE.doc.name)?;
    if fields.is_empty() {
        fields.push(NamePattern::ANY);
    }
    Ok(Function::new(QuantileCall { share, fields }))
}

impl fmt::Display for QuantileCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "quantile({}, {})", self.share, write_fields(&self.fields))
    }
}

impl Call for QuantileCall {
    fn name(&self) -> &'static str {
        QUANTILE.doc.name
    }

    fn add_needed(&self, needed: &mut FieldSet) {
        self.fields.iter().for_each(|field| needed.add_pattern(field));
    }

    fn states(&self) -> Box<dyn States> {
        PerGroup::boxed(Quantile { share: self.share }, &self.fields)
    }

    fn is_order_free(&self) -> bool {
        true
    }
}

struct Quantile {
    /// The share of numbers below the quantile, from 0 to 1.
    share: f64,
}

impl Aggregate for Quantile {
    type State = Samples;

    #[inline]
    fn add(
        &mut self,
        samples: &mut Samples,
        input: &Input<'_>,
        row: usize,
        scratch: &mut Scratch,
        meter: &mut Meter,
    ) -> Result<(), RunError> {
        input.each(row, scratch, |value| match parse_quantity(value) {
            Some(number) => samples.add(number, meter),
            None => Ok(()),
        })
    }

    const TAKES_VECTORS: bool = true;

    fn add_vector(
        &mut self,
        states: &mut [Self::State],
        rows: &VectorRows<'_>,
        meter: &mut Meter,
    ) -> Result<(), RunError> {
        rows.each_number(|group, number| states[group].add(number, meter))
    }

    fn merge(
        &mut self,
        samples: &mut Samples,
        other: Samples,
        meter: &mut Meter,
    ) -> Result<(), RunError> {
        samples.merge(other, meter)
    }

    fn encode(&self, samples: &Self::State, out: &mut Encoder<'_>) -> Result<(), RunError> {
        out.number(samples.seen)?;
        out.number(samples.random)?;
        out.number(samples.numbers.len() as u64)?;
        samples.numbers.iter().try_for_each(|number| out.float(*number))
    }

    fn decode(&self, from: &mut Decoder<'_>, meter: &mut Meter) -> Result<Self::State, RunError> {
        let mut samples =
            Samples { seen: from.count()?, random: from.number()?, ..Samples::default() };
        let count = from.length(size_of::<f64>())?;
        if count > QUANTILE_SAMPLES_MAX || count as u64 > samples.seen {
            return Err(wrong_state("there are more numbers than are kept"));
        }
        samples.make_room(count, meter)?;
        for _ in 0..count {
            samples.numbers.push(from.float()?);
        }
        Ok(samples)
    }

    fn write(&self, samples: &mut Samples, _seconds: Option<f64>, out: &mut Vec<u8>) {
        if let Some(number) = samples.quantile(self.share) {
            write_number(number, out);
        }
    }
}

/// The numbers of a group, or a random sample of them (algorithm R, J. S. Vitter 1985).
#[derive(Default)]
pub(super) struct Samples {
    numbers: Vec<f64>,
    seen: u64,
    random: u64,
}

impl Samples {
    #[inline]
    fn add(&mut self, number: f64, meter: &mut Meter) -> Result<(), RunError> {
        self.seen += 1;
        if self.numbers.len() < QUANTILE_SAMPLES_MAX {
            self.make_room(1, meter)?;
            self.numbers.push(number);
            return Ok(());
        }
        let place = self.random_below(self.seen);
        if let Some(place) = self.numbers.get_mut(place as usize) {
            *place = number;
        }
        Ok(())
    }

    /// Makes room for `more` numbers.
    #[inline]
    fn make_room(&mut self, more: usize, meter: &mut Meter) -> Result<(), RunError> {
        let needed = self.numbers.len() + more;
        if needed > self.numbers.capacity() {
            let capacity = needed.max(2 * self.numbers.capacity()).max(4);
            meter.take((capacity - self.numbers.capacity()) * size_of::<f64>())?;
            self.numbers.reserve_exact(capacity - self.numbers.len());
        }
        Ok(())
    }

    /// A pseudo-random number below `bound`, from a fixed sequence, so that the same rows give the
    /// same answer (SplitMix64).
    fn random_below(&mut self, bound: u64) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((u128::from(z ^ (z >> 31)) * u128::from(bound)) >> 64) as u64
    }

    fn merge(&mut self, mut other: Samples, meter: &mut Meter) -> Result<(), RunError> {
        let seen = self.seen + other.seen;
        let other_bytes = other.numbers.capacity() * size_of::<f64>();
        if self.numbers.len() + other.numbers.len() <= QUANTILE_SAMPLES_MAX {
            self.make_room(other.numbers.len(), meter)?;
            self.numbers.append(&mut other.numbers);
        } else {
            // Each sample is drawn from a side with a probability proportional to the rows of that
            // side.
            let mut merged = Samples { random: self.random, ..Samples::default() };
            merged.make_room(QUANTILE_SAMPLES_MAX, meter)?;
            while merged.numbers.len() < QUANTILE_SAMPLES_MAX {
                let own = merged.random_below(seen) < self.seen;
                let own = (own && !self.numbers.is_empty()) || other.numbers.is_empty();
                let side = if own { &mut self.numbers } else { &mut other.numbers };
                let place = merged.random_below(side.len() as u64) as usize;
                merged.numbers.push(side.swap_remove(place));
            }
            meter.give_back(self.numbers.capacity() * size_of::<f64>());
            *self = merged;
        }
        meter.give_back(other_bytes);
        self.seen = seen;
        Ok(())
    }

    /// The number at this share of the sorted numbers; none if there are none.
    fn quantile(&mut self, share: f64) -> Option<f64> {
        let last = self.numbers.len().checked_sub(1)?;
        let place = ((share * self.numbers.len() as f64) as usize).min(last);
        Some(*self.numbers.select_nth_unstable_by(place, f64::total_cmp).1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lang::pipe::tests::check;
    use crate::testing::with_next;

    #[test]
    fn shares_of_numbers() {
        check("* | stats quantile(0.5, size) a, median(size) b", &["a=10 b=10"]);
        check("* | stats quantile(0, size) a, quantile(1, size) b", &["a=9 b=1000"]);
        check("* | stats quantile(0.99, size, size) a, median(si*) b", &["a=1000 b=10"]);
        check("* | stats median(none) a, median(level) b, count() n", &["n=4"]);
    }

    /// The samples of two workers, with numbers from 0 to before `count`.
    fn samples(count: u32, meter: &mut Meter) -> Samples {
        let (mut left, mut right) = (Samples::default(), Samples::default());
        for number in 0..count {
            let side = if number % 3 == 0 { &mut left } else { &mut right };
            side.add(f64::from(number), meter).unwrap();
        }
        left.merge(right, meter).unwrap();
        left
    }

    #[test]
    fn samples_are_exact_up_to_the_limit() {
        with_next(|next| {
            let limit = QUANTILE_SAMPLES_MAX as u32;
            for count in [limit - 1, limit] {
                let mut samples = samples(count, next.meter());
                assert_eq!(samples.numbers.len(), count as usize);
                assert_eq!(samples.quantile(0.25), Some(f64::from(count / 4)));
            }
            let mut more = samples(limit * 8, next.meter());
            assert_eq!(more.numbers.len(), QUANTILE_SAMPLES_MAX);
            for share in [0.01, 0.25, 0.5, 0.99] {
                let rank = more.quantile(share).unwrap() / f64::from(limit * 8);
                assert!((rank - share).abs() < 0.02, "{share} is at {rank}");
            }
        });
    }
}
