//! Columns of whole numbers: times, sequence numbers, lengths, codes.
//!
//! ```text
//! 0  first            all are the same
//! 1  first step       each is the previous one plus a constant
//! 2  unit first d…    differences, in units (nanoseconds that are whole seconds are kept as seconds)
//! 3  n…               all are below 256, and change often: a byte each
//! ```
//!
//! Differences are zigzag varints; zstd, which follows, compresses regular ones to almost nothing.
//! The number of values is not stored: the reader knows it.

use super::bytes::{Corrupt, Cursor, Read, put_signed};
use crate::varint::unzigzag;

const SAME: u8 = 0;
const STEPS: u8 = 1;
const DELTAS: u8 = 2;
const BYTES: u8 = 3;
/// Nanoseconds, microseconds, milliseconds, seconds.
const UNITS: [i64; 4] = [1, 1_000, 1_000_000, 1_000_000_000];

/// Appends the numbers. Differences wrap, so that any 64-bit values round-trip.
pub(crate) fn encode(values: &[i64], out: &mut Vec<u8>) {
    let first = values.first().copied().unwrap_or(0);
    let step = values.get(1).map_or(0, |second| second.wrapping_sub(first));
    if values.windows(2).all(|pair| pair[1].wrapping_sub(pair[0]) == step) {
        out.push(if step == 0 { SAME } else { STEPS });
        put_signed(out, first);
        if step != 0 {
            put_signed(out, step);
        }
        return;
    }
    let unit_index = unit_index(values);
    if unit_index == 0 && are_bytes(values) {
        out.push(BYTES);
        out.extend(values.iter().map(|&value| value as u8));
        return;
    }
    let unit = UNITS[unit_index];
    out.push(DELTAS);
    out.push(unit_index as u8);
    put_signed(out, first);
    out.reserve(values.len());
    let mut last = first;
    for &value in &values[1..] {
        let delta = value.wrapping_sub(last);
        last = value;
        // Most differences are 0 (the same second) or constant.
        let units = if unit == 1 || delta == 0 { delta } else { delta / unit };
        put_signed(out, units);
    }
}

/// Whether all are below 256, and at least a quarter differ from the one before. Numbers that
/// change rarely compress better as differences.
fn are_bytes(values: &[i64]) -> bool {
    let changes = values.windows(2).filter(|pair| pair[0] != pair[1]).count();
    values.iter().all(|value| (0..256).contains(value)) && changes * 4 >= values.len()
}

/// The greatest unit of which all values are multiples. Differences that would wrap are not
/// multiples of it.
fn unit_index(values: &[i64]) -> usize {
    let mut index = UNITS.len() - 1;
    let mut last = 0;
    for &value in values {
        if value == last {
            continue;
        }
        while value % UNITS[index] != 0 {
            index -= 1;
        }
        if index == 0 {
            break;
        }
        last = value;
    }
    if index == 0 {
        return 0;
    }
    if values.iter().any(|value| value.unsigned_abs() > 1 << 62) { 0 } else { index }
}

/// Reads `count` numbers.
pub(crate) fn decode(cursor: &mut Cursor<'_>, count: usize) -> Read<Vec<i64>> {
    let mode = cursor.u8()?;
    if mode == BYTES {
        return Ok(cursor.take(count)?.iter().map(|&byte| byte.into()).collect());
    }
    let unit = match mode {
        SAME | STEPS => 1,
        DELTAS => *UNITS.get(usize::from(cursor.u8()?)).ok_or(Corrupt("a unit"))?,
        _ => return Err(Corrupt("a mode of numbers")),
    };
    let mut value = cursor.signed()?;
    if mode == SAME {
        return Ok(vec![value; count]);
    }
    if mode == STEPS {
        let step = cursor.signed()?;
        let all = std::iter::successors(Some(value), |value| Some(value.wrapping_add(step)));
        return Ok(all.take(count).collect());
    }
    let mut values = Vec::with_capacity(count);
    values.extend((count > 0).then_some(value));
    while values.len() < count {
        // Most differences have one byte, and many are 0.
        if let Some(bytes) = cursor.peek::<8>()
            && values.len() + bytes.len() <= count
            && u64::from_le_bytes(bytes) & LONG == 0
        {
            cursor.take(bytes.len())?;
            if u64::from_le_bytes(bytes) == 0 {
                values.extend([value; 8]);
            } else {
                values.extend(bytes.map(|byte| {
                    value = value.wrapping_add(unzigzag(byte.into()).wrapping_mul(unit));
                    value
                }));
            }
            continue;
        }
        // A few at a time, so that regular differences are noticed again.
        let end = count.min(values.len() + MIXED);
        while values.len() < end {
            value = value.wrapping_add(cursor.mixed_signed()?.wrapping_mul(unit));
            values.push(value);
        }
    }
    Ok(values)
}

/// After a difference of several bytes, this many are read without another look for short ones.
const MIXED: usize = 16;

/// Reads `count` indexes, each of which is below the length of `lines`, and adds the number of
/// times that each occurs to `lines`.
pub(crate) fn decode_indexes(
    cursor: &mut Cursor<'_>,
    count: usize,
    lines: &mut [usize],
) -> Read<Vec<u32>> {
    let mut start = cursor.clone();
    if cursor.peek() == Some([BYTES]) {
        count_indexes(&mut start, count, lines)?;
        cursor.u8()?;
        return Ok(cursor.take(count)?.iter().map(|&byte| byte.into()).collect());
    }
    // The unit of indexes is 1, and most differences are one byte.
    if start.u8()? != DELTAS || start.u8()? != 0 || count == 0 {
        let values = decode(cursor, count)?;
        return indexes_of(values.into_iter().map(|value| value as u64), lines);
    }
    let mut value = start.signed()?;
    let mut values = Vec::with_capacity(count);
    values.push(value as u64);
    while values.len() < count {
        if let Some(bytes) = start.peek::<8>()
            && values.len() + bytes.len() <= count
            && u64::from_le_bytes(bytes) & LONG == 0
        {
            start.take(bytes.len())?;
            values.extend(bytes.map(|byte| {
                value = value.wrapping_add(unzigzag(byte.into()));
                value as u64
            }));
            continue;
        }
        value = value.wrapping_add(start.signed()?);
        values.push(value as u64);
    }
    *cursor = start;
    indexes_of(values.into_iter(), lines)
}

/// Adds the number of times that each of `count` indexes occurs to `lines`, as [`decode_indexes`].
pub(crate) fn count_indexes(
    cursor: &mut Cursor<'_>,
    count: usize,
    lines: &mut [usize],
) -> Read<()> {
    const WRONG: Corrupt = Corrupt("an index");
    let mut start = cursor.clone();
    if cursor.peek() == Some([BYTES]) {
        cursor.u8()?;
        // Several counters of each number: one that was just raised takes some time until it can be
        // raised again.
        let mut counters = [[0u32; 256]; 4];
        let (fours, rest) = cursor.take(count)?.as_chunks::<4>();
        for four in fours {
            four.iter().zip(&mut counters).for_each(|(&byte, of)| of[usize::from(byte)] += 1);
        }
        rest.iter().for_each(|&byte| counters[0][usize::from(byte)] += 1);
        for number in 0..256 {
            let count = counters.iter().map(|of| of[number] as usize).sum::<usize>();
            match lines.get_mut(number) {
                Some(lines) => *lines += count,
                None if count == 0 => {}
                None => return Err(WRONG),
            }
        }
        return Ok(());
    }
    if start.u8()? != DELTAS || start.u8()? != 0 || count == 0 {
        decode_indexes(cursor, count, lines)?;
        return Ok(());
    }
    // Counters of even and odd numbers apart: a counter that was just raised takes some time until
    // it can be raised again.
    let mut counters = vec![[0u32; 2]; lines.len()];
    let mut value = start.signed()?;
    let mut raise = |value: i64, which: usize| {
        let counter = usize::try_from(value).ok().and_then(|value| counters.get_mut(value));
        counter.map(|counter| counter[which] += 1).ok_or(WRONG)
    };
    raise(value, 0)?;
    let mut left = count - 1;
    while left > 0 {
        if let Some(bytes) = start.peek::<8>()
            && left >= bytes.len()
            && u64::from_le_bytes(bytes) & LONG == 0
        {
            start.take(bytes.len())?;
            left -= bytes.len();
            for (at, byte) in bytes.into_iter().enumerate() {
                value = value.wrapping_add(unzigzag(byte.into()));
                raise(value, at % 2)?;
            }
            continue;
        }
        value = value.wrapping_add(start.signed()?);
        raise(value, left % 2)?;
        left -= 1;
    }
    *cursor = start;
    lines.iter_mut().zip(counters).for_each(|(lines, [a, b])| *lines += (a + b) as usize);
    Ok(())
}

fn indexes_of(values: impl Iterator<Item = u64>, lines: &mut [usize]) -> Read<Vec<u32>> {
    let end = lines.len() as u64;
    let mut greatest = 0;
    let indexes: Vec<u32> = values
        .map(|value| {
            greatest = greatest.max(value);
            value as u32
        })
        .collect();
    if !indexes.is_empty() && greatest >= end {
        return Err(Corrupt("an index"));
    }
    // Equal neighbours would wait for each other's counter.
    for same in indexes.chunk_by(|a, b| a == b) {
        lines[same[0] as usize] += same.len();
    }
    Ok(indexes)
}

/// The continuation bits of eight varint bytes.
const LONG: u64 = 0x8080_8080_8080_8080;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(values: &[i64]) -> usize {
        let mut out = Vec::new();
        encode(values, &mut out);
        let mut cursor = Cursor::new(&out);
        assert_eq!(decode(&mut cursor, values.len()).unwrap(), values);
        cursor.end().unwrap();
        check_indexes(values, &out);
        out.len()
    }

    /// The numbers as indexes into 100 counters.
    fn check_indexes(values: &[i64], encoded: &[u8]) {
        let (mut cursor, mut lines) = (Cursor::new(encoded), [0; 100]);
        let found = decode_indexes(&mut cursor, values.len(), &mut lines);
        if values.iter().any(|value| !(0..100).contains(value)) {
            assert!(found.is_err());
            return;
        }
        cursor.end().unwrap();
        let indexes: Vec<u32> = values.iter().map(|&value| value as u32).collect();
        assert_eq!(found.unwrap(), indexes);
        let (mut cursor, mut counted) = (Cursor::new(encoded), [0; 100]);
        count_indexes(&mut cursor, values.len(), &mut counted).unwrap();
        cursor.end().unwrap();
        assert_eq!(counted, lines);
        for (index, &lines) in (0..).zip(&lines) {
            assert_eq!(lines, indexes.iter().filter(|other| **other == index).count());
        }
    }

    #[test]
    fn regular_numbers_are_short() {
        assert_eq!(check(&[]), 2);
        assert_eq!(check(&[7; 1000]), 2);
        assert_eq!(check(&(0..1000).collect::<Vec<_>>()), 3);
        let seconds: Vec<i64> = (0..1000i64).map(|i| i * i % 7 * 1_000_000_000).collect();
        assert!(check(&seconds) < 1010);
        check(&[i64::MIN, 0, i64::MAX, -1_000_000_000, 0]);
        check(&[i64::MIN, i64::MIN + 1_000_000_000 - 775_807, i64::MAX / 1000 * 1000]);
    }

    proptest! {
        #[test]
        fn any_numbers_come_back(values in prop::collection::vec(any::<i64>(), 0..50)) {
            check(&values);
        }

        #[test]
        fn indexes_come_back(values in prop::collection::vec(0..100i64, 0..50)) {
            check(&values);
        }

        #[test]
        fn times_come_back(values in prop::collection::vec(0..9_000_000_000i64, 0..50), unit in 0..4usize) {
            check(&values.iter().map(|v| v * UNITS[unit]).collect::<Vec<_>>());
        }
    }
}
