//! The conclusion in plain words. Every sentence follows from a test or a count in the tables
//! below; differences that are not significant are called so, and nothing is ranked by a difference
//! that could be chance.

use super::number::{interval, percent, plain, probability};
use super::ranking::{Pair, Ranked, pairs, ranked};
use super::summary::{ALL, Experiment, Group, Measure};
use crate::results::Outcome;
use crate::statistics::{SAMPLE_WARNING, SIGNIFICANCE, trend};

/// A store that reaches more than this share of the generator's limit may be held back by the
/// generator: near its limit the generator's own queueing is a large part of every latency. The
/// rest is the work that the null driver spares it, the encoding of requests and the parsing of
/// answers.
pub const GENERATOR_SHARE_MAX: f64 = 0.8;

/// The name of our own store's driver.
const OWN: &str = "loginson";

/// Sentences on one experiment.
pub fn sentences(experiment: &Experiment) -> Vec<String> {
    let pairs = pairs(experiment);
    let mut sentences = Vec::new();
    for set in experiment.sets() {
        let all = ranked(set, &experiment.measure);
        let within: Vec<&Pair<'_>> = pairs
            .iter()
            .filter(|pair| same(pair.first.group, &set[0]) && same(pair.second.group, &set[0]))
            .collect();
        let place = place(experiment, &set[0]);
        sentences.extend(leader(&experiment.measure, &place, &all, &within));
        sentences.extend(own(&experiment.measure, &place, &all, &within));
    }
    sentences.extend(missed(experiment));
    sentences.extend(sizes(experiment, &pairs));
    sentences.extend(bottleneck(experiment));
    sentences.extend(not_measured(experiment));
    sentences.extend(doubts(experiment));
    sentences
}

/// For each size and rate: its position, and the stores from best to worst with the relation
/// between neighbours.
pub fn orders(experiment: &Experiment) -> Vec<(String, String)> {
    let pairs = pairs(experiment);
    let order = |set: &&[Group]| {
        let all = ranked(set, &experiment.measure);
        let [first, _, ..] = &all[..] else { return None };
        let mut text = first.group.store.clone();
        for neighbours in all.windows(2) {
            let found = pairs.iter().find(|pair| {
                same(pair.first.group, &set[0])
                    && pair.first.group.store == neighbours[0].group.store
                    && pair.second.group.store == neighbours[1].group.store
            });
            let apart = found.and_then(Pair::significant) == Some(true);
            text += if apart { " > " } else { " ≈ " };
            text += &neighbours[1].group.store;
        }
        let place = place(experiment, &set[0]).trim_end_matches(": ").to_lowercase();
        Some((if place.is_empty() { place } else { format!(", {place}") }, text))
    };
    experiment.sets().iter().filter_map(order).collect()
}

/// Whether two groups differ only in the store, if at all.
fn same(one: &Group, other: &Group) -> bool {
    one.nodes == other.nodes && one.target_per_s == other.target_per_s
}

/// The size and rate of a set of groups, as the beginning of a sentence.
fn place(experiment: &Experiment, group: &Group) -> String {
    let mut words = Vec::new();
    if experiment.has_sizes() {
        words.push(format!("on {} node{}", group.nodes, if group.nodes == 1 { "" } else { "s" }));
    }
    if let (true, Some(target)) = (experiment.has_targets(), group.target_per_s) {
        words.push(format!("at {} per second", plain(target)));
    }
    match words.is_empty() {
        true => String::new(),
        false => format!("{}: ", capital(&words.join(" "))),
    }
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters
        .next()
        .map_or(String::new(), |first| first.to_uppercase().collect::<String>() + letters.as_str())
}

fn mean_of(measure: &Measure, ranked: &Ranked<'_>) -> String {
    let mean = format!("{}{}", plain(ranked.estimate.mean), measure.unit());
    match ranked.estimate.interval {
        Some(ends) => format!("{mean} (95% interval {})", interval(ends)),
        None => format!("{mean} (one repetition)"),
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
    let mut sentences = Vec::new();
    if level.is_empty() {
        let second = &with_first[0];
        sentences.push(format!(
            "{place}{name} is first with {}: {} {} than {}, the second{}.",
            mean_of(measure, first),
            percent(second.relative()),
            more(measure),
            second.second.group.store,
            tested(second),
        ));
    } else {
        let untested = with_first.iter().all(|pair| pair.significant().is_none());
        sentences.push(format!(
            "{place}{name} has the best mean with {}, but {} it and {}.",
            mean_of(measure, first),
            if untested {
                "nothing can be tested between"
            } else {
                "no significant difference is found between"
            },
            level.join(", "),
        ));
    }
    let last_level =
        |pair: &&&Pair<'_>| pair.significant() == Some(false) && pair.first.group.store != *name;
    for pair in pairs.iter().filter(last_level) {
        sentences.push(format!(
            "{place}{} and {} do not differ significantly (p {} after Holm).",
            pair.first.group.store,
            pair.second.group.store,
            equal(pair.p_adjusted.unwrap_or(1.0)),
        ));
    }
    sentences
}

fn equal(p: f64) -> String {
    let text = probability(p);
    if text.starts_with('<') { text } else { format!("= {text}") }
}

fn more(measure: &Measure) -> &'static str {
    if measure.more_is_better() { "more" } else { "less" }
}

fn tested(pair: &Pair<'_>) -> String {
    let Some(test) = pair.test else { return String::new() };
    let (low, high) = test.interval;
    let ends = if low < 0.0 && high < 0.0 { (-high, -low) } else { (low, high) };
    format!(
        " (difference {}, p {} after Holm)",
        interval(ends),
        equal(pair.p_adjusted.unwrap_or(1.0))
    )
}

/// Where Loginson loses, or wins.
fn own(measure: &Measure, place: &str, all: &[Ranked<'_>], pairs: &[&Pair<'_>]) -> Option<String> {
    let at = all.iter().position(|ranked| ranked.group.driver == OWN)?;
    if at == 0 || all.len() < 2 {
        return None;
    }
    let (ours, first) = (&all[at], &all[0]);
    let pair = pairs.iter().find(|pair| {
        pair.first.group.store == first.group.store && pair.second.group.store == ours.group.store
    })?;
    let ratio = match measure.more_is_better() {
        true => format!("{} less than", percent(1.0 - ours.estimate.mean / first.estimate.mean)),
        false => format!("{} times", plain(ours.estimate.mean / first.estimate.mean)),
    };
    Some(format!(
        "{place}Our own store, {}, is number {} of {} with {}: {ratio} {}, which is {}.",
        ours.group.store,
        at + 1,
        all.len(),
        mean_of(measure, ours),
        first.group.store,
        match pair.significant() {
            Some(true) => "significant: it loses here",
            Some(false) => "not significant",
            None => "not tested",
        },
    ))
}

/// A target rate is missed if less than this share of it was reached; operations due at the last
/// moment are always late.
const TARGET_SHARE_MIN: f64 = 0.95;

/// Target rates that were not reached.
fn missed(experiment: &Experiment) -> Vec<String> {
    let short = ranked(&experiment.groups, &Measure::Throughput).into_iter().filter_map(|ranked| {
        let target = ranked.group.target_per_s?;
        let share = ranked.estimate.mean / target;
        (share < TARGET_SHARE_MIN).then(|| {
            format!(
                "{} reaches {} of the {} per second of the schedule ({}): its latency includes the wait in a backlog that grows \
                 for as long as the trial lasts.",
                ranked.group.name(experiment.has_sizes(), false),
                plain(ranked.estimate.mean),
                plain(target),
                percent(share),
            )
        })
    });
    short.collect()
}

/// The effect of more nodes.
fn sizes(experiment: &Experiment, pairs: &[Pair<'_>]) -> Vec<String> {
    let across = pairs.iter().filter(|pair| pair.first.group.nodes != pair.second.group.nodes);
    let sentence = |pair: &Pair<'_>| {
        let change = pair.second.estimate.mean / pair.first.estimate.mean - 1.0;
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

/// Whether the generator may have been the limit.
fn bottleneck(experiment: &Experiment) -> Vec<String> {
    let value = matches!(experiment.measure, Measure::Value(_));
    let Some(limit) = experiment.limit() else {
        let measured = experiment.groups.iter().any(|group| group.completed().next().is_some());
        return match measured {
            true => vec!["The generator's own limit was not measured: whether it was the bottleneck is not known.".into()],
            false => Vec::new(),
        };
    };
    let near: Vec<String> = ranked(&experiment.groups, &experiment.rate_measure())
        .into_iter()
        .filter_map(|ranked| Some((ranked.group, ranked.estimate.mean, experiment.share_of_limit(ranked.group)?)))
        .filter(|(_, _, share)| *share > GENERATOR_SHARE_MAX)
        .map(|(group, mean, share)| {
            let name = experiment.name_of(group);
            let (mean, limit, share) = (plain(mean), plain(limit), percent(share));
            match value {
                true => format!(
                    "The generator may have been the bottleneck with {name}: of its {mean}, {limit} ({share}) are there against a \
                     driver that does nothing as well."
                ),
                false => format!(
                    "The generator may have been the bottleneck with {name}: {mean} is {share} of the {limit} that it reaches \
                     against a driver that does nothing. The store may do more than was measured."
                ),
            }
        })
        .collect();
    if !near.is_empty() {
        return near;
    }
    let nearest = |pick: fn(f64, f64) -> f64| {
        let shares = experiment.groups.iter().filter_map(|group| experiment.share_of_limit(group));
        shares.reduce(pick)
    };
    let Some(share) = nearest(f64::max) else { return Vec::new() };
    vec![match value {
        true => {
            let (name, unit) = (experiment.measure.name(), experiment.measure.unit());
            format!(
                "Against a driver that does nothing the {} is {}{unit}, at most {} of what any store has.",
                name.trim_end_matches(", ms"),
                plain(limit),
                percent(share)
            )
        }
        false => format!(
            "Against a driver that does nothing the generator reaches {} per second; no store came to more than {} of that. The \
             generator also encodes requests and reads answers, which this limit leaves out.",
            plain(limit),
            percent(share)
        ),
    }]
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
                    format!("not supported, the store has no operation of kind {ability}")
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

/// Small samples, drift, errors.
fn doubts(experiment: &Experiment) -> Vec<String> {
    let mut sentences = Vec::new();
    let fewest = experiment.groups.iter().map(|group| group.sample(&experiment.measure).len());
    if let Some(fewest) =
        fewest.filter(|count| *count > 0).min().filter(|count| *count < SAMPLE_WARNING)
    {
        sentences.push(format!(
            "Small sample: {fewest} repetition{}. Intervals and tests of fewer than {SAMPLE_WARNING} rest on the assumption \
             that repetitions are about normal, which so few cannot show.",
            if fewest == 1 { "" } else { "s" },
        ));
    }
    for group in &experiment.groups {
        let name = experiment.name_of(group);
        let sample = group.sample(&experiment.measure);
        let mean = sample.iter().sum::<f64>() / sample.len().max(1) as f64;
        if let Some(found) = trend(&sample).filter(|found| found.p < SIGNIFICANCE) {
            sentences.push(format!(
                "Drift: the repetitions of {name} {} with their order, by {} from the first to the last (Mann-Kendall p {}); \
                 its interval takes them to be independent.",
                if found.change >= 0.0 { "rise" } else { "fall" },
                percent(found.change / mean),
                equal(found.p),
            ));
        }
        let errors: u64 = group.completed().map(|trial| trial.errors()).sum();
        let right: u64 =
            group.completed().filter_map(|trial| trial.labels.get(ALL)).map(|all| all.count).sum();
        if errors > 0 {
            sentences.push(format!(
                "Errors: {name} answered {} of {} operations with an error; these have no latency and are not in the rate.",
                super::number::count(errors),
                super::number::count(errors + right),
            ));
        }
        let notes = group.repetitions.iter().flat_map(|trial| &trial.notes);
        let mut notes: Vec<&String> = notes.collect();
        notes.sort();
        notes.dedup();
        sentences.extend(notes.into_iter().map(|note| format!("{name}: {note}")));
    }
    sentences
}
