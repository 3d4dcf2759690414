//! Ranks the stores and tests which differences are significant: the basis of the tables and the
//! conclusion.

use super::summary::{Experiment, Group, Measure};
use crate::statistics::{Estimate, SIGNIFICANCE, Welch, estimate, holm, welch};

/// A group with the sample of its measure.
#[derive(Debug, Clone)]
pub struct Ranked<'a> {
    /// The group.
    pub group: &'a Group,
    /// The sample, in the order of the repetitions.
    pub sample: Vec<f64>,
    /// Mean and interval of the sample.
    pub estimate: Estimate,
}

/// The groups with a number, best first.
pub fn ranked<'a>(groups: &'a [Group], measure: &Measure) -> Vec<Ranked<'a>> {
    let known = groups.iter().filter_map(|group| {
        let sample = group.sample(measure);
        Some(Ranked { group, estimate: estimate(&sample)?, sample })
    });
    let mut all: Vec<Ranked<'_>> = known.collect();
    all.sort_by(|a, b| match measure.more_is_better() {
        true => b.estimate.mean.total_cmp(&a.estimate.mean),
        false => a.estimate.mean.total_cmp(&b.estimate.mean),
    });
    all
}

/// A comparison of two groups.
#[derive(Debug, Clone)]
pub struct Pair<'a> {
    /// The better one, or the smaller of two sizes.
    pub first: Ranked<'a>,
    /// The other.
    pub second: Ranked<'a>,
    /// `None` if nothing can be tested: too few repetitions, or no variance at all.
    pub test: Option<Welch>,
    /// p after Holm, over all pairs that were tested together.
    pub p_adjusted: Option<f64>,
}

impl Pair<'_> {
    /// Whether the difference is significant, after Holm; `None` if nothing could be tested.
    pub fn significant(&self) -> Option<bool> {
        Some(self.p_adjusted? < SIGNIFICANCE)
    }

    /// The difference relative to the second group.
    pub fn relative(&self) -> f64 {
        (self.first.estimate.mean - self.second.estimate.mean) / self.second.estimate.mean
    }

    /// The result in a word or two.
    pub fn verdict(&self) -> &'static str {
        match self.significant() {
            Some(true) => "significant",
            Some(false) => "not significant",
            None => "not tested",
        }
    }
}

/// All pairs of an experiment that are tested together: stores with the same size and target, best
/// first; then each store with itself at the next size.
pub fn pairs(experiment: &Experiment) -> Vec<Pair<'_>> {
    let mut pairs = Vec::new();
    for set in experiment.sets() {
        let all = ranked(set, &experiment.measure);
        for (at, first) in all.iter().enumerate() {
            pairs.extend(all[at + 1..].iter().map(|second| pair(first.clone(), second.clone())));
        }
    }
    for (at, group) in experiment.groups.iter().enumerate() {
        let next = experiment.groups[at + 1..].iter().find(|other| {
            other.store == group.store
                && other.nodes > group.nodes
                && other.target_per_s == group.target_per_s
        });
        let one = ranked(std::slice::from_ref(group), &experiment.measure).pop();
        let other =
            next.and_then(|next| ranked(std::slice::from_ref(next), &experiment.measure).pop());
        if let (Some(one), Some(other)) = (one, other) {
            pairs.push(pair(one, other));
        }
    }
    adjust(&mut pairs);
    pairs
}

/// Compares two groups.
pub fn pair<'a>(first: Ranked<'a>, second: Ranked<'a>) -> Pair<'a> {
    let test = welch(&first.sample, &second.sample);
    Pair { first, second, p_adjusted: test.map(|test| test.p), test }
}

/// Adjusts pairs that are tested together.
pub fn adjust(pairs: &mut [Pair<'_>]) {
    let p: Vec<f64> = pairs.iter().filter_map(|pair| Some(pair.test?.p)).collect();
    let mut adjusted = holm(&p).into_iter();
    for pair in pairs.iter_mut().filter(|pair| pair.test.is_some()) {
        pair.p_adjusted = adjusted.next();
    }
}
