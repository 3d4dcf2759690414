//! What must be true: every line that was acknowledged, once.

use std::collections::{BTreeMap, BTreeSet};

use crate::catalog::TimeRange;

/// A line of the model. Its text is its index and its time.
pub struct Line {
    pub time_ns: i64,
    pub received_ns: i64,
    /// Partitions that its frame was sent to; one, unless a weakness sends it to more.
    pub partition: u32,
    /// When it was acknowledged, in the model's own count of events.
    pub acknowledged: Option<u64>,
}

/// A deletion of every line whose index leaves a remainder.
pub struct Deletion {
    pub remainder: usize,
    /// Lines that arrived before are covered; `None` if it is not known whether it began, or when.
    pub before_ns: Option<i64>,
}

/// What indexes are divided by.
const DIVISOR: usize = 7;

#[derive(Default)]
pub struct Model {
    pub lines: Vec<Line>,
    pub deletions: Vec<Deletion>,
    /// Counts acknowledgements.
    pub now: u64,
}

/// What a query may have left out.
pub struct Allowance<'a> {
    /// Lines that arrived before may be gone by retention.
    pub received_before_ns: Option<i64>,
    /// Partitions that it said it has not all of.
    pub partitions: &'a BTreeSet<u32>,
    /// Deletions that had begun when the query began.
    pub deletions: usize,
    /// Partitions of which it said that it has what was acknowledged until some time.
    pub until: &'a BTreeMap<u32, u64>,
}

impl Model {
    pub fn text(&self, index: usize) -> String {
        format!("{index} {}", self.lines[index].time_ns)
    }

    /// Index and time of a line.
    pub fn parse(text: &str) -> Option<(usize, i64)> {
        let (index, time_ns) = text.split_once(' ')?;
        Some((index.parse().ok()?, time_ns.parse().ok()?))
    }

    /// The filter of a deletion.
    pub fn filter(remainder: usize) -> String {
        (remainder % DIVISOR).to_string()
    }

    /// Whether a deletion with this filter and time covers a line.
    pub fn is_covered(&self, index: usize, filter: &str, before_ns: i64) -> bool {
        Model::filter(index) == filter && self.lines[index].received_ns < before_ns
    }

    pub fn acknowledge(&mut self, index: usize) {
        self.now += 1;
        self.lines[index].acknowledged.get_or_insert(self.now);
    }

    /// Compares the lines that a query found with those that it may and must find: all that were
    /// acknowledged when it began at `began`, none twice, none that nobody sent.
    pub fn check(
        &self,
        found: &[(usize, i64)],
        times: TimeRange,
        began: u64,
        allowance: &Allowance<'_>,
    ) -> Result<(), String> {
        let mut is_found = vec![false; self.lines.len()];
        for &(index, time_ns) in found {
            let line = self.lines.get(index).filter(|line| line.time_ns == time_ns);
            let Some(_) = line else { return Err(format!("line {index} was never sent")) };
            if std::mem::replace(&mut is_found[index], true) {
                return Err(format!("line {index} is there twice"));
            }
            let is_deleted = self.deletions[..allowance.deletions].iter().any(|deletion| {
                let filter = Model::filter(deletion.remainder);
                deletion.before_ns.is_some_and(|before| self.is_covered(index, &filter, before))
            });
            if is_deleted {
                return Err(format!("line {index} is there, and was deleted"));
            }
        }
        for (index, line) in self.lines.iter().enumerate() {
            let at = TimeRange { first_ns: line.time_ns, last_ns: line.time_ns };
            let until = allowance.until.get(&line.partition).map_or(began, |at| began.min(*at));
            let is_due = line.acknowledged.is_some_and(|acknowledged| acknowledged <= until)
                && times.overlaps(&at)
                && allowance.received_before_ns.is_none_or(|before| line.received_ns >= before)
                && !allowance.partitions.contains(&line.partition)
                && !self.deletions.iter().any(|deletion| {
                    let before_ns = deletion.before_ns.unwrap_or(i64::MAX);
                    self.is_covered(index, &Model::filter(deletion.remainder), before_ns)
                });
            if is_due && !is_found[index] {
                let partition = line.partition;
                return Err(format!("line {index} of partition {partition} is missing"));
            }
        }
        Ok(())
    }
}

#[test]
fn the_model_finds_what_is_wrong() {
    let line = |acknowledged| Line { time_ns: 5, received_ns: 7, partition: 1, acknowledged };
    let mut model =
        Model { lines: vec![line(Some(1)), line(Some(2)), line(None)], now: 2, ..Model::default() };
    let check =
        |model: &Model, found: &[(usize, i64)], began, before, missing: &[u32], expected: &str| {
            let partitions = missing.iter().copied().collect();
            let deletions = model.deletions.len();
            let until = BTreeMap::new();
            let allowance = Allowance {
                received_before_ns: before,
                partitions: &partitions,
                until: &until,
                deletions,
            };
            let result = model.check(found, TimeRange::ALL, began, &allowance);
            assert_eq!(result.err().unwrap_or_default(), expected);
        };
    check(&model, &[(0, 5), (1, 5)], 2, None, &[], "");
    check(&model, &[(0, 5), (1, 5), (2, 5)], 1, None, &[], "");
    check(&model, &[(0, 5)], 1, None, &[], "");
    check(&model, &[(0, 5)], 2, None, &[], "line 1 of partition 1 is missing");
    check(&model, &[(0, 5)], 2, None, &[1], "");
    check(&model, &[(0, 5)], 2, Some(8), &[], "");
    check(&model, &[(0, 5), (0, 5)], 1, None, &[], "line 0 is there twice");
    check(&model, &[(0, 6)], 0, None, &[], "line 0 was never sent");
    check(&model, &[(3, 5)], 0, None, &[], "line 3 was never sent");
    for (until, expected) in [(0, ""), (1, "line 0 of partition 1 is missing")] {
        let (partitions, until) = (BTreeSet::new(), BTreeMap::from([(1, until)]));
        let allowance = Allowance {
            received_before_ns: None,
            partitions: &partitions,
            until: &until,
            deletions: 0,
        };
        let result = model.check(&[], TimeRange::ALL, 2, &allowance);
        assert_eq!(result.err().unwrap_or_default(), expected);
    }
    let deletion = |before_ns| Deletion { remainder: 1, before_ns };
    model.deletions = vec![deletion(Some(8))];
    check(&model, &[(0, 5)], 2, None, &[], "");
    check(&model, &[(0, 5), (1, 5)], 2, None, &[], "line 1 is there, and was deleted");
    model.deletions = vec![deletion(Some(7))];
    check(&model, &[(0, 5)], 2, None, &[], "line 1 of partition 1 is missing");
    check(&model, &[(0, 5), (1, 5)], 2, None, &[], "");
    model.deletions = vec![deletion(None)];
    check(&model, &[(0, 5)], 2, None, &[], "");
    check(&model, &[(0, 5), (1, 5)], 2, None, &[], "");
}
