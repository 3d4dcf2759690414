//! Instances of one store beside each other, by every measure: what the 2016 study asks of a store
//! in a container and on the host.

use super::document::Table;
use super::papers;
use super::ranking::{Pair, adjust, in_turns, ranked};
use super::summary::{Experiment, Group};
use crate::number::{interval, plain, probability, ratio};
use crate::reference::Reference;
use crate::samples::{ALL, Measure, Over, PERCENTILES};

/// The table of all pairs of instances; empty if no store has several.
pub fn comparison(experiment: &Experiment, reference: Option<&Reference>) -> Table {
    let mut table = Table::new(
        format!(
            "{}: instances of one store, compared in pairs by repetition; p after Holm takes all rows of this table together",
            experiment.title
        ),
        &[
            "measure",
            "first",
            "second",
            "second / first",
            "95% interval",
            "pairs",
            "p",
            "p after Holm",
            "verdict",
            "paper: first",
            "paper: second",
            "paper: second / first",
            "same order?",
        ],
    );
    let pairs = pairs(experiment);
    let mut tested: Vec<Pair<'_>> = pairs.iter().map(|(_, pair)| pair.clone()).collect();
    adjust(&mut tested);
    for ((measure, _), pair) in pairs.iter().zip(&tested) {
        // The pair is the second instance as a multiple of the first.
        let (first, second) = (&pair.second, &pair.first);
        let names =
            format!("{}, {}", experiment.name_of(first.group), experiment.name_of(second.group));
        let mut row = vec![
            format!("{names}: {}", measure.name()),
            plain(first.estimate.mean),
            plain(second.estimate.mean),
            ratio(pair.ratio()),
        ];
        row.extend(match pair.test {
            Some(test) => [
                interval(test.interval),
                test.pairs.map_or(String::new(), |pairs| pairs.to_string()),
                probability(test.p),
                probability(pair.p_adjusted.unwrap_or(1.0)),
            ],
            None => Default::default(),
        });
        row.push(pair.verdict().into());
        row.extend(published(reference, experiment, measure, pair));
        table.rows.push(row);
    }
    table.compact()
}

/// The paper's figures of both, their ratio, and whether the order is the same.
fn published(
    reference: Option<&Reference>,
    experiment: &Experiment,
    measure: &Measure,
    pair: &Pair<'_>,
) -> [String; 4] {
    let find = |group: &Group| {
        let (table, row) = papers::find(reference?, experiment, group, measure)?;
        let figure = papers::figure(table, row, group);
        // The study gives the use of processors as a share of all.
        let figure = match measure {
            Measure::Processors(_) => figure.replacen(" (", "% (", 1),
            _ => figure,
        };
        Some((row.mean, figure))
    };
    let (first, second) = (find(pair.second.group), find(pair.first.group));
    let both = first.as_ref().zip(second.as_ref()).map(|(first, second)| second.0 / first.0);
    let same =
        both.map(|paper| match (pair.significant(), (paper > 1.0) == (pair.ratio() > 1.0)) {
            (Some(true), true) => "yes",
            (Some(true), false) => "no",
            (_, true) => "yes, but not significant here",
            (_, false) => "no, but not significant here",
        });
    let text = |figure: Option<(f64, String)>| figure.map(|(_, text)| text).unwrap_or_default();
    [
        text(first),
        text(second),
        both.map(ratio).unwrap_or_default(),
        same.unwrap_or_default().to_owned(),
    ]
}

/// The pairs with their measure: the later instance first, so that the ratio is its multiple of the
/// earlier one.
fn pairs(experiment: &Experiment) -> Vec<(Measure, Pair<'_>)> {
    let is_instance = |group: &Group| group.store.starts_with(&format!("{}@", group.driver));
    let mut pairs = Vec::new();
    for set in experiment.sets() {
        for (at, first) in set.iter().enumerate() {
            for second in &set[at + 1..] {
                let are = is_instance(first) && is_instance(second);
                if !are || first.driver != second.driver {
                    continue;
                }
                for measure in measures() {
                    let of = |group| ranked(std::slice::from_ref(group), &measure).pop();
                    if let (Some(first), Some(second)) = (of(first), of(second)) {
                        pairs.push((measure, in_turns(second, first)));
                    }
                }
            }
        }
    }
    pairs
}

/// What the study of 2016 compares: the rate, latencies up to the maximum, processors and disks.
fn measures() -> Vec<Measure> {
    let of_interest = |at: &usize| PERCENTILES[*at] == 50.0 || PERCENTILES[*at] >= 95.0;
    let percentiles = (0..PERCENTILES.len()).filter(of_interest).map(Measure::Percentile);
    let mut all = vec![Measure::Throughput, Measure::Latency(ALL.into())];
    all.extend(percentiles);
    for over in [Over::Trial, Over::Interval] {
        all.extend([Measure::Processors(over), Measure::DiskWrites(over)]);
    }
    all
}
