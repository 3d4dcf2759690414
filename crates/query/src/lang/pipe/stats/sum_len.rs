//! `sum_len(a, b)`: sum of the lengths of the values, in bytes. Exact.

use super::aggregate::{Aggregate, Input, PerGroup, VectorRows};
use super::call::FieldsFunction;
use super::count::ROW_COUNT;
use crate::base::partial_state::{Decoder, Encoder};
use crate::base::{Meter, RunError};
use crate::block::Scratch;
use crate::lang::pipe::operator::Documentation;

pub(super) static SUM_LEN: FieldsFunction = FieldsFunction::new(
    Documentation {
        name: "sum_len",
        aliases: &[],
        syntax: "sum_len(<field>, …)",
        summary: "adds up the lengths of the values in bytes",
        example: "sum_len(_msg) bytes",
    },
    |call| PerGroup::boxed(SumLen, &call.looked_at()),
);

pub(super) struct SumLen;

impl Aggregate for SumLen {
    type State = u64;

    #[inline]
    fn add(
        &mut self,
        bytes: &mut u64,
        input: &Input<'_>,
        row: usize,
        scratch: &mut Scratch,
        _meter: &mut Meter,
    ) -> Result<(), RunError> {
        input.each(row, scratch, |value| {
            *bytes += value.len() as u64;
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
        let vector = rows.vector;
        let mut buffer = Vec::new();
        for row in 0..vector.rows() {
            let length = vector.values.text(vector.at(row), &mut buffer).len();
            states[rows.groups[rows.place(row)] as usize] += length as u64;
        }
        Ok(())
    }

    fn merge(&mut self, bytes: &mut u64, other: u64, _meter: &mut Meter) -> Result<(), RunError> {
        *bytes += other;
        Ok(())
    }

    fn encode(&self, bytes: &Self::State, out: &mut Encoder<'_>) -> Result<(), RunError> {
        out.number(*bytes)
    }

    fn decode(&self, from: &mut Decoder<'_>, _meter: &mut Meter) -> Result<Self::State, RunError> {
        from.count()
    }

    fn write(&self, bytes: &mut u64, seconds: Option<f64>, out: &mut Vec<u8>) {
        ROW_COUNT.write(bytes, seconds, out);
    }
}

#[cfg(test)]
mod tests {
    use crate::lang::pipe::tests::check;

    #[test]
    fn lengths() {
        check("* | stats sum_len(_msg) n", &["n=22"]);
        check("* | stats sum_len(size, host) n, sum_len(none) m, sum_len(h*) h", &["n=10 m=0 h=4"]);
    }
}
