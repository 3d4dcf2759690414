//! `row_min(a, …)`, `row_max(a, …)`: the row with the first or last value of field a in the order
//! of `sort`, as a JSON object, with all fields or only those named behind a. `field_min(a, b)`,
//! `field_max(a, b)`: only field b of that row.
//!
//! Rows with an empty value of a are left out. If no row remains, the result is `{}`, or empty for
//! a field. Of lines with equal values, the one that arrived first counts. Exact.

use std::cmp::Ordering;
use std::fmt;

use record::LineId;

use super::aggregate::{Aggregate, Input, PerGroup, States, extend};
use super::call::{Call, Function, OwnFunction, check_one};
use super::min_max::{Best, GREATEST, LEAST, decode_best, encode_best, take_better};
use super::{parse_fields, write_fields};
use crate::base::names::NamePattern;
use crate::base::partial_state::{Decoder, Encoder};
use crate::base::{Buffer, FieldSet, Meter, RunError};
use crate::block::Scratch;
use crate::lang::pipe::operator::Documentation;
use crate::lang::syntax::cursor::{Cursor, quote_name};
use crate::lang::syntax::error::ParseError;

pub(super) static ROW_MIN: OwnFunction = OwnFunction {
    doc: Documentation {
        name: "row_min",
        aliases: &[],
        syntax: "row_min(<field>, <field>, …)",
        summary: "takes the row with the least value of the first field as a JSON object, with \
                  all fields or only those behind it",
        example: "row_min(took, user, path) r",
    },
    parse: |cursor, position| parse(cursor, position, &ROW_MIN.doc, LEAST),
};

pub(super) static ROW_MAX: OwnFunction = OwnFunction {
    doc: Documentation {
        name: "row_max",
        aliases: &[],
        syntax: "row_max(<field>, <field>, …)",
        summary: "takes the row with the greatest value of the first field as a JSON object, with \
                  all fields or only those behind it",
        example: "row_max(took) r",
    },
    parse: |cursor, position| parse(cursor, position, &ROW_MAX.doc, GREATEST),
};

pub(super) static FIELD_MIN: OwnFunction = OwnFunction {
    doc: Documentation {
        name: "field_min",
        aliases: &[],
        syntax: "field_min(<field>, <other>)",
        summary: "takes the second field of the row with the least value of the first field",
        example: "field_min(took, path) p",
    },
    parse: |cursor, position| parse(cursor, position, &FIELD_MIN.doc, LEAST),
};

pub(super) static FIELD_MAX: OwnFunction = OwnFunction {
    doc: Documentation {
        name: "field_max",
        aliases: &[],
        syntax: "field_max(<field>, <other>)",
        summary: "takes the second field of the row with the greatest value of the first field",
        example: "field_max(took, path) p",
    },
    parse: |cursor, position| parse(cursor, position, &FIELD_MAX.doc, GREATEST),
};

/// A call of any of the four functions.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RowMinMaxCall {
    name: &'static str,
    better: Ordering,
    /// The field whose values are compared.
    pub by: String,
    /// What is kept of the row.
    pub kept: KeptOfRow,
}

/// Parses `field, other, …)`.
fn parse(
    cursor: &mut Cursor<'_>,
    position: usize,
    doc: &Documentation,
    better: Ordering,
) -> Result<Function, ParseError> {
    let name = doc.name;
    let is_field = name.starts_with("field");
    let by = cursor.expect_string(false, "the field whose values are compared")?.text;
    if !cursor.eat(',') && is_field {
        return Err(cursor.error(&["\",\""], format!("{name}(field, other) needs two fields")));
    }
    let fields = parse_fields(cursor, name)?;
    let kept = match is_field {
        true => {
            let wrong = |message| cursor.error_at(position, &["a field name"], message);
            check_one(name, &fields).map_err(wrong)?;
            KeptOfRow::Field(fields.into_iter().next().expect("there is one").name)
        }
        false => KeptOfRow::Row(fields),
    };
    Ok(Function::new(RowMinMaxCall { name, better, by, kept }))
}

impl fmt::Display for RowMinMaxCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}({}", self.name, quote_name(&self.by))?;
        match &self.kept {
            KeptOfRow::Row(fields) if fields.is_empty() => f.write_str(")"),
            KeptOfRow::Row(fields) => write!(f, ", {})", write_fields(fields)),
            KeptOfRow::Field(name) => write!(f, ", {})", quote_name(name)),
        }
    }
}

impl Call for RowMinMaxCall {
    fn name(&self) -> &'static str {
        self.name
    }

    fn add_needed(&self, needed: &mut FieldSet) {
        needed.add(&self.by);
        match &self.kept {
            KeptOfRow::Row(fields) if fields.is_empty() => needed.add_pattern(&NamePattern::ANY),
            KeptOfRow::Row(fields) => fields.iter().for_each(|field| needed.add_pattern(field)),
            KeptOfRow::Field(name) => needed.add(name),
        }
    }

    fn states(&self) -> Box<dyn States> {
        let RowMinMaxCall { better, by, kept, .. } = self.clone();
        PerGroup::boxed(RowMinMax { better, by, kept, text: Buffer::default() }, &[])
    }

    fn is_order_free(&self) -> bool {
        false
    }

    fn gives_row(&self) -> bool {
        matches!(self.kept, KeptOfRow::Row(_))
    }
}

/// Any of the four functions, running.
struct RowMinMax {
    /// How a better value compares with the present best.
    better: Ordering,
    /// The field whose values are compared.
    by: String,
    /// What is kept of the row.
    kept: KeptOfRow,
    text: Buffer,
}

/// What is kept of a row.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum KeptOfRow {
    /// These fields as JSON; all fields if empty.
    Row(Vec<NamePattern>),
    /// The value of a field.
    Field(String),
}

#[derive(Default)]
pub(super) struct BestRow {
    best: Best,
    /// The line of the row, if it is one.
    line: Option<LineId>,
    kept: Vec<u8>,
}

impl BestRow {
    /// Takes a value if it is better than the present one, or the same of a line that arrived
    /// before. Returns whether it did.
    fn take(
        &mut self,
        value: &[u8],
        line: Option<LineId>,
        better: Ordering,
        meter: &mut Meter,
    ) -> Result<bool, RunError> {
        let is_same = self.best.as_ref().is_some_and(|(_, best)| **best == *value);
        let is_earlier = is_same && line.is_some() && line < self.line;
        let is_taken = is_earlier || take_better(&mut self.best, value, better, meter)?;
        if is_taken {
            self.line = line;
        }
        Ok(is_taken)
    }

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
        if !state.take(value, input.line(row), self.better, meter)? {
            return Ok(());
        }
        match &self.kept {
            KeptOfRow::Row(fields) => {
                input.write_json(row, fields, scratch, &mut self.text, meter)?
            }
            KeptOfRow::Field(name) => return state.keep(input.value(name, row, scratch), meter),
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
        if state.take(&value, other.line, self.better, meter)? {
            state.keep(&other.kept, meter)?;
        }
        Ok(())
    }

    fn encode(&self, state: &Self::State, out: &mut Encoder<'_>) -> Result<(), RunError> {
        encode_best(&state.best, out)?;
        out.line(state.line)?;
        out.bytes(&state.kept)
    }

    fn decode(&self, from: &mut Decoder<'_>, meter: &mut Meter) -> Result<Self::State, RunError> {
        let (best, line) = (decode_best(from, meter)?, from.line()?);
        let mut state = BestRow { best, line, kept: Vec::new() };
        extend(&mut state.kept, from.bytes()?, meter)?;
        Ok(state)
    }

    fn text_bytes(&self, state: &BestRow) -> usize {
        state.kept.len()
    }

    fn write(&self, state: &mut BestRow, _seconds: Option<f64>, out: &mut Vec<u8>) {
        match (&state.best, &self.kept) {
            (None, KeptOfRow::Row(_)) => out.extend_from_slice(b"{}"),
            _ => out.extend_from_slice(&state.kept),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::lang::pipe::tests::check;

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
