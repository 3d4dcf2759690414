//! One history: which operations happen, and in which order. [`checks`] has what must hold.

mod checks;
mod following;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, mpsc};

use platform::encryption::{EncryptedDisk, Keyring, MasterKey};
use platform::{
    Access, Clock, Disk, Fault, KeepError, ManualClock, OnDurable, Operation, Patience, SimDisk,
};
use record::{Format, Frame, FrameBuilder, LineId, Origin, Transport};
use segment::{HEADER_BYTES, index_bytes};
use store::{RetentionRule, SegmentState, Step, Store, StoreCallbacks, StoreConfig, Unit};

use super::catalog::CatalogFile;
use super::coverage::Coverage;
use super::lines::{MARKS, line};
use super::truth::{Fate, Limits, Line, Truth};
use crate::common::{TestHost, all};

const DIR: &str = "/data";
const STEPS: usize = 14;
/// Long compared with the time that appends take, so that only a jump of the clock makes lines too
/// old.
const AGE_NS: i64 = 1_000_000_000_000;
/// Time for which the background leaves a segment alone after a failed rewrite.
const REST_NS: i64 = 61_000_000_000;

pub struct Life {
    seed: u64,
    rng: fastrand::Rng,
    disk: SimDisk,
    /// The same disk, for a store that must not share the catalog.
    bare_disk: SimDisk,
    /// The data keys, in the histories whose files are encrypted: one in four.
    keys: Option<Arc<Keyring>>,
    /// The disk as the present process sees it.
    seen: Arc<dyn Disk>,
    catalog: Option<CatalogFile>,
    os_dir: PathBuf,
    clock: Arc<ManualClock>,
    config: StoreConfig,
    host: TestHost,
    store: Option<Store>,
    truth: Truth,
    snapshots: Vec<Snapshot>,
    backups: Vec<Backup>,
    deletions: Vec<Asked>,
    /// Lines that the store counted as expired or deleted since it was opened, up to the last
    /// comparison.
    counted: u64,
    /// The part of them that it counted as expired.
    expired: u64,
    /// Whether the store was opened since the last comparison. Its counts then lack lines that went
    /// before.
    reopened: bool,
    /// Whether a file could not be removed since the store was opened. Then more bytes may be on
    /// disk than the limit allows.
    removal_failed: bool,
    /// The warnings of the last opening.
    warnings: Vec<String>,
    reader: following::Reader,
    story: Vec<String>,
    coverage: Coverage,
}

/// Units taken earlier, and the lines that were there then.
struct Snapshot {
    units: Vec<Unit>,
    numbers: BTreeSet<usize>,
}

/// A backup that must contain exactly these lines.
struct Backup {
    dir: PathBuf,
    numbers: BTreeSet<usize>,
    /// Warnings that opening the backup may give, since it has copies of these files: frames that a
    /// power cut tore before they were acknowledged.
    warnings: Vec<String>,
}

/// A deletion that was requested, and the lines that it must delete.
struct Asked {
    id: u64,
    numbers: Vec<usize>,
}

impl Drop for Life {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("LOGINSON_SEED={}\n{}", self.seed, self.story.join("\n"));
        }
        let _ = std::fs::remove_dir_all(&self.os_dir);
    }
}

/// The disk as a new process sees it.
fn seen(disk: &SimDisk, keys: &Option<Arc<Keyring>>) -> Arc<dyn Disk> {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    match keys {
        Some(keys) => Arc::new(EncryptedDisk::new(disk, Arc::clone(keys))),
        None => disk,
    }
}

impl Life {
    pub fn new(seed: u64, dir: &Path) -> Self {
        let mut rng = fastrand::Rng::with_seed(seed);
        // The caches of the store evict by this thread's generator.
        fastrand::seed(seed);
        let os_dir = dir.join(seed.to_string());
        let bare_disk = SimDisk::new(seed);
        let mut disk = bare_disk.clone();
        let mut catalog = None;
        if rng.u8(..4) > 0 {
            std::fs::create_dir(&os_dir).unwrap();
            disk = disk.with_os_dir(os_dir.clone());
            catalog = Some(CatalogFile::new(&os_dir, &disk));
        }
        let config = config(&mut rng);
        let keys = seed.is_multiple_of(4).then(|| {
            let master = MasterKey::random().expect("random bytes");
            let (disk, dir) = (SimDisk::new(seed), Path::new("/keys"));
            let keys = Keyring::open(&disk, dir, std::slice::from_ref(&master));
            let mut keys = keys.expect("a new file").expect("a key was given");
            // As in a directory that was encrypted from the first file on.
            let refused = keys.set_refuses_plain(&disk, dir, &[master], seed.is_multiple_of(8));
            refused.expect("it is written");
            Arc::new(keys)
        });
        let story = vec![format!(
            "{} catalog, encrypted: {}, age {:?}, bytes {:?}, rules {:?}",
            if catalog.is_some() { "with" } else { "without" },
            keys.is_some(),
            config.age_ns,
            config.bytes_max,
            config.rules
        )];
        Life {
            seed,
            rng,
            seen: seen(&disk, &keys),
            disk,
            bare_disk,
            keys,
            catalog,
            os_dir,
            clock: Arc::new(ManualClock::new(10 * AGE_NS)),
            config,
            host: TestHost::new(),
            store: None,
            truth: Truth::default(),
            snapshots: Vec::new(),
            backups: Vec::new(),
            deletions: Vec::new(),
            counted: 0,
            expired: 0,
            reopened: true,
            removal_failed: false,
            warnings: Vec::new(),
            reader: following::Reader::default(),
            story,
            coverage: Coverage::default(),
        }
    }

    /// Runs the history; returns the coverage and the story.
    pub fn live(mut self) -> (Coverage, String) {
        self.open();
        for _ in 0..STEPS {
            self.step();
        }
        self.end();
        (self.coverage.clone(), self.story.join("\n"))
    }

    fn tell(&mut self, text: impl Into<String>) {
        self.story.push(text.into());
    }

    fn store(&self) -> &Store {
        self.store.as_ref().expect("open")
    }

    fn limits(&self) -> Limits {
        let StoreConfig { age_ns, bytes_max, rules, .. } = &self.config;
        Limits { age_ns: *age_ns, bytes_max: *bytes_max, rules: rules.clone() }
    }

    /// Does one step, with or without a fault, and compares everything afterwards.
    fn step(&mut self) {
        let accident = self.rng.u8(..8);
        match accident {
            0 | 1 => {
                let n = self.rng.u64(1..40);
                self.tell(format!("power is cut at change {n} from here"));
                self.disk.crash_at_change(n);
            }
            2 => self.fail_once(),
            3 if self.rng.bool() => self.fail_by_chance(),
            4 if self.rng.u8(..4) == 0 => {
                let room = self.rng.u64(..20_000);
                self.tell(format!("{room} bytes of the disk are left"));
                self.disk.set_capacity(self.disk.used_bytes() + room);
                self.reader.has_faults = true;
            }
            _ => {}
        }
        for _ in 0..self.rng.usize(1..4) {
            if !self.disk.is_crashed() {
                self.act();
            }
        }
        self.disk.clear_faults();
        self.disk.set_capacity(1 << 40);
        if self.disk.is_crashed() || accident == 0 {
            self.crash();
        }
        self.compare();
    }

    fn act(&mut self) {
        match self.rng.u8(..28) {
            0..5 => self.append(),
            5..7 => self.parse(),
            7 => {
                self.tell("roll");
                self.store().roll();
            }
            8..13 => {
                let steps = self.rng.usize(1..30);
                self.work(steps);
            }
            13 | 26 => self.fill(),
            14 => self.expire(),
            15 => self.delete_lines(),
            16 => self.cancel_deletion(),
            17 => self.take_snapshot(),
            18 => self.read_snapshot(),
            19 => self.back_up(),
            20 => self.reopen(),
            21 | 22 => self.ask_for_words(),
            23..26 => self.follow(),
            _ => self.look_up(),
        }
    }

    fn fail_once(&mut self) {
        self.reader.has_faults = true;
        let operation = Operation::ALL[self.rng.usize(..Operation::ALL.len())];
        let (skip, times, errno) =
            (self.rng.u64(..6), self.rng.u64(1..3), [5, 28][self.rng.usize(..2)]);
        self.tell(format!("{operation:?} fails {times} times after {skip}, error {errno}"));
        self.removal_failed |= matches!(operation, Operation::Remove | Operation::SyncDir);
        self.disk.fail(Fault { operation, skip, times, errno });
    }

    fn fail_by_chance(&mut self) {
        self.reader.has_faults = true;
        let one_in = self.rng.u32(2..30);
        self.tell(format!("one operation in {one_in} fails"));
        self.removal_failed = true;
        self.disk.fail_by_chance(&Operation::ALL, one_in, [5, 28][self.rng.usize(..2)]);
    }

    fn append(&mut self) {
        let count = self.rng.usize(1..4);
        let frames: Vec<Frame> = (0..count).map(|_| self.frame()).collect();
        let numbers: Vec<u32> = frames.iter().map(|frame| frame.header().lines).collect();
        self.tell(format!("append {} lines in {count} frames", numbers.iter().sum::<u32>()));
        let store = self.store();
        let (sender, receiver) = mpsc::channel();
        let with_callbacks = frames.into_iter().enumerate().map(|(i, frame)| {
            let sender = sender.clone();
            let done: OnDurable = Box::new(move |result| sender.send((i, result)).unwrap());
            (frame, done)
        });
        let queued = store.append(with_callbacks.collect(), Patience::Awaited);
        queued.expect("the queue has room");
        let mut results: Vec<Option<Result<(), KeepError>>> = vec![None; count];
        while results.iter().any(Option::is_none) {
            store.writer_step();
            let before = results.iter().flatten().count();
            for (i, result) in receiver.try_iter() {
                assert!(results[i].replace(result).is_none(), "frame {i} was called back twice");
            }
            assert!(results.iter().flatten().count() > before, "the writer does nothing");
        }
        let mut at = self.truth.lines.len() - numbers.iter().sum::<u32>() as usize;
        for (lines, result) in numbers.iter().zip(results) {
            let fate = match result.expect("called back") {
                Ok(()) => Fate::Kept,
                Err(_) => Fate::Unknown,
            };
            self.coverage.refused_frames += u64::from(fate == Fate::Unknown);
            for line in &mut self.truth.lines[at..at + *lines as usize] {
                line.fate = fate;
            }
            if fate == Fate::Kept {
                self.reader.acknowledged.extend(at..at + *lines as usize);
            }
            at += *lines as usize;
        }
        self.coverage.lines += numbers.iter().map(|&n| u64::from(n)).sum::<u64>();
    }

    /// A frame of new lines, which are recorded as not acknowledged.
    fn frame(&mut self) -> Frame {
        self.clock.advance_ns(1 + self.rng.i64(0..1_000));
        let received_ns = self.clock.now_ns();
        let (node, sequence) = self.store().next_sequence();
        let mut builder = FrameBuilder::new();
        for place in 0..self.rng.u32(1..8) {
            let mark = MARKS[self.rng.usize(..MARKS.len())];
            let number = self.truth.lines.len();
            let raw = line(number, mark, &mut self.rng);
            let origin = match self.rng.bool() {
                true => Origin::new(Transport::SyslogTcp, Format::Syslog, None),
                false => Origin::new(Transport::Http, Format::Auto, None),
            };
            builder.push_line(&origin, received_ns, &raw, false);
            let id = LineId { node, sequence, line: place };
            let fate = Fate::Unknown;
            self.truth.lines.push(Line { raw, mark, id, received_ns, fate, asked: false });
        }
        builder.finish(node, sequence).expect("has lines")
    }

    /// Parses some of the frames that are not parsed, and marks them as settled.
    fn parse(&mut self) {
        let count = self.rng.usize(1..40);
        self.tell(format!("parse {count} frames"));
        let store = self.store();
        let after = store.first_unparsed();
        let frames = all(store);
        for handle in frames.iter().filter(|h| h.position() > after).take(count) {
            let Ok(Some(frame)) = handle.read_frame() else { return };
            let batch = Arc::new(self.host.parse(frame));
            store.set_times(handle.position(), batch.time_range_ns());
            handle.put(batch);
        }
        // Frames that were parsed before a restart are settled again.
        let parsed = store.first_unparsed();
        for handle in frames.iter().filter(|h| h.position() <= parsed) {
            store.set_settled(handle.position());
        }
    }

    fn work(&mut self, steps: usize) {
        let idle = self.rng.bool();
        self.host.idle.store(idle, Ordering::Relaxed);
        if self.rng.u8(..4) == 0 {
            self.clock.advance_ns(REST_NS);
            self.store().writer_step();
        }
        let trailed = || self.store().stats().sealing.trailed_segments;
        let trailed_before = trailed();
        let mut taken = 0;
        while taken < steps && self.store().background_step(&self.host) == Step::Worked {
            taken += 1;
        }
        self.coverage.trailed += trailed() - trailed_before;
        self.tell(format!("{taken} steps in the background, idle {idle}"));
        self.coverage.crashes_in_rewrites += u64::from(self.disk.is_crashed() && taken > 0);
    }

    /// Makes some small sealed segments, so that there is something to merge; or one segment that
    /// is sealed while it is written.
    fn fill(&mut self) {
        let closes = self.rng.bool();
        for _ in 0..self.rng.usize(2..10) {
            self.append();
            if closes {
                self.store().roll();
            }
            self.parse();
            self.work(10);
        }
    }

    fn expire(&mut self) {
        let ns = self.rng.i64(0..AGE_NS * 3 / 4);
        self.tell(format!("{ns} ns pass, retention"));
        self.clock.advance_ns(ns);
        // A segment that records which sequence numbers were issued needs room before the last
        // other one is deleted.
        let free_bytes = self.disk.space(Path::new(DIR)).map_or(0, |space| space.free_bytes);
        let has_room = free_bytes >= HEADER_BYTES as u64 + index_bytes(1);
        let healthy = self.disk.is_healthy() && !self.removal_failed && has_room;
        self.store().run_retention(self.clock.now_ns());
        self.store().writer_step();
        if healthy && self.disk.is_healthy() {
            self.check_age();
        }
    }

    fn delete_lines(&mut self) {
        let mark = MARKS[self.rng.usize(..MARKS.len())];
        let asked = self.store().delete_lines(mark);
        self.tell(format!("delete lines {mark}: {:?}", asked.as_ref().map(|d| d.id)));
        let mut numbers = Vec::new();
        for (number, line) in self.truth.lines.iter_mut().enumerate() {
            if line.mark == mark && line.fate != Fate::Gone {
                line.asked = true;
                numbers.push(number);
            }
        }
        if let Ok(deletion) = asked
            && !self.disk.is_crashed()
        {
            self.deletions.push(Asked { id: deletion.id, numbers });
        }
    }

    fn cancel_deletion(&mut self) {
        let Some(asked) = self.deletions.pop() else { return };
        let cancelled = self.store().cancel_deletion(asked.id);
        self.tell(format!("cancel deletion {}: {cancelled:?}", asked.id));
    }

    fn take_snapshot(&mut self) {
        let Ok(units) = self.store().snapshot((i64::MIN, i64::MAX)) else { return };
        self.tell(format!("a snapshot of {} units", units.len()));
        let kept = |(number, line): (usize, &Line)| (line.fate == Fate::Kept).then_some(number);
        let numbers = self.truth.lines.iter().enumerate().filter_map(kept).collect();
        self.snapshots.push(Snapshot { units, numbers });
    }

    /// Makes a backup while nothing is written: hard links of sealed files and copies of hot ones.
    fn back_up(&mut self) {
        let dir = PathBuf::from(format!("/backup{}", self.story.len()));
        let segments_dir = dir.join("segments");
        let disk = Arc::clone(&self.seen);
        // Lines that retention by bytes is about to delete are deleted before they are compared.
        self.store().writer_step();
        let Ok(shown) = self.show() else { return };
        let done = self.store().freeze(|segments| -> std::io::Result<()> {
            for segment in segments {
                let to = segments_dir.join(segment.path.file_name().expect("a file"));
                if segment.state == SegmentState::Sealed {
                    disk.hard_link(&segment.path, &to)?;
                    continue;
                }
                let mut bytes = vec![0; segment.data_end as usize];
                disk.open(&segment.path, Access::Read)?.read_at(&mut bytes, 0)?;
                let copy = disk.open(&to, Access::Create)?;
                copy.write_at(&bytes, 0)?;
                copy.sync_data()?;
            }
            disk.sync_dir(&segments_dir)
        });
        self.tell(format!("back up {} lines to {}: {done:?}", shown.len(), dir.display()));
        if done.is_ok() {
            let numbers = self.numbers(&shown);
            self.backups.push(Backup { dir, numbers, warnings: self.warnings.clone() });
        }
    }

    fn reopen(&mut self) {
        if self.disk.is_crashed() {
            return;
        }
        self.tell("close and open");
        self.forget_handles();
        let closed = self.store.take().expect("open").close();
        if let Err(error) = closed {
            self.tell(format!("closing: {error}"));
        }
        if self.catalog.is_none() {
            self.deletions.clear();
            self.reader.has_faults = true;
        }
        self.open();
    }

    fn crash(&mut self) {
        let process_only = self.rng.u8(..4) == 0;
        self.disk.crash();
        self.coverage.crashes += 1;
        self.forget_handles();
        // The process has lost its disk, so the result of closing does not matter.
        let _ = self.store.take().expect("open").close();
        match process_only {
            true => self.disk.restart_process(),
            false => self.disk.restart(),
        }
        let mut what = "none";
        if let Some(catalog) = &mut self.catalog {
            what = catalog.restart(&mut self.rng);
        }
        let cause = if process_only { "the process was killed" } else { "the power was cut" };
        self.tell(format!("{cause}; catalog: {what}"));
        if what != "as it was" {
            self.reader.has_faults = true;
            // The deletions were recorded in the catalog only.
            self.deletions.clear();
        }
        self.coverage.catalogs_lost += u64::from(what == "lost");
        self.coverage.catalogs_old += u64::from(what == "old");
        // A file whose removal could not be made durable may be there again. Only the lost catalog
        // recorded that it was to be deleted.
        let may_return = self.removal_failed && what != "as it was";
        self.open();
        // Lines that are read after a failed sync may still be lost in a power cut.
        if !process_only {
            let shown = self.show().expect("the disk is fine");
            self.truth.keep_what_was_found(&shown, may_return);
        }
    }

    fn forget_handles(&mut self) {
        self.snapshots.clear();
    }

    fn open(&mut self) {
        for attempt in 0.. {
            // Each process knows of the files only what is on the disk.
            self.seen = seen(&self.disk, &self.keys);
            let disk = Arc::clone(&self.seen);
            let clock: Arc<dyn Clock> = self.clock.clone();
            match Store::open_stepped(self.config.clone(), disk, clock) {
                Ok((store, report)) => {
                    self.tell(format!("{report}"));
                    self.store = Some(store);
                    self.warnings = report.warnings;
                    break;
                }
                Err(error) => {
                    self.tell(format!("opening: {error}"));
                    self.coverage.failed_opens += 1;
                    assert!(attempt < 2, "it does not open: {error}");
                    self.disk.clear_faults();
                    self.disk.set_capacity(1 << 40);
                    if self.disk.is_crashed() {
                        self.disk.restart();
                    }
                }
            }
        }
        (self.counted, self.expired) = (0, 0);
        self.reopened = true;
        self.removal_failed = !self.disk.is_healthy();
        if let Some(catalog) = &mut self.catalog
            && self.rng.u8(..3) == 0
        {
            catalog.copy();
        }
    }

    /// After the last step, finishes all work, and asserts that the lines are the same then.
    fn end(&mut self) {
        self.tell("the end");
        self.reopen();
        self.compare();
        // Some of it hot, some sealed; then the rest, where it is by then.
        if self.rng.bool() {
            self.read_to_the_end();
        }
        self.store().roll();
        self.clock.advance_ns(REST_NS);
        for _ in 0..3 {
            self.parse();
        }
        self.host.idle.store(true, Ordering::Relaxed);
        let mut steps = 0;
        while self.store().background_step(&self.host) == Step::Worked {
            steps += 1;
            assert!(steps < 10_000, "the background does not end");
        }
        self.compare();
        self.read_to_the_end();
        self.check_what_was_read();
        let stats = self.store().stats().sealing;
        self.coverage.sealed += stats.sealed_segments;
        self.coverage.merged += stats.merges;
        self.coverage.encoded_again += stats.reencoded_segments;
        self.coverage.deleted_lines += stats.lines_deleted;
        let gone = self.truth.lines.iter().filter(|line| line.fate == Fate::Gone && !line.asked);
        self.coverage.expired_lines += gone.count() as u64;
        self.check_files();
        self.forget_handles();
        self.store.take().expect("open").close().expect("the disk is fine");
        for backup in std::mem::take(&mut self.backups) {
            self.check_backup(&backup);
        }
    }
}

/// Settings with small limits, drawn for each history.
fn config(rng: &mut fastrand::Rng) -> StoreConfig {
    let segment_bytes_max = 16 << rng.u8(10..13);
    let one_in = |rng: &mut fastrand::Rng, n| rng.u8(..n) == 0;
    let rules = match one_in(rng, 5) {
        true => vec![RetentionRule { filter: MARKS[0].to_owned(), age_ns: AGE_NS / 3 }],
        false => Vec::new(),
    };
    StoreConfig {
        segment_bytes_max,
        segment_bytes_min: 4 << 10,
        // The clock stands still while the store tries to write again.
        unacknowledged_ms_max: 0,
        retry_ms: 0,
        commit_interval_ms: 0,
        disk_free_bytes_min: 0,
        cache_bytes_max: if rng.bool() { 0 } else { 64 << 10 },
        age_ns: one_in(rng, 3).then_some(AGE_NS),
        bytes_max: one_in(rng, 4).then_some(rng.u64(64..256) << 10),
        rules,
        backlog_bytes_max: 16 << 10,
        reencode_age_ns: 0,
        ..StoreConfig::new(DIR)
    }
}
