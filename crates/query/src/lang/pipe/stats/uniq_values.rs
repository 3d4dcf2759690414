//! `uniq_values(a, b) [limit N]`: the distinct values of the fields that are not empty, as a JSON
//! array in the order of `sort`.
//!
//! With a limit, N of them; which ones is undefined. Otherwise exact. Each is kept in the query's
//! memory.

use std::collections::HashSet;

use super::aggregate::{Aggregate, Input, PerGroup};
use super::call::FieldsFunction;
use crate::base::number::{SortKind, compare_kinds};
use crate::base::partial_state::{Decoder, Encoder};
use crate::base::{Meter, RunError};
use crate::block::Scratch;
use crate::lang::pipe::operator::Documentation;
use crate::lang::pipe::tuples::ENTRY_BYTES;

pub(super) static UNIQ_VALUES: FieldsFunction = FieldsFunction {
    has_limit: true,
    is_order_free: |call| call.limit.is_none(),
    ignores_repeats: |call| call.limit.is_none(),
    ..FieldsFunction::new(
        Documentation {
            name: "uniq_values",
            aliases: &[],
            syntax: "uniq_values(<field>, …) [limit <n>]",
            summary: "collects the distinct values that are not empty, as a JSON array",
            example: "uniq_values(user) v",
        },
        |call| PerGroup::boxed(UniqValues { limit: call.limit() }, &call.looked_at()),
    )
};

pub(super) struct UniqValues {
    pub limit: u64,
}

/// Memory of a value besides its bytes, including what sorting needs.
const VALUE_BYTES: usize = ENTRY_BYTES + size_of::<(SortKind, &[u8])>();

type Set = HashSet<Box<[u8]>, foldhash::fast::RandomState>;

impl Aggregate for UniqValues {
    type State = Set;

    #[inline]
    fn add(
        &mut self,
        set: &mut Set,
        input: &Input<'_>,
        row: usize,
        scratch: &mut Scratch,
        meter: &mut Meter,
    ) -> Result<(), RunError> {
        input.each(row, scratch, |value| {
            let more = !value.is_empty() && (set.len() as u64) < self.limit;
            if more && !set.contains(value) {
                meter.take(value.len() + VALUE_BYTES)?;
                set.insert(value.into());
            }
            Ok(())
        })
    }

    fn merge(&mut self, set: &mut Set, other: Set, meter: &mut Meter) -> Result<(), RunError> {
        for value in other {
            let bytes = value.len() + VALUE_BYTES;
            if set.len() as u64 >= self.limit || !set.insert(value) {
                meter.give_back(bytes);
            }
        }
        Ok(())
    }

    fn encode(&self, set: &Self::State, out: &mut Encoder<'_>) -> Result<(), RunError> {
        out.number(set.len() as u64)?;
        set.iter().try_for_each(|value| out.bytes(value))
    }

    fn decode(&self, from: &mut Decoder<'_>, meter: &mut Meter) -> Result<Self::State, RunError> {
        let mut set = Set::default();
        for _ in 0..from.length(size_of::<u32>())? {
            let value = from.bytes()?;
            if set.insert(value.into()) {
                meter.take(value.len() + VALUE_BYTES)?;
            }
        }
        Ok(set)
    }

    fn text_bytes(&self, set: &Set) -> usize {
        set.iter().map(|value| value.len() + 3).sum()
    }

    fn write(&self, set: &mut Set, _seconds: Option<f64>, out: &mut Vec<u8>) {
        let mut values: Vec<(SortKind, &[u8])> =
            set.iter().map(|v| (SortKind::of(v), &**v)).collect();
        values.sort_unstable_by(|a, b| compare_kinds(*a, *b));
        out.push(b'[');
        for (i, (_, value)) in values.into_iter().enumerate() {
            out.extend_from_slice(if i > 0 { b"," } else { b"" });
            text::json::write_text(value, out);
        }
        out.push(b']');
    }
}

#[cfg(test)]
mod tests {
    use crate::lang::pipe::tests::check;

    #[test]
    fn different_values() {
        check("* | stats uniq_values(size) a", &[r#"a=["9","10","1KB"]"#]);
        check("* | stats uniq_values(host, level) a", &[r#"a=["error","info","x","y"]"#]);
        check("* | stats uniq_values(none) a, uniq_values(h*) b", &[r#"a=[] b=["x","y"]"#]);
        check("level:info | stats uniq_values(level) limit 1 a", &[r#"a=["info"]"#]);
    }
}
