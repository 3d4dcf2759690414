//! The order of a report: the verdicts with their figure and what to doubt, on a page; then the
//! methods; then the data, a chapter for each experiment.
//!
//! There is one document. What a reader opens on request (tests of all pairs, percentiles, series,
//! configurations) are details in it, which the page of Markdown leaves out. A page that would have
//! more than [`WORDS_MAX`] words shows less of each experiment, and has the rest as details too.

use std::collections::BTreeMap;

use super::charts::{self, Colours};
use super::conclusion::{Verdict, sentences, verdicts};
use super::document::{Block, Document, Table};
use super::doubts::{self, GENERATOR_SHARE_MAX, doubts};
use super::summary::{Experiment, Summary};
use super::{costs, csv, gigabyte, instances, markdown, papers, tables};
use crate::driver::durability::Durability;
use crate::measure::speed::SLOWER_SHARE_MAX;
use crate::number::{bytes, detectable_ratio, percent};
use crate::reference::Reference;
use crate::results::Outcome;

/// Limit of a page, in words as `wc -w` counts them.
pub const WORDS_MAX: usize = 5_000;

/// How much of an experiment is shown, and not a detail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shown {
    /// Its ranking, and sentences that follow from the tests.
    Sentences,
    /// Its ranking.
    Ranking,
    /// Its row in the table of groups.
    Groups,
}

/// The report.
pub fn document(summary: &Summary, reference: Option<&Reference>) -> Document {
    let shown = [Shown::Sentences, Shown::Ranking];
    let all = shown.into_iter().map(|shown| with(summary, reference, shown));
    let mut short = all.filter(|document| words(&document.page()) <= WORDS_MAX);
    short.next().unwrap_or_else(|| with(summary, reference, Shown::Groups))
}

fn words(page: &Document) -> usize {
    markdown::write(page).split_whitespace().count()
}

fn with(summary: &Summary, reference: Option<&Reference>, shown: Shown) -> Document {
    let mut document = titled(summary);
    front(&mut document, summary);
    methods(&mut document, summary, reference);
    document.heading("Data");
    for experiment in measured(summary) {
        chapter(&mut document, summary, experiment, shown);
        let inner = details(summary, experiment, reference, shown);
        document.details(format!("More: {}", experiment.title), inner);
    }
    gigabyte::gigabyte(&mut document, summary);
    let mut inner = Document::default();
    costs::loads(&mut inner, summary);
    costs::cost(&mut inner, summary);
    document.details("Loading of data, and cost", inner);
    if let Some(reference) = reference {
        let mut inner = Document::default();
        papers::section(&mut inner, summary, reference);
        document.details("The paper and this run", inner);
    }
    document
}

/// A document with the title of the run.
fn titled(summary: &Summary) -> Document {
    let title = format!("{}, scale {}", summary.run.study, summary.run.scale);
    Document { title, ..Document::default() }
}

/// Experiments that were measured, without those that only load data.
fn measured(summary: &Summary) -> impl Iterator<Item = &Experiment> {
    summary.experiments.iter().filter(|experiment| !experiment.prepares)
}

/// The verdicts on all experiments.
fn all_verdicts(summary: &Summary) -> Vec<Verdict> {
    measured(summary).flat_map(verdicts).collect()
}

/// The first page: the times of the run, missing trials, the verdicts, their limits, and doubts.
fn front(document: &mut Document, summary: &Summary) {
    let run = &summary.run;
    document.text(format!(
        "Begun {}{}; seed {}; loginson-lab {}; {}, {} logical processors, {}.",
        run.started,
        summary.ended().map(|ended| format!(", ended {ended}")).unwrap_or_default(),
        run.seed,
        run.lab_version,
        run.machine.processor,
        run.machine.cores,
        bytes(run.machine.memory_bytes as f64)
    ));
    for again in &run.again {
        document.text(format!(
            "The trials of {} were made again from {} on, by loginson-lab {} ({}, {} logical processors), not in turns with the \
             others: what changed on the machine meanwhile is a part of each difference from them.",
            again.store,
            again.started,
            again.lab_version,
            again.machine.processor,
            again.machine.cores
        ));
    }
    if let Some(text) = partial(summary) {
        document.blocks.push(Block::Warning(text));
    }
    for text in lies(summary) {
        document.blocks.push(Block::Warning(text));
    }
    document.heading("Verdicts");
    let all = all_verdicts(summary);
    document.text(verdict(&all));
    if let Some(text) = unequal_durability(summary) {
        document.text(text);
    }
    document.text(format!(
        "All numbers are of scale {} and of this machine. They are not to be compared with those of another.",
        run.scale
    ));
    super::verdicts::figure(document, summary);
    document.table(verdict_table(&all));
    document.table(doubts::table(summary));
}

/// Says that results are missing, if some are.
fn partial(summary: &Summary) -> Option<String> {
    let planned = summary.run.trials_planned;
    let there = summary.trials;
    (planned > there).then(|| {
        format!(
            "This report is partial: {there} of {planned} trials were made. Resume the run for the others."
        )
    })
}

/// Wrong answers stand on the first page.
fn lies(summary: &Summary) -> Vec<String> {
    let mut wrong: BTreeMap<&str, (usize, &str)> = BTreeMap::new();
    for group in measured(summary).flat_map(|experiment| &experiment.groups) {
        for trial in &group.repetitions {
            if let Outcome::Wrong { message } = &trial.outcome {
                wrong.entry(&group.store).or_insert((0, message)).0 += 1;
            }
        }
    }
    let text = |(store, (trials, message)): (&str, (usize, &str))| {
        format!(
            "{store} gave wrong answers in {trials} trial{}, which have no number. The first: {message}",
            if trials == 1 { "" } else { "s" }
        )
    };
    wrong.into_iter().map(text).collect()
}

/// Which store is first how often.
fn verdict(all: &[Verdict]) -> String {
    if all.is_empty() {
        return "One store was measured: there is nothing to compare.".into();
    }
    let untested = all.iter().filter(|verdict| !verdict.tested).count();
    let blind = all.iter().filter(|verdict| !verdict.too_few.is_empty()).count();
    let mut first: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for verdict in all.iter().filter(|verdict| verdict.tested && verdict.too_few.is_empty()) {
        match verdict.winner() {
            Some(store) => first.entry(store).or_default().0 += 1,
            None => {
                for store in verdict.groups.first().into_iter().flatten() {
                    first.entry(store).or_default().1 += 1;
                }
            }
        }
    }
    let mut order: Vec<(&str, (usize, usize))> = first.into_iter().collect();
    order.sort_by_key(|(store, (alone, shared))| (usize::MAX - alone, usize::MAX - shared, *store));
    let texts = order.iter().map(|(store, (alone, shared))| match (alone, shared) {
        (alone, 0) => format!("{store} is first in {alone}"),
        (0, shared) => format!("{store} shares the first place in {shared}"),
        (alone, shared) => {
            format!("{store} is first in {alone} and shares the first place in {shared}")
        }
    });
    let texts: Vec<String> = texts.collect();
    format!(
        "Stores were compared in {} way{}.{}{}{}",
        all.len(),
        if all.len() == 1 { "" } else { "s" },
        match texts.is_empty() {
            true => String::new(),
            false => format!(" {}; first means significantly first.", texts.join(", ")),
        },
        match untested {
            0 => String::new(),
            1 => " 1 has fewer than three repetitions, and says nothing about chance.".into(),
            untested => {
                format!(
                    " {untested} have fewer than three repetitions, and say nothing about chance."
                )
            }
        },
        match blind {
            0 => String::new(),
            blind => format!(
                " {blind} had so few repetitions that even a store ten times worse could not be told from the first."
            ),
        }
    )
}

/// Says that writes of the stores are not equally safe, or not known to be.
fn unequal_durability(summary: &Summary) -> Option<String> {
    if !measured(summary).any(|experiment| experiment.writes) {
        return None;
    }
    let mut levels: BTreeMap<Option<Durability>, Vec<&str>> = BTreeMap::new();
    for store in &summary.run.stores {
        let level = store.durability.as_ref().map(|promise| promise.durability);
        levels.entry(level).or_default().push(&store.label);
    }
    let names = |level: &Option<Durability>, stores: &[&str]| {
        let stores = stores.join(", ");
        match level {
            Some(Durability::Each) => format!("{stores}: on disk before a write is acknowledged"),
            Some(Durability::Interval) => {
                format!("{stores}: on disk some time later, so a crash loses acknowledged writes")
            }
            Some(Durability::None) => format!("{stores}: no promise"),
            None => format!("{stores}: not known, the lab did not start the server"),
        }
    };
    let all: Vec<String> = levels.iter().map(|(level, stores)| names(level, stores)).collect();
    Some(match levels.len() {
        1 => format!("Durability of writes is equal ({}).", all[0]),
        _ => format!(
            "Durability of writes differs: compare writes between stores of one group only ({}).",
            all.join("; ")
        ),
    })
}

/// Groups of stores that do not differ.
fn verdict_table(all: &[Verdict]) -> Table {
    let mut table = Table::new(
        "Groups of stores that do not differ significantly, best first; a store in two groups differs from neither",
        &["experiment", "groups", "stores that do not differ may do so by up to"],
    );
    for verdict in all {
        let groups = verdict.groups.iter().enumerate();
        let groups: Vec<String> =
            groups.map(|(at, stores)| format!("{}. {}", at + 1, stores.join(", "))).collect();
        table.rows.push(vec![
            verdict.subject.clone(),
            match (verdict.tested, verdict.groups.len(), verdict.too_few.is_empty()) {
                (false, ..) => "not tested".into(),
                (true, _, true) => groups.join("; "),
                (true, 1, false) => "too few repetitions".into(),
                (true, _, false) => format!(
                    "{} (too few repetitions for {})",
                    groups.join("; "),
                    verdict.too_few.join(", ")
                ),
            },
            verdict.unseen.map(detectable_ratio).unwrap_or_default(),
        ]);
    }
    table
}

/// What is shown of an experiment.
fn chapter(document: &mut Document, summary: &Summary, experiment: &Experiment, shown: Shown) {
    if shown == Shown::Groups {
        return;
    }
    document.blocks.push(Block::Heading(3, experiment.title.clone()));
    if !experiment.about.is_empty() {
        document.text(&experiment.about);
    }
    if !experiment.work.is_empty() {
        document.text(&experiment.work);
    }
    if shown == Shown::Sentences {
        document.list(sentences(experiment));
    }
    if experiment.has_sizes() && nodes_share(summary, experiment) {
        document.text(
            "The nodes of a cluster share the processors of this one machine: the numbers say nothing about several machines.",
        );
    }
    document.table(tables::ranking(experiment));
}

/// What is shown on request: the rest of the chapter, and the trials behind the ranking.
fn details(
    summary: &Summary,
    experiment: &Experiment,
    reference: Option<&Reference>,
    shown: Shown,
) -> Document {
    let mut inner = Document::default();
    match shown {
        Shown::Sentences => {}
        Shown::Ranking => inner.list(sentences(experiment)),
        Shown::Groups => chapter(&mut inner, summary, experiment, Shown::Sentences),
    }
    inner.list(doubts::sentences(&doubts(summary, experiment)));
    charts::experiment(&mut inner, experiment, &Colours::of(summary));
    inner.table(tables::background(summary, experiment));
    inner.table(instances::comparison(experiment, reference));
    inner.table(tables::tests(experiment));
    for label in tables::latency_labels(experiment) {
        inner.table(tables::operations(experiment, &label));
    }
    inner.table(tables::percentiles(experiment, reference));
    inner.table(tables::values(experiment));
    inner.table(tables::resources(experiment, summary));
    inner.list(notes(experiment));
    inner
}

/// Whether servers of this machine were measured: then the kernel knows what they used.
fn nodes_share(summary: &Summary, experiment: &Experiment) -> bool {
    let of_store = |name: &String| summary.run.stores.iter().any(|store| store.label == *name);
    let trials = experiment.groups.iter().flat_map(|group| group.completed());
    trials.into_iter().any(|trial| trial.usage.keys().any(of_store))
}

/// Notes of the trials, each once.
fn notes(experiment: &Experiment) -> Vec<String> {
    let mut notes: Vec<String> = Vec::new();
    for group in &experiment.groups {
        for note in group.repetitions.iter().flat_map(|trial| &trial.notes) {
            let text = format!("{}: {note}", experiment.name_of(group));
            if !notes.contains(&text) {
                notes.push(text);
            }
        }
    }
    notes
}

/// The column of a store's instance and options.
const MEASURED_AS: &str = "measured as";

/// The stores as they were measured.
fn stores(summary: &Summary) -> Table {
    let mut stores = Table::new(
        "Stores",
        &[
            "store",
            "version",
            MEASURED_AS,
            "durability",
            "a crash loses",
            "state",
            "options",
            "note",
        ],
    );
    for store in &summary.run.stores {
        let options = store.options.iter().map(|(name, value)| format!("{name} = {value}"));
        stores.rows.push(vec![
            store.label.clone(),
            store.version.clone(),
            summary.full_names.get(&store.label).cloned().unwrap_or_default(),
            tables::durability(summary, &store.label),
            store.durability.as_ref().map(|promise| promise.loses.clone()).unwrap_or_default(),
            store.states.join(" "),
            options.collect::<Vec<_>>().join(", "),
            store.note.clone().unwrap_or_default(),
        ]);
    }
    for (store, reason) in &summary.left_out {
        let mut row = vec![String::new(); stores.head.len()];
        row[0].clone_from(store);
        row[1] = format!("not measured: {reason}");
        stores.rows.push(row);
    }
    stores.compact()
}

/// The rules behind the numbers, what they do not say, and what was measured.
fn methods(document: &mut Document, summary: &Summary, reference: Option<&Reference>) {
    document.heading("Methods");
    document.list(rules(summary, reference));
    document.blocks.push(Block::Heading(3, "Threats to validity".into()));
    document.list(threats(summary));
    let all = stores(summary);
    document.table(all.only(&["store", "version", MEASURED_AS, "durability", "a crash loses"]));
    let (run, machine) = (&summary.run, &summary.run.machine);
    let mut inner = Document::default();
    inner.list(vec![
        format!("System: {}, {}", machine.system, machine.kernel),
        format!("Command: {}", run.command.join(" ")),
    ]);
    inner.table(Table { caption: "Stores as they were measured".into(), ..all });
    for store in run.stores.iter().filter(|store| !store.configuration.is_empty()) {
        inner.blocks.push(Block::Code(
            format!("Configuration of {}", store.label),
            store.configuration.clone(),
        ));
    }
    inner.text(
        "Raw results: the directory trials, or once they are packed the file trials.jsonl.zst, beside this report has the lines of JSON \
         of each trial, from which loginson-lab report makes this report again. A line for each trial and measure:",
    );
    inner.blocks.push(Block::File(csv::NAME.into(), csv::write(summary)));
    document.details("What was measured, and on what", inner);
}

/// The rules that one needs to read the report; docs/lab/statistics.md has all of them.
fn rules(summary: &Summary, reference: Option<&Reference>) -> Vec<String> {
    let mut points = vec![
        "A sample has one number for each repetition, because single operations depend on each other. Means are geometric, and 95% \
         intervals are Student's t of the logarithms."
            .into(),
        "Stores take turns, and two of them are compared in pairs by repetition (t-test of the logarithms of the ratios), sizes of a \
         cluster by Welch's test. All pairs of an experiment are corrected together after Holm; below 0.05 a difference is called \
         significant. Stores that do not differ may do so unseen by a ratio that such samples would have shown with a probability of 80%."
            .into(),
        "Under a rate that was asked for, latency counts from the moment an operation was due. A store that reaches less than 95% of the \
         rate is overloaded; then the reached rates are compared."
            .into(),
        format!(
            "The limit of the generator is what the same work reaches with the client of the same store against a sink that answers at \
             once. A store that reaches more than {} of it is held back by the generator.",
            percent(GENERATOR_SHARE_MAX)
        ),
        "Every answer that is known beforehand is checked. One wrong answer ends a trial, and the trial has no number.".into(),
    ];
    // Results of older versions have no such values.
    if measured(summary).any(|experiment| doubts::usual_speed(experiment).is_some()) {
        points.push(format!(
            "Before each trial all processors do a fixed computation for 40 ms. A trial before which it was more than {} slower than the \
             median of its experiment is named.",
            percent(SLOWER_SHARE_MAX)
        ));
    }
    if summary.restart_servers {
        points.push(
            "The servers are started again for each repetition, which has a trial of every experiment, so that repetitions also show how \
             far two processes differ that were started alike."
                .into(),
        );
    }
    if let Some(reference) = reference {
        points.push(format!(
            "The paper is {}, measured on {}. Its figures are of other machines, versions and mostly other sizes: they show whether \
             the picture is the same.",
            reference.title, reference.machine
        ));
    }
    points.push(
        "docs/lab/statistics.md has the rules of all tests, doubts and percentiles. The report in HTML has small figures, tests of all \
         pairs, percentiles, resources, loading, the figures of the paper and configurations; with --full, Markdown has them too."
            .into(),
    );
    points
}

/// Where the machine computed fastest and slowest, if that differs.
fn speeds(summary: &Summary) -> Option<String> {
    let speed = |experiment| Some((doubts::usual_speed(experiment)?, experiment));
    let all: Vec<(f64, &Experiment)> = measured(summary).filter_map(speed).collect();
    let slowest = all.iter().min_by(|one, other| one.0.total_cmp(&other.0))?;
    let fastest = all.iter().max_by(|one, other| one.0.total_cmp(&other.0))?;
    let lost = 1.0 - slowest.0 / fastest.0;
    (lost > SLOWER_SHARE_MAX).then(|| {
        format!(
            "The machine was not always equally fast: before the trials of {} it computed {} more slowly than before those of {}. \
             Stores take turns within an experiment, but figures of different experiments cannot be compared.",
            slowest.1.title,
            percent(lost),
            fastest.1.title
        )
    })
}

/// Stores that are asked by a program beside the generator, in the language of their own client.
fn foreign_clients(summary: &Summary) -> Option<String> {
    let asked = summary.run.stores.iter().filter(|store| store.has_foreign_client);
    let names: Vec<&str> = asked.map(|store| &*store.label).collect();
    (!names.is_empty()).then(|| {
        format!(
            "{}: asked by a program in Java beside the generator, the store's own client. Each operation makes one more hop and takes more \
             processor time than with a client inside the generator, so these stores can do better than shown.",
            names.join(", ")
        )
    })
}

fn threats(summary: &Summary) -> Vec<String> {
    let mut points = Vec::new();
    if measured(summary).any(|experiment| nodes_share(summary, experiment)) {
        points.push(format!(
            "Servers and generator share {} processors, the memory and the disks of one machine, and talk over loopback: a store that needs \
             more processor time leaves less to the generator, and no network delays an answer.",
            summary.run.machine.cores
        ));
    }
    points.extend([
        "Stores that are not measured keep running idle; what they use is in the line of the machine.".into(),
        "Settings are the defaults, but for the options in the table of stores and for bounds of memory: a store that is tuned further may \
         do better."
            .into(),
        "Data is generated. Log lines are copies of lines of real systems with other numbers in them."
            .into(),
    ]);
    points.extend(foreign_clients(summary));
    points.extend(speeds(summary));
    let instances = summary.run.stores.iter().any(|store| store.label.contains('@'));
    if instances && !summary.restart_servers {
        points.push(
            "An instance is the same processes for the whole run: one that is a little faster may be the luckier process.".into(),
        );
    }
    if summary.run.scale != "paper" {
        points.push(format!(
            "At scale {} data fits into memory: nothing is said about data that does not.",
            summary.run.scale
        ));
    }
    points
}
