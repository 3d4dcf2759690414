//! The tables of a chapter: ranking, tests, operations, percentiles, further values, resources.

use super::conclusion::TARGET_SHARE_MIN;
use super::document::Table;
use super::ranking::{Pair, pairs, ranked};
use super::summary::{Experiment, Group, Summary};
use crate::number::{
    bytes, count, detectable_ratio, interval, of_name, percent, plain, probability, ratio,
};
use crate::reference::{Reference, Wanted};
use crate::results::{HOST, LOST_ROWS, PROCESSED_ROWS_PER_S, is_server};
use crate::samples::{ALL, Measure, PERCENTILES, Repetition, Usage, percentile_ms};
use crate::statistics::{mean as average, quantile, trend};

/// When an acknowledged write of a store is on disk, in words.
pub fn durability(summary: &Summary, store: &str) -> String {
    let known = summary.run.stores.iter().find(|known| known.label == store);
    match known.map(|known| &known.durability) {
        Some(Some(promise)) => promise.to_string(),
        Some(None) => "not known".into(),
        None => String::new(),
    }
}

/// The stores of an experiment, best first.
pub fn ranking(experiment: &Experiment) -> Table {
    let measure = &experiment.measure;
    // A mean of lost rows is no number of rows that were lost.
    let counts_losses = *measure == Measure::Value(LOST_ROWS.into());
    let name = match counts_losses {
        true => "lost rows, the most in one repetition".to_owned(),
        false => measure.name(),
    };
    let mut table = Table::new(
        format!("{}: ranking by {name}", experiment.title),
        &["store", &name, "95% interval", PROCESSED, "relative to the best", "reached per second"],
    );
    for set in experiment.sets() {
        let all = ranked(set, measure);
        for entry in &all {
            let (group, found) = (entry.group, &entry.estimate);
            let rates = ranked(std::slice::from_ref(group), &Measure::Throughput);
            let reached = group.target_per_s.zip(rates.first()).map(|(target, rate)| {
                let missed = rate.estimate.mean < TARGET_SHARE_MIN * target;
                let note = if missed { " (overloaded)" } else { "" };
                format!("{}{note}", plain(rate.estimate.mean))
            });
            table.rows.push(vec![
                experiment.name_of(group),
                plain(match counts_losses {
                    true => entry.sample.iter().copied().fold(0.0, f64::max),
                    false => found.mean,
                }),
                found.interval.filter(|_| !counts_losses).map(interval).unwrap_or_default(),
                processed(group),
                match all.len() {
                    _ if counts_losses => String::new(),
                    1 => String::new(),
                    _ => ratio(found.mean / all[0].estimate.mean),
                },
                reached.unwrap_or_default(),
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
    table.compact()
}

/// What is needed to judge the numbers of the ranking.
pub fn background(summary: &Summary, experiment: &Experiment) -> Table {
    let measure = &experiment.measure;
    let mut table = Table::new(
        format!("{}: the trials behind the ranking", experiment.title),
        &[
            "store",
            "durability",
            "repetitions",
            "spread",
            "processors: servers",
            "processors: generator",
            match measure {
                Measure::Value(_) => "of it the generator's own",
                _ => "of the generator's limit",
            },
            "places in the run",
            "drift, p",
            "errors",
        ],
    );
    for entry in experiment.sets().into_iter().flat_map(|set| ranked(set, measure)) {
        let (group, found) = (entry.group, &entry.estimate);
        let errors: u64 = group.completed().map(Repetition::errors).sum();
        table.rows.push(vec![
            experiment.name_of(group),
            durability(summary, &group.store),
            found.count.to_string(),
            if found.count > 1 { percent(found.deviation) } else { String::new() },
            processors(group, is_server),
            processors(group, |process| !is_server(process) && process != HOST),
            match (experiment.share_of_limit(group), experiment.limit(group), measure) {
                (Some(share), Some(own), Measure::Value(_)) => {
                    format!("{} ({})", percent(share), plain(own))
                }
                (Some(share), Some(limit), _) => format!("{} of {}", percent(share), plain(limit)),
                (_, _, Measure::Rows) => "unknown".into(),
                _ if !experiment.limits.is_empty() => "unknown".into(),
                _ => String::new(),
            },
            places(group),
            trend(&entry.sample).map(|found| probability(found.p)).unwrap_or_default(),
            if errors > 0 { count(errors) } else { String::new() },
        ]);
    }
    table.compact()
}

/// The column of [`processed`].
const PROCESSED: &str = "until parsed and sealed";

/// Rows a second until the last one was processed, where a trial lasts until all are visible.
fn processed(group: &Group) -> String {
    let measure = Measure::Value(PROCESSED_ROWS_PER_S.to_owned());
    let all = ranked(std::slice::from_ref(group), &measure);
    all.first().map(|entry| plain(entry.estimate.mean)).unwrap_or_default()
}

/// Processors that these processes used, mean of the repetitions.
fn processors(group: &Group, whose: fn(&str) -> bool) -> String {
    let used = group.completed().filter_map(|trial| {
        let those = trial.usage.iter().filter(|(process, _)| whose(process));
        let used: Vec<f64> = those.filter_map(|(_, usage)| usage.cpu_mean(trial.seconds)).collect();
        (!used.is_empty()).then(|| used.iter().sum())
    });
    let used: Vec<f64> = used.collect();
    average(&used).map(|mean| format!("{mean:.2}")).unwrap_or_default()
}

/// The positions of the repetitions of a group in the whole run.
fn places(group: &Group) -> String {
    let places = group.completed().map(|trial| trial.order.to_string());
    places.collect::<Vec<_>>().join(" ")
}

/// The tests of all pairs.
pub fn tests(experiment: &Experiment) -> Table {
    let pairs = pairs(experiment);
    let row = |pair: &Pair<'_>| {
        let mut row = vec![format!(
            "{} – {}",
            experiment.name_of(pair.first.group),
            experiment.name_of(pair.second.group)
        )];
        let alpha = crate::statistics::SIGNIFICANCE / pairs.len() as f64;
        match &pair.test {
            Some(test) => row.extend([
                ratio(test.ratio),
                interval(test.interval),
                test.pairs.map_or("no".into(), |pairs| pairs.to_string()),
                plain(test.t),
                plain(test.freedom),
                probability(test.p),
                probability(pair.p_adjusted.unwrap_or(1.0)),
                detectable_ratio(test.detectable(alpha)),
            ]),
            None => row.extend(vec![String::new(); 8]),
        }
        row.push(pair.verdict().into());
        row
    };
    let mut table = Table::new(
        format!("{}: every pair, by {}", experiment.title, experiment.measure.name()),
        &[
            "pair",
            "first / second",
            "95% interval",
            "pairs",
            "t",
            "degrees of freedom",
            "p",
            "p after Holm",
            "smallest detectable",
            "verdict",
        ],
    );
    if pairs.iter().any(|pair| pair.test.is_some()) {
        table.rows = pairs.iter().map(row).collect();
    }
    table
}

/// The labels of an experiment that have a table of their own, with [`ALL`] last.
pub fn latency_labels(experiment: &Experiment) -> Vec<String> {
    let mut labels: Vec<String> = Vec::new();
    for label in experiment.groups.iter().flat_map(|group| group.histograms.keys()) {
        if !labels.contains(label) {
            labels.push(label.clone());
        }
    }
    labels.sort_by_key(|label| (label == ALL, label.clone()));
    let ranked_already = |label: &String| {
        matches!(&experiment.measure, Measure::Latency(of)
            if of == label || experiment.groups[0].labels().len() < 2)
    };
    labels.retain(|label| !ranked_already(label));
    labels
}

/// Rate and latency of one operation.
pub fn operations(experiment: &Experiment, label: &str) -> Table {
    let measure = Measure::Latency(label.to_owned());
    let mut table = Table::new(
        format!("{}: mean latency of {label} by repetition", experiment.title),
        &["store", "mean latency, ms", "95% interval", "median of repetitions", "per second"],
    );
    for set in experiment.sets() {
        for entry in ranked(set, &measure) {
            let rates: Vec<f64> =
                entry.group.completed().filter_map(|trial| trial.rate(label)).collect();
            let found = &entry.estimate;
            table.rows.push(vec![
                experiment.name_of(entry.group),
                plain(found.mean),
                found.interval.map(interval).unwrap_or_default(),
                quantile(&entry.sample, 0.5).map(plain).unwrap_or_default(),
                average(&rates).map(plain).unwrap_or_default(),
            ]);
        }
    }
    table.compact()
}

/// Percentiles of all operations of all repetitions.
pub fn percentiles(experiment: &Experiment, reference: Option<&Reference>) -> Table {
    let names: Vec<String> = PERCENTILES.iter().map(|p| format!("{p}%")).collect();
    let mut head = vec!["store and operation", "operations", "mean"];
    head.extend(names.iter().map(String::as_str));
    let mut table = Table::new(
        format!("{}: response times of all repetitions together, ms", experiment.title),
        &head,
    );
    for group in &experiment.groups {
        for (label, latencies) in &group.histograms {
            if latencies.is_empty() {
                continue;
            }
            let name = experiment.name_of(group);
            let at = |p: &f64| percentile_ms(latencies, *p).map(plain).unwrap_or_default();
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
pub fn values(experiment: &Experiment) -> Table {
    let mut names: Vec<&String> = Vec::new();
    let trials = experiment.groups.iter().flat_map(|group| group.completed());
    for name in trials.flat_map(|trial| trial.values.keys()) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names.sort();
    // Before the flush a size says only how much the store still holds in memory.
    names.retain(|name| !name.ends_with("_bytes_visible"));
    let mut table = Table::new(
        format!("{}: further measures", experiment.title),
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
    table.compact()
}

/// Resources of servers and generator, means over repetitions.
pub fn resources(experiment: &Experiment, summary: &Summary) -> Table {
    let mut table = Table::new(
        format!(
            "{}: resources, means of repetitions; the machine of the generator has {} logical processors",
            experiment.title, summary.run.machine.cores
        ),
        &[
            "store and process",
            "processors, mean",
            "processors, peak second",
            "processor time for 1,000 operations, s",
            "memory, peak",
            "read from the disks",
            "written to the disks",
            "network",
        ],
    );
    for group in &experiment.groups {
        let name = experiment.name_of(group);
        let mut processes: Vec<&String> =
            group.completed().flat_map(|trial| trial.usage.keys()).collect();
        processes.sort_by_key(|process| (*process == HOST, !is_server(process), *process));
        processes.dedup();
        for process in processes {
            let used: Vec<(&Usage, &Repetition, u64)> = group
                .completed()
                .filter_map(|trial| {
                    Some((trial.usage.get(process)?, trial, trial.labels.get(ALL)?.count))
                })
                .collect();
            let mean = |of: &dyn Fn(&Usage) -> f64| {
                let each: Vec<f64> = used.iter().map(|(usage, ..)| of(usage)).collect();
                average(&each).unwrap_or(0.0)
            };
            let busy: Vec<f64> =
                used.iter().filter_map(|(usage, trial, _)| usage.cpu_mean(trial.seconds)).collect();
            let operations: u64 = used.iter().map(|(.., operations)| operations).sum();
            let cpu_s: f64 = used.iter().map(|(usage, ..)| usage.cpu_s).sum();
            // The kernel counts for a process the bytes that it handed to the page cache: data that
            // is overwritten before it is written counts twice, and direct writes of some file
            // systems not at all. Only the counters of the disks say what was read and written.
            let disks = |value: f64| match process == HOST {
                true => bytes(value),
                false => String::new(),
            };
            let network = mean(&|usage| usage.network_bytes as f64);
            table.rows.push(vec![
                format!("{name}: {process}"),
                average(&busy)
                    .map(|mean| plain((mean * 100.0).round() / 100.0))
                    .unwrap_or_default(),
                match used.iter().all(|(_, trial, _)| trial.seconds >= 1.0) {
                    true => plain(mean(&|usage| usage.cpu.iter().copied().fold(0.0, f64::max))),
                    false => String::new(),
                },
                plain(cpu_s * 1000.0 / operations.max(1) as f64),
                bytes(mean(&|usage| usage.memory_bytes_peak as f64)),
                disks(mean(&|usage| usage.disk_read_bytes as f64)),
                disks(mean(&|usage| usage.disk_write_bytes as f64)),
                if network > 0.0 { bytes(network) } else { String::new() },
            ]);
        }
    }
    table.compact()
}
