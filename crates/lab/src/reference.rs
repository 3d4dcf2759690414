//! The figures that the studies published, for comparison with measured ones: `reference/*.toml`,
//! embedded in the program.
//!
//! The figures were measured on other machines, with other versions, and mostly at other sizes.
//! They show whether the overall picture is the same, not by how much a store became faster.

use serde::Deserialize;

use crate::trial::{Trial, Work};
use crate::workload::{Phase, Workload};

/// The files, by name of the study.
const FILES: [(&str, &str); 5] = [
    ("study1", include_str!("../reference/study1.toml")),
    ("ycsb", include_str!("../reference/ycsb.toml")),
    ("apm", include_str!("../reference/apm.toml")),
    ("containers", include_str!("../reference/containers.toml")),
    ("collectors", include_str!("../reference/collectors.toml")),
];

/// The published figures of one study.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reference {
    /// Name of the study.
    pub study: String,
    /// Title and year of the paper.
    pub title: String,
    /// The machines it was measured on.
    pub machine: String,
    /// Its tables, and the figures and sentences that name numbers.
    #[serde(rename = "table")]
    pub tables: Vec<Table>,
    /// The differences it tested.
    #[serde(default, rename = "test")]
    pub tests: Vec<Test>,
}

/// A table of a paper.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    /// Its number or page in the paper.
    pub place: String,
    /// The subject of the table.
    pub about: String,
    /// The work that was measured, as in [`subject`].
    pub subject: String,
    /// The measure, unit last: `throughput_per_s`, `latency_ms`, …
    pub measure: String,
    /// The operation.
    #[serde(default)]
    pub label: Option<String>,
    /// Records in the store.
    #[serde(default)]
    pub records: Option<u64>,
    /// Nodes of all rows without a number of their own.
    #[serde(default = "one")]
    pub nodes: u32,
    /// The paper gives it in words or in a curve: the number is rounded, and an interval is the
    /// range of the words.
    #[serde(default)]
    pub rough: bool,
    /// Its rows.
    pub rows: Vec<Row>,
}

fn one() -> u32 {
    1
}

/// A row of a table.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// Name of the driver, or of an instance: `cassandra@lxc`.
    pub store: String,
    /// The variant of the store, as in the label of a store.
    #[serde(default)]
    pub variant: Option<String>,
    /// The operation, if rows differ in it.
    #[serde(default)]
    pub label: Option<String>,
    /// Nodes, if rows differ in them.
    #[serde(default)]
    pub nodes: Option<u32>,
    /// Threads of the load.
    #[serde(default)]
    pub threads: Option<u32>,
    /// The target rate.
    #[serde(default)]
    pub target_per_s: Option<f64>,
    /// The achieved rate.
    #[serde(default)]
    pub reached_per_s: Option<f64>,
    /// The number; a mean if there were repetitions.
    pub mean: f64,
    /// Its 95% interval.
    #[serde(default)]
    pub interval: Option<(f64, f64)>,
    /// Mean latency printed next to another number.
    #[serde(default)]
    pub latency_ms: Option<f64>,
    /// The repetitions.
    #[serde(default)]
    pub sample: Vec<f64>,
    /// Latencies at [`PERCENTILES`](crate::samples::PERCENTILES).
    #[serde(default)]
    pub percentiles: Option<[f64; 8]>,
}

impl Row {
    /// The nodes that it was measured on.
    pub fn nodes(&self, table: &Table) -> u32 {
        self.nodes.unwrap_or(table.nodes)
    }

    /// The label of the store in results.
    pub fn store_label(&self) -> String {
        match &self.variant {
            Some(variant) => format!("{} {variant}", self.store),
            None => self.store.clone(),
        }
    }
}

/// A published test of a difference.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Test {
    /// Its number or page in the paper.
    pub place: String,
    /// The work.
    pub subject: String,
    /// The operation.
    #[serde(default)]
    pub label: Option<String>,
    /// The first store.
    pub first: String,
    /// The second store.
    pub second: String,
    /// The interval of the difference, first minus second.
    pub interval: (f64, f64),
    /// p, if it is printed.
    #[serde(default)]
    pub p_below: Option<f64>,
}

/// A lookup of a figure.
#[derive(Debug, Clone, Copy)]
pub struct Wanted<'a> {
    /// See [`subject`].
    pub subject: &'a str,
    /// See [`Table::measure`].
    pub measure: &'a str,
    /// The operation.
    pub label: Option<&'a str>,
    /// Label of the store.
    pub store: &'a str,
    /// Nodes.
    pub nodes: u32,
    /// The target rate.
    pub target_per_s: Option<f64>,
}

/// The figures of the study with this name.
pub fn load(study: &str) -> Option<Reference> {
    let (name, text) = FILES.iter().find(|(name, _)| *name == study)?;
    Some(toml::from_str(text).unwrap_or_else(|e| panic!("reference/{name}.toml: {e}")))
}

impl Reference {
    /// The matching row, with its table; if there are several sizes of data, the first, which is
    /// the smallest. A single node is compared with the smallest cluster where the paper measured
    /// no single node.
    pub fn find(&self, wanted: Wanted<'_>) -> Option<(&Table, &Row)> {
        self.tables
            .iter()
            .filter(|table| table.subject == wanted.subject && table.measure == wanted.measure)
            .flat_map(|table| table.rows.iter().map(move |row| (table, row)))
            .filter(|(table, row)| {
                let label = row.label.as_deref().or(table.label.as_deref());
                row.store_label() == wanted.store
                    && (wanted.nodes == 1 || row.nodes(table) == wanted.nodes)
                    && (label.is_none() || label == wanted.label)
                    && row.target_per_s == wanted.target_per_s
            })
            .min_by_key(|(table, row)| row.nodes(table))
    }
}

/// The name of the work of a trial in the figures of papers.
pub fn subject(trial: &Trial) -> String {
    if trial.crash_after_s.is_some() {
        // Its writes are cut short by a kill: no paper has their latency.
        return "crash".into();
    }
    let (workload, load) = match &trial.work {
        Work::RealTime(_) => return "real_time".into(),
        Work::Load { workload, load } => (workload, load),
    };
    match workload {
        Workload::LogWrites { .. } if load.ramp_s > 0.0 => "saturation".into(),
        Workload::LogWrites { .. } => "writes".into(),
        Workload::LogReads { .. } => "reads".into(),
        Workload::LineWrites { .. } => "line_writes".into(),
        Workload::LineQueries(_) => "line_queries".into(),
        Workload::LineStream { line_bytes } => format!("line_stream_{line_bytes}"),
        Workload::HistoryWrites(_) => "history_load".into(),
        Workload::HistoryQueries(_) => "history".into(),
        Workload::MeasurementWrites(_) => "measurement_load".into(),
        Workload::MeasurementWindows(_) => "measurement_windows".into(),
        Workload::MeasurementHistory(_) => "measurement_history".into(),
        Workload::Ycsb { phase: Phase::Load, .. } => "ycsb_load".into(),
        Workload::Ycsb { phase: Phase::Run, properties } => {
            let share = |name: &str, default: f64| {
                let value = properties.get(name).and_then(|value| value.trim().parse().ok());
                value.unwrap_or(default)
            };
            let latest =
                properties.get("requestdistribution").is_some_and(|v| v.trim() == "latest");
            let shares = [
                share("readproportion", 0.95),
                share("updateproportion", 0.05),
                share("insertproportion", 0.0),
                share("scanproportion", 0.0),
                share("readmodifywriteproportion", 0.0),
            ];
            let core = [
                ("a", [0.5, 0.5, 0.0, 0.0, 0.0]),
                ("b", [0.95, 0.05, 0.0, 0.0, 0.0]),
                ("c", [1.0, 0.0, 0.0, 0.0, 0.0]),
                ("d", [0.95, 0.0, 0.05, 0.0, 0.0]),
                ("e", [0.0, 0.0, 0.05, 0.95, 0.0]),
                ("f", [0.5, 0.0, 0.0, 0.0, 0.5]),
            ];
            let name = core.iter().find(|(name, of)| *of == shares && (*name == "d") == latest);
            format!("ycsb_{}", name.map_or("other", |(name, _)| name))
        }
        Workload::Apm { phase: Phase::Load, .. } => "apm_load".into(),
        Workload::Apm { phase: Phase::Run, read, scan, insert, .. } => {
            let name = match (read, scan, insert) {
                (95, 0, 5) => "r",
                (50, 0, 50) => "rw",
                (1, 0, 99) => "w",
                (47, 47, 6) => "rs",
                (25, 25, 50) => "rsw",
                _ => "other",
            };
            format!("apm_{name}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::definition::{STUDIES, Study};
    use crate::plan::{Choices, Step, StoreChoice, plan};
    use crate::scale::Scale;
    use crate::statistics::{estimate, welch};

    fn sample<'a>(reference: &'a Reference, subject: &str, store: &str) -> &'a [f64] {
        let fits = |table: &&Table| table.subject == subject && table.measure == "throughput_per_s";
        let rows = reference.tables.iter().filter(fits).flat_map(|table| &table.rows);
        let found =
            rows.filter(|row| row.store_label() == store).find(|row| !row.sample.is_empty());
        &found.unwrap_or_else(|| panic!("no sample of {subject} {store}")).sample
    }

    #[test]
    fn every_file_is_read() {
        let files =
            [("study1", 14), ("ycsb", 20), ("apm", 6), ("containers", 14), ("collectors", 5)];
        for (name, tables) in files {
            let reference = load(name).unwrap();
            assert_eq!((reference.study.as_str(), reference.tables.len()), (name, tables));
        }
        assert_eq!(load("another"), None);
    }

    #[test]
    fn writes_that_a_kill_cuts_short_are_not_those_of_a_paper() {
        let study = Study::parse("study1", STUDIES[0].1, Scale::Small).unwrap();
        let store = StoreChoice::parse("postgres").unwrap();
        let steps = plan(&study, &[store], &Choices::default());
        let of = |experiment: &str| {
            let of = |step: &&Step| step.trial.experiment == experiment;
            subject(&steps.iter().find(of).unwrap().trial)
        };
        assert_eq!((&*of("writes"), &*of("crash")), ("writes", "crash"));
    }

    /// The columns of 30 repetitions in tables 4.1 and 4.3 of the 2015 study give its means and
    /// intervals to the last digit printed (seven significant digits).
    #[test]
    fn the_columns_of_2015_give_its_means_and_intervals() {
        let reference = load("study1").unwrap();
        let rows = reference.tables.iter().flat_map(|table| &table.rows);
        let with_sample: Vec<&Row> = rows.filter(|row| !row.sample.is_empty()).collect();
        assert_eq!(with_sample.len(), 7);
        for row in with_sample {
            let found = estimate(&row.sample).unwrap();
            assert_eq!(found.count, 30);
            let (low, high) = found.interval.unwrap();
            let (printed_low, printed_high) = row.interval.unwrap();
            for (got, printed) in [(found.mean, row.mean), (low, printed_low), (high, printed_high)]
            {
                let half_unit = 0.5 * 10_f64.powi(printed.log10().floor() as i32 - 6);
                assert!(
                    (got - printed).abs() <= half_unit,
                    "{}: {got}, {printed}",
                    row.store_label()
                );
            }
        }
    }

    /// Its five tests on these columns. It prints whole numbers, and cuts them: 4,991.68 is printed
    /// as 4991 and 1,030.50 as 1030.
    #[test]
    fn the_columns_of_2015_give_its_tests() {
        let reference = load("study1").unwrap();
        let tests: Vec<&Test> =
            reference.tests.iter().filter(|test| test.subject != "history").collect();
        assert_eq!(tests.len(), 5);
        for test in tests {
            let first = sample(&reference, &test.subject, &test.first);
            let second = sample(&reference, &test.subject, &test.second);
            let found = welch(first, second).unwrap();
            let cut = (found.interval.0.trunc(), found.interval.1.trunc());
            assert_eq!(cut, test.interval, "{} {}", test.first, test.second);
            let zero_inside = test.interval.0 < 0.0 && test.interval.1 > 0.0;
            assert_eq!(found.p > 0.05, zero_inside);
        }
    }

    #[test]
    fn rows_are_found_by_what_was_done() {
        let study1 = load("study1").unwrap();
        let wanted = Wanted {
            subject: "writes",
            measure: "throughput_per_s",
            label: None,
            store: "cassandra index=none",
            nodes: 1,
            target_per_s: None,
        };
        assert_eq!(study1.find(wanted).unwrap().1.mean, 12272.28);
        assert_eq!(study1.find(Wanted { store: "cassandra", ..wanted }).unwrap().1.mean, 7163.833);
        let cluster = Wanted { store: "elasticsearch", nodes: 3, ..wanted };
        assert_eq!(study1.find(cluster).unwrap().1.mean, 8849.013);
        assert!(study1.find(Wanted { store: "redis", ..wanted }).is_none());
        let ycsb = load("ycsb").unwrap();
        let wanted = Wanted {
            subject: "ycsb_a",
            measure: "latency_ms",
            label: Some("update"),
            store: "mysql",
            nodes: 4,
            target_per_s: Some(2000.0),
        };
        assert_eq!(ycsb.find(wanted).unwrap().1.mean, 0.751661616);
        assert!(ycsb.find(Wanted { label: Some("scan"), ..wanted }).is_none());
        let (table, row) = ycsb.find(Wanted { nodes: 1, ..wanted }).unwrap();
        assert_eq!(row.nodes(table), 4, "the paper has no other number of nodes");
    }
}
