//! Encodes values that are groups of digits between fixed texts (`08:24:50,714`,
//! `10.251.42.84:59752`, `len:1893`), each as one integer in mixed radix: a time of day becomes a
//! steadily growing number, whose difference from the previous one is small.
//!
//! In the tables section: the number of groups of digits, and for each the text before it, its
//! minimum width, minimum value and radix; then the text behind the last; then the integers.

use super::estimate::Estimator;
use super::ints::{Ints, IntsView};
use super::texts::{Builder, STRIDE_BYTES, Span};
use super::wire::{Reader, put_varint};
use super::{CodecError, Sections};

/// Groups of digits in a value. Values with more are split by templates.
const GROUPS_MAX: usize = 12;
/// Digits per group: as many as always fit into 64 bits.
const DIGITS_MAX: usize = 19;

/// A group of digits, rendered with at least `width` digits, padded with zeros.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Group {
    before: Vec<u8>,
    width: usize,
    low: u64,
    /// How many different values the group can have; not used for the first group.
    radix: u64,
}

/// An encoded column.
pub(super) struct Digits {
    groups: Vec<Group>,
    behind: Vec<u8>,
    ints: Ints,
}

/// Finds the groups of digits in a value. Returns false when it has none or too many.
fn groups_of(value: &[u8], groups: &mut Vec<(usize, usize)>) -> bool {
    groups.clear();
    let mut at = 0;
    while at < value.len() {
        if !value[at].is_ascii_digit() {
            at += 1;
            continue;
        }
        let start = at;
        while at < value.len() && value[at].is_ascii_digit() {
            at += 1;
        }
        if groups.len() == GROUPS_MAX || at - start > DIGITS_MAX {
            return false;
        }
        groups.push((start, at));
    }
    !groups.is_empty()
}

fn number(digits: &[u8]) -> u64 {
    digits.iter().fold(0, |value, digit| value * 10 + u64::from(digit - b'0'))
}

impl Digits {
    /// The column, or `None` if the values have different structures or do not round-trip exactly.
    pub fn encode(text: &[u8], spans: &[Span], estimator: &mut Estimator) -> Option<Digits> {
        let mut ranges = Vec::new();
        let first = spans.first()?.of(text);
        if !groups_of(first, &mut ranges) {
            return None;
        }
        let count = ranges.len();
        let mut fixed = Vec::with_capacity(count + 1);
        let mut from = 0;
        for &(start, end) in &ranges {
            fixed.push(&first[from..start]);
            from = end;
        }
        fixed.push(&first[from..]);

        let mut lengths = vec![(usize::MAX, 0); count];
        let mut numbers = Vec::with_capacity(spans.len() * count);
        for span in spans {
            let value = span.of(text);
            if !groups_of(value, &mut ranges) || ranges.len() != count {
                return None;
            }
            let mut from = 0;
            for (group, &(start, end)) in ranges.iter().enumerate() {
                if &value[from..start] != fixed[group] {
                    return None;
                }
                let (shortest, longest) = &mut lengths[group];
                *shortest = (end - start).min(*shortest);
                *longest = (end - start).max(*longest);
                numbers.push(number(&value[start..end]));
                from = end;
            }
            if &value[from..] != fixed[count] {
                return None;
            }
        }
        // Leading zeros would be lost in a group with more digits than its shortest value.
        for span in spans {
            let value = span.of(text);
            groups_of(value, &mut ranges);
            for (&(start, end), &(shortest, _)) in ranges.iter().zip(&lengths) {
                if end - start > shortest && value[start] == b'0' {
                    return None;
                }
            }
        }

        let groups = radixes(&fixed, &lengths, &numbers)?;
        let combine = |row: &[u64]| {
            let start = row[0] - groups[0].low;
            groups[1..].iter().zip(&row[1..]).fold(start, |sum, (g, v)| sum * g.radix + (v - g.low))
        };
        let values: Vec<u64> = numbers.chunks_exact(count).map(combine).collect();
        let ints = Ints::encode(&values, false, estimator);
        Some(Digits { groups, behind: fixed[count].to_vec(), ints })
    }

    pub fn cost(&self) -> u32 {
        let fixed: usize = self.groups.iter().map(|g| g.before.len() + 4).sum();
        self.ints.cost + fixed as u32 / 2
    }

    pub fn write(&self, out: &mut Sections) {
        put_varint(&mut out.tables, self.groups.len() as u64);
        for group in &self.groups {
            put_varint(&mut out.tables, group.before.len() as u64);
            out.tables.extend_from_slice(&group.before);
            out.tables.push(group.width as u8);
            put_varint(&mut out.tables, group.low);
            put_varint(&mut out.tables, group.radix);
        }
        put_varint(&mut out.tables, self.behind.len() as u64);
        out.tables.extend_from_slice(&self.behind);
        self.ints.write(out);
    }
}

/// The groups with their ranges, or `None` when their product does not fit into 63 bits.
fn radixes(fixed: &[&[u8]], lengths: &[(usize, usize)], numbers: &[u64]) -> Option<Vec<Group>> {
    let count = lengths.len();
    let mut groups = Vec::with_capacity(count);
    let mut states = 1u128;
    for group in (0..count).rev() {
        let (shortest, longest) = lengths[group];
        let column = || numbers[group..].iter().step_by(count).copied();
        let (low, high) = (column().min()?, column().max()?);
        // Two digits below 60 are taken for minutes or seconds, and digits before them for hours,
        // so that the number carries over as time does.
        let sixty = |g: Option<&Group>| g.is_some_and(|g: &Group| g.radix == 60);
        let behind = groups.last();
        let (low, radix) = match (shortest, longest) {
            _ if group == 0 => (low, 0),
            (2, 2) if high < 24 && sixty(behind) && sixty(groups.iter().rev().nth(1)) => (0, 24),
            (2, 2) if high < 60 => (0, 60),
            (3..=9, _) if shortest == longest => (0, 10u64.pow(shortest as u32)),
            _ => (low, high - low + 1),
        };
        states *= if group == 0 { u128::from(high - low) + 1 } else { u128::from(radix) };
        if states > 1 << 63 {
            return None;
        }
        groups.push(Group { before: fixed[group].to_vec(), width: shortest, low, radix });
    }
    groups.reverse();
    Some(groups)
}

/// A column as it is stored in the sections.
pub(super) struct DigitsView<'a> {
    groups: Vec<Group>,
    behind: &'a [u8],
    ints: IntsView<'a>,
}

impl<'a> DigitsView<'a> {
    pub fn read(
        tables: &mut Reader<'a>,
        numbers: &mut Reader<'a>,
        count: usize,
    ) -> Result<Self, CodecError> {
        let group_count = tables.count(GROUPS_MAX)?;
        let mut groups = Vec::with_capacity(group_count);
        for at in 0..group_count {
            let before = tables.string()?.to_vec();
            let width = usize::from(tables.byte()?);
            let (low, radix) = (tables.varint()?, tables.varint()?);
            if width > DIGITS_MAX || at > 0 && radix == 0 {
                return Err(tables.damaged("an invalid group of digits"));
            }
            groups.push(Group { before, width, low, radix });
        }
        if groups.is_empty() {
            return Err(tables.damaged("no group of digits"));
        }
        let behind = tables.string()?;
        Ok(DigitsView { groups, behind, ints: IntsView::read(tables, numbers, count)? })
    }

    /// The fixed texts, with a `#` for each group of digits.
    pub fn pattern(&self) -> Vec<u8> {
        let groups = self.groups.iter().flat_map(|g| g.before.iter().copied().chain([b'#']));
        groups.chain(self.behind.iter().copied()).collect()
    }

    /// The texts between the groups of digits, and around them.
    pub fn fixed(&self) -> impl Iterator<Item = &[u8]> {
        self.groups.iter().map(|g| g.before.as_slice()).chain([self.behind])
    }

    pub fn ints(&self) -> &IntsView<'a> {
        &self.ints
    }

    pub fn decode(&self, budget: &mut usize) -> Result<Builder, CodecError> {
        let numbers = self.ints.decode()?;
        let fixed: usize = self.groups.iter().map(|g| g.before.len()).sum();
        let fixed = fixed + self.behind.len();
        let row_bytes_max = fixed + self.groups.len() * NUMBER_BYTES;
        let row_bytes_min: usize = fixed + self.groups.iter().map(|g| g.width).sum::<usize>();
        if numbers.len().saturating_mul(row_bytes_min) > *budget {
            return Err(CodecError::too_large());
        }
        let mut out = Builder::new(numbers.len(), numbers.len() * row_bytes_min);
        let mut values = [0u64; GROUPS_MAX];
        let (first, others) = self.groups.split_first().expect("at least one group");
        let radixes: Vec<Radix> = others.iter().map(|group| Radix::new(group.radix)).collect();
        // The fixed texts back to back, followed by spare bytes, so that fixed-size copies stay in
        // bounds.
        let mut texts = self.fixed().collect::<Vec<_>>().concat();
        texts.resize(texts.len() + STRIDE_BYTES, 0);
        let texts = &texts[..];
        for mut rest in numbers {
            if row_bytes_max > *budget {
                return Err(CodecError::too_large());
            }
            for ((value, group), radix) in values.iter_mut().zip(others).zip(&radixes).rev() {
                let (quotient, digit) = radix.divide(rest);
                *value = digit.wrapping_add(group.low);
                rest = quotient;
            }
            let row = out.room(row_bytes_max);
            let (mut from, mut at) = (first.before.len(), 0);
            put(row, &mut at, texts, 0, from);
            put_number(row, &mut at, rest.wrapping_add(first.low), first.width);
            for (value, group) in values.iter().zip(others) {
                put(row, &mut at, texts, from, group.before.len());
                from += group.before.len();
                put_number(row, &mut at, *value, group.width);
            }
            put(row, &mut at, texts, from, self.behind.len());
            *budget -= at;
            out.advance(at);
            out.end();
        }
        Ok(out)
    }
}

/// Divides by a radix using multiplications.
struct Radix {
    radix: u64,
    /// 2⁶⁴ divided by the radix, rounded down.
    inverse: u64,
}

impl Radix {
    fn new(radix: u64) -> Radix {
        let inverse = (1u128 << 64) / u128::from(radix);
        Radix { radix, inverse: u64::try_from(inverse).unwrap_or(u64::MAX) }
    }

    /// Quotient and remainder.
    #[inline]
    fn divide(&self, number: u64) -> (u64, u64) {
        // The quotient is at most one too small: the inverse is less than one unit too small, which
        // changes the product by less than one.
        let quotient = ((u128::from(number) * u128::from(self.inverse)) >> 64) as u64;
        let rest = number - quotient * self.radix;
        if rest < self.radix { (quotient, rest) } else { (quotient + 1, rest - self.radix) }
    }
}

/// Copies `length` bytes; both `texts` and `row` have a stride of spare bytes behind them.
#[inline(always)]
fn put(row: &mut [u8], at: &mut usize, texts: &[u8], from: usize, length: usize) {
    if length <= STRIDE_BYTES {
        row[*at..*at + STRIDE_BYTES].copy_from_slice(&texts[from..from + STRIDE_BYTES]);
    } else {
        row[*at..*at + length].copy_from_slice(&texts[from..from + length]);
    }
    *at += length;
}

/// Digits of the largest number.
const NUMBER_BYTES: usize = 20;

/// The two digits of each number below 100.
static PAIRS: [u8; 200] = {
    let mut pairs = [0; 200];
    let mut number = 0;
    while number < 100 {
        pairs[2 * number] = b'0' + (number / 10) as u8;
        pairs[2 * number + 1] = b'0' + (number % 10) as u8;
        number += 1;
    }
    pairs
};

/// Writes a number with at least `width` digits.
#[inline(always)]
fn put_number(row: &mut [u8], at: &mut usize, mut value: u64, width: usize) {
    let digits = value.checked_ilog10().map_or(0, |log| log as usize + 1).max(width);
    let digits = &mut row[*at..*at + digits];
    *at += digits.len();
    let mut end = digits.len();
    while value >= 10 {
        let pair = (value % 100) as usize * 2;
        value /= 100;
        digits[end - 2..end].copy_from_slice(&PAIRS[pair..pair + 2]);
        end -= 2;
    }
    if value > 0 {
        end -= 1;
        digits[end] = b'0' + value as u8;
    }
    digits[..end].iter_mut().for_each(|digit| *digit = b'0');
}

#[cfg(test)]
mod tests {
    use super::super::texts::tests::spans_of;
    use super::*;

    /// Checks whether the values are accepted, and that they round-trip.
    fn check(values: &[&str], taken: bool) {
        let (text, spans) = spans_of(values);
        let Some(digits) = Digits::encode(&text, &spans, &mut Estimator::new()) else {
            assert!(!taken, "{values:?} were refused");
            return;
        };
        assert!(taken, "{values:?} were taken");
        let mut sections = Sections::default();
        digits.write(&mut sections);
        let mut tables = Reader::new("tables", &sections.tables);
        let mut numbers = Reader::new("numbers", &sections.numbers);
        let view = DigitsView::read(&mut tables, &mut numbers, values.len()).unwrap();
        let out = view.decode(&mut (1 << 20)).unwrap().finish_exactly();
        for (at, value) in values.iter().enumerate() {
            assert_eq!(out.get(at), value.as_bytes());
        }
    }

    #[test]
    fn radixes_divide_as_the_processor_does() {
        let numbers = [0, 1, 2, 59, 60, 61, 999, 1 << 32, (1 << 63) - 1, u64::MAX - 1, u64::MAX];
        for radix in numbers.into_iter().skip(1) {
            for number in numbers.into_iter().flat_map(|n| [n, n / radix * radix]) {
                let expected = (number / radix, number % radix);
                assert_eq!(Radix::new(radix).divide(number), expected, "{number} by {radix}");
            }
        }
    }

    #[test]
    fn values_that_round_trip_are_accepted() {
        check(&["0", "10", "7"], true);
        check(&["08:24:50", "23:59:59", "00:00:00"], true);
        check(&["2005-06-14-09.21.59.021659", "2005-06-14-09.22.19.720208"], true);
        check(&["17/May/2015:12:05:28", "18/May/2015:00:05:28"], true);
        check(&["10.251.42.84:59752", "10.0.0.1:1"], true);
        check(&["007", "010", "1000"], true);
        check(&["18446744073709551615"], false);
        check(&["9999999999999999999", "1"], false);
        check(&["1", "05"], false);
        check(&["1", "a1"], false);
        check(&["1 ", "1"], false);
        check(&["", "1"], false);
        check(&["x"], false);
        check(&["1.2.3.4.5.6.7.8.9.1.2.3.4"], false);
    }
}
