//! `sum(a, b)`: sum of the numbers in the fields; durations in nanoseconds, sizes in bytes. `avg(a,
//! b)`: their average. Both are `NaN` if there are no numbers. `rate_sum(a, b)`: the sum per
//! second, over the time that [`super::count`] defines for `rate()`.
//!
//! Values that are not entirely a number, and addresses, are left out. Summed as `f64`: whole
//! numbers are exact up to 2^53.

use super::aggregate::{Aggregate, Input, PerGroup, VectorRows};
use super::call::FieldsFunction;
use crate::base::number::{parse_quantity, write_number};
use crate::base::partial_state::{Decoder, Encoder};
use crate::base::{Meter, RunError};
use crate::block::Scratch;
use crate::lang::pipe::operator::Documentation;

pub(super) static SUM: FieldsFunction = FieldsFunction::new(
    Documentation {
        name: "sum",
        aliases: &[],
        syntax: "sum(<field>, …)",
        summary: "adds up the numbers",
        example: "sum(bytes) total",
    },
    |call| PerGroup::boxed(TOTAL, &call.looked_at()),
);

pub(super) static AVG: FieldsFunction = FieldsFunction::new(
    Documentation {
        name: "avg",
        aliases: &[],
        syntax: "avg(<field>, …)",
        summary: "computes the average of the numbers",
        example: "avg(took) mean",
    },
    |call| PerGroup::boxed(AVERAGE, &call.looked_at()),
);

pub(super) static RATE_SUM: FieldsFunction = FieldsFunction::new(
    Documentation {
        name: "rate_sum",
        aliases: &[],
        syntax: "rate_sum(<field>, …)",
        summary: "computes the sum of the numbers per second",
        example: "rate_sum(bytes) r",
    },
    |call| PerGroup::boxed(TOTAL_RATE, &call.looked_at()),
);

/// Adds numbers up. The function member computes the result, given the sums and the length of time
/// in seconds.
pub(super) struct Numbers(fn(Sums, Option<f64>) -> f64);

/// `sum(a, b)`
const TOTAL: Numbers = Numbers(|sums, _| sums.sum());
/// `avg(a, b)`
const AVERAGE: Numbers = Numbers(|sums, _| sums.sum / sums.count as f64);
/// `rate_sum(a, b)`
const TOTAL_RATE: Numbers = Numbers(|sums, seconds| sums.sum() / seconds.unwrap_or(1.0));

/// A sum of numbers.
#[derive(Clone, Copy, Default)]
pub(super) struct Sums {
    pub sum: f64,
    pub count: u64,
}

impl Sums {
    /// The sum; NaN if there are no numbers.
    pub fn sum(self) -> f64 {
        if self.count == 0 { f64::NAN } else { self.sum }
    }
}

impl Aggregate for Numbers {
    type State = Sums;

    #[inline]
    fn add(
        &mut self,
        state: &mut Sums,
        input: &Input<'_>,
        row: usize,
        scratch: &mut Scratch,
        _meter: &mut Meter,
    ) -> Result<(), RunError> {
        input.each(row, scratch, |value| {
            if let Some(number) = parse_quantity(value) {
                state.sum += number;
                state.count += 1;
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
        if rows.of_row.is_none() {
            // In registers.
            let group = rows.groups[0] as usize;
            let mut sums = states[group];
            rows.each_number(|_, number| {
                sums.sum += number;
                sums.count += 1;
                Ok(())
            })?;
            states[group] = sums;
            return Ok(());
        }
        rows.each_number(|group, number| {
            let sums = &mut states[group];
            sums.sum += number;
            sums.count += 1;
            Ok(())
        })
    }

    fn merge(&mut self, state: &mut Sums, other: Sums, _meter: &mut Meter) -> Result<(), RunError> {
        state.sum += other.sum;
        state.count += other.count;
        Ok(())
    }

    fn encode(&self, state: &Self::State, out: &mut Encoder<'_>) -> Result<(), RunError> {
        out.float(state.sum)?;
        out.number(state.count)
    }

    fn decode(&self, from: &mut Decoder<'_>, _meter: &mut Meter) -> Result<Self::State, RunError> {
        Ok(Sums { sum: from.float()?, count: from.count()? })
    }

    fn write(&self, state: &mut Sums, seconds: Option<f64>, out: &mut Vec<u8>) {
        write_number((self.0)(*state, seconds), out);
    }
}

#[cfg(test)]
mod tests {
    use crate::lang::pipe::tests::check;

    #[test]
    fn sums() {
        check("* | stats sum(size) s", &["s=1019"]);
        check("* | stats by (level) sum(size) s", &["level=error s=1010", "level=info s=9"]);
        check("* | stats sum(size, size) s, sum(none) t, sum(level) u", &["s=1019 t=NaN u=NaN"]);
        check("* | stats sum(si*) s, sum(*) t", &["s=1019 t=1019"]);
        check("* | stats sum(size) if (ok) s", &["s=9"]);
    }

    #[test]
    fn averages() {
        check("* | stats avg(size) a", &["a=339.6666666666667"]);
        check("* | stats by (level) avg(size) a", &["level=error a=505", "level=info a=9"]);
        check("* | stats avg(none) a", &["a=NaN"]);
        check("* | stats avg(si*) a", &["a=339.6666666666667"]);
    }
}
