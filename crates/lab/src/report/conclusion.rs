//! The conclusion in plain words. Every sentence follows from a test or a count in the tables
//! below; differences that are not significant are called so, and nothing is ranked by a difference
//! that could be chance.

use super::ranking::{Pair, Ranked, adjust, detectable, in_turns, level_groups, pairs, ranked};
use super::summary::{Experiment, Group};
use crate::number::{interval, percent, plain, probability};
use crate::results::{LOST_ROWS, Outcome};
use crate::samples::Measure;
use crate::statistics::INTERVAL_MIN;

/// Samples that show no difference, and would not have shown even one of this factor, say nothing.
const FACTOR_SHOWN_MAX: f64 = 10.0;

/// The name of our own store's driver.
const OWN: &str = "loginson";

/// The result of one comparison: an experiment at one size of the cluster and one rate.
pub struct Verdict {
    /// The experiment, with the size and the rate where there are several.
    pub subject: String,
    /// The stores in groups of which no two differ significantly, best first.
    pub groups: Vec<Vec<String>>,
    /// Whether anything was tested: fewer than three repetitions show no difference.
    pub tested: bool,
    /// The smallest factor that all pairs without a significant difference would have shown; none
    /// where every pair differs.
    pub unseen: Option<f64>,
    /// Stores whose repetitions are too few to tell them from the first.
    pub too_few: Vec<String>,
}

impl Verdict {
    /// The store that is first alone.
    pub fn winner(&self) -> Option<&str> {
        match self.groups.first().map(Vec::as_slice) {
            Some([only]) if self.groups.len() > 1 && self.tested => Some(only),
            _ => None,
        }
    }
}

/// The stores whose repetitions are too few to tell them from the first: no difference is found,
/// and not even a tenfold one would have been.
fn too_few<'a>(first: &str, pairs: &[&Pair<'a>], tested_together: usize) -> Vec<&'a str> {
    let with_first = pairs.iter().filter(|pair| pair.first.group.store == first);
    let is_blind = |pair: &&&Pair<'_>| {
        let shown = detectable(&[**pair], tested_together);
        pair.significant() == Some(false) && shown.is_some_and(|shown| shown > FACTOR_SHOWN_MAX)
    };
    with_first.filter(is_blind).map(|pair| pair.second.group.store.as_str()).collect()
}

/// The verdicts on an experiment; none where only one store has a number, and none where stores are
/// killed: what they lose is counted, and [`losses`] says it. Where each store has a share of the
/// rate that it reached itself, none is better than another.
pub fn verdicts(experiment: &Experiment) -> Vec<Verdict> {
    if experiment.measure == Measure::Value(LOST_ROWS.into()) {
        return Vec::new();
    }
    let pairs = pairs(experiment);
    let verdict = |set: &&[Group]| {
        if set[0].target_share.is_some() {
            return None;
        }
        let all = ranked(set, &experiment.measure);
        let [_, _, ..] = &all[..] else { return None };
        let within = of_set(&pairs, &set[0]);
        let place = place(experiment, &set[0]).trim_end_matches(": ").to_lowercase();
        let groups = level_groups(&all, &within).into_iter();
        let undecided: Vec<&Pair<'_>> =
            within.iter().copied().filter(|pair| pair.significant() == Some(false)).collect();
        Some(Verdict {
            subject: match place.is_empty() {
                true => experiment.title.clone(),
                false => format!("{}, {place}", experiment.title),
            },
            groups: groups.map(|group| group.into_iter().map(str::to_owned).collect()).collect(),
            tested: within.iter().any(|pair| pair.test.is_some()),
            unseen: detectable(&undecided, pairs.len()),
            too_few: too_few(&all[0].group.store, &within, pairs.len())
                .into_iter()
                .map(str::to_owned)
                .collect(),
        })
    };
    experiment.sets().iter().filter_map(verdict).collect()
}

/// Sentences on one experiment.
pub fn sentences(experiment: &Experiment) -> Vec<String> {
    let pairs = pairs(experiment);
    let mut sentences = Vec::new();
    for set in experiment.sets() {
        let all = ranked(set, &experiment.measure);
        let within = of_set(&pairs, &set[0]);
        let place = place(experiment, &set[0]);
        if experiment.measure == Measure::Value(LOST_ROWS.into()) {
            sentences.extend(losses(&place, &all));
            continue;
        }
        sentences.extend(leader(&experiment.measure, &place, &all, &within));
        sentences.extend(own(&experiment.measure, &place, &all, &within));
        if let Some(first) = all.first() {
            let others = too_few(&first.group.store, &within, pairs.len());
            if !others.is_empty() {
                sentences.push(format!(
                    "{place}The repetitions are too few to tell {} from {}: not even a tenfold difference would have been found.",
                    first.group.store,
                    others.join(", ")
                ));
            }
        }
        sentences.extend(overload(experiment, &place, set));
    }
    sentences.extend(sizes(experiment, &pairs));
    sentences.extend(not_measured(experiment));
    sentences
}

/// The pairs of the set that `group` is in.
fn of_set<'a, 'p>(pairs: &'p [Pair<'a>], group: &Group) -> Vec<&'p Pair<'a>> {
    let within = |pair: &&Pair<'_>| same(pair.first.group, group) && same(pair.second.group, group);
    pairs.iter().filter(within).collect()
}

/// Whether two groups differ only in the store, if at all.
fn same(one: &Group, other: &Group) -> bool {
    one.nodes == other.nodes && one.has_target_of(other)
}

/// The size and rate of a set of groups, as the beginning of a sentence.
fn place(experiment: &Experiment, group: &Group) -> String {
    let mut words = Vec::new();
    if experiment.has_sizes() {
        words.push(format!("on {} node{}", group.nodes, if group.nodes == 1 { "" } else { "s" }));
    }
    if experiment.has_targets() {
        words.extend(group.target().map(|target| format!("at {target}")));
    }
    match words.is_empty() {
        true => String::new(),
        false => format!("{}: ", capital(&words.join(" "))),
    }
}

/// The text with a capital.
pub fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters
        .next()
        .map_or(String::new(), |first| first.to_uppercase().collect::<String>() + letters.as_str())
}

fn mean_of(measure: &Measure, ranked: &Ranked<'_>) -> String {
    let mean = format!("{}{}", plain(ranked.estimate.mean), measure.unit());
    match ranked.estimate.interval {
        Some(ends) => format!("{mean} (95% interval {})", interval(ends)),
        None if ranked.sample.len() == 1 => format!("{mean} (one repetition)"),
        None if ranked.sample.len() < INTERVAL_MIN => format!("{mean} (two repetitions)"),
        None => format!("{mean} (no interval: a value is 0)"),
    }
}

/// How much better the first is than the second, in words.
fn advantage(measure: &Measure, pair: &Pair<'_>) -> String {
    let (first, second) = (&pair.first.group.store, &pair.second.group.store);
    let test = match pair.test {
        Some(test) => {
            let (low, high) = test.interval;
            let ends = if measure.more_is_better() { (low, high) } else { (1.0 / high, 1.0 / low) };
            format!(
                " (95% interval {}, p {} after Holm)",
                interval(ends),
                equal(pair.p_adjusted.unwrap_or(1.0))
            )
        }
        None => String::new(),
    };
    match measure.more_is_better() {
        true => format!("{first} does {} times{test} as many as {second}", plain(pair.ratio())),
        false => {
            format!("{second} takes {} times{test} as long as {first}", plain(1.0 / pair.ratio()))
        }
    }
}

/// Which store is first, by how much, and which do not differ significantly from it.
fn leader(measure: &Measure, place: &str, all: &[Ranked<'_>], pairs: &[&Pair<'_>]) -> Vec<String> {
    let Some(first) = all.first() else { return Vec::new() };
    let name = &first.group.store;
    if all.len() == 1 {
        return vec![format!("{place}{name} has {}.", mean_of(measure, first))];
    }
    let with_first: Vec<&&Pair<'_>> =
        pairs.iter().filter(|pair| pair.first.group.store == *name).collect();
    let level: Vec<&str> = with_first
        .iter()
        .filter(|pair| pair.significant() != Some(true))
        .map(|pair| pair.second.group.store.as_str())
        .collect();
    let text = if level.is_empty() {
        format!(
            "{place}{name} is first with {}; {}.",
            mean_of(measure, first),
            advantage(measure, with_first[0])
        )
    } else {
        let untested = with_first.iter().all(|pair| pair.significant().is_none());
        format!(
            "{place}{name} has the best mean with {}, but {} it and {}.",
            mean_of(measure, first),
            if untested {
                "nothing can be tested between"
            } else {
                "no significant difference is found between"
            },
            level.join(", "),
        )
    };
    vec![text]
}

/// Which stores lost acknowledged rows when they were killed, and how many in each repetition.
fn losses(place: &str, all: &[Ranked<'_>]) -> Vec<String> {
    let (none, some): (Vec<&Ranked<'_>>, Vec<_>) =
        all.iter().partition(|ranked| ranked.sample.iter().all(|lost| *lost == 0.0));
    let names: Vec<&str> = none.iter().map(|ranked| ranked.group.store.as_str()).collect();
    let mut sentences = Vec::new();
    if !names.is_empty() {
        sentences.push(format!("{place}No acknowledged row is lost by {}.", names.join(", ")));
    }
    sentences.extend(some.iter().map(|ranked| {
        let lost: Vec<String> = ranked.sample.iter().map(|lost| plain(*lost)).collect();
        format!(
            "{place}{} loses acknowledged rows: {}, by repetition.",
            ranked.group.store,
            lost.join(", ")
        )
    }));
    sentences
}

fn equal(p: f64) -> String {
    let text = probability(p);
    if text.starts_with('<') { text } else { format!("= {text}") }
}

/// Where Loginson is not first: how far behind it is.
fn own(measure: &Measure, place: &str, all: &[Ranked<'_>], pairs: &[&Pair<'_>]) -> Option<String> {
    let at = all.iter().position(|ranked| ranked.group.driver == OWN)?;
    if at == 0 || all.len() < 2 {
        return None;
    }
    let (ours, first) = (&all[at], &all[0]);
    let pair = pairs.iter().find(|pair| {
        pair.first.group.store == first.group.store && pair.second.group.store == ours.group.store
    })?;
    Some(format!(
        "{place}Our own store, {}, is number {} of {} with {}: {}, which is {}.",
        ours.group.store,
        at + 1,
        all.len(),
        mean_of(measure, ours),
        advantage(measure, pair),
        match pair.significant() {
            Some(true) => "significant: it loses here",
            Some(false) => "not significant",
            None => "not tested",
        },
    ))
}

/// A target rate is missed if less than this share of it was reached; operations due at the last
/// moment are always late.
pub const TARGET_SHARE_MIN: f64 = 0.95;

/// Stores that do not reach the target rate of a set: their latency is that of a backlog, so the
/// reached rates are compared instead.
fn overload(experiment: &Experiment, place: &str, set: &[Group]) -> Vec<String> {
    let rates = ranked(set, &Measure::Throughput);
    let Some(best) = rates.first() else { return Vec::new() };
    let mut tests: Vec<Pair<'_>> =
        rates[1..].iter().map(|other| in_turns(best.clone(), other.clone())).collect();
    adjust(&mut tests);
    let short = rates.iter().filter_map(|reached| {
        let target = reached.group.target_per_s?;
        let share = reached.estimate.mean / target;
        if share >= TARGET_SHARE_MIN {
            return None;
        }
        let name = &reached.group.store;
        let test = tests.iter().find(|pair| pair.second.group.store == *name);
        let test = match test {
            Some(pair) => format!(
                " By the reached rate, {}: {}.",
                advantage(&Measure::Throughput, pair),
                pair.verdict()
            ),
            None => String::new(),
        };
        Some(format!(
            "{place}{name} is overloaded: it reaches {} of the {} per second of the schedule ({}), and its latency \
             is that of a backlog that grows for as long as the trial lasts.{test}",
            plain(reached.estimate.mean),
            plain(target),
            percent(share),
        ))
    });
    match experiment.has_targets() || set.iter().any(|group| group.target_per_s.is_some()) {
        true => short.collect(),
        false => Vec::new(),
    }
}

/// The effect of more nodes.
fn sizes(experiment: &Experiment, pairs: &[Pair<'_>]) -> Vec<String> {
    let across = pairs.iter().filter(|pair| pair.first.group.nodes != pair.second.group.nodes);
    let sentence = |pair: &Pair<'_>| {
        let change = 1.0 / pair.ratio() - 1.0;
        format!(
            "{}: from {} to {} nodes {} {} by {} ({}{}).",
            pair.first.group.store,
            pair.first.group.nodes,
            pair.second.group.nodes,
            experiment.measure.name().trim_end_matches(", ms"),
            if change >= 0.0 { "rises" } else { "falls" },
            percent(change),
            pair.verdict(),
            pair.p_adjusted.map_or(String::new(), |p| format!(", p {} after Holm", equal(p))),
        )
    };
    across.map(sentence).collect()
}

/// Groups without a number, and the reason.
fn not_measured(experiment: &Experiment) -> Vec<String> {
    let mut sentences = Vec::new();
    for group in &experiment.groups {
        let name = experiment.name_of(group);
        let mut reasons: Vec<(String, usize)> = Vec::new();
        for trial in &group.repetitions {
            let reason = match &trial.outcome {
                Outcome::Completed => continue,
                Outcome::NotSupported { ability } => {
                    format!("not measured, because the lab's driver for it lacks: {ability}")
                }
                Outcome::Wrong { message } => {
                    format!("a wrong answer, so its numbers do not count: {message}")
                }
                Outcome::Failed { message } => format!("failed: {message}"),
            };
            match reasons.iter_mut().find(|(known, _)| *known == reason) {
                Some((_, times)) => *times += 1,
                None => reasons.push((reason, 1)),
            }
        }
        let all = group.repetitions.len();
        sentences.extend(reasons.into_iter().map(|(reason, times)| {
            let share = if times == all {
                String::new()
            } else {
                format!(" ({times} of {all} repetitions)")
            };
            format!("{name}{share}: {reason}")
        }));
    }
    sentences
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::statistics::geometric;

    fn group(store: &str) -> Group {
        Group {
            store: store.into(),
            driver: store.into(),
            nodes: 1,
            target_per_s: None,
            target_share: None,
            records: None,
            threads: 1,
            repetitions: Vec::new(),
            histograms: BTreeMap::new(),
        }
    }

    fn ranked_of<'a>(group: &'a Group, sample: &[f64]) -> Ranked<'a> {
        Ranked {
            group,
            sample: sample.to_vec(),
            repetitions: (1..=sample.len() as u32).collect(),
            estimate: geometric(sample).unwrap(),
        }
    }

    #[test]
    fn samples_that_show_nothing_give_no_verdict() {
        let (redis, postgres, cassandra) = (group("redis"), group("postgres"), group("cassandra"));
        let blind = |first: &[f64], second: &[f64], third: &[f64]| {
            let all = [(&redis, first), (&postgres, second), (&cassandra, third)];
            let all = all.map(|(group, sample)| ranked_of(group, sample));
            let mut pairs = [
                in_turns(all[0].clone(), all[1].clone()),
                in_turns(all[0].clone(), all[2].clone()),
            ];
            adjust(&mut pairs);
            let within: Vec<&Pair<'_>> = pairs.iter().collect();
            too_few("redis", &within, 2).join(" ")
        };
        let level = &[101.0, 98.0, 103.0];
        let wide = &[100.0, 900.0, 150.0];
        assert_eq!(blind(wide, &[100.0, 90.0, 120.0], &[7.0]), "postgres", "three show nothing");
        assert_eq!(blind(&[100.0, 104.0, 99.0], level, level), "", "they differ by little");
        let (fast, slow) = (&[9e9, 10e9, 9.5e9], &[1.0, 1.1, 1.05]);
        assert_eq!(blind(fast, slow, &[1.0, 1.2, 1.1]), "", "a difference is found");
        assert_eq!(blind(&[100.0, 90.0], &[200.0, 150.0], &[300.0]), "", "nothing is tested");
        // One pair that differs hides no other.
        assert_eq!(blind(fast, slow, &[1e9, 4e8, 9e10]), "cassandra");
    }

    #[test]
    fn a_winner_is_first_alone_and_tested() {
        let verdict = |groups: &[&[&str]], tested| Verdict {
            subject: "Reads".into(),
            groups: groups
                .iter()
                .map(|group| group.iter().map(|store| (*store).to_owned()).collect())
                .collect(),
            tested,
            unseen: None,
            too_few: Vec::new(),
        };
        assert_eq!(verdict(&[&["redis"], &["postgres"]], true).winner(), Some("redis"));
        assert_eq!(verdict(&[&["redis"], &["postgres"]], false).winner(), None);
        assert_eq!(verdict(&[&["redis", "postgres"]], true).winner(), None);
    }
}
