//! Brokers that are killed and started again while messages are stored and read.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use cluster::engines::ErrorKind;
use cluster::engines::kafka::{Config, Log};
use cluster::sim::SimCatalog;
use cluster::{Catalog, NodeId, Partition, PublisherSettings, ReaderSettings, Resource};
use platform::{Clock, RealClock};
use record::{Format, FrameBuilder, Origin, Transport};

use super::kafka::{noise, settings};
use super::server::{Server, StopWhenDropped};

const TOPIC: &str = "frames";
/// The longest time without progress.
const STALL_MAX: Duration = Duration::from_secs(600);

/// What the writers of a partition learnt.
#[derive(Default)]
struct Written {
    /// The number of each message that was acknowledged, by its offset.
    acknowledged: BTreeMap<u64, u64>,
    /// Numbers that were sent again after their outcome was unknown.
    unclear: BTreeSet<u64>,
}

/// A message: its number, and bytes that follow from it.
fn message(number: u64) -> Vec<u8> {
    let mut bytes = number.to_le_bytes().to_vec();
    bytes.extend(noise(number, 20_000));
    bytes
}

fn config(server: &Server, brokers: u16) -> Config {
    let brokers = (0..brokers).map(|node| server.broker(node));
    Config {
        request_time_max: Duration::from_secs(10),
        append_time_max: Duration::from_secs(20),
        ..Config::new(brokers, TOPIC)
    }
}

/// Stores messages with growing numbers until told to stop. Each is repeated until it is stored.
fn write(log: &Log, partition: u32, stop: &AtomicBool, done: &AtomicU64) -> Written {
    let mut written = Written::default();
    let mut number = 0;
    while !stop.load(Ordering::SeqCst) {
        let begun = Instant::now();
        loop {
            match log.append(partition, &[&message(number)]) {
                Ok(offset) => {
                    written.acknowledged.insert(offset, number);
                    break;
                }
                Err(error) => {
                    assert!(error.may_pass(), "{error}");
                    assert!(begun.elapsed() < STALL_MAX, "{error}");
                    if error.kind == ErrorKind::OutcomeUnknown {
                        written.unclear.insert(number);
                    }
                    std::thread::sleep(Duration::from_millis(100));
                }
            }
        }
        number += 1;
        done.fetch_add(1, Ordering::SeqCst);
    }
    written
}

/// Reads a partition until told to stop, and then to its end. Returns the numbers in their order.
fn read(log: &Log, partition: u32, stop: &AtomicBool) -> BTreeMap<u64, u64> {
    let mut found = BTreeMap::new();
    let mut next = 0;
    let mut progress = Instant::now();
    loop {
        let is_last = stop.load(Ordering::SeqCst);
        match log.read(partition, next, 1 << 20, Duration::from_secs(1)) {
            // While a partition has no leader, nothing is read although there is something.
            Ok(messages)
                if messages.is_empty()
                    && is_last
                    && log.bounds(partition).is_ok_and(|bounds| next >= bounds.end) =>
            {
                return found;
            }
            Ok(messages) => {
                for read in messages {
                    progress = Instant::now();
                    let number = u64::from_le_bytes(read.bytes[..8].try_into().unwrap());
                    assert!(read.bytes == message(number), "offset {}", read.offset);
                    assert!(read.offset >= next);
                    next = read.offset + 1;
                    found.insert(read.offset, number);
                }
            }
            Err(error) => assert!(error.may_pass(), "{error}"),
        }
        assert!(progress.elapsed() < STALL_MAX, "nothing can be read of partition {partition}");
    }
}

/// Runs a writer and a reader of each partition beside `disturb`, which gets the count of messages
/// that are stored. Nothing that was acknowledged may be lost.
fn check(server: &Server, brokers: u16, partitions: u32, disturb: impl FnOnce(&AtomicU64, &Log)) {
    let log = Log::connect(config(server, brokers)).unwrap();
    log.create_topic(&settings(partitions, brokers)).unwrap();
    let (stop, stop_reading) = (AtomicBool::new(false), AtomicBool::new(false));
    let done = AtomicU64::new(0);
    let (log, stop, stop_reading, done) = (&log, &stop, &stop_reading, &done);
    std::thread::scope(|scope| {
        let _stops = (StopWhenDropped(stop), StopWhenDropped(stop_reading));
        let each = |partition| {
            let writer = scope.spawn(move || write(log, partition, stop, done));
            let reader = scope.spawn(move || read(log, partition, stop_reading));
            (partition, writer, reader)
        };
        let all: Vec<_> = (0..partitions).map(each).collect();
        disturb(done, log);
        stop.store(true, Ordering::SeqCst);
        let mut written = Vec::new();
        let mut readers = Vec::new();
        for (partition, writer, reader) in all {
            written.push(writer.join().unwrap());
            readers.push((partition, reader));
        }
        stop_reading.store(true, Ordering::SeqCst);
        for ((partition, reader), written) in readers.into_iter().zip(written) {
            let found = reader.join().unwrap();
            let mut repeated = 0;
            for (offset, number) in &written.acknowledged {
                assert_eq!(found.get(offset), Some(number), "partition {partition}");
            }
            let mut last = None;
            for number in found.values() {
                if last.is_some_and(|last| *number <= last) {
                    assert!(written.unclear.contains(number), "{number} is there twice");
                    repeated += 1;
                }
                last = last.max(Some(*number));
            }
            eprintln!(
                "partition {partition}: {} stored, {} unclear, {repeated} repeated",
                written.acknowledged.len(),
                written.unclear.len()
            );
        }
    });
}

/// Waits until so many more messages are stored.
fn wait_for(done: &AtomicU64, more: u64) {
    let wanted = done.load(Ordering::SeqCst) + more;
    let begun = Instant::now();
    while done.load(Ordering::SeqCst) < wanted {
        assert!(begun.elapsed() < STALL_MAX, "nothing can be stored");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
#[ignore = "takes minutes: make test-long"]
fn one_broker_is_killed_and_comes_back() {
    let server = Server::kafka(1);
    server.run("start");
    check(&server, 1, 2, |done, _| {
        for _ in 0..2 {
            wait_for(done, 300);
            server.run("kill 1");
            server.run("start");
        }
        wait_for(done, 300);
    });
}

#[test]
#[ignore = "takes minutes: make test-long"]
fn any_of_three_brokers_is_killed() {
    let server = Server::kafka(3);
    server.run("start 3");
    check(&server, 3, 3, |done, _| {
        // Each leads one of the partitions, so leaders and followers die in turn.
        for node in 1..=3 {
            wait_for(done, 300);
            server.run(&format!("kill {node}"));
            // Two are enough.
            wait_for(done, 300);
            server.run("start 3");
            // The next one may die when this one has what it missed.
            let behind = ["--describe", "--topic", TOPIC, "--under-replicated-partitions"];
            while server.tool("org.apache.kafka.tools.TopicCommand", &behind).contains("Partition:")
            {
            }
        }
        wait_for(done, 300);
    });
}

/// The broker that leads a partition dies and stays away: its reader goes on at the next leader,
/// while the old one is still dead.
#[test]
#[ignore = "takes minutes: make test-long"]
fn a_partition_is_read_on_while_its_leader_is_dead() {
    let server = Server::kafka(3);
    server.run("start 3");
    let log = Log::connect(config(&server, 3)).unwrap();
    log.create_topic(&settings(3, 3)).unwrap();
    let append = |number: u64| {
        let begun = Instant::now();
        while let Err(error) = log.append(0, &[&frame(number)]) {
            assert!(error.may_pass() && begun.elapsed() < STALL_MAX, "{error}");
        }
    };
    let clock = RealClock::new();
    let catalog = SimCatalog::new(Arc::new(RealClock::new()));
    let hour = Duration::from_secs(3600);
    let lease = catalog.acquire(Resource::Partition(0), NodeId(1), hour).unwrap().unwrap();
    let reading = ReaderSettings {
        read_bytes_max: 1 << 20,
        unpublished_bytes_max: 1 << 30,
        patience: Duration::from_secs(2),
    };
    let publishing = PublisherSettings {
        segment_bytes: 1 << 30,
        segment_age_max: hour,
        keep_published: hour,
        published_bytes_max: 1 << 30,
    };
    let mut partition = Partition::open(&catalog, lease, reading, publishing).unwrap();
    let mut read_to_the_end = || {
        let begun = Instant::now();
        let end = log.bounds(0).unwrap().end;
        while partition.hot.position() < end {
            let now_ns = clock.monotonic_ns();
            partition.hot.hear_end(end, now_ns);
            let taken = partition.reader.step(&log, Duration::from_millis(500), now_ns);
            if let Ok(taken) = taken
                && (taken.is_renewed || taken.is_stalled)
            {
                eprintln!("{:?} after {:?}", taken, begun.elapsed());
            }
            // The library's metadata is old after five minutes.
            assert!(begun.elapsed() < Duration::from_secs(120), "{:?}", taken.err());
        }
        eprintln!("read to {end} after {:?}", begun.elapsed());
    };
    append(1);
    read_to_the_end();
    for number in 2..5 {
        let leader = leader_of_the_first_partition(&server);
        server.run(&format!("kill {leader}"));
        append(number);
        read_to_the_end();
        server.run("start 3");
    }
}

/// The broker that leads partition 0, counted from 1.
fn leader_of_the_first_partition(server: &Server) -> u32 {
    let described =
        server.tool("org.apache.kafka.tools.TopicCommand", &["--describe", "--topic", TOPIC]);
    let line = described.lines().find(|line| line.contains("Partition: 0")).expect(&described);
    let leader = line.split("Leader: ").nth(1).and_then(|rest| rest.split_whitespace().next());
    leader.and_then(|leader| leader.parse().ok()).expect(line)
}

fn frame(number: u64) -> Vec<u8> {
    let mut builder = FrameBuilder::new();
    let origin = Origin::new(Transport::SyslogTcp, Format::Auto, None);
    builder.push_line(&origin, 1, b"a line", false);
    builder.finish(7, number).unwrap().bytes().to_vec()
}
