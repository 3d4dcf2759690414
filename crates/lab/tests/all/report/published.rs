//! The numbers of the tables in docs/lab.md, and those of the README that quote the lab, recomputed
//! from the published trials beside them, by nothing of the lab's own statistics: only its
//! histograms are decoded by its own code.
//!
//! With `LAB_REWRITE` in the environment (`make lab-documents`) a number that is not right any more
//! is written anew instead. Bold letters and sentences stay as they are: people change them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use lab::histogram;
use lab::results::{Directory, Line, Outcome};
use lab::trial::{Role, Work};

/// The measure of a row of a table.
#[derive(Clone, Copy)]
enum Number {
    /// Operations per second.
    Rate,
    /// Rows per second.
    Rows,
    /// Rows per second, in thousands.
    ThousandRows,
    /// Mean latency of all operations, ms.
    Latency,
    /// Mean latency of a label, ms.
    LatencyOf(&'static str),
    /// A value of the whole trial.
    Value(&'static str),
    /// Processor time of the servers for a gigabyte of text, with what they do until it is on disk,
    /// s: the arithmetic mean.
    SecondsPerGigabyte,
    /// Disk for a gigabyte of text that was loaded, MB.
    MegabytesPerGigabyte,
}
use Number::{
    Latency, LatencyOf, MegabytesPerGigabyte, Rate, Rows, SecondsPerGigabyte, ThousandRows, Value,
};

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
    ("ycsb", "B, reached of 4,000", "b", 1, Some(4_000.0), Rate),
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
    ("collectors", "291, one connection", "one-connection", 1, None, ThousandRows),
    ("collectors", "291, 32 connections", "many-connections", 1, None, ThousandRows),
    ("study1", "delay until new records are found", "real-time", 1, None, Value("delay_ms")),
    ("ycsb", "F: half read-modify-writes", "f", 1, Some(4_000.0), Latency),
    ("logstores", "ingest, lines/s", "ingest", 1, None, Rows),
    ("logstores", "processor time for a GB of lines", "ingest", 1, None, SecondsPerGigabyte),
    ("logstores", "disk for a GB of lines", "word", 1, None, MegabytesPerGigabyte),
    ("logstores", "a word, ms", "word", 1, None, Latency),
    ("logstores", "a phrase", "phrase", 1, None, Latency),
    ("logstores", "a regular expression", "regex", 1, None, Latency),
    ("logstores", "one line of all", "needle", 1, None, Latency),
    ("logstores", "fields and time", "fields", 1, None, Latency),
    ("logstores", "the newest 100 lines", "latest", 1, None, Latency),
    ("logstores", "groups", "groups", 1, None, Latency),
    ("logstores", "lines over time", "histogram", 1, None, Latency),
    ("logstores", "first queries after a restart", "cold", 1, None, Latency),
    ("logstores", "queries while 4,000 lines", "arriving", 1, None, LatencyOf("query")),
    ("logstores", "delay until a line is found", "tail", 1, None, Value("delay_ms")),
];

/// The numbers of the README: the study, the words of the row, its experiment and number, and the
/// unit of its cells.
const README: &[(&str, &str, &str, Number, f64)] = &[
    ("collectors", "[collected until the last line is kept", "lines-117", ThousandRows, 1_000.0),
    ("logstores", "[lines of a host over time", "histogram", Latency, 1.0),
];

/// One trial that was measured, or that loaded data.
struct Measured {
    is_load: bool,
    experiment: String,
    store: String,
    nodes: u32,
    target_per_s: Option<f64>,
    seconds: f64,
    values: BTreeMap<String, f64>,
    /// Processor time of the servers, s.
    cpu_s: f64,
    /// Answers, and the sum of their latencies in ms, by label.
    answers: BTreeMap<String, (f64, f64)>,
    /// Operations that are two answers each.
    composites: f64,
}

impl Measured {
    fn number(&self, number: Number) -> Option<f64> {
        let all = || {
            let all = self.answers.values().fold((0.0, 0.0), |a, b| (a.0 + b.0, a.1 + b.1));
            (all.0 - self.composites, all.1)
        };
        let mean = |(count, sum): (f64, f64)| (count > 0.0).then(|| sum / count);
        let value = |name: &str| self.values.get(name).copied();
        match number {
            Rate => Some(all().0 / self.seconds),
            Rows => Some(value("written_rows")? / self.seconds),
            ThousandRows => Some(self.number(Rows)? / 1_000.0),
            Latency => mean(all()),
            LatencyOf(label) => mean(*self.answers.get(label)?),
            Value(name) => value(name),
            SecondsPerGigabyte => {
                let settled = ["settle_cpu_s_visible", "settle_cpu_s_flushed"];
                let settled: f64 = settled.into_iter().filter_map(value).sum();
                Some((self.cpu_s + settled) / value("written_text_bytes")? * 1e9)
            }
            MegabytesPerGigabyte => {
                let bytes = value("table_bytes_compacted").or(value("table_bytes_flushed"))?;
                Some(bytes / value("written_text_bytes")? * 1e3)
            }
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
    if !matches!(trial.role, Role::Measure | Role::Prepare) {
        return None;
    }
    let target_per_s = match &trial.work {
        Work::Load { load, .. } => load.target_per_s,
        Work::RealTime(_) => None,
    };
    let mut found = Measured {
        is_load: trial.role == Role::Prepare,
        experiment: trial.experiment,
        store: trial.store.label,
        nodes: trial.nodes,
        target_per_s,
        seconds: 0.0,
        values: BTreeMap::new(),
        cpu_s: 0.0,
        answers: BTreeMap::new(),
        composites: 0.0,
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
            Line::Second(second) => found.composites += second.count as f64,
            Line::Value { name, value } => drop(found.values.insert(name, value)),
            Line::Resource(used) if used.process == found.store => found.cpu_s += used.cpu_s,
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
    // "48,000" is rounded to thousands; of "100" nobody knows.
    let digits = text.trim_end_matches('0').len();
    let is_rounded = decimals == 0 && digits >= 2 && text.len() >= digits + 2;
    let zeros = if is_rounded { text.len() - digits } else { 0 };
    let unit = 10_f64.powi(i32::try_from(zeros).unwrap() - i32::try_from(decimals).unwrap());
    (shown - number).abs() <= (0.51 * unit).max(0.006 * number)
}

/// The label of the store that is meant by a name in a document: "Cassandra index=none" is one,
/// "runc" is an instance, and "PostgreSQL 18" the only PostgreSQL of the run.
fn label_of<'t>(trials: &'t [Measured], name: &str) -> Option<&'t str> {
    let name = name.to_lowercase().replace("postgresql", "postgres");
    let first = name.split([' ', ',']).next().unwrap_or_default();
    let labels: BTreeSet<&str> = trials.iter().map(|trial| trial.store.as_str()).collect();
    let exact = [name.clone(), first.to_owned(), format!("cassandra@{first}")];
    if let Some(label) = exact.iter().find_map(|exact| labels.get(exact.as_str())) {
        return Some(label);
    }
    let mut of_store = labels.iter().filter(|label| label.split(['@', ' ']).next() == Some(first));
    match (of_store.next(), of_store.next()) {
        (Some(label), None) => Some(label),
        _ => None,
    }
}

/// The mean of a store's repetitions; `None` if there are none.
fn mean_of(
    trials: &[Measured],
    store: &str,
    (experiment, nodes, target): (&str, u32, Option<f64>),
    number: Number,
) -> Option<f64> {
    let label = label_of(trials, store)?;
    let is_load = matches!(number, MegabytesPerGigabyte);
    let is_of = |trial: &&Measured| {
        // All experiments of a study of lines ask the data that was loaded for the first.
        (is_load || trial.experiment == experiment)
            && trial.is_load == is_load
            && trial.nodes == nodes
            && (target.is_none() || trial.target_per_s == target)
            && trial.store == label
    };
    let all = trials.iter().filter(is_of).filter_map(|trial| trial.number(number));
    let sample: Vec<f64> = if is_load { all.take(1).collect() } else { all.collect() };
    let count = sample.len() as f64;
    match number {
        _ if sample.is_empty() => None,
        SecondsPerGigabyte => Some(sample.iter().sum::<f64>() / count),
        _ => Some((sample.iter().map(|number| number.ln()).sum::<f64>() / count).exp()),
    }
}

/// Whether documents are written anew and not compared.
pub fn is_rewritten() -> bool {
    std::env::var_os("LAB_REWRITE").is_some()
}

/// The number with as many decimals as the cell has, or more if it needs them.
fn like(cell: &str, number: f64) -> String {
    let decimals = cell.split_once('.').map_or(0, |(_, decimals)| decimals.len());
    let text = |decimals: usize| {
        let text = format!("{number:.decimals$}");
        let (whole, rest) = text.split_at(text.find('.').unwrap_or(text.len()));
        lab::number::count(whole.parse().unwrap()) + rest
    };
    (decimals..).map(text).find(|text| is(text, number)).unwrap()
}

/// Where a part of a text is in it.
fn place(text: &str, part: &str) -> std::ops::Range<usize> {
    let at = part.as_ptr() as usize - text.as_ptr() as usize;
    at..at + part.len()
}

#[test]
fn the_tables_of_the_documents_follow_from_the_published_trials() {
    let path = "../../docs/lab.md";
    let text = std::fs::read_to_string(path).unwrap();
    let mut rewritten = text.clone();
    let mut published: BTreeMap<&str, Vec<Measured>> = BTreeMap::new();
    let mut compared = 0;
    for (study, words, experiment, nodes, target, number) in ROWS {
        let trials = published
            .entry(study)
            .or_insert_with(|| trials(&Path::new("../../docs/lab").join(format!("{study}-small"))));
        let chapter = text.split_once(&format!("(`{study}`")).unwrap().1;
        let mut lines = chapter.lines().skip_while(|line| !line.starts_with('|'));
        let stores = cells(lines.next().unwrap()).split_off(1);
        let line = lines.find(|line| line.starts_with(&format!("| {words}")));
        let line = line.unwrap_or_else(|| panic!("{study}: no row `{words}`"));
        let (row, mut now) = (cells(line), line.to_owned());
        for (store, cell) in stores.iter().zip(&row[1..]).filter(|(_, cell)| **cell != "–") {
            let Some(mean) = mean_of(trials, store, (*experiment, *nodes, *target), *number) else {
                // The last column of the containers is none of a store.
                assert_eq!(*study, "containers", "{words}, {store}: no trial");
                continue;
            };
            let is_right = is(cell, mean);
            if is_rewritten() && !is_right {
                // The cell of the same place in the line as it is by now.
                let number = row.iter().position(|other| other.as_ptr() == cell.as_ptr()).unwrap();
                let cell_now = place(&now, cells(&now)[number]);
                now.replace_range(cell_now, &like(cell, mean));
            } else {
                let said = format!("{study}, {words}, {store}: `{cell}` is {mean} by the trials");
                assert!(is_right, "{said}: make lab-documents");
            }
            compared += 1;
        }
        rewritten = rewritten.replacen(line, &now, 1);
    }
    assert!(compared > 230, "{compared}");
    if is_rewritten() {
        std::fs::write(path, rewritten).unwrap();
    }
}

/// The cells of the README's rows, each with its store: a number with a unit is Loginson's.
#[test]
fn the_numbers_of_the_readme_follow_from_the_published_trials() {
    let path = "../../README.md";
    let readme = std::fs::read_to_string(path).unwrap();
    let mut rewritten = readme.clone();
    for (study, words, experiment, number, unit) in README {
        let trials = trials(&Path::new("../../docs/lab").join(format!("{study}-small")));
        let line = readme.lines().find(|line| line.starts_with(&format!("| {words}"))).unwrap();
        let row = line.split_once("found)").unwrap().1;
        let mut wrong = Vec::new();
        let mut store = "Loginson";
        let mut compared = 0;
        for word in row.split([' ', '(', ')', ',', ';', '|']).filter(|word| !word.is_empty()) {
            if !word.starts_with(|c: char| c.is_ascii_digit()) {
                if label_of(&trials, word).is_some() {
                    store = word;
                }
                continue;
            }
            let mean = mean_of(&trials, store, (*experiment, 1, None), *number).unwrap() / unit;
            let is_right = is(word, mean);
            assert!(
                is_right || is_rewritten(),
                "{words}, {store}: `{word}` is {mean} by the trials: make lab-documents"
            );
            wrong.extend((!is_right).then(|| (word, like(word, mean))));
            compared += 1;
        }
        let mut now = line.to_owned();
        // From behind, so that places before stay.
        for (word, by) in wrong.into_iter().rev() {
            now.replace_range(place(line, word), &by);
        }
        rewritten = rewritten.replacen(line, &now, 1);
        // The number of lines that were asked or their size is in the first cell.
        assert!(compared >= 4, "{words}: {compared}");
    }
    if is_rewritten() {
        std::fs::write(path, rewritten).unwrap();
    }
}

/// A number that was changed is found.
#[test]
fn a_planted_wrong_number_is_found() {
    assert!(is("8,182", 8_181.9) && is("0.49", 0.488) && is("39", 38.6));
    assert_eq!((like("0.49", 0.6123), like("488", 12_345.6)), ("0.61".into(), "12,346".into()));
    let line = "| a | **1** |";
    assert_eq!(&line[place(line, cells(line)[1])], "1");
    assert!(!is("8,282", 8_181.9) && !is("0.51", 0.488) && !is("41", 38.6));
}
