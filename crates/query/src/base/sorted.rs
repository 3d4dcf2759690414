//! Sorting that can be cancelled. Pieces are sorted one after the other, with a check between them,
//! and merged lazily as values are taken. Values behind the last one taken are never sorted as a
//! whole.
//!
//! Values that are compared often are first encoded as bytes with the same order ([`put_key`]).

use std::cmp::Ordering;
use std::vec::IntoIter;

use crate::base::RunError;
use crate::base::number::{SortKind, whole_beyond_double};

/// Values of a piece: sorting it takes some milliseconds where each comparison has to fetch both
/// texts from memory.
const PIECE: usize = 16_384;

/// Yields values in order; equal values in any order.
pub(crate) struct Sorted<T, F> {
    /// The sorted pieces, none of them empty; a heap by the first value of each.
    pieces: Vec<IntoIter<T>>,
    compare: F,
}

impl<T, F: Fn(&T, &T) -> Ordering> Sorted<T, F> {
    /// Sorts `values` by `compare`; `check` may end it by an error.
    pub fn new(
        mut values: Vec<T>,
        compare: F,
        check: impl Fn() -> Result<(), RunError>,
    ) -> Result<Self, RunError> {
        let mut pieces = Vec::with_capacity(values.len().div_ceil(PIECE));
        while !values.is_empty() {
            check()?;
            let mut piece = match values.len() <= PIECE {
                true => std::mem::take(&mut values),
                false => values.split_off(values.len() - PIECE),
            };
            piece.sort_unstable_by(&compare);
            pieces.push(piece.into_iter());
        }
        let mut sorted = Sorted { pieces, compare };
        (0..sorted.pieces.len() / 2).rev().for_each(|place| sorted.sink(place));
        Ok(sorted)
    }

    fn is_before(&self, a: usize, b: usize) -> bool {
        let [a, b] = [a, b].map(|place| &self.pieces[place].as_slice()[0]);
        (self.compare)(a, b).is_lt()
    }

    /// Moves the piece at `place` down to its position in the heap.
    fn sink(&mut self, mut place: usize) {
        loop {
            let mut least = place;
            for below in [2 * place + 1, 2 * place + 2] {
                if below < self.pieces.len() && self.is_before(below, least) {
                    least = below;
                }
            }
            if least == place {
                return;
            }
            self.pieces.swap(place, least);
            place = least;
        }
    }
}

impl<T, F: Fn(&T, &T) -> Ordering> Iterator for Sorted<T, F> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        let first = self.pieces.first_mut()?;
        let value = first.next();
        if first.as_slice().is_empty() {
            self.pieces.swap_remove(0);
        }
        self.sink(0);
        value
    }
}

/// Partitions `values` around index `place`: the value that belongs there in the order of `compare`
/// is moved there, all smaller ones before it, in any order. `check` may end it by an error.
pub(crate) fn select<T>(
    mut values: &mut [T],
    mut place: usize,
    compare: impl Fn(&T, &T) -> Ordering,
    check: impl Fn() -> Result<(), RunError>,
) -> Result<(), RunError> {
    while values.len() > PIECE {
        // The pivot is the median of some values that stand far from each other.
        let step = values.len() / PIVOT_SAMPLE;
        (0..PIVOT_SAMPLE).for_each(|at| values.swap(at, at * step));
        values[..PIVOT_SAMPLE].select_nth_unstable_by(PIVOT_SAMPLE / 2, &compare);
        values.swap(0, PIVOT_SAMPLE / 2);
        let (pivot, rest) = values.split_first_mut().expect("it is longer than a piece");
        let before = partition(rest, |value| compare(value, pivot).is_lt(), &check)?;
        values.swap(0, before);
        if place < before {
            values = &mut values[..before];
            continue;
        }
        // Values equal to the pivot go behind it.
        let (pivot, rest) = values[before..].split_first_mut().expect("the pivot is there");
        let equal = partition(rest, |value| compare(value, pivot).is_eq(), &check)?;
        if place <= before + equal {
            return Ok(());
        }
        place -= before + equal + 1;
        values = &mut values[before + equal + 1..];
    }
    if place < values.len() {
        values.select_nth_unstable_by(place, compare);
    }
    Ok(())
}

/// Size of the sample whose median is the pivot.
const PIVOT_SAMPLE: usize = 63;

/// Moves values for which `first` holds before the others, and returns their number.
fn partition<T>(
    values: &mut [T],
    first: impl Fn(&T) -> bool,
    check: impl Fn() -> Result<(), RunError>,
) -> Result<usize, RunError> {
    let mut count = 0;
    for at in 0..values.len() {
        if at % PIECE == 0 {
            check()?;
        }
        if first(&values[at]) {
            values.swap(count, at);
            count += 1;
        }
    }
    Ok(count)
}

/// Up to this many bytes of a value, the encoded size is bounded without counting its zeros.
const VALUE_BYTES_FEW: usize = 1 << 10;

/// Upper bound of the bytes that [`put_key`] appends for a value.
pub(crate) fn key_bytes_max(value: &[u8]) -> usize {
    let zeros = match value.len() > VALUE_BYTES_FEW {
        true => memchr::memchr_iter(0, value).count(),
        false => value.len(),
    };
    value.len() + zeros + 1 + size_of::<u64>() + 1 + size_of::<i128>() + 2
}

/// Appends a value as bytes that compare in the order of
/// [`compare_kinds`](crate::base::number::compare_kinds), or in the reverse order. Bytes appended
/// behind it are compared where values are equal.
pub(crate) fn put_key(value: &[u8], descending: bool, out: &mut Vec<u8>) {
    let from = out.len();
    match SortKind::of(value) {
        SortKind::Empty => out.push(0),
        SortKind::Number(number) => {
            // As in `f64::total_cmp`: all bits of negative numbers are inverted, and the sign bit
            // of others.
            let bits = number.to_bits();
            let turned = if bits >> 63 == 1 { !bits } else { bits | 1 << 63 };
            out.push(1);
            out.extend_from_slice(&turned.to_be_bytes());
            if let Some(whole) = whole_beyond_double(value, number) {
                out.push(1);
                out.extend_from_slice(&(whole as u128 ^ 1 << 127).to_be_bytes());
            } else {
                out.push(0);
            }
        }
        SortKind::Time(ns) => {
            out.push(2);
            out.extend_from_slice(&(ns as u64 ^ 1 << 63).to_be_bytes());
        }
        SortKind::Text => out.push(3),
    }
    // A zero is followed by 255, so that the two zeros at the end sort before any longer value.
    let mut rest = value;
    while let Some(at) = memchr::memchr(0, rest) {
        out.extend_from_slice(&rest[..=at]);
        out.push(255);
        rest = &rest[at + 1..];
    }
    out.extend_from_slice(rest);
    out.extend_from_slice(&[0, 0]);
    if descending {
        out[from..].iter_mut().for_each(|byte| *byte = !*byte);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use proptest::prelude::*;

    use super::*;
    use crate::base::number::compare_values;

    proptest! {
        #[test]
        fn keys_are_in_the_order_of_values(
            values in prop::collection::vec(
                prop_oneof![
                    "-?[0-9]{0,3}\\.?[0-9]{0,2}", "[ab\u{0}\u{ff}]{0,3}",
                    Just("2026-11-22T10:00:00Z".to_owned()), Just("2026-11-22T10:00:00.5Z".to_owned()),
                    Just("1969-11-22T10:00:00Z".to_owned()), Just("-0".to_owned()), Just("1e300".to_owned()),
                    "-?900719925474099[0-9](\\.0)?",
                ],
                2..4,
            ),
            others in prop::collection::vec("[ab\u{0}12]{0,2}", 2),
            descending in any::<bool>(),
        ) {
            let key = |value: &str, second: &str| {
                let mut key = Vec::new();
                put_key(value.as_bytes(), descending, &mut key);
                put_key(second.as_bytes(), false, &mut key);
                key
            };
            for a in &values {
                for b in &values {
                    let order = compare_values(a.as_bytes(), b.as_bytes());
                    let order = if descending { order.reverse() } else { order };
                    let second = compare_values(others[0].as_bytes(), others[1].as_bytes());
                    prop_assert_eq!(key(a, &others[0]).cmp(&key(b, &others[1])), order.then(second));
                }
            }
        }
    }

    #[test]
    fn the_first_ones_are_selected() {
        for (len, different) in
            [(1, 1), (PIECE, 500), (3 * PIECE + 5, 7), (4 * PIECE, 1), (9 * PIECE, 1 << 40)]
        {
            let values: Vec<u64> = (0..len as u64)
                .map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15) % different)
                .collect();
            let mut expected = values.clone();
            expected.sort_unstable();
            for place in [0, len / 3, len / 2, len - 1] {
                let mut selected = values.clone();
                select(&mut selected, place, Ord::cmp, || Ok(())).unwrap();
                assert_eq!(selected[place], expected[place], "{place} of {len}");
                assert!(selected[..place].iter().all(|value| *value <= expected[place]));
                assert!(selected[place..].iter().all(|value| *value >= expected[place]));
            }
        }
    }

    #[test]
    fn selecting_ends_between_two_pieces() {
        let checks = Cell::new(0);
        let check = || {
            checks.set(checks.get() + 1);
            if checks.get() > 2 { Err(RunError::Cancelled) } else { Ok(()) }
        };
        assert!(select(&mut vec![0; 4 * PIECE], 5, Ord::cmp, check).is_err());
        assert_eq!(checks.get(), 3);
    }

    #[test]
    fn pieces_are_merged_into_one_order() {
        for len in [0, 1, PIECE - 1, PIECE, PIECE + 1, 5 * PIECE + 7] {
            let values: Vec<u64> =
                (0..len as u64).map(|i| i.wrapping_mul(7_919) % 50_021).collect();
            let mut expected = values.clone();
            expected.sort_unstable();
            let sorted = Sorted::new(values, Ord::cmp, || Ok(())).unwrap();
            assert!(sorted.eq(expected), "{len}");
        }
    }

    #[test]
    fn it_ends_between_two_pieces() {
        let checks = Cell::new(0);
        let check = || {
            checks.set(checks.get() + 1);
            if checks.get() > 2 { Err(RunError::Cancelled) } else { Ok(()) }
        };
        assert!(Sorted::new(vec![0; 4 * PIECE], Ord::cmp, check).is_err());
        assert_eq!(checks.get(), 3);
    }
}
