//! A partition from the log to the catalog, step by step, at its limits.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use platform::ManualClock;
use record::frame::APPEND_WINDOW;
use record::{Format, Frame, FrameBuilder, Origin, Transport};

use crate::catalog::{Catalog, PartitionState, TimeRange};
use crate::duplicates::Seen;
use crate::error::{CatalogError, LogError, ObjectError};
use crate::frame_log::FrameLog;
use crate::hot::{HotError, HotFrame, HotPart, Lag};
use crate::ids::{Lease, NodeId, Resource};
use crate::jobs::{Retention, RetentionSettings};
use crate::objects::Objects;
use crate::partition::Partition;
use crate::plan::{HotRange, PlanError, WentBack, gather, plan};
use crate::publisher::{Progress, PublishError, PublisherSettings, SealError, Sealed, Sealer};
use crate::reader::{ReaderSettings, Taken};
use crate::sim::{Network, Remote, SimCatalog, SimLog, SimObjects, Verdict};
use crate::simulation::producer::{Producer, ProducerSettings};

const SECOND_NS: u64 = 1_000_000_000;
const HOUR: Duration = Duration::from_secs(3600);

fn frame(node: u32, sequence: u64) -> Frame {
    let mut builder = FrameBuilder::new();
    let origin = Origin::new(Transport::SyslogTcp, Format::Auto, None);
    builder.push_line(&origin, 1, b"a line", false);
    let frame = builder.finish(node, sequence).unwrap();
    Frame::decode(frame.bytes().to_vec()).unwrap()
}

struct CountLines;

impl Sealer for CountLines {
    fn seal(&self, _: u32, frames: &[HotFrame]) -> Result<Sealed, SealError> {
        Ok(Sealed {
            body: Box::new(vec![0; 4]),
            times: TimeRange::ALL,
            received_last_ns: 0,
            lines: frames.len() as u64,
            searched: 0,
            frames: Vec::new(),
        })
    }
}

/// Gives one verdict for the next call that changes something.
#[derive(Default)]
struct OneFault {
    next: Mutex<Option<Verdict>>,
    later: Mutex<Vec<Box<dyn FnOnce() + Send>>>,
}

impl Network for OneFault {
    fn before(&self, changes: bool) -> Verdict {
        let verdict = self.next.lock().unwrap().take_if(|_| changes);
        verdict.unwrap_or(Verdict::Pass)
    }
    fn after(&self) -> bool {
        true
    }
    fn later(&self, call: Box<dyn FnOnce() + Send>) {
        self.later.lock().unwrap().push(call);
    }
}

struct Bench {
    clock: Arc<ManualClock>,
    log: SimLog,
    objects: Arc<SimObjects>,
    catalog: Arc<SimCatalog>,
    faults: Arc<OneFault>,
    lease: Lease,
    partition: Partition,
}

impl Bench {
    fn new(unpublished_bytes_max: usize, segment_bytes: usize) -> Bench {
        let clock = Arc::new(ManualClock::new(0));
        let catalog = Arc::new(SimCatalog::new(clock.clone()));
        let lease = catalog.acquire(Resource::Partition(0), NodeId(1), HOUR).unwrap().unwrap();
        let patience = Duration::from_secs(2);
        let reading = ReaderSettings { read_bytes_max: 10_000, unpublished_bytes_max, patience };
        let publishing = PublisherSettings {
            segment_bytes,
            segment_age_max: Duration::from_secs(10),
            keep_published: Duration::from_secs(5),
            published_bytes_max: 10_000,
        };
        let partition = Partition::open(&*catalog, lease, reading, publishing).unwrap();
        partition.hot.extend(u64::MAX);
        Bench {
            log: SimLog::new(1),
            objects: Arc::new(SimObjects::new(clock.clone())),
            clock,
            catalog,
            faults: Arc::default(),
            lease,
            partition,
        }
    }

    fn append(&self, node: u32, sequence: u64) {
        self.log.append(0, &[frame(node, sequence).bytes()]).unwrap();
    }

    fn read(&mut self, now_s: u64) -> Taken {
        self.partition.reader.step(&self.log, Duration::ZERO, now_s * SECOND_NS).unwrap()
    }

    fn publish_step(&mut self, now_s: u64) -> Result<Progress, PublishError> {
        let catalog = Remote::new(self.catalog.clone(), self.faults.clone());
        let objects = Remote::new(self.objects.clone(), self.faults.clone());
        self.partition.publisher.step(&catalog, &objects, &CountLines, now_s * SECOND_NS)
    }

    /// Steps to the end of the next publication; returns its offsets.
    fn publish(&mut self, now_s: u64) -> std::ops::Range<u64> {
        for _ in 0..10 {
            if let Ok(Progress::Published(publication)) = self.publish_step(now_s) {
                return publication.offsets;
            }
        }
        panic!("nothing is published");
    }

    fn state(&self) -> PartitionState {
        self.catalog.partition(&self.lease).unwrap()
    }

    fn lines(&self) -> u64 {
        let snapshot = self.catalog.snapshot(TimeRange::ALL, 99).unwrap();
        snapshot.segments.iter().map(|row| row.lines).sum()
    }
}

#[test]
fn copies_of_frames_are_dropped_and_foreign_messages_passed_over() {
    let mut bench = Bench::new(100_000, 100_000);
    // The frame 4 fails, and follows 5, which was appended behind it.
    for (node, sequence) in
        [(7, 1), (7, 2), (8, 1), (7, 1), (7, 2), (7, 5), (7, 4), (8, 1), (7, 2), (7, 4)]
    {
        bench.append(node, sequence);
    }
    bench.log.append(0, &[b"", b"LGNF", &[0xff; 100]]).unwrap();
    let taken = bench.read(0);
    assert_eq!((taken.frames, taken.duplicates, taken.rejected), (5, 5, 3));
    assert_eq!(bench.publish(10), 0..13);
    assert_eq!(bench.lines(), 5);
    let seen = |last, before| Seen { last, before };
    assert_eq!(bench.state().producers, [(NodeId(7), seen(5, 0b1101)), (NodeId(8), seen(1, 0))]);
    // Only copies follow: the offset moves without a segment.
    bench.append(7, 5);
    assert_eq!(bench.read(11).duplicates, 1);
    assert_eq!(bench.publish(21), 13..14);
    assert_eq!(bench.lines(), 5);
}

/// The sealer of the bench says 1970, as the clock of a machine that was just switched on may.
#[test]
fn ages_count_by_the_clock_of_the_catalog_and_not_by_those_of_collectors() {
    let mut bench = Bench::new(100_000, 100_000);
    let (sealed_ns, day_ns) = (1_800_000_000 * SECOND_NS as i64, 86_400 * SECOND_NS as i64);
    bench.clock.advance_ns(sealed_ns);
    let lease = bench.catalog.acquire(Resource::Retention, NodeId(1), HOUR).unwrap().unwrap();
    let age_max = Some(24 * HOUR);
    let settings = RetentionSettings { age_max, ..RetentionSettings::default() };
    let mut retention = Retention::new(lease, settings);
    assert_eq!(retention.step(&*bench.catalog), Ok(0));
    bench.append(7, 1);
    bench.read(0);
    assert_eq!(bench.publish(10), 0..1);
    let rows = bench.catalog.segments_of(0, 0, 9).unwrap();
    assert_eq!(rows[0].received_last_ns, sealed_ns);
    bench.clock.advance_ns(day_ns - 1);
    assert_eq!(retention.step(&*bench.catalog), Ok(0));
    bench.clock.advance_ns(1);
    assert_eq!(retention.step(&*bench.catalog), Ok(1));
    assert_eq!(bench.lines(), 0);
}

#[test]
fn what_the_log_deleted_unread_is_counted() {
    let mut bench = Bench::new(100_000, 100_000);
    (1..=5).for_each(|sequence| bench.append(7, sequence));
    bench.log.delete_below(0, 3);
    assert_eq!(bench.read(0), Taken { lost: 3, ..Taken::default() });
    assert_eq!(bench.read(0).frames, 2);
    let progress = bench.publish_step(9);
    assert_eq!(progress, Ok(Progress::Idle));
    bench.publish_step(10).unwrap();
    bench.publish_step(10).unwrap();
    let Ok(Progress::Published(publication)) = bench.publish_step(10) else { panic!() };
    assert_eq!((publication.offsets, publication.lost), (0..5, 3));
}

#[test]
fn a_log_that_went_back_is_an_error() {
    let mut bench = Bench::new(100_000, 100_000);
    bench.append(7, 1);
    bench.append(7, 2);
    bench.read(0);
    bench.publish(10);
    bench.log = SimLog::new(1);
    let error = bench.partition.reader.step(&bench.log, Duration::ZERO, 0).unwrap_err();
    assert_eq!(error, LogError::OutOfRange { wanted: 2, start: 0, end: 0 });
    let error = plan(&*bench.catalog, &bench.log, TimeRange::ALL, 99).unwrap_err();
    assert_eq!(error, PlanError::LogWentBack(WentBack { partition: 0, end: 0, offset: 2 }));
}

#[test]
fn nothing_is_read_while_too_much_is_not_published() {
    let one = frame(7, 1).memory_bytes();
    let mut bench = Bench::new(2 * one, 2 * one);
    (1..=3).for_each(|sequence| bench.append(7, sequence));
    assert_eq!(bench.read(0).frames, 3);
    bench.append(7, 4);
    let taken = bench.read(0);
    assert!(taken.is_full && taken.frames == 0);
    // A segment has no more than its size, and the rest waits for its own time.
    assert_eq!(bench.publish(0), 0..2);
    assert_eq!(bench.read(1).frames, 1);
    assert_eq!(bench.publish(1), 2..4);
    assert_eq!(bench.lines(), 4);
}

#[test]
fn a_hot_part_answers_exactly_or_not_at_all() {
    let mut bench = Bench::new(100_000, 100_000);
    (1..=4).for_each(|sequence| bench.append(7, sequence));
    bench.read(0);
    let hot = bench.partition.hot.clone();
    let read = |from, until, now_s: u64| {
        let frames = hot.read(from, until, now_s * SECOND_NS)?;
        Ok::<Vec<u64>, HotError>(frames.iter().map(|frame| frame.offset).collect())
    };
    assert_eq!(read(1, 3, 0), Ok(vec![1, 2]));
    assert_eq!(read(3, 1, 0), Ok(vec![]));
    assert_eq!(read(0, 5, 0), Err(HotError::Behind { position: 4 }));
    assert_eq!(bench.publish(10), 0..4);
    // Published frames stay for five seconds, for plans that were made before.
    bench.append(7, 5);
    bench.read(11);
    assert_eq!(read(0, 5, 11), Ok(vec![0, 1, 2, 3, 4]));
    bench.publish_step(14).unwrap();
    assert_eq!(read(0, 5, 14).map(|offsets| offsets.len()), Ok(5));
    bench.publish_step(15).unwrap();
    assert_eq!(read(3, 5, 15), Err(HotError::Published { base: 4 }));
    assert_eq!(read(4, 5, 15), Ok(vec![4]));
    // Nobody is answered from the end of the lease on.
    hot.extend(20 * SECOND_NS);
    assert_eq!(read(4, 5, 19), Ok(vec![4]));
    assert_eq!(read(4, 5, 20), Err(HotError::NotOwner));
    hot.wait_for(5, HOUR);
    hot.wait_for(6, Duration::ZERO);
}

#[test]
fn published_frames_are_freed_early_when_they_are_too_many() {
    let mut bench = Bench::new(1 << 20, 12_000);
    let one = frame(7, 1).memory_bytes() as u64;
    let many = 12_000 / one + 1;
    (1..=many).for_each(|sequence| bench.append(7, sequence));
    while bench.read(0).frames > 0 {}
    let end = bench.publish(0).end;
    bench.publish_step(0).unwrap();
    let hot = &bench.partition.hot;
    assert_eq!(hot.read(0, end, 0).err(), Some(HotError::Published { base: end }));
}

#[test]
fn every_fault_on_the_way_to_a_publication_is_survived() {
    let verdicts =
        [Verdict::Fail, Verdict::AnswerLost, Verdict::CallLost, Verdict::Late, Verdict::Twice];
    for (verdict, step) in verdicts.into_iter().flat_map(|v| [(v, 1), (v, 2)]) {
        let mut bench = Bench::new(100_000, 100_000);
        bench.append(7, 1);
        bench.read(0);
        // Sealed; then stored, and then published.
        for _ in 0..step {
            bench.publish_step(10).unwrap();
        }
        *bench.faults.next.lock().unwrap() = Some(verdict);
        assert_eq!(bench.publish(10), 0..1, "{verdict:?} {step}");
        let later = std::mem::take(&mut *bench.faults.later.lock().unwrap());
        later.into_iter().for_each(|call| call());
        assert_eq!((bench.state().offset, bench.lines()), (1, 1), "{verdict:?} {step}");
        let listed = bench.objects.list("", None, 99).unwrap();
        assert_eq!(listed.len(), 1, "{verdict:?} {step}");
        assert_eq!(bench.publish_step(30), Ok(Progress::Idle));
    }
}

#[test]
fn a_publisher_ends_with_its_epoch() {
    let mut bench = Bench::new(100_000, 100_000);
    bench.append(7, 1);
    bench.read(0);
    bench.publish_step(10).unwrap();
    bench.publish_step(10).unwrap();
    bench.catalog.acquire(Resource::Partition(0), NodeId(1), HOUR).unwrap();
    let error = bench.publish_step(10).unwrap_err();
    assert!(matches!(error, PublishError::Over(CatalogError::LeaseOver { .. })), "{error}");
    assert_eq!(bench.partition.hot.read(0, 1, 0).err(), Some(HotError::NotOwner));
    assert_eq!(bench.lines(), 0);
}

/// After the catalog was restored from a backup, epochs are given again.
#[test]
fn a_name_that_exists_is_not_taken_for_ones_own() {
    let mut bench = Bench::new(100_000, 100_000);
    let foreign = "segments/partition-0/1-00000001-0";
    bench.objects.put_new(foreign, &b"other content".to_vec()).unwrap();
    bench.append(7, 1);
    bench.read(0);
    bench.publish_step(10).unwrap();
    let error = bench.publish_step(10).unwrap_err();
    assert!(matches!(error, PublishError::Objects(ObjectError::Exists(_))), "{error}");
    bench.publish(10);
    let snapshot = bench.catalog.snapshot(TimeRange::ALL, 9).unwrap();
    assert_eq!(snapshot.segments[0].name, "segments/partition-0/1-00000001-1");
}

#[test]
fn a_query_plans_again_and_says_what_is_missing() {
    let mut bench = Bench::new(100_000, 100_000);
    bench.append(7, 1);
    bench.read(0);
    let (catalog, log) = (bench.catalog.clone(), &bench.log);
    let planned = || plan(&*catalog, log, TimeRange::ALL, 9);
    // The owner has not heartbeat yet, so nobody knows its address.
    let gathered = gather(3, planned, |_, _| Ok::<(), HotError>(())).unwrap();
    let missing = HotRange { partition: 0, offsets: 0..1, owner: None, is_open: false };
    assert_eq!(gathered.missing, [missing]);
    assert!(gathered.answers.is_empty());
    let info = crate::catalog::NodeInfo {
        node: NodeId(1),
        name: String::new(),
        address: "here".to_owned(),
        roles: Vec::new(),
        version: String::new(),
        accepting: true,
    };
    catalog.heartbeat(&info, &[], HOUR).unwrap();
    let is_first = AtomicBool::new(true);
    let gathered = gather(3, planned, |owner, part| {
        assert_eq!((owner.address.as_str(), part.offsets.clone()), ("here", 0..1));
        match is_first.swap(false, Relaxed) {
            true => Err(HotError::NotOwner),
            false => Ok(()),
        }
    });
    let gathered = gathered.unwrap();
    assert_eq!((gathered.missing.len(), gathered.answers.len()), (0, 1));
}

#[test]
fn a_producer_keeps_the_order_and_its_limit() {
    let log = Arc::new(SimLog::new(2));
    let faults = Arc::new(OneFault::default());
    let remote = Remote::new(log.clone(), faults.clone());
    let one = frame(7, 1).bytes().len();
    let settings = ProducerSettings::new(4 * one, 2 * one);
    let mut producer = Producer::new(2, settings);
    // First in turn, then where less waits.
    for (sequence, lane) in [(1, 0), (2, 1), (3, 1), (4, 1)] {
        assert_eq!(producer.choose(), lane);
        producer.push(0, Arc::new(frame(7, sequence))).unwrap();
    }
    let full = producer.push(0, Arc::new(frame(7, 5))).unwrap_err();
    assert_eq!(full.waiting_bytes, 4 * one);
    assert_eq!(producer.waiting().collect::<Vec<_>>(), [0]);
    assert_eq!(producer.step(&remote, 0, 0).unwrap().sequences, [1, 2]);
    *faults.next.lock().unwrap() = Some(Verdict::AnswerLost);
    assert!(matches!(producer.step(&remote, 0, 0), Err(LogError::Unknown(_))));
    assert_eq!(producer.choose(), 1);
    // An append behind one that failed, then the failed one.
    assert_eq!(producer.step(&remote, 0, 1).unwrap().sequences, [4]);
    assert_eq!(producer.step(&remote, 0, 1).unwrap().sequences, [3]);
    assert_eq!(producer.step(&remote, 0, 0).unwrap().sequences, [0; 0]);
    assert_eq!(producer.waiting_bytes(), 0);
    let messages = log.read(0, 0, usize::MAX, Duration::ZERO).unwrap();
    let sequences = messages.into_iter().map(|message| Frame::decode(message.bytes).unwrap());
    let sequences: Vec<u64> = sequences.map(|frame| frame.header().sequence).collect();
    assert_eq!(sequences, [1, 2, 3, 4, 4, 3]);
    // Not further than the window from the oldest.
    for sequence in [10, 10 + APPEND_WINDOW, 11 + APPEND_WINDOW] {
        producer.push(0, Arc::new(frame(7, sequence))).unwrap();
    }
    assert_eq!(producer.step(&remote, 0, 2).unwrap().sequences, [10, 10 + APPEND_WINDOW]);
}

/// The broker that leads a partition is gone, and the library answers "no messages" for minutes.
#[test]
fn a_partition_that_brings_nothing_although_it_has_more_is_reached_anew() {
    let mut bench = Bench::new(100_000, 100_000);
    bench.append(7, 1);
    bench.log.wedge(0, 3);
    let hot = bench.partition.hot.clone();
    let look = |bench: &mut Bench, now_s: u64| {
        let taken = bench.read(now_s);
        (taken.frames, taken.is_renewed, taken.is_stalled)
    };
    // As long as nobody heard that there is more, nothing is wrong.
    assert_eq!(look(&mut bench, 0), (0, false, false));
    assert_eq!(look(&mut bench, 10), (0, false, false));
    assert_eq!(hot.lag(10 * SECOND_NS), Lag::default());
    // A query heard it: it wants what it cannot get.
    assert_eq!(hot.read(0, 1, 11 * SECOND_NS).err(), Some(HotError::Behind { position: 0 }));
    let lag = Lag { messages: 1, age: Duration::from_secs(9) };
    assert_eq!((hot.end(), hot.lag(20 * SECOND_NS)), (1, lag));
    // After the patience of 2 s, and then after twice as long each time. The second time is
    // trouble.
    assert_eq!(look(&mut bench, 20), (0, false, false));
    assert_eq!(look(&mut bench, 21), (0, false, false));
    assert_eq!(look(&mut bench, 22), (0, true, false));
    assert_eq!(look(&mut bench, 25), (0, false, false));
    assert_eq!(look(&mut bench, 26), (0, true, true));
    assert_eq!(look(&mut bench, 33), (0, false, true));
    assert_eq!(look(&mut bench, 34), (0, true, true));
    assert_eq!(look(&mut bench, 34), (1, false, false));
    assert_eq!((hot.end(), hot.lag(40 * SECOND_NS)), (1, Lag::default()));
    // The next time, the patience is the first one again.
    bench.append(7, 2);
    bench.log.wedge(0, 1);
    hot.hear_end(2, 50 * SECOND_NS);
    assert_eq!(look(&mut bench, 50), (0, false, false));
    assert_eq!(look(&mut bench, 52), (0, true, false));
    assert_eq!(look(&mut bench, 52), (1, false, false));
}

#[test]
fn the_age_of_a_lag_is_that_of_the_oldest_message_that_was_not_read() {
    let hot = HotPart::new(0);
    for end in 1..=100 {
        hot.hear_end(end, end * SECOND_NS);
        // An older end, and the same one, say nothing new.
        hot.hear_end(end / 2, end * SECOND_NS);
    }
    let lag = |messages, age_s| Lag { messages, age: Duration::from_secs(age_s) };
    assert_eq!(hot.lag(200 * SECOND_NS), lag(100, 199));
    hot.append(Vec::new(), 50, 0, 200 * SECOND_NS);
    assert_eq!(hot.lag(200 * SECOND_NS), lag(50, 149));
    // More ends are not remembered one by one.
    hot.append(Vec::new(), 99, 0, 200 * SECOND_NS);
    assert_eq!(hot.lag(200 * SECOND_NS), lag(1, 100));
    hot.append(Vec::new(), 100, 0, 200 * SECOND_NS);
    assert_eq!(hot.lag(200 * SECOND_NS), Lag::default());
}

#[test]
fn what_was_read_is_published_at_once_on_demand() {
    let mut bench = Bench::new(100_000, 100_000);
    for sequence in 1..=3 {
        bench.append(7, sequence);
    }
    bench.read(0);
    assert_eq!(bench.publish_step(1).unwrap(), Progress::Idle);
    assert_eq!(bench.partition.hot.publish_now(), 3);
    // What is read later waits for its size or age.
    bench.append(7, 4);
    assert_eq!(bench.publish(1), 0..3);
    bench.read(1);
    assert_eq!(bench.publish_step(2).unwrap(), Progress::Idle);
    assert_eq!((bench.partition.hot.publish_now(), bench.lines()), (1, 3));
    assert_eq!(bench.publish(2), 3..4);
    assert_eq!(bench.partition.hot.publish_now(), 0);
    assert_eq!(bench.publish_step(3).unwrap(), Progress::Idle);
}
