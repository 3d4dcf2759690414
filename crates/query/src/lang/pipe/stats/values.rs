//! `values(a, b) [limit N]`: the values of the fields in all rows, including empty ones, as a JSON
//! array in the order of reading.
//!
//! With a limit, the first N values. All of them are kept in the query's memory.

use super::aggregate::{Aggregate, Input, PerGroup, extend};
use super::call::FieldsFunction;
use crate::base::partial_state::{Decoder, Encoder, wrong_state};
use crate::base::{Buffer, Meter, RunError, json};
use crate::block::Scratch;
use crate::lang::pipe::operator::Documentation;

pub(super) static VALUES: FieldsFunction = FieldsFunction {
    has_limit: true,
    is_order_free: |_| false,
    ..FieldsFunction::new(
        Documentation {
            name: "values",
            aliases: &[],
            syntax: "values(<field>, …) [limit <n>]",
            summary: "collects all values, as a JSON array",
            example: "values(user) limit 10 v",
        },
        |call| {
            let values = Values { limit: call.limit(), text: Buffer::default() };
            PerGroup::boxed(values, &call.looked_at())
        },
    )
};

pub(super) struct Values {
    pub limit: u64,
    pub text: Buffer,
}

/// Members of a JSON array.
#[derive(Default)]
pub(super) struct Members {
    json: Vec<u8>,
    count: u64,
}

impl Members {
    fn push(&mut self, text: &[u8], meter: &mut Meter) -> Result<(), RunError> {
        if self.count > 0 {
            extend(&mut self.json, b",", meter)?;
        }
        self.count += 1;
        extend(&mut self.json, text, meter)
    }
}

impl Aggregate for Values {
    type State = Members;

    #[inline]
    fn add(
        &mut self,
        members: &mut Members,
        input: &Input<'_>,
        row: usize,
        scratch: &mut Scratch,
        meter: &mut Meter,
    ) -> Result<(), RunError> {
        input.each(row, scratch, |value| {
            if members.count >= self.limit {
                return Ok(());
            }
            self.text.clear(meter);
            json::put_text(value, &mut self.text, meter)?;
            members.push(self.text.bytes(), meter)
        })
    }

    fn merge(
        &mut self,
        members: &mut Members,
        other: Members,
        meter: &mut Meter,
    ) -> Result<(), RunError> {
        let mut rest = other.json.as_slice();
        while !rest.is_empty() && members.count < self.limit {
            let (value, behind) = rest.split_at(text_end(rest));
            members.push(value, meter)?;
            rest = behind.strip_prefix(b",").unwrap_or(behind);
        }
        meter.give_back(other.json.capacity());
        Ok(())
    }

    fn encode(&self, members: &Self::State, out: &mut Encoder<'_>) -> Result<(), RunError> {
        out.number(members.count)?;
        out.bytes(&members.json)
    }

    fn decode(&self, from: &mut Decoder<'_>, meter: &mut Meter) -> Result<Self::State, RunError> {
        let count = from.count()?;
        let json = from.bytes()?;
        if count_texts(json) != Some(count) {
            return Err(wrong_state("values are not a list of texts"));
        }
        let mut members = Members { json: Vec::new(), count };
        extend(&mut members.json, json, meter)?;
        Ok(members)
    }

    fn text_bytes(&self, members: &Members) -> usize {
        members.json.len()
    }

    fn write(&self, members: &mut Members, _seconds: Option<f64>, out: &mut Vec<u8>) {
        out.push(b'[');
        out.extend_from_slice(&members.json);
        out.push(b']');
    }
}

/// The number of comma-separated JSON texts in these bytes; none where they are anything else.
fn count_texts(json: &[u8]) -> Option<u64> {
    std::str::from_utf8(json).ok()?;
    let mut count = 0;
    let mut rest = json;
    while !rest.is_empty() {
        rest = if count == 0 { rest } else { rest.strip_prefix(b",")? };
        rest = rest.strip_prefix(b"\"")?;
        while !rest.starts_with(b"\"") {
            rest = rest.get(if rest.starts_with(b"\\") { 2 } else { 1 }..)?;
        }
        rest = &rest[1..];
        count += 1;
    }
    Some(count)
}

/// The end of the JSON text at the start of `json`.
fn text_end(json: &[u8]) -> usize {
    let mut at = 1;
    while json[at] != b'"' {
        at += if json[at] == b'\\' { 2 } else { 1 };
    }
    at + 1
}

#[cfg(test)]
mod tests {
    use crate::lang::pipe::tests::check;

    #[test]
    fn all_values() {
        check("* | stats values(size) a", &[r#"a=["10","9","1KB",""]"#]);
        check("* | stats values(size, host) limit 3 a", &[r#"a=["10","x","9"]"#]);
        check(
            "* | stats by (host) values(si*) a",
            &[r#"host=x a=["10"]"#, r#"host=y a=["9","1KB"]"#],
        );
        check("nothing | stats values(size) a", &["a=[]"]);
    }
}
