//! Lines that a query cannot read, because the file that holds them is damaged.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Damaged units that are listed for a query. Further ones are only counted, and may be counted
/// again where a query reads them twice.
const LISTED_MAX: usize = 1_024;
/// Damaged units that a text names.
const NAMED_MAX: usize = 8;

/// A unit that cannot be read, because its file is damaged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DamagedUnit {
    /// Number of its segment.
    pub segment: u64,
    /// Its index there: a block of a sealed segment, a frame of a hot one. None: nothing of the
    /// segment can be read.
    pub unit: Option<u32>,
    /// Lines in it.
    pub lines: u64,
    /// What is damaged: the text names file and byte.
    pub error: String,
}

impl fmt::Display for DamagedUnit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "segment {}", self.segment)?;
        if let Some(unit) = self.unit {
            write!(f, ", block {unit}")?;
        }
        write!(f, " with {} lines", self.lines)
    }
}

/// The damaged units that a query passed over, because its caller takes an answer without them.
///
/// The head of an answer names them, and is sent before the rows. So units that are known to be
/// damaged are added before the first row, and none is passed over after the head is
/// [told](Self::tell): a query that finds new damage then ends with an error, and the next one
/// knows the damage.
#[derive(Debug, Default)]
pub struct Damages(Mutex<Passed>);

#[derive(Debug, Default)]
struct Passed {
    is_told: bool,
    listed: BTreeMap<(u64, Option<u32>), DamagedUnit>,
    lines_beyond: u64,
}

impl Damages {
    /// Adds a unit, and returns true: a query may read it several times; it is listed once. Returns
    /// false if it is new and the others are told already.
    pub fn add(&self, unit: &DamagedUnit) -> bool {
        let mut passed = self.lock();
        let key = (unit.segment, unit.unit);
        if passed.listed.contains_key(&key) {
            return true;
        }
        if passed.listed.len() < LISTED_MAX && !passed.is_told {
            passed.listed.insert(key, unit.clone());
        } else if !passed.is_told {
            passed.lines_beyond += unit.lines;
        }
        // Units beyond the list are in the number of lines; whether this one is, is not known.
        !passed.is_told || passed.lines_beyond > 0
    }

    /// The sentence for the head of the answer, if lines are missing; no unit is added afterwards.
    pub fn tell(&self) -> Option<String> {
        self.lock().is_told = true;
        self.message()
    }

    /// The units, by segment and place; the first 1,024 that were found.
    pub fn units(&self) -> Vec<DamagedUnit> {
        self.lock().listed.values().cloned().collect()
    }

    /// Lines in all of them: as many may be missing from the answer.
    pub fn lines(&self) -> u64 {
        let passed = self.lock();
        passed.listed.values().map(|unit| unit.lines).sum::<u64>() + passed.lines_beyond
    }

    /// One sentence for the reader of the answer; none when nothing is missing.
    pub fn message(&self) -> Option<String> {
        let (units, lines) = (self.units(), self.lines());
        if units.is_empty() {
            return None;
        }
        let named = units.iter().take(NAMED_MAX).map(ToString::to_string).collect::<Vec<_>>();
        let further = match units.len().saturating_sub(NAMED_MAX) {
            0 => String::new(),
            further => format!(" and {further} others"),
        };
        Some(format!(
            "{lines} stored lines were not searched, because they are damaged: {}{further}; `loginson verify` says what \
             is damaged, a backup or another copy may have the lines",
            named.join("; ")
        ))
    }

    fn lock(&self) -> MutexGuard<'_, Passed> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn damaged(segment: u64, unit: Option<u32>, lines: u64) -> DamagedUnit {
        DamagedUnit { segment, unit, lines, error: "7.sealed at byte 5".into() }
    }

    #[test]
    fn a_unit_is_listed_once_and_the_text_names_the_first_ones() {
        let damages = Damages::default();
        assert_eq!(damages.message(), None);
        for (segment, unit, lines) in [(7, Some(3), 10), (7, Some(3), 10), (5, None, 2)] {
            assert!(damages.add(&damaged(segment, unit, lines)));
        }
        assert_eq!(damages.lines(), 12);
        let text = damages.message().unwrap();
        assert!(text.starts_with("12 stored lines were not searched"), "{text}");
        let named = "damaged: segment 5 with 2 lines; segment 7, block 3 with 10 lines; `loginson";
        assert!(text.contains(named), "{text}");
        for unit in 0..2_000 {
            damages.add(&damaged(8, Some(unit), 1));
        }
        assert_eq!(damages.units().len(), LISTED_MAX);
        assert_eq!(damages.lines(), 12 + 2_000);
        assert!(damages.message().unwrap().contains(" and 1016 others"));
    }

    #[test]
    fn what_is_found_after_the_head_is_not_passed_over() {
        let damages = Damages::default();
        assert!(damages.add(&damaged(1, Some(1), 10)));
        assert!(damages.tell().unwrap().starts_with("10 stored lines"));
        assert!(damages.add(&damaged(1, Some(1), 10)), "it is told");
        assert!(!damages.add(&damaged(1, Some(2), 10)));
        assert_eq!(damages.lines(), 10);
    }
}
