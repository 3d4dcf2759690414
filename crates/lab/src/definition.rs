//! Definitions of studies: readable TOML files, one per study.
//!
//! The definitions of the published studies are embedded in the program; other files are given by
//! path. A property file of YCSB is a study of its own too ([`property_file`]).

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::driver::durability::Durability;
use crate::driver::{Ability, Settle};
use crate::row::{Column, ColumnKind, Schema};
use crate::scale::{NoValue, Scale, resolve};
use crate::trial::{Load, RealTime};
use crate::workload::{Phase, Workload, WorkloadError, ycsb};

mod property_file;
pub mod sized;

/// The studies that come with the program: name, text.
pub const STUDIES: [(&str, &str); 6] = [
    ("study1", include_str!("../studies/study1.toml")),
    ("ycsb", include_str!("../studies/ycsb.toml")),
    ("apm", include_str!("../studies/apm.toml")),
    ("logstores", include_str!("../studies/logstores.toml")),
    ("containers", include_str!("../studies/containers.toml")),
    ("collectors", include_str!("../studies/collectors.toml")),
];

/// A study, at one scale.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Study {
    /// Its name on the command line.
    pub name: String,
    /// Its title.
    pub title: String,
    /// The paper it repeats.
    pub source: String,
    /// Its questions, in a few sentences.
    pub about: String,
    /// The stores that are measured by default.
    pub stores: Vec<String>,
    /// Stores of the paper that are not measured, with the reason.
    #[serde(default)]
    pub left_out: BTreeMap<String, String>,
    /// The durability of stores that have it; the others have that of their defaults.
    #[serde(default)]
    pub durability: Option<Durability>,
    /// The price of one server machine per hour, for the cost of a run.
    #[serde(default)]
    pub price_per_machine_hour: Option<f64>,
    /// The machine, the currency and the date of the price, in words.
    #[serde(default)]
    pub price_of: Option<String>,
    /// Options of servers, by the name of an instance: those of `lxc` are for `redis@lxc` and for
    /// every other store of that instance. Options of the command line override them.
    #[serde(default, rename = "instance")]
    pub instances: BTreeMap<String, BTreeMap<String, String>>,
    /// The servers are started again for each repetition, which has a trial of every experiment.
    /// Compiled code and the places of memory then differ between repetitions, so that chance in
    /// them is not taken for a property of the store.
    #[serde(default)]
    pub restart_servers: bool,
    /// Columns of tables, by a name that data sets refer to.
    pub columns: BTreeMap<String, Vec<Column>>,
    /// Data that experiments work on.
    #[serde(default, rename = "dataset")]
    pub datasets: Vec<Dataset>,
    /// Experiments, in the order of measurement.
    #[serde(rename = "experiment")]
    pub experiments: Vec<Experiment>,
}

/// A table and its contents.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dataset {
    /// The name for experiments.
    pub name: String,
    /// The name of the table.
    pub table: String,
    /// The type of keys.
    pub key: ColumnKind,
    /// The name of its columns in [`Study::columns`].
    pub columns: String,
    /// The data to fill it with; without it the table is empty.
    #[serde(default)]
    pub fill: Option<Fill>,
}

/// How a table is filled.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fill {
    /// The rows.
    pub workload: Workload,
    /// How they are sent.
    pub load: Load,
    /// How far the store must have processed them before anything is measured.
    pub settle: Settle,
}

/// One experiment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    /// Letters, digits and `-`: part of names of files.
    pub name: String,
    /// Its title.
    pub title: String,
    /// What its figure shows, in a sentence or two.
    pub about: String,
    /// Its name in the figures of papers, where the workload alone does not tell it: see
    /// [`Table::subject`](crate::reference::Table::subject).
    #[serde(default)]
    pub subject: Option<String>,
    /// The table it works on.
    pub dataset: String,
    /// Whether the table is created again for each trial, because the trial changes it.
    #[serde(default)]
    pub fresh: bool,
    /// The operations, unless it is the real-time experiment.
    #[serde(default)]
    pub workload: Option<Workload>,
    /// How it is sent.
    #[serde(default)]
    pub load: Option<Load>,
    /// The real-time experiment.
    #[serde(default)]
    pub real_time: Option<RealTime>,
    /// How often each store is measured; 0 leaves the experiment out.
    pub repetitions: u32,
    /// Unmeasured trials of each store before its first measured one, at most: they end when two in
    /// a row differ by less than 5%.
    #[serde(default)]
    pub warm_up_trials_max: u32,
    /// Sizes of the cluster, or numbers of shards.
    #[serde(default = "one_node")]
    pub nodes: Vec<u32>,
    /// The servers are stopped before each trial and started again with nothing of their data in
    /// memory. For workloads that only read.
    #[serde(default)]
    pub cold: bool,
    /// The servers are killed this long after the beginning of a trial, s, and started again; then
    /// the acknowledged rows are looked for. For inserts into a fresh table.
    #[serde(default)]
    pub crash_after_s: Option<f64>,
    /// Target rates, operations per second; each is an open loop of its own.
    #[serde(default)]
    pub targets_per_s: Vec<f64>,
    /// Target rates as shares of the rate that each store reached in another experiment.
    #[serde(default)]
    pub shares_of: Option<SharesOf>,
    /// Limits it to these stores of the study.
    #[serde(default)]
    pub stores: Option<Vec<String>>,
    /// Stores that do not take part in it; `about` says why.
    #[serde(default)]
    pub without: Vec<String>,
    /// Options of drivers in this experiment, by store, such as `elasticsearch = { shards = "6" }`.
    /// Options of the command line override them. Such a store has tables of its own here.
    #[serde(default)]
    pub options: BTreeMap<String, BTreeMap<String, String>>,
    /// Pause before each trial, s.
    #[serde(default)]
    pub rest_s: f64,
}

fn one_node() -> Vec<u32> {
    vec![1]
}

/// The longest pause before a trial, or until a kill: a month, as for the length of a load.
const PAUSE_S_MAX: f64 = 2_678_400.0;

/// Target rates as shares of earlier results.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SharesOf {
    /// The experiment that measured the maximum; it must precede this one.
    pub experiment: String,
    /// Between 0 and 1.
    pub shares: Vec<f64>,
}

/// Why a definition cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DefinitionError {
    /// There is no study and no file with this name.
    #[error(
        "there is no study `{name}`; there are {known}, or name a file: ./{name}.toml, or a property file of YCSB",
        known = names()
    )]
    Unknown {
        /// The requested name.
        name: String,
    },
    /// The file cannot be read.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: String,
        /// The error.
        source: std::io::Error,
    },
    /// The file is not TOML, or not a definition.
    #[error("{name}: {reason}")]
    Syntax {
        /// The study.
        name: String,
        /// The error and its position.
        reason: String,
    },
    /// Properties were given for a definition that does not use them.
    #[error(
        "{name}: properties belong to a property file of YCSB; change a definition in its file"
    )]
    Properties {
        /// The study.
        name: String,
    },
    /// A property is missing or invalid.
    #[error("{name}: {source}")]
    Workload {
        /// The study.
        name: String,
        /// The property and the error.
        source: WorkloadError,
    },
    /// A value is missing for the scale.
    #[error("{name}: {source}")]
    Scale {
        /// The study.
        name: String,
        /// The value.
        source: NoValue,
    },
    /// The definition contradicts itself.
    #[error("{name}: experiment `{experiment}`: {reason}")]
    Experiment {
        /// The study.
        name: String,
        /// The experiment.
        experiment: String,
        /// The error.
        reason: String,
    },
}

fn names() -> String {
    STUDIES.map(|(name, _)| name).join(", ")
}

/// The definition of the study with this name, or in the file with this path: TOML, or a property
/// file of YCSB, to whose properties `given` are added.
pub fn text(name: &str, given: &[(String, String)]) -> Result<String, DefinitionError> {
    let named = STUDIES.iter().find(|(known, _)| *known == name);
    let path = Path::new(name);
    let toml = path.extension().is_some_and(|extension| extension == "toml");
    if (named.is_some() || toml) && !given.is_empty() {
        return Err(DefinitionError::Properties { name: name.to_owned() });
    }
    if let Some((_, text)) = named {
        return Ok((*text).to_owned());
    }
    if !toml && !name.contains('/') && !path.is_file() {
        return Err(DefinitionError::Unknown { name: name.to_owned() });
    }
    let text = std::fs::read_to_string(path)
        .map_err(|source| DefinitionError::Io { path: name.to_owned(), source })?;
    if toml {
        return Ok(text);
    }
    let study = property_file::study(path, &text, given)
        .map_err(|source| DefinitionError::Workload { name: name.to_owned(), source })?;
    Ok(toml::to_string(&study).expect("a study is made of what TOML has"))
}

impl Study {
    /// Parses a definition at one scale. `name` is used in errors.
    pub fn parse(name: &str, text: &str, scale: Scale) -> Result<Study, DefinitionError> {
        let name = || name.to_owned();
        let table: toml::Table = toml::from_str(text)
            .map_err(|e| DefinitionError::Syntax { name: name(), reason: e.to_string() })?;
        let value = resolve(toml::Value::Table(table), scale)
            .map_err(|source| DefinitionError::Scale { name: name(), source })?;
        let mut study: Study = value
            .try_into()
            .map_err(|e| DefinitionError::Syntax { name: name(), reason: e.to_string() })?;
        for workload in study.workloads() {
            if let Workload::Ycsb { properties, .. } = workload {
                ycsb::expand(properties)
                    .map_err(|source| DefinitionError::Workload { name: name(), source })?;
            }
        }
        study.check()?;
        study.experiments.retain(|experiment| experiment.repetitions > 0);
        Ok(study)
    }

    fn workloads(&mut self) -> impl Iterator<Item = &mut Workload> {
        let fills = self.datasets.iter_mut().filter_map(|dataset| dataset.fill.as_mut());
        let measured = self.experiments.iter_mut().filter_map(|e| e.workload.as_mut());
        fills.map(|fill| &mut fill.workload).chain(measured)
    }

    /// The data set of this name.
    pub fn dataset(&self, name: &str) -> Option<&Dataset> {
        self.datasets.iter().find(|dataset| dataset.name == name)
    }

    /// The table of a data set of this study.
    pub fn schema(&self, dataset: &Dataset) -> Schema {
        let columns = self.columns.get(&dataset.columns).cloned().unwrap_or_default();
        Schema { table: dataset.table.clone(), key: dataset.key, columns }
    }

    fn check(&self) -> Result<(), DefinitionError> {
        for (at, experiment) in self.experiments.iter().enumerate() {
            self.fault(at, experiment).map_or(Ok(()), |reason| {
                Err(DefinitionError::Experiment {
                    name: self.name.clone(),
                    experiment: experiment.name.clone(),
                    reason,
                })
            })?;
        }
        Ok(())
    }

    /// Checks an experiment; returns what is wrong.
    fn fault(&self, at: usize, experiment: &Experiment) -> Option<String> {
        let before = &self.experiments[..at];
        let plain = |name: &str| {
            !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
        };
        if !plain(&experiment.name) {
            return Some("its name may have letters, digits and `-`".into());
        }
        if before.iter().any(|other| other.name == experiment.name) {
            return Some("another experiment has its name".into());
        }
        let Some(dataset) = self.dataset(&experiment.dataset) else {
            return Some(format!("there is no dataset `{}`", experiment.dataset));
        };
        if !self.columns.contains_key(&dataset.columns) {
            return Some(format!("there are no columns `{}`", dataset.columns));
        }
        let mut loads: Vec<&Load> = dataset.fill.iter().map(|fill| &fill.load).collect();
        match (&experiment.workload, &experiment.load, &experiment.real_time) {
            (Some(_), Some(load), None) => loads.push(load),
            (None, None, Some(_)) => {}
            _ => return Some("it needs either `workload` and `load`, or `real_time`".into()),
        }
        for load in loads {
            if load.threads == 0 || load.batch_rows == 0 {
                return Some("`threads` and `batch_rows` are at least 1".into());
            }
            let bounds = load.operations.is_some()
                || load.operations_per_thread.is_some()
                || load.seconds.is_some();
            if !bounds {
                return Some(
                    "a load ends after `operations`, `operations_per_thread` or `seconds`".into(),
                );
            }
        }
        if let Some(after) = experiment.crash_after_s {
            let writes = matches!(
                experiment.workload,
                Some(
                    Workload::LogWrites { .. }
                        | Workload::LineWrites { .. }
                        | Workload::Ycsb { phase: Phase::Run, .. }
                )
            );
            if !experiment.fresh || !writes {
                return Some(
                    "`crash_after_s` is for `log_writes`, `line_writes` or the phase `run` of `ycsb`, on a `fresh` table"
                        .into(),
                );
            }
            if after <= 0.0 || !(0.0..=PAUSE_S_MAX).contains(&after) {
                return Some(format!("`crash_after_s` is above 0 and at most {PAUSE_S_MAX}"));
            }
        }
        if !(0.0..=PAUSE_S_MAX).contains(&experiment.rest_s) {
            return Some(format!("`rest_s` is from 0 to {PAUSE_S_MAX}"));
        }
        if experiment.cold
            && (experiment.fresh || experiment.workload.as_ref().is_none_or(Workload::inserts))
        {
            return Some(
                "`cold` is for a workload that only reads a table that is not `fresh`".into(),
            );
        }
        let needs = experiment.workload.as_ref().map(Workload::needs).unwrap_or_default();
        let both = [Ability::Scan, Ability::Insert];
        if !experiment.fresh && both.iter().all(|need| needs.contains(need)) {
            return Some(
                "a workload that scans and inserts needs a `fresh` table: otherwise its scans find rows of the trial before, which look like ones that nobody wrote"
                    .into(),
            );
        }
        if experiment.nodes.is_empty() || experiment.nodes.contains(&0) {
            return Some("every entry of `nodes` is at least 1, and there is one".into());
        }
        if let Some(SharesOf { experiment: base, shares }) = &experiment.shares_of {
            let made = |other: &Experiment| other.name == *base && other.repetitions > 0;
            if experiment.repetitions > 0 && !before.iter().any(made) {
                return Some(format!("`shares_of` names `{base}`, which is not made before it"));
            }
            if self.restart_servers {
                return Some(
                    "with `restart_servers` the experiment of `shares_of` is not complete before it"
                        .into(),
                );
            }
            if !experiment.targets_per_s.is_empty() {
                return Some("it has `targets_per_s` as well as `shares_of`".into());
            }
            if shares.iter().any(|share| !share.is_finite() || *share <= 0.0 || *share > 1.0) {
                return Some("a share is above 0 and at most 1".into());
            }
        }
        if experiment.targets_per_s.iter().any(|target| !target.is_finite() || *target <= 0.0) {
            return Some("a target is above 0".into());
        }
        None
    }
}

impl Experiment {
    /// The abilities that a store needs for it, including those for filling its data.
    pub fn needs(&self, dataset: &Dataset) -> Vec<Ability> {
        let mut needs = match &self.workload {
            Some(workload) => workload.needs(),
            None => vec![Ability::Insert, Ability::Count],
        };
        if self.crash_after_s.is_some() {
            needs.push(Ability::Read);
        }
        if let Some(fill) = &dataset.fill {
            needs.extend(fill.workload.needs());
        }
        needs.sort_unstable();
        needs.dedup();
        needs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_studies_are_whole_at_every_scale() {
        for (name, text) in STUDIES {
            for scale in Scale::ALL {
                let study = Study::parse(name, text, scale).unwrap_or_else(|e| panic!("{e}"));
                assert_eq!(study.name, name);
                assert!(!study.experiments.is_empty());
            }
        }
    }

    #[test]
    fn the_sizes_of_the_papers() {
        let study = Study::parse("study1", STUDIES[0].1, Scale::Paper).unwrap();
        let of = |name: &str| study.experiments.iter().find(|e| e.name == name).unwrap();
        assert_eq!(of("writes").repetitions, 30);
        assert_eq!(of("writes").load.as_ref().unwrap().operations, Some(1_000_000));
        assert_eq!(of("reads").load.as_ref().unwrap().operations, Some(500_000));
        let Some(Workload::HistoryQueries(history)) = &of("history").workload else { panic!() };
        assert_eq!(history.records, 7_495_861);
        assert_eq!(history.timestamps * history.machines * history.services * 19, history.records);
        let saturation = of("saturation").load.as_ref().unwrap();
        assert_eq!((saturation.threads, saturation.ramp_s), (100, 40.0));
        assert_eq!(saturation.operations_per_thread, Some(4_000));
    }

    #[test]
    fn the_mixes_of_the_study_of_2012() {
        let study = Study::parse("apm", STUDIES[2].1, Scale::Paper).unwrap();
        let mixes: Vec<_> = study
            .experiments
            .iter()
            .filter(|e| e.shares_of.is_none() && e.dataset == "measurement" && e.nodes == [1])
            .map(|e| match e.workload {
                Some(Workload::Apm { read, scan, insert, .. }) => (&*e.name, [read, scan, insert]),
                _ => panic!("{} is of another kind", e.name),
            })
            .collect();
        let expected = [
            ("r", [95, 0, 5]),
            ("rw", [50, 0, 50]),
            ("w", [1, 0, 99]),
            ("rs", [47, 47, 6]),
            ("rsw", [25, 25, 50]),
        ];
        assert_eq!(mixes, expected);
        let shares: Vec<f64> = study
            .experiments
            .iter()
            .filter_map(|e| e.shares_of.clone())
            .flat_map(|of| of.shares)
            .collect();
        assert!(
            [0.5, 0.6, 0.7, 0.8, 0.9, 0.95].iter().all(|share| shares.contains(share)),
            "{shares:?}"
        );
    }

    #[test]
    fn contradictions_are_named() {
        let text = |change: (&str, &str)| STUDIES[0].1.replacen(change.0, change.1, 1);
        for (change, expected) in [
            (("name = \"writes\"", "name = \"wri/tes\""), "letters, digits"),
            (("name = \"reads\"", "name = \"writes\""), "another experiment"),
            (("dataset = \"log\"", "dataset = \"lag\""), "no dataset `lag`"),
            (("title = ", "titel = "), "titel"),
        ] {
            let error = Study::parse("study1", &text(change), Scale::Smoke).unwrap_err();
            assert!(error.to_string().contains(expected), "{error}");
        }
        let kept = STUDIES[2].1.replace("fresh = true", "fresh = false");
        let error = Study::parse("apm", &kept, Scale::Smoke).unwrap_err();
        assert!(error.to_string().contains("scans and inserts"), "{error}");
        let error = super::text("study9", &[]).unwrap_err().to_string();
        assert!(error.contains("study1, ycsb, apm"), "{error}");
    }
}
