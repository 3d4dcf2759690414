//! Retention against a reference model: what it leaves is what its limits and rules say, nothing
//! less.
//!
//! Histories of random appends, rewrites, restarts with other limits, and time that passes, on the
//! simulated disk. Before each operation the model reads the list of segments and says which lines
//! the operation may delete. Any other line must be there afterwards; and whatever the limits name
//! must be gone, as far as whole segments and the worth of a rewrite allow.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use crate::common::{TestHost, config, frame_at, logged, parse_all, work};
use platform::{Clock, Disk, ManualClock, Patience, SimDisk};
use record::{Format, FrameBuilder, Origin, Transport};
use store::{
    RetentionRule, SegmentInfo, SegmentState, Step, Store, StoreCallbacks, StoreConfig, Unit,
};

const HISTORIES: u64 = 60;
const STEPS: usize = 16;
const HOUR_NS: i64 = 3_600_000_000_000;
/// What a rule selects.
const MARK: &str = "debug";
/// As `ROOM_AHEAD_PARTS` and `RETENTION_PARTS` of the store.
const ROOM_AHEAD_PARTS: u64 = 64;
const RETENTION_PARTS: u64 = 8;
/// A rule rewrites a segment of which it selects at least this part.
const WORTH_PARTS: u64 = 8;

const REWRITING: &str = "rewriting";

struct Line {
    received_ns: i64,
    is_marked: bool,
}

struct History {
    seed: u64,
    rng: fastrand::Rng,
    disk: SimDisk,
    clock: Arc<ManualClock>,
    config: StoreConfig,
    host: TestHost,
    store: Option<Store>,
    lines: Vec<Line>,
    there: BTreeSet<usize>,
    story: Vec<String>,
    expired: u64,
    ruled: u64,
}

impl Drop for History {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("seed {}\n{}", self.seed, self.story.join("\n"));
        }
    }
}

/// A segment with the lines that it holds.
struct Held {
    info: SegmentInfo,
    lines: Vec<usize>,
}

impl History {
    fn new(seed: u64, dir: &Path) -> History {
        let mut rng = fastrand::Rng::with_seed(seed);
        let disk = SimDisk::new(seed).with_os_dir(dir.join(seed.to_string()));
        std::fs::create_dir(dir.join(seed.to_string())).unwrap();
        let mut config = config("/data");
        (config.segment_bytes_min, config.reencode_age_ns) = (8 << 10, 0);
        config.segment_age_ns = 10 * HOUR_NS;
        limit(&mut config, &mut rng);
        let mut history = History {
            seed,
            rng,
            disk,
            clock: Arc::new(ManualClock::new(1_000 * HOUR_NS)),
            config,
            host: TestHost::new(),
            store: None,
            lines: Vec::new(),
            there: BTreeSet::new(),
            story: Vec::new(),
            expired: 0,
            ruled: 0,
        };
        history.open();
        history
    }

    fn store(&self) -> &Store {
        self.store.as_ref().expect("open")
    }

    fn open(&mut self) {
        let (disk, clock): (Arc<dyn Disk>, Arc<dyn Clock>) =
            (Arc::new(self.disk.clone()), self.clock.clone());
        let StoreConfig { age_ns, bytes_max, rules, segment_bytes_max, .. } = &self.config;
        self.story.push(format!(
            "open: age {age_ns:?}, bytes {bytes_max:?}, rules {rules:?}, segments {segment_bytes_max}"
        ));
        self.store = Some(Store::open_stepped(self.config.clone(), disk, clock).expect("opens").0);
    }

    /// The segments in the order in which retention deletes them.
    fn held(&self) -> Vec<Held> {
        let mut lines: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
        for unit in self.store().snapshot((i64::MIN, i64::MAX)).unwrap() {
            let batch = match &unit {
                Unit::Frame(frame) => {
                    Arc::new(self.host.parse(frame.read_frame().unwrap().unwrap()))
                }
                Unit::Block(block) => block.read().unwrap().unwrap(),
            };
            let number = |raw: &[u8]| -> usize {
                let text = std::str::from_utf8(raw).expect("as sent");
                text.split(' ').next().unwrap().parse().expect("a number")
            };
            let of = lines.entry(unit.position().segment).or_default();
            of.extend(batch.rows().map(|row| number(row.raw())));
        }
        let segments = self.store().segments().into_iter();
        let held: Vec<Held> = segments
            .map(|info| Held { lines: lines.remove(&info.id).unwrap_or_default(), info })
            .collect();
        assert!(lines.is_empty(), "each unit is of a listed segment");
        held
    }

    /// The room that retention makes ahead of need, bytes.
    fn ahead(&self) -> u64 {
        self.config.bytes_max.map_or(0, |bytes| bytes / ROOM_AHEAD_PARTS)
    }

    /// The lines that may go when retention finds these segments and `more` bytes are to come.
    fn may_go(&self, held: &[Held], more: u64) -> BTreeSet<usize> {
        let now_ns = self.clock.now_ns();
        let is_old = |segment: &Held, age_ns: i64| {
            segment.info.received_ns.is_some_and(|(_, newest)| newest < now_ns - age_ns)
        };
        let mut sum: u64 = held.iter().map(|segment| segment.info.bytes_disk).sum::<u64>();
        let mut gone = BTreeSet::new();
        for segment in held {
            let too_old = self.config.age_ns.is_some_and(|age_ns| is_old(segment, age_ns));
            let too_much = self.config.bytes_max.is_some_and(|max| sum + more + self.ahead() > max);
            if too_old || too_much {
                gone.extend(&segment.lines);
                sum -= segment.info.bytes_disk;
                continue;
            }
            let is_ruled = self.config.rules.iter().any(|rule| is_old(segment, rule.age_ns));
            if is_ruled {
                gone.extend(segment.lines.iter().filter(|line| self.lines[**line].is_marked));
            }
        }
        gone
    }

    /// Asserts that only lines went that might go.
    fn check(&mut self, may_go: &BTreeSet<usize>, what: &str) {
        let held = self.held();
        let mut found = BTreeSet::new();
        for line in held.iter().flat_map(|segment| &segment.lines) {
            assert!(found.insert(*line), "line {line} is there twice after {what}");
        }
        assert!(found.is_subset(&self.there), "a line came back after {what}");
        let went: Vec<usize> = self.there.difference(&found).copied().collect();
        let wrong: Vec<&usize> = went.iter().filter(|line| !may_go.contains(line)).collect();
        assert!(
            wrong.is_empty(),
            "{what} deleted {} lines that no limit names, from line {} on",
            wrong.len(),
            wrong[0]
        );
        self.story.push(format!("{what}: {} of {} lines went", went.len(), self.there.len()));
        match what {
            REWRITING => self.ruled += went.len() as u64,
            _ => self.expired += went.len() as u64,
        }
        self.there = found;
    }

    fn step(&mut self) {
        match self.rng.u8(..8) {
            0..3 => self.append(),
            3 => {
                self.store().roll();
                parse_all(self.store(), &self.host);
                self.work(usize::MAX);
            }
            4 => {
                parse_all(self.store(), &self.host);
                let steps = self.rng.usize(1..6);
                self.work(steps);
            }
            5 => {
                self.clock.advance_ns(self.rng.i64(0..8) * HOUR_NS);
                self.retain();
            }
            _ => self.reopen(),
        }
    }

    fn append(&mut self) {
        for _ in 0..self.rng.usize(1..6) {
            self.clock.advance_ns(self.rng.i64(1..HOUR_NS / 4));
            let held = self.held();
            let received_ns = self.clock.now_ns();
            let (node, sequence) = self.store().next_sequence();
            let mut builder = FrameBuilder::new();
            let marked_in_8 = self.rng.u8(..9);
            for _ in 0..self.rng.usize(1..150) {
                let is_marked = self.rng.u8(..8) < marked_in_8;
                // Hexadecimal digits take half their size when sealed: segments differ little from
                // their lines in size, as those of lines that cannot be compressed.
                let noise: String =
                    (0..self.rng.usize(1..400)).map(|_| self.rng.digit(16)).collect();
                let mark = if is_marked { MARK } else { "info" };
                let text = format!("{} {mark} {noise}", self.lines.len());
                let origin = Origin::new(Transport::SyslogTcp, Format::Syslog, None);
                builder.push_line(&origin, received_ns, text.as_bytes(), false);
                self.there.insert(self.lines.len());
                self.lines.push(Line { received_ns, is_marked });
            }
            let frame = builder.finish(node, sequence).expect("has lines");
            // The new frame, what is preallocated for it, and the index of the segment before it.
            let more = 2 * self.segment_bytes() + frame.bytes().len() as u64;
            let may_go = self.may_go(&held, more);
            let frames = vec![(frame, Box::new(|done: Result<_, _>| done.unwrap()) as _)];
            self.store().append(frames, Patience::Awaited).unwrap();
            self.store().writer_step();
            self.check(&may_go, "appending a frame");
        }
    }

    fn segment_bytes(&self) -> u64 {
        let part = self.config.bytes_max.map_or(u64::MAX, |bytes| bytes / RETENTION_PARTS);
        self.config.segment_bytes_max.min(part).max(self.config.segment_bytes_min)
    }

    /// Rewrites: only lines that a rule names may go, whatever the limit on bytes says.
    fn work(&mut self, steps: usize) {
        let bytes_max = std::mem::take(&mut self.config.bytes_max);
        let age_ns = std::mem::take(&mut self.config.age_ns);
        let may_go = self.may_go(&self.held(), 0);
        (self.config.bytes_max, self.config.age_ns) = (bytes_max, age_ns);
        self.host.idle.store(self.rng.bool(), std::sync::atomic::Ordering::Relaxed);
        match steps {
            usize::MAX => _ = work(self.store(), &self.host),
            _ => {
                let mut left = steps;
                while left > 0 && self.store().background_step(&self.host) == Step::Worked {
                    left -= 1;
                }
            }
        }
        self.check(&may_go, REWRITING);
        assert_eq!(self.store().stats().sealing.failures, 0, "the disk is fine");
        if steps == usize::MAX {
            self.check_rules();
        }
    }

    /// Asserts that no sealed segment has enough lines that a due rule names.
    fn check_rules(&self) {
        let now_ns = self.clock.now_ns();
        for Held { info, lines } in self.held() {
            let newest_ns = info.received_ns.map_or(i64::MAX, |(_, newest)| newest);
            let is_due = self.config.rules.iter().any(|rule| newest_ns < now_ns - rule.age_ns);
            if info.state != SegmentState::Sealed || !is_due {
                continue;
            }
            let marked = lines.iter().filter(|line| self.lines[**line].is_marked).count() as u64;
            // Lines have at most some 420 bytes, and at least 8.
            assert!(
                marked * 8 < (info.bytes_raw / WORTH_PARTS).max(1),
                "segment {} has {marked} lines in {} bytes that a rule names",
                info.id,
                info.bytes_raw
            );
        }
    }

    /// Retention: afterwards the limits hold.
    fn retain(&mut self) {
        // An empty segment may be made that records the numbers of frames.
        let may_go = self.may_go(&self.held(), 16 << 10);
        self.store().run_retention(self.clock.now_ns());
        self.check(&may_go, "retention");
        let stats = self.store().stats();
        let is_within = self.config.bytes_max.is_none_or(|bytes_max| stats.bytes_disk <= bytes_max);
        let is_last = self.store().segments().iter().filter(|s| s.lines > 0).count() <= 1;
        assert!(is_within || is_last, "{} bytes of {:?}", stats.bytes_disk, self.config.bytes_max);
        if let Some(age_ns) = self.config.age_ns {
            let oldest_ns = self.clock.now_ns() - age_ns;
            for segment in self.held() {
                let newest = segment.lines.iter().map(|line| self.lines[*line].received_ns).max();
                assert!(newest.is_none_or(|ns| ns >= oldest_ns), "{:?} is too old", segment.info);
            }
        }
    }

    /// Restarts, mostly with other limits.
    fn reopen(&mut self) {
        let held = self.held();
        if self.rng.u8(..4) > 0 {
            limit(&mut self.config, &mut self.rng);
        }
        self.store.take().expect("open").close().unwrap();
        self.open();
        let may_go = self.may_go(&held, 16 << 10);
        self.check(&may_go, "a restart");
        self.retain();
    }
}

/// Draws limits.
fn limit(config: &mut StoreConfig, rng: &mut fastrand::Rng) {
    config.segment_bytes_max = 8 << rng.u8(10..17);
    config.bytes_max = (rng.u8(..4) > 0).then(|| rng.u64(64 << 10..300 << 10));
    config.age_ns = (rng.u8(..3) == 0).then(|| rng.i64(8..60) * HOUR_NS);
    let rule = |rng: &mut fastrand::Rng| RetentionRule {
        filter: MARK.to_owned(),
        age_ns: rng.i64(0..20) * HOUR_NS + 1,
    };
    config.rules = (0..rng.usize(..3)).map(|_| rule(rng)).collect();
}

#[test]
fn retention_leaves_what_its_limits_and_rules_say_and_nothing_less() {
    // In memory: only the catalog is a real file, and it is synced often.
    let memory = Path::new("/dev/shm");
    let dir = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
    let dir = dir.unwrap();
    let first = std::env::var("LOGINSON_SEED").ok().map(|text| text.parse().expect("a number"));
    let seeds = first.map_or(0..HISTORIES, |seed: u64| seed..seed + 1);
    let (mut expired, mut ruled, is_whole) = (0, 0, first.is_none());
    for seed in seeds {
        let mut history = History::new(seed, dir.path());
        (0..STEPS).for_each(|_| history.step());
        expired += history.expired;
        ruled += history.ruled;
    }
    if is_whole {
        assert!(expired > 500 && ruled > 500, "{expired} lines expired, rules took {ruled}");
    }
}

/// Appends `frames` frames of 1,000 lines that cannot be compressed, a fifth of them marked, and
/// seals them as one segment.
fn sealed(store: &Store, host: &TestHost, frames: usize, rng: &mut fastrand::Rng, now_ns: i64) {
    for _ in 0..frames {
        let (node, sequence) = store.next_sequence();
        let mut builder = FrameBuilder::new();
        let origin = Origin::new(Transport::SyslogTcp, Format::Syslog, None);
        for line in 0..1_000 {
            let mark = if line % 5 == 0 { MARK } else { "info" };
            let noise: String = (0..200).map(|_| rng.digit(16)).collect();
            let text = format!("{mark} {noise}");
            builder.push_line(&origin, now_ns, text.as_bytes(), false);
        }
        let frame = builder.finish(node, sequence).expect("has lines");
        store.append(vec![(frame, Box::new(|_| ()))], Patience::Awaited).unwrap();
        store.writer_step();
    }
    store.roll();
    parse_all(store, host);
    work(store, host);
}

#[test]
fn a_lower_limit_and_a_rule_together_leave_what_each_of_them_leaves() {
    let dir = tempfile::tempdir().unwrap();
    let disk = SimDisk::new(1).with_os_dir(dir.path().to_owned());
    let clock = Arc::new(ManualClock::new(1_000 * HOUR_NS));
    let mut config = config("/data");
    config.segment_bytes_max = 64 << 20;
    let open = |config: &StoreConfig| {
        let (disk, clock): (Arc<dyn Disk>, Arc<dyn Clock>) =
            (Arc::new(disk.clone()), clock.clone());
        Store::open_stepped(config.clone(), disk, clock).unwrap().0
    };
    let (host, mut rng) = (TestHost::new(), fastrand::Rng::with_seed(1));
    let store = open(&config);
    for frames in [70, 48] {
        clock.advance_ns(HOUR_NS);
        sealed(&store, &host, frames, &mut rng, clock.now_ns());
    }
    let bytes: Vec<u64> = store.segments().iter().map(|s| s.bytes_disk).collect();
    assert!(bytes.len() == 2 && bytes[0] + bytes[1] > 9 << 20, "{bytes:?}");
    assert!(bytes[1] < 9 << 20 && 2 * bytes[1] > 9 << 20, "no room for a copy: {bytes:?}");
    store.close().unwrap();
    drop(store);
    config.bytes_max = Some(9 << 20);
    config.rules = vec![RetentionRule { filter: MARK.to_owned(), age_ns: HOUR_NS }];
    clock.advance_ns(2 * HOUR_NS);
    let store = open(&config);
    // A newer segment, without which the last of the others would have to stay.
    let frame = frame_at(store.next_sequence(), 1, 100, clock.now_ns());
    store.append(vec![(frame, Box::new(|_| ()))], Patience::Awaited).unwrap();
    store.writer_step();
    for _ in 0..3 {
        store.run_retention(clock.now_ns());
        work(&store, &host);
    }
    let stats = store.stats();
    assert_eq!((stats.lines, stats.lines_expired), (38_401, 70_000), "four of five, of the newer");
    assert!(stats.bytes_disk <= 9 << 20);
}

/// A store of its own, without threads.
struct Small {
    disk: SimDisk,
    clock: Arc<ManualClock>,
    config: StoreConfig,
    host: TestHost,
    store: Option<Store>,
    dir: tempfile::TempDir,
}

impl Small {
    /// A store whose clock shows an hour of January 2026.
    fn new(change: impl FnOnce(&mut StoreConfig)) -> Small {
        let dir = tempfile::tempdir().unwrap();
        let disk = SimDisk::new(1).with_os_dir(dir.path().to_owned());
        let clock = Arc::new(ManualClock::new(1_768_003_200_000_000_000));
        let mut config = config("/data");
        change(&mut config);
        let host = TestHost::new();
        let mut small = Small { disk, clock, config, host, store: None, dir };
        small.open();
        small
    }

    fn open(&mut self) {
        drop(self.store.take());
        let (disk, clock): (Arc<dyn Disk>, Arc<dyn Clock>) =
            (Arc::new(self.disk.clone()), self.clock.clone());
        self.store = Some(Store::open_stepped(self.config.clone(), disk, clock).unwrap().0);
    }

    fn store(&self) -> &Store {
        self.store.as_ref().expect("open")
    }

    /// A sealed segment of 1,000 lines.
    fn segment(&self) {
        let store = self.store();
        let frame = frame_at(store.next_sequence(), 1_000, 100, self.clock.now_ns());
        store.append(vec![(frame, Box::new(|_| ()))], Patience::Awaited).unwrap();
        store.writer_step();
        store.roll();
        parse_all(store, &self.host);
        work(store, &self.host);
    }

    fn retain(&self) {
        self.store().run_retention(self.clock.now_ns());
        work(self.store(), &self.host);
    }
}

#[test]
fn each_deletion_is_one_line_of_the_log() {
    let received = "received from 2026-01-10T00:00:00Z to 2026-01-10T00:00:00Z";
    let small = Small::new(|config| config.age_ns = Some(8 * HOUR_NS));
    small.segment();
    assert_eq!(logged(|| small.retain()), Vec::<String>::new());
    small.clock.advance_ns(8 * HOUR_NS + 1);
    let log = logged(|| small.retain());
    let [line] = &log[..] else { panic!("{log:?}") };
    let start =
        format!("INFO audit: retention.age = 8h: segment 2 is deleted: 1000 lines, {received}, ");
    assert!(line.starts_with(&start), "{line}");

    let mut small = Small::new(|_| {});
    small.segment();
    small.clock.advance_ns(HOUR_NS);
    small.segment();
    let bytes: Vec<u64> = small.store().segments().iter().map(|s| s.bytes_disk).collect();
    (small.config.bytes_max, small.config.segment_bytes_min) = (Some(bytes[1] * 3 / 2), 16);
    small.open();
    let log = logged(|| small.retain());
    let [line] = &log[..] else { panic!("{log:?}") };
    let (start, end) = (": segment 2 is deleted: 1000 lines, ", " on disk");
    assert!(line.starts_with("INFO audit: retention.bytes = ") && line.ends_with(end), "{line}");
    assert!(line.contains(start) && line.contains(received), "{line}");

    // Of the lines `1-0` to `1-999`, 271 have a 7.
    let rule = RetentionRule { filter: "7".to_owned(), age_ns: HOUR_NS };
    let small = Small::new(|config| config.rules = vec![rule]);
    small.segment();
    small.clock.advance_ns(2 * HOUR_NS);
    let log = logged(|| small.retain());
    let line = format!(
        "INFO audit: the retention rule with the filter 7 and the age 1h: deleted from segment 2: 271 lines, {received}"
    );
    assert_eq!(log, [line]);
    assert_eq!(small.store().stats().lines, 729);
}

#[test]
fn a_clock_that_jumps_ahead_deletes_nothing() {
    const DAY_NS: i64 = 24 * HOUR_NS;
    let by_age = |config: &mut StoreConfig| config.age_ns = Some(30 * DAY_NS);
    let by_rule = |config: &mut StoreConfig| {
        config.rules = vec![RetentionRule { filter: "7".to_owned(), age_ns: 30 * DAY_NS }];
    };
    for (change, left) in [(&by_age as &dyn Fn(&mut StoreConfig), 0), (&by_rule, 729)] {
        let mut small = Small::new(change);
        small.segment();
        small.retain();
        small.clock.set_ahead_ns(400 * DAY_NS);
        let log = logged(|| (0..3).for_each(|_| small.retain()));
        let warnings = log.iter().filter(|line| line.starts_with("WARN")).count();
        assert_eq!((warnings, log.len()), (1, 1), "{log:?}");
        assert!(log[0].contains("400d later than expected"), "{log:?}");
        // Neither do restarts, however often, and whether the store was closed or not.
        for orderly in [true, false, true] {
            match orderly {
                true => small.store().close().unwrap(),
                false => small.disk.crash(),
            }
            drop(small.store.take());
            small.disk.restart();
            small.open();
            small.retain();
            assert_eq!(small.store().stats().lines, 1_000);
        }
        // It is believed after three days.
        for hours in [12; 5] {
            small.clock.advance_ns(hours * HOUR_NS);
            small.retain();
            assert_eq!(small.store().stats().lines, 1_000);
        }
        small.clock.advance_ns(12 * HOUR_NS);
        small.retain();
        assert_eq!(small.store().stats().lines, left);
    }
}

#[test]
fn a_clock_that_jumped_while_the_store_was_closed_deletes_nothing() {
    for has_catalog in [true, false] {
        let mut small = Small::new(|config| config.age_ns = Some(30 * 24 * HOUR_NS));
        small.segment();
        small.store().close().unwrap();
        drop(small.store.take());
        if !has_catalog {
            std::fs::remove_file(small.dir.path().join("catalog.sqlite")).unwrap();
        }
        small.clock.set_ahead_ns(400 * 24 * HOUR_NS);
        small.open();
        small.retain();
        assert_eq!(small.store().stats().lines, 1_000);
        // Where the clock is set right again, nothing is left of the jump.
        small.clock.set_ahead_ns(-400 * 24 * HOUR_NS);
        small.retain();
        small.clock.advance_ns(31 * 24 * HOUR_NS);
        small.retain();
        assert_eq!(small.store().stats().lines, 0);
    }
}
