//! `avg(a, b)`: average of the numbers in the fields; `NaN` without any. As exact as `sum`.

use super::aggregate::{Aggregate, Input};
use super::sum::{Sum, Sums};
use crate::block::Scratch;
use crate::number::write_number;
use crate::run::{Meter, RunError};

pub(super) struct Avg;

impl Aggregate for Avg {
    type State = Sums;

    #[inline]
    fn add(
        &mut self,
        state: &mut Sums,
        input: &Input<'_>,
        row: usize,
        scratch: &mut Scratch,
        meter: &mut Meter,
    ) -> Result<(), RunError> {
        Sum.add(state, input, row, scratch, meter)
    }

    fn merge(&mut self, state: &mut Sums, other: Sums, meter: &mut Meter) -> Result<(), RunError> {
        Sum.merge(state, other, meter)
    }

    fn write(&self, state: &mut Sums, _seconds: Option<f64>, out: &mut Vec<u8>) {
        write_number(state.sum / state.count as f64, out);
    }
}

#[cfg(test)]
mod tests {
    use crate::pipe::tests::check;

    #[test]
    fn averages() {
        check("* | stats avg(size) a", &["a=339.6666666666667"]);
        check("* | stats by (level) avg(size) a", &["level=error a=505", "level=info a=9"]);
        check("* | stats avg(none) a", &["a=NaN"]);
        check("* | stats avg(si*) a", &["a=339.6666666666667"]);
    }
}
