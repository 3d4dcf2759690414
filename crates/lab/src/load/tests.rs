//! The loops against a scripted store, on a simulated clock: no test waits for real time.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::AtomicUsize;

use async_trait::async_trait;

use super::*;
use crate::driver::{Answer, Operation, Settle, StoreError};
use crate::histogram;
use crate::results::Second;
use crate::row::{Schema, Value};
use crate::trial::Share;
use crate::workload::{History, Phase};

/// What the scripted store does with an operation, given its number from 1.
type Script = dyn Fn(usize, &Operation) -> (Duration, Result<Answer, StoreError>) + Send + Sync;

struct Scripted {
    script: Arc<Script>,
    sent: Arc<AtomicUsize>,
    /// Connections that succeed.
    connections: AtomicUsize,
    seen: Arc<Mutex<Vec<(Duration, Operation)>>>,
    from: Instant,
}

struct Connection {
    script: Arc<Script>,
    sent: Arc<AtomicUsize>,
    seen: Arc<Mutex<Vec<(Duration, Operation)>>>,
    from: Instant,
}

#[async_trait]
impl Driver for Scripted {
    fn abilities(&self) -> &'static [Ability] {
        &[Ability::Insert, Ability::Read, Ability::Update, Ability::Count]
    }

    async fn version(&self) -> Result<String, StoreError> {
        Ok("1".to_owned())
    }

    fn versions_tested(&self) -> &'static [&'static str] {
        &[]
    }

    fn reads_own_writes(&self) -> bool {
        false
    }

    async fn create(&self, _schema: &Schema) -> Result<(), StoreError> {
        Ok(())
    }

    async fn settle(&self, _schema: &Schema, _settle: Settle) -> Result<(), StoreError> {
        Ok(())
    }

    async fn table_bytes(&self, _schema: &Schema) -> Result<Option<u64>, StoreError> {
        Ok(None)
    }

    async fn connect(&self, _schema: &Schema) -> Result<Box<dyn Session>, StoreError> {
        let left = |left: usize| left.checked_sub(1);
        self.connections
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, left)
            .map_err(|_| unreachable())?;
        Ok(Box::new(Connection {
            script: self.script.clone(),
            sent: self.sent.clone(),
            seen: self.seen.clone(),
            from: self.from,
        }))
    }
}

#[async_trait]
impl Session for Connection {
    async fn execute(&mut self, operation: &Operation) -> Result<Answer, StoreError> {
        let number = self.sent.fetch_add(1, Ordering::Relaxed) + 1;
        self.seen.lock().unwrap().push((Instant::now() - self.from, operation.clone()));
        let (time, answer) = (self.script)(number, operation);
        if time > Duration::ZERO {
            tokio::time::sleep(time).await;
        }
        answer
    }
}

fn unreachable() -> StoreError {
    StoreError::Unreachable {
        store: "scripted".to_owned(),
        reason: "connection refused".to_owned(),
    }
}

fn refused() -> StoreError {
    StoreError::Refused {
        store: "scripted".to_owned(),
        reason: "no space left on device".to_owned(),
    }
}

const MS: Duration = Duration::from_millis(1);

/// Acknowledges after a delay.
fn acknowledges(after: Duration) -> Arc<Script> {
    Arc::new(move |_, _| (after, Ok(Answer::Done)))
}

fn load(threads: u32) -> Load {
    Load {
        threads,
        ramp_s: 0.0,
        operations: None,
        operations_per_thread: None,
        seconds: None,
        target_per_s: None,
        warm_up_s: 0.0,
        until_visible: false,
        batch_rows: 1,
    }
}

fn trial(workload: Workload, load: Load) -> Trial {
    Trial::example("scripted", workload, load)
}

fn writes(records: u64) -> Workload {
    Workload::LogWrites { records }
}

struct Ran {
    end: Option<End>,
    lines: Vec<Line>,
    /// The time and the kind of each sent operation.
    seen: Vec<(Duration, Operation)>,
    took: Duration,
}

impl Ran {
    fn seconds(&self) -> Vec<&Second> {
        self.lines
            .iter()
            .filter_map(|line| if let Line::Second(second) = line { Some(second) } else { None })
            .collect()
    }

    fn count(&self, label: &str) -> u64 {
        self.seconds().iter().filter(|second| second.label == label).map(|s| s.count).sum()
    }

    fn errors(&self, kind: &str) -> u64 {
        self.seconds().iter().filter_map(|second| second.errors.get(kind)).sum()
    }

    fn latencies(&self, label: &str) -> hdrhistogram::Histogram<u64> {
        let mut all = histogram::new();
        for second in self.seconds().iter().filter(|second| second.label == label) {
            histogram::add(&mut all, &second.histogram).unwrap();
        }
        all
    }

    fn outcome(&self) -> &Outcome {
        &self.end.as_ref().unwrap().outcome
    }

    fn message(&self) -> &str {
        match self.outcome() {
            Outcome::Failed { message } | Outcome::Wrong { message } => message,
            other => panic!("{other:?}"),
        }
    }
}

async fn run_with(
    script: Arc<Script>,
    connections: usize,
    trial: Trial,
    stop_after: Option<Duration>,
) -> Ran {
    let from = Instant::now();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let driver = Arc::new(Scripted {
        script,
        sent: Arc::default(),
        connections: AtomicUsize::new(connections),
        seen: seen.clone(),
        from,
    });
    let (lines, mut received) = mpsc::channel(16);
    let (stop_sender, stop) = watch::channel(false);
    let collect = tokio::spawn(async move {
        let mut all = Vec::new();
        while let Some(line) = received.recv().await {
            all.push(line);
        }
        all
    });
    if let Some(after) = stop_after {
        tokio::spawn(async move {
            tokio::time::sleep(after).await;
            stop_sender.send(true).unwrap();
        });
    }
    let setting = Setting {
        gate: None,
        timer: Timer::Runtime,
        watched: Vec::new(),
        host: false,
        read_back: None,
        earlier: None,
    };
    let end = run_in(setting, driver, &trial, lines, stop).await;
    let took = from.elapsed();
    let lines = collect.await.unwrap();
    let seen = std::mem::take(&mut *seen.lock().unwrap());
    Ran { end, lines, seen, took }
}

async fn run(script: Arc<Script>, trial: Trial) -> Ran {
    run_with(script, 1000, trial, None).await
}

#[tokio::test(start_paused = true)]
async fn a_closed_loop_sends_all_operations_and_measures_each() {
    let ran = run(acknowledges(10 * MS), trial(writes(500), load(5))).await;
    assert_eq!(ran.outcome(), &Outcome::Completed);
    assert_eq!((ran.count("insert"), ran.seen.len()), (500, 500));
    assert!((1.0..1.3).contains(&ran.end.as_ref().unwrap().seconds), "{:?}", ran.end);
    let latencies = ran.latencies("insert");
    assert!((10_000..=12_100).contains(&latencies.max()), "{}", latencies.max());
    let first: Vec<_> = ran.seconds().iter().map(|s| (s.second, s.threads)).collect();
    assert_eq!(first[0], (0, 5));
}

#[tokio::test(start_paused = true)]
async fn whichever_end_comes_first_ends_the_trial() {
    let endings = [
        (Load { operations: Some(30), ..load(4) }, 30),
        (Load { operations_per_thread: Some(6), ..load(4) }, 24),
        (Load { operations: Some(10), operations_per_thread: Some(6), ..load(4) }, 10),
        (Load { operations: Some(1000), ..load(4) }, 100),
    ];
    for (load, expected) in endings {
        let ran = run(acknowledges(10 * MS), trial(writes(100), load)).await;
        assert_eq!((ran.outcome(), ran.count("insert")), (&Outcome::Completed, expected));
    }
    let ran =
        run(acknowledges(10 * MS), trial(writes(100_000), Load { seconds: Some(2.0), ..load(1) }))
            .await;
    assert!((170..=201).contains(&ran.count("insert")), "{}", ran.count("insert"));
}

#[tokio::test(start_paused = true)]
async fn threads_ramp_up() {
    let ran = run(
        acknowledges(100 * MS),
        trial(writes(100_000), Load { ramp_s: 10.0, seconds: Some(12.0), ..load(10) }),
    )
    .await;
    let threads: Vec<_> = ran.seconds().iter().map(|s| s.threads).collect();
    assert!(threads[..10].windows(2).all(|pair| pair[0] < pair[1]), "{threads:?}");
    assert_eq!(threads[10], 10);
}

#[tokio::test(start_paused = true)]
async fn the_warm_up_is_sent_and_not_measured() {
    let plan = Load { warm_up_s: 1.0, operations: Some(50), ..load(1) };
    let ran = run(acknowledges(10 * MS), trial(writes(100_000), plan)).await;
    assert_eq!(ran.count("insert"), 50);
    assert!((130..=151).contains(&ran.seen.len()), "{}", ran.seen.len());
    assert!(ran.seconds().iter().all(|second| second.second <= 1));
}

#[tokio::test(start_paused = true)]
async fn a_trial_without_any_answer_in_its_time_has_no_number() {
    let all = Load { warm_up_s: 1.0, seconds: Some(2.0), target_per_s: Some(10.0), ..load(1) };
    let ran = run(acknowledges(10_000 * MS), trial(writes(100), all)).await;
    let Outcome::Failed { message } = ran.outcome() else { panic!("{:?}", ran.end) };
    assert!(message.starts_with("none of its operations was answered"), "{message}");
    assert_eq!(ran.count("insert"), 0);
}

#[tokio::test(start_paused = true)]
async fn what_was_not_sent_in_the_warm_up_takes_no_measured_time() {
    let all = Load { warm_up_s: 10.0, seconds: Some(5.0), target_per_s: Some(100.0), ..load(1) };
    let ran = run(acknowledges(100 * MS), trial(writes(100_000), all)).await;
    assert_eq!(ran.outcome(), &Outcome::Completed);
    assert!((48..=50).contains(&ran.count("insert")), "{}", ran.count("insert"));
    // The first of them was due when the measured time began.
    assert!(ran.latencies("insert").min() < 300_000, "{}", ran.latencies("insert").min());
}

#[tokio::test(start_paused = true)]
async fn an_open_loop_keeps_its_rate_and_counts_from_when_an_operation_was_due() {
    // The store stalls for a second at its hundredth operation: with one thread, all operations due
    // meanwhile are late.
    let script: Arc<Script> = Arc::new(|number, _| {
        (if number == 100 { 1000 * MS } else { Duration::ZERO }, Ok(Answer::Done))
    });
    let plan = Load { target_per_s: Some(100.0), operations: Some(400), ..load(1) };
    let ran = run(script, trial(writes(100_000), plan)).await;
    assert_eq!(ran.count("insert"), 400);
    assert!((3.9..4.1).contains(&ran.end.as_ref().unwrap().seconds), "{:?}", ran.end);
    let latencies = ran.latencies("insert");
    let late = latencies.len() - latencies.count_between(0, 100_000);
    assert!((85..=95).contains(&late), "a closed loop would have seen one: {late}");
    assert!((990_000..1_020_000).contains(&latencies.max()), "{}", latencies.max());
}

#[tokio::test(start_paused = true)]
async fn what_an_open_loop_could_not_send_is_said() {
    let plan = Load { target_per_s: Some(100.0), seconds: Some(5.0), ..load(2) };
    let ran = run(acknowledges(100 * MS), trial(writes(100_000), plan)).await;
    assert_eq!(ran.outcome(), &Outcome::Completed);
    let unsent = value(&ran, "unsent_operations");
    assert_eq!(unsent, Some(500.0 - ran.seen.len() as f64));
    assert!((90..=102).contains(&ran.seen.len()), "{}", ran.seen.len());
    assert!(
        ran.lines
            .iter()
            .any(|line| matches!(line, Line::Note { text } if text.contains("were not sent")))
    );
}

#[tokio::test(start_paused = true)]
async fn operations_beyond_their_number_are_not_unsent() {
    let (target_per_s, seconds) = (Some(100.0), Some(5.0));
    let plan = Load { target_per_s, seconds, operations: Some(120), ..load(2) };
    let ran = run(acknowledges(100 * MS), trial(writes(100_000), plan)).await;
    let unsent = value(&ran, "unsent_operations");
    assert!((18..=30).contains(&(120 - ran.seen.len())), "{}", ran.seen.len());
    assert_eq!(unsent, Some(120.0 - ran.seen.len() as f64));
}

#[tokio::test(start_paused = true)]
async fn operations_that_were_just_due_at_the_end_are_no_note() {
    // The last operation is due 10 ms before the end and answered after it; the store keeps up.
    let plan = Load { target_per_s: Some(100.0), seconds: Some(5.0), ..load(2) };
    let ran = run(acknowledges(15 * MS), trial(writes(100_000), plan)).await;
    assert!(ran.seen.len() >= 497, "{}", ran.seen.len());
    assert!(!ran.lines.iter().any(|line| matches!(line, Line::Note { .. })), "{:?}", ran.lines);
}

#[tokio::test(start_paused = true)]
async fn errors_are_counted_by_kind_and_the_trial_goes_on() {
    let script: Arc<Script> = Arc::new(|number, _| {
        (MS, if number % 10 == 0 { Err(refused()) } else { Ok(Answer::Done) })
    });
    let ran = run(script, trial(writes(200), load(2))).await;
    assert_eq!(ran.outcome(), &Outcome::Completed);
    assert_eq!((ran.count("insert"), ran.errors("refused")), (180, 20));
}

#[tokio::test(start_paused = true)]
async fn a_trial_in_which_most_operations_fail_is_failed() {
    let script: Arc<Script> =
        Arc::new(|number, _| (MS, if number % 3 > 0 { Err(refused()) } else { Ok(Answer::Done) }));
    let ran = run(script, trial(writes(300), load(2))).await;
    assert!(ran.message().contains("200 of 300 operations failed"), "{}", ran.message());
    assert!(ran.message().contains("no space left on device"), "{}", ran.message());
}

#[tokio::test(start_paused = true)]
async fn a_trial_with_many_answers_that_nobody_understands_is_failed() {
    for (every, errors) in [(20, 50), (200, 5)] {
        let script: Arc<Script> = Arc::new(move |number, _| {
            let (store, reason) = ("scripted".to_owned(), "a row lacks a column".to_owned());
            let answer = match number % every {
                0 => Err(StoreError::Answer { store, reason }),
                _ => Ok(Answer::Done),
            };
            (MS, answer)
        });
        let ran = run(script, trial(writes(1_000), load(2))).await;
        assert_eq!(ran.errors("answer"), errors);
        if errors == 5 {
            assert_eq!(ran.outcome(), &Outcome::Completed);
            continue;
        }
        let named = "50 of 1000 answers were not understood";
        assert!(ran.message().contains(named), "{}", ran.message());
        assert!(ran.message().contains("a row lacks a column"), "{}", ran.message());
    }
}

#[tokio::test(start_paused = true)]
async fn an_open_loop_ends_when_each_thread_has_sent_its_operations() {
    let each = Some(5);
    let plan = Load { target_per_s: Some(100.0), operations_per_thread: each, ..load(3) };
    let ran = run(acknowledges(MS), trial(writes(100_000), plan)).await;
    assert_eq!((ran.outcome(), ran.count("insert")), (&Outcome::Completed, 15));
}

#[tokio::test(start_paused = true)]
async fn an_operation_that_fails_after_the_end_makes_no_trial_longer() {
    let script: Arc<Script> = Arc::new(|number, _| match number {
        50 => (30_000 * MS, Err(refused())),
        _ => (10 * MS, Ok(Answer::Done)),
    });
    let plan = Load { seconds: Some(5.0), ..load(2) };
    let ran = run(script, trial(writes(100_000), plan)).await;
    assert_eq!((ran.outcome(), ran.errors("refused")), (&Outcome::Completed, 1));
    let seconds = ran.end.as_ref().unwrap().seconds;
    assert!((5.0..5.1).contains(&seconds), "{seconds}");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_panics_fails_its_trial() {
    let script: Arc<Script> = Arc::new(|number, _| match number {
        10 => panic!("a fault of the client"),
        _ => (MS, Ok(Answer::Done)),
    });
    let ran = run(script, trial(writes(1_000), load(2))).await;
    assert!(ran.message().contains("client library"), "{}", ran.message());
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_full_fails_the_trial_and_keeps_what_was_measured() {
    let script: Arc<Script> =
        Arc::new(|number, _| (MS, if number > 100 { Err(refused()) } else { Ok(Answer::Done) }));
    let ran = run(script, trial(writes(10_000), load(2))).await;
    assert!(ran.message().contains("no space left on device"), "{}", ran.message());
    // Twenty in a row for each of two threads, and the operation in flight of the other thread.
    assert_eq!(ran.count("insert"), 100);
    assert!((40..=41).contains(&ran.errors("refused")), "{}", ran.errors("refused"));
}

#[tokio::test(start_paused = true)]
async fn a_broken_connection_is_made_anew_and_a_dead_store_fails_the_trial() {
    let script: Arc<Script> = Arc::new(|number, _| {
        (MS, if number == 50 || number == 150 { Err(unreachable()) } else { Ok(Answer::Done) })
    });
    let ran = run_with(script.clone(), 4, trial(writes(1000), load(2)), None).await;
    assert_eq!((ran.outcome(), ran.errors("unreachable")), (&Outcome::Completed, 2));
    let ran = run_with(script.clone(), 3, trial(writes(1000), load(2)), None).await;
    assert!(ran.message().contains("resume"), "{}", ran.message());
    assert!((140..=150).contains(&ran.count("insert")), "{}", ran.count("insert"));
    let ran = run_with(script, 1, trial(writes(1000), load(2)), None).await;
    assert!(ran.message().contains("connection refused"), "{}", ran.message());
    assert_eq!(ran.seen, []);
}

#[tokio::test(start_paused = true)]
async fn a_wrong_count_ends_the_trial_with_what_was_expected() {
    let history = History { records: 1000, timestamps: 10, machines: 3, services: 2 };
    let workload = Workload::HistoryQueries(history);
    let script: Arc<Script> = Arc::new(|_, _| (MS, Ok(Answer::Count(99))));
    let ran = run(script, trial(workload, Load { operations: Some(9), ..load(1) })).await;
    assert!(matches!(ran.outcome(), Outcome::Wrong { .. }));
    assert!(ran.message().contains("got 99 rows, expected 100"), "{}", ran.message());
    assert_eq!((ran.errors("wrong"), ran.seen.len()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_wrong_column_is_seen() {
    let script: Arc<Script> = Arc::new(|_, operation| {
        let Operation::Read { key: Value::Integer(number) } = operation else { panic!() };
        let mut row = crate::workload::logs::record(&logs::cycles(100), *number as u64);
        row.values[4] = Value::Text("another message".to_owned());
        (MS, Ok(Answer::Row(Some(row))))
    });
    let workload = Workload::LogReads { records: 100 };
    let ran = run(script, trial(workload, Load { operations: Some(9), ..load(1) })).await;
    assert!(ran.message().contains("another message"), "{}", ran.message());
}

#[tokio::test(start_paused = true)]
async fn what_a_store_cannot_do_is_not_tried() {
    let properties = [("recordcount", "10"), ("scanproportion", "1")];
    let properties = properties.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    let workload = Workload::Ycsb { phase: Phase::Run, properties };
    let ran = run(acknowledges(MS), trial(workload, Load { operations: Some(5), ..load(1) })).await;
    assert_eq!(ran.outcome(), &Outcome::NotSupported { ability: "scan".to_owned() });
    assert_eq!(ran.seen, []);
}

#[tokio::test(start_paused = true)]
async fn a_load_without_an_end_is_refused() {
    let ran = run(acknowledges(MS), trial(Workload::LogReads { records: 10 }, load(1))).await;
    assert!(ran.message().contains("no end"), "{}", ran.message());
}

#[tokio::test(start_paused = true)]
async fn a_stop_is_followed_within_a_second_also_when_the_store_hangs() {
    let script = acknowledges(Duration::from_secs(1000));
    let ran = run_with(script, 10, trial(writes(100), load(3)), Some(5000 * MS)).await;
    assert_eq!(ran.end, None);
    assert!(ran.took < Duration::from_secs(6), "{:?}", ran.took);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_never_answers_fails_the_trial_after_its_end() {
    let script = acknowledges(Duration::from_secs(1000));
    let ran = run(script, trial(writes(100), Load { seconds: Some(3.0), ..load(3) })).await;
    assert!(ran.message().contains("did not answer 3 operations"), "{}", ran.message());
    assert!(ran.took < Duration::from_secs(65), "{:?}", ran.took);
}

#[tokio::test(start_paused = true)]
async fn a_read_modify_write_is_measured_whole_and_in_its_parts() {
    let properties = [
        ("recordcount", "10"),
        ("readproportion", "0"),
        ("updateproportion", "0"),
        ("readmodifywriteproportion", "1"),
    ];
    let properties: BTreeMap<_, _> =
        properties.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    let workload = Workload::Ycsb { phase: Phase::Run, properties: properties.clone() };
    let opening = Opening::of(Share::default());
    let plan: Arc<dyn WorkloadPlan> =
        crate::workload::ycsb::Ycsb::new(Phase::Run, &properties, &opening).map(Arc::new).unwrap();
    let script: Arc<Script> = Arc::new(move |_, operation| match operation {
        Operation::Read { key } => (20 * MS, Ok(Answer::Row(plan.row(key)))),
        _ => (10 * MS, Ok(Answer::Done)),
    });
    let ran = run(script, trial(workload, Load { operations: Some(20), ..load(2) })).await;
    assert_eq!(ran.outcome(), &Outcome::Completed);
    let counts = ["read", "update", "read_modify_write"].map(|label| ran.count(label));
    assert_eq!(counts, [20, 20, 20]);
    assert!(ran.latencies("read_modify_write").min() >= 29_900);
}

fn real_time() -> Trial {
    let real = RealTime {
        records: 1000,
        per_s: 500.0,
        threads: 4,
        interval_s: 0.1,
        counts_max: 20,
        batch_rows: 1,
    };
    Trial { work: Work::RealTime(real), ..trial(writes(1), load(1)) }
}

fn value(ran: &Ran, wanted: &str) -> Option<f64> {
    ran.lines.iter().find_map(|line| match line {
        Line::Value { name, value } if name == wanted => Some(*value),
        _ => None,
    })
}

#[tokio::test(start_paused = true)]
async fn the_delay_until_all_records_are_found_is_measured() {
    // Refreshed every 750 ms from the first operation on, as a search engine does.
    let from = Instant::now();
    let written = Arc::new(AtomicUsize::new(0));
    let visible = Arc::new(Mutex::new((0, 0)));
    let script: Arc<Script> = Arc::new(move |_, operation| {
        let turn = (from.elapsed().as_millis() / 750) as usize;
        let mut visible = visible.lock().unwrap();
        if visible.0 != turn {
            *visible = (turn, written.load(Ordering::Relaxed));
        }
        match operation {
            Operation::Count { .. } => (5 * MS, Ok(Answer::Count(visible.1 as u64))),
            _ => {
                written.fetch_add(1, Ordering::Relaxed);
                (Duration::ZERO, Ok(Answer::Done))
            }
        }
    });
    let ran = run(script, real_time()).await;
    assert_eq!(ran.outcome(), &Outcome::Completed);
    assert_eq!(ran.count("insert"), 1000);
    // Written at 1998 ms; the refresh at 2250 ms is seen by the count of 2298 ms.
    let delay = value(&ran, "delay_ms").unwrap();
    assert!((300.0..320.0).contains(&delay), "{delay}");
    assert_eq!(ran.count("count"), 4);
}

#[tokio::test(start_paused = true)]
async fn counting_begins_at_the_last_acknowledgement_and_not_when_more_would_be_due() {
    let script: Arc<Script> = Arc::new(|_, operation| match operation {
        Operation::Count { .. } => (5 * MS, Ok(Answer::Count(20))),
        _ => (2 * MS, Ok(Answer::Done)),
    });
    let mut trial = real_time();
    if let Work::RealTime(real) = &mut trial.work {
        // 100 ms apart.
        (real.records, real.per_s) = (20, 10.0);
    }
    let ran = run(script, trial).await;
    assert_eq!((ran.outcome(), ran.count("insert")), (&Outcome::Completed, 20));
    assert_eq!(value(&ran, "delay_ms"), Some(5.0));
}

#[tokio::test(start_paused = true)]
async fn a_delay_longer_than_all_counts_is_no_number() {
    let script: Arc<Script> = Arc::new(|_, operation| match operation {
        Operation::Count { .. } => (MS, Ok(Answer::Count(7))),
        _ => (Duration::ZERO, Ok(Answer::Done)),
    });
    let ran = run(script, real_time()).await;
    assert_eq!((value(&ran, "delay_ms"), value(&ran, "found_records")), (None, Some(7.0)));
    assert_eq!((ran.outcome(), ran.count("count")), (&Outcome::Completed, 20));
    let script: Arc<Script> = Arc::new(|_, operation| match operation {
        Operation::Count { .. } => (MS, Ok(Answer::Count(1001))),
        _ => (Duration::ZERO, Ok(Answer::Done)),
    });
    let ran = run(script, real_time()).await;
    assert!(ran.message().contains("1001"), "{}", ran.message());
}

#[tokio::test]
async fn the_store_that_does_nothing_answers_all_workloads() {
    let mut properties = crate::workload::ycsb::parse("core=f");
    crate::workload::ycsb::expand(&mut properties).unwrap();
    let apm = Workload::Apm {
        phase: Phase::Run,
        records: 100,
        read: 25,
        scan: 25,
        insert: 50,
        scan_rows_max: 50,
    };
    let workloads = [
        writes(1000),
        Workload::LogReads { records: 1000 },
        Workload::HistoryQueries(logs::cycles(10_000)),
        Workload::Ycsb { phase: Phase::Load, properties: properties.clone() },
        Workload::Ycsb { phase: Phase::Run, properties },
        apm,
    ];
    for workload in workloads {
        let mut trial = trial(workload, Load { operations: Some(300), ..load(3) });
        trial.role = Role::Limit;
        let driver = crate::driver::null::open(&trial.store).unwrap();
        let (lines, mut received) = mpsc::channel(16);
        let (_stop, stop) = watch::channel(false);
        let drain = tokio::spawn(async move { while received.recv().await.is_some() {} });
        let end = super::run(driver, &trial, lines, stop).await.unwrap();
        assert_eq!(end.outcome, Outcome::Completed, "{:?}", trial.work);
        drain.await.unwrap();
    }
}

/// A store that takes lines, never ends its work on them, and is silent about what arrived.
struct Stuck;

#[async_trait]
impl Driver for Stuck {
    fn abilities(&self) -> &'static [Ability] {
        &[Ability::Stream]
    }

    async fn version(&self) -> Result<String, StoreError> {
        Ok("1".to_owned())
    }

    fn versions_tested(&self) -> &'static [&'static str] {
        &[]
    }

    async fn create(&self, _schema: &Schema) -> Result<(), StoreError> {
        Ok(())
    }

    async fn settle(&self, _schema: &Schema, _settle: Settle) -> Result<(), StoreError> {
        Ok(())
    }

    async fn process(&self, _schema: &Schema) -> Result<(), StoreError> {
        Err(refused())
    }

    async fn table_bytes(&self, _schema: &Schema) -> Result<Option<u64>, StoreError> {
        Ok(None)
    }

    async fn arrived(&self, _schema: &Schema) -> Result<Option<Sum>, StoreError> {
        panic!("the trial has failed: nothing is compared any more")
    }

    async fn connect(&self, _schema: &Schema) -> Result<Box<dyn Session>, StoreError> {
        Ok(Box::new(Stuck))
    }
}

#[async_trait]
impl Session for Stuck {
    async fn execute(&mut self, _operation: &Operation) -> Result<Answer, StoreError> {
        Ok(Answer::Done)
    }
}

#[tokio::test(start_paused = true)]
async fn what_arrived_is_not_waited_for_where_the_trial_has_failed() {
    let lines = Workload::LineStream { line_bytes: 64 };
    let trial = trial(lines, Load { operations: Some(4), until_visible: true, ..load(1) });
    let (lines, mut received) = mpsc::channel(16);
    let (_stop, stop) = watch::channel(false);
    let drain = tokio::spawn(async move { while received.recv().await.is_some() {} });
    let end = super::run(Arc::new(Stuck), &trial, lines, stop).await.unwrap();
    let Outcome::Failed { message } = end.outcome else { panic!("{:?}", end.outcome) };
    assert!(message.contains("is not processed"), "{message}");
    drain.await.unwrap();
}
