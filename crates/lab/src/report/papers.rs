//! The figures of the paper beside those of the run: paper, here, ratio, and whether the stores
//! stand in the same order.

use std::cmp::Ordering;

use super::document::{Document, Table};
use super::ranking::ranked;
use super::summary::{Experiment, Group, Summary};
use super::tables::latency_labels;
use crate::number::{plain, ratio};
use crate::reference::{self, Reference, Row, Wanted};
use crate::samples::{DISK_PER_RECORD, Measure};

/// The figure of the paper for a group.
pub fn find<'a>(
    reference: &'a Reference,
    experiment: &Experiment,
    group: &Group,
    measure: &Measure,
) -> Option<(&'a reference::Table, &'a Row)> {
    let (measure, label) = measure.reference();
    reference.find(Wanted {
        subject: &experiment.subject,
        measure,
        label,
        store: &group.store,
        nodes: group.nodes,
        target_per_s: group.target_per_s,
    })
}

/// A figure of a paper with its place, and the number of nodes if that is another one here.
pub fn figure(table: &reference::Table, row: &Row, group: &Group) -> String {
    let about = if table.rough { "about " } else { "" };
    let nodes = match row.nodes(table) {
        same if same == group.nodes => String::new(),
        other => format!(", {other} node{}", if other == 1 { "" } else { "s" }),
    };
    format!("{about}{} ({}{nodes})", plain(row.mean), table.place)
}

/// A number of the paper and its counterpart.
struct Both {
    store: String,
    paper: f64,
    here: f64,
}

/// Adds the section with all numbers that both have; false if there are none.
pub fn section(document: &mut Document, summary: &Summary, reference: &Reference) -> bool {
    let mut table = Table::new(
        format!("Figures of {} beside those of this run", reference.title),
        &["experiment and store", "measure", "paper", "here", "here / paper", "same order?"],
    );
    let mut loaded: Vec<&str> = Vec::new();
    for experiment in &summary.experiments {
        for measure in measures(experiment) {
            if experiment.prepares {
                // The same data may be loaded for several experiments.
                if loaded.contains(&&*experiment.subject) {
                    continue;
                }
                loaded.push(&experiment.subject);
            }
            for set in experiment.sets() {
                add(&mut table, reference, experiment, set, &measure);
            }
        }
    }
    if table.rows.is_empty() {
        return false;
    }
    document.heading("The paper and this run");
    document.text(
        "The order is that of the stores that both measured, in one experiment: a store has the same order if it has the same \
         place in both. Machines, versions, sizes and mostly numbers of nodes are others; ratios are no test.",
    );
    document.table(table);
    true
}

/// The measures of an experiment that a paper may have: for loaded data, the size of a record.
fn measures(experiment: &Experiment) -> Vec<Measure> {
    if experiment.prepares {
        return vec![Measure::Value(DISK_PER_RECORD.into())];
    }
    let labels = latency_labels(experiment).into_iter().map(Measure::Latency);
    std::iter::once(experiment.measure.clone())
        .chain(labels.filter(|measure| *measure != experiment.measure))
        .collect()
}

fn add(
    table: &mut Table,
    reference: &Reference,
    experiment: &Experiment,
    set: &[Group],
    measure: &Measure,
) {
    let mut rows = Vec::new();
    let mut both = Vec::new();
    for entry in ranked(set, measure) {
        let Some((of, row)) = find(reference, experiment, entry.group, measure) else { continue };
        let (paper, here) = (row.mean, entry.estimate.mean);
        both.push(Both { store: entry.group.store.clone(), paper, here });
        rows.push([
            match experiment.prepares {
                true => {
                    format!("Data of {}: {}", experiment.title, experiment.name_of(entry.group))
                }
                false => format!("{}: {}", experiment.title, experiment.name_of(entry.group)),
            },
            measure.name(),
            figure(of, row, entry.group),
            plain(here),
            ratio(here / paper),
        ]);
    }
    for (row, same) in rows.into_iter().zip(orders(&both, measure.more_is_better())) {
        table.rows.push(row.into_iter().chain([same]).collect());
    }
}

/// Whether each store has the same place in both orders, in words.
fn orders(both: &[Both], more_is_better: bool) -> Vec<String> {
    let place = |own: f64, of: &dyn Fn(&Both) -> f64| {
        let better = |other: &&Both| match of(other).total_cmp(&own) {
            Ordering::Greater => more_is_better,
            Ordering::Less => !more_is_better,
            Ordering::Equal => false,
        };
        1 + both.iter().filter(better).count()
    };
    let of = |one: &Both| {
        let paper = place(one.paper, &|other| other.paper);
        let here = place(one.here, &|other| other.here);
        match both.len() {
            1 => format!("only {}", one.store),
            of if paper == here => format!("yes ({here} of {of})"),
            of => format!("no ({paper} there, {here} here, of {of})"),
        }
    };
    both.iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn both(rows: &[(f64, f64)]) -> Vec<Both> {
        let one = |(at, (paper, here)): (usize, &(f64, f64))| Both {
            store: format!("store{at}"),
            paper: *paper,
            here: *here,
        };
        rows.iter().enumerate().map(one).collect()
    }

    #[test]
    fn orders_are_places_in_both() {
        let three = both(&[(30.0, 9.0), (20.0, 7.0), (10.0, 8.0)]);
        assert_eq!(
            orders(&three, true),
            ["yes (1 of 3)", "no (2 there, 3 here, of 3)", "no (3 there, 2 here, of 3)"]
        );
        let less = both(&[(1.0, 5.0), (2.0, 9.0)]);
        assert_eq!(orders(&less, false), ["yes (1 of 2)", "yes (2 of 2)"]);
        assert_eq!(orders(&both(&[(1.0, 5.0)]), false), ["only store0"]);
        assert_eq!(orders(&[], true), [""; 0]);
    }
}
