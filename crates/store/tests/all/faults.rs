//! A disk that is full, fails, or has damaged files.

use std::path::Path;
use std::sync::{Arc, Mutex, mpsc};

use crate::common::{all, append, config, frame_at, sequences};
use platform::{
    Clock, Disk, Fault, KeepError, ManualClock, OnDurable, Operation, Patience, SimDisk,
};
use record::Frame;
use store::{RecoveryReport, Store, StoreConfig, StoreState};

struct Setup {
    disk: SimDisk,
    clock: Arc<ManualClock>,
    config: StoreConfig,
}

impl Setup {
    fn new() -> Self {
        let mut config = config("/data");
        // The clock stands still while the store tries to write again.
        config.retry_ms = 0;
        Setup { disk: SimDisk::new(1), clock: Arc::new(ManualClock::new(1)), config }
    }

    fn open(&self) -> (Arc<Store>, RecoveryReport) {
        let disk: Arc<dyn Disk> = Arc::new(self.disk.clone());
        let clock: Arc<dyn Clock> = self.clock.clone();
        Store::open(self.config.clone(), disk, clock).expect("opens")
    }

    /// A store with `frames` frames of some 10 KB, closed.
    fn filled(frames: usize) -> Self {
        let setup = Setup::new();
        let (store, _) = setup.open();
        let frames = (0..frames).map(|_| frame(&store)).collect();
        assert!(append(&store, frames).iter().all(Result::is_ok));
        store.close().unwrap();
        setup
    }
}

fn frame(store: &Store) -> Frame {
    frame_at(store.next_sequence(), 100, 100, 5)
}

const FILE: &str = "/data/segments/1.hot";

#[test]
fn full_disk_refuses_who_waits_keeps_the_rest_and_resumes_by_itself() {
    let mut setup = Setup::new();
    setup.config.unacknowledged_ms_max = 10_000;
    let (store, _) = setup.open();
    assert!(append(&store, vec![frame(&store)])[0].is_ok());
    setup.disk.set_capacity(setup.disk.used_bytes());
    // The preallocated space is filled first; then nothing more fits.
    let (sender, receiver) = mpsc::channel();
    let queue = |store: &Store| {
        let sender = sender.clone();
        let done: OnDurable = Box::new(move |result| sender.send(result).unwrap());
        store.append(vec![(frame(store), done)], Patience::Awaited).unwrap();
    };
    let mut taken = 1;
    loop {
        queue(&store);
        let outcome = loop {
            if let Ok(result) = receiver.try_recv() {
                break Some(result);
            }
            if store.refusal().is_some() {
                break None;
            }
            std::thread::yield_now();
        };
        match outcome {
            Some(result) => assert_eq!(result, Ok(())),
            None => break,
        }
        taken += 1;
    }
    assert_eq!(store.refusal(), Some(KeepError::DiskFull));
    assert!(!store.has_room(), "whoever must not block does not come now");
    assert_eq!(store.stats().state, StoreState::DiskFull);
    // A frame of lines that nobody sends again stays. A frame whose sender waits is given up once
    // its time is over.
    let (kept, fate_of_kept) = mpsc::channel();
    let done: OnDurable = Box::new(move |result| kept.send(result).unwrap());
    store.append(vec![(frame(&store), done)], Patience::Unlimited).unwrap();
    setup.clock.advance_ns(10_000_000_000 - 1);
    assert!(receiver.try_recv().is_err(), "not a nanosecond before");
    setup.clock.advance_ns(1);
    assert_eq!(receiver.recv().unwrap(), Err(KeepError::DiskFull));
    assert_eq!(store.stats().frames, taken);
    assert!(fate_of_kept.try_recv().is_err(), "it still waits");
    // There is room again.
    setup.disk.set_capacity(1 << 40);
    assert!(append(&store, vec![frame(&store)])[0].is_ok());
    assert_eq!(fate_of_kept.recv().unwrap(), Ok(()));
    assert_eq!((store.refusal(), store.has_room()), (None, true));
    let expected: Vec<u64> = (1..=taken).chain([taken + 2, taken + 3]).collect();
    assert_eq!(sequences(&store), expected);
    drop(store);
    assert_eq!(sequences(&setup.open().0), expected, "what was refused stays away");
}

#[test]
fn full_disk_keeps_the_reserve_free() {
    for (spare, good) in [(-1i64, false), (0, true), (1, true)] {
        let mut setup = Setup::new();
        (setup.config.disk_free_bytes_min, setup.config.unacknowledged_ms_max) = (100 << 20, 0);
        let (store, _) = setup.open();
        let frame = frame(&store);
        // A segment for one frame needs header, frame and index; this space is checked before the
        // file is created.
        let needed = 4096 + frame.bytes().len() as i64 + 128;
        setup.disk.set_capacity(((100 << 20) + needed + spare) as u64);
        let made = append(&store, vec![frame]);
        // The file grows by blocks, so that even the exact fit may be refused one step later; the
        // reserve is never used.
        assert!(good || made == [Err(KeepError::DiskFull)]);
        let free = store.disk_space().unwrap().free_bytes;
        assert!(free >= 100 << 20, "{free} bytes free with {spare} spare");
    }
}

#[test]
fn after_a_failed_write_or_sync_frames_go_to_a_new_segment_once() {
    for operation in [Operation::Write, Operation::Sync, Operation::Preallocate] {
        let setup = Setup::new();
        let (store, _) = setup.open();
        assert!(append(&store, vec![frame(&store)])[0].is_ok());
        let skip = 0;
        if operation == Operation::Preallocate {
            store.roll();
        }
        setup.disk.fail(Fault { operation, skip, times: 1, errno: 5 });
        assert!(append(&store, vec![frame(&store), frame(&store)]).iter().all(Result::is_ok));
        assert_eq!(store.stats().segments, 2, "{operation:?}");
        assert_eq!(sequences(&store), [1, 2, 3]);
        setup.disk.restart();
        drop(store);
        assert_eq!(sequences(&setup.open().0), [1, 2, 3], "{operation:?}");
    }
}

#[test]
fn a_disk_that_only_fails_is_reported_with_file_and_cause() {
    let mut setup = Setup::new();
    setup.config.unacknowledged_ms_max = 0;
    let (store, _) = setup.open();
    setup.disk.fail(Fault { operation: Operation::Sync, skip: 0, times: u64::MAX, errno: 5 });
    let results = append(&store, vec![frame(&store)]);
    let Err(KeepError::Failed(text)) = &results[0] else { panic!("{results:?}") };
    assert!(text.contains("/data/segments/") && text.contains("sync"), "{text}");
    setup.disk.clear_faults();
    // A frame that comes during the last failing attempt would be given up with it, since
    // `unacknowledged_ms_max` is 0.
    while store.refusal().is_some() {
        std::thread::yield_now();
    }
    assert!(append(&store, vec![frame(&store)])[0].is_ok());
    assert!(store.stats().segments <= 2, "attempts leave no files behind");
}

#[test]
fn a_file_that_was_left_by_a_failed_sync_of_the_directory_is_durable_after_the_next_start() {
    for seed in 0..8 {
        for skip in 0..3 {
            let mut setup = Setup::new();
            (setup.disk, setup.config.unacknowledged_ms_max) = (SimDisk::new(seed), 0);
            // The store makes one attempt only, with a new segment, since the clock stands still.
            setup.config.retry_ms = 1000;
            let (store, _) = setup.open();
            for (operation, skip) in [(Operation::SyncDir, 0), (Operation::Remove, skip)] {
                setup.disk.fail(Fault { operation, skip, times: u64::MAX, errno: 5 });
            }
            assert!(append(&store, vec![frame(&store)])[0].is_err());
            let _ = store.close();
            setup.disk.clear_faults();
            let (store, _) = setup.open();
            assert!(append(&store, vec![frame(&store)])[0].is_ok());
            setup.disk.crash();
            let _ = store.close();
            setup.disk.restart();
            let (store, _) = setup.open();
            assert_eq!(sequences(&store).len(), 1, "seed {seed}, {skip}");
        }
    }
}

#[test]
fn closing_with_frames_that_cannot_be_written_says_so() {
    let setup = Setup::new();
    let (store, _) = setup.open();
    setup.disk.set_capacity(0);
    let done: OnDurable = Box::new(|_| ());
    store.append(vec![(frame(&store), done)], Patience::Unlimited).unwrap();
    let error = store.close().unwrap_err().to_string();
    assert!(error.starts_with("100 lines that had arrived could not be written"), "{error}");
}

#[test]
fn each_cut_keeps_all_frames_before_it() {
    let whole = Setup::filled(4).disk.contents(Path::new(FILE)).unwrap();
    let ends: Vec<usize> = frame_ends(&whole);
    let near = |end: usize| [end - 1, end, end + 1];
    let cuts = ends.iter().flat_map(|&end| near(end)).chain((4096..whole.len()).step_by(997));
    for cut in cuts.filter(|&cut| cut <= whole.len()) {
        let setup = Setup::filled(4);
        setup.disk.corrupt(Path::new(FILE), whole[..cut].to_vec());
        let (store, report) = setup.open();
        let expected = ends.iter().filter(|&&end| end <= cut).count();
        assert_eq!(all(&store).len(), expected, "cut at {cut}");
        let torn = cut - ends.iter().rev().find(|&&end| end <= cut).unwrap_or(&4096);
        assert_eq!(
            report.dropped.iter().map(|d| d.bytes).sum::<u64>() > 0,
            torn > 0,
            "cut at {cut}"
        );
        // The store continues to take frames.
        assert!(append(&store, vec![frame(&store)])[0].is_ok());
        drop(store);
        assert_eq!(all(&setup.open().0).len(), expected + 1, "cut at {cut}");
    }
}

#[test]
fn each_flipped_byte_is_found_and_costs_no_other_frame() {
    let whole = Setup::filled(4).disk.contents(Path::new(FILE)).unwrap();
    let ends = frame_ends(&whole);
    let first = ends[0] - 4096;
    // Flips are in the file header, in header and body of the second frame, and in the body of the
    // last.
    let second = 4096 + first;
    let flips =
        (0..4096).step_by(509).chain(second..second + 64).chain([second + 70, ends[3] - 20]);
    for flip in flips {
        let setup = Setup::filled(4);
        let mut damaged = whole.clone();
        damaged[flip] ^= 4;
        setup.disk.corrupt(Path::new(FILE), damaged);
        let disk: Arc<dyn Disk> = Arc::new(setup.disk.clone());
        let opened = Store::open(setup.config.clone(), disk, setup.clock.clone());
        let (store, report) = opened.unwrap();
        let text = report.to_string();
        let found = sequences(&store);
        match flip {
            ..4096 => {
                assert_eq!(found, [1, 2, 3, 4], "{flip}");
                assert!(text.contains("1.hot at byte"), "{text}");
            }
            // In its header or its body.
            _ if flip < ends[1] => {
                assert_eq!(found, [1, 3, 4], "{flip}");
                assert!(text.contains(&format!("1.hot at byte {second}: ")), "{text}");
                let copy = setup.disk.contents(Path::new("/data/segments/1.hot.torn1")).unwrap();
                assert_eq!(copy.len(), ends[3] - second, "what may be damage is kept");
            }
            // The last frame is dropped like a torn last write: without its catalog, nothing tells
            // that it was acknowledged.
            _ => assert_eq!(found, [1, 2, 3], "{flip}"),
        }
        assert!(append(&store, vec![frame(&store)])[0].is_ok());
        drop(store);
        let again = sequences(&setup.open().0);
        assert_eq!(again[..found.len()], found);
        assert_eq!(again.len(), found.len() + 1, "{flip}");
    }
}

#[test]
fn damage_in_a_rolled_segment_is_an_error_when_read() {
    let setup = Setup::filled(0);
    let (store, _) = setup.open();
    append(&store, (0..3).map(|_| frame(&store)).collect());
    store.roll();
    drop(store);
    let mut bytes = setup.disk.contents(Path::new(FILE)).unwrap();
    bytes[5000] ^= 1;
    setup.disk.corrupt(Path::new(FILE), bytes.clone());
    let (store, report) = setup.open();
    assert_eq!((report.segments_scanned, report.frames), (0, 3), "the index is believed");
    let handles = all(&store);
    let error = handles[0].read_frame().unwrap_err().to_string();
    assert!(error.contains("1.hot at byte 4096: checksum of the frame's body is"), "{error}");
    assert!(handles[1].read_frame().unwrap().is_some());
    drop(store);
    // A damaged index only costs a scan.
    let end = bytes.len();
    bytes[5000] ^= 1;
    bytes[end - 100] ^= 1;
    setup.disk.corrupt(Path::new(FILE), bytes);
    let (store, report) = setup.open();
    assert_eq!((report.segments_scanned, report.frames), (1, 3));
    assert_eq!(sequences(&store), [1, 2, 3]);
}

/// A power cut may leave the end of an index without its beginning, while the next segment has
/// frames already.
#[test]
fn an_index_that_a_power_cut_tore_is_no_damage() {
    let dir = tempfile::tempdir().unwrap();
    let catalog = dir.path().join("catalog.sqlite");
    let disk = SimDisk::new(1).with_os_dir(dir.path().to_owned());
    // The catalog is on another disk, and what is written to it after the power cut is lost.
    let at_crash: Arc<Mutex<Vec<u8>>> = Arc::default();
    let (file, copy) = (catalog.clone(), at_crash.clone());
    disk.on_crash(move || *copy.lock().unwrap() = std::fs::read(&file).unwrap());
    let config = StoreConfig { segment_frames_max: 20, ..config("/data") };
    let open = || {
        let shared: Arc<dyn Disk> = Arc::new(disk.clone());
        let clock: Arc<dyn Clock> = Arc::new(ManualClock::new(1));
        Store::open_stepped(config.clone(), shared, clock).unwrap()
    };
    let (store, _) = open();
    let queue = |count: usize| {
        let done = || -> OnDurable { Box::new(|_| ()) };
        let frames = (0..count).map(|_| (frame(&store), done())).collect();
        store.append(frames, Patience::Unlimited).unwrap();
        store.writer_step();
    };
    queue(20);
    // The next frame closes the segment and begins another one. Its header, the directory and the
    // frame are synced, and then the index of the first.
    disk.crash_at_sync(4);
    queue(1);
    assert!(disk.is_crashed());
    let _ = store.close();
    drop(store);
    disk.restart();
    std::fs::write(&catalog, &*at_crash.lock().unwrap()).unwrap();
    let mut bytes = disk.contents(Path::new(FILE)).unwrap();
    bytes.truncate(*frame_ends(&bytes).last().unwrap());
    bytes.resize(bytes.len().next_multiple_of(512), 0);
    bytes.extend_from_slice(&[7; 600]);
    disk.corrupt(Path::new(FILE), bytes);
    let (store, report) = open();
    assert_eq!(store.stats().sealing.damaged_segments, 0, "{report}");
    assert!(report.dropped.is_empty() && report.warnings.is_empty(), "{report}");
    assert_eq!(sequences(&store), (1..=21).collect::<Vec<_>>());
}

/// Where each frame of a segment file ends.
fn frame_ends(file: &[u8]) -> Vec<usize> {
    let mut ends = Vec::new();
    let mut at = 4096;
    while let Ok(header) = record::frame::FrameHeader::decode(&file[at..]) {
        at += header.frame_bytes();
        ends.push(at);
    }
    ends
}
