//! `count_uniq(a, b) [limit N]`: number of distinct tuples of values, without the tuple of empty
//! values; counted up to N.
//!
//! Exact. Each worker keeps every tuple, up to the limit, in the query's memory.

use std::collections::HashSet;

use super::aggregate::{Aggregate, Input, PerGroup, VectorRows};
use super::call::FieldsFunction;
use crate::base::partial_state::{Decoder, Encoder};
use crate::base::{Buffer, Meter, RunError};
use crate::block::Scratch;
use crate::lang::pipe::operator::Documentation;
use crate::lang::pipe::tuples::{ENTRY_BYTES, put_part};

pub(super) static COUNT_UNIQ: FieldsFunction = FieldsFunction {
    has_limit: true,
    only_counts: |call| call.limit.is_none(),
    ignores_repeats: |_| true,
    ..FieldsFunction::new(
        Documentation {
            name: "count_uniq",
            aliases: &[],
            syntax: "count_uniq(<field>, …) [limit <n>]",
            summary: "counts distinct combinations of values",
            example: "count_uniq(user, host) u",
        },
        |call| {
            let count = CountUniq { limit: call.limit(), key: Buffer::default() };
            PerGroup::boxed(count, &call.looked_at())
        },
    )
};

pub(super) struct CountUniq {
    pub limit: u64,
    pub key: Buffer,
}

/// Distinct tuples, each value behind its length.
type Tuples = HashSet<Box<[u8]>, foldhash::fast::RandomState>;

/// Writes the tuple of a row, and returns whether one of its values is not empty.
#[inline]
pub(super) fn write_tuple(
    input: &Input<'_>,
    row: usize,
    scratch: &mut Scratch,
    key: &mut Buffer,
    meter: &mut Meter,
) -> Result<bool, RunError> {
    key.clear(meter);
    let mut any = false;
    input.each(row, scratch, |value| {
        any |= !value.is_empty();
        put_part(value, key, meter)
    })?;
    Ok(any)
}

impl CountUniq {
    /// Adds the tuple in `key`, which is not empty.
    #[inline]
    fn take(&self, tuples: &mut Tuples, meter: &mut Meter) -> Result<(), RunError> {
        let key = self.key.bytes();
        if (tuples.len() as u64) < self.limit && !tuples.contains(key) {
            meter.take(key.len() + ENTRY_BYTES)?;
            tuples.insert(key.into());
        }
        Ok(())
    }
}

impl Aggregate for CountUniq {
    type State = Tuples;

    #[inline]
    fn add(
        &mut self,
        tuples: &mut Tuples,
        input: &Input<'_>,
        row: usize,
        scratch: &mut Scratch,
        meter: &mut Meter,
    ) -> Result<(), RunError> {
        match write_tuple(input, row, scratch, &mut self.key, meter)? {
            true => self.take(tuples, meter),
            false => Ok(()),
        }
    }

    const TAKES_VECTORS: bool = true;

    fn add_vector(
        &mut self,
        states: &mut [Self::State],
        rows: &VectorRows<'_>,
        meter: &mut Meter,
    ) -> Result<(), RunError> {
        rows.each_text(|group, value| {
            self.key.clear(meter);
            put_part(value, &mut self.key, meter)?;
            self.take(&mut states[group], meter)
        })
    }

    fn merge(
        &mut self,
        own: &mut Tuples,
        other: Tuples,
        meter: &mut Meter,
    ) -> Result<(), RunError> {
        for tuple in other {
            let bytes = tuple.len() + ENTRY_BYTES;
            if own.len() as u64 >= self.limit || !own.insert(tuple) {
                meter.give_back(bytes);
            }
        }
        Ok(())
    }

    fn encode(&self, tuples: &Self::State, out: &mut Encoder<'_>) -> Result<(), RunError> {
        out.number(tuples.len() as u64)?;
        tuples.iter().try_for_each(|tuple| out.bytes(tuple))
    }

    fn decode(&self, from: &mut Decoder<'_>, meter: &mut Meter) -> Result<Self::State, RunError> {
        let mut tuples = Tuples::default();
        for _ in 0..from.length(size_of::<u32>())? {
            let tuple = from.bytes()?;
            if tuples.insert(tuple.into()) {
                meter.take(tuple.len() + ENTRY_BYTES)?;
            }
        }
        Ok(tuples)
    }

    fn write(&self, tuples: &mut Tuples, _seconds: Option<f64>, out: &mut Vec<u8>) {
        out.extend_from_slice(tuples.len().to_string().as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use crate::lang::pipe::tests::check;

    #[test]
    fn different_values() {
        check("* | stats count_uniq(host) n, count_uniq(size) m", &["n=2 m=3"]);
        check("* | stats count_uniq(host, level) n", &["n=3"]);
        check("* | stats count_uniq(size) limit 2 as few", &["few=2"]);
        check("* | stats count_uniq(size) limit 3 a, count_uniq(size) limit 4 b", &["a=3 b=3"]);
        check("* | stats count_uniq(none) n", &["n=0"]);
        check("* | stats count_uniq(h*) n", &["n=2"]);
    }
}
