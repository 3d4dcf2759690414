//! A study from a property file of YCSB, as `ycsb load` and `ycsb run` would use it: one table,
//! which is loaded and then worked on.
//!
//! The properties of YCSB's client besides the workload become the load: `threadcount`, `target`,
//! `operationcount`, `maxexecutiontime`. A target makes an open loop here, with latency measured
//! from the moment an operation was due.

use std::collections::BTreeMap;
use std::path::Path;

use super::{Dataset, Experiment, Fill, Study};
use crate::driver::Settle;
use crate::trial::Load;
use crate::workload::{Phase, Workload, WorkloadError, ycsb};

/// Rows per insert while the table is loaded.
const BATCH_ROWS: u32 = 100;

/// Default number of repetitions: the fewest with a meaningful confidence interval.
const REPETITIONS: u32 = 3;

/// The study of a file; `given` overrides the file.
pub fn study(path: &Path, text: &str, given: &[(String, String)]) -> Result<Study, WorkloadError> {
    let mut properties = ycsb::parse(text);
    properties.extend(given.iter().cloned());
    ycsb::expand(&mut properties)?;
    let schema = ycsb::schema(&properties)?;
    let load = load(&mut properties)?;
    let workload = |phase| Workload::Ycsb { phase, properties: properties.clone() };
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    let name: String = stem.chars().map(plain).collect();
    let inserts = workload(Phase::Run).inserts();
    let rows = ycsb::load_rows(&properties);
    Ok(Study {
        title: format!("YCSB's workload {name}"),
        source: "a property file of YCSB".into(),
        about: "What the property file says: its records are loaded, then its operations are sent."
            .into(),
        stores: ["postgres", "cassandra", "redis"].map(str::to_owned).to_vec(),
        price_per_machine_hour: None,
        price_of: None,
        instances: BTreeMap::new(),
        restart_servers: false,
        left_out: BTreeMap::new(),
        durability: None,
        columns: BTreeMap::from([(schema.table.clone(), schema.columns)]),
        datasets: vec![Dataset {
            name: schema.table.clone(),
            key: schema.key,
            columns: schema.table.clone(),
            fill: Some(Fill {
                workload: workload(Phase::Load),
                load: Load {
                    operations: rows,
                    seconds: None,
                    target_per_s: None,
                    batch_rows: BATCH_ROWS,
                    ..load.clone()
                },
                settle: Settle::Flushed,
            }),
            table: schema.table.clone(),
        }],
        experiments: vec![Experiment {
            title: format!("Workload {name}"),
            about: "Rate and latency of each operation.".into(),
            subject: None,
            dataset: schema.table,
            fresh: inserts,
            workload: Some(workload(Phase::Run)),
            load: Some(load),
            real_time: None,
            warm_up_trials_max: 0,
            repetitions: REPETITIONS,
            nodes: vec![1],
            targets_per_s: Vec::new(),
            cold: false,
            crash_after_s: None,
            shares_of: None,
            without: Vec::new(),
            stores: None,
            options: BTreeMap::new(),
            rest_s: 0.0,
            name: name.clone(),
        }],
        name,
    })
}

/// Removes and converts the properties of YCSB's client.
fn load(properties: &mut BTreeMap<String, String>) -> Result<Load, WorkloadError> {
    let target = number(properties, "target", "a number of operations a second")?;
    let seconds = number(properties, "maxexecutiontime", "seconds")?;
    let threads = number(properties, "threadcount", "a number of threads")?;
    let operations = ycsb::operation_count(properties);
    if operations.is_none() && seconds.is_none() {
        return Err(WorkloadError::Value {
            name: "operationcount".into(),
            value: properties.get("operationcount").cloned().unwrap_or_default(),
            takes: "how many operations there are, unless maxexecutiontime says how long they take"
                .into(),
        });
    }
    Ok(Load {
        threads: threads.unwrap_or(1),
        ramp_s: 0.0,
        operations,
        operations_per_thread: None,
        seconds: seconds.map(f64::from),
        target_per_s: target.map(f64::from),
        warm_up_s: 0.0,
        until_visible: false,
        batch_rows: 1,
    })
}

/// Parses a number; 0 means none in YCSB.
fn number(
    properties: &mut BTreeMap<String, String>,
    name: &str,
    takes: &str,
) -> Result<Option<u32>, WorkloadError> {
    let Some(value) = properties.remove(name) else { return Ok(None) };
    match value.trim().parse() {
        Ok(number) => Ok((number > 0).then_some(number)),
        Err(_) => Err(WorkloadError::Value { name: name.into(), value, takes: takes.into() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::definition;
    use crate::scale::Scale;

    fn given(properties: &[(&str, &str)]) -> Vec<(String, String)> {
        properties.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
    }

    #[test]
    fn a_file_is_loaded_and_run_as_it_says() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("workload_d");
        let core = "recordcount=1000\noperationcount=3000\nreadproportion=0.95\nupdateproportion=0\n\
                    insertproportion=0.05\nrequestdistribution=latest\nthreadcount=16\ntarget=500\n";
        std::fs::write(&path, core).unwrap();
        let more = given(&[("threadcount", "4"), ("fieldcount", "3"), ("maxexecutiontime", "60")]);
        let name = path.to_str().unwrap();
        let text = definition::text(name, &more).unwrap();
        let study = Study::parse(name, &text, Scale::Small).unwrap();
        assert_eq!(study.name, "workload-d");
        let experiment = &study.experiments[0];
        let load = experiment.load.as_ref().unwrap();
        assert_eq!((load.threads, load.operations, load.seconds), (4, Some(3000), Some(60.0)));
        assert_eq!(load.target_per_s, Some(500.0));
        assert!(experiment.fresh, "its rows are inserted by the run");
        let Some(Workload::Ycsb { phase: Phase::Run, properties }) = &experiment.workload else {
            panic!()
        };
        assert_eq!(properties["requestdistribution"], "latest");
        assert!(!properties.contains_key("target"), "the load has it");
        let dataset = study.dataset("usertable").unwrap();
        assert_eq!(study.schema(dataset).columns.len(), 3);
        let fill = dataset.fill.as_ref().unwrap();
        assert_eq!((fill.load.operations, fill.load.target_per_s), (Some(1000), None));
    }

    #[test]
    fn what_is_missing_is_named() {
        let of = |text: &str| study(Path::new("w"), text, &[]).unwrap_err().to_string();
        assert!(of("recordcount=10").contains("operationcount"));
        assert!(of("operationcount=10").contains("recordcount"));
        assert!(of("recordcount=10\noperationcount=10\nthreadcount=x").contains("threadcount = x"));
    }

    #[test]
    fn definitions_have_no_properties() {
        for name in ["ycsb", "./mine.toml"] {
            let error = definition::text(name, &given(&[("a", "b")])).unwrap_err().to_string();
            assert!(error.contains("property file"), "{error}");
        }
    }
}
