//! `count_uniq_hash(a, b) [limit N]`: number of distinct hashes of tuples of values, without the
//! tuple of empty values.
//!
//! As `count_uniq`, but only 64 bits are kept of each tuple. Of n distinct tuples, about n² / 2⁶⁵
//! collide with others: for 100 million tuples, one answer in 4,000 is too small by one.

use std::collections::HashSet;
use std::hash::{BuildHasher, Hasher};

use super::aggregate::{Aggregate, Input, PerGroup};
use super::call::FieldsFunction;
use super::count_uniq::write_tuple;
use crate::base::partial_state::{Decoder, Encoder};
use crate::base::{Buffer, Meter, RunError};
use crate::block::Scratch;
use crate::lang::pipe::operator::Documentation;

/// Approximate memory of an entry of the set.
const ENTRY_BYTES: usize = 18;
/// Fixed, because all workers of a query must hash alike.
const SEED: u64 = 0x9e37_79b9_7f4a_7c15;

pub(super) static COUNT_UNIQ_HASH: FieldsFunction = FieldsFunction {
    has_limit: true,
    ignores_repeats: |_| true,
    ..FieldsFunction::new(
        Documentation {
            name: "count_uniq_hash",
            aliases: &[],
            syntax: "count_uniq_hash(<field>, …) [limit <n>]",
            summary: "counts distinct combinations of values by 64-bit hashes, with less memory \
                      than count_uniq",
            example: "count_uniq_hash(user) u",
        },
        |call| {
            let count = CountUniqHash { limit: call.limit(), key: Buffer::default() };
            PerGroup::boxed(count, &call.looked_at())
        },
    )
};

pub(super) struct CountUniqHash {
    pub limit: u64,
    pub key: Buffer,
}

/// Hashes of distinct tuples.
type Hashes = HashSet<u64, foldhash::fast::RandomState>;

impl Aggregate for CountUniqHash {
    type State = Hashes;

    #[inline]
    fn add(
        &mut self,
        hashes: &mut Hashes,
        input: &Input<'_>,
        row: usize,
        scratch: &mut Scratch,
        meter: &mut Meter,
    ) -> Result<(), RunError> {
        if write_tuple(input, row, scratch, &mut self.key, meter)?
            && (hashes.len() as u64) < self.limit
        {
            let mut hasher = foldhash::quality::FixedState::with_seed(SEED).build_hasher();
            hasher.write(self.key.bytes());
            if hashes.insert(hasher.finish()) {
                meter.take(ENTRY_BYTES)?;
            }
        }
        Ok(())
    }

    fn merge(
        &mut self,
        own: &mut Hashes,
        other: Hashes,
        meter: &mut Meter,
    ) -> Result<(), RunError> {
        for hash in other {
            if own.len() as u64 >= self.limit || !own.insert(hash) {
                meter.give_back(ENTRY_BYTES);
            }
        }
        Ok(())
    }

    fn encode(&self, hashes: &Self::State, out: &mut Encoder<'_>) -> Result<(), RunError> {
        out.number(hashes.len() as u64)?;
        hashes.iter().try_for_each(|hash| out.number(*hash))
    }

    fn decode(&self, from: &mut Decoder<'_>, meter: &mut Meter) -> Result<Self::State, RunError> {
        let mut hashes = Hashes::default();
        for _ in 0..from.length(size_of::<u64>())? {
            if hashes.insert(from.number()?) {
                meter.take(ENTRY_BYTES)?;
            }
        }
        Ok(hashes)
    }

    fn write(&self, hashes: &mut Hashes, _seconds: Option<f64>, out: &mut Vec<u8>) {
        out.extend_from_slice(hashes.len().to_string().as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use crate::lang::pipe::tests::check;

    #[test]
    fn different_hashes() {
        check("* | stats count_uniq_hash(host) n, count_uniq_hash(size) m", &["n=2 m=3"]);
        check("* | stats count_uniq_hash(host, level) n", &["n=3"]);
        check("* | stats count_uniq_hash(size) limit 2 n, count_uniq_hash(none) m", &["n=2 m=0"]);
    }
}
