//! The reference model of the store: a vector of lines, with what must hold for each.

use std::collections::BTreeMap;

use record::LineId;
use store::RetentionRule;

use super::lines::number_of;

/// What must hold for a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Not acknowledged: its frame may be there as a whole or not at all.
    Unknown,
    /// Acknowledged, or seen after a crash: must be there, unless a limit or deletion covers it.
    Kept,
    /// Deleted: must not come back.
    Gone,
}

pub struct Line {
    pub raw: Vec<u8>,
    pub mark: &'static str,
    pub id: LineId,
    pub received_ns: i64,
    pub fate: Fate,
    /// Whether a deletion that covers it was requested.
    pub asked: bool,
}

/// A line as the store shows it.
pub struct Shown {
    pub id: LineId,
    pub received_ns: i64,
    pub raw: Vec<u8>,
}

/// The limits by which lines may be deleted without a request.
pub struct Limits {
    pub age_ns: Option<i64>,
    pub bytes_max: Option<u64>,
    pub rules: Vec<RetentionRule>,
}

#[derive(Default)]
pub struct Truth {
    pub lines: Vec<Line>,
}

impl Truth {
    /// Compares the lines that the store shows with those that must be there. A line that may be
    /// deleted and is missing counts as gone from then on. Returns how many lines went, and how
    /// many of these no filter selects: they can only have been deleted with their segments.
    pub fn compare(&mut self, shown: &[Shown], limits: &Limits, now_ns: i64) -> (u64, u64) {
        let shown = self.by_number(shown);
        let mut went: Vec<usize> = Vec::new();
        for (number, line) in self.lines.iter_mut().enumerate() {
            match (line.fate, shown.contains_key(&number)) {
                (Fate::Gone, true) => panic!("line {number} came back"),
                (Fate::Kept, false) => {
                    assert!(limits.may_go(line, now_ns), "line {number} is lost: {}", line.text());
                    went.push(number);
                }
                _ => {}
            }
        }
        self.check_order_of_leaving(&went, limits, now_ns);
        for &number in &went {
            self.lines[number].fate = Fate::Gone;
        }
        self.check_frames(&shown, limits, now_ns);
        let with_segments =
            went.iter().filter(|&&number| !limits.is_named(&self.lines[number], now_ns)).count();
        (went.len() as u64, with_segments as u64)
    }

    /// After a restart: lines that were never acknowledged and are there must stay. So must lines
    /// that had gone, if `may_return`; without it, they must not be there.
    pub fn keep_what_was_found(&mut self, shown: &[Shown], may_return: bool) {
        for number in self.by_number(shown).into_keys() {
            let fate = &mut self.lines[number].fate;
            assert!(may_return || *fate != Fate::Gone, "line {number} came back");
            *fate = Fate::Kept;
        }
    }

    /// The lines by number. Asserts that each is unchanged and there once.
    fn by_number<'a>(&self, shown: &'a [Shown]) -> BTreeMap<usize, &'a Shown> {
        let mut numbers = BTreeMap::new();
        for line in shown {
            let text = || String::from_utf8_lossy(&line.raw).into_owned();
            let number = number_of(&line.raw).unwrap_or_else(|| panic!("foreign: {}", text()));
            let sent = self.lines.get(number).unwrap_or_else(|| panic!("foreign: {}", text()));
            assert!(sent.raw == line.raw, "line {number} is changed: {} {}", sent.text(), text());
            assert_eq!(sent.id, line.id, "name of line {number}");
            assert_eq!(sent.received_ns, line.received_ns, "arrival of line {number}");
            assert!(numbers.insert(number, line).is_none(), "line {number} is there twice");
        }
        numbers
    }

    /// Asserts that the limit on bytes deletes from the oldest line on.
    fn check_order_of_leaving(&self, went: &[usize], limits: &Limits, now_ns: i64) {
        let for_bytes = |number: &&usize| !limits.otherwise(&self.lines[**number], now_ns);
        let Some(&last) = went.iter().rev().find(for_bytes) else { return };
        let stayed = self.lines[..last].iter().position(|line| line.fate == Fate::Kept);
        let stayed = stayed.filter(|number| !went.contains(number));
        assert_eq!(stayed, None, "line {last} went, an older one stayed");
    }

    /// Asserts that a frame that was not acknowledged is there as a whole or not at all.
    fn check_frames(&self, shown: &BTreeMap<usize, &Shown>, limits: &Limits, now_ns: i64) {
        let numbers: Vec<usize> = (0..self.lines.len()).collect();
        let frames = numbers.chunk_by(|&a, &b| {
            let of =
                |number: usize| (self.lines[number].id.sequence, self.lines[number].received_ns);
            of(a) == of(b)
        });
        for frame in frames {
            let is_there = |number: &usize| shown.contains_key(number);
            let unknown = frame.iter().any(|&n| self.lines[n].fate == Fate::Unknown);
            if unknown && frame.iter().any(is_there) {
                let missing =
                    frame.iter().find(|&n| !is_there(n) && !limits.may_go(&self.lines[*n], now_ns));
                assert_eq!(missing, None, "a frame is there in part");
            }
        }
    }
}

impl Line {
    fn is_older(&self, age_ns: i64, now_ns: i64) -> bool {
        self.received_ns < now_ns - age_ns
    }

    pub fn text(&self) -> String {
        format!("{} {:?} {:?}", self.id, self.fate, String::from_utf8_lossy(&self.raw))
    }
}

impl Limits {
    /// Whether a line may be deleted at that time.
    pub fn may_go(&self, line: &Line, now_ns: i64) -> bool {
        self.bytes_max.is_some() || self.otherwise(line, now_ns)
    }

    /// Whether a line may be deleted for another reason than the limit on bytes.
    fn otherwise(&self, line: &Line, now_ns: i64) -> bool {
        self.is_named(line, now_ns)
            || self.age_ns.is_some_and(|age_ns| line.is_older(age_ns, now_ns))
    }

    /// Whether the filter of a deletion or of a rule selects a line.
    pub fn is_named(&self, line: &Line, now_ns: i64) -> bool {
        let names =
            |rule: &RetentionRule| rule.filter == line.mark && line.is_older(rule.age_ns, now_ns);
        line.asked || self.rules.iter().any(names)
    }
}
