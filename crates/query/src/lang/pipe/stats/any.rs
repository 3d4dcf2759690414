//! `any(a, b)`: one value of the fields that is not empty, if there is one: the first that is read.

use super::aggregate::{Aggregate, Input, PerGroup, decode_optional, encode_optional};
use super::call::FieldsFunction;
use crate::base::partial_state::{Decoder, Encoder};
use crate::base::{Meter, RunError};
use crate::block::Scratch;
use crate::lang::pipe::operator::Documentation;

pub(super) static ANY: FieldsFunction = FieldsFunction {
    is_order_free: |_| false,
    ..FieldsFunction::new(
        Documentation {
            name: "any",
            aliases: &[],
            syntax: "any(<field>, …)",
            summary: "takes any value that is not empty",
            example: "any(user) u",
        },
        |call| PerGroup::boxed(Any, &call.looked_at()),
    )
};

pub(super) struct Any;

impl Aggregate for Any {
    type State = Option<Box<[u8]>>;

    #[inline]
    fn add(
        &mut self,
        kept: &mut Option<Box<[u8]>>,
        input: &Input<'_>,
        row: usize,
        scratch: &mut Scratch,
        meter: &mut Meter,
    ) -> Result<(), RunError> {
        if kept.is_some() {
            return Ok(());
        }
        input.each(row, scratch, |value| {
            if kept.is_none() && !value.is_empty() {
                meter.take(value.len())?;
                *kept = Some(value.into());
            }
            Ok(())
        })
    }

    fn merge(
        &mut self,
        kept: &mut Option<Box<[u8]>>,
        other: Option<Box<[u8]>>,
        meter: &mut Meter,
    ) -> Result<(), RunError> {
        match (&kept, other) {
            (None, other) => *kept = other,
            (Some(_), other) => meter.give_back(other.map_or(0, |value| value.len())),
        }
        Ok(())
    }

    fn encode(&self, kept: &Self::State, out: &mut Encoder<'_>) -> Result<(), RunError> {
        encode_optional(kept, out)
    }

    fn decode(&self, from: &mut Decoder<'_>, meter: &mut Meter) -> Result<Self::State, RunError> {
        decode_optional(from, meter)
    }

    fn write(&self, kept: &mut Option<Box<[u8]>>, _seconds: Option<f64>, out: &mut Vec<u8>) {
        out.extend_from_slice(kept.as_deref().unwrap_or_default());
    }
}

#[cfg(test)]
mod tests {
    use crate::lang::pipe::tests::check;

    #[test]
    fn one_value() {
        check("b | stats any(none, host, size) a, any(none) c, any(si*) d", &["a=y d=9"]);
        check("* | stats by (level) any(level) a", &["level=error a=error", "level=info a=info"]);
    }
}
