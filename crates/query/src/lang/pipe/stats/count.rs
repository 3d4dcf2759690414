//! `count()`: rows; `count(a, b)`, `count(foo*)`: rows in which one of the fields is not empty;
//! `count_empty(a, b)`: rows in which all of them are. Exact. `rate()`: rows a second.
//!
//! The time is the length of the bucket if rows are grouped by `_time:5m` or similar, otherwise
//! that of the query's time range. For a range without beginning or end, the result is the plain
//! count.

use super::aggregate::{Aggregate, Input, PerGroup, VectorRows};
use super::call::{FieldsFunction, Without};
use crate::base::number::write_number;
use crate::base::partial_state::{Decoder, Encoder};
use crate::base::{Meter, RunError};
use crate::block::Scratch;
use crate::lang::pipe::operator::Documentation;

pub(super) static COUNT: FieldsFunction = FieldsFunction {
    without: Without::Row,
    counts_rows: |call| call.fields.is_empty(),
    only_counts: |_| true,
    ..FieldsFunction::new(
        Documentation {
            name: "count",
            aliases: &[],
            syntax: "count(), count(<field>, …)",
            summary: "counts rows; with fields, rows in which at least one of them is not empty",
            example: "count() n",
        },
        |call| match call.fields.is_empty() {
            true => PerGroup::boxed(ROW_COUNT, &[]),
            false => PerGroup::boxed(Count { empty: false }, &call.looked_at()),
        },
    )
};

pub(super) static COUNT_EMPTY: FieldsFunction = FieldsFunction {
    only_counts: |_| true,
    ..FieldsFunction::new(
        Documentation {
            name: "count_empty",
            aliases: &[],
            syntax: "count_empty(<field>, …)",
            summary: "counts rows in which all of the fields are empty",
            example: "count_empty(user) n",
        },
        |call| PerGroup::boxed(Count { empty: true }, &call.looked_at()),
    )
};

pub(super) static RATE: FieldsFunction = FieldsFunction {
    without: Without::None("rate() takes no field; rate_sum(…) does"),
    counts_rows: |_| true,
    only_counts: |_| true,
    ..FieldsFunction::new(
        Documentation {
            name: "rate",
            aliases: &[],
            syntax: "rate()",
            summary: "computes the number of rows per second",
            example: "rate() r",
        },
        |_| PerGroup::boxed(ROW_RATE, &[]),
    )
};

/// Counts rows. The function member writes the result, given the count and the length of time in
/// seconds.
pub(super) struct Rows(fn(u64, Option<f64>, &mut Vec<u8>));

/// `count()`
pub(super) const ROW_COUNT: Rows =
    Rows(|count, _seconds, out| out.extend_from_slice(count.to_string().as_bytes()));
/// `rate()`
const ROW_RATE: Rows =
    Rows(|count, seconds, out| write_number(count as f64 / seconds.unwrap_or(1.0), out));

/// `count(a, b)` and `count_empty(a, b)`: rows in which one of the fields has a value, or none has.
struct Count {
    empty: bool,
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

    fn encode(&self, count: &Self::State, out: &mut Encoder<'_>) -> Result<(), RunError> {
        out.number(*count)
    }

    fn decode(&self, from: &mut Decoder<'_>, _meter: &mut Meter) -> Result<Self::State, RunError> {
        from.count()
    }

    fn write(&self, count: &mut u64, seconds: Option<f64>, out: &mut Vec<u8>) {
        (self.0)(*count, seconds, out);
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
            let is_empty = vector.values.text(vector.at(row), &mut buffer).is_empty();
            states[rows.groups[rows.place(row)] as usize] += u64::from(is_empty == self.empty);
        }
        Ok(())
    }

    fn merge(&mut self, count: &mut u64, other: u64, _meter: &mut Meter) -> Result<(), RunError> {
        *count += other;
        Ok(())
    }

    fn encode(&self, count: &Self::State, out: &mut Encoder<'_>) -> Result<(), RunError> {
        out.number(*count)
    }

    fn decode(&self, from: &mut Decoder<'_>, _meter: &mut Meter) -> Result<Self::State, RunError> {
        from.count()
    }

    fn write(&self, count: &mut u64, seconds: Option<f64>, out: &mut Vec<u8>) {
        ROW_COUNT.write(count, seconds, out);
    }
}

#[cfg(test)]
mod tests {
    use crate::lang::pipe::tests::check;

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
