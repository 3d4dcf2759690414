//! The numbers of the tables in docs/lab.md, recomputed from the published trials beside them, by
//! nothing of the lab's own statistics: only its histograms are decoded by its own code.

use std::collections::BTreeMap;
use std::path::Path;

use lab::histogram;
use lab::results::{Directory, Line, Outcome};
use lab::trial::{Role, Work};

/// The measure of a row of a table.
#[derive(Clone, Copy)]
enum Number {
    /// Operations per second.
    Rate,
    /// Rows per second, in thousands.
    ThousandRows,
    /// Mean latency of all operations, ms.
    Latency,
    /// Mean latency of a label, ms.
    LatencyOf(&'static str),
}
use Number::{Latency, LatencyOf, Rate, ThousandRows};

/// A row of a table of docs/lab.md: the study, the beginning of the row, its experiment, nodes and
/// target, and its number.
type Row = (&'static str, &'static str, &'static str, u32, Option<f64>, Number);

const ROWS: &[Row] = &[
    ("study1", "records written one by one, a second", "writes", 1, None, Rate),
    ("study1", "records read by their key, a second", "reads", 1, None, Rate),
    ("study1", "a count over history, ms", "history", 1, None, Latency),
    ("study1", "written one by one, a second, on one node", "cluster-writes", 1, None, Rate),
    ("study1", "on two nodes", "cluster-writes", 2, None, Rate),
    ("study1", "on three nodes", "cluster-writes", 3, None, Rate),
    ("apm", "95% reads by key, 5% inserts", "r", 1, None, Rate),
    ("apm", "half reads, half inserts, a second", "rw", 1, None, Rate),
    ("apm", "1% reads, 99% inserts", "w", 1, None, Rate),
    ("apm", "47% reads, 47% scans", "rs", 1, None, Rate),
    ("apm", "25% reads, 25% scans", "rsw", 1, None, Rate),
    ("apm", "measurements inserted one by one", "ingest", 1, None, Rate),
    ("apm", "the maximum of one metric", "online", 1, None, LatencyOf("max_10_min")),
    (
        "apm",
        "the average of a metric of many hosts in",
        "online",
        1,
        None,
        LatencyOf("average_15_min"),
    ),
    (
        "apm",
        "the average of one metric over",
        "historical",
        1,
        None,
        LatencyOf("average_of_metric"),
    ),
    (
        "apm",
        "the average of a metric of many hosts over",
        "historical",
        1,
        None,
        LatencyOf("average_of_type"),
    ),
    ("ycsb", "loading one by one, 300,000 records", "load-large", 1, None, Rate),
    ("ycsb", "A: half reads, half updates", "a", 1, Some(4_000.0), Latency),
    ("ycsb", "B: 95% reads", "b", 1, Some(4_000.0), Latency),
    ("ycsb", "C: reads only", "c", 1, Some(4_000.0), Latency),
    ("ycsb", "D: reads of the latest", "d", 1, Some(4_000.0), Latency),
    ("ycsb", "E: short scans, reached", "e", 1, Some(4_000.0), Rate),
    ("containers", "writes, 48 threads", "write-100", 1, None, Rate),
    ("containers", "reads, 48 threads", "read-100", 1, None, Rate),
    ("containers", "one write to three reads, 48 threads", "mixed-100", 1, None, Rate),
    ("containers", "writes, 16 threads", "write-66", 1, None, Rate),
    ("containers", "reads, 16 threads", "read-66", 1, None, Rate),
    ("containers", "one write to three reads, 16 threads", "mixed-66", 1, None, Rate),
    ("collectors", "64 |", "lines-64", 1, None, ThousandRows),
    ("collectors", "117 |", "lines-117", 1, None, ThousandRows),
    ("collectors", "291 |", "lines-291", 1, None, ThousandRows),
    ("collectors", "1,024 |", "lines-1024", 1, None, ThousandRows),
    ("collectors", "4,176 |", "lines-4176", 1, None, ThousandRows),
];

/// One measured trial.
struct Measured {
    experiment: String,
    store: String,
    nodes: u32,
    target_per_s: Option<f64>,
    seconds: f64,
    rows: f64,
    /// Answers, and the sum of their latencies in ms, by label.
    answers: BTreeMap<String, (f64, f64)>,
}

impl Measured {
    fn number(&self, number: Number) -> Option<f64> {
        let all = || self.answers.values().fold((0.0, 0.0), |a, b| (a.0 + b.0, a.1 + b.1));
        let mean = |(count, sum): (f64, f64)| (count > 0.0).then(|| sum / count);
        match number {
            Rate => Some(all().0 / self.seconds),
            ThousandRows => Some(self.rows / self.seconds / 1_000.0),
            Latency => mean(all()),
            LatencyOf(label) => mean(*self.answers.get(label)?),
        }
    }
}

fn trials(published: &Path) -> Vec<Measured> {
    let folder = tempfile::tempdir().unwrap();
    for name in ["run.json", "trials.jsonl.zst"] {
        std::fs::copy(published.join(name), folder.path().join(name)).unwrap();
    }
    let directory = Directory::open(folder.path()).unwrap().0;
    let names = directory.trials().unwrap();
    names.iter().filter_map(|name| measured(directory.read(name).unwrap())).collect()
}

fn measured(lines: Vec<Line>) -> Option<Measured> {
    let mut lines = lines.into_iter();
    let Some(Line::Header(header)) = lines.next() else { panic!("no header") };
    let trial = header.trial;
    if trial.role != Role::Measure {
        return None;
    }
    let target_per_s = match &trial.work {
        Work::Load { load, .. } => load.target_per_s,
        Work::RealTime(_) => None,
    };
    let mut found = Measured {
        experiment: trial.experiment,
        store: trial.store.label,
        nodes: trial.nodes,
        target_per_s,
        seconds: 0.0,
        rows: 0.0,
        answers: BTreeMap::new(),
    };
    for line in lines {
        match line {
            Line::Second(second) if !second.is_of_parts() => {
                let mut latencies = histogram::new();
                histogram::add(&mut latencies, &second.histogram).unwrap();
                let sum = found.answers.entry(second.label).or_default();
                sum.0 += second.count as f64;
                sum.1 += latencies.mean() * latencies.len() as f64 / 1_000.0;
            }
            Line::Value { name, value } if name == "written_rows" => found.rows = value,
            Line::End(end) if end.outcome == Outcome::Completed => found.seconds = end.seconds,
            _ => {}
        }
    }
    (found.seconds > 0.0).then_some(found)
}

/// The cells of a row of a table, in bold or not.
fn cells(row: &str) -> Vec<&str> {
    let row = row.strip_prefix('|').unwrap_or(row);
    row.trim_end_matches('|').split('|').map(|cell| cell.trim().trim_matches('*')).collect()
}

/// Whether a cell is this number, rounded to its last digit, or to three digits.
fn is(cell: &str, number: f64) -> bool {
    let text = cell.replace(',', "");
    let shown: f64 = text.parse().unwrap_or_else(|_| panic!("`{cell}` is not a number"));
    let decimals = text.split_once('.').map_or(0, |(_, decimals)| decimals.len());
    let unit = 10_f64.powi(-i32::try_from(decimals).unwrap());
    (shown - number).abs() <= (0.51 * unit).max(0.006 * number)
}

#[test]
fn the_tables_of_the_documents_follow_from_the_published_trials() {
    let text = std::fs::read_to_string("../../docs/lab.md").unwrap();
    let mut published: BTreeMap<&str, Vec<Measured>> = BTreeMap::new();
    let mut compared = 0;
    for (study, words, experiment, nodes, target, number) in ROWS {
        let trials = published
            .entry(study)
            .or_insert_with(|| trials(&Path::new("../../docs/lab").join(format!("{study}-small"))));
        let chapter = text.split_once(&format!("(`{study}`")).unwrap().1;
        let mut lines = chapter.lines().skip_while(|line| !line.starts_with('|'));
        let stores = cells(lines.next().unwrap()).split_off(1);
        let row = lines.find(|line| line.starts_with(&format!("| {words}")));
        let row = cells(row.unwrap_or_else(|| panic!("{study}: no row `{words}`")));
        for (store, cell) in stores.iter().zip(&row[1..]).filter(|(_, cell)| **cell != "–") {
            let store = store.to_lowercase().replace("postgresql", "postgres");
            let is_of = |trial: &&Measured| {
                trial.experiment == *experiment
                    && trial.nodes == *nodes
                    && (target.is_none() || trial.target_per_s == *target)
                    && (trial.store == store || trial.store == format!("cassandra@{store}"))
            };
            let sample: Vec<f64> =
                trials.iter().filter(is_of).filter_map(|trial| trial.number(*number)).collect();
            if sample.is_empty() && *study == "containers" {
                // The last column is none of a store.
                continue;
            }
            let mean = sample.iter().map(|number| number.ln()).sum::<f64>() / sample.len() as f64;
            let mean = mean.exp();
            assert!(is(cell, mean), "{study}, {words}, {store}: `{cell}` is {mean} by the trials");
            compared += 1;
        }
    }
    assert!(compared > 100, "{compared}");
}
