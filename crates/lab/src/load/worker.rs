//! One thread of load: a connection, its steps, and the handling of answers.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use tokio::sync::Notify;
use tokio::time::{Duration, Instant};

use super::read_back::Sample;
use super::recorder::Recorder;
use crate::driver::stream::Sum;
use crate::driver::{Driver, Operation, Session, StoreError};
use crate::results::Outcome;
use crate::row::{Row, Schema};
use crate::workload::{self, Request, Step, Steps, Verdict, WorkloadPlan};

/// Time limit for a connection; beyond it the trial fails.
pub const CONNECT_S_MAX: u64 = 30;

/// Consecutive errors, per thread, after which the trial fails: the store is full or gone.
const ERRORS_IN_A_ROW_PER_THREAD: u64 = 20;

/// The state that the threads of one trial share.
pub struct Shared {
    /// Opens sessions.
    pub driver: Arc<dyn Driver>,
    /// The table.
    pub schema: Schema,
    /// Name of the store, for messages.
    pub store: String,
    /// The operations and their right answers.
    pub plan: Box<dyn WorkloadPlan>,
    /// Whether a sink stands in the place of the store: right answers are taken for its own.
    pub imagined: bool,
    /// Whether a read sees every write that was acknowledged before.
    pub sees_writes: bool,
    /// The measurements.
    pub recorder: Recorder,
    /// The beginning of the measured part.
    pub measured_from: Instant,
    /// Its end, if time ends it.
    pub until: Option<Instant>,
    /// Remaining operations, if their number ends it.
    pub left: Option<AtomicU64>,
    /// Operations per thread, if their number ends it.
    pub each: Option<u64>,
    /// Set when no further operation may be sent.
    pub halted: AtomicBool,
    /// Set when an operation failed, so that nobody knows whether the store has its rows.
    pub broken: AtomicBool,
    /// Threads at work.
    pub active: AtomicU32,
    /// Threads of this generator.
    pub threads: u32,
    /// Rows that were written in batches.
    pub rows: AtomicU64,
    /// Their size as lines of text.
    pub text_bytes: AtomicU64,
    /// Rows that the store counted before the trial.
    pub rows_before: Option<u64>,
    /// Rows whose insert was acknowledged, in the warm-up too.
    pub inserted: AtomicU64,
    /// Rows whose insert failed: they may be there.
    pub unanswered: AtomicU64,
    /// Acknowledged rows that are read again after the trial.
    pub sample: Sample,
    /// Operations of the measured time whose answers nobody understands.
    pub not_understood: AtomicU64,
    /// Whether acknowledged rows are looked for right after the trial.
    pub looks: bool,
    /// Whether they are looked for once the store has said that all of them are there.
    pub looks_for_all: bool,
    /// Whether it has said that, by a count or by settling.
    pub has_all: AtomicBool,
    /// Sessions of threads that have ended, until rows are looked for: a store may apply its writes
    /// when their connection is closed.
    pub parked: Mutex<Vec<Box<dyn Session>>>,
    /// Lines that were handed over, in the warm-up too.
    pub streamed: Mutex<Sum>,
    /// When everything that was written was visible, if the trial lasts until then.
    pub visible: OnceLock<Instant>,
    /// Errors since the last right answer.
    pub errors_in_a_row: AtomicU64,
    /// The last error.
    pub last_error: Mutex<Option<String>>,
    /// Why the trial ended, if not normally.
    pub ended: Mutex<Option<Outcome>>,
    /// Notified once `ended` is set.
    pub failed: Notify,
}

impl Shared {
    /// Ends the trial; the first reason is kept.
    pub fn end(&self, outcome: Outcome) {
        self.ended.lock().expect("nothing panics here").get_or_insert(outcome);
        self.halted.store(true, Ordering::Relaxed);
        self.failed.notify_one();
    }

    /// Ends the trial because the store failed.
    pub fn fail(&self, message: impl std::fmt::Display) {
        self.end(Outcome::Failed { message: message.to_string() });
    }

    /// Whether threads have taken all operations of a trial that ends with their number.
    pub fn all_taken(&self) -> bool {
        self.not_taken() == 0
    }

    /// Operations that no thread has taken yet; `u64::MAX` without a number of operations.
    pub fn not_taken(&self) -> u64 {
        self.left.as_ref().map_or(u64::MAX, |left| left.load(Ordering::Relaxed))
    }

    /// Whether one more operation, due at `due`, may be sent at `now`; counts it as sent.
    fn take(&self, due: Instant, now: Instant) -> bool {
        if self.halted.load(Ordering::Relaxed) || self.until.is_some_and(|until| now >= until) {
            return false;
        }
        match &self.left {
            Some(left) if due >= self.measured_from => left
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1))
                .is_ok(),
            _ => true,
        }
    }
}

/// Connects within [`CONNECT_S_MAX`].
pub async fn connect(
    driver: &dyn Driver,
    schema: &Schema,
    store: &str,
) -> Result<Box<dyn Session>, StoreError> {
    let limit = Duration::from_secs(CONNECT_S_MAX);
    match tokio::time::timeout(limit, driver.connect(schema)).await {
        Ok(result) => result,
        Err(_) => Err(StoreError::Timeout { store: store.to_owned(), seconds: CONNECT_S_MAX }),
    }
}

/// One thread.
pub struct Worker {
    /// Its number in this generator, from 0.
    pub thread: u32,
    /// The shared state.
    pub shared: Arc<Shared>,
    /// There is one until the thread ends.
    session: Option<Box<dyn Session>>,
    steps: Box<dyn Steps>,
    sent: u64,
}

impl Drop for Worker {
    fn drop(&mut self) {
        if let Some(session) = self.session.take().filter(|_| self.shared.looks) {
            self.shared.parked.lock().expect("nothing panics while it is held").push(session);
        }
    }
}

impl Worker {
    /// Creates the thread with its connection.
    pub fn new(thread: u32, shared: Arc<Shared>, session: Box<dyn Session>) -> Worker {
        let steps = shared.plan.steps(thread);
        Worker { thread, shared, session: Some(session), steps, sent: 0 }
    }

    /// Whether this thread has sent all its operations.
    pub fn finished(&self) -> bool {
        self.shared.each.is_some_and(|each| self.sent >= each)
    }

    /// When the next step is due; `None` for at once.
    pub fn due(&mut self) -> Option<Instant> {
        self.steps.due().map(|after| self.shared.measured_from + after)
    }

    /// The next step, due at `due`, if one more may be sent at `now`.
    pub fn next(&mut self, due: Instant, now: Instant) -> Option<Step> {
        if self.finished() || !self.shared.take(due, now) {
            return None;
        }
        if due >= self.shared.measured_from {
            self.sent += 1;
        }
        self.steps.next()
    }

    /// Sends a step that was due at `due`. Breaks if the trial cannot continue.
    pub async fn perform(&mut self, step: Step, due: Instant) -> ControlFlow<()> {
        let right = self.request(&step.request, due).await?;
        let Some(then) = step.then else { return ControlFlow::Continue(()) };
        if right && self.request(&then.request, Instant::now()).await? {
            let now = Instant::now();
            if due >= self.shared.measured_from {
                self.shared.recorder.right(self.thread, then.label, now, now - due);
            }
        }
        ControlFlow::Continue(())
    }

    /// Sends one request; returns whether the answer was right.
    async fn request(&mut self, request: &Request, due: Instant) -> ControlFlow<(), bool> {
        let session = self.session.as_mut().expect("the thread has not ended");
        let answer = session.execute(&request.operation).await;
        let now = Instant::now();
        let right = match answer {
            Ok(answer) => {
                let answer = if self.shared.imagined {
                    workload::right_answer(&*self.shared.plan, request)
                } else {
                    answer
                };
                match workload::check(&*self.shared.plan, request, &answer) {
                    Verdict::Right => {
                        let right = match self.shared.imagined {
                            true => Ok(()),
                            false => self.steps.compare(request, &answer),
                        };
                        if let Err(what) = right {
                            return self.wrong(request, due, now, &what);
                        }
                        true
                    }
                    Verdict::Missing if self.shared.sees_writes => {
                        let what = "got no row, although its insert was acknowledged";
                        return self.wrong(request, due, now, what);
                    }
                    Verdict::Missing => {
                        self.error(request, due, now, "missing");
                        false
                    }
                    Verdict::Wrong(message) => {
                        self.error(request, due, now, "wrong");
                        self.shared.end(Outcome::Wrong { message });
                        return ControlFlow::Break(());
                    }
                }
            }
            Err(error) => {
                self.error(request, due, now, error.kind());
                if matches!(error, StoreError::Answer { .. }) && due >= self.shared.measured_from {
                    self.shared.not_understood.fetch_add(1, Ordering::Relaxed);
                }
                self.shared.broken.store(true, Ordering::Relaxed);
                self.shared.unanswered.fetch_add(inserted(request).len() as u64, Ordering::Relaxed);
                self.steps.ended(request, false);
                self.after_error(error).await?;
                return ControlFlow::Continue(false);
            }
        };
        self.steps.ended(request, right);
        self.acknowledged(request);
        if let Operation::Stream(block) = &request.operation {
            *self.shared.streamed.lock().expect("nothing panics here") += block.sum();
        }
        if right {
            if self.shared.errors_in_a_row.load(Ordering::Relaxed) > 0 {
                self.shared.errors_in_a_row.store(0, Ordering::Relaxed);
            }
            if due >= self.shared.measured_from {
                self.shared.recorder.right(self.thread, request.label, now, now - due);
                let (rows, text_bytes) = match &request.operation {
                    Operation::InsertMany(rows) => {
                        (rows.len() as u64, rows.iter().map(Row::text_bytes).sum())
                    }
                    Operation::Stream(block) => (block.sum().lines, block.sum().bytes),
                    _ => (0, 0),
                };
                self.shared.rows.fetch_add(rows, Ordering::Relaxed);
                self.shared.text_bytes.fetch_add(text_bytes, Ordering::Relaxed);
            }
        }
        ControlFlow::Continue(right)
    }

    /// Remembers what the store acknowledged.
    fn acknowledged(&self, request: &Request) {
        if self.shared.imagined {
            return;
        }
        let rows = inserted(request);
        self.shared.inserted.fetch_add(rows.len() as u64, Ordering::Relaxed);
        rows.iter().for_each(|row| self.shared.sample.add(&row.key));
        if let Operation::Update { key, .. } = &request.operation {
            self.shared.sample.add(key);
        }
    }

    /// Ends the trial because of an answer that is wrong by what the store acknowledged before.
    fn wrong(
        &self,
        request: &Request,
        due: Instant,
        now: Instant,
        what: &str,
    ) -> ControlFlow<(), bool> {
        self.error(request, due, now, "wrong");
        let message =
            format!("{} {}: {what}", request.label, workload::in_words(&request.operation));
        self.shared.end(Outcome::Wrong { message });
        ControlFlow::Break(())
    }

    fn error(&self, request: &Request, due: Instant, now: Instant, kind: &'static str) {
        if due >= self.shared.measured_from {
            self.shared.recorder.error(self.thread, request.label, now, kind);
        }
    }

    /// Continues after an error, with a new connection if the old one broke, unless the store is
    /// gone.
    async fn after_error(&mut self, error: StoreError) -> ControlFlow<()> {
        let shared = &self.shared;
        if let StoreError::NotSupported { ability, .. } = error {
            shared.end(Outcome::NotSupported { ability: ability.name().to_owned() });
            return ControlFlow::Break(());
        }
        *shared.last_error.lock().expect("nothing panics here") = Some(error.to_string());
        let in_a_row = shared.errors_in_a_row.fetch_add(1, Ordering::Relaxed) + 1;
        if in_a_row >= ERRORS_IN_A_ROW_PER_THREAD * u64::from(shared.threads) {
            shared.fail(format_args!(
                "{in_a_row} operations in a row failed, the last with: {error}. Look into the log of {}, mend it, and resume with --retry-failed",
                shared.store
            ));
            return ControlFlow::Break(());
        }
        if let StoreError::Unreachable { .. } = error {
            match connect(&*shared.driver, &shared.schema, &shared.store).await {
                Ok(session) => self.session = Some(session),
                Err(again) => {
                    shared.fail(format_args!(
                        "{error}; and a new connection: {again}. Start {} again, and resume with --retry-failed",
                        shared.store
                    ));
                    return ControlFlow::Break(());
                }
            }
        }
        ControlFlow::Continue(())
    }
}

/// The rows that a request inserts.
fn inserted(request: &Request) -> &[Row] {
    match &request.operation {
        Operation::Insert(row) => std::slice::from_ref(row),
        Operation::InsertMany(rows) => rows,
        _ => &[],
    }
}
