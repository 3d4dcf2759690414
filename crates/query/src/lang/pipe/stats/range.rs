//! `range(a, b)`: the greatest of the numbers in the fields minus the least; durations in
//! nanoseconds, sizes in bytes; `NaN` if there are no numbers. An addition: VictoriaLogs has no
//! such function.
//!
//! Values that are not entirely a number, and addresses, are left out. Exact, except for the
//! rounding of the difference.

use super::aggregate::{Aggregate, Input, PerGroup, VectorRows};
use super::call::FieldsFunction;
use crate::base::number::{parse_quantity, write_number};
use crate::base::partial_state::{Decoder, Encoder};
use crate::base::{Meter, RunError};
use crate::block::Scratch;
use crate::lang::pipe::operator::Documentation;

pub(super) static RANGE: FieldsFunction = FieldsFunction {
    ignores_repeats: |_| true,
    ..FieldsFunction::new(
        Documentation {
            name: "range",
            aliases: &[],
            syntax: "range(<field>, …)",
            summary: "computes the greatest number minus the least",
            example: "range(took) spread",
        },
        |call| PerGroup::boxed(Range, &call.looked_at()),
    )
};

struct Range;

/// The least and the greatest number; none if there are no numbers.
type Ends = Option<(f64, f64)>;

fn take(ends: &mut Ends, least: f64, greatest: f64) {
    let known = ends.get_or_insert((least, greatest));
    *known = (known.0.min(least), known.1.max(greatest));
}

impl Aggregate for Range {
    type State = Ends;

    #[inline]
    fn add(
        &mut self,
        ends: &mut Ends,
        input: &Input<'_>,
        row: usize,
        scratch: &mut Scratch,
        _meter: &mut Meter,
    ) -> Result<(), RunError> {
        input.each(row, scratch, |value| {
            if let Some(number) = parse_quantity(value) {
                take(ends, number, number);
            }
            Ok(())
        })
    }

    const TAKES_VECTORS: bool = true;

    fn add_vector(
        &mut self,
        states: &mut [Self::State],
        rows: &VectorRows<'_>,
        _meter: &mut Meter,
    ) -> Result<(), RunError> {
        rows.each_number(|group, number| {
            take(&mut states[group], number, number);
            Ok(())
        })
    }

    fn merge(&mut self, ends: &mut Ends, other: Ends, _meter: &mut Meter) -> Result<(), RunError> {
        if let Some((least, greatest)) = other {
            take(ends, least, greatest);
        }
        Ok(())
    }

    fn encode(&self, ends: &Self::State, out: &mut Encoder<'_>) -> Result<(), RunError> {
        out.flag(ends.is_some())?;
        ends.map_or(Ok(()), |(least, greatest)| {
            out.float(least)?;
            out.float(greatest)
        })
    }

    fn decode(&self, from: &mut Decoder<'_>, _meter: &mut Meter) -> Result<Self::State, RunError> {
        Ok(if from.flag()? { Some((from.float()?, from.float()?)) } else { None })
    }

    fn write(&self, ends: &mut Ends, _seconds: Option<f64>, out: &mut Vec<u8>) {
        write_number(ends.map_or(f64::NAN, |(least, greatest)| greatest - least), out);
    }
}

#[cfg(test)]
mod tests {
    use crate::lang::pipe::tests::check;

    #[test]
    fn ranges() {
        check("* | stats range(size) r", &["r=991"]);
        check("* | stats by (level) range(size) r", &["level=error r=990", "level=info r=0"]);
        check(
            "* | stats range(level) r, range(none) n, range(si*, size) b",
            &["r=NaN n=NaN b=991"],
        );
        check("* | stats range(size) if (ok) r", &["r=0"]);
    }
}
