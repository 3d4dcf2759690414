//! Files in the directory of segments that are of another store, or of another time of this one:
//! nothing of this store is removed, hidden or passed over because of them.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};

use crate::common::{TestHost, append, config, frame_at, lines, open, parse_all, sequences, work};
use platform::{Clock, Disk, ManualClock, OnDurable, Patience, RealDisk};
use record::{Batch, NodeIdentity};
use store::{AtRest, FrameHandle, RecoveryReport, Store, StoreCallbacks, StoreError};

const NODE: u32 = 77;

/// A data directory on the disk of this machine, since only there the catalog outlives the store.
struct Place {
    dir: tempfile::TempDir,
    clock: Arc<dyn Clock>,
}

impl Place {
    fn new(now_ns: i64) -> Place {
        let clock: Arc<dyn Clock> = Arc::new(ManualClock::new(now_ns));
        Place { dir: tempfile::tempdir().unwrap(), clock }
    }

    fn disk() -> Arc<dyn Disk> {
        Arc::new(RealDisk)
    }

    fn open(&self) -> Arc<Store> {
        open(&config(self.dir.path()), &Place::disk(), &self.clock)
    }

    fn start(&self) -> (Arc<Store>, RecoveryReport) {
        Store::open(config(self.dir.path()), Place::disk(), Arc::clone(&self.clock)).unwrap()
    }

    fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join("segments").join(name)
    }

    /// The names of the segments that count without a server, and notes about the others.
    fn at_rest(&self) -> (Vec<String>, Vec<String>) {
        let at_rest = AtRest::open(&RealDisk, self.dir.path()).unwrap();
        let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
        let names = at_rest.segments.iter().map(|segment| name(&segment.path)).collect();
        (names, at_rest.notes.clone())
    }
}

/// Makes one frame of this store durable.
fn own(store: &Store, lines: u32) {
    let frame = frame_at(store.next_sequence(), lines, 100, 5);
    assert!(append(store, vec![frame]).iter().all(Result::is_ok));
}

/// Makes frames of another node durable.
fn forward(store: &Store, numbers: impl IntoIterator<Item = u64>) {
    for number in numbers {
        let (sender, receiver) = mpsc::channel();
        let done: OnDurable = Box::new(move |result| sender.send(result).unwrap());
        let frame = frame_at((NODE, number), 3, 100, 5);
        store.append(vec![(frame, done)], Patience::Unlimited).unwrap();
        receiver.recv().unwrap().unwrap();
    }
}

fn admit(store: &Store) {
    store.admit(&NodeIdentity { node: NODE, key: 5, starts: 1, run: 1 }, 1).unwrap();
}

/// Fills the store with one frame of `lines` lines, and seals it: `1.hot` becomes `2.sealed`.
fn seal_one(place: &Place, lines: u32) {
    let (store, host) = (place.open(), TestHost::new());
    // Numbers that no frame has, so that its frame has another one than those of other stores.
    (0..9).for_each(|_| _ = store.mark());
    own(&store, lines);
    store.roll();
    parse_all(&store, &host);
    work(&store, &host);
    store.close().unwrap();
    assert!(place.file("2.sealed").exists() && !place.file("1.hot").exists());
}

#[test]
fn a_sealed_file_of_another_store_removes_nothing_and_is_told() {
    let (place, other) = (Place::new(1_000), Place::new(2_000));
    seal_one(&other, 7);
    let store = place.open();
    own(&store, 5);
    let expected = sequences(&store);
    store.close().unwrap();
    drop(store);
    fs::copy(other.file("2.sealed"), place.file("2.sealed")).unwrap();
    let (names, _) = place.at_rest();
    assert_eq!(names, ["1.hot", "2.sealed"]);
    for start in 0..2 {
        let (store, report) = place.start();
        let [warning] = &report.warnings[..] else { panic!("{start}: {report}") };
        assert!(warning.starts_with("segment 2 is of another store"), "{warning}");
        assert_eq!(sequences(&store), expected, "{start}: what it names is not of this store");
        assert_eq!(lines(&store, &TestHost::new()).len(), 12, "{start}");
        // Its numbers are those of the other store.
        assert_eq!(store.durable_now().through, *expected.last().unwrap());
    }
}

#[test]
fn a_sealed_file_that_was_not_made_of_what_is_here_is_set_aside() {
    let before = Place::new(1_000);
    before.open().close().unwrap();
    let catalog = fs::read(before.dir.path().join("catalog.sqlite")).unwrap();
    seal_one(&before, 7);
    // Under another name, too: the number in the name is not the one that it says.
    for name in ["2.sealed", "7.sealed"] {
        // The store as it was before, from a backup, and what it received since.
        let place = Place::new(5_000);
        fs::write(place.dir.path().join("catalog.sqlite"), &catalog).unwrap();
        let store = place.open();
        own(&store, 5);
        let expected = sequences(&store);
        store.close().unwrap();
        drop(store);
        fs::copy(before.file("2.sealed"), place.file(name)).unwrap();
        if name == "2.sealed" {
            let (names, notes) = place.at_rest();
            assert_eq!(names, ["1.hot"]);
            let is_told = notes.iter().any(|note| note.contains("is about to be set aside"));
            assert!(is_told, "{notes:?}");
        }
        let (store, report) = place.start();
        assert_eq!(sequences(&store), expected, "{name}");
        let [warning] = &report.warnings[..] else { panic!("{name}: {report}") };
        let says = if name == "2.sealed" { "it replaces segment 1" } else { "it is segment 2" };
        assert!(warning.contains(&format!("{name}: it says that {says}")), "{warning}");
        assert!(place.file(&format!("{name}.damaged")).exists(), "{name}");
        assert_eq!(lines(&store, &TestHost::new()).len(), 5, "{name}");
    }
}

#[test]
fn an_unsealed_file_of_another_store_takes_no_lines_and_holds_nothing_for_this_one() {
    let (place, other) = (Place::new(1_000), Place::new(1_000));
    let store = other.open();
    admit(&store);
    forward(&store, 1..=4);
    store.roll();
    // Its header says that the other store holds the frames 1 to 4.
    forward(&store, [5]);
    store.close().unwrap();
    let store = place.open();
    admit(&store);
    forward(&store, 1..=2);
    store.close().unwrap();
    drop(store);
    fs::copy(other.file("2.hot"), place.file("2.hot")).unwrap();
    let (store, report) = place.start();
    let [warning] = &report.warnings[..] else { panic!("{report}") };
    assert!(warning.starts_with("segment 2 is of another store"), "{warning}");
    let held: Vec<(u64, u64)> = store.held(NODE).ranges().collect();
    assert_eq!(held, [(1, 2), (5, 5)], "a held frame is here");
    own(&store, 4);
    assert!(place.file("3.hot").exists());
    let host = TestHost::new();
    for state in ["hot", "sealed"] {
        let load = |handle: &FrameHandle| -> Result<Option<Arc<Batch>>, StoreError> {
            Ok(handle.read_frame()?.map(|frame| Arc::new(host.parse(frame))))
        };
        let (arrivals, _) = store.read_after(store.first_arrival(), u64::MAX, &load).unwrap();
        assert_eq!(arrivals.lines(), 2 * 3 + 4, "{state}: those that this store received");
        assert_eq!(lines(&store, &host).len(), 3 * 3 + 4, "{state}");
        store.roll();
        parse_all(&store, &host);
        work(&store, &host);
    }
}
