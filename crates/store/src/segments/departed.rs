//! Lines that retention deleted with their segments, remembered for readers that had not read them
//! yet.

use std::sync::Mutex;

use crate::sync::lock;

/// Ranges of deleted lines that are remembered. Beyond this number the oldest two become one, so
/// that a reader may get too high a count of skipped lines.
pub(crate) const DEPARTED_MAX: usize = 1_000;

/// Lines that retention deleted with one segment, or with several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Departed {
    /// Sequence numbers of their frames, first and last.
    pub(crate) sequence: (u64, u64),
    pub(crate) lines: u64,
}

/// The remembered ranges of one store, sorted by their last number.
pub(crate) struct DepartedLines {
    ranges: Mutex<Vec<Departed>>,
}

impl DepartedLines {
    pub(crate) fn new(ranges: Vec<Departed>) -> Self {
        DepartedLines { ranges: Mutex::new(ranges) }
    }

    pub(crate) fn add(&self, new: Departed) {
        note_departed(&mut lock(&self.ranges), new);
    }

    /// Lines of the ranges that a reader passes when it goes from `after` to `through`.
    pub(crate) fn lines_between(&self, after: u64, through: u64) -> u64 {
        let is_passed = |range: &&Departed| after < range.sequence.1 && range.sequence.1 <= through;
        lock(&self.ranges).iter().filter(is_passed).map(|range| range.lines).sum()
    }
}

/// Adds a range; beyond [`DEPARTED_MAX`] the oldest two become one.
pub(crate) fn note_departed(all: &mut Vec<Departed>, new: Departed) {
    let at = all.partition_point(|known| known.sequence.1 <= new.sequence.1);
    all.insert(at, new);
    while all.len() > DEPARTED_MAX {
        let oldest = all.remove(0);
        let first = oldest.sequence.0.min(all[0].sequence.0);
        all[0].sequence.0 = first;
        all[0].lines += oldest.lines;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_went_is_remembered_within_bounds() {
        let mut all = Vec::new();
        let most = DEPARTED_MAX as u64 + 50;
        for at in (0..most).rev() {
            note_departed(&mut all, Departed { sequence: (10 * at, 10 * at + 5), lines: 2 });
        }
        assert_eq!((all.len(), all.iter().map(|gone| gone.lines).sum()), (DEPARTED_MAX, 2 * most));
        assert_eq!(all[0].sequence, (0, 505));
        assert!(all.is_sorted_by_key(|gone| gone.sequence.1));
        let lines = DepartedLines::new(all);
        assert_eq!(lines.lines_between(505, 525), 4);
        assert_eq!(lines.lines_between(504, 504), 0);
    }
}
