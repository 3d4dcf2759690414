//! `row_min(a, …)`, `row_max(a, …)`: the row with the first or last value of a field in the order of `sort`, as a JSON
//! object of its fields, or of those that are named behind it; `field_min(a, b)`, `field_max(a, b)`: only its field b.
//!
//! Rows with an empty value of a are left out; `{}` and nothing without any other. Of equal values the first row read
//! counts. Exact.

use std::cmp::Ordering;

use super::aggregate::{Aggregate, Input, extend};
use super::min_max::{Best, take_better};
use crate::block::{NamePattern, Scratch};
use crate::run::{Buffer, Meter, RunError};

/// Any of the four.
pub(super) struct RowMinMax {
    /// How a value compares with those that it takes the place of.
    pub better: Ordering,
    /// The field whose values are compared.
    pub by: String,
    /// What of the row is kept.
    pub kept: Kept,
    pub text: Buffer,
}

/// What is kept of a row.
pub(super) enum Kept {
    /// These fields, all without any, as JSON.
    Row(Vec<NamePattern>),
    /// The value of a field.
    Field(String),
}

#[derive(Default)]
pub(super) struct BestRow {
    best: Best,
    kept: Vec<u8>,
}

impl BestRow {
    fn keep(&mut self, text: &[u8], meter: &mut Meter) -> Result<(), RunError> {
        self.kept.clear();
        extend(&mut self.kept, text, meter)
    }
}

impl Aggregate for RowMinMax {
    type State = BestRow;

    #[inline]
    fn add(
        &mut self,
        state: &mut BestRow,
        input: &Input<'_>,
        row: usize,
        scratch: &mut Scratch,
        meter: &mut Meter,
    ) -> Result<(), RunError> {
        let value = input.value(&self.by, row, scratch);
        if !take_better(&mut state.best, value, self.better, meter)? {
            return Ok(());
        }
        match &self.kept {
            Kept::Row(fields) => input.write_json(row, fields, scratch, &mut self.text, meter)?,
            Kept::Field(name) => return state.keep(input.value(name, row, scratch), meter),
        }
        state.keep(self.text.bytes(), meter)?;
        self.text.clear(meter);
        Ok(())
    }

    fn merge(
        &mut self,
        state: &mut BestRow,
        other: BestRow,
        meter: &mut Meter,
    ) -> Result<(), RunError> {
        let Some((_, value)) = other.best else { return Ok(()) };
        meter.give_back(value.len() + other.kept.capacity());
        if take_better(&mut state.best, &value, self.better, meter)? {
            state.keep(&other.kept, meter)?;
        }
        Ok(())
    }

    fn text_bytes(&self, state: &BestRow) -> usize {
        state.kept.len()
    }

    fn write(&self, state: &mut BestRow, _seconds: Option<f64>, out: &mut Vec<u8>) {
        match (&state.best, &self.kept) {
            (None, Kept::Row(_)) => out.extend_from_slice(b"{}"),
            _ => out.extend_from_slice(&state.kept),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::pipe::tests::check;

    #[test]
    fn rows_with_the_first_and_last_value() {
        check(
            "* | stats row_min(size, _time, host, size) a, row_max(size, h*, si*) b",
            &[
                r#"a={"_time":"1970-01-01T00:00:00.00000002Z","host":"y","size":"9"} b={"host":"y","size":"1KB"}"#,
            ],
        );
        check(
            "* | delete _time, _stream | stats row_max(size) a",
            &[r#"a={"_msg":"c error","host":"y","level":"error","size":"1KB"}"#],
        );
        check("* | stats row_min(none) a, row_max(none, host) b", &["a={} b={}"]);
        check(
            "* | stats by (level) row_max(size, size) a",
            &[r#"level=error a={"size":"1KB"}"#, r#"level=info a={"size":"9"}"#],
        );
    }

    #[test]
    fn fields_at_the_first_and_last_value() {
        check("* | stats field_min(size, _msg) a, field_max(size, _msg) b", &["a=b ok b=c error"]);
        check("* | stats field_max(_time, size) a, field_max(none, size) b, count() n", &["n=4"]);
    }
}
