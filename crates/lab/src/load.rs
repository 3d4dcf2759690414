//! Runs a trial: sends its operations to a driver, checks the answers, and emits the measurements
//! line by line.
//!
//! All connections are opened first and are not measured. Then every thread is a task with one
//! connection, in a closed ([`closed`]) or an open loop ([`open`]). Failures are handled as
//! follows. A failed operation is counted by kind, and the thread continues, with a new connection
//! if the old one broke; if none can be opened, or if more than half of all operations fail, the
//! trial fails: its numbers would be of the few that did not. So it does if more than one answer in
//! a hundred is none that the driver understands. A wrong answer ends it at once. An operation that
//! the store does not have makes it `NotSupported`. In every case the measurements so far are
//! emitted.
//!
//! Operations in flight at the end of the time are awaited and count, for at most
//! [`IN_FLIGHT_S_MAX`]. A stop takes effect within a second, without their answers.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use tokio::sync::{Notify, Semaphore, mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::{Duration, Instant, interval_at, sleep_until};

use crate::driver::stream::Sum;
use crate::driver::{Ability, Answer, Driver, Operation, Session, Settle, StoreError};
use crate::measure::process::{Sampler, Watched};
use crate::results::{
    End, Line, Outcome, PROCESSED_ROWS_PER_S, READ_BACK_PLANNED, READ_BACK_ROWS, WRITTEN_ROWS,
    WRITTEN_TEXT_BYTES,
};
use crate::trial::{Load, RealTime, Role, Trial, Work};
use crate::workload::{Earlier, Opening, Workload, WorkloadPlan, lines, logs};

mod closed;
mod open;
mod ramp;
mod read_back;
mod realtime;
mod recorder;
mod worker;

pub use open::Timer;
pub use read_back::{ReadBack, Sample, keys_before, rows_of};
use recorder::Recorder;
use worker::{Shared, Worker};

/// Whether the run has to stop (Ctrl-C): becomes `true`.
pub type Stop = watch::Receiver<bool>;

/// The channel of measured lines: bounded, so that a slow disk delays the measuring of resources
/// instead of filling memory.
pub type LineSender = mpsc::Sender<Line>;

/// Time limit for answers after the measured time; if a thread has none then, the trial fails.
pub const IN_FLIGHT_S_MAX: u64 = 60;

/// Time for threads to end by themselves once the trial is stopped or failed.
const HALT_GRACE: Duration = Duration::from_millis(500);

/// An open loop that leaves at least this share (one divided by it) of the scheduled operations
/// unsent gets a note in the report. A few are always due shortly before the end.
const UNSENT_PER_NOTED: u64 = 20;

/// Threads of a trial at most: each has a connection.
const THREADS_MAX: u32 = 65_536;

/// Acknowledged rows that are looked for right after a trial, and the time for it.
const LOOKED_FOR_MAX: usize = 200;
const LOOK_MAX: Duration = Duration::from_secs(1);

/// A first answer after a trial that takes [`LOOK_MAX`], and so many times as long as the next one,
/// gets a note in the report.
const CATCHING_UP: u32 = 10;

/// A trial fails if more than one of so many answers cannot be understood. An answer that is not
/// even wrong may be faster than a right one.
const UNDERSTOOD_MIN: u64 = 100;

/// Connections that are opened concurrently.
const CONNECTING_MAX: usize = 32;

/// The circumstances of a trial, which do not determine its operations.
pub struct Setting {
    /// Delays the start of the trial after its connections are open, so that several generators
    /// start together.
    pub gate: Option<Gate>,
    /// The timer that releases the operations of an open loop.
    pub timer: Timer,
    /// Processes whose resources are measured every second: the store's servers, if they run here,
    /// and this one.
    pub watched: Vec<Watched>,
    /// Whether the whole machine is measured too.
    pub host: bool,
    /// Where to leave what the trial acknowledged, so that it can be read back.
    pub read_back: Option<Arc<Mutex<Option<ReadBack>>>>,
    /// What rows of the table have, as far as earlier trials of this generator tell.
    pub earlier: Option<Arc<Earlier>>,
}

impl Default for Setting {
    fn default() -> Setting {
        Setting {
            gate: None,
            timer: Timer::System,
            watched: vec![Watched::generator()],
            host: true,
            read_back: None,
            earlier: None,
        }
    }
}

/// See [`Setting::gate`].
pub struct Gate {
    /// Notified when all connections are open.
    pub ready: oneshot::Sender<()>,
    /// Receives the delay until the start; if it is dropped, the trial is stopped.
    pub go: oneshot::Receiver<Duration>,
}

/// Runs `trial` on `driver` and sends its lines, without the header and the end, to `lines` while
/// it runs. Returns the outcome, or `None` if it was stopped (also if the receiver of the lines is
/// gone).
pub async fn run(
    driver: Arc<dyn Driver>,
    trial: &Trial,
    lines: LineSender,
    stop: Stop,
) -> Option<End> {
    run_in(Setting::default(), driver, trial, lines, stop).await
}

/// Like [`run`], with given circumstances.
pub async fn run_in(
    setting: Setting,
    driver: Arc<dyn Driver>,
    trial: &Trial,
    lines: LineSender,
    mut stop: Stop,
) -> Option<End> {
    let mut stop_seen = stop.clone();
    let read_back = setting.read_back.clone();
    let begun = tokio::select! {
        biased;
        () = stopped(&mut stop_seen) => return None,
        begun = begin(setting, driver, trial) => begun,
    };
    match begun {
        Ok(Some(running)) => {
            let shared = running.shared.clone();
            let end = running.watch(lines, &mut stop).await?;
            if let Some(place) = read_back.filter(|_| !shared.imagined) {
                *place.lock().expect("nothing panics here") = Some(ReadBack(shared));
            }
            Some(end)
        }
        Ok(None) => None,
        Err(outcome) => Some(End { outcome, seconds: 0.0 }),
    }
}

/// Returns once the run has to stop; never if the sender is gone.
pub(crate) async fn stopped(stop: &mut Stop) {
    if stop.wait_for(|stop| *stop).await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// Counts a thread as working while this exists.
struct AtWork(Arc<Shared>);

impl AtWork {
    fn new(shared: Arc<Shared>) -> AtWork {
        shared.active.fetch_add(1, Ordering::Relaxed);
        AtWork(shared)
    }
}

impl Drop for AtWork {
    fn drop(&mut self) {
        self.0.active.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What a trial does after its threads have ended.
enum After {
    /// Counts rows until all are found.
    Count(realtime::Counting),
    /// Waits until everything that was written is visible.
    Visible,
}

impl After {
    async fn run(self, shared: Arc<Shared>, lines: LineSender) {
        match self {
            After::Count(counting) => counting.run(shared, lines).await,
            After::Visible => match shared.driver.settle(&shared.schema, Settle::Visible).await {
                Ok(()) => {
                    let _ = shared.visible.set(Instant::now());
                    shared.has_all.store(true, Ordering::Relaxed);
                }
                Err(error) => shared.fail(format_args!("not everything is visible: {error}")),
            },
        }
    }
}

/// A trial with running threads.
struct Running {
    shared: Arc<Shared>,
    tasks: JoinSet<()>,
    due: Option<Arc<open::Due>>,
    /// What follows when all threads have ended.
    after: Option<After>,
    sampler: Sampler,
    /// What a reader has to know of its beginning.
    note: Option<String>,
}

/// Plans the trial, connects, and starts the threads. `None` if it was stopped before.
async fn begin(
    setting: Setting,
    driver: Arc<dyn Driver>,
    trial: &Trial,
) -> Result<Option<Running>, Outcome> {
    let failed = |message: String| Outcome::Failed { message };
    let (load, needs) = match &trial.work {
        Work::Load { workload, load } => {
            check_load(workload, load).map_err(failed)?;
            if load.until_visible && trial.share.of != 1 {
                return Err(failed(
                    "until_visible is for one generator: it waits for what it sent itself"
                        .to_owned(),
                ));
            }
            let mut needs = workload.needs();
            if load.batch_rows > 1 {
                needs.push(Ability::InsertMany);
            }
            (load.clone(), needs)
        }
        Work::RealTime(real) => {
            check_real_time(real, trial).map_err(failed)?;
            let mut needs = vec![Ability::Insert, Ability::Count];
            needs.extend((real.batch_rows > 1).then_some(Ability::InsertMany));
            (load_of(real), needs)
        }
    };
    let abilities = driver.abilities();
    if let Some(lacks) = needs.into_iter().find(|need| !abilities.contains(need)) {
        return Err(Outcome::NotSupported { ability: lacks.name().to_owned() });
    }
    let needs_inserts = trial.work.inserts();
    let threads = trial.share.part(load.threads.into()) as u32;
    let (plan, operations, after): (Box<dyn WorkloadPlan>, _, _) = match &trial.work {
        Work::Load { workload, .. } => {
            let operations = workload.operations_max(&load);
            let opening = Opening {
                seed: trial.seed,
                share: trial.share,
                batch_rows: load.batch_rows,
                operations,
                sees_writes: driver.reads_own_writes(),
                scans: driver.scans(),
                earlier: setting.earlier.clone(),
            };
            let plan = workload.plan(&trial.schema, &opening).map_err(|e| failed(e.to_string()))?;
            (plan, operations, load.until_visible.then_some(After::Visible))
        }
        Work::RealTime(real) => {
            let session = connect_all(&driver, trial, 1).await?.remove(0);
            let (writes, counting) = realtime::Writes::new(real, &trial.schema, session);
            (Box::new(writes), load.operations, Some(After::Count(counting)))
        }
    };
    let sessions = connect_all(&driver, trial, threads).await?;
    let imagined = trial.role == Role::Limit;
    let inserts = needs_inserts && !imagined && setting.read_back.is_some() && trial.share.of == 1;
    let counted = match inserts {
        true => read_back::rows_of(&*driver, &trial.schema).await,
        false => Ok(None),
    };
    // A store that cannot count so many rows in time is compared without that.
    let note = counted.as_ref().err().map(|error| {
        format!(
            "its rows were not counted before the trial, nor compared in number after it: {error}"
        )
    });
    let rows_before = counted.unwrap_or_default();
    if let Some(rows) = rows_before.filter(|rows| *rows < plan.rows_before()) {
        let loaded = plan.rows_before();
        return Err(Outcome::Wrong {
            message: format!("it counts {rows} rows before the trial, and {loaded} were loaded"),
        });
    }
    let streams = matches!(&trial.work, Work::Load { workload: Workload::LineStream { .. }, .. });
    let can_look = setting.read_back.is_some()
        && driver.abilities().contains(&Ability::Read)
        && !streams
        && !imagined;
    let looks = can_look && driver.reads_own_writes();
    // Of several nodes, one may lack for a while what another one has counted.
    let looks_for_all = can_look && trial.store.endpoints.len() == 1;
    let sampler = Sampler::new(setting.watched, setting.host);
    let start = match setting.gate {
        None => Instant::now(),
        Some(gate) => {
            let _ = gate.ready.send(());
            match gate.go.await {
                Ok(after) => Instant::now() + after,
                Err(_) => return Ok(None),
            }
        }
    };

    let measured_from = start + Duration::from_secs_f64(load.warm_up_s);
    let sees_writes = !imagined && driver.reads_own_writes();
    let shared = Arc::new(Shared {
        driver,
        schema: trial.schema.clone(),
        store: trial.store.name.clone(),
        rows_before,
        plan,
        imagined,
        sees_writes,
        recorder: Recorder::new(measured_from, threads),
        measured_from,
        until: load.seconds.map(|seconds| measured_from + Duration::from_secs_f64(seconds)),
        left: operations.map(|all| AtomicU64::new(trial.share.part(all))),
        each: load.operations_per_thread,
        halted: AtomicBool::new(false),
        broken: AtomicBool::new(false),
        active: AtomicU32::new(0),
        threads,
        rows: AtomicU64::new(0),
        text_bytes: AtomicU64::new(0),
        inserted: AtomicU64::new(0),
        unanswered: AtomicU64::new(0),
        sample: Sample::of(read_back::SAMPLE_ROWS),
        not_understood: AtomicU64::new(0),
        looks,
        looks_for_all,
        has_all: AtomicBool::new(false),
        parked: Mutex::default(),
        streamed: Mutex::default(),
        visible: OnceLock::new(),
        errors_in_a_row: AtomicU64::new(0),
        last_error: Mutex::default(),
        ended: Mutex::new(None),
        failed: Notify::new(),
    });
    let mut tasks = JoinSet::new();
    let due = load.target_per_s.map(|per_s| {
        let schedule =
            ramp::Schedule { begin: start, per_s, ramp_s: load.ramp_s, share: trial.share };
        Arc::new(open::Due::new(schedule, threads))
    });
    for (thread, session) in (0..).zip(sessions) {
        let worker = Worker::new(thread, shared.clone(), session);
        match &due {
            Some(due) => tasks.spawn(open::run(worker, start, due.clone())),
            None => {
                let start =
                    ramp::thread_start(start, load.ramp_s, load.threads, trial.share, thread);
                tasks.spawn(closed::run(worker, start))
            }
        };
    }
    if let Some(due) = &due
        && threads > 0
    {
        tokio::spawn(open::pace(shared.clone(), due.clone(), setting.timer));
    }
    Ok(Some(Running { shared, tasks, due, after, sampler, note }))
}

/// How the records of the real-time experiment are inserted.
fn load_of(real: &RealTime) -> Load {
    Load {
        threads: real.threads,
        ramp_s: 0.0,
        operations: Some(real.records.div_ceil(real.batch_rows.max(1).into())),
        operations_per_thread: None,
        seconds: None,
        target_per_s: Some(real.per_s / f64::from(real.batch_rows.max(1))),
        warm_up_s: 0.0,
        batch_rows: real.batch_rows,
        until_visible: false,
    }
}

fn check_real_time(real: &RealTime, trial: &Trial) -> Result<(), String> {
    if trial.share.of != 1 {
        return Err(
            "the real-time experiment is for one generator: its delay is one clock's".to_owned()
        );
    }
    if real.records == 0 || real.counts_max == 0 {
        return Err("records and counts_max: at least one of each is needed".to_owned());
    }
    if !(0.0..=3600.0).contains(&real.interval_s) {
        return Err("interval_s: it takes 0 to 3600 seconds".to_owned());
    }
    let shape = |columns: &[crate::row::Column]| -> Vec<_> {
        columns.iter().map(|column| (column.name.clone(), column.kind)).collect()
    };
    let known = [logs::schema("", false), lines::line::schema("")];
    if !known.iter().any(|known| shape(&trial.schema.columns) == shape(&known.columns)) {
        return Err(
            "the real-time experiment needs the columns of log records or of log lines".to_owned()
        );
    }
    check_numbers(&load_of(real))
}

/// Refuses invalid trials.
fn check_load(workload: &Workload, load: &Load) -> Result<(), String> {
    check_numbers(load)?;
    if load.seconds.is_none() && workload.operations(load).is_none() {
        return Err(
            "a load has no end: give operations, operations_per_thread or seconds".to_owned()
        );
    }
    Ok(())
}

fn check_numbers(load: &Load) -> Result<(), String> {
    let times = [
        ("ramp_s", Some(load.ramp_s)),
        ("warm_up_s", Some(load.warm_up_s)),
        ("seconds", load.seconds),
    ];
    for (name, value) in times {
        // A month is longer than any study, and short enough for every clock.
        if value.is_some_and(|value| !(0.0..=2_678_400.0).contains(&value)) {
            return Err(format!("{name}: it takes 0 to 2678400 seconds"));
        }
    }
    if !(1..=THREADS_MAX).contains(&load.threads) {
        return Err(format!("threads: it takes 1 to {THREADS_MAX}"));
    }
    if load.until_visible && load.warm_up_s > 0.0 {
        return Err("warm_up_s: rows of a warm-up cannot be told from those that are visible at \
                    the end; leave it out, or until_visible"
            .to_owned());
    }
    if load.target_per_s.is_some_and(|per_s| !(per_s.is_finite() && per_s >= 0.001)) {
        return Err("target_per_s: it takes a number from 0.001 on".to_owned());
    }
    Ok(())
}

async fn connect_all(
    driver: &Arc<dyn Driver>,
    trial: &Trial,
    threads: u32,
) -> Result<Vec<Box<dyn Session>>, Outcome> {
    let at_once = Arc::new(Semaphore::new(CONNECTING_MAX));
    let mut tasks = JoinSet::new();
    for _ in 0..threads {
        let (driver, at_once) = (driver.clone(), at_once.clone());
        let (schema, store) = (trial.schema.clone(), trial.store.name.clone());
        tasks.spawn(async move {
            let _permit = at_once.acquire().await;
            worker::connect(&*driver, &schema, &store).await
        });
    }
    let mut sessions = Vec::with_capacity(threads as usize);
    while let Some(joined) = tasks.join_next().await {
        match joined.map_err(panicked) {
            Ok(Ok(session)) => sessions.push(session),
            Ok(Err(error)) => {
                let message = format!(
                    "connection {} of {threads}: {error}. Is {} running, and does it take so many connections?",
                    sessions.len() + 1,
                    trial.store.name
                );
                return Err(Outcome::Failed { message });
            }
            Err(message) => return Err(Outcome::Failed { message }),
        }
    }
    Ok(sessions)
}

/// The message for a task that panicked. Only its trial fails: the run continues, because it has to
/// stop its servers at the end.
fn panicked(error: tokio::task::JoinError) -> String {
    format!("a thread of the generator ended by a fault of the lab or of a client library: {error}")
}

impl Running {
    /// Sends lines every second until all threads have ended.
    async fn watch(mut self, lines: LineSender, stop: &mut Stop) -> Option<End> {
        let shared = self.shared.clone();
        for text in shared.plan.notes().into_iter().chain(self.note.take()) {
            let _ = lines.send(Line::Note { text }).await;
        }
        // The first tick begins the measured part, each further one ends a second of it.
        let mut seconds = interval_at(shared.measured_from, Duration::from_secs(1));
        let mut second = None;
        // Threads that still run at this moment are given up.
        let mut given_up_at =
            shared.until.map(|until| until + Duration::from_secs(IN_FLIGHT_S_MAX));
        let (mut was_stopped, mut has_failed) = (false, false);
        loop {
            let give_up = async {
                match given_up_at {
                    Some(at) => sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = stopped(stop), if !was_stopped => was_stopped = true,
                () = shared.failed.notified(), if !has_failed => has_failed = true,
                joined = self.tasks.join_next() => match joined {
                    None => match self.after.take() {
                        Some(after) if !shared.halted.load(Ordering::Relaxed) => {
                            // All operations are answered. What follows has limits of its own.
                            given_up_at = None;
                            self.tasks.spawn(after.run(shared.clone(), lines.clone()));
                            continue;
                        }
                        _ => break,
                    },
                    Some(joined) => {
                        if let Err(panic) = joined.map_err(panicked) {
                            shared.fail(panic);
                        }
                        continue;
                    }
                },
                () = give_up => {
                    if !was_stopped && !has_failed {
                        shared.fail(format_args!(
                            "{} did not answer {} operations within {IN_FLIGHT_S_MAX} s after the end",
                            shared.store,
                            shared.active.load(Ordering::Relaxed)
                        ));
                    }
                    self.tasks.abort_all();
                    given_up_at = None;
                    continue;
                }
                now = seconds.tick() => {
                    let threads = shared.active.load(Ordering::Relaxed);
                    let mut over: Vec<Line> =
                        shared.recorder.over(now, threads).into_iter().map(Line::Second).collect();
                    match second {
                        None => self.sampler.restart(),
                        Some(second) => {
                            over.extend(self.sampler.sample(second).into_iter().map(Line::Resource));
                        }
                    }
                    second = Some(second.map_or(0, |second| second + 1));
                    if !send(&lines, over).await {
                        was_stopped = true;
                    } else {
                        continue;
                    }
                }
            }
            // Stopped or failed: threads may finish their operation in flight, if that is soon.
            shared.halted.store(true, Ordering::Relaxed);
            if let Some(due) = &self.due {
                due.close();
            }
            given_up_at = Some(Instant::now() + HALT_GRACE);
        }
        let rest = shared.recorder.rest(shared.active.load(Ordering::Relaxed));
        let mut rest: Vec<Line> = rest.into_iter().map(Line::Second).collect();
        // The last second is usually incomplete; without it the processor time of a short trial
        // would be too low.
        if let Some(second) = second {
            rest.extend(self.sampler.sample(second).into_iter().map(Line::Resource));
        }
        send(&lines, rest).await;
        if was_stopped {
            return None;
        }
        for (name, value) in
            [(WRITTEN_ROWS, &shared.rows), (WRITTEN_TEXT_BYTES, &shared.text_bytes)]
        {
            let value = value.load(Ordering::Relaxed) as f64;
            if value > 0.0 {
                let _ = lines.send(Line::Value { name: name.to_owned(), value }).await;
            }
        }
        let rest = async {
            let is_settled = shared.visible.get().is_some();
            if !is_settled {
                look_at_once(&shared, &lines).await;
            }
            shared.parked.lock().expect("nothing panics while it is held").clear();
            process(&shared, &lines).await;
            if is_settled {
                // Not before, because the time of what is processed is measured.
                look_at_once(&shared, &lines).await;
            }
            compare_streams(&shared, &lines).await;
        };
        tokio::select! {
            biased;
            () = stopped(stop) => return None,
            () = rest => {}
        }
        let last = shared.visible.get().copied().or_else(|| shared.recorder.last(shared.until));
        let last = last.unwrap_or(shared.measured_from);
        let seconds = (last - shared.measured_from).as_secs_f64();
        if let Some(due) = &self.due {
            say_unsent(&shared, due, &lines).await;
        }
        let (right, errors) = shared.recorder.totals();
        if errors > right {
            let last = shared.last_error.lock().expect("nothing panics here").take();
            shared.fail(format_args!(
                "{errors} of {} operations failed, the last with: {}",
                errors + right,
                last.as_deref().unwrap_or("an answer without the row that was asked for")
            ));
        }
        let not_understood = shared.not_understood.load(Ordering::Relaxed);
        if not_understood * UNDERSTOOD_MIN > right + errors && !shared.imagined {
            let last = shared.last_error.lock().expect("nothing panics here").take();
            shared.fail(format_args!(
                "{not_understood} of {} answers were not understood; the last error: {}",
                right + errors,
                last.as_deref().unwrap_or("none")
            ));
        }
        if right + errors == 0 && shared.threads > 0 && !shared.all_taken() {
            shared.fail(format_args!(
                "none of its operations was answered in the measured time: its {} threads waited for earlier ones",
                shared.threads
            ));
        }
        let outcome = shared.ended.lock().expect("nothing panics here").take();
        Some(End { outcome: outcome.unwrap_or(Outcome::Completed), seconds })
    }
}

/// Waits until what is visible is also processed, and says how many rows a second that was.
async fn process(shared: &Shared, lines: &LineSender) {
    if shared.visible.get().is_none() {
        return;
    }
    if let Err(error) = shared.driver.process(&shared.schema).await {
        return shared.fail(format_args!("what is visible is not processed: {error}"));
    }
    let seconds = (Instant::now() - shared.measured_from).as_secs_f64();
    let (name, rows) = (PROCESSED_ROWS_PER_S.to_owned(), shared.rows.load(Ordering::Relaxed));
    if rows > 0 && seconds > 0.0 {
        let _ = lines.send(Line::Value { name, value: rows as f64 / seconds }).await;
    }
}

/// Looks for acknowledged rows before anything else is asked of the store, if it promises that they
/// are there at once, or has said that all are there. Compares them with what was acknowledged
/// last: a store that applies its inserts or updates later has the wrong rate, or the wrong delay,
/// and all of them by the time they are [read back](read_back).
async fn look_at_once(shared: &Shared, lines: &LineSender) {
    let has_all = shared.looks_for_all && shared.has_all.load(Ordering::Relaxed);
    if !(shared.looks || has_all) || shared.halted.load(Ordering::Relaxed) {
        return;
    }
    if let Err(error) = look(shared, has_all, lines).await {
        shared.fail(format_args!("what it acknowledged cannot be read after the trial: {error}"));
    }
}

async fn look(shared: &Shared, has_all: bool, lines: &LineSender) -> Result<(), StoreError> {
    let until = Instant::now() + LOOK_MAX;
    let mut keys = shared.sample.keys();
    keys.truncate(LOOKED_FOR_MAX);
    if keys.is_empty() {
        return Ok(());
    }
    let mut session = worker::connect(&*shared.driver, &shared.schema, &shared.store).await?;
    // The first answer to a client that is a program of its own takes long in any case.
    let is_compared = !shared.driver.has_client_program();
    let mut first = Duration::ZERO;
    for (at, key) in keys.into_iter().enumerate() {
        let begun = Instant::now();
        // The times of the first two answers are compared.
        if at > 1 && begun >= until {
            break;
        }
        let answer = session.execute(&Operation::Read { key: key.clone() }).await?;
        let took = begun.elapsed();
        match at {
            0 => first = took,
            1 if is_compared && first >= LOOK_MAX && first >= took * CATCHING_UP => {
                let text = format!(
                    "its first answer after the trial took {:.1} s, and the next one {:.3} s: it may have done then what it had acknowledged before",
                    first.as_secs_f64(),
                    took.as_secs_f64()
                );
                let _ = lines.send(Line::Note { text }).await;
            }
            _ => {}
        }
        let wrong = match answer {
            Answer::Row(None) if has_all => format!(
                "it said that all acknowledged rows are there, and the row {key} is not there right after that"
            ),
            Answer::Row(None) => {
                format!("the row {key} was acknowledged, and is not there right after the trial")
            }
            Answer::Row(Some(row)) if row.key == key => match shared.plan.verify_last(&row) {
                Ok(()) => continue,
                Err(what) => format!("read right after the trial: {what}"),
            },
            other => format!("read right after the trial: row {key}: got {other:?}"),
        };
        shared.end(Outcome::Wrong { message: wrong });
        break;
    }
    Ok(())
}

/// Compares what was handed over with what arrived; the trial is wrong if they differ. A trial that
/// has failed has no number: a store that never ends its work would be waited for without end.
async fn compare_streams(shared: &Shared, lines: &LineSender) {
    let sent = *shared.streamed.lock().expect("nothing panics here");
    let is_over = shared.visible.get().is_none() || shared.halted.load(Ordering::Relaxed);
    if is_over || sent == Sum::default() {
        return;
    }
    if shared.broken.load(Ordering::Relaxed) {
        return shared.fail("a connection broke, so nobody knows which lines should have arrived");
    }
    match shared.driver.arrived(&shared.schema).await {
        Ok(Some(arrived)) => {
            if let Some(message) = sent.difference(&arrived) {
                shared.end(Outcome::Wrong { message });
            }
        }
        Ok(None) if shared.imagined => {}
        Ok(None) => {
            let text = "lines that arrived were counted by the store itself, and not compared";
            let _ = lines.send(Line::Note { text: text.to_owned() }).await;
            // The report doubts a trial of which nothing was read again.
            for (name, value) in [(READ_BACK_PLANNED, sent.lines as f64), (READ_BACK_ROWS, 0.0)] {
                let _ = lines.send(Line::Value { name: name.to_owned(), value }).await;
            }
        }
        Err(error) => shared.fail(format_args!("what arrived cannot be read: {error}")),
    }
}

/// Reports how many operations of an open loop were due before the end and were not sent. The pacer
/// always has a few at that moment, so this alone does not show that the rate was missed: the
/// report compares the rates.
async fn say_unsent(shared: &Shared, due: &open::Due, lines: &LineSender) {
    // More than the number of operations may have been due: the schedule has no end.
    let unsent = due.unsent().min(shared.not_taken());
    // If a number of operations ended the trial early, more were due by then only because the pacer
    // was ahead.
    if unsent == 0 || shared.until.is_none_or(|until| Instant::now() < until) {
        return;
    }
    let (name, value) = ("unsent_operations".to_owned(), unsent as f64);
    let _ = lines.send(Line::Value { name, value }).await;
    let scheduled = due.scheduled();
    if unsent * UNSENT_PER_NOTED < scheduled {
        return;
    }
    let text = format!(
        "{unsent} of {scheduled} scheduled operations were not sent before the end: with {} threads fewer \
         operations ended per second than the schedule has",
        shared.threads
    );
    let _ = lines.send(Line::Note { text }).await;
}

/// Whether the receiver of the lines still exists.
async fn send(lines: &LineSender, over: Vec<Line>) -> bool {
    for line in over {
        if lines.send(line).await.is_err() {
            return false;
        }
    }
    true
}

#[cfg(test)]
mod tests;
