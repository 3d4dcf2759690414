//! Streams of integers: template numbers, dictionary indexes, numbers of the text.
//!
//! In the tables section: a byte for the layout, then its parameters; in the numbers section: the
//! values. Fixed widths are stored in planes (all highest bytes, then all next ones, …), which zstd
//! compresses far better than interleaved bytes. The layout with the smallest compressed size is
//! chosen.

use super::estimate::{Estimator, entropy_bytes};
use super::wire::{Reader, put_varint};
use super::{CodecError, Sections};
use crate::varint::{unzigzag, zigzag};

/// All values equal the base.
const SAME: u8 = 0;
/// Value minus base, in planes.
const PLANES: u8 = 1;
/// Difference from the previous value (for the first, from the base), zigzag, in planes.
const DELTA_PLANES: u8 = 2;
/// The same as varints.
const DELTA_VARINTS: u8 = 3;
/// Value minus base, as varints.
const VARINTS: u8 = 4;
/// Indexes that are numbered by first occurrence: 0 is the next new one, k the k-th most recent; in
/// planes.
const YOUNGEST_PLANES: u8 = 5;
const LAYOUTS: u8 = 6;
/// Layouts whose entropy is more than this many times the best one are not estimated further.
const HOPELESS: u32 = 2;

/// An encoded stream.
pub(super) struct Ints {
    layout: u8,
    width: u8,
    base: u64,
    bytes: Vec<u8>,
    /// Estimated size when compressed, bytes.
    pub cost: u32,
}

impl Ints {
    /// `indexes`: the values are numbered by first occurrence.
    pub fn encode(values: &[u64], indexes: bool, estimator: &mut Estimator) -> Ints {
        let low = values.iter().copied().min().unwrap_or(0);
        let high = values.iter().copied().max().unwrap_or(0);
        if low == high {
            return Ints { layout: SAME, width: 0, base: low, bytes: Vec::new(), cost: 2 };
        }
        let first = values[0];
        let above: Vec<u64> = values.iter().map(|v| v - low).collect();
        let mut candidates = vec![planes(PLANES, low, &above)];
        let mut deltas = Vec::with_capacity(values.len());
        let mut before = first;
        for &value in values {
            deltas.push(zigzag(value.wrapping_sub(before) as i64));
            before = value;
        }
        if indexes {
            candidates.push(planes(YOUNGEST_PLANES, 0, &youngest(values)));
        } else {
            candidates.push(planes(DELTA_PLANES, first, &deltas));
        }
        if !indexes && candidates[1].width > 1 {
            candidates.push(varints(DELTA_VARINTS, first, &deltas));
        }
        if candidates[0].width > 1 {
            candidates.push(varints(VARINTS, low, &above));
        }
        let entropies: Vec<u32> = candidates.iter().map(|c| entropy_bytes(&c.bytes)).collect();
        let least = entropies.iter().copied().min().unwrap_or(0);
        for (candidate, entropy) in candidates.iter_mut().zip(entropies) {
            candidate.cost = 3 + if entropy / HOPELESS > least {
                entropy
            } else {
                estimator.bytes(&candidate.bytes)
            };
        }
        candidates.into_iter().min_by_key(|c| c.cost).expect("at least one")
    }

    pub fn write(&self, out: &mut Sections) {
        out.tables.push(self.layout | self.width << 4);
        put_varint(&mut out.tables, self.base);
        if matches!(self.layout, VARINTS | DELTA_VARINTS) {
            put_varint(&mut out.tables, self.bytes.len() as u64);
        }
        out.numbers.extend_from_slice(&self.bytes);
    }
}

fn planes(layout: u8, base: u64, values: &[u64]) -> Ints {
    let high = values.iter().copied().max().unwrap_or(0);
    let width = (64 - high.leading_zeros()).div_ceil(8) as u8;
    let mut bytes = Vec::with_capacity(values.len() * usize::from(width));
    for plane in (0..width).rev() {
        bytes.extend(values.iter().map(|v| (v >> (8 * plane)) as u8));
    }
    Ints { layout, width, base, bytes, cost: 0 }
}

fn varints(layout: u8, base: u64, values: &[u64]) -> Ints {
    let mut bytes = Vec::with_capacity(values.len() * 2);
    for &value in values {
        put_varint(&mut bytes, value);
    }
    Ints { layout, width: 0, base, bytes, cost: 0 }
}

fn youngest(indexes: &[u64]) -> Vec<u64> {
    let mut next = 0;
    let age = |&index: &u64| {
        if index == next {
            next += 1;
            return 0;
        }
        next - index
    };
    indexes.iter().map(age).collect()
}

/// A stream as it is stored in the sections, not decoded yet.
#[derive(Clone, Copy)]
pub(super) struct IntsView<'a> {
    layout: u8,
    base: u64,
    count: usize,
    bytes: &'a [u8],
}

impl<'a> IntsView<'a> {
    pub fn read(
        tables: &mut Reader<'a>,
        numbers: &mut Reader<'a>,
        count: usize,
    ) -> Result<Self, CodecError> {
        let head = tables.byte()?;
        let (layout, width) = (head & 15, head >> 4);
        if layout >= LAYOUTS || width > 8 {
            return Err(tables.damaged("an unknown layout of numbers"));
        }
        let base = tables.varint()?;
        let length = match layout {
            VARINTS | DELTA_VARINTS => tables.count(usize::MAX)?,
            SAME => 0,
            _ => count * usize::from(width),
        };
        Ok(IntsView { layout, base, count, bytes: numbers.take(length)? })
    }

    /// Decodes the values. The caller limits `count` by the possible number of rows.
    pub fn decode(&self) -> Result<Vec<u64>, CodecError> {
        let mut values = match self.layout {
            SAME => return Ok(vec![self.base; self.count]),
            VARINTS | DELTA_VARINTS => {
                let mut reader = Reader::new("numbers", self.bytes);
                let values =
                    (0..self.count).map(|_| reader.varint()).collect::<Result<Vec<_>, _>>()?;
                reader.finish()?;
                values
            }
            _ => self.join_planes(),
        };
        match self.layout {
            PLANES | VARINTS => values.iter_mut().for_each(|v| *v = v.wrapping_add(self.base)),
            YOUNGEST_PLANES => {
                let mut next = 0u64;
                for value in &mut values {
                    if *value == 0 {
                        *value = next;
                        next += 1;
                    } else {
                        let index = next.checked_sub(*value);
                        *value = index.ok_or_else(|| self.damaged("an index before the first"))?;
                    }
                }
            }
            _ => {
                let mut before = self.base;
                for value in &mut values {
                    before = before.wrapping_add(unzigzag(*value) as u64);
                    *value = before;
                }
            }
        }
        Ok(values)
    }

    /// Decodes the values, each below `end`: indexes.
    pub fn decode_indexes(&self, end: usize) -> Result<Vec<u32>, CodecError> {
        let end = u32::try_from(end).unwrap_or(u32::MAX);
        // Most indexes fit into one byte.
        let one_plane = self.bytes.len() == self.count && self.count > 0;
        let indexes: Vec<u32> = match (self.layout, u32::try_from(self.base)) {
            (PLANES, Ok(base)) if one_plane && base < end => {
                self.bytes.iter().map(|&byte| base.saturating_add(byte.into())).collect()
            }
            (YOUNGEST_PLANES, _) if one_plane => {
                let mut next = 0u32;
                let mut indexes = Vec::with_capacity(self.count);
                for &byte in self.bytes {
                    let index = next.checked_sub(byte.into());
                    indexes.push(index.ok_or_else(|| self.damaged("an index before the first"))?);
                    next += u32::from(byte == 0);
                }
                indexes
            }
            _ => self.decode()?.into_iter().map(|v| u32::try_from(v).unwrap_or(u32::MAX)).collect(),
        };
        match indexes.iter().max().is_none_or(|&last| last < end) {
            true => Ok(indexes),
            false => Err(self.damaged("an index beyond the last")),
        }
    }

    /// The stream's bytes in the numbers section.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    fn join_planes(&self) -> Vec<u64> {
        let mut values = vec![0u64; self.count];
        if self.count == 0 {
            return values;
        }
        for plane in self.bytes.chunks_exact(self.count) {
            for (value, &byte) in values.iter_mut().zip(plane) {
                *value = *value << 8 | u64::from(byte);
            }
        }
        values
    }

    fn damaged(&self, problem: &'static str) -> CodecError {
        CodecError { section: "numbers", at: 0, problem }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(values: &[u64], indexes: bool) {
        let ints = Ints::encode(values, indexes, &mut Estimator::new());
        let mut sections = Sections::default();
        ints.write(&mut sections);
        let mut tables = Reader::new("tables", &sections.tables);
        let mut numbers = Reader::new("numbers", &sections.numbers);
        let view = IntsView::read(&mut tables, &mut numbers, values.len()).unwrap();
        tables.finish().unwrap();
        numbers.finish().unwrap();
        assert_eq!(view.decode().unwrap(), values);
        let last = values.iter().copied().max().unwrap_or(0);
        if last < 1 << 31 {
            let indexes: Vec<u32> = values.iter().map(|&value| value as u32).collect();
            assert_eq!(view.decode_indexes(last as usize + 1).unwrap(), indexes);
            assert!(values.is_empty() || view.decode_indexes(last as usize).is_err());
        }
    }

    #[test]
    fn extremes_come_back() {
        check(&[], false);
        check(&[7], false);
        check(&[u64::MAX, 0, u64::MAX, 1], false);
        check(&(0..1000).map(|i| 1 << (i % 64)).collect::<Vec<_>>(), false);
        check(&[0, 1, 0, 2, 2, 1, 3], true);
        check(&(0..1000).collect::<Vec<_>>(), true);
        check(&(0..1000).chain(0..1000).collect::<Vec<_>>(), true);
    }

    proptest! {
        #[test]
        fn any_come_back(values in prop::collection::vec(any::<u64>(), 0..300), mask in any::<u64>()) {
            let values: Vec<u64> = values.into_iter().map(|v| v & mask).collect();
            check(&values, false);
            check(&values.iter().map(|v| 300 + v % 200).collect::<Vec<_>>(), false);
        }
    }
}
