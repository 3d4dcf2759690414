//! Aggregations over series, time by time.

use std::collections::HashMap;

use query::RunError;

use super::Evaluation;
use super::series::{Series, grouped};
use crate::ast::{Grouping, VectorOp};
use crate::error::EvalError;
use crate::stage::Labels;

/// The state of a group at one time.
#[derive(Clone, Copy, Default)]
struct Group {
    count: f64,
    sum: f64,
    least: f64,
    greatest: f64,
    mean: f64,
    squares: f64,
}

impl Group {
    fn add(&mut self, value: f64) {
        if self.count == 0.0 {
            (self.least, self.greatest) = (value, value);
        }
        self.count += 1.0;
        self.sum += value;
        self.least = if self.least.is_nan() { value } else { self.least.min(value) };
        self.greatest = if self.greatest.is_nan() { value } else { self.greatest.max(value) };
        let distance = value - self.mean;
        self.mean += distance / self.count;
        self.squares += distance * (value - self.mean);
    }

    fn value(&self, op: VectorOp) -> f64 {
        match op {
            VectorOp::Sum => self.sum,
            VectorOp::Avg => self.sum / self.count,
            VectorOp::Min => self.least,
            VectorOp::Max => self.greatest,
            VectorOp::Count => self.count,
            VectorOp::Stdvar => self.squares / self.count,
            VectorOp::Stddev => (self.squares / self.count).sqrt(),
            VectorOp::Topk
            | VectorOp::Bottomk
            | VectorOp::ApproxTopk
            | VectorOp::Sort
            | VectorOp::SortDesc => unreachable!("these choose among series"),
        }
    }
}

impl Evaluation<'_> {
    /// Aggregates series; without `grouping` into one series.
    pub(super) fn over_series(
        &mut self,
        op: VectorOp,
        parameter: Option<f64>,
        grouping: Option<&Grouping>,
        mut series: Vec<Series>,
    ) -> Result<Vec<Series>, EvalError> {
        if matches!(op, VectorOp::Sort | VectorOp::SortDesc) {
            let value = |one: &Series| one.points.iter().flatten().next().copied();
            series.sort_by(|a, b| {
                let (a, b) = (value(a).unwrap_or(f64::NAN), value(b).unwrap_or(f64::NAN));
                // What is no number comes last in both orders.
                let order = if op == VectorOp::Sort { a.total_cmp(&b) } else { b.total_cmp(&a) };
                a.is_nan().cmp(&b.is_nan()).then(order)
            });
            return Ok(series);
        }
        let none = Grouping { without: false, labels: Vec::new() };
        let grouping = grouping.unwrap_or(&none);
        let mut places: HashMap<Labels, Vec<usize>> = HashMap::new();
        for (place, one) in series.iter().enumerate() {
            places.entry(grouped(&one.labels, grouping)).or_default().push(place);
        }
        let mut groups: Vec<(Labels, Vec<usize>)> = places.into_iter().collect();
        groups.sort();
        if op.takes_parameter() {
            let count = parameter.unwrap_or(1.0) as usize;
            for (_, members) in &groups {
                self.choose(op, count, members, &mut series)?;
            }
            series.retain(|one| one.points.iter().any(Option::is_some));
            return Ok(series);
        }
        let before = self.points_bytes(series.len());
        self.take(self.points_bytes(groups.len()))?;
        let mut found = Vec::with_capacity(groups.len());
        for (labels, members) in groups {
            self.check()?;
            let mut points = vec![Group::default(); self.grid.steps()];
            for &member in &members {
                for (group, value) in points.iter_mut().zip(&series[member].points) {
                    if let Some(value) = value {
                        group.add(*value);
                    }
                }
            }
            let value = |group: &Group| (group.count > 0.0).then(|| group.value(op));
            found.push(Series { labels, points: points.iter().map(value).collect() });
        }
        self.give_back(before);
        Ok(found)
    }

    /// Keeps the points of the `count` greatest or least members at each time.
    fn choose(
        &self,
        op: VectorOp,
        count: usize,
        members: &[usize],
        series: &mut [Series],
    ) -> Result<(), RunError> {
        for step in 0..self.grid.steps() {
            self.check()?;
            let mut there: Vec<usize> =
                members.iter().copied().filter(|&m| series[m].points[step].is_some()).collect();
            if there.len() <= count {
                continue;
            }
            there.sort_by(|&a, &b| {
                let value = |m: usize| series[m].points[step].unwrap_or(f64::NAN);
                let (a_value, b_value) = (value(a), value(b));
                // NaN comes last in both orders.
                let order = match (a_value.is_nan(), b_value.is_nan()) {
                    (false, false) if op != VectorOp::Bottomk => b_value.total_cmp(&a_value),
                    (false, false) => a_value.total_cmp(&b_value),
                    (a, b) => a.cmp(&b),
                };
                order.then_with(|| series[a].labels.cmp(&series[b].labels))
            });
            for &member in &there[count..] {
                series[member].points[step] = None;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering::Relaxed;
    use std::time::Instant;

    use query::Context;

    use super::*;
    use crate::metric::Grid;
    use crate::testing::Memory;

    #[test]
    fn choosing_among_series_ends_with_the_query() {
        let (source, context) = (Memory(Vec::new()), Context::default());
        let evaluation = Evaluation {
            source: &source,
            context: &context,
            grid: Grid::new(0, 2, 1).unwrap(),
            started: Instant::now(),
            held_bytes: 0,
        };
        let one = |value: f64| Series { labels: Labels::new(), points: vec![Some(value); 3] };
        let mut series = [one(1.0), one(2.0)];
        evaluation.choose(VectorOp::Topk, 1, &[0, 1], &mut series).unwrap();
        assert_eq!(series.each_ref().map(|one| one.points[2]), [None, Some(2.0)]);
        context.cancelled.store(true, Relaxed);
        let ended = evaluation.choose(VectorOp::Topk, 1, &[0, 1], &mut series);
        assert!(matches!(ended, Err(RunError::Cancelled)), "{ended:?}");
    }
}
