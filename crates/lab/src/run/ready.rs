//! Makes a store ready for a step: started, with the data of the step, and noted in the results
//! with its version and configuration.

use std::time::Instant;

use super::probe::probe;
use super::{
    Loaded, Measured, Ready, RunError, Runner, Store, Watch, place_of, read_again, watched,
};
use crate::definition::Dataset;
use crate::driver::{Ability, Answer, Driver, Operation, Scans, Settle, StoreError, StoreSpec};
use crate::fleet::RunningStore;
use crate::load::rows_of;
use crate::measure::directory_bytes;
use crate::measure::process::Sampler;
use crate::plan::Step;
use crate::results::{Line, Outcome, ResultsError, StoreInfo, TrialWriter};
use crate::row::{ColumnKind, Schema, Value};
use crate::samples::{ALL, read_trial};
use crate::statistics::mean;
use crate::stores;
use crate::trial::{Role, Trial, Work};

impl Runner<'_> {
    /// Starts the store of a step and loads its data.
    pub(super) async fn ready(
        &mut self,
        steps: &[Step],
        step: &Step,
        trial: &mut Trial,
        dataset: &Dataset,
        watch: &mut dyn Watch,
    ) -> Result<Ready, RunError> {
        let failed = |message: String| Ok(Ready::Not(Outcome::Failed { message }));
        let up = match self.up(trial.store.server(), trial.nodes).await? {
            Ok(up) => up,
            Err(message) => return failed(message),
        };
        address(&mut trial.store, &up);
        let driver = match stores::open(&trial.store) {
            Ok(driver) => driver,
            Err(error) => return failed(error.to_string()),
        };
        let experiment = self.study.experiments.iter().find(|e| e.name == trial.experiment);
        let needs = experiment.expect("the plan is of this study").needs(dataset);
        if let Some(lacking) = needs.iter().find(|need| !driver.abilities().contains(need)) {
            return Ok(Ready::Not(Outcome::NotSupported { ability: lacking.name().into() }));
        }
        let store = Store { driver, up: Some(up) };
        if let Err(error) = self.note_store(&store, &step.trial).await? {
            return failed(error.to_string());
        }
        match self.probe(&store, trial).await {
            Ok(None) => {}
            Ok(Some(message)) => return Ok(Ready::Not(Outcome::Wrong { message })),
            Err(error) => {
                return failed(format!(
                    "what it answers when its data changes is not known: {error}"
                ));
            }
        }
        if let Some((base, share)) = &step.share_of {
            match self.reached(steps, base, trial)? {
                Some(rate) => aim(&mut trial.work, rate * share),
                None => {
                    return failed(format!(
                        "its rate is a share of what {} reached in `{base}`, which was not completed",
                        trial.store.label
                    ));
                }
            }
        }
        if let Err(error) = self.empty_unused(steps, &store, trial).await? {
            return failed(format!("a table of earlier trials could not be emptied: {error}"));
        }
        match self.load(step, &store, trial, dataset, watch).await? {
            Loaded::Yes => Ok(Ready::Yes(store)),
            Loaded::Stopped => Ok(Ready::Stopped),
            Loaded::Not(outcome) => Ok(Ready::Not(outcome)),
        }
    }

    /// The store with this number of nodes. Data of another number of nodes is removed.
    pub(super) async fn up(
        &mut self,
        store: &str,
        nodes: u32,
    ) -> Result<Result<RunningStore, String>, RunError> {
        if self.state.nodes.get(store) != Some(&nodes) {
            self.fleet.wipe(store).await?;
            self.state.nodes.insert(store.to_owned(), nodes);
            self.state.forget(store);
            self.keep_state()?;
        }
        if self.fleet.has_died(store) {
            // It may have lost what its durability does not promise to keep.
            self.earlier.retain(|(server, _), _| server != store);
        }
        let up = match self.fleet.up(store, nodes).await {
            Ok(up) => up,
            Err(error) => return Ok(Err(error.to_string())),
        };
        if up.lost_data {
            self.state.forget(store);
            self.keep_state()?;
        }
        Ok(Ok(up))
    }

    /// Records the version and configuration of a store when it is first used.
    async fn note_store(
        &mut self,
        store: &Store,
        trial: &Trial,
    ) -> Result<Result<(), StoreError>, RunError> {
        if self.run.stores.iter().any(|known| known.label == trial.store.label) {
            return Ok(Ok(()));
        }
        let version = match store.driver.version().await {
            Ok(version) => version,
            Err(error) => return Ok(Err(error)),
        };
        let name = &trial.store.name;
        let kind = stores::find(name).expect("its driver is open");
        let server = self.fleet.server_options(trial.store.server());
        let mut states = kind.states(&trial.store.options);
        states.extend(unpromised(&*store.driver).into_iter().map(str::to_owned));
        self.run.stores.push(StoreInfo {
            label: trial.store.label.clone(),
            durability: kind.promise(&trial.store.options, server.as_ref()),
            states,
            note: untested(store.driver.versions_tested(), &version),
            version,
            has_foreign_client: stores::client(name).is_some(),
            options: trial.store.options.clone(),
            configuration: store.up.as_ref().map(|up| up.configuration.clone()).unwrap_or_default(),
        });
        self.directory.write_run(&self.run)?;
        Ok(Ok(()))
    }

    /// Asks a store that is new to this run whether it follows its data.
    async fn probe(&mut self, store: &Store, trial: &Trial) -> Result<Option<String>, StoreError> {
        let label = &trial.store.label;
        if !self.probed.contains_key(label) {
            let found = probe(&*store.driver).await?;
            self.probed.insert(label.clone(), found);
        }
        Ok(self.probed[label].clone())
    }

    /// Empties the tables of the store's servers that no step needs any more. A store that tells
    /// only the size of all its tables would count them as data of this one.
    async fn empty_unused(
        &mut self,
        steps: &[Step],
        store: &Store,
        trial: &Trial,
    ) -> Result<Result<(), StoreError>, RunError> {
        let server = trial.store.server();
        let todo: Vec<&Trial> = steps
            .iter()
            .filter(|step| !self.directory.has(&step.name))
            .map(|step| &step.trial)
            .filter(|other| other.store.server() == server && other.nodes == trial.nodes)
            .collect();
        let known = self.state.tables.get(server).cloned().unwrap_or_default();
        for schema in known {
            if todo.iter().any(|other| other.schema.table == schema.table) {
                continue;
            }
            if let Err(error) = store.driver.create(&schema).await {
                return Ok(Err(error));
            }
            self.state.tables.entry(server.to_owned()).or_default().retain(|one| *one != schema);
            self.state.forget_table(server, &schema.table);
            self.keep_state()?;
        }
        Ok(Ok(()))
    }

    /// Creates the table of a step, and fills it.
    pub(super) async fn load(
        &mut self,
        step: &Step,
        store: &Store,
        trial: &Trial,
        dataset: &Dataset,
        watch: &mut dyn Watch,
    ) -> Result<Loaded, RunError> {
        let table = &trial.schema.table;
        let key = (trial.store.label.clone(), format!("{} in {table}", dataset.name));
        if !step.fresh && self.state.loaded.contains(&key) {
            return Ok(Loaded::Yes);
        }
        self.state.forget_table(trial.store.server(), table);
        self.earlier.remove(&place_of(trial));
        let tables = self.state.tables.entry(trial.store.server().to_owned()).or_default();
        if !tables.contains(&trial.schema) {
            tables.push(trial.schema.clone());
        }
        self.keep_state()?;
        if let Err(error) = store.driver.create(&trial.schema).await {
            return Ok(not_loaded(format!("its table could not be made: {error}")));
        }
        // Rows of an earlier repetition are those of the next one: nothing would be left to do.
        match is_empty(&*store.driver, &trial.schema).await {
            Ok(true) => {}
            Ok(false) => {
                let message = "its table was made again, and still has rows".to_owned();
                return Ok(Loaded::Not(Outcome::Wrong { message }));
            }
            Err(error) => {
                return Ok(not_loaded(format!("whether its new table is empty: {error}")));
            }
        }
        let Some(fill) = &dataset.fill else { return Ok(Loaded::Yes) };
        let mut load = fill.load.clone();
        if !store.driver.abilities().contains(&Ability::InsertMany) {
            load.batch_rows = 1;
        }
        let filling = Trial {
            role: Role::Prepare,
            work: Work::Load { workload: fill.workload.clone(), load },
            ..trial.clone()
        };
        let mut writer = self.begin(&format!("{}-load", step.name), step, &filling)?;
        let Some(Measured { mut end, seen, read_back }) =
            self.measure(store, &filling, &mut writer, watch).await?
        else {
            return Ok(Loaded::Stopped);
        };
        if end.outcome == Outcome::Completed && seen.errors > 0 {
            // Rows that are not there would make right answers look wrong.
            end.outcome = Outcome::Failed {
                message: format!("{} of its inserts failed, so rows are missing", seen.errors),
            };
        }
        if end.outcome == Outcome::Completed {
            end.outcome = keep(sizes(store, &filling, fill.settle).await, &mut writer, watch)?;
        }
        let rows = read_again(read_back, &mut end, &mut writer, watch).await?;
        self.remember_rows(step, &filling, rows);
        writer.end(end.clone())?;
        match end.outcome {
            Outcome::Completed => {
                if !step.fresh {
                    self.state.loaded.insert(key);
                    self.keep_state()?;
                }
                Ok(Loaded::Yes)
            }
            Outcome::NotSupported { ability } => {
                Ok(not_loaded(format!("its data needs `{ability}`")))
            }
            Outcome::Failed { message } => {
                Ok(not_loaded(format!("its data could not be loaded: {message}")))
            }
            Outcome::Wrong { message } => Ok(Loaded::Not(Outcome::Wrong {
                message: format!("its data was not loaded as it was acknowledged: {message}"),
            })),
        }
    }

    /// The rate that the store of `trial` reached in another experiment: the mean of its
    /// repetitions.
    fn reached(
        &self,
        steps: &[Step],
        experiment: &str,
        trial: &Trial,
    ) -> Result<Option<f64>, RunError> {
        let same = |step: &&Step| {
            let other = &step.trial;
            other.experiment == experiment
                && other.role == Role::Measure
                && other.store.label == trial.store.label
                && other.nodes == trial.nodes
        };
        let mut rates = Vec::new();
        for step in steps.iter().filter(same).filter(|step| self.directory.has(&step.name)) {
            let (_, made, _) = read_trial(&step.name, self.directory.read(&step.name)?)?;
            rates.extend(made.completed().then(|| made.rate(ALL)).flatten());
        }
        Ok(mean(&rates))
    }
}

/// Whether a table has no rows, as far as the store tells.
async fn is_empty(driver: &dyn Driver, schema: &Schema) -> Result<bool, StoreError> {
    if let Some(rows) = rows_of(driver, schema).await? {
        return Ok(rows == 0);
    }
    if !driver.abilities().contains(&Ability::Scan) || driver.scans() == Scans::Unordered {
        return Ok(true);
    }
    // Before all keys of studies.
    let from = match schema.key {
        ColumnKind::Integer => Value::Integer(0),
        ColumnKind::Text => Value::Text(String::new()),
    };
    let scan = Operation::Scan { from, rows_max: 1 };
    match driver.connect(schema).await?.execute(&scan).await {
        Ok(answer) => Ok(answer == Answer::Rows(Vec::new())),
        // A table of streams takes lines alone.
        Err(StoreError::NotSupported { .. }) => Ok(true),
        Err(error) => Err(error),
    }
}

/// Fills in where the servers of a store are, and the options that its driver needs for them.
pub(super) fn address(store: &mut StoreSpec, up: &RunningStore) {
    store.endpoints.clone_from(&up.endpoints);
    for (option, value) in &up.options {
        store.options.entry(option.clone()).or_insert_with(|| value.clone());
    }
}

fn not_loaded(message: String) -> Loaded {
    Loaded::Not(Outcome::Failed { message })
}

/// The size of a table, before and after the store flushed and merged its data.
pub(super) async fn sizes(
    store: &Store,
    trial: &Trial,
    until: Settle,
) -> Result<Vec<Line>, StoreError> {
    let mut lines = Vec::new();
    let all = [
        (Settle::Visible, "visible"),
        (Settle::Flushed, "flushed"),
        (Settle::Compacted, "compacted"),
    ];
    let last = all.iter().position(|(settle, _)| *settle == until).expect("all are there");
    for (settle, name) in &all[..=last] {
        let watched = store.up.as_ref().map(|up| watched(up, trial));
        let mut sampler = Sampler::new(watched.into_iter().collect(), false);
        let began = Instant::now();
        store.driver.settle(&trial.schema, *settle).await?;
        let value = |what: &str, value: f64| Line::Value { name: format!("{what}_{name}"), value };
        lines.push(value("settle_s", began.elapsed().as_secs_f64()));
        let used = sampler.sample(0);
        lines.extend(used.iter().map(|used| value("settle_cpu_s", used.cpu_s)));
        if let Some(bytes) = store.driver.table_bytes(&trial.schema).await? {
            lines.push(value("table_bytes", bytes as f64));
        }
        if let Some(up) = store.up.as_ref().filter(|up| !up.data.is_empty()) {
            let bytes: u64 = up.data.iter().map(|path| directory_bytes(path).unwrap_or(0)).sum();
            lines.push(value("directory_bytes", bytes as f64));
        }
    }
    Ok(lines)
}

/// Writes the result of [`sizes`].
pub(super) fn keep(
    sizes: Result<Vec<Line>, StoreError>,
    writer: &mut TrialWriter,
    watch: &mut dyn Watch,
) -> Result<Outcome, ResultsError> {
    match sizes {
        Ok(lines) => {
            for line in lines {
                watch.line(&line);
                writer.write(&line)?;
            }
            Ok(Outcome::Completed)
        }
        Err(error) => Ok(Outcome::Failed { message: format!("while it settled: {error}") }),
    }
}

/// Sentences on what a store does not promise, so that less of its answers is compared.
fn unpromised(driver: &dyn Driver) -> Vec<&'static str> {
    let can = |ability: Ability| driver.abilities().contains(&ability);
    let mut sentences = Vec::new();
    if can(Ability::Read) && !driver.reads_own_writes() {
        sentences.push(
            "It does not promise that a read sees what was just written: during a trial, old and missing rows are no wrong answers.",
        );
    }
    match driver.scans() {
        Scans::Late if can(Ability::Scan) => {
            sentences.push("It does not promise that a scan has the newest rows.");
        }
        Scans::Unordered if can(Ability::Scan) => {
            sentences.push("Its scans are in an order of its own, so that fewer gaps are found.");
        }
        _ => {}
    }
    sentences
}

/// The note on a version that the driver is not tested with.
fn untested(tested: &[&str], version: &str) -> Option<String> {
    let known = tested.iter().any(|beginning| version.starts_with(beginning));
    // Nobody promises a version of a store of the user's own.
    (!known && !tested.is_empty()).then(|| {
        format!(
            "this version is not one that the lab is tested with ({}…): every answer is checked all the same",
            tested.join("…, ")
        )
    })
}

fn aim(work: &mut Work, rate: f64) {
    if let Work::Load { load, .. } = work {
        load.target_per_s = Some(rate);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_store_does_not_promise_is_told() {
        for (name, told) in [
            ("redis", &[][..]),
            ("postgres", &[]),
            ("victorialogs", &["a read sees what was just written"]),
            ("cassandra", &["in an order of its own"]),
        ] {
            let (label, options) = (name.to_owned(), std::collections::BTreeMap::new());
            let endpoints = vec!["127.0.0.1:1".to_owned()];
            let spec = StoreSpec { name: name.to_owned(), label, endpoints, options };
            let found = unpromised(&*stores::open(&spec).unwrap());
            assert_eq!(found.len(), told.len(), "{name}: {found:?}");
            let is_told = found.iter().zip(told).all(|(sentence, told)| sentence.contains(told));
            assert!(is_told, "{name}: {found:?}");
        }
    }

    #[test]
    fn versions_that_were_never_tested_are_told() {
        let tested = ["Elasticsearch 7.17.", "Elasticsearch 8."];
        assert_eq!(untested(&tested, "Elasticsearch 7.17.28 (Lucene 8.11.3)"), None);
        assert_eq!(untested(&tested, "Elasticsearch 8.1"), None);
        let note = untested(&tested, "Elasticsearch 9.0.1").unwrap();
        assert!(note.contains("Elasticsearch 7.17.…, Elasticsearch 8.…"), "{note}");
    }
}
