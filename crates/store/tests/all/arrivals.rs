//! Reading behind a cursor: hot lines, sealed lines, lines sealed between two reads, frames that
//! overtook others, deleted lines.

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc;

use crate::common::{TestHost, append, config, frame_at, open, parse_all, work};
use platform::{Clock, Disk, ManualClock, OnDurable, Patience, SimDisk};
use record::{Batch, NodeIdentity};
use store::{ArrivalCursor, FrameHandle, Store, StoreCallbacks, StoreConfig, StoreError};

struct Bench {
    config: StoreConfig,
    disk: Arc<dyn Disk>,
    clock: Arc<ManualClock>,
    store: Option<Arc<Store>>,
    host: TestHost,
    /// Keeps the directory of the catalog.
    _dir: tempfile::TempDir,
}

impl Bench {
    fn new() -> Bench {
        let config = config(Path::new("/data"));
        let dir = tempfile::tempdir().unwrap();
        let disk = Arc::new(SimDisk::new(3).with_os_dir(dir.path().to_owned()));
        let (clock, host) = (Arc::new(ManualClock::new(1_000)), TestHost::new());
        let mut bench = Bench { config, disk, clock, store: None, host, _dir: dir };
        bench.reopen();
        bench
    }

    fn reopen(&mut self) {
        self.store = None;
        let clock: Arc<dyn Clock> = self.clock.clone();
        self.store = Some(open(&self.config, &self.disk, &clock));
    }

    fn store(&self) -> &Store {
        self.store.as_ref().expect("open")
    }

    fn append(&self, id: (u32, u64), lines: u32) {
        let frame = frame_at(id, lines, 100, self.clock.now_ns());
        assert!(append(self.store(), vec![frame]).iter().all(Result::is_ok));
    }

    fn seal(&self) {
        self.store().roll();
        parse_all(self.store(), &self.host);
        work(self.store(), &self.host);
    }

    fn load(&self, handle: &FrameHandle) -> Result<Option<Arc<Batch>>, StoreError> {
        let frame = handle.read_frame()?;
        Ok(frame.map(|frame| Arc::new(self.host.parse(frame))))
    }

    /// Number of its frame and place there, of each line behind a cursor, as one call returns them.
    fn read(&self, cursor: &mut ArrivalCursor, bytes_max: u64) -> (Vec<(u64, u32)>, u64) {
        let read = self.store().read_after(*cursor, bytes_max, &|handle| self.load(handle));
        let (arrivals, next) = read.unwrap();
        *cursor = next;
        let rows = arrivals.rows().map(|row| (row.sequence(), row.id().line)).collect();
        (rows, arrivals.skipped)
    }

    fn frames(&self, cursor: &mut ArrivalCursor) -> Vec<u64> {
        let mut frames: Vec<u64> = Vec::new();
        loop {
            let before = *cursor;
            let (rows, _) = self.read(cursor, 1);
            frames.extend(rows.iter().map(|row| row.0));
            if *cursor == before {
                frames.dedup();
                return frames;
            }
        }
    }
}

#[test]
fn a_number_that_is_on_its_way_is_waited_for() {
    let bench = Bench::new();
    let numbers: Vec<(u32, u64)> = (0..4).map(|_| bench.store().next_sequence()).collect();
    let mut cursor = bench.store().first_arrival();
    bench.append(numbers[2], 2);
    bench.append(numbers[1], 2);
    assert_eq!(bench.frames(&mut cursor), [0; 0]);
    bench.append(numbers[0], 2);
    assert_eq!(bench.frames(&mut cursor), [1, 2, 3]);
    // After sealing, the same frames are read.
    let mut again = bench.store().first_arrival();
    bench.seal();
    assert_eq!(bench.frames(&mut again), [1, 2, 3]);
    assert_eq!(again, cursor);
    // Frame 4 does not come for a long time, so the reader passes its number. When frame 4 comes,
    // it gets another number.
    let next = bench.store().next_sequence();
    bench.append(next, 1);
    assert_eq!(bench.frames(&mut cursor), [0; 0]);
    bench.clock.advance_ns(11_000_000_000);
    assert_eq!(bench.frames(&mut cursor), [5]);
    bench.append(numbers[3], 1);
    assert_eq!(bench.frames(&mut cursor), [6]);
    // A number that no frame gets does not hold readers up.
    assert_eq!(bench.store().mark(), 7);
    bench.append(bench.store().next_sequence(), 1);
    assert_eq!(bench.frames(&mut cursor), [8]);
}

#[test]
fn lines_come_once_while_they_are_sealed_and_after_restarts() {
    let mut bench = Bench::new();
    let node = NodeIdentity { node: 77, key: 5, starts: 1, run: 1 };
    bench.store().admit(&node, 1).unwrap();
    let mut cursor = bench.store().first_arrival();
    let (mut found, mut expected) = (Vec::new(), Vec::new());
    for round in 0..30u64 {
        let lines = 1 + (round % 4) as u32;
        if round % 3 == 0 {
            let (sender, receiver) = mpsc::channel();
            let frame = frame_at((77, round + 1), lines, 100, 1);
            let done: OnDurable = Box::new(move |result| sender.send(result).unwrap());
            bench.store().append(vec![(frame, done)], Patience::Unlimited).unwrap();
            receiver.recv().unwrap().unwrap();
        } else {
            bench.append(bench.store().next_sequence(), lines);
        }
        expected.extend((0..lines).map(|line| (round + 1, line)));
        if round % 5 == 4 {
            found.extend(bench.read(&mut cursor, [1, 500, 1 << 20][round as usize % 3]).0);
        }
        if round % 7 == 6 {
            bench.seal();
        }
        if round % 11 == 10 {
            bench.reopen();
            bench.store().admit(&NodeIdentity { starts: 2 + round, ..node }, 1).unwrap();
        }
    }
    loop {
        let before = cursor;
        found.extend(bench.read(&mut cursor, 300).0);
        if cursor == before {
            break;
        }
    }
    assert_eq!(found, expected);
}

#[test]
fn no_frame_behind_the_last_wanted_one_is_read() {
    let bench = Bench::new();
    let through = |cursor: &mut ArrivalCursor, last: u64| {
        let load = |handle: &FrameHandle| {
            assert!(handle.sequence() <= last, "frame {} is not wanted", handle.sequence());
            bench.load(handle)
        };
        let (arrivals, next) = bench.store().read_through(*cursor, last, 1 << 20, &load).unwrap();
        *cursor = next;
        arrivals.rows().map(|row| row.sequence()).collect::<Vec<u64>>()
    };
    for round in 0..2 {
        (0..3).for_each(|_| bench.append(bench.store().next_sequence(), 1));
        let mut cursor = bench.store().first_arrival();
        assert_eq!(through(&mut cursor, 2), [1, 2], "{round}");
        assert_eq!(through(&mut cursor, 2), [0; 0], "{round}");
        assert_eq!(through(&mut cursor, 1), [0; 0], "{round}");
        assert_eq!(through(&mut cursor, 3), [3], "{round}");
        bench.seal();
    }
}

#[test]
fn lines_that_retention_deleted_are_reported_once() {
    let mut bench = Bench::new();
    bench.config.age_ns = Some(1_000_000);
    bench.reopen();
    let mut cursor = bench.store().first_arrival();
    for _ in 0..3 {
        bench.append(bench.store().next_sequence(), 5);
    }
    assert_eq!(bench.read(&mut cursor, 1).0.len(), 5);
    bench.seal();
    bench.append(bench.store().next_sequence(), 7);
    bench.store().roll();
    bench.clock.advance_ns(10_000_000);
    bench.store().run_retention(bench.clock.now_ns());
    assert_eq!(bench.store().stats().lines, 0);
    let mut fresh = bench.store().first_arrival();
    assert_eq!(bench.read(&mut cursor, 1), (vec![], 0), "nothing is there to go on to");
    bench.reopen();
    bench.append(bench.store().next_sequence(), 1);
    // A part of the first segment was read, but all of its lines are counted.
    assert_eq!(bench.read(&mut cursor, 1 << 20).1, 22);
    assert_eq!(bench.read(&mut cursor, 1 << 20), (vec![], 0));
    assert_eq!(bench.read(&mut fresh, 1 << 20).1, 22);
}

#[test]
fn a_cursor_of_another_store_is_refused() {
    let bench = Bench::new();
    let cursor = ArrivalCursor { node: bench.store().node() ^ 1, through: 0 };
    let error = bench.store().read_after(cursor, 1, &|handle| bench.load(handle)).unwrap_err();
    assert!(error.to_string().contains("is of another store"), "{error}");
}
