//! `count()`: rows; `count(a, b)`, `count(foo*)`: rows in which one of the fields is not empty. Exact.

use super::aggregate::{Aggregate, Input};
use crate::block::Scratch;
use crate::run::{Meter, RunError};

/// `count()`
pub(super) struct Rows;

/// `count(a, b)`
pub(super) struct Count;

impl Aggregate for Rows {
    type State = u64;

    #[inline]
    fn add(
        &mut self,
        count: &mut u64,
        _input: &Input<'_>,
        _row: usize,
        _scratch: &mut Scratch,
        _meter: &mut Meter,
    ) -> Result<(), RunError> {
        *count += 1;
        Ok(())
    }

    fn add_lines(&self, count: &mut u64, lines: u64) {
        *count += lines;
    }

    fn merge(&mut self, count: &mut u64, other: u64, _meter: &mut Meter) -> Result<(), RunError> {
        *count += other;
        Ok(())
    }

    fn write(&self, count: &mut u64, _seconds: Option<f64>, out: &mut Vec<u8>) {
        out.extend_from_slice(count.to_string().as_bytes());
    }
}

impl Aggregate for Count {
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
        *count += u64::from(input.any(row, scratch));
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
    fn rows() {
        check("* | stats count() logs", &["logs=4"]);
        check("* | count()", &["count(*)=4"]);
        check("nothing | count(*) as n", &["n=0"]);
        check("* | stats by (level) count() n", &["level=error n=2", "level=info n=2"]);
        check("* | stats count() if (error) errors, count() all", &["errors=2 all=4"]);
    }

    #[test]
    fn rows_with_a_value() {
        check("* | stats count(size) n", &["n=3"]);
        check("* | stats count(size, host) n, count(none) m", &["n=4 m=0"]);
        check("* | stats count(si*) n, count(x*) m", &["n=3 m=0"]);
    }
}
