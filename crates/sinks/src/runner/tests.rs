//! The runner against a destination that does anything, with a clock that never waits.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::destination::{Delivered, Fault, Outcome};
use crate::document::Document;
use crate::reject::Rejected;

/// Time passes only while the runner waits.
#[derive(Default)]
struct Virtual {
    now_ns: AtomicI64,
    waits: AtomicU64,
}

impl Clock for Virtual {
    fn now_ns(&self) -> i64 {
        self.now_ns.load(Ordering::SeqCst)
    }

    fn wait(&self, time: Duration, _: &Stop) {
        self.now_ns.fetch_add(time.as_nanos() as i64, Ordering::SeqCst);
        self.waits.fetch_add(1, Ordering::SeqCst);
    }
}

/// What a destination does with one request.
#[derive(Debug, Clone)]
enum Behaviour {
    Accept,
    /// Answers for this many documents, each with an outcome by this number.
    Mixed(usize, u64),
    Refuse,
    TimeOut,
    /// The documents are stored, and the answer is lost.
    StoreAndBreak,
    Unavailable(Option<u64>),
    /// A destination with a fault of its own.
    NoOutcomes,
    TooManyOutcomes,
}

fn behaviour() -> impl Strategy<Value = Behaviour> {
    prop_oneof![
        4 => Just(Behaviour::Accept),
        4 => (1_usize..20, any::<u64>()).prop_map(|(count, seed)| Behaviour::Mixed(count, seed)),
        2 => Just(Behaviour::Refuse),
        2 => Just(Behaviour::TimeOut),
        2 => Just(Behaviour::StoreAndBreak),
        2 => proptest::option::of(0_u64..1000).prop_map(Behaviour::Unavailable),
        1 => Just(Behaviour::NoOutcomes),
        1 => Just(Behaviour::TooManyOutcomes),
    ]
}

/// Everything that happened, shared with the test.
#[derive(Default)]
struct World {
    /// How often each id was stored anew; a repeated id is told by the destination.
    stored: BTreeMap<String, u64>,
    /// Ids in the order in which they were first stored.
    order: Vec<String>,
    kept: BTreeMap<String, String>,
    cursors: Vec<String>,
    largest_request: usize,
}

struct Scripted {
    script: std::vec::IntoIter<Behaviour>,
    world: Arc<Mutex<World>>,
}

impl Scripted {
    fn store(&self, document: &Document) {
        let mut world = self.world.lock().unwrap();
        if !world.stored.contains_key(&document.id) {
            world.order.push(document.id.clone());
            world.stored.insert(document.id.clone(), 1);
        }
    }
}

impl Destination for Scripted {
    fn deliver(&mut self, documents: &[Document]) -> Delivered {
        assert!(!documents.is_empty());
        {
            let mut world = self.world.lock().unwrap();
            world.largest_request = world.largest_request.max(documents.len());
        }
        let fault = || Fault::new("scripted", "none");
        match self.script.next().unwrap_or(Behaviour::Accept) {
            Behaviour::Accept => {
                documents.iter().for_each(|document| self.store(document));
                Delivered::accepted(documents.len())
            }
            Behaviour::Mixed(count, seed) => {
                let mut random = fastrand::Rng::with_seed(seed);
                let outcomes = documents.iter().take(count).map(|document| match random.u8(..4) {
                    0 | 1 => {
                        self.store(document);
                        Outcome::Accepted
                    }
                    2 if !self.world.lock().unwrap().stored.contains_key(&document.id) => {
                        Outcome::Rejected("scripted".to_owned())
                    }
                    _ => Outcome::Retry(fault()),
                });
                Delivered::Answered { outcomes: outcomes.collect(), retry_after: None }
            }
            Behaviour::Refuse => {
                // A destination keeps refusing what it refuses, but never what it has stored.
                let world = self.world.lock().unwrap();
                let is_stored = |document: &Document| world.stored.contains_key(&document.id);
                if documents.iter().any(is_stored) {
                    return Delivered::unavailable(fault());
                }
                Delivered::Refused(fault())
            }
            Behaviour::TimeOut => Delivered::TimedOut(fault()),
            Behaviour::StoreAndBreak => {
                documents.iter().for_each(|document| self.store(document));
                Delivered::unavailable(fault())
            }
            Behaviour::Unavailable(seconds) => Delivered::Unavailable {
                fault: fault(),
                retry_after: seconds.map(Duration::from_secs),
            },
            Behaviour::NoOutcomes => {
                Delivered::Answered { outcomes: Vec::new(), retry_after: None }
            }
            Behaviour::TooManyOutcomes => Delivered::accepted(documents.len() + 1),
        }
    }
}

/// Fails the first times, then keeps.
struct Kept {
    world: Arc<Mutex<World>>,
    failures: u32,
}

impl RejectStore for Kept {
    fn keep(&mut self, rejected: &[Rejected<'_>]) -> Result<(), Fault> {
        if self.failures > 0 {
            self.failures -= 1;
            return Err(Fault::new("the disk is full", "free disk space"));
        }
        let mut world = self.world.lock().unwrap();
        for one in rejected {
            let reason = one.reason.to_owned();
            let before = world.kept.insert(one.document.id.clone(), reason);
            assert_eq!(before, None, "kept twice");
        }
        Ok(())
    }

    fn dropped(&self) -> u64 {
        0
    }
}

fn batches(sizes: &[usize]) -> Vec<Batch> {
    let mut id = 0;
    let batch = |(number, size): (usize, &usize)| {
        let documents = (0..*size).map(|_| {
            id += 1;
            Document::new(format!("{id:05}"), id, Vec::new())
        });
        Batch { documents: documents.collect(), cursor: format!("c{number:05}") }
    };
    sizes.iter().enumerate().map(batch).collect()
}

fn parts(script: Vec<Behaviour>, failures: u32) -> (RunnerParts, Arc<Mutex<World>>, Arc<Virtual>) {
    let world = Arc::new(Mutex::new(World::default()));
    let clock = Arc::new(Virtual::default());
    let acknowledged = Arc::clone(&world);
    let parts = RunnerParts {
        destination: Box::new(Scripted { script: script.into_iter(), world: Arc::clone(&world) }),
        rejects: Box::new(Kept { world: Arc::clone(&world), failures }),
        acknowledge: Box::new(move |cursor| {
            acknowledged.lock().unwrap().cursors.push(cursor.to_owned());
        }),
        clock: Arc::clone(&clock) as Arc<dyn Clock>,
        random: Box::new(|| 0.5),
    };
    (parts, world, clock)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// Whatever the destination does, each document is stored or kept as rejected, never both and
    /// never neither, and cursors are acknowledged in order.
    #[test]
    fn every_document_is_delivered_once_or_kept(
        script in proptest::collection::vec(behaviour(), 0..60),
        sizes in proptest::collection::vec(0_usize..40, 1..8),
        request_documents_max in 1_usize..50,
        failures in 0_u32..3,
    ) {
        let (parts, world, _) = parts(script, failures);
        let options = RunnerOptions { request_documents_max, ..RunnerOptions::default() };
        let runner = Runner::start("test", parts, options).unwrap();
        for batch in batches(&sizes) {
            runner.submit(batch).unwrap();
        }
        let state = runner.finish();
        let world = world.lock().unwrap();
        let documents: usize = sizes.iter().sum();
        for id in batches(&sizes).iter().flat_map(|batch| &batch.documents).map(|d| &d.id) {
            let places = u8::from(world.stored.contains_key(id)) + u8::from(world.kept.contains_key(id));
            prop_assert_eq!(places, 1, "{} is in {} places", id, places);
        }
        let expected: Vec<String> = (0..sizes.len()).map(|n| format!("c{n:05}")).collect();
        prop_assert_eq!(&world.cursors, &expected);
        prop_assert!(world.largest_request <= request_documents_max);
        prop_assert_eq!(state.accepted as usize + state.rejected as usize, documents);
        prop_assert_eq!(state.rejected as usize, world.kept.len());
        prop_assert_eq!(state.waiting_batches + state.waiting_documents + state.waiting_bytes, 0);
        prop_assert_eq!(state.batches as usize, sizes.len());
        prop_assert_eq!(state.cursor.as_ref(), expected.last());
        prop_assert_eq!(state.phase, Phase::Ended);
    }

    /// A destination that takes or refuses requests as a whole gets documents in their order.
    #[test]
    fn order_is_kept(
        script in proptest::collection::vec(
            prop_oneof![
                Just(Behaviour::Accept), Just(Behaviour::Refuse), Just(Behaviour::TimeOut),
                Just(Behaviour::StoreAndBreak), Just(Behaviour::Unavailable(None)),
            ],
            0..60,
        ),
        sizes in proptest::collection::vec(0_usize..40, 1..8),
    ) {
        let (parts, world, _) = parts(script, 0);
        let runner = Runner::start("test", parts, RunnerOptions::default()).unwrap();
        for batch in batches(&sizes) {
            runner.submit(batch).unwrap();
        }
        runner.finish();
        prop_assert!(world.lock().unwrap().order.is_sorted());
    }
}

#[test]
fn a_stop_acknowledges_nothing_that_is_not_delivered() {
    struct Never;
    impl Destination for Never {
        fn deliver(&mut self, _: &[Document]) -> Delivered {
            Delivered::unavailable(Fault::new("no server answers", "start it"))
        }
    }
    let (mut parts, world, clock) = parts(Vec::new(), 0);
    parts.destination = Box::new(Never);
    let runner = Runner::start("test", parts, RunnerOptions::default()).unwrap();
    for batch in batches(&[3, 2]) {
        runner.submit(batch).unwrap();
    }
    while clock.waits.load(Ordering::SeqCst) < 20 {
        std::thread::yield_now();
    }
    let state = runner.state();
    assert_eq!((state.waiting_batches, state.waiting_documents), (2, 5));
    assert!(state.failures_in_a_row >= 10 && state.retries >= 30, "{state:?}");
    assert!(state.lag_s > 60.0, "{state:?}");
    let error = state.last_error.unwrap();
    assert_eq!(error.fault.to_string(), "no server answers; start it");
    let state = runner.stop();
    assert_eq!((state.phase, state.cursor, state.accepted), (Phase::Ended, None, 0));
    assert!(world.lock().unwrap().cursors.is_empty());
}

#[test]
fn a_single_bad_document_is_found_by_halving() {
    struct Poisoned(Arc<Mutex<World>>);
    impl Destination for Poisoned {
        fn deliver(&mut self, documents: &[Document]) -> Delivered {
            if documents.iter().any(|document| document.id == "00057") {
                return Delivered::Refused(Fault::passing("cannot parse"));
            }
            let mut world = self.0.lock().unwrap();
            world.order.extend(documents.iter().map(|document| document.id.clone()));
            Delivered::accepted(documents.len())
        }
    }
    let (mut parts, world, clock) = parts(Vec::new(), 0);
    parts.destination = Box::new(Poisoned(Arc::clone(&world)));
    let runner = Runner::start("test", parts, RunnerOptions::default()).unwrap();
    runner.submit(batches(&[100]).remove(0)).unwrap();
    let state = runner.finish();
    let world = world.lock().unwrap();
    assert_eq!((state.accepted, state.rejected), (99, 1));
    assert_eq!(world.kept.get("00057").map(String::as_str), Some("cannot parse"));
    assert_eq!(world.order.len(), 99);
    assert!(world.order.is_sorted());
    assert!(state.requests < 30, "{}", state.requests);
    assert_eq!(clock.waits.load(Ordering::SeqCst), 0);
}

#[test]
fn a_panic_closes_the_runner() {
    struct Panics;
    impl Destination for Panics {
        fn deliver(&mut self, _: &[Document]) -> Delivered {
            panic!("scripted");
        }
    }
    let (mut parts, world, _) = parts(Vec::new(), 0);
    parts.destination = Box::new(Panics);
    let runner = Runner::start("test", parts, RunnerOptions::default()).unwrap();
    runner.submit(batches(&[1]).remove(0)).unwrap();
    while runner.state().phase != Phase::Ended {
        std::thread::yield_now();
    }
    let batch = batches(&[2]).remove(0);
    assert_eq!(runner.submit(batch.clone()), Err(batch.clone()));
    assert_eq!(runner.offer(batch.clone()), Err(NotTaken::Closed(batch)));
    assert!(world.lock().unwrap().cursors.is_empty());
}

/// Puts off documents whose id begins with `x` while there are others, and keeps no order.
struct Blocked {
    world: Arc<Mutex<World>>,
    is_blocked: bool,
}

impl Destination for Blocked {
    fn deliver(&mut self, documents: &[Document]) -> Delivered {
        let is_stuck = |document: &Document| document.id.starts_with('x');
        self.is_blocked &= self.world.lock().unwrap().order.len() < 30;
        let outcomes = documents.iter().map(|document| {
            if self.is_blocked && is_stuck(document) {
                return Outcome::Retry(Fault::passing("the index is blocked"));
            }
            self.world.lock().unwrap().order.push(format!("{}-{}", document.id, document.time_ns));
            Outcome::Accepted
        });
        Delivered::Answered { outcomes: outcomes.collect(), retry_after: None }
    }

    fn keeps_order(&self) -> bool {
        false
    }
}

#[test]
fn documents_that_are_put_off_let_others_of_their_batch_pass() {
    let (mut parts, world, _) = parts(Vec::new(), 0);
    parts.destination = Box::new(Blocked { world: Arc::clone(&world), is_blocked: true });
    let options = RunnerOptions { request_documents_max: 10, ..RunnerOptions::default() };
    let runner = Runner::start("test", parts, options).unwrap();
    // Twelve documents that are put off fill a whole request; two of them change the same id.
    let mut documents: Vec<Document> =
        (0..12).map(|n| Document::new(format!("x{:02}", n % 11), n, Vec::new())).collect();
    documents.extend((0..30).map(|n| Document::new(format!("a{n:02}"), n, Vec::new())));
    runner.submit(Batch { documents, cursor: "c".to_owned() }).unwrap();
    let state = runner.finish();
    assert_eq!((state.accepted, state.cursor.as_deref()), (42, Some("c")));
    let order = &world.lock().unwrap().order;
    assert!(order[..30].iter().all(|id| id.starts_with('a')), "{order:?}");
    assert!(order[..30].is_sorted() && order[30..].len() == 12, "{order:?}");
    let place = |id: &str| order.iter().position(|found| found == id).unwrap();
    assert!(place("x00-0") < place("x00-11"), "{order:?}");
}

#[test]
fn a_destination_that_refuses_everything_is_given_time() {
    struct Refuses;
    impl Destination for Refuses {
        fn deliver(&mut self, documents: &[Document]) -> Delivered {
            match documents.iter().any(Document::is_delete) {
                true => Delivered::Answered { outcomes: vec![Outcome::Ignored], retry_after: None },
                false => Delivered::Refused(Fault::passing("wrong pipeline")),
            }
        }
    }
    let (mut parts, world, clock) = parts(Vec::new(), 0);
    parts.destination = Box::new(Refuses);
    let runner = Runner::start("test", parts, RunnerOptions::default()).unwrap();
    let mut batch = batches(&[20]).remove(0);
    batch.documents.push(Document::delete("d", 0));
    runner
        .submit(Batch { documents: batch.documents.split_off(20), cursor: "0".to_owned() })
        .unwrap();
    runner.submit(batch).unwrap();
    let state = runner.finish();
    assert_eq!((state.accepted, state.ignored, state.rejected), (0, 1, 20));
    assert_eq!(world.lock().unwrap().kept.len(), 20);
    assert_eq!(clock.waits.load(Ordering::SeqCst), 10);
    assert!(clock.now_ns() > 100_000_000_000, "{}", clock.now_ns());
}
