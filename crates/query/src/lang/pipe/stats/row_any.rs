//! `row_any()`, `row_any(a, foo*)`: one row of the group as a JSON object, with all fields or only
//! the named ones: the first row that is read. `{}` if there is none.

use super::aggregate::{Aggregate, Input, PerGroup, extend};
use super::call::{FieldsFunction, Without};
use crate::base::names::NamePattern;
use crate::base::partial_state::{Decoder, Encoder};
use crate::base::{Buffer, Meter, RunError};
use crate::block::Scratch;
use crate::lang::pipe::operator::Documentation;

pub(super) static ROW_ANY: FieldsFunction = FieldsFunction {
    without: Without::Row,
    is_order_free: |_| false,
    gives_row: true,
    ..FieldsFunction::new(
        Documentation {
            name: "row_any",
            aliases: &[],
            syntax: "row_any(), row_any(<field>, …)",
            summary: "takes any row as a JSON object, with all fields or only these",
            example: "row_any() r",
        },
        |call| {
            let row = RowAny { fields: call.fields.clone(), text: Buffer::default() };
            PerGroup::boxed(row, &[])
        },
    )
};

pub(super) struct RowAny {
    pub fields: Vec<NamePattern>,
    pub text: Buffer,
}

impl Aggregate for RowAny {
    type State = Vec<u8>;

    #[inline]
    fn add(
        &mut self,
        kept: &mut Vec<u8>,
        input: &Input<'_>,
        row: usize,
        scratch: &mut Scratch,
        meter: &mut Meter,
    ) -> Result<(), RunError> {
        if !kept.is_empty() {
            return Ok(());
        }
        input.write_json(row, &self.fields, scratch, &mut self.text, meter)?;
        extend(kept, self.text.bytes(), meter)?;
        self.text.clear(meter);
        Ok(())
    }

    fn merge(
        &mut self,
        kept: &mut Vec<u8>,
        other: Vec<u8>,
        meter: &mut Meter,
    ) -> Result<(), RunError> {
        if kept.is_empty() {
            *kept = other;
        } else {
            meter.give_back(other.capacity());
        }
        Ok(())
    }

    fn encode(&self, kept: &Self::State, out: &mut Encoder<'_>) -> Result<(), RunError> {
        out.bytes(kept)
    }

    fn decode(&self, from: &mut Decoder<'_>, meter: &mut Meter) -> Result<Self::State, RunError> {
        let mut kept = Vec::new();
        extend(&mut kept, from.bytes()?, meter)?;
        Ok(kept)
    }

    fn text_bytes(&self, kept: &Vec<u8>) -> usize {
        kept.len()
    }

    fn write(&self, kept: &mut Vec<u8>, _seconds: Option<f64>, out: &mut Vec<u8>) {
        out.extend_from_slice(if kept.is_empty() { b"{}" } else { kept });
    }
}

#[cfg(test)]
mod tests {
    use crate::lang::pipe::tests::check;

    #[test]
    fn one_row() {
        check("a | stats row_any(level, size) a", &[r#"a={"level":"error","size":"10"}"#]);
        check(
            "* | stats by (level) row_any(level, si*) a",
            &[
                r#"level=error a={"level":"error","size":"10"}"#,
                r#"level=info a={"level":"info","size":"9"}"#,
            ],
        );
        check("nothing | stats row_any() a", &["a={}"]);
        check("d | fields size | stats row_any() a", &["a={}"]);
        check("a | fields _msg | stats row_any() a", &[r#"a={"_msg":"a error"}"#]);
    }
}
