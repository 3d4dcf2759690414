//! `sketch(a, b)`: the distribution of the numbers in the fields as a short text, from which
//! quantiles can be computed later, also of several sketches together; `sketch_quantile(0.99, a)`:
//! the number below which this share of the numbers lies.
//!
//! Both read numbers, and texts that `sketch` wrote. The quantile of a day can therefore be
//! computed from sketches of ten seconds each; it could not be computed from their quantiles.
//!
//! This is DDSketch (C. Masson, J. Rim, H. Lee, VLDB 2019) with bins in an array. The code is our
//! own because the text comes from lines, which may hold anything: it is checked here.

use std::fmt;

use super::aggregate::{Aggregate, Input, PerGroup, States};
use super::call::{Call, FieldsFunction, Function, OwnFunction};
use super::{parse_fields, write_fields};
use crate::base::names::NamePattern;
use crate::base::number::{parse_number, parse_quantity, write_number};
use crate::base::partial_state::{Decoder, Encoder, wrong_state};
use crate::base::{FieldSet, Meter, RunError};
use crate::block::Scratch;
use crate::lang::pipe::operator::Documentation;
use crate::lang::syntax::cursor::Cursor;
use crate::lang::syntax::error::ParseError;

/// The ratio of the bounds of a bin: 1% relative error.
const GAMMA: f64 = 1.01 / 0.99;
/// Most bins of one sign. Beyond it, the bins of the smallest numbers are merged.
const BINS_MAX: usize = 2_048;
/// Numbers with a smaller absolute value count as zero.
const LEAST: f64 = 1e-9;
/// Greatest key of a bin, beyond that of the greatest number. A text with a greater key is refused.
const KEY_MAX: i32 = 40_000;
/// The beginning of every sketch as text.
const PREFIX: &str = "dd1:";

pub(super) static SKETCH: FieldsFunction = FieldsFunction::new(
    Documentation {
        name: "sketch",
        aliases: &[],
        syntax: "sketch(<field>, …)",
        summary: "writes the distribution of the numbers as a text, from which sketch_quantile \
                  computes quantiles",
        example: "sketch(took) s",
    },
    |call| PerGroup::boxed(Write, &call.looked_at()),
);

pub(super) static SKETCH_QUANTILE: OwnFunction = OwnFunction {
    doc: Documentation {
        name: "sketch_quantile",
        aliases: &[],
        syntax: "sketch_quantile(<share>, <field>, …)",
        summary: "computes the number below which this share of numbers and sketches lies, off by \
                  at most 1%",
        example: "sketch_quantile(0.99, s) p99",
    },
    parse,
};

/// `sketch_quantile` with its arguments.
#[derive(Clone, Debug, PartialEq)]
struct QuantileCall {
    /// The share of numbers below the quantile, from 0 to 1.
    share: f64,
    /// Fields; at least one.
    fields: Vec<NamePattern>,
}

/// Parses `share, field, …)`.
fn parse(cursor: &mut Cursor<'_>, _position: usize) -> Result<Function, ParseError> {
    let what = "a number from 0 to 1";
    let written = cursor.expect_string(false, what)?;
    let share = parse_number(written.text.as_bytes())
        .filter(|share| (0.0..=1.0).contains(share))
        .ok_or_else(|| cursor.error_at(written.position, &[what], "this is not a share"))?;
    cursor.expect(',', "sketch_quantile(share, field)")?;
    let mut fields = parse_fields(cursor, SKETCH_QUANTILE.doc.name)?;
    if fields.is_empty() {
        fields.push(NamePattern::ANY);
    }
    Ok(Function::new(QuantileCall { share, fields }))
}

impl fmt::Display for QuantileCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sketch_quantile({}, {})", self.share, write_fields(&self.fields))
    }
}

impl Call for QuantileCall {
    fn name(&self) -> &'static str {
        SKETCH_QUANTILE.doc.name
    }

    fn add_needed(&self, needed: &mut FieldSet) {
        self.fields.iter().for_each(|field| needed.add_pattern(field));
    }

    fn states(&self) -> Box<dyn States> {
        PerGroup::boxed(Tell { share: self.share }, &self.fields)
    }

    fn is_order_free(&self) -> bool {
        true
    }
}

/// `sketch`, running.
struct Write;

/// `sketch_quantile`, running.
struct Tell {
    share: f64,
}

/// Implements both functions, which differ only in their results.
macro_rules! aggregate {
    ($function:ty, $write:expr) => {
        impl Aggregate for $function {
            type State = Sketch;

            #[inline]
            fn add(
                &mut self,
                sketch: &mut Sketch,
                input: &Input<'_>,
                row: usize,
                scratch: &mut Scratch,
                meter: &mut Meter,
            ) -> Result<(), RunError> {
                input.each(row, scratch, |value| sketch.add_value(value, meter))
            }

            fn merge(
                &mut self,
                sketch: &mut Sketch,
                other: Sketch,
                meter: &mut Meter,
            ) -> Result<(), RunError> {
                sketch.merge(&other, meter)?;
                meter.give_back(other.bytes());
                Ok(())
            }

            fn encode(&self, sketch: &Sketch, out: &mut Encoder<'_>) -> Result<(), RunError> {
                out.number(sketch.zeros)?;
                for bins in [&sketch.negative, &sketch.positive] {
                    out.number(bins.first as u32 as u64)?;
                    out.number(bins.counts.len() as u64)?;
                    bins.counts.iter().try_for_each(|count| out.number(*count))?;
                }
                Ok(())
            }

            fn decode(
                &self,
                from: &mut Decoder<'_>,
                meter: &mut Meter,
            ) -> Result<Sketch, RunError> {
                let mut sketch = Sketch { zeros: from.number()?, ..Sketch::default() };
                for is_negative in [true, false] {
                    let first = from.number()? as u32 as i32;
                    let length = from.length(size_of::<u64>())?;
                    if length > BINS_MAX || first.unsigned_abs() > KEY_MAX as u32 {
                        return Err(wrong_state("a sketch has more bins than there are"));
                    }
                    for bin in 0..length {
                        let count = from.number()?;
                        sketch.bins(is_negative).add(first + bin as i32, count, meter)?;
                    }
                }
                Ok(sketch)
            }

            fn write(&self, sketch: &mut Sketch, _seconds: Option<f64>, out: &mut Vec<u8>) {
                let write: fn(&$function, &Sketch, &mut Vec<u8>) = $write;
                write(self, sketch, out);
            }
        }
    };
}

aggregate!(Write, |_, sketch, out| sketch.write(out));
aggregate!(Tell, |tell, sketch, out| write_number(sketch.quantile(tell.share), out));

/// Counts of numbers by their magnitude.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Sketch {
    zeros: u64,
    negative: Bins,
    positive: Bins,
}

/// Counts of consecutive bins. Bin `k` has the numbers above `GAMMA^(k-1)` up to `GAMMA^k`.
#[derive(Clone, Debug, Default, PartialEq)]
struct Bins {
    /// Key of the first bin.
    first: i32,
    counts: Vec<u64>,
}

impl Sketch {
    #[inline]
    fn add_value(&mut self, value: &[u8], meter: &mut Meter) -> Result<(), RunError> {
        if value.starts_with(PREFIX.as_bytes()) {
            return match std::str::from_utf8(value).ok().and_then(Sketch::read) {
                Some(other) => self.merge(&other, meter),
                None => Ok(()),
            };
        }
        match parse_quantity(value) {
            Some(number) if number.is_finite() => self.add(number, meter),
            _ => Ok(()),
        }
    }

    #[inline]
    fn add(&mut self, number: f64, meter: &mut Meter) -> Result<(), RunError> {
        if number.abs() < LEAST {
            self.zeros = self.zeros.saturating_add(1);
            return Ok(());
        }
        let key = (number.abs().ln() / GAMMA.ln()).ceil() as i32;
        self.bins(number < 0.0).add(key, 1, meter)
    }

    fn bins(&mut self, is_negative: bool) -> &mut Bins {
        if is_negative { &mut self.negative } else { &mut self.positive }
    }

    fn merge(&mut self, other: &Sketch, meter: &mut Meter) -> Result<(), RunError> {
        self.zeros = self.zeros.saturating_add(other.zeros);
        for is_negative in [true, false] {
            let from = if is_negative { &other.negative } else { &other.positive };
            // Begins with the greatest bin, so that the array grows once.
            for (key, count) in from.iter().rev() {
                self.bins(is_negative).add(key, count, meter)?;
            }
        }
        Ok(())
    }

    fn bytes(&self) -> usize {
        (self.negative.counts.capacity() + self.positive.counts.capacity()) * size_of::<u64>()
    }

    /// The number at this share of the sorted numbers; NaN if there are none.
    fn quantile(&self, share: f64) -> f64 {
        let (below, above) = (self.negative.total(), self.positive.total());
        let total = below.saturating_add(self.zeros).saturating_add(above);
        if total == 0 {
            return f64::NAN;
        }
        let rank = (share * (total - 1) as f64) as u64;
        let value = |key: i32| GAMMA.powi(key) * 2.0 / (1.0 + GAMMA);
        if rank < below {
            return -value(self.negative.key_at(below - 1 - rank));
        }
        match rank - below < self.zeros {
            true => 0.0,
            false => value(self.positive.key_at(rank - below - self.zeros)),
        }
    }

    /// Appends the text: `dd1:ZEROS:NEGATIVE:POSITIVE`; bins as `KEY=COUNT`, keys as distances from
    /// the bin before.
    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(format!("{PREFIX}{}", self.zeros).as_bytes());
        for bins in [&self.negative, &self.positive] {
            out.push(b':');
            let mut before = 0;
            for (place, (key, count)) in bins.iter().filter(|(_, count)| *count > 0).enumerate() {
                let comma = if place > 0 { "," } else { "" };
                out.extend_from_slice(format!("{comma}{}={count}", key - before).as_bytes());
                before = key;
            }
        }
    }

    /// Parses a text; none if it is not a sketch.
    fn read(text: &str) -> Option<Sketch> {
        let mut parts = text.strip_prefix(PREFIX)?.split(':');
        let zeros = parts.next()?.parse().ok()?;
        let mut sketch = Sketch { zeros, ..Sketch::default() };
        for is_negative in [true, false] {
            let part = parts.next()?;
            let mut bins: Vec<(i32, u64)> = Vec::new();
            for bin in part.split(',').filter(|bin| !bin.is_empty()) {
                let (step, count) = bin.split_once('=')?;
                let before = bins.last().map(|(key, _)| *key);
                let step: i32 = step.parse().ok()?;
                let key = before.unwrap_or(0).checked_add(step)?;
                let is_rising = before.is_none_or(|before| key > before);
                if !is_rising || key.abs() > KEY_MAX || bins.len() >= BINS_MAX {
                    return None;
                }
                bins.push((key, count.parse().ok()?));
            }
            let (&(first, _), &(last, _)) = match (bins.first(), bins.last()) {
                (Some(first), Some(last)) => (first, last),
                _ => continue,
            };
            let first = first.max(last - BINS_MAX as i32 + 1);
            let mut counts = vec![0u64; (last - first + 1) as usize];
            for (key, count) in bins {
                let place = &mut counts[(key.max(first) - first) as usize];
                *place = place.saturating_add(count);
            }
            *sketch.bins(is_negative) = Bins { first, counts };
        }
        parts.next().is_none().then_some(sketch)
    }
}

impl Bins {
    fn iter(&self) -> impl DoubleEndedIterator<Item = (i32, u64)> + '_ {
        self.counts.iter().enumerate().map(|(place, count)| (self.first + place as i32, *count))
    }

    fn total(&self) -> u64 {
        self.counts.iter().fold(0, |total, count| total.saturating_add(*count))
    }

    /// The key of the bin that has the number with this rank, counted from 0 at the least bin.
    fn key_at(&self, rank: u64) -> i32 {
        let mut seen = 0u64;
        let found = self.iter().find(|(_, count)| {
            seen = seen.saturating_add(*count);
            seen > rank
        });
        found.map_or(self.first, |(key, _)| key)
    }

    /// Adds to a bin. If there are too many bins, the smallest ones are merged.
    #[inline]
    fn add(&mut self, key: i32, count: u64, meter: &mut Meter) -> Result<(), RunError> {
        if count == 0 {
            return Ok(());
        }
        let end = self.first + self.counts.len() as i32;
        if self.counts.is_empty() || key < self.first || key >= end {
            self.reach(key, meter)?;
        }
        let place = (key.max(self.first) - self.first) as usize;
        self.counts[place] = self.counts[place].saturating_add(count);
        Ok(())
    }

    /// Makes room for a bin, or for the smallest bin that is kept.
    fn reach(&mut self, key: i32, meter: &mut Meter) -> Result<(), RunError> {
        if self.counts.is_empty() {
            self.first = key;
        }
        let end = (self.first + self.counts.len() as i32).max(key + 1);
        let first = self.first.min(key).max(end - BINS_MAX as i32);
        let length = (end - first) as usize;
        if length > self.counts.capacity() {
            let capacity = length.next_power_of_two();
            meter.take((capacity - self.counts.capacity()) * size_of::<u64>())?;
            self.counts.reserve_exact(capacity - self.counts.len());
        }
        if first < self.first {
            let more = (self.first - first) as usize;
            self.counts.splice(0..0, std::iter::repeat_n(0, more));
        } else if first > self.first {
            let less = ((first - self.first) as usize).min(self.counts.len());
            let joined = self.counts.drain(..less).fold(0u64, u64::saturating_add);
            if self.counts.is_empty() {
                self.counts.push(0);
            }
            self.counts[0] = self.counts[0].saturating_add(joined);
        }
        self.first = first;
        self.counts.resize(length, 0);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::lang::pipe::tests::check;
    use crate::testing::with_next;

    #[test]
    fn sketches_tell_quantiles() {
        check(
            "* | stats sketch_quantile(0, size) a, sketch_quantile(1, none) b | math round(a, 1) as a",
            &["a=9 b=NaN"],
        );
        check(
            "* | stats by (level) sketch(size) s | stats sketch_quantile(0.5, s) m | math round(m, 1) as m",
            &["m=10"],
        );
    }

    fn of(numbers: &[f64]) -> Sketch {
        let mut sketch = Sketch::default();
        with_next(|next| {
            numbers.iter().for_each(|number| sketch.add(*number, next.meter()).unwrap());
        });
        sketch
    }

    fn text(sketch: &Sketch) -> String {
        let mut out = Vec::new();
        sketch.write(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn texts_that_are_no_sketches_are_left_out() {
        for wrong in [
            "dd1:",
            "dd1:x::",
            "dd1:0:",
            "dd1:0:::",
            "dd1:0::1=",
            "dd1:0::1=1,0=1",
            "dd1:0::1=1,-5=1",
            "dd1:0::99999=1",
            "dd1:0::2147483647=1,2147483647=1",
            "dd1:0::1=-1",
            "dd1:0::1=99999999999999999999",
        ] {
            assert_eq!(Sketch::read(wrong), None, "{wrong}");
        }
        let far = Sketch::read("dd1:18446744073709551615::-40000=1,80000=2").unwrap();
        assert_eq!(far.positive.counts.len(), BINS_MAX);
        let mut full = of(&[1.0]);
        with_next(|next| full.merge(&far, next.meter()).unwrap());
        assert_eq!(full.zeros, u64::MAX);
    }

    #[test]
    fn the_smallest_bins_become_one() {
        let sketch = of(&[1e-8, 1e-7, 1e200, 1e100, 1e199, 1e201]);
        assert!(sketch.positive.counts.len() <= BINS_MAX);
        assert_eq!(sketch.positive.total(), 6);
        assert!((sketch.quantile(1.0) / 1e201 - 1.0).abs() < 0.011);
    }

    proptest! {
        #[test]
        fn a_quantile_is_off_by_one_percent(
            mut numbers in proptest::collection::vec(
                prop_oneof![-1e6..1e6f64, 0.0..1.0f64, Just(0.0), 1e-6..1e3f64], 1..200,
            ),
            cut in 0usize..200,
            share in 0.0..=1.0f64,
        ) {
            // Of two sketches together, one of them as text.
            let cut = cut.min(numbers.len());
            let mut sketch = of(&numbers[..cut]);
            let other = of(&numbers[cut..]);
            let read = Sketch::read(&text(&other)).unwrap();
            prop_assert_eq!(text(&read), text(&other));
            with_next(|next| sketch.merge(&read, next.meter()).unwrap());
            prop_assert_eq!(text(&sketch), text(&of(&numbers)));
            numbers.sort_by(f64::total_cmp);
            let exact = numbers[(share * (numbers.len() - 1) as f64) as usize];
            let told = sketch.quantile(share);
            prop_assert!((told - exact).abs() <= exact.abs() * 0.0101 + 1e-9, "{} {}", told, exact);
        }

        #[test]
        fn any_text_is_read_or_left_out(text in "dd1:[0-9:=,x-]{0,40}") {
            if let Some(sketch) = Sketch::read(&text) {
                prop_assert!(sketch.quantile(0.5).is_finite() || sketch.quantile(0.5).is_nan());
            }
        }
    }
}
