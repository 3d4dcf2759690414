//! The contents of a report: the conclusion first, then the machines and stores, then each
//! experiment with its tables and charts.

use super::charts;
use super::conclusion::{GENERATOR_SHARE_MAX, orders, sentences};
use super::document::{Document, Table};
use super::number::{bytes, count, interval, of_name, percent, plain, probability, ratio};
use super::ranking::{Pair, pairs, ranked};
use super::summary::{
    ALL, Experiment, GENERATOR, Group, HOST, Measure, Repetition, Summary, Usage,
};
use crate::reference::{Reference, Wanted};
use crate::statistics::{quantile, trend};

/// The percentiles of the 2015 study.
pub const PERCENTILES: [f64; 8] = [25.0, 50.0, 75.0, 90.0, 95.0, 99.0, 99.9, 100.0];

/// The whole report.
pub fn document(summary: &Summary, reference: Option<&Reference>) -> Document {
    let run = &summary.run;
    let mut document =
        Document { title: format!("{}, scale {}", run.study, run.scale), ..Document::default() };
    let measured = || summary.experiments.iter().filter(|experiment| !experiment.prepares);
    document.text(format!(
        "Begun {}{}, seed {}, loginson-lab {}. All numbers are of scale {} and are not to be compared with those of another.",
        run.started,
        summary.ended().map(|ended| format!(", ended {ended}")).unwrap_or_default(),
        run.seed,
        run.lab_version,
        run.scale
    ));
    document.heading("Conclusion");
    document.text(
        "Differences are tested with Welch's test at 95%, adjusted for the number of pairs after Holm; what is called first is \
         first significantly.",
    );
    let order = |experiment: &Experiment| -> Vec<String> {
        let orders = orders(experiment).into_iter();
        orders.map(|(place, order)| format!("{}{place}: {order}", experiment.title)).collect()
    };
    let orders: Vec<String> = measured().flat_map(order).collect();
    if !orders.is_empty() {
        document.text(
            "Order of the stores, best first; ≈ stands between neighbours whose difference is not significant or not tested:",
        );
        document.list(orders);
    }
    for experiment in measured() {
        document.subheading(&experiment.title);
        document.list(sentences(experiment));
    }
    setup(&mut document, summary);
    for experiment in measured() {
        chapter(&mut document, summary, experiment, reference);
    }
    loads(&mut document, summary);
    cost(&mut document, summary);
    methods(&mut document, reference);
    document
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
        ]
        .map(|(name, value)| format!("{name}: {value}"))
        .to_vec(),
    );
    let stores = run.stores.iter().map(|store| {
        let options = store.options.iter().map(|(name, value)| format!(", {name} = {value}"));
        let note = store.note.iter().map(|note| format!("; {note}"));
        let more: String = options.chain(note).collect();
        format!("Store {}: {}{more}", store.label, store.version)
    });
    document.list(stores.collect());
    for store in run.stores.iter().filter(|store| !store.configuration.is_empty()) {
        document.blocks.push(super::document::Block::Code(
            format!("Configuration of {}", store.label),
            store.configuration.clone(),
        ));
    }
}

fn chapter(
    document: &mut Document,
    summary: &Summary,
    experiment: &Experiment,
    reference: Option<&Reference>,
) {
    document.heading(&experiment.title);
    if !experiment.about.is_empty() {
        document.text(&experiment.about);
    }
    document.table(ranking(experiment, reference));
    charts::saturation(document, experiment);
    charts::boxes(document, experiment);
    charts::sizes(document, experiment);
    charts::targets(document, experiment);
    document.table(tests(experiment));
    for label in latency_labels(experiment) {
        if let Measure::Latency(of) = &experiment.measure
            && (*of == label || experiment.groups[0].labels().len() < 2)
        {
            continue;
        }
        document.table(operations(experiment, &label, reference));
    }
    document.table(percentiles(experiment, reference));
    charts::histograms(document, experiment);
    charts::series(document, experiment);
    document.table(values(experiment));
    document.table(resources(experiment, summary));
    charts::resources(document, experiment);
}

/// Whether the reference has a number for a group.
fn published(
    reference: Option<&Reference>,
    experiment: &Experiment,
    group: &Group,
    measure: &Measure,
) -> Option<String> {
    let (measure, label) = measure.reference();
    let (table, row) = reference?.find(Wanted {
        subject: &experiment.subject,
        measure,
        label,
        store: &group.store,
        nodes: group.nodes,
        target_per_s: group.target_per_s,
    })?;
    let about = if table.rough { "about " } else { "" };
    Some(format!("{about}{} ({})", plain(row.mean), table.place))
}

/// Removes the columns after the first that are empty in every row.
fn compact(mut table: Table) -> Table {
    let used: Vec<bool> = (0..table.head.len())
        .map(|at| at == 0 || table.rows.iter().any(|row| !row[at].is_empty()))
        .collect();
    let keep = |row: &mut Vec<String>| {
        let mut at = 0;
        row.retain(|_| {
            at += 1;
            used[at - 1]
        });
    };
    table.rows.iter_mut().for_each(keep);
    keep(&mut table.head);
    table
}

fn ranking(experiment: &Experiment, reference: Option<&Reference>) -> Table {
    let measure = &experiment.measure;
    let name = measure.name();
    let mut table = Table::new(
        format!("Ranking by {name}"),
        &[
            "store",
            &name,
            "95% interval",
            "repetitions",
            "standard deviation",
            "relative to the best",
            "reached per second",
            match measure {
                Measure::Value(_) => "of it the generator's own",
                _ => "of the generator's limit",
            },
            "places in the run",
            "drift, p",
            "errors",
            "paper",
        ],
    );
    for set in experiment.sets() {
        let all = ranked(set, measure);
        for entry in &all {
            let (group, found) = (entry.group, &entry.estimate);
            let rates = group.sample(&Measure::Throughput);
            let rate = rates.iter().sum::<f64>() / rates.len().max(1) as f64;
            let errors: u64 = group.completed().map(|trial| trial.errors()).sum();
            let reached = group.target_per_s.map(|_| plain(rate)).unwrap_or_default();
            table.rows.push(vec![
                experiment.name_of(group),
                plain(found.mean),
                found.interval.map(interval).unwrap_or_default(),
                found.count.to_string(),
                if found.count > 1 { plain(found.deviation) } else { String::new() },
                match all.len() {
                    1 => String::new(),
                    _ => ratio(found.mean / all[0].estimate.mean),
                },
                reached,
                match (experiment.share_of_limit(group), experiment.limit(), measure) {
                    (Some(share), Some(own), Measure::Value(_)) => {
                        format!("{} ({})", percent(share), plain(own))
                    }
                    (Some(share), Some(limit), _) => {
                        format!("{} of {}", percent(share), plain(limit))
                    }
                    _ => String::new(),
                },
                places(group),
                trend(&entry.sample).map(|found| probability(found.p)).unwrap_or_default(),
                if errors > 0 { count(errors) } else { String::new() },
                published(reference, experiment, group, measure).unwrap_or_default(),
            ]);
        }
    }
    for group in &experiment.groups {
        if group.sample(measure).is_empty() {
            let mut row = vec![String::new(); table.head.len()];
            row[0] = experiment.name_of(group);
            row[1] = "not measured".into();
            table.rows.push(row);
        }
    }
    compact(table)
}

/// The positions of the repetitions of a group in the whole run.
fn places(group: &Group) -> String {
    let places = group.completed().map(|trial| trial.order.to_string());
    places.collect::<Vec<_>>().join(" ")
}

fn tests(experiment: &Experiment) -> Table {
    let row = |pair: &Pair<'_>| {
        let mut row = vec![format!(
            "{} – {}",
            experiment.name_of(pair.first.group),
            experiment.name_of(pair.second.group)
        )];
        match &pair.test {
            Some(test) => row.extend([
                plain(test.difference),
                interval(test.interval),
                format!(
                    "{}{}",
                    if pair.relative() < 0.0 { "−" } else { "+" },
                    percent(pair.relative())
                ),
                plain(test.t),
                plain(test.freedom),
                probability(test.p),
                probability(pair.p_adjusted.unwrap_or(1.0)),
                test.effect.map(plain).unwrap_or_default(),
            ]),
            None => row.extend(vec![String::new(); 8]),
        }
        row.push(pair.verdict().into());
        row
    };
    let mut table = Table::new(
        format!("Welch's two-sample t-test of every pair: {}", experiment.measure.name()),
        &[
            "pair",
            "difference",
            "95% interval",
            "relative",
            "t",
            "degrees of freedom",
            "p",
            "p after Holm",
            "Hedges' g",
            "verdict",
        ],
    );
    let pairs = pairs(experiment);
    if pairs.iter().any(|pair| pair.test.is_some()) {
        table.rows = pairs.iter().map(row).collect();
    }
    table
}

/// All labels of an experiment, with [`ALL`] where there are several.
fn latency_labels(experiment: &Experiment) -> Vec<String> {
    let mut labels: Vec<String> = Vec::new();
    for label in experiment.groups.iter().flat_map(|group| group.histograms.keys()) {
        if !labels.contains(label) {
            labels.push(label.clone());
        }
    }
    labels.sort_by_key(|label| (label == ALL, label.clone()));
    labels
}

/// Rate and latency of one operation.
fn operations(experiment: &Experiment, label: &str, reference: Option<&Reference>) -> Table {
    let measure = Measure::Latency(label.to_owned());
    let mut table = Table::new(
        format!("Operation {label}: mean latency by repetition"),
        &[
            "store",
            "mean latency, ms",
            "95% interval",
            "median of repetitions",
            "per second",
            "paper",
        ],
    );
    for set in experiment.sets() {
        for entry in ranked(set, &measure) {
            let rates: Vec<f64> =
                entry.group.completed().filter_map(|trial| trial.rate(label)).collect();
            table.rows.push(vec![
                experiment.name_of(entry.group),
                plain(entry.estimate.mean),
                entry.estimate.interval.map(interval).unwrap_or_default(),
                quantile(&entry.sample, 0.5).map(plain).unwrap_or_default(),
                plain(rates.iter().sum::<f64>() / rates.len().max(1) as f64),
                published(reference, experiment, entry.group, &measure).unwrap_or_default(),
            ]);
        }
    }
    compact(table)
}

fn percentiles(experiment: &Experiment, reference: Option<&Reference>) -> Table {
    let names: Vec<String> = PERCENTILES.iter().map(|p| format!("{p}%")).collect();
    let mut head = vec!["store and operation", "operations", "mean"];
    head.extend(names.iter().map(String::as_str));
    let mut table = Table::new("Response times of all repetitions together, ms", &head);
    for group in &experiment.groups {
        for (label, latencies) in &group.histograms {
            if latencies.is_empty() {
                continue;
            }
            let name = experiment.name_of(group);
            let at = |p: &f64| plain(latencies.value_at_quantile(p / 100.0) as f64 / 1000.0);
            let mut row = vec![
                format!("{name}: {label}"),
                count(latencies.len()),
                plain(latencies.mean() / 1000.0),
            ];
            row.extend(PERCENTILES.iter().map(at));
            table.rows.push(row);
            let wanted = Wanted {
                subject: &experiment.subject,
                measure: "latency_ms",
                label: Some(label),
                store: &group.store,
                nodes: group.nodes,
                target_per_s: group.target_per_s,
            };
            if let Some((of, row)) = reference.and_then(|reference| reference.find(wanted))
                && let Some(published) = row.percentiles
            {
                let mut row = vec![format!("paper, {}", of.place), String::new(), plain(row.mean)];
                row.extend(published.map(plain));
                table.rows.push(row);
            }
        }
    }
    table
}

/// Values of whole trials, means over repetitions.
fn values(experiment: &Experiment) -> Table {
    let mut names: Vec<&String> = Vec::new();
    let trials = experiment.groups.iter().flat_map(|group| group.completed());
    for name in trials.flat_map(|trial| trial.values.keys()) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names.sort();
    let mut table = Table::new(
        "Further measures, means of repetitions",
        &["store and measure", "mean", "95% interval", "lowest", "highest"],
    );
    for name in names {
        let measure = Measure::Value(name.clone());
        for entry in ranked(&experiment.groups, &measure) {
            let show = |value: f64| of_name(name, value);
            let group = experiment.name_of(entry.group);
            table.rows.push(vec![
                format!("{}: {group}", name.replace('_', " ")),
                show(entry.estimate.mean),
                match entry.estimate.interval {
                    Some((low, high)) => format!("{} to {}", show(low), show(high)),
                    None => String::new(),
                },
                quantile(&entry.sample, 0.0).map(show).unwrap_or_default(),
                quantile(&entry.sample, 1.0).map(show).unwrap_or_default(),
            ]);
        }
    }
    compact(table)
}

/// Resources of servers and generator, means over repetitions.
fn resources(experiment: &Experiment, summary: &Summary) -> Table {
    let mut table = Table::new(
        format!(
            "Resources, means of repetitions; the machine of the generator has {} logical processors",
            summary.run.machine.cores
        ),
        &[
            "store and process",
            "processors, mean",
            "processors, peak second",
            "processor time for 1,000 operations, s",
            "memory, peak",
            "read from disk",
            "written to disk",
            "network",
        ],
    );
    for group in &experiment.groups {
        let name = experiment.name_of(group);
        let mut processes: Vec<&String> =
            group.completed().flat_map(|trial| trial.usage.keys()).collect();
        processes.sort_by_key(|process| (*process == HOST, *process == GENERATOR, *process));
        processes.dedup();
        for process in processes {
            let used: Vec<(&Usage, &Repetition, u64)> = group
                .completed()
                .filter_map(|trial| {
                    Some((trial.usage.get(process)?, trial, trial.labels.get(ALL)?.count))
                })
                .collect();
            let mean = |of: &dyn Fn(&Usage) -> f64| {
                used.iter().map(|(usage, ..)| of(usage)).sum::<f64>() / used.len().max(1) as f64
            };
            let busy: Vec<f64> =
                used.iter().filter_map(|(usage, trial, _)| usage.cpu_mean(trial.seconds)).collect();
            let operations: u64 = used.iter().map(|(.., operations)| operations).sum();
            let cpu_s: f64 = used.iter().map(|(usage, ..)| usage.cpu_s).sum();
            let network = mean(&|usage| usage.network_bytes as f64);
            table.rows.push(vec![
                format!("{name}: {process}"),
                mean_of(&busy)
                    .map(|mean| plain((mean * 100.0).round() / 100.0))
                    .unwrap_or_default(),
                plain(mean(&|usage| usage.cpu.iter().copied().fold(0.0, f64::max))),
                plain(cpu_s * 1000.0 / operations.max(1) as f64),
                bytes(mean(&|usage| usage.memory_bytes_peak as f64)),
                bytes(mean(&|usage| usage.disk_read_bytes as f64)),
                bytes(mean(&|usage| usage.disk_write_bytes as f64)),
                if network > 0.0 { bytes(network) } else { String::new() },
            ]);
        }
    }
    compact(table)
}

/// The loading of data, and its size on disk.
fn loads(document: &mut Document, summary: &Summary) {
    let mut table = Table::new(
        "Data that was loaded for the experiments, in the way the store takes it fastest; means of the loads",
        &[
            "data and store",
            "records",
            "records per second",
            "seconds",
            "table, flushed",
            "bytes per record, flushed",
            "table, compacted",
            "bytes per record, compacted",
            "directory, flushed",
            "directory, compacted",
        ],
    );
    for experiment in summary.experiments.iter().filter(|experiment| experiment.prepares) {
        for group in &experiment.groups {
            let seconds: Vec<f64> = group.completed().map(|trial| trial.seconds).collect();
            let Some(seconds) = mean_of(&seconds) else { continue };
            let size = |name: &str| mean_of(&group.sample(&Measure::Value(name.to_owned())));
            let shown = |name: &str| size(name).map(bytes).unwrap_or_default();
            let each = |name: &str| {
                let (size, records) = size(name).zip(group.records)?;
                Some(plain(size / records as f64))
            };
            table.rows.push(vec![
                format!("{}: {}", experiment.title, group.name(true, false)),
                group.records.map(count).unwrap_or_default(),
                mean_of(&group.records_per_s()).map(plain).unwrap_or_default(),
                plain(seconds),
                shown("table_bytes_flushed"),
                each("table_bytes_flushed").unwrap_or_default(),
                shown("table_bytes_compacted"),
                each("table_bytes_compacted").unwrap_or_default(),
                shown("directory_bytes_flushed"),
                shown("directory_bytes_compacted"),
            ]);
        }
    }
    if !table.rows.is_empty() {
        document.heading("Loading of data");
        document.table(compact(table));
        document.list(vec![
            "Table: what the store itself says the table takes with its indexes, on all nodes; Redis says what it \
             takes in memory, and Loginson what all its tables take together."
                .into(),
            "Directory: all files of the store on this machine, with those of its other tables, its logs of changes \
             and what it allocates ahead."
                .into(),
            "Flushed: after the store wrote what it held in memory. Compacted: after it merged what it could, where \
             the study asks for that. No size is taken before the flush."
                .into(),
        ]);
    }
}

/// The mean; `None` for no values.
fn mean_of(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// The cost of the machines, as in the 2014 study.
fn cost(document: &mut Document, summary: &Summary) {
    let Some(price) = summary.price_per_machine_hour else { return };
    let mut table = Table::new(
        format!(
            "Cost of the servers' machines at {} for a machine and hour, in the currency of the definition",
            plain(price)
        ),
        &[
            "experiment and store",
            "machines",
            "hours of a run, mean",
            "cost of a run",
            "cost of 1,000,000 operations",
        ],
    );
    for experiment in summary.experiments.iter().filter(|experiment| !experiment.prepares) {
        for group in &experiment.groups {
            let trials: Vec<_> = group.completed().collect();
            let seconds: f64 = trials.iter().map(|trial| trial.seconds).sum();
            let operations: u64 =
                trials.iter().filter_map(|trial| trial.labels.get(ALL)).map(|all| all.count).sum();
            if trials.is_empty() {
                continue;
            }
            let cost = seconds / 3600.0 * price * f64::from(group.nodes);
            table.rows.push(vec![
                format!("{}: {}", experiment.title, group.name(false, experiment.has_targets())),
                group.nodes.to_string(),
                plain(seconds / 3600.0 / trials.len() as f64),
                plain(cost / trials.len() as f64),
                if operations > 0 { plain(cost / operations as f64 * 1e6) } else { String::new() },
            ]);
        }
    }
    if !table.rows.is_empty() {
        document.heading("Cost");
        document.table(compact(table));
    }
}

fn methods(document: &mut Document, reference: Option<&Reference>) {
    document.heading("How to read this");
    let mut points = vec![
        "A sample has one number for each repetition. Means have 95% intervals by Student's t; stores were run in turn.".into(),
        "Differences are first less second. p is that of Welch's test, which does not assume that two stores spread alike; p \
         after Holm takes all pairs of an experiment together, and below 0.05 a difference is called significant. Hedges' g is \
         the difference in standard deviations."
            .into(),
        "Box plots are Tukey's: hinges, median, whiskers to the last value within one and a half boxes, the rest as circles; the \
         diamond is the mean with its interval."
            .into(),
        "Percentiles are of all operations of all repetitions, from histograms with three significant digits. Under a rate that \
         was asked for, latency counts from the moment an operation was due."
            .into(),
        "Places in the run are the numbers of the trials in the order in which they were made: stores took turns, and each repetition \
         began with another."
            .into(),
        "Charts of seconds show one repetition of each store: the one with the median result.".into(),
        format!(
            "The generator is called a possible bottleneck where a store reaches more than {} of what the generator does against \
             a driver that does nothing. Below that share it may still be one: the driver that does nothing spares the generator \
             the encoding of requests and the reading of answers, and where servers and generator share processors each takes \
             from the other.",
            percent(GENERATOR_SHARE_MAX)
        ),
        "Processor time for 1,000 operations counts the whole trial with its last, partial second.".into(),
    ];
    if let Some(reference) = reference {
        points.push(format!(
            "The paper is {}, measured on {}. Its figures are of other machines, versions and mostly other sizes: they show whether \
             the picture is the same.",
            reference.title, reference.machine
        ));
    }
    document.list(points);
}
