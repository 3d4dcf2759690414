//! Adds up rows to one for each type and step: what a store sends to the server that makes a chart
//! of several stores. So a chart of a month does not need all rows of a month.

use std::collections::BTreeMap;

use text::duration::SECOND_NS;

use crate::summary::OTHER;
use crate::summary::chart::{CHART_VALUES_MAX, add_to};
use crate::summary::row::SummaryRow;
use crate::summary::time::bucket_start;

/// Memory of a row without its texts, and of a value of it, about.
const ROW_BYTES: usize = 400;
const VALUE_BYTES: usize = 80;

/// Rows, added up by type and step. Its memory grows with what is new in the rows; the caller
/// counts it.
pub struct StepRows {
    step_ns: Option<i64>,
    rows: BTreeMap<(i64, String), SummaryRow>,
}

impl StepRows {
    /// Steps of so many seconds, which begin at multiples of them since 1970; none: each bucket is
    /// a step of its own.
    pub fn new(step_s: Option<u64>) -> StepRows {
        let widest_s = i64::MAX as u64 / SECOND_NS as u64;
        let step_ns = step_s.map(|step_s| step_s.clamp(1, widest_s) as i64 * SECOND_NS);
        StepRows { step_ns, rows: BTreeMap::new() }
    }

    /// Adds a row. Returns the bytes of memory that it takes in addition.
    pub fn add(&mut self, row: &SummaryRow) -> usize {
        let time_ns = self.step_ns.map_or(row.time_ns, |step| bucket_start(row.time_ns, step));
        let bucket_s = self.step_ns.map_or(row.bucket_s, |step| (step / SECOND_NS) as u64);
        let mut bytes = 0;
        let sum = self.rows.entry((time_ns, row.summary_of.clone())).or_insert_with(|| {
            bytes += ROW_BYTES + 2 * row.summary_of.len();
            SummaryRow {
                time_ns,
                bucket_s,
                summary_of: row.summary_of.clone(),
                lines: 0,
                bytes: 0,
                dimensions: BTreeMap::new(),
                sums: BTreeMap::new(),
                rerun: None,
                through: None,
            }
        });
        add_to(&mut sum.lines, row.lines);
        add_to(&mut sum.bytes, row.bytes);
        for (name, number) in &row.sums {
            bytes += add_named(&mut sum.sums, name, *number);
        }
        for (name, counts) in &row.dimensions {
            if !sum.dimensions.contains_key(name) {
                bytes += VALUE_BYTES + name.len();
            }
            let values = sum.dimensions.entry(name.clone()).or_default();
            for (value, lines) in counts {
                let known = values.len() < CHART_VALUES_MAX || values.contains_key(value);
                bytes += add_named(values, if known { value } else { OTHER }, *lines);
            }
        }
        bytes
    }

    /// The rows, in order of time.
    pub fn finish(self) -> Vec<SummaryRow> {
        self.rows.into_values().collect()
    }
}

/// Adds to the number of that name. Returns the bytes that a new name takes.
fn add_named(sums: &mut BTreeMap<String, u64>, name: &str, number: u64) -> usize {
    if let Some(sum) = sums.get_mut(name) {
        add_to(sum, number);
        return 0;
    }
    sums.insert(name.to_owned(), number);
    VALUE_BYTES + name.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summary::chart::{ChartBuilder, ChartRange, TypesBuilder};

    fn rows() -> Vec<SummaryRow> {
        let row = |number: i64| {
            let value = |value: i64| (format!("web{value}"), 1 + value as u64);
            SummaryRow {
                time_ns: (1_769_860_800 + 10 * (number % 500)) * SECOND_NS,
                bucket_s: 10,
                summary_of: ["access", "json"][number as usize % 2].to_owned(),
                lines: number as u64,
                bytes: 100 * number as u64,
                dimensions: BTreeMap::from([
                    ("hostname".to_owned(), [number % 3, 7].map(value).into()),
                    ("level".to_owned(), [("info".to_owned(), number as u64)].into()),
                ]),
                sums: BTreeMap::from([("response_bytes".to_owned(), 3)]),
                rerun: None,
                through: Some(5),
            }
        };
        (0..2_000).map(row).collect()
    }

    #[test]
    fn a_chart_of_the_sums_is_that_of_the_rows() {
        let start_ns = 1_769_860_815 * SECOND_NS;
        for step_s in [10, 60, 70, 3_600, 86_400] {
            let end_ns = start_ns + 4_000 * SECOND_NS;
            let range = ChartRange::new(start_ns, end_ns, Some(step_s), 10).unwrap();
            let (first_ns, last_ns) = range.time_range_ns();
            let mut steps = StepRows::new(Some(range.step_s()));
            let mut expected = ChartBuilder::new(range, "access");
            for row in rows().iter().filter(|row| (first_ns..last_ns).contains(&row.time_ns)) {
                steps.add(row);
                expected.add(row);
            }
            let steps = steps.finish();
            assert!(steps.len() <= 2 * (4_000 / step_s as usize + 2), "{} rows", steps.len());
            let mut chart = ChartBuilder::new(range, "access");
            steps.iter().for_each(|row| chart.add(row));
            assert_eq!(chart.finish(), expected.finish(), "{step_s}");
        }
    }

    #[test]
    fn the_widest_step_has_a_row_for_each_type() {
        let (mut steps, mut expected) = (StepRows::new(Some(u64::MAX)), TypesBuilder::new());
        for row in &rows() {
            steps.add(row);
            expected.add(row);
        }
        let steps = steps.finish();
        assert_eq!(steps.len(), 2);
        let mut types = TypesBuilder::new();
        steps.iter().for_each(|row| types.add(row));
        assert_eq!(types.finish(), expected.finish());
    }

    #[test]
    fn memory_is_counted_once_and_values_beyond_the_limit_are_other() {
        let mut steps = StepRows::new(None);
        let row = &rows()[1];
        assert!(steps.add(row) > ROW_BYTES);
        assert_eq!(steps.add(row), 0);
        let values = (0..CHART_VALUES_MAX + 5).map(|value| (format!("v{value}"), 1));
        let dimensions = BTreeMap::from([("hostname".to_owned(), values.collect())]);
        steps.add(&SummaryRow { dimensions, ..row.clone() });
        let rows = steps.finish();
        assert_eq!((rows.len(), rows[0].bucket_s, rows[0].time_ns), (1, 10, row.time_ns));
        let values = &rows[0].dimensions["hostname"];
        assert_eq!(values.len(), CHART_VALUES_MAX + 1);
        // Two of the row before are among them.
        assert_eq!(values[OTHER], 7);
    }
}
