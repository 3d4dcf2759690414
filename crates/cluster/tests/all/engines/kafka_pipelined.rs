//! Several appends under way in a partition of a real broker: their order, their speed beside one
//! at a time, and what is stored when the broker is killed.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use cluster::engines::kafka::{Config, Log, Pending};
use cluster::{Duplicates, NodeId};
use record::frame::APPEND_WINDOW;

use super::kafka::{noise, patient, settings};
use super::server::{Server, StopWhenDropped};

/// Messages of one append.
const APPEND: usize = 4;
/// Appends under way.
const APPENDS_MAX: usize = 2;
/// The longest time without progress.
const STALL_MAX: Duration = Duration::from_secs(600);

fn message(number: u64, bytes: usize) -> Vec<u8> {
    let mut message = number.to_le_bytes().to_vec();
    message.extend(noise(number, bytes));
    message
}

/// Appends messages as a collector does: further ones while some are under way, none beyond the
/// window, and those that failed first. `done` counts those that are stored.
fn write(log: &Arc<Log>, messages: &[Vec<u8>], stop: &AtomicBool, done: &AtomicU64) -> u64 {
    let count = messages.len() as u64;
    // Those that were never appended begin here.
    let mut fresh = 0;
    let (mut missing, mut again) = (BTreeSet::new(), BTreeSet::new());
    let mut under_way: VecDeque<(Vec<u64>, Pending<Arc<Log>>)> = VecDeque::new();
    let (mut failed, mut progress) = (0, Instant::now());
    loop {
        let is_over = stop.load(Ordering::SeqCst) || fresh == count;
        while under_way.len() < APPENDS_MAX {
            let oldest = missing.first().copied().unwrap_or(fresh);
            let next: Vec<u64> = match again.is_empty() {
                false => again.iter().copied().take(APPEND).collect(),
                true if is_over => Vec::new(),
                true => (fresh..count.min(oldest + APPEND_WINDOW + 1)).take(APPEND).collect(),
            };
            let some: Vec<&[u8]> = next.iter().map(|n| messages[*n as usize].as_slice()).collect();
            let Some(last) = next.last().copied() else { break };
            let Ok(pending) = log.submit_shared(0, &some) else { break };
            fresh = fresh.max(last + 1);
            again.retain(|number| !next.contains(number));
            missing.extend(&next);
            under_way.push_back((next, pending));
        }
        // Once one failed, the others end before anything is appended again.
        while let Some((numbers, pending)) = under_way.pop_front() {
            for (number, outcome) in numbers.into_iter().zip(pending.metered_outcomes()) {
                if let Err(error) = outcome {
                    assert!(error.may_pass(), "{error}");
                    again.insert(number);
                    failed += 1;
                } else {
                    missing.remove(&number);
                    done.fetch_add(1, Ordering::SeqCst);
                    progress = Instant::now();
                }
            }
            if again.is_empty() {
                break;
            }
        }
        if under_way.is_empty() && missing.is_empty() && (is_over || fresh == count) {
            return failed;
        }
        if under_way.is_empty() && !again.is_empty() {
            std::thread::sleep(Duration::from_millis(100));
        }
        assert!(progress.elapsed() < STALL_MAX, "nothing can be stored");
    }
}

/// The numbers in a partition, in the order of their offsets.
fn numbers(log: &Log) -> Vec<u64> {
    let (mut found, mut next) = (Vec::new(), 0);
    while next < log.bounds(0).unwrap().end {
        for read in log.read(0, next, 8 << 20, Duration::from_secs(5)).unwrap() {
            found.push(u64::from_le_bytes(read.bytes[..8].try_into().unwrap()));
            next = read.offset + 1;
        }
    }
    found
}

#[test]
#[ignore = "takes minutes: make test-long"]
fn appends_under_way_keep_their_order() {
    let server = Server::kafka(1);
    server.run("start");
    let log = |topic: &str| {
        let config = Config { batch_bytes_max: 4 << 20, ..patient(server.broker(0), topic) };
        let log = Arc::new(Log::connect(config).unwrap());
        log.create_topic(&settings(1, 1)).unwrap();
        log
    };
    let (never, done) = (AtomicBool::new(false), AtomicU64::new(0));
    for (what, count, bytes) in [("1 MiB", 150, 1 << 20), ("64 KiB", 1500, 64 << 10)] {
        let messages: Vec<_> = (0..count).map(|number| message(number, bytes)).collect();
        let one_by_one = log(&format!("one-{bytes}"));
        one_by_one.append(0, &[b"first"]).unwrap();
        let begun = Instant::now();
        for message in &messages {
            one_by_one.append(0, &[message]).unwrap();
        }
        let alone = begun.elapsed();
        let under_way = log(&format!("many-{bytes}"));
        // The connection and the number of the producer are not measured.
        under_way.submit(0, &[&message(u64::MAX, 0)]).unwrap().wait().unwrap();
        let begun = Instant::now();
        assert_eq!(write(&under_way, &messages, &never, &done), 0);
        let together = begun.elapsed();
        let rate = |time: Duration| (count as usize * bytes) as f64 / time.as_secs_f64() / 1e6;
        eprintln!(
            "messages of {what}: {:.0} MB/s one by one, {:.0} MB/s with several under way",
            rate(alone),
            rate(together)
        );
        let expected: Vec<u64> = std::iter::once(u64::MAX).chain(0..count).collect();
        assert_eq!(numbers(&under_way), expected);
    }
    // What the alarm of the log's retention is told.
    let log = log("kept");
    log.append(0, &[b"old", b"new"]).unwrap();
    let week = Duration::from_secs(7 * 86_400);
    let retention = log.retention().unwrap();
    assert_eq!((retention.time, retention.bytes), (Some(week), None));
    assert_eq!(log.written_since(0).unwrap(), [Some(0)]);
    assert_eq!(log.written_since(i64::MAX / 2).unwrap(), [None]);
}

#[test]
#[ignore = "takes minutes: make test-long"]
fn appends_under_way_are_stored_once_although_the_broker_is_killed() {
    let server = Server::kafka(1);
    server.run("start");
    let config = Config {
        request_time_max: Duration::from_secs(10),
        append_time_max: Duration::from_secs(20),
        ..Config::new([server.broker(0)], "frames")
    };
    let log = Arc::new(Log::connect(config).unwrap());
    log.create_topic(&settings(1, 1)).unwrap();
    let (stop, done) = (AtomicBool::new(false), AtomicU64::new(0));
    let messages: Vec<_> = (0..100_000).map(|number| message(number, 2_000)).collect();
    let wait_for = |more: u64| {
        let wanted = done.load(Ordering::SeqCst) + more;
        let begun = Instant::now();
        while done.load(Ordering::SeqCst) < wanted {
            assert!(begun.elapsed() < STALL_MAX, "nothing can be stored");
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    let failed = std::thread::scope(|scope| {
        let _stops = StopWhenDropped(&stop);
        let writer = scope.spawn(|| write(&log, &messages, &stop, &done));
        for _ in 0..3 {
            wait_for(500);
            server.run("kill 1");
            server.run("start");
        }
        wait_for(500);
        stop.store(true, Ordering::SeqCst);
        writer.join().unwrap()
    });
    let found = numbers(&log);
    let mut duplicates = Duplicates::default();
    let mut times: BTreeMap<u64, u64> = BTreeMap::new();
    for number in &found {
        *times.entry(*number).or_default() += u64::from(duplicates.is_new(NodeId(1), *number));
    }
    let stored = times.len() as u64;
    assert_eq!(times.keys().copied().collect::<Vec<_>>(), (0..stored).collect::<Vec<_>>());
    assert!(times.values().all(|times| *times == 1));
    assert!(stored >= done.load(Ordering::SeqCst));
    let repeated = found.len() as u64 - stored;
    eprintln!("{stored} stored, {failed} failed and repeated, {repeated} copies in the log");
}
