//! The figures of a report, and the data of each: small panels beside one another.

use std::collections::BTreeMap;

use super::document::{Axis, Document, Panel, PanelData, Point, Row, Series};
use super::plot::COLOURS_MAX;
use super::ranking::ranked;
use super::summary::{Experiment, Group, Summary};
use crate::results::{HOST, is_server};
use crate::samples::{ALL, Measure, Second, Usage};
use crate::statistics::box_plot;

/// The colour of each store, in every figure of a report.
pub struct Colours<'a> {
    stores: Vec<&'a str>,
}

impl<'a> Colours<'a> {
    /// Of the stores of a run, in their order.
    pub fn of(summary: &'a Summary) -> Colours<'a> {
        let stores = summary.run.stores.iter();
        Colours { stores: stores.map(|store| store.label.as_str()).collect() }
    }

    fn number(&self, store: &str) -> usize {
        self.stores.iter().position(|known| *known == store).unwrap_or(self.stores.len())
    }

    fn legend(&self, experiment: &Experiment) -> Vec<(usize, String)> {
        let measured = |store: &str| experiment.groups.iter().any(|group| group.store == store);
        let stores = self.stores.iter().enumerate().filter(|(_, store)| measured(store));
        stores.map(|(number, store)| (number, (*store).to_owned())).collect()
    }
}

/// The figure of an experiment: the spread of repetitions, what depends on size, rate or threads,
/// the histogram of response times, and the seconds of the typical repetition.
pub fn experiment(document: &mut Document, experiment: &Experiment, colours: &Colours<'_>) {
    let mut panels = Vec::new();
    let chart = Chart { experiment, colours };
    if !experiment.has_targets() && !experiment.has_sizes() {
        panels.push(chart.boxes());
    }
    panels.extend(chart.saturation());
    panels.extend(chart.sizes());
    panels.extend(chart.targets());
    panels.extend(chart.histograms());
    panels.extend(chart.seconds());
    panels.extend(chart.resources());
    let typical = match experiment.groups.len() > experiment.shown().len() {
        true => " Histograms and seconds are those of the largest size and rate.",
        false => "",
    };
    document.figure(
        format!(
            "{}. Boxes are Tukey's over the repetitions, with the mean and its 95% interval; seconds are those of the \
             repetition with the median result, without the last, incomplete one.{typical}",
            experiment.title
        ),
        colours.legend(experiment),
        panels,
    );
}

/// A logarithmic axis where the values differ by more than this factor.
const LOG_FACTOR_MIN: f64 = 20.0;

fn value_axis(rows: &[Row], label: &str) -> Axis {
    let means = rows.iter().map(|row| row.mean);
    let (low, high) =
        means.fold((f64::INFINITY, 0.0_f64), |(low, high), mean| (low.min(mean), high.max(mean)));
    Axis { label: label.to_owned(), log: low > 0.0 && high / low > LOG_FACTOR_MIN }
}

/// Bins of a histogram per factor of ten.
const BINS_PER_DECADE: f64 = 15.0;

struct Chart<'a> {
    experiment: &'a Experiment,
    colours: &'a Colours<'a>,
}

impl Chart<'_> {
    fn line(&self, group: &Group, points: impl Iterator<Item = (f64, f64)>) -> Series {
        Series {
            name: group.store.clone(),
            colour: self.colours.number(&group.store),
            points: points.map(|(x, y)| Point { x, y, interval: None }).collect(),
        }
    }

    /// Box plots of the measure.
    fn boxes(&self) -> Panel {
        let measure = &self.experiment.measure;
        let all = ranked(&self.experiment.groups, measure);
        let rows = all.iter().map(|entry| Row {
            name: entry.group.store.clone(),
            colour: self.colours.number(&entry.group.store),
            mean: entry.estimate.mean,
            interval: entry.estimate.interval,
            plot: box_plot(&entry.sample).filter(|_| entry.sample.len() > 1),
        });
        let rows: Vec<Row> = rows.collect();
        let axis = value_axis(&rows, &measure.name());
        Panel { title: "Repetitions".into(), data: PanelData::Rows { axis, rows } }
    }

    /// Rate and latency against threads, if threads were started one after another (figures 4.1 to
    /// 4.3 of the 2015 study).
    fn saturation(&self) -> Vec<Panel> {
        if self.experiment.measure != Measure::Peak {
            return Vec::new();
        }
        let panel = |title: &str, unit: &str, value: fn(&Second) -> Option<f64>| {
            let of_group = |group: &Group| {
                let mut sums: BTreeMap<u32, (f64, u32)> = BTreeMap::new();
                // After the ramp threads only end, which is another state of the store.
                for trial in group.completed() {
                    let whole = trial.whole_seconds();
                    let peak = whole.iter().map(|second| second.threads).max().unwrap_or(0);
                    let rising = whole.iter().position(|second| second.threads == peak);
                    for second in &whole[..rising.map_or(0, |at| at + 1)] {
                        if let (true, Some(value)) = (second.threads > 0, value(second)) {
                            let sum = sums.entry(second.threads).or_default();
                            *sum = (sum.0 + value, sum.1 + 1);
                        }
                    }
                }
                let means = sums.into_iter();
                self.line(
                    group,
                    means.map(|(threads, (sum, n))| (threads.into(), sum / f64::from(n))),
                )
            };
            let series = self.experiment.groups.iter().map(of_group).collect();
            let (x, y) = (Axis::linear("threads"), Axis::linear(unit));
            Panel { title: title.into(), data: PanelData::Lines { x, y, series } }
        };
        vec![
            panel("Rate against threads", "operations per second", |s| Some(s.count as f64)),
            panel("Latency against threads", "mean latency, ms", |second| second.mean_ms),
        ]
    }

    /// The measure against the size of the cluster.
    fn sizes(&self) -> Option<Panel> {
        let measure = &self.experiment.measure;
        self.experiment.has_sizes().then(|| Panel {
            title: "Size of the cluster".into(),
            data: PanelData::Lines {
                x: Axis::linear("nodes"),
                y: Axis::linear(&measure.name()),
                series: self.by(measure, |group| Some(f64::from(group.nodes))),
            },
        })
    }

    /// Reached rate and latency against the target rate.
    fn targets(&self) -> Vec<Panel> {
        if !self.experiment.has_targets() {
            return Vec::new();
        }
        let panel = |title: String, y: Axis, measure: &Measure| Panel {
            title,
            data: PanelData::Lines {
                x: Axis::linear("scheduled per second"),
                y,
                series: self.by(measure, |group| group.target_per_s),
            },
        };
        let rate = Axis::linear("operations per second");
        let mut panels = vec![panel("Reached rate".into(), rate, &Measure::Throughput)];
        let mut labels = self.labels();
        if labels.len() < 2 {
            labels = vec![ALL];
        }
        panels.extend(labels.into_iter().map(|label| {
            let latency = Axis::log("mean latency, ms");
            panel(format!("Latency: {label}"), latency, &Measure::Latency(label.into()))
        }));
        panels
    }

    fn labels(&self) -> Vec<&str> {
        let mut labels: Vec<&str> = self.experiment.groups.iter().flat_map(Group::labels).collect();
        labels.sort_unstable();
        labels.dedup();
        labels
    }

    /// One line per store: the mean of a measure against a property of the group.
    fn by(&self, measure: &Measure, x: fn(&Group) -> Option<f64>) -> Vec<Series> {
        let mut series: Vec<Series> = Vec::new();
        for group in &self.experiment.groups {
            let found = ranked(std::slice::from_ref(group), measure).pop();
            let (Some(x), Some(found)) = (x(group), found) else { continue };
            let point = Point { x, y: found.estimate.mean, interval: found.estimate.interval };
            match series.iter_mut().find(|series| series.name == group.store) {
                Some(known) => known.points.push(point),
                None => series.push(Series {
                    name: group.store.clone(),
                    colour: self.colours.number(&group.store),
                    points: vec![point],
                }),
            }
        }
        for series in &mut series {
            series.points.sort_by(|a, b| a.x.total_cmp(&b.x));
        }
        series
    }

    /// Histograms of response times, all repetitions together (figures 4.5 to 4.8, 4.10 to 4.12).
    fn histograms(&self) -> Vec<Panel> {
        let panel = |label: &str| {
            let of_group = |group: &Group| {
                let latencies = group.histogram(label)?;
                let total = latencies.len() as f64;
                let mut bins: BTreeMap<i64, u64> = BTreeMap::new();
                for value in latencies.iter_recorded() {
                    let us = value.value_iterated_to().max(1) as f64;
                    *bins.entry((us.log10() * BINS_PER_DECADE).floor() as i64).or_default() +=
                        value.count_since_last_iteration();
                }
                let (first, last) = (*bins.keys().next()?, *bins.keys().next_back()?);
                let share = |bin: i64| bins.get(&bin).copied().unwrap_or(0) as f64 / total * 100.0;
                let middle = |bin: i64| 10_f64.powf((bin as f64 + 0.5) / BINS_PER_DECADE) / 1000.0;
                let points = (first - 1..=last + 1).map(|bin| (middle(bin), share(bin)));
                Some(self.line(group, points))
            };
            let series = self.experiment.shown().into_iter().filter_map(of_group).collect();
            let (x, y) = (Axis::log("response time, ms"), Axis::linear("operations, %"));
            Panel {
                title: format!("Response times: {label}"),
                data: PanelData::Lines { x, y, series },
            }
        };
        self.labels().into_iter().map(panel).collect()
    }

    /// Operations and latency of each second, and errors if there are any.
    fn seconds(&self) -> Vec<Panel> {
        let of = |value: fn(&Second) -> Option<f64>| -> Vec<Series> {
            let typical = |group: &Group| {
                let whole = group.typical(&self.experiment.measure)?.whole_seconds();
                let points = whole.iter().enumerate();
                let points = points.filter_map(|(at, second)| Some((at as f64, value(second)?)));
                (whole.len() >= SECONDS_MIN).then(|| self.line(group, points))
            };
            self.experiment.shown().into_iter().filter_map(typical).collect()
        };
        let mut panels = vec![
            by_second("Operations by second", "operations", of(|s| Some(s.count as f64))),
            by_second("Mean latency by second", "ms", of(|second| second.mean_ms)),
        ];
        let errors = of(|second| Some(second.errors as f64));
        if errors.iter().any(|series| series.points.iter().any(|point| point.y > 0.0)) {
            panels.push(by_second("Errors by second", "errors", errors));
        }
        panels
    }

    /// Processors, memory and disk of each second.
    fn resources(&self) -> Vec<Panel> {
        let of = |whose: fn(&str) -> bool, value: fn(&Usage) -> Vec<f64>| -> Vec<Series> {
            let mut series = Vec::new();
            for group in self.experiment.shown() {
                let Some(trial) = group.typical(&self.experiment.measure) else { continue };
                for (_, usage) in trial.usage.iter().filter(|(process, _)| whose(process)) {
                    let values = value(usage);
                    if values.len() >= SECONDS_MIN && values.iter().any(|value| *value > 0.0) {
                        let points = values.into_iter().enumerate();
                        series.push(self.line(group, points.map(|(at, y)| (at as f64, y))));
                    }
                }
            }
            series
        };
        let generator = |process: &str| !is_server(process) && process != HOST;
        let host = |process: &str| process == HOST;
        let cpu = |usage: &Usage| usage.cpu.clone();
        vec![
            by_second("Processors of the servers", "processors", of(is_server, cpu)),
            by_second("Processors of the generator", "processors", of(generator, cpu)),
            by_second(
                "Memory of the servers",
                "MB",
                of(is_server, |usage| megabytes(&usage.memory_bytes)),
            ),
            by_second(
                "Disks of the machine",
                "MB per second",
                of(host, |usage| megabytes(&usage.disk_bytes)),
            ),
        ]
    }
}

/// Shorter trials have no charts of seconds.
const SECONDS_MIN: usize = 3;

fn by_second(title: &str, unit: &str, series: Vec<Series>) -> Panel {
    let (x, y) = (Axis::linear("second"), Axis::linear(unit));
    Panel { title: title.into(), data: PanelData::Lines { x, y, series } }
}

fn megabytes(bytes: &[u64]) -> Vec<f64> {
    bytes.iter().map(|bytes| *bytes as f64 / 1e6).collect()
}

impl Experiment {
    /// The groups in charts of seconds and of single operations: all, or if there are too many to
    /// distinguish, for each store that of the largest cluster and the highest rate.
    pub fn shown(&self) -> Vec<&Group> {
        let target = |group: &Group| group.target_share.or(group.target_per_s).unwrap_or(0.0);
        let rank = |group: &Group| (group.nodes, target(group));
        let largest = |group: &&Group| {
            !self.groups.iter().any(|other| other.store == group.store && rank(other) > rank(group))
        };
        match self.groups.len() <= COLOURS_MAX && !self.has_sizes() && !self.has_targets() {
            true => self.groups.iter().collect(),
            false => self.groups.iter().filter(largest).collect(),
        }
    }
}
