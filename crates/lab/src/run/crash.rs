//! Kills the servers of a store while it is written to, starts them again, and looks for the rows
//! that were acknowledged, whether inserted or updated: the last ones, which are lost first, and a
//! random sample of the others, and of the rows that were there before. A row is lost if it is not
//! there, or is as it was before an update that was acknowledged. A row that came back with another
//! content is a wrong answer.
//!
//! A killed process loses what it held in its own memory; what it gave to the system stays. So this
//! finds stores that acknowledge before they write at all. Loss by a failure of the machine is
//! larger, and is what the durability of a store says.

use std::collections::{HashSet, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::Notify;
use tokio::task::{JoinError, JoinHandle};

use super::{Measured, RunError, Runner, Store, Watch};
use crate::driver::stream::Sum;
use crate::driver::{
    Ability, Answer, Driver, Operation, Scans, Session, Settle, StoreError, StoreSpec,
};
use crate::load::{ReadBack, Sample, keys_before, rows_of};
use crate::results::{ACKNOWLEDGED_ROWS, End, LOST_ROWS, Line, Outcome, TrialWriter};
use crate::row::{Schema, Value};
use crate::servers::{Process, Signal};
use crate::stores;
use crate::trial::{Trial, Work};
use crate::workload::Opening;

/// Rows that are looked for: the last acknowledged ones, which are lost first.
const CHECKED_MAX: usize = 10_000;

/// Rows that are looked for besides, at random among all that were acknowledged, and as many among
/// those that were there before.
const SAMPLED_MAX: usize = 2_000;

/// Of rows that were written in batches, one in so many is looked for: a batch is lost as a whole,
/// and a log store reads a single row slowly.
const BATCHED_ROWS_PER_CHECKED: usize = 10;

/// A driver that remembers which rows were acknowledged.
pub struct Witness {
    driver: Arc<dyn Driver>,
    acknowledged: Arc<Mutex<Acknowledged>>,
    sample: Arc<Sample>,
    /// Notified when the first row is acknowledged.
    first: Arc<Notify>,
}

/// The rows that a store acknowledged.
#[derive(Debug, Clone, Default)]
pub struct Acknowledged {
    rows: usize,
    /// Those that were inserted, and not updated.
    inserted: usize,
    /// Rows that were sent to be inserted, whether or not they were acknowledged.
    sent: usize,
    /// Rows of the table before the first operation, if the store counts rows.
    rows_before: Option<u64>,
    /// The keys of the last ones, in the order of the acknowledgements.
    last: VecDeque<Value>,
    /// Keys of all of them, at random.
    sample: Vec<Value>,
    batched: bool,
}

impl Acknowledged {
    /// Their number; a row counts once for each write.
    pub fn rows(&self) -> usize {
        self.rows
    }

    fn add(&mut self, key: &Value) {
        self.rows += 1;
        if self.last.len() == CHECKED_MAX {
            self.last.pop_front();
        }
        self.last.push_back(key.clone());
    }

    /// The rows to look for.
    fn checked(&self) -> impl Iterator<Item = &Value> {
        let step = if self.batched { BATCHED_ROWS_PER_CHECKED } else { 1 };
        let mut known = HashSet::new();
        let all = self.last.iter().rev().step_by(step).chain(&self.sample);
        // A row may be updated again and again.
        all.filter(move |key| known.insert(*key))
    }
}

impl Witness {
    /// Watches `driver`.
    pub fn new(driver: Arc<dyn Driver>) -> Witness {
        let sample = Arc::new(Sample::of(SAMPLED_MAX));
        Witness { driver, acknowledged: Arc::default(), sample, first: Arc::default() }
    }

    /// Notes how many rows the table has before the first operation, if the store counts them.
    pub fn begin(&self, rows: Option<u64>) {
        self.acknowledged.lock().expect("nothing panics while it remembers").rows_before = rows;
    }

    /// What was acknowledged until now.
    pub fn acknowledged(&self) -> Acknowledged {
        let known = self.acknowledged.lock().expect("nothing panics while it remembers").clone();
        Acknowledged { sample: self.sample.keys(), ..known }
    }
}

#[async_trait]
impl Driver for Witness {
    fn abilities(&self) -> &'static [Ability] {
        self.driver.abilities()
    }

    async fn version(&self) -> Result<String, StoreError> {
        self.driver.version().await
    }

    fn versions_tested(&self) -> &'static [&'static str] {
        self.driver.versions_tested()
    }

    fn reads_own_writes(&self) -> bool {
        self.driver.reads_own_writes()
    }

    fn scans(&self) -> Scans {
        self.driver.scans()
    }

    async fn create(&self, schema: &Schema) -> Result<(), StoreError> {
        self.driver.create(schema).await
    }

    async fn settle(&self, schema: &Schema, settle: Settle) -> Result<(), StoreError> {
        self.driver.settle(schema, settle).await
    }

    async fn process(&self, schema: &Schema) -> Result<(), StoreError> {
        self.driver.process(schema).await
    }

    async fn table_bytes(&self, schema: &Schema) -> Result<Option<u64>, StoreError> {
        self.driver.table_bytes(schema).await
    }

    async fn arrived(&self, schema: &Schema) -> Result<Option<Sum>, StoreError> {
        self.driver.arrived(schema).await
    }

    async fn connect(&self, schema: &Schema) -> Result<Box<dyn Session>, StoreError> {
        let session = self.driver.connect(schema).await?;
        let (acknowledged, first) = (self.acknowledged.clone(), self.first.clone());
        Ok(Box::new(Watched { session, acknowledged, sample: self.sample.clone(), first }))
    }
}

struct Watched {
    session: Box<dyn Session>,
    acknowledged: Arc<Mutex<Acknowledged>>,
    sample: Arc<Sample>,
    first: Arc<Notify>,
}

#[async_trait]
impl Session for Watched {
    async fn execute(&mut self, operation: &Operation) -> Result<Answer, StoreError> {
        let (rows, updated) = match operation {
            Operation::Insert(row) => (std::slice::from_ref(row), None),
            Operation::InsertMany(rows) => (&rows[..], None),
            Operation::Update { key, .. } => (&[][..], Some(key)),
            _ => (&[][..], None),
        };
        self.acknowledged.lock().expect("nothing panics while it remembers").sent += rows.len();
        let answer = self.session.execute(operation).await?;
        let keys = || rows.iter().map(|row| &row.key).chain(updated);
        keys().for_each(|key| self.sample.add(key));
        let mut known = self.acknowledged.lock().expect("nothing panics while it remembers");
        let was_empty = known.rows == 0;
        keys().for_each(|key| known.add(key));
        known.inserted += rows.len();
        known.batched |= matches!(operation, Operation::InsertMany(_));
        if was_empty && known.rows > 0 {
            self.first.notify_one();
        }
        drop(known);
        Ok(answer)
    }
}

impl Runner<'_> {
    /// Sends the operations of a trial, kills the servers meanwhile, starts them again, and looks
    /// for the acknowledged rows; `None` if it was stopped.
    pub(super) async fn crash(
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
        // Without it the rows that are there afterwards are not compared in number.
        witness.begin(rows_of(&*store.driver, &trial.schema).await.unwrap_or_default());
        let watched = Store { driver: witness.clone(), up: store.up.clone() };
        let killer =
            kill_after(&up.roots(), witness.first.clone(), Duration::from_secs_f64(after_s));
        let measured = self.measure(&watched, trial, writer, watch).await?;
        let was_killed = killer.began();
        let none = witness.acknowledged().rows() == 0;
        let Some(Measured { end, read_back, .. }) = measured else { return Ok(None) };
        match &end.outcome {
            Outcome::Wrong { .. } | Outcome::NotSupported { .. } => return Ok(Some(end)),
            // What fails before the kill is no consequence of it.
            Outcome::Failed { .. } if !was_killed => return Ok(Some(end)),
            Outcome::Failed { .. } | Outcome::Completed => {}
        }
        let failed = |message: String| ended(Outcome::Failed { message }, end.seconds);
        if none {
            return failed("it acknowledged no row, so none could be lost".to_owned());
        }
        if let Err(error) = killer.ended().await {
            return failed(format!("its servers could not be killed: {error}"));
        }
        let up = match self.up(trial.store.server(), trial.nodes).await? {
            Ok(up) => up,
            Err(message) => {
                return failed(format!("it did not start again after it was killed: {message}"));
            }
        };
        let spec = StoreSpec { endpoints: up.endpoints, ..trial.store.clone() };
        let driver = match stores::open(&spec) {
            Ok(driver) => driver,
            Err(error) => return failed(error.to_string()),
        };
        match look_for(&*driver, trial, &witness.acknowledged(), read_back.as_ref()).await {
            Ok((lines, outcome)) => {
                for line in lines {
                    watch.line(&line);
                    writer.write(&line)?;
                }
                ended(outcome, end.seconds)
            }
            Err(error) => failed(format!("after it was killed: {error}")),
        }
    }
}

/// Kills the servers of one trial; dropping it keeps it from killing those of another.
struct Killer {
    task: JoinHandle<()>,
    began: Arc<AtomicBool>,
}

impl Killer {
    /// Whether the first process was killed.
    fn began(&self) -> bool {
        self.began.load(Ordering::SeqCst)
    }

    /// Waits until all are killed.
    async fn ended(mut self) -> Result<(), JoinError> {
        (&mut self.task).await
    }
}

impl Drop for Killer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Kills these processes and their descendants some time after the first acknowledged row.
fn kill_after(roots: &[u32], first: Arc<Notify>, after: Duration) -> Killer {
    let roots: Vec<Process> = roots.iter().copied().filter_map(Process::of).collect();
    let began = Arc::new(AtomicBool::new(false));
    let told = began.clone();
    let task = tokio::spawn(async move {
        first.notified().await;
        tokio::time::sleep(after).await;
        let pids: Vec<u32> =
            roots.iter().filter(|root| root.alive()).map(|root| root.pid).collect();
        let processes = crate::proc::trees(&pids).into_iter().filter_map(Process::of);
        // All are known before the first ends: its children would be those of another process.
        let processes: Vec<Process> = processes.collect();
        told.store(true, Ordering::SeqCst);
        for process in processes {
            process.signal(Signal::KILL);
        }
    });
    Killer { task, began }
}

/// Looks for acknowledged rows; `trial_read_back` knows their last updates. The lines have how many
/// were acknowledged, how many were looked for, how many of these are lost, how many rows there are
/// at all if the store counts them, and how many of all acknowledged rows are lost at least: those
/// that were looked for, with those of before the trial, or as many as there are fewer than were
/// inserted. A row with another content than was ever written is a wrong answer, and so are more
/// rows than were ever sent.
pub async fn look_for(
    driver: &dyn Driver,
    trial: &Trial,
    acknowledged: &Acknowledged,
    trial_read_back: Option<&ReadBack>,
) -> Result<(Vec<Line>, Outcome), StoreError> {
    let schema = &trial.schema;
    driver.settle(schema, Settle::Visible).await?;
    let mut session = driver.connect(schema).await?;
    let plan = match &trial.work {
        Work::Load { workload, .. } => workload.plan(schema, &Opening::of(trial.share)).ok(),
        Work::RealTime(_) => None,
    };
    let (mut checked, mut missing, mut outcome) = (0_u32, 0_u32, Outcome::Completed);
    let before = plan
        .as_ref()
        .map_or_else(Vec::new, |plan| keys_before(&**plan, SAMPLED_MAX, acknowledged.checked()));
    for key in acknowledged.checked().chain(&before) {
        let answer = session.execute(&Operation::Read { key: key.clone() }).await?;
        checked += 1;
        let Answer::Row(Some(row)) = answer else {
            missing += 1;
            continue;
        };
        let right = match row.key == *key {
            true => plan.as_ref().map_or(Ok(()), |plan| plan.verify(&row)),
            false => Err(format!("row {key}: got the row {}", row.key)),
        };
        if let Err(what) = right {
            outcome = Outcome::Wrong { message: format!("after it was killed: {what}") };
            break;
        }
        let is_last = trial_read_back.is_none_or(|known| known.is_as_acknowledged(&row));
        missing += u32::from(!is_last);
    }
    let value = |name: &str, value: f64| Line::Value { name: name.to_owned(), value };
    let mut lines = vec![
        value(ACKNOWLEDGED_ROWS, acknowledged.rows() as f64),
        value("checked_rows", f64::from(checked)),
        value("missing_rows", f64::from(missing)),
    ];
    let mut lost = f64::from(missing);
    if driver.abilities().contains(&Ability::Count) {
        let all = Operation::Count { conditions: Vec::new() };
        if let Answer::Count(found) = session.execute(&all).await? {
            lines.push(value("found_rows", found as f64));
            // There may be more: rows that were written, and not acknowledged in time.
            let before = acknowledged.rows_before.unwrap_or(0);
            lost = lost.max((before + acknowledged.inserted as u64) as f64 - found as f64);
            let most = before + acknowledged.sent as u64;
            if acknowledged.rows_before.is_some() && found > most && outcome == Outcome::Completed {
                let message = format!(
                    "after it was killed: it counts {found} rows, and {most} at most were ever written"
                );
                outcome = Outcome::Wrong { message };
            }
        }
    }
    lines.push(value(LOST_ROWS, lost));
    Ok((lines, outcome))
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::Command;

    use super::*;
    use crate::sending::Share;
    use crate::trial::Load;
    use crate::workload::{Phase, Workload, WorkloadPlan, ycsb};

    /// A store that has the rows of a workload, but for one.
    #[derive(Clone)]
    struct Lost {
        plan: Arc<dyn WorkloadPlan>,
        lost: Value,
    }

    #[async_trait]
    impl Driver for Lost {
        fn abilities(&self) -> &'static [Ability] {
            &[Ability::Read, Ability::Update]
        }

        async fn version(&self) -> Result<String, StoreError> {
            Ok("1".to_owned())
        }

        fn versions_tested(&self) -> &'static [&'static str] {
            &[]
        }

        async fn create(&self, _: &Schema) -> Result<(), StoreError> {
            Ok(())
        }

        async fn settle(&self, _: &Schema, _: Settle) -> Result<(), StoreError> {
            Ok(())
        }

        async fn table_bytes(&self, _: &Schema) -> Result<Option<u64>, StoreError> {
            Ok(None)
        }

        async fn connect(&self, _: &Schema) -> Result<Box<dyn Session>, StoreError> {
            Ok(Box::new(self.clone()))
        }
    }

    #[async_trait]
    impl Session for Lost {
        async fn execute(&mut self, operation: &Operation) -> Result<Answer, StoreError> {
            match operation {
                Operation::Read { key } if *key != self.lost => Ok(Answer::Row(self.plan.row(key))),
                Operation::Read { .. } => Ok(Answer::Row(None)),
                _ => Ok(Answer::Done),
            }
        }
    }

    #[tokio::test]
    async fn a_row_of_before_the_trial_that_a_kill_loses_is_counted() {
        let mut properties = ycsb::parse("core=a\nrecordcount=500");
        ycsb::expand(&mut properties).unwrap();
        let workload = Workload::Ycsb { phase: Phase::Run, properties };
        let load = Load {
            threads: 1,
            ramp_s: 0.0,
            operations: Some(1),
            operations_per_thread: None,
            seconds: None,
            target_per_s: None,
            warm_up_s: 0.0,
            batch_rows: 1,
            until_visible: false,
        };
        let trial = Trial::example("lost", workload.clone(), load);
        let plan = workload.plan(&trial.schema, &Opening::of(Share::default())).unwrap();
        let plan: Arc<dyn WorkloadPlan> = Arc::from(plan);
        // One row was updated, and another one is lost.
        let (updated, lost) = (plan.key_before(7).unwrap(), plan.key_before(8).unwrap());
        let mut acknowledged = Acknowledged::default();
        acknowledged.add(&updated);
        for (lost, found) in [(lost, 1.0), (Value::Text(String::new()), 0.0)] {
            let store = Lost { plan: plan.clone(), lost };
            let (lines, outcome) = look_for(&store, &trial, &acknowledged, None).await.unwrap();
            assert_eq!(outcome, Outcome::Completed);
            let value = |wanted: &str| {
                lines.iter().find_map(|line| match line {
                    Line::Value { name, value } if name == wanted => Some(*value),
                    _ => None,
                })
            };
            assert_eq!(value("checked_rows"), Some(500.0));
            assert_eq!(value(LOST_ROWS), Some(found));
        }
    }

    #[tokio::test]
    async fn a_kill_waits_for_the_first_acknowledged_row() {
        let mut server = Command::new("sleep").arg("infinity").spawn().unwrap();
        let kill = |first: &Arc<Notify>| kill_after(&[server.id()], first.clone(), Duration::ZERO);
        let first = Arc::new(Notify::new());
        // A trial without an acknowledged row ends, and its killer with it.
        drop(kill(&first));
        first.notify_one();
        let first = Arc::new(Notify::new());
        let killer = kill(&first);
        // Each turn of this thread lets the task of the killer go as far as it can.
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        assert!(!killer.began());
        assert_eq!(server.try_wait().unwrap(), None, "nothing was acknowledged");
        first.notify_one();
        killer.ended().await.unwrap();
        assert_eq!(server.wait().unwrap().signal(), Some(9));
    }
}
