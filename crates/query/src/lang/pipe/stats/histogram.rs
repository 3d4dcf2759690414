//! `histogram(a)`: counts the numbers in a field by ranges, 18 per decimal power, as a JSON array
//! of `{"vmrange":"1.000e+00...1.136e+00","hits":5}`; empty ranges are left out.
//!
//! The ranges are those of VictoriaMetrics: from 10^-9 to 10^18, one below and one above. A range
//! includes its upper bound. Negative numbers, addresses and values that are not entirely a number
//! are left out. Ranges come in the order of their texts, as in VictoriaLogs. A group keeps at most
//! 488 ranges.

use std::io::Write;

use super::aggregate::{Aggregate, Input, PerGroup, VectorRows};
use super::call::{FieldsFunction, Without};
use crate::base::number::parse_quantity;
use crate::base::partial_state::{Decoder, Encoder, wrong_state};
use crate::base::{Meter, RunError};
use crate::block::Scratch;
use crate::lang::pipe::operator::Documentation;

/// Decimal power at which the ranges begin.
const POWER_MIN: i32 = -9;
/// Decimal power at which the ranges end.
const POWER_MAX: i32 = 18;
/// Ranges between two decimal powers.
const RANGES_OF_POWER: i32 = 18;
/// Index of the range above all others.
const ABOVE: u16 = ((POWER_MAX - POWER_MIN) * RANGES_OF_POWER) as u16 + 1;

pub(super) static HISTOGRAM: FieldsFunction = FieldsFunction {
    without: Without::One,
    ..FieldsFunction::new(
        Documentation {
            name: "histogram",
            aliases: &[],
            syntax: "histogram(<field>)",
            summary: "counts numbers by ranges, 18 for each power of ten, as a JSON array",
            example: "histogram(took) h",
        },
        |call| PerGroup::boxed(Histogram, &call.looked_at()),
    )
};

pub(super) struct Histogram;

/// Indexes of ranges with their hits, ascending. Index 0 is the range below all others.
pub(super) type Hits = Vec<(u16, u64)>;

/// The index of the range that holds a number.
fn place(number: f64) -> Option<u16> {
    if number < 0.0 {
        return None;
    }
    let at = (number.log10() - f64::from(POWER_MIN)) * f64::from(RANGES_OF_POWER);
    Some(if at < 0.0 {
        0
    } else if at >= f64::from(ABOVE - 1) {
        ABOVE
    } else {
        // A range includes its upper bound.
        let whole = at as u16;
        if f64::from(whole) == at && whole > 0 { whole } else { whole + 1 }
    })
}

/// `1.136e+00`
fn write_bound(bound: f64, out: &mut Vec<u8>) {
    let text = format!("{bound:.3e}");
    let (digits, power) = text.split_once('e').expect("it is written with a power");
    let power: i32 = power.parse().expect("the power is a number");
    let sign = if power < 0 { '-' } else { '+' };
    write!(out, "{digits}e{sign}{:02}", power.abs()).expect("writing to memory");
}

/// The upper bound of the range at index `ranges`.
fn bound(ranges: u16) -> f64 {
    10f64.powf(f64::from(POWER_MIN) + f64::from(ranges) / f64::from(RANGES_OF_POWER))
}

fn count(hits: &mut Hits, place: u16, more: u64, meter: &mut Meter) -> Result<(), RunError> {
    match hits.binary_search_by_key(&place, |(place, _)| *place) {
        Ok(found) => hits[found].1 += more,
        Err(at) => {
            // A vector may reserve room for as many again.
            meter.take(2 * size_of::<(u16, u64)>())?;
            hits.insert(at, (place, more));
        }
    }
    Ok(())
}

impl Aggregate for Histogram {
    type State = Hits;

    #[inline]
    fn add(
        &mut self,
        hits: &mut Hits,
        input: &Input<'_>,
        row: usize,
        scratch: &mut Scratch,
        meter: &mut Meter,
    ) -> Result<(), RunError> {
        input.each(row, scratch, |value| match parse_quantity(value).and_then(place) {
            Some(place) => count(hits, place, 1, meter),
            None => Ok(()),
        })
    }

    const TAKES_VECTORS: bool = true;

    fn add_vector(
        &mut self,
        states: &mut [Self::State],
        rows: &VectorRows<'_>,
        meter: &mut Meter,
    ) -> Result<(), RunError> {
        rows.each_number(|group, number| match place(number) {
            Some(place) => count(&mut states[group], place, 1, meter),
            None => Ok(()),
        })
    }

    fn merge(&mut self, hits: &mut Hits, other: Hits, meter: &mut Meter) -> Result<(), RunError> {
        meter.give_back(other.len() * 2 * size_of::<(u16, u64)>());
        other.into_iter().try_for_each(|(place, more)| count(hits, place, more, meter))
    }

    fn encode(&self, hits: &Self::State, out: &mut Encoder<'_>) -> Result<(), RunError> {
        out.number(hits.len() as u64)?;
        hits.iter().try_for_each(|(place, hits)| {
            out.number(u64::from(*place))?;
            out.number(*hits)
        })
    }

    fn decode(&self, from: &mut Decoder<'_>, meter: &mut Meter) -> Result<Self::State, RunError> {
        let mut hits = Hits::new();
        for _ in 0..from.length(2 * size_of::<u64>())? {
            let place = u16::try_from(from.number()?).ok().filter(|place| *place <= ABOVE);
            let place = place.ok_or_else(|| wrong_state("there is no such range"))?;
            count(&mut hits, place, from.count()?, meter)?;
        }
        Ok(hits)
    }

    fn write(&self, hits: &mut Hits, _seconds: Option<f64>, out: &mut Vec<u8>) {
        let range = |place: u16| {
            let mut text = Vec::new();
            match place {
                0 => text.push(b'0'),
                place => write_bound(bound(place - 1), &mut text),
            }
            text.extend_from_slice(b"...");
            match place {
                ABOVE => text.extend_from_slice(b"+Inf"),
                place => write_bound(bound(place), &mut text),
            }
            text
        };
        let mut ranges: Vec<(Vec<u8>, u64)> =
            hits.iter().map(|(place, hits)| (range(*place), *hits)).collect();
        ranges.sort_unstable();
        out.push(b'[');
        for (i, (range, hits)) in ranges.iter().enumerate() {
            out.extend_from_slice(if i > 0 { b"," } else { b"" });
            out.extend_from_slice(b"{\"vmrange\":\"");
            out.extend_from_slice(range);
            write!(out, "\",\"hits\":{hits}}}").expect("writing to memory");
        }
        out.push(b']');
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lang::pipe::tests::check;

    #[test]
    fn ranges() {
        let check = |number: f64, expected: &str| {
            let mut out = Vec::new();
            Histogram.write(&mut vec![(place(number).unwrap(), 1)], None, &mut out);
            let expected = format!("[{{\"vmrange\":\"{expected}\",\"hits\":1}}]");
            assert_eq!(String::from_utf8(out).unwrap(), expected, "{number}");
        };
        check(0.0, "0...1.000e-09");
        check(1e-9, "1.000e-09...1.136e-09");
        check(1.1e-9, "1.000e-09...1.136e-09");
        check(1.0, "8.799e-01...1.000e+00");
        check(1.1, "1.000e+00...1.136e+00");
        check(10.0, "8.799e+00...1.000e+01");
        check(1024.0, "1.000e+03...1.136e+03");
        check(9.9e17, "8.799e+17...1.000e+18");
        check(1e18, "1.000e+18...+Inf");
        check(f64::INFINITY, "1.000e+18...+Inf");
        assert_eq!(place(-1.0), None);
    }

    #[test]
    fn histograms() {
        check(
            "* | stats histogram(size) h",
            &[concat!(
                r#"h=[{"vmrange":"8.799e+00...1.000e+01","hits":2},"#,
                r#"{"vmrange":"8.799e+02...1.000e+03","hits":1}]"#
            )],
        );
        check("* | stats histogram(level) h", &["h=[]"]);
    }
}
