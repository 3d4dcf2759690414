//! A store on a real disk: lines that go in come out again, also after it was closed or killed, and
//! while a second instance tries to open it.

use std::sync::Arc;
use std::time::Duration;

use crate::common::{TestHost, all, append, config, frame_at, open, sequences};
use platform::{Clock, Disk, KeepError, RealClock, RealDisk};
use record::LineId;
use segment::tokens::required_tokens;
use store::{Position, Store, StoreCallbacks, StoreConfig, StoreError, Unit};

fn real() -> (Arc<dyn Disk>, Arc<dyn Clock>) {
    (Arc::new(RealDisk), Arc::new(RealClock::new()))
}

fn find(store: &Store, sequence: u64) -> Vec<Unit> {
    store.find(LineId { node: store.node(), sequence, line: 0 }).unwrap()
}

fn sequence(unit: &Unit) -> u64 {
    match unit {
        Unit::Frame(frame) => frame.sequence(),
        Unit::Block(_) => panic!("nothing is sealed"),
    }
}

#[test]
fn frames_come_back_in_order_and_after_reopening() {
    let dir = tempfile::tempdir().unwrap();
    let (disk, clock) = real();
    let config = config(dir.path());
    let store = open(&config, &disk, &clock);
    let mut expected = Vec::new();
    for round in 0..30 {
        let frames: Vec<_> =
            (0..3).map(|i| frame_at(store.next_sequence(), 1 + round * i, 100, 5)).collect();
        expected.extend(frames.iter().map(|f| f.bytes().to_vec()));
        assert!(append(&store, frames).iter().all(Result::is_ok));
    }
    let check = |store: &Store| {
        let found: Vec<Vec<u8>> =
            all(store).iter().map(|h| h.read_frame().unwrap().unwrap().bytes().to_vec()).collect();
        assert!(found == expected, "frames differ");
    };
    check(&store);
    let before = store.stats();
    store.close().unwrap();
    store.close().unwrap();
    check(&store);
    assert_eq!(
        append(&store, vec![frame_at((1, 1), 1, 1, 1)]),
        [Err(KeepError::Closed)],
        "nothing is taken after closing"
    );
    let (store, report) = Store::open(config.clone(), disk, clock).unwrap();
    assert_eq!((report.lines, report.frames), (before.lines, 90));
    assert_eq!((report.dropped.len(), report.warnings.len()), (0, 0), "{report}");
    check(&store);
    assert_eq!(store.next_sequence().1, 91);
    let Some(Unit::Frame(handle)) = find(&store, 17).pop() else { panic!("it is there") };
    assert_eq!(handle.read_frame().unwrap().unwrap().header().sequence, 17);
    assert_eq!(handle.read_frame_once().unwrap().unwrap().header().sequence, 17);
    assert!(find(&store, 91).is_empty());
}

#[test]
fn segments_roll_and_event_times_are_kept_with_them() {
    let dir = tempfile::tempdir().unwrap();
    let (disk, clock) = real();
    let config = config(dir.path());
    let store = open(&config, &disk, &clock);
    for _ in 0..25 {
        let frame = frame_at(store.next_sequence(), 1000, 100, 5);
        assert!(append(&store, vec![frame])[0].is_ok());
    }
    assert_eq!(store.stats().segments, 3);
    assert_eq!(store.first_unparsed(), Position { segment: 0, frame: u32::MAX });
    let frames = all(&store);
    for handle in &frames[..12] {
        let time = handle.sequence() as i64 * 10;
        store.set_times(handle.position(), (time, time + 5));
    }
    assert_eq!(store.first_unparsed(), frames[11].position());
    // Unparsed units first, then the newest of those that overlap the range.
    let units = store.snapshot((50, 70)).unwrap();
    let found: Vec<u64> = units.iter().map(sequence).collect();
    let expected: Vec<u64> = (13..=25).rev().chain([7, 6, 5]).collect();
    assert_eq!(found, expected);
    store.close().unwrap();
    let store = open(&config, &disk, &clock);
    assert_eq!(store.first_unparsed(), frames[11].position());
    assert_eq!(store.stats().time_ns, Some((10, 125)));
    let after = store.first_unparsed();
    let next = store.wait_committed(after, Duration::from_secs(5), || false);
    assert_eq!(next[0].sequence, 13);
    assert_eq!(next.len(), 13);
}

#[test]
fn a_segment_has_no_more_frames_than_it_may() {
    let dir = tempfile::tempdir().unwrap();
    let (disk, clock) = real();
    let config = StoreConfig { segment_frames_max: 3, ..config(dir.path()) };
    let store = open(&config, &disk, &clock);
    let add = |frames: usize| {
        let frames = (0..frames).map(|_| frame_at(store.next_sequence(), 1000, 10, 5)).collect();
        assert!(append(&store, frames).iter().all(Result::is_ok));
        store.stats().segments
    };
    assert_eq!([add(1), add(1), add(1), add(1)], [1, 1, 1, 2]);
    // Frames of one group commit are split over several segments.
    assert_eq!([add(2), add(7)], [2, 5]);
    assert_eq!(all(&store).len(), 13);
}

#[test]
fn second_instance_learns_who_has_the_directory() {
    let dir = tempfile::tempdir().unwrap();
    let (disk, clock) = real();
    let config = config(dir.path());
    let store = open(&config, &disk, &clock);
    let error = Store::open(config.clone(), disk.clone(), clock.clone()).err().unwrap();
    assert!(
        matches!(error, StoreError::Locked { holder: Some(pid), .. } if pid == std::process::id())
    );
    let text = error.to_string();
    assert!(
        text.contains(&dir.path().display().to_string()) && text.contains("--data-dir"),
        "{text}"
    );
    store.close().unwrap();
    open(&config, &disk, &clock);
}

#[test]
fn the_node_keeps_its_id_and_finds_it_without_the_catalog() {
    let dir = tempfile::tempdir().unwrap();
    let (disk, clock) = real();
    let config = config(dir.path());
    let store = open(&config, &disk, &clock);
    let node = store.node();
    append(&store, vec![frame_at(store.next_sequence(), 1, 10, 5)]);
    drop(store);
    std::fs::remove_file(dir.path().join("catalog.sqlite")).unwrap();
    let store = open(&config, &disk, &clock);
    assert_eq!(store.node(), node);
    assert_eq!(sequences(&store), [1]);
}

#[test]
fn parse_stage_wakes_when_a_frame_becomes_durable() {
    let dir = tempfile::tempdir().unwrap();
    let (disk, clock) = real();
    let store = open(&config(dir.path()), &disk, &clock);
    std::thread::scope(|scope| {
        let waiter = scope
            .spawn(|| store.wait_committed(Position::START, Duration::from_secs(600), || false));
        append(&store, vec![frame_at(store.next_sequence(), 1, 10, 5)]);
        assert_eq!(waiter.join().unwrap().len(), 1);
        // Closing the store wakes waiters, too.
        let after = Position { segment: 1, frame: 0 };
        let waiter = scope.spawn({
            let store = &store;
            move || store.wait_committed(after, Duration::from_secs(600), || false)
        });
        store.close().unwrap();
        assert!(waiter.join().unwrap().is_empty());
    });
}

#[test]
fn a_frame_whose_words_are_queried_repeatedly_gets_a_filter() {
    let dir = tempfile::tempdir().unwrap();
    let (disk, clock) = real();
    let store = open(&config(dir.path()), &disk, &clock);
    let host = TestHost::new();
    for lines in [1_100, 63] {
        let frame = frame_at(store.next_sequence(), lines, 20, 5);
        assert!(append(&store, vec![frame])[0].is_ok());
    }
    let sets = ["1050", "7777"].map(|word| required_tokens(word.as_bytes(), true, true));
    let frames = all(&store);
    let ask = |frame: usize| frames[frame].may_contain(&sets);
    assert!((0..20).all(|_| ask(0).is_none()), "it is not parsed yet");
    for frame in &frames {
        frame.put(Arc::new(host.parse(frame.read_frame().unwrap().unwrap())));
    }
    assert_eq!((ask(0), ask(0)), (Some(vec![true, false]), Some(vec![true, false])));
    assert!((0..20).all(|_| ask(1).is_none()), "few lines are looked at as quickly");
    let snapshot = store.snapshot((i64::MIN, i64::MAX)).unwrap();
    let held: Vec<_> = snapshot.iter().map(|unit| unit.may_contain(&sets).unwrap()).collect();
    assert!(held.contains(&Some(vec![true, false])), "{held:?}");
}
