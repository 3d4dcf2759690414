//! Ranks the stores and tests which differences are significant: the basis of the tables and the
//! conclusion.

use super::summary::{Experiment, Group};
use crate::samples::Measure;
use crate::statistics::{
    Comparison, Estimate, SIGNIFICANCE, estimate, geometric, groups, holm, paired, unpaired,
};

/// A group with the sample of its measure.
#[derive(Debug, Clone)]
pub struct Ranked<'a> {
    /// The group.
    pub group: &'a Group,
    /// The sample, in the order of the repetitions.
    pub sample: Vec<f64>,
    /// The number of the repetition of each value.
    pub repetitions: Vec<u32>,
    /// Geometric mean and interval of the sample; the arithmetic mean without an interval if a
    /// value is not above 0.
    pub estimate: Estimate,
}

/// The groups with a number, best first.
pub fn ranked<'a>(groups: &'a [Group], measure: &Measure) -> Vec<Ranked<'a>> {
    let known = groups.iter().filter_map(|group| {
        let values = group.completed().filter_map(|trial| Some((trial.number, measure.of(trial)?)));
        let (repetitions, sample): (Vec<u32>, Vec<f64>) = values.unzip();
        let plain = || Some(Estimate { interval: None, ..estimate(&sample)? });
        let estimate = geometric(&sample).or_else(plain)?;
        Some(Ranked { group, estimate, sample, repetitions })
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
    /// The better store; of two sizes of a cluster the smaller one.
    pub first: Ranked<'a>,
    /// The other.
    pub second: Ranked<'a>,
    /// `None` if nothing can be tested: too few repetitions, or no variance at all.
    pub test: Option<Comparison>,
    /// p after Holm, over all pairs that were tested together.
    pub p_adjusted: Option<f64>,
}

impl Pair<'_> {
    /// Whether the difference is significant, after Holm; `None` if nothing could be tested.
    pub fn significant(&self) -> Option<bool> {
        Some(self.p_adjusted? < SIGNIFICANCE)
    }

    /// The first as a multiple of the second: of the tested values, or of all if nothing was
    /// tested.
    pub fn ratio(&self) -> f64 {
        match self.test {
            Some(test) => test.ratio,
            None => self.first.estimate.mean / self.second.estimate.mean,
        }
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
            pairs
                .extend(all[at + 1..].iter().map(|second| in_turns(first.clone(), second.clone())));
        }
    }
    for (at, group) in experiment.groups.iter().enumerate() {
        let next = experiment.groups[at + 1..].iter().find(|other| {
            other.store == group.store && other.nodes > group.nodes && other.has_target_of(group)
        });
        let one = ranked(std::slice::from_ref(group), &experiment.measure).pop();
        let other =
            next.and_then(|next| ranked(std::slice::from_ref(next), &experiment.measure).pop());
        if let (Some(one), Some(other)) = (one, other) {
            pairs.push(apart(one, other));
        }
    }
    adjust(&mut pairs);
    pairs
}

/// Compares two groups whose repetitions were made in turns: in pairs, as far as both completed.
pub fn in_turns<'a>(first: Ranked<'a>, second: Ranked<'a>) -> Pair<'a> {
    let common = |one: &Ranked<'_>, other: &Ranked<'_>| -> Vec<f64> {
        let values = one.repetitions.iter().zip(&one.sample);
        let both = values.filter(|(repetition, _)| other.repetitions.contains(repetition));
        both.map(|(_, value)| *value).collect()
    };
    let test = paired(&common(&first, &second), &common(&second, &first));
    Pair { p_adjusted: test.map(|test| test.p), first, second, test }
}

/// Compares two groups that were made at different times.
pub fn apart<'a>(first: Ranked<'a>, second: Ranked<'a>) -> Pair<'a> {
    let test = unpaired(&first.sample, &second.sample);
    Pair { p_adjusted: test.map(|test| test.p), first, second, test }
}

/// Adjusts pairs that are tested together.
pub fn adjust(pairs: &mut [Pair<'_>]) {
    let p: Vec<f64> = pairs.iter().filter_map(|pair| Some(pair.test?.p)).collect();
    let mut adjusted = holm(&p).into_iter();
    for pair in pairs.iter_mut().filter(|pair| pair.test.is_some()) {
        pair.p_adjusted = adjusted.next();
    }
}

/// The stores of a set in groups of which no two differ significantly, best first; a store may be
/// in two groups.
pub fn level_groups<'a>(all: &[Ranked<'a>], pairs: &[&Pair<'a>]) -> Vec<Vec<&'a str>> {
    let differ = |one: usize, other: usize| {
        let found = pairs.iter().find(|pair| {
            pair.first.group.store == all[one].group.store
                && pair.second.group.store == all[other].group.store
        });
        found.and_then(|pair| pair.significant()) == Some(true)
    };
    let named = |group: Vec<usize>| group.into_iter().map(|at| &*all[at].group.store).collect();
    groups(all.len(), differ).into_iter().map(named).collect()
}

/// The smallest ratio that every tested pair would have shown as significant, at the level that
/// Holm's correction begins with; `None` if nothing was tested.
pub fn detectable(pairs: &[&Pair<'_>], tested_together: usize) -> Option<f64> {
    let alpha = SIGNIFICANCE / tested_together.max(1) as f64;
    let of = pairs.iter().filter_map(|pair| Some(pair.test?.detectable(alpha)));
    of.max_by(f64::total_cmp)
}
