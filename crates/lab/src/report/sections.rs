//! The order of a report: the verdict with its limits, one figure of everything, what to doubt;
//! then a chapter for each experiment; then data and cost, methods, threats to validity, and what
//! was measured on what.

use std::collections::BTreeMap;

use super::charts::{self, Colours};
use super::conclusion::{Verdict, sentences, verdicts};
use super::costs;
use super::csv;
use super::document::{Block, Document, Table};
use super::doubts::{self, GENERATOR_SHARE_MAX, doubts};
use super::gigabyte;
use super::instances;
use super::papers;
use super::summary::{Experiment, Summary};
use super::tables;
use crate::driver::durability::Durability;
use crate::measure::others::OTHERS_SHARE_MAX;
use crate::measure::speed::SLOWER_SHARE_MAX;
use crate::number::{bytes, detectable_ratio, percent};
use crate::reference::Reference;
use crate::results::Outcome;

/// The whole report.
pub fn document(summary: &Summary, reference: Option<&Reference>) -> Document {
    let mut document = titled(summary);
    let colours = Colours::of(summary);
    front(&mut document, summary);
    charts::overview(&mut document, summary, &colours);
    document.table(verdict_table(&all_verdicts(summary)));
    document.table(doubts::table(summary));
    for experiment in measured(summary) {
        chapter(&mut document, summary, experiment, reference, &colours);
    }
    gigabyte::gigabyte(&mut document, summary);
    costs::loads(&mut document, summary);
    costs::cost(&mut document, summary);
    if let Some(reference) = reference {
        papers::section(&mut document, summary, reference);
    }
    methods(&mut document, summary, reference);
    threats(&mut document, summary);
    setup(&mut document, summary);
    document
}

/// A document with the title of the run.
pub(super) fn titled(summary: &Summary) -> Document {
    let title = format!("{}, scale {}", summary.run.study, summary.run.scale);
    Document { title, ..Document::default() }
}

/// Experiments that were measured, without those that only load data.
pub(super) fn measured(summary: &Summary) -> impl Iterator<Item = &Experiment> {
    summary.experiments.iter().filter(|experiment| !experiment.prepares)
}

/// The verdicts on all experiments.
pub(super) fn all_verdicts(summary: &Summary) -> Vec<Verdict> {
    measured(summary).flat_map(verdicts).collect()
}

/// The abstract: the times of the run, missing trials, the verdict and its limits.
pub(super) fn front(document: &mut Document, summary: &Summary) {
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
    if let Some(text) = partial(summary) {
        document.blocks.push(Block::Warning(text));
    }
    for text in lies(summary) {
        document.blocks.push(Block::Warning(text));
    }
    document.heading("Abstract");
    let all = all_verdicts(summary);
    document.text(verdict(&all));
    if let Some(text) = unequal_durability(summary) {
        document.text(text);
    }
    document.text(format!(
        "All numbers are of scale {} and of this machine. They are not to be compared with those of another.",
        run.scale
    ));
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
            "Durability of writes differs, and with it what the numbers of writes mean ({}). For equal durability, run with \
             --durability each.",
            all.join("; ")
        ),
    })
}

/// Groups of stores that do not differ.
pub(super) fn verdict_table(all: &[Verdict]) -> Table {
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

fn chapter(
    document: &mut Document,
    summary: &Summary,
    experiment: &Experiment,
    reference: Option<&Reference>,
    colours: &Colours<'_>,
) {
    document.heading(&experiment.title);
    if !experiment.about.is_empty() {
        document.text(&experiment.about);
    }
    document.list(sentences(experiment));
    if experiment.has_sizes() && nodes_share(summary, experiment) {
        document.text(
            "The nodes of a cluster share the processors of this one machine: more nodes are more work for the same processors, \
             and the numbers say nothing about a cluster of several machines.",
        );
    }
    document.table(tables::ranking(summary, experiment, reference));
    document.table(instances::comparison(experiment, reference));
    document.list(doubts::sentences(&doubts(summary, experiment)));
    charts::experiment(document, experiment, colours);
    let mut inner = Document::default();
    inner.table(tables::tests(experiment));
    for label in tables::latency_labels(experiment) {
        inner.table(tables::operations(experiment, &label, reference));
    }
    inner.table(tables::percentiles(experiment, reference));
    inner.table(tables::values(experiment));
    inner.table(tables::resources(experiment, summary));
    inner.list(notes(experiment));
    document.details(format!("Tests, percentiles and resources: {}", experiment.title), inner);
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

/// The stores as they were measured.
pub(super) fn stores(summary: &Summary) -> Table {
    let mut stores = Table::new(
        "Stores",
        &["store", "version", "durability", "a crash loses", "state", "options", "note"],
    );
    for store in &summary.run.stores {
        let options = store.options.iter().map(|(name, value)| format!("{name} = {value}"));
        stores.rows.push(vec![
            store.label.clone(),
            store.version.clone(),
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

fn setup(document: &mut Document, summary: &Summary) {
    let (run, machine) = (&summary.run, &summary.run.machine);
    document.heading("What was measured, and on what");
    document.list(
        [
            ("Processor", format!("{}, {} logical processors", machine.processor, machine.cores)),
            ("Memory", bytes(machine.memory_bytes as f64)),
            ("System", format!("{}, {}", machine.system, machine.kernel)),
            ("Command", run.command.join(" ")),
            ("Program", format!("loginson-lab {}", run.lab_version)),
        ]
        .map(|(name, value)| format!("{name}: {value}"))
        .to_vec(),
    );
    document.table(stores(summary));
    for store in run.stores.iter().filter(|store| !store.configuration.is_empty()) {
        document.blocks.push(Block::Code(
            format!("Configuration of {}", store.label),
            store.configuration.clone(),
        ));
    }
    document.text(
        "Raw results: the directory trials, or once they are packed the file trials.jsonl.zst, beside this report has the lines of JSON \
         of each trial, from which loginson-lab report makes this report again. A line for each trial and measure:",
    );
    document.blocks.push(Block::File(csv::NAME.into(), csv::write(summary)));
}

fn methods(document: &mut Document, summary: &Summary, reference: Option<&Reference>) {
    document.heading("Methods");
    let mut points = vec![
        "A sample has one number for each repetition; single operations depend on each other and are no sample. Means are geometric, \
         and their 95% intervals are Student's t of the logarithms, so that no interval reaches below 0. Spread is the standard \
         deviation of the logarithms, which is about the deviation relative to the mean."
            .into(),
        "Stores take turns: the first repetition of each store comes before the second of any, each round begins with another store, and \
         two stores are compared in pairs by repetition (t-test of the logarithms of the ratios). Different sizes of a cluster were \
         measured at different times and are compared by Welch's test of logarithms. All pairs of an experiment are corrected \
         together after Holm; below 0.05 a difference is called significant."
            .into(),
        "The smallest detectable difference of a pair is the ratio that samples with this spread would have shown as significant with a \
         probability of 80%: stores that differ by less may do so unseen. Of a comparison the table of verdicts has that of the pair \
         that is hardest to tell, among those without a significant difference."
            .into(),
        "Under a rate that was asked for, latency counts from the moment an operation was due. A store that reaches less than 95% of the \
         rate is overloaded; then the reached rates are compared."
            .into(),
        format!(
            "The limit of the generator is what the same work reaches with the client of the same store against a sink, which answers at \
             once with answers that the store gave before. Reads of work that adds rows find nothing there, so that the limit is an \
             upper bound. A store that reaches more than {} of it is held back by the generator. The limit is unknown for stores whose \
             protocol no sink speaks, for clusters and for several generators. Where neither servers nor generator had a processor \
             busy, and disks and network were idle, the number is that of round trips.",
            percent(GENERATOR_SHARE_MAX)
        ),
        format!(
            "Interference is the processor time of the machine that neither servers nor generator used: other programs, and other \
             virtual machines if the hypervisor tells. More than {} of all processors is named, and a trial in which it happens is \
             repeated once where the study allows that.",
            percent(OTHERS_SHARE_MAX)
        ),
        "A trial is not steady if its rate went to another level, more than 15% away, and stayed there (Pettitt's test, p below 0.001), or \
         if its last third is more than 15% faster or slower than its first. A trial says nothing of what a store does after it. A stall is a second without any \
         answer in a trial whose median second has at least 20."
            .into(),
        "Percentiles are of all operations of all repetitions, from histograms with three significant digits. Box plots are Tukey's: \
         hinges, median, whiskers to the last value within one and a half boxes."
            .into(),
        "Every answer that is known beforehand is checked. One wrong answer ends a trial, and the trial has no number.".into(),
        "What was read from and written to disks is counted by the disks of the machine. Processor time for 1,000 operations counts the \
         whole trial with its last, partial second, and programs that a server runs and waits for. The kernel counts it in steps of \
         10 ms for each process, so that the share of very short trials is rough. A trial shorter than a second has no peak second."
            .into(),
    ];
    // Results of older versions have no such values.
    if measured(summary).any(|experiment| doubts::usual_speed(experiment).is_some()) {
        points.push(format!(
            "Before each trial all processors do a fixed computation for 40 ms, whose rate counts for each second of processor time: \
             other virtual machines on the same cores make it slower, which the hypervisor does not tell, and so does work that servers \
             still do. A trial before which it was more than {} slower than the median of its experiment is named.",
            percent(SLOWER_SHARE_MAX)
        ));
    }
    if summary.restart_servers {
        points.push(
            "The servers are started again for each repetition, which has a trial of every experiment, in the order of the experiments. \
             So repetitions also show how far two processes differ that were started alike, by what their compiler made of the code \
             or where their memory lies. Servers that the lab did not start are not started again."
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
    document.list(points);
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

fn threats(document: &mut Document, summary: &Summary) {
    document.heading("Threats to validity");
    let here = measured(summary).any(|experiment| nodes_share(summary, experiment));
    let mut points = Vec::new();
    if here {
        points.push(format!(
            "Servers and generator share {} processors, the memory and the disks of one machine, and talk over loopback: a store that needs \
             more processor time leaves less to the generator, and no network delays an answer.",
            summary.run.machine.cores
        ));
    }
    points.extend([
        "Stores that are not measured keep running idle, unless a trial is made again in a resumed run, which starts only its own \
         store; what they use meanwhile is in the line of the machine."
            .into(),
        "Configurations are the defaults but for what the section below lists of each store, most of it bounds of memory; a store that is \
         tuned for the work may do better."
            .into(),
        "Data is generated. Log lines are copies of lines of real systems with other numbers in them; keys and values of other data are \
         spread as the study says."
            .into(),
    ]);
    points.extend(speeds(summary));
    let instances = summary.run.stores.iter().any(|store| store.label.contains('@'));
    if instances && !summary.restart_servers {
        points.push(
            "An instance is the same processes for the whole run. Repetitions do not show how far two processes that were started alike \
             differ, by what their compiler made of the code or where their memory lies: an instance that is a little faster may be the \
             luckier process."
                .into(),
        );
    }
    if summary.run.scale != "paper" {
        points.push(format!(
            "At scale {} data fits into memory: nothing is said about data that does not.",
            summary.run.scale
        ));
    }
    document.list(points);
}
