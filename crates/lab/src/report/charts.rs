//! The charts of an experiment, and the data of each.

use super::document::{Axis, Boxed, Data, Document, Point, Series};
use super::ranking::ranked;
use super::summary::{ALL, Experiment, GENERATOR, Group, HOST, Measure, Second, Usage};
use crate::statistics::{box_plot, estimate};

fn line(name: String, points: impl Iterator<Item = (f64, f64)>) -> Series {
    Series { name, points: points.map(|(x, y)| Point { x, y, interval: None }).collect() }
}

/// Rate against threads, if threads were started one after another (figures 4.1 to 4.3 of the 2015
/// study).
pub fn saturation(document: &mut Document, experiment: &Experiment) {
    if experiment.measure != Measure::Peak {
        return;
    }
    let by_threads = |value: fn(&Second) -> Option<f64>| {
        let of_group = |group: &Group| {
            let mut sums: std::collections::BTreeMap<u32, (f64, u32)> = Default::default();
            // The last second is usually incomplete; after the ramp threads only end, which is
            // another state of the store.
            for trial in group.completed() {
                let peak = trial.series.iter().map(|second| second.threads).max().unwrap_or(0);
                let rising =
                    trial.series.iter().position(|second| second.threads == peak).unwrap_or(0);
                let end = (rising + 1).min(trial.series.len().saturating_sub(1).max(1));
                for second in trial.series.iter().take(end) {
                    if let (true, Some(value)) = (second.threads > 0, value(second)) {
                        let sum = sums.entry(second.threads).or_default();
                        *sum = (sum.0 + value, sum.1 + 1);
                    }
                }
            }
            let means = sums
                .into_iter()
                .map(|(threads, (sum, n))| (f64::from(threads), sum / f64::from(n)));
            line(experiment.name_of(group), means)
        };
        experiment.groups.iter().map(of_group).collect::<Vec<Series>>()
    };
    document.chart(
        "Saturation: operations per second against threads while threads are started",
        Data::Lines {
            x: Axis::linear("threads"),
            y: Axis::linear("operations per second"),
            series: by_threads(|second| Some(second.count as f64)),
        },
    );
    document.chart(
        "Saturation: mean latency against threads while threads are started",
        Data::Lines {
            x: Axis::linear("threads"),
            y: Axis::linear("mean latency, ms"),
            series: by_threads(|second| second.mean_ms),
        },
    );
}

/// Box plots of the measure (figures 4.4, 4.9, 4.16 to 4.19), and of each operation if its latency
/// is measured (4.13 to 4.16).
pub fn boxes(document: &mut Document, experiment: &Experiment) {
    let boxed = |measure: &Measure, title: &dyn Fn(&Group) -> String| -> Vec<Boxed> {
        let one = |group: &Group| {
            let sample = group.sample(measure);
            if sample.len() < 2 {
                return None;
            }
            Some(Boxed { name: title(group), plot: box_plot(&sample)?, mean: estimate(&sample)? })
        };
        experiment.groups.iter().filter_map(one).collect()
    };
    let axis = |boxes: &[Boxed], label: String| {
        let low = boxes
            .iter()
            .flat_map(|b| b.plot.outliers.first().copied().into_iter().chain([b.plot.whisker_low]));
        let high = boxes.iter().map(|b| b.plot.whisker_high);
        let (low, high) = (low.fold(f64::INFINITY, f64::min), high.fold(0.0, f64::max));
        // A box of 10 ms beside one of 1,500 ms would be a line.
        Axis { label, log: low > 0.0 && high / low > 20.0 }
    };
    let measure = &experiment.measure;
    let boxes = boxed(measure, &|group| experiment.name_of(group));
    let axis_of = axis(&boxes, measure.name());
    document.chart(
        format!("Box plots over the repetitions: {}", measure.name()),
        Data::Boxes { axis: axis_of, boxes },
    );
    if !matches!(measure, Measure::Latency(_) | Measure::Value(_)) || experiment.has_targets() {
        return;
    }
    let mut by_label = Vec::new();
    let labels: Vec<&str> = experiment.groups.first().map(Group::labels).unwrap_or_default();
    if labels.len() < 2 {
        return;
    }
    for group in &experiment.groups {
        for label in &labels {
            let measure = Measure::Latency((*label).to_owned());
            let only = |other: &Group| format!("{}: {label}", experiment.name_of(other));
            by_label.extend(boxed(&measure, &only).into_iter().filter(|b| b.name == only(group)));
        }
    }
    let axis_of = axis(&by_label, "mean latency, ms".into());
    document.chart(
        "Box plots over the repetitions, by operation",
        Data::Boxes { axis: axis_of, boxes: by_label },
    );
}

/// The measure against the size of the cluster.
pub fn sizes(document: &mut Document, experiment: &Experiment) {
    if !experiment.has_sizes() {
        return;
    }
    let series = by(experiment, &experiment.measure, |group| Some(f64::from(group.nodes)));
    document.chart(
        format!("Cluster size: {} against nodes, with 95% intervals", experiment.measure.name()),
        Data::Lines {
            x: Axis::linear("nodes"),
            y: Axis::linear(&experiment.measure.name()),
            series,
        },
    );
}

/// Achieved rate and latency against the target rate.
pub fn targets(document: &mut Document, experiment: &Experiment) {
    if !experiment.has_targets() {
        return;
    }
    let x = || Axis::linear("rate asked for, operations per second");
    document.chart(
        "Rate reached against the rate asked for, with 95% intervals",
        Data::Lines {
            x: x(),
            y: Axis::linear("operations per second"),
            series: by(experiment, &Measure::Throughput, |group| group.target_per_s),
        },
    );
    let mut labels: Vec<&str> = experiment.groups.iter().flat_map(Group::labels).collect();
    labels.sort_unstable();
    labels.dedup();
    if labels.len() < 2 {
        labels = vec![ALL];
    }
    for label in labels {
        document.chart(
            format!(
                "Mean latency of {label} operations against the rate asked for, with 95% intervals"
            ),
            Data::Lines {
                x: x(),
                y: Axis::log("mean latency, ms"),
                series: by(experiment, &Measure::Latency(label.into()), |group| group.target_per_s),
            },
        );
    }
}

/// One line per store: the mean of a measure against a property of the group.
fn by(experiment: &Experiment, measure: &Measure, x: fn(&Group) -> Option<f64>) -> Vec<Series> {
    let mut series: Vec<Series> = Vec::new();
    for group in &experiment.groups {
        let found = ranked(std::slice::from_ref(group), measure).pop().map(|found| found.estimate);
        let (Some(x), Some(found)) = (x(group), found) else { continue };
        let point = Point { x, y: found.mean, interval: found.interval };
        match series.iter_mut().find(|series| series.name == group.store) {
            Some(known) => known.points.push(point),
            None => series.push(Series { name: group.store.clone(), points: vec![point] }),
        }
    }
    for series in &mut series {
        series.points.sort_by(|a, b| a.x.total_cmp(&b.x));
    }
    series
}

/// Bins of a histogram per factor of ten.
const BINS_PER_DECADE: f64 = 20.0;

/// Histograms of response times (figures 4.5 to 4.8, 4.10 to 4.12).
pub fn histograms(document: &mut Document, experiment: &Experiment) {
    let mut labels: Vec<&str> = experiment.groups.iter().flat_map(Group::labels).collect();
    labels.sort_unstable();
    labels.dedup();
    for label in labels {
        let of_group = |group: &Group| {
            let latencies = group.histogram(label)?;
            let total = latencies.len() as f64;
            let mut bins: std::collections::BTreeMap<i64, u64> = Default::default();
            for value in latencies.iter_recorded() {
                let us = value.value_iterated_to().max(1) as f64;
                *bins.entry((us.log10() * BINS_PER_DECADE).floor() as i64).or_default() +=
                    value.count_since_last_iteration();
            }
            let (first, last) = (*bins.keys().next()?, *bins.keys().next_back()?);
            let share = |bin: i64| bins.get(&bin).copied().unwrap_or(0) as f64 / total * 100.0;
            let middle = |bin: i64| 10_f64.powf((bin as f64 + 0.5) / BINS_PER_DECADE) / 1000.0;
            Some(line(
                experiment.name_of(group),
                (first - 1..=last + 1).map(|bin| (middle(bin), share(bin))),
            ))
        };
        document.chart(
            format!("Histogram of response times of {label}, all repetitions together"),
            Data::Lines {
                x: Axis::log("response time, ms"),
                y: Axis::linear("share of operations, %"),
                series: experiment.shown().into_iter().filter_map(of_group).collect(),
            },
        );
    }
}

/// Operations, latency, errors and threads per second.
pub fn series(document: &mut Document, experiment: &Experiment) {
    let of = |value: fn(&Second) -> Option<f64>| -> Vec<Series> {
        let groups = experiment.shown().into_iter();
        let typical = groups.filter_map(|group| Some((group, group.typical(&experiment.measure)?)));
        typical
            .map(|(group, trial)| {
                let seconds = trial.series.iter().enumerate();
                let points = seconds.filter_map(|(at, second)| Some((at as f64, value(second)?)));
                line(experiment.name_of(group), points)
            })
            .collect()
    };
    let longest = experiment
        .groups
        .iter()
        .filter_map(|group| Some(group.typical(&experiment.measure)?.series.len()))
        .max();
    if longest.unwrap_or(0) < 3 {
        return;
    }
    let mut add = |caption: &str, unit: &str, series: Vec<Series>| {
        let data = Data::Lines { x: Axis::linear("second"), y: Axis::linear(unit), series };
        document.chart(caption, data);
    };
    add("Operations in each second", "operations", of(|second| Some(second.count as f64)));
    add("Mean latency in each second", "ms", of(|second| second.mean_ms));
    let failing = of(|second| Some(second.errors as f64));
    if failing.iter().any(|series| series.points.iter().any(|point| point.y > 0.0)) {
        add("Errors in each second", "errors", failing);
    }
    let threads = of(|second| Some(f64::from(second.threads)));
    let vary = |series: &Series| series.points.iter().any(|point| point.y != series.points[0].y);
    if threads.iter().any(vary) {
        add("Threads at work in each second", "threads", threads);
    }
}

/// Resources of servers per second, and separately of the generator; the network is counted per
/// machine.
pub fn resources(document: &mut Document, experiment: &Experiment) {
    let of = |whose: fn(&str) -> bool, value: fn(&Usage) -> Vec<f64>| -> Vec<Series> {
        let mut series = Vec::new();
        for group in experiment.shown() {
            let Some(trial) = group.typical(&experiment.measure) else { continue };
            for (_, usage) in trial.usage.iter().filter(|(process, _)| whose(process)) {
                let values = value(usage);
                if values.len() >= 3 && values.iter().any(|value| *value > 0.0) {
                    let points = values.into_iter().enumerate().map(|(at, y)| (at as f64, y));
                    series.push(line(experiment.name_of(group), points));
                }
            }
        }
        series
    };
    let mut add = |caption: &str, unit: &str, series: Vec<Series>| {
        let (x, y) = (Axis::linear("second"), Axis::linear(unit));
        document.chart(caption, Data::Lines { x, y, series });
    };
    let server = |process: &str| process != HOST && process != GENERATOR;
    let cpu = |usage: &Usage| usage.cpu.clone();
    add("Processors in use by the servers", "processors", of(server, cpu));
    add(
        "Processors in use by the generator",
        "processors",
        of(|process| process == GENERATOR, cpu),
    );
    let memory = |usage: &Usage| megabytes(&usage.memory_bytes);
    add("Memory of the servers", "MB", of(server, memory));
    let disk = |usage: &Usage| megabytes(&usage.disk_bytes);
    add("Read and written by the servers on disk in each second", "MB", of(server, disk));
    let network = |usage: &Usage| megabytes(&usage.network_bytes_each);
    add("Network of the machine in each second", "MB", of(|process| process == HOST, network));
}

fn megabytes(bytes: &[u64]) -> Vec<f64> {
    bytes.iter().map(|bytes| *bytes as f64 / 1e6).collect()
}
