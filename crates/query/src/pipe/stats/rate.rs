//! `rate()`: rows a second; `rate_sum(a, b)`: sum of the numbers in the fields a second, `NaN` without any.
//!
//! The time is the length of the bucket when rows are grouped by `_time:5m` and the like, otherwise that of the range of
//! time of the query. Of a range without beginning or end, the plain count and sum are given. `rate_sum` is
//! [`super::sum::RATE_SUM`], as exact as `sum`.

use super::aggregate::{Aggregate, Input};
use super::count::Rows;
use crate::block::Scratch;
use crate::number::write_number;
use crate::run::{Meter, RunError};

pub(super) struct Rate;

impl Aggregate for Rate {
    type State = u64;

    #[inline]
    fn add(
        &mut self,
        count: &mut u64,
        input: &Input<'_>,
        row: usize,
        scratch: &mut Scratch,
        meter: &mut Meter,
    ) -> Result<(), RunError> {
        Rows.add(count, input, row, scratch, meter)
    }

    fn add_lines(&self, count: &mut u64, lines: u64) {
        Rows.add_lines(count, lines);
    }

    fn merge(&mut self, count: &mut u64, other: u64, meter: &mut Meter) -> Result<(), RunError> {
        Rows.merge(count, other, meter)
    }

    fn write(&self, count: &mut u64, seconds: Option<f64>, out: &mut Vec<u8>) {
        write_number(*count as f64 / seconds.unwrap_or(1.0), out);
    }
}

#[cfg(test)]
mod tests {
    use crate::pipe::tests::check;

    #[test]
    fn rates() {
        check("* | stats rate() r, rate_sum(size) s", &["r=4 s=1019"]);
        check(
            "_time:[1970, 1970-01-01T00:00:08Z) | stats rate() r, rate_sum(size) s, rate_sum(none) t",
            &["r=0.5 s=127.375 t=NaN"],
        );
        check("_time:>=1970 | stats rate() r", &["r=4"]);
        check("* | stats by (_time:2s) rate() r, rate_sum(size) s", &["r=2 s=509.5"]);
        check(
            "_time:1970 | stats by (_time:minute, level) rate() if (error or a) r | fields r",
            &[&format!("r={}", 2.0 / 60.0), "r=0"],
        );
        let january = format!("r={}", 4.0 / (31.0 * 86_400.0));
        check("* | stats by (_time:month) rate() r", &[&january]);
    }
}
