//! Frames of other nodes: the store knows which of them it holds after every kind of end, also when
//! the segments that held them are sealed or deleted.

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc;

use crate::common::{TestHost, all, config, frame_at, lines, lines_of, open, parse_all, work};
use platform::{Clock, Disk, ManualClock, OnDurable, Patience, SimDisk};
use record::{LineId, NodeIdentity};
use store::{NODES_MAX, NodeRefusal, Store, StoreConfig};

const NODE: u32 = 77;

fn identity(starts: u64, run: u64) -> NodeIdentity {
    NodeIdentity { node: NODE, key: 5, starts, run }
}

/// Makes frames with these numbers durable.
fn forward(store: &Store, numbers: impl IntoIterator<Item = u64>) {
    let (sender, receiver) = mpsc::channel();
    for number in numbers {
        let sender = sender.clone();
        let frame = frame_at((NODE, number), 3, 100, 1);
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
    store.run_retention(i64::MAX);
    assert_eq!(all(&store).len(), 0);
    drop(store);
    assert_eq!(held(&open(&config, &disk, &clock)), [(1, 6)], "after everything was deleted");
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
    let (config, disk) = (config(Path::new("/data")), Arc::new(SimDisk::new(1)) as Arc<dyn Disk>);
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
    assert!(matches!(come(5), Err(NodeRefusal::TooMany)));
    manual.advance_ns(29 * DAY_NS);
    come(2_000_001).unwrap();
    assert!(matches!(come(5), Err(NodeRefusal::TooMany)));
    // After a long time, nodes that are away give up their places; the connected node and the one
    // that was seen lately do not.
    manual.advance_ns(2 * DAY_NS);
    for node in 3_000_000..3_000_000 + NODES_MAX as u32 - 2 {
        store.admit(&NodeIdentity { node, ..identity(1, 1) }, 1).unwrap();
    }
    assert!(matches!(come(5), Err(NodeRefusal::TooMany)));
    assert_eq!(held(&store), [(1, 1)]);
    assert_eq!(store.held(2_000_001).ranges().collect::<Vec<_>>(), [(1, 1)]);
    assert_eq!(store.held(2_000_002).ranges().count(), 0);
}
