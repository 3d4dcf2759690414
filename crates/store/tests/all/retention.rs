//! Limits on age and bytes hold, to the nanosecond and the byte.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};

use crate::common::{TestHost, all, append, config, frame_at, open, parse_all, sequences, work};
use platform::{
    Access, Clock, Disk, DiskFile, DiskLock, DiskSpace, Fault, LockError, ManualClock, Operation,
    SimDisk,
};
use store::{Retention, RetentionRule, Store, StoreConfig, Unit};

fn setup(config: &StoreConfig) -> (SimDisk, Arc<Store>) {
    let disk = SimDisk::new(1);
    let store = start(config, Arc::new(disk.clone()), 0);
    (disk, store)
}

/// Opens the store that is on the disk at `now_ns`.
fn start(config: &StoreConfig, disk: Arc<dyn Disk>, now_ns: i64) -> Arc<Store> {
    let clock: Arc<dyn Clock> = Arc::new(ManualClock::new(now_ns));
    open(config, &disk, &clock)
}

fn add(store: &Store, received_ns: i64) {
    let frame = frame_at(store.next_sequence(), 1000, 100, received_ns);
    assert!(append(store, vec![frame])[0].is_ok());
}

#[test]
fn a_segment_goes_when_its_newest_line_is_older_than_the_age() {
    let mut config = config("/data");
    config.age_ns = Some(800);
    for (now_ns, left) in [(1_899, 2), (1_900, 2), (1_901, 1)] {
        let (_, store) = setup(&config);
        add(&store, 1_000);
        add(&store, 1_100);
        store.roll();
        add(&store, now_ns - 1);
        store.run_retention(now_ns);
        assert_eq!(store.stats().segments, left, "at {now_ns}");
        assert_eq!(store.stats().lines_expired, if left == 1 { 2_000 } else { 0 });
    }
}

#[test]
fn the_active_segment_is_closed_at_an_eighth_of_the_age_and_leaves_no_number_free() {
    let mut config = config("/data");
    config.age_ns = Some(800);
    let (disk, store) = setup(&config);
    add(&store, 1_000);
    store.run_retention(1_100);
    add(&store, 1_100);
    assert_eq!(store.stats().segments, 1);
    store.run_retention(1_101);
    add(&store, 1_101);
    assert_eq!(store.stats().segments, 2);
    let handle = all(&store)[0].clone();
    store.run_retention(10_000);
    assert_eq!((store.stats().lines, sequences(&store).len()), (0, 0));
    assert!(handle.read_frame().unwrap().is_none(), "deleted meanwhile");
    assert!(handle.read_frame_once().unwrap().is_none(), "deleted meanwhile");
    assert!(handle.cached().is_none());
    drop(store);
    assert_eq!(start(&config, Arc::new(disk), 0).next_sequence().1, 4);
}

#[test]
fn lines_of_before_a_long_stop_get_no_younger_ones_into_their_segment() {
    let mut config = config("/data");
    config.age_ns = Some(800);
    for (start_ns, is_orderly, segments) in
        [(1_100, true, 1), (1_101, true, 2), (1_100, false, 1), (1_101, false, 2)]
    {
        let (disk, store) = setup(&config);
        add(&store, 1_000);
        match is_orderly {
            true => store.close().unwrap(),
            false => {
                disk.crash();
                let _ = store.close();
                disk.restart();
            }
        }
        drop(store);
        let store = start(&config, Arc::new(disk), start_ns);
        add(&store, start_ns);
        assert_eq!(store.stats().segments, segments, "at {start_ns}");
        store.run_retention(1_801);
        assert_eq!(sequences(&store).first(), Some(&segments), "at {start_ns}");
    }
}

#[test]
fn bytes_on_disk_never_exceed_the_limit() {
    let mut config = config("/data");
    let bytes_max = 9 << 20;
    config.bytes_max = Some(bytes_max);
    let (disk, store) = setup(&config);
    for i in 0..200 {
        add(&store, i);
        let bytes = store.stats().bytes_disk;
        assert!(bytes <= bytes_max, "{bytes} after {i}");
        assert!(disk.used_bytes() <= bytes_max);
    }
    let stats = store.stats();
    assert!(stats.bytes_disk > bytes_max / 4 * 3, "most of it is used: {}", stats.bytes_disk);
    assert_eq!(stats.lines + stats.lines_expired, 200_000);
    let left = sequences(&store);
    let oldest = 200 - left.len() as u64 + 1;
    assert_eq!(left, (oldest..=200).collect::<Vec<_>>(), "the newest are kept");
}

#[test]
fn a_retention_that_a_start_refuses_is_refused_while_the_store_runs() {
    let (_, store) = setup(&config("/data"));
    for i in 0..3 {
        add(&store, i);
        store.roll();
    }
    let before = store.retention();
    let rule = RetentionRule { filter: "1".to_owned(), age_ns: 0 };
    for refused in [
        Retention { bytes_max: Some(0), ..before.clone() },
        Retention { bytes_max: Some((8 << 20) - 1), ..before.clone() },
        Retention { age_ns: Some(0), ..before.clone() },
        Retention { rules: vec![rule], ..before.clone() },
    ] {
        assert!(store.set_retention(refused.clone()).is_err(), "{refused:?}");
        assert_eq!(store.retention(), before);
        store.run_retention(1_000);
        assert_eq!(sequences(&store), [1, 2, 3]);
    }
}

#[test]
fn segments_follow_a_limit_on_bytes_that_is_set_while_the_store_runs() {
    let mut config = config("/data");
    config.segment_bytes_max = 64 << 20;
    let (_, store) = setup(&config);
    add(&store, 0);
    let bytes_max = 9 << 20;
    store.set_retention(Retention { bytes_max: Some(bytes_max), ..store.retention() }).unwrap();
    for i in 1..200 {
        add(&store, i);
        let bytes = store.stats().bytes_disk;
        assert!(bytes <= bytes_max, "{bytes} after {i}");
    }
    let bytes = store.stats().bytes_disk;
    assert!(bytes > bytes_max / 4 * 3, "most of it is used: {bytes}");
    let sizes: Vec<u64> = store.segments().iter().map(|segment| segment.bytes_disk).collect();
    assert!(sizes.iter().all(|&bytes| bytes <= bytes_max / 8), "{sizes:?}");
    // Without a limit they grow again.
    store.set_retention(Retention { bytes_max: None, ..store.retention() }).unwrap();
    for i in 200..300 {
        add(&store, i);
    }
    let sizes: Vec<u64> = store.segments().iter().map(|segment| segment.bytes_disk).collect();
    assert!(sizes.iter().any(|&bytes| bytes > bytes_max / 2), "{sizes:?}");
}

/// A disk on which a reader reads right after a file is removed, before the removal returns to the
/// store.
struct Slow {
    disk: SimDisk,
    reader: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

impl Disk for Slow {
    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn DiskFile>> {
        self.disk.open(path, access)
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        self.disk.create_dir_all(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.disk.rename(from, to)
    }

    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.disk.hard_link(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let removed = self.disk.remove(path);
        self.reader.get().into_iter().for_each(|read| read());
        removed
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.disk.sync_dir(path)
    }

    fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        self.disk.list(path)
    }

    fn file_bytes(&self, path: &Path) -> io::Result<u64> {
        self.disk.file_bytes(path)
    }

    fn space(&self, path: &Path) -> io::Result<DiskSpace> {
        self.disk.space(path)
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn DiskLock>, LockError> {
        self.disk.lock(path)
    }

    fn os_path(&self, path: &Path) -> Option<PathBuf> {
        self.disk.os_path(path)
    }
}

#[test]
fn who_reads_while_a_segment_is_deleted_finds_nothing_and_no_fault() {
    for sealed in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let mut config = config("/data");
        (config.age_ns, config.cache_bytes_max) = (Some(800), 0);
        let disk = SimDisk::new(1).with_os_dir(dir.path().to_owned());
        let store = start(&config, Arc::new(disk.clone()), 0);
        add(&store, 1_000);
        store.roll();
        if sealed {
            let host = TestHost::new();
            parse_all(&store, &host);
            assert!(work(&store, &host) > 0);
        }
        add(&store, 1_900);
        drop(store);
        // No file is open from here on.
        let slow = Arc::new(Slow { disk, reader: OnceLock::new() });
        let store = start(&config, slow.clone(), 0);
        let whole = (i64::MIN, i64::MAX);
        let oldest = match sealed {
            true => None,
            false => store.snapshot(whole).unwrap().into_iter().min_by_key(Unit::position),
        };
        let found = Arc::new(Mutex::new(Vec::new()));
        let (reading, results) = (Arc::downgrade(&store), Arc::clone(&found));
        let read = move || {
            let Some(store) = reading.upgrade() else { return };
            let unit = |unit: &Unit| match unit {
                Unit::Frame(frame) => frame.read_frame().map(|frame| frame.is_some()),
                Unit::Block(block) => block.read().map(|batch| batch.is_some()),
            };
            let kept = oldest.as_ref().map(unit).transpose();
            let units = store.snapshot(whole).map(|units| units.len());
            results.lock().unwrap().push((kept, units));
        };
        assert!(slow.reader.set(Box::new(read)).is_ok());
        store.run_retention(1_801);
        let found = std::mem::take(&mut *found.lock().unwrap());
        let [(kept, units)] = &found[..] else { panic!("removed once: {found:?}") };
        match sealed {
            // The segment is still listed when its file is gone, and has no blocks then.
            true => assert_eq!(units.as_ref().unwrap(), &1),
            false => assert_eq!(kept.as_ref().unwrap(), &Some(false)),
        }
        assert_eq!(store.stats().segments, 1);
    }
}

#[test]
fn a_segment_that_the_disk_does_not_delete_is_there_as_before() {
    let mut config = config("/data");
    config.age_ns = Some(800);
    let (disk, store) = setup(&config);
    add(&store, 1_000);
    store.roll();
    add(&store, 1_900);
    disk.fail(Fault { operation: Operation::Remove, skip: 0, times: 1, errno: 5 });
    store.run_retention(1_901);
    assert_eq!((store.stats().segments, sequences(&store)), (2, vec![1, 2]));
    assert!(all(&store)[0].read_frame().unwrap().is_some());
    store.run_retention(1_901);
    assert_eq!(sequences(&store), [2]);
}

#[test]
fn an_empty_segment_that_must_stay_keeps_no_old_lines() {
    let mut config = config("/data");
    config.age_ns = Some(800);
    let (disk, store) = setup(&config);
    add(&store, 1_000);
    disk.fail(Fault { operation: Operation::Remove, skip: 0, times: 1, errno: 5 });
    store.run_retention(1_900);
    assert_eq!(sequences(&store), [1], "the disk does not delete it");
    assert_eq!(store.stats().segments, 2, "one without lines says which numbers were given");
    // No write succeeds after the next start, so no other segment can take the place of the empty
    // one.
    drop(store);
    let store = start(&config, Arc::new(disk.clone()), 0);
    disk.set_capacity(disk.used_bytes());
    store.run_retention(1_901);
    assert_eq!((sequences(&store), store.stats().lines_expired), (vec![], 1_000));
    assert_eq!((store.stats().segments, store.next_sequence().1), (1, 2));
}

#[test]
fn a_full_disk_has_room_to_say_which_numbers_were_given() {
    let mut config = config("/data");
    (config.age_ns, config.disk_free_bytes_min) = (Some(800), 64 << 10);
    let (disk, store) = setup(&config);
    add(&store, 1_000);
    disk.set_capacity(disk.used_bytes() + (48 << 10));
    store.run_retention(1_801);
    assert_eq!((sequences(&store), store.stats().lines_expired), (vec![], 1_000));
    assert_eq!((store.stats().segments, store.next_sequence().1), (1, 2));
}

#[test]
fn a_segment_whose_removal_was_not_made_durable_does_not_come_back() {
    let mut config = config("/data");
    config.age_ns = Some(800);
    let mut back = 0;
    for seed in 0..32 {
        let dir = tempfile::tempdir().unwrap();
        let disk = SimDisk::new(seed).with_os_dir(dir.path().to_owned());
        let store = start(&config, Arc::new(disk.clone()), 0);
        add(&store, 1_000);
        store.roll();
        add(&store, 1_900);
        let oldest = all(&store)[0].position().segment;
        disk.fail(Fault { operation: Operation::SyncDir, skip: 0, times: u64::MAX, errno: 5 });
        store.run_retention(1_901);
        assert_eq!(sequences(&store), [2]);
        // The power is cut before the removal succeeds.
        disk.crash();
        drop(store);
        disk.restart();
        let path = config.data_dir.join(format!("segments/{oldest}.hot"));
        back += u32::from(disk.contents(&path).is_some());
        let store = start(&config, Arc::new(disk), 0);
        assert_eq!(sequences(&store), [2], "seed {seed}");
        assert_eq!(store.stats().segments, 1);
    }
    assert!(back > 0, "the disk undid a removal");
}
