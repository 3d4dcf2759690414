//! Several runs of the same queries on different amounts of lines: how the time of each kind of
//! query grows, what it is at a larger amount, and, only where all kinds of a store can be carried
//! on, what a month of lines costs.
//!
//! A kind is carried on if its times lie on a line of logarithms, as far as repetitions tell, and
//! if the interval at the larger amount is no wider than a factor. A store that answers from memory
//! at one amount and reads its disk at the next has kinds that do not.

use std::path::{Path, PathBuf};

use super::document::{Axis, Block, Document, Panel, PanelData, Point, Series, Table};
use super::summary::{Experiment, Group, Summary};
use super::{ReportError, html, markdown, read, write_file};
use crate::number::{bytes as bytes_in_words, interval, plain, probability};
use crate::results::WRITTEN_TEXT_BYTES;
use crate::samples::Repetition;
use crate::statistics::{Line, SIGNIFICANCE, geometric, line, mean};

/// An interval that is wider says nothing.
const FACTOR_MAX: f64 = 10.0;

const GIGABYTE: f64 = 1e9;

/// What is asked of the runs.
#[derive(Debug, Clone)]
pub struct Asked {
    /// The amount of lines to which times are carried on, bytes.
    pub bytes: f64,
    /// The memory of the servers as a share of the lines; 0 if it was not limited.
    pub memory_share: f64,
    /// For a bill.
    pub prices: Option<Prices>,
}

/// Prices, in any currency.
#[derive(Debug, Clone, Copy)]
pub struct Prices {
    /// Of a processor for an hour.
    pub processor_hour: f64,
    /// Of a gigabyte of disk for a month.
    pub disk_gigabyte_month: f64,
    /// Of a gigabyte of memory for a month.
    pub memory_gigabyte_month: f64,
}

/// Reads the runs of `directories`, and writes report.html and report.md into `out`.
pub fn write(
    directories: &[PathBuf],
    asked: &Asked,
    out: &Path,
) -> Result<Vec<PathBuf>, ReportError> {
    let runs = directories.iter().map(|directory| read(directory));
    let runs: Vec<Summary> = runs.collect::<Result<_, _>>()?;
    let document = document(&runs, asked);
    let texts =
        [("report.html", html::write(&document)), ("report.md", markdown::write(&document.page()))];
    texts.into_iter().map(|(name, text)| write_file(out.join(name), &text)).collect()
}

/// A run: its lines, and its trials.
struct Measured<'a> {
    bytes: f64,
    summary: &'a Summary,
}

/// How a kind of query of a store grows.
struct Growth<'a> {
    store: &'a str,
    /// Mean time at each amount, ms; none where it has no number.
    times: Vec<Option<f64>>,
    line: Option<Line>,
}

/// The report over runs, which are in the order of their amounts.
pub fn document(runs: &[Summary], asked: &Asked) -> Document {
    let runs: Vec<Measured<'_>> = runs
        .iter()
        .filter_map(|summary| Some(Measured { bytes: loaded_bytes(summary)?, summary }))
        .collect();
    let mut document =
        Document { title: "Queries on several amounts of lines".into(), ..Document::default() };
    let Some(last) = runs.last() else {
        document.text("No lines were loaded: there is nothing to compare.");
        return document;
    };
    let amounts: Vec<String> = runs.iter().map(|run| bytes_in_words(run.bytes)).collect();
    document.text(format!(
        "{}, on {} of lines; {}, {} logical processors, {}; loginson-lab {}.",
        last.summary.run.study,
        amounts.join(", "),
        last.summary.run.machine.processor,
        last.summary.run.machine.cores,
        bytes_in_words(last.summary.run.machine.memory_bytes as f64),
        last.summary.run.lab_version
    ));
    let kinds: Vec<(&Experiment, Vec<Growth<'_>>)> = last
        .summary
        .experiments
        .iter()
        .filter(|experiment| !experiment.prepares)
        .map(|experiment| (experiment, growths(&runs, experiment)))
        .collect();
    document.heading("Verdicts");
    bill(&mut document, &kinds, last, asked);
    document.heading("Methods");
    document.list(methods(asked));
    document.heading("Data");
    for (experiment, growths) in &kinds {
        document.blocks.push(Block::Heading(3, experiment.title.clone()));
        document.table(table(experiment, growths, &amounts, asked));
        let names = growths.iter().map(|growth| growth.store.to_owned()).enumerate().collect();
        document.figure(experiment.title.clone(), names, vec![panel(&runs, growths)]);
    }
    document.table(memory(&runs, &amounts));
    document
}

/// Bytes of text that were loaded.
fn loaded_bytes(summary: &Summary) -> Option<f64> {
    let loads = summary.experiments.iter().filter(|experiment| experiment.prepares);
    let mut trials = loads.flat_map(|e| &e.groups).flat_map(Group::completed);
    trials.find_map(|trial| trial.values.get(WRITTEN_TEXT_BYTES).copied())
}

fn growths<'a>(runs: &[Measured<'_>], experiment: &'a Experiment) -> Vec<Growth<'a>> {
    let growth = |group: &'a Group| {
        let sample = |run: &Measured<'_>| -> Vec<f64> {
            let same =
                run.summary.experiments.iter().find(|e| !e.prepares && e.name == experiment.name);
            let group = same.and_then(|e| e.groups.iter().find(|other| other.store == group.store));
            group.map(|group| group.sample(&experiment.measure)).unwrap_or_default()
        };
        let samples: Vec<Vec<f64>> = runs.iter().map(sample).collect();
        let times = samples.iter().map(|sample| Some(geometric(sample)?.mean)).collect();
        let logs = |sample: &Vec<f64>| sample.iter().map(|ms| ms.ln()).collect::<Vec<f64>>();
        let points: Vec<(f64, Vec<f64>)> =
            runs.iter().zip(&samples).map(|(run, sample)| (run.bytes.ln(), logs(sample))).collect();
        let is_whole = samples.iter().flatten().all(|ms| *ms > 0.0);
        Growth { store: &group.store, times, line: line(&points).filter(|_| is_whole) }
    };
    experiment.groups.iter().map(growth).collect()
}

impl Growth<'_> {
    /// The time at this amount with its interval, ms, or why it is not known.
    fn at(&self, bytes: f64) -> Result<(f64, (f64, f64)), &'static str> {
        if self.times.iter().any(Option::is_none) {
            return Err("not measured at every amount");
        }
        let line = self.line.as_ref().ok_or("too few repetitions or amounts")?;
        if line.p < SIGNIFICANCE {
            return Err("not on a line");
        }
        let (time, (low, high)) = line.at(bytes.ln());
        match high - low <= FACTOR_MAX.ln() {
            true => Ok((time.exp(), (low.exp(), high.exp()))),
            false => Err("too uncertain"),
        }
    }
}

fn table(
    experiment: &Experiment,
    growths: &[Growth<'_>],
    amounts: &[String],
    asked: &Asked,
) -> Table {
    let unit = experiment.measure.name();
    let mut head = vec!["store"];
    head.extend(amounts.iter().map(String::as_str));
    let at = format!("at {}", bytes_in_words(asked.bytes));
    head.extend([
        "grows with the power",
        "95% interval of it",
        "on a line, p",
        &at,
        "95% interval",
    ]);
    let mut table = Table::new(format!("{}: {unit}, by amount of lines", experiment.title), &head);
    for growth in growths {
        let mut row = vec![growth.store.to_owned()];
        row.extend(growth.times.iter().map(|time| time.map(plain).unwrap_or_default()));
        row.extend(match &growth.line {
            Some(line) => [plain(line.slope), interval(line.slope_interval), probability(line.p)],
            None => Default::default(),
        });
        row.extend(match growth.at(asked.bytes) {
            Ok((time, ends)) => [plain(time), interval(ends)],
            Err(why) => [why.to_owned(), String::new()],
        });
        table.rows.push(row);
    }
    table
}

fn panel(runs: &[Measured<'_>], growths: &[Growth<'_>]) -> Panel {
    let series = growths.iter().enumerate().map(|(colour, growth)| {
        let points = runs.iter().zip(&growth.times).filter_map(|(run, time)| {
            Some(Point { x: run.bytes / GIGABYTE, y: (*time)?, interval: None })
        });
        Series { name: growth.store.to_owned(), colour, points: points.collect() }
    });
    let (x, y) = (Axis::log("gigabytes of lines"), Axis::log("mean latency, ms"));
    Panel {
        title: "Time by amount of lines".into(),
        data: PanelData::Lines { x, y, series: series.collect() },
    }
}

/// The memory that each store was limited to, by its configuration.
fn memory(runs: &[Measured<'_>], amounts: &[String]) -> Table {
    let mut head = vec!["store"];
    head.extend(amounts.iter().map(String::as_str));
    let mut table = Table::new("Limits of memory, with the page cache", &head);
    let stores = runs.last().map(|run| &run.summary.run.stores);
    for store in stores.into_iter().flatten() {
        let limit = |run: &Measured<'_>| {
            let same = run.summary.run.stores.iter().find(|other| other.label == store.label);
            let mut lines = same.map(|same| same.configuration.iter()).into_iter().flatten();
            lines.find_map(|line| line.strip_prefix("memory: ")).unwrap_or("none").to_owned()
        };
        table.rows.push([store.label.clone()].into_iter().chain(runs.iter().map(limit)).collect());
    }
    table
}

/// What a store needs for the asked amount.
struct Needs {
    processor_hours: f64,
    disk_gigabytes: f64,
    memory_gigabytes: f64,
}

/// By the loading at the largest amount; none if it was not measured.
fn needs(largest: &Measured<'_>, store: &str, asked: &Asked) -> Option<Needs> {
    let loads = largest.summary.experiments.iter().filter(|experiment| experiment.prepares);
    let mut groups = loads.flat_map(|e| &e.groups).filter(|group| group.store == store);
    let trials: Vec<&Repetition> = groups.next()?.completed().collect();
    let share = |of: &dyn Fn(&Repetition) -> Option<f64>| {
        let each = trials
            .iter()
            .filter_map(|trial| Some(of(trial)? / trial.values.get(WRITTEN_TEXT_BYTES)?));
        mean(&each.collect::<Vec<f64>>())
    };
    let value = |trial: &Repetition, name: &str| trial.values.get(name).copied();
    let cpu_s_per_byte = share(&|trial| {
        let settled = ["visible", "flushed", "compacted"]
            .iter()
            .filter_map(|until| value(trial, &format!("settle_cpu_s_{until}")));
        Some(trial.usage.get(store)?.cpu_s + settled.sum::<f64>())
    })?;
    let disk = share(&|trial| {
        value(trial, "table_bytes_compacted").or_else(|| value(trial, "table_bytes_flushed"))
    })?;
    Some(Needs {
        processor_hours: cpu_s_per_byte * asked.bytes / 3600.0,
        disk_gigabytes: disk * asked.bytes / GIGABYTE,
        memory_gigabytes: asked.memory_share * asked.bytes / GIGABYTE,
    })
}

/// What the asked amount costs, of stores whose kinds can all be carried on.
fn bill(
    document: &mut Document,
    kinds: &[(&Experiment, Vec<Growth<'_>>)],
    largest: &Measured<'_>,
    asked: &Asked,
) {
    let amount = bytes_in_words(asked.bytes);
    let mut table = Table::new(
        format!("What {amount} of lines need, in a month in which they are written once and kept"),
        &[
            "store",
            "processor-hours to write",
            "disk, GB",
            "memory, GB",
            "slowest kind of query",
            "bill",
        ],
    );
    let mut refused = Vec::new();
    let stores: Vec<&str> = largest.summary.run.stores.iter().map(|store| &*store.label).collect();
    for store in stores {
        let of_store = kinds.iter().filter_map(|(experiment, growths)| {
            Some((*experiment, growths.iter().find(|growth| growth.store == store)?))
        });
        let of_store: Vec<(&Experiment, &Growth<'_>)> = of_store.collect();
        let supported = of_store.iter().filter(|(_, g)| g.times.iter().any(Option::is_some));
        let mut slowest: Option<(f64, (f64, f64), &str)> = None;
        let mut faults: Vec<String> = Vec::new();
        for (experiment, growth) in supported {
            match growth.at(asked.bytes) {
                Ok((time, ends)) if slowest.is_none_or(|(known, ..)| time > known) => {
                    slowest = Some((time, ends, experiment.title.as_str()));
                }
                Ok(_) => {}
                Err(why) => faults.push(format!("{} ({why})", experiment.title)),
            }
        }
        let (Some(needs), Some((time, ends, kind)), true) =
            (needs(largest, store, asked), slowest, faults.is_empty())
        else {
            let why = match faults.is_empty() {
                true => "its loading or its queries were not measured".to_owned(),
                false => format!("what cannot be carried on: {}", faults.join(", ")),
            };
            refused.push(format!("No bill for {store}: {why}."));
            continue;
        };
        table.rows.push(vec![
            store.to_owned(),
            plain(needs.processor_hours),
            plain(needs.disk_gigabytes),
            if needs.memory_gigabytes > 0.0 {
                plain(needs.memory_gigabytes)
            } else {
                "not limited".into()
            },
            format!("{kind}: {} ms ({} to {})", plain(time), plain(ends.0), plain(ends.1)),
            match asked.prices {
                None => "no prices".into(),
                Some(_) if needs.memory_gigabytes == 0.0 => {
                    "no bill: memory was not limited".into()
                }
                Some(prices) => plain(
                    needs.processor_hours * prices.processor_hour
                        + needs.disk_gigabytes * prices.disk_gigabyte_month
                        + needs.memory_gigabytes * prices.memory_gigabyte_month,
                ),
            },
        ]);
    }
    if table.rows.is_empty() {
        document.text("There is no bill for any store: times of queries cannot be carried on.");
    }
    document.table(table);
    document.list(refused);
}

fn methods(asked: &Asked) -> Vec<String> {
    vec![
        match asked.memory_share {
            0.0 => "The memory of servers was not limited, so that times at small amounts may be those of data in memory.".into(),
            share => format!(
                "Servers had {} times the bytes of their lines as memory, with the page cache, by a control group, or the least with \
                 which they start (see the limits below): so the same share of the data fits into memory at every amount.",
                plain(share)
            ),
        },
        "For each kind of query and store a straight line is fitted to the logarithms of latency and amount, over all repetitions. Where \
         the F test for lack of fit has p below 0.05, the times do not lie on a line and are not carried on; nor are they where the 95% \
         interval at the larger amount is wider than tenfold."
            .into(),
        "The amounts were measured one after another, with one loading of data each: what differs between two loadings, or changed on \
         the machine meanwhile, is not in the intervals. An amount far beyond the largest one that was measured may meet limits that \
         none of them showed."
            .into(),
        "Processor-hours and disk are those of loading at the largest amount, in proportion; processor time of queries is not in them. \
         The bill has one copy of the data on one machine, without its spare capacity."
            .into(),
    ]
}
