//! `count()`: rows; `count(a, b)`, `count(foo*)`: rows in which one of the fields is not empty; `count_empty(a, b)`: rows
//! in which all of them are. Exact.

use super::aggregate::{Aggregate, Input};
use crate::block::Scratch;
use crate::run::{Meter, RunError};

/// `count()`
pub(super) struct Rows;

/// `count(a, b)` and `count_empty(a, b)`: rows in which one of the fields has a value, or none has.
pub(super) struct Count {
    pub empty: bool,
}

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
        *count += u64::from(input.any(row, scratch) != self.empty);
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

    #[test]
    fn rows_without_a_value() {
        check("* | stats count_empty(size) n, count_empty(host) m", &["n=1 m=0"]);
        check("* | stats count_empty(size, host) n, count_empty(none) m", &["n=0 m=4"]);
        check("* | stats count_empty(si*) n", &["n=1"]);
    }
}
