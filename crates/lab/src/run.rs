//! Runs the steps of a plan, one after another, and keeps what they measure.
//!
//! For each step: its store is started; a missing ability is reported and nothing is measured; its
//! data is loaded unless it is there; its operations are sent and measured; its file is completed.
//! A step whose store fails is reported with the reason and the run continues; a stopped run can be
//! resumed at that point.

mod cold;
mod crash;
mod state;
mod steady;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;

use crate::definition::{Dataset, Study};
use crate::driver::{self, Ability, Driver, Settle, StoreError, StoreSpec};
use crate::fleet::{Fleet, Up};
use crate::generate::Generators;
use crate::load::{Stop, stopped};
use crate::measure::directory_bytes;
use crate::measure::process::{Sampler, Watched};
use crate::plan::{NULL, Step};
use crate::report::ReportError;
use crate::report::summary::{ALL, Measure, mean, read_trial};
use crate::results::{
    Directory, End, Header, Line, Outcome, ResultsError, Run, StoreInfo, TrialWriter,
};
use crate::stores;
use crate::trial::{Role, Trial, Work};
pub use crash::{LOST, Witness, look_for};
use state::State;
pub use state::forget_removed;
use steady::{ATTEMPTS_MAX, Others, WarmUp, is_repeatable, other_seed, warm_up_work};

/// Limit of the measurement lines between generator and file. When it is full, measuring waits for
/// the disk.
const LINES_WAITING_MAX: usize = 1_024;

/// Why a run ended before its last step.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// Results cannot be written, for example because the disk is full.
    #[error(
        "{0}; what was measured before is kept: loginson-lab resume goes on once that is mended"
    )]
    Results(#[from] ResultsError),
    /// Results of an earlier trial of this run are inconsistent.
    #[error(transparent)]
    Report(#[from] ReportError),
    /// The servers of a store cannot be removed.
    #[error(transparent)]
    Server(#[from] crate::servers::ServerError),
}

/// How a run ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally {
    /// Trials that were completed.
    pub completed: u32,
    /// Trials whose store lacks a needed ability.
    pub not_supported: u32,
    /// Trials with a wrong answer, as `name: message`.
    pub wrong: Vec<String>,
    /// Trials that failed, as `name: message`.
    pub failed: Vec<String>,
    /// Notes on stores, as `label: note`.
    pub notes: Vec<String>,
    /// Whether it was stopped before its last trial.
    pub stopped: bool,
}

/// Follows the progress of a run.
pub trait Watch {
    /// A step begins; `left` is the estimated time for the rest.
    fn begins(&mut self, step: &Step, of: usize, left: Option<Duration>);
    /// A line was measured.
    fn line(&mut self, line: &Line);
    /// A step ended.
    fn ended(&mut self, step: &Step, end: &End);
}

/// A run in progress.
pub struct Runner<'a> {
    study: &'a Study,
    directory: &'a Directory,
    run: Run,
    fleet: &'a mut Fleet,
    generators: &'a Generators,
    stop: Stop,
    state: State,
    /// Durations of trials, by experiment and label of the store.
    took: BTreeMap<(String, String), Vec<f64>>,
    /// The processes of stores that are in a steady state, by experiment and label.
    warm: BTreeMap<(String, String), Vec<u32>>,
}

impl<'a> Runner<'a> {
    /// Continues the run of `directory`, which may be new.
    pub fn new(
        study: &'a Study,
        directory: &'a Directory,
        run: Run,
        fleet: &'a mut Fleet,
        generators: &'a Generators,
        stop: Stop,
    ) -> Runner<'a> {
        let state = State::read(directory);
        let (took, warm) = (BTreeMap::new(), BTreeMap::new());
        Runner { study, directory, run, fleet, generators, stop, state, took, warm }
    }

    /// Runs all steps that were not completed yet.
    pub async fn steps(
        &mut self,
        steps: &[Step],
        watch: &mut dyn Watch,
    ) -> Result<Tally, RunError> {
        let mut tally = Tally::default();
        for (at, step) in steps.iter().enumerate() {
            if self.directory.has(&step.name) {
                continue;
            }
            let left = self.left(&steps[at..]);
            watch.begins(step, steps.len(), left);
            let began = Instant::now();
            let mut stop = self.stop.clone();
            // A stopped trial is repeated, so nothing of it has to be completed.
            let end = tokio::select! {
                biased;
                () = stopped(&mut stop) => None,
                end = self.step(steps, step, watch) => end?,
            };
            let Some(end) = end else {
                tally.stopped = true;
                break;
            };
            let key = (step.trial.experiment.clone(), step.trial.store.label.clone());
            self.took.entry(key).or_default().push(began.elapsed().as_secs_f64());
            watch.ended(step, &end);
            match end.outcome {
                Outcome::Completed => tally.completed += 1,
                Outcome::NotSupported { .. } => tally.not_supported += 1,
                Outcome::Wrong { message } => tally.wrong.push(format!("{}: {message}", step.name)),
                Outcome::Failed { message } => {
                    tally.failed.push(format!("{}: {message}", step.name));
                }
            }
        }
        let noted = |store: &StoreInfo| Some(format!("{}: {}", store.label, store.note.as_ref()?));
        tally.notes = self.run.stores.iter().filter_map(noted).collect();
        Ok(tally)
    }

    /// The estimated time of the remaining steps, from the durations of similar ones; `None` before
    /// there are any.
    fn left(&self, steps: &[Step]) -> Option<Duration> {
        let all: Vec<f64> = self.took.values().flatten().copied().collect();
        let usual = mean(&all)?;
        let estimate = |step: &Step| {
            let (experiment, label) = (&step.trial.experiment, &step.trial.store.label);
            let same = self.took.get(&(experiment.clone(), label.clone()));
            let kin = || {
                let kin = self.took.iter().filter(|((e, _), _)| e == experiment);
                mean(&kin.flat_map(|(_, took)| took).copied().collect::<Vec<_>>())
            };
            same.and_then(|took| mean(took)).or_else(kin).unwrap_or(usual)
        };
        let todo = steps.iter().filter(|step| !self.directory.has(&step.name));
        Some(Duration::from_secs_f64(todo.map(estimate).sum()))
    }

    /// Runs one step; `None` if it was stopped.
    async fn step(
        &mut self,
        steps: &[Step],
        step: &Step,
        watch: &mut dyn Watch,
    ) -> Result<Option<End>, RunError> {
        tokio::time::sleep(Duration::from_secs_f64(step.rest_s)).await;
        let dataset = self.study.dataset(&step.dataset).expect("checked when it was read").clone();
        let mut notes = Vec::new();
        let mut attempt = 0;
        loop {
            attempt += 1;
            let mut trial = step.trial.clone();
            trial.seed = other_seed(trial.seed, attempt - 1);
            let mut ready = self.ready(steps, step, &mut trial, &dataset, watch).await?;
            if let Ready::Yes(store) = &ready {
                match self.warm_up(step, store, &trial, &dataset, watch).await? {
                    Warm::Yes => {}
                    Warm::Now(note) => {
                        notes.extend(note);
                        // The data of a fresh table is not what it was.
                        ready = self.ready(steps, step, &mut trial, &dataset, watch).await?;
                    }
                    Warm::Stopped => return Ok(None),
                }
            }
            let mut writer = self.begin(&step.name, step, &trial)?;
            for text in &notes {
                writer.write(&Line::Note { text: text.clone() })?;
            }
            let store = match ready {
                Ready::Stopped => return Ok(None),
                Ready::Not(outcome) => {
                    let end = End { outcome, seconds: 0.0 };
                    writer.end(end.clone())?;
                    return Ok(Some(end));
                }
                Ready::Yes(store) => store,
            };
            let store = match trial.cold && trial.role == Role::Measure {
                false => store,
                true => match self.cold(&store, &mut trial).await? {
                    Ok((store, line)) => {
                        watch.line(&line);
                        writer.write(&line)?;
                        store
                    }
                    Err(outcome) => {
                        let end = End { outcome, seconds: 0.0 };
                        writer.end(end.clone())?;
                        return Ok(Some(end));
                    }
                },
            };
            if let Some(after_s) = trial.crash_after_s {
                let ended = self.crash(&store, &trial, after_s, &mut writer, watch).await?;
                if let Some(end) = &ended {
                    writer.end(end.clone())?;
                }
                return Ok(ended);
            }
            let Some((mut end, others)) = self.measure(&store, &trial, &mut writer, watch).await?
            else {
                return Ok(None);
            };
            let measured = end.outcome == Outcome::Completed && trial.role == Role::Measure;
            let disturbed = others.disturbing_share(self.run.machine.cores).filter(|_| measured);
            if let Some(share) = disturbed
                && attempt < ATTEMPTS_MAX
                && is_repeatable(&trial, step.fresh)
            {
                notes.push(format!(
                    "made again, because other programs used {} of the processors the first time",
                    crate::report::number::percent(share)
                ));
                continue;
            }
            if measured && step.fresh {
                let sizes = sizes(&store, &trial, Settle::Flushed).await;
                end.outcome = keep(sizes, &mut writer, watch)?;
            }
            writer.end(end.clone())?;
            return Ok(Some(end));
        }
    }

    /// Stops a store, takes its data out of memory, and starts it again; with the time that the start
    /// took.
    async fn cold(
        &mut self,
        store: &Store,
        trial: &mut Trial,
    ) -> Result<Result<(Store, Line), Outcome>, RunError> {
        let failed = |message: String| Ok(Err(Outcome::Failed { message }));
        let Some(up) = store.up.as_ref().filter(|up| !up.roots().is_empty()) else {
            let ability = "restart (the lab did not start its server)".to_owned();
            return Ok(Err(Outcome::NotSupported { ability }));
        };
        self.fleet.down(&trial.store.name).await?;
        cold::evict(&up.data);
        let began = Instant::now();
        let up = match self.up(&trial.store.name, trial.nodes).await? {
            Ok(up) if up.lost_data => {
                let ability = "keep data over a restart".to_owned();
                return Ok(Err(Outcome::NotSupported { ability }));
            }
            Ok(up) => up,
            Err(message) => return failed(message),
        };
        let value = began.elapsed().as_secs_f64();
        trial.store.endpoints.clone_from(&up.endpoints);
        match driver::open(&trial.store) {
            Ok(driver) => {
                let line = Line::Value { name: "start_s".to_owned(), value };
                Ok(Ok((Store { driver, up: Some(up) }, line)))
            }
            Err(error) => failed(error.to_string()),
        }
    }

    /// Sends the operations of a trial, kills the servers meanwhile, starts them again, and looks
    /// for the acknowledged rows; `None` if it was stopped.
    async fn crash(
        &mut self,
        store: &Store,
        trial: &Trial,
        after_s: f64,
        writer: &mut TrialWriter,
        watch: &mut dyn Watch,
    ) -> Result<Option<End>, RunError> {
        let ended = |outcome, seconds| Ok(Some(End { outcome, seconds }));
        let Some(up) = store.up.clone().filter(|up| !up.roots().is_empty()) else {
            let ability = "kill (the lab did not start its server)".to_owned();
            return ended(Outcome::NotSupported { ability }, 0.0);
        };
        let witness = Arc::new(Witness::new(store.driver.clone()));
        let watched = Store { driver: witness.clone(), up: store.up.clone() };
        let killer = crash::kill_after(&up, Duration::from_secs_f64(after_s));
        let measured = self.measure(&watched, trial, writer, watch).await?;
        let Some((end, _)) = measured else {
            killer.abort();
            return Ok(None);
        };
        if let Err(panic) = killer.await.map_err(tokio::task::JoinError::try_into_panic)
            && let Ok(panic) = panic
        {
            std::panic::resume_unwind(panic);
        }
        if let Outcome::Wrong { .. } | Outcome::NotSupported { .. } = end.outcome {
            return Ok(Some(end));
        }
        let failed = |message: String| ended(Outcome::Failed { message }, end.seconds);
        let up = match self.up(trial.store.server(), trial.nodes).await? {
            Ok(up) => up,
            Err(message) => {
                return failed(format!("it did not start again after it was killed: {message}"));
            }
        };
        let spec = StoreSpec { endpoints: up.endpoints, ..trial.store.clone() };
        let driver = match driver::open(&spec) {
            Ok(driver) => driver,
            Err(error) => return failed(error.to_string()),
        };
        match look_for(&*driver, &trial.schema, &witness.acknowledged()).await {
            Ok(lines) => {
                for line in lines {
                    watch.line(&line);
                    writer.write(&line)?;
                }
                ended(Outcome::Completed, end.seconds)
            }
            Err(error) => failed(format!("after it was killed: {error}")),
        }
    }

    /// Does the work of a step unmeasured, until its store is in a steady state.
    async fn warm_up(
        &mut self,
        step: &Step,
        store: &Store,
        trial: &Trial,
        dataset: &Dataset,
        watch: &mut dyn Watch,
    ) -> Result<Warm, RunError> {
        let key = (trial.experiment.clone(), trial.store.label.clone());
        let processes = store.up.as_ref().map(Up::roots).unwrap_or_default();
        let experiment = self.study.experiments.iter().find(|e| e.name == trial.experiment);
        let trials_max = experiment.map_or(0, |experiment| experiment.warm_up_trials_max);
        let is_for = trial.role == Role::Measure && is_repeatable(trial, step.fresh);
        if !is_for || trials_max == 0 || self.warm.get(&key) == Some(&processes) {
            return Ok(Warm::Yes);
        }
        let mut warm_up = WarmUp::new(trials_max);
        while warm_up.continues() {
            let number = warm_up.values.len() as u32 + 1;
            // Another table each time, as for the measured trials; the first one is there.
            if step.fresh && number > 1 {
                match self.load(step, store, trial, dataset, watch).await? {
                    Loaded::Yes => {}
                    Loaded::Stopped => return Ok(Warm::Stopped),
                    Loaded::Not(_) => break,
                }
            }
            let seed = other_seed(trial.seed, ATTEMPTS_MAX + number);
            let work = warm_up_work(trial);
            let warming = Trial { role: Role::WarmUp, work, seed, ..trial.clone() };
            let name = format!("{}-warm{number}", step.name);
            let mut writer = self.begin(&name, step, &warming)?;
            let Some((end, _)) = self.measure(store, &warming, &mut writer, watch).await? else {
                return Ok(Warm::Stopped);
            };
            writer.end(end.clone())?;
            // What is wrong is found out, and reported, by the measured trial.
            if end.outcome != Outcome::Completed {
                break;
            }
            let (_, made, _) = read_trial(&name, self.directory.read(&name)?)?;
            let Some(value) = Measure::of_work(trial).of(&made) else { break };
            warm_up.values.push(value);
        }
        self.warm.insert(key, processes);
        Ok(Warm::Now(warm_up.note()))
    }

    /// Starts the store of a step and loads its data.
    async fn ready(
        &mut self,
        steps: &[Step],
        step: &Step,
        trial: &mut Trial,
        dataset: &Dataset,
        watch: &mut dyn Watch,
    ) -> Result<Ready, RunError> {
        let failed = |message: String| Ok(Ready::Not(Outcome::Failed { message }));
        let up = match trial.store.name == NULL {
            true => None,
            false => match self.up(trial.store.server(), trial.nodes).await? {
                Ok(up) => Some(up),
                Err(message) => return failed(message),
            },
        };
        if let Some(up) = &up {
            trial.store.endpoints.clone_from(&up.endpoints);
            for (option, value) in &up.options {
                trial.store.options.entry(option.clone()).or_insert_with(|| value.clone());
            }
        }
        let driver = match driver::open(&trial.store) {
            Ok(driver) => driver,
            Err(error) => return failed(error.to_string()),
        };
        let experiment = self.study.experiments.iter().find(|e| e.name == trial.experiment);
        let needs = experiment.expect("the plan is of this study").needs(dataset);
        if let Some(lacking) = needs.iter().find(|need| !driver.abilities().contains(need)) {
            return Ok(Ready::Not(Outcome::NotSupported { ability: lacking.name().into() }));
        }
        let store = Store { driver, up };
        if trial.role == Role::Limit {
            return Ok(Ready::Yes(store));
        }
        if let Err(error) = self.note_store(&store, &step.trial).await? {
            return failed(error.to_string());
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
        match self.load(step, &store, trial, dataset, watch).await? {
            Loaded::Yes => Ok(Ready::Yes(store)),
            Loaded::Stopped => Ok(Ready::Stopped),
            Loaded::Not(message) => failed(message),
        }
    }

    /// The store with this number of nodes. Data of another number of nodes is removed.
    async fn up(&mut self, store: &str, nodes: u32) -> Result<Result<Up, String>, RunError> {
        if self.state.nodes.get(store) != Some(&nodes) {
            self.fleet.wipe(store).await?;
            self.state.nodes.insert(store.to_owned(), nodes);
            self.state.forget(store);
            self.keep_state()?;
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
        self.run.stores.push(StoreInfo {
            label: trial.store.label.clone(),
            durability: kind.promise(&trial.store.options, server.as_ref()),
            states: kind.states(&trial.store.options),
            note: untested(store.driver.versions_tested(), &version),
            version,
            options: trial.store.options.clone(),
            configuration: store.up.as_ref().map(|up| up.configuration.clone()).unwrap_or_default(),
        });
        self.directory.write_run(&self.run)?;
        Ok(Ok(()))
    }

    /// Creates the table of a step, and fills it.
    async fn load(
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
        let same_table = |(label, data): &(String, String)| {
            *label == key.0 && data.rsplit_once(" in ").is_some_and(|(_, other)| other == table)
        };
        self.state.loaded.retain(|known| !same_table(known));
        self.keep_state()?;
        if let Err(error) = store.driver.create(&trial.schema).await {
            return Ok(Loaded::Not(format!("its table could not be made: {error}")));
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
        let Some((mut end, _)) = self.measure(store, &filling, &mut writer, watch).await? else {
            return Ok(Loaded::Stopped);
        };
        if end.outcome == Outcome::Completed {
            end.outcome = keep(sizes(store, &filling, fill.settle).await, &mut writer, watch)?;
        }
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
                Ok(Loaded::Not(format!("its data needs `{ability}`")))
            }
            Outcome::Wrong { message } | Outcome::Failed { message } => {
                Ok(Loaded::Not(format!("its data could not be loaded: {message}")))
            }
        }
    }

    /// Creates the file of a trial.
    fn begin(&self, name: &str, step: &Step, trial: &Trial) -> Result<TrialWriter, ResultsError> {
        let mut writer = self.directory.begin(name)?;
        let header = Header { trial: trial.clone(), order: step.order, started: now() };
        writer.write(&Line::Header(Box::new(header)))?;
        Ok(writer)
    }

    /// Sends the operations of a trial, and writes the measurements; `None` if it was stopped. Also
    /// returns what other programs used.
    async fn measure(
        &self,
        store: &Store,
        trial: &Trial,
        writer: &mut TrialWriter,
        watch: &mut dyn Watch,
    ) -> Result<Option<(End, Others)>, RunError> {
        let mut others = Others::default();
        let (sender, mut lines) = mpsc::channel(LINES_WAITING_MAX);
        let watched = store.up.as_ref().map(|up| watched(up, trial));
        let sending =
            self.generators.run(store.driver.clone(), trial, watched, sender, self.stop.clone());
        tokio::pin!(sending);
        let mut end = None;
        loop {
            tokio::select! {
                line = lines.recv() => match line {
                    Some(line) => {
                        watch.line(&line);
                        others.add(&line);
                        writer.write(&line)?;
                    }
                    // All measurements have arrived, and the generator has ended or is about to.
                    None => {
                        let end = match end {
                            Some(end) => end,
                            None => sending.await,
                        };
                        return Ok(end.map(|end| (end, others)));
                    }
                },
                ended = &mut sending, if end.is_none() => end = Some(ended),
            }
        }
    }

    /// The rate that the store of `trial` reached in another experiment, as in the report: the mean
    /// of its repetitions.
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

    fn keep_state(&self) -> Result<(), ResultsError> {
        self.state.write(self.directory)
    }
}

/// A running store.
struct Store {
    driver: Arc<dyn Driver>,
    up: Option<Up>,
}

enum Ready {
    Yes(Store),
    Not(Outcome),
    Stopped,
}

/// Whether the store of a step is in a steady state.
enum Warm {
    /// It was.
    Yes,
    /// It has just been warmed up, with what a reader has to know.
    Now(Option<String>),
    Stopped,
}

enum Loaded {
    Yes,
    Not(String),
    Stopped,
}

/// The current time, RFC 3339.
pub fn now() -> String {
    let now = jiff::Timestamp::now();
    now.round(jiff::Unit::Second).unwrap_or(now).to_string()
}

/// The servers of a trial.
fn watched(up: &Up, trial: &Trial) -> Watched {
    Watched { name: trial.store.label.clone(), pids: up.pids(), descendants: true }
}

/// The size of a table, before and after the store flushed and merged its data.
async fn sizes(store: &Store, trial: &Trial, until: Settle) -> Result<Vec<Line>, StoreError> {
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
fn keep(
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

/// The note on a version that the driver is not tested with.
fn untested(tested: &[&str], version: &str) -> Option<String> {
    let known = tested.iter().any(|beginning| version.starts_with(beginning));
    (!known).then(|| {
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
    fn versions_that_were_never_tested_are_told() {
        let tested = ["Elasticsearch 7.17.", "Elasticsearch 8."];
        assert_eq!(untested(&tested, "Elasticsearch 7.17.28 (Lucene 8.11.3)"), None);
        assert_eq!(untested(&tested, "Elasticsearch 8.1"), None);
        let note = untested(&tested, "Elasticsearch 9.0.1").unwrap();
        assert!(note.contains("Elasticsearch 7.17.…, Elasticsearch 8.…"), "{note}");
    }
}
