//! What must be true: every line that was acknowledged, once.

use std::collections::BTreeSet;

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

#[derive(Default)]
pub struct Model {
    pub lines: Vec<Line>,
    /// Counts acknowledgements.
    pub now: u64,
}

/// What a query may have left out.
pub struct Allowance<'a> {
    /// Lines that arrived before may be gone by retention.
    pub received_before_ns: Option<i64>,
    /// Partitions that it said it has not all of.
    pub partitions: &'a BTreeSet<u32>,
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
        }
        for (index, line) in self.lines.iter().enumerate() {
            let at = TimeRange { first_ns: line.time_ns, last_ns: line.time_ns };
            let is_due = line.acknowledged.is_some_and(|acknowledged| acknowledged <= began)
                && times.overlaps(&at)
                && allowance.received_before_ns.is_none_or(|before| line.received_ns >= before)
                && !allowance.partitions.contains(&line.partition);
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
    let model = Model { lines: vec![line(Some(1)), line(Some(2)), line(None)], now: 2 };
    let check = |found: &[(usize, i64)], began, before, missing: &[u32], expected: &str| {
        let partitions = missing.iter().copied().collect();
        let allowance = Allowance { received_before_ns: before, partitions: &partitions };
        let result = model.check(found, TimeRange::ALL, began, &allowance);
        assert_eq!(result.err().unwrap_or_default(), expected);
    };
    check(&[(0, 5), (1, 5)], 2, None, &[], "");
    check(&[(0, 5), (1, 5), (2, 5)], 1, None, &[], "");
    check(&[(0, 5)], 1, None, &[], "");
    check(&[(0, 5)], 2, None, &[], "line 1 of partition 1 is missing");
    check(&[(0, 5)], 2, None, &[1], "");
    check(&[(0, 5)], 2, Some(8), &[], "");
    check(&[(0, 5), (0, 5)], 1, None, &[], "line 0 is there twice");
    check(&[(0, 6)], 0, None, &[], "line 0 was never sent");
    check(&[(3, 5)], 0, None, &[], "line 3 was never sent");
}
