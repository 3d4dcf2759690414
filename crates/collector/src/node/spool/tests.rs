//! The spool on a simulated disk that fails, fills up, loses power, or makes the calling thread
//! panic at every point, compared with a model of what the spool confirmed.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};

use fastrand::Rng;
use platform::encryption::{EncryptedDisk, Keyring, MasterKey};
use platform::{Fault, Operation, SimDisk};
use record::{Format, FrameBuilder, Origin, Transport};

use super::*;

const DIR: &str = "/spool";
const NODE: u32 = 7;
const STORES: [u32; 2] = [1, 2];
const ALL_STORES: [u32; 3] = [1, 2, STRIPE];
/// Steps of a run.
const STEPS: usize = 40;
const EIO: i32 = 5;
const ENOSPC: i32 = 28;

/// What goes wrong in a run.
#[derive(Clone, Copy, Debug)]
enum Accident {
    None,
    /// Power is cut at this change.
    Cut(u64),
    /// This change fails once.
    Fault(Operation, u64, i32),
    /// The caller of this change panics.
    Panic(u64),
}

/// Reference model: what the spool confirmed, and what it may hold besides.
#[derive(Default)]
struct Promises {
    /// Frames that must be in the spool, once.
    there: BTreeSet<u64>,
    /// Frames that may be in the spool: removed, or in flight when the power was cut.
    perhaps: BTreeSet<u64>,
    /// By frame: the store it was bound to, and its number there.
    bound: BTreeMap<u64, (u32, u64)>,
    /// The same for frames whose binding was not confirmed.
    perhaps_bound: BTreeMap<u64, (u32, u64)>,
    next_frame: u64,
    next_number: u64,
}

struct Run {
    disk: SimDisk,
    /// The data keys, in the runs whose files are encrypted: one in four.
    keys: Option<Arc<Keyring>>,
    random: Rng,
    spool: Spool,
    truth: Promises,
}

fn open(disk: &SimDisk) -> Spool {
    open_with(disk, &None)
}

/// The spool as a new process opens it.
fn open_with(disk: &SimDisk, keys: &Option<Arc<Keyring>>) -> Spool {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    let disk = match keys {
        Some(keys) => Arc::new(EncryptedDisk::new(disk, keys.clone())),
        None => disk,
    };
    let (spool, _) = Spool::open(disk, Path::new(DIR), NODE, 1 << 40).expect("it opens");
    spool
}

/// A frame of one line, which contains its number.
fn frame(number: u64, bytes: usize) -> Frame {
    let mut builder = FrameBuilder::new();
    let line = format!("{number} {}\n", "x".repeat(bytes));
    builder.push_lines(&Origin::new(Transport::SyslogTcp, Format::Auto, None), 1, line.as_bytes());
    builder.finish(NODE, 0).expect("it has a line")
}

fn name(frame: &Frame) -> u64 {
    let line = frame.lines().next().expect("it has a line").bytes;
    let digits = line.split(|&byte| byte == b' ').next().expect("it has a number");
    std::str::from_utf8(digits).unwrap().parse().unwrap()
}

impl Run {
    fn new(seed: u64) -> Run {
        let disk = SimDisk::new(seed);
        disk.create_dir_all(Path::new(DIR)).unwrap();
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
        let spool = open_with(&disk, &keys);
        Run { disk, keys, random: Rng::with_seed(seed), spool, truth: Promises::default() }
    }

    /// Calls the spool as a thread that survives its panics does. `None`: the operation failed.
    fn ask<T>(&mut self, work: impl FnOnce(&mut Spool) -> Result<T, SegmentError>) -> Option<T> {
        let spool = &mut self.spool;
        match catch_unwind(AssertUnwindSafe(|| work(spool))) {
            Ok(result) => result.ok(),
            Err(_) => {
                self.spool.doubt();
                self.spool.ensure_consistent().expect("only one thing goes wrong");
                None
            }
        }
    }

    /// A few frames, and their numbers.
    fn frames(&mut self) -> Vec<(u64, Frame)> {
        let count = self.random.u64(1..5);
        let names = self.truth.next_frame..self.truth.next_frame + count;
        self.truth.next_frame = names.end;
        names.map(|name| (name, frame(name, self.random.usize(..6000)))).collect()
    }

    fn numbers(&mut self, count: u64) -> u64 {
        self.truth.next_number += count;
        self.truth.next_number - count + 1
    }

    fn append(&mut self) {
        let mut frames = self.frames();
        let names: Vec<u64> = frames.iter().map(|(name, _)| *name).collect();
        let mut refs: Vec<&mut Frame> = frames.iter_mut().map(|(_, frame)| frame).collect();
        match self.ask(|spool| spool.append(&mut refs)) {
            Some(()) => self.truth.there.extend(names),
            // Without a power cut they are not in the spool: the caller sends them elsewhere.
            None if self.disk.is_crashed() => self.truth.perhaps.extend(names),
            None => {}
        }
    }

    fn bind(&mut self) {
        let mut frames = self.frames();
        let store = STORES[self.random.usize(..2)];
        // Some numbers in between were acknowledged.
        let mut number = self.numbers(2 * frames.len() as u64);
        let mut numbered = Vec::new();
        let mut bound = BTreeMap::new();
        for (name, frame) in &mut frames {
            number += self.random.u64(..2);
            bound.insert(*name, (store, number));
            numbered.push((number, frame));
            number += 1;
        }
        match self.ask(|spool| spool.bind(store, &mut numbered)) {
            Some(()) => {
                self.truth.there.extend(bound.keys());
                self.truth.bound.extend(bound);
            }
            None => {
                // They stay with their store, under the same numbers.
                self.truth.perhaps.extend(bound.keys());
                self.truth.perhaps_bound.extend(bound);
            }
        }
    }

    fn append_numbered(&mut self) {
        let mut frames = self.frames();
        let first = self.numbers(2 * frames.len() as u64);
        // Mostly in the order of their numbers; frames that could not be sent come later.
        let back = if self.random.u8(..4) == 0 { self.random.u64(..first) } else { 0 };
        let mut bound = BTreeMap::new();
        let mut numbered = Vec::new();
        for ((name, frame), number) in frames.iter_mut().zip((first - back..).step_by(2)) {
            bound.insert(*name, (STRIPE, number));
            numbered.push((number, frame));
        }
        match self.ask(|spool| spool.append_numbered(&mut numbered)) {
            Some(()) => {
                self.truth.there.extend(bound.keys());
                self.truth.bound.extend(bound);
            }
            None if self.disk.is_crashed() => {
                self.truth.perhaps.extend(bound.keys());
                self.truth.perhaps_bound.extend(bound);
            }
            None => {}
        }
    }

    /// Binds a file to a store and reads it; perhaps it is acknowledged and removed.
    fn take(&mut self) {
        let Some(Some(frames)) = self.ask(Spool::free_frames) else { return };
        let store = STORES[self.random.usize(..2)];
        let first = self.numbers(frames);
        let taken = self.ask(|spool| spool.take(store, first));
        let read = taken.flatten().and_then(|bound| self.ask(|spool| spool.read(&bound)));
        if let Some(reader) = read {
            self.read(reader);
        }
    }

    /// Reads the files bound to a store, as on connecting.
    fn connect(&mut self) {
        let store = STORES[self.random.usize(..2)];
        for bound in self.ask(|spool| spool.bound_to(store)).unwrap_or_default() {
            if let Some(reader) = self.ask(|spool| spool.read(&bound)) {
                self.read(reader);
            }
        }
    }

    /// Reads the files of the stripe, one after the other.
    fn follow(&mut self) {
        let mut after = 0;
        while let Some(Some(bound)) = self.ask(|spool| spool.bound_after(STRIPE, after)) {
            after = bound.id;
            if let Some(reader) = self.ask(|spool| spool.read(&bound)) {
                self.read(reader);
            }
        }
    }

    /// From now on the store may have these frames.
    fn read(&mut self, mut reader: BoundReader) {
        let Bound { id, store, .. } = reader.bound;
        let mut names = Vec::new();
        while let Some(read) = reader.next_frame() {
            let Ok(frame) = read else { return };
            let name = name(&frame);
            let number = frame.header().sequence;
            let before = self.truth.bound.insert(name, (store, number));
            let same = before.or(self.truth.perhaps_bound.get(&name).copied());
            assert!(same.is_none_or(|same| same == (store, number)), "frame {name} is elsewhere");
            names.push(name);
        }
        if self.random.bool() {
            let _ = self.ask(|spool| spool.remove(id));
            for name in names {
                // A crash may restore it; its store knows its number.
                self.truth.there.remove(&name);
                self.truth.perhaps.insert(name);
            }
        }
    }

    fn step(&mut self) {
        match self.random.u8(..15) {
            0..4 => self.append(),
            4..7 => self.append_numbered(),
            7..9 => self.bind(),
            9..11 => self.take(),
            11..13 => self.connect(),
            13 => self.follow(),
            _ => drop(self.ask(Spool::roll)),
        }
    }

    /// Checks all frames after a restart.
    fn check(mut self) {
        self.disk.clear_faults();
        self.disk.restart();
        self.spool = open_with(&self.disk, &self.keys);
        // Removed files occupy space until then.
        self.disk.sync_dir(Path::new(DIR)).unwrap();
        if self.keys.is_none() {
            assert_eq!(self.spool.bytes(), self.disk.used_bytes(), "no file is left over");
        }
        self.check_all();
    }

    /// Checks that each frame is in the spool once, and bound to the right store.
    fn check_all(&mut self) {
        self.spool.roll().expect("the disk is healthy");
        let bound: Vec<Bound> = ALL_STORES
            .iter()
            .flat_map(|&store| self.spool.bound_to(store).expect("the spool is consistent"))
            .collect();
        let mut found = BTreeSet::new();
        let mut look = |reader: Result<BoundReader, SegmentError>, is_bound: bool| {
            let mut reader = reader.expect("it can be read");
            while let Some(frame) = reader.next_frame() {
                let frame = frame.expect("it is whole");
                let name = name(&frame);
                assert!(found.insert(name), "frame {name} is there twice");
                let expected = self.truth.bound.get(&name);
                let there = (reader.bound.store, frame.header().sequence);
                if is_bound {
                    assert!(expected.is_none_or(|expected| *expected == there), "frame {name}");
                } else {
                    assert_eq!(expected, None, "frame {name} was read, and is free again");
                }
            }
        };
        for bound in bound {
            look(self.spool.read(&bound), true);
        }
        while let Some(bound) = self.spool.take(9, 1_000_000).expect("it can be taken") {
            look(self.spool.read(&bound), false);
        }
        let missing: Vec<_> = self.truth.there.difference(&found).collect();
        assert!(missing.is_empty(), "frames {missing:?} are lost");
        let known =
            |name: &&u64| !self.truth.there.contains(name) && !self.truth.perhaps.contains(name);
        let foreign: Vec<_> = found.iter().filter(known).collect();
        assert!(foreign.is_empty(), "frames {foreign:?} were refused, and are there");
    }
}

/// Returns the number of changes of the disk.
fn run(seed: u64, accident: Accident) -> u64 {
    let mut run = Run::new(seed);
    let before = run.disk.changes();
    match accident {
        Accident::None => {}
        Accident::Cut(change) => run.disk.crash_at_change(change),
        Accident::Panic(change) => run.disk.panic_at_change(change),
        Accident::Fault(operation, skip, errno) => {
            run.disk.fail(Fault { operation, skip, times: 1, errno });
        }
    }
    for _ in 0..STEPS {
        run.step();
        if run.disk.is_crashed() {
            break;
        }
    }
    let changes = run.disk.changes() - before;
    match run.random.u8(..3) {
        // The run continues as if nothing had happened.
        0 if !run.disk.is_crashed() => {
            run.disk.clear_faults();
            run.check_all();
        }
        1 if !run.disk.is_crashed() => {
            run.disk.restart_process();
            run.check();
        }
        _ => run.check(),
    }
    changes
}

#[test]
fn confirmed_frames_survive_a_power_cut_at_any_change() {
    for seed in 0..6 {
        let changes = run(seed, Accident::None);
        assert!(changes > 50, "{changes} changes are few");
        for change in 1..=changes {
            run(seed, Accident::Cut(change));
        }
    }
}

#[test]
fn a_panic_at_any_change_loses_and_duplicates_nothing() {
    for seed in 200..206 {
        let changes = run(seed, Accident::None);
        for change in 1..=changes {
            run(seed, Accident::Panic(change));
        }
    }
}

#[test]
fn one_failure_of_the_disk_loses_and_duplicates_nothing() {
    for operation in Operation::ALL {
        for seed in 100..110 {
            for skip in 0..12 {
                for errno in [EIO, ENOSPC] {
                    run(seed, Accident::Fault(operation, skip, errno));
                }
            }
        }
    }
}

#[test]
fn a_full_disk_leaves_no_files_behind() {
    let mut run = Run::new(1);
    run.append();
    run.disk.set_capacity(run.disk.used_bytes());
    for _ in 0..100 {
        let mut frame = frame(999, 10_000);
        assert!(run.spool.append(&mut [&mut frame]).is_err());
        assert!(run.spool.bind(1, &mut [(5, &mut frame)]).is_err());
    }
    assert_eq!(run.disk.list(Path::new(DIR)).unwrap().len(), 1);
    run.disk.set_capacity(1 << 40);
    run.append();
    run.check();
}

/// What a joined file gives to its partition: for each frame its number and its lines.
fn joined(spool: &mut Spool, bound: &Bound) -> Vec<(u64, Vec<u64>)> {
    let mut reader = spool.read(bound).unwrap();
    let mut found = Vec::new();
    while let Some(read) = reader.next_frame() {
        match read {
            Ok(frame) => {
                let name = |line: record::frame::Line<'_>| {
                    let digits = line.bytes.split(|&byte| byte == b' ').next().unwrap();
                    std::str::from_utf8(digits).unwrap().parse().unwrap()
                };
                found.push((frame.header().sequence, frame.lines().map(name).collect()));
            }
            Err((_, lines)) => found.push((0, vec![lines])),
        }
    }
    assert!(reader.is_read());
    found
}

#[test]
fn frames_are_joined_alike_whenever_they_are_read() {
    let disk = SimDisk::new(1);
    disk.create_dir_all(Path::new(DIR)).unwrap();
    let mut spool = open(&disk);
    // 400 KiB each: two are joined, a third one would be too much. The fifth is alone, and so are
    // small ones in front of a large one.
    let sizes = [400, 400, 400, 1, 1_100, 1, 1, 1_023];
    for (name, kib) in (0..).zip(sizes) {
        spool.append(&mut [&mut frame(name, kib << 10)]).unwrap();
    }
    let bound = spool.take_joined(1, 100).unwrap().unwrap();
    let expected = [(101, vec![0, 1]), (103, vec![2, 3]), (104, vec![4]), (106, vec![5, 6])];
    let expected = [&expected[..], &[(107, vec![7])]].concat();
    assert_eq!(joined(&mut spool, &bound), expected);
    // After a restart the file is known by its name.
    drop(spool);
    let mut spool = open(&disk);
    assert_eq!(spool.bound_to(1).unwrap(), std::slice::from_ref(&bound));
    assert_eq!(joined(&mut spool, &bound), expected);
    // A damaged frame is missing, and changes no number.
    let path = spool.path(&bound);
    let file = disk.open(&path, Access::Write).unwrap();
    let entries = read_segment(&disk, &path, bound.id, None).unwrap().frames;
    file.write_at(&[0xff; 64], entries[1].offset + 5_000).unwrap();
    let mut damaged = expected.clone();
    damaged.splice(0..1, [(0, vec![1]), (100, vec![0])]);
    let found = joined(&mut spool, &bound);
    assert_eq!(found[2..], damaged[2..]);
    assert_eq!(found[0], damaged[0]);
    spool.remove(bound.id).unwrap();
    assert!(spool.is_empty());
}

#[test]
fn names_of_files_are_read_as_they_are_written() {
    for joined in [false, true] {
        let bound = Bound { id: 7, store: 0xab, first: 12, joined };
        assert_eq!(parse_name(&file_name(&bound)), Some(Name::Bound(bound)));
    }
    assert_eq!(parse_name("7-000000ab-12-other.hot"), None);
}

/// Damages a file of the spool with the first frames, and returns what it then contains.
fn damage(disk: &SimDisk, path: &Path, at: u64, bytes: &[u8]) -> Vec<u8> {
    let file = disk.open(path, Access::Write).unwrap();
    file.write_at(bytes, at).unwrap();
    contents(disk, path)
}

fn contents(disk: &SimDisk, path: &Path) -> Vec<u8> {
    let file = disk.open(path, Access::Read).unwrap();
    let mut bytes = vec![0; file.bytes().unwrap() as usize];
    file.read_at(&mut bytes, 0).unwrap();
    bytes
}

fn names(spool: &mut Spool) -> Vec<u64> {
    let bound = spool.take(1, 100).unwrap();
    let mut reader = spool.read(&bound.expect("a file is there")).unwrap();
    let mut found = Vec::new();
    while let Some(frame) = reader.next_frame() {
        found.extend(frame.ok().map(|frame| name(&frame)));
    }
    found
}

#[test]
fn damaged_files_are_kept_and_the_rest_of_them_is_delivered() {
    for (at, bytes, expected) in [
        // A frame in the middle, the header, the end, and all.
        (4_096 + 1_500, vec![0xff; 64], vec![0, 2]),
        (0, vec![0; 4_096], vec![0, 1, 2]),
        (4_096 + 2_400, vec![0xff; 1 << 16], vec![0, 1]),
        (0, vec![0xff; 1 << 17], vec![]),
    ] {
        let disk = SimDisk::new(1);
        disk.create_dir_all(Path::new(DIR)).unwrap();
        let mut spool = open(&disk);
        for number in 0..3 {
            spool.append(&mut [&mut frame(number, 1_000)]).unwrap();
        }
        // Without an index, as after a crash, but not the last file.
        drop(spool);
        let path = Path::new(DIR).join("1.hot");
        let before = damage(&disk, &path, at, &bytes);
        let mut last =
            HotWriter::create(&disk, &Path::new(DIR).join("2.hot"), &header(NODE, 2)).unwrap();
        last.append(frame(9, 10).bytes()).unwrap();
        last.commit().unwrap();
        drop(last);
        let (mut spool, warnings) =
            Spool::open(Arc::new(disk.clone()), Path::new(DIR), NODE, 1 << 40).unwrap();
        let aside = Path::new(DIR).join("1.hot.damaged");
        assert!(warnings.iter().any(|warning| warning.contains("1.hot.damaged")), "{warnings:?}");
        if !expected.is_empty() {
            assert_eq!(names(&mut spool), expected);
            let bound = spool.bound_to(1).unwrap().remove(0);
            spool.remove(bound.id).unwrap();
        }
        assert_eq!(names(&mut spool), [9]);
        assert_eq!(contents(&disk, &aside), before, "it stays as it was found");
    }
}
