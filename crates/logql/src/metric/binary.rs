//! Operations between two values, time by time.
//!
//! Series are matched as in Prometheus: by all labels, by those of `on`, or by those that
//! `ignoring` leaves; one to one, or many to one with `group_left` and `group_right`.

use std::collections::HashMap;

use super::Evaluation;
use super::series::{Series, Value, grouped, label, set_label};
use crate::ast::{BinaryModifier, BinaryOp, Grouping};
use crate::error::EvalError;
use crate::stage::Labels;

/// Series by the labels they are matched by.
type ByKey = HashMap<Labels, Vec<usize>>;

impl Evaluation<'_> {
    /// The result of `op` on both sides.
    pub(super) fn between(
        &mut self,
        op: BinaryOp,
        modifier: &BinaryModifier,
        left: Value,
        right: Value,
    ) -> Result<Value, EvalError> {
        match (left, right) {
            (Value::Scalar(a), Value::Scalar(b)) => Ok(Value::Scalar(match op.is_comparison() {
                true => f64::from(u8::from(holds(op, a, b))),
                false => compute(op, a, b),
            })),
            (Value::Series(series), Value::Scalar(b)) => {
                Ok(Value::Series(with_scalar(series, |a| point(op, modifier.bool, a, b, a))))
            }
            (Value::Scalar(a), Value::Series(series)) => {
                Ok(Value::Series(with_scalar(series, |b| point(op, modifier.bool, a, b, b))))
            }
            (Value::Series(left), Value::Series(right)) => {
                self.check()?;
                match op.is_set() {
                    true => Ok(Value::Series(self.set(op, modifier, left, right))),
                    false => self.matched(op, modifier, &left, &right).map(Value::Series),
                }
            }
        }
    }

    fn set(
        &self,
        op: BinaryOp,
        modifier: &BinaryModifier,
        mut left: Vec<Series>,
        mut right: Vec<Series>,
    ) -> Vec<Series> {
        let left_keys = keys(&left, modifier);
        let right_keys = keys(&right, modifier);
        // The times at which a side has a point of a key.
        let there = |series: &[Series], members: Option<&Vec<usize>>| -> Vec<bool> {
            let any = |step: usize| {
                members.into_iter().flatten().any(|&m| series[m].points[step].is_some())
            };
            (0..self.grid.steps()).map(any).collect()
        };
        match op {
            BinaryOp::Or => {
                for (key, members) in &right_keys {
                    let taken = there(&left, left_keys.get(key));
                    for &member in members {
                        let points = right[member].points.iter_mut().zip(&taken);
                        points.filter(|(_, taken)| **taken).for_each(|(point, _)| *point = None);
                    }
                }
                join(&mut left, right);
            }
            _ => {
                for (key, members) in &left_keys {
                    let other = there(&right, right_keys.get(key));
                    for &member in members {
                        for (point, other) in left[member].points.iter_mut().zip(&other) {
                            if *other != (op == BinaryOp::And) {
                                *point = None;
                            }
                        }
                    }
                }
            }
        }
        left.retain(|one| one.points.iter().any(Option::is_some));
        left
    }

    fn matched(
        &mut self,
        op: BinaryOp,
        modifier: &BinaryModifier,
        left: &[Series],
        right: &[Series],
    ) -> Result<Vec<Series>, EvalError> {
        // One side, the "many", may have several series for each of the other.
        let swapped = modifier.group.as_ref().is_some_and(|group| !group.left);
        let (many, one) = if swapped { (right, left) } else { (left, right) };
        let one_keys = keys(one, modifier);
        for places in one_keys.values().filter(|places| places.len() > 1) {
            self.check()?;
            let there =
                |step: usize| places.iter().filter(move |p| one[**p].points[step].is_some());
            if (0..self.grid.steps()).any(|step| there(step).count() > 1) {
                let side = if swapped { "left" } else { "right" };
                return Err(EvalError::Refused(format!(
                    "found duplicate series on the {side} hand-side; many-to-many only allowed for \
                     set operations, and for one-to-many the other side has to be named by \
                     group_left or group_right"
                )));
            }
        }
        let mut found: Vec<Series> = Vec::new();
        let mut by_labels: HashMap<Labels, usize> = HashMap::new();
        for series in many {
            self.check()?;
            let key = key(&series.labels, modifier);
            let Some(partners) = one_keys.get(&key) else { continue };
            for &partner in partners {
                // Partners that never meet, such as the next in place of one that ended, may be
                // many.
                let mut pairs = series.points.iter().zip(&one[partner].points);
                if !pairs.any(|(a, b)| a.is_some() && b.is_some()) {
                    continue;
                }
                let labels = result_labels(&series.labels, &one[partner].labels, &key, modifier);
                let place = match by_labels.get(&labels) {
                    Some(&place) => place,
                    None => {
                        self.take(self.points_bytes(1))?;
                        let points = vec![None; self.grid.steps()];
                        found.push(Series { labels: labels.clone(), points });
                        by_labels.insert(labels, found.len() - 1);
                        found.len() - 1
                    }
                };
                for (step, (a, b)) in series.points.iter().zip(&one[partner].points).enumerate() {
                    let (Some(a), Some(b)) = (a, b) else { continue };
                    let (a, b) = if swapped { (*b, *a) } else { (*a, *b) };
                    let Some(value) = point(op, modifier.bool, a, b, a) else { continue };
                    let point = &mut found[place].points[step];
                    if point.is_some() {
                        let remedy = match &modifier.group {
                            None => {
                                "many-to-one matching must be explicit (group_left/group_right)"
                            }
                            Some(_) => "grouping labels must ensure unique matches",
                        };
                        return Err(EvalError::Refused(format!(
                            "multiple matches for labels: {remedy}"
                        )));
                    }
                    *point = Some(value);
                }
            }
        }
        // Both sides go with the end of the operation.
        self.give_back(self.points_bytes(left.len() + right.len()));
        found.retain(|one| one.points.iter().any(Option::is_some));
        found.sort_by(|a, b| a.labels.cmp(&b.labels));
        Ok(found)
    }
}

/// Adds series to others. Of two with the same labels, at most one has a point at a time.
fn join(series: &mut Vec<Series>, more: Vec<Series>) {
    let places: HashMap<Labels, usize> =
        series.iter().zip(0..).map(|(one, place)| (one.labels.clone(), place)).collect();
    for one in more {
        match places.get(&one.labels) {
            Some(&place) => {
                for (point, other) in series[place].points.iter_mut().zip(one.points) {
                    *point = point.or(other);
                }
            }
            None => series.push(one),
        }
    }
}

fn with_scalar(mut series: Vec<Series>, value: impl Fn(f64) -> Option<f64>) -> Vec<Series> {
    for one in &mut series {
        one.points.iter_mut().for_each(|point| *point = point.and_then(&value));
    }
    series.retain(|one| one.points.iter().any(Option::is_some));
    series
}

fn key(labels: &Labels, modifier: &BinaryModifier) -> Labels {
    let all = Grouping { without: true, labels: Vec::new() };
    grouped(labels, modifier.matching.as_ref().unwrap_or(&all))
}

fn keys(series: &[Series], modifier: &BinaryModifier) -> ByKey {
    let mut keys = ByKey::new();
    for (place, one) in series.iter().enumerate() {
        keys.entry(key(&one.labels, modifier)).or_default().push(place);
    }
    keys
}

fn result_labels(many: &Labels, one: &Labels, key: &Labels, modifier: &BinaryModifier) -> Labels {
    let Some(group) = &modifier.group else { return key.clone() };
    let mut labels = many.clone();
    for name in &group.include {
        set_label(&mut labels, name, label(one, name));
    }
    labels
}

/// The point for two values; `kept` is what a comparison returns.
fn point(op: BinaryOp, as_bool: bool, a: f64, b: f64, kept: f64) -> Option<f64> {
    if !op.is_comparison() {
        return Some(compute(op, a, b));
    }
    match (as_bool, holds(op, a, b)) {
        (true, holds) => Some(f64::from(u8::from(holds))),
        (false, true) => Some(kept),
        (false, false) => None,
    }
}

fn holds(op: BinaryOp, a: f64, b: f64) -> bool {
    match op {
        BinaryOp::Equal => a == b,
        BinaryOp::NotEqual => a != b,
        BinaryOp::Greater => a > b,
        BinaryOp::GreaterOrEqual => a >= b,
        BinaryOp::Less => a < b,
        BinaryOp::LessOrEqual => a <= b,
        _ => unreachable!("only comparisons hold"),
    }
}

/// As in Loki, a division by 0 is NaN.
fn compute(op: BinaryOp, a: f64, b: f64) -> f64 {
    match op {
        BinaryOp::Add => a + b,
        BinaryOp::Subtract => a - b,
        BinaryOp::Multiply => a * b,
        BinaryOp::Divide if b == 0.0 => f64::NAN,
        BinaryOp::Divide => a / b,
        BinaryOp::Modulo if b == 0.0 => f64::NAN,
        BinaryOp::Modulo => a % b,
        BinaryOp::Power => a.powf(b),
        _ => unreachable!("only arithmetic computes"),
    }
}
