//! A log that fails at random, in the middle of the frames of a call, whether or not it stored
//! them: every acknowledged line is in it once for a reader that drops copies.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};

use platform::SimDisk;
use record::{Format, FrameBuilder, Origin, Transport};

use super::super::{Forward, ForwardConfig, Forwarder};
use super::*;
use crate::deliver::{Deliver, Patience};

const PARTITIONS: usize = 3;

#[derive(Default)]
struct FaultyLog {
    messages: [Mutex<Vec<Vec<u8>>>; PARTITIONS],
    calls: AtomicU64,
    seed: u64,
    is_away: AtomicBool,
    is_faulty: AtomicBool,
}

impl AppendLog for FaultyLog {
    fn name(&self) -> String {
        "a faulty log".to_owned()
    }

    fn begin(&self, partition: u32, messages: &[&[u8]]) -> Result<Box<dyn Appending>, String> {
        if self.is_away.load(Relaxed) {
            return Err("away".to_owned());
        }
        let call = self.calls.fetch_add(1, Relaxed);
        let mut random = fastrand::Rng::with_seed(self.seed << 32 | call);
        let fails = self.is_faulty.load(Relaxed) && random.u8(..3) == 0;
        let mut outcomes = Vec::new();
        // Any of them fails, whether or not it is stored.
        for message in messages {
            let is_lost = fails && random.bool();
            if !is_lost || random.bool() {
                lock(&self.messages[partition as usize]).push(message.to_vec());
            }
            outcomes.push(if is_lost { Err("the answer is lost".to_owned()) } else { Ok(()) });
        }
        Ok(Box::new(Ended(outcomes)))
    }
}

struct Ended(Vec<Result<(), String>>);

impl Appending for Ended {
    fn end(self: Box<Self>) -> Vec<Result<(), String>> {
        self.0
    }
}

impl FaultyLog {
    /// The lines of each frame, as a reader that drops copies finds them. Panics if two frames have
    /// the same name, or if a reader that remembers the numbers of the window alone takes a frame
    /// for a copy.
    fn lines(&self) -> BTreeMap<String, usize> {
        let (mut names, mut lines) = (BTreeMap::new(), BTreeMap::new());
        for messages in &self.messages {
            let mut last = 0;
            for message in lock(messages).iter() {
                let frame = Frame::decode(message.clone()).unwrap();
                let name = frame.header().name();
                if let Some(first) = names.insert(name, message.clone()) {
                    assert_eq!(first, *message, "{name:?} names two frames");
                    continue;
                }
                assert!(name.1 + APPEND_WINDOW >= last, "{name:?} comes late, behind {last}");
                last = last.max(name.1);
                for line in frame.lines() {
                    let line = String::from_utf8(line.bytes.to_vec()).unwrap();
                    *lines.entry(line).or_default() += 1;
                }
            }
        }
        lines
    }
}

fn config(bytes_max: u64) -> ForwardConfig {
    ForwardConfig {
        copies: Vec::new(),
        stores: (0..PARTITIONS).map(|index| format!("partition {index}")).collect(),
        spool_dir: PathBuf::from("/spool"),
        spool_bytes_max: bytes_max,
        window_bytes: 1 << 20,
        spool_always: false,
        lost_stores: Vec::new(),
        secret: None,
    }
}

/// Delivers a frame of one line. `kept` counts the notifications that it is durable.
fn deliver(forwarder: &Forwarder, line: &str, kept: &Arc<AtomicUsize>) {
    let origin = Origin::new(Transport::SyslogTcp, Format::Auto, None);
    let mut builder = FrameBuilder::new();
    builder.push_lines(&origin, 1, format!("{line}\n").as_bytes());
    let (node, sequence) = forwarder.next_sequence();
    let kept = Arc::clone(kept);
    let on_durable = move |result: Result<(), KeepError>| {
        assert_eq!(result, Ok(()));
        kept.fetch_add(1, Relaxed);
    };
    let frame = builder.finish(node, sequence).unwrap();
    forwarder.deliver(frame, Box::new(on_durable), Patience::Unlimited).unwrap();
}

fn wait_for(what: &str, holds: impl Fn() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_secs(300), "waited too long for {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn is_drained(forwarder: &Forwarder) -> bool {
    let status = forwarder.status();
    let in_memory: u64 = status.stores.iter().map(|store| store.bytes_in_memory).sum();
    status.spool.lines == 0 && in_memory == 0 && status.waiting_bytes == 0
}

#[test]
fn every_acknowledged_line_is_in_the_log_once() {
    for seed in 0..8 {
        let log = Arc::new(FaultyLog { seed, ..FaultyLog::default() });
        log.is_faulty.store(true, Relaxed);
        let disk = SimDisk::new(seed);
        let kept = Arc::<AtomicUsize>::default();
        // Each start finds what the former one left in the spool.
        for start in 0..4 {
            let to = Arc::clone(&log) as Arc<dyn AppendLog>;
            let forwarder =
                Forwarder::start_log(config(1 << 30), Arc::new(disk.clone()), to).unwrap();
            log.is_away.store(start % 2 == 1, Relaxed);
            (0..40).for_each(|n| deliver(&forwarder, &format!("{seed} {start} {n}"), &kept));
            if start == 3 {
                wait_for("the spool", || forwarder.status().spool.lines > 0);
                log.is_away.store(false, Relaxed);
                wait_for("the log", || is_drained(&forwarder));
            }
            forwarder.stop();
            assert_eq!(kept.load(Relaxed), 40 * (start + 1), "seed {seed}");
        }
        let lines = log.lines();
        assert_eq!(lines.len(), 160, "seed {seed}");
        assert!(lines.values().all(|count| *count == 1), "seed {seed}: {lines:?}");
    }
}

#[test]
fn a_log_that_is_away_at_first_gets_what_waited() {
    let log = Arc::new(FaultyLog::default());
    log.is_away.store(true, Relaxed);
    let to = Arc::clone(&log) as Arc<dyn AppendLog>;
    let disk = Arc::new(SimDisk::new(1));
    let forwarder = Forwarder::start_log(config(1 << 30), disk, to).unwrap();
    let kept = Arc::<AtomicUsize>::default();
    (0..500).for_each(|n| deliver(&forwarder, &n.to_string(), &kept));
    wait_for("the spool", || kept.load(Relaxed) == 500);
    assert!(log.lines().is_empty());
    let away = forwarder.status().stores.into_iter().map(|store| store.link);
    assert!(away.into_iter().any(|link| matches!(link, Link::Away { error } if error == "away")));
    log.is_away.store(false, Relaxed);
    wait_for("the log", || is_drained(&forwarder));
    assert_eq!(log.lines().len(), 500);
}

/// A log whose messages wait for each other takes a backlog of small frames as few messages.
#[test]
fn small_frames_that_wait_are_joined() {
    let log = Arc::new(FaultyLog::default());
    log.is_away.store(true, Relaxed);
    let to = Arc::clone(&log) as Arc<dyn AppendLog>;
    let forwarder = Forwarder::start_log(config(1 << 30), Arc::new(SimDisk::new(1)), to).unwrap();
    let kept = Arc::<AtomicUsize>::default();
    // A frame for each partition, so that all are known to be away.
    let is_away = || {
        let links = forwarder.status().stores.into_iter().map(|store| store.link);
        links.into_iter().all(|link| matches!(link, Link::Away { .. }))
    };
    let mut sent = 0;
    while !is_away() {
        deliver(&forwarder, &format!("first {sent}"), &kept);
        sent += 1;
        std::thread::sleep(Duration::from_millis(1));
    }
    (0..500).for_each(|n| deliver(&forwarder, &n.to_string(), &kept));
    wait_for("the spool", || kept.load(Relaxed) == 500 + sent);
    assert!(forwarder.is_spooling());
    log.is_away.store(false, Relaxed);
    wait_for("the log", || is_drained(&forwarder));
    assert!(!forwarder.is_spooling());
    let lines = log.lines();
    assert!(lines.len() == 500 + sent && lines.values().all(|count| *count == 1), "{lines:?}");
    let messages: usize = log.messages.iter().map(|messages| lock(messages).len()).sum();
    assert!(messages < 100 + sent, "{messages}");
}

/// Files may wait in a spool that another thread has.
#[test]
fn a_busy_spool_is_asked_again_soon() {
    let log = Arc::new(FaultyLog::default()) as Arc<dyn AppendLog>;
    let disk = Arc::new(SimDisk::new(1));
    let forwarder = Forwarder::start_log(config(1 << 30), disk, Arc::clone(&log)).unwrap();
    // Now no other thread has the spool.
    forwarder.stop();
    let shared = forwarder.shared();
    let (_handle, poll) = LaneHandle::new("partition 0".to_owned()).unwrap();
    let mut lane = LogLane::new(Arc::clone(shared), log, 0, poll);
    assert_eq!(lane.step(), Ok(false));
    assert_eq!(lane.idle_max(), IDLE_MAX);
    let spool = shared.spool();
    // Bound files were looked for, and there are none.
    assert_eq!(lane.step(), Ok(false));
    assert_eq!(lane.idle_max(), SPOOL_RETRY);
    drop(spool);
    assert_eq!(lane.step(), Ok(false));
    assert_eq!(lane.idle_max(), IDLE_MAX);
}

/// A log that holds up its first append until it is told to go on.
#[derive(Default)]
struct SlowLog {
    inner: FaultyLog,
    appends: AtomicUsize,
    goes_on: AtomicBool,
}

impl AppendLog for SlowLog {
    fn name(&self) -> String {
        "a slow log".to_owned()
    }

    fn begin(&self, partition: u32, messages: &[&[u8]]) -> Result<Box<dyn Appending>, String> {
        self.appends.fetch_add(1, Relaxed);
        wait_for("leave to go on", || self.goes_on.load(Relaxed));
        self.inner.begin(partition, messages)
    }
}

#[test]
fn small_frames_that_arrive_during_an_append_are_joined() {
    let log = Arc::new(SlowLog::default());
    let to = Arc::clone(&log) as Arc<dyn AppendLog>;
    let forwarder = Forwarder::start_log(config(1 << 30), Arc::new(SimDisk::new(1)), to).unwrap();
    let kept = Arc::<AtomicUsize>::default();
    // Each partition is at an append.
    let mut sent = 0;
    while log.appends.load(Relaxed) < PARTITIONS {
        deliver(&forwarder, &format!("first {sent}"), &kept);
        sent += 1;
        std::thread::sleep(Duration::from_millis(1));
    }
    (0..300).for_each(|n| deliver(&forwarder, &n.to_string(), &kept));
    log.goes_on.store(true, Relaxed);
    wait_for("the log", || is_drained(&forwarder));
    assert_eq!(kept.load(Relaxed), 300 + sent);
    let lines = log.inner.lines();
    assert!(lines.len() == 300 + sent && lines.values().all(|count| *count == 1), "{lines:?}");
    let messages: usize = log.inner.messages.iter().map(|messages| lock(messages).len()).sum();
    // Those that waited in front, and one message of each partition for those behind them.
    assert!(messages <= sent + PARTITIONS, "{messages} of {sent}");
    let acknowledged = |bytes: fn(&super::super::StoreStatus) -> u64| -> u64 {
        forwarder.status().stores.iter().map(bytes).sum()
    };
    assert_eq!(acknowledged(|store| store.lines_acknowledged), 300 + sent as u64);
    assert_eq!(acknowledged(|store| store.bytes_in_memory), 0);
}
