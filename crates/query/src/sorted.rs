//! Sorting that can be ended: pieces are sorted one after the other, with a look at the wish to cancel in between, and merged as
//! what comes first is taken. What is behind the last that is wanted, is never brought into order as a whole.

use std::cmp::Ordering;
use std::vec::IntoIter;

use crate::run::RunError;

/// Values of a piece: some milliseconds, where each comparison has to fetch both texts from memory.
const PIECE: usize = 16_384;

/// Values in order, equal ones in any.
pub(crate) struct Sorted<T, F> {
    /// None of them empty; a heap by the first value of each.
    pieces: Vec<IntoIter<T>>,
    compare: F,
}

impl<T, F: Fn(&T, &T) -> Ordering> Sorted<T, F> {
    /// Brings `values` into the order of `compare`; `check` ends it by an error.
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

    /// Moves a piece to where it belongs, below it in the heap.
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

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

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
