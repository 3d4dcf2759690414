//! Random lives of a store beside a vector of frames.
//!
//! Each seed makes a life: appends, power cuts at any sync, failing writes and syncs, closing, rolling, retention,
//! a catalog that is lost or old. After every step the store must show exactly the frames that were acknowledged
//! and not deleted, in order; after a power cut perhaps also some that were not acknowledged, at their place.
//! `LOGINSON_SEED=17 cargo test -p loginson-store --test oracle` repeats one.

mod common;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use common::{all, append, config, frame_at};
use platform::{Clock, Disk, Fault, ManualClock, Operation, SimDisk};
use record::Frame;
use store::{FrameHandle, Store, StoreConfig};

const SEEDS: u64 = 200;
const STEPS: usize = 25;
const DIR: &str = "/data";
/// Long beside what passes during appends, so that only a jump of the clock makes anything too old.
const AGE_NS: i64 = 100_000_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// Refused, or taken when the power went. May be found after a power cut.
    Unknown,
    /// Must be there.
    Acknowledged,
    /// Must not be there.
    Expired,
    /// May have been deleted when the power went.
    Expiring,
}

struct Life {
    seed: u64,
    rng: fastrand::Rng,
    disk: SimDisk,
    clock: Arc<ManualClock>,
    config: StoreConfig,
    store: Option<Arc<Store>>,
    frames: Vec<(Vec<u8>, Fate)>,
    /// Place in `frames` by sequence and arrival: the sequence of a frame that was lost may be given again.
    places: HashMap<(u64, i64), usize>,
    /// Of the acknowledged frames.
    sequence_max: u64,
    catalog: PathBuf,
    catalog_copy: Option<Vec<u8>>,
    /// Whether a file could not be removed since the store was opened, so that it may be too large.
    remove_failed: bool,
}

impl Drop for Life {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("in the life of LOGINSON_SEED={}", self.seed);
        }
    }
}

#[test]
fn acknowledged_frames_survive_anything_once_and_in_order() {
    let seeds = match std::env::var("LOGINSON_SEED") {
        Ok(seed) => {
            let seed = seed.parse().expect("a number");
            seed..seed + 1
        }
        Err(_) => 0..SEEDS,
    };
    let memory = Path::new("/dev/shm");
    let dir = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
    let dir = dir.unwrap();
    for seed in seeds {
        let dir = dir.path().join(seed.to_string());
        std::fs::create_dir(&dir).unwrap();
        let mut life = Life::new(seed, &dir);
        life.open();
        for _ in 0..STEPS {
            life.step();
        }
        life.cut_power();
        drop(life);
        std::fs::remove_dir_all(&dir).unwrap();
    }
}

impl Life {
    fn new(seed: u64, os_dir: &Path) -> Self {
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut config = config(DIR);
        // The clock stands still while the store tries again.
        (config.unacknowledged_ms_max, config.retry_ms) = (0, 0);
        config.cache_bytes_max = if rng.bool() { 0 } else { 300 << 10 };
        config.bytes_max = rng.bool().then_some(8 << 20);
        config.age_ns = rng.bool().then_some(AGE_NS);
        let mut disk = SimDisk::new(seed);
        if rng.bool() {
            disk = disk.with_os_dir(os_dir.to_owned());
        }
        Life {
            seed,
            rng,
            disk,
            clock: Arc::new(ManualClock::new(1_000_000_000)),
            config,
            store: None,
            frames: Vec::new(),
            places: HashMap::new(),
            sequence_max: 0,
            catalog: os_dir.join("catalog.sqlite"),
            catalog_copy: None,
            remove_failed: false,
        }
    }

    fn store(&self) -> Arc<Store> {
        self.store.clone().expect("open")
    }

    fn open(&mut self) {
        let disk: Arc<dyn Disk> = Arc::new(self.disk.clone());
        let clock: Arc<dyn Clock> = self.clock.clone();
        let (store, _) = Store::open(self.config.clone(), disk, clock).expect("opens");
        self.store = Some(store);
        self.remove_failed = false;
        // The writer does so by itself, sooner or later.
        self.retain();
        // What was refused after a failed write may be found once the mark on its segment is lost with the catalog.
        for place in self.found() {
            let fate = &mut self.frames[place].1;
            assert_ne!(*fate, Fate::Expired, "frame {place} came back");
            *fate = Fate::Acknowledged;
        }
    }

    fn step(&mut self) {
        match self.rng.u8(..20) {
            0..10 => self.append(),
            10 => {
                self.disk.crash_at_sync(self.rng.u64(1..6));
                self.note_expiring();
                self.append();
                self.append();
                self.cut_power();
            }
            11 => self.cut_power(),
            12 => {
                self.disk.clear_faults();
                self.store().close().expect("closes");
                self.store = None;
                self.open();
            }
            13 => self.store().roll(),
            14 => self.parse_some(),
            15 => {
                self.clock.advance_ns(self.rng.i64(0..AGE_NS / 2));
                self.retain();
            }
            16 => {
                self.disk.crash_at_sync(self.rng.u64(1..3));
                self.clock.advance_ns(AGE_NS / 3);
                self.note_expiring();
                self.store().run_retention(self.clock.now_ns());
                self.cut_power();
            }
            17 | 18 => self.fail_once(),
            _ => self.catalog_copy = std::fs::read(&self.catalog).ok(),
        }
        self.check_visible();
        if self.rng.u8(..5) == 0 {
            self.check_contents();
        }
    }

    fn append(&mut self) {
        let store = self.store();
        let frames: Vec<Frame> = (0..self.rng.usize(1..6))
            .map(|_| {
                self.clock.advance_ns(1);
                let bytes = [20, 300, 4_000][self.rng.usize(..3)];
                let lines = self.rng.u32(1..40);
                frame_at(store.next_sequence(), lines, bytes, self.clock.now_ns())
            })
            .collect();
        let contents: Vec<_> = frames.iter().map(|f| (*f.header(), f.bytes().to_vec())).collect();
        for ((header, content), result) in contents.into_iter().zip(append(&store, frames)) {
            assert!(header.sequence > self.sequence_max, "a number in use was given again");
            let fate = if result.is_ok() { Fate::Acknowledged } else { Fate::Unknown };
            self.places.insert((header.sequence, header.received_min_ns), self.frames.len());
            self.frames.push((content, fate));
            if fate == Fate::Acknowledged {
                self.sequence_max = header.sequence;
            }
        }
        if !self.disk.is_crashed() {
            self.retain();
        }
    }

    fn retain(&mut self) {
        self.store().run_retention(self.clock.now_ns());
        self.note_expired();
    }

    /// One operation fails; the store goes on.
    fn fail_once(&mut self) {
        let operations = [
            Operation::Write,
            Operation::Sync,
            Operation::Preallocate,
            Operation::Truncate,
            Operation::Create,
            Operation::Remove,
        ];
        let operation = operations[self.rng.usize(..operations.len())];
        let errno = [5, 28][self.rng.usize(..2)];
        let skip = self.rng.u64(..3);
        self.remove_failed |= operation == Operation::Remove;
        self.disk.fail(Fault { operation, skip, times: self.rng.u64(1..3), errno });
    }

    fn parse_some(&mut self) {
        let store = self.store();
        let frames = store.wait_committed(store.first_unparsed(), std::time::Duration::ZERO);
        for frame in frames.iter().take(self.rng.usize(..20)) {
            let (first, last) = frame.handle.received_range();
            store.set_times(frame.position, (first - 5, last + 5));
        }
    }

    /// Marks what retention has deleted: of the acknowledged, those before the first that is still there.
    fn note_expired(&mut self) {
        let store = self.store();
        if store.stats().lines_expired == 0 {
            return;
        }
        let first = self.found().first().copied().unwrap_or(self.frames.len());
        for (_, fate) in &mut self.frames[..first] {
            if *fate == Fate::Acknowledged {
                *fate = Fate::Expired;
            }
        }
    }

    /// Marks what retention may delete in the next operation: what is too old, and, close to the limit on bytes,
    /// the first segments.
    fn note_expiring(&mut self) {
        let store = self.store();
        let near =
            self.config.bytes_max.is_some_and(|max| store.stats().bytes_disk + (4 << 20) > max);
        let oldest_ns = self.config.age_ns.map(|age| self.clock.now_ns() - age);
        let handles = all(&store);
        let first_segment = handles.first().map_or(0, |h| h.position().segment);
        for (handle, place) in handles.iter().zip(self.found()) {
            let aged = oldest_ns.is_some_and(|oldest| handle.received_range().1 < oldest);
            if aged || (near && handle.position().segment < first_segment + 4) {
                self.frames[place].1 = Fate::Expiring;
            }
        }
    }

    fn cut_power(&mut self) {
        self.disk.crash();
        // A process that lost its disk; what it still says is of no account.
        let store = self.store.take().expect("open");
        let _ = store.close();
        drop(store);
        self.disk.restart();
        match self.rng.u8(..4) {
            0 => {
                let _ = std::fs::remove_file(&self.catalog);
                self.catalog_copy = None;
            }
            1 => {
                if let Some(copy) = self.catalog_copy.take() {
                    std::fs::write(&self.catalog, copy).unwrap();
                }
            }
            _ => {}
        }
        self.open();
        for (_, fate) in &mut self.frames {
            if *fate == Fate::Expiring {
                *fate = Fate::Expired;
            }
        }
        self.check_visible();
        self.check_contents();
    }

    /// Places of the frames that the store shows, which must be in order.
    fn found(&self) -> Vec<usize> {
        let handles = all(&self.store());
        let key = |h: &FrameHandle| (h.sequence(), h.received_range().0);
        let places: Vec<usize> = handles.iter().map(|h| self.places[&key(h)]).collect();
        assert!(places.is_sorted_by(|a, b| a < b), "order or number is wrong: {places:?}");
        places
    }

    fn check_contents(&self) {
        for (handle, place) in all(&self.store()).iter().zip(self.found()) {
            let frame = handle.read_frame().expect("reads").expect("not deleted");
            assert!(frame.bytes() == self.frames[place].0, "frame {place} is changed");
        }
    }

    fn check_visible(&self) {
        let found = self.found();
        let expected: Vec<usize> = (0..self.frames.len())
            .filter(|&place| self.frames[place].1 == Fate::Acknowledged)
            .collect();
        assert_eq!(found, expected);
        let store = self.store();
        assert_eq!(store.snapshot((i64::MIN, i64::MAX)).unwrap().len(), expected.len());
        if let Some(bytes_max) = self.config.bytes_max {
            let bytes = store.stats().bytes_disk;
            assert!(
                bytes <= bytes_max || self.remove_failed,
                "{bytes} bytes on disk, allowed {bytes_max}"
            );
        }
    }
}
