//! Runs the steps of a plan, one after another, and keeps what they measure.
//!
//! For each step: its store is started; a missing ability is reported and nothing is measured; its
//! data is loaded unless it is there; its operations are sent and measured; its file is completed.
//! A step whose store fails is reported with the reason and the run continues; a stopped run can be
//! resumed at that point.

mod cold;
mod crash;
mod disturbed;
mod limit;
mod probe;
mod ready;
mod state;
mod warm_up;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;

use crate::definition::Study;
use crate::driver::{Driver, Settle};
use crate::fleet::{Fleet, RunningStore};
use crate::generate::Generators;
use crate::load::{ReadBack, Stop, stopped};
use crate::measure::{process::Watched, speed};
use crate::plan::{Step, planned_s};
use crate::results::{
    Directory, End, Header, Line, Outcome, ResultsError, Run, StoreInfo, TrialWriter,
};
use crate::samples::TrialError;
use crate::trial::{Role, Trial};
use crate::workload::Earlier;
pub use crash::{Witness, look_for};
use disturbed::{ATTEMPTS_MAX, Seen, is_repeatable, other_seed};
use ready::{keep, sizes};
use state::RunState;
pub use state::forget_removed;

/// Limit of the measurement lines between generator and file. When it is full, measuring waits for
/// the disk.
const LINES_WAITING_MAX: usize = 1_024;

/// Why a run ended before its last step.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// Results cannot be written, for example because the disk is full.
    #[error(
        "{0}; earlier trials are kept: remove the cause, then continue with loginson-lab resume"
    )]
    Results(#[from] ResultsError),
    /// Results of an earlier trial of this run are inconsistent.
    #[error(transparent)]
    Trial(#[from] TrialError),
    /// The servers of a store cannot be removed.
    #[error(transparent)]
    Server(#[from] crate::servers::ServerError),
}

/// How a run ended, with the trials of earlier sittings.
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

impl Tally {
    /// Counts the trial of this name.
    fn add(&mut self, name: &str, outcome: Outcome) {
        match outcome {
            Outcome::Completed => self.completed += 1,
            Outcome::NotSupported { .. } => self.not_supported += 1,
            Outcome::Wrong { message } => self.wrong.push(format!("{name}: {message}")),
            Outcome::Failed { message } => self.failed.push(format!("{name}: {message}")),
        }
    }
}

/// A pace is believed once this much was done, s.
const PACE_S: f64 = 60.0;

/// Follows the progress of a run.
pub trait Watch {
    /// A step begins; `left` is the estimated time for the rest.
    fn begins(&mut self, step: &Step, of: usize, left: Duration);
    /// A line was measured.
    fn line(&mut self, line: &Line);
    /// A step ended; `left` is the estimated time for the rest.
    fn ended(&mut self, step: &Step, end: &End, left: Duration);
}

/// A run in progress.
pub struct Runner<'a> {
    study: &'a Study,
    directory: &'a Directory,
    run: Run,
    fleet: &'a mut Fleet,
    generators: &'a Generators,
    stop: Stop,
    state: RunState,
    /// Steps that were done in this sitting.
    done: Vec<Step>,
    /// The processes of stores that are in a steady state, by experiment and label.
    warm: BTreeMap<(String, String), Vec<u32>>,
    /// What [`probe::probe`] found wrong, by label of the store.
    probed: BTreeMap<String, Option<String>>,
    /// Where the limit of the generator was measured, or could not be, by experiment, label and
    /// number of nodes.
    limited: BTreeSet<(String, String, u32)>,
    /// What rows of tables have, by the name of the server and of the table: as they were read
    /// after the last trial that wrote to them.
    earlier: BTreeMap<(String, String), Arc<Earlier>>,
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
        let state = RunState::read(directory);
        Runner {
            study,
            directory,
            run,
            fleet,
            generators,
            stop,
            state,
            done: Vec::new(),
            warm: BTreeMap::new(),
            probed: BTreeMap::new(),
            limited: BTreeSet::new(),
            earlier: BTreeMap::new(),
        }
    }

    /// Runs all steps that were not completed yet.
    pub async fn steps(
        &mut self,
        steps: &[Step],
        watch: &mut dyn Watch,
    ) -> Result<Tally, RunError> {
        let (mut tally, began) = (Tally::default(), Instant::now());
        for (at, step) in steps.iter().enumerate() {
            if self.directory.has(&step.name) {
                // What an earlier sitting found is true of the whole run.
                let known = self.directory.read(&step.name).ok().and_then(|mut all| all.pop());
                if let Some(Line::End(end)) = known {
                    tally.add(&step.name, end.outcome);
                }
                continue;
            }
            watch.begins(step, steps.len(), self.left(&steps[at..], began));
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
            self.done.push(step.clone());
            watch.ended(step, &end, self.left(&steps[at..], began));
            tally.add(&step.name, end.outcome);
        }
        let noted = |store: &StoreInfo| Some(format!("{}: {}", store.label, store.note.as_ref()?));
        tally.notes = self.run.stores.iter().filter_map(noted).collect();
        Ok(tally)
    }

    /// The estimated time of the steps that are not done: as planned, at the pace of this sitting
    /// so far.
    fn left(&self, steps: &[Step], began: Instant) -> Duration {
        let todo = steps.iter().filter(|step| !self.directory.has(&step.name));
        let planned = |steps: &[Step]| planned_s(self.study, steps);
        let pace = (began.elapsed().as_secs_f64() + PACE_S) / (planned(&self.done) + PACE_S);
        Duration::from_secs_f64(planned(&todo.cloned().collect::<Vec<_>>()) * pace)
    }

    /// Runs one step; `None` if it was stopped.
    async fn step(
        &mut self,
        steps: &[Step],
        step: &Step,
        watch: &mut dyn Watch,
    ) -> Result<Option<End>, RunError> {
        if step.restart {
            self.fleet.down(step.trial.store.server()).await?;
        }
        tokio::time::sleep(Duration::from_secs_f64(step.rest_s)).await;
        let mut notes: Vec<String> = self.note_of_start(step).into_iter().collect();
        let mut attempt = 0;
        loop {
            attempt += 1;
            let mut trial = step.trial.clone();
            trial.seed = other_seed(trial.seed, attempt - 1);
            let store = match self.warm_store(steps, step, &mut trial, &mut notes, watch).await? {
                Ready::Yes(store) => Ok(store),
                Ready::Not(outcome) => Err(outcome),
                Ready::Stopped => return Ok(None),
            };
            let is_last = attempt == ATTEMPTS_MAX;
            match self.attempt(step, trial, store, &notes, is_last, watch).await? {
                Attempt::Ended(end) => {
                    if end.outcome == Outcome::Completed {
                        self.limit(step, watch).await?;
                    }
                    return Ok(Some(end));
                }
                Attempt::Disturbed(note) => notes.push(note),
                Attempt::Stopped => return Ok(None),
            }
        }
    }

    /// What a reader has to know of the server of a step before its first attempt.
    fn note_of_start(&self, step: &Step) -> Option<String> {
        let is_measured = step.trial.role == Role::Measure;
        let is_warm = self.study.restart_servers && is_measured && !step.restart;
        // A resumed run, or a server that died: the warm-up was that of another process.
        let is_new = is_warm && !self.fleet.runs(step.trial.store.server());
        is_new.then(|| "its server was started in the middle of the repetition".to_owned())
    }

    /// Makes the store of a trial ready, in a steady state if its trial is to find it so. Adds to
    /// `notes` what a reader has to know of that.
    async fn warm_store(
        &mut self,
        steps: &[Step],
        step: &Step,
        trial: &mut Trial,
        notes: &mut Vec<String>,
        watch: &mut dyn Watch,
    ) -> Result<Ready, RunError> {
        let dataset = self.study.dataset(&step.dataset).expect("checked when it was read").clone();
        let ready = self.ready(steps, step, trial, &dataset, watch).await?;
        let Ready::Yes(store) = &ready else { return Ok(ready) };
        match self.warm_up(step, store, trial, &dataset, watch).await? {
            Warm::Yes => Ok(ready),
            Warm::Now(note) => {
                notes.extend(note);
                // The warm-up changed the data, if its table is made for each trial.
                self.ready(steps, step, trial, &dataset, watch).await
            }
            Warm::Not(outcome) => Ok(Ready::Not(outcome)),
            Warm::Stopped => Ok(Ready::Stopped),
        }
    }

    /// Writes the results of one attempt at a step, from the head of the file to its end. `store`
    /// may be the outcome of a store that did not become ready.
    async fn attempt(
        &mut self,
        step: &Step,
        mut trial: Trial,
        store: Result<Store, Outcome>,
        notes: &[String],
        is_last: bool,
        watch: &mut dyn Watch,
    ) -> Result<Attempt, RunError> {
        let mut writer = self.begin(&step.name, step, &trial)?;
        for text in notes {
            writer.write(&Line::Note { text: text.clone() })?;
        }
        let store = match store {
            Ok(store) => self.prepare(store, &mut trial, &mut writer, watch).await?,
            Err(outcome) => Err(outcome),
        };
        let store = match store {
            Ok(store) => store,
            Err(outcome) => return ended(writer, End { outcome, seconds: 0.0 }),
        };
        if let Some(after_s) = trial.crash_after_s {
            return match self.crash(&store, &trial, after_s, &mut writer, watch).await? {
                Some(end) => ended(writer, end),
                None => Ok(Attempt::Stopped),
            };
        }
        let Some(Measured { mut end, seen, read_back }) =
            self.measure(&store, &trial, &mut writer, watch).await?
        else {
            return Ok(Attempt::Stopped);
        };
        if end.outcome == Outcome::Completed && trial.role == Role::Measure {
            let others = seen.others(end.seconds, self.run.machine.cores);
            if let Some(others) = others.filter(|others| others.is_interference())
                && !is_last
                && is_repeatable(&trial, step.fresh)
            {
                let note = format!("made again, because {others} the first time");
                return Ok(Attempt::Disturbed(note));
            }
            if step.fresh {
                let sizes = sizes(&store, &trial, Settle::Flushed).await;
                end.outcome = keep(sizes, &mut writer, watch)?;
            }
            // After the sizes, because reading waits until the store has processed its data.
            let rows = read_again(read_back, &mut end, &mut writer, watch).await?;
            self.remember_rows(step, &trial, rows);
        }
        ended(writer, end)
    }

    /// What is done right before a trial is measured: notes the speed of the machine, and starts
    /// the server with nothing in memory, if the trial wants that. The outcome, if it cannot be.
    async fn prepare(
        &mut self,
        store: Store,
        trial: &mut Trial,
        writer: &mut TrialWriter,
        watch: &mut dyn Watch,
    ) -> Result<Result<Store, Outcome>, RunError> {
        if trial.role != Role::Measure {
            return Ok(Ok(store));
        }
        let measured = tokio::task::spawn_blocking(speed::rounds_per_s).await;
        if let Some(value) = measured.expect("it does not panic") {
            let line = Line::Value { name: speed::ROUNDS_PER_S.to_owned(), value };
            watch.line(&line);
            writer.write(&line)?;
        }
        if !trial.cold {
            return Ok(Ok(store));
        }
        let restarted = self.cold(&store, trial).await?;
        if let Ok((_, line)) = &restarted {
            watch.line(line);
            writer.write(line)?;
        }
        Ok(restarted.map(|(store, _)| store))
    }

    /// Creates the file of a trial.
    fn begin(&self, name: &str, step: &Step, trial: &Trial) -> Result<TrialWriter, ResultsError> {
        let mut writer = self.directory.begin(name)?;
        let header = Header { trial: trial.clone(), order: step.order, started: now() };
        writer.write(&Line::Header(Box::new(header)))?;
        Ok(writer)
    }

    /// Sends the operations of a trial, and writes the measurements; `None` if it was stopped.
    async fn measure(
        &mut self,
        store: &Store,
        trial: &Trial,
        writer: &mut TrialWriter,
        watch: &mut dyn Watch,
    ) -> Result<Option<Measured>, RunError> {
        let mut seen = Seen::default();
        let (sender, mut lines) = mpsc::channel(LINES_WAITING_MAX);
        let watched = store.up.as_ref().map(|up| watched(up, trial));
        let earlier = self.earlier.get(&place_of(trial)).cloned();
        self.forget_rows(trial);
        let (driver, stop) = (store.driver.clone(), self.stop.clone());
        let sending = self.generators.run(driver, trial, watched, earlier, sender, stop);
        tokio::pin!(sending);
        let mut end = None;
        loop {
            tokio::select! {
                line = lines.recv() => match line {
                    Some(line) => {
                        watch.line(&line);
                        seen.add(&line);
                        writer.write(&line)?;
                    }
                    // All measurements have arrived, and the generator has ended or is about to.
                    None => {
                        let end = match end {
                            Some(end) => end,
                            None => sending.await,
                        };
                        let measured = |(end, read_back)| Measured { end, seen, read_back };
                        return Ok(end.map(measured));
                    }
                },
                ended = &mut sending, if end.is_none() => end = Some(ended),
            }
        }
    }

    /// Forgets what rows of a table have, if a trial writes to it: until they are read again,
    /// nobody knows.
    fn forget_rows(&mut self, trial: &Trial) {
        if trial.work.writes() {
            self.earlier.remove(&place_of(trial));
        }
    }

    /// Remembers the rows that were read after a trial, unless their table is made again for the
    /// next one.
    fn remember_rows(&mut self, step: &Step, trial: &Trial, rows: Earlier) {
        if !step.fresh && !rows.is_empty() {
            self.earlier.insert(place_of(trial), Arc::new(rows));
        }
    }

    fn keep_state(&self) -> Result<(), ResultsError> {
        self.state.write(self.directory)
    }
}

/// A running store.
struct Store {
    driver: Arc<dyn Driver>,
    up: Option<RunningStore>,
}

/// How an attempt at a step ended.
enum Attempt {
    /// Its results are written.
    Ended(End),
    /// Other programs disturbed it; says so. The step is made again.
    Disturbed(String),
    Stopped,
}

/// Ends the file of a trial.
fn ended(writer: TrialWriter, end: End) -> Result<Attempt, RunError> {
    writer.end(end.clone())?;
    Ok(Attempt::Ended(end))
}

/// How a trial ended, and what its lines tell.
struct Measured {
    end: End,
    seen: Seen,
    /// What the store acknowledged, to be read again.
    read_back: Option<ReadBack>,
}

/// The server and the table of a trial.
fn place_of(trial: &Trial) -> (String, String) {
    (trial.store.server().to_owned(), trial.schema.table.clone())
}

/// Reads again what a completed trial wrote, and returns the rows. A store that does not have it
/// answered wrongly.
async fn read_again(
    read_back: Option<ReadBack>,
    end: &mut End,
    writer: &mut TrialWriter,
    watch: &mut dyn Watch,
) -> Result<Earlier, ResultsError> {
    let Some(read_back) = read_back.filter(|_| end.outcome == Outcome::Completed) else {
        return Ok(Earlier::default());
    };
    let (lines, outcome, rows) = read_back.run().await;
    for line in lines {
        watch.line(&line);
        writer.write(&line)?;
    }
    end.outcome = outcome.unwrap_or(Outcome::Completed);
    Ok(rows)
}

enum Ready {
    Yes(Store),
    Not(Outcome),
    Stopped,
}

/// Whether the store of a step is in a steady state.
enum Warm {
    /// The store was in a steady state already.
    Yes,
    /// The store has just been warmed up; a note for the reader, if there is one.
    Now(Option<String>),
    /// It answered wrongly meanwhile.
    Not(Outcome),
    Stopped,
}

enum Loaded {
    Yes,
    Not(Outcome),
    Stopped,
}

/// The current time, RFC 3339.
pub fn now() -> String {
    let now = jiff::Timestamp::now();
    now.round(jiff::Unit::Second).unwrap_or(now).to_string()
}

/// The servers of a trial.
fn watched(up: &RunningStore, trial: &Trial) -> Watched {
    Watched { name: trial.store.label.clone(), pids: up.roots(), descendants: true }
}
