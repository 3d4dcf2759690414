//! Frames of other nodes: the store knows which of them it holds after every kind of end, also when
//! the segments that held them are sealed or deleted.

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc;

use crate::common::{TestHost, all, config, frame_at, lines, lines_of, open, parse_all, work};
use platform::{Access, Clock, Disk, ManualClock, OnDurable, Patience, SimDisk};
use record::{LineId, NodeIdentity};
use store::{NodeRefusal, Store, StoreConfig};

const NODE: u32 = 77;

fn identity(starts: u64, run: u64) -> NodeIdentity {
    NodeIdentity { node: NODE, key: 5, starts, run }
}

/// Makes frames with these numbers durable.
fn forward(store: &Store, numbers: impl IntoIterator<Item = u64>) {
    forward_of(store, NODE, numbers);
}

fn forward_of(store: &Store, node: u32, numbers: impl IntoIterator<Item = u64>) {
    let (sender, receiver) = mpsc::channel();
    for number in numbers {
        let sender = sender.clone();
        let frame = frame_at((node, number), 3, 100, 1);
        let done: OnDurable = Box::new(move |r| sender.send(r).unwrap());
        store.append(vec![(frame, done)], Patience::Unlimited).unwrap();
    }
    drop(sender);
    receiver.iter().for_each(|result| result.unwrap());
}

fn held(store: &Store) -> Vec<(u64, u64)> {
    store.held(NODE).ranges().collect()
}

fn bench() -> (StoreConfig, Arc<dyn Disk>, Arc<dyn Clock>) {
    (config(Path::new("/data")), Arc::new(SimDisk::new(1)), Arc::new(ManualClock::new(0)))
}

#[test]
fn numbers_are_known_after_a_restart_and_lines_have_ids_of_their_own() {
    let (config, disk, clock) = bench();
    let store = open(&config, &disk, &clock);
    store.admit(&identity(1, 1), 1).unwrap();
    forward(&store, 1..=4);
    // A jump over more numbers than 32 bits hold.
    let far = 9 << 32;
    store.admit(&identity(1, 1), far).unwrap();
    forward(&store, [far, far + 2]);
    let expected = vec![(1, 4), (far, far), (far + 2, far + 2)];
    assert_eq!(held(&store), expected);
    let ids: Vec<u64> = all(&store).iter().map(store::FrameHandle::sequence).collect();
    assert!(ids.windows(2).all(|pair| pair[0] < pair[1]), "{ids:?}");
    drop(store);
    let store = open(&config, &disk, &clock);
    assert_eq!(held(&store), expected);
    forward(&store, [far + 1]);
    assert_eq!(held(&store), [(1, 4), (far, far + 2)]);
    let (_, next) = store.next_sequence();
    assert!(next > ids[5] + 1, "numbers of forwarded frames are not given again");
    let host = TestHost::new();
    let numbers = [1, 2, 3, 4, far, far + 1, far + 2];
    let check = |state: &str| {
        for sequence in numbers {
            let id = LineId { node: NODE, sequence, line: 1 };
            let found = lines_of(&store.find(id).unwrap(), &host);
            assert!(found.iter().any(|line| line.0 == id), "{id} {state}");
        }
        let own = LineId { node: store.node(), sequence: ids[0], line: 1 };
        assert!(store.find(own).unwrap().is_empty(), "{own} {state}");
        let names: Vec<LineId> = lines(&store, &host).into_iter().map(|line| line.0).collect();
        let expected = numbers
            .iter()
            .flat_map(|&sequence| (0..3).map(move |line| LineId { node: NODE, sequence, line }));
        assert!(names.into_iter().eq(expected), "{state}");
    };
    check("hot");
    store.roll();
    parse_all(&store, &host);
    work(&store, &host);
    assert_eq!(store.stats().frames, 0, "all are sealed");
    check("sealed");
}

#[test]
fn numbers_outlive_their_segments() {
    let (config, disk, clock) = bench();
    let host = TestHost::new();
    let store = open(&config, &disk, &clock);
    store.admit(&identity(1, 1), 1).unwrap();
    forward(&store, 1..=4);
    store.roll();
    parse_all(&store, &host);
    work(&store, &host);
    assert_eq!(store.stats().sealing.sealed_segments, 1);
    drop(store);
    let store = open(&config, &disk, &clock);
    assert_eq!(held(&store), [(1, 4)], "after sealing");
    forward(&store, 5..=6);
    store.roll();
    drop(store);
    let expiring = StoreConfig { age_ns: Some(1), ..config.clone() };
    let store = open(&expiring, &disk, &clock);
    store.run_retention(1_000);
    assert_eq!(all(&store).len(), 0);
    drop(store);
    assert_eq!(held(&open(&config, &disk, &clock)), [(1, 6)], "after everything was deleted");
}

/// A power cut while a file is created may leave one without a header. Its removal must not take
/// the empty file before it along, which alone says what the store holds.
#[test]
fn an_unfinished_file_does_not_cost_the_record_of_the_numbers() {
    let (config, disk, clock) = bench();
    let host = TestHost::new();
    let store = open(&config, &disk, &clock);
    store.admit(&identity(1, 1), 1).unwrap();
    forward(&store, 1..=4);
    store.roll();
    parse_all(&store, &host);
    work(&store, &host);
    // As a request to delete lines does. Without a frame, no newer file is made.
    store.roll();
    let next = store.next_sequence().1;
    drop(store);
    let place = config.data_dir.join("segments/99.hot");
    disk.open(&place, Access::Create).unwrap().sync_data().unwrap();
    disk.sync_dir(place.parent().unwrap()).unwrap();
    for start in 0..3 {
        let store = open(&config, &disk, &clock);
        assert_eq!(held(&store), [(1, 4)], "{start}");
        assert!(store.next_sequence().1 >= next, "{start}");
        assert!(disk.file_bytes(&place).is_err(), "{start}");
    }
}

#[test]
fn a_store_tells_what_it_took_and_what_is_left_of_it() {
    let (config, disk, clock) = bench();
    let host = TestHost::new();
    let store = open(&config, &disk, &clock);
    let told = |store: &Store| {
        let frames = store.frames_of_nodes().remove(&NODE).unwrap();
        let ranges = |numbers: &record::Numbers| numbers.ranges().collect::<Vec<_>>();
        (ranges(&frames.taken), ranges(&frames.stored))
    };
    let numbers_read = |store: &Store, range| {
        let units = store.units_of_frames(NODE, range).unwrap();
        let lines = units.iter().flat_map(|unit| lines_of(std::slice::from_ref(unit), &host));
        let numbers = lines.map(|line| line.0.sequence).filter(|n| (range.0..=range.1).contains(n));
        numbers.collect::<std::collections::BTreeSet<_>>().into_iter().collect::<Vec<_>>()
    };
    assert!(store.frames_of_nodes().is_empty());
    store.admit(&identity(1, 1), 1).unwrap();
    forward(&store, (1..=4).chain(8..=9));
    for state in ["hot", "sealed"] {
        assert_eq!(told(&store), (vec![(1, 4), (8, 9)], vec![(1, 4), (8, 9)]), "{state}");
        assert_eq!(numbers_read(&store, (3, 8)), [3, 4, 8], "{state}");
        assert_eq!(numbers_read(&store, (5, 7)), [0; 0], "{state}");
        store.roll();
        parse_all(&store, &host);
        work(&store, &host);
    }
    // Another copy has taken these, and nothing is left of them there.
    let mut taken = record::Numbers::new();
    taken.insert_range(10, 12);
    store.note_taken(NODE, &taken);
    forward(&store, [13]);
    drop(store);
    let expiring = StoreConfig { age_ns: Some(1), ..config.clone() };
    let store = open(&expiring, &disk, &clock);
    store.run_retention(1_000);
    assert_eq!(told(&store), (vec![(1, 4), (8, 13)], vec![]), "after everything expired");
}

#[test]
fn copies_and_namesakes_are_refused() {
    let (config, disk, clock) = bench();
    let store = open(&config, &disk, &clock);
    let admit = |identity: NodeIdentity| store.admit(&identity, 1);
    admit(identity(2, 8)).unwrap();
    admit(identity(2, 8)).unwrap();
    assert!(matches!(admit(identity(2, 9)), Err(NodeRefusal::Copy(NODE))));
    assert!(matches!(admit(identity(1, 8)), Err(NodeRefusal::Copy(NODE))));
    admit(identity(3, 9)).unwrap();
    let other = NodeIdentity { key: 6, ..identity(4, 1) };
    assert!(matches!(admit(other), Err(NodeRefusal::Taken(NODE))));
    let own = NodeIdentity { node: store.node(), ..identity(1, 1) };
    assert!(matches!(admit(own), Err(NodeRefusal::Taken(_))));
    // The same holds when the node is disconnected and has sent frames.
    forward(&store, [1]);
    (0..3).for_each(|_| store.leave(NODE));
    assert!(matches!(admit(identity(1, 8)), Err(NodeRefusal::Copy(NODE))));
    assert!(matches!(admit(other), Err(NodeRefusal::Taken(NODE))));
}

#[test]
fn a_forged_count_of_starts_locks_nobody_out() {
    let (config, disk, clock) = bench();
    let store = open(&config, &disk, &clock);
    let come = |starts: u64, run: u64| {
        let admitted = store.admit(&identity(starts, run), 1);
        admitted.is_ok().then(|| store.leave(NODE));
        admitted
    };
    // A node that sent no frame does not restrict others.
    come(u64::MAX, 1).unwrap();
    come(5, 2).unwrap();
    store.admit(&identity(5, 2), 1).unwrap();
    forward(&store, [1]);
    store.leave(NODE);
    assert!(matches!(come(u64::MAX, 3), Err(NodeRefusal::Starts(NODE))));
    come(6, 4).unwrap();
}

#[test]
fn numbers_that_a_start_skips_are_not_held() {
    let (config, disk, clock) = bench();
    let store = open(&config, &disk, &clock);
    for first in [1 << 60, 9, 1 << 60, 1] {
        store.admit(&identity(1, 1), first).unwrap();
        assert_eq!(held(&store), [], "after a start at {first}");
    }
    forward(&store, [3, 4]);
    store.admit(&identity(1, 1), 1 << 60).unwrap();
    assert_eq!(held(&store), [(3, 4)]);
    store.admit(&identity(1, 1), 1).unwrap();
    forward(&store, [1]);
    assert_eq!(held(&store), [(1, 1), (3, 4)]);
    drop(store);
    assert_eq!(held(&open(&config, &disk, &clock)), [(1, 1), (3, 4)]);
}

#[test]
fn nodes_that_brought_nothing_make_place_and_the_others_do_not() {
    const DAY_NS: i64 = 86_400_000_000_000;
    const NODES_MAX: usize = 128;
    let config = StoreConfig { nodes_max: NODES_MAX, ..config(Path::new("/data")) };
    let disk = Arc::new(SimDisk::new(1)) as Arc<dyn Disk>;
    let manual = Arc::new(ManualClock::new(0));
    let clock: Arc<dyn Clock> = manual.clone();
    let store = open(&config, &disk, &clock);
    let come = |node: u32| {
        let admitted = store.admit(&NodeIdentity { node, ..identity(1, 1) }, 1);
        admitted.is_ok().then(|| store.leave(node));
        admitted
    };
    store.admit(&identity(1, 1), 1).unwrap();
    forward(&store, [1]);
    // Nodes that send nothing may come with any number of ids.
    (1_000_000..1_000_300).for_each(|node| come(node).unwrap());
    assert_eq!(held(&store), [(1, 1)]);
    // Once frames of each node are there, the store refuses further nodes.
    let bring = |node: u32| {
        store.admit(&NodeIdentity { node, ..identity(1, 1) }, 1).unwrap();
        let (sender, receiver) = mpsc::channel();
        let frame = frame_at((node, 1), 3, 100, 1);
        let done: OnDurable = Box::new(move |r| sender.send(r).unwrap());
        store.append(vec![(frame, done)], Patience::Unlimited).unwrap();
        receiver.recv().unwrap().unwrap();
        store.leave(node);
    };
    (2_000_000..2_000_000 + NODES_MAX as u32 - 1).for_each(bring);
    assert!(matches!(come(5), Err(NodeRefusal::TooMany { .. })));
    manual.advance_ns(29 * DAY_NS);
    come(2_000_001).unwrap();
    assert!(matches!(come(5), Err(NodeRefusal::TooMany { .. })));
    // After a long time, nodes that are away give up their places; the connected node and the one
    // that was seen lately do not.
    manual.advance_ns(2 * DAY_NS);
    for node in 3_000_000..3_000_000 + NODES_MAX as u32 - 2 {
        store.admit(&NodeIdentity { node, ..identity(1, 1) }, 1).unwrap();
    }
    assert!(matches!(come(5), Err(NodeRefusal::TooMany { .. })));
    assert_eq!(held(&store), [(1, 1)]);
    assert_eq!(store.held(2_000_001).ranges().collect::<Vec<_>>(), [(1, 1)]);
    assert_eq!(store.held(2_000_002).ranges().count(), 0);
}

#[test]
fn thousands_of_nodes_are_told_apart_after_a_start() {
    // Half of them with a gap: the ranges take a dozen blocks of a header.
    const NODES: u32 = 1_300;
    let config = config(Path::new("/data"));
    let disk = Arc::new(SimDisk::new(1)) as Arc<dyn Disk>;
    let clock: Arc<dyn Clock> = Arc::new(ManualClock::new(0));
    let host = TestHost::new();
    let mut store = open(&config, &disk, &clock);
    for round in 0..2 {
        for node in 100..100 + NODES {
            let numbers: &[u64] = if node % 2 == 0 { &[1] } else { &[1, 3] };
            store.admit(&NodeIdentity { node, ..identity(1, 1) }, 1).unwrap();
            if round == 0 {
                forward_of(&store, node, numbers.iter().copied());
            }
            store.leave(node);
        }
        // The segment in which the frames are is closed, and its successor has the ranges.
        store.roll();
        parse_all(&store, &host);
        work(&store, &host);
        drop(store);
        store = open(&config, &disk, &clock);
        for node in 100..100 + NODES {
            let expected: &[(u64, u64)] = if node % 2 == 0 { &[(1, 1)] } else { &[(1, 1), (3, 3)] };
            assert_eq!(store.held(node).ranges().collect::<Vec<_>>(), expected, "{round}: {node}");
        }
    }
}

#[test]
fn power_cuts_while_a_header_of_several_blocks_is_written_forget_no_number() {
    const NODES: u32 = 120;
    let numbers = [1, 3];
    let mut cut = 1;
    loop {
        let (config, clock) = (config(Path::new("/data")), ManualClock::new(0));
        let dir = tempfile::tempdir().unwrap();
        let sim = SimDisk::new(cut).with_os_dir(dir.path().to_owned());
        let (disk, clock): (Arc<dyn Disk>, Arc<dyn Clock>) =
            (Arc::new(sim.clone()), Arc::new(clock));
        let host = TestHost::new();
        let store = open(&config, &disk, &clock);
        for node in 100..100 + NODES {
            forward_of(&store, node, numbers);
        }
        parse_all(&store, &host);
        sim.crash_at_change(cut);
        // Its successor is created with 240 ranges before it is sealed.
        store.roll();
        for _ in 0..500 {
            if sim.is_crashed() {
                break;
            }
            store.background_step(&host);
        }
        let was_cut = sim.is_crashed();
        sim.crash();
        let _ = store.close();
        drop(store);
        sim.restart();
        let (store, report) = Store::open(config.clone(), disk.clone(), clock.clone()).unwrap();
        assert!(report.dropped.is_empty(), "change {cut}: {:?}", report.dropped);
        for node in 100..100 + NODES {
            let found: Vec<_> = store.held(node).ranges().collect();
            assert_eq!(found, [(1, 1), (3, 3)], "change {cut}: node {node}");
        }
        assert_eq!(lines(&store, &host).len(), NODES as usize * 2 * 3, "change {cut}");
        if !was_cut {
            break;
        }
        cut += 1;
    }
    assert!(cut > 10, "{cut}");
}

#[test]
fn a_deletion_binds_lines_that_were_received_before_and_come_later() {
    const DAY_NS: i64 = 24 * 3_600_000_000_000;
    let dir = tempfile::tempdir().unwrap();
    let disk: Arc<dyn Disk> = Arc::new(SimDisk::new(1).with_os_dir(dir.path().to_owned()));
    let clock = Arc::new(ManualClock::new(10_000));
    let (config, host) = (config(Path::new("/data")), TestHost::new());
    let open = || {
        let clock: Arc<dyn Clock> = clock.clone();
        Store::open_stepped(config.clone(), disk.clone(), clock).unwrap().0
    };
    let bring = |store: &Store, number: u64, received_ns: i64| {
        let frame = frame_at((NODE, number), 20, 100, received_ns);
        store.append(vec![(frame, Box::new(|_| ()))], Patience::Unlimited).unwrap();
        store.writer_step();
    };
    let seal = |store: &Store| {
        store.roll();
        parse_all(store, &host);
        work(store, &host);
    };
    let marked = |store: &Store| {
        let all = lines(store, &host).into_iter();
        all.filter(|(_, _, _, raw)| raw.windows(2).any(|pair| pair == b"-7")).count()
    };
    let store = open();
    store.admit(&identity(1, 1), 1).unwrap();
    bring(&store, 1, 9_000);
    store.delete_lines("-7").unwrap();
    seal(&store);
    assert_eq!((marked(&store), store.deletions()[0].0.lines), (0, 1));
    assert_eq!(store.deletions()[0].0.state, store::DeletionState::Done);
    // Frames 2 and 3 waited in a spool; frame 4 was received after the deletion was requested.
    clock.advance_ns(DAY_NS);
    bring(&store, 2, 9_999);
    seal(&store);
    assert_eq!((marked(&store), store.deletions()[0].0.lines), (0, 2));
    drop(store);
    let store = open();
    bring(&store, 3, 9_500);
    bring(&store, 4, 10_000);
    let own = frame_at(store.next_sequence(), 20, 100, 5);
    store.append(vec![(own, Box::new(|_| ()))], Patience::Unlimited).unwrap();
    store.writer_step();
    // While it is written, it is sealed already.
    parse_all(&store, &host);
    work(&store, &host);
    seal(&store);
    assert_eq!(marked(&store), 2, "that of frame 4, and the store's own");
    assert_eq!(store.deletions()[0].0.lines, 3);
    assert_eq!(lines(&store, &host).len(), 5 * 20 - 3);
    // Thirty days later it is over, and its filter is removed.
    clock.advance_ns(28 * DAY_NS);
    store.run_retention(clock.now_ns());
    assert_eq!(store.deletions()[0].0.filter, "-7");
    clock.advance_ns(2 * DAY_NS);
    store.run_retention(clock.now_ns());
    assert_eq!(store.deletions()[0].0.filter, "");
    drop(store);
    let store = open();
    bring(&store, 5, 9_500);
    seal(&store);
    assert_eq!((marked(&store), store.deletions()[0].0.filter.as_str()), (3, ""));
}

#[test]
fn no_filter_is_left_in_the_catalog_where_no_other_node_brings_lines() {
    let dir = tempfile::tempdir().unwrap();
    let disk: Arc<dyn Disk> = Arc::new(SimDisk::new(1).with_os_dir(dir.path().to_owned()));
    let clock: Arc<dyn Clock> = Arc::new(ManualClock::new(10_000));
    let (config, host) = (config(Path::new("/data")), TestHost::new());
    let store = Store::open_stepped(config, disk, clock).unwrap().0;
    let value = format!("customer-{}", "4711".repeat(2_000));
    let is_in_catalog = || {
        let bytes = std::fs::read(dir.path().join("catalog.sqlite")).unwrap();
        bytes.windows(40).any(|part| value.as_bytes().windows(40).any(|of| of == part))
    };
    let frame = frame_at(store.next_sequence(), 20, 100, 5);
    store.append(vec![(frame, Box::new(|_| ()))], Patience::Unlimited).unwrap();
    store.writer_step();
    store.delete_lines(&value).unwrap();
    assert!(is_in_catalog(), "it resumes after a restart");
    parse_all(&store, &host);
    work(&store, &host);
    let (deletion, _) = store.deletions().remove(0);
    assert_eq!((deletion.state, deletion.filter.as_str()), (store::DeletionState::Done, ""));
    assert!(!is_in_catalog());
}
