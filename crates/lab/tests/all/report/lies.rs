//! Planted lies: each has to be named in the report.
//!
//! The stores here are drivers that know every record of the study without storing it; they are
//! measured by the same code as real ones, on a simulated clock.

use std::collections::HashSet;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use super::simulated::Simulated;
use async_trait::async_trait;
use lab::driver::{Ability, Answer, Driver, Operation, Session, Settle, StoreError};
use lab::report::{self, markdown};
use lab::results::{Directory, End, Header, Line, Outcome};
use lab::row::{Schema, Value};
use lab::run::{Witness, look_for};
use lab::trial::{Load, Role, Trial, Work};
use lab::workload::{Workload, logs};
use tokio::sync::{mpsc, watch};
use tokio::time::{Duration, Instant, sleep, sleep_until};

/// Records of the table.
const RECORDS: u64 = 100_000;

/// A store: how long an operation takes, and what it does wrong.
#[derive(Clone)]
struct Store {
    takes: Duration,
    /// Every so many reads another message is returned.
    lies_every: Option<u64>,
    /// It stands still from the first to the second moment.
    pause: Option<(Instant, Instant)>,
    /// From this moment on an operation takes twice as long.
    throttled: Option<Instant>,
    /// Inserts are kept once there are so many.
    forgets_up_to: usize,
    /// A kill of its process doubles its rows.
    doubles: bool,
    reads: Arc<AtomicU64>,
    kept: Arc<Mutex<Kept>>,
}

#[derive(Default)]
struct Kept {
    safe: HashSet<Value>,
    unsafe_yet: Vec<Value>,
    /// Rows that are there once more.
    doubled: usize,
}

impl Store {
    fn honest(takes: Duration) -> Store {
        Store {
            takes,
            lies_every: None,
            pause: None,
            throttled: None,
            forgets_up_to: 1,
            doubles: false,
            reads: Arc::default(),
            kept: Arc::default(),
        }
    }

    /// What a kill of its process does.
    fn kill(&self) {
        let mut kept = self.kept.lock().unwrap();
        kept.unsafe_yet.clear();
        if self.doubles {
            kept.doubled = kept.safe.len();
        }
    }
}

#[async_trait]
impl Driver for Store {
    fn abilities(&self) -> &'static [Ability] {
        &[Ability::Insert, Ability::Read, Ability::Count]
    }

    async fn version(&self) -> Result<String, StoreError> {
        Ok("1".to_owned())
    }

    fn versions_tested(&self) -> &'static [&'static str] {
        &["1"]
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
impl Session for Store {
    async fn execute(&mut self, operation: &Operation) -> Result<Answer, StoreError> {
        sleep(self.takes).await;
        if self.throttled.is_some_and(|from| Instant::now() >= from) {
            sleep(self.takes).await;
        }
        if let Some((from, until)) = self.pause
            && (from..until).contains(&Instant::now())
        {
            sleep_until(until).await;
        }
        match operation {
            Operation::Insert(row) => {
                let mut kept = self.kept.lock().unwrap();
                kept.unsafe_yet.push(row.key.clone());
                if kept.unsafe_yet.len() >= self.forgets_up_to {
                    let safe = std::mem::take(&mut kept.unsafe_yet);
                    kept.safe.extend(safe);
                }
                Ok(Answer::Done)
            }
            Operation::Read { key } => {
                let kept = self.kept.lock().unwrap();
                let has = kept.safe.contains(key) || kept.unsafe_yet.contains(key);
                let is_there = has || kept.safe.is_empty();
                let row = logs::row_of(&logs::cycles(RECORDS), key).filter(|_| is_there);
                let number = self.reads.fetch_add(1, Ordering::Relaxed) + 1;
                let lies = self.lies_every.is_some_and(|every| number.is_multiple_of(every));
                Ok(Answer::Row(row.map(|mut row| {
                    if lies {
                        *row.values.last_mut().unwrap() = Value::Text("never written".to_owned());
                    }
                    row
                })))
            }
            Operation::Count { .. } => {
                let kept = self.kept.lock().unwrap();
                let rows = kept.safe.len() + kept.unsafe_yet.len() + kept.doubled;
                Ok(Answer::Count(rows as u64))
            }
            _ => panic!("no workload of these tests sends {operation:?}"),
        }
    }
}

/// Measures a store, and writes the result like a run.
struct Study {
    directory: Directory,
    order: u32,
}

impl Study {
    fn new(path: &Path, stores: &[&str]) -> Study {
        Simulated::new(path, "study1", "smoke", stores, 1);
        Study { directory: Directory::open(path).unwrap().0, order: 0 }
    }

    async fn measure(
        &mut self,
        (label, store): (&str, Store),
        (role, repetition): (Role, u32),
        (workload, load): (Workload, Load),
    ) {
        let mut trial: Trial = trial(label, role, workload, load);
        trial.repetition = repetition;
        let mut lines = measured(Arc::new(store), &trial).await;
        let end = lines.pop().unwrap();
        self.write(trial, lines, end);
    }

    fn write(&mut self, trial: Trial, lines: Vec<Line>, end: Line) {
        self.order += 1;
        let mut file = self.directory.begin(&format!("{:04}", self.order)).unwrap();
        let started = "2026-01-02T03:04:05Z".to_owned();
        let header = Header { trial, order: self.order, started };
        file.write(&Line::Header(Box::new(header))).unwrap();
        for line in &lines {
            file.write(line).unwrap();
        }
        let Line::End(end) = end else { panic!("{end:?}") };
        file.end(end).unwrap();
    }

    fn report(&self) -> String {
        let summary = report::read(self.directory.path()).unwrap();
        markdown::write(&report::document(&summary, None))
    }
}

fn trial(label: &str, role: Role, workload: Workload, load: Load) -> Trial {
    let text = serde_json::json!({
        "experiment": "reads",
        "role": "measure",
        "store": { "name": label, "label": label, "endpoints": [] },
        "nodes": 1,
        "schema": logs::schema("log", false),
        "work": Work::Load { workload, load },
        "repetition": 1,
        "seed": 1,
    });
    Trial { role, ..serde_json::from_value(text).unwrap() }
}

/// The lines of a trial, the end last.
async fn measured(driver: Arc<dyn Driver>, trial: &Trial) -> Vec<Line> {
    let (sender, mut receiver) = mpsc::channel(1_024);
    let (_stop, stopped) = watch::channel(false);
    let collect = async {
        let mut lines = Vec::new();
        while let Some(line) = receiver.recv().await {
            // Processor time is that of the real clock.
            if !matches!(line, Line::Resource(_)) {
                lines.push(line);
            }
        }
        lines
    };
    let (mut lines, end) = tokio::join!(collect, lab::load::run(driver, trial, sender, stopped));
    lines.push(Line::End(end.unwrap()));
    lines
}

fn reads(seconds: f64) -> (Workload, Load) {
    (Workload::LogReads { records: RECORDS }, load(seconds))
}

fn load(seconds: f64) -> Load {
    Load {
        threads: 4,
        ramp_s: 0.0,
        operations: None,
        operations_per_thread: None,
        seconds: Some(seconds),
        target_per_s: None,
        warm_up_s: 0.0,
        until_visible: false,
        batch_rows: 1,
    }
}

const FIVE: Duration = Duration::from_millis(5);

#[tokio::test(start_paused = true)]
async fn a_store_that_answers_wrongly_once_in_ten_thousand_is_named_on_the_first_page() {
    let folder = tempfile::tempdir().unwrap();
    let mut study = Study::new(folder.path(), &["liar", "honest"]);
    for repetition in 1..=2 {
        let liar = Store { lies_every: Some(10_000), ..Store::honest(FIVE) };
        let at = (Role::Measure, repetition);
        study.measure(("liar", liar), at, reads(15.0)).await;
        study.measure(("honest", Store::honest(FIVE)), at, reads(15.0)).await;
    }
    let text = study.report();
    let (front, chapters) = text.split_once("## Verdicts").unwrap();
    assert!(front.contains("liar gave wrong answers in 2 trials"), "{front}");
    assert!(front.contains("never written"), "it says what came: {front}");
    assert!(!front.contains("honest"), "{front}");
    assert!(chapters.contains("| wrong answers "), "{chapters}");
    assert!(chapters.contains("| liar "), "its row says that it has no number");
    assert!(chapters.contains("not measured"), "{chapters}");
}

#[tokio::test(start_paused = true)]
async fn a_store_that_stands_still_for_two_seconds_a_minute_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let mut study = Study::new(folder.path(), &["sleepy", "honest"]);
    let now = Instant::now();
    let second = |s: u64| now + Duration::from_secs(s);
    let sleepy = Store { pause: Some((second(30), second(32))), ..Store::honest(FIVE) };
    study.measure(("sleepy", sleepy), (Role::Measure, 1), reads(60.0)).await;
    study.measure(("honest", Store::honest(FIVE)), (Role::Measure, 1), reads(60.0)).await;
    let text = study.report();
    assert!(text.contains("| stalls "), "{text}");
    assert!(
        text.contains("Stalls: sleepy: no answer at all in 1 of 60 seconds")
            || text.contains("Stalls: sleepy: no answer at all in 2 of 60 seconds"),
        "{text}"
    );
    assert!(!text.contains("Stalls: honest"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_throttled_after_a_minute_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let mut study = Study::new(folder.path(), &["throttled", "honest"]);
    let minute = Instant::now() + Duration::from_secs(60);
    let takes = Store::honest(Duration::from_millis(20));
    let throttled = Store { throttled: Some(minute), ..takes.clone() };
    study.measure(("throttled", throttled), (Role::Measure, 1), reads(90.0)).await;
    study.measure(("honest", takes), (Role::Measure, 1), reads(90.0)).await;
    let text = study.report();
    let named = "Not steady: throttled: in 1 of 1 repetitions the rate fell to another level and stayed there, by up to 50% after 60 s";
    assert!(text.contains(named) || text.contains(&named.replace("60 s", "61 s")), "{text}");
    assert!(!text.contains("Not steady: honest"), "{text}");
}

/// What a trial used, as one line of its first second.
fn used(process: &str, cpu_s: f64, disk_write_bytes: u64, disk_writes: u64) -> Line {
    let text = serde_json::json!({
        "line": "resource",
        "second": 0,
        "process": process,
        "cpu_s": cpu_s,
        "memory_bytes": 1,
        "disk_read_bytes": 0,
        "disk_write_bytes": disk_write_bytes,
        "disk_writes": disk_writes,
        "network_bytes": 0,
    });
    serde_json::from_value(text).unwrap()
}

#[tokio::test(start_paused = true)]
async fn rows_that_cannot_be_on_disk_are_named_and_so_is_a_machine_that_waits() {
    let folder = tempfile::tempdir().unwrap();
    // They promise that each row is on disk before it is acknowledged.
    let stores = ["loginson", "postgres", "elasticsearch", "opensearch"];
    let mut study = Study::new(folder.path(), &stores);
    for (label, cpu_s, written, writes) in [
        ("loginson", 0.1, 1_000, 5_000),
        ("postgres", 0.1, 500_000, 5_000),
        ("elasticsearch", 1.9, 500_000, 5_000),
        ("opensearch", 1.9, 500_000, 7),
    ] {
        let workload = Workload::LogWrites { records: RECORDS };
        let trial = trial(label, Role::Measure, workload, load(2.0));
        let mut lines = measured(Arc::new(Store::honest(FIVE)), &trial).await;
        let end = lines.pop().unwrap();
        for (process, cpu_s) in [(label, cpu_s), ("generator", 0.1), ("host", cpu_s)] {
            lines.push(used(process, cpu_s, written, writes));
        }
        study.write(trial, lines, end);
    }
    let text = study.report();
    assert!(text.contains("| not on disk "), "{text}");
    assert!(text.contains("Not on disk: loginson: in 1 of 1 repetitions"), "{text}");
    assert!(!text.contains("Not on disk: postgres"), "{text}");
    let seldom = "Not on disk: opensearch: in 1 of 1 repetitions the disks of this machine wrote less often than rows were acknowledged, 7 times instead of";
    assert!(text.contains(seldom), "{text}");
    assert!(text.contains("Waits for round trips: loginson; postgres: in 1 of 1"), "{text}");
    assert!(!text.contains("elasticsearch: in 1 of 1 repetitions the servers used"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_computes_more_slowly_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let mut study = Study::new(folder.path(), &["early", "late"]);
    // The second experiment is measured on a slower machine, and one of its trials on one that is
    // slower still.
    for (experiment, repetition, early, late) in
        [("reads", 1, 100.0, 100.0), ("history", 1, 61.0, 60.0), ("history", 2, 60.0, 30.0)]
    {
        for (label, rounds_per_s) in [("early", early), ("late", late)] {
            let (workload, load) = reads(2.0);
            let mut trial = trial(label, Role::Measure, workload, load);
            (trial.experiment, trial.repetition) = (experiment.to_owned(), repetition);
            let mut lines = measured(Arc::new(Store::honest(FIVE)), &trial).await;
            let end = lines.pop().unwrap();
            let name = lab::measure::speed::ROUNDS_PER_S.to_owned();
            lines.push(Line::Value { name, value: rounds_per_s });
            study.write(trial, lines, end);
        }
    }
    let text = study.report();
    assert!(text.contains("all processors do a fixed computation"), "{text}");
    assert!(text.contains("| slower machine "), "{text}");
    let named = "Slower machine: late: before 1 of 2 repetitions the machine computed up to 50% more slowly";
    assert!(text.contains(named), "{text}");
    assert!(!text.contains("Slower machine: early"), "{text}");
    let (slow, fast) =
        ("the trials of Counts over historical data", "before those of Random reads");
    let threat = text.lines().find(|line| line.contains("not always equally fast")).unwrap();
    assert!(threat.contains("it computed 40% more slowly"), "{threat}");
    assert!(threat.contains(slow) && threat.contains(fast), "{threat}");
}

/// Each store has a limit of its own: what the generator reaches with its client against a sink.
#[tokio::test(start_paused = true)]
async fn a_client_that_is_too_slow_is_named_and_so_is_a_store_that_waits() {
    let folder = tempfile::tempdir().unwrap();
    let stores = ["fast", "slow", "waits"];
    let mut study = Study::new(folder.path(), &stores);
    // What an operation takes with the sink and with the store, ms, and the processors of the
    // store.
    for (label, with_sink, with_store, processors) in
        [("fast", 1, 6, 0.95), ("slow", 5, 6, 0.95), ("waits", 1, 40, 0.05)]
    {
        let takes = |ms| Store::honest(Duration::from_millis(ms));
        let (workload, load) = reads(5.0);
        let trial = trial(label, Role::Measure, workload, load);
        let mut lines = measured(Arc::new(takes(with_store)), &trial).await;
        let end = lines.pop().unwrap();
        for (process, processors) in [(label, processors), ("generator", 0.1), ("host", 1.0)] {
            lines.push(used(process, processors * 5.0, 0, 0));
        }
        study.write(trial, lines, end);
        study.measure((label, takes(with_sink)), (Role::Limit, 1), reads(5.0)).await;
    }
    let text = study.report();
    assert!(text.contains("| generator too slow "), "{text}");
    assert!(text.contains("Generator too slow: slow: it comes to 8"), "{text}");
    assert!(text.contains("that the generator reaches without the store"), "{text}");
    assert!(text.contains("Waits for round trips: waits: in 1 of 1 repetitions"), "{text}");
    for store in ["fast", "waits"] {
        assert!(!text.contains(&format!("Generator too slow: {store}")), "{text}");
    }
    for store in ["fast", "slow"] {
        assert!(!text.contains(&format!("Waits for round trips: {store}")), "{text}");
    }
    // The network alone is busy.
    let folder = tempfile::tempdir().unwrap();
    let mut study = Study::new(folder.path(), &["waits"]);
    let (workload, load) = reads(5.0);
    let trial = trial("waits", Role::Measure, workload, load);
    let mut lines = measured(Arc::new(Store::honest(FIVE)), &trial).await;
    let end = lines.pop().unwrap();
    for process in ["waits", "generator", "host"] {
        let mut line = used(process, 0.1, 0, 0);
        if let Line::Resource(used) = &mut line {
            used.network_bytes = 600_000_000;
        }
        lines.push(line);
    }
    study.write(trial, lines, end);
    assert!(!study.report().contains("Waits for round trips: "));
}

#[tokio::test(start_paused = true)]
async fn a_store_that_acknowledges_and_forgets_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let mut study = Study::new(folder.path(), &["forgetful", "honest"]);
    for (label, forgets_up_to) in [("forgetful", 500), ("honest", 1)] {
        let store = Store { forgets_up_to, ..Store::honest(FIVE) };
        let workload = Workload::LogWrites { records: RECORDS };
        let mut trial = trial(label, Role::Measure, workload, load(2.0));
        trial.crash_after_s = Some(2.0);
        let witness = Arc::new(Witness::new(Arc::new(store.clone())));
        witness.begin(Some(0));
        let mut lines = measured(witness.clone(), &trial).await;
        let acknowledged = witness.acknowledged();
        assert!(acknowledged.rows() > 1_000, "{}", acknowledged.rows());
        store.kill();
        let Some(Line::End(End { outcome: Outcome::Completed, .. })) = lines.last() else {
            panic!("{:?}", lines.last())
        };
        let end = lines.pop().unwrap();
        let (found, outcome) = look_for(&store, &trial, &acknowledged, None).await.unwrap();
        assert_eq!(outcome, Outcome::Completed);
        lines.extend(found);
        study.write(trial, lines, end);
    }
    let text = study.report();
    assert!(text.contains("| lost rows "), "{text}");
    assert!(text.contains("Lost rows: forgetful: "), "{text}");
    assert!(!text.contains("Lost rows: honest"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn a_store_that_has_rows_twice_after_a_kill_answers_wrongly() {
    for doubles in [false, true] {
        let store = Store { doubles, ..Store::honest(FIVE) };
        let workload = Workload::LogWrites { records: RECORDS };
        let mut trial = trial("doubling", Role::Measure, workload, load(2.0));
        trial.crash_after_s = Some(2.0);
        let witness = Arc::new(Witness::new(Arc::new(store.clone())));
        witness.begin(Some(0));
        measured(witness.clone(), &trial).await;
        store.kill();
        let acknowledged = witness.acknowledged();
        let (_, outcome) = look_for(&store, &trial, &acknowledged, None).await.unwrap();
        if !doubles {
            assert_eq!(outcome, Outcome::Completed);
            continue;
        }
        let rows = acknowledged.rows();
        let named = format!("it counts {} rows, and {rows} at most were ever written", rows * 2);
        let Outcome::Wrong { message } = outcome else { panic!("{outcome:?}") };
        assert!(message.contains(&named), "{message}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_tells_a_size_that_cannot_be_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let mut study = Study::new(folder.path(), &["tiny", "honest"]);
    for (label, table_bytes) in [("tiny", 1e6), ("honest", 100e6)] {
        let (workload, load) = reads(2.0);
        let trial = trial(label, Role::Measure, workload, load);
        let mut lines = measured(Arc::new(Store::honest(FIVE)), &trial).await;
        let end = lines.pop().unwrap();
        for (name, value) in
            [(lab::results::WRITTEN_TEXT_BYTES, 1e9), ("table_bytes_flushed", table_bytes)]
        {
            lines.push(Line::Value { name: name.to_owned(), value });
        }
        study.write(trial, lines, end);
    }
    let text = study.report();
    assert!(text.contains("| size too small "), "{text}");
    assert!(text.contains("Size too small: tiny: in 1 of 1 repetitions"), "{text}");
    assert!(!text.contains("Size too small: honest"), "{text}");
}
