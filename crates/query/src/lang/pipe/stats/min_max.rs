//! `min(a, b)`, `max(a, b)`: the first or last value in the order of `sort`: numbers by size, then
//! times, then text.
//!
//! Empty values are left out; the result is empty if there are no others. Exact; the value is shown
//! as it stands in the line.

use std::cmp::Ordering;

use super::aggregate::{Aggregate, Input, PerGroup, VectorRows, decode_optional};
use super::call::FieldsFunction;
use crate::base::number::{SortKind, compare_kinds};
use crate::base::partial_state::{Decoder, Encoder, wrong_state};
use crate::base::{Meter, RunError};
use crate::block::{Scratch, VectorValues, as_read, is_plain};
use crate::lang::pipe::operator::Documentation;

pub(super) static MIN: FieldsFunction = FieldsFunction {
    ignores_repeats: |_| true,
    ..FieldsFunction::new(
        Documentation {
            name: "min",
            aliases: &[],
            syntax: "min(<field>, …)",
            summary: "finds the least value, in the order of sort",
            example: "min(took) least",
        },
        |call| PerGroup::boxed(MinMax { better: LEAST }, &call.looked_at()),
    )
};

pub(super) static MAX: FieldsFunction = FieldsFunction {
    ignores_repeats: |_| true,
    ..FieldsFunction::new(
        Documentation {
            name: "max",
            aliases: &[],
            syntax: "max(<field>, …)",
            summary: "finds the greatest value, in the order of sort",
            example: "max(took) most",
        },
        |call| PerGroup::boxed(MinMax { better: GREATEST }, &call.looked_at()),
    )
};

/// `min` or `max`.
pub(super) struct MinMax {
    /// How a better value compares with the present best.
    pub better: Ordering,
}

/// A lesser value is better.
pub(super) const LEAST: Ordering = Ordering::Less;
/// A greater value is better.
pub(super) const GREATEST: Ordering = Ordering::Greater;

/// The best value so far, with its kind.
pub(super) type Best = Option<(SortKind, Box<[u8]>)>;

/// Replaces the best value by a better one, and returns whether it did.
#[inline]
pub(super) fn take_better(
    best: &mut Best,
    value: &[u8],
    better: Ordering,
    meter: &mut Meter,
) -> Result<bool, RunError> {
    if value.is_empty() {
        return Ok(false);
    }
    let kind = SortKind::of(value);
    let length = match best {
        None => 0,
        Some((best_kind, best))
            if compare_kinds((kind, value), (*best_kind, best.as_ref())) == better =>
        {
            best.len()
        }
        Some(_) => return Ok(false),
    };
    meter.give_back(length);
    meter.take(value.len())?;
    *best = Some((kind, value.into()));
    Ok(true)
}

/// Encodes the best value.
pub(super) fn encode_best(best: &Best, out: &mut Encoder<'_>) -> Result<(), RunError> {
    out.optional(best.as_ref().map(|(_, value)| &**value))
}

/// Decodes a best value; its bytes are counted.
pub(super) fn decode_best(from: &mut Decoder<'_>, meter: &mut Meter) -> Result<Best, RunError> {
    let Some(value) = decode_optional(from, meter)? else { return Ok(None) };
    match value.is_empty() {
        true => Err(wrong_state("a value that is empty is never the best")),
        false => Ok(Some((SortKind::of(&value), value))),
    }
}

impl MinMax {
    /// The index of the best value in each group of `rows`; `usize::MAX` where there is no value.
    /// `compare` compares two values by their indexes.
    fn best_of(
        &self,
        rows: &VectorRows<'_>,
        compare: impl Fn(usize, usize) -> Ordering,
    ) -> Vec<usize> {
        let mut best = vec![usize::MAX; rows.groups.len()];
        for row in 0..rows.vector.rows() {
            let (at, best) = (rows.vector.at(row), &mut best[rows.place(row)]);
            if at >= rows.vector.values.len() || at == *best {
                continue;
            }
            if *best == usize::MAX || compare(at, *best) == self.better {
                *best = at;
            }
        }
        best
    }
}

impl Aggregate for MinMax {
    type State = Best;

    #[inline]
    fn add(
        &mut self,
        best: &mut Best,
        input: &Input<'_>,
        row: usize,
        scratch: &mut Scratch,
        meter: &mut Meter,
    ) -> Result<(), RunError> {
        input.each(row, scratch, |value| take_better(best, value, self.better, meter).map(drop))
    }

    const TAKES_VECTORS: bool = true;

    fn add_vector(
        &mut self,
        states: &mut [Self::State],
        rows: &VectorRows<'_>,
        meter: &mut Meter,
    ) -> Result<(), RunError> {
        let mut buffer = Vec::new();
        let values = &rows.vector.values;
        let mut take = |group: usize, at: usize, meter: &mut Meter| {
            let best = &mut states[rows.groups[group] as usize];
            take_better(best, values.text(at, &mut buffer), self.better, meter).map(drop)
        };
        let best = match values {
            VectorValues::Whole(numbers) => self.best_of(rows, |a, b| numbers[a].cmp(&numbers[b])),
            VectorValues::Computed(numbers) => {
                // The text of any other number may not be read as that number.
                for (row, number) in numbers.iter().enumerate() {
                    if !is_plain(*number) {
                        take(rows.place(row), row, meter)?;
                    }
                }
                self.best_of(rows, |a, b| match (is_plain(numbers[a]), is_plain(numbers[b])) {
                    (true, true) => as_read(numbers[a]).total_cmp(&as_read(numbers[b])),
                    // Any plain number is better than others.
                    (a, b) if a == b => Ordering::Equal,
                    (true, false) => self.better,
                    (false, _) => self.better.reverse(),
                })
            }
            VectorValues::Texts(texts) => {
                let kinds: Vec<SortKind> =
                    (0..texts.len()).map(|at| SortKind::of(texts.get(at))).collect();
                let is_empty = |at: usize| kinds[at] == SortKind::Empty;
                self.best_of(rows, |a, b| match (is_empty(a), is_empty(b)) {
                    (false, false) => {
                        compare_kinds((kinds[a], texts.get(a)), (kinds[b], texts.get(b)))
                    }
                    (a, b) if a == b => Ordering::Equal,
                    (false, true) => self.better,
                    (true, _) => self.better.reverse(),
                })
            }
        };
        let found = best.into_iter().enumerate().filter(|(_, at)| *at != usize::MAX);
        found.into_iter().try_for_each(|(group, at)| take(group, at, meter))
    }

    fn merge(&mut self, best: &mut Best, other: Best, meter: &mut Meter) -> Result<(), RunError> {
        let Some((_, value)) = other else { return Ok(()) };
        meter.give_back(value.len());
        take_better(best, &value, self.better, meter).map(drop)
    }

    fn encode(&self, best: &Self::State, out: &mut Encoder<'_>) -> Result<(), RunError> {
        encode_best(best, out)
    }

    fn decode(&self, from: &mut Decoder<'_>, meter: &mut Meter) -> Result<Self::State, RunError> {
        decode_best(from, meter)
    }

    fn write(&self, best: &mut Best, _seconds: Option<f64>, out: &mut Vec<u8>) {
        if let Some((_, value)) = best {
            out.extend_from_slice(value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::number::compare_values;
    use crate::lang::pipe::tests::check;

    #[test]
    fn first_and_last_values() {
        check("* | stats min(size) a, max(size) b", &["a=9 b=1KB"]);
        check("* | stats min(size, level) a, max(size, level) b", &["a=9 b=info"]);
        check("* | stats min(none) a, max(none) b, count() n", &["n=4"]);
        check("* | stats by (level) max(si*) b", &["level=error b=1KB", "level=info b=9"]);
        check("* | stats max(_time) t", &["t=1970-01-01T00:00:00.00000004Z"]);
    }

    #[test]
    fn equal_numbers_have_an_order_too() {
        // The result then does not depend on which value is read first, or by which thread.
        let values = ["1.0", "1", "1e0", "01", "1B", "1ns"];
        for (better, expected) in [(LEAST, "01"), (GREATEST, "1ns")] {
            for first in 0..values.len() {
                let mut best = Best::default();
                let mut meter = crate::lang::context::Context::default().meter();
                for value in values[first..].iter().chain(&values[..first]) {
                    take_better(&mut best, value.as_bytes(), better, &mut meter).unwrap();
                }
                assert_eq!(&*best.unwrap().1, expected.as_bytes());
            }
        }
        assert!(values.iter().all(|v| compare_values(v.as_bytes(), b"01").is_ge()));
    }
}
