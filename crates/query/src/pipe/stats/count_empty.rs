//! `count_empty(a, b)`: rows in which all of the fields are empty. Exact.

use super::aggregate::{Aggregate, Input};
use super::count::Rows;
use crate::block::Scratch;
use crate::run::{Meter, RunError};

pub(super) struct CountEmpty;

impl Aggregate for CountEmpty {
    type State = u64;

    #[inline]
    fn add(
        &mut self,
        count: &mut u64,
        input: &Input<'_>,
        row: usize,
        scratch: &mut Scratch,
        _meter: &mut Meter,
    ) -> Result<(), RunError> {
        *count += u64::from(!input.any(row, scratch));
        Ok(())
    }

    fn merge(&mut self, count: &mut u64, other: u64, meter: &mut Meter) -> Result<(), RunError> {
        Rows.merge(count, other, meter)
    }

    fn write(&self, count: &mut u64, seconds: Option<f64>, out: &mut Vec<u8>) {
        Rows.write(count, seconds, out);
    }
}

#[cfg(test)]
mod tests {
    use crate::pipe::tests::check;

    #[test]
    fn rows_without_a_value() {
        check("* | stats count_empty(size) n, count_empty(host) m", &["n=1 m=0"]);
        check("* | stats count_empty(size, host) n, count_empty(none) m", &["n=0 m=4"]);
        check("* | stats count_empty(si*) n", &["n=1"]);
    }
}
